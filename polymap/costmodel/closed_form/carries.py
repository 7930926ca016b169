"""One node of one tensor where tiles need not divide: what its loops mean to it, and sums over its carries.

A carry is the innermost temporal loop that steps on; the loops inside it start again. Along each dim what happens at a
carry depends only on how many of the dim's temporal loops are outside of it, so each dim is a `Line` of two functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import IntEnum
from math import prod
from typing import Protocol

from polymap.costmodel.closed_form.digits import (
    Chain,
    Clock,
    Cut,
    Link,
    Part,
    Track,
    all_indices,
    changes,
    kept_indices,
    places,
)
from polymap.costmodel.closed_form.groups import TensorModel
from polymap.costmodel.closed_form.nest import TEMPORAL, Loop, MachineModel, Nest, Node

Pins = Mapping[int, int]  # position of a spatial loop -> the one digit of it that counts
Judge = Callable[[tuple[Track, ...]], bool]  # of what siblings have now and had before
Axes = tuple[tuple[int, int, Chain], ...]  # of a window: coefficient, extent, chain per dim
NO_PINS: Pins = {}


class Siblings(IntEnum):
    """How the instances below one parent instance count."""

    APART = 0
    MERGED = 1
    MULTICAST = 2
    ADDED = 3


def always(_: tuple[Track, ...]) -> bool:
    """Return True: whatever the other siblings do."""
    return True


def none_starts(tracks: tuple[Track, ...]) -> bool:
    """Return whether every sibling that works now worked before."""
    return all(before > 0 for now, before in tracks if now > 0)


def none_stops(tracks: tuple[Track, ...]) -> bool:
    """Return whether every sibling that worked before works now."""
    return all(now > 0 for now, before in tracks if before > 0)


def none_moves(tracks: tuple[Track, ...]) -> bool:
    """Return whether the same siblings work as before."""
    return none_starts(tracks) and none_stops(tracks)


class Line(Protocol):
    """One dim: its elements, or the places that work where the tensor lacks it, over all steps (`whole`), and those
    kept at a carry of another dim (`still`) or of this one (`moving`) with `outside` of its temporal loops outside."""

    whole: int

    def still(self, outside: int) -> int: ...

    def moving(self, outside: int) -> int: ...


class EvenSingle:
    """A dim that elements tell, all its tiles dividing: kept only while none of its loops moves."""

    __slots__ = ("_times", "whole")

    def __init__(self, extent: int, loops: tuple[Loop[int], ...], chain: Chain) -> None:
        pinned = prod(loop.trips for loop, link in zip(loops, chain, strict=False) if link[1] is Part.PINNED)
        self.whole = extent // pinned
        self._times = sum(part is Part.TIME for _, part, _ in chain)

    def still(self, outside: int) -> int:
        return self.whole if outside == self._times else 0

    def moving(self, outside: int) -> int:
        return 0


class EvenIdle:
    """A dim that the tensor lacks, all its tiles dividing: every place works in every step."""

    __slots__ = ("_places", "whole")

    def __init__(self, loops: tuple[Loop[int], ...], chain: Chain) -> None:
        self._places = [1]
        for loop, (_, part, _) in zip(loops, chain, strict=False):
            if part is Part.EACH:
                self._places = [places * loop.trips for places in self._places]
            elif part is Part.TIME:
                self._places.append(self._places[-1] * loop.trips)
        self.whole = self._places[-1]

    def still(self, outside: int) -> int:
        return self._places[outside]

    def moving(self, outside: int) -> int:
        return self._places[outside + 1] - self._places[outside]


class RaggedSingle:
    """A dim that elements tell: tiles of different digits are disjoint, so a tile is kept whole or not at all."""

    __slots__ = ("_chain", "_clock", "_extent", "whole")

    def __init__(self, extent: int, chain: Chain, clock: Clock) -> None:
        self._extent, self._chain, self._clock = extent, chain, clock
        self.whole = all_indices(extent, chain)

    def still(self, outside: int) -> int:
        return kept_indices(self._extent, self._chain, outside, self._clock)

    def moving(self, outside: int) -> int:
        return 0


class RaggedIdle:
    """A dim that the tensor lacks, on each instance's own clock: an idle instance keeps what it has."""

    __slots__ = ("_chain", "_extent", "whole")

    def __init__(self, extent: int, chain: Chain) -> None:
        self._extent, self._chain = extent, chain
        self.whole = places(chain, sum(part is Part.TIME for _, part, _ in chain), extent)

    def still(self, outside: int) -> int:
        return places(self._chain, outside, self._extent)

    def moving(self, outside: int) -> int:
        return self.still(outside + 1) - self.still(outside)


class JudgedIdle(RaggedIdle):
    """The same on the machine's clock: an idle instance holds nothing, and a judge says which steps count."""

    __slots__ = ("_judge",)

    def __init__(self, extent: int, chain: Chain, judge: Judge) -> None:
        super().__init__(extent, chain)
        self._judge = judge

    def still(self, outside: int) -> int:
        return self._sum(Cut(outside, moved=False))

    def moving(self, outside: int) -> int:
        return self._sum(Cut(outside, moved=True))

    def _sum(self, cut: Cut) -> int:
        return sum(times for times, tracks in changes(self._extent, self._chain, cut) if self._judge(tracks))


