"""Places of their own for what a variable holds in each iteration, so that iterations may change their order.

An element, where the variable ends up in it: `s = 0; for (...) s += ...; c[i][j] = s;` adds up in c[i][j] itself. Else
an array over the loops.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import islpy as isl

from polymap.codegen.lower import Assign, Element, Expr, If, Name, Stmt, expression, with_parts
from polymap.codegen.source.dependences import original_times
from polymap.codegen.source.loops import Names, expression_text
from polymap.codegen.source.region import Constant, LoopArray, Reference, Region, SourceStatement
from polymap.ir import Workload
from polymap.poly import Map, Set, at_equal_dims
from polymap.workload.c import names_of

_OUT, _SET = isl.dim_type.out, isl.dim_type.set


def with_destinations(region: Region) -> tuple[Region, tuple[str, ...]]:
    """Return the region with elements in place of the variables that are set and stored to them in one iteration, and
    what was replaced, in words. Call it inside `with budget():`."""
    words: dict[str, None] = {}
    for name in sorted(region.names):
        for own in _lives(region, name):
            made = _in_element(region, name, own)
            if made is not None:
                statements = (made.get(each.name, each) for each in region.statements)
                region = replace(region, statements=tuple(each for each in statements if each is not None))
                target = own[-1].body
                assert isinstance(target, Assign), "others are not replaced"
                words[f"{name} is computed in {expression(target.target)}"] = None
    return _without_idle(region), tuple(words)


def _without_idle(region: Region) -> Region:
    """Return the region without the declarations of variables that are not used any more."""
    used = {one.array for each in region.statements for one in each.references} | _names_returned(region)
    gone = sorted(name for name in region.names if name not in used)
    kept = tuple(each for each in region.variables if not any(re.search(rf"\b{name}\b", each) for name in gone))
    return replace(region, variables=kept)


def _names_returned(region: Region) -> frozenset[str]:
    return frozenset() if region.result is None else frozenset(names_of(region.result))


@dataclass(frozen=True, slots=True)
class _Life:
    """The statements that share an array in place of a variable. depth: of the loops that it gets axes for."""

    array: LoopArray
    depth: int
    statements: frozenset[str]


def with_arrays(
    region: Region, wanted: Collection[str], text: Workload, wider: Workload, names: Names, prefix: str
) -> tuple[Region, tuple[str, ...]]:
    """Return the region with arrays over loops in place of `wanted` variables, and what was replaced, in words.

    text, wider: the workload of the text, and the one whose tensors tell which variables get which axes. A variable
    stays as it is unless, for all sizes, what is read of an array was set before. Call it inside `with budget():`.
    """
    words: list[str] = []
    tensors = _tensors(text, wider)
    for name in sorted(set(wanted) & region.names - _names_returned(region)):
        lives = _lives_in_arrays(region, name, tensors, wider, names, prefix)
        made = {each.array.name: _in_array(region, name, each, prefix) for each in lives}
        if lives and all(_is_set_first(region, made[each.array.name], each) for each in lives):
            changed = {own.name: own for each in made.values() for own in each}
            statements = tuple(changed.get(each.name, each) for each in region.statements)
            arrays = (*region.arrays, *(each.array for each in lives))
            region = replace(region, statements=statements, arrays=arrays)
            words.append(name)
    told = f"{', '.join(words)} became arrays over loops, in memory of malloc; without it the text's loops run"
    return _without_idle(region), (told,) if words else ()


def _tensors(text: Workload, wider: Workload) -> dict[tuple[str, str], str]:
    """Return (statement, tensor of the text) -> tensor in its place."""
    return {
        (each.name, one.tensor): other.tensor
        for each, same in zip(text.statements, wider.statements, strict=True)
        for one, other in zip((each.target, *each.reads), (same.target, *same.reads), strict=True)
    }


def _lives_in_arrays(
    region: Region,
    name: str,
    tensors: Mapping[tuple[str, str], str],
    wider: Workload,
    names: Names,
    prefix: str,
) -> list[_Life]:
    """Return the arrays in place of a variable, none where some use of it has none."""
    shapes = {each.name: each.shape for each in wider.tensors}
    found: dict[str, list[tuple[SourceStatement, Reference]]] = {}
    for each in region.statements:
        for one in each.references:
            if one.array == name:
                found.setdefault(tensors.get((each.name, one.tensor), ""), []).append((each, one))
    lives: list[_Life] = []
    for tensor, uses in found.items():
        one = uses[0][1]
        depth = len(shapes.get(tensor, ())) - one.elements.dim(_OUT)
        own = [_extent(region, [each for each, _ in uses], place, names) for place in range(depth)]
        extents = [each for each in own if each is not None]
        declared = [re.search(rf"\b{name}\b((?:\[[^\[\]]*\])*)$", each) for each in region.variables]
        shape = next((re.findall(r"\[([^\[\]]*)\]", each[1]) for each in declared if each), None)
        if depth < 1 or len(extents) < depth or shape is None or not one.declared or not one.element_type:
            return []
        array = LoopArray(f"{prefix}{tensor}", one.element_type, (*extents, *shape))
        lives.append(_Life(array, depth, frozenset(each.name for each, _ in uses)))
    return lives


def _extent(region: Region, statements: Sequence[SourceStatement], place: int, names: Names) -> str | None:
    """Return how many values from 0 on a loop variable has at most, as C; None where it may be negative."""
    ends: list[Set] = []
    for each in statements:
        points = each.domain.project_out(_SET, place + 1, len(each.dims) - place - 1).project_out(_SET, 0, place)
        ends.append(points.reset_tuple_id())
    points = reduce(isl.Set.union, ends).coalesce()
    if not points.lower_bound_val(_SET, 0, isl.Val(0)).is_equal(points):
        return None
    most = points.dim_max(0)
    count = most.add(isl.PwAff.from_aff(isl.Aff.val_on_domain_space(most.get_domain_space(), isl.Val(1))))
    return expression_text(count.coalesce(), points.params(), names, region)


def _in_array(region: Region, name: str, life: _Life, prefix: str) -> list[SourceStatement]:
    """Return the statements of a variable's life with the elements of an array in its place."""
    found: list[SourceStatement] = []
    for each in region.statements:
        if each.name not in life.statements:
            continue
        known = {one.value: one.name for one in each.constants if isinstance(one.value, int)}
        taken = {*known.values(), *(one.array for one in each.references), *region.parameters}
        for place in (one for one in range(life.depth) if one not in known):
            own = each.dims[place]
            known[place] = own if own in region.counters - taken else f"{prefix}d{place}"
        new = [Constant(known[place], "long", place) for place in range(life.depth)]
        new = [one for one in new if one.value not in {old.value for old in each.constants}]
        place = Element(life.array.name, tuple(Name(known[number]) for number in range(life.depth)))
        loops = isl.Map.identity(each.domain.get_space().map_from_set()).intersect_domain(each.domain)
        loops = loops.project_out(_OUT, life.depth, len(each.dims) - life.depth)
        found.append(
            replace(
                each,
                constants=(*each.constants, *new),
                body=_replace_in(each.body, name, place),
                references=tuple(
                    _reference_in_array(one, loops, life) if one.array == name else one for one in each.references
                ),
            )
        )
    return found


