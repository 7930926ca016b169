"""Laws that any right cost keeps, whatever counted it: random mappings through `evaluate`, small spaces through the
search that walks every tree.

The simulator's own laws stand in test_simulator_laws.py.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from polymap.costmodel.bounds import compulsory_traffic
from polymap.costmodel.cost import Cost
from polymap.costmodel.counts import Traffic
from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.referees.trees import exhaustive
from polymap.ir.loopnest import Access, Statement, Workload, accesses_of
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.ir.quasi_affine import Affine
from polymap.workload.einsums import einsum
from tests.cases import Case, random_case

SEEDS = st.integers(0, 10**6)
law = settings(max_examples=30)


def cost_of(case: Case, mapping: Mapping | None = None) -> Cost:
    return evaluate(case.workload, case.arch, mapping or case.mapping)


def rows_of(cost: Cost, tensor: str) -> list[Traffic]:
    return [row for row in cost.traffic if row.tensor == tensor]


@law
@given(SEEDS)
def test_traffic_at_the_outermost_level_is_never_below_compulsory(seed: int) -> None:
    case = random_case(random.Random(seed))
    found = {row.tensor: row for row in cost_of(case).traffic if row.level == "DRAM"}
    for least in compulsory_traffic(case.workload):
        assert least.reads is not None
        assert least.writes is not None
        assert found[least.tensor].reads >= least.reads
        assert found[least.tensor].writes >= least.writes


def small_machine(capacity_bits: int, *, spread: int) -> Architecture:
    fanout = (Fanout("X", spread),) if spread > 1 else ()
    levels = (
        MemoryLevel("DRAM", read_pj=Fraction(64), write_pj=Fraction(64), bandwidth_bits_per_cycle=Fraction(16)),
        MemoryLevel("Buf", capacity_bits, read_pj=Fraction(1), write_pj=Fraction(2)),
    )
    return Architecture("small", (*levels, *fanout, ComputeUnit("MAC", Fraction(1))))


SMALL = (
    einsum("C[m,n] += A[m,k] * B[k,n]", m=2, n=2, k=2),
    einsum("O[p] += I[p+r] * W[r]", p=4, r=2),
    einsum("O[k,p] += I[2*p+r] * W[k,r]", k=2, p=3, r=2),
)


@pytest.mark.slow
@settings(max_examples=8)
@given(
    st.sampled_from(SMALL),
    st.sampled_from(("energy", "latency", "edp", "ed2p", "traffic:DRAM")),
    st.sampled_from(("divide", "any")),
    st.sampled_from((1, 2)),
)
def test_a_larger_buffer_never_makes_the_best_mapping_worse(
    workload: Workload, objective: str, tiles: str, spread: int
) -> None:
    values: list[Fraction] = []
    for capacity in (8, 24, 72, 400):
        found = exhaustive(workload, small_machine(capacity, spread=spread), objective, tiles)
        assert found is not None
        assert found.value is not None, "everything may bypass the buffer"
        values.append(Fraction(found.value))
    assert all(larger <= smaller for smaller, larger in pairwise(values))
    assert values[-1] < values[0] or objective == "latency", "some size matters, or the law says nothing here"


@law
@given(SEEDS)
def test_exchanging_neighbouring_loops_that_a_tensor_lacks_changes_nothing_for_it(seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(rng)
    nodes = case.mapping.nodes
    for place, (one, other) in enumerate(pairwise(nodes)):
        if not (isinstance(one, Temporal) and isinstance(other, Temporal)) or one.dim == other.dim:
            continue
        exchanged = Mapping((*nodes[:place], other, one, *nodes[place + 2 :]))
        before, after = cost_of(case), cost_of(case, exchanged)
        for tensor in case.workload.tensors:
            if not indexed_by(case.workload.statements[0], tensor.name) & {one.dim, other.dim}:
                assert rows_of(before, tensor.name) == rows_of(after, tensor.name)


def indexed_by(statement: Statement, tensor: str) -> set[str]:
    return {dim for access in accesses_of(statement, tensor) for index in access.index for dim in index.dims}


@law
@given(SEEDS)
def test_a_loop_of_one_iteration_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(rng)
    before = cost_of(case)
    for dim, extent in case.workload.extents().items():
        place = rng.randrange(len(case.mapping.nodes))
        tile = extent
        for node in case.mapping.nodes[:place]:
            if isinstance(node, Temporal | Spatial) and node.dim == dim:
                tile = min(tile, node.tile)
        trivial = Temporal(dim, tile + rng.randrange(2))
        assert cost_of(case, Mapping((*case.mapping.nodes[:place], trivial, *case.mapping.nodes[place:]))) == before


@law
@given(SEEDS)
def test_names_of_dims_and_tensors_are_only_names(seed: int) -> None:
    rng = random.Random(seed)
    case = random_case(rng)
    extents = list(case.workload.extents())
    # New names in another alphabetical order, in which the old ones occur for others.
    names = dict(zip(extents, rng.sample([*extents, "zz"], len(extents)), strict=True))
    tensors = {tensor.name: f"T{number}" for number, tensor in enumerate(reversed(case.workload.tensors))}
    before = cost_of(case)
    renamed = Case(
        workload_named(case.workload, names, tensors),
        case.arch,
        Mapping(tuple(node_named(node, names, tensors) for node in case.mapping.nodes)),
        case.features,
    )
    after = cost_of(renamed)
    assert after.traffic == tuple(replace(row, tensor=tensors[row.tensor]) for row in before.traffic)
    assert replace(after, traffic=(), violations=()) == replace(before, traffic=(), violations=())


def workload_named(workload: Workload, names: dict[str, str], tensors: dict[str, str]) -> Workload:
    (statement,) = workload.statements
    return replace(
        workload,
        dims=tuple(replace(dim, name=names[dim.name]) for dim in workload.dims),
        tensors=tuple(replace(tensor, name=tensors[tensor.name]) for tensor in workload.tensors),
        statements=(
            replace(
                statement,
                dims=tuple(names[dim] for dim in statement.dims),
                target=access_named(statement.target, names, tensors),
                reads=tuple(access_named(access, names, tensors) for access in statement.reads),
            ),
        ),
    )


def access_named(access: Access, names: dict[str, str], tensors: dict[str, str]) -> Access:
    indices = tuple(
        Affine(tuple((factor, names[dim]) for dim, factor in index.coefficients().items()), index.constant)
        for index in access.index
    )
    return Access(tensors[access.tensor], indices)


def node_named(node: MappingNode, names: dict[str, str], tensors: dict[str, str]) -> MappingNode:
    match node:
        case Temporal() | Spatial():
            return replace(node, dim=names[node.dim])
        case Storage():
            return replace(node, tensors=tuple(tensors[tensor] for tensor in node.tensors))
        case _:
            assert isinstance(node, Compute)
            return node


@law
@given(SEEDS)
def test_energy_is_the_sum_of_its_parts(seed: int) -> None:
    case = random_case(random.Random(seed))
    cost = cost_of(case)
    bits = {tensor.name: tensor.bits for tensor in case.workload.tensors}
    parts: dict[str, Fraction] = {}
    for level in case.arch.levels:
        accesses = [row for row in cost.traffic if row.level == level.name]
        read = sum((Fraction(row.reads * bits[row.tensor], level.word_bits) for row in accesses), Fraction(0))
        written = sum((Fraction(row.writes * bits[row.tensor], level.word_bits) for row in accesses), Fraction(0))
        leaked = level.leak_pj_per_cycle * cost.latency_cycles
        parts[level.name] = read * level.read_pj + written * level.write_pj + leaked
    parts[case.arch.compute.name] = cost.instances * case.arch.compute.pj
    assert cost.energy_by_level_pj == tuple((name, float(energy)) for name, energy in parts.items())
    assert cost.energy_pj == float(sum(parts.values(), Fraction(0)))
