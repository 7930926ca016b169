"""The queue of a best-first search: parts of a space, each with a lower bound of all that it holds.

The least bound in the queue bounds the whole space. Every bound engine keeps what is not refuted in one of these and
splits the part of least bound, until that meets a value, cannot be split, or a limit is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush, nsmallest
from typing import Any, Generic, TypeVar

Bound = TypeVar("Bound", int, float)
Part = TypeVar("Part")


def in_turn(_part: object) -> int:
    """Return the rank of parts of which none comes before another."""
    return 0


class BestFirst(Generic[Bound, Part]):
    """Parts in the order of their bounds; of equal bounds, of their ranks; of equal ranks, as they were added.

    The order depends on nothing else, and the queue can be pickled (if the function `rank` can): a search that a limit
    ends goes on elsewhere.
    """

    def __init__(self, rank: Callable[[Part], Any] = in_turn, parts: Iterable[tuple[Bound, Part]] = ()) -> None:
        self._rank, self._added = rank, 0
        self._heap = [self._entry(*each) for each in parts]
        heapify(self._heap)

    def _entry(self, bound: Bound, part: Part) -> tuple[Bound, Any, int, Part]:
        self._added += 1
        return bound, self._rank(part), self._added, part

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[tuple[Bound, Part]]:
        """Yield all parts after their bounds, in order."""
        return ((bound, part) for bound, _, _, part in sorted(self._heap, key=lambda entry: entry[:3]))

    @property
    def bound(self) -> Bound | None:
        """Return the least bound of what is left (None: nothing is)."""
        return self._heap[0][0] if self._heap else None

    @property
    def first(self) -> Part:
        """Return the part of least bound. Raises IndexError where nothing is left."""
        return self._heap[0][-1]

    def least(self, count: int) -> Iterator[Part]:
        """Yield so many parts of least bound, in order."""
        return (entry[-1] for entry in nsmallest(count, self._heap, key=lambda entry: entry[:3]))

    def add(self, bound: Bound, part: Part) -> None:
        """Add a part with a lower bound of all that it holds."""
        heappush(self._heap, self._entry(bound, part))

    def take(self) -> Part:
        """Remove and return the part of least bound."""
        return heappop(self._heap)[-1]

    def split(
        self, into: Callable[[Bound, Part], Iterable[tuple[Bound, Part]] | None], is_over: Callable[[Bound, Part], bool]
    ) -> bool:
        """Split the part of least bound, and so on, until `is_over` says so of it or nothing is left.

        into: returns what a part is split into with bounds, without what is refuted; None where it cannot be split,
        which ends the search too. Returns whether that ended it: then further calls change nothing.
        """
        while self._heap:
            bound, *_, part = self._heap[0]
            if is_over(bound, part):
                break
            smaller = into(bound, part)
            if smaller is None:
                return True
            heappop(self._heap)
            for each in smaller:
                self.add(*each)
        return False
