"""YAML as tables and lists that know their lines, so that a mistake can name the line it is in."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from polymap.importers.nodes import extra
from polymap.importers.tuning import TUNING
from polymap.inputs import LIMITS, as_fraction, read_text, shown
from polymap.ir import InputError, Mistake, did_you_mean

_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}


class Place(NamedTuple):
    """Where a value stands. file: its name, "the text" without one; line: 1 the first."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


class Value:
    """A YAML value. plain: a text, number, bool or None; a list of Values; or a dict of them. tag: "!Component", "" for
    YAML's own."""

    __slots__ = ("place", "plain", "tag")

    def __init__(self, plain: Any, place: Place, tag: str = "") -> None:
        self.plain, self.place, self.tag = plain, place, tag

    def refuse(self, what: str, hint: str = "") -> InputError:
        """Return the error that says what of this value is not read, and where it stands."""
        return InputError(Mistake("PM661", f"{self.place}: {what}", hint))

    def table(self, what: str) -> dict[str, Value]:
        """Return its fields."""
        if not isinstance(self.plain, dict):
            raise self.refuse(f"{what} is {self.told()}", "Expected a table of fields.")
        return self.plain  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def fields(self, what: str, known: Iterable[str]) -> dict[str, Value]:
        """Return its fields, with - in names as _. Raises InputError with every field that is not among the known ones,
        or given in both spellings."""
        found: dict[str, Value] = {}
        mistakes: list[Mistake] = []
        names = tuple(known)
        for written, value in self.table(what).items():
            name = written.replace("-", "_")
            if name in found:
                mistakes.extend(value.refuse(f"{what}.{name} is given twice, with - and with _").mistakes)
            elif name not in names:
                told = written if written.isprintable() and len(written) <= 60 else shown(written)
                unread = f"{what}.{told} is not read (it is {value.told()})"
                mistakes.extend(value.refuse(unread, did_you_mean(name[:64], names)).mistakes)
            found[name] = value
        if mistakes:
            raise InputError(mistakes)
        return found

    def items(self, what: str) -> list[Value]:
        """Return its items."""
        if not isinstance(self.plain, list):
            raise self.refuse(f"{what} is {self.told()}", "Expected a list.")
        return self.plain  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]

    def text(self, what: str) -> str:
        """Return its text."""
        if not isinstance(self.plain, str):
            raise self.refuse(f"{what} is {self.told()}", "Expected a text.")
        return self.plain

    def integer(self, what: str, least: int = 1) -> int:
        """Return its integer, at least `least` and at most 10^100."""
        if not isinstance(self.plain, int) or isinstance(self.plain, bool) or not least <= self.plain <= LIMITS.integer:
            raise self.refuse(f"{what} is {self.told()}", f"Expected an integer >= {least}.")
        return self.plain

    def flag(self, what: str) -> bool:
        """Return its truth value."""
        if not isinstance(self.plain, bool):
            raise self.refuse(f"{what} is {self.told()}", "Expected true or false.")
        return self.plain

    def number(self, what: str) -> Any:
        """Return its number, 0 or more, as a rational."""
        found = None if isinstance(self.plain, bool) else as_fraction(self.plain)
        if found is None or found < 0:
            raise self.refuse(f"{what} is {self.told()}", "Expected a number >= 0.")
        return found

    def told(self) -> str:
        """Return the value as messages tell it."""
        return "a table" if self.is_table else "a list" if self.is_list else shown(self.plain)

    @property
    def is_table(self) -> bool:
        """Whether it is a table."""
        return isinstance(self.plain, dict)

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return isinstance(self.plain, list)


def read_yaml(source: str | Path, caller: str = "from_timeloop") -> Value:
    """Return what a YAML file, or a text of several lines, says. Needs the extra `timeloop`.

    Raises InputError (PM660) with the line for what is no YAML, several documents, keys given twice, or too deep.
    """
    ruamel = extra("ruamel.yaml", caller)
    is_text = isinstance(source, str) and "\n" in source
    name = "the text" if is_text else shown(Path(source).name)
    text = str(source) if is_text else read_text(Path(source))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ruamel.error.ReusedAnchorWarning)  # YAML lets an anchor be set anew
            node = ruamel.YAML(typ="safe", pure=True).compose(text)
    except ruamel.error.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise InputError(Mistake("PM660", f"{name}, line {line}: {error.problem or error.context}")) from None
    except ruamel.error.YAMLError as error:
        raise InputError(Mistake("PM660", f"{name} is no YAML: {' '.join(str(error).split())[:200]}")) from None
    except (RecursionError, ValueError, IndexError, KeyError, AttributeError, AssertionError) as error:
        # ruamel's own slips on damaged text: the file is still none.
        raise InputError(Mistake("PM660", f"{name} is no YAML: {type(error).__name__}")) from None
    if node is None:
        raise InputError(Mistake("PM660", f"{name} is empty"))
    return _read(node, name, 0, iter(range(TUNING.most_values)))


def _read(node: Any, name: str, depth: int, budget: Iterator[int]) -> Value:
    place = Place(name, node.start_mark.line + 1)
    if depth > LIMITS.depth or next(budget, None) is None:
        raise InputError(
            Mistake("PM660", f"{place}: nested over {LIMITS.depth} levels, or over {TUNING.most_values:,} values")
        )
    tag = str(node.tag or "")
    tag = tag if tag.startswith("!") and len(tag) > 1 else ""
    if node.id == "sequence":
        return Value([_read(each, name, depth + 1, budget) for each in node.value], place, tag)
    if node.id == "scalar":
        return Value(_scalar(node), place, tag)
    found: dict[str, Value] = {}
    merged: dict[str, Value] = {}
    for key, value in node.value:
        if key.id != "scalar":
            raise InputError(Mistake("PM660", f"{place}: a key that is no text"))
        read = _read(value, name, depth + 1, budget)
        if key.value == "<<":
            for each in read.items("<<") if read.is_list else [read]:
                merged = each.table("<<") | merged
        elif key.value in found:
            raise InputError(Mistake("PM660", f"{read.place}: the key {shown(key.value)} is given twice"))
        else:
            found[key.value] = read
    return Value(merged | found, place, tag)


def _scalar(node: Any) -> Any:
    text = str(node.value)
    if node.style in ("'", '"', "|", ">"):
        return text
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) <= 101 else text
    return float(text) if _FLOAT.fullmatch(text) and len(text) <= 100 else text
