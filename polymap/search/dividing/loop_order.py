"""From a chain of storage nodes to the best loop tree: the order of loops in each block, and where spatial loops stand.

Only tensors read through windows care. For them a loop of n iterations over d around loops that reach X turns the
loads V into n V - (n - 1) overlap (windows.py); over all nodes of the tensor, weighted, that is again one linear
recursion, so the best order is a shortest path over the subsets of each block's dims.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, permutations, product
from math import prod

from polymap.ir import Mapping
from polymap.search.dividing.chain import Block, ChainNode, Placed, blocks_of, group_factor, is_mark, tree_of, trips_of
from polymap.search.dividing.node_costs import Tables
from polymap.search.dividing.spatial_lowering import lowered_chains, separated_chains
from polymap.search.dividing.spread import Spread
from polymap.search.dividing.window_traffic import WindowNode, compute_node, window_node, window_overlap, window_size
from polymap.search.problem import Intrinsic, TensorTerm, inside_of, may_stand, ordered

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """The best tree of a chain: cost per component (without the tables' start) and the blocks' loop orders."""

    parts: tuple[int, ...]
    mapping: Mapping


def best_leaves(
    tables: Tables, chain: tuple[ChainNode, ...], fixed: tuple[int, ...], free_bits: tuple[int | None, ...]
) -> tuple[Leaf, ...]:
    """Return the best tree of a chain (of a front, all that are wanted); none where none fits.

    fixed: the cost of everything but the window tensor, per component. free_bits: per level, what the other tensors
    leave.
    """
    return wanted_leaves(
        tables, [leaf for other in lowered_chains(tables, chain) for leaf in _leaves(tables, other, fixed, free_bits)]
    )


def separated_leaves(
    tables: Tables, chain: tuple[ChainNode, ...], fixed: Vector, free_bits: tuple[int | None, ...]
) -> Iterator[tuple[Leaf, ...]]:
    """Yield the best trees of every chain in which nodes of the chain also part loops over one dim, chain by chain."""
    for other in separated_chains(tables, chain):
        yield _leaves(tables, other, fixed, free_bits)


def wanted_leaves(tables: Tables, leaves: Sequence[Leaf]) -> tuple[Leaf, ...]:
    """Return the first of the best leaves; for a front, those that no other covers."""
    if not tables.measure.is_front:
        return tuple(sorted(leaves, key=lambda leaf: leaf_value(tables, leaf))[:1])
    values = [tables.measure.values(leaf_value(tables, leaf)) for leaf in leaves]
    return tuple(leaves[i] for i in undominated(values))


def undominated(vectors: Sequence[Vector]) -> list[int]:
    """Return the positions of the vectors that no other one covers, the first of equal ones."""
    kept: list[int] = []
    for i, new in enumerate(vectors):
        if not any(_covers(vectors[k], new) for k in kept):
            kept = [k for k in kept if not _covers(new, vectors[k])] + [i]
    return kept


def _covers(old: Vector, new: Vector) -> bool:
    return all(a <= b for a, b in zip(old, new, strict=True))


def leaf_value(tables: Tables, leaf: Leaf) -> int:
    """Return the objective of a leaf, scaled."""
    return tables.measure.value(_with_start(tables, leaf.parts), tables.compute_cycles)


def _leaves(
    tables: Tables, chain: tuple[ChainNode, ...], fixed: tuple[int, ...], free_bits: tuple[int | None, ...]
) -> tuple[Leaf, ...]:
    blocks = blocks_of(tables, chain)
    below = tuple(_inside(tables, block) for block in blocks)
    some = tuple(ordered(inside) for inside in below)
    if not all(_may_stand(tables, node) for node in chain) or None in some:
        return ()
    window = next((term for term in tables.problem.terms if term.is_window), None)
    if window is None:
        placed = Placed(tuple((g, block.inner) for block in reversed(blocks) for g in reversed(block.groups)))
        orders = tuple(order for order in some if order is not None)
        return (Leaf(fixed, tree_of(tables, blocks, orders, placed)),)
    best: list[tuple[int, Vector, Placed, tuple[Vector, ...]]] = []
    for placed in _placements(tables, window, blocks):
        if not _fits(tables, window, chain, placed, free_bits):
            continue
        for parts, orders in _best_orders(tables, window, blocks, placed, below):
            total = tuple(a + b for a, b in zip(fixed, parts, strict=True))
            value = tables.measure.value(_with_start(tables, total), tables.compute_cycles)
            if tables.measure.is_front or not best or value < best[0][0]:
                best = [*(best if tables.measure.is_front else ()), (value, total, placed, orders)]
    kept = undominated([tables.measure.values(value) for value, *_ in best]) if tables.measure.is_front else [0]
    return tuple(Leaf(best[i][1], tree_of(tables, blocks, best[i][3], best[i][2])) for i in kept if best)


def _inside(tables: Tables, block: Block) -> Inside:
    """Return per dim with a loop in the block what the rules want inside it."""
    problem = tables.problem
    return inside_of(problem.rules, problem.dims, tables.context.tiles[0], block.outer, block.inner)


def _may_stand(tables: Tables, node: ChainNode) -> bool:
    """Return whether the rules let a node (or the loops of a mark) stand where it does."""
    problem = tables.problem
    if not problem.rules:
        return True
    if not may_stand(problem.rules, problem.dims, node.tile, tables.context.tiles[0]):
        return False
    sizes = {rule.dim: rule.size for rule in problem.rules if isinstance(rule, Intrinsic)}
    if is_mark(node) or not sizes:
        return True
    spread = Spread(problem, tables.structure, tables.context.places)
    covered = (
        tile * spread.factor(dim, node.level, problem.level_count)
        for dim, tile in zip(problem.dims, node.tile, strict=True)
    )
    return all(own % sizes.get(dim, 1) == 0 for dim, own in zip(problem.dims, covered, strict=True))


def _fits(
    tables: Tables,
    window: TensorTerm,
    chain: tuple[ChainNode, ...],
    placed: Placed,
    free_bits: tuple[int | None, ...],
) -> bool:
    for node in chain:
        free = free_bits[node.level]
        if node.tensor == window.index and free is not None:
            seen = WindowNode(node.parent, node.level, node.tile, ())
            if window_size(tables, window, seen, placed.groups)[0] * window.tensor.bits > free:
                return False
    return True


def _with_start(tables: Tables, parts: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(parts, tables.start, strict=True))


def _window_dims(tables: Tables, window: TensorTerm) -> tuple[int, ...]:
    names = [dim for group in window.groups if group.is_window for dim in group.dims]
    return tuple(tables.problem.dims.index(name) for name in names)


def _placements(tables: Tables, window: TensorTerm, blocks: tuple[Block, ...]) -> Iterator[Placed]:
    """Yield every way to put the spatial groups of each block between its loops, as far as the window can tell."""
    dims = _window_dims(tables, window)
    per_block: list[list[tuple[tuple[int, tuple[int, ...]], ...]]] = []
    for block in reversed(blocks):
        choices: list[tuple[tuple[int, tuple[int, ...]], ...]] = []
        for order in permutations(sorted(block.groups, reverse=True)):
            for tiles in product(*(_crossing_tiles(tables, block, below, dims) for below in order)):
                if all(_nested(a, b) for a, b in pairwise(tiles)):
                    choices.append(tuple(zip(order, tiles, strict=True)))
        per_block.append(choices)
    for combination in product(*per_block):
        yield Placed(tuple(item for block in combination for item in block))


def _nested(inner: tuple[int, ...], outer: tuple[int, ...]) -> bool:
    return all(b % a == 0 for a, b in zip(inner, outer, strict=True))


def _crossing_tiles(tables: Tables, block: Block, below: int, dims: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the temporal tiles inside a group of the block; decided places that no loop order gives leave none."""
    decided = dict(tables.context.places)
    choices: list[tuple[int, ...]] = []
    for d, (outer, inner) in enumerate(zip(block.outer, block.inner, strict=True)):
        free = d in dims and group_factor(tables, below, d) > 1
        ends = tuple(dict.fromkeys((inner, outer))) if free else (inner,)
        place = decided.get((below, tables.problem.dims[d]))
        choices.append(ends if place is None or not free else tuple(end for end in ends if end == place))
    return list(product(*choices))


Inside = dict[int, set[int]]
Label = tuple[Vector, tuple[tuple[int, ...], ...]]


def _best_orders(
    tables: Tables, window: TensorTerm, blocks: tuple[Block, ...], placed: Placed, below: tuple[Inside, ...]
) -> list[Label]:
    """Return the non-dominated (cost per component, loop order per block outermost first) of the window tensor."""
    nodes: list[WindowNode] = []
    labels: list[Label] = [(tuple(0 for _ in tables.measure.components), ())]
    for block, inside in zip(reversed(blocks), reversed(below), strict=True):
        if block.node is not None and block.node.tensor == window.index:
            node = window_node(tables, window, block.node, placed.groups)
            nodes.append(node)
            cost = node.cost(window_size(tables, window, node, placed.groups))
            labels = [(_added(vector, cost), orders) for vector, orders in labels]
        labels = _through_block(tables, window, block, placed, nodes, labels, inside)
    final = compute_node(tables, window, _holder(blocks, window), placed.groups)
    each = final.cost(window_size(tables, window, final, placed.groups))
    steps = prod(tables.context.tiles[0])
    return [(_added(vector, tuple(cost * steps for cost in each)), orders) for vector, orders in labels]


def _added(first: Vector, second: Vector) -> Vector:
    return tuple(a + b for a, b in zip(first, second, strict=True))


def _holder(blocks: tuple[Block, ...], window: TensorTerm) -> int:
    return max((b.node.level for b in blocks if b.node is not None and b.node.tensor == window.index), default=0)


def _through_block(
    tables: Tables,
    window: TensorTerm,
    block: Block,
    placed: Placed,
    nodes: list[WindowNode],
    labels: list[Label],
    below: Inside,
) -> list[Label]:
    """Return the labels after the block's loops, innermost added first."""
    todo = trips_of(block)
    if not nodes:
        some = ordered(below) if any(below.values()) else tuple(reversed(todo))
        return [(vector, (some, *orders)) for vector, orders in labels if some is not None]
    barriers = _barriers(tables, block, placed)
    fronts: dict[int, list[tuple[Vector, tuple[int, ...], tuple[tuple[int, ...], ...]]]] = {
        0: [(vector, (), orders) for vector, orders in labels]
    }
    for subset in range(1 << len(todo)):
        for vector, path, orders in fronts.get(subset, []):
            inside = tuple(
                block.outer[d] if d in todo and subset >> todo.index(d) & 1 else block.inner[d]
                for d in range(len(block.inner))
            )
            for position, d in enumerate(todo):
                if subset >> position & 1 or not _may_add(d, subset, todo, barriers, below):
                    continue
                trips = block.outer[d] // block.inner[d]
                kept = [node.cost(window_overlap(tables, window, node, placed.groups, inside, d)) for node in nodes]
                saved = tuple(sum(one) for one in zip(*kept, strict=True))
                after = tuple(trips * v - (trips - 1) * k for v, k in zip(vector, saved, strict=True))
                front = fronts.setdefault(subset | 1 << position, [])
                _keep(front, (after, (d, *path), orders))
    return [(vector, (path, *orders)) for vector, path, orders in fronts.get((1 << len(todo)) - 1, [])]


def _keep(
    front: list[tuple[Vector, tuple[int, ...], tuple[tuple[int, ...], ...]]],
    new: tuple[Vector, tuple[int, ...], tuple[tuple[int, ...], ...]],
) -> None:
    if any(_covers(old[0], new[0]) for old in front):
        return
    front[:] = [old for old in front if not _covers(new[0], old[0])]
    front.append(new)


def _barriers(tables: Tables, block: Block, placed: Placed) -> list[tuple[set[int], set[int]]]:
    """Return (dims below, dims above) per pair of groups of the block: all of the first must be inside the second."""
    sides: list[tuple[set[int], set[int]]] = []
    for below, tile in placed.groups:
        if below in block.groups:
            busy = [d for d in trips_of(block) if group_factor(tables, below, d) > 1]
            sides.append(
                ({d for d in busy if tile[d] == block.outer[d]}, {d for d in busy if tile[d] == block.inner[d]})
            )
    return [(sides[i][0], sides[j][1]) for i in range(len(sides)) for j in range(i, len(sides))]


def _may_add(d: int, subset: int, todo: list[int], barriers: list[tuple[set[int], set[int]]], inside: Inside) -> bool:
    done = {dim for position, dim in enumerate(todo) if subset >> position & 1}
    return inside[d] <= done and all(below <= done for below, above in barriers if d in above)
