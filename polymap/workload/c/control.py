"""`while`, `do`, `for (;;)` and `switch` as counting loops and chains of conditions.

    i = 0; while (i < n) { a[i] = 0; i++; }   ->   for (i = i; i < n; i++) a[i] = 0;

What a loop's variable is where it begins, `counted` finds out. A loop that tests in the middle, or at its end, runs
what stands before the test once more in front of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Protocol

from pycparser import c_ast

from polymap.workload.c.expressions import Expressions, children, every, negated, node_at, nodes_at, text_at
from polymap.workload.c.pointers import changed_names, is_step, is_unary, put
from polymap.workload.c.tree import (
    Assign,
    Binary,
    Block,
    CExpression,
    CStatement,
    Declare,
    For,
    If,
    Literal,
    Name,
    Refused,
    Unary,
    all_statements,
    array_of,
    names_of,
)


class Reader(Protocol):
    """Reads statements. words: every identifier of the text."""

    expressions: Expressions

    @property
    def words(self) -> frozenset[str]: ...

    def statements(self, nodes: Sequence[c_ast.Node]) -> tuple[CStatement, ...]: ...


def stepped(node: c_ast.Node) -> list[c_ast.Node]:
    """Return an assignment or a declaration with the steps of integers in it as statements of their own:
    `x[k++] = y[--j];` is `--j; x[k] = y[j]; k++;`. As it is where C may step never, or what is stepped is named twice.
    """
    if not isinstance(node, c_ast.Assignment | c_ast.Decl) or not any(map(_is_step, every([node]))):
        return [node]
    found = deepcopy(node)
    names = Counter(text_at(each, "name") for each in every([found]) if isinstance(each, c_ast.ID | c_ast.Decl))
    steps: list[c_ast.Node] = []
    for parent in list(every([found])):
        is_lazy = isinstance(parent, c_ast.TernaryOp) or getattr(parent, "op", "") in ("&&", "||")
        if (is_lazy and any(map(_is_step, every([parent])))) or (
            is_unary(parent, "*") and _is_step(node_at(parent, "expr"))
        ):
            return [node]
        for field, part in children(parent):
            if _is_step(part):
                steps.append(part)
                put(parent, field, node_at(part, "expr"))
    if any(names[text_at(node_at(each, "expr"), "name")] > 1 for each in steps):
        return [node]
    first = [each for each in steps if not text_at(each, "op").startswith("p")]
    return [*first, found, *(each for each in steps if each not in first)]


def _is_step(node: c_ast.Node) -> bool:
    """Return whether a node is `i++`, `++i`, `i--` or `--i`."""
    return is_step(node) and isinstance(node_at(node, "expr"), c_ast.ID)


@dataclass(frozen=True, slots=True)
class _Turn:
    """A test that steps its variable: `i-- > 0` asks before its step (is_late), `++i < n` behind it."""

    step: c_ast.Node
    sign: str
    bound: c_ast.Node

    @classmethod
    def of(cls, test: c_ast.Node) -> _Turn | None:
        """Return the parts of a test `i--`, `i-- > b`, `++i < b` and the like, None for others."""
        zero = c_ast.Constant("int", "0")
        whole = c_ast.BinaryOp("!=", test, zero) if _is_step(test) else test
        if not isinstance(whole, c_ast.BinaryOp) or not _is_step(node_at(whole, "left")):
            return None
        found = cls(node_at(whole, "left"), text_at(whole, "op"), node_at(whole, "right"))
        if found.size < 0 and found.sign == "!=" and getattr(found.bound, "value", "") == "0":
            found = replace(found, sign=">")  # below zero it counts on until it overflows
        signs = ("<", "<=") if found.size > 0 else (">", ">=")
        return found if found.sign in signs and found.name not in _names([found.bound]) else None

    @property
    def name(self) -> str:
        return text_at(node_at(self.step, "expr"), "name")

    @property
    def size(self) -> int:
        return 1 if "+" in text_at(self.step, "op") else -1

    @property
    def is_late(self) -> bool:
        return text_at(self.step, "op").startswith("p")

    def plus(self, size: int) -> c_ast.Node:
        """Return the variable plus -1, 0 or 1."""
        counter, one = node_at(self.step, "expr"), c_ast.Constant("int", "1")
        return c_ast.BinaryOp("+" if size > 0 else "-", counter, one, self.step.coord) if size else counter

    def asked(self, *, is_stepped: bool) -> c_ast.Node:
        """Return the test without its step, of the variable's value before or behind it."""
        size = (-self.size if self.is_late else 0) if is_stepped else 0 if self.is_late else self.size
        if is_stepped and size and self.sign in "<>":  # i + 1 > b is i >= b
            return c_ast.BinaryOp(f"{self.sign}=", self.plus(0), self.bound, self.step.coord)
        return c_ast.BinaryOp(self.sign, self.plus(size), self.bound, self.step.coord)

    def is_changed(self, body: Sequence[c_ast.Node]) -> bool:
        """Return whether some statements set or declare the variable."""
        inside = list(every(body))
        declared = (text_at(each, "name") for each in inside if isinstance(each, c_ast.Decl))
        return self.name in {*declared, *changed_names(inside)}

    def moved(self, node: c_ast.Node) -> c_ast.Node:
        """Return a statement where the variable's value behind the step is named by that before it."""
        found = c_ast.Compound([deepcopy(node)])
        for parent in list(every([found])):
            for field, part in children(parent):
                if isinstance(part, c_ast.ID) and text_at(part, "name") == self.name:
                    put(parent, field, self.plus(self.size))
        return nodes_at(found, "block_items")[0]


