"""Arrays that a list sets where they are declared (C99 6.7.8), as assignments to their elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

from pycparser import c_ast

from polymap.workload.c.tree import Assign, Binary, CExpression, CStatement, Declare, For, Item, Literal, Name, Refused
from polymap.workload.tuning import TUNING

_HINT = "Write a value per element, in braces per row: {{1, 2}, {3, 4}}, or set it in a loop."


def table(declared: Declare, values: c_ast.Node, read: Callable[[c_ast.Node], CExpression]) -> list[CStatement]:
    """Return a declared array with its sizes, loops that set it to zero where the list leaves elements out, and an
    assignment per value of the list. Refused where the list is not one of values (of rows of values ...)."""
    name, shape, line = declared.name, declared.shape, declared.line
    if not shape:
        raise Refused("PM261", line, f"'{name}' is no array and is set by a list", f"Write {name} = value.")
    length = len(_listed(values))
    count = Literal(str(length), length, line)
    sizes = [count if each is None and place == 0 else each for place, each in enumerate(shape)]
    given = dict(_values(declared, values, read, len(sizes), ()))
    if len(given) > TUNING.most_table_values:
        what = f"'{name}' is set by a list of {len(given)} values; {TUNING.most_table_values} are read"
        raise Refused("PM261", line, what, "Make it a parameter.")
    whole = 1
    for axis, size in enumerate(sizes):
        if size is None:
            raise Refused("PM261", line, f"'{name}' is set by a list and has an axis without a size", "Write the size.")
        known = size.number if isinstance(size, Literal) else None
        whole *= known or 0  # unknown sizes: it may have more elements than the list has values
        if known is not None and any(index[axis] >= known for index in given):
            raise Refused("PM261", line, f"the list that sets '{name}' has more values than {known}", "Remove some.")
    start = [] if len(given) == whole else [_zeros(name, [each for each in sizes if each is not None], line)]
    own = [Assign(_item(name, index, line), "=", value, line) for index, value in given.items()]
    if start:
        own = [each for each in own if not (isinstance(each.value, Literal) and each.value.number == 0)]
    return [replace(declared, shape=tuple(sizes)), *start, *own]


def _listed(values: c_ast.Node) -> list[c_ast.Node]:
    return cast("list[c_ast.Node]", getattr(values, "exprs", None) or [])


def _item(name: str, index: Sequence[int], line: int) -> Item:
    return Item(name, tuple(Literal(str(each), each, line) for each in index), line)


def _values(
    declared: Declare, node: c_ast.Node, read: Callable[[c_ast.Node], CExpression], depth: int, index: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], CExpression]]:
    """Yield (index, value) of the values in the list."""
    if not depth:
        if isinstance(node, c_ast.InitList | c_ast.NamedInitializer):
            raise Refused("PM261", declared.line, f"the list that sets '{declared.name}' cannot be read", _HINT)
        yield index, read(node)
        return
    if not isinstance(node, c_ast.InitList):
        if not isinstance(node, c_ast.Constant) or getattr(node, "value", "") != "0" or any(index):
            raise Refused("PM261", declared.line, f"the list that sets '{declared.name}' cannot be read", _HINT)
        return  # {0} of several axes
    for number, each in enumerate(_listed(node)):
        yield from _values(declared, each, read, depth - 1, (*index, number))


def _zeros(name: str, sizes: Sequence[CExpression], line: int) -> For:
    """Return loops over all elements of an array that set them to zero."""
    counters = [f"at{axis}_{name}" for axis in range(len(sizes))]
    index = tuple(Name(each, line) for each in counters)
    zero = Literal("0", 0, line)
    body: CStatement = Assign(Item(name, index, line), "=", zero, line)
    for counter, size in zip(reversed(counters), reversed(sizes), strict=True):
        condition = Binary("<", Name(counter, line), size, line)
        body = For(counter, zero, condition, Literal("1", 1, line), "int32", (body,), line)
    assert isinstance(body, For), "a table has an axis"
    return body