def _reference_in_array(one: Reference, loops: Map, life: _Life) -> Reference:
    elements = loops.flat_range_product(one.elements).set_tuple_name(_OUT, life.array.name)
    return replace(one, array=life.array.name, elements=elements, declared=None)


def _is_set_first(region: Region, statements: Sequence[SourceStatement], life: _Life) -> bool:
    """Return whether each read of an array comes after an assignment to that element, for all sizes."""
    times = original_times(region)
    for reader in statements:
        for read in (one for one in reader.references if one.reads and one.array == life.array.name):
            rest = read.elements
            for writer in statements:
                written = writer.references[-1]
                if isinstance(writer.body, Assign) and written.array == life.array.name and written.writes:
                    earlier = times[reader.name].lex_gt_map(times[writer.name])
                    rest = rest.subtract(earlier.apply_range(written.elements))
            if not rest.is_empty():
                return False
    return True


def _replace_in(body: Stmt, name: str, place: Expr) -> Stmt:
    """Return an assignment, which may be under conditions, with an element in place of a variable."""
    match body:
        case Assign(target, symbol, value):
            return Assign(_replace_variable(target, name, place), symbol, _replace_variable(value, name, place))
        case If(condition, inside, otherwise):
            parts = [tuple(_replace_in(each, name, place) for each in block) for block in (inside, otherwise)]
            return If(_replace_variable(condition, name, place), *parts)
        case _:
            return body


def _lives(region: Region, name: str) -> list[list[SourceStatement]]:
    """Return the statements that name a variable, from each that sets it to the last one before it is set again; none
    where one may read what was set in another iteration, or what is returned."""
    found: list[list[SourceStatement]] = []
    for each in region.statements:
        own = [one for one in each.references if one.array == name]
        if any(one.writes for one in own) and not any(one.reads for one in own):
            found.append([])
        if own and not found:
            return []
        if own:
            found[-1].append(each)
    is_returned = region.result is not None and name in names_of(region.result)
    return [] if is_returned or not all(_follows(each, own[0]) for own in found for each in own) else found


