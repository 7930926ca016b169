"""When a search ends: its time, its memory, and its work, which a busy machine does not change."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from polymap.resources.memory import Memory
from polymap.resources.tuning import TUNING

Stop = Callable[[], bool]


@dataclass(slots=True)
class Processes:
    """How many processes may search, and the numbers of those that do besides this one."""

    count: int = 1
    pids: list[int] = field(default_factory=list[int])


class OutOfTime(Exception):
    """A limit was reached inside a step."""


def never() -> bool:
    """Return that no limit is reached."""
    return False


@dataclass(slots=True)
class Work:
    """Steps of a search: structures, programs and boxes bounded, nodes visited, mappings scored; and how many there may
    be (None: any number)."""

    limit: int | None = None
    done: int = 0

    def add(self, steps: int = 1) -> None:
        """Count steps."""
        self.done += steps

    @property
    def left(self) -> int | None:
        """Return how many more steps there may be (None: any number)."""
        return None if self.limit is None else max(0, self.limit - self.done)

    def is_spent(self) -> bool:
        """Return whether no step is left."""
        return self.limit is not None and self.done >= self.limit


class Limits:
    """The limits of one search, counted from when this is made. Calling it tells whether the search is over."""

    def __init__(
        self, clock: Callable[[], float], time_limit_s: float, memory: Memory, work_limit: int | None = None
    ) -> None:
        self._clock, self.time_limit_s, self.memory = clock, time_limit_s, memory
        self.begin = clock()
        self.work = Work(work_limit)
        self.end = 1.0  # the share at which the search is over

    def __reduce__(self) -> tuple[type[Limits], tuple[object, ...]]:
        """Pickle the limits as they were at first: clocks and what was done belong to this process."""
        return Limits, (time.monotonic, self.time_limit_s, self.memory, self.work.limit)

    def share(self) -> float:
        """Return the share of the limit that is spent: of the work where that is limited, else of the time. Above 1
        where any limit is reached."""
        if self.memory.is_spent() or self.work.is_spent():
            return 2.0
        spent = (self._clock() - self.begin) / self.time_limit_s
        # Where work is limited the clock decides nothing but the end: the answer is the same on a busy machine.
        return spent if spent > 1 or self.work.limit is None else self.work.done / self.work.limit

    def __call__(self) -> bool:
        """Return whether a limit is reached."""
        return self.share() > self.end

    def time_is_up(self) -> bool:
        """Return whether the time limit is reached, or the memory limit."""
        return self.memory.is_spent() or self._clock() - self.begin > self.time_limit_s

    def renewed(self, time_limit_s: float, memory_limit_mb: int | None, work_limit: int | None) -> Limits:
        """Return new limits for a search that goes on now; what it holds already counts on."""
        return Limits(self._clock, time_limit_s, self.memory.with_limit(memory_limit_mb), work_limit)

    def part(self, share: float) -> Limits:
        """Return limits for a part of the search, from now on: a share of the time that is left (above 1: so many more
        seconds, whatever is left), or of the steps where these are limited. Its steps are its own."""
        left, steps = max(1e-6, self.left_s()), self.work.left
        if steps is None:
            return Limits(self._clock, share * left if share <= 1 else share - 1, self.memory)
        return Limits(self._clock, left, self.memory, max(1, int(share * steps)))

    def seconds(self) -> float:
        """Return the seconds since the begin."""
        return self._clock() - self.begin

    @property
    def is_of_wall_time(self) -> bool:
        return self._clock is time.monotonic

    def left_s(self) -> float:
        """Return the seconds until the time limit."""
        return self.time_limit_s - self.seconds()

    def until(self, share: float) -> Callable[[], bool]:
        """Return what tells whether that share is spent, or all where a limit was reached before."""
        return lambda: self.share() > min(self.end, share)

    def ending(self, share: float) -> Limits:
        """Return the same limits, with the work that counts on, of a search that is over when that share is spent."""
        other = Limits(self._clock, self.time_limit_s, self.memory)
        other.begin, other.work, other.end = self.begin, self.work, min(self.end, share)
        return other

    def dividing(self) -> Callable[[], bool]:
        """Return what tells whether the share of dividing tiles, which go first, is spent."""
        if self.work.limit is not None:
            return self.until(TUNING.dividing_work_share)
        limit = self.time_limit_s
        seconds = max(TUNING.dividing_share * limit, min(TUNING.dividing_s, TUNING.share_of_short_limit * limit))
        return self.until(seconds / limit)

    def first_descent(self) -> Callable[[], bool]:
        """Return what tells whether dividing tiles end although no structure was searched yet: on a busy machine their
        share may be too short for that, and what comes next needs an answer to begin with."""
        return self.until(TUNING.dividing_work_share if self.work.limit is not None else TUNING.share_of_short_limit)
