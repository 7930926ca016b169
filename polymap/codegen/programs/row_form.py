"""Programs that a block of rows runs through from the first statement to the last: attention, softmax, layer norms.

The targets of all statements share some dims, in which every element stays with its own index: these number the rows.
What else a target has is one dim, the lanes of a row. A statement is a product of matrices (a row of terms times a
matrix of terms and lanes), or a value per lane, a sum or an extreme over the lanes, or a value per row. The temporary
tensors of a block of rows fit a near cache, where whole ones would not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from polymap.codegen.native import ArrayForm, program_forms
from polymap.ir import Access, Apply, Operator, Read, Statement, Workload, written_tensors
from polymap.workload.c import FLOATS

_PRODUCT = (Apply("*", (Read(0), Read(1))), Apply("*", (Read(1), Read(0))))


@dataclass(frozen=True, slots=True)
class Product:
    """A statement `to[row, lane] += a[row, term] * b[term, lane]`. a, b: numbers of its reads."""

    statement: Statement
    lane: str
    term: str
    a: int
    b: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """Statements that run together: in one loop over the lanes, or once per row where `extent` is 0. lanes: the dim of
    each."""

    statements: tuple[Statement, ...]
    lanes: tuple[str, ...]
    extent: int
    finds_extreme: bool = False


@dataclass(frozen=True, slots=True)
class RowForm:
    """outer: dims of the rows' groups, which share matrices; rows: dims that number the rows of a group, as one.
    forms: of all tensors; lane_of: the extent of a row of a tensor, 0 for one value per row."""

    workload: Workload
    kind: str
    outer: tuple[str, ...]
    rows: tuple[str, ...]
    steps: tuple[Product | Sweep, ...]
    callers: tuple[ArrayForm, ...]
    forms: dict[str, ArrayForm]
    lane_of: dict[str, int]

    def extent(self, dims: Sequence[str]) -> int:
        """Return how many values dims have together."""
        extents = self.workload.extents()
        return prod(extents[dim] for dim in dims)

    def factors(self, access: Access) -> dict[str, int]:
        """Return by how many elements an access moves per step of each dim."""
        return {dim: int(factor) for dim, factor in self.forms[access.tensor].position(access).coefficients().items()}

    def row_step(self, access: Access) -> int:
        """Return the elements from one row of a group to the next."""
        return self.factors(access).get(self.rows[-1], 0) if self.rows else 0

    def is_scratch(self, tensor: str) -> bool:
        """Return whether a tensor lives as long as a block of rows."""
        return self.workload.tensor(tensor).temporary


def row_form(workload: Workload) -> RowForm | None:
    """Return how a program runs by blocks of rows; None where it does not, or where sums must keep their order."""
    kinds = {each.element_type for each in workload.tensors}
    statements = workload.statements
    if workload.original is not None or not workload.associative or len(kinds) > 1 or kinds & {*FLOATS} != kinds:
        return None
    if not all(map(_is_plain, statements)) or not _is_in_sequence(statements) or not _is_whole(workload):
        return None
    shared = _shared_dims(workload)
    if not shared or not _stays_in_its_row(workload, shared):
        return None
    steps = [_step(workload, each, shared) for each in statements]
    if any(each is None for each in steps):
        return None
    callers, local = program_forms(workload)
    forms = {each.tensor: each for each in (*callers, *local)}
    (kind,) = kinds
    made = RowForm(workload, kind or "", (), (), _join_steps([each for each in steps if each]), callers, forms, {})
    return _with_groups(made, shared)


def _is_plain(statement: Statement) -> bool:
    return not statement.constraints and all(
        each.is_plain and not any(index.constant or index.terms[0][0] != 1 for index in each.index)
        for each in (statement.target, *statement.reads)
    )


def _is_in_sequence(statements: Sequence[Statement]) -> bool:
    """Return whether each statement runs to its end before the next one starts."""
    first = [each.position[0] for each in statements]
    return all(one < other for one, other in pairwise(first))


def _is_whole(workload: Workload) -> bool:
    """Return whether no tensor has values before the program writes it, and each is written whole before it is read."""
    extents, done, written = workload.extents(), set[str](), written_tensors(workload)
    for each in workload.statements:
        target = workload.tensor(each.target.tensor)
        if any(access.tensor in written and access.tensor not in done for access in each.reads) or target.initial:
            return False
        if any(extents[index.dims[0]] != size for index, size in zip(each.target.index, target.shape, strict=True)):
            return False
        done.add(target.name)
    return all(not any(each.origin) for each in workload.tensors)


def _shared_dims(workload: Workload) -> tuple[str, ...]:
    """Return the dims of all targets, in the order of the last one: without its last axis if no lanes were left."""
    last = workload.statements[-1]
    dims = last.target.dims
    shared = tuple(dim for dim in dims if all(dim in each.target.dims for each in workload.statements))
    if all(set(each.dims) == set(shared) for each in workload.statements):
        shared = tuple(dim for dim in shared if dim != dims[-1])
    return shared


def _stays_in_its_row(workload: Workload, shared: Sequence[str]) -> bool:
    """Return whether all accesses of a tensor that is written have the shared dims on the same axes."""
    for name in sorted(written_tensors(workload)):
        patterns = {
            tuple(index.dims[0] if index.dims[0] in shared else "" for index in access.index)
            for each in workload.statements
            for access in (each.target, *each.reads)
            if access.tensor == name
        }
        if len(patterns) > 1:
            return False
    return True


def _step(workload: Workload, each: Statement, shared: Sequence[str]) -> Product | Sweep | None:
    extents = workload.extents()
    lanes = [dim for dim in each.target.dims if dim not in shared]
    terms = [dim for dim in each.dims if dim not in each.target.dims]
    if len(lanes) > 1 or len(terms) > 1 or (terms and each.operator is Operator.ASSIGN):
        return None
    if terms and any(access.tensor == each.target.tensor for access in each.reads):
        return None
    if lanes and terms:
        return _product(each, lanes[0], terms[0])
    lane = (*lanes, *terms, "")[0]
    finds_extreme = bool(terms) and each.operator in (Operator.MAX, Operator.MIN)
    return Sweep((each,), (lane,), extents[lane] if lane else 0, finds_extreme)


def _product(each: Statement, lane: str, term: str) -> Product | None:
    if each.operator is not Operator.ADD or each.expression not in _PRODUCT:
        return None
    for a, b in ((0, 1), (1, 0)):
        left, right = each.reads[a].dims, each.reads[b].dims
        if lane not in left and term in left and lane in right and term in right:
            return Product(each, lane, term, a, b)
    return None


def _join_steps(steps: Sequence[Product | Sweep]) -> tuple[Product | Sweep, ...]:
    """Return the steps with neighbouring loops over as many lanes as one, where no value of a whole row is read that
    the loop finds."""
    found: list[Product | Sweep] = []
    for each in steps:
        last = found[-1] if found else None
        if isinstance(each, Sweep) and isinstance(last, Sweep) and _may_join(last, each):
            each = Sweep((*last.statements, *each.statements), (*last.lanes, *each.lanes), each.extent)
            found.pop()
        found.append(each)
    return tuple(found)


def _may_join(one: Sweep, other: Sweep) -> bool:
    if one.extent != other.extent or one.finds_extreme or other.finds_extreme:
        return False
    if not one.extent:
        return True
    (own,), (lane,) = other.statements, other.lanes
    of_rows = {
        each.target.tensor for each, dim in zip(one.statements, one.lanes, strict=True) if dim not in each.target.dims
    }
    read_by_rows = {
        access.tensor
        for each, dim in zip(one.statements, one.lanes, strict=True)
        for access in each.reads
        if dim not in access.dims
    }
    touched = {own.target.tensor, *(access.tensor for access in own.reads)}
    return not touched & of_rows and not (lane not in own.target.dims and own.target.tensor in read_by_rows)


def _with_groups(form: RowForm, shared: Sequence[str]) -> RowForm | None:
    """Return the form with its rows: the last shared dims that no matrix has and that lie in memory as one dim. None
    where lanes are not neighbours in memory."""
    matrices = [each for step in form.steps if isinstance(step, Product) for each in (step.statement.reads[step.b],)]
    first = len(shared)
    while first and not any(shared[first - 1] in each.dims for each in matrices):
        if not all(_is_one_dim(form, each, shared[first - 1 :]) for each in _accesses(form)):
            break
        first -= 1
    lane_of: dict[str, int] = {}
    extents = form.workload.extents()
    for step in form.steps:
        for each, lane in _lanes(step):
            if not _is_contiguous(form, step, each, lane):
                return None
            lane_of[each.tensor] = extents[lane] if lane in each.dims else 0
    made = (form.workload, form.kind, tuple(shared[:first]), tuple(shared[first:]), form.steps)
    return RowForm(*made, form.callers, form.forms, lane_of)


def _accesses(form: RowForm) -> Iterator[Access]:
    for each in form.workload.statements:
        yield each.target
        yield from each.reads


def _is_one_dim(form: RowForm, access: Access, dims: Sequence[str]) -> bool:
    """Return whether an access moves along these dims as along one."""
    factors, extents = form.factors(access), form.workload.extents()
    step = factors.get(dims[-1], 0)
    for number, dim in enumerate(dims):
        if factors.get(dim, 0) != step * prod(extents[each] for each in dims[number + 1 :]):
            return False
    return True


def _lanes(step: Product | Sweep) -> Iterator[tuple[Access, str]]:
    """Yield the accesses of a step with the dim that runs along their rows; the matrix of a product aside."""
    if isinstance(step, Product):
        yield step.statement.target, step.lane
        yield step.statement.reads[step.a], step.term
        return
    for each, lane in zip(step.statements, step.lanes, strict=True):
        for access in (each.target, *each.reads):
            yield access, lane


def _is_contiguous(form: RowForm, step: Product | Sweep, access: Access, lane: str) -> bool:
    is_free = isinstance(step, Product) and access != step.statement.target  # rows of terms may have any step
    return is_free or form.factors(access).get(lane, 0) in (0, 1)
