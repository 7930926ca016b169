"""Loop trees as rows of nodes: tidied, as mappings, with given siblings, and where nodes may stand.

A tree is a row of nodes, one tensor per storage node, nothing at the outermost level (which holds everything anyway).
"""

from __future__ import annotations

import collections.abc
from collections.abc import Iterable, Iterator, Sequence
from math import prod

from polymap.ir import Compute, Fanout, Mapping, MappingNode, MemoryLevel, Spatial, Storage, Temporal
from polymap.search.problem import Problem

TreeNode = Temporal | Spatial | Storage
Nodes = tuple[TreeNode, ...]
Sizes = collections.abc.Mapping[str, int]
Counts = Sequence[Sequence[int]]  # siblings [class of fan-outs][dim]


class TreeEdits:
    """What trees of one problem (of one statement) look like, and where their nodes may stand.

    dims: those of more than one index. fanouts: of the machine, as rules leave it.
    """

    def __init__(self, problem: Problem, *, divide: bool = False) -> None:
        self.divide = divide
        self._workload, self._arch, self._classes = problem.workload, problem.arch, problem.classes
        self.extents = problem.workload.extents()
        self.dims = tuple(dim for dim in problem.workload.statements[0].dims if self.extents[dim] > 1)
        self.fanouts = problem.arch.fanouts
        self._levels = {level.name: number for number, level in enumerate(problem.arch.levels)}
        self._below = _first_levels_below(problem)

    def nodes_of(self, mapping: Mapping) -> Nodes:
        """Return the nodes of a mapping without loops of one iteration."""
        found: list[TreeNode] = []
        for node in mapping.nodes:
            if isinstance(node, Storage) and self._levels[node.level]:
                found += [Storage(node.level, (tensor,)) for tensor in node.tensors]
            elif isinstance(node, Temporal | Spatial):
                found.append(node)
        return self.tidied(found)

    def tidied(self, nodes: Sequence[TreeNode]) -> Nodes:
        """Return the tree without loops of one iteration, neighbouring loops over one dim joined, neighbouring storage
        nodes in the order of levels, every dim down to tiles of 1."""
        found: list[TreeNode] = []
        now = dict(self.extents)
        for node in nodes:
            above = found[-1] if found else None
            if isinstance(node, Storage):
                place = len(found)
                while place and isinstance(above, Storage) and self._rank(above) > self._rank(node):
                    place -= 1
                    above = found[place - 1] if place else None
                found.insert(place, node)
            elif node.tile < now[node.dim]:
                now[node.dim] = node.tile
                if isinstance(node, Temporal) and isinstance(above, Temporal) and above.dim == node.dim:
                    found.pop()
                found.append(node)
        return (*found, *(Temporal(dim, 1) for dim in self.dims if now[dim] > 1))

    def all_divide(self, nodes: Nodes) -> bool:
        """Return whether every tile divides the one outside it."""
        now = dict(self.extents)
        for node in nodes:
            if not isinstance(node, Storage):
                if now[node.dim] % node.tile:
                    return False
                now[node.dim] = node.tile
        return True

    def _rank(self, node: Storage) -> tuple[int, str]:
        return self._levels[node.level], node.tensors[0]

    def mapping_of(self, nodes: Sequence[TreeNode]) -> Mapping:
        """Return the tidied tree as a mapping, storage nodes of one level joined."""
        found: list[MappingNode] = []
        for node in self.tidied(nodes):
            above = found[-1] if found else None
            if isinstance(node, Storage) and isinstance(above, Storage) and above.level == node.level:
                found[-1] = Storage(node.level, (*above.tensors, *node.tensors))
            else:
                found.append(node)
        return Mapping((*found, Compute(self._workload.statements[0].name)))

    def with_siblings(self, nodes: Sequence[TreeNode], counts: Counts) -> Nodes | None:
        """Return the tree with these sibling counts; None where the fan-outs cannot have them."""
        found: list[TreeNode] = [node for node in nodes if not isinstance(node, Spatial)]
        names = [dim.name for dim in self._workload.dims]
        for one, row in zip(self._classes, counts, strict=True):
            fanouts = [self._arch.fanouts[number] for number in one.fanouts]
            shares = shares_of(fanouts, {dim: many for dim, many in sorted(zip(names, row, strict=True)) if many > 1})
            if shares is None:
                return None
            for fanout, share in zip(fanouts, shares, strict=True):
                found = list(next(self.with_share(found, fanout, share)))
        return self.with_falling_tiles(found)

    def with_falling_tiles(self, nodes: Sequence[TreeNode]) -> Nodes:
        """Return the nodes with no tile above the one outside it."""
        found: list[TreeNode] = []
        now = dict(self.extents)
        for node in nodes:
            if not isinstance(node, Storage):
                now[node.dim] = min(now[node.dim], node.tile)
                node = with_tile(node, now[node.dim])
            found.append(node)
        return tuple(found)

    def tiles_at(self, nodes: Sequence[TreeNode], place: int) -> dict[str, int]:
        """Return the tiles at a place in the row."""
        now = dict(self.extents)
        now.update((node.dim, node.tile) for node in nodes[:place] if not isinstance(node, Storage))
        return now

    def share_of(self, nodes: Sequence[TreeNode], fanout: Fanout) -> dict[str, int]:
        """Return how many iterations side by side each dim has over a fan-out."""
        found: dict[str, int] = {}
        now = dict(self.extents)
        for node in nodes:
            if isinstance(node, Storage):
                continue
            if isinstance(node, Spatial) and node.fanout == fanout.name:
                found[node.dim] = found.get(node.dim, 1) * -(-now[node.dim] // node.tile)
            now[node.dim] = node.tile
        return found

    def with_share(self, nodes: Sequence[TreeNode], fanout: Fanout, share: dict[str, int]) -> Iterator[Nodes]:
        """Yield the tree with so many siblings over a fan-out instead of its own: where those stood, right above the
        levels below, and outermost. Tiles outside stay."""
        own = [p for p, n in enumerate(nodes) if isinstance(n, Spatial) and n.fanout == fanout.name]
        rest = [n for n in nodes if not (isinstance(n, Spatial) and n.fanout == fanout.name)]
        last = self._last_place(rest, fanout.name)
        for place in dict.fromkeys((*(min(p, last) for p in own[:1]), last, 0)):
            now = self.tiles_at(rest, place)
            added = [Spatial(dim, -(-now[dim] // many), fanout.name) for dim, many in share.items()]
            yield self.with_falling_tiles([*rest[:place], *added, *rest[place:]])

    def _last_place(self, nodes: Sequence[TreeNode], fanout: str) -> int:
        """Return the innermost place of loops over a fan-out: above all nodes of the levels below it."""
        below = self._below[fanout]
        inside = (p for p, n in enumerate(nodes) if isinstance(n, Storage) and self._levels[n.level] >= below)
        return min(inside, default=len(nodes))

    def loop_places(self, nodes: Sequence[TreeNode], loop: Temporal | Spatial) -> range:
        """Return the places where a loop may be put in."""
        last = len(nodes) if isinstance(loop, Temporal) else self._last_place(nodes, loop.fanout)
        return range(last + 1)

    def storage_places(self, nodes: Sequence[TreeNode], node: Storage) -> range:
        """Return the places where a storage node may be put in: below the loops over fan-outs above its level, in the
        order of levels among the nodes of its tensor."""
        level, low, high = self._levels[node.level], 0, len(nodes)
        for place, other in enumerate(nodes):
            if isinstance(other, Spatial):
                if self._below[other.fanout] <= level:
                    low = place + 1
            elif isinstance(other, Storage) and other.tensors == node.tensors:
                if self._levels[other.level] > level:
                    high = min(high, place)
                else:
                    low = place + 1
        return range(low, high + 1)

    def not_held(self, nodes: Sequence[TreeNode]) -> list[Storage]:
        """Return the storage nodes that a tree might have and has not."""
        held = {(node.level, node.tensors[0]) for node in nodes if isinstance(node, Storage)}
        return [
            Storage(level.name, (tensor.name,))
            for level in self._arch.levels[1:]
            for tensor in self._workload.tensors
            if level.may_hold(tensor) and (level.name, tensor.name) not in held
        ]

    def least_tree(self) -> Nodes:
        """Return the tree that needs least room: all loops above, only what must be held, right above compute."""
        loops = [Temporal(dim, 1) for dim in self.dims]
        return self.tidied([*loops, *(node for node in self.not_held(()) if self.is_required(node))])

    def is_required(self, node: Storage) -> bool:
        """Return whether every mapping must have a storage node."""
        level = self._arch.levels[self._levels[node.level]]
        return level.requires(self._workload.tensor(node.tensors[0]))


def with_tile(node: Temporal | Spatial, tile: int) -> Temporal | Spatial:
    """Return the loop with another tile."""
    return Temporal(node.dim, tile) if isinstance(node, Temporal) else Spatial(node.dim, tile, node.fanout)


def _first_levels_below(problem: Problem) -> dict[str, int]:
    """Return by name the number of the first level below each fan-out."""
    found: dict[str, int] = {}
    below = 0
    for node in problem.arch.nodes:
        if isinstance(node, MemoryLevel):
            below += 1
        elif isinstance(node, Fanout):
            found[node.name] = below
    return found


class LoopsInward:
    """Loops written from the outside inward. now: the tile that is left of each dim."""

    def __init__(self, extents: Sizes) -> None:
        self.now = dict(extents)

    def temporal(self, tiles: Sizes, order: Iterable[str]) -> Iterator[Temporal]:
        """Yield a loop over every dim whose tile is smaller than what is left, the first one outermost."""
        for dim in order:
            if tiles[dim] < self.now[dim]:
                self.now[dim] = tiles[dim]
                yield Temporal(dim, tiles[dim])

    def spatial(self, fanout: str, share: Sizes) -> Iterator[Spatial]:
        """Yield the loops over a fan-out with so many iterations per dim, each an equal share of what is left."""
        for dim, many in share.items():
            tile = -(-self.now[dim] // many)
            if tile < self.now[dim]:
                self.now[dim] = tile
                yield Spatial(dim, tile, fanout)


def shares_of(fanouts: Sequence[Fanout], wanted: dict[str, int]) -> list[dict[str, int]] | None:
    """Return iterations per fan-out and dim whose products are at least what is wanted, as near as possible, dims with
    the most siblings first (of equally many, in the given order); None where there are none."""
    dims = sorted(wanted.items(), key=lambda one: -one[1])
    return _dealt(fanouts, dims, tuple(one.size for one in fanouts), set())


def _dealt(
    fanouts: Sequence[Fanout],
    wanted: list[tuple[str, int]],
    room: tuple[int, ...],
    refused: set[tuple[int, tuple[int, ...]]],
) -> list[dict[str, int]] | None:
    """refused: (number of dims left, room left) for which there are none."""
    if not wanted:
        return [{} for _ in fanouts]
    if (len(wanted), room) in refused or prod(many for _, many in wanted) > prod(room):
        return None
    (dim, many), *others = wanted
    most = [size if fanout.may_spread(dim) else 1 for fanout, size in zip(fanouts, room, strict=True)]
    for factors in sorted(_factors(many, most), key=lambda row: (prod(row), row)):
        left = tuple(size // factor for size, factor in zip(room, factors, strict=True))
        found = _dealt(fanouts, others, left, refused)
        if found is not None:
            return [{dim: n, **share} if n > 1 else share for n, share in zip(factors, found, strict=True)]
    refused.add((len(wanted), room))
    return None


def _factors(many: int, most: Sequence[int]) -> list[tuple[int, ...]]:
    """Return factors, one per fan-out and at most so large, whose product is at least `many`, none larger than need."""
    if len(most) == 1:
        return [(many,)] if many <= most[0] else []
    firsts = sorted({-(-many // n) for n in range(1, many + 1)})
    return [(n, *rest) for n in firsts if n <= most[0] for rest in _factors(-(-many // n), most[1:])]
