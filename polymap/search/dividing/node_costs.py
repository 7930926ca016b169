"""Cost tables of one structure: what each storage node would add, as a function of its temporal tile.

Per tensor a small graph of states (the level that holds it now, and for a shared output the levels still to come);
an edge places one node. An edge's costs are arrays over the lattice, one per component of the objective, all integers.
The formulas are those of docs/closed_form.md for tiles that divide, with nodes raised over loops that do not change
their tile; for tensors read through windows they are lower bounds (windows.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from polymap.arithmetic import INT64, Arithmetic, Kind, Numbers, arithmetic_for, count_type
from polymap.search.dividing.loads import NodeLoads, Setting, node_loads, window_index
from polymap.search.dividing.spread import Context, Spread
from polymap.search.dividing.windows import Crossing, least_messages, least_size
from polymap.search.objective import Measure
from polymap.search.problem import (
    Component,
    IntArray,
    Intrinsic,
    Lattice,
    Problem,
    Structure,
    TensorTerm,
    lattice_below,
    most_costed,
    most_counted,
    restricted,
    standing_tiles,
)
from polymap.search.resources import never


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """One storage node of a tensor: from state `source` to state `target`, held by `level`, loaded from `parent`.

    costs: per component. costs_crossed: the same where the node may stand below spatial loops of fan-outs below its
    level (None: no different). bits: held by one instance (fewest).
    """

    source: int
    target: int
    parent: int
    level: int
    costs: tuple[Numbers, ...]
    costs_crossed: tuple[Numbers, ...] | None
    bits: IntArray
    bits_crossed: IntArray | None


@dataclass(frozen=True, slots=True, eq=False)
class TensorTable:
    """States of one tensor (0 the first; holders[state] its level), edges, and per state and component what the
    statement instances read and write there (None: the tensor may not stay there)."""

    term: TensorTerm
    holders: tuple[int, ...]
    edges: tuple[Edge, ...]
    final: tuple[tuple[int, ...] | None, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """Everything that the bound of one structure needs. start: cost present before any node, per component;
    arithmetics: how each component's costs are kept; stop: tells long steps whether a limit is reached."""

    problem: Problem
    structure: Structure
    measure: Measure
    context: Context
    lattice: Lattice
    tensors: tuple[TensorTable, ...]
    start: tuple[int, ...]
    compute_cycles: int
    arithmetics: tuple[Arithmetic, ...]
    stop: Callable[[], bool]


