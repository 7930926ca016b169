"""evaluate_many gives what evaluate gives, row by row: dividing tiles, partial ones, loops of one iteration."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from polymap.costmodel.cost import Cost
from polymap.costmodel.evaluation import evaluate, simulate
from polymap.costmodel.tables import partial_tiles
from polymap.costmodel.tables.cost_arrays import CostArrays, evaluate_many
from polymap.costmodel.tables.cost_columns import NestBatch, batch_of_nest
from polymap.costmodel.tables.tuning import TUNING
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.workload.einsums import einsum
from tests import cases
from tests.cases import Case, random_case
from tests.times import few


def loops_of(mapping: Mapping) -> list[Temporal | Spatial]:
    return [node for node in mapping.nodes if isinstance(node, Temporal | Spatial)]


def random_tiles(rng: random.Random, workload: Workload, mapping: Mapping, dividing: float) -> list[int]:
    """Return tiles for all loops, the last of each dim 1. dividing: the chance that all of them divide."""
    ends = workload.extents()
    loops = loops_of(mapping)
    last = {loop.dim: number for number, loop in enumerate(loops)}
    divides = rng.random() < dividing
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


def check(case: Case, seed: int, rows: int, dividing: float = 0.5) -> int:
    """Compare random rows, one of them with the simulator too; return how many arrays counted."""
    rng = random.Random(seed)
    table = [random_tiles(rng, case.workload, case.mapping, dividing) for _ in range(rows)]
    array = np.array(table, dtype=np.int64).reshape(rows, -1)
    costs = evaluate_many(case.workload, case.arch, case.mapping, array)
    for number, row in enumerate(table):
        mapping = with_tiles(case.mapping, row)
        cost = evaluate(case.workload, case.arch, mapping)
        assert figures_at(costs, number) == figures(cost), f"random_case seed {seed}, tiles {row}"
        if number == seed % rows:
            assert figures(simulate(case.workload, case.arch, mapping)) == figures(cost)
    batch = batch_of_nest(case.workload, case.arch, case.mapping, placed=True)
    return rows - len(by_arrays(batch, array)[1]) if batch else 0


def by_arrays(batch: NestBatch, table: NDArray[np.int64]) -> tuple[list[int], list[int]]:
    """Return which rows the arrays for tiles of any size count, and which they leave to others."""
    right: NDArray[np.bool_] = np.zeros(len(table), dtype=np.bool_)
    for rows, _, known in batch.count_partial(table):
        right[rows] = known
    return np.flatnonzero(right).tolist(), np.flatnonzero(~right).tolist()


SEEDS = few([range(12), range(12, 80)], 1)


@pytest.mark.parametrize("seeds", SEEDS)
def test_evaluate_many_is_evaluate_row_by_row(seeds: range) -> None:
    counted = sum(check(random_case(random.Random(seed)), seed, rows=8) for seed in seeds)
    assert counted >= 0.85 * len(seeds) * 8


@pytest.mark.parametrize("seeds", SEEDS)
def test_tables_of_convolutions_with_every_kind_of_siblings(seeds: range) -> None:
    text = "O[k,p,q] += I[p+r,2*q-s] * W[k,r,s]"
    counted = 0
    for seed in seeds:
        rng = random.Random(seed)
        workload = einsum(text, k=2, p=6, q=4, r=2, s=2)
        arch = cases.random_machine(rng)
        tiles = {dim: [rng.choice((1, extent)), 1] for dim, extent in workload.extents().items()}
        loops = cases._loops(rng, workload, arch, tuple(tiles), spreadable=frozenset(tiles), tiles=tiles)
        nodes = (*cases._placed(rng, arch, loops, cases._held(rng, workload, arch)), Compute("S"))
        counted += check(cases._finished(rng, workload, arch, Mapping(nodes)), seed, rows=5)
    assert counted >= 0.95 * len(seeds) * 5


@pytest.mark.parametrize("seeds", SEEDS)
def test_the_busiest_instance_where_reductions_are_spread(seeds: range) -> None:
    counted = 0
    for seed in seeds:
        rng = random.Random(seed)
        workload = einsum("O[k,p] += I[c,p+r] * W[k,c,r]", k=3, c=7, p=4, r=2)
        machine = cases.random_machine(rng)
        metered = (
            replace(node, bandwidth_bits_per_cycle=Fraction(1, 9)) if isinstance(node, MemoryLevel) else node
            for node in machine.nodes
        )
        arch = replace(machine, nodes=tuple(metered))
        tiles = {dim: [rng.choice((1, extent)), 1] for dim, extent in workload.extents().items()}
        loops = cases._loops(rng, workload, arch, tuple(tiles), spreadable=frozenset("ck"), tiles=tiles)
        nodes = (*cases._placed(rng, arch, loops, cases._held(rng, workload, arch)), Compute("S"))
        counted += check(cases._finished(rng, workload, arch, Mapping(nodes)), seed, rows=5, dividing=0.1)
    assert counted >= 0.7 * len(seeds) * 5


WINDOWS = (
    "O[k,p] += I[c,2*p+q+r] * W[k,c,q,r]",
    "O[p,q] += I[p+q+r+s] * W[r,s]",
    "O[p,q] += I[p-r+3*q-3*s+40] * W[r,s]",
    "O[p,q,u] += I[p+r,q+s,u+v] * W[r,s,v]",
    "O[k,p,q] += I[2*p+r,2*q+s] * W[k,r,s]",
    "O[k,2*p+r] += I[c,p] * W[k,c,r]",
    "O[2*p+r,q+s] += I[c,p,q] * W[c,r,s]",
)


@pytest.mark.parametrize("seeds", few([range(14), range(14, 150)], 1))
@pytest.mark.parametrize(("most", "least_counted"), [(500, 0.7), (2, 0.5)])
def test_tables_of_windows_on_machines_with_bandwidths(
    seeds: range, most: int, least_counted: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """most: kinds of instances that are counted; beyond it the busiest one is bounded tensor by tensor."""
    monkeypatch.setattr(partial_tiles, "TUNING", TUNING._replace(most_candidates=most))
    counted = 0
    for seed in seeds:
        rng = random.Random(seed)
        text = WINDOWS[seed % len(WINDOWS)]
        longest = {"k": 2, "c": 3, "p": 7, "q": 5, "u": 3}
        sizes = {dim: rng.randrange(1, longest.get(dim, 3) + 1) for dim in "kcpqursv" if dim in text}
        workload = einsum(text, bits=8, sizes=sizes)
        machine = cases.random_machine(rng)
        speed = Fraction(rng.choice((1, 5, 64)), rng.choice((1, 3)))
        metered = (
            replace(node, read_bandwidth_bits_per_cycle=speed) if isinstance(node, MemoryLevel) else node
            for node in machine.nodes
        )
        arch = replace(machine, nodes=tuple(metered))
        tiles = {dim: [rng.choice((1, extent)), 1] for dim, extent in workload.extents().items()}
        loops = cases._loops(rng, workload, arch, tuple(tiles), spreadable=frozenset(tiles), tiles=tiles)
        nodes = (*cases._placed(rng, arch, loops, cases._held(rng, workload, arch)), Compute("S"))
        counted += check(cases._finished(rng, workload, arch, Mapping(nodes)), seed, rows=5, dividing=0.1)
    assert counted >= least_counted * len(seeds) * 5


def test_a_fast_machine_leaves_no_transposed_convolution_to_evaluate() -> None:
    """Siblings take unequal shares of the partial sums of a window; bounds on these tell the latency."""
    workload = einsum("O[k,2*p+r] += I[c,p] * W[k,c,r]", k=2, c=6, p=9, r=3, bits=8)
    levels = [MemoryLevel(name, bandwidth_bits_per_cycle=Fraction(128)) for name in ("DRAM", "GLB", "RF")]
    nodes = (*levels[:2], Fanout("X", 16), Fanout("Y", 16), levels[2], ComputeUnit("MAC"))
    arch = Architecture("metered", nodes)
    every = ("I", "W", "O")
    tree = (
        *(Temporal(dim, 1) for dim in "kcp"), Storage("GLB", every), Spatial("p", 1, "X"), Spatial("c", 1, "Y"),
        Temporal("r", 1), Storage("RF", every), *(Temporal(dim, 1) for dim in "kcpr"), Compute("S"),
    )  # fmt: skip
    case = Case(workload, arch, Mapping(tree), frozenset())
    assert check(case, 1, rows=60, dividing=0.0) == 60


def test_plans_that_are_kept_serve_only_their_own_trees() -> None:
    cases_ = [random_case(random.Random(seed)) for seed in range(6)]
    for seed in (0, 1, 2, 3, 4, 5, 3, 1, 1, 0):
        check(cases_[seed], seed, rows=3)
        *others, compute = cases_[seed].arch.nodes
        assert isinstance(compute, ComputeUnit)
        faster = replace(cases_[seed].arch, nodes=(*others, replace(compute, per_cycle=2)))
        check(replace(cases_[seed], arch=faster), seed, rows=3)


def test_orders_that_are_fixed_are_checked_row_by_row() -> None:
    workload = replace(einsum("C[m] += A[m,k]", m=4, k=4), associative=False)
    nodes = (Temporal("k", 2), Temporal("m", 1), Storage("Buf", ("C",)), Temporal("k", 1), Compute("S"))
    arch = Architecture("two", (MemoryLevel("DRAM"), MemoryLevel("Buf"), Fanout("X", 4), ComputeUnit("MAC")))
    spread = (Temporal("m", 1), Spatial("k", 1, "X"), Compute("S"))
    for tree in (Mapping(nodes), Mapping(spread)):
        table = [[1] * len(loops_of(tree))]
        costs = evaluate_many(workload, arch, tree, table)
        for number, row in enumerate(table):
            assert costs.legal[number] == evaluate(workload, arch, with_tiles(tree, row)).legal
    assert not evaluate(workload, arch, Mapping(spread)).legal


def test_figures_are_exact_around_the_largest_floats_that_are_integers() -> None:
    ways = (
        {"read_pj": Fraction(10**6, 3), "write_pj": Fraction(2, 7)},
        {"bandwidth_bits_per_cycle": Fraction(7, 3)},
        {"bandwidth_bits_per_cycle": Fraction(7, 10**6)},
        {"read_bandwidth_bits_per_cycle": Fraction(3, 5), "write_bandwidth_bits_per_cycle": Fraction(1, 2)},
        {"read_bandwidth_bits_per_cycle": Fraction(1000), "write_bandwidth_bits_per_cycle": Fraction(1, 10**5)},
        {"leak_pj_per_cycle": Fraction(5, 3)},
        {},
    )
    tree = Mapping((Temporal("m", 1), Storage("Buf", ("A", "C")), Temporal("n", 1), Temporal("k", 1), Compute("S")))
    for way, lanes, exponent in product(ways, (1, 10**9 + 7), range(28, 46, 2)):
        levels = (MemoryLevel("DRAM", **way), MemoryLevel("Buf", word_bits=24, **way))  # type: ignore[arg-type]
        arch = Architecture("one", (*levels, Fanout("X", lanes), ComputeUnit("MAC", Fraction(1, 3), 3)))
        workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=2**exponent - 1, n=5, k=3, bits={"A": 4, "B": 8, "C": 32})
        costs = evaluate_many(workload, arch, tree, [[1, 1, 1]])
        assert figures_at(costs, 0) == figures(evaluate(workload, arch, tree)), (way, lanes, exponent)
