"""Families of mappings side by side: the best mapping of each named dataflow, and what two mappings do differently."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from polymap.costmodel import Cost, dataflow as dataflow_of, evaluate
from polymap.explore import search
from polymap.inputs import answers_in_words, expected_list, expected_text, shown
from polymap.ir import (
    Architecture,
    Brief,
    BudgetError,
    Mapping,
    MaybeNone,
    Mistake,
    OptionError,
    Tabled,
    Workload,
    all_read,
    did_you_mean,
)
from polymap.networks.told import whole_bound
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.search import Options
from polymap.search.dividing import solve
from polymap.search.problem import (
    DATAFLOWS,
    Objective,
    analyse,
    dataflow_obstacle,
    is_confirmed,
    measure_under,
    objective_values,
    parse_single,
)
from polymap.search.trees import Sample, neighbours, sample_mappings

OPTIMUM = "optimum"
_SHORT = {"WS": "weight-stationary", "OS": "output-stationary", "IS": "input-stationary", "RS": "row-stationary"}
FAMILIES = (*DATAFLOWS, OPTIMUM)


class Tuning(NamedTuple):
    """How much is tried to find a family's best member (not swept)."""

    listed: int = 50
    """Best mappings that are looked through for members of the families."""
    drawn: int = 4000
    """Mappings drawn for families that have none among these."""
    named: int = 400
    """The best of those drawn, which are named."""
    work: int = 1500
    """Steps of the search under a dataflow's table."""
    steps: int = 30
    """From the best known member of a family to a better neighbour."""


TUNING = Tuning()

Scored = tuple[Mapping, Cost]


@answers_in_words
def order(dims: str) -> dict[str, object]:
    """Return a table for `constraints=`: all loops over a dim stand outside all loops over the next ("m r s p q")."""
    return {"order": expected_text(dims, "the order", OptionError).replace(",", " ").split()}


@answers_in_words
def dataflow(name: str) -> dict[str, object]:
    """Return a table for `constraints=`: the textbook's form of a dataflow (docs/reference/constraints.md).

    More mappings than these have the dataflow's name: `compare` looks for the best of all. Raises OptionError for an
    unknown name.
    """
    name = expected_text(name, "the dataflow", OptionError)
    full = _SHORT.get(name.upper(), name)
    if full not in DATAFLOWS:
        raise OptionError(Mistake("PM528", f"no table says '{name}'", did_you_mean(full, DATAFLOWS)))
    return {"dataflow": full}


@dataclass(frozen=True, slots=True, repr=False)
class Member(Brief):
    """The best known mapping of a family. value, bound: of the objective; no member of the family beats the bound.

    status: "OPTIMAL" where the two meet, "FEASIBLE", "INFEASIBLE" where the family has no member, or "TIMEOUT" where
    none was found until the limit (mapping None).
    """

    family: str
    status: str
    mapping: Mapping | MaybeNone
    cost: Cost | MaybeNone
    value: float | MaybeNone
    bound: float

    @property
    def gap(self) -> float | MaybeNone:
        """(value - bound) / value; None without a value."""
        return None if self.value is None else float((self.value - self.bound) / self.value) if self.value else 0.0


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Tabled):
    """The best of each family, in the order asked for. optimum: value of the best mapping known of all; is_proven:
    whether no mapping is better. options: with which it was asked, as its document has them."""

    workload: Workload
    arch: Architecture
    objective: str
    members: tuple[Member, ...]
    optimum: float | None
    is_proven: bool = False
    options: object = field(default=None, repr=False)

    def __getitem__(self, family: str) -> Member:
        return next(each for each in self.members if each.family == _SHORT.get(family.upper(), family))


