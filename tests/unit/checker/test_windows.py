"""What the checker says of windows is what loops, walked one after the other, touch and load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise, permutations, product
from math import prod

import pytest

from polymap.checker.grids import NEVER, divisors, grid_of, primes
from polymap.checker.windows import Crossing, axis, looks, window

Look = tuple[
    frozenset[int], frozenset[int], int, int
]  # indices, offsets of alike siblings, start of next and last tile


def walked(extent: int, tile: int, passed: int, crossings: tuple[Crossing, ...]) -> Iterator[Look]:
    """Yield what a dim looks like for every place and order of its spatial loops, from the digits of its loops."""
    for places in product(*((place,) if place else divisors(extent) for _, _, place in crossings)):
        for order, orders in product(permutations(range(len(places))), product(*(own for own, *_ in crossings))):
            stops = sorted({1, tile, passed, extent, *places})
            inward = [places[number] for number in order]
            around = all(y % tile == 0 for y, (_, above, _) in zip(places, crossings, strict=True) if above)
            if inward != sorted(inward) or not around or any(b % a for a, b in pairwise(stops)):
                continue
            stride, next_pass, touched, alike, last = 1, 0, {0}, {0}, 0
            for stop, after in pairwise([*stops, 2 * extent]):
                for number in (each for each in order if places[each] == stop):
                    for factor, merge in orders[number]:
                        steps = range(0, factor * stride, stride)
                        if not crossings[number][1]:
                            touched = {a + b for a in touched for b in steps}
                        elif merge == "identical":
                            alike = {a + b for a in alike for b in steps}
                        stride *= factor
                next_pass = stride if stop == passed else next_pass
                steps = range(0, after // stop * stride, stride)
                touched = {a + b for a in touched for b in steps} if stop < tile else touched
                last += steps[-1] if tile <= stop < passed else 0
                stride *= after // stop
            yield frozenset(touched), frozenset(alike), next_pass, last


def mask(numbers: frozenset[int]) -> int:
    return sum(1 << number for number in numbers)


CROSSINGS: tuple[tuple[Crossing, ...], ...] = (
    (),
    (((((2, "identical"),),), True, 0),),
    (((((3, "union"),),), False, 0),),
    (((((2, "identical"), (3, "none")), ((3, "none"), (2, "identical"))), True, 2),),
    (((((2, "none"),),), True, 0), ((((2, "identical"),),), False, 0)),
    (((((2, "union"),),), False, 2), ((((3, "identical"),),), True, 4)),
)


@pytest.mark.parametrize("crossings", CROSSINGS, ids=str)
def test_a_dim_looks_as_its_loops_walk_it(crossings: tuple[Crossing, ...]) -> None:
    for extent in (1, 4, 6, 8):
        pairs = [(tile, passed) for passed in divisors(extent) for tile in divisors(passed)]
        for tile, passed in pairs:
            if any(extent % place for *_, place in crossings if place):
                continue
            wanted = {
                (mask(touched), mask(alike), ahead - last, last)
                for touched, alike, ahead, last in walked(extent, tile, passed, crossings)
            }
            assert looks(extent, tile, passed, crossings) == wanted, (extent, tile, passed)


@pytest.mark.parametrize("weights", [(1, 1), (2, 1), (1, -1), (3, 2)])
@pytest.mark.parametrize("seen", [(0, 0), (1, 0), (2, 0), (0, 4)])
def test_of_a_window_stays_what_two_tiles_share(weights: tuple[int, int], seen: tuple[int, int]) -> None:
    """Referee: the sets of sums, at the end of the loops inside and after a step of the loop around them."""
    top, crossings = (4, 2), tuple(CROSSINGS[one] for one in seen)
    tiles = [tuple(one) for one in grid_of(top).tiles.tolist()]
    least, kept = axis(weights, top, crossings)
    for (t, tile), (x, passed) in product(enumerate(tiles), repeat=2):
        pairs = [walked(*one) for one in zip(top, tile, passed, crossings, strict=True)]
        sizes, stays = [(NEVER, NEVER)], [[-1]] * 3
        for each in product(*pairs) if all(b % a == 0 for a, b in zip(tile, passed, strict=True)) else ():
            sums = [{sum(map(prod, zip(weights, one, strict=True))) for one in product(*(look[:2][i] for look in each))}
                    for i in (0, 1)]  # fmt: skip
            back = sum(weight * look[3] for weight, look in zip(weights, each, strict=True))
            ahead = [weight * look[2] for weight, look in zip(weights, each, strict=True)]
            sizes.append((len(sums[0]), len(sums[1])))
            stays = [[*own, len({one + back for one in sums[0]} & {one + by for one in sums[0]})]
                     for own, by in zip(stays, [*ahead, 0], strict=True)]  # fmt: skip
        assert [max(own) for own in stays] == kept[:, x, t].tolist(), (tile, passed)
        if sizes[1:]:
            assert all(least[i, t] <= min(own[i] for own in sizes) for i in (0, 1)), (tile, passed)
            assert passed != tile or [*least[:, t]] == [min(own[i] for own in sizes) for i in (0, 1)], tile


def least_loads(weights: tuple[int, int], tile: tuple[int, int], blocks: Sequence[tuple[tuple[int, int], int]]) -> int:
    """Return the fewest elements that a node of a tile loads, over all orders of prime loops within blocks, innermost
    first: up to such a tile, and over other dims (2). What it holds stays until the next tile. Loops over other dims
    stand right above it only where the block has no others: what they save has a node of a larger tile."""
    found, inside, each = NEVER, tile, list[set[tuple[tuple[int, int], ...]]]()
    touched = {a + b for a, b in product(*(range(0, w * t, w) for w, t in zip(weights, tile, strict=True)))}
    for end, repeat in blocks:
        loops = [(d, p) for d in (0, 1) for p in primes(end[d] // inside[d])] + [(2, p) for p in primes(repeat)]
        orders = set(permutations(loops))
        each.append(orders if each or tile == end else {one for one in orders if one[-1][0] < 2})
        inside = end
    for chosen in product(*reversed(each)):
        steps, strides = list[list[int]](), [tile[0] * weights[0], tile[1] * weights[1], 0]
        for d, count in reversed([*chain(*chosen)]):
            steps.insert(0, [digit * strides[d] for digit in range(count)])
            strides[d] *= count
        total, held = 0, set[int]()
        for digits in product(*steps):
            now = {one + sum(digits) for one in touched}
            total, held = total + len(now - held), now
        found = min(found, total)
    return found


@pytest.mark.parametrize("weights", [(1, 1), (2, -1), (3, 2)])
@pytest.mark.parametrize("top", [(4, 2), (2, 3), (6, 1)])
def test_a_window_is_loaded_as_often_as_its_best_order_of_loops_does(
    weights: tuple[int, int], top: tuple[int, int]
) -> None:
    for end, trips in product({top, (2, 1), (top[0], 1)}, (1, 5)):
        outer = [] if end == top else [(top, 2, trips, 3)]
        first, through = window((((0, 1), weights),), top, ((), ()), ((end, 4, 1, 1), *outer), NEVER)[1:]
        for (t, tile), (m, repeat) in product(enumerate(grid_of(top).tiles.tolist()), enumerate(divisors(4))):
            if tile[0] > end[0] or tile[1] > end[1] or end[0] % tile[0] or end[1] % tile[1]:
                assert first[m, t] == through[m, t] == NEVER
                continue
            again = repeat if (*tile,) == end else 1  # no loop that moves it is inside: each pass loads it again
            assert first[m, t] == again * least_loads(weights, (*tile,), [(end, repeat)]), (tile, repeat)
            if again == 1:
                true = least_loads(weights, (*tile,), [(end, repeat), *(one[:2] for one in outer)])
                assert through[m, t] == true * (3 * trips if trips > 1 and outer else 1), (end, tile, repeat)
