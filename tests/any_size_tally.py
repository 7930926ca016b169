"""Random small problems over tiles of any size: what the search answers and every bound against walking every tree.

`python -m tests.any_size_tally --cases 2000 --first N --state FILE` goes on where it stopped. Energies have one to nine
digits, objectives are single ones, weighted sums, orders and fronts, every other problem has constraints. The search
may not walk all trees itself, and has 60 to 1,500 steps. Bounds are held to the trees of each structure and of each box
of structures, not to the optimum alone. With `--wires` fan-outs cost energy, every tree is evaluated by itself, and on
half of the machines tensors may bypass most levels.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

from polymap.costmodel.evaluation import simulate
from polymap.costmodel.referees.trees import ScoredTree, scored_trees
from polymap.explore import search
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Mapping
from polymap.resources.limits import Work, never
from polymap.search import provers
from polymap.search.any_size.box_trees import Chunk
from polymap.search.any_size.crossings import sibling_ranges
from polymap.search.any_size.sibling_search import SiblingSearch, SingleStructure, Slower
from polymap.search.any_size.single_tensor import Counts
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import Measure, objective_values
from polymap.search.problem.objectives import Objective
from polymap.search.problem.problem import Problem as Analysed, analyse
from polymap.search.problem.read_rules import rules_from_document
from polymap.search.problem.rule_checks import measure_under
from polymap.search.result import SearchResult
from tests.case_machines import with_open_levels, with_wires
from tests.product_boxes import bound_products
from tests.referee.demands import Table, meets, random_demands
from tests.referee.problems import Problem, joined_objective, lengthened, random_problem, scaled
from tests.search_tally import Tally, go_on
from tests.tree_siblings import refine, sibling_counts

SECONDS = 6.0  # of the CPU, for one search
MOST_TREES = 6_000
MOST_WIRED = 700
WORK = (60, 400, 1_500)
ROUNDS = (1, 4, 12)  # of a structure's refinement
STRUCTURES = 6  # that are bounded by themselves, of one problem
PROGRAMS = 40  # geometric ones per problem

Values = tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A problem, what its mappings must meet besides (none: {}), and how many steps the search has."""

    problem: Problem
    demands: Table
    work: int


@dataclass(frozen=True, slots=True)
class Truth:
    """The trees that are within capacity and meet the question: (values, tree)."""

    trees: tuple[tuple[Values, ScoredTree], ...]

    @property
    def least(self) -> Values | None:
        """Return the least values in order (None: there is no tree)."""
        return min((values for values, _ in self.trees), default=None)

    def front(self) -> list[Values]:
        """Return the values that no other ones are as good as in every part."""
        kept: list[Values] = []
        for point in sorted({values for values, _ in self.trees}):
            if not any(covers(other, point) for other in kept):
                kept.append(point)
        return kept


def covers(one: Values, other: Values) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


def question_of(seed: int, *, wired: bool = False) -> tuple[Question, Truth]:
    """Return the question of a seed, and what is true of it."""
    rng = random.Random(f"any size tally {seed}")
    problem = _wired_problem(rng) if wired else random_problem(rng, most=MOST_TREES, tiles="any")
    if not wired and rng.random() < 0.4:
        by = lengthened(rng, Fraction(10) ** rng.randint(-2, 6))
        problem = replace(problem, arch=scaled(problem.arch, by), features=problem.features | {"long energies"})
    if rng.random() < 0.35:
        objective = joined_objective(rng, problem.arch)
        features = problem.features | {objective.split(":")[0]}
        problem = replace(problem, objective=objective, features=features)
    demands = random_demands(rng, problem.workload, problem.arch) if rng.random() < 0.5 else {}
    question = Question(problem, demands, rng.choice(WORK))
    fits = [tree for tree in _trees(problem, problem.objective) if tree.fits]
    if demands:
        fits = [tree for tree in fits if _meets(question, tree.mapping, tree.steps)]
    if rng.random() < 0.2 and fits:
        question, fits = _limited(rng, question, fits)
    return question, Truth(tuple((tree.values, tree) for tree in fits))


