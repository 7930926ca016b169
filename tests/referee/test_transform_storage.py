"""Storage and statement transformations against brute force: who wrote the value that each read finds."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import partial
from itertools import product
from math import prod
from typing import TypeVar

import pytest

from polymap.ir.errors import ScheduleError
from polymap.ir.loopnest import Operator, Workload
from polymap.schedules.scattering import LoopKind, Schedule
from polymap.transform import lifetimes
from polymap.transform.advice import smallest_skews
from polymap.transform.generator import isl_schedule
from polymap.transform.legality import violations
from polymap.transform.marks import parallelize
from polymap.transform.openscop import from_openscop, to_openscop
from polymap.transform.order import fuse, interchange, skew, split, tile
from polymap.transform.statements import inline, split_index_set
from polymap.transform.storage import contract, expand
from polymap.transform.text import schedule_from_text
from polymap.transform.tuning import TUNING
from polymap.workload.c.reader import from_c
from tests.c_interpreter import run_workload
from tests.nests import instances
from tests.referee.test_transform import conflicts, is_kept, random_schedule, run_in, when

Instance = tuple[str, tuple[int, ...]]
Cell = tuple[int, ...]
Value = TypeVar("Value")
CHAINS = (
    """void f(int A[9][9], int B[9][9]) {{ int T[9][9];
  for (int i = 0; i < {n}; i++) for (int j = 0; j < {m}; j++) T[i][j] = A[i][j] + 1;
  for (int i = 0; i < {n} - {a}; i++) for (int j = 0; j < {m} - {b}; j++) B[i][j] = T[i+{a}][j] + T[i][j+{b}]; }}""",
    """void f(int A[9], int B[9]) {{ int T[9];
  for (int i = 0; i < {n}; i++) T[i] = A[i] * 2;
  for (int i = 0; i < {n} - {a}; i++) B[i] = T[i] - T[i+{a}]; }}""",
    """void f(int A[9][9], int B[9]) {{ int T[9];
  for (int i = 0; i < {n}; i++) {{ T[i] = 0; for (int j = 0; j < {m}; j++) T[i] += A[i][j]; }}
  for (int i = 0; i < {n}; i++) B[i] = T[{n} - 1 - i] + T[i / 2]; }}""",
    """void f(int A[9][9], int B[9]) {{ int T[9];
  for (int t = 0; t < {m}; t++) {{
    for (int i = 0; i < {n}; i++) T[i] = A[t][i] + {a};
    for (int i = 0; i < {n} - {b}; i++) B[i] = B[i] + T[i] + T[i+{b}];
  }} }}""",
    """void f(int A[9], int B[9]) {{ int T[30];
  for (int i = 0; i < {n}; i++) T[2*i+{a}] = A[i];
  for (int i = 0; i < {n}; i++) B[i] = T[2*i+{a}] + A[i]; }}""",
    """void f(int A[9], int B[9]) {{ int T[9];
  for (int t = 0; t < {m}; t++) for (int i = 0; i < {n}; i++) {{
    if (t == 0) T[i] = A[i];
    B[i] = B[i] + T[i] + {a};
  }} }}""",
)


def attempt(step: Callable[[], Value]) -> Value | ScheduleError:
    try:
        return step()
    except ScheduleError as error:
        return error


def chain(rng: random.Random) -> Workload:
    """Return a producer and a consumer of a temporary tensor."""
    a, b = rng.randrange(3), rng.randrange(3)
    return from_c(rng.choice(CHAINS).format(n=rng.randrange(3, 6), m=rng.randrange(3, 5), a=a, b=b), {})


def mixed(rng: random.Random, schedule: Schedule) -> Schedule:
    """Return the schedule after some steps that turn out to be legal."""
    for _ in range(4):
        loops = schedule.loops()
        one, other = rng.choice(loops).name, rng.choice(loops).name
        step = rng.randrange(4)
        try:
            if step < 2:
                schedule = fuse(schedule, one, other, shift=rng.randrange(3))
            elif step == 2:
                schedule = interchange(schedule, one, other)
            else:
                schedule = split(schedule, one, inner=rng.randrange(1, 4))
        except ScheduleError:
            continue
    return schedule


def sources(schedule: Schedule, tensor: str, moduli: tuple[int, ...] | None) -> dict[tuple[Instance, Cell], Instance]:
    """Return (reader, element) -> the instance that wrote the value it finds, the tensor folded by `moduli`."""
    work = schedule.workload
    cells: dict[Cell, Instance] = {}
    found: dict[tuple[Instance, Cell], Instance] = {}
    for name, point in sorted(
        ((each.name, point) for each, point in instances(work)), key=lambda at: when(schedule, at)
    ):
        statement = work.statement(name)
        values = dict(zip(statement.dims, point, strict=True))
        reads = [each for each in statement.reads if each.tensor == tensor]
        if statement.target.tensor == tensor and statement.operator is not Operator.ASSIGN:
            reads.append(statement.target)
        for access in reads:
            element = tuple(each.evaluate(values) for each in access.index)
            found[(name, point), element] = cells[folded(element, moduli)]
        if statement.target.tensor == tensor:
            element = tuple(each.evaluate(values) for each in statement.target.index)
            cells[folded(element, moduli)] = (name, point)
    return found


def folded(element: Cell, moduli: tuple[int, ...] | None) -> Cell:
    return element if moduli is None else tuple(e % m for e, m in zip(element, moduli, strict=True))


def is_legal(schedule: Schedule, moduli: tuple[int, ...], expected: dict[tuple[Instance, Cell], Instance]) -> bool:
    try:
        return sources(schedule, "T", moduli) == expected
    except KeyError:
        return False


def moduli_of(seeds: range, monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Return the numbers of cells that `contract` found, each compared with all moduli by brute force."""
    sizes: set[int] = set()
    for seed in seeds:
        rng = random.Random(seed)
        schedule = mixed(rng, Schedule.original(chain(rng)))
        expected = sources(schedule, "T", None)
        every = list(product(*(range(1, size + 1) for size in schedule.workload.tensor("T").shape)))
        legal = {moduli for moduli in every if is_legal(schedule, moduli, expected)}
        best = min(legal, key=lambda each: (prod(each), each))
        most = seed % 2 * 50_000  # 0: isl is asked about each candidate
        monkeypatch.setattr(lifetimes, "TUNING", TUNING._replace(most_points=most))
        assert contract(schedule, "T").folds[0].moduli == best, f"{seed}: {schedule}"
        sizes.add(prod(best))
        for moduli in rng.sample(every, min(6, len(every))):
            forced = contract(schedule, "T", moduli=moduli, unsafe=True)
            assert (not violations(forced)) == (moduli in legal), f"{seed}: {moduli}\n{schedule}"
    return sizes


