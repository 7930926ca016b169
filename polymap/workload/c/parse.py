"""Parses prepared C text with pycparser into typed data; only this module and `original` use pycparser's tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from pycparser import c_ast, c_generator, c_lexer, c_parser

from polymap.ir import InputError, Mistake
from polymap.workload.c.affine import Scope, affine_of
from polymap.workload.c.control import (
    is_once,
    is_plain,
    items_of,
    stepped,
    switch,
    until_zero,
    while_loop,
    without_continue,
)
from polymap.workload.c.counted import without_counted
from polymap.workload.c.expressions import (
    Expressions,
    as_text,
    children,
    every,
    negated,
    node_at,
    nodes_at,
    plain_type,
    text_at,
)
from polymap.workload.c.pointers import without_moves, without_pointers
from polymap.workload.c.source import Source
from polymap.workload.c.tree import (
    Assign,
    Binary,
    Block,
    CExpression,
    Complaints,
    CStatement,
    Declare,
    For,
    If,
    Item,
    Literal,
    Name,
    Program,
    Refused,
    all_statements,
    array_of,
)
from polymap.workload.c.words import is_changed
from polymap.workload.tuning import TUNING

_STANDARD = (
    "signed char int8_t", "unsigned char uint8_t", "short int16_t", "unsigned short uint16_t", "int int32_t",
    "unsigned uint32_t", "long int64_t", "unsigned long uint64_t", "unsigned long size_t", "long ptrdiff_t",
    "long ssize_t", "_Bool bool", "double DATA_TYPE",
)  # fmt: skip
_PRELUDE = " ".join(f"typedef {each};" for each in _STANDARD) + '\n#line 1 "source"\n'
_REGION = re.compile(r"#pragma scop\b.*?#pragma endscop\b", re.DOTALL)
_PLACE = re.compile(r"[^\n]*?:([0-9]+)(?::([0-9]+))?: *(.*)", re.DOTALL)
_UNREAD = {  # what it is called, and what would work
    "Break": ("a break", "Loops run to their bounds: mark a region without this one."),
    "Continue": ("a continue", "Write what it skips in an if."),
    "Return": ("a return inside the nest", "Return behind the loops; put what an early one skips in an if."),
}  # fmt: skip

_LIST_HINT = "Write a value per element, in braces per row: {{1, 2}, {3, 4}}, or set it in a loop."


@dataclass(frozen=True, slots=True)
class Syntax:
    """pycparser's tree of the region that is read: declarations outside, and the statements. constants: of enums."""

    outside: tuple[c_ast.Node, ...]
    body: tuple[c_ast.Node, ...]
    constants: Mapping[str, int]


def parse(source: Source, complaints: Complaints) -> tuple[Program, Syntax]:
    """Return the program in the source, and its tree; parts that cannot be read are left out and reported.

    Raises InputError for text that is no C.
    """
    file = complaints.file
    parser = c_parser.CParser(lexer=_Lexer)
    try:
        # pycparser descends once per nesting level, and so do the functions below.
        tree: object = parser.parse(_PRELUDE + source.text, "source")
        return _Reader(source, complaints).program(cast("c_ast.Node", tree))
    except RecursionError:
        what = f"{file} is nested too deeply, or an expression is too long"
        raise InputError(Mistake("PM151", what, "Split the longest expression.")) from None
    except (c_parser.ParseError, AssertionError) as error:  # pycparser 3.0 asserts that a closing brace was opened
        own = "\n".join(source.lines).strip()
        is_name = own.endswith((".c", ".h")) and own.isprintable()
        hint = f"It is a file's name: pass the text, as in pathlib.Path({own!r}).read_text()." if is_name else ""
        raise InputError(Mistake("PM150", _not_c(str(error), parser.clex, source, file), hint)) from None


