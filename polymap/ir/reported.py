"""Answers that know their question, and what reports make of them: sentences, tables, programs, files.

The answers derive from `Reported` or `Tabled`; the functions are registered by `polymap.report`, as in `display`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from polymap.ir.display import Shown, load_reports

MaybeNone = Any
"""Beside the type of a field that is None only where a search found no mapping: `Mapping | MaybeNone` can be used
without a test for None, as type checkers take it, and can be tested."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Reports(Generic[Value]):
    """What reports make of one type of answer; what follows `save` is None for types without it. explain takes another
    answer to compare with, or None; prices (of resources) a time limit in seconds."""

    table: Callable[[Value], Any]
    show: Callable[[Value], None]
    save: Callable[[Value, str | Path], None]
    explain: Callable[[Value, Value | None], str] | None = None
    nest: Callable[[Value], str] | None = None
    picture: Callable[[Value], Any] | None = None
    page: Callable[..., None] | None = None
    code: Callable[[Value], str] | None = None
    prices: Callable[[Value, float], str] | None = None


_REPORTS: dict[type, Reports[Any]] = {}


def report_with(kind: type[Value], reports: Reports[Value]) -> None:
    """Let the methods of a `kind` be these functions."""
    _REPORTS[kind] = reports


def page_of(value: object) -> Callable[..., None]:
    """Return the function that writes an answer as a page of HTML."""
    return _report(value, "page")


def prices_text(value: object, time_limit_s: float) -> str:
    """Return what the resources of the answer's machine are worth, as text."""
    return _report(value, "prices")(value, time_limit_s)


def _report(value: object, form: str) -> Any:
    """Return what makes one form of report of an answer."""
    load_reports()
    found = getattr(_REPORTS[type(value)], form)
    assert found is not None, f"answers of type {type(value).__name__} have a {form}"
    return found


class Tabled(Shown):
    """Base of the answers that are tables too, and can be saved."""

    __slots__ = ()

    def table(self) -> Any:
        """Return the answer as a pandas DataFrame, or as a list of dicts where pandas is not installed."""
        return _report(self, "table")(self)

    def show(self) -> None:
        """Show the answer: in a notebook as its picture and tables, elsewhere as text on stdout."""
        _report(self, "show")(self)

    def save(self, path: str | Path) -> None:
        """Write the answer with its question to a JSON file, completely or not at all.

        Raises OutputError where it cannot be written.
        """
        _report(self, "save")(self, path)


class Paged(Tabled):
    """Base of the answers of many searches."""

    __slots__ = ()

    def report(self, path: str | Path) -> None:
        """Write the answer as one self-contained page of HTML, completely or not at all.

        Raises OutputError where the file cannot be written.
        """
        page_of(self)(self, path)


class Reported(Tabled):
    """Base of the answers about a mapping."""

    __slots__ = ()

    def explain(self, other: Reported | None = None) -> str:
        """Return sentences on the answer: what moves what, where energy and time go, what is proven.

        other: another answer about the same question; why it is worse is told, too.
        """
        return _report(self, "explain")(self, other)

    def mapping_text(self) -> str:
        """Return the mapping as a loop nest in text, with what each level holds where.

        Raises OptionError where there is no mapping, as the methods below do.
        """
        return _report(self, "nest")(self)

    def plot(self) -> Any:
        """Return the picture of the mapping (`pm.plot` has others)."""
        return _report(self, "picture")(self)

    def c(self) -> str:
        """Return the C99 program of the mapping, which counts the words that it moves."""
        return _report(self, "code")(self)