def while_loop(reader: Reader, node: c_ast.Node, line: int) -> list[CStatement]:
    """Return a loop that counts in its body: what runs before its test is written twice."""
    before, test = _listed(nodes_at(node, "init")), nodes_at(node, "cond")
    body, steps = items_of(node_at(node, "stmt")), _listed(nodes_at(node, "next"))
    turn = None if not test else _Turn.of(test[0])
    after: list[c_ast.Node] = []
    if isinstance(node, c_ast.For) or (turn is not None and not isinstance(node, c_ast.DoWhile)):
        body = without_continue(body)
    if turn is not None:
        own = [each for each in reader.statements(before) if isinstance(each, Declare)]
        is_own = [each.name for each in own] == [turn.name]
        test = [turn.asked(is_stepped=isinstance(node, c_ast.DoWhile))]
        if isinstance(node, c_ast.DoWhile):
            body = [*body, turn.step]
        elif not steps and not turn.is_changed(body):
            body, after = [*map(turn.moved, body), turn.step], [] if is_own else [turn.step]
        else:
            body, after = [turn.step, *body], [] if is_own else [turn.step]
    body += _with_last(steps, set(_names(test)))
    ends = [place for place, each in enumerate(body) if _is_exit(each)]
    breaks = sum(isinstance(each, c_ast.Break | c_ast.Continue) for each in _every(body))
    if breaks != len(ends) or len(ends) > (0 if test and not _is_true(test[0]) else 1):
        what = "a loop that is left, or goes on, from inside its body cannot be read"
        raise Refused("PM261", line, what, "Write what is jumped over in an if, and when it ends into its condition.")
    if isinstance(node, c_ast.DoWhile):
        before = [*before, *body]
    if ends:
        first, rest = body[: ends[0]], body[ends[0] + 1 :]
        test, body = [c_ast.UnaryOp("!", node_at(body[ends[0]], "cond"), node.coord)], [*rest, *first]
        before = [*before, *first]
    if not test or _is_true(test[0]):
        raise Refused("PM263", line, "the loop is unbounded: it has no condition", "Write for (i = 0; i < N; i++).")
    kind = "a do loop" if isinstance(node, c_ast.DoWhile) else "a while loop"
    counted = _counted(reader, kind, _plain_test(reader.expressions.read(test[0])), body, line)
    starts = list(reader.statements(before))
    loop = _started(counted, starts)
    return [Block((*starts, loop, *reader.statements(after)))]


