"""Pointers that stand for an array, or for one from some element on, replaced by the array in pycparser's tree.

float *row = A[i] + 2; row[j] = 0; *(row + 1) = 0;   ->   A[i][2 + j] = 0; A[i][2 + 1] = 0;
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pycparser import c_ast, c_generator

from polymap.workload.c.expressions import children, every, node_at, nodes_at, text_at

Kind = tuple[str, ...]  # of elements, and the sizes of an array's axes


@dataclass(frozen=True, slots=True)
class _Origin:
    """The place that a pointer points to: an array, or a row of it, and an element from its first one on."""

    base: c_ast.Node
    offset: c_ast.Node | None

    @property
    def parts(self) -> tuple[c_ast.Node, ...]:
        return (self.base,) if self.offset is None else (self.base, self.offset)

    def plus(self, operator: str, more: c_ast.Node) -> _Origin:
        if self.offset is None and operator == "+":
            return _Origin(self.base, more)
        first = self.offset or c_ast.Constant("int", "0", more.coord)
        return _Origin(self.base, c_ast.BinaryOp(operator, first, more, more.coord))


def without_pointers(
    nodes: Sequence[c_ast.Node], outside: Sequence[c_ast.Node], element_of: Callable[[c_ast.Node], str]
) -> tuple[frozenset[str], list[c_ast.Node]]:
    """Replace pointers in statements, in place, and return their names, and the declarations of those whose elements or
    axes are not those of what they point to.

    A pointer is replaced where it is set once, by its declaration, from what keeps its value in the block around it,
    and only subscripted. Inner blocks come first: a pointer may be set from another one. outside: declarations around
    the statements. element_of: the type of a declaration's elements.
    """
    found: set[str] = set()
    kinds: dict[str, set[Kind]] = {}
    others: list[c_ast.Node] = []
    for each in every([*outside, *nodes]):
        if isinstance(each, c_ast.Decl) and isinstance(node_at(each, "type"), c_ast.PtrDecl | c_ast.ArrayDecl):
            kinds.setdefault(text_at(each, "name"), set()).add((element_of(each), *_axes(node_at(each, "type"))))
    for node in reversed(list(every(nodes))):
        for field, part in children(node):
            origin = _origin(node_at(part, "expr")) if is_unary(part, "*") else None
            if origin is not None:
                zero = c_ast.Constant("int", "0", part.coord)
                put(node, field, c_ast.ArrayRef(origin.base, origin.offset or zero, part.coord))
        if isinstance(node, c_ast.Compound):
            found |= _without(node, kinds, others)
    return frozenset(found), others


def _axes(kind: c_ast.Node) -> list[str]:
    """Return the sizes of the axes of an array, "" for those of pointers."""
    sizes: list[str] = []
    while isinstance(kind, c_ast.PtrDecl | c_ast.ArrayDecl):
        size = nodes_at(kind, "dim") if isinstance(kind, c_ast.ArrayDecl) else []
        sizes.append(str(c_generator.CGenerator().visit(size[0])) if size else "")
        kind = node_at(kind, "type")
    return sizes


def _without(block: c_ast.Node, kinds: Mapping[str, set[Kind]], others: list[c_ast.Node]) -> set[str]:
    """Replace the pointers that a block declares, in place, and return their names; list those of other types."""
    found: set[str] = set()
    items = nodes_at(block, "block_items")
    for each in reversed(items):
        if isinstance(each, c_ast.Decl) and (origin := _pointer(each, block, items)) is not None:
            name = text_at(each, "name")
            if not _is_alike(name, origin.base, kinds):
                others.append(each)
            for node in every([block]):
                if isinstance(node, c_ast.ArrayRef) and _name(node_at(node, "name")) == name:
                    index = node_at(node, "subscript")
                    whole = index if origin.offset is None else c_ast.BinaryOp("+", origin.offset, index, node.coord)
                    node.name, node.subscript = origin.base, whole
            put(block, f"block_items[{items.index(each)}]", c_ast.EmptyStatement(each.coord))
            found.add(name)
    return found


def _is_alike(name: str, base: c_ast.Node, kinds: Mapping[str, set[Kind]]) -> bool:
    """Return whether a pointer's elements and axes are those of the array, or the row of it, that it points to."""
    rows = 0
    while isinstance(base, c_ast.ArrayRef):
        base, rows = node_at(base, "name"), rows + 1
    known = {(kind[0], *kind[2 + rows :]) for kind in kinds.get(_name(base), ())}
    return not known or {(kind[0], *kind[2:]) for kind in kinds[name]} == known


def _pointer(each: c_ast.Node, block: c_ast.Node, items: Sequence[c_ast.Node]) -> _Origin | None:
    """Return what a declaration of a block points to, None where that is no pointer to replace."""
    values = nodes_at(each, "init")
    origin = _origin(values[0]) if values and isinstance(node_at(each, "type"), c_ast.PtrDecl) else None
    if origin is None:
        return None
    inside, name = list(every([block])), text_at(each, "name")
    changed = changed_names(inside)
    uses = Counter(text_at(node, "name") for node in inside if isinstance(node, c_ast.ID))
    bases = Counter(_name(node_at(node, "name")) for node in inside if isinstance(node, c_ast.ArrayRef))
    declared = Counter(text_at(node, "name") for node in inside if isinstance(node, c_ast.Decl))
    outer = Counter(text_at(node, "name") for node in items if isinstance(node, c_ast.Decl))
    names = {_name(part) for part in every(origin.parts)} - {""}
    if any(text_at(node, "name") == name for node in every(items[: items.index(each)]) if isinstance(node, c_ast.ID)):
        return None  # before its declaration the name is that of another variable
    keeps = names.isdisjoint(changed) and all(declared[other] == outer[other] for other in names)
    return origin if keeps and name not in changed and declared[name] == 1 and uses[name] == bases[name] else None


def _origin(node: c_ast.Node) -> _Origin | None:
    """Return what an expression points to, None where that is not told by its form."""
    match node:
        case c_ast.ID() | c_ast.ArrayRef():
            return _Origin(node, None)
        case c_ast.BinaryOp() if text_at(node, "op") in ("+", "-"):
            inner = _origin(node_at(node, "left"))
            return None if inner is None else inner.plus(text_at(node, "op"), node_at(node, "right"))
        case c_ast.UnaryOp() if is_unary(node, "&") and isinstance(node_at(node, "expr"), c_ast.ArrayRef):
            element = node_at(node, "expr")
            inner = _origin(node_at(element, "name"))
            return None if inner is None else inner.plus("+", node_at(element, "subscript"))
        case _:
            return None


def changed_names(nodes: Sequence[c_ast.Node]) -> set[str]:
    """Return the variables that some nodes assign or step."""
    found = {_name(node_at(node, "lvalue")) for node in nodes if isinstance(node, c_ast.Assignment)}
    steps = ("p++", "++", "p--", "--")
    return found | {_name(node_at(node, "expr")) for step in steps for node in nodes if is_unary(node, step)}


def is_unary(node: c_ast.Node, operator: str) -> bool:
    """Return whether a node is one operator before, or behind ("p++"), its operand."""
    return isinstance(node, c_ast.UnaryOp) and text_at(node, "op") == operator


def put(node: c_ast.Node, field: str, part: c_ast.Node) -> None:
    """Put a part into a node; field: as `children` names it, `name` or `name[number]`."""
    name, _, number = field.partition("[")
    if number:
        getattr(node, name)[int(number[:-1])] = part
    else:
        setattr(node, name, part)


def _name(node: c_ast.Node) -> str:
    return text_at(node, "name") if isinstance(node, c_ast.ID) else ""