def _wired_problem(rng: random.Random) -> Problem:
    while True:
        problem = random_problem(rng, most=MOST_WIRED, tiles="any")
        arch = with_open_levels(rng, problem.arch) if rng.random() < 0.5 else problem.arch
        arch = with_wires(rng, arch)
        if arch.has_wire_energies and analyse(problem.workload, arch).reason is None:
            return replace(problem, arch=arch, features=problem.features | {"wires"})


def _trees(problem: Problem, objective: str) -> Iterator[ScoredTree]:
    """Yield all legal trees."""
    return scored_trees(problem.workload, problem.arch, objective, "any")


def _limited(rng: random.Random, question: Question, fits: list[ScoredTree]) -> tuple[Question, list[ScoredTree]]:
    """Return the question with a limit that some of the trees keep, and these."""
    problem = question.problem
    names = ["energy", "latency", "edp", f"traffic:{problem.arch.levels[0].name}"]
    other = rng.choice([name for name in names if name not in problem.objective])
    second = {tree.mapping: tree.value for tree in _trees(problem, other)}
    most = float(second[rng.choice(fits).mapping]) * rng.choice((1, 1, 0.9))
    demands: Table = {**question.demands, "limits": {other: most}}
    return replace(question, demands=demands), [one for one in fits if second[one.mapping] <= _written(most)]


def _written(number: float) -> Fraction:
    """Return a limit as it is read: the decimal number, not the float."""
    return Fraction(repr(number))


def _meets(question: Question, mapping: Mapping, steps: int) -> bool:
    return meets(question.demands, question.problem.workload, question.problem.arch, mapping, steps)


def check_wired(seed: int, tally: Tally) -> None:
    """Add the question of a seed to the tally, on a machine whose fan-outs cost energy."""
    check(seed, tally, wired=True)


def check(seed: int, tally: Tally, *, wired: bool = False) -> None:
    """Add the question of a seed to the tally."""
    question, truth = question_of(seed, wired=wired)
    tally.problems += 1
    tally.features.update({*question.problem.features, *question.demands})
    try:
        found = answer_of(question)
        tally.outcomes[found.status] += 1
        told = [fault_of(question, truth, found), *bound_faults(random.Random(seed), question, truth, tally)]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told with its seed
        told = [f"{type(error).__name__}: {str(error)[:200]}"]
    tally.wrong += [f"{seed}: {one}" for one in told if one]


def answer_of(question: Question) -> SearchResult:
    """Return what the search answers that may not walk all trees."""
    problem = question.problem
    with no_walk():
        return search(
            problem.workload,
            problem.arch,
            problem.objective,
            "any",
            time_limit_s=SECONDS,
            work_limit=question.work,
            constraints=question.demands or None,
            clock=time.process_time,
        )


@contextmanager
def no_walk() -> Generator[None]:
    """Keep the search from walking all trees of small spaces."""
    before = provers.TUNING
    setattr(provers, "TUNING", replace(before, few_trees=0))  # noqa: B010 - no constant for a moment
    try:
        yield
    finally:
        setattr(provers, "TUNING", before)  # noqa: B010


def fault_of(question: Question, truth: Truth, found: SearchResult) -> str:
    """Return what is wrong with an answer ("" for nothing)."""
    if truth.least is None:
        return "" if found.best is None and found.status in ("INFEASIBLE", "TIMEOUT") else "no tree meets the question"
    if found.status == "INFEASIBLE":
        return f"not infeasible: {_shown(truth.least)}"
    for point in found.front or ((found,) if found.best else ()):
        fault = _mapping_fault(question, point)
        if fault:
            return fault
    if question.problem.objective.startswith("pareto"):
        return _front_fault(truth, found)
    bounds = tuple(bound for _, bound in found.bounds) or (found.bound,)
    if found.bound is not None and bounds > _shown(truth.least):
        return f"bound {bounds} of {_shown(truth.least)}"
    if found.best is not None and _values(found) < _shown(truth.least):
        return f"value {_values(found)} below {_shown(truth.least)}"
    if found.status == "OPTIMAL" and _values(found) != _shown(truth.least):
        return f"no optimum: {_values(found)} of {_shown(truth.least)}"
    return ""


