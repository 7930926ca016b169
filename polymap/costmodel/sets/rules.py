"""The three rules by which elements move (docs/counting.md), each written with tables."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from polymap.costmodel.sets.flow import (
    Flow,
    Scene,
    arrivals,
    before,
    columns_of,
    messages,
    single_messages,
)
from polymap.costmodel.sets.tree import Lane, Leaf
from polymap.ir import Access, Affine, Operator
from polymap.poly import Columns, Table, Tally


def count_read_only(scene: Scene) -> None:
    """What is new in a tile is filled; an idle instance keeps what it has."""
    for number, flow in scene.flows.items():
        _load(scene, number, flow, flow.enters)
    count_reads(scene)


def _load(scene: Scene, number: int, flow: Flow, loads: Table) -> None:
    ledger, parent = scene.ledger, scene.parent(number)
    fills = loads.tally(flow.lanes)
    ledger.note(ledger.fills, number, fills)
    ledger.note(ledger.writes, number, fills)
    lanes = flow.place.lanes
    count = partial(messages, scene.arch, loads, lanes=lanes, element=flow.element)
    ledger.note(ledger.reads, parent, count(scene.above(parent)))
    scene.cross(ledger.down, parent, flow.place.level, lanes, count)


def count_reads(scene: Scene) -> None:
    """Count what the statements read of the tensor at its innermost holders."""
    for leaf in scene.tree.leaves:
        for access in leaf.statement.reads:
            if access.tensor == scene.tensor.name:
                number = scene.holder(leaf)
                count = partial(single_messages, scene.arch, access, leaf=leaf)
                scene.ledger.note(scene.ledger.reads, number, count(scene.above(number)))
                scene.cross(scene.ledger.down, number, None, leaf.lanes, count)


def _count_sums(scene: Scene, leaf: Leaf) -> None:
    """Count what reaches the innermost holder of a statement's accumulations: it is read and written there."""
    sent = leaf.touched(leaf.statement.target, (*leaf.clock, *columns_of(leaf.lanes)))
    number = scene.holder(leaf)
    added = _tally_up(scene, sent, number, None, leaf.lanes)
    for book in (scene.ledger.reads, scene.ledger.writes):
        scene.ledger.note(book, number, added)


def _tally_up(
    scene: Scene, sent: Table, holder: int, level: int | None, lanes: Sequence[Lane], factor: int = 1
) -> Tally:
    """Return how many of the elements sent from a level reach each instance of the holder, and note what crosses the
    fan-outs between, `factor` times."""

    def count(above: Columns) -> Tally:
        return arrivals(scene.arch, sent, above, lanes).tally(above)

    scene.cross(scene.ledger.up, holder, level, lanes, count, factor)
    return count(scene.above(holder))


def _leaves_that_write(scene: Scene) -> tuple[Leaf, ...]:
    return tuple(leaf for leaf in scene.tree.leaves if leaf.statement.target.tensor == scene.tensor.name)


def count_partial_sums(scene: Scene) -> None:
    """Every copy is zero or a partial sum: it moves to who enters, and is added back when it leaves.

    With n arrivals at a copy in one stay, z = 1 if the stay began with a partial sum: n - 1 + z reads serve arrivals
    and fills of children, its drain is one more (docs/closed_form.md).
    """
    ledger = scene.ledger
    touched = scene.all_touched()
    starts: dict[int, Table] = {scene.root: touched}  # what enters a place and begins as zero
    if scene.tensor.initial:
        starts[scene.root] = Table.empty(touched.columns)
    ledger.note(ledger.reads, scene.root, starts[scene.root].tally(), -1)
    for number, flow in scene.flows.items():
        parent = scene.parent(number)
        fills = _rows_with_partial_sums(scene, number, flow, starts[parent])
        starts[number] = flow.enters.minus(fills)
        amounts = fills.tally(flow.lanes)
        for book in (ledger.fills, ledger.reads, ledger.writes):
            ledger.note(book, number, amounts)
        scene.cross(ledger.down, parent, flow.place.level, (), lambda _, amounts=amounts: amounts)
        ledger.note(ledger.drains, number, flow.stays(flow.lanes))
        added = _tally_up(scene, flow.leaving, parent, flow.place.level, flow.place.lanes)
        ledger.note(ledger.reads, parent, added)
        ledger.note(ledger.writes, parent, added)
        if scene.tensor.temporary:
            _let_die(scene, number, flow)
    for leaf in _leaves_that_write(scene):
        _count_sums(scene, leaf)


