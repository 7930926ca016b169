"""Dims that are one in memory: their indices number neighbouring elements of every array as those of one dim would.

A convolution of 1x1 filters without padding is a product: O[n,p,q,k] += I[n,p,q,c] * W[k,c] in NHWC is
O[npq,k] += I[npq,c] * W[k,c]. Tiles of the one dim are of any size, and rows that fill no whole vector are not seen.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from polymap.codegen.native.arrays import ArrayForm, array_forms
from polymap.codegen.native.tails import channel_axes
from polymap.ir import Access, Dim, Tensor, Workload, dim

Axes = list[tuple[str, ...]]
"""Of an array in memory order: the dims that number the elements of each axis, of which the last one is innermost."""


def flatten(workload: Workload, layout: str, *, has_tail: bool = False) -> Workload | None:
    """Return the workload with each group of such dims of its output as one, and without dims of one index; its tensors
    lie in memory as they are written. None where there is no such group, or an array is indexed otherwise than by a dim
    per axis.

    has_tail: dims of the output's channels stay as they are, for what is done to its sums (tails.py). Raises
    WorkloadError where element types have no form in C.
    """
    if len(workload.statements) != 1 or workload.original is not None:
        return None
    (statement,) = workload.statements
    accesses = (statement.target, *statement.reads)
    if statement.constraints or len({access.tensor for access in accesses}) < len(accesses):
        return None
    extents = workload.extents()
    forms = {form.tensor: form for form in array_forms(workload, layout)}
    axes = [_axes(access, forms[access.tensor], extents) for access in accesses]
    known = [each for each in axes if each is not None]
    own = {name for index in statement.target.index for name in index.dims if extents[name] > 1}
    if has_tail:
        channels = channel_axes(workload, forms[statement.target.tensor])
        own -= {name for axis in channels for name in statement.target.index[axis].dims}
    if len(known) < len(axes) or not _join(known, own):
        return None
    groups = dict.fromkeys(group for each in known for group in each)
    if any(size > 1 and all(name not in group for group in groups) for name, size in extents.items()):
        return None  # a loop that no array sees
    return _flat(workload, accesses, known, _names(groups, workload))


def _flat(
    workload: Workload, accesses: Sequence[Access], axes: Sequence[Axes], names: Mapping[tuple[str, ...], str]
) -> Workload:
    """Return the workload over arrays of these axes. names: of each group of dims."""
    extents, (statement,) = workload.extents(), workload.statements
    sizes = {names[group]: prod(extents[name] for name in group) for group in names}
    order = list(extents)
    dims = tuple(names[group] for group in sorted(names, key=lambda group: order.index(group[0])))
    target, *reads = (
        Access(access.tensor, tuple(dim(names[group]) for group in each))
        for access, each in zip(accesses, axes, strict=True)
    )
    tensors: list[Tensor] = []
    for access in (target, *reads):
        shape = tuple(sizes[index.dims[0]] for index in access.index)
        tensors.append(replace(workload.tensor(access.tensor), shape=shape, origin=(0,) * len(shape)))
    one = replace(statement, dims=dims, target=target, reads=tuple(reads), position=(0,) * (len(dims) + 1))
    return replace(
        workload,
        dims=tuple(Dim(name, sizes[name]) for name in dims),
        tensors=tuple(tensors),
        statements=(one,),
        bare=None,
    )


def _axes(access: Access, form: ArrayForm, extents: dict[str, int]) -> Axes | None:
    """Return the dims of the axes of more than one element, outermost first; None where an axis has no dim of its own
    that numbers its elements."""
    found: Axes = []
    for number in sorted(range(len(form.sizes)), key=lambda axis: -form.strides[axis]):
        index = form.axis(access, number)
        terms = {name: factor for name, factor in index.coefficients().items() if extents[name] > 1}
        if index.constant or not index.is_linear:
            return None
        if not terms and form.sizes[number] == 1:
            continue
        if list(terms.values()) != [1] or extents[next(iter(terms))] != form.sizes[number]:
            return None
        found.append(tuple(terms))
    return found


def _join(axes: Sequence[Axes], own: set[str]) -> bool:
    """Join neighbouring axes of all arrays whose dims are some of `own`, in place; return whether there were any."""
    pairs = {pair for each in axes for pair in pairwise(each)}
    for outer, inner in sorted(pairs):
        if not {*outer, *inner} <= own:
            continue
        if all((outer, inner) in pairwise(each) for each in axes if outer in each or inner in each):
            for each in axes:
                if outer in each:
                    at = each.index(outer)
                    each[at : at + 2] = [outer + inner]
            _join(axes, own)
            return True
    return False


def _names(groups: Collection[tuple[str, ...]], workload: Workload) -> dict[tuple[str, ...], str]:
    """Return a name for each group of dims that is no other dim's."""
    taken = {dim.name for dim in workload.dims}
    names: dict[tuple[str, ...], str] = {}
    for group in groups:
        name = "".join(group)
        while len(group) > 1 and name in taken:
            name += "_"
        names[group] = name
        taken.add(name)
    return names
