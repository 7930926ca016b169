"""Questions about relations between statement instances: signs and constants of distances, and flow of values.

Call these functions inside `with budget():`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import islpy as isl

from polymap.ir import Affine
from polymap.poly.budgets import integer
from polymap.poly.sets import coalesced, dim_bounds, first_pair, function, later, same_value, sooner, value

UnionMap = isl.UnionMap

_SET, _IN, _OUT, _PARAM = isl.dim_type.set, isl.dim_type.in_, isl.dim_type.out, isl.dim_type.param


def signs_of(distances: isl.Set) -> tuple[tuple[int, ...], ...]:
    """Return, sorted, the vectors of signs (-1, 0, 1) of the points of a set."""
    return tuple(sorted(_signs_from(distances, 0)))


def _signs_from(distances: isl.Set, position: int) -> Iterator[tuple[int, ...]]:
    if distances.is_empty():
        return
    if position == distances.dim(_SET):
        yield ()
        return
    parts = (
        (-1, distances.upper_bound_val(_SET, position, value(-1))),
        (0, distances.fix_val(_SET, position, value(0))),
        (1, distances.lower_bound_val(_SET, position, value(1))),
    )
    for sign, part in parts:
        for rest in _signs_from(part, position + 1):
            yield (sign, *rest)


def constants_of(distances: isl.Set) -> tuple[int | None, ...]:
    """Return per dim the value that all points of a bounded, non-empty set have in common, or None."""
    return tuple(low if low == high else None for low, high in dim_bounds(distances))


def ends_of(relation: isl.Map) -> tuple[str, str]:
    """Return the tuple names of a relation's domain and range ("" for none)."""
    names = relation.get_tuple_name(isl.dim_type.in_), relation.get_tuple_name(isl.dim_type.out)
    return names[0] or "", names[1] or ""


def flow_of_values(
    reads: Sequence[isl.Map], writes: Sequence[isl.Map], times: Sequence[isl.Map]
) -> tuple[isl.Map, ...]:
    """Return the relations { writer -> reader }: the last write before each read, of the element that it reads.

    reads, writes: { instance -> element }, times: { instance -> time tuple }, one map per statement. Times are compared
    lexicographically.
    """
    sink, source, schedule = union_of(reads), union_of(writes), union_of(times)
    access = isl.UnionAccessInfo.from_sink(sink).set_must_source(source).set_schedule_map(schedule)
    found: list[isl.Map] = []
    access.compute_flow().get_must_dependence().foreach_map(found.append)
    return tuple(sorted(found, key=ends_of))


def union_of(maps: Iterable[isl.Map]) -> isl.UnionMap:
    """Return the union of one or more maps between tuples of any names."""
    first, *others = (each.to_union_map() for each in maps)
    for other in others:
        first = first.union(other)
    return first


@dataclass(frozen=True, slots=True)
class Clock:
    """When the instances `name[dims...]` of a statement run: `times`, compared lexicographically."""

    name: str
    dims: tuple[str, ...]
    times: tuple[Affine, ...]

    def tick(self, place: int) -> isl.Map:
        """Return { instance -> value of the clock at one position } (0 beyond its end)."""
        return function(self.name, self.dims, [self.times[place] if place < len(self.times) else Affine()])


def not_in_order(relation: isl.Map, source: Clock, sink: Clock) -> isl.Map | None:
    """Return a non-empty part of { x -> y } in which y runs before x or at the same time, or None if there is none.

    The shorter clock is extended by zeros.
    """
    for place in range(max(len(source.times), len(sink.times))):
        backwards = relation.intersect(later(source.tick(place), sink.tick(place)))
        if not backwards.is_empty():
            return backwards
        relation = relation.intersect(at_same_time(source, sink, place))
        if relation.is_empty():
            return None
    return relation


def may_precede(first: Clock, second: Clock, loose: Collection[int]) -> isl.Map:
    """Return { x -> y : x may run before y }; at the places in `loose` different times are in no order.

    Both clocks have one length.
    """
    everything = isl.Map.universe(same_value(first.tick(0), second.tick(0)).get_space())
    found = isl.Map.empty(everything.get_space())
    equal = everything
    for place in range(len(first.times)):
        same = at_same_time(first, second, place)
        ticks = first.tick(place), second.tick(place)
        before = everything.subtract(same) if place in loose else sooner(*ticks)
        found = found.union(equal.intersect(before))
        equal = equal.intersect(same)
    return coalesced(found)


