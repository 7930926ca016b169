"""Deliberate mistakes in how the search keeps long numbers and accounts for structures are caught by ordinary laws.

Each mistake replaces one piece of the source of one function; its code then runs wherever the function is used.
"""

from __future__ import annotations

import inspect
import random
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from types import FunctionType
from typing import Any

import pytest

from polymap.costmodel.referees.trees import exhaustive
from polymap.explore import search
from polymap.ir.machine import Architecture
from polymap.poly import exact
from polymap.search.dividing import engine, lagrange, progress
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.magnitudes import most_costed
from polymap.search.problem.measure import measure_of
from tests.property import test_long_numbers
from tests.referee.problems import Problem, random_problem, scaled
from tests.unit.search import test_exact

FULL_BITS = (57, 94)  # costs that all but fill int64 and two limbs
SEEDS = (*range(12), 21)


def _private(owner: object, name: str) -> Any:
    return getattr(owner, name)


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    function: Any
    right: str
    wrong: str


BUGS = (
    Bug("every cost fits int64", exact.arithmetic_for, "bits = most.bit_length() + 1", "bits = 1"),
    Bug("what cannot be is a small number", exact.Arithmetic.never, "4 * self.limit", "self.limit >> 1"),
    Bug("the upper limb is kept modulo 2^16", _private(exact, "_limbs"), "_TOP * np.round(", "0 * np.round("),
    Bug("priced costs wrap", _private(lagrange, "_unit"), "most * unit * 4 <=", "unit <="),
    Bug("no structure is ever closed", _private(progress.StructureFates, "_replace"), "+= entries - 1", "+= entries"),
    Bug(
        "nothing left to search is a proof",
        _private(engine, "_State").outcome,
        "if not self.known or (not left and not (where.is_whole and some)):",
        "if not self.known:",
    ),
)


def seed_bug(monkeypatch: pytest.MonkeyPatch, bug: Bug) -> None:
    """Put the mistake into the function's code, wherever that is used."""
    function = bug.function.fget if isinstance(bug.function, property) else inspect.unwrap(bug.function)
    assert isinstance(function, FunctionType)
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(bug.right) == 1, bug.name
    space: dict[str, Any] = {}
    exec("from __future__ import annotations\n" + text.replace(bug.right, bug.wrong), dict(function.__globals__), space)
    made = space[function.__name__]
    made = made.fget if isinstance(made, property) else inspect.unwrap(made)
    assert isinstance(made, FunctionType)
    monkeypatch.setattr(function, "__code__", made.__code__)
    exact.arithmetic_for.cache_clear()


_HOLD = set[object]()  # laws that were held without a bug


def assert_seen(bug: Bug, laws: Sequence[Callable[[], object]], first: int = 0) -> None:
    """Hold laws, the law `first` first, while the bug is there, until one breaks; without the bug that one holds."""
    seen: int | None = None
    with pytest.MonkeyPatch.context() as patch:
        seed_bug(patch, bug)
        for number in (first, *range(len(laws))):
            try:
                laws[number]()
            except Exception:  # noqa: BLE001 - whatever a mistake leads to
                seen = number
                break
    exact.arithmetic_for.cache_clear()
    assert seen is not None, "no law sees it"
    law = laws[seen]
    asked = (law.func, law.args, *sorted(law.keywords.items())) if isinstance(law, partial) else law
    if asked not in _HOLD:
        law()
        _HOLD.add(asked)


@cache
def _problems() -> tuple[tuple[Problem, Architecture, Fraction | None], ...]:
    """Return small problems on machines whose energies make the costs as long as the arithmetic takes, and what walking
    all trees gives."""
    found: list[tuple[Problem, Architecture, Fraction | None]] = []
    for seed in SEEDS:
        problem = random_problem(random.Random(f"seeded {seed}"), most=5_000, tiles="divide")
        objective = ("energy", "ed2p", "edp")[seed % 3]
        measure = measure_of(parse_objective(objective, problem.arch), problem.workload, problem.arch)
        most = most_costed(problem.workload, problem.arch, measure.components[0])
        true = exhaustive(problem.workload, problem.arch, objective, "divide")
        assert true is not None
        bits = FULL_BITS[seed % 4 == 3] - most.bit_length()
        # Scaled by an odd number: one that energies' common denominator does not take away again.
        by = Fraction((1 << bits) - 1) if bits > 0 else Fraction(1)
        value = None if true.value is None else true.value * by
        found.append(
            (
                Problem(problem.workload, problem.arch, objective, "divide", 0, frozenset()),
                scaled(problem.arch, by),
                value,
            )
        )
    return tuple(found)


def small_problems_have_the_values_of_all_trees() -> None:
    for problem, arch, true in _problems():
        found = search(problem.workload, arch, problem.objective, "divide", time_limit_s=60)
        assert found.status == ("INFEASIBLE" if true is None else "OPTIMAL")
        assert true is None or float(found.value or 0) == float(true)


def long_layers_are_proven() -> None:
    test_long_numbers.test_long_layers_are_proven((5120, 5120, 5120), "edp", True, 3.501e21)


def a_lost_structure_leaves_no_optimum() -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        test_long_numbers.test_a_structure_that_gets_lost_leaves_no_optimum(monkeypatch)


def what_cannot_be_stays_so() -> None:
    for kind in test_exact.KINDS:
        test_exact.test_what_cannot_be_stays_so_whatever_is_added(kind)


LAWS: tuple[Callable[[], None], ...] = (
    what_cannot_be_stays_so,
    a_lost_structure_leaves_no_optimum,
    small_problems_have_the_values_of_all_trees,
    long_layers_are_proven,
)


def _is_caught() -> bool:
    for law in LAWS:
        try:
            law()
        except Exception:  # noqa: BLE001 - whatever a mistake leads to
            return True
    return False


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    _problems()
    seed_bug(monkeypatch, bug)
    try:
        assert _is_caught()
    finally:
        monkeypatch.undo()
        exact.arithmetic_for.cache_clear()


def test_the_true_search_obeys_the_laws() -> None:
    assert not _is_caught()
