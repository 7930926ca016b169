"""Mappings of a product with awkward extents: the best dividing ones of slightly larger products, cut to size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod

from polymap.ir import Access, Architecture, Branch, Mapping, MappingNode, Spatial, Temporal, Workload
from polymap.poly import split
from polymap.resources import Stop, Work
from polymap.search.dividing.product_search import best_product_tiles
from polymap.search.dividing.product_tuning import TUNING
from polymap.search.problem import Objective, Problem, analyse, measure_of


def mappings_of_padded(problem: Problem, objective: Objective, stop: Stop, work: Work) -> Iterator[Mapping]:
    """Yield, for products a little larger in some dims, the best mapping over dividing tiles with tiles cut to the
    problem's extents: legal trees of the problem, which may overfill nothing. Ends where `stop` says so. work: counts
    and limits steps."""
    dims = [_longer(extent) for extent in problem.extents]
    choices = sorted(product(*dims), key=lambda row: (prod(row), row))
    for row in [row for row in choices if row != problem.extents][: TUNING.most_products]:
        padded = with_extents(problem.workload, dict(zip(problem.dims, row, strict=True)))
        if padded is None or stop():
            return
        mapping = _best_mapping(padded, problem.arch, objective, stop, work)
        if mapping is not None:
            yield cut_to(mapping, problem.workload.extents())


def _longer(extent: int) -> tuple[int, ...]:
    """Return the extent and a few longer ones with many divisors."""
    if extent <= 2:
        return (extent,)
    more = max(TUNING.few_indices, extent * TUNING.most_padding_percent // 100)
    step = 1 << (more // TUNING.most_lengths).bit_length()
    lengths = range(extent // step * step + step, extent + more + 1, step)
    found = sorted(lengths, key=lambda n: (-prod(1 + times for _, times in split(n)[0]), n))
    return (extent, *sorted(found[: TUNING.extents_per_dim]))


def _best_mapping(
    workload: Workload, arch: Architecture, objective: Objective, stop: Stop, work: Work
) -> Mapping | None:
    problem = analyse(workload, arch)
    answer = best_product_tiles(problem, measure_of(objective, workload, arch), stop, work)
    return None if answer is None or answer.found is None else answer.found[1].mapping


def with_extents(workload: Workload, extents: dict[str, int]) -> Workload | None:
    """Return the program over other extents; None where it is no box or its accesses are not affine."""
    if workload.original is not None or any(each.constraints for each in workload.statements):
        return None
    shapes: dict[str, list[tuple[int, int]]] = {}
    for access in (each for statement in workload.statements for each in (statement.target, *statement.reads)):
        ends = _ends(access, extents)
        if ends is None:
            return None
        known = shapes.setdefault(access.tensor, ends)
        shapes[access.tensor] = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(known, ends, strict=True)]
    if set(shapes) != {tensor.name for tensor in workload.tensors}:
        return None
    tensors = tuple(
        replace(
            tensor,
            origin=tuple(low for low, _ in shapes[tensor.name]),
            shape=tuple(high - low + 1 for low, high in shapes[tensor.name]),
        )
        for tensor in workload.tensors
    )
    dims = tuple(replace(dim, extent=extents.get(dim.name, dim.extent)) for dim in workload.dims)
    return replace(workload, dims=dims, tensors=tensors)


def _ends(access: Access, extents: dict[str, int]) -> list[tuple[int, int]] | None:
    """Return the least and the largest index of each axis."""
    found: list[tuple[int, int]] = []
    for axis in access.index:
        moves: list[int] = []
        for coefficient, dim in axis.terms:
            if not isinstance(dim, str):
                return None
            moves.append(coefficient * (extents.get(dim, 1) - 1))
        low, high = sum(min(0, move) for move in moves), sum(max(0, move) for move in moves)
        found.append((axis.constant + low, axis.constant + high))
    return found


def cut_to(mapping: Mapping, extents: dict[str, int]) -> Mapping:
    """Return the mapping with tiles of at most what is left of each dim, without loops of one iteration."""
    return Mapping(_cut_nodes(mapping.nodes, extents))


def _cut_nodes(nodes: tuple[MappingNode, ...], extents: dict[str, int]) -> tuple[MappingNode, ...]:
    now, found = dict(extents), list[MappingNode]()
    for node in nodes:
        if isinstance(node, Branch):
            found.append(Branch(tuple(_cut_nodes(child, now) for child in node.children)))
        elif not isinstance(node, Spatial | Temporal):
            found.append(node)
        elif node.tile < now[node.dim]:
            now[node.dim] = node.tile
            found.append(node)
    return tuple(found)
