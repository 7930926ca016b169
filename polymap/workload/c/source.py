"""Extracts the function (or region) to read from the text of a C file, without comments, directives and macros.

No preprocessor is run and no include is followed. Lines keep their numbers, so that messages can name them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from polymap.inputs import shown
from polymap.ir import InputError, Mistake

MAX_SOURCE_CHARACTERS = 1_000_000
MAX_TOKENS = 200_000
MAX_NESTING = 200
MAX_MACRO_DEPTH = 40

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|/\*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_BLANKED = re.compile(r"(\\\x00)|[^\n]")
_TOKEN = re.compile(
    r"\n|[ \t\r\f\v]+|[A-Za-z_][A-Za-z0-9_]*|\.?[0-9](?:[eEpP][+-]|[A-Za-z0-9_.])*"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|.",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*([A-Za-z]*)(.*)", re.DOTALL)
_DEFINE = re.compile(r"[ \t]*([A-Za-z_][A-Za-z0-9_]*)(\(([^)]*)\))?(.*)", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SCOP = re.compile(r"[ \t]*(scop|endscop)\b")

# What compilers and PolyBench's headers, which are not followed, would have defined.
_KNOWN = {
    "__restrict": ((), ""), "__restrict__": ((), ""), "__inline__": ((), ""), "__extension__": ((), ""),
    "__attribute__": (("x",), ""), "SCALAR_VAL": (("x",), "x"),
    "SQRT_FUN": (("x",), "sqrt(x)"), "EXP_FUN": (("x",), "exp(x)"), "POW_FUN": (("x", "y"), "pow(x,y)"),
    "POLYBENCH_1D": (("v", "a", "s"), "v[a]"), "POLYBENCH_2D": (("v", "a", "b", "s", "t"), "v[a][b]"),
    "POLYBENCH_3D": (("v", "a", "b", "c", "s", "t", "u"), "v[a][b][c]"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Source:
    """The text to parse: one translation unit.

    has_region: `#pragma scop` and `#pragma endscop` mark what is read. wrapped: the text held no function and was put
    into one, so what it declares at its top belongs to the file. words: every identifier that occurs. functions: the
    names of all that the file defines. lines: of the user's text, comments blanked.
    """

    text: str
    has_region: bool
    wrapped: bool
    words: frozenset[str]
    functions: frozenset[str]
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Macro:
    parameters: tuple[str, ...] | None
    body: tuple[str, ...]


def prepare(source: str, sizes: Mapping[str, int], file: str) -> Source:
    """Return the function to read, its macros expanded; names in `sizes` stand for themselves and are not expanded.

    Raises InputError: too large, directives that polymap does not read, no function, or several without a mark.
    """
    if len(source) > MAX_SOURCE_CHARACTERS:
        what = f"{file} has {len(source):,} characters; C sources of up to {MAX_SOURCE_CHARACTERS:,} are read"
        raise InputError(Mistake("PM151", what, "Keep the loop nest, leave the rest away."))
    plain = _without_comments(source, file)
    if not plain.strip():
        what = f"{file} is empty" if not source.strip() else f"{file} holds nothing but comments"
        raise InputError(Mistake("PM153", what, "A 'for' nest is read."))
    reader = _Directives(sizes, file)
    lines = [reader.line(number, text) for number, text in _logical_lines(plain)]
    reader.end()
    tokens = _Expander(reader.macros, file).expand(_tokens("\n".join(lines)))
    _check_names(tokens, file)
    _check_nesting(tokens, file)
    pieces = [piece for piece in _pieces(tokens) if piece.function]
    chosen, wrapped = _one_function(tokens, pieces, file)
    words = frozenset(token for token in chosen if _WORD.fullmatch(token))
    shown_lines = tuple(plain.replace("\\\x00", "\n").split("\n"))
    functions = frozenset(piece.function for piece in pieces)
    return Source("".join(chosen), reader.has_region, wrapped, words, functions, shown_lines)


def _without_comments(source: str, file: str) -> str:
    def replacement(match: re.Match[str]) -> str:
        text = match.group()
        if text == "/*":
            line = source.count("\n", 0, match.start()) + 1
            raise InputError(Mistake("PM150", f"a comment is not closed ({file}:{line})", "Close it with */."))
        return _BLANKED.sub(lambda found: found.group(1) or " ", text) if text.startswith("/") else text

    return _COMMENT.sub(replacement, source.replace("\r\n", "\n").replace("\\\n", "\\\x00"))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line number, text) with continued lines joined, each followed by an empty line per continuation."""
    number = 1
    for line in text.split("\n"):
        continued = line.count("\\\x00")
        yield number, line.replace("\\\x00", " ").replace("\x00", " ")
        for extra in range(continued):
            yield number + extra + 1, ""
        number += continued + 1


