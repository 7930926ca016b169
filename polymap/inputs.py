"""The one door for what users write: files, JSON, TOML, names, numbers.

Python's own parsers raise RecursionError, merge duplicate keys, take NaN, and `True` is an integer to them; here size
and depth are checked first, then syntax, then names and numbers by ASCII rules. Meaning is checked by the rooms below.

    problems: list[Problem] = []
    fields = Fields.of(parse_json(read_text(path), path), "machine", problems, known=("size",), required=("size",))
    size = fields.integer("size", 1)          # the default is returned where the field is absent or wrong ...
    if problems:                              # ... and every mistake is collected
        raise ArchError(problems)
"""

from __future__ import annotations

import json
import math
import operator
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import SupportsIndex, TypeGuard, TypeVar, cast

from polymap.errors import InputError, Problem, did_you_mean

MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 100
MAX_DIGITS = 4300
MAX_EXPONENT = 400
MAX_LABEL_LENGTH = 200
MAX_INTEGER = 10**100

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE]([+-]?[0-9]+))?", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_JSON_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_TOML_TOKEN = re.compile(
    r'"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*+(?:""")?'
    r"|'''[^']*+(?:'(?!'')[^']*+)*+(?:''')?"
    r'|"(?:[^"\\\n]*+(?:\\.[^"\\\n]*+)*+)"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+"
    r"|[A-Za-z0-9_-]++(?:[ \t]*\.[ \t]*[A-Za-z0-9_-]++)*+"
    r"|[\[\]{}.=,\n]",
    re.DOTALL,
)

Default = TypeVar("Default")
Value = TypeVar("Value")


def read_text(path: str | Path) -> str:
    """Return the text of a UTF-8 file of at most 16 MiB, without its byte order mark.

    Raises InputError where the file cannot be read, is too large or is not UTF-8.
    """
    name = shown(str(path), longest=400)
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise InputError(Problem("PM101", f"cannot read {name}: {reason}")) from None
    if len(data) > MAX_FILE_BYTES:
        raise InputError(Problem("PM102", f"{name} is larger than 16 MiB", "Input files are smaller."))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"{name} is not UTF-8: byte 0x{data[error.start]:02x} in line {line}"
        raise InputError(Problem("PM103", what)) from None


def parse_json(text: str, where: str) -> object:
    """Return the value of a JSON text; `where` names it in messages. Numbers with a point or exponent become Fraction.

    Raises InputError: too deep, bad syntax (with line and column), duplicate keys, NaN, Infinity, endless numbers.
    """
    _check_depth(_JSON_TOKEN, text, where)

    def integer(digits: str) -> int:
        if len(digits) > MAX_DIGITS:
            raise _too_long(where)
        return int(digits)

    def number(digits: str) -> Fraction:  # NaN and Infinity too, which it refuses
        return _fraction(digits, where)

    def table(pairs: list[tuple[str, object]]) -> dict[str, object]:
        return _without_duplicates(pairs, where)

    try:
        loaded = json.loads(text, parse_int=integer, parse_float=number, parse_constant=number, object_pairs_hook=table)
        return cast(object, loaded)
    except json.JSONDecodeError as error:
        what = f"{where} is not JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        raise InputError(Problem("PM105", what)) from None
    except RecursionError:
        raise _too_deep(where) from None


def parse_toml(text: str, where: str) -> object:
    """Return the table of a TOML text, under the same rules as `parse_json`."""
    _check_depth(_TOML_TOKEN, text, where)

    def number(digits: str) -> Fraction:
        return _fraction(digits.replace("_", ""), where)

    try:
        value = tomllib.loads(text, parse_float=number)
    except tomllib.TOMLDecodeError as error:
        raise InputError(Problem("PM106", f"{where} is not TOML: {error}")) from None
    except InputError:
        raise
    except ValueError:
        raise _too_long(where) from None
    except RecursionError:
        raise _too_deep(where) from None
    _check_value_depth(value, where)
    return cast(object, value)


def parse_integer(text: str) -> int | None:
    """Return the integer that an ASCII text says (`8`, `-3`), or None: no underscores, spaces, points or words."""
    return int(text) if _INTEGER.fullmatch(text) and len(text) <= MAX_DIGITS else None


def as_integer(value: object) -> int | None:
    """Return an integer of Python or numpy as a Python one, or None for anything else, booleans included."""
    if type(value).__name__ in ("bool", "bool_"):  # Python's or numpy's, which is an index until numpy 2.3
        return None
    if isinstance(value, int):
        return int(value)
    if not isinstance(value, SupportsIndex):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def as_fraction(value: object) -> Fraction | None:
    """Return a finite number as the decimal that was written (0.1 is 1/10), or None for anything else."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, float):
        return Fraction(repr(float(value))) if math.isfinite(value) else None
    integer = as_integer(value)
    return None if integer is None else Fraction(integer)


def is_name(value: object) -> TypeGuard[str]:
    """Return whether the value is a name: `[A-Za-z_][A-Za-z0-9_]*`, ASCII, at most 64 characters."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def is_label(value: object) -> TypeGuard[str]:
    """Return whether the value is a label: at most 200 printable characters."""
    return isinstance(value, str) and len(value) <= MAX_LABEL_LENGTH and value.isprintable()


