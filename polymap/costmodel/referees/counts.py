"""The traffic of tensors in one loop tree, counted over all statement instances at once: the referee's own counter.

It follows the definition (docs/counting.md) directly: it lists every (instance, element, step) that a tile holds; runs
of steps are residencies; sorting finds what enters, leaves and is shared. Nothing is estimated, and no code is shared
with the cost model. It is for one accumulation over a box, and for small problems only, as all instances are listed.

The tile of a node is chosen by the temporal loops above it, in order (its clock), and by the spatial loops over the
fan-outs above its level. Instances are numbered along the spatial loops, outermost fan-out first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from polymap.costmodel.referees.arrays import Ints, changes, join, starts, sum_by, unique
from polymap.ir import (
    Access,
    Architecture,
    Fanout,
    MemoryLevel,
    Mistake,
    Multicast,
    Operator,
    OptionError,
    Workload,
    accesses_of,
)

Numbers = tuple[int, ...]  # of loops


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop. tiles: of all loops over the dim from the outermost to this one. fanout: its position; None:
    temporal."""

    dim: str
    tiles: tuple[int, ...]
    fanout: int | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """A storage node. level: 0 is the outermost. clock: the temporal loops above it, by number."""

    level: int
    clock: Numbers


@dataclass(frozen=True, slots=True)
class Siblings:
    """Per instance: its owner (the instance of the parent), and its position along the fan-outs between them.

    The position is along those that do not merge loads (separate), that merge equal loads (shared), and that do not add
    partial sums (apart).
    """

    owner: Ints
    separate: Ints
    shared: Ints
    apart: Ints
    owners: int

    @property
    def count(self) -> int:
        return len(self.owner)


@dataclass(frozen=True, slots=True)
class PassedFanout:
    """A fan-out on the way between two places, by its number. outside: the inner instances as siblings below the
    instances above the fan-out; inside: below its children."""

    fanout: int
    outside: Siblings
    inside: Siblings


@dataclass(frozen=True, slots=True)
class Crossing:
    """Elements that cross a fan-out (docs/counting.md, "Wires")."""

    fanout: int
    messages: int = 0
    deliveries: int = 0
    collections: int = 0
    sums: int = 0


