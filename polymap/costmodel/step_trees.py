"""What the steps of a mapping move: of each child of a branch by itself, from the root inwards (docs/latency.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

from polymap.costmodel.arrivals import sending_of
from polymap.costmodel.closed_form import common_access, whole_access
from polymap.costmodel.counting import count_mapping
from polymap.costmodel.counts import Counts
from polymap.costmodel.step_counts import (
    Clock,
    Stage,
    StepCounts,
    Stream,
    advances_of,
    misses_take_time,
    not_in_steps,
    stage_counts,
    takes_time,
    unsupported_in_steps,
)
from polymap.costmodel.step_misses import missed_lines, with_misses
from polymap.costmodel.tuning import TUNING
from polymap.ir import (
    Architecture,
    Branch,
    BudgetError,
    Compute,
    Mapping,
    MappingNode,
    MemoryLevel,
    Operator,
    Spatial,
    Statement,
    Storage,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
    part_of,
    statements_below,
)
from polymap.schedules import LoopView, view_of


def counted_in_steps(workload: Workload, arch: Architecture, mapping: Mapping, counts: Counts) -> StepCounts:
    """Return what the steps of a mapping move. counts: of the whole run.

    Raises BudgetError (PM485) where steps are not counted: domains that are no boxes, tensors that a statement accesses
    in several ways, written tensors whose tiles overlap, sums held by siblings of which some idle in between, beats and
    offsets that cut elements; in trees with branches also what `_Tree` says.
    """
    return _Tree.of(workload, arch, mapping, counts).counted(mapping.nodes, ())


@dataclass(frozen=True, slots=True)
class _Leg:
    """A statement by itself, below the nodes on its way. starts: at which of these nodes the children of branches
    begin, and the tree."""

    workload: Workload
    mapping: Mapping
    starts: tuple[int, ...]
    view: LoopView
    clock: Clock

    @property
    def statement(self) -> Statement:
        """The only one."""
        return self.workload.statements[0]

    def streams(self, arch: Architecture) -> Iterator[tuple[int, MemoryLevel, Stream]]:
        """Yield what comes to each node on the way of each tensor and goes, with the node's place."""
        for tensor in self.workload.tensors:
            sender = arch.levels[0]
            for node in self.view.storages:
                level = arch.levels[arch.level_index(node.node.level)]
                if tensor.name in node.node.tensors and level is not arch.levels[0]:
                    sending = sending_of(self.workload, arch, self.view, node, tensor, sender.name)
                    yield node.position, level, Stream(tensor, sender, sending, self.begins(node.position))
                    sender = level

    def begins(self, position: int) -> int:
        """Return the temporal loops above the child of a branch in which a node stands."""
        start = max(each for each in self.starts if each <= position)
        return sum(isinstance(node, Temporal) for node in self.mapping.nodes[:start])


