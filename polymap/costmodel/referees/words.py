"""All sequences of loops of legal trees, without storage nodes.

A word is a sequence of temporal loops and of units. A unit is all spatial loops of one group of fan-outs: those over a
dim on outer fan-outs first, or in any order where that counts. Tiles strictly decrease along each dim and end at 1.
Between two temporal loops over one dim there must be a storage node: `gaps` lists where. Words that need more nodes
than a tree may have are omitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, permutations, product

from polymap.costmodel.referees.counts import Loop, Nest
from polymap.ir import Architecture, Fanout, MemoryLevel
from polymap.schedules import kinds_of

Item = int | tuple[int, ...]  # a temporal loop, or the spatial loops of a unit: their numbers in the nest


@dataclass(frozen=True, slots=True)
class FanoutGroup:
    """The positions of the fan-outs between two levels. below: the first level below them."""

    fanouts: tuple[int, ...]
    below: int


@dataclass(frozen=True, slots=True)
class Word:
    """One sequence of loops. items: outermost first. units: (number of the group, its position) of each group in use.

    gaps: pairs (first, last) such that a node must be in a gap from first to last; gap g is directly above item g.
    """

    items: tuple[Item, ...]
    units: tuple[tuple[int, int], ...]
    gaps: tuple[tuple[int, int], ...]


class Words:
    """The words of a workload on a machine."""

    def __init__(self, nest: Nest, arch: Architecture, tiles: str, most_nodes: int) -> None:
        self.nest = nest
        self.fanouts = arch.fanouts
        self.any = tiles == "any"
        self.most_nodes = most_nodes
        self.dims = tuple(nest.extents)
        self.extents = nest.extents
        self.groups = fanout_groups(arch)
        self._kinds = {dim: kinds_of(nest.workload, arch, dim) for dim in self.dims}
        self._orders = {
            (group, dim): self._orders_of(one.fanouts, dim)
            for group, one in enumerate(self.groups)
            for dim in self.dims
        }

    def __iter__(self) -> Iterator[Word]:
        chains = tuple((self.extents[dim],) for dim in self.dims)
        yield from self._words_from(chains, (), (), frozenset(), 0)

    def _words_from(
        self,
        chains: tuple[tuple[int, ...], ...],
        items: tuple[Item, ...],
        units: tuple[tuple[int, int], ...],
        block: frozenset[int],
        nodes: int,
    ) -> Iterator[Word]:
        """Yield all words that begin with `items`.

        chains: per dim the extent and the tiles so far. block: dims with a temporal loop since the last position by
        which a node is required. nodes: the number of such positions.
        """
        if all(chain[-1] == 1 for chain in chains):
            yield Word(items, units, self._gaps(items))
        for dim, chain in enumerate(chains):
            repeated = dim in block
            if nodes + repeated > self.most_nodes:
                continue
            for tile in self._tiles(chain[-1]):
                longer = (*chain, tile)
                item = self.nest.meet(Loop(self.dims[dim], longer[1:]))
                now = (*chains[:dim], longer, *chains[dim + 1 :])
                here = frozenset((dim,)) if repeated else block | {dim}
                yield from self._words_from(now, (*items, item), units, here, nodes + repeated)
        used = {group for group, _ in units}
        for group in range(len(self.groups)):
            if group not in used:
                for now, unit in self._units(chains, group):
                    after = (*units, (group, len(items)))
                    yield from self._words_from(now, (*items, unit), after, block, nodes)

    def _tiles(self, enclosing: int) -> Sequence[int]:
        return range(1, enclosing) if self.any else _proper_divisors(enclosing)

    def _gaps(self, items: tuple[Item, ...]) -> tuple[tuple[int, int], ...]:
        last: dict[str, int] = {}
        gaps: list[tuple[int, int]] = []
        for position, item in enumerate(items):
            if isinstance(item, int):
                dim = self.nest.loops[item].dim
                if dim in last:
                    gaps.append((last[dim] + 1, position))
                last[dim] = position
        return tuple(gap for gap in gaps if not any(_inside(other, gap) for other in gaps))

    def _units(
        self, chains: tuple[tuple[int, ...], ...], group: int
    ) -> Iterator[tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]]:
        """Yield every unit of a group: the chains after it, and its loops."""
        room = {fanout: self.fanouts[fanout].size for fanout in self.groups[group].fanouts}
        choices = [self._orders[group, dim] for dim in self.dims]
        known: set[tuple[int, ...]] = set()
        for orders in product(*(own if c[-1] > 2 else own[:1] for own, c in zip(choices, chains, strict=True))):
            slots = [(order[place], dim) for place in range(len(room)) for dim, order in enumerate(orders)]
            for now, unit in self._fill_slots(slots, chains, room):
                loops = self._sorted_unit(unit)
                if loops and loops not in known:
                    known.add(loops)
                    yield now, loops

    def _sorted_unit(self, unit: tuple[int, ...]) -> tuple[int, ...]:
        """Return the loops by the fan-outs, outermost first, where those over a dim stand, then by dim; none where two
        neighbours that count alike what siblings share along their dim do not keep their own order."""
        keys: dict[int, tuple[int, int]] = {}
        for place, dim in enumerate(self.dims):
            own = [number for number in unit if self.nest.loops[number].dim == dim]
            fanouts = [self.nest.loops[number].fanout or 0 for number in own]
            for outer, inner in pairwise(fanouts):
                if outer > inner and self._kinds[dim][outer] == self._kinds[dim][inner]:
                    return ()
            keys |= {number: (fanout, place) for number, fanout in zip(own, sorted(fanouts), strict=True)}
        return tuple(sorted(unit, key=keys.__getitem__))

    def _orders_of(self, fanouts: tuple[int, ...], dim: str) -> tuple[tuple[int, ...], ...]:
        """Return the orders of loops over a dim on these fan-outs, the own one first; that alone, if none counts."""
        idle = tuple(f for f in fanouts if self.fanouts[f].size == 1 or not self.fanouts[f].may_spread(dim))
        used = tuple(fanout for fanout in fanouts if fanout not in idle)
        is_alike = len({self._kinds[dim][fanout] for fanout in used}) < 2
        return ((*used, *idle),) if is_alike else tuple((*order, *idle) for order in permutations(used))

    def _fill_slots(
        self, slots: Sequence[tuple[int, int]], chains: tuple[tuple[int, ...], ...], room: dict[int, int]
    ) -> Iterator[tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]]:
        if not slots:
            yield chains, ()
            return
        (fanout, dim), rest = slots[0], slots[1:]
        yield from self._fill_slots(rest, chains, room)
        allowed = self.fanouts[fanout].dims
        if allowed is not None and self.dims[dim] not in allowed:
            return
        for tile in self._tiles(chains[dim][-1]):
            trips = -(-chains[dim][-1] // tile)
            if trips <= room[fanout]:
                longer = (*chains[dim], tile)
                loop = self.nest.meet(Loop(self.dims[dim], longer[1:], fanout))
                now = (*chains[:dim], longer, *chains[dim + 1 :])
                for after, unit in self._fill_slots(rest, now, {**room, fanout: room[fanout] // trips}):
                    yield after, (loop, *unit)


@cache
def _proper_divisors(number: int) -> Sequence[int]:
    return tuple(divisor for divisor in range(1, number) if number % divisor == 0)


def _inside(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return inner != outer and outer[0] <= inner[0] and inner[1] <= outer[1]


def fanout_groups(arch: Architecture) -> tuple[FanoutGroup, ...]:
    """Return the machine's groups of fan-outs between levels, outermost first."""
    groups: list[FanoutGroup] = []
    level = fanout = 0
    between: list[int] = []
    for node in arch.nodes:
        if isinstance(node, Fanout):
            between.append(fanout)
            fanout += 1
            continue
        if between:
            groups.append(FanoutGroup(tuple(between), level))
            between = []
        level += isinstance(node, MemoryLevel)
    return tuple(groups)