def _mapping_fault(question: Question, found: SearchResult) -> str:
    """Return what is wrong with the mapping of an answer: as the simulator counts it, and against the constraints."""
    workload, arch = question.problem.workload, question.problem.arch
    assert found.best is not None
    cost = simulate(workload, arch, found.best)
    if not cost.legal:
        return f"illegal: {cost.violations[0].message}"
    if not _meets(question, found.best, cost.compute_cycles * arch.compute.per_cycle):
        return f"{found.best} breaks constraints"
    limits: Any = question.demands.get("limits", {})
    for name, most in limits.items():
        if objective_values(workload, arch, parse_objective(name, arch), cost)[0] > _written(most):
            return f"{name} is above {most}"
    goal = parse_objective(question.problem.objective, arch)
    if _shown(objective_values(workload, arch, goal, cost)) != _values(found):
        return f"another value than {_values(found)}"
    return ""


def _front_fault(truth: Truth, found: SearchResult) -> str:
    """Return what is wrong with a front."""
    points, front = [_values(point) for point in found.front], [_shown(point) for point in truth.front()]
    if found.status == "OPTIMAL" and points != front:
        return f"no front: {points} of {front}"
    if any(covers(a, b) for a in points for b in points if a is not b):  # type: ignore[arg-type]
        return f"a point covers another: {points}"
    for point, own in zip(found.front, points, strict=True):
        better = [values for values in front if covers(values[1:], own[1:])]  # type: ignore[arg-type]
        if point.bound is not None and any(values[0] < point.bound for values in better):
            return f"bound {point.bound} of {own}, but there is {better[0]}"
        if point.status == "OPTIMAL" and own not in front:
            return f"{own} is no optimum"
    if found.bound is not None and front[0][0] < found.bound:
        return f"bound {found.bound} of {front}"
    return ""


def _values(found: SearchResult) -> tuple[float, ...]:
    return tuple(float(value) for _, value in found.values) or (float(found.value or 0),)


def _shown(values: Values) -> tuple[float, ...]:
    """Return exact values as they are printed: rounded once."""
    return tuple(float(value) for value in values)


