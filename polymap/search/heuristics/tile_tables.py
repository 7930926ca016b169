"""The best of many tables of tiles near those of one tree: a few thousand rows are scored at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel.tables import CostArrays, TileTables
from polymap.ir import Architecture, Compute, Mapping, MemoryLevel, Spatial, Storage, Temporal, Workload, accesses_of
from polymap.search.heuristics.near_tiles import rows_near
from polymap.search.heuristics.tree_edits import Nodes, TreeNode, with_tile
from polymap.search.heuristics.tuning import Tuning
from polymap.search.problem import AtMost, Goal, Objective

Worth = tuple[float, float]  # how far it is beyond capacities, its value
Table = NDArray[np.int64]
Floats = NDArray[np.float64]


def objective_floats(workload: Workload, objective: Objective, costs: CostArrays) -> Floats:
    """Return the objective of many costs, in its unit; of an order or a front the first part's."""
    powers = objective.goal.powers
    if powers:
        return costs.energy_pj**powers.energy * costs.latency_cycles.astype(np.float64) ** powers.cycles
    found: Floats = np.zeros(len(costs.legal))
    if objective.goal is Goal.WEIGHTED:
        for weight, part in objective.parts:
            found += float(weight) * objective_floats(workload, part, costs)
        return found
    if objective.goal is Goal.TRAFFIC:
        for row in costs.traffic:
            if row.level == objective.level:
                found += (row.reads + row.writes).astype(np.float64) * workload.tensor(row.tensor).bits
        return found
    if objective.goal is Goal.CAPACITY:
        return dict(costs.occupancy_bits)[objective.level or ""].astype(np.float64)
    return objective_floats(workload, objective.singles[0], costs)


def without_bandwidth(arch: Architecture) -> Architecture:
    """Return the machine without limits of bandwidth: where cycles do not matter it is counted faster."""
    nothing = {f"{kind}bandwidth_bits_per_cycle": None for kind in ("", "read_", "write_")}
    nodes = tuple(replace(node, **nothing) if isinstance(node, MemoryLevel) else node for node in arch.nodes)
    return replace(arch, nodes=nodes)


@dataclass(frozen=True)
class TableSearch:
    """What tables of tiles are scored by."""

    workload: Workload
    arch: Architecture
    objective: Objective
    tuning: Tuning
    limits: tuple[AtMost, ...] = ()

    @cached_property
    def axes(self) -> dict[str, list[dict[str, int]]]:
        """Return the coefficients of each axis of each tensor."""
        statement = self.workload.statements[0]
        return {
            tensor.name: [
                index.coefficients() for access in accesses_of(statement, tensor.name) for index in access.index
            ]
            for tensor in self.workload.tensors
        }

    @cached_property
    def window_dims(self) -> frozenset[str]:
        """Return the dims that share an axis with others."""
        return frozenset(dim for axes in self.axes.values() for axis in axes if len(axis) > 1 for dim in axis)

    def best_near(self, nodes: Nodes, rows: int, rounds: int, rng: np.random.Generator) -> tuple[Worth, Nodes] | None:
        """Return the best tree with these nodes and tiles near theirs, after at most so many rounds that score so many
        rows; None where none can be counted. Raises MappingError where the tree is no program."""
        tree = Mapping((*nodes, Compute(self.workload.statements[0].name)))
        tables = TileTables(self.workload, self.arch, tree)
        shape = _Shape(self, nodes)
        now, best = shape.tiles, None
        for _ in range(rounds):
            table = shape.near(now, rows, rng)
            table = np.unique(np.concatenate([now[None], table]), axis=0)
            worth, row = self._best_row(tables, table)
            if best is not None and worth >= best:
                break
            best, now = worth, row
        if best is None or best[0] == np.inf:
            return None
        return best, shape.with_tiles(now)

    def _best_row(self, tables: TileTables, table: Table) -> tuple[Worth, Table]:
        costs, counted = tables.costs(table)
        excess: Floats = np.zeros(len(table))
        held = dict(costs.occupancy_bits)
        for level in self.arch.levels:
            if level.capacity_bits is not None and level.name in held:
                full = held[level.name].astype(np.float64) * level.buffering / level.capacity_bits
                excess += np.maximum(full - 1, 0)
        excess[~counted | ((excess == 0) & ~costs.legal)] = np.inf
        for limit in self.limits:
            beyond = objective_floats(self.workload, limit.objective, costs) - float(limit.most)
            excess += np.maximum(beyond / (float(limit.most) or 1), 0)
        value = objective_floats(self.workload, self.objective, costs)
        best = np.lexsort((value, excess))[0]
        return (float(excess[best]), float(value[best])), table[best]


