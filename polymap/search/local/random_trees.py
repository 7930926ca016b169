"""Random loop trees: every prime of an extent goes to a random place among the storage nodes, or over a fan-out."""

from __future__ import annotations

from math import prod
from random import Random

from polymap.ir import Fanout, Spatial, Temporal
from polymap.search.local.tree_edits import Nodes, TreeEdits, TreeNode
from polymap.search.local.tuning import TUNING
from polymap.search.problem import prime_factors


def random_tree(edits: TreeEdits, rng: Random) -> Nodes:
    """Return a tree drawn without preference; tiles divide if those of the edits do. It may exceed capacities."""
    nodes: Nodes = ()
    for node in edits.not_held(()):
        if edits.is_required(node) or rng.random() < TUNING.held:
            place = rng.choice(edits.storage_places(nodes, node))
            nodes = (*nodes[:place], node, *nodes[place:])
    for dim in rng.sample(edits.dims, len(edits.dims)):
        nodes = _with_loops(edits, nodes, dim, rng)
    return edits.tidied(nodes)


def _with_loops(edits: TreeEdits, nodes: Nodes, dim: str, rng: Random) -> Nodes:
    """Return the tree with loops over a dim that it has none of."""
    extent = edits.extents[dim]
    near = edits.divide or rng.random() < 0.5
    number = extent if near else rng.randint(extent, extent + extent // 2)
    room = {fanout: fanout.size // prod(edits.share_of(nodes, fanout).values()) for fanout in edits.fanouts}
    trips: dict[tuple[int, Fanout | None], int] = {}
    for prime in (prime for prime, exponent in prime_factors(number) for _ in range(exponent)):
        fanout = rng.choice((None, None, *(each for each in edits.fanouts if each.may_spread(dim))))
        if fanout is not None and room[fanout] < prime:
            fanout = None
        if fanout is not None:
            room[fanout] //= prime
        places = edits.loop_places(nodes, Temporal(dim, 1) if fanout is None else Spatial(dim, 1, fanout.name))
        drawn = rng.choice(places)
        at = next((place for place, other in trips if fanout is not None and other == fanout), drawn)
        trips[at, fanout] = trips.get((at, fanout), 1) * prime
    return _insert_loops(nodes, dim, extent, sorted(trips.items(), key=lambda each: each[0][0]))


def _insert_loops(nodes: Nodes, dim: str, now: int, trips: list[tuple[tuple[int, Fanout | None], int]]) -> Nodes:
    """Return the tree with loops of so many iterations at their places, outermost first."""
    found: list[TreeNode] = []
    begin = 0
    for (place, fanout), many in trips:
        now = -(-now // many)
        found += [*nodes[begin:place], Temporal(dim, now) if fanout is None else Spatial(dim, now, fanout.name)]
        begin = place
    return (*found, *nodes[begin:])
