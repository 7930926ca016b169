"""What may be done with each loop of a program: parallel and vector loops, permutable bands, skews, fusable neighbours.

Everything is about the program as written, with the loops outside a place running in order. Accumulations of
associative workloads may be reordered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, product

from polymap.ir import Affine, Dim, Statement, Workload, dim as variable
from polymap.poly import Map, Set, budget, check_clock, differences, function, nonnegative, same_value, sooner
from polymap.schedules.legality import Parallel, parallel_loop
from polymap.schedules.tuning import TUNING
from polymap.workload import Dependence, Kind, Nested, dependence_relations


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """One loop. depth: the number of loops around it. parallel: of its iterations, with the loops around it in order.

    vectorizable: no loop is inside it, and its iterations are parallel or add partial sums.
    """

    name: str
    depth: int
    statements: tuple[str, ...]
    parallel: Parallel
    vectorizable: bool


@dataclass(frozen=True, slots=True)
class Band:
    """Perfectly nested loops, outermost first.

    permutable: maximal runs of neighbouring loops that may be put in any order, and so be tiled if there are several.
    skews: per loop the factors of loops outside it that are added to it, after which all of the band's loops are
    permutable (the smallest such, factors up to `TUNING.largest_factor`): () where they are already, None where none
    was found.
    """

    loops: tuple[str, ...]
    permutable: tuple[tuple[str, ...], ...]
    skews: tuple[tuple[str, tuple[tuple[int, str], ...]], ...] | None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two loops one after the other. broken: the dependence that forbids to run both in one loop, None if none does.

    Iterations of equal loop variables meet where both loops have one step, else those of equal number.
    """

    first: str
    second: str
    broken: Dependence | None


@dataclass(frozen=True, slots=True)
class Nests:
    """All loops in textual order, all bands, and all pairs of loops one after the other."""

    loops: tuple[LoopFacts, ...]
    bands: tuple[Band, ...]
    neighbours: tuple[Neighbours, ...]


@dataclass(frozen=True, slots=True)
class TextLoop:
    """A loop of the program as written. body: what is inside, in textual order."""

    name: str
    depth: int
    body: tuple[TextLoop | Nested, ...]

    def statements(self) -> Iterator[Nested]:
        """Yield the statements inside."""
        for each in self.body:
            if isinstance(each, TextLoop):
                yield from each.statements()
            else:
                yield each


def nests(workload: Workload) -> Nests:
    """Return what may be done with every loop of the program (BudgetError if isl gives up)."""
    roots = text_loops(workload.statements)
    loops = list(loops_in(roots))
    with budget(TUNING.nests_operations, seconds=TUNING.nests_s, what="the loops of a program", renewed=True):
        relations = [
            pair
            for pair in dependence_relations(workload)
            if not (workload.associative and pair[0].kind is Kind.REDUCTION)
        ]
        bands = tuple(_band(workload, chain, relations) for chain in chains_in(roots))
        pairs = tuple(_neighbours(workload, *each, relations) for each in _pairs(roots))
    return Nests(tuple(_facts(workload, each) for each in loops), bands, pairs)


def text_loops(statements: Sequence[Nested], depth: int = 0) -> tuple[TextLoop | Nested, ...]:
    """Return the loops and statements of a program in textual order; depth: of the loops around all statements."""
    ordered = sorted(statements, key=lambda each: each.position[depth])
    found: list[TextLoop | Nested] = []
    for _, group in groupby(ordered, key=lambda each: each.position[depth]):
        inside = list(group)
        if len(inside[0].dims) == depth:
            found.extend(inside)
        else:
            found.append(TextLoop(inside[0].dims[depth], depth, text_loops(inside, depth + 1)))
    return tuple(found)


def loops_in(body: Sequence[TextLoop | Nested]) -> Iterator[TextLoop]:
    """Yield all loops, outer before inner, in textual order."""
    for each in body:
        if isinstance(each, TextLoop):
            yield each
            yield from loops_in(each.body)


def chains_in(body: Sequence[TextLoop | Nested]) -> Iterator[list[TextLoop]]:
    """Yield the longest chains of loops with nothing else between them."""
    for each in body:
        if isinstance(each, TextLoop):
            chain = [each]
            while len(chain[-1].body) == 1 and isinstance(chain[-1].body[0], TextLoop):
                chain.append(chain[-1].body[0])
            yield chain
            yield from chains_in(chain[-1].body)


def _pairs(body: Sequence[TextLoop | Nested]) -> Iterator[tuple[TextLoop, TextLoop]]:
    for one, other in pairwise(body):
        if isinstance(one, TextLoop) and isinstance(other, TextLoop):
            yield one, other
    for each in body:
        if isinstance(each, TextLoop):
            yield from _pairs(each.body)


