"""Blocks of loops in any order, counted without listing them.

A block with n loops stands in n! orders, and n! is the mean of x^n for an exponentially distributed x. So the trees
over b blocks are the mean, over one such x per block, of a product over dims: the chains of a dim with k loops, times
the k-th elementary symmetric polynomial of the x. No block holds more loops than there are dims, so the mean is taken
exactly by a quadrature with few nodes (Gauss-Radau with one node at 0; Golub, Some modified matrix eigenvalue problems,
1973). Its nodes are roots of a Laguerre polynomial: everything is computed modulo primes for which these roots exist,
and the Chinese remainder theorem joins the results. Equal nodes are interchangeable, so only how often each occurs
among the blocks of a region is listed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from math import comb, factorial, prod

import numpy as np

from polymap.schedules.chains import Table
from polymap.schedules.tuning import TUNING

Vector = tuple[int, ...]
# Products of two residues stay below 2^34: sums of many are exact in int64, and in float64 matrix products.
_LARGEST = 2**17
# The polynomial of 8 nodes splits modulo none of the 12,251 primes below, and that of n modulo one of some n!/2.
_MOST_NODES = 7


@dataclass(frozen=True, slots=True)
class Quadrature:
    """sum of weight x f(node) = mean of f, modulo prime, for polynomials up to the degree asked for; node 0 first."""

    prime: int
    nodes: tuple[int, ...]
    weights: tuple[int, ...]


def rules(degree: int) -> Iterator[Quadrature | None]:
    """Yield rules that are exact up to `degree`, each with another prime, as long as there are primes that products of
    residues fit. None comes in between, wherever the caller may want to look at the clock."""
    if _nodes(degree) > _MOST_NODES:
        return
    below = _LARGEST
    while below > 2 * degree:
        below, rule = tried(degree, below)
        yield rule


def _nodes(degree: int) -> int:
    """Return how many nodes besides 0 a rule has that is exact up to a degree."""
    return max(1, (degree + 1) // 2)


@cache
def tried(degree: int, below: int) -> tuple[int, Quadrature | None]:
    """Return the rule of the largest of the next few primes that has one, and what primes are to be tried then."""
    size = _nodes(degree)
    polynomial = [
        (-1) ** (size - i) * comb(size + 1, size - i) * factorial(size) // factorial(i) for i in range(size + 1)
    ]
    last = max(below - TUNING.primes_at_once, 2 * degree)
    for candidate in range(below - 1, last, -1):
        roots = _roots(polynomial, candidate) if _is_prime(candidate) and _splits(polynomial, candidate) else ()
        if len(roots) == size:
            nodes = (0, *roots)
            return candidate, Quadrature(candidate, nodes, _weights(nodes, candidate))
    return last + 1 if last > 2 * degree else last, None


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def _splits(polynomial: Sequence[int], prime: int) -> bool:
    """Return whether the polynomial (lowest coefficient first) divides x^prime - x, the product of all x - root."""
    size = len(polynomial) - 1
    last = pow(polynomial[-1], -1, prime)
    # x^size as a polynomial of lower degree.
    reduced = [-coefficient * last % prime for coefficient in polynomial[:-1]]

    def times_x(values: list[int]) -> list[int]:
        return [(low + values[-1] * high) % prime for low, high in zip([0, *values[:-1]], reduced, strict=True)]

    one = [1] + [0] * (size - 1)
    power = one
    for digit in bin(prime)[2:]:
        square, shifted = [0] * size, power
        for coefficient in power:
            square = [(a + coefficient * b) % prime for a, b in zip(square, shifted, strict=True)]
            shifted = times_x(shifted)
        power = times_x(square) if digit == "1" else square
    return power == times_x(one)


def _roots(polynomial: Sequence[int], prime: int) -> Vector:
    """Return the roots of the polynomial (lowest coefficient first) modulo a prime, by trying all."""
    points = np.arange(prime, dtype=np.int64)
    values = np.zeros_like(points)
    for coefficient in reversed(polynomial):
        values = (values * points + coefficient) % prime
    return tuple(int(root) for root in np.flatnonzero(values == 0))


def _weights(nodes: Vector, prime: int) -> Vector:
    """Return the weights that give the mean of x^n, which is n!, for n below the number of nodes."""
    weights: list[int] = []
    for i, node in enumerate(nodes):
        basis = [1]
        scale = 1
        for j, other in enumerate(nodes):
            if i != j:
                basis = [(low - other * high) % prime for low, high in zip([0, *basis], [*basis, 0], strict=True)]
                scale = scale * (node - other) % prime
        mean = sum(coefficient * factorial(n) for n, coefficient in enumerate(basis))
        weights.append(mean * pow(scale, -1, prime) % prime)
    return tuple(weights)


@dataclass(frozen=True, slots=True)
class Points:
    """weights[point], and coefficients[point, a, b, ...]: of all ways to pick blocks for a, b, ... loops of a dim in
    the regions, the product of the picked blocks' x. Flattened after the first axis."""

    weights: Table
    coefficients: Table


