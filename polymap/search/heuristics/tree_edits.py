"""Random changes of a loop tree: storage nodes, loops and spatial loops elsewhere, and loops of one iteration.

A tree is a row of nodes, one tensor per storage node, nothing at the outermost level (which holds everything anyway).
Loops of one iteration cost nothing; they are where tables of tiles may put iterations (`near_tiles`), so that moving a
loop, splitting one and changing its place among storage nodes are all changes of tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from random import Random

from polymap.ir import (
    Architecture,
    Compute,
    Fanout,
    Mapping,
    MappingNode,
    MemoryLevel,
    Spatial,
    Storage,
    Temporal,
    Workload,
)
from polymap.search.problem import FanoutClass

TreeNode = Temporal | Spatial | Storage
Nodes = tuple[TreeNode, ...]
Counts = Sequence[Sequence[int]]  # siblings [class of fan-outs][dim]


class TreeEdits:
    """Changes of the trees of one workload (of one statement) on one machine, drawn by `rng`."""

    def __init__(self, workload: Workload, arch: Architecture, classes: Sequence[FanoutClass], rng: Random) -> None:
        self._workload, self._arch, self._classes, self._rng = workload, arch, classes, rng
        self.extents = workload.extents()
        self.dims = tuple(dim for dim in workload.statements[0].dims if self.extents[dim] > 1)
        self._levels = {level.name: number for number, level in enumerate(arch.levels)}
        self._fanouts = {fanout.name: fanout for fanout in arch.fanouts}
        self._places = _fanout_places(arch)

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
        """Return the tree without loops of one iteration, neighbouring loops over one dim joined."""
        found: list[TreeNode] = []
        now = dict(self.extents)
        for node in nodes:
            if isinstance(node, Storage):
                found.append(node)
            elif node.tile < now[node.dim]:
                now[node.dim] = node.tile
                above = found[-1] if found else None
                if isinstance(node, Temporal) and isinstance(above, Temporal) and above.dim == node.dim:
                    found.pop()
                found.append(node)
        return tuple(found)

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

    def widened(self, nodes: Sequence[TreeNode], loops: int, chance: float) -> Nodes:
        """Return the tree with so many temporal loops of one iteration more, and each spatial loop that could be there
        with that chance; every dim ends with a loop."""
        rng, found = self._rng, list(self.tidied(nodes))
        for fanout in self._arch.fanouts:
            taken = {node.dim for node in found if isinstance(node, Spatial) and node.fanout == fanout.name}
            for dim in self.dims:
                if dim not in taken and fanout.may_spread(dim) and rng.random() < chance:
                    place = self._spatial_place(found, fanout)
                    found.insert(place, Spatial(dim, self._tiles_at(found, place)[dim], fanout.name))
        for _ in range(loops if self.dims else 0):
            place, dim = rng.randint(0, len(found)), rng.choice(self.dims)
            found.insert(place, Temporal(dim, self._tiles_at(found, place)[dim]))
        ended = {node.dim for node in found if not isinstance(node, Storage) and node.tile == 1}
        return (*found, *(Temporal(dim, 1) for dim in self.dims if dim not in ended))

    def edited(self, nodes: Sequence[TreeNode], *, keeps_siblings: bool) -> Nodes | None:
        """Return the tree after one random change; None where the one drawn cannot be."""
        changes = [self._move_storage] * 3 + [self._hold, self._drop, self._move_group, self._move_loop]
        if not keeps_siblings:
            changes += [self._respread] * 3
        found = self._rng.choice(changes)(list(nodes))
        return None if found is None else self._with_falling_tiles(found)

    def with_siblings(self, nodes: Sequence[TreeNode], counts: Counts) -> Nodes | None:
        """Return the tree with these sibling counts; None where the fan-outs cannot have them."""
        found: list[TreeNode] = [node for node in nodes if not isinstance(node, Spatial)]
        names = [dim.name for dim in self._workload.dims]
        for one, row in zip(self._classes, counts, strict=True):
            fanouts = [self._arch.fanouts[number] for number in one.fanouts]
            shares = shares_of(fanouts, {dim: many for dim, many in zip(names, row, strict=True) if many > 1})
            if shares is None:
                return None
            for fanout, share in zip(fanouts, shares, strict=True):
                found = self._with_spatial(found, fanout, share)
        return self._with_falling_tiles(found)

    def _with_falling_tiles(self, nodes: Sequence[TreeNode]) -> Nodes:
        """Return the nodes with no tile above the one outside it."""
        found: list[TreeNode] = []
        now = dict(self.extents)
        for node in nodes:
            if not isinstance(node, Storage):
                now[node.dim] = min(now[node.dim], node.tile)
                node = with_tile(node, now[node.dim])
            found.append(node)
        return tuple(found)

    def _tiles_at(self, nodes: Sequence[TreeNode], place: int) -> dict[str, int]:
        now = dict(self.extents)
        now.update((node.dim, node.tile) for node in nodes[:place] if not isinstance(node, Storage))
        return now

    def _with_spatial(self, nodes: list[TreeNode], fanout: Fanout, share: dict[str, int]) -> list[TreeNode]:
        """Return the tree with spatial loops of so many iterations; tiles outside them stay."""
        place = self._spatial_place(nodes, fanout)
        now = self._tiles_at(nodes, place)
        added = [Spatial(dim, -(-now[dim] // many), fanout.name) for dim, many in share.items()]
        return [*self._with_falling_tiles([*nodes[:place], *added, *nodes[place:]])]

    def _move_storage(self, nodes: list[TreeNode]) -> list[TreeNode] | None:
        places = [place for place, node in enumerate(nodes) if isinstance(node, Storage)]
        if not places:
            return None
        node = nodes.pop(self._rng.choice(places))
        return self._with_storage(nodes, node) if isinstance(node, Storage) else None

    def _hold(self, nodes: list[TreeNode]) -> list[TreeNode] | None:
        held = {(node.level, node.tensors[0]) for node in nodes if isinstance(node, Storage)}
        free = [
            Storage(level.name, (tensor.name,))
            for level in self._arch.levels[1:]
            for tensor in self._workload.tensors
            if level.may_hold(tensor) and (level.name, tensor.name) not in held
        ]
        return self._with_storage(nodes, self._rng.choice(free)) if free else None

    def _drop(self, nodes: list[TreeNode]) -> list[TreeNode] | None:
        free = [place for place, node in enumerate(nodes) if isinstance(node, Storage) and not self._is_required(node)]
        if not free:
            return None
        nodes.pop(self._rng.choice(free))
        return nodes

    def _is_required(self, node: Storage) -> bool:
        level = self._arch.levels[self._levels[node.level]]
        return level.requires(self._workload.tensor(node.tensors[0]))

    def _with_storage(self, nodes: list[TreeNode], node: Storage) -> list[TreeNode] | None:
        """Insert a storage node where its level may stand; None where it cannot."""
        level, low, high = self._levels[node.level], 0, len(nodes)
        for place, other in enumerate(nodes):
            if isinstance(other, Storage) and other.tensors == node.tensors:
                below = self._levels[other.level] > level
            elif isinstance(other, Spatial):
                below = self._places[other.fanout][0] > level
            else:
                continue
            low, high = (low, min(high, place)) if below else (place + 1, high)
        if low > high:
            return None
        nodes.insert(self._rng.randint(low, high), node)
        return nodes

    def _move_group(self, nodes: list[TreeNode]) -> list[TreeNode] | None:
        """Move the spatial loops between two levels together."""
        groups = sorted({self._places[node.fanout][0] for node in nodes if isinstance(node, Spatial)})
        if not groups:
            return None
        group = self._rng.choice(groups)
        moved = [node for node in nodes if isinstance(node, Spatial) and self._places[node.fanout][0] == group]
        rest = [node for node in nodes if not (isinstance(node, Spatial) and self._places[node.fanout][0] == group)]
        place = self._spatial_place(rest, self._fanouts[moved[0].fanout])
        return [*rest[:place], *moved, *rest[place:]]

    def _move_loop(self, nodes: list[TreeNode]) -> list[TreeNode] | None:
        places = [place for place, node in enumerate(nodes) if isinstance(node, Temporal)]
        if not places:
            return None
        node = nodes.pop(self._rng.choice(places))
        nodes.insert(self._rng.randint(0, len(nodes)), node)
        return nodes

    def _respread(self, nodes: list[TreeNode]) -> list[TreeNode] | None:
        """Lay some dims anew over one fan-out."""
        if not self._arch.fanouts:
            return None
        rng, fanout = self._rng, self._rng.choice(self._arch.fanouts)
        free = [dim for dim in self.dims if fanout.may_spread(dim)]
        if not free:
            return None
        dims = rng.sample(free, min(len(free), rng.choice((1, 1, 2, 2, 3))))
        room, share = fanout.size, dict[str, int]()
        for number, dim in enumerate(dims):
            most, extent = min(room, self.extents[dim]), self.extents[dim]
            if most < 2:
                break
            last = number == len(dims) - 1 and rng.random() < 0.7
            many = most if last else rng.randint(2, most)
            share[dim] = -(-extent // -(-extent // many))
            room //= share[dim]
        rest = [node for node in nodes if not (isinstance(node, Spatial) and node.fanout == fanout.name)]
        return self._with_spatial(rest, fanout, share)

    def _spatial_place(self, nodes: Sequence[TreeNode], fanout: Fanout) -> int:
        """Return where loops over a fan-out may stand: beside others between the same levels, else anywhere."""
        here, low, high = self._places[fanout.name], 0, len(nodes)
        group = [p for p, n in enumerate(nodes) if isinstance(n, Spatial) and self._places[n.fanout][0] == here[0]]
        for place, node in enumerate(nodes):
            if isinstance(node, Storage):
                below = self._levels[node.level] >= here[0]
            elif isinstance(node, Spatial):
                below = self._places[node.fanout] > here
            else:
                continue
            low, high = (low, min(high, place)) if below else (place + 1, high)
        if group:
            return min(max(low, group[0]), group[-1] + 1)
        return self._rng.randint(low, max(low, high))


def with_tile(node: Temporal | Spatial, tile: int) -> Temporal | Spatial:
    """Return the loop with another tile."""
    return Temporal(node.dim, tile) if isinstance(node, Temporal) else Spatial(node.dim, tile, node.fanout)


def _fanout_places(arch: Architecture) -> dict[str, tuple[int, int]]:
    """Return by name the first level below each fan-out, and its number."""
    found: dict[str, tuple[int, int]] = {}
    below = 0
    for node in arch.nodes:
        if isinstance(node, MemoryLevel):
            below += 1
        elif isinstance(node, Fanout):
            found[node.name] = below, len(found)
    return found


def shares_of(fanouts: Sequence[Fanout], wanted: dict[str, int]) -> list[dict[str, int]] | None:
    """Return iterations per fan-out and dim whose products are at least what is wanted, as near as possible, dims with
    the most siblings first; None where there are none."""
    return _dealt(fanouts, sorted(wanted.items(), key=lambda one: (-one[1], one[0])), [one.size for one in fanouts])


def _dealt(fanouts: Sequence[Fanout], wanted: list[tuple[str, int]], room: list[int]) -> list[dict[str, int]] | None:
    if not wanted:
        return [{} for _ in fanouts]
    (dim, many), *others = wanted
    most = [size if fanout.may_spread(dim) else 1 for fanout, size in zip(fanouts, room, strict=True)]
    for factors in sorted(_factors(many, most), key=lambda row: (prod(row), row)):
        left = [size // factor for size, factor in zip(room, factors, strict=True)]
        found = _dealt(fanouts, others, left)
        if found is not None:
            return [{dim: n, **share} if n > 1 else share for n, share in zip(factors, found, strict=True)]
    return None


def _factors(many: int, most: Sequence[int]) -> list[tuple[int, ...]]:
    """Return factors, one per fan-out and at most so large, whose product is at least `many`, none larger than need."""
    if len(most) == 1:
        return [(many,)] if many <= most[0] else []
    firsts = sorted({-(-many // n) for n in range(1, many + 1)})
    return [(n, *rest) for n in firsts if n <= most[0] for rest in _factors(-(-many // n), most[1:])]
