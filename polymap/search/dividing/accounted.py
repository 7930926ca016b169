"""Where every listed structure has gone: the law behind OPTIMAL is evaluated + pruned + infeasible = listed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Count:
    """Structures (classes that symmetry merges count once): listed (None: not all of them are known), evaluated (their
    trees were searched), pruned (refuted by a bound), infeasible (nothing fits, or every tree breaks a rule)."""

    listed: int | None = None
    evaluated: int = 0
    pruned: int = 0
    infeasible: int = 0

    @property
    def is_whole(self) -> bool:
        """Return whether every structure is accounted for."""
        return self.listed is not None and self.evaluated + self.pruned + self.infeasible == self.listed


@dataclass(slots=True)
class Tally:
    """What has become of `listed` structures, by number. A structure has entries in the queue until it is closed: as
    evaluated where the trees of one of its entries were searched, as pruned where a bound refuted one of them, as
    infeasible where its bounds said so of all."""

    listed: int
    entries: dict[int, int] = field(default_factory=dict[int, int])
    searched: set[int] = field(default_factory=set[int])
    refuted: set[int] = field(default_factory=set[int])
    closed: set[int] = field(default_factory=set[int])

    def begun(self, number: int, *, fits: bool) -> None:
        """Note a structure's first bound: it goes into the queue, or fits nowhere."""
        if fits:
            self.entries[number] = 1
        else:
            self.closed.add(number)

    def prune(self, numbers: Iterable[int]) -> None:
        """Note entries that a bound refutes."""
        for number in numbers:
            self.refuted.add(number)
            self._replace(number, 0)

    def step(self, number: int, entries: int, *, searched: bool) -> None:
        """Note a step on an entry that puts so many in its place. searched: its trees were searched."""
        if searched:
            self.searched.add(number)
        self._replace(number, entries)

    def _replace(self, number: int, entries: int) -> None:
        self.entries[number] += entries - 1
        if self.entries[number] == 0:
            self.closed.add(number)

    def count(self) -> Count:
        """Return how many structures there are of each kind."""
        searched = self.closed & self.searched
        refuted = (self.closed & self.refuted) - searched
        rest = len(self.closed) - len(searched) - len(refuted)
        return Count(self.listed, len(searched), len(refuted), rest)
