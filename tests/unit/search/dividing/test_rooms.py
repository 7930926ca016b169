"""Costs by the room in a level bound all trees of a structure; searches that wait for others find what they find at
once."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import count, product

import numpy as np
import pytest

import polymap.search.dividing.engine as engine
import polymap.search.dividing.rooms as rooms
import polymap.search.dividing.steps as steps
from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.ir.mapping import Mapping
from polymap.resources.limits import never
from polymap.search.dividing.bounds import FREE, Multipliers, usable_bits
from polymap.search.dividing.branch_and_bound import BoundTables
from polymap.search.dividing.cost_tables import Tables, build_tables, tables_below
from polymap.search.dividing.groups import bound_by_room, least_value
from polymap.search.dividing.loop_order import CompletedMapping
from polymap.search.dividing.node_costs import Context, places_of, root_context
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


def prices(tables: Tables, rng: random.Random) -> Multipliers:
    """Return random multipliers, or none."""
    if rng.random() < 0.3:
        return FREE
    usable = [usable_bits(tables, level) or 0 for level in range(tables.problem.level_count)]
    per_level = tuple(rng.choice((0, 1, 5, rng.randrange(300))) if own else 0 for own in usable)
    allowance = sum(price * own for price, own in zip(per_level, usable, strict=True))
    return Multipliers(per_level, rng.choice((1, 2, 8)), allowance)


@pytest.mark.parametrize("seed", few(range(60), 4))
def test_costs_by_room_bound_all_trees_of_a_structure(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    most = random.Random(f"most {seed}").choice((1, 2, 5, 64))
    monkeypatch.setattr(rooms, "TUNING", replace(rooms.TUNING, most_rooms=most))
    room_bounds_all_trees(seed)


def room_bounds_all_trees(seed: int) -> None:
    one, rng = tight(seed), random.Random(f"room {seed}")
    for structure in one.structures:
        tables = build_tables(one.problem, structure, one.measure, root_context(one.problem, structure))
        whole, best = least_value(BoundTables(tables)), one.best(structure)
        free, priced = bound_by_room(tables, FREE), bound_by_room(tables, prices(tables, rng))
        assert (free is None) >= (whole is None), "room is no more than a level has"
        assert free is None or whole is None or free >= whole, "prices are 0"
        for found in (free, priced):
            assert best is None or (found is not None and one.scaled(found) <= best), "a bound of all trees"


@pytest.mark.parametrize("seed", few(range(20), 4))
def test_room_bounds_what_a_search_of_larger_products_finds(seed: int) -> None:
    """Levels with room for a few of many tiles: many sums of bits are one class."""
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
    for _ in range(4):
        found = bound_by_room(tables, prices(tables, rng))
        assert (found or 0) <= incumbent.value, "a bound of all trees"


@pytest.mark.parametrize("seed", few(range(30), 5))
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


def the_best_tree_of_every_structure_is_found(seed: int, most: int | None = None, *, by_room: bool = False) -> None:
    """most: nodes of the search at a time. by_room: a value is known from the start, so that bounds are by the room in
    a level."""
    one = open_case(seed)
    for structure in one.structures:
        incumbent, ended, best = Incumbent(never), None, one.best(structure)
        if by_room and best is not None:
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


@pytest.mark.parametrize("seed", few(range(20), 4))
def test_a_search_place_by_place_goes_on_where_it_was_ended(seed: int) -> None:
    the_best_tree_of_every_structure_is_found(seed, 1 + seed % 5)
    the_best_tree_of_every_structure_is_found(seed, 1 + seed % 5, by_room=True)


@pytest.mark.parametrize("seed", few(range(20), 4))
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
