"""Checks the fields of a value that is constructed in Python: types and ranges, all mistakes at once.

What readers of files check with the position in the file, they check before; nothing that they give is refused here.
"""

from __future__ import annotations

import math
import operator
import re
from dataclasses import fields
from fractions import Fraction
from functools import cache
from typing import Any, NamedTuple, SupportsIndex, cast

from polymap.ir.errors import Mistake, PolymapError

_NAME = re.compile(r"[A-Za-z_?][A-Za-z0-9_]{0,63}", re.ASCII)  # "?": a reader's name of a node that it cannot read
_ROLES = ("@input", "@weight", "@output")


Amount = int  # of bits, at least one; a text with a unit becomes one
Offset = int  # at least 0
Rate = Fraction  # above 0, or an amount
Names = tuple[str, ...]  # of tensors and roles
Dims = tuple[str, ...]


class Rule(NamedTuple):
    """What a field of a frozen value may be. kind: the name of its type in the text, one of those above or a type;
    null: None is a value, too."""

    name: str
    kind: str
    null: bool
    default: Any


@cache
def rules_of(kind: type[Any]) -> tuple[Rule, ...]:
    """Return the rules of the fields of a dataclass, as its annotations say."""
    told = ((each.name, str(each.type), each.default) for each in fields(kind))
    return tuple(
        Rule(name, text.removesuffix(" | None"), text.endswith(" | None"), value) for name, text, value in told
    )


class Construction:
    """Checks one frozen value while it is made; numbers of other types that say the same are replaced by exact ones."""

    def __init__(self, value: object, where: str, error: type[PolymapError]) -> None:
        self._value, self._where, self._error = value, where, error
        self._mistakes: list[Mistake] = []

    def done(self) -> None:
        """Raise every mistake found."""
        if self._mistakes:
            raise self._error(self._mistakes)

    def fields(self) -> None:
        """Check every field of one of the kinds above, and texts as names."""
        for name, kind, null, default in rules_of(type(self._value)):
            if getattr(self._value, name) is default:
                continue
            match kind:
                case "str":
                    self.name(name)
                case "Amount":
                    self.amount(name, null=null)
                case "int" | "Offset":
                    self.integer(name, least=int(kind == "int"), null=null)
                case "Fraction":
                    self.number(name, null=null)
                case "Rate":
                    self.rate(name)
                case "bool":
                    self.kind(name, bool)
                case "Names" | "Dims":
                    self.names(name, null=null)
                case _:
                    pass

    def name(self, field: str) -> None:
        found = getattr(self._value, field)
        if not isinstance(found, str) or _NAME.fullmatch(found) is None:
            self._refuse(field, "a name: a letter or _, then letters, digits and _, at most 64 (ASCII)")

    def text(self, field: str) -> None:
        self.kind(field, str)

    def kind(self, field: str, kind: type) -> None:
        if not isinstance(getattr(self._value, field), kind):
            self._refuse(field, f"a {kind.__name__}")

    def integer(self, field: str, *, least: int | None = 1, null: bool = False) -> None:
        """Check an integer; least None: of any size, which others check."""
        found = getattr(self._value, field)
        if found is None and null:
            return
        whole = found if type(found) is int else as_integer(found)
        if whole is None or (least is not None and whole < least):
            self._refuse(field, f"an integer{'' if least is None else f' >= {least}'}{' or None' if null else ''}")
        elif whole is not found:
            self._set(field, whole)

    def amount(self, field: str, *, null: bool = False) -> None:
        """Check an amount of memory in bits, at least one: an integer, or a text with a unit ("16 KiB")."""
        found = getattr(self._value, field)
        if not isinstance(found, str):
            self.integer(field, null=null)
            return
        bits = bits_of_amount(found)
        if bits is None or bits.denominator > 1 or bits < 1:
            form = f"an integer >= 1{' or None' if null else ''}, or whole bits with a unit"
            self._refuse(field, f"{form}. {UNIT_RULE.removesuffix('.')}")
        else:
            self._set(field, bits.numerator)

    def number(self, field: str, *, positive: bool = False, null: bool = False) -> None:
        found = getattr(self._value, field)
        if found is None and null:
            return
        exact = as_fraction(found)
        if exact is None or exact < 0 or (positive and exact == 0):
            least = "> 0" if positive else ">= 0"
            self._refuse(field, f"a finite number {least}{' or None' if null else ''}")
        elif type(found) is not Fraction:
            self._set(field, exact)

    def rate(self, field: str) -> None:
        """Check a number > 0 or None, or an amount, of memory per cycle."""
        if isinstance(getattr(self._value, field), str):
            self.amount(field)
        if not isinstance(getattr(self._value, field), str):  # an amount has become a number, or is refused
            self.number(field, positive=True, null=True)

    def names(self, field: str, *, null: bool = False) -> None:
        if getattr(self._value, field) is None and null:
            return
        found = self._tuple(field)
        if found is None or not all(
            isinstance(word, str) and (word in _ROLES or _NAME.fullmatch(word) is not None) for word in found
        ):
            self._refuse(field, f"a tuple of names{' or None' if null else ''}")

    def items(self, field: str, kinds: tuple[type, ...]) -> None:
        """Check a tuple of values of these types; a list becomes one."""
        found, known = self._tuple(field), ", ".join(kind.__name__ for kind in kinds)
        if found is None:
            self._refuse(field, f"a tuple of {known}")
            return
        for place, item in enumerate(found):
            if not isinstance(item, kinds):
                what = f"{self._where}: {field}[{place}] is {_shown(item)}"
                self._mistakes.append(Mistake("PM121", what, f"Expected one of {known}."))

    def _tuple(self, field: str) -> tuple[object, ...] | None:
        """Return a tuple, made of a list if need be; None for anything else."""
        found = getattr(self._value, field)
        if isinstance(found, list):
            self._set(field, tuple(cast("list[object]", found)))
        found = getattr(self._value, field)
        return cast("tuple[object, ...]", found) if isinstance(found, tuple) else None

    def _set(self, field: str, value: object) -> None:
        object.__setattr__(self._value, field, value)

    def _refuse(self, field: str, wanted: str) -> None:
        what = f"{self._where}: {field} is {_shown(getattr(self._value, field))}"
        self._mistakes.append(Mistake("PM121", what, f"Expected {wanted}."))


