"""C's arithmetic types under the names of element types ("int8", "uint32", "float64"): their ranges and conversions.

Sizes are those of every 64-bit Unix (LP64): int has 32 bits, long and long long 64; char is signed. Sections are those
of C99 (ISO/IEC 9899:1999).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polymap.ir import Apply, Convert, Expression, Index, Number, Operator, Read, Statement, subexpressions

FLOATS = ("float32", "float64")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
SPELLING = {
    "int8": "signed char", "uint8": "unsigned char", "int16": "short", "uint16": "unsigned short",
    "int32": "int", "uint32": "unsigned", "int64": "long", "uint64": "unsigned long",
    "float32": "float", "float64": "double",
}  # fmt: skip
_SUFFIXES = {"int32": "", "uint32": "u", "int64": "L", "uint64": "uL"}
ABSOLUTES = {"abs": "int32", "labs": "int64", "llabs": "int64"}  # function of integers -> its type
_TRUTHS = ("<", "<=", "==", "!=", "&&", "||", "!")
_SIGNIFICAND_BITS = {"float32": 24, "float64": 53}


def is_unsigned(kind: str) -> bool:
    """Return whether the type is an unsigned integer."""
    return kind.startswith("u")


def bits_of(kind: str) -> int:
    """Return the size of the type."""
    return int(kind.lstrip("uintfloa"))


def limits(kind: str) -> tuple[int, int]:
    """Return the least and the largest value of an integer type."""
    bits = bits_of(kind)
    return (0, 2**bits - 1) if is_unsigned(kind) else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def holds(kind: str, low: int, high: int) -> bool:
    """Return whether an integer type holds all values from low to high."""
    least, largest = limits(kind)
    return least <= low and high <= largest


def promoted(kind: str) -> str:
    """Return the type after integer promotion: integers narrower than int become int (6.3.1.1)."""
    return "int32" if kind in INTEGERS and bits_of(kind) < 32 else kind


def common(left: str, right: str) -> str:
    """Return the common type of two operands by the usual arithmetic conversions (6.3.1.8)."""
    for kind in ("float64", "float32"):
        if kind in (left, right):
            return kind
    left, right = promoted(left), promoted(right)
    if bits_of(left) != bits_of(right):
        return max(left, right, key=bits_of)
    return left if is_unsigned(left) else right


def keeps_values(source: str, target: str) -> bool:
    """Return whether every value of the source type is one of the target type."""
    if source in FLOATS:
        return target in FLOATS and bits_of(target) >= bits_of(source)
    low, high = limits(source)
    if target in FLOATS:
        return max(-low, high) <= 2 ** _SIGNIFICAND_BITS[target]
    return holds(target, low, high)


def literal_type(digits: str, suffix: str, value: int) -> str | None:
    """Return the type of an integer literal (6.4.4.1), None where no type holds it; suffix: the letters u and l."""
    letters = suffix.lower()
    kinds = ["int32", "uint32", "int64", "uint64"]
    if "l" in letters:
        kinds = kinds[2:]
    if "u" in letters:
        kinds = [kind for kind in kinds if is_unsigned(kind)]
    elif not digits.startswith("0"):
        kinds = [kind for kind in kinds if not is_unsigned(kind)]
    return next((kind for kind in kinds if holds(kind, value, value)), None)


def type_of_value(low: int, high: int) -> str | None:
    """Return int, else long, where it holds all values from low to high; None where neither does."""
    return next((kind for kind in ("int32", "int64") if holds(kind, low, high)), None)


def decimal(value: int, kind: str) -> str:
    """Return a value >= 0 as a decimal literal of the type (of a wider one where C has none)."""
    return f"{value}{_SUFFIXES[kind]}"


def constant(value: int, kind: str) -> Expression:
    """Return an integer of a type as an expression."""
    number: Expression = Number(decimal(abs(value), promoted(kind)))
    if value < 0:
        number = Apply("neg", (number,))
    found = type_of(number, ())
    return number if found == kind else Convert(kind, number)


def type_of(expression: Expression, reads: Sequence[str]) -> str:
    """Return the type of a value; reads: the element types of the statement's reads.

    In expressions of C programs both sides of an operation have one type: every conversion of C is a Convert.
    """
    match expression:
        case Read(number):
            return reads[number]
        case Convert(kind):
            return kind
        case Index():
            return "int64"
        case Number(text):
            return number_type(text)
        case Apply(operation, arguments):
            if operation in _TRUTHS:
                return "int32"
            if operation == "?:":
                return type_of(arguments[1], reads)
            if operation in ("neg", "<<", ">>"):
                return promoted(type_of(arguments[0], reads))
            if operation in ("+", "-", "*", "/", "%", "max", "min", "&", "|", "^"):
                return common(type_of(arguments[0], reads), type_of(arguments[1], reads))
            return function_type(operation)


def value_types(statement: Statement, kinds: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """Return the types in which a statement's reads are computed with, and that of its value; kinds: tensor -> type.

    Reads have their own types where the expression says how they are converted, as those of C programs do. Elsewhere,
    as in an einsum of several types, they are converted to the target's type if that is wider, and so is what is stored
    or compared.
    """
    own = tuple(kinds[access.tensor] for access in statement.reads)
    target = kinds[statement.target.tensor]
    converts = any(isinstance(each, Convert) for each in subexpressions(statement.expression))
    if converts or _is_of_type(statement.expression, own, target):
        return own, type_of(statement.expression, own)
    wide = tuple(target if _is_wider(target, each) else each for each in own)
    adds = statement.operator in (Operator.ADD, Operator.MULTIPLY)
    return wide, type_of(statement.expression, wide) if adds else target


def _is_of_type(expression: Expression, reads: Sequence[str], kind: str) -> bool:
    """Return whether a value has this type, and so has whatever it is computed from, but for conditions and shifts."""
    found = type_of(expression, reads)
    match expression:
        case Apply("?:", (_, *arguments)) | Apply("<<" | ">>", (*arguments, _)):
            return all(_is_of_type(each, reads, kind) for each in arguments)
        case Apply(operation, arguments):
            return found == kind and (operation in _TRUTHS or all(_is_of_type(each, reads, kind) for each in arguments))
        case _:
            return kind in (found, promoted(found))


def _is_wider(one: str, other: str) -> bool:
    if one in FLOATS:
        return other != "float64"
    return other not in FLOATS and bits_of(one) > bits_of(other)


def number_type(text: str) -> str:
    """Return the type of a literal as it stands in an expression."""
    digits = text.rstrip("uUlL")
    if digits.isdigit():
        return literal_type(digits, text[len(digits) :], int(digits)) or "uint64"
    return "float32" if text[-1] in "fF" else "float64"


def function_type(name: str) -> str:
    """Return the type of a library function's result, which is also that of its arguments."""
    is_single = name.endswith("f") and name != "erf"
    return ABSOLUTES.get(name) or ("float32" if is_single else "float64")
