"""Per storage node, as tables over time: the tile, the elements that stay from one step to the next, enter or leave.

A table (`polymap.poly.Table`) is an integer set with named columns. A node's clock is the digits of the temporal loops
above it; its lanes are the digits of the spatial loops that tell its instances apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from polymap import ir
from polymap.costmodel.referees.set_tree import Lane, StatementRows, TileColumns, Tree
from polymap.poly import Columns, Table, Tally

Crossing = tuple[str, int, bool]  # tensor, fan-out, whether at the children (else at the instance above)


def before(columns: Columns) -> dict[str, str]:
    """Return a second name per column, for another row of the same table in a join."""
    return {name: f"{name}_before" for name in columns}


def columns_of(lanes: Sequence[Lane]) -> Columns:
    """Return the names of the lanes' columns."""
    return tuple(lane.column for lane in lanes)


@dataclass(slots=True)
class Ledger:
    """Elements moved.

    reads, writes, fills, drains: node -> its instance (the digits of its lanes) -> elements; fills are among the
    writes, drains among the reads. down, up: (tensor, fan-out, side) -> elements that cross it.
    """

    reads: dict[int, Tally] = field(default_factory=dict[int, Tally])
    writes: dict[int, Tally] = field(default_factory=dict[int, Tally])
    fills: dict[int, Tally] = field(default_factory=dict[int, Tally])
    drains: dict[int, Tally] = field(default_factory=dict[int, Tally])
    down: dict[Crossing, int] = field(default_factory=dict[Crossing, int])
    up: dict[Crossing, int] = field(default_factory=dict[Crossing, int])

    def note(self, book: dict[int, Tally], place: int, amounts: Tally, factor: int = 1) -> None:
        """Add `factor` times the amounts to one of the books."""
        entries = book.setdefault(place, {})
        for instance, amount in amounts.items():
            entries[instance] = entries.get(instance, 0) + factor * amount


@dataclass(eq=False)
class Flow:
    """The tables of one storage node below the outermost level. leaves: the statements below it that touch the tensor.

    Where these only read it, time passes for an instance only where it works, so that an idle instance keeps its tile;
    else all instances share the program's clock. No tile is kept from one execution of a Branch's child to the next.
    """

    tree: Tree
    place: TileColumns
    leaves: tuple[StatementRows, ...]
    rule: ir.PlaceRule

    @cached_property
    def lanes(self) -> Columns:
        return columns_of(self.place.lanes)

    @cached_property
    def element(self) -> Columns:
        return tuple(name for name in self.tile.columns if name not in (*self.place.clock, *self.lanes))

    @cached_property
    def tile(self) -> Table:
        """Rows (clock, lanes, element): the elements held."""
        columns = (*self.place.clock, *self.lanes)
        return unite_tables(
            leaf.touched(access, columns)
            for leaf in self.leaves
            for access in ir.accesses_of(leaf.statement, self.place.tensor)
        )

    @cached_property
    def clock_values(self) -> Table:
        """Rows (clock): the values that the clock takes in the program, also while other children of a Branch run."""
        clock = self.place.clock
        return unite_tables(
            leaf.rows.computed({column: leaf.at(column) for column in clock}) for leaf in self.tree.leaves
        )

    @property
    def turns(self) -> tuple[Columns, Columns]:
        """The columns of the clock that tell executions of the innermost Branch's child apart, and those inside."""
        clock, scope = self.place.clock, self.place.scope
        return clock[:scope], clock[scope:]

    @cached_property
    def overlap(self) -> Table:
        """Rows (clock, lanes, element, clock inside before): the elements that the tile shares with the tile before it
        in one execution of the innermost Branch's child."""
        execution, inside = self.turns
        if not inside:
            return Table.empty(self.tile.columns)
        if self.rule is ir.PlaceRule.READ_ONLY:
            steps = self.tile.keep((*self.lanes, *self.place.clock))
            pairs = steps.previous((*self.lanes, *execution), inside, before(inside))
        else:
            pairs = self.clock_values.previous(execution, inside, before(inside))
        return self.tile.join(pairs).join(self.tile.rename(before(inside)))

    @cached_property
    def entries(self) -> Table:
        """Rows (clock, lanes, element): the elements of the tile that were not in the tile before it."""
        return self.tile.minus(self.overlap.keep(self.tile.columns))

    @cached_property
    def departures(self) -> Table:
        """Rows (clock, lanes, element): the elements of the tile that are not in the tile after it."""
        _, inside = self.turns
        ending = self.overlap.drop(inside).rename({old: new for new, old in before(inside).items()})
        return self.tile.minus(ending)

    def residencies(self, lanes: Columns) -> Tally:
        """Return the number of residencies per value of the lanes: entries, an element counted each time that it
        enters."""
        return difference(self.tile.tally(lanes), self.overlap.tally(lanes))

    @cached_property
    def dead(self) -> Table:
        """Rows (clock, lanes, element): the departures of a temporary tensor after which nothing reads the element or
        accumulates onto it."""
        clock = self.place.clock
        uses = [
            leaf.touched(access, clock)
            for leaf in self.tree.leaves
            for access in _uses(leaf.statement)
            if access.tensor == self.place.tensor
        ]
        if not uses or not clock:
            return self.departures
        later = self.departures.join(unite_tables(uses).rename(before(clock))).less(
            clock, tuple(before(clock).values())
        )
        return self.departures.minus(later.keep(self.departures.columns))


