"""Random nests with conditions inside expressions, subscripts by pieces: the text is walked, compiled and counted."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from polymap import evaluate
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.errors import MappingError, PolymapError
from polymap.schedules.check import check_mapping
from polymap.workload.c.reader import from_c
from tests.c_interpreter import run_workload
from tests.c_programs import random_program
from tests.c_tally import MACHINE, Tally, check, program_order
from tests.c_to_c_functions import run_functions
from tests.cases import random_machine
from tests.lazy_programs import random_nest, steps_of_text, steps_of_workload
from tests.programs import random_tree, with_room
from tests.set_counts import count_with_sets
from tests.times import few
from tests.wild_programs import random_function

FEW = ("PM271", "PM278")  # nothing runs, too many pieces


def check_walk(seed: int, *, data: bool) -> str:
    """Compare what a nest touches and computes with a walk of its text; return what became of it."""
    text = random_nest(seed, data=data)
    try:
        work = from_c(text)
    except PolymapError as error:
        return str(error)[:5]
    walk = steps_of_text(text, {each.name: each.element_type or "" for each in work.tensors})
    mine = steps_of_workload(work)
    assert [each.target for each in mine] == [each.target for each in walk.steps], text
    for own, step in zip(mine, walk.steps, strict=True):
        if data:  # what conditions on data leave out counts as well
            assert {place for place, _ in step.reads} <= {place for place, _ in own.reads}, text
        else:
            assert own.reads == step.reads, text
    found = run_workload(work)
    wrong = [place for place in walk.store if place in found and found[place] != pytest.approx(walk.store[place])]
    assert not wrong, (text, wrong)
    return "equal"


@pytest.mark.parametrize("data", [False, True])
@pytest.mark.parametrize("first", few([0, 10, 20], 2))
def test_instances_touch_what_the_text_touches(first: int, *, data: bool) -> None:
    found = [check_walk(seed, data=data) for seed in range(first, first + 10)]
    assert set(found) <= {"equal", *FEW}
    assert found.count("equal") > 5


@pytest.mark.soak
@pytest.mark.parametrize("data", [False, True])
def test_many_instances_touch_what_the_text_touches(*, data: bool) -> None:
    found = [check_walk(seed, data=data) for seed in range(100, 1100)]
    assert set(found) <= {"equal", *FEW}
    assert found.count("equal") > 900


@pytest.mark.parametrize("seed", few(range(6), 3))
def test_the_cost_counts_what_the_text_reads(seed: int) -> None:
    text = random_nest(seed)
    work = from_c(text)
    walk = steps_of_text(text, {each.name: each.element_type or "" for each in work.tensors})
    cost = evaluate(work, MACHINE, program_order(work))
    reads = {each.tensor: each.reads for each in cost.traffic if each.level == "DRAM"}
    for name in {each.name for each in work.tensors if len(each.shape) and each.role.value != "output"}:
        assert reads[name] == sum(n for step in walk.steps for (array, _), n in step.reads if array == name), text


TEXTS: dict[str, Callable[[int], str]] = {
    "counters": random_nest,
    "data": partial(random_nest, data=True),
    "types": partial(random_program, lazy=True),
}


def compared(first: int, count: int, kind: str) -> Tally:
    tally = Tally()
    check({seed: TEXTS[kind](seed) for seed in range(first, first + count)}, tally)
    return tally


@pytest.mark.parametrize("kind", TEXTS)
def test_generated_code_computes_what_the_text_computes(kind: str) -> None:
    tally = compared(0, 4, kind)
    assert (tally.wrong, tally.split) == ([], [])
    assert tally.compared >= 2


@pytest.mark.soak
@pytest.mark.parametrize("kind", TEXTS)
def test_much_generated_code_computes_what_the_text_computes(kind: str) -> None:
    for first in range(1000, 1200, 50):
        tally = compared(first, 50, kind)
        assert (tally.wrong, tally.split) == ([], [])


def test_functions_in_other_orders_equal_their_originals() -> None:
    assert run_functions(0, 4, turns=1, make=partial(random_function, lazy=True)).wrong == []


@pytest.mark.soak
def test_many_functions_in_other_orders_equal_their_originals() -> None:
    tally = run_functions(100, 100, make=partial(random_function, lazy=True))
    assert tally.wrong == []
    assert tally.functions > 80


def check_counts(seed: int) -> str:
    """Compare the counts of a random tree by sets and by simulation; return what became of it."""
    rng, text = random.Random(f"counts {seed}"), random_nest(seed)
    try:
        work = from_c(text)
    except PolymapError as error:
        return str(error)[:5]
    while len(work.statements) <= 9:
        machine = random_machine(rng)
        mapping = random_tree(rng, work, machine)
        with suppress(MappingError):
            check_mapping(work, machine, mapping)
            machine = with_room(machine, work, mapping)
            assert count_with_sets(work, machine, mapping) == count_by_simulation(work, machine, mapping), text
            return "equal"
    return "large"


def test_counts_by_sets_equal_the_simulator() -> None:
    found = [check_counts(seed) for seed in range(12)]
    assert found.count("equal") > 7


@pytest.mark.soak
def test_many_counts_by_sets_equal_the_simulator() -> None:
    found = [check_counts(seed) for seed in range(100, 500)]
    assert found.count("equal") > 250
