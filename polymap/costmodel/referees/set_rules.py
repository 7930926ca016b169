"""The three rules by which elements move (docs/counting.md), each as operations on tables of integer sets.

A residency is the time between an element's entry into a tile and its departure.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from polymap.costmodel.referees.flow import Flow, Scene, arrivals, before, columns_of, messages, single_messages
from polymap.costmodel.referees.set_tree import Lane, StatementRows
from polymap.ir import Access, Affine, Operator, PlaceRule
from polymap.poly import Columns, Table, Tally


def count_moves(scene: Scene) -> None:
    """Count what moves of a tensor: place by place by the rule of each, then what the statements read and write."""
    zero = {scene.root: _zero_at_root(scene)}  # by place: what enters it as zero and is accumulated onto first
    # The first arrival at a copy that is zero is written without a read.
    scene.ledger.note(scene.ledger.reads, scene.root, zero[scene.root].tally(), -1)
    for number, flow in scene.flows.items():
        match flow.rule:
            case PlaceRule.READ_ONLY:
                _load(scene, number, flow, flow.entries)
            case PlaceRule.SUMS:
                zero[number] = _count_partial_sums(scene, number, flow, zero[scene.parent(number)])
            case PlaceRule.PLAIN:
                zero[number] = _count_plain(scene, number, flow)
    _count_reads(scene)
    for leaf in _leaves_that_write(scene):
        if leaf.statement.operator is Operator.ASSIGN:
            number = scene.holder(leaf)
            scene.ledger.note(scene.ledger.writes, number, leaf.rows_by(scene.above(number)))
            scene.cross(scene.ledger.up, number, None, leaf.lanes, leaf.rows_by)
        else:
            _count_sums(scene, leaf)


def _zero_at_root(scene: Scene) -> Table:
    """Return the elements that are zero in the outermost level when something arrives there first, to be added."""
    element = tuple(f"e{axis}" for axis in range(len(scene.tensor.shape)))
    if scene.tensor.initial or not _leaves_that_write(scene):
        return Table.empty(element)
    return scene.footprint() if scene.rule is PlaceRule.SUMS else scene.starts_at(scene.root).keep(element)


def _load(scene: Scene, number: int, flow: Flow, loads: Table) -> None:
    """Note the loads of a node: fills and writes there, reads at its parent, deliveries across the fan-outs between."""
    ledger, parent = scene.ledger, scene.parent(number)
    fills = loads.tally(flow.lanes)
    ledger.note(ledger.fills, number, fills)
    ledger.note(ledger.writes, number, fills)
    lanes = flow.place.lanes
    count = partial(messages, scene.arch, loads, lanes=lanes, element=flow.element)
    ledger.note(ledger.reads, parent, count(scene.above(parent)))
    scene.cross(ledger.down, parent, flow.place.level, lanes, count)


def _count_reads(scene: Scene) -> None:
    """Count what the statements read of the tensor at its innermost nodes."""
    for leaf in scene.tree.leaves:
        for access in leaf.statement.reads:
            if access.tensor == scene.tensor.name:
                number = scene.holder(leaf)
                count = partial(single_messages, scene.arch, access, leaf=leaf)
                scene.ledger.note(scene.ledger.reads, number, count(scene.above(number)))
                scene.cross(scene.ledger.down, number, None, leaf.lanes, count)


def _count_sums(scene: Scene, leaf: StatementRows) -> None:
    """Count the terms that a statement's instances add at their innermost node: each arrival is a read and a write
    there."""
    sent = leaf.touched(leaf.statement.target, (*leaf.clock, *columns_of(leaf.lanes)))
    number = scene.holder(leaf)
    added = _tally_up(scene, sent, number, None, leaf.lanes)
    for book in (scene.ledger.reads, scene.ledger.writes):
        scene.ledger.note(book, number, added)


def _tally_up(
    scene: Scene, sent: Table, holder: int, level: int | None, lanes: Sequence[Lane], factor: int = 1
) -> Tally:
    """Return the elements sent from a level that arrive at each instance of the holder; note, `factor` times, the
    crossings."""

    def count(above: Columns) -> Tally:
        return arrivals(scene.arch, sent, above, lanes).tally(above)

    scene.cross(scene.ledger.up, holder, level, lanes, count, factor)
    return count(scene.above(holder))


def _leaves_that_write(scene: Scene) -> tuple[StatementRows, ...]:
    return tuple(leaf for leaf in scene.tree.leaves if leaf.statement.target.tensor == scene.tensor.name)


def _count_partial_sums(scene: Scene, number: int, flow: Flow, zero: Table) -> Table:
    """Count a place of partial sums: a copy starts as zero or as a partial sum of its parent, and is added to it on
    departure. Return what enters as zero. zero: the parent's residencies that begin as zero.

    With n arrivals in a residency and z = 1 if it began with a partial sum (0 if with zero), a copy is read n - 1 + z
    times for arrivals and fills of children, and once for its drain (docs/closed_form.md).
    """
    ledger, parent = scene.ledger, scene.parent(number)
    fills = _rows_with_partial_sums(scene, number, flow, zero)
    amounts = fills.tally(flow.lanes)
    for book in (ledger.fills, ledger.reads, ledger.writes):
        ledger.note(book, number, amounts)
    scene.cross(ledger.down, parent, flow.place.level, (), lambda _: amounts)
    ledger.note(ledger.drains, number, flow.residencies(flow.lanes))
    added = _tally_up(scene, flow.departures, parent, flow.place.level, flow.place.lanes)
    ledger.note(ledger.reads, parent, added)
    ledger.note(ledger.writes, parent, added)
    if scene.tensor.temporary:
        _discount_dead_sums(scene, number, flow)
    return flow.entries.minus(fills)


def _rows_with_partial_sums(scene: Scene, number: int, flow: Flow, zero: Table) -> Table:
    """Return the rows of `entries` that take a partial sum from the parent. zero: the parent's residencies that begin
    as zero."""
    holder = scene.tree.places[scene.parent(number)]
    above = columns_of(holder.lanes)
    siblings = tuple(lane for lane in flow.lanes if lane not in above)
    takes = flow.entries
    if siblings:
        group = tuple(name for name in takes.columns if name not in siblings)
        takes = takes.first(group, siblings)
        through = _entries_with_holder(flow, siblings)
        if through is not None:
            takes = takes.minus(takes.join(through))
    firsts = _first_entries(scene, number, flow, flow.tile.join(zero))
    return takes.minus(firsts)


def _first_entries(scene: Scene, number: int, flow: Flow, candidates: Table) -> Table:
    """Return the rows of `candidates` that are the first event of a residency at the parent.

    candidates: rows of the node's tile at the clock at which the parent's residency begins. The first of them per
    residency are entries, since nothing below the parent held the element before. An event in another child of a Branch
    precedes them where that child runs earlier.
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


