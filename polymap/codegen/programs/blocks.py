"""Tiles of contractions as functions: the complete tiles of a statement, and C that computes one in vector registers.

A tile is complete if three conditions hold. Its instances are all pairs of some rows and lanes, each with the same
range of terms. No other statement runs during it. It reads no element that it writes, but for the sums. A complete tile
becomes one instance of a new statement, `S1_tile`; all other instances stay points in loops.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import islpy as isl

from polymap.codegen.lower import Name, Run
from polymap.codegen.programs.micro import Bounds, tile_text
from polymap.codegen.programs.storage import Storage
from polymap.codegen.source import Constant, Contraction, Names, Region, SourceStatement, expression_text
from polymap.ir import Workload

_SET, _IN, _OUT, _PARAM = isl.dim_type.set, isl.dim_type.in_, isl.dim_type.out, isl.dim_type.param


@dataclass(frozen=True, slots=True, eq=False)
class TiledStatement:
    """A statement with complete tiles. rest: its other instances. tiles: the statement of the complete tiles, at
    `times`. text: the function that computes one."""

    rest: isl.Set
    tiles: SourceStatement
    times: isl.Map
    text: str


def with_tiles(
    workload: Workload,
    storage: Storage,
    region: Region,
    times: Mapping[str, isl.Map],
    contractions: Sequence[Contraction],
    names: Names,
) -> tuple[Region, dict[str, isl.Map], tuple[str, ...]]:
    """Return the region and times with complete tiles as instances of new statements, and the C functions that compute
    one.

    Call it inside `with budget():`.
    """
    statements = {each.name: each for each in region.statements}
    all_times, stands_for, texts = dict(times), dict[str, str](), list[str]()
    for found in contractions:
        made = tiled_statement(workload, storage, found, region.statements, times, names)
        if made is None:
            continue
        statements[found.statement] = replace(statements[found.statement], domain=made.rest)
        statements[made.tiles.name] = made.tiles
        all_times[made.tiles.name] = made.times
        stands_for[made.tiles.name] = found.statement
        texts.append(made.text)
    listed = tuple(statements.values())
    return replace(region, statements=listed, stands_for=stands_for), all_times, tuple(dict.fromkeys(texts))


def tiled_statement(
    workload: Workload,
    storage: Storage,
    found: Contraction,
    statements: Sequence[SourceStatement],
    times: Mapping[str, isl.Map],
    names: Names,
) -> TiledStatement | None:
    """Return the complete tiles of a contraction, None if it has none. Call it inside `with budget():`.

    times: of all statements; those of the contraction have the numbers of its tiles up to position `found.end`.
    """
    own = next(each for each in statements if each.name == found.statement)
    statement = next(each for each in workload.statements if each.name == found.statement)
    outer = tuple(dim for dim in own.dims if dim not in found.dims)
    count = len(outer) + len(found.dims)
    inside = _instances_of_tiles(own, found, outer)
    whole = (
        inside.domain()
        .subtract(_incomplete_tiles(inside, own, found, outer))
        .subtract(_tiles_with_aliases(inside, own))
    )
    at = _times_of_tiles(inside, times[own.name], found)
    for each in statements:
        if each.name != own.name:
            whole = whole.subtract(_tiles_with_other_statements(at, times[each.name], found))
    whole = whole.coalesce()
    if whole.is_empty():
        return None
    bounds = _bounds(inside, whole, own, found, outer, names)
    if bounds is None:
        return None
    rest = own.domain.subtract(inside.intersect_domain(whole).range()).coalesce()
    name = f"{own.name}_tile"
    numbers = tuple(f"n{number}" for number in range(count))
    constants = tuple(Constant(each, "long", place) for place, each in enumerate(numbers))
    function = _free_name(f"tile_{own.name}", storage)
    text, arrays = tile_text(storage, statement, found, bounds, function, outer)
    body = Run(function, tuple(Name(each) for each in (*arrays, *numbers)))
    domain = whole.set_tuple_name(name)
    signs = (1,) * len(numbers)
    tiles = replace(own, name=name, dims=numbers, signs=signs, domain=domain, constants=constants, body=body)
    return TiledStatement(rest, tiles, at.intersect_domain(whole).set_tuple_name(_IN, name), text)


def _free_name(name: str, storage: Storage) -> str:
    """Return a name for a function that differs from all arrays' names."""
    taken = {form.parameter for form in storage.forms.values()}
    while name in taken:
        name += "_"
    return name


def _instances_of_tiles(own: SourceStatement, found: Contraction, outer: Sequence[str]) -> isl.Map:
    """Return { T[outer dims, tile numbers] -> instances }."""
    space = own.domain.get_space()
    head = isl.Space.set_alloc(space.get_ctx(), 0, len(outer) + len(found.dims)).set_tuple_name(_SET, "T")
    relation = isl.Map.universe(head.map_from_domain_and_range(space))
    for place, dim in enumerate(outer):
        relation = relation.equate(_IN, place, _OUT, own.dims.index(dim))
    for number, (dim, size) in enumerate(zip(found.dims, found.tile, strict=True)):
        for sign, constant in ((1, 0), (-1, size - 1)):  # 0 <= dim - size * n <= size - 1
            bound = isl.Constraint.alloc_inequality(isl.LocalSpace.from_space(relation.get_space()))
            bound = bound.set_coefficient_val(_OUT, own.dims.index(dim), _value(sign, space))
            bound = bound.set_coefficient_val(_IN, len(outer) + number, _value(-sign * size, space))
            relation = relation.add_constraint(bound.set_constant_val(_value(constant, space)))
    return relation.intersect_range(own.domain)


