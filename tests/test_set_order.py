"""No answer depends on the order of a set, which follows the seed of Python's hashes: sets are sorted before they are
walked, or a comment says why any order will do (`# any order: the sum is of integers`)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "polymap"
MARK = re.compile(r"# any order: \w+ \w+")
SETS = {"set", "frozenset", "AbstractSet", "MutableSet"}
# Numbers and tuples of them: their hashes are themselves, so that no seed moves them.
NUMBERS = re.compile(r"(?:int|bool|float|Fraction|tuple|Piece|\.\.\.|[\[\], ])+")
LISTS = {"list", "Sequence", "tuple", "Iterable", "Iterator", "Collection", "deque"}
DICTS = {"dict", "Mapping", "MutableMapping", "defaultdict"}
WALKED = LISTS | SETS | DICTS
SAME = {"union", "intersection", "difference", "symmetric_difference", "copy"}
FREE = {"any", "all", "len", "set", "frozenset", "sorted", "Counter", "prod", "lcm", "gcd", "sum", "min", "max"} | {
    *("update", "difference_update", "intersection_update", "issubset", "issuperset", "isdisjoint"),
    *(SAME - {"copy"}),
}
WALKS = {
    *("list", "tuple", "enumerate", "map", "zip", "filter", "join", "next", "iter", "fromkeys", "extend", "array"),
    *("chain", "product", "combinations", "permutations", "reversed", "dict", "reduce", "deque", "from_iterable"),
}
LEARNED = (ast.arg, ast.AnnAssign, ast.Assign, ast.NamedExpr, ast.For, ast.comprehension)

Type = ast.expr | None


@cache
def of(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


class Scope:
    """A module, class, function or lambda: its nodes in the order of the text, but those of scopes within."""

    def __init__(self, node: ast.AST, parents: dict[ast.AST, ast.AST]) -> None:
        self.node = node
        self.own: list[ast.AST] = []
        self.inner: list[Scope] = []
        self._collect(node, parents)

    def _collect(self, node: ast.AST, parents: dict[ast.AST, ast.AST]) -> None:
        for field in node._fields:
            value = getattr(node, field)
            for child in value if isinstance(value, list) else (value,):
                if isinstance(child, ast.AST) and field not in {"ctx", "op", "ops", "returns"}:
                    parents[child] = node
                    self.own.append(child)
                    if isinstance(child, ast.FunctionDef | ast.Lambda | ast.ClassDef):
                        self.inner.append(Scope(child, parents))
                    elif field != "annotation":
                        self._collect(child, parents)

    def every(self) -> Iterator[Scope]:
        yield self
        for each in self.inner:
            yield from each.every()


class Module:
    """The scopes of a source."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scope = Scope(ast.parse(text), self.parents)


class Known:
    """What the annotations of modules say: of functions, of each class's fields and methods."""

    def __init__(self, modules: Iterable[Module]) -> None:
        self.functions: dict[str, set[str]] = {}
        self.fields: dict[str, set[str]] = {}
        self.classes: dict[str, dict[str, str]] = {}
        for module in modules:
            for scope in module.scope.every():
                if isinstance(scope.node, ast.ClassDef):
                    self._class(scope, self.classes.setdefault(scope.node.name, {}))
            for inner in module.scope.inner:
                if isinstance(inner.node, ast.FunctionDef):
                    self.functions.setdefault(inner.node.name, set()).add(returned(inner.node))

    def _class(self, scope: Scope, own: dict[str, str]) -> None:
        for each in scope.inner:
            if isinstance(each.node, ast.FunctionDef):
                own[each.node.name] = returned(each.node)
        for each in (node for inner in (scope, *scope.inner) for node in inner.own):
            if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name | ast.Attribute):
                name = each.target.id if isinstance(each.target, ast.Name) else each.target.attr
                own[name] = ast.unparse(each.annotation)
        for name, told in own.items():
            self.fields.setdefault(name, set()).add(told)

    def function(self, name: str) -> Type:
        if name in self.classes:
            return of(name)
        return only(self.functions.get(name, set()))

    def field(self, owner: Type, name: str) -> Type:
        held = self.classes.get(outer(owner))
        if held is not None and name in held:
            return of(held[name])
        return only(self.fields.get(name, set())) if held is None else None


def only(told: set[str]) -> Type:
    """Return the one type of those told; of several that are all sets, a set."""
    if len(told) == 1:
        return of(next(iter(told)))
    return of("set") if told and all(outer(of(each)) in SETS for each in told) else None


def returned(node: ast.FunctionDef) -> str:
    return ast.unparse(node.returns) if node.returns else "None"


def outer(told: Type) -> str:
    """Return the name of a type without what it holds; of `set[str] | None`, `set`."""
    match told:
        case ast.BinOp(left, ast.BitOr(), ast.Constant(None)):
            return outer(left)
        case ast.Subscript(value=ast.Name("Annotated" | "Final" | "ClassVar"), slice=inner):
            return outer(inner)
        case ast.Subscript(value=ast.Name(name)) | ast.Name(name):
            return name
        case ast.Constant(str(text)):
            return outer(of(text))
        case _:
            return ""


