"""A program with loops renamed, shifted and skewed: the same instances in the same order, over other dims.

Loops of different nests that get one name can be fused by a loop tree; skewed loops can be tiled where the original
ones cannot. A loop `i` becomes `i' = i + c + f1*t1 + f2*t2 + ...` over loops around it, so the order of the program's
text stays as it is, and its dependences with it.
"""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import dataclass, replace

import numpy as np

from polymap.ir import (
    Access,
    Affine,
    Apply,
    Convert,
    Dim,
    Expression,
    Floor,
    Index,
    Number,
    Read,
    Statement,
    Workload,
    affine,
    dim,
)
from polymap.search.programs.instances import Ints, ProgramArrays, evaluated


@dataclass(frozen=True, slots=True)
class NewLoop:
    """What a loop becomes: its new name, what is added to its counter, and multiples of counters of loops around it."""

    name: str
    shift: int = 0
    skews: tuple[tuple[str, int], ...] = ()


Rewriting = tuple[tuple[str, NewLoop], ...]  # old dim -> what it becomes; dims not named stay


def rewritten(arrays: ProgramArrays, rewriting: Rewriting) -> ProgramArrays:
    """Return the program over its new dims. Shifts are moved so that every new dim begins at 0.

    Two loops around one statement must not get one name.
    """
    workload, new = arrays.workload, dict(rewriting)
    values = {each.name: _value(each.name, new) for each in workload.dims}
    columns = {
        (number, old): evaluated(values[old], dict(zip(each.dims, points, strict=True)), points.shape[1])
        for number, (each, points) in enumerate(zip(workload.statements, arrays.points, strict=True))
        for old in each.dims
    }
    names = {old: new[old].name if old in new else old for old in values}
    low, extent = _ranges(names, columns, {old: workload.extents()[old] for old in values if values[old] == dim(old)})
    dims = tuple(_dim(workload, names, name, extent[name]) for name in dict.fromkeys(names.values()) if name in extent)
    olds = {old: _old(old, new, low.get(names[old], 0)) for old in values}
    extents = workload.extents()
    statements = tuple(_statement(each, names, olds, extents, extent) for each in workload.statements)
    points = tuple(
        np.stack([columns[number, old] - low[names[old]] for old in each.dims]).astype(np.int32)
        if each.dims
        else arrays.points[number]
        for number, each in enumerate(workload.statements)
    )
    return replace(arrays, workload=replace(workload, dims=dims, statements=statements), points=points)


def _ranges(
    names: Table[str, str], columns: Table[tuple[int, str], Ints], renamed: Table[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the least value of every new dim, and how many values it has. renamed: the extents of loops that are at
    most renamed."""
    ends = [(names[old], 0, extent - 1) for old, extent in renamed.items()]
    ends += [
        (names[old], int(column.min()), int(column.max()))
        for (_, old), column in columns.items()
        if old not in renamed and len(column)
    ]
    low: dict[str, int] = {}
    high: dict[str, int] = {}
    for name, least, most in ends:
        low[name] = min(low.get(name, least), least)
        high[name] = max(high.get(name, most), most)
    return low, {name: high[name] - low[name] + 1 for name in low}


def _value(old: str, new: Table[str, NewLoop]) -> Affine:
    """Return a new counter as a function of the old ones, apart from the shift to 0."""
    loop = new.get(old)
    if loop is None:
        return dim(old)
    return affine(((1, old), *((factor, outer) for outer, factor in loop.skews)), loop.shift)


def _old(old: str, new: Table[str, NewLoop], low: int) -> Affine:
    """Return an old counter as a function of the new ones. Loops that others are skewed by are not skewed themselves,
    nor shifted."""
    loop = new.get(old, NewLoop(old))
    terms = ((1, loop.name), *((-factor, new[outer].name if outer in new else outer) for outer, factor in loop.skews))
    return affine(terms, low - loop.shift)


def _dim(workload: Workload, names: Table[str, str], name: str, extent: int) -> Dim:
    own = next(each for each in workload.dims if names[each.name] == name)
    same = own.name == name and own.extent == extent
    return own if same else Dim(name, extent)


def _statement(
    statement: Statement,
    names: Table[str, str],
    olds: Table[str, Affine],
    extents: Table[str, int],
    extent: Table[str, int],
) -> Statement:
    values = {old: olds[old] for old in statement.dims}
    constraints = [substituted(each, values) for each in statement.constraints]
    for old in statement.dims:
        if values[old] != dim(names[old]):
            constraints.append(values[old])
        if values[old] != dim(names[old]) or extents[old] != extent[names[old]]:
            constraints.append(-values[old] + (extents[old] - 1))
    dims = tuple(names[old] for old in statement.dims)
    kept = tuple(each for each in dict.fromkeys(constraints) if each.terms)
    return replace(with_values(statement, values), dims=dims, constraints=kept)


def with_values(statement: Statement, values: Table[str, Affine]) -> Statement:
    """Return the statement with its counters replaced in accesses and expressions; loops and constraints stay."""
    return replace(
        statement,
        target=_access(statement.target, values),
        reads=tuple(_access(each, values) for each in statement.reads),
        expression=_expression(statement.expression, values),
    )


def _access(access: Access, values: Table[str, Affine]) -> Access:
    return Access(access.tensor, tuple(substituted(each, values) for each in access.index))


def _expression(expression: Expression, values: Table[str, Affine]) -> Expression:
    match expression:
        case Index(value):
            return Index(substituted(value, values))
        case Apply(operation, arguments):
            return Apply(operation, tuple(_expression(each, values) for each in arguments))
        case Convert():
            return replace(expression, value=_expression(expression.value, values))
        case Read() | Number():
            return expression


def substituted(expression: Affine, values: Table[str, Affine]) -> Affine:
    """Return the expression with every dim replaced by its value."""
    total = Affine((), expression.constant)
    for coefficient, atom in expression.terms:
        if isinstance(atom, str):
            total = total + values[atom] * coefficient
            continue
        inner = substituted(atom.argument, values)
        if inner.terms:
            total = total + Affine(((coefficient, Floor(inner, atom.divisor)),))
        else:
            total = total + coefficient * (inner.constant // atom.divisor)
    return total