@pytest.mark.slow
def test_the_smallest_moduli_are_those_of_brute_force_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(moduli_of(range(24), monkeypatch)) > 5


@pytest.mark.soak
def test_the_smallest_moduli_of_many_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(moduli_of(range(100, 400), monkeypatch)) > 5


def test_the_advised_shift_of_a_fusion_is_legal_and_the_smallest() -> None:
    advised: list[int] = []
    for seed in range(30):
        schedule = Schedule.original(chain(random.Random(seed)))
        first, *others = [loop.name for loop in schedule.loops() if loop.position == 1]
        if not others:
            continue
        refused = attempt(partial(fuse, schedule, first, others[0]))
        if isinstance(refused, ScheduleError):
            found = re.search(r"Legal with shift=(\d+)", str(refused))
            assert found is not None
            advised.append(int(found.group(1)))
            pairs = conflicts(schedule.workload, strict=False)
            assert is_kept(fuse(schedule, first, others[0], shift=advised[-1]), pairs)
            assert not is_kept(fuse(schedule, first, others[0], shift=advised[-1] - 1, unsafe=True), pairs)
    assert len(set(advised)) > 2


@pytest.mark.slow
def test_expansion_is_refused_exactly_where_a_value_crosses_iterations() -> None:
    verdicts: list[bool] = []
    for seed in range(60):
        rng = random.Random(seed)
        schedule = Schedule.original(chain(rng))
        work = schedule.workload
        around = [set(each.dims) for each in work.statements if "T" in {a.tensor for a in (each.target, *each.reads)}]
        shared = sorted(set.intersection(*around))
        if not shared:
            continue
        loops = rng.sample(shared, rng.randrange(1, len(shared) + 1))
        flows = sources(schedule, "T", None).items()
        kept = all(counters(work, reader, loops) == counters(work, writer, loops) for (reader, _), writer in flows)
        after = attempt(partial(expand, schedule, "T", loops=loops))
        verdicts.append(isinstance(after, Schedule))
        assert verdicts[-1] == kept, f"{seed}: {loops}"
        if isinstance(after, Schedule):
            assert visible(run_workload(after.workload)) == visible(run_workload(work))
        else:
            assert after.violations
    assert set(verdicts) == {False, True}


def counters(work: Workload, instance: Instance, loops: list[str]) -> list[int]:
    at = dict(zip(work.statement(instance[0]).dims, instance[1], strict=True))
    return [at[name] for name in loops]


def visible(store: dict[tuple[str, tuple[int, ...]], float]) -> dict[tuple[str, tuple[int, ...]], float]:
    return {key: number for key, number in store.items() if key[0] != "T"}


