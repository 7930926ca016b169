"""Dims that siblings of a fan-out are spread over above a branch."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod

from polymap.ir import Branch, Fanout, MappingNode, Spatial, Temporal
from polymap.search.problem import divisors

Nodes = tuple[MappingNode, ...]


def spread_too(nodes: Nodes, left: dict[str, int], fanout: Fanout, dim: str, many: int) -> tuple[int, Nodes]:
    """Return nodes that spread a dim over so many siblings of a fan-out, too, above their branch, and how many are then
    used; 0 where these are no more, or there is no branch. left: indices of each dim above the nodes."""
    *own, last = nodes
    spread = [at for at, node in enumerate(own) if isinstance(node, Spatial) and node.fanout == fanout.name]
    if not isinstance(last, Branch) or not spread:
        return 0, nodes
    trips, kept, room = dict[int, int](), dict[int, int](), fanout.size // many
    inside = dict(left)
    for at, node in enumerate(own):
        if isinstance(node, Temporal | Spatial):
            trips[at], inside[node.dim] = inside[node.dim] // node.tile, node.tile
    for at in spread:
        kept[at] = max((each for each in divisors(trips[at]) if each <= room), default=1)
        room //= kept[at]
    used = many * prod(kept.values())
    if many > fanout.size or used <= prod(trips[at] for at in spread):
        return 0, nodes
    fewer = Counter[str]()
    for at in spread:
        node = own[at]
        assert isinstance(node, Spatial)
        fewer[node.dim] = trips[at] // kept[at] * (fewer[node.dim] or 1)
    found = [
        replace(node, tile=node.tile // fewer[node.dim]) if isinstance(node, Temporal) and fewer[node.dim] else node
        for node in own[: spread[0]]
    ]
    return used, (*found, Spatial(dim, left[dim] // many, fanout.name), *own[spread[0] :], last)
