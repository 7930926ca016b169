"""Builds answers from what a search has found: exact values, bounds and status, for a front one per point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf, nextafter

from polymap.costmodel import Cost, evaluate
from polymap.ir import Architecture, Mapping, Workload
from polymap.search.options import Hints
from polymap.search.problem import PIECES, Goal, Objective, Rules, floor_of, is_confirmed, objective_values, refusals
from polymap.search.result import Progress, Scored, SearchResult, SpaceCount

Values = tuple[Fraction, ...]
UNCOUNTED = SpaceCount(syntactic=None, legal=None, distinct=None, evaluated=0, pruned=0)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked, limits aside."""

    workload: Workload
    arch: Architecture
    objective: Objective
    rules: Rules = ()
    tiles: str = "any"
    seed: int = 0
    hints: Hints = field(default_factory=Hints)

    def floors(self) -> Values:
        """Return what no mapping at all can beat, per part of an order or a front (else one)."""
        return tuple(floor_of(self.workload, self.arch, one) for one in self.objective.singles)


def answer(
    question: Question,
    mapping: Mapping,
    left: Sequence[Values],
    space: SpaceCount,
    seconds: float,
    claimed: Values | None,
    more: Callable[[int], Scored] | None = None,
    cost: Cost | None = None,
) -> SearchResult:
    """Return the answer for the best mapping. left: lower bounds, compared in order, of all that was not searched.
    claimed: what the search that gives `left` says that the mapping costs (None: `left` is what no mapping beats,
    whatever this one costs). cost: of the mapping, where it is known."""
    objective = question.objective
    cost = cost or evaluate(question.workload, question.arch, mapping)
    values = objective_values(question.workload, question.arch, objective, cost)
    check_answer(question, mapping, cost)
    left = believed_bounds(question, left, [(mapping, claimed, cost)])
    least = _each_alone(min((*left, values)), values, question.floors())
    status = "OPTIMAL" if least == values else "FEASIBLE"
    gap = next((gap_of(value, bound) for value, bound in zip(values, least, strict=True) if value != bound), 0.0)
    shown = tuple(number_of(one, value) for one, value in zip(objective.singles, values, strict=True))
    lower = tuple(map(bound_of, objective.singles, least, values))
    names = tuple(one.text for one in objective.singles)
    several = len(names) > 1
    return SearchResult(
        status,
        objective.text,
        mapping,
        cost,
        shown[0],
        lower[0],
        gap,
        space,
        seconds,
        values=tuple(zip(names, shown, strict=True)) if several else (),
        bounds=tuple(zip(names, lower, strict=True)) if several else (),
        more=more,
        workload=question.workload,
        arch=question.arch,
    )


def believed_bounds(
    question: Question, left: Sequence[Values], claims: Sequence[tuple[Mapping, Values | None, Cost | None]]
) -> Sequence[Values]:
    """Return the bounds of what was not searched: those of a search whose mappings cost what it claims (None: it claims
    nothing, and has searched nothing), else what no mapping beats. Every OPTIMAL of a search passes through here."""
    asked = question.workload, question.arch, question.objective
    for mapping, claimed, cost in claims:
        if claimed is None and not left:
            raise AssertionError("a search that has left nothing says what its mapping costs")
        if claimed is not None and not is_confirmed(*asked, mapping, claimed, cost):
            return (question.floors(),)
    return left


def check_answer(question: Question, mapping: Mapping, cost: Cost) -> None:
    """Raise AssertionError where a mapping would be a wrong answer: it breaks a rule, or beats a bound that is told."""
    workload, arch = question.workload, question.arch
    refused = refusals(workload, arch, question.rules, mapping, cost)
    if refused:
        raise AssertionError(f"the search gives a mapping that is no answer: {'; '.join(refused)}")
    values = objective_values(workload, arch, question.objective, cost)
    if any(floor > value for floor, value in zip(question.floors(), values, strict=True)):
        raise AssertionError("a mapping is better than what no mapping can beat")


def _each_alone(bounds: Values, values: Values, floors: Values) -> Values:
    """Return bounds that hold one by one: behind the first that is below its value, only the floor is known."""
    place = next((i for i, pair in enumerate(zip(bounds, values, strict=True)) if pair[0] != pair[1]), len(values))
    return (*bounds[: place + 1], *floors[place + 1 :])