def _uses(statement: ir.Statement) -> tuple[ir.Access, ...]:
    """Return the accesses of a statement that need the value: all but that of an overwritten target."""
    return statement.reads if statement.operator is ir.Operator.ASSIGN else (*statement.reads, statement.target)


def unite_tables(tables: Iterable[Table]) -> Table:
    """Return the union of the tables: one or more, of the same columns."""
    first, *others = tables
    for other in others:
        first = first.union(other)
    return first


def difference(one: Tally, other: Tally) -> Tally:
    """Return `one` minus `other`, key by key, without zeros."""
    amounts = {key: one.get(key, 0) - other.get(key, 0) for key in (*one, *other)}
    return {key: amount for key, amount in amounts.items() if amount}


def messages(arch: ir.Architecture, loads: Table, above: Columns, lanes: Sequence[Lane], element: Columns) -> Tally:
    """Return the elements that a parent reads to serve the loads below it, per instance of the parent (values of
    `above`).

    loads: rows (clock, lanes, element). Along a `union` fan-out siblings share one read per element and step. Along an
    `identical` one they share it where all their elements of the step are equal. Along a `none` one each is read for.
    """
    below = [lane for lane in lanes if lane.column not in above]
    alike = tuple(lane.column for lane in below if arch.fanouts[lane.fanout].multicast is ir.Multicast.IDENTICAL)
    united_lanes = tuple(lane.column for lane in below if arch.fanouts[lane.fanout].multicast is ir.Multicast.UNION)
    sent = loads.drop(united_lanes)
    if not alike:
        return sent.tally(above)
    group = tuple(name for name in sent.columns if name not in alike and name not in element)
    senders = sent.drop(element)
    smaller = before(alike)
    pairs = senders.join(senders.rename(smaller)).less(tuple(smaller.values()), alike)
    mine, other = sent.join(pairs), sent.rename(smaller).join(pairs)
    columns = (*group, *alike, *smaller.values(), *element)
    mine, other = mine.keep(columns), other.keep(columns)
    differing = mine.minus(other).union(other.minus(mine)).drop(element)
    repeated = pairs.minus(differing).keep(senders.columns)
    return sent.join(senders.minus(repeated)).tally(above)


def single_messages(arch: ir.Architecture, access: ir.Access, above: Columns, leaf: StatementRows) -> Tally:
    """Return `messages` of one read access at the compute units, each of which loads one element a step."""
    below = [lane for lane in leaf.lanes if lane.column not in above]
    kinds = {arch.fanouts[lane.fanout].multicast for lane in below}
    if not kinds - {ir.Multicast.NONE}:
        return leaf.rows_by(above)
    reads = leaf.touched(access, (*leaf.clock, *columns_of(leaf.lanes)))
    if {ir.Multicast.UNION, ir.Multicast.IDENTICAL} <= kinds:
        element = tuple(name for name in reads.columns if name.startswith("e"))
        return messages(arch, reads, above, leaf.lanes, element)
    apart = [lane.column for lane in below if arch.fanouts[lane.fanout].multicast is not ir.Multicast.NONE]
    return reads.drop(apart).tally(above)


def arrivals(arch: ir.Architecture, sent: Table, above: Columns, lanes: Sequence[Lane]) -> Table:
    """Return the partial sums that arrive at the instances that `above` tells apart. sent: rows (clock, lanes,
    element).

    Siblings along a fan-out that adds send one sum; along others each sends its own.
    """
    return sent.drop(lane.column for lane in lanes if lane.column not in above and arch.fanouts[lane.fanout].reduction)


