"""That no chain costs less than the best one found, where tiles divide.

A *chain* is a tree without spatial loops above a branch, and above it only nodes of levels that stand above all
fan-outs. So what refunds.py says of statements alone is sharper. A tensor T that one statement leaves for another
stands around both in such a level, right above the branch where they part (a node further out costs no less), and on
both ways

- as many indices of each of its dims are left there, and all of a dim that only one of the statements has;
- nodes of the levels below fan-outs stand inside: no more indices are left there;
- another tensor of one of the two stands around both in that level, and takes at least what is left of it there while
  the other one runs; or inside, where no more indices are left.

These are cases: sizes in ranges, tensors around or inside. Of each the sum over the statements bounds its chains; the
case with the least sum is split until no sum is below the best tree, or nothing is left to split.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from polymap.ir import Statement, Tensor, Workload, accesses_of
from polymap.search.dividing import Count, solve
from polymap.search.problem import Goal, Problem, Rules, Span, analyse, divisors, measure_of
from polymap.search.resources import OutOfTime, Stop
from polymap.search.run.chains import levels_above_fanouts
from polymap.search.run.driver import Search, counted_space
from polymap.search.run.evidence import Evidence
from polymap.search.run.legs import Leg, held_first, nest_of_leg, simple_accesses, with_less_room
from polymap.search.run.options import TUNING
from polymap.search.run.refunds import Refunds, Stay, Stays, passed_tensors, read_once
from polymap.search.run.relatives import is_plain_energy

CHAINS = "chains"


def prove_chains(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Prove that no chain costs less than the best tree known, where that is so."""
    passed, goal = passed_tensors(search.workload), search.objective.goal
    adds_up = goal is Goal.TRAFFIC or (goal is Goal.ENERGY and is_plain_energy(search.arch))
    if passed is None or search.rules or not (search.divides and adds_up and evidence.incumbents):
        return evidence
    best = evidence.incumbents[0]
    try:
        is_best = no_chain_is_below(search, passed, best.values[0], stop)
    except OutOfTime:
        return evidence
    space = replace(counted_space(None, Count()), name=CHAINS)
    return replace(evidence, left=(), space=space) if is_best else evidence


