"""What the referees of the bounds from whole numbers of siblings ask of one tree or one structure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from polymap.ir import Mapping, Spatial, Temporal
from polymap.resources import Stop, never
from polymap.search.any_size.joint import JointBound, StructureBound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polymap.search.any_size.single_tensor import Counts, Working
    from polymap.search.problem import FanoutClass, Measure, Problem


def refine(
    problem: Problem,
    measure: Measure,
    counts: Counts,
    incumbent: int | None,
    limit: int = 60,
    stop: Stop = never,
    working: Working = (),
) -> JointBound:
    """Return a lower bound of the measure over all mappings with these sibling counts [class][dim], and where so many
    siblings have work.

    incumbent: a scaled value; refinement ends when the bound reaches it. limit: most rounds per component.
    """
    return StructureBound(problem, measure, counts, None, working).go_on(incumbent, limit, stop)


def sibling_counts(problem: Problem, mapping: Mapping) -> tuple[tuple[int, ...], ...]:
    """Return [class][dim] the siblings that have work in the first step of the first parent instance."""
    return tuple(
        tuple(_count_along(problem, mapping, one, d) for d in range(len(problem.dims))) for one in problem.classes
    )


def _count_along(problem: Problem, mapping: Mapping, one: FanoutClass, d: int) -> int:
    """Return how many siblings of one class work along a dim, all other loops in their first iteration."""
    names = {problem.arch.fanouts[f].name for f in one.fanouts}
    lengths = Counter({problem.extents[d]: 1})
    for node in mapping.nodes:
        if not isinstance(node, Spatial | Temporal) or node.dim != problem.dims[d]:
            continue
        spreads = isinstance(node, Spatial) and node.fanout in names
        below: Counter[int] = Counter()
        for length, times in lengths.items():
            below[min(length, node.tile)] += times * (length // node.tile if spreads and length > node.tile else 1)
            if spreads and length > node.tile and length % node.tile:
                below[length % node.tile] += times
        lengths = below
    return lengths.total()


def working_siblings(problem: Problem, mapping: Mapping) -> Working:
    """Return per dim how many combinations of coordinates have work along it, twice: index by index."""
    loops = [node for node in mapping.nodes if isinstance(node, Spatial | Temporal)]
    each = [
        len(worked([loop for loop in loops if loop.dim == dim], extent))
        for dim, extent in zip(problem.dims, problem.extents, strict=True)
    ]
    return tuple((one, one) for one in each)


def worked(loops: Sequence[Spatial | Temporal], extent: int) -> set[tuple[tuple[str, int], ...]]:
    """Return the coordinates along the spatial loops that have work, for every index of the dim."""
    found: set[tuple[tuple[str, int], ...]] = set()
    for index in range(extent):
        at: list[tuple[str, int]] = []
        for loop in loops:
            if isinstance(loop, Spatial):
                at.append((loop.fanout, index // loop.tile))
            index %= loop.tile
        found.add(tuple(at))
    return found
