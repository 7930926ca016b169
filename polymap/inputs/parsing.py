"""Parses JSON and TOML with exact numbers; mistakes name the field and the line.

Python's own parsers raise RecursionError, merge duplicate keys and take NaN; here size and depth are checked first.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from typing import cast

from polymap.inputs.limits import LIMITS
from polymap.inputs.reading import is_list, is_table, shown
from polymap.inputs.texts import (
    Entry,
    Path,
    column_of,
    json_entries,
    json_lines,
    json_mistake,
    line_of,
    path_text,
    paths_in,
    toml_lines,
)
from polymap.ir import InputError, Mistake, PolymapError

_DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE]([+-]?[0-9]+))?", re.ASCII)
_NUMBER_START = re.compile(r"[-+]?[0-9]|[-+]?(?:NaN|Infinity)")
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
_TOML_NUMBER = re.compile(r"([\w-]+)[\"']?\s*=\s*([-+]?(?:nan|inf)\b|[-+]?[0-9][0-9_.eE+-]*)")
_TOML_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column \d+|end of document)\)", re.DOTALL)
_TOML_TWICE = re.compile("Cannot (declare|mutate|overwrite)")
_TOML_HEADER = re.compile(r"\s*\[\[?\s*([\w.\"'-]+)\s*\]")
_TOML_KEY = re.compile(r"\s*([\w.\"'-]+)\s*=")


def parse_json(text: str, where: str, most_bytes: int = LIMITS.file_bytes) -> object:
    """Return the value of a JSON text; `where` names it in messages. Numbers with a point or exponent become Fraction.

    Raises InputError: too deep, bad syntax (with its cause, line and column), and, all at once with field and line,
    duplicate keys, NaN, Infinity, numbers that are too long.
    """
    _check_depth(_JSON_TOKEN, text, where, most_bytes)
    wrong = False  # something is that Python's parser takes; where it is, `_json_problems` finds out

    def number(digits: str) -> int | Fraction:  # NaN and Infinity too
        nonlocal wrong
        if _number_mistake(digits) is None:
            return int(digits) if digits.lstrip("-").isdigit() else Fraction(digits)
        wrong = True
        return 0

    def table(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal wrong
        found = dict(pairs)
        wrong = wrong or len(found) < len(pairs)
        return found

    try:
        loaded = json.loads(text, parse_int=number, parse_float=number, parse_constant=number, object_pairs_hook=table)
    except json.JSONDecodeError as error:
        mistake = json_mistake(text, error.msg, error.pos)
        place = f"line {line_of(text, mistake.at)}, column {column_of(text, mistake.at)}"
        raise InputError(Mistake("PM105", f"{where} is not JSON: {mistake.what} ({place})", mistake.hint)) from None
    except RecursionError:
        raise _too_deep(where) from None
    if wrong:
        raise InputError(_json_problems(text, where))
    return cast(object, loaded)


def parse_toml(text: str, where: str) -> object:
    """Return the table of a TOML text, under the same rules as `parse_json`."""
    _check_depth(_TOML_TOKEN, text, where)
    wrong: list[Mistake] = []

    def number(digits: str) -> Fraction:
        mistake = _number_mistake(digits.replace("_", ""))
        if mistake is None:
            return Fraction(digits.replace("_", ""))
        wrong.append(Mistake(mistake.code, f"{where}: {mistake.what}", mistake.hint))
        return Fraction(0)

    try:
        value = tomllib.loads(text, parse_float=number)
    except tomllib.TOMLDecodeError as error:
        raise InputError(_toml_mistake(text, str(error), where)) from None
    except ValueError:  # Python reads no integer of so many digits
        found = _toml_number_mistakes(text, where)
        what = f"{where}: a number has more than {LIMITS.digits:,} digits"
        raise InputError(found or Mistake("PM109", what, "No number that is read is as large.")) from None
    except RecursionError:
        raise _too_deep(where) from None
    if wrong:
        raise InputError(_toml_number_mistakes(text, where) or wrong)
    _check_value_depth(value, where)
    return cast(object, value)


@contextmanager
def mistakes_in(name: str, text: str) -> Generator[None, None, None]:
    """Context manager: mistakes raised inside name the file and the line of the field that they concern.

    name: the file as messages show it (TOML where it ends so, else JSON); text: its valid content.
    """
    try:
        yield
    except PolymapError as error:
        raise type(error)(located(error.mistakes, name, text)) from None


def located(mistakes: Sequence[Mistake], name: str, text: str) -> tuple[Mistake, ...]:
    """Return the mistakes, each followed by the file's name and lines: "('a.json', lines 2 and 5)"."""
    paths = [paths_in(mistake.what) for mistake in mistakes]
    wanted = [path[:length] for some in paths for path in some for length in range(1, len(path) + 1)]
    find: Callable[[str, Sequence[Path]], dict[Path, int]] = toml_lines if ".toml" in name.lower() else json_lines
    lines = find(text, wanted) if wanted and len(text) <= LIMITS.searched_characters else {}
    return tuple(
        Mistake(mistake.code, f"{mistake.what} ({name}{_lines(some, lines)})", mistake.hint)
        for mistake, some in zip(mistakes, paths, strict=True)
    )


def _lines(paths: tuple[Path, ...], lines: dict[Path, int]) -> str:
    """Return ", line 3" or ", lines 3 and 5"; of a field that cannot be found, the line of the enclosing table."""
    numbers: dict[int, None] = {}
    for path in paths:
        shorter = [path[:length] for length in range(len(path), min(len(path), 2) - 1, -1)]
        numbers.update(dict.fromkeys([lines[each] for each in shorter if each in lines][:1]))
    if not numbers:
        return ""
    return f", {'line' if len(numbers) == 1 else 'lines'} {' and '.join(str(number) for number in sorted(numbers))}"