def no_chain_is_below(search: Search, passed: tuple[Tensor, ...], value: Fraction, stop: Stop) -> bool:
    """Return whether every chain is proven to cost at least so much. Raises OutOfTime."""
    once = read_once(search.workload)
    cases = Cases(search, once, stop)
    refunds = Refunds(search, search.objective, stop, once, cases.alone)
    choices = {each.name: cases.widest(each, refunds.charged_users(each.name)) for each in passed}
    while (found := refunds.least(choices)) is not None and found[0] < value:
        if refunds.know(found[1]):
            continue
        name, parts = cases.split(found[1])
        if not parts:
            return False
        choices[name] = [each for each in choices[name] if each != found[1][name]] + parts
    return True


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of where tensors stand, and what statements cost in them. once: by statement, what is charged to
    others."""

    search: Search
    once: dict[str, tuple[str, ...]]
    stop: Stop

    def widest(self, tensor: Tensor, users: list[str]) -> list[Stay]:
        """Return the stays of a tensor, one per level, that are all cases together."""
        workload, extents = self.search.workload, self.search.workload.extents()
        access = simple_accesses(workload).get(tensor.name)
        dims = access.dims if access is not None and len(users) == 2 else ()
        spans = tuple((dim, 1, extents[dim]) for dim in dims)
        levels = levels_above_fanouts(self.search.arch, workload, (tensor.name,))
        return [Stay(0), *(Stay(level, spans) for level in levels)]

    def split(self, chosen: Stays) -> tuple[str, list[Stay]]:
        """Return one of the stays in parts: the one with the widest ranges first, and its tensor; no parts where
        nothing is left to split."""
        whole = self.search.workload.extents()
        for name, stay in chosen.items():
            for dim, least, most in stay.spans:
                if least < most == whole[dim]:
                    return name, _split_off(stay, dim, divisors(most)[-1:], divisors(most)[:-1])
        for least_ratio in (TUNING.widest_case, 1):
            for name, stay in chosen.items():
                wide = [(most // least, dim) for dim, least, most in stay.spans if most // least > least_ratio]
                if wide:
                    return name, _halves(stay, max(wide)[1], divisors(whole[max(wide)[1]]))
            for name, stay in chosen.items():
                others = next(self._not_said(name, stay), None)
                if others is not None:
                    return name, [
                        replace(stay, held=(*stay.held, (others, is_held)), wider=stay) for is_held in (True, False)
                    ]
        return "", []

    def _not_said(self, tensor: str, stay: Stay) -> Iterator[str]:
        """Yield the tensors of which nothing is said, and of which it matters whether they are around both users."""
        workload, level = self.search.workload, self.search.arch.levels[stay.level]
        users = [each for each in workload.statements if accesses_of(each, tensor)]
        if not stay.spans or len(users) != 2:
            return
        for name, access in simple_accesses(workload).items():
            own = [each for each in users if accesses_of(each, name)]
            is_passed = sum(bool(accesses_of(each, name)) for each in workload.statements) > 1
            lacks = any(dim not in access.dims for dim, _, _ in stay.spans)
            is_open = len(own) == 1 and not is_passed and lacks and name not in dict(stay.held)
            if is_open and level.may_hold(workload.tensor(name)):
                yield name

    def alone(self, statement: str, where: Stays) -> Fraction | None:
        """Return what a statement alone costs at least; None where it has no mapping."""
        search, own = self.search, self.search.workload.statement(statement)
        nest = nest_of_leg(search.workload, replace(Leg.of(own, search.workload.extents()), once=self.once[statement]))
        if nest is None:
            return Fraction(0)
        rules, taken = list[Rules](), list[tuple[int, int]]()
        for name, stay in where.items():
            rules.append((*held_first(search.arch, name, stay.level), *self._rules(own, name, stay, nest)))
            taken += self._taken(own, name, stay)
        arch = with_less_room(search.arch, taken)
        return None if arch is None else self._solved(analyse(nest, arch, sum(rules, ())))

    def _solved(self, problem: Problem) -> Fraction | None:
        search = self.search
        if problem.reason is not None:
            return Fraction(0)
        measure = measure_of(search.objective, problem.workload, problem.arch)
        found = solve(problem, measure, self.stop, _not_told, work=search.limits.work, caches=search.caches)
        if found.left != ():
            raise OutOfTime
        return None if not found.found else measure.unscaled(found.found[0][0])

    def _rules(self, own: Statement, tensor: str, stay: Stay, nest: Workload) -> Iterator[Span]:
        """Yield the rules of a stay for one of its statements."""
        arch, whole = self.search.arch, self.search.workload.extents()
        here, held = arch.levels[stay.level].name, dict(stay.held)
        if not stay.spans:
            return
        full = [Span(here, tensor, here, dim, whole[dim], whole[dim]) for dim in self._own_dims(own, tensor)]
        yield from full
        for dim, least, most in stay.spans:
            yield Span(here, tensor, here, dim, least, most)
            for level in arch.levels:
                if arch.fanouts_above(level.name):
                    yield from (Span(level.name, each.name, here, dim, 1, most) for each in nest.tensors)
            for name, is_held in held.items():
                if accesses_of(own, name):
                    yield Span(here, name, here, dim, *((least, whole[dim]) if is_held else (1, most)))
        for name in (name for name, is_held in held.items() if is_held and accesses_of(own, name)):
            yield from (replace(each, tensor=name) for each in full)

    def _own_dims(self, own: Statement, tensor: str) -> list[str]:
        """Return the dims that a statement does not share with the other user of a tensor."""
        others = [each for each in self.search.workload.statements if each != own and accesses_of(each, tensor)]
        others = [each for each in others if tensor not in self.once[each.name]]
        return [dim for dim in own.dims if any(dim not in each.dims for each in others)]

    def _taken(self, own: Statement, tensor: str, stay: Stay) -> Iterator[tuple[int, int]]:
        """Yield (level, bits) that others hold at least around a statement while it runs."""
        workload, whole = self.search.workload, self.search.workload.extents()
        ranges = {dim: least for dim, least, _ in stay.spans}
        for name in (name for name, is_held in stay.held if is_held and not accesses_of(own, name)):
            (user,) = (each for each in workload.statements if accesses_of(each, name))
            full = self._own_dims(user, tensor)
            access = accesses_of(user, name)[0]
            left = (ranges.get(dim, whole[dim] if dim in full else 1) for dim in access.dims)
            yield stay.level, workload.tensor(name).bits * prod(left)


def _split_off(stay: Stay, dim: str, *parts: Sequence[int]) -> list[Stay]:
    """Return a stay in parts by the sizes of a dim that it may have."""

    def spans(part: Sequence[int]) -> tuple[tuple[str, int, int], ...]:
        return tuple((own, part[0], part[-1]) if own == dim else (own, a, b) for own, a, b in stay.spans)

    return [replace(stay, spans=spans(part), wider=stay) for part in parts]


def _halves(stay: Stay, dim: str, sizes: tuple[int, ...]) -> list[Stay]:
    """Return a stay with the larger and the smaller sizes of a dim that it may have."""
    (own,) = ([size for size in sizes if least <= size <= most] for name, least, most in stay.spans if name == dim)
    middle = len(own) // 2
    return _split_off(stay, dim, own[middle:], own[:middle])


def _not_told(_found: object, _bound: int) -> None:
    """Report nothing."""