@dataclass(frozen=True)
class Scene:
    """One tensor in the loop tree. root: its node at the outermost level. flows: its other nodes, a parent before its
    children. rule: of all statements together."""

    arch: ir.Architecture
    tree: Tree
    tensor: ir.Tensor
    ledger: Ledger
    root: int
    flows: dict[int, Flow]
    rule: ir.PlaceRule

    @staticmethod
    def of(workload: ir.Workload, arch: ir.Architecture, tree: Tree, tensor: ir.Tensor, ledger: Ledger) -> Scene:
        flows: dict[int, Flow] = {}
        root = -1
        for number, place in enumerate(tree.places):
            if place.tensor == tensor.name and place.parent is None:
                root = number
            elif place.tensor == tensor.name:
                leaves = tuple(
                    leaf
                    for leaf in tree.leaves
                    if number in leaf.holders[tensor.name] and ir.accesses_of(leaf.statement, tensor.name)
                )
                if leaves:
                    rule = ir.rule_of(workload, tensor.name, [leaf.statement for leaf in leaves])
                    flows[number] = Flow(tree, place, leaves, rule)
        return Scene(arch, tree, tensor, ledger, root, flows, ir.rule_of(workload, tensor.name))

    def parent(self, number: int) -> int:
        parent = self.tree.places[number].parent
        assert parent is not None
        return parent

    def above(self, number: int) -> Columns:
        """Return the lanes of a node: the columns that tell its instances apart."""
        return columns_of(self.tree.places[number].lanes)

    def cross(
        self,
        book: dict[Crossing, int],
        holder: int,
        level: int | None,
        lanes: Sequence[Lane],
        count: Callable[[Columns], Tally],
        factor: int = 1,
    ) -> None:
        """Add to a book the elements that cross each fan-out between a holder and a level (None: the compute unit).

        Both sides of a fan-out are counted: above it and at its children. lanes: of the instances below.
        count(columns): the elements, merged among instances that the columns do not tell apart.
        """
        fanouts = self.arch.fanouts
        first = len(self.arch.fanouts_above(self.arch.levels[self.tree.places[holder].level].name))
        last = len(self.arch.fanouts_above(None if level is None else self.arch.levels[level].name))
        for number in range(first, last):
            for inside in (False, True) if fanouts[number].has_energies else ():
                above = tuple(lane.column for lane in lanes if lane.fanout < number + inside)
                key = (self.tensor.name, number, inside)
                book[key] = book.get(key, 0) + factor * sum(count(above).values())

    def holder(self, leaf: StatementRows) -> int:
        """Return the innermost node of the tensor above a statement."""
        return leaf.holders[self.tensor.name][-1]

    def footprint(self) -> Table:
        """Return every element of the tensor that the program touches."""
        name = self.tensor.name
        return unite_tables(
            [leaf.touched(access, ()) for leaf in self.tree.leaves for access in ir.accesses_of(leaf.statement, name)]
        )

    @property
    def times(self) -> Columns:
        """Columns of their own for the clock down to the statements, in which all statements can be compared."""
        return tuple(f"t{place}" for place in range(max(len(leaf.clock) for leaf in self.tree.leaves)))

    @cached_property
    def starts(self) -> Table:
        """Rows (times, element): the elements without initial values that the first step which touches them accumulates
        onto and does not read, with that step."""
        element = tuple(f"e{axis}" for axis in range(len(self.tensor.shape)))
        columns = (*self.times, *element)
        added = others = Table.empty(columns)
        for leaf in self.tree.leaves if not self.tensor.initial else ():
            target, operator = leaf.statement.target, leaf.statement.operator
            if target.tensor == self.tensor.name and operator is not ir.Operator.ASSIGN:
                added = added.union(self._timed(leaf, target).keep(columns))
            reads = [access for access in leaf.statement.reads if access.tensor == self.tensor.name]
            if operator is ir.Operator.ASSIGN and target.tensor == self.tensor.name:
                reads.append(target)
            for access in reads:
                others = others.union(self._timed(leaf, access).keep(columns))
        if others.is_empty():
            return added.first(element, self.times)
        return added.union(others).first(element, self.times).minus(others)

    def starts_at(self, number: int) -> Table:
        """Return those of the starts that arrive at a node's copy: by statements of which no node further in is plain,
        as in such a one the element would start as zero, too."""
        columns = self.starts.columns
        added = Table.empty(columns)
        for leaf in self.tree.leaves:
            target = leaf.statement.target
            chain = leaf.holders[target.tensor] if target.tensor == self.tensor.name else ()
            inner = [self.flows[each].rule for each in chain[chain.index(number) + 1 :]] if number in chain else None
            if (
                inner is not None
                and ir.PlaceRule.PLAIN not in inner
                and leaf.statement.operator is not ir.Operator.ASSIGN
            ):
                added = added.union(self._timed(leaf, target).keep(columns))
        return self.starts.join(added)

    def _timed(self, leaf: StatementRows, access: ir.Access) -> Table:
        """Return the rows (times, element) of an access; times beyond a short clock are 0."""
        times = {name: leaf.at(column) for name, column in zip(self.times, leaf.clock, strict=False)}
        times |= {name: ir.Affine() for name in self.times[len(leaf.clock) :]}
        return leaf.rows.computed(times | {f"e{axis}": value for axis, value in enumerate(leaf.element(access))})
