"""Reads files, and the fields of parsed JSON and TOML tables: names and numbers by ASCII rules.

Python itself accepts `True` as an integer and ligatures in names. Meaning is checked by the packages that use this one.

    mistakes: list[Mistake] = []
    fields = Fields.of(parse_json(read_text(path), path), "machine", mistakes, known=("size",), required=("size",))
    size = fields.integer("size", 1)          # the default is returned where the field is absent or wrong ...
    if mistakes:                              # ... and every mistake is collected
        raise ArchError(mistakes)
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path, PurePath
from typing import SupportsFloat, TypeGuard, TypeVar, cast

from polymap.inputs.limits import LIMITS
from polymap.ir import (
    UNIT_RULE,
    InputError,
    Mistake,
    OptionError,
    PolymapError,
    as_fraction,
    as_integer,
    bits_of_amount,
    closest,
    did_you_mean,
    has_unit,
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_RATIO = re.compile(r"[0-9]+/[1-9][0-9]*", re.ASCII)
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

Default = TypeVar("Default")
Value = TypeVar("Value")
Kind = TypeVar("Kind")


def read_text(path: str | Path, most_bytes: int = LIMITS.file_bytes) -> str:
    """Return the text of a UTF-8 file of at most `most_bytes`, without its byte order mark.

    Raises InputError where the file cannot be read, is too large or is not UTF-8.
    """
    name = shown(str(path), longest=400)
    try:
        with Path(path).open("rb") as file:
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise InputError(Mistake("PM101", f"cannot read {name}: {reason}")) from None
    if len(data) > most_bytes:
        raise InputError(Mistake("PM102", f"{name} is larger than {most_bytes >> 20} MiB", "Input files are smaller."))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        what = f"{name} is not UTF-8: byte 0x{data[error.start]:02x} in line {line}"
        hint = "It looks like UTF-16: save it as UTF-8." if data[:2] in _UTF16_MARKS else "Save it as UTF-8."
        raise InputError(Mistake("PM103", what, hint)) from None


def refuse_yaml(path: str | PurePath, what: str) -> None:
    """Raise InputError if the file's name ends as YAML, which is not supported."""
    if PurePath(path).suffix.lower() in (".yaml", ".yml"):
        hint = f"Write the {what} as JSON: the same tables and lists, in a file whose name ends in .json."
        hint += " Files of other tools: pm.from_timeloop, pm.io.from_zigzag, pm.io.from_accelforge."
        raise InputError(Mistake("PM118", f"{shown(str(path))} is a YAML file, and YAML is not read", hint))


def parse_integer(text: str) -> int | None:
    """Return the integer that an ASCII text denotes (`8`, `-3`), else None: no underscores, spaces, points or words."""
    return int(text) if _INTEGER.fullmatch(text) and len(text) <= LIMITS.digits else None


def is_long_integer(text: str) -> bool:
    """Return whether an ASCII text denotes a positive integer that is too long to be read."""
    return len(text) > LIMITS.digits and _INTEGER.fullmatch(text) is not None and not text.startswith("-")


def is_ratio(value: object) -> TypeGuard[str]:
    """Return whether a value is the text of a fraction, such as "1/3"."""
    return isinstance(value, str) and len(value) <= LIMITS.digits and _RATIO.fullmatch(value) is not None


def as_bits(value: object) -> int | None:
    """Return a size in bits, given as an integer or as a text with a unit ("32 KiB"); None for anything else."""
    if not isinstance(value, str):
        return as_integer(value)
    amount = bits_of_amount(value)
    return None if amount is None or amount.denominator > 1 else amount.numerator


def expected_text(value: object, what: str, error: type[PolymapError] = InputError) -> str:
    """Return a text that a caller in Python gave; raises the error for a value of another type."""
    if isinstance(value, str):
        return value
    raise error(Mistake("PM120", f"{what} is {shown(value)}", "Expected a text."))