class _Shape:
    """The nodes of a tree, and where its loops stand in a row of tiles."""

    def __init__(self, search: TableSearch, nodes: Nodes) -> None:
        self._search, self._nodes = search, nodes
        self._loops = [node for node in nodes if not isinstance(node, Storage)]
        self.tiles: Table = np.array([loop.tile for loop in self._loops], dtype=np.int64)
        self._extents = search.workload.extents()
        self._columns: dict[str, list[int]] = {}
        for column, loop in enumerate(self._loops):
            self._columns.setdefault(loop.dim, []).append(column)

    def with_tiles(self, row: Table) -> Nodes:
        """Return the nodes with other tiles."""
        left = iter(row.tolist())
        return tuple(node if isinstance(node, Storage) else with_tile(node, next(left)) for node in self._nodes)

    def near(self, now: Table, most: int, rng: np.random.Generator) -> Table:
        """Return rows that differ in the tiles of one dim, and drawn ones that differ in two, that may fit."""
        choices = {dim: self._choices(dim, now, rng) for dim in self._columns}
        singles = np.repeat(now[None], sum(len(rows) for rows in choices.values()), axis=0)
        start = 0
        for dim, rows in choices.items():
            singles[start : start + len(rows), self._columns[dim]] = rows
            start += len(rows)
        if not len(singles):
            return singles
        fits = self._may_fit(singles)
        # What one change brings beyond a limit another one may bring back.
        tuning = self._search.tuning
        pairs = [self._with_another(base, choices, rng) for base in self._drawn(singles, fits, tuning.pairs_drawn, rng)]
        pairs = [rows[self._may_fit(rows)] for rows in pairs]
        room = max(0, most - int(fits.sum()))
        first = pairs[0][: max(room * 2 // 3, room - len(pairs[1]))]
        return np.concatenate([singles[fits], first, pairs[1][: room - len(first)]])

    def _drawn(
        self, singles: Table, fits: NDArray[np.bool_], counts: tuple[int, int], rng: np.random.Generator
    ) -> list[Table]:
        """Return drawn rows: of those that do not fit, and of all."""
        return [
            base[rng.integers(0, len(base), count)] if len(base) else base
            for base, count in zip((singles[~fits], singles), counts, strict=True)
        ]

    def _choices(self, dim: str, now: Table, rng: np.random.Generator) -> Table:
        """Return other tiles of the loops over a dim. Few where rows take long to count: windows, several fan-outs."""
        columns = self._columns[dim]
        found = rows_near(self._extents[dim], tuple(now[columns].tolist()))
        spread = sum(isinstance(self._loops[column], Spatial) for column in columns)
        most = self._search.tuning.rows_per_dim[(dim in self._search.window_dims) + (spread > 1)]
        if len(found) > most:
            kept: list[int] = np.sort(rng.choice(len(found), most, replace=False)).tolist()
            found = [found[place] for place in kept]
        return np.array(found, dtype=np.int64).reshape(len(found), len(columns))

    def _with_another(self, rows: Table, choices: dict[str, Table], rng: np.random.Generator) -> Table:
        """Return the rows with the tiles of one drawn dim changed, each in a drawn way."""
        dims = rng.integers(0, len(choices), len(rows))
        for number, (dim, others) in enumerate(choices.items()):
            where = np.flatnonzero(dims == number)
            if len(where) and len(others):
                drawn = others[rng.integers(0, len(others), len(where))]
                rows[where[:, None], np.array(self._columns[dim])] = drawn
        return rows

    def _may_fit(self, table: Table) -> NDArray[np.bool_]:
        """Return which rows are within the fan-outs and, by the sizes of whole tiles, within the capacities."""
        tiles: dict[str, Table] = {dim: np.full(len(table), extent) for dim, extent in self._extents.items()}
        trips: dict[str, Floats] = {}
        bits: dict[str, Floats] = {}
        columns = iter(table.T)
        for node in self._nodes:
            if isinstance(node, Storage):
                bits[node.level] = bits.get(node.level, 0) + self._bits(node, tiles)
                continue
            inner = next(columns)
            if isinstance(node, Spatial):
                trips[node.fanout] = trips.get(node.fanout, 1) * np.ceil(tiles[node.dim] / inner)
            tiles[node.dim] = inner
        fits: NDArray[np.bool_] = np.ones(len(table), dtype=np.bool_)
        for fanout in self._search.arch.fanouts:
            fits &= trips.get(fanout.name, 1) <= np.float64(fanout.size)
        for level in self._search.arch.levels:
            if level.capacity_bits is not None and level.name in bits:
                fits &= bits[level.name] * level.buffering <= level.capacity_bits
        return fits

    def _bits(self, node: Storage, tiles: dict[str, Table]) -> Floats:
        """Return the bits of whole tiles of a storage node's tensor."""
        size: Floats = np.full(
            len(next(iter(tiles.values()))), float(self._search.workload.tensor(node.tensors[0]).bits)
        )
        for axis in self._search.axes[node.tensors[0]]:
            reach = sum((abs(factor) * (tiles[dim] - 1) for dim, factor in axis.items()), start=np.int64(1))
            points = np.prod([tiles[dim].astype(np.float64) for dim in axis], axis=0) if axis else np.float64(1)
            size = size * np.minimum(reach, points)
        return size


def loops_of(nodes: Sequence[TreeNode]) -> int:
    """Return how many loops a tree has."""
    return sum(isinstance(node, Temporal | Spatial) for node in nodes)