@dataclass(frozen=True, slots=True)
class UnitBlock:
    """A block that holds spatial loops: how many units of them, and the coefficient axes of the pieces before, between
    and after them (a dim has a loop in one piece at most); one axis where it does not matter which piece."""

    units: int
    axes: Vector


def evaluation_points(
    rule: Quadrature,
    blocks: dict[Vector, int],
    region_axes: Sequence[int],
    parts: Sequence[UnitBlock],
    longest: Sequence[int],
) -> Points:
    """Return the points at which to evaluate the product over dims.

    blocks: number of blocks per region -> weight. region_axes: which coefficient axis a region's blocks count for.
    parts: the blocks that hold spatial loops. longest: the highest degree that is of use, per axis.
    """
    prime = rule.prime
    most = [max(vector[i] for vector in blocks) for i in range(len(region_axes))]
    regions = [_multisets(rule, own) for own in most]
    weights = _spread(rule, blocks)[np.ix_(*(totals for totals, _ in regions))]
    for i, (_, own) in enumerate(regions):
        weights = weights * own.reshape([-1 if i == j else 1 for j in range(len(regions))]) % prime
    weights = weights.ravel()
    kept = np.flatnonzero(weights)
    coefficients = np.ones((1,) + (1,) * len(longest), dtype=np.int64)
    for axis, own in zip(region_axes, most, strict=True):
        coefficients = _outer(coefficients, _elementary(rule, own, longest[axis]), axis, prime)
    for axis in sorted(set(range(len(longest))) - set(region_axes)):
        no_blocks = np.array([[1] + [0] * longest[axis]], dtype=np.int64)
        coefficients = _outer(coefficients, no_blocks, axis, prime)
    weights, coefficients = weights[kept], coefficients[kept]
    for part in parts:
        forms = _pieces(rule, part.axes) if len(part.axes) > 1 else _together(rule, part)
        grown = [_times(coefficients, part.axes, form, prime) for form in forms]
        coefficients = np.concatenate(grown)
        weights = np.concatenate([weights * weight % prime for weight in forms.values()])
    return Points(weights, coefficients.reshape(len(weights), -1))


def _multisets(rule: Quadrature, most: int) -> tuple[Table, Table]:
    """Return, per multiset of nodes but 0 of up to `most` blocks, its size and its weight.

    A weight lacks the choice of the blocks with node 0 and its weight: see _spread.
    """
    prime = rule.prime
    counts, totals = _up_to(most, len(rule.nodes) - 1)
    below = [1]
    for number in range(1, most + 1):
        below.append(below[-1] * number % prime)
    weights = np.array(below, dtype=np.int64)[totals]
    for column, weight in zip(counts.T, rule.weights[1:], strict=True):
        powers = [pow(weight, n, prime) * pow(factorial, -1, prime) % prime for n, factorial in enumerate(below)]
        weights = weights * np.array(powers, dtype=np.int64)[column] % prime
    return totals, weights


