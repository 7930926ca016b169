"""Local variables of a C text that are one per iteration in all but name: each becomes an array over its loops.

A variable that every iteration of some loops sets before it reads it carries nothing from one iteration to the next, so
each iteration may have its own. Nests that use one variable for different values each get one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from polymap.ir import Access, Affine, BudgetError, Statement, Tensor, Workload, accesses_of
from polymap.workload.dependence_analysis import unset_read


def expanded(workload: Workload) -> Workload:
    """Return a workload of a C text whose temporary variables have an axis per loop that they carry nothing over.

    Variables stay as they are where isl takes too long to decide, and where an array would be larger than all others.
    """
    for tensor in workload.tensors:
        if tensor.temporary and not tensor.initial and workload.original is not None:
            for statements in _groups(workload, tensor):
                workload = _with_own(workload, tensor, statements)
    return workload


def _groups(workload: Workload, tensor: Tensor) -> Iterator[tuple[Statement, ...]]:
    """Yield the statements that touch a tensor, apart for each nest that sets it before it reads it."""
    touching = tuple(each for each in workload.statements if accesses_of(each, tensor.name))
    yield from _split(workload, tensor, touching)


def _split(workload: Workload, tensor: Tensor, group: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    if not group:
        return
    depth = _shared_depth(group)
    parts: dict[int, list[Statement]] = {}
    for each in group:
        parts.setdefault(each.position[depth], []).append(each)
    pieces = [tuple(each) for each in parts.values()]
    if len(pieces) > 1 and all(len(each.dims) > depth for each in group):
        named = [_renamed(workload, tensor, each, depth) for each in pieces]
        if all(_is_set(made, name) for made, name in named):
            for piece in pieces:
                yield from _split(workload, tensor, piece)
            return
    yield group


def _shared_depth(group: tuple[Statement, ...]) -> int:
    """Return how many loops are around all statements."""
    first, depth = group[0], 0
    while all(
        len(each.dims) > depth
        and each.dims[depth] == first.dims[depth]
        and each.position[depth] == first.position[depth]
        for each in group
    ):
        depth += 1
    return depth


def _with_own(workload: Workload, tensor: Tensor, group: tuple[Statement, ...]) -> Workload:
    """Return the workload with a tensor of their own for these statements, over as many of their loops as possible."""
    touching = [each for each in workload.statements if accesses_of(each, tensor.name)]
    shared = _shared_depth(group)
    extents, most = workload.extents(), max(prod(each.shape) for each in workload.tensors)
    for depth in range(shared, 0 if len(group) == len(touching) else -1, -1):
        elements = prod((*tensor.shape, *(extents[dim] for dim in group[0].dims[:depth])))
        if elements > most or _leads(tensor, group, depth):
            continue
        made, name = _renamed(workload, tensor, group, depth)
        if _is_set(made, name):
            return made
    return workload


def _leads(tensor: Tensor, group: tuple[Statement, ...], depth: int) -> bool:
    """Return whether the tensor has these loops as its first axes already."""
    wanted = tuple(Affine(((1, dim),)) for dim in group[0].dims[:depth])
    return bool(depth) and all(
        access.index[:depth] == wanted for each in group for access in accesses_of(each, tensor.name)
    )


def _is_set(workload: Workload, tensor: str) -> bool:
    """Return whether each read of a tensor comes after a write of that element."""
    if all(each.target.tensor != tensor for each in workload.statements):
        return False
    try:
        return unset_read(workload, tensor) is None
    except BudgetError:
        return False


def _renamed(workload: Workload, tensor: Tensor, group: tuple[Statement, ...], depth: int) -> tuple[Workload, str]:
    """Return the workload whose statements of a group use a new tensor with an axis per loop around all of them."""
    names = {each.name for each in workload.tensors}
    name = next(f"{tensor.name}_{number}" for number in range(len(names) + 1) if f"{tensor.name}_{number}" not in names)
    extents, dims = workload.extents(), group[0].dims[:depth]
    shape = (*(extents[dim] for dim in dims), *tensor.shape)
    made = replace(tensor, name=name, shape=shape, origin=((0,) * depth + tensor.origin))
    head = tuple(Affine(((1, dim),)) for dim in dims)

    def own(access: Access) -> Access:
        return Access(name, (*head, *access.index)) if access.tensor == tensor.name else access

    own_names = {each.name for each in group}
    statements = tuple(
        replace(each, target=own(each.target), reads=tuple(map(own, each.reads))) if each.name in own_names else each
        for each in workload.statements
    )
    used = {access.tensor for each in statements for access in (each.target, *each.reads)}
    tensors = tuple(each for each in (*workload.tensors, made) if each.name in used)
    return replace(workload, tensors=tensors, statements=statements), name
