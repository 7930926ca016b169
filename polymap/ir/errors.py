"""Every exception class of polymap.

Each error carries the mistakes that were found, all at once: a code (`PM401`), what is wrong and where, and how to
mend it. `str(error)` is the text that the command line prints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from polymap.ir.violation import Violation


@dataclass(frozen=True, slots=True)
class Mistake:
    """One mistake: its code, what was found and where, and what would work."""

    code: str
    what: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.code} {self.what}"
        return f"{text}\n      {self.hint}" if self.hint else text


class PolymapError(Exception):
    """The base of all errors that polymap raises on purpose."""

    def __init__(self, mistakes: Mistake | Iterable[Mistake]) -> None:
        self.mistakes: tuple[Mistake, ...] = (mistakes,) if isinstance(mistakes, Mistake) else tuple(mistakes)
        super().__init__("\n".join(str(mistake) for mistake in self.mistakes))

    def __reduce__(self) -> tuple[type[PolymapError], tuple[object, ...]]:
        return type(self), (self.mistakes,)

    @property
    def problems(self) -> tuple[Mistake, ...]:
        """Return the mistakes: the deprecated name of `mistakes`."""
        return self.mistakes


class InputError(PolymapError, ValueError):
    """A file, text or value that cannot be read at all: encoding, size, JSON or TOML syntax, depth."""


class WorkloadError(PolymapError, ValueError):
    """A loop nest that says something impossible or unknown."""


class ArchError(PolymapError, ValueError):
    """A machine description that says something impossible or unknown."""


class MappingError(PolymapError, ValueError):
    """A loop tree that cannot be read as a program of the workload on the machine."""


class ScheduleError(PolymapError, ValueError):
    """A schedule that cannot be read, or a transformation that cannot be applied or would break a dependence.

    violations: the broken dependences, each with two statement instances.
    """

    def __init__(self, mistakes: Mistake | Iterable[Mistake], violations: Iterable[Violation] = ()) -> None:
        super().__init__(mistakes)
        self.violations = tuple(violations)

    def __reduce__(self) -> tuple[type[ScheduleError], tuple[object, ...]]:
        return type(self), (self.mistakes, self.violations)


class OptionError(PolymapError, ValueError):
    """An option or argument outside its values."""


class BudgetError(PolymapError, RuntimeError):
    """An exact answer that would take more operations than the budget allows."""


class SolverError(PolymapError, RuntimeError):
    """A solver that answered something it must not, such as an invalid model."""


class CompilerError(PolymapError, RuntimeError):
    """No C compiler, or a program that it refused or that ended badly."""


class MissingPackageError(PolymapError, ImportError):
    """An optional package that is not installed; the message holds the install line."""


class OutputError(PolymapError, OSError):
    """A result that could not be written where it was asked for."""


def all_read(*reads: Callable[[], Any]) -> list[Any]:
    """Return what each of the parts is; raises the mistakes of all parts at once, as the first part's kind of error."""
    found: list[Any] = []
    refused: list[PolymapError] = []
    for read in reads:
        try:
            found.append(read())
        except PolymapError as error:
            refused.append(error)
    if refused:
        raise type(refused[0])(dict.fromkeys(mistake for error in refused for mistake in error.mistakes))
    return found


def did_you_mean(word: str, known: Sequence[str], missing: Sequence[str] = ()) -> str:
    """Return "Did you mean 'x'?" for the closest known word, or "Known: ..." where none is close.

    missing: the needed words that are not given: where it is one, another word may stand for it.
    """
    begun = [f"'{each}'" for each in known if each.startswith(word)]
    if len(word) > 3 and 0 < len(begun) < 5:
        return f"Did you mean {'one of ' * (len(begun) > 1)}{', '.join(begun)}?"
    close = closest(word, known)
    if close is not None:
        return f"Did you mean '{close}'?"
    instead = f"Did you mean '{missing[0]}'? " if len(missing) == 1 else ""
    return f"{instead}Known: {', '.join(known[:20])}." if known else instead.strip()


def closest(word: str, known: Sequence[str]) -> str | None:
    """Return the known word that is most like this one; None where none is."""
    same = [each for each in known if _letters(each) == _letters(word)]
    close = sorted(same, key=lambda each: each.lower() != word.lower())  # one of the other case alone is closest
    close = close or [each for each in known if word.lower().endswith(f"_{each}")]  # compute_pj is pj with its owner
    return next(iter(close or get_close_matches(word, known, n=1, cutoff=0.6)), None)


def _letters(word: str) -> str:
    """Return a word without what is easily mistaken in names: case, and the marks between its parts."""
    return word.lower().replace("-", "").replace("_", "").replace(" ", "")
