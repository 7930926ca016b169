"""Trees with branches in closed form: a child of a branch is counted as often as it runs, with the tiles that it gets,
as a tree of its own that begins with empty nodes (docs/closed_form.md, "Branches").

What differs between runs is how long the tiles are, and whether the sums that a child adds to have a value yet. Nodes
above a branch hold what its children touch together: the same elements in every iteration, or the formulas do not
apply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product, takewhile
from math import prod
from typing import NamedTuple

from polymap.costmodel.counts import Counts, LevelUse, Traffic, WireUse
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
    is_box,
    nest_of,
    sets_each_once,
    statements_below,
)

Nodes = tuple[MappingNode, ...]
CountNest = Callable[[Workload, Architecture, Mapping], Counts | None]


class OutOfReach(Exception):
    """The formulas do not apply."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a subtree. extents: of the tiles that it gets. fresh: tensors whose elements in it have no value
    yet. dying: tensors that nothing uses after it. holders: tensor -> the level that it is loaded from. spread: the
    spatial loops above, which cut these tiles."""

    extents: dict[str, int]
    fresh: frozenset[str]
    dying: frozenset[str]
    holders: dict[str, int]
    spread: tuple[Spatial, ...] = ()

    def siblings(self, arch: Architecture, level: int, spread: tuple[Spatial, ...] = ()) -> int:
        """Return over how many instances of a level spatial loops above spread a run. spread: further ones."""
        above = {fanout.name for fanout in arch.fanouts_above(arch.levels[level].name)}
        tiles, found = dict(self.extents), 1
        for each in (*self.spread, *spread):
            trips = -(-tiles[each.dim] // each.tile)
            tiles[each.dim] = min(tiles[each.dim], each.tile)
            found *= trips if each.fanout in above else 1
        return found


@dataclass(slots=True)
class Total:
    """What is counted so far. rows: (level, tensor) -> reads, writes, fills, drains. busiest: level -> bits that its
    first instance reads, writes, and moves."""

    rows: dict[tuple[int, str], Counter[str]] = field(default_factory=dict[tuple[int, str], Counter[str]])
    busiest: dict[int, Counter[str]] = field(default_factory=dict[int, Counter[str]])
    wires: dict[tuple[str, str], Counter[str]] = field(default_factory=dict[tuple[str, str], Counter[str]])
    steps: int = 0

    def add(self, level: int, tensor: str, times: int, **amounts: int) -> None:
        row = self.rows.setdefault((level, tensor), Counter())
        for what, amount in amounts.items():
            row[what] += times * amount

    def add_busiest(self, level: int, times: int, read: int, written: int, moved: int) -> None:
        busy = self.busiest.setdefault(level, Counter())
        for what, bits in (("reads", read), ("writes", written), ("moved", moved)):
            busy[what] += times * bits


def count_branches(
    workload: Workload, arch: Architecture, mapping: Mapping, count_nest: CountNest, *, metered: bool
) -> Counts | None:
    """Return the counts of a tree with branches that `check_mapping` accepts, or None where the formulas do not apply.

    count_nest: counts a nest of one statement, in closed form. It is applied to every child that is one.
    """
    counter = BranchCounter(workload, arch, count_nest, metered=metered)
    try:
        return counter.counts(mapping)
    except OutOfReach:
        return None


@dataclass(slots=True)
class BranchCounter:
    """The walk over a tree: one visit per child and kind of run. set_before: tensor -> the statement that sets what
    another one accumulates into. order: of the statements in the tree."""

    workload: Workload
    arch: Architecture
    count_nest: CountNest
    metered: bool
    total: Total = field(default_factory=Total)
    set_before: dict[str, str] = field(default_factory=dict[str, str])
    order: tuple[str, ...] = ()

    def counts(self, mapping: Mapping) -> Counts:
        self.order = statements_below(mapping.nodes)
        _check_program(self.workload, self.order, _apart_at_the_root(mapping))
        written = {each.target.tensor for each in self.workload.statements}
        overwritten = {each.target.tensor for each in self.workload.statements if each.operator is Operator.ASSIGN}
        fresh = frozenset(each.name for each in self.workload.tensors if not each.initial or each.name in overwritten)
        self.set_before = _set_before(self.workload)
        dying = frozenset(each.name for each in self.workload.tensors if each.temporary and each.name in written)
        run = Run(self.workload.extents(), fresh, dying, {each.name: 0 for each in self.workload.tensors})
        held = self.visit(mapping.nodes, run, 1)
        instances = sum(prod(run.extents[name] for name in each.dims) for each in self.workload.statements)
        traffic = tuple(self._traffic(mapping))
        uses = tuple(self._use(number, held, traffic) for number in range(len(self.arch.levels)))
        wires = tuple(
            WireUse(
                fanout.name, each.name, *(self.total.wires.get((fanout.name, each.name), Counter())[k] for k in _WIRE)
            )
            for fanout in self.arch.fanouts
            for each in self.workload.tensors
            if fanout.has_energies
        )
        return Counts(instances, self.total.steps, traffic, uses, wires)

    def _traffic(self, mapping: Mapping) -> Iterator[Traffic]:
        held = {(0, each.name) for each in self.workload.tensors} | set(_stored(self.arch, mapping.nodes))
        for number, level in enumerate(self.arch.levels):
            for each in self.workload.tensors:
                if (number, each.name) in held:
                    row = self.total.rows.get((number, each.name), Counter())
                    yield Traffic(level.name, each.name, *(row[what] for what in _MOVES))

    def _use(self, number: int, held: Counter[int], traffic: tuple[Traffic, ...]) -> LevelUse:
        name = self.arch.levels[number].name
        if self.arch.fanouts_above(name):
            busy = self.total.busiest.get(number, Counter())
            return LevelUse(name, held[number], *(busy[what] for what in ("reads", "writes", "moved")))
        bits = {each.name: each.bits for each in self.workload.tensors}
        here = [row for row in traffic if row.level == name]
        reads, writes = (sum(getattr(row, what) * bits[row.tensor] for row in here) for what in ("reads", "writes"))
        return LevelUse(name, held[number], reads, writes, reads + writes)

    def visit(self, nodes: Nodes, run: Run, times: int) -> Counter[int]:
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
        most = Counter[int]()
        for child in last.children:
            own = [self.workload.statement(name) for name in statements_below(child)]
            for number, each in self._runs_of_child(chain, own, inside):
                most |= self.visit(child, each, times * number)
        return held + most

    def _spread(self, chain: Nodes, leaves: tuple[Statement, ...], run: Run) -> tuple[Spatial, ...]:
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

    def _visit_nest(self, nodes: Nodes, run: Run, times: int) -> Counter[int]:
        """Count runs of a child that is one statement in its loops."""
        (name,) = statements_below(nodes)
        statement = self.workload.statement(name)
        target = statement.target.tensor
        is_set = self.set_before.get(target, name) != name
        is_initial = is_set or target not in run.fresh
        nest = nest_of(self.workload, statement, run.extents, is_initial=is_initial)
        given = {each.name: run.holders[each.name] for each in nest.tensors if self.is_apart(run.holders[each.name])}
        around = tuple(Storage(self.arch.levels[level].name, (name,)) for name, level in given.items())
        own = tuple(_own_nodes(nodes, statement))
        mapping = Mapping((*run.spread, *around, *own))
        counts = self.counted(nest, mapping)
        if given:
            alone = self.counted(nest, Mapping((*run.spread, *own)))  # tiles of the child's own nodes
            uses = zip(counts.uses, alone.uses, strict=True)
            counts = replace(counts, uses=tuple(replace(use, occupancy_bits=each.occupancy_bits) for use, each in uses))
            counts = self._below(counts, nest, given, run)
        self._add_nest(counts, run, times)
        return Counter({number: use.occupancy_bits for number, use in enumerate(counts.uses)})

    def is_apart(self, level: int) -> bool:
        """Return whether siblings may each have a node of a level."""
        return bool(self.arch.fanouts_above(self.arch.levels[level].name))

    def counted(self, nest: Workload, mapping: Mapping, *, even: bool = True) -> Counts:
        """Return the counts of a nest. even: instances of a level must move the same, where these count."""
        counts = self.count_nest(nest, self.arch, mapping)
        if counts is None:
            raise OutOfReach(nest.statements[0].name)
        if even:
            self._check_first_instance(nest, mapping)
        return counts

    def _below(self, counts: Counts, nest: Workload, given: dict[str, int], run: Run) -> Counts:
        """Return the counts of a child without what passes above the nodes, one per sibling, from which it gets the
        given tensors."""
        names = {self.arch.levels[level].name: level for level in given.values()}
        rows, uses = list[Traffic](), list(counts.uses)
        for row in counts.traffic:
            level = given.get(row.tensor)
            if level is None or (row.level != self.arch.levels[0].name and names.get(row.level) != level):
                rows.append(row)
            elif row.level == self.arch.levels[level].name:
                rows.append(
                    replace(row, reads=row.reads - row.drains, writes=row.writes - row.fills, fills=0, drains=0)
                )
                share = nest.tensor(row.tensor).bits
                read, written = (each * share // run.siblings(self.arch, level) for each in (row.drains, row.fills))
                use = uses[level]
                uses[level] = replace(
                    use,
                    busiest_read_bits=use.busiest_read_bits - read,
                    busiest_write_bits=use.busiest_write_bits - written,
                    busiest_total_bits=use.busiest_total_bits - read - written,
                )
        above = {
            (fanout.name, name)
            for name, level in given.items()
            for fanout in self.arch.fanouts_above(self.arch.levels[level].name)
        }
        wires = tuple(wire for wire in counts.wires if (wire.fanout, wire.tensor) not in above)
        return replace(counts, traffic=tuple(rows), uses=tuple(uses), wires=wires)

    def _add_nest(self, counts: Counts, run: Run, times: int) -> None:
        """Add so many runs of a child to what is counted."""
        numbers = {level.name: number for number, level in enumerate(self.arch.levels)}
        for row in counts.traffic:
            level = numbers[row.level] or run.holders[row.tensor]
            self.total.add(level, row.tensor, times, **{what: getattr(row, what) for what in _MOVES})
        for wire in counts.wires:
            crossed = self.total.wires.setdefault((wire.fanout, wire.tensor), Counter())
            for what in _WIRE:
                crossed[what] += times * getattr(wire, what)
        self.total.steps += times * counts.steps
        for number, use in enumerate(counts.uses):
            self.total.add_busiest(number, times, use.busiest_read_bits, use.busiest_write_bits, use.busiest_total_bits)

    def _check_first_instance(self, nest: Workload, mapping: Mapping) -> None:
        """Refuse a nest of which another instance of a level than the first may move more bits, where these count: the
        figures of several nests are added."""
        is_priced = any(level.has_bandwidth and self.arch.fanouts_above(level.name) for level in self.arch.levels)
        if self.metered and not is_priced:
            return
        tiles = nest.extents()
        for node in mapping.nodes:
            if isinstance(node, Temporal | Spatial):
                if tiles[node.dim] % min(node.tile, tiles[node.dim]):
                    raise OutOfReach("ragged")
                tiles[node.dim] = min(node.tile, tiles[node.dim])

    def _runs_of_child(self, chain: Nodes, own: list[Statement], run: Run) -> Iterator[tuple[int, Run]]:
        """Yield the kinds of runs of a child below some loops, and how many there are of each."""
        loops = [node for node in chain if isinstance(node, Temporal)]
        names = {each.name for each in own}
        dims = {name for statement in own for name in statement.dims}
        mine = list(dict.fromkeys(loop.dim for loop in loops if loop.dim in dims))
        if len(own) > 1 and any(loop.dim not in each.dims for loop in loops for each in own):
            raise OutOfReach("a child of which a part runs in some iterations alone")
        if any(set(mine) & set(each.target.dims) - each.target.dims_alone for each in own):
            raise OutOfReach("runs that add to some of the same elements")
        dying = frozenset(name for name in run.dying if self._dies_in(name, own, loops))
        kinds = [tiles_of(run.extents[name], [loop.tile for loop in loops if loop.dim == name]) for name in mine]
        found = Counter[tuple[tuple[int, ...], frozenset[str]]]()
        for chosen in product(*kinds):
            again = {name for name, (_, _, is_first) in zip(mine, chosen, strict=True) if not is_first}
            stale = {each.target.tensor for each in own if again - set(each.target.dims)}
            stale |= {name for name, setter in self.set_before.items() if setter not in names}
            found[tuple(length for length, _, _ in chosen), run.fresh - stale] += prod(many for _, many, _ in chosen)
        for (lengths, fresh), number in found.items():
            extents = run.extents | dict(zip(mine, lengths, strict=True))
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
        self, chain: Nodes, leaves: tuple[Statement, ...], run: Run, times: int
    ) -> tuple[Counter[int], dict[str, int]]:
        """Count what the nodes above a branch load and drain. Return the bits that they hold, and the holders below."""
        held, holders = Counter[int](), dict(run.holders)
        spread = tuple(node for node in chain if isinstance(node, Spatial))
        inside = replace(run, extents=_inside(run.extents, chain))
        stored = dict.fromkeys(tensor for node in chain if isinstance(node, Storage) for tensor in node.tensors)
        for name in stored:
            users = [each for each in leaves if accesses_of(each, name)]
            levels = self._levels(chain, name)
            if not users or not levels:
                continue
            shared = SharedTensor.of(self, chain, name, users, run)
            bits = self.workload.tensor(name).bits
            for number in levels:
                moved = shared.moved(number)
                held[number] += moved.tile * bits
                fills, drains, loads = moved.fills, moved.drains, moved.loads
                self.total.add(number, name, times, reads=drains, writes=fills, fills=fills, drains=drains)
                self.total.add(holders[name], name, times, reads=loads, writes=drains)
                for level, read, written in ((number, drains, fills), (holders[name], loads, drains)):
                    if self.is_apart(level):  # every instance moves the same
                        each = inside.siblings(self.arch, level, spread)
                        own_read, own_written = read * bits // each, written * bits // each
                        self.total.add_busiest(level, times, own_read, own_written, own_read + own_written)
                holders[name] = number
        return held, holders

    def _levels(self, chain: Nodes, tensor: str) -> list[int]:
        """Return the levels below the outermost in which nodes of a chain hold a tensor."""
        names = [node.level for node in chain if isinstance(node, Storage) and tensor in node.tensors]
        if any(fanout.has_energies for name in names for fanout in self.arch.fanouts_above(name)):
            raise OutOfReach("a node above a branch with siblings that wires lead to")
        return [number for name in names if (number := self.arch.level_index(name))]


@dataclass(frozen=True, slots=True)
class Moved:
    """What nodes above a branch load and drain in a level, and what one holds, in elements. loads: that are read for
    it; several nodes may share one."""

    fills: int
    drains: int
    tile: int
    loads: int


class Stay(NamedTuple):
    """How often elements enter the tiles of a level, how large the largest is, and how many elements are read for it
    where the tensor is only read."""

    entries: int
    tile: int
    loads: int


@dataclass(frozen=True, slots=True)
class SharedTensor:
    """A tensor with nodes above a branch. stays: by level. of_writer: the same where only the statement that writes it
    is below. touched: elements."""

    stays: dict[int, Stay]
    of_writer: dict[int, Stay]
    touched: int
    is_written: bool
    is_fresh: bool
    dies: bool

    @staticmethod
    def of(counter: BranchCounter, chain: Nodes, name: str, users: list[Statement], run: Run) -> SharedTensor:
        loops = [node.dim for node in chain if isinstance(node, Temporal)]
        main = max(users, key=lambda each: len(set(loops) & set(each.dims)))
        writers = [each for each in users if each.target.tensor == name]
        indices = {access.index for each in users for access in accesses_of(each, name)}
        covered = all(set(loops) & set(each.dims) <= set(main.dims) for each in users)
        alike = len({frozenset(loops) & frozenset(each.dims) for each in writers}) < 2
        if len(indices) > 1 or not covered or not alike:
            raise OutOfReach(name)
        if writers and not set(_loops_above(chain, name)) <= set(main.dims):
            raise OutOfReach(name)  # nothing is held in iterations in which nobody works
        (index,) = indices
        access = Access(name, index)
        writer = writers[0] if writers else main
        stored = (node.level for node in chain if isinstance(node, Storage) and name in node.tensors)
        above = {fanout.name for level in stored for fanout in counter.arch.fanouts_above(level)}
        spread = {node.dim for node in (*run.spread, *chain) if isinstance(node, Spatial) and node.fanout in above}
        if writers and not spread <= access.dims_alone:
            raise OutOfReach(name)  # siblings that write the same elements
        top = counter_stays(counter, _at_the_top(chain, name), main, access, run)
        return SharedTensor(
            counter_stays(counter, chain, main, access, run),
            counter_stays(counter, chain, writer, access, run),
            top[_first_level(counter, chain, name)].entries,
            bool(writers),
            name in run.fresh,
            name in run.dying,
        )

    def moved(self, level: int) -> Moved:
        """Return what the node in a level moves.

        An element that is written is loaded whenever it enters but for the first time, if it has no value before; it is
        drained from each tile in which it is written, but for the last time if nothing uses it after.
        """
        entries, tile, loads = self.stays[level]
        if not self.is_written:
            return Moved(entries, 0, tile, loads)
        drains = self.of_writer[level].entries
        if self.dies and drains == entries:
            drains -= self.touched
        fills = entries - (self.touched if self.is_fresh else 0)
        return Moved(fills, drains, tile, fills)


_MOVES = ("reads", "writes", "fills", "drains")
_WIRE = ("messages", "deliveries", "collections", "sums")


def _check_program(workload: Workload, order: tuple[str, ...], apart: tuple[frozenset[str], ...]) -> None:
    """Refuse programs beyond one statement that writes each tensor, over a box, before others read it, and all of it
    where it is temporary. order: of the statements in the tree. apart: those that run one after the other, once."""
    written = [each.target.tensor for each in workload.statements]
    for each in workload.statements:
        injective = each.operator is not Operator.ASSIGN or sets_each_once(each)
        reads_itself = any(access.tensor == each.target.tensor for access in each.reads)
        more = written.count(each.target.tensor) - (each.target.tensor in _set_before(workload))
        if not is_box(each) or not injective or reads_itself or more > 1:
            raise OutOfReach(each.name)
    for tensor in workload.tensors:
        users = [each for each in workload.statements if accesses_of(each, tensor.name)]
        indices = {access.index for each in users for access in accesses_of(each, tensor.name)}
        readers = [each for each in users if each.target.tensor != tensor.name]
        is_passed = bool(apart) and all(sum(each.name in part for each in users) < 2 for part in apart)
        is_read = len(indices) == 1 or (is_passed and any(_reads_all(workload, each, tensor) for each in readers))
        unread = tensor.temporary and not (readers and is_read)
        overwritten = (
            tensor.initial and len(users) > 1 and tensor.name not in _set_before(workload)
        )  # a value from before the program may be read first
        first = min(users, key=lambda each: order.index(each.name)).target.tensor == tensor.name
        in_order = not workload.associative and len(users) > 1  # no places of partial sums
        if tensor.name in written and (unread or overwritten or not first or in_order):
            raise OutOfReach(tensor.name)


def _apart_at_the_root(mapping: Mapping) -> tuple[frozenset[str], ...]:
    """Return the statements of each child of a branch that no loop is around; () where there is none."""
    around = list(takewhile(lambda node: not isinstance(node, Branch), mapping.nodes))
    branch = mapping.nodes[len(around)] if len(around) < len(mapping.nodes) else None
    if not isinstance(branch, Branch) or any(isinstance(node, Temporal | Spatial) for node in around):
        return ()
    return tuple(frozenset(statements_below(child)) for child in branch.children)


def _reads_all(workload: Workload, statement: Statement, tensor: Tensor) -> bool:
    """Return whether a statement over a box is known to read all of a tensor: every axis through dims of its own, of
    which each steps no further than those before it reach."""
    extents = workload.extents()
    for access in accesses_of(statement, tensor.name):
        reaches = list[int]()
        for form in access.index:
            steps = sorted(form.coefficients().items(), key=lambda step: step[1]) if form.is_linear else []
            reach = 1 if form.is_linear and not form.constant else 0
            for name, step in steps:
                reach = reach + step * (extents[name] - 1) if 0 < step <= reach else 0
            reaches.append(reach)
        if (
            tuple(reaches) == tensor.shape
            and not any(tensor.origin)
            and len(access.dims) == sum(len(form.dims) for form in access.index)
        ):
            return True
    return False


def _set_before(workload: Workload) -> dict[str, str]:
    """Return the tensors that one statement sets and another accumulates into, both all of it, with the first one."""
    found: dict[str, str] = {}
    for each in workload.tensors:
        writers = [one for one in workload.statements if one.target.tensor == each.name]
        if [one.operator is Operator.ASSIGN for one in writers] == [True, False]:
            sets, adds = writers
            found |= {each.name: sets.name} if sets.target == adds.target and not sets.reads else {}
    return found


def _inside(extents: dict[str, int], chain: Nodes) -> dict[str, int]:
    """Return how long the dims are below the temporal loops of a chain, in the first iteration."""
    found = dict(extents)
    for node in chain:
        if isinstance(node, Temporal):
            found[node.dim] = min(found[node.dim], node.tile)
    return found


def _stored(arch: Architecture, nodes: Nodes) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, Storage):
            yield from ((arch.level_index(node.level), tensor) for tensor in node.tensors)
        elif isinstance(node, Branch):
            for child in node.children:
                yield from _stored(arch, child)


def _own_nodes(nodes: Nodes, statement: Statement) -> Iterator[MappingNode]:
    """Yield the nodes of a child that concern its statement."""
    for node in nodes:
        if isinstance(node, Storage):
            yield from node.of(lambda name: accesses_of(statement, name))
        elif isinstance(node, Temporal | Spatial):
            if node.dim in statement.dims:
                yield node
        else:
            yield node


def tiles_of(extent: int, tiles: Iterable[int]) -> list[tuple[int, int, bool]]:
    """Return how long the tiles are that nested loops cut a range into, how many there are, and whether it is the
    first."""
    lengths, first = Counter({extent: 1}), extent
    for tile in tiles:
        cut = Counter[int]()
        for length, number in lengths.items():
            whole, rest = divmod(length, tile)
            cut[tile] += number * whole
            cut[rest] += number if rest else 0
        lengths, first = cut, min(first, tile)
    lengths[first] -= 1
    return [(first, 1, True), *((length, number, False) for length, number in lengths.items() if number)]


def _loops_above(chain: Nodes, tensor: str) -> list[str]:
    """Return the dims of the loops above the last node for a tensor."""
    last = max(number for number, node in enumerate(chain) if isinstance(node, Storage) and tensor in node.tensors)
    return [node.dim for node in chain[:last] if isinstance(node, Temporal)]


def _first_level(counter: BranchCounter, chain: Nodes, tensor: str) -> int:
    names = (node.level for node in chain if isinstance(node, Storage) and tensor in node.tensors)
    return next(number for name in names if (number := counter.arch.level_index(name)))


def _at_the_top(chain: Nodes, tensor: str) -> Nodes:
    """Return the nodes of a chain that hold a tensor, above its loops."""
    nodes = tuple(node for node in chain if isinstance(node, Storage) and tensor in node.tensors)
    return (*nodes, *(node for node in chain if isinstance(node, Temporal | Spatial)))


def counter_stays(counter: BranchCounter, chain: Nodes, user: Statement, access: Access, run: Run) -> dict[int, Stay]:
    """Return what stays, per level in which nodes of a chain hold a tensor, where one statement below the chain touches
    it: what a nest loads that reads it."""
    name, out = access.tensor, Tensor("", (), (), 1, Role.OUTPUT)
    loops = [*run.spread, *(node for node in chain if isinstance(node, Temporal | Spatial) and node.dim in user.dims)]
    used = set(access.dims) | {loop.dim for loop in loops}
    dims = tuple(replace(each, extent=run.extents[each.name]) for each in counter.workload.dims if each.name in used)
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
    mapping = Mapping((*run.spread, *around, *kept, *(Temporal(each, 1) for each in names), Compute("S")))
    counts = counter.counted(nest, mapping, even=any(isinstance(loop, Spatial) for loop in loops))
    levels = [level.name for level in counter.arch.levels]
    rows = {row.level: row for row in counts.traffic if row.tensor == name}
    tiles = {use.level: use.occupancy_bits // tensor.bits for use in counts.uses}
    stays, holder = dict[int, Stay](), rows[levels[0]]
    for number, level in enumerate(levels):
        if number > outer and level in rows:
            stays[number] = Stay(rows[level].fills, tiles[level], holder.reads)
        holder = rows.get(level, holder)
    return stays
