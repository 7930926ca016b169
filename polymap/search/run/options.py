"""What is asked of a search besides the workload and the machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from polymap.ir import Mistake, OptionError
from polymap.search.run.result import Progress

OnProgress = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Options:
    """The parameters of `explore`, which documents them; clock: what the time limit is measured by, in seconds."""

    objective: str = "energy"
    tiles: str = "any"
    time_limit_s: float = 60
    workers: int = 1
    seed: int = 0
    on_progress: OnProgress | None = None
    constraints: object = None
    memory_limit_mb: int | None = None
    work_limit: int | None = None
    clock: Callable[[], float] = monotonic

    def check(self) -> None:
        """Raise OptionError for an unknown tile rule, and numbers that are not positive (a seed may be 0)."""
        mistakes: list[Mistake] = []
        if self.work_limit is not None and (isinstance(self.work_limit, bool) or self.work_limit < 1):
            mistakes.append(Mistake("PM549", f"work_limit is {self.work_limit!r}", "Use an integer of at least 1."))
        if self.memory_limit_mb is not None and (isinstance(self.memory_limit_mb, bool) or self.memory_limit_mb < 1):
            what = f"memory_limit_mb is {self.memory_limit_mb!r}"
            mistakes.append(Mistake("PM548", what, "Use an integer of at least 1 (2^20 bytes each)."))
        if self.tiles not in ("any", "divide"):
            mistakes.append(Mistake("PM503", f"tiles is {self.tiles!r}", "Use 'any' or 'divide'."))
        if isinstance(self.time_limit_s, bool) or not self.time_limit_s > 0:
            what = f"time_limit_s is {self.time_limit_s!r}"
            mistakes.append(Mistake("PM504", what, "Use a positive number of seconds."))
        if isinstance(self.workers, bool) or self.workers < 1:
            mistakes.append(Mistake("PM505", f"workers is {self.workers!r}", "Use an integer of at least 1."))
        if isinstance(self.seed, bool) or self.seed < 0:
            mistakes.append(Mistake("PM506", f"seed is {self.seed!r}", "Use an integer of at least 0."))
        if mistakes:
            raise OptionError(mistakes)
