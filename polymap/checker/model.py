"""What a certificate is about, read strictly, and what its mapping costs, counted exactly (docs/certificate.md)."""

import json
import time
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from fractions import Fraction
from itertools import chain, combinations, groupby, pairwise, permutations, product
from math import ceil, floor, inf, lcm, prod
from typing import Any, NamedTuple

from polymap.checker.head import check_head
from polymap.checker.rules import Refused, Rules, fields, need, rational, whole

Tile = tuple[int, ...]
Rows = tuple[Tile, ...]
Lines = list[tuple[Fraction, Fraction]]  # (a, b): the first part is at least a - b x cycles
BANDS = [f"{kind}bandwidth_bits_per_cycle" for kind in ("", "read_", "write_")]
PRODUCTS = {"edp": 1, "ed2p": 2}  # objectives energy x latency^power, by the power
DEADLINE: ContextVar[float] = ContextVar("deadline", default=inf)  # on the CPU's clock


class OutOfTime(Refused):
    """The time ended before the answer was known."""


def tick() -> None:
    """Raise OutOfTime where the deadline has passed; whatever can take long calls it."""
    if time.process_time() > DEADLINE.get():
        raise OutOfTime("time is up before the end of the check")


def parsed(text: str) -> Any:
    """Return the value of a canonical JSON text."""
    value = json.loads(text)
    need(json.dumps(value, sort_keys=True, separators=(",", ":")) == text, "JSON is not canonical")
    return value


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
    """below: the first level below it. merge: its multicast. wires: pJ of a word (of the level above) that enters or
    leaves above, of one that a child gets or gives, and of an addition. dims: those that may be spread over it."""

    name: str
    below: int
    merge: str
    adds: bool
    wires: tuple[Fraction, ...]
    size: int
    dims: frozenset[int]


class Part(NamedTuple):
    """A component of the objective: weights [level][tensor] of what is read and written, in all instances, or, with a
    `band` of bits per cycle, in the busiest instance of `level`. wires: what an element of a tensor adds at the outer
    end of a class of fan-outs, at the inner one, and where it is added to another [class][tensor]."""

    read: Rows
    write: Rows
    level: int
    band: Fraction | None
    wires: tuple[Rows, ...]


class Measure(NamedTuple):
    """An objective of one value. own: its parts among the problem's, the weighted sum over all instances first. scale:
    units of the value per unit of the objective; fixed: of compute; slope: per cycle, times latency^power. linear: the
    value is the first part and `fixed`. most: the highest value allowed, in these units."""

    own: Tile
    scale: int
    fixed: int
    slope: int
    power: int
    linear: bool
    most: int | None


