"""The least costs inside where every node of the window tensor knows the tile of the node before it in the chain.

Loops pass through the tile of every node. The tables of bounds.py charge a node of the window tensor with the loads of
the best order of all loops above it, whatever nodes stand there; the last of these nodes has most to say about that
order. Here the node's loads are those of loops that pass through the last node's tile M, so its cost is a function of
the pair (M, T) of tiles. Only the loads that M adds to the tables' own are worked out: both are lower bounds.

An array over pairs has an axis per axis of the lattice, with an entry per pair of exponents there; entries that do not
depend on a pair's exponents on some axis have length 1 along it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from polymap.poly import Kind, Numbers
from polymap.resources import OutOfTime
from polymap.search.dividing.bounds import Inside, Multipliers, State, graph_of, priced_final
from polymap.search.dividing.cost_tables import LoadWeight, Tables, load_weights
from polymap.search.dividing.tuning import TUNING
from polymap.search.dividing.window_paths import window_counts
from polymap.search.problem import IntArray, Lattice, TensorTerm, divisors, minimum_below

MarkedCosts = dict[State, Numbers]  # over the lattice, per joint state


def pair_count(lattice: Lattice) -> int:
    """Return the number of pairs of tiles one of which divides the other."""
    return prod(length * (length + 1) // 2 for length in lattice.shape)


@dataclass(frozen=True, slots=True, eq=False)
class TilePairs:
    """The pairs (M, T) of a lattice with T | M: per axis the exponents of M and of T, and where each of M's begin."""

    lattice: Lattice
    outer: tuple[IntArray, ...]
    inner: tuple[IntArray, ...]
    first: tuple[IntArray, ...]

    def at_outer(self, table: Numbers) -> Numbers:
        """Return the entries of a table over the lattice at the outer tile of every pair."""
        return _take_places(table, self.outer)

    def at_inner(self, table: Numbers) -> Numbers:
        """Return the entries of a table over the lattice at the inner tile of every pair."""
        return _take_places(table, self.inner)

    def least(self, found: Numbers) -> Numbers:
        """Return, at every tile of the lattice, the least entry of an array over pairs whose outer tile it is."""
        for axis in reversed(range(found.ndim)):
            found = np.minimum.reduceat(found, self.first[axis], axis=axis)
        return found


def _take_places(table: Numbers, places: tuple[IntArray, ...]) -> Numbers:
    for axis, own in enumerate(places):
        if table.shape[axis] > 1:
            table = table.take(own, axis=axis)
    return table


