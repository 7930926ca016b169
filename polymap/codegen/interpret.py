"""Interprets statements with numpy and plain Python: one statement in blocks, or a program in order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any, assert_never

import numpy as np
from numpy.typing import NDArray

from polymap.codegen.tuning import TUNING
from polymap.ir import Access, Affine, Apply, Convert, Expression, Index, Number, Operator, Read, Statement, Workload
from polymap.workload.c import FLOATS, common, limits, number_type, promoted, value_types

# In the elements' own types; int64 where these are not known.
Values = NDArray[np.integer[Any] | np.floating[Any]]
Data = dict[str, Values]
Points = dict[str, NDArray[np.int64]]
Mask = NDArray[np.bool_]
Types = tuple[tuple[str, ...], str]  # of a statement's reads, and of its value

_EVERYWHERE: Mask = np.array(1, dtype=np.bool_)
_USUAL = ("+", "-", "*", "/", "%", "max", "min", "<", "<=", "==", "!=", "&", "|", "^")  # of operands of one type
_TRUTHS = ("<", "<=", "==", "!=", "&&", "||", "!")
_UFUNCS: dict[Operator, np.ufunc] = {
    Operator.ADD: np.add,
    Operator.MULTIPLY: np.multiply,
    Operator.MAX: np.fmax,
    Operator.MIN: np.fmin,
}


class UndefinedValueError(ArithmeticError):
    """The program's result is undefined in C."""


def evaluate_blocks(workload: Workload, statement: Statement, arrays: Data) -> None:
    """Run a statement that does not read its target over its domain, a block of points at a time.

    An element that is not initial is set by the first value that reaches it.
    """
    target = arrays[statement.target.tensor].reshape(-1)
    holds = np.full(target.shape, workload.tensor(statement.target.tensor).initial)
    types = value_types(statement, {name: array.dtype.name for name, array in arrays.items()})
    for points in _blocks(workload, statement):
        reads = [arrays[a.tensor].reshape(-1)[_flat_indices(workload, a, points)] for a in statement.reads]
        values = np.broadcast_to(_result(statement, types, reads, points), _length(points))
        where = _flat_indices(workload, statement.target, points)
        if statement.operator is Operator.ASSIGN:
            target[where] = values
            continue
        fresh = np.unique(where[~holds[where]])
        target[fresh] = _neutral(statement.operator, target.dtype)
        holds[fresh] = True
        _UFUNCS[statement.operator].at(target, where, values.astype(target.dtype))


def _neutral(operator: Operator, dtype: np.dtype[np.generic]) -> float | int:
    if operator in (Operator.ADD, Operator.MULTIPLY):
        return int(operator is Operator.MULTIPLY)
    sign = -1 if operator is Operator.MAX else 1
    if dtype.kind == "f":
        return sign * math.inf
    return limits(dtype.name)[sign > 0]


def _length(points: Points) -> int:
    """Return the number of points (one where there are no dims)."""
    return len(next(iter(points.values()))) if points else 1


def _blocks(workload: Workload, statement: Statement) -> Iterator[Points]:
    """Yield the points of the domain in lexicographic order, as one index array per dim."""
    shape = [workload.extents()[dim] for dim in statement.dims]
    size = math.prod(shape)
    for start in range(0, size, TUNING.instances_at_once):
        numbers = np.arange(start, min(start + TUNING.instances_at_once, size))
        columns = np.unravel_index(numbers, shape) if shape else ()
        points = dict(zip(statement.dims, columns, strict=True))
        inside = np.ones(len(numbers), dtype=bool)
        for constraint in statement.constraints:
            inside &= _affine(constraint, points) >= 0
        yield {dim: column[inside] for dim, column in points.items()} if statement.constraints else points


def _affine(form: Affine, points: Points) -> NDArray[np.int64]:
    total = np.full(_length(points), form.constant, dtype=np.int64)
    for coefficient, atom in form.terms:
        value = points[atom] if isinstance(atom, str) else _affine(atom.argument, points) // atom.divisor
        total = total + coefficient * value
    return total


