"""What no tree of a program costs less than: each statement alone, less what never passes.

In a tree each statement has its way from the root, which is a mapping of it alone. A tensor T that one statement leaves
for one other has its outermost node on a way in some level h, and then comes in there at least once; or it has none,
and passes through the outermost level. So a tree costs at least the sum over the statements of what each alone costs
with T held in h and in no level between, less one pass of T between h and the outermost level, or what it costs alone;
h is the same for both. (Nodes are emptied where a child of a branch ends: a way alone moves no more than its part of
the tree. Where T has another node below h above both statements, it never passes between the two, and the tree
without the node in h costs no more.)

Statements that read a common tensor may share all its loads. So it is charged to one of them, to none if a statement
writes it; each of the others reads one element of it over and over (self_products.py, "one element"), and the loads of
that one are taken off.

Trees: those in which every loop above a branch is over a dim of each statement below.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod

from polymap.ir import Statement, Tensor, Workload, accesses_of, written_tensors
from polymap.search.problem import Goal, Objective, floor_of, parse_single
from polymap.search.resources import OutOfTime, Stop
from polymap.search.run.driver import Search
from polymap.search.run.evidence import Evidence
from polymap.search.run.legs import Leg, elements_of, least_of_leg, simple_accesses
from polymap.search.run.options import TUNING
from polymap.search.run.relatives import filled_once, is_plain_energy

Levels = dict[str, int]  # tensor -> the level in which it stays, 0: it passes through the outermost one


def bound_by_refunds(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Raise the floor of a program to what its statements cost alone, less what never passes."""
    passed = passed_tensors(search.workload)
    if passed is None or search.rules:
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
    refunds = Refunds(search, objective, stop, {}, read_once(search.workload))
    return refunds.least(passed)


def most_refunded_bits(workload: Workload) -> int | None:
    """Return how many bits fewer any tree moves at the outermost level than its statements at least move alone; None
    where that is not known.

    What one statement leaves for others never comes there, in the best case. What several read is loaded for one of
    them: each of the others has an instance an element, so that alone it loads each once at most for less elsewhere.
    """
    if passed_tensors(workload) is None:
        return None
    extents, accesses, total = workload.extents(), simple_accesses(workload), 0
    for tensor in workload.tensors:
        readers = [each for each in workload.statements if _reads(each, tensor.name)]
        is_written = tensor.name in written_tensors(workload)
        if not readers or (len(readers) < 2 and not is_written):
            continue
        loads_often = [each for each in readers if set(accesses_of(each, tensor.name)[0].dims) != set(each.dims)]
        if tensor.name not in accesses or len(loads_often) > 1:
            return None
        passes = len(readers) + tensor.temporary if is_written else len(readers) - 1
        total += passes * tensor.bits * elements_of(accesses[tensor.name], extents)
    return total


def passed_tensors(workload: Workload) -> tuple[Tensor, ...] | None:
    """Return the tensors that one statement leaves for others; None where there are none, or the bound does not
    hold."""
    found = list[Tensor]()
    for tensor in workload.tensors:
        users = _users(workload, tensor.name)
        writers = [each for each in workload.statements if each.target.tensor == tensor.name]
        if len(users) < 2 or not writers:
            continue
        is_alone = len(writers) == 1 and writers[0].target.is_plain
        if not is_alone or users[0] != writers[0].name or tensor.initial:
            return None
        found.append(tensor)
    return tuple(found) or None


def read_once(workload: Workload) -> dict[str, tuple[str, ...]]:
    """Return, by statement, the tensors that are charged to others: what several statements read, or what one reads
    otherwise than another writes it (all that it loads may stay)."""
    found: dict[str, tuple[str, ...]] = {each.name: () for each in workload.statements}
    written, extents = written_tensors(workload), workload.extents()
    alike = simple_accesses(workload)
    for tensor in workload.tensors:
        readers = [each for each in workload.statements if _reads(each, tensor.name)]
        if len(readers) < 2 and (tensor.name in alike or tensor.name not in written):
            continue
        most = max(readers, key=lambda each: prod(extents[name] for name in each.dims))
        for each in readers:
            if each is not most or tensor.name in written:
                found[each.name] = (*found[each.name], tensor.name)
    return found


def _reads(statement: Statement, tensor: str) -> bool:
    """Return whether a statement reads what it does not write itself."""
    return statement.target.tensor != tensor and bool(accesses_of(statement, tensor))


