"""The loop tree as integer sets: every loop with more than one iteration is a column, every statement a table of rows.

A row is one statement instance. Its index along a dim is the sum of digit x tile over the dim's loops, outermost first;
the digits of a loop's inner loops contribute less than its tile.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from polymap.ir import (
    Access,
    Affine,
    Architecture,
    Branch,
    Compute,
    Mapping,
    MappingNode,
    Spatial,
    Statement,
    Storage,
    Temporal,
    Workload,
    affine,
    dim,
    substituted,
)
from polymap.poly import Columns, Table, Tally


@dataclass(frozen=True, slots=True)
class Lane:
    """A spatial loop. column: its digit. fanout: an index into the machine's. trips: its nominal trip count."""

    column: str
    fanout: int
    trips: int


@dataclass(frozen=True, slots=True)
class TileColumns:
    """One storage node of one tensor. level: 0 is the outermost.

    clock: the columns of the temporal loops and Branches above, outermost first. lanes: the spatial loops that tell its
    instances apart. parent: an index into Tree.places, None at the outermost level. scope: how many columns of the
    clock say which execution of which child of a Branch it stands in; 0 outside all Branches.
    """

    tensor: str
    level: int
    clock: Columns
    lanes: tuple[Lane, ...]
    parent: int | None
    scope: int = 0


@dataclass(frozen=True, slots=True)
class StatementRows:
    """One statement. rows: its instances in digits. clock, lanes: the columns of all temporal and all spatial loops
    above.

    turns: Branch (a column of the clock) -> the number of the child on the path. holders: tensor -> its nodes on the
    path, outermost first. index: dim -> its value in digits.
    """

    statement: Statement
    rows: Table
    clock: Columns
    lanes: tuple[Lane, ...]
    turns: dict[str, int]
    holders: dict[str, tuple[int, ...]]
    index: dict[str, Affine]

    def at(self, column: str) -> Affine:
        """Return the value of a column of the clock or the lanes in this statement's rows: 0 where it has no such
        loop."""
        if column in self.turns:
            return Affine((), self.turns[column])
        return dim(column) if column in self.rows.columns else Affine()

    def touched(self, access: Access, columns: Iterable[str]) -> Table:
        """Return the rows (columns..., e0, e1, ...) of the elements that one access touches."""
        outputs = {column: self.at(column) for column in columns}
        outputs |= {f"e{axis}": value for axis, value in enumerate(self.element(access))}
        return self.rows.computed(outputs)

    def element(self, access: Access) -> tuple[Affine, ...]:
        """Return the element that an access touches, in digits."""
        return tuple(substituted(expression, self.index) for expression in access.index)

    def rows_by(self, lanes: Columns) -> Tally:
        """Return the number of instances per value of some lanes."""
        return self.rows.computed({name: self.at(name) for name in lanes} | self.digits()).tally(lanes)

    def digits(self) -> dict[str, Affine]:
        """Return every column of the rows under another name, so that grouping by lanes keeps the rows distinct."""
        return {f"{name}_digit": dim(name) for name in self.rows.columns}


@dataclass(frozen=True, slots=True)
class Tree:
    """Storage nodes in the order of the tree (a parent before its children); statements from left to right."""

    places: tuple[TileColumns, ...]
    leaves: tuple[StatementRows, ...]


@dataclass(frozen=True, slots=True)
class _Loop:
    column: str
    dim: str
    tile: int
    trips: int


@dataclass(frozen=True, slots=True)
class _Path:
    loops: tuple[_Loop, ...]
    clock: Columns
    lanes: tuple[Lane, ...]
    turns: dict[str, int]
    tiles: dict[str, int]
    holders: dict[str, tuple[int, ...]]


@dataclass(slots=True)
class _Reader:
    workload: Workload
    arch: Architecture
    places: list[TileColumns] = field(default_factory=list[TileColumns])
    leaves: list[StatementRows] = field(default_factory=list[StatementRows])
    columns: int = 0

    def new_column(self) -> str:
        self.columns += 1
        return f"d{self.columns}"

    def walk(self, nodes: tuple[MappingNode, ...], path: _Path) -> None:
        for node in nodes:
            match node:
                case Storage():
                    path = self._add_storage(node, path)
                case Temporal() | Spatial():
                    path = self._add_loop(node, path)
                case Compute():
                    self.leaves.append(_leaf(self.workload, self.workload.statement(node.statement), path))
                case Branch():
                    column = self.new_column()
                    for number, child in enumerate(node.children):
                        inside = replace(path, clock=(*path.clock, column), turns={**path.turns, column: number})
                        self.walk(child, inside)

    def _add_storage(self, node: Storage, path: _Path) -> _Path:
        level = self.arch.level_index(node.level)
        if level == 0:
            return path
        width = len(self.arch.fanouts_above(node.level))
        holders = dict(path.holders)
        scope = max((place + 1 for place, column in enumerate(path.clock) if column in path.turns), default=0)
        for tensor in node.tensors:
            lanes = _by_fanout(lane for lane in path.lanes if lane.fanout < width)
            self.places.append(TileColumns(tensor, level, path.clock, lanes, holders[tensor][-1], scope))
            holders[tensor] = (*holders[tensor], len(self.places) - 1)
        return replace(path, holders=holders)

    def _add_loop(self, node: Temporal | Spatial, path: _Path) -> _Path:
        enclosing = path.tiles[node.dim]
        if node.tile >= enclosing:
            return path
        loop = _Loop(self.new_column(), node.dim, node.tile, -(-enclosing // node.tile))
        path = replace(path, loops=(*path.loops, loop), tiles={**path.tiles, node.dim: node.tile})
        if isinstance(node, Temporal):
            return replace(path, clock=(*path.clock, loop.column))
        (fanout,) = (number for number, each in enumerate(self.arch.fanouts) if each.name == node.fanout)
        return replace(path, lanes=(*path.lanes, Lane(loop.column, fanout, loop.trips)))


def read_tree(workload: Workload, arch: Architecture, mapping: Mapping) -> Tree:
    """Return the nodes and statements of a mapping that `check_mapping` accepts. Call it inside `with budget():`."""
    reader = _Reader(workload, arch)
    reader.places += [TileColumns(tensor.name, 0, (), (), None) for tensor in workload.tensors]
    holders = {place.tensor: (index,) for index, place in enumerate(reader.places)}
    reader.walk(mapping.nodes, _Path((), (), (), {}, workload.extents(), holders))
    return Tree(tuple(reader.places), tuple(reader.leaves))


def _leaf(workload: Workload, statement: Statement, path: _Path) -> StatementRows:
    extents = workload.extents()
    loops = [loop for loop in path.loops if loop.dim in statement.dims]
    index = {name: Affine() for name in statement.dims}
    constraints: list[Affine] = []
    for loop in reversed(loops):
        rest = index[loop.dim]
        if rest.terms:
            constraints.append(-rest + (loop.tile - 1))
        index[loop.dim] = affine(((loop.tile, loop.column), *rest.terms))
    constraints += [-index[name] + (extents[name] - 1) for name in statement.dims if index[name].terms]
    constraints += [substituted(constraint, index) for constraint in statement.constraints]
    rows = Table.box(((loop.column, loop.trips) for loop in loops), constraints)
    return StatementRows(statement, rows, path.clock, _by_fanout(path.lanes), path.turns, path.holders, index)


def _by_fanout(lanes: Iterable[Lane]) -> tuple[Lane, ...]:
    """Return lanes in the order in which instances are numbered: by fan-out, on one fan-out the outermost loop
    first."""
    return tuple(sorted(lanes, key=lambda lane: lane.fanout))
