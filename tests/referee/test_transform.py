"""Transformations against brute force: all pairs of instances of small programs, and what their arrays hold."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from polymap.ir.errors import ScheduleError, WorkloadError
from polymap.ir.loopnest import Access, Operator, Workload
from polymap.schedules.scattering import LoopKind, Schedule
from polymap.transform.marks import unroll_and_jam
from polymap.transform.order import distribute, fuse, interchange, reverse, shift, skew, split, tile
from polymap.workload.c.reader import from_c
from tests.c_interpreter import Store, _value as value_of, apply, first_value, kept
from tests.case_programs import random_text
from tests.nests import instances
from tests.programs import KERNELS

Instance = tuple[str, tuple[int, ...]]


def when(schedule: Schedule, instance: Instance) -> tuple[int, ...]:
    dims = schedule.workload.statement(instance[0]).dims
    at = dict(zip(dims, instance[1], strict=True))
    return tuple(place.time.evaluate(at) for place in schedule.scattering(instance[0]).places)


def run_in(schedule: Schedule, rng: random.Random | None = None) -> Store:
    """Return what every element holds after the instances ran in the schedule's order (parallel loops shuffled)."""
    work = schedule.workload
    order = [(statement.name, point) for statement, point in instances(work)]
    loose = {
        (name, loop.position)
        for loop in schedule.loops()
        if loop.kind in (LoopKind.PARALLEL, LoopKind.VECTOR)
        for name in loop.statements
    }
    salt = rng.randrange(1, 1 << 20) if rng else 0

    def key(instance: Instance) -> tuple[int, ...]:
        times = when(schedule, instance)
        return tuple(
            (t * 7919 + 13) * (2 * salt + 1) % 1048573 if (instance[0], place) in loose else t
            for place, t in enumerate(times)
        )

    store: Store = {}
    kinds = {tensor.name: tensor.element_type or "int32" for tensor in work.tensors}
    for name, point in sorted(order, key=key):
        statement = work.statement(name)
        values = dict(zip(statement.dims, point, strict=True))

        def element(access: Access, values: dict[str, int] = values) -> tuple[str, tuple[int, ...]]:
            place = access.tensor, tuple(index.evaluate(values) for index in access.index)
            store.setdefault(place, kept(first_value(*place), kinds[access.tensor]))
            return place

        elements = {number: element(access) for number, access in enumerate(statement.reads)}
        result = value_of(statement.expression, statement, values, elements, store)
        target = element(statement.target)
        operation = {Operator.ADD: "+", Operator.MULTIPLY: "*", Operator.MAX: "max", Operator.MIN: "min"}
        if statement.operator in operation:
            result = apply(operation[statement.operator], store[target], result)
        store[target] = kept(result, kinds[statement.target.tensor])
    return store


def conflicts(work: Workload, *, strict: bool) -> set[tuple[Instance, Instance]]:
    """Return all pairs of instances in program order that touch one element, at least one writing it."""
    events: list[tuple[Instance, str, tuple[int, ...], bool, Operator | None]] = []
    for statement, point in instances(work):
        values = dict(zip(statement.dims, point, strict=True))
        for access in statement.reads:
            index = tuple(each.evaluate(values) for each in access.index)
            events.append(((statement.name, point), access.tensor, index, False, None))
        index = tuple(each.evaluate(values) for each in statement.target.index)
        events.append(((statement.name, point), statement.target.tensor, index, True, statement.operator))
    found: set[tuple[Instance, Instance]] = set()
    for number, (first, tensor, index, writes, operator) in enumerate(events):
        for second, other, element, also, another in events[number + 1 :]:
            if tensor != other or index != element or not (writes or also) or first == second:
                continue
            accumulate = operator is another and operator not in (None, Operator.ASSIGN)
            if accumulate and work.associative and not strict:
                continue
            found.add((first, second))
    return found


def is_kept(schedule: Schedule, pairs: set[tuple[Instance, Instance]]) -> bool:
    return all(when(schedule, first) < when(schedule, second) for first, second in pairs)


