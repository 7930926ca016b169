"""A search that runs never tells less than it told before, and one that is interrupted answers what it told last."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from polymap import SearchResult, attention, explore, load_arch, program
from polymap.ir import Architecture, Workload
from polymap.resources import Limits, Memory
from polymap.search.answer import best_so_far
from polymap.search.problem.goals import parse_objective
from polymap.search.programs import ProgramSearch, stays
from polymap.search.programs.climbing import Climber
from polymap.search.result import Progress
from tests.referee.problems import random_problem
from tests.times import few

OBJECTIVES = ("energy", "latency", "edp", "lex:latency,energy", "pareto:energy,latency")


def _question(rng: random.Random) -> tuple[Workload, Architecture, str]:
    """Return a nest, or a program of two or three."""
    if rng.random() < 0.4:
        nest = random_problem(rng)
        return nest.workload, nest.arch, rng.choice((nest.objective, *OBJECTIVES))
    sizes = {name: rng.choice((2, 3, 4, 6, 8)) for name in "mnkp"}
    chain = ("T[m,n] += A[m,k] * B[k,n]", "C[m,p] += T[m,n] * D[n,p]")
    window = ("T[m] += A[m+k] * B[k]", "C[n] += T[m] * D[m,n]")
    heads, queries, dim = (rng.choice((1, 2, 4)) for _ in range(3))
    softmax = rng.choice(("none", "passes"))
    workload = rng.choice(
        (
            program(chain, temporary=["T"], sizes=sizes),
            program(window, sizes={name: sizes[name] for name in "mkn"}),
            attention(heads=heads, queries=queries, keys=4, dim=dim, softmax=softmax),
        )
    )
    return workload, load_arch(rng.choice(("flat3", "eyeriss_like", "tpu_like"))), rng.choice(OBJECTIVES)


def _told(
    asked: tuple[Workload, Architecture, str], tiles: str, last: int
) -> tuple[list[Progress], SearchResult | None]:
    """Return what a search tells, and its answer; None where it is interrupted after so many reports (0: never)."""
    told: list[Progress] = []

    def report(progress: Progress) -> None:
        told.append(progress)
        if len(told) == last:
            raise KeyboardInterrupt

    try:
        return told, explore(*asked, tiles=tiles, work_limit=150, time_limit_s=600, on_progress=report)
    except KeyboardInterrupt:
        return told, None


@pytest.mark.parametrize("seed", few(range(200), 4))
def test_no_report_is_worse_than_one_before_it(seed: int) -> None:
    rng = random.Random(f"reports {seed}")
    asked, tiles = _question(rng), rng.choice(("any", "divide"))
    told, result = _told(asked, tiles, 0)
    assert result is not None
    for old, new in pairwise((*told, Progress(result.best, result.value, result.bound, result.gap, result.seconds))):
        assert old.value is None or (new.value is not None and new.value <= old.value), "values fall"
        assert old.bound is None or new.bound is None or new.bound >= old.bound, "bounds rise"
    moments = [(moment.value or float("inf"), -moment.bound) for moment in result.history]
    assert all(a >= b for pair in pairwise(moments) for a, b in zip(*pair, strict=True)), "so does the history"
    objective = parse_objective(asked[2], asked[1])
    values = list[tuple[float, ...]]()
    for one in told:
        found = best_so_far(asked[0], asked[1], objective, one)
        if one.best is None:
            assert found is None
            continue
        assert found is not None
        assert (found.status in ("FEASIBLE", "OPTIMAL"), found.value) == (True, one.value), "what is told is so"
        values.append(tuple(value for _, value in found.values) or (one.value or 0,))
        assert found.bound is not None
        assert found.bound <= found.value
    if objective.goal.name == "LEXICOGRAPHIC" and result.values:
        values.append(tuple(value for _, value in result.values))
        assert values == sorted(values, reverse=True), "orders fall part by part"


def test_a_search_that_is_interrupted_has_told_what_it_would_have() -> None:
    asked = attention(heads=1, queries=4, keys=4, dim=2, softmax="none"), load_arch("flat3"), "energy"
    told, _ = _told(asked, "any", 0)
    values = [one.value for one in told]
    assert len(values) > 3
    for last in sorted({1, 2, len(told) // 2, len(told)}):
        before, result = _told(asked, "any", last)
        assert result is None
        assert [one.value for one in before] == values[:last]


@pytest.mark.parametrize("limit", [5, 10, 20, 60])
def test_a_climb_of_a_program_counts_one_tree_at_most_after_its_time(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, late, counted = 0, 0, vars(stays)["_count_node"]

    def clock() -> float:
        nonlocal now
        now += 1
        return now

    def noted(*asked: object) -> object:
        nonlocal late
        late += now > limit
        return counted(*asked)

    monkeypatch.setattr(stays, "_count_node", noted)
    workload = program(
        ("T[m,n] += A[m,k] * B[k,n]", "C[m,p] += T[m,n] * D[n,p]"), temporary=["T"], sizes=dict.fromkeys("mnkp", 16)
    )
    arch = load_arch("flat3")
    climbed = ProgramSearch(workload, arch, parse_objective("energy", arch), 0)
    climbed.go_on(Limits(clock, limit, Memory(None)), lambda *_: True)
    assert late <= len(workload.tensors) * len(arch.levels), "each tensor in each level"
    climbed.go_on(Limits(clock, 10**6, Memory(None), 6), lambda *_: True)
    assert climbed.best is not None, "it goes on"


def test_time_that_ends_among_rewritten_trees_leaves_what_was_walked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now, few_rewritings = 0, Climber.few_rewritings

    def later(climber: Climber, most: int) -> object:
        nonlocal now
        now = 2
        return few_rewritings(climber, most)

    monkeypatch.setattr(Climber, "few_rewritings", later)
    workload, arch = program(("T[m] = max(A[m], 0)", "E[m] = T[m] * A[m]"), sizes={"m": 1}), load_arch("flat3")
    climbed = ProgramSearch(workload, arch, parse_objective("energy", arch), 0)
    climbed.go_on(Limits(lambda: now, 1, Memory(None)), lambda *_: True)
    assert climbed.complete == "program trees"
    assert climbed.best is not None