@cache
def _up_to(most: int, places: int) -> tuple[Table, Table]:
    """Return all rows of `places` counts that sum up to at most `most`, and their sums."""
    counts, totals = np.zeros((1, 0), dtype=np.int64), np.zeros(1, dtype=np.int64)
    for _ in range(places):
        rows = np.repeat(np.arange(len(totals)), most + 1 - totals)
        new = np.arange(len(rows)) - np.repeat(np.cumsum(most + 1 - totals) - (most + 1 - totals), most + 1 - totals)
        counts = np.concatenate([counts[rows], new[:, None]], axis=1)
        totals = totals[rows] + new
    return counts, totals


def _spread(rule: Quadrature, blocks: dict[Vector, int]) -> Table:
    """Return [number of blocks with a node other than 0, per region] -> weight: the others have node 0."""
    totals = np.zeros([1 + max(v[i] for v in blocks) for i in range(len(next(iter(blocks))))], dtype=np.int64)
    for vector, weight in blocks.items():
        for used in product(*(range(n + 1) for n in vector)):
            rest = pow(rule.weights[0], sum(vector) - sum(used), rule.prime)
            ways = prod(comb(n, u) for n, u in zip(vector, used, strict=True))
            totals[used] = (int(totals[used]) + weight * ways * rest) % rule.prime
    return totals


@lru_cache(maxsize=64)
def _elementary(rule: Quadrature, most: int, longest: int) -> Table:
    """Return [multiset, k] -> k-th elementary symmetric polynomial of the nodes, each as often as counted."""
    prime = rule.prime
    counts, _ = _up_to(most, len(rule.nodes) - 1)
    values = np.zeros((len(counts), longest + 1), dtype=np.int64)
    values[:, 0] = 1
    for node, column in zip(rule.nodes[1:], counts.T, strict=True):
        # (1 + node x)^count
        powers = [[comb(n, k) * pow(node, k, prime) % prime for k in range(longest + 1)] for n in range(most + 1)]
        grown = values.copy()
        for k in range(1, longest + 1):
            own = np.array([row[k] for row in powers], dtype=np.int64)[column]
            grown[:, k:] += values[:, : longest + 1 - k] * own[:, None]
        values = grown % prime
    return values


def _outer(coefficients: Table, layer: Table, axis: int, prime: int) -> Table:
    """Return all pairs of points, the layer's values along `axis` (which was of size 1)."""
    shape = [1] * (coefficients.ndim - 1)
    shape[axis] = layer.shape[1]
    pairs = coefficients[:, None] * layer.reshape(1, len(layer), *shape) % prime
    return pairs.reshape(-1, *pairs.shape[2:])


def _together(rule: Quadrature, part: UnitBlock) -> dict[Vector, int]:
    """Return (node) -> weight of a block in which q units stand anywhere among n loops: (n + q)! / q! ways.

    That is the mean of x^n x^q / q!.
    """
    each = pow(factorial(part.units), -1, rule.prime)
    pairs = zip(rule.nodes, rule.weights, strict=True)
    return {(node,): weight * pow(node, part.units, rule.prime) * each % rule.prime for node, weight in pairs if node}


def _pieces(rule: Quadrature, axes: Vector) -> dict[Vector, int]:
    """Return (node of every piece) -> weight."""
    pairs = list(zip(rule.nodes, rule.weights, strict=True))
    choices = product(pairs, repeat=len(axes))
    return {tuple(node for node, _ in choice): prod(weight for _, weight in choice) % rule.prime for choice in choices}


def _times(coefficients: Table, axes: Vector, nodes: Vector, prime: int) -> Table:
    """Return the polynomials times 1 + sum of node x (variable of its axis), high degrees dropped."""
    grown = coefficients.copy()
    for axis, value in zip(axes, nodes, strict=True):
        low = [slice(None)] * coefficients.ndim
        high = [slice(None)] * coefficients.ndim
        low[axis + 1], high[axis + 1] = slice(None, -1), slice(1, None)
        if value:
            grown[tuple(high)] += coefficients[tuple(low)] * value
    return grown % prime