def is_table(value: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether the value is a table whose keys are texts."""
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in cast(Mapping[object, object], value))


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether the value is a list or tuple."""
    return isinstance(value, list | tuple)


def shown(value: object, *, longest: int = 60) -> str:
    """Return the value as it may stand in a message: quoted if text, short, on one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        plain = len(value) <= longest and value.isprintable()
        return f"'{value}'" if plain else ascii(value[:longest]) + ("..." if len(value) > longest else "")
    if isinstance(value, int):
        digits = int(value.bit_length() * 0.30103) + 1
        return str(value) if digits <= 40 else f"an integer of about {digits} digits"
    if isinstance(value, Fraction | float):
        return str(float(value))
    if isinstance(value, Mapping):
        return "a table"
    return "a list" if is_list(value) else f"a value of type {type(value).__name__}"


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one table, each read with its rule; mistakes go to `problems`, the default is then returned.

    A reader with `null=True` takes null as its default. `where` names the table in messages ("nodes[3]").
    """

    table: Mapping[str, object]
    where: str
    problems: list[Problem]

    @staticmethod
    def of(
        value: object, where: str, problems: list[Problem], *, known: Sequence[str], required: Iterable[str] = ()
    ) -> Fields:
        """Return the fields of `value`, having noted whether it is no table, what is unknown and what is missing."""
        if not is_table(value):
            problems.append(Problem("PM112", f"{where} is {shown(value)}", "A table of fields is wanted."))
            return Fields({}, where, problems)
        unknown = [key for key in value if key not in known]
        for key in unknown[:20]:
            what = f"{where} has an unknown field {shown(key)}"
            problems.append(Problem("PM110", what, did_you_mean(key[:64], known)))
        if len(unknown) > 20:
            problems.append(Problem("PM110", f"{where} has {len(unknown) - 20} more unknown fields"))
        for key in required:
            if key not in value:
                problems.append(Problem("PM111", f"{where} lacks the field '{key}'"))
        return Fields(value, where, problems)

    def has(self, name: str) -> bool:
        """Return whether the field stands in the table (null counts)."""
        return name in self.table

    def refuse(self, code: str, name: str, wanted: str) -> None:
        """Note that the field's value is not what is wanted."""
        self.problems.append(Problem(code, f"{self.where}: {name} is {shown(self.table[name])}", wanted))

    def integer(
        self, name: str, default: Default, *, least: int = 1, most: int = MAX_INTEGER, null: bool = False
    ) -> int | Default:
        """Return an integer, least <= value <= most."""
        if self._absent(name, null=null):
            return default
        if (value := as_integer(self.table[name])) is None:
            self.refuse("PM112", name, f"An integer >= {least} is wanted.")
            return default
        if not least <= value <= most:
            above = f" and <= {most}" if most < MAX_INTEGER else " and at most 10^100"
            self.refuse("PM113", name, f"An integer >= {least}{above if value >= least else ''} is wanted.")
            return default
        return value

    def number(self, name: str, default: Default, *, positive: bool = False, null: bool = False) -> Fraction | Default:
        """Return a finite number >= 0 (> 0 if `positive`), exactly as written in decimal."""
        if self._absent(name, null=null):
            return default
        wanted = f"A finite number {'> 0' if positive else '>= 0'} is wanted."
        value = as_fraction(self.table[name])
        if value is None:
            self.refuse("PM112", name, wanted)
            return default
        if value < 0 or (positive and value == 0) or value > MAX_INTEGER:
            self.refuse("PM113", name, wanted)
            return default
        return value

    def flag(self, name: str, default: Default) -> bool | Default:
        """Return true or false."""
        wanted = "true or false is wanted."
        return self._read(name, default, lambda v: v if isinstance(v, bool) else None, "PM112", wanted)

    def text(self, name: str, default: Default) -> str | Default:
        """Return any text that UTF-8 can write."""
        return self._read(name, default, _as_text, "PM112", "A text is wanted.")

    def name(self, name: str, default: Default) -> str | Default:
        """Return a name: [A-Za-z_][A-Za-z0-9_]*, at most 64 characters."""
        return self._read(name, default, lambda v: v if is_name(v) else None, "PM114", NAME_RULE)

    def label(self, name: str, default: Default) -> str | Default:
        """Return a label: at most 200 printable characters."""
        return self._read(name, default, lambda v: v if is_label(v) else None, "PM115", LABEL_RULE)

    def choice(self, name: str, default: Default, options: Sequence[str]) -> str | Default:
        """Return one of the options."""
        wanted = f"One of {', '.join(options)} is wanted."
        return self._read(name, default, lambda v: v if isinstance(v, str) and v in options else None, "PM113", wanted)

    def items(self, name: str) -> Sequence[object]:
        """Return a list; () where it is absent or something else."""
        return self._read(name, (), lambda v: v if is_list(v) else None, "PM112", "A list is wanted.")

    def names(
        self, name: str, default: Default, *, roles: Sequence[str] = (), null: bool = False
    ) -> tuple[str, ...] | Default:
        """Return a list of different names; the words in `roles` ("@input") are taken too."""
        if self._absent(name, null=null):
            return default
        if not is_list(value := self.table[name]):
            self.refuse("PM112", name, "A list of names is wanted.")
            return default
        words = frozenset(roles)
        good: dict[str, None] = {}
        for index, item in enumerate(value):
            if not (is_name(item) or (isinstance(item, str) and item in words)):
                hint = did_you_mean(item[:64], roles) if isinstance(item, str) and item.startswith("@") else NAME_RULE
                self.problems.append(Problem("PM114", f"{self.where}: {name}[{index}] is {shown(item)}", hint))
            elif item in good:
                self.problems.append(Problem("PM116", f"{self.where}: {name} lists {shown(item)} twice"))
            else:
                good[item] = None
        return tuple(good)

    def _read(
        self, name: str, default: Default, convert: Callable[[object], Value | None], code: str, wanted: str
    ) -> Value | Default:
        if self._absent(name, null=False):
            return default
        value = convert(self.table[name])
        if value is None:
            self.refuse(code, name, wanted)
            return default
        return value

    def _absent(self, name: str, *, null: bool) -> bool:
        return name not in self.table or (null and self.table[name] is None)


def _as_text(value: object) -> str | None:
    if not isinstance(value, str) or any(0xD800 <= ord(character) < 0xE000 for character in value):
        return None
    return value


NAME_RULE = "A name is a letter or _ followed by letters, digits and _ (ASCII, at most 64 characters)."
LABEL_RULE = "A label is a text of at most 200 printable characters."


def _check_depth(token: re.Pattern[str], text: str, where: str) -> None:
    """Raise InputError where the text is over 16 MiB or its brackets (not those in texts) nest over 100 deep."""
    if len(text) > MAX_FILE_BYTES:
        raise InputError(Problem("PM102", f"{where} is larger than 16 MiB", "Inputs are smaller."))
    depth = dots = 0  # dots: those of a chain of dotted keys
    for match in token.finditer(text):
        first = match.group()[0]
        if first in "[{":
            depth += 1
        elif first in "]}":
            depth -= 1
        elif first in "=,\n":
            dots = 0
        elif first not in "\"'#":
            dots += match.group().count(".")
        if depth > MAX_DEPTH or dots > MAX_DEPTH:
            raise _too_deep(where)


def _check_value_depth(value: object, where: str) -> None:
    """Raise InputError where tables and lists nest over 100 deep (TOML's headers and quoted dotted keys can)."""
    layer: list[object] = [value]
    for _ in range(MAX_DEPTH + 1):
        below: list[object] = []
        for item in layer:
            if is_table(item):
                below.extend(item.values())
            elif is_list(item):
                below.extend(item)
        layer = below
    if any(is_table(item) or is_list(item) for item in layer):
        raise _too_deep(where)


def _without_duplicates(pairs: list[tuple[str, object]], where: str) -> dict[str, object]:
    table = dict(pairs)
    if len(table) == len(pairs):
        return table
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for key, _ in pairs:
        if key in seen:
            twice[key] = None
        seen.add(key)
    raise InputError([Problem("PM107", f"{where}: the key {shown(key)} stands twice in one table") for key in twice])


def _fraction(digits: str, where: str) -> Fraction:
    match = _DECIMAL.fullmatch(digits)
    if match is None:  # nan and inf in TOML
        raise InputError(Problem("PM108", f"{where}: {shown(digits)} is not a finite number", "Write a finite number."))
    exponent = match.group(1) or "0"
    if len(digits) > MAX_DIGITS:
        raise _too_long(where)
    if len(exponent.lstrip("+-0")) > 4 or abs(int(exponent)) > MAX_EXPONENT:
        what = f"{where}: the exponent of {shown(digits)} is too large"
        raise InputError(Problem("PM109", what, f"Exponents of at most {MAX_EXPONENT} are read."))
    return Fraction(digits)


def _too_long(where: str) -> InputError:
    return InputError(Problem("PM109", f"{where}: a number has more than {MAX_DIGITS:,} digits"))


def _too_deep(where: str) -> InputError:
    return InputError(Problem("PM104", f"{where} nests more than {MAX_DEPTH} levels deep"))
