"""Every order of storage nodes, with its cost and sizes as sums of monomials on arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import inf, log, prod

import numpy as np

from polymap.poly import FloatArray
from polymap.search.any_size.monomials import Monomial, NodeMonomials
from polymap.search.problem import Component, FanoutClass, HolderGraph, Problem, holder_graph

State = tuple[int, ...]  # per tensor the number of its state
Order = tuple[tuple[int, int], ...]  # (tensor, edge) of the storage nodes, outermost first
CompleteOrder = tuple[Order, State]  # and the joint state at its end
Sums = list[tuple[float, FloatArray]]  # coefficients and exponents


@dataclass(frozen=True, slots=True)
class Variables:
    """The variables, all logarithms: per node and dim of more than one index the box of all siblings together; then per
    (class, dim) a factor that may exceed 1."""

    nodes: int
    dims: tuple[int, ...]
    factors: tuple[tuple[int, int], ...]

    @property
    def inner(self) -> int:
        """The number of variables of boxes."""
        return self.nodes * len(self.dims)

    @property
    def count(self) -> int:
        return self.inner + len(self.factors)

    def node(self, number: int) -> slice:
        return slice(number * len(self.dims), (number + 1) * len(self.dims))

    def factor_row(self, rows: list[list[int]]) -> FloatArray:
        """Return exponents of factors [class][dim] as a row of variables."""
        found = np.zeros(self.count)
        found[self.inner :] = [rows[one][d] for one, d in self.factors]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class OrderMonomials:
    """P orders of nodes, as logarithms and exponents of terms (-inf: no term).

    log_costs [P, I], costs [P, I, n]: terms of the costs. constants [P]: of the costs. log_uses [P, R, J], uses [P, R,
    J, n]: terms of the shares of R limited levels that are filled. room: bits of every level.
    nodes: per order the (tensor, level) of its nodes. start: a constant of every chain.
    """

    complete_orders: tuple[CompleteOrder, ...]
    variables: Variables
    log_costs: FloatArray
    costs: FloatArray
    constants: FloatArray
    log_uses: FloatArray
    uses: FloatArray
    room: tuple[float, ...]
    nodes: tuple[tuple[tuple[int, int], ...], ...]
    start: float


def order_monomials(problem: Problem, component: Component, most: int) -> OrderMonomials | None:
    """Return the orders for a component of a measure.

    None where there are more than `most`, windows, or a cost that is not a sum of monomials.
    """
    if any(term.is_window for term in problem.terms):
        return None
    graphs = tuple(holder_graph(term, problem.level_count) for term in problem.terms)
    orders = storage_orders(graphs, most)
    if not orders:
        return None
    builder = _MonomialBuilder(problem, component, graphs, max((len(order) for order, _ in orders), default=0))
    costs = [builder.costs(*one) for one in orders]
    sums = [one for one in costs if one is not None]
    if len(sums) < len(orders):
        return None
    limited = tuple(level for level, room in enumerate(builder.room) if 0 < room < inf)
    held = [[builder.uses(order, level) for level in limited] for order, _ in orders]
    log_costs, rows = _term_arrays([one for one, _ in sums], builder.variables.count)
    flat = [one for row in held for one in row]
    log_uses, uses = _term_arrays(flat, builder.variables.count)
    shape = (len(orders), len(limited), log_uses.shape[1])
    return OrderMonomials(
        orders,
        builder.variables,
        log_costs,
        rows,
        np.array([constant for _, constant in sums]),
        log_uses.reshape(shape),
        uses.reshape((*shape, builder.variables.count)),
        builder.room,
        tuple(tuple((tensor, graphs[tensor].edges[edge].level) for tensor, edge in order) for order, _ in orders),
        -float(sum(term.zero_starts * component.read[0][term.index] for term in problem.terms)),
    )


def storage_orders(graphs: tuple[HolderGraph, ...], most: int) -> tuple[CompleteOrder, ...] | None:
    """Return every order of storage nodes with its final joint state; None where there are more than `most`."""
    found: list[CompleteOrder] = []

    def grow(order: Order, state: State) -> Iterator[CompleteOrder]:
        if all(graph.final[s] for graph, s in zip(graphs, state, strict=True)):
            yield order, state
        for tensor, graph in enumerate(graphs):
            for number, edge in enumerate(graph.edges):
                if edge.source == state[tensor]:
                    after = (*state[:tensor], edge.target, *state[tensor + 1 :])
                    yield from grow((*order, (tensor, number)), after)

    for first in product(*(graph.first for graph in graphs)):
        for one in grow((), first):
            found.append(one)
            if len(found) > most:
                return None
    return tuple(found)


def capacities(problem: Problem) -> tuple[float, ...]:
    """Return the bits available to tiles per level; inf where unlimited."""
    return tuple(inf if one.usable_bits is None else one.usable_bits for one in problem.arch.levels)


def most_siblings(problem: Problem, one: FanoutClass, dim: int) -> int:
    """Return an upper bound on the siblings along a dim over the fan-outs of a class."""
    fanouts = [problem.arch.fanouts[f] for f in one.fanouts]
    return prod(f.size for f in fanouts if f.may_spread(problem.dims[dim]))


def _term_arrays(sums: list[Sums], count: int) -> tuple[FloatArray, FloatArray]:
    longest = max([1, *(len(one) for one in sums)])
    logs = np.full((len(sums), longest), -inf)
    rows = np.zeros((len(sums), longest, count))
    for p, one in enumerate(sums):
        for i, (coefficient, row) in enumerate(one):
            logs[p, i], rows[p, i] = log(coefficient), row
    return logs, rows


class _MonomialBuilder:
    def __init__(self, problem: Problem, component: Component, graphs: tuple[HolderGraph, ...], nodes: int) -> None:
        self.problem = problem
        self.graphs = graphs
        self.monomials = NodeMonomials(problem, component)
        factors = tuple(
            (number, d)
            for number, one in enumerate(problem.classes)
            for d, extent in enumerate(problem.extents)
            if min(extent, most_siblings(problem, one, d)) > 1
        )
        dims = tuple(d for d, extent in enumerate(problem.extents) if extent > 1)
        self.variables = Variables(nodes, dims, factors)
        self.room = capacities(problem)

    def row(self, monomial: Monomial, at: int, level: int) -> FloatArray:
        """Return the exponents of a monomial of node `at` (-1: of none) in a level."""
        rows = [
            [f - (t if one.below <= level else 0) for t, f in zip(monomial.tile, own, strict=True)]
            for one, own in zip(self.problem.classes, monomial.factors, strict=True)
        ]
        found = self.variables.factor_row(rows)
        if at >= 0:
            found[self.variables.node(at)] = [monomial.tile[d] for d in self.variables.dims]
        return found

    def costs(self, order: Order, state: State) -> tuple[Sums, float] | None:
        """Return the terms of an order's cost, and a constant; None where it is not a sum of monomials."""
        found: Sums = []
        constant = 0.0
        for at, (tensor, number) in enumerate(order):
            edge = self.graphs[tensor].edges[number]
            term = self.problem.terms[tensor]
            cost = self.monomials.node_cost(term, edge.parent, edge.levels)
            if cost is None:
                return None
            found += [(m.coefficient, self.row(m, at, edge.level)) for m in cost[0] if m.coefficient]
            constant += cost[1]
        for tensor, at_end in enumerate(state):
            m = self.monomials.compute_cost(self.problem.terms[tensor], self.graphs[tensor].levels[at_end])
            found += [(m.coefficient, self.row(m, -1, 0))] if m.coefficient else []
        return found, constant

    def uses(self, order: Order, level: int) -> Sums:
        """Return the bits held by the nodes of a limited level, as a share of its room."""
        found: Sums = []
        for at, (tensor, number) in enumerate(order):
            edge, term = self.graphs[tensor].edges[number], self.problem.terms[tensor]
            if edge.level == level:
                share = term.tensor.bits / self.room[level]
                held = self.monomials.footprint(term, share)
                found.append((held.coefficient, self.row(held, at, level)))
        return found
