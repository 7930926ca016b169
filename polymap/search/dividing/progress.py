"""The incumbents of a search, the value that a new tree must beat, and the fate of every listed structure.

The law behind OPTIMAL is evaluated + pruned + infeasible = listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from polymap.resources import SearchCaches, Work
from polymap.search.dividing.bounds import FREE, Multipliers
from polymap.search.dividing.cost_tables import State, Tables
from polymap.search.dividing.loop_order import CompletedMapping
from polymap.search.dividing.node_costs import covers
from polymap.search.problem import Structure, part_values

Entry = tuple[int, int, int]  # bound, minus the stage, number of the structure


@dataclass(frozen=True, slots=True)
class OpenStructures:
    """The open part of a search that a limit ended, in plain numbers.

    Structures are given by their position in the problem's list, which is the same in every run. listed: how many there
    are. bounded: how many have a bound. queue: the open ones among these. searched: structures whose trees were
    searched. refuted: refuted entries.
    """

    listed: int
    bounded: int
    queue: tuple[Entry, ...]
    searched: tuple[int, ...]
    refuted: tuple[int, ...]

    def fates(self) -> StructureFates:
        """Return the fates of the structures."""
        waiting: dict[int, int] = dict.fromkeys(range(self.bounded), 0)
        for _, _, number in self.queue:
            waiting[number] += 1
        closed = {number for number, entries in waiting.items() if not entries}
        return StructureFates(self.listed, waiting, set(self.searched), set(self.refuted), closed)


@dataclass(frozen=True, slots=True)
class GroupBound:
    """A lower bound of all mappings of a group (None: none fits), and the multipliers that it was last taken at.

    only: the joint states of chains that may beat the incumbent (None: any). leader: the structure whose entry stands
    for all of the group, which is searched at once (None: none does). is_rough: it was bounded beside others, and may
    be worked out further."""

    bound: int | None
    multipliers: Multipliers
    only: frozenset[State] | None = None
    leader: int | None = None
    is_rough: bool = False


class Polish(Protocol):
    """A local search for trees, later for better ones near the best one."""

    def first(self, trees: int) -> tuple[int, CompletedMapping] | None:
        """Return the best of so many trees with its scaled value, which are as many steps of the search."""
        ...

    def listed(
        self, structures: int | None, best: tuple[int, CompletedMapping] | None
    ) -> tuple[int, CompletedMapping] | None:
        """Return a better tree with its scaled value if the effort allotted to so many structures found one."""
        ...

    def after(self, steps: int, best: tuple[int, CompletedMapping] | None) -> tuple[int, CompletedMapping] | None:
        """Return a better tree with its scaled value if the effort allotted to so many steps found one."""
        ...


@dataclass(slots=True)
class Incumbent:
    """The best trees so far, at most `keep`, best first (values scaled as Measure.value), and the stopping condition.

    multipliers: those of the last structure. groups: bounds of groups of structures, by the number of their first.
    work: of the search. told: called whenever the trees change.
    has_descended: a structure was searched. polish: a local search, run a little after each step. caches: of the
    search. tables: those that were asked for last, with their structures (groups.open_tables).
    """

    out_of_time: Callable[[], bool]
    keep: int = 1
    found: list[tuple[int, CompletedMapping]] = field(default_factory=list[tuple[int, CompletedMapping]])
    nodes: int = 0
    multipliers: Multipliers = FREE
    groups: dict[int, GroupBound] = field(default_factory=dict[int, GroupBound])
    work: Work = field(default_factory=Work)
    told: Callable[[], None] | None = None
    has_descended: bool = False
    polish: Polish | None = None
    caches: SearchCaches = field(default_factory=SearchCaches)
    tables: tuple[tuple[Structure, ...], Tables] | None = None

    def count(self, nodes: int = 1, *, polishes: bool = True) -> None:
        """Count a step of the search: nodes of its tree that were visited (0: a structure was bounded). polishes:
        whether it was long enough to pay for local search."""
        self.nodes += nodes
        steps = max(nodes, 1)
        self.work.add(steps)
        if polishes and self.polish is not None:
            self._take(self.polish.after(steps, self.found[0] if self.found else None))

    def listed(self, structures: int | None) -> None:
        """Let local search look around once so many structures are listed (None: time ended their list)."""
        if self.polish is not None and self.found:
            self._take(self.polish.listed(structures, self.found[0]))

    def _take(self, better: tuple[int, CompletedMapping] | None) -> None:
        if better is not None and self.beats(better[0]):
            self.add(*better)

    @property
    def value(self) -> int | None:
        """Return the value that a new tree must beat; None while fewer than `keep` trees are known."""
        return self.found[-1][0] if len(self.found) == self.keep else None

    @property
    def is_ordered(self) -> bool:
        """Whether values are totally ordered: once one bound fails to win, all larger ones do. It is not so for a
        front."""
        return True

    @property
    def completed(self) -> CompletedMapping | None:
        return self.found[0][1] if self.found else None

    def beats(self, value: int | None) -> bool:
        """Return whether a tree of this value improves on the known ones, or one with this bound may; None: it exceeds
        a limit."""
        return value is not None and (self.value is None or value < self.value)

    def add(self, value: int, completed: CompletedMapping) -> None:
        """Add a tree unless it is known already; the worst is dropped if there are too many."""
        if any(completed.mapping == known.mapping for _, known in self.found):
            return
        self.found.append((value, completed))
        self.found.sort(key=lambda item: item[0])
        del self.found[self.keep :]
        if self.told is not None:
            self.told()


@dataclass(slots=True)
class Front(Incumbent):
    """The trees so far that do not dominate each other, by rising first part.

    parts: the number of parts of the packed values, of `digit` bits each.
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

    def beats(self, value: int | None) -> bool:
        """Return whether no tree of the front is as good in every part."""
        if value is None:
            return False
        new = part_values(value, self.parts, self.digit)
        return not any(covers(point, new) for point in self._points)

    def add(self, value: int, completed: CompletedMapping) -> None:
        """Add a tree that the front does not dominate; those that it dominates are dropped."""
        new = part_values(value, self.parts, self.digit)
        self.found[:] = [item for item in self.found if not covers(new, part_values(item[0], self.parts, self.digit))]
        self.found.append((value, completed))
        self.found.sort(key=lambda item: item[0])
        self._points[:] = [part_values(item[0], self.parts, self.digit) for item in self.found]
        if self.told is not None:
            self.told()


