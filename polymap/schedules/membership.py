"""Whether a tree has an equal in the mapping space, the trees that OPTIMAL speaks of (docs/counting.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from polymap.ir import Architecture, Compute, Mapping, Spatial, Temporal, Workload, is_box
from polymap.schedules.loop_view import ComputeInTree, LoopInTree, StorageInTree, view_of
from polymap.schedules.placement import Group, groups_of, kinds_of, shared_in_part


def outside_the_space(workload: Workload, arch: Architecture, mapping: Mapping) -> str:
    """Return that a readable tree is none of the mapping space, and why; "" where one of it moves and holds the same.

    Loops of one iteration, nodes of the outermost level, and exchanges of loops that change no count are looked
    through. Of trees with branches it is told where a statement lacks the dim of a loop around it; their spaces are
    those of docs/program_space.md.
    """
    if isinstance(mapping.nodes[-1], Compute) and len(workload.statements) == 1:
        (path,) = view_of(workload.extents(), mapping).computes
        page, reason = "counting", next(_Tree.of(workload, arch, path).reasons(), "")
    else:
        page, reason = "program_space", next(_lacking(workload, mapping), "")
    return reason and f"outside of the mapping space, of which OPTIMAL speaks (docs/{page}.md): {reason}"


def _lacking(workload: Workload, mapping: Mapping) -> Iterator[str]:
    """Yield the loops around statements that lack their dims, and run in the first iteration only."""
    for path in view_of(workload.extents(), mapping).computes:
        dims = workload.statement(path.node.statement).dims
        for loop in path.loops:
            if loop.trips > 1 and loop.node.dim not in dims:
                yield f"a loop over {loop.node.dim} stands around {path.node.statement}, which lacks that dim"


@dataclass(frozen=True, slots=True)
class _Tree:
    """The loops of more than one iteration, outermost first, each with the number of storage nodes above it.

    ordered: dims whose loops may not change places. ends: per group of fan-outs, the number of the block that its
    loops stand in: that above the first node of a level below it.
    """

    workload: Workload
    arch: Architecture
    loops: tuple[tuple[int, LoopInTree], ...]
    ordered: frozenset[str]
    groups: tuple[Group, ...]
    ends: tuple[int, ...]

    @staticmethod
    def of(workload: Workload, arch: Architecture, path: ComputeInTree) -> _Tree:
        """Return the loops of a tree without branches."""
        loops: list[tuple[int, LoopInTree]] = []
        stored: list[str] = []
        for each in path.above:
            match each:
                case StorageInTree():
                    if each.node.tensors and each.node.level != arch.levels[0].name:
                        stored.append(each.node.level)
                case LoopInTree() if each.trips > 1:
                    loops.append((len(stored), each))
                case _:
                    pass
        return _Tree(
            workload,
            arch,
            tuple(loops),
            frozenset(_ordered_dims(workload, arch, [loop for _, loop in loops])),
            groups_of(arch),
            tuple(_end(arch, group, stored) for group in groups_of(arch)),
        )

    def reasons(self) -> Iterator[str]:
        """Yield what no tree of the space has."""
        yield from self._repeated_temporal()
        yield from self._repeated_spatial()
        yield from self._reordered_spatial()
        if self._is_scattered():
            yield "spatial loops of one group of fan-outs stand apart, or above a node of a level above the group"

    def _repeated_temporal(self) -> Iterator[str]:
        """Yield pairs of temporal loops over one dim in one block that are not one loop cut in two."""
        temporal = [(block, loop) for block, loop in self.loops if isinstance(loop.node, Temporal)]
        for index, (block, outer) in enumerate(temporal, 1):
            later = [loop for other, loop in temporal[index:] if other == block]
            inner = next((loop for loop in later if loop.node.dim == outer.node.dim), None)
            if inner is not None and (later[0] is not inner or not self._are_one(outer, inner)):
                yield f"two temporal loops over {outer.node.dim} stand between the same two nodes"

    def _repeated_spatial(self) -> Iterator[str]:
        """Yield pairs of loops over one dim on one fan-out that are not one loop cut in two."""
        spatial = [loop for _, loop in self.loops if isinstance(loop.node, Spatial)]
        for index, outer in enumerate(spatial):
            inner = next((loop for loop in spatial[index + 1 :] if _place(loop) == _place(outer)), None)
            if inner is not None and not self._are_one(outer, inner):
                yield f"two loops over {outer.node.dim} stand on the fan-out '{_place(outer)[1]}'"

    def _are_one(self, outer: LoopInTree, inner: LoopInTree) -> bool:
        """Return whether two loops over a dim count as one: what stands between them may stand elsewhere."""
        if outer.node.dim not in self.ordered:
            return True
        own = [loop for _, loop in self.loops if loop.node.dim == outer.node.dim]
        return own.index(inner) == own.index(outer) + 1 and outer.tile % inner.tile == 0

    def _reordered_spatial(self) -> Iterator[str]:
        """Yield loops with partial tiles over a dim on two fan-outs that count alike, the inner one's outside."""
        names = [fanout.name for fanout in self.arch.fanouts]
        for dim in sorted(self.ordered):
            own = [loop for _, loop in self.loops if loop.node.dim == dim]
            kinds = kinds_of(self.workload, self.arch, dim)
            for outer, inner in pairwise(own):
                if isinstance(outer.node, Spatial) and isinstance(inner.node, Spatial) and _has_partial_tiles(own):
                    first, second = names.index(outer.node.fanout), names.index(inner.node.fanout)
                    if second < first and kinds[first] == kinds[second] and self._group(outer) == self._group(inner):
                        yield f"loops over {dim} stand on '{outer.node.fanout}' outside '{inner.node.fanout}'"

    def _group(self, loop: LoopInTree) -> int:
        return next(
            number
            for number, group in enumerate(self.groups)
            if any(isinstance(loop.node, Spatial) and fanout.name == loop.node.fanout for fanout in group.fanouts)
        )

    def _is_scattered(self) -> bool:
        """Return whether no places of the groups keep the order of the loops over each dim that needs it.

        A group stands at a place among the temporal loops: below all of the blocks above its own, and above all of
        those below.
        """
        temporal = [(block, loop) for block, loop in self.loops if isinstance(loop.node, Temporal)]
        least = [sum(block < end for block, _ in temporal) for end in self.ends]
        most = [sum(block <= end for block, _ in temporal) for end in self.ends]
        before: dict[int, set[int]] = {number: set() for number in range(len(self.groups))}
        for _, loop in self.loops:
            if loop.node.dim not in self.ordered or isinstance(loop.node, Temporal):
                continue
            group = self._group(loop)
            own = [each for _, each in self.loops if each.node.dim == loop.node.dim]
            for place, (_, other) in enumerate(temporal):
                if other in own and other.position < loop.position:
                    least[group] = max(least[group], place + 1)
                elif other in own:
                    most[group] = min(most[group], place)
            outer = (each for each in own if each.position < loop.position and isinstance(each.node, Spatial))
            before[group] |= {self._group(each) for each in outer} - {group}
        turned = any(self.ends[other] > self.ends[group] for group, others in before.items() for other in others)
        return turned or not _have_places(least, most, before)


