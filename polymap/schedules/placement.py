"""In how many ways storage nodes and groups of fan-outs can stand, before any loop is chosen.

A canonical tree is B0 S1 B1 S2 ... Sm Bm: sets S of storage nodes with blocks B of loops between them. The inner blocks
hold a loop; the first and the last may be empty. A group of fan-outs that is used stands in the block above the first
node of the levels below it (in Bm where there is none), and no node of that set can stand above that node: so some
tensor's outermost node in the set lies below the group.

Levels are numbered 1.. below the outermost level. A tensor stands at level 0 until its first node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import accumulate, combinations, pairwise, permutations, product
from math import comb, prod

from polymap.ir import Architecture, Fanout, MemoryLevel, Workload, accesses_of
from polymap.schedules.tuning import TUNING

Vector = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Holding:
    """Which levels below the outermost may and must hold one tensor (index 0 is level 1)."""

    may: tuple[bool, ...]
    must: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Fan-outs with no level between them. below: the number of the first level below them."""

    fanouts: tuple[Fanout, ...]
    below: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Which groups share a block, outermost block first: numbers of used groups, each part one block."""

    parts: tuple[tuple[int, ...], ...]

    @property
    def regions(self) -> int:
        """Return the number of runs of blocks without a group: before, between and after the parts."""
        return len(self.parts) + 1


def groups_of(arch: Architecture) -> tuple[Group, ...]:
    """Return the machine's groups of fan-outs, outermost first."""
    groups: list[Group] = []
    fanouts: list[Fanout] = []
    levels = 0
    for node in arch.nodes:
        if isinstance(node, Fanout):
            fanouts.append(node)
            continue
        if fanouts:
            groups.append(Group(tuple(fanouts), levels))
            fanouts = []
        levels += isinstance(node, MemoryLevel)
    return tuple(groups)


def fanouts_of(groups: Sequence[Group], used: Sequence[int]) -> list[range]:
    """Return the positions, among all fan-outs of the machine, of those in some groups."""
    ends = [0, *accumulate(len(group.fanouts) for group in groups)]
    return [range(ends[g], ends[g + 1]) for g in used]


def spatial_orders(groups: Sequence[Group], used: Sequence[int], kinds: Vector) -> Iterator[Vector]:
    """Yield every order in which loops over one dim stand on some fan-outs of the used groups, which are numbered from
    0, outermost first: neighbours of one kind (`kinds_of`) keep their own order."""
    every = [f for own in fanouts_of(groups, used) for f in own]
    ends = [0, *accumulate(len(groups[g].fanouts) for g in used)]
    each = [
        [
            order
            for count in range(last - first + 1)
            for some in combinations(range(first, last), count)
            for order in orders_that_count(some, {f: kinds[every[f]] for f in some})
        ]
        for first, last in pairwise(ends)
    ]
    return (tuple(f for order in orders for f in order) for orders in product(*each))


def has_few_orders(groups: Sequence[Group], kinds: Vector) -> bool:
    """Return whether the orders of loops over one dim in each group may be listed: no large group counts unlike."""
    unlike = (own for own in fanouts_of(groups, range(len(groups))) if len({kinds[fanout] for fanout in own}) > 1)
    return all(len(own) <= TUNING.most_unlike_fanouts for own in unlike)


def orders_that_count(numbers: Sequence[int], kinds: Mapping[int, object]) -> Iterator[Vector]:
    """Yield the orders of loops over one dim, ascending numbers first: neighbours of one kind keep their own."""
    is_alike = len({kinds[number] for number in numbers}) < 2
    for order in [tuple(numbers)] if is_alike else permutations(numbers):
        if all(outer < inner or kinds[outer] != kinds[inner] for outer, inner in pairwise(order)):
            yield order


def shared_in_part(workload: Workload, dim: str) -> tuple[set[bool], set[bool]]:
    """Return whether a tensor is written: of those of which siblings along a dim share a part, and of those of which
    they share all or nothing, among the tensors that the dim indexes."""
    extents, statement = workload.extents(), workload.statements[0]
    windows, moved = set[bool](), set[bool]()
    for tensor in workload.tensors:
        accesses = accesses_of(statement, tensor.name)
        axes = [axis for access in accesses for axis in access.index if dim in axis.dims]
        plain = all(axis.is_linear and sum(extents[other] > 1 for other in axis.dims) == 1 for axis in axes)
        if axes:
            own = moved if len(accesses) == 1 and plain else windows
            own.add(tensor.name == statement.target.tensor)
    return windows, moved


