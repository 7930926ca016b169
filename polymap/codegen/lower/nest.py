"""The loop tree as code generation reads it: loops with trip counts, storage points, uses and the clock.

A *storage point* is one tensor at one Storage node. Its *fixed* loops are the temporal ones above it and the spatial
ones over fan-outs above its level; all other loops run inside its tile. A *use* is one statement below it with all its
loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from polymap import ir
from polymap.schedules import trip_count


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of more than one nominal iteration. depth: its position in the clock (spatial: of the next inner loop).

    fanout: index among the machine's fan-outs, or None for a temporal loop.
    """

    name: str
    dim: str
    tile: int
    trips: int
    fanout: int | None
    depth: int

    @property
    def is_temporal(self) -> bool:
        return self.fanout is None


@dataclass(frozen=True, slots=True)
class Use:
    """A statement with the loops around it, outermost first, and the branch choices that lead to it."""

    statement: ir.Statement
    loops: tuple[Loop, ...]
    path: tuple[int, ...]

    @property
    def foreign(self) -> tuple[Loop, ...]:
        """The loops over dims that the statement lacks: it runs in their first iteration only."""
        return tuple(loop for loop in self.loops if loop.dim not in self.statement.dims)

    def digits(self, dim: str) -> tuple[Loop, ...]:
        """Return the loops over `dim`, outermost first."""
        return tuple(loop for loop in self.loops if loop.dim == dim)


@dataclass(frozen=True, slots=True)
class StoragePoint:
    """One tensor at one Storage node (or at the outermost level). level: index among the machine's levels.

    depth: number of clock components above. path, branch_depths: the branch choices above and their clock components.
    """

    number: int
    tensor: str
    level: int
    above: tuple[Loop, ...]
    depth: int
    path: tuple[int, ...]
    branch_depths: tuple[int, ...]
    fanouts: int
    parent: int | None = None
    uses: tuple[Use, ...] = ()

    @property
    def instance_loops(self) -> tuple[Loop, ...]:
        """The loops whose indices name an instance, in instance order."""
        return instance_order(loop for loop in self.above if loop.fanout is not None and loop.fanout < self.fanouts)

    @property
    def instances(self) -> int:
        return prod(loop.trips for loop in self.instance_loops)

    @property
    def fixed(self) -> frozenset[str]:
        """The names of the loops that fix the tile."""
        temporal = frozenset(loop.name for loop in self.above if loop.is_temporal)
        return temporal | frozenset(loop.name for loop in self.instance_loops)

    def accesses(self) -> tuple[tuple[Use, ir.Access], ...]:
        """Return the accesses to the tensor below this place, each index once per statement, targets first."""
        return tuple(
            (use, each) for use in self.uses for each in dict.fromkeys(ir.accesses_of(use.statement, self.tensor))
        )


@dataclass(frozen=True, slots=True)
class ClockLoop:
    """A temporal loop on the clock and what runs inside it."""

    loop: Loop
    above: tuple[Loop, ...]
    body: Clock


@dataclass(frozen=True, slots=True)
class ClockBranch:
    """Children that run one after the other; depth: the branch's position in the clock; above: the loops around it."""

    depth: int
    above: tuple[Loop, ...]
    children: tuple[Clock, ...]


@dataclass(frozen=True, slots=True)
class ClockStep:
    """One step of a statement."""

    use: Use


Clock = ClockLoop | ClockBranch | ClockStep


@dataclass(frozen=True, slots=True)
class Nest:
    """A workload, machine and mapping, read. places: outermost ones first (in the workload's order), then as they
    stand in the tree; a place's parent has a smaller number."""

    workload: ir.Workload
    arch: ir.Architecture
    places: tuple[StoragePoint, ...]
    clock: Clock
    uses: tuple[Use, ...]
    clock_names: tuple[str, ...]

    def places_of(self, tensor: str) -> tuple[StoragePoint, ...]:
        """Return the places of a tensor, outermost first."""
        return tuple(place for place in self.places if place.tensor == tensor)

    def holder(self, use: Use, tensor: str) -> StoragePoint:
        """Return the innermost place that serves `tensor` to a statement."""
        return [place for place in self.places_of(tensor) if use in place.uses][-1]

    def between(self, parent: StoragePoint, fanouts: int) -> tuple[tuple[int, ir.Fanout], ...]:
        """Return (index, fan-out) between a parent place and whatever has `fanouts` fan-outs above it."""
        return tuple(enumerate(self.arch.fanouts))[parent.fanouts : fanouts]


