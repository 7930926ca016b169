"""Counts along one dim are those of its indices, taken one by one."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import chain

import pytest

from polymap.costmodel.closed_form.digits import (
    Chain,
    CountedSteps,
    Part,
    kept_indices,
    lengths_of_all_digits,
    segments,
    step_runs,
)

Digits = tuple[int, ...]


def left(length: int, digit: int, tile: int) -> int:
    """Return how many of the first `length` indices a digit has."""
    return sum(index // tile == digit for index in range(length))


@pytest.mark.parametrize("seed", range(40))
def test_digits_of_a_run_leave_equal_lengths(seed: int) -> None:
    """Of all lengths, whatever the one of the step before is: none follows from another."""
    rng = random.Random(f"runs {seed}")
    for _ in range(10):
        tile, clock = rng.randrange(1, 6), rng.randrange(1, 20)
        now, before = ([rng.randrange(20) for _ in range(rng.randrange(1, 4))] for _ in range(2))
        steps, whole = list(step_runs(now, before, clock, tile)), list(segments(now, tile))
        for found, first in ((whole, 0), (steps, 1)):
            digits = [list(range(low, low + count)) for low, count in found]
            assert [*chain.from_iterable(digits)] == list(range(first, -(-max(now) // tile))), (
                "each digit with work, once"
            )
            for run in digits:
                for length in now:
                    assert len({left(length, digit, tile) for digit in run}) == 1, "what they leave"
                for length in (*before, clock) if first else ():
                    assert len({left(length, digit - 1, tile) for digit in run}) == 1, "what was left before"
        many = [rng.randrange(1, 4) for _ in now]
        wanted = defaultdict[int, int](int)
        for length, times in zip(now, many, strict=True):
            for digit in range(length):
                wanted[left(length, digit, tile)] += times
        wanted.pop(0, None)
        assert dict(lengths_of_all_digits(tuple(zip(now, many, strict=True)), tile)) == wanted


def kept_one_by_one(extent: int, loops: Chain, outside: int, counted: CountedSteps) -> int:
    """Return `kept_indices`: of an instance and digits of the outer loops, the indices that it has, where it, or the
    first instance, has work in one step of the inner loops."""
    works, pinned = defaultdict[tuple[Digits, Digits], list[Digits]](list), set[Digits]()
    for index in range(extent):
        rest, outer, inner, instance = index, list[int](), list[int](), list[int]()
        counts = True
        for tile, part, pin in loops:
            digit, rest = divmod(rest, tile)
            counts = counts and (part is not Part.PINNED or digit == pin)
            if part is Part.TIME:
                (outer if len(outer) < outside else inner).append(digit)
            elif part is not Part.FREE:
                instance.append(digit)
        works[tuple(outer), tuple(instance)].append(tuple(inner))
        pinned |= {tuple(instance)} if counts else set()
    total = 0
    for (outer, instance), steps in [one for one in works.items() if one[0][1] in pinned]:
        clock = steps if counted is CountedSteps.OWN else works[outer, (0,) * len(instance)]
        total += len(steps) if len({*clock}) == 1 else 0
    return total


@pytest.mark.parametrize("seed", range(40))
def test_indices_that_stay_are_those_of_one_step(seed: int) -> None:
    rng = random.Random(f"kept {seed}")
    for _ in range(10):
        extent, kinds = rng.randrange(1, 24), (Part.TIME, Part.TIME, Part.EACH, Part.FREE, Part.PINNED)
        parts = rng.choices(kinds, k=rng.randrange(5))
        if rng.random() < 0.5:  # loops in time around one over siblings have a way of their own
            parts = [*(Part.TIME for _ in range(rng.randrange(4))), rng.choice((Part.EACH, Part.PINNED))]
        tiles = sorted((rng.randrange(1, extent + 1) for _ in parts), reverse=True)
        loops = tuple((tile, part, rng.randrange(3)) for tile, part in zip(tiles, parts, strict=True))
        for outside in range(sum(part is Part.TIME for part in parts) + 1):
            for counted in CountedSteps:
                found = kept_indices(extent, loops, outside, counted)
                assert found == kept_one_by_one(extent, loops, outside, counted), (extent, loops, outside, counted)
