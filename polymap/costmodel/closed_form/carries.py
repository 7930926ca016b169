"""Counts of one node of one tensor where tiles need not divide, as sums over carries.

At each step one temporal loop advances and the temporal loops inside it restart, like the digits of a counter. The
*carry* of a loop is the set of steps at which that loop advances. A dim's contribution at a carry depends only on how
many of the dim's temporal loops are outside the carry's loop. So a count is a sum over carries of products over dims
and windows. The factors are numbers for one mapping, and plans for tables of mappings (`Factors`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Generic, Protocol, TypeVar

from polymap.costmodel.closed_form.digits import CarryPlace, Chain, Code, CountedSteps, Link, Part, PreviousCarry, Track
from polymap.costmodel.closed_form.groups import DimKind, TensorModel
from polymap.costmodel.closed_form.nest import TEMPORAL, Loop, LoopNestView, MachineModel, Node
from polymap.costmodel.closed_form.window_tables import Ask, Carry, is_spread

Value = TypeVar("Value")
Amount = TypeVar("Amount")

Pins = Mapping[int, int]  # position of a spatial loop -> the one digit of it that counts
StepFilter = Callable[[tuple[Track, ...]], bool]  # accepts a step by the siblings' lengths now and before
Axes = tuple[tuple[int, int, Chain], ...]  # of a window: coefficient, extent, chain per dim
Cuts = tuple[CarryPlace, ...]  # of a window, likewise
Loops = tuple[tuple[int, ...], ...]  # of a window: the positions of the loops of each chain
NO_PINS: Pins = {}


class Siblings(Code):
    """How to count the instances below one parent instance.

    APART: each by itself. MERGED: an element once per step. MULTICAST: as the fan-outs merge loads. ADDED: as they add
    sums.
    """

    APART = 0
    MERGED = 1
    MULTICAST = 2
    ADDED = 3


def always(_: tuple[Track, ...]) -> bool:
    """Return True: a filter that accepts every step."""
    return True


def none_starts(tracks: tuple[Track, ...]) -> bool:
    """Return whether every sibling that works now worked in the step before."""
    return all(before > 0 for now, before in tracks if now > 0)


def none_stops(tracks: tuple[Track, ...]) -> bool:
    """Return whether every sibling that worked in the step before works now."""
    return all(now > 0 for now, before in tracks if before > 0)


def none_moves(tracks: tuple[Track, ...]) -> bool:
    """Return whether the same siblings work in both steps."""
    return none_starts(tracks) and none_stops(tracks)


class Chains:
    """The chains of one mapping: the parts (`Part`) of each dim's loops for its nodes. Cached, as tensors share
    them."""

    __slots__ = ("_cache", "_machine", "nest")

    def __init__(self, machine: MachineModel, nest: LoopNestView) -> None:
        self._machine, self.nest = machine, nest
        self._cache: dict[
            tuple[int, int, int, Siblings, tuple[tuple[int, int], ...]], tuple[tuple[Chain, ...], ...]
        ] = {}

    def at(self, between: tuple[Node, Node], siblings: Siblings, pins: Pins) -> tuple[tuple[Chain, ...], ...]:
        """Return two chains per dim: for tensors that lack the dim or have it in a window, and for tensors that have it
        single.

        In the former, pins apply only to fan-outs outside the siblings that are counted together.
        """
        parent, node = between
        above = 0 if siblings is Siblings.APART else parent.fans
        key = (node.position, node.fans, above, siblings, tuple(pins.items()))
        found = self._cache.get(key)
        if found is None:
            parts = _parts(self._machine, parent, node, siblings)
            fans = node.fans if siblings is Siblings.APART else parent.fans
            shared = tuple(chain_of(loops, node, parts, pins, fans) for loops in self.nest.chains)
            pinned_chains = (
                tuple(chain_of(loops, node, parts, pins, len(parts)) for loops in self.nest.chains) if pins else shared
            )
            found = self._cache[key] = (shared, pinned_chains)
        return found


def axes_of(extents: tuple[int, ...], chains: tuple[Chain, ...], tensor: TensorModel) -> tuple[Axes, ...]:
    """Return (coefficient, extent, chain) per dim, per window of a tensor."""
    return tuple(
        tuple((factor, extents[dim], chains[dim]) for dim, factor in window.terms) for window in tensor.windows
    )


class Factors(Protocol[Value, Amount]):
    """Contributions of one dim or one window to the counts of a node; counts are sums of products of these.

    A value is a number (one mapping), or a plan that counts it for columns of tiles (tables).
    """

    def kept(self, extent: int, chain: Chain, outside: int, counted: CountedSteps) -> Value:
        """Return the indices that all instances keep (`digits.kept_indices`)."""
        ...

    def places(self, extent: int, chain: Chain, cut: int, *, moving: bool = False) -> Value:
        """Return the digit vectors with work over the first `cut` TIME loops; moving: of one loop more, those with
        digit > 0."""
        ...

    def accepted(
        self, extent: int, chain: Chain, cut: CarryPlace, step_filter: StepFilter, previous: PreviousCarry | None
    ) -> Value:
        """Return the digit vectors that have work at one carry and before it, where a step filter accepts the step."""
        ...

    def first_indices(self, extent: int, chain: Chain) -> Value:
        """Return the indices of the first instance's tile in the first step."""
        ...

    def first_tile(self, axes: Axes) -> Value:
        """Return the elements of that tile along a window."""
        ...

    def all_elements(self, axes: Axes) -> Value:
        """Return the elements of all tiles along a window, summed over steps and instances."""
        ...

    def distinct_elements(self, axes: Axes) -> Value:
        """Return the elements of the siblings' distinct tiles, summed over steps."""
        ...

    def kept_elements(self, axes: Axes, cuts: Cuts, counted: CountedSteps) -> Value:
        """Return the elements that tiles keep, summed over the steps of one carry and all instances."""
        ...

    def held_by_any(self, axes: Axes, loops: Loops, carries: tuple[Carry, ...]) -> Value:
        """Return the elements that at least one of the compared siblings holds, summed over steps. carries: all of the
        tree."""
        ...

    def staying(
        self, axes: Axes, loops: Loops, carries: tuple[Carry, ...], carry: Carry, cuts: Cuts, ask: Ask
    ) -> Value:
        """Return the elements that stay at those steps of a carry that `ask` accepts. cuts: of the window's dims."""
        ...

    def unread(self, kept: Iterable[Value], windows: tuple[Axes, ...], cuts: tuple[Cuts, ...]) -> Amount:
        """Return the elements of the distinct tiles that siblings hold already at one carry, and so do not read."""
        ...

    def product(self, parts: Iterable[Value]) -> Amount: ...

    def total(self, terms: Iterable[Amount]) -> Amount: ...

    def doubt(self, amount: Amount) -> None:
        """Raise unless the amount is 0: the formula does not hold for other amounts."""
        ...