@answers_in_words
def compare(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    families: Sequence[str] = FAMILIES,
    objective: str = "energy",
    *,
    time_limit_s: float = 60,
    seed: int = 0,
) -> Comparison:
    """Return the best mapping with dividing tiles of each family. The family "optimum" holds all legal mappings within
    capacity; the family of a dataflow those that `polymap.costmodel.dataflow` classifies as it.

    The 50 mappings of least cost are listed first; none is missing but trees with equal counts. The first in a family
    is its best one. A family without one costs at least as much as the last of the list; its best known mapping comes
    from a search under the dataflow's table and from samples, improved by local search. Counts alone do not say what
    is row-stationary: its bound is the optimum. Raises OptionError for unknown families, several values or statements.
    """
    given = Options(objective, "divide", time_limit_s=time_limit_s, seed=seed)
    workload, arch = question_of(workload, arch, given.check_words)
    _, names, goal = all_read(
        given.check,
        partial(_families, families, workload),
        partial(parse_single, objective, arch, ranked=True),
    )
    asked, end = (workload, arch, goal), time.monotonic() + time_limit_s
    listed, bound, is_complete = _listed(workload, arch, goal, lambda: time.monotonic() > end - time_limit_s / 2)
    has_none = is_complete and not listed
    if not is_complete:
        left = max(0.1, (end - time.monotonic()) / 2)
        result = search(workload, arch, objective, "divide", time_limit_s=left, seed=seed)
        is_own = result.workload in (None, workload)  # not one that computes the same with other loops
        listed += [(result.best, result.cost)] if is_own and result.best and result.cost else []
        listed.sort(key=lambda item: objective_values(workload, arch, goal, item[1]))
        bound, has_none = whole_bound(result), result.status == "INFEASIBLE"
    values = [objective_values(workload, arch, goal, cost)[0] for _, cost in listed]
    best, floor = dict[str, Scored](), values[-1] if is_complete and values else bound
    for mapping, cost in reversed(listed):
        best[dataflow_of(workload, arch, mapping, cost).value] = best[OPTIMUM] = (mapping, cost)
    proven = {name for name in best if name != DATAFLOWS[-1]} if is_complete else set[str]()
    empty = {name for name in names if has_none or (name not in best and _obstacle(workload, arch, name))}
    missing = [name for name in names if values and name not in empty and (name not in best or name == DATAFLOWS[-1])]
    if missing:
        take_in(best, _looked_for(*asked, objective, missing, end, seed), asked)
        values = objective_values(*asked, best[OPTIMUM][1])
    lower, known = dict.fromkeys(names, floor) | {OPTIMUM: bound, DATAFLOWS[-1]: bound}, proven | empty
    members = [_member(*asked, each, best.get(each), lower[each], is_proven=each in known) for each in names]
    options = {"families": names, "time_limit_s": time_limit_s, "seed": seed}
    first = (float(values[0]), values[0] <= bound) if values else (None, False)
    return Comparison(workload, arch, objective, tuple(members), *first, options)


def take_in(best: dict[str, Scored], found: dict[str, Scored], asked: tuple[Workload, Architecture, Objective]) -> None:
    """Note of each family, and of all mappings, the better of what is known and what is found: a search that was cut
    short may have missed what stands in a family."""
    for name, each in found.items():
        for family in (name, OPTIMUM):
            known = best.get(family, each)
            best[family] = min(known, each, key=lambda scored: objective_values(*asked, scored[1]))


def _families(given: object, workload: Workload) -> list[str]:
    """Return the families asked for, each once; of dataflows only where one statement has them."""
    listed = [expected_text(name, "the family", OptionError) for name in expected_list(given, "the list of families")]
    names = list(dict.fromkeys(_SHORT.get(name.upper(), name) for name in listed))
    unknown = [name for name in names if name not in FAMILIES]
    if unknown:
        what = "there is no family"
        raise OptionError([Mistake("PM528", f"{what} '{name}'", did_you_mean(name, FAMILIES)) for name in unknown])
    if not names:
        raise OptionError(Mistake("PM528", "no family is named", f"Known: {', '.join(FAMILIES)}."))
    if len(workload.statements) > 1 and names != [OPTIMUM]:
        what = f"{shown(workload.name)} has {len(workload.statements)} statements, but a dataflow is one statement's"
        raise OptionError(Mistake("PM526", what, "Compare its statements one by one; `explore` asks for all together."))
    return names


def _obstacle(workload: Workload, arch: Architecture, name: str) -> str:
    """Return the reason why a family surely has no member; "" where it may have one."""
    return "" if name == OPTIMUM else dataflow_obstacle(workload, arch, name)


