"""The result of a workload computed with numpy; shares nothing with the lowering except the loop nest.

Sums of products over a box are einsums over strided views, one per offset of the window dims; every other single
statement walks its domain in blocks; programs of several statements are interpreted in textual order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import as_strided

from polymap.codegen.interpret import Data, Values, evaluate_blocks, interpret
from polymap.codegen.lower import SHORT_FLOATS, operations_of
from polymap.ir import Access, Apply, Convert, Expression, Operator, Read, Statement, Tensor, Workload, is_box
from polymap.workload.c import FLOATS, INTEGERS, type_of, value_types

_EXACT_IN_FLOAT64 = 2**53
# Operations that have a value wherever nothing is divided by zero; C rounds it to the nearest one, other than of
# functions of a library.
_OPERATORS = ("+", "-", "*", "/", "%", "neg", "?:", "<", "<=", "==", "!=", "&&", "||", "!", "<<", ">>", "&", "|", "^")
TOTAL = frozenset((*_OPERATORS, "max", "min", "abs", "fabs", "fabsf", "fmax", "fmin", "fmaxf", "fminf"))
_LARGER = {"min": "max", "fmin": "fmax", **dict.fromkeys(("-", "<<", ">>", "&", "|", "^"), "+")}
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclass(frozen=True, slots=True)
class Reference:
    """The expected written tensors.

    magnitudes: per element, the sum of the magnitudes of its terms (floats only). additions: a bound on the number of
    terms. is_sum: the program is one accumulation of products; then both bound the error of sums in any order.
    is_exact: every operation is rounded as in C: results in the order of the program agree bit for bit.
    """

    values: Data
    magnitudes: Data
    additions: int
    is_sum: bool
    is_exact: bool = False


def reference(workload: Workload, data: Data) -> Reference:
    """Return the result of the workload on `data` (every read or initial tensor; int64 or float64 arrays).

    Raises UndefinedValueError if the result is undefined in C.
    """
    if workload.original is not None:
        return Reference(compute_workload(workload, data), {}, additions=0, is_sum=False)
    values = compute_workload(workload, data)
    magnitudes: Data = {}
    if any(array.dtype.kind == "f" for array in (*data.values(), *values.values())):
        absolute: Data = {name: np.abs(array).astype(np.float64) for name, array in data.items()}
        magnitudes = _run(_of_magnitudes(workload), absolute)
    additions = sum(_additions(workload, statement) for statement in workload.statements)
    operations = {name for statement in workload.statements for name in operations_of(statement.expression)}
    is_sum = len(workload.statements) == 1 and operations <= {"*"}
    return Reference(
        values, magnitudes, additions, is_sum, is_exact=not is_sum and operations <= TOTAL | {"sqrt", "sqrtf"}
    )


def compute_workload(workload: Workload, data: Data) -> Data:
    """Return the result of a workload on `data`, every value computed in its C type; bits are integers of 64 bits."""
    kinds = {tensor.name: _kind(tensor) for tensor in workload.tensors}
    for each in workload.statements:
        value = type_of(each.expression, [kinds[access.tensor] for access in each.reads])
        if workload.tensor(each.target.tensor).element_type is None and value in FLOATS:
            kinds[each.target.tensor] = "float64"
    shapes = {tensor.name: tensor.shape for tensor in workload.tensors}
    given = {name: data.get(name, np.zeros(shape)) for name, shape in shapes.items()}
    return _run(workload, {name: values.astype(kinds[name]) for name, values in given.items()})


def _kind(tensor: Tensor) -> str:
    if tensor.element_type in SHORT_FLOATS:
        return "float32"
    return tensor.element_type if tensor.element_type in (*INTEGERS, *FLOATS) else "int64"


def sum_magnitudes(workload: Workload, data: Data) -> tuple[Data, int] | None:
    """Return the magnitudes and the number of terms that bound the rounding errors of one accumulation of products.

    None for any other program.
    """
    operations = {name for statement in workload.statements for name in operations_of(statement.expression)}
    if len(workload.statements) != 1 or not operations <= {"*", "neg"}:
        return None
    absolute = {name: np.abs(array.astype(np.float64)) for name, array in data.items()}
    return _run(_of_magnitudes(workload), absolute), _additions(workload, workload.statements[0])


def _additions(workload: Workload, statement: Statement) -> int:
    """Return a bound on the number of terms of one element: dims alone in an axis of the target select the element."""
    return math.prod(workload.extents()[dim] for dim in statement.dims if dim not in statement.target.dims_alone)


def _of_magnitudes(workload: Workload) -> Workload:
    """Return the program that, run on absolute values, bounds the sum of the magnitudes of each element's terms."""
    statements = tuple(
        replace(
            statement,
            operator=Operator.MAX if statement.operator is Operator.MIN else statement.operator,
            expression=_magnitude(statement.expression),
        )
        for statement in workload.statements
    )
    return replace(workload, statements=statements)


def _magnitude(expression: Expression) -> Expression:
    if isinstance(expression, Convert):
        return _magnitude(expression.value)
    if not isinstance(expression, Apply):
        return expression
    arguments = tuple(_magnitude(argument) for argument in expression.arguments)
    if expression.operation == "neg":
        return arguments[0]
    operation = _LARGER.get(expression.operation, expression.operation)
    return Apply(operation, arguments)


