"""Laws that any right count keeps, checked on the simulator: they use no second counter."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise, product
from math import prod

from hypothesis import given, settings, strategies as st

from polymap.costmodel.counts import Counts, Traffic
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.loopnest import Workload, accesses_of, written_tensors
from polymap.ir.machine import Architecture, Fanout, Multicast
from polymap.ir.mapping import Spatial
from tests.case_features import paths
from tests.cases import Case, random_case, random_general_case

SEEDS = st.integers(0, 10**6)
law = settings(max_examples=30)


def counted(case: Case, arch: Architecture | None = None, workload: Workload | None = None) -> Counts:
    return count_by_simulation(workload or case.workload, arch or case.arch, case.mapping)


def with_fanouts(arch: Architecture, **changes: object) -> Architecture:
    return replace(arch, nodes=tuple(replace(n, **changes) if isinstance(n, Fanout) else n for n in arch.nodes))


def rows(counts: Counts) -> dict[tuple[str, str], Traffic]:
    return {(row.level, row.tensor): row for row in counts.traffic}


def touched(workload: Workload, tensor: str) -> int:
    """Return how many elements the one access to the tensor touches in the box."""
    (access,) = accesses_of(workload.statements[0], tensor)
    extents = workload.extents()
    points = (dict(zip(extents, values, strict=True)) for values in product(*map(range, extents.values())))
    return len({tuple(index.evaluate(point) for index in access.index) for point in points})


@law
@given(SEEDS)
def test_every_instance_runs_once_and_steps_are_as_many_as_spreading_leaves(seed: int) -> None:
    case = random_case(random.Random(seed))
    counts = counted(case)
    assert counts.instances == prod(case.workload.extents().values())
    (path,) = paths(case.workload, case.mapping)
    loops = zip(path.nodes, path.trips, strict=True)
    lanes = prod(trips for node, trips in loops if isinstance(node, Spatial))
    assert counts.steps <= counts.instances <= counts.steps * lanes


@law
@given(SEEDS)
def test_the_outermost_level_serves_every_element_at_least_once(seed: int) -> None:
    case = random_case(random.Random(seed))
    found = rows(counted(case))
    for tensor in case.workload.tensors:
        elements = touched(case.workload, tensor.name)
        row = found["DRAM", tensor.name]
        if tensor.name in written_tensors(case.workload):
            assert row.writes >= elements
            assert row.reads >= (elements if tensor.initial else 0)
            assert row.reads <= row.writes
        else:
            assert row.reads >= elements
            assert row.writes == 0
        assert row.fills == row.drains == 0


@law
@given(SEEDS)
def test_wider_multicast_reads_less_and_moves_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(rng) if seed % 2 else random_general_case(rng)
    none, identical, union = (
        counted(case, with_fanouts(case.arch, multicast=each))
        for each in (Multicast.NONE, Multicast.IDENTICAL, Multicast.UNION)
    )
    for more, less in ((none, identical), (identical, union)):
        for one, other in zip(more.traffic, less.traffic, strict=True):
            assert one.reads >= other.reads
            assert replace(one, reads=0) == replace(other, reads=0)
        assert [use.occupancy_bits for use in more.uses] == [use.occupancy_bits for use in less.uses]


@law
@given(SEEDS)
def test_without_multicast_every_fill_and_every_read_access_is_a_read(seed: int) -> None:
    case = random_case(random.Random(seed))
    found = rows(counted(case, with_fanouts(case.arch, multicast=Multicast.NONE)))
    for tensor in case.workload.tensors:
        if tensor.name not in written_tensors(case.workload):
            chain = [found[key] for key in found if key[1] == tensor.name]
            for row, below in pairwise(chain):
                assert row.reads == below.fills
                assert row.writes == row.fills
            assert chain[-1].reads == prod(case.workload.extents().values())


@law
@given(SEEDS)
def test_adders_save_accesses_and_change_no_move(seed: int) -> None:
    case = random_case(random.Random(seed))
    apart, added = (counted(case, with_fanouts(case.arch, reduction=each)) for each in (False, True))
    for one, other in zip(apart.traffic, added.traffic, strict=True):
        assert (one.fills, one.drains) == (other.fills, other.drains)
        assert one.writes >= other.writes
        # Each arrival that is saved had found a partial sum: one write and one read less.
        assert one.writes - other.writes == one.reads - other.reads


@law
@given(SEEDS)
def test_partial_sums_from_before_come_in_and_change_nothing_that_leaves(seed: int) -> None:
    case = random_case(random.Random(seed))
    (output,) = written_tensors(case.workload)
    zero, initial = (counted(case, workload=starting(case.workload, output, initial=each)) for each in (False, True))
    for one, other in zip(zero.traffic, initial.traffic, strict=True):
        assert one.drains == other.drains
        assert one.writes - one.fills == other.writes - other.fills
        assert one.reads <= other.reads
    # At the outermost level that is one more read per element: whatever comes first finds something.
    more = rows(initial)["DRAM", output].reads - rows(zero)["DRAM", output].reads
    assert more == touched(case.workload, output)


def starting(workload: Workload, output: str, *, initial: bool) -> Workload:
    tensors = tuple(replace(t, initial=initial) if t.name == output else t for t in workload.tensors)
    return replace(workload, tensors=tensors)
