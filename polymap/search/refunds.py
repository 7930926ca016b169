"""What no tree of a program costs less than: each statement alone, less what never passes.

In a tree each statement has its way from the root, which is a mapping of it alone. A tensor T that one statement leaves
for one other has its outermost node on a way in some level h, and then comes in there at least once; or it has none,
and passes through the outermost level. So a tree costs at least the sum over the statements of what each alone costs
with T held in h and in no level between, less one pass of T between h and the outermost level, or what it costs alone;
h is the same for both. (A way alone moves no more than its part of the tree, in which nodes are emptied. Where T has
another node below h above both statements, the tree without the node in h costs no more.)

Where several statements read T, and one of them needs what another sums up over a dim of T, no temporal loop over that
dim stands above both. So none stands above a node of T around all of them, or some get T from the outermost level.

Statements that read a common tensor may share all its loads. So it is charged to one of them; each of the others reads
one element of it over and over (relatives.py), and the loads of that one are taken off. Each of the others also has an
innermost node of the tensor that it shares with another reader, in some level, or none; what it reads from there is its
own: so alone, with its loads into that level free, it costs no more, in the level where it costs least. So it is with
what a statement reads through a window, if it shares nodes with the statement that writes it.

Several of the readers may have as many instances, and dims that the tensor lacks (two products of one input). Then each
is charged one of so many parts of its loads as far as the innermost node that it shares with another reader, in
whichever level costs least, and all that it reads from there. Where a level has no room for what both need at once, one
has none of its own there around loops around the node. Where the tensor is made, one pass into it is taken off.

Trees: those in which every loop above a branch is over a dim of each statement below, as all spatial loops are that
stand above a node around two statements in a level below fan-outs (said where tiles divide). A *chain* is one without
spatial loops above a branch, and above it only nodes of levels that stand above all fan-outs: fewer cases.

Where tiles divide, more is known of a tensor T of two statements that stands around both in a level above all fan-outs:
it may stand below the loops between it and the branch where the two part, so as many indices of each of T's dims are
left there on both ways, and all of a dim that only one of the statements has; another tensor of one of the two stands
around both, too, and takes at least what is left of it there while the other one runs, or no more are left at its node.

These are *cases*: sizes in ranges, tensors around or not. Of each the sum over the statements bounds its trees; the
case with the least sum is split, that of the tensor that is largest for its level first.

In each round of the loops above that branch, what has no node above it is moved anew (programs/rounds.py); of the rest
of what a statement costs a leg tells.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from itertools import product
from math import prod
from operator import itemgetter

from polymap.ir import Statement, Tensor, Workload, accesses_of, written_tensors
from polymap.resources import OutOfTime, Stop
from polymap.search.around import (
    Met,
    Stay,
    Stays,
    full_when_shared,
    have_room,
    in_rounds,
    in_two,
    levels_above_fanouts,
    levels_that_may_hold,
    nodes_met,
    not_said,
    pass_cost,
    read_in_parts,
    read_once,
    sides_of,
    summed_up_between,
    told_in_rounds,
    with_room,
)
from polymap.search.driver import Search
from polymap.search.evidence import Evidence, Incumbent, least_of_forms
from polymap.search.forms import with_time_priced
from polymap.search.legs import (
    Leg,
    adds_up,
    bits_not_read,
    dividing_legs,
    filled_at_most,
    in_lines_of,
    least_cycles,
    least_of_leg,
    legs_of,
    move_cost,
    passed_tensors,
    simple_accesses,
    slow_levels,
    users_of,
)
from polymap.search.options import TUNING
from polymap.search.problem import Factor, Goal, Held, Objective, Powers, Span, divisors, parse_single
from polymap.search.programs import instance_bound, least_bits, moved_alone, touched_alone

Asked = tuple[str, tuple[tuple[str, Stay], ...]]  # of a statement
Ends = Mapping[str, tuple[int, tuple[int, str] | None]]  # the level a tensor comes from, and which is shared (Stay)


def bound_by_refunds(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Raise the floor of a program to what its statements cost alone, less what never passes."""
    return _raise_floors(search, evidence, stop, splits=0)


