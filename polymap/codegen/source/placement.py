"""Where a region stands in the text of its file: what comes before, the region itself, what comes after."""

from __future__ import annotations

import re
from dataclasses import dataclass

from polymap.ir import InputError, Mistake
from polymap.workload.c import CProgram

_TOKEN = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[A-Za-z_][A-Za-z0-9_]*|[0-9][A-Za-z0-9_.]*|==|[^\s]")
_MARK = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+(scop|endscop)\b")
_DIRECTIVE = re.compile(r"^[ \t]*#.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Placed:
    """The file's text as before + region + after. rest: the words of the function behind the region, in order.

    nested: the region lies inside another statement of the function. words: every identifier of the file.
    """

    before: str
    region: str
    after: str
    rest: tuple[str, ...]
    nested: bool
    words: frozenset[str]


def placed(source: str, program: CProgram, file: str) -> Placed:
    """Return where the region that was read stands; raises InputError where it is in no function."""
    source = source.replace("\r\n", "\n")
    lines = source.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    plain = _aligned(program.text.split("\n"), lines)
    blank = _DIRECTIVE.sub(lambda found: " " * len(found.group()), plain)
    first = last = 0
    if program.prepared.has_region:
        marks = [number for number, line in enumerate(plain.split("\n")) if _MARK.match(line)]
        if len(marks) != 2:
            raise InputError(Mistake("PM281", f"{len(marks)} marks of regions stand in {file}", "Expected one region."))
        first, last = starts[marks[0] + 1], starts[marks[1]]
        function = _around(blank, first)
    else:
        function = _named(blank, program.program.name)
        if function is not None:
            first, last = _body(blank, function)
    if function is None:
        hint = "Write the loops into a function with its declarations, as the compiler is to read it."
        raise InputError(Mistake("PM281", f"the loops of {file} stand in no function", hint))
    inside = [found.group() for found in _TOKEN.finditer(blank, function[1], first)]
    rest = tuple(found.group() for found in _TOKEN.finditer(blank, last, function[2]))
    words = frozenset(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", source))
    nested = inside.count("{") - inside.count("}") > 1 or ("for" in inside and inside[-1:] not in ([";"], ["}"]))
    return Placed(source[:first], source[first:last], source[last:], rest, nested, words)


def _aligned(plain: list[str], lines: list[str]) -> str:
    """Return the text without comments, each line as long as the original's (continued lines lack their backslash)."""
    return "\n".join(one.ljust(len(other))[: len(other)] for one, other in zip(plain, lines, strict=True))


Span = tuple[int, int, int]  # of a function: where it begins, its opening brace, behind its closing brace


def _functions(text: str) -> list[Span]:
    """Return the blocks at file level that follow a closing parenthesis."""
    depth, opened, last, begin = 0, 0, "", 0
    found: list[Span] = []
    for token in _TOKEN.finditer(text):
        word = token.group()
        if word == "{":
            if depth == 0:
                opened = token.start() if last == ")" else -1
            depth += 1
        elif word == "}":
            depth -= 1
            if depth == 0 and opened >= 0:
                found.append((begin, opened, token.end()))
        if depth == 0 and word in (";", "}"):
            begin = token.end()
        last = word
    return found


def _around(text: str, place: int) -> Span | None:
    return next((each for each in _functions(text) if each[1] < place < each[2]), None)


def _named(text: str, name: str) -> Span | None:
    head = re.compile(rf"\b{re.escape(name)}\s*\(")
    return next((each for each in _functions(text) if name and head.search(text, each[0], each[1])), None)


def _body(text: str, function: Span) -> tuple[int, int]:
    """Return the places behind the opening brace and before the last `return` or the closing brace."""
    first, last, depth = function[1] + 1, function[2] - 1, 0
    for token in _TOKEN.finditer(text, first, last):
        depth += (token.group() == "{") - (token.group() == "}")
        if token.group() == "return" and depth == 0:
            return first, token.start()
    return first, last
