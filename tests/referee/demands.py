"""Random constraints for random problems, and what they mean, read off a finished tree (no code of the search)."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from math import prod

from polymap.ir.loopnest import Affine, Workload
from polymap.ir.machine import Architecture, Fanout
from polymap.ir.mapping import Mapping, Spatial, Storage, Temporal

Table = dict[str, object]
KINDS = (
    *("order", "outermost", "innermost", "forbid", "require", "factors", "must", "never", "least", "intrinsic"),
    "share",
)


def random_demands(rng: random.Random, workload: Workload, arch: Architecture, kinds: tuple[str, ...] = KINDS) -> Table:
    """Return one to three constraints of different kinds (limits are the caller's to add)."""
    found: Table = {}
    for kind in rng.sample(kinds, rng.choice((1, 1, 2, 3))):
        _add(rng, kind, workload, arch, found)
    return found


def _add(rng: random.Random, kind: str, workload: Workload, arch: Architecture, found: Table) -> None:
    dims = [dim.name for dim in workload.dims if dim.extent > 1]
    tensors = [tensor.name for tensor in workload.tensors]
    inner = [level.name for level in arch.levels[1:]]
    if kind == "order" and len(dims) > 1:
        found["order"] = rng.sample(dims, rng.choice((2, 2, len(dims))))
    elif kind in ("outermost", "innermost") and dims:
        other = found.get("innermost" if kind == "outermost" else "outermost", [])
        free = [dim for dim in dims if dim not in other] if isinstance(other, list) else dims
        if free:
            found[kind] = rng.sample(free, rng.choice((1, min(2, len(free)))))
    elif kind in ("forbid", "require") and arch.fanouts and dims:
        found["fanouts"] = {rng.choice(arch.fanouts).name: {kind: [rng.choice(dims)]}}
    elif kind == "factors" and arch.fanouts and dims:
        found["fanouts"] = {rng.choice(arch.fanouts).name: {kind: {rng.choice(dims): rng.choice((1, 2, 2, 3))}}}
    elif kind in ("must", "never"):
        found["store"] = {rng.choice(inner): {kind: [rng.choice(tensors)]}}
    elif kind == "least":
        plain = sorted(tensor for tensor in tensors if _is_plain(workload, tensor))
        held = {rng.choice(plain): rng.choice((2, 2, 3, 4, 8))} if plain else {}
        found["store"] = {rng.choice(inner): {"least": held, "must": list(held) if rng.random() < 0.5 else []}}
    elif kind == "intrinsic" and dims:
        found["intrinsic"] = {dim: rng.choice((2, 2, 3, 4)) for dim in rng.sample(dims, rng.choice((1, len(dims))))}
    elif kind == "share" and arch.fanouts:
        found["min_utilization"] = rng.choice((0.25, 0.5, 0.6, 1))


@dataclass(frozen=True, slots=True)
class _Step:
    """A loop of more than one iteration: its dim, how many, over which fan-out (None: in time), its place."""

    dim: str
    trips: int
    over: str | None
    place: int


def meets(demands: Table, workload: Workload, arch: Architecture, mapping: Mapping, steps: int) -> bool:
    """Return whether a tree meets all constraints but the limits. steps: its clock ticks."""
    loops = _steps(workload, mapping)
    time = [loop.dim for loop in loops if loop.over is None]
    checks = {
        "order": lambda want: _ordered(want, time),
        "outermost": lambda want: _first(want, time),
        "innermost": lambda want: _first(want[::-1], time[::-1]),
        "fanouts": lambda want: all(_spread(own, [s for s in loops if s.over == name]) for name, own in want.items()),
        "store": lambda want: all(
            _stored(level, own, mapping) and _spans(workload, arch, level, own, mapping) for level, own in want.items()
        ),
        "intrinsic": lambda want: all(_whole(workload, arch, dim, size, mapping) for dim, size in want.items()),
        "min_utilization": lambda want: _share(workload, arch, steps) >= want,
        "limits": lambda _want: True,
    }
    return all(checks[name](want) for name, want in demands.items())  # type: ignore[no-untyped-call]


def _steps(workload: Workload, mapping: Mapping) -> list[_Step]:
    tile = dict(workload.extents())
    found: list[_Step] = []
    for place, node in enumerate(mapping.nodes):
        if isinstance(node, (Temporal, Spatial)):
            if tile[node.dim] > node.tile:
                over = node.fanout if isinstance(node, Spatial) else None
                found.append(_Step(node.dim, -(-tile[node.dim] // node.tile), over, place))
            tile[node.dim] = min(node.tile, tile[node.dim])
    return found


def _ordered(dims: list[str], time: list[str]) -> bool:
    """Return whether the last loop over a dim comes before the first one over any later dim."""
    places = {dim: [n for n, own in enumerate(time) if own == dim] for dim in dims}
    pairs = [(a, b) for n, a in enumerate(dims) for b in dims[n + 1 :]]
    return all(not places[a] or not places[b] or max(places[a]) < min(places[b]) for a, b in pairs)


def _first(dims: list[str], time: list[str]) -> bool:
    """Return whether the dims, as far as they have loops, are the first to appear, in order."""
    left = [dim for dim in dims if dim in time]
    seen: set[str] = set()
    for dim in time:
        if not left:
            return True
        if dim == left[0]:
            left.pop(0)
        elif dim not in seen:
            return False
        seen.add(dim)
    return not left


def _spread(want: dict[str, object], loops: list[_Step]) -> bool:
    factor: dict[str, int] = {}
    for loop in loops:
        factor[loop.dim] = factor.get(loop.dim, 1) * loop.trips
    for kind, dims in want.items():
        if kind == "forbid" and any(dim in factor for dim in dims):  # type: ignore[attr-defined]
            return False
        if kind == "require" and any(dim not in factor for dim in dims):  # type: ignore[attr-defined]
            return False
        if kind == "factors" and any(factor.get(dim, 1) != size for dim, size in dims.items()):  # type: ignore[attr-defined]
            return False
    return True


def _is_plain(workload: Workload, tensor: str) -> bool:
    return all(len(index.dims) < 2 for index in _index(workload, tensor))


def _index(workload: Workload, tensor: str) -> list[Affine]:
    (statement,) = workload.statements
    accesses = (statement.target, *statement.reads)
    return [index for access in accesses if access.tensor == tensor for index in access.index]


def _spans(
    workload: Workload, arch: Architecture, level: str, want: dict[str, dict[str, int]], mapping: Mapping
) -> bool:
    """Return whether the largest tile of each node of the level has as many elements as asked for."""
    for tensor, least in want.get("least", {}).items():
        dims = {dim for index in _index(workload, tensor) for dim in index.dims}
        for place, node in enumerate(mapping.nodes):
            if isinstance(node, Storage) and node.level == level and tensor in node.tensors:
                sizes = (max(_tiles(workload, arch, dim, place, mapping).values()) for dim in dims)
                if prod(sizes) < least:
                    return False
    return True


def _stored(level: str, want: dict[str, list[str]], mapping: Mapping) -> bool:
    held = {t for node in mapping.nodes if isinstance(node, Storage) and node.level == level for t in node.tensors}
    return set(want.get("must", [])) <= held and not set(want.get("never", [])) & held


def _whole(workload: Workload, arch: Architecture, dim: str, size: int, mapping: Mapping) -> bool:
    """Return whether every tile of every node covers a multiple of the size: of the outermost level, all indices."""
    if workload.extents()[dim] % size:
        return False
    inner = [p for p, own in enumerate(mapping.nodes) if isinstance(own, Storage) and own.level != arch.levels[0].name]
    return not any(count % size for place in inner for count in _tiles(workload, arch, dim, place, mapping).values())


def _tiles(workload: Workload, arch: Architecture, dim: str, place: int, mapping: Mapping) -> Counter[tuple[int, ...]]:
    """Return how many of the dim's indices each tile of a storage node covers: those that have one combination of
    iterations of the loops that select the tile."""
    node = mapping.nodes[place]
    assert isinstance(node, Storage)
    names = [own.name for own in arch.nodes]
    outside = {own.name for own in arch.nodes[: names.index(node.level)] if isinstance(own, Fanout)}
    tiles: Counter[tuple[int, ...]] = Counter()
    for index in range(workload.extents()[dim]):
        at: list[int] = []
        for number, loop in enumerate(mapping.nodes):
            if isinstance(loop, (Temporal, Spatial)) and loop.dim == dim:
                selects = number < place if isinstance(loop, Temporal) else loop.fanout in outside
                at += [index // loop.tile] if selects else []
                index %= loop.tile
        tiles[tuple(at)] += 1
    return tiles


def _share(workload: Workload, arch: Architecture, steps: int) -> float:
    work = 1
    for dim in workload.dims:
        work *= dim.extent
    lanes = arch.compute.per_cycle
    for fanout in arch.fanouts:
        lanes *= fanout.size
    return work / (-(-steps // arch.compute.per_cycle) * lanes)
