"""Progress of a search: a line on the terminal, and the best so far after an interrupt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from polymap.cli.output import say

if TYPE_CHECKING:
    from polymap.ir import Architecture, Workload
    from polymap.search.run import Progress, SearchResult


class ProgressLine:
    """Called with each report of the search; keeps the last one and shows it on stderr if that is a terminal."""

    def __init__(self) -> None:
        self.last: Progress | None = None
        stream = sys.stderr
        # It is None where the shell closed it (2>&-).
        self._shown = stream is not None and stream.isatty()  # pyright: ignore[reportUnnecessaryComparison]
        self._width = 0

    def __call__(self, progress: Progress) -> None:
        """Take a report of the search."""
        self.last = progress
        if self._shown:
            self._show(progress_text(progress))

    def clear(self) -> None:
        """Remove the line, so that what follows starts on a clean one."""
        if self._shown and self._width:
            self._show("")
            say("\r", end="")

    def best_so_far(
        self, workload: Workload, arch: Architecture, objective: str, constraints: object = None
    ) -> SearchResult | None:
        """Return what an interrupted search has found, as its result; None where it has nothing yet."""
        if self.last is None or self.last.best is None:
            return None
        from polymap.search.problem import parse_objective, rules_from_document
        from polymap.search.run import best_so_far

        rules = () if constraints is None else rules_from_document(constraints, workload, arch)
        return best_so_far(workload, arch, parse_objective(objective, arch), self.last, rules)

    def _show(self, text: str) -> None:
        say("\r" + text.ljust(self._width), end="")
        self._width = len(text)


def progress_text(progress: Progress) -> str:
    """Return incumbent, bound, gap and time on one line of under 80 characters."""
    best = "none yet" if progress.value is None else f"{float(progress.value):.6g}"
    bound = "-" if progress.bound is None else f"{float(progress.bound):.6g}"
    gap = "-" if progress.gap is None else f"{100 * progress.gap:.2f} %"
    return f"best {best}   bound {bound}   gap {gap}   {progress.seconds:.1f} s"