def kinds_of(workload: Workload, arch: Architecture, dim: str) -> Vector:
    """Return a number per fan-out, equal where two count alike whatever siblings along a dim share: all of them where
    siblings share all or nothing of each tensor, as they do but along windows. Where the machine counts what lies side
    by side in memory, it is told, too, what siblings along any dim load or drain as one message."""
    windows, moved = shared_in_part(workload, dim)
    if not any(level.counts_runs for level in arch.levels):
        moved = set[bool]()
    kinds = [
        (
            fanout.multicast if False in windows else None,
            fanout.multicast.unites_tiles if False in moved else None,
            fanout.reduction if True in windows | moved else None,
            number if windows and fanout.has_energies else None,
        )
        for number, fanout in enumerate(arch.fanouts)
    ]
    return tuple(kinds.index(kind) for kind in kinds)


def holdings_of(workload: Workload, arch: Architecture) -> tuple[Holding, ...]:
    """Return what `holds` and `must_hold` say, per tensor."""
    levels = arch.levels[1:]
    return tuple(
        Holding(
            tuple(level.may_hold(tensor) for level in levels),
            tuple(level.requires(tensor) for level in levels),
        )
        for tensor in workload.tensors
    )


def free_holdings(workload: Workload, arch: Architecture) -> tuple[Holding, ...]:
    """Return holdings that leave every level to every tensor."""
    count = len(arch.levels) - 1
    return tuple(Holding((True,) * count, (False,) * count) for _ in workload.tensors)


