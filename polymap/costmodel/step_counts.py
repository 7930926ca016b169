"""What the steps of every level of a mapping load and store, by classes of steps: integers (docs/latency.md).

The steps of a level are those of the temporal loops above its innermost node. All that the advance of one loop begins
are of one class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from math import gcd, prod

import numpy as np

from polymap.costmodel.arrivals import END, FIRST, Merge, Sending, alone, as_added, as_one, as_sent, sending_of
from polymap.costmodel.contiguous import Blocks, Commands, Ints, Sent, united
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
    Storage,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
    is_box,
    rule_of,
)
from polymap.schedules import LoopInTree, LoopView, StorageInTree, view_of

SentOften = tuple[Sent, int]  # messages, and how often each is sent


@dataclass(frozen=True, slots=True)
class BusUse:
    """What moves of a tensor on the bus of one instance of a level: beats, and requests (of loads, where in_flight is
    told).

    missed: (cache, lines) that caches on the way do not have."""

    level: str
    tensor: str
    beats: int
    requests: int
    missed: tuple[tuple[str, Fraction], ...] = ()


@dataclass(frozen=True, slots=True)
class AdvanceCounts:
    """All steps of a level that the advance of one temporal loop begins (its place in the tree, FIRST for the first
    step, with loop ""). preloads: of the innermost level, whether tiles that are only read change right at the compute
    units."""

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
    """A level with nodes. depth: the temporal loops above the innermost; streams: what comes to its nodes and goes;
    timed: those of them that take time."""

    level: MemoryLevel
    depth: int
    streams: tuple[_Stream, ...]
    timed: tuple[_Stream, ...]


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
    clock = _clock_of(workload, view.loops)
    beside = [stream for stage in stages for stream in stage.streams if _is_beside_compute(arch, stage.level)]
    missed = list(_missed(workload, arch, view, stages))
    counted = tuple(
        _with_misses(_stage_counts(stage, clock, beside if stage is stages[-1] else []), missed) for stage in stages
    )
    return StepCounts(counted, counts.steps, tuple(_accesses(workload, arch, view, counts)))


@dataclass(frozen=True, slots=True)
class _Missed:
    """The lines of a cache that the whole run misses on the way between a level that sends and one that holds."""

    cache: str
    stage: str
    sender: str
    loads: Fraction
    stores: Fraction


def _missed(workload: Workload, arch: Architecture, view: LoopView, stages: list[_Stage]) -> Iterator[_Missed]:
    """Yield what caches miss that lie between a level that sends and one that holds, and hold no tile of the mapping.

    By working sets: a cache keeps what one visit of a loop's body touches of all tensors that pass, where it fits; a
    line is missed once in each visit of the outermost loop of which that is so, where the tensor's tile is another one.
    """
    for cache in arch.levels:
        if not _misses_take_time(cache):
            continue
        passing = [
            (stage, stream)
            for stage in stages
            for stream in stage.streams
            if arch.level_index(stream.sender.name) < arch.level_index(cache.name) < arch.level_index(stage.level.name)
        ]
        depths = range(max((stage.depth for stage, _ in passing), default=0) + 1)
        at = [[_passing_at(workload, arch, view, cache, one, depth) for _, one in passing] for depth in depths]
        kept = _kept(cache, at, [stream.depth for _, stream in passing])
        for place, (stage, stream) in enumerate(passing):
            own = [(_passing_loads(stage, stream), _passing_stores(stage, stream), kept[0][place])]  # nothing is kept
            own += (
                (_passing_loads(stage, each[place], changed=True), _passing_stores(stage, each[place]), share[place])
                for each, share in zip(at[1:], kept[1:], strict=True)
            )
            loads = sum((share * _lines(sent, stream, cache) for sent, _, share in own if share), Fraction(0))
            stores = sum((share * _lines(sent, stream, cache) for _, sent, share in own if share), Fraction(0))
            yield _Missed(cache.name, stage.level.name, stream.sender.name, loads, stores)


def _passing_loads(stage: _Stage, stream: _Stream, *, changed: bool = False) -> list[SentOften]:
    """Return the tiles that pass on the way in: all, or whole ones of tensors that are only read where an advance
    changes them."""
    found: list[SentOften] = []
    for advance in range(FIRST, stream.depth if changed else stage.depth):
        if not (changed and _is_read(stream)):
            found += _loading(stage, stream, advance)
        elif advance == FIRST or any(
            loop.place >= advance and loop.trips > 1 and loop.dim in stream.sending.own_dims
            for loop in stream.sending.clock
        ):
            found += _sent(stream, advance, as_sent, whole=True)
    return found


def _passing_stores(stage: _Stage, stream: _Stream) -> list[SentOften]:
    return [each for advance in (*range(stream.depth), END) for each in _leaving(stage, stream, advance)]


def _kept(cache: MemoryLevel, at: list[list[_Stream]], own: list[int]) -> list[list[Fraction]]:
    """Return per number of loops which share of each tensor's lines a cache keeps during one visit below so many, and
    no longer: those in its sets that the visit does not fill beyond their ways. Those below none are there before the
    run; instead the first row is what is not kept during one step.

    at: the streams below so many loops; own: below how many the nodes lie that they go to: nothing of them passes
    during a visit of a body further in.
    """
    lines = (cache.capacity_bits or 0) // (cache.line_bits or 1)
    sets = lines // cache.ways if cache.ways else 1
    tiles = [[_lines_of_sets(each, cache, sets) for each in streams] for streams in at]
    passing = [
        [tile * (depth <= most) for tile, most in zip(each, own, strict=True)] for depth, each in enumerate(tiles)
    ]
    fitting = [np.sum(each, axis=0) <= (cache.ways or lines) for each in passing]
    chosen = [~fitting[-1], *(now & ~before for before, now in pairwise(fitting))]
    return [
        [Fraction(int(tile[sets_chosen].sum()), max(1, int(tile.sum()))) for tile in listed]
        for listed, sets_chosen in zip([tiles[-1], *tiles[1:]], chosen, strict=True)
    ]


def _lines_of_sets(stream: _Stream, cache: MemoryLevel, sets: int) -> Ints:
    """Return how many lines of a tensor's first tile lie in each set of a cache."""
    assert cache.line_bits is not None, "only caches with lines miss any"
    size, base = cache.line_bits // stream.tensor.bits, stream.sender.base_offset_bits // stream.tensor.bits
    found = np.zeros(sets, np.int64)
    for sent, _ in _sent(stream, FIRST, as_sent, whole=True):
        for each in sent.messages:
            first = sum((start[:1] for start in each.starts), np.array([base]))
            parts = [_ends_of_lines(part, size) if place == each.row else part for place, part in enumerate(each.parts)]
            numbers = np.unique((united(parts) + first) // size)
            found += np.bincount(numbers % sets, minlength=sets)
    return found


def _ends_of_lines(row: Ints, size: int) -> Ints:
    """Return some of the offsets of a row that touch the same lines, wherever it begins."""
    is_whole = int(row[-1] - row[0]) == len(row) - 1
    return np.unique(np.concatenate([row[::size], row[-1:]])) if is_whole else row


def _passing_at(
    workload: Workload, arch: Architecture, view: LoopView, cache: MemoryLevel, stream: _Stream, depth: int
) -> _Stream:
    """Return what comes to a cache that would hold the tiles of a tensor below so many temporal loops."""
    timed = [loop.position for loop in view.loops if isinstance(loop.node, Temporal)]
    place = (*timed, view.computes[0].position)[min(depth, stream.depth)]
    node = StorageInTree(place, Storage(cache.name, (stream.tensor.name,)), ())
    return _Stream(
        stream.tensor, stream.sender, sending_of(workload, arch, view, node, stream.tensor, stream.sender.name)
    )


def _lines(sent: list[SentOften], stream: _Stream, cache: MemoryLevel) -> int:
    """Return the lines of a cache that messages touch."""
    assert cache.line_bits is not None, "only caches with lines miss any"
    blocks, base = Blocks(cache.line_bits // stream.tensor.bits, of_runs=False), stream.sender.base_offset_bits
    return sum(times * each.blocks(blocks, base // stream.tensor.bits) for each, times in sent)


def _with_misses(stage: StageCounts, missed: list[_Missed]) -> StageCounts:
    """Return the counts of a stage with what caches miss, shared among its steps as beats are."""
    own = [each for each in missed if each.stage == stage.level]
    if not own:
        return stage
    loads, stores = (
        {
            level: sum(use.beats for uses in kind for use in uses if use.level == level)
            for level in sorted(levels_of(kind))
        }
        for kind in ([each.loads for each in stage.advances], [*(each.stores for each in stage.advances), stage.last])
    )

    def shared(uses: tuple[BusUse, ...], beats: dict[str, int], *, writes: bool) -> tuple[BusUse, ...]:
        return tuple(
            replace(
                use,
                missed=tuple(
                    (each.cache, (each.stores if writes else each.loads) * Fraction(use.beats, beats[use.level]))
                    for each in own
                    if each.sender == use.level and use.beats
                ),
            )
            for use in uses
        )

    advances = tuple(
        replace(each, loads=shared(each.loads, loads, writes=False), stores=shared(each.stores, stores, writes=True))
        for each in stage.advances
    )
    return replace(stage, advances=advances, last=shared(stage.last, stores, writes=True))


def levels_of(uses: list[tuple[BusUse, ...]]) -> set[str]:
    """Return the levels whose buses are used."""
    return {use.level for each in uses for use in each}


def _is_beside_compute(arch: Architecture, level: MemoryLevel) -> bool:
    return len(arch.fanouts_above(level.name)) == len(arch.fanouts)


def _stage_counts(stage: _Stage, clock: _Clock, beside: list[_Stream]) -> StageCounts:
    advances = [advance for advance in range(FIRST, stage.depth) if clock.begun(advance)]
    found = tuple(
        AdvanceCounts(
            advance,
            clock.dims[advance] if advance != FIRST else "",
            clock.begun(advance),
            _on_buses(stage, advance, _loading),
            _on_buses(stage, advance, _leaving),
            any(one.depth > advance and one.sending.is_new(advance) for one in beside if _is_read(one)),
        )
        for advance in advances
    )
    return StageCounts(stage.level.name, stage.depth, clock.visits[stage.depth], found, _on_buses(stage, END, _leaving))


def _on_buses(
    stage: _Stage, advance: int, moved: Callable[[_Stage, _Stream, int], list[SentOften]]
) -> tuple[BusUse, ...]:
    """Return what messages use of the buses of the levels that send or get them, per tensor."""
    found: list[BusUse] = []
    for stream in stage.timed:
        level, bits = stream.sender, stream.tensor.bits
        beats = requests = 0
        for sent, times in moved(stage, stream, advance):
            own = _beats_and_requests(sent, bits, level, loads=moved is _loading)
            beats, requests = beats + times * own[0], requests + times * own[1]
        found.append(BusUse(level.name, stream.tensor.name, beats, requests))
    return tuple(found)


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
    return stream.sending.keeps


def _arriving(stream: _Stream, advance: int) -> list[SentOften]:
    """Return what a node gets in all steps that an advance begins: of written tensors what was there before."""
    sending = stream.sending
    if advance >= stream.depth:
        return []
    if _is_read(stream):
        return _sent(stream, advance, as_sent)
    statement = sending.workload.statements[0]
    if rule_of(sending.workload, stream.tensor.name) is PlaceRule.PLAIN:
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


def _beats_and_requests(sent: Sent, bits: int, level: MemoryLevel, *, loads: bool) -> tuple[int, int]:
    """Return the beats of messages, and the requests of loads, where they take time."""
    commands = commands_of(level, bits, loads=loads)
    if commands is None:
        asks = loads and level.in_flight is not None
        return _pieces(sent, bits, level.beat_bits or 1, level), _requests(sent, bits, level) if asks else 0
    return sent.commanded(commands, level.base_offset_bits * commands.units // bits)


def commands_of(level: MemoryLevel, bits: int, *, loads: bool) -> Commands | None:
    """Return the commands by which a level loads or stores elements of so many bits; None where it has none."""
    beat, asked = level.beat_bits or 1, level.request_bits
    size = level.command_bits if loads else level.write_command_bits
    if size is None:
        return None
    unit = gcd(bits, beat, asked or 0)
    doublings = (asked or 0) // beat
    in_powers = loads and bool(doublings) and asked == beat * doublings and doublings & (doublings - 1) == 0
    return Commands(bits // unit, beat // unit, asked and asked // unit, size // unit, in_powers)


def _pieces(sent: Sent, bits: int, block_bits: int, level: MemoryLevel) -> int:
    """Return the aligned pieces of so many bits that contiguous runs are cut into."""
    if block_bits <= bits:
        return sent.elements() * (bits // block_bits)
    blocks = Blocks(block_bits // bits, of_runs=True, of_rows=level.row_requests)
    return sent.blocks(blocks, level.base_offset_bits // bits)


def _requests(sent: Sent, bits: int, level: MemoryLevel) -> int:
    if level.request_bits is None:
        return sent.runs(of_rows=level.row_requests)
    return _pieces(sent, bits, level.request_bits, level)


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

    dims: tuple[str, ...]
    """Of the temporal loops, by their places."""
    visits: tuple[int, ...]
    """How often the body below so many of them is visited."""

    def begun(self, advance: int) -> int:
        """Return how many steps the advance of a loop begins."""
        return 1 if advance == FIRST else self.visits[advance + 1] - self.visits[advance]


def _clock_of(workload: Workload, loops: tuple[LoopInTree, ...]) -> _Clock:
    """Return the clock of a tree. A dim has fewer choices of digits than the product of trips where the last tile is
    smaller."""
    dims: list[str] = []
    visits: list[int] = []
    sizes = {dim.name: {dim.extent: 1} for dim in workload.dims}
    choices = dict.fromkeys(sizes, 1)
    for loop in loops:
        dim = loop.node.dim
        if isinstance(loop.node, Temporal):
            visits.append(prod(choices.values()))
            dims.append(dim)
            sizes[dim] = _cut(sizes[dim], loop.tile)
        else:
            sizes[dim] = _first_siblings(sizes[dim], loop.tile)
        choices[dim] = sum(sizes[dim].values())
    return _Clock(tuple(dims), (*visits, prod(choices.values())))


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
                return f"beats, requests, commands or the offset of '{level.name}' cut {elements}"
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
    if level.line_bits and (level.miss_cycles or level.write_miss_cycles) and level.line_bits % bits:
        return True
    commands = [each for each in (level.command_bits, level.write_command_bits) if each is not None]
    if any(each % bits for each in commands) or any(each % bits and bits % each for each in told):
        return True
    return bool(told or commands) and level.base_offset_bits % bits > 0


def _is_timed(sender: MemoryLevel) -> bool:
    return bool(sender.has_bandwidth or sender.in_flight is not None or sender.request_latency_cycles)


def _takes_time(arch: Architecture, sender: MemoryLevel, level: MemoryLevel) -> bool:
    """Return whether messages from one level to another take any time, on the bus or in caches on the way."""
    between = arch.levels[arch.level_index(sender.name) + 1 : arch.level_index(level.name)]
    return _is_timed(sender) or any(_misses_take_time(each) for each in between)


def _misses_take_time(cache: MemoryLevel) -> bool:
    return bool(cache.implicit and cache.line_bits and (cache.miss_cycles or cache.write_miss_cycles))


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
                if _takes_time(arch, sender, level) and (idle := stream.sending.idle_sums()):
                    reason = f"siblings along {idle} that hold sums of {tensor.name} in {level.name} idle in between"
                    raise BudgetError(not_in_steps(workload, arch, reason))
                streams.setdefault(level.name, []).append(stream)
                sender = level
    stages = [
        _Stage(
            level,
            max(each.depth for each in streams[level.name]),
            tuple(streams[level.name]),
            tuple(each for each in streams[level.name] if _is_timed(each.sender)),
        )
        for level in arch.levels
        if level.name in streams
    ]
    return sorted(stages, key=lambda stage: stage.depth)
