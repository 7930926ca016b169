"""All placements of the storage nodes of all tensors in a word (a sequence of loops) of a given length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement
from operator import ge

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel.referees.arrays import Ints
from polymap.costmodel.referees.words import fanout_groups
from polymap.ir import Architecture, MemoryLevel, Tensor, Workload

Place = tuple[tuple[int, int], ...]  # (level, gap) of a tensor's nodes, outermost first


@dataclass(frozen=True, slots=True)
class Arrangement:
    """places[tensor]: the possible placements of its nodes. chosen[tensor][k]: its placement in the k-th arrangement.

    occupied[k]: the gaps that hold a node, as bits.
    """

    places: tuple[tuple[Place, ...], ...]
    chosen: tuple[Ints, ...]
    occupied: Ints


class Arrangements:
    """Arrangements, cached by length of the word, positions of its units, and gaps that need a node."""

    def __init__(self, workload: Workload, arch: Architecture) -> None:
        self.tensors = workload.tensors
        self.levels = arch.levels
        self.groups = fanout_groups(arch)
        self._levels_of = {tensor.name: _levels_of(self.levels, tensor) for tensor in workload.tensors}
        self._place_choices: dict[tuple[tuple[int, ...], frozenset[int], tuple[int, ...], int], tuple[Place, ...]] = {}
        self._all: dict[tuple[int, tuple[tuple[int, int], ...]], Arrangement] = {}
        self._kept: dict[tuple[int, tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]], Ints] = {}

    @property
    def most_nodes(self) -> int:
        """Return an upper bound on the nodes of a tree."""
        return sum(_may_hold(level, tensor) for level in self.levels[1:] for tensor in self.tensors)

    def arrangement(self, length: int, units: tuple[tuple[int, int], ...]) -> Arrangement:
        """Return all arrangements in a word of `length` items with units (group, position)."""
        key = (length, units)
        if key not in self._all:
            self._all[key] = self._list_arrangement(length, units)
        return self._all[key]

    def with_nodes_in_gaps(
        self, length: int, units: tuple[tuple[int, int], ...], gaps: tuple[tuple[int, int], ...]
    ) -> Ints:
        """Return the arrangements (their numbers) that have a node between `first` and `last` for each of the gaps."""
        key = (length, units, gaps)
        if key not in self._kept:
            occupied = self.arrangement(length, units).occupied
            fits = np.ones(len(occupied), dtype=np.bool_)
            for first, last in gaps:
                fits &= (occupied & ((1 << (last + 1)) - (1 << first))) != 0
            self._kept[key] = np.flatnonzero(fits)
        return self._kept[key]

    def _list_arrangement(self, length: int, units: tuple[tuple[int, int], ...]) -> Arrangement:
        places = tuple(self.places(tensor, length, units) for tensor in self.tensors)
        shape = tuple(len(of_tensor) for of_tensor in places)
        occupied = np.zeros(shape, dtype=np.int64)
        for axis, of_tensor in enumerate(places):
            bits = np.array([sum({1 << gap for _, gap in place}) for place in of_tensor], dtype=np.int64)
            occupied |= _along(bits, axis, len(shape))
        fits = np.ones(shape, dtype=np.bool_)
        for group, position in units:
            fits &= self._directly_above(places, occupied, self.groups[group].below, position, length)
        chosen = np.nonzero(fits)
        return Arrangement(places, chosen, occupied[chosen])

    def places(self, tensor: Tensor, length: int, units: tuple[tuple[int, int], ...]) -> tuple[Place, ...]:
        """Return the placements of one tensor; a node of a level below a unit's fan-outs is below the unit."""
        may, must = self._levels_of[tensor.name]
        lowest = tuple(max((at + 1 for g, at in units if self.groups[g].below <= level), default=0) for level in may)
        key = (may, must, lowest, length)
        if key not in self._place_choices:
            self._place_choices[key] = tuple(_place_choices(may, must, lowest, length))
        return self._place_choices[key]

    def _directly_above(
        self, places: Sequence[Sequence[Place]], occupied: Ints, below: int, position: int, length: int
    ) -> NDArray[np.bool_]:
        """Return where no node is between the unit and the first node of the levels below its fan-outs.

        In the gap of that node, another tensor's node may be above it, but not one of its own tensor.
        """
        none = length + 1
        firsts = [np.array([_first_below(p, below, none) for p in of_tensor], dtype=np.int64) for of_tensor in places]
        heads = [np.array([_first_heads(p, below) for p in of_tensor], dtype=np.bool_) for of_tensor in places]
        first = np.full(occupied.shape, none, dtype=np.int64)
        for axis, gaps in enumerate(firsts):
            first = np.minimum(first, _along(gaps, axis, occupied.ndim))
        headed = first == none
        for axis, (gaps, leads) in enumerate(zip(firsts, heads, strict=True)):
            headed |= (_along(gaps, axis, occupied.ndim) == first) & _along(leads, axis, occupied.ndim)
        between = np.left_shift(np.int64(1), first) - (1 << (position + 1))
        return headed & ((occupied & between) == 0)


def _levels_of(levels: Sequence[MemoryLevel], tensor: Tensor) -> tuple[tuple[int, ...], frozenset[int]]:
    """Return the levels that may hold a tensor, and those that must."""
    inner = range(1, len(levels))
    may = tuple(level for level in inner if _may_hold(levels[level], tensor))
    return may, frozenset(level for level in inner if _is_named(levels[level].must_hold, tensor))


def _place_choices(may: tuple[int, ...], must: frozenset[int], lowest: tuple[int, ...], length: int) -> Iterator[Place]:
    """Yield every choice of levels with a gap for each, at least its lowest; gaps do not decrease."""
    for count in range(len(may) + 1):
        for held in combinations(range(len(may)), count):
            levels, least = [may[i] for i in held], [lowest[i] for i in held]
            if must <= set(levels):
                for gaps in combinations_with_replacement(range(min(least, default=0), length + 1), count):
                    if all(map(ge, gaps, least)):
                        yield tuple(zip(levels, gaps, strict=True))


def _along(values: NDArray[np.generic], axis: int, count: int) -> Ints:
    """Return the values as an array along one of `count` axes."""
    return values.reshape([-1 if a == axis else 1 for a in range(count)])  # pyright: ignore[reportReturnType]


def _first_below(place: Place, below: int, none: int) -> int:
    return min((gap for level, gap in place if level >= below), default=none)


def _first_heads(place: Place, below: int) -> bool:
    """Return whether the tensor's first node at or below level `below` has none of its own above it in its gap."""
    first = _first_below(place, below, -1)
    return any(level >= below for level, _ in place) and not any(gap == first and level < below for level, gap in place)


def _is_named(names: Sequence[str], tensor: Tensor) -> bool:
    return tensor.name in names or f"@{tensor.role.value}" in names


def _may_hold(level: MemoryLevel, tensor: Tensor) -> bool:
    return level.holds is None or _is_named(level.holds, tensor)
