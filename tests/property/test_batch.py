"""evaluate_many gives what evaluate gives, row by row: dividing tiles, partial ones, loops of one iteration."""

from __future__ import annotations

import random

import numpy as np

from polymap.costmodel.batch import CostArrays, evaluate_many
from polymap.costmodel.batch_cost import batch_of
from polymap.costmodel.cost import Cost
from polymap.costmodel.evaluate import evaluate
from polymap.schedules.mapping import Mapping, MappingNode, Spatial, Temporal
from polymap.workload.loopnest import Workload
from tests.cases import Case, random_case


def loops_of(mapping: Mapping) -> list[Temporal | Spatial]:
    return [node for node in mapping.nodes if isinstance(node, Temporal | Spatial)]


def random_tiles(rng: random.Random, workload: Workload, mapping: Mapping) -> list[int]:
    """Return tiles for all loops: mostly dividing, the last of each dim 1."""
    ends = workload.extents()
    loops = loops_of(mapping)
    last = {loop.dim: number for number, loop in enumerate(loops)}
    divides = rng.random() < 0.8
    row: list[int] = []
    for number, loop in enumerate(loops):
        enclosing = ends[loop.dim]
        some = [tile for tile in range(1, enclosing + 1) if not divides or enclosing % tile == 0]
        tile = 1 if last[loop.dim] == number else rng.choice(some)
        ends[loop.dim] = tile
        row.append(tile + rng.randrange(4) if tile == enclosing and tile > 1 else tile)
    return row


def with_tiles(mapping: Mapping, row: list[int]) -> Mapping:
    tiles = iter(row)
    nodes: list[MappingNode] = []
    for node in mapping.nodes:
        match node:
            case Temporal(dim, _):
                nodes.append(Temporal(dim, next(tiles)))
            case Spatial(dim, _, fanout):
                nodes.append(Spatial(dim, next(tiles), fanout))
            case _:
                nodes.append(node)
    return Mapping(tuple(nodes))


def figures(cost: Cost) -> dict[str, object]:
    """Return everything that both kinds of cost hold, under one name each."""
    found: dict[str, object] = {
        name: getattr(cost, name)
        for name in ("legal", "instances", "energy_pj", "compute_cycles", "latency_cycles", "utilization")
    }
    for row in cost.traffic:
        found |= {f"{row.level}.{row.tensor}": (row.reads, row.writes, row.fills, row.drains)}
    found |= {f"bits of {name}": bits for name, bits in cost.occupancy_bits}
    found |= {f"energy of {name}": energy for name, energy in cost.energy_by_level_pj}
    return found


def figures_at(costs: CostArrays, row: int) -> dict[str, object]:
    names = ("legal", "instances", "energy_pj", "compute_cycles", "latency_cycles", "utilization")
    found: dict[str, object] = {name: getattr(costs, name)[row] for name in names}
    for each in costs.traffic:
        moved = (each.reads[row], each.writes[row], each.fills[row], each.drains[row])
        found |= {f"{each.level}.{each.tensor}": moved}
    found |= {f"bits of {name}": bits[row] for name, bits in costs.occupancy_bits}
    found |= {f"energy of {name}": energy[row] for name, energy in costs.energy_by_level_pj}
    return found


def check(case: Case, seed: int, rows: int) -> bool:
    """Compare random rows; return whether arrays counted them."""
    rng = random.Random(seed)
    table = [random_tiles(rng, case.workload, case.mapping) for _ in range(rows)]
    costs = evaluate_many(case.workload, case.arch, case.mapping, np.array(table, dtype=np.int64).reshape(rows, -1))
    for number, row in enumerate(table):
        cost = evaluate(case.workload, case.arch, with_tiles(case.mapping, row))
        assert figures_at(costs, number) == figures(cost), f"random_case seed {seed}, tiles {row}"
    return batch_of(case.workload, case.arch, case.mapping, placed=True) is not None


def test_evaluate_many_is_evaluate_row_by_row() -> None:
    by_arrays = 0
    for seed in range(110):
        case = random_case(random.Random(seed))
        by_arrays += check(case, seed, rows=8)
    assert by_arrays >= 55
