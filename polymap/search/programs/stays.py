"""What a storage node of one tensor would move and hold at every place of a shape (docs/counting.md), without fan-outs.

With the accesses sorted by element and time, an element's stay at a node ends where more than one view lies between
two of its accesses: one sort serves the nodes at all places.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from polymap.ir import Statement, Tensor, Workload, accesses_of, is_plain, written_tensors
from polymap.search.programs.instances import ACCUMULATE, ASSIGN, READ, Ints, ProgramArrays
from polymap.search.programs.shapes import Group, Place, Shape, Timed


@dataclass(frozen=True, slots=True)
class NodeCount:
    """A node's elements. dying: of its drains at the end of the run, those of a temporary that are not made (they are
    not among the drains). peak: most held at one time; change, held: the ranks at which what it holds changes, and to
    how much."""

    fills: int
    drains: int
    stays: int
    dying: int
    peak: int
    change: Ints
    held: Ints


@dataclass(slots=True)
class TensorTrace:
    """The accesses of one tensor, sorted by element and time. code: 0 read, 1 accumulated, 2 overwritten."""

    tensor: Tensor
    element: Ints
    rank: Ints
    code: Ints
    plain: bool
    written: bool
    users: range


@dataclass(slots=True)
class Stays:
    """Counts of one shape, found when they are asked for."""

    arrays: ProgramArrays
    shape: Shape
    when: Timed
    traces: dict[str, TensorTrace] = field(default_factory=dict[str, TensorTrace])
    counts: dict[tuple[str, Place], NodeCount] = field(default_factory=dict[tuple[str, Place], NodeCount])
    views: dict[Place, Ints] = field(default_factory=dict[Place, Ints])

    def trace(self, tensor: str) -> TensorTrace:
        if tensor not in self.traces:
            self.traces[tensor] = _trace(self.arrays, self.shape, self.when, tensor)
        return self.traces[tensor]

    def count(self, tensor: str, place: Place) -> NodeCount:
        """Return what a node of the tensor at this place moves and holds."""
        found = self.counts.get((tensor, place))
        if found is None:
            if place not in self.views:
                self.views[place] = self.when.views(place)
            found = _counted(self.trace(tensor), place, self.when, self.views[place])
            self.counts[tensor, place] = found
        return found

    def places(self, tensor: str) -> list[Place]:
        """Return the places, outermost first, below which the tensor is used."""
        return [place for place in self.when.group.places() if self.uses(tensor, place)]

    def uses(self, tensor: str, place: Place) -> bool:
        return any(self.is_user(number, tensor) for number in range(place.low, place.high))

    def is_user(self, number: int, tensor: str) -> bool:
        return bool(accesses_of(self.statement(number), tensor))

    def statement(self, number: int) -> Statement:
        return self.arrays.workload.statement(self.shape.statements[number])


def _trace(arrays: ProgramArrays, shape: Shape, when: Timed, tensor: str) -> TensorTrace:
    workload, accesses = arrays.workload, arrays.accesses[tensor]
    code = np.where(accesses.kind == READ, 0, np.where(accesses.kind == ASSIGN, 2, 1))
    bits = arrays.count.bit_length()
    key = ((accesses.element << bits) + when.rank[accesses.instance] << 2) + code
    key.sort()
    code = (key & 3).astype(np.int8)
    rank = (key >> 2 & (1 << bits) - 1).astype(np.int32)
    element = (key >> 2 + bits).astype(np.int32)
    users = [place for place, name in enumerate(shape.statements) if accesses_of(workload.statement(name), tensor)]
    written = tensor in written_tensors(workload)
    about = workload.tensor(tensor), element, rank, code
    return TensorTrace(*about, is_plain(workload, tensor), written, range(users[0], users[-1] + 1))


def _counted(trace: TensorTrace, place: Place, when: Timed, views: Ints) -> NodeCount:
    element, rank, code = trace.element, trace.rank, trace.code
    below = None
    if not (place.low <= trace.users.start and trace.users.stop <= place.high):
        leaf = when.leaf[rank]
        below = (leaf >= place.low) & (leaf < place.high)
    firsts = np.ones(len(element), dtype=bool)
    firsts[1:] = element[1:] != element[:-1]
    if below is not None:
        element, rank, code, firsts = element[below], rank[below], code[below], firsts[below]
    if not trace.written:
        views = _own_views(views, rank)
    view = views[rank]
    new_view = np.ones(len(element), dtype=bool)
    same = element[1:] == element[:-1]
    step = view[1:] - view[:-1]
    new_view[1:] = ~same | (step != 0)
    new_stay = np.ones(len(element), dtype=bool)
    new_stay[1:] = ~same | (step > 1)
    change, held, peak = _profile(view[new_view], views, keeps=not trace.written)
    start = np.flatnonzero(new_stay)
    fills, drains, dying = len(start), 0, 0
    if trace.written:
        last_view = view[np.append(start[1:], len(view)) - 1]
        alive = (last_view == views[-1]) & trace.tensor.temporary
        if trace.plain:
            dirty = np.maximum.reduceat(code, start) > 0
            fills -= int((code[start] == 2).sum())
            drains, dying = int((dirty & ~alive).sum()), int((dirty & alive).sum())
        else:
            drains, dying = int((~alive).sum()), int(alive.sum())
            if not trace.tensor.initial:
                fills -= int(firsts[start].sum())
    return NodeCount(fills, drains, len(start), dying, peak, change, held)


def _own_views(views: Ints, rank: Ints) -> Ints:
    """Return by rank the views in which the tensor is touched, numbered without gaps: an instance with nothing to do
    keeps what it has, which for one instance is so until the next of its own views."""
    touched = np.zeros(int(views[-1]) + 1, dtype=bool)
    touched[views[rank]] = True
    return (np.cumsum(touched, dtype=np.int32) - 1)[views]


def _profile(view: Ints, views: Ints, *, keeps: bool) -> tuple[Ints, Ints, int]:
    """Return at which ranks what is held changes, and to what. view: of every element held, once per view.

    keeps: the views are those of `_own_views`, -1 before the first.
    """
    low = int(views[0])
    sizes = np.bincount(view - low, minlength=int(views[-1]) - low + 1)
    starts = np.flatnonzero(np.concatenate((np.ones(1, dtype=bool), views[1:] != views[:-1])))
    sizes = sizes[: len(starts)]
    if keeps:
        assert int(views[-1]) - low + 1 == len(starts)
    moves = np.concatenate((np.ones(1, dtype=bool), sizes[1:] != sizes[:-1]))
    return starts[moves], sizes[moves], int(sizes.max())


def most_held(profiles: list[tuple[Ints, Ints, int]]) -> int:
    """Return the most that nodes hold together. profiles: (change, held, bits of an element) of each."""
    if len(profiles) < 2:
        return max((int(held.max()) * bits for _, held, bits in profiles), default=0)
    at = np.unique(np.concatenate([change for change, _, _ in profiles]))
    total = np.zeros(len(at), dtype=np.int64)
    for change, held, bits in profiles:
        total += held[np.searchsorted(change, at, side="right") - 1] * bits
    return int(total.max())
