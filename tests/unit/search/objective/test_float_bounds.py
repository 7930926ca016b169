"""Floats below the exact value of an objective: never above it, and close to it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.search.problem.float_bounds import lowered_sum, may_win, surely_below
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import measure_of, measure_with_limit
from polymap.workload.einsums import einsum

GEMM = einsum("C[m,n] += A[m,k] * B[k,n]", m=4, n=4, k=4)
CLOSE = 1e-9


def machine(*, overlap: bool, leak: Fraction) -> Architecture:
    outer = MemoryLevel(
        "DRAM",
        None,
        8,
        Fraction(7),
        Fraction(9),
        leak_pj_per_cycle=leak,
        read_bandwidth_bits_per_cycle=Fraction(8),
        write_bandwidth_bits_per_cycle=Fraction(64, 3),
    )
    inner = MemoryLevel("RF", None, 8, Fraction(1), Fraction(1), bandwidth_bits_per_cycle=Fraction(5, 7))
    return Architecture("bands", (outer, inner, ComputeUnit("MAC", Fraction(1, 3))), overlap=overlap)


numbers = st.one_of(st.integers(0, 10**6), st.integers(0, 10**40), st.integers(2**52, 2**54))


@given(st.sampled_from(["latency", "edp", "ed2p", "energy"]), st.booleans(), st.sampled_from([0, 1, 10**20]), st.data())
def test_what_is_surely_below_is_never_above_the_exact_value_and_close(
    text: str, overlap: bool, leak: int, data: st.DataObject
) -> None:
    arch = machine(overlap=overlap, leak=Fraction(leak, 3))
    measure = measure_of(parse_objective(text, arch), GEMM, arch)
    rows = [[data.draw(numbers) for _ in measure.components] for _ in range(4)]
    cycles = data.draw(st.integers(1, 10**18))
    parts = [np.array([float(row[c]) for row in rows]) for c in range(len(measure.components))]
    found = surely_below(measure, parts, cycles)
    if measure.is_linear:
        assert found is None
        return
    assert found is not None
    for row, low in zip(rows, found.tolist(), strict=True):
        exact = measure.value(tuple(row), cycles)
        assert Fraction(low) <= exact
        latency = measure.latency(tuple(row), cycles)
        near = Fraction(latency - 1, latency) ** 3 * (1 - Fraction(CLOSE))  # cycles are whole
        assert Fraction(low) >= exact * near
        assert may_win(np.array([low]), exact + 1)[0]
        assert not may_win(np.array([low]), int(exact * near * (1 - Fraction(CLOSE))) - 1)[0]


@pytest.mark.parametrize("text", ["latency", "edp", "ed2p", "energy"])
def test_an_entry_that_cannot_be_changes_no_other(text: str) -> None:
    arch = machine(overlap=True, leak=Fraction(1))
    measure = measure_of(parse_objective(text, arch), GEMM, arch)
    alone = surely_below(measure, [np.array([7.0, 9.0]) for _ in measure.components], 64)
    beside = surely_below(measure, [np.array([7.0, np.inf, 9.0]) for _ in measure.components], 64)
    assert alone is not None
    assert beside is not None
    assert alone.tolist() == [beside[0], beside[2]]


def test_no_float_stands_for_what_is_no_plain_number_of_a_float() -> None:
    arch = machine(overlap=True, leak=Fraction(1))
    latency = measure_of(parse_objective("latency", arch), GEMM, arch)
    one = [np.ones(1) for _ in latency.components]
    assert surely_below(latency, one, 1) is not None
    assert surely_below(latency, one, 2**400) is None
    assert surely_below(latency, one, 2**400 - 1) is not None
    assert surely_below(replace(latency, leak=2**400), one, 1) is None
    assert surely_below(replace(latency, fixed_energy=2**400), one, 1) is None
    assert surely_below(measure_with_limit(latency, latency, Fraction(10)), one, 1) is None
    for text in ("traffic:RF", "capacity:RF", "pareto:energy,latency", "weighted:energy+latency"):
        measure = measure_of(parse_objective(text, arch), GEMM, arch)
        assert surely_below(measure, [np.ones(1) for _ in measure.components], 1) is None


@given(st.lists(st.integers(-(10**30), 10**30), min_size=1, max_size=5), st.integers(-(10**30), 10**30))
def test_a_lowered_sum_is_at_most_the_sum(values: list[int], more: int) -> None:
    found = lowered_sum(np.array([float(value) for value in values]), more)
    for value, low in zip(values, found.tolist(), strict=True):
        assert Fraction(low) <= value + more
        assert Fraction(low) >= value + more - (abs(value) + abs(more)) * Fraction(CLOSE)


@pytest.mark.parametrize("value", [2**800, 2**900])
def test_everything_may_win_against_a_value_beyond_all_floats(value: int) -> None:
    assert may_win(np.array([0.0, 1e300]), value).all()