def _tokens(text: str) -> list[str]:
    return _TOKEN.findall(text)


@dataclass(slots=True)
class _Directives:
    """Reads the lines in order: records macros, drops lines that conditions exclude."""

    sizes: Mapping[str, int]
    file: str
    macros: dict[str, _Macro] = field(default_factory=dict[str, _Macro])
    active: list[bool] = field(default_factory=list[bool])
    opened: int = 0
    has_region: bool = False

    def __post_init__(self) -> None:
        for name, (parameters, body) in _KNOWN.items():
            self.macros[name] = _Macro(parameters or None, tuple(_tokens(body)))

    def line(self, number: int, text: str) -> str:
        """Return the rest of a line after directives: of these only the marks of the region are kept."""
        match = _DIRECTIVE.fullmatch(text)
        if match is None:
            return text if all(self.active) else ""
        word, rest = match.groups()
        if word in ("if", "ifdef", "ifndef", "else", "elif", "endif"):
            self._condition(word, rest.strip(), number)
        elif all(self.active):
            return self._directive(word, rest, number)
        return ""

    def _directive(self, word: str, rest: str, number: int) -> str:
        match word:
            case "define":
                self._define(rest, number)
            case "undef":
                self.macros.pop(rest.strip(), None)
            case "pragma" if mark := _SCOP.match(rest):
                return self._mark(mark.group(1), number)
            case "include" | "pragma" | "line" | "":
                pass
            case _:
                self._refuse(f"the directive '#{word[:40]}' is not read", number, "#define and #include are known.")
        return ""

    def _mark(self, word: str, number: int) -> str:
        opens = word == "scop"
        if opens == bool(self.opened) or (opens and self.has_region):
            found = "a second '#pragma scop'" if opens else "'#pragma endscop' without its '#pragma scop'"
            self._refuse(f"{found} was found", number, "One region is read.")
        self.opened = number if opens else 0
        self.has_region = True
        return f"#pragma {word}"

    def _define(self, rest: str, number: int) -> None:
        match = _DEFINE.fullmatch(rest)
        if match is None:
            self._refuse("'#define' is not followed by a name", number, "Write it as #define N 64.")
            return
        name, parenthesis, inside, body = match.groups()
        tokens = _tokens(body.strip())
        if "#" in tokens:
            self._refuse(f"the macro {shown(name)} uses # or ##", number, "Write out what it stands for.")
        if name not in self.sizes:
            words = tuple(word.strip() for word in inside.split(",") if word.strip()) if parenthesis else None
            self.macros[name] = _Macro(words, tuple(token for token in tokens if token != "\n"))

    def _condition(self, word: str, rest: str, number: int) -> None:
        match word:
            case "ifdef" | "ifndef":
                known = rest.split()[:1] and (rest.split()[0] in self.macros or rest.split()[0] in self.sizes)
                self.active.append(bool(known) == (word == "ifdef"))
            case "if" if rest in ("0", "1"):
                self.active.append(rest == "1")
            case "else" if self.active:
                self.active[-1] = not self.active[-1]
            case "endif" if self.active:
                self.active.pop()
            case "if" | "elif":
                self._refuse(f"'#{word}' is not read", number, "#ifdef, #ifndef, #if 0 and #if 1 are.")
            case _:
                self._refuse(f"'#{word}' has no '#if'", number, "Remove it.")

    def end(self) -> None:
        """Refuse a region and conditions that are still open."""
        if self.opened:
            self._refuse("'#pragma scop' is never closed", self.opened, "Put '#pragma endscop' behind the nest.")
        if self.active:
            raise InputError(Mistake("PM152", f"a condition has no '#endif' ({self.file})", "Close it."))

    def _refuse(self, what: str, number: int, hint: str) -> None:
        raise InputError(Mistake("PM152", f"{what} ({self.file}:{number})", hint))


