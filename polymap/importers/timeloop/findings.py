"""What a reader of other tools' files finds: mistakes, all told at once, and warnings of what has no equal."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

from polymap.ir import InputError, Mistake

Read = TypeVar("Read")


class Place(NamedTuple):
    """Where a value stands. file: its name, "the text" without one; line: 1 the first."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


class FileWarning(NamedTuple):
    """Something in a file that was read otherwise than it stands there, or left out. file: its name, "the text" without
    one; line: 1 the first."""

    file: str
    line: int
    what: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.what}" + (f"\n      {self.hint}" if self.hint else "")


class Findings:
    """Collects mistakes and warnings. strict: what has no equal is a mistake; otherwise a warning."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        self._mistakes: list[Mistake] = []
        self._warnings: list[FileWarning] = []

    @property
    def warnings(self) -> tuple[FileWarning, ...]:
        """The warnings, each once, in the order in which they were found."""
        return tuple(dict.fromkeys(self._warnings))

    @property
    def has_mistakes(self) -> bool:
        """Whether mistakes were found."""
        return bool(self._mistakes)

    def note(self, place: Place, what: str, hint: str = "") -> None:
        """Add a warning."""
        self._warnings.append(FileWarning(place.file.strip("'"), place.line, what, hint))

    def refuse(self, what: str, hint: str = "") -> None:
        """Add a mistake."""
        self._mistakes.append(Mistake("PM661", what, hint))

    def no_equal(self, place: Place, what: str, hint: str = "") -> None:
        """Add what is not read because nothing here says the same: a mistake if strict, else a warning."""
        if self.strict:
            self.refuse(f"{place}: {what}", hint)
        else:
            self.note(place, what, hint)

    @contextmanager
    def collecting(self) -> Generator[None]:
        """Add the mistakes that are raised inside, and go on behind."""
        try:
            yield
        except InputError as error:
            self._mistakes += error.mistakes

    def attempt(self, read: Callable[[], Read]) -> Read | None:
        """Return what `read` returns, None where it raises mistakes, which are added."""
        with self.collecting():
            return read()
        return None

    def stop(self) -> None:
        """Raise InputError with all mistakes that were found, each once."""
        if self._mistakes:
            raise InputError(tuple(dict.fromkeys(self._mistakes)))
