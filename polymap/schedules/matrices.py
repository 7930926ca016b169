"""Scattering functions as matrices."""

from __future__ import annotations

from dataclasses import dataclass

from polymap.ir import Affine, Floor
from polymap.schedules.scattering import Schedule


@dataclass(frozen=True, slots=True)
class ScatteringMatrix:
    """When the instances of a statement run. columns: its counters, then its floors, then 1. rows: a time each, as
    coefficients of the columns; the times are compared lexicographically."""

    statement: str
    dims: tuple[str, ...]
    times: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]


def scattering_matrices(schedule: Schedule) -> tuple[ScatteringMatrix, ...]:
    """Return one matrix per statement, in textual order."""
    found: list[ScatteringMatrix] = []
    for statement in schedule.workload.statements:
        times = schedule.times[statement.name]
        atoms: dict[str | Floor, None] = dict.fromkeys(statement.dims)
        atoms.update(dict.fromkeys(atom for time in times for _, atom in time.terms))
        columns = (*(str(Affine(((1, atom),))) for atom in atoms), "1")
        rows = tuple((*({a: c for c, a in time.terms}.get(atom, 0) for atom in atoms), time.constant) for time in times)
        found.append(ScatteringMatrix(statement.name, statement.dims, tuple(map(str, times)), columns, rows))
    return tuple(found)
