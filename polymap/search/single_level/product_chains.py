"""The least that trees of a chain of products through one buffer cost.

In a chain each product reads rows of what the one before leaves, R[m,b] += S[m,a] * W[a,b]; the rows m are common to
all. A tree's *parts* are cut where a result passes through the outermost level; each part of one product costs at least
what it costs alone. In a part of several every result between two products stands in the buffer, right above the branch
where their ways part (search/refunds.py), so many rows of it as the loops above leave:

- above a branch of three products and more are loops over rows alone; a matrix W stands above one of these whole, or is
  loaded again for each iteration;
- above a branch of two products are loops over rows and over the columns b of what passes between them, in any order.
  Each of their other tensors lacks one of these dims. It may stand above loops over that dim, x rows or y columns of
  it; what is left of the other dim there says how often it comes in. Or it stands inside.

Inside, one product is left with at least one tensor in the buffer. Of two others, one stands outside of the other one:
q of its elements, along the dim that the other one lacks, let that one come in once for all of them.

Where tiles divide, each case says what its trees cost at least: the least of all bounds every tree of dividing tiles.
Of tiles of any size only those cases are looked at in which a loop inside another one over its dim divides its tile,
and the outermost tile is the least of its number of pieces; each is counted exactly. Other trees may cost less: below
rows that several loops cut unevenly, rows of a short iteration stay over a loop over columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, pairwise
from math import inf, isqrt, lcm
from operator import itemgetter

import numpy as np

from polymap.poly import FloatArray
from polymap.resources import OutOfTime, Stop, never
from polymap.search.problem import divisors
from polymap.search.single_level.first_tiles import Ints
from polymap.search.single_level.question import Operand
from polymap.search.single_level.tuning import TUNING

MOST = 1 << 53  # costs that float64 adds without rounding
SOURCE, MATRIX, RESULT = range(3)  # the places of a product's operands
ROWS = -1  # the axis of the rows; that of a product's depth has its number


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over an axis, which leaves so many of its indices."""

    axis: int
    tile: int


@dataclass(frozen=True, slots=True)
class Hold:
    """The node of an operand of a product."""

    product: int
    place: int


