"""Variables that end up in an element: `double s = 0; for (...) s += ...; c[i][j] = s;` adds up in c[i][j] itself.

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

_OUT = isl.dim_type.out


def with_destinations(region: Region) -> tuple[Region, tuple[str, ...]]:
    """Return the region with the elements in place of the variables of one iteration that are stored to them at its
    end, and what was replaced, in words. Call it inside `with budget():`."""
    words: list[str] = []
    for name in sorted(region.inside):
        own = [each for each in region.statements if any(one.array == name for one in each.references)]
        made = _in_element(region, name, own) if own else None
        if made is not None:
            statements = (made.get(each.name, each) for each in region.statements)
            variables = tuple(each for each in region.variables if not re.search(rf"\b{name}\b", each))
            kept = tuple(each for each in statements if each is not None)
            region = replace(region, statements=kept, variables=variables, inside=region.inside - {name})
            target = own[-1].body
            assert isinstance(target, Assign), "others are not replaced"
            words.append(f"{name} is computed in {expression(target.target)}")
    return region, tuple(words)


def _in_element(region: Region, name: str, own: list[SourceStatement]) -> dict[str, SourceStatement | None] | None:
    """Return the statements that name a variable with the element that the last one stores it to, None for a copy;
    None where the variable and the element may differ while the variable lives."""
    first, last = own[0], own[-1]
    target, body = last.references[-1], last.body
    known = [one for each in own for one in each.references if one.array == name]
    declared = known[0].declared
    if declared is None or not isinstance(body, Assign) or body.symbol != "=" or not isinstance(body.target, Element):
        return None
    if not isinstance(first.body, Assign) or first.body.target != Name(name) or first.body.symbol != "=":
        return None
    depth = declared.depth
    is_one = all(
        one.declared == declared and one.elements.dim(_OUT) == 0 and one.element_type == target.element_type
        for one in known
    )
    if not is_one or not target.element_type or len(first.dims) != depth or len(last.dims) != depth:
        return None
    if any(_meets(each, first, last, depth) for each in region.statements):
        return None
    made: dict[str, SourceStatement | None] = {}
    for each in own:
        moved = _moved(each, name, last, depth)
        if moved is None:
            return None
        made[each.name] = moved
    return {**made, last.name: None} if body.value == Name(name) else made


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


def _moved(each: SourceStatement, name: str, last: SourceStatement, depth: int) -> SourceStatement | None:
    """Return a statement with the element that `last` stores in place of a variable."""
    body, store, target = each.body, last.body, last.references[-1]
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
        body=Assign(_replaced(body.target, name, store.target), body.symbol, _replaced(body.value, name, store.target)),
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


def _replaced(value: Expr, name: str, place: Expr) -> Expr:
    """Return a value with an expression in place of a variable."""

    def all_of(parts: Sequence[Expr]) -> tuple[Expr, ...]:
        return tuple(_replaced(each, name, place) for each in parts)

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
