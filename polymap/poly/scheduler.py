"""Orders from isl's own scheduler (Pluto-like: outer parallelism and small distances), as quasi-affine functions.

Call these functions inside `with budget():`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import islpy as isl

from polymap.ir import Affine, Floor, Mistake, ScheduleError, affine
from polymap.poly.budgets import CONTEXT, budget, has_run_out, integer
from polymap.poly.deadlines import Effort, within_work
from polymap.poly.relations import union_of
from polymap.poly.sets import SetOrMap, value

_IN, _OUT, _DIV = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.div


def computed_order(domains: Sequence[isl.Set], dependences: Sequence[isl.Map]) -> dict[str, tuple[Affine, ...]]:
    """Return tuple name -> time tuple of an order that keeps the dependences (all of them are also kept close).

    The dims of the domains must have names. Raises ScheduleError as `schedule_of` does.
    """
    first, *others = (each.to_union_set() for each in domains)
    for other in others:
        first = first.union(other)
    asked = isl.ScheduleConstraints.on_domain(first)
    if dependences:
        pairs = union_of(dependences)
        asked = asked.set_validity(pairs).set_coincidence(pairs).set_proximity(pairs)
    maps: list[isl.Map] = []
    schedule_of(asked).get_map().foreach_map(maps.append)
    names = {str(each.get_tuple_name()): _dim_names(each) for each in domains}
    return {name: _times(each, names[name]) for each in maps for name in [str(each.get_tuple_name(_IN))]}


def schedule_of(asked: isl.ScheduleConstraints) -> isl.Schedule:
    """Return the schedule that isl computes. Raises ScheduleError (PM285) where it finds none ("unable to carry
    dependences"), as for some strides that begin at a size."""
    try:
        return asked.compute_schedule()
    except isl.Error as error:
        if has_run_out(error):
            raise
        what = "isl's scheduler finds no order of this program"
        raise ScheduleError(Mistake("PM285", what, "The original's order can be tiled.")) from None


def _dim_names(points: isl.Set) -> list[str]:
    return [str(points.get_dim_name(isl.dim_type.set, at)) for at in range(points.dim(isl.dim_type.set))]


def _times(order: isl.Map, names: Sequence[str]) -> tuple[Affine, ...]:
    pieces: list[isl.MultiAff] = []
    isl.PwMultiAff.from_map(order).foreach_piece(lambda _, function: pieces.append(function))
    assert len(pieces) == 1, "isl schedules a statement by one function"
    return tuple(affine_of(pieces[0].get_at(at), names) for at in range(order.dim(_OUT)))


def affine_of(function: isl.Aff, names: Sequence[str]) -> Affine:
    """Return an integer function of named dims as polymap writes it."""
    terms: list[tuple[int, str | Floor]] = [
        (integer(function.get_coefficient_val(_IN, at)), name) for at, name in enumerate(names)
    ]
    for at in range(function.dim(_DIV)):
        factor = integer(function.get_coefficient_val(_DIV, at))
        if factor:
            inner = function.get_div(at)  # rational: its argument over its denominator
            divisor = integer(inner.get_denominator_val())
            terms.append((factor, Floor(affine_of(inner.scale_val(inner.get_denominator_val()), names), divisor)))
    return affine(tuple(terms), integer(function.get_constant_val()))


# --- sets as text ---


def plain_text(points: Sequence[SetOrMap], parameters: Sequence[str]) -> str:
    """Return a union in isl's notation ("" for nothing), with parameters p0, p1, ... and dims i0, i1, ...: names of C
    may be words of that notation (max, exists, NaN). The names of tuples stay."""
    plain = [_plain(each, parameters).to_str() for each in points]
    if not plain:
        return ""
    head = f"[{', '.join(f'p{number}' for number in range(len(parameters)))}] -> "
    inner = (text[text.index("{") + 1 : text.rindex("}")] for text in plain)
    return f"{head}{{ {'; '.join(inner)} }}"


def _plain(points: SetOrMap, parameters: Sequence[str]) -> SetOrMap:
    points = _renamed(points, {name: f"p{number}" for number, name in enumerate(parameters)})
    kinds = ((isl.dim_type.set, "i"),) if isinstance(points, isl.Set) else ((_IN, "i"), (_OUT, "o"))
    for kind, letter in kinds:
        for place in range(points.dim(kind)):
            points = points.set_dim_name(kind, place, f"{letter}{place}")
    return points


def with_parameters(points: isl.Map, parameters: Sequence[str]) -> isl.Map:
    """Return a map whose parameters p0, p1, ... get these names."""
    return _renamed(points, {f"p{number}": name for number, name in enumerate(parameters)})


def _renamed(points: SetOrMap, names: Mapping[str, str]) -> SetOrMap:
    kind = isl.dim_type.param
    new = [names[str(points.get_dim_name(kind, place))] for place in range(points.dim(kind))]
    for head in ("#", ""):  # first to names that no other parameter has
        for place, name in enumerate(new):
            points = points.set_dim_name(kind, place, head + name)
    return points


# --- orders over parameters ---


def tiled_order(
    domains: Mapping[str, isl.Set],
    dependences: Callable[[], Iterable[isl.Map]],
    parameters: Sequence[str],
    tile: int,
    effort: Effort,
    what: str,
) -> dict[str, isl.Map]:
    """Return tuple name -> times of isl's order, over the domain, with its permutable bands tiled; of one length.

    dependences: computed inside the budget. Raises ScheduleError as `schedule_of` does, BudgetError beyond the effort.
    """
    with budget(effort.operations, seconds=math.inf, what=what):
        whole = plain_text(list(domains.values()), parameters)
        relations = plain_text(list(dependences()), parameters)
    found = within_work(effort, what, order_text, whole, relations)
    with budget(effort.operations, seconds=math.inf, what=what):
        schedule = isl.Schedule(found, CONTEXT)
        if tile > 1:
            schedule = _with_tiled_bands(schedule.get_root(), tile).get_schedule()
        maps: list[isl.Map] = []
        schedule.get_map().foreach_map(maps.append)
        length = max(each.dim(_OUT) for each in maps)
        times: dict[str, isl.Map] = {}
        for each in maps:
            name = str(each.get_tuple_name(_IN))
            longer = with_parameters(each, parameters).intersect_domain(domains[name])
            longer = longer.add_dims(_OUT, length - each.dim(_OUT))
            for place in range(each.dim(_OUT), length):
                longer = longer.fix_val(_OUT, place, value(0))
            times[name] = longer.coalesce()
        return times


def order_text(domain: str, relations: str) -> str:
    """Return isl's schedule for a domain and its dependences ("" for none), all in isl's notation."""
    constraints = isl.ScheduleConstraints.on_domain(isl.UnionSet(domain, CONTEXT))
    if relations:
        kept = isl.UnionMap(relations, CONTEXT)
        constraints = constraints.set_validity(kept).set_proximity(kept).set_coincidence(kept)
    return str(schedule_of(constraints).to_str())


def _with_tiled_bands(node: isl.ScheduleNode, tile: int) -> isl.ScheduleNode:
    """Return the node with all permutable bands of two or more loops below it tiled."""
    if node.get_type() == isl.schedule_node_type.band and node.band_n_member() > 1 and node.band_get_permutable():
        times = node.band_get_partial_schedule()
        for place in range(node.band_n_member()):
            times = times.set_union_pw_aff(place, times.get_union_pw_aff(place).scale_down_val(value(tile)).floor())
        return _children(node.insert_partial_schedule(times).child(0), tile).parent()
    return _children(node, tile)


def _children(node: isl.ScheduleNode, tile: int) -> isl.ScheduleNode:
    for place in range(node.n_children()):
        node = _with_tiled_bands(node.child(place), tile).parent()
    return node
