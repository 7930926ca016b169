"""Loop trees where descents begin: by construction, random ones, and those of a relaxed chain.

By construction fan-outs are filled, and from the innermost level outward tiles are as large as fit: where a search
begins that knows nothing yet. A few dozen trees are scored for them.

A bound's relaxed chain names nodes, outermost first, with a range of tile sizes per dim at which its cost is the same.
Trees take sizes out of these ranges that nest; between two nodes stand the loops from the one's tiles to the other's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, permutations
from math import prod
from random import Random
from typing import Protocol

from polymap.ir import Fanout, MemoryLevel, Spatial, Storage, Temporal, accesses_of
from polymap.search.problem import Problem, divisors, prime_factors
from polymap.search.trees.tree_edits import Counts, LoopsInward, Nodes, TreeEdits, TreeNode, shares_of
from polymap.search.trees.tree_scores import TreeScores, Worth
from polymap.search.trees.tuning import TUNING

Shares = dict[str, dict[str, int]]  # iterations side by side, per fan-out and dim

# Of a level: siblings per dim of a tile further in that are in one of its tiles, tensors that it may hold, its bits.
_Room = tuple[dict[str, int], list[str], int]


@dataclass(frozen=True, slots=True)
class _Plan:
    """A tree to be: its shares, the tiles at each level and at compute (""), the tensor whose tile the loops right
    above each stay with longest, how tiles are grown, and the storage nodes that it goes without."""

    shares: Shares
    tiles: dict[str, dict[str, int]]
    stay: dict[str, str]
    for_all: bool
    dropped: frozenset[Storage] = frozenset()


class FilledTrees:
    """Trees by construction, for one problem."""

    def __init__(self, problem: Problem, edits: TreeEdits, scores: TreeScores) -> None:
        self._edits, self._scores = edits, scores
        self._inside = problem.arch.nodes[1:-1]
        self._levels = [node for node in self._inside if isinstance(node, MemoryLevel)]
        statement = problem.workload.statements[0]
        self._output = statement.target.tensor
        self._dims = {
            tensor.name: {
                dim for one in accesses_of(statement, tensor.name) for index in one.index for dim in index.dims
            }
            for tensor in problem.workload.tensors
        }
        self._held = {
            level.name: [Storage(level.name, (one.name,)) for one in problem.workload.tensors if level.may_hold(one)]
            for level in self._levels
        }

    def best(self, is_over: Callable[[], bool]) -> list[Nodes]:
        """Return the best trees of these, one per way to grow tiles; fewer where they are not counted, or it is over
        before."""
        return [tree for way in (True, False) if (tree := self._best_grown(is_over, for_all=way)) is not None]

    def _best_grown(self, is_over: Callable[[], bool], *, for_all: bool) -> Nodes | None:
        stay = dict.fromkeys((*self._held, ""), self._output)
        plans = [_Plan(one, self._tiles(one, for_all=for_all), stay, for_all) for one in self._shares()]
        scored = [
            (worth, place)
            for place, one in enumerate(plans)
            if not is_over() and (worth := self._worth_of(one)) is not None
        ]
        if not scored:
            return None
        worth, place = min(scored)
        plan = plans[place]
        for change in self._changes(plan):
            if is_over():
                break
            now = change(plan)
            own = None if now == plan else self._worth_of(now)
            if own is not None and own < worth:
                worth, plan = own, now
        return self._tree(plan)

    def _worth_of(self, plan: _Plan) -> Worth | None:
        return self._scores.worth(self._tree(plan))

    def _changes(self, plan: _Plan) -> Iterator[Callable[[_Plan], _Plan]]:
        """Yield changes one after the other: shares over one fan-out, the tensor for which the loops of a level are,
        a storage node less."""
        for place in plan.stay:
            for name in self._dims:
                yield lambda now, place=place, name=name: replace(now, stay={**now.stay, place: name})
        for fanout in self._edits.fanouts:
            for place in range(TUNING.filled):
                yield lambda now, fanout=fanout, place=place: self._refill(now, fanout, place)
        for one in chain(*self._held.values()):
            if not self._edits.is_required(one):
                yield lambda now, one=one: replace(now, dropped=now.dropped | {one})

    def _refill(self, plan: _Plan, fanout: Fanout, place: int) -> _Plan:
        """Return the plan with a fan-out filled in another way."""
        others = {name: own for name, own in plan.shares.items() if name != fanout.name}
        fillings = self._fillings(fanout, others)
        shares = {**plan.shares, fanout.name: fillings[min(place, len(fillings) - 1)]}
        return replace(plan, shares=shares, tiles=self._tiles(shares, for_all=plan.for_all))

    def _shares(self) -> list[Shares]:
        """Return the shares that fill the fan-outs most, outermost first."""
        found: list[Shares] = [{}]
        for fanout in self._edits.fanouts:
            fillings = [(one, self._fillings(fanout, one)[: TUNING.filled]) for one in found]
            longer = [{**one, fanout.name: share} for one, own in fillings for share in own]
            longer.sort(key=lambda one: -prod(chain(*(own.values() for own in one.values()))))
            found = longer[: TUNING.filled]
        return found

    def _fillings(self, fanout: Fanout, others: Shares) -> list[dict[str, int]]:
        """Return shares of a fan-out beside those of others, the fullest of each choice of one or two dims."""
        free = {dim: self._edits.extents[dim] for dim in self._edits.dims if fanout.may_spread(dim)}
        left = {dim: many // prod(own.get(dim, 1) for own in others.values()) for dim, many in free.items()}
        counts = {dim: [n for n in divisors(many) if 1 < n <= fanout.size] for dim, many in left.items()}
        found = [{dim: own[-1]} for dim, own in counts.items() if own]
        for one, other in combinations([dim for dim, own in counts.items() if own], 2):
            pairs = [(n * m, n, m) for n in counts[one] for m in counts[other] if n * m <= fanout.size]
            found += [{one: n, other: m} for _, n, m in sorted(pairs)[-1:]]
        found.sort(key=lambda share: (-prod(share.values()), len(share)))
        return found or [{}]

    def _tiles(self, shares: Shares, *, for_all: bool) -> dict[str, dict[str, int]]:
        """Return the tiles per level, grown from the innermost one outward by one prime of a dim after the other.
        for_all: so that tiles of all tensors are used most, not only those of the level's tensors."""
        now = dict.fromkeys(self._edits.extents, 1)
        found = {"": dict(now)}
        for place in reversed(range(len(self._inside))):
            node = self._inside[place]
            if isinstance(node, Fanout):
                now = _times(now, shares[node.name])
            elif isinstance(node, MemoryLevel):
                names = [one.tensors[0] for one in self._held[node.name]]
                now = self._grow_tiles(now, place, shares, list(self._dims) if for_all else names)
                found[node.name] = now
        return found

    def _grow_tiles(self, now: dict[str, int], place: int, shares: Shares, names: list[str]) -> dict[str, int]:
        """Return the tiles at a level that fit there and further out, where no dim may grow: each time by the prime by
        which the bits of these tensors per iteration become least."""
        outside = [shares[one.name] for one in self._inside[:place] if isinstance(one, Fanout)]
        left = {dim: self._edits.extents[dim] // now[dim] for dim in self._edits.dims}
        left = {dim: many // prod(own.get(dim, 1) for own in outside) for dim, many in left.items()}
        rooms = list(self._rooms(place, shares))
        while True:
            options = list[tuple[float, int, str]]()
            for dim in [dim for dim, many in left.items() if many > 1]:
                prime = prime_factors(left[dim])[0][0]
                larger = {**now, dim: now[dim] * prime}
                if self._fits(larger, rooms):
                    bits = sum(self._scores.tile_bits(name, larger) for name in names)
                    options.append((bits / prod(larger.values()), prime, dim))
                else:
                    del left[dim]  # nor does it fit once others have grown
            if not options:
                return now
            _, prime, dim = min(options)
            now, left[dim] = _times(now, {dim: prime}), left[dim] // prime

    def _rooms(self, place: int, shares: Shares) -> Iterator[_Room]:
        """Yield the levels of limited room from a place on outward."""
        siblings = dict.fromkeys(self._edits.extents, 1)
        for node in reversed(self._inside[: place + 1]):
            if isinstance(node, Fanout):
                siblings = _times(siblings, shares[node.name])
            elif isinstance(node, MemoryLevel) and node.usable_bits is not None:
                yield siblings, [one.tensors[0] for one in self._held[node.name]], node.usable_bits

    def _fits(self, tiles: dict[str, int], rooms: Iterable[_Room]) -> bool:
        """Return whether tiles fit into all these levels with their siblings."""
        for siblings, names, usable in rooms:
            now = _times(tiles, siblings)
            if sum(self._scores.tile_bits(name, now) for name in names) > usable:
                return False
        return True

    def _tree(self, plan: _Plan) -> Nodes:
        loops, found = LoopsInward(self._edits.extents), list[TreeNode]()
        for node in self._inside:
            if isinstance(node, Fanout):
                found += loops.spatial(node.name, plan.shares[node.name])
            elif isinstance(node, MemoryLevel):
                found += loops.temporal(plan.tiles[node.name], self._order(plan.stay[node.name]))
                found += [one for one in self._held[node.name] if one not in plan.dropped]
        return self._edits.tidied([*found, *loops.temporal(plan.tiles[""], self._order(plan.stay[""]))])

    def _order(self, stays: str) -> list[str]:
        """Return the dims with those that leave a tensor's tile as it is innermost."""
        return sorted(self._edits.dims, key=lambda dim: dim not in self._dims[stays])


def _times(tiles: dict[str, int], factors: dict[str, int]) -> dict[str, int]:
    return {dim: size * factors.get(dim, 1) for dim, size in tiles.items()}


def random_tree(edits: TreeEdits, rng: Random) -> Nodes:
    """Return a tree drawn without preference; tiles divide if those of the edits do. It may exceed capacities."""
    nodes: Nodes = ()
    for node in edits.not_held(()):
        if edits.is_required(node) or rng.random() < TUNING.held:
            place = rng.choice(edits.storage_places(nodes, node))
            nodes = (*nodes[:place], node, *nodes[place:])
    for dim in rng.sample(edits.dims, len(edits.dims)):
        nodes = _with_loops(edits, nodes, dim, rng)
    return edits.tidied(nodes)


def _with_loops(edits: TreeEdits, nodes: Nodes, dim: str, rng: Random) -> Nodes:
    """Return the tree with loops over a dim that it has none of."""
    extent = edits.extents[dim]
    near = edits.divide or rng.random() < 0.5
    number = extent if near else rng.randint(extent, extent + extent // 2)
    room = {fanout: fanout.size // prod(edits.share_of(nodes, fanout).values()) for fanout in edits.fanouts}
    trips: dict[tuple[int, Fanout | None], int] = {}
    for prime in (prime for prime, exponent in prime_factors(number) for _ in range(exponent)):
        fanout = rng.choice((None, None, *(each for each in edits.fanouts if each.may_spread(dim))))
        if fanout is not None and room[fanout] < prime:
            fanout = None
        if fanout is not None:
            room[fanout] //= prime
        places = edits.loop_places(nodes, Temporal(dim, 1) if fanout is None else Spatial(dim, 1, fanout.name))
        drawn = rng.choice(places)
        at = next((place for place, other in trips if fanout is not None and other == fanout), drawn)
        trips[at, fanout] = trips.get((at, fanout), 1) * prime
    return _insert_loops(nodes, dim, extent, sorted(trips.items(), key=lambda each: each[0][0]))


def _insert_loops(nodes: Nodes, dim: str, now: int, trips: list[tuple[tuple[int, Fanout | None], int]]) -> Nodes:
    """Return the tree with loops of so many iterations at their places, outermost first."""
    found: list[TreeNode] = []
    begin = 0
    for (place, fanout), many in trips:
        now = -(-now // many)
        found += [*nodes[begin:place], Temporal(dim, now) if fanout is None else Spatial(dim, now, fanout.name)]
        begin = place
    return (*found, *nodes[begin:])


Sizes = tuple[int, ...]


class Place(Protocol):
    """A node of a chain: number of its tensor, level, the unit in which its tiles are measured (how many groups of
    fan-outs stand above), and per dim the least and the largest size of its tile."""

    @property
    def tensor(self) -> int: ...
    @property
    def level(self) -> int: ...
    @property
    def unit(self) -> int: ...
    @property
    def low(self) -> Sizes: ...
    @property
    def high(self) -> Sizes: ...


Chain = Sequence[Place]


def trees_of_chain(problem: Problem, counts: Counts, chain: Chain) -> list[Nodes]:
    """Return distinct trees with the chain's nodes in its order and these sibling counts [class][dim], at most a few
    dozen; none where the fan-outs cannot have the counts."""
    shares = [_shares(problem, number, row) for number, row in enumerate(counts)]
    if any(one is None for one in shares):
        return []
    spread = {name: share for one in shares for name, share in (one or {}).items()}
    found: dict[Nodes, None] = {}
    for sizes in _nested_sizes(problem, counts, chain):
        for order in _orders(problem):
            for side_by_side in (False, True):
                found[tuple(_tree(problem, spread, chain, sizes, order, side_by_side=side_by_side))] = None
    return list(found)


def _shares(problem: Problem, number: int, row: Sequence[int]) -> dict[str, dict[str, int]] | None:
    """Return the iterations per fan-out of a class and dim."""
    fanouts = [problem.arch.fanouts[place] for place in problem.classes[number].fanouts]
    wanted = {dim: many for dim, many in sorted(zip(problem.dims, row, strict=True)) if many > 1}
    found = shares_of(fanouts, wanted)
    return None if found is None else {one.name: share for one, share in zip(fanouts, found, strict=True)}


def _nested_sizes(problem: Problem, counts: Counts, chain: Chain) -> Iterator[list[Sizes]]:
    """Yield tile sizes of the chain's nodes: the least ones; multiples of those further in, as large as may be or
    the least ones; equal shares of those further out."""
    groups = sorted({one.below for one in problem.classes})
    dims = range(len(problem.dims))

    def siblings(outer: int, inner: int, d: int) -> int:
        many = 1
        for one, row in zip(problem.classes, counts, strict=True):
            if outer <= groups.index(one.below) < inner:
                many *= row[d]
        return many

    yield [place.low for place in chain]
    for largest in (True, False):
        sizes: list[Sizes] = []
        inner, unit = (1,) * len(dims), len(groups)
        for place in reversed(chain):
            inner = tuple(
                _multiple(inner[d] * siblings(place.unit, unit, d), place.low[d], place.high[d], largest=largest)
                for d in dims
            )
            unit = place.unit
            sizes.append(inner)
        yield sizes[::-1]
    shares: list[Sizes] = []
    outer, unit = problem.extents, 0
    for place in chain:
        here = [-(-outer[d] // siblings(unit, place.unit, d)) for d in dims]
        outer = tuple(_share(here[d], place.low[d], place.high[d]) for d in dims)
        unit = place.unit
        shares.append(outer)
    yield shares


def _multiple(inner: int, low: int, high: int, *, largest: bool) -> int:
    """Return a multiple of the inner size in a range; where there is none its least size."""
    found = high // inner * inner if largest else -(-low // inner) * inner
    return found if low <= found <= high else low


def _share(outer: int, low: int, high: int) -> int:
    """Return an equal share of the outer size in a range; where there is none its least size."""
    if outer <= high:
        return max(outer, low)
    found = -(-outer // -(-outer // high))
    return found if low <= found else low


def _orders(problem: Problem) -> list[tuple[str, ...]]:
    """Return orders of dims that loops beside each other may stand in: those of each window each way round."""
    groups = {group.dims for term in problem.terms for group in term.groups if len(group.dims) > 1}
    found: dict[tuple[str, ...], None] = {}
    for first in (True, False):
        moved = [dim for group in sorted(groups) for dim in (group[:1] if first else group[1:])]
        rest = [dim for dim in problem.dims if dim not in moved]
        for inner in permutations(moved) if len(moved) < 3 else (tuple(moved), tuple(reversed(moved))):
            found[*rest, *inner] = None
    return list(found)


def _tree(
    problem: Problem,
    spread: dict[str, dict[str, int]],
    chain: Chain,
    sizes: Sequence[Sizes],
    order: tuple[str, ...],
    *,
    side_by_side: bool,
) -> Iterator[TreeNode]:
    """Yield the nodes of one tree. order: of neighbouring loops, those over the dims of the next node's tensor inside
    the others. side_by_side: siblings take neighbouring tiles at a time, not a stretch of them each."""
    loops = LoopsInward(dict(zip(problem.dims, problem.extents, strict=True)))
    groups = sorted({one.below for one in problem.classes})
    unit = 0
    for place, row in zip((*chain, None), (*sizes, (1,) * len(problem.dims)), strict=True):
        last = len(groups) if place is None else place.unit
        own = frozenset[str]() if place is None else problem.terms[place.tensor].dims
        inward = sorted(order, key=lambda dim: (dim in own, order.index(dim)))
        tiles = dict(zip(problem.dims, row, strict=True))
        names = [
            problem.arch.fanouts[f].name
            for g in groups[unit:last]
            for one in problem.classes
            if one.below == g
            for f in one.fanouts
        ]
        if side_by_side:
            many = {dim: prod(spread[name].get(dim, 1) for name in names) for dim in tiles}
            yield from loops.temporal({dim: tile * many[dim] for dim, tile in tiles.items()}, inward)
        for name in names:
            yield from loops.spatial(name, spread[name])
        unit = last
        yield from loops.temporal(tiles, inward)
        if place is not None:
            yield Storage(problem.arch.levels[place.level].name, (problem.terms[place.tensor].tensor.name,))