def _not_c(said: str, lexer: object, source: Source, file: str) -> str:
    """Return the syntax error with line and column of the user's text."""
    last = lexer.last if isinstance(lexer, _Lexer) else None
    match = _PLACE.fullmatch(said)
    if match is not None:
        line, column, text = int(match.group(1)), int(match.group(2) or 1), match.group(3)
        token = text.removeprefix("before: ") if text.startswith("before: ") else ""
    elif last is not None:
        (line, column, token), text = last, ""
    else:
        line, column, token, text = len(source.lines) + 1, 1, "", ""
    whole = "\n".join(source.lines)
    has_surplus = whole.count("}") > whole.count("{")
    if line > len(source.lines):  # nothing of the user's, or the brace that is put behind statements alone
        text = "there is a '}' too many" if has_surplus else "the end comes too early"
        line, column, token = len(source.lines), len(source.lines[-1].rstrip()) + 1, ""
    elif token:
        text = "there is a '}' too many" if has_surplus and token == "}" else f"unexpected '{token}'"
    own = source.lines[line - 1]
    if not own[column - 1 :].startswith(token):  # a macro stands before it: the first such word, or the line's first
        column = max(own.find(token), len(own) - len(own.lstrip())) + 1
    return f"this is no C that can be read: {text} ({file}:{line}:{column})"


class _Lexer(c_lexer.CLexer):
    """Remembers the last token that the parser requested: its errors do not always have a position."""

    last: tuple[int, int, str] | None = None

    def token(self) -> c_lexer.Token | None:
        found = super().token()
        self.last = None if found is None else (found.lineno, getattr(found, "column", 1), found.value)
        return found