def _follows(each: SourceStatement, first: SourceStatement) -> bool:
    """Return whether a statement only runs in iterations in which another one ran before it."""
    depth = len(first.dims)
    if not isinstance(first.body, Assign) or len(each.dims) < depth or each.position[:depth] != first.position[:depth]:
        return False
    pairs = at_equal_dims(Map.from_domain_and_range(each.domain, first.domain), depth)
    return each.domain.is_subset(pairs.domain())


def _in_element(region: Region, name: str, own: list[SourceStatement]) -> dict[str, SourceStatement | None] | None:
    """Return the statements of a variable's life with the element that the last one stores it to, None for those that
    then do nothing; None where the variable and the element may differ meanwhile."""
    first, last = own[0], own[-1]
    target, body, depth = last.references[-1], last.body, len(first.dims)
    known = [one for each in own for one in each.references if one.array == name]
    if not isinstance(body, Assign) or body.symbol != "=" or not isinstance(body.target, Element) or last is first:
        return None
    if any(one.declared is None or one.elements.dim(_OUT) or one.element_type != target.element_type for one in known):
        return None
    if not target.element_type or len(last.dims) != depth:
        return None
    if any(_meets(each, first, last, depth) for each in region.statements):
        return None
    made: dict[str, SourceStatement | None] = {}
    for each in own:
        moved = _move_store(each, name, last)
        if moved is None:
            return None
        is_idle = isinstance(moved.body, Assign) and moved.body == Assign(body.target, "=", body.target)
        made[each.name] = None if is_idle else moved
    return made


def _meets(each: SourceStatement, first: SourceStatement, last: SourceStatement, depth: int) -> bool:
    """Return whether a statement may touch the element while the variable lives in the same iteration."""
    place = each.position[depth : depth + 1]
    is_inside = each.position[:depth] == last.position[:depth] and len(each.dims) >= depth
    if not is_inside or not first.position[depth:] <= place <= last.position[depth:]:
        return False
    target = last.references[-1]
    for one in each.references:
        is_store = one is target and not one.reads
        is_before = each is first and not one.writes  # what it reads it reads before the variable is set
        if one.array == target.array and not is_store and not is_before:
            pairs = one.elements.apply_range(target.elements.reverse())
            if not at_equal_dims(pairs, depth).is_empty():
                return True
    return False


def _move_store(each: SourceStatement, name: str, last: SourceStatement) -> SourceStatement | None:
    """Return a statement with the element that `last` stores in place of a variable, None where it may run without
    `last`, or is under a condition on data."""
    body, store, target, depth = each.body, last.body, last.references[-1], len(last.dims)
    assert isinstance(store, Assign), "others are not replaced"
    around = at_equal_dims(Map.from_domain_and_range(each.domain, last.domain), depth)
    constants = _constants(each, last, store.target, depth)
    if not isinstance(body, Assign) or constants is None or not each.domain.is_subset(around.domain()):
        return None
    elements = around.apply_range(target.elements)

    def reference(one: Reference) -> Reference:
        if one.array != name:
            return one
        return replace(one, array=target.array, elements=elements, declared=target.declared)

    return replace(
        each,
        constants=constants,
        body=_replace_in(body, name, store.target),
        references=tuple(map(reference, each.references)),
    )


def _constants(each: SourceStatement, last: SourceStatement, place: Expr, depth: int) -> tuple[Constant, ...] | None:
    """Return the constants of a statement and those that the element's subscripts name; None where these are no loop
    variables around the variable, or mean something else in the statement."""
    words = set(re.findall(r"[A-Za-z_]\w*", expression(place)))
    needed = [one for one in last.constants if one.name in words]
    own = {one.name: one for one in each.constants}
    for one in needed:
        if not isinstance(one.value, int) or one.value >= depth or own.get(one.name, one).value != one.value:
            return None
    return (*each.constants, *(one for one in needed if one.name not in own))


def _replace_variable(value: Expr, name: str, place: Expr) -> Expr:
    """Return a value with an expression in place of a variable."""
    if value == Name(name):
        return place
    found = with_parts(value, lambda part: _replace_variable(part, name, place))
    if isinstance(found, Element) and found.array == name and isinstance(place, Element):
        return Element(place.array, (*place.index, *found.index))
    return found
