"""Which way a mapping is counted, and that a time limit is one."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import pytest

from polymap.costmodel import counting
from polymap.costmodel.counting import count_mapping, moves_of
from polymap.costmodel.evaluation import evaluate, simulate, violations
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.errors import BudgetError
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, Spatial, Storage, Temporal
from polymap.poly.tuning import TUNING
from polymap.workload.c.reader import from_c
from polymap.workload.einsums import einsum

ONE = Fraction(1)
GRID = Architecture(
    "grid",
    (MemoryLevel("DRAM"), Fanout("Y", 8), Fanout("X", 8), MemoryLevel("L1"), ComputeUnit("MAC", ONE)),
)


def ragged_window(p: int, r: int) -> tuple[Workload, Architecture, Mapping]:
    """Return a window of strides 7 and 5 in partial tiles, over which isl takes minutes."""
    outer = (Temporal("p", 26), Temporal("r", 5), Spatial("p", 7, "Y"), Spatial("p", 2, "X"))
    inner = (Storage("L1", ("O", "I", "W")), Temporal("p", 1), Temporal("r", 1), Compute("S"))
    return einsum("O[7*p+5*r] += I[p] * W[r]", p=p, r=r), GRID, Mapping((*outer, *inner))


@pytest.fixture
def no_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object, **__: object) -> None:
        return None

    monkeypatch.setattr(counting, "count_closed_form", none)


@pytest.mark.usefixtures("no_closed_form")
def test_few_steps_are_walked() -> None:
    question = ragged_window(47, 12)
    assert count_mapping(*question, seconds=60) == (count_by_simulation(*question), "steps")


def test_a_ragged_window_of_564_instances_is_counted() -> None:
    cost, truth = evaluate(*ragged_window(47, 12)), simulate(*ragged_window(47, 12))
    assert (cost.traffic, cost.occupancy_bits, cost.energy_pj) == (truth.traffic, truth.occupancy_bits, truth.energy_pj)
    assert cost.latency_cycles == truth.latency_cycles


@pytest.mark.usefixtures("no_closed_form")
def test_all_ways_give_the_same_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    work = einsum("O[2*p+r] += I[p] * W[r]", p=7, r=3)
    loops = (Temporal("p", 3), Spatial("p", 1, "X"), Storage("L1", ("O", "W")), Temporal("r", 1), Compute("S"))
    question = work, GRID, Mapping(loops)
    truth = count_by_simulation(*question)
    monkeypatch.setattr(counting, "TUNING", counting.TUNING._replace(few_moves=0))
    assert count_mapping(*question, seconds=60) == (truth, "sets")
    monkeypatch.setattr("polymap.poly.TUNING", TUNING._replace(first_operations=1))  # sets come to no end here
    assert count_mapping(*question, seconds=60) == (truth, "steps")  # few enough, walked in a process that can be ended
    monkeypatch.setattr(counting, "TUNING", counting.TUNING._replace(few_moves=0, many_moves=0))
    for seconds in (60, 2.5):  # what the first try left of its seconds is for a process
        assert count_mapping(*question, seconds=seconds) == (truth, "sets")


@pytest.mark.usefixtures("no_closed_form")
def test_what_sets_refuse_is_walked_if_it_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    question = ragged_window(20, 6)
    monkeypatch.setattr(counting, "TUNING", counting.TUNING._replace(few_moves=0))
    monkeypatch.setattr("polymap.poly.scan.TUNING", TUNING._replace(most_points=1))
    assert count_mapping(*question, seconds=60) == (count_by_simulation(*question), "steps")


@pytest.mark.usefixtures("no_closed_form")
@pytest.mark.parametrize("ask", [evaluate, violations])
def test_what_takes_longer_than_its_limit_is_refused(ask: Callable[..., object]) -> None:
    with pytest.raises(
        BudgetError, match=r"(?s)PM490 counting this mapping takes more than 0\.2 s.*A longer time limit"
    ):
        ask(*ragged_window(4701, 1200), time_limit_s=0.2)


def test_the_estimate_grows_with_instances_and_nodes() -> None:
    work, _, mapping = ragged_window(10, 3)
    assert moves_of(work, mapping) == 30 * (2 + 6 + 3 * 2)
    double = Mapping((Storage("DRAM", ("O",)), *mapping.nodes))
    assert moves_of(work, double) == 30 * (2 + 6 + 3 * 2 + 1)


def test_stale_copies_and_legality_have_the_same_limit() -> None:
    work = from_c("void f(double A[6]) { for (int t = 0; t < 3; t++) for (int i = 1; i < 5; i++) A[i] += A[i-1]; }")
    loops = (Temporal("t", 1), Spatial("i", 1, "X"), Storage("L1", ("A",)), Compute("S0"))
    assert [each.kind for each in violations(work, GRID, Mapping(loops))] == ["dependence"]
    with pytest.raises(BudgetError, match="PM518 the legality of a mapping takes more than"):
        violations(work, GRID, Mapping(loops), time_limit_s=0)
