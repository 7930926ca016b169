"""A cheap bound of a structure: every tensor at its own best, as if the others were not there.

Loops over dims that a tensor lacks then stand inside all its nodes and cost nothing, so only its own dims matter, and
structures that agree on them share the answer.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from polymap.search.bound import costs_inside, root_bound
from polymap.search.constraints import concerning
from polymap.search.lattice import IntArray, lattice_below
from polymap.search.loads import Setting
from polymap.search.objective import BARRED, Measure
from polymap.search.problem import Problem, TensorTerm
from polymap.search.spread import Context, Spread
from polymap.search.structure import Structure
from polymap.search.tables import FORBIDDEN, Edge, Tables, TensorTable, tensor_table, zero_start

Key = tuple[int, tuple[tuple[tuple[int, ...], int], ...]]


class ApartBounds:
    """Bounds tensor by tensor, remembered per what a tensor sees of a structure."""

    def __init__(self, problem: Problem, measure: Measure) -> None:
        self._problem = problem
        self._measure = measure
        self._known: dict[Key, tuple[int, ...]] = {}

    def bound(self, structure: Structure) -> int | None:
        """Return a lower bound of the objective (scaled) over all mappings of the structure (None: none fits)."""
        problem, measure = self._problem, self._measure
        parts = [0] * len(measure.components)
        for term in problem.terms:
            own = self._term(structure, term)
            for c, component in enumerate(measure.components):
                if own[c] >= FORBIDDEN // 2:
                    return None
                parts[c] += own[c] + zero_start(term, component)
        steps = prod(extent // structure.used(d) for d, extent in enumerate(problem.extents))
        value = measure.value(tuple(parts), -(-steps // problem.arch.compute.per_cycle))
        return value if value < BARRED else None

    def _term(self, structure: Structure, term: TensorTerm) -> tuple[int, ...]:
        mine = [d for d, dim in enumerate(self._problem.dims) if dim in term.dims]
        key = (term.index, tuple((tuple(row[d] for d in mine), prod(row)) for row in structure.classes))
        if key not in self._known:
            self._known[key] = self._least(structure, term)
        return self._known[key]

    def _least(self, structure: Structure, term: TensorTerm) -> tuple[int, ...]:
        problem, measure = self._problem, self._measure
        problem = replace(problem, rules=concerning(problem.rules, term.dims))
        real = {dim: extent // structure.used(d) for d, (dim, extent) in enumerate(_extents(problem))}
        whole = {dim: tile if dim in term.dims else 1 for dim, tile in real.items()}
        context = Context((tuple(whole.values()),), ())
        lattice = lattice_below(tuple(whole.items()))
        spread = Spread(problem, structure, ())
        setting = Setting(problem, measure, lattice, spread, context, whole, prod(real.values()))
        table = _either_way(tensor_table(setting, term))
        alone = replace(problem, terms=(term,))
        tables = Tables(alone, structure, measure, context, lattice, (table,), (0,) * len(measure.components), 1)
        free = (0,) * problem.level_count
        return tuple(root_bound(tables, costs_inside(tables, c, free, 1))[0] for c in range(len(measure.components)))


def _extents(problem: Problem) -> tuple[tuple[str, int], ...]:
    return tuple(zip(problem.dims, problem.extents, strict=True))


def _either_way(table: TensorTable) -> TensorTable:
    """Return the table with every node at the cheaper of standing above and below free spatial loops."""
    return replace(table, edges=tuple(_cheaper(edge) for edge in table.edges))


def _cheaper(edge: Edge) -> Edge:
    if edge.costs_crossed is None:
        return edge
    costs = tuple(_least(a, b) for a, b in zip(edge.costs, edge.costs_crossed, strict=True))
    bits = edge.bits if edge.bits_crossed is None else _least(edge.bits, edge.bits_crossed)
    return replace(edge, costs=costs, bits=bits)


def _least(first: IntArray, second: IntArray) -> IntArray:
    return np.minimum(first, second)
