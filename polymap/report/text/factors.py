"""The table level x dim of factors that users of other tools expect, derived from the loop tree.

A temporal loop belongs to the innermost level that has a storage node above it; a spatial loop to its fan-out.
"""

from __future__ import annotations

from dataclasses import dataclass

from polymap.formatting import exact, table
from polymap.ir import Architecture, ComputeUnit, Mapping, MemoryLevel, Spatial, Workload
from polymap.schedules import LoopInTree, view_of


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
    view = view_of(workload.extents(), mapping)
    factors: dict[tuple[str, str], int] = {}
    order = {level.name: number for number, level in enumerate(arch.levels)}
    level = arch.levels[0].name
    for each in next((found.above for found in view.computes if found.node.statement == name), ()):
        if isinstance(each, LoopInTree):
            key = (each.node.fanout if isinstance(each.node, Spatial) else level, each.node.dim)
            factors[key] = factors.get(key, 1) * each.trips
        else:
            level = max(level, each.node.level, key=lambda one: order[one])
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
