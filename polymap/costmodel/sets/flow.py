"""What stands in a place when, as tables: tiles, what stays from one step to the next, what enters and what leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from polymap.costmodel.sets.tree import Lane, Leaf, TileColumns, Tree
from polymap.ir import Access, Architecture, Multicast, Tensor, accesses_of
from polymap.poly import Columns, Table, Tally

Crossing = tuple[str, int, bool]  # tensor, fan-out, whether at the children (else at the instance above)


def before(columns: Columns) -> dict[str, str]:
    """Return other names for columns: those of another row of the same table."""
    return {name: f"{name}_before" for name in columns}


def columns_of(lanes: Sequence[Lane]) -> Columns:
    """Return the names of the lanes' columns."""
    return tuple(lane.column for lane in lanes)


@dataclass(slots=True)
class Ledger:
    """Elements per place and instance (its lanes' digits): read, written, and of these filled and drained; those that
    go down and up a fan-out."""

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
    """One place below the outermost level. leaves: the statements that touch the tensor below it.

    by_itself: its time is that of each instance (an idle instance keeps what it has: read-only tensors), else that of
    the program.
    """

    tree: Tree
    place: TileColumns
    leaves: tuple[Leaf, ...]
    by_itself: bool

    @cached_property
    def lanes(self) -> Columns:
        return columns_of(self.place.lanes)

    @cached_property
    def element(self) -> Columns:
        return tuple(name for name in self.tile.columns if name not in (*self.place.clock, *self.lanes))

    @cached_property
    def tile(self) -> Table:
        """Rows (clock, lanes, element)."""
        columns = (*self.place.clock, *self.lanes)
        return united(
            leaf.touched(access, columns)
            for leaf in self.leaves
            for access in accesses_of(leaf.statement, self.place.tensor)
        )

    @cached_property
    def views(self) -> Table:
        """Return where the loops above the place stand in some step, also while other children of a Branch run."""
        clock = self.place.clock
        return united(leaf.rows.computed({column: leaf.at(column) for column in clock}) for leaf in self.tree.leaves)

    @cached_property
    def kept(self) -> Table:
        """Rows (clock, lanes, element, clock before): what is in the tile, and was in the one before."""
        clock = self.place.clock
        if self.by_itself:
            pairs = self.tile.keep((*self.lanes, *clock)).previous(self.lanes, clock, before(clock))
        else:
            pairs = self.views.previous((), clock, before(clock))
        return self.tile.join(pairs).join(self.tile.rename(before(clock)))

    @cached_property
    def enters(self) -> Table:
        """Rows (clock, lanes, element): what is new in the tile."""
        return self.tile.minus(self.kept.keep(self.tile.columns))

    @cached_property
    def leaving(self) -> Table:
        """Rows (clock, lanes, element): what is in the tile for the last time before it leaves."""
        clock = self.place.clock
        ending = self.kept.drop(clock).rename({old: new for new, old in before(clock).items()})
        return self.tile.minus(ending)

    def stays(self, lanes: Columns) -> Tally:
        """Return how many times an element enters, per value of some lanes."""
        return difference(self.tile.tally(lanes), self.kept.tally(lanes))

    @cached_property
    def end(self) -> Table:
        """Return the tile at the end of the program (empty where its last step is elsewhere)."""
        return self.tile.join(self.views.last((), self.place.clock))


def united(tables: Iterable[Table]) -> Table:
    """Return the union of one table or more with the same columns."""
    first, *others = tables
    for other in others:
        first = first.union(other)
    return first


def difference(one: Tally, other: Tally) -> Tally:
    """Return one minus the other, zeros left out."""
    amounts = {key: one.get(key, 0) - other.get(key, 0) for key in (*one, *other)}
    return {key: amount for key, amount in amounts.items() if amount}


