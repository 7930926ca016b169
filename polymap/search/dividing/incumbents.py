"""What a search has found so far, and what a new tree must beat: the best few, or a front."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from polymap.search.dividing.bounds import Multipliers
from polymap.search.dividing.loop_order import Leaf
from polymap.search.objective import BARRED, unpacked
from polymap.search.resources import Work


class Polish(Protocol):
    """What looks for better trees near the best one."""

    def after(self, steps: int, best: tuple[int, Leaf] | None) -> tuple[int, Leaf] | None:
        """Return a better tree with its scaled value, if one was found in the share of so many steps."""
        ...


@dataclass(slots=True)
class Incumbent:
    """The best trees so far, at most `keep` of them, best first (values scaled as Measure.value), and how to stop.

    prices: what served the last structure. work: what the search has done. told: called with what is found whenever
    that changes. polish: what looks for better trees near the best one, a little after each step.
    """

    out_of_time: Callable[[], bool]
    keep: int = 1
    found: list[tuple[int, Leaf]] = field(default_factory=list[tuple[int, Leaf]])
    nodes: int = 0
    prices: tuple[Multipliers, ...] = ()
    work: Work = field(default_factory=Work)
    told: Callable[[], None] | None = None
    polish: Polish | None = None

    def count(self, nodes: int = 1) -> None:
        """Count a step of the search: nodes of its tree that were visited (0: a structure was bounded)."""
        self.nodes += nodes
        steps = max(nodes, 1)
        self.work.add(steps)
        if self.polish is not None:
            better = self.polish.after(steps, self.found[0] if self.found else None)
            if better is not None and self.beats(better[0]):
                self.add(*better)

    @property
    def value(self) -> int | None:
        """Return the value that a new tree must beat; None while there is room."""
        return self.found[-1][0] if len(self.found) == self.keep else None

    @property
    def is_ordered(self) -> bool:
        """Return whether values are totally ordered: once one bound fails, all larger ones fail (not so of a front)."""
        return True

    @property
    def leaf(self) -> Leaf | None:
        return self.found[0][1] if self.found else None

    def beats(self, value: int) -> bool:
        """Return whether a tree of this value is wanted, or with this bound may be."""
        return value < BARRED and (self.value is None or value < self.value)

    def add(self, value: int, leaf: Leaf) -> None:
        """Take a tree in, unless it is known already; the worst one goes where there are too many."""
        if any(leaf.mapping == known.mapping for _, known in self.found):
            return
        self.found.append((value, leaf))
        self.found.sort(key=lambda item: item[0])
        del self.found[self.keep :]
        if self.told is not None:
            self.told()


@dataclass(slots=True)
class Front(Incumbent):
    """The trees so far of which none is as good as another in every part of the objective, by rising first part.

    parts: how many parts the packed values have, of `digit` bits each.
    """

    parts: int = 2
    digit: int = 64
    _points: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])

    @property
    def value(self) -> int | None:
        return None

    @property
    def is_ordered(self) -> bool:
        return False

    def beats(self, value: int) -> bool:
        """Return whether no tree of the front is as good in every part."""
        if value >= BARRED:
            return False
        new = unpacked(value, self.parts, self.digit)
        return not any(_covers(point, new) for point in self._points)

    def add(self, value: int, leaf: Leaf) -> None:
        """Take a tree in that beats the front; those that it covers go."""
        new = unpacked(value, self.parts, self.digit)
        self.found[:] = [item for item in self.found if not _covers(new, unpacked(item[0], self.parts, self.digit))]
        self.found.append((value, leaf))
        self.found.sort(key=lambda item: item[0])
        self._points[:] = [unpacked(item[0], self.parts, self.digit) for item in self.found]
        if self.told is not None:
            self.told()


def _covers(old: tuple[int, ...], new: tuple[int, ...]) -> bool:
    return all(a <= b for a, b in zip(old, new, strict=True))
