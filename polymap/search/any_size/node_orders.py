"""Every order of storage nodes, with its cost and sizes as sums of monomials on arrays.

How windows may be at the node of their tensor, case by case: in each case costs are sums of monomials.

Cases are told apart by the node's tiles along the short dims (r of p + r), by which of several windows slides, and by
whether it slides inside a visit of an outer node. The last: let c be a dim that the window's tensor has and the tensor
of an outer node lacks. Where the window's tile, as large as it actually is, has less of c than the outer node's, every
visit of that node has two tiles of c or more, so nothing that a visit ends with serves the beginning of the next: each
visit loads all different elements of its own box, and a load serves no more pairs than that box has per element. Else
both tiles have the same of c.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, inf, log, prod

import numpy as np

from polymap.poly import FloatArray
from polymap.search.any_size.monomials import Monomial, NodeMonomials, WindowChoice, WindowChoices
from polymap.search.problem import Component, FanoutClass, HolderGraph, Problem, holder_graph, zero_starts

State = tuple[int, ...]  # per tensor the number of its state
Order = tuple[tuple[int, int], ...]  # (tensor, edge) of the storage nodes, outermost first
CompleteOrder = tuple[Order, State]  # and the joint state at its end
Demand = tuple[int, int, int, int]  # number of a node, dim, the fewest and most indices of its tile
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
    nodes: per order the (tensor, level) of its nodes. start: a constant of every chain. demands: per order (node, dim,
    least, most) of tiles, for which its programs hold; all orders together cover all mappings.
    """

    demands: tuple[tuple[Demand, ...], ...]
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

    None where there are more than `most`, a window without placements, or a cost that is not a sum of monomials.
    """
    graphs = tuple(holder_graph(term, problem.level_count) for term in problem.terms)
    orders = storage_orders(graphs, most)
    if orders is None:
        return None
    placed = window_placements(problem, orders)
    if placed is None or not placed or len(placed) > most:
        return None
    complete_orders = tuple(one for one, _ in placed)
    builder = _MonomialBuilder(problem, component, graphs, max((len(order) for order, _ in complete_orders), default=0))
    costs = [builder.costs(*one, windows) for one, windows in placed]
    sums = [one for one in costs if one is not None]
    if len(sums) < len(complete_orders):
        return None
    limited = tuple(level for level, room in enumerate(builder.room) if 0 < room < inf)
    held = [[builder.uses(order, level, windows) for level in limited] for (order, _), windows in placed]
    log_costs, rows = _term_arrays([one for one, _ in sums], builder.variables.count)
    flat = [one for row in held for one in row]
    log_uses, uses = _term_arrays(flat, builder.variables.count)
    shape = (len(complete_orders), len(limited), log_uses.shape[1])
    return OrderMonomials(
        tuple(windows.demands for _, windows in placed),
        complete_orders,
        builder.variables,
        log_costs,
        rows,
        np.array([constant for _, constant in sums]),
        log_uses.reshape(shape),
        uses.reshape((*shape, builder.variables.count)),
        builder.room,
        tuple(
            tuple((tensor, graphs[tensor].edges[edge].level) for tensor, edge in order) for order, _ in complete_orders
        ),
        -float(sum(zero_starts(term) * component.read[0][term.index] for term in problem.terms)),
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


@dataclass(frozen=True, slots=True)
class Placement:
    """One case of the windows at their node.

    choices: of the windows (none: no node). demands: of tiles, for which the case holds. within: the number of the
    outer node inside whose visits the window slides; None where it may slide on. alike: two nodes (numbers) and a dim
    along which their tiles are equal; None for none.
    """

    choices: WindowChoices
    demands: tuple[Demand, ...]
    within: int | None = None
    alike: tuple[int, int, int] | None = None


NO_WINDOW = Placement((), ())


def window_placements(
    problem: Problem, orders: Sequence[tuple[Order, tuple[int, ...]]]
) -> list[tuple[tuple[Order, tuple[int, ...]], Placement]] | None:
    """Return every order with each of its placements of windows; together they cover all mappings.

    None where there are windows and fan-outs, several levels that may hold a window, or windows of other forms.
    """
    windows = [t for t, term in enumerate(problem.terms) if term.is_window]
    if not windows:
        return [(one, NO_WINDOW) for one in orders]
    choices = _window_choices(problem, windows)
    if choices is None:
        return None
    return [(one, placement) for one in orders for placement in _placements(problem, one[0], windows[0], choices)]


def _placements(problem: Problem, order: Order, tensor: int, choices: tuple[WindowChoices, ...]) -> Iterator[Placement]:
    own = next((at for at, (one, _) in enumerate(order) if one == tensor), None)
    if own is None:
        yield NO_WINDOW
        return
    outer, dim = _outer_node(problem, order[:own], tensor)
    for one in choices:
        tiles = tuple((own, choice.short, choice.least, choice.most) for choice in one)
        if outer is None or dim is None:
            yield Placement(one, tiles)
            continue
        extent = problem.extents[dim]
        free = tuple(WindowChoice(c.long, c.short, c.stride, c.least, c.most, c.slides, 1) for c in one)
        yield Placement(free, (*tiles, (outer, dim, 2, extent), (own, dim, 1, extent - 1)), within=outer)
        yield Placement(one, tiles, alike=(outer, own, dim))


def _outer_node(problem: Problem, before: Order, tensor: int) -> tuple[int | None, int | None]:
    """Return the last node before the window's whose tensor lacks a dim that the window's tensor has, and that dim.

    The dim has several indices and is outside of windows.
    """
    window = problem.terms[tensor]
    plain = [group.dims[0] for group in window.groups if not group.is_window]
    for at, (other, _) in reversed(list(enumerate(before))):
        for name in plain:
            dim = problem.dims.index(name)
            if name not in problem.terms[other].dims and problem.extents[dim] > 1:
                return at, dim
    return None, None


def _window_choices(problem: Problem, windows: Sequence[int]) -> tuple[WindowChoices, ...] | None:
    if problem.classes or problem.level_count > 2 or len(windows) > 1:
        return None
    each: list[list[tuple[int, int, int, int, int, int]]] = []
    for group in (group for group in problem.terms[windows[0]].groups if group.is_window):
        if len(group.dims) != 2 or abs(group.coefficients[1]) != 1:
            return None
        first, second = (problem.dims.index(dim) for dim in group.dims)
        whole, stride = problem.extents[second], abs(group.coefficients[0])
        diagonal = min(ceil(whole / stride), problem.extents[first])
        ends = sorted({(1, max(1, whole - 1)), (whole, whole)})
        each.append([(first, second, stride, *pair, diagonal) for pair in ends])
    found: list[WindowChoices] = []
    for tiles in product(*each):
        for sliding in range(len(tiles)):
            cases = enumerate(tiles)
            found.append(tuple(WindowChoice(*t[:5], slides=n == sliding, diagonal=t[5]) for n, t in cases))
    return tuple(found)


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

    def costs(self, order: Order, state: State, windows: Placement) -> tuple[Sums, float] | None:
        """Return the terms of an order's cost, and a constant; None where it is not a sum of monomials."""
        found: Sums = []
        constant = 0.0
        for at, (tensor, number) in enumerate(order):
            edge = self.graphs[tensor].edges[number]
            term = self.problem.terms[tensor]
            cost = self.monomials.node_cost(term, edge.parent, edge.levels, windows.choices if term.is_window else ())
            if cost is None:
                return None
            own = [(m.coefficient, self.row(m, at, edge.level)) for m in cost[0] if m.coefficient]
            found += self._within(own, windows) if term.is_window else own
            constant += cost[1]
        for tensor, at_end in enumerate(state):
            m = self.monomials.compute_cost(self.problem.terms[tensor], self.graphs[tensor].levels[at_end])
            found += [(m.coefficient, self.row(m, -1, 0))] if m.coefficient else []
        return self._alike(found, windows), constant

    def _within(self, loads: Sums, windows: Placement) -> Sums:
        """Return loads divided by what one serves while a window slides inside the box of an outer node (Placement)."""
        if windows.within is None:
            return loads
        sliding = next(one for one in windows.choices if one.slides)
        extent = self.problem.extents[sliding.short]
        step = min(sliding.stride, extent)
        found: Sums = [(coefficient * step / extent, row) for coefficient, row in loads]
        if sliding.long not in self.variables.dims:  # one index: the window is no longer than its short dim
            return [
                (coefficient * (1 - step / extent) + coefficient * step / extent, row) for coefficient, row in loads
            ]
        place = self.variables.node(windows.within).start + self.variables.dims.index(sliding.long)
        for coefficient, row in loads if extent > step else ():
            inside = row.copy()
            inside[place] -= 1
            found.append((coefficient * (1 - step / extent), inside))
        return found

    def uses(self, order: Order, level: int, windows: Placement) -> Sums:
        """Return the bits held by the nodes of a limited level, as a share of its room."""
        found: Sums = []
        for at, (tensor, number) in enumerate(order):
            edge, term = self.graphs[tensor].edges[number], self.problem.terms[tensor]
            if edge.level == level:
                share = term.tensor.bits / self.room[level]
                held = self.monomials.footprint(term, share, windows.choices if term.is_window else ())
                found += [(m.coefficient, self.row(m, at, level)) for m in held]
        return self._alike(found, windows)

    def _alike(self, terms: Sums, windows: Placement) -> Sums:
        """Return the terms with one variable for a dim along which two nodes' tiles are equal (Placement)."""
        if windows.alike is None or windows.alike[2] not in self.variables.dims:
            return terms
        outer, own, dim = windows.alike
        place = self.variables.dims.index(dim)
        found: Sums = []
        for coefficient, row in terms:
            joined = row.copy()
            for at in range(outer + 1, own + 1):
                joined[self.variables.node(outer).start + place] += row[self.variables.node(at).start + place]
                joined[self.variables.node(at).start + place] = 0
            found.append((coefficient, joined))
        return found
