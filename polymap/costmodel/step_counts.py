"""What the steps of every level of a mapping load and store, by classes of steps: integers (docs/latency.md).

The steps of a level are those of the temporal loops above its innermost node. All that the advance of one loop begins
are of one class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from math import prod

from polymap.costmodel.arrivals import END, FIRST, Merge, Sending, Sent, alone, as_added, as_one, as_sent, sending_of
from polymap.costmodel.contiguous import Blocks
from polymap.costmodel.counts import Counts
from polymap.ir import (
    Architecture,
    Branch,
    BudgetError,
    Mapping,
    MemoryLevel,
    Mistake,
    Operator,
    PlaceRule,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
    is_box,
    rule_of,
)
from polymap.schedules import LoopInTree, LoopView, view_of

SentOften = tuple[Sent, int]  # messages, and how often each is sent


@dataclass(frozen=True, slots=True)
class BusUse:
    """What moves on the bus of one instance of a level: beats, and requests (of loads, where in_flight is told)."""

    level: str
    beats: int
    requests: int


@dataclass(frozen=True, slots=True)
class AdvanceCounts:
    """All steps of a level that the advance of one temporal loop begins (its place in the tree, FIRST for the first
    step, with loop ""). preloads: whether tiles that are only read change right at the compute units."""

    advance: int
    loop: str
    steps: int
    loads: tuple[BusUse, ...]
    stores: tuple[BusUse, ...]
    preloads: bool


@dataclass(frozen=True, slots=True)
class StageCounts:
    """The steps of a level that holds tiles. depth: the temporal loops above its innermost node; steps: all of them;
    last: what is stored at the end of the run."""

    level: str
    depth: int
    steps: int
    advances: tuple[AdvanceCounts, ...]
    last: tuple[BusUse, ...]


@dataclass(frozen=True, slots=True)
class StepCounts:
    """The levels that hold tiles, those with fewer loops above them first. ticks: steps of statement instances;
    accesses: (level, bits read, bits written) of one instance by these, where it moves beats."""

    stages: tuple[StageCounts, ...]
    ticks: int
    accesses: tuple[tuple[str, Fraction, Fraction], ...]


@dataclass(frozen=True, slots=True)
class _Stage:
    """A level with nodes. depth: the temporal loops above the innermost; streams: what comes to its nodes and goes."""

    level: MemoryLevel
    depth: int
    streams: tuple[_Stream, ...]


@dataclass(frozen=True, slots=True)
class _Stream:
    """A tensor between a level that sends and the node that holds it next."""

    tensor: Tensor
    sender: MemoryLevel
    sending: Sending

    @property
    def depth(self) -> int:
        """The temporal loops above the node."""
        return len(self.sending.clock)


def counted_in_steps(workload: Workload, arch: Architecture, mapping: Mapping, counts: Counts) -> StepCounts:
    """Return what the steps of a mapping move. counts: of the whole run.

    Raises BudgetError (PM485) where steps are not counted: several statements, domains that are no boxes, tensors that
    are accessed in several ways, written tensors whose tiles overlap, sums held by siblings of which some idle in
    between, beats and offsets that cut elements.
    """
    reason = unsupported_in_steps(workload, arch)
    if reason or any(isinstance(node, Branch) for node in mapping.nodes):
        raise BudgetError(not_in_steps(workload, arch, reason or "its tree has branches"))
    view = view_of(workload.extents(), mapping)
    stages = _stages(workload, arch, view)
    clock = _Clock(view.loops, workload)
    beside = [stream for stage in stages for stream in stage.streams if _is_beside_compute(arch, stage.level)]
    counted = tuple(_stage_counts(stage, clock, beside) for stage in stages)
    return StepCounts(counted, counts.steps, tuple(_accesses(workload, arch, view, counts)))


def _is_beside_compute(arch: Architecture, level: MemoryLevel) -> bool:
    return len(arch.fanouts_above(level.name)) == len(arch.fanouts)


def _stage_counts(stage: _Stage, clock: _Clock, beside: list[_Stream]) -> StageCounts:
    advances = [advance for advance in range(FIRST, stage.depth) if clock.begun(advance)]
    found = tuple(
        AdvanceCounts(
            advance,
            clock.dim(advance) if advance != FIRST else "",
            clock.begun(advance),
            _on_buses(stage, advance, _loading),
            _on_buses(stage, advance, _leaving),
            any(times and sent.messages for one in beside if _is_read(one) for sent, times in _arriving(one, advance)),
        )
        for advance in advances
    )
    return StageCounts(stage.level.name, stage.depth, clock.visits(stage.depth), found, _on_buses(stage, END, _leaving))


def _on_buses(
    stage: _Stage, advance: int, moved: Callable[[_Stage, _Stream, int], list[SentOften]]
) -> tuple[BusUse, ...]:
    """Return what messages use of the buses of the levels that send or get them."""
    found: dict[str, BusUse] = {}
    for stream in stage.streams:
        level, bits = stream.sender, stream.tensor.bits
        if not level.has_bandwidth and level.in_flight is None and not level.request_latency_cycles:
            continue  # its messages take no time
        use = found.get(level.name, BusUse(level.name, 0, 0))
        beats, requests = use.beats, use.requests
        for sent, times in moved(stage, stream, advance):
            beats += times * _pieces(sent, bits, level.beat_bits or 1, level.base_offset_bits)
            if level.in_flight is not None and moved is _loading:
                requests += times * _requests(sent, bits, level)
        found[level.name] = BusUse(level.name, beats, requests)
    return tuple(found.values())


def _loading(stage: _Stage, stream: _Stream, advance: int) -> list[SentOften]:
    """Return what is loaded: every tile in every step where the level does not keep those that are only read."""
    if not stage.level.keeps and _is_read(stream) and advance < stream.depth:
        return _sent(stream, advance, as_sent, whole=True)
    return _arriving(stream, advance)


def _sent(
    stream: _Stream, advance: int, merge: Merge, *, leaving: bool = False, whole: bool = False
) -> list[SentOften]:
    times = stream.sending.repeats(advance, merge)
    return [(stream.sending.sent(advance, merge, leaving=leaving, whole=whole), times)] if times else []


def _is_read(stream: _Stream) -> bool:
    return rule_of(stream.sending.workload, stream.tensor.name) is PlaceRule.READ_ONLY


def _arriving(stream: _Stream, advance: int) -> list[SentOften]:
    """Return what a node gets in all steps that an advance begins: of written tensors what was there before."""
    sending = stream.sending
    if advance >= stream.depth:
        return []
    rule = rule_of(sending.workload, stream.tensor.name)
    if rule is PlaceRule.READ_ONLY:
        return _sent(stream, advance, as_sent)
    statement = sending.workload.statements[0]
    if rule is PlaceRule.PLAIN:
        is_read = statement.operator is not Operator.ASSIGN or sending.access in statement.reads
        return _sent(stream, advance, as_sent) if is_read else []
    returned = sending.returns(advance, initial=stream.tensor.initial)
    return [(sent, returned) for sent, _ in _sent(stream, advance, as_one) if returned]


def _leaving(_: _Stage, stream: _Stream, advance: int) -> list[SentOften]:
    """Return what a node of a written tensor gives back as an advance begins."""
    if _is_read(stream) or advance >= stream.depth or advance == FIRST:
        return []
    merge = alone if rule_of(stream.sending.workload, stream.tensor.name) is PlaceRule.PLAIN else as_added
    return _sent(stream, advance, merge, leaving=True)


def _pieces(sent: Sent, bits: int, block_bits: int, offset_bits: int) -> int:
    """Return the aligned pieces of so many bits that contiguous runs are cut into."""
    if block_bits <= bits:
        return sent.elements() * (bits // block_bits)
    return sent.blocks(Blocks(block_bits // bits, of_runs=True), offset_bits // bits)


def _requests(sent: Sent, bits: int, level: MemoryLevel) -> int:
    if level.request_bits is None:
        return sent.runs()
    return _pieces(sent, bits, level.request_bits, level.base_offset_bits)


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


@dataclass(frozen=True, slots=True)
class _Clock:
    """The loops of a tree. Fewer siblings have work than others at the end of a dim, the first as long as any."""

    loops: tuple[LoopInTree, ...]
    workload: Workload
    _visits: dict[int, int] = field(default_factory=dict[int, int])

    def dim(self, advance: int) -> str:
        """Return the dim of a temporal loop, by its place among these."""
        return [loop.node.dim for loop in self.loops if isinstance(loop.node, Temporal)][advance]

    def begun(self, advance: int) -> int:
        """Return how many steps the advance of a loop begins."""
        return 1 if advance == FIRST else self.visits(advance + 1) - self.visits(advance)

    def visits(self, depth: int) -> int:
        """Return how often the body below so many loops is visited."""
        if depth not in self._visits:
            self._visits[depth] = prod(self._choices(dim.name, dim.extent, depth) for dim in self.workload.dims)
        return self._visits[depth]

    def _choices(self, dim: str, extent: int, depth: int) -> int:
        """Return the choices of a dim's digits of so many loops: less than all where the last tile is smaller."""
        sizes, timed = {extent: 1}, 0
        for loop in self.loops:
            is_timed = isinstance(loop.node, Temporal)
            if is_timed and timed == depth:
                break
            timed += is_timed
            if loop.node.dim == dim:
                sizes = _cut(sizes, loop.tile) if is_timed else _first_siblings(sizes, loop.tile)
        return sum(sizes.values())


