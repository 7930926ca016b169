"""Energy, latency and the rest, worked out by hand from given counts."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from polymap.costmodel.assembly import assemble, capacity_violations, exact_latency
from polymap.costmodel.counts import Counts, LevelUse, Traffic
from polymap.ir.errors import BudgetError
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.violation import Violation
from polymap.workload.einsums import einsum

GEMM = einsum("C[m,n] += A[m,k] * B[k,n]", m=512, n=256, k=32)
FLAT3 = Architecture(
    "flat3",
    (
        MemoryLevel("DRAM", None, 8, Fraction(200), Fraction(200), bandwidth_bits_per_cycle=Fraction(128)),
        MemoryLevel("GLB", 1048576, 8, Fraction(6), Fraction(6), bandwidth_bits_per_cycle=Fraction(512)),
        Fanout("X", 16),
        Fanout("Y", 16),
        MemoryLevel("RF", 4096, 8, Fraction(1), Fraction(1)),
        ComputeUnit("MAC", Fraction(1)),
    ),
)


def the_designs_example() -> Counts:
    """The counts behind the example that the interface prints for `evaluate` (rows are abridged there)."""
    traffic = (
        # DRAM: A and B once, C written once: 155,648 words at 200 pJ = 31,129,600 pJ.
        Traffic("DRAM", "C", 0, 131072, 0, 0),
        Traffic("DRAM", "A", 16384, 0, 0, 0),
        Traffic("DRAM", "B", 8192, 0, 0, 0),
        # GLB: B; 524,288 + 8,192 = 532,480 words at 6 pJ = 3,194,880 pJ.
        Traffic("GLB", "B", 524288, 8192, 8192, 0),
        # RF: A; 4,210,688 words at 1 pJ.
        Traffic("RF", "A", 4194304, 16384, 16384, 0),
    )
    dram = 8 * (16384 + 8192)
    uses = (
        LevelUse("DRAM", 0, dram, 8 * 131072, dram + 8 * 131072),
        LevelUse("GLB", 65536, 8 * 524288, 8 * 8192, 8 * 532480),
        LevelUse("RF", 8, 8 * 16384, 8 * 64, 8 * 16448),
    )
    return Counts(4194304, 16384, traffic, uses)


def test_the_example_of_the_interface() -> None:
    cost = assemble(GEMM, FLAT3, the_designs_example(), (), "closed form")
    assert cost.energy_pj == 42729472.0
    assert cost.energy_by_level_pj == (
        ("DRAM", 31129600.0),
        ("GLB", 3194880.0),
        ("RF", 4210688.0),
        ("MAC", 4194304.0),
    )
    assert cost.occupancy_bits == (("GLB", 65536), ("RF", 8))
    assert (cost.compute_cycles, cost.latency_cycles, cost.utilization) == (16384, 16384, 1.0)
    assert (cost.bottleneck, cost.legal, cost.method, cost.instances) == ("MAC", True, "closed form", 4194304)


TINY = einsum("C[m] = A[m]", m=5, bits={"C": 12, "A": 8})
COUNTS = Counts(
    5,
    5,
    (Traffic("DRAM", "C", 0, 5, 0, 0), Traffic("DRAM", "A", 5, 0, 0, 0)),
    (LevelUse("DRAM", 0, 40, 60, 100),),
)


def tiny(level: MemoryLevel, *, per_cycle: int = 1, overlap: bool = True) -> Architecture:
    return Architecture("tiny", (level, Fanout("X", 2), ComputeUnit("PE", Fraction(0), per_cycle)), overlap)


def test_an_element_costs_its_share_of_a_word_and_the_sum_is_exact() -> None:
    # Words of 16 bits: 5 reads x 8/16 x 0.1 pJ + 5 writes x 12/16 x 0.3 pJ = 0.25 + 1.125 pJ.
    arch = tiny(MemoryLevel("DRAM", word_bits=16, read_pj=Fraction("0.1"), write_pj=Fraction("0.3")))
    cost = assemble(TINY, arch, COUNTS, (), "sets")
    assert cost.energy_pj_exact == Fraction("1.375")
    assert cost.energy_by_level_pj_exact == (("DRAM", Fraction("1.375")), ("PE", Fraction(0)))
    assert cost.energy_pj == 1.375


def test_leakage_lasts_as_long_as_the_program() -> None:
    arch = tiny(MemoryLevel("DRAM", leak_pj_per_cycle=Fraction("0.5"), bandwidth_bits_per_cycle=Fraction(3)))
    # 100 bits at 3 per cycle: 33.3, so 34 cycles.
    assert exact_latency(arch, COUNTS) == Fraction(100, 3)
    cost = assemble(TINY, arch, COUNTS, (), "sets")
    assert cost.energy_by_level_pj == (("DRAM", 17.0), ("PE", 0.0))


@pytest.mark.parametrize(
    ("level", "per_cycle", "overlap", "cycles", "bottleneck"),
    [
        (MemoryLevel("DRAM"), 1, True, 5, "PE"),
        (MemoryLevel("DRAM"), 2, True, 3, "PE"),
        (MemoryLevel("DRAM", bandwidth_bits_per_cycle=Fraction(20)), 1, True, 5, "PE"),  # 5 and 5: a tie
        (MemoryLevel("DRAM", bandwidth_bits_per_cycle=Fraction(19)), 1, True, 6, "DRAM"),  # 5.26
        (MemoryLevel("DRAM", bandwidth_bits_per_cycle=Fraction(30)), 2, False, 7, "DRAM"),  # 3 + 3.33, rounded once
        # Reads 40 / 8 = 5, writes 60 / 10 = 6: the larger; together with compute 5 + 6.
        (
            MemoryLevel("DRAM", read_bandwidth_bits_per_cycle=Fraction(8), write_bandwidth_bits_per_cycle=Fraction(10)),
            1,
            False,
            11,
            "DRAM",
        ),
    ],
)
def test_latency(level: MemoryLevel, per_cycle: int, overlap: bool, cycles: int, bottleneck: str) -> None:
    cost = assemble(TINY, tiny(level, per_cycle=per_cycle, overlap=overlap), COUNTS, (), "sets")
    assert (cost.latency_cycles, cost.bottleneck) == (cycles, bottleneck)
    assert cost.compute_cycles == -(-5 // per_cycle)
    # 5 instances on 2 lanes of `per_cycle`.
    assert cost.utilization == 5 / (cost.compute_cycles * 2 * per_cycle)


def test_capacity_counts_both_buffers() -> None:
    glb = replace(FLAT3.levels[1], buffering=2, capacity_bits=131071)
    arch = replace(FLAT3, nodes=(FLAT3.nodes[0], glb, *FLAT3.nodes[2:]))
    assert capacity_violations(FLAT3, the_designs_example()) == ()
    (violation,) = capacity_violations(arch, the_designs_example())
    assert violation == Violation(
        "capacity",
        "'GLB' needs 131072 bits (2 x 65536) and has 131071",
        (("level", "GLB"), ("needed_bits", 131072), ("capacity_bits", 131071)),
    )
    cost = assemble(GEMM, arch, the_designs_example(), (violation,), "closed form")
    assert not cost.legal
    assert cost.violations == (violation,)
    assert cost.occupancy_bits == (("GLB", 65536), ("RF", 8))


def test_no_work_costs_nothing() -> None:
    empty = Counts(0, 0, (), (LevelUse("DRAM", 0, 0, 0, 0),))
    cost = assemble(TINY, tiny(MemoryLevel("DRAM")), empty, (), "sets")
    assert (cost.energy_pj, cost.latency_cycles, cost.utilization) == (0.0, 0, 0.0)


def test_huge_numbers_stay_exact_or_are_refused_by_name() -> None:
    arch = tiny(MemoryLevel("DRAM", bandwidth_bits_per_cycle=Fraction(7), read_pj=Fraction(1)))
    for size in (2**31, 2**53 + 1, 2**63, 10**30 + 1):
        counts = Counts(size, size, (Traffic("DRAM", "A", size, 0, 0, 0),), (LevelUse("DRAM", 0, 8, 0, 8 * size),))
        assert exact_latency(arch, counts) == Fraction(8 * size, 7)
        assert assemble(TINY, arch, counts, (), "sets").energy_pj_exact == size
    counts = Counts(1, 1, (Traffic("DRAM", "A", 10**400, 0, 0, 0),), (LevelUse("DRAM", 0, 8, 0, 8),))
    with pytest.raises(BudgetError, match=r"PM491 an energy of about 10\^400 pJ"):
        assemble(TINY, arch, counts, (), "sets")
