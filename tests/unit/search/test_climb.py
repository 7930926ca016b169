"""Climbing over trees with tiles of any size: neighbours, their worth, trees of chains, and what is found."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf, prod
from random import Random

import pytest

import polymap as pm
from polymap.costmodel.referees.trees import exhaustive
from polymap.ir import Fanout, Mapping, MemoryLevel, Tensor, accesses_of
from polymap.resources import Work
from polymap.search.any_size import SiblingSearch, climb_structures
from polymap.search.any_size.sibling_search import SingleStructure
from polymap.search.problem import (
    Problem,
    analyse,
    exact_score,
    measure_of,
    parse_objective,
    refusals,
    rules_from_document,
)
from polymap.search.trees import climber_for
from polymap.search.trees.changes import Neighbours, rows_near
from polymap.search.trees.climb import TreeClimber
from polymap.search.trees.start_trees import FilledTrees, random_tree, trees_of_chain
from polymap.search.trees.tree_edits import Nodes, TreeEdits, shares_of
from polymap.search.trees.tree_scores import TreeScores
from tests.case_machines import with_wires
from tests.tree_siblings import refine, sibling_counts

MACHINES = ("eyeriss_like", "simba_like", "tpu_like", "flat3", "cluster4")


def layer(rng: Random) -> pm.Workload:
    if rng.random() < 0.5:
        return pm.matmul(*(rng.randint(1, 40) for _ in range(3)))
    sizes = {dim: rng.randint(1, 9) for dim in "kcpq"} | {"r": rng.randint(1, 3), "s": rng.randint(1, 3)}
    return pm.einsum(f"O[k,p,q] += I[c,{rng.choice((1, 2))}p+r,q+s] * W[k,c,r,s]", sizes=sizes)


def program(workload: pm.Workload, arch: pm.Architecture) -> Mapping:
    found = pm.explore(workload, arch, tiles="divide", time_limit_s=5).best
    assert found is not None
    return found


def some_trees(problem: Problem, rng: Random, count: int) -> tuple[TreeEdits, list[Nodes]]:
    """Return trees on a random way from the best one with dividing tiles, each a neighbour of the one before."""
    edits = TreeEdits(problem)
    found = [edits.nodes_of(program(problem.workload, problem.arch))]
    while len(found) < count:
        found.append(rng.choice(Neighbours(edits).of(found[-1]) or found))
    return edits, found


def plainly_grown(problem: Problem, shares: dict[str, dict[str, int]], *, for_all: bool) -> dict[str, dict[str, int]]:
    """Return the tiles that FilledTrees grows, by one loop that asks all levels about every tile again."""
    workload, inside = problem.workload, problem.arch.nodes[1:-1]
    dims = [dim for dim in workload.statements[0].dims if workload.extents()[dim] > 1]

    def bits(tensor: Tensor, tile: dict[str, int]) -> int:
        (access,) = accesses_of(workload.statements[0], tensor.name)
        total = tensor.bits
        for form in access.index:
            steps = [abs(many) * (tile[dim] - 1) for dim, many in form.coefficients().items()]
            many = prod(tile[dim] for dim in form.dims)
            total *= many if len(steps) == 1 else min(many, 1 + sum(steps))
        return total

    def fits(tile: dict[str, int], place: int) -> bool:
        for node in reversed(inside[: place + 1]):
            if isinstance(node, Fanout):
                tile = {dim: many * shares[node.name].get(dim, 1) for dim, many in tile.items()}
            elif isinstance(node, MemoryLevel) and node.capacity_bits is not None:
                held = sum(bits(one, tile) for one in workload.tensors if node.may_hold(one))
                if held * node.buffering > node.capacity_bits:
                    return False
        return True

    now = dict.fromkeys(workload.extents(), 1)
    found = {"": dict(now)}
    for place in reversed(range(len(inside))):
        node = inside[place]
        if isinstance(node, Fanout):
            now = {dim: many * shares[node.name].get(dim, 1) for dim, many in now.items()}
            continue
        assert isinstance(node, MemoryLevel)
        around = [shares[one.name] for one in inside[:place] if isinstance(one, Fanout)]
        while True:
            options = list[tuple[float, int, str]]()
            for dim in dims:
                left = workload.extents()[dim] // (now[dim] * prod(own.get(dim, 1) for own in around))
                prime = next((n for n in range(2, left + 1) if not left % n), 0)
                larger = {**now, dim: now[dim] * prime}
                if prime and fits(larger, place):
                    own = [one for one in workload.tensors if for_all or node.may_hold(one)]
                    options.append((sum(bits(one, larger) for one in own) / prod(larger.values()), prime, dim))
            if not options:
                break
            _, prime, dim = min(options)
            now = {**now, dim: now[dim] * prime}
        found[node.name] = now
    return found


@pytest.mark.parametrize("machine", MACHINES)
def test_tiles_by_construction_are_those_of_a_plain_loop(machine: str) -> None:
    rng, arch = Random(5), pm.load_arch(machine)
    for _ in range(4):
        problem = analyse(layer(rng), arch)
        edits = TreeEdits(problem)
        scores = TreeScores(problem, parse_objective("energy", arch), edits, lambda _mapping, _cost: 0)
        filled = FilledTrees(problem, edits, scores)
        for shares in filled._shares():
            for for_all in (True, False):
                assert filled._tiles(shares, for_all=for_all) == plainly_grown(problem, shares, for_all=for_all)


def test_rows_near_fall_to_one_and_keep_the_number_of_loops() -> None:
    rng = Random(1)
    for _ in range(300):
        extent, row = rng.randint(1, 500), list[int]()
        for _ in range(rng.randint(0, 5)):
            row.append(rng.randint(1, row[-1] if row else extent))
        tiles = (*row, 1)
        near = rows_near(extent, tiles, divide=False)
        assert tiles not in near
        assert len(set(near)) == len(near)
        for found in near:
            assert len(found) == len(tiles)
            assert found[-1] == 1
            assert all(a >= b >= 1 for a, b in zip((extent, *found), found, strict=False)), (extent, tiles, found)


@pytest.mark.parametrize("machine", MACHINES)
def test_neighbours_are_complete_programs_that_break_nothing_but_capacities(machine: str) -> None:
    rng = Random(2)
    arch = pm.load_arch(machine)
    for _ in range(2):
        problem = analyse(layer(rng), arch)
        edits, trees = some_trees(problem, rng, 8)
        scores = TreeScores(problem, parse_objective("energy", arch), edits, lambda _mapping, _cost: 0)
        for tree in trees:
            assert edits.tidied(tree) == tree
            near = Neighbours(edits).of(tree)
            assert tree not in near
            assert len(set(near)) == len(near)
            for one in rng.sample(near, min(len(near), 30)):
                excess = scores.excess(one)
                cost = pm.evaluate(problem.workload, arch, edits.mapping_of(one))
                kinds = {violation.kind for violation in cost.violations}
                assert kinds <= ({"fanout", "capacity"} if excess == inf else {"capacity"})
                assert "capacity" in kinds or excess in (0, inf)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("objective", ["energy", "energy with wires", "edp"])
def test_trees_are_worth_what_their_mappings_cost(machine: str, objective: str) -> None:
    rng = Random(f"worth {machine} {objective}")
    objective, wired, _ = objective.partition(" with wires")
    arch = with_wires(rng, pm.load_arch(machine)) if wired else pm.load_arch(machine)
    goal = parse_objective(objective, arch)
    problem = analyse(layer(rng), arch)
    edits, trees = some_trees(problem, rng, 12)
    scores = TreeScores(problem, goal, edits, lambda _mapping, _cost: 0)
    for tree in trees:
        score = exact_score(problem.workload, arch, goal, edits.mapping_of(tree))
        worth = scores.worth(tree)
        if scores.excess(tree) < inf and score is not None:
            assert worth is not None
            assert worth == scores.worth(tree)
            assert worth[0] == pytest.approx(float(score.excess), rel=1e-9)
            assert worth[1] == pytest.approx(float(score.value), rel=1e-9)
            assert scores.excess(tree) <= worth[0] + 1e-9


@pytest.mark.parametrize("machine", MACHINES)
def test_given_sibling_counts_are_those_of_the_tree(machine: str) -> None:
    rng = Random(3)
    problem = analyse(layer(rng), pm.load_arch(machine))
    edits, trees = some_trees(problem, rng, 12)
    for tree in trees:
        counts = sibling_counts(problem, edits.mapping_of(tree))
        found = edits.with_siblings(trees[0], counts)
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
def test_trees_of_a_bounds_chain_are_programs_that_hold_its_nodes(machine: str) -> None:
    rng = Random(6)
    arch = pm.load_arch(machine)
    made = 0
    for number in range(2):
        sizes = {"k": 5, "c": 4, "p": 7, "r": 3}
        conv = pm.einsum("O[k,p] += I[c,p+r] * W[k,c,r]", sizes=sizes)
        problem = analyse(conv if number else pm.matmul(*(rng.randint(2, 12) for _ in range(3))), arch)
        measure = measure_of(parse_objective("energy", arch), problem.workload, arch)
        counts = sibling_counts(problem, program(problem.workload, arch))
        chain = refine(problem, measure, counts, None, 3).chain
        edits = TreeEdits(problem)
        for tree in trees_of_chain(problem, counts, chain):
            cost = pm.evaluate(problem.workload, arch, edits.mapping_of(tree))
            assert {violation.kind for violation in cost.violations} <= {"capacity"}
            held = {(row.level, row.tensor) for row in cost.traffic if row.level != arch.levels[0].name}
            assert held == {(arch.levels[one.level].name, problem.terms[one.tensor].tensor.name) for one in chain}
            made += 1
    assert made


@pytest.mark.parametrize(("machine", "value"), [("eyeriss_like", 488_948), ("tpu_like", 801_259.8)])
def test_known_optima_of_an_odd_product_are_reached_the_same_way_twice(machine: str, value: float) -> None:
    workload, arch = pm.matmul(31, 37, 41), pm.load_arch(machine)
    problem, objective = analyse(workload, arch), parse_objective("energy", arch)
    mapping = program(workload, arch)
    score = exact_score(workload, arch, objective, mapping)
    assert score is not None
    found: list[Mapping] = []
    for _ in range(2):
        climber = TreeClimber(problem, arch, objective)
        climber.know(mapping, score.value)
        climber.hints = (SingleStructure(((1, 1, 41),)),) if machine == "eyeriss_like" else ()
        assert not climber.walk_rounds(0, lambda: False)
        for _ in range(60):
            climber.walk_rounds(1, lambda: False)
            if climber.best is not None and climber.best[1] <= value + 0.01:
                break
        assert climber.best is not None
        cost = pm.evaluate(workload, arch, climber.best[0])
        assert cost.legal
        assert cost.energy_pj_exact == climber.best[1]
        assert value - 0.01 <= cost.energy_pj_exact <= score.value
        found.append(climber.best[0])
    assert found[0] == found[1]


TINY = pm.einsum("y[m] += A[m,k] * x[k]", m=4, k=3)


@pytest.mark.parametrize("divide", [True, False])
@pytest.mark.parametrize("machine", MACHINES)
def test_random_trees_and_all_on_the_way_from_them_break_nothing_but_sizes(machine: str, divide: bool) -> None:
    rng, arch = Random(f"drawn {machine} {divide}"), pm.load_arch(machine)
    drawn: set[Nodes] = set()
    for _ in range(3):
        problem = analyse(layer(rng), arch)
        edits = TreeEdits(problem, divide=divide)
        for tree in [edits.least_tree(), *(random_tree(edits, rng) for _ in range(8))]:
            drawn.add(tree)
            assert edits.tidied(tree) == tree
            near = Neighbours(edits).of(tree)
            for one in (tree, *rng.sample(near, min(len(near), 2))):
                assert not divide or edits.all_divide(one)
                cost = pm.evaluate(problem.workload, arch, edits.mapping_of(one))
                assert {violation.kind for violation in cost.violations} <= {"capacity", "fanout"}
    assert len(drawn) > 15


@pytest.mark.parametrize("tiles", ["divide", "any"])
@pytest.mark.parametrize("machine", ["flat3", "eyeriss_like"])
def test_from_no_mapping_the_best_of_all_trees_is_reached(machine: str, tiles: str) -> None:
    arch = pm.load_arch(machine)
    least = exhaustive(TINY, arch, "energy", tiles)
    assert least is not None
    climber = climber_for(TINY, arch, parse_objective("energy", arch), (), divide=tiles == "divide", seed=1)
    assert climber is not None
    values: list[Fraction] = []
    for _ in range(120):
        climber.walk(20, lambda: False)
        if climber.best is not None:
            values.append(climber.best[1])
            assert pm.evaluate(TINY, arch, climber.best[0]).legal
    assert values == sorted(values, reverse=True)
    assert values[-1] == least.value


@pytest.mark.parametrize("machine", ["flat3", "eyeriss_like"])
def test_where_dependences_forbid_orders_only_legal_mappings_are_kept(machine: str) -> None:
    nest, arch = replace(pm.matmul(6, 8, 12), associative=False), pm.load_arch(machine)
    climber = climber_for(nest, arch, parse_objective("energy", arch), (), divide=True, seed=0)
    assert climber is not None
    climber.walk(150, lambda: False)
    assert climber.best is not None
    cost = pm.evaluate(nest, arch, climber.best[0])
    assert cost.legal
    assert cost.energy_pj_exact == climber.best[1]


@pytest.mark.parametrize("objective", ["latency", "edp", "weighted:0.5*energy+2*latency"])
def test_every_objective_is_climbed(objective: str) -> None:
    workload, arch = pm.matmul(17, 23, 29), pm.load_arch("flat3")
    goal = parse_objective(objective, arch)
    mapping = program(workload, arch)
    score = exact_score(workload, arch, goal, mapping)
    assert score is not None
    climber = TreeClimber(analyse(workload, arch), arch, goal)
    climber.know(mapping, score.value)
    assert climber.walk_rounds(6, lambda: False)
    assert climber.best is not None
    after = exact_score(workload, arch, goal, climber.best[0])
    assert after is not None
    assert after.value == climber.best[1] < score.value


def test_a_descent_begins_at_another_known_mapping(monkeypatch: pytest.MonkeyPatch) -> None:
    workload, arch = pm.matmul(16, 24, 12), pm.load_arch("flat3")
    goal, begun = parse_objective("energy", arch), list[Nodes]()
    best = pm.explore(workload, arch, tiles="divide", time_limit_s=10)
    assert best.best is not None
    assert best.cost is not None
    other = pm.explore(workload, arch, "traffic:RF", tiles="divide", time_limit_s=10).best
    assert other is not None
    go_to = TreeClimber._go_to
    monkeypatch.setattr(TreeClimber, "_go_to", lambda self, found: (begun.append(found[1]), go_to(self, found)))
    climber = TreeClimber(analyse(workload, arch), arch, goal)
    climber.begin_at(other)
    climber.know(best.best, best.cost.energy_pj_exact)
    climber.walk_rounds(12, lambda: False)
    edits = TreeEdits(analyse(workload, arch), divide=False)
    assert edits.tidied(edits.nodes_of(other)) in begun[1:], f"{other}"


def test_under_rules_only_what_meets_them_is_kept() -> None:
    arch = pm.load_arch("eyeriss_like")
    workload = pm.matmul(31, 37, 41)
    document = {"innermost": ["k"], "store": {"GLB": {"must": ["A"]}}}
    rules = rules_from_document(document, workload, arch)
    start = pm.explore(workload, arch, tiles="divide", time_limit_s=10, constraints=document)
    assert start.best is not None
    objective = parse_objective("energy", arch)
    score = exact_score(workload, arch, objective, start.best)
    assert score is not None
    climber = TreeClimber(analyse(workload, arch, rules), arch, objective)
    climber.know(start.best, score.value)
    assert climber.walk_rounds(15, lambda: False)
    assert climber.best is not None
    assert climber.best[1] < score.value
    assert not refusals(workload, arch, rules, climber.best[0], pm.evaluate(workload, arch, climber.best[0]))


def test_most_small_problems_are_climbed_to_the_best_of_all_trees() -> None:
    rng = Random(8)
    arch = pm.load_arch("eyeriss_like")
    objective = parse_objective("energy", arch)
    reached = improved = asked = 0
    while asked < 5:
        workload = pm.matmul(*(rng.randint(5, 23) for _ in range(3)))
        best = pm.explore(workload, arch, time_limit_s=60)
        if best.status != "OPTIMAL":
            continue
        asked += 1
        mapping = program(workload, arch)
        score, least = (exact_score(workload, arch, objective, one) for one in (mapping, best.best or mapping))
        assert score is not None
        assert least is not None
        climber = TreeClimber(analyse(workload, arch), arch, objective)
        search = SiblingSearch(analyse(workload, arch), measure_of(objective, workload, arch))
        work = Work(60)
        told: list[Fraction] = []

        def tell(_mapping: Mapping, value: Fraction, _bound: Fraction, told: list[Fraction] = told) -> None:
            told.append(value)

        found = climb_structures(search, climber, (mapping, score.value), work.is_spent, work, tell)
        assert found is not None
        assert least.value <= found[1] <= score.value
        assert told == sorted(told, reverse=True)
        reached += found[1] == least.value
        improved += least.value < score.value
    assert improved >= 2
    assert reached >= 4


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("layer_name", ["resnet50.conv4_x", "bert_base.ffn_up", "mobilenet_v2.block3_depthwise"])
def test_the_first_tree_fits_and_is_near_what_a_long_climb_finds(machine: str, layer_name: str) -> None:
    workload, arch = pm.load_workload(layer_name), pm.load_arch(machine)
    climber = climber_for(workload, arch, parse_objective("energy", arch), (), divide=True, seed=0)
    assert climber is not None
    climber.walk(1, lambda: False)
    first, scored = climber.best, climber.scored
    assert first is not None
    cost = pm.evaluate(workload, arch, first[0])
    assert cost.legal
    assert cost.energy_pj_exact == first[1]
    assert scored < 120
    climber.walk(500, lambda: False)
    assert climber.best is not None
    assert first[1] < 2 * climber.best[1]
