"""Bounds of the first part of a front below limits of the second, against point sets whose front is known."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from polymap.explore import explore
from polymap.inputs.presets import load_arch
from polymap.search.parts import FrontBounds, Values
from polymap.workload.layers import matmul

UNIT = Fraction(1, 3)
ORDERS = (("latency", "energy"), ("energy", "latency"))


def covers(one: Values, other: Values) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


def front_of(points: list[Values]) -> list[Values]:
    return sorted({one for one in points if not any(covers(other, one) for other in points if other != one)})


def drawn_points(rng: random.Random) -> list[Values]:
    most = rng.choice((5, 40, 10_000))
    count = rng.randint(1, 30)
    return [(Fraction(rng.randint(1, most), 7), UNIT * rng.randint(1, most)) for _ in range(count)]


def least_below(points: list[Values], limit: Fraction) -> Values | None:
    return min((one for one in points if one[1] <= limit), default=None)


@pytest.mark.parametrize("batch", range(10))
def test_asking_on_ends_with_the_whole_front_and_its_proof(batch: int) -> None:
    for seed in range(20 * batch, 20 * batch + 20):
        _ask_on(seed)


def _ask_on(seed: int) -> None:
    rng = random.Random(f"front bounds {seed}")
    points = drawn_points(rng)
    floors = min(one[0] for one in points), min(one[1] for one in points)
    known = [min(points), min(points, key=lambda one: (one[1], one[0])), *rng.sample(points, min(2, len(points)))]
    bounds, asked = FrontBounds(UNIT, floors), 0
    while (limit := bounds.next_limit(front_of(known))) is not None:
        asked += 1
        found = least_below(points, limit)
        bounds.note(limit, None if found is None else found[0])
        known += [found] if found else []
        assert all(any(covers(left, one) for left in bounds.left()) for one in points)
    assert asked <= 20 * len(points)
    assert front_of(known) == front_of(points)
    assert all(any(covers(one, left) for one in known) for left in bounds.left())


@pytest.mark.parametrize("batch", range(10))
def test_weak_bounds_never_hide_a_point(batch: int) -> None:
    for seed in range(20 * batch, 20 * batch + 20):
        _weaken(seed)


def _weaken(seed: int) -> None:
    """Whatever is noted, as long as it is true: every point lies behind one of the pairs."""
    rng = random.Random(f"weak bounds {seed}")
    points = drawn_points(rng)
    floors = min(one[0] for one in points) / 2, min(one[1] for one in points) - UNIT * rng.randint(0, 3)
    bounds = FrontBounds(UNIT, floors)
    for _ in range(rng.randint(0, 8)):
        limit = rng.choice(points)[1] + UNIT * rng.randint(-2, 2)
        found = least_below(points, limit)
        bounds.note(limit, None if found is None else found[0] * Fraction(rng.randint(0, 4), 4))
    left = bounds.left()
    assert all(any(covers(pair, one) for pair in left) for one in points)
    for one in points:
        below = bounds.below(one[1])
        assert below is not None
        assert below <= one[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "objective",
    ["pareto:energy,latency", *(pytest.param(f"lex:{a},{b}", marks=pytest.mark.soak) for a, b in ORDERS)],
)
def test_a_prime_product_has_one_best_mapping_in_both_parts(objective: str) -> None:
    """127 x 127 x 127 on 256 PEs: no tiles that divide spread it, so they need 2,048,383 cycles."""
    found = explore(matmul(127, 127, 127), load_arch("simba_like"), objective, time_limit_s=600, work_limit=20_000)
    assert found.status == "OPTIMAL"
    assert sorted(value for _, value in found.values) == [3025, 11_319_332.2]
    assert found.dividing is not None
    assert dict(found.dividing.values)["latency"] == 2_048_383
