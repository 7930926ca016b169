"""What a certificate is about, read strictly, and what its mapping costs, counted exactly (docs/certificate.md)."""

import json
import re
from collections.abc import Iterable
from fractions import Fraction
from itertools import groupby, pairwise
from math import ceil, lcm, prod
from typing import Any, NamedTuple

Tile = tuple[int, ...]
Rows = tuple[Tile, ...]
BANDS = [f"{kind}bandwidth_bits_per_cycle" for kind in ("", "read_", "write_")]
FIELDS = ("buffering", "capacity_bits", "holds", "leak_pj_per_cycle", "level", "must_hold", "read_pj", "word_bits")


class Refused(Exception):
    """The text proves nothing; the reason is a sentence."""


def need(holds: object, reason: str) -> None:
    """Raise Refused unless something holds."""
    if not holds:
        raise Refused(reason)


def parsed(text: str) -> Any:
    """Return the value of a canonical JSON text."""
    value = json.loads(text)
    need(json.dumps(value, sort_keys=True, separators=(",", ":")) == text, "JSON is not canonical")
    return value


def fields(table: Any, *names: str) -> list[Any]:
    """Return the values of a table that has just these fields."""
    need(isinstance(table, dict) and {*table} == {*names}, f"the fields {', '.join(names)} are wanted")
    return [table[name] for name in names]


def whole(value: Any, most: int = 10**15) -> int:
    """Return an integer from 1 to `most`."""
    need(type(value) is int and 1 <= value <= most, f"a number is no integer from 1 to {most}")
    return value


def rational(value: Any) -> Fraction:
    """Return the non-negative number that "a/b" says."""
    need(isinstance(value, str) and re.fullmatch("[0-9]{1,30}(/[1-9][0-9]{0,29})?", value), "a number is not a/b")
    return Fraction(value)


class Tensor(NamedTuple):
    """groups: per axis its (dim, coefficient) pairs. window: dims that share an axis. may, must: levels that hold."""

    name: str
    bits: int
    is_output: bool
    initial: bool
    groups: tuple[tuple[tuple[int, int], ...], ...]
    dims: frozenset[int]
    window: Tile
    may: frozenset[int]
    must: frozenset[int]


class Fanout(NamedTuple):
    """below: the first level below it. merge: its multicast. dims: those that may be spread over it."""

    name: str
    below: int
    merge: str
    adds: bool
    size: int
    dims: frozenset[int]


class Part(NamedTuple):
    """A component of the objective: weights [level][tensor] of what is read and written, in all instances, or, with a
    `band` of bits per cycle, in the busiest instance of `level`."""

    read: Rows
    write: Rows
    level: int
    band: Fraction | None


