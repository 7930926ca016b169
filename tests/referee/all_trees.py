"""The mapping space written out tree by tree, straight from its definition (docs/counting.md, "The mapping space").

Slow and simple on purpose, it shares nothing with the counting and the search: it lists every order of the nodes, every
block between them and every place of the spatial loops, and throws equal canonical trees away.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, permutations, product
from math import prod

from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, Fanout, MemoryLevel, Multicast
from polymap.ir.mapping import Compute, Mapping, MappingNode, Spatial, Storage, Temporal

Loop = tuple[str, ...]  # ("for", dim) or ("par", dim, fanout)


def all_trees(workload: Workload, arch: Architecture, tiles: str, *, legal: bool) -> set[Mapping]:
    """Return all canonical trees, either all that can be spelt or the legal ones (all orders of loops being legal)."""
    trees: set[Mapping] = set()
    for nodes in _node_orders(workload, arch, legal=legal):
        for skeleton in _skeletons(workload, arch, nodes):
            trees.update(_tiled(workload, arch, skeleton, tiles, legal=legal))
    return trees


def _node_orders(workload: Workload, arch: Architecture, *, legal: bool) -> Iterator[tuple[tuple[str, str], ...]]:
    """Yield every order of (tensor, level) nodes."""
    slots = [(tensor, level) for tensor in workload.tensors for level in arch.levels[1:]]
    for kept in product((False, True), repeat=len(slots)):
        if legal and any(not _may(tensor, level, here) for (tensor, level), here in zip(slots, kept, strict=True)):
            continue
        chosen = [(tensor.name, level.name) for (tensor, level), here in zip(slots, kept, strict=True) if here]
        yield from _interleaved(chosen)


def _may(tensor, level: MemoryLevel, here: bool) -> bool:
    names = {tensor.name, "@" + tensor.role.value}
    if here:
        return level.holds is None or bool(names & set(level.holds))
    return not names & set(level.must_hold)


def _interleaved(nodes: list[tuple[str, str]]) -> Iterator[tuple[tuple[str, str], ...]]:
    for order in permutations(range(len(nodes))):
        tensors = {name for name, _ in nodes}
        if all(
            [i for i in order if nodes[i][0] == t] == [i for i in range(len(nodes)) if nodes[i][0] == t]
            for t in tensors
        ):
            yield tuple(nodes[i] for i in order)


def _groups(arch: Architecture) -> list[tuple[list[Fanout], set[str]]]:
    """Return the runs of fan-outs, each with the names of the levels below it."""
    groups: list[tuple[list[Fanout], set[str]]] = []
    for i, node in enumerate(arch.nodes):
        if isinstance(node, Fanout):
            if not isinstance(arch.nodes[i - 1], Fanout):
                below = {n.name for n in arch.nodes[i:] if isinstance(n, MemoryLevel)}
                groups.append(([], below))
            groups[-1][0].append(node)
    return groups


def _skeletons(workload: Workload, arch: Architecture, nodes: tuple[tuple[str, str], ...]) -> Iterator[list]:
    """Yield sequences of nodes (level, tensor) and loops without tiles."""
    dims = [dim.name for dim in workload.dims if dim.extent > 1]
    groups = _groups(arch)
    homes = [next((i for i, (_, level) in enumerate(nodes) if level in below), len(nodes)) for _, below in groups]
    spatial = [list(_units(workload, arch, dims, fanouts)) for fanouts, _ in groups]
    for units in product(*spatial):
        blocks = []
        for position in range(len(nodes) + 1):
            here = [unit for unit, home in zip(units, homes, strict=True) if unit and home == position]
            blocks.append(list(_blocks(dims, here)))
        for choice in product(*blocks):
            sequence: list = []
            for position, block in enumerate(choice):
                sequence += block
                if position < len(nodes):
                    sequence.append(("store", *nodes[position]))
            yield sequence


def _units(workload: Workload, arch: Architecture, dims: list[str], fanouts: list[Fanout]) -> Iterator[list[Loop]]:
    """Yield all spatial loops of a group, of each dim in every order that counts, sorted where it does not."""
    orders = [
        [
            order
            for count in range(len(fanouts) + 1)
            for order in permutations(range(len(fanouts)), count)
            if all(a < b or not _are_alike(workload, arch, dim, fanouts[a], fanouts[b]) for a, b in pairwise(order))
        ]
        for dim in dims
    ]
    for choice in product(*orders):
        loops = []
        for number, (dim, order) in enumerate(zip(dims, choice, strict=True)):
            loops += [
                (place, number, ("par", dim, fanouts[f].name)) for place, f in zip(sorted(order), order, strict=True)
            ]
        yield [loop for _, _, loop in sorted(loops)]


def _are_alike(workload: Workload, arch: Architecture, dim: str, one: Fanout, other: Fanout) -> bool:
    """Return whether exchanging the loops over a dim on two fan-outs, one right inside the other, changes no count: not
    that of bursts, beats, requests, commands or missed lines either, where the machine has them."""
    statement = workload.statements[0]
    extents = workload.extents()
    alike = True
    for tensor in {statement.target.tensor, *(read.tensor for read in statement.reads)}:
        accesses = [access for access in (statement.target, *statement.reads) if access.tensor == tensor]
        axes = [axis for access in accesses for axis in access.index if dim in axis.dims]
        shares_all_or_nothing = len(accesses) == 1 and all(
            axis.is_linear and not any(extents[d] > 1 for d in axis.dims if d != dim) for axis in axes
        )
        if axes and not shares_all_or_nothing:
            same = (
                one.reduction == other.reduction
                if tensor == statement.target.tensor
                else one.multicast == other.multicast
            )
            alike = alike and same and not (one.has_energies or other.has_energies)
        elif axes and _counts_what_lies_together(arch):
            if tensor == statement.target.tensor:
                alike = alike and one.reduction == other.reduction
            else:
                alike = alike and (one.multicast is Multicast.UNION) == (other.multicast is Multicast.UNION)
    return alike


def _counts_what_lies_together(arch: Architecture) -> bool:
    sizes = ("burst_bits", "beat_bits", "request_bits", "command_bits", "write_command_bits", "request_latency_cycles")
    lines = any(level.line_bits and (level.miss_cycles or level.write_miss_cycles) for level in arch.levels)
    return lines or any(getattr(level, size) for level in arch.levels for size in sizes)


def _blocks(dims: list[str], units: list[list[Loop]]) -> Iterator[list[Loop]]:
    """Yield every block: some dims and all units, in every order."""
    for kept in product((0, 1), repeat=len(dims)):
        items: list[list[Loop]] = [[("for", dim)] for dim, k in zip(dims, kept, strict=True) if k] + units
        for order in permutations(items):
            yield [loop for item in order for loop in item]


def _tiled(workload: Workload, arch: Architecture, skeleton: list, tiles: str, *, legal: bool) -> Iterator[Mapping]:
    """Yield the canonical trees of a skeleton, one per choice of tiles that end at 1."""
    loops = [i for i, item in enumerate(skeleton) if item[0] != "store"]
    chains = []
    for dim in workload.dims:
        mine = [i for i in loops if skeleton[i][1] == dim.name]
        chains.append([dict(zip(mine, chain, strict=True)) for chain in _chains(dim.extent, len(mine), tiles)])
    for choice in product(*chains):
        tile = {i: t for chain in choice for i, t in chain.items()}
        if not legal or _fits(workload, arch, skeleton, tile):
            yield _canonical(skeleton, tile)


def _chains(extent: int, count: int, tiles: str) -> Iterator[tuple[int, ...]]:
    if count == 0:
        if extent == 1:
            yield ()
        return
    for tile in range(1, extent):
        if tiles == "any" or extent % tile == 0:
            for rest in _chains(tile, count - 1, tiles):
                yield (tile, *rest)


def _fits(workload: Workload, arch: Architecture, skeleton: list, tile: dict[int, int]) -> bool:
    enclosing = workload.extents()
    trips: dict[str, list[int]] = {fanout.name: [] for fanout in arch.fanouts}
    allowed = {fanout.name: fanout.dims for fanout in arch.fanouts}
    for i, item in enumerate(skeleton):
        if item[0] == "store":
            continue
        if item[0] == "par":
            trips[item[2]].append(-(-enclosing[item[1]] // tile[i]))
            if allowed[item[2]] is not None and item[1] not in allowed[item[2]]:
                return False
        enclosing[item[1]] = tile[i]
    return all(prod(trips[fanout.name]) <= fanout.size for fanout in arch.fanouts)


def _canonical(skeleton: list, tile: dict[int, int]) -> Mapping:
    """Return the mapping, nodes with no loop between them sorted."""
    nodes: list[MappingNode] = []
    run: list[tuple[str, str]] = []
    for i, item in enumerate(skeleton):
        if item[0] == "store":
            run.append((item[2], item[1]))
            continue
        nodes += [Storage(level, (tensor,)) for level, tensor in sorted(run)]
        run = []
        nodes.append(Temporal(item[1], tile[i]) if item[0] == "for" else Spatial(item[1], tile[i], item[2]))
    nodes += [Storage(level, (tensor,)) for level, tensor in sorted(run)]
    return Mapping((*nodes, Compute("S")))
