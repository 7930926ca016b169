"""Parts of a program as programs of their own: some of its statements, or one statement over tiles of its dims."""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import replace

from polymap.ir.loopnest import Access, Operator, Statement, Tensor, Workload, accesses_of, is_box
from polymap.ir.quasi_affine import bounds


def part_of(workload: Workload, statements: tuple[Statement, ...]) -> Workload:
    """Return some statements as a program of their own, which reads what those before them wrote. Tensors that it only
    reads are inputs like others."""
    first = min(each.position for each in statements)
    others = [each for each in workload.statements if each not in statements]
    before = {each.target.tensor for each in others if each.position < first}
    later = [each for each in others if each.position > first]
    written = {each.target.tensor for each in statements}
    tensors = tuple(
        replace(
            each,
            initial=each.name in written and (each.initial or each.name in before),
            temporary=each.name in written and each.temporary and not any(accesses_of(one, each.name) for one in later),
        )
        for each in workload.tensors
        if any(accesses_of(one, each.name) for one in statements)
    )
    dims = tuple(each for each in workload.dims if any(each.name in one.dims for one in statements))
    name = f"{workload.name}: {statements[-1].name}"
    return replace(workload, name=name, dims=dims, tensors=tensors, statements=statements, original=None)


def sets_each_once(statement: Statement) -> bool:
    """Return whether a statement overwrites, no element twice: it is counted like one that adds to zero."""
    is_set = statement.operator is Operator.ASSIGN and is_box(statement)
    return is_set and set(statement.dims) <= statement.target.dims_alone


def nest_of(workload: Workload, statement: Statement, extents: Table[str, int], *, is_initial: bool) -> Workload:
    """Return the nest that accumulates what one statement of a program does. extents: of its dims; is_initial: it adds
    to what exists. A statement that sets each element once adds to it."""
    tensors = tuple(
        replace(
            _of_tile(each, accesses_of(statement, each.name), extents),
            initial=is_initial and each.name == statement.target.tensor,
            temporary=False,
        )
        for each in workload.tensors
        if accesses_of(statement, each.name)
    )
    dims = tuple(replace(each, extent=extents[each.name]) for each in workload.dims if each.name in statement.dims)
    operator = Operator.ADD if statement.operator is Operator.ASSIGN else statement.operator
    alone = replace(statement, operator=operator)
    return replace(workload, dims=dims, tensors=tensors, statements=(alone,), original=None, bare=None)


def _of_tile(tensor: Tensor, accesses: tuple[Access, ...], extents: Table[str, int]) -> Tensor:
    """Return a tensor cut to the box that accesses touch."""
    axes = [[bounds(each.index[axis], extents) for each in accesses] for axis in range(len(tensor.shape))]
    low = tuple(min(first for first, _ in axis) for axis in axes)
    shape = tuple(max(last for _, last in axis) - first + 1 for axis, first in zip(axes, low, strict=True))
    return replace(tensor, shape=shape, origin=low)
