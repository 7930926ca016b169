"""Loop trees from a relaxed chain: where a bound would have each node, as nodes, loops and spatial loops.

A chain names nodes, outermost first, with a range of tile sizes per dim at which its cost is the same. Trees take sizes
out of these ranges that nest; between two nodes stand the loops from the one's tiles to the other's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations
from math import prod
from typing import Protocol

from polymap.ir import Storage
from polymap.search.local.tree_edits import Counts, LoopsInward, Nodes, TreeNode, shares_of
from polymap.search.problem import Problem

Sizes = tuple[int, ...]


class Place(Protocol):
    """A node of a chain: number of its tensor, level, the unit in which its tiles are measured (how many groups of
    fan-outs stand above), and per dim the least and the largest size of its tile."""

    @property
    def tensor(self) -> int: ...
    @property
    def level(self) -> int: ...
    @property
    def unit(self) -> int: ...
    @property
    def low(self) -> Sizes: ...
    @property
    def high(self) -> Sizes: ...


Chain = Sequence[Place]


def trees_of_chain(problem: Problem, counts: Counts, chain: Chain) -> list[Nodes]:
    """Return distinct trees with the chain's nodes in its order and these sibling counts [class][dim], at most a few
    dozen; none where the fan-outs cannot have the counts."""
    shares = [_shares(problem, number, row) for number, row in enumerate(counts)]
    if any(one is None for one in shares):
        return []
    spread = {name: share for one in shares for name, share in (one or {}).items()}
    found: dict[Nodes, None] = {}
    for sizes in _nested_sizes(problem, counts, chain):
        for order in _orders(problem):
            for side_by_side in (False, True):
                found[tuple(_tree(problem, spread, chain, sizes, order, side_by_side=side_by_side))] = None
    return list(found)


def _shares(problem: Problem, number: int, row: Sequence[int]) -> dict[str, dict[str, int]] | None:
    """Return the iterations per fan-out of a class and dim."""
    fanouts = [problem.arch.fanouts[place] for place in problem.classes[number].fanouts]
    wanted = {dim: many for dim, many in sorted(zip(problem.dims, row, strict=True)) if many > 1}
    found = shares_of(fanouts, wanted)
    return None if found is None else {one.name: share for one, share in zip(fanouts, found, strict=True)}


def _nested_sizes(problem: Problem, counts: Counts, chain: Chain) -> Iterator[list[Sizes]]:
    """Yield tile sizes of the chain's nodes: the least ones; multiples of those further in, as large as may be or
    the least ones; equal shares of those further out."""
    groups = sorted({one.below for one in problem.classes})
    dims = range(len(problem.dims))

    def siblings(outer: int, inner: int, d: int) -> int:
        many = 1
        for one, row in zip(problem.classes, counts, strict=True):
            if outer <= groups.index(one.below) < inner:
                many *= row[d]
        return many

    yield [place.low for place in chain]
    for largest in (True, False):
        sizes: list[Sizes] = []
        inner, unit = (1,) * len(dims), len(groups)
        for place in reversed(chain):
            inner = tuple(
                _multiple(inner[d] * siblings(place.unit, unit, d), place.low[d], place.high[d], largest=largest)
                for d in dims
            )
            unit = place.unit
            sizes.append(inner)
        yield sizes[::-1]
    shares: list[Sizes] = []
    outer, unit = problem.extents, 0
    for place in chain:
        here = [-(-outer[d] // siblings(unit, place.unit, d)) for d in dims]
        outer = tuple(_share(here[d], place.low[d], place.high[d]) for d in dims)
        unit = place.unit
        shares.append(outer)
    yield shares


def _multiple(inner: int, low: int, high: int, *, largest: bool) -> int:
    """Return a multiple of the inner size in a range; where there is none its least size."""
    found = high // inner * inner if largest else -(-low // inner) * inner
    return found if low <= found <= high else low


def _share(outer: int, low: int, high: int) -> int:
    """Return an equal share of the outer size in a range; where there is none its least size."""
    if outer <= high:
        return max(outer, low)
    found = -(-outer // -(-outer // high))
    return found if low <= found else low


def _orders(problem: Problem) -> list[tuple[str, ...]]:
    """Return orders of dims that loops beside each other may stand in: those of each window each way round."""
    groups = {group.dims for term in problem.terms for group in term.groups if len(group.dims) > 1}
    found: dict[tuple[str, ...], None] = {}
    for first in (True, False):
        moved = [dim for group in sorted(groups) for dim in (group[:1] if first else group[1:])]
        rest = [dim for dim in problem.dims if dim not in moved]
        for inner in permutations(moved) if len(moved) < 3 else (tuple(moved), tuple(reversed(moved))):
            found[*rest, *inner] = None
    return list(found)


def _tree(
    problem: Problem,
    spread: dict[str, dict[str, int]],
    chain: Chain,
    sizes: Sequence[Sizes],
    order: tuple[str, ...],
    *,
    side_by_side: bool,
) -> Iterator[TreeNode]:
    """Yield the nodes of one tree. order: of neighbouring loops, those over the dims of the next node's tensor inside
    the others. side_by_side: siblings take neighbouring tiles at a time, not a stretch of them each."""
    loops = LoopsInward(dict(zip(problem.dims, problem.extents, strict=True)))
    groups = sorted({one.below for one in problem.classes})
    unit = 0
    for place, row in zip((*chain, None), (*sizes, (1,) * len(problem.dims)), strict=True):
        last = len(groups) if place is None else place.unit
        own = frozenset[str]() if place is None else problem.terms[place.tensor].dims
        inward = sorted(order, key=lambda dim: (dim in own, order.index(dim)))
        tiles = dict(zip(problem.dims, row, strict=True))
        names = [
            problem.arch.fanouts[f].name
            for g in groups[unit:last]
            for one in problem.classes
            if one.below == g
            for f in one.fanouts
        ]
        if side_by_side:
            many = {dim: prod(spread[name].get(dim, 1) for name in names) for dim in tiles}
            yield from loops.temporal({dim: tile * many[dim] for dim, tile in tiles.items()}, inward)
        for name in names:
            yield from loops.spatial(name, spread[name])
        unit = last
        yield from loops.temporal(tiles, inward)
        if place is not None:
            yield Storage(problem.arch.levels[place.level].name, (problem.terms[place.tensor].tensor.name,))