@dataclass(slots=True)
class _Expander:
    """Expands macros, with a limit on the length of the result."""

    macros: Mapping[str, _Macro]
    file: str
    produced: int = 0

    def expand(self, tokens: list[str], hidden: frozenset[str] = frozenset()) -> list[str]:
        out: list[str] = []
        place = 0
        while place < len(tokens):
            token = tokens[place]
            place += 1
            macro = None if token in hidden else self.macros.get(token)
            if macro is None:
                out.append(token)
                self._spend(1)
                continue
            arguments: list[list[str]] = []
            if macro.parameters is not None:
                arguments, end = _arguments(tokens, place)
                if end == place:
                    out.append(token)
                    continue
                place = end
            out += self._replaced(token, macro, arguments, hidden)
        return out

    def _replaced(self, name: str, macro: _Macro, arguments: list[list[str]], hidden: frozenset[str]) -> list[str]:
        if len(hidden) >= MAX_MACRO_DEPTH:
            raise InputError(Mistake("PM151", f"the macro {shown(name)} is nested too deeply ({self.file})"))
        body = list(macro.body)
        newlines = ["\n"] * sum(argument.count("\n") for argument in arguments)
        if macro.parameters is not None:
            if len(arguments) != len(macro.parameters):
                what = f"the macro {shown(name)} takes {len(macro.parameters)} arguments, not {len(arguments)}"
                raise InputError(Mistake("PM152", f"{what} ({self.file})"))
            clean = ([token for token in argument if token != "\n"] for argument in arguments)
            values = dict(zip(macro.parameters, (self.expand(argument, hidden) for argument in clean), strict=True))
            body = [part for token in body for part in values.get(token, [token])]
        return [" ", *self.expand(body, hidden | {name}), " ", *newlines]

    def _spend(self, tokens: int) -> None:
        self.produced += tokens
        if self.produced > 4 * MAX_TOKENS:
            raise InputError(Mistake("PM151", f"{self.file} has more than {MAX_TOKENS:,} words", "Keep the loop nest."))


def _arguments(tokens: list[str], place: int) -> tuple[list[list[str]], int]:
    """Return a macro call's arguments and the position after it; the same position if no call follows."""
    start = place
    while start < len(tokens) and tokens[start].isspace():
        start += 1
    if start == len(tokens) or tokens[start] != "(":
        return [], place
    depth, arguments = 0, [list[str]()]
    for end in range(start, len(tokens)):
        token = tokens[end]
        depth += (token == "(") - (token == ")")
        if depth == 0:
            return arguments, end + 1
        if token == "," and depth == 1:
            arguments.append([])
        elif end > start:
            arguments[-1].append(token)
    return [], place


def _check_names(tokens: list[str], file: str) -> None:
    """Refuse characters that some compilers, but not C, accept in names."""
    line = 1
    for token in tokens:
        line += token == "\n"
        if token in "$@`" or (len(token) == 1 and not token.isascii()):
            what = f"{shown(token)} stands in a name or by itself ({file}:{line})"
            raise InputError(Mistake("PM150", what, "Names of C are made of ASCII letters, digits and underscores."))


def _check_nesting(tokens: list[str], file: str) -> None:
    depth, line = 0, 1
    for token in tokens:
        line += token == "\n"
        depth += (token in "([{") - (token in ")]}")
        if depth > MAX_NESTING:
            raise InputError(Mistake("PM151", f"brackets are nested deeper than {MAX_NESTING} ({file}:{line})"))


@dataclass(frozen=True, slots=True)
class _Piece:
    """Tokens [start, end) at file level; `function`: the name of the function that they define, else ""."""

    start: int
    end: int
    function: str


def _pieces(tokens: list[str]) -> Iterator[_Piece]:
    """Yield declarations and functions: token ranges between semicolons and closing braces at depth 0."""
    depth, start = 0, 0
    last, function, called = "", "", ""
    for place, token in enumerate(tokens):
        if token.isspace():
            continue
        if depth == 0 and token == "(" and not called and _WORD.fullmatch(last):
            called = last
        if depth == 0 and token == "{" and last == ")" and called not in ("for", "if", "while", "switch"):
            function = called
        depth += (token in "({[") - (token in ")}]")
        if depth == 0 and (token == ";" or (token == "}" and (function or called))):
            yield _Piece(start, place + 1, function)
            start, function, called = place + 1, "", ""
        last = token
    yield _Piece(start, len(tokens), function)  # a function that is never closed: the parser tells where


def _one_function(tokens: list[str], functions: list[_Piece], file: str) -> tuple[list[str], bool]:
    """Return the tokens with all functions except the one to read blanked, or all of them wrapped into a function."""
    if not functions:
        return ['void polymap_nest(void) {\n#line 1 "source"\n', *tokens, "\n}"], True
    marked = [piece for piece in functions if "#" in tokens[piece.start : piece.end]]
    loops = [[p for p in functions if word in tokens[p.start : p.end]] for word in ("for", "while", "goto")]
    wanted = marked or loops[0] or loops[1] or loops[2]  # of those but `for` the parser tells the line
    if len(wanted) != 1:
        what = f"{len(wanted) or 'no'} functions of {file} have loops"
        names = ", ".join(piece.function for piece in wanted)
        hint = "Mark the nest with '#pragma scop' and '#pragma endscop'." if wanted else "A 'for' nest is read."
        raise InputError(Mistake("PM153", f"{what}: {names}" if wanted else what, hint))
    kept = list(tokens)
    for piece in functions:
        if piece is not wanted[0]:
            kept[piece.start : piece.end] = [
                token if token == "\n" else " " for token in tokens[piece.start : piece.end]
            ]
    return kept, False