def _flat_indices(workload: Workload, access: Access, points: Points) -> NDArray[np.int64]:
    tensor = workload.tensor(access.tensor)
    number = np.zeros(_length(points), dtype=np.int64)
    for form, origin, length in zip(access.index, tensor.origin, tensor.shape, strict=True):
        number = number * length + (_affine(form, points) - origin)
    return number


def _round(value: Values) -> Values:
    """Return the nearest integers, halves rounded away from zero as in C."""
    return np.copysign(np.floor(np.abs(value) + 0.5), value)


def _fma(kind: type[np.floating[Any]], *values: float) -> float:
    """Return left * right + more, rounded once to a type: to the nearest value, halves to even."""
    left, right, more = map(float, values)
    if not all(map(math.isfinite, values)):
        return left * right + more
    exact = Fraction(left) * Fraction(right) + Fraction(more)
    if not exact:
        return left * right + more  # as it is exact, with the sign that zero has in C
    try:
        near = float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)
    # Rounded to odd, a double is rounded to float as the exact value is (Boldo and Melquiond 2008).
    if kind is np.float32 and near != exact and int(np.float64(near).view(np.int64)) % 2 == 0:
        near = math.nextafter(near, math.copysign(math.inf, exact - Fraction(near)))
    return near


def _positive_difference(left: Values, right: Values) -> Values:
    return np.where(left <= right, 0, left - right)


def _divide(left: object, right: object) -> object:
    """Return C's quotient: integers truncate towards zero."""
    a, b = np.asarray(left), np.asarray(right)
    if a.dtype.kind == "f" or b.dtype.kind == "f":
        return a / b
    return (a - np.fmod(a, b)) // b


def _remainder(left: object, right: object) -> object:
    """Return C's remainder of integers, which has the sign of the left side."""
    return np.fmod(np.asarray(left), np.asarray(right))


_OPERATIONS: dict[str, Callable[..., object]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": _divide,
    "%": _remainder,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "&&": np.logical_and,
    "||": np.logical_or,
    "!": np.logical_not,
    "<<": np.left_shift,
    ">>": np.right_shift,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "pow": np.power,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "round": _round,
    "nearbyint": np.rint,
    "labs": np.abs,
    "llabs": np.abs,
    "fdim": _positive_difference,
    "fma": np.vectorize(partial(_fma, np.float64), otypes=[np.float64]),
    "fmaf": np.vectorize(partial(_fma, np.float32), otypes=[np.float32]),
    "erf": np.vectorize(math.erf),
    "tgamma": np.vectorize(math.gamma),
    "lgamma": np.vectorize(math.lgamma),
}


def _value(expression: Expression, reads: list[Values], points: Points, where: Mask = _EVERYWHERE) -> object:
    """Return the values of an expression. where: at which points C evaluates it; at others they mean nothing."""
    match expression:
        case Read(number):
            return reads[number]
        case Number(text):
            return _literal(text)
        case Index(form):
            return _affine(form, points)
        case Apply("?:", (condition, then, other)):
            asked = np.asarray(_value(condition, reads, points, where)) != 0
            yes = _value(then, reads, points, where & asked)
            no = _value(other, reads, points, where & ~asked)
            return np.where(asked, np.asarray(yes), np.asarray(no))
        case Apply("&&" | "||" as operation, (left, right)):
            first = np.asarray(_value(left, reads, points, where)) != 0
            asked = where & (first if operation == "&&" else ~first)
            return _truth(operation, _function(operation)(first, _value(right, reads, points, asked)))
        case Apply(operation, arguments):
            parts = [np.asarray(_value(argument, reads, points, where)) for argument in arguments]
            if operation in _USUAL and parts[0].dtype != parts[-1].dtype:
                kind = common(*(part.dtype.name for part in parts))
                parts = [part.astype(kind) for part in parts]
            _check_divisor(operation, parts, where)
            return _truth(operation, _function(operation)(*parts))
        case Convert(kind, value):
            return convert(np.asarray(_value(value, reads, points, where)), kind, where)
    assert_never(expression)


def _result(statement: Statement, types: Types, reads: list[Values], points: Points) -> Values:
    """Return the values of a statement in its own type, of reads in the types that C computes with."""
    operands = [read.astype(promoted(kind)) for read, kind in zip(reads, types[0], strict=True)]
    return convert(np.asarray(_value(statement.expression, operands, points)), types[1])