def clock_below(nest: Nest, place: StoragePoint) -> Clock:
    """Return the part of the clock below a place."""
    clock = nest.clock
    while True:
        if isinstance(clock, ClockLoop) and clock.loop.depth < place.depth:
            clock = clock.body
        elif isinstance(clock, ClockBranch) and clock.depth < place.depth:
            clock = clock.children[place.path[place.branch_depths.index(clock.depth)]]
        else:
            return clock


def instance_order(loops: Iterator[Loop]) -> tuple[Loop, ...]:
    """Return spatial loops in instance order: outermost fan-out first, outermost loop first on one fan-out."""
    return tuple(sorted(loops, key=lambda loop: loop.fanout or 0))


@dataclass(slots=True)
class _Reader:
    """Walks the tree once; collects places and uses."""

    workload: ir.Workload
    arch: ir.Architecture
    places: list[StoragePoint] = field(default_factory=list[StoragePoint])
    uses: list[Use] = field(default_factory=list[Use])
    loops: int = 0
    names: list[str] = field(default_factory=list[str])

    def walk(
        self, nodes: tuple[ir.MappingNode, ...], enclosing: dict[str, int], above: tuple[Loop, ...], at: _Position
    ) -> Clock:
        """Return the clock of a sequence of nodes."""
        node, rest = nodes[0], nodes[1:]
        match node:
            case ir.Storage():
                self.store(node, above, at)
                return self.walk(rest, enclosing, above, at)
            case ir.Temporal() | ir.Spatial():
                return self.enter(node, rest, enclosing, above, at)
            case ir.Branch(children):
                clocks = tuple(
                    self.walk(child, enclosing, above, at.inside_branch(i)) for i, child in enumerate(children)
                )
                return ClockBranch(at.depth, above, clocks)
            case ir.Compute(name):
                use = Use(self.workload.statement(name), above, at.path)
                self.uses.append(use)
                return ClockStep(use)

    def enter(
        self,
        node: ir.Temporal | ir.Spatial,
        rest: tuple[ir.MappingNode, ...],
        enclosing: dict[str, int],
        above: tuple[Loop, ...],
        at: _Position,
    ) -> Clock:
        """Return the clock from a loop inwards; loops of one iteration vanish."""
        outer = enclosing[node.dim]
        if node.tile >= outer:
            return self.walk(rest, enclosing, above, at)
        trips = trip_count(outer, node.tile)
        inner = {**enclosing, node.dim: node.tile}
        if isinstance(node, ir.Spatial):
            fanout = [f.name for f in self.arch.fanouts].index(node.fanout)
            loop = Loop(f"s{self.loops}", node.dim, node.tile, trips, fanout, at.depth)
            self.loops += 1
            return self.walk(rest, inner, (*above, loop), at)
        loop = Loop(f"t{self.loops}", node.dim, node.tile, trips, None, at.depth)
        self.loops += 1
        self.names.append(loop.name)
        return ClockLoop(loop, above, self.walk(rest, inner, (*above, loop), at.deeper()))

    def store(self, node: ir.Storage, above: tuple[Loop, ...], at: _Position) -> None:
        level = self.arch.level_index(node.level)
        if level == 0:
            return
        fanouts = len(self.arch.fanouts_above(node.level))
        for tensor in node.tensors:
            self.places.append(StoragePoint(0, tensor, level, above, at.depth, at.path, at.branch_depths, fanouts))


@dataclass(frozen=True, slots=True)
class _Position:
    depth: int = 0
    path: tuple[int, ...] = ()
    branch_depths: tuple[int, ...] = ()

    def deeper(self) -> _Position:
        return _Position(self.depth + 1, self.path, self.branch_depths)

    def inside_branch(self, child: int) -> _Position:
        return _Position(self.depth + 1, (*self.path, child), (*self.branch_depths, self.depth))


def read_nest(workload: ir.Workload, arch: ir.Architecture, mapping: ir.Mapping) -> Nest:
    """Return the nest of a mapping that is a program (schedules.check)."""
    reader = _Reader(workload, arch)
    clock = reader.walk(mapping.nodes, workload.extents(), (), _Position())
    uses = tuple(reader.uses)
    outermost = [StoragePoint(0, tensor.name, 0, (), 0, (), (), 0) for tensor in workload.tensors]
    places: list[StoragePoint] = []
    for place in (*outermost, *reader.places):
        parents = [p.number for p in places if p.tensor == place.tensor and place.path[: len(p.path)] == p.path]
        below = tuple(use for use in uses if _serves(place, use))
        places.append(replace(place, number=len(places), parent=parents[-1] if parents else None, uses=below))
    return Nest(workload, arch, tuple(places), clock, uses, tuple(reader.names))


def _serves(place: StoragePoint, use: Use) -> bool:
    below = use.path[: len(place.path)] == place.path
    return below and bool(ir.accesses_of(use.statement, place.tensor))
