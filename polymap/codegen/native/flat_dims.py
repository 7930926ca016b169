"""Dims that are one in memory: their indices number neighbouring elements of every array as those of one dim would.

A convolution of 1x1 filters without padding is a product: O[n,p,q,k] += I[n,p,q,c] * W[k,c] in NHWC is
O[npq,k] += I[npq,c] * W[k,c]. Tiles of the one dim are of any size, and rows that fill no whole vector are not seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from polymap.codegen.native.arrays import ArrayForm, array_forms
from polymap.codegen.native.tails import channel_axes
from polymap.ir import Access, Tensor, Workload, dim, with_indices
from polymap.workload import with_blocks_as_dims, without_idle_dims

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
    blocks = {group[0]: group for group in groups if len(group) > 1}
    return _name_blocks(with_blocks_as_dims(without_idle_dims(_in_memory_order(workload, forms)), blocks), blocks)


def _in_memory_order(workload: Workload, forms: Mapping[str, ArrayForm]) -> Workload:
    """Return the workload whose tensors have their axes as their arrays have them in memory."""
    (statement,) = workload.statements
    orders = {
        name: sorted(range(len(form.sizes)), key=lambda axis: -form.strides[axis]) for name, form in forms.items()
    }

    def placed(access: Access) -> Access:
        return Access(access.tensor, tuple(access.index[axis] for axis in orders[access.tensor]))

    def ordered(tensor: Tensor) -> Tensor:
        shape, origin = (tuple(part[axis] for axis in orders[tensor.name]) for part in (tensor.shape, tensor.origin))
        return replace(tensor, shape=shape, origin=origin)

    own = replace(statement, target=placed(statement.target), reads=tuple(map(placed, statement.reads)))
    return replace(workload, tensors=tuple(map(ordered, workload.tensors)), statements=(own,), bare=None)


def _name_blocks(flat: Workload, blocks: Mapping[str, tuple[str, ...]]) -> Workload:
    """Return the workload in which the dim of a block has a name of its own, such as pq of p and q."""
    names = {each.name: each.name for each in flat.dims}
    for first, block in blocks.items():
        name = "".join(block)
        while name in names.values():
            name += "_"
        names[first] = name
    (statement,) = flat.statements
    own = with_indices(statement, {old: dim(new) for old, new in names.items()})
    own = replace(own, dims=tuple(names[name] for name in statement.dims))
    return replace(flat, dims=tuple(replace(each, name=names[each.name]) for each in flat.dims), statements=(own,))


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
