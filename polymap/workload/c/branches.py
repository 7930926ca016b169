"""Branches on data as assignments under a guard.

    if (a[i] > 0) { b[i] = 1; c[i] += 2; } else b[i] = 0;
    ->   if (a[i] > 0) b[i] = 1;   if (a[i] > 0) c[i] += 2;   if (!(a[i] > 0)) b[i] = 0;

Where a statement changes what the condition reads, the condition is stored in a variable of its own first. Loops keep
their bodies, each statement of which gets the guard. What a branch declares is computed where the guard holds, and 0
elsewhere: nothing outside the branch can name it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from polymap.workload.c import tree

Reads = Callable[[tree.CExpression], bool]


def without_branch(branch: tree.If, reads: Reads, words: Collection[str]) -> tree.Block:
    """Return the statements of a branch whose condition is one on data, each under its guard.

    reads: whether an expression holds data. words: names that the program has.
    """
    found: list[tree.CStatement] = []
    condition = branch.condition
    if _changes(condition, (*branch.then, *branch.other)):
        flag = tree.Name(_flag(branch.line, condition, words), branch.line)
        found += [
            tree.Declare(flag.name, "int32", (), None, branch.line),
            tree.Assign(flag, "=", condition, branch.line),
        ]
        condition = flag
    found += _under(branch.then, condition, reads)
    found += _under(branch.other, tree.Unary("!", condition, branch.line), reads)
    return tree.Block(tuple(found))


def _flag(line: int, condition: tree.CExpression, words: Collection[str]) -> str:
    """Return the name of the variable that holds a condition; inner branches of a line name outer ones."""
    number, taken = 1, {*words, *tree.names_of(condition)}
    name = f"taken_{line}"
    while name in taken:
        number += 1
        name = f"taken_{line}_{number}"
    return name


def _changes(condition: tree.CExpression, body: Sequence[tree.CStatement]) -> bool:
    """Return whether a statement that others follow changes what the condition reads."""
    every = [each for each in tree.all_statements(body) if isinstance(each, tree.Assign | tree.Declare)]
    if not any(isinstance(each, tree.For) for each in tree.all_statements(body)):
        every = every[:-1]
    names = frozenset(tree.array_of(each) for each in tree.inside(condition) if isinstance(each, tree.Name | tree.Item))
    return any((each.name if isinstance(each, tree.Declare) else tree.array_of(each.target)) in names for each in every)


def _under(body: Sequence[tree.CStatement], guard: tree.CExpression, reads: Reads) -> Iterator[tree.CStatement]:
    """Yield the statements under a guard."""
    own: set[str] = set()  # data that the body declares

    def holds_data(expression: tree.CExpression) -> bool:
        return reads(expression) or not own.isdisjoint(tree.names_of(expression))

    for each in body:
        match each:
            case tree.Assign():
                whole = guard if each.guard is None else tree.Binary("&&", guard, each.guard, each.line)
                yield replace(each, guard=whole)
            case tree.Declare(name, _, _, value, line):
                if value is None or not holds_data(value):
                    yield each
                    continue
                own.add(name)
                yield replace(each, value=None)
                yield tree.Assign(
                    tree.Name(name, line), "=", tree.Choice(guard, value, tree.Literal("0", 0, line), line), line
                )
            case tree.For():
                yield replace(each, body=tuple(_under(each.body, guard, holds_data)))
            case tree.Block(inner):
                yield tree.Block(tuple(_under(inner, guard, holds_data)))
            case tree.If(condition, then, other, line):
                if not holds_data(condition):
                    one, two = (tuple(_under(side, guard, holds_data)) for side in (then, other))
                    yield tree.If(condition, one, two, line)
                elif _changes(condition, (*then, *other)):  # it is stored before
                    yield tree.If(
                        tree.Binary("&&", guard, condition, line),
                        then,
                        (tree.If(guard, other, (), line),) if other else (),
                        line,
                    )
                else:
                    for test, side in ((condition, then), (tree.Unary("!", condition, line), other)):
                        if side:
                            yield tree.If(tree.Binary("&&", guard, test, line), side, (), line)
