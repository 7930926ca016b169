"""Searches that wait for others, or go place by place, find what they find at once; costs below a tile."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from itertools import count, product

import numpy as np
import pytest

import polymap.search.dividing.engine as engine
import polymap.search.dividing.steps as steps
from polymap.ir.mapping import Mapping
from polymap.resources.limits import never
from polymap.search.dividing.cost_tables import build_tables, tables_below
from polymap.search.dividing.loop_order import CompletedMapping
from polymap.search.dividing.node_costs import Context, places_of, root_context
from polymap.search.dividing.progress import Incumbent
from polymap.search.dividing.steps import solve_structures
from tests.times import few
from tests.unit.search.tree_chains import Case, full_case, random_case


@cache
def tight(seed: int) -> Case:
    """Return a case in which levels are full of several tensors, if there is one; its objective is a sum."""
    for turn in count():
        name, windows = f"splits {seed} {turn}", bool(seed % 2)
        found = full_case(name, "energy", windows=windows) or random_case(name, "energy", windows=windows)
        if found.measure.is_linear:
            return found
    raise AssertionError


@pytest.mark.parametrize("seed", few(range(30), 10))
def test_costs_below_a_tile_are_those_worked_out_there(seed: int) -> None:
    costs_below_are_those_worked_out_there(seed)


def costs_below_are_those_worked_out_there(seed: int) -> None:
    """What a load costs is worked out once, by all members of a group, at all tiles: below a tile it is no other."""
    one, rng = tight(2 * seed + 1), random.Random(f"below {seed}")
    for structure in one.structures:
        root = root_context(one.problem, structure)
        others = tuple(rng.sample(one.structures, min(2, len(one.structures)))) if rng.random() < 0.3 else ()
        group = tuple(each for each in others if root_context(one.problem, each) == root)
        tables = build_tables(one.problem, structure, one.measure, root, others=group)
        tile = tuple(rng.choice([t for t in range(1, top + 1) if top % t == 0]) for top in root.tiles[0])
        below = tables_below(tables, Context((*root.tiles, tile), root.places))
        anew = build_tables(one.problem, structure, one.measure, below.context, others=group)
        for number, term in enumerate(one.problem.terms):
            anew.members.per_load.update(dict.fromkeys(product((term.index,), range(-1, 9), range(-1, 9))))
            for here, there in zip(below.tensors[number].edges, anew.tensors[number].edges, strict=True):
                for costs in zip(here.cost.costs, there.cost.costs, strict=True):
                    known, own = np.broadcast_arrays(*costs)
                    assert np.array_equal(known, own), "costs are equal"


@pytest.mark.parametrize("seed", few(range(12), 4))
def test_a_search_in_slices_finds_the_best_tree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning = replace(engine.TUNING, nodes_at_once=1, most_ahead=1, first_probe=1, probed_nodes=seed % 4)
    monkeypatch.setattr(engine, "TUNING", tuning)
    the_best_tree_is_found(tight(seed + 100))


@cache
def open_case(seed: int) -> Case:
    """Return a case in which spatial loops over a window's dims have several places."""
    for turn in count():
        one = random_case(f"open {seed} {turn}", "energy", windows=True)
        if any(len(places_of(one.problem, each)) > 1 and one.best(each) is not None for each in one.structures):
            return one
    raise AssertionError


def the_best_tree_of_every_structure_is_found(seed: int, most: int | None = None, *, is_known: bool = False) -> None:
    """most: nodes of the search at a time. is_known: a value is known from the start."""
    one = open_case(seed)
    for structure in one.structures:
        incumbent, ended, best = Incumbent(never), None, one.best(structure)
        if is_known and best is not None:
            known = int(best / one.measure.unscaled(1)) * (1 + seed % 3) + 1
            incumbent.add(known, CompletedMapping((), Mapping(())))
        for _ in range(10_000):
            ended = solve_structures(one.problem, one.measure, (structure,), incumbent, ended, None, most)
            if ended is None:
                break
        assert ended is None, "slices of a search go on where the last one was ended"
        assert (None if incumbent.value is None else one.scaled(incumbent.value)) == best, "best tree"


@pytest.mark.parametrize("decided", [0, 16])
@pytest.mark.parametrize("seed", few(range(20), 4))
def test_a_search_with_open_places_finds_the_best_tree_of_every_structure(
    seed: int, decided: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "TUNING", replace(steps.TUNING, decided_places=decided))
    the_best_tree_of_every_structure_is_found(seed)


@pytest.mark.parametrize("seed", few(range(20), 6))
def test_a_search_place_by_place_goes_on_where_it_was_ended(seed: int) -> None:
    the_best_tree_of_every_structure_is_found(seed, 1 + seed % 5)
    the_best_tree_of_every_structure_is_found(seed, 1 + seed % 5, is_known=True)


@pytest.mark.parametrize("seed", few(range(20), 6))
def test_bounds_place_by_place_leave_the_best_tree(seed: int) -> None:
    """With a value known that the best tree just beats, the places that are left have it, the best one first."""
    one = open_case(seed)
    for structure in one.structures:
        best = one.best(structure)
        if best is None:
            continue
        incumbent = Incumbent(never)
        incumbent.add(int(best / one.measure.unscaled(1)) + 1, CompletedMapping((), Mapping(())))
        solve_structures(one.problem, one.measure, (structure,), incumbent, None, None)
        assert incumbent.value is not None, "a value is known from the start"
        assert one.scaled(incumbent.value) == best, "the best tree is found"


def the_best_tree_is_found(one: Case) -> None:
    best = min((value for structure in one.structures if (value := one.best(structure)) is not None), default=None)
    outcome = engine.solve(one.problem, one.measure, never, lambda _found, _bound: None)
    value = outcome.found[0][0] if outcome.found else None
    assert (None if value is None else one.scaled(value)) == best
    assert outcome.bound == value
    assert outcome.count.is_whole
