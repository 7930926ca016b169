"""What caches miss that lie between a level that sends and one that holds, by working sets (docs/latency.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from polymap.costmodel.arrivals import END, FIRST, as_sent, sending_of
from polymap.costmodel.contiguous import Blocks, Ints, distinct, unite_parts
from polymap.costmodel.step_counts import (
    BusUse,
    SentOften,
    Stage,
    StageCounts,
    Stream,
    is_read,
    loads_of_advance,
    misses_take_time,
    returns_of_advance,
    sent_of,
)
from polymap.ir import Architecture, MemoryLevel, Storage, Temporal, Workload
from polymap.schedules import LoopView, StorageInTree


@dataclass(frozen=True, slots=True)
class LineMisses:
    """The lines of a cache that the whole run misses on the way between a level that sends and one that holds."""

    cache: str
    stage: str
    sender: str
    loads: Fraction
    stores: Fraction


def missed_lines(workload: Workload, arch: Architecture, view: LoopView, stages: list[Stage]) -> Iterator[LineMisses]:
    """Yield what caches miss that lie between a level that sends and one that holds, and hold no tile of the mapping.

    By working sets: a cache keeps what one visit of a loop's body touches of all tensors that pass, where it fits; a
    line is missed once in each visit of the outermost loop of which that is so, where the tensor's tile is another one.
    """
    for cache in arch.levels:
        if not misses_take_time(cache):
            continue
        passing = [
            (stage, stream)
            for stage in stages
            for stream in stage.streams
            if arch.level_index(stream.sender.name) < arch.level_index(cache.name) < arch.level_index(stage.level.name)
        ]
        depths = range(max((stage.depth for stage, _ in passing), default=0) + 1)
        at = [[_passing_at(workload, arch, view, cache, one, depth) for _, one in passing] for depth in depths]
        kept = _kept_shares(cache, at, [stream.depth for _, stream in passing])
        for place, (stage, stream) in enumerate(passing):
            own = [(_passing_loads(stage, stream), _passing_stores(stage, stream), kept[0][place])]  # nothing is kept
            own += (
                (_passing_loads(stage, each[place], changed=True), _passing_stores(stage, each[place]), share[place])
                for each, share in zip(at[1:], kept[1:], strict=True)
            )
            loads = sum((share * _lines(sent, stream, cache) for sent, _, share in own if share), Fraction(0))
            stores = sum((share * _lines(sent, stream, cache) for _, sent, share in own if share), Fraction(0))
            yield LineMisses(cache.name, stage.level.name, stream.sender.name, loads, stores)


def _passing_loads(stage: Stage, stream: Stream, *, changed: bool = False) -> list[SentOften]:
    """Return the tiles that pass on the way in: all, or whole ones of tensors that are only read where an advance
    changes them."""
    found: list[SentOften] = []
    for advance in range(FIRST, stream.depth if changed else stage.depth):
        if not (changed and is_read(stream)):
            found += loads_of_advance(stage, stream, advance)
        elif advance == FIRST or any(
            loop.place >= advance and loop.trips > 1 and loop.dim in stream.sending.own_dims
            for loop in stream.sending.clock
        ):
            found += sent_of(stream, advance, as_sent, whole=True)
    return found


def _passing_stores(stage: Stage, stream: Stream) -> list[SentOften]:
    return [each for advance in (*range(stream.depth), END) for each in returns_of_advance(stage, stream, advance)]


def _kept_shares(cache: MemoryLevel, at: list[list[Stream]], own: list[int]) -> list[list[Fraction]]:
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


def _lines_of_sets(stream: Stream, cache: MemoryLevel, sets: int) -> Ints:
    """Return how many lines of a tensor's first tile lie in each set of a cache."""
    assert cache.line_bits is not None, "only caches with lines miss any"
    size, base = cache.line_bits // stream.tensor.bits, stream.sender.base_offset_bits // stream.tensor.bits
    found = np.zeros(sets, np.int64)
    for sent, _ in sent_of(stream, FIRST, as_sent, whole=True):
        for each in sent.messages:
            first = sum((start[:1] for start in each.starts), np.array([base]))
            parts = [_ends_of_lines(part, size) if place == each.row else part for place, part in enumerate(each.parts)]
            numbers = distinct((unite_parts(parts) + first) // size)
            found += np.bincount(numbers % sets, minlength=sets)
    return found


def _ends_of_lines(row: Ints, size: int) -> Ints:
    """Return some of the offsets of a row that touch the same lines, wherever it begins."""
    is_whole = int(row[-1] - row[0]) == len(row) - 1
    return distinct(np.concatenate([row[::size], row[-1:]])) if is_whole else row


def _passing_at(
    workload: Workload, arch: Architecture, view: LoopView, cache: MemoryLevel, stream: Stream, depth: int
) -> Stream:
    """Return what comes to a cache that would hold the tiles of a tensor below so many temporal loops."""
    timed = [loop.position for loop in view.loops if isinstance(loop.node, Temporal)]
    place = (*timed, view.computes[0].position)[min(depth, stream.depth)]
    node = StorageInTree(place, Storage(cache.name, (stream.tensor.name,)), ())
    return Stream(
        stream.tensor, stream.sender, sending_of(workload, arch, view, node, stream.tensor, stream.sender.name)
    )


def _lines(sent: list[SentOften], stream: Stream, cache: MemoryLevel) -> int:
    """Return the lines of a cache that messages touch."""
    assert cache.line_bits is not None, "only caches with lines miss any"
    blocks, base = Blocks(cache.line_bits // stream.tensor.bits, of_runs=False), stream.sender.base_offset_bits
    return sum(times * each.blocks(blocks, base // stream.tensor.bits) for each, times in sent)


def with_misses(stage: StageCounts, missed: list[LineMisses]) -> StageCounts:
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
