"""What a storage node costs: weights times the elements that are filled, read for it and held.

The weights follow from the spatial factors alone. They are stated once, over plain integers (one structure) or arrays
with one entry per structure; how many elements there are is for whoever asks (docs/closed_form.md has the derivation).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from polymap.poly import Arithmetic, Numbers
from polymap.search.dividing.window_paths import GroupCrossing
from polymap.search.problem import (
    AtLeast,
    Component,
    FanoutClass,
    IntArray,
    Intrinsic,
    Lattice,
    Problem,
    Span,
    Structure,
    TensorTerm,
    divisors,
    node_weights,
)

Factor = TypeVar("Factor", int, IntArray)


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where the spatial loops over a dim stand: those right above level `below`, around a temporal extent `inside` of
    the dim; order: their classes of fan-outs (numbers), outermost first; (): open."""

    below: int
    dim: str
    inside: int
    order: tuple[int, ...] = ()

    def suits(self, decided: Place | None) -> bool:
        """Return whether it is what was decided of it (None: nothing)."""
        return decided is None or decided in (self, replace(self, order=()))


Places = tuple[Place, ...]


class SpatialFactors(Generic[Factor]):
    """Spatial factors asked by level: which stand above a level, between two, below (level count: compute).

    rows: factor per fan-out class and dim; one: the factor 1.
    """

    def __init__(self, problem: Problem, rows: tuple[tuple[Factor, ...], ...], one: Factor) -> None:
        self.problem = problem
        self.rows = rows
        self.one: Factor = one
        self.known: dict[tuple[int, Component, int, int], ReadWeights[Factor]] = {}  # by read_weights
        self._between: dict[tuple[int, int, int], list[tuple[FanoutClass, tuple[Factor, ...]]]] = {}
        self._instances: dict[int, Factor] = {}

    def product(self, factors: Iterable[Factor]) -> Factor:
        """Return the product of factors."""
        total = self.one
        for factor in factors:
            total = total * factor
        return total

    def between(self, after: int, upto: int, cut: int = 0) -> list[tuple[FanoutClass, tuple[Factor, ...]]]:
        """Return the classes of fan-outs between level `after` and level `upto`, with their factors per dim; the first
        `cut` fan-outs of the machine left out."""
        asked = after, upto, cut
        if asked not in self._between:
            rows = zip(self.problem.classes, self.rows, strict=True)
            known = [(one, row) for one, row in rows if after < one.below <= upto and one.fanouts[0] >= cut]
            self._between[asked] = known
        return self._between[asked]

    def factor(self, dim: str, after: int, upto: int) -> Factor:
        """Return the dim's factor over the fan-outs between two levels."""
        d = self.problem.dims.index(dim)
        return self.product(row[d] for _, row in self.between(after, upto))

    def instances(self, upto: int) -> Factor:
        """Return the number of instances of a level, as far as they are used."""
        if upto not in self._instances:
            self._instances[upto] = self.product(factor for _, row in self.between(-1, upto) for factor in row)
        return self._instances[upto]

    def above(self, cut: int) -> Factor:
        """Return the number of instances below the first `cut` fan-outs of the machine, as far as they are used."""
        rows = zip(self.problem.classes, self.rows, strict=True)
        return self.product(factor for one, row in rows if one.fanouts[0] < cut for factor in row)

    def messages(self, term: TensorTerm, after: int, upto: int, cut: int = 0) -> Factor:
        """Return how many elements one parent instance reads per element that a sibling loads, but for the window
        groups: all siblings' along fan-outs that merge nothing, and along the others those of different tiles."""
        own = [self.problem.dims.index(group.dims[0]) for group in term.groups if not group.is_window]
        total = self.one
        for one, row in self.between(after, upto, cut):
            total = total * self.product((row[d] for d in own) if one.multicast.shares_reads else row)
        return total

    def siblings(self, term: TensorTerm, parent: int, level: int) -> tuple[Factor, Factor, Factor]:
        """Return, between two levels: siblings that share an element, those of them that do not add on the way, and
        siblings that hold different elements."""
        shared, unadded, different = self.one, self.one, self.one
        for one, row in self.between(parent, level):
            same = self.product(f for f, dim in zip(row, self.problem.dims, strict=True) if dim not in term.dims)
            shared = shared * same
            unadded = unadded if one.reduction else unadded * same
            own = (f for f, dim in zip(row, self.problem.dims, strict=True) if dim in term.dims)
            different = different * self.product(own)
        return shared, unadded, different

    def added(self, term: TensorTerm, parent: int, level: int, cut: int) -> Factor:
        """Return how many siblings below the first `cut` fan-outs are added to one on the way."""
        return self.product(
            factor
            for one, row in self.between(parent, level, cut)
            for factor, dim in zip(row, self.problem.dims, strict=True)
            if one.reduction and dim not in term.dims
        )


