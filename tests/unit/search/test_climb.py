"""Climbing over trees with tiles of any size: rows of tiles, changes of trees, tables of costs, and what is found."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from random import Random

import numpy as np
import pytest

import polymap as pm
from polymap.costmodel.tables import TileTables
from polymap.ir import Compute, Mapping, MappingError, Spatial, Storage, Temporal
from polymap.search.heuristics.climb import TreeClimber
from polymap.search.heuristics.near_tiles import rows_near
from polymap.search.heuristics.tree_edits import TreeEdits, shares_of
from polymap.search.objective import exact_score
from polymap.search.problem import analyse, parse_objective
from polymap.search.sibling_bounds.structures import sibling_counts

MACHINES = ("eyeriss_like", "simba_like", "tpu_like", "flat3", "cluster4")


def layer(rng: Random) -> pm.Workload:
    if rng.random() < 0.5:
        return pm.matmul(*(rng.randint(1, 40) for _ in range(3)))
    sizes = {dim: rng.randint(1, 9) for dim in "kcpq"} | {"r": rng.randint(1, 3), "s": rng.randint(1, 3)}
    return pm.einsum(f"O[k,p,q] += I[c,{rng.choice((1, 2))}p+r,q+s] * W[k,c,r,s]", sizes=sizes)


def edits_of(workload: pm.Workload, arch: pm.Architecture, seed: int) -> TreeEdits:
    return TreeEdits(workload, arch, analyse(workload, arch).classes, Random(seed))


def program(workload: pm.Workload, arch: pm.Architecture) -> Mapping:
    found = pm.explore(workload, arch, tiles="divide", time_limit_s=5).best
    assert found is not None
    return found


def test_rows_near_fall_to_one_and_keep_the_number_of_loops() -> None:
    rng = Random(1)
    for _ in range(300):
        extent, row = rng.randint(1, 500), list[int]()
        for _ in range(rng.randint(0, 5)):
            row.append(rng.randint(1, row[-1] if row else extent))
        tiles = (*row, 1)
        near = rows_near(extent, tiles)
        assert tiles not in near
        assert len(set(near)) == len(near)
        for found in near:
            assert len(found) == len(tiles)
            assert found[-1] == 1
            assert all(a >= b >= 1 for a, b in zip((extent, *found), found, strict=False)), (extent, tiles, found)


@pytest.mark.parametrize("machine", MACHINES)
def test_changed_trees_are_programs_within_the_order_of_levels(machine: str) -> None:
    rng = Random(2)
    arch = pm.load_arch(machine)
    for number in range(2):
        workload = layer(rng)
        edits = edits_of(workload, arch, number)
        mapping = program(workload, arch)
        nodes = edits.nodes_of(mapping)
        assert pm.evaluate(workload, arch, edits.mapping_of(nodes)) == pm.evaluate(workload, arch, mapping)
        for _ in range(25):
            nodes = edits.edited(nodes, keeps_siblings=False) or nodes
            wide = Mapping((*edits.widened(nodes, 5, 0.5), Compute(workload.statements[0].name)))
            tidy = edits.mapping_of(edits.nodes_of(wide))
            assert all(one.kind != "placement" for one in pm.evaluate(workload, arch, tidy).violations)
            # Loops of one iteration cost nothing.
            assert pm.evaluate(workload, arch, wide).traffic == pm.evaluate(workload, arch, tidy).traffic


@pytest.mark.parametrize("machine", MACHINES)
def test_given_sibling_counts_are_those_of_the_tree(machine: str) -> None:
    rng = Random(3)
    arch = pm.load_arch(machine)
    for number in range(3):
        workload = layer(rng)
        problem = analyse(workload, arch)
        edits = edits_of(workload, arch, number)
        nodes = edits.nodes_of(program(workload, arch))
        for _ in range(10):
            nodes = edits.edited(nodes, keeps_siblings=False) or nodes
        counts = sibling_counts(problem, edits.mapping_of(nodes))
        found = edits.with_siblings(edits.nodes_of(program(workload, arch)), counts)
        if found is None:  # products of several fan-outs that no factors have in this order
            continue
        for asked, given in zip(counts, sibling_counts(problem, edits.mapping_of(found)), strict=True):
            assert all(a >= b for a, b in zip(asked, given, strict=True)) or len(problem.classes[0].fanouts) > 1


def test_shares_reach_what_is_wanted_within_the_fanouts() -> None:
    rng = Random(4)
    fanouts = pm.load_arch("eyeriss_like").fanouts
    reached = 0
    for _ in range(200):
        wanted = {dim: rng.randint(2, 16) for dim in rng.sample("mnk", rng.randint(1, 2))}
        shares = shares_of(fanouts, wanted)
        if shares is None:
            continue
        reached += 1
        for dim, many in wanted.items():
            assert prod(share.get(dim, 1) for share in shares) >= many
        for fanout, share in zip(fanouts, shares, strict=True):
            assert prod(share.values()) <= fanout.size
    assert reached > 50


@pytest.mark.parametrize("machine", MACHINES)
def test_tables_of_any_tiles_cost_what_each_row_costs(machine: str) -> None:
    rng = Random(5)
    arch = pm.load_arch(machine)
    for number in range(2):
        workload = layer(rng)
        edits = edits_of(workload, arch, number)
        nodes = edits.widened(edits.nodes_of(program(workload, arch)), 4, 0.3)
        tree = Mapping((*nodes, Compute(workload.statements[0].name)))
        loops = [node for node in nodes if not isinstance(node, Storage)]
        rows: list[list[int]] = []
        for _ in range(30):
            now = workload.extents()
            last = {loop.dim: place for place, loop in enumerate(loops)}
            row: list[int] = []
            for place, loop in enumerate(loops):
                now[loop.dim] = 1 if last[loop.dim] == place else rng.randint(1, now[loop.dim])
                row.append(now[loop.dim])
            rows.append(row)
        if not loops:
            continue
        costs, counted = TileTables(workload, arch, tree).costs(np.array(rows, dtype=np.int64))
        assert counted.any()
        for place in np.flatnonzero(counted).tolist():
            left = iter(rows[place])
            same = tuple(replace(n, tile=next(left)) if isinstance(n, Temporal | Spatial) else n for n in tree.nodes)
            cost = pm.evaluate(workload, arch, Mapping(same))
            assert costs.energy_pj[place] == cost.energy_pj
            assert costs.latency_cycles[place] == cost.latency_cycles
            assert bool(costs.legal[place]) == cost.legal


def test_tables_of_no_program_are_refused() -> None:
    workload, arch = pm.matmul(4, 4, 4), pm.load_arch("flat3")
    with pytest.raises(MappingError, match="tile"):
        TileTables(workload, arch, Mapping((Temporal("m", 2), Compute("S"))))


@pytest.mark.parametrize(("machine", "value"), [("eyeriss_like", 488_948), ("tpu_like", 801_259.8)])
def test_known_optima_of_an_odd_product_are_reached_the_same_way_twice(machine: str, value: float) -> None:
    workload, arch = pm.matmul(31, 37, 41), pm.load_arch(machine)
    problem, objective = analyse(workload, arch), parse_objective("energy", arch)
    mapping = program(workload, arch)
    score = exact_score(workload, arch, objective, mapping)
    assert score is not None
    found: list[Mapping] = []
    for _ in range(2):
        climber = TreeClimber(workload, arch, objective, problem.classes)
        climber.know(mapping, score.value)
        climber.structures = (((1, 1, 41),),) if machine == "eyeriss_like" else ()
        assert not climber.walk(0, lambda: False)
        for _ in range(60):
            climber.walk(1, lambda: False)
            if climber.best is not None and climber.best[1] <= value + 0.01:
                break
        assert climber.best is not None
        cost = pm.evaluate(workload, arch, climber.best[0])
        assert cost.legal
        assert cost.energy_pj_exact == climber.best[1]
        assert value - 0.01 <= cost.energy_pj_exact <= score.value
        found.append(climber.best[0])
    assert found[0] == found[1]


@pytest.mark.parametrize("objective", ["latency", "edp", "weighted:0.5*energy+2*latency"])
def test_every_objective_is_climbed(objective: str) -> None:
    workload, arch = pm.matmul(17, 23, 29), pm.load_arch("flat3")
    goal = parse_objective(objective, arch)
    mapping = program(workload, arch)
    score = exact_score(workload, arch, goal, mapping)
    assert score is not None
    climber = TreeClimber(workload, arch, goal, analyse(workload, arch).classes)
    climber.know(mapping, score.value)
    assert climber.walk(20, lambda: False)
    assert climber.best is not None
    after = exact_score(workload, arch, goal, climber.best[0])
    assert after is not None
    assert after.value == climber.best[1] < score.value
