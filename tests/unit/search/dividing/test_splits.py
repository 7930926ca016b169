"""Branches on what a node holds bound all trees of a structure; searches that wait for others find what they find at
once."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import count

import pytest

import polymap.search.dividing.engine as engine
import polymap.search.dividing.splits as splits
from polymap.search.dividing.branch_and_bound import StructureSearch, bound_tables
from polymap.search.dividing.cost_tables import build_tables
from polymap.search.dividing.groups import least_value
from polymap.search.dividing.node_costs import root_context
from polymap.search.dividing.progress import Incumbent
from polymap.search.resources.limits import never
from tests.unit.search.tree_chains import Case, full_case, random_case


def tight(seed: int) -> Case:
    """Return a case in which levels are full of several tensors, if there is one; its objective is a sum."""
    for turn in count():
        name, windows = f"splits {seed} {turn}", bool(seed % 2)
        found = full_case(name, "energy", windows=windows) or random_case(name, "energy", windows=windows)
        if found.measure.is_linear:
            return found
    raise AssertionError


@pytest.mark.parametrize("seed", range(30))
def test_halves_bound_all_trees_of_a_structure(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one, rng = tight(seed), random.Random(f"halves {seed}")
    monkeypatch.setattr(splits, "TUNING", replace(splits.TUNING, most_halves=rng.choice((2, 5, 24, 200))))
    for structure in one.structures:
        context = root_context(one.problem, structure)
        tables = build_tables(one.problem, structure, one.measure, context)
        whole, best = least_value(bound_tables(tables, ())), one.best(structure)
        if whole is None:
            continue
        constant = one.measure.value(tables.start, tables.compute_cycles)
        for limit in (whole + 1, whole + rng.randrange(1, whole + 2), 10 * whole + 10):
            search = StructureSearch(tables, (), Incumbent(never))
            found, _ = splits.split_bound(search, limit - constant, None)
            assert found + constant >= min(whole, limit)
            assert best is None or found + constant == limit or one.scaled(found + constant) <= best
            assert best is None or one.scaled(limit) > best or found + constant <= limit
            if best is not None and one.scaled(limit) > best:
                assert one.scaled(found + constant) <= best


@pytest.mark.parametrize("seed", range(12))
def test_a_search_in_slices_finds_the_best_tree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    one = tight(seed + 100)
    best = min((value for structure in one.structures if (value := one.best(structure)) is not None), default=None)
    tuning = replace(engine.TUNING, nodes_at_once=1, most_ahead=1, first_probe=1, probed_nodes=seed % 4)
    monkeypatch.setattr(engine, "TUNING", tuning)
    outcome = engine.solve(one.problem, one.measure, never, lambda _found, _bound: None)
    value = outcome.found[0][0] if outcome.found else None
    assert (None if value is None else one.scaled(value)) == best
    assert outcome.bound == value
    assert outcome.count.is_whole