def _entries_with_holder(flow: Flow, siblings: Columns) -> Table | None:
    """Return the entries, siblings merged, for which some sibling has held the element since the previous entry.

    That is so where nothing has arrived at the parent since. None where no tile shares elements with the one before it.
    """
    entries = flow.entries.drop(siblings)
    staying = flow.overlap.keep(entries.columns).join(entries)
    if staying.is_empty():
        return None
    clock = flow.place.clock
    group = tuple(name for name in entries.columns if name not in clock)
    last_entry = _latest_before(staying, entries, clock, "_entry")
    last_arrival = _latest_before(staying, flow.departures.drop(siblings), clock, "_arrival")
    since = last_entry.join(last_arrival).less_or_equal(
        tuple(f"{name}_entry" for name in clock), tuple(f"{name}_arrival" for name in clock)
    )
    return last_entry.keep((*group, *clock)).minus(since.keep((*group, *clock)))


def _latest_before(rows: Table, events: Table, clock: Columns, suffix: str) -> Table:
    """Return the rows with the clock of the last event of their group before them (columns named with `suffix`).

    Rows without such an event are left out.
    """
    names = {name: name + suffix for name in clock}
    pairs = rows.join(events.rename(names)).less(tuple(names.values()), clock)
    return pairs.last(rows.columns, tuple(names.values()))


def _discount_dead_sums(scene: Scene, number: int, flow: Flow) -> None:
    """Subtract what is drained of a temporary tensor after its last use.

    Of the arrivals at one copy then, one takes no read if the copy is zero, that is if it was taken by a child and
    nothing has arrived since: that read is added back.
    """
    ledger, parent = scene.ledger, scene.parent(number)
    above = scene.above(parent)
    held = flow.dead.tally(flow.lanes)
    ledger.note(ledger.drains, number, held, -1)
    ledger.note(ledger.reads, number, held, -1)
    added = _tally_up(scene, flow.dead, parent, flow.place.level, flow.place.lanes, -1)
    ledger.note(ledger.reads, parent, added, -1)
    ledger.note(ledger.writes, parent, added, -1)
    ledger.note(ledger.reads, parent, _zero_copies_at_death(flow, above).tally(above))


