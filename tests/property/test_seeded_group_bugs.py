"""Deliberate mistakes in what raises the bounds of structures (groups, winning states, halves, priced costs, open
places) are caught by laws that hold them against brute force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from polymap.search.dividing import bounds, branch_and_bound, cost_tables, groups, node_costs, splits, steps
from polymap.search.dividing.branch_and_bound import StructureSearch
from tests.property.test_seeded_search_bugs import Bug, seed_bug
from tests.unit.search.dividing import test_groups, test_splits


def _private(owner: object, name: str) -> Any:
    return getattr(owner, name)


BUGS = (
    Bug("a group has the dearest reads", _private(cost_tables, "_read_cost"), "np.minimum", "np.maximum"),
    Bug("a group has the dearest sums", _private(cost_tables, "_output_cost"), "np.minimum", "np.maximum"),
    Bug("a group has the dearest ends", _private(cost_tables, "_output_final"), "min(update_end", "max(update_end"),
    Bug(
        "members differ in one dim only", node_costs.Members.distinct, "(*(row[d] for d in own), prod(row))", "row[:1]"
    ),
    Bug("groups join what differs between levels", groups.groups_of, "if one.below == level", "if one.below"),
    Bug("chains of the last cost do not win", _private(bounds, "_is_at_most"), "costs <= ", "costs < "),
    Bug("chains so far are those of one tile", bounds.winning_states, "minimum_above(outside", "np.copy(outside"),
    Bug("one way to a state is remembered", bounds.winning_states, "np.minimum(known, placed)", "placed"),
    Bug("as many bits are in no half", _private(splits, "_split"), "(bits, most)", "(bits + 1, most)"),
    Bug("fewer bits are in no half", _private(splits, "_split"), "(least, bits - 1)", "(least, bits // 3)"),
    Bug("others get less than the rest", _private(splits, "_split"), "sum(taken", "2 * sum(taken"),
    Bug("half of the halves are lost", splits.split_bound, "if half is not", "if looked % 2 and half is not"),
    Bug("room counts against chains", _private(branch_and_bound, "_Priced").less, "- self.added", "- abs(self.added)"),
    Bug(
        "one place is enough",
        _private(StructureSearch, "_promising_places"),
        "enumerate(every)",
        "enumerate(every[:1])",
    ),
    Bug("open places are the first ones", _private(steps, "_tables"), "if len(choices) == 1", "if choices"),
)
SEEDS = range(20)


def _obeys(law: Callable[..., None], *given: object) -> None:
    for seed in SEEDS:
        law(seed, *given)


def _is_caught() -> bool:
    laws: tuple[Callable[[], None], ...] = (
        lambda: _obeys(test_groups.test_costs_of_a_group_are_the_least_of_its_members),
        lambda: _obeys(test_groups.test_states_that_win_are_those_of_chains_that_cost_no_more),
        lambda: _obeys(test_splits.halves_bound_all_trees),
        lambda: _obeys(test_splits.test_halves_bound_what_a_search_of_larger_products_finds),
        lambda: _obeys(test_splits.test_a_search_with_open_places_finds_the_best_tree_of_every_structure),
        lambda: _obeys(lambda seed: test_splits.the_best_tree_is_found(test_splits.tight(seed))),
        test_groups.test_levels_between_fan_outs_make_groups_of_their_own,
    )
    for law in laws:
        try:
            law()
        except Exception:  # noqa: BLE001 - whatever a mistake leads to
            return True
    return False


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_is_caught(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    seed_bug(monkeypatch, bug)
    assert _is_caught()


def test_the_true_bounds_obey_the_laws() -> None:
    assert not _is_caught()