def as_integer(value: object) -> int | None:
    """Return a Python or numpy integer as a Python integer, or None for anything else, including booleans."""
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
    """Return a finite number as the decimal as written (0.1 is 1/10), or None for anything else."""
    if isinstance(value, Fraction):
        return value
    if isinstance(value, float):
        return Fraction(repr(float(value))) if math.isfinite(value) else None
    integer = as_integer(value)
    return None if integer is None else Fraction(integer)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


UNIT_RULE = "Units are bit, B (8 bits), kB and kbit (1000), KiB and Kibit (1024), likewise M, G, T: '512 KiB'."
_LONGEST = 40
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+]?[0-9]{1,2})?) ?([A-Za-z]+)", re.ASCII)
_BITS_OF = {
    f"{prefix}{unit}": factor * bits
    for unit, bits in (("bit", 1), ("B", 8))
    for prefix, factor in zip(
        ("", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"),
        (1, 10**3, 10**6, 10**9, 10**12, 2**10, 2**20, 2**30, 2**40),
        strict=True,
    )
}


def has_unit(text: str) -> bool:
    """Return whether a text is a number and a word, which may be no unit."""
    return _AMOUNT.fullmatch(text) is not None


def bits_of_amount(text: str) -> Fraction | None:
    """Return the bits of an amount of memory with its unit, not always a whole number; None for any other text."""
    found = _AMOUNT.fullmatch(text)
    factor = None if found is None else _BITS_OF.get(found.group(2))
    return None if found is None or factor is None or len(text) > _LONGEST else Fraction(found.group(1)) * factor
