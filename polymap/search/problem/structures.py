"""Structures: the dims that are spread over each fan-out, with their factors.

Fan-outs of one class have the same effect on every count. So a structure is identified by one product per class and
dim: of the dim's factors over the class's fan-outs, each within the fan-out's size and `dims`. The products of all
classes together divide the extents. Tables list them. Where rules constrain more than the factors, CP-SAT first decides
whether any structure remains (structure_model.py); without such rules it is not loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from math import prod
from typing import overload

import numpy as np
from numpy.typing import NDArray

from polymap.poly import count_type
from polymap.search.problem.lattice import IntArray, divisors, prime_factors
from polymap.search.problem.problem import TUNING, Classes, FanoutClass, Problem
from polymap.search.problem.rules import Factor, Intrinsic, Rules, StructureRule, least_parallel

Vector = tuple[int, ...]
Factors = tuple[Vector, ...]


@dataclass(frozen=True, slots=True)
class Structure:
    """factors: [fan-out][dim] of one representative. classes: [class][dim], the products on which every count
    depends."""

    factors: tuple[tuple[int, ...], ...]
    classes: Classes

    def used(self, dim: int) -> int:
        """Return the product of the dim's factors over all fan-outs."""
        return prod(row[dim] for row in self.factors)


@dataclass(frozen=True, slots=True, eq=False)
class Splits:
    """The factors that the fan-outs of one class can have together.

    rows: the products, one per dim. first: per row and fan-out, the index in `vectors` of its factors in the first
    split with that product.
    """

    rows: IntArray
    first: IntArray
    vectors: tuple[list[Vector], ...]

    def factors(self, row: int) -> Factors:
        """Return the factors per fan-out of the first split with the products of a row."""
        places: list[int] = self.first[row].tolist()
        return tuple(own[place] for own, place in zip(self.vectors, places, strict=True))


@dataclass(frozen=True, eq=False)
class Structures(Sequence[Structure]):
    """Structures side by side, in order: `chosen` has one row of `splits` per class for each. One of them in full is
    made when it is asked for."""

    splits: tuple[Splits, ...]
    order: tuple[int, ...]  # of the fan-outs, among those of all classes
    dims: int
    chosen: IntArray = field(repr=False)

    def __len__(self) -> int:
        return len(self.chosen)

    @overload
    def __getitem__(self, place: int) -> Structure: ...
    @overload
    def __getitem__(self, place: slice) -> Structures: ...
    def __getitem__(self, place: int | slice) -> Structure | Structures:
        if isinstance(place, slice):
            return self.only(self.chosen[place])
        numbers: list[int] = self.chosen[place].tolist()
        factors = [row for own, n in zip(self.splits, numbers, strict=True) for row in own.factors(n)]
        classes = tuple(tuple(own.rows[n].tolist()) for own, n in zip(self.splits, numbers, strict=True))
        return Structure(tuple(factors[i] for i in self.order), classes)

    def only(self, chosen: IntArray) -> Structures:
        """Return other structures of the same splits."""
        return replace(self, chosen=chosen)

    @cached_property
    def classes(self) -> IntArray:
        """The products [structure, class, dim], as in Structure.classes."""
        if not self.splits:
            return np.ones((len(self), 0, self.dims), dtype=np.int64)
        return np.stack([own.rows[numbers] for own, numbers in zip(self.splits, self.chosen.T, strict=True)], axis=1)

    def sorted_by(self, dims: Sequence[int]) -> Structures:
        """Return the structures sorted by their products over some dims, class by class, then by all of them."""
        some = [_ranks(own.rows[:, list(dims)])[numbers] for own, numbers in self._columns()]
        every = [_ranks(own.rows)[numbers] for own, numbers in self._columns()]
        keys = [*reversed(every), *reversed(some)]
        return self.only(self.chosen[np.lexsort(keys)] if keys else self.chosen)

    def first_of_orbits(self, images: Sequence[tuple[int, ...]]) -> Structures:
        """Return the structures that come first among what permutations of dims make of them."""
        kept: NDArray[np.bool_] = np.ones(len(self), dtype=np.bool_)
        for image in images:
            is_less: NDArray[np.bool_] = np.zeros(len(self), dtype=np.bool_)
            is_equal: NDArray[np.bool_] = np.ones(len(self), dtype=np.bool_)
            for own, numbers in self._columns():
                ranks, moved = (part[numbers] for part in _ranks_of_image(own.rows, image))
                is_less |= is_equal & (moved < ranks)
                is_equal &= moved == ranks
            kept &= ~is_less
        return self.only(self.chosen[kept])

    def _columns(self) -> Iterator[tuple[Splits, IntArray]]:
        return zip(self.splits, self.chosen.T, strict=True)


