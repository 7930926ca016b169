"""Extracts the function (or region) to read from the text of a C file, preprocessed, without includes.

Lines keep their numbers, so that messages can name them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from polymap.inputs import shown
from polymap.ir import InputError, Mistake
from polymap.workload.c.conditions import Group
from polymap.workload.c.decisions import Assumption, Interest, Part, assumptions, identifiers, undecided_error
from polymap.workload.c.directives import Expanded, expanded
from polymap.workload.c.inlined import helpers_of, with_inlined
from polymap.workload.c.macros import Macro
from polymap.workload.tuning import TUNING

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMPILERS_OWN = re.compile(r"__[A-Z0-9_]+__|__STDC_\w*|_OPENMP")
_HEADER = re.compile(r"<(\w+)\.h>")
_NO_NUMBERS = re.compile(r"INFINITY|NAN|HUGE_VAL[FL]?")
_GENERIC = re.compile(  # C99 7.22
    r"a?(sin|cos|tan)h?|atan2|sqrt|cbrt|hypot|pow|exp[2m]?1?|log(2|10|1p|b)?|fabs|fdim|fma|fmax|fmin|fmod|copysign|"
    r"ceil|floor|trunc|round|rint|nearbyint|ll?(rint|round)|erfc?|[lt]gamma"
)

# What compilers and PolyBench's headers, which are not followed, would have defined.
_KNOWN = {
    "__restrict": ((), ""), "__restrict__": ((), ""), "__inline__": ((), ""), "__extension__": ((), ""),
    "__attribute__": (("x",), ""), "SCALAR_VAL": (("x",), "x"),
    "SQRT_FUN": (("x",), "sqrt(x)"), "EXP_FUN": (("x",), "exp(x)"), "POW_FUN": (("x", "y"), "pow(x,y)"),
    "POLYBENCH_1D": (("v", "a", "s"), "v[a]"), "POLYBENCH_2D": (("v", "a", "b", "s", "t"), "v[a][b]"),
    "POLYBENCH_3D": (("v", "a", "b", "c", "s", "t", "u"), "v[a][b][c]"),
}  # fmt: skip
_BUILTIN = {name: Macro(words or None, tuple(re.findall(r"\w+|.", body))) for name, (words, body) in _KNOWN.items()}

VALUE_MACROS = ("SCALAR_VAL", "SQRT_FUN", "EXP_FUN", "POW_FUN")  # what their headers make of them depends on the type


@dataclass(frozen=True, slots=True)
class Source:
    """The text to parse: one translation unit.

    has_region: `#pragma scop` and `#pragma endscop` mark what is read. wrapped: the text held no function and was put
    into one, so what it declares at its top belongs to the file. words: every identifier that occurs. functions: the
    names of all that the file defines. lines: of the user's text, comments blanked. file: all of it, preprocessed.
    assumed: what was taken to be so to decide its conditions. blocks: how often a brace and `return` occur in the
    function to read.
    """

    text: str
    has_region: bool
    wrapped: bool
    words: frozenset[str]
    functions: frozenset[str]
    lines: tuple[str, ...]
    file: Expanded
    assumed: tuple[Assumption, ...]
    blocks: tuple[int, int, int]


def prepare(source: str, sizes: Mapping[str, int], file: str, *, is_kept: bool = False) -> Source:
    """Return the function to read, its macros expanded; names in `sizes` stand for themselves and are not expanded.

    is_kept: what is read is written again beside the file's own headers: `VALUE_MACROS` stay.

    Raises InputError: too large, directives that polymap does not read, conditions that the text alone does not decide
    and that matter, no function, or several without a mark.
    """
    if len(source) > TUNING.most_source_characters:
        what = f"{file} has {len(source):,} characters; C sources of up to {TUNING.most_source_characters:,} are read"
        raise InputError(Mistake("PM151", what, "Keep the loop nest, leave the rest away."))
    builtin = {name: macro for name, macro in _BUILTIN.items() if not (is_kept and name in VALUE_MACROS)}
    found = expanded(source, sizes, builtin, file)
    if not "".join(found.lines).strip():
        what = f"{file} is empty" if not source.strip() else f"{file} holds nothing but comments"
        raise InputError(Mistake("PM153", what, "A 'for' nest is read."))
    tokens = found.tokens
    _check_names(tokens, file)
    _check_nesting(tokens, file)
    every = list(_pieces(tokens))
    pieces = [piece for piece in every if piece.function]
    function = _one_function(tokens, pieces, found, file)
    chosen, used = _blanked(tokens, pieces, function)
    interest = _interest(tokens, every, function, used)
    assumed = assumptions(found, interest, file)
    headers = _HEADER.findall("".join(found.lines[line - 1] for line in found.includes))
    _check_names_of_others(tokens, interest, file, [] if is_kept else headers)
    _check_includes(found, interest, file)
    own = tokens if function is None else tokens[function.start : function.end]
    return Source(
        "".join(chosen),
        bool(found.marks),
        function is None,
        frozenset(token for token in chosen if _WORD.fullmatch(token)),
        frozenset(piece.function for piece in pieces),
        found.lines,
        found,
        assumed,
        (own.count("{"), own.count("}"), own.count("return")),
    )


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
        if depth > TUNING.most_nesting:
            raise InputError(Mistake("PM151", f"brackets are nested deeper than {TUNING.most_nesting} ({file}:{line})"))


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


def _one_function(tokens: list[str], functions: list[_Piece], text: Expanded, file: str) -> _Piece | None:
    """Return the function to read, None where the text has none and is a bare nest."""
    if not functions and not _is_left_out(text, _LOOPS):
        return None
    marked = [piece for piece in functions if "#" in tokens[piece.start : piece.end]]
    loops = [[p for p in functions if word in tokens[p.start : p.end]] for word in (*_LOOPS, "goto")]
    wanted = marked or loops[0] or loops[1] or loops[2]  # of those but `for` the parser tells the line
    if len(wanted) != 1:
        group = _is_left_out(text, _LOOPS)
        if not wanted and group is not None:
            raise undecided_error(group, file)
        what = f"{len(wanted) or 'no'} functions of {file} have loops"
        names = ", ".join(piece.function for piece in wanted)
        hint = "Mark the nest with '#pragma scop' and '#pragma endscop'." if wanted else "A 'for' nest is read."
        raise InputError(Mistake("PM153", f"{what}: {names}" if wanted else what, hint))
    return wanted[0]


_LOOPS = ("for", "while")


def _is_left_out(text: Expanded, words: Sequence[str]) -> Group | None:
    """Return the first group that is not decided and holds one of the words."""
    for line in text.uncertain:
        in_order = sorted(line.groups, key=lambda one: one.line)  # any order: no ties
        group = next((each for each in in_order if each.undecided), None)
        if group is not None and not set(words).isdisjoint(_WORD.findall(line.text)):
            return group
    return None


def _blanked(tokens: list[str], functions: list[_Piece], function: _Piece | None) -> tuple[list[str], frozenset[str]]:
    """Return the tokens with all functions except the one to read blanked, or all of them wrapped into a function; and
    the functions whose calls in it are written out."""
    if function is None:
        return ['void polymap_nest(void) {\n#line 1 "source"\n', *tokens, "\n}"], frozenset()
    kept = list(tokens)
    helpers = helpers_of("".join(tokens[piece.start : piece.end]) for piece in functions if piece is not function)
    own, used = with_inlined(tokens[function.start : function.end], helpers)
    for piece in functions:
        if piece is not function:
            kept[piece.start : piece.end] = [
                token if token == "\n" else " " for token in tokens[piece.start : piece.end]
            ]
    return [*kept[: function.start], *own, *kept[function.end :]], used


def _interest(tokens: list[str], pieces: list[_Piece], function: _Piece | None, used: frozenset[str]) -> Interest:
    """Return which parts of the text are read. used: other functions whose bodies are."""
    line_of = list(accumulate((token == "\n" for token in tokens), initial=1))

    def part(start: int, end: int) -> Part:
        while start < end and tokens[start].isspace():
            start += 1
        return Part(line_of[start], line_of[max(start, end - 1)], identifiers(tokens[start:end]))

    if function is None:
        return Interest((part(0, len(tokens)),), (), ())
    parts = [part(piece.start, piece.end) for piece in pieces if not piece.function]
    inlined = [part(piece.start, piece.end) for piece in pieces if piece.function in used]
    others = [(each.first, each.last) for piece in pieces
              if piece.function and piece is not function and piece.function not in used
              for each in [part(piece.start, piece.end)]]  # fmt: skip
    marks = [place for place in range(function.start, function.end) if tokens[place] == "#"]
    if len(marks) != 2:
        return Interest((part(function.start, function.end), *inlined), tuple(parts), tuple(others))
    body = tokens.index("{", function.start)
    parts += [part(first, last) for first, last in _statements(tokens, body + 1, marks[0])]
    others.append((line_of[marks[1]] + 1, line_of[function.end - 1]))
    return Interest((part(function.start, body), part(marks[0], marks[1]), *inlined), tuple(parts), tuple(others))


def _statements(tokens: list[str], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the token ranges between semicolons and braces."""
    for place in range(start, end):
        if tokens[place] in (";", "{", "}"):
            yield start, place + 1
            start = place + 1
    yield start, end


