"""Expressions of pycparser's tree as typed data, and the types that declarations name."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import cast

from pycparser import c_ast, c_generator

from polymap.inputs import shown
from polymap.workload.c.conditions import character
from polymap.workload.c.tree import Binary, Call, Cast, CExpression, Choice, Item, Literal, Name, Refused, Unary
from polymap.workload.c.types import bits_of, decimal, literal_type
from polymap.workload.tuning import TUNING

_TYPES = {
    "char": "int8", "signed char": "int8", "unsigned char": "uint8",
    "short": "int16", "unsigned short": "uint16", "int": "int32", "unsigned": "uint32",
    "long": "int64", "unsigned long": "uint64", "long long": "int64", "unsigned long long": "uint64",
    "float": "float32", "double": "float64",
}  # fmt: skip
_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)([uUlL]*)")
_FLOAT = re.compile(r"([0-9]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?)([fF]?)")
_HEXADECIMAL = re.compile(r"0[xX]([0-9a-fA-F]*)\.?([0-9a-fA-F]*)[pP]([+-]?[0-9]{1,4})([fF]?)")
_TO_LONG = re.compile(r"ll?(rint|round)(f?)")  # a `long` of what the function without l is
_KINDS: dict[type[c_ast.Node], str] = {c_ast.Struct: "struct", c_ast.Union: "union", c_ast.Enum: "enum"}
_NO_VALUES = {  # what it is called, and what would work
    "&": ("an address", "Write A[i][j]."), "*": ("a pointer", "Write A[i] for *(A + i), and p[0] for *p."),
    "sizeof": ("sizeof", "Write the number."),
    "Assignment": ("an assignment inside an expression", "Write separate assignments."),
    "ExprList": ("a comma", "Write separate assignments."),
    "StructRef": ("a member of a structure", "Give it an array of its own."),
}  # fmt: skip


def node_at(node: c_ast.Node, field: str) -> c_ast.Node:
    """Return a required part of a node."""
    part: object = getattr(node, field)
    assert isinstance(part, c_ast.Node)
    return part


def nodes_at(node: c_ast.Node, field: str) -> list[c_ast.Node]:
    """Return a part of a node as a list: nothing, one node or several."""
    part: object = getattr(node, field, None)
    if part is None:
        return []
    return [part] if isinstance(part, c_ast.Node) else list(cast("Sequence[c_ast.Node]", part))


def text_at(node: c_ast.Node, field: str) -> str:
    """Return a part of a node that is text ("" if there is none)."""
    part: object = getattr(node, field)
    return part if isinstance(part, str) else ""


def children(node: c_ast.Node) -> list[tuple[str, c_ast.Node]]:
    """Return the parts of a node with their names."""
    return list(cast("Sequence[tuple[str, c_ast.Node]]", node.children()))


def every(nodes: Iterable[c_ast.Node]) -> Iterator[c_ast.Node]:
    """Yield the nodes and all inside them, in textual order."""
    for node in nodes:
        yield node
        yield from every(part for _, part in children(node))


def plain_type(kind: c_ast.Node) -> c_ast.Node:
    """Return the type of the elements of arrays and pointers."""
    while not isinstance(kind, c_ast.TypeDecl) and nodes_at(kind, "type"):
        kind = node_at(kind, "type")
    return kind


def _whole(number: int, line: int) -> CExpression:
    """Return an `int` as C writes it."""
    plain = Literal(str(abs(number)), abs(number), line)
    return plain if number >= 0 else Unary("-", plain, line)


class Expressions:
    """Reads expressions; knows the types that the program defines."""

    def __init__(self, functions: frozenset[str]) -> None:
        """functions: those that the file defines; their bodies are not read. constants: those of enums."""
        self.functions = functions
        self.constants: dict[str, int] = {}
        self._types: dict[str, str] = dict(_TYPES)
        self._line = 0

    def line(self, node: c_ast.Node) -> int:
        """Return the line of a node (the last known one where pycparser does not tell)."""
        place: object = getattr(getattr(node, "coord", None), "line", None)
        self._line = place if isinstance(place, int) else self._line
        return self._line

    def define_type(self, name: str, kind: c_ast.Node) -> None:
        """Remember a typedef of a plain type; what is declared with another is refused there."""
        self._types.pop(name, None)
        if isinstance(kind, c_ast.TypeDecl):
            with suppress(Refused):
                self._types[name] = self.element_type(kind)

    def element_type(self, kind: c_ast.Node) -> str:
        """Return the element type ("float32") of a plain C type; Refused for any other."""
        self.check_qualifiers(kind)
        inner = node_at(kind, "type") if isinstance(kind, c_ast.TypeDecl) else kind
        words = cast("list[str]", getattr(inner, "names", [_KINDS.get(type(inner), "pointer")]))
        found = self._types.get(_plain_type(words))
        if found is None:
            hint = "Integers of 8 to 64 bits, float and double are."
            raise Refused("PM261", self.line(kind), f"the type '{' '.join(words)}' is not read", hint)
        return found

    def check_qualifiers(self, node: c_ast.Node) -> None:
        """Refuse `volatile` and the like: other programs might change what they qualify."""
        for word in cast("list[str]", getattr(node, "quals", None) or []):
            if word not in ("const", "restrict"):
                hint = "const and restrict are. Values change only where the program says so."
                raise Refused("PM261", self.line(node), f"the qualifier '{word}' is not read", hint)

    def read_all(self, nodes: Iterable[c_ast.Node], depth: int = 0) -> list[CExpression]:
        """Return the expressions; Refused with what is wrong in any of them."""
        found: list[CExpression] = []
        refused: list[Refused] = []
        for node in nodes:
            try:
                found.append(self.read(node, depth))
            except Refused as one:
                refused.append(one)
        if refused:
            first, *others = refused
            raise Refused(first.code, first.line, first.what, first.hint, (*first.more, *others))
        return found

    def read(self, node: c_ast.Node, depth: int = 0) -> CExpression:
        """Return the expression; Refused where it holds what is not read."""
        line = self.line(node)
        if depth > TUNING.most_expression_depth:
            raise Refused("PM151", line, "an expression is too long", "Split it into several assignments.")
        match node:
            case c_ast.Constant():
                return _literal(text_at(node, "type"), text_at(node, "value"), line)
            case c_ast.ID():
                name = text_at(node, "name")
                return _whole(self.constants[name], line) if name in self.constants else Name(name, line)
            case c_ast.ArrayRef():
                return self._item(node, depth)
            case c_ast.UnaryOp():
                return self._unary(node, depth)
            case c_ast.BinaryOp():
                left, right = self.read_all((node_at(node, side) for side in ("left", "right")), depth + 1)
                return Binary(text_at(node, "op"), left, right, line)
            case c_ast.TernaryOp():
                fields = ("cond", "iftrue", "iffalse")
                condition, then, other = self.read_all((node_at(node, field) for field in fields), depth + 1)
                return Choice(condition, then, other, line)
            case c_ast.FuncCall():
                return self._call(node, depth)
            case c_ast.Cast():
                kind = node_at(node_at(node, "to_type"), "type")
                return Cast(self.element_type(kind), self.read(node_at(node, "expr"), depth + 1), line)
            case _:
                kind = type(node).__name__
                what, hint = _NO_VALUES.get(kind, (f"an expression of kind {kind}", "Write separate assignments."))
                raise Refused("PM261", line, f"{what} cannot be read{as_text(node)}", hint)

    def _item(self, node: c_ast.Node, depth: int) -> Item:
        line = self.line(node)
        index: list[c_ast.Node] = []
        base = node
        while isinstance(base, c_ast.ArrayRef):
            index.append(node_at(base, "subscript"))
            base = node_at(base, "name")
        if not isinstance(base, c_ast.ID):
            raise Refused("PM261", line, "a subscript of something that is no array's name", "Write it as A[i][j].")
        return Item(text_at(base, "name"), tuple(self.read_all(reversed(index), depth + 1)), line)

    def _unary(self, node: c_ast.Node, depth: int) -> CExpression:
        operator, line = text_at(node, "op"), self.line(node)
        if operator == "sizeof" and isinstance(node_at(node, "expr"), c_ast.Typename):
            size = bits_of(self.element_type(node_at(node_at(node, "expr"), "type"))) // 8
            return Literal(decimal(size, "uint64"), size, line, "uint64")
        if operator not in ("-", "+", "!", "~"):
            step = f"'{operator.strip('p')}' inside an expression", "Write separate assignments."
            what, hint = _NO_VALUES.get(operator, step)
            raise Refused("PM261", line, f"{what} cannot be read{as_text(node)}", hint)
        return Unary(operator, self.read(node_at(node, "expr"), depth + 1), line)

    def _call(self, node: c_ast.Node, depth: int) -> Call | Cast:
        function = node_at(node, "name")
        if not isinstance(function, c_ast.ID):
            raise Refused("PM261", self.line(node), "a call of something that is no function's name")
        name = text_at(function, "name")
        if name in self.functions:
            what = f"the file has a function '{name}' of its own, and its body is not read{as_text(node)}"
            raise Refused(
                "PM266", self.line(node), what, "Write it inline, or as a macro (#define): macros are expanded."
            )
        listed = nodes_at(node, "args")
        arguments = self.read_all(nodes_at(listed[0], "exprs") if listed else [], depth + 1)
        whole = _TO_LONG.fullmatch(name)
        if whole is None or len(arguments) != 1:
            return Call(name, tuple(arguments), self.line(node))
        return Cast("int64", Call(whole[1] + whole[2], tuple(arguments), self.line(node)), self.line(node))


def as_text(node: c_ast.Node) -> str:
    """Return ": '...'" with the node as C text, "" where it is too deep to be printed."""
    level, depth = [node], 0
    while level:
        depth += 1
        if depth > TUNING.most_expression_depth:
            return ""
        level = [part for each in level for _, part in children(each)]
    return f": {shown(str(c_generator.CGenerator().visit(node)))}"


def _plain_type(words: Sequence[str]) -> str:
    """Return the type's words in one order: `int long unsigned` is `unsigned long`."""
    rest = [word for word in words if word not in ("signed", "unsigned")]
    if len(rest) > 1 and "int" in rest:
        rest.remove("int")
    if "unsigned" in words:
        return " ".join(["unsigned", *(word for word in rest if word != "int")])
    return "signed char" if "signed" in words and rest == ["char"] else " ".join(rest) or "int"


