"""Plans (which levels hold each tensor), the orders of their nodes, and the tiles that an order leaves to choose.

A product is an accumulation in which every tensor lacks at most one dim and every dim is lacked by at most one tensor.
A node of X is then filled n / t times over, with t the tile of the dim that X lacks, and room is taken by the others.
Along a chain of nodes tiles only shrink. A dim that X lacks is therefore best cut as soon as a node that has it stands
below the last node of X, once per node of X that is to come, and down to 1 where none is: those cuts are all that an
order leaves to choose. Where a rule asks that some indices of a dim are left at a node, the dim is not cut to 1 above
it, nor at all where it asks for all of them, and may be cut anew below. Nodes of a tensor without dims stand outermost:
there they are filled once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from polymap.search.problem import IntArray

WHOLE, ONE = -1, -2  # a tile that is not cut yet, and one of size 1
SOME, ALL, NOT_ALL = range(3)
SCALAR = -1  # what a tensor of one element lacks: all dims


@dataclass(frozen=True, slots=True)
class TileCut:
    """A tile to choose: of a dim; inside the tile of an earlier cut of the same dim (WHOLE: of none)."""

    dim: int
    within: int


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a plan: the dim that its tensor lacks (SCALAR: all), its level, and the dims of which some indices, or
    all, are left there, and not all."""

    lacks: int | None
    level: int
    some: frozenset[int]
    whole: frozenset[int]
    cut: frozenset[int]


@dataclass(frozen=True, slots=True)
class Order:
    """A chain of a plan's nodes, outermost first; nodes are numbered tensor by tensor, outermost first in each.

    tiles: [place][dim], the number of the cut that the tile is, WHOLE or ONE. nested: pairs of cuts (outer, inner) of
    which the inner one divides the outer. visited: per cut, the nodes that are visited extent / tile times. rooms: per
    level of limited room, the nodes there, each with the cuts that its tile has. crowds: per cut, the levels of limited
    room where nodes have it, with these nodes.
    """

    nodes: tuple[int, ...]
    cuts: tuple[TileCut, ...]
    tiles: tuple[tuple[int, ...], ...]
    nested: tuple[tuple[int, int], ...]
    visited: tuple[tuple[int, ...], ...]
    rooms: tuple[tuple[int, tuple[tuple[int, tuple[int, ...]], ...]], ...]
    crowds: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A choice of levels.

    lacks: the dim that each tensor lacks (SCALAR: all); chains: the levels that hold it; limited: levels of limited
    room; dims: how many there are; left: (tensor, level, dim, SOME, ALL or NOT_ALL) of the indices that are left there.
    """

    lacks: tuple[int | None, ...]
    chains: tuple[tuple[int, ...], ...]
    limited: frozenset[int]
    dims: int
    left: frozenset[tuple[int, int, int, int]]


@lru_cache(maxsize=4096)
def orders_of(plan: Plan) -> tuple[Order, ...]:
    """Return the orders of the nodes of a plan, but of those between which nothing is to choose one."""
    lacks, chains, dims = plan.lacks, plan.chains, plan.dims
    own = [
        Node(
            lacks[tensor],
            level,
            *(frozenset(d for d in range(dims) if (tensor, level, d, kind) in plan.left) for kind in range(3)),
        )
        for tensor, chain in enumerate(chains)
        for level in chain[1:]
    ]
    numbers = iter(range(len(own)))
    left = tuple(tuple(next(numbers) for _ in chain[1:]) for chain in chains)
    scalars = tuple(node for node, one in enumerate(own) if one.lacks == SCALAR)
    found: dict[object, Order] = {}
    for others in _merge_nodes(tuple(some for some in left if not set(scalars).intersection(some))):
        nodes = (*scalars, *others)
        order = _order(own, plan.limited, nodes, dims)
        names = [(cut.dim, sum(other.dim == cut.dim for other in order.cuts[:n])) for n, cut in enumerate(order.cuts)]
        tiles = (tuple(names[t] if t >= 0 else t for t in row) for row in order.tiles)
        found.setdefault(frozenset(zip(nodes, tiles, strict=True)), order)
    return tuple(found.values())


@dataclass(frozen=True, slots=True, eq=False)
class Sheet:
    """The different cuts of all orders of a plan side by side: their dims, the nodes that each makes visited more often
    and, per level of limited room, those with it in their tiles [cut, node]. cuts: those of one order after the other;
    firsts: where each order's begin."""

    dims: IntArray
    visited: IntArray
    crowds: tuple[tuple[int, IntArray], ...]
    tiles: IntArray
    cuts: IntArray
    firsts: IntArray


