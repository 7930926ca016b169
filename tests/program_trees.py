"""Every tree of a small program by recursion over trees, every placement of nodes, each counted by the simulator: the
referee of the search of programs. It shares no code with polymap.search."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from polymap.costmodel.referees import count_by_simulation
from polymap.ir.loopnest import Dim, Operator, Statement, Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Storage, Temporal
from polymap.ir.quasi_affine import Affine, affine
from tests.nests import instances

Nodes = tuple[MappingNode, ...]
Chains = dict[str, tuple[tuple[int, ...], ...]]


def rewritings(work: Workload) -> Iterator[Workload]:
    """Yield the program over other loops, in every way: loops that no statement has together become one, and a loop is
    skewed by those around it, by 0 up to the largest distance along it of accesses that keep their order."""
    around = {name: each.dims[:place] for each in work.statements for place, name in enumerate(each.dims)}
    far = distances(work)
    pairs = [(inner, outer) for inner, outers in around.items() for outer in outers]
    for chosen in itertools.product(*([*around] for _ in around)):
        names = dict(zip(around, chosen, strict=True))
        canonical = all(names[name] == name for name in chosen) and all(
            list(around).index(new) <= list(around).index(old) for old, new in names.items()
        )
        if not canonical or any(len({names[name] for name in each.dims}) < len(each.dims) for each in work.statements):
            continue
        for factors in itertools.product(*(range(far[inner] + 1) for inner, _ in pairs)):
            yield renamed(work, names, dict(zip(pairs, factors, strict=True)))


def distances(work: Workload) -> dict[str, int]:
    """Return per loop by how much its counter differs at most between accesses of an element that keep their order."""
    events: dict[tuple[str, tuple[int, ...]], list[tuple[dict[str, int], str]]] = {}
    for statement, point in instances(work):
        values = dict(zip(statement.dims, point, strict=True))
        kind = "write" if statement.operator is Operator.ASSIGN else statement.operator.value
        for access, what in [*((read, "read") for read in statement.reads), (statement.target, kind)]:
            element = tuple(index.evaluate(values) for index in access.index)
            events.setdefault((access.tensor, element), []).append((values, what))
    far = dict.fromkeys((name for each in work.statements for name in each.dims), 0)
    for found in events.values():
        for (one, first), (other, second) in itertools.combinations(found, 2):
            if first != second or first == "write":
                for name in one.keys() & other.keys():
                    far[name] = max(far[name], abs(one[name] - other[name]))
    return far


def renamed(work: Workload, names: dict[str, str], skews: dict[tuple[str, str], int]) -> Workload:
    """Return the program whose loop `d` has the name names[d] and the counter d + the sum of skews[d, o] * o."""
    extents, new = work.extents(), dict[str, int]()
    statements: list[Statement] = []
    for each in work.statements:
        values: dict[str, Affine] = {}
        highest: dict[str, int] = {}
        for place, name in enumerate(each.dims):
            terms = [(1, affine(((1, names[name]),)))]
            terms += [(-skews[name, outer], values[outer]) for outer in each.dims[:place]]
            values[name] = total(terms, 0)
            skewed = sum(skews[name, outer] * (extents[outer] - 1) for outer in each.dims[:place])
            highest[name] = extents[name] - 1 + skewed
            new[names[name]] = max(new.get(names[name], 1), highest[name] + 1)
        limits = [total([(1, value)], 0) for value in values.values()]
        limits += [total([(-1, values[name])], extents[name] - 1) for name in each.dims]
        statements.append(
            replace(
                each,
                dims=tuple(names[name] for name in each.dims),
                constraints=(*(put(one, values) for one in each.constraints), *limits),
                target=replace(each.target, index=tuple(put(one, values) for one in each.target.index)),
                reads=tuple(replace(read, index=tuple(put(one, values) for one in read.index)) for read in each.reads),
            )
        )
    dims = tuple(Dim(name, extent) for name, extent in new.items())
    return replace(work, dims=dims, statements=tuple(statements))


def put(expression: Affine, values: dict[str, Affine]) -> Affine:
    """Return an expression without floors with its names replaced."""
    return total([(factor, values[str(name)]) for factor, name in expression.terms], expression.constant)


def total(terms: list[tuple[int, Affine]], constant: int) -> Affine:
    factors: dict[str, int] = {}
    for factor, one in terms:
        constant += factor * one.constant
        for inner, name in one.terms:
            factors[str(name)] = factors.get(str(name), 0) + factor * inner
    return affine(tuple((factor, name) for name, factor in factors.items() if factor), constant)


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
    """Yield the tree with nodes added at every choice of places of which no two are on one way."""
    node = nodes[0]
    yield (Storage(level, (tensor,)), *nodes)
    if isinstance(node, Compute):
        return
    if isinstance(node, Branch):
        ways = [[child, *stored(child, level, tensor)] for child in node.children]
        for children in itertools.islice(itertools.product(*ways), 1, None):  # the first has no node
            yield (Branch(children),)
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


def least_of_rewritings(work: Workload, arch: Architecture) -> int:
    """Return the least of `least_traffic` over all rewritings of a program."""
    return min(least_traffic(each, arch) for each in rewritings(work))


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
