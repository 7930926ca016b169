"""Trees of a tiny program of several statements on any machine, written out, and what each costs: a referee of the
search of programs that shares no code with it.

A tree is loops, side by side or not, and branches. Each tensor alone gets its nodes in every way, and the simulator
says what it moves and takes so. What tensors move adds up, so all combinations are priced at once, energy and cycles
by the rules of docs/counting.md; the best of a question is asked of `evaluate` before it is believed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel.cost import Cost
from polymap.costmodel.counts import Counts, WireUse
from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.referees import count_by_simulation
from polymap.ir import (
    Architecture,
    Branch,
    Compute,
    Fanout,
    Hops,
    Mapping,
    MappingError,
    MappingNode,
    MemoryLevel,
    Spatial,
    Storage,
    Temporal,
    Workload,
)
from polymap.schedules.check import check_mapping

Nodes = tuple[MappingNode, ...]
Place = tuple[tuple[int, ...], int]  # of nodes: the children on the way to a sequence, and what they stand above in it
Held = tuple[tuple[Place, str], ...]  # places and levels of the nodes of a tensor
MOST = 60_000  # combinations of a tree
Line = NDArray[np.float64]  # of every combination


def loop_trees(rng: random.Random, work: Workload, arch: Architecture, tiles: str) -> Iterator[Nodes]:
    """Yield random trees without nodes of storage, without end."""
    names, extents = tuple(each.name for each in work.statements), work.extents()
    while True:
        yield _drawn(rng, work, arch.fanouts, names, extents, tiles)


def _drawn(
    rng: random.Random, work: Workload, free: Sequence[Fanout], group: tuple[str, ...], left: dict[str, int], tiles: str
) -> Nodes:
    """Return a random tree of neighbouring statements, so many indices of each dim being left."""
    dims = [set(work.statement(name).dims) for name in group]
    shared = [dim for dim in sorted(set.intersection(*dims)) if left[dim] > 1]
    if rng.random() < 0.1:  # what some statement does not have: rows that are made or read again
        shared = [dim for dim in sorted(set.union(*dims)) if left[dim] > 1]
    if len(group) == 1 and not shared:
        return (Compute(group[0]),)
    if shared and (len(group) == 1 or rng.random() < 0.6):
        dim = rng.choice(shared)
        own = [tile for tile in range(1, left[dim]) if tiles == "any" or left[dim] % tile == 0]
        tile = 1 if rng.random() < 0.5 else rng.choice(own)
        many = -(-left[dim] // tile)
        wide = [each for each in free if each.size >= many]
        inside = left | {dim: tile}
        if wide and rng.random() < 0.4:
            chosen = rng.choice(wide)
            rest = [replace(each, size=each.size // many) if each is chosen else each for each in free]
            return (Spatial(dim, tile, chosen.name), *_drawn(rng, work, rest, group, inside, tiles))
        return (Temporal(dim, tile), *_drawn(rng, work, free, group, inside, tiles))
    cut = rng.randint(1, len(group) - 1)
    parts = group[:cut], group[cut:]
    children = [_drawn(rng, work, free, part, left, tiles) for part in parts]
    flat = [each for child in children for each in (child[0].children if isinstance(child[0], Branch) else (child,))]
    return (Branch(tuple(flat)),)


def touches(work: Workload, nodes: Nodes, tensor: str) -> bool:
    last = nodes[-1]
    if isinstance(last, Branch):
        return any(touches(work, child, tensor) for child in last.children)
    assert isinstance(last, Compute)
    statement = work.statement(last.statement)
    return tensor in {statement.target.tensor, *(read.tensor for read in statement.reads)}


def holdings(work: Workload, arch: Architecture, nodes: Nodes, tensor: str) -> list[Held]:
    """Return where the nodes of a tensor may stand, as `holds` and `must_hold` allow."""
    may = [one for one in arch.levels[1:] if one.holds is None or tensor in one.holds]
    must = frozenset(one.name for one in may if tensor in one.must_hold)

    def go(nodes: Nodes, way: tuple[int, ...], at: int, first: int, held: frozenset[str]) -> Iterator[Held]:
        if not touches(work, nodes[at:], tensor):
            yield ()
            return
        for level in range(first, len(may)):
            for rest in go(nodes, way, at, level + 1, held | {may[level].name}):
                yield (((way, at), may[level].name), *rest)
        node = nodes[at]
        if isinstance(node, Compute):
            if must <= held:
                yield ()
        elif isinstance(node, Branch):
            ways = [[*go(child, (*way, number), 0, first, held)] for number, child in enumerate(node.children)]
            for chosen in product(*ways):
                yield tuple(each for one in chosen for each in one)
        else:
            yield from go(nodes, way, at + 1, first, held)

    return [*go(nodes, (), 0, 0, frozenset())]


def with_nodes(nodes: Nodes, held: dict[Place, list[Storage]], way: tuple[int, ...] = ()) -> Nodes:
    found: list[MappingNode] = []
    for at, node in enumerate(nodes):
        found += held.get((way, at), [])
        if isinstance(node, Branch):
            children = (with_nodes(child, held, (*way, number)) for number, child in enumerate(node.children))
            found.append(Branch(tuple(children)))
        else:
            found.append(node)
    return tuple(found)


def mapped(nodes: Nodes, arch: Architecture, held: dict[str, Held]) -> Mapping:
    """Return a tree with the nodes of all tensors."""
    order = {level.name: number for number, level in enumerate(arch.levels)}
    every = sorted(
        ((place, level, name) for name, own in held.items() for place, level in own), key=lambda each: each[0]
    )
    places = dict[Place, list[Storage]]()
    for place, level, name in sorted(every, key=lambda each: order[each[1]]):
        places.setdefault(place, []).append(Storage(level, (name,)))
    return Mapping(with_nodes(nodes, places))


@dataclass(frozen=True)
class Alone:
    """What one tensor does with its nodes somewhere: energy, bits read and written by level and by the busiest instance
    there, and bits held."""

    held: Held
    energy: Fraction
    words: tuple[int, ...]
    busy: tuple[int, ...]
    room: tuple[int, ...]


def alone(work: Workload, arch: Architecture, counts: Counts, tensor: str, held: Held) -> Alone:
    bits, energy = work.tensor(tensor).bits, Fraction(0)
    uses, words, busy = {use.level: use for use in counts.uses}, list[int](), list[int]()
    here = {level for _, level in held}
    for number, level in enumerate(arch.levels):
        rows = [row for row in counts.traffic if (row.level, row.tensor) == (level.name, tensor)]
        read, written = sum(row.reads for row in rows) * bits, sum(row.writes for row in rows) * bits
        energy += (read * level.read_pj + written * level.write_pj) / level.word_bits
        words.append(read + written)
        is_spread = number and level.name in here
        busy.append(uses[level.name].busiest_total_bits if is_spread else read + written)
    above = arch.levels[0]
    for node in arch.nodes:
        if isinstance(node, MemoryLevel):
            above = node
        if isinstance(node, Fanout):
            own = (use for use in counts.wires if (use.fanout, use.tensor) == (node.name, tensor))
            energy += sum(wire_energy(node, Fraction(bits, above.word_bits), use) for use in own)
    room = tuple(uses[level.name].occupancy_bits if level.name in here else 0 for level in arch.levels)
    return Alone(held, energy, tuple(words), tuple(busy), room)


def wire_energy(fanout: Fanout, words: Fraction, use: WireUse) -> Fraction:
    """Return the energy of what crosses a fan-out (docs/counting.md, "Wires"), so many words an element."""
    ends, sums = use.deliveries + use.collections, use.sums
    hops = (use.messages + sums) * fanout.size if fanout.hops is Hops.MULTICAST else ends * Fraction(fanout.size + 1, 2)
    return (
        words * (ends * fanout.pj_per_word + hops * fanout.pj_per_word_hop)
        + (use.collections - sums) * fanout.reduce_pj
    )


@dataclass
class Question:
    """An objective or several (an order or a front), limits of others, and which trees and holdings may be taken."""

    parts: tuple[str, ...]
    is_front: bool = False
    limits: dict[str, float] = field(default_factory=dict)
    is_tree: Callable[[Nodes], bool] = lambda _: True
    is_held: Callable[[str, Held], bool] = lambda _, __: True
    best: list[tuple[tuple[Fraction, ...], Mapping]] = field(default_factory=list)

    def is_beaten(self, values: tuple[float, ...]) -> bool:
        every = (tuple(map(float, known)) for known, _ in self.best)
        if self.is_front:
            return any(all(map(float.__le__, known, values)) for known in every)
        return any(known <= values for known in every)

    def add(self, values: tuple[Fraction, ...], mapping: Mapping) -> None:
        if not self.is_front:
            self.best = [(values, mapping)]
            return
        kept = [(known, one) for known, one in self.best if any(b > a for a, b in zip(known, values, strict=True))]
        self.best = [*kept, (values, mapping)]


def priced(work: Workload, cost: Cost, part: str) -> Fraction:
    """Return one objective of a cost."""
    energy, cycles = cost.energy_pj_exact, Fraction(cost.latency_cycles)
    name, _, level = part.partition(":")
    match name:
        case "traffic":
            rows = (row for row in cost.traffic if row.level == level)
            return Fraction(sum((row.reads + row.writes) * work.tensor(row.tensor).bits for row in rows))
        case "capacity":
            return Fraction(dict(cost.occupancy_bits)[level])
        case "weighted":
            pairs = (each.split("*") for each in level.split("+"))
            return sum((Fraction(weight) * priced(work, cost, one) for weight, one in pairs), Fraction(0))
        case _:
            return {"energy": energy, "latency": cycles, "edp": energy * cycles, "ed2p": energy * cycles**2}[name]


class Points:
    """The best answers of questions about a program on a machine, among the trees that were looked at."""

    def __init__(self, work: Workload, arch: Architecture, questions: Sequence[Question], rng: random.Random) -> None:
        self.work, self.arch, self.questions, self.rng = work, arch, questions, rng
        free = (replace(one, must_hold=()) if isinstance(one, MemoryLevel) else one for one in arch.nodes)
        self.free = replace(arch, nodes=tuple(free))
        self.room = [level.capacity_bits and level.capacity_bits // level.buffering for level in arch.levels]
        self.sums_up = all(
            not one.leak_pj_per_cycle and one.read_bandwidth_bits_per_cycle is None for one in arch.levels
        )
        self.trees = self.combinations = self.asked = 0

    def look(self, nodes: Nodes) -> None:
        """Look at all combinations of a tree; at some, one by one, where statements may run more than once."""
        try:
            check_mapping(self.work, self.free, Mapping(nodes))
        except MappingError:
            return
        self.trees += 1
        if runs_once(self.work, nodes) and evaluate(self.work, self.free, Mapping(nodes)).legal:
            self.combine(nodes)
        elif not runs_once(self.work, nodes):
            self.sample(nodes)

    def touched(self, nodes: Nodes) -> list[str]:
        return [tensor.name for tensor in self.work.tensors if touches(self.work, nodes, tensor.name)]

    def sample(self, nodes: Nodes, times: int = 12) -> None:
        every = {name: holdings(self.work, self.arch, nodes, name) for name in self.touched(nodes)}
        for _ in range(times if all(every.values()) else 0):
            held = {name: self.rng.choice(own) for name, own in every.items()}
            cost = self.cost(mapped(nodes, self.arch, held))
            if cost is not None and cost.legal:
                for question in self.questions:
                    self.offer(question, nodes, held, cost)

    def cost(self, mapping: Mapping) -> Cost | None:
        self.asked += 1
        try:
            return evaluate(self.work, self.arch, mapping)
        except MappingError:
            return None

    def offer(self, question: Question, nodes: Nodes, held: dict[str, Held], cost: Cost) -> bool:
        """Keep a legal mapping where it meets a question's rules and is better; return whether it meets them."""
        meets = question.is_tree(nodes) and all(question.is_held(name, own) for name, own in held.items())
        meets = meets and all(priced(self.work, cost, part) <= most for part, most in question.limits.items())
        values = tuple(priced(self.work, cost, part) for part in question.parts)
        if meets and not question.is_beaten(tuple(map(float, values))):
            question.add(values, mapped(nodes, self.arch, held))
        return meets

    def read(self, nodes: Nodes, name: str, most: int) -> list[Alone]:
        """Return what a tensor does in each way, of which some are chosen where they are many."""
        found, every = dict[tuple[object, ...], Alone](), holdings(self.work, self.arch, nodes, name)
        self.rng.shuffle(every)
        for held in sorted(every[: 3 * most], key=len):
            mapping = mapped(nodes, self.arch, {name: held})
            try:
                check_mapping(self.work, self.arch, mapping)
            except MappingError:
                continue
            one = alone(self.work, self.arch, count_by_simulation(self.work, self.arch, mapping), name, held)
            if all(most is None or bits <= most for bits, most in zip(one.room, self.room, strict=True)):
                kinds = frozenset(level for _, level in held)  # for rules
                found.setdefault((one.energy, one.words, one.busy, one.room, kinds), one)
        return self.rng.sample([*found.values()], min(most, len(found)))

    def combine(self, nodes: Nodes) -> None:
        names = self.touched(nodes)
        options = {name: self.read(nodes, name, min(30, max(4, int(MOST ** (1 / len(names)))))) for name in names}
        counts = count_by_simulation(self.work, self.free, Mapping(nodes))
        for question in self.questions:
            if not question.is_tree(nodes):
                continue
            own = [[one for one in options[name] if question.is_held(name, one.held)] for name in names]
            if all(own):
                self.ask(question, nodes, dict(zip(names, own, strict=True)), counts)

    def ask(
        self, question: Question, nodes: Nodes, own: dict[str, list[Alone]], counts: Counts, tries: int = 12
    ) -> None:
        """Look at a tree's combinations in their order, until none is better than what is known."""
        sums = Sums.of(self.work, self.arch, [*own.values()], counts)
        self.combinations += len(sums.energy)
        fits = np.ones(len(sums.energy), dtype=bool)
        for level, most in enumerate(self.room):
            fits &= most is None or sums.least_room[level] <= most
        for part, most in question.limits.items():
            fits &= sums.price(part) <= most
        values = [sums.price(part) for part in question.parts]
        order = np.lexsort(values[::-1])
        for number in order[fits[order]]:
            if question.is_beaten(tuple(float(value[number]) for value in values)):
                if question.is_front:
                    continue
                return
            held = sums.held(int(number), own)
            cost = self.cost(mapped(nodes, self.arch, held))
            if cost is None or not cost.legal:
                tries -= 1
            elif self.is_as_told(question, cost, [float(value[number]) for value in values]):
                tries -= not self.offer(question, nodes, held, cost)
            if not tries:
                return

    def is_as_told(self, question: Question, cost: Cost, told: list[float]) -> bool:
        """Return True: a cost is the sum of what was said of tensors one by one; what several hold is no more."""
        for part, value in zip(question.parts, told, strict=True):
            own = float(priced(self.work, cost, part))
            sums_up = own <= value if part.startswith("capacity") else own == value or not self.sums_up
            assert sums_up, (part, own, value, cost.mapping)
        return True


