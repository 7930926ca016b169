"""Geometric programs of orders of nodes against every tree: monomials, bounds per order, mappings near optima."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest

from polymap.costmodel import evaluate
from polymap.costmodel.referees.trees import exhaustive
from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.ir.mapping import Mapping, Spatial, Storage, Temporal
from polymap.search.any_size.geometric_search import ProductSearch
from polymap.search.any_size.monomials import Monomial, NodeMonomials
from polymap.search.any_size.node_orders import order_monomials
from polymap.search.any_size.rounding import trees_near
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.holding import HolderGraph, holder_graph
from polymap.search.problem.measure import Measure, measure_of
from polymap.search.problem.problem import Problem, analyse
from polymap.workload.einsums import einsum
from tests.unit.search.tree_shapes import Question, Shape, order_of, questions, shape_of, true_cost

ROUNDING = 1e-9
MOST = 500  # orders


def searched(problem: Problem, measure: Measure) -> ProductSearch | None:
    """Return the boxes of all orders, bounded; None where there are no programs."""
    orders = order_monomials(problem, measure.components[0], MOST) if measure.components else None
    if orders is None:
        return None
    boxes = ProductSearch(problem, orders)
    assert boxes.begin(float("inf"), lambda: False)
    return boxes


def graphs_of(problem: Problem) -> tuple[HolderGraph, ...]:
    return tuple(holder_graph(term, problem.level_count) for term in problem.terms)


@pytest.mark.parametrize("objective", ["energy", "latency"])
def test_no_tree_is_below_the_least_program_and_no_plain_one_below_that_of_its_order(objective: str) -> None:
    """Others let an element stay for more than a node's tile, as in another order of nodes."""
    met = of_order = 0
    for asked in questions(f"orders {objective}", 6, tiles="any", windows=False, objective=objective):
        boxes = searched(asked.problem, asked.measure)
        if boxes is None:
            continue
        graphs = graphs_of(asked.problem)
        bounds = {boxes.orders.complete_orders[one.box.order]: bound for bound, one in boxes.queue}
        others = (0,) * (len(asked.measure.components) - 1)
        for tree in asked.trees:
            met += 1
            own = is_plain(asked, tree.mapping)
            of_order += own
            placed = shape_of(asked.problem, tree.mapping).placed
            bound = bounds[order_of(graphs, asked.problem, placed)] if own else boxes.bound
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
    boxes = searched(analyse(outer, arch), measure_of(parse_objective("latency", arch), outer, arch))
    true = exhaustive(outer, arch, "latency", "any")
    assert boxes is not None
    assert true is not None
    assert true.value == 144
    assert 143.9 < boxes.bound <= 144


def is_plain(asked: Question, mapping: Mapping) -> bool:
    """Return whether every tile divides the one before, and an element stays for its node's own tile, no longer: the
    next temporal loop above every node is over a dim of its tensor."""
    tile = dict(zip(asked.problem.dims, asked.problem.extents, strict=True))
    terms = {term.tensor.name: term for term in asked.problem.terms}
    loops: list[str] = []
    for node in mapping.nodes:
        if isinstance(node, Spatial | Temporal):
            if tile[node.dim] % node.tile:
                return False
            tile[node.dim] = node.tile
            loops += [node.dim] if isinstance(node, Temporal) else []
        elif isinstance(node, Storage) and not all(set(loops[-1:]) <= terms[name].dims for name in node.tensors):
            return False
    return True


def test_a_plain_tree_costs_what_the_monomials_say_at_most_and_most_just_that() -> None:
    met = same = 0
    for asked in questions("monomials", 4, tiles="divide", windows=False, objective="energy"):
        component = asked.measure.components[0]
        plain = [tree for tree in asked.trees if is_plain(asked, tree.mapping)]
        for tree in plain[:: max(1, len(plain) // 100)]:
            said, true = monomial_cost(asked, shape_of(asked.problem, tree.mapping)), true_cost(component, tree)
            if said is not None:
                assert said <= true * (1 + ROUNDING) + ROUNDING
                met += 1
                same += said >= true * (1 - ROUNDING)
    assert met > 80
    assert same > 0.8 * met


def monomial_cost(asked: Question, shape: Shape) -> float | None:
    """Return what the monomials say a tree costs; None where a node's cost is no sum of monomials."""
    problem, component = asked.problem, asked.measure.components[0]
    orders, graphs = order_monomials(problem, component, MOST), graphs_of(problem)
    if orders is None:
        return None
    monomials = NodeMonomials(problem, component)
    order, state = order_of(graphs, problem, shape.placed)
    total = orders.start
    for node, (tensor, number) in zip(shape.nodes, order, strict=True):
        edge = graphs[tensor].edges[number]
        cost = monomials.node_cost(problem.terms[tensor], edge.parent, edge.levels)
        if cost is None:
            return None
        total += sum(value_at(one, node.tile, shape.factors) for one in cost[0]) + cost[1]
    for tensor, at_end in enumerate(state):
        one = monomials.compute_cost(problem.terms[tensor], graphs[tensor].levels[at_end])
        total += value_at(one, (Fraction(1),) * len(problem.dims), shape.factors)
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


def test_mappings_near_an_optimum_are_legal_trees_with_its_nodes() -> None:
    """Tiles only shrink, spatial loops fit their fan-outs, and storage nodes stand in the program's order."""
    met = fitting = 0
    for asked in questions("near optima", 10, tiles="any", windows=False, objective="energy"):
        problem, boxes = asked.problem, searched(asked.problem, asked.measure)
        if boxes is None:
            continue
        for _, one in [*boxes.queue][::5]:
            optimum = boxes.optimum(one)
            for mapping in trees_near(problem, boxes.orders, optimum):
                cost = evaluate(problem.workload, problem.arch, mapping)
                fitting += cost.legal
                met += 1
                placed = shape_of(problem, mapping).placed
                assert placed == boxes.orders.nodes[optimum.number]
                sizes = dict(zip(problem.dims, problem.extents, strict=True))
                for node in mapping.nodes:
                    if isinstance(node, Spatial | Temporal):
                        assert node.tile < sizes[node.dim]
                        sizes[node.dim] = node.tile
    assert met > 30
    assert fitting > 0.5 * met
