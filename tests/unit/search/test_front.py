"""Fronts and orders as answers: their points, what a time limit leaves of them, and how they print."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import count, pairwise

import pytest

from polymap import candidates, conv2d, einsum, evaluate, explore, matmul
from polymap.explore import search
from polymap.ir.errors import OptionError
from polymap.ir.machine import Architecture, MemoryLevel
from polymap.ir.mapping import Temporal
from polymap.report.figures.front import front_figure, front_svg, front_text
from polymap.report.summary import status_text
from polymap.search.answer import Question, best_so_far, front_answer
from polymap.search.documents import json_text, result_document
from polymap.search.problem.goals import parse_objective
from polymap.search.result import Progress, SearchResult, SpaceCount
from tests.unit.search.machines import two_levels

GEMM = matmul(m=8, n=8, k=8)
TWO = two_levels(1024)
CAPACITY = "pareto:capacity:BUF,traffic:DRAM"


def _with_buffer(bits: int) -> Architecture:
    """Return the machine with a buffer of this size (at least one bit, which holds nothing)."""
    dram, buffer, *rest = TWO.nodes
    assert isinstance(buffer, MemoryLevel)
    return replace(TWO, nodes=(dram, replace(buffer, capacity_bits=max(bits, 1)), *rest))


@pytest.fixture(scope="module")
def front() -> SearchResult:
    return explore(GEMM, TWO, CAPACITY, tiles="divide")


def test_a_front_falls_in_one_part_where_it_rises_in_the_other(front: SearchResult) -> None:
    values = [(point.values[0][1], point.values[1][1]) for point in front.front]
    assert len(values) >= 3
    assert all(a[0] < b[0] and a[1] > b[1] for a, b in pairwise(values))
    assert (front.status, front.value, front.best) == ("OPTIMAL", values[0][0], front.front[0].best)


def test_every_point_is_the_best_within_its_own_capacity(front: SearchResult) -> None:
    for point in front.front:
        assert point.best is not None
        assert point.cost is not None
        assert point.cost == evaluate(GEMM, TWO, point.best)
        smaller = _with_buffer(int(point.values[0][1]))
        assert explore(GEMM, smaller, "traffic:DRAM", tiles="divide").value == point.values[1][1]


def test_an_order_is_the_best_of_the_second_among_the_best_of_the_first() -> None:
    layer = conv2d(K=4, C=4, H=6, W=6, R=3, S=1, padding=0)
    first = explore(layer, TWO, "latency", tiles="divide")
    ranked = explore(layer, TWO, "lex:latency,energy", tiles="divide")
    both = explore(layer, TWO, "pareto:latency,energy", tiles="divide")
    assert ranked.status == "OPTIMAL"
    assert dict(ranked.values) == dict(both.front[0].values) == dict(ranked.bounds)
    assert ranked.value == first.value


def test_a_weighted_sum_is_what_its_parts_add_up_to() -> None:
    found = explore(GEMM, TWO, "weighted:0.5*energy+20*latency", tiles="divide")
    assert found.cost is not None
    assert found.value == 0.5 * found.cost.energy_pj + 20 * found.cost.latency_cycles
    front = explore(GEMM, TWO, "pareto:energy,latency", tiles="divide").front
    assert found.value == min(0.5 * float(p.values[0][1]) + 20 * float(p.values[1][1]) for p in front)


def test_a_limit_leaves_points_and_says_what_is_proven() -> None:
    layer = conv2d(K=8, C=8, H=14, W=14, R=3, S=3, padding=1)
    ticks = count()
    found = search(layer, TWO, CAPACITY, "divide", time_limit_s=40, clock=lambda: float(next(ticks)))
    assert found.status == "FEASIBLE"
    assert found.front
    for point in found.front:
        assert point.bound is not None
        assert point.value is not None
        assert point.bound <= point.value
        assert point.status in ("OPTIMAL", "FEASIBLE")


def test_a_point_is_proven_where_nothing_left_is_as_good() -> None:
    found = explore(GEMM, TWO, CAPACITY, tiles="divide")
    mappings = [point.best for point in found.front if point.best is not None]
    values = [tuple(Fraction(value) for _, value in point.values) for point in found.front]
    question = Question(GEMM, TWO, parse_objective(CAPACITY, TWO))
    space = SpaceCount(None, None, None, 0, 0)
    beside = (values[1][0] - 1, values[1][1])
    answer = front_answer(question, mappings, [beside], space, 0.0, values)
    assert answer.status == "FEASIBLE"
    assert [point.status for point in answer.front][:2] == ["OPTIMAL", "FEASIBLE"]
    assert answer.front[1].bound == values[1][0] - 1
    assert all(point.status == "OPTIMAL" for point in answer.front[2:])
    covered = (values[1][0] + 1, values[1][1])
    assert front_answer(question, mappings, [covered], space, 0.0, values).status == "OPTIMAL"
    claimed = [(values[0][0] - 1, values[0][1]), *values[1:]]  # a search that claims another value proves nothing
    assert front_answer(question, mappings, [covered], space, 0.0, claimed).status == "FEASIBLE"


def test_an_interrupted_front_keeps_its_points(front: SearchResult) -> None:
    mappings = tuple(point.best for point in front.front if point.best is not None)
    last = Progress(mappings[0], 0, 0, 0.0, 1.5, mappings)
    kept = best_so_far(GEMM, TWO, parse_objective(CAPACITY, TWO), last)
    assert kept is not None
    assert kept.status == "FEASIBLE"
    assert [point.values for point in kept.front] == [point.values for point in front.front]


def test_the_json_of_a_front_lists_its_points_by_rising_first_objective(front: SearchResult) -> None:
    document = json.loads(json_text(result_document(front)))
    assert document["status"] == "OPTIMAL"
    assert [entry["value"] for entry in document["front"]] == sorted(entry["value"] for entry in document["front"])
    for entry in document["front"]:
        assert entry["mapping"]["nodes"]
        assert entry["cost"]["legal"]
        assert entry["values"]["capacity:BUF"] == entry["cost"]["occupancy_bits"]["BUF"]
        assert "front" not in entry


def test_the_text_and_the_picture_of_a_front_show_every_point(front: SearchResult) -> None:
    figure = front_figure(front)
    assert [(across, up) for across, up, _ in figure.points] == [
        (point.values[0][1], point.values[1][1]) for point in front.front
    ]
    text = front_text(front)
    assert all(f"{int(value):,}" in text for point in front.front for _, value in point.values)
    assert "No mapping is as good as a point" in text
    assert status_text(front).startswith(f"OPTIMAL: {CAPACITY}, {len(front.front)} points")
    assert front_svg(front).count("<circle") == len(front.front) + 1  # one of the key: all are proven
    some = replace(front, space=replace(front.space, name="program trees"))
    assert "No mapping among program trees is as good as a point" in front_text(some)
    assert "proven complete among program trees" in front_figure(some).title
    assert "points" in str(front)


def test_a_front_of_three_objectives_is_no_staircase_in_two_of_them() -> None:
    small = matmul(m=4, n=4, k=4)
    front = search(small, TWO, "pareto:energy,latency,capacity:BUF", "divide")
    assert len(front.front) > 1
    picture = front_svg(front)
    assert "<polyline" not in picture
    assert "capacity:BUF not drawn" in picture
    picture = front_svg(search(small, TWO, "pareto:energy,capacity:BUF", "divide"))
    assert "<polyline" in picture
    assert "Capacity:BUF against energy" in picture, "levels keep their names"


def test_candidates_are_ranked_by_one_objective_or_an_order() -> None:
    with pytest.raises(OptionError, match="PM508"):
        list(candidates(GEMM, TWO, "pareto:energy,latency", limit=2))
    found = [cost for _, cost in candidates(GEMM, TWO, "lex:latency,energy", limit=5)]
    ranks = [(cost.latency_cycles, cost.energy_pj) for cost in found]
    assert ranks == sorted(ranks)


def test_sampled_candidates_are_ranked_by_all_parts_and_listed_once() -> None:
    twice = einsum("O[p] += A[2*p+r,q] * B[p+r]", p=4, r=3, q=1)
    found = list(candidates(twice, TWO, "lex:traffic:BUF,capacity:BUF", limit=50))
    moved = [sum(row.reads + row.writes for row in cost.traffic if row.level == "BUF") for _, cost in found]
    ranks = [(bits, dict(cost.occupancy_bits)["BUF"]) for bits, (_, cost) in zip(moved, found, strict=True)]
    assert len(set(ranks)) > 5
    assert ranks == sorted(ranks)
    trees = {tuple(node for node in mapping.nodes if node != Temporal("q", 1)) for mapping, _ in found}
    assert len(trees) == len(found)
