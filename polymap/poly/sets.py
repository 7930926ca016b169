"""Integer sets and maps from plain data: every isl object of polymap starts here, named, from `Affine` and integers.

isl accepts misspelt names and silently wraps large numbers, so nothing is built from text, and a dim is always found by
its name. Call these functions inside `with budget():`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeVar

import islpy as isl

from polymap.ir import Affine
from polymap.poly.budgets import CONTEXT, check_clock, has_run_out, integer
from polymap.poly.cases import cases_of, conjunctions_of
from polymap.poly.tuning import TUNING

Set = isl.Set
Map = isl.Map
AstNode = isl.AstNode
SetOrMap = TypeVar("SetOrMap", isl.Set, isl.Map)

_IN, _OUT, _SET = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set


def value(number: int) -> isl.Val:
    """Return the isl value of an integer of any size."""
    return isl.Val(str(number), CONTEXT)


def tuple_space(name: str, dims: Sequence[str]) -> isl.Space:
    """Return the space of tuples `name[dims...]`; an empty name gives anonymous tuples."""
    space = isl.Space.set_alloc(CONTEXT, 0, len(dims))
    for position, dim in enumerate(dims):
        space = space.set_dim_name(_SET, position, dim)
    return space.set_tuple_name(_SET, name) if name else space


def variables(space: isl.Space) -> dict[str, isl.Aff]:
    """Return dim name -> the affine function that is this dim, on a space of named tuples."""
    check_clock()
    local = isl.LocalSpace.from_space(space)
    functions: dict[str, isl.Aff] = {}
    for position in range(space.dim(_SET)):
        name = space.get_dim_name(_SET, position)
        assert name is not None
        assert name not in functions  # spaces are made of dims of one statement, each of its own name
        functions[name] = isl.Aff.var_on_domain(local, _SET, position)
    return functions


def isl_affine(expression: Affine, known: Mapping[str, isl.Aff], space: isl.Space) -> isl.Aff:
    """Return the expression over the dims in `known` (from `variables(space)`); KeyError for any other name."""
    total = isl.Aff.val_on_domain(isl.LocalSpace.from_space(space), value(expression.constant))
    for coefficient, atom in expression.terms:
        if isinstance(atom, str):
            function = known[atom]
        else:
            function = isl_affine(atom.argument, known, space).scale_down_val(value(atom.divisor)).floor()
        total = total.add(function.scale_val(value(coefficient)))
    return total


def integer_set(name: str, extents: Iterable[tuple[str, int]], constraints: Iterable[Affine] = ()) -> isl.Set:
    """Return the points `name[dims...]` with 0 <= dim < extent and every constraint >= 0."""
    pairs = tuple(extents)
    space = tuple_space(name, [dim for dim, _ in pairs])
    known = variables(space)
    points = isl.Set.universe(space)
    for dim, extent in pairs:
        lower = isl_affine(Affine(((1, dim),)), known, space)
        upper = isl_affine(Affine(((-1, dim),), extent - 1), known, space)
        points = points.intersect(_nonnegative(lower)).intersect(_nonnegative(upper))
    for constraint in constraints:
        points = points.intersect(_where(constraint, dict(pairs), known, space))
    return points


def _where(constraint: Affine, extents: Mapping[str, int], known: Mapping[str, isl.Aff], space: isl.Space) -> isl.Set:
    """Return where the constraint is >= 0 (over the box)."""
    if constraint.is_linear:
        return _nonnegative(isl_affine(constraint, known, space))
    points = isl.Set.empty(space)
    for conjunction in conjunctions_of(constraint, extents):
        part = isl.Set.universe(space)
        for condition in conjunction:
            part = part.intersect(_nonnegative(isl_affine(condition, known, space)))
        points = points.union(part)
    return coalesced(points)


@dataclass(frozen=True, slots=True)
class Counter:
    """A dim of expressions, and the variable of a set that it counts: label = origin + step * name."""

    name: str
    label: str
    origin: int
    step: int


@dataclass(frozen=True, slots=True)
class Frame:
    """Tuples `name[dims...]` over parameters. extents: over which expressions are taken apart; they bound no set."""

    name: str
    dims: tuple[Counter, ...]
    parameters: tuple[Counter, ...]
    extents: Mapping[str, int]

    def _space(self) -> isl.Space:
        space = isl.Space.set_alloc(CONTEXT, len(self.parameters), len(self.dims))
        for position, each in enumerate(self.parameters):
            space = space.set_dim_name(isl.dim_type.param, position, each.label)
        for position, each in enumerate(self.dims):
            space = space.set_dim_name(_SET, position, each.label)
        return space.set_tuple_name(_SET, self.name)

    def _known(self, space: isl.Space) -> dict[str, isl.Aff]:
        local = isl.LocalSpace.from_space(space)
        found: dict[str, isl.Aff] = {}
        for kind, counters in ((isl.dim_type.param, self.parameters), (_SET, self.dims)):
            for position, each in enumerate(counters):
                offset = isl.Aff.var_on_domain(local, kind, position).sub(
                    isl.Aff.val_on_domain(local, value(each.origin))
                )
                counted = offset if each.step > 0 else offset.neg()
                found[each.name] = (
                    counted if abs(each.step) == 1 else counted.scale_down_val(value(abs(each.step))).floor()
                )
        return found

    def points(self, constraints: Iterable[Affine]) -> isl.Set:
        """Return the tuples for which every constraint is >= 0; floors that only encode signs become cases."""
        points = self._all(())
        for constraint in constraints:
            found = isl.Set.empty(points.get_space())
            for conjunction in conjunctions_of(constraint, self.extents):
                part = points
                for each in conjunction:
                    cases = [self._all((*where, rest)) for where, rest in cases_of(each, self.extents)]
                    part = part.intersect(reduce(isl.Set.union, cases))
                found = found.union(part)
            points = found
        return points if points.n_basic_set() == 1 else coalesced(points)

    def map_to(self, target: str, outputs: Sequence[Affine]) -> isl.Map:
        """Return { name[dims...] -> target[outputs...] }; floors that only encode signs become cases."""
        found = isl.Map.from_domain(self._all(()))
        for output in outputs:
            cases = [
                isl.Map.from_aff(self._function(rest)).intersect_domain(self._all(where))
                for where, rest in cases_of(output, self.extents)
            ]
            found = found.flat_range_product(reduce(isl.Map.union, cases))
        return found.set_tuple_name(_OUT, target)

    def function(self, outputs: Sequence[Affine]) -> isl.Map:
        """Return { name[dims...] -> [outputs...] }."""
        space, values = self._space(), isl.AffList.alloc(CONTEXT, len(outputs))
        for output in outputs:
            values = values.add(self._function(output))
        target = isl.Space.set_alloc(CONTEXT, len(self.parameters), len(outputs)).align_params(space)
        return isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(space.map_from_domain_and_range(target), values))

    def _all(self, constraints: Iterable[Affine]) -> isl.Set:
        points = isl.Set.universe(self._space())
        for each in constraints:
            points = points.intersect(_nonnegative(self._function(each)))
        return points

    def _function(self, expression: Affine) -> isl.Aff:
        space = self._space()
        return isl_affine(expression, self._known(space), space)


def coalesced(points: SetOrMap) -> SetOrMap:
    """Return the set in fewer pieces, if isl finds such.

    isl's result is compared with the set: it was seen to contain additional points. That takes long for unions of many
    pieces, which are returned as they are.
    """
    if _pieces(points) > TUNING.most_coalesced:
        return points
    fewer = points.coalesce()
    return fewer if fewer.is_equal(points) else points


def _pieces(points: isl.Set | isl.Map) -> int:
    return points.n_basic_set() if isinstance(points, isl.Set) else points.n_basic_map()


def nonnegative(points: isl.Set, expression: Affine) -> isl.Set:
    """Return the points of the set (of named tuples) where the expression is >= 0."""
    space = points.get_space()
    return points.intersect(_nonnegative(isl_affine(expression, variables(space), space)))


def function(name: str, dims: Sequence[str], outputs: Sequence[Affine], target: str = "") -> isl.Map:
    """Return the map `name[dims...] -> target[outputs...]`, total on the tuples."""
    space = tuple_space(name, dims)
    known = variables(space)
    values = isl.AffList.alloc(CONTEXT, len(outputs))
    for output in outputs:
        values = values.add(isl_affine(output, known, space))
    range_space = isl.Space.set_alloc(CONTEXT, 0, len(outputs))
    if target:
        range_space = range_space.set_tuple_name(_SET, target)
    both = space.map_from_domain_and_range(range_space)
    return isl.Map.from_multi_aff(isl.MultiAff.from_aff_list(both, values))


def same_value(first: isl.Map, second: isl.Map) -> isl.Map:
    """Return { x -> y : first(x) = second(y) }."""
    return first.apply_range(second.reverse())


def later(first: isl.Map, second: isl.Map) -> isl.Map:
    """Return { x -> y : first(x) is lexicographically greater than second(y) }."""
    return first.lex_gt_map(second)


def sooner(first: isl.Map, second: isl.Map) -> isl.Map:
    """Return { x -> y : first(x) is lexicographically smaller than second(y) }."""
    return first.lex_lt_map(second)


def differences(relation: isl.Map, first: isl.Map, second: isl.Map, names: Sequence[str]) -> isl.Set:
    """Return { second(y) - first(x) : x -> y in the relation }, its dims called `names`."""
    deltas = relation.apply_domain(first).apply_range(second).deltas()
    for position, name in enumerate(names):
        deltas = deltas.set_dim_name(_SET, position, name)
    return deltas


def dim_bounds(points: isl.Set) -> tuple[tuple[int, int], ...]:
    """Return the least and largest value of each dim of a bounded set that is not empty.

    Disjuncts without an integer point are removed first: isl may take a bound from one that it does not know as empty.
    """
    disjuncts = [isl.Set.from_basic_set(part) for part in points.get_basic_sets() if not part.is_empty()]
    return tuple(
        (
            min(integer(part.dim_min_val(position)) for part in disjuncts),
            max(integer(part.dim_max_val(position)) for part in disjuncts),
        )
        for position in range(points.dim(_SET))
    )


def first_point(points: isl.Set) -> tuple[int, ...] | None:
    """Return the lexicographically smallest point of a bounded set, or None if it is empty.

    On some sets with floors isl's lexmin fails ("affine expression involves some of the domain dimensions"); then all
    points of such a disjunct are compared.
    """
    if points.is_empty():
        return None
    try:
        found = [points.lexmin()]
    except isl.Error as error:
        if has_run_out(error):
            raise
        found = [_smallest(part) for part in points.get_basic_sets() if not part.is_empty()]
    return min(_coordinates(part.sample_point()) for part in found)


def _smallest(part: isl.BasicSet) -> isl.Set:
    """Return the smallest point of a disjunct if isl can tell, else all of them."""
    points = isl.Set.from_basic_set(part)
    try:
        return points.lexmin()
    except isl.Error as error:
        if has_run_out(error):
            raise
        return points


def _coordinates(point: isl.Point) -> tuple[int, ...]:
    size = point.get_space().dim(_SET)
    return tuple(integer(point.get_coordinate_val(_SET, position)) for position in range(size))


def first_pair(relation: isl.Map) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the lexicographically smallest pair of a bounded relation, or None if it is empty."""
    if relation.is_empty():
        return None
    arity = relation.dim(_IN)
    point = first_point(relation.wrap())
    assert point is not None
    return point[:arity], point[arity:]


def _nonnegative(expression: isl.Aff) -> isl.Set:
    zero = isl.Aff.val_on_domain(expression.get_domain_local_space(), value(0))
    return isl.Set.from_basic_set(expression.ge_basic_set(zero))