class _Reader:
    def __init__(self, source: Source, complaints: Complaints) -> None:
        self.source = source
        self.complaints = complaints
        self.expressions = Expressions(source.functions)
        self.jumps = False

    @property
    def words(self) -> frozenset[str]:
        return self.source.words

    def program(self, tree: c_ast.Node) -> tuple[Program, Syntax]:
        function = next(node for node in reversed(nodes_at(tree, "ext")) if isinstance(node, c_ast.FuncDef))
        others = [node for node in nodes_at(tree, "ext") if not isinstance(node, c_ast.FuncDef)]
        tables = [node for node in others if _is_constant_table(node)]
        nodes = [node for node in others if node not in tables]
        self._lose_values([*nodes, *filter(_is_kept, every([function]))])
        outside = [each for node in nodes for each in self._outside(node)]
        self._learn_enums(tree)
        lasting = {each.name for each in outside}
        declaration = node_at(function, "decl")
        parameters = self._parameters(declaration)
        nodes += parameters
        outside += self._declared(parameters)
        name = "" if self.source.wrapped else text_at(declaration, "name")
        pointers, others = without_pointers([node_at(function, "body")], [*tables, *nodes], self._element_of)
        for each in others:
            what = f"'{text_at(each, 'name').removeprefix('pm_')}' points to other elements or axes than it declares"
            self.complaints.add("PM261", self.expressions.line(each), what, "Give both the same type.")
        moved: dict[str, str] = {}
        if not self.source.has_region and not self.source.wrapped:
            moved = without_moves(node_at(function, "body"), parameters, nodes, self._element_of, self._new)
            pointers |= moved.keys()
        items = nodes_at(node_at(function, "body"), "block_items")
        if self.source.has_region:
            before, items = self._region(items)
            self._lose_values(before, around=True)
            tables += [each for each in before if _is_constant_table(each)]
            before = [each for each in before if not _is_constant_table(each)]
            outside += self._declared(before)
            nodes += before
            lasting |= {text_at(each, "name") for each in before if _is_kept(each)}
        items = [*self._tables_of(tables, parameters, items), *items]
        self.jumps = self._jumps(items)
        last = None
        if not self.source.has_region and items and isinstance(_labelled(items[-1]), c_ast.Return):
            self._check_label(items[-1])
            last, items = _labelled(items[-1]), items[:-1]
        body = self.statements(items)
        program = Program(name, tuple(outside), body, self.source.wrapped, frozenset(lasting), replaced=pointers)
        if last is not None:
            program = self._with_result(program, declaration, last)
            if program.returned is not None:
                target = c_ast.ID(program.returned.name)
                items = [*items, c_ast.Assignment("=", target, node_at(last, "expr"), last.coord)]
        kept = frozenset(text_at(each, "name") for each in every(items) if _is_kept(each))
        syntax = Syntax(tuple(nodes), tuple(items), self.expressions.constants)
        given = [] if self.source.has_region or self.source.wrapped else parameters
        program = without_counted(program, kept, {name: self._new(name) for name in _names(given, c_ast.Decl)})
        self._check_moved(moved, program)
        return program, syntax

    def _check_moved(self, moved: Mapping[str, str], program: Program) -> None:
        """Report pointers that data decide where they point to."""
        for name, integer in moved.items():
            for each in all_statements(program.body):
                if isinstance(each, Assign) and array_of(each.target) == integer:
                    what = f"where the pointer '{name}' points to depends on data, or changes by no constant amount"
                    self.complaints.add("PM261", each.line, what, "Write A[i] for what it points to.")
                    break

    def _new(self, name: str) -> str:
        """Return a name that the text has not."""
        while name in self.source.words:
            name += "_"
        return name

    def _learn_enums(self, file: c_ast.Node) -> None:
        """Note the constants of enums; report those with another value or meaning elsewhere in what is read."""
        own, known = _names([file], c_ast.Decl), self.expressions.constants
        for node in every([file]):
            value = -1
            for each in nodes_at(node, "enumerators") if isinstance(node, c_ast.EnumeratorList) else []:
                name, line, given = text_at(each, "name"), self.expressions.line(each), nodes_at(each, "value")
                try:
                    value = self._constant(given[0]) if given else value + 1
                except Refused as refused:
                    self.complaints.note(refused)
                if name in own or known.get(name, value) != value or abs(value) >= 1 << 31:
                    what = f"'{name}', {value} in an enum, is declared twice, or no int"
                    self.complaints.add("PM265", line, what, "Rename one.")
                known[name] = value

    def _constant(self, node: c_ast.Node) -> int:
        """Return the value of an expression of constants; Refused where it is none."""
        nothing = Scope({}, {}, {}, (), frozenset(), frozenset())
        return affine_of(self.expressions.read(node), nothing).constant

    def _with_result(self, program: Program, function: c_ast.Node, last: c_ast.Node) -> Program:
        """Return the program with the value that its function returns, if that depends on what is read."""
        every = list(all_statements(program.body))
        own = {each.name for each in every if isinstance(each, Declare)}
        own |= {array_of(each.target) for each in every if isinstance(each, Assign)}
        value, names = nodes_at(last, "expr"), _names([last], c_ast.ID)
        if not value or own.isdisjoint(names):
            return program
        try:
            result = self.expressions.read(value[0])
            kind = self.expressions.element_type(node_at(node_at(function, "type"), "type"))
        except Refused:  # it stays behind the loops
            return program
        name = self._new("returned")
        return replace(program, result=result, returned=Declare(name, kind, (), None, self.expressions.line(last)))

    def _tables_of(
        self, tables: Sequence[c_ast.Node], parameters: Sequence[c_ast.Node], items: Sequence[c_ast.Node]
    ) -> list[c_ast.Node]:
        """Return the tables of constants declared outside that some statements read: as they never change, they may be
        set there."""
        own = {text_at(each, "name") for each in parameters}
        used, inside = (_names(items, kind) for kind in (c_ast.ID, c_ast.Decl))
        found = {name: each for each in tables if (name := text_at(each, "name")) in used and name not in own}
        for name in [each for each in found if each in inside]:
            what = f"'{name}' is declared twice, once as a table of constants"
            self.complaints.add("PM265", self.expressions.line(found[name]), what, "Rename one.")
        return list(found.values())

    def _element_of(self, declaration: c_ast.Node) -> str:
        """Return the type of the elements of an array or a pointer, "" for one that is not read."""
        try:
            return self.expressions.element_type(plain_type(node_at(declaration, "type")))
        except Refused:
            return ""

    def _parameters(self, declaration: c_ast.Node) -> list[c_ast.Node]:
        arguments = nodes_at(node_at(declaration, "type"), "args")
        return [node for node in nodes_at(arguments[0], "params") if isinstance(node, c_ast.Decl)] if arguments else []

    def _region(self, items: Sequence[c_ast.Node]) -> tuple[list[c_ast.Node], list[c_ast.Node]]:
        """Return the items before the marked region and around it, and those of the region."""
        before: list[c_ast.Node] = []
        for place, node in enumerate(items):
            if _is_mark(node, "scop"):
                end = next((at for at in range(place, len(items)) if _is_mark(items[at], "endscop")), len(items))
                return before, list(items[place + 1 : end])
            if _holds_mark(node):
                outer, inner = self._region([each for _, each in children(node)])
                return [*before, *outer], inner
            before.append(node)
        return before, []

    def _declared(self, nodes: Sequence[c_ast.Node]) -> list[Declare]:
        """Return the declarations among the items before a region; others are not read."""
        found: list[Declare] = []
        for node in nodes:
            if isinstance(node, c_ast.Decl | c_ast.DeclList):
                found += self._outside(node)
        return found

    def _lose_values(self, nodes: Sequence[c_ast.Node], *, around: bool = False) -> None:
        """Take away, in place, the values of declarations of variables that the file changes; around: the region."""
        text = "".join(each for each in self.source.file.tokens if not each.startswith('"'))
        text = _REGION.sub("", text) if around else text
        for each in nodes:
            if isinstance(each, c_ast.Decl) and nodes_at(each, "init") and is_changed(text_at(each, "name"), text):
                each.init = None

    def _outside(self, node: c_ast.Node) -> list[Declare]:
        """Return the declarations of a node outside what is read; tables are reported, as they would be set anew."""
        found = self.statement(node)
        for each in found:
            if isinstance(each, Assign | For):
                what = "a variable is set by a list outside the loops that are read"
                self.complaints.add("PM261", each.line, what, "Declare it inside the function (or the marked region).")
                break
        return [each for each in found if isinstance(each, Declare)]

    def statements(self, nodes: Sequence[c_ast.Node]) -> tuple[CStatement, ...]:
        return tuple(each for node in nodes for part in stepped(node) for each in self.statement(part))

    def statement(self, node: c_ast.Node) -> list[CStatement]:
        """Return the statements of a node (none, with a reported mistake, if it cannot be read)."""
        try:
            return self._statement(node)
        except Refused as refused:
            self.complaints.note(refused)
            return []

    def _statement(self, node: c_ast.Node) -> list[CStatement]:
        line = self.expressions.line(node)
        match node:
            case c_ast.Compound():
                return [Block(self.statements(nodes_at(node, "block_items")))]
            case c_ast.DeclList():
                return list(self.statements(nodes_at(node, "decls")))
            case c_ast.Typedef():
                self.expressions.define_type(text_at(node, "name"), node_at(node, "type"))
                return []
            case c_ast.Decl():
                return self._declaration(node, line)
            case c_ast.Assignment(rvalue=c_ast.Assignment() as inner):  # a = b = c
                *before, last = self._statement(inner)
                assert isinstance(last, Assign)
                value = self.expressions.read(node_at(inner, "lvalue"))
                return [*before, last, self._assignment(node, line, value)]
            case c_ast.Assignment() | c_ast.UnaryOp():
                return [self._assignment(node, line)]
            case c_ast.ExprList():
                return list(self.statements(nodes_at(node, "exprs")))
            case c_ast.DoWhile() if is_once(node):
                return [Block(self._body(node, "stmt"))]
            case c_ast.While() | c_ast.DoWhile():
                return while_loop(self, node, line)
            case c_ast.For() if not is_plain(node):
                return while_loop(self, node, line)
            case c_ast.For():
                return [self._loop(node, line)]
            case c_ast.Switch():
                return switch(self, node, line)
            case c_ast.If():
                condition = self.expressions.read(node_at(node, "cond"))
                return [If(condition, self._body(node, "iftrue"), self._body(node, "iffalse"), line)]
            case c_ast.EmptyStatement() | c_ast.Pragma() | c_ast.Cast(expr=c_ast.ID() | c_ast.Constant()):  # (void)n;
                return []
            case c_ast.FuncCall():
                what = f"a call stands alone, and what it does is not known{as_text(node)}"
                raise Refused("PM261", line, what, "Write it inline.")
            case c_ast.Goto():  # reported with all others
                return []
            case c_ast.Label():
                self._check_label(node)
                return self.statement(node_at(node, "stmt"))
            case _:
                kind = type(node).__name__
                what, hint = _UNREAD.get(kind, (f"a statement of kind {kind}", "for, if, else and assignments can be."))
                raise Refused("PM261", line, f"{what} cannot be read", hint)

    def _jumps(self, nodes: Sequence[c_ast.Node]) -> bool:
        """Report every goto among the nodes and their parts; return whether there are some."""
        found = [node for node in every(nodes) if isinstance(node, c_ast.Goto)]
        for node in found:
            what = f"'goto {text_at(node, 'name')}' jumps, and a loop nest has no jumps"
            hint = "Write loops as for, and what is jumped over in an if."
            self.complaints.add("PM261", self.expressions.line(node), what, hint)
        return bool(found)

    def _check_label(self, node: c_ast.Node) -> None:
        """Report a label, unless jumps are what is wrong."""
        if isinstance(node, c_ast.Label) and not self.jumps:
            what = f"the label '{text_at(node, 'name')}' cannot be read"
            self.complaints.add("PM261", self.expressions.line(node), what, "Nothing here jumps to it: remove it.")

    def _body(self, node: c_ast.Node, field: str) -> tuple[CStatement, ...]:
        return self.statements(nodes_at(node, field))

    def _loop_body(self, node: c_ast.Node) -> tuple[CStatement, ...]:
        """Return the statements of a loop's body, in its scope."""
        items = without_continue(items_of(node_at(node, "stmt")))
        return self.statements([c_ast.Compound(items)] if isinstance(node_at(node, "stmt"), c_ast.Compound) else items)

    def _declaration(self, node: c_ast.Node, line: int) -> list[CStatement]:
        name, kind = text_at(node, "name"), node_at(node, "type")
        if isinstance(kind, c_ast.FuncDecl | c_ast.Struct | c_ast.Enum | c_ast.Union):
            return []
        shape: list[CExpression | None] = []
        while isinstance(kind, c_ast.ArrayDecl | c_ast.PtrDecl):
            size = nodes_at(kind, "dim") if isinstance(kind, c_ast.ArrayDecl) else []
            shape.append(self.expressions.read(size[0]) if size else None)
            self.expressions.check_qualifiers(kind)
            kind = node_at(kind, "type")
        values = nodes_at(node, "init")
        element_type = self.expressions.element_type(kind)
        if values and isinstance(values[0], c_ast.InitList):
            if self.source.wrapped or (_is_kept(node) and "const" not in _words_at(kind, "quals")):
                hint = "Declare it inside the function, and const if it is static: then nothing else can have set it."
                raise Refused("PM261", line, f"'{name}' is set by a list before the loops run", hint)
            return _table(Declare(name, element_type, tuple(shape), None, line), values[0], self.expressions.read)
        value = self.expressions.read(values[0]) if values else None
        return [Declare(name, element_type, tuple(shape), value, line)]

    def _assignment(self, node: c_ast.Node, line: int, value: CExpression | None = None) -> Assign:
        """Return an assignment; value: what stands for its right side, if that is read already."""
        if isinstance(node, c_ast.UnaryOp):
            step = {"p++": "+=", "++": "+=", "p--": "-=", "--": "-="}.get(text_at(node, "op"))
            if step is None:
                raise Refused("PM261", line, "an expression stands alone", "Assign it to something.")
            operator, value, place = step, Literal("1", 1, line), node_at(node, "expr")
        else:
            operator, place = text_at(node, "op"), node_at(node, "lvalue")
        if value is None:
            target, value = self.expressions.read_all((place, node_at(node, "rvalue")))
        else:
            target = self.expressions.read(place)
        if not isinstance(target, Name | Item):
            raise Refused("PM261", line, "only a variable or an array element can be assigned to")
        if operator not in ("=", "+=", "-=", "*=", "/="):
            operator, value = "=", Binary(operator[:-1], target, value, line)
        return Assign(target, operator, value, line)

    def _loop(self, node: c_ast.Node, line: int) -> For:
        starts, conditions, steps = (nodes_at(node, field) for field in ("init", "cond", "next"))
        if isinstance(starts[0], c_ast.DeclList):
            declared, *others = self.statement(starts[0])
            if others or not isinstance(declared, Declare) or declared.value is None:
                raise Refused("PM261", line, "a loop counts one variable", "Write for (int i = 0; i < N; i++).")
            if declared.shape:
                what = f"the loop counts in '{declared.name}', a pointer that is no place in one array all along"
                raise Refused("PM261", line, what, "Count in an int, and write A[i].")
            variable, start, element_type = declared.name, declared.value, declared.element_type
        else:
            first = self._assignment(starts[0], line) if isinstance(starts[0], c_ast.Assignment) else None
            if first is None or first.operator != "=" or not isinstance(first.target, Name):
                raise Refused("PM261", line, "a loop starts with one assignment", "Write for (i = 0; i < N; i++).")
            variable, start, element_type = first.target.name, first.value, None
        condition = until_zero(self.expressions.read(conditions[0]), variable)
        step = self._step(steps[0], variable, line)
        return For(variable, start, condition, step, element_type, self._loop_body(node), line)

    def _step(self, node: c_ast.Node, variable: str, line: int) -> CExpression:
        """Return what is added to the variable in each iteration."""
        if isinstance(node, c_ast.Assignment | c_ast.UnaryOp):
            step = self._assignment(node, line)
            if isinstance(step.target, Name) and step.target.name == variable:
                match step.operator, step.value:
                    case "+=", value:
                        return value
                    case "-=", value:
                        return negated(value, line)
                    case "=", Binary("+", Name(name), value) if name == variable:
                        return value
                    case "=", Binary("+", value, Name(name)) if name == variable:
                        return value
                    case "=", Binary("-", Name(name), value) if name == variable:
                        return negated(value, line)
                    case _:
                        pass
        hint = "i++, i--, i += 2, i -= 2 are steps."
        raise Refused("PM261", line, f"the step of the loop over '{variable}' cannot be read", hint)