def _started(loop: For, before: list[CStatement]) -> For:
    """Return the loop from the value that its head declares its variable with, which is removed from the statements
    before it; as it is where another of these names the variable."""
    for each in before:
        if isinstance(each, Declare) and each.name == loop.variable and each.value is not None:
            others = [other for other in all_statements(before) if other is not each]
            changed = {array_of(other.target) for other in others if isinstance(other, Assign)}
            wholes = [(other.target, other.value) if isinstance(other, Assign) else (other.value,)
                      for other in others if isinstance(other, Assign | Declare)]  # fmt: skip
            read = {name for whole in wholes for part in whole if part is not None for name in names_of(part)}
            if len(wholes) == len(others) and loop.variable not in read and changed.isdisjoint(names_of(each.value)):
                before.remove(each)
                return replace(loop, start=each.value, element_type=each.element_type)
    return loop


def _counted(reader: Reader, kind: str, test: CExpression, nodes: Sequence[c_ast.Node], line: int) -> For:
    """Return a `while` loop as one that counts: in the variable that its last statement changes, or in a new one."""
    body = reader.statements(nodes)
    every = [each for each in all_statements(body) if isinstance(each, Assign) and isinstance(each.target, Name)]
    moved = [array_of(each.target) for each in every if array_of(each.target) in names_of(test)]
    last = body[-1] if body else None
    if (
        isinstance(last, Assign)
        and isinstance(last.target, Name)
        and moved.count(array_of(last.target)) == 1
        and last.operator in ("+=", "-=")
    ):
        step = last.value if last.operator == "+=" else negated(last.value, line)
        return For(last.target.name, last.target, until_zero(test, last.target.name), step, None, body[:-1], line)
    if not moved:
        raise Refused("PM261", line, f"{kind} cannot be read", "Write for (i = 0; i < N; i++).")
    name = f"turn_{line}"
    while name in reader.words:
        name += "_"
    return For(name, Literal("0", 0, line), test, Literal("1", 1, line), "int32", body, line)


def switch(reader: Reader, node: c_ast.Node, line: int) -> list[CStatement]:
    """Return a switch as a chain of conditions; every case ends with a break."""
    asked = reader.expressions.read(node_at(node, "cond"))
    chain: tuple[CStatement, ...] = ()
    labels: list[c_ast.Node] = []
    cases: list[tuple[list[c_ast.Node], list[c_ast.Node]]] = []
    items = items_of(node_at(node, "stmt"))
    for each in items:
        labels.append(each)
        inside = nodes_at(each, "stmts") if isinstance(each, c_ast.Case | c_ast.Default) else []
        if not inside and each is not items[-1] and isinstance(each, c_ast.Case | c_ast.Default):
            continue
        is_last = each is items[-1]
        ends = bool(inside) and isinstance(inside[-1], c_ast.Break)
        inner = inside[:-1] if ends else inside
        if not (ends or is_last) or any(isinstance(part, c_ast.Break | c_ast.Continue) for part in _every(inner)):
            raise Refused("PM261", line, "a case of a switch goes on into the next one", "End each case with break.")
        cases.append((labels, inner))
        labels = []
    defaults = [inner for own, inner in cases if any(isinstance(each, c_ast.Default) for each in own)]
    chain = reader.statements(defaults[0]) if defaults else ()
    for own, inner in reversed(cases):
        if any(isinstance(each, c_ast.Default) for each in own):
            continue
        tests = [Binary("==", asked, reader.expressions.read(node_at(each, "expr")), line) for each in own]
        test: CExpression = tests[0]
        for other in tests[1:]:
            test = Binary("||", test, other, line)
        chain = (If(test, reader.statements(inner), chain, line),)
    return list(chain)


def is_plain(node: c_ast.Node) -> bool:
    """Return whether a `for` sets, asks and changes one variable."""
    init, test, step = (nodes_at(node, field) for field in ("init", "cond", "next"))
    is_whole = bool(init and test and step) and len(_listed(init)) == len(_listed(step)) == 1
    return is_whole and _Turn.of(test[0]) is None


