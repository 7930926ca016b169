"""Loop trees by construction: fan-outs filled, and from the innermost level outward tiles as large as fit.

They are where a search begins that knows nothing yet: a few dozen trees are scored for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, combinations
from math import prod

from polymap.ir import Fanout, MemoryLevel, Storage, accesses_of
from polymap.search.local.tree_edits import LoopsInward, Nodes, TreeEdits, TreeNode
from polymap.search.local.tree_scores import TreeScores, Worth
from polymap.search.local.tuning import TUNING
from polymap.search.problem import Problem, divisors, prime_factors

Shares = dict[str, dict[str, int]]  # iterations side by side, per fan-out and dim


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
    """The construction for one problem."""

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
        while True:
            outside = [shares[one.name] for one in self._inside[:place] if isinstance(one, Fanout)]
            options = list[tuple[float, int, str]]()
            for dim in self._edits.dims:
                left = self._edits.extents[dim] // (now[dim] * prod(own.get(dim, 1) for own in outside))
                if left > 1:
                    prime = prime_factors(left)[0][0]
                    larger = _times(now, {dim: prime})
                    if self._fits(larger, place, shares):
                        bits = sum(self._scores.tile_bits(name, larger) for name in names)
                        options.append((bits / prod(larger.values()), prime, dim))
            if not options:
                return now
            _, prime, dim = min(options)
            now = _times(now, {dim: prime})

    def _fits(self, tiles: dict[str, int], place: int, shares: Shares) -> bool:
        """Return whether tiles at a level fit there, and with their siblings in all levels further out."""
        for node in reversed(self._inside[: place + 1]):
            if isinstance(node, Fanout):
                tiles = _times(tiles, shares[node.name])
            elif isinstance(node, MemoryLevel) and node.capacity_bits is not None:
                bits = sum(self._scores.tile_bits(one.tensors[0], tiles) for one in self._held[node.name])
                if bits * node.buffering > node.capacity_bits:
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