def declaration_texts(syntax: Syntax) -> dict[tuple[str, int], str]:
    """Return (name, line) -> `type name[sizes]` of every variable declared in the region, without its initial value,
    and `const`; types are spelled as in the text. "" for static ones, and for two of one name and line that differ."""
    found: dict[tuple[str, int], str] = {}
    for node in every(syntax.body):
        if isinstance(node, c_ast.Decl):
            name, kind = text_at(node, "name"), plain_type(node_at(node, "type"))
            if isinstance(kind, c_ast.TypeDecl):
                line: object = getattr(getattr(node, "coord", None), "line", 0)
                assert isinstance(line, int)
                values = nodes_at(node, "init")
                count = len(nodes_at(values[0], "exprs")) if values and isinstance(values[0], c_ast.InitList) else 0
                text = _plain_declaration(name, node_at(node, "type"), count)
                # A static variable would not be set anew, but for a table of constants.
                kept = _words_at(node, "storage") and not (count and "const" in _words_at(kind, "quals"))
                found[name, line] = text if found.get((name, line), text) == text and not kept else ""
    return found


def _plain_declaration(name: str, kind: c_ast.Node, count: int) -> str:
    """Return `type name[sizes]`; count: of the values in the list that sets it, its size where none is written."""
    sizes = ""
    while not isinstance(kind, c_ast.TypeDecl):
        size = nodes_at(kind, "dim")
        sizes += f"[{c_generator.CGenerator().visit(size[0])}]" if size else f"[{count or ''}]"
        kind = node_at(kind, "type")
    return f"{c_generator.CGenerator().visit(node_at(kind, 'type'))} {name}{sizes}"