def _value(number: int, space: isl.Space) -> isl.Val:
    return isl.Val(str(number), space.get_ctx())


def _without(relation: isl.Map, own: SourceStatement, dims: Sequence[str]) -> isl.Map:
    """Return the relation without its constraints on these dims of the range."""
    for dim in dims:
        place = own.dims.index(dim)
        free = relation.project_out(_OUT, place, 1).insert_dims(_OUT, place, 1)
        relation = free.set_tuple_name(_OUT, own.name)
    return relation


def _incomplete_tiles(inside: isl.Map, own: SourceStatement, found: Contraction, outer: Sequence[str]) -> isl.Set:
    """Return the tiles in which some row and lane lacks some of the terms."""
    pairs = _without(inside, own, (found.term,))
    terms = _without(inside, own, found.dims[:-1])
    return pairs.intersect(terms).subtract(inside).domain()


def _tiles_with_aliases(inside: isl.Map, own: SourceStatement) -> isl.Set:
    """Return the tiles that read elements which they write, other than the sums themselves."""
    target = own.references[-1]
    found = isl.Set.empty(inside.domain().get_space())
    written = inside.apply_range(target.elements)
    for each in own.references[:-1]:
        if each.array == target.array:
            found = found.union(inside.apply_range(each.elements).intersect(written).domain())
    return found


def _times_of_tiles(inside: isl.Map, times: isl.Map, found: Contraction) -> isl.Map:
    """Return { T[...] -> times }: its instances' times up to the tile numbers, then zeros."""
    length = times.dim(_OUT)
    end = found.end
    head = inside.apply_range(times.project_out(_OUT, end, length - end))
    head = head.add_dims(_OUT, length - end)
    for place in range(end, length):
        head = head.fix_val(_OUT, place, isl.Val(0, times.get_ctx()))
    return head.coalesce()


def _tiles_with_other_statements(at: isl.Map, times: isl.Map, found: Contraction) -> isl.Set:
    """Return the tiles during which another statement runs."""
    end = found.end
    rest = times.dim(_OUT) - end
    return at.project_out(_OUT, end, rest).intersect_range(times.project_out(_OUT, end, rest).range()).domain()


def _bounds(
    inside: isl.Map, whole: isl.Set, own: SourceStatement, found: Contraction, outer: Sequence[str], names: Names
) -> Bounds | None:
    """Return C expressions of a tile's first and last row, lane and term; None where the lanes have gaps."""
    count = len(outer) + len(found.dims)
    points = inside.intersect_domain(whole).move_dims(_PARAM, 0, _IN, 0, count).range()
    for place in range(count):
        points = points.set_dim_name(_PARAM, place, f"n{place}")
    context = _as_parameters(whole, count)
    singles = [_projection_onto(points, own.dims.index(dim)) for dim in found.dims]
    if not all(map(_has_no_gaps, singles)):
        return None
    rows, *columns, terms = (_ends(each, context, names) for each in singles)
    if not found.lane:
        return Bounds(rows, ("0", "0"), terms, ("0", "0"))
    row, lane = own.dims.index(found.row), own.dims.index(found.lane)
    pairs = _without_places(points, [place for place in range(len(own.dims)) if place not in (row, lane)])
    at_row = pairs.move_dims(_PARAM, count, _SET, 0 if row < lane else 1, 1).set_dim_name(_PARAM, count, "i")
    if not _has_no_gaps(at_row):
        return None
    known = context.add_dims(_PARAM, 1).set_dim_name(_PARAM, count, "i").intersect(at_row.params())
    return Bounds(rows, columns[0], terms, _ends(at_row, known, names))


def _projection_onto(points: isl.Set, place: int) -> isl.Set:
    return _without_places(points, [each for each in range(points.dim(_SET)) if each != place])


def _without_places(points: isl.Set, places: Sequence[int]) -> isl.Set:
    for place in reversed(places):
        points = points.project_out(_SET, place, 1)
    return points


def _has_no_gaps(points: isl.Set) -> bool:
    """Return whether a set of integers is an interval."""
    points = points.reset_tuple_id() if points.has_tuple_id() else points
    space = points.get_space()
    between = points.apply(isl.Map.lex_le(space)).intersect(points.apply(isl.Map.lex_ge(space)))
    return between.is_subset(points)


def _ends(points: isl.Set, context: isl.Set, names: Names) -> tuple[str, str]:
    """Return C expressions of the least and the greatest element of a set of integers."""
    low, high = points.dim_min(0).coalesce(), points.dim_max(0).coalesce()
    return expression_text(low, context, names), expression_text(high, context, names)


def _as_parameters(whole: isl.Set, count: int) -> isl.Set:
    moved = whole.insert_dims(_PARAM, 0, 0).move_dims(_PARAM, 0, _SET, 0, count).params()
    for place in range(count):
        moved = moved.set_dim_name(_PARAM, place, f"n{place}")
    return moved
