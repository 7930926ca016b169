"""Statements over other dims: every dim replaced by a quasi-affine function of others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from polymap.ir.loopnest import Access, Expression, Index, Statement, with_parts
from polymap.ir.quasi_affine import Affine, Floor, dim


def with_indices(statement: Statement, values: Mapping[str, Affine]) -> Statement:
    """Return the statement with its dims replaced in accesses and expressions; loops and constraints stay."""
    return replace(
        statement,
        target=_access(statement.target, values),
        reads=tuple(_access(each, values) for each in statement.reads),
        expression=_expression(statement.expression, values),
    )


def _access(access: Access, values: Mapping[str, Affine]) -> Access:
    return Access(access.tensor, tuple(substituted(each, values) for each in access.index))


def _expression(expression: Expression, values: Mapping[str, Affine]) -> Expression:
    if isinstance(expression, Index):
        return Index(substituted(expression.value, values))
    return with_parts(expression, lambda part: _expression(part, values))


def substituted(expression: Affine, values: Mapping[str, Affine]) -> Affine:
    """Return the expression with every dim replaced by its value, those without one as they are."""
    total = Affine((), expression.constant)
    for coefficient, atom in expression.terms:
        if isinstance(atom, str):
            total = total + (values[atom] if atom in values else dim(atom)) * coefficient
            continue
        inner = substituted(atom.argument, values)
        if inner.terms:
            total = total + Affine(((coefficient, Floor(inner, atom.divisor)),))
        else:
            total = total + coefficient * (inner.constant // atom.divisor)
    return total
