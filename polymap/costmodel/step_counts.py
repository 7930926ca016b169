"""What the steps of every level of a mapping load and store, by classes of steps: integers (docs/latency.md).

The steps of a level are those of the temporal loops above its innermost node. All that the advance of one loop begins
are of one class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from math import gcd, prod

import numpy as np

from polymap.costmodel.arrivals import END, FIRST, Merge, Sending, alone, as_added, as_one, as_sent, sending_of
from polymap.costmodel.closed_form import common_access, whole_access
from polymap.costmodel.contiguous import Blocks, Commands, Ints, Sent, united
from polymap.costmodel.counting import counted
from polymap.costmodel.counts import Counts
from polymap.costmodel.tuning import TUNING
from polymap.ir import (
    Architecture,
    Branch,
    BudgetError,
    Compute,
    Mapping,
    MappingNode,
    MemoryLevel,
    Mistake,
    Operator,
    PlaceRule,
    Spatial,
    Statement,
    Storage,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
    is_box,
    part_of,
    rule_of,
    statements_below,
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
class _Stage:
    """A level with nodes. depth: the temporal loops above the innermost; streams: what comes to its nodes and goes."""

    level: MemoryLevel
    depth: int
    streams: tuple[_Stream, ...]


@dataclass(frozen=True, slots=True)
class _Stream:
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
    clock: _Clock

    @property
    def statement(self) -> Statement:
        """The only one."""
        return self.workload.statements[0]

    def streams(self, arch: Architecture) -> Iterator[tuple[int, MemoryLevel, _Stream]]:
        """Yield what comes to each node on the way of each tensor and goes, with the node's place."""
        for tensor in self.workload.tensors:
            sender = arch.levels[0]
            for node in self.view.storages:
                level = arch.levels[arch.level_index(node.node.level)]
                if tensor.name in node.node.tensors and level is not arch.levels[0]:
                    sending = sending_of(self.workload, arch, self.view, node, tensor, sender.name)
                    yield node.position, level, _Stream(tensor, sender, sending, self.begins(node.position))
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
    streams: dict[str, list[tuple[int, MemoryLevel, _Stream]]]

    @staticmethod
    def of(workload: Workload, arch: Architecture, mapping: Mapping, counts: Counts) -> _Tree:
        """Return the tree of a mapping; raises BudgetError where its steps are not counted."""
        legs: dict[str, _Leg] = {}
        for name, nodes, starts in _ways(mapping.nodes, (), (0,)):
            own = workload if len(workload.statements) == 1 else part_of(workload, (workload.statement(name),))
            reason = unsupported_in_steps(own, arch)
            if len(legs) or len(starts) > 1:
                reason = reason or _unsupported_in_branches(own, arch, nodes[: starts[-1]])
            if reason:
                raise BudgetError(not_in_steps(workload, arch, reason))
            view = view_of(own.extents(), Mapping(nodes))
            legs[name] = _Leg(own, Mapping(nodes), starts, view, _Clock(view.loops, own))
        return _Tree(workload, arch, counts, legs, {name: [*leg.streams(arch)] for name, leg in legs.items()})

    def counted(self, nodes: tuple[MappingNode, ...], above: tuple[MappingNode, ...]) -> StepCounts:
        """Return the counts of a child of a branch, or of all. above: the nodes around."""
        legs = [self.legs[name] for name in statements_below(nodes)]
        clock, begins = legs[0].clock, sum(isinstance(node, Temporal) for node in above)
        stages = self._stages(len(above), len(above) + len(nodes), legs)
        branch = nodes[-1]
        children, beside, ticks, accesses = (
            list[StepCounts](),
            list[_Stream](),
            0,
            list[tuple[str, Fraction, Fraction]](),
        )
        if isinstance(branch, Branch):
            children = [self.counted(each, (*above, *nodes[:-1])) for each in branch.children]
        else:
            own = self.streams[legs[0].statement.name]
            beside = [stream for _, level, stream in own if _is_beside_compute(self.arch, level)]
            ticks, accesses = self._computed(legs[0])
        missed = [] if begins or len(legs) > 1 else list(_missed(self.workload, self.arch, legs[0].view, stages))
        return StepCounts(
            tuple(
                _with_misses(_stage_counts(stage, clock, beside if stage is stages[-1] else [], begins), missed)
                for stage in stages
            ),
            ticks,
            tuple(accesses),
            tuple(_advances_of((), clock, begins, begins, [] if stages else beside)),
            tuple(children),
            tuple(leg.statement.name for leg in legs) if len(self.legs) > 1 else (),
        )

    def _stages(self, first: int, end: int, legs: list[_Leg]) -> list[_Stage]:
        """Return the levels that hold tiles in nodes from one place on the way of some legs to another, those with
        fewer loops above them first."""
        depths, streams = dict[str, int](), dict[str, list[_Stream]]()
        for tensor in self.workload.tensors:
            users = [leg for leg in legs if accesses_of(leg.statement, tensor.name)]
            for place, level, stream in self.streams[users[0].statement.name] if users else ():
                if stream.tensor.name != tensor.name or not first <= place < end:
                    continue
                depths[level.name] = max(depths.get(level.name, 0), stream.depth)
                if not self._is_dead(tensor, users, stream):
                    self._check_idle(stream, level)
                    streams.setdefault(level.name, []).append(stream)
        stages = [
            _Stage(level, depths[level.name], tuple(streams.get(level.name, ())))
            for level in self.arch.levels
            if level.name in depths
        ]
        return sorted(stages, key=lambda stage: stage.depth)

    def _check_idle(self, stream: _Stream, level: MemoryLevel) -> None:
        if _takes_time(self.arch, stream.sender, level) and (idle := stream.sending.idle_sums()):
            reason = f"siblings along {idle} that hold sums of {stream.tensor.name} in {level.name} idle in between"
            raise BudgetError(not_in_steps(self.workload, self.arch, reason))

    def _is_dead(self, tensor: Tensor, users: list[_Leg], stream: _Stream) -> bool:
        """Return whether nothing of a tensor passes a node, as all statements that access it are below. users: the legs
        below that do, the first of which the stream is of."""
        name, statements, sending = tensor.name, [leg.statement for leg in users], stream.sending
        writers = [each for each in statements if each.target.tensor == name]
        if len(self.workload.statements) == 1:
            return False
        reason = ""
        if len(users) > 1:
            cut = [loop.node.dim for loop in users[0].view.loops[: self._shared_loops(users)]]
            if len(writers) > 1 or (writers and writers != statements[:1]):
                reason = f"several statements below one node write {name}, or read it before"
            elif common_access(self.workload, statements, tensor, cut) is None:
                reason = f"statements below one node may touch unlike parts of {name}"
            elif writers and any(
                each.trips > 1 and each.dim not in stream.sending.own_dims for each in stream.sending.clock
            ):
                reason = f"{name} is read below the loops that sum it up"
        if tensor.temporary and writers and not reason:
            later = [each for each in self.workload.statements if each not in statements and accesses_of(each, name)]
            if all(each.position < writers[0].position for each in later) and len(users) > 1:
                return not later
            if not any(whole_access(self.workload, e, tensor) for e in later if e.position > writers[0].position):
                reason = f"a part of {name}, which is temporary, may be read by no later statement"
        if reason:
            raise BudgetError(not_in_steps(self.workload, self.arch, reason))
        return False

    def _shared_loops(self, users: list[_Leg]) -> int:
        """Return the loops above all of some legs."""
        ways = [[loop.position for loop in leg.view.loops if loop.position < leg.starts[-1]] for leg in users]
        return min(map(len, ways))

    def _computed(self, leg: _Leg) -> tuple[int, list[tuple[str, Fraction, Fraction]]]:
        """Return the steps of statement instances of a leg, and what these access at levels with beats."""
        if len(self.legs) == 1:
            return self.counts.steps, [*_accesses(self.workload, self.arch, leg.view, self.counts)]
        ticks = leg.clock.visits(sum(isinstance(loop.node, Temporal) for loop in leg.view.loops))
        if not any(level.beat_bits is not None for level in self.arch.levels):
            return ticks, []
        held = (
            replace(node, tensors=tuple(name for name in node.tensors if accesses_of(leg.statement, name)))
            if isinstance(node, Storage)
            else node
            for node in leg.mapping.nodes
        )
        mapping = Mapping(tuple(node for node in held if not isinstance(node, Storage) or node.tensors))
        counts, _ = counted(leg.workload, self.arch, mapping, seconds=TUNING.count_limit_s)
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
    if any(_misses_take_time(level) for level in arch.levels):
        return "lines that caches miss below branches are not told"
    if not alone.associative and statement.operator is not Operator.ASSIGN:
        return "its sums are added in order"
    for node in above:
        if isinstance(node, Temporal | Spatial) and node.dim not in statement.dims:
            return f"a loop over {node.dim} stands above {statement.name}, which has no such dim"
    return ""


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