def _cut(sizes: dict[int, int], tile: int) -> dict[int, int]:
    """Return the sizes of tiles inside tiles, each with their number."""
    found: dict[int, int] = {}
    for size, count in sizes.items():
        whole, rest = divmod(size, tile)
        found[tile] = found.get(tile, 0) + count * whole
        if rest:
            found[rest] = found.get(rest, 0) + count
    return {size: count for size, count in found.items() if count}


def _first_siblings(sizes: dict[int, int], tile: int) -> dict[int, int]:
    """Return the sizes of the first siblings' tiles, each with their number."""
    found: dict[int, int] = {}
    for size, count in sizes.items():
        found[min(size, tile)] = found.get(min(size, tile), 0) + count
    return found


def unsupported_in_steps(workload: Workload, arch: Architecture) -> str:
    """Return why no mapping of a workload has a latency in steps of a machine; "" where each tree without branches has
    one."""
    if len(workload.statements) != 1:
        return "it has several statements"
    (statement,) = workload.statements
    if not is_box(statement):
        return "its domain is no box"
    for tensor in workload.tensors:
        if len(dict.fromkeys(accesses_of(statement, tensor.name))) > 1:
            return f"{tensor.name} is accessed in several ways"
        for level in arch.levels:
            if _cuts(level, tensor.bits):
                elements = f"{tensor.name}'s elements of {tensor.bits} bits"
                return f"beats, requests or the offset of '{level.name}' cut {elements}"
    if any(len(index.coefficients()) > 1 for index in statement.target.index):
        return f"tiles of {statement.target.tensor} overlap"
    return ""


