"""Least loads through windows, against walking every loop order; and below every place of the spatial loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from math import prod

import pytest

from polymap.resources.caches import SearchCaches
from polymap.search.dividing.window_paths import GroupCrossing, WindowModel, least_loads, most_saved, window_counts
from polymap.search.problem.lattice import divisors, prime_factors
from polymap.search.problem.problem import IndexGroup

Loops = tuple[tuple[str, int], ...]  # (dim, trips), innermost first; "" for a dim that the tensor lacks


@dataclass(frozen=True, slots=True)
class Side:
    """A spatial loop over a dim: factor, the temporal extent inside it, whether it chooses the node's instance."""

    factor: int
    place: int
    fixed: bool


def index(side: Side | None, temporal: int, sibling: int) -> int:
    """Return the index of a dim from its temporal index and the sibling's number."""
    if side is None:
        return temporal
    return temporal % side.place + side.place * (sibling + side.factor * (temporal // side.place))


def tile_at(group: IndexGroup, sides: dict[str, Side], tile: dict[str, int], corner: dict[str, int]) -> set[int]:
    """Return the elements of the node's tile whose temporal indices start at `corner`; of instance 0."""
    ranges: list[set[int]] = []
    for dim in group.dims:
        side = sides.get(dim)
        siblings = range(side.factor) if side is not None and not side.fixed else range(1)
        inside = range(corner[dim], corner[dim] + tile[dim])
        ranges.append({index(side, t, sibling) for t in inside for sibling in siblings})
    return {sum(c * i for c, i in zip(group.coefficients, point, strict=True)) for point in product(*ranges)}


def loads(group: IndexGroup, sides: dict[str, Side], tile: dict[str, int], loops: Loops) -> int:
    """Return what a node loads when the loops run, by walking them."""
    held: set[int] = set()
    total = 0
    for counters in product(*(range(trips) for _, trips in reversed(loops))):
        corner, step = dict.fromkeys(tile, 0), dict(tile)
        for (dim, trips), counter in zip(loops, reversed(counters), strict=True):
            if dim:
                corner[dim] += counter * step[dim]
                step[dim] *= trips
        now = tile_at(group, sides, tile, corner)
        total += len(now - held)
        held = now
    return total


def all_orders(tile: dict[str, int], extents: dict[str, int], repeat: int) -> Iterator[Loops]:
    """Yield every sequence of loops of prime length from the tile to the extents, no other dim's loop innermost."""
    yield from (order for order in orders_of(tile, extents, repeat) if not order or order[0][0])


def orders_of(tile: dict[str, int], extents: dict[str, int], repeat: int) -> set[Loops]:
    """Return every sequence of loops of prime length from the tile to the extents."""
    steps = [(dim, p) for dim in tile for p, e in prime_factors(extents[dim] // tile[dim]) for _ in range(e)]
    steps += [("", p) for p, e in prime_factors(repeat) for _ in range(e)]
    return set(permutations(steps))


def reaches(tile: dict[str, int], sides: dict[str, Side], loops: Loops) -> bool:
    """Return whether some place between two loops has the temporal extents that the spatial loops need inside."""
    for dim, side in sides.items():
        extent, met = tile[dim], {tile[dim]}
        for name, trips in loops:
            extent *= trips if name == dim else 1
            met.add(extent)
        if side.place > tile[dim] and side.place not in met:
            return False
    return True


def points_of(model: WindowModel) -> list[dict[str, int]]:
    return [
        dict(zip((dim for dim, _ in model.pairs.lattice.extents), tile, strict=True))
        for tile in model.pairs.tiles.tolist()
    ]


def model_of(group: IndexGroup, extents: dict[str, int], crossings: dict[str, GroupCrossing]) -> WindowModel:
    through = tuple((crossings[dim],) if dim in crossings else () for dim in group.dims)
    return window_counts(SearchCaches()).window_model((group,), tuple(extents.items()), through)


WINDOWS = [
    ((1, 1), {"p": 4, "r": 3}),
    ((1, 1), {"p": 8, "r": 2}),
    ((2, 1), {"p": 4, "r": 3}),
    ((3, 1), {"p": 4, "r": 2}),
    ((1, 2), {"p": 6, "r": 3}),
    ((1, -1), {"p": 6, "r": 3}),
    ((2, 3), {"p": 4, "r": 4}),
]


@pytest.mark.parametrize(("coefficients", "extents"), WINDOWS)
def test_least_loads_are_the_least_over_all_loop_orders(coefficients: tuple[int, int], extents: dict[str, int]) -> None:
    group = IndexGroup(tuple(extents), coefficients)
    model = model_of(group, extents, {})
    top, repeat = len(model.overlaps.size) - 1, 4
    found, again, _ = least_loads(model, top)
    tight = walked = 0
    for t, tile in enumerate(points_of(model)):
        assert model.overlaps.size[t] == len(tile_at(group, {}, tile, dict.fromkeys(tile, 0)))
        for times in divisors(repeat):
            if t == top:
                assert found[t] == again[t] == model.overlaps.size[t]
                continue
            least = min(loads(group, {}, tile, order) for order in all_orders(tile, extents, times))
            bound = found[t] + (times - 1) * again[t]
            assert bound == least if times == 1 else bound <= least, (tile, times)
            tight, walked = tight + (bound == least), walked + 1
    assert tight > 0.8 * walked


@pytest.mark.parametrize(("coefficients", "extents"), WINDOWS[:4])
def test_least_loads_below_a_smaller_tile_count_only_what_is_inside(
    coefficients: tuple[int, int], extents: dict[str, int]
) -> None:
    group = IndexGroup(tuple(extents), coefficients)
    model = model_of(group, extents, {})
    points = points_of(model)
    for outer, outside in enumerate(points):
        found, _, feasible = least_loads(model, outer)
        for t, tile in enumerate(points):
            if any(outside[dim] % tile[dim] for dim in tile):
                assert not feasible[t]
            else:
                assert found[t] == min(loads(group, {}, tile, order) for order in all_orders(tile, outside, 1))


@pytest.mark.parametrize(("coefficients", "extents"), [*WINDOWS[:3], WINDOWS[5]])
def test_loads_through_a_mark_are_the_least_over_the_loop_orders_that_pass_it(
    coefficients: tuple[int, int], extents: dict[str, int]
) -> None:
    group = IndexGroup(tuple(extents), coefficients)
    model = model_of(group, extents, {})
    points = points_of(model)
    for mark, middle in enumerate(points):
        found, _, feasible = least_loads(model, mark)
        for repeat in (1, 2):
            saved = most_saved(model, mark, len(points) - 1, repeat, 1)
            outside = repeat * prod(extents[dim] // middle[dim] for dim in extents)
            for t, tile in enumerate(points):
                if not feasible[t]:
                    continue
                inner = list(all_orders(tile, middle, 1))
                outer = orders_of(middle, extents, repeat)
                least = min(loads(group, {}, tile, (*a, *b)) for a in inner for b in outer)
                assert found[t] * outside - saved[t] == least, (tile, middle, repeat)


CROSSED = [
    ((1, 1), {"p": 4, "r": 3}, {"p": (2, True)}),
    ((1, 1), {"p": 4, "r": 3}, {"p": (2, False)}),
    ((1, 1), {"p": 4, "r": 2}, {"p": (3, False), "r": (2, True)}),
    ((2, 1), {"p": 4, "r": 2}, {"p": (2, True)}),
    ((2, 1), {"p": 4, "r": 3}, {"p": (2, False)}),
    ((1, 2), {"p": 4, "r": 2}, {"r": (2, False)}),
    ((1, -1), {"p": 4, "r": 3}, {"p": (2, False)}),
]


@pytest.mark.parametrize(("coefficients", "extents", "factors"), CROSSED)
def test_least_loads_are_a_bound_for_every_place_of_the_spatial_loops(
    coefficients: tuple[int, int], extents: dict[str, int], factors: dict[str, tuple[int, bool]]
) -> None:
    group = IndexGroup(tuple(extents), coefficients)
    crossings = {dim: GroupCrossing((((factor, None),),), fixed) for dim, (factor, fixed) in factors.items()}
    model = model_of(group, extents, crossings)
    repeat, tight, walked = 2, 0, 0
    found, again, _ = least_loads(model, len(model.overlaps.size) - 1)
    for t, tile in enumerate(points_of(model)):
        for sides in sides_of(tile, extents, factors):
            assert model.overlaps.size[t] <= len(tile_at(group, sides, tile, dict.fromkeys(tile, 0)))
            for times in divisors(repeat):
                orders = [order for order in all_orders(tile, extents, times) if reaches(tile, sides, order)]
                if orders:
                    least = min(loads(group, sides, tile, order) for order in orders)
                    bound = found[t] + (times - 1) * again[t]
                    assert bound <= least, (tile, sides, times)
                    tight, walked = tight + (bound == least), walked + 1
    assert walked
    assert tight


def sides_of(
    tile: dict[str, int], extents: dict[str, int], factors: dict[str, tuple[int, bool]]
) -> Iterator[dict[str, Side]]:
    """Yield every legal place of the spatial loops: fixed ones outside the tile, others inside or outside."""
    choices: list[list[tuple[str, Side]]] = []
    for dim, (factor, fixed) in factors.items():
        places = divisors(extents[dim])
        inside = [y for y in places if tile[dim] % y == 0 and not fixed]
        outside = [y for y in places if y % tile[dim] == 0]
        choices.append([(dim, Side(factor, y, fixed)) for y in sorted({*inside, *outside})])
    yield from (dict(sides) for sides in product(*choices))


@pytest.mark.parametrize(("coefficients", "extents", "factors"), CROSSED[:5])
def test_decided_places_give_the_loads_of_exactly_these_places(
    coefficients: tuple[int, int], extents: dict[str, int], factors: dict[str, tuple[int, bool]]
) -> None:
    group = IndexGroup(tuple(extents), coefficients)
    for y in product(*(divisors(extents[dim]) for dim in factors)):
        places = dict(zip(factors, y, strict=True))
        crossings = {
            dim: GroupCrossing((((factor, None),),), fixed, place=places[dim])
            for dim, (factor, fixed) in factors.items()
        }
        sides = {dim: Side(factor, places[dim], fixed) for dim, (factor, fixed) in factors.items()}
        model = model_of(group, extents, crossings)
        found, _, feasible = least_loads(model, len(model.overlaps.size) - 1)
        for t, tile in enumerate(points_of(model)):
            if t == len(model.overlaps.size) - 1:
                continue
            if any(places[d] % tile[d] and tile[d] % places[d] for d in places):
                assert not feasible[t]
                continue
            if any(side.fixed and side.place % tile[dim] for dim, side in sides.items()):
                assert not feasible[t]  # what chooses the instance cannot stand inside the node's tile
                continue
            orders = [order for order in all_orders(tile, extents, 1) if reaches(tile, sides, order)]
            assert orders
            assert found[t] == min(loads(group, sides, tile, order) for order in orders), (tile, places)
