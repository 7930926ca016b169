"""Costs below marks are those of tables below each mark, one by one; they bound all trees; and a search that knows them
finds the best tree."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import count

import numpy as np
import pytest

import polymap.search.dividing.marks as marks
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast
from polymap.ir.mapping import Mapping
from polymap.poly import Numbers
from polymap.resources.caches import SearchCaches
from polymap.resources.limits import never
from polymap.search.dividing.bounds import (
    Move,
    Multipliers,
    State,
    costs_inside,
    first_states,
    graph_of,
    priced_cost,
    priced_final,
)
from polymap.search.dividing.branch_and_bound import entry_at
from polymap.search.dividing.cost_tables import Tables, build_tables, tables_below
from polymap.search.dividing.loop_order import CompletedMapping
from polymap.search.dividing.marks import costs_below_marks, pair_count, tile_pairs
from polymap.search.dividing.node_costs import Context, places_of, root_context
from polymap.search.dividing.progress import Incumbent
from polymap.search.dividing.steps import StopPoint, solve_structures
from polymap.search.dividing.window_paths import most_saved, most_saved_outside, window_counts
from polymap.search.problem.problem import IndexGroup, analyse
from polymap.search.problem.structures import Structure
from polymap.workload.einsums import einsum
from tests.times import few
from tests.unit.search.tree_chains import Case, case_of, full_case, random_case

WINDOWS: tuple[tuple[tuple[int, int], dict[str, int]], ...] = (
    ((1, 1), {"p": 12, "r": 6}),
    ((2, 1), {"p": 8, "r": 3}),
    ((1, 2), {"p": 6, "r": 4}),
    ((3, 1), {"p": 4, "r": 4}),
    ((1, -1), {"p": 9, "r": 2}),
)


def united_case(seed: int) -> Case:
    """Return a case on fan-outs that make one message of their siblings' loads, whatever these have in common."""
    sizes = ({"p": 8, "r": 2, "k": 2}, {"p": 6, "r": 3, "k": 1}, {"p": 4, "r": 2, "k": 3})[seed % 3]
    workload = einsum("O[k,p] += I[p+r] * W[k,r]", sizes=sizes)
    levels = [MemoryLevel("DRAM", read_pj=Fraction(100), write_pj=Fraction(100))]
    for name, pj, elements in (("Mid", 9, 4), ("Reg", 2, 2)):
        energy, bits = Fraction(pj), elements * workload.tensors[0].bits
        levels.append(MemoryLevel(name, read_pj=energy, write_pj=energy, holds=("I",), capacity_bits=bits))
    lanes = Fanout("Lanes", 2, multicast=Multicast.UNION, dims=("p",))
    arch = Architecture("united", (levels[0], lanes, *levels[1:], ComputeUnit("MAC", Fraction(1))))
    return case_of(analyse(workload, arch), "energy")


@cache
def linear_case(seed: int) -> Case:
    """Return a case with a window; every second one, if it can be, with a level that several tensors fill; those from
    100 on have fan-outs that unite loads."""
    if seed >= 100:
        return united_case(seed)
    for turn in count():
        name = f"marks {seed} {turn}"
        found = full_case(name, "energy", windows=True) if seed % 2 else None
        found = found or random_case(name, "energy", windows=True)
        if found.measure.is_linear and found.trees:
            return found
    raise AssertionError


def some_tables(seed: int, most: int = 3) -> Iterator[tuple[Case, Structure, Tables]]:
    """Yield tables of a few structures: of decided places of their spatial loops, or of open ones."""
    one, rng = linear_case(seed), random.Random(f"tables {seed}")
    for structure in rng.sample(one.structures, min(most, len(one.structures))):
        places = rng.choice((*places_of(one.problem, structure), ()))
        yield (
            one,
            structure,
            build_tables(one.problem, structure, one.measure, root_context(one.problem, structure, places)),
        )


def some_multipliers(tables: Tables, rng: random.Random) -> Multipliers:
    """Return prices of a few levels."""
    usable = [level.usable_bits for level in tables.problem.arch.levels]
    prices = tuple(0 if bits is None else rng.choice((0, 3, 40)) for bits in usable)
    allowance = sum(price * (bits or 0) for price, bits in zip(prices, usable, strict=True))
    return Multipliers(prices, 4, allowance)


