"""The programs of several statements whose trees have a closed form, and where their statements meet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, takewhile

from polymap.ir import (
    Access,
    Architecture,
    Branch,
    Mapping,
    MappingNode,
    Operator,
    Spatial,
    Statement,
    Storage,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
    bounds,
    is_box,
    sets_each_once,
    statements_below,
)

Nodes = tuple[MappingNode, ...]


class OutOfReach(Exception):
    """The formulas do not apply."""


def check_program(workload: Workload, order: tuple[str, ...], mapping: Mapping) -> None:
    """Refuse programs beyond one statement that writes each tensor, over a box, before others read it, and all of it
    where it is temporary. order: of the statements in the tree."""
    apart, cut = _apart_at_the_root(mapping), set(_cut_above_branches(mapping.nodes))
    written = [each.target.tensor for each in workload.statements]
    for each in workload.statements:
        injective = each.operator is not Operator.ASSIGN or sets_each_once(each)
        reads_itself = any(access.tensor == each.target.tensor for access in each.reads)
        more = written.count(each.target.tensor) - (each.target.tensor in set_before(workload))
        more = 1 if lines_of(workload, workload.tensor(each.target.tensor), cut) else more
        if not is_box(each) or not injective or reads_itself or more > 1:
            raise OutOfReach(each.name)
    for tensor in workload.tensors:
        users = [each for each in workload.statements if accesses_of(each, tensor.name)]
        readers = [each for each in users if each.target.tensor != tensor.name]
        is_passed = bool(apart) and all(sum(each.name in part for each in users) < 2 for part in apart)
        is_read = common_access(workload, users, tensor, cut) is not None
        lines = lines_of(workload, tensor, cut)
        is_whole = is_passed and any(whole_access(workload, each, tensor) for each in readers)
        is_read = is_read or bool(lines) or is_whole
        unread = tensor.temporary and not (readers and is_read)
        overwritten = (
            tensor.initial
            and len(users) > 1
            and tensor.name not in set_before(workload)
            and not (lines and all(each.writer.operator is Operator.ASSIGN for each in lines))
        )  # a value from before the program may be read first
        first = min(users, key=lambda each: order.index(each.name)).target.tensor == tensor.name
        in_order = not workload.associative and len(users) > 1  # no places of partial sums
        if tensor.name in written and (unread or overwritten or not first or in_order):
            raise OutOfReach(tensor.name)


def _cut_above_branches(nodes: Sequence[MappingNode]) -> Iterator[str]:
    """Yield the dims of the loops above branches."""
    if nodes and isinstance(nodes[-1], Branch):
        yield from (node.dim for node in nodes if isinstance(node, Temporal | Spatial))
        for child in nodes[-1].children:
            yield from _cut_above_branches(child)


def _apart_at_the_root(mapping: Mapping) -> tuple[frozenset[str], ...]:
    """Return the statements of each child of a branch that no loop is around; () where there is none."""
    around = list(takewhile(lambda node: not isinstance(node, Branch), mapping.nodes))
    branch = mapping.nodes[len(around)] if len(around) < len(mapping.nodes) else None
    if not isinstance(branch, Branch) or any(isinstance(node, Temporal | Spatial) for node in around):
        return ()
    return tuple(frozenset(statements_below(child)) for child in branch.children)


def check_values(leaves: Sequence[Statement], loops: set[str]) -> None:
    """Refuse statements that read what others below the same loops add to in later iterations."""
    for each in leaves:
        tensor, advanced = each.target.tensor, loops & set(each.target.dims)
        reads = (access for other in leaves if other is not each for access in accesses_of(other, tensor))
        if each.operator is not Operator.ASSIGN and not all(advanced <= set(access.dims) for access in reads):
            raise OutOfReach(tensor)


def whole_access(workload: Workload, statement: Statement, tensor: Tensor) -> Access | None:
    """Return an access by which a statement over a box is known to touch all of a tensor: every axis through dims of
    its own, of which each steps no further than those before it reach."""
    extents = workload.extents()
    for access in accesses_of(statement, tensor.name):
        reaches = tuple(form.reach(extents) for form in access.index)
        if reaches == tensor.shape and not any(tensor.origin) and access.is_box:
            return access
    return None


def common_access(
    workload: Workload, users: Sequence[Statement], tensor: Tensor, cut: Collection[str]
) -> Access | None:
    """Return the access of the first of some statements over boxes where all that touch a tensor are known to touch
    the same of it, whatever tiles some dims are cut into: each axis by one index, or all of it by dims not cut."""
    extents = workload.extents()
    every = [access for each in users for access in accesses_of(each, tensor.name)]
    if len({each.index for each in every}) == 1:
        return every[0]
    for axis, length in enumerate(tensor.shape):
        forms = dict.fromkeys(each.index[axis] for each in every)
        if len(forms) > 1 and (
            tensor.origin[axis] or any(set(form.dims) & set(cut) or form.reach(extents) != length for form in forms)
        ):
            return None
    return every[0] if all(each.is_box for each in every) else None


@dataclass(frozen=True, slots=True)
class Line:
    """A statement that reads all of a tensor, and one that writes parts of it. unlike: the dims of the axes on which
    they touch it otherwise."""

    reader: Statement
    writer: Statement
    access: Access
    unlike: frozenset[str]


def line_of(workload: Workload, users: Sequence[Statement], tensor: Tensor, cut: Collection[str]) -> Line | None:
    """Return who reads and who writes a tensor of which each iteration of loops over some dims touches what one access
    of the reader touches in it, whatever the tiles: the writer a part of it, which the loops move alike; None where
    that is not known."""
    writers = [each for each in users if each.target.tensor == tensor.name]
    every = [access for each in users for access in accesses_of(each, tensor.name)]
    if len(writers) != 1 or len({each.index for each in every}) < 2 or not all(each.is_box for each in every):
        return None
    for reader in users:
        access = whole_access(workload, reader, tensor)
        if access is not None and reader not in writers and all(_covers(workload, access, one, cut) for one in every):
            axes = [pair for one in every for pair in zip(access.index, one.index, strict=True) if pair[0] != pair[1]]
            unlike = frozenset(name for pair in axes for form in pair for name in form.dims)
            return Line(reader, writers[0], access, unlike)
    return None


def lines_of(workload: Workload, tensor: Tensor, cut: Collection[str]) -> tuple[Line, ...]:
    """Return the lines of the statements that write a tensor, no two of them the same elements; () where two do."""
    users = [each for each in workload.statements if accesses_of(each, tensor.name)]
    writers, extents = [each for each in users if each.target.tensor == tensor.name], workload.extents()
    boxes = [[bounds(form, extents) for form in each.target.index] for each in writers]
    for one, other in combinations(boxes, 2):
        if not any(a[1] < b[0] or b[1] < a[0] for a, b in zip(one, other, strict=True)):
            return ()
    readers = [each for each in users if each not in writers]
    found = [line_of(workload, (each, *readers), tensor, cut) for each in writers]
    return tuple(each for each in found if each is not None)


def _covers(workload: Workload, wide: Access, access: Access, cut: Collection[str]) -> bool:
    """Return whether one access touches all that another one does in each iteration of loops over some dims."""
    inside = workload.extents() | dict.fromkeys(cut, 1)
    for one, other in zip(wide.index, access.index, strict=True):
        if one == other:
            continue
        steps = [[form.coefficients().get(name, 0) for name in cut] for form in (one, other) if form.is_linear]
        (low, high), (least, most) = bounds(one, inside), bounds(other, inside)
        if len(steps) < 2 or steps[0] != steps[1] or not (low <= least <= most <= high and one.reach(inside)):
            return False
    return True


def moves_unlike(accesses: Sequence[Access], dims: Sequence[str]) -> bool:
    """Return whether accesses to one tensor may move differently as dims advance."""
    forms = [form for each in accesses for form in each.index]
    if len(accesses) < 2 or not any(name in form.dims for name in dims for form in forms):
        return False
    if not all(form.is_linear for form in forms):
        return True
    steps = {tuple(form.coefficients().get(name, 0) for form in each.index for name in dims) for each in accesses}
    return len(steps) > 1


def unequal_dims(statement: Statement, spread: Collection[str]) -> set[str]:
    """Return those of the dims that siblings are spread along in which another one than the first may move more of some
    tensor, where a tile is shorter: along windows, dims that the target lacks, and those that several accesses to a
    tensor have unlike."""
    every = statement.target, *statement.reads
    unequal = {name for access in every for name in {*access.dims} - access.dims_alone}
    unequal |= set(statement.dims) - set(statement.target.dims)
    together = [accesses_of(statement, each.tensor) for each in every]
    return {dim for dim in spread if dim in unequal or any(moves_unlike(each, (dim,)) for each in together)}


def set_before(workload: Workload) -> dict[str, str]:
    """Return the tensors that one statement sets and another accumulates into, both all of it, with the first one."""
    found: dict[str, str] = {}
    for each in workload.tensors:
        writers = [one for one in workload.statements if one.target.tensor == each.name]
        if [one.operator is Operator.ASSIGN for one in writers] == [True, False]:
            sets, adds = writers
            found |= {each.name: sets.name} if sets.target == adds.target and not sets.reads else {}
    return found


def held_below(arch: Architecture, nodes: Nodes) -> Iterator[tuple[int, str]]:
    """Yield the (level, tensor) of the nodes of a tree."""
    for node in nodes:
        if isinstance(node, Storage):
            yield from ((arch.level_index(node.level), tensor) for tensor in node.tensors)
        elif isinstance(node, Branch):
            for child in node.children:
                yield from held_below(arch, child)


def own_nodes(nodes: Nodes, statement: Statement) -> Iterator[MappingNode]:
    """Yield the nodes of a child that concern its statement."""
    for node in nodes:
        if isinstance(node, Storage):
            yield from node.of(lambda name: accesses_of(statement, name))
        elif isinstance(node, Temporal | Spatial):
            if node.dim in statement.dims:
                yield node
        else:
            yield node


def loops_above(chain: Nodes, tensor: str) -> list[str]:
    """Return the dims of the loops above the last node for a tensor."""
    last = max(number for number, node in enumerate(chain) if isinstance(node, Storage) and tensor in node.tensors)
    return [node.dim for node in chain[:last] if isinstance(node, Temporal)]


def loops_that_idle(chain: Nodes) -> list[Temporal]:
    """Return the loops of a chain in whose last iteration, where it is shorter, some siblings are idle."""
    spread = {node.dim for node in chain if isinstance(node, Spatial)}
    return [node for node in chain if isinstance(node, Temporal) and node.dim in spread]


def at_the_top(chain: Nodes, tensor: str) -> Nodes:
    """Return the nodes of a chain that hold a tensor, above its loops."""
    nodes = tuple(node for node in chain if isinstance(node, Storage) and tensor in node.tensors)
    return (*nodes, *(node for node in chain if isinstance(node, Temporal | Spatial)))
