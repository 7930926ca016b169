"""Sums of products of factors, planned once for a tree and worked out for many mappings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from polymap.costmodel.tables.loops import Many
from polymap.costmodel.tables.rows import Factor, Rows

Term = tuple[int, tuple[int, ...]]  # coefficient, numbers of factors


class Terms:
    """A sum of terms, as a number that can be added, subtracted, and multiplied by integers."""

    __slots__ = ("each",)

    def __init__(self, each: Iterable[Term] = ()) -> None:
        self.each = tuple(each)

    def __add__(self, other: Terms) -> Terms:
        return Terms((*self.each, *other.each))

    def __sub__(self, other: Terms) -> Terms:
        return self + other * -1

    def __mul__(self, coefficient: int) -> Terms:
        return Terms((coefficient * each, numbers) for each, numbers in self.each)

    def __bool__(self) -> bool:
        return bool(self.each)


NO_TERMS = Terms()


class Factors:
    """The factors of a plan, each with a number."""

    __slots__ = ("_numbers", "known")

    def __init__(self) -> None:
        self._numbers: dict[tuple[type, Factor], int] = {}
        self.known: list[Factor] = []

    def term(self, parts: Iterable[Factor | int]) -> Term:
        """Return the product of factors and integers."""
        coefficient = 1
        numbers: list[int] = []
        for part in parts:
            if isinstance(part, int):
                coefficient *= part
            else:
                numbers.append(self._number(part))
        return coefficient, tuple(sorted(numbers))

    def _number(self, factor: Factor) -> int:
        key = (type(factor), factor)
        if key not in self._numbers:
            self._numbers[key] = len(self.known)
            self.known.append(factor)
        return self._numbers[key]


class Nested(NamedTuple):
    """constant + the sum of factor * inner over the branches."""

    constant: int
    branches: tuple[tuple[int, Nested], ...]


def nested(terms: Terms) -> Nested:
    """Return the sum with common factors taken out, the commonest first."""
    merged: Counter[tuple[int, ...]] = Counter()
    for coefficient, numbers in terms.each:
        merged[numbers] += coefficient
    left: list[Term] = [(coefficient, numbers) for numbers, coefficient in merged.items() if coefficient]
    constant = sum(coefficient for coefficient, numbers in left if not numbers)
    left = [term for term in left if term[1]]
    branches: list[tuple[int, Nested]] = []
    while left:
        common: Counter[int] = Counter(number for _, numbers in left for number in set(numbers))
        number = max(common, key=lambda each: (common[each], -each))
        inside = Terms((each, _without(numbers, number)) for each, numbers in left if number in numbers)
        left = [term for term in left if number not in term[1]]
        branches.append((number, nested(inside)))
    return Nested(constant, tuple(branches))


def _without(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
    at = numbers.index(number)
    return numbers[:at] + numbers[at + 1 :]


def worked_out(plan: Nested, rows: Rows, factors: Sequence[Factor]) -> Many:
    """Return the value of a sum for the rows that `rows` is at."""
    total: Many = plan.constant
    for number, inner in plan.branches:
        value = rows.values(number, factors[number])
        if isinstance(value, int) and value == 0:
            continue
        rest = worked_out(inner, rows, factors)
        if isinstance(rest, int) and rest in (0, 1):
            product = value if rest else 0
        else:
            product = value * rest
        total = product if isinstance(total, int) and total == 0 else total + product
    return total
