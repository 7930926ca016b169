"""Violations of random affine schedules, with floors and remainders, are those that running the program shows."""

from __future__ import annotations

import random

import pytest

from polymap.ir.loopnest import Operator, Statement, Workload
from polymap.ir.quasi_affine import Affine, Floor, affine, dim
from polymap.schedules.legality import schedule_violations
from polymap.schedules.relation import Times
from tests.nests import NESTS, Pair, at, referee_pairs, statement, workload

SMALL = tuple(name for name in NESTS if "depthwise" not in name)


def random_affine(rng: random.Random, dims: tuple[str, ...], depth: int) -> Affine:
    """Return a sum of terms, some of them floors or remainders of such sums (`depth` deep)."""
    total = Affine((), rng.randrange(-3, 4))
    for _ in range(rng.choice((1, 1, 2, 3))):
        factor = rng.choice((-3, -2, -1, 1, 1, 2, 3))
        inner = random_affine(rng, dims, depth - 1) if depth and rng.random() < 0.5 else None
        if inner is None or not inner.terms:
            total = total + dim(rng.choice(dims)) * factor
            continue
        divisor = rng.randrange(2, 6)
        quotient = affine(((1, Floor(inner, divisor)),))
        total = total + (quotient if rng.random() < 0.5 else inner - quotient * divisor) * factor
    return total


def random_nest(rng: random.Random) -> Workload:
    """Return one or two statements with random subscripts and constraints in one nest."""
    dims = ("i", "j") if rng.random() < 0.7 else ("i", "j", "k")
    extents = {name: rng.randrange(2, 8 if len(dims) == 2 else 5) for name in dims}

    def access() -> tuple[str, Affine, Affine]:
        return rng.choice("ab"), random_affine(rng, dims, rng.choice((0, 0, 1, 2))), random_affine(rng, dims, 1)

    statements: list[Statement] = []
    for number in range(rng.choice((1, 1, 2))):
        reads = [at(*access()) for _ in range(rng.randrange(3))]
        within = (random_affine(rng, dims, 1) + 2,) if rng.random() < 0.4 else ()
        operator = rng.choice((Operator.ASSIGN, Operator.ASSIGN, Operator.ADD))
        position = (*(0 for _ in dims), number)
        statements.append(
            statement(
                "".join(dims), at(*access()), reads, operator, name=f"S{number}", constraints=within, position=position
            )
        )
    return workload(extents, *statements)


def random_schedule(rng: random.Random, work: Workload) -> Times:
    return {
        each.name: tuple(random_affine(rng, each.dims, 2) for _ in range(rng.randrange(1, 5)))
        for each in work.statements
    }


def broken_by(work: Workload, schedule: Times, pairs: set[Pair]) -> set[Pair]:
    """Return the pairs whose second instance does not run later than the first."""
    length = max(len(times) for times in schedule.values())

    def when(name: str, point: tuple[int, ...]) -> tuple[int, ...]:
        values = dict(zip(work.statement(name).dims, point, strict=True))
        times = tuple(place.evaluate(values) for place in schedule[name])
        return (*times, *(0 for _ in range(length - len(times))))

    wanted = (pair for pair in pairs if pair[2] != "reduction")
    return {pair for pair in wanted if not when(pair[0], pair[4]) < when(pair[1], pair[5])}


def assert_found(work: Workload, schedule: Times, pairs: set[Pair]) -> None:
    """Every dependence with a broken pair is told once, with two instances that are such a pair."""
    broken = broken_by(work, schedule, pairs)
    found = schedule_violations(work, schedule)
    assert len(found) == len({pair[:4] for pair in broken})
    shown = {(pair[0], pair[4], pair[1], pair[5]) for pair in broken}
    for violation in found:
        first, second = violation.witness
        points = (first.statement, _values(first.values), second.statement, _values(second.values))  # type: ignore[union-attr]
        assert points in shown


def _values(pairs: tuple[tuple[str, int], ...]) -> tuple[int, ...]:
    return tuple(number for _, number in pairs)


def check_known(seeds: range) -> None:
    known = {name: referee_pairs(NESTS[name][0]) for name in SMALL}
    for seed in seeds:
        rng = random.Random(seed)
        name = rng.choice(SMALL)
        assert_found(NESTS[name][0], random_schedule(rng, NESTS[name][0]), known[name])


def check_random(seeds: range) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        work = random_nest(rng)
        pairs = referee_pairs(work)
        for _ in range(3):
            assert_found(work, random_schedule(rng, work), pairs)


def test_violations_of_random_schedules_of_known_nests_are_those_of_running_them() -> None:
    check_known(range(100))


def test_violations_of_random_schedules_of_random_nests_are_those_of_running_them() -> None:
    check_random(range(75))


@pytest.mark.soak
def test_violations_of_thousands_of_random_schedules_are_those_of_running_them() -> None:
    check_known(range(10_000, 16_000))
    check_random(range(10_000, 16_000))