class NodeCarries(Generic[Value]):
    """One node of one tensor, with the factors of its counts over all steps and at each carry.

    above: the temporal loops above the node. axes: of its windows. `outside` of a carry: per dim, the number of
    temporal loops outside the carry's loop.
    """

    __slots__ = ("_counted", "_factors", "_nest", "_step_filters", "above", "axes", "chains", "tensor")

    def __init__(
        self,
        factors: Factors[Value, Any],
        chains: Chains,
        tensor: TensorModel,
        between: tuple[Node, Node],
        siblings: Siblings,
        pins: Pins,
        counted: CountedSteps,
        step_filter: StepFilter,
    ) -> None:
        nest = chains.nest
        self.tensor, self._nest, self._factors, self._counted = tensor, nest, factors, counted
        self.above = [loop for loop in nest.loops if loop.fanout == TEMPORAL and loop.position < between[1].position]
        shared, pinned_chains = chains.at(between, siblings, pins)
        self.chains = tuple(
            pinned_chains[dim] if kind is DimKind.SINGLE else shared[dim] for dim, kind in enumerate(tensor.kinds)
        )
        self.axes = axes_of(nest.extents, self.chains, tensor)
        self._step_filters = [step_filter] * len(nest.extents)

    def with_filters(self, step_filters: Mapping[int, StepFilter]) -> NodeCarries[Value]:
        """Return the node with other step filters for some dims."""
        found = copy(self)
        found._step_filters = [step_filters.get(dim, step_filter) for dim, step_filter in enumerate(self._step_filters)]
        return found

    def pinned(self, own: Loop[Any], run: int) -> NodeCarries[Value]:
        """Return the node with another pin for one loop; a step filter may read it."""
        found = copy(self)
        chain = zip(self.chains[own.dim], self._nest.chains[own.dim], strict=False)
        pinned = tuple((tile, part, run if loop == own else pin) for (tile, part, pin), loop in chain)
        found.chains = (*self.chains[: own.dim], pinned, *self.chains[own.dim + 1 :])
        return found

    def factors_of_all_steps(self) -> list[Value]:
        """Return the factors over all steps, those of windows left out."""
        found: list[Value] = []
        for dim, (chain, kind) in enumerate(zip(self.chains, self.tensor.kinds, strict=True)):
            if kind is DimKind.SINGLE:
                found.append(self._factors.kept(self._nest.extents[dim], chain, len(chain), CountedSteps.OWN))
            elif kind is DimKind.IDLE and chain:
                found.append(self._factors.places(self._nest.extents[dim], chain, len(chain)))
        return found

    def carries(self) -> Iterator[tuple[Loop[Any], list[int], dict[int, Value]]]:
        """Yield (loop, outside, factors of dims outside of windows) of the carries at which elements stay, innermost
        first.

        Carries with a zero factor are left out. The lists yielded change with the next carry.
        """
        outside = [0] * len(self.chains)
        for loop in self.above:
            outside[loop.dim] += 1
        kinds = self.tensor.kinds
        # Further out a dim's own loops change from outside to inside one by one, so one factor per carry is recomputed.
        now = {
            dim: self._factor_where_it_stands(dim, outside[dim])
            for dim, kind in enumerate(kinds)
            if kind is DimKind.SINGLE or (kind is DimKind.IDLE and self.chains[dim])
        }
        for loop in reversed(self.above):
            dim = loop.dim
            outside[dim] -= 1
            if kinds[dim] is not DimKind.SINGLE:
                if dim in now:
                    now[dim] = self._factor_where_it_moves(dim, outside[dim])
                if 0 not in now.values():
                    yield loop, outside, now
            if dim in now:
                now[dim] = self._factor_where_it_stands(dim, outside[dim])
                if kinds[dim] is DimKind.SINGLE and now[dim] == 0:
                    return  # further out every carry moves this dim

    def cuts_of_windows(self, carry: Loop[Any], outside: Sequence[int]) -> tuple[Cuts, ...]:
        """Return the cuts of the dims of each window."""
        return tuple(
            tuple(CarryPlace(outside[dim], dim == carry.dim) for dim, _ in window.terms)
            for window in self.tensor.windows
        )

    def held_by_any(self) -> list[Value]:
        """Return the factors over all steps; of windows, the elements that at least one sibling holds."""
        held = (
            self._factors.held_by_any(axes, self._loops(number), self._all_carries(number))
            for number, axes in enumerate(self.axes)
        )
        return [*self.factors_of_all_steps(), *held]

    def kept_factors(self) -> Iterator[list[Value]]:
        """Yield the factors of each carry; of windows, the elements that stay at steps which the step filter
        accepts."""
        for carry, outside, values in self.carries():
            cuts = self.cuts_of_windows(carry, outside)
            stays = (self._stays(number, carry, cuts, self._allowed_changes()) for number in range(len(self.axes)))
            yield [*values.values(), *stays]

    def silent_factors(self) -> Iterator[list[Value]]:
        """Yield the factors of the accepted steps of each carry whose last change before them was an entry.

        One list per dim or window at which that change came and per loop that stepped; all other changes came with
        outer loops.
        """
        for carry, outside, values in self.carries():
            for dim in self.filtered_dims():
                for number in self._inside(dim, carry, outside)[:-1]:  # along the innermost loop siblings only stop
                    place = self._nest.chains[dim][number].position
                    conditions = self._conditions_of_dims(carry, outside, place) | {
                        dim: PreviousCarry(number, starts=True)
                    }
                    yield self._with_previous_carry(carry, outside, values, conditions, place, None)
            for window, axes in enumerate(self.axes):
                for (_, _, chain), loops in zip(axes, self._loops(window), strict=True):
                    for (_, part, _), place in zip(chain, loops, strict=True):
                        if part is Part.TIME and place > carry.position:
                            conditions = self._conditions_of_dims(carry, outside, place)
                            yield self._with_previous_carry(carry, outside, values, conditions, place, window)

    def unchanged_factors(self) -> Iterator[list[Value]]:
        """Yield the factors of the accepted steps of each carry before which nothing changed inside the carry."""
        for carry, outside, values in self.carries():
            yield self._with_previous_carry(
                carry, outside, values, self._conditions_of_dims(carry, outside, 0), 0, None
            )

    def visit_factors(self, *, dropped: bool) -> Iterator[list[Value]]:
        """Yield the factors of those of these steps to which the element was held since before the inner loops began,
        and at whose beginning no sibling took it; dropped: siblings may have dropped it. One list per carry of that
        beginning.

        At the carries of other loops than those of windows no sibling starts where nothing changed.
        """
        own = {dim for window in self.tensor.windows for dim, _ in window.terms}
        for carry, outside in [(loop, list(each)) for loop, each, _ in self.carries() if loop.dim in own]:
            cuts = self.cuts_of_windows(carry, outside)
            for visit, _, values in self.carries():
                if visit.position <= carry.position:
                    ask = self._allowed_changes()._replace(dropped=dropped)
                    stays = (self._stays(number, carry, cuts, ask, visit) for number in range(len(self.axes)))
                    yield [*values.values(), *stays]

    def may_start(self) -> bool:
        """Return whether an element may enter a sibling while others hold it."""
        return bool(self.filtered_dims()) or any(is_spread(axes) for axes in self.axes)

    def filtered_dims(self) -> list[int]:
        """Return the dims that the tensor lacks along which a sibling that holds an element may be idle."""
        return [dim for dim, kind in enumerate(self.tensor.kinds) if kind is DimKind.IDLE and self._needs_filter(dim)]

    def _needs_filter(self, dim: int) -> bool:
        """Return whether the steps of a dim that the tensor lacks must be filtered by the siblings that work.

        On its own clock (OWN) an idle instance keeps its tile, so that no filter is needed.
        """
        uneven = self._counted is CountedSteps.MACHINE and not self._nest.even[dim]
        return uneven and any(part is not Part.TIME for _, part, _ in self.chains[dim])

    def _factor_where_it_stands(self, dim: int, outside: int) -> Value:
        extent, chain = self._nest.extents[dim], self.chains[dim]
        if self.tensor.kinds[dim] is not DimKind.IDLE:
            return self._factors.kept(extent, chain, outside, self._counted)
        if self._needs_filter(dim):
            return self._accepted(dim, CarryPlace(outside, moved=False), None)
        return self._factors.places(extent, chain, outside)

    def _factor_where_it_moves(self, dim: int, outside: int) -> Value:
        if self._needs_filter(dim):
            return self._accepted(dim, CarryPlace(outside, moved=True), None)
        return self._factors.places(self._nest.extents[dim], self.chains[dim], outside, moving=True)

    def _accepted(self, dim: int, cut: CarryPlace, previous: PreviousCarry | None) -> Value:
        return self._factors.accepted(self._nest.extents[dim], self.chains[dim], cut, self._step_filters[dim], previous)

    def _allowed_changes(self) -> Ask:
        """Return whether siblings may lose and gain the element in the steps that the filter accepts."""
        step_filter = self._step_filters[0]
        return Ask(stops=step_filter in (always, none_starts), starts=step_filter in (always, none_stops))

    def _stays(
        self, number: int, carry: Loop[Any], cuts: tuple[Cuts, ...], ask: Ask, visit: Loop[Any] | None = None
    ) -> Value:
        axes = self.axes[number]
        if visit is not None:
            dims = {dim for dim, _ in self.tensor.windows[number].terms}
            ask = ask._replace(visit=(visit.position, visit.dim in dims))
        if not is_spread(axes):
            ask = ask._replace(stops=True, starts=True)  # there is one sibling, and the element stays
        own = (carry.position, any(cut.moved for cut in cuts[number]))
        return self._factors.staying(axes, self._loops(number), self._all_carries(number), own, cuts[number], ask)

    def _loops(self, number: int) -> Loops:
        """Return the positions of the loops in the chains of a window."""
        dims = (dim for dim, _ in self.tensor.windows[number].terms)
        return tuple(tuple(loop.position for loop in self._nest.chains[dim][: len(self.chains[dim])]) for dim in dims)

    def _all_carries(self, number: int) -> tuple[Carry, ...]:
        own = {dim for dim, _ in self.tensor.windows[number].terms}
        return tuple((loop.position, loop.dim in own) for loop in self.above)

    def _conditions_of_dims(
        self, carry: Loop[Any], outside: Sequence[int], place: int
    ) -> dict[int, PreviousCarry | None]:
        """Return the condition on the last change of each filtered dim: it came with a loop outside the one at `place`.

        None: no loop of the dim at or inside `place` steps inside the carry, so that the condition always holds.
        """
        conditions: dict[int, PreviousCarry | None] = {}
        for dim in self.filtered_dims():
            outer = sum(loop.position < place for loop in self._nest.chains[dim])
            matters = any(each >= outer for each in self._inside(dim, carry, outside))
            conditions[dim] = PreviousCarry(outer, starts=False) if matters else None
        return conditions

    def _inside(self, dim: int, carry: Loop[Any], outside: Sequence[int]) -> list[int]:
        """Return the numbers of a dim's TIME loops inside a carry."""
        timed = [number for number, (_, part, _) in enumerate(self.chains[dim]) if part is Part.TIME]
        return timed[outside[dim] + (dim == carry.dim) :]

    def _with_previous_carry(
        self,
        carry: Loop[Any],
        outside: Sequence[int],
        values: Mapping[int, Value],
        conditions: Mapping[int, PreviousCarry | None],
        place: int,
        latest: int | None,
    ) -> list[Value]:
        """Return the factors of the steps whose last changes meet the conditions `conditions`.

        latest: number of the window along which the last change came.
        """
        found = [
            self._accepted(dim, CarryPlace(outside[dim], dim == carry.dim), conditions[dim])
            if dim in conditions
            else value
            for dim, value in values.items()
        ]
        cuts = self.cuts_of_windows(carry, outside)
        ask = self._allowed_changes()._replace(place=place)
        for number in range(len(self.axes)):
            found.append(self._stays(number, carry, cuts, ask._replace(started=number == latest)))
        return found


