"""Objectives: which exist, that the compiled measure gives the value of the cost, and that it never falls."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from polymap.costmodel.cost import Cost
from polymap.costmodel.evaluation import evaluate
from polymap.ir.errors import OptionError
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, MappingNode, Storage, Temporal
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import Measure, measure_of, objective_value
from polymap.workload.einsums import einsum

GEMM = einsum("C[m,n] += A[m,k] * B[k,n]", m=6, n=4, k=4, bits={"A": 8, "B": 4, "C": 16})


def machine(*, overlap: bool, leak: Fraction = Fraction(0)) -> Architecture:
    """Return a machine of one instance per level: its busiest instance moves everything."""
    return Architecture(
        "line",
        (
            MemoryLevel("DRAM", None, 16, Fraction(200), Fraction("210.5"), bandwidth_bits_per_cycle=Fraction(24)),
            MemoryLevel(
                "GLB",
                None,
                32,
                Fraction("6.1"),
                Fraction(7),
                leak_pj_per_cycle=leak,
                read_bandwidth_bits_per_cycle=Fraction(64),
                write_bandwidth_bits_per_cycle=Fraction("12.5"),
            ),
            MemoryLevel("RF", None, 8, Fraction(1, 3), Fraction(1, 2)),
            ComputeUnit("MAC", Fraction("0.7"), 3),
        ),
        overlap=overlap,
    )


def random_mapping(rng: random.Random) -> Mapping:
    loops = [("m", 3), ("n", 2), ("k", 2)]
    inner = [("m", 1), ("n", 1), ("k", 1)]
    rng.shuffle(loops)
    rng.shuffle(inner)
    nodes: list[MappingNode] = [Temporal(*loop) for loop in loops]
    nodes += [Storage("GLB", (tensor,)) for tensor in ("A", "B", "C") if rng.random() < 0.7]
    nodes += [Temporal(*loop) for loop in inner]
    nodes += [Storage("RF", (tensor,)) for tensor in ("A", "B", "C") if rng.random() < 0.7]
    return Mapping((*nodes, Compute("S")))


def parts_of(workload: Workload, arch: Architecture, measure: Measure, cost: Cost) -> tuple[int, ...]:
    """Return the component values of a cost on a machine of one instance per level."""
    level = {one.name: i for i, one in enumerate(arch.levels)}
    tensor = {one.name: i for i, one in enumerate(workload.tensors)}
    return tuple(
        sum(
            row.reads * component.read[level[row.level]][tensor[row.tensor]]
            + row.writes * component.write[level[row.level]][tensor[row.tensor]]
            for row in cost.traffic
        )
        for component in measure.components
    )


OBJECTIVES = ("energy", "latency", "edp", "ed2p", "traffic:DRAM", "traffic:GLB", "traffic:RF")


@pytest.mark.parametrize("leak", [Fraction(0), Fraction("0.25")])
@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("text", OBJECTIVES)
def test_the_measure_of_the_components_is_the_objective_of_the_cost(text: str, overlap: bool, leak: Fraction) -> None:
    arch = machine(overlap=overlap, leak=leak)
    objective = parse_objective(text, arch)
    measure = measure_of(objective, GEMM, arch)
    for seed in range(6):
        cost = evaluate(GEMM, arch, random_mapping(random.Random(seed)))
        value = measure.value(parts_of(GEMM, arch, measure, cost), cost.compute_cycles)
        assert measure.unscaled(value) == objective_value(GEMM, arch, objective, cost)


@pytest.mark.parametrize("leak", [Fraction(0), Fraction("0.25")])
def test_the_objective_is_what_the_cost_reports(leak: Fraction) -> None:
    arch = machine(overlap=True, leak=leak)
    cost = evaluate(GEMM, arch, random_mapping(random.Random(1)))
    energy = objective_value(GEMM, arch, parse_objective("energy", arch), cost)
    assert float(energy) == cost.energy_pj
    assert objective_value(GEMM, arch, parse_objective("latency", arch), cost) == cost.latency_cycles
    assert objective_value(GEMM, arch, parse_objective("edp", arch), cost) == energy * cost.latency_cycles
    assert objective_value(GEMM, arch, parse_objective("ed2p", arch), cost) == energy * cost.latency_cycles**2
    bits = sum((row.reads + row.writes) * GEMM.tensor(row.tensor).bits for row in cost.traffic if row.level == "GLB")
    assert objective_value(GEMM, arch, parse_objective("traffic:GLB", arch), cost) == bits


@given(st.sampled_from(OBJECTIVES), st.booleans(), st.data())
def test_the_measure_never_falls_when_a_component_rises(text: str, overlap: bool, data: st.DataObject) -> None:
    arch = machine(overlap=overlap, leak=Fraction(1, 4))
    measure = measure_of(parse_objective(text, arch), GEMM, arch)
    numbers = st.integers(0, 10**9)
    low = [data.draw(numbers) for _ in measure.components]
    high = [one + data.draw(numbers) for one in low]
    cycles = data.draw(numbers)
    assert measure.value(tuple(low), cycles) <= measure.value(tuple(high), cycles + data.draw(numbers))


def test_energy_without_leakage_and_traffic_are_linear() -> None:
    for text, linear in (("energy", True), ("traffic:RF", True), ("latency", False), ("edp", False), ("ed2p", False)):
        arch = machine(overlap=True)
        assert measure_of(parse_objective(text, arch), GEMM, arch).is_linear == linear
    leaking = machine(overlap=True, leak=Fraction(1))
    assert not measure_of(parse_objective("energy", leaking), GEMM, leaking).is_linear


def test_unlimited_bandwidths_cost_nothing() -> None:
    arch = Architecture("free", (MemoryLevel("DRAM"), Fanout("X", 2), MemoryLevel("RF"), ComputeUnit("MAC")))
    measure = measure_of(parse_objective("latency", arch), GEMM, arch)
    assert measure.value(tuple(10**9 for _ in measure.components), 7) == 7
    assert all(weight == 0 for part in measure.components for row in (*part.read, *part.write) for weight in row)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("energie", r"PM501 unknown objective 'energie'.*traffic:LEVEL"),
        ("", r"PM501 unknown objective ''"),
        ("Energy", r"PM501 unknown objective 'Energy'"),
        ("traffic:GBL", r"PM502 objective 'traffic:GBL' names the level 'GBL'.*(?s:.*)Did you mean 'GLB'"),
        ("traffic:", r"PM502 objective 'traffic:' names the level ''(?s:.*)DRAM, GLB, RF"),
        ("traffic", r"PM501 unknown objective 'traffic'"),
    ],
)
def test_unknown_objectives_are_refused(text: str, message: str) -> None:
    with pytest.raises(OptionError, match=rf"(?s){message.replace('(?s:.*)', '.*')}"):
        parse_objective(text, machine(overlap=True))
