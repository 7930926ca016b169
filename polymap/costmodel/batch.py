"""Many mappings of one tree shape at once: a table of tiles in, arrays of cost out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polymap.arch.machine import Architecture
from polymap.costmodel.cost import Cost
from polymap.costmodel.evaluate import evaluate
from polymap.errors import MappingError, OptionError, Problem
from polymap.schedules.mapping import Branch, Mapping, MappingNode, Spatial, Temporal
from polymap.workload.loopnest import Workload

IntegerArray = NDArray[np.int64] | NDArray[np.object_]


@dataclass(frozen=True, slots=True, eq=False)
class TrafficArrays:
    """Elements of `tensor` read, written, filled and drained at `level`, one entry per mapping."""

    level: str
    tensor: str
    reads: IntegerArray
    writes: IntegerArray
    fills: IntegerArray
    drains: IntegerArray


@dataclass(frozen=True, slots=True, eq=False)
class CostArrays:
    """The figures of `Cost`, each an array with one entry per mapping, in the order of the rows.

    Integers are int64, and Python integers (dtype object) in a column where one is too large for that.
    """

    legal: NDArray[np.bool_]
    instances: IntegerArray
    traffic: tuple[TrafficArrays, ...]
    occupancy_bits: tuple[tuple[str, IntegerArray], ...]
    energy_pj: NDArray[np.float64]
    energy_by_level_pj: tuple[tuple[str, NDArray[np.float64]], ...]
    compute_cycles: IntegerArray
    latency_cycles: IntegerArray
    utilization: NDArray[np.float64]


def evaluate_many(workload: Workload, arch: Architecture, tree: Mapping, tiles: ArrayLike) -> CostArrays:
    """Return the costs of the mappings that have the nodes of `tree` and, row by row, these tiles.

    tiles: integers [mappings, loops], a column per temporal or spatial loop in the order of the tree, outermost first
    (children of a branch one after the other); the tiles in `tree` itself do not matter. Exact, like `evaluate`, which
    counts each row.
    Raises OptionError for a table of another shape or type, MappingError naming the row that is no program.
    """
    table = _checked(tiles, sum(1 for _ in _loops(tree.nodes)))
    costs = [_row(workload, arch, tree, row, number) for number, row in enumerate(table)]
    return _columns(costs)


def _checked(tiles: ArrayLike, loops: int) -> list[list[int]]:
    table = np.asarray(tiles)
    if table.ndim != 2 or table.shape[1] != loops or not table.shape[0]:
        what = f"tiles has the shape {table.shape}, and the tree has {loops} loops"
        raise OptionError(Problem("PM562", what, f"A table [mappings, {loops}] with a row or more is wanted."))
    values: list[list[object]] = table.tolist()
    if not all(type(value) is int for row in values for value in row):
        raise OptionError(Problem("PM563", f"tiles has the type {table.dtype}", "Integers are wanted."))
    return [[value for value in row if isinstance(value, int)] for row in values]


def _loops(nodes: Sequence[MappingNode]) -> Iterator[Temporal | Spatial]:
    for node in nodes:
        if isinstance(node, Temporal | Spatial):
            yield node
        elif isinstance(node, Branch):
            for child in node.children:
                yield from _loops(child)


def _row(workload: Workload, arch: Architecture, tree: Mapping, row: Sequence[int], number: int) -> Cost:
    mapping = Mapping(_with_tiles(tree.nodes, iter(row)))
    try:
        return evaluate(workload, arch, mapping)
    except MappingError as error:
        located = (replace(problem, what=f"row {number}: {problem.what}") for problem in error.problems)
        raise MappingError(located) from None


def _with_tiles(nodes: Sequence[MappingNode], tiles: Iterator[int]) -> tuple[MappingNode, ...]:
    """Return the nodes with the next tiles, one per loop."""
    changed: list[MappingNode] = []
    for node in nodes:
        match node:
            case Temporal() | Spatial():
                changed.append(replace(node, tile=next(tiles)))
            case Branch(children):
                changed.append(Branch(tuple(_with_tiles(child, tiles) for child in children)))
            case _:
                changed.append(node)
    return tuple(changed)


def _columns(costs: Sequence[Cost]) -> CostArrays:
    def column(figure: Callable[[Cost], int]) -> IntegerArray:
        return _integers([figure(cost) for cost in costs])

    def named(figures: Callable[[Cost], tuple[tuple[str, int], ...]]) -> tuple[tuple[str, IntegerArray], ...]:
        names = [name for name, _ in figures(costs[0])]
        return tuple((name, _integers([figures(cost)[i][1] for cost in costs])) for i, name in enumerate(names))

    levels = [name for name, _ in costs[0].energy_by_level_pj]
    return CostArrays(
        legal=np.array([cost.legal for cost in costs], dtype=np.bool_),
        instances=column(lambda cost: cost.instances),
        traffic=tuple(_traffic(costs, number) for number in range(len(costs[0].traffic))),
        occupancy_bits=named(lambda cost: cost.occupancy_bits),
        energy_pj=np.array([cost.energy_pj for cost in costs], dtype=np.float64),
        energy_by_level_pj=tuple(
            (name, np.array([cost.energy_by_level_pj[i][1] for cost in costs], dtype=np.float64))
            for i, name in enumerate(levels)
        ),
        compute_cycles=column(lambda cost: cost.compute_cycles),
        latency_cycles=column(lambda cost: cost.latency_cycles),
        utilization=np.array([cost.utilization for cost in costs], dtype=np.float64),
    )


def _traffic(costs: Sequence[Cost], number: int) -> TrafficArrays:
    rows = [cost.traffic[number] for cost in costs]
    return TrafficArrays(
        rows[0].level,
        rows[0].tensor,
        reads=_integers([row.reads for row in rows]),
        writes=_integers([row.writes for row in rows]),
        fills=_integers([row.fills for row in rows]),
        drains=_integers([row.drains for row in rows]),
    )


def _integers(values: Sequence[int]) -> IntegerArray:
    if all(-(2**63) <= value < 2**63 for value in values):
        return np.array(values, dtype=np.int64)
    return np.array(values, dtype=np.object_)