def _listed(
    workload: Workload, arch: Architecture, goal: Objective, out_of_time: Callable[[], bool]
) -> tuple[list[Scored], Fraction, bool]:
    """Return the mappings of least cost, best first, what no mapping beats, and whether none is missing among them."""
    problem = analyse(workload, arch, ())
    if problem.reason is not None:
        return [], Fraction(0), False
    measure = measure_under(goal, workload, arch, ())
    outcome = solve(problem, measure, out_of_time, lambda _found, _bound: None, keep=TUNING.listed)
    scored = [(leaf.mapping, evaluate(workload, arch, leaf.mapping)) for _, leaf in outcome.found]
    claimed = [measure.unscaled_values(value) for value, _ in outcome.found]
    pairs = zip(scored, claimed, strict=True)
    is_right = all(is_confirmed(workload, arch, goal, mapping, values, cost) for (mapping, cost), values in pairs)
    scored.sort(key=lambda item: objective_values(workload, arch, goal, item[1]))
    is_complete = outcome.left == () and not outcome.is_late and is_right
    best = objective_values(workload, arch, goal, scored[0][1])[0] if scored and is_complete else Fraction(0)
    return scored, best, is_complete


def _looked_for(
    workload: Workload,
    arch: Architecture,
    goal: Objective,
    objective: str,
    names: Sequence[str],
    end: float,
    seed: int,
) -> dict[str, Scored]:
    """Return the best member that is found of each family, without proof. end: of time.monotonic()."""
    found: dict[str, tuple[Fraction, Scored]] = {}

    def offer(mapping: Mapping, cost: Cost) -> None:
        name = dataflow_of(workload, arch, mapping, cost).value
        value = objective_values(workload, arch, goal, cost)[0]
        if name in names and cost.legal and (name not in found or value < found[name][0]):
            found[name] = (value, (mapping, cost))

    share = max(0.5, end - time.monotonic()) / 2 / len(names)
    for name in names:
        table = dataflow(name)
        options = {"time_limit_s": share, "seed": seed, "constraints": table, "work_limit": TUNING.work}
        result = search(workload, arch, objective, "divide", **options)
        if result.best is not None and result.cost is not None:
            offer(result.best, result.cost)
    for mapping in (drawn := _drawn(workload, arch, objective, seed)):
        offer(mapping, evaluate(workload, arch, mapping))
    known = set[Mapping]()
    while len(found) < len(names) and time.monotonic() < end and not known.issuperset(drawn):
        known.update(drawn)
        seed += 1
        drawn = [each for each in _drawn(workload, arch, objective, seed) if each not in known]
        for mapping in takewhile(lambda _: time.monotonic() < end, drawn):
            offer(mapping, evaluate(workload, arch, mapping))
    for name in list(found):
        for _ in takewhile(lambda _: time.monotonic() < end, range(TUNING.steps)):
            before, (mapping, _) = found[name]
            for near in neighbours(workload, arch, mapping):
                offer(near, evaluate(workload, arch, near))
            if found[name][0] == before:
                break
    return {name: scored for name, (_, scored) in found.items()}


def _drawn(workload: Workload, arch: Architecture, objective: str, seed: int) -> list[Mapping]:
    """Return the best mappings of a sample (a small one where steps take cycles, which are counted mapping by mapping),
    each once; none where none is drawn, which only leaves families to the searches."""
    drawn = TUNING.named if arch.is_timed_by_step else TUNING.drawn
    try:
        sample = sample_mappings(workload, arch, drawn, seed, within_capacity=True)
    except BudgetError:
        return []
    return list(dict.fromkeys(sample[number] for number in best_first(sample, objective)))[: TUNING.named]


def best_first(sample: Sample, objective: str) -> list[int]:
    """Return the numbers of a sample's mappings by rising energy, latency or edp (others: energy)."""
    scores = sample.scores()
    column = {"latency": scores.latency_cycles, "edp": scores.edp}.get(objective, scores.energy_pj)
    return column.argsort(kind="stable").tolist()


def _member(
    workload: Workload,
    arch: Architecture,
    goal: Objective,
    name: str,
    found: Scored | None,
    bound: Fraction,
    *,
    is_proven: bool,
) -> Member:
    if found is None:
        return Member(name, "INFEASIBLE" if is_proven else "TIMEOUT", None, None, None, float(bound))
    value = objective_values(workload, arch, goal, found[1])[0]
    is_proven = is_proven or value <= bound
    return Member(
        name, "OPTIMAL" if is_proven else "FEASIBLE", *found, float(value), float(value if is_proven else bound)
    )