def bound_by_cases(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Raise the floor so, then by the cases of where tensors stand, unless a tree costs no more; at once, where it is
    told what is moved in rounds."""
    evidence = evidence if told_in_rounds(search) else bound_by_refunds(search, evidence, stop)
    return _raise_floors(search, evidence, stop, splits=TUNING.most_splits_of_trees)


def _raise_floors(search: Search, evidence: Evidence, stop: Stop, splits: int) -> Evidence:
    passed = passed_tensors(search.workload)
    if passed is None or search.rules or evidence.is_met or stop():
        return evidence
    for place, objective in enumerate(search.objective.singles):
        powers = objective.goal.powers
        if powers is not None and powers.energy and powers.cycles:
            found = _floor_of_product(search, powers, evidence.incumbents[:1], passed, stop, splits)
        else:
            found = _floor(search, objective, passed, stop, splits)
        evidence = evidence.with_floor(place, found)
    return evidence


def _floor(
    search: Search, objective: Objective, passed: tuple[Tensor, ...], stop: Stop, splits: int
) -> Fraction | None:
    """Return what no tree costs less than by an objective, None where nothing is known."""
    if not adds_up(search, objective):
        return None
    sums, lined = [Refunds.of(search, objective, stop).sums(passed, splits)], in_lines_of(search)
    if lined is not None:
        sums.append(sums_of_lines(search, lined, objective, stop, splits))
    return least_of_forms(sums)


def _floor_of_product(
    search: Search, powers: Powers, known: tuple[Incumbent, ...], passed: tuple[Tensor, ...], stop: Stop, splits: int
) -> Fraction | None:
    """Return what no tree costs less than by a product of powers of energy and latency: each is at least so much; and
    as a level's transfers take no longer than the run, energy and a price for each cycle together are at least energy
    on a machine where the bits that the level moves in a cycle cost that more. known: a tree, whose slow levels do."""
    energy = parse_single("energy", search.arch)
    least, fastest = _floor(search, energy, passed, stop, 0), least_cycles(search)
    if least is None or not splits or not known:
        return None if least is None else powers.product(least, fastest)
    sums, dearest = list[tuple[Fraction, Fraction]](), (least, search, Fraction(0))
    slow = tuple(slow_levels(search.arch, known))
    for levels in dict.fromkeys((slow, *((name,) for name in slow))):
        before, worth = least, powers.price(known[0].cost.energy_pj_exact, known[0].cost.latency_cycles)
        for arch, price in with_time_priced(search.arch, levels, [part * worth for part in TUNING.prices]):
            one = replace(search, asked=replace(search.asked, arch=arch, objective=energy))
            found = least_of_forms([Refunds.of(one, energy, stop).sums(passed, 0)]) or Fraction(0)
            sums.append((price, found))
            dearest = max(dearest, (found - price * fastest, one, price), key=lambda each: each[0])
            if stop() or found - price * fastest < before:
                break  # it is concave in the price
            before = found - price * fastest
    found = least_of_forms([Refunds.of(dearest[1], energy, stop).sums(passed, splits)]) or Fraction(0)
    least, sums = (least, [*sums, (dearest[2], found)]) if dearest[2] else (max(least, found), sums)
    return powers.least_product(least, fastest, sums)


def sums_of_lines(search: Search, lined: Workload, objective: Objective, stop: Stop, splits: int) -> Iterator[Fraction]:
    """Yield what no tree of a program in lines costs less than: the statements inside its loop as a program of their
    own, which finds the rows made before it; the instances of those that make these; and one pass of what these alone
    read, which comes in for none of those inside."""
    names = [each.name for each in search.workload.statements]
    statements = tuple(each for each in lined.statements if each.name in names)
    tensors = tuple(each for each in lined.tensors if any(accesses_of(one, each.name) for one in statements))
    inside = replace(lined, statements=statements, tensors=tensors)
    ahead = [each for each in lined.statements if each.name not in names]
    own = replace(search, asked=replace(search.asked, workload=inside))
    passed = passed_tensors(inside, apart=True)
    if passed is None:
        return
    more = Fraction(move_cost(search.arch, objective, 0, bits_not_read(search.workload, inside), 0))
    if objective.goal is Goal.ENERGY:
        more += search.arch.compute.pj * sum(prod(lined.extents()[name] for name in each.dims) for each in ahead)
    yield from (least + more for least in Refunds.of(own, objective, stop, in_lines=True).sums(passed, splits))


def _ask_statement(statement: str, where: Stays) -> Asked:
    """Return what is asked of a statement: where tensors stay in a level; else they pass through the outermost one."""
    told = ((name, stay) for name, stay in where.items() if stay.level or stay.shared or stay.apart)
    return statement, tuple(sorted(told, key=itemgetter(0)))


def _in_any_rounds(where: Stays) -> Stays:
    return {name: stay.of_any_rounds for name, stay in where.items()}


@dataclass(slots=True)
class Refunds:
    """What statements cost at least. known: before the refund, by statement and where the tensors that it passes on or
    gets stay; that of one with tensors anywhere bounds those that were not looked at."""

    cases: Cases
    stop: Stop
    known: dict[Asked, Fraction | None] = field(default_factory=dict[Asked, Fraction | None])
    _unpaid: dict[tuple[Asked, int], Fraction | None] = field(default_factory=dict[tuple[Asked, int], Fraction | None])
    _cut: dict[Asked, Fraction] = field(default_factory=dict[Asked, Fraction])  # of these, where a limit ended a leg
    _told: dict[Asked, Fraction | None] = field(default_factory=dict[Asked, Fraction | None])  # since `least` began
    _stays: dict[tuple[str, bool], list[Stay]] = field(default_factory=dict[tuple[str, bool], list[Stay]])
    _filled: dict[str, Fraction] = field(default_factory=dict[str, Fraction])
    _refunds: dict[tuple[str, str, Stay], Fraction] = field(default_factory=dict[tuple[str, str, Stay], Fraction])

    @staticmethod
    def of(search: Search, objective: Objective, stop: Stop, *, in_lines: bool = False) -> Refunds:
        """Return what is known of a program on a machine, but for what limits cut, which is asked again."""
        key = search.workload, search.arch, objective.text
        kept = search.engines.made(Refunds, lambda: Refunds(Cases.of(search, objective, in_lines=in_lines), stop), key)
        kept.stop, kept.cases = stop, replace(kept.cases, search=search)
        kept.known = {asked: cost for asked, cost in kept.known.items() if asked not in kept._cut}
        return kept

    def __getstate__(self) -> tuple[None, Mapping[str, object]]:
        """Return the state to pickle, of slots: the limits in it belong to this process, and are over."""
        return None, {each.name: getattr(self, each.name) for each in fields(self)} | {"stop": partial(bool, 1)}

    def sums(self, passed: tuple[Tensor, ...], splits: int) -> Iterator[Fraction]:
        """Yield what no tree costs less than, each no less than the one before: the least sum over the cases, of which
        so many are split, each in rounds. Raises OutOfTime."""
        choices = {each.name: self._widest(each, splits) for each in passed}
        while (found := self.least(choices)) is not None:
            yield found[0]
            if self.know(found[1]):
                continue
            name, parts = self.cases.split(found[1]) if splits else ("", [])
            if not parts:
                return
            splits -= 1
            choices[name] = [each for each in choices[name] if each != found[1][name]] + parts

    def _widest(self, tensor: Tensor, splits: int) -> list[Stay]:
        """Return the stays that are split, each in rounds."""
        key = tensor.name, bool(splits)
        if key not in self._stays:
            self._stays[key] = self.cases.in_rounds(tensor.name, self.cases.widest(tensor), splits)
        return self._stays[key]

    def least_of(self, names: Collection[str]) -> Fraction | None:
        """Return what is known that some statements cost at least as a program of their own, which gets from others and
        leaves for them what passes through the outermost level; None where nothing is."""
        workload, choices = self.cases.search.workload, dict[str, list[Stay]]()
        for tensor in passed_tensors(workload) or ():
            users = users_of(workload, tensor.name)
            inside = [each for each in users if each in names]
            if inside:  # two of them may share it further in, whether others need it or not
                choices[tensor.name] = self.cases.widest(tensor) if len(inside) > 1 else [Stay(0)]
        try:
            found = self.least(choices, names)
        except OutOfTime:
            return None
        return None if found is None else found[0]

    def least(
        self, choices: Mapping[str, Sequence[Stay]], names: Collection[str] | None = None
    ) -> tuple[Fraction, Stays] | None:
        """Return the least sum over the statements (names: over these), and the stays that it is of: of each tensor one
        of these, the same for both of its users; None where some statement has no mapping. Of parts of known stays the
        sum is no more than theirs."""
        self._told.clear()
        last = {name: self.cases.last_to_hear(name) for name in choices}
        totals: dict[tuple[tuple[str, Stay], ...], tuple[Fraction, Stays]] = {(): (Fraction(0), {})}  # by what is open
        for number, statement in enumerate(self.cases.search.workload.statements):
            if names is not None and statement.name not in names:
                continue
            own = [name for name, stays in choices.items() if self._hears(statement, name, stays[0], len(stays))]
            found: dict[tuple[tuple[str, Stay], ...], tuple[Fraction, Stays]] = {}
            for known, (total, chosen) in totals.items():
                given = dict(known)
                for stays in product(*([given[name]] if name in given else choices[name] for name in own)):
                    where = dict(zip(own, stays, strict=True))
                    both = given | where
                    beside = self.cases.beside(statement.name, both)
                    cost = self._at_least(statement.name, self._as_heard(statement.name, where), beside)
                    if cost is None:
                        continue
                    key = tuple(pair for pair in both.items() if number < last[pair[0]][pair[1].wider is not None])
                    if key not in found or total + cost < found[key][0]:
                        found[key] = total + cost, {**chosen, **where}
            totals = found
        return min(totals.values(), key=lambda each: each[0], default=None)

    def _hears(self, statement: Statement, tensor: str, stay: Stay, of: int = 1) -> bool:
        """Return whether a tensor's stay, one of so many, matters to what a statement costs."""
        is_one = of == 1 and stay.inside and bool(accesses_of(statement, tensor))
        return is_one or self.cases.hears(statement.name, tensor)

    def _as_heard(self, statement: str, where: Stays) -> Stays:
        """Return stays as far as they matter to a statement: of what others are charged for, which node readers share,
        and where it stands first on the ways of all."""
        return {
            name: replace(each, apart=False)
            if name not in self.cases.once[statement]
            else Stay(each.level if each.inside else 0, shared=each.shared, apart=each.apart, anew=each.anew)
            for name, each in where.items()
        }

    def know(self, chosen: Stays) -> bool:
        """Work out what statements cost with these stays; return whether something was not known before."""
        asked = list[tuple[str, Stays]]()
        for statement in self.cases.search.workload.statements:
            own = {name: stay for name, stay in chosen.items() if self._hears(statement, name, stay)}
            asked.append((statement.name, self._as_heard(statement.name, own)))
        before = len(self._unpaid)
        for statement, own in asked:
            wholes = {name: stay.whole for name, stay in own.items()}
            self._without_outermost(statement, wholes, self._anew(statement, own))
        if len(self._unpaid) > before:
            return True
        before = len(self.known)
        for statement, own in asked:
            self._before_refund(statement, {**_in_any_rounds(own), **self.cases.beside(statement, chosen)})
        return len(self.known) > before

    def _at_least(self, statement: str, where: Stays, beside: Stays) -> Fraction | None:
        """Return what is known that a statement costs at least with these stays, and that of what it meets."""
        if not have_room(self.cases.search.arch, where.values()):
            return None
        asked = _ask_statement(statement, {name: stay.whole for name, stay in where.items()})
        anew = self._anew(statement, where)
        where = _in_any_rounds(where)
        known = self._known(statement, {**where, **beside})
        more = [own + (self._unpaid.get((asked, levels)) or 0) for levels, own in anew.items()]
        known = None if known is None else max([known, *more])
        search, once = self.cases.search, self.cases.once[statement]
        if statement not in self._filled:
            bits = sum(search.workload.tensor(name).bits for name in once)
            self._filled[statement] = filled_at_most(search, self.cases.objective, bits)
        refund = self._filled[statement]
        for name, stay in ((name, stay) for name, stay in where.items() if stay.level and name not in once):
            asked = statement, name, stay
            if asked not in self._refunds:
                self._refunds[asked] = self.cases.refund(*asked)
            refund += self._refunds[asked]
        return None if known is None else max(Fraction(0), known - refund)

    def _anew(self, statement: str, where: Stays) -> dict[int, Fraction]:
        """Return, by so many outermost levels, what it costs at least that they move of what a statement alone touches,
        by the rounds of stays."""
        costs = [each[1:] for stay in where.values() for each in stay.anew if each[0] == statement and any(each[1:])]
        above = sum(not self.cases.search.arch.fanouts_above(each.name) for each in self.cases.search.arch.levels)
        return dict(zip((1, above), map(max, zip(*costs, strict=True)), strict=False))

    def _without_outermost(self, statement: str, where: Stays, numbers: Iterable[int]) -> None:
        """Work out what a statement costs before the refund without that, for some numbers of levels."""
        asked = _ask_statement(statement, where)
        for levels in (each for each in numbers if (asked, each) not in self._unpaid):
            if self.stop():
                raise OutOfTime
            self._unpaid[asked, levels] = self.cases.alone(statement, dict(asked[1]), unpaid=levels)

    def _known(self, statement: str, where: Stays) -> Fraction | None:
        """Return what is known before the refund: with these stays, with wider ones, or with any."""
        asked = _ask_statement(statement, where)
        if asked in self.known or not asked[1]:
            return self._before_refund(statement, where)
        if asked not in self._told:
            self._told[asked] = self._of_wider(statement, where)
        return self._told[asked]

    def _of_wider(self, statement: str, where: Stays) -> Fraction | None:
        """Return what is known before the refund with the stays of which some are parts; with any if they are whole."""
        wider = [self.cases.widened(statement, where, name) for name, stay in where.items() if stay.wider is not None]
        costs = [self._known(statement, each) for each in wider or [{}]]
        return None if None in costs else max(cost for cost in costs if cost is not None)

    def _before_refund(self, statement: str, where: Stays) -> Fraction | None:
        """Return what a statement costs before the refund, from now on known; no less than in the case of which it is
        a part, and than with tensors anywhere, as a limit may have ended one of the two."""
        asked = _ask_statement(statement, where)
        if asked not in self.known:
            if self.stop():
                raise OutOfTime
            base = self._of_wider(statement, dict(asked[1])) if asked[1] else Fraction(0)
            before = (legs := legs_of(self.cases.search)).cut
            cost = None if base is None else self.cases.alone(statement, dict(asked[1]))
            had = self._cut.pop(asked, Fraction(0))
            least = None if cost is None or base is None else max(cost, base, had)
            is_over = legs.cut == before or (least == had and self.cases.told_in_rounds)  # else time is for rounds
            self._cut |= {} if least is None or is_over else {asked: least}
            self.known[asked] = least
        return self.known[asked]


def no_chain_is_below(search: Search, passed: tuple[Tensor, ...], value: Fraction, stop: Stop) -> bool:
    """Return whether every chain is proven to cost at least so much. Raises OutOfTime."""
    refunds = Refunds(Cases.of(search, search.objective, of_chains=True), stop)
    most = max(TUNING.most_splits, TUNING.split_instances // instance_bound(search.workload))
    return any(least >= value for least in refunds.sums(passed, most))


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of where tensors stand, and what statements cost in them. once: by statement, what is charged to
    others. in_parts: by tensor, the readers to each of which a part of its loads is charged. met: by statement, whose
    node it meets though it does not touch that. of_chains: of these alone. in_lines: whether the program is.
    told_in_rounds: the tensors of whose users that is known."""

    search: Search
    objective: Objective
    once: dict[str, tuple[str, ...]]
    in_parts: dict[str, tuple[str, ...]]
    met: dict[str, Met]
    of_chains: bool = False
    in_lines: bool = False
    told_in_rounds: Collection[str] = ()

    @staticmethod
    def of(search: Search, objective: Objective, *, of_chains: bool = False, in_lines: bool = False) -> Cases:
        """Return the cases of a program, loads charged in parts where that says more of the readers alone."""
        once = read_once(search.workload)
        met, told = nodes_met(search.workload, once), told_in_rounds(search)
        cases = Cases(search, objective, once, {}, met, of_chains, in_lines, told)
        for name, readers in read_in_parts(search).items() if cases.divides else ():
            others = replace(cases, in_parts=cases.in_parts | {name: readers})
            sums = [sum(each.alone(reader, {}) or 0 for reader in readers) for each in (cases, others)]
            cases = others if sums[1] > sums[0] else cases
        return cases

    @property
    def divides(self) -> bool:
        return self.of_chains or dividing_legs(self.search)

    def hears(self, statement: str, tensor: str) -> bool:
        """Return whether a tensor's stay matters to a statement: it is charged for its loads, or a part of them."""
        is_charged = statement in self.charged_users(tensor) or statement in self.in_parts.get(tensor, ())
        return is_charged or (tensor in self.told_in_rounds and tensor in self.once[statement])

    def in_rounds(self, tensor: str, stays: Sequence[Stay], splits: int) -> list[Stay]:
        """Return stays in every number of rounds, where that says more and cases are split."""
        if not (splits and tensor in self.told_in_rounds):
            return list(stays)
        own, found = (self.search, self.objective), list[Stay]()
        least = least_bits(self.search.workload, self.search.arch, tensor, in_lines=self.in_lines)
        for stay in (each for each in stays if self.search.arch.levels[each.level].has_room_for(least)):
            is_known = stay.level in self._levels_above(tensor)
            found += in_rounds(*own, (tensor, stay), in_lines=self.in_lines) if is_known else [stay]
        return found

    def charged_users(self, tensor: str) -> list[str]:
        """Return the statements that touch a tensor and are charged for it."""
        return [each for each in users_of(self.search.workload, tensor) if tensor not in self.once[each]]

    def widest(self, tensor: Tensor) -> list[Stay]:
        """Return the stays of a tensor that are all cases together."""
        workload, extents = self.search.workload, self.search.workload.extents()
        access, above = simple_accesses(workload).get(tensor.name), self._levels_above(tensor.name)
        dims = access.dims if access is not None and len(self.charged_users(tensor.name)) == 2 else ()
        summed = summed_up_between(workload, tensor.name) if self.divides else ()
        is_read_apart = tensor.name in self.told_in_rounds and any(tensor.name in each for each in self.once.values())
        found = [Stay(0, apart=is_read_apart)]
        for number, level in enumerate(self.search.arch.levels):
            if not number or not level.may_hold(tensor) or (self.of_chains and number not in above):
                continue
            own = dims if dims and self.divides and number in above else summed
            found.append(Stay(number, tuple((dim, extents[dim] if dim in summed else 1, extents[dim]) for dim in own)))
            if summed:
                spans = tuple((dim, 1, extents[dim]) for dim in own if number in above)
                found.append(Stay(number, spans, also_outside=True))
        full = self._levels_full(tensor.name)
        return [replace(each, shared=one) for each in found for one in ((0, ""), *full)] if full else found

    def _levels_full(self, tensor: str) -> list[tuple[int, str]]:
        readers = self.in_parts.get(tensor, ())
        return full_when_shared(self.search, tensor, readers, self._levels_of_shared(tensor, 1)) if readers else []

    def _levels_of_shared(self, tensor: str, least: int) -> list[int]:
        """Return the levels, from one inwards, in which readers may share a node of a tensor."""
        found = levels_that_may_hold(self.search.workload, self.search.arch, tensor, least)
        return [each for each in found if not self.of_chains or each in (least, *self._levels_above(tensor))]

    def _levels_above(self, tensor: str) -> list[int]:
        return levels_above_fanouts(self.search.arch, self.search.workload, (tensor,))

    def split(self, chosen: Stays) -> tuple[str, list[Stay]]:
        """Return one of the stays in parts: the one with the widest ranges first, and its tensor; no parts where
        nothing is left to split."""
        whole, levels = self.search.workload.extents(), self.search.arch.levels
        sizes = {name: prod(each.shape) * each.bits for name in chosen for each in (self.search.workload.tensor(name),)}
        rooms = {name: levels[stay.level].usable_bits for name, stay in chosen.items() if stay.level}
        full = {name: Fraction(sizes[name], room or 1) if room else Fraction(0) for name, room in rooms.items()}
        chosen = {name: chosen[name] for name in sorted(full, key=lambda name: full[name], reverse=True)}
        for least_ratio in (TUNING.widest_case, 1):
            for name, stay in chosen.items():
                wide = [(most == whole[dim], most // least, dim) for dim, least, most in stay.spans if least < most]
                wide = [each for each in wide if each[0] or each[1] > least_ratio]
                if wide:
                    parts = in_two(stay, max(wide)[2], divisors(whole[max(wide)[2]]))
                    return name, [with_room(self.search, name, each, self._levels_above(name)) for each in parts]
                others = next(not_said(self.search, name, stay), None)
                if others is not None:
                    return name, [
                        replace(stay, held=(*stay.held, (others, is_held)), wider=stay) for is_held in (True, False)
                    ]
        return "", []

    def last_to_hear(self, tensor: str) -> tuple[int, int]:
        """Return the number of the last statement to which a tensor's stay matters, and that to which a part does."""
        order = [*self.once]
        last = max(order.index(each) for each in order if self.hears(each, tensor))
        return last, max(last, *(order.index(own) for own, met in self.met.items() if met.tensor == tensor), 0)

    def beside(self, statement: str, where: Stays) -> dict[str, Stay]:
        """Return the stay of the tensor whose node a statement meets, if it is a part and around the user. None where
        it has nothing of its own around a node that it shares: that is said of trees where this node has moved
        inwards, past the one that it meets perhaps. (Loads in parts move no node: both hold of one tree.)"""
        met = self.met.get(statement)
        stay = Stay(0) if met is None else where.get(met.tensor, Stay(0))
        if met is None or stay.wider is None or not stay.spans or not where.get(met.shared, Stay(0)).level:
            return {}
        if any(each.shared is not None and each.shared[1] == statement for each in where.values()):
            return {}
        own, whole = self.search.workload.statement(statement), self.search.workload.extents()
        less = {dim for dim, _, most in stay.spans if most < whole[dim] and dim in own.dims}
        others = {each.tensor for each in own.reads} - {own.target.tensor, met.shared, *self.once[statement]}
        if all(less <= {*accesses_of(own, name)[0].dims} for name in others):
            return {}  # no loop around the node loads anything again
        is_around = stay.inside or met.user in self.charged_users(met.tensor)
        is_around |= not stay.also_outside and bool(summed_up_between(self.search.workload, met.tensor))
        return {met.tensor: stay.of_any_rounds} if is_around and stay.level in self._levels_above(met.tensor) else {}

    def widened(self, statement: str, where: Stays, tensor: str) -> Stays:
        """Return the stays with the wider one of a tensor; without it if it then tells the statement nothing."""
        wider, met = where[tensor].wider, self.met.get(statement)
        is_met = met is not None and met.tensor == tensor
        left = {name: stay for name, stay in where.items() if name != tensor}
        return left if wider is None or (is_met and wider.wider is None) else left | {tensor: wider}

    def alone(self, statement: str, where: Stays, *, unpaid: int = 0) -> Fraction | None:
        """Return what a statement alone costs at least with tensors in some levels, on whichever side of its nodes the
        node stands that it meets; None where it has no mapping. unpaid: so many outermost levels move for nothing
        what it alone touches."""
        met, program = self.met.get(statement), self.search.workload
        if met is None or met.tensor not in where:
            return self._alone(statement, where, unpaid=unpaid)
        own = {name: stay for name, stay in where.items() if name != met.tensor}
        sides = self._sides(program.statement(statement), own, met, where[met.tensor])
        costs = [self._alone(statement, own, each, unpaid=unpaid) for each in sides]
        return min((cost for cost in costs if cost is not None), default=None)

    def _sides(self, own: Statement, where: Stays, met: Met, stay: Stay) -> Iterator[tuple[Span, ...]]:
        """Yield what is left at a statement's nodes, whichever stand around the node that it meets (`sides_of`)."""
        program, arch, whole = self.search.workload, self.search.arch, self.search.workload.extents()
        users = [program.statement(each) for each in self.charged_users(met.tensor)]
        ranges = {dim: (least, most) for dim, least, most in stay.spans if dim in own.dims}
        ranges |= {dim: (whole[dim], whole[dim]) for dim in own.dims if any(dim not in each.dims for each in users)}
        names = {each.tensor for each in own.reads} - {own.target.tensor, *self.once[own.name]}
        first = {name: max(1, where.get(name, Stay(0)).level) for name in names}  # any order: by name
        nodes = {name: levels_that_may_hold(program, arch, name, least) for name, least in first.items()}
        shared = levels_that_may_hold(program, arch, met.shared, where[met.shared].level)
        yield from sides_of(program, arch, own.name, met, stay.level, ranges, nodes | {met.shared: shared})

    def _alone(self, statement: str, where: Stays, sides: tuple[Span, ...] = (), *, unpaid: int) -> Fraction | None:
        """Return what a statement alone costs at least with tensors in some levels, whatever its other tiles: the more
        of what it costs with one element of those that are charged to others, and with their loads free; None where it
        has no mapping."""
        search, own = self.search, self.search.workload.statement(statement)
        is_part = bool(sides) or any(stay.wider is not None for stay in where.values())
        share = (TUNING.case_share if is_part else TUNING.refunded_leg_share)[self.of_chains]
        is_own = {name for name, stay in where.items() if stay.apart}
        shared, every = tuple(name for name in self.once[statement] if name not in is_own), where
        least_level = {name: stay.level for name, stay in where.items() if name in shared}
        where = {name: stay for name, stay in where.items() if name not in shared}
        first = tuple((name, stay.level) for name, stay in where.items() if stay.level)
        spans = [span for name, stay in where.items() for span in self._spans(own, name, stay)]
        held = self._held(own, where)
        taken = tuple((level, bits) for (level, name), bits in held.items() if not accesses_of(own, name))
        for number, level in enumerate(search.arch.levels):
            if not level.has_room_for(sum(bits for (at, _), bits in held.items() if at == number)):
                return None
        leg = replace(Leg.of(own, search.workload.extents()), first=first, spans=tuple(dict.fromkeys([*spans, *sides])))
        divides = self.of_chains or dividing_legs(search, own)
        moved = tuple((name, unpaid) for name in moved_alone(search.workload, own) if unpaid)
        leg = replace(leg, taken=taken, once=shared, unpaid=moved, divides=divides)
        told = {name: stay.shared for name, stay in every.items()}
        levels = {name: where[name].level if name in where else 0 for name in self._parts_of(statement, shared)}
        parts = {name: (level, told.get(name)) for name, level in levels.items()}
        least = self._least_in_parts(leg, parts, share)
        if least is None or not shared or not divides:
            return least
        leg = replace(leg, once=())
        costs = list[Fraction | None]()
        each = ((name, least_level.get(name, 0)) for name in shared)
        for places in product(*(levels_that_may_hold(search.workload, search.arch, *one) for one in each)):
            first = {name: (level, told.get(name)) for name, level in zip(shared, places, strict=True)}
            costs.append(self._with_shared(leg, parts, first, share))
        apart = min((cost for cost in costs if cost is not None), default=None)
        bits = sum(search.workload.tensor(name).bits for name in shared)  # what `Refunds` takes off
        return None if apart is None else max(least, apart + filled_at_most(search, self.objective, bits))

    def _parts_of(self, statement: str, others: Collection[str] = ()) -> list[str]:
        """Return the tensors, but for others, of whose loads a part is charged to a statement."""
        return [name for name, readers in self.in_parts.items() if statement in readers and name not in others]

    def _least_in_parts(self, leg: Leg, parts: Ends, share: float) -> Fraction | None:
        """Return what a leg costs at least, charged parts of its loads of some tensors from a level as far as the
        innermost node that it shares with another reader, in whichever level that stands."""
        costs = list[Fraction | None]()
        for inner in product(*(self._ends(name, *end) for name, end in parts.items())):
            own, rules = list[tuple[str, int, int, int]](), leg.spans
            for (name, (level, told)), end in zip(parts.items(), inner, strict=True):
                here = self.search.arch.levels[end].name
                inside = self._used_seldom(leg, name, end) if told == (end, leg.statement) else []
                if end > level:
                    own += [(name, level, end, len(self.in_parts[name])), *inside]
                    rules = (*rules, Held(here, name, must=True))
                    rules = (*rules, *(Held(here, other, must=False) for other, *_ in inside))
            one = replace(leg, parts=tuple(own), spans=rules)
            costs.append(least_of_leg(self.search, one, self.objective, share))
        return min((cost for cost in costs if cost is not None), default=None)

    def _ends(self, tensor: str, level: int, told: tuple[int, str] | None) -> list[int]:
        """Return the levels that the innermost node that readers share may stand in, or the level from which it is."""
        if told is not None and told[0]:
            return [max(level, told[0])]
        full = {number for number, _ in self._levels_full(tensor)} if told is not None else ()
        return [each for each in self._levels_of_shared(tensor, level) if each == level or each not in full]

    def _used_seldom(self, leg: Leg, tensor: str, number: int) -> list[tuple[str, int, int, int]]:
        """Return the parts of what is moved of what one reader alone touches, if it has none around the loops around a
        tensor's node in a level, and lacks no dims but the tensor's: as many as that has room for beside one."""
        workload, room = self.search.workload, self.search.arch.levels[number].usable_bits or 0
        own, found = workload.statement(leg.statement), list[tuple[str, int, int, int]]()
        others = [one for one in self.in_parts[tensor] if one != leg.statement]
        for each in touched_alone(workload, leg.statement, others):
            used = {*accesses_of(own, each.name)[0].dims, *simple_accesses(workload)[tensor].dims}
            is_free = (each.name, number) not in leg.first and not self.search.arch.levels[number].requires(each)
            if is_free and used >= {*own.dims}:
                found.append((each.name, 0, number, max(1, (room - each.bits) // workload.tensor(tensor).bits)))
        return found

    def _with_shared(self, leg: Leg, parts: Ends, places: Ends, share: float) -> Fraction | None:
        """Return what a leg costs at least, in each of some levels a tensor that others are charged for: loads into it
        are free; or others are charged a part, and the one who writes it leaves it there."""
        own, written = self._parts_of(leg.statement), written_tensors(self.search.workload)
        free = tuple((name, level) for name, (level, _) in places.items() if level and name not in own)
        first = tuple((name, level) for name, (level, _) in places.items() if level and name in own)
        if any(name not in written for name, _ in first):
            return None  # as from the outermost level
        parts = {**parts, **{name: place for name, place in places.items() if name in own}}
        least = self._least_in_parts(replace(leg, free=free, first=(*leg.first, *first)), parts, share)
        refund = sum((self.refund(leg.statement, name, Stay(level)) for name, level in first), Fraction(0))
        return None if least is None else max(Fraction(0), least - refund)

    def _spans(self, own: Statement, tensor: str, stay: Stay) -> Iterator[Span | Factor]:
        """Yield how many indices a stay leaves at the nodes of one of its statements, and what siblings do not cut."""
        arch, whole = self.search.arch, self.search.workload.extents()
        here = arch.levels[stay.level].name
        held = [(name, is_held) for name, is_held in stay.held if accesses_of(own, name)]
        outer = [each.name for each in arch.levels[: stay.level + 1] if not arch.fanouts_above(each.name)][-1]
        is_case = stay.level in self._levels_above(tensor) and (self.of_chains or stay.wider is not None)
        full = self._own_dims(own, tensor) if is_case and stay.spans else ()
        around = arch.fanouts_above(here) if self.divides and not stay.also_outside else ()
        yield from (Factor(each.name, dim, 1, 1) for each in around for dim in self._own_dims(own, tensor))
        for name in (tensor, *(name for name, is_held in held if is_held)):
            yield from (Span(here, name, here, dim, whole[dim], whole[dim]) for dim in full)
        for dim, least, most in stay.spans:
            ranges = {name: (least, whole[dim]) if is_held else (1, most) for name, is_held in held}
            ranges[tensor] = least, most
            for name, (low, high) in ranges.items():
                if low > 1 or high < whole[dim]:
                    yield Span(here, name, outer, dim, low, high)
            for level in arch.levels if self.of_chains and most < whole[dim] else ():
                if arch.fanouts_above(level.name):  # its nodes stand inside
                    touched = dict.fromkeys(each.tensor for each in (own.target, *own.reads))
                    yield from (Span(level.name, name, here, dim, 1, most) for name in touched)

    def _own_dims(self, own: Statement, tensor: str) -> list[str]:
        """Return the dims that a statement does not share with the other user of a tensor."""
        others = [each for each in self.search.workload.statements if each != own and accesses_of(each, tensor)]
        others = [each for each in others if tensor not in self.once[each.name]]
        return [dim for dim in own.dims if any(dim not in each.dims for each in others)]

    def _held(self, own: Statement, where: Stays) -> dict[tuple[int, str], int]:
        """Return, by (level above fan-outs, tensor), the bits that a node around a statement holds at least while it
        runs: each of them once, in the one node of a level that is on its way."""
        workload, whole = self.search.workload, self.search.workload.extents()
        found = dict[tuple[int, str], int]()
        for tensor, stay in where.items():
            ranges = {dim: least for dim, least, _ in stay.spans}
            is_above = stay.spans and stay.level in self._levels_above(tensor)
            for name in (tensor, *(name for name, is_held in stay.held if is_held)) if is_above else ():
                users = (each for each in workload.statements if accesses_of(each, tensor) and accesses_of(each, name))
                user = own if name == tensor else next(users)
                full, access = self._own_dims(user, tensor), accesses_of(user, name)[0]
                left = (ranges.get(dim, whole[dim] if dim in full else 1) for dim in access.dims)
                key = stay.level, name
                found[key] = max(found.get(key, 0), workload.tensor(name).bits * prod(left))
        return found

    def refund(self, statement: str, tensor: str, stay: Stay) -> Fraction:
        """Return what one pass of a tensor between a stay's level and the outermost one costs a statement."""
        own, workload = (self.search.arch, self.objective), self.search.workload
        outside = stay.also_outside and workload.statement(statement).target.tensor == tensor
        return pass_cost(workload, own, (statement, tensor), stay.level) if stay.level and not outside else Fraction(0)
