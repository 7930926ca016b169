"""Properties of a C region for all values of its parameters: dependences, parallel and permutable loops, counts.

Dependences are memory-based: two instances that touch one element, one of which writes it. Distances are numbers of
iterations of the loops that both statements share, outermost first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import islpy as isl

from polymap.codegen.source.dependences import accumulate, original_times
from polymap.codegen.source.region import Reference, Region, SourceStatement, region_of
from polymap.codegen.source.tuning import TUNING
from polymap.inputs import answers_in_words, expected_text
from polymap.ir import Shown
from polymap.poly import CountFormula, budget, count_formula
from polymap.workload.c import checked_sizes, read_program

_OUT, _SET, _DIV = isl.dim_type.out, isl.dim_type.set, isl.dim_type.div
_KINDS = ("flow", "anti", "output")


@dataclass(frozen=True, slots=True, eq=False)
class SymbolicStatement:
    """instances: their number as a formula in the parameters; None where no polynomial counts them."""

    name: str
    line: int
    loops: tuple[str, ...]
    instances: CountFormula | None


@dataclass(frozen=True, slots=True)
class SymbolicDependence:
    """Instances of `source` that run before instances of `sink` and touch the same elements of an array.

    kind: "flow", "anti", "output", or "reduction" where both add to the element, or multiply it. loops: those that both
    share. distances: per loop the number of iterations, None where it varies; () where there are too many to list.
    signs: of the distances, 1, 0 or -1 per loop. relation: the pairs, in isl's notation.
    """

    kind: str
    array: str
    source: str
    sink: str
    loops: tuple[str, ...]
    distances: tuple[tuple[int | None, ...], ...]
    signs: tuple[tuple[int, ...], ...]
    relation: str


@dataclass(frozen=True, slots=True)
class SymbolicLoop:
    """depth: loops around it. parallel: whether its iterations are independent for all values of the parameters: "yes",
    "reduction" (if partial results are combined) or "no"."""

    name: str
    depth: int
    statements: tuple[str, ...]
    parallel: str


@dataclass(frozen=True, slots=True, repr=False)
class SymbolicCheckup(Shown):
    """Properties that hold for all values of the parameters. bands: perfectly nested loops in maximal permutable runs,
    which may be tiled."""

    parameters: tuple[str, ...]
    statements: tuple[SymbolicStatement, ...]
    dependences: tuple[SymbolicDependence, ...]
    loops: tuple[SymbolicLoop, ...]
    bands: tuple[tuple[tuple[str, ...], ...], ...]


@answers_in_words
def symbolic_checkup(source: str, sizes: Mapping[str, int] | None = None, *, file: str = "C source") -> SymbolicCheckup:
    """Return the properties of a C region that hold for all values of its parameters; those in `sizes` are fixed.

    Assumes that arrays do not overlap and that subscripts are in bounds. Raises InputError and WorkloadError for C that
    is not supported, BudgetError where isl takes too long.
    """
    sizes, file = checked_sizes(sizes or {}), expected_text(file, "the name of the text")
    program = read_program(source, sizes, file)
    with budget(TUNING.operations, seconds=TUNING.seconds, what="the analysis of a C program with symbolic sizes"):
        region = region_of(program, sizes, file)
        pairs = list(_pairs(region))
        statements = tuple(
            SymbolicStatement(each.name, each.line, each.dims, count_formula(each.domain)) for each in region.statements
        )
        loops = tuple(_loops(region, pairs))
        return SymbolicCheckup(
            tuple(name for name in region.parameters if name not in sizes),
            statements,
            tuple(each.told() for each in pairs),
            loops,
            tuple(_bands(region, pairs)),
        )


def has_parameters(source: str, *, file: str = "C source") -> bool:
    """Return whether the loops of a C region depend on values that the text does not contain."""
    program = read_program(source, {}, file)
    with budget(TUNING.operations, seconds=TUNING.seconds, what="the reading of a C program with symbolic sizes"):
        return bool(region_of(program, {}, file).parameters)


@dataclass(frozen=True, slots=True, eq=False)
class _Pair:
    """Instances that depend on each other. distances: { [iterations of the shared loops] } per pair of references."""

    kind: str
    array: str
    source: SourceStatement
    sink: SourceStatement
    shared: int
    relation: isl.Map
    distances: tuple[isl.Set, ...]
    signs: tuple[tuple[int, ...], ...]

    def told(self) -> SymbolicDependence:
        return SymbolicDependence(
            self.kind,
            self.array,
            self.source.name,
            self.sink.name,
            self.source.dims[: self.shared],
            _constant_distances(self.distances),
            self.signs,
            self.relation.to_str(),
        )


def _pairs(region: Region) -> Iterator[_Pair]:
    times = original_times(region)
    for first in region.statements:
        for second in region.statements:
            order = times[first.name].lex_lt_map(times[second.name])
            shared = _common_depth(first, second)
            for kind in _KINDS:
                for (array, sums), relations in _pairs_of_instances(first, second, kind, order).items():
                    if sums and kind != "output":
                        continue  # these pairs write the element as well
                    apart = tuple(
                        _loop_distances(
                            times[first.name].reverse().apply_range(each).apply_range(times[second.name]).deltas(),
                            shared,
                        )
                        for each in relations
                    )
                    signs = tuple(sorted({sign for each in apart for sign in _signs(each, ())}, reverse=True))
                    relation = relations[0]
                    for each in relations[1:]:
                        relation = relation.union(each)
                    told = "reduction" if sums else kind
                    yield _Pair(told, array, first, second, shared, relation.coalesce(), apart, signs)


def _pairs_of_instances(
    first: SourceStatement, second: SourceStatement, kind: str, order: isl.Map
) -> dict[tuple[str, bool], list[isl.Map]]:
    """Return (array, whether both accumulate onto it) -> pairs of instances of one kind, per pair of references."""
    found: dict[tuple[str, bool], list[isl.Map]] = {}
    for one in first.references:
        for other in second.references:
            if one.array != other.array or not _is_kind(kind, one, other):
                continue
            pairs = one.elements.apply_range(other.elements.reverse()).intersect(order)
            pairs = _same_variable(pairs, one, other)
            if not pairs.is_empty():
                found.setdefault((one.array, accumulate(first, one, second, other)), []).append(pairs)
    return found


def _is_kind(kind: str, one: Reference, other: Reference) -> bool:
    before, after = {"flow": ("writes", "reads"), "anti": ("reads", "writes"), "output": ("writes", "writes")}[kind]
    return bool(getattr(one, before)) and bool(getattr(other, after))


def _same_variable(pairs: isl.Map, one: Reference, other: Reference) -> isl.Map:
    """Return the pairs that access one variable: a variable declared in a loop's body is another one in each
    iteration."""
    if one.declared is None and other.declared is None:
        return pairs
    if one.declared != other.declared or one.declared is None:
        return pairs.subtract(pairs)
    for number in range(one.declared.depth):
        pairs = pairs.equate(isl.dim_type.in_, number, _OUT, number)
    return pairs


def _common_depth(first: SourceStatement, second: SourceStatement) -> int:
    """Return the number of loops that two statements share."""
    count = 0
    for one, other, here, there in zip(first.dims, second.dims, first.position, second.position, strict=False):
        if one != other or here != there:
            break
        count += 1
    return count


def _loop_distances(apart: isl.Set, shared: int) -> isl.Set:
    """Return the distances of loop variables, from distances of times, in which textual positions alternate with
    them."""
    total = apart.dim(_SET)
    for place in reversed(range(total)):
        if place % 2 == 0 or place >= 2 * shared:
            apart = apart.project_out(_SET, place, 1)
    return apart.coalesce()


def _constant_distances(distances: Sequence[isl.Set]) -> tuple[tuple[int | None, ...], ...]:
    """Return the distances of each convex part, None where they vary."""
    found: dict[tuple[int | None, ...], None] = {}
    for part in (part for each in distances for part in each.get_basic_sets()):
        whole = isl.Set.from_basic_set(part)
        values = [whole.plain_get_val_if_fixed(_SET, place) for place in range(whole.dim(_SET))]
        found[tuple(int(value.to_str()) if value.is_int() else None for value in values)] = None
    return tuple(found) if len(found) <= TUNING.most_distances else ()


def _signs(distances: isl.Set, known: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the sign vectors that occur among the distances."""
    if distances.is_empty():
        return
    if len(known) == distances.dim(_SET):
        yield known
        return
    place = len(known)
    for sign in (1, 0, -1):
        if sign == 0:
            part = distances.fix_val(_SET, place, isl.Val(0, distances.get_ctx()))
        elif sign > 0:
            part = distances.lower_bound_val(_SET, place, isl.Val(1, distances.get_ctx()))
        else:
            part = distances.upper_bound_val(_SET, place, isl.Val(-1, distances.get_ctx()))
        yield from _signs(part, (*known, sign))