def _stage_counts(stage: _Stage, clock: _Clock, beside: list[_Stream], begins: int) -> StageCounts:
    """Return what the steps of a level move. begins: the loops above its nodes at whose advances these are empty."""
    found = tuple(_advances_of((stage,), clock, stage.depth, begins, beside))
    last = _on_buses(stage, (END, *range(begins)), _leaving)
    return StageCounts(stage.level.name, stage.depth, clock.visits(stage.depth), found, last)


def _advances_of(
    stages: tuple[_Stage, ...], clock: _Clock, depth: int, begins: int, beside: list[_Stream]
) -> Iterator[AdvanceCounts]:
    """Yield the steps below so many temporal loops by the loops that begin them. stages: the level whose steps these
    are, or none. beside: what is preloaded where it changes."""
    for advance in range(FIRST, depth):
        if not clock.begun(advance):
            continue
        loads = [use for stage in stages for use in _on_buses(stage, (advance,), _loading)]
        stores = [use for stage in stages if advance >= begins for use in _on_buses(stage, (advance,), _leaving)]
        yield AdvanceCounts(
            advance,
            clock.dim(advance) if advance != FIRST else "",
            clock.begun(advance),
            tuple(loads),
            tuple(stores),
            any(times and sent.messages for one in beside if _is_read(one) for sent, times in _arriving(one, advance)),
        )


