"""Conditions as formulas over loop counters, and as constraints and numbers: 1 where one holds, 0 where it does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from polymap.ir.quasi_affine import Affine, Floor, affine, bounds


@dataclass(frozen=True, slots=True)
class Atom:
    """expression >= 0."""

    expression: Affine


@dataclass(frozen=True, slots=True)
class Every:
    """All parts hold (none: true)."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """At least one part holds (none: false)."""

    parts: tuple[Formula, ...]


Formula = Atom | Every | Some


def floored(value: Affine, divisor: int) -> Affine:
    """Return value / divisor, rounded down."""
    if divisor == 1:
        return value
    if not value.terms:
        return Affine((), value.constant // divisor)
    return affine(((1, Floor(value, divisor)),))


def is_zero(value: Affine) -> Formula:
    """Return the formula that holds where the value is 0."""
    return Every((Atom(value), Atom(-value)))


def negation(formula: Formula) -> Formula:
    """Return the formula that holds exactly where this one does not."""
    match formula:
        case Atom(expression):
            return Atom(-expression - 1)
        case Every(parts):
            return Some(tuple(negation(part) for part in parts))
        case Some(parts):
            return Every(tuple(negation(part) for part in parts))


def constraints_of(formula: Formula, extents: Mapping[str, int]) -> tuple[Affine, ...] | None:
    """Return expressions that are all >= 0 exactly where the formula holds; None where it never does."""
    formula = _simplified(formula, extents)
    match formula:
        case Atom(expression):
            return (expression,)
        case Every(parts):
            lists = [constraints_of(part, extents) for part in parts]
            return tuple(each for listed in lists if listed is not None for each in listed)
        case Some(()):
            return None
        case Some():
            return (truth(formula, extents) - 1,)


def _simplified(formula: Formula, extents: Mapping[str, int]) -> Formula:
    """Return the formula without the parts that are decided over the whole box."""
    match formula:
        case Atom(expression):
            low, high = bounds(expression, extents)
            return Every(()) if low >= 0 else Some(()) if high < 0 else formula
        case Every(parts):
            kept = [part for part in (_simplified(each, extents) for each in parts) if part != Every(())]
            return Some(()) if Some(()) in kept else kept[0] if len(kept) == 1 else Every(tuple(kept))
        case Some(parts):
            kept = [part for part in (_simplified(each, extents) for each in parts) if part != Some(())]
            return Every(()) if Every(()) in kept else kept[0] if len(kept) == 1 else Some(tuple(kept))


def truth(formula: Formula, extents: Mapping[str, int]) -> Affine:
    """Return 1 where the formula holds and 0 where it does not, as a quasi-affine expression over the box."""
    match formula:
        case Atom(expression):
            low, high = bounds(expression, extents)
            if low >= 0 or high < 0:
                return Affine((), int(low >= 0))
            return floored(expression, max(high, -low) + 1) + 1
        case Every(parts):
            total = _total(parts, extents)
            return floored(total - len(parts), max(len(parts), 1)) + 1
        case Some(parts):
            total = _total(parts, extents)
            return floored(total + (len(parts) - 1), len(parts)) if parts else Affine()


def _total(parts: tuple[Formula, ...], extents: Mapping[str, int]) -> Affine:
    total = Affine()
    for part in parts:
        total = total + truth(part, extents)
    return total
