"""Two independent ways to run a C loop nest: the text by a small interpreter, and the workload read from it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from pycparser import c_ast, c_parser

from polymap.ir.loopnest import (
    Access,
    Apply,
    Convert,
    Expression,
    Index,
    Number,
    Operator,
    Read,
    Statement,
    Workload,
)
from tests.nests import instances

Store = dict[tuple[str, tuple[int, ...]], float]


def first_value(tensor: str, element: tuple[int, ...]) -> float:
    """Return what an element holds before the program starts."""
    seed = sum(map(ord, tensor))
    for index in element:
        seed = seed * 31 + index + 7
    return seed * 2654435761 % 97 + 1


def kept(value: float, kind: str) -> float:
    """Return the value in an element type; fractions are not rounded to float, integers are small here."""
    return float(value) if kind.startswith("float") else math.trunc(value)


def cut(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def number(text: str) -> float:
    plain = text.rstrip("fFlLuU")
    return int(plain) if re.fullmatch("[0-9]+", plain) else float(plain)


def apply(operation: str, *args: float) -> float:
    a, b = args[0], args[-1]
    match operation:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return cut(a, b) if isinstance(a, int) and isinstance(b, int) else a / b
        case "neg":
            return -a
        case "max" | "fmax" | "fmaxf":
            return max(a, b)
        case "min" | "fmin" | "fminf":
            return min(a, b)
        case "fabs":
            return abs(a)
        case "<":
            return a < b
        case "<=":
            return a <= b
        case "==":
            return a == b
        case "!=":
            return a != b
        case "%":
            return a - cut(int(a), int(b)) * b
        case "&&":
            return bool(a) and bool(b)
        case "||":
            return bool(a) or bool(b)
        case "!":
            return not a
        case _:
            return getattr(math, operation)(*args)


class CProgram:
    """Runs the C text, statement by statement. kinds: element types of variables, int32 where none is told."""

    def __init__(self, source: str, sizes: Mapping[str, int], kinds: Mapping[str, str]) -> None:
        self.kinds = kinds
        text = re.sub(r"#define (MIN|MAX).*|#pragma.*|#include.*", "", source)
        for name, value in re.findall(r"#define (\w+) (\w+)", text):
            text = re.sub(rf"\b{name}\b", value, re.sub(rf"#define {name} .*", "", text))
        if "void " not in text:
            head, body = text.split("for", 1)
            text = head + "void f(void) { for" + body + "}"
        self.tree = c_parser.CParser().parse(text)
        self.names: dict[str, float] = dict(sizes)
        self.store: Store = {}
        self.executed = 0

    def run(self) -> None:
        for node in self.tree.ext:
            if isinstance(node, c_ast.FuncDef):
                self.do(node.body)

    def do(self, node: c_ast.Node | None) -> None:
        match node:
            case None | c_ast.Pragma():
                pass
            case c_ast.Compound():
                for each in node.block_items:
                    self.do(each)
            case c_ast.DeclList():
                for each in node.decls:
                    self.do(each)
            case c_ast.Decl():
                if node.init is not None:
                    self.names[node.name] = kept(self.value(node.init), self.kinds.get(node.name, "int32"))
            case c_ast.For():
                self.do(node.init)
                while self.value(node.cond):
                    self.do(node.stmt)
                    self.do(node.next)
            case c_ast.If():
                self.do(node.iftrue if self.value(node.cond) else node.iffalse)
            case c_ast.UnaryOp():
                self.write(node.expr, self.value(node.expr) + (1 if "+" in node.op else -1))
            case c_ast.Assignment():
                value = self.value(node.rvalue)
                if node.op != "=":
                    value = apply(node.op[0], self.value(node.lvalue), value)
                self.write(node.lvalue, value)
            case _:
                raise AssertionError(node)

    def place(self, node: c_ast.Node) -> tuple[str, tuple[int, ...]]:
        index: list[int] = []
        while isinstance(node, c_ast.ArrayRef):
            index.insert(0, int(self.value(node.subscript)))
            node = node.name
        assert isinstance(node, c_ast.ID)
        return node.name, tuple(index)

    def write(self, node: c_ast.Node, value: float) -> None:
        name, index = self.place(node)
        value = kept(value, self.kinds.get(name, "int32"))
        if index or name not in self.names:
            self.executed += bool(index)
            self.store[name, index] = value
        if not index:
            self.names[name] = value

    def value(self, node: c_ast.Node) -> float:
        match node:
            case c_ast.Constant():
                return number(node.value)
            case c_ast.ID() | c_ast.ArrayRef():
                place = self.place(node)
                if not place[1] and place[0] in self.names:
                    return self.names[place[0]]
                return self.store.setdefault(place, kept(first_value(*place), self.kinds.get(place[0], "int32")))
            case c_ast.UnaryOp():
                operand = self.value(node.expr)
                return not operand if node.op == "!" else -operand
            case c_ast.TernaryOp():
                return self.value(node.iftrue if self.value(node.cond) else node.iffalse)
            case c_ast.FuncCall():
                names = {"MIN": "min", "MAX": "max"}
                called = str(node.name.name)
                return apply(names.get(called, called), *map(self.value, node.args.exprs))
            case c_ast.BinaryOp():
                return self.binary(node)
            case _:
                raise AssertionError(node)

    def binary(self, node: c_ast.BinaryOp) -> float:
        left = self.value(node.left)
        if node.op == "&&":
            return bool(left) and bool(self.value(node.right))
        if node.op == "||":
            return bool(left) or bool(self.value(node.right))
        right = self.value(node.right)
        if node.op == "%":
            return left - cut(int(left), int(right)) * right
        compare = {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}
        compare |= {"==": left == right, "!=": left != right}
        return compare[node.op] if node.op in compare else apply(node.op, left, right)


def run_workload(work: Workload) -> Store:
    """Return what every element holds after the workload's statements ran in program order."""
    store: Store = {}
    kinds = {tensor.name: tensor.element_type or "int32" for tensor in work.tensors}
    for statement, point in instances(work):
        values = dict(zip(statement.dims, point, strict=True))

        def element(access: Access, values: dict[str, int] = values) -> tuple[str, tuple[int, ...]]:
            place = access.tensor, tuple(index.evaluate(values) for index in access.index)
            store.setdefault(place, kept(first_value(*place), kinds[access.tensor]))
            return place

        result = _value(
            statement.expression, statement, values, {n: element(a) for n, a in enumerate(statement.reads)}, store
        )
        target = element(statement.target)
        operation = {Operator.ADD: "+", Operator.MULTIPLY: "*", Operator.MAX: "max", Operator.MIN: "min"}
        if statement.operator in operation:
            result = apply(operation[statement.operator], store[target], result)
        store[target] = kept(result, kinds[statement.target.tensor])
    return store


def _value(
    expression: Expression,
    statement: Statement,
    values: dict[str, int],
    elements: dict[int, tuple[str, tuple[int, ...]]],
    store: Store,
) -> float:
    match expression:
        case Read(access):
            return store[elements[access]]
        case Number(text):
            return number(text)
        case Index(value):
            return value.evaluate(values)
        case Convert(kind, inner):
            return kept(_value(inner, statement, values, elements, store), kind)
        case Apply("?:", (asked, then, other)):
            chosen = then if _value(asked, statement, values, elements, store) else other
            return _value(chosen, statement, values, elements, store)
        case Apply(operation, arguments):
            return apply(operation, *(_value(each, statement, values, elements, store) for each in arguments))
