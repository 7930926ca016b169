"""Deliberate mistakes in the costs below marks are caught by laws about the tables of each mark and all trees of small
problems."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from polymap.search.dividing import branch_and_bound, cost_tables, marks, steps, window_paths
from tests.property.test_seeded_search_bugs import Bug, assert_seen
from tests.unit.search.dividing import test_marks


def _private(owner: object, name: str) -> Any:
    return getattr(owner, name)


LOADS, COSTS = _private(marks, "_added_loads"), marks.added_costs
STEP = _private(steps, "_of_winning_states")
BUGS = (
    Bug("overlaps save nothing outside a mark", LOADS, "np.where(trips == 1, saved, 0)", "0"),
    Bug("overlaps save where whole tiles change", LOADS, "np.where(trips == 1, saved, 0)", "saved"),
    Bug("the first repetition counts twice", LOADS, "(repeats - 1)", "repeats"),
    Bug("a load more than there are", LOADS, "np.maximum(more, 0)", "np.maximum(more, 0) + 1"),
    Bug("loads of one pass", LOADS, "* trips * outside", "* trips"),
    Bug("loads cost nothing more", COSTS, "* more * unit", "* 0 * more"),
    Bug("the last way of loads alone", COSTS, "arithmetic.plus(total, ", "arithmetic.plus(0 * total, "),
    Bug("reads cost what fills do", cost_tables.load_weights, "plain * int(not united)", "plain"),
    Bug("the dearest pair", marks.TilePairs.least, "np.minimum", "np.maximum"),
    Bug("nodes stand at the mark", marks.costs_below_marks, "minimum_below(here)", "None"),
    Bug(
        "repetitions inside count as outside",
        window_paths.most_saved_outside,
        "* outside * (left",
        "* outside * left * (left",
    ),
    Bug("whole extents outside", window_paths.most_saved_outside, "(outside // prime) * left", "outside * left"),
    Bug(
        "room is charged",
        _private(branch_and_bound.StructureSearch, "_priced"),
        "spent - self.multipliers.allowance",
        "spent",
    ),
    Bug("half of what may win", STEP, "value - 1 -", "value // 2 -"),
)


LAWS: tuple[Callable[[int], None], ...] = (
    lambda seed: test_marks.savings_are_those_outside_each(*test_marks.WINDOWS[seed % 5], seed + 1),
    test_marks.added_costs_are_those_of_each_mark,
    test_marks.costs_are_those_of_each_mark,
    test_marks.trees_cost_no_less,
    test_marks.best_trees_are_found,
)
# The law and seed, in the order of laws, that see a bug first, where they are not the first.
SEEN = {
    "overlaps save nothing outside a mark": 19,
    "overlaps save where whole tiles change": 19,
    "the first repetition counts twice": 19,
    "a load more than there are": 19,
    "loads of one pass": 19,
    "loads cost nothing more": 19,
    "the last way of loads alone": 35,
    "reads cost what fills do": 35,
    "the dearest pair": 38,
    "nodes stand at the mark": 38,
    "repetitions inside count as outside": 1,
    "room is charged": 81,
    "half of what may win": 76,
}


@pytest.fixture(autouse=True)
def _marks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "TUNING", replace(marks.TUNING, pairs_per_node=1 << 40))


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_breaks_a_law_that_holds_without_it(bug: Bug) -> None:
    assert_seen(bug, [partial(law, seed) for law in LAWS for seed in test_marks.SEEDS], SEEN.get(bug.name, 0))
