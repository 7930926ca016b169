"""Deliberate mistakes in the bounds of one buffer put a bound above the exact value of a mapping, or lose its room."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest

from polymap.ir import Architecture, Mapping, Workload
from polymap.search.problem import Problem, analyse, exact_score, measure_of, parse_objective
from polymap.search.single_level import bounds, cells, first_tiles, question, sizes, window_sums
from polymap.workload.einsums import einsum
from tests.property.test_seeded_search_bugs import Bug, assert_seen
from tests.referee.test_buffer_bounds import FAMILIES, WINDOWS, least_bits, two_levels

QUESTIONS = 5
ROOMS = 6
BILLION = 1_000_000_007
# Questions where a bound is sharp (einsum, sizes, bits, size of the buffer), held to the best mapping found.
SHARP = (
    ("O[p,q] += I[p+r,q+s] * W[r,s]", {"p": 2, "q": 2, "r": 2, "s": 2}, {"O": 2, "I": 2, "W": 3}, 6),
    ("O[p,q] += I[p+r,q+s] * W[r,s]", {"p": 3, "q": 2, "r": 2, "s": 2}, {"O": 3, "I": 1, "W": 2}, 6),
    ("y[m] += A[m,k]", {"m": 2, "k": 6}, {"y": 8, "A": 1}, 3),
    ("O[p] += I[c,p+r] * W[c,r]", {"c": 5, "p": 6, "r": 2}, {"O": 8, "I": 1, "W": 8}, 7),
    ("O[p,q] += I[p+r,q+s] * W[r,s]", {"p": 4, "q": 2, "r": 2, "s": 2}, {"O": 1, "I": 1, "W": 8}, 24),
)


def _private(owner: object, name: str) -> Any:
    return getattr(owner, name)


BUGS = (
    Bug(
        "nodes further in load twice",
        bounds.OrderBound.least,
        "one.weight * self._later",
        "2 * one.weight * self._later",
    ),
    Bug(
        "windows are loaded anew in every tile",
        _private(cells.CellBounds, "_in_boxes"),
        "others * (loads[number]",
        "tiles * (loads[number]",
    ),
    Bug("a further pass loads tiles anew", _private(window_sums, "_further_passes"), "around, 0.0", "3 * around, 0.0"),
    Bug("nothing stays from box to box", _private(cells.CellBounds, "_kept"), "return found[0] + found[1]", "return 0"),
    Bug("tiles take twice their room", cells.CellBounds.bits, "found + one.bits", "found + 2 * one.bits"),
    Bug("cells are numbered in 16 bits", first_tiles.FirstTiles.__init__, "np.int32)", "np.int16)"),
    Bug("what is written first is read", question.read_question, "problem.extents) - saved", "problem.extents)"),
    Bug("mappings need no room", _private(sizes, "_ScoredTrees").best, "if counts[1] <= room", "if counts"),
    Bug("first updates are read", question.priced_question, "credit - start -", "credit -"),
    Bug("bounds are rounded up", _private(bounds, "_least_integer"), "(1 - margin)", "(1 + 99 * margin)"),
)

Asked = tuple[Workload, list[int], list[tuple[Mapping, int] | None]]


@cache
def _questions() -> tuple[Asked, ...]:
    """Return workloads, sizes of the buffer, and mappings with what they move."""
    rng, found = random.Random("seeded buffers"), list[Asked]()
    asked = [(einsum(text, bits=bits, sizes=extents), [room]) for text, extents, bits, room in SHARP]
    asked += [(einsum("s[] += A[k] * B[k]", bits=8, sizes={"k": BILLION}), [24])]
    for number in range(QUESTIONS):
        text, most = rng.choice((*FAMILIES, *WINDOWS) if number % 2 else FAMILIES[:2])
        names = [part.split("[")[0].strip() for part in text.replace("+=", "*").split("*")]
        bits = {name: rng.choice((1, 1, 2, 3, 8)) for name in names if name.isalpha()}
        workload = einsum(text, bits=bits, sizes={dim: rng.randint(2, 2 * n) for dim, n in most.items()})
        asked.append((workload, sorted(rng.sample(range(3, 120), ROOMS))))
    for workload, rooms in asked:
        solved = sizes.solve_sizes(_problem(workload, 1), rooms)
        assert solved is not None
        found.append(
            (workload, rooms, [None if s.best is None or s.value is None else (s.best, s.value) for s in solved])
        )
    return tuple(found)


def _machine(room: int) -> Architecture:
    return two_levels(room, None, ())


def _problem(workload: Workload, room: int) -> Problem:
    return analyse(workload, _machine(room))


def no_bound_is_above_a_mapping(number: int) -> None:
    workload, rooms, known = _questions()[number]
    asked = question.read_question(_problem(workload, 1))
    assert asked is not None
    for more in (None, 1):
        values = [None if one is None or more is None else one[1] + more for one in known]
        for bound, one in zip(least_bits(asked, rooms, values), known, strict=True):
            assert one is None or (bound is not None and bound <= one[1])


def no_bound_at_once_is_above_a_mapping(number: int) -> None:
    workload, rooms, known = _questions()[number]
    for room, one in zip(rooms, known, strict=True):
        arch = _machine(room)
        measure = measure_of(parse_objective("traffic:DRAM", arch), workload, arch)
        least = bounds.bound_at_once(analyse(workload, arch), measure)
        assert one is None or least is None or least <= one[1]


def mappings_fit_and_move_what_is_said(number: int) -> None:
    workload, rooms, _ = _questions()[number]
    solved = sizes.solve_sizes(_problem(workload, 1), rooms)
    for room, one in zip(rooms, solved or (), strict=True):
        if one.best is not None:
            arch = _machine(room)
            score = exact_score(workload, arch, parse_objective("traffic:DRAM", arch), one.best)
            assert score is not None
            assert not score.excess
            assert score.value == one.value


# The law and question, law by law, that see a bug first, where they are not the first.
SEEN = {
    "nodes further in load twice": 6,
    "windows are loaded anew in every tile": 4,
    "a further pass loads tiles anew": 4,
    "nothing stays from box to box": 1,
    "cells are numbered in 16 bits": 5,
    "what is written first is read": 2,
    "mappings need no room": 23,
    "first updates are read": 16,
    "bounds are rounded up": 2,
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_breaks_a_law_that_holds_without_it(bug: Bug) -> None:
    numbers = range(len(_questions()))
    laws: list[Callable[[], None]] = [partial(no_bound_is_above_a_mapping, n) for n in numbers]
    laws += [partial(no_bound_at_once_is_above_a_mapping, n) for n in numbers]
    laws += [partial(mappings_fit_and_move_what_is_said, n) for n in numbers[-3:]]
    assert_seen(bug, laws, SEEN.get(bug.name, 0))
