"""The linear measures: which accesses of which level they weigh, and their weighted sums."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from polymap.costmodel.cost import Cost
from polymap.costmodel.evaluation import evaluate
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.search.problem.components import (
    Component,
    bandwidth_components,
    bits_component,
    energy_component,
    held_component,
    weighted_sum,
)
from polymap.search.problem.magnitudes import most_costed, most_counted
from polymap.workload.einsums import einsum
from tests.cases import random_case
from tests.times import few

GEMM = einsum("C[m,n] += A[m,k] * B[k,n]", bits={"A": 8, "B": 16, "C": 32}, m=4, n=4, k=4)
ARCH = Architecture(
    "three bands",
    (
        MemoryLevel("DRAM", None, 8, Fraction(5), Fraction(7, 2), bandwidth_bits_per_cycle=Fraction(16)),
        MemoryLevel(
            "GLB",
            4096,
            32,
            Fraction(2),
            Fraction(3),
            read_bandwidth_bits_per_cycle=Fraction(8),
            write_bandwidth_bits_per_cycle=Fraction(4),
        ),
        Fanout("X", 2),
        MemoryLevel("RF", None, 8, Fraction(1), Fraction(1)),
        ComputeUnit("MAC", Fraction(1)),
    ),
)


def weighed(component: Component, workload: Workload, arch: Architecture, cost: Cost) -> int:
    """Return what a component says of all the traffic of a cost, instances added up."""
    level = {one.name: i for i, one in enumerate(arch.levels)}
    tensor = {one.name: i for i, one in enumerate(workload.tensors)}
    return sum(
        row.reads * component.read[level[row.level]][tensor[row.tensor]]
        + row.writes * component.write[level[row.level]][tensor[row.tensor]]
        for row in cost.traffic
    )


def test_weights_are_bits_and_energies_of_the_level_and_no_other() -> None:
    bits = [tensor.bits for tensor in GEMM.tensors]
    none = (0, 0, 0)
    both = bits_component(GEMM, ARCH, "GLB", busiest=False)
    assert both.read == both.write == (none, tuple(bits), none)
    assert (both.busiest, both.held) == (False, ())
    reads = bits_component(GEMM, ARCH, "GLB", busiest=True, writes=False)
    assert (reads.read, reads.write) == ((none, tuple(bits), none), (none, none, none))
    assert reads.busiest
    held = held_component(GEMM, ARCH, "RF")
    assert (held.held, held.read, held.write) == ((none, none, tuple(bits)), (none, none, none), (none, none, none))
    energy = energy_component(GEMM, ARCH, 4)
    assert energy.read[0] == tuple(5 * b // 8 * 4 for b in bits)
    assert energy.write[0] == tuple(14 * b // 8 for b in bits)
    assert energy.read[1] == tuple(2 * b * 4 // 32 for b in bits)


def test_every_bandwidth_is_one_component_of_the_busiest_instance() -> None:
    found = [(one.name, one.bandwidth, any(one.read[1]), any(one.write[1])) for one in bandwidth_components(GEMM, ARCH)]
    assert found == [
        ("bits:DRAM", Fraction(16), False, False),
        ("bits:GLB", Fraction(8), True, False),
        ("bits:GLB", Fraction(4), False, True),
    ]
    assert all(one.busiest for one in bandwidth_components(GEMM, ARCH))


rows = st.lists(st.lists(st.integers(0, 99), min_size=2, max_size=2).map(tuple), min_size=3, max_size=3).map(tuple)


@given(st.lists(st.tuples(st.integers(1, 9), rows, rows, st.one_of(st.just(()), rows)), min_size=1, max_size=4))
def test_a_weighted_sum_weighs_every_entry(parts: list[tuple[int, tuple, tuple, tuple]]) -> None:
    components = [
        (weight, Component("part", read, write, busiest=False, bandwidth=Fraction(1), held=held))
        for weight, read, write, held in parts
    ]
    whole = weighted_sum(components)
    for level in range(3):
        for tensor in range(2):
            assert whole.read[level][tensor] == sum(w * one.read[level][tensor] for w, one in components)
            assert whole.write[level][tensor] == sum(w * one.write[level][tensor] for w, one in components)
            held = sum(w * one.held[level][tensor] for w, one in components if one.held)
            assert (whole.held[level][tensor] if whole.held else 0) == held
    assert bool(whole.held) == any(one.held for _, one in components)


@pytest.mark.parametrize("seed", few(range(60), 12))
def test_no_cost_of_a_tree_is_above_what_is_derived_before_any_table(seed: int) -> None:
    case = random_case(random.Random(f"magnitudes {seed}"))
    workload, arch = case.workload, case.arch
    cost = evaluate(workload, arch, case.mapping)
    most = most_counted(workload)
    for row in cost.traffic:
        assert max(row.fills, row.drains) <= most
    energy = energy_component(workload, arch, 2**40 * 3**8 * 5**8)
    for component in (energy, *(bits_component(workload, arch, one.name, busiest=False) for one in arch.levels)):
        assert weighed(component, workload, arch, cost) < most_costed(workload, arch, component)
    for level in arch.levels[1:]:
        held = held_component(workload, arch, level.name)
        assert dict(cost.occupancy_bits)[level.name] < most_costed(workload, arch, held)
