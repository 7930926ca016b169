"""Modules of MLIR read by xdsl, with the operations that it has no reader for: named ones of linalg and StableHLO by
readers of their own, others as operations of which only the operands are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from polymap.importers.linalg_named import is_named
from polymap.importers.nodes import extra, line_of
from polymap.importers.stablehlo import LAYERS
from polymap.ir import InputError, Mistake

DIALECTS = ("builtin", "func", "linalg", "arith", "tensor", "memref", "math", "affine", "scf")
DAMAGE = (ValueError, KeyError, IndexError, AttributeError, AssertionError, TypeError, NotImplementedError)


class Written(NamedTuple):
    """What an operation that is read here says beside its operands: the text of its attributes, and its
    `indexing_maps`."""

    text: str
    maps: Sequence[Any] = ()


class Module(NamedTuple):
    """A module, what its named operations say, the operations that stand for what could not be read (with the reason),
    and which of these have the values as results that no other operation defines."""

    module: Any
    written: dict[Any, Written]
    skipped: dict[Any, str]
    producers: dict[Any, Any]


def module_of(text: str) -> Module:
    """Return the module that a text is. Raises InputError (PM643) for a text that is none."""
    if text.strip().endswith(".mlir"):  # xdsl would read it as an operation
        hint = "Give what stands in it: from_linalg(Path(...).read_text())."
        raise InputError(Mistake("PM643", "the text is the name of a file", hint))
    context = extra("xdsl.context", "from_linalg").Context(allow_unregistered=True)
    for dialect, load in extra("xdsl.dialects", "from_linalg").get_all_dialects().items():
        if dialect in DIALECTS:
            context.register_dialect(dialect, load)
    errors = extra("xdsl.utils.exceptions", "from_linalg")
    told = (errors.ParseError, errors.VerifyException, errors.DiagnosticException, *DAMAGE, RecursionError)
    seen = _HIDDEN.sub(lambda found: " " * len(found[0]), text)
    if '"' in seen:  # xdsl would search for its end for ages
        line = seen.count("\n", 0, seen.index('"')) + 1
        raise InputError(Mistake("PM643", f"the text is no module of linalg: the quotes of line {line} are not closed"))
    skips = _Skips(told, seen)
    # Not verified: xdsl refuses named operations whose operands have several element types, which MLIR allows.
    try:
        parser = _lenient(extra("xdsl.parser", "from_linalg").Parser, skips)(context, text)
        return Module(parser.parse_module(), skips.written, skips.skipped, skips.producers)
    except told as error:
        raise InputError(Mistake("PM643", f"the text is no module of linalg: {line_of(error)}")) from None


_RESULTS = r"%[\w$.-]+(?::\d+)?\s*(?:,\s*%[\w$.-]+(?::\d+)?\s*)*="
_OPERATION = r"[A-Za-z_]\w*\.[\w.$]+(?![\w.$]|\s*[,}=])"  # not the name of an attribute
_START = rf'(?:{_RESULTS}|{_OPERATION}|return\b|"[\w.$]+"\s*\()'
_NEXT = re.compile(rf"\s*(?://[^\n]*\s*)*(?:{_START}|\}}|\^|\Z|[#!][\w.$]+\s*=|\{{-#)")
_BODY = re.compile(rf"\{{\s*(?://[^\n]*\s*)*(?:{_START}|\^|\}}\s*(?:\n|\Z))")
_HEAD = re.compile(r"\s*(?:((?:%[\w$.-]+(?::\d+)?[\s,]*)+)=\s*)?\"?([A-Za-z_]\w*(?:\.[\w.$]+)?)")
_NAMES = re.compile(r"%([\w$.-]+)")
_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|->|[][(){}<>]|\n|[^][(){}<>\n"/-]+|.', re.DOTALL)
_HIDDEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*')
_OPERANDS = re.compile(r"\bins\s*\(")
_MAPS = re.compile(r"\bindexing_maps\s*=\s*(?=\[)")
_SIGN = re.compile(r"->|[][(){}<>:]")

_OPENING, _CLOSING = ("(", "[", "{", "<"), (")", "]", "}", ">")
_NEVER_SKIPPED = ("func.", "builtin.", "module", "return")


def _reason(name: str, error: Exception) -> str:
    dialect = name.partition(".")[0]
    if dialect not in DIALECTS and name not in LAYERS:
        return f"no operation of linalg, but of the dialect {dialect[:60]}"
    return f"xdsl cannot read it: {line_of(error)}"


def _colon(seen: str, start: int, *, has_regions: bool = False) -> int:
    """Return the place of the colon before the types of an operation. has_regions: other operations may stand in it."""
    depth = 0
    for found in _SIGN.finditer(seen, start):
        depth += (found[0] in _OPENING) - (found[0] in _CLOSING)
        if depth < 0 or (depth == 0 and found[0] == ":"):
            if found[0] == ":" and (has_regions or re.search(_RESULTS, seen[start : found.start()]) is None):
                return found.start()
            break
    raise ValueError("it has no types")


def _lenient(base: Any, skips: _Skips) -> Any:
    """Return a parser with readers of named operations, in which an operation that it cannot read stands for itself."""

    def parse_operation(parser: Any) -> Any:
        return skips.operation(parser, lambda: base.parse_operation(parser))

    def parse_optional_region(parser: Any, arguments: Any = None) -> Any:
        return skips.region(lambda: base.parse_optional_region(parser, arguments))

    def get_op_by_name(parser: Any, name: str) -> Any:
        dialect, _, word = name.partition(".")
        is_read = name in LAYERS or (dialect == "linalg" and is_named(word))
        return _Form(name, skips) if is_read else base._get_op_by_name(parser, name)

    def parse_generic_operation(parser: Any, kind: Any) -> Any:
        if isinstance(kind, _Form) and kind.name in LAYERS:
            return kind.quoted(parser)
        kind = base._get_op_by_name(parser, kind.name) if isinstance(kind, _Form) else kind
        return base._parse_generic_operation(parser, kind)

    members = {
        "parse_operation": parse_operation,
        "parse_optional_region": parse_optional_region,
        "_get_op_by_name": get_op_by_name,
        "_parse_generic_operation": parse_generic_operation,
    }
    return type("Lenient", (base,), members)


class _Form:
    """Reads the operations of a name; stands for a class of operations of xdsl."""

    def __init__(self, name: str, skips: _Skips) -> None:
        self.name, self._skips = name, skips

    def dialect_name(self) -> str:
        return self.name.partition(".")[0]

    def parse(self, parser: Any) -> Any:
        """Return the operation whose name was read last."""
        read = self._linalg if self.dialect_name() == "linalg" else self._stablehlo
        return read(parser, parser.pos, self._skips.seen)

    def _linalg(self, parser: Any, start: int, seen: str) -> Any:
        first, maps = _OPERANDS.search(seen, start), ()
        if first is None or "linalg." in seen[start : first.start()].replace("#linalg.", ""):
            raise ValueError("it has no operands")
        if (given := _MAPS.search(seen, start, first.start())) is not None:
            parser._resume_from(given.end())
            maps = tuple(each.data for each in parser.parse_attribute().data)
        parser._resume_from(first.start())
        operands = [*self._operands(parser, "ins"), *self._operands(parser, "outs")]
        kind, regions = operands[-1].type, list[Any]()
        with_body = self.name in ("linalg.reduce", "linalg.map")
        if with_body and parser.parse_optional_keyword("dimensions"):
            parser.parse_punctuation("=")
            parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
        end = parser.pos
        if with_body and seen[end : end + 1] == "(":
            arguments = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_argument)
            regions.append(parser.parse_region(arguments))
        is_tensor = with_body and kind.name == "tensor"
        results = [parser.parse_type()] if parser.parse_optional_punctuation("->") else [kind] * is_tensor
        return self._made(operands, results, Written(seen[start:end], maps), regions)

    def _operands(self, parser: Any, word: str) -> Sequence[Any]:
        parser.parse_keyword(word)
        parser.parse_punctuation("(")
        names = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_unresolved_operand)
        parser.parse_punctuation(":")
        types = parser.parse_comma_separated_list(parser.Delimiter.NONE, parser.parse_type)
        parser.parse_punctuation(")")
        return parser.resolve_operands(names, types, parser.pos)

    def _stablehlo(self, parser: Any, start: int, seen: str) -> Any:
        """Return an operation that ends with its type, or the types of its operands and result."""
        place = _colon(seen, start)
        return self._typed(parser, start, place, place, seen)

    def quoted(self, parser: Any) -> Any:
        """Return an operation of the generic form, whose name was read last: its operands, attributes and regions."""
        start, seen = parser.pos, self._skips.seen
        place, end = _colon(seen, start, has_regions=True), seen.index(")", start)
        return self._typed(parser, start, place, end, str(parser.lexer.input.content))

    def _typed(self, parser: Any, start: int, place: int, end: int, text: str) -> Any:
        """Return an operation with its types behind the colon at `place`, and its operands before `end`."""
        names: list[Any] = []
        for each in _NAMES.finditer(self._skips.seen, start, end):
            parser._resume_from(each.start())
            names.append(parser.parse_unresolved_operand())
        parser._resume_from(place + 1)
        kind = parser.parse_type()
        inputs, outputs = (
            (kind.inputs.data, kind.outputs.data) if hasattr(kind, "outputs") else ([kind] * len(names), [kind])
        )
        return self._made(parser.resolve_operands(names, inputs, place), outputs, Written(text[start:place]), [])

    def _made(self, operands: Sequence[Any], results: Sequence[Any], written: Written, regions: list[Any]) -> Any:
        kind = self._skips.unregistered.with_name(self.name)
        made = kind.create(operands=operands, result_types=results, regions=regions)
        self._skips.written[made] = written
        return made


class _Skips:
    """Skips the operations that xdsl cannot read: their results have the types of their uses, and the operations in
    their regions are read.

    told: what xdsl raises. seen: the text without comments and texts in it. written: what operations that are read here
    say. skipped: the operations that stand for what was skipped, and why. producers: which of these operations has a
    value as its result that no other one defines.
    """

    def __init__(self, told: tuple[type[Exception], ...], seen: str) -> None:
        self._told, self.seen = told, seen
        self.unregistered = extra("xdsl.dialects.builtin", "from_linalg").UnregisteredOp
        self.written: dict[Any, Written] = {}
        self.skipped: dict[Any, str] = {}
        self.producers: dict[Any, Any] = {}
        self._open: dict[str, Any] = {}  # names that skipped text defines in this region, and its operation
        self._arguments: list[str] = []  # that the next region may have

    def operation(self, parser: Any, read: Callable[[], Any]) -> Any:
        """Return the next operation of a text, or what stands for it."""
        names, references = dict(parser.ssa_values), {n: dict(v) for n, v in parser.forward_ssa_references.items()}
        blocks = (parser.blocks, parser.forward_block_references, self._open)
        start, stack = parser.pos, list(parser._parser_state.dialect_stack)
        head = _HEAD.match(parser.lexer.input.content, start)
        try:
            made = read()
        except self._told as error:
            if head is None or head[2].startswith(_NEVER_SKIPPED):
                raise
            parser.ssa_values, parser.forward_ssa_references = names, references
            parser.blocks, parser.forward_block_references, self._open = blocks
            parser._parser_state.dialect_stack[:] = stack
            made = self._skip(parser, start, head, error)
        for name in [each for each in parser.forward_ssa_references if each in self._open]:
            values = parser.forward_ssa_references.pop(name).values()
            self.producers |= dict.fromkeys(values, self._open[name])
        return made

    def region(self, read: Callable[[], Any]) -> Any:
        """Return the next region of a text; what skipped text defines in it is not known outside."""
        outer, self._open = self._open, dict.fromkeys(self._arguments)
        self._arguments = []
        region = read()
        self._open = outer
        return region

    def _skip(self, parser: Any, start: int, head: re.Match[str], error: Exception) -> Any:
        """Return the operation that stands for the text from `start` on, and go on behind it."""
        regions: list[Any] = []
        text, place, depth = str(parser.lexer.input.content), head.end(), 0
        while place < len(text) and not (depth == 0 and text[place] == "\n" and _NEXT.match(text, place)):
            if depth == 0 and _BODY.match(text, place):
                defined = _NAMES.findall(text, head.end(), place)
                self._arguments = [name for name in defined if name not in parser.ssa_values]
                parser._resume_from(place)
                regions.append(parser.parse_region())
                place = text.rindex("}", place, parser.pos) + 1  # what is next may stand on another line
                continue
            token = _TOKEN.match(text, place)
            assert token is not None, "any character is a token"
            depth += (token[0] in _OPENING) - (token[0] in _CLOSING)
            if depth < 0:  # the end of the region around, on the same line
                break
            place = token.end()
        if depth > 0:
            raise error
        parser._resume_from(place)
        used = dict.fromkeys(_NAMES.findall(text, head.end(), place))
        operands = [parser.ssa_values[name][0] for name in used if name in parser.ssa_values]
        made = self.unregistered.with_name(head[2]).create(operands=operands, regions=regions)
        self._open |= dict.fromkeys(_NAMES.findall(head[1] or ""), made)
        self.skipped[made] = _reason(head[2], error)
        return made
