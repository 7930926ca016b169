"""The size of the mapping space, as exact integers, without listing it (docs/counting.md, "The mapping space").

What is counted is the set of canonical loop trees:
- syntactic: every tensor may live at every level below the outermost; a spatial loop may have any trip count above 1
  and any dim may run over any fan-out. Fan-out sizes, `dims`, `holds` and `must_hold` do not count.
- legal: these four and the dependences are respected; capacity is not.
Two groups of fan-outs with the same first node below them stand in one block of loops, in either order, with or without
temporal loops between them. A group stands in the block directly above the first node of the levels below it; a tree
with another tensor's node in between has a canonical form with that node above or below both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from polymap.formatting import exact
from polymap.ir import Architecture, Dim, Fanout, Workload
from polymap.resources import never
from polymap.schedules.chains import TileRule
from polymap.schedules.placement import Holding, Vector, free_holdings, groups_of, holdings_of, kinds_of
from polymap.schedules.signs import any_order_is_legal
from polymap.schedules.trees import CountedDim, Space, count_trees

__all__ = ["SpaceSize", "TileRule", "few_legal", "legal_count", "space_size", "syntactic_count"]


@dataclass(frozen=True, slots=True, repr=False)
class SpaceSize:
    """Exact numbers of canonical trees; where they are not known, None and the reason."""

    syntactic: int | None
    legal: int | None
    reason: str = ""

    def __repr__(self) -> str:
        counts = ((self.syntactic, "mappings by syntax"), (self.legal, "legal"))
        return ", ".join(f"{exact(count)} {what}" for count, what in counts if count is not None) or self.reason


def space_size(
    workload: Workload, arch: Architecture, tiles: TileRule | str, stop: Callable[[], bool] = never
) -> SpaceSize:
    """Return the number of syntactic and of legal canonical trees. stop: asked between steps, ends the count."""
    if len(workload.statements) != 1:
        return SpaceSize(None, None, "the program has several statements, whose trees branch")
    legal = legal_count(workload, arch, tiles, stop)
    syntactic = syntactic_count(workload, arch, tiles, stop)
    if not any_order_is_legal(workload):
        return SpaceSize(syntactic, None, "the dependences do not allow all orders of the loops")
    reason = "" if None not in (syntactic, legal) else "the count takes too many operations"
    return SpaceSize(syntactic, legal, reason)


def syntactic_count(
    workload: Workload, arch: Architecture, tiles: TileRule | str, stop: Callable[[], bool] = never
) -> int | None:
    """Return the number of canonical trees; None for several statements."""
    if len(workload.statements) != 1:
        return None
    dims = tuple(_counted_dim(workload, arch, dim, (0,) * len(arch.fanouts)) for dim in workload.dims if dim.extent > 1)
    return count_trees(Space(TileRule(tiles), dims, free_holdings(workload, arch), groups_of(arch), None), stop)


def legal_count(
    workload: Workload, arch: Architecture, tiles: TileRule | str, stop: Callable[[], bool] = never
) -> int | None:
    """Return the number of legal canonical trees; None where it is not known (see space_size)."""
    space = _legal_space(workload, arch, tiles)
    return None if space is None else count_trees(space, stop)


def few_legal(
    workload: Workload, arch: Architecture, tiles: TileRule | str, most: int, stop: Callable[[], bool] = never
) -> int | None:
    """Return the number of legal canonical trees where it is at most `most`; None where it is more, or not known.

    Parts of the space are counted first, those without spatial loops in which few tensors have nodes of their choice:
    a large space is known to be one in milliseconds.
    """
    space = _legal_space(workload, arch, tiles)
    if space is None:
        return None
    least = tuple(Holding(each.must, each.must) for each in space.holdings)
    parts = [
        replace(space, holdings=(*space.holdings[:free], *least[free:]), groups=()) for free in range(len(least) + 1)
    ]
    found = 0
    for part in (*parts, space):
        count = count_trees(part, stop)
        if count is None or count > most:
            return None
        found = count
    return found


def _legal_space(workload: Workload, arch: Architecture, tiles: TileRule | str) -> Space | None:
    """Return the space of legal trees; None where dependences restrict the loops."""
    if not any_order_is_legal(workload):
        return None
    dims = tuple(
        _counted_dim(workload, arch, dim, tuple(_most_trips(fanout, dim.name) for fanout in arch.fanouts))
        for dim in sorted(workload.dims, key=lambda dim: dim.extent)  # in any order; small ones leave few states
        if dim.extent > 1
    )
    sizes = tuple(fanout.size for fanout in arch.fanouts)
    return Space(TileRule(tiles), dims, holdings_of(workload, arch), groups_of(arch), sizes)


def _counted_dim(workload: Workload, arch: Architecture, dim: Dim, trips: Vector) -> CountedDim:
    return CountedDim(dim.extent, trips, kinds_of(workload, arch, dim.name))


def _most_trips(fanout: Fanout, dim: str) -> int:
    """Return how many iterations of the dim the fan-out can take."""
    return fanout.size if fanout.may_spread(dim) else 1
