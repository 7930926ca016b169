"""Every tree of a small program by recursion over trees, every placement of nodes, each counted by the simulator: the
referee of the search of programs. It shares no code with polymap.search."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from polymap.costmodel.simulator import count_by_simulation
from polymap.ir.loopnest import Operator, Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Storage, Temporal
from tests.nests import instances

Nodes = tuple[MappingNode, ...]
Chains = dict[str, tuple[tuple[int, ...], ...]]


def trees(work: Workload) -> Iterator[Nodes]:
    """Yield every tree without storage: at most one dividing tile per dim and statement, statements in any order,
    neighbours in common loops or not."""
    found: dict[Nodes, None] = {}
    names = [each.name for each in work.statements]
    for order in itertools.permutations(names):
        for tiles in itertools.product(*(tile_choices(work, name) for name in order)):
            for tree in grown(work, tuple(zip(order, tiles, strict=True))):
                found[tree] = None
    yield from found


def tile_choices(work: Workload, name: str) -> list[dict[str, tuple[int, ...]]]:
    """Return the tiles still to come of every dim of a statement, in every choice."""
    dims = [(dim, work.extents()[dim]) for dim in work.statement(name).dims if work.extents()[dim] > 1]
    every = [[(1,), *((tile, 1) for tile in range(2, extent) if extent % tile == 0)] for _, extent in dims]
    return [dict(zip((dim for dim, _ in dims), chosen, strict=True)) for chosen in itertools.product(*every)]


def grown(work: Workload, parts: tuple[tuple[str, dict[str, tuple[int, ...]]], ...]) -> Iterator[Nodes]:
    """Yield the trees over statements with tiles still to come: one more common loop, or a branch, or the end."""
    if len(parts) == 1 and not any(parts[0][1].values()):
        yield (Compute(parts[0][0]),)
    first = parts[0][1]
    for dim, left in first.items():
        if left and all(each.get(dim) and each[dim][0] == left[0] for _, each in parts):
            rest = tuple((name, {**each, dim: each[dim][1:]}) for name, each in parts)
            for below in grown(work, rest):
                yield (Temporal(dim, left[0]), *below)
    for cuts in range(1, len(parts)):
        for places in itertools.combinations(range(1, len(parts)), cuts):
            ends = (0, *places, len(parts))
            groups = [parts[low:high] for low, high in itertools.pairwise(ends)]
            for children in itertools.product(*(unbranched(work, group) for group in groups)):
                yield (Branch(tuple(children)),)


def unbranched(work: Workload, parts: tuple[tuple[str, dict[str, tuple[int, ...]]], ...]) -> Iterator[Nodes]:
    """Yield the trees that do not begin with a branch: nested branches are one."""
    return (tree for tree in grown(work, parts) if not isinstance(tree[0], Branch))


def stored(nodes: Nodes, level: str, tensor: str) -> Iterator[Nodes]:
    """Yield the tree with a node added at every place below which the level may follow."""
    node = nodes[0]
    yield (Storage(level, (tensor,)), *nodes)
    if isinstance(node, Compute):
        return
    if isinstance(node, Branch):
        for place, child in enumerate(node.children):
            for other in stored(child, level, tensor):
                yield (Branch((*node.children[:place], other, *node.children[place + 1 :])),)
        return
    for rest in stored(nodes[1:], level, tensor):
        if isinstance(node, Storage) and isinstance(rest[0], Storage) and rest[0].tensors == (tensor,):
            continue  # the order of nodes at one place changes nothing
        yield (node, *rest)


def keeps_order(work: Workload, tree: Nodes) -> bool:
    """Return whether all pairs of accesses that depend on each other keep their order, one by one."""
    place = {each: number for number, each in enumerate(run_of(work, tree))}
    events: dict[tuple[str, tuple[int, ...]], list[tuple[int, str]]] = {}
    for number, (statement, point) in enumerate(instances(work)):
        values = dict(zip(statement.dims, point, strict=True))
        time = place[statement.name, point]
        kind = "write" if statement.operator is Operator.ASSIGN else statement.operator.value
        for access in statement.reads:
            element = tuple(index.evaluate(values) for index in access.index)
            events.setdefault((access.tensor, element), []).append((time, "read"))
        element = tuple(index.evaluate(values) for index in statement.target.index)
        events.setdefault((statement.target.tensor, element), []).append((time, kind))
        del number
    for found in events.values():
        for (one, first), (other, second) in itertools.combinations(found, 2):
            free = first == second and first != "write"
            if one > other and not free:
                return False
    return True


def run_of(work: Workload, tree: Nodes) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the statement instances in the order in which a tree runs them."""
    inside = {(statement.name, point) for statement, point in instances(work)}

    def walk(nodes: Nodes, low: dict[str, int], size: dict[str, int]) -> Iterator[tuple[str, tuple[int, ...]]]:
        node, rest = nodes[0], nodes[1:]
        if isinstance(node, Branch):
            for child in node.children:
                yield from walk(child, low, size)
        elif isinstance(node, Temporal):
            for start in range(low[node.dim], low[node.dim] + size[node.dim], node.tile):
                yield from walk(rest, {**low, node.dim: start}, {**size, node.dim: node.tile})
        elif isinstance(node, Compute):
            point = tuple(low[dim] for dim in work.statement(node.statement).dims)
            if (node.statement, point) in inside:
                yield node.statement, point

    return walk(tree, dict.fromkeys(work.extents(), 0), work.extents())


def least_traffic(work: Workload, arch: Architecture) -> int:
    """Return the least bits read and written at the outermost level over every tree and every placement in the one
    level below it."""
    level = arch.levels[1]
    best: int | None = None
    for tree in trees(work):
        if not keeps_order(work, tree):
            continue
        placed: list[Nodes] = [tree]
        for tensor in work.tensors:
            placed += [other for one in placed for other in stored(one, level.name, tensor.name)]
        for nodes in placed:
            counts = count_by_simulation(work, arch, Mapping(nodes))
            if level.capacity_bits is not None and counts.uses[1].occupancy_bits > level.capacity_bits:
                continue
            rows = [row for row in counts.traffic if row.level == arch.levels[0].name]
            bits = sum((row.reads + row.writes) * work.tensor(row.tensor).bits for row in rows)
            best = bits if best is None else min(best, bits)
    assert best is not None
    return best
