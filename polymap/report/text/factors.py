"""The table level x dim of factors that users of other tools expect, derived from the loop tree.

A temporal loop belongs to the innermost level that has a storage node above it; a spatial loop to its fan-out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from polymap.ir import (
    Architecture,
    Branch,
    Compute,
    ComputeUnit,
    Mapping,
    MappingNode,
    MemoryLevel,
    Spatial,
    Storage,
    Temporal,
    Workload,
)
from polymap.report.numbers import exact, table


@dataclass(frozen=True, slots=True)
class FactorRow:
    """A level's or fan-out's factors, one per dim; a dim of several loops there has their product."""

    name: str
    is_fanout: bool
    factors: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FactorTable:
    """The factors of the loops around one statement, in the machine's order.

    The product of a dim's column is its extent, or more where tiles do not divide.
    """

    statement: str
    dims: tuple[str, ...]
    rows: tuple[FactorRow, ...]


def factor_table(workload: Workload, arch: Architecture, mapping: Mapping, statement: str | None = None) -> FactorTable:
    """Return the factors of the loops around a statement (default: the first of the workload)."""
    name = workload.statements[0].name if statement is None else statement
    dims = tuple(workload.extents())
    tiles = workload.extents()
    factors: dict[tuple[str, str], int] = {}
    order = {level.name: number for number, level in enumerate(arch.levels)}
    level = arch.levels[0].name
    for node in path_to(mapping, name):
        match node:
            case Storage():
                level = max(level, node.level, key=lambda one: order[one])
            case Temporal() | Spatial():
                key = (node.fanout if isinstance(node, Spatial) else level, node.dim)
                factors[key] = factors.get(key, 1) * max(1, -(-tiles[node.dim] // node.tile))
                tiles[node.dim] = min(node.tile, tiles[node.dim])
            case Compute() | Branch():
                pass
    rows = tuple(
        FactorRow(node.name, not isinstance(node, MemoryLevel), tuple(factors.get((node.name, dim), 1) for dim in dims))
        for node in arch.nodes
        if not isinstance(node, ComputeUnit)
    )
    return FactorTable(name, dims, rows)


def factors_text(factors: FactorTable) -> str:
    """Return the table as text; a factor of one is a dot."""
    rows = [
        (
            f"{row.name}{' (parallel)' if row.is_fanout else ''}",
            *("." if one == 1 else exact(one) for one in row.factors),
        )
        for row in factors.rows
    ]
    return table(("factors", *factors.dims), rows)


def path_to(mapping: Mapping, statement: str) -> tuple[MappingNode, ...]:
    """Return the nodes around a statement, outermost first, branches left out (empty if it is not in the tree)."""
    return next(_paths(mapping.nodes, (), statement), ())


def _paths(
    nodes: tuple[MappingNode, ...], above: tuple[MappingNode, ...], statement: str
) -> Iterator[tuple[MappingNode, ...]]:
    for node in nodes:
        match node:
            case Compute():
                if node.statement == statement:
                    yield above
            case Branch():
                for child in node.children:
                    yield from _paths(child, above, statement)
            case Storage() | Temporal() | Spatial():
                above = (*above, node)
