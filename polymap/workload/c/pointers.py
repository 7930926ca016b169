"""Pointers that stand for an array, or for one from some element on, replaced by the array in pycparser's tree.

float *row = A[i] + 2; row[j] = 0; *(row + 1) = 0;   ->   A[i][2 + j] = 0; A[i][2 + 1] = 0;
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pycparser import c_ast

from polymap.workload.c.expressions import children, node_at, nodes_at, text_at


@dataclass(frozen=True, slots=True)
class _Origin:
    """The place that a pointer points to: an array, or a row of it, and an element from its first one on."""

    base: c_ast.Node
    offset: c_ast.Node | None

    def plus(self, operator: str, more: c_ast.Node) -> _Origin:
        if self.offset is None and operator == "+":
            return _Origin(self.base, more)
        first = self.offset or c_ast.Constant("int", "0", more.coord)
        return _Origin(self.base, c_ast.BinaryOp(operator, first, more, more.coord))


def without_pointers(nodes: Sequence[c_ast.Node], outside: Sequence[c_ast.Node]) -> frozenset[str]:
    """Replace pointers in statements, in place, and return their names. outside: declarations of other variables.

    A pointer is replaced where it is set once, by its declaration, from what keeps its value, and only subscripted.
    """
    for node in reversed(list(_every(nodes))):
        for field, part in children(node):
            origin = _origin(node_at(part, "expr"), {}) if _is_unary(part, "*") else None
            if origin is not None:
                zero = c_ast.Constant("int", "0", part.coord)
                _put(node, field, c_ast.ArrayRef(origin.base, origin.offset or zero, part.coord))
    every = list(_every(nodes))
    found = _pointers(every, outside)
    for node in every:
        if isinstance(node, c_ast.ArrayRef) and (origin := found.get(_name(node_at(node, "name")))) is not None:
            index = node_at(node, "subscript")
            whole = index if origin.offset is None else c_ast.BinaryOp("+", origin.offset, index, node.coord)
            node.name, node.subscript = origin.base, whole
    for node in every:
        for _, part in children(node):
            if isinstance(part, c_ast.Decl) and text_at(part, "name") in found:
                _remove(node, part)
    return frozenset(found)


def _pointers(every: Sequence[c_ast.Node], outside: Sequence[c_ast.Node]) -> dict[str, _Origin]:
    declared = Counter(text_at(each, "name") for each in (*_every(outside), *every) if isinstance(each, c_ast.Decl))
    steps = [
        each for each in every if isinstance(each, c_ast.UnaryOp) and text_at(each, "op") in ("p++", "++", "p--", "--")
    ]
    changed = {_name(node_at(each, "lvalue")) for each in every if isinstance(each, c_ast.Assignment)}
    changed |= {_name(node_at(each, "expr")) for each in steps}
    uses = Counter(text_at(each, "name") for each in every if isinstance(each, c_ast.ID))
    bases = Counter(_name(node_at(each, "name")) for each in every if isinstance(each, c_ast.ArrayRef))
    found: dict[str, _Origin] = {}
    for each in every:
        if not isinstance(each, c_ast.Decl) or not isinstance(node_at(each, "type"), c_ast.PtrDecl):
            continue
        name, values = text_at(each, "name"), nodes_at(each, "init")
        origin = _origin(values[0], found) if values else None
        parts = () if origin is None else (origin.base, *((origin.offset,) if origin.offset is not None else ()))
        names = {text_at(part, "name") for part in _every(parts) if isinstance(part, c_ast.ID)}
        keeps = names.isdisjoint(changed) and all(declared[other] <= 1 for other in names)
        if origin is not None and keeps and name not in changed and declared[name] == 1 and uses[name] == bases[name]:
            found[name] = origin
    return found


def _origin(node: c_ast.Node, known: dict[str, _Origin]) -> _Origin | None:
    """Return what an expression points to, None where that is not told by its form."""
    match node:
        case c_ast.ID():
            return known.get(text_at(node, "name"), _Origin(node, None))
        case c_ast.ArrayRef():
            return _Origin(node, None)
        case c_ast.BinaryOp() if text_at(node, "op") in ("+", "-"):
            inner = _origin(node_at(node, "left"), known)
            return None if inner is None else inner.plus(text_at(node, "op"), node_at(node, "right"))
        case c_ast.UnaryOp() if _is_unary(node, "&") and isinstance(node_at(node, "expr"), c_ast.ArrayRef):
            element = node_at(node, "expr")
            inner = _origin(node_at(element, "name"), known)
            return None if inner is None else inner.plus("+", node_at(element, "subscript"))
        case _:
            return None


def _every(nodes: Sequence[c_ast.Node]) -> Iterator[c_ast.Node]:
    """Yield the nodes and all inside them, in textual order."""
    for node in nodes:
        yield node
        yield from _every([part for _, part in children(node)])


def _is_unary(node: c_ast.Node, operator: str) -> bool:
    return isinstance(node, c_ast.UnaryOp) and text_at(node, "op") == operator


def _put(node: c_ast.Node, field: str, part: c_ast.Node) -> None:
    """Put a part into a node; field: as `children` names it, `name` or `name[number]`."""
    name, _, number = field.partition("[")
    if number:
        getattr(node, name)[int(number[:-1])] = part
    else:
        setattr(node, name, part)


def _name(node: c_ast.Node) -> str:
    return text_at(node, "name") if isinstance(node, c_ast.ID) else ""


def _remove(node: c_ast.Node, part: c_ast.Node) -> None:
    """Put an empty statement in the place of a part of a block."""
    empty = c_ast.EmptyStatement(part.coord)
    for field in ("block_items", "stmts", "decls"):
        listed = nodes_at(node, field)
        if part in listed:
            setattr(node, field, [empty if each is part else each for each in listed])