def _number_mistake(digits: str) -> Mistake | None:
    """Return the mistake in a number's text: not finite, or too long."""
    match = _DECIMAL.fullmatch(digits)
    if match is None:  # nan and inf in TOML
        return Mistake("PM108", f"{shown(digits)} is not a finite number", "Write a finite number.")
    if len(digits) > LIMITS.digits:
        what = f"a number of {sum(map(str.isdigit, digits)):,} digits is too large"
        return Mistake("PM109", what, f"Numbers of at most {LIMITS.digits:,} digits are read.")
    exponent = match.group(1) or "0"
    if len(exponent.lstrip("+-0")) > 4 or abs(int(exponent)) > LIMITS.exponent:
        what = f"the exponent of {shown(digits)} is too large"
        return Mistake("PM109", what, f"Exponents of at most {LIMITS.exponent} are read.")
    return None


def _json_problems(text: str, where: str) -> list[Mistake]:
    """Return duplicate keys and invalid numbers, each with field and line."""
    found: list[Mistake] = []
    first: dict[tuple[int, str | int], Entry] = {}
    for entry in json_entries(text) if text.lstrip()[:1] in ("{", "[") else ():
        other = first.setdefault((entry.table, entry.path[-1]), entry)
        if other is not entry:
            lines = f"in line {other.line}" + (f" and again in line {entry.line}" if entry.line != other.line else "")
            what = f"{where}: the key {shown(entry.path[-1])} stands twice in one table, {lines}"
            what += f" ({path_text(entry.path)})" if len(entry.path) > 1 else ""
            found.append(Mistake("PM107", what, "Keep one of them."))
        if _NUMBER_START.match(entry.token) and (mistake := _number_mistake(entry.token)):
            what = f"{where}, line {entry.line}: {path_text(entry.path)} cannot be read: {mistake.what}"
            found.append(Mistake(mistake.code, what, mistake.hint))
        if len(found) == LIMITS.mistakes_told:
            break
    alone = _number_mistake(text.strip())
    return found or ([Mistake(alone.code, f"{where}: {alone.what}", alone.hint)] if alone else [])


def _toml_number_mistakes(text: str, where: str) -> list[Mistake]:
    found: list[Mistake] = []
    for match in _TOML_NUMBER.finditer(text):
        mistake = _number_mistake(match.group(2).replace("_", ""))
        if mistake and (
            len(match.group(2)) > LIMITS.digits or mistake.code == "PM108" or "e" in match.group(2).lower()
        ):
            what = f"{where}, line {line_of(text, match.start())}: {match.group(1)} cannot be read: {mistake.what}"
            found.append(Mistake(mistake.code, what, mistake.hint))
    return found[: LIMITS.mistakes_told]


def _toml_mistake(text: str, message: str, where: str) -> Mistake:
    """Return why a text is no TOML, with both positions of a duplicate key."""
    if text.lstrip().startswith("{"):
        return Mistake("PM106", f"{where} is not TOML: it looks like JSON", "Let the file's name end in .json.")
    place = _TOML_PLACE.fullmatch(message)
    lines = text.splitlines()
    at = min(int(place.group(2) or len(lines)) if place else len(lines), len(lines)) - 1
    if header := _TOML_HEADER.match(lines[at]) if lines and _TOML_TWICE.match(message) else None:
        what = f"{where} is not TOML: {header.group(1)} is declared before, and again in line {at + 1}"
        return Mistake("PM106", what, f"Write [[{header.group(1)}]] before each item of a list; else keep one.")
    if place is None or "overwrite" not in place.group(1):
        hint = "An inline table ({...}) stands on one line." if "key part" in message else ""
        return Mistake("PM106", f"{where} is not TOML: {message}", hint)
    key = _TOML_KEY.match(lines[at])
    for before in range(at - 1, -1, -1):
        other = _TOML_KEY.match(lines[before])
        if key is None or lines[before].lstrip().startswith("["):
            break
        if other and other.group(1) == key.group(1):
            what = f"{where}: the key '{key.group(1)}' stands twice in one table, in line {before + 1} and again in "
            return Mistake("PM107", f"{what}line {at + 1}", "Keep one of them.")
    return Mistake("PM106", f"{where} is not TOML: a key stands twice (line {at + 1})", "Keep one of them.")


def _check_depth(token: re.Pattern[str], text: str, where: str, most_bytes: int = LIMITS.file_bytes) -> None:
    """Raise InputError if the text is longer or its brackets (outside strings) nest more than 100 deep."""
    if len(text) > most_bytes:
        raise InputError(Mistake("PM102", f"{where} is larger than {most_bytes >> 20} MiB", "Inputs are smaller."))
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
        if depth > LIMITS.depth or dots > LIMITS.depth:
            raise _too_deep(where)


def _check_value_depth(value: object, where: str) -> None:
    """Raise InputError if tables and lists nest more than 100 deep (possible with TOML headers and dotted keys)."""
    layer: list[object] = [value]
    for _ in range(LIMITS.depth + 1):
        below: list[object] = []
        for item in layer:
            if is_table(item):
                below.extend(item.values())
            elif is_list(item):
                below.extend(item)
        layer = below
    if any(is_table(item) or is_list(item) for item in layer):
        raise _too_deep(where)


def _too_deep(where: str) -> InputError:
    return InputError(Mistake("PM104", f"{where} nests more than {LIMITS.depth} levels deep"))
