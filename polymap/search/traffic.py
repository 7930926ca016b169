"""Exact loads of a window tensor's nodes once the spatial loops have their places (used by leaf.py)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from polymap.arch.machine import Multicast
from polymap.search.chain import ChainNode
from polymap.search.problem import IndexGroup, TensorTerm
from polymap.search.spread import Spread
from polymap.search.tables import Tables
from polymap.search.windows import Crossing, DimStep, dim_step, form_set, overlap

Groups = tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class WindowNode:
    """A storage node of the window tensor: its level, its temporal tile, and the cost of one load per component."""

    level: int
    tile: tuple[int, ...]
    weights: tuple[int, ...]


def weights_of(tables: Tables, term: TensorTerm, node: ChainNode | None, groups: Groups, holder: int = 0) -> WindowNode:
    """Return the node with its weights; for node None the compute unit reading from level `holder`."""
    spread = Spread(tables.problem, tables.structure, tables.context.places)
    last = tables.problem.level_count
    parent, level = (holder, last) if node is None else (node.parent, node.level)
    messages = spread.shared_messages(term, parent, level)
    for group in term.groups:
        if group.is_window:
            messages *= _offsets(tables, group, parent, level, groups)
    weights: list[int] = []
    for component in tables.measure.components:
        written = 0 if node is None else component.write[level][term.index]
        read = messages * component.read[parent][term.index]
        if not component.busiest:
            written *= spread.instances(level)
            read *= spread.instances(parent)
        weights.append(written + read)
    tile = tuple(1 for _ in tables.problem.dims) if node is None else node.tile
    return WindowNode(level, tile, tuple(weights))


def _offsets(tables: Tables, group: IndexGroup, after: int, upto: int, groups: Groups) -> int:
    """Return the number of distinct tiles of the siblings between two levels along a window group."""
    between = [one.below for one in tables.problem.classes if after < one.below <= upto]
    kinds = {one.multicast for one in tables.problem.classes if after < one.below <= upto}
    if Multicast.UNION in kinds:
        return 1
    offsets = {0}
    for dim, coefficient in zip(group.dims, group.coefficients, strict=True):
        d = tables.problem.dims.index(dim)
        spread = 1
        for below, tile in groups:
            factor = _merged_factor(tables, below, d)
            if below in between:
                step = coefficient * tile[d] * spread
                offsets = {offset + step * i for offset in offsets for i in range(factor)}
            spread *= _factor(tables, below, d)
    return len(offsets)


def _factor(tables: Tables, below: int, d: int) -> int:
    rows = zip(tables.problem.classes, tables.structure.classes, strict=True)
    return prod(row[d] for one, row in rows if one.below == below)


def _merged_factor(tables: Tables, below: int, d: int) -> int:
    rows = zip(tables.problem.classes, tables.structure.classes, strict=True)
    return prod(row[d] for one, row in rows if one.below == below and one.multicast is not Multicast.NONE)


@lru_cache(maxsize=100_000)
def _step(tile: int, inside: int, crossings: tuple[Crossing, ...], order: tuple[tuple[int, int], ...]) -> DimStep:
    return dim_step(tile, inside, crossings, order)


def _dim(tables: Tables, node: WindowNode, groups: Groups, inside: tuple[int, ...], dim: str) -> DimStep:
    d = tables.problem.dims.index(dim)
    crossings: list[Crossing] = []
    order: list[tuple[int, int]] = []
    for below, tile in groups:
        factor = _factor(tables, below, d)
        if factor > 1:
            order.append((len(crossings), tile[d]))
            crossings.append(Crossing(factor, below <= node.level, may_stand_above=True))
    return _step(node.tile[d], inside[d], tuple(crossings), tuple(order))


def window_size(tables: Tables, term: TensorTerm, node: WindowNode, groups: Groups) -> int:
    """Return the elements that one instance of the node holds."""
    total = _plain_size(tables, term, node)
    for group in term.groups:
        if group.is_window:
            steps = [_dim(tables, node, groups, node.tile, dim) for dim in group.dims]
            total *= form_set(group.coefficients, tuple(step.indices for step in steps)).bit_count()
    return total


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
) -> int:
    """Return the elements that stay when a loop over dim number `carried` goes on around loops up to `inside`."""
    name = tables.problem.dims[carried]
    for group in term.groups:
        if not group.is_window:
            d = tables.problem.dims.index(group.dims[0])
            if d == carried or inside[d] > node.tile[d]:
                return 0
    total = _plain_size(tables, term, node)
    for group in term.groups:
        if group.is_window:
            steps = [_dim(tables, node, groups, inside, dim) for dim in group.dims]
            elements = form_set(group.coefficients, tuple(step.indices for step in steps))
            back = sum(c * step.reach for c, step in zip(group.coefficients, steps, strict=True))
            distance = -back
            if name in group.dims:
                position = group.dims.index(name)
                step, c = steps[position], group.coefficients[position]
                distance = c * step.carried - (back - c * step.reach)
            total *= overlap(elements, distance)
    return total
