"""The bits that the busiest instance of each level reads and writes, where tiles need not divide.

Instances whose tiles have equal lengths along every loop do the same work, except that of siblings which hold the same
element only the first takes its partial sum. So one instance per kind is counted; kinds that cannot exceed the first
are left out.

Siblings that hold an element of a window at different offsets take unequal shares of its partial sums. The shares are
counted as products over dims and windows (docs/closed_form.md, "Shares of siblings").
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple, TypeAlias

from polymap.costmodel.closed_form.accounting import (
    Busiest,
    Row,
    bits_of_only_instance,
    fills_of_target,
    initial_of,
    moves_of_target,
)
from polymap.costmodel.closed_form.carries import Pins, Siblings, chain_of
from polymap.costmodel.closed_form.digits import Chain, CountedSteps, Part, kept_indices, places, runs, times_of
from polymap.costmodel.closed_form.groups import DimKind, TensorModel
from polymap.costmodel.closed_form.nest import TEMPORAL, Loop, Node
from polymap.costmodel.closed_form.partial_tiles import Counter
from polymap.costmodel.closed_form.tuning import TUNING
from polymap.costmodel.closed_form.window_tables import NOTHING, Axis, Booleans, Integers, WindowTable, window_table
from polymap.lazy import numpy as np
from polymap.poly import too_large


def busiest_of_levels(
    counter: Counter, rows: list[Row[int]], left_out: Collection[int] = ()
) -> tuple[tuple[Busiest[int], ...], bool]:
    """Return the busiest instance per level, outermost first, of a mapping with these rows, and whether it is the first
    one in each.

    left_out: levels whose figures the caller does not need; they may be 0. Raises BudgetError (PM490) where instances
    are of too many kinds.
    """
    nest = counter.nest
    uneven_levels = {
        node.level
        for tensor, nodes in zip(counter.model.tensors, nest.holders, strict=True)
        for node in nodes[1:-1]
        if tensor.written and counter.is_lopsided(tensor, node)
    }
    uniform: tuple[Busiest[int], ...] = ()
    if all(nest.even[loop.dim] for loop in nest.loops if loop.fanout != TEMPORAL):
        uniform = _uniform_levels(counter, rows)
    found: list[Busiest[int]] = []
    of_first = True
    for level, fans in counter.machine.levels.values():
        if uniform and level not in uneven_levels and not _is_union_spread(counter, fans):
            found.append(uniform[level])
        elif level in left_out:
            found.append(Busiest(0, 0, 0))
        elif fans:
            most, first = _busiest(counter, level, fans)
            found.append(most)
            of_first = of_first and most == first
        else:
            found.append(bits_of_only_instance(counter.model, rows, level))
    return tuple(found), of_first


def _is_union_spread(counter: Counter, fans: int) -> bool:
    """Return whether loops over dims of a union of accesses are spread on the first `fans` fan-outs.

    Then instances differ in which accesses meet, so that their loads differ.
    """
    dims = {dim for tensor in counter.model.tensors if tensor.union is not None for dim in tensor.union.dims}
    return any(0 <= loop.fanout < fans and loop.dim in dims for loop in counter.nest.loops)


def _uniform_levels(counter: Counter, rows: list[Row[int]]) -> tuple[Busiest[int], ...]:
    """Return the busiest instance per level where all instances have the same tiles, and differ only in partial sums
    taken.

    Of siblings that hold the same elements, the first takes all of their partial sums.
    """
    use = [[0, 0] for _ in counter.machine.level_names]
    fans = [fans for _, fans in counter.machine.levels.values()]
    last: Row[int] | None = None
    first_fills = 0
    for row in rows:
        tensor = counter.model.tensors[row.tensor]
        instances = _trips(counter, tensor, 0, fans[row.level], tuple(DimKind))
        reads, writes = row.reads // instances, row.writes // instances
        if tensor.written and last is None:
            first_fills = initial_of(tensor, row.tile, 0)
        elif tensor.written and last is not None:
            above, here = fans[last.level], fans[row.level]
            stays = last.drains if last.level else last.tile
            parents = _trips(counter, tensor, 0, above, tuple(DimKind))
            events = (row.fills + stays - last.fills) if last.level else row.fills + stays - first_fills
            offsets = _trips(counter, tensor, above, here, (DimKind.SINGLE, DimKind.WINDOW))
            first_fills = (
                fills_of_target(events // parents, stays // parents, first_fills) // offsets if row.fills else 0
            )
            reads = writes = (row.reads - row.fills) // instances + first_fills
        last = row if tensor.written else last
        use[row.level][0] += reads * tensor.bits
        use[row.level][1] += writes * tensor.bits
    return tuple(Busiest(read, written, read + written) for read, written in use)


def _trips(counter: Counter, tensor: TensorModel, low: int, high: int, kinds: tuple[DimKind, ...]) -> int:
    """Return the product of the trips of loops over dims of these kinds on fan-outs low <= fan-out < high."""
    return prod(
        loop.trips for loop in counter.nest.loops if low <= loop.fanout < high and tensor.kinds[loop.dim] in kinds
    )


def _busiest(counter: Counter, level: int, fans: int) -> tuple[Busiest[int], Busiest[int]]:
    """Return the most bits that one instance of a level below `fans` fan-outs reads and writes, and those of the first
    instance."""
    here = [
        (tensor, number, nodes)
        for tensor, nodes in zip(counter.model.tensors, counter.nest.holders, strict=True)
        for number, node in enumerate(nodes)
        if node.level == level
    ]
    instances = Instances(counter)

    def bits(kind: dict[int, range]) -> tuple[int, int, int]:
        moves = [(instances.accesses(tensor, nodes, number, kind), tensor.bits) for tensor, number, nodes in here]
        read, written = (sum(each[way] * bits for each, bits in moves) for way in range(2))
        return read, written, read + written

    kinds = list(kinds_of_instances(counter, fans))
    first = bits({position: range(1) for position in kinds[0]})
    return Busiest(*map(max, zip(first, *map(bits, kinds), strict=True))), Busiest(*first)


def kinds_of_instances(counter: Counter, fans: int) -> Iterator[dict[int, range]]:
    """Yield, per kind of instance that may be the busiest, spatial loop (its position) -> the range of its digits.

    Only along dims of a window, or dims that a written tensor lacks, may another instance than the first do more: along
    a single, shorter tiles change at no other steps. Where all tiles of a dim divide, instances differ only in the
    partial sums they take.
    """
    loops: list[Loop[int]] = []
    digits: list[tuple[range, ...]] = []
    unions = {dim for tensor in counter.model.tensors if tensor.union is not None for dim in tensor.union.dims}
    for dim, chain in enumerate(counter.nest.chains):
        may_exceed = any(tensor.may_be_busier(dim) for tensor in counter.model.tensors)
        links = tuple((loop.tile, Part.TIME if loop.fanout == TEMPORAL else Part.EACH, 0) for loop in chain)
        for loop, found in zip(chain, runs(counter.model.extents[dim], links), strict=True):
            if loop.fanout != TEMPORAL and loop.fanout < fans:
                loops.append(loop)
                every = tuple(range(first, first + many) for first, many in found)
                if dim in unions:
                    every = tuple(range(digit, digit + 1) for each in every for digit in each)
                digits.append(every if may_exceed else (range(1),))
    if prod(len(each) for each in digits) > TUNING.most_candidates:
        raise too_large()
    for chosen in product(*digits):
        kind = {loop.position: run for loop, run in zip(loops, chosen, strict=True)}
        if counter.works({position: run.start for position, run in kind.items()}):
            yield kind


class Instances:
    """Reads and writes of single instances.

    kind: spatial loop (its position) -> digits at which tiles have equal lengths; of these instances the one that takes
    the most partial sums is counted.
    """

    __slots__ = ("_counter", "_shares")

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._shares: dict[tuple[int, tuple[tuple[int, int], ...]], Shares] = {}

    def accesses(
        self, tensor: TensorModel, nodes: tuple[Node, ...], number: int, kind: Mapping[int, range]
    ) -> tuple[int, int]:
        """Return the elements that an instance of a kind reads and writes of a tensor at its node `number`."""
        counter = self._counter
        pins = {position: digits.start for position, digits in kind.items()}
        if tensor.written and number and counter.is_lopsided(tensor, nodes[number]):
            arrivals = counter.arrivals(tensor, nodes[number], nodes[number + 1], pins)
            fills = self._shares_of(tensor, number, pins).most(kind)
            moves = moves_of_target(arrivals, fills, 0, outermost=False, none=0)
        else:
            moves = counter.accesses(tensor, nodes, number, pins)
        return moves.reads, moves.writes

    def _shares_of(self, tensor: TensorModel, number: int, pins: Pins) -> Shares:
        told = [loop.position for loop in self._counter.nest.loops if tensor.kinds[loop.dim] is DimKind.SINGLE]
        key = number, tuple((position, pins[position]) for position in told if position in pins)
        if key not in self._shares:
            self._shares[key] = shares_of(self._counter, tensor, number, dict(key[1]))
        return self._shares[key]


Amounts: TypeAlias = "np.typing.NDArray[Any]"  # int64, or Python integers where these may not reach


class Shares(NamedTuple):
    """The partial sums that each instance of a node takes.

    amounts: an axis per loop of `loops`. Along any other spatial loop over a dim that the tensor lacks, only the
    instance with digit 0 takes partial sums.
    """

    loops: tuple[Loop[int], ...]
    amounts: Amounts

    def most(self, digits: Mapping[int, range]) -> int:
        """Return the most that an instance with these digits takes. digits: position of a loop -> a range."""
        chosen = tuple(slice(digits[loop.position].start, digits[loop.position].stop) for loop in self.loops)
        return int(self.amounts[chosen].max(initial=0))


def shares_of(counter: Counter, tensor: TensorModel, number: int, pins: Pins) -> Shares:
    """Return the partial sums that the instances of node `number` of a written tensor take from their parents.

    pins: the digits of the spatial loops over single dims. Raises BudgetError where there are too many steps, or where
    the order of changes before a carry's loop would be needed.
    """
    return _Count(counter, tensor, number, pins).shares()


class _Count:
    """Shares of one node. A factor is a window, or a dim that the tensor lacks along which siblings may idle.

    path: the spatial loops above the node, in instance order.
    """

    def __init__(self, counter: Counter, tensor: TensorModel, number: int, pins: Pins) -> None:
        nest = counter.nest
        self._counter, self._tensor, self._pins = counter, tensor, pins
        self._nodes = nest.holders[tensor.index][: number + 1]
        spatial = [loop for loop in nest.loops if 0 <= loop.fanout < self._nodes[-1].fans]
        self._path = sorted(spatial, key=lambda loop: (loop.fanout, loop.position))
        idle = [
            dim
            for dim, kind in enumerate(tensor.kinds)
            if kind is DimKind.IDLE and not nest.even[dim] and any(loop.dim == dim for loop in spatial)
        ]
        self._terms = [*(window.terms for window in tensor.windows), *(((dim, 0),) for dim in idle)]
        inside = {dim for terms in self._terms for dim, _ in terms}
        self._others = [dim for dim in range(len(tensor.kinds)) if dim not in inside]
        self._factors = [_Factor(counter, terms, self._path) for terms in self._terms]
        self._zero = np.zeros(
            [factor.instances for factor in self._factors],
            dtype=np.int64 if prod(counter.model.extents) < 1 << 55 else np.object_,
        )

    def shares(self) -> Shares:
        total = self._zero.copy()
        if self._tensor.initial:
            total += self._entries(0, self._nodes[0], Siblings.APART)
        for number in range(1, len(self._nodes)):
            parent, node = self._nodes[number - 1 : number + 1]
            events = self._entries(number, node, Siblings.MERGED) + self._partial_sums_taken(number)
            total = fills_of_target(events, self._entries(number - 1, parent, Siblings.APART), total)
        loops = [loop for factor in self._factors for loop in factor.loops]
        return Shares(tuple(loops), total.reshape([loop.trips for loop in loops]))

    def _entries(self, number: int, node: Node, siblings: Siblings) -> Amounts:
        """Return the entries at a node, by the instance of the final node to which the element goes on.

        MERGED: siblings below one parent instance count once. APART: each instance by itself.
        """
        views = self._views(number, siblings)
        total = self._weighted_product(
            prod(self._all_of_dim(dim, node) for dim in self._others), [view.all() for view in views]
        )
        for carry, kept in self._carries(node):
            total -= self._weighted_product(kept, [view.kept(carry) for view in views])
        return total

    def _partial_sums_taken(self, number: int) -> Amounts:
        """Return how often an element enters a sibling while others hold it, by the instance to which it goes on."""
        node = self._nodes[number]
        views = self._views(number, Siblings.MERGED)
        total = self._zero.copy()
        carries = list(self._carries(node))
        for number, (carry, kept) in enumerate(carries):
            kinds = [view.kinds(carry, with_past=False) for view in views]
            if not any((each.back >= 0).any() for each in kinds):
                continue
            if all((~each.stops).any() for each in kinds):
                kinds = [view.kinds(carry, with_past=True) for view in views]
            if self._add_entries(total, kept, kinds):
                for visit, kept_there in carries[number:]:
                    earlier = [view.kinds(carry, with_past=True, visit=visit) for view in views]
                    if self._add_entries(total, kept_there, earlier):
                        raise too_large()
        return total

    def _add_entries(self, total: Amounts, kept: int, kinds: Sequence[_Kinds]) -> bool:
        """Add the entries of one carry that bring a partial sum, at the instance of the first sibling that enters.
        Return whether there are others: nothing changed inside the carry, so that what was before decides.

        The first holder is first along each factor. The first sibling that enters differs from it along one factor: the
        one whose difference comes last in instance order.
        """
        sizes = [len(each.often) for each in kinds]
        if prod(sizes) > TUNING.most_combinations:
            raise too_large()
        grids = [grid.reshape(-1) for grid in np.indices(sizes)]
        ranks = np.stack([each.rank[grid] for each, grid in zip(kinds, grids, strict=True)])
        places_ = np.stack([each.place[grid] for each, grid in zip(kinds, grids, strict=True)])
        stops = np.any([each.stops[grid] for each, grid in zip(kinds, grids, strict=True)], axis=0)
        started = np.stack([each.started[grid] for each, grid in zip(kinds, grids, strict=True)])
        taker, latest = ranks.argmax(axis=0), places_.argmax(axis=0)
        every = np.arange(len(taker))
        enters = ranks[taker, every] >= 0
        unknown = enters & ~stops & (places_[latest, every] == NOTHING)
        counts = enters & (stops | ~started[latest, every]) & ~unknown
        often = np.full(len(taker), kept, dtype=total.dtype)
        for each, grid in zip(kinds, grids, strict=True):
            often = often * each.often[grid]
        where = tuple(
            np.where(taker == at, each.back[grid], each.first[grid])[counts]
            for at, (each, grid) in enumerate(zip(kinds, grids, strict=True))
        )
        np.add.at(total, where, often[counts])
        return bool(unknown.any())

    def _views(self, number: int, siblings: Siblings) -> list[_View]:
        above = self._nodes[number if siblings is Siblings.APART else number - 1]
        node = self._nodes[number]
        view = self._counter.node(self._tensor, (above, node), siblings, counted=CountedSteps.OWN)
        order = _order(self._counter.nest.loops, self._nodes[number:], above.fans)
        return [factor.view(view.chains, order) for factor in self._factors]

    def _carries(self, node: Node) -> Iterator[tuple[Loop[int], int]]:
        """Yield (loop, elements that stay along all dims outside of the factors) per carry."""
        outside = [sum(loop.fanout == TEMPORAL for loop in loops) for loops in self._counter.nest.chains]
        for loop in reversed(self._counter.nest.loops):
            if loop.fanout != TEMPORAL:
                continue
            outside[loop.dim] -= 1
            if loop.position < node.position:
                kept = prod(self._kept_of_dim(dim, node, loop, outside[dim]) for dim in self._others)
                if kept:
                    yield loop, kept

    def _chain(self, dim: int, node: Node) -> Chain:
        """Return the parts of a dim's loops for one instance of the node; the dim is outside of the factors."""
        fans = self._nodes[-1].fans
        told = self._tensor.kinds[dim] is not DimKind.IDLE
        pins = {
            loop.position: self._pins.get(loop.position, 0) if told else 0
            for loop in self._counter.nest.chains[dim]
            if 0 <= loop.fanout < fans
        }
        free = (Part.FREE,) * len(self._counter.machine.adds)
        return chain_of(self._counter.nest.chains[dim], node, free, pins, fans)

    def _all_of_dim(self, dim: int, node: Node) -> int:
        chain, extent = self._chain(dim, node), self._counter.model.extents[dim]
        if self._tensor.kinds[dim] is not DimKind.IDLE:
            return kept_indices(extent, chain, len(chain), CountedSteps.OWN)
        return places(chain, times_of(chain), extent)

    def _kept_of_dim(self, dim: int, node: Node, carry: Loop[int], outside: int) -> int:
        """Return the indices along a dim that stay at a carry; of a dim that the tensor lacks, the steps."""
        chain, extent = self._chain(dim, node), self._counter.model.extents[dim]
        if self._tensor.kinds[dim] is not DimKind.IDLE:
            return 0 if carry.dim == dim else kept_indices(extent, chain, outside, CountedSteps.MACHINE)
        return self._counter.factors.places(extent, chain, outside, moving=carry.dim == dim)

    def _weighted_product(self, weight: int, found: Sequence[Integers]) -> Amounts:
        """Return the outer product of the factors' counts, times a weight."""
        start: Amounts = np.array(weight, dtype=self._zero.dtype)
        return reduce(np.multiply.outer, found, start)


