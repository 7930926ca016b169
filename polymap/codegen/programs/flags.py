"""The flags that compilers need for the text of a program."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from polymap.codegen.programs.overflow import may_overflow
from polymap.codegen.source import TUNING, Contraction
from polymap.ir import Convert, Operator, Statement, Workload, subexpressions
from polymap.workload.c import type_of


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
