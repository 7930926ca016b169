"""Pointers that stand for an array, or for one from some element on, replaced by the array in pycparser's tree.

float *row = A[i] + 2; row[j] = 0; *(row + 1) = 0;   ->   A[i][2 + j] = 0; A[i][2 + 1] = 0;
float *p = A + 2; while (p < A + n) *p++ = 0;        ->   long p_at = 2; while (p_at < n) A[p_at++] = 0;
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field

from pycparser import c_ast, c_generator

from polymap.workload.c.expressions import children, every, node_at, nodes_at, text_at
from polymap.workload.c.linear import KeptError

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
        for place, part in children(node):
            origin = _origin(node_at(part, "expr")) if is_unary(part, "*") else None
            if origin is not None:
                zero = c_ast.Constant("int", "0", part.coord)
                put(node, place, c_ast.ArrayRef(origin.base, origin.offset or zero, part.coord))
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
    return found | {_name(node_at(node, "expr")) for node in nodes if is_step(node)}


def is_step(node: c_ast.Node) -> bool:
    """Return whether a node is `x++`, `++x`, `x--` or `--x`, of whatever x."""
    return isinstance(node, c_ast.UnaryOp) and text_at(node, "op") in ("p++", "++", "p--", "--")


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


def without_moves(
    body: c_ast.Node,
    parameters: Sequence[c_ast.Node],
    outside: Sequence[c_ast.Node],
    element_of: Callable[[c_ast.Node], str],
    new: Callable[[str], str],
) -> dict[str, str]:
    """Replace pointers that move inside one array by integers, in place: the element that they point to. Return the
    name of each with that of its integer.

    These are pointers that the body declares, and parameters that it moves; what is used otherwise stays as it is. The
    indices of a row keep their values where the pointer lives. outside: declarations around the body, the parameters
    among them. new: makes a name that the text has not.
    """
    inside = list(every([body]))
    moved = changed_names(inside)
    every_one = [each for each in (*outside, *inside) if isinstance(each, c_ast.Decl)]
    times = Counter(text_at(each, "name") for each in every_one)
    declared = {text_at(each, "name"): each for each in every_one if times[text_at(each, "name")] == 1}
    kinds = {name: (element_of(each), len(_axes(node_at(each, "type")))) for name, each in declared.items()}
    own = {text_at(each, "name") for each in parameters}
    local = {name for name, each in declared.items() if isinstance(node_at(each, "type"), c_ast.PtrDecl)}
    local -= {text_at(each, "name") for each in outside}
    names = {name for name in (own & moved) | local if kinds.get(name, ("", 0))[0] and kinds[name][1] == 1}
    while names:
        bases: dict[str, c_ast.Node] = {name: c_ast.ID(name) for name in sorted(names & own)}
        kept = {name: kind for name, kind in kinds.items() if name in names or name not in moved}
        found = _Moves(kept, {name: new(f"{name}_at") for name in sorted(names)}, bases)
        changed = deepcopy(body)
        try:
            found.visit(changed)
        except KeptError as error:
            names = names - {error.name}
            continue
        starts = [_integer(found.integers[name], c_ast.Constant("int", "0"), body) for name in sorted(names & own)]
        assert isinstance(body, c_ast.Compound), "it is that of a function"
        body.block_items = [*starts, *nodes_at(changed, "block_items")]
        return found.integers
    return {}


def _integer(name: str, value: c_ast.Node | None, at: c_ast.Node) -> c_ast.Node:
    kind = c_ast.TypeDecl(name, [], None, c_ast.IdentifierType(["long"]))
    return c_ast.Decl(name, [], [], [], [], kind, value, None, at.coord)


@dataclass(slots=True)
class _Moves:
    """Rewrites a body. kinds: type of the elements and number of axes of each variable; integers: of each pointer, its
    name; bases: the array, or row, that each points into, where that is known; lives: names that are set or declared
    where each lives; around: where the visit is."""

    kinds: Mapping[str, tuple[str, int]]
    integers: dict[str, str]
    bases: dict[str, c_ast.Node]
    lives: dict[str, set[str]] = field(default_factory=dict[str, "set[str]"])
    around: set[str] = field(default_factory=set[str])

    def visit(self, node: c_ast.Node) -> None:
        """Rewrite the parts of a node, in textual order."""
        outer = self.around
        if isinstance(node, c_ast.Compound | c_ast.For):
            inside = list(every([node]))
            self.around = changed_names(inside) | {
                text_at(each, "name") for each in inside if isinstance(each, c_ast.Decl)
            }
        for where, part in children(node):
            put(node, where, self._rewritten(part))
        self.around = outer

    def _rewritten(self, node: c_ast.Node) -> c_ast.Node:
        match node:
            case c_ast.Decl() if text_at(node, "name") in self.integers:
                value = nodes_at(node, "init")
                name = text_at(node, "name")
                self.lives[name] = self.around
                return _integer(self.integers[name], self._offset(name, value[0]) if value else None, node)
            case c_ast.Assignment() if (name := _name(node_at(node, "lvalue"))) in self.integers:
                if text_at(node, "op") == "=":
                    right = self._offset(name, node_at(node, "rvalue"))
                else:
                    right = self._rewritten(node_at(node, "rvalue"))
                return c_ast.Assignment(text_at(node, "op"), self._place(name), right, node.coord)
            case c_ast.UnaryOp() if is_unary(node, "*") and (origin := self._origin(node_at(node, "expr"))):
                return self._element(origin, node)
            case c_ast.ArrayRef() if _name(node_at(node, "name")) in self.integers:
                origin = self._origin(node_at(node, "name"))
                assert origin is not None, "it is a pointer"
                index = node_at(node, "subscript")
                is_zero = isinstance(index, c_ast.Constant) and text_at(index, "value") == "0"
                return self._element(origin if is_zero else origin.plus("+", self._rewritten(index)), node)
            case c_ast.BinaryOp() if text_at(node, "op") in ("<", "<=", ">", ">=", "==", "!=", "-"):
                one, other = (self._origin(node_at(node, side)) for side in ("left", "right"))
                if one is not None and other is not None and _text(one.base) == _text(other.base):
                    left, right = (each.offset or c_ast.Constant("int", "0") for each in (one, other))
                    return c_ast.BinaryOp(text_at(node, "op"), left, right, node.coord)
            case c_ast.UnaryOp() if is_step(node) and (name := _name(node_at(node, "expr"))) in self.integers:
                return c_ast.UnaryOp(text_at(node, "op"), self._place(name), node.coord)
            case c_ast.ID() if text_at(node, "name") in self.integers:
                raise KeptError(text_at(node, "name"))
            case _:
                pass
        self.visit(node)
        return node

    def _place(self, name: str) -> c_ast.Node:
        return c_ast.ID(self.integers[name])

    def _element(self, origin: _Origin, node: c_ast.Node) -> c_ast.Node:
        return c_ast.ArrayRef(deepcopy(origin.base), origin.offset or c_ast.Constant("int", "0"), node.coord)

    def _origin(self, node: c_ast.Node) -> _Origin | None:
        """Return the array, or the row, and the element that an expression of pointers stands for."""
        name = _name(node)
        if name in self.integers:
            if name not in self.bases:
                raise KeptError(name)
            return _Origin(self.bases[name], self._place(name))
        if isinstance(node, c_ast.ID | c_ast.ArrayRef):
            return _Origin(node, None) if self._is_row(node) else None
        if isinstance(node, c_ast.BinaryOp) and text_at(node, "op") in ("+", "-"):
            inner = self._origin(node_at(node, "left"))
            if inner is not None and self._origin(node_at(node, "right")) is None:
                return inner.plus(text_at(node, "op"), self._rewritten(node_at(node, "right")))
        if is_unary(node, "&") and isinstance(element := node_at(node, "expr"), c_ast.ArrayRef):
            inner = self._origin(node_at(element, "name"))
            return None if inner is None else inner.plus("+", self._rewritten(node_at(element, "subscript")))
        if is_step(node) and (name := _name(node_at(node, "expr"))) in self.bases:
            return _Origin(self.bases[name], c_ast.UnaryOp(text_at(node, "op"), self._place(name), node.coord))
        return None

    def _is_row(self, node: c_ast.Node) -> bool:
        """Return whether an expression is an array of one axis, or as many indices of one as leave one axis."""
        depth = 0
        while isinstance(node, c_ast.ArrayRef):
            node, depth = node_at(node, "name"), depth + 1
        return self.kinds.get(_name(node), ("", 0))[1] == depth + 1

    def _offset(self, name: str, value: c_ast.Node) -> c_ast.Node:
        """Return the element that a pointer is set to; raises where it is one of another array, or of none."""
        origin = self._origin(value)
        if origin is None:
            raise KeptError(name)
        base = array = self.bases.setdefault(name, origin.base)
        indices: list[c_ast.Node] = []
        while isinstance(array, c_ast.ArrayRef):
            array, indices = node_at(array, "name"), [*indices, node_at(array, "subscript")]
        index_names = {_name(each) for each in every(indices)} - {""}
        flat = any(not isinstance(each, c_ast.ID) for each in indices)  # &A[0][0] may leave its row
        if flat or _text(base) != _text(origin.base) or self.kinds[_name(array)][0] != self.kinds[name][0]:
            raise KeptError(name)
        if not index_names.isdisjoint(self.lives.get(name, ())):
            raise KeptError(name)
        return origin.offset or c_ast.Constant("int", "0", value.coord)


def _text(node: c_ast.Node) -> str:
    return str(c_generator.CGenerator().visit(node))