def _order(loops: Sequence[Loop[int]], nodes: Sequence[Node], fans: int) -> list[Loop[int]]:
    """Return the loops by which instances below `fans` fan-outs are ordered in taking an element, most significant
    first.

    These are the siblings of the outermost node, then the steps below each of them, and so on inwards.
    """
    found = _siblings_between(loops, fans, nodes[0].fans)
    for node, below in pairwise(nodes):
        found += [each for each in loops if each.fanout == TEMPORAL and node.position <= each.position < below.position]
        found += _siblings_between(loops, node.fans, below.fans)
    return found


def _siblings_between(loops: Sequence[Loop[int]], low: int, high: int) -> list[Loop[int]]:
    found = [loop for loop in loops if low <= loop.fanout < high]
    return sorted(found, key=lambda loop: (loop.fanout, loop.position))


class _Kinds(NamedTuple):
    """Elements and steps of one carry, grouped by what happens to them; the elements are held at it and before it.

    often: elements of the group. first: the instance of the first sibling that holds the element. back: that of the
    first sibling that enters (-1: none). rank: the loop at which these two differ in instance order (-1: none enters;
    beyond all loops: they are equal). stops: whether a sibling loses the element. place, started: the last change
    before (`WindowTable.origin`).
    """

    often: Integers
    first: Integers
    back: Integers
    rank: Integers
    stops: Booleans
    place: Integers
    started: Booleans