class StructureFactors(SpatialFactors[int]):
    """The spatial factors of one structure. places: by level below and dim, where they are decided."""

    def __init__(self, problem: Problem, structure: Structure, places: Places = ()) -> None:
        super().__init__(problem, structure.classes, 1)
        self._place(places)
        self._crossings: dict[tuple[str, int, int, int, Places], tuple[GroupCrossing, ...]] = {}
        self._groups = tuple(sorted({one.below for one in problem.classes}))
        self._orders: dict[tuple[str, int], tuple[tuple[int, ...], ...]] = {}
        self._spread = {
            dim for row in structure.classes for dim, factor in zip(problem.dims, row, strict=True) if factor > 1
        }

    def _place(self, places: Places) -> None:
        self.places = {(one.below, one.dim): one for one in places}
        self._along = {own.dim: tuple(one for one in places if one.dim == own.dim) for own in places}

    def placed(self, places: Places) -> StructureFactors:
        """Return the factors with spatial loops at other places; what is known of a dim's places is shared."""
        found = copy(self)
        found._place(places)
        return found

    def unites(self, dims: Iterable[str], after: int, upto: int) -> bool:
        """Return whether some fan-out between two levels makes one message of different loads along some dims."""
        own = [self.problem.dims.index(dim) for dim in dims]
        return any(
            one.multicast.unites_tiles and any(row[d] > 1 for d in own) for one, row in self.between(after, upto)
        )

    def crossings(self, dim: str, after: int, level: int, cut: int = 0) -> tuple[GroupCrossing, ...]:
        """Return the spatial loops over a dim as a node of `level` sees them, loaded from level `after`, or from below
        the first `cut` fan-outs."""
        if dim not in self._spread:
            return ()
        asked = dim, after, level, cut, self._along.get(dim, ())
        if asked not in self._crossings:
            self._crossings[asked] = tuple(self._crossings_of(dim, after, level, cut))
        return self._crossings[asked]

    def _crossings_of(self, dim: str, after: int, level: int, cut: int) -> Iterator[GroupCrossing]:
        d, classes = self.problem.dims.index(dim), self.problem.classes
        for below in self.groups():
            place = self.places.get((below, dim))
            orders = (place.order,) if place is not None and place.order else self.orders(dim, below)
            parts = tuple(
                tuple(
                    (self.rows[i][d], one.multicast if after < below <= level and one.fanouts[0] >= cut else None)
                    for i, one in ((i, classes[i]) for i in reversed(order))
                )
                for order in orders
            )
            if parts:
                yield GroupCrossing(
                    tuple(dict.fromkeys(parts)), below <= level, None if place is None else place.inside
                )

    def orders(self, dim: str, below: int) -> tuple[tuple[int, ...], ...]:
        """Return the orders that count differently of a window dim's spatial loops right above a level, as classes."""
        if (dim, below) not in self._orders:
            d = self.problem.dims.index(dim)
            spread = [i for i, one in enumerate(self.problem.classes) if one.below == below and self.rows[i][d] > 1]
            self._orders[dim, below] = self.problem.spatial_orders(spread) if spread else ()
        return self._orders[dim, below]

    def groups(self) -> tuple[int, ...]:
        """Return the fan-out groups, named by the level below them, outermost first."""
        return self._groups

    def group_factor(self, dim: str, below: int) -> int:
        """Return the dim's factor over one group."""
        return self.factor(dim, below - 1, below)


@dataclass(frozen=True, slots=True, eq=False)
class AlikeMembers:
    """Members of a group whose window dims are spread alike between two levels: siblings' loads along them are equal.

    first: one of them. each: their factors, or side by side those of several groups.
    """

    first: StructureFactors
    each: tuple[SpatialFactors[Any], ...]

    def least(self, values: Iterable[Any]) -> Any:
        """Return the least over the members. values: one for each of the factors."""
        return min(values)

    def uncovered(self, vectors: Iterable[Sequence[Any]]) -> Iterable[Sequence[Any]]:
        """Return weights in the place of the members': the least cost by one of them is that of the cheapest member, or
        no more."""
        return uncovered_vectors(vectors)

    def among(self, arithmetic: Arithmetic, costs: Numbers) -> Numbers:
        """Return the costs, infeasible in groups that have no such member."""
        return costs