class Problem:
    """The head's workload, machine and objective. room: usable bits per level. classes: fan-outs that count alike.
    scale: value units per unit of the objective; fixed: of compute; slope: per cycle."""

    def __init__(self, workload: Any, machine: Any, objective: str) -> None:
        (dims, tensors), (nodes, self.overlap) = (
            fields(workload, "dims", "tensors"),
            fields(machine, "nodes", "overlap"),
        )
        need(len(dims) <= 12 and len(tensors) <= 6 and len(nodes) <= 20, "the problem is too large")
        self.dims, self.extents = [dim for dim, _ in dims], [whole(extent, 1 << 22) for _, extent in dims]
        levels = [node for node in nodes if "level" in node and fields(node, *FIELDS, "write_pj", *BANDS)]
        self.levels = [level["level"] for level in levels]
        need(len(levels) <= 8, "the machine has too many levels")
        need("level" in nodes[0] and levels[0]["capacity_bits"] is None, "the outermost level is limited")
        bits = [(level["capacity_bits"], whole(level["buffering"])) for level in levels]
        self.room = [None if capacity is None else whole(capacity) // buffering for capacity, buffering in bits]
        self.tensors = [self._tensor(row, number, levels) for number, row in enumerate(tensors)]
        windows = [number for number, tensor in enumerate(self.tensors) if tensor.window]
        need(len(windows) < 2 and 0 not in windows, "such windows are not certified")
        self.fanouts, below = list[Fanout](), [sum("level" in one for one in nodes[:i]) for i in range(len(nodes))]
        for node, level in zip(nodes[:-1], below, strict=False):
            if "level" not in node:
                over, name, merge, adds, size = fields(node, "dims", "fanout", "multicast", "reduction", "size")
                need(merge in ("identical", "union", "none"), "a multicast is unknown")
                free = frozenset(d for d, dim in enumerate(self.dims) if over is None or dim in over)
                self.fanouts.append(Fanout(name, level, merge, bool(adds), whole(size), free))
        self.classes = [list(own) for _, own in groupby(self.fanouts, lambda fan: fan[1:4])]
        self._measure(levels, fields(nodes[-1], "compute", "per_cycle", "pj"), objective)

    def _tensor(self, row: Any, number: int, levels: list[Any]) -> Tensor:
        bits, index, initial, name, role = fields(row, "bits", "index", "initial", "name", "role")
        axes = [[(self.dims.index(d), whole(abs(c)) * (1 if c > 0 else -1)) for d, c in axis.items()] for axis in index]
        axes = [sorted(pair for pair in axis if self.extents[pair[0]] > 1) for axis in axes]
        used = [d for axis in axes for d, _ in axis]
        need(len(set(used)) == len(used), "a tensor has a dim in two axes, which is not certified")
        need(all(sum(abs(c) * self.extents[d] for d, c in axis) < 1 << 23 for axis in axes), "an axis is too long")
        groups = tuple(tuple(axis) if len(axis) > 1 else ((axis[0][0], 1),) for axis in axes if axis)
        own = {name, f"@{role}"}
        may = frozenset(i for i, one in enumerate(levels) if i and (one["holds"] is None or own & set(one["holds"])))
        must = frozenset(i for i, one in enumerate(levels) if i and own & set(one["must_hold"]))
        window = tuple(d for axis in axes if len(axis) > 1 for d, _ in axis)
        return Tensor(name, whole(bits, 1 << 12), not number, bool(initial), groups, frozenset(used), window, may, must)

    def _measure(self, levels: list[Any], compute_node: list[Any], objective: str) -> None:
        compute, per_cycle, pj = compute_node
        places = [*self.levels, *(fan.name for fan in self.fanouts), compute]
        for names in ([*self.dims, *(tensor.name for tensor in self.tensors)], places):
            need(len({str(one) for one in names}) == len(names), "names are wanted, each once")
        self.per_cycle, leak = whole(per_cycle), sum(rational(one["leak_pj_per_cycle"]) for one in levels)
        kind, _, listed = objective.partition(":")
        terms = [one.split("*") for one in listed.split("+")] if kind == "weighted" else [["1", objective]]
        share = {name: rational(weight) for weight, name in terms}
        known = {"energy", "latency", *([] if kind == "weighted" else ["edp"]), *(f"traffic:{n}" for n in self.levels)}
        need(len(share) == len(terms) and {*share} <= known, "no such objective is certified")
        self.is_product, energy = objective == "edp", share.get("energy", share.get("edp", Fraction(0)))
        slope, fixed = energy * leak + share.get("latency", 0), energy * rational(pj) * prod(self.extents)
        sides: list[list[list[Fraction]]] = []
        for key in ("read_pj", "write_pj"):
            per_bit = [energy * rational(one[key]) / whole(one["word_bits"]) for one in levels]
            per_bit = [x + share.get(f"traffic:{name}", 0) for x, name in zip(per_bit, self.levels, strict=True)]
            sides.append([[x * tensor.bits for tensor in self.tensors] for x in per_bit])
        self.scale = lcm(*(x.denominator for x in (slope, fixed, *(x for side in sides for row in side for x in row))))
        self.slope, self.fixed = int(slope * self.scale), int(fixed * self.scale)
        self.is_linear = not self.slope and not self.is_product
        read, write = (tuple(tuple(int(x * self.scale) for x in row) for row in side) for side in sides)
        self.parts = [Part(read, write, 0, None)]
        for i, level in enumerate(() if self.is_linear else levels):
            for key, read, write in zip(BANDS, (i, i, -1), (i, -1, i), strict=True):
                if level[key] is not None:
                    self.parts.append(Part(self._bits(read), self._bits(write), i, 1 / (1 / rational(level[key]))))
        weights = [sum(map(sum, part.read + part.write)) for part in self.parts]
        self.reach = 4 * prod(self.extents) * max(1 << 12, *weights)
        need(self.reach < 1 << 58, "the numbers are too large")

    def _bits(self, level: int) -> Rows:
        return tuple(tuple(tensor.bits * (i == level) for tensor in self.tensors) for i in range(len(self.levels)))

    def value(self, parts: list[int], steps: int) -> int:
        """Return the objective, scaled, of component values and temporal steps; monotone in all of them."""
        if self.is_linear:
            return parts[0] + self.fixed
        cycles, compute = dict[int, Fraction](), -(-steps // self.per_cycle)
        for part, amount in zip(self.parts, parts, strict=True):
            if part.band:
                cycles[part.level] = max(cycles.get(part.level, Fraction(0)), amount / part.band)
        latency = ceil(max([compute, *cycles.values()]) if self.overlap else compute + sum(cycles.values()))
        return (parts[0] + self.fixed + self.slope * latency) * (latency if self.is_product else 1)


class Structure:
    """What is spread over the classes of fan-outs. rows: per class the factor of every dim: integers, or arrays for
    many structures at once (so are then all results). top: temporal extents."""

    def __init__(self, problem: Problem, rows: Any) -> None:
        self.problem, self.rows, self.last = problem, rows, len(problem.levels)
        self.spread = [(own[0], row) for own, row in zip(problem.classes, rows, strict=True)]
        self.all = tuple(range(len(problem.dims)))
        self.top = tuple(extent // self.factor((d,), -1, self.last) for d, extent in enumerate(problem.extents))
        self.steps = prod(self.top)

    def factor(self, dims: Iterable[int], after: int, upto: int) -> Any:
        """Return the product of the dims' spatial factors between two levels."""
        own = tuple(dims)
        return prod(row[d] for fan, row in self.spread if after < fan.below <= upto for d in own)

    def zeros(self, t: int) -> int:
        """Return how many elements of a tensor start from zero."""
        tensor = self.problem.tensors[t]
        return prod(self.problem.extents[d] for d in tensor.dims) * (tensor.is_output and not tensor.initial)

    def start(self, only: Tile) -> list[int]:
        """Return, per part, the cost of the outermost level before any node: drains that find a copy still zero."""
        return [-sum(self.zeros(t) * part.read[0][t] for t in only) for part in self.problem.parts]

    def node(self, t: int, state: Tile, level: int, loads: Any, reads: Any) -> list[Any]:
        """Return, per part, the cost of a node of `level` or of the compute units in a state (holder, levels to come).
        loads: by one instance in the whole run; reads: for these, per instance of the holder (of inputs)."""
        tensor, (parent, *coming), zero, costs = self.problem.tensors[t], state, self.zeros(t), list[Any]()
        there, here = self.factor(self.all, -1, parent), self.factor(self.all, -1, level)
        differ, inside = self.factor(tensor.dims, parent, level), self.factor(tensor.dims, -1, level)
        slow = [row for fan, row in self.spread if parent < fan.below <= level and not fan.adds]
        apart = prod(row[d] for row in slow for d in self.all if d not in tensor.dims)
        for part in self.problem.parts:
            read, write = ([row[t] for row in side] + [0] for side in (part.read, part.write))
            both = [r + w for r, w in zip(read, write, strict=True)]
            up, down = (1, 1) if part.band else (there, here)
            if not tensor.is_output:
                costs.append(loads * (write[level] * down) + reads * (read[parent] * up))
            elif part.band:
                costs.append(loads * (both[level] + differ * apart * both[parent]) - both[level] * (zero // inside))
            else:
                merged, further = loads * (differ * there), sum(both[inner] for inner in coming[1:])
                elided = (loads * here - merged) * further + both[level] * zero
                costs.append(merged * (both[level] + apart * both[parent]) - elided)
        return costs


class Loop(NamedTuple):
    """One iteration moves the index by `stride`. fan: its fan-out (None: temporal)."""

    dim: int
    trips: int
    stride: int
    fan: Fanout | None


def read_mapping(problem: Problem, nodes: Any) -> tuple[list[Loop], list[list[Tile]]]:
    """Return the loops, outermost first, and per tensor (level, loops above) of its nodes; refuse what is not legal."""
    left, loops, fans = list(problem.extents), list[Loop](), {fan.name: fan for fan in problem.fanouts}
    held: list[list[Tile]] = [[] for _ in problem.tensors]
    need(len(nodes) <= 500 and fields(nodes[-1], "compute"), "the mapping is malformed")
    for node in nodes[:-1]:
        if "store" in node:
            level, stored = problem.levels.index(node["store"]), fields(node, "store", "tensors")[1]
            for number, tensor in enumerate(problem.tensors):
                held[number] += [(level, len(loops))] * (stored.count(tensor.name) if level else 0)
            continue
        dim, tile, *over = fields(node, *(("par", "tile", "over") if "par" in node else ("for", "tile")))
        d, fan = problem.dims.index(dim), fans[over[0]] if over else None
        need(left[d] % whole(tile) == 0, "a tile of the mapping does not divide the one around it")
        need(fan is None or left[d] == tile or d in fan.dims, "a fan-out may not take this dim")
        loops += [Loop(d, left[d] // tile, tile, fan)] if left[d] > tile else []
        left[d] = tile
    need(max(left, default=1) == 1, "the mapping leaves indices out")
    for fan in problem.fanouts:
        need(prod(loop.trips for loop in loops if loop.fan == fan) <= fan.size, f"{fan.name} is too small")
    for tensor, own in zip(problem.tensors, held, strict=True):
        levels = [level for level, _ in own]
        need(levels == sorted(set(levels)) and tensor.must <= set(levels) <= tensor.may, "a tensor is held wrongly")
        late = [(level, loop.fan) for level, above in own for loop in loops[above:] if loop.fan]
        need(all(fan.below > level for level, fan in late), "a spatial loop stands below its level")
    return loops, held


def spread(mask: int, count: int, stride: int) -> int:
    """Return a set (bit mask) united with its copies moved by stride, 2 stride, ... (count - 1) stride."""
    total, have = mask, 1
    while have < count:
        more = min(have, count - have)
        total, have = total | total << more * stride, have + more
    return total


def sums(first: int, second: int) -> int:
    """Return the sums of an element of one set and one of the other."""
    total = 0
    while second:
        total, second = total | first << (second & -second).bit_length() - 1, second & second - 1
    return total


def flow(tensor: Tensor, loops: list[Loop], above: int, parent: int, level: int, last: int) -> tuple[int, int, int]:
    """Return, of one instance of the node of `level` below `above` loops: elements held, loaded in the whole run, and
    read for it and its siblings per instance of level `parent`. Level `last`: the compute units, which hold nothing."""
    timed = [loop for loop in loops[:above] if not loop.fan]
    free = [one for i, one in enumerate(loops) if (one.fan.below > level if one.fan else i >= above)]
    beside = [(loop, loop.fan.merge) for loop in loops if loop.fan and parent < loop.fan.below <= level]
    copies, inside = prod(loop.trips for loop, merge in beside if merge == "none"), [0] * len(tensor.groups)
    sets: list[tuple[dict[int, int], int, int]] = []
    for group in map(dict, tensor.groups):
        elements, offsets = 1, {"identical": 1, "union": 1, "none": 1}
        for loop in (one for one in free if one.dim in group):
            elements = spread(elements, loop.trips, abs(group[loop.dim]) * loop.stride)
        for loop, merge in (one for one in beside if one[0].dim in group):
            offsets[merge] = spread(offsets[merge], loop.trips, abs(group[loop.dim]) * loop.stride)
        copies *= offsets["identical"].bit_count()
        sets.append((group, elements, offsets["union"]))
    held, message = prod(one.bit_count() for _, one, _ in sets), prod(sums(a, b).bit_count() for _, a, b in sets)
    if level == last:
        return held, prod(loop.trips for loop in timed), prod(loop.trips for loop in timed) * message * copies
    loads, reads = held, message
    for position in range(len(timed) - 1, -1, -1):
        loop, kept, unread = timed[position], 1, 1
        for number, (weights, elements, united) in enumerate(sets):
            move = weights.get(loop.dim, 0) * loop.stride - inside[number]
            stay = elements & (elements >> move if move >= 0 else elements << -move)
            new = sums(elements & ~stay, united).bit_count()
            kept, unread = kept * stay.bit_count(), unread * (sums(elements, united).bit_count() - new)
            inside[number] += weights.get(loop.dim, 0) * loop.stride * (loop.trips - 1)
        times = prod(one.trips for one in timed[:position]) * (loop.trips - 1)
        loads, reads = loads + times * (held - kept), reads + times * (message - unread)
    return held, loads, reads * copies


def cost(problem: Problem, nodes: Any) -> int:
    """Return the objective, scaled, of a mapping; refuse one that is not legal or does not fit."""
    loops, held = read_mapping(problem, nodes)
    structure, used = Structure(problem, rows_of(problem, loops)), [0] * len(problem.levels)
    total = structure.start(tuple(range(len(held))))
    for t, own in enumerate(held):
        chain = [(0, 0), *own, (structure.last, len(loops))]
        for number, ((parent, _), (level, above)) in enumerate(pairwise(chain)):
            size, loads, reads = flow(problem.tensors[t], loops, above, parent, level, structure.last)
            state = tuple(one for one, _ in chain[number:-1])
            total = [a + b for a, b in zip(total, structure.node(t, state, level, loads, reads), strict=True)]
            if level < structure.last:
                used[level] += size * problem.tensors[t].bits
    for level, room in enumerate(problem.room):
        need(room is None or used[level] <= room, f"the mapping does not fit into {problem.levels[level]}")
    return problem.value(total, structure.steps)


def rows_of(problem: Problem, loops: list[Loop]) -> Rows:
    """Return the structure of a mapping with these loops."""
    dims = range(len(problem.dims))
    rows = [[prod(p.trips for p in loops if p.fan in own and p.dim == d) for d in dims] for own in problem.classes]
    return tuple(map(tuple, rows))
