"""What trees with tiles of any size are worth: how far beyond the machine's limits, and their value, as floats.

Where the objective is energy without cycles, tensors are counted one by one and remembered: many changes of a tree
leave most of them as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil, inf, prod

from polymap.costmodel import Cost
from polymap.costmodel.closed_form import counts_of_tensor, machine_model, nest_of, workload_model
from polymap.ir import Access, Architecture, Compute, Mapping, Spatial, Storage, accesses_of
from polymap.search.problem import Goal, Objective, Problem, exact_score, wire_energies
from polymap.search.trees.tree_edits import Nodes, TreeEdits, TreeNode
from polymap.search.trees.tuning import TUNING

# How far it is beyond the limits and from meeting the rules; its value; its energy, which tells equal values apart.
Worth = tuple[float, float, float]
BrokenRules = Callable[[Mapping, Cost], float]

# Of one tensor: its energy in pJ, and the bits of the largest tile per level.
_Part = tuple[float, tuple[tuple[int, int], ...]]


class TreeScores:
    """The worth of trees of one problem. broken: how far a mapping is from meeting the rules.

    scored: how many trees were counted.
    """

    def __init__(self, problem: Problem, objective: Objective, edits: TreeEdits, broken: BrokenRules) -> None:
        self._problem, self._arch, self._objective = problem, problem.arch, objective
        self._edits, self._broken = edits, broken
        self._end = Compute(problem.workload.statements[0].name)
        self._model, self._machine = workload_model(problem.workload), machine_model(problem.arch)
        in_parts = objective.goal is Goal.ENERGY and not problem.rules and not is_timed(self._arch, objective)
        self._is_simple = in_parts and self._model is not None and problem.reason is None
        self._known: dict[tuple[int, tuple[TreeNode, ...]], _Part | None] = {}
        self._worths: dict[tuple[Nodes, float | None], Worth | None] = {}
        self._room = [(level.buffering, level.capacity_bits) for level in self._arch.levels]
        self._numbers = {level.name: number for number, level in enumerate(self._arch.levels)}
        self._sizes = {fanout.name: fanout.size for fanout in self._arch.fanouts}
        statement = problem.workload.statements[0]
        self._axes = {
            tensor.name: _axes(accesses_of(statement, tensor.name), tensor.bits) for tensor in problem.workload.tensors
        }
        self._moves = {
            (number, tensor.name): (float(level.access_pj(tensor.bits, 0)), float(level.access_pj(0, tensor.bits)))
            for number, level in enumerate(self._arch.levels)
            for tensor in problem.workload.tensors
        }
        self._wires = [[[*map(float, pj)] for pj in row] for row in wire_energies(problem.workload, self._arch)]
        self.scored = 0
        self.enough: float | None = None
        """A value of which it need not be known by how much it is exceeded."""

    def excess(self, nodes: Nodes) -> float:
        """Return how far a tree is beyond fan-outs and capacities by the sizes of whole tiles; inf beyond fan-outs."""
        now = dict(self._edits.extents)
        used = dict.fromkeys(self._sizes, 1)
        held = [0] * len(self._room)
        for node in nodes:
            if isinstance(node, Storage):
                held[self._numbers[node.level]] += self.tile_bits(node.tensors[0], now)
            elif node.tile < now[node.dim]:
                if isinstance(node, Spatial):
                    used[node.fanout] *= ceil(now[node.dim] / node.tile)
                now[node.dim] = node.tile
        if any(used[name] > size for name, size in self._sizes.items()):
            return inf
        return self._overfull(held)

    def worth(self, nodes: Nodes) -> Worth | None:
        """Return what a tree is worth; None where it is not counted."""
        self.scored += 1
        if self._is_simple:
            return self._simple_worth(nodes)
        key = nodes, self.enough
        if key not in self._worths:
            if len(self._worths) >= TUNING.most_remembered:
                self._worths.clear()
            self._worths[key] = self._any_worth(nodes)
        return self._worths[key]

    def tile_bits(self, tensor: str, now: dict[str, int]) -> int:
        """Return the bits of a tensor's tile."""
        alone, windows, size = self._axes[tensor]
        for dim in alone:
            size *= now[dim]
        for axis in windows:
            reach = 1 + sum(factor * (now[dim] - 1) for dim, factor in axis)
            size *= min(reach, prod(now[dim] for dim, _ in axis))
        return size

    def _overfull(self, held: list[int]) -> float:
        return sum(
            max(0.0, bits * buffering / room - 1)
            for bits, (buffering, room) in zip(held, self._room, strict=True)
            if room is not None
        )

    def _any_worth(self, nodes: Nodes) -> Worth | None:
        mapping = self._edits.mapping_of(nodes)
        enough = None if self.enough is None else Fraction(self.enough)
        score = exact_score(self._problem.workload, self._arch, self._objective, mapping, enough)
        if score is None:
            return None
        broken = self._broken(mapping, score.cost) if self._problem.rules else 0
        return float(score.excess) + broken, float(score.value), float(score.cost.energy_pj_exact)

    def _simple_worth(self, nodes: Nodes) -> Worth | None:
        assert self._model is not None
        energy = float(self._arch.compute.pj) * prod(self._model.extents)
        held = [0] * len(self._room)
        for number, tensor in enumerate(self._model.tensors):
            own = tuple(node for node in nodes if not isinstance(node, Storage) or node.tensors[0] == tensor.name)
            key = number, own
            if key not in self._known:
                if len(self._known) >= TUNING.most_remembered:
                    self._known.clear()
                self._known[key] = self._part(own, number)
            part = self._known[key]
            if part is None:
                return None
            energy += part[0]
            for level, bits in part[1]:
                held[level] += bits
        return self._overfull(held), energy, 0.0

    def _part(self, nodes: tuple[TreeNode, ...], number: int) -> _Part | None:
        """Return what one tensor costs and holds in a tree."""
        assert self._model is not None
        tensor = self._model.tensors[number]
        nest = nest_of(self._model, self._machine, Mapping((*nodes, self._end)))
        counted = None if nest is None else counts_of_tensor(self._model, self._machine, nest, tensor)
        if counted is None:
            return None
        rows, wires = counted
        energy = 0.0
        for row in rows:
            read, write = self._moves[row.level, tensor.name]
            energy += row.reads * read + row.writes * write
        for wire in wires:
            prices = self._wires[wire.fanout][number]
            energy += sum(price * amount for price, amount in zip(prices, wire[2:], strict=True))
        return energy, tuple((row.level, row.tile * tensor.bits) for row in rows if row.level)


def _axes(accesses: Sequence[Access], bits: int) -> tuple[list[str], list[tuple[tuple[str, int], ...]], int]:
    """Return the dims that are axes of a tensor alone, dims and factors of each of its other axes, and the bits of an
    element; no axes and 0 bits where its tiles are no product of these."""
    if len(accesses) != 1 or not all(index.is_linear for index in accesses[0].index):
        return [], [], 0
    axes = [tuple((dim, abs(c)) for dim, c in index.coefficients().items()) for index in accesses[0].index]
    return [axis[0][0] for axis in axes if len(axis) == 1], [axis for axis in axes if len(axis) != 1], bits


def is_timed(arch: Architecture, objective: Objective) -> bool:
    """Return whether cycles enter the objective."""
    leaks = any(level.leak_pj_per_cycle for level in arch.levels)
    return leaks or any(
        one.goal is Goal.WEIGHTED or (one.goal.powers is not None and one.goal.powers.cycles > 0)
        for one in objective.singles
    )