class Chains:
    """What the loops of each dim are to the nodes of one mapping; remembered, as tensors ask for the same."""

    __slots__ = ("_known", "_machine", "nest")

    def __init__(self, machine: MachineModel, nest: Nest) -> None:
        self._machine, self.nest = machine, nest
        self._known: dict[
            tuple[int, int, int, Siblings, tuple[tuple[int, int], ...]], tuple[tuple[Chain, ...], ...]
        ] = {}

    def at(self, between: tuple[Node, Node], siblings: Siblings, pins: Pins) -> tuple[tuple[Chain, ...], ...]:
        """Return the chains of all dims twice: as they are to a tensor that lacks a dim or has it in a window, and to
        one whose elements tell it. pins count for the former only at the fan-outs above what is counted together."""
        parent, node = between
        above = 0 if siblings is Siblings.APART else parent.fans
        key = (node.position, node.fans, above, siblings, tuple(pins.items()))
        found = self._known.get(key)
        if found is None:
            parts = _parts(self._machine, parent, node, siblings)
            fans = node.fans if siblings is Siblings.APART else parent.fans
            shared = tuple(_chain(loops, node, parts, pins, fans) for loops in self.nest.chains)
            told = tuple(_chain(loops, node, parts, pins, len(parts)) for loops in self.nest.chains) if pins else shared
            found = self._known[key] = (shared, told)
        return found


def axes_of(extents: tuple[int, ...], chains: tuple[Chain, ...], tensor: TensorModel) -> tuple[Axes, ...]:
    """Return the axes of a tensor's windows."""
    return tuple(
        tuple((factor, extents[dim], chains[dim]) for dim, factor in window.terms) for window in tensor.windows
    )


class Scene:
    """lines: of the singles and of the dims that the tensor lacks. fixed: the product of dims without loops. whole: of
    all these. axes: of the windows."""

    __slots__ = ("above", "axes", "chains", "extents", "fixed", "lines", "tensor", "whole")

    def __init__(
        self,
        extents: tuple[int, ...],
        chains: Chains,
        tensor: TensorModel,
        between: tuple[Node, Node],
        siblings: Siblings,
        pins: Pins,
        clock: Clock,
        judge: Judge,
    ) -> None:
        nest = chains.nest
        self.tensor, self.extents = tensor, extents
        self.above = [loop for loop in nest.loops if loop.fanout == TEMPORAL and loop.position < between[1].position]
        shared, told = chains.at(between, siblings, pins)
        self.chains = tuple(told[dim] if kind == 1 else shared[dim] for dim, kind in enumerate(tensor.kinds))
        self.lines: dict[int, Line] = {}
        self.fixed = 1
        for dim, (loops, chain) in enumerate(zip(nest.chains, self.chains, strict=True)):
            kind, extent = tensor.kinds[dim], extents[dim]
            if kind == 2:
                continue
            if not chain:
                self.fixed *= extent if kind else 1
                continue
            if nest.even[dim]:
                line: Line = EvenSingle(extent, loops, chain) if kind else EvenIdle(loops, chain)
            elif kind:
                line = RaggedSingle(extent, chain, clock)
            else:
                alone = clock is Clock.OWN or all(part is Part.TIME for _, part, _ in chain)
                line = RaggedIdle(extent, chain) if alone else JudgedIdle(extent, chain, judge)
            self.lines[dim] = line
        self.whole = self.fixed * prod(line.whole for line in self.lines.values())
        self.axes = axes_of(extents, self.chains, tensor)

    def carries(self) -> Iterator[tuple[int, tuple[tuple[Cut, ...], ...]]]:
        """Yield (what the lines keep, the cuts of each window's dims) per carry at which they keep anything."""
        outside: dict[int, int] = {}
        for loop in self.above:
            outside[loop.dim] = outside.get(loop.dim, 0) + 1
        factors = {dim: line.still(outside.get(dim, 0)) for dim, line in self.lines.items()}
        for loop in reversed(self.above):
            dim = loop.dim
            outside[dim] -= 1
            line = self.lines.get(dim)
            if line is not None:
                factors[dim] = line.moving(outside[dim])
            kept = self.fixed * prod(factors.values())
            if kept:
                yield (
                    kept,
                    tuple(
                        tuple(Cut(outside.get(each, 0), each == dim) for each, _ in window.terms)
                        for window in self.tensor.windows
                    ),
                )
            if line is not None:
                factors[dim] = line.still(outside[dim])
                if self.tensor.kinds[dim] == 1 and not factors[dim]:
                    return  # further out every carry moves this dim


def _parts(machine: MachineModel, parent: Node, node: Node, siblings: Siblings) -> tuple[Part, ...]:
    """Return per fan-out what its loops mean to the node."""
    parts: list[Part] = []
    for fanout in range(len(machine.adds)):
        if fanout >= node.fans:
            parts.append(Part.FREE)
        elif fanout < parent.fans or siblings is Siblings.APART:
            parts.append(Part.EACH)
        elif siblings is Siblings.MULTICAST:
            united = Part.UNITED if machine.unites[fanout] else Part.MERGED
            parts.append(Part.EACH if machine.repeats[fanout] else united)
        else:
            merged = siblings is Siblings.MERGED or machine.adds[fanout]
            parts.append(Part.MERGED if merged else Part.EACH)
    return tuple(parts)


def _chain(loops: tuple[Loop[int], ...], node: Node, parts: tuple[Part, ...], pins: Pins, pinned: int) -> Chain:
    """Return what the loops of one dim are to the node, without the FREE ones inside all others (their digits span
    what the others leave). pinned: pins count for loops over so many fan-outs, the outermost first."""
    links: list[Link] = []
    last = 0
    for loop in loops:
        if loop.fanout == TEMPORAL:
            part, pin = Part.TIME if loop.position < node.position else Part.FREE, 0
        elif loop.position in pins and loop.fanout < pinned:
            part, pin = Part.PINNED, pins[loop.position]
        else:
            part, pin = parts[loop.fanout], 0
        links.append((loop.tile, part, pin))
        if part is not Part.FREE:
            last = len(links)
    return tuple(links[:last])
