"""Groups of structures: their tables are the least of their members', and leave out only what no chain needs that wins.

Two or three unlike fan-outs between the same levels, with and without wires, over every kind of objective.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from polymap.ir.machine import Architecture, Fanout, MemoryLevel, Multicast, Node
from polymap.poly import Kind
from polymap.resources import SearchCaches
from polymap.resources.limits import never
from polymap.search.dividing.bounds import (
    FREE,
    Multipliers,
    State,
    costs_inside,
    final_cost,
    first_states,
    graph_of,
    root_bound,
    usable_bits,
    winning_states,
)
from polymap.search.dividing.branch_and_bound import BoundTables, entry_at
from polymap.search.dividing.cost_tables import Tables, build_tables, stacked_tables
from polymap.search.dividing.groups import (
    Groups,
    groups_near,
    groups_of,
    least_value,
    relaxed_bound,
    stacked_bounds,
)
from polymap.search.dividing.node_costs import root_context, uncovered_vectors
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import Measure, measure_of
from polymap.search.problem.problem import Problem, analyse
from polymap.search.problem.structures import Structures, enumerate_structures
from polymap.search.trees.start_trees import random_tree
from polymap.search.trees.tree_edits import TreeEdits
from tests.case_machines import with_open_levels, with_wires
from tests.referee.problems import random_problem
from tests.times import few
from tests.tree_siblings import sibling_counts

Asked = tuple[Problem, Measure, Structures]
OBJECTIVES = ("energy", "latency", "edp", "energy", "traffic:DRAM")


def unlike(rng: random.Random, arch: Architecture) -> Architecture:
    """Return the machine with two or three fan-outs below one level that merge loads differently."""
    nodes: list[Node] = [node for node in arch.nodes if not isinstance(node, Fanout)]
    place = rng.randrange(1, len(nodes))
    own = [
        Fanout(name, rng.choice((2, 3, 4)), rng.choice(list(Multicast)), rng.random() < 0.5)
        for name in ("X", "Y", "Z")[: rng.choice((2, 2, 3))]
    ]
    nodes[place:place] = own
    if rng.random() < 0.4:  # fan-outs of another group
        nodes.insert(
            rng.choice([at for at in range(1, len(nodes)) if not place <= at <= place + len(own)]), Fanout("V", 2)
        )
    return replace(arch, nodes=tuple(nodes))


@cache
def asked(seed: int) -> Asked:
    """Return a problem with groups of several structures."""
    rng = random.Random(f"groups {seed}")
    while True:
        drawn = random_problem(rng, most=4000, tiles="divide")
        arch = with_open_levels(rng, unlike(rng, drawn.arch))
        arch = with_wires(rng, arch) if seed % 2 else arch
        problem = analyse(drawn.workload, arch)
        goal = OBJECTIVES[seed % len(OBJECTIVES)]
        name = next(level.name for level in arch.levels)
        measure = measure_of(parse_objective(goal.replace("DRAM", name), arch), drawn.workload, arch)
        if problem.reason is None:
            structures, _ = enumerate_structures(problem, never)
            if len(structures) < 300 and any(len(group) > 1 for group in groups_of(problem, structures)):
                return problem, measure, structures


def tables_of(one: Asked, numbers: tuple[int, ...], only: frozenset[State] | None = None) -> Tables:
    problem, measure, structures = one
    first, *others = (structures[number] for number in numbers)
    return build_tables(problem, first, measure, root_context(problem, first), others=tuple(others), only=only)


def several(one: Asked, rng: random.Random) -> tuple[int, ...]:
    return rng.choice(sorted({group for group in groups_of(one[0], one[2]) if len(group) > 1}))


@pytest.mark.parametrize("seed", few(range(30), 4))
def test_costs_of_a_group_are_the_least_of_its_members(seed: int) -> None:
    one, rng = asked(seed), random.Random(seed)
    group = several(one, rng)
    together, each = tables_of(one, group), [tables_of(one, (number,)) for number in group]
    for tensor, table in enumerate(together.tensors):
        alone = [own.tensors[tensor] for own in each]
        for state, may_end in enumerate(table.graph.final):
            if may_end:
                assert table.end(state) == tuple(map(min, zip(*(one.end(state) for one in alone), strict=True)))
        for number, edge in enumerate(table.edges):
            others = [one.edges[number].cost for one in alone]
            assert all(
                np.array_equal(np.broadcast_to(edge.cost.bits, other.bits.shape), other.bits) for other in others
            )
            for component, costs in enumerate(edge.cost.costs):
                arithmetic, whole = together.arithmetics[component], together.lattice.shape
                for index in np.ndindex(whole):
                    least = [arithmetic.number(entry_at(other.costs[component], index)) for other in others]
                    known = [cost for cost in least if cost is not None]
                    assert arithmetic.number(entry_at(costs, index)) == min(known, default=None), (edge.level, index)
    whole, bounds = least_value(BoundTables(together)), [least_value(BoundTables(own)) for own in each]
    assert all(bound is None or (whole is not None and whole <= bound) for bound in bounds)


@pytest.mark.parametrize("seed", few(sorted(range(60), key=lambda seed: seed not in (12, 13, 17, 28)), 4))
def test_what_instances_read_and_write_costs_the_least_of_the_members(seed: int) -> None:
    """In every group: few have members that reach them in several ways, the first of which is not the cheapest."""
    problem, _, structures = one = asked(seed)
    for group in sorted({group for group in groups_of(problem, structures) if len(group) > 1}):
        together, each = tables_of(one, group), [tables_of(one, (number,)) for number in group]
        for tensor, table in enumerate(together.tensors):
            for state in (state for state, may_end in enumerate(table.graph.final) if may_end):
                ends = [own.tensors[tensor].end(state) for own in each]
                assert table.end(state) == tuple(map(min, zip(*ends, strict=True)))


def weights_that_no_other_covers_are_left(seed: int) -> None:
    rng = random.Random(f"weights {seed}")
    for _ in range(50):
        weights = [[rng.randrange(4) for _ in range(1 + seed % 3)] for _ in range(rng.randint(1, 9))]
        left = uncovered_vectors(weights)
        assert len(set(left)) == len(left), "each once"
        for one in weights:
            assert any(all(a <= b for a, b in zip(other, one, strict=True)) for other in left), "one is no larger"
        for one in left:
            assert not any(all(a <= b for a, b in zip(x, one, strict=True)) for x in left if x != one), (
                "none is in vain"
            )


@pytest.mark.parametrize("seed", range(6))
def test_weights_that_no_other_covers_are_left(seed: int) -> None:
    weights_that_no_other_covers_are_left(seed)


@pytest.mark.parametrize("seed", few(range(30), 4))
def test_states_that_win_are_those_of_chains_that_cost_no_more(seed: int) -> None:
    one, rng = asked(seed), random.Random(f"win {seed}")
    tables = tables_of(one, several(one, rng))
    inside = costs_inside(tables, 0, FREE)
    least = root_bound(tables, inside)[0]
    if least is None:
        assert not winning_states(tables, inside, 10**18)
        return
    through = least_through(tables)
    assert min(through.values()) == least
    costs = sorted(set(through.values()))
    for most in {least - 1, *rng.sample(costs, min(4, len(costs)))}:
        found = winning_states(tables, inside, most)
        assert found == {state for state, cost in through.items() if cost <= most}
        if found:
            only = tables_of(one, (0,)) and replace(tables, only=found)
            assert root_bound(only, costs_inside(only, 0, FREE))[0] == least


def least_through(tables: Tables) -> dict[State, int]:
    """Return the least cost of component 0 over all whole chains that are in a joint state, chain by chain."""
    moves, best = graph_of(tables).moves, dict[State, int]()
    capacities = [level.usable_bits for level in tables.problem.arch.levels]

    @cache
    def rest(state: State, index: tuple[int, ...]) -> int | None:
        """Return the least cost of what may still be placed, at tiles that divide one."""
        return min((cost for cost, _, _ in ends(state, index)), default=None)

    @cache
    def ends(state: State, index: tuple[int, ...]) -> tuple[tuple[int, State, tuple[int, ...]], ...]:
        """Return what goes on from a state: (least cost, state and tile after the next node; itself: none follows)."""
        end, found = final_cost(tables, state, 0), list[tuple[int, State, tuple[int, ...]]]()
        if end is not None:
            found.append((end, state, index))
        for move in moves[state]:
            cost, room = move.cost(tables), capacities[move.edge_of(tables).level]
            for inner in product(*(range(top + 1) for top in index)):
                own = tables.arithmetics[0].number(entry_at(cost.costs[0], inner))
                fits = room is None or int(entry_at(cost.bits, inner)) <= room
                after = rest(move.after, inner) if own is not None and fits else None
                if own is not None and after is not None:
                    found.append((own + after, move.after, inner))
        return tuple(found)

    def visit(state: State, index: tuple[int, ...], so_far: int) -> None:
        whole = rest(state, index)
        if whole is None or (so_far + whole >= best.get(state, so_far + whole + 1) and (state, index, so_far) in seen):
            return
        seen.add((state, index, so_far))
        best[state] = min(best.get(state, so_far + whole), so_far + whole)
        for cost, after, inner in ends(state, index):
            if after != state:
                remaining = rest(after, inner)
                assert remaining is not None
                visit(after, inner, so_far + cost - remaining)

    seen: set[tuple[State, tuple[int, ...], int]] = set()
    top = tuple(length - 1 for length in tables.lattice.shape)
    for first in first_states(tables):
        visit(first, top, 0)
    return best


def test_levels_between_fan_outs_make_groups_of_their_own() -> None:
    one = asked(0)
    below = {fan.below for fan in one[0].classes}
    assert any(isinstance(node, MemoryLevel) for node in one[0].arch.nodes)
    groups = groups_of(one[0], one[2])
    assert len(below) < len(one[0].classes)
    assert sorted({number for group in groups for number in group}) == list(range(len(one[2])))
    assert all(number in group for number, group in enumerate(groups))


def groups_near_a_tree_are_those_that_spread_nearly_alike(seed: int) -> None:
    """Held against siblings counted loop by loop, and products class by class."""
    (problem, _, structures), rng = asked(seed), random.Random(f"near {seed}")
    groups, edits = groups_of(problem, structures), TreeEdits(problem, divide=True)
    assert isinstance(groups, Groups)

    def spread(classes: Sequence[Sequence[int]]) -> Counter[tuple[int, str]]:
        found = Counter[tuple[int, str]]()
        for one, row in zip(problem.classes, classes, strict=True):
            for dim, many in zip(problem.dims, row, strict=True):
                found[one.below, dim] = (found[one.below, dim] or 1) * many
        return found

    for _ in range(20):
        mapping = edits.mapping_of(random_tree(edits, rng))
        own = spread(sibling_counts(problem, mapping))
        firsts = {number: spread(structures[number].classes) for number in sorted({group[0] for group in groups})}
        found = {
            number
            for number, one in firsts.items()
            if sum(one[at] > own[at] for at in own) <= 1 and sum(one[at] < own[at] for at in own) <= 1
        }
        assert sorted(groups_near(problem, structures, groups, mapping)) == sorted(found)


@pytest.mark.parametrize("seed", few(range(20), 4))
def test_groups_near_a_tree_are_those_that_spread_nearly_alike(seed: int) -> None:
    groups_near_a_tree_are_those_that_spread_nearly_alike(seed)


def bounds_side_by_side_are_those_of_each(seed: int) -> None:
    """Without multipliers, and at some of levels; of all groups that spread the dims of windows alike."""
    (problem, measure, structures), rng = asked(seed), random.Random(f"beside {seed}")
    groups, caches = groups_of(problem, structures), SearchCaches()
    assert isinstance(groups, Groups), "there are groups of several"
    left = {numbers[0] for numbers in groups}
    while left:
        beside = groups.beside(min(left))
        members = [tuple(structures[number] for number in numbers) for numbers in beside]
        assert left.issuperset(numbers[0] for numbers in beside), "each group is beside those that are beside it"
        left -= {numbers[0] for numbers in beside}
        stacked = stacked_tables(problem, members, measure, never, caches)
        assert all(arithmetic.kind is Kind.NARROW for arithmetic in stacked.arithmetics), "small problems"
        prices = tuple(rng.choice((0, 0, 1, 7)) for _ in range(problem.level_count))
        allowance = sum(price * (usable_bits(stacked, level) or 0) for level, price in enumerate(prices))
        for multipliers in (FREE, Multipliers(prices, 4, allowance)):
            found = stacked_bounds(stacked, multipliers)
            alone = [tables_of((problem, measure, structures), numbers) for numbers in beside]
            assert found == [relaxed_bound(one, multipliers)[0] for one in alone], "what each is bounded by alone"
        unpriced = stacked_bounds(stacked, Multipliers((0,) * problem.level_count, 4, 0))
        assert unpriced == stacked_bounds(stacked, FREE), "a unit scales costs and changes none"


@pytest.mark.parametrize("seed", few(range(30), 4))
def test_bounds_side_by_side_are_those_of_each(seed: int) -> None:
    bounds_side_by_side_are_those_of_each(seed)