class Members:
    """The factors of structures that spread the dims alike between the same levels (groups.py): what a node loads and
    holds is equal in all of them, what that costs differs with how the factors are split among the fan-outs there.

    each: of every structure, the first one's first. per_load: what loads cost, by (tensor, parent, level), with the
    lattice of its tiles (cost_tables.py).
    """

    def __init__(self, each: Iterable[StructureFactors]) -> None:
        self.each = tuple(each)
        self.per_load: dict[tuple[int, int, int], tuple[Lattice, tuple[Numbers, ...]] | None] = {}
        self._kinds: dict[tuple[int, int, int], tuple[AlikeMembers, ...]] = {}

    def placed(self, places: Places) -> Members:
        """Return the members with spatial loops at other places."""
        return Members(one.placed(places) for one in self.each)

    @property
    def shared(self) -> SpatialFactors[Any]:
        """Return the factors that are equal in all members: those between two levels."""
        return self.each[0]

    def kinds(self, term: TensorTerm, parent: int, level: int) -> tuple[AlikeMembers, ...]:
        """Return one structure's factors per way in which loads of a node at `level` reach it from `parent`, those side
        by side whose window dims are spread alike."""
        asked = term.index, parent, level
        if asked not in self._kinds:
            self._kinds[asked] = self._kinds_of(term, parent, level)
        return self._kinds[asked]

    def _kinds_of(self, term: TensorTerm, parent: int, level: int) -> tuple[AlikeMembers, ...]:
        if len(self.each) == 1:
            return (AlikeMembers(self.each[0], self.each),)
        dims, windows = self.each[0].problem.dims, term.window_dims
        own = [d for d, dim in enumerate(dims) if dim in term.dims]
        along = [d for d, dim in enumerate(dims) if dim in windows]
        found: dict[tuple[tuple[int, ...], ...], dict[tuple[tuple[int, ...], ...], StructureFactors]] = {}
        for factors in self.each:
            rows = [row for _, row in factors.between(parent, level)]
            kind = found.setdefault(tuple(tuple(row[d] for d in along) for row in rows), {})
            kind.setdefault(tuple((*(row[d] for d in own), prod(row)) for row in rows), factors)
        return tuple(AlikeMembers(next(iter(kind.values())), tuple(kind.values())) for kind in found.values())


@dataclass(frozen=True, slots=True, eq=False)
class StackedAlike(AlikeMembers):
    """The members of such a kind of several groups, group by group. group: of each member; count, axes: of the groups
    and of the arrays in which they are stacked, [group, *lattice]."""

    group: IntArray
    count: int
    axes: int

    def least(self, values: Iterable[Any]) -> Any:
        (own,) = values
        found: IntArray = np.full(self.count, np.iinfo(np.int64).max >> 2)
        np.minimum.at(found, self.group, own)
        return found.reshape(-1, *(1,) * self.axes)

    def uncovered(self, vectors: Iterable[Sequence[Any]]) -> Iterable[Sequence[Any]]:
        """One vector: the least of each weight. Nearly always one member has all of these."""
        (own,) = vectors
        return [[self.least([one]) for one in own]]

    def among(self, arithmetic: Arithmetic, costs: Numbers) -> Numbers:
        present = np.bincount(self.group, minlength=self.count) > 0
        return costs if present.all() else arithmetic.where(present.reshape(-1, *(1,) * self.axes), costs)


