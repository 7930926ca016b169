"""Sums that a compiler is known to add up wrongly.

gcc before 11.5, 12.4 and 13.2 (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=110381) loads neighbours in the order of
memory, although several additions to one sum of floats in a loop take them in another, and then counts some of them
twice and others never: `for (k...) for (l = 0; l < 2; ++l) sum += a[2 * k + 1 - l]` under -O3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polymap.codegen.lower.tuning import TUNING
from polymap.ir import Affine, Apply, Expression, Floor, Operator, Read, Statement, Workload

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_AFFECTED = """\
#if defined(__GNUC__) && !defined(__clang__) && (__GNUC__ < 11 || (__GNUC__ == 11 && __GNUC_MINOR__ < 5) || \\
    (__GNUC__ == 12 && __GNUC_MINOR__ < 4) || (__GNUC__ == 13 && __GNUC_MINOR__ < 2))
"""
# The pragma has effect on the functions below it.
IN_ORDER = f"""\
{_AFFECTED}#pragma GCC optimize("no-tree-loop-vectorize") /* sums of floats, GCC bug 110381 */
#endif
"""
IN_TURN = f"""\
{_AFFECTED}#define IN_TURN() __asm__ volatile("") /* not in vectors: sums of floats, GCC bug 110381 */
#else
#define IN_TURN()
#endif
"""
# Of loops whose dependences gcc does not respect (polymap/codegen/programs/function.py).
NO_VECTORS = """\
#if defined(__GNUC__) && !defined(__clang__)
#define NO_VECTORS() __asm__ volatile("") /* not in vectors: gcc 12 reads neighbours before they are written */
#else
#define NO_VECTORS()
#endif
"""
# The pragma has effect on the functions below it.
NO_INTERCHANGE = """\
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-loop-interchange") /* gcc 12 adds up floats of several loops in another order */
#endif
"""


def order_of_sums(workload: Workload) -> str:
    """Return the lines of C that keep compilers from adding up floats wrongly; none where no sum is in danger."""
    return IN_ORDER if _against_memory(workload) else ""


def sums_in_turn(workload: Workload, times: Mapping[str, Sequence[Affine]]) -> frozenset[str]:
    """Return the statements whose instances a compiler must not add up in vectors, in the order of their times.

    Calls of IN_TURN in their bodies keep it from that, and leave other loops alone.
    """
    backwards = {name for name, own in times.items() if any(factor < 0 for entry in own for factor, _ in entry.terms)}
    endangered = {each.name for each in _against_memory(workload)} | backwards
    return frozenset(
        each.name
        for each in workload.statements
        if each.name in endangered and _is_sum(workload, each) and _has_inner_sum(workload, each, times[each.name])
    )


def sums_of_several_loops(workload: Workload, times: Mapping[str, Sequence[Affine]]) -> frozenset[str]:
    """Return the statements that several loops around those over their elements add to, which gcc may interchange.

    gcc 12.2 does under -O3: of `for (r...) for (s...) for (i...) y[i] += a[r][s][i]` it counts the dependences between
    neighbouring iterations of r and of s, not those from one r to an earlier s of the next.
    """
    found: set[str] = set()
    for each in workload.statements:
        own = {dim for index in each.target.index for dim in index.dims}
        terms: set[str] = set()
        for dims in (set(entry.dims) for entry in times[each.name] if entry.terms):
            if dims & own and len(terms) > 1 and (each.operator is not Operator.ASSIGN or each.target in each.reads):
                found.add(each.name)
            terms |= dims - own
    return frozenset(found)


def _against_memory(workload: Workload) -> list[Statement]:
    """Return the sums of floats that may take neighbours in memory in another order: they step backwards, or several
    additions to one place follow each other."""
    sums = [each for each in workload.statements if _is_sum(workload, each)]
    places = [(each.position[:-1], each.target) for each in sums]
    return [
        each
        for each, place in zip(sums, places, strict=True)
        if any(coefficient < 0 for access in each.reads for index in access.index for coefficient, _ in index.terms)
        or places.count(place) > 1
        or _additions(each.expression, each) > 1
    ]


def _has_inner_sum(workload: Workload, statement: Statement, times: Sequence[Affine]) -> bool:
    """Return whether an innermost loop, or one around loops that may be written out, adds to one place."""
    own = {dim for index in statement.target.index for dim in index.dims}
    entries = [each for each in times if each.terms]
    for place in reversed(range(len(entries))):
        if set(entries[place].dims) - own:
            return True
        if loop_extent(workload, entries[place], entries[:place], last=True) > TUNING.unrolled_iterations:
            return False
    return False


def loop_extent(workload: Workload, entry: Affine, outer: Sequence[Affine], *, last: bool = False) -> int:
    """Return how many iterations the loop of an entry has in a whole tile around it (last: in the last tile), or at
    all; 1 where it is not over one dim."""
    if len(entry.terms) != 1 or not isinstance(entry.terms[0][1], str):
        return 1
    extent = workload.extents()[entry.dims[0]]
    sizes = [extent]
    for term in (term for each in outer for _, term in each.terms if isinstance(term, Floor)):
        if term.argument == Affine(((1, entry.dims[0]),)):
            sizes.append(extent % term.divisor or term.divisor if last else term.divisor)
        elif entry.dims[0] in term.argument.dims:
            return 1
    return min(sizes)


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