def held(told: Type) -> list[ast.expr]:
    """Return the types that a container's type names: of `dict[str, int]`, both."""
    match told:
        case ast.BinOp(left, ast.BitOr(), ast.Constant(None)):
            return held(left)
        case ast.Subscript(slice=ast.Tuple(inner)):
            return inner
        case ast.Subscript(slice=inner):
            return [inner]
        case _:
            return []


def element(told: Type) -> Type:
    """Return the type of what a walk over a value of this type gives."""
    inner = held(told)
    return inner[0] if inner and outer(told) in WALKED else None


def varies(told: Type) -> bool:
    """Return whether a type is a set whose order the seed moves."""
    return outer(told) in SETS and not (held(told) and NUMBERS.fullmatch(ast.unparse(held(told)[0])))


class Names:
    """The types of the names in one function, from annotations and from what they are set to."""

    def __init__(self, known: Known, above: dict[str, Type]) -> None:
        self.known = known
        self.above = above
        self.own: dict[str, Type] = {}

    def named(self, name: str) -> Type:
        return self.own[name] if name in self.own else self.above.get(name)

    def bind(self, target: ast.expr, told: Type) -> None:
        if isinstance(target, ast.Name):
            self.own[target.id] = told or self.own.get(target.id)
        elif isinstance(target, ast.Tuple | ast.List) and outer(told) == "tuple":
            inner = held(told)
            for each, one in zip(target.elts, inner * len(target.elts) if len(inner) == 1 else inner, strict=False):
                self.bind(each, one)

    def learn(self, node: ast.AST) -> None:
        match node:
            case (
                ast.arg(arg=name, annotation=ast.expr() as told) | ast.AnnAssign(target=ast.Name(name), annotation=told)
            ):
                self.own[name] = told
            case ast.Assign(targets=[ast.Tuple(targets)], value=ast.Tuple(values)):
                for target, value in zip(targets, values, strict=False):
                    self.bind(target, self.type(value))
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self.bind(target, self.type(value))
            case ast.NamedExpr(target=target, value=value):
                self.bind(target, self.type(value))
            case ast.For(target=target, iter=walked) | ast.comprehension(target=target, iter=walked):
                self.bind(target, element(self.type(walked)))
            case _:
                pass

    def type(self, node: ast.expr) -> Type:
        match node:
            case ast.Set() | ast.SetComp():
                return of("set")
            case ast.Name(name):
                return self.named(name)
            case ast.Attribute(value, name):
                return self.known.field(self.type(value), name)
            case ast.Call():
                return self.call(node)
            case ast.BinOp(ast.Call(func=ast.Attribute(attr="keys")), ast.BitOr() | ast.BitAnd() | ast.Sub(), _):
                return of("set")
            case ast.BinOp(left, ast.BitOr() | ast.BitAnd() | ast.BitXor(), right):
                return next((told for told in (self.type(left), self.type(right)) if outer(told) in SETS), None)
            case ast.BinOp(left, ast.Sub(), _):
                told = self.type(left)
                return told if outer(told) in SETS else None
            case ast.IfExp(_, one, other) | ast.BoolOp(values=[one, other]):
                return next(
                    (told for told in (self.type(one), self.type(other)) if outer(told) in SETS), self.type(one)
                )
            case ast.NamedExpr(_, value):
                return self.type(value)
            case ast.Subscript(value, key):
                told = self.type(value)
                inner = held(told)
                if outer(told) == "tuple" and isinstance(key, ast.Constant) and isinstance(key.value, int):
                    return inner[min(key.value, len(inner) - 1)] if inner else None
                return inner[-1] if outer(told) in DICTS and inner else element(told)
            case _:
                return None

    def call(self, node: ast.Call) -> Type:
        function = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        match function:
            case ast.Name("set" | "frozenset" as name):
                return node.func if isinstance(node.func, ast.Subscript) else of(name)
            case ast.Name(name):
                return self.named(name) or self.known.function(name)
            case ast.Attribute(value, name):
                return self.method(self.type(value), name)
            case _:
                return None

    def method(self, owner: Type, name: str) -> Type:
        inner = held(owner)
        if outer(owner) in SETS:
            return owner if name in SAME else element(owner) if name == "pop" else None
        if outer(owner) in DICTS and len(inner) == 2:
            key, value = map(ast.unparse, inner)
            gives = {"items": f"Iterable[tuple[{key}, {value}]]", "values": f"Iterable[{value}]", "get": value}
            gives |= {"pop": value, "setdefault": value}
            return of(gives[name]) if name in gives else None
        return None if name in {"keys", "items", "values", "get", "pop"} else self.known.field(owner, name)


