"""A search that runs never tells less than it told before, and one that is interrupted answers what it told last."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from polymap import SearchResult, attention, explore, load_arch, program
from polymap.ir import Architecture, Workload
from polymap.search.answer import best_so_far
from polymap.search.problem.goals import parse_objective
from polymap.search.result import Progress
from tests.referee.problems import random_problem

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
            program(chain, temporary=["T"], **sizes),
            program(window, **{name: sizes[name] for name in "mkn"}),
            attention(heads=heads, queries=queries, keys=4, dim=dim, softmax=softmax),
        )
    )
    return workload, load_arch(rng.choice(("flat3", "eyeriss_like", "tpu_like"))), rng.choice(OBJECTIVES)


def _told(
    asked: tuple[Workload, Architecture, str], tiles: str, last: int
) -> tuple[list[Progress], SearchResult | None]:
    """Return what a search tells, and its answer; None where it is interrupted after so many reports."""
    told: list[Progress] = []

    def report(progress: Progress) -> None:
        told.append(progress)
        if len(told) == last:
            raise KeyboardInterrupt

    try:
        return told, explore(*asked, tiles=tiles, work_limit=150, time_limit_s=600, on_progress=report)
    except KeyboardInterrupt:
        return told, None


@pytest.mark.parametrize("seed", [pytest.param(n, marks=pytest.mark.soak if n >= 60 else ()) for n in range(400)])
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