def _ranks(rows: IntArray) -> IntArray:
    """Return the place of every row among all different ones, sorted."""
    own = [tuple(row) for row in rows.tolist()]
    places = {row: place for place, row in enumerate(sorted(set(own)))}
    return np.array([places[row] for row in own], dtype=np.int64)


def _ranks_of_image(rows: IntArray, image: tuple[int, ...]) -> tuple[IntArray, IntArray]:
    """Return the place of every row, and of what a permutation of dims makes of it, among all rows, sorted (behind all
    where there is no such row)."""
    own = [tuple(row) for row in rows.tolist()]
    places = {row: place for place, row in enumerate(sorted(set(own)))}
    moved = [places.get(tuple(row[d] for d in image), len(places)) for row in own]
    return np.array([places[row] for row in own], dtype=np.int64), np.array(moved, dtype=np.int64)


def enumerate_structures(problem: Problem, out_of_time: Callable[[], bool]) -> tuple[Structures, bool]:
    """Return the structures, one per distinct class products, sorted by these, and whether these are all: where time
    ends before, some of them.

    Some may have no mapping that meets the rules. Raises SolverError where CP-SAT rejects its model.
    """
    fanouts = [f for one in problem.classes for f in one.fanouts]
    order = tuple(sorted(range(len(fanouts)), key=lambda i: fanouts[i]))
    listed = [splits_of(problem, one, out_of_time) for one in problem.classes]
    splits = [one for one, _ in listed]
    found = Structures(tuple(splits), order, len(problem.dims), np.zeros((0, len(splits)), dtype=np.int64))
    if any(isinstance(rule, StructureRule) for rule in problem.rules):
        from polymap.search.problem.structure_model import Clash, decide  # CP-SAT takes half a second to load

        if isinstance(decide(problem, problem.rules), Clash):
            return found, True
    chosen, complete = _all_choices(problem, splits, out_of_time)
    chosen = chosen if complete else chosen[:: 1 + len(chosen) // TUNING.some_structures]
    found = found.only(chosen[_allowed_choices(problem, splits, chosen)]).sorted_by(())
    return found, complete and all(each for _, each in listed)


def _allowed_choices(problem: Problem, splits: list[Splits], chosen: IntArray) -> NDArray[np.bool_]:
    """Return a mask of the choices of one row per class (by number) that meet utilization and intrinsic sizes."""
    ok: NDArray[np.bool_] = np.ones(len(chosen), dtype=np.bool_)
    least = least_parallel(prod(problem.extents), problem.arch, problem.rules)
    if least > 1:
        exact = count_type(prod(problem.extents))
        sizes = [np.prod(one.rows.astype(exact), axis=1) for one in splits]
        ok &= _product(sizes, chosen) >= least
    inner = range(1, problem.level_count)
    demanded = [0, *(level for level in inner if any(level in term.must_hold for term in problem.terms))]
    for rule in problem.rules:
        if isinstance(rule, Intrinsic):
            d = problem.dims.index(rule.dim)
            for level in demanded:
                factors = [one.rows[:, d] for one, c in zip(splits, problem.classes, strict=True) if c.below <= level]
                above = _product(factors, chosen[:, : len(factors)])
                ok &= np.asarray(problem.extents[d] // above % rule.size == 0, dtype=np.bool_)
    return ok


def _product(values: list[IntArray], chosen: IntArray) -> IntArray:
    """Return the product of one value per class, for each choice of values by number."""
    found: IntArray = np.ones(len(chosen), dtype=np.int64)
    for own, numbers in zip(values, chosen.T, strict=True):
        found = found * own[numbers]
    return found


def _all_choices(problem: Problem, splits: list[Splits], out_of_time: Callable[[], bool]) -> tuple[IntArray, bool]:
    """Return every choice of one row per class (by number) whose products divide the extents, and whether these are
    all."""
    extents, whole = _spreadable_extents(problem), True
    chosen, products = np.zeros((1, 0), dtype=np.int64), np.ones((1, len(extents)), dtype=extents.dtype)
    for one in splits:
        found: list[tuple[IntArray, IntArray]] = []
        rows = one.rows[: TUNING.structures_at_once] if out_of_time() else one.rows
        whole = whole and len(rows) == len(one.rows)
        for first, left, right in _dividing_pairs(products, rows, extents):
            found.append((np.column_stack([chosen[first + left], right]), products[first + left] * rows[right]))
            if out_of_time():
                whole = False
                break
        chosen, products = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return chosen, whole


def _dividing_pairs(left: IntArray, right: IntArray, extents: IntArray) -> Iterable[tuple[int, IntArray, IntArray]]:
    """Yield (first, rows of left after it, rows of right), in order: all pairs whose products divide the extents."""
    size = max(1, TUNING.products_at_once // max(1, len(right)))
    for first in range(0, len(left), size):
        ok: NDArray[np.bool_] = np.ones((min(size, len(left) - first), len(right)), dtype=np.bool_)
        for d, extent in enumerate(extents):
            ok &= np.asarray(extent % (left[first : first + size, d, None] * right[None, :, d]) == 0, dtype=np.bool_)
        a, b = np.nonzero(ok)
        yield first, a, b


def _keys(rows: IntArray, extents: IntArray) -> IntArray:
    """Return a unique number per row of divisors of the extents: the exponents of all primes, as digits.

    The number of a product of two rows, if it divides the extents too, is the sum of theirs.
    """
    primes = [(d, p, e) for d, extent in enumerate(extents.tolist()) for p, e in prime_factors(extent)]
    strides = [prod(e + 1 for _, _, e in primes[place + 1 :]) for place in range(len(primes))]
    keys = np.zeros(len(rows), dtype=count_type(prod(e + 1 for _, _, e in primes)))
    for (d, p, e), stride in zip(primes, strides, strict=True):
        for power in range(1, e + 1):
            keys = keys + stride * np.asarray(rows[:, d] % p**power == 0, dtype=np.int64)
    return keys


def _spreadable_extents(problem: Problem) -> IntArray:
    """Return the extents without primes larger than every fan-out: spatial factors divide these.

    They are Python integers where a product of two of their divisors may exceed int64.
    """
    most = max((fanout.size for fanout in problem.arch.fanouts), default=1)
    kept = [prod(p**e for p, e in prime_factors(extent) if p <= most) for extent in problem.extents]
    return np.array(kept, dtype=count_type(max(kept, default=1) ** 2))


def splits_of(problem: Problem, one: FanoutClass, out_of_time: Callable[[], bool]) -> tuple[Splits, bool]:
    """Return the splits of a class, and whether these are all; no rows where some fan-out cannot meet the rules."""
    extents = _spreadable_extents(problem)
    rows = np.ones((1, len(extents)), dtype=extents.dtype)
    found, vectors = np.zeros((1, 0), dtype=np.int64), list[list[Vector]]()
    whole = True
    for f in one.fanouts:
        fanout = problem.arch.fanouts[f]
        choices: list[list[int]] = []
        for name, extent in zip(problem.dims, problem.extents, strict=True):
            free = fanout.may_spread(name)
            allowed = [value for value in divisors(extent) if value <= fanout.size] if free else [1]
            choices.append([value for value in allowed if _meets(problem.rules, fanout.name, name, value)])
        own, is_listed = _list_within_time(_bounded_vectors(choices, fanout.size), out_of_time)
        if not own:
            return Splits(rows[:0], found[:0], ()), True
        right = np.array(own, dtype=extents.dtype).reshape(len(own), -1)
        pairs, is_joined = _distinct_products(rows, right, extents, out_of_time)
        rows = rows[pairs[:, 0]] * right[pairs[:, 1]]
        found, vectors = np.column_stack([found[pairs[:, 0]], pairs[:, 1]]), [*vectors, own]
        whole = whole and is_listed and is_joined
    return Splits(rows, found, tuple(vectors)), whole


def _list_within_time(rows: Iterator[Vector], out_of_time: Callable[[], bool]) -> tuple[list[Vector], bool]:
    """Return the rows, and whether these are all: only the first ones if time ends."""
    found = list(islice(rows, TUNING.structures_at_once))
    while more := list(islice(rows, TUNING.structures_at_once)):
        if out_of_time():
            return found, False
        found += more
    return found, True


def _distinct_products(
    left: IntArray, right: IntArray, extents: IntArray, out_of_time: Callable[[], bool]
) -> tuple[NDArray[np.int64], bool]:
    """Return, per distinct product that divides the extents, its first pair of rows (by number), and whether these are
    all."""
    keys, pairs = np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64)
    whole, of_left, of_right = True, _keys(left, extents), _keys(right, extents)
    for first, a, b in _dividing_pairs(left, right, extents):
        if len(pairs) and out_of_time():
            whole = False
            break
        keys = np.concatenate([keys, of_left[first + a] + of_right[b]])
        pairs = np.concatenate([pairs, np.column_stack([first + a, b])])
        kept = np.sort(np.unique(keys, return_index=True)[1])
        keys, pairs = keys[kept], pairs[kept]
    return pairs, whole


def _meets(rules: Rules, fanout: str, dim: str, factor: int) -> bool:
    """Return whether the rules allow a dim's factor over a fan-out."""
    mine = (rule for rule in rules if isinstance(rule, Factor) and (rule.fanout, rule.dim) == (fanout, dim))
    return all(rule.least <= factor and (rule.most is None or factor <= rule.most) for rule in mine)


def _bounded_vectors(choices: list[list[int]], size: int) -> Iterator[tuple[int, ...]]:
    """Yield the vectors, one value per list, whose product is at most `size`."""
    if not choices:
        yield ()
        return
    for value in choices[0]:
        if value <= size:
            for rest in _bounded_vectors(choices[1:], size // value):
                yield (value, *rest)
