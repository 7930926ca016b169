"""What the steps of every level of a mapping load and store, by classes of steps: integers (docs/latency.md).

The steps of a level are those of the temporal loops above its innermost node. All that the advance of one loop begins
are of one class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, prod

from polymap.costmodel.arrivals import END, FIRST, Merge, Sending, as_added, as_one, as_sent, no_multicast
from polymap.costmodel.closed_form import lengths_at_digit, lengths_of_all_digits
from polymap.costmodel.contiguous import Blocks, Commands, SentMessages
from polymap.ir import (
    Architecture,
    MemoryLevel,
    Mistake,
    Operator,
    PlaceRule,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
    is_box,
    part_of,
    rule_of,
)
from polymap.schedules import LoopInTree

SentOften = tuple[SentMessages, int]  # messages, and how often each is sent


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
    last: what is stored at the end of the run, or of all visits of a child of a branch."""

    level: str
    depth: int
    steps: int
    advances: tuple[AdvanceCounts, ...]
    last: tuple[BusUse, ...]


@dataclass(frozen=True, slots=True)
class StepCounts:
    """The levels that hold tiles, those with fewer loops above them first. ticks: steps of statement instances;
    accesses: (level, bits read, bits written) of one instance by these, where it moves beats.

    begun: the visits, by the loops that begin them: of a tree the first step, of a child of a branch all iterations of
    the loops above the branch (what is preloaded: where it holds no tile itself). children: of the branch at the end,
    in order, instead of instances. statements: those below, in a tree with branches."""

    stages: tuple[StageCounts, ...]
    ticks: int
    accesses: tuple[tuple[str, Fraction, Fraction], ...]
    begun: tuple[AdvanceCounts, ...]
    children: tuple[StepCounts, ...] = ()
    statements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stage:
    """A level with nodes. depth: the temporal loops above the innermost; streams: what comes to its nodes and goes."""

    level: MemoryLevel
    depth: int
    streams: tuple[Stream, ...]


@dataclass(frozen=True, slots=True)
class Stream:
    """A tensor between a level that sends and the node that holds it next. begins: the temporal loops above the child
    of a branch in which the node stands, at whose advances it is empty."""

    tensor: Tensor
    sender: MemoryLevel
    sending: Sending
    begins: int = 0

    @property
    def depth(self) -> int:
        """The temporal loops above the node."""
        return len(self.sending.clock)


def stage_counts(stage: Stage, clock: Clock, beside: list[Stream], begins: int) -> StageCounts:
    """Return what the steps of a level move. begins: the loops above its nodes at whose advances these are empty."""
    found = tuple(advances_of((stage,), clock, stage.depth, begins, beside))
    last = _on_buses(stage, (END, *range(begins)), returns_of_advance)
    return StageCounts(stage.level.name, stage.depth, clock.visits_below[stage.depth], found, last)


def advances_of(
    stages: tuple[Stage, ...], clock: Clock, depth: int, begins: int, beside: list[Stream]
) -> Iterator[AdvanceCounts]:
    """Yield the steps below so many temporal loops by the loops that begin them. stages: the level whose steps these
    are, or none. beside: what is preloaded where it changes."""
    for advance in range(FIRST, depth):
        if not clock.begun(advance):
            continue
        loads = [use for stage in stages for use in _on_buses(stage, (advance,), loads_of_advance)]
        stores = [
            use for stage in stages if advance >= begins for use in _on_buses(stage, (advance,), returns_of_advance)
        ]
        yield AdvanceCounts(
            advance,
            clock.dims[advance] if advance != FIRST else "",
            clock.begun(advance),
            tuple(loads),
            tuple(stores),
            any(_is_preloaded(one, advance) for one in beside),
        )


def _is_preloaded(stream: Stream, advance: int) -> bool:
    """Return whether steps that an advance begins bring what computes beside its node."""
    if not is_read(stream) or advance >= stream.depth:
        return False
    return FIRST < advance < stream.begins or stream.sending.is_new(advance)


def _on_buses(
    stage: Stage, advances: tuple[int, ...], moved: Callable[[Stage, Stream, int], list[SentOften]]
) -> tuple[BusUse, ...]:
    """Return what messages of some advances use of the buses of the levels that send or get them, per tensor."""
    found: list[BusUse] = []
    for stream in stage.streams:
        level, bits = stream.sender, stream.tensor.bits
        if not _is_timed(level):
            continue  # its messages take no time
        beats = requests = 0
        for advance in advances:
            for sent, times in moved(stage, stream, advance):
                own = _beats_and_requests(sent, bits, level, loads=moved is loads_of_advance)
                beats, requests = beats + times * own[0], requests + times * own[1]
        found.append(BusUse(level.name, stream.tensor.name, beats, requests))
    return tuple(found)


def loads_of_advance(stage: Stage, stream: Stream, advance: int) -> list[SentOften]:
    """Return what is loaded: every tile in every step where the level does not keep those that are only read."""
    if not stage.level.keeps and is_read(stream) and advance < stream.depth:
        return sent_of(stream, advance, as_sent, whole=True)
    return _arrivals_of_advance(stream, advance)


def sent_of(
    stream: Stream, advance: int, merge: Merge, *, leaving: bool = False, whole: bool = False
) -> list[SentOften]:
    """Return the messages of all steps that an advance begins (`Sending.messages`), and how often each is sent."""
    times = stream.sending.repeats(advance, merge)
    return [(stream.sending.sent(advance, merge, leaving=leaving, whole=whole), times)] if times else []


