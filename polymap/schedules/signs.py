"""Legality of loop orders by sign vectors: integers only, no isl, microseconds per order.

The sign vectors of a dependence are the signs of its distances along the loops of the nest. An order of the loops is
legal if and only if in every sign vector the first non-zero entry, in that order, is positive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import factorial

from polymap.ir import BudgetError, Mistake, Operator, Statement, Workload
from polymap.schedules.tuning import TUNING

Vectors = Sequence[Sequence[int]]


def only_accumulates(workload: Workload) -> bool:
    """Return whether any order is legal: every tensor is accumulated with one operator, and none of them is read."""
    operators: dict[str, Operator] = {}
    for statement in workload.statements:
        target = statement.target.tensor
        if statement.operator is Operator.ASSIGN or operators.setdefault(target, statement.operator) is not (
            statement.operator
        ):
            return False
    return not any(read.tensor in operators for statement in workload.statements for read in statement.reads)


def any_order_is_legal(workload: Workload) -> bool:
    """Return whether no dependence restricts the loops of the only statement: it accumulates freely, or is known to
    write every element once (each dim alone in a linear index)."""
    if len(workload.statements) != 1:
        return False
    (statement,) = workload.statements
    target = statement.target
    if any(read.tensor == target.tensor for read in statement.reads):
        return False
    if statement.operator is not Operator.ASSIGN and workload.associative:
        return True
    looped = {dim.name for dim in workload.dims if dim.extent > 1}
    told = [looped.intersection(index.dims) for index in target.index if index.is_linear]
    return looped <= {dim for dims in told if len(dims) == 1 for dim in dims}


def band(workload: Workload) -> tuple[str, ...]:
    """Return the outermost perfectly nested loops (those around all statements), outermost first."""
    first, *others = workload.statements
    shared = first.dims
    for other in others:
        shared = shared[: _shared_loops(first, other)]
    return shared


def _shared_loops(first: Statement, second: Statement) -> int:
    places = zip(first.dims, second.dims, first.position, second.position, strict=False)
    count = 0
    for one, other, here, there in places:
        if one != other or here != there:
            break
        count += 1
    return count


@lru_cache(maxsize=128)
def _vectors(workload: Workload, relaxed: int) -> tuple[tuple[int, ...], ...]:
    from polymap.workload import Kind, dependences

    width = len(band(workload))
    found = {
        sign[:width]
        for dependence in dependences(workload)
        if not (relaxed and dependence.kind is Kind.REDUCTION)
        for sign in dependence.signs
    }
    return tuple(sorted(sign for sign in found if any(sign)))


def sign_vectors(workload: Workload, *, strict: bool = False) -> tuple[tuple[int, ...], ...]:
    """Return the signs of all dependence distances along `band(workload)`, which for one statement are all its dims.

    Accumulations of associative workloads are omitted unless `strict`. Distances of zero along the whole band are
    omitted: they do not depend on the order of its loops. The signs are exact where loops are reordered.
    """
    relaxed = workload.associative and not strict
    if relaxed and only_accumulates(workload):
        return ()
    return _vectors(workload, int(relaxed))


def legal_permutations(vectors: Vectors, length: int) -> Iterator[tuple[int, ...]]:
    """Yield the legal permutations of 0 .. length - 1 in lexicographic order."""
    allowed = _Allowed(vectors, length)
    prefix: list[int] = []

    def extend(used: int) -> Iterator[tuple[int, ...]]:
        if len(prefix) == length:
            yield tuple(prefix)
            return
        for position in allowed.after(used):
            prefix.append(position)
            yield from extend(used | 1 << position)
            prefix.pop()

    return extend(0)


def count_legal_permutations(vectors: Vectors, length: int) -> int:
    """Return how many permutations of 0 .. length - 1 are legal, without listing them.

    Loops in which all vectors are zero may stand anywhere and multiply the count. The others are counted over subsets
    (BudgetError beyond TUNING.most_entangled_loops of them).
    """
    entangled = [position for position in range(length) if any(vector[position] for vector in vectors)]
    if len(entangled) > TUNING.most_entangled_loops:
        raise BudgetError(
            Mistake(
                "PM514",
                f"{len(entangled)} loops with dependences have too many orders to count.",
                f"Up to {TUNING.most_entangled_loops} are counted.",
            )
        )
    reduced = [[vector[position] for position in entangled] for vector in vectors]
    allowed = _Allowed(reduced, len(entangled))
    ways = {0: 1}
    for _ in entangled:
        longer: dict[int, int] = {}
        for used, count in ways.items():
            for position in allowed.after(used):
                key = used | 1 << position
                longer[key] = longer.get(key, 0) + count
        ways = longer
    return sum(ways.values()) * factorial(length) // factorial(len(entangled))


def carried_by(vectors: Vectors, position: int) -> bool:
    """Return whether some vector's first non-zero entry is at `position`."""
    return any(vector[position] and not any(vector[:position]) for vector in vectors)


class _Allowed:
    """Which loops may come next after a set of loops (a bit mask), remembered per set.

    A vector is settled once a loop of the set has a non-zero entry in it (the first of them was positive); until then
    no loop with a negative entry may come.
    """

    def __init__(self, vectors: Vectors, length: int) -> None:
        self._length = length
        self._known: dict[int, tuple[int, ...]] = {}
        self._nonzero = [sum(1 << p for p, sign in enumerate(vector) if sign) for vector in vectors]
        self._negative = [sum(1 << p for p, sign in enumerate(vector) if sign < 0) for vector in vectors]

    def after(self, used: int) -> tuple[int, ...]:
        known = self._known.get(used)
        if known is None:
            forbidden = used
            for nonzero, negative in zip(self._nonzero, self._negative, strict=True):
                if not nonzero & used:
                    forbidden |= negative
            known = tuple(position for position in range(self._length) if not forbidden >> position & 1)
            self._known[used] = known
        return known