class StackedMembers(Members):
    """The members of several groups, group by group, that spread the window dims alike between the same levels.

    group: of each member. axes: of the lattice that all groups' tiles are in.
    """

    def __init__(self, each: Iterable[StructureFactors], group: IntArray, axes: int) -> None:
        super().__init__(each)
        self.group, self.count, self.axes = group, int(group.max()) + 1, axes
        self._rows = np.array([one.rows for one in self.each], dtype=np.int64)
        self._first = np.flatnonzero(np.diff(group, prepend=-1))

    @property
    def shared(self) -> SpatialFactors[Any]:
        return self._factors(self._first, (1,) * self.axes)

    def _factors(self, numbers: IntArray, more: tuple[int, ...] = ()) -> SpatialFactors[IntArray]:
        """Return the factors of some members side by side."""
        rows = self._rows[numbers].reshape(len(numbers), *self._rows.shape[1:], *more)
        columns = tuple(tuple(rows[:, one, d] for d in range(rows.shape[2])) for one in range(rows.shape[1]))
        return SpatialFactors(self.each[0].problem, columns, np.ones((len(numbers), *more), dtype=np.int64))

    def _kinds_of(self, term: TensorTerm, parent: int, level: int) -> tuple[AlikeMembers, ...]:
        classes, dims = self.each[0].problem.classes, self.each[0].problem.dims
        between = [number for number, one in enumerate(classes) if parent < one.below <= level]
        along = [d for d, dim in enumerate(dims) if dim in term.window_dims]
        key = self._rows[:, between][:, :, along].reshape(len(self.each), -1)
        ways, way = np.unique(key, axis=0, return_inverse=True) if key.shape[1] else (key[:1], np.zeros(len(key), int))
        found: list[AlikeMembers] = []
        for number in range(len(ways)):
            own: IntArray = np.flatnonzero(way.ravel() == number)
            stacked = self._factors(own)
            found.append(StackedAlike(self.each[int(own[0])], (stacked,), self.group[own], self.count, self.axes))
        return tuple(found)