def compositions(items: Sequence[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield all ways to cut a sequence into consecutive non-empty parts."""
    if not items:
        yield ()
        return
    for size in range(1, len(items) + 1):
        for rest in compositions(items[size:]):
            yield (tuple(items[:size]), *rest)


@lru_cache(maxsize=256)
def placements(
    holdings: tuple[Holding, ...], groups: tuple[Group, ...], used: tuple[int, ...]
) -> dict[Layout, dict[Vector, int]]:
    """Return per layout of the used groups: number of possibly empty blocks in each region -> signed weight.

    The number of trees is the sum over layouts and vectors of weight x number of ways to fill a part's blocks (each
    holds its groups' loops) and the regions' blocks, each of which may be empty (inclusion and exclusion).
    """
    totals: dict[Layout, dict[Vector, int]] = {}
    for parts in compositions(used):
        layout = Layout(parts)
        weights = totals.setdefault(layout, {})
        bounds = tuple((min(groups[g].below for g in part), max(groups[g].below for g in part)) for part in parts)
        for in_last_block in (False, True) if parts else (False,):
            chains = _Chains(holdings, bounds, in_last_block=in_last_block)
            for slots, count in _surjective(chains).items():
                _add_blocks(weights, slots, count, in_last_block=in_last_block)
    return {layout: {v: w for v, w in weights.items() if w} for layout, weights in totals.items()}


class _Chains:
    """Counts the ways to put all tensors' nodes into slots, which may stay empty.

    bounds: per part the first level below its outermost and its innermost group. in_last_block: the last part's
    groups have no node below them. Slots are those of region 0, the set below part 0, those of region 1, ...
    """

    def __init__(self, holdings: tuple[Holding, ...], bounds: tuple[Vector, ...], *, in_last_block: bool) -> None:
        self.holdings = holdings
        self.bounds = bounds
        self.sets = len(bounds) - in_last_block
        self.regions = self.sets + 1
        self.most = sum(sum(holding.may) for holding in holdings)
        self._row: Callable[[Holding, Vector, tuple[bool, ...]], tuple[int, ...]] = cache(self._row_of)

    def _cap(self, region: int) -> int:
        """Return the first level that no node may have in `region`: its group stands further in."""
        levels = len(self.holdings[0].may) if self.holdings else 0
        return self.bounds[region][0] if region < len(self.bounds) else levels + 1

    def _row_of(self, holding: Holding, slots: Vector, unheaded: tuple[bool, ...]) -> tuple[int, ...]:
        """Return level -> ways to get there in the slots of the first regions and the sets between them."""
        *before, count = slots
        cap = self._cap(len(before))
        if count:
            return _times(self._row(holding, (*before, count - 1), unheaded), _step(holding, cap, None))
        if not before:
            return (1, *(0 for _ in holding.may))
        forbidden = self.bounds[len(before) - 1][1] if unheaded[-1] else None
        return _times(self._row(holding, tuple(before), unheaded[:-1]), _step(holding, cap, forbidden))

    def count(self, slots: Vector) -> int:
        """Return the number of ways with slots[i] slots in region i, each part's own set rightly headed."""
        total = 0
        alike = Counter(self.holdings)
        for unheaded in product((False, True), repeat=self.sets):
            ways = prod(self._ways(holding, slots, unheaded) ** often for holding, often in alike.items())
            total += (-1) ** sum(unheaded) * ways
        return total

    def _ways(self, holding: Holding, slots: Vector, unheaded: tuple[bool, ...]) -> int:
        row = self._row(holding, slots, unheaded)
        return sum(ways for level, ways in enumerate(row) if not any(holding.must[level:]))


def _times(row: tuple[int, ...], step: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    return tuple(sum(a * b for a, b in zip(row, column, strict=True) if a) for column in step)


@cache
def _step(holding: Holding, cap: int, forbidden: int | None) -> tuple[tuple[int, ...], ...]:
    """Return [level after][level before] -> number of sets of nodes that one slot may hold of this tensor.

    Only levels below `cap` stand here, and no set whose outermost node lies at `forbidden` or further in.
    """
    size = len(holding.may) + 1
    rows: list[list[int]] = []
    for before in range(size):
        row = [0] * size
        row[before] = 1
        for after in range(before + 1, min(size, cap)):
            ways = _subsets(holding, before, after)
            if forbidden is not None and forbidden <= after and not any(holding.must[before : forbidden - 1]):
                ways -= _subsets(holding, max(before, forbidden - 1), after)
            row[after] = ways
        rows.append(row)
    return tuple(zip(*rows, strict=True))


def _subsets(holding: Holding, before: int, after: int) -> int:
    """Return the number of sets of levels in before+1 .. after that contain `after` and all that must hold."""
    if not holding.may[after - 1]:
        return 0
    between = range(before, after - 1)
    if any(holding.must[i] and not holding.may[i] for i in between):
        return 0
    return 2 ** sum(holding.may[i] and not holding.must[i] for i in between)


def _surjective(chains: _Chains) -> dict[Vector, int]:
    """Return slots per region -> number of ways in which every slot of a region holds a node."""
    most = chains.most - chains.sets
    vectors = [v for v in product(range(most + 1), repeat=chains.regions) if sum(v) <= most]
    ways = {vector: chains.count(vector) for vector in vectors}
    for axis in range(chains.regions):
        ways = {
            vector: sum(
                (-1) ** (vector[axis] - kept)
                * comb(vector[axis], kept)
                * ways[(*vector[:axis], kept, *vector[axis + 1 :])]
                for kept in range(vector[axis] + 1)
            )
            for vector in vectors
        }
    return ways


def _add_blocks(weights: dict[Vector, int], slots: Vector, count: int, *, in_last_block: bool) -> None:
    """Add the signed weights of the regions' blocks, the blocks that must hold a loop made so by exclusion."""
    if not count:
        return
    blocks = list(slots)
    optional = [0] * len(blocks)
    if slots[0] > 0:
        optional[0] += 1
    if in_last_block:
        blocks.append(0)
        optional.append(0)
    else:
        blocks[-1] += 1
        optional[-1] += 1
    for emptied in product(*(range(b - o + 1) for b, o in zip(blocks, optional, strict=True))):
        signs = prod((-1) ** e * comb(b - o, e) for e, b, o in zip(emptied, blocks, optional, strict=True))
        vector = tuple(b - e for b, e in zip(blocks, emptied, strict=True))
        weights[vector] = weights.get(vector, 0) + count * signs


def subsets(items: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield all subsets, in order of size."""
    for size in range(len(items) + 1):
        yield from combinations(items, size)