@dataclass(frozen=True, slots=True)
class Count:
    """Numbers of structures; symmetric ones count once.

    listed: None where not all are known. evaluated: their trees were searched. pruned: refuted by a bound. infeasible:
    nothing fits, or every tree breaks a rule.
    """

    listed: int | None = None
    evaluated: int = 0
    pruned: int = 0
    infeasible: int = 0

    @property
    def is_whole(self) -> bool:
        """Return whether every structure is accounted for."""
        return self.listed is not None and self.evaluated + self.pruned + self.infeasible == self.listed


@dataclass(slots=True)
class StructureFates:
    """The fates of `listed` structures, by number. A structure has entries in the queue until it is closed.

    It is closed as evaluated where the trees of one of its entries were searched, as pruned where a bound refuted one
    of them, and as infeasible where all its bounds say so.
    """

    listed: int
    entries: dict[int, int] = field(default_factory=dict[int, int])
    searched: set[int] = field(default_factory=set[int])
    refuted: set[int] = field(default_factory=set[int])
    closed: set[int] = field(default_factory=set[int])

    def closed_at_once(self, number: int, *, refuted: bool) -> None:
        """Record that a structure's first bound refutes it, or says that nothing fits."""
        self.closed.add(number)
        if refuted:
            self.refuted.add(number)
            self.entries[number] = 0

    def prune(self, numbers: Iterable[int]) -> None:
        """Record entries that a bound refutes."""
        for number in numbers:
            self.refuted.add(number)
            self._replace(number, 0)

    def step(self, number: int, entries: int, *, searched: bool) -> None:
        """Record a step that replaces an entry by `entries` others. searched: its trees were searched."""
        if searched:
            self.searched.add(number)
        self._replace(number, entries)

    def _replace(self, number: int, entries: int) -> None:
        self.entries[number] += entries - 1
        if self.entries[number] == 0:
            self.closed.add(number)

    def count(self) -> Count:
        """Return the number of structures of each kind."""
        searched = self.closed & self.searched
        refuted = (self.closed & self.refuted) - searched
        rest = len(self.closed) - len(searched) - len(refuted)
        return Count(self.listed, len(searched), len(refuted), rest)