def _check_names_of_others(tokens: list[str], interest: Interest, file: str, headers: list[str]) -> None:
    """Refuse, in what is read, names whose meaning the compiler tells, or one of these headers."""
    found = [(_COMPILERS_OWN, "is a macro of the compiler", "Run the file through the preprocessor (--cpp).")]
    if not {"math", "tgmath"}.isdisjoint(headers):
        found.append((_NO_NUMBERS, "is a macro of <math.h>, and no number", "Let it be a parameter of the function."))
    if "tgmath" in headers:
        hint = "Include <math.h>, and call expf, sqrtf, ... for floats."
        found.append((_GENERIC, "of <tgmath.h> depends on the type of its argument", hint))
    line = 1
    for token in tokens:
        line += token == "\n"
        for names, why, hint in found:
            if names.fullmatch(token) and any(each.first <= line <= each.last for each in interest.sure):
                raise InputError(Mistake("PM152", f"{shown(token)} {why} ({file}:{line})", hint))


def _check_includes(text: Expanded, interest: Interest, file: str) -> None:
    """Refuse headers in the function to read: they may hold statements."""
    for line in text.includes:
        if any(each.first <= line <= each.last for each in interest.sure):
            what = f"an #include stands among the loops, and is not followed ({file}:{line})"
            raise InputError(Mistake("PM152", what, "Run the file through the preprocessor first (--cpp, cc -E)."))