@dataclass(frozen=True)
class Sums:
    """All combinations of the ways of tensors: energy, bits by level, bits of the busiest instance and bits held."""

    arch: Architecture
    steps: int
    energy: Line
    words: list[Line]
    busy: list[Line]
    room: list[Line]
    least_room: list[Line]

    @staticmethod
    def of(work: Workload, arch: Architecture, own: list[list[Alone]], counts: Counts) -> Sums:
        def total(read: Callable[[Alone], object], join: np.ufunc = np.add) -> Line:
            found = np.zeros(1)
            for ways in own:
                found = join.outer(found, np.array([float(read(one)) for one in ways])).ravel()  # type: ignore[arg-type]
            return found

        unit, levels = arch.compute, range(len(arch.levels))
        energy = total(lambda one: one.energy) + float(counts.instances * unit.pj)
        words, busy, room = (
            [total(lambda one, level=level, what=what: getattr(one, what)[level]) for level in levels]
            for what in ("words", "busy", "room")
        )
        least = [total(lambda one, level=level: one.room[level], np.maximum) for level in levels]
        return Sums(arch, counts.steps, energy, words, busy, room, least)

    def held(self, number: int, own: dict[str, list[Alone]]) -> dict[str, Held]:
        places = np.unravel_index(number, [len(ways) for ways in own.values()])
        return {name: own[name][int(at)].held for name, at in zip(own, places, strict=True)}

    def cycles(self) -> Line:
        """Return the latency on machines without leakage whose bandwidths are shared by reads and writes."""
        compute = -(-self.steps // self.arch.compute.per_cycle)
        each = [np.full(len(self.energy), float(compute))]
        for level, bits in zip(self.arch.levels, self.busy, strict=True):
            if level.bandwidth_bits_per_cycle is not None:
                each.append(bits / float(level.bandwidth_bits_per_cycle))
        return np.ceil(np.max(each, axis=0) if self.arch.overlap else np.sum(each, axis=0))

    def price(self, part: str) -> Line:
        name, _, level = part.partition(":")
        number = next((at for at, one in enumerate(self.arch.levels) if one.name == level), 0)
        match name:
            case "weighted":
                pairs = (each.split("*") for each in level.split("+"))
                return sum((float(weight) * self.price(one) for weight, one in pairs), np.zeros(len(self.energy)))
            case "traffic":
                return self.words[number]
            case "capacity":
                return self.room[number]
            case "energy":
                return self.energy
            case _:
                power = {"latency": 0, "edp": 1, "ed2p": 2}[name]
                return self.cycles() if not power else self.energy * self.cycles() ** power


def runs_once(work: Workload, nodes: Nodes, above: frozenset[str] = frozenset()) -> bool:
    """Return whether no statement stands below a loop over a dim that it lacks."""
    dims = above | {node.dim for node in nodes if isinstance(node, (Temporal, Spatial))}
    last = nodes[-1]
    if isinstance(last, Branch):
        return all(runs_once(work, child, dims) for child in last.children)
    assert isinstance(last, Compute)
    return dims <= set(work.statement(last.statement).dims)
