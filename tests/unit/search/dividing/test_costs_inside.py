"""The least costs inside every tile, and what the search does with them, against plain recursion over single tiles."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product

import numpy as np
import pytest

from polymap.inputs import arch_from_document
from polymap.resources import never
from polymap.search.dividing.bounds import (
    FREE,
    Move,
    Multipliers,
    State,
    costs_inside,
    final_cost,
    first_states,
    graph_of,
    least_from,
    reach_from,
    root_bound,
)
from polymap.search.dividing.branch_and_bound import (
    BoundTables,
    SearchNode,
    StructureSearch,
    bounds_at,
    entry_at,
    root_node,
    step,
)
from polymap.search.dividing.cost_tables import Tables, build_tables, tables_below
from polymap.search.dividing.groups import Group, least_value
from polymap.search.dividing.lagrange import cheapest_chain, improve_multipliers
from polymap.search.dividing.node_costs import Places, places_of, root_context
from polymap.search.dividing.progress import Entry, Incumbent
from polymap.search.dividing.steps import Stage, solve_structures, step_on
from polymap.search.problem import analyse, enumerate_structures, measure_of, parse_objective
from polymap.search.problem.structures import Structure
from polymap.workload import einsum
from tests.times import few
from tests.unit.search.dividing.test_chains import Given, tables_of
from tests.unit.search.tree_chains import Case, full_case, random_case

Index = tuple[int, ...]
Least = Callable[[State, Index], int | None]
SEEDS = range(18)


def asked(seed: int, name: str, objective: str = "energy") -> Iterator[tuple[Case, Structure, Places, Tables]]:
    """Yield the tables of some structures of a small problem, whose levels may be exactly full."""
    rng = random.Random(f"{name} {seed}")
    one = random_case(f"{name} {seed}", objective, windows=bool(seed % 2))
    if seed % 3:
        one = full_case(f"{name} {seed}", objective, windows=bool(seed % 2)) or one
    for structure in rng.sample(one.structures, min(4, len(one.structures))):
        places = rng.choice(places_of(one.problem, structure))
        yield one, structure, places, tables_of(one, structure, places)


def random_multipliers(rng: random.Random, tables: Tables) -> Multipliers:
    """Return multipliers on some levels."""
    unit = rng.choice((1, 4))
    per_level = tuple(rng.choice((0, 0, 1, 7, 300)) for _ in range(tables.problem.level_count))
    levels = tables.problem.arch.levels
    usable = [level.usable_bits for level in levels]
    per_level = tuple(price if bits is not None else 0 for price, bits in zip(per_level, usable, strict=True))
    allowance = sum(price * (bits or 0) for price, bits in zip(per_level, usable, strict=True))
    return Multipliers(per_level, unit, allowance)


def node_cost(tables: Tables, move: Move, index: Index, component: int, multipliers: Multipliers) -> int | None:
    """Return what the tables say of one node: its cost x unit and what the multipliers charge; None where it may not
    stand or does not fit alone."""
    edge, cost = move.edge_of(tables), move.cost(tables)
    own = [
        arithmetic.number(entry_at(part, index))
        for arithmetic, part in zip(tables.arithmetics, cost.costs, strict=True)
    ]
    bits, usable = int(entry_at(cost.bits, index)), tables.problem.arch.levels[edge.level].usable_bits
    if None in own or (usable is not None and bits > usable):
        return None
    return (own[component] or 0) * multipliers.unit + bits * multipliers.price(edge.level)


def recursion(tables: Tables, component: int, multipliers: Multipliers) -> Least:
    """Return the least cost inside a state and tile, by trying every node and tile."""
    moves = graph_of(tables).moves

    @cache
    def least(state: State, index: Index) -> int | None:
        ends = [final_cost(tables, state, c) for c in range(len(tables.measure.components))]
        found: list[int] = []
        if None not in ends:
            found.append((ends[component] or 0) * multipliers.unit)
        for move in moves[state]:
            for inner in product(*(range(top + 1) for top in index)):
                own, rest = node_cost(tables, move, inner, component, multipliers), least(move.after, inner)
                if own is not None and rest is not None:
                    found.append(own + rest)
        return min(found, default=None)

    return least


@pytest.mark.parametrize("seed", few(SEEDS, 4))
def test_the_least_costs_inside_are_those_of_plain_recursion(seed: int) -> None:
    rng = random.Random(f"inside {seed}")
    for one, _, _, tables in asked(seed, "inside", ("energy", "edp")[seed % 4 > 1]):
        component = rng.randrange(len(one.measure.components))
        multipliers = random_multipliers(rng, tables) if not component and rng.random() < 0.7 else FREE
        found = costs_inside(tables, component, multipliers)
        least = recursion(tables, component, multipliers)
        shape = tables.lattice.shape
        for state, table in found.reach.items():
            for index in np.ndindex(shape):
                assert found.arithmetic.number(entry_at(table, index)) == least(state, index), (state, index)
        top = tuple(length - 1 for length in shape)
        roots = [(least(state, top), state) for state in first_states(tables)]
        bound, first = root_bound(tables, found)
        assert bound == min((root for root, _ in roots if root is not None), default=None)
        assert (bound, first) in roots
        state = rng.choice(list(found.reach))
        some = costs_inside(tables, component, multipliers, reach_from(tables, state))
        assert least_from(tables, some, state) == least(state, top)


def what_is_kept_is_what_it_would_be(seed: int) -> None:
    """Below a tile, least costs inside that are kept of those above it are those that are worked out anew."""
    rng = random.Random(f"kept {seed}")
    compared = 0
    for one, _, _, tables in asked(seed, "kept", ("energy", "edp")[seed % 4 > 1]):
        component = rng.randrange(len(one.measure.components))
        multipliers = random_multipliers(rng, tables) if not component else FREE
        inside, context = costs_inside(tables, component, multipliers), tables.context
        for _ in range(3):
            tile = tuple(rng.choice([t for t in range(1, top + 1) if top % t == 0]) for top in context.tiles[-1])
            context = replace(context, tiles=(*context.tiles, tile))
            tables = tables_below(tables, context)
            anew, inside = (
                costs_inside(tables, component, multipliers),
                costs_inside(
                    tables, component, multipliers, reach_from(tables, rng.choice(list(inside.reach))), inside
                ),
            )
            for state, least in inside.reach.items():
                assert np.array_equal(least, np.broadcast_to(anew.reach[state], least.shape)), state
            for key, cost in inside.costs.items():
                assert key not in anew.costs or np.array_equal(*np.broadcast_arrays(cost, anew.costs[key])), key
            compared += len(inside.reach)
    assert compared


@pytest.mark.parametrize("seed", few(range(24), 4))
def test_below_a_tile_what_no_window_changes_is_kept(seed: int) -> None:
    what_is_kept_is_what_it_would_be(seed)


@pytest.mark.parametrize("seed", few(SEEDS, 4))
def test_the_cheapest_chain_costs_what_the_bound_says(seed: int) -> None:
    rng = random.Random(f"cheapest {seed}")
    for _, _, _, tables in asked(seed, "cheapest"):
        multipliers = random_multipliers(rng, tables)
        search = StructureSearch(tables, FREE, Incumbent(lambda: False))
        inside = costs_inside(tables, 0, multipliers)
        bound, first = root_bound(tables, inside)
        if bound is None:
            continue
        node = cheapest_chain(search, inside, multipliers, first)
        ends = [final_cost(tables, node.state, c) for c in range(len(node.parts))]
        totals = [part + (end or 0) for part, end in zip(node.parts, ends, strict=True)]
        spent = sum(price * used for price, used in zip(multipliers.per_level, node.used, strict=True))
        assert totals[0] * multipliers.unit + spent == bound


@pytest.mark.parametrize("seed", few(SEEDS, 4))
def test_a_node_branches_to_every_node_that_may_win_and_no_other(seed: int) -> None:
    rng = random.Random(f"branches {seed}")
    compared = 0
    for one, _, _, tables in asked(seed, "branches"):
        bounds = BoundTables(tables)
        whole = least_value(bounds)
        if whole is None or not one.measure.is_linear:
            continue
        multipliers = random_multipliers(rng, tables) if rng.random() < 0.5 else FREE
        incumbent = Given(lambda: False, keep=2, limit=int(whole * rng.choice((1.05, 1.3, 3))) + 1)
        search = StructureSearch(tables, multipliers, incumbent)
        free = recursion(tables, 0, FREE)
        priced = recursion(tables, 0, multipliers)
        node = root_node(tables, rng.choice(first_states(tables)))
        below = bounds_at(bounds, multipliers)
        while True:
            branches = list(search._branchings(below, node))
            found = {(branch.number, branch.index): branch.bound for branch in branches}
            expected = may_win(one, search, node, free, priced)
            assert found == expected
            compared += len(found)
            if not branches:
                break
            branch = rng.choice(branches)
            node = step(tables, node, branch.move, branch.index)
    assert compared or seed not in {0, 1}


def may_win(
    one: Case, search: StructureSearch, node: SearchNode, free: Least, priced: Least
) -> dict[tuple[int, Index], int]:
    """Return the next nodes that fit, whose bounds are below the incumbent's value, with their bounds."""
    tables, multipliers = search.tables, search.multipliers
    limit = tables.lattice.index(dict(zip(tables.problem.dims, node.tile, strict=True)))
    value, constant = search.incumbent.value or 0, one.measure.value(tables.start, tables.compute_cycles)
    found: dict[tuple[int, Index], int] = {}
    for number, move in enumerate(graph_of(tables).moves[node.state]):
        level = move.edge_of(tables).level
        usable = tables.problem.arch.levels[level].usable_bits
        for index in product(*(range(top + 1) for top in limit)):
            own, rest = node_cost(tables, move, index, 0, FREE), free(move.after, index)
            if own is None or rest is None:
                continue
            if usable is not None and node.used[level] + int(entry_at(move.cost(tables).bits, index)) > usable:
                continue
            bound = node.parts[0] + own + rest + constant
            if bound >= value or not is_first_order(node, index, limit, level, move.tensor):
                continue
            charged, inner = node_cost(tables, move, index, 0, multipliers), priced(move.after, index)
            assert charged is not None
            assert inner is not None
            spent = sum(price * used for price, used in zip(multipliers.per_level, node.used, strict=False))
            total = node.parts[0] * multipliers.unit + spent + charged + inner - multipliers.allowance
            if total < (value - constant) * multipliers.unit:
                found[number, index] = max(bound, constant + math.ceil(Fraction(total, multipliers.unit)))
    return found


