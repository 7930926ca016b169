"""Statements that gcc is known to vectorize wrongly, in loops that it must leave alone.

gcc 12.2 loads neighbours in memory at once where the first of them is loaded, and stores them at once where the last is
stored, although a loop carries a dependence between them: with `A[9*i+20] = A[9*i+1]; A[9*i+21] = A[9*i+2];` in a loop
over i, or `A[i+2][j+2] = A[i][j+1]` in a short loop over j that it writes out, an iteration reads the second element
before the one that is two iterations earlier has written it. (Random loops: tests/referee/test_written_out_loops.py.)

A loop is in danger if it steps over elements, and a later iteration touches, later in the body, an element that an
earlier iteration wrote. Loops of many iterations inside it make it safe: then it is not the one that is vectorized.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import islpy as isl

from polymap.codegen.lower import TUNING as LOWERING, loop_extent
from polymap.codegen.programs.storage import Storage
from polymap.codegen.source import TUNING, Region, SourceStatement
from polymap.ir import Access, Affine, BudgetError, Statement, Workload
from polymap.poly import budget

_IN, _OUT = isl.dim_type.in_, isl.dim_type.out


def vector_hazards(
    workload: Workload,
    storage: Storage,
    region: Region,
    times: Mapping[str, isl.Map],
    entries: Mapping[str, Sequence[Affine]],
) -> frozenset[str]:
    """Return the statements of loops that must not be vectorized; those that isl does not decide in time are among
    them. entries: the times as expressions."""
    found: set[str] = set()
    own = {each.name: each for each in workload.statements}
    for first in region.statements:
        for second in region.statements:
            pair = own[first.name], own[second.name]
            places = list(_places_of_short_bodies(workload, *(entries[each.name] for each in pair)))
            if {first.name, second.name} <= found or not places:
                continue
            for place in places:
                if _is_in_danger(storage, (first, second), pair, times, entries, place):
                    found |= {first.name, second.name}
                    break
    return frozenset(found)


def _places_of_short_bodies(workload: Workload, one: Sequence[Affine], other: Sequence[Affine]) -> Iterator[int]:
    """Yield the loops, by position, that two statements may share and whose inner loops may all be written out."""
    for place in reversed(range(len(one))):
        if one[place].terms and other[place].terms:
            yield place
        if any(
            loop_extent(workload, each[place], each[:place]) > LOWERING.unrolled_iterations
            for each in (one, other)
            if each[place].terms
        ):
            return


def _is_in_danger(
    storage: Storage,
    pair: tuple[SourceStatement, SourceStatement],
    statements: tuple[Statement, Statement],
    times: Mapping[str, isl.Map],
    entries: Mapping[str, Sequence[Affine]],
    place: int,
) -> bool:
    """Return whether the loop carries a dependence from a write of the first to an access of the second statement that
    is later in the body."""
    first, second = pair
    target = first.references[-1]
    sinks = [
        reference
        for reference, access in zip(second.references, (*statements[1].reads, statements[1].target), strict=True)
        if reference.array == target.array and _steps_over(storage, access, entries[second.name][place])
    ]
    if not sinks or not _steps_over(storage, statements[0].target, entries[first.name][place]):
        return False
    try:
        with budget(TUNING.checked_operations, what="the dependences of loops that may be written out"):
            later = _later_in_the_body(times[first.name], times[second.name], place)
            return any(not target.elements.apply_range(each.elements.reverse()).is_disjoint(later) for each in sinks)
    except BudgetError:
        return True


def _steps_over(storage: Storage, access: Access, time: Affine) -> bool:
    """Return whether the element moves on by more than one from one iteration of a loop to the next, or may do so."""
    if storage.is_variable(access.tensor):
        return False
    position = storage.forms[access.tensor].position(access)
    if not time.is_linear or len(time.terms) != 1 or not position.is_linear:
        return True
    ((dim, factor),) = time.coefficients().items()
    return abs(factor) > 1 or abs(position.coefficients().get(dim, 0)) > 1


def _later_in_the_body(first: isl.Map, second: isl.Map, place: int) -> isl.Map:
    """Return { first -> second : equal times before `place`, a later iteration there, and later in the body }."""
    length = first.dim(_OUT)
    space = first.get_space().range().map_from_set()
    pairs = isl.Map.universe(space)
    for number in range(place):
        pairs = pairs.equate(_IN, number, _OUT, number)
    pairs = pairs.order_lt(_IN, place, _OUT, place)
    rest = isl.Map.lex_lt(isl.Space.set_alloc(space.get_ctx(), 0, length - place - 1))
    whole = isl.Map.universe(isl.Space.alloc(space.get_ctx(), 0, place + 1, place + 1)).flat_product(rest)
    return first.apply_range(pairs.intersect(whole)).apply_range(second.reverse())