class Walks:
    """Finds the walks over sets in one module."""

    def __init__(self, module: Module, known: Known) -> None:
        self.known = known
        self.parents = module.parents
        self.found: dict[ast.stmt | ast.expr, str] = {}
        self._look(module.scope, {}, "")

    def _look(self, scope: Scope, above: dict[str, Type], owner: str) -> None:
        """Look at a scope, then at those within, which see its names."""
        names = Names(self.known, above | ({"self": of(owner)} if owner else {}))
        for _ in range(2):  # a name may be used above the line that says what it is (in a loop)
            for each in scope.own:
                if isinstance(each, LEARNED):
                    names.learn(each)
        for each in scope.own:
            if isinstance(each, ast.stmt | ast.expr) and self._walks(names, each):
                self.found[each] = ast.unparse(each)[:90]
        owner = scope.node.name if isinstance(scope.node, ast.ClassDef) else ""
        for inner in scope.inner:
            self._look(inner, {**names.above, **names.own}, owner)

    def _walks(self, names: Names, node: ast.AST) -> bool:
        """Return whether the order of a set decides what a node gives."""

        def order(walked: ast.expr) -> bool:
            return varies(names.type(walked))

        match node:
            case ast.For(iter=walked) | ast.Assign(targets=[ast.Tuple(elts=[_, _, *_])], value=walked):
                return order(walked)
            case ast.ListComp(generators=walks) | ast.GeneratorExp(generators=walks) | ast.DictComp(generators=walks):
                return any(order(each.iter) for each in walks) and not self._free(node)
            case ast.Starred(value=walked):
                around = self.parents[node]
                return order(walked) and not isinstance(around, ast.Set) and not self._free(node)
            case ast.Call(func=ast.Attribute(value=owner, attr="pop"), args=[], keywords=[]):
                return order(owner)
            case ast.Call(args=args):
                name = called(node)
                keyed = name in {"min", "max", "sorted"} and any(each.arg == "key" for each in node.keywords)
                looked = args[:1] if name == "fromkeys" else args
                return (name in WALKS or keyed) and any(map(order, looked)) and not self._free(node)
            case _:
                return False

    def _free(self, node: ast.AST) -> bool:
        """Return whether what takes a node's values does not see their order."""
        around = self.parents[node]
        if isinstance(around, ast.Call) and node is not around.func:
            keyed = any(each.arg == "key" for each in around.keywords)
            return called(around) in FREE and not (keyed and called(around) in {"min", "max", "sorted"})
        return isinstance(around, ast.Starred) and isinstance(self.parents[around], ast.Set)


def called(node: ast.Call) -> str:
    function = node.func.value if isinstance(node.func, ast.Subscript) else node.func
    return getattr(function, "id", getattr(function, "attr", ""))


def faults(module: Module, known: Known) -> list[str]:
    """Return the lines of a source that walk a set in its own order and do not say why they may."""
    found = Walks(module, known).found
    return [
        f"{node.lineno}: {told}"
        for node, told in found.items()
        if not any(MARK.search(line) for line in module.lines[node.lineno - 1 : node.end_lineno or node.lineno])
    ]


@cache
def modules() -> dict[Path, Module]:
    return {path: Module(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


@pytest.mark.slow
def test_no_answer_follows_the_order_of_a_set() -> None:
    known = Known(modules().values())
    found = [
        f"{path.relative_to(PACKAGE)}:{each}" for path, module in modules().items() for each in faults(module, known)
    ]
    assert not found, "sort it, or say why any order will do (`# any order: ...`):\n" + "\n".join(found)


FAULTS = """
def _passed(program: Workload) -> dict[str, int]:
    passed = {each.target.tensor for each in program.statements}
    return {name: 1 for name in passed}
---
def _ranges(low: dict[str, int], columns: list[tuple[int, str]]) -> None:
    for name in {name for _, name in columns} - set(low):
        low[name] = 0
---
def _names(expression: str) -> frozenset[str]: ...
def _lost(values: dict[str, str]) -> str | None:
    return next((name for each in values.values() for name in _names(each) if name.endswith("?")), None)
---
class Walker:
    names: frozenset[str]
    def ends(self, declared: set[str]) -> list[str]:
        return [*declared & self.names]
---
def _first(values: dict[str, int], names: set[str]) -> str:
    return min(names & values.keys(), key=lambda name: values[name])
---
def _any(groups: dict[str, frozenset[str]]) -> list[str]:
    return [groups["a"].pop() if groups else "", *map(str, groups.get("b", frozenset()))]
---
def _told(names: set[str] | None) -> str:
    return ", ".join(names or ())  # any order
"""
SOUND = """
def _total(sizes: set[int], names: frozenset[str], inside: dict[str, set[str]]) -> object:
    return [*sizes], sorted(names), any(name for name in names), {*names}, [name for name in sorted(inside["a"])]
---
def _looked_up(names: frozenset[str]) -> dict[str, int]:
    return dict.fromkeys(names, 0)  # any order: a lookup
---
def _in_order(names: list[str]) -> list[str]:
    names = list(dict.fromkeys(names))
    (first,) = set(names)
    return [first, *names]
"""


def faults_of(text: str) -> list[str]:
    module = Module(text)
    return faults(module, Known([module]))


@pytest.mark.parametrize("text", FAULTS.split("---"))
def test_walks_over_sets_would_be_seen(text: str) -> None:
    assert faults_of(text)


@pytest.mark.parametrize("text", SOUND.split("---"))
def test_walks_whose_order_does_not_matter_are_left_alone(text: str) -> None:
    assert not faults_of(text)