def is_first_order(node: SearchNode, index: Index, limit: Index, level: int, tensor: int) -> bool:
    """Return whether nodes of one tile come by level, then tensor."""
    last = node.chain[-1] if node.chain else None
    return index != limit or last is None or last.tile != node.tile or (last.level, last.tensor) < (level, tensor)


class Asked(StructureSearch):
    def covers(self, node: SearchNode) -> bool:
        return self._is_dominated(node)


@pytest.mark.parametrize("seed", range(12))
def test_a_node_is_dominated_where_one_before_it_was_as_good_in_everything(seed: int) -> None:
    rng = random.Random(f"dominance {seed}")
    one = random_case("dominance", "edp", windows=False)
    tables = tables_of(one, one.structures[0], ())
    search = Asked(tables, FREE, Incumbent(lambda: False))
    states = list(graph_of(tables).moves)[:2]
    before: list[SearchNode] = []
    for _ in range(80):
        tile = (rng.choice((1, 2)),) * len(one.problem.dims)
        parts, used = (tuple(rng.randrange(5) for _ in range(2)) for _ in range(2))
        node = SearchNode(rng.choice(states), tile, parts, used, parts, used, (), ())
        as_good = [
            old
            for old in before
            if (old.state, old.tile) == (node.state, node.tile)
            and all(a <= b for a, b in zip((*old.parts, *old.used), (*parts, *used), strict=True))
        ]
        assert search.covers(node) == bool(as_good)
        before.append(node)


