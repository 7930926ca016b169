"""The flags that compilers need for the text of a program: whether its integers may leave their types, among others.

Told that they wrap around (-fwrapv), gcc keeps bytes that are added in wide vectors: four times slower where no value
can overflow.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from polymap.codegen.source import TUNING, Contraction
from polymap.ir import Apply, Convert, Expression, Index, Number, Operator, Read, Statement, Workload, subexpressions
from polymap.workload.c import limits, type_of

Range = tuple[int, int]
_TRUTHS = ("<", "<=", "==", "!=", "&&", "||", "!")


class _Overflow(Exception):
    """A value may leave its type; it does not leave this module."""


def may_overflow(workload: Workload) -> bool:
    """Return whether some signed integer may leave its type, for some values of the arrays: any sum of integers."""
    if workload.original is None or any(adds_integers(workload, each) for each in workload.statements):
        return True
    try:
        for each in workload.statements:
            _range_of(each.expression, [workload.tensor(access.tensor).element_type or "" for access in each.reads])
    except _Overflow:
        return True
    return False


def adds_integers(workload: Workload, statement: Statement) -> bool:
    """Return whether a statement of a C program adds integers onto an integer, or multiplies it by them."""
    if workload.original is None or statement.operator not in (Operator.ADD, Operator.MULTIPLY):
        return False
    kinds = [workload.tensor(each.tensor).element_type or "" for each in statement.reads]
    target = workload.tensor(statement.target.tensor).element_type or ""
    return "int" in target and "int" in type_of(statement.expression, kinds)


def _range_of(expression: Expression, reads: Sequence[str]) -> Range:
    """Return bounds on a value; (0, 0) for floats."""
    kind = type_of(expression, reads)
    is_integer = "int" in kind
    match expression:
        case Number(text):
            value = int(text.rstrip("uUlL")) if is_integer else 0
            return value, value
        case Convert(_, inner):
            low, high = _range_of(inner, reads)
            least, most = limits(kind) if is_integer else (0, 0)
            held = "int" in type_of(inner, reads) and least <= low <= high <= most
            return (low, high) if held else (least, most)
        case Apply(operation, arguments):
            found = [_range_of(each, reads) for each in arguments]
            return _within(kind, _result(operation, found)) if is_integer else (0, 0)
        case Read() | Index():
            return limits(kind) if is_integer else (0, 0)


def _within(kind: str, found: Range) -> Range:
    """Return a range that a type holds; that of the type for unsigned integers, which wrap around in C."""
    least, most = limits(kind)
    if least <= found[0] <= found[1] <= most:
        return found
    if least == 0:
        return least, most
    raise _Overflow


def _result(operation: str, arguments: Sequence[Range]) -> Range:
    if operation in _TRUTHS:
        return 0, 1
    if operation in ("?:", "max", "min"):
        chosen = arguments[1:] if operation == "?:" else arguments
        return min(low for low, _ in chosen), max(high for _, high in chosen)
    left, right = arguments[0], arguments[-1]
    match operation:
        case "+":
            return left[0] + right[0], left[1] + right[1]
        case "-":
            return left[0] - right[1], left[1] - right[0]
        case "*":
            ends = [one * other for one in left for other in right]
            return min(ends), max(ends)
        case "neg":
            return -left[1], -left[0]
        case "/":
            size = max(abs(left[0]), abs(left[1]))
            return -size, size
        case "%":
            size = max(abs(right[0]), abs(right[1]))
            return (-size if left[0] < 0 else 0), size
        case "abs" | "labs" | "llabs":
            return 0, max(-left[0], left[1])
        case _:
            raise _Overflow


def program_flags(
    workload: Workload, contractions: Sequence[Contraction], *, fma: bool, in_parts: bool = False
) -> tuple[str, ...]:
    """Return the flags. fma: a product and a sum may be rounded once. in_parts: so are maxima found, which clang writes
    out before it finds vectors.

    Loops of few instructions were seen to take a quarter longer where they cross a line of 32 bytes.
    """
    flags = [f"-ffp-contract={'fast' if fma else 'off'}", "-falign-loops=32"]
    if _avoids_straight_vectors(workload, contractions):
        flags.append("-fno-tree-slp-vectorize")
    elif in_parts:
        flags.append("-ftree-slp-vectorize")
    return (*flags, "-fwrapv") if may_overflow(workload) else tuple(flags)


def _avoids_straight_vectors(workload: Workload, contractions: Sequence[Contraction]) -> bool:
    """Return whether gcc must leave straight-line code without vectors.

    gcc 12 was seen to leave out the rounding of doubles to float there, and to gather long sums side by side in
    vectors, which take 1.5 times as long. Register tiles, and short sums that are written out, take 0.4 to 0.8 of the
    time with them.
    """
    if workload.original is None or any(_narrows(workload, each) for each in workload.statements):
        return True
    in_vectors = {each.statement for each in contractions if each.lane}
    return any(_is_long_sum(workload, each) for each in workload.statements if each.name not in in_vectors)


def _narrows(workload: Workload, statement: Statement) -> bool:
    """Return whether a statement rounds a double to float; every conversion of C is a Convert."""
    kinds = [workload.tensor(each.tensor).element_type or "" for each in statement.reads]
    converted = (each for each in subexpressions(statement.expression) if isinstance(each, Convert))
    return any(each.element_type == "float32" and type_of(each.value, kinds) == "float64" for each in converted)


def _is_long_sum(workload: Workload, statement: Statement) -> bool:
    extents, kept = workload.extents(), statement.target.dims
    terms = prod(extents[dim] for dim in statement.dims if dim not in kept)
    kind = workload.tensor(statement.target.tensor).element_type or ""
    is_sum = statement.operator in (Operator.ADD, Operator.MULTIPLY) and kind.startswith("float")
    return is_sum and terms > TUNING.written_out_iterations