def _rows_with_partial_sums(scene: Scene, number: int, flow: Flow, zero: Table) -> Table:
    """Return the rows of `enters` that take a partial sum from the parent. zero: stays there that begin as zero."""
    holder = scene.tree.places[scene.parent(number)]
    above = columns_of(holder.lanes)
    siblings = tuple(lane for lane in flow.lanes if lane not in above)
    takes = flow.enters
    if siblings:
        group = tuple(name for name in takes.columns if name not in siblings)
        takes = takes.first(group, siblings)
        through = _held_through(flow, siblings)
        if through is not None:
            takes = takes.minus(takes.join(through))
    firsts = _first_entries(scene, number, flow, flow.tile.join(zero))
    return takes.minus(firsts)


def _first_entries(scene: Scene, number: int, flow: Flow, candidates: Table) -> Table:
    """Return the rows that are the first event of their element's stay at the parent, at whose view they begin.

    candidates: tiles while the parent stands at the view at which its stay began; the first of them enter, since
    nothing below held the element before. An event of another child comes first where that child runs earlier.
    """
    holder = scene.tree.places[scene.parent(number)]
    depth = len(holder.clock)
    group = (*holder.clock, *columns_of(holder.lanes), *flow.element)
    rest = (*flow.place.clock[depth:], *(lane for lane in flow.lanes if lane not in group))
    firsts = candidates.first(group, rest)
    for leaf in scene.tree.leaves:
        chain = leaf.holders[scene.tensor.name]
        if scene.parent(number) in chain and number not in chain and leaf.statement.target.tensor == scene.tensor.name:
            columns = (*holder.clock, *columns_of(holder.lanes), *flow.place.clock[depth:])
            other = leaf.touched(leaf.statement.target, columns).rename(before(flow.place.clock[depth:]))
            times = before(flow.place.clock[depth:])
            late = firsts.join(other).less(tuple(times.values()), tuple(times))
            firsts = firsts.minus(late.keep(firsts.columns))
    return firsts


def _held_through(flow: Flow, siblings: Columns) -> Table | None:
    """Return the entries, siblings merged, before which nothing has arrived since the entry before: a sibling holds
    the element all the time. None where no sibling does."""
    entries = flow.enters.drop(siblings)
    staying = flow.kept.keep(entries.columns).join(entries)
    if staying.is_empty():
        return None
    clock = flow.place.clock
    group = tuple(name for name in entries.columns if name not in clock)
    last_entry = _latest_before(staying, entries, clock, "_entry")
    last_arrival = _latest_before(staying, flow.leaving.drop(siblings), clock, "_arrival")
    since = last_entry.join(last_arrival).less_or_equal(
        tuple(f"{name}_entry" for name in clock), tuple(f"{name}_arrival" for name in clock)
    )
    return last_entry.keep((*group, *clock)).minus(since.keep((*group, *clock)))


def _latest_before(rows: Table, events: Table, clock: Columns, suffix: str) -> Table:
    """Return the rows that have an event of their group before them, with the clock of the last such."""
    names = {name: name + suffix for name in clock}
    pairs = rows.join(events.rename(names)).less(tuple(names.values()), clock)
    return pairs.last(rows.columns, tuple(names.values()))


def _let_die(scene: Scene, number: int, flow: Flow) -> None:
    """Take back what the end of the run would drain: the tensor is dead then.

    Of arrivals at one copy at the end, one is not read if the copy is zero: it was taken, and nothing arrived since.
    """
    ledger, parent = scene.ledger, scene.parent(number)
    above = scene.above(parent)
    dying = flow.end.tally(flow.lanes)
    ledger.note(ledger.drains, number, dying, -1)
    ledger.note(ledger.reads, number, dying, -1)
    added = _tally_up(scene, flow.end, parent, flow.place.level, flow.place.lanes, -1)
    ledger.note(ledger.reads, parent, added, -1)
    ledger.note(ledger.writes, parent, added, -1)
    ledger.note(ledger.reads, parent, _zero_at_the_end(flow, above).tally(above))


def _zero_at_the_end(flow: Flow, above: Columns) -> Table:
    """Return the elements held below the parent at the end whose copy there is zero."""
    clock = flow.place.clock
    columns = (*above, *flow.element)
    rows = flow.end.keep((*clock, *columns))
    last_entry = flow.enters.keep((*columns, *clock)).join(rows.keep(columns)).last(columns, clock)
    arrived = _latest_before(rows, flow.leaving.keep((*clock, *columns)), clock, "_arrival")
    since = last_entry.join(arrived.drop(clock)).less_or_equal(clock, tuple(f"{name}_arrival" for name in clock))
    return rows.keep(columns).minus(since.keep(columns))


