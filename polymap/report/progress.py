"""Progress of a search, a network or a sweep: one line, kept up to date, in terminals and notebooks; elsewhere a line
every five seconds."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any

from polymap.report.tuning import TUNING
from polymap.search.problem import objective_unit

if TYPE_CHECKING:
    from polymap.search import Progress


def to_stderr(text: str) -> None:
    """Write a text to stderr, if the process has one that can be written to."""
    stream = sys.stderr
    if stream is not None:  # pyright: ignore[reportUnnecessaryComparison]  # it is None where the shell closed it (2>&-)
        with contextlib.suppress(OSError, ValueError):
            stream.write(text)
            stream.flush()


class ProgressLine:
    """What `on_progress` of a search may be: called with each report (or text), it shows the last one.

    On a terminal and in a notebook a line that is overwritten. Elsewhere a line every few seconds, between the
    reports too where it is used as a context manager. objective: as it is asked for, whose unit is shown.

        with pm.io.ProgressLine("energy") as progress:
            result = pm.explore(layer, arch, on_progress=progress)
    """

    def __init__(self, objective: str = "energy") -> None:
        self.last: Progress | str | None = None
        self._objective = objective
        self._handle = _notebook_line()
        stream = sys.stderr
        self._terminal = stream is not None and stream.isatty()  # pyright: ignore[reportUnnecessaryComparison]  # as above
        self._width = 0
        self._begun = self._told = time.monotonic()
        self._over = threading.Event()

    def __call__(self, progress: Progress | str) -> None:
        """Take a report of the search, or what to say of other work."""
        self.last = progress
        if self._handle is not None:
            self._handle.update(_Plain(self._text(progress)))
        elif self._terminal:
            self._overwrite(self._text(progress))
        else:
            self._tell_now_and_then()

    def __enter__(self) -> ProgressLine:
        if self._handle is None and not self._terminal:
            threading.Thread(target=self._keep_telling, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()

    def clear(self) -> None:
        """End the line, so that what follows starts on a clean one."""
        self._over.set()
        if self._terminal and self._width:
            self._overwrite("")
            to_stderr("\r")
            self._width = 0

    def _keep_telling(self) -> None:
        while not self._over.wait(TUNING.told_every_s):
            self._tell_now_and_then()

    def _tell_now_and_then(self) -> None:
        now = time.monotonic()
        if now - self._told < 0.9 * TUNING.told_every_s or self._over.is_set():
            return
        self._told = now
        if self.last is None:
            to_stderr(f"polymap: searching   {now - self._begun:.0f} s\n")
        else:
            to_stderr(f"polymap: {self._text(self.last, now - self._begun)}\n")

    def _text(self, progress: Progress | str, seconds: float = 0.0) -> str:
        """Return a report as text, with the seconds since the beginning where these are given."""
        if isinstance(progress, str):
            return f"{progress}   {seconds:.0f} s" if seconds else progress
        return progress_text(progress, self._objective, max(progress.seconds, seconds))

    def _overwrite(self, text: str) -> None:
        to_stderr("\r" + text.ljust(self._width))
        self._width = len(text)


def progress_text(progress: Progress, objective: str = "", seconds: float | None = None) -> str:
    """Return incumbent, bound, gap and time on one line of under 80 characters. seconds: now (default: as reported)."""
    kind, _, parts = objective.partition(":")
    unit = objective_unit(parts.split(",")[0] if kind in ("pareto", "lex") else objective)
    unit = f" {unit}" if unit else ""
    once = "" if len(unit) > 9 else unit  # a long one stands behind the bound alone
    best = "none yet" if progress.value is None else f"{_six_digits(progress.value)}{once}"
    bound = "-" if progress.bound is None else f"{_six_digits(progress.bound)}{unit}"
    gap = "-" if progress.gap is None else f"{100 * progress.gap:.2f} %"
    return f"best {best}   bound {bound}   gap {gap}   {progress.seconds if seconds is None else seconds:.1f} s"


def _six_digits(value: float) -> str:
    """Return a value as people read it where that is short, else in six digits."""
    return f"{round(value):,}" if 1000 <= value < 1_000_000_000 else f"{float(value):.6g}"


class _Plain:
    """A text as notebooks show it without quotes."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def notebook() -> Any:
    """Return the notebook's kernel that runs this program, None where there is none."""
    shell = sys.modules.get("IPython")
    kernel = shell.get_ipython() if shell is not None else None
    return kernel if kernel is not None and hasattr(kernel, "kernel") else None


def _notebook_line() -> Any:
    """Return a line of the notebook that can be updated, None outside of notebooks."""
    if notebook() is None:
        return None
    return import_module("IPython.display").display(_Plain("searching"), display_id=True)
