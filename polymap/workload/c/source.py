"""Extracts the function (or region) to read from the text of a C file, preprocessed, without includes; which
decisions about conditions matter for it, and are refused or become assumptions.

Lines keep their numbers, so that messages can name them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby

from polymap.inputs import shown
from polymap.ir import InputError, Mistake
from polymap.workload.c.conditions import Group
from polymap.workload.c.directives import Expanded, Uncertain, expanded
from polymap.workload.c.inlined import helpers_of, with_inlined
from polymap.workload.c.macros import Macro
from polymap.workload.c.words import KEYWORDS, is_word, tokens_of
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


@dataclass(frozen=True, slots=True)
class Part:
    """A declaration or statement that may matter: its lines [first, last], and its identifiers."""

    first: int
    last: int
    words: frozenset[str]


@dataclass(frozen=True, slots=True)
class Interest:
    """What is read. sure: what is read whatever the rest says. parts: what is read where it shares a name with it.

    others: lines [first, last] of functions that are not read.
    """

    sure: tuple[Part, ...]
    parts: tuple[Part, ...]
    others: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Assumption:
    """A name was taken to be undefined where the text does not define it (value None), or to have the given value.

    groups: the conditions that were decided by it.
    """

    name: str
    value: int | None
    groups: frozenset[Group]


def identifiers(tokens: Iterable[str]) -> frozenset[str]:
    """Return the identifiers among tokens, keywords left out."""
    return frozenset(token for token in tokens if token not in KEYWORDS and is_word(token))


def assumptions(text: Expanded, interest: Interest, file: str) -> tuple[Assumption, ...]:
    """Return what was assumed of names to read what is read.

    Raises InputError (PM152) where something of it depends on a condition that the text alone does not decide.
    """
    found = _with_those_behind({*text.always, *_decisive(text, interest)})
    in_order = sorted(found, key=lambda group: group.line)  # any order: no ties
    undecided = next((each for each in in_order if each.undecided), None)
    if undecided is not None:
        raise undecided_error(undecided, file)
    names = {(name, value) for group in found for name, value in group.assumed.items()}
    return tuple(
        Assumption(name, value, frozenset(group for group in found if name in group.assumed))
        for name, value in sorted(names, key=str)  # any order: no ties
    )


def undecided_error(group: Group, file: str) -> InputError:
    """Return the refusal of a condition that the text alone does not decide."""
    what = f"'{group.text[:80]}' decides what is read, and {group.undecided} ({file}:{group.line})"
    hint = "Run the file through the preprocessor first (--cpp, cc -E), or leave the condition out."
    return InputError(Mistake("PM152", what, hint))


def _decisive(text: Expanded, interest: Interest) -> Iterator[Group]:
    """Yield the groups that decide text or macros of what is read."""
    words, parts = _reached(interest)
    read = _lines((part.first, part.last) for part in (*interest.sure, *parts))
    others = _lines(interest.others)
    for line in text.uncertain:
        if line.line in read:
            yield from line.groups
    for groups, lines in _left_out(text):
        names = _declared([token for line in lines for token in tokens_of(line.text)])
        is_elsewhere = all(line.line in others for line in lines)
        if not is_elsewhere and (names is None or not names.isdisjoint(words)):
            yield from groups
    for number, groups in text.uses:
        if number in read:
            yield from groups


def _reached(interest: Interest) -> tuple[frozenset[str], list[Part]]:
    """Return the names of what is read, and the parts that share a name with it, directly or by others."""
    holders: dict[str, list[Part]] = {}
    for part in interest.parts:
        for word in part.words:  # any order: a lookup
            holders.setdefault(word, []).append(part)
    words, found = set[str](), dict[int, Part]()
    waiting = [word for part in interest.sure for word in sorted(part.words)]
    while waiting:
        word = waiting.pop()
        if word not in words:
            words.add(word)
            for part in holders.get(word, ()):
                if found.setdefault(id(part), part) is part:
                    waiting += part.words
    return frozenset(words), list(found.values())


def _left_out(text: Expanded) -> Iterator[tuple[frozenset[Group], list[Uncertain]]]:
    """Yield the lines that are not read, those of one branch together, with the groups that decide them."""
    lines = (line for line in text.uncertain if not line.read)
    for (groups, _), run in groupby(lines, lambda line: (line.groups, line.branch)):
        yield groups, list(run)


def _declared(tokens: Sequence[str]) -> frozenset[str] | None:
    """Return the names outside of functions' parameters and bodies; None where blocks are not closed."""
    found, depth, last, is_body = set[str](), 0, "", False
    for token in tokens:
        if token.isspace():
            continue
        if depth == 0 and token == "{":
            is_body = last == ")"
        depth += (token in "({") - (token in ")}")
        if depth < 0:
            return None
        if depth == 0 or not (is_body or token in "({"):
            found.add(token)
        if depth == 0:
            is_body, last = False, token
    return identifiers(found) if depth == 0 else None


def _lines(ranges: Iterable[tuple[int, int]]) -> frozenset[int]:
    return frozenset(line for first, last in ranges for line in range(first, last + 1))


def _with_those_behind(groups: set[Group]) -> set[Group]:
    found, waiting = set[Group](), list(groups)  # any order: all of them
    while waiting:
        group = waiting.pop()
        if group not in found:
            found.add(group)
            waiting += group.behind
    return found
