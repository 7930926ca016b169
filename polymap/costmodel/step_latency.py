"""Latency in steps: what every step of a level loads, works on and stores, by classes of steps (docs/latency.md).

The steps of a level are those of the temporal loops above its innermost node. All that the advance of one loop begins
are of one class, in which every figure is the mean over its steps. A period is what the slowest resource takes, as
loads, work and stores of different steps run side by side where tiles have two slots; the first load and the last
stores stand alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import prod

from polymap.costmodel.arrivals import END, FIRST, Messages, Sending, alone, as_added, as_one, as_sent, sending_of
from polymap.costmodel.contiguous import Blocks
from polymap.costmodel.cost import StepClass, StepLatency
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


def latency_in_steps(workload: Workload, arch: Architecture, mapping: Mapping, counts: Counts) -> StepLatency:
    """Return the latency of a mapping in steps. counts: of the whole run.

    Raises BudgetError (PM485) where there is no such figure: several statements, domains that are no boxes, tensors
    that are accessed in several ways, written tensors whose tiles overlap, beats and offsets that cut elements.
    """
    reason = unsupported_in_steps(workload, arch)
    if reason or any(isinstance(node, Branch) for node in mapping.nodes):
        raise BudgetError(not_in_steps(workload, arch, reason or "its tree has branches"))
    view = view_of(workload.extents(), mapping)
    clock = _Clock(view.loops, workload)
    stages = _stages(workload, arch, mapping, view)
    inner: dict[int, Fraction] = {}  # advance -> the period of the next level inside
    classes: list[StepClass] = []
    computed = max(Fraction(counts.steps, arch.compute.per_cycle), _accessed(workload, arch, mapping, view, counts))
    below = 0
    for stage in reversed(stages or [None]):
        own = list(_classes(arch, stage, clock, inner, below, computed))
        classes[:0] = [each for _, each in own]
        inner = {advance: each.period_cycles for advance, each in own}
        below = stage.depth if stage else 0
    stored = sum((_stored(arch, stage, END) for stage in stages), Fraction(0))
    run = sum((clock.begun(advance) * period for advance, period in inner.items()), Fraction(0))
    return StepLatency(arch.start_cycles + run + stored, tuple(classes) if stages else ())


@dataclass(frozen=True, slots=True)
class _Clock:
    """The loops of a tree. Fewer siblings have work than others at the end of a dim, the first as long as any."""

    loops: tuple[LoopInTree, ...]
    workload: Workload

    def dim(self, advance: int) -> str:
        """Return the dim of a temporal loop, by its place among these."""
        return [loop.node.dim for loop in self.loops if isinstance(loop.node, Temporal)][advance]

    def begun(self, advance: int) -> int:
        """Return how many steps the advance of a loop begins."""
        return 1 if advance == FIRST else self.visits(advance + 1) - self.visits(advance)

    def visits(self, depth: int) -> int:
        """Return how often the body below so many loops is visited."""
        return prod(self._choices(dim.name, dim.extent, depth) for dim in self.workload.dims)

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


def _stages(workload: Workload, arch: Architecture, mapping: Mapping, view: LoopView) -> list[_Stage]:
    """Return the levels that hold tiles, those with fewer loops above them first."""
    streams: dict[str, list[_Stream]] = {}
    for tensor in workload.tensors:
        sender = arch.levels[0]
        nodes = [node for node in view.storages if tensor.name in node.node.tensors]
        for node in nodes:
            level = arch.levels[arch.level_index(node.node.level)]
            if level is not arch.levels[0]:
                stream = _Stream(tensor, sender, sending_of(workload, arch, mapping, node, tensor, sender.name))
                streams.setdefault(level.name, []).append(stream)
                sender = level
    stages = [
        _Stage(level, max(each.depth for each in streams[level.name]), tuple(streams[level.name]))
        for level in arch.levels
        if level.name in streams
    ]
    return sorted(stages, key=lambda stage: stage.depth)


def _classes(
    arch: Architecture, stage: _Stage | None, clock: _Clock, inner: dict[int, Fraction], below: int, computed: Fraction
) -> Iterator[tuple[int, StepClass]]:
    """Yield the classes of a level's steps. inner: the periods of the next level inside, whose loops end at `below`
    (none: statement instances are next, which take `computed` cycles in the whole run)."""
    depth = stage.depth if stage else 0
    visits = clock.visits(depth)
    repeated = sum((clock.begun(i) * inner[i] for i in range(depth, below) if i in inner), Fraction(0)) / visits
    for advance in range(FIRST, depth):
        begun = clock.begun(advance)
        if not begun:
            continue
        load = _loaded(arch, stage, advance) / begun if stage else Fraction(0)
        store = _stored(arch, stage, advance) / begun if stage else Fraction(0)
        if inner:
            work = inner[advance] + repeated if advance in inner else repeated
        else:
            work = _computed(arch, stage, advance, begun, computed / visits)
        period, binds = _period(arch, stage, advance, load, work, store)
        name = clock.dim(advance) if advance >= 0 else ""
        level = stage.level.name if stage else arch.compute.name
        yield advance, StepClass(level, name, begun, load, work, store, period, binds)


def _accessed(workload: Workload, arch: Architecture, mapping: Mapping, view: LoopView, counts: Counts) -> Fraction:
    """Return the cycles of what statement instances access at a level with beats: a beat for each element."""
    found = Fraction(0)
    for level in arch.levels:
        band = level.bandwidth_bits_per_cycle
        read_band, write_band = (
            level.read_bandwidth_bits_per_cycle or band,
            level.write_bandwidth_bits_per_cycle or band,
        )
        if level.beat_bits is None or read_band is None or write_band is None:
            continue
        above = {fanout.name for fanout in arch.fanouts_above(level.name)}
        instances = prod(loop.trips for loop in view.loops if getattr(loop.node, "fanout", None) in above)
        below = [fanout for fanout in arch.fanouts if fanout.name not in above]
        united = any(fanout.multicast.unites_tiles for fanout in below)
        cycles = Fraction(0)
        for tensor in workload.tensors:
            holders = [each.node.level for each in view.storages if tensor.name in each.node.tensors]
            if (holders[-1] if holders else arch.levels[0].name) == level.name:
                row = next(r for r in counts.traffic if (r.level, r.tensor) == (level.name, tensor.name))
                beat = tensor.bits if united else max(tensor.bits, level.beat_bits)
                cycles += beat * ((row.reads - row.drains) / read_band + (row.writes - row.fills) / write_band)
        found = max(found, cycles / instances)
    return found


def _period(
    arch: Architecture, stage: _Stage | None, advance: int, load: Fraction, work: Fraction, store: Fraction
) -> tuple[Fraction, str]:
    """Return what a step adds to the run, and what decides that."""
    issue = stage.level.step_cycles if stage else Fraction(0)
    waits = max((each.sender.request_latency_cycles for each in stage.streams), default=Fraction(0)) if stage else 0
    slots = max(2, stage.level.buffering) if stage and arch.overlap else 1
    in_turn = load + work + store + (waits if load else 0)
    if advance == FIRST:  # work waits for the first load
        more = max(issue - load, Fraction(0))
        found = {"work": work, "load": load, "issue": issue if more else Fraction(0)}
        return in_turn - store + more, max(found, key=lambda name: found[name])
    if slots == 1:
        return max(in_turn, issue), "issue" if issue > in_turn else "slots"
    found = {"work": work, "load": load, "store": store, "issue": issue, "slots": in_turn / slots}
    binds = max(found, key=lambda name: found[name])
    return found[binds], binds


def _computed(arch: Architecture, stage: _Stage | None, advance: int, begun: int, stream: Fraction) -> Fraction:
    """Return what one visit of the innermost nodes computes for."""
    unit = arch.compute
    loads = [each for each in stage.streams if _is_read(each)] if stage else []
    changes = [sum(each.count for each in _arriving(one, advance)) for one in loads]
    preload = unit.preload_cycles if any(changes) else Fraction(0)
    return max(stream, unit.pass_least_cycles) + unit.fill_cycles + preload


def _is_read(stream: _Stream) -> bool:
    return rule_of(stream.sending.workload, stream.tensor.name) is PlaceRule.READ_ONLY


def _arriving(stream: _Stream, advance: int) -> list[Messages]:
    """Return what a node gets in all steps that an advance begins: of written tensors what was there before."""
    sending = stream.sending
    if advance >= stream.depth:
        return []
    rule = rule_of(sending.workload, stream.tensor.name)
    if rule is PlaceRule.READ_ONLY:
        return sending.messages(advance, as_sent)
    statement = sending.workload.statements[0]
    if rule is PlaceRule.PLAIN:
        is_read = statement.operator is not Operator.ASSIGN or sending.access in statement.reads
        return sending.messages(advance, as_sent) if is_read else []
    returned = sending.returns(advance, initial=stream.tensor.initial)
    return [Messages(each.parts, each.starts, returned) for each in sending.messages(advance, as_one) if returned]


def _leaving(stream: _Stream, advance: int) -> list[Messages]:
    """Return what a node of a written tensor gives back as an advance begins."""
    if _is_read(stream) or advance >= stream.depth or advance == FIRST:
        return []
    merge = alone if rule_of(stream.sending.workload, stream.tensor.name) is PlaceRule.PLAIN else as_added
    return stream.sending.messages(advance, merge, leaving=True)


def _loaded(arch: Architecture, stage: _Stage, advance: int) -> Fraction:
    """Return the cycles of all loads that an advance begins: levels that send do so side by side."""
    found: dict[str, list[tuple[_Stream, list[Messages]]]] = {}
    for stream in stage.streams:
        messages = _arriving(stream, advance)
        if not stage.level.keeps and _is_read(stream) and advance < stream.depth:
            messages = stream.sending.messages(advance, as_sent, whole=True)
        found.setdefault(stream.sender.name, []).append((stream, messages))
    return max((_bus_cycles(each, writes=False) for each in found.values()), default=Fraction(0))


def _stored(arch: Architecture, stage: _Stage, advance: int) -> Fraction:
    """Return the cycles of all stores that an advance begins."""
    found: dict[str, list[tuple[_Stream, list[Messages]]]] = {}
    for stream in stage.streams:
        found.setdefault(stream.sender.name, []).append((stream, _leaving(stream, advance)))
    return max((_bus_cycles(each, writes=True) for each in found.values()), default=Fraction(0))


def _bus_cycles(moved: list[tuple[_Stream, list[Messages]]], *, writes: bool) -> Fraction:
    """Return the cycles that messages take on the bus of the level that sends them, or gets them back."""
    level = moved[0][0].sender
    band = level.write_bandwidth_bits_per_cycle if writes else level.read_bandwidth_bits_per_cycle
    band = band or level.bandwidth_bits_per_cycle
    beats, requests = 0, 0
    for stream, messages in moved:
        for each in messages:
            beats += _pieces(each, stream.tensor.bits, level.beat_bits or 1, level.base_offset_bits)
            if level.in_flight is not None and not writes:
                requests += _requests(each, stream.tensor.bits, level)
    cycles = beats * (level.beat_bits or 1) / band if band is not None else Fraction(0)
    if level.in_flight is None or writes:
        return cycles
    return max(cycles, (cycles + requests * level.request_latency_cycles) / level.in_flight)


def _pieces(messages: Messages, bits: int, block_bits: int, offset_bits: int) -> int:
    """Return the aligned pieces of so many bits that contiguous runs are cut into."""
    if block_bits <= bits:
        return messages.elements * (bits // block_bits)
    return messages.blocks(Blocks(block_bits // bits, of_runs=True), offset_bits // bits)


def _requests(messages: Messages, bits: int, level: MemoryLevel) -> int:
    if level.request_bits is None:
        return messages.runs
    return _pieces(messages, bits, level.request_bits, level.base_offset_bits)
