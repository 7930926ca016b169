"""Macros and their expansion (C99 6.10.3), with limits on depth and length."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from polymap.inputs import shown
from polymap.ir import InputError, Mistake
from polymap.workload.c.words import Token, is_word, tokens_of
from polymap.workload.tuning import TUNING

_DEFINITION = re.compile(r"[ \t]*([A-Za-z_][A-Za-z0-9_]*)(\(([^)]*)\))?(.*)", re.DOTALL)
_DOUBLE = re.compile(r"(?=\.?[0-9])[0-9]*\.[0-9]*([eE][+-]?[0-9]+)?")
_BLANK = Token(" ")
_NOTHING = Token("")  # what an empty argument beside ## stands for


@dataclass(frozen=True, slots=True)
class Macro:
    """parameters: None of one without parentheses. variadic: the last parameter takes all arguments that are left."""

    parameters: tuple[str, ...] | None
    body: tuple[str, ...]
    variadic: bool = False


# What standard headers define on every 64-bit Unix (LP64; C99 5.2.4.2, 7.16, 7.18.2; POSIX's <math.h>): name = tokens.
_OF_HEADERS = {
    "limits": "CHAR_BIT=8 SCHAR_MAX=127 CHAR_MAX=127 UCHAR_MAX=255 SHRT_MAX=32767 USHRT_MAX=65535 INT_MAX=2147483647 "
    "UINT_MAX=4294967295u LONG_MAX=9223372036854775807L LLONG_MAX=9223372036854775807L "
    "ULONG_MAX=18446744073709551615uL ULLONG_MAX=18446744073709551615uL SCHAR_MIN=(-128) CHAR_MIN=(-128) "
    "SHRT_MIN=(-32768) INT_MIN=(-2147483647-1) LONG_MIN=(-9223372036854775807L-1) "
    "LLONG_MIN=(-9223372036854775807L-1)",
    "stdint": "INT8_MAX=127 INT16_MAX=32767 INT32_MAX=2147483647 INT64_MAX=9223372036854775807L UINT8_MAX=255 "
    "UINT16_MAX=65535 UINT32_MAX=4294967295u UINT64_MAX=18446744073709551615uL SIZE_MAX=18446744073709551615uL "
    "INT8_MIN=(-128) INT16_MIN=(-32768) INT32_MIN=(-2147483647-1) INT64_MIN=(-9223372036854775807L-1)",
    "float": "FLT_MAX=0x1.fffffep127f FLT_MIN=0x1p-126f FLT_EPSILON=0x1p-23f DBL_MAX=0x1.fffffffffffffp1023 "
    "DBL_MIN=0x1p-1022 DBL_EPSILON=0x1p-52",
    "math": "M_E=2.7182818284590452354 M_LOG2E=1.4426950408889634074 M_LOG10E=0.43429448190325182765 "
    "M_LN2=0.69314718055994530942 M_LN10=2.30258509299404568402 M_PI=3.14159265358979323846 "
    "M_PI_2=1.57079632679489661923 M_PI_4=0.78539816339744830962 M_1_PI=0.31830988618379067154 "
    "M_2_PI=0.63661977236758134308 M_2_SQRTPI=1.12837916709551257390 M_SQRT2=1.41421356237309504880 "
    "M_SQRT1_2=0.70710678118654752440",
    "stdbool": "true=1 false=0",
    "stdlib": "RAND_MAX=2147483647",
}
_SAME = {"inttypes": "stdint", "tgmath": "math"}


def macros_of_header(header: str) -> dict[str, Macro]:
    """Return the numbers that a standard header, named without `.h`, defines."""
    listed = _OF_HEADERS.get(_SAME.get(header, header), "").split()
    return {name: Macro(None, tuple(tokens_of(text))) for name, _, text in (each.partition("=") for each in listed)}


def same_number(macro: Macro, other: Macro | None) -> bool:
    """Return whether two macros are one number of type `double`, as (3.14159265358979324) and M_PI are."""
    bodies = [() if each is None or each.parameters is not None else each.body for each in (macro, other)]
    first, second = ("".join(each).strip("()") for each in bodies)
    return bool(_DOUBLE.fullmatch(first) and _DOUBLE.fullmatch(second)) and float(first) == float(second)


def macro_of(definition: str, refuse: Callable[[str, str], Exception]) -> tuple[str, Macro]:
    """Return name and meaning of what follows `#define`; raises what `refuse` returns for (what is wrong, hint)."""
    match = _DEFINITION.fullmatch(definition)
    if match is None:
        raise refuse("'#define' is not followed by a name", "Write it as #define N 64.")
    name, parenthesis, inside, text = match.groups()
    body = [" " if token.isspace() else token for token in tokens_of(text.strip())]
    if not parenthesis:
        if text[:1] == "(" or body[:1] == ["##"] or body[-1:] == ["##"]:
            raise refuse(f"the definition of {shown(name)} cannot be read", "Write it as #define F(x) (x + 1).")
        return name, Macro(None, tuple(body))
    words = [word.strip() for word in inside.split(",")] if inside.strip() else []
    variadic = bool(words) and words[-1].endswith("...")
    if variadic:
        words[-1] = words[-1].removesuffix("...").strip() or "__VA_ARGS__"
    if not all(is_word(word) for word in words) or len(set(words)) != len(words):
        raise refuse(f"the parameters of {shown(name)} are {shown(inside)}", "Write it as #define F(x, y) ((x) + (y)).")
    _check_body(name, body, words, refuse)
    return name, Macro(tuple(words), tuple(body), variadic)


def _check_body(name: str, body: list[str], words: list[str], refuse: Callable[[str, str], Exception]) -> None:
    full = [token for token in body if token != " "]
    stringified = (full[place + 1 : place + 2] for place, token in enumerate(full) if token == "#")
    if full[:1] == ["##"] or full[-1:] == ["##"] or any(not each or each[0] not in words for each in stringified):
        raise refuse(f"# or ## of {shown(name)} lacks an operand", "Write #x or x ## y, where x is a parameter.")
    if "__VA_OPT__" in full:
        raise refuse(f"the macro {shown(name)} uses __VA_OPT__", "Write out what it stands for.")


class Expander:
    """Expands macros; its limit on the number of tokens counts over all calls."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._spent = 0

    def expand(
        self,
        texts: Sequence[Token],
        macros: Mapping[str, Macro],
        line: int,
        note: Callable[[str, int], None],
        depth: int = 0,
    ) -> list[Token]:
        """Return the tokens with all macros expanded, ends of lines kept.

        line: of the first token. note: told of every identifier that is looked up, with its line. Raises InputError for
        what is no call of its macro, and for more than can be read.
        """
        if depth > TUNING.most_macro_depth:
            raise self._too_deep(line)
        waiting, out = list(reversed(texts)), list[Token]()
        while waiting:
            token = waiting.pop()
            self._spend()
            if token.text == "\n":
                line += 1
            if not is_word(token.text):
                out.append(token)
                continue
            note(token.text, line)
            macro = None if token.text in token.hidden else macros.get(token.text)
            call = None if macro is None or macro.parameters is None else self._call(token, waiting, line)
            if macro is None or (macro.parameters is not None and call is None):
                out.append(token)
                continue
            arguments, hidden, ends = call or ([], token.hidden, 0)
            if len(hidden) >= TUNING.most_macro_depth:
                raise self._too_deep(line)
            waiting += [Token("\n")] * ends
            is_short = macro.variadic and _has_no_rest(macro, arguments)
            arguments = self._matched(token.text, macro, arguments, line)

            def full(argument: Sequence[Token], here: int = line) -> list[Token]:
                return self.expand(argument, macros, here, note, depth + 1)

            body = self._substituted(macro, arguments, full, line, is_short=is_short)
            inner = hidden | {token.text}
            waiting.append(_BLANK)
            waiting += [
                Token(each.text, each.hidden | inner if each.hidden else inner) for each in reversed(body) if each.text
            ]
            waiting.append(_BLANK)
        return out

    def _spend(self) -> None:
        self._spent += 1
        if self._spent > 4 * TUNING.most_words:
            what = f"{self.file} has more than {TUNING.most_words:,} words"
            raise InputError(Mistake("PM151", what, "Keep the loop nest."))

    def _too_deep(self, line: int) -> InputError:
        return InputError(Mistake("PM151", f"macros are nested too deeply ({self.file}:{line})"))

    def _call(
        self, name: Token, waiting: list[Token], line: int
    ) -> tuple[list[list[Token]], frozenset[str], int] | None:
        """Take a call's arguments off the waiting tokens; return them, what is hidden, and how many lines end in it."""
        place = len(waiting) - 1
        while place >= 0 and (waiting[place].text.isspace() or not waiting[place].text):
            place -= 1
        if place < 0 or waiting[place].text != "(":
            return None
        depth, arguments, ends = 0, [list[Token]()], 0
        while waiting:
            token = waiting.pop()
            self._spend()
            ends += token.text == "\n"
            depth += (token.text == "(") - (token.text == ")")
            if depth == 0 and token.text == ")":
                return arguments, name.hidden & token.hidden, ends
            if token.text == "," and depth == 1:
                arguments.append([])
            elif depth > 1 or (depth == 1 and token.text != "("):
                arguments[-1].append(_BLANK if token.text.isspace() else token)
        what = f"the call of the macro {shown(name.text)} is not closed, or a directive stands in it"
        raise InputError(Mistake("PM152", f"{what} ({self.file}:{line})", "Close it before the next directive."))

    def _matched(self, name: str, macro: Macro, arguments: list[list[Token]], line: int) -> list[list[Token]]:
        """Return an argument for each parameter."""
        words = macro.parameters
        if words is None:
            return []
        if not words and len(arguments) == 1 and not _stripped(arguments[0]):
            return []
        last = len(words) - 1
        if macro.variadic and len(arguments) > last:
            rest = list[Token]()
            for argument in arguments[last:]:
                rest += [*([Token(",")] if rest or argument is not arguments[last] else []), *argument]
            arguments = [*arguments[:last], rest]
        elif macro.variadic and len(arguments) == last:
            arguments = [*arguments, []]
        if len(arguments) != len(words):
            what = f"the macro {shown(name)} takes {len(words)} arguments, not {len(arguments)}"
            raise InputError(Mistake("PM152", f"{what} ({self.file}:{line})"))
        return [_stripped(argument) for argument in arguments]

    def _substituted(
        self,
        macro: Macro,
        arguments: list[list[Token]],
        full: Callable[[Sequence[Token]], list[Token]],
        line: int,
        *,
        is_short: bool,
    ) -> list[Token]:
        """Return the body with arguments for parameters (C99 6.10.3.1 to 6.10.3.3); is_short: without variable ones."""
        values = dict(zip(macro.parameters or (), arguments, strict=True))
        rest_name = macro.parameters[-1] if macro.variadic and macro.parameters else None
        body, out, place = macro.body, list[Token](), 0
        while place < len(body):
            text = body[place]
            place += 1
            if text == "#" and macro.parameters is not None:
                place = _after_blanks(body, place)
                out.append(Token(_string(values[body[place]])))
                place += 1
            elif text == "##":
                place = _after_blanks(body, place)
                right, string = body[place], body[place] == "#" and macro.parameters is not None
                if string:
                    place = _after_blanks(body, place + 1)
                place += 1
                operand = [Token(_string(values[body[place - 1]]))] if string else values.get(right, [Token(right)])
                while out and out[-1] == _BLANK:
                    out.pop()
                if right == rest_name and out[-1].text == ",":  # of GNU C: the comma goes with the arguments
                    out = out[:-1] if is_short else [*out, *operand]
                else:
                    out = [*out[:-1], *self._pasted(out[-1], operand or [_NOTHING], line)]
            elif text not in values:
                out.append(Token(text))
            elif body[_after_blanks(body, place) : _after_blanks(body, place) + 1] == ("##",):
                out += values[text] or [_NOTHING]
            else:
                out += [_BLANK, *full(values[text]), _BLANK]
        return out

    def _pasted(self, left: Token, right: list[Token], line: int) -> list[Token]:
        text = left.text + right[0].text
        if text and len(tokens_of(text)) != 1 and text not in _SIGNS:
            what = f"{shown(left.text)} ## {shown(right[0].text)} is no word of C ({self.file}:{line})"
            raise InputError(Mistake("PM152", what, "Write out what it stands for."))
        return [Token(text, left.hidden & right[0].hidden), *right[1:]]


_SIGNS = frozenset(
    ("++", "--", "->", "&&", "||", "<<", ">>", "|=", "&=", "^=", "==", "!=", "<=", ">=", "+=", "-=", "*=")
)


def _has_no_rest(macro: Macro, arguments: list[list[Token]]) -> bool:
    """Return whether a call leaves the variable arguments out (an empty one behind a comma is one)."""
    last = len(macro.parameters or ()) - 1
    return len(arguments) <= last or (last == 0 and len(arguments) == 1 and not _stripped(arguments[0]))


def _stripped(argument: list[Token]) -> list[Token]:
    first, last = 0, len(argument)
    while first < last and argument[first].text.isspace():
        first += 1
    while first < last and argument[last - 1].text.isspace():
        last -= 1
    return argument[first:last]


def _after_blanks(body: Sequence[str], place: int) -> int:
    while place < len(body) and body[place] == " ":
        place += 1
    return place


def _string(argument: Sequence[Token]) -> str:
    """Return an argument as a string literal."""
    spelled = [
        re.sub(r"([\"\\])", r"\\\1", token.text) if token.text[:1] in "\"'" and token.text else token.text
        for token in argument
    ]
    return '"' + re.sub(r" +", " ", "".join(spelled)) + '"'