def _zero_copies_at_death(flow: Flow, above: Columns) -> Table:
    """Return the elements held below the parent after their last use whose copy at the parent is zero."""
    clock = flow.place.clock
    columns = (*above, *flow.element)
    rows = flow.dead.keep((*clock, *columns)).first(columns, clock)
    last_entry = flow.entries.keep((*columns, *clock)).join(rows.keep(columns)).last(columns, clock)
    drained = flow.departures.minus(flow.dead).keep((*clock, *columns))
    arrived = _latest_before(rows, drained, clock, "_arrival")
    since = last_entry.join(arrived.drop(clock)).less_or_equal(clock, tuple(f"{name}_arrival" for name in clock))
    return rows.keep(columns).minus(since.keep(columns))


def _count_plain(scene: Scene, number: int, flow: Flow) -> Table:
    """Count a place that is written otherwise: an entry is a load unless its first access overwrites; written ones
    drain. Return what enters as zero and is accumulated onto first."""
    ledger, parent = scene.ledger, scene.parent(number)
    written, overwritten_first, summed_first = _written_rows(scene, number, flow)
    _load(scene, number, flow, flow.entries.minus(overwritten_first))
    drained = _dirty_residencies(flow, written)
    if scene.tensor.temporary:
        drained = _drained_alive(flow, drained)
    amounts = drained.tally(flow.lanes)
    ledger.note(ledger.drains, number, amounts)
    ledger.note(ledger.reads, number, amounts)
    ledger.note(ledger.writes, parent, drained.tally(scene.above(parent)))
    scene.cross(ledger.up, parent, flow.place.level, (), lambda _: amounts)
    zero = flow.entries.join(summed_first)
    ledger.note(ledger.reads, number, zero.tally(flow.lanes), -1)
    return zero


def _written_rows(scene: Scene, number: int, flow: Flow) -> tuple[Table, Table, Table]:
    """Return three tables: the rows of the tile that are written, those whose first access in the tile overwrites them,
    and of these the ones to which an accumulation onto zero arrives first."""
    here = flow.tile.columns
    depth = len(flow.place.clock)
    times = scene.times[depth:]
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
    written = overwrites.union(sums).keep(here)
    arriving = empty
    if not scene.tensor.initial and not sums.is_empty():
        own = dict(zip(scene.times, flow.place.clock, strict=False))
        starts, arriving = (sums.join(each.rename(own)) for each in (scene.starts, scene.starts_at(number)))
        sums, overwrites = sums.minus(starts), overwrites.union(starts)
    reads = reads.union(sums)  # an accumulation reads its target first
    first = overwrites.first(here, times)
    names = before(times)
    read_before = first.join(reads.rename(names)).less_or_equal(tuple(names.values()), times)
    opened = first.keep(here).minus(read_before.keep(here))
    return written, opened, opened.join(first.join(arriving).keep(here))


def _rows_with_clock(leaf: StatementRows, access: Access, flow: Flow, times: Columns) -> Table:
    """Return the rows of one access below a node with the clock inside its tile (`times`, zeros beyond a short
    clock)."""
    inside = leaf.clock[len(flow.place.clock) :]
    columns = {column: leaf.at(column) for column in (*flow.place.clock, *flow.lanes)}
    element = {f"e{axis}": value for axis, value in enumerate(leaf.element(access))}
    shown = {name: leaf.at(inside[place]) if place < len(inside) else Affine() for place, name in enumerate(times)}
    return leaf.rows.computed({**columns, **element, **shown}).keep((*flow.tile.columns, *times))


def _dirty_residencies(flow: Flow, writes: Table) -> Table:
    """Return, per residency in which the element is written, the row of its first write."""
    clock = flow.place.clock
    if flow.tile.minus(writes).is_empty():
        return flow.entries
    previous = _latest_before(writes, writes, clock, "_write")
    entry = _latest_entry(flow, writes)
    again = entry.join(previous).less_or_equal(
        tuple(f"{name}_entry" for name in clock), tuple(f"{name}_write" for name in clock)
    )
    return writes.minus(again.keep(writes.columns))


def _latest_entry(flow: Flow, rows: Table) -> Table:
    """Return the rows of the tile with the clock at which their residency began."""
    clock = flow.place.clock
    names = {name: f"{name}_entry" for name in clock}
    pairs = rows.join(flow.entries.rename(names)).less_or_equal(tuple(names.values()), clock)
    return pairs.last(rows.columns, tuple(names.values()))


def _drained_alive(flow: Flow, drained: Table) -> Table:
    """Return the rows without those after whose residency nothing uses the element."""
    clock = flow.place.clock
    names = {name: f"{name}_end" for name in clock}
    ends = drained.join(flow.departures.rename(names)).less_or_equal(clock, tuple(names.values()))
    ends = ends.first(drained.columns, tuple(names.values())) if clock else ends
    return drained.minus(ends.join(flow.dead.rename(names)).keep(drained.columns))
