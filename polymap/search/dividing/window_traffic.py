"""Exact loads of a window tensor's nodes once the spatial loops have their places (used by leaf.py)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from polymap.search.dividing.chain import ChainNode
from polymap.search.dividing.node_costs import Tables
from polymap.search.dividing.spread import Spread
from polymap.search.dividing.windows import Count, Crossing, DimStep, dim_step, tile_counts, tile_messages
from polymap.search.problem import TensorTerm

Groups = tuple[tuple[int, tuple[int, ...]], ...]
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class WindowNode:
    """A storage node of the window tensor (or the compute unit): the level that loads it, its level and temporal tile,
    per component the cost of one element filled here and of one read for it at the parent, and of what it holds."""

    parent: int
    level: int
    tile: tuple[int, ...]
    weights: tuple[Pair, ...]
    held: tuple[int, ...] = ()

    def cost(self, amounts: Pair) -> tuple[int, ...]:
        """Return the cost per component of (elements filled, elements read for one message)."""
        moved = tuple(fill * amounts[0] + read * amounts[1] for fill, read in self.weights)
        # What is held does not grow with the loops: n x held - (n - 1) x held.
        return tuple(a + b for a, b in zip(moved, self.held, strict=True)) if self.held else moved


def window_node(tables: Tables, term: TensorTerm, node: ChainNode, groups: Groups) -> WindowNode:
    """Return a chain's node with its weights."""
    plain = _weighted(tables, term, WindowNode(node.parent, node.level, node.tile, ()), groups)
    if not any(component.held for component in tables.measure.components):
        return plain
    size = window_size(tables, term, plain, groups)[0]
    held = (component.held for component in tables.measure.components)
    return replace(plain, held=tuple(size * of[node.level][term.index] if of else 0 for of in held))


def compute_node(tables: Tables, term: TensorTerm, holder: int, groups: Groups) -> WindowNode:
    """Return the compute unit as a node of single elements that reads from level `holder`."""
    ones = tuple(1 for _ in tables.problem.dims)
    return _weighted(tables, term, WindowNode(holder, tables.problem.level_count, ones, ()), groups)


def _weighted(tables: Tables, term: TensorTerm, node: WindowNode, groups: Groups) -> WindowNode:
    spread = Spread(tables.problem, tables.structure, tables.context.places)
    messages = spread.shared_messages(term, node.parent, node.level)
    for group in term.groups:
        if group.is_window:
            messages *= tile_messages(group.coefficients, _steps(tables, node, groups, node.tile, group.dims))
    weights: list[Pair] = []
    for component in tables.measure.components:
        is_memory = node.level < tables.problem.level_count
        written = component.write[node.level][term.index] if is_memory else 0
        read = messages * component.read[node.parent][term.index]
        if not component.busiest:
            written *= spread.instances(node.level)
            read *= spread.instances(node.parent)
        weights.append((written, read))
    return WindowNode(node.parent, node.level, node.tile, tuple(weights))


def _steps(
    tables: Tables, node: WindowNode, groups: Groups, inside: tuple[int, ...], dims: tuple[str, ...]
) -> tuple[DimStep, ...]:
    return tuple(_dim(tables, node, groups, inside, dim) for dim in dims)


def _dim(tables: Tables, node: WindowNode, groups: Groups, inside: tuple[int, ...], dim: str) -> DimStep:
    d = tables.problem.dims.index(dim)
    spread = Spread(tables.problem, tables.structure, ())
    known = dict(zip(_busy(spread, dim), spread.crossings(dim, node.parent, node.level, above=True), strict=True))
    crossings: list[Crossing] = []
    order: list[tuple[int, int]] = []
    for below, tile in groups:
        if below in known:
            order.append((len(crossings), tile[d]))
            crossings.append(known[below])
    return _step(node.tile[d], inside[d], tuple(crossings), tuple(order))


def _busy(spread: Spread, dim: str) -> list[int]:
    """Return the fan-out groups over which the dim is spread, in the order of Spread.crossings."""
    return [below for below in spread.groups() if spread.group_factor(dim, below) > 1]


@lru_cache(maxsize=100_000)
def _step(tile: int, inside: int, crossings: tuple[Crossing, ...], order: tuple[tuple[int, int], ...]) -> DimStep:
    return dim_step(tile, inside, crossings, order)


def window_size(tables: Tables, term: TensorTerm, node: WindowNode, groups: Groups) -> Pair:
    """Return the elements that one instance of the node holds, and those of one message that loads it whole."""
    fills = reads = _plain_size(tables, term, node)
    for group in term.groups:
        if group.is_window:
            steps = _steps(tables, node, groups, node.tile, group.dims)
            fills *= tile_counts(group.coefficients, steps, Count.FILLS)[0]
            reads *= tile_counts(group.coefficients, steps, Count.READS)[0]
    return fills, reads


def _plain_size(tables: Tables, term: TensorTerm, node: WindowNode) -> int:
    """Return the tile's extent along the groups of one dim."""
    spread = Spread(tables.problem, tables.structure, tables.context.places)
    last = tables.problem.level_count
    total = 1
    for group in term.groups:
        if not group.is_window:
            d = tables.problem.dims.index(group.dims[0])
            total *= node.tile[d] * spread.factor(group.dims[0], node.level, last)
    return total


def window_overlap(
    tables: Tables, term: TensorTerm, node: WindowNode, groups: Groups, inside: tuple[int, ...], carried: int
) -> Pair:
    """Return the elements that need no fill, and no read, when a loop over dim number `carried` goes on around loops up
    to `inside`."""
    name = tables.problem.dims[carried]
    for group in term.groups:
        if not group.is_window:
            d = tables.problem.dims.index(group.dims[0])
            if d == carried or inside[d] > node.tile[d]:
                return 0, 0
    fills = reads = _plain_size(tables, term, node)
    for group in term.groups:
        if group.is_window:
            steps = _steps(tables, node, groups, inside, group.dims)
            fills *= _kept(group.coefficients, group.dims, steps, name, Count.FILLS)
            reads *= _kept(group.coefficients, group.dims, steps, name, Count.READS)
    return fills, reads


def _kept(
    coefficients: tuple[int, ...], dims: tuple[str, ...], steps: tuple[DimStep, ...], carried: str, count: Count
) -> int:
    _, outside, own = tile_counts(coefficients, steps, count)
    return own[dims.index(carried)] if carried in dims else outside