def random_step(rng: random.Random, schedule: Schedule, *, unsafe: bool) -> Schedule:
    loops = schedule.normal().loops()
    one, other = rng.choice(loops), rng.choice(loops)
    factor, size = rng.choice((-2, -1, 1, 2)), rng.randrange(1, 5)
    names = rng.sample(one.statements, rng.randrange(1, len(one.statements) + 1))
    steps: tuple[Callable[[], Schedule], ...] = (
        lambda: split(schedule, one.name, inner=size, unsafe=unsafe),
        lambda: interchange(schedule, one.name, other.name, unsafe=unsafe),
        lambda: tile(schedule, {one.name: size, other.name: rng.randrange(1, 5)}, unsafe=unsafe),
        lambda: tile(schedule, {one.name: (4, 2), other.name: (3, 1)}, unsafe=unsafe),
        lambda: skew(schedule, one.name, by=other.name, factor=factor, unsafe=unsafe),
        lambda: shift(schedule, one.name, by=factor, statements=names, unsafe=unsafe),
        lambda: reverse(schedule, one.name, unsafe=unsafe),
        lambda: fuse(schedule, one.name, other.name, shift=rng.choice((0, 0, 1, -1)), unsafe=unsafe),
        lambda: distribute(schedule, one.name, unsafe=unsafe),
        lambda: unroll_and_jam(schedule, one.name, factor=size, unsafe=unsafe),
    )
    return rng.choice(steps)()


def random_schedule(rng: random.Random) -> Schedule | None:
    """Return the original order of a random program of integers, small enough for all pairs."""
    text, sizes = random_text(rng)
    text = re.sub(r"\b(double|float|short|signed char|unsigned char|unsigned|long long) ", "int ", text)
    if "/" in text:
        return None
    try:
        work = from_c(text, dict(sizes))
    except WorkloadError:
        return None
    if sum(1 for _ in instances(work)) > 60:
        return None
    return Schedule.original(work, strict=rng.random() < 0.3)


def attempt(rng: random.Random, schedule: Schedule) -> Schedule | ScheduleError:
    try:
        return random_step(rng, schedule, unsafe=False)
    except ScheduleError as error:
        return error


def check_refusal(error: ScheduleError, forced: Schedule, pairs: set[tuple[Instance, Instance]]) -> None:
    """Each violation names two instances that conflict and are reversed."""
    assert error.violations
    for violation in error.violations:
        first, second = (counters(forced.workload, each) for each in violation.witness)
        assert (first, second) in pairs, str(error)
        assert not when(forced, first) < when(forced, second), str(error)


def check(rng: random.Random, schedule: Schedule, *, arrays: bool = True) -> tuple[int, int]:
    """Walk a program through random steps; return how many were legal and how many refused."""
    work = schedule.workload
    pairs = conflicts(work, strict=schedule.strict)
    expected = run_in(schedule) if arrays else {}
    legal = refused = 0
    for _ in range(5):
        state = rng.getstate()
        after = attempt(rng, schedule)
        if isinstance(after, ScheduleError):
            if after.mistakes[0].code == "PM433":
                refused += 1
                rng.setstate(state)
                check_refusal(after, random_step(rng, schedule, unsafe=True), pairs)
            continue
        legal += 1
        assert is_kept(after, pairs), str(after)
        assert not arrays or run_in(after) == expected, str(after)
        schedule = after
    return legal, refused


def counters(work: Workload, instance: object) -> Instance:
    """Return the counters from 0 of a witness, which has the values of the user's loop variables."""
    dims = {dim.name: dim for dim in work.dims}
    name, values = instance.statement, instance.values  # type: ignore[attr-defined]
    own = work.statement(name).dims
    return name, tuple(
        (number - dims[each].origin) // dims[each].step for each, (_, number) in zip(own, values, strict=True)
    )


def tally(seeds: range) -> tuple[int, int]:
    """Return how many random steps of random programs were legal, and how many refused."""
    found: list[tuple[int, int]] = []
    for seed in seeds:
        rng = random.Random(seed)
        schedule = random_schedule(rng)
        if schedule is not None:
            found.append(check(rng, schedule))
    return sum(legal for legal, _ in found), sum(refused for _, refused in found)


@pytest.mark.slow
def test_legal_steps_leave_the_arrays_and_refused_ones_reverse_a_conflict() -> None:
    legal, refused = tally(range(60))
    assert legal > 60
    assert refused > 15


@pytest.mark.soak
def test_steps_of_many_programs() -> None:
    legal, refused = tally(range(100, 1100))
    assert legal > 1000
    assert refused > 200


@pytest.mark.slow
@pytest.mark.parametrize("name", ("cholesky", "lu", "triangular solve", "gauss-seidel", "floyd-warshall"))
def test_steps_of_kernels_with_imperfect_nests(name: str) -> None:
    work = from_c(KERNELS[name], {"N": 4})
    found = [
        check(random.Random(seed), Schedule.original(work, strict=seed % 2 == 0), arrays=False) for seed in range(6)
    ]
    assert sum(legal for legal, _ in found) > 3
    assert sum(refused for _, refused in found) > 1
