"""Laws of the transforms, on random cases: what a rewrite leaves alone, the referee counts the same."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given, settings, strategies as st

from polymap.costmodel.counts import Counts
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.loopnest import Workload
from polymap.ir.mapping import Mapping, Spatial, Storage, Temporal
from polymap.schedules.check import check_mapping
from polymap.transform.trees import (
    bypass,
    interchange,
    move_storage,
    parallelize,
    places,
    serialize,
    split,
    stage,
)
from tests.cases import Case, random_case, random_general_case

SEEDS = st.integers(0, 10**6)
law = settings(max_examples=30)


def drawn(seed: int) -> Case:
    rng = random.Random(seed)
    return random_case(rng) if seed % 3 else random_general_case(rng)


def counted(case: Case, mapping: Mapping) -> Counts:
    check_mapping(case.workload, case.arch, mapping)
    return count_by_simulation(case.workload, case.arch, mapping)


@law
@given(SEEDS, st.integers(1, 4))
def test_splitting_a_loop_changes_no_count(seed: int, inner: int) -> None:
    case = drawn(seed)
    dims = [node.dim for _, node in places(case.mapping) if isinstance(node, Temporal)]
    for dim in dict.fromkeys(dims):
        divided = split(case.mapping, dim, inner=inner)
        assert len(divided.nodes) + sum(1 for _ in places(divided)) > len(case.mapping.nodes)
        assert counted(case, divided) == counted(case, case.mapping)


@law
@given(SEEDS)
def test_interchanging_twice_is_nothing_and_once_keeps_instances_and_steps(seed: int) -> None:
    case = random_case(random.Random(seed))
    nodes = case.mapping.nodes
    for at, (one, other) in enumerate(pairwise(nodes)):
        if isinstance(one, Temporal | Spatial) and isinstance(other, Temporal | Spatial) and one.dim != other.dim:
            swapped = interchange(case.mapping, at)
            assert interchange(swapped, at) == case.mapping
            before, after = counted(case, case.mapping), counted(case, swapped)
            assert (before.instances, before.steps) == (after.instances, after.steps)


@law
@given(SEEDS)
def test_the_order_of_spatial_loops_over_different_fan_outs_is_free(seed: int) -> None:
    case = drawn(seed)
    nodes = case.mapping.nodes
    for at, (one, other) in enumerate(pairwise(nodes)):
        if not (isinstance(one, Spatial) and isinstance(other, Spatial)):
            continue
        if one.dim != other.dim and one.fanout != other.fanout:
            assert counted(case, interchange(case.mapping, at)) == counted(case, case.mapping)


@law
@given(SEEDS)
def test_storing_is_undone_by_bypassing(seed: int) -> None:
    case = drawn(seed)
    level = case.arch.levels[-1].name
    for tensor in case.workload.tensors:
        held = any(
            isinstance(node, Storage) and node.level == level and tensor.name in node.tensors
            for _, node in places(case.mapping)
        )
        if not held:
            for place, _ in places(case.mapping):
                added = stage(case.mapping, place, level=level, tensor=tensor.name)
                assert bypass(added, level=level, tensor=tensor.name) == case.mapping


@law
@given(SEEDS)
def test_running_side_by_side_and_one_after_the_other_undo_each_other(seed: int) -> None:
    case = drawn(seed)
    for place, node in places(case.mapping):
        if isinstance(node, Temporal):
            assert serialize(parallelize(case.mapping, place, fanout="X"), place) == case.mapping


@law
@given(SEEDS)
def test_moving_a_node_there_and_back_is_nothing(seed: int) -> None:
    case = random_case(random.Random(seed))
    room = len(case.mapping.nodes) - 1
    for at, node in enumerate(case.mapping.nodes):
        if isinstance(node, Storage):
            for target in range(room):
                moved = move_storage(case.mapping, at, by=target - at)
                assert moved.nodes[target] == node
                assert move_storage(moved, target, by=at - target) == case.mapping


@law
@given(SEEDS)
def test_without_ragged_ends_a_node_may_pass_loops_that_its_tensors_lack(seed: int) -> None:
    # With them it may not: an instance that is idle at the end of such a loop gives up its outputs there.
    case = random_case(random.Random(seed))
    if {"partial tiles", "spatial partial tiles"} & case.features:
        return
    for at, (node, loop) in enumerate(pairwise(case.mapping.nodes)):
        if isinstance(node, Storage) and isinstance(loop, Temporal) and not _use(case.workload, node, loop.dim):
            assert counted(case, move_storage(case.mapping, at, by=1)) == counted(case, case.mapping)


def _use(workload: Workload, node: Storage, dim: str) -> bool:
    """Return whether an access to a tensor of the node has the dim."""
    accesses = [access for each in workload.statements for access in (each.target, *each.reads)]
    return any(dim in index.dims for access in accesses if access.tensor in node.tensors for index in access.index)
