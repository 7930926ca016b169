"""Trees with branches in closed form: a child of a branch is counted as often as it runs, with the tiles that it gets,
as a tree of its own that begins with empty nodes (docs/closed_form.md, "Branches").

What differs between runs is how long the tiles are, and whether the sums that a child adds to have a value yet. Nodes
above a branch hold what their children touch together: the same elements in every iteration, or the formulas do not
apply. One implementation serves Python integers (`evaluate`) and arrays (`evaluate_many`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any, Generic, NamedTuple, Protocol

from polymap.costmodel.closed_form.accounting import Amount, Busiest, Figure, Row, Wire
from polymap.costmodel.closed_form.branch_programs import (
    Line,
    OutOfReach,
    at_the_top,
    check_program,
    check_values,
    common_access,
    held_below,
    line_of,
    loops_above,
    loops_that_idle,
    moves_unlike,
    own_nodes,
    set_before,
    unequal_dims,
    whole_access,
)
from polymap.ir import (
    Access,
    Architecture,
    Branch,
    Compute,
    Mapping,
    MappingNode,
    Operator,
    Read,
    Role,
    Spatial,
    Statement,
    Storage,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
    nest_of,
    statements_below,
)

Nodes = tuple[MappingNode, ...]


class NestCounts(NamedTuple, Generic[Figure]):
    """The counts of a tree. rows: by level and tensor. busy: per level. wires: by fan-out and tensor. of_first: whether
    the busiest instance is the first one in each level; None: it is where tiles divide along loops over siblings."""

    rows: Sequence[Row[Figure]]
    busy: Sequence[Busiest[Figure]]
    steps: Figure
    wires: Sequence[Wire[Figure]]
    of_first: bool | None = None


class BranchCounts(NamedTuple, Generic[Figure]):
    """The counts of a tree with branches. held: per level the bits that one instance holds at most."""

    counts: NestCounts[Figure]
    held: Sequence[Figure]


class Length(NamedTuple, Generic[Figure]):
    """Tiles of a dim that are equally long. kind: tells lengths apart. number: of the tiles; is_first: it is one, the
    first of all."""

    kind: int
    length: Figure
    number: Figure
    is_first: bool


class Numbers(Protocol[Amount]):
    """Tiles and counts of one type of number. unit: what a loop over single indices has for its tile."""

    @property
    def unit(self) -> int: ...

    def tile(self, loop: Temporal | Spatial) -> Amount:
        """Return the tile of a loop."""
        ...

    def least(self, one: Amount, other: Amount) -> Amount: ...

    def most(self, one: Amount, other: Amount) -> Amount: ...

    def quotient(self, dividend: Any, divisor: Any) -> Any:
        """Return the quotient, rounded down."""
        ...

    def equal(self, one: Amount, other: Amount) -> Amount:
        """Return 1 where two numbers are equal, else 0."""
        ...

    def lengths(self, extent: Amount, tiles: Sequence[Amount]) -> Sequence[Length[Amount]]:
        """Return how long the tiles are that nested loops cut a range into, the first one first."""
        ...

    def refuse(self, refused: Any, times: Amount, why: str) -> None:
        """Raise OutOfReach where something is the case of a run, or note where it is of one that occurs."""
        ...

    def extents(self, extents: dict[str, Amount]) -> dict[str, int]:
        """Return extents for the nest of a run."""
        ...

    def count(self, nest: Workload, extents: dict[str, Amount], mapping: Mapping, times: Amount) -> NestCounts[Amount]:
        """Return the counts of a nest of one statement over tiles of these extents; raise OutOfReach where there are
        none."""
        ...


@dataclass(frozen=True, slots=True)
class IntegerRuns:
    """Python integers. count_nest: counts a nest of one statement, in closed form."""

    count_nest: Callable[[Workload, Mapping], NestCounts[int] | None]
    unit: int = 1

    def tile(self, loop: Temporal | Spatial) -> int:
        return loop.tile

    def least(self, one: int, other: int) -> int:
        return min(one, other)

    def most(self, one: int, other: int) -> int:
        return max(one, other)

    def quotient(self, dividend: int, divisor: int) -> int:
        return dividend // divisor

    def equal(self, one: int, other: int) -> int:
        return int(one == other)

    def lengths(self, extent: int, tiles: Sequence[int]) -> Sequence[Length[int]]:
        lengths, first = Counter({extent: 1}), extent
        for tile in tiles:
            cut = Counter[int]()
            for length, number in lengths.items():
                whole, rest = divmod(length, tile)
                cut[tile] += number * whole
                cut[rest] += number if rest else 0
            lengths, first = cut, min(first, tile)
        lengths[first] -= 1
        others = (Length(length, length, number, is_first=False) for length, number in lengths.items() if number)
        return [Length(first, first, 1, is_first=True), *others]

    def refuse(self, refused: Any, times: int, why: str) -> None:
        if refused:
            raise OutOfReach(why)

    def extents(self, extents: dict[str, int]) -> dict[str, int]:
        return extents

    def count(self, nest: Workload, extents: dict[str, int], mapping: Mapping, times: int) -> NestCounts[int]:
        counts = self.count_nest(nest, mapping)
        if counts is None:
            raise OutOfReach(nest.statements[0].name)
        return counts


@dataclass(frozen=True, slots=True)
class Run(Generic[Amount]):
    """One run of a subtree. extents: of the tiles that it gets. fresh: tensors whose elements in it have no value
    yet. dying: tensors that nothing uses after it. holders: tensor -> the level that it is loaded from. spread: the
    spatial loops above, which cut these tiles."""

    extents: dict[str, Amount]
    fresh: frozenset[str]
    dying: frozenset[str]
    holders: dict[str, int]
    spread: tuple[Spatial, ...] = ()


@dataclass(slots=True)
class Total(Generic[Amount]):
    """What is counted so far. rows: (level, tensor) -> reads, writes, fills, drains. busiest: level -> bits that its
    first instance reads, writes, and moves. wires: (fan-out, tensor) -> messages, deliveries, collections, sums."""

    rows: dict[tuple[int, str], tuple[Any, ...]] = field(default_factory=dict[tuple[int, str], tuple[Any, ...]])
    busiest: dict[int, tuple[Any, ...]] = field(default_factory=dict[int, tuple[Any, ...]])
    wires: dict[tuple[int, str], tuple[Any, ...]] = field(default_factory=dict[tuple[int, str], tuple[Any, ...]])
    steps: Any = 0

    def add(self, level: int, tensor: str, times: Amount, moves: Sequence[Any]) -> None:
        self.rows[level, tensor] = _add_amounts(self.rows.get((level, tensor)), times, moves)

    def moves(self, level: int, tensor: str) -> tuple[Any, Any, Any, Any]:
        """Return the reads, writes, fills and drains so far."""
        reads, writes, fills, drains = self.rows.get((level, tensor), (0, 0, 0, 0))
        return reads, writes, fills, drains

    def add_busiest(self, level: int, times: Amount, read: Any, written: Any, moved: Any) -> None:
        self.busiest[level] = _add_amounts(self.busiest.get(level), times, (read, written, moved))

    def add_wire(self, fanout: int, tensor: str, times: Amount, crossed: Sequence[Any]) -> None:
        self.wires[fanout, tensor] = _add_amounts(self.wires.get((fanout, tensor)), times, crossed)


def _add_amounts(before: tuple[Any, ...] | None, times: Any, amounts: Sequence[Any]) -> tuple[Any, ...]:
    if before is None:
        return tuple(times * amount for amount in amounts)
    return tuple(one + times * amount for one, amount in zip(before, amounts, strict=True))


@dataclass(slots=True)
class BranchCounter(Generic[Amount]):
    """The walk over a tree: one visit per child and kind of run. metered: see `count_closed_form`. set_before: tensor
    -> the statement that sets what another one accumulates into. order: of the statements in the tree."""

    workload: Workload
    arch: Architecture
    numbers: Numbers[Amount]
    metered: bool
    total: Total[Any] = field(default_factory=Total[Any])
    set_before: dict[str, str] = field(default_factory=dict[str, str])
    order: tuple[str, ...] = ()

    def counts(self, mapping: Mapping) -> BranchCounts[Amount]:
        """Return the counts of a tree with branches that `check_mapping` accepts. Raises OutOfReach where the formulas
        do not apply."""
        self.order = statements_below(mapping.nodes)
        check_program(self.workload, self.order, mapping)
        written = {each.target.tensor for each in self.workload.statements}
        overwritten = {each.target.tensor for each in self.workload.statements if each.operator is Operator.ASSIGN}
        fresh = frozenset(each.name for each in self.workload.tensors if not each.initial or each.name in overwritten)
        self.set_before = set_before(self.workload)
        dying = frozenset(each.name for each in self.workload.tensors if each.temporary and each.name in written)
        extents: dict[str, Any] = self.workload.extents()
        run: Run[Amount] = Run(extents, fresh, dying, {each.name: 0 for each in self.workload.tensors})
        one: Any = 1
        held = self.visit(mapping.nodes, run, one)
        rows = self._rows(mapping)
        levels = range(len(self.arch.levels))
        busy = [self._busiest(number, rows) for number in levels]
        wires = [
            Wire(number, index, *self.total.wires.get((number, each.name), (0, 0, 0, 0)))
            for number, fanout in enumerate(self.arch.fanouts)
            for index, each in enumerate(self.workload.tensors)
            if fanout.has_energies
        ]
        none: Any = 0
        counts: NestCounts[Any] = NestCounts(rows, busy, self.total.steps, wires)
        return BranchCounts(counts, [held.get(number, none) for number in levels])

    def _rows(self, mapping: Mapping) -> list[Row[Amount]]:
        held = {(0, each.name) for each in self.workload.tensors} | set(held_below(self.arch, mapping.nodes))
        none: Any = 0
        return [
            Row(number, index, *self.total.moves(number, each.name), none)
            for number in range(len(self.arch.levels))
            for index, each in enumerate(self.workload.tensors)
            if (number, each.name) in held
        ]

    def _busiest(self, level: int, rows: Sequence[Row[Any]]) -> Busiest[Any]:
        if self.is_apart(level):
            return Busiest(*self.total.busiest.get(level, (0, 0, 0)))
        here = [(row, self.workload.tensors[row.tensor].bits) for row in rows if row.level == level]
        reads, writes = sum(row.reads * bits for row, bits in here), sum(row.writes * bits for row, bits in here)
        return Busiest(reads, writes, reads + writes)

    def visit(self, nodes: Nodes, run: Run[Amount], times: Amount) -> dict[int, Amount]:
        """Count so many runs of a subtree. Return the bits that each level holds in one, at most."""
        last = nodes[-1]
        if isinstance(last, Compute):
            return self._visit_nest(nodes, run, times)
        assert isinstance(last, Branch)
        chain = nodes[:-1]
        leaves = tuple(self.workload.statement(name) for name in statements_below(nodes))
        self._check_last_uses(chain, leaves)
        spread = self._spread(chain, leaves, run)
        held, holders = self._visit_nodes_above(chain, leaves, run, times)
        inside = replace(run, holders=holders, spread=(*run.spread, *spread))
        most = dict[int, Any]()
        for child in last.children:
            own = [self.workload.statement(name) for name in statements_below(child)]
            for number, each in self._runs_of_child(chain, own, inside):
                for level, bits in self.visit(child, each, times * number).items():
                    most[level] = self.numbers.most(most.get(level, 0), bits)
        return {level: held.get(level, 0) + most.get(level, 0) for level in {**held, **most}}

    def _spread(self, chain: Nodes, leaves: tuple[Statement, ...], run: Run[Amount]) -> tuple[Spatial, ...]:
        """Return the spatial loops of a chain. Refuse those that leave some statement out, or with a temporal loop over
        the same dim inside."""
        spread = {each.dim for each in run.spread}
        for node in chain:
            if isinstance(node, Temporal) and node.dim in spread:
                raise OutOfReach("a range that siblings cut is cut again above a branch")
            spread |= {node.dim} if isinstance(node, Spatial) else set()
        if any(not spread <= set(each.dims) for each in leaves):
            raise OutOfReach("siblings that some statement leaves idle")
        return tuple(node for node in chain if isinstance(node, Spatial))

    def _check_last_uses(self, chain: Nodes, leaves: tuple[Statement, ...]) -> None:
        """Refuse a branch in which a statement goes on to write a temporary tensor after all have read it: its last
        sums are dead."""
        loops = {node.dim for node in chain if isinstance(node, Temporal)}
        for writer in leaves:
            name = writer.target.tensor
            readers = [each for each in leaves if any(access.tensor == name for access in each.reads)]
            last = any(loops & set(writer.dims) <= set(each.dims) for each in readers)
            if self.workload.tensor(name).temporary and readers and not last:
                raise OutOfReach(name)

    def _visit_nest(self, nodes: Nodes, run: Run[Amount], times: Amount) -> dict[int, Amount]:
        """Count runs of a child that is one statement in its loops."""
        (name,) = statements_below(nodes)
        statement = self.workload.statement(name)
        target = statement.target.tensor
        is_set = self.set_before.get(target, name) != name
        is_initial = is_set or target not in run.fresh
        nest = nest_of(self.workload, statement, self.numbers.extents(run.extents), is_initial=is_initial)
        given = {each.name: run.holders[each.name] for each in nest.tensors if self.is_apart(run.holders[each.name])}
        around = tuple(Storage(self.arch.levels[level].name, (name,)) for name, level in given.items())
        own = tuple(own_nodes(nodes, statement))
        counts = of_child = self.counted(nest, run, Mapping((*run.spread, *around, *own)), times, alike=bool(given))
        if given:
            of_child = self.counted(nest, run, Mapping((*run.spread, *own)), times)  # tiles of the child's own nodes
            counts = self._below(counts, nest, given)
        self._add_nest(counts, nest, run, times)
        held = dict[int, Any]()
        for row in of_child.rows:
            if row.level:
                held[row.level] = held.get(row.level, 0) + row.tile * nest.tensors[row.tensor].bits
        return held

    def fanouts_between(self, outer: int, inner: int) -> range:
        """Return the fan-outs between two levels."""
        return range(*(len(self.arch.fanouts_above(self.arch.levels[level].name)) for level in (outer, inner)))

    def is_apart(self, level: int) -> bool:
        """Return whether siblings may each have a node of a level."""
        return bool(self.arch.fanouts_above(self.arch.levels[level].name))

    def counted(
        self, nest: Workload, run: Run[Amount], mapping: Mapping, times: Amount, *, alike: bool = False
    ) -> NestCounts[Amount]:
        """Return the counts of a nest. Refuse one of which another instance of a level than the first may move more
        bits, where these count: the figures of several nests are added. alike: of each tensor by itself."""
        counts = self.numbers.count(nest, run.extents, mapping, times)
        is_priced = any(level.has_bandwidth and self.arch.fanouts_above(level.name) for level in self.arch.levels)
        if self.metered and not is_priced:
            return counts
        if counts.of_first is False:
            raise OutOfReach("siblings of which another one than the first moves more")
        if alike or counts.of_first is None:
            loops = [node for node in mapping.nodes if isinstance(node, Temporal | Spatial)]
            unequal = unequal_dims(nest.statements[0], [node.dim for node in loops if isinstance(node, Spatial)])
            self.refuse_ragged((node for node in loops if node.dim in unequal), run, times)
        return counts

    def _below(self, counts: NestCounts[Any], nest: Workload, given: dict[str, int]) -> NestCounts[Amount]:
        """Return the counts of a child without what passes above the nodes, one per sibling, from which it gets the
        given tensors."""
        rows: list[Row[Any]] = []
        busy = list(counts.busy)
        for row in counts.rows:
            tensor = nest.tensors[row.tensor]
            level = given.get(tensor.name)
            if level is None or row.level not in (0, level):
                rows.append(row)
            elif row.level:
                reads, writes = row.reads - row.drains, row.writes - row.fills
                rows.append(row._replace(reads=reads, writes=writes, fills=0, drains=0))
                # All of the first sibling's tile comes or leaves once, or nothing does.
                read, written = (self.numbers.least(row.tile, n) * tensor.bits for n in (row.drains, row.fills))
                one = busy[level]
                busy[level] = Busiest(one.read - read, one.written - written, one.moved - read - written)
        above = {
            (number, name)
            for name, level in given.items()
            for number, fanout in enumerate(self.arch.fanouts)
            if fanout in self.arch.fanouts_above(self.arch.levels[level].name)
        }
        wires = [wire for wire in counts.wires if (wire.fanout, nest.tensors[wire.tensor].name) not in above]
        return NestCounts(rows, busy, counts.steps, wires)

    def _add_nest(self, counts: NestCounts[Any], nest: Workload, run: Run[Amount], times: Amount) -> None:
        """Add so many runs of a child to what is counted."""
        names = [each.name for each in nest.tensors]
        for level, tensor, *moves, _ in counts.rows:
            self.total.add(level or run.holders[names[tensor]], names[tensor], times, moves)
        for fanout, tensor, *crossed in counts.wires:
            self.total.add_wire(fanout, names[tensor], times, crossed)
        self.total.steps = self.total.steps + times * counts.steps
        for number, use in enumerate(counts.busy):
            self.total.add_busiest(number, times, *use)

    def refuse_ragged(self, nodes: Iterable[MappingNode], run: Run[Amount], times: Amount, where: Any = True) -> None:
        """Refuse loops of which a last tile is smaller than the others. where: it matters."""
        tiles: dict[str, Any] = dict(run.extents)
        for node in nodes:
            if isinstance(node, Temporal | Spatial):
                enclosing = tiles[node.dim]
                tile = tiles[node.dim] = self.numbers.least(self.numbers.tile(node), enclosing)
                self.numbers.refuse(
                    where & (self.numbers.quotient(enclosing, tile) * tile != enclosing), times, "ragged"
                )

    def _runs_of_child(
        self, chain: Nodes, own: list[Statement], run: Run[Amount]
    ) -> Iterator[tuple[Amount, Run[Amount]]]:
        """Yield the kinds of runs of a child below some loops, and how many there are of each."""
        loops = [node for node in chain if isinstance(node, Temporal)]
        names = {each.name for each in own}
        dims = {name for statement in own for name in statement.dims}
        mine = list(dict.fromkeys(loop.dim for loop in loops if loop.dim in dims))
        _check_runs(own, loops, mine, self.workload.extents())
        dying = frozenset(name for name in run.dying if self._dies_in(name, own, loops))
        kinds = [
            self.numbers.lengths(run.extents[name], [self.numbers.tile(loop) for loop in loops if loop.dim == name])
            for name in mine
        ]
        found: dict[tuple[tuple[int, ...], frozenset[str]], tuple[tuple[Length[Any], ...], Any]] = {}
        one: Any = 1
        for chosen in product(*kinds):
            again = {name for name, each in zip(mine, chosen, strict=True) if not each.is_first}
            stale = {each.target.tensor for each in own if again - set(each.target.dims)}
            stale |= {name for name, setter in self.set_before.items() if setter not in names}
            key = tuple(each.kind for each in chosen), run.fresh - stale
            before: Any = found[key][1] if key in found else 0
            found[key] = chosen, before + prod((each.number for each in chosen), start=one)
        for (_, fresh), (chosen, number) in found.items():
            extents = run.extents | {name: each.length for name, each in zip(mine, chosen, strict=True)}
            yield number, replace(run, extents=extents, fresh=fresh, dying=dying)

    def _dies_in(self, tensor: str, own: list[Statement], loops: list[Temporal]) -> bool:
        """Return whether nothing uses a tensor's elements after the run of a child that writes them."""
        users = [each for each in self.workload.statements if accesses_of(each, tensor)]
        last = max(self.order.index(each.name) for each in own)
        writes = any(each.target.tensor == tensor for each in own)
        if not writes or any(self.order.index(each.name) > last for each in users):
            return False
        accessed = {name for each in users for access in accesses_of(each, tensor) for name in access.dims}
        if any(loop.dim not in accessed for loop in loops):
            raise OutOfReach(tensor)
        return True

    def _visit_nodes_above(
        self, chain: Nodes, leaves: tuple[Statement, ...], run: Run[Amount], times: Amount
    ) -> tuple[dict[int, Amount], dict[str, int]]:
        """Count what the nodes above a branch load and drain. Return the bits that they hold, and the holders below."""
        check_values(leaves, {node.dim for node in chain if isinstance(node, Temporal)})
        held: dict[int, Any] = {}
        holders = dict(run.holders)
        stored = dict.fromkeys(tensor for node in chain if isinstance(node, Storage) for tensor in node.tensors)
        for name in stored:
            users = [each for each in leaves if accesses_of(each, name)]
            levels = self._levels(chain, name)
            if not users or not levels:
                continue
            shared = SharedTensor.of(self, chain, name, users, run, times)
            bits = self.workload.tensor(name).bits
            for number in levels:
                moved = shared.moved(number, self.numbers)
                held[number] = moved.tile * bits + held.get(number, 0)
                self._add_moves(name, (holders[name], number), moved, times)
                holders[name] = number
        return held, holders

    def _add_moves(self, name: str, levels: tuple[int, int], moved: BranchMoves, times: Amount) -> None:
        """Add what nodes of a tensor load and drain. levels: of their parents, and their own."""
        (outer, inner), fills, drains = levels, moved.fills, moved.drains
        self.total.add(inner, name, times, (drains.all, fills.all, fills.all, drains.all))
        self.total.add(outer, name, times, (fills.parents, drains.parents, 0, 0))
        bits = self.workload.tensor(name).bits
        first = (inner, drains.first, fills.first), (outer, fills.first_parent, drains.first_parent)
        for level, read, written in first:
            if self.is_apart(level):
                self.total.add_busiest(level, times, read * bits, written * bits, (read + written) * bits)
        for fanout, crossed in moved.wires.items():
            self.total.add_wire(fanout, name, times, crossed)

    def _levels(self, chain: Nodes, tensor: str) -> list[int]:
        """Return the levels below the outermost in which nodes of a chain hold a tensor."""
        return [number for number, name in held_below(self.arch, chain) if number and name == tensor]