@pytest.mark.parametrize(("windows", "keep"), [(True, 1), (False, 2)])
def test_what_differs_above_a_tile_is_kept_apart_where_it_matters(windows: bool, keep: int) -> None:
    """Loads through windows depend on the chain above, and of several mappings each counts."""
    one = random_case("kept apart", "energy", windows=windows)
    tables = tables_of(one, one.structures[0], places_of(one.problem, one.structures[0])[0])
    search = Asked(tables, FREE, Incumbent(lambda: False, keep=keep))
    node = root_node(tables, first_states(tables)[0])
    assert not search.covers(node)
    assert not search.covers(node)


@pytest.mark.parametrize("seed", few(range(24), 4))
def test_multipliers_bound_what_fits_and_finish_only_with_the_best(seed: int) -> None:
    rng = random.Random(f"multipliers {seed}")
    for one, structure, places, tables in asked(seed, "multipliers"):
        inside = costs_inside(tables, 0, FREE)
        whole, _ = root_bound(tables, inside)
        if whole is None or not one.measure.is_linear:
            continue
        keep = rng.choice((1, 1, 2))
        incumbent = Incumbent(lambda: False, keep=keep)
        search = StructureSearch(tables, FREE, incumbent)
        constant = one.measure.value(tables.start, tables.compute_cycles)
        values = sorted(set(one.least(structure).get(tuple(sorted(places)), {}).values()))
        limit = None
        if values and rng.random() < 0.5:
            limit = int(rng.choice(values) / one.measure.unscaled(1)) - constant
        improved = improve_multipliers(search, inside, limit)
        finished, bound = improved.is_solved, improved.bound
        assert bound >= whole
        if values:
            assert one.scaled(bound + constant) <= values[0]
        if finished:
            assert keep == 1
            assert not any(term.is_window for term in one.problem.terms)
            assert incumbent.value is not None
            assert one.scaled(incumbent.value) == values[0]
        for value, completed in incumbent.found:
            assert one.scaled(value) >= values[0], completed


