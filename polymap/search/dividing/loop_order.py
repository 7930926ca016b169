"""From a chain of storage nodes to the best loop tree: the order of loops in each block, and where spatial loops stand.

Both matter to tensors that are read through windows only. Once the spatial loops have their places every overlap is
exact, and a loop of n iterations over d around loops that reach X turns the loads V into n V - (n - 1) overlap
(window_paths.py); over all nodes of the tensor, weighted, that is again one linear recurrence, so the best order is a
shortest path over the subsets of each block's dims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise, permutations, product
from math import prod

from polymap.ir import Mapping
from polymap.search.dividing.chain import Block, ChainNode, PlacedGroups, blocks_of, is_mark, tree_of, trips_of
from polymap.search.dividing.cost_tables import Tables
from polymap.search.dividing.node_costs import added_up, covers, covers_intrinsics, read_weights, spans_enough
from polymap.search.dividing.tuning import TUNING
from polymap.search.dividing.window_paths import DimView, GroupCrossing, window_counts
from polymap.search.problem import TensorTerm, divisors, inside_of, may_stand, order_dims

Vector = tuple[int, ...]
Standing = tuple[
    tuple[GroupCrossing, ...], tuple[tuple[int, int], ...]
]  # spatial loops over a dim; (number, place) of each


@dataclass(frozen=True, slots=True)
class CompletedMapping:
    """The best loop tree of a chain, with its cost per component (without the tables' start)."""

    parts: tuple[int, ...]
    mapping: Mapping


def completed_mappings(
    tables: Tables, chains: Iterable[tuple[ChainNode, ...]], fixed: Vector, free_bits: tuple[int | None, ...]
) -> Iterator[tuple[CompletedMapping, ...]]:
    """Yield the best tree of every chain (of a front, all that none beats), chain by chain; none where none fits.

    fixed: the cost of everything but the window tensor, per component. free_bits: per level, what the other tensors
    leave.
    """
    for chain in chains:
        yield _chain_mappings(tables, chain, fixed, free_bits)


def least_completed(tables: Tables, chain: tuple[ChainNode, ...], fixed: Vector) -> Vector | None:
    """Return the least that trees of a chain, and of all chains in which its nodes stand lower, may cost per component
    (None: there are none). They are paths of loops through the chain's tiles; any number of loops over a dim is allowed
    here. Places of spatial loops are decided. fixed: as in completed_mappings."""
    window = next((term for term in tables.problem.terms if term.is_window), None)
    tiles = (tables.context.tiles[0], *(node.tile for node in chain), (1,) * len(tables.problem.dims))
    divisors_of = tables.caches.memo(divisors)
    points = sum(prod(len(divisors_of(a // b)) for a, b in zip(*pair, strict=True)) for pair in pairwise(tiles))
    if window is None or points > TUNING.points_of_leaf:
        return fixed
    paths = (_WindowPath(tables, window, placed) for placed in _decided_placements(tables))
    found = [cost for path in paths if (cost := path.least_cost(chain)) is not None]
    return reduce(_lower_costs, (added_up(fixed, cost) for cost in found)) if found else None


def _decided_placements(tables: Tables) -> Iterator[PlacedGroups]:
    """Yield the spatial groups at their decided places in every order of these that can be: of two over one dim the one
    with less inside comes first."""
    places, dims = tables.factors.places, tables.problem.dims
    groups = {below: {dim: one.inside for (own, dim), one in places.items() if own == below} for below, _ in places}
    for order in permutations(sorted(groups)):
        ends = ([groups[below][dim] for below in order if dim in groups[below]] for dim in dims)
        if all(b % a == 0 for own in ends for a, b in pairwise(own)):
            yield PlacedGroups(tuple((below, tuple(groups[below].get(dim, 1) for dim in dims)) for below in order))


def undominated_positions(vectors: Sequence[Vector]) -> list[int]:
    """Return the positions of the vectors that no other one covers, the first of equal ones."""
    kept: list[int] = []
    for i, new in enumerate(vectors):
        if not any(covers(vectors[k], new) for k in kept):
            kept = [k for k in kept if not covers(new, vectors[k])] + [i]
    return kept


def _chain_mappings(
    tables: Tables, chain: tuple[ChainNode, ...], fixed: Vector, free_bits: tuple[int | None, ...]
) -> tuple[CompletedMapping, ...]:
    choices = tuple(blocks_of(tables, chain))
    blocks = choices[0]
    below = tuple(_inside(tables, block) for block in blocks)
    some = tuple(order_dims(inside) for inside in below)
    if not all(_may_stand(tables, node) for node in chain) or None in some:
        return ()
    window = next((term for term in tables.problem.terms if term.is_window), None)
    if window is None:
        placed = PlacedGroups(tuple((g, block.inner) for block in reversed(blocks) for g in reversed(block.groups)))
        orders = tuple(order for order in some if order is not None)
        return (CompletedMapping(fixed, tree_of(tables, blocks, orders, placed)),)
    best: list[tuple[int, Vector, tuple[Block, ...], tuple[Vector, ...], PlacedGroups]] = []
    for blocks, placed in ((one, placed) for one in choices for placed in _placements(tables, window, one)):
        path = _WindowPath(tables, window, placed)
        if not all(path.fits(node, free_bits) for node in chain):
            continue
        for parts, orders in path.best_orders(blocks, below):
            total = added_up(fixed, parts)
            value = tables.measure.value_within_limits(added_up(total, tables.start), tables.compute_cycles)
            if value is None:
                continue
            if tables.measure.is_front or not best or value < best[0][0]:
                best = [*(best if tables.measure.is_front else ()), (value, total, blocks, orders, placed)]
    kept = (
        undominated_positions([tables.measure.values(value) for value, *_ in best]) if tables.measure.is_front else [0]
    )
    return tuple(CompletedMapping(best[i][1], tree_of(tables, *best[i][2:])) for i in kept if best)


def _inside(tables: Tables, block: Block) -> Inside:
    """Return per dim with a loop in the block what the rules want inside it."""
    problem = tables.problem
    return inside_of(problem.rules, problem.dims, tables.context.tiles[0], block.outer, block.inner)


def _may_stand(tables: Tables, node: ChainNode) -> bool:
    """Return whether the rules let a node (or the loops of a mark) stand where it does."""
    problem = tables.problem
    if not problem.rules:
        return True
    if not may_stand(problem.rules, problem.dims, node.tile, tables.context.tiles[0]):
        return False
    tiles = dict(zip(problem.dims, node.tile, strict=True))
    if is_mark(node):
        return True
    enough = spans_enough(tables.factors, problem.terms[node.tensor], node.level, tiles)
    return bool(enough) and bool(covers_intrinsics(tables.factors, node.level, tiles))


def _placements(tables: Tables, window: TensorTerm, blocks: tuple[Block, ...]) -> Iterator[PlacedGroups]:
    """Yield every way to put the spatial groups of each block between its loops, as far as the window can tell."""
    per_block: list[list[tuple[tuple[int, Vector], ...]]] = []
    for block in reversed(blocks):
        choices: list[tuple[tuple[int, Vector], ...]] = []
        for order in permutations(sorted(block.groups, reverse=True)):
            for tiles in product(*(_crossing_tiles(tables, block, below, window) for below in order)):
                choices.append(tuple(zip(order, tiles, strict=True)))
        per_block.append(choices)
    for combination in product(*per_block):
        yield PlacedGroups(tuple(item for block in combination for item in block))


def _crossing_tiles(tables: Tables, block: Block, below: int, window: TensorTerm) -> list[Vector]:
    """Return the temporal tiles inside a group of the block; decided places that no loop order gives leave none."""
    decided = tables.factors.places
    windows = set(window.window_dims)
    choices: list[Vector] = []
    for dim, outer, inner in zip(tables.problem.dims, block.outer, block.inner, strict=True):
        free = dim in windows and tables.factors.group_factor(dim, below) > 1
        ends = tuple(dict.fromkeys((inner, outer))) if free else (inner,)
        place = decided.get((below, dim))
        choices.append(ends if place is None or not free else tuple(end for end in ends if end == place.inside))
    return list(product(*choices))


Inside = dict[int, set[int]]
Label = tuple[Vector, tuple[Vector, ...]]  # cost per component, loop order per block
OpenLabel = tuple[Vector, Vector, tuple[Vector, ...]]  # the same with the order so far of the block at hand between
Amounts = tuple[int, int]  # elements filled, elements read for one message


@dataclass(frozen=True, slots=True)
class _WindowNode:
    """A storage node of the window tensor, or the compute unit: its temporal tile and the elements of it along plain
    axes; per window dim the spatial loops over it and where they stand; per component the cost of one element that is
    filled and of one that is read for one message, and the cost of what is held."""

    tile: Vector
    plain: int
    dims: dict[str, Standing]
    weights: tuple[Amounts, ...]
    held: Vector

    def cost(self, amounts: Amounts) -> Vector:
        """Return the cost per component; what is held does not grow with the loops: n x held - (n - 1) x held."""
        each = zip(self.weights, self.held, strict=True)
        return tuple(fill * amounts[0] + read * amounts[1] + held for (fill, read), held in each)


class _WindowPath:
    """The window tensor below one choice of places of the spatial loops, where its loads are exact."""

    def __init__(self, tables: Tables, term: TensorTerm, placed: PlacedGroups) -> None:
        self._tables = tables
        self._term = term
        self._placed = placed
        self._factors = tables.factors
        self._windows = tuple(group for group in term.groups if group.is_window)
        self._counts = window_counts(tables.caches)
        self._nothing = (0,) * len(tables.measure.components)

    def fits(self, node: ChainNode, free_bits: tuple[int | None, ...]) -> bool:
        """Return whether a node of the window tensor fits into what the other tensors leave (others do)."""
        free = free_bits[node.level]
        if node.tensor != self._term.index or free is None:
            return True
        return self._size(self._placed_node(node.parent, node.level, node.tile))[0] * self._term.tensor.bits <= free

    def best_orders(self, blocks: tuple[Block, ...], below: tuple[Inside, ...]) -> list[Label]:
        """Return the non-dominated (cost per component, loop order per block outermost first) of the window tensor."""
        nodes: list[_WindowNode] = []
        labels: list[Label] = [(self._nothing, ())]
        holder = 0
        for block, inside in zip(reversed(blocks), reversed(below), strict=True):
            if block.node is not None and block.node.tensor == self._term.index:
                node = self._weighted_node(block.node.parent, block.node.level, block.node.tile)
                nodes.append(node)
                holder = max(holder, block.node.level)
                cost = node.cost(self._size(node))
                labels = [(added_up(vector, cost), orders) for vector, orders in labels]
            labels = self._through_block(block, nodes, labels, inside)
        each = self._cost_at_compute(holder)
        return [(added_up(vector, each), orders) for vector, orders in labels]

    def least_cost(self, chain: tuple[ChainNode, ...]) -> Vector | None:
        """Return the least cost per component along all paths of loops through a chain's tiles (None: there are
        none)."""
        dims = self._tables.problem.dims
        cost: Vector | None = self._nothing
        nodes, inner, holder = list[_WindowNode](), (1,) * len(dims), 0
        for node in (*reversed(chain), None):
            tile = self._tables.context.tiles[0] if node is None else node.tile
            cost = self._least_between(nodes, cost, inner, tile)
            if cost is None:
                return None
            if node is not None and node.tensor == self._term.index:
                nodes.append(self._weighted_node(node.parent, node.level, tile))
                holder = max(holder, node.level)
                cost = added_up(cost, nodes[-1].cost(self._size(nodes[-1])))
            inner = tile
        return added_up(cost, self._cost_at_compute(holder))

    def _least_between(self, nodes: list[_WindowNode], cost: Vector, inner: Vector, outer: Vector) -> Vector | None:
        """Return the least cost per component at the outer one of two tiles (None: no loops lead there), by what it is
        at the inner one: a shortest path over the tiles between them."""
        divisors_of = self._tables.caches.memo(divisors)
        places: list[list[int]] = [[] for _ in inner]
        for (_, dim), one in self._factors.places.items():  # any order: all are to hold
            places[self._tables.problem.dims.index(dim)].append(one.inside)
        sizes = [
            [low * n for n in divisors_of(high // low) if all(low * n % p == 0 or p % (low * n) == 0 for p in own)]
            for low, high, own in zip(inner, outer, places, strict=True)
        ]
        least = {inner: cost}
        for tile in product(*sizes):  # each after those that divide it
            if tile not in least:
                continue
            for d, sized in enumerate(sizes):
                larger = [size for size in sized if size > tile[d] and size % tile[d] == 0]
                saved = self._saved(nodes, tile, d) if larger else self._nothing
                for size in larger:
                    after = _repeated_cost(least[tile], saved, size // tile[d])
                    onto = (*tile[:d], size, *tile[d + 1 :])
                    least[onto] = _lower_costs(after, least.get(onto, after))
        return least.get(outer)

    def _cost_at_compute(self, holder: int) -> Vector:
        """Return what compute reads from the innermost level that holds the tensor."""
        problem = self._tables.problem
        final = self._weighted_node(holder, problem.level_count, (1,) * len(problem.dims))
        steps = prod(self._tables.context.tiles[0])
        return tuple(cost * steps for cost in final.cost(self._size(final)))

    def _saved(self, nodes: list[_WindowNode], inside: Vector, d: int) -> Vector:
        """Return what need not be paid again when a loop over dim number `d` goes on around loops up to `inside`."""
        return reduce(added_up, (node.cost(self._overlap(node, inside, d)) for node in nodes), self._nothing)

    def _through_block(self, block: Block, nodes: list[_WindowNode], labels: list[Label], below: Inside) -> list[Label]:
        """Return the labels after the block's loops, innermost added first."""
        todo, barriers = trips_of(block), self._barriers(block)
        if not nodes and not barriers:
            some = order_dims(below) if any(below.values()) else tuple(reversed(todo))
            return [(vector, (some, *orders)) for vector, orders in labels if some is not None]
        fronts: dict[int, list[OpenLabel]] = {0: [(vector, (), orders) for vector, orders in labels]}
        for subset in range(1 << len(todo)):
            done = {dim for position, dim in enumerate(todo) if subset >> position & 1}
            inside = tuple(
                outer if d in done else inner
                for d, (outer, inner) in enumerate(zip(block.outer, block.inner, strict=True))
            )
            for position, d in enumerate(todo):
                if subset not in fronts or d in done or not _may_add(d, done, barriers, below):
                    continue
                trips = block.outer[d] // block.inner[d]
                saved = self._saved(nodes, inside, d)
                front = fronts.setdefault(subset | 1 << position, [])
                for vector, path, orders in fronts[subset]:
                    _keep(front, (_repeated_cost(vector, saved, trips), (d, *path), orders))
        return [(vector, (path, *orders)) for vector, path, orders in fronts.get((1 << len(todo)) - 1, [])]

    def _barriers(self, block: Block) -> list[tuple[set[int], set[int]]]:
        """Return (dims below, dims above) per pair of groups of the block: all of the first must be inside the
        second."""
        sides: list[tuple[set[int], set[int]]] = []
        for below, tile in self._placed.groups:
            if below in block.groups:
                dims = self._tables.problem.dims
                busy = [d for d in trips_of(block) if self._factors.group_factor(dims[d], below) > 1]
                inside = {d for d in busy if tile[d] == block.outer[d]}
                sides.append((inside, {d for d in busy if tile[d] == block.inner[d]}))
        return [(sides[i][0], sides[j][1]) for i in range(len(sides)) for j in range(i, len(sides))]

    def _placed_node(self, parent: int, level: int, tile: Vector) -> _WindowNode:
        """Return a node without its weights; a node at the level count is the compute unit."""
        problem, plain = self._tables.problem, 1
        for group in self._term.groups:
            if not group.is_window:
                own = tile[problem.dims.index(group.dims[0])]
                plain *= own * self._factors.factor(group.dims[0], level, problem.level_count)
        return _WindowNode(tile, plain, self._all_standing(parent, level), (), ())

    def _all_standing(self, parent: int, level: int, cut: int = 0) -> dict[str, Standing]:
        return {dim: self._standing(dim, parent, level, cut) for group in self._windows for dim in group.dims}

    def _standing(self, dim: str, parent: int, level: int, cut: int) -> Standing:
        """Return the spatial loops over a dim as a node sees them, innermost first, and (number, place) of each. cut:
        loaded from below so many fan-outs."""
        factors, d = self._factors, self._tables.problem.dims.index(dim)
        busy = [below for below in factors.groups() if factors.group_factor(dim, below) > 1]
        known = dict(zip(busy, factors.crossings(dim, parent, level, cut=cut), strict=True))
        standing = [(known[below], tile[d]) for below, tile in self._placed.groups if below in known]
        return tuple(one for one, _ in standing), tuple((number, place) for number, (_, place) in enumerate(standing))

    def _weighted_node(self, parent: int, level: int, tile: Vector) -> _WindowNode:
        tables, term = self._tables, self._term
        node = self._placed_node(parent, level, tile)
        each = [read_weights(self._factors, term, component, parent, level) for component in tables.measure.components]
        messages = {cut: self._messages_below(node, tile, parent, level, cut) for one in each for cut, _ in one.sent}
        whole = self._messages_below(node, tile, parent, level, 0)
        size = self._size(node)[0] if any(one.held for one in each) else 0
        weights = tuple(
            (one.fill + sum(weight * messages[cut] for cut, weight in one.sent), whole * one.read) for one in each
        )
        return _WindowNode(tile, node.plain, node.dims, weights, tuple(size * one.held for one in each))

    def _messages_below(self, node: _WindowNode, tile: Vector, parent: int, level: int, cut: int) -> int:
        """Return the messages along window dims per load of siblings, to an instance below so many fan-outs."""
        standing, found = replace(node, dims=self._all_standing(parent, level, cut)) if cut else node, 1
        for group in self._windows:
            found *= self._counts.tile_messages(group.coefficients, self._views(standing, tile, group.dims))
        return found

    def _views(self, node: _WindowNode, inside: Vector, dims: tuple[str, ...]) -> tuple[DimView, ...]:
        names, view = self._tables.problem.dims, self._counts.dim_view
        return tuple(view(node.tile[names.index(dim)], inside[names.index(dim)], *node.dims[dim]) for dim in dims)

    def _size(self, node: _WindowNode) -> Amounts:
        """Return the elements that one instance of the node holds, and those of one message that loads it whole."""
        fills = reads = node.plain
        for group in self._windows:
            views = self._views(node, node.tile, group.dims)
            fills *= self._counts.tile_counts(group.coefficients, views, united=False)[0]
            reads *= self._counts.tile_counts(group.coefficients, views)[0]
        return fills, reads

    def _overlap(self, node: _WindowNode, inside: Vector, carried: int) -> Amounts:
        """Return the elements that need no fill, and no read, when a loop over dim number `carried` goes on around
        loops up to `inside`."""
        dims = self._tables.problem.dims
        for group in self._term.groups:
            d = dims.index(group.dims[0])
            if not group.is_window and (d == carried or inside[d] > node.tile[d]):
                return 0, 0
        fills = reads = node.plain
        for group in self._windows:
            views = self._views(node, inside, group.dims)
            position = group.dims.index(dims[carried]) if dims[carried] in group.dims else None
            for united in (False, True):
                _, outside, own = self._counts.tile_counts(group.coefficients, views, united=united)
                kept = outside if position is None else own[position]
                fills, reads = (fills, reads * kept) if united else (fills * kept, reads)
        return fills, reads


def _repeated_cost(cost: Vector, saved: Vector, trips: int) -> Vector:
    """Return the cost per component of a loop around what costs so much, less what need not be paid again."""
    return tuple(trips * own - (trips - 1) * kept for own, kept in zip(cost, saved, strict=True))


def _lower_costs(one: Vector, other: Vector) -> Vector:
    return tuple(map(min, one, other))


def _keep(front: list[OpenLabel], new: OpenLabel) -> None:
    """Add a label to a front unless one covers it; those that it covers go."""
    if any(covers(old[0], new[0]) for old in front):
        return
    front[:] = [old for old in front if not covers(new[0], old[0])]
    front.append(new)


def _may_add(d: int, done: set[int], barriers: list[tuple[set[int], set[int]]], inside: Inside) -> bool:
    return inside[d] <= done and all(below <= done for below, above in barriers if d in above)
