"""Dividing tiles first, then tiles of any size from what they gave: never worse, and no limit is blamed for nothing."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from fractions import Fraction

import pytest

import polymap.search
from polymap import conv2d, einsum, evaluate, explore, load_arch, matmul
from polymap.costmodel.referees.trees import exhaustive
from polymap.explore import search
from polymap.ir.errors import OptionError
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.report.summary import no_answer_text, result_text
from polymap.resources.limits import Stop
from polymap.resources.memory import Memory, resident_mb
from polymap.search import any_size, provers as run
from polymap.search.any_size.sibling_search import SiblingSearch
from polymap.search.documents import result_document
from polymap.search.driver import Kind, Search
from polymap.search.evidence import Evidence
from polymap.search.options import TUNING, Hints
from polymap.search.problem.floors import floor_of
from polymap.search.problem.goals import parse_objective
from polymap.search.result import Progress, SearchResult
from tests.referee.demands import meets, random_demands
from tests.referee.problems import random_problem
from tests.times import few
from tests.unit.search.machines import two_levels
from tests.unit.search.ticks import Ticks

GEMM = matmul(m=16, n=24, k=8)
TWO = two_levels(512)
OUTER = einsum("C[m,n] += A[m] * B[n]", m=3, n=2)
PAIR = Architecture(
    "pair",
    (
        MemoryLevel("DRAM", None, 64, Fraction(2), Fraction(2)),
        Fanout("X", 2),
        MemoryLevel("RF", 4096, 16, Fraction(1), Fraction(1)),
        ComputeUnit("MAC", Fraction(1)),
    ),
)
STRIDED = conv2d(K=16, C=8, H=16, W=16, R=3, S=3, stride=2, padding=1)


def _marked(number: int) -> pytest.MarkDecorator | tuple[()]:
    return pytest.mark.soak if number == 1 or number >= 4 else pytest.mark.slow if number >= 2 else ()


@pytest.mark.parametrize("number", [pytest.param(n, marks=_marked(n)) for n in range(32)])
def test_tiles_of_any_size_are_never_worse_than_dividing_ones(number: int) -> None:
    rng = random.Random(f"never worse {number}")
    problem = random_problem(rng, most=10**7, tiles="any")
    demands = random_demands(rng, problem.workload, problem.arch) if number % 2 else None
    asked = (problem.workload, problem.arch, problem.objective)
    divide = explore(*asked, tiles="divide", constraints=demands, time_limit_s=60)
    found = explore(*asked, constraints=demands, work_limit=100, time_limit_s=60)
    if divide.status != "OPTIMAL":
        return
    assert found.value is not None
    assert divide.value is not None
    assert found.best is not None
    if not found.front:
        assert found.values <= divide.values
        assert found.value <= divide.value
    cost = evaluate(problem.workload, problem.arch, found.best)
    assert cost.legal
    if demands is not None:
        assert meets(demands, problem.workload, problem.arch, found.best, cost.compute_cycles)
    if found.dividing is not None and found.dividing.status == "OPTIMAL":
        assert found.dividing.value == divide.value


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["tpu_like", *(pytest.param(n, marks=pytest.mark.soak) for n in ("eyeriss_like", "simba_like"))]
)
def test_small_layers_are_never_worse_on_any_machine(name: str) -> None:
    layer, arch = conv2d(K=4, C=2, H=5, W=7, R=3, S=3, padding=1), load_arch(name)
    divide = explore(layer, arch, tiles="divide", time_limit_s=60)
    found = explore(layer, arch, work_limit=5_000, time_limit_s=8)
    assert divide.status == "OPTIMAL"
    assert found.dividing is not None
    assert (found.dividing.status, found.dividing.value) == ("OPTIMAL", divide.value)
    assert found.value is not None
    assert divide.value is not None
    assert found.value <= divide.value
    assert "best dividing" in result_text(layer, arch, found)
    document = result_document(found)["dividing"]
    assert isinstance(document, dict)
    assert document["status"] == "OPTIMAL"


def test_the_dividing_answer_of_a_search_over_all_sizes_is_certified() -> None:
    found = explore(matmul(m=4, n=6, k=2), load_arch("flat3"), work_limit=200)
    assert found.dividing is not None
    assert "sha256" in found.dividing.certificate().lower()


def test_constraints_that_dividing_tiles_cannot_meet_are_met_by_others() -> None:
    """m = 3 over two instances: dividing tiles cannot, ceil(3 / 2) = 2 and 1 can."""
    wanted: dict[str, object] = {"fanouts": {"X": {"require": ["m"]}}}
    assert explore(OUTER, PAIR, tiles="divide", constraints=wanted).status == "INFEASIBLE"
    found = explore(OUTER, PAIR, constraints=wanted)
    assert found.status == "OPTIMAL"
    assert found.dividing is not None
    assert found.dividing.status == "INFEASIBLE"
    assert found.best is not None
    cost = evaluate(OUTER, PAIR, found.best)
    assert cost.legal
    assert meets(wanted, OUTER, PAIR, found.best, cost.compute_cycles)


def test_where_trees_are_too_many_to_walk_one_that_meets_the_constraints_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "TUNING", replace(TUNING, few_trees=0))
    wanted: dict[str, object] = {"fanouts": {"X": {"require": ["m"]}}}
    found = explore(OUTER, PAIR, constraints=wanted, work_limit=20_000)
    assert found.status == "OPTIMAL"  # structures bound what meets them
    assert found.best is not None
    cost = evaluate(OUTER, PAIR, found.best)
    assert meets(wanted, OUTER, PAIR, found.best, cost.compute_cycles)


def test_a_clash_over_all_sizes_is_found_by_walking_them_and_its_least_value_is_true() -> None:
    least = exhaustive(OUTER, PAIR, "latency", "any")
    assert least is not None
    assert least.value is not None
    wanted = {"limits": {"latency": int(least.value) - 1}}
    found = explore(OUTER, PAIR, constraints=wanted)
    assert found.status == "INFEASIBLE"
    assert f"the least latency that the rest allows is {float(least.value):g}" in found.clash
    assert explore(OUTER, PAIR, constraints={"limits": {"latency": int(least.value)}}).status == "OPTIMAL"


def test_what_is_not_exhausted_is_called_a_time_out_only_at_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "TUNING", replace(TUNING, few_trees=0))
    floor = floor_of(OUTER, PAIR, parse_objective("energy", PAIR))
    wanted = {"limits": {"energy": floor}}  # no tree has so little: structures show it, else a walk over all of them
    assert explore(OUTER, PAIR, constraints=wanted, work_limit=500).status == "INFEASIBLE"
    monkeypatch.setattr(any_size, "climb_structures", lambda *asked, **_: asked[2])
    monkeypatch.setattr(SiblingSearch, "go_on", lambda *_, **__: None)
    monkeypatch.setattr(SiblingSearch, "value", floor)
    found = explore(OUTER, PAIR, constraints=wanted, work_limit=500)
    assert found.status == "TIMEOUT"
    assert found.work >= 500
    assert "with tiles that divide there is none" in no_answer_text(found)


def test_the_different_costs_of_a_walked_space_are_counted() -> None:
    walked = exhaustive(OUTER, PAIR, "energy", "any", count_distinct=True)
    assert walked is not None
    found = explore(OUTER, PAIR)
    assert (found.space.distinct, found.space.legal) == (walked.distinct, walked.legal)


def test_dividing_tiles_go_on_where_bounds_hardly_rise(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[SearchResult] = []
    true = run.search_dividing_tiles

    def told(asked: Search, evidence: Evidence, stop: Stop) -> Evidence:
        found = true(asked, evidence, stop)
        answers.extend([found.dividing] if found.dividing is not None and asked.kind is Kind.ANY_SIZE else [])
        return found

    monkeypatch.setattr(polymap.search, "search_dividing_tiles", told)
    found = search(STRIDED, "cluster4", time_limit_s=10**9, work_limit=400)
    first, second = answers
    assert first.value is not None
    assert second.value is not None
    assert second.value < first.value
    assert found.dividing is not None
    assert found.dividing.value == found.value == second.value


def test_a_search_ends_where_no_mapping_is_below_what_is_enough() -> None:
    whole = search(STRIDED, "cluster4", tiles="divide", work_limit=100)
    assert whole.bound is not None
    enough = Fraction(whole.bound)
    for known, is_over in ((enough + 1, False), (enough, True)):
        found = search(STRIDED, "cluster4", tiles="divide", work_limit=100, hints=Hints(enough=known))
        assert found.status == "FEASIBLE"
        assert found.bound == whole.bound
        assert (found.work < whole.work) is is_over


def test_a_resumed_search_ends_the_dividing_phase() -> None:
    product = matmul(m=8, n=6, k=4)
    whole = explore(product, TWO, tiles="divide")
    assert whole.status == "OPTIMAL"
    found = explore(product, TWO, work_limit=4)
    answers = [found]
    assert found.dividing is not None
    assert found.dividing.status == "FEASIBLE"
    while answers[-1].dividing is not None and answers[-1].dividing.status == "FEASIBLE" and len(answers) < 50:
        answers.append(answers[-1].resume(60, work_limit=100))
    values = [one.value for one in answers if one.value is not None]
    assert values == sorted(values, reverse=True)
    last = answers[-1].dividing
    assert last is not None
    assert (last.status, last.value) == ("OPTIMAL", whole.value)
    assert values[-1] == whole.value


@pytest.mark.parametrize(
    ("tiles", "most"), few([("divide", 150), ("any", 10), ("any", 30), ("divide", 30), ("any", 150)], 2)
)
def test_a_work_limit_gives_the_same_answer_whatever_the_clock_says(tiles: str, most: int) -> None:
    def slow_and_fast() -> float:
        return rng.random()

    rng = random.Random("clock")
    workload, arch, objective = (
        (STRIDED, load_arch("simba_like"), "edp") if tiles == "divide" else (GEMM, TWO, "energy")
    )
    asked = (workload, arch, objective, tiles)
    one = search(*asked, time_limit_s=10**9, work_limit=most)
    other = search(*asked, time_limit_s=10**9, work_limit=most, clock=slow_and_fast)
    ticks = search(*asked, time_limit_s=10**12, work_limit=most, clock=Ticks())
    for again in (other, ticks):
        assert (again.status, again.value, again.bound, again.best) == (one.status, one.value, one.bound, one.best)
        assert (again.work, again.space) == (one.work, one.space)
        assert without_seconds(result_document(again)) == without_seconds(result_document(one))
    assert one.status == "OPTIMAL" or one.work >= most


def without_seconds(document: object) -> object:
    if isinstance(document, dict):
        return {key: without_seconds(value) for key, value in document.items() if key not in ("seconds", "options")}
    return [without_seconds(one) for one in document] if isinstance(document, list) else document


def test_a_work_limit_that_is_none_is_named() -> None:
    with pytest.raises(OptionError, match="PM549 work_limit is 0"):
        explore(GEMM, TWO, work_limit=0)


@pytest.mark.slow
def test_mappings_found_beside_the_proof_are_no_worse_than_annealed_ones() -> None:
    """Annealing finds 282,802,896 after 854 mappings, where a search that only refutes stands at 316,247,100."""
    found = explore(STRIDED, load_arch("simba_like"), "edp", tiles="divide", work_limit=1500)
    assert found.value is not None
    assert found.value <= 282_802_896


def test_each_better_mapping_is_reported_while_dividing() -> None:
    seen: list[Progress] = []
    found = explore(STRIDED, load_arch("simba_like"), "edp", on_progress=seen.append, tiles="divide", work_limit=1500)
    values = [one.value for one in seen if one.value is not None]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) >= 3
    assert seen[0].best is not None
    assert found.value is not None
    assert values[-1] >= found.value


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("C[m,n] += A[m,k] * B[k,n]", {"m": 10**6, "n": 10**6, "k": 10**6}),
        ("C[m,n] += A[m,k] * B[k,n]", {"m": 999_999_999_989, "n": 7, "k": 3}),
        ("O[p] += I[p+r] * W[r]", {"p": 10**30, "r": 7}),
        pytest.param("C[m,n] += A[m,k] * B[k,n]", {"m": 10**30, "n": 10**30, "k": 10**30}, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(
    "objective", ["energy", *(pytest.param(product, marks=pytest.mark.slow) for product in ("edp", "ed2p"))]
)
def test_huge_programs_are_bounded_below_every_mapping_that_is_found(
    text: str, sizes: dict[str, int], objective: str
) -> None:
    workload, arch = einsum(text, sizes=sizes), load_arch("eyeriss_like")
    found = explore(workload, arch, objective, work_limit=60)
    assert found.bound is not None
    assert found.bound >= 0
    if found.best is not None:
        cost = evaluate(workload, arch, found.best)
        assert cost.legal
        assert found.bound <= measure_value(objective, cost.energy_pj, cost.latency_cycles) * (1 + 1e-12)


def measure_value(objective: str, energy_pj: float, cycles: int) -> Fraction:
    return Fraction(energy_pj) * cycles ** {"energy": 0, "edp": 1, "ed2p": 2}[objective]


def test_what_an_earlier_search_left_is_not_charged() -> None:
    Memory(None)
    left = bytearray(100 * 2**20)
    left[:: 2**12] = b"x" * len(left[:: 2**12])
    memory = Memory(10**6)
    assert memory.taken_mb() < resident_mb() - 90
    more = bytearray(50 * 2**20)
    more[:: 2**12] = b"x" * len(more[:: 2**12])
    assert memory.taken_mb() > memory.with_limit(1).taken_mb() - 10
    assert sys.getsizeof(left) + sys.getsizeof(more) > 150 * 2**20