@dataclass(frozen=True, slots=True)
class _Tree:
    """A mapping, and each statement's leg. A child of a branch is visited in each iteration of the loops above the
    branch; its nodes are empty before and after.

    Not counted: caches with lines that miss, sums that are added in order, loops above statements that lack their dim,
    and below one node: several statements that write a tensor, that touch unlike parts of it, or that read it before
    it is written or while it is summed up; temporary tensors of which later statements may read a part.
    """

    workload: Workload
    arch: Architecture
    counts: Counts
    legs: dict[str, _Leg]
    streams: dict[str, list[tuple[int, MemoryLevel, Stream]]]

    @staticmethod
    def of(workload: Workload, arch: Architecture, mapping: Mapping, counts: Counts) -> _Tree:
        """Return the tree of a mapping; raises BudgetError where its steps are not counted."""
        legs: dict[str, _Leg] = {}
        for name, nodes, starts in _ways(mapping.nodes, (), (0,)):
            own = workload if len(workload.statements) == 1 else part_of(workload, (workload.statement(name),))
            reason = unsupported_in_steps(own, arch)
            if len(starts) > 1:
                reason = reason or _unsupported_in_branches(own, arch, nodes[: starts[-1]])
            if reason:
                raise BudgetError(not_in_steps(workload, arch, reason))
            view = view_of(own.extents(), Mapping(nodes))
            legs[name] = _Leg(own, Mapping(nodes), starts, view, Clock.of(own, view.loops))
        return _Tree(workload, arch, counts, legs, {name: [*leg.streams(arch)] for name, leg in legs.items()})

    def counted(self, nodes: tuple[MappingNode, ...], above: tuple[MappingNode, ...]) -> StepCounts:
        """Return the counts of a child of a branch, or of all. above: the nodes around."""
        legs = [self.legs[name] for name in statements_below(nodes)]
        clock, begins = legs[0].clock, sum(isinstance(node, Temporal) for node in above)
        stages = self._stages(len(above), len(above) + len(nodes) - 1, legs)
        branch = nodes[-1]
        children, beside, ticks, accesses = (
            list[StepCounts](),
            list[Stream](),
            0,
            list[tuple[str, Fraction, Fraction]](),
        )
        if isinstance(branch, Branch):
            children = [self.counted(each, (*above, *nodes[:-1])) for each in branch.children]
        else:
            own = self.streams[legs[0].statement.name]
            beside = [stream for _, level, stream in own if _is_beside_compute(self.arch, level)]
            ticks, accesses = self._compute_steps(legs[0])
        missed = [] if begins or len(legs) > 1 else list(missed_lines(self.workload, self.arch, legs[0].view, stages))
        return StepCounts(
            tuple(
                with_misses(stage_counts(stage, clock, beside if stage is stages[-1] else [], begins), missed)
                for stage in stages
            ),
            ticks,
            tuple(accesses),
            tuple(advances_of((), clock, begins, begins, [] if stages else beside)),
            tuple(children),
            tuple(leg.statement.name for leg in legs) if len(self.legs) > 1 else (),
        )

    def _stages(self, first: int, end: int, legs: list[_Leg]) -> list[Stage]:
        """Return the levels that hold tiles in nodes from one place on the way of some legs to another, those with
        fewer loops above them first."""
        depths, streams = dict[str, int](), dict[str, list[Stream]]()
        for tensor in self.workload.tensors:
            users = [leg for leg in legs if accesses_of(leg.statement, tensor.name)]
            for place, level, stream in self.streams[users[0].statement.name] if users else ():
                if stream.tensor.name != tensor.name or not first <= place < end:
                    continue
                depths[level.name] = max(depths.get(level.name, 0), stream.depth)
                if self._passes(tensor, users, stream):
                    self._check_idle(stream, level)
                    streams.setdefault(level.name, []).append(stream)
        stages = [
            Stage(level, depths[level.name], tuple(streams.get(level.name, ())))
            for level in self.arch.levels
            if level.name in depths
        ]
        return sorted(stages, key=lambda stage: stage.depth)

    def _check_idle(self, stream: Stream, level: MemoryLevel) -> None:
        if takes_time(self.arch, stream.sender, level) and (idle := stream.sending.idle_sums()):
            reason = f"siblings along {idle} that hold sums of {stream.tensor.name} in {level.name} idle in between"
            raise BudgetError(not_in_steps(self.workload, self.arch, reason))

    def _passes(self, tensor: Tensor, users: list[_Leg], stream: Stream) -> bool:
        """Return whether anything of a tensor passes a node: not of a temporary one that all of its statements below
        pass on among them. users: the legs below that access it, of the first of which the stream is."""
        below = [leg.statement for leg in users]
        reason = self._difference(tensor, users, stream) if len(users) > 1 else ""
        writer = next((each for each in below if each.target.tensor == tensor.name), None)
        if tensor.temporary and writer is not None and not reason:
            others = [each for each in self.workload.statements if each not in below]
            later = [e for e in others if e.position > writer.position and accesses_of(e, tensor.name)]
            if len(below) > 1 and not later:
                return False
            if not any(whole_access(self.workload, each, tensor) for each in later):
                reason = f"a part of {tensor.name}, which is temporary, may be read by no later statement"
        if reason and len(self.legs) > 1:
            raise BudgetError(not_in_steps(self.workload, self.arch, reason))
        return True

    def _difference(self, tensor: Tensor, users: list[_Leg], stream: Stream) -> str:
        """Return why the statements below a node that access a tensor are not taken together; "" where they are."""
        below, shared = [leg.statement for leg in users], min(leg.starts[-1] for leg in users)
        cut = [loop.node.dim for loop in users[0].view.loops if loop.position < shared]
        writers = [each for each in below if each.target.tensor == tensor.name]
        if len(writers) > 1 or (writers and writers != below[:1]):
            return f"several statements below one node write {tensor.name}, or read it before"
        if common_access(self.workload, below, tensor, cut) is None:
            return f"statements below one node may touch unlike parts of {tensor.name}"
        sums = [loop.dim for loop in stream.sending.clock if loop.trips > 1 and loop.dim not in stream.sending.own_dims]
        return f"{tensor.name} is read below a loop over {sums[0]} that sums it up" if writers and sums else ""

    def _compute_steps(self, leg: _Leg) -> tuple[int, list[tuple[str, Fraction, Fraction]]]:
        """Return the steps of statement instances of a leg, and what these access at levels with beats."""
        if len(self.legs) == 1:
            return self.counts.steps, [*_accesses(self.workload, self.arch, leg.view, self.counts)]
        ticks = leg.clock.visits_below[-1]
        if not any(level.beat_bits is not None for level in self.arch.levels):
            return ticks, []
        held = (
            replace(node, tensors=tuple(name for name in node.tensors if accesses_of(leg.statement, name)))
            if isinstance(node, Storage)
            else node
            for node in leg.mapping.nodes
        )
        mapping = Mapping(tuple(node for node in held if not isinstance(node, Storage) or node.tensors))
        counts, _ = count_mapping(leg.workload, self.arch, mapping, seconds=TUNING.count_limit_s)
        return ticks, [*_accesses(leg.workload, self.arch, leg.view, counts)]