def _literal(kind: str, text: str, line: int) -> Literal:
    whole = _INTEGER.fullmatch(text)
    if whole and "char" not in kind:
        return _integer(text, whole.group(1), whole.group(2), line)
    if kind == "char" and (value := character(text)) is not None:
        return Literal(text, value, line)
    if (binary := _HEXADECIMAL.fullmatch(text)) and "char" not in kind:
        return _binary_fraction(text, binary, line)
    point = _FLOAT.fullmatch(text)
    if point is None or "char" in kind or kind == "string":
        what = f"the character {text}" if "char" in kind else shown(text)
        raise Refused("PM261", line, f"{what} cannot be read", "Write decimal numbers.")
    if not math.isfinite(float(point.group(1))):
        raise Refused("PM261", line, f"the number {shown(text)} is larger than any double")
    return Literal(text, None, line, "float32" if point.group(2) else "float64")


def _binary_fraction(text: str, parts: re.Match[str], line: int) -> Literal:
    """Return a fraction that is written in base 16 (C99 6.4.4.2) as the same one in base 10."""
    whole, part, power, suffix = (parts[number] for number in range(1, 5))
    exact = Fraction(int(f"0{whole}{part}", 16)) * Fraction(2) ** (int(power) - 4 * len(part))
    with suppress(OverflowError):
        value = float(exact)
        found: float = struct.unpack("f", struct.pack("f", value))[0] if suffix else value
        if found == exact:
            return Literal(f"{value!r}{suffix}", None, line, "float32" if suffix else "float64")
    kind = "float" if suffix else "double"
    raise Refused("PM261", line, f"no {kind} is the number {shown(text)}", "Write fewer digits, or a decimal number.")


def _integer(text: str, digits: str, suffix: str, line: int) -> Literal:
    base = 8 if len(digits) > 1 and digits.isdigit() and digits.startswith("0") else 0
    if len(digits) > 100 or (base == 8 and not set(digits) <= set("01234567")):
        raise Refused("PM261", line, f"the number {shown(text)} cannot be read")
    number = int(digits, base)
    element_type = literal_type(digits, suffix, number)
    if element_type is None:
        hint = "Give a larger bound as a size (N=...) of loops whose variables are not declared."
        raise Refused("PM261", line, f"no integer type of C holds the number {shown(text)}", hint)
    return Literal(decimal(number, element_type), number, line, element_type)


def negated(step: CExpression, line: int) -> CExpression:
    """Return the step of a falling loop; it may be written as unsigned."""
    is_signed = isinstance(step, Literal) and not step.element_type.startswith("u")
    return Unary("-", step if is_signed else Cast("int64", step, line, written=False), line)
