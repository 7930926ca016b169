"""Lines and words of C text (translation phases 2 and 3, C99 5.1.1.2): comments away, continued lines joined."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from polymap.ir import InputError, Mistake

# In text without comments: a line that goes on in the next one, and the end of a line inside a comment.
SPLICE, INNER = "\\\x00", "\x01"
_SPLICED = re.compile(r"\\([ \t\f\v]*)\n")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|/\*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_BLANKED = re.compile(r"(\\\x00)|(\n)|.", re.DOTALL)
_TOKEN = re.compile(
    r"\n|[ \t\r\f\v]+|[A-Za-z_][A-Za-z0-9_]*|\.?[0-9](?:[eEpP][+-]|[A-Za-z0-9_.])*"
    r"|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|##|.",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"[ \t\f\v]*#")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
KEYWORDS = frozenset(
    word
    for words in (
        "auto break case char const continue default do double else enum extern float for goto if inline int long",
        "register restrict return short signed sizeof static struct switch typedef union unsigned void volatile while",
    )
    for word in words.split()
)


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a sign, a string, white space or "\\n". hidden: macros that it is not expanded as (C99 6.10.3.4)."""

    text: str
    hidden: frozenset[str] = frozenset()


def tokens_of(text: str) -> list[str]:
    """Return the tokens of a text, white space included."""
    return _TOKEN.findall(text)


def is_word(token: str) -> bool:
    """Return whether a token is an identifier or a keyword."""
    return _WORD.fullmatch(token) is not None


def is_changed(name: str, text: str) -> bool:
    """Return whether a text may set a variable elsewhere than in its declaration: assignments, steps, its address."""
    step = rf"\b{name}\s*(\+\+|--)|(\+\+|--)\s*{name}\b|(?<![\w)\]])(?<![\w)\]] )&\s*{name}\b"
    sets = rf"(?:\b(\w+)\s+|([^\s\w.>])\s*){name}\s*([-+*/%&|^]|<<|>>)?=(?!=)"
    before = [match[1] or match[2] for match in re.finditer(sets, text)]
    declared = sum(is_word(each) and each not in ("else", "do") for each in before)
    lists = before.count(",")  # int a = 1, b = 2;
    others = len(before) - declared - before.count("*") - lists
    return others > 0 or lists > (not declared) or re.search(step, text) is not None


def without_comments(source: str, file: str) -> str:
    """Return the text with comments as blanks, every character at its place, `SPLICE` and `INNER` for ends of lines.

    Raises InputError where a comment is not closed.
    """

    def replacement(match: re.Match[str]) -> str:
        text = match.group()
        if text == "/*":
            line = source.count("\n", 0, match.start()) + 1
            raise InputError(Mistake("PM150", f"a comment is not closed ({file}:{line})", "Close it with */."))
        if not text.startswith("/"):
            return text
        return _BLANKED.sub(lambda found: found.group(1) or (INNER if found.group(2) else " "), text)

    clean = source.replace("\x00", "\x02").replace("\x01", "\x02").replace("\r\n", "\n")
    return _COMMENT.sub(replacement, _SPLICED.sub(lambda found: SPLICE + found.group(1), clean))


def plain_lines(plain: str) -> tuple[str, ...]:
    """Return the lines of a text without comments, as many as the user's text has."""
    return tuple(plain.replace(SPLICE, "\n").replace(INNER, "\n").split("\n"))


@dataclass(frozen=True, slots=True)
class LogicalLine:
    """A line with its continuations joined: where it begins, and over how many lines of the text it goes."""

    number: int
    text: str
    height: int

    @property
    def is_directive(self) -> bool:
        return _DIRECTIVE.match(self.text) is not None


def logical_lines(plain: str) -> Iterator[LogicalLine]:
    """Yield the lines; a comment over several lines joins them only where it stands in a directive."""
    number = 1
    for whole in plain.split("\n"):
        pieces = [whole.replace(INNER, " ")] if _DIRECTIVE.match(whole.lstrip(" " + INNER)) else whole.split(INNER)
        heights = [whole.count(SPLICE) + whole.count(INNER) + 1] if len(pieces) == 1 else []
        for piece, height in zip(pieces, heights or [each.count(SPLICE) + 1 for each in pieces], strict=True):
            yield LogicalLine(number, piece.replace(SPLICE, "").replace("\x00", " "), height)
            number += height