def messages(arch: Architecture, loads: Table, above: Columns, lanes: Sequence[Lane], element: Columns) -> Tally:
    """Return, per instance that the lanes `above` tell apart, the elements that it reads for what instances below load.

    loads: rows (clock, lanes, element). What siblings load in one step is united along `union` fan-outs; of the
    messages that result the distinct ones are read, separately along `none` fan-outs.
    """
    below = [lane for lane in lanes if lane.column not in above]
    alike = tuple(lane.column for lane in below if arch.fanouts[lane.fanout].multicast is Multicast.IDENTICAL)
    united_lanes = tuple(lane.column for lane in below if arch.fanouts[lane.fanout].multicast is Multicast.UNION)
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


def single_messages(arch: Architecture, access: Access, above: Columns, leaf: Leaf) -> Tally:
    """Return the same for one read access of a statement, by which every instance loads one element in a step."""
    below = [lane for lane in leaf.lanes if lane.column not in above]
    kinds = {arch.fanouts[lane.fanout].multicast for lane in below}
    if not kinds - {Multicast.NONE}:
        return leaf.rows_by(above)
    reads = leaf.touched(access, (*leaf.clock, *columns_of(leaf.lanes)))
    if {Multicast.UNION, Multicast.IDENTICAL} <= kinds:
        element = tuple(name for name in reads.columns if name.startswith("e"))
        return messages(arch, reads, above, leaf.lanes, element)
    apart = [lane.column for lane in below if arch.fanouts[lane.fanout].multicast is not Multicast.NONE]
    return reads.drop(apart).tally(above)


def arrivals(arch: Architecture, sent: Table, above: Columns, lanes: Sequence[Lane]) -> Table:
    """Return what reaches the instances that the lanes `above` tell apart of what those below send: siblings along
    adding fan-outs arrive as one."""
    return sent.drop(lane.column for lane in lanes if lane.column not in above and arch.fanouts[lane.fanout].reduction)


@dataclass(frozen=True, slots=True)
class Scene:
    """One tensor in the whole tree. flows: per place of it, the outermost left out, a parent before its children."""

    arch: Architecture
    tree: Tree
    tensor: Tensor
    ledger: Ledger
    root: int
    flows: dict[int, Flow]

    @staticmethod
    def of(arch: Architecture, tree: Tree, tensor: Tensor, ledger: Ledger, *, by_itself: bool) -> Scene:
        flows: dict[int, Flow] = {}
        root = -1
        for number, place in enumerate(tree.places):
            if place.tensor == tensor.name and place.parent is None:
                root = number
            elif place.tensor == tensor.name:
                leaves = tuple(
                    leaf
                    for leaf in tree.leaves
                    if number in leaf.holders[tensor.name] and accesses_of(leaf.statement, tensor.name)
                )
                if leaves:
                    flows[number] = Flow(tree, place, leaves, by_itself)
        return Scene(arch, tree, tensor, ledger, root, flows)

    def parent(self, number: int) -> int:
        parent = self.tree.places[number].parent
        assert parent is not None
        return parent

    def above(self, number: int) -> Columns:
        """Return the columns that tell the instances of a place apart."""
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
        """Add what crosses the fan-outs between a holder and a level (None: the compute unit) to a book.

        lanes: of the instances below. count: the elements, merged below the instances that these columns tell apart.
        """
        fanouts = self.arch.fanouts
        first = len(self.arch.fanouts_above(self.arch.levels[self.tree.places[holder].level].name))
        last = len(self.arch.fanouts_above(None if level is None else self.arch.levels[level].name))
        for number in range(first, last):
            for inside in (False, True) if fanouts[number].has_energies else ():
                above = tuple(lane.column for lane in lanes if lane.fanout < number + inside)
                key = (self.tensor.name, number, inside)
                book[key] = book.get(key, 0) + factor * sum(count(above).values())

    def holder(self, leaf: Leaf) -> int:
        """Return the innermost place of the tensor on a statement's way."""
        return leaf.holders[self.tensor.name][-1]

    def all_touched(self) -> Table:
        """Return every element that the program touches."""
        name = self.tensor.name
        return united(
            [leaf.touched(access, ()) for leaf in self.tree.leaves for access in accesses_of(leaf.statement, name)]
        )
