"""Variables that end up in an element: `s = 0; for (...) s += ...; c[i][j] = s;` adds up in c[i][j] itself.

Then each iteration has a variable of its own, so that iterations may change their order, and no array is declared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import islpy as isl

from polymap.codegen.lower import Assign, Binary, Choice, Element, Expr, Invoke, Name, expression
from polymap.codegen.source.region import Constant, Reference, Region, SourceStatement
from polymap.poly import Map, at_equal_dims
from polymap.workload.c import names_of

_OUT = isl.dim_type.out


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
    used = {one.array for each in region.statements for one in each.references} | (
        frozenset[str]() if region.result is None else names_of(region.result)
    )
    gone = sorted(name for name in region.names if name not in used)
    kept = tuple(each for each in region.variables if not any(re.search(rf"\b{name}\b", each) for name in gone))
    return replace(region, variables=kept), tuple(words)


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
        body=Assign(
            _replace_variable(body.target, name, store.target),
            body.symbol,
            _replace_variable(body.value, name, store.target),
        ),
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

    def all_of(parts: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(_replace_variable(each, name, place) for each in parts)

    match value:
        case Name(text):
            return place if text == name else value
        case Element(array, index):
            return Element(array, all_of(index))
        case Invoke(function, arguments):
            return Invoke(function, all_of(arguments))
        case Binary(symbol, left, right):
            return Binary(symbol, *all_of((left, right)))
        case Choice(condition, yes, no):
            return Choice(*all_of((condition, yes, no)))
        case _:
            return value
