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
from functools import cache
from itertools import product
from math import comb, factorial, prod

import numpy as np

from polymap.schedules.space_chains import Table

Vector = tuple[int, ...]
_LARGEST = (
    2**17
)  # products of two residues stay below 2^34: sums of many are exact in int64, and in float64 matrix products


@dataclass(frozen=True, slots=True)
class Quadrature:
    """sum of weight x f(node) = mean of f, modulo prime, for polynomials up to the degree asked for; node 0 first."""

    prime: int
    nodes: tuple[int, ...]
    weights: tuple[int, ...]


@cache
def quadrature(degree: int, number: int) -> Quadrature:
    """Return the number-th rule that is exact up to `degree`; each has another prime."""
    size = max(1, (degree + 1) // 2)
    polynomial = [
        (-1) ** (size - i) * comb(size + 1, size - i) * factorial(size) // factorial(i) for i in range(size + 1)
    ]
    candidate = quadrature(degree, number - 1).prime - 1 if number else _LARGEST - 1
    while True:
        roots = _roots(polynomial, candidate) if _is_prime(candidate) else ()
        if len(roots) == size:
            nodes = (0, *roots)
            return Quadrature(candidate, nodes, _weights(nodes, candidate))
        candidate -= 1
        assert candidate > 2 * degree, "no primes are left"


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


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


def evaluation_points(
    rule: Quadrature,
    blocks: dict[Vector, int],
    region_axes: Sequence[int],
    parts: Sequence[Sequence[int]],
    longest: Sequence[int],
) -> Points:
    """Return the points at which to evaluate the product over dims.

    blocks: number of blocks per region -> weight. region_axes: which coefficient axis a region's blocks count for.
    parts: per block that holds spatial loops, the axes of its pieces before, between and after them; a dim has a loop
    in one piece at most. longest: the highest degree that is of use, per axis.
    """
    lists = [list(_multisets(rule, max(v[i] for v in blocks))) for i in range(len(region_axes))]
    prime = rule.prime
    spread = _spread(rule, blocks)
    weights = np.array(
        [
            spread.get(tuple(sum(m) for m, _ in choice), 0) * prod(weight for _, weight in choice) % prime
            for choice in product(*lists)
        ],
        dtype=np.int64,
    )
    kept = np.flatnonzero(weights)
    coefficients = np.ones((1,) + (1,) * len(longest), dtype=np.int64)
    for axis, multisets in zip(region_axes, lists, strict=True):
        layer = _elementary(rule, tuple(counts for counts, _ in multisets), longest[axis])
        coefficients = _outer(coefficients, layer, axis, prime)
    for axis in set(range(len(longest))) - set(region_axes):
        no_blocks = np.array([[1] + [0] * longest[axis]], dtype=np.int64)
        coefficients = _outer(coefficients, no_blocks, axis, prime)
    weights, coefficients = weights[kept], coefficients[kept]
    for axes in parts:
        weights, coefficients = _with_pieces(rule, axes, weights, coefficients)
    return Points(weights, coefficients.reshape(len(weights), -1))


def _multisets(rule: Quadrature, most: int) -> Iterator[tuple[Vector, int]]:
    """Yield how often each node but 0 occurs among up to `most` blocks, with the product of weights.

    The weight lacks the choice of the blocks with node 0 and its weight: see _spread.
    """
    for counts in product(range(most + 1), repeat=len(rule.nodes) - 1):
        if sum(counts) <= most:
            weight = factorial(sum(counts)) // prod(factorial(c) for c in counts)
            for count, node_weight in zip(counts, rule.weights[1:], strict=True):
                weight = weight * pow(node_weight, count, rule.prime)
            yield counts, weight % rule.prime


def _spread(rule: Quadrature, blocks: dict[Vector, int]) -> dict[Vector, int]:
    """Return per number of blocks with a node other than 0, per region -> weight: the others have node 0."""
    totals: dict[Vector, int] = {}
    for vector, weight in blocks.items():
        for used in product(*(range(n + 1) for n in vector)):
            rest = pow(rule.weights[0], sum(vector) - sum(used), rule.prime)
            ways = prod(comb(n, u) for n, u in zip(vector, used, strict=True))
            totals[used] = (totals.get(used, 0) + weight * ways * rest) % rule.prime
    return totals


def _elementary(rule: Quadrature, multisets: Sequence[Vector], longest: int) -> Table:
    """Return [multiset, k] -> k-th elementary symmetric polynomial of the nodes, each as often as counted."""
    prime = rule.prime
    most = max(max(counts) for counts in multisets)
    values = np.zeros((len(multisets), longest + 1), dtype=np.int64)
    values[:, 0] = 1
    for number, node in enumerate(rule.nodes[1:]):
        often = np.array([counts[number] for counts in multisets])
        for repeat in range(most):
            more = (often > repeat) * node
            values[:, 1:] = (values[:, 1:] + values[:, :-1] * more[:, None]) % prime
    return values


def _outer(coefficients: Table, layer: Table, axis: int, prime: int) -> Table:
    """Return all pairs of points, the layer's values along `axis` (which was of size 1)."""
    shape = [1] * (coefficients.ndim - 1)
    shape[axis] = layer.shape[1]
    pairs = coefficients[:, None] * layer.reshape(1, len(layer), *shape) % prime
    return pairs.reshape(-1, *pairs.shape[2:])


def _with_pieces(rule: Quadrature, axes: Sequence[int], weights: Table, coefficients: Table) -> tuple[Table, Table]:
    """Return the points times the nodes of one block's pieces; in a dim's polynomial at most one piece occurs."""
    forms: dict[Vector, int] = {}
    for choice in product(range(len(rule.nodes)), repeat=len(axes)):
        form = [0] * (coefficients.ndim - 1)
        for axis, node in zip(axes, choice, strict=True):
            form[axis] = (form[axis] + rule.nodes[node]) % rule.prime
        weight = prod(rule.weights[node] for node in choice)
        forms[tuple(form)] = (forms.get(tuple(form), 0) + weight) % rule.prime
    grown = np.concatenate([_times(coefficients, form, rule.prime) for form in forms])
    return np.concatenate([weights * weight % rule.prime for weight in forms.values()]), grown


def _times(coefficients: Table, form: Vector, prime: int) -> Table:
    """Return the polynomials times 1 + sum of form[axis] x (variable of the axis), high degrees dropped."""
    grown = coefficients.copy()
    for axis, value in enumerate(form):
        low = [slice(None)] * coefficients.ndim
        high = [slice(None)] * coefficients.ndim
        low[axis + 1], high[axis + 1] = slice(None, -1), slice(1, None)
        if value:
            grown[tuple(high)] += coefficients[tuple(low)] * value
    return grown % prime