def _have_places(least: Sequence[int], most: Sequence[int], before: dict[int, set[int]]) -> bool:
    """Return whether places between these bounds exist, each no further out than those of the groups before it."""
    places = list(least)
    try:
        for group in TopologicalSorter(before).static_order():
            # any order: a maximum
            places[group] = max([places[group], *(places[other] for other in before[group])])
    except CycleError:
        return False
    return all(place <= end for place, end in zip(places, most, strict=True))


def _place(loop: LoopInTree) -> tuple[str, str]:
    return (loop.node.dim, loop.node.fanout if isinstance(loop.node, Spatial) else "")


def _end(arch: Architecture, group: Group, stored: Sequence[str]) -> int:
    """Return the number of nodes above the first one of a level below the group."""
    below = {level.name for level in arch.levels[group.below :]}
    return next((number for number, level in enumerate(stored) if level in below), len(stored))


def _ordered_dims(workload: Workload, arch: Architecture, loops: Sequence[LoopInTree]) -> Iterator[str]:
    """Yield the dims whose loops change a count when they change places: siblings share an element in part, what lies
    side by side counts, a tile is partial, or the instances are no box."""
    for dim in workload.dims:
        shared, moved = shared_in_part(workload, dim.name)
        counts_runs = bool(moved) and any(level.counts_runs for level in arch.levels)
        own = [loop for loop in loops if loop.node.dim == dim.name]
        if shared or counts_runs or not is_box(workload.statements[0]) or _has_partial_tiles(own):
            yield dim.name


def _has_partial_tiles(loops: Sequence[LoopInTree]) -> bool:
    return any(loop.enclosing % loop.tile for loop in loops)