def _is_constant_table(node: c_ast.Node) -> bool:
    """Return whether a declaration is one of an array of constants with their values."""
    if not isinstance(node, c_ast.Decl) or not any(isinstance(each, c_ast.InitList) for each in nodes_at(node, "init")):
        return False
    return "const" in _words_at(plain_type(node_at(node, "type")), "quals")


def _names(nodes: Sequence[c_ast.Node], kind: type[c_ast.Node]) -> set[str]:
    """Return the names of the nodes of a kind that occur in some nodes."""
    return {text_at(node, "name") for node in every(nodes) if isinstance(node, kind)}


def _is_kept(node: c_ast.Node) -> bool:
    """Return whether a node declares a variable that keeps its value from call to call."""
    return isinstance(node, c_ast.Decl) and not {"static", "extern"}.isdisjoint(_words_at(node, "storage"))


def _words_at(node: c_ast.Node, field: str) -> list[str]:
    return cast("list[str]", getattr(node, field, None) or [])


def _labelled(node: c_ast.Node) -> c_ast.Node:
    """Return the statement behind labels."""
    while isinstance(node, c_ast.Label):
        node = node_at(node, "stmt")
    return node


def _is_mark(node: c_ast.Node, word: str) -> bool:
    return isinstance(node, c_ast.Pragma) and text_at(node, "string").split()[:1] == [word]


