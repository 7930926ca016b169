"""Products that gcc must round before it adds to them.

gcc 12 makes one instruction of `a * b - c` in one element and `a * b + c` in its neighbour (vfmaddsub, as in products
of complex numbers) and leaves out the rounding of the product even under -ffp-contract=off. It does not where the
product is a sum: -0.0 is added, of which it does not know the value. No value changes: x + -0.0 = x (IEEE 754, 6.3).
"""

from __future__ import annotations

from collections.abc import Sequence

from polymap.codegen.lower import operations_of
from polymap.ir import Apply, Convert, Expression, Operator, Read, Statement, Workload
from polymap.workload.c import type_of

# Element type -> the variable of the function that holds -0.0.
MINUS_ZEROS = {"float32": "minus_zero_f", "float64": "minus_zero"}


def rounded_products(workload: Workload, statement: Statement) -> tuple[Expression, tuple[str, ...]]:
    """Return the value of a statement with -0.0 added to such products, and the variables that hold it: they are read
    behind the statement's own reads."""
    others = [each for each in workload.statements if each.name != statement.name]
    if workload.original is None or not any(_adds(each) for each in others):
        return statement.expression, ()
    kinds = [workload.tensor(each.tensor).element_type or "" for each in statement.reads]
    zeros = tuple(MINUS_ZEROS.values())
    found = _round_products(statement.expression, kinds, negated="neg" in operations_of(statement.expression))
    return (found, zeros) if found != statement.expression else (found, ())


def _adds(statement: Statement) -> bool:
    return statement.operator is Operator.ADD or not {"+", "-"}.isdisjoint(operations_of(statement.expression))


def _round_products(expression: Expression, kinds: Sequence[str], *, negated: bool) -> Expression:
    """Return the expression with -0.0 added to the products that something is subtracted from; negated: perhaps, as
    compilers make differences of sums with negative terms."""
    match expression:
        case Convert(kind, value, written):
            return Convert(kind, _round_products(value, kinds, negated=negated), written)
        case Apply(operation, arguments):
            parts = [_round_products(each, kinds, negated=negated) for each in arguments]
            ends = 1 if operation == "-" else 2 if operation == "+" and negated else 0
            for place in range(ends):
                kind = type_of(arguments[place], kinds)
                if _is_product(arguments[place]) and kind in MINUS_ZEROS:
                    zero = Read(len(kinds) + list(MINUS_ZEROS).index(kind))
                    parts[place] = Apply("+", (parts[place], zero))
            return Apply(operation, tuple(parts))
        case _:
            return expression


def _is_product(expression: Expression) -> bool:
    match expression:
        case Apply("*"):
            return True
        case Apply("neg", (value,)):
            return _is_product(value)
        case _:
            return False
