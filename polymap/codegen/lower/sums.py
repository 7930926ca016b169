"""Sums that a compiler is known to add up wrongly.

gcc before 11.5, 12.4 and 13.2 (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=110381) loads neighbours in the order of
memory, although several additions to one sum of floats in a loop take them in another, and then counts some of them
twice and others never: `for (k...) for (l = 0; l < 2; ++l) sum += a[2 * k + 1 - l]` under -O3.
"""

from __future__ import annotations

from polymap.ir import Apply, Expression, Operator, Read, Statement, Workload

_FLOATS = ("float16", "bfloat16", "float32", "float64")
# The pragma has effect on the functions below it.
IN_ORDER = """\
#if defined(__GNUC__) && !defined(__clang__) && (__GNUC__ < 11 || (__GNUC__ == 11 && __GNUC_MINOR__ < 5) || \\
    (__GNUC__ == 12 && __GNUC_MINOR__ < 4) || (__GNUC__ == 13 && __GNUC_MINOR__ < 2))
#pragma GCC optimize("no-tree-loop-vectorize") /* sums of floats against the order of memory: GCC bug 110381 */
#endif
"""


def order_of_sums(workload: Workload) -> str:
    """Return the lines of C that keep compilers from adding up floats wrongly; none where no sum is in danger."""
    return IN_ORDER if _adds_against_memory(workload) else ""


def _adds_against_memory(workload: Workload) -> bool:
    """Return whether a sum of floats may take neighbours in memory in another order: it steps backwards, or several
    additions to one place follow each other."""
    sums = [each for each in workload.statements if _is_sum(workload, each)]
    if any(
        coefficient < 0 for each in sums for access in each.reads for i in access.index for coefficient, _ in i.terms
    ):
        return True
    places = {(each.position[:-1], each.target) for each in sums}
    return len(places) < len(sums) or any(_additions(each.expression, each) > 1 for each in sums)


def _is_sum(workload: Workload, statement: Statement) -> bool:
    if workload.tensor(statement.target.tensor).element_type not in _FLOATS:
        return False
    return statement.operator is Operator.ADD or statement.target in statement.reads


def _additions(expression: Expression, statement: Statement) -> int:
    """Return how many values are added one by one to the target that an expression begins with; 0 if it does not."""
    match expression:
        case Apply("+" | "-", (first, _)):
            if isinstance(first, Read):
                return int(statement.reads[first.access] == statement.target)
            inner = _additions(first, statement)
            return inner + 1 if inner else 0
        case _:
            return 0