def build_tables(
    problem: Problem, structure: Structure, measure: Measure, context: Context, stop: Callable[[], bool] = never
) -> Tables:
    """Return the tables of a structure below the last tile of the context."""
    whole = tuple(zip(problem.dims, context.tiles[0], strict=True))
    lattice = lattice_below(tuple(zip(problem.dims, context.tiles[-1], strict=True)))
    spread = Spread(problem, structure, context.places)
    steps = prod(extent for _, extent in whole)
    counts = count_type(most_counted(problem.workload))
    arithmetics = tuple(arithmetic_of(problem, component) for component in measure.components)
    setting = Setting(problem, measure, lattice, spread, context, dict(whole), steps, counts, arithmetics)
    tensors = tuple(tensor_table(setting, term) for term in problem.terms)
    start = tuple(sum(zero_start(term, component) for term in problem.terms) for component in measure.components)
    cycles = -(-steps // problem.arch.compute.per_cycle)
    return Tables(problem, structure, measure, context, lattice, tensors, start, cycles, arithmetics, stop)


def arithmetic_of(problem: Problem, component: Component) -> Arithmetic:
    """Return the arithmetic in which a component's costs, summed over any chain, are exact."""
    found = arithmetic_for(most_costed(problem.workload, problem.arch, component))
    counts = count_type(most_counted(problem.workload))
    return found if counts == INT64 else Arithmetic(Kind.LONG, found.limit)


def tables_below(tables: Tables, context: Context) -> Tables:
    """Return the tables below the last tile of a context that goes on from that of `tables`.

    What a node costs depends on the chain above it only for a tensor that is read through windows.
    """
    dims = tables.problem.dims
    lattice = lattice_below(tuple(zip(dims, context.tiles[-1], strict=True)))
    spread = Spread(tables.problem, tables.structure, context.places)
    whole = dict(zip(dims, context.tiles[0], strict=True))
    steps, counts = prod(whole.values()), count_type(most_counted(tables.problem.workload))
    setting = Setting(
        tables.problem, tables.measure, lattice, spread, context, whole, steps, counts, tables.arithmetics
    )
    found = tuple(
        tensor_table(setting, table.term) if table.term.is_window else _table_below(table, tables.lattice, lattice)
        for table in tables.tensors
    )
    return replace(tables, context=context, lattice=lattice, tensors=found)


def _table_below(table: TensorTable, outer: Lattice, inner: Lattice) -> TensorTable:
    """Return the table for the tiles of a lattice inside its own."""

    def below(array: Numbers) -> Numbers:
        return restricted(array, outer, inner)

    edges = tuple(
        replace(
            edge,
            costs=tuple(below(cost) for cost in edge.costs),
            costs_crossed=None if edge.costs_crossed is None else tuple(below(cost) for cost in edge.costs_crossed),
            bits=below(edge.bits),
            bits_crossed=None if edge.bits_crossed is None else below(edge.bits_crossed),
        )
        for edge in table.edges
    )
    return replace(table, edges=edges)


def zero_start(term: TensorTerm, component: Component) -> int:
    """Return the credit for first updates at the outermost level, where the copy is still zero."""
    return -zero_starts(term) * component.read[0][term.index] if term.is_output else 0


def zero_starts(term: TensorTerm) -> int:
    """Return how many elements of an output start from zero."""
    return 0 if term.tensor.initial or not term.is_output else prod(term.tensor.shape)


def tensor_table(setting: Setting, term: TensorTerm) -> TensorTable:
    """Return the table of one tensor."""
    if term.is_output:
        return _output_table(setting, term)
    levels = range(setting.problem.level_count)
    edges: list[Edge] = []
    for level in levels:
        parents = [p for p in levels if p < level and level in term.may_hold and not skips_level(term, p, level)]
        if parents:
            edges.extend(_read_edges(setting, term, parents, level))
    final: list[tuple[int, ...] | None] = []
    for holder in levels:
        legal = not skips_level(term, holder, len(levels))
        final.append(_read_final(setting, term, holder) if legal else None)
    return TensorTable(term, tuple(levels), tuple(edges), tuple(final))


def skips_level(term: TensorTerm, after: int, upto: int) -> bool:
    """Return whether a tensor must be held by a level between two."""
    return any(after < level < upto for level in term.must_hold)


def _read_edges(setting: Setting, term: TensorTerm, parents: list[int], level: int) -> list[Edge]:
    spread, last = setting.spread, setting.problem.level_count
    windows = [dim for g in term.groups if g.is_window for dim in g.dims]
    free = any(spread.factor(dim, level, last) > 1 for dim in windows)
    found: list[Edge] = []
    for parent in parents:
        messages = _messages(setting, term, parent, level)
        plain = node_loads(setting, term, parent, level, above=False)
        costs = _read_costs(setting, term, parent, level, messages, plain)
        other, apart = None, None
        if free:
            crossed = node_loads(setting, term, parent, level, above=True)
            other = _read_costs(setting, term, parent, level, messages, crossed)
            apart = crossed.held * term.tensor.bits
        bits = plain.held * term.tensor.bits, apart
        found.append(_edge(setting, term, (parent, level), (parent, level), (costs, other), bits))
    return found


def _standing(
    setting: Setting, term: TensorTerm, level: int, costs: tuple[Numbers, ...], *, above: bool
) -> tuple[Numbers, ...]:
    """Return the costs, none where the node cannot stand.

    Spatial loops over fan-outs above its level are outside its tile, along its own dims: along others the node is
    charged as if it stood above loops that do not change its tile, which may be outside. For a window tensor those
    below its level are inside its tile (or, with `above`, outside).
    """
    ok = np.ones((1,) * len(setting.lattice.shape), dtype=bool)
    for (below, dim), place in setting.context.places:
        tile = setting.lattice.values[dim]
        if dim in term.dims and below <= level:
            ok = ok & (place % tile == 0)
        elif dim in term.dims and term.is_window:
            ok = ok & (place % tile == 0 if above else tile % place == 0)
    if setting.problem.rules:
        ok = ok & _demanded(setting, level)
    return costs if ok.all() else _only(setting, ok, costs)


def _only(setting: Setting, ok: NDArray[np.bool_], costs: tuple[Numbers, ...]) -> tuple[Numbers, ...]:
    """Return the costs, elsewhere what cannot be."""
    return tuple(arithmetic.where(ok, cost) for arithmetic, cost in zip(setting.arithmetics, costs, strict=True))


def _demanded(setting: Setting, level: int) -> NDArray[np.bool_]:
    """Return where the rules let a node of a level stand."""
    problem, lattice = setting.problem, setting.lattice
    whole = dict(zip(problem.dims, setting.context.tiles[0], strict=True))
    ok = np.ones((1,) * len(lattice.shape), dtype=np.bool_)
    for rule in problem.rules:
        if isinstance(rule, Intrinsic):
            covered = lattice.values[rule.dim] * setting.spread.factor(rule.dim, level, problem.level_count)
            ok = ok & (covered % rule.size == 0)
    standing = standing_tiles(problem.rules, lattice, whole)
    return ok if standing is None else ok & standing


def _edge(
    setting: Setting,
    term: TensorTerm,
    states: tuple[int, int],
    levels: tuple[int, int],
    costs: tuple[tuple[Numbers, ...], tuple[Numbers, ...] | None],
    bits: tuple[IntArray, IntArray | None],
) -> Edge:
    """Return the edge with its costs below free spatial loops and, crossed, at the cheaper of both sides of them."""
    plain = _standing(setting, term, levels[1], costs[0], above=False)
    pending = _pending(setting, levels[1])
    if costs[1] is None or bits[1] is None:
        if pending is None:
            return Edge(*states, *levels, plain, None, bits[0], None)
        return Edge(*states, *levels, _only(setting, pending, plain), plain, bits[0], bits[0])
    inside = _standing(setting, term, levels[1], costs[1], above=True)
    if sum(below > levels[1] for below in setting.spread.groups()) == 1:
        return Edge(*states, *levels, plain, inside, bits[0], bits[1])  # the only such loops stand above the node
    crossed = tuple(np.minimum(a, b) for a, b in zip(plain, inside, strict=True))
    stands = setting.arithmetics[0].possible(plain[0]), setting.arithmetics[0].possible(inside[0])
    least = np.where(stands[0], np.where(stands[1], np.minimum(bits[0], bits[1]), bits[0]), bits[1])
    return Edge(*states, *levels, plain, crossed, bits[0], least)


def _pending(setting: Setting, level: int) -> NDArray[np.bool_] | None:
    """Return where a node may stand before all spatial loops over fan-outs below its level (None: everywhere).

    They stand right above the first node of the levels below them, so their places are inside its tile.
    """
    ok = np.ones((1,) * len(setting.lattice.shape), dtype=np.bool_)
    for (below, dim), place in setting.context.places:
        if below > level:
            ok = ok & (setting.lattice.values[dim] % place == 0)
    return None if ok.all() else ok


def _messages(setting: Setting, term: TensorTerm, parent: int, level: int) -> IntArray:
    """Return the messages per load at every tile (at least; exact where all places are decided)."""
    total: IntArray = np.full((1,) * len(setting.lattice.shape), 1, dtype=setting.counts)
    total = total * setting.spread.shared_messages(term, parent, level)
    for group in term.groups:
        if group.is_window and any(setting.spread.factor(d, parent, level) > 1 for d in group.dims):
            inner = lattice_below(tuple((dim, dict(setting.lattice.extents)[dim]) for dim in group.dims))
            extents = tuple(setting.whole[dim] for dim in group.dims)
            crossings = tuple(setting.spread.crossings(dim, parent, level, above=True) for dim in group.dims)
            known = _messages_at(group.coefficients, extents, inner.extents, crossings)
            total = total * known[window_index(setting.lattice, inner)]
    return total


@lru_cache(maxsize=4096)
def _messages_at(
    coefficients: tuple[int, ...],
    extents: tuple[int, ...],
    inner: tuple[tuple[str, int], ...],
    crossings: tuple[tuple[Crossing, ...], ...],
) -> IntArray:
    """Return the messages along a group at every tile of the lattice below `inner`, in its order."""
    lattice = lattice_below(inner)
    points = [tuple(lattice.point(index).values()) for index in np.ndindex(lattice.shape)]
    return np.array([least_messages(coefficients, extents, point, crossings) for point in points], dtype=np.int64)


def _read_costs(
    setting: Setting, term: TensorTerm, parent: int, level: int, messages: IntArray, loads: NodeLoads
) -> tuple[Numbers, ...]:
    found: list[Numbers] = []
    reads = loads.reads * messages
    for component, arithmetic in zip(setting.measure.components, setting.arithmetics, strict=True):
        written, read = component.write[level][term.index], component.read[parent][term.index]
        if not component.busiest:
            written *= setting.spread.instances(level)
            read *= setting.spread.instances(parent)
        terms = [(loads.fills, written), (reads, read)]
        if component.held:
            terms.append((loads.held, component.held[level][term.index]))
        cost = arithmetic.sum_of(terms)
        found.append(cost if loads.stands is None else arithmetic.where(loads.stands, cost))
    return tuple(found)


def _read_final(setting: Setting, term: TensorTerm, holder: int) -> tuple[int, ...]:
    spread, last = setting.spread, setting.problem.level_count
    messages = spread.shared_messages(term, holder, last)
    for group in term.groups:
        if group.is_window:
            extents = tuple(setting.whole[dim] for dim in group.dims)
            crossings = tuple(spread.crossings(dim, holder, last, above=True) for dim in group.dims)
            messages *= least_messages(group.coefficients, extents, (1,) * len(group.dims), crossings)
            messages *= least_size(group.coefficients, extents, crossings)
    found: list[int] = []
    for component in setting.measure.components:
        read = component.read[holder][term.index] * messages * setting.steps
        found.append(read if component.busiest else read * spread.instances(holder))
    return tuple(found)


def _output_table(setting: Setting, term: TensorTerm) -> TensorTable:
    """States of an output are (holder, levels still to come): what siblings elide is credited to the levels inside."""
    plans = output_plans(term, setting.problem.level_count)
    states = tuple(sorted(plans))
    edges: list[Edge] = []
    for source, (holder, rest) in enumerate(states):
        if rest:
            target = states.index((rest[0], rest[1:]))
            edges.append(_output_edge(setting, term, source, target, holder, rest))
    final = tuple(None if rest else _output_final(setting, term, holder) for holder, rest in states)
    return TensorTable(term, tuple(holder for holder, _ in states), tuple(edges), final)


def output_plans(term: TensorTerm, levels: int) -> set[tuple[int, tuple[int, ...]]]:
    """Return every (holder, levels still to come) of an output."""
    found: set[tuple[int, tuple[int, ...]]] = set()
    optional = sorted(term.may_hold)
    for count in range(len(optional) + 1):
        for chosen in combinations(optional, count):
            if term.must_hold <= set(chosen):
                chain = (0, *chosen)
                found.update((chain[i], chain[i + 1 :]) for i in range(len(chain)))
    return found


def _output_edge(
    setting: Setting, term: TensorTerm, source: int, target: int, parent: int, rest: tuple[int, ...]
) -> Edge:
    spread, level = setting.spread, rest[0]
    node = node_loads(setting, term, parent, level, above=False)
    stays, size = node.fills, node.held
    shared, apart, relevant = _siblings(spread, term, parent, level)
    zero = zero_starts(term)
    costs: list[Numbers] = []
    for component, arithmetic in zip(setting.measure.components, setting.arithmetics, strict=True):
        both = [r[term.index] + w[term.index] for r, w in zip(component.read, component.write, strict=True)]
        if component.busiest:
            inside = prod(spread.factor(dim, -1, level) for dim in sorted(term.dims))
            terms, credit = [(stays, both[level] + relevant * apart * both[parent])], both[level] * (zero // inside)
        else:
            total = stays * spread.instances(level)
            elided = sum(both[inner] for inner in rest)  # by all siblings that share an element, but one
            terms = [(total, both[level] - elided), (total // shared, apart * both[parent] + elided)]
            credit = zero * both[level]
        if component.held:
            terms.append((size, component.held[level][term.index]))
        costs.append(arithmetic.plus(arithmetic.sum_of(terms), -credit))
    return _edge(
        setting, term, (source, target), (parent, level), (tuple(costs), None), (size * term.tensor.bits, None)
    )


def _output_final(setting: Setting, term: TensorTerm, holder: int) -> tuple[int, ...]:
    last = setting.problem.level_count
    _, apart, relevant = _siblings(setting.spread, term, holder, last)
    arrivals = setting.steps * relevant * apart
    found: list[int] = []
    for component in setting.measure.components:
        both = component.read[holder][term.index] + component.write[holder][term.index]
        found.append(both * arrivals * (1 if component.busiest else setting.spread.instances(holder)))
    return tuple(found)


def _siblings(spread: Spread, term: TensorTerm, parent: int, level: int) -> tuple[int, int, int]:
    """Return, between two levels: siblings that share an element, those of them that do not add on the way, and
    siblings that hold different elements."""
    dims = spread.problem.dims
    shared, apart, relevant = 1, 1, 1
    for one, row in zip(spread.problem.classes, spread.structure.classes, strict=True):
        if parent < one.below <= level:
            same = prod(row[d] for d, dim in enumerate(dims) if dim not in term.dims)
            shared *= same
            apart *= 1 if one.reduction else same
            relevant *= prod(row[d] for d, dim in enumerate(dims) if dim in term.dims)
    return shared, apart, relevant
