"""Conditions of the preprocessor (C99 6.10.1): true, false, or not known from the text alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from polymap.workload.c.words import is_word
from polymap.workload.tuning import TUNING

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|0[bB][01]+|0[0-7]*|[1-9][0-9]*)([uUlL]*)")
_BITS, _HALF = 2**64, 2**63
_LEVELS = (("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
           ("*", "/", "%"))  # fmt: skip
_LEVEL_OF = {sign: level for level, signs in enumerate(_LEVELS) for sign in signs}
_ESCAPES = {f"\\{sign}": value for sign, value in zip("abtnvfr\"'?\\", (*range(7, 14), 34, 39, 63, 92), strict=True)}
_CODE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]+))")


@dataclass(slots=True, eq=False)
class Group:
    """`#if` to `#endif`.

    line: of its first condition, and text: that. assumed: names that conditions were decided by -> None (not defined,
    as a compiler without options has it) or the value that the caller gives. undecided: why the text alone does not
    tell, "" where it does. behind: groups that the conditions depend on by macros. changes: names that it defines or
    undefines in some branch. only_changes: nothing else stands in it. branches: the lines at which branches begin, and
    of #endif.
    """

    line: int
    text: str
    assumed: dict[str, int | None] = field(default_factory=dict[str, "int | None"])
    undecided: str = ""
    behind: set[Group] = field(default_factory=set["Group"])
    changes: set[str] = field(default_factory=set[str])
    only_changes: bool = True
    branches: list[int] = field(default_factory=list[int])

    @property
    def is_certain(self) -> bool:
        """Return whether the text alone decides it."""
        return not (self.assumed or self.undecided or self.behind)


class WrongConditionError(Exception):
    """A condition that no preprocessor decides; never leaves this package."""


@dataclass(frozen=True, slots=True)
class _Number:
    value: int
    unsigned: bool = False


_Value = _Number | None  # None: not known


def decided(tokens: list[str], meaning: Callable[[str], int | None]) -> int | None:
    """Return the value of an expanded condition, None where it is not known.

    meaning: the value of an identifier that is no macro. Raises WrongConditionError for what is no condition.
    """
    found = _Reader([token for token in tokens if not token.isspace()], meaning).whole()
    return None if found is None else found.value


class _Reader:
    def __init__(self, tokens: list[str], meaning: Callable[[str], int | None]) -> None:
        self.tokens = list(_joined(tokens))
        self.place = 0
        self.depth = 0
        self.meaning = meaning

    def whole(self) -> _Value:
        if not self.tokens:
            raise WrongConditionError("it has no expression")
        found = self._choice()
        if self.place < len(self.tokens):
            raise WrongConditionError(f"'{self.tokens[self.place]}' is not expected there")
        return found

    def _next(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def _take(self, sign: str) -> None:
        if self._next() != sign:
            raise WrongConditionError(f"'{sign}' is missing")
        self.place += 1

    def _choice(self) -> _Value:
        self.depth += 1
        if self.depth > TUNING.most_condition_depth:
            raise WrongConditionError("it is nested too deeply")
        test = self._level(0)
        if self._next() == "?":
            self.place += 1
            yes = self._choice()
            self._take(":")
            no = self._choice()
            chosen = (yes if test.value else no) if test is not None else yes if yes == no else None
            wide = any(each is not None and each.unsigned for each in (yes, no))
            test = None if chosen is None else _wrapped(chosen.value, wide)
        self.depth -= 1
        return test

    def _level(self, least: int) -> _Value:
        """Return the value of operations that bind at least so strongly (precedence climbing)."""
        left = self._unary()
        while (level := _LEVEL_OF.get(self._next(), -1)) >= least:
            sign = self._next()
            self.place += 1
            left = _operation(sign, left, self._level(level + 1))
        return left

    def _unary(self) -> _Value:
        signs = list[str]()
        while self._next() in ("+", "-", "!", "~"):
            signs.append(self._next())
            self.place += 1
        found = self._primary()
        for sign in reversed(signs):
            if found is None:
                return None
            value = {"+": found.value, "-": -found.value, "~": ~found.value, "!": int(not found.value)}[sign]
            found = _wrapped(value, found.unsigned and sign != "!")
        return found

    def _primary(self) -> _Value:
        token = self._next()
        self.place += 1
        if token == "(":
            found = self._choice()
            self._take(")")
            return found
        if is_word(token):
            return self._word(token)
        number = _INTEGER.fullmatch(token)
        if number is not None:
            digits, suffix = number.groups()
            old = digits.startswith("0") and digits.isdigit()
            value = int(digits, 8 if old else 0) if len(digits) < 100 else _BITS
            if value >= _BITS:
                raise WrongConditionError(f"the number {token[:40]} is too large")
            return _wrapped(value, "u" in suffix.lower() or value >= _HALF)
        if (value := character(token)) is not None:
            return _Number(value)
        raise WrongConditionError(f"'{token[:40]}' is not expected there" if token else "it ends too early")

    def _word(self, word: str) -> _Value:
        found = self.meaning(word)
        if self._next() == "(" and found is None:  # __has_include(...) and its kind
            depth = 0
            while self.place < len(self.tokens):
                depth += (self._next() == "(") - (self._next() == ")")
                self.place += 1
                if depth == 0:
                    break
        return None if found is None else _Number(found)


def _joined(tokens: list[str]) -> list[str]:
    """Return the tokens with the signs of two characters as one."""
    out = list[str]()
    place = 0
    while place < len(tokens):
        pair = "".join(tokens[place : place + 2])
        two = pair in _LEVEL_OF and len(pair) == 2
        out.append(pair if two else tokens[place])
        place += 1 + two
    return out


def _wrapped(value: int, unsigned: bool) -> _Number:  # noqa: FBT001
    value %= _BITS
    return _Number(value if unsigned or value < _HALF else value - _BITS, unsigned)


def _operation(sign: str, left: _Value, right: _Value) -> _Value:
    if sign in ("&&", "||"):
        ends = 0 if sign == "&&" else 1  # the value of one side that decides
        if any(each is not None and bool(each.value) == bool(ends) for each in (left, right)):
            return _Number(ends)
        return None if left is None or right is None else _Number(1 - ends)
    if left is None or right is None:
        return None
    unsigned = left.unsigned if sign in ("<<", ">>") else left.unsigned or right.unsigned
    one = _wrapped(left.value, unsigned).value
    other = right.value if sign in ("<<", ">>") else _wrapped(right.value, unsigned).value
    match sign:
        case "==" | "!=" | "<" | "<=" | ">" | ">=":
            truth = {"==": one == other, "!=": one != other, "<": one < other, "<=": one <= other, ">": one > other,
                     ">=": one >= other}[sign]  # fmt: skip
            return _Number(int(truth))
        case "/" | "%":
            if other == 0:
                return None
            quotient = abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)
            return _wrapped(quotient if sign == "/" else one - quotient * other, unsigned)
        case "<<" | ">>":
            shift = other if sign == "<<" else -other
            return _wrapped(one << min(shift, 64) if shift >= 0 else one >> min(-shift, 64), unsigned)
        case "*":
            return _wrapped(one * other, unsigned)
        case "+" | "-":
            return _wrapped(one + other if sign == "+" else one - other, unsigned)
        case "&":
            return _wrapped(one & other, unsigned)
        case "|":
            return _wrapped(one | other, unsigned)
        case _:
            return _wrapped(one ^ other, unsigned)


def character(token: str) -> int | None:
    """Return the value of a character constant, None for other tokens."""
    if token[:1] != "'" or not token.isascii():
        return None
    code = _CODE.fullmatch(token[1:-1])
    if code is None:
        return _ESCAPES.get(token[1:-1], ord(token[1]) if len(token) == 3 else None)
    value = int(code[1], 8) if code[1] else int(code[2], 16)
    return (value + 128) % 256 - 128 if value < 256 else None  # char is signed
