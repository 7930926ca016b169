"""Deliberate mistakes in what raises the bounds of structures (groups, winning states, halves, priced costs, open
places) are caught by laws that hold them against brute force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from polymap.search.dividing import (
    bounds,
    branch_and_bound,
    chain,
    cost_tables,
    groups,
    marks,
    node_costs,
    splits,
    steps,
)
from polymap.search.dividing.branch_and_bound import StructureSearch
from tests.property.test_seeded_search_bugs import Bug, seed_bug
from tests.unit.search.dividing import test_chains, test_costs_inside, test_group_search, test_groups, test_splits


def _private(owner: object, name: str) -> Any:
    return getattr(owner, name)


PLACES = _private(steps, "_placed_bounds")
BUGS = (
    Bug("a group has the dearest reads", _private(cost_tables, "_costs_of_loads"), "np.minimum", "np.maximum"),
    Bug(
        "one count's weight covers the others'",
        node_costs.uncovered,
        "covers(other, one)",
        "other[0] <= one[0]",
    ),
    Bug(
        "window dims are spread alike",
        _private(node_costs.Members, "_kinds_of"),
        "row[d] for d in along",
        "1 for d in along",
    ),
    Bug(
        "nodes stand wherever they are charged alike", cost_tables.tables_at, "_table_standing(setting, table)", "table"
    ),
    Bug("loads at any place", cost_tables.tables_at, "tables.members.placed(places)", "tables.members"),
    Bug("a group has the dearest sums", node_costs.AlikeMembers.least, "min(", "max("),
    Bug(
        "members differ in one dim only",
        _private(node_costs.Members, "_kinds_of"),
        "(*(row[d] for d in own), prod(row))",
        "row[:1]",
    ),
    Bug("groups join what differs between levels", groups.groups_of, "if one.below == level", "if one.below"),
    Bug(
        "side by side, sums are those of the last member",
        node_costs.StackedAlike.least,
        "np.minimum.at(found, self.group, own)",
        "found[self.group] = own",
    ),
    Bug(
        "side by side, every group has members that are spread so",
        node_costs.StackedAlike.among,
        "costs if present.all() else",
        "costs if len(present) else",
    ),
    Bug(
        "side by side, windows are spread alike",
        _private(node_costs.StackedMembers, "_kinds_of"),
        "if key.shape[1] else",
        "if not len(key) else",
    ),
    Bug(
        "side by side, groups begin at one tile",
        bounds.root_bounds,
        "np.array(tables.tops, dtype",
        "np.array(tables.tops[:1] * len(tables.tops), dtype",
    ),
    Bug(
        "side by side, extents are the first group's",
        cost_tables.stacked_tables,
        "own[0] if len(set(own)) == 1 else",
        "own[0] if len(own) else",
    ),
    Bug("groups beside differ in windows", groups.groups_of, "if dim in read_through:", "if False:"),
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
        "enumerate(zip(every, ends,",
        "enumerate(zip(every[:1], ends[:1],",
    ),
    Bug("places are refuted by half of what may win", PLACES, "beats(bound)", "beats(2 * bound)"),
    Bug("the first place alone is bounded", PLACES, "for one in choices]", "for one in choices[:1]]"),
    Bug("a search goes on at the next place", steps.solve_structures, "(ended, left=left)", "(ended, left=left[1:])"),
    Bug(
        "what a window's node may follow is kept",
        _private(bounds, "_kept_below"),
        "if table.term.is_window]",
        "if not table]",
    ),
    Bug("other nodes are before", _private(chain, "_is_before"), "node.level < other.level", "True"),
    Bug("nodes of one tile are before", _private(chain, "_is_before"), "inner % outer", "True"),
    Bug(
        "no node holds the place",
        _private(chain, "_may_cross_at"),
        "node.tile[d] % place == 0",
        "node.tile[d] == place",
    ),
    Bug(
        "nodes below a mark stand in the lattice above",
        cost_tables.tables_below,
        "tables.lattice, lattice",
        "lattice, tables.lattice",
    ),
    Bug("chains end in one member", branch_and_bound.placed_tables, "tables.alone()", "tables.alone()[:1]"),
    Bug("what is fixed is the least of all members", StructureSearch.finish, "(tables, placed)", "(self.tables, node)"),
    Bug("every entry waits for another", _private(steps, "_bound_together"), "not in (None, number)", "!= number"),
)
SEEDS = range(20)


def _obeys(law: Callable[..., None], *given: object) -> None:
    for seed in SEEDS:
        law(seed, *given)


def _best_tree_is_found(decided: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "TUNING", replace(steps.TUNING, decided_places=decided))
        test_splits.the_best_tree_of_every_structure_is_found(seed)


def _best_tree_is_found_below_marks(seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(marks, "TUNING", replace(marks.TUNING, pairs_per_node=1 << 40))
        test_group_search.the_best_tree_of_a_group_is_found(seed)


def _is_caught() -> bool:
    laws: tuple[Callable[[], None], ...] = (
        lambda: _obeys(test_groups.test_costs_of_a_group_are_the_least_of_its_members),
        lambda: _obeys(test_groups.bounds_side_by_side_are_those_of_each),
        lambda: test_groups.bounds_side_by_side_are_those_of_each(180),  # a group without members of a kind
        lambda: _obeys(test_groups.weights_that_no_other_covers_are_left),
        lambda: _obeys(test_group_search.tables_at_places_are_those_built_there),
        lambda: _obeys(test_groups.test_states_that_win_are_those_of_chains_that_cost_no_more),
        lambda: _obeys(test_costs_inside.what_is_kept_is_what_it_would_be),
        lambda: _obeys(test_splits.halves_bound_all_trees),
        lambda: _obeys(test_splits.test_halves_bound_what_a_search_of_larger_products_finds),
        *(
            partial(test_chains.test_spatial_loops_between_two_levels_stand_wherever_trees_have_them, name)
            for name in test_chains.BETWEEN
        ),
        *(partial(_obeys, partial(_best_tree_is_found, decided)) for decided in (0, 16)),
        lambda: _obeys(test_splits.test_a_search_place_by_place_goes_on_where_it_was_ended),
        lambda: _obeys(test_splits.test_bounds_place_by_place_leave_the_best_tree),
        lambda: _obeys(test_group_search.costs_below_a_node_are_the_least_of_the_members),
        lambda: _obeys(test_group_search.loads_cost_no_more_than_in_the_members),
        lambda: _obeys(test_group_search.the_best_tree_of_a_group_is_found),
        lambda: _obeys(_best_tree_is_found_below_marks),
        lambda: _obeys(test_group_search.the_best_tree_of_all_is_found),
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
