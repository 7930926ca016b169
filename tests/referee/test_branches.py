"""Trees with branches against a recursive reading of docs/counting.md: a node's tile changes where the walk passes it,
what stands in a child of a branch is emptied when the child ends, and what is dead is dropped.

The referee runs the tree node by node, as nested calls; it shares no code with the simulator, which sorts all statement
instances by their clock. It is for machines without fan-outs.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from polymap.costmodel.referees import count_by_simulation
from polymap.inputs import arch_from_document
from polymap.ir.loopnest import Operator, Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Storage, Temporal
from polymap.schedules.check import check_mapping
from polymap.search.programs.shapes import mapping_of_shape
from tests.programs import random_chain, random_program
from tests.shapes import random_nodes, random_shape
from tests.times import few

MACHINE = arch_from_document(
    {"name": "three", "nodes": [{"level": "DRAM"}, {"level": "L2"}, {"level": "L1"}, {"compute": "PE"}]}
)
Element = tuple[int, ...]
Indices = dict[str, tuple[int, int]]  # per dim the first index and how many
Use = tuple[str, Element, str]  # tensor, element, "read", "add" or "set"


@dataclass
class Walk:
    """One run of a tree. held: per node and tensor, element -> whether the copy differs from the one above. begun: the
    elements with a value: initial, or touched so far."""

    work: Workload
    arch: Architecture
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    held: dict[tuple[int, str], dict[Element, bool]] = field(default_factory=dict)
    levels: dict[int, str] = field(default_factory=dict)
    peak: Counter[str] = field(default_factory=Counter)
    time: int = 0
    last_use: dict[tuple[str, Element], int] = field(default_factory=dict)
    begun: set[tuple[str, Element]] = field(default_factory=set)

    def start(self, nodes: tuple[MappingNode, ...]) -> None:
        whole = {dim.name: (0, dim.extent) for dim in self.work.dims}
        for time, (_, uses) in enumerate(self.steps(nodes, whole)):
            for tensor, element, kind in uses:
                if kind != "set":
                    self.last_use[tensor, element] = time
        self.levels[-1] = self.arch.levels[0].name
        for tensor in self.work.tensors:
            self.held[-1, tensor.name] = {}
            if tensor.initial:
                touched = {e for _, uses in self.steps(nodes, whole) for name, e, _ in uses if name == tensor.name}
                self.held[-1, tensor.name] = dict.fromkeys(touched, True)
                self.begun |= {(tensor.name, element) for element in touched}
        self.run(nodes, whole, {tensor.name: -1 for tensor in self.work.tensors})
        self.empty(nodes, {tensor.name: -1 for tensor in self.work.tensors})

    def steps(self, nodes: tuple[MappingNode, ...], at: Indices) -> Iterator[tuple[str, list[Use]]]:
        """Yield the statement instances below some nodes, with what each uses in order."""
        node, rest = nodes[0], nodes[1:]
        match node:
            case Storage():
                yield from self.steps(rest, at)
            case Temporal():
                for inside in self.iterations(node, at):
                    yield from self.steps(rest, inside)
            case Branch():
                for child in node.children:
                    yield from self.steps(child, at)
            case Compute():
                yield from self.instance(node.statement, at)
            case _:
                raise AssertionError("no spatial loops here")

    def iterations(self, node: Temporal, at: Indices) -> Iterator[Indices]:
        low, size = at[node.dim]
        for begin in range(low, low + size, node.tile):
            yield {**at, node.dim: (begin, min(node.tile, low + size - begin))}

    def instance(self, name: str, at: Indices) -> Iterator[tuple[str, list[Use]]]:
        statement = self.work.statement(name)
        if any(at[dim.name][0] > 0 for dim in self.work.dims if dim.name not in statement.dims):
            return  # below a loop that it lacks, in the first iteration alone
        point = {dim: at[dim][0] for dim in statement.dims}
        if all(constraint.evaluate(point) >= 0 for constraint in statement.constraints):
            uses = [(each.tensor, tuple(i.evaluate(point) for i in each.index), "read") for each in statement.reads]
            kind = "set" if statement.operator is Operator.ASSIGN else "add"
            target = tuple(index.evaluate(point) for index in statement.target.index)
            yield name, [*uses, (statement.target.tensor, target, kind)]

    def run(self, nodes: tuple[MappingNode, ...], at: Indices, way: dict[str, int]) -> None:
        node, rest = nodes[0], nodes[1:]
        match node:
            case Storage():
                inner = dict(way)
                if any(True for _ in self.steps(rest, at)):  # steps without work do not exist
                    self.settle(nodes, at, way)
                    for tensor in node.tensors if node.level != self.arch.levels[0].name else ():
                        self.levels[id(node)] = node.level
                        self.change(id(node), tensor, self.tile(tensor, rest, at), way[tensor])
                        inner[tensor] = id(node)
                else:
                    inner |= {tensor: id(node) for tensor in node.tensors if node.level != self.arch.levels[0].name}
                self.run(rest, at, inner)
            case Temporal():
                for inside in self.iterations(node, at):
                    self.run(rest, inside, way)
            case Branch():
                for child in node.children:
                    self.run(child, at, way)
                    self.empty(child, way)
            case Compute():
                for _, uses in self.instance(node.statement, at):
                    self.measure()
                    self.compute(uses, way)
                    self.time += 1
            case _:
                raise AssertionError("no spatial loops here")

    def settle(self, nodes: tuple[MappingNode, ...], at: Indices, way: dict[str, int]) -> None:
        """Let leave, from the inside out, what the next step's tiles do not hold. Nodes inside a branch are empty."""
        node, rest = nodes[0], nodes[1:]
        if isinstance(node, Temporal):
            works = (inside for inside in self.iterations(node, at) if any(True for _ in self.steps(rest, inside)))
            self.settle(rest, next(works), way)
        elif isinstance(node, Storage):
            held = node.tensors if node.level != self.arch.levels[0].name else ()
            self.settle(rest, at, way | dict.fromkeys(held, id(node)))
            for tensor in held:
                self.leave(id(node), tensor, self.tile(tensor, rest, at), way[tensor])

    def tile(self, tensor: str, nodes: tuple[MappingNode, ...], at: Indices) -> dict[Element, str]:
        """Return the elements touched below, with how each is used first."""
        first: dict[Element, str] = {}
        for _, uses in self.steps(nodes, at):
            for name, element, kind in uses:
                if name == tensor:
                    first.setdefault(element, kind)
        return first

    def empty(self, nodes: tuple[MappingNode, ...], way: dict[str, int]) -> None:
        """Empty the nodes that stand in a child of a branch that ends, the inner ones first."""
        node, rest = nodes[0], nodes[1:]
        if isinstance(node, Compute):
            return
        inner = dict(way)
        if isinstance(node, Storage) and node.level != self.arch.levels[0].name:
            inner |= dict.fromkeys(node.tensors, id(node))
        for child in node.children if isinstance(node, Branch) else (rest,):
            self.empty(child, inner)
        if isinstance(node, Storage) and node.level != self.arch.levels[0].name:
            for tensor in node.tensors:
                self.leave(id(node), tensor, {}, way[tensor])

    def sums(self, tensor: str) -> bool:
        """Return whether partial sums move: the program only accumulates into the tensor, with one operator."""
        written = {each.operator for each in self.work.statements if each.target.tensor == tensor}
        read = any(access.tensor == tensor for each in self.work.statements for access in each.reads)
        return not read and len(written) == 1 and Operator.ASSIGN not in written

    def is_written(self, tensor: str) -> bool:
        return any(each.target.tensor == tensor for each in self.work.statements)

    def change(self, node: int, tensor: str, tile: dict[Element, str], above: int) -> None:
        held, level = self.held.setdefault((node, tensor), {}), self.levels[node]
        for element, first in tile.items():
            if element in held:
                continue
            held[element] = False
            if self.sums(tensor):
                copies = self.held[above, tensor]
                held[element] = copies.get(element, False)
                copies[element] = False
            is_loaded = first == "read" or (first == "add" and (tensor, element) in self.begun)
            if held[element] or (not self.sums(tensor) and is_loaded):
                self.note(self.levels[above], tensor, "read")
                self.note(level, tensor, "write", "fill")

    def leave(self, node: int, tensor: str, tile: dict[Element, str], above: int) -> None:
        held = self.held.get((node, tensor), {})
        for element in [element for element in held if element not in tile]:
            changed = held.pop(element)
            is_dead = self.work.tensor(tensor).temporary and self.last_use.get((tensor, element), -1) < self.time
            if is_dead or not self.is_written(tensor) or not changed:
                continue
            self.note(self.levels[node], tensor, "read", "drain")
            self.add(above, tensor, element)

    def add(self, holder: int, tensor: str, element: Element) -> None:
        """Let a value arrive at a copy: it replaces an older one, or is added to a partial sum."""
        copies = self.held.setdefault((holder, tensor), {})
        self.note(self.levels[holder], tensor, "write")
        if self.sums(tensor) and copies.get(element, False):
            self.note(self.levels[holder], tensor, "read")
        copies[element] = True

    def compute(self, uses: list[Use], way: dict[str, int]) -> None:
        for tensor, element, kind in uses:
            holder = way[tensor]
            had_a_value = (tensor, element) in self.begun
            self.begun.add((tensor, element))
            if kind == "read":
                self.note(self.levels[holder], tensor, "read")
                continue
            if kind == "add" and had_a_value and not self.sums(tensor):
                self.note(self.levels[holder], tensor, "read")
            self.add(holder, tensor, element)

    def measure(self) -> None:
        bits: Counter[str] = Counter()
        for (node, tensor), held in self.held.items():
            bits[self.levels[node]] += len(held) * self.work.tensor(tensor).bits if node != -1 else 0
        for level, amount in bits.items():
            self.peak[level] = max(self.peak[level], amount)

    def note(self, level: str, tensor: str, *kinds: str) -> None:
        for kind in kinds:
            self.counts[level, tensor, kind] += 1


def check(work: Workload, mapping: Mapping) -> None:
    check_mapping(work, MACHINE, mapping)
    walk = Walk(work, MACHINE)
    walk.start(mapping.nodes)
    counts = count_by_simulation(work, MACHINE, mapping)
    for row in counts.traffic:
        seen = [walk.counts[row.level, row.tensor, kind] for kind in ("read", "write", "fill", "drain")]
        assert seen == [row.reads, row.writes, row.fills, row.drains], (row, seen)
    for use in counts.uses[1:]:
        assert walk.peak[use.level] == use.occupancy_bits


@pytest.mark.parametrize("block", few(range(6), 3))
def test_the_simulator_counts_what_running_the_tree_node_by_node_counts(block: int) -> None:
    for seed in range(10 * block, 10 * block + 10):
        rng = random.Random(f"branches {seed}")
        work = random_program(rng) if seed % 2 else random_chain(rng)
        shape = random_shape(rng, work)
        check(work, mapping_of_shape(shape, random_nodes(rng, work, MACHINE, shape)))
