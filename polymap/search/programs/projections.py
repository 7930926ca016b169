"""How many instances there are at most where so many elements are touched: Hoelder's inequality, dim by dim.

Let E be a set of points of dims i, and for references j let E touch x_j elements. For exponents s, t >= 0, E has at
most prod x_j^s_j * prod N_i^t_i points (N_i: how many values dim i has) if, the dims being taken away one by one in
some order, for each dim t_i plus the exponents of the references that still vary along it is at least 1. A reference
varies along a dim if one of its index expressions that holds the dim is left; all of these go with the dim: Sum over i
of f(e(i, ...), ...) is at most the sum of f over all values of these expressions, which no dim changes, since the
values at different i are different (coefficients are not 0). The rest is the proof in costmodel.analysis.buffer_bound,
step 2.

Where in all points of E dim p > dim q, let E' be E with p and q exchanged: it has no point of E. E and E' together
touch, through j, what E touches through j and through j exchanged: what j's group of references touches if that is a
reference of the group (or j itself), twice what j touches if it is j with its axes in another order. Hence prod (m_j
x_j)^s_j * prod N_i^t_i is a bound of 2 |E|, m_j being 1 or 2. It makes a product of a matrix and its own transpose
cost sqrt(2) V / sqrt(S) and not V / sqrt(S) (the constant of Beaumont, Eyraud-Dubois, Verite, Langou, SPAA 2022).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, islice, permutations, product
from math import ceil, lcm, log

from polymap.costmodel import integer_root
from polymap.search.programs.bound_tuning import TUNING

_EXPONENTS = (Fraction(1, 3), Fraction(1, 2), Fraction(2, 3), Fraction(1))


@dataclass(frozen=True, slots=True)
class Projection:
    """What a reference touches. group: of references that may touch an element together. axes: the dims of each index
    expression. factor: m of the module's text. bits: of an element."""

    group: int
    axes: tuple[frozenset[int], ...]
    factor: int
    bits: int


@dataclass(frozen=True, slots=True)
class Sets:
    """Of what sets of points are made: what is touched, how many values the dims have, 1 or 2 times the set."""

    projections: tuple[Projection, ...]
    extents: tuple[int, ...]
    copies: int


@dataclass(frozen=True, slots=True)
class Exponents:
    """projections: s_j. dims: t_i. groups: (group, bits of an element, sum of its s_j) where that is not 0."""

    projections: tuple[Fraction, ...]
    dims: tuple[Fraction, ...]
    groups: tuple[tuple[int, int, Fraction], ...]

    @property
    def total(self) -> Fraction:
        return sum(self.projections, Fraction(0))


def exponents_of(sets: Sets) -> Iterator[Exponents]:
    """Yield exponents that satisfy the condition, the references' sum at least 1: then the largest set at x bits is at
    most x / X times that at X >= x."""
    count = min(len(sets.projections), TUNING.most_references)
    varying = _varying_references(sets)
    for size in range(1, TUNING.most_together + 1):
        for used in combinations(range(count), size):
            for powers in product(_EXPONENTS, repeat=size):
                if sum(powers) < 1:
                    continue
                chosen = dict(zip(used, powers, strict=True))
                s = tuple(chosen.get(number, Fraction(0)) for number in range(len(sets.projections)))
                for dims in varying:
                    t = tuple(max(Fraction(0), 1 - sum((s[number] for number in each), Fraction(0))) for each in dims)
                    yield Exponents(s, t, _groups(sets, chosen))


def _groups(sets: Sets, chosen: dict[int, Fraction]) -> tuple[tuple[int, int, Fraction], ...]:
    found: dict[tuple[int, int], Fraction] = {}
    for number, power in chosen.items():
        key = sets.projections[number].group, sets.projections[number].bits
        found[key] = found.get(key, Fraction(0)) + power
    return tuple((*key, power) for key, power in found.items())


def _varying_references(sets: Sets) -> dict[tuple[frozenset[int], ...], None]:
    """Return, for orders in which dims may be taken away, the references that still vary along each dim."""
    shared = sorted({dim for one in sets.projections for axis in one.axes if len(axis) > 1 for dim in axis})
    rest = [dim for dim in range(len(sets.extents)) if dim not in shared]
    found: dict[tuple[frozenset[int], ...], None] = {}
    for order in islice(permutations(shared), TUNING.most_orders):
        left = [list(one.axes) for one in sets.projections]
        varying: dict[int, frozenset[int]] = {}
        for dim in (*order, *rest):
            varying[dim] = frozenset(n for n, axes in enumerate(left) if any(dim in axis for axis in axes))
            left = [[axis for axis in axes if dim not in axis] for axes in left]
        found[tuple(varying[dim] for dim in range(len(sets.extents)))] = None
    return found


def logarithm(sets: Sets, exponents: Exponents) -> tuple[float, float]:
    """Return (a, b) such that the largest set of Y bits has about exp(a + b log Y) points: to choose by."""
    total = exponents.total
    fixed = sum(float(t) * log(extent) for t, extent in zip(exponents.dims, sets.extents, strict=True))
    for s, one in zip(exponents.projections, sets.projections, strict=True):
        fixed += float(s) * log(one.factor)
    for _, bits, s in exponents.groups:
        fixed += float(s) * log(s / (bits * total))
    return fixed - log(sets.copies), float(total)


def largest_set(sets: Sets, exponents: Exponents, room_bits: int) -> Fraction:
    """Return a bound of the points of a set that touches elements of so many bits, each element once.

    With sum of bits_g x_g <= Y over groups, prod x_g^s_g is largest at x_g = Y s_g / (bits_g sum of s).
    """
    total = exponents.total
    root = lcm(*(each.denominator for each in (*exponents.projections, *exponents.dims)))
    power = Fraction(1)
    for _, bits, s in exponents.groups:
        power *= (room_bits * s / (bits * total)) ** int(s * root)
    for s, one in zip(exponents.projections, sets.projections, strict=True):
        power *= one.factor ** int(s * root)
    for t, extent in zip(exponents.dims, sets.extents, strict=True):
        power *= extent ** int(t * root)
    least = ceil(power * 1000**root)  # the least integer whose power is at least this
    return Fraction(integer_root(least - 1, root) + 1 if least else 0, 1000 * sets.copies)


def best_exponents(choices: Sequence[tuple[float, float, Exponents]], room_bits: int) -> Exponents:
    """Return the exponents with the least set, of (a, b, exponents) as `logarithm` gives them."""
    at = log(room_bits)
    return min(choices, key=lambda each: each[0] + each[1] * at)[2]
