"""`Scene` and `Counter` as plans: which factors of which dims and windows make up a count, for any tiles of a tree.

docs/closed_form.md derives the sums. A plan depends on the tree's shape only; the tiles of its nest are the numbers of
the loops' columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from polymap.costmodel.batch_digits import History, first_back
from polymap.costmodel.batch_factors import (
    FirstTile,
    Judged,
    Kept,
    Places,
    WindowAll,
    WindowDistinct,
    WindowFirst,
    WindowKept,
    WindowSum,
    times_of,
)
from polymap.costmodel.batch_loops import Shape
from polymap.costmodel.batch_rows import Factor
from polymap.costmodel.batch_shared import Ask, WindowStays, WindowWhole, is_spread
from polymap.costmodel.batch_sums import Factors, Terms, times
from polymap.costmodel.digits import Chain, Clock, Cut, Part
from polymap.costmodel.groups import TensorModel, WorkloadModel
from polymap.costmodel.nest import TEMPORAL, Loop, MachineModel, Nest, Node
from polymap.costmodel.scene import (
    NO_PINS,
    Axes,
    Chains,
    Judge,
    Pins,
    Siblings,
    always,
    axes_of,
    none_moves,
    none_starts,
    none_stops,
)
from polymap.costmodel.window_sums import Cuts

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
                found.append(_places(self._extents[dim], chain, times_of(chain)))
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

    def _stays(self, carry: Loop, cuts: tuple[Cuts, ...], ask: Ask) -> list[Value]:
        return [self._stay(number, carry, cuts, ask) for number in range(len(self.axes))]

    def _stay(self, number: int, carry: Loop, cuts: tuple[Cuts, ...], ask: Ask) -> Value:
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

    def _carries(self) -> Iterator[tuple[list[Value], tuple[Cuts, ...], Loop]]:
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

    def _still_elsewhere(self) -> Iterator[tuple[Loop, list[Cut], dict[int, Value]]]:
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
        carry: Loop,
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
        return _places(extent, chain, outside)

    def _moving(self, dim: int, outside: int) -> Value:
        extent, chain = self._extents[dim], self._chains[dim]
        if self.tensor.kinds[dim]:
            return 0
        if self._is_judged(chain):
            return self._judged(dim, Cut(outside, moved=True), None)
        return _places(extent, chain, outside, moving=True)

    def _is_judged(self, chain: Chain) -> bool:
        return self._clock is Clock.MACHINE and any(part is not Part.TIME for _, part, _ in chain)


def _kept(extent: int, chain: Chain, outside: int, clock: Clock) -> Value:
    if outside == times_of(chain):
        if all(part is not Part.PINNED for _, part, _ in chain):
            return extent
        clock = Clock.OWN  # no loop is inside
    return Kept(extent, chain, outside, clock)


def _places(extent: int, chain: Chain, cut: int, *, moving: bool = False) -> Value:
    counted = 0
    timed = 0
    for number, (_, part, _) in enumerate(chain):
        timed += part is Part.TIME
        if part in (Part.EACH, Part.PINNED) or (part is Part.TIME and timed <= cut + moving):
            counted = number + 1  # digit 0 is always there: what it leaves counts no more
    if not counted:
        return 0 if moving else 1
    return Places(extent, chain[:counted], cut, moving)


class Plans:
    """What `Counter` counts, as sums of products of factors.

    doubts: sums that must be 0 where the plans are to hold.
    """

    __slots__ = ("_chains", "_extents", "doubts", "factors", "nest")

    def __init__(self, model: WorkloadModel, machine: MachineModel, shape: Shape) -> None:
        self.nest = nest_of_columns(model, shape)
        self._extents = model.extents
        self._chains = Chains(machine, self.nest)
        self.factors = Factors()
        self.doubts: list[Terms] = []

    def _scene(
        self,
        tensor: TensorModel,
        between: tuple[Node, Node],
        siblings: Siblings,
        pins: Pins,
        clock: Clock = Clock.OWN,
        judge: Judge = always,
    ) -> ManyScene:
        return ManyScene(self._extents, self._chains, tensor, between, siblings, pins, clock, judge)

    def fills(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> Terms:
        """Return how many elements of a read-only tensor enter the node's instances."""
        return self._entering(self._scene(tensor, (parent, node), Siblings.APART, pins), Clock.OWN)

    def _entering(self, scene: ManyScene, clock: Clock) -> Terms:
        whole = self.factors.term([*scene.whole(), *(WindowAll(axes) for axes in scene.axes)])
        return [whole, *times(self._staying(scene, clock), -1)]

    def _staying(self, scene: ManyScene, clock: Clock) -> Terms:
        """Return the elements that stay from step to step, over all carries and instances."""
        return [
            self.factors.term(
                [*kept, *(WindowKept(axes, cut, clock) for axes, cut in zip(scene.axes, cuts, strict=True))]
            )
            for kept, cuts in scene.carries()
        ]

    def messages(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> Terms:
        """Return how many elements the parent's instances read for what the node loads."""
        scene = self._scene(tensor, (parent, node), Siblings.MULTICAST, pins)
        terms = [self.factors.term([*scene.whole(), *(WindowDistinct(axes) for axes in scene.axes)])]
        if node.level < 0:
            return times(terms, tensor.reads)
        for kept, cuts in scene.carries():
            for coefficient, unread in self._unread(scene.axes, cuts):
                terms.append(self.factors.term([-coefficient, *kept, *unread]))
            if len(scene.axes) > 1:
                for axes, cut in zip(scene.axes, cuts, strict=True):
                    self.doubts.append([self.factors.term([*kept, WindowSum(axes, cut, "mixed")])])
        return terms

    def _unread(self, windows: tuple[Axes, ...], cuts: tuple[Cuts, ...]) -> Iterator[tuple[int, list[Factor]]]:
        """Yield what siblings do not read of distinct tiles, as `_by_kind` has it."""
        if len(windows) < 2:
            yield 1, [WindowSum(axes, cut, "unread") for axes, cut in zip(windows, cuts, strict=True)]
            return
        for kinds in product((False, True), repeat=len(windows)):
            chosen = list(zip(windows, cuts, kinds, strict=True))
            kept: list[Factor] = [WindowSum(axes, cut, "kept") for axes, cut, part in chosen if not part]
            parts = [(axes, cut) for axes, cut, part in chosen if part]
            names = [(1, "part"), (-1, "tiles"), (1, "rest")] if len(parts) > 1 else [(1, "part"), (-1, "news")]
            for sign, name in names if parts else [(1, "")]:
                yield sign, [*kept, *(WindowSum(axes, cut, name) for axes, cut in parts)]

    def entries(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> Terms:
        """Return how many elements of a written tensor enter the node's instances."""
        return self._moves(tensor, (parent, node), Siblings.APART, pins, none_starts)

    def events(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> Terms:
        """Return the same with the siblings merged that enter an element in one step."""
        return self._moves(tensor, (parent, node), Siblings.MERGED, pins, none_starts)

    def silent_events(self, tensor: TensorModel, parent: Node, node: Node) -> Terms:
        """Return how many events bring no partial sum, as nothing has arrived since the event before."""
        between = (parent, node)
        stops, moves = (
            self._scene(tensor, between, Siblings.MERGED, NO_PINS, Clock.MACHINE, judge)
            for judge in (none_stops, none_moves)
        )
        if not stops.may_start():
            return []
        if any(is_spread(axes) for axes in stops.axes):  # siblings may start without their inner loops starting again
            doubt = [
                *(self.factors.term(values) for values in stops.unchanged()),
                *times([self.factors.term(values) for values in moves.unchanged()], -1),
            ]
            self.doubts.append(doubt)
        return [
            *(self.factors.term(values) for values in stops.silent()),
            *times([self.factors.term(values) for values in moves.silent()], -1),
        ]

    def arrivals(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> Terms:
        """Return how many drains (of the compute unit: results) reach the parent's instances."""
        return self._moves(tensor, (parent, node), Siblings.ADDED, pins, none_stops)

    def first_back(self, tensor: TensorModel, between: tuple[Node, Node], pins: Pins, own: Loop) -> Terms:
        """Return how often elements come back to the sibling that has its run of digits in `own` only, of loops over
        dims that the tensor lacks, as the first of those that come back; the tensor has no windows.

        The first of all that come back differs from the first sibling along one dim only; along a loop that stands
        before `own` in the order of instances, it comes after this one.
        """
        place = (own.fanout, own.position)
        judges: dict[int, Judge] = {
            loop.dim: always if (loop.fanout, loop.position) < place else none_starts
            for loop in self.idle_siblings(tensor, *between)
        }
        judges[own.dim] = first_back
        scene = self._scene(tensor, between, Siblings.MERGED, pins, Clock.MACHINE)
        scene.judge_by(judges, own.tile, pins[own.position])
        back = [self.factors.term(kept) for kept, _ in scene.carries()]
        unmoved: dict[Judge, Judge] = {always: none_stops, none_starts: none_moves}
        still = {dim: unmoved.get(judge, judge) for dim, judge in judges.items()}
        scene.judge_by(still, own.tile, pins[own.position])
        return [*back, *times([self.factors.term(values) for values in scene.silent()], -1)]

    def idle_siblings(self, tensor: TensorModel, parent: Node, node: Node) -> list[Loop]:
        """Return the loops over dims that the tensor lacks in which the siblings below one parent instance differ."""
        return [
            loop for loop in self.nest.loops if parent.fans <= loop.fanout < node.fans and not tensor.kinds[loop.dim]
        ]

    def come_back(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> Terms:
        """Return how many of the events bring an element only to siblings that come back while the first one stays."""
        stay, all_stay = (
            self._staying(
                self._scene(tensor, (parent, node), Siblings.MERGED, pins, Clock.MACHINE, judge), Clock.MACHINE
            )
            for judge in (always, none_starts)
        )
        return [*stay, *times(all_stay, -1)]

    def _moves(
        self, tensor: TensorModel, between: tuple[Node, Node], siblings: Siblings, pins: Pins, judge: Judge
    ) -> Terms:
        scene = self._scene(tensor, between, siblings, pins, Clock.MACHINE, judge)
        if between[1].level < 0:
            return [self.factors.term([*scene.whole(), *(WindowDistinct(axes) for axes in scene.axes)])]
        if siblings is not Siblings.APART and any(is_spread(axes) for axes in scene.axes):
            stay = [self.factors.term(values) for values in scene.unmoved()]
            return [self.factors.term(scene.shared()), *times(stay, -1)]
        return self._entering(scene, Clock.MACHINE)

    def tile(self, tensor: TensorModel, node: Node) -> Terms:
        """Return the size of the largest tile: that of the first step in the first instance."""
        chains, _ = self._chains.at((node, node), Siblings.APART, NO_PINS)
        singles = [
            FirstTile(self._extents[dim], chains[dim]) if chains[dim] else self._extents[dim] for dim in tensor.singles
        ]
        windows = [WindowFirst(axes) for axes in axes_of(self._extents, chains, tensor)]
        return [self.factors.term([*singles, *windows])]

    def steps(self) -> Terms:
        """Return how many steps there are: those of the first instance, which works whenever any does."""
        return [self.factors.term(self._vectors(NO_PINS, timed=True))]

    def works(self, pins: Pins) -> Terms:
        """Return 1 where the instance with these digits has work in the first step, and so in any, 0 elsewhere."""
        return [self.factors.term(self._vectors(pins, timed=False))]

    def _vectors(self, pins: Pins, *, timed: bool) -> list[Value]:
        found: list[Value] = []
        for extent, loops in zip(self._extents, self.nest.chains, strict=True):
            chain = tuple(
                (loop.tile, Part.TIME, 0)
                if loop.fanout == TEMPORAL
                else (loop.tile, Part.PINNED if pins.get(loop.position) else Part.MERGED, pins.get(loop.position, 0))
                for loop in loops
            )
            found.append(_places(extent, chain, times_of(chain) if timed else 0))
        return found