@pytest.mark.parametrize("buffer", [200, 400])
def test_prices_raise_the_bound_half_of_the_way_to_the_best_where_registers_are_scarce(buffer: int) -> None:
    pj, room = (100, 6, 1), (None, buffer, 24)
    rows = [{"level": f"L{at}", "read_pj": pj[at], "write_pj": pj[at], "capacity_bits": room[at]} for at in range(3)]
    arch = arch_from_document({"name": "scarce", "nodes": [*rows, {"compute": "MAC", "pj": 1}]})
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", bits=8, m=4, n=6, k=4)
    problem, measure = analyse(workload, arch), measure_of(parse_objective("energy", arch), workload, arch)
    (structure,), _ = enumerate_structures(problem, never)
    incumbent = Incumbent(never)
    solve_structures(problem, measure, (structure,), incumbent, None, None)
    tables = build_tables(problem, structure, measure, root_context(problem, structure))
    inside, constant = costs_inside(tables, 0, FREE), measure.value(tables.start, tables.compute_cycles)
    whole, best = root_bound(tables, inside)[0], (incumbent.value or 0) - constant
    improved = improve_multipliers(StructureSearch(tables, FREE, Incumbent(never)), inside, None)
    assert whole is not None
    assert whole < (whole + best) // 2 <= improved.bound <= best


@pytest.mark.parametrize("seed", few(range(12), 5))
def test_no_entry_of_the_queue_has_a_bound_below_its_parents(seed: int) -> None:
    one = random_case(f"queue {seed}", "energy", windows=True)
    for number, structure in enumerate(one.structures):
        incumbent, group = Incumbent(lambda: False), Group(number, (structure,))
        own = least_value(BoundTables(tables_of(one, structure, ())))
        for parent in (0, own or 0, 10**15):
            entry: Entry | None = (parent, -Stage.SINGLE_TENSORS, number)
            while entry is not None and -entry[1] < Stage.SPLIT:
                before = entry
                entry = next(step_on(one.problem, one.measure, structure, before, incumbent, {}, group), None)
                assert (entry is None) == (own is None)
                if entry is not None:
                    assert entry[0] == max(parent, own or 0)
                    assert entry[1] < before[1] or entry[0] > before[0]
                    assert entry[2] == number