def not_in_steps(workload: Workload, arch: Architecture, reason: str) -> Mistake:
    """Return the mistake of asking for a latency in steps that there is not."""
    what = f"the latency of {workload.name} in steps of {arch.name} is not counted: {reason}"
    hint = "Layers are: one statement over a box. Without step_cycles, beat_bits and the like all programs are."
    return Mistake("PM485", what, hint)


def _cuts(level: MemoryLevel, bits: int) -> bool:
    told = [each for each in (level.beat_bits, level.request_bits) if each is not None]
    return any(each % bits and bits % each for each in told) or bool(told and level.base_offset_bits % bits)


def _stages(workload: Workload, arch: Architecture, view: LoopView) -> list[_Stage]:
    """Return the levels that hold tiles, those with fewer loops above them first."""
    streams: dict[str, list[_Stream]] = {}
    for tensor in workload.tensors:
        sender = arch.levels[0]
        nodes = [node for node in view.storages if tensor.name in node.node.tensors]
        for node in nodes:
            level = arch.levels[arch.level_index(node.node.level)]
            if level is not arch.levels[0]:
                stream = _Stream(tensor, sender, sending_of(workload, arch, view, node, tensor, sender.name))
                if idle := stream.sending.idle_sums():
                    reason = f"siblings along {idle} that hold sums of {tensor.name} in {level.name} idle in between"
                    raise BudgetError(not_in_steps(workload, arch, reason))
                streams.setdefault(level.name, []).append(stream)
                sender = level
    stages = [
        _Stage(level, max(each.depth for each in streams[level.name]), tuple(streams[level.name]))
        for level in arch.levels
        if level.name in streams
    ]
    return sorted(stages, key=lambda stage: stage.depth)
