"""Lower bounds over all mappings of a structure, by the recurrences of docs/certificate.md; integers only."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import combinations, pairwise, product
from math import prod
from operator import mul
from typing import Any

import numpy as np

from polymap.checker.grids import Array, divisors, grid_of, kind_of, never_above, within
from polymap.checker.model import Rows, Structure, Tensor, Tile, need, tick
from polymap.checker.windows import Blocks, Crossing, window

Prices = tuple[Tile, ...]  # each: a unit, prices of bits per level, of the parts after the first
# ((level below the fan-outs, dim), (temporal extent inside them, their classes from outside where that is open))
Places = tuple[tuple[tuple[int, int], tuple[int, Tile]], ...]
# A node: state before, state after, level; over the grid: cost per part (never where it cannot be), bits.
Edge = tuple[int, int, int, list[Array], Array]


class Tables:
    """What nodes cost over the grid of all tiles of the last of `marks`. columns: what is added up, (weights of the
    parts, prices of bits): every part as it is, then one for each of `prices` (which stands for the first part where
    that alone is the value). edges: per tensor. ends: per tensor and state what the compute units cost per column, or
    None. firsts: the joint states before any node. start: the cost before any node."""

    def __init__(self, structure: Structure, marks: Rows, places: Places = (), prices: Prices = ()) -> None:
        self.structure, self.problem, levels = structure, structure.problem, len(structure.problem.room)
        plain = [((0,) * i + (1,), (0,) * levels) for i in range(len(self.problem.parts))]
        priced = [((unit, *others[levels:]), tuple(others[:levels])) for unit, *others in prices]
        self.columns = [*priced, *plain[1:]] if priced and self.problem.measures[0].linear else [*plain, *priced]
        each, macs = self.problem.weights, 4 * prod(self.problem.extents)
        largest = [sum(map(mul, a, each)) * macs + sum(b) * self.problem.most_bits for a, b in self.columns]
        self.prices, self.never = prices, never_above(max(self.problem.reach, *largest))
        self.kind, self.marks = kind_of(self.never), list(marks)
        self.grid, self.start = grid_of(marks[-1], self.kind), self._columns(structure.start(), 0, 0)
        self.places, self.values, self.shape = dict(places), self.grid.values, self.grid.shape
        self.edges, self.ends, firsts = list[list[Edge]](), list[list[list[Any] | None]](), list[list[int]]()
        for t, tensor in enumerate(self.problem.tensors):
            last = structure.last
            plans = [c for n in range(last) for c in combinations(sorted(tensor.may), n) if tensor.must <= {*c}]
            states = sorted({(0, *plan)[i:] for plan in plans for i in range(len(plan) + 1)})
            moves = [(s, states.index(state[1:]), state[1]) for s, state in enumerate(states) if len(state) > 1]
            lacks = [d for d in structure.all if d not in tensor.dims]
            if not tensor.is_output or structure.factor(lacks, -1, last - 2) == 1:
                # The levels to come matter to outputs with siblings above a node that is not the innermost.
                moves = sorted({(a, b, b) for plan in plans for a, b in pairwise((0, *plan))})
                states = [(level,) for level in range(last)]
            stays = [len(state) == 1 and max({0, *tensor.must}) <= state[0] for state in states]
            self.ends.append([self._node(t, s, last)[0] if ok else None for s, ok in zip(states, stays, strict=True)])
            self.edges.append([(s, after, level, *self._node(t, states[s], level)) for s, after, level in moves])
            firsts.append([s for s, state in enumerate(states) if state[0] == 0])
        need(prod(map(len, self.ends)) * prod(self.shape) <= 1 << 25, "the problem is too large")
        self.firsts = list(product(*firsts))

    def _columns(self, costs: list[Any], level: int, bits: Any) -> list[Any]:
        """Return what so much per part and bits of a level come to, per column."""
        each = [
            [cost if w == 1 else w * cost for w, cost in zip(weights, costs, strict=False) if w]
            for weights, _ in self.columns
        ]
        return [sum(own) + at[level] * bits for own, (_, at) in zip(each, self.columns, strict=True)]

    def _node(self, t: int, state: Tile, level: int) -> tuple[list[Array], Array]:
        """Return what a node of `level` (or the compute units) costs per column in a state (holder, levels to come),
        never where it cannot be, and the bits that it holds."""
        tick()
        tensor, problem = self.problem.tensors[t], self.problem
        held, loads, messages = self._loads(t, state[0], level)
        costs = self.structure.node(t, state, level, loads, {end: loads * often for end, often in messages.items()})
        if level == self.structure.last:
            return self._columns(costs, 0, 0), held
        bits, room = held * tensor.bits, problem.room[level]
        barred = (held < problem.rules.least.get((tensor.name, level), 0)) | self._breaks(level)
        barred = np.broadcast_to(barred | (bits > (self.never if room is None else room)), self.shape)
        columns = [np.asarray(cost, self.kind) for cost in self._columns(costs, level, bits)]
        return [np.where(barred, np.asarray(self.never, self.kind), cost) for cost in columns], bits

    def _breaks(self, level: int) -> Any:
        """Return where the rules let no node of `level` be."""
        rules, broken = self.problem.rules, False
        for d, size in rules.multiples:
            broken = broken | (self.values[d] * self.structure.factor((d,), level, self.structure.last) % size > 0)
        return broken | np.logical_not(rules.standing(self.values, self.structure.top))

    def _loads(self, t: int, parent: int, level: int) -> tuple[Array, Array, dict[int, Any]]:
        """Return elements held (-1: impossible), loaded by one instance in the whole run, and how often a load passes
        each of the problem's `ends` on its way."""
        tensor, grid, structure, problem = self.problem.tensors[t], self.grid, self.structure, self.problem
        own, last, messages = tensor.dims - {*tensor.window}, problem.above[level], dict[int, Any]()
        whole: Any = within(grid.top, tensor.window, self.marks[0]) if level < structure.last else 0
        for end in problem.ends(t, parent, level):
            merging = [(fan.adds if tensor.is_output else fan.merge != "none", row) for fan, row in structure.spread]
            messages[end] = prod(row[d] for joins, row in merging[end:last] for d in (own if joins else structure.all))
            if tensor.window and end < last:
                messages[end] = messages[end] * np.maximum(self._window(tensor, end, level, ())[0][1][whole], 1)
        first = structure.factor(own, level, structure.last)
        held = np.asarray(prod((self.values[d] for d in own), start=first), self.kind)
        outside = [np.asarray(top // value, self.kind) for top, value in zip(structure.top, self.values, strict=True)]
        if level == structure.last:
            return held, np.asarray(structure.steps, self.kind), messages
        if not tensor.window:
            return held, np.asarray(prod(outside, start=held), self.kind), messages
        lacks, blocks = [d for d in structure.all if d not in tensor.dims], list[Any]()
        ends = [(1,) * len(grid.top), *self.marks[::-1]]
        for inner, outer in pairwise(ends if len(self.marks) > 1 else ()):
            again, trips = (prod(outer[d] // inner[d] for d in dims) for dims in (lacks, own))
            end = tuple(outer[d] for d in tensor.window)
            blocks.append((end, again, trips, prod(self.marks[0]) // prod(outer)))
        if not blocks:  # the same for all structures that spread the window dims alike
            repeat = prod(self.problem.extents[d] for d in lacks)
            blocks = [(tuple(grid.top[d] for d in tensor.window), repeat, 1, 1)]
        (size, _), first, through = self._window(tensor, problem.above[parent], level, tuple(blocks))
        below = structure.top if len(self.marks) == 1 else self.marks[-1]
        left = [np.asarray(below[d] // value, self.kind) for d, value in enumerate(self.values)]
        trips, again = (np.asarray(prod(left[d] for d in dims), self.kind) for dims in (own, lacks))
        at = np.searchsorted(np.array(divisors(blocks[0][1]), self.kind), again), whole
        size, chosen = size[whole], np.where(trips > 1, first[at], through[at])
        never = (size < 0) | (chosen >= self.never)
        loads = np.where(never, 0, np.where(trips > 1, chosen * trips * blocks[0][3], chosen)) * held
        return np.where(never, -1, held * size), loads, messages

    def _window(
        self, tensor: Tensor, outside: int, level: int, blocks: Blocks
    ) -> tuple[tuple[Array, Array], Array, Array]:
        """Return the tables of the tensor's axes of several dims as a node sees them, which shares its loads over the
        classes of fan-outs above it but for those `outside`."""
        groups = [group for group in tensor.groups if len(group) > 1]
        axes = [(tuple(tensor.window.index(d) for d, _ in one), tuple(weight for _, weight in one)) for one in groups]
        top, seen = tuple(self.marks[0][d] for d in tensor.window), list[tuple[Crossing, ...]]()
        for d in tensor.window:
            spread, crossings = self.structure.spread, list[Crossing]()
            for b in sorted({fan.below for fan, row in spread if row[d] > 1}):
                place, order = self.places.get((b, d), (0, ()))
                merges = [fan.merge if outside <= i and b <= level else "" for i, (fan, _) in enumerate(spread)]
                orders = [
                    tuple((spread[i][1][d], merges[i]) for i in reversed(one))
                    for one in ([order] if order else self.structure.orders(b, d))
                ]
                crossings.append((tuple(dict.fromkeys(orders)), b <= level, place))
            seen.append(tuple(crossings))
        least, first, through = window(tuple(axes), top, tuple(seen), blocks, self.never)
        return (least[0], least[1]), first, through

    def moves(self, state: Tile) -> Iterator[tuple[int, Edge, Tile]]:
        """Yield (position of the tensor, node, state after it) for every node that may come next."""
        for i, own in enumerate(self.edges):
            for edge in (one for one in own if one[0] == state[i]):
                yield i, edge, (*state[:i], edge[1], *state[i + 1 :])

    def end(self, state: Tile) -> list[Any] | None:
        """Return what all compute units cost per column in a joint state, None where nodes are missing."""
        ends = [own[s] for own, s in zip(self.ends, state, strict=True)]
        known = [end for end in ends if end is not None]
        return None if len(known) < len(ends) else [sum(amounts) for amounts in zip(*known, strict=True)]

    @cached_property
    def reach(self) -> list[Callable[[Tile], Array]]:
        """Return, per column, the least total inside every tile as a function of the joint state."""
        return [self._inside(column) for column in range(len(self.columns))]

    def _inside(self, column: int) -> Callable[[Tile], Array]:
        known = dict[Tile, Array]()

        def reach(state: Tile) -> Array:
            if state not in known:
                tick()
                end = self.end(state)
                here = np.full(self.shape, self.never if end is None else end[column], self.kind)
                for _, edge, after in self.moves(state):
                    np.minimum(here, edge[3][column] + reach(after), out=here)
                for (_, _, stride), count in zip(self.grid.axes, self.grid.shape, strict=True):
                    lines = here.reshape(-1, count, stride)  # faster than np.minimum.accumulate
                    for i in range(1, count):
                        np.minimum(lines[:, i], lines[:, i - 1], out=lines[:, i])
                known[state] = np.minimum(here, self.never)
            return known[state]

        return reach

    def least(self) -> list[int]:
        """Return the least total per column; half of `never` or more: nothing fits."""
        inner = [min(int(reach(state).ravel()[-1]) for state in self.firsts) for reach in self.reach]
        return [total + start for total, start in zip(inner, self.start, strict=True)]

    def value(self, totals: Sequence[int], steps: int) -> int:
        """Return the least value that totals per column, each or more, allow."""
        parts, lines = self.problem.bounded(totals, self.prices, steps)
        return self.problem.value(parts, steps, lines=lines)
