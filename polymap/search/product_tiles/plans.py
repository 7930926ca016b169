"""Plans (which levels hold each tensor), the orders of their nodes, and the tiles that an order leaves to choose.

A product is an accumulation in which every tensor lacks at most one dim and every dim is lacked by at most one tensor.
A node of X is then filled n / t times over, with t the tile of the dim that X lacks, and room is taken by the others.
Along a chain of nodes tiles only shrink. A dim that X lacks is therefore best cut as soon as a node that has it stands
below the last node of X, once per node of X that is to come, and down to 1 where none is: those cuts are all that an
order leaves to choose.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

WHOLE, ONE = -1, -2  # a tile that is not cut yet, and one of size 1


@dataclass(frozen=True, slots=True)
class TensorShape:
    """What the plans of a tensor depend on: the dim that it lacks (None: none), the levels below the outermost that may
    and must hold it."""

    lacks: int | None
    may_hold: tuple[int, ...]
    must_hold: tuple[int, ...]


Node = tuple[int, int]  # tensor, position in its chain of levels


@dataclass(frozen=True, slots=True)
class Cut:
    """A tile to choose: of a dim; inside the tile of an earlier cut of the same dim (WHOLE: of none)."""

    dim: int
    within: int


@dataclass(frozen=True, slots=True)
class Order:
    """A chain of nodes, outermost first. tiles: [node][dim], the number of the cut that its tile is, WHOLE or ONE.
    nested: pairs of cuts (outer, inner) of which the inner one divides the outer."""

    nodes: tuple[Node, ...]
    cuts: tuple[Cut, ...]
    tiles: tuple[tuple[int, ...], ...]
    nested: tuple[tuple[int, int], ...]


def chains_of(shape: TensorShape) -> tuple[tuple[int, ...], ...]:
    """Return every choice of levels that hold a tensor, the outermost first in each."""
    return tuple(
        (0, *chosen)
        for count in range(len(shape.may_hold) + 1)
        for chosen in combinations(shape.may_hold, count)
        if set(shape.must_hold) <= set(chosen)
    )


@lru_cache(maxsize=4096)
def orders_of(lacks: tuple[int | None, ...], lengths: tuple[int, ...], dims: int) -> tuple[Order, ...]:
    """Return the orders of nodes of which each tensor has so many. lacks: the dim that each tensor lacks."""
    found: dict[object, Order] = {}
    for nodes in _merged(tuple(range(1, count + 1) for count in lengths)):
        order = _order(lacks, nodes, dims)
        found.setdefault(_meaning(lacks, order), order)
    return tuple(found.values())


def _merged(left: tuple[range, ...]) -> Iterator[tuple[Node, ...]]:
    """Yield every way to merge the tensors' nodes into one chain."""
    if not any(left):
        yield ()
    for tensor, own in enumerate(left):
        if own:
            rest = (*left[:tensor], own[1:], *left[tensor + 1 :])
            for others in _merged(rest):
                yield ((tensor, own[0]), *others)


def _order(lacks: tuple[int | None, ...], nodes: tuple[Node, ...], dims: int) -> Order:
    cuts: list[Cut] = []
    tiles: list[tuple[int, ...]] = []
    now, fresh = [WHOLE] * dims, [True] * dims  # whether the next node that has the dim cuts it
    for place, (tensor, _) in enumerate(nodes):
        for d in range(dims):
            if lacks[tensor] == d:
                fresh[d] = True
            elif not any(lacks[other] == d for other, _ in nodes[place:]):
                now[d] = ONE
            elif fresh[d]:
                cuts.append(Cut(d, now[d]))
                now[d], fresh[d] = len(cuts) - 1, False
        tiles.append(tuple(now))
    nested = tuple((cut.within, place) for place, cut in enumerate(cuts) if cut.within >= 0)
    return Order(nodes, tuple(cuts), tuple(tiles), nested)


def _meaning(lacks: tuple[int | None, ...], order: Order) -> object:
    """Return what the cost and the room of an order depend on: equal for orders between which nothing is to choose."""
    names: list[tuple[int, int]] = []  # of each cut: its dim and how many of the dim were before it
    for place, cut in enumerate(order.cuts):
        names.append((cut.dim, sum(other.dim == cut.dim for other in order.cuts[:place])))
    own: list[object] = []
    for node, tiles in zip(order.nodes, order.tiles, strict=True):
        own.append((node, tuple(names[t] if t >= 0 else t for t in tiles)))
    return frozenset(own)
