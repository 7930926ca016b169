"""Copies that are read although a newer one is held elsewhere: instances side by side do not see each other's writes.

A written element reaches its parent when it leaves the instance that wrote it, and another instance sees it if it
enters there afterwards. So of a statement instance that reads what another one wrote last, in two instances of a level:
the writer's stay must end before the reader's stay begins. And of two that write the same element, one after the other:
the first one's stay must end first, or its older value is drained over the newer one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from polymap.costmodel.referees import Flow, Ledger, Scene, StatementRows, read_tree
from polymap.costmodel.tuning import TUNING
from polymap.ir import (
    Access,
    Affine,
    Architecture,
    Branch,
    BudgetError,
    InstancePoint,
    Mapping,
    MappingNode,
    Mistake,
    Operator,
    PlaceRule,
    Spatial,
    Storage,
    Tensor,
    Violation,
    Workload,
    dim,
    is_plain,
)
from polymap.poly import Columns, Table, budget, is_exhausted, is_open, within
from polymap.schedules import instance_text, point


def stale_copies(
    workload: Workload, arch: Architecture, mapping: Mapping, *, seconds: float = TUNING.coherence_s
) -> tuple[Violation, ...]:
    """Return a violation of kind "dependence" per tensor and level at which a stale copy is read or drained.

    Only places of the plain rule can have stale copies: partial sums move, and what is only read never changes. The
    mapping must be one that `check_mapping` accepts. Raises BudgetError where this takes more than `seconds` of CPU
    time.
    """
    if not may_be_stale(workload, arch, mapping):
        return ()
    what = "looking for stale copies"
    try:
        return within(seconds, what, _stale_copies, workload, arch, mapping)
    except BudgetError as error:
        if is_open() or not is_exhausted(error):
            raise
        hint = "Tiles that divide or smaller extents would help."
        raise BudgetError(Mistake("PM489", f"{what} takes more than {seconds:.3g} s", hint)) from None


def may_be_stale(workload: Workload, arch: Architecture, mapping: Mapping) -> bool:
    """Return whether a copy in one of several instances may be stale: that is looked for in `stale_copies`."""
    return _may_be_stale(workload, arch, mapping.nodes, frozenset())


def _stale_copies(workload: Workload, arch: Architecture, mapping: Mapping) -> tuple[Violation, ...]:
    found: list[Violation] = []
    with budget(what="looking for stale copies"):
        tree = read_tree(workload, arch, mapping)
        for tensor in workload.tensors:
            if is_plain(workload, tensor.name):
                found += _of_tensor(workload, arch, Scene.of(workload, arch, tree, tensor, Ledger()))
    return tuple(found)


def _may_be_stale(
    workload: Workload, arch: Architecture, nodes: tuple[MappingNode, ...], spread: frozenset[str]
) -> bool:
    """Return whether a node for an array of the plain rule has several instances that are in use."""
    for node in nodes:
        match node:
            case Spatial():
                spread |= {node.fanout}
            case Storage(level, tensors):
                above = {fanout.name for fanout in arch.fanouts_above(level)}
                if spread & above and any(is_plain(workload, tensor) for tensor in tensors):
                    return True
            case Branch(children):
                return any(_may_be_stale(workload, arch, child, spread) for child in children)
            case _:
                pass
    return False


def _of_tensor(workload: Workload, arch: Architecture, scene: Scene) -> Iterator[Violation]:
    for flow in scene.flows.values():
        shared = _elements_elsewhere(flow) if flow.rule is PlaceRule.PLAIN else None
        if shared is None or shared.is_empty():
            continue
        timed = _TimedAccesses.of(scene.tensor, flow, shared)
        level = arch.levels[flow.place.level].name
        for pairs, words in ((timed.stale_reads(), _READ), (timed.lost_writes(), _LOST)):
            if not pairs.is_empty():
                yield _violation(workload, scene.tensor, level, timed, pairs, words)
                break


def _elements_elsewhere(flow: Flow) -> Table | None:
    """Return the elements, as rows (lanes, element), that another instance holds at some time as well; None where the
    place has one instance."""
    if not flow.lanes:
        return None
    names = {lane: f"{lane}_other" for lane in flow.lanes}
    other = tuple(names.values())
    both = flow.tile.join(flow.tile.rename(names))
    return both.less(flow.lanes, other).union(both.less(other, flow.lanes)).keep((*flow.lanes, *flow.element))


@dataclass(frozen=True, slots=True)
class _TimedAccesses:
    """The accesses below one place to the elements that instances share, as rows (times, lanes, element).

    times: the clock down to the statements, zeros at its end; the first `depth` of them are the place's own.
    """

    tensor: Tensor
    flow: Flow
    times: Columns
    depth: int
    reads: Table
    writes: Table

    @staticmethod
    def of(tensor: Tensor, flow: Flow, shared: Table) -> _TimedAccesses:
        times = tuple(f"t{place}" for place in range(max(len(leaf.clock) for leaf in flow.leaves)))
        empty = Table.empty((*times, *flow.lanes, *flow.element))
        reads = writes = empty
        for leaf in flow.leaves:
            target = leaf.statement.target
            if target.tensor == tensor.name:
                writes = writes.union(_rows(leaf, target, flow, times))
            accumulated = (target,) if leaf.statement.operator is not Operator.ASSIGN else ()
            for access in (*leaf.statement.reads, *accumulated):
                if access.tensor == tensor.name:
                    reads = reads.union(_rows(leaf, access, flow, times))
        depth = len(flow.place.clock)
        return _TimedAccesses(tensor, flow, times, depth, reads.join(shared), writes.join(shared))

    @property
    def views(self) -> Columns:
        return self.times[: self.depth]

    def stale_reads(self) -> Table:
        """Return the pairs of a read and the last write before it, the latter under `_written` names, of which the
        reader's stay begins before the writer's has ended."""
        began = self._among_clocks(self.flow.entries, "_event")
        pairs = self._after_writes(self.reads)
        begun = pairs.join(began).less_or_equal(self._column_names("_event"), self.views)
        return self._not_drained_before(begun.last(pairs.columns, self._column_names("_event")))

    def lost_writes(self) -> Table:
        """Return the pairs of a write and the last one before it whose stay does not end first."""
        ends = self._ends("", "_event")
        if self.tensor.temporary:  # after its last use nothing of an element is drained
            dead = self._among_clocks(self.flow.dead, "_event")
            ends = ends.minus(dead.keep(ends.columns))
        pairs = self._after_writes(self.writes).union(self._in_one_step())
        ended = pairs.join(ends).less_or_equal(self.views, self._column_names("_event"))
        return self._not_drained_before(ended.first(pairs.columns, self._column_names("_event")))

    def _not_drained_before(self, pairs: Table) -> Table:
        """Return the pairs of which the first write is not drained before the view under `_event` names."""
        drained = pairs.join(self._ends("_written", "_drained"))
        after = drained.less_or_equal(self._column_names("_written"), self._column_names("_drained"))
        in_time = after.less(self._column_names("_drained"), self._column_names("_event"))
        return pairs.minus(in_time.keep(pairs.columns))

    def _after_writes(self, rows: Table) -> Table:
        """Return the rows with the last write before each, under `_written` names, where another instance made it."""
        names = {name: f"{name}_written" for name in (*self.times, *self.flow.lanes)}
        before = tuple(names[name] for name in self.times)
        pairs = rows.join(self.writes.rename(names)).less(before, self.times)
        last = pairs.last(rows.columns, before).join(pairs)
        lanes = self.flow.lanes
        written = tuple(names[name] for name in lanes)
        return last.less(lanes, written).union(last.less(written, lanes))

    def _in_one_step(self) -> Table:
        """Return the pairs of writes that two instances make in one step: accumulations that may be split."""
        times = {name: f"{name}_written" for name in self.times}
        lanes = {name: f"{name}_written" for name in self.flow.lanes}
        copies = {name: dim(name) for name in self.writes.columns} | {times[name]: dim(name) for name in times}
        pairs = self.writes.computed(copies).join(self.writes.rename(times | lanes))
        return pairs.less(tuple(lanes.values()), self.flow.lanes)

    def _column_names(self, suffix: str) -> Columns:
        return tuple(f"{name}{suffix}" for name in self.views)

    def _among_clocks(self, table: Table, suffix: str) -> Table:
        """Return rows of the place (clock, lanes, element) with their clock under the names of times."""
        return table.rename(dict(zip(self.flow.place.clock, self._column_names(suffix), strict=True)))

    def _ends(self, whose: str, suffix: str) -> Table:
        """Return the last views of stays, the lanes under names that end in `whose`, the clock in `suffix`."""
        rows = self._among_clocks(self.flow.departures, suffix)
        return rows.rename({lane: f"{lane}{whose}" for lane in self.flow.lanes})


def _rows(
    leaf: StatementRows, access: Access, flow: Flow, times: Columns, more: dict[str, Affine] | None = None
) -> Table:
    """Return the rows (times, lanes, element, more...) of one access."""
    columns = {name: leaf.at(column) for name, column in zip(times, leaf.clock, strict=False)}
    columns |= {name: Affine() for name in times[len(leaf.clock) :]}
    columns |= {lane: leaf.at(lane) for lane in flow.lanes}
    columns |= {f"e{axis}": value for axis, value in enumerate(leaf.element(access))}
    return leaf.rows.computed(columns | (more or {}))


_READ = "{second} reads {element} in one instance of '{level}', and {first} wrote it in another that still holds it"
_LOST = "{first} and then {second} write {element} in two instances of '{level}', and the first copy is drained last"


def _violation(
    workload: Workload, tensor: Tensor, level: str, timed: _TimedAccesses, pairs: Table, words: str
) -> Violation:
    columns = pairs.columns
    ((values, _),) = pairs.first((), columns).tally(columns).items()
    at = dict(zip(columns, values, strict=True))
    earlier = {name: at[f"{name}_written"] for name in (*timed.times, *timed.flow.lanes)}
    element = {name: at[name] for name in timed.flow.element}
    later = {name: at[name] for name in (*timed.times, *timed.flow.lanes)}
    first = _instance(workload, timed, {**earlier, **element}, writes=True)
    second = _instance(workload, timed, {**later, **element}, writes=words is _LOST)
    place = f"{tensor.name}[{', '.join(str(at[name]) for name in timed.flow.element)}]"
    names = {"first": instance_text(first), "second": instance_text(second), "element": place, "level": level}
    hint = "Instances side by side do not see each other's writes."
    return Violation("dependence", f"a copy is stale: {words.format(**names)}. {hint}", (first, second))


def _instance(workload: Workload, timed: _TimedAccesses, at: dict[str, int], *, writes: bool) -> InstancePoint:
    """Return the first statement instance with these times, lanes and element."""
    for leaf in timed.flow.leaves:
        target = leaf.statement.target
        for access in (target,) if writes else (*leaf.statement.reads, target):
            if access.tensor != timed.tensor.name:
                continue
            rows = _rows(leaf, access, timed.flow, timed.times, leaf.digits()).join(Table.row(at))
            if rows.is_empty():
                continue
            ((values, _),) = rows.first((), rows.columns).tally(rows.columns).items()
            found = dict(zip(rows.columns, values, strict=True))
            digits = {name: found[f"{name}_digit"] for name in leaf.rows.columns}
            counters = [leaf.index[name].evaluate(digits) for name in leaf.statement.dims]
            return point(workload, leaf.statement.name, counters)
    raise AssertionError("a row of the accesses comes from a statement")