def _on_buses(
    stage: _Stage, advances: tuple[int, ...], moved: Callable[[_Stage, _Stream, int], list[SentOften]]
) -> tuple[BusUse, ...]:
    """Return what messages of some advances use of the buses of the levels that send or get them, per tensor."""
    found: list[BusUse] = []
    for stream in stage.streams:
        level, bits = stream.sender, stream.tensor.bits
        if not _is_timed(level):
            continue  # its messages take no time
        beats = requests = 0
        for sent, times in (each for advance in advances for each in moved(stage, stream, advance)):
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
    return rule_of(stream.sending.workload, stream.tensor.name) is PlaceRule.READ_ONLY


def _arriving(stream: _Stream, advance: int) -> list[SentOften]:
    """Return what a node gets in all steps that an advance begins: of written tensors what was there before."""
    sending, is_empty = stream.sending, FIRST < advance < stream.begins
    if advance >= stream.depth:
        return []
    rule = rule_of(sending.workload, stream.tensor.name)
    if rule is PlaceRule.READ_ONLY:
        return _sent(stream, advance, as_sent, whole=is_empty)
    statement = sending.workload.statements[0]
    if rule is PlaceRule.PLAIN:
        is_read = statement.operator is not Operator.ASSIGN or sending.access in statement.reads
        return _sent(stream, advance, as_sent, whole=is_empty) if is_read else []
    returned = sending.returns(advance, initial=stream.tensor.initial)
    return [(sent, returned) for sent, _ in _sent(stream, advance, as_one, whole=is_empty) if returned]


def _leaving(_: _Stage, stream: _Stream, advance: int) -> list[SentOften]:
    """Return what a node of a written tensor gives back as an advance begins."""
    if _is_read(stream) or advance >= stream.depth or advance == FIRST:
        return []
    merge = alone if rule_of(stream.sending.workload, stream.tensor.name) is PlaceRule.PLAIN else as_added
    return _sent(stream, advance, merge, leaving=True, whole=FIRST < advance < stream.begins)


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