@pytest.mark.parametrize(("coefficients", "extents"), WINDOWS)
@pytest.mark.parametrize("repeat", [1, 6, 8])
def test_what_overlaps_save_outside_every_tile_is_what_they_save_outside_each(
    coefficients: tuple[int, int], extents: dict[str, int], repeat: int
) -> None:
    savings_are_those_outside_each(coefficients, extents, repeat)


def savings_are_those_outside_each(coefficients: tuple[int, int], extents: dict[str, int], repeat: int) -> None:
    group, counts = IndexGroup(tuple(extents), coefficients), window_counts(SearchCaches())
    model = counts.window_model((group,), tuple(extents.items()), ((), ()))
    every, last = most_saved_outside(model, repeat), len(model.pairs.tiles) - 1
    for number, left in enumerate(n for n in range(1, repeat + 1) if repeat % n == 0):
        for tile, rows in enumerate(model.pairs.below):
            alone = most_saved(model, tile, last, left, 1)
            assert np.array_equal(every[number, model.pairs.at[tile, rows]], alone[rows])


def reached_one_by_one(tables: Tables, multipliers: Multipliers) -> dict[State, Numbers]:
    """Return the costs below marks by tables for every mark, which know its tile."""
    arithmetic, lattice, graph = tables.arithmetics[0], tables.lattice, graph_of(tables)
    windows = {term.index for term in tables.problem.terms if term.is_window}
    below: dict[tuple[int, ...], Tables] = {}
    for index in np.ndindex(lattice.shape):
        tile = tuple(lattice.point(index)[dim] for dim in tables.problem.dims)
        chain = tuple(dict.fromkeys((tables.context.tiles[0], tile)))
        below[index] = tables_below(tables, Context(chain, tables.context.places))

    def cost(move: Move, mark: tuple[int, ...], index: tuple[int, ...]) -> int | None:
        own = arithmetic.number(entry_at(priced_cost(tables, move, 0, multipliers), index))
        if move.tensor not in windows or own is None:
            return own
        point = lattice.point(index)
        inner = below[mark]
        other = arithmetic.number(entry_at(priced_cost(inner, move, 0, multipliers), inner.lattice.index(point)))
        return None if other is None else max(own, other)

    found: dict[State, Numbers] = {}
    for layer in graph.layers:
        for state in layer:
            end = priced_final(tables, state, 0, multipliers)
            table = np.full(lattice.shape, arithmetic.never if end is None else end, dtype=arithmetic.dtype)
            for mark in np.ndindex(lattice.shape):
                for index in np.ndindex(tuple(place + 1 for place in mark)):
                    for move in graph.moves[state]:
                        own, inside = cost(move, mark, index), arithmetic.number(found[move.after][index])
                        if own is not None and inside is not None:
                            table[mark] = min(table[mark], own + inside)
            found[state] = table
    return found


SEEDS = (*range(16), 100, 101, 102)


@pytest.mark.parametrize("seed", few((*SEEDS[-3:], *SEEDS[:-3]), 8))
def test_costs_below_marks_are_those_of_tables_that_know_each_mark(seed: int) -> None:
    costs_are_those_of_each_mark(seed)


def costs_are_those_of_each_mark(seed: int, most: int = 150) -> None:
    """One by one, of the structures with few pairs of tiles."""
    for _, _, tables in some_tables(seed, most=6):
        if pair_count(tables.lattice) > most:
            continue
        multipliers = some_multipliers(tables, random.Random(f"prices {seed}"))
        inside = costs_inside(tables, 0, multipliers)
        found, expected = costs_below_marks(tables, inside, multipliers), reached_one_by_one(tables, multipliers)
        assert found.keys() == expected.keys()
        arithmetic = tables.arithmetics[0]
        for state, table in found.items():
            for index in np.ndindex(tables.lattice.shape):
                assert arithmetic.number(table[index]) == arithmetic.number(expected[state][index]), (state, index)
                least = arithmetic.number(inside.reach[state][index])
                assert least is None or arithmetic.number(table[index]) is None or table[index] >= least


@pytest.mark.parametrize("seed", few((*SEEDS[-3:], *SEEDS[:-3]), 8))
def test_what_a_mark_adds_makes_the_cost_of_tables_that_know_it(seed: int) -> None:
    added_costs_are_those_of_each_mark(seed)


