"""Symmetries of a problem: permutations of dims that preserve it, such as p <-> q with r <-> s in a square
convolution."""

from __future__ import annotations

from itertools import permutations

from polymap.search.problem.problem import TUNING, Problem
from polymap.search.problem.rules import dims_named
from polymap.search.problem.structures import Structures


def symmetries(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """Return the permutations of dims, other than the identity, that map each tensor's index groups onto themselves.

    Only dims of equal extent that the same fan-outs may spread, and that no rule names, are exchanged. Problems with
    more than `symmetric_dims` dims are not examined.
    """
    count = len(problem.dims)
    if count > TUNING.symmetric_dims:
        return ()
    named = dims_named(problem.rules)
    # A dim that a rule names has a kind of its own.
    kinds = [
        (problem.extents[d], _allowed_fanouts(problem, d), dim if dim in named else "")
        for d, dim in enumerate(problem.dims)
    ]
    found: list[tuple[int, ...]] = []
    for image in permutations(range(count)):
        alike = image != tuple(range(count)) and all(kinds[d] == kinds[e] for d, e in enumerate(image))
        if alike and _keeps_groups(problem, image):
            found.append(image)
    return tuple(found)


def _allowed_fanouts(problem: Problem, dim: int) -> tuple[bool, ...]:
    return tuple(one.may_spread(problem.dims[dim]) for one in problem.arch.fanouts)


def _keeps_groups(problem: Problem, image: tuple[int, ...]) -> bool:
    renamed = {name: problem.dims[image[d]] for d, name in enumerate(problem.dims)}
    for term in problem.terms:
        own = {frozenset(zip(group.dims, group.coefficients, strict=True)) for group in term.groups}
        moved = {
            frozenset((renamed[dim], c) for dim, c in zip(group.dims, group.coefficients, strict=True))
            for group in term.groups
        }
        if own != moved:
            return False
    return True


def distinct_structures(problem: Problem, structures: Structures) -> Structures:
    """Return one representative per orbit of structures under the symmetries, the first of each."""
    return structures.first_of_orbits(symmetries(problem))
