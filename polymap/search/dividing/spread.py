"""The spatial side of a structure, asked by level, and what a search has decided so far."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from polymap.search.dividing.windows import Crossing
from polymap.search.problem import FanoutClass, Problem, Structure, TensorTerm

Places = tuple[tuple[tuple[int, str], int], ...]


class Spread:
    """The structure's spatial factors, asked by level: which stand above a level, between two, below.

    places: ((level below the fan-outs, dim), temporal extent of the dim inside the spatial loop), where it is decided.
    """

    def __init__(self, problem: Problem, structure: Structure, places: Places) -> None:
        self.problem = problem
        self.structure = structure
        self.places = dict(places)

    def factor(self, dim: str, after: int, upto: int) -> int:
        """Return the dim's factor over the fan-outs between level `after` and level `upto` (level count: compute)."""
        d = self.problem.dims.index(dim)
        return prod(row[d] for one, row in self._rows() if after < one.below <= upto)

    def instances(self, upto: int) -> int:
        """Return the number of instances of a level, as far as they are used."""
        return prod(prod(row) for one, row in self._rows() if one.below <= upto)

    def _rows(self) -> tuple[tuple[FanoutClass, tuple[int, ...]], ...]:
        return tuple(zip(self.problem.classes, self.structure.classes, strict=True))

    def shared_messages(self, term: TensorTerm, after: int, upto: int) -> int:
        """Return how many elements one parent instance reads per element that a sibling loads, but for the window
        groups: all siblings' along fan-outs that merge nothing, and along the others those of different tiles."""
        total = 1
        for one, row in self._rows():
            if after < one.below <= upto:
                dims = [self.problem.dims.index(g.dims[0]) for g in term.groups if not g.is_window]
                total *= prod(row[d] for d in dims) if one.multicast.shares_reads else prod(row)
        return total

    def unites(self, after: int, upto: int) -> bool:
        """Return whether some fan-out between two levels makes one message of different loads."""
        return any(
            one.multicast.unites_tiles and prod(row) > 1 for one, row in self._rows() if after < one.below <= upto
        )

    def crossings(self, dim: str, after: int, level: int, *, above: bool) -> tuple[Crossing, ...]:
        """Return the spatial loops over a dim as a node of `level` sees them, loaded from level `after`.

        above: the node may stand below loops over fan-outs below its level.
        """
        d = self.problem.dims.index(dim)
        found: list[Crossing] = []
        for below in self.groups():
            parts = tuple(
                (row[d], one.multicast if after < below <= level else None)
                for one, row in reversed(self._rows())
                if one.below == below and row[d] > 1
            )
            if parts:
                found.append(Crossing(parts, below <= level, above, self.places.get((below, dim))))
        return tuple(found)

    def groups(self) -> tuple[int, ...]:
        """Return the fan-out groups, named by the level below them, outermost first."""
        return tuple(sorted({one.below for one, _ in self._rows()}))

    def group_factor(self, dim: str, below: int) -> int:
        """Return the dim's factor over one group."""
        d = self.problem.dims.index(dim)
        return prod(row[d] for one, row in self._rows() if one.below == below)


@dataclass(frozen=True, slots=True)
class Context:
    """What is decided above the tables: tiles of the chain so far, outermost first (the first one is the whole), and
    the places of spatial loops."""

    tiles: tuple[tuple[int, ...], ...]
    places: Places


def root_context(problem: Problem, structure: Structure, places: Places = ()) -> Context:
    """Return the context in which no node is placed."""
    return Context((tuple(e // structure.used(d) for d, e in enumerate(problem.extents)),), places)