class Problem:
    """The head's workload, machine, constraints and objective. room: usable bits per level. classes: fan-outs that
    count alike, those with wires each by itself. above: how many of them are above a level (last: the compute units).
    measures: the objective, then what constraints limit; parts: the components of all of them. tolls: per (part,
    tensor, holder, next level that holds it) the price of an element that passes, by how many classes are above it
    there, and that of a partial sum that comes back."""

    def __init__(self, workload: Any, machine: Any, constraints: Any, objective: str) -> None:
        check_head(workload, machine, constraints)
        (dims, tensors), (nodes, overlap) = fields(workload, "dims", "tensors"), fields(machine, "nodes", "overlap")
        need(len(dims) <= 24 and 1 <= len(tensors) <= 6 and len(nodes) <= 20, "the problem is too large")
        self.dims, self.extents = [dim for dim, _ in dims], [extent for _, extent in dims]
        levels = [node for node in nodes if "level" in node]
        need(len(levels) <= 8, "the machine has too many levels")
        need(levels[0]["capacity_bits"] is None, "the outermost level is limited")
        self.overlap: bool = overlap
        self.levels, names = [level["level"] for level in levels], [row["name"] for row in tensors]
        bits = [(level["capacity_bits"], level["buffering"]) for level in levels]
        self.room = [None if capacity is None else capacity // buffering for capacity, buffering in bits]
        fans = [node for node in nodes[:-1] if "fanout" in node]
        self.rules = Rules(constraints, self.dims, names, self.levels, [fan["fanout"] for fan in fans])
        even = all(self.extents[d] % size == 0 for d, size in self.rules.multiples)
        need(even, "an extent is no multiple of what every tile is to be one of")
        self.tensors = [self._tensor(row, number, levels) for number, row in enumerate(tensors)]
        windows = [number for number, tensor in enumerate(self.tensors) if tensor.window]
        need(len(windows) < 2 and 0 not in windows, "such windows are not certified")
        self.fanouts, below = list[Fanout](), [sum("level" in one for one in nodes[:i]) for i in range(len(nodes))]
        for node, level in zip(nodes[:-1], below, strict=False):
            if "level" not in node:
                over, own = node["dims"], (node["fanout"], level, node["multicast"], node["reduction"], wires_of(node))
                free = frozenset(d for d, dim in enumerate(self.dims) if over is None or dim in over)
                self.fanouts.append(Fanout(*own, node["size"], free))
        kinds = {(fan.below, kind_of_fan(fan)) for fan in self.fanouts} if windows else set[Any]()
        apart = {b for b in range(len(levels) + 1) if sum(below == b for below, _ in kinds) > 1}
        alike = groupby(self.fanouts, lambda fan: (*fan[1:4], kind_of_fan(fan), fan.below in apart and fan.name))
        self.classes = [list(own) for _, own in alike]
        self.above = [sum(own[0].below <= level for own in self.classes) for level in range(len(levels) + 1)]
        compute, self.per_cycle, pj = fields(nodes[-1], "compute", "per_cycle", "pj")
        for known in ([*self.dims, *names], [*self.levels, *(fan.name for fan in self.fanouts), compute]):
            need(len({*known}) == len(known), "expected names, each once")
        self.lanes = self.per_cycle * prod(fan.size for fan in self.fanouts)
        self._measure(levels, rational(pj), objective)

    def _tensor(self, row: Any, number: int, levels: list[Any]) -> Tensor:
        bits, index, initial, name, role = fields(row, "bits", "index", "initial", "name", "role")
        axes = [[(self.dims.index(d), c) for d, c in axis.items()] for axis in index]
        axes = [sorted(pair for pair in axis if self.extents[pair[0]] > 1) for axis in axes]
        used = [d for axis in axes for d, _ in axis]
        need(len(set(used)) == len(used), "a tensor has a dim in two axes, which is not certified")
        wide = [sum(abs(c) * self.extents[d] for d, c in axis) for axis in axes if len(axis) > 1]
        need(all(length < 1 << 23 for length in wide), "a window is too long")
        groups = tuple(tuple(axis) if len(axis) > 1 else ((axis[0][0], 1),) for axis in axes if axis)
        own, (forced, barred) = {name, f"@{role}"}, self.rules.held(name)
        may = frozenset(i for i, one in enumerate(levels) if i and (one["holds"] is None or own & set(one["holds"])))
        must = frozenset(i for i, one in enumerate(levels) if i and own & set(one["must_hold"]))
        window = tuple(d for axis in axes if len(axis) > 1 for d, _ in axis)
        may, must, dims = may - barred, must | forced, frozenset(used)
        need(must <= may, "a level must hold what it may not hold")
        return Tensor(name, bits, not number, initial, groups, dims, window, may, must)

    def _measure(self, levels: list[Any], pj: Fraction, objective: str) -> None:
        """Compile the objective and the limits."""
        self.parts: list[Part] = []
        self.measures = [self._compiled(levels, pj, objective, None)]
        for text, most in self.rules.limits:
            kind, _, name = text.partition(":")
            if kind == "capacity" and name in self.levels[1:]:
                at = self.levels.index(name)
                self.room[at] = min(room for room in (int(rational(most)), self.room[at]) if room is not None)
            else:
                self.measures.append(self._compiled(levels, pj, text, rational(most)))
        self.scale = self.measures[0].scale
        sides = [(*part.read, *part.write, *chain(*part.wires, *part.wires)) for part in self.parts]
        self.weights = [sum(map(sum, own)) for own in sides]
        ways = list(product(range(len(self.tensors)), combinations(range(len(levels) + 1), 2)))
        self.tolls = {(i, t, *way): self._toll(part, t, *way) for i, part in enumerate(self.parts) for t, way in ways}
        self.most_bits = prod(self.extents) * sum(tensor.bits for tensor in self.tensors)
        self.reach = 4 * max(prod(self.extents) * max(1 << 12, *self.weights), self.most_bits)  # above parts and counts

    def _compiled(self, levels: list[Any], pj: Fraction, objective: str, most: Fraction | None) -> Measure:
        kind, _, listed = objective.partition(":")
        terms = [one.split("*") for one in listed.split("+")] if kind == "weighted" else [["1", objective]]
        share = {name: rational(weight) for weight, name in terms}
        known = {"energy", "latency", *(PRODUCTS if kind != "weighted" else ()), *(f"traffic:{n}" for n in self.levels)}
        need(len(share) == len(terms) and {*share} <= known, "no such objective is certified")
        power, leak = PRODUCTS.get(objective, 0), sum(rational(one["leak_pj_per_cycle"]) for one in levels)
        energy = share.get("energy", Fraction(power > 0))
        slope, fixed = energy * leak + share.get("latency", 0), energy * pj * prod(self.extents)
        sides: list[list[list[Fraction]]] = []
        for key in ("read_pj", "write_pj"):
            per_bit = [energy * rational(one[key]) / whole(one["word_bits"]) for one in levels]
            per_bit = [x + share.get(f"traffic:{name}", 0) for x, name in zip(per_bit, self.levels, strict=True)]
            sides.append([[x * tensor.bits for tensor in self.tensors] for x in per_bit])
        for fan, *_ in self.classes:
            words = [Fraction(tensor.bits, whole(levels[fan.below - 1]["word_bits"])) for tensor in self.tensors]
            outer, inner, added = (energy * x for x in fan.wires)
            outputs = [added * tensor.is_output for tensor in self.tensors]
            sides.append([[word * outer, word * inner, own] for word, own in zip(words, outputs, strict=True)])
        scale = lcm(*(x.denominator for x in (slope, fixed, *(x for side in sides for row in side for x in row))))
        linear = not slope and not power
        read, write, *wires = (tuple(tuple(int(x * scale) for x in row) for row in side) for side in sides)
        free = (((0, 0, 0),) * len(self.tensors),) * len(wires)
        parts = [Part(read, write, 0, None, tuple(wires))]
        for i, level in enumerate(() if linear else levels):
            for key, *ends in zip(BANDS, (i, i, -1), (i, -1, i), strict=True):
                if level[key] is not None:
                    read, write = map(self._bits, ends)
                    parts.append(Part(read, write, i, rational(level[key]), free))
        self.parts += [part for part in dict.fromkeys(parts) if part not in self.parts]
        own, limit = tuple(map(self.parts.index, parts)), None if most is None else int(most * scale // 1)
        return Measure(own, scale, int(fixed * scale), int(slope * scale), power, linear, limit)

    def _bits(self, level: int) -> Rows:
        return tuple(tuple(tensor.bits * (i == level) for tensor in self.tensors) for i in range(len(self.levels)))

    def _toll(self, part: Part, t: int, parent: int, level: int) -> tuple[dict[int, int], int]:
        """Return the entry of `tolls`: what is read and written there, and what the wires between add."""
        output, first, last = self.tensors[t].is_output, self.above[parent], self.above[level]
        reads, writes = ([row[t] for row in side] + [0] for side in (part.read, part.write))
        ends, back = dict.fromkeys(range(first, last + 1), 0), reads[level] + writes[level]
        ends[first] += reads[parent] + output * writes[parent]
        ends[last] += writes[level] * (not output)
        for number in range(first, last):
            outer, inner, added = part.wires[number][t]
            ends[number] += outer - added
            ends[number + 1] += inner + added
            back += (outer + inner) * (level < len(self.levels))
        return {end: price for end, price in ends.items() if price}, back

    def ends(self, t: int, parent: int, level: int) -> list[int]:
        """Return where an element of a tensor costs anything on its way from a holder to the next level."""
        return sorted({end for part in range(len(self.parts)) for end in self.tolls[part, t, parent, level][0]})

    def bounded(self, totals: Sequence[int], prices: Sequence[Tile], steps: int) -> tuple[list[int], Lines]:
        """Return what the parts are at least, and lines, where the parts and what prices make of them cost `totals`:
        capacity is not free at these prices, and what a bandwidth passes is at most what the cycles allow."""
        lines, linear, compute = Lines(), self.measures[0].linear, -(-steps // self.per_cycle)
        first = 0 if linear else len(self.parts)
        for (unit, *others), total in zip(prices, totals[first:], strict=False):
            passed = dict[int, Fraction]()
            for price, part in zip(others[len(self.room) :], self.parts[1:], strict=False):
                passed[part.level] = passed.get(part.level, Fraction(0)) + price * (part.band or 0)
            each = [Fraction(0), *passed.values()]
            slope = sum(each) if self.overlap else max(each)
            paid = total - sum(price * (room or 0) for price, room in zip(others, self.room, strict=False))
            lines.append((Fraction(paid if self.overlap else paid + slope * compute) / unit, Fraction(slope) / unit))
        if linear and lines:
            return [ceil(lines[0][0]), *totals[1:]], []
        return [*totals[: len(self.parts)]], lines

    def value(self, parts: list[int], steps: int, number: int = 0, lines: Lines | None = None) -> int:
        """Return a measure, scaled, of component values and temporal steps; monotone in all of them."""
        return self.weakest(parts, steps, number, lines)[0]

    def weakest(self, parts: list[int], steps: int, number: int = 0, lines: Lines | None = None) -> tuple[int, int]:
        """Return the least value that parts, each or more, and lines allow, and the cycles where it is.

        Between two crossings of lines, one of them is above all others and the value falls nowhere or only after it
        has risen: (c + d x) x^power, above 0 from the first part on. Its least is at an end."""
        measure = self.measures[number]
        first = parts[measure.own[0]] + measure.fixed
        if measure.linear:
            return first, 0
        cycles, compute = dict[int, Fraction](), -(-steps // self.per_cycle)
        for band, level, amount in ((self.parts[i].band, self.parts[i].level, parts[i]) for i in measure.own[1:]):
            if band:
                cycles[level] = max(cycles.get(level, Fraction(0)), amount / band)
        latency = ceil(max([compute, *cycles.values()]) if self.overlap else compute + sum(cycles.values()))
        if not lines:
            return (first + measure.slope * latency) * latency**measure.power, latency
        every, points = [(Fraction(max(0, first)), Fraction(0)), *((a + measure.fixed, b) for a, b in lines)], {latency}
        for (a, b), (c, d) in combinations(every, 2):
            points |= {max(latency, end((a - c) / (b - d))) for end in (floor, ceil) if b != d}
        tops = [(max(a - b * x for a, b in every) + measure.slope * x, x) for x in sorted(points)]
        return min((ceil(top * x**measure.power), x) for top, x in tops)

    def allowed(self, parts: list[int], steps: int) -> bool:
        """Return whether component values and temporal steps are within all limits."""
        limits = enumerate(self.measures[1:], start=1)
        return all(self.value(parts, steps, number) <= (one.most or 0) for number, one in limits)

    def busy(self, steps: int) -> bool:
        """Return whether so many temporal steps make the utilization that is demanded."""
        return prod(self.extents) >= self.rules.share * -(-steps // self.per_cycle) * self.lanes


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

    def orders(self, below: int, d: int) -> list[Tile]:
        """Return the orders, as classes from outside, of the spatial loops over a window's dim right above a level,
        as far as they count unlike: neighbours that share loads alike keep their own."""
        kinds = {i: kind_of_fan(fan) for i, (fan, row) in enumerate(self.spread) if fan.below == below and row[d] > 1}
        alike = len({*kinds.values()}) < 2
        need(alike or len(kinds) <= 7, "more than 7 fan-outs between two levels share a window unlike")
        found = [tuple(kinds)] if alike else permutations(kinds)
        return [one for one in found if all(a < b or kinds[a] != kinds[b] for a, b in pairwise(one))]

    def instances(self, end: int) -> Any:
        """Return how many there are below so many classes of fan-outs."""
        return prod(factor for _, row in self.spread[:end] for factor in row)

    def zeros(self, t: int) -> int:
        """Return how many elements of a tensor start from zero."""
        tensor = self.problem.tensors[t]
        return prod(self.problem.extents[d] for d in tensor.dims) * (tensor.is_output and not tensor.initial)

    def start(self) -> list[int]:
        """Return, per part, the cost of the outermost level before any node: drains that find a copy still zero."""
        tensors = range(len(self.problem.tensors))
        return [-sum(self.zeros(t) * part.read[0][t] for t in tensors) for part in self.problem.parts]

    def node(self, t: int, state: Tile, level: int, loads: Any, passed: dict[int, Any]) -> list[Any]:
        """Return, per part, the cost of a node of `level` or of the compute units in a state (holder, levels to come).
        loads: by one instance in the whole run; passed: for these, what passes the `ends` on the way, per instance."""
        problem, (parent, *coming), zero, costs = self.problem, state, self.zeros(t), list[Any]()
        tensor, there, here = problem.tensors[t], self.factor(self.all, -1, parent), self.factor(self.all, -1, level)
        merged, inside = loads * (self.factor(tensor.dims, parent, level) * there), self.factor(tensor.dims, -1, level)
        for number, part in enumerate(problem.parts):
            prices, back = problem.tolls[number, t, parent, level]
            cost = sum(p * (passed[end] * (1 if part.band else self.instances(end))) for end, p in prices.items())
            if tensor.is_output and part.band:
                cost = cost + back * (loads - zero // inside)
            elif tensor.is_output:
                further = sum(problem.tolls[number, t, *way][1] for way in pairwise(coming))
                cost = cost + back * (merged - zero) - (loads * here - merged) * further
            costs.append(cost)
        return costs


def kind_of_fan(fan: Fanout) -> tuple[str, Any]:
    """Return what decides how a fan-out counts the loads that pass it."""
    return fan.merge, any(fan.wires) and fan.name


def wires_of(node: Any) -> tuple[Fraction, ...]:
    """Return what the wires of a fan-out cost: on a line of `size` links a word passes (size + 1) / 2 to reach one
    child, and all to reach every child at once."""
    if "hops" not in node:
        return (Fraction(0),) * 3
    word, hop, added = (rational(node[key]) for key in ("pj_per_word", "pj_per_word_hop", "reduce_pj"))
    outer, inner = (node["size"], Fraction(0)) if node["hops"] == "multicast" else (0, Fraction(node["size"] + 1, 2))
    return hop * outer, word + hop * inner, added


def spread(mask: int, count: int, stride: int) -> int:
    """Return a set (bit mask) united with its copies moved by stride, 2 stride, ... (count - 1) stride."""
    total, have = mask, 1
    while have < count:
        tick()
        more = min(have, count - have)
        total, have = total | total << more * stride, have + more
    return total


def sums(first: int, second: int) -> int:
    """Return the sums of an element of one set and one of the other."""
    total = 0
    while second:
        tick()
        total, second = total | first << (second & -second).bit_length() - 1, second & second - 1
    return total