def _holds_mark(node: c_ast.Node) -> bool:
    return any(_is_mark(each, "scop") for each in every([node]))


# --- arrays that a list sets where they are declared (C99 6.7.8), as assignments to their elements ---


def _table(declared: Declare, values: c_ast.Node, read: Callable[[c_ast.Node], CExpression]) -> list[CStatement]:
    """Return a declared array with its sizes, loops that set it to zero where the list leaves elements out, and an
    assignment per value of the list. Refused where the list is not one of values (of rows of values ...)."""
    name, shape, line = declared.name, declared.shape, declared.line
    if not shape:
        raise Refused("PM261", line, f"'{name}' is no array and is set by a list", f"Write {name} = value.")
    length = len(_listed(values))
    count = Literal(str(length), length, line)
    sizes = [count if each is None and place == 0 else each for place, each in enumerate(shape)]
    given = dict(_values_of_list(declared, values, read, len(sizes), ()))
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
    own = [Assign(_element(name, index, line), "=", value, line) for index, value in given.items()]
    if start:
        own = [each for each in own if not (isinstance(each.value, Literal) and each.value.number == 0)]
    return [replace(declared, shape=tuple(sizes)), *start, *own]


def _listed(values: c_ast.Node) -> list[c_ast.Node]:
    return cast("list[c_ast.Node]", getattr(values, "exprs", None) or [])


def _element(name: str, index: Sequence[int], line: int) -> Item:
    return Item(name, tuple(Literal(str(each), each, line) for each in index), line)


def _values_of_list(
    declared: Declare, node: c_ast.Node, read: Callable[[c_ast.Node], CExpression], depth: int, index: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], CExpression]]:
    """Yield (index, value) of the values in the list."""
    if not depth:
        if isinstance(node, c_ast.InitList | c_ast.NamedInitializer):
            raise Refused("PM261", declared.line, f"the list that sets '{declared.name}' cannot be read", _LIST_HINT)
        yield index, read(node)
        return
    if not isinstance(node, c_ast.InitList):
        if not isinstance(node, c_ast.Constant) or getattr(node, "value", "") != "0" or any(index):
            raise Refused("PM261", declared.line, f"the list that sets '{declared.name}' cannot be read", _LIST_HINT)
        return  # {0} of several axes
    for number, each in enumerate(_listed(node)):
        yield from _values_of_list(declared, each, read, depth - 1, (*index, number))


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