class Crossed(NamedTuple):
    """Elements that pass between the nodes of a level and their parents, in sum at the nodes and at the parents, and at
    the first of each."""

    all: Any
    parents: Any
    first: Any
    first_parent: Any

    def but(self, others: Crossed, times: Any = 1) -> Crossed:
        """Return the elements without others. times: 0 or 1 of these."""
        return Crossed(*(one - other * times for one, other in zip(self, others, strict=True)))


class BranchMoves(NamedTuple):
    """What nodes above a branch load and drain in a level, and what one holds, in elements. wires: fan-out -> messages,
    deliveries, collections, sums."""

    fills: Crossed
    drains: Crossed
    tile: Any
    wires: dict[int, tuple[Any, Any, Any, Any]]


class Stay(NamedTuple):
    """What enters the tiles of a level, how large the largest is, and the messages and deliveries of fan-outs with
    energies, where the tensor is only read."""

    entries: Crossed
    tile: Any
    wires: dict[int, tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class SharedTensor:
    """A tensor with nodes above a branch. stays: by level. of_writer: the same where only the statement that writes it
    is below. touched: where each element that it touches enters once."""

    stays: dict[int, Stay]
    of_writer: dict[int, Stay]
    touched: dict[int, Stay]
    is_written: bool
    is_fresh: bool
    dies: bool
    is_line: bool = False

    @staticmethod
    def of(
        counter: BranchCounter[Any], chain: Nodes, name: str, users: list[Statement], run: Run[Any], times: Any
    ) -> SharedTensor:
        loops = [node.dim for node in chain if isinstance(node, Temporal)]
        cut = _cut_dims(counter, chain, run)
        tensor = counter.workload.tensor(name)
        line = line_of(counter.workload, users, tensor, cut) if loops else None
        if line is not None and common_access(counter.workload, users, tensor, cut) is None:
            return SharedTensor._of_line(counter, chain, line, run, times)
        main = max(users, key=lambda each: len(set(loops) & set(each.dims)))
        writers = [each for each in users if each.target.tensor == name]
        access = _shared_access(counter, chain, name, users, run)
        stays = of_writer = counter_stays(counter, chain, main, access, run, times)
        touched = stays
        if writers:
            if writers[0] is not main:
                of_writer = counter_stays(counter, chain, writers[0], access, run, times)
            for level in stays if name in run.dying else ():  # the last sums of all elements are dead, or of none
                counter.refuse_ragged(chain, run, times, of_writer[level].entries.all != stays[level].entries.all)
            touched = counter_stays(counter, at_the_top(chain, name), main, access, run, times)
            for level in filter(counter.is_apart, stays):  # idle siblings keep only what nothing below writes
                again = stays[level].entries.all != touched[level].entries.all
                counter.refuse_ragged(loops_that_idle(chain), run, times, again)
        return SharedTensor(stays, of_writer, touched, bool(writers), name in run.fresh, name in run.dying)

    @staticmethod
    def _of_line(counter: BranchCounter[Any], chain: Nodes, line: Line, run: Run[Any], times: Any) -> SharedTensor:
        """Return what nodes hold of a tensor that is read through a window, in which it is written. Refuse loops that
        bring elements in again, siblings and earlier runs that have some of the same, and what is used later."""
        name, access, written = line.access.tensor, line.access, line.writer.target
        loops = {node.dim for node in chain if isinstance(node, Temporal)}
        apart = {node.dim for node in (*run.spread, *chain) if isinstance(node, Spatial)}
        apart |= {dim for dim, extent in counter.workload.extents().items() if run.extents[dim] is not extent}
        is_alone = loops <= {*access.dims} and loops <= {*written.dims} and not apart & line.unlike
        if not is_alone or name not in run.fresh or name not in run.dying:
            raise OutOfReach(name)
        stays, of_writer, top, of_top = (
            counter_stays(counter, nodes, user, one, run, times)
            for nodes in (chain, at_the_top(chain, name))
            for user, one in ((line.reader, access), (line.writer, written))
        )
        for level, stay in stays.items():
            again = stay.entries.all != top[level].entries.all
            again |= of_writer[level].entries.all != of_top[level].entries.all
            counter.numbers.refuse(again, times, name)
        return SharedTensor(stays, of_writer, of_top, is_written=True, is_fresh=True, dies=True, is_line=True)

    def moved(self, level: int, numbers: Numbers[Any]) -> BranchMoves:
        """Return what the node in a level moves.

        An element that is written is loaded whenever it enters but for the first time, if it has no value before; it is
        drained from each tile in which it is written, but for the last time if nothing uses it after.
        """
        entries, tile, wires = self.stays[level]
        nothing = entries.but(entries)
        if not self.is_written:
            return BranchMoves(entries, nothing, tile, {each: (*loads, 0, 0) for each, loads in wires.items()})
        written, touched = self.of_writer[level].entries, self.touched[level].entries
        drains = written.but(touched, numbers.equal(written.all, entries.all)) if self.dies else written
        drains = nothing if self.is_line else drains
        fills = entries.but(touched) if self.is_fresh else entries
        ends = fills.all, fills.all, drains.all, drains.all  # siblings hold elements of their own
        return BranchMoves(fills, drains, tile, dict.fromkeys(wires, ends))


def _shared_access(
    counter: BranchCounter[Any], chain: Nodes, name: str, users: list[Statement], run: Run[Any]
) -> Access:
    """Return the access of the statements that use a tensor with nodes above a branch, of one where each touches
    all of it in the only run, reads all of it in each iteration, or touches the same in each. Refuse unlike ones."""
    arch, workload = counter.arch, counter.workload
    loops = [node.dim for node in chain if isinstance(node, Temporal)]
    main = max(users, key=lambda each: len(set(loops) & set(each.dims)))
    writers = [each for each in users if each.target.tensor == name]
    covered = all(set(loops) & set(each.dims) <= set(main.dims) for each in users)
    alike = len({frozenset(loops) & frozenset(each.dims) for each in writers}) < 2
    axes = {dim for each in users for access in accesses_of(each, name) for dim in access.dims}
    is_same = not any(isinstance(node, Spatial) for node in chain) and not run.spread
    is_same = is_same and (not loops if writers else not axes & set(loops))
    extents = workload.extents().items()
    is_same = is_same and all(run.extents[dim] is extent for dim, extent in extents if writers or dim in axes)
    whole, *others = [whole_access(workload, each, workload.tensor(name)) for each in (main, *users)]
    if is_same and whole is not None and None not in others:
        return whole
    access = common_access(workload, (main, *users), workload.tensor(name), _cut_dims(counter, chain, run))
    if access is None or not covered or not alike:
        raise OutOfReach(name)
    if writers and not set(loops_above(chain, name)) <= set(main.dims):
        raise OutOfReach(name)  # nothing is held in iterations in which nobody works
    stored = (node.level for node in chain if isinstance(node, Storage) and name in node.tensors)
    above = {fanout.name for level in stored for fanout in arch.fanouts_above(level)}
    spread = {node.dim for node in (*run.spread, *chain) if isinstance(node, Spatial) and node.fanout in above}
    if writers and not spread <= access.dims_alone:
        raise OutOfReach(name)  # siblings that write the same elements
    return access


def _cut_dims(counter: BranchCounter[Any], chain: Nodes, run: Run[Any]) -> set[str]:
    """Return the dims that loops cut above a branch."""
    cut = {node.dim for node in (*run.spread, *chain) if isinstance(node, Temporal | Spatial)}
    return cut | {dim for dim, extent in counter.workload.extents().items() if run.extents[dim] is not extent}


def _check_runs(own: list[Statement], loops: list[Temporal], mine: list[str], extents: dict[str, int]) -> None:
    """Refuse runs of a child that are unlike each other, or add to some of the same elements."""
    if len(own) > 1 and any(loop.dim not in each.dims for loop in loops for each in own):
        raise OutOfReach("a child of which a part runs in some iterations alone")
    forms = (form for each in own for form in each.target.index)
    if any(set(mine) & set(form.dims) and not form.tells_apart(extents) for form in forms):
        raise OutOfReach("runs that add to some of the same elements")
    read = [(each, name) for each in own for name in sorted({one.tensor for one in each.reads})]
    if any(moves_unlike(accesses_of(each, name), mine) for each, name in read):
        raise OutOfReach("accesses to one tensor that overlap otherwise from run to run")


def counter_stays(
    counter: BranchCounter[Any], chain: Nodes, user: Statement, access: Access, run: Run[Any], times: Any
) -> dict[int, Stay]:
    """Return what stays, per level in which nodes of a chain hold a tensor, where one statement below the chain touches
    it: what a nest loads that reads it."""
    name, out = access.tensor, Tensor("", (), (), 1, Role.OUTPUT)
    loops = [*run.spread, *(node for node in chain if isinstance(node, Temporal | Spatial) and node.dim in user.dims)]
    used = set(access.dims) | {loop.dim for loop in loops}
    extents = counter.numbers.extents(run.extents)
    dims = tuple(replace(each, extent=extents[each.name]) for each in counter.workload.dims if each.name in used)
    names = tuple(each.name for each in dims)
    tensor = replace(counter.workload.tensor(name), initial=False, temporary=False)
    sums = Statement("S", names, (), Access("", ()), Operator.ADD, (access,), Read(0), (0,) * (len(names) + 1))
    nest = Workload("stays", dims, (out, tensor), (sums,))
    kept = (
        Storage(node.level, (name,)) if isinstance(node, Storage) else node
        for node in chain
        if node in loops or (isinstance(node, Storage) and name in node.tensors)
    )
    outer = run.holders[name]
    around = (Storage(counter.arch.levels[outer].name, (name,)),) if counter.is_apart(outer) else ()
    ends = (Temporal(each, counter.numbers.unit) for each in names)
    mapping = Mapping((*run.spread, *around, *kept, *ends, Compute("S")))
    counts = counter.counted(nest, run, mapping, times)
    rows = {row.level: row for row in counts.rows if row.tensor == 1}
    stays, holder = dict[int, Stay](), 0
    for level in sorted(rows):
        if level > outer:
            first, parent = (
                counter.numbers.quotient(bits, tensor.bits)
                for bits in (counts.busy[level].written, counts.busy[holder].read)
            )
            entries = Crossed(rows[level].fills, rows[holder].reads, first, parent)
            between = counter.fanouts_between(holder, level)
            wires = {each.fanout: each[2:4] for each in counts.wires if each.tensor == 1 and each.fanout in between}
            stays[level] = Stay(entries, rows[level].tile, wires)
        holder = level
    return stays
