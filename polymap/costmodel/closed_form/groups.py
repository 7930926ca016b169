"""The workload as the closed form reads it: how each tensor's axes depend on the dims.

An access is a linear map from dims to axes. Invertible row operations change no count, so the map is brought to reduced
row echelon form. A pivot alone in its row is a *single*: a dim that the element determines. The other rows fall into
*windows*, connected components of rows that share dims, such as p + r. The rows of one window are combined into one
integer form by factors so large that no two values coincide. The dims of an injective form (2p + q with q < 2) are
singles too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from math import gcd

from polymap.ir import Access, Affine, Operator, Statement, Workload, accesses_of, bounds, components, is_box


class DimKind(Enum):
    """The role of a dim in a tensor. IDLE: no axis has it. SINGLE: an element determines it. WINDOW: it is part of a
    window."""

    IDLE = "idle"
    SINGLE = "single"
    WINDOW = "window"


@dataclass(frozen=True, slots=True)
class Window:
    """A linear form of several dims: (dim, coefficient) per dim; dims are indices into the workload's dims."""

    terms: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class UnionForm:
    """The elements that several accesses touch, along the axes in which they differ: a union of boxes, one per access.

    dims: of the workload. boxes: per access and axis the terms (number among `dims`, coefficient) and the constant. In
    each access a dim is in at most one axis, so that the elements of a tile are a product over axes.
    """

    dims: tuple[int, ...]
    boxes: tuple[tuple[tuple[tuple[tuple[int, int], ...], int], ...], ...]


@dataclass(frozen=True, slots=True)
class TensorModel:
    """One tensor of the statement.

    reads: read accesses per statement instance (0 for the target). singles: dims that an element determines. windows:
    the other forms. kinds: per dim of the workload. overwritten: written without being read. union: of several
    different accesses, the elements that they touch (then `WINDOW` dims are those of the union); accesses: each as a
    tensor of its own.
    """

    index: int
    name: str
    bits: int
    written: bool
    overwritten: bool
    initial: bool
    temporary: bool
    reads: int
    singles: tuple[int, ...]
    windows: tuple[Window, ...]
    kinds: tuple[DimKind, ...]
    union: UnionForm | None = None
    accesses: tuple[TensorModel, ...] = ()

    def may_be_busier(self, dim: int) -> bool:
        """Return whether another instance than the first along a dim may read or write more of the tensor: along
        windows, and along dims that a written tensor lacks."""
        return self.kinds[dim] is DimKind.WINDOW or (self.written and self.kinds[dim] is DimKind.IDLE)


@dataclass(frozen=True, slots=True)
class WorkloadModel:
    """A single statement over a box. extents: per dim. tensors: in the workload's order."""

    statement: str
    dims: tuple[str, ...]
    extents: tuple[int, ...]
    tensors: tuple[TensorModel, ...]

    @property
    def has_unions(self) -> bool:
        """Whether a tensor is read through several accesses."""
        return any(tensor.union is not None for tensor in self.tensors)


def workload_model(workload: Workload, *, unions: bool = False) -> WorkloadModel | None:
    """Return the closed form's model of a workload; None where it does not apply.

    It applies to one statement over a box with all the workload's dims, one linear access per tensor (with `unions`
    several, if each touches boxes), and a target into which the statement accumulates or which it overwrites once per
    element.
    """
    if len(workload.statements) != 1:
        return None
    (statement,) = workload.statements
    if not is_box(statement) or set(statement.dims) != {dim.name for dim in workload.dims}:
        return None
    tensors: list[TensorModel] = []
    for index in range(len(workload.tensors)):
        model = _tensor_model(workload, statement, index, unions=unions)
        if model is None:
            return None
        tensors.append(model)
    extents = workload.extents()
    return WorkloadModel(statement.name, tuple(extents), tuple(extents.values()), tuple(tensors))


def _tensor_model(workload: Workload, statement: Statement, index: int, *, unions: bool) -> TensorModel | None:
    tensor = workload.tensors[index]
    accesses = accesses_of(statement, tensor.name)
    written = statement.target.tensor == tensor.name
    if len(accesses) == 0 or not all(axis.is_linear for access in accesses for axis in access.index):
        return None
    if written and len(accesses) > 1:
        return None
    if len(set(accesses)) > 1:
        return _model_of_union(workload, statement, index, accesses) if unions else None
    return _model_of_access(workload, statement, index, accesses[0], len(accesses))