def _ways(
    nodes: tuple[MappingNode, ...], above: tuple[MappingNode, ...], starts: tuple[int, ...]
) -> Iterator[tuple[str, tuple[MappingNode, ...], tuple[int, ...]]]:
    """Yield the statements with the nodes on their ways, and at which of these children of branches begin."""
    *own, last = nodes
    if isinstance(last, Branch):
        for child in last.children:
            yield from _ways(child, (*above, *own), (*starts, len(above) + len(own)))
    elif isinstance(last, Compute):
        yield last.statement, (*above, *nodes), starts


def _unsupported_in_branches(alone: Workload, arch: Architecture, above: tuple[MappingNode, ...]) -> str:
    """Return why a statement's steps below branches are not counted; "" where they are. above: the nodes above the
    innermost branch."""
    (statement,) = alone.statements
    if any(misses_take_time(level) for level in arch.levels):
        return "lines that caches miss below branches are not told"
    if not alone.associative and statement.operator is not Operator.ASSIGN:
        return "its sums are added in order"
    for node in above:
        if isinstance(node, Temporal | Spatial) and node.dim not in statement.dims:
            return f"a loop over {node.dim} stands above {statement.name}, which has no such dim"
    return ""


def _accesses(
    workload: Workload, arch: Architecture, view: LoopView, counts: Counts
) -> Iterator[tuple[str, Fraction, Fraction]]:
    """Yield what statement instances access at the levels with beats: a beat for each element, unless loads unite."""
    for level in arch.levels:
        if level.beat_bits is None:
            continue
        above = {fanout.name for fanout in arch.fanouts_above(level.name)}
        instances = prod(loop.trips for loop in view.loops if getattr(loop.node, "fanout", None) in above)
        unites = any(fanout.multicast.unites_tiles for fanout in arch.fanouts if fanout.name not in above)
        read = written = 0
        for tensor in workload.tensors:
            holders = [each.node.level for each in view.storages if tensor.name in each.node.tensors]
            if (holders[-1] if holders else arch.levels[0].name) == level.name:
                row = next(r for r in counts.traffic if (r.level, r.tensor) == (level.name, tensor.name))
                beat = tensor.bits if unites else max(tensor.bits, level.beat_bits)
                read, written = read + beat * (row.reads - row.drains), written + beat * (row.writes - row.fills)
        yield level.name, Fraction(read, instances), Fraction(written, instances)


def _is_beside_compute(arch: Architecture, level: MemoryLevel) -> bool:
    return len(arch.fanouts_above(level.name)) == len(arch.fanouts)
