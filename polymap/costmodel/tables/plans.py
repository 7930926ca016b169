"""`Counter` as plans: which sums of products of factors make up each count, for any tiles of a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product

from polymap.costmodel.closed_form import (
    NO_PINS,
    TEMPORAL,
    Axes,
    Chains,
    Clock,
    Cuts,
    Judge,
    Loop,
    MachineModel,
    Node,
    Part,
    Pins,
    Siblings,
    TensorModel,
    WorkloadModel,
    always,
    axes_of,
    none_moves,
    none_starts,
    none_stops,
)
from polymap.costmodel.tables.carries import ManyScene, Value, nest_of_columns, places_of
from polymap.costmodel.tables.digits import first_back
from polymap.costmodel.tables.factors import (
    FirstTile,
    WindowAll,
    WindowDistinct,
    WindowFirst,
    WindowKept,
    WindowSum,
    times_of,
)
from polymap.costmodel.tables.loops import Shape
from polymap.costmodel.tables.rows import Factor
from polymap.costmodel.tables.shared_windows import is_spread
from polymap.costmodel.tables.sums import NO_TERMS, Factors, Terms


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
        return Terms([whole]) - self._staying(scene, clock)

    def _staying(self, scene: ManyScene, clock: Clock) -> Terms:
        """Return the elements that stay from step to step, over all carries and instances."""
        return self._sum(
            [*kept, *(WindowKept(axes, cut, clock) for axes, cut in zip(scene.axes, cuts, strict=True))]
            for kept, cuts in scene.carries()
        )

    def _sum(self, products: Iterable[Iterable[Value]]) -> Terms:
        return Terms(self.factors.term(parts) for parts in products)

    def messages(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> Terms:
        """Return how many elements the parent's instances read for what the node loads."""
        scene = self._scene(tensor, (parent, node), Siblings.MULTICAST, pins)
        terms = [self.factors.term([*scene.whole(), *(WindowDistinct(axes) for axes in scene.axes)])]
        if node.level < 0:
            return Terms(terms) * tensor.reads
        for kept, cuts in scene.carries():
            for coefficient, unread in self._unread(scene.axes, cuts):
                terms.append(self.factors.term([-coefficient, *kept, *unread]))
            if len(scene.axes) > 1:
                for axes, cut in zip(scene.axes, cuts, strict=True):
                    self.doubts.append(self._sum([[*kept, WindowSum(axes, cut, "mixed")]]))
        return Terms(terms)

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
            return NO_TERMS
        if any(is_spread(axes) for axes in stops.axes):  # siblings may start without their inner loops starting again
            self.doubts.append(self._sum(stops.unchanged()) - self._sum(moves.unchanged()))
        return self._sum(stops.silent()) - self._sum(moves.silent())

    def arrivals(self, tensor: TensorModel, parent: Node, node: Node, pins: Pins = NO_PINS) -> Terms:
        """Return how many drains (of the compute unit: results) reach the parent's instances."""
        return self._moves(tensor, (parent, node), Siblings.ADDED, pins, none_stops)

    def first_back(self, tensor: TensorModel, between: tuple[Node, Node], pins: Pins, own: Loop[int]) -> Terms:
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
        back = self._sum(kept for kept, _ in scene.carries())
        unmoved: dict[Judge, Judge] = {always: none_stops, none_starts: none_moves}
        still = {dim: unmoved.get(judge, judge) for dim, judge in judges.items()}
        scene.judge_by(still, own.tile, pins[own.position])
        return back - self._sum(scene.silent())

    def idle_siblings(self, tensor: TensorModel, parent: Node, node: Node) -> list[Loop[int]]:
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
        return stay - all_stay

    def _moves(
        self, tensor: TensorModel, between: tuple[Node, Node], siblings: Siblings, pins: Pins, judge: Judge
    ) -> Terms:
        scene = self._scene(tensor, between, siblings, pins, Clock.MACHINE, judge)
        if between[1].level < 0:
            return self._sum([[*scene.whole(), *(WindowDistinct(axes) for axes in scene.axes)]])
        if siblings is not Siblings.APART and any(is_spread(axes) for axes in scene.axes):
            return self._sum([scene.shared()]) - self._sum(scene.unmoved())
        return self._entering(scene, Clock.MACHINE)

    def tile(self, tensor: TensorModel, node: Node) -> Terms:
        """Return the size of the largest tile: that of the first step in the first instance."""
        chains, _ = self._chains.at((node, node), Siblings.APART, NO_PINS)
        singles = [
            FirstTile(self._extents[dim], chains[dim]) if chains[dim] else self._extents[dim] for dim in tensor.singles
        ]
        windows = [WindowFirst(axes) for axes in axes_of(self._extents, chains, tensor)]
        return self._sum([[*singles, *windows]])

    def steps(self) -> Terms:
        """Return how many steps there are: those of the first instance, which works whenever any does."""
        return self._sum([self._vectors(NO_PINS, timed=True)])

    def works(self, pins: Pins) -> Terms:
        """Return 1 where the instance with these digits has work in the first step, and so in any, 0 elsewhere."""
        return self._sum([self._vectors(pins, timed=False)])

    def _vectors(self, pins: Pins, *, timed: bool) -> list[Value]:
        found: list[Value] = []
        for extent, loops in zip(self._extents, self.nest.chains, strict=True):
            chain = tuple(
                (loop.tile, Part.TIME, 0)
                if loop.fanout == TEMPORAL
                else (loop.tile, Part.PINNED if pins.get(loop.position) else Part.MERGED, pins.get(loop.position, 0))
                for loop in loops
            )
            found.append(places_of(extent, chain, times_of(chain) if timed else 0))
        return found
