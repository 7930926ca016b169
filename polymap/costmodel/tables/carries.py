"""`Scene` as a plan: which factors of which dims and windows make up a count, for any tiles of a tree.

docs/closed_form.md derives the sums. A plan depends on the tree's shape only; the tiles of its nest are the numbers of
the loops' columns.
"""

from __future__ import annotations

from collections.abc import Iterator

from polymap.costmodel.closed_form import (
    TEMPORAL,
    Axes,
    Chain,
    Chains,
    Clock,
    Cut,
    Cuts,
    Judge,
    Loop,
    Nest,
    Node,
    Part,
    Pins,
    Siblings,
    TensorModel,
    WorkloadModel,
    always,
    axes_of,
    none_starts,
    none_stops,
)
from polymap.costmodel.tables.digits import History
from polymap.costmodel.tables.factors import (
    Judged,
    Kept,
    Places,
    times_of,
)
from polymap.costmodel.tables.loops import Shape
from polymap.costmodel.tables.rows import Factor
from polymap.costmodel.tables.shared_windows import Ask, WindowStays, WindowWhole, is_spread

Value = Factor | int


def nest_of_columns(model: WorkloadModel, shape: Shape) -> Nest:
    """Return the nest of a shape, the number of its column in place of each loop's tile."""
    loops = tuple(Loop(place.dim, place.column, 0, place.fanout, place.position) for place in shape.loops)
    dims = range(len(model.extents))
    chains = tuple(tuple(loop for loop in loops if loop.dim == dim) for dim in dims)
    return Nest(loops, chains, (False,) * len(model.extents), shape.holders)