def front_answer(
    question: Question,
    mappings: Sequence[Mapping],
    left: Sequence[Values],
    space: SpaceCount,
    seconds: float,
    claimed: Sequence[Values] | None,
    known: Sequence[Cost] = (),
) -> SearchResult:
    """Return the answer for a front. left: lower bounds per part of everything that was not searched. claimed: what the
    search says that each mapping costs, as `answer` has it. known: what the first mappings cost."""
    others = mappings[len(known) :]
    costs = [*known, *(evaluate(question.workload, question.arch, mapping) for mapping in others)]
    left = believed_bounds(question, left, list(zip(mappings, claimed or [None] * len(mappings), costs, strict=True)))
    points: dict[Values, SearchResult] = {}
    for mapping, cost in zip(mappings, costs, strict=True):
        values = objective_values(question.workload, question.arch, question.objective, cost)
        points.setdefault(values, answer(question, mapping, (), space, seconds, values, cost=cost))
    open_bounds = [bound for bound in left if not any(covers(values, bound) for values in points)]
    front = tuple(
        _with_bound(question, points[values], values, open_bounds)
        for values in sorted(points)
        if not any(covers(other, values) for other in points if other != values)
    )
    status = "FEASIBLE" if open_bounds else "OPTIMAL"
    return replace(front[0], status=status, front=front)


def _with_bound(question: Question, point: SearchResult, values: Values, left: Sequence[Values]) -> SearchResult:
    """Return the point with the least first part that anything left may have while as good in the other parts."""
    rivals = [bound[0] for bound in left if covers(bound[1:], values[1:])]
    least = min((values[0], *rivals))
    singles = question.objective.singles
    bounds = ((singles[0].text, bound_of(singles[0], least, values[0])), *point.values[1:])
    gap = gap_of(values[0], least)
    status = "FEASIBLE" if any(covers(bound, values) for bound in left) else "OPTIMAL"
    return replace(point, status=status, bound=bounds[0][1], bounds=bounds, gap=gap)


def covers(old: Values, new: Values) -> bool:
    """Return whether one is as good as the other in every part."""
    return all(a <= b for a, b in zip(old, new, strict=True))


def best_so_far(
    workload: Workload, arch: Architecture, objective: Objective, last: Progress, rules: Rules = ()
) -> SearchResult | None:
    """Return what an interrupted search has found, as its answer; None where it has nothing yet."""
    question = Question(last.workload or workload, arch, objective, rules)
    if last.best is None:
        return None
    floors = question.floors()
    if objective.goal is Goal.PARETO:
        return front_answer(question, last.front or (last.best,), [floors], UNCOUNTED, last.seconds, None)
    found = answer(question, last.best, (floors,), UNCOUNTED, last.seconds, None)
    if last.bound is None or last.gap is None or last.value != found.value or len(objective.singles) > 1:
        return found
    return replace(found, status="FEASIBLE", bound=last.bound, gap=last.gap)


def not_less(old: Progress, new: Progress) -> Progress:
    """Return the newer state of a search, with what the older one knew better."""
    kept = new if old.value is None or (new.value is not None and new.value <= old.value) else old
    bound = max(one for one in (old.bound, new.bound, 0) if one is not None)
    if kept.value is None:
        return replace(kept, bound=bound)
    bound = min(bound, kept.value)
    return replace(kept, bound=bound, gap=gap_of(Fraction(kept.value), Fraction(bound)), seconds=new.seconds)


def not_worse(old: SearchResult, new: SearchResult) -> SearchResult:
    """Return the newer answer to the same question, with what the older one knew better."""
    if new.status in ("OPTIMAL", "INFEASIBLE") or old.best is None or (new.front and new.best is not None):
        return new
    kept = new
    if new.best is None or _ranks(old) < _ranks(new):
        kept = replace(
            old,
            space=new.space,
            seconds=new.seconds,
            history=new.history,
            dividing=new.dividing,
            work=new.work,
            again=new.again,
        )
    if kept.values:  # of an order: the bounds of its parts belong together
        return kept
    bound = max(one for one in (old.bound, new.bound, 0) if one is not None)
    assert kept.value is not None
    bound = min(bound, kept.value)
    return replace(kept, bound=bound, gap=gap_of(Fraction(kept.value), Fraction(bound)))


def _ranks(found: SearchResult) -> tuple[int | float, ...]:
    """Return the values by which answers are compared, the first most significant."""
    assert found.value is not None
    return tuple(value for _, value in found.values) or (found.value,)


def gap_of(value: Fraction, bound: Fraction) -> float:
    """Return (value - bound) / value."""
    return float((value - bound) / value) if value else 0.0


def number_of(objective: Objective, value: Fraction) -> int | float:
    """Return a value as a number to show: an integer for objectives that count."""
    counts = objective.goal in (Goal.LATENCY, Goal.TRAFFIC, Goal.CAPACITY, *PIECES)
    if counts and value.denominator == 1:
        return int(value)
    try:
        return float(value)
    except OverflowError:  # above 1.8e308, where a fraction of a pJ is none too many
        return round(value)


def bound_of(objective: Objective, bound: Fraction, value: Fraction | None) -> int | float:
    """Return a bound as a number to show, rounded down; the value's own number where the bound is attained."""
    shown = number_of(objective, bound)
    if bound == value or shown <= bound:
        return shown
    return nextafter(shown, -inf) if isinstance(shown, float) else shown - 1
