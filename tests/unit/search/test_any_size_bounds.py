"""Bounds over tiles of any size against every tree below them: whole regions, orders of nodes, probes, single tiles."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from math import ceil, exp, inf

import pytest

from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.ir.mapping import Mapping, Spatial, Storage, Temporal
from polymap.search.any_size.convex import ConvexBounds
from polymap.search.any_size.monomials import Monomial, NodeMonomials
from polymap.search.any_size.probes import tables_within, tile_ranges_below
from polymap.search.any_size.regions import first_region
from polymap.search.any_size.relaxation import relax
from polymap.search.enumeration.trees import exhaustive
from polymap.search.objective.measure import measure_of
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.problem import analyse
from polymap.search.resources.caches import SearchCaches
from polymap.search.resources.limits import never
from polymap.workload.einsums import einsum
from tests.unit.search.any_size_trees import (
    Question,
    Shape,
    cost_in_cells,
    cost_of_chain,
    is_in,
    is_summed,
    order_of,
    questions,
    random_region,
    shape_of,
    tight_region,
    true_cost,
)

ROUNDING = 1e-9


def multipliers(rng: random.Random, asked: Question) -> tuple[float, ...]:
    """Return none, or some per bit that are about what the cost per bit is."""
    worth = max(true_cost(asked.measure.components[0], asked.trees[0]), 1)
    rooms = [one.capacity_bits for one in asked.problem.arch.levels]
    return tuple(rng.choice((0.0, worth * rng.random() / room)) if room else 0.0 for room in rooms)


@pytest.mark.parametrize("windows", [False, True])
def test_no_tree_of_a_region_is_below_its_relaxed_bound(windows: bool) -> None:
    rng = random.Random(f"regions {windows}")
    met = 0
    for asked in questions(f"regions {windows}", 10, tiles="any", windows=windows):
        shapes = [shape_of(asked.problem, tree.mapping) for tree in asked.trees]
        for _ in range(6):
            region = random_region(rng, asked.problem)
            inside = [tree for tree, shape in zip(asked.trees, shapes, strict=True) if is_in(region, shape)]
            tables = asked.tables(region)
            parts = [
                relax(tables, number, multipliers(rng, asked) if not number else (0.0,) * asked.problem.level_count)
                for number in range(len(asked.measure.components))
            ]
            if any(part is None for part in parts):
                assert not inside
                continue
            met += len(inside)
            costs = [part.cost for part in parts if part is not None]
            value = asked.measure.unscaled(asked.measure.value(tuple(map(ceil, costs)), tables.cycles))
            for tree in inside:
                assert value <= tree.value
                for component, cost in zip(asked.measure.components, costs, strict=True):
                    assert not is_summed(component) or cost <= true_cost(component, tree)
    assert met > 2_000


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["energy", "latency"])
def test_no_tree_is_below_the_least_program_and_no_plain_one_below_that_of_its_order(objective: str) -> None:
    """Others let an element stay for more than a node's tile, as in another order of nodes."""
    rng = random.Random(f"orders {objective}")
    met = of_order = 0
    for asked in questions(f"orders {objective}", 8, tiles="any", windows=False, objective=objective):
        if not asked.measure.components:
            continue
        convex = ConvexBounds(asked.problem, asked.measure, SearchCaches())
        if convex.orders is None or convex.numbers is None:
            continue
        region = random_region(rng, asked.problem)
        optima = convex.optima(region, convex.numbers, never)
        assert optima is not None
        bounds = {convex.orders.complete_orders[one.number]: one.bound for one in optima}
        others = (0,) * (len(asked.measure.components) - 1)
        for tree in asked.trees:
            shape = shape_of(asked.problem, tree.mapping)
            if not is_in(region, shape):
                continue
            met += 1
            own = is_plain(asked, tree.mapping)
            of_order += own
            bound = bounds[order_of(convex.tables, shape.placed)] if own else optima[0].bound
            if objective == "energy":
                assert bound <= true_cost(asked.measure.components[0], tree)
            assert asked.measure.unscaled(asked.measure.value((ceil(bound), *others), 0)) <= tree.value
    assert met > 500
    assert of_order > 100