def _run(workload: Workload, data: Data) -> Data:
    """Return the written tensors, computed in the types of the arrays; those that are not given are of float64."""
    arrays = {name: array.copy() for name, array in data.items()}
    for tensor in workload.tensors:
        arrays.setdefault(tensor.name, np.zeros(tensor.shape))
    first, *others = workload.statements
    with np.errstate(all="ignore"):  # what overflows or is undefined must do so in C as well
        if others or workload.original is not None or _reads_itself(first) or _rounds_sums(first, arrays):
            interpret(workload, arrays)
        elif _is_sum_of_products(first):
            _wide_einsum(workload, first, arrays)
        else:
            evaluate_blocks(workload, first, arrays)
    return {name: arrays[name] for name in dict.fromkeys(each.target.tensor for each in workload.statements)}


def _rounds_sums(statement: Statement, arrays: Data) -> bool:
    """Return whether every sum is rounded to the target's type: doubles onto a float, fractions onto an integer."""
    kinds = {name: array.dtype.name for name, array in arrays.items()}
    target, value = kinds[statement.target.tensor], value_types(statement, kinds)[1]
    return value in FLOATS and target != value and target != "float64"


def _wide_einsum(workload: Workload, statement: Statement, arrays: Data) -> None:
    """Accumulate in 64 bits: integers wrap around in the end as they do after every addition."""
    name, kinds = statement.target.tensor, {array.dtype.kind for array in arrays.values()}
    wide: Data = {each: array.astype(np.float64 if "f" in kinds else np.int64) for each, array in arrays.items()}
    _einsum(workload, statement, wide)
    arrays[name] = wide[name].astype(arrays[name].dtype)


def _reads_itself(statement: Statement) -> bool:
    return any(access.tensor == statement.target.tensor for access in statement.reads)


def _is_sum_of_products(statement: Statement) -> bool:
    if statement.operator is not Operator.ADD or not is_box(statement) or len(statement.dims) > len(_LETTERS):
        return False
    if not all(form.is_linear for access in (statement.target, *statement.reads) for form in access.index):
        return False
    plain = all(len(form.dims) <= 1 for form in statement.target.index)
    own = [dim for form in statement.target.index for dim in form.dims]
    return plain and len(set(own)) == len(own) and _is_product(statement.expression)


def _is_product(expression: Expression) -> bool:
    if isinstance(expression, Read):
        return True
    return isinstance(expression, Apply) and expression.operation == "*" and all(map(_is_product, expression.arguments))


def _factors(expression: Expression) -> Iterator[int]:
    if isinstance(expression, Read):
        yield expression.access
    elif isinstance(expression, Apply):
        for argument in expression.arguments:
            yield from _factors(argument)


def _einsum(workload: Workload, statement: Statement, arrays: Data) -> None:
    """Accumulate the einsum, one offset of the window dims (the smaller of two that share an axis) at a time."""
    extents = workload.extents()
    factors = [statement.reads[number] for number in _factors(statement.expression)]
    target = statement.target
    stepped = _window_dims(factors, extents)
    swept = tuple(dim for dim in statement.dims if dim not in stepped)
    exact = _fits_float64(workload, statement, [arrays[access.tensor] for access in factors])
    letters = dict(zip(swept, _LETTERS, strict=False))
    for offsets in itertools.product(*(range(extents[dim]) for dim in stepped)):
        at = dict(zip(stepped, offsets, strict=True))
        views = [_view(workload, access, arrays[access.tensor], swept, at) for access in factors]
        # Whole numbers below 2^53 are exact in float64, where BLAS is fast.
        operands = [view.astype(np.float64) if exact else view for view, _ in views]
        place, own = _view(workload, target, arrays[target.tensor], swept, at)
        missing = [dim for dim in own if all(dim not in dims for _, dims in views)]  # every such index gets the same
        operands += [np.ones(extents[dim], dtype=operands[0].dtype) for dim in missing]
        lists = ",".join(
            ["".join(letters[dim] for dim in dims) for _, dims in views] + [letters[dim] for dim in missing]
        )
        text = f"{lists}->{''.join(letters[dim] for dim in own)}"
        place += np.einsum(text, *operands, optimize=True).astype(place.dtype)


def _window_dims(accesses: list[Access], extents: dict[str, int]) -> tuple[str, ...]:
    stepped: dict[str, None] = {}
    for access in accesses:
        for form in access.index:
            by_size = sorted(form.dims, key=lambda dim: extents[dim])
            stepped.update(dict.fromkeys(by_size[:-1]))
    return tuple(stepped)


def _fits_float64(workload: Workload, statement: Statement, factors: list[Values]) -> bool:
    size = math.prod(workload.extents()[dim] for dim in statement.dims)
    for array in factors:
        size *= int(np.max(np.abs(array), initial=0))
    return size < _EXACT_IN_FLOAT64 or any(array.dtype.kind == "f" for array in factors)


def _view(
    workload: Workload, access: Access, array: Values, swept: tuple[str, ...], at: dict[str, int]
) -> tuple[Values, tuple[str, ...]]:
    """Return a strided view of the elements of an access, with one axis per swept dim that it has, and these dims."""
    extents, tensor = workload.extents(), workload.tensor(access.tensor)
    start = 0
    strides: dict[str, int] = {}
    for form, origin, stride in zip(access.index, tensor.origin, array.strides, strict=True):
        start += (form.constant - origin) * stride
        for dim, coefficient in form.coefficients().items():
            if dim in at:
                start += at[dim] * coefficient * stride
            else:
                strides[dim] = strides.get(dim, 0) + coefficient * stride
    dims = tuple(dim for dim in swept if dim in strides)
    flat = array.reshape(-1)[start // array.itemsize :]
    view = as_strided(flat, shape=[extents[dim] for dim in dims], strides=[strides[dim] for dim in dims])
    return view, dims
