"""Branches on what a node holds bound all trees of a structure; searches that wait for others find what they find at
once."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import count

import pytest

import polymap.search.dividing.engine as engine
import polymap.search.dividing.splits as splits
import polymap.search.dividing.steps as steps
from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.ir.mapping import Mapping
from polymap.resources.limits import never
from polymap.search.dividing.branch_and_bound import StructureSearch, bound_tables
from polymap.search.dividing.cost_tables import build_tables
from polymap.search.dividing.groups import least_value
from polymap.search.dividing.loop_order import CompletedMapping
from polymap.search.dividing.node_costs import places_of, root_context
from polymap.search.dividing.progress import Incumbent
from polymap.search.dividing.steps import solve_structures
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import measure_of
from polymap.search.problem.problem import analyse
from polymap.search.problem.structures import enumerate_structures
from polymap.workload.einsums import einsum
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


@pytest.mark.parametrize("seed", few(range(30), 12))
def test_halves_bound_all_trees_of_a_structure(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    most = random.Random(f"most {seed}").choice((2, 5, 24, 200))
    monkeypatch.setattr(splits, "TUNING", replace(splits.TUNING, most_halves=most))
    halves_bound_all_trees(seed)


def halves_bound_all_trees(seed: int) -> None:
    one, rng = tight(seed), random.Random(f"halves {seed}")
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


@pytest.mark.parametrize("seed", few(range(20), 12))
def test_halves_bound_what_a_search_of_larger_products_finds(seed: int) -> None:
    """Levels with room for a few of many tiles: the optimum lies in halves that the cheapest chain does not suggest."""
    rng = random.Random(f"products {seed}")
    bits = {name: rng.choice((1, 8, 8, 16)) for name in "ABC"}
    sizes = {dim: rng.choice((8, 12, 16, 24, 30)) for dim in "mnk"}
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", bits=bits, sizes=sizes)
    levels = [MemoryLevel("DRAM", read_pj=Fraction(200), write_pj=Fraction(200))]
    for name, most in (("L2", 4000), ("L1", 500))[: rng.choice((1, 2))]:
        energy = Fraction(rng.randrange(1, 60))
        levels.append(MemoryLevel(name, read_pj=energy, write_pj=energy, capacity_bits=rng.randrange(40, most)))
    arch = Architecture("tight", (*levels, ComputeUnit("MAC", Fraction(1))))
    problem = analyse(workload, arch)
    measure = measure_of(parse_objective("energy", arch), workload, arch)
    ((structure,), _) = enumerate_structures(problem, never)
    incumbent = Incumbent(never)
    solve_structures(problem, measure, (structure,), incumbent, None, None)
    assert incumbent.value is not None
    tables = build_tables(problem, structure, measure, root_context(problem, structure))
    constant = measure.value(tables.start, tables.compute_cycles)
    for limit in (incumbent.value + 1, incumbent.value * 3 // 2, incumbent.value * 9):
        found, _ = splits.split_bound(StructureSearch(tables, (), Incumbent(never)), limit - constant, None)
        assert found + constant <= incumbent.value


@pytest.mark.parametrize("seed", range(12))
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


def the_best_tree_of_every_structure_is_found(seed: int, most: int | None = None) -> None:
    """most: nodes of the search at a time."""
    one = open_case(seed)
    for structure in one.structures:
        incumbent, ended = Incumbent(never), None
        for _ in range(10_000):
            ended = solve_structures(one.problem, one.measure, (structure,), incumbent, ended, None, most)
            if ended is None:
                break
        assert ended is None, "slices of a search go on where the last one was ended"
        assert (None if incumbent.value is None else one.scaled(incumbent.value)) == one.best(structure), "best tree"


@pytest.mark.parametrize("decided", [0, 16])
@pytest.mark.parametrize("seed", few(range(20), 12))
def test_a_search_with_open_places_finds_the_best_tree_of_every_structure(
    seed: int, decided: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "TUNING", replace(steps.TUNING, decided_places=decided))
    the_best_tree_of_every_structure_is_found(seed)


@pytest.mark.parametrize("seed", few(range(20), 12))
def test_a_search_place_by_place_goes_on_where_it_was_ended(seed: int) -> None:
    the_best_tree_of_every_structure_is_found(seed, 1 + seed % 5)


@pytest.mark.parametrize("seed", few(range(20), 12))
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