def tile_pairs(lattice: Lattice) -> TilePairs:
    """Return the pairs of tiles of a lattice."""
    outer, inner, first = list[IntArray](), list[IntArray](), list[IntArray]()
    for length in lattice.shape:
        big, small = np.tril_indices(length)
        outer.append(big)
        inner.append(small)
        first.append(np.arange(length) * (np.arange(length) + 1) // 2)
    return TilePairs(lattice, tuple(outer), tuple(inner), tuple(first))


def nodes_before_marks(tables: Tables) -> int | None:
    """Return how many nodes of a search take as long as the costs below marks (None: these are not worked out, but for
    one linear value in 63 bits of what is read through windows)."""
    is_linear, narrow = tables.measure.is_linear, tables.arithmetics[0].kind is Kind.NARROW
    pairs = pair_count(tables.lattice)
    if not is_linear or not narrow or pairs > TUNING.most_pairs or not any(t.is_window for t in tables.problem.terms):
        return None
    return pairs // TUNING.pairs_per_node


def costs_below_marks(tables: Tables, inside: Inside, multipliers: Multipliers) -> MarkedCosts:
    """Return, per joint state of the tables, the least costs inside below a node at every tile, priced. inside: those
    by the tables alone, at these multipliers. Raises OutOfTime."""
    arithmetic, shape, graph = tables.arithmetics[0], tables.lattice.shape, graph_of(tables)
    term = next(term for term in tables.problem.terms if term.is_window)
    pairs, added = tile_pairs(tables.lattice), dict[int, Numbers]()
    is_long = pair_count(tables.lattice) > TUNING.long_table
    reach: MarkedCosts = {}
    for layer in graph.layers:
        for state in layer:
            if is_long and tables.stop():
                raise OutOfTime
            end = priced_final(tables, state, 0, multipliers)
            here: Numbers = np.full((1, *shape), arithmetic.never if end is None else end, dtype=arithmetic.dtype)
            least = here[0, ...]  # a view also where every loop is spatial and the lattice has no axis
            windows = [move for move in graph.moves[state] if move.tensor == term.index]
            for move in graph.moves[state]:
                if move not in windows:
                    np.minimum(least, arithmetic.plus(inside.costs[move.key], reach[move.after]), out=least)
            minimum_below(here)
            for move in windows:
                if move.edge not in added:
                    added[move.edge] = added_costs(tables, pairs, term, move.edge, multipliers.unit)
                placed = np.broadcast_to(arithmetic.plus(inside.costs[move.key], reach[move.after]), shape)
                through = pairs.least(arithmetic.plus(pairs.at_inner(placed), added[move.edge]))
                np.minimum(least, through, out=least)
            arithmetic.clip(least)
            reach[state] = least
    return reach


def added_costs(tables: Tables, pairs: TilePairs, term: TensorTerm, edge: int, unit: int) -> IntArray:
    """Return what the window tensor's node costs more than the tables say, x unit, per pair of the tile of the node
    before it and its own."""
    arithmetic, total = tables.arithmetics[0], np.zeros((1,) * len(tables.lattice.shape), dtype=np.int64)
    for weight in load_weights(tables, term, tables.tensors[term.index].edges[edge]):
        more = _added_loads(tables, pairs, term, weight)
        total = arithmetic.where(more >= 0, arithmetic.plus(total, pairs.at_inner(weight.cost) * more * unit))
    return total


def _added_loads(tables: Tables, pairs: TilePairs, term: TensorTerm, weight: LoadWeight) -> IntArray:
    """Return the loads, per element of the plain axes' tile, that loops through the outer tile of a pair make more than
    the tables say; -1 where no loops pass through it."""
    lattice, model, counts = tables.lattice, weight.model, window_counts(tables.caches)
    windows = list(term.window_dims)
    other = [dim for dim in tables.problem.dims if dim not in term.dims]
    plain = [dim for dim in tables.problem.dims if dim in term.dims and dim not in windows]
    where = counts.tile_index(lattice, model.pairs.lattice)
    pair = model.pairs.at[pairs.at_outer(where), pairs.at_inner(where)]
    repeats, trips = _trips(pairs, other), _trips(pairs, plain)
    outside_other, outside_plain = _trips_outside(lattice, other), _trips_outside(lattice, plain)
    outside = pairs.at_outer(_trips_outside(lattice, windows) * outside_other * outside_plain)
    loads = (model.loads[pair] + (repeats - 1) * model.again[pair]) * trips * outside
    whole = prod(dict(lattice.extents)[dim] for dim in other)
    left = pairs.at_outer(np.searchsorted(divisors(whole), outside_other))
    saved = counts.most_saved_outside(model, whole)[left, pair] * pairs.at_outer(outside_plain)
    more = loads - np.where(trips == 1, saved, 0) - pairs.at_inner(weight.loads)
    return np.where(model.reached[pair], np.maximum(more, 0), -1)


def _trips(pairs: TilePairs, dims: list[str]) -> IntArray:
    """Return the iterations of loops over some dims between the tiles of every pair."""
    found: IntArray = np.ones((1,) * len(pairs.lattice.shape), dtype=np.int64)
    for dim in dims:
        tiles = pairs.lattice.values[dim]
        found = found * (pairs.at_outer(tiles) // pairs.at_inner(tiles))
    return found


def _trips_outside(lattice: Lattice, dims: list[str]) -> IntArray:
    """Return the iterations of loops over some dims outside every tile."""
    found: IntArray = np.ones((1,) * len(lattice.shape), dtype=np.int64)
    for dim in dims:
        found = found * (dict(lattice.extents)[dim] // lattice.values[dim])
    return found
