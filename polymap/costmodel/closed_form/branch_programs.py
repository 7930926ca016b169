"""The programs of several statements whose trees have a closed form, and where their statements meet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from polymap.ir import (
    Access,
    Branch,
    Mapping,
    Operator,
    Spatial,
    Statement,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
    is_box,
    sets_each_once,
    statements_below,
)


class OutOfReach(Exception):
    """The formulas do not apply."""


def check_program(workload: Workload, order: tuple[str, ...], apart: tuple[frozenset[str], ...]) -> None:
    """Refuse programs beyond one statement that writes each tensor, over a box, before others read it, and all of it
    where it is temporary. order: of the statements in the tree. apart: those that run one after the other, once."""
    written = [each.target.tensor for each in workload.statements]
    for each in workload.statements:
        injective = each.operator is not Operator.ASSIGN or sets_each_once(each)
        reads_itself = any(access.tensor == each.target.tensor for access in each.reads)
        more = written.count(each.target.tensor) - (each.target.tensor in set_before(workload))
        if not is_box(each) or not injective or reads_itself or more > 1:
            raise OutOfReach(each.name)
    for tensor in workload.tensors:
        users = [each for each in workload.statements if accesses_of(each, tensor.name)]
        indices = {access.index for each in users for access in accesses_of(each, tensor.name)}
        readers = [each for each in users if each.target.tensor != tensor.name]
        is_passed = bool(apart) and all(sum(each.name in part for each in users) < 2 for part in apart)
        is_read = len(indices) == 1 or (is_passed and any(whole_access(workload, each, tensor) for each in readers))
        unread = tensor.temporary and not (readers and is_read)
        overwritten = (
            tensor.initial and len(users) > 1 and tensor.name not in set_before(workload)
        )  # a value from before the program may be read first
        first = min(users, key=lambda each: order.index(each.name)).target.tensor == tensor.name
        in_order = not workload.associative and len(users) > 1  # no places of partial sums
        if tensor.name in written and (unread or overwritten or not first or in_order):
            raise OutOfReach(tensor.name)


def apart_at_the_root(mapping: Mapping) -> tuple[frozenset[str], ...]:
    """Return the statements of each child of a branch that no loop is around; () where there is none."""
    around = list(takewhile(lambda node: not isinstance(node, Branch), mapping.nodes))
    branch = mapping.nodes[len(around)] if len(around) < len(mapping.nodes) else None
    if not isinstance(branch, Branch) or any(isinstance(node, Temporal | Spatial) for node in around):
        return ()
    return tuple(frozenset(statements_below(child)) for child in branch.children)


def whole_access(workload: Workload, statement: Statement, tensor: Tensor) -> Access | None:
    """Return an access by which a statement over a box is known to touch all of a tensor: every axis through dims of
    its own, of which each steps no further than those before it reach."""
    extents = workload.extents()
    for access in accesses_of(statement, tensor.name):
        reaches = list[int]()
        for form in access.index:
            steps = sorted(form.coefficients().items(), key=lambda step: step[1]) if form.is_linear else []
            reach = 1 if form.is_linear and not form.constant else 0
            for name, step in steps:
                reach = reach + step * (extents[name] - 1) if 0 < step <= reach else 0
            reaches.append(reach)
        if (
            tuple(reaches) == tensor.shape
            and not any(tensor.origin)
            and len(access.dims) == sum(len(form.dims) for form in access.index)
        ):
            return access
    return None


def moves_unlike(accesses: Sequence[Access], dims: Sequence[str]) -> bool:
    """Return whether accesses to one tensor may move differently as dims advance."""
    forms = [form for each in accesses for form in each.index]
    if len(accesses) < 2 or not any(name in form.dims for name in dims for form in forms):
        return False
    if not all(form.is_linear for form in forms):
        return True
    steps = {tuple(form.coefficients().get(name, 0) for form in each.index for name in dims) for each in accesses}
    return len(steps) > 1


def set_before(workload: Workload) -> dict[str, str]:
    """Return the tensors that one statement sets and another accumulates into, both all of it, with the first one."""
    found: dict[str, str] = {}
    for each in workload.tensors:
        writers = [one for one in workload.statements if one.target.tensor == each.name]
        if [one.operator is Operator.ASSIGN for one in writers] == [True, False]:
            sets, adds = writers
            found |= {each.name: sets.name} if sets.target == adds.target and not sets.reads else {}
    return found
