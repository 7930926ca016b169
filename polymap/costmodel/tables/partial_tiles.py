"""The counts of many mappings of one tree shape at once, for tiles of any size: `Counter` and `busiest` as plans.

A plan is a sum of products of factors; it depends on the tree's shape only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise, product
from math import prod
from typing import NamedTuple

import numpy as np

from polymap.costmodel.closed_form import (
    NO_PINS,
    TEMPORAL,
    Axes,
    Busiest,
    Chains,
    Clock,
    Cuts,
    Judge,
    Loop,
    MachineModel,
    Moves,
    Node,
    Part,
    Pins,
    Row,
    Siblings,
    TensorModel,
    WorkloadModel,
    always,
    axes_of,
    fills_of_target,
    initial_of,
    moves_of_operand,
    moves_of_target,
    none_moves,
    none_starts,
    none_stops,
    rows_of,
)
from polymap.costmodel.tables.carries import ManyScene, Value, nest_of_columns, places_of
from polymap.costmodel.tables.digits import first_back, most_runs
from polymap.costmodel.tables.factors import (
    FirstTile,
    WindowAll,
    WindowDistinct,
    WindowFirst,
    WindowKept,
    WindowSum,
    times_of,
)
from polymap.costmodel.tables.loops import Booleans, Integers, Many, Shape
from polymap.costmodel.tables.planned_sums import NO_TERMS, Factor, Factors, Nested, Rows, Terms, nested, worked_out
from polymap.costmodel.tables.shared_windows import is_spread

_MAX_CANDIDATES = 16


class Candidate(NamedTuple):
    """One kind of instance of a level. works: 1 where it has work. reads, writes: in bits."""

    works: Nested
    reads: Nested
    writes: Nested


class PartialPlan:
    """The plan of one tree. metered: the levels whose busiest instance matters."""

    __slots__ = ("_alone", "_bits", "_busy", "_doubts", "_levels", "_metered", "_plans", "_rows", "_steps", "_uneven")

    def __init__(self, model: WorkloadModel, machine: MachineModel, shape: Shape, metered: Collection[int]) -> None:
        self._plans = Plans(model, machine, shape)
        self._metered, self._levels = metered, len(machine.levels)
        self._bits = [tensor.bits for tensor in model.tensors]
        self._uneven: set[int] = set()  # dims whose tiles must divide for the plan to hold
        self._doubts: list[tuple[Nested, frozenset[int] | None]] = []  # sums that must be 0 where such a dim is uneven
        self._rows: list[Row[Nested]] = []
        for tensor, nodes in zip(model.tensors, shape.holders, strict=True):
            self._rows += self._rows_of(tensor, nodes)
            self._unites_unevenly(machine, tensor, nodes)
        self._rows.sort(key=lambda row: (row.level, row.tensor))
        self._steps = nested(self._plans.steps())
        fans = dict(machine.levels.values())
        self._alone = [level for level in metered if not fans[level]]
        self._busy = {level: self._candidates(model, shape, level, fans[level]) for level in metered if fans[level]}
        self._doubts += [(nested(terms), None) for terms in self._plans.doubts]

    def _rows_of(self, tensor: TensorModel, nodes: tuple[Node, ...]) -> Iterator[Row[Nested]]:
        """Yield the rows of a tensor, and note what would make them wrong."""
        for node, row in zip(nodes, rows_of(self._plans, tensor, nodes, NO_TERMS), strict=False):
            if tensor.written and node.level and node.level in self._metered:
                self._doubt_delicate(tensor, node, row.fills)
            yield Row(row.level, row.tensor, *(nested(each) for each in row[2:]))

    def _doubt_delicate(self, tensor: TensorModel, node: Node, fills: Terms) -> None:
        """Note that no partial sum may come back where siblings take unequal shares of them: where they may hold an
        element of a window through different offsets, or come back to it while others hold it."""
        spread = {loop.dim for loop in self._plans.nest.loops if 0 <= loop.fanout < node.fans}
        if tensor.windows and any(tensor.kinds[dim] == 2 for dim in spread):
            self._doubts.append((nested(fills), None))
        elif tensor.windows and (idle := frozenset(dim for dim in spread if tensor.kinds[dim] == 0)):
            self._doubts.append((nested(fills), idle))

    def _unites_unevenly(self, machine: MachineModel, tensor: TensorModel, nodes: tuple[Node, ...]) -> None:
        """Note the singles of which no tile may be partial: siblings united along them may differ in whether they load
        while others are merged along a window."""
        if tensor.written or not tensor.windows:
            return
        for parent, node in pairwise(nodes[:-1]):
            between = [loop for loop in self._plans.nest.loops if parent.fans <= loop.fanout < node.fans]
            if any(
                tensor.kinds[loop.dim] == 2 and not (machine.unites[loop.fanout] or machine.repeats[loop.fanout])
                for loop in between
            ):
                self._uneven |= {
                    loop.dim for loop in between if tensor.kinds[loop.dim] == 1 and machine.unites[loop.fanout]
                }

    def _candidates(self, model: WorkloadModel, shape: Shape, level: int, fans: int) -> list[Candidate]:
        """Return the kinds of instances of a level that may be the busiest, and what each reads and writes."""
        here = [
            (tensor, number, nodes)
            for tensor, nodes in zip(model.tensors, shape.holders, strict=True)
            for number, node in enumerate(nodes)
            if node.level == level
        ]
        found: list[Candidate] = []
        for pins in self._kinds_of_instances([tensor for tensor, _, _ in here], fans):
            reads = writes = NO_TERMS
            for tensor, number, nodes in here:
                moves = self._accesses(tensor, nodes, number, pins)
                reads, writes = reads + moves.reads * tensor.bits, writes + moves.writes * tensor.bits
            found.append(Candidate(nested(self._plans.works(pins)), nested(reads), nested(writes)))
        return found

    def _kinds_of_instances(self, tensors: list[TensorModel], fans: int) -> list[Pins]:
        """Return the runs of digits (position of a spatial loop -> run) of instances that may be the busiest.

        Only along windows, or along dims that the target lacks, may another instance than the first do more. Too many
        kinds are left to others where a tile is partial, as are siblings in two loops over a dim that the target lacks.
        """
        loops: list[int] = []
        kinds: list[range] = []
        doubtful: set[int] = set()
        simple = True
        for dim, chain in enumerate(self._plans.nest.chains):
            lacking = any(tensor.written and not tensor.kinds[dim] for tensor in tensors)
            doubted = lacking or any(tensor.kinds[dim] == 2 for tensor in tensors)
            spatial = [
                (number, loop) for number, loop in enumerate(chain) if loop.fanout != TEMPORAL and loop.fanout < fans
            ]
            simple &= not lacking or len(spatial) < 2
            loops += [loop.position for _, loop in spatial]
            kinds += [range(most_runs(number) if doubted else 1) for number, _ in spatial]
            if doubted and spatial:
                doubtful.add(dim)
        simple &= not any(tensor.written and tensor.windows for tensor in tensors)
        if not simple or prod(len(each) for each in kinds) > _MAX_CANDIDATES:
            self._uneven |= doubtful
            kinds = [range(1)] * len(loops)
        return [dict(zip(loops, chosen, strict=True)) for chosen in product(*kinds)]

    def _accesses(self, tensor: TensorModel, nodes: tuple[Node, ...], number: int, pins: Pins) -> Moves[Terms]:
        """Return what the instance with these digits moves of a tensor at its node `number`, not the outermost one."""
        plans, node, below = self._plans, nodes[number], nodes[number + 1]
        if not tensor.written:
            loads = plans.messages(tensor, node, below, pins)
            return moves_of_operand(loads, plans.fills(tensor, nodes[number - 1], node, pins), NO_TERMS)
        fills = self._fills_of(tensor, nodes, number, pins)
        arrivals = plans.arrivals(tensor, node, below, pins)
        return moves_of_target(arrivals, fills, NO_TERMS, outermost=False, none=NO_TERMS)

    def _fills_of(self, tensor: TensorModel, nodes: tuple[Node, ...], number: int, pins: Pins) -> Terms:
        """Return how many partial sums the instance with these digits takes from its parent (`busiest.fills_of`)."""
        plans = self._plans
        touched = plans.fills(tensor, nodes[0], nodes[0], pins)
        if number == 0:
            return initial_of(tensor, touched, NO_TERMS)
        parent, node = nodes[number - 1], nodes[number]
        moved = [loop for loop in plans.idle_siblings(tensor, parent, node) if pins[loop.position]]
        if moved:
            return plans.first_back(tensor, (parent, node), pins, moved[0]) if len(moved) == 1 else NO_TERMS
        stays = touched if number == 1 else plans.entries(tensor, nodes[number - 2], parent, pins)
        events = plans.events(tensor, parent, node, pins) - plans.come_back(tensor, parent, node, pins)
        return fills_of_target(events, stays, self._fills_of(tensor, nodes, number - 1, pins))

    def rows_of(self, tiles: list[Integers]) -> Rows:
        """Return the rows of a table of tiles, none larger than the enclosing one."""
        return Rows(tiles, len(self._plans.factors.known))

    def count(
        self, rows: Rows, even: dict[int, Booleans]
    ) -> tuple[list[Row[Many]], tuple[Busiest[Many], ...], Integers]:
        """Return the counts, the busiest instances and the steps for the rows that `rows` is at, and note in it those
        for which they do not hold. even: per dim, where all its tiles divide."""
        found = [Row(row.level, row.tensor, *(self._value(each, rows) for each in row[2:])) for row in self._rows]
        nothing: Busiest[Many] = Busiest(0, 0, 0)
        busy = [nothing] * self._levels
        for level in self._alone:
            busy[level] = self._only(found, level)
        for level, candidates in self._busy.items():
            for each in candidates:
                works = self._value(each.works, rows)
                read, written = self._value(each.reads, rows) * works, self._value(each.writes, rows) * works
                busy[level] = Busiest(*map(np.maximum, busy[level], (read, written, read + written)))
        for dim in sorted(self._uneven):
            rows.failed |= ~even[dim]
        for doubt, dims in self._doubts:
            wrong = self._value(doubt, rows) != 0
            if dims is not None:
                wrong = wrong & ~np.logical_and.reduce([even[dim] for dim in sorted(dims)])
            rows.failed |= wrong
        return found, tuple(busy), self._value(self._steps, rows) + np.zeros_like(rows.failed, dtype=np.int64)

    def _value(self, plan: Nested, rows: Rows) -> Many:
        return worked_out(plan, rows, self._plans.factors.known)

    def _only(self, rows: list[Row[Many]], level: int) -> Busiest[Many]:
        """Return what the only instance of a level reads and writes."""
        read: Many = 0
        written: Many = 0
        for row in rows:
            if row.level == level:
                read = row.reads * self._bits[row.tensor] + read
                written = row.writes * self._bits[row.tensor] + written
        return Busiest(read, written, read + written)


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