_HELD_BY_RESULTS = {"Cost": ": the `cost` of this result", "Mapping": ": the `best` of this result"}
_MADE_BY = {
    "SearchResult": "pm.explore(workload, arch)",
    "Cost": "pm.evaluate(workload, arch, mapping)",
    "Sample": "pm.sample_mappings(workload, arch, n)",
    "Comparison": "pm.compare(workload, arch)",
    "Verdict": "pm.verify(result.certificate())",
    "NetworkAnswer": "pm.explore_network(net, arch)",
    "SweepTable": "pm.sweep(workloads, machines)",
    "BufferCurve": "pm.study.buffer_curve(workload, arch, level, sizes)",
    "CapacityCurve": "pm.study.capacity(workload, arch, level, sizes)",
    "Sensitivity": "pm.study.sensitivity(workload, arch)",
    "TileStudy": "pm.study.tiles(workload, arch, mapping, across, up)",
    "WinnerStudy": "pm.study.winners(workload, arch, across, up)",
    "Fusion": "pm.study.fusion(workload, arch)",
}


def expected_kind(value: object, kind: type[Kind], what: str, error: type[PolymapError] = OptionError) -> Kind:
    """Return a value that a caller in Python gave; raises the error for one of another type."""
    if isinstance(value, kind):
        return value
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    held = _HELD_BY_RESULTS.get(kind.__name__, "") if type(value).__name__ == "SearchResult" else ""
    given = held or (f", as {_MADE_BY[kind.__name__]} returns" if kind.__name__ in _MADE_BY else "")
    spoken = {"bool": "True or False", "Path": "the path of a file, as a text or a Path"}
    wanted = spoken.get(kind.__name__) or f"{article} {kind.__name__}{given}"
    raise error(Mistake("PM120", f"{what} is {shown(value)}", f"Expected {wanted}."))


def expected_list(value: object, what: str) -> Sequence[object]:
    """Return a list or tuple that a caller in Python gave; raises OptionError for a value of another type."""
    if is_list(value):
        return value
    raise OptionError(Mistake("PM120", f"{what} is {shown(value)}", "Expected a list."))


def as_float(value: object) -> float:
    """Return a number as a float; NaN for anything else, and for one that is larger than any float."""
    try:
        return float(value) if isinstance(value, SupportsFloat) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.nan


def expected_seconds(value: object) -> float:
    """Return a time limit in seconds, or infinity, that a caller in Python gave; raises OptionError otherwise."""
    if not math.isnan(found := as_float(value)):
        return found
    raise OptionError(Mistake("PM120", f"time_limit_s is {shown(value)}", "Expected a number of seconds."))


def expected_method(value: object, name: str, what: str) -> None:
    """Raise OptionError for a value, other than None, without a method of this name ("__call__": no function)."""
    if value is not None and not callable(getattr(value, name, None)):
        form = "a function" if name == "__call__" else f"an object with `{name}`"
        raise OptionError(Mistake("PM120", f"{what} is {shown(value)}", f"Expected {form}, or None."))


def as_whole(value: object) -> int | None:
    """Return a number without a fraction (16, 16.0, 1e3) as an integer, or None for anything else."""
    number = as_fraction(value)
    return number.numerator if number is not None and number.denominator == 1 else None


def is_name(value: object) -> TypeGuard[str]:
    """Return whether the value is a name: `[A-Za-z_][A-Za-z0-9_]*`, ASCII, at most 64 characters."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def is_label(value: object) -> TypeGuard[str]:
    """Return whether the value is a label: at most 200 printable characters."""
    return isinstance(value, str) and len(value) <= LIMITS.label_characters and value.isprintable()


def is_table(value: object) -> TypeGuard[Mapping[str, object]]:
    """Return whether the value is a table whose keys are texts."""
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in cast(Mapping[object, object], value))


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Return whether the value is a list or tuple."""
    return isinstance(value, list | tuple)