class Nest:
    """All statement instances of a workload, and the indices of its loops at each; loops are numbered as they occur."""

    def __init__(self, workload: Workload, arch: Architecture) -> None:
        statement = workload.statements[0]
        if len(workload.statements) != 1 or statement.constraints or statement.operator is Operator.ASSIGN:
            raise OptionError(Mistake("PM520", "exhaustive enumeration is for one accumulation over a box"))
        self.workload = workload
        self.extents = workload.extents()
        shape = tuple(self.extents.values())
        self.count = prod(shape)
        grid = np.indices(shape, dtype=np.int64).reshape(len(shape), self.count)
        self._values: dict[str, Ints] = dict(zip(self.extents, grid, strict=True))
        self.fanouts = arch.fanouts
        self.home: list[int] = []  # per fan-out the level directly above it
        level = -1
        for node in arch.nodes:
            level += isinstance(node, MemoryLevel)
            if isinstance(node, Fanout):
                self.home.append(level)
        self.levels = level + 1
        self.loops: list[Loop] = []
        self.trips: list[int] = []
        self._digits: list[Ints] = []
        self._met: dict[Loop, int] = {}
        self._codes: dict[Numbers, Ints] = {(): np.zeros(self.count, dtype=np.int64)}
        self._siblings: dict[tuple[Numbers, int, int], Siblings] = {}
        self._passed: dict[tuple[Numbers, int, int], tuple[PassedFanout, ...]] = {}

    def meet(self, loop: Loop) -> int:
        """Return the loop's number; a new one for a loop not met before."""
        if loop not in self._met:
            self._met[loop] = len(self.loops)
            self.loops.append(loop)
            rest = self._values[loop.dim]
            for tile in loop.tiles[:-1]:
                rest = rest % tile
            *outer, tile = self.extents[loop.dim], *loop.tiles
            self.trips.append(-(-outer[-1] // tile))  # nominal: rounded up
            self._digits.append(rest // tile)
        return self._met[loop]

    def elements(self, accesses: Sequence[Access]) -> tuple[Ints, int]:
        """Return [access, point] -> number of the element touched, and the number of elements."""
        rows = np.zeros((len(accesses), self.count), dtype=np.int64)
        for row, access in zip(rows, accesses, strict=True):
            tensor = self.workload.tensor(access.tensor)
            for index, extent, origin in zip(access.index, tensor.shape, tensor.origin, strict=True):
                row *= extent
                row += index.constant - origin
                for dim, coefficient in index.coefficients().items():
                    row += coefficient * self._values[dim]
        names, numbers = np.unique(rows, return_inverse=True)
        return numbers.reshape(rows.shape).astype(np.int64), len(names)

    def number(self, loops: Numbers) -> Ints:
        """Return per point one number that encodes the indices of `loops`, the first most significant."""
        if loops not in self._codes:
            *outer, last = loops
            self._codes[loops] = self.number(tuple(outer)) * self.trips[last] + self._digits[last]
        return self._codes[loops]

    def above(self, spatial: Numbers, level: int) -> Numbers:
        """Return the spatial loops over the fan-outs above a level; all for the compute unit (the number of levels)."""
        return tuple(number for number in spatial if self._home(number) < level)

    def _home(self, number: int) -> int:
        fanout = self.loops[number].fanout
        assert fanout is not None
        return self.home[fanout]

    def size(self, loops: Numbers) -> int:
        return prod(self.trips[number] for number in loops)

    def siblings(self, spatial: Numbers, parent: int, level: int) -> Siblings:
        """Return the positions of the instances of `level` below those of the level `parent`."""
        key = (spatial, parent, level)
        if key not in self._siblings:
            outside = sum(home < parent for home in self.home)
            self._siblings[key] = self._siblings_of(self.above(spatial, level), outside)
        return self._siblings[key]

    def passed(self, spatial: Numbers, parent: int, level: int) -> tuple[PassedFanout, ...]:
        """Return the fan-outs that cost energy between a level and one further in (the number of levels: the compute
        units)."""
        key = (spatial, parent, level)
        if key not in self._passed:
            loops = self.above(spatial, level)
            self._passed[key] = tuple(
                PassedFanout(number, self._siblings_of(loops, number), self._siblings_of(loops, number + 1))
                for number, home in enumerate(self.home)
                if parent <= home < level and self.fanouts[number].has_energies
            )
        return self._passed[key]

    def _siblings_of(self, loops: Numbers, outside: int) -> Siblings:
        """Return the positions of instances along these loops below owners that stand inside the first `outside`
        fan-outs."""
        numbers = np.arange(self.size(loops), dtype=np.int64)
        owner, separate, shared, apart = (np.zeros_like(numbers) for _ in range(4))
        weight, owners = len(numbers), 1
        for number in loops:
            trips, place = self.trips[number], self.loops[number].fanout or 0
            fanout = self.fanouts[place]
            weight //= trips
            digit = numbers // weight % trips
            if place < outside:
                owner = owner * trips + digit
                owners *= trips
                continue
            if fanout.multicast is Multicast.NONE:
                separate = separate * trips + digit
            elif fanout.multicast is Multicast.IDENTICAL:
                shared = shared * trips + digit
            if not fanout.reduction:
                apart = apart * trips + digit
        return Siblings(owner, separate, shared, apart, owners)


def _messages(siblings: Siblings, instance: Ints, time: Ints, element: Ints) -> Ints:
    """Return the elements read per owner if the instances load `element` at `time`, merged by multicast."""
    shared = siblings.shared[instance]
    members = int(shared.max()) + 1
    size = int(element.max()) + 1
    groups = join(siblings.owner[instance], siblings.separate[instance], time)
    loads = unique((groups * members + shared) * size + element)
    sender, what = loads // size, loads % size
    group = sender // members
    inner = (int(siblings.separate[instance].max()) + 1) * (int(time.max()) + 1)
    if members == 1:
        return sum_by(group // inner, siblings.owners)
    begin = np.flatnonzero(changes(sender))
    lengths = np.diff(np.append(begin, len(loads)))
    kept = _distinct(group[begin], what, begin, lengths, size)
    return sum_by(group[begin[kept]] // inner, siblings.owners, lengths[kept])


def _distinct(group: Ints, what: Ints, begin: Ints, lengths: Ints, size: int) -> Ints:
    """Return one message of each distinct set of elements in each group."""
    if size <= 62:
        masks = np.add.reduceat(np.left_shift(np.int64(1), what), begin)
        order = np.lexsort((masks, group))
        new = np.ones(len(order), dtype=bool)
        new[1:] = (np.diff(group[order]) != 0) | (np.diff(masks[order]) != 0)
        return order[new]
    seen: dict[tuple[int, bytes], int] = {}
    for message, (start, length) in enumerate(zip(begin, lengths, strict=True)):
        seen.setdefault((int(group[message]), what[start : start + length].tobytes()), message)
    return np.array(list(seen.values()), dtype=np.int64)


def _find_crossing(passed: PassedFanout, instance: Ints, time: Ints, element: Ints) -> Crossing:
    """Return what crosses a fan-out if the instances load `element` at `time`."""
    messages, deliveries = (
        int(_messages(siblings, instance, time, element).sum()) for siblings in (passed.outside, passed.inside)
    )
    return Crossing(passed.fanout, messages, deliveries)


@dataclass(frozen=True, slots=True)
class _NodeLoads:
    """The loads of a node: instance, time and element of each; loads per instance; the elements of the first tile and
    of the largest tile of any instance and step."""

    instance: Ints
    time: Ints
    element: Ints
    counts: Ints
    first: int
    most: int


class ReadCounter:
    """Counts the loads and reads of one tensor that is only read."""

    def __init__(self, nest: Nest, tensor: str) -> None:
        self.nest = nest
        self.elements, self.size = nest.elements(accesses_of(nest.workload.statements[0], tensor))
        self._loads: dict[tuple[Numbers, Numbers], _NodeLoads] = {}

    def fills(self, parent: int, node: Node, spatial: Numbers, *, divides: bool) -> tuple[Ints, Ints, int]:
        """Return fills per instance of the node, reads per instance of its parent level, elements of the largest tile.

        divides: all tiles divide. Otherwise, of a tensor with several accesses, the elements of the first tile are
        returned, as the largest may occur where tiles of other tensors are smaller. With one access the first tile is
        the largest.
        """
        siblings = self.nest.siblings(spatial, parent, node.level)
        key = (self.nest.above(spatial, node.level), node.clock)
        if key not in self._loads:
            self._loads[key] = self._loads_of(*key)
        loads = self._loads[key]
        if siblings.owners == siblings.count:  # nobody to share a read with
            return loads.counts, loads.counts, loads.most if divides else loads.first
        messages = _messages(siblings, loads.instance, loads.time, loads.element)
        return loads.counts, messages, loads.most if divides else loads.first

    def _loads_of(self, loops: Numbers, clock: Numbers) -> _NodeLoads:
        """Return the loads of the instances along spatial `loops` over the steps of the clock."""
        nest = self.nest
        instance, instances, times = nest.number(loops), nest.size(loops), nest.size(clock)
        now = instance * times + nest.number(clock)
        active = unique(now)
        turn = np.searchsorted(active, now)
        first = most = len(unique(self.elements[:, turn == 0]))
        if len(self.elements) > 1:
            tiles = unique(turn * self.size + self.elements) // self.size
            most = int(np.bincount(tiles).max())
        span = len(active) + 1  # keeps runs of different elements apart
        held = unique((self.elements * instances + instance) * span + turn)
        loads = held[starts(held)]
        turn, what = loads % span, loads // span
        instance = what % instances
        return _NodeLoads(instance, active[turn] % times, what // instances, sum_by(instance, instances), first, most)

    def deliveries(self, parent: int, node: Node, spatial: Numbers) -> list[Crossing]:
        """Return what the loads of a node send over the fan-outs that cost energy."""
        passed = self.nest.passed(spatial, parent, node.level)
        loads = self._loads[self.nest.above(spatial, node.level), node.clock]
        return [_find_crossing(one, loads.instance, loads.time, loads.element) for one in passed]

    def compute_deliveries(self, holder: int, clock: Numbers, spatial: Numbers) -> list[Crossing]:
        """Return what the reads of the compute unit send over the fan-outs that cost energy."""
        nest = self.nest
        instance, time = nest.number(nest.above(spatial, nest.levels)), nest.number(clock)
        passed = nest.passed(spatial, holder, nest.levels)
        return [_find_crossing(one, instance, time, row) for one in passed for row in self.elements]

    def compute_reads(self, holder: int, clock: Numbers, spatial: Numbers) -> Ints:
        """Return the reads of the compute unit per instance of the innermost level that holds the tensor."""
        nest = self.nest
        siblings = nest.siblings(spatial, holder, nest.levels)
        instance = nest.number(nest.above(spatial, nest.levels))
        if siblings.owners == siblings.count:  # nobody to share a read with
            return sum_by(instance, siblings.count) * len(self.elements)
        time = nest.number(clock)
        return np.sum([_messages(siblings, instance, time, row) for row in self.elements], axis=0)