@dataclass(frozen=True, slots=True)
class Fork:
    """A branch."""

    children: tuple[Steps, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """A product."""

    product: int


@dataclass(frozen=True, slots=True)
class State:
    """Products, from one to another, below loops that leave so many rows of them and so much room. ends: whether the
    first one's source and the last one's result stand in the buffer. held: those whose matrix does."""

    first: int
    last: int
    rows: int
    room: int
    ends: tuple[bool, bool] = (False, False)
    held: tuple[int, ...] = ()


Steps = tuple[Loop | Hold | Fork | Run | State, ...]  # from outside inwards; a state stands for its own


@dataclass(frozen=True, slots=True)
class Priced:
    """A product of a chain, as it costs alone. depth: the indices over which it sums up. operands: source, matrix and
    result, in units. besides: what every mapping costs besides. alone: what it costs at least. refunds: what one pass
    of its source, and of its result, costs, which it does not where they stay in the buffer."""

    depth: int
    columns: int
    operands: tuple[Operand, Operand, Operand]
    unit: Fraction
    besides: Fraction
    alone: Fraction
    refunds: tuple[Fraction, Fraction]


def least_of_chain(
    rows: int, runs: int, products: Sequence[Priced], room: int | None, *, divide: bool, stop: Stop = never
) -> tuple[Fraction, tuple[Steps, ...]] | None:
    """Return the least that cases of so many runs of a chain cost, and the parts of such a tree: a run alone is a nest
    by itself. None where costs are too large, or tiles too many. divide: whether only tiles that divide are asked
    for. Raises OutOfTime."""
    scale = lcm(*(each.denominator for one in products for each in (one.unit, *one.refunds)))
    own = [_scaled(each, int(each.unit * scale), scale, runs) for each in products]
    own = [replace(each, kept=each.kept + after.found) for each, after in pairwise((*own, own[-1]))]
    room = sum(each.bits * each.elements for one in own for each in one.operands) if room is None else room
    if sum(each.bypass for one in own for each in one.operands) + sum(each.alone for each in own) >= MOST:
        return None
    bound = ChainBound(rows, own, room, divide, stop)
    if len(bound.sizes(rows)) * max(len(bound.sizes(each.columns)) for each in own) > TUNING.most_tiled:
        return None
    found, parts = bound.least()
    return Fraction(runs * found, scale) + sum(each.besides for each in products), parts


def _scaled(priced: Priced, unit: int, scale: int, runs: int) -> Product:
    """Return one of so many runs of a product, its costs in equal units."""
    operands = [
        replace(
            each,
            elements=each.elements // runs,
            weight=each.weight * unit,
            saved=each.saved * unit // runs,
            bypass=each.bypass * unit // runs,
        )
        for each in priced.operands
    ]
    source, matrix, result = operands
    found, kept = (
        each.weight * each.elements - each.saved - int(refund * scale / runs)
        for each, refund in zip((source, result), priced.refunds, strict=True)
    )
    alone = int((priced.alone - priced.besides) * scale / runs)
    return Product(priced.depth, priced.columns, source, matrix, result, alone, kept, found)


@dataclass(frozen=True, slots=True)
class Product:
    """A product of a chain. depth: the indices over which it sums up. alone: what it costs at least alone. kept: what a
    result costs that stays in the buffer, for both of its products; found: the part of it of the one before."""

    depth: int
    columns: int
    source: Operand
    matrix: Operand
    result: Operand
    alone: int
    kept: int
    found: int

    @property
    def operands(self) -> tuple[Operand, Operand, Operand]:
        return self.source, self.matrix, self.result


@dataclass(frozen=True, slots=True)
class Streamed:
    """An operand of a product: how often each of its elements comes in at least (base), the axis that it lacks, over
    how many indices of that it is read again (extent), and how many of these are left inside (tile)."""

    hold: Hold
    tensor: Operand
    lacks: int
    base: FloatArray
    extent: int
    tile: FloatArray

    def cost(self, visits: FloatArray) -> FloatArray:
        """Return what so many visits of each element cost."""
        return self.tensor.weight * self.tensor.elements * visits - self.tensor.saved


Way = tuple[
    FloatArray, tuple[tuple[Streamed, FloatArray], ...]
]  # a cost; what is held, outermost first, how much of it


@dataclass(slots=True)
class ChainBound:
    """The bound for one room. divide: whether only tiles that divide are asked for; else those of
    outermost loops need not, but those inside divide them."""

    rows: int
    products: Sequence[Product]
    room: int
    divide: bool = False
    stop: Stop = never
    _sizes: dict[int, Ints] = field(default_factory=dict[int, Ints])
    _known: dict[State, tuple[float, Steps]] = field(default_factory=dict[State, tuple[float, Steps]])

    def least(self) -> tuple[int, tuple[Steps, ...]]:
        """Return what no tree costs less than, and the parts of the case that costs so much. Raises OutOfTime."""
        found: list[tuple[float, tuple[Steps, ...]]] = [(0.0, ())]
        for last, own in enumerate(self.products):
            best = found[last][0] + own.alone, (*found[last][1], (Run(last),))
            for first in range(last):
                whole, kept = State(first, last, self.rows, self.room), self.products[first:last]
                cost = found[first][0] + sum(each.kept for each in kept) + self.of(whole)
                best = min(best, (cost, (*found[first][1], (whole,))), key=itemgetter(0))
            found.append(best)
        return int(found[-1][0]), tuple(self._written(each) for each in found[-1][1])

    def of(self, state: State) -> float:
        """Return what products cost at least beside what stands there."""
        if state.room < 0:
            return inf
        if state not in self._known:
            if self.stop():
                raise OutOfTime
            if state.first == state.last:
                self._known[state] = self._alone(state)
            elif state.last == state.first + 1:
                self._known[state] = Pair(self, state).least()
            else:
                self._known[state] = self._loops(state, self._branch(state))
        return self._known[state][0]

    def _written(self, steps: Steps) -> Steps:
        """Return steps with those of states in their places."""
        found: Steps = ()
        for each in steps:
            if isinstance(each, State):
                found += self._written(self._known[each][1])
            else:
                found += (Fork(tuple(map(self._written, each.children))),) if isinstance(each, Fork) else (each,)
        return found

    def _branch(self, state: State) -> tuple[float, Steps]:
        """Return what products cost at least in several children, the results between these above."""
        first, last = state.first, state.last
        found: list[tuple[float, tuple[State, ...]]] = [(0.0, ())]
        for end in range(first, last + 1):
            ways = [(inf, tuple[State, ...]())]
            for begin in range(first, end + 1):
                cuts = [number for number in (begin - 1, end) if first <= number < last]
                if (begin, end) == (first, last):
                    continue
                left = state.room - sum(self.row_bits(number) * state.rows for number in cuts)
                ends = begin > first or state.ends[0], end < last or state.ends[1]
                child = State(
                    begin, end, state.rows, left, ends, tuple(each for each in state.held if begin <= each <= end)
                )
                ways.append((found[begin - first][0] + self.of(child), (*found[begin - first][1], child)))
            found.append(min(ways, key=itemgetter(0)))
        cost, children = found[-1]
        above = tuple(Hold(each.last, RESULT) for each in children[:-1])
        return cost, (*above, Fork(tuple((each,) for each in children)))

    def row_bits(self, number: int) -> int:
        """Return the bits of a row of a product's result."""
        return self.products[number].result.bits * self.products[number].columns

    def _loops(self, state: State, known: tuple[float, Steps]) -> tuple[float, Steps]:
        """Return what products cost at least below a loop over rows, above which some matrices stand, or what is known
        of other trees, if that is less."""
        best, sizes = known, [size for size in self.inner(self.rows, state.rows)[::-1].tolist() if size < state.rows]
        for chosen, cost, room in self._held_whole(state):
            held = tuple(sorted((*state.held, *chosen)))
            for size in sizes:
                inside = replace(state, rows=size, room=room, held=held)
                if cost + self._fewest(inside) >= best[0]:
                    break  # smaller ones cost more
                above = (*(Hold(number, MATRIX) for number in chosen), Loop(ROWS, size))
                best = min(best, (cost + self.of(inside), (*above, inside)), key=itemgetter(0))
        return best

    def _fewest(self, state: State) -> float:
        """Return what the operands of a state cost at least, whatever its room."""
        found, times = 0.0, -(-self.rows // state.rows)
        for number in (number for number in range(state.first, state.last + 1) if number not in state.held):
            found += _at_least(self.products[number].matrix, times)
        found += 0 if state.ends[0] else _at_least(self.products[state.first].source, 1)
        return found + (0 if state.ends[1] else _at_least(self.products[state.last].result, 1))

    def _held_whole(self, state: State) -> Iterator[tuple[tuple[int, ...], float, int]]:
        """Yield products whose matrices stand above a loop, what these cost, and the room that is left."""
        free = [number for number in range(state.first, state.last + 1) if number not in state.held]
        times = -(-self.rows // state.rows)
        for chosen in (chosen for many in range(len(free) + 1) for chosen in combinations(free, many)):
            matrices = [self.products[number].matrix for number in chosen]
            room = state.room - sum(each.bits * each.elements for each in matrices)
            if room >= 0 and all(each.may for each in matrices):
                yield chosen, float(sum(each.weight * each.elements * times - each.saved for each in matrices)), room

    def sizes(self, extent: int) -> Ints:
        """Return the tiles of an extent that are looked at: the least of each number of pieces."""
        if extent not in self._sizes:
            every = divisors(extent) if self.divide else -(-extent // _pieces(extent))
            self._sizes[extent] = np.unique(np.array(every))
        return self._sizes[extent]

    def inner(self, extent: int, left: int) -> Ints:
        """Return the tiles of an extent of which so many indices are left that are looked at."""
        sizes = self.sizes(extent)
        sizes = sizes[sizes <= left]
        return sizes[left % sizes == 0] if self.divide or left < extent else sizes

    def fitting(self, tile: FloatArray, most: FloatArray) -> FloatArray:
        """Return how many of the indices of a tile are held of at most so many."""
        found = np.clip(most, 1, tile)
        for left in np.unique(tile) if self.divide else ():
            at, sizes = tile == left, self.sizes(int(left))
            found[at] = sizes[np.searchsorted(sizes, found[at], side="right") - 1]
        return found

    def pieces(self, streamed: Streamed, most: FloatArray) -> FloatArray:
        """Return how often an operand comes in at least where another one holds so many of its indices."""
        extent, tile, held = streamed.extent, streamed.tile, self.fitting(streamed.tile, most)
        runs = streamed.base / np.ceil(extent / tile)
        return runs * (extent // tile * np.ceil(tile / held) + np.ceil(extent % tile / held))

    def streamed(self, number: int, place: int, times: FloatArray, rows: FloatArray, columns: FloatArray) -> Streamed:
        """Return an operand of a product of which so many rows and columns (for a source; depth for a result) are left
        so many times."""
        own = self.products[number]
        lacks, extent = ((number + 1, own.columns), (ROWS, self.rows), (number, own.depth))[place]
        return Streamed(
            Hold(number, place), own.operands[place], lacks, times, extent, rows if place == MATRIX else columns
        )

    def _alone(self, state: State) -> tuple[float, Steps]:
        """Return what one product costs at least that has some operands in the buffer."""
        number, one = state.first, np.ones(1)
        here = state.ends[0], number in state.held, state.ends[1]
        own, times, rows = self.products[number], one * -(-self.rows // state.rows), one * state.rows
        ends = one * own.columns, one, one * own.depth
        left = [
            self.streamed(number, place, times if place == MATRIX else one, rows, ends[place])
            for place in (SOURCE, MATRIX, RESULT)
            if not here[place]
        ]
        cost, way = min(((float(cost[0]), way) for cost, way in self.ways(left, one * state.room)), key=itemgetter(0))
        return cost, self.inside(number, way, 0)

    def ways(self, tensors: Sequence[Streamed], room: FloatArray) -> Iterator[Way]:
        """Yield what one or two operands of a product cost at least that has the others in the buffer."""
        yield np.where(room >= 0, sum(_bypassing(each.tensor) for each in tensors), inf), ()
        for each, others in zip(tensors, (tensors[1:], tensors[:1]), strict=False):
            one, once = np.ones_like(room), each.cost(each.base)
            beside = sum(_bypassing(other.tensor) for other in others)
            if each.tensor.may:
                yield np.where(room >= each.tensor.bits, once + beside, inf), ((each, one),)
            for other in others if all(own.tensor.may for own in tensors) else ():
                most = (room - other.tensor.bits) // each.tensor.bits
                cost = np.where(most >= 1, once + other.cost(self.pieces(other, most)), inf)
                yield cost, ((each, self.fitting(other.tile, most)), (other, one))

    def inside(self, number: int, way: tuple[tuple[Streamed, FloatArray], ...], at: int) -> Steps:
        """Return the steps of a product with some operands streamed. at: of the cases of a way."""
        axes, found = (ROWS, number, number + 1), list[Loop | Hold | Fork | Run | State]()
        if len(way) == 2:
            (outer, most), (inner, _) = way
            found += [Loop(axis, 1) for axis in axes if axis not in (outer.lacks, inner.lacks)]
            found += [Loop(inner.lacks, int(most[at])), outer.hold]
            found += [Loop(outer.lacks, 1), inner.hold]
        elif way:
            ((inner, _),) = way
            found += [*(Loop(axis, 1) for axis in axes if axis != inner.lacks), inner.hold]
        return (*found, *(Loop(axis, 1) for axis in axes), Run(number))


def _pieces(extent: int) -> Ints:
    """Return the numbers of pieces that an extent can have: those of small tiles, and all small ones."""
    few = np.arange(1, isqrt(extent) + 2)
    return np.unique(np.concatenate((-(-extent // few), few[few <= extent])))


def _at_least(tensor: Operand, times: int) -> float:
    """Return what a tensor costs at least of which each element comes in so many times."""
    held = tensor.weight * tensor.elements * times - tensor.saved if tensor.may else inf
    return min(held, _bypassing(tensor))


def _bypassing(tensor: Operand) -> float:
    """Return what a tensor costs that is not in the buffer."""
    return inf if tensor.must else float(tensor.bypass)


@dataclass(frozen=True, slots=True)
class Point:
    """A point in the loops above a branch of two products. left: rows and columns. cost: of the nodes above."""

    left: tuple[int, int]
    room: int
    cost: float = 0.0
    steps: Steps = ()


@dataclass(slots=True)
class Pair:
    """Two products, in a state. Their operands: the first one's source and matrix, the second one's matrix and result.
    Sources and results lack the columns of what passes between, matrices the rows."""

    chain: ChainBound
    state: State
    best: float = inf
    steps: Steps = ()

    def least(self) -> tuple[float, Steps]:
        """Return what they cost at least, and the steps of that case."""
        first, last = self.state.first, self.state.last
        here = [self.state.ends[0], first in self.state.held, last in self.state.held, self.state.ends[1]]
        holds = Hold(first, SOURCE), Hold(first, MATRIX), Hold(last, MATRIX), Hold(last, RESULT)
        left = tuple(hold for hold, is_here in zip(holds, here, strict=True) if not is_here)
        self._look(Point((self.state.rows, self._extents[1]), self.state.room), left)
        return self.best, self.steps

    @property
    def _extents(self) -> tuple[int, int]:
        return self.chain.rows, self.chain.products[self.state.first].columns

    def _tensor(self, hold: Hold) -> Operand:
        return self.chain.products[hold.product].operands[hold.place]

    def _fewest(self, hold: Hold) -> int:
        """Return how often each element of an operand comes in at least, where the buffer holds it."""
        return -(-self.chain.rows // self.state.rows) if hold.place == MATRIX else 1

    def _least_below(self, at: Point, hold: Hold) -> float:
        """Return what an operand costs at least whose node stands below a point."""
        tensor, axis, fewest = self._tensor(hold), int(hold.place == MATRIX), self._fewest(hold)
        comes = max(fewest, -(-self._extents[1 - axis] // at.left[1 - axis]))
        held = tensor.weight * tensor.elements * comes - tensor.saved
        return min(held if tensor.may else inf, _bypassing(tensor))

    def _look(self, at: Point, left: tuple[Hold, ...]) -> None:
        """Look at all trees below a point. left: operands that do not stand above."""
        if self.chain.stop():
            raise OutOfTime
        if at.cost + sum(self._least_below(at, hold) for hold in left) >= self.best:
            return
        self._finish(at, left)
        for hold in left:
            others = tuple(other for other in left if other != hold)
            for inside in self._held(at, hold) if self._tensor(hold).may else ():
                self._look(inside, others)

    def _held(self, at: Point, hold: Hold) -> Iterator[Point]:
        """Yield the points right below a node of an operand, which holds rows or columns, the largest number first."""
        tensor, axis = self._tensor(hold), int(hold.place == MATRIX)
        (left, other), whole = (at.left[axis], at.left[1 - axis]), self._extents[axis]
        comes = max(self._fewest(hold), -(-self._extents[1 - axis] // other))
        cost = at.cost + tensor.weight * tensor.elements * comes - tensor.saved
        for size in self.chain.inner(whole, left)[::-1].tolist():
            room = at.room - size * tensor.elements // whole * tensor.bits
            steps = (*at.steps, Loop((ROWS, self.state.last)[axis], size), hold)
            if room >= 0:
                yield Point((other, size) if axis else (size, other), room, cost, steps)

    def _finish(self, at: Point, left: tuple[Hold, ...]) -> None:
        """Look at the trees that hold no other operand above the branch."""
        first, last, extents = self.state.first, self.state.last, self._extents
        rows, columns = (self.chain.inner(*each) for each in zip(extents, at.left, strict=True))
        grid = np.meshgrid(rows if left else rows[:1], columns if left else columns[:1], indexing="ij")
        x, y = grid[0].ravel().astype(float), grid[1].ravel().astype(float)
        ways = [list(self._ways(number, at, left, x, y)) for number in (first, last)]
        least = [np.minimum.reduce([cost for cost, _ in own]) for own in ways]
        total: FloatArray = at.cost + least[0] + least[1]
        best = int(np.argmin(total))
        if total[best] < self.best:
            self.best = float(total[best])
            loops = Loop(ROWS, int(x[best])), Loop(last, int(y[best]))
            legs = (min(own, key=lambda way: way[0][best])[1] for own in ways)
            children = (self.chain.inside(number, leg, best) for number, leg in zip((first, last), legs, strict=True))
            self.steps = (*at.steps, *loops, Hold(first, RESULT), Fork(tuple(children)))

    def _ways(self, number: int, at: Point, left: tuple[Hold, ...], x: FloatArray, y: FloatArray) -> Iterator[Way]:
        """Yield what one of the two costs at least beside what stands above, over so many rows and columns."""
        room = at.room - self.chain.products[self.state.first].result.bits * x * y
        times = [np.ceil(extent / tile) for extent, tile in zip(self._extents, (x, y), strict=True)]
        own = [hold.place for hold in left if hold.product == number]
        return self.chain.ways([self.chain.streamed(number, each, times[each != MATRIX], x, y) for each in own], room)