def is_once(node: c_ast.Node) -> bool:
    """Return whether a `do` runs its body once: `do { ... } while (0)`, which nothing leaves."""
    test = node_at(node, "cond")
    jumps = (isinstance(each, c_ast.Break | c_ast.Continue) for each in _every([node_at(node, "stmt")]))
    return isinstance(test, c_ast.Constant) and text_at(test, "value") == "0" and not any(jumps)


def until_zero(test: CExpression, variable: str) -> CExpression:
    """Return the test of a loop, `i` as `i != 0`."""
    if isinstance(test, Name) and test.name == variable:
        return Binary("!=", test, Literal("0", 0, test.line), test.line)
    return test


def without_continue(items: Sequence[c_ast.Node]) -> list[c_ast.Node]:
    """Return the statements of a loop's body where what `if (...) continue;` skips stands in its other branch; others
    stay as they are."""
    for place, each in enumerate(items):
        if not isinstance(each, c_ast.If):
            continue
        sides = [
            items_of(side) for name in ("iftrue", "iffalse") for side in nodes_at(each, name) or [c_ast.Compound([])]
        ]
        jumps = [bool(side) and isinstance(side[-1], c_ast.Continue) for side in sides]
        if any(jumps):
            rest = [c_ast.Compound(without_continue(items[place + 1 :]), each.coord)]
            one, other = (
                c_ast.Compound(side[:-1] if jump else [*side, *rest], each.coord)
                for side, jump in zip(sides, jumps, strict=True)
            )
            return [*items[:place], c_ast.If(node_at(each, "cond"), one, other, each.coord)]
    return list(items)


def _listed(nodes: Sequence[c_ast.Node]) -> list[c_ast.Node]:
    """Return what commas part."""
    fields: dict[type[c_ast.Node], str] = {c_ast.ExprList: "exprs", c_ast.DeclList: "decls"}
    return [part for each in nodes for part in (nodes_at(each, fields[type(each)]) if type(each) in fields else [each])]


def _names(nodes: Sequence[c_ast.Node]) -> Iterator[str]:
    return (text_at(each, "name") for each in _every(nodes) if isinstance(each, c_ast.ID))


def _with_last(steps: Sequence[c_ast.Node], asked: set[str]) -> list[c_ast.Node]:
    """Return the steps of a loop, that of a variable in its test last where no other step reads it."""
    targets = [next(_names([each]), "") for each in steps]
    for place, name in enumerate(targets):
        others = [each for at, each in enumerate(steps) if at != place]
        if name in asked and name not in _names(others):
            return [*others, steps[place]]
    return list(steps)


def items_of(node: c_ast.Node) -> list[c_ast.Node]:
    """Return the statements of a block, or the one statement."""
    return nodes_at(node, "block_items") if isinstance(node, c_ast.Compound) else [node]


def _every(nodes: Sequence[c_ast.Node]) -> Iterator[c_ast.Node]:
    """Yield the nodes inside some, those of inner loops and switches left out."""
    for node in nodes:
        yield node
        if not isinstance(node, c_ast.For | c_ast.While | c_ast.DoWhile | c_ast.Switch):
            yield from _every([part for _, part in children(node)])


def _is_exit(node: c_ast.Node) -> bool:
    """Return whether a statement is `if (...) break;`."""
    if not isinstance(node, c_ast.If) or nodes_at(node, "iffalse"):
        return False
    inside = items_of(node_at(node, "iftrue"))
    return len(inside) == 1 and isinstance(inside[0], c_ast.Break)


def _is_true(node: c_ast.Node) -> bool:
    return isinstance(node, c_ast.Constant) and text_at(node, "value") not in ("0", "0u", "0l")


def _plain_test(test: CExpression) -> CExpression:
    """Return a test without the negation of a comparison."""
    opposite = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
    match test:
        case Unary("!", Binary(operator) as inner) if operator in opposite:
            return Binary(opposite[operator], inner.left, inner.right, inner.line)
        case _:
            return test
