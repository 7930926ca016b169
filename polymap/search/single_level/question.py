"""The question of a buffer curve as this package reads it: an accumulation over a box, one level below the
outermost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, combinations, permutations
from math import ceil, gcd, isqrt, prod

from polymap.search.any_size import fewest_in_box
from polymap.search.problem import IndexGroup, Measure, Problem, node_weights, zero_start
from polymap.search.single_level.tuning import TUNING

MOST_BITS = 1 << 53  # of all tensors: sizes and room are integers that float64 holds
MOST_COST = 1 << 1000  # of a mapping: float64 holds sums and multiples of it


@dataclass(frozen=True, slots=True)
class Window:
    """Two dims that share an axis of a tensor, and the coefficients of their indices."""

    dims: tuple[int, int]
    coefficients: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor. bits: per element. elements: in all. plain: dims (of 2 indices or more) that index it alone. lacking:
    the dims that it lacks.

    weight, saved: `loads` into the buffer move weight * loads - saved bits at the outermost level; bypass: the bits
    where the buffer does not hold it. (Of `priced_question` all three are costs.) may, must: the buffer may, or must,
    hold it.
    """

    number: int
    bits: int
    elements: int
    plain: tuple[int, ...]
    windows: tuple[Window, ...]
    lacking: tuple[int, ...]
    weight: int
    saved: int
    bypass: int
    may: bool
    must: bool

    @property
    def own(self) -> tuple[int, ...]:
        return (*self.plain, *(dim for window in self.windows for dim in window.dims))

    @property
    def cuts(self) -> Iterator[tuple[int, ...]]:
        """Yield all non-empty subsets of the plain dims."""
        return chain.from_iterable(combinations(self.plain, count) for count in range(1, len(self.plain) + 1))


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
        return sum(max(one.bypass, one.weight * self.instances - one.saved) for one in self.operands)

    @property
    def grain(self) -> int:
        """Return a number of bits that what mappings move is a multiple of."""
        return gcd(*(amount for one in self.operands for amount in (one.weight, one.saved, one.bypass))) or 1

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
        return sum(one.bypass for one in self.operands if one not in held)


def margin_of(question: Question) -> Fraction:
    """Return the largest relative error by which float64 may raise a bound above its exact value (derived in
    `bounds.py`)."""
    return Fraction(16 * len(question.extents) + 64, 1 << 53) * ceil(_cancellation(question) / 2)


def _cancellation(question: Question) -> Fraction:
    """Return how much larger weight * loads may be than weight * loads - saved, at least 2."""
    least = [(one.weight * one.elements, one.saved) for one in question.operands]
    return max([Fraction(2), *(Fraction(loaded, loaded - saved) for loaded, saved in least if loaded > saved)])


def priced_question(problem: Problem, measure: Measure) -> tuple[Question, int] | None:
    """Return the question with the costs of a measure's one component in place of bits, and a cost of every mapping
    beside that; None where this package does not apply, or not to such costs."""
    question, (component, *others) = read_question(problem), measure.components
    is_sum = measure.is_linear and not others and not component.busiest and not component.held and not measure.limits
    if question is None or not is_sum:
        return None
    operands: list[Operand] = []
    for one, term in zip(question.operands, problem.terms, strict=True):
        node, inside, outside = (
            node_weights(problem, term, component, *levels) for levels in ((0, (1,)), (1, (2,)), (0, (2,)))
        )
        weight, start = node.fill + node.message, zero_start(term, component)
        credit = term.zero_starts * node.fill if term.is_output else 0
        saved, bypass = credit - start - inside.message * question.instances, outside.message * question.instances
        operands.append(replace(one, weight=weight, saved=saved, bypass=bypass + start))
        if weight < 0 or bypass + start < 0 or (weight and weight * one.elements <= saved):
            return None
    found = Question(question.extents, tuple(operands))
    is_exact_enough = _cancellation(found) <= TUNING.most_cancelled and found.most_bits < MOST_COST
    return (found, measure.fixed_energy) if is_exact_enough else None


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
        bypass = weight * prod(problem.extents) - saved
        operands.append(Operand(term.index, bits, elements, plain, windows, lacking, weight, saved, bypass, may, must))
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