def uncovered_vectors(vectors: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the vectors that no other one covers (Pareto dominance), each once."""
    distinct = dict.fromkeys(map(tuple, vectors))
    return [one for one in distinct if not any(other != one and covers(other, one) for other in distinct)]


def covers_intrinsics(
    factors: StructureFactors, level: int, tiles: Mapping[str, int] | Mapping[str, IntArray]
) -> bool | NDArray[np.bool_]:
    """Return whether (or where) a node of a level with these temporal tiles covers multiples of the intrinsic sizes."""
    ok: bool | NDArray[np.bool_] = True
    for rule in factors.problem.rules:
        if isinstance(rule, Intrinsic):
            covered = tiles[rule.dim] * factors.factor(rule.dim, level, factors.problem.level_count)
            ok = ok & (covered % rule.size == 0)
    return ok


def spans_enough(
    factors: StructureFactors, term: TensorTerm, level: int, tiles: Mapping[str, int] | Mapping[str, IntArray]
) -> bool | NDArray[np.bool_]:
    """Return whether (or where) a node of a level with these temporal tiles holds as many of a tensor's elements, and
    stands where as many indices are left, as rules ask for."""
    ok: bool | NDArray[np.bool_] = True
    name = factors.problem.arch.levels[level].name
    for rule in factors.problem.rules:
        if isinstance(rule, AtLeast) and (rule.level, rule.tensor) == (name, term.tensor.name):
            spanned: int | IntArray = 1
            for dim in sorted(term.dims):
                along = tiles[dim] * factors.factor(dim, level, factors.problem.level_count)
                spanned = np.minimum(spanned * np.minimum(along, rule.elements), rule.elements)  # no product is long
            ok = ok & (np.asarray(spanned) >= rule.elements)
        elif isinstance(rule, Span) and (rule.level, rule.tensor) == (name, term.tensor.name):
            own = factors.problem.arch.level_index(rule.at)
            left = np.asarray(tiles[rule.dim] * factors.factor(rule.dim, own, factors.problem.level_count))
            ok = ok & (rule.least <= left) & (left <= rule.most)
    return ok


def added_up(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """Return the sum of two costs, component by component."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


def covers(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """Return whether no entry of `old` is larger than that of `new` (Pareto dominance, equality included)."""
    return all(a <= b for a, b in zip(old, new, strict=True))


@dataclass(frozen=True, slots=True)
class Context:
    """What is decided above the tables: tiles of the chain so far, outermost first (the first one is the whole), and
    the places of spatial loops."""

    tiles: tuple[tuple[int, ...], ...]
    places: Places


def root_context(problem: Problem, structure: Structure, places: Places = ()) -> Context:
    """Return the context in which no node is placed."""
    return Context((tuple(e // structure.used(d) for d, e in enumerate(problem.extents)),), places)


@dataclass(frozen=True, slots=True)
class ReadWeights(Generic[Factor]):
    """What elements cost an input's node: fill: one that an instance loads; read: one that is read at the parent for
    its siblings' messages; sent: (cut, weight), one that is sent to an instance below so many fan-outs; held: one that
    an instance holds. Messages along window dims are left to whoever asks."""

    fill: Factor
    read: Factor
    sent: tuple[tuple[int, Factor], ...]
    held: int

    @property
    def filled(self) -> Factor:
        """What one element costs on its way and where it arrives, with one message along window dims."""
        return sum((weight for _, weight in self.sent), start=self.fill)


def read_weights(
    factors: SpatialFactors[Factor], term: TensorTerm, component: Component, parent: int, level: int
) -> ReadWeights[Factor]:
    """Return the weights of a node at `level`, which places do not change. The compute unit (the level count) is a node
    that is filled for nothing else and holds nothing."""
    if not term.is_window:  # asked for once
        return _read_weights(factors, term, component, parent, level)
    asked = term.index, component, parent, level
    found = factors.known.get(asked)
    if found is None:
        found = factors.known[asked] = _read_weights(factors, term, component, parent, level)
    return found


def _read_weights(
    factors: SpatialFactors[Factor], term: TensorTerm, component: Component, parent: int, level: int
) -> ReadWeights[Factor]:
    weights = node_weights(factors.problem, term, component, parent, (level,))
    read = weights.message * factors.messages(term, parent, level)
    if component.busiest:
        return ReadWeights(weights.fill * factors.one, read, (), weights.held)
    sent = tuple(
        (cut, price * (factors.above(cut) * factors.messages(term, parent, level, cut)))
        for cut, price in weights.crossings()
    )
    return ReadWeights(weights.fill * factors.instances(level), read * factors.instances(parent), sent, weights.held)


def update_weight(
    factors: SpatialFactors[Factor],
    term: TensorTerm,
    component: Component,
    levels: tuple[int, int],
    inside: tuple[int, ...],
) -> tuple[Factor, Factor]:
    """Return what moving one element of one instance of an output's node at levels[1], with parent levels[0], costs per
    visit, and what first updates save in the whole run (docs/closed_form.md).

    inside: the node's level and those of the nodes inside it. What siblings elide, which is all but one update of each
    element that they share, is credited to all of these.
    """
    parent, level = levels
    shared, unadded, different = factors.siblings(term, parent, level)
    weights, zero = node_weights(factors.problem, term, component, parent, inside), term.zero_starts
    if component.busiest:
        own = factors.product(factors.factor(dim, -1, level) for dim in sorted(term.dims))
        return weights.fill + different * unadded * weights.message, weights.fill * (zero // own)
    instances = factors.instances(level)
    moved = unadded * weights.message + weights.fill + weights.further_in
    total = instances // shared * moved - instances * weights.further_in
    for cut, price in weights.crossings():
        total = total + instances // factors.added(term, parent, level, cut) * price
    return total, zero * weights.fill * factors.one


def update_end(
    factors: SpatialFactors[Factor], term: TensorTerm, component: Component, holder: int, steps: Factor
) -> Factor:
    """Return what the updates of the statement instances cost at the level that holds the output. steps: temporal
    iterations of each compute unit."""
    last = factors.problem.level_count
    _, unadded, different = factors.siblings(term, holder, last)
    weights = node_weights(factors.problem, term, component, holder, (last,))
    cost = weights.message * (steps * different * unadded)
    if component.busiest:
        return cost
    cost = cost * factors.instances(holder)
    for cut, price in weights.crossings():
        cost = cost + price * (steps * factors.instances(last) // factors.added(term, holder, last, cut))
    return cost


def places_of(problem: Problem, structure: Structure) -> tuple[Places, ...]:
    """Return every choice of how much of each window dim's temporal loops stands inside its spatial loops, and of the
    order of these."""
    return tuple(product(*choices_of_places(problem, structure)))


def choices_of_places(problem: Problem, structure: Structure, *, ordered: bool = True) -> tuple[Places, ...]:
    """Return, per group of fan-outs and window dim that is spread there, the choices of its place, with the order of
    its loops or that open."""
    windows = [dim for term in problem.terms for dim in term.window_dims]
    whole = dict(zip(problem.dims, root_context(problem, structure).tiles[0], strict=True))
    factors = StructureFactors(problem, structure)
    return tuple(
        tuple(
            Place(below, dim, inside, order)
            for inside in divisors(whole[dim])
            for order in (factors.orders(dim, below) if ordered else ((),))
        )
        for below in factors.groups()
        for dim in windows
        if factors.group_factor(dim, below) > 1
    )