def test_inlining_leaves_the_arrays() -> None:
    done = 0
    for seed in range(40):
        work = chain(random.Random(seed))
        after = attempt(partial(inline, work, work.statements[0].name))
        if isinstance(after, ScheduleError):
            assert after.mistakes[0].code == "PM432"
            continue
        done += 1
        assert "T" not in {each.name for each in after.tensors}
        assert (
            run_workload(after).items() >= {k: v for k, v in visible(run_workload(work)).items() if k[0] == "B"}.items()
        )
    assert done > 10


@pytest.mark.slow
def test_parallel_loops_are_those_whose_iterations_do_not_conflict() -> None:
    verdicts: list[bool] = []
    for seed in range(45):
        rng = random.Random(seed)
        schedule = random_schedule(rng)
        if schedule is None:
            continue
        pairs = conflicts(schedule.workload, strict=True)
        for loop in schedule.loops():
            inside = [(a, b) for a, b in pairs if a[0] in loop.statements and b[0] in loop.statements]
            times = [(when(schedule, a), when(schedule, b)) for a, b in inside]
            at = loop.position
            free = not any(a[:at] == b[:at] and a[at] != b[at] for a, b in times)
            after = attempt(partial(parallelize, schedule, loop.name))
            verdicts.append(isinstance(after, Schedule))
            assert verdicts[-1] == free, f"{seed}: {after}"
            if isinstance(after, Schedule):
                assert after.loop(loop.name).kind is LoopKind.PARALLEL
                assert run_in(after, rng) == run_in(schedule)
    assert len(verdicts) > 40
    assert 10 < sum(verdicts) < len(verdicts) - 10


@pytest.mark.slow
def test_isl_schedules_texts_and_split_index_sets_of_random_programs() -> None:
    done = 0
    for seed in range(60):
        rng = random.Random(seed)
        schedule = random_schedule(rng)
        if schedule is None:
            continue
        work = schedule.workload
        found = isl_schedule(work, strict=schedule.strict)
        assert is_kept(found, conflicts(work, strict=schedule.strict))
        found = split(found, rng.choice(found.loops()).name, inner=rng.randrange(1, 4))
        assert schedule_from_text(work, str(found), strict=schedule.strict) == found
        assert from_openscop(work, to_openscop(found)).times == found.times
        done += 1
        statement = rng.choice([each for each in work.statements if each.dims])
        loop = rng.choice(statement.dims)
        extent = work.extents()[loop]
        if extent > 1:
            parts = split_index_set(schedule, statement.name, loop=loop, at=rng.randrange(1, extent))
            assert run_in(parts) == run_in(schedule)
            assert run_workload(parts.workload) == run_in(schedule)
    assert done > 30


@pytest.mark.parametrize(
    "text, loops",
    (
        ("for (int t = 0; t < 5; t++) for (int i = {a}; i < 6; i++) A[i] = A[i-{a}] + A[i+{b}];", "ti"),
        ("for (int t = 0; t < 4; t++) for (int i = 0; i < 5; i++) B[t+1][i+2] = B[t][i+2+{b}] + B[t][i+2-{a}];", "ti"),
        ("for (int t = 1; t < 4; t++) for (int i = 1; i < 4; i++) for (int j = 1; j < 4; j++) "
         "B[i][j] = B[i+{b}][j-1] + B[i-1][j+{a}];", "tij"),
    ),
)  # fmt: skip
@pytest.mark.parametrize("a, b", ((1, 1), (1, 2), (2, 1)))
def test_the_advised_skew_is_legal_and_the_smallest(text: str, loops: str, a: int, b: int) -> None:
    body = text.format(a=a, b=b)
    schedule = Schedule.original(from_c(f"void f(int A[20], int B[20][20]) {{ {body} }}", {}))
    band = [schedule.loop(name) for name in loops]
    skews = smallest_skews(schedule, band)
    assert skews is not None
    pairs = conflicts(schedule.workload, strict=False)
    vectors = {tuple(y - x for x, y in zip(p[1], q[1], strict=True)) for p, q in pairs}
    for inner in range(len(loops)):
        factors = tuple(skews.get((loops[inner], name), 0) for name in loops[:inner])
        legal = [
            each
            for each in product(range(9), repeat=inner)
            if all(v[inner] + sum(f * d for f, d in zip(each, v, strict=False)) >= 0 for v in vectors)
        ]
        assert factors == min(legal, key=lambda each: (sum(each), each))
    turned = schedule
    for inner in reversed(loops):
        for outer in loops[: loops.index(inner)]:
            factor = skews.get((inner, outer), 0)
            turned = skew(turned, inner, by=outer, factor=factor) if factor else turned
    assert is_kept(tile(turned, dict.fromkeys(loops, 2)), pairs)