def _check_divisor(operation: str, parts: list[Values], where: Mask) -> None:
    """Raise UndefinedValueError where C would divide an integer by zero."""
    if operation in ("/", "%") and parts[1].dtype.kind != "f" and np.any((parts[1] == 0) & where):
        raise UndefinedValueError("an integer is divided by zero")


def _function(operation: str) -> Callable[..., object]:
    """Return numpy's function for an operation; most have the name of the C function. Those of float32 are rounded
    values of those of float64, as C's functions are nearly always."""
    if operation not in _OPERATIONS and not hasattr(np, operation):
        wide = _function(operation.removesuffix("f"))
        return lambda *values: np.asarray(wide(*(np.asarray(each, np.float64) for each in values)), np.float32)
    return _OPERATIONS[operation] if operation in _OPERATIONS else getattr(np, operation)


def _truth(operation: str, value: object) -> object:
    """Return truth values as C's int."""
    return np.asarray(value).astype(np.int32) if operation in _TRUTHS else value


def _literal(text: str) -> object:
    """Return the value of a C literal in its type."""
    kind = np.dtype(number_type(text))
    return kind.type(text.rstrip("uUlLfF"))


def convert(value: Values, kind: str, where: Mask = _EVERYWHERE) -> Values:
    """Return the values converted to an element type as in C; where: at which points C converts them.

    Raises UndefinedValueError if the result is undefined in C: a fraction beyond the range of an integer type.
    """
    if value.dtype.kind == "f" and kind not in FLOATS:
        low, high = limits(kind)
        whole = np.trunc(value.astype(np.float64))
        if not np.all((whole >= float(low)) & (whole < float(high + 1)) | ~where):
            raise UndefinedValueError(f"a fraction does not fit into {kind}")
    return value.astype(kind)


def interpret(workload: Workload, arrays: Data) -> None:
    """Run a program in textual order, one statement instance at a time.

    What is accumulated onto what nothing has touched is set by it; of a C program the caller set it.
    """
    touched: dict[str, NDArray[np.bool_]] = {
        tensor.name: np.full(tensor.shape, tensor.initial or workload.original is not None)
        for tensor in workload.tensors
    }
    kinds = {name: array.dtype.name for name, array in arrays.items()}
    types = {each.name: value_types(each, kinds) for each in workload.statements}
    instances: list[tuple[tuple[int, ...], Statement, tuple[int, ...]]] = []
    for statement in workload.statements:
        for points in _blocks(workload, statement):
            rows = zip(*(points[dim].tolist() for dim in statement.dims), strict=True) if points else ((),)
            for row in rows:
                time = tuple(x for pair in zip(statement.position, (*row, 0), strict=True) for x in pair)
                instances.append((time, statement, row))
    instances.sort(key=lambda instance: instance[0])
    for _, statement, row in instances:
        point = dict(zip(statement.dims, row, strict=True))
        _execute(workload, statement, types[statement.name], point, arrays, touched)


def _execute(
    workload: Workload,
    statement: Statement,
    types: Types,
    point: dict[str, int],
    arrays: Data,
    touched: dict[str, NDArray[np.bool_]],
) -> None:
    columns = {dim: np.array([value]) for dim, value in point.items()}
    for access in statement.reads:
        touched[access.tensor][_index(workload, access, point)] = True
    reads = [arrays[access.tensor][_index(workload, access, point)] for access in statement.reads]
    value = _result(statement, types, [np.asarray([read]) for read in reads], columns).reshape(-1)[:1]
    name = statement.target.tensor
    where = _index(workload, statement.target, point)
    if statement.operator is not Operator.ASSIGN and touched[name][where]:
        value = _UFUNCS[statement.operator](arrays[name][where].astype(value.dtype), value)
    arrays[name][where] = value.astype(arrays[name].dtype)[0]
    touched[name][where] = True


def _index(workload: Workload, access: Access, point: dict[str, int]) -> tuple[int, ...]:
    origin = workload.tensor(access.tensor).origin
    return tuple(form.evaluate(point) - first for form, first in zip(access.index, origin, strict=True))
