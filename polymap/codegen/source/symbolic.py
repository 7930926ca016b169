"""Properties of a C region for all values of its parameters: dependences, parallel and permutable loops, counts.

Dependences are memory-based: two instances that touch one element, one of which writes it. Distances are numbers of
iterations of the loops that both statements share, outermost first.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from polymap.codegen.source.dependences import conflicts_of, time_map
from polymap.codegen.source.loops import assumption_of
from polymap.codegen.source.region import Region, SourceStatement, region_of
from polymap.codegen.source.tuning import TUNING
from polymap.inputs import answers_in_words, expected_text
from polymap.ir import Shown, dim
from polymap.poly import CountFormula, Map, Set, budget, count_formula, differences, fixed_values, signs_of
from polymap.schedules import TextLoop, chains_in, loops_in, permutable_runs, text_loops
from polymap.workload import shared_dims
from polymap.workload.c import read_program

_KINDS = ("flow", "anti", "output", "reduction")


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
    which may be tiled. assumed: a condition of C on the parameters under which all this holds, "" for all values."""

    parameters: tuple[str, ...]
    statements: tuple[SymbolicStatement, ...]
    dependences: tuple[SymbolicDependence, ...]
    loops: tuple[SymbolicLoop, ...]
    bands: tuple[tuple[tuple[str, ...], ...], ...]
    assumed: str = ""


@answers_in_words
def symbolic_checkup(source: str, sizes: Mapping[str, int] | None = None, *, file: str = "C source") -> SymbolicCheckup:
    """Return the properties of a C region that hold for all values of its parameters; those in `sizes` are fixed.

    Assumes that arrays do not overlap and that subscripts are in bounds. Raises InputError and WorkloadError for C that
    is not supported, BudgetError where isl takes too long.
    """
    sizes, file = sizes or {}, expected_text(file, "the name of the text")
    program = read_program(source, sizes, file)
    with budget(TUNING.operations, seconds=TUNING.seconds, what="the analysis of a C program with symbolic sizes"):
        region = region_of(program, sizes, file)
        pairs = list(_pairs(region))
        statements = tuple(
            SymbolicStatement(each.name, each.line, each.dims, count_formula(each.domain)) for each in region.statements
        )
        roots = text_loops(region.statements)
        return SymbolicCheckup(
            tuple(name for name in region.parameters if name not in sizes),
            statements,
            tuple(each.told() for each in pairs),
            tuple(_loops(loops_in(roots), pairs)),
            tuple(_bands(chains_in(roots), pairs)),
            assumption_of(region),
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
    loops: tuple[str, ...]
    relation: Map
    distances: tuple[Set, ...]
    signs: tuple[tuple[int, ...], ...]

    def told(self) -> SymbolicDependence:
        return SymbolicDependence(
            self.kind,
            self.array,
            self.source.name,
            self.sink.name,
            self.loops,
            _constant_distances(self.distances),
            self.signs,
            self.relation.to_str(),
        )


def _pairs(region: Region) -> Iterator[_Pair]:
    """Yield the dependences between two statements by their kind and array."""
    order = {each.name: number for number, each in enumerate(region.statements)}
    found: dict[tuple[str, str, str, str], list[Map]] = {}
    for each in conflicts_of(region):
        relation = each.relation if each.living is None else each.living
        if not relation.is_empty():
            for kind in each.kinds:
                found.setdefault((each.source, each.sink, kind, each.array), []).append(relation)
    for key in sorted(found, key=lambda key: (order[key[0]], order[key[1]], _KINDS.index(key[2]))):
        first, second = (region.statements[order[name]] for name in key[:2])
        shared = shared_dims(first, second)
        start, end = (time_map(each, [dim(name) for name in shared]) for each in (first, second))
        apart = tuple(differences(each, start, end, ()).coalesce() for each in found[key])
        signs = tuple(sorted({sign for each in apart for sign in signs_of(each)}, reverse=True))
        relation = reduce(Map.union, found[key]).coalesce()
        yield _Pair(key[2], key[3], first, second, shared, relation, apart, signs)


def _constant_distances(distances: Sequence[Set]) -> tuple[tuple[int | None, ...], ...]:
    """Return the distances of each convex part, None where they vary."""
    found = dict.fromkeys(part for each in distances for part in fixed_values(each))
    return tuple(found) if len(found) <= TUNING.most_distances else ()


def _loops(loops: Iterable[TextLoop], pairs: Sequence[_Pair]) -> Iterator[SymbolicLoop]:
    for loop in loops:
        names, depth = tuple(each.name for each in loop.statements()), loop.depth
        carried = [
            each
            for each in _within(pairs, names)
            if any(not any(sign[:depth]) and sign[depth] != 0 for sign in each.signs)
        ]
        answer = "no" if any(each.kind != "reduction" for each in carried) else "reduction" if carried else "yes"
        yield SymbolicLoop(loop.name, depth, names, answer)


def _bands(chains: Iterable[Sequence[TextLoop]], pairs: Sequence[_Pair]) -> Iterator[tuple[tuple[str, ...], ...]]:
    """Yield the chains of two or more perfectly nested loops, each cut into permutable runs."""
    for chain in chains:
        names = tuple(each.name for each in chain[-1].statements())
        signs = {sign for each in _within(pairs, names) for sign in each.signs}
        if len(chain) > 1:
            yield permutable_runs([each.name for each in chain], chain[0].depth, signs)


def _within(pairs: Iterable[_Pair], names: Container[str]) -> Iterator[_Pair]:
    return (each for each in pairs if each.source.name in names and each.sink.name in names)
