"""The position of a region in the text of its file: the text before it, the region, and the text after it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from polymap.ir import InputError, Mistake
from polymap.workload.c import CProgram

_TOKEN = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[A-Za-z_][A-Za-z0-9_]*|[0-9][A-Za-z0-9_.]*|==|[^\s]")
_STRUCTURE = ("{", "}", "return")
_REPLAYED = (  # directives that change what names mean, and their conditions
    *("define", "undef", "include", "include_next", "import", "if", "ifdef", "ifndef"),
    *("elif", "elifdef", "elifndef", "else", "endif"),
)


@dataclass(frozen=True, slots=True)
class RegionText:
    """The file's text as before + region + after. rest: the words of the function after the region, macros expanded.

    nested: the region is inside another statement of the function. words: every identifier of the file. first, last:
    the first and last line of the region. directives: those in the region that change the meaning of names, in order.
    """

    before: str
    region: str
    after: str
    rest: tuple[str, ...]
    nested: bool
    words: frozenset[str]
    first: int
    last: int
    directives: tuple[str, ...]


def region_text(source: str, program: CProgram, file: str) -> RegionText:
    """Return the position of the region that was read. Raises InputError where it is in no function."""
    source, text = source.replace("\r\n", "\n"), program.prepared.file
    lines = source.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    live = _text_without_comments(text.live, lines)
    first = last = 0
    if text.marks:
        first, last = starts[text.marks[0]], starts[text.marks[1] - 1]
        function = next((each for each in _functions(live) if each[1] < first < each[2]), None)
    else:
        function = _function_named(live, program.program.name)
        if function is not None:
            first, last = _body(live, function, with_return=program.program.result is not None)
    if function is None:
        hint = "Write the loops into a function with its declarations, as the compiler is to read it."
        raise InputError(Mistake("PM281", f"the loops of {file} stand in no function", hint))
    _check_structure(live[function[0] : function[2]], program, file)
    inside = [found.group() for found in _TOKEN.finditer(live, function[1], first)]
    words = frozenset(re.findall(r"[A-Za-z_][A-Za-z0-9_]*", source))
    nested = inside.count("{") - inside.count("}") > 1 or ("for" in inside and inside[-1:] not in ([";"], ["}"]))
    numbers = source.count("\n", 0, first) + 1, source.count("\n", 0, last) + 1
    return RegionText(
        source[:first],
        source[first:last],
        source[last:],
        _words_after(_text_without_comments(_without_directives(program), lines)[last : function[2]], program),
        nested,
        words,
        *numbers,
        _directives(program, *numbers, file),
    )


def _check_structure(function: str, program: CProgram, file: str) -> None:
    """Raise InputError for a function with `return`s in macros, or braces that these leave open: its end is unknown."""
    found = [each.group() for each in _TOKEN.finditer(function)]
    opened, closed, returned = (
        count - found.count(word) for word, count in zip(_STRUCTURE, program.prepared.blocks, strict=True)
    )
    bodies = [change.macro.body for change in program.prepared.file.changes if change.macro is not None]
    if returned or opened != closed or opened < 0 or (opened and not all(map(_closes, bodies))):
        what = f"macros hold braces or `return` of the function with the loops ({file})"
        raise InputError(Mistake("PM281", what, "Write them out in the function."))


def _closes(body: Sequence[str]) -> bool:
    """Return whether each brace of a macro has its other one there."""
    depths = list(accumulate((word == "{") - (word == "}") for word in body))
    return not depths or (min(depths) >= 0 == depths[-1])


def _directives(program: CProgram, first: int, last: int, file: str) -> tuple[str, ...]:
    """Return the region's directives. Raise InputError if it begins and ends in different branches of conditions."""
    text = program.prepared.file
    if text.around(first) != text.around(last):
        what = f"the loops begin and end under different conditions of the preprocessor ({file}:{first})"
        raise InputError(Mistake("PM281", what, "Put the condition around all of them, or inside."))
    inside = [each for each in text.directives if first <= each.line <= last and each.word in _REPLAYED]
    if all(each.word.startswith(("if", "el", "end")) for each in inside):
        return ()
    return tuple(f"#{each.word}{each.rest.rstrip()}" for each in inside)


def _without_directives(program: CProgram) -> list[str]:
    """Return the lines of the file, inactive ones included, with comments and directives blanked."""
    lines = list(program.prepared.lines)
    for each in program.prepared.file.directives:
        lines[each.line - 1 : each.line - 1 + each.height] = [""] * each.height
    return lines


def _words_after(text: str, program: CProgram) -> tuple[str, ...]:
    """Return the words of a text; for a macro all words that it may expand to."""
    bodies: dict[str, list[str]] = {}
    for change in program.prepared.file.changes:
        bodies.setdefault(change.name, []).extend(change.macro.body if change.macro is not None else ())
    found = set[str]()
    words = list[str]()
    for each in _TOKEN.finditer(text):
        words.append(each.group())
        words += _reachable(each.group(), bodies, found)
    return tuple(words)


def _reachable(name: str, bodies: Mapping[str, list[str]], found: set[str]) -> Iterator[str]:
    """Yield the words that a macro may expand to, each once."""
    waiting = list(bodies.get(name, ()))
    while waiting:
        word = waiting.pop()
        if word not in found:
            found.add(word)
            yield word
            waiting += bodies.get(word, ())


def _text_without_comments(plain: Sequence[str], lines: list[str]) -> str:
    """Return the text without comments, each line padded to the original's length (continued lines lack their
    backslash)."""
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


def _function_named(text: str, name: str) -> Span | None:
    head = re.compile(rf"\b{re.escape(name)}\s*\(")
    return next((each for each in _functions(text) if name and head.search(text, each[0], each[1])), None)


def _body(text: str, function: Span, *, with_return: bool) -> tuple[int, int]:
    """Return the offsets after the opening brace and before the last `return` or the closing brace."""
    first, last, depth = function[1] + 1, function[2] - 1, 0
    if with_return:
        return first, last
    for token in _TOKEN.finditer(text, first, last):
        depth += (token.group() == "{") - (token.group() == "}")
        if token.group() == "return" and depth == 0:
            return first, token.start()
    return first, last
