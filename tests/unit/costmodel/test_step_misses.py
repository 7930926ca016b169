"""Misses of a cache on the way, by working sets: worked by hand, and beside a cache that evicts what was used last."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from fractions import Fraction

import pytest

from polymap.costmodel import evaluate
from polymap.ir import Architecture, Compute, ComputeUnit, Mapping, MemoryLevel, Storage, Temporal
from polymap.workload import einsum

LINE = 64  # bytes


def machine(lines: int, ways: int | None, **changes: object) -> Architecture:
    cache = MemoryLevel("L2", capacity_bits=lines * LINE * 8, implicit=True, line_bits=LINE * 8, ways=ways, holds=())
    dram = MemoryLevel("DRAM", bandwidth_bits_per_cycle=Fraction(10**9), beat_bits=128)
    buffer = MemoryLevel("SPAD", capacity_bits=10**6, keeps=False)
    return Architecture(
        "cached", (dram, replace(cache, **{"miss_cycles": Fraction(1), **changes}), buffer, ComputeUnit("MAC"))
    )


def tree(*loops: tuple[str, int], inner: str = "mk") -> Mapping:
    points = (Temporal(dim, 1) for dim in inner)
    return Mapping((*(Temporal(*each) for each in loops), Storage("SPAD", ("A", "B", "C")), *points, Compute("S")))


def misses(arch: Architecture, text: str, sizes: dict[str, int], *loops: tuple[str, int]) -> int:
    """Return the missed lines of all loads of a nest; its bus takes next to nothing."""
    mapping = tree(*loops, inner="".join(sizes))
    steps = evaluate(einsum(text, sizes=sizes, bits=8), arch, mapping).steps
    assert steps is not None, "the machine is timed by step"
    return round(sum(each.steps * each.load_cycles for each in steps.classes if each.level == "SPAD"))


def evicting(lines: int, ways: int | None, touched: list[tuple[int, bool]]) -> int:
    """Return how many of the lines that are loaded a cache misses whose sets evict the line used longest ago. touched:
    in order, each with whether it is loaded."""
    sets: list[OrderedDict[int, None]] = [OrderedDict() for _ in range(lines // ways if ways else 1)]
    missed = 0
    for number, is_load in touched:
        own = sets[number % len(sets)]
        missed += is_load and number not in own
        own[number] = None
        own.move_to_end(number)
        if len(own) > (ways or lines):
            own.popitem(last=False)
    return missed


FAR = 1 << 20  # lines between tensors: a multiple of all sets
VECTOR = "C[m] += A[m,k] * B[k]"
STRIDED = "C[m,n] += A[16*m,k] * B[k,n]"


def test_what_fits_for_the_whole_run_is_there_before_it() -> None:
    assert misses(machine(1024, 8), VECTOR, {"m": 64, "k": 64}, ("m", 8), ("k", 64)) == 0, "it takes 66 lines"


@pytest.mark.parametrize("ways", [None, 4])
def test_what_streams_through_misses_every_line_once(ways: int | None) -> None:
    touched = [
        each
        for step in range(8)
        for each in [*((8 * step + row, True) for row in range(8)), (FAR, True), (2 * FAR, False)]
    ]
    found = misses(machine(16, ways), VECTOR, {"m": 64, "k": 64}, ("m", 8), ("k", 64))
    assert found == evicting(16, ways, touched) == 65, "64 rows of a line each, and B, which stays"


def test_rows_a_power_of_two_apart_share_sets() -> None:
    # 512 rows of A, 16 lines apart: of 128 sets they fall into 8, 64 lines for 8 ways; any 1,024 lines hold them.
    sizes = {"m": 512, "n": 64, "k": 64}
    touched = [
        each
        for column in range(64)
        for step in range(8)
        for each in [
            *((16 * (64 * step + row), True) for row in range(64)),
            *((FAR + row, False) for row in range(64)),
            *((2 * FAR + 64 * step + row, False) for row in range(64)),
        ]
        if column < 3
    ]
    assert evicting(1024, 8, touched) == 3 * 512, "every row of A each time"
    assert misses(machine(1024, 8), STRIDED, sizes, ("n", 1), ("m", 64), ("k", 64)) > 64 * 512, "every row each time"
    assert misses(machine(2048, None), STRIDED, sizes, ("n", 1), ("m", 64), ("k", 64)) == 0, "all 1,088 lines fit"


def test_sums_that_stay_for_the_whole_run_push_nothing_out_of_a_cache() -> None:
    # C takes 64 lines and passes once, at the end: each of 8 times, 8 lines of A stay while 64 of B stream through.
    workload = einsum("C[m,n] += A[m,k] * B[n,k]", m=64, n=64, k=64, bits=8)
    inner = tree(("m", 8), ("n", 1), inner="mk").nodes
    mapping = Mapping((Storage("SPAD", ("C",)), *inner[:2], Storage("SPAD", ("A", "B")), *inner[3:]))
    steps = evaluate(workload, machine(16, None), mapping).steps
    assert steps is not None, "the machine is timed by step"
    touched = [each for m in range(8) for n in range(64) for each in [*range(8 * m, 8 * m + 8), FAR + n]]
    found = round(sum(each.steps * each.load_cycles for each in steps.classes))
    assert found == evicting(16, None, [(line, True) for line in touched]) == 8 * (8 + 64), "lines of A once per tile"


def test_misses_of_stores_have_cycles_of_their_own() -> None:
    arch = machine(16, None, write_miss_cycles=Fraction(7))
    steps = evaluate(einsum("C[m] += A[m,k] * B[k]", m=1024, k=2, bits=8), arch, tree(("m", 64), ("k", 2))).steps
    assert steps is not None, "the machine is timed by step"
    stored = sum(each.steps * each.store_cycles for each in steps.classes if each.level == "SPAD")
    assert round(stored) == 7 * 15, "a line of 64 sums each, the last at the end of the run"


def test_machines_without_misses_are_as_before() -> None:
    workload, mapping = einsum("C[m] += A[m,k] * B[k]", m=64, k=64, bits=8), tree(("m", 8), ("k", 64))
    plain = machine(16, 4, miss_cycles=Fraction(0))
    bare = replace(plain, nodes=tuple(node for node in plain.nodes if node.name != "L2"))
    assert evaluate(workload, plain, mapping).latency_cycles == evaluate(workload, bare, mapping).latency_cycles, "0"
