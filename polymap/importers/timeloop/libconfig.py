"""libconfig, the format of Timeloop's files of version 0.2: groups, lists, texts, numbers, each with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from polymap.importers.tuning import TUNING
from polymap.inputs import LIMITS, shown
from polymap.ir import InputError, Mistake

_TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*|//[^\n]*|/\*.*?\*/)
    |(?P<float>[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?)
    |(?P<hex>0[xX][0-9A-Fa-f]{1,64}L{0,2})
    |(?P<integer>[-+]?[0-9]{1,101}L{0,2})
    |(?P<text>"(?:[^"\\]|\\.)*")
    |(?P<name>[A-Za-z*][-A-Za-z0-9_*]*)
    |(?P<sign>[=:;,{}()\[\]])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "\\": "\\", '"': '"'}
_CLOSING = {"{": "}", "(": ")", "[": "]"}

Located = tuple[Any, int]


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def read_libconfig(text: str, name: str) -> Located:
    """Return a libconfig text as (value, line), 1 the first: a value is a text, number or bool, or a list or dict of
    such pairs. Raises InputError (PM660) with the line of what is not libconfig, a setting given twice, or too deep."""
    tokens = list(_tokens(text, name))
    if not tokens:
        raise InputError(Mistake("PM660", f"{name} is empty"))
    if len(tokens) > 4 * TUNING.most_values:
        raise InputError(Mistake("PM660", f"{name} has over {TUNING.most_values:,} values"))
    parser = _Parser(tokens, name)
    found = parser.settings(0)
    if parser.peek().kind != "end":
        raise parser.error("a setting, such as name = value;")
    return found, 1


def _tokens(text: str, name: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise InputError(Mistake("PM660", f"{name}, line {line}: {shown(text[at : at + 20])} is no libconfig"))
        if found.lastgroup != "skip":
            yield _Token(str(found.lastgroup), found[0], line)
        line += found[0].count("\n")
        at = found.end()


class _Parser:
    """A parser of one text, one token after the other."""

    def __init__(self, tokens: list[_Token], name: str) -> None:
        self._tokens, self._name, self._at = tokens, name, 0

    def peek(self) -> _Token:
        """Return the next token, of the kind "end" behind the last."""
        return self._tokens[self._at] if self._at < len(self._tokens) else _Token("end", "", self._tokens[-1].line)

    def error(self, wanted: str) -> InputError:
        """Return the error that says what stands there instead of what is wanted."""
        token = self.peek()
        what = f"found {shown(token.text)}" if token.text else "the text ends"
        return InputError(Mistake("PM660", f"{self._name}, line {token.line}: {what}", f"Expected {wanted}."))

    def settings(self, depth: int) -> dict[str, Located]:
        """Return the settings of a group, up to its end."""
        found: dict[str, Located] = {}
        while self.peek().kind == "name":
            token = self._next()
            if token.text in found:
                what = f"{self._name}, line {token.line}: {shown(token.text)} is given twice"
                raise InputError(Mistake("PM660", what))
            if self.peek().text not in ("=", ":"):
                raise self.error(f"= or : after {token.text}")
            self._next()
            found[token.text] = self.value(depth + 1)
            while self.peek().text in (";", ","):
                self._next()
        return found

    def value(self, depth: int) -> Located:
        """Return a value and its line."""
        if depth > LIMITS.depth:
            raise self.error(f"at most {LIMITS.depth} levels inside each other")
        token = self.peek()
        if token.text == "{":
            self._next()
            return self._closed(self.settings(depth), token), token.line
        if token.text in ("(", "["):
            self._next()
            items: list[Located] = []
            while self.peek().text != _CLOSING[token.text]:
                items.append(self.value(depth + 1))
                if self.peek().text == ",":
                    self._next()
                elif self.peek().text != _CLOSING[token.text]:
                    break
            return self._closed(items, token), token.line
        return self._scalar(), token.line

    def _closed(self, found: Any, opening: _Token) -> Any:
        if self.peek().text != _CLOSING[opening.text]:
            raise self.error(f"{_CLOSING[opening.text]}, for the {opening.text} of line {opening.line}")
        self._next()
        return found

    def _scalar(self) -> Any:
        token = self.peek()
        if token.kind == "text":
            parts: list[str] = []
            while self.peek().kind == "text":  # texts one after the other are one
                parts.append(re.sub(r"\\(.)", lambda each: _ESCAPES.get(each[1], each[1]), self._next().text[1:-1]))
            return "".join(parts)
        is_flag = token.kind == "name" and token.text.lower() in ("true", "false")
        if token.kind not in ("integer", "hex", "float") and not is_flag:
            raise self.error("a value: a text, a number, true, false, {...}, (...) or [...]")
        self._next()
        if is_flag:
            return token.text.lower() == "true"
        if token.kind == "float":
            return float(token.text)
        return int(token.text.rstrip("L"), 16 if token.kind == "hex" else 10)

    def _next(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]
