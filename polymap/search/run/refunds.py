"""What no tree of a program costs less than: each statement alone, less what never passes.

In a tree each statement has its way from the root, which is a mapping of it alone. A tensor T that one statement leaves
for another has its outermost node on a way in some level h, and then comes in there at least once; or it has none, and
passes through the outermost level. So a tree costs at least the sum over the statements of what each alone costs with T
held in h and in no level between, less one pass of T between h and the outermost level, or what it costs alone. Of a
tensor with one reader the level is the same for both statements. (Nodes are emptied where a child of a branch ends: a
way alone moves no more than its part of the tree. Statements that read a common tensor are left out: they could share
its loads.)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from polymap.ir import Tensor, Workload, accesses_of
from polymap.search.problem import Goal, Objective, Rules, floor_of, parse_single
from polymap.search.resources import OutOfTime, Stop
from polymap.search.run.driver import Search
from polymap.search.run.evidence import Evidence
from polymap.search.run.legs import Leg, elements_of, held_first, least_of_leg, simple_accesses
from polymap.search.run.options import TUNING
from polymap.search.run.relatives import is_plain_energy

Levels = dict[str, int]  # tensor -> the level in which it stays, 0: it passes through the outermost one


def bound_by_refunds(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Raise the floor of a program to what its statements cost alone, less what never passes."""
    passed = passed_tensors(search.workload)
    if not passed or search.rules:
        return evidence
    for place, objective in enumerate(search.objective.singles):
        try:
            evidence = evidence.with_floor(place, _floor(search, objective, passed, stop))
        except OutOfTime:
            break
    return evidence


def _floor(search: Search, objective: Objective, passed: tuple[Tensor, ...], stop: Stop) -> Fraction | None:
    """Return what no tree costs less than by an objective, None where nothing is known."""
    powers = objective.goal.powers
    if powers is not None and powers.energy and powers.cycles:
        energy, latency = (parse_single(name, search.arch) for name in ("energy", "latency"))
        least = _floor(search, energy, passed, stop)
        return None if least is None else powers.product(least, floor_of(search.workload, search.arch, latency))
    is_energy = objective.goal is Goal.ENERGY and is_plain_energy(search.arch)
    if not is_energy and objective.goal is not Goal.TRAFFIC:
        return None
    refunds = Refunds(search, objective, stop, {})
    coupled = [each for each in passed if len(_users(search.workload, each.name)) == 2]
    names = [each.name for each in coupled]
    choices = product(*(_levels(search, each) for each in coupled))
    totals = [refunds.least(dict(zip(names, levels, strict=True)), passed) for levels in choices]
    return min((total for total in totals if total is not None), default=None)


def most_refunded_bits(workload: Workload) -> int | None:
    """Return how many bits fewer any tree moves at the outermost level than its statements at least move alone, where
    what passes between them never comes there; None where that is not known (module docstring)."""
    passed, accesses, extents = passed_tensors(workload), simple_accesses(workload), workload.extents()
    if not passed:
        return None
    passes = ((each, len(_users(workload, each.name)) - 1 + each.temporary) for each in passed)
    return sum(times * each.bits * elements_of(accesses[each.name], extents) for each, times in passes)


def passed_tensors(workload: Workload) -> tuple[Tensor, ...]:
    """Return the tensors that one statement leaves for others; () where the bound does not hold."""
    accesses, found = simple_accesses(workload), list[Tensor]()
    for tensor in workload.tensors:
        users = _users(workload, tensor.name)
        writers = [each for each in workload.statements if each.target.tensor == tensor.name]
        if len(users) < 2:
            continue
        if len(writers) != 1 or users[0] != writers[0].name or tensor.initial or tensor.name not in accesses:
            return ()
        found.append(tensor)
    return tuple(found)


def _users(workload: Workload, tensor: str) -> list[str]:
    return [each.name for each in workload.statements if accesses_of(each, tensor)]


def _levels(search: Search, tensor: Tensor) -> list[int]:
    return [0, *(number for number, level in enumerate(search.arch.levels) if number and level.may_hold(tensor))]


@dataclass(slots=True)
class Refunds:
    """What statements cost at least. known: by statement and where the tensors that it passes on or gets stay."""

    search: Search
    objective: Objective
    stop: Stop
    known: dict[tuple[str, tuple[tuple[str, int], ...]], Fraction | None]

    def least(self, coupled: Levels, passed: tuple[Tensor, ...]) -> Fraction | None:
        """Return the sum over the statements, each free to choose for tensors that are not coupled; None where one
        cannot be mapped so."""
        total = Fraction(0)
        for statement in self.search.workload.statements:
            own = [each for each in passed if accesses_of(statement, each.name)]
            choices = [[coupled[each.name]] if each.name in coupled else _levels(self.search, each) for each in own]
            costs: list[Fraction] = []
            for levels in product(*choices):
                where = dict(zip((each.name for each in own), levels, strict=True))
                if self.stop():
                    raise OutOfTime
                cost = self._least_of(statement.name, where)
                costs += [] if cost is None else [cost]
            if not costs:
                return None
            total += min(costs)
        return total

    def _least_of(self, statement: str, where: Levels) -> Fraction | None:
        key = statement, tuple(where.items())
        if key not in self.known:
            leg = Leg.of(self.search.workload.statement(statement), self.search.workload.extents())
            rules: Rules = tuple(
                rule for name, level in where.items() for rule in held_first(self.search.arch, name, level)
            )
            cost = least_of_leg(self.search, leg, self.objective, TUNING.refunded_leg_share, rules)
            refund = sum((self._refund(statement, name, level) for name, level in where.items()), Fraction(0))
            self.known[key] = None if cost is None else max(Fraction(0), cost - refund)
        return self.known[key]

    def _refund(self, statement: str, tensor: str, level: int) -> Fraction:
        """Return what one pass of a tensor between a level and the outermost one costs; a writer's is due where the
        program needs the tensor after the run."""
        workload = self.search.workload
        writes = workload.statement(statement).target.tensor == tensor
        if not level or (writes and not workload.tensor(tensor).temporary):
            return Fraction(0)
        extents, access = workload.extents(), simple_accesses(workload)[tensor]
        bits = workload.tensor(tensor).bits * elements_of(access, extents)
        source, drain = (level, 0) if writes else (0, level)
        return self._cost(source, bits, 0) + self._cost(drain, 0, bits)

    def _cost(self, number: int, read: int, written: int) -> Fraction:
        """Return what bits read and written in a level cost."""
        level, objective = self.search.arch.levels[number], self.objective
        if objective.goal is Goal.ENERGY:
            return level.access_pj(read, written)
        return Fraction(read + written if objective.level == level.name else 0)