def _model_of_union(
    workload: Workload, statement: Statement, index: int, accesses: tuple[Access, ...]
) -> TensorModel | None:
    """Return the model of a tensor that is read through several accesses; None where an access does not touch boxes."""
    extents = workload.extents()
    singles, form = union_form(tuple(dict.fromkeys(accesses)), extents)
    if form is None:
        return None
    alone: list[TensorModel] = []
    for access in dict.fromkeys(accesses):
        number = -1 - len(alone) - len(accesses) * index  # tells the accesses of all tensors apart
        model = _model_of_access(workload, statement, index, access, accesses.count(access))
        if model is None:
            return None
        alone.append(replace(model, index=number))
    kinds = [DimKind.IDLE] * len(extents)
    for dim in singles:
        kinds[dim] = DimKind.SINGLE
    for dim in form.dims:
        kinds[dim] = DimKind.WINDOW
    return replace(
        alone[0],
        index=index,
        reads=len(accesses),
        singles=singles,
        windows=(),
        kinds=tuple(kinds),
        union=form,
        accesses=tuple(alone),
    )


def _model_of_access(
    workload: Workload, statement: Statement, index: int, access: Access, count: int
) -> TensorModel | None:
    tensor = workload.tensors[index]
    written = statement.target.tensor == tensor.name
    singles, windows = axis_forms(access, workload.extents())
    overwritten = statement.operator is Operator.ASSIGN
    kinds = [DimKind.IDLE] * len(workload.dims)
    for dim in singles:
        kinds[dim] = DimKind.SINGLE
    for window in windows:
        for dim, _ in window.terms:
            kinds[dim] = DimKind.WINDOW
    several = any(kind is not DimKind.SINGLE and dim.extent > 1 for kind, dim in zip(kinds, workload.dims, strict=True))
    if written and overwritten and several:
        return None
    return TensorModel(
        index=index,
        name=tensor.name,
        bits=tensor.bits,
        written=written,
        overwritten=written and overwritten,
        initial=tensor.initial,
        temporary=tensor.temporary,
        reads=0 if written else count,
        singles=singles,
        windows=windows,
        kinds=tuple(kinds),
    )


def union_form(accesses: tuple[Access, ...], extents: dict[str, int]) -> tuple[tuple[int, ...], UnionForm | None]:
    """Return the dims that are an axis of their own in all accesses alike, and the union along the other axes.

    The union is None where a dim is in two axes of one access. Dims of extent 1 are left out. An axis of its own is a
    factor: the elements are (union along the other axes) x its indices.
    """
    numbers = {name: number for number, name in enumerate(extents)}
    rows = [
        [
            (tuple((numbers[name], factor) for name, factor in axis.coefficients().items() if extents[name] > 1), axis)
            for axis in access.index
        ]
        for access in accesses
    ]
    if any(len({dim for terms, _ in row for dim, _ in terms}) < sum(len(terms) for terms, _ in row) for row in rows):
        return (), None
    columns = list(zip(*rows, strict=True))
    used = [{dim for terms, _ in column for dim, _ in terms} for column in columns]
    singles: list[int] = []
    left: list[tuple[tuple[tuple[tuple[int, int], ...], int], ...]] = []
    for place, column in enumerate(columns):
        elsewhere = {dim for other, dims in enumerate(used) if other != place for dim in dims}
        alike = len({(terms, axis.constant) for terms, axis in column}) == 1
        if alike and len(used[place]) <= 1 and not used[place] & elsewhere:
            singles += used[place]
        else:
            left.append(_without_stride(tuple((terms, axis.constant) for terms, axis in column)))
    dims = tuple(sorted({dim for column in left for terms, _ in column for dim, _ in terms}))
    boxes = tuple(
        tuple((tuple((dims.index(dim), factor) for dim, factor in terms), constant) for terms, constant in box)
        for box in zip(*left, strict=True)
    )
    return tuple(sorted(singles)), UnionForm(dims, boxes or ((),))