def added_costs_are_those_of_each_mark(seed: int, most: int = 150) -> None:
    """Pair by pair, at every node of the window tensor."""
    for _, _, tables in some_tables(seed, most=6):
        lattice, arithmetic = tables.lattice, tables.arithmetics[0]
        term = next(term for term in tables.problem.terms if term.is_window)
        if pair_count(lattice) > most:
            continue
        pairs, numbers = tile_pairs(lattice), np.arange(math.prod(lattice.shape)).reshape(lattice.shape)
        outer, inner = np.broadcast_arrays(pairs.at_outer(numbers), pairs.at_inner(numbers))
        index = list(np.ndindex(lattice.shape))
        for number, edge in enumerate(tables.tensors[term.index].edges):
            added = np.broadcast_to(marks.added_costs(tables, pairs, term, number, 1), outer.shape)
            for mark, tile, more in zip(outer.flat, inner.flat, added.flat, strict=True):
                point, at_mark = lattice.point(index[tile]), lattice.point(index[mark])
                chain = tuple(dict.fromkeys((tables.context.tiles[0], tuple(at_mark.values()))))
                below = tables_below(tables, Context(chain, tables.context.places))
                own = arithmetic.number(entry_at(edge.cost.costs[0], lattice.index(point)))
                other = below.tensors[term.index].edges[number].cost.costs[0]
                known = arithmetic.number(entry_at(other, below.lattice.index(point)))
                if own is not None:
                    assert (known is None) == (more >= arithmetic.limit)
                    assert known is None or own + more == max(own, known), (at_mark, point)


@pytest.mark.parametrize("seed", few((*SEEDS[-3:], *range(40)), 6))
def test_no_tree_of_a_structure_costs_less_than_below_its_first_mark(seed: int) -> None:
    trees_cost_no_less(seed)


def trees_cost_no_less(seed: int) -> None:
    for one, structure, _ in some_tables(seed, most=8):
        best = one.best(structure)
        tables = build_tables(one.problem, structure, one.measure, root_context(one.problem, structure))
        multipliers = some_multipliers(tables, random.Random(f"prices {seed}"))
        found = costs_below_marks(tables, costs_inside(tables, 0, multipliers), multipliers)
        costs = [tables.arithmetics[0].number(found[first][tables.lattice.top]) for first in first_states(tables)]
        known = [cost for cost in costs if cost is not None]
        if best is None:
            continue
        assert known
        bound = -((multipliers.allowance - min(known)) // multipliers.unit)
        assert one.scaled(bound + one.measure.value(tables.start, tables.compute_cycles)) <= best


@pytest.mark.parametrize("seed", few((*SEEDS[-3:], *range(30)), 6))
def test_a_search_that_knows_the_costs_below_marks_finds_the_best_tree(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = None if seed % 3 else 40
    monkeypatch.setattr(marks, "TUNING", replace(marks.TUNING, pairs_per_node=1 << 40))
    best_trees_are_found(seed, nodes)


def best_trees_are_found(seed: int, nodes: int | None = None) -> None:
    """In slices of so many nodes, the search goes on where it was ended."""
    one = linear_case(seed)
    for structure in one.structures:
        best = one.best(structure)
        known = 10**9 if best is None else math.floor(best / one.scaled(1)) + 1
        incumbent = Incumbent(never)
        incumbent.add(known, CompletedMapping((), Mapping(())))
        stopped: StopPoint | None = None
        for _ in range(1000):
            stopped = solve_structures(one.problem, one.measure, (structure,), incumbent, stopped, None, nodes)
            if stopped is None:
                break
        assert stopped is None
        assert incumbent.value is not None
        if best is None:
            assert incumbent.value == known
        else:
            assert one.scaled(incumbent.value) == best, structure


def test_pairs_of_tiles_are_all_those_that_divide() -> None:
    one = linear_case(0)
    for _, _, tables in some_tables(0):
        lattice = tables.lattice
        pairs, numbers = tile_pairs(lattice), np.arange(math.prod(lattice.shape)).reshape(lattice.shape)
        outer, inner = pairs.at_outer(numbers), pairs.at_inner(numbers)
        outer, inner = np.broadcast_arrays(outer, inner)
        found = set(zip(outer.ravel().tolist(), inner.ravel().tolist(), strict=True))
        index = [np.unravel_index(number, lattice.shape) for number in range(numbers.size)]
        assert found == {
            (m, t)
            for m, big in enumerate(index)
            for t, small in enumerate(index)
            if all(a >= b for a, b in zip(big, small, strict=True))
        }
        assert len(found) == outer.size == pair_count(lattice)
        assert np.array_equal(pairs.least(inner), np.zeros(lattice.shape))
    assert one.trees