def test_a_latency_over_any_sizes_does_not_count_reads_that_start_from_zero() -> None:
    """9 sums are written to GLB and read from it once, 8 bits each at one bit per cycle: 144 cycles, not 216."""
    outer = einsum("C[m,n] += A[m] * B[n]", m=3, n=3)
    arch = Architecture(
        "held",
        (
            MemoryLevel("DRAM"),
            MemoryLevel("GLB", 10**6, must_hold=("C",), bandwidth_bits_per_cycle=Fraction(1)),
            MemoryLevel("RF", 120, must_hold=("C",)),
            ComputeUnit("MAC"),
        ),
    )
    problem = analyse(outer, arch)
    convex = ConvexBounds(problem, measure_of(parse_objective("latency", arch), outer, arch), SearchCaches())
    assert convex.numbers is not None
    optima = convex.optima(first_region(problem), convex.numbers, never)
    true = exhaustive(outer, arch, "latency", "any")
    assert optima
    assert true is not None
    assert true.value == 144
    assert 143.9 < optima[0].bound <= 144


@pytest.mark.slow
def test_no_tree_below_a_goal_lies_outside_the_ranges_of_its_tiles() -> None:
    rng = random.Random("probes")
    narrowed = 0
    for asked in questions("probes", 9, tiles="divide", windows=False, objective="energy"):
        convex = ConvexBounds(asked.problem, asked.measure, SearchCaches())
        if convex.orders is None or convex.numbers is None:
            continue
        region = random_region(rng, asked.problem)
        inside = [tree for tree in asked.trees if is_in(region, shape_of(asked.problem, tree.mapping))]
        least = min((true_cost(asked.measure.components[0], tree) for tree in inside), default=0)
        goal = least * rng.choice((1.01, 1.1, 1.5)) + 1
        optima = convex.optima(region, convex.numbers, never)
        if not inside or optima is None:
            continue
        ranges = tile_ranges_below(convex, region, optima, goal, never)
        narrowed += sum(low > -inf or high < inf for row in ranges.values() for low, high in row)
        relaxed = relax(tables_within(asked.tables(region), ranges), 0, (0.0,) * asked.problem.level_count)
        assert relaxed is not None
        assert relaxed.cost <= least
        for tree in inside:
            shape = shape_of(asked.problem, tree.mapping)
            if true_cost(asked.measure.components[0], tree) < goal and is_plain(asked, tree.mapping):
                for node, edge in zip(shape.nodes, order_of(convex.tables, shape.placed)[0], strict=True):
                    for box, (low, high) in zip(node.box, ranges[edge], strict=True):
                        assert exp(low) * (1 - ROUNDING) <= box <= (inf if high == inf else exp(high) * (1 + ROUNDING))
    assert narrowed >= 3


def is_plain(asked: Question, mapping: Mapping) -> bool:
    """Return whether every tile divides the one before, and an element stays for its node's own tile, no longer.

    So it is where the next temporal loop above every node is over a dim of its tensor; a window may also come back to
    what it left when a loop further out, over another dim, moves.
    """
    tile = dict(zip(asked.problem.dims, asked.problem.extents, strict=True))
    terms = {term.tensor.name: term for term in asked.problem.terms}
    loops: list[str] = []
    for node in mapping.nodes:
        if isinstance(node, Spatial | Temporal):
            if tile[node.dim] % node.tile:
                return False
            tile[node.dim] = node.tile
            loops += [node.dim] if isinstance(node, Temporal) else []
        elif isinstance(node, Storage):
            for term in (terms[name] for name in node.tensors):
                if not set(loops if term.is_window else loops[-1:]) <= term.dims:
                    return False
    return True


