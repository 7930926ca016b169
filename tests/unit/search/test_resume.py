"""Searches that limits end: what they know, that they go on where they were, and how they went."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from polymap import conv2d, einsum, explore, load_arch, matmul
from polymap.cli.command_line import main
from polymap.explore import search
from polymap.ir.errors import OptionError
from polymap.ir.loopnest import Workload
from polymap.report.figures.course import course_figure, course_svg
from polymap.resources.memory import Memory, resident_mb
from polymap.search import any_size, provers as run
from polymap.search.any_size.geometric_search import ProductSearch
from polymap.search.any_size.sibling_search import SiblingSearch
from polymap.search.driver import Search
from polymap.search.evidence import Evidence
from polymap.search.options import TUNING
from polymap.search.result import SearchResult
from tests.unit.search.machines import two_levels
from tests.unit.search.ticks import Ticks

GEMM = matmul(m=16, n=24, k=8)
LAYER = conv2d(K=4, C=4, H=6, W=6, R=3, S=1, padding=0)
SMALL = matmul(m=3, n=2, k=1)
FLAT = load_arch("flat3")
TWO = two_levels(512)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "objective"),
    [
        (GEMM, "energy"),
        (GEMM, "lex:edp,energy"),
        (GEMM, "ed2p"),
        (LAYER, "energy"),
        (GEMM, "pareto:capacity:BUF,traffic:DRAM"),
    ],
)
def test_a_search_that_is_resumed_never_gets_worse_and_ends_at_the_same_answer(
    workload: Workload, objective: str
) -> None:
    clock = Ticks()
    whole = search(workload, TWO, objective, "divide", time_limit_s=10**9, clock=clock)
    assert whole.status == "OPTIMAL"
    ended = (
        (most, search(workload, TWO, objective, "divide", time_limit_s=most, clock=Ticks()))
        for most in (clock.now * part // 20 for part in range(19, 0, -1))
    )
    most, first = next((most, found) for most, found in ended if found.status == "FEASIBLE")
    answers = [first]
    while answers[-1].status == "FEASIBLE" and len(answers) < 20:  # what comes before the queue is done each time
        answers.append(answers[-1].resume(most))
    assert len(answers) >= 2
    for before, after in pairwise(answers):
        assert (after.value or 0) <= (before.value or 0)
        assert (after.bound or 0) >= (before.bound or 0)
        assert after.seconds > before.seconds
        for point in before.front:  # every point is kept, or one at least as good in each part stands for it
            assert any(
                all(new[1] <= old[1] for new, old in zip(p.values, point.values, strict=True)) for p in after.front
            )
    last = answers[-1]
    assert (last.status, last.value, last.values) == ("OPTIMAL", whole.value, whole.values)
    assert [point.values for point in last.front] == [point.values for point in whole.front]
    assert last.resume() is last


def test_an_order_goes_on_in_the_part_where_it_ended() -> None:
    """Each part is asked for most of what was left, and goes on where it ended."""
    clock = Ticks()
    whole = search(GEMM, TWO, "lex:energy,latency", "divide", time_limit_s=10**9, clock=clock)
    most = clock.now // 2
    answer = search(GEMM, TWO, "lex:energy,latency", "divide", time_limit_s=most, clock=Ticks())
    assert answer.status == "FEASIBLE"
    for _ in range(4):
        answer = answer.resume(most)
    assert (answer.status, answer.values) == ("OPTIMAL", whole.values)


def test_programs_go_on_with_the_boxes_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "TUNING", replace(TUNING, few_trees=0))
    monkeypatch.setattr(any_size, "climb_structures", lambda *asked, **_: asked[2])  # structures say nothing here
    monkeypatch.setattr(SiblingSearch, "go_on", lambda *_, **__: None)
    monkeypatch.setattr(SiblingSearch, "value", None)
    begun: list[object] = []
    begin = ProductSearch.begin

    def noted(self: ProductSearch, goal: float, is_over: Callable[[], bool]) -> bool:
        begun.append(self)
        return begin(self, goal, is_over)

    monkeypatch.setattr(ProductSearch, "begin", noted)
    found = search(GEMM, TWO, "energy", "any", time_limit_s=60, work_limit=60)
    for _ in range(10):
        if found.status == "OPTIMAL":
            break
        more = found.resume(60, work_limit=200)
        assert (more.bound or 0) >= (found.bound or 0)
        found = more
    assert len(begun) == 1
    assert found.value is not None


@pytest.mark.slow
def test_a_search_over_structures_that_is_resumed_goes_on_with_those_that_are_left() -> None:
    """31 x 37 x 41 on eyeriss_like: bound and mapping rise and fall to 488,948 pJ, whatever ends the search between."""
    found = explore(matmul(31, 37, 41), load_arch("eyeriss_like"), work_limit=400)
    for _ in range(30):
        if found.status == "OPTIMAL":
            break
        more = found.resume(work_limit=400)
        assert found.value is not None
        assert more.value is not None
        assert more.value <= found.value
        assert (found.bound or 0) <= (more.bound or 0) <= 488_948
        found = more
    assert (found.status, found.value) == ("OPTIMAL", 488_948)


LONGER = [pytest.param(text, marks=pytest.mark.slow) for text in ("lex:energy,latency", "pareto:energy,latency")]


@pytest.mark.parametrize("objective", ["energy", *LONGER])
def test_what_was_known_before_the_last_resume_is_kept_too(objective: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = Search.result

    def scripted(self: Search, evidence: Evidence) -> SearchResult:
        found = replace(result(self, evidence), status="FEASIBLE", bound=0)
        rise = rises.pop(0)
        if rise is None:
            return replace(found, status="TIMEOUT", best=None, value=None, values=(), front=())
        assert found.value is not None
        values = tuple((name, value + rise) for name, value in found.values)
        return replace(found, value=found.value + rise, values=values)

    rises = [1, 3, None, 2, None, 1]
    monkeypatch.setattr(Search, "result", scripted)
    found = explore(GEMM, TWO, objective, tiles="divide")
    first = found.value
    for _ in range(5):
        found = found.resume()
        assert found.best is not None
        assert found.value == first or objective.startswith("pareto")


def test_a_sampled_search_that_is_resumed_never_gets_worse() -> None:
    turned = einsum("O[2*p+r] += I[p] * W[r]", p=4, r=2)
    for objective in ("energy", "lex:traffic:DRAM,capacity:BUF", "pareto:energy,latency"):
        found = explore(turned, TWO, objective, work_limit=1)
        for _ in range(3):
            more = found.resume(work_limit=1)
            parts = [tuple(value for _, value in one.values) or (one.value or 0.0,) for one in (found, more)]
            fronts = [{one.values for one in answer.front} for answer in (found, more)]
            assert fronts[0] == fronts[1]
            assert parts[1] <= parts[0]
            assert more.space.evaluated > found.space.evaluated or objective != "energy"
            found = more


def test_a_memory_limit_ends_a_search_like_a_time_limit() -> None:
    resident = resident_mb()
    found = explore(LAYER, FLAT, tiles="divide", memory_limit_mb=round(Memory(None).taken_mb()))
    assert found.status == "FEASIBLE"
    assert found.value is not None
    assert found.bound is not None
    assert 0 < found.bound < found.value
    assert found.gap is not None
    assert resident_mb() < resident + 200


def test_limits_that_are_none_are_named() -> None:
    with pytest.raises(OptionError, match="PM548 memory_limit_mb is 0"):
        explore(GEMM, FLAT, memory_limit_mb=0)
    found = search(GEMM, FLAT, "energy", "divide", time_limit_s=2, clock=Ticks())
    assert found.status == "FEASIBLE"
    with pytest.raises(OptionError, match="PM504 time_limit_s is -1"):
        found.resume(-1)


def test_the_command_line_takes_a_memory_limit(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("explore", "resnet50.conv3_x", "--arch", "eyeriss_like", "--tiles", "divide")  # not proven in one step
    assert main((*words, "--memory-limit", "1")) == 0
    assert "FEASIBLE" in capsys.readouterr().out
    assert main((*words, "--memory-limit", "0")) == 2
    assert "PM554 --memory-limit is '0'" in capsys.readouterr().err


def test_the_history_ends_at_the_answer_and_its_picture_shows_it() -> None:
    found = explore(LAYER, TWO, tiles="divide")
    history = found.history
    assert len(history) >= 2
    assert (history[-1].value, history[-1].bound) == (found.value, found.bound)
    for before, after in pairwise(history):
        assert after.seconds >= before.seconds
        assert after.bound >= before.bound
        assert before.value is None or (after.value or 0) <= before.value
    figure = course_figure(found)
    assert figure.values[-1][1] == found.value
    assert figure.bounds[-1][1] == found.bound
    picture = course_svg(course_figure(found))
    assert picture.count("<polyline") == 2
    assert "OPTIMAL, gap 0 %" in picture


@pytest.mark.parametrize("divisor", [1, pytest.param(15, marks=pytest.mark.soak)])
@pytest.mark.parametrize(
    ("workload", "objective", "tiles", "few"),
    [
        (GEMM, "energy", "divide", 15),
        pytest.param(LAYER, "energy", "divide", 15, marks=pytest.mark.slow),
        pytest.param(GEMM, "pareto:capacity:BUF,traffic:DRAM", "divide", 150, marks=pytest.mark.slow),
        pytest.param(SMALL, "energy", "any", 15, marks=pytest.mark.slow),
        pytest.param(SMALL, "lex:edp,energy", "any", 15, marks=pytest.mark.slow),
    ],
)
def test_a_search_that_is_resumed_after_every_few_steps_ends_at_the_same_answer(
    workload: Workload, objective: str, tiles: str, few: int, divisor: int
) -> None:
    most = few // divisor
    whole = explore(workload, TWO, objective, tiles=tiles)
    assert whole.status == "OPTIMAL"
    found, resumed = explore(workload, TWO, objective, tiles=tiles, work_limit=most), 0
    while found.status in ("FEASIBLE", "TIMEOUT") and resumed < 3000:
        found, resumed = found.resume(60, work_limit=most), resumed + 1
    assert (found.status, found.values) == ("OPTIMAL", whole.values)
    assert found.value == whole.value
    assert [point.values for point in found.front] == [point.values for point in whole.front]
    if tiles == "divide":
        assert found.space.evaluated + found.space.pruned + (found.space.infeasible or 0) == found.space.listed
