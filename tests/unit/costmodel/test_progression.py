"""Sums of arithmetic progressions against the same sets written out element by element."""

from __future__ import annotations

import random
from itertools import product

import pytest

from polymap.ir.errors import BudgetError
from polymap.poly.progression import (
    NestedProgression,
    Placed,
    Scattered,
    difference,
    intersection,
    overlap,
    progressions,
    same,
    translated_sum,
    union,
)

Step = tuple[int, int]


def listed(steps: list[Step]) -> frozenset[int]:
    return frozenset(sum(point) for point in product(*(range(0, s * n, s) if s else [0] for s, n in steps)))


def placed(steps: list[Step]) -> Placed:
    return Placed(*progressions(steps))


def random_steps(rng: random.Random) -> list[Step]:
    strides = rng.choice([(1, 2, 3), (1, 4, 5), (2, 3, 7), (6, 10, 15), (1, 10, 100), (-1, 2, -5), (4, 8, 3)])
    return [(rng.choice(strides), rng.randint(1, 5)) for _ in range(rng.randint(0, 4))]


def spread(one: Placed) -> frozenset[int]:
    shape = one.shape
    if isinstance(shape, NestedProgression):
        return frozenset(one.low + x for x in listed(list(shape.steps)))
    points = (
        shape.modulus * q + r for r, intervals in shape.parts for low, high in intervals for q in range(low, high)
    )
    return frozenset(one.low + x for x in points)


def test_a_sum_of_progressions_is_the_set_written_out() -> None:
    rng = random.Random(1)
    for _ in range(1200):
        steps = random_steps(rng)
        found, truth = placed(steps), listed(steps)
        assert spread(found) == truth, steps
        assert (found.size, found.low, found.shape.span) == (len(truth), min(truth), max(truth) - min(truth)), steps


def test_overlap_with_a_translate_is_the_intersection_counted() -> None:
    rng = random.Random(2)
    for _ in range(800):
        steps, others, shift = random_steps(rng), random_steps(rng), rng.randint(-40, 40)
        if rng.random() < 0.5:  # the same strides with other counts, as ragged tiles have them
            others = [(stride, rng.randint(1, count + 1)) for stride, count in steps]
        one, other = placed(steps), placed(others)
        truth = spread(Placed(0, one.shape)) & spread(Placed(shift, other.shape))
        assert overlap(one.shape, other.shape, shift) == len(truth), (steps, others, shift)


def test_union_intersection_and_difference_are_those_of_sets() -> None:
    rng = random.Random(3)
    for _ in range(1200):
        sets = [placed(random_steps(rng)) for _ in range(3)]
        sets = [Placed(each.low + rng.randint(-9, 9), each.shape) for each in sets]
        one, other, third = map(spread, sets)
        joined, met, left = union(sets), intersection(*sets[:2]), difference(*sets[:2])
        assert joined is not None
        assert spread(joined) == one | other | third
        assert (spread(met) if met else frozenset()) == one & other
        assert (spread(left) if left else frozenset()) == one - other
        again = union([joined, sets[2]])
        assert again is not None
        assert same(joined, again)
        assert same(sets[0], sets[1]) == (one == other)


def test_adding_progressions_to_any_set_is_the_sum_written_out() -> None:
    rng = random.Random(4)
    for _ in range(800):
        base, steps = union([placed(random_steps(rng)), placed(random_steps(rng))]), random_steps(rng)
        assert base is not None
        truth = frozenset(x + y for x in spread(base) for y in listed(steps))
        assert spread(translated_sum(base, steps)) == truth


def test_equal_sets_have_equal_canonical_nests() -> None:
    seen: dict[frozenset[int], Placed] = {}
    rng = random.Random(5)
    for _ in range(800):
        steps = random_steps(rng)
        found = placed(steps)
        if isinstance(found.shape, NestedProgression):
            assert seen.setdefault(listed(steps), found) == found


def test_extents_of_a_million_million_need_no_enumeration() -> None:
    huge = 10**12
    _, shape = progressions([(2, huge), (1, 3)])
    assert shape.size == 2 * huge + 1
    assert overlap(shape, shape, 2 * huge) == 1
    _, shape = progressions([(1, 7), (10**6, huge), (10**20, huge)])
    assert shape.size == 7 * huge * huge
    assert overlap(shape, shape, 10**20 + 10**6 + 1) == 6 * (huge - 1) * (huge - 1)
    _, shape = progressions([(2, huge), (3, huge)])  # all but the second and the second-last
    assert isinstance(shape, Scattered)
    assert shape.size == 5 * (huge - 1) - 1
    assert overlap(shape, shape, 1) == shape.size - 3


def test_a_set_with_too_many_gaps_is_refused() -> None:
    with pytest.raises(BudgetError, match="PM492 a tile is a set of integers with too many gaps"):
        progressions([(10**6, 10**5), (10**6 + 1, 10**5)])
