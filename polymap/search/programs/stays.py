"""What a storage node of one tensor would move and hold at every place of a shape (docs/counting.md), without fan-outs.

With the accesses sorted by element and time, an element's stay at a node ends where more than one view lies between
two of its accesses: one sort serves the nodes at all places.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from polymap.ir import Statement, Tensor, accesses_of
from polymap.resources import OutOfTime, Stop, never
from polymap.search.programs.instances import ASSIGN, READ, Ints, ProgramArrays
from polymap.search.programs.shapes import Place, Shape, ShapeTimes, Views


@dataclass(frozen=True, slots=True)
class NodeCount:
    """A node's elements; a temporary's that are needed no more are not drained. peak: most held at a time.
    change, held: the ranks at which what it holds changes, and to how much."""

    fills: int
    drains: int
    peak: int
    change: Ints
    held: Ints


@dataclass(slots=True)
class TensorTrace:
    """The accesses of one tensor, sorted by element and time. code: 0 read, 1 accumulated, 2 overwritten, 3 accumulated
    onto zero, before anything else.
    dead: of temporaries, after which of them the element is needed no more; of folding programs, its value."""

    tensor: Tensor
    element: Ints
    rank: Ints
    code: Ints
    users: range
    dead: NDArray[np.bool_] | None = None


@dataclass(slots=True)
class Stays:
    """Counts of one shape, found when they are asked for. stop: looked at before each; they raise OutOfTime then."""

    arrays: ProgramArrays
    shape: Shape
    when: ShapeTimes
    stop: Stop = never
    traces: dict[str, TensorTrace] = field(default_factory=dict[str, TensorTrace])
    counts: dict[tuple[str, Place], NodeCount] = field(default_factory=dict[tuple[str, Place], NodeCount])
    views: dict[Place, Views] = field(default_factory=dict[Place, Views])

    def trace(self, tensor: str) -> TensorTrace:
        if tensor not in self.traces:
            self.traces[tensor] = _trace(self.arrays, self.shape, self.when, tensor)
        return self.traces[tensor]

    def count(self, tensor: str, place: Place) -> NodeCount:
        """Return what a node of the tensor at this place moves and holds."""
        found = self.counts.get((tensor, place))
        if found is None:
            if self.stop():
                raise OutOfTime
            if place not in self.views:
                self.views[place] = self.when.views(place)
            found = _count_node(self.trace(tensor), place, self.when, self.views[place])
            scale = self.arrays.scales.get(tensor)
            if scale is not None:
                found = _scale_count(found, scale)
            self.counts[tensor, place] = found
        return found

    def starts(self, tensor: str, number: int) -> int:
        """Return how many elements a statement of the shape is the first to touch, adding onto zero."""
        trace = self.trace(tensor)
        return int((self.when.leaf[trace.rank[trace.code == 3]] == number).sum())

    def places(self, tensor: str) -> list[Place]:
        """Return the places, outermost first, below which the tensor is used."""
        return [place for place in self.when.group.places() if self.uses(tensor, place)]

    def uses(self, tensor: str, place: Place) -> bool:
        return any(self.is_user(number, tensor) for number in range(place.low, place.high))

    def is_user(self, number: int, tensor: str) -> bool:
        return bool(accesses_of(self.statement(number), tensor))

    def statement(self, number: int) -> Statement:
        return self.arrays.workload.statement(self.shape.statements[number])


def _trace(arrays: ProgramArrays, shape: Shape, when: ShapeTimes, tensor: str) -> TensorTrace:
    workload, accesses = arrays.workload, arrays.accesses[tensor]
    code = np.where(accesses.kind == READ, 0, np.where(accesses.kind == ASSIGN, 2, 1))
    bits = arrays.count.bit_length()
    key = ((accesses.element << bits) + when.rank[accesses.instance] << 2) + code
    key.sort()
    code = (key & 3).astype(np.int8)
    rank = (key >> 2 & (1 << bits) - 1).astype(np.int32)
    element = (key >> 2 + bits).astype(np.int32)
    users = [place for place, name in enumerate(shape.statements) if accesses_of(workload.statement(name), tensor)]
    other = element[1:] != element[:-1]
    if len(code) and not workload.tensor(tensor).initial:
        code[np.append([True], other) & (code == 1)] = 3
    about = workload.tensor(tensor), element, rank, code
    dead = None
    if workload.tensor(tensor).temporary and len(code):
        if arrays.folding:
            dead = np.append(other | (code[1:] == 2), [True])
        else:
            uses = np.cumsum(code != 2)
            last = np.append(np.flatnonzero(other), len(code) - 1)
            dead = uses == np.repeat(uses[last], np.diff(last, prepend=-1))
    return TensorTrace(*about, range(users[0], users[-1] + 1), dead)


def _scale_count(count: NodeCount, scale: float) -> NodeCount:
    """Return an estimate for all elements from what is counted of a part of them."""
    return NodeCount(
        round(count.fills * scale),
        round(count.drains * scale),
        round(count.peak * scale),
        count.change,
        np.rint(count.held * scale).astype(np.int64),
    )


def _count_node(trace: TensorTrace, place: Place, when: ShapeTimes, views: Views) -> NodeCount:
    """views: those of the place."""
    element, rank, code, dead = trace.element, trace.rank, trace.code, trace.dead
    if not (place.low <= trace.users.start and trace.users.stop <= place.high):
        leaf = when.leaf[rank]
        below = (leaf >= place.low) & (leaf < place.high)
        element, rank, code = element[below], rank[below], code[below]
        dead = None if dead is None else dead[below]
    view, starts, is_written = views.number[rank], views.starts, bool(code.any())
    if not is_written:
        view, starts = _own_views(view, views)
    start, new_view = _stays_and_views(element, view)
    held = np.bincount(view[new_view], minlength=len(starts))
    if not len(start):
        return NodeCount(0, 0, 0, starts[:1], held[:1])
    fills, drains = len(start), 0
    if is_written:
        ends = np.append(start[1:], len(view)) - 1
        lost = np.zeros(len(ends), dtype=bool) if dead is None else dead[ends]
        dirty = np.maximum.reduceat(code, start) > 0
        fills -= int((code[start] >= 2).sum())
        drains = int((dirty & ~lost).sum())
    moves = np.concatenate((np.ones(1, dtype=bool), held[1:] != held[:-1]))
    return NodeCount(fills, drains, int(held.max()), starts[moves], held[moves])


def _stays_and_views(element: Ints, view: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Return where stays begin, and whether an access is the first of its element in its view."""
    other = element[1:] != element[:-1]
    step = view[1:] - view[:-1]
    new_stay, new_view = np.ones(len(element), dtype=bool), np.ones(len(element), dtype=bool)
    new_stay[1:] = other | (step > 1)
    new_view[1:] = other | (step != 0)
    return np.flatnonzero(new_stay), new_view


def _own_views(view: Ints, views: Views) -> tuple[Ints, Ints]:
    """Return the views numbered over those in which the tensor is touched or nothing is held, and where these begin: in
    others an instance has nothing to do and keeps what it has. Where nothing is touched at first, view 0 is without
    elements."""
    kept = views.empty.copy()
    kept[view] = True
    kept[0] = True
    return (np.cumsum(kept, dtype=np.int32) - 1)[view], views.starts[kept]


def most_held(profiles: list[tuple[Ints, Ints, int]]) -> int:
    """Return the most that nodes hold together. profiles: (change, held, bits of an element) of each."""
    if len(profiles) < 2:
        return max((int(held.max()) * bits for _, held, bits in profiles), default=0)
    at = np.unique(np.concatenate([change for change, _, _ in profiles]))
    total = np.zeros(len(at), dtype=np.int64)
    for change, held, bits in profiles:
        total += held[np.searchsorted(change, at, side="right") - 1] * bits
    return int(total.max())
