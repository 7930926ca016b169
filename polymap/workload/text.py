"""A workload as text: its loops, its statements as code, its tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from polymap.formatting import exact, size, table
from polymap.ir import Affine, Apply, Convert, Expression, Index, Number, Read, Statement, Workload, evaluated_reads
from polymap.workload.notation import access_text

_INFIX = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2, "<": 0, "<=": 0, "==": 0, "!=": 0, "&&": 0, "||": 0}
_BITS = ("<<", ">>", "&", "|", "^")


def workload_text(workload: Workload) -> str:
    """Return loops, statements and tensors of a workload."""
    loops = ", ".join(f"{dim.name} < {exact(dim.extent)}" for dim in workload.dims)
    lines = [workload.name, "", f"for {loops or 'nothing'}"]
    for statement in workload.statements:
        where = "".join(f", {constraint_text(constraint)}" for constraint in statement.constraints)
        inside = f" if {where[2:]}" if where else ""
        lines.append(f"  {statement.name}: {statement_text(statement)}{inside}")
    if len(workload.statements) == 1 and not workload.statements[0].constraints:
        lines += ["", f"{exact(prod(workload.extents().values()))} statement instances"]
    lines += [f"{each.name} {text}" for each in workload.statements if (text := _conditional_text(each))]
    if not workload.associative:
        lines.append("accumulations keep their order")
    rows = [
        (
            tensor.name,
            tensor.role.value,
            " x ".join(f"{extent:,}" for extent in tensor.shape) or "scalar",
            exact(prod(tensor.shape)),
            tensor.element_type or f"{tensor.bits} bit",
            size(prod(tensor.shape) * tensor.bits),
            ", ".join(["initial"] * tensor.initial + ["temporary"] * tensor.temporary),
        )
        for tensor in workload.tensors
    ]
    head = ("tensor", "role", "shape", "elements", "type", "size", "")
    return "\n".join((*lines, "", table(head, rows, left=2, prose=1)))


def _conditional_text(statement: Statement) -> str:
    """Return which reads C leaves out under conditions on data, "" if there are none."""
    certain = evaluated_reads(statement.expression)
    left = dict.fromkeys(access_text(each) for k, each in enumerate(statement.reads) if k not in certain)
    return f"counts {', '.join(left)} in every instance: conditions on data decide which are read" if left else ""


def constraint_text(constraint: Affine) -> str:
    """Return "expression >= 0"."""
    return f"{constraint} >= 0"


def statement_text(statement: Statement) -> str:
    """Return a statement as one line of code: `O[n,k,p,q] += I[n,c,p+r,q+s] * W[k,c,r,s]`."""
    value = expression_text(statement.expression, [access_text(each) for each in statement.reads])
    return f"{access_text(statement.target)} {statement.operator.value} {value}"


def expression_text(expression: Expression, reads: Sequence[str], within: int = 0) -> str:
    """Return an expression as code. reads: the texts of what it reads; within: how tightly the operation around it
    binds."""
    match expression:
        case Read():
            return reads[expression.access]
        case Number():
            return expression.text
        case Index():
            text = str(expression.value)
            return f"({text})" if within and (" " in text or text.startswith("-")) else text
        case Apply():
            return _operation(expression, reads, within)
        case Convert(kind, value, written):
            # What C converts by itself is not shown, no more than the text shows it.
            return f"({kind}) {expression_text(value, reads, 3)}" if written else expression_text(value, reads, within)


def _operation(expression: Apply, reads: Sequence[str], within: int) -> str:
    name, arguments = expression.operation, expression.arguments
    if name in _INFIX and len(arguments) > 1:
        binds = _INFIX[name]
        parts = [expression_text(one, reads, binds + (place > 0)) for place, one in enumerate(arguments)]
        text = f" {name} ".join(parts)
        return f"({text})" if binds < within else text
    if name in _BITS:
        return f"({f' {name} '.join(expression_text(argument, reads, 3) for argument in arguments)})"
    if name == "?:":
        test, yes, no = (expression_text(argument, reads) for argument in arguments)
        return f"({test} ? {yes} : {no})"
    if name in ("neg", "!"):
        text = "".join(expression_text(one, reads, 3) for one in arguments)
        return ("-" if name == "neg" else "!") + (f"({text})" if text.startswith("-") else text)
    return f"{name}({', '.join(expression_text(argument, reads) for argument in arguments)})"