def _without_stride(
    column: tuple[tuple[tuple[tuple[int, int], ...], int], ...],
) -> tuple[tuple[tuple[tuple[int, int], ...], int], ...]:
    """Return one axis of all accesses divided by the common divisor of their coefficients, if their offsets agree
    modulo it."""
    stride = gcd(*(factor for terms, _ in column for _, factor in terms))
    first = column[0][1]
    if stride < 2 or any((constant - first) % stride for _, constant in column):
        return column
    return tuple(
        (tuple((dim, factor // stride) for dim, factor in terms), (constant - first) // stride)
        for terms, constant in column
    )


def axis_forms(access: Access, extents: dict[str, int]) -> tuple[tuple[int, ...], tuple[Window, ...]]:
    """Return the dims that an element of a linear access determines, and the windows of the other dims.

    Dims of extent 1 are left out: their index is always 0.
    """
    names = [name for name, extent in extents.items() if extent > 1]
    numbers = {name: number for number, name in enumerate(extents)}
    axes = [axis.coefficients() for axis in access.index]
    moving = [[name for name, factor in axis.items() if factor and extents[name] > 1] for axis in axes]
    if all(len(dims) < 2 for dims in moving):
        return tuple(sorted({numbers[name] for dims in moving for name in dims})), ()
    rows = [[Fraction(axis.get(name, 0)) for name in names] for axis in axes]
    singles: list[int] = []
    joined: list[list[tuple[str, int]]] = []
    for row in _row_echelon_form(rows):
        terms = _primitive(names, row)
        if len(terms) == 1:
            singles.append(numbers[terms[0][0]])
        else:
            joined.append(terms)
    windows: list[Window] = []
    for numbers_of in components([name for name, _ in row] for row in joined):
        form = _one_form([joined[number] for number in numbers_of], extents)
        if _is_injective(form, extents):
            singles += [numbers[name] for name in form]
        else:
            windows.append(Window(tuple(sorted((numbers[name], factor) for name, factor in form.items()))))
    return tuple(sorted(singles)), tuple(windows)


def _is_injective(form: dict[str, int], extents: dict[str, int]) -> bool:
    """Return whether no two points of the box have the same value of a form, as with 2p + q and q < 2.

    That is so if each coefficient exceeds the largest sum of the terms with smaller ones.
    """
    span = 0
    for factor, extent in sorted((abs(factor), extents[name]) for name, factor in form.items()):
        if factor <= span:
            return False
        span += factor * (extent - 1)
    return True


def _row_echelon_form(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    """Return the reduced row echelon form without its zero rows."""
    rows = [list(row) for row in rows]
    done = 0
    for column in range(len(rows[0]) if rows else 0):
        pivot = next((i for i in range(done, len(rows)) if rows[i][column]), None)
        if pivot is None:
            continue
        rows[done], rows[pivot] = rows[pivot], rows[done]
        head = rows[done][column]
        rows[done] = [value / head for value in rows[done]]
        for other in range(len(rows)):
            factor = rows[other][column]
            if other != done and factor:
                rows[other] = [a - factor * b for a, b in zip(rows[other], rows[done], strict=True)]
        done += 1
    return rows[:done]


def _primitive(names: list[str], row: list[Fraction]) -> list[tuple[str, int]]:
    """Return the non-zero terms of a row, scaled to integers without a common factor."""
    scale = 1
    for value in row:
        scale = scale * value.denominator // gcd(scale, value.denominator)
    terms = [(name, int(value * scale)) for name, value in zip(names, row, strict=True) if value]
    common = gcd(*(factor for _, factor in terms))
    return [(name, factor // common) for name, factor in terms]


def _one_form(rows: list[list[tuple[str, int]]], extents: dict[str, int]) -> dict[str, int]:
    """Return one form that is equal at two points, and at differences of points, exactly where all rows are."""
    total: dict[str, int] = {}
    factor = 1
    for row in rows:
        for name, coefficient in row:
            total[name] = total.get(name, 0) + factor * coefficient
        low, high = bounds(Affine(tuple((coefficient, name) for name, coefficient in row)), extents)
        # Differences of two values of a row have a magnitude of at most high - low, and those of two differences twice
        # that: with this factor the rows are the digits of the sum, so equal sums mean equal rows.
        factor *= 4 * (high - low) + 1
    return {name: coefficient for name, coefficient in total.items() if coefficient}
