"""The dims that can be vectorized: those whose neighbouring indices are neighbours in the caller's arrays."""

from __future__ import annotations

import math

from polymap.codegen.native.arrays import ArrayForm, array_forms
from polymap.codegen.native.plan import NoPlan, check_sum
from polymap.codegen.native.tuning import TUNING
from polymap.ir import Access, Statement, Workload, bounds


def vector_dims(workload: Workload, layout: str, lanes: int) -> tuple[str, ...]:
    """Return the dims of the output along which each operand is contiguous, absent or packed; the best first.

    Best is where the output is contiguous (a store of scattered lanes costs as much as some multiply-adds of the few
    where little is summed), then where most lanes are in use, then where no operand is copied as a window (it slides
    along the dim with steps or onto padding), then where fewer operands are packed. Empty for programs of several
    statements, and for statements that are not printed with vectors. Raises WorkloadError where element types have no
    form in C.
    """
    if len(workload.statements) != 1:
        return ()
    (statement,) = workload.statements
    forms = {form.tensor: form for form in array_forms(workload, layout)}
    try:
        check_sum(workload, statement, forms)
    except NoPlan:
        return ()
    extents = workload.extents()
    own = [dim for dim in statement.dims if any(dim in index.dims for index in statement.target.index)]
    sums = math.prod(size for dim, size in extents.items() if dim not in own)
    ranked: list[tuple[tuple[float, ...], str]] = []
    for number, dim in enumerate(own):
        if extents[dim] == 1 or _is_padded(statement.target, forms[statement.target.tensor], dim, extents):
            continue
        slid = [each for each in statement.reads if _slides(each, forms[each.tensor], dim, extents)]
        if any(not _is_window(each, statement, dim) for each in slid):
            continue
        packed = [
            each
            for each in statement.reads
            if each not in slid and _factor(each, forms[each.tensor], dim) not in (0, 1)
        ]
        if any(not is_packable(each, statement.reads) or _is_waste(each, statement, extents) for each in packed):
            continue
        scattered = _factor(statement.target, forms[statement.target.tensor], dim) != 1
        unused = 1 - extents[dim] / (-(-extents[dim] // lanes) * lanes)
        few = scattered and sums < TUNING.few_sums
        rank = (float(few), round(10 * unused), float(bool(slid)), float(scattered), float(len(packed)), number)
        ranked.append((rank, dim))
    return tuple(dim for _, dim in sorted(ranked))


def memory_steps(workload: Workload, layout: str) -> dict[str, dict[str, int]]:
    """Return the bytes between neighbours along each dim of each operand, as its caller's array lies in memory."""
    (statement,) = workload.statements
    forms = {form.tensor: form for form in array_forms(workload, layout)}
    found: dict[str, dict[str, int]] = {}
    for access in (statement.target, *statement.reads):
        form = forms[access.tensor]
        width = workload.tensor(access.tensor).bits // 8
        found[access.tensor] = {dim: factor * width for dim, factor in form.linear(access).factors.items()}
    return found


def _factor(access: Access, form: ArrayForm, dim: str) -> int:
    return form.linear(access).of(dim)


def _is_padded(access: Access, form: ArrayForm, dim: str, extents: dict[str, int]) -> bool:
    """Return whether an index of the dim may lie on padding."""
    for number, size in enumerate(form.sizes):
        index = form.axis(access, number)
        low, high = bounds(index, extents)
        if dim in index.dims and (low < 0 or high >= size):
            return True
    return False


def _is_waste(access: Access, statement: Statement, extents: dict[str, int]) -> bool:
    """Return whether packing an operand costs more than it saves: each of its elements is read once."""
    read = set(access.dims)
    return all(extents[dim] == 1 for dim in statement.dims if dim not in read)


def _slides(access: Access, form: ArrayForm, dim: str, extents: dict[str, int]) -> bool:
    """Return whether an operand is read along the dim by steps or onto padding, at places that other dims shift."""
    alone = all(len(index.dims) == 1 for index in access.index if dim in index.dims)
    return not alone and (_is_padded(access, form, dim, extents) or _factor(access, form, dim) not in (0, 1))


def _is_window(access: Access, statement: Statement, dim: str) -> bool:
    """Return whether an operand that is read once slides along the dim by one tap, and along others by others."""
    own = [index for index in access.index if dim in index.dims]
    dims = [each for index in access.index for each in index.dims]
    factors = [factor for index in access.index for factor in index.coefficients().values()]
    once = sum(each.tensor == access.tensor for each in statement.reads) == 1
    if not once or len(own) != 1 or len(own[0].dims) != 2 or min(factors) < 0 or len(set(dims)) < len(dims):
        return False
    (tap,) = set(own[0].dims) - {dim}
    return own[0].coefficients()[dim] == 1 or all(tap not in index.dims for index in statement.target.index)


def is_packable(access: Access, reads: tuple[Access, ...]) -> bool:
    """Return whether an operand is read once, each of its axes by a dim of its own."""
    dims = [dim for index in access.index for dim in index.dims]
    plain = all(len(index.dims) <= 1 for index in access.index)
    return plain and len(set(dims)) == len(dims) and sum(each.tensor == access.tensor for each in reads) == 1