@lru_cache(maxsize=4096)
def sheet_of(plan: Plan) -> Sheet | None:
    """Return the cuts of the orders of a plan (orders_of); None where some order has none."""
    orders = orders_of(plan)
    counts, nodes = [len(order.cuts) for order in orders], sum(len(chain) - 1 for chain in plan.chains)
    if not all(counts):
        return None
    numbers: dict[_Cut, int] = {}
    cuts = [numbers.setdefault(cut, len(numbers)) for order in orders for cut in _cuts_of(order)]
    visited, tiles = (np.zeros((len(numbers), nodes), dtype=np.int64) for _ in range(2))
    crowds = {level: np.zeros_like(visited) for level in plan.limited}
    for at, (_, seen, crowd, own) in enumerate(numbers):
        visited[at, sorted(seen)], tiles[at, sorted(own)] = 1, 1
        for level, some in crowd:
            crowds[level][at, sorted(some)] = 1
    return Sheet(
        np.array([dim for dim, *_ in numbers], dtype=np.int64),
        visited,
        tuple((level, own) for level, own in crowds.items() if own.any()),
        tiles,
        np.array(cuts, dtype=np.int64),
        np.cumsum([0, *counts[:-1]]),
    )


# Its dim, the nodes that it makes visited more often, those with it per level of limited room, all nodes with it.
_Cut = tuple[int, frozenset[int], frozenset[tuple[int, frozenset[int]]], frozenset[int]]


def _cuts_of(order: Order) -> Iterator[_Cut]:
    for number, (cut, seen, crowd) in enumerate(zip(order.cuts, order.visited, order.crowds, strict=True)):
        own = frozenset(node for node, row in zip(order.nodes, order.tiles, strict=True) if row[cut.dim] == number)
        yield cut.dim, frozenset(seen), frozenset((level, frozenset(some)) for level, some in crowd), own


def _merge_nodes(left: tuple[tuple[int, ...], ...]) -> Iterator[tuple[int, ...]]:
    """Yield every way to merge the tensors' nodes into one chain."""
    if not any(left):
        yield ()
    for tensor, own in enumerate(left):
        if own:
            for others in _merge_nodes((*left[:tensor], own[1:], *left[tensor + 1 :])):
                yield (own[0], *others)


def _still_ahead(nodes: Sequence[Node]) -> list[tuple[frozenset[int | None], frozenset[int], frozenset[int]]]:
    """Return per node the dims that it or a later one lacks, and those of which all or some indices are left there."""
    found = [(frozenset[int | None](), frozenset[int](), frozenset[int]())]
    for node in reversed(nodes):
        lacked, wholly, partly = found[-1]
        found.append((lacked | {node.lacks}, wholly | node.whole, partly | node.some))
    return found[:0:-1]


def _order(own: list[Node], limited: frozenset[int], nodes: tuple[int, ...], dims: int) -> Order:
    """Return the order of nodes with its cuts."""
    cuts, whole = list[TileCut](), set[int]()
    tiles: list[tuple[int, ...]] = []
    now, fresh = [WHOLE] * dims, [True] * dims  # whether the next node that has the dim cuts it
    for node, (lacked, wholly, partly) in zip(nodes, _still_ahead([own[node] for node in nodes]), strict=True):
        for d in range(dims) if own[node].lacks != SCALAR else ():
            if own[node].lacks == d:
                if fresh[d] and d in own[node].cut:
                    cuts.append(TileCut(d, now[d]))
                    now[d] = len(cuts) - 1
                fresh[d] = True
            elif d not in lacked and d not in wholly and d not in partly:
                now[d] = ONE
            elif fresh[d] and not (d in wholly and now[d] in whole):
                cuts.append(TileCut(d, now[d]))
                now[d], fresh[d] = len(cuts) - 1, False
                whole |= {now[d]} if d in wholly else set()
            fresh[d] = fresh[d] or d in own[node].some or d in own[node].whole
        tiles.append(tuple(now))
    visited: list[list[int]] = [[] for _ in cuts]
    rooms: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
    crowds: list[dict[int, list[int]]] = [{} for _ in cuts]
    for node, row in zip(nodes, tiles, strict=True):
        lacking, level = own[node].lacks, own[node].level
        if lacking not in (None, SCALAR) and row[lacking] >= 0:
            visited[row[lacking]].append(node)
        if level in limited:
            taken = tuple(t for d, t in enumerate(row) if t >= 0 and d != lacking)
            rooms.setdefault(level, []).append((node, taken))
            for cut in taken:
                crowds[cut].setdefault(level, []).append(node)
    return Order(
        nodes,
        tuple(cuts),
        tuple(tiles),
        tuple((cut.within, place) for place, cut in enumerate(cuts) if cut.within >= 0),
        tuple(tuple(some) for some in visited),
        tuple((level, tuple(some)) for level, some in rooms.items()),
        tuple(tuple((level, tuple(some)) for level, some in crowd.items()) for crowd in crowds),
    )