class _Factor:
    """A window, or a dim that the tensor lacks.

    loops: the spatial loops above the node, in instance order. instances: the product of their trips. instance: per
    point of the box of the factor's dims, the number of its instance.
    """

    def __init__(self, counter: Counter, terms: tuple[tuple[int, int], ...], path: Sequence[Loop[int]]) -> None:
        dims = [dim for dim, _ in terms]
        self._terms, self._nest, self._extents = terms, counter.nest, counter.model.extents
        self.path = path
        self.loops = [loop for loop in path if loop.dim in dims]
        self.instances = prod(loop.trips for loop in self.loops)
        extents = [self._extents[dim] for dim in dims]
        if prod(extents) > 1 << 22:
            raise too_large()
        self._digits: dict[int, Integers] = {}
        for index, dim in zip(np.indices(extents).reshape(len(dims), -1), dims, strict=True):
            rest = index
            for loop in self._nest.chains[dim]:
                self._digits[loop.position], rest = np.divmod(rest, loop.tile)
        self.instance = self.code(self.loops)

    def code(self, loops: Sequence[Loop[int]]) -> Integers:
        """Return a number per point from its digits of these loops, the first loop the most significant."""
        code = np.zeros(prod(self._extents[dim] for dim, _ in self._terms), dtype=np.int64)
        for loop in loops:
            if loop.position in self._digits:
                code = code * loop.trips + self._digits[loop.position]
        return code

    def view(self, chains: Sequence[Chain], order: Sequence[Loop[int]]) -> _View:
        axes = tuple(
            Axis(factor, self._extents[dim], chains[dim], tuple(loop.position for loop in self._nest.chains[dim]))
            for dim, factor in self._terms
        )
        dims = [dim for dim, _ in self._terms]
        return _View(self, window_table(axes), dims, np.argsort(self.code(order), kind="stable"))


