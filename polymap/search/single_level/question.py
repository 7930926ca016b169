"""The question of a buffer curve as this package reads it: an accumulation over a box, one level below the
outermost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations
from math import isqrt, prod

from polymap.search.any_size import fewest_in_box
from polymap.search.problem import IndexGroup, Problem
from polymap.search.single_level.tuning import TUNING

MOST_BITS = 1 << 53  # of all tensors: sizes and room are integers that float64 holds


@dataclass(frozen=True, slots=True)
class Window:
    """Two dims that share an axis of a tensor, and the coefficients of their indices."""

    dims: tuple[int, int]
    coefficients: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor. bits: per element. elements: in all. plain: dims (of 2 indices or more) that index it alone. lacking:
    the dims that it lacks.

    weight, saved: `loads` into the buffer move weight * loads - saved bits at the outermost level. may, must: the
    buffer may, or must, hold it.
    """

    number: int
    bits: int
    elements: int
    plain: tuple[int, ...]
    windows: tuple[Window, ...]
    lacking: tuple[int, ...]
    weight: int
    saved: int
    may: bool
    must: bool

    @property
    def own(self) -> tuple[int, ...]:
        return (*self.plain, *(dim for window in self.windows for dim in window.dims))


@dataclass(frozen=True, slots=True)
class Question:
    """Extents per dim, and the tensors."""

    extents: tuple[int, ...]
    operands: tuple[Operand, ...]

    @property
    def instances(self) -> int:
        return prod(self.extents)

    @property
    def bits(self) -> int:
        """Return an upper bound on the bits of all tensors together, and so on those that a mapping holds."""
        return sum(one.bits * prod(self.extents[d] for d in one.own) for one in self.operands)

    @property
    def most_bits(self) -> int:
        """Return bits that no mapping exceeds: each statement instance loads an element of every tensor."""
        return sum(one.weight * self.instances for one in self.operands)

    def orders(self) -> Iterator[tuple[Operand, ...]]:
        """Yield every choice of tensors that the buffer holds, in every order of their nodes."""
        free = [one for one in self.operands if one.may and not one.must]
        fixed = [one for one in self.operands if one.must]
        for count in range(len(free) + 1):
            for chosen in combinations(free, count):
                yield from permutations((*fixed, *chosen))

    def bypassing(self, held: tuple[Operand, ...]) -> int:
        """Return the bits that the other tensors move: each statement instance reads or updates them at the outermost
        level."""
        others = [one for one in self.operands if one not in held]
        return sum(one.weight * self.instances - one.saved for one in others)


def margin_of(question: Question) -> Fraction:
    """Return the largest relative error by which float64 may raise a bound above its exact value (derived in
    `bounds.py`)."""
    return Fraction(16 * len(question.extents) + 64, 1 << 53)


def read_question(problem: Problem) -> Question | None:
    """Return the question, or None where this package does not apply.

    It does not apply to more than two levels, fan-outs, windows of more than two dims, and sizes beyond `MOST_BITS`,
    `TUNING.most_cells`, `TUNING.most_tabled`.
    """
    is_small = problem.reason is None and problem.level_count == 2 and not problem.arch.fanouts and not problem.rules
    if not is_small or len(problem.terms) > 3:
        return None
    operands: list[Operand] = []
    for term in problem.terms:
        groups = [_moving_part(problem, group) for group in term.groups]
        if any(len(group.dims) > 2 for group in groups):
            return None
        plain = tuple(problem.dims.index(group.dims[0]) for group in groups if len(group.dims) == 1)
        windows = tuple(_window(problem, group) for group in groups if len(group.dims) == 2)
        own = {*plain, *(dim for window in windows for dim in window.dims)}
        lacking = tuple(d for d, extent in enumerate(problem.extents) if extent > 1 and d not in own)
        elements = prod(problem.extents[d] for d in plain)
        for window in windows:
            elements *= fewest_in_box(
                window.coefficients, (problem.extents[window.dims[0]], problem.extents[window.dims[1]])
            )
        bits = term.tensor.bits
        saved = bits * elements if term.is_output and not term.tensor.initial else 0
        weight = 2 * bits if term.is_output else bits
        may, must = 1 in term.may_hold, 1 in term.must_hold
        operands.append(Operand(term.index, bits, elements, plain, windows, lacking, weight, saved, may, must))
    question = Question(problem.extents, tuple(operands))
    return question if _is_small(question) else None


def _is_small(question: Question) -> bool:
    """Return whether tiles can be examined one by one, and sizes counted without rounding."""
    cells = prod(min(n, 2 * isqrt(n) + 1) for n in question.extents)
    windows = (window for one in question.operands for window in one.windows)
    tabled = max((prod(question.extents[d] for d in window.dims) for window in windows), default=0)
    return question.bits < MOST_BITS and cells <= TUNING.most_cells and tabled <= TUNING.most_tabled


def _moving_part(problem: Problem, group: IndexGroup) -> IndexGroup:
    """Return the part of a group over dims of two indices or more."""
    pairs = [
        (dim, c)
        for dim, c in zip(group.dims, group.coefficients, strict=True)
        if problem.extents[problem.dims.index(dim)] > 1
    ]
    return IndexGroup(tuple(dim for dim, _ in pairs), tuple(c for _, c in pairs))


def _window(problem: Problem, group: IndexGroup) -> Window:
    first, second = (problem.dims.index(dim) for dim in group.dims)
    return Window((first, second), (group.coefficients[0], group.coefficients[1]))