def is_read(stream: Stream) -> bool:
    """Return whether a tensor is only read."""
    return rule_of(stream.sending.workload, stream.tensor.name) is PlaceRule.READ_ONLY


def _arrivals_of_advance(stream: Stream, advance: int) -> list[SentOften]:
    """Return what a node gets in all steps that an advance begins: of written tensors what was there before."""
    sending, is_empty = stream.sending, FIRST < advance < stream.begins
    if advance >= stream.depth:
        return []
    rule = rule_of(sending.workload, stream.tensor.name)
    if rule is PlaceRule.READ_ONLY:
        return sent_of(stream, advance, as_sent, whole=is_empty)
    statement = sending.workload.statements[0]
    if rule is PlaceRule.PLAIN:
        is_read = statement.operator is not Operator.ASSIGN or sending.access in statement.reads
        return sent_of(stream, advance, as_sent, whole=is_empty) if is_read else []
    returned = sending.returns(advance, initial=stream.tensor.initial)
    return [(sent, returned) for sent, _ in sent_of(stream, advance, as_one, whole=is_empty) if returned]


def returns_of_advance(_: Stage, stream: Stream, advance: int) -> list[SentOften]:
    """Return what a node of a written tensor gives back as an advance begins."""
    if is_read(stream) or advance >= stream.depth or advance == FIRST:
        return []
    merge = no_multicast if rule_of(stream.sending.workload, stream.tensor.name) is PlaceRule.PLAIN else as_added
    return sent_of(stream, advance, merge, leaving=True, whole=FIRST < advance < stream.begins)


def _beats_and_requests(sent: SentMessages, bits: int, level: MemoryLevel, *, loads: bool) -> tuple[int, int]:
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


def _pieces(sent: SentMessages, bits: int, block_bits: int, level: MemoryLevel) -> int:
    """Return the aligned pieces of so many bits that contiguous runs are cut into."""
    if block_bits <= bits:
        return sent.elements() * (bits // block_bits)
    blocks = Blocks(block_bits // bits, of_runs=True, of_rows=level.row_requests)
    return sent.blocks(blocks, level.base_offset_bits // bits)


def _requests(sent: SentMessages, bits: int, level: MemoryLevel) -> int:
    if level.request_bits is None:
        return sent.runs(of_rows=level.row_requests)
    return _pieces(sent, bits, level.request_bits, level)


@dataclass(frozen=True, slots=True)
class Clock:
    """The loops of a tree. dims: of the temporal loops, by their places; visits_below: how often the body below so many
    of them is visited. Fewer siblings have work than others at the end of a dim, the first as long as any."""

    dims: tuple[str, ...]
    visits_below: tuple[int, ...]

    @staticmethod
    def of(workload: Workload, loops: tuple[LoopInTree, ...]) -> Clock:
        """Return the clock of a tree. A dim has fewer choices of digits than the product of trips where the last tile
        is smaller."""
        dims: list[str] = []
        visits: list[int] = []
        sizes: dict[str, tuple[tuple[int, int], ...]] = {dim.name: ((dim.extent, 1),) for dim in workload.dims}
        choices = dict.fromkeys(sizes, 1)
        for loop in loops:
            dim = loop.node.dim
            if isinstance(loop.node, Temporal):
                visits.append(prod(choices.values()))
                dims.append(dim)
                sizes[dim] = lengths_of_all_digits(sizes[dim], loop.tile)
            else:
                sizes[dim] = lengths_at_digit(sizes[dim], 0, loop.tile)
            choices[dim] = sum(many for _, many in sizes[dim])
        return Clock(tuple(dims), (*visits, prod(choices.values())))

    def begun(self, advance: int) -> int:
        """Return how many steps the advance of a loop begins."""
        return 1 if advance == FIRST else self.visits_below[advance + 1] - self.visits_below[advance]


def unsupported_in_steps(workload: Workload, arch: Architecture) -> str:
    """Return why no mapping of a workload has a latency in steps of a machine; "" where each tree has one in which
    statements share no loops."""
    statement, *others = workload.statements
    if others:
        parts = (part_of(workload, (each,)) for each in workload.statements)
        return next((reason for each in parts if (reason := unsupported_in_steps(each, arch))), "")
    if not is_box(statement):
        return "its domain is no box"
    for tensor in workload.tensors:
        accesses = dict.fromkeys(accesses_of(statement, tensor.name))
        if len(accesses) > 1:
            return f"{tensor.name} is accessed in several ways"
        if any(not index.is_linear for access in accesses for index in access.index):
            return f"{tensor.name} is indexed by a division"
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
    hint = "Without step_cycles, beat_bits and the like it is (docs/latency.md)."
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


def takes_time(arch: Architecture, sender: MemoryLevel, level: MemoryLevel) -> bool:
    """Return whether messages from one level to another take any time, on the bus or in caches on the way."""
    between = arch.levels[arch.level_index(sender.name) + 1 : arch.level_index(level.name)]
    return _is_timed(sender) or any(misses_take_time(each) for each in between)


def misses_take_time(cache: MemoryLevel) -> bool:
    """Return whether lines that a level misses take time."""
    return bool(cache.implicit and cache.line_bits and (cache.miss_cycles or cache.write_miss_cycles))
