"""What a box of statement instances takes to compute at least: instances side by side, and changes of a tensor's tiles
beside the compute units."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, reduce
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.ir import Architecture, Tensor, Workload, accesses_of
from polymap.schedules import divisors_up_to

Floats = NDArray[np.float64]
Shares = frozenset[tuple[int, ...]]  # iterations side by side over each fan-out


class BoxWork:
    """The work of boxes of one nest. tensor: of which each change takes `preload_cycles` (None: of none);
    held: its elements in one of the levels beside the compute units."""

    def __init__(self, workload: Workload, arch: Architecture, reads: Sequence[Tensor]) -> None:
        self._arch, self.held = arch, 1
        self.tensor: Tensor | None = None
        self.own_dims = frozenset[str]()
        for level in arch.levels[1:]:
            for tensor in reads if len(arch.fanouts_above(level.name)) == len(arch.fanouts) else ():
                (access,) = dict.fromkeys(accesses_of(workload.statements[0], tensor.name))
                is_cut = all(len(index.dims) <= 1 for index in access.index)  # other tiles are other elements
                if level.usable_bits and level.requires(tensor) and is_cut:
                    self.tensor, self.held = tensor, level.usable_bits // tensor.bits
                    self.own_dims = frozenset(dim for index in access.index for dim in index.dims)
        self._preload = 0.0 if self.tensor is None else float(arch.compute.preload_cycles)
        self._sizes = tuple(fanout.size for fanout in arch.fanouts)

    def cycles(self, instances: Floats, elements: Floats, lanes: tuple[int, int], *, anew: bool) -> Floats:
        """Return the work of boxes with so many elements of the tensor side by side, and instances for each of them.
        anew: whether a tile that is the only one of its box is another one than before."""
        unit, (changed, others) = self._arch.compute, lanes
        passes = np.ceil(elements / (changed * self.held))
        stream = np.maximum(instances / (changed * others) / unit.per_cycle, float(unit.pass_least_cycles) * passes)
        changes = passes if anew else np.where(passes > 1, passes, 0.0)
        return stream + float(unit.fill_cycles) * passes + self._preload * changes

    def least(
        self, boxes: list[dict[str, int]], instances: Floats, elements: Floats, stop: Callable[[], bool]
    ) -> tuple[Floats, Floats]:
        """Return the least work of boxes: where a tile of the tensor may stay for the next box, and where none does; 0
        of those that it was too late for."""
        lanes = [() if stop() else self._lanes(box) for box in boxes]
        stays, anew = np.zeros(len(boxes)), np.zeros(len(boxes))
        kinds = {each: number for number, each in enumerate(dict.fromkeys(lanes))}
        kind = np.array([kinds[each] for each in lanes])
        for pairs, number in kinds.items():
            if pairs and not stop():
                at = kind == number
                for found, is_anew in ((stays, False), (anew, True)):
                    told = (self.cycles(instances[at], elements[at], pair, anew=is_anew) for pair in pairs)
                    found[at] = reduce(np.minimum, told)
        return stays, anew

    def _factors(self, dim: str, size: int) -> Shares:
        return _factors(size, tuple(each.size if each.may_spread(dim) else 1 for each in self._arch.fanouts))

    def _lanes(self, box: dict[str, int]) -> tuple[tuple[int, int], ...]:
        """Return how many elements of the tensor, and instances for each, may be side by side: pairs that no other one
        exceeds in both."""
        shared = {True: frozenset({(1,) * len(self._sizes)}), False: frozenset({(1,) * len(self._sizes)})}
        for dim, size in box.items():
            if size > 1:
                kind = dim in self.own_dims
                shared[kind] = _products(shared[kind], self._factors(dim, size), self._sizes)
        return _side_by_side(shared[True], shared[False], self._sizes)

    def shares(self, box: dict[str, int]) -> dict[str, tuple[int, ...]]:
        """Return the factors over the fan-outs with which a box takes least."""
        none = (1,) * len(self._sizes)
        found: dict[tuple[tuple[int, ...], int], list[tuple[int, ...]]] = {(none, 1): []}
        for dim, size in box.items():
            more: dict[tuple[tuple[int, ...], int], list[tuple[int, ...]]] = {}
            for (used, own), chosen in found.items():
                for each in sorted(self._factors(dim, size)):
                    now = tuple(a * b for a, b in zip(used, each, strict=True))
                    if all(a <= b for a, b in zip(now, self._sizes, strict=True)):
                        more[now, own * prod(each) if dim in self.own_dims else own] = [*chosen, each]
            found = more
        instances = np.array([float(prod(box.values()))])
        elements = np.array([float(prod(box[dim] for dim in self.own_dims))])  # any order: a product

        def taken(state: tuple[tuple[int, ...], int]) -> float:
            used, own = state
            return float(self.cycles(instances, elements, (own, prod(used) // own), anew=True)[0])

        return dict(zip(box, found[min(found, key=taken)], strict=True))


@lru_cache(maxsize=10_000)
def _factors(size: int, most: tuple[int, ...]) -> Shares:
    """Return the factors of a dim's iterations that fan-outs may spread."""
    found: dict[tuple[int, ...], int] = {(): size}
    for each in most:
        found = {(*own, n): left // n for own, left in found.items() for n in divisors_up_to(left, each)}
    return frozenset(found)


@lru_cache(maxsize=10_000)
def _products(one: Shares, other: Shares, most: tuple[int, ...]) -> Shares:
    found = {tuple(a * b for a, b in zip(x, y, strict=True)) for x in one for y in other}  # any order: a set
    return frozenset(each for each in found if all(a <= b for a, b in zip(each, most, strict=True)))  # any order: a set


@lru_cache(maxsize=10_000)
def _side_by_side(one: Shares, other: Shares, most: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return the pairs of products that fit together and that no other pair exceeds in both."""
    first, second = (np.array(sorted(each), np.int64).reshape(len(each), len(most)) for each in (one, other))
    places = np.nonzero((first[:, None, :] * second[None, :, :] <= np.array(most)).all(axis=2))
    pairs = zip(first.prod(axis=1)[places[0]].tolist(), second.prod(axis=1)[places[1]].tolist(), strict=True)
    best: list[tuple[int, int]] = []
    for pair in sorted(set(pairs), reverse=True):
        if not best or pair[1] > best[-1][1]:
            best.append(pair)
    return tuple(best)