def points_of(points: isl.Set) -> tuple[tuple[int, ...], ...]:
    """Return the points of a bounded set, sorted."""
    found: list[isl.Point] = []
    points.foreach_point(found.append)
    size = points.dim(_SET)
    return tuple(sorted(tuple(integer(each.get_coordinate_val(_SET, at)) for at in range(size)) for each in found))


def at_same_time(source: Clock, sink: Clock, place: int) -> isl.Map:
    """Return { x -> y : both clocks have equal values at one position }."""
    return same_value(source.tick(place), sink.tick(place))


def same_prefix(first: isl.Map, second: isl.Map, length: int) -> isl.Map:
    """Return { x -> y : the first `length` entries of first(x) and second(y) are equal }."""
    rest = first.dim(_OUT) - length
    return same_value(*(each.project_out(_OUT, length, rest) for each in (first, second)))


def at_equal_dims(relation: isl.Map, count: int) -> isl.Map:
    """Return the pairs of which the first `count` dims are equal."""
    for number in range(count):
        relation = relation.equate(_IN, number, _OUT, number)
    return relation


def goes_back(relation: isl.Map, place: int, sign: int) -> bool:
    """Return whether some pair steps against the sign (1 or -1) along a dim."""
    order = relation.order_gt if sign > 0 else relation.order_lt
    return not order(_IN, place, _OUT, place).is_empty()


def has_parameters_from(points: isl.Set, least: int) -> bool:
    """Return whether a set holds for some parameters that are all at least so large."""
    return not _above(points, least).is_empty()


def simplified(points: isl.Set, least: int, most: int) -> isl.Set:
    """Return a simpler set of parameters: equal to a set where all are from -most to most, or a part of it, equal to it
    where all are from least to most."""
    box = isl.Set.universe(points.get_space())
    for place in range(box.dim(isl.dim_type.param)):
        box = box.upper_bound_val(isl.dim_type.param, place, value(most))
    whole = coalesced(points).gist(_above(box, -most))
    part = coalesced(points.gist(_above(box, least)))
    return part if part.is_subset(points) else whole


def largest_number(points: isl.Set) -> int:
    """Return the largest number in the constraints of a set, or more."""
    return max((int(each) for each in re.findall("[0-9]+", points.to_str())), default=0)


def _above(points: isl.Set, least: int) -> isl.Set:
    for place in range(points.dim(isl.dim_type.param)):
        points = points.lower_bound_val(isl.dim_type.param, place, value(least))
    return points


def parameters_of(points: isl.Set | isl.Map) -> tuple[str, ...]:
    """Return the names of the parameters."""
    return tuple(str(points.get_dim_name(_PARAM, number)) for number in range(points.dim(_PARAM)))


def example_of(pairs: isl.Map) -> tuple[dict[str, int], tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return values of the parameters for which a relation that is not empty has pairs, and its smallest one there."""
    point, values = pairs.params().sample_point(), dict[str, int]()
    for number, name in enumerate(parameters_of(pairs)):
        values[name] = integer(point.get_coordinate_val(_PARAM, number))
        pairs = pairs.fix_val(_PARAM, number, value(values[name]))
    pair = first_pair(pairs.project_out(_PARAM, 0, len(values)))
    assert pair is not None, "the parameters are those of a pair"
    return values, pair


def fixed_values(points: isl.Set) -> list[tuple[int | None, ...]]:
    """Return, per convex part of a set, the value that each dim has there; None where it varies."""
    found: list[tuple[int | None, ...]] = []
    for part in map(isl.Set.from_basic_set, points.get_basic_sets()):
        values = [part.plain_get_val_if_fixed(_SET, place) for place in range(part.dim(_SET))]
        found.append(tuple(integer(each) if each.is_int() else None for each in values))
    return found


def formula_texts(times: isl.Map, points: isl.Set, names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return a function in isl's notation, whole and each of its entries, as simple as it is on a set of points.

    names: of its dims.
    """
    plain = times.gist_domain(points).coalesce()
    if not plain.is_single_valued():  # the points may be what makes it one, where it has divisions
        plain = times
    for number, name in enumerate(names):
        plain = plain.set_dim_name(_IN, number, name)
    whole = isl.PwMultiAff.from_map(plain)
    return str(whole.to_str()), tuple(str(whole.get_pw_aff(place).to_str()) for place in range(whole.dim(_OUT)))
