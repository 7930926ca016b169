"""Tiling of a nest of several statements as one permutable band, as in matrix factorizations.

`A[i][j] -= A[i][k] * A[k][j]` of an LU factorization cannot leave its nest: rows, lanes and terms of all statements of
the nest are made one permutable band, in which a statement without terms of its own runs at the term where its values
are complete (`A[i][j] /= A[j][j]` at k = j).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import lcm

from polymap.codegen.source.contraction import Contraction, tile_number
from polymap.codegen.source.order_tuning import TUNING
from polymap.ir import Affine, BudgetError, Statement, Workload
from polymap.poly import Map, budget, function
from polymap.schedules import Loop, Schedule, TimeDim
from polymap.workload import dependence_relations

_BEFORE = Affine((), -1)  # a term before the first
Entries = Mapping[str, Affine]


def in_one_band(
    schedule: Schedule, outermost: Loop, contractions: Sequence[Contraction]
) -> tuple[Schedule, tuple[Contraction, ...]] | None:
    """Return the schedule with all statements of a loop in one tiled band, and the contractions with their tiles.

    None where no permutable band is found; whether the result is legal is left to the caller.
    """
    inside = {each.statement: each for each in contractions if each.statement in outermost.statements}
    statements = [each for each in schedule.workload.statements if each.name in outermost.statements]
    place, extents = outermost.position, schedule.workload.extents()
    before = {
        dim for each in statements for at in schedule.scattering(each.name).places[:place] for dim in at.time.dims
    }
    if (
        not inside
        or len({len(each.dims) for each in inside.values()}) > 1
        or any(before & set(each.dims) for each in inside.values())
        or any(each.lane and extents[dim] < TUNING.band_extent for each in inside.values() for dim in each.dims)
    ):
        return None
    try:
        coordinates = next(iter(inside.values())).dims
        entries = [_coordinate(schedule.workload, statements, inside, number) for number in range(len(coordinates))]
    except BudgetError:
        return None
    if any(each is None for each in entries):
        return None
    tiled = tuple(replace(each, tile=_sizes(each, extents)) for each in inside.values())
    changed: dict[str, list[TimeDim]] = {}
    for statement in statements:
        own = [each[statement.name] for each in entries if each is not None]
        places = list(schedule.scattering(statement.name).places)
        numbers = [tile_number(entry, size) for entry, size in zip(own, tiled[0].tile, strict=True)]
        times = [*numbers, own[-1], *own[:-1]]
        changed[statement.name] = [*places[:place], *map(TimeDim, times), TimeDim(), *places[place:]]
    return schedule.with_places(changed), tiled


def in_strips(
    schedule: Schedule, rows: Loop, sums: Sequence[Contraction]
) -> tuple[Schedule, tuple[Contraction, ...]] | None:
    """Return the schedule with a loop over rows in strips, each statement in loops of its own inside a strip, and the
    sums of rows with their tiles; None where the loop is not over their rows.

    Whether it is legal is left to the caller.
    """
    inside = {each.statement: each for each in sums if each.statement in rows.statements}
    place = rows.position
    entries = {name: schedule.scattering(name).places[place].time for name in rows.statements}
    if not inside or any(entries[name] != Affine(((1, each.row),)) for name, each in inside.items()):
        return None
    if any(not entry.terms for entry in entries.values()):
        return None
    size = next(iter(inside.values())).tile[0]
    changed: dict[str, list[TimeDim]] = {}
    for part, name in enumerate(rows.statements):
        places = list(schedule.scattering(name).places)
        rest = places[place:]
        if name in inside:
            term = Affine(((1, inside[name].term),))
            rest = [TimeDim(tile_number(term, inside[name].tile[1])), TimeDim(term), TimeDim(entries[name])]
        head = [TimeDim(tile_number(entries[name], size)), TimeDim(Affine((), part))]
        changed[name] = [*places[:place], *head, *rest]
    return schedule.with_places(changed), tuple(inside.values())


def _sizes(found: Contraction, extents: Mapping[str, int]) -> tuple[int, ...]:
    if not found.lane:  # short sums in short tiles: what these leave, on diagonals, is loops of points
        return found.rows, found.rows if extents[found.term] < 4 * TUNING.band_size else TUNING.band_size
    unit = lcm(found.rows, found.panel)
    size = max(unit, TUNING.band_size - TUNING.band_size % unit)
    return size, size, size


def _coordinate(
    workload: Workload, statements: Sequence[Statement], inside: Mapping[str, Contraction], number: int
) -> Entries | None:
    """Return an entry per statement in which no dependence between them goes backwards, None if none was found."""
    choices: list[list[Affine]] = []
    last = len(next(iter(inside.values())).dims) - 1
    for each in statements:
        if each.name in inside:
            choices.append([Affine(((1, inside[each.name].dims[number]),))])
        else:
            dims = [Affine(((1, dim),)) for dim in each.dims]
            choices.append([*dims, *([_BEFORE] if number == last else [])])
    own = {each.name: each for each in statements}
    with budget(what="a band of several statements"):
        relations = [
            (dependence.source, dependence.sink, relation)
            for dependence, relation in dependence_relations(workload)
            if dependence.source in own and dependence.sink in own
        ]
        return next(_solutions(statements, choices, relations), None)


def _solutions(
    statements: Sequence[Statement], choices: Sequence[Sequence[Affine]], relations: Sequence[tuple[str, str, Map]]
) -> Iterator[Entries]:
    """Yield the choices in which every dependence stays or goes forwards."""
    own = {each.name: each for each in statements}
    known: dict[tuple[int, Affine, Affine], bool] = {}

    def forward(at: int, found: Entries) -> bool:
        source, sink, relation = relations[at]
        key = at, found[source], found[sink]
        if key not in known:
            clocks = [function(name, own[name].dims, (found[name],)) for name in (source, sink)]
            known[key] = bool(relation.intersect(clocks[0].lex_gt_map(clocks[1])).is_empty())
        return known[key]

    def extended(found: dict[str, Affine]) -> Iterator[Entries]:
        if len(found) == len(statements):
            yield found
            return
        name = statements[len(found)].name
        for entry in choices[len(found)]:
            more = {**found, name: entry}
            both = [at for at, (one, other, _) in enumerate(relations) if name in (one, other)]
            if all(forward(at, more) for at in both if {relations[at][0], relations[at][1]} <= set(more)):
                yield from extended(more)

    yield from extended({})