def _parts(machine: MachineModel, parent: Node, node: Node, siblings: Siblings) -> tuple[Part, ...]:
    """Return, per fan-out, the part of its loops for the node."""
    parts: list[Part] = []
    for fanout in range(len(machine.adds)):
        if fanout >= node.fans:
            parts.append(Part.FREE)
        elif fanout < parent.fans or siblings is Siblings.APART:
            parts.append(Part.EACH)
        elif siblings is Siblings.MULTICAST:
            united = Part.UNITED if machine.unites[fanout] else Part.MERGED
            parts.append(Part.EACH if machine.repeats[fanout] else united)
        else:
            merged = siblings is Siblings.MERGED or machine.adds[fanout]
            parts.append(Part.MERGED if merged else Part.EACH)
    return tuple(parts)


def chain_of(loops: tuple[Loop[int], ...], node: Node, parts: tuple[Part, ...], pins: Pins, pinned: int) -> Chain:
    """Return the parts of one dim's loops for the node, without the innermost FREE ones, which only span the tile.

    pinned: pins apply to loops on the first so many fan-outs.
    """
    links: list[Link] = []
    last = 0
    for loop in loops:
        if loop.fanout == TEMPORAL:
            part, pin = Part.TIME if loop.position < node.position else Part.FREE, 0
        elif loop.position in pins and loop.fanout < pinned:
            part, pin = Part.PINNED, pins[loop.position]
        else:
            part, pin = parts[loop.fanout], 0
        links.append((loop.tile, part, pin))
        if part is not Part.FREE:
            last = len(links)
    return tuple(links[:last])