@pytest.mark.parametrize("windows", [False, True])
def test_a_plain_tree_costs_what_its_cells_say_at_least_and_many_just_that(windows: bool) -> None:
    """In cells of single tiles; where nothing is a window, monomials say no more."""
    met: Counter[tuple[object, ...]] = Counter()
    tight: Counter[tuple[object, ...]] = Counter()
    same = 0
    for number, asked in enumerate(
        questions(f"cells {windows}", 8, tiles="divide", windows=windows, objective="energy")
    ):
        component = asked.measure.components[0]
        plain = [tree for tree in asked.trees if is_plain(asked, tree.mapping)]
        for tree in plain[:: max(1, len(plain) // 100)]:
            shape = shape_of(asked.problem, tree.mapping)
            tables = asked.tables(tight_region(asked.problem, shape))
            said, true = cost_in_cells(tables, shape, 0), true_cost(component, tree)
            assert said <= true * (1 + ROUNDING) + ROUNDING
            held = number, tuple(sorted((node.tensor, node.level) for node in shape.nodes))
            met[held] += 1
            tight[held] += said >= true * (1 - ROUNDING)
            if not windows:
                monomial = monomial_cost(asked, shape)
                assert monomial is None or monomial <= said * (1 + ROUNDING) + ROUNDING
                same += monomial is not None and monomial >= said * (1 - ROUNDING)
    trees, exact = sum(met.values()), sum(tight.values())
    if windows:
        assert exact > 0.5 * trees
        assert sum(tight[held] > 0 for held in met) > 0.5 * len(met)
    else:
        assert exact == trees
        assert same > 0.8 * trees


def monomial_cost(asked: Question, shape: Shape) -> float | None:
    """Return what the monomials say a tree costs; None where a node's cost is no sum of monomials."""
    monomials = NodeMonomials(asked.problem, asked.measure.components[0])
    tables = asked.tables(first_region(asked.problem))
    order, state = order_of(tables, shape.placed)
    total = tables.start[0]
    for node, (tensor, number) in zip(shape.nodes, order, strict=True):
        edge = tables.tensors[tensor].edges[number]
        cost = monomials.node_cost(asked.problem.terms[tensor], edge.parent, edge.levels)
        if cost is None:
            return None
        total += sum(value_at(one, node.tile, shape.factors) for one in cost[0]) + cost[1]
    for tensor, at_end in enumerate(state):
        one = monomials.compute_cost(asked.problem.terms[tensor], tables.tensors[tensor].holders[at_end])
        total += value_at(one, (Fraction(1),) * len(asked.problem.dims), shape.factors)
    return total


def value_at(one: Monomial, tile: tuple[Fraction, ...], factors: tuple[tuple[Fraction, ...], ...]) -> float:
    """Return the monomial's value."""
    found = one.coefficient
    for size, power in zip(tile, one.tile, strict=True):
        found *= float(size) ** power
    for row, powers in zip(factors, one.factors, strict=True):
        for factor, power in zip(row, powers, strict=True):
            found *= float(factor) ** power
    return found


@pytest.mark.parametrize("windows", [False, True])
def test_the_relaxed_chain_has_the_cost_that_is_told_and_no_dividing_tree_has_less(windows: bool) -> None:
    rng = random.Random(f"chains {windows}")
    for asked in questions(f"chains {windows}", 8, tiles="divide", windows=windows):
        region = random_region(rng, asked.problem)
        tables = asked.tables(region)
        for component in range(len(asked.measure.components)):
            relaxed = relax(tables, component, (0.0,) * asked.problem.level_count)
            if relaxed is None:
                continue
            assert relaxed.cost == pytest.approx(cost_of_chain(tables, relaxed.chain, component), rel=ROUNDING)
            for tree in asked.trees[::20]:
                shape = shape_of(asked.problem, tree.mapping)
                if is_in(region, shape):
                    assert relaxed.cost <= cost_in_cells(tables, shape, component) * (1 + ROUNDING) + ROUNDING