Loop = tuple[str, int, tuple[int, ...]]  # name, depth, textual place


def _loops_in_order(region: Region) -> dict[Loop, list[SourceStatement]]:
    """Return every loop with the statements inside, outer before inner, in textual order."""
    found: dict[Loop, list[SourceStatement]] = {}
    for each in region.statements:
        for depth, name in enumerate(each.dims):
            found.setdefault((name, depth, each.position[: depth + 1]), []).append(each)
    return found


def _loops(region: Region, pairs: Sequence[_Pair]) -> Iterator[SymbolicLoop]:
    for (name, depth, _), inside in _loops_in_order(region).items():
        names = tuple(each.name for each in inside)
        carried = [
            each
            for each in pairs
            if each.source.name in names
            and each.sink.name in names
            and any(not any(sign[:depth]) and sign[depth] != 0 for sign in each.signs)
        ]
        answer = "no" if any(each.kind != "reduction" for each in carried) else "reduction" if carried else "yes"
        yield SymbolicLoop(name, depth, names, answer)


def _bands(region: Region, pairs: Sequence[_Pair]) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Yield the chains of two or more perfectly nested loops, each cut into permutable runs."""
    chain: list[str] = []
    before: list[str] = []
    start = 0
    for (name, depth, _), inside in (*_loops_in_order(region).items(), (("", 0, ()), [])):
        names = [each.name for each in inside]
        # The loop that opens all that the one before it opens, and nothing else, is nested perfectly in it.
        if chain and names == before and depth == start + len(chain):
            chain.append(name)
            continue
        if len(chain) > 1:
            yield _runs(chain, start, before, pairs)
        chain, before, start = [name], names, depth


def _runs(
    chain: Sequence[str], depth: int, names: Sequence[str], pairs: Sequence[_Pair]
) -> tuple[tuple[str, ...], ...]:
    signs = {sign for each in pairs if each.source.name in names and each.sink.name in names for sign in each.signs}
    runs: list[tuple[str, ...]] = []
    start = 0
    while start < len(chain):
        end = start + 1
        while end < len(chain) and all(
            min(sign[depth + start : depth + end + 1]) >= 0 for sign in signs if not any(sign[: depth + start])
        ):
            end += 1
        runs.append(tuple(chain[start:end]))
        start = end
    return tuple(runs)