class ManyScene:
    """One node of one tensor: the factors of all steps, and those of each carry."""

    __slots__ = ("_chains", "_clock", "_extents", "_judge", "_judges", "_loops", "above", "axes", "tensor")

    def __init__(
        self,
        extents: tuple[int, ...],
        chains: Chains,
        tensor: TensorModel,
        between: tuple[Node, Node],
        siblings: Siblings,
        pins: Pins,
        clock: Clock,
        judge: Judge,
    ) -> None:
        shared, told = chains.at(between, siblings, pins)
        self.tensor, self._extents, self._clock, self._judge = tensor, extents, clock, judge
        self._judges: dict[int, Judge] = {}
        self._loops = chains.nest.chains
        self._chains = tuple(told[dim] if kind == 1 else shared[dim] for dim, kind in enumerate(tensor.kinds))
        self.axes: tuple[Axes, ...] = axes_of(extents, self._chains, tensor)
        self.above = [
            loop for loop in chains.nest.loops if loop.fanout == TEMPORAL and loop.position < between[1].position
        ]

    def judge_by(self, judges: dict[int, Judge], column: int, run: int) -> None:
        """Let other judges judge some dims; run: what `first_back` asks for in the loop of a column."""
        self._judges = judges
        self._chains = tuple(
            tuple((each, part, run if each == column else pin) for each, part, pin in chain) for chain in self._chains
        )

    def whole(self) -> list[Value]:
        """Return the factors of all steps, windows left out."""
        found: list[Value] = []
        for dim, kind in enumerate(self.tensor.kinds):
            chain = self._chains[dim]
            if kind == 1:
                found.append(_kept(self._extents[dim], chain, times_of(chain), Clock.OWN))
            elif kind == 0:
                found.append(places_of(self._extents[dim], chain, times_of(chain)))
        return found

    def carries(self) -> Iterator[tuple[list[Value], tuple[Cuts, ...]]]:
        """Yield (the factors, windows left out, the cuts of each window's dims) per carry, from the innermost one."""
        for kept, cuts, _ in self._carries():
            yield kept, cuts

    def unmoved(self) -> Iterator[list[Value]]:
        """Yield the factors per carry, of windows the elements of which the judge approves."""
        for kept, cuts, carry in self._carries():
            yield [*kept, *self._stays(carry, cuts, self._permits())]

    def shared(self) -> list[Value]:
        """Return the factors of all steps, of windows the elements that any sibling holds."""
        return [*self.whole(), *(WindowWhole(axes, self._all_carries(number)) for number, axes in enumerate(self.axes))]

    def _permits(self) -> Ask:
        return Ask(stops=self._judge in (always, none_starts), starts=self._judge in (always, none_stops))

    def _stays(self, carry: Loop[int], cuts: tuple[Cuts, ...], ask: Ask) -> list[Value]:
        return [self._stay(number, carry, cuts, ask) for number in range(len(self.axes))]

    def _stay(self, number: int, carry: Loop[int], cuts: tuple[Cuts, ...], ask: Ask) -> Value:
        axes = self.axes[number]
        if not is_spread(axes):
            ask = ask._replace(stops=True, starts=True)  # there is one sibling, and the element stays
        moved = any(cut.moved for cut in cuts[number])
        return WindowStays(axes, self._all_carries(number), (carry.tile, moved), cuts[number], ask)

    def _all_carries(self, number: int) -> tuple[tuple[int, bool], ...]:
        own = {dim for dim, _ in self.tensor.windows[number].terms}
        return tuple((loop.tile, loop.dim in own) for loop in self.above)

    def _cuts_of_windows(self, cuts: list[Cut]) -> tuple[Cuts, ...]:
        return tuple(tuple(cuts[dim] for dim, _ in window.terms) for window in self.tensor.windows)

    def _carries(self) -> Iterator[tuple[list[Value], tuple[Cuts, ...], Loop[int]]]:
        outside = [0] * len(self._extents)
        for loop in self.above:
            outside[loop.dim] += 1
        now: dict[int, Value] = {
            dim: self._still(dim, outside[dim]) for dim, kind in enumerate(self.tensor.kinds) if kind != 2
        }
        for loop in reversed(self.above):
            dim = loop.dim
            outside[dim] -= 1
            if dim in now:
                now[dim] = self._moving(dim, outside[dim])
            if 0 not in now.values():
                yield (
                    list(now.values()),
                    tuple(
                        tuple(Cut(outside[each], each == dim) for each, _ in window.terms)
                        for window in self.tensor.windows
                    ),
                    loop,
                )
            if dim in now:
                now[dim] = self._still(dim, outside[dim])

    def silent(self) -> Iterator[list[Value]]:
        """Yield the factors of the steps of each carry of which the judges approve and before which the last change was
        an entry: that along some dim or window, with some loop, and further out along others."""
        for carry, cuts, values in self._still_elsewhere():
            for dim in self._judged_dims():
                for number in self._inside(dim, cuts[dim])[:-1]:  # along the innermost loop siblings only stop
                    place = self._loops[dim][number].tile
                    asked = self._asked_of_dims(cuts, place) | {dim: History(number, starts=True)}
                    yield self._with_past(values, cuts, carry, asked, place, None)
            for number, axes in enumerate(self.axes):
                for place in (column for _, _, chain in axes for column, part, _ in chain if part is Part.TIME):
                    if place > carry.tile:
                        yield self._with_past(values, cuts, carry, self._asked_of_dims(cuts, place), place, number)

    def unchanged(self) -> Iterator[list[Value]]:
        """Yield the factors of the steps of each carry of which the judges approve and before which, inside the carry,
        nothing changed."""
        for carry, cuts, values in self._still_elsewhere():
            yield self._with_past(values, cuts, carry, self._asked_of_dims(cuts, 0), 0, None)

    def may_start(self) -> bool:
        """Return whether siblings may come to an element that others hold."""
        return bool(self._judged_dims()) or any(is_spread(axes) for axes in self.axes)

    def _judged_dims(self) -> list[int]:
        return [dim for dim, kind in enumerate(self.tensor.kinds) if not kind and self._is_judged(self._chains[dim])]

    def _still_elsewhere(self) -> Iterator[tuple[Loop[int], list[Cut], dict[int, Value]]]:
        """Yield (carry, cuts, factors of the dims outside of windows) of the carries at which elements stay."""
        outside = [0] * len(self._extents)
        for loop in self.above:
            outside[loop.dim] += 1
        for carry in reversed(self.above):
            outside[carry.dim] -= 1
            cuts = [Cut(each, dim == carry.dim) for dim, each in enumerate(outside)]
            values = {
                dim: self._moving(dim, cut.outside) if cut.moved else self._still(dim, cut.outside)
                for dim, cut in enumerate(cuts)
                if self.tensor.kinds[dim] != 2
            }
            if not any(isinstance(value, int) and value == 0 for value in values.values()):
                yield carry, cuts, values

    def _asked_of_dims(self, cuts: list[Cut], place: int) -> dict[int, History | None]:
        return {dim: self._asked(dim, cuts[dim], place) for dim in self._judged_dims()}

    def _with_past(
        self,
        values: dict[int, Value],
        cuts: list[Cut],
        carry: Loop[int],
        asked: dict[int, History | None],
        place: int,
        latest: int | None,
    ) -> list[Value]:
        """Return the factors, asked for their past; latest: number of the window of the last change."""
        found = [self._judged(dim, cuts[dim], asked[dim]) if dim in asked else value for dim, value in values.items()]
        of_windows = self._cuts_of_windows(cuts)
        ask = self._permits()._replace(place=place)
        for number in range(len(self.axes)):
            found.append(self._stay(number, carry, of_windows, ask._replace(started=number == latest)))
        return found

    def _inside(self, dim: int, cut: Cut) -> list[int]:
        """Return the numbers of a dim's TIME loops inside a carry."""
        timed = [number for number, (_, part, _) in enumerate(self._chains[dim]) if part is Part.TIME]
        return timed[cut.outside + cut.moved :]

    def _asked(self, dim: int, cut: Cut, place: int) -> History | None:
        """Return what is asked of the past of a dim whose last change came with a loop outside of a column."""
        outer = sum(loop.tile < place for loop in self._loops[dim])
        return History(outer, starts=False) if any(each >= outer for each in self._inside(dim, cut)) else None

    def _judged(self, dim: int, cut: Cut, history: History | None) -> Value:
        return Judged(self._extents[dim], self._chains[dim], cut, self._judges.get(dim, self._judge), history)

    def _still(self, dim: int, outside: int) -> Value:
        extent, chain = self._extents[dim], self._chains[dim]
        if self.tensor.kinds[dim]:
            return _kept(extent, chain, outside, self._clock)
        if self._is_judged(chain):
            return self._judged(dim, Cut(outside, moved=False), None)
        return places_of(extent, chain, outside)

    def _moving(self, dim: int, outside: int) -> Value:
        extent, chain = self._extents[dim], self._chains[dim]
        if self.tensor.kinds[dim]:
            return 0
        if self._is_judged(chain):
            return self._judged(dim, Cut(outside, moved=True), None)
        return places_of(extent, chain, outside, moving=True)

    def _is_judged(self, chain: Chain) -> bool:
        return self._clock is Clock.MACHINE and any(part is not Part.TIME for _, part, _ in chain)


def _kept(extent: int, chain: Chain, outside: int, clock: Clock) -> Value:
    if outside == times_of(chain):
        if all(part is not Part.PINNED for _, part, _ in chain):
            return extent
        clock = Clock.OWN  # no loop is inside
    return Kept(extent, chain, outside, clock)


def places_of(extent: int, chain: Chain, cut: int, *, moving: bool = False) -> Value:
    """Return the factor of `Places`, loops left out that do not matter."""
    counted = 0
    timed = 0
    for number, (_, part, _) in enumerate(chain):
        timed += part is Part.TIME
        if part in (Part.EACH, Part.PINNED) or (part is Part.TIME and timed <= cut + moving):
            counted = number + 1  # digit 0 is always there: what it leaves counts no more
    if not counted:
        return 0 if moving else 1
    return Places(extent, chain[:counted], cut, moving)