def count_plain(scene: Scene) -> None:
    """An element is loaded where it enters unless it is overwritten first, and drained if it was written."""
    ledger = scene.ledger
    for number, flow in scene.flows.items():
        writes, overwritten_first = _written_and_opened(scene, flow)
        _load(scene, number, flow, flow.enters.minus(overwritten_first))
        drained = _dirty_stays(flow, writes)
        if scene.tensor.temporary:
            drained = _without_the_last(flow, drained)
        amounts = drained.tally(flow.lanes)
        ledger.note(ledger.drains, number, amounts)
        ledger.note(ledger.reads, number, amounts)
        parent = scene.parent(number)
        ledger.note(ledger.writes, parent, drained.tally(scene.above(parent)))
        scene.cross(ledger.up, parent, flow.place.level, (), lambda _, amounts=amounts: amounts)
    count_reads(scene)
    for leaf in _leaves_that_write(scene):
        if leaf.statement.operator is Operator.ASSIGN:
            number = scene.holder(leaf)
            ledger.note(ledger.writes, number, leaf.rows_by(scene.above(number)))
            scene.cross(ledger.up, number, None, leaf.lanes, leaf.rows_by)
        else:
            _count_sums(scene, leaf)


def _written_and_opened(scene: Scene, flow: Flow) -> tuple[Table, Table]:
    """Return the rows of the tile that are written in their view, and those whose first access there overwrites."""
    here = flow.tile.columns
    depth = len(flow.place.clock)
    longest = max(len(leaf.clock) for leaf in flow.leaves) - depth
    times = tuple(f"t{place}" for place in range(longest))
    empty = Table.empty((*here, *times))
    reads, overwrites, sums = empty, empty, empty
    for leaf in flow.leaves:
        statement = leaf.statement
        # What a statement reads stays a read where it names the very element that it writes (`A[i] /= 2`).
        for access in statement.reads:
            if access.tensor == scene.tensor.name:
                reads = reads.union(_rows_with_clock(leaf, access, flow, times))
        if statement.target.tensor != scene.tensor.name:
            continue
        written = _rows_with_clock(leaf, statement.target, flow, times)
        if statement.operator is Operator.ASSIGN:
            overwrites = overwrites.union(written)
        else:
            sums = sums.union(written)
    reads = reads.union(sums)  # an accumulation reads its target first
    first = overwrites.first(here, times)
    names = before(times)
    read_before = first.join(reads.rename(names)).less_or_equal(tuple(names.values()), times)
    return overwrites.union(sums).keep(here), first.keep(here).minus(read_before.keep(here))


def _rows_with_clock(leaf: Leaf, access: Access, flow: Flow, times: Columns) -> Table:
    """Return the rows of one access below a place, with the clock inside the place's view (zeros at its end)."""
    inside = leaf.clock[len(flow.place.clock) :]
    columns = {column: leaf.at(column) for column in (*flow.place.clock, *flow.lanes)}
    element = {f"e{axis}": value for axis, value in enumerate(leaf.element(access))}
    shown = {name: leaf.at(inside[place]) if place < len(inside) else Affine() for place, name in enumerate(times)}
    return leaf.rows.computed({**columns, **element, **shown}).keep((*flow.tile.columns, *times))


def _dirty_stays(flow: Flow, writes: Table) -> Table:
    """Return, per stay in which the element is written, the row of its first such view."""
    clock = flow.place.clock
    if flow.tile.minus(writes).is_empty():
        return flow.enters
    previous = _latest_before(writes, writes, clock, "_write")
    entry = _latest_entry(flow, writes)
    again = entry.join(previous).less_or_equal(
        tuple(f"{name}_entry" for name in clock), tuple(f"{name}_write" for name in clock)
    )
    return writes.minus(again.keep(writes.columns))


def _latest_entry(flow: Flow, rows: Table) -> Table:
    """Return the rows of the tile with the clock at which their stay began."""
    clock = flow.place.clock
    names = {name: f"{name}_entry" for name in clock}
    pairs = rows.join(flow.enters.rename(names)).less_or_equal(tuple(names.values()), clock)
    return pairs.last(rows.columns, tuple(names.values()))


def _without_the_last(flow: Flow, drained: Table) -> Table:
    """Return the rows without those whose stay lasts until the end."""
    clock = flow.place.clock
    names = tuple(f"{name}_entry" for name in clock)
    final = _latest_entry(flow, flow.end).drop(clock)
    alive = drained.join(final).less_or_equal(names, clock)
    return drained.minus(alive.keep(drained.columns))
