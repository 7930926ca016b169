"""What no mapping beats, part by part, against numbers worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.search.problem.floors import floor_of
from polymap.search.problem.goals import parse_objective
from polymap.workload.einsums import einsum

# 64 instances; A and B of 16 elements are read once and C is written once, 8 bits each: 256 bits in, 128 bits out.
GEMM = einsum("C[m,n] += A[m,k] * B[k,n]", m=4, n=4, k=4)
DRAM = MemoryLevel("DRAM", None, 16, Fraction(6), Fraction(10))
RF = MemoryLevel("RF", None, 8, must_hold=("A", "C"))


def floor(text: str, outer: MemoryLevel = DRAM, lanes: int = 1, per_cycle: int = 1) -> Fraction:
    nodes = (outer, *((Fanout("X", lanes),) if lanes > 1 else ()), RF, ComputeUnit("MAC", Fraction(1, 2), per_cycle))
    arch = Architecture("floors", nodes)
    return floor_of(GEMM, arch, parse_objective(text, arch))


@pytest.mark.parametrize(("lanes", "per_cycle", "cycles"), [(1, 1, 64), (4, 1, 16), (3, 1, 32), (4, 2, 8), (5, 3, 6)])
def test_as_many_lanes_work_as_dims_can_share(lanes: int, per_cycle: int, cycles: int) -> None:
    assert floor("latency", lanes=lanes, per_cycle=per_cycle) == cycles


@pytest.mark.parametrize(
    ("both", "read", "write", "cycles"),
    [
        (Fraction(4), None, None, 96),
        (Fraction(5), None, None, 77),
        (None, Fraction(2), None, 128),
        (None, None, Fraction(1), 128),
        (None, Fraction(2), Fraction(1, 2), 256),
        (None, Fraction(1000), Fraction(1000), 64),
    ],
)
def test_what_must_move_takes_its_time(
    both: Fraction | None, read: Fraction | None, write: Fraction | None, cycles: int
) -> None:
    outer = replace(
        DRAM,
        bandwidth_bits_per_cycle=both,
        read_bandwidth_bits_per_cycle=read,
        write_bandwidth_bits_per_cycle=write,
    )
    assert floor("latency", outer) == cycles


def test_energy_is_compute_compulsory_traffic_and_leakage() -> None:
    energy = Fraction(64, 2) + Fraction(256 * 6 + 128 * 10, 16)
    assert floor("energy") == energy
    leaky = replace(DRAM, leak_pj_per_cycle=Fraction(1, 4))
    assert floor("energy", leaky) == energy + 64 * Fraction(1, 4)
    assert floor("edp", leaky, lanes=4) == (energy + 4) * 16


def test_traffic_is_compulsory_at_the_outermost_level_alone_and_capacity_what_must_be_held() -> None:
    assert floor("traffic:DRAM") == 384
    assert floor("traffic:RF") == 0
    assert floor("capacity:RF") == 16


def test_joined_objectives_take_the_floors_of_their_parts() -> None:
    assert floor("weighted:1/2*latency+3*traffic:DRAM") == 32 + 3 * 384
    assert floor("lex:traffic:DRAM,latency") == 384
    assert floor("pareto:latency,traffic:DRAM") == 64
