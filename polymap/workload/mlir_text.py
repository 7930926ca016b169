"""MLIR's text as tokens, and its affine maps and expressions as C."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from polymap.inputs import LIMITS, shown
from polymap.ir import InputError, Mistake
from polymap.workload.tuning import TUNING

_TOKEN = re.compile(
    r"\s+|//[^\n]*|(memref<[^<>]*(?:<[^<>]*>[^<>]*)*>|%[\w$.-]+(?:#\d+)?|[@#^!][\w$.-]+|\"(?:[^\"\\]|\\.)*\""
    r"|0x[0-9A-Fa-f]+|\d+(?:\.\d*(?:[eE][-+]?\d+)?)?|[A-Za-z_][\w.]*|->|==|>=|.)"
)
_CLOSING = {"{": "}", "(": ")", "[": "]", "<": ">"}


class Token(NamedTuple):
    """A word, and its line, 1 the first."""

    text: str
    line: int


class Map(NamedTuple):
    """An affine map or set. rows: texts over the names, with the comparison of a set's ("" in a map)."""

    dims: tuple[str, ...]
    symbols: tuple[str, ...]
    rows: tuple[tuple[list[str], str], ...]


def refusal(file: str, line: int, what: str, hint: str = "") -> InputError:
    """Return the error that tells what is wrong at a line of a file."""
    return InputError(Mistake("PM287", f"{file}, line {line}: {what}", hint))


def tokens_of(text: str, file: str) -> list[Token]:
    """Return the words of a text of MLIR, without comments."""
    if len(text) > TUNING.most_source_characters:
        what = f"it has {len(text):,} characters; texts of up to {TUNING.most_source_characters:,} are read"
        raise refusal(file, 1, what)
    found, line = list[Token](), 1
    for each in _TOKEN.finditer(text):
        if each[1] is not None:
            found.append(Token(each[1], line))
        line += each[0].count("\n")
    return found


class Cursor:
    """Reads tokens one after the other. maps: of the names that stand for them."""

    def __init__(self, tokens: Sequence[Token], file: str) -> None:
        self.tokens, self.file, self.at = tokens, file, 0
        self.maps: dict[str, Map] = {}

    def peek(self, offset: int = 0) -> str:
        """Return the text of the next token, "" at the end."""
        return self.tokens[self.at + offset].text if self.at + offset < len(self.tokens) else ""

    @property
    def line(self) -> int:
        """The line of the next token."""
        return self.tokens[min(self.at, len(self.tokens) - 1)].line if self.tokens else 1

    def refusal(self, what: str, hint: str = "") -> InputError:
        """Return the error that tells what is wrong where the last token stands."""
        return refusal(self.file, self.tokens[self.at - 1].line if self.at else self.line, what, hint)

    def take(self, expected: str = "") -> str:
        """Return the next token's text; refuses another one than expected."""
        found = self.peek()
        if not found or (expected and found != expected):
            told = shown(found) if found else "the end"
            raise refusal(self.file, self.line, f"{told} stands where {expected or 'more'} is expected")
        self.at += 1
        return found

    def takes(self, text: str) -> bool:
        """Whether the next token is this; it is taken then."""
        if self.peek() != text:
            return False
        self.at += 1
        return True

    def listed(self, read: Callable[[], str], end: str) -> list[str]:
        """Return what stands between commas before the closing `end`, which is taken."""
        found: list[str] = []
        while not self.takes(end):
            found.append(read())
            if self.peek() != end:
                self.take(",")
        return found

    def skip(self) -> None:
        """Take what stands in brackets, the opening one first."""
        opening = self.take()
        if opening not in _CLOSING:
            raise self.refusal(f"{shown(opening)} stands where a bracket is expected")
        while self.peek() != _CLOSING[opening]:
            if self.peek() in _CLOSING:
                self.skip()
            else:
                self.take()
        self.take()

    def skip_attributes(self) -> None:
        """Take attributes: `{...}`, `fastmath<...>`, `loc(...)` and the like."""
        while self.peek() == "{" or self.peek() in ("loc", "fastmath", "overflow", "attributes"):
            if self.peek() != "{":
                self.take()
            self.skip()

    def type(self) -> str:
        """Return the type that stands here."""
        found = self.take()
        if self.peek() == "<":
            self.skip()
        return found

    def map(self) -> Map:
        """Return the map or set that stands here, or that a name stands for."""
        word = self.take()
        if word.startswith("#"):
            if word not in self.maps:
                raise self.refusal(f"{word} is no map that is known")
            return self.maps[word]
        if word not in ("affine_map", "affine_set"):
            raise self.refusal(f"{shown(word)} is no affine map")
        self.take("<")
        self.take("(")
        dims = tuple(self.listed(self.take, ")"))
        symbols = tuple(self.listed(self.take, "]")) if self.takes("[") else ()
        self.take("->" if word == "affine_map" else ":")
        self.take("(")
        rows: list[tuple[list[str], str]] = []
        while not self.takes(")"):
            start = self.at
            self.expression(self.take)
            tokens = [each.text for each in self.tokens[start : self.at]]
            compare = self.take() if word == "affine_set" else ""
            if compare and (compare not in ("==", ">=") or self.take() != "0"):
                raise self.refusal("a condition that is neither == 0 nor >= 0")
            rows.append((tokens, compare))
            if self.peek() != ")":
                self.take(",")
        self.take(">")
        return Map(dims, symbols, tuple(rows))

    def expression(self, atom: Callable[[], str], depth: int = 0) -> str:
        """Return an affine expression as C."""
        if depth > LIMITS.depth:
            raise self.refusal(f"brackets inside each other, over {LIMITS.depth}")
        text = self.product(atom, depth)
        while self.peek() in ("+", "-"):
            sign = self.take()
            text = f"{text} {sign} {self.product(atom, depth)}"
        return text

    def product(self, atom: Callable[[], str], depth: int) -> str:
        """Return a product, quotient or remainder."""
        text = self.factor(atom, depth)
        while self.peek() in ("*", "floordiv", "ceildiv", "mod"):
            word, other = self.take(), self.factor(atom, depth)
            match word:
                case "*":
                    text = f"{text} * {other}"
                case "floordiv":
                    text = f"floord({text}, {other})"
                case "ceildiv":
                    text = f"ceild({text}, {other})"
                case _:
                    text = f"({text} - {other} * floord({text}, {other}))"
        return text

    def factor(self, atom: Callable[[], str], depth: int) -> str:
        """Return an operand, its negative, or what stands in brackets."""
        if self.takes("-"):
            return f"(-{self.factor(atom, depth + 1)})"
        if self.takes("("):
            text = self.expression(atom, depth + 1)
            self.take(")")
            return f"({text})"
        return atom()


def nested(choose: str, texts: Sequence[str]) -> str:
    """Return the smallest or largest of texts' values."""
    text = texts[0]
    for each in texts[1:]:
        text = f"{choose}({text}, {each})"
    return text