def _facts(workload: Workload, loop: TextLoop) -> LoopFacts:
    parallel = parallel_loop(workload, loop.name)
    innermost = not any(isinstance(each, TextLoop) for each in loop.body)
    names = tuple(each.name for each in loop.statements())
    return LoopFacts(loop.name, loop.depth, names, parallel, innermost and parallel is not Parallel.NO)


Relations = Sequence[tuple[Dependence, Map]]


def _band(workload: Workload, chain: Sequence[TextLoop], relations: Relations) -> Band:
    inside = {each.name for each in chain[-1].statements()}
    own = [pair for pair in relations if pair[0].source in inside and pair[0].sink in inside]
    names = tuple(each.name for each in chain)
    depth = chain[0].depth
    runs = permutable_runs(names, depth, {sign[: depth + len(chain)] for each, _ in own for sign in each.signs})
    skews = () if len(runs) == 1 else _skews(workload, own, depth, names)
    return Band(names, runs, skews)


def permutable_runs(
    names: Sequence[str], depth: int, signs: Collection[tuple[int, ...]]
) -> tuple[tuple[str, ...], ...]:
    """Return the maximal runs of permutable loops among perfectly nested ones. depth: of the first one; signs: of the
    distances of all dependences inside."""
    runs: list[tuple[str, ...]] = []
    start = 0
    while start < len(names):
        end = start + 1
        while end < len(names) and _is_permutable(signs, depth + start, depth + end + 1):
            end += 1
        runs.append(tuple(names[start:end]))
        start = end
    return tuple(runs)


def _is_permutable(signs: Collection[tuple[int, ...]], start: int, end: int) -> bool:
    """Return whether no dependence that the loops before `start` leave open runs backwards in a loop before `end`."""
    return all(min(sign[start:end]) >= 0 for sign in signs if not any(sign[:start]))


def _skews(
    workload: Workload, relations: Relations, depth: int, names: Sequence[str]
) -> tuple[tuple[str, tuple[tuple[int, str], ...]], ...] | None:
    distances = [_distances(workload, each, relation, depth) for each, relation in relations]
    found: list[tuple[str, tuple[tuple[int, str], ...]]] = []
    for place, name in enumerate(names):
        factors = _factors(distances, names[:place], name)
        if factors is None:
            return None
        if factors:
            found.append((name, factors))
    return tuple(found)


def _distances(workload: Workload, dependence: Dependence, relation: Map, depth: int) -> Set:
    """Return the distances of pairs that are in one iteration of the `depth` outermost loops."""
    source, sink = workload.statement(dependence.source), workload.statement(dependence.sink)
    for outer in dependence.dims[:depth]:
        relation = relation.intersect(same_value(*(_at(each, variable(outer)) for each in (source, sink))))
    start, end = (function(each.name, each.dims, [variable(dim) for dim in dependence.dims]) for each in (source, sink))
    return differences(relation, start, end, dependence.dims)


def _at(statement: Statement, time: Affine) -> Map:
    return function(statement.name, statement.dims, [time])


def _factors(distances: Sequence[Set], outer: Sequence[str], name: str) -> tuple[tuple[int, str], ...] | None:
    """Return the factors of least sum by which no distance along the loop plus those of the outer loops is negative."""
    choices = product(range(TUNING.largest_factor + 1), repeat=len(outer))
    for factors in sorted(choices, key=lambda each: (sum(each), each)):
        check_clock()
        backwards = -variable(name) - 1
        for factor, loop in zip(factors, outer, strict=True):
            backwards = backwards - variable(loop) * factor
        if all(nonnegative(each, backwards).is_empty() for each in distances):
            return tuple((factor, loop) for factor, loop in zip(factors, outer, strict=True) if factor)
    return None


def _neighbours(workload: Workload, first: TextLoop, second: TextLoop, relations: Relations) -> Neighbours:
    sources = {each.name for each in first.statements()}
    sinks = {each.name for each in second.statements()}
    dims = {each.name: each for each in workload.dims}
    one, other = dims[first.name], dims[second.name]
    for dependence, relation in relations:
        if dependence.source not in sources or dependence.sink not in sinks:
            continue
        source, sink = workload.statement(dependence.source), workload.statement(dependence.sink)
        for outer in source.dims[: first.depth]:
            relation = relation.intersect(same_value(*(_at(each, variable(outer)) for each in (source, sink))))
        early, late = _at(source, _when(one, other)), _at(sink, _when(other, one))
        forwards = sooner(early, late).union(same_value(early, late))
        if not relation.subtract(forwards).is_empty():
            return Neighbours(first.name, second.name, dependence)
    return Neighbours(first.name, second.name, None)


def _when(dim: Dim, other: Dim) -> Affine:
    """Return the time of an iteration in a loop shared with another."""
    if dim.step != other.step:
        return variable(dim.name)
    direction = 1 if dim.step > 0 else -1
    return variable(dim.name) * abs(dim.step) + dim.origin * direction
