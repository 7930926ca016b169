"""Tiles of contractions: the complete tiles of a statement, and C that computes one in vector registers.

A tile is complete if three conditions hold. Its instances are all pairs of some rows and lanes, each with the same
range of terms. No other statement runs during it. It reads no element that it writes, but for the sums. A complete tile
becomes one instance of a new statement, `S1_tile`; all other instances stay points in loops.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import islpy as isl

from polymap.codegen.lower import Scope, Verbatim
from polymap.codegen.source.contraction import Contraction
from polymap.codegen.source.dependences import Times
from polymap.codegen.source.loops import Names, expression_text
from polymap.codegen.source.region import Constant, Region, SourceStatement
from polymap.codegen.source.register_tiles import Bounds, Update, tile_text, turn_macro, vector_types

_SET, _IN, _OUT, _PARAM = isl.dim_type.set, isl.dim_type.in_, isl.dim_type.out, isl.dim_type.param


def with_tiles(
    region: Region,
    times: Times,
    contractions: Sequence[Contraction],
    updates: Mapping[str, Update],
    names: Names,
    prefix: str,
    vector_bytes: int = 0,
) -> tuple[Region, dict[str, isl.Map], str]:
    """Return the region and times with complete tiles as instances of new statements, and the text of the types and
    functions that these need.

    Call it inside `with budget():`. times: those of a contraction have the numbers of its tiles up to position
    `end`. prefix: no name of the program begins with it. vector_bytes: of a vector; 0: the compiler's target decides.
    """
    statements = {each.name: each for each in region.statements}
    all_times, stands_for, functions = dict(times), dict[str, str](), dict[str, str]()
    kinds, macros = dict[str, None](), dict[str, None]()
    for found in contractions:
        own, update = statements[found.statement], updates[found.statement]
        made = _complete_tiles(own, update, found, region, times)
        lines = None if made is None else _tile(*made, own, update, found, region, names, prefix, vector_bytes)
        if made is None or lines is None:
            continue
        (inside, whole), (body, function), name = made, lines, f"{own.name}_tile"
        text = "\n".join(body)
        macros |= dict.fromkeys(turn_macro(text))
        if function:
            kinds[update.kind] = None
            text = text.replace("$sums", functions.setdefault(function, f"$sums{len(functions)}"))
        statements[name] = _statement_of_tiles(own, update, found, whole.set_tuple_name(name), text, prefix)
        statements[own.name] = replace(
            own, domain=own.domain.subtract(inside.intersect_domain(whole).range()).coalesce()
        )
        at = _times_of_tiles(inside, times[own.name], found).intersect_domain(whole)
        all_times[name] = at.set_tuple_name(_IN, name)
        stands_for[name] = own.name
    rows = max((each.rows for each in contractions if each.lane), default=0)
    texts = [*macros, *([vector_types(list(kinds), vector_bytes, rows)] if kinds else [])]
    texts += [text.replace("$sums", name) for text, name in functions.items()]
    tiled = replace(region, statements=tuple(statements.values()), stands_for=stands_for)
    return tiled, all_times, "".join(texts).replace("$", prefix)


def sizes_of_tiles(region: Region, updates: Mapping[str, Update]) -> list[str]:
    """Return the parameters that bound the rows and lanes of register tiles. Call it inside `with budget():`."""
    found: dict[str, None] = {}
    for each in region.statements:
        places = updates[each.name].places if each.name in updates else ()
        for place in places[:2] if len(places) > 2 else ():
            ends = _projection_onto(each.domain, (place,))
            ends = ends.gist_params(ends.params())
            named = [number for number in range(ends.dim(_PARAM)) if ends.involves_dims(_PARAM, number, 1)]
            found |= dict.fromkeys(str(ends.get_dim_name(_PARAM, number)) for number in named)
    return list(found)


def _statement_of_tiles(
    own: SourceStatement, update: Update, found: Contraction, domain: isl.Set, text: str, prefix: str
) -> SourceStatement:
    """Return the statement whose instances are complete tiles, inside constants for the numbers that its text names."""
    name, text = str(domain.get_tuple_name()), text.replace("$", prefix)
    dims = tuple(f"n{number}" for number in range(domain.dim(_SET)))
    places = {place: found.end + number for number, place in enumerate(_outer_places(own, update))}
    constants = [
        replace(each, value=places[each.value])
        for each in own.constants
        if isinstance(each.value, int) and each.value in places
    ]
    constants += [Constant(f"{prefix}{each}", "long", number) for number, each in enumerate(dims)]
    kept = tuple(each for each in constants if re.search(rf"\b{each.name}\b", text))
    lines = Verbatim(tuple(text.split("\n")))
    body = lines if kept else Scope((lines,))
    signs = (1,) * len(dims)
    return replace(own, name=name, dims=dims, signs=signs, domain=domain, constants=kept, body=body)


def _complete_tiles(
    own: SourceStatement, update: Update, found: Contraction, region: Region, times: Times
) -> tuple[isl.Map, isl.Set] | None:
    """Return { T[times up to the tile's numbers] -> instances } and the complete tiles, None if there are none."""
    inside = _instances_of_tiles(own, times[own.name], update, found)
    whole = inside.domain().subtract(_incomplete_tiles(inside, own, update)).subtract(_tiles_with_aliases(inside, own))
    whole = whole.subtract(_tiles_that_meet(inside, own, found))
    at = _times_of_tiles(inside, times[own.name], found)
    for each in region.statements:
        if each.name != own.name:
            whole = whole.subtract(_tiles_with_other_statements(at, times[each.name], found))
    whole = whole.coalesce()
    return None if whole.is_empty() else (inside, whole)


def _instances_of_tiles(own: SourceStatement, times: isl.Map, update: Update, found: Contraction) -> isl.Map:
    """Return { T[times up to the tile's numbers, dims that are not tiled] -> instances }."""
    times = times.intersect_domain(own.domain)
    head = times.project_out(_OUT, found.end, times.dim(_OUT) - found.end)
    points = isl.Map.identity(own.domain.get_space().map_from_set())
    for place in _outer_places(own, update):
        one = points.project_out(_OUT, place + 1, len(own.dims) - place - 1).project_out(_OUT, 0, place)
        head = head.flat_range_product(one)
    return head.set_tuple_name(_OUT, "T").reverse()


def _outer_places(own: SourceStatement, update: Update) -> list[int]:
    return [place for place in range(len(own.dims)) if place not in update.places]


def _without(relation: isl.Map, own: SourceStatement, places: Sequence[int]) -> isl.Map:
    """Return the relation without its constraints on these dims of the range."""
    for place in places:
        free = relation.project_out(_OUT, place, 1).insert_dims(_OUT, place, 1)
        relation = free.set_tuple_name(_OUT, own.name)
    return relation


def _incomplete_tiles(inside: isl.Map, own: SourceStatement, update: Update) -> isl.Set:
    """Return the tiles in which some row and lane lacks some of the terms."""
    pairs = _without(inside, own, update.places[-1:])
    terms = _without(inside, own, update.places[:-1])
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


def _tiles_that_meet(inside: isl.Map, own: SourceStatement, found: Contraction) -> isl.Set:
    """Return the tiles that touch elements which others with the same numbers write: these run one after the other."""
    domain = inside.domain()
    space = domain.get_space().map_from_set()
    others = isl.Map.universe(space).subtract(isl.Map.identity(space)).intersect_domain(domain).intersect_range(domain)
    for place in range(found.end):
        others = others.equate(_IN, place, _OUT, place)
    met = isl.Set.empty(domain.get_space())
    written = inside.apply_range(own.references[-1].elements)
    for each in own.references if not others.is_empty() else ():
        if each.array == own.references[-1].array:
            both = written.apply_range(inside.apply_range(each.elements).reverse()).intersect(others)
            met = met.union(both.domain()).union(both.range())
    return met


def _times_of_tiles(inside: isl.Map, times: isl.Map, found: Contraction) -> isl.Map:
    """Return { T[...] -> times }: its instances' times up to the tile numbers, then its dims that these do not fix, and
    zeros."""
    length, end, domain = times.dim(_OUT), found.end, inside.domain()
    rest = isl.Map.identity(domain.get_space().map_from_set()).reset_tuple_id(_OUT)
    for place in reversed(range(domain.dim(_SET))):
        if place < end or _is_fixed(domain, place, end):
            rest = rest.project_out(_OUT, place, 1)
    zeros = isl.Map.from_domain(isl.Set.universe(domain.get_space()))
    zeros = zeros.add_dims(_OUT, length - end - rest.dim(_OUT))
    for place in range(zeros.dim(_OUT)):
        zeros = zeros.fix_val(_OUT, place, isl.Val(0, times.get_ctx()))
    head = inside.apply_range(times.project_out(_OUT, end, length - end))
    return head.flat_range_product(rest).flat_range_product(zeros).coalesce()


def _is_fixed(points: isl.Set, place: int, end: int) -> bool:
    """Return whether a place of points has one value for each value of the first ones."""
    values = isl.Map.from_range(_projection_onto(points.reset_tuple_id(), (*range(end), place)))
    return bool(values.move_dims(_IN, 0, _OUT, 0, end).is_single_valued())


def _tiles_with_other_statements(at: isl.Map, times: isl.Map, found: Contraction) -> isl.Set:
    """Return the tiles during which another statement runs."""
    end = found.end
    rest = times.dim(_OUT) - end
    return at.project_out(_OUT, end, rest).intersect_range(times.project_out(_OUT, end, rest).range()).domain()


def _tile(
    inside: isl.Map,
    whole: isl.Set,
    own: SourceStatement,
    update: Update,
    found: Contraction,
    region: Region,
    names: Names,
    prefix: str,
    vector_bytes: int,
) -> tuple[list[str], str] | None:
    """Return the lines of a tile, and the function that they call; None where rows, lanes or terms have gaps."""
    count = inside.dim(_IN)
    points = _name_points(inside.intersect_domain(whole).move_dims(_PARAM, 0, _IN, 0, count).range(), count, prefix)
    moved = whole.insert_dims(_PARAM, 0, 0).move_dims(_PARAM, 0, _SET, 0, count).params()
    context = _name_points(moved, count, prefix)
    singles = [_projection_onto(points, (place,)) for place in update.places]
    if not all(map(_has_no_gaps, singles)):
        return None
    rows, *columns, terms = (_ends(each, context, names, region) for each in singles)
    if not found.lane:
        return tile_text(update, found, Bounds(rows, ("0", "0"), terms, ("0", "0")), vector_bytes)
    row, lane, _ = update.places
    pairs = _projection_onto(points, (row, lane))
    at_row = pairs.move_dims(_PARAM, count, _SET, 0 if row < lane else 1, 1).set_dim_name(_PARAM, count, f"{prefix}i")
    if not _has_no_gaps(at_row):
        return None
    known = context.insert_dims(_PARAM, count, 1).set_dim_name(_PARAM, count, f"{prefix}i").intersect(at_row.params())
    return tile_text(update, found, Bounds(rows, columns[0], terms, _ends(at_row, known, names, region)), vector_bytes)


def _name_points(points: isl.Set, count: int, prefix: str) -> isl.Set:
    for place in range(count):
        points = points.set_dim_name(_PARAM, place, f"{prefix}n{place}")
    return points


def _projection_onto(points: isl.Set, places: Sequence[int]) -> isl.Set:
    for place in reversed(range(points.dim(_SET))):
        if place not in places:
            points = points.project_out(_SET, place, 1)
    return points


def _has_no_gaps(points: isl.Set) -> bool:
    """Return whether a set of integers is an interval."""
    points = points.reset_tuple_id() if points.has_tuple_id() else points
    space = points.get_space()
    between = points.apply(isl.Map.lex_le(space)).intersect(points.apply(isl.Map.lex_ge(space)))
    return between.is_subset(points)


def _ends(points: isl.Set, context: isl.Set, names: Names, region: Region) -> tuple[str, str]:
    """Return C expressions of the least and the greatest element of a set of integers."""
    low, high = points.dim_min(0).coalesce(), points.dim_max(0).coalesce()
    return expression_text(low, context, names, region), expression_text(high, context, names, region)
