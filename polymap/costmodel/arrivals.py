"""What one instance of a level sends to the holders of a tensor below it, by classes of steps, in closed form.

A step follows another one because a temporal loop above the holders advances; the loops inside it begin again. So the
steps of one loop's advance are a product over the dims: every choice of a dim's digits outside of that loop, with the
last tile before the advance and the first one after it. Per group of axes that share dims the tiles are listed once and
gathered by their form; a class of messages is a form per group, at every sum of one start of each. Idle siblings keep
their tiles of tensors that are only read, so that each has a last tile of its own, and give back those of written ones
(docs/counting.md).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import lru_cache, partial
from itertools import count, product
from math import prod

import numpy as np

from polymap.costmodel.contiguous import Ints, Messages, SentMessages, distinct, unite_parts
from polymap.costmodel.layout import Layout, row_major
from polymap.costmodel.tuning import TUNING
from polymap.ir import (
    Access,
    Architecture,
    BudgetError,
    Fanout,
    Mistake,
    Multicast,
    PlaceRule,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
    components,
    rule_of,
)
from polymap.resources import is_time_up
from polymap.schedules import LoopView, StorageInTree

Address = Callable[[int, Ints], Ints]  # axis, indices along it from 0 -> what they add to the address, in elements
Digits = tuple[int, ...]
Sign = tuple[object, ...]  # what a value depends on
Merge = Callable[[Fanout], Multicast]  # how siblings along a fan-out share messages
FIRST = -1  # instead of a loop that advances: the first step, before which nothing is held;
END = -2  # the end of the run, at which the last tiles leave
_TILE, _ALL_NEW, _HELD, _PART = 1, 2, 4, 8
_ONCE, _NOTHING = np.zeros(1, np.int64), np.zeros(0, np.int64)


class Role(IntEnum):
    """What a loop is to the holders: their clock, siblings below one sender, a choice of the sender (its first), or
    part of every tile."""

    TIME = 0
    SIBLINGS = 1
    SENDER = 2
    INSIDE = 3


@dataclass(frozen=True, slots=True)
class Loop:
    """place: among the temporal loops above the holders, outermost first (of TIME). fanout: None of a temporal loop."""

    dim: str
    tile: int
    trips: int
    role: Role
    place: int
    fanout: Fanout | None


@dataclass(frozen=True, slots=True)
class _Tiles:
    """A form of tiles in one group of axes, of which some is held. whole: offsets from the first; new: those of them
    that were not held."""

    whole: Ints
    new: Ints
    starts: Ints


@dataclass(frozen=True, slots=True)
class _Form:
    """A form of sets in one group of axes, and what each of them is to siblings: _TILE, tiles of some; _ALL_NEW, that
    they have nothing of; _HELD, that they have; _PART, what some lack of a larger tile."""

    offsets: Ints
    roles: int
    starts: Ints


@dataclass(frozen=True, slots=True)
class _Group:
    """Axes of a tensor that share dims, directly or through others."""

    axes: tuple[int, ...]
    dims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Moment:
    """The tile of one dim for siblings with these digits, and the one held before."""

    siblings: Digits
    now: Ints
    before: Ints


@dataclass(frozen=True, slots=True)
class _Choices:
    """What a dim's tiles are after an advance: per choice of its digits outside the siblings that have work. shifts:
    each choice stands for as many, with all indices larger by so much."""

    moments: list[list[_Moment]]
    shifts: Ints

    @property
    def count(self) -> int:
        """The choices."""
        return len(self.moments) * len(self.shifts)


@dataclass(slots=True)
class _Shelf:
    """What is known of one tensor in one layout, under any tree: each entry by the tiles and roles of the loops that it
    depends on. Arrays with the same numbers are one array, which its identity stands for."""

    choices: dict[Sign, _Choices] = field(default_factory=dict[Sign, _Choices])
    forms: dict[Sign, _Forms] = field(default_factory=dict[Sign, "_Forms"])
    repeats: dict[Sign, int] = field(default_factory=dict[Sign, int])
    sums: dict[Sign, tuple[Ints, int]] = field(default_factory=dict[Sign, tuple[Ints, int]])
    news: dict[tuple[int, int, int], Ints] = field(default_factory=dict[tuple[int, int, int], Ints])
    same: dict[bytes, Ints] = field(default_factory=dict[bytes, Ints])
    sent: dict[Sign, SentMessages] = field(default_factory=dict[Sign, SentMessages])
    cases: dict[Sign, _Cases] = field(default_factory=dict[Sign, "_Cases"])
    numbers: dict[Sign, int] = field(default_factory=dict[Sign, int])
    fresh: Iterator[int] = field(default_factory=count)
    kept: int = 0

    def clear(self) -> None:
        """Forget everything."""
        for each in (
            self.choices,
            self.forms,
            self.repeats,
            self.sums,
            self.news,
            self.same,
            self.sent,
            self.cases,
            self.numbers,
        ):
            each.clear()
        self.kept = 0

    def shared(self, offsets: Ints) -> Ints:
        """Return the one array with these numbers."""
        self.kept += len(offsets)
        return self.same.setdefault(offsets.tobytes(), offsets)


@dataclass(slots=True)
class Sending:
    """One tensor between an instance of a level and the next holders of it.

    address: of the layout. weights: what an index of each dim adds to addresses, where that does not depend on the
    index (else None). keeps: whether siblings keep their tiles while they are idle. shelf: what is known of this
    tensor in this layout.
    """

    workload: Workload
    access: Access
    origin: tuple[int, ...]
    loops: tuple[Loop, ...]
    address: Address
    weights: dict[str, int] | None
    keeps: bool
    shelf: _Shelf = field(default_factory=_Shelf)

    clock: tuple[Loop, ...] = field(init=False)
    """The temporal loops above the holders."""
    own_dims: frozenset[str] = field(init=False)
    """The dims that the tensor is accessed by."""
    _groups: list[_Group] = field(init=False)
    _loops_of: dict[str, list[Loop]] = field(init=False)
    _cases: dict[str, _Cases] = field(init=False)
    _whens: dict[int, dict[str, tuple[int, bool]]] = field(init=False)
    _tiles: dict[Sign, Ints] = field(init=False)
    _times: dict[Sign, int] = field(init=False)
    _keys: dict[Sign, Sign] = field(init=False)
    _shared: dict[Sign, tuple[Digits, Digits]] = field(init=False)

    def __post_init__(self) -> None:
        self.clock = tuple(loop for loop in self.loops if loop.role is Role.TIME)
        self.own_dims = frozenset(dim for index in self.access.index for dim in index.coefficients())
        self._groups = _groups_of(self.access)
        self._loops_of = {dim.name: [] for dim in self.workload.dims}
        self._tiles, self._times, self._shared, self._keys = {}, {}, {}, {}
        for loop in self.loops:
            self._loops_of[loop.dim].append(loop)
        self._cases = {
            dim: self.shelf.cases.setdefault((dim, *((loop.tile, loop.role) for loop in own)), {})
            for dim, own in self._loops_of.items()
        }
        when = {dim.name: (0, False) for dim in self.workload.dims}
        self._whens = {END: when, FIRST: when}
        for loop in self.clock:
            when = {dim: (outside, False) for dim, (outside, _) in when.items()}
            when[loop.dim] = when[loop.dim][0] + 1, True
            self._whens[loop.place] = when

    @property
    def is_regular(self) -> bool:
        """Whether every choice of digits has a tile: no loop has fewer iterations at the end of another one."""
        for dim in self.workload.dims:
            own = [loop for loop in self.loops if loop.dim == dim.name]
            outside = sum(loop.role is Role.TIME for loop in own)
            found = self._choices_of(dim.name, outside, moves=False, first=True)
            tiles = sum(len(each) for each in found.moments) * len(found.shifts)
            if tiles != prod(loop.trips for loop in own if loop.role in (Role.TIME, Role.SIBLINGS)):
                return False
        return True

    def _of_advance(self, dim: str, advance: int, *, held: bool = True) -> _Choices:
        outside, moves = self._whens[advance][dim]
        if advance == END:
            last = self._choices_of(dim, 0, moves=False, first=False).moments[0]
            return _Choices([[replace(each, now=_NOTHING) for each in last if len(each.before)]], _ONCE)
        return self._choices_of(dim, outside, moves=moves, first=advance == FIRST or not held)

    def _choices_of(self, dim: str, outside: int, *, moves: bool, first: bool) -> _Choices:
        """Return the choices of the dim's `outside` outermost digits, those inside at their first. moves: the innermost
        of these digits has advanced; first: nothing was held before."""
        own, outer, number = self._case(dim, outside, moves=moves)
        known, key = self.shelf.choices, (number, first)
        if key not in known:
            known[key] = self._list_choices(dim, own, outer, moves=moves, first=first)
            self.shelf.kept += sum(len(one.now) for each in known[key].moments for one in each)
        return known[key]

    def _case(self, dim: str, outside: int, *, moves: bool) -> tuple[list[Loop], int, int]:
        """Return the loops of a dim that decide its choices, how many of the temporal ones lie outside, and a number of
        its own for all trees with these choices."""
        known, key = self._cases[dim], (outside, moves)
        if key not in known:
            own, outer = _deciding_loops(self._loops_of[dim], self.workload.extents()[dim], outside, moves=moves)
            sign = dim, tuple((loop.tile, loop.role) for loop in own), outer, moves
            if sign not in self.shelf.numbers:
                self.shelf.numbers[sign] = next(self.shelf.fresh)
            known[key] = own, outer, self.shelf.numbers[sign]
            self.shelf.kept += len(own)
        return known[key]

    def _list_choices(self, dim: str, own: list[Loop], outside: int, *, moves: bool, first: bool) -> _Choices:
        extent = self.workload.extents()[dim]
        times = [place for place, loop in enumerate(own) if loop.role is Role.TIME]
        spread = [place for place, loop in enumerate(own) if loop.role is Role.SIBLINGS]
        ranges = [range(own[place].trips) for place in times[:outside]]
        if moves:
            ranges[-1] = range(1, own[times[outside - 1]].trips)
        trips = [each.stop - each.start for each in ranges]  # `len` takes no count beyond 64 bits
        size = extent // prod(loop.trips for loop in own if loop.role is not Role.INSIDE)  # of a tile, or less
        if prod(trips) * prod(own[n].trips for n in spread) > TUNING.most_tiles or size > TUNING.most_elements:
            raise too_many_tiles(dim)
        shifts = _ONCE
        if self.weights is not None and _divide(own, extent):  # every choice is the first one, shifted
            tiles = [own[place].tile for place in times[:outside]]
            shifts = unite_parts([np.array(each) * tile for each, tile in zip(ranges, tiles, strict=True)])
            shifts, ranges = shifts - shifts[:1], [each[:1] for each in ranges]
        found: list[list[_Moment]] = []
        for choice in product(*ranges):
            if is_time_up():
                raise too_many_tiles(dim)
            moments: list[_Moment] = []
            for siblings in product(*(range(own[place].trips) for place in spread)):
                digits = dict(zip((*times, *spread), (*choice, *(0 for _ in times[outside:]), *siblings), strict=True))
                now, before = _indices(own, extent, digits), _NOTHING
                if not len(now) and not moments:
                    break  # where the first siblings are idle there is no step
                if not first and (len(now) or not self.keeps):
                    before = self._last(own, extent, digits, times, outside, moves=moves)
                if len(now) or len(before):
                    moments.append(_Moment(siblings, now, before))
            if moments:
                found.append(moments)
        return _Choices(found, shifts)

    def _last(
        self, own: list[Loop], extent: int, digits: dict[int, int], times: list[int], outside: int, *, moves: bool
    ) -> Ints:
        """Return the tile before: inside of the digit that moved (if it is the dim's) all others were at their last:
        that of the same siblings where they keep tiles, else that of the first ones, which work in every step."""
        before = dict(digits)
        shared = {} if self.keeps else dict.fromkeys(digits.keys() - set(times), 0)  # any order: a lookup
        if moves:
            before[times[outside - 1]] -= 1
        for place in times[outside:]:
            tried = ({**before, **shared, place: digit} for digit in reversed(range(own[place].trips)))
            before[place] = next(each[place] for each in tried if len(_indices(own, extent, each)))
        return _indices(own, extent, before)

    def idle_sums(self) -> str:
        """Return a dim that a written tensor is not accessed by, along which siblings are idle in some steps only: what
        they give back another one may take. "" where there is none."""
        for dim in self.workload.dims:
            own = [loop for loop in self.loops if loop.dim == dim.name]
            if self.keeps or dim.name in self.own_dims or _divide(own, dim.extent):
                continue
            outside = sum(loop.role is Role.TIME for loop in own)
            found = self._choices_of(dim.name, outside, moves=False, first=True).moments
            if len({tuple(each.siblings for each in moments) for moments in found}) > 1:
                return dim.name
        return ""

    def tile(self, digits: dict[Loop, int]) -> Ints:
        """Return the addresses of the tile of an instance at these digits of the clock and among its siblings."""
        indices: dict[str, Ints] = {}
        for dim in self.workload.dims:
            own = [loop for loop in self.loops if loop.dim == dim.name]
            key = dim.name, *(digits.get(loop, 0) for loop in own)
            if key not in self._tiles:
                self._tiles[key] = _indices(own, dim.extent, {n: digits.get(loop, 0) for n, loop in enumerate(own)})
            indices[dim.name] = self._tiles[key]
        if not all(len(each) for each in indices.values()):
            return np.zeros(0, np.int64)
        key = tuple(id(indices[dim]) for dim in self.own_dims)  # any order: one set
        if key not in self._tiles:
            parts = [self._addresses(group, {dim: indices[dim] for dim in group.dims}) for group in self._groups]
            self._tiles[key] = unite_parts(parts)
        return self._tiles[key]

    def messages(self, advance: int, merge: Merge, *, leaving: bool = False, whole: bool = False) -> list[Messages]:
        """Return what the siblings below one sender get in all steps that the advance of a loop begins.

        leaving: what they held before and do not hold now, instead of the reverse. whole: everything that they hold,
        whether they held it before or not (leaving: that they held, whether they hold it now or not).

        Raises BudgetError (PM472) where that is too much, or where siblings unite parts of what they hold in a way that
        is no product.
        """
        times = self.repeats(advance, merge)
        return self.sent(advance, merge, leaving=leaving, whole=whole).times(times) if times else []

    def sent(self, advance: int, merge: Merge, *, leaving: bool = False, whole: bool = False) -> SentMessages:
        """Return `messages` as if each were sent once, and not `repeats` times."""
        known = self.shelf.sent
        keys = tuple([self._key(group, advance, merge) for group in self._groups])
        key = keys, min(advance, 0), leaving, whole
        if key not in known:
            known[key] = SentMessages(tuple(self._messages(keys, advance, merge, leaving=leaving, whole=whole)))
            self.shelf.kept += len(known[key].messages)
        return known[key]

    def _messages(
        self, keys: Sequence[Sign], advance: int, merge: Merge, *, leaving: bool, whole: bool
    ) -> Iterator[Messages]:
        per_group = [
            self._forms(group, key, advance, merge, leaving=leaving, whole=whole)
            for group, key in zip(self._groups, keys, strict=True)
        ]
        last = next((n for n, each in enumerate(self._groups) if list(each.axes) == [len(self.access.index) - 1]), None)
        for sets in product(*(forms for forms, _ in per_group)):
            if _is_sent([each.roles for each in sets]) or (not sets and (advance < 0 or whole)):
                yield Messages(tuple(each.offsets for each in sets), tuple(each.starts for each in sets), 1, last)
        for tiles in product(*(parts for _, parts in per_group)):
            if sum(len(each.new) > 0 for each in tiles) > 1:
                yield Messages((self._beyond(tiles, merge),), tuple(each.starts for each in tiles), 1, None)

    def is_new(self, advance: int) -> bool:
        """Return whether steps that the advance of a loop begins bring elements of a tensor that is only read."""
        if not self.is_partition:
            return bool(self.messages(advance, as_sent))
        changing = (loop for loop in self.clock[max(advance, 0) :] if loop.trips > 1)
        return advance == FIRST or any(loop.dim in self.own_dims for loop in changing)

    @property
    def is_partition(self) -> bool:
        """Whether different tiles have no element in common: no axes are indexed by several dims."""
        return all(len(group.dims) == 1 for group in self._groups)

    def returns(self, advance: int, *, initial: bool) -> int:
        """Return how many of the steps bring each tile back that was held before (or had sums before the run): all but
        the one in which the loops over other dims than the tensor's are at their first."""
        steps = self.repeats(advance, as_one)
        if initial:
            return steps
        moved = next((loop.dim for loop in self.clock if loop.place == advance), None)
        return steps if moved is not None and moved not in self.own_dims else steps - 1

    def _beyond(self, tiles: Sequence[_Tiles], merge: Merge) -> Ints:
        """Return what a product of tiles has beyond the product of what was held in each group."""
        if any(loop.fanout and merge(loop.fanout) is Multicast.UNION for loop in self._siblings(self.own_dims)):
            what = f"siblings share messages of {self.access.tensor} that are new in several axes"
            raise BudgetError(Mistake("PM472", what, 'A fan-out with multicast "identical" is counted.'))
        if prod(len(each.whole) for each in tiles) > TUNING.most_elements:
            raise too_many_tiles(self.access.tensor)
        held = [np.setdiff1d(each.whole, each.new, assume_unique=True) for each in tiles]
        new = np.setdiff1d(unite_parts([each.whole for each in tiles]), unite_parts(held), assume_unique=True)
        return self.shelf.shared(new)

    def _siblings(self, dims: frozenset[str]) -> tuple[Loop, ...]:
        return tuple(loop for loop in self.loops if loop.dim in dims and loop.role is Role.SIBLINGS)

    def repeats(self, advance: int, merge: Merge) -> int:
        """Return how often each message of such a step is sent: choices of the dims that the tensor is not accessed by,
        and siblings along these that share none."""
        whens, total = self._whens[advance], 1
        for dim in self.workload.dims:
            if dim.name not in self.own_dims:
                key = dim.name, whens[dim.name], merge, min(advance, 0)
                if key not in self._times:
                    self._times[key] = self._repeats(dim.name, advance, merge)
                total *= self._times[key]
        return total

    def _repeats(self, dim: str, advance: int, merge: Merge) -> int:
        apart, _ = self._coordinates((dim,), merge)
        outside, moves = self._whens[advance][dim]
        key = self._case(dim, outside, moves=moves)[-1], apart, min(advance, 0)
        if key not in self.shelf.repeats:
            chosen = self._of_advance(dim, advance)
            per_step = [len({tuple(one.siblings[n] for n in apart) for one in each}) for each in chosen.moments]
            self.shelf.repeats[key] = sum(per_step) * len(chosen.shifts)
        return self.shelf.repeats[key]

    def _coordinates(self, dims: tuple[str, ...], merge: Merge) -> tuple[Digits, Digits]:
        """Return which of the siblings' digits (of these dims, side by side) belong to fan-outs that share nothing, and
        to those that share messages that are alike."""
        if (dims, merge) not in self._shared:
            loops = [loop for dim in dims for loop in self._siblings(frozenset((dim,)))]
            kinds = [loop.fanout and merge(loop.fanout) for loop in loops]
            apart, alike = (
                tuple(n for n, kind in enumerate(kinds) if kind is own) for own in (Multicast.NONE, Multicast.IDENTICAL)
            )
            self._shared[dims, merge] = apart, alike
        return self._shared[dims, merge]

    def _forms(self, group: _Group, decided: Sign, advance: int, merge: Merge, *, leaving: bool, whole: bool) -> _Forms:
        """Return the forms of the group's sets over all such steps, with their starts: each tile, and each part of one
        that is new, once; and the tiles of which not all is new, by what is. decided: what decides them."""
        key = group.axes, decided, min(advance, 0), leaving, whole
        if key not in self.shelf.forms:
            apart, alike = self._coordinates(group.dims, merge)
            self.shelf.forms[key] = self._listed_forms(group, advance, apart, alike, leaving=leaving, whole=whole)
        return self.shelf.forms[key]

    def _key(self, group: _Group, advance: int, merge: Merge) -> Sign:
        """Return what decides a group's tiles in steps that the advance of a loop begins, and who shares them."""
        whens = tuple([self._whens[advance][dim] for dim in group.dims])
        key = group.dims, whens, merge
        if key not in self._keys:
            told = zip(group.dims, whens, strict=True)
            cases = (self._case(dim, outside, moves=moves)[-1] for dim, (outside, moves) in told)
            self._keys[key] = *cases, self._coordinates(group.dims, merge)
        return self._keys[key]

    def _listed_forms(
        self, group: _Group, advance: int, apart: Digits, alike: Digits, *, leaving: bool, whole: bool
    ) -> _Forms:
        forms = dict[tuple[int, int], tuple[_Form, list[int]]]()
        partial = dict[tuple[int, int], tuple[_Tiles, list[int]]]()
        per_dim = [self._of_advance(dim, advance, held=leaving or not whole) for dim in group.dims]
        if prod(each.count for each in per_dim) > TUNING.most_tiles:
            raise too_many_tiles(self.access.tensor)
        shifts = _ONCE
        for dim, each in zip(group.dims, per_dim, strict=True):
            if len(each.shifts) > 1:
                assert self.weights is not None, "tiles are shifted where addresses are"
                shifts = (shifts[:, None] + self.weights[dim] * each.shifts).reshape(-1)
        for choice in product(*(each.moments for each in per_dim)):
            if is_time_up():
                raise too_many_tiles(self.access.tensor)
            united_by: dict[tuple[Digits, Digits], list[tuple[Ints, Ints, int]]] = {}
            for moments in product(*choice):
                if not all(len(each.before if leaving else each.now) for each in moments):
                    continue
                where = tuple(digit for each in moments for digit in each.siblings)
                key = tuple(where[n] for n in apart), tuple(where[n] for n in alike)
                united_by.setdefault(key, []).append(self._tile(group, moments, leaving=leaving, whole=whole))
            tiles = [
                (own, *(parts[0] if len(parts) == 1 else self._union(parts))) for (own, _), parts in united_by.items()
            ]
            sets: dict[tuple[Digits, int, int], tuple[Ints, int]] = {}
            seen: set[tuple[Digits, int, int, int]] = set()
            for own, now, new, start in tiles:
                state = _ALL_NEW if len(new) == len(now) else 0 if len(new) else _HELD
                lacking = [] if state else [(self.shelf.shared(new - new[0]), start + int(new[0]), _PART)]
                for offsets, at, roles in ((now, start, _TILE | state), *lacking):
                    known = sets.get((own, id(offsets), at), (offsets, 0))[1]
                    sets[own, id(offsets), at] = offsets, known | roles
                if state != _ALL_NEW and (same := (own, id(now), start, id(new))) not in seen:
                    seen.add(same)
                    partial.setdefault((id(now), id(new)), (_Tiles(now, new, _ONCE), []))[1].append(start)
            for (_, form, at), (offsets, roles) in sets.items():
                forms.setdefault((form, roles), (_Form(offsets, roles, _ONCE), []))[1].append(at)

        def starting(at: list[int]) -> Ints:
            return self.shelf.shared((np.array(at)[:, None] + shifts).ravel())

        return (
            [replace(each, starts=starting(at)) for each, at in forms.values()],
            [replace(each, starts=starting(at)) for each, at in partial.values()],
        )

    def _union(self, parts: list[tuple[Ints, Ints, int]]) -> tuple[Ints, Ints, int]:
        """Return what siblings that share messages hold together, and what of it is new."""
        now = distinct(np.concatenate([each + start for each, _, start in parts]))
        new = distinct(np.concatenate([each + start for _, each, start in parts]))
        return self.shelf.shared(now - now[0]), self.shelf.shared(new - now[0]), int(now[0])

    def _tile(self, group: _Group, moments: Sequence[_Moment], *, leaving: bool, whole: bool) -> tuple[Ints, Ints, int]:
        """Return the offsets of a tile from its first, those of them that are new, and where the first lies."""
        after, before = [each.now for each in moments], [each.before for each in moments]
        if leaving:
            after, before = before, after
        now, at = self._offsets(group, after)
        if whole or not all(map(len, before)):
            return now, now, at
        held, held_at = self._offsets(group, before)
        key = id(now), id(held), held_at - at
        if key not in self.shelf.news:
            self.shelf.news[key] = self.shelf.shared(np.setdiff1d(now, held + (held_at - at), assume_unique=True))
        return now, self.shelf.news[key], at

    def _offsets(self, group: _Group, indices: Sequence[Ints]) -> tuple[Ints, int]:
        """Return the offsets of these indices' elements from their first, and where that lies."""
        shift = 0
        if self.weights is not None:
            firsts = [int(each[0]) for each in indices]
            shift = sum(self.weights[dim] * first for dim, first in zip(group.dims, firsts, strict=True))
            indices = [each - first for each, first in zip(indices, firsts, strict=True)]
        key = group.axes, *(each.tobytes() for each in indices)
        if key not in self.shelf.sums:
            found = self._addresses(group, dict(zip(group.dims, indices, strict=True)))
            first = int(found[0])
            self.shelf.sums[key] = self.shelf.shared(found - first), first
        found, first = self.shelf.sums[key]
        return found, first + shift

    def _addresses(self, group: _Group, indices: dict[str, Ints]) -> Ints:
        """Return the addresses of the group's axes, rising: all combinations of the dims' indices."""
        total = np.zeros((1,) * len(group.dims), np.int64)
        for axis in group.axes:
            index = self.access.index[axis]
            along = np.full((1,) * len(group.dims), index.constant - self.origin[axis], np.int64)
            for place, dim in enumerate(group.dims):
                if dim in index.coefficients():
                    shape = [-1 if place == other else 1 for other in range(len(group.dims))]
                    along = along + index.coefficients()[dim] * indices[dim].reshape(shape)
            total = total + self.address(axis, along.reshape(-1)).reshape(along.shape)
        return distinct(total)


_Forms = tuple[list[_Form], list[_Tiles]]
_Cases = dict[tuple[int, bool], tuple[list[Loop], int, int]]


def _is_sent(roles: Sequence[int]) -> bool:
    """Return whether a product of sets, one per group, is a message: of siblings' tiles of which one is all new, or of
    what some siblings lack along one group, where they hold their tiles along all others."""
    if all(each & _TILE for each in roles) and any(each & _ALL_NEW for each in roles):
        return True
    others = [place for place, each in enumerate(roles) if not each & _HELD]
    if len(others) > 1:
        return False
    return any(each & _PART for place, each in enumerate(roles) if others in ([], [place]))


def _groups_of(access: Access) -> list[_Group]:
    """Return the groups of axes of a tensor that is accessed so."""
    axes = [tuple(index.coefficients()) for index in access.index]
    return [
        _Group(group, tuple(dict.fromkeys(dim for axis in group for dim in axes[axis]))) for group in components(axes)
    ]


def too_many_tiles(of: str) -> BudgetError:
    """Return the error of a mapping with too many tiles to list, or too large ones, or more than there is time for."""
    what = f"{of} has more than {TUNING.most_tiles:,} tiles along one of its axes, or more than there is time to list"
    return BudgetError(Mistake("PM472", what, "A mapping with larger tiles in the level below has fewer."))


def _deciding_loops(own: Sequence[Loop], extent: int, outside: int, *, moves: bool) -> tuple[list[Loop], int]:
    """Return the loops of a dim that decide what its tiles are, and how many of its temporal loops lie outside: none
    inside of every tile; and where tiles divide, one for neighbours that all stand anywhere, or at their ends."""
    last = max((place for place, loop in enumerate(own) if loop.role is not Role.INSIDE), default=-1)
    found = list(own[: last + 1])
    if not _divide(found, extent):
        return found, outside
    merged: list[Loop] = []
    timed = outer = 0
    for loop in found:
        timed += loop.role is Role.TIME
        begins = (moves and timed in (outside, outside + 1)) or timed == outside + 1
        if merged and loop.role is merged[-1].role is Role.TIME and not begins:
            one = merged.pop()
            merged.append(Loop(one.dim, loop.tile, one.trips * loop.trips, Role.TIME, one.place, None))
        else:
            merged.append(loop)
            outer += loop.role is Role.TIME and timed <= outside
    return merged, outer


def _divide(own: Sequence[Loop], extent: int) -> bool:
    """Return whether every tile divides the one around it."""
    return all(outer % loop.tile == 0 for outer, loop in zip((extent, *(loop.tile for loop in own)), own, strict=False))


def _indices(own: Sequence[Loop], extent: int, digits: dict[int, int]) -> Ints:
    """Return the indices of a dim under these digits of its loops (by place), rising."""
    runs = [(0, extent)]
    inner = max((place for place, loop in enumerate(own) if loop.role is not Role.INSIDE), default=-1)
    for place, loop in enumerate(own[: inner + 1]):
        if loop.role is Role.INSIDE:
            runs = [
                (start + low, min(loop.tile, size - low)) for start, size in runs for low in range(0, size, loop.tile)
            ]
        else:
            digit = digits.get(place, 0)
            runs = [(start + digit * loop.tile, min(loop.tile, size - digit * loop.tile)) for start, size in runs]
            runs = [run for run in runs if run[1] > 0]
    if len(runs) == 1:
        return np.arange(runs[0][0], runs[0][0] + runs[0][1])
    return distinct(np.concatenate([np.zeros(0, np.int64), *(np.arange(a, a + n) for a, n in runs)]))


def sending_of(
    workload: Workload,
    arch: Architecture,
    view: LoopView,
    node: StorageInTree,
    tensor: Tensor,
    sender: str,
    layout: Layout | None = None,
) -> Sending:
    """Return what the level `sender` has to do with a node of a tensor, which is accessed in one way by the one
    statement. layout: None: by rows."""
    numbers = {fanout.name: number for number, fanout in enumerate(arch.fanouts)}
    outer, inner = len(arch.fanouts_above(sender)), len(arch.fanouts_above(node.node.level))
    loops: list[Loop] = []
    places = 0
    for position, each, _, tile, trips in view.loops:
        if isinstance(each, Temporal):
            role = Role.TIME if position < node.position else Role.INSIDE
            loops.append(Loop(each.dim, tile, trips, role, places, None))
            places += role is Role.TIME
        else:
            number = numbers[each.fanout]
            role = Role.SENDER if number < outer else Role.SIBLINGS if number < inner else Role.INSIDE
            loops.append(Loop(each.dim, tile, trips, role, FIRST, arch.fanouts[number]))
    (access,) = dict.fromkeys(accesses_of(workload.statements[0], tensor.name))
    keeps = rule_of(workload, tensor.name) is PlaceRule.READ_ONLY
    layout = layout or row_major(len(tensor.shape))
    shelf = _shelf_of(workload.dims, access, tensor.origin, layout, tensor.shape, keeps)
    if shelf.kept > TUNING.most_kept:
        shelf.clear()
    address = partial(layout.offsets, tensor.shape)
    weights = None
    if not any(block for _, block in layout.parts):
        weights = dict.fromkeys((dim for index in access.index for dim in index.coefficients()), 0)
        for stride, (axis, _) in zip(layout.strides(tensor.shape), layout.parts, strict=True):
            for dim, coefficient in access.index[axis].coefficients().items():
                weights[dim] += stride * coefficient
    return Sending(workload, access, tensor.origin, tuple(loops), address, weights, keeps, shelf)


@lru_cache(maxsize=16)
def _shelf_of(*about: Hashable) -> _Shelf:
    """Return what is known of a tensor in a layout. about: what decides it."""
    return _Shelf()


def as_sent(fanout: Fanout) -> Multicast:
    """How siblings share what they load."""
    return fanout.multicast


def as_added(fanout: Fanout) -> Multicast:
    """How siblings share what arrives above."""
    return Multicast.UNION if fanout.reduction else Multicast.NONE


def as_one(fanout: Fanout) -> Multicast:
    """Of siblings that hold one tile the first takes what returns."""
    return Multicast.IDENTICAL


def no_multicast(fanout: Fanout) -> Multicast:
    """Siblings share nothing."""
    return Multicast.NONE