class _View:
    """A factor at one node: its points in the order in which instances take an element."""

    def __init__(self, factor: _Factor, table: WindowTable, dims: Sequence[int], order: Integers) -> None:
        self._factor, self._table, self._dims = factor, table, dims
        points = table.points
        self._step, apart, self._among, element = (each[order] for each in points)
        self._instance = factor.instance[order]
        _, self._aparts, self._siblings, self._elements = table.shape
        self._held = apart * self._elements + element

    def all(self) -> Integers:
        """Return the number of (step, element) pairs that go to each instance first."""
        _, first = np.unique(self._step * (self._aparts * self._elements) + self._held, return_index=True)
        return self._by_instance(first)

    def kept(self, carry: Loop[int]) -> Integers:
        """Return the number of those at a carry that some compared sibling held in the step before."""
        now, before = self._at(carry)[:2]
        groups, first = np.unique(now.groups, return_index=True)
        return self._by_instance(now.points[first[before.has(groups)]])

    def _by_instance(self, points: Integers) -> Integers:
        return np.bincount(self._instance[points], minlength=self._factor.instances)

    def _at(self, carry: Loop[int]) -> tuple[_Rows, _Rows, Callable[[], tuple[Integers, Booleans]]]:
        """Return the points in the steps at a carry and in the steps before it, and a function for the origin of their
        groups."""
        before, now, since = self._table.steps(carry.position, moved=carry.dim in self._dims)
        numbers = np.full((2, self._table.shape[0]), -1, dtype=np.int64)
        numbers[0, now], numbers[1, before] = np.arange(len(now)), np.arange(len(now))
        size = len(now) * self._aparts * self._elements
        rows: list[_Rows] = []
        for number in numbers:
            points = np.flatnonzero(number[self._step] >= 0)
            groups = number[self._step[points]] * (self._aparts * self._elements) + self._held[points]
            rows.append(_Rows(points, groups, size))
        return rows[0], rows[1], lambda: self._table.origin(before, since)

    def kinds(self, carry: Loop[int], *, with_past: bool, visit: Loop[int] | None = None) -> _Kinds:
        """Return the kinds of a carry; visit: of those that no sibling drops, those that are quiet since a step of that
        carry (`WindowTable.quiet`), and whether siblings dropped them there."""
        now, before, origin = self._at(carry)
        groups, at = np.unique(now.groups, return_index=True)
        kept = before.has(groups)
        groups, first = groups[kept], self._instance[now.points[at[kept]]]
        siblings_now, siblings_before = (
            _Rows(rows.points, rows.groups * self._siblings + self._among[rows.points], rows.size * self._siblings)
            for rows in (now, before)
        )
        new = ~siblings_before.has(siblings_now.groups)
        entered, at = np.unique(now.groups[new], return_index=True)
        back_of = np.full(now.size, -1, dtype=np.int64)
        back_of[entered] = self._instance[now.points[new][at]]
        left = np.zeros(now.size, dtype=np.bool_)
        left[before.groups[~siblings_now.has(siblings_before.groups)]] = True
        place, started = (each.reshape(-1)[groups] for each in origin()) if with_past else (groups * 0, groups * 0)
        columns = np.stack([first, back_of[groups], left[groups], place, started])
        if visit is not None:
            pair = ((loop.position, loop.dim in self._dims) for loop in (carry, visit))
            quiet, dropped = (each.reshape(-1)[groups] for each in self._table.quiet(*pair))
            columns[2] = dropped
            columns = columns[:, quiet & ~left[groups]]
        kinds, often = np.unique(columns, axis=1, return_counts=True)
        rank = self._rank(kinds[0], kinds[1])
        return _Kinds(often, kinds[0], kinds[1], rank, kinds[2] > 0, kinds[3], kinds[4] > 0)

    def _rank(self, first: Integers, back: Integers) -> Integers:
        """Return the loop at which two instances differ first in instance order, as a number in `path`."""
        rank = np.full(first.shape, len(self._factor.path), dtype=np.int64)
        below = 1
        for loop in reversed(self._factor.loops):
            differ = first // below % loop.trips != back // below % loop.trips
            rank[differ] = self._factor.path.index(loop)
            below *= loop.trips
        return np.where(back < 0, -1, rank)


class _Rows(NamedTuple):
    """Points, and the group of each; size: the number of groups."""

    points: Integers
    groups: Integers
    size: int

    def has(self, groups: Integers) -> Booleans:
        """Return, per group asked for, whether it has a point."""
        found: Booleans = np.zeros(self.size, dtype=np.bool_)
        found[self.groups] = True
        return found[groups]