def bound_faults(rng: random.Random, question: Question, truth: Truth, tally: Tally) -> Iterator[str]:
    """Yield bounds that are above a tree: of structures and boxes of them, and of geometric programs; of an order or a
    front for its first part."""
    problem = question.problem
    rules = rules_from_document(question.demands, problem.workload, problem.arch) if question.demands else ()
    analysed = analyse(problem.workload, problem.arch, rules)
    if analysed.reason is not None or truth.least is None:
        return
    goal: Objective = parse_objective(problem.objective, problem.arch).singles[0]
    measure = measure_under(goal, problem.workload, problem.arch, rules)
    by_structure: dict[Counts, tuple[Fraction, ScoredTree]] = {}
    for values, tree in truth.trees:
        counts = sibling_ranges(analysed, sibling_counts(analysed, tree.mapping))[0]
        if counts not in by_structure or values[0] < by_structure[counts][0]:
            by_structure[counts] = values[0], tree
    order = sorted(by_structure, key=lambda counts: (by_structure[counts][0], counts))
    some = [*order[: STRUCTURES // 2], *rng.sample(order, min(STRUCTURES // 2, len(order)))]
    for counts in dict.fromkeys(some):
        tally.outcomes["structures bounded"] += 1
        yield _structure_fault(rng, analysed, measure, counts, *by_structure[counts])
    yield from _box_faults(rng, analysed, measure, by_structure)
    yield _product_fault(problem.workload, problem.arch, analysed, measure, truth, tally)


def _structure_fault(
    rng: random.Random, problem: Analysed, measure: Measure, counts: Counts, least: Fraction, tree: ScoredTree
) -> str:
    """Return what is wrong with the bound of one structure, whose best tree is given."""
    found = refine(problem, measure, counts, None, rng.choice(ROUNDS)).bound
    if found is not None and measure.unscaled(found) <= least:
        return ""
    bound = None if found is None else measure.unscaled(found)
    return f"structure {counts}: bound {bound}, {least} is {tree.mapping}"


def _box_faults(
    rng: random.Random,
    problem: Analysed,
    measure: Measure,
    by_structure: dict[Counts, tuple[Fraction, ScoredTree]],
) -> Iterator[str]:
    """Yield structures that no box of a queue covers with a bound that is not above their trees."""
    structures = SiblingSearch(problem, measure)
    structures.go_on(None, never, Work(), steps=rng.choice((0, 1, 4, 12)))
    boxes = [(measure.unscaled(bound), *box) for bound, box in _queued(structures)]
    queue = vars(structures)["_queue"]
    slower = [(bound, item.steps) for bound, item in queue if isinstance(item, Slower)]
    for counts, (least, tree) in by_structure.items():
        of_each = zip(problem.extents, zip(*counts, strict=True), strict=True)
        steps = prod(-(-extent // prod(own)) for extent, own in of_each) if counts else prod(problem.extents)
        bounds = [bound for bound, low, high in boxes if _is_within(counts, low, high)]
        bounds += [measure.unscaled(bound) for bound, least_steps in slower if steps >= least_steps]
        if not bounds or min(bounds) > least:
            yield f"box of structure {counts}: bounds {bounds}, {least} is {tree.mapping}"


def _queued(structures: SiblingSearch) -> Iterator[tuple[int, tuple[Counts, Counts]]]:
    """Yield the bound and the least and largest counts of every box that is left."""
    state: dict[str, Any] = vars(structures)
    for bound, item in state["_queue"]:
        if isinstance(item, SingleStructure):
            ranges = sibling_ranges(structures.problem, item.counts)
            yield bound, (ranges[0], ranges[1])
        elif isinstance(item, Chunk):
            boxes = state["_trees"].boxes(item)
            for place, own in enumerate(item.bounds):
                low, high = boxes.low[:, :, place].tolist(), boxes.high[:, :, place].tolist()
                yield own, (tuple(map(tuple, low)), tuple(map(tuple, high)))


def _is_within(counts: Counts, low: Counts, high: Counts) -> bool:
    rows = zip(counts, low, high, strict=True)
    return all(a <= c <= b for own, least, most in rows for c, a, b in zip(own, least, most, strict=True))


def _product_fault(
    workload: Workload, arch: Architecture, problem: Analysed, measure: Measure, truth: Truth, tally: Tally
) -> str:
    """Return what is wrong with the bound of geometric programs, where there are any."""
    least = truth.least
    if least is None or measure.limits or not measure.is_linear:
        return ""
    goal = least[0] * Fraction(6, 5) + 1
    found = bound_products(problem, measure, goal, never, most_programs=PROGRAMS)
    if found is None:
        return ""
    tally.outcomes["programs bounded"] += 1
    return f"programs of {workload.name} on {arch.name}: bound {found}, value {least[0]}" if found > least[0] else ""


def main() -> int:
    parser = argparse.ArgumentParser(description="Random problems over tiles of any size against all trees.")
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--state", type=Path, help="a file that keeps the tally: the next call goes on from there")
    parser.add_argument("--wires", action="store_true", help="fan-outs cost energy")
    options = parser.parse_args()
    return go_on(check_wired if options.wires else check, options.cases, options.first, options.state)


if __name__ == "__main__":
    sys.exit(main())
