"""Options of a search that are numbers or words: every mistake in them at once."""

from __future__ import annotations

from polymap.ir import Mistake, OptionError


def check_limits(time_limit_s: float, memory_limit_mb: int | None, work_limit: int | None) -> None:
    """Raise OptionError for limits of a search that goes on which are no positive numbers."""
    check_options("any", time_limit_s, 1, 0, memory_limit_mb, work_limit)


def check_options(
    tiles: str,
    time_limit_s: float,
    workers: int,
    seed: int,
    memory_limit_mb: int | None = None,
    work_limit: int | None = None,
) -> None:
    """Raise OptionError for an unknown tile rule, and numbers that are not positive (a seed may be 0)."""
    mistakes: list[Mistake] = []
    if work_limit is not None and (isinstance(work_limit, bool) or work_limit < 1):
        mistakes.append(Mistake("PM549", f"work_limit is {work_limit!r}", "Use an integer of at least 1."))
    if memory_limit_mb is not None and (isinstance(memory_limit_mb, bool) or memory_limit_mb < 1):
        what = f"memory_limit_mb is {memory_limit_mb!r}"
        mistakes.append(Mistake("PM548", what, "Use an integer of at least 1 (2^20 bytes each)."))
    if tiles not in ("any", "divide"):
        mistakes.append(Mistake("PM503", f"tiles is {tiles!r}", "Use 'any' or 'divide'."))
    if isinstance(time_limit_s, bool) or not time_limit_s > 0:
        mistakes.append(Mistake("PM504", f"time_limit_s is {time_limit_s!r}", "Use a positive number of seconds."))
    if isinstance(workers, bool) or workers < 1:
        mistakes.append(Mistake("PM505", f"workers is {workers!r}", "Use an integer of at least 1."))
    if isinstance(seed, bool) or seed < 0:
        mistakes.append(Mistake("PM506", f"seed is {seed!r}", "Use an integer of at least 0."))
    if mistakes:
        raise OptionError(mistakes)
