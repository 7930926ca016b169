"""Lower bounds over mappings of any tile sizes: each tensor alone, whole numbers of siblings (docs/certificate.md).

A structure says how many siblings along every dim, over the fan-outs of every class, have work below the first instance
above them in the first step (which has the most). Numbers c of the same ceil(n / c) count alike and stand together.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from math import isqrt, prod
from typing import Any

import numpy as np

from polymap.checker.grids import Array, kind_of, never_above
from polymap.checker.model import Fanout, Problem, Rows, Tensor, Tile, tick
from polymap.checker.rules import need

Budgets = frozenset[Tile]  # what the fan-outs of a class have left, in every way to share what is gone
MOST, TOGETHER = 1 << 22, 1 << 16


@lru_cache(maxsize=1_000)
def ranges(extent: int, most: int) -> list[Tile]:
    """Return the (least, largest) numbers of siblings along a dim that count alike, ascending."""
    found, low = list[Tile](), 1
    need(min(most, 2 * isqrt(extent)) <= 1 << 14, "there are too many structures")
    while low <= min(extent, most):
        tick()
        share = -(-extent // low)
        high = min(most, extent if share == 1 else (extent - 1) // (share - 1))
        found.append((low, high))
        low = high + 1
    return found


@lru_cache(maxsize=100_000)
def left(budgets: Budgets, count: int, free: tuple[bool, ...]) -> Budgets:
    """Return what fan-outs have left when a dim takes factors over the `free` ones whose product is `count` or more."""
    ways: set[tuple[Tile, int, Tile]] = {((), count, budget) for budget in budgets}
    for may in free:
        tick()
        ways = {
            ((*done, budget[0] // factor), -(-missing // factor), budget[1:])
            for done, missing, budget in ways
            for factor, _ in (ranges(missing, budget[0]) if may else [(1, 1)])
        }
    found = {done for done, missing, _ in ways if missing == 1}
    return frozenset(one for one in found if not any(one != o and all(map(int.__le__, one, o)) for o in found))


def vectors(problem: Problem, fans: Sequence[Fanout]) -> list[Rows]:
    """Return the vectors of ranges that the fan-outs of a class can have, ascending."""
    found: list[tuple[Rows, Budgets]] = [((), frozenset([tuple(fan.size for fan in fans)]))]
    for d, extent in enumerate(problem.extents):
        free, more = tuple(d in fan.dims for fan in fans), list[tuple[Rows, Budgets]]()
        for row, budgets in found:
            tick()
            for one in ranges(extent, prod(fan.size for fan, may in zip(fans, free, strict=True) if may)):
                if rest := left(budgets, one[0], free):
                    more.append(((*row, one), rest))
            need(len(more) <= MOST, "there are too many structures")
        found = more
    return [row for row, _ in found]


class Siblings:
    """Structures side by side. low, high: the ends of their ranges [class][dim], arrays with one entry each, of the
    kind of `one`: that of all numbers here."""

    def __init__(self, problem: Problem, low: list[list[Array]], high: list[list[Array]]) -> None:
        self.problem, self.one = problem, np.ones(1, kind_for(problem))
        self.low, self.high = (
            [[column.astype(self.one.dtype) for column in row] for row in each] for each in (low, high)
        )
        self.all, self.last = range(len(problem.dims)), len(problem.levels)
        self.fans = [own[0] for own in problem.classes]

    def count(self, d: int, classes: Sequence[int]) -> Array:
        """Return how many coordinates over some classes have work along a dim, at least: the first instance of an outer
        class has all siblings of the inner one below it, and every other at least one."""
        return sum((self.low[g][d] - 1 for g in classes), start=self.one)

    def possible(self) -> Array:
        """Return where the counts of all classes can go together."""
        every = [self.count(d, range(len(self.fans))) <= extent for d, extent in enumerate(self.problem.extents)]
        return np.logical_and.reduce(np.broadcast_arrays(self.one > 0, *every))

    def together(self, ends: list[list[Array]], d: int, classes: Iterable[int]) -> Array:
        """Return how many siblings over some classes have work along a dim, at most: all of them."""
        found = self.one
        for g in classes:  # of two numbers up to the extent, the product is still an integer of 64 bits
            found = np.minimum(found * ends[g][d], self.problem.extents[d])
        return found

    def steps(self) -> Array:
        """Return how many steps there are at least: of every dim no step takes more indices than siblings have work."""
        each = [self.together(self.low, d, range(len(self.fans))) for d in self.all]
        return prod((-(-extent // k) for extent, k in zip(self.problem.extents, each, strict=True)), start=self.one)

    def elements(self, tensor: Tensor, visits: Sequence[Array], whole: Sequence[Any]) -> Array:
        """Return the elements, at least, of all boxes of a grid with so many parts per dim, where `whole` dims have one
        part: A + B of index sets has |A| + |B| - 1 elements or more, and more where strides meet a whole interval."""
        total = self.one
        for group in tensor.groups:
            sizes, parts = (
                [self.problem.extents[d] for d, _ in group],
                prod((visits[d] for d, _ in group), start=self.one),
            )
            each = [size * (parts // visits[d]) for size, (d, _) in zip(sizes, group, strict=True)]
            least = sum(each) - (len(group) - 1) * parts
            for (d, stride), (r, weight) in product(group, group) if len(group) == 2 else ():
                if d != r and abs(weight) == 1:
                    met, size = min(abs(stride), self.problem.extents[r]), self.problem.extents[d]
                    wide = size * met + visits[d] * (self.problem.extents[r] - met)
                    least = np.where(whole[r], np.maximum(least, wide), least)
            total = total * least
        return total

    def boxes(self, tensor: Tensor, classes: Sequence[int], lacking: Sequence[int]) -> Array:
        """Return the elements that all coordinates over some classes touch, those of `lacking` along dims that the
        tensor lacks."""
        visits = [self.count(d, classes if d in tensor.dims else lacking) for d in self.all]
        again = prod((visits[d] for d in self.all if d not in tensor.dims), start=self.one)
        return again * self.elements(tensor, visits, [visit == 1 for visit in visits])

    def moved(self, tensor: Tensor, end: int, level: int) -> Array:
        """Return how many elements pass below so many classes on their way down to a level or the compute units, or up
        from there of an output: siblings tell elements apart above and where nothing merges."""
        above = range(self.problem.above[level])
        between = above[end:]
        merging = [g for g in between if (self.fans[g].adds if tensor.is_output else self.fans[g].merge != "none")]
        apart = [g for g in above if g not in merging]
        if level == self.last:  # nothing is held there: each step takes what siblings side by side have work for
            extents = self.problem.extents
            groups = [-(-extent // self.together(self.low, d, merging)) for d, extent in enumerate(extents)]
            visits = [np.maximum(self.count(d, apart), own) for d, own in enumerate(groups)]
            whole = [np.any([self.low[g][d] == extents[d] for g in merging], axis=0) for d in self.all]
            again = prod((visits[d] for d in self.all if d not in tensor.dims), start=self.one)
            return again * self.elements(tensor, visits, whole)
        least = self.boxes(tensor, apart, apart)
        united = any(self.fans[g].merge == "union" for g in between) or any(fan.below > level for fan in self.fans)
        if not tensor.window or united:
            return least
        served = self.one
        for group in (group for group in tensor.groups if len(group) > 1):
            extents = [self.problem.extents[d] for d, _ in group]
            most = [self.together(self.high, d, merging) for d, _ in group]
            every = prod(most, start=self.one)
            # Where all dims of a window but one are spread wholly, or one of two is short, equal tiles never meet.
            sets = zip(group, extents, strict=True)
            moving = sum((self.count(d, above) < size) * self.one for (d, _), size in sets)
            told = moving <= 1
            if len(group) == 2 and min(extents) <= 3 and all(weight > 0 for _, weight in group):
                told = told | True
            served = served * np.where(told, every // np.maximum.reduce(np.broadcast_arrays(*most)), every)
        return np.maximum(least, -(-self.boxes(tensor, above, apart) // served))

    def tensor(self, t: int, part: int) -> Any:
        """Return what a tensor adds at least to a part in all instances, over all levels that may hold it."""
        tensor, best = self.problem.tensors[t], dict[int, Any]()
        zeros = prod(self.problem.extents[d] for d in tensor.dims) * (tensor.is_output and not tensor.initial)
        for parent in range(self.last - 1, -1, -1):
            for level in range(parent + 1, self.last + 1):
                held = level < self.last
                if (held and level not in best) or any(parent < must < level for must in tensor.must):
                    continue
                cost, owed = (best[level] if held else 0 * self.one), 0
                for end, price in self.problem.tolls[part, t, parent, level][0].items():
                    owed += price  # below 0 where additions save: no more passes here than at the next end
                    cost, owed = (cost + owed * self.moved(tensor, end, level), 0) if owed > 0 else (cost, owed)
                if parent == 0 or parent in tensor.may:
                    best[parent] = np.minimum(best[parent], cost) if parent in best else cost
        return best[0] - zeros * self.problem.parts[part].read[0][t]


def kind_for(problem: Problem) -> Any:
    """Return the kind of numbers that holds all costs, and products of two numbers of siblings."""
    largest = 8 * max([problem.reach, *(extent**2 for extent in problem.extents)])
    return kind_of(never_above(largest)) if problem.measures[0].linear else object


def structures(problem: Problem) -> Iterator[Siblings]:
    """Yield all structures, many at once."""
    each = [np.array(vectors(problem, own), object) for own in problem.classes]
    sizes = [len(rows) for rows in each]
    need(prod(sizes) <= MOST, "there are too many structures")
    for start in range(0, prod(sizes), TOGETHER):
        tick()
        number, own = np.arange(start, min(start + TOGETHER, prod(sizes))), list[Array]()
        for rows in each:
            own.append(rows[number % len(rows)])
            number = number // len(rows)
        siblings = Siblings(problem, *([[*rows[..., end].T] for rows in own] for end in (0, 1)))
        kept = np.broadcast_to(siblings.possible(), (len(number),))
        yield Siblings(problem, *([[*rows[kept][..., end].T] for rows in own] for end in (0, 1)))


def bounds(siblings: Siblings) -> list[Any]:
    """Return what every part is at least, of a bandwidth in the busiest instance."""
    problem, found = siblings.problem, list[Any]()
    for number, part in enumerate(problem.parts):
        above = range(problem.above[part.level] if part.band else 0)
        working = prod((siblings.together(siblings.high, d, above) for d in siblings.all), start=siblings.one)
        fans = (
            min(problem.reach, prod(fan.size for fan in problem.fanouts if fan.below <= part.level)) if part.band else 1
        )
        total = sum(siblings.tensor(t, number) for t in range(len(problem.tensors)))
        found.append(-(-total // np.minimum(working, fans)))
    return found


def least(problem: Problem) -> tuple[int, int]:
    """Return how many structures there are, and what no mapping of any tile sizes costs less than, scaled."""
    count, best, measure = 0, None, problem.measures[0]
    for siblings in structures(problem):
        *parts, steps = np.broadcast_arrays(*bounds(siblings), siblings.steps())
        parts, steps = [np.atleast_1d(part) for part in parts], np.atleast_1d(steps)
        cycles, count = -(-steps // problem.per_cycle), count + len(steps)
        energy = np.maximum(parts[measure.own[0]], 0) + measure.fixed
        cheap = (energy + measure.slope * cycles) * cycles**measure.power  # as if no bandwidth were limited
        for i in np.argsort(cheap, kind="stable").tolist():
            if best is not None and int(cheap[i]) >= best:
                break
            value = problem.value([int(part[i]) for part in parts], int(steps[i]))
            best = value if best is None else min(best, value)
    need(best is not None, "there is no structure")
    return count, best or 0