def kinds_found(kinds: Sequence[str], item: Mapping[str, object], known: Sequence[str]) -> str:
    """Return which of the fields that determine the kind of a node the table has (none or several: a mistake), and
    which of the known ones it may mean."""
    if kinds:
        return f"has {' and '.join(shown(kind) for kind in kinds)}, which exclude each other"
    others = ", ".join(shown(key, longest=20) for key in list(item)[:5])
    for key in item:
        if close := closest(key[:64], known):
            return f"does not say what it is: it has only {others} (did you mean '{close}' by {shown(key)}?)"
    return f"does not say what it is: it has only {others}" if others else "is an empty table"


def shown(value: object, *, longest: int = 60) -> str:
    """Return the value as messages show it: quoted if text, short, on one line."""
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
        endless = isinstance(value, Fraction) and abs(value) > 10**300  # no float holds 10^309
        return "a number over 1e300" if endless else str(float(value))
    if isinstance(value, Mapping):
        return "a table"
    return "a list" if is_list(value) else f"a value of type {type(value).__name__}"


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of one table, each read by its rule; mistakes are added to `mistakes`, and the default is returned.

    A reader with `null=True` takes null as its default. `where` names the table in messages ("nodes[3]").
    """

    table: Mapping[str, object]
    where: str
    mistakes: list[Mistake]

    @staticmethod
    def of(
        value: object, where: str, mistakes: list[Mistake], *, known: Sequence[str], required: Sequence[str] = ()
    ) -> Fields:
        """Return the fields of `value`; notes a value that is no table, unknown and missing fields."""
        if not is_table(value):
            mistakes.append(Mistake("PM112", f"{where} is {shown(value)}", "Expected a table of fields."))
            return Fields({}, where, mistakes)
        unknown, missing = [key for key in value if key not in known], [key for key in required if key not in value]
        lone = missing if len(unknown) == 1 else ()
        for key in unknown[:20]:
            what = f"{where} has an unknown field {shown(key)}"
            mistakes.append(Mistake("PM110", what, did_you_mean(key[:64], known, lone)))
        if len(unknown) > 20:
            mistakes.append(Mistake("PM110", f"{where} has {len(unknown) - 20} more unknown fields"))
        cure = f"Add it; required: {', '.join(required)}."
        mistakes += [Mistake("PM111", f"{where} lacks the field '{key}'", cure) for key in missing]
        return Fields(value, where, mistakes)

    def has(self, name: str) -> bool:
        """Return whether the table has the field (null counts)."""
        return name in self.table

    def refuse(self, code: str, name: str, wanted: str) -> None:
        """Note that the field's value is not what is expected."""
        self.mistakes.append(Mistake(code, f"{self.where}: {name} is {shown(self.table[name])}", wanted))

    def integer(
        self,
        name: str,
        default: Default,
        *,
        least: int = 1,
        most: int = LIMITS.integer,
        null: bool = False,
        read: Callable[[object], int | None] = as_integer,
    ) -> int | Default:
        """Return an integer, least <= value <= most. read: which values are integers (`as_whole`: 16.0 and 1e3 too)."""
        if self._absent(name, null=null):
            return default
        if (value := read(self.table[name])) is None:
            self.refuse("PM112", name, f"Expected an integer >= {least}.")
            return default
        if value > most:
            at_most = f"<= {most}" if most < LIMITS.integer else "at most 10^100"
            what = f"{self.where}: {name} is too large: {shown(value)}"
            self.mistakes.append(Mistake("PM113", what, f"Expected an integer >= {least} and {at_most}."))
            return default
        if value < least:
            self.refuse("PM113", name, f"Expected an integer >= {least}.")
            return default
        return value

    def number(self, name: str, default: Default, *, positive: bool = False, null: bool = False) -> Fraction | Default:
        """Return a finite number >= 0 (> 0 if `positive`), exactly as written in decimal, or as a fraction ("1/3")."""
        if self._absent(name, null=null):
            return default
        wanted = f"Expected a finite number {'> 0' if positive else '>= 0'}."
        found = self.table[name]
        value = Fraction(found) if is_ratio(found) else as_fraction(found)
        if value is None:
            self.refuse("PM112", name, wanted)
            return default
        if value > LIMITS.integer:
            what = f"{self.where}: {name} is too large: {shown(value)}"
            self.mistakes.append(Mistake("PM113", what, "Expected a number of at most 10^100."))
            return default
        if value < 0 or (positive and value == 0):
            self.refuse("PM113", name, wanted)
            return default
        return value

    def bits(self, name: str, default: Default, *, per_number: int = 1, null: bool = False) -> int | Default:
        """Return a positive amount of memory in bits: a whole number of `per_number` bits each, or a text with a unit
        ("512 KiB", "4 Kibit")."""
        value = None if self._absent(name, null=null) else self.table[name]
        if not isinstance(value, str):
            count = self.integer(name, None, null=null, read=as_whole)
            return default if count is None else count * per_number
        amount = bits_of_amount(value)
        if amount is None:
            rate = "It is what moves in one cycle: '64 B' for 64 GB/s at 1 GHz. " if name.endswith("_per_cycle") else ""
            self.refuse("PM119" if has_unit(value) else "PM112", name, rate + UNIT_RULE)
            return default
        if amount.denominator > 1 or amount < 1:
            self.refuse("PM119", name, "Expected a whole number of bits, at least one.")
            return default
        return amount.numerator

    def flag(self, name: str, default: Default) -> bool | Default:
        """Return true or false."""
        wanted = "Expected true or false."
        return self._read(name, default, lambda v: v if isinstance(v, bool) else None, "PM112", wanted)

    def text(self, name: str, default: Default) -> str | Default:
        """Return any text that UTF-8 can encode."""
        return self._read(name, default, _as_text, "PM112", "Expected a text.")

    def name(self, name: str, default: Default) -> str | Default:
        """Return a name: [A-Za-z_][A-Za-z0-9_]*, at most 64 characters."""
        return self._read(name, default, lambda v: v if is_name(v) else None, "PM114", NAME_RULE)

    def label(self, name: str, default: Default) -> str | Default:
        """Return a label: at most 200 printable characters."""
        return self._read(name, default, lambda v: v if is_label(v) else None, "PM115", LABEL_RULE)

    def choice(self, name: str, default: Default, options: Sequence[str]) -> str | Default:
        """Return one of the options."""
        wanted = f"Expected one of {', '.join(options)}."
        return self._read(name, default, lambda v: v if isinstance(v, str) and v in options else None, "PM113", wanted)

    def items(self, name: str) -> Sequence[object]:
        """Return a list; () where it is absent or something else."""
        hint = "Expected a list."
        if is_table(self.table.get(name)):
            hint = f"Expected a list: [[{name}]] before each item in TOML, [{{...}}, {{...}}] in JSON."
        return self._read(name, (), lambda v: v if is_list(v) else None, "PM112", hint)

    def names(
        self, name: str, default: Default, *, roles: Sequence[str] = (), null: bool = False
    ) -> tuple[str, ...] | Default:
        """Return a list of distinct names; the words in `roles` ("@input") are accepted too."""
        if self._absent(name, null=null):
            return default
        if not is_list(value := self.table[name]):
            self.refuse("PM112", name, "Expected a list of names.")
            return default
        words = frozenset(roles)
        good: dict[str, None] = {}
        for index, item in enumerate(value):
            if not (is_name(item) or (isinstance(item, str) and item in words)):
                hint = did_you_mean(item[:64], roles) if isinstance(item, str) and item.startswith("@") else NAME_RULE
                self.mistakes.append(Mistake("PM114", f"{self.where}: {name}[{index}] is {shown(item)}", hint))
            elif item in good:
                self.mistakes.append(Mistake("PM116", f"{self.where}: {name} lists {shown(item)} twice"))
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