def _users(workload: Workload, tensor: str) -> list[str]:
    return [each.name for each in workload.statements if accesses_of(each, tensor)]


def _levels(search: Search, tensor: Tensor) -> list[int]:
    return [0, *(number for number, level in enumerate(search.arch.levels) if number and level.may_hold(tensor))]


@dataclass(slots=True)
class Refunds:
    """What statements cost at least. known: by statement and where the tensors that it passes on or gets stay. once: by
    statement, what is charged to others."""

    search: Search
    objective: Objective
    stop: Stop
    known: dict[tuple[str, tuple[tuple[str, int], ...]], Fraction | None]
    once: dict[str, tuple[str, ...]]

    def least(self, passed: tuple[Tensor, ...]) -> Fraction | None:
        """Return the sum over the statements, the level of a tensor with two users the same for both; None where some
        statement has no mapping."""
        users = {each.name: _users(self.search.workload, each.name) for each in passed}
        totals: dict[tuple[tuple[str, int], ...], Fraction] = {(): Fraction(0)}  # by the levels that a later one shares
        for statement in self.search.workload.statements:
            once, here = self.once[statement.name], statement.name
            own = [each for each in passed if accesses_of(statement, each.name) and each.name not in once]
            found: dict[tuple[tuple[str, int], ...], Fraction] = {}
            for known, total in totals.items():
                given = dict(known)
                choices = [[given[each.name]] if each.name in given else _levels(self.search, each) for each in own]
                for levels in product(*choices):
                    where = dict(zip((each.name for each in own), levels, strict=True))
                    if self.stop():
                        raise OutOfTime
                    cost = self._least_of(statement.name, where)
                    if cost is None:
                        continue
                    shared = {name: level for name, level in where.items() if len(users[name]) == 2}
                    still = {name: level for name, level in (given | shared).items() if users[name][-1] != here}
                    key = tuple(still.items())
                    found[key] = min(total + cost, found.get(key, total + cost))
            totals = found
        return min(totals.values(), default=None)

    def _least_of(self, statement: str, where: Levels) -> Fraction | None:
        key = statement, tuple(where.items())
        if key not in self.known:
            leg = Leg.of(self.search.workload.statement(statement), self.search.workload.extents())
            leg = replace(leg, once=self.once[statement])
            cost = least_of_leg(self.search, leg, self.objective, TUNING.refunded_leg_share)
            if cost is not None and any(where.values()):
                leg = replace(leg, first=tuple(where.items()))
                there = least_of_leg(self.search, leg, self.objective, TUNING.refunded_leg_share)
                cost = None if there is None else max(there, cost)  # a limit may have ended one of them
            refund = sum((self._refund(statement, name, level) for name, level in where.items()), Fraction(0))
            refund += self._filled_once(sum(self.search.workload.tensor(name).bits for name in self.once[statement]))
            self.known[key] = None if cost is None else max(Fraction(0), cost - refund)
        return self.known[key]

    def _refund(self, statement: str, tensor: str, level: int) -> Fraction:
        """Return what one pass of a tensor between a level and the outermost one costs; a writer's is due where the
        program needs the tensor after the run."""
        workload = self.search.workload
        writes = workload.statement(statement).target.tensor == tensor
        if not level or (writes and not workload.tensor(tensor).temporary):
            return Fraction(0)
        writer = next(each for each in workload.statements if each.target.tensor == tensor)
        bits = workload.tensor(tensor).bits * elements_of(writer.target, workload.extents())
        source, drain = (level, 0) if writes else (0, level)
        return self._cost(source, bits, 0) + self._cost(drain, 0, bits)

    def _filled_once(self, bits: int) -> Fraction:
        """Return what it costs at most that so many bits come into every instance of each level once."""
        arch = self.search.arch
        if self.objective.goal is Goal.ENERGY:
            return filled_once(arch, bits)
        return Fraction(2 * bits * len(arch.levels) * prod(fanout.size for fanout in arch.fanouts))

    def _cost(self, number: int, read: int, written: int) -> Fraction:
        """Return what bits read and written in a level cost."""
        level, objective = self.search.arch.levels[number], self.objective
        if objective.goal is Goal.ENERGY:
            return level.access_pj(read, written)
        return Fraction(read + written if objective.level == level.name else 0)
