"""Prints a C program again from pycparser's tree, as the reference that generated code is compared with.

It shares nothing with the reading of loops, types and values except the declared names. Only constructs that the front
end accepts are copied, names get a prefix, and nothing else of the user's text reaches a compiler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from pycparser import c_ast, c_generator

from polymap.ir import Original, Tensor, Workload, written_tensors
from polymap.workload.c.affine import known_name
from polymap.workload.c.assign import Variable
from polymap.workload.c.expressions import children, node_at, nodes_at, text_at
from polymap.workload.c.parse import Syntax
from polymap.workload.c.tree import EXTREMES, MAXIMA, MINIMA
from polymap.workload.c.types import SPELLING
from polymap.workload.dependence_analysis import leaves_unwritten

_HEAD = """\
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
typedef char long_has_64_bits[sizeof(long) == 8 && sizeof(int) == 4 ? 1 : -1];
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
#define floord(n, d) ((n) / (d) - ((n) % (d) < 0))
#define ceild(n, d) ((n) / (d) + ((n) % (d) > 0))
"""
_TYPE_NAMES = {"DATA_TYPE": "double", "ssize_t": "long"}
# Kinds of nodes that are copied with their parts, and the fields that hold text or numbers.
_COPIED: dict[type[c_ast.Node], tuple[str, ...]] = {
    c_ast.Compound: (), c_ast.For: (), c_ast.If: (), c_ast.EmptyStatement: (), c_ast.DeclList: (), c_ast.Cast: (),
    c_ast.Assignment: ("op",), c_ast.UnaryOp: ("op",), c_ast.BinaryOp: ("op",), c_ast.TernaryOp: (),
    c_ast.While: (), c_ast.DoWhile: (), c_ast.Break: (), c_ast.Continue: (), c_ast.Switch: (), c_ast.Case: (),
    c_ast.Default: (), c_ast.ExprList: (), c_ast.InitList: (), c_ast.Constant: ("type", "value"), c_ast.ArrayRef: (),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Known:
    """The declared names of a program.

    variables: by tensor. constants: integers of the file and sizes, with their types. counters: loop variables that no
    loop declares, with their types.
    """

    variables: Mapping[str, Variable]
    constants: Mapping[str, int]
    constant_types: Mapping[str, str | None]
    counters: Mapping[str, str | None]


def original_of(workload: Workload, syntax: Syntax, known: Known) -> Original:
    """Return the text of a program that was read without mistakes."""
    printer = _Printer(known)
    for node in syntax.outside:
        printer.note_types(node)
    live = [tensor for tensor in workload.tensors if not tensor.temporary]
    shown = {known.variables[tensor.name].name: tensor for tensor in live}
    printer.shapes = {name: tensor.origin for name, tensor in shown.items()}
    spelled = printer.declared_types([*syntax.outside, *syntax.body])
    lines = [_HEAD]
    for name, value in known.constants.items():
        if name not in shown:
            kind = known.constant_types.get(name) or "int64"
            lines.append(f"static const {SPELLING[kind]} {_own(name)} = {_number(value)};")
    for name, kind in known.counters.items():
        lines.append(f"static {SPELLING[kind or _counter_type(workload)]} {_own(name)};")
    for name, tensor in shown.items():
        kind = spelled.get(name) or SPELLING[tensor.element_type or "int32"]
        lines.append(f"static {kind} {_own(name)}{_shape(tensor)};")
    for each in known.variables.values():  # what only statements that never run mention
        if not each.temporary and each.name not in {**shown, **known.constants, **known.counters}:
            kind = spelled.get(each.name) or SPELLING[each.element_type]
            lines.append(f"static {kind} {_own(each.name)}{''.join(f'[{size or 1}]' for size in each.shape)};")
    lines += ["static void original(void)", "{"]
    lines += [f"    {each}" for node in syntax.outside for each in printer.set_at_start(node, shown)]
    for node in syntax.body:
        lines += printer.statement(node, top=frozenset(shown))
    places = tuple((tensor.name, f"&{_own(name)}{'[0]' * len(tensor.shape)}") for name, tensor in shown.items())
    written = written_tensors(workload)
    kept = frozenset(each.name for each in live if each.name in written and leaves_unwritten(workload, each))
    return Original("\n".join([*lines, "}", ""]), places, kept)


def _own(name: str) -> str:
    """Return a name that is neither a keyword of C nor a name of its library."""
    return f"own_{name}"


def _number(value: int) -> str:
    return str(value) if abs(value) < 2**63 else "0"  # a bound without a type: such a program is too large to run


def _counter_type(workload: Workload) -> str:
    """Return int, or long if some loop leaves the range of int."""
    ends = [abs(each.origin) + abs(each.step) * each.extent for each in workload.dims]
    return "int32" if max(ends, default=0) < 2**31 else "int64"


def _shape(tensor: Tensor) -> str:
    return "".join(f"[{size}]" for size in tensor.shape)


@dataclass(slots=True)
class _Printer:
    """Copies trees node by node. shapes: variable -> the least index of each axis, for arrays of the file."""

    known: Known
    types: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict[str, "tuple[int, ...]"])
    hidden: tuple[str, ...] = ()

    def note_types(self, node: c_ast.Node) -> None:
        """Remember a typedef."""
        if isinstance(node, c_ast.Typedef):
            self.types[text_at(node, "name")] = self._words(node_at(node, "type"))

    def _words(self, kind: c_ast.Node) -> list[str]:
        """Return the words of a plain type, typedefs of the program replaced."""
        while isinstance(kind, c_ast.TypeDecl | c_ast.ArrayDecl | c_ast.PtrDecl):
            kind = node_at(kind, "type")
        found: list[str] = []
        for word in cast("Sequence[str]", getattr(kind, "names", [])):
            found += self.types.get(word, [_TYPE_NAMES.get(word, word)])
        return found

    def declared_types(self, nodes: Sequence[c_ast.Node]) -> dict[str, str]:
        """Return variable -> type as written, of declarations at the top level; the last one counts."""
        found: dict[str, str] = {}
        for node in nodes:
            if isinstance(node, c_ast.DeclList):
                found |= self.declared_types(nodes_at(node, "decls"))
            elif isinstance(node, c_ast.Decl):
                found.setdefault(text_at(node, "name"), " ".join(self._words(node_at(node, "type"))))
        return found

    def set_at_start(self, node: c_ast.Node, shown: Mapping[str, Tensor]) -> list[str]:
        """Return assignments of the initial values of data declared outside."""
        if isinstance(node, c_ast.DeclList):
            return [each for part in nodes_at(node, "decls") for each in self.set_at_start(part, shown)]
        values = nodes_at(node, "init") if isinstance(node, c_ast.Decl) else []
        name = text_at(node, "name") if values else ""
        return [f"{_own(name)} = {self._text(values[0])};"] if name in shown else []

    def statement(self, node: c_ast.Node, top: frozenset[str]) -> list[str]:
        """Return the lines of a statement of the body; declarations at the top of the body may belong to the file."""
        if isinstance(node, c_ast.DeclList):
            return [line for part in nodes_at(node, "decls") for line in self.statement(part, top)]
        if isinstance(node, c_ast.Typedef):
            self.note_types(node)
            return []
        if isinstance(node, c_ast.Decl):
            name, values = text_at(node, "name"), nodes_at(node, "init")
            if name in top and not self._is_local(node):
                return [f"{_own(name)} = {self._text(values[0])};"] if values else []
            self.hidden = (*self.hidden, name)
        text = self._text(node)
        return [text if text.endswith(("}", ";", "\n")) else f"{text};"] if text else []

    def _is_local(self, node: c_ast.Node) -> bool:
        line = getattr(getattr(node, "coord", None), "line", None)
        name = text_at(node, "name")
        return any(each.temporary and each.name == name and each.line == line for each in self.known.variables.values())

    def _text(self, node: c_ast.Node) -> str:
        copied = self._copy(node)
        return "" if copied is None else str(c_generator.CGenerator().visit(copied))

    def _copy(self, node: c_ast.Node) -> c_ast.Node | None:
        """Return the node with its names prefixed; None for a pragma or a typedef."""
        match node:
            case c_ast.Pragma():
                return None
            case c_ast.Typedef():
                self.note_types(node)
                return None
            case c_ast.Decl():
                is_data = isinstance(node_at(node, "type"), c_ast.TypeDecl | c_ast.ArrayDecl | c_ast.PtrDecl)
                return self._declaration(node) if is_data else None
            case c_ast.ID():
                return self._name(node)
            case c_ast.FuncCall():
                return self._call(node)
            case c_ast.Typename():
                return c_ast.Typename(None, [], None, self._plain(node_at(node, "type"), ""))
            case c_ast.ArrayRef():
                return self._item(node)
            case _:
                return self._same(node)

    def _same(self, node: c_ast.Node) -> c_ast.Node:
        fields = _COPIED[type(node)]  # nothing else is ever copied
        parts: dict[str, object] = {name: text_at(node, name) for name in fields}
        single = dict(children(node))
        for name in type(node).__init__.__code__.co_varnames[1 : type(node).__init__.__code__.co_argcount]:
            if name in parts or name == "coord":
                continue
            if name in single:
                parts[name] = self._copy(single[name])
            else:
                listed = [self._copy(each) for each in nodes_at(node, name)]
                parts[name] = [each for each in listed if each is not None] or None
        return type(node)(**parts)

    def _name(self, node: c_ast.Node) -> c_ast.Node:
        name = text_at(node, "name")
        names = {each.name for each in self.known.variables.values()}
        if name not in names:
            name = known_name(name, self.known.constants) or name
        return c_ast.ID(_own(name))

    def _item(self, node: c_ast.Node) -> c_ast.Node:
        index: list[c_ast.Node] = []
        while isinstance(node, c_ast.ArrayRef):
            index.insert(0, node_at(node, "subscript"))
            node = node_at(node, "name")
        name = text_at(node, "name")
        origin = (0,) * len(index) if name in self.hidden else self.shapes.get(name, (0,) * len(index))
        item: c_ast.Node = c_ast.ID(_own(name))
        for each, first in zip(index, origin, strict=True):
            copied = self._copy(each)
            assert copied is not None
            item = c_ast.ArrayRef(item, copied if not first else _minus(copied, first))
        return item

    def _call(self, node: c_ast.Node) -> c_ast.Node:
        name = text_at(node_at(node, "name"), "name")
        if name in (*MAXIMA, *MINIMA) and name not in EXTREMES:
            name = "LARGER" if name in MAXIMA else "SMALLER"
        arguments = nodes_at(node, "args")
        return c_ast.FuncCall(c_ast.ID(name), None if not arguments else self._copy(arguments[0]))

    def _declaration(self, node: c_ast.Node) -> c_ast.Node:
        """Return a variable of the function; arrays are static, so that the size of the stack is no limit."""
        name, values = text_at(node, "name"), nodes_at(node, "init")
        line = getattr(getattr(node, "coord", None), "line", None)
        shapes = [each.shape for each in self.known.variables.values() if (each.name, each.line) == (name, line)]
        kind = self._plain(node_at(node, "type"), _own(name))
        for size in reversed(shapes[0] if shapes else ()):
            kind = c_ast.ArrayDecl(kind, c_ast.Constant("int", str(size)), [])
        is_table = bool(values) and isinstance(values[0], c_ast.InitList)  # is set whenever it is declared
        storage = ["static"] if shapes and shapes[0] and not is_table else []
        value = self._copy(values[0]) if values else None
        return c_ast.Decl(_own(name), [], [], storage, [], kind, value, None)

    def _plain(self, kind: c_ast.Node, name: str) -> c_ast.Node:
        return c_ast.TypeDecl(name or None, [], None, c_ast.IdentifierType(self._words(kind)))


def _minus(index: c_ast.Node, first: int) -> c_ast.Node:
    constant = c_ast.Constant("int", str(abs(first)))
    return c_ast.BinaryOp("-" if first > 0 else "+", index, constant)
