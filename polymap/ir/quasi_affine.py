"""Quasi-affine expressions over named dims: integer multiples of dims and of floors of such sums, plus a constant.

Pure Python: what isl sets and maps are built from, and what everything else evaluates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Floor:
    """floor(argument / divisor), the divisor a positive integer."""

    argument: Affine
    divisor: int

    def evaluate(self, point: Mapping[str, int]) -> int:
        return self.argument.evaluate(point) // self.divisor


@dataclass(frozen=True, slots=True)
class Affine:
    """The sum of `coefficient * atom` over `terms`, plus `constant`; an atom is a dim's name or a Floor.

    Build it with `affine()` or with + - *: then every atom occurs once, in order of first occurrence, and no
    coefficient is zero.
    """

    terms: tuple[tuple[int, str | Floor], ...] = ()
    constant: int = 0

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.constant + other)
        return affine((*self.terms, *other.terms), self.constant + other.constant)

    def __sub__(self, other: Affine | int) -> Affine:
        return self + (-other)

    def __neg__(self) -> Affine:
        return self * -1

    def __mul__(self, factor: int) -> Affine:
        return affine(tuple((factor * c, atom) for c, atom in self.terms), factor * self.constant)

    def evaluate(self, point: Mapping[str, int]) -> int:
        """Return the value at `point` (dim name -> integer)."""
        total = self.constant
        for coefficient, atom in self.terms:
            total += coefficient * (point[atom] if isinstance(atom, str) else atom.evaluate(point))
        return total

    @property
    def dims(self) -> tuple[str, ...]:
        """Return the names that occur, floors included, in order of first occurrence."""
        names: dict[str, None] = {}
        for _, atom in self.terms:
            for name in (atom,) if isinstance(atom, str) else atom.argument.dims:
                names[name] = None
        return tuple(names)

    @property
    def floors(self) -> tuple[Floor, ...]:
        """Return the floors that occur, inner ones first."""
        nested = ((*atom.argument.floors, atom) for _, atom in self.terms if isinstance(atom, Floor))
        return tuple(floor for floors in nested for floor in floors)

    @property
    def is_linear(self) -> bool:
        """Return whether no floor occurs."""
        return all(isinstance(atom, str) for _, atom in self.terms)

    def coefficients(self) -> dict[str, int]:
        """Return dim name -> coefficient of a linear expression (assert: no floor occurs)."""
        assert self.is_linear  # who asks has looked
        return {atom: coefficient for coefficient, atom in self.terms if isinstance(atom, str)}

    def reach(self, extents: Mapping[str, int]) -> int:
        """Return how many values from 0 on it is known to take, each: where each dim steps no further than those before
        it reach; else 0."""
        if len(self.terms) == 1 and not self.constant:
            ((step, atom),) = self.terms
            return extents[atom] if step == 1 and isinstance(atom, str) else 0
        found = 1 if self.is_linear and not self.constant else 0
        for name, step in sorted(self.coefficients().items(), key=lambda step: step[1]) if self.is_linear else ():
            found = found + step * (extents[name] - 1) if 0 < step <= found else 0
        return found

    def tells_apart(self, extents: Mapping[str, int]) -> bool:
        """Return whether it is known to take another value for other values of its dims: each steps further than those
        before it reach, as digits of a number do."""
        reached = 0
        for name, step in sorted(self.coefficients().items(), key=lambda step: abs(step[1])) if self.is_linear else ():
            if abs(step) <= reached:
                return False
            reached += abs(step) * (extents[name] - 1)
        return self.is_linear

    def magnitude(self, extents: Mapping[str, int]) -> int:
        """Return a bound on all intermediate values over the box 0 <= dim < extent."""
        sizes = (
            (factor, extents[atom] if isinstance(atom, str) else atom.argument.magnitude(extents) + atom.divisor)
            for factor, atom in self.terms
        )
        return abs(self.constant) + sum(abs(factor) * size for factor, size in sizes)

    def __str__(self) -> str:
        text = ""
        for coefficient, atom in self.terms:
            name = atom if isinstance(atom, str) else f"floor(({atom.argument})/{atom.divisor})"
            size = abs(coefficient)
            text += (" - " if coefficient < 0 else " + ") + (name if size == 1 else f"{size}*{name}")
        if self.constant or not text:
            text += (" - " if self.constant < 0 else " + ") + str(abs(self.constant))
        return text[3:] if text.startswith(" + ") else "-" + text[3:]


def affine(terms: tuple[tuple[int, str | Floor], ...], constant: int = 0) -> Affine:
    """Return the canonical sum: like atoms joined, zeros dropped."""
    totals: dict[str | Floor, int] = {}
    for coefficient, atom in terms:
        totals[atom] = totals.get(atom, 0) + coefficient
    return Affine(tuple((c, atom) for atom, c in totals.items() if c), constant)


def block_of(value: Affine, size: int) -> Affine:
    """Return floor(value / size), as a floor wherever it is none of a constant."""
    if size == 1:
        return value
    return affine(((1, Floor(value, size)),)) if value.terms else Affine((), value.constant // size)


def quotient(value: Affine, divisor: int) -> Affine:
    """Return floor(value / divisor), without the floor where that is plain."""
    if all(factor % divisor == 0 for factor, _ in value.terms):
        return Affine(tuple((factor // divisor, atom) for factor, atom in value.terms), value.constant // divisor)
    return affine(((1, Floor(value, divisor)),))


def dim(name: str) -> Affine:
    """Return the expression that is one dim."""
    return Affine(((1, name),))


def bounds(expression: Affine, extents: Mapping[str, int]) -> tuple[int, int]:
    """Return lower and upper bounds (inclusive) over the box 0 <= dim < extent; attained when it is linear."""
    low = high = expression.constant
    for coefficient, atom in expression.terms:
        if isinstance(atom, str):
            ends = (0, extents[atom] - 1)
        else:
            ends = tuple(end // atom.divisor for end in bounds(atom.argument, extents))
        low += min(coefficient * ends[0], coefficient * ends[1])
        high += max(coefficient * ends[0], coefficient * ends[1])
    return low, high
