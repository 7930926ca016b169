"""The number of slots per axis that a buffer needs so that no two elements of one tile share a slot.

An element with index x goes to slot x % m. That is safe when no two indices of one tile differ by a multiple of m, so m
is the smallest number that divides none of the differences that occur: a lattice storage mapping, exact for windows,
strides and the gaps that spatial loops over inner fan-outs leave.
"""

from __future__ import annotations

from polymap.codegen.lower.nest import StoragePoint, Use
from polymap.codegen.lower.tuning import TUNING
from polymap.ir import Access, Affine, Tensor


def moduli(place: StoragePoint, tensor: Tensor) -> tuple[int, ...]:
    """Return the modulus of every axis, at most the axis' own length (then it is the index itself)."""
    if place.level == 0:
        return tensor.shape
    accesses = place.accesses()
    return tuple(min(length, _modulus(place, accesses, axis, length)) for axis, length in enumerate(tensor.shape))


def _modulus(place: StoragePoint, accesses: tuple[tuple[Use, Access], ...], axis: int, length: int) -> int:
    forms = [(use, access.index[axis]) for use, access in accesses]
    if not forms:
        return 1
    if any(not form.is_linear for _, form in forms):
        return length
    if any(form.coefficients() != forms[0][1].coefficients() for _, form in forms):
        return length
    values: set[int] = set()
    for use, form in forms:
        reached = _free_values(place, use, form, 4 * length)
        if reached is None:
            return length
        values |= reached
    return _smallest_modulus(values, length)


def _free_values(place: StoragePoint, use: Use, form: Affine, limit: int) -> set[int] | None:
    """Return the offsets that the free loops reach along one axis (a superset at ragged ends), None if too many."""
    values = {form.constant}
    for dim, coefficient in form.coefficients().items():
        for loop in use.digits(dim):
            if loop.name in place.fixed:
                continue
            values = {v + coefficient * loop.tile * i for v in values for i in range(loop.trips)}
            if len(values) > limit:
                return None
    return values


def _smallest_modulus(values: set[int], length: int) -> int:
    low, high = min(values), max(values)
    hull = high - low + 1
    if hull == len(values) or hull > TUNING.window_search:
        return min(hull, length)
    ordered = sorted(values)
    for candidate in range(len(values), hull):
        if len({value % candidate for value in ordered}) == len(ordered):
            return min(candidate, length)
    return min(hull, length)
