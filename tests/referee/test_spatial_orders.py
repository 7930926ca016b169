"""Spatial loops over one dim on several fan-outs of a group: each order that counts is in the space, others are not.

The referee is every tree written out and evaluated by itself.
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import pytest

import polymap as pm
from polymap.costmodel import evaluate
from polymap.costmodel.referees.trees import exhaustive
from polymap.explore import search
from polymap.ir import (
    Architecture,
    Compute,
    ComputeUnit,
    Fanout,
    Hops,
    Mapping,
    MemoryLevel,
    Multicast,
    Spatial,
    Storage,
    Temporal,
    Workload,
)
from polymap.schedules import space_size
from polymap.schedules.placement import groups_of, kinds_of, spatial_orders
from polymap.search.problem import analyse, objective_values, parse_objective
from tests.referee.all_trees import all_trees
from tests.referee.problems import Problem
from tests.referee.test_wired_search import in_order_of_levels, least_value
from tests.times import few

TEXTS = ("O[p] += I[p+r] * W[r]", "O[p] += I[p+r] * W[r]", "O[p] += I[2*p+r] * W[r]", "O[p] += I[p+2*r] * W[r]")
OBJECTIVES = ("energy", "energy", "edp", "latency", "ed2p", "traffic:D", "weighted:2*energy+3*latency")


def question(seed: int, most: int, tiles: str = "divide") -> tuple[Workload, Architecture, str]:
    """Return a window on a machine whose fan-outs count unlike, mostly, of at most so many legal trees."""
    rng = random.Random(f"orders {seed}")
    while True:
        fanouts = tuple(_fanout(rng, f"F{i}") for i in range(rng.choice((2, 2, 2, 3))))
        sizes = {"p": rng.choice((4, 4, 6, 8) if tiles == "divide" else (3, 4)), "r": rng.choice((2, 3, 4))}
        held = rng.choice((None, None, ("O",), ("I", "O")))
        outer = MemoryLevel("D", None, 8, Fraction(rng.choice((5, 20))), Fraction(5))
        buffer = MemoryLevel("B", rng.choice((None, 64)), 8, Fraction(2), Fraction(2), holds=("I",))
        inner = MemoryLevel("R", rng.choice((None, 16, 24, 40, 64)), 8, Fraction(1), Fraction(1), holds=held)
        nodes = rng.choice(((outer, *fanouts, inner), (outer, *fanouts, inner), (outer, buffer, *fanouts, inner)))
        workload, arch = pm.einsum(rng.choice(TEXTS), sizes=sizes), Architecture("unlike", (*nodes, ComputeUnit("MAC")))
        legal = space_size(workload, arch, tiles).legal
        if legal is not None and legal <= most and analyse(workload, arch).reason is None:
            return workload, arch, rng.choice(OBJECTIVES)


def _fanout(rng: random.Random, name: str) -> Fanout:
    merge, price = Multicast(rng.choice(("identical", "none", "union"))), Fraction(rng.choice((1, 3)))
    one = Fanout(name, rng.choice((2, 3, 4)), merge, reduction=rng.random() < 0.6)
    if rng.random() < 0.6:
        return one
    wired = replace(one, multicast=Multicast.NONE if merge is Multicast.UNION else merge)
    return replace(wired, pj_per_word_hop=price, hops=rng.choice(list(Hops)), reduce_pj=price)


def unlike() -> tuple[Workload, Architecture]:
    """Return a window and a machine on which the best tree has an inner fan-out's loop outside an outer one's."""
    rows, cols = Fanout("rows", 4), Fanout("cols", 4, Multicast.NONE, reduction=False)
    outer, inner = (MemoryLevel(n, c, 8, Fraction(e), Fraction(e)) for n, c, e in (("D", None, 5), ("RF", 24, 1)))
    arch = Architecture("unlike", (outer, rows, cols, inner, ComputeUnit("MAC", Fraction(1))))
    return pm.einsum("O[p] += I[p+r] * W[r]", p=8, r=4), arch


def inner_outside(arch: Architecture, mapping: Mapping) -> bool:
    """Return whether an inner fan-out's loop is outside an outer one's over the same dim."""
    numbers = {fanout.name: number for number, fanout in enumerate(arch.fanouts)}
    loops = [node for node in mapping.nodes if isinstance(node, Spatial)]
    return any(
        one.dim == other.dim and numbers[one.fanout] > numbers[other.fanout]
        for i, one in enumerate(loops)
        for other in loops[i:]
    )


@pytest.mark.slow
def test_the_best_tree_has_an_inner_fan_out_outside() -> None:
    workload, arch = unlike()
    found = pm.explore(workload, arch, "edp", tiles="divide")
    assert (found.status, found.value) == ("OPTIMAL", 672.0)
    assert found.best is not None
    assert inner_outside(arch, found.best)
    assert pm.verify(found.certificate()).proven


@pytest.mark.slow
def test_two_loops_over_one_dim_on_a_fan_out_may_cost_less_and_are_not_in_the_space() -> None:
    """The numbers of docs/counting.md, "The mapping space"."""
    outer, fanouts = (
        MemoryLevel("D", None, 8, Fraction(5), Fraction(5)),
        (Fanout("X", 4, Multicast.UNION), Fanout("Y", 4)),
    )
    workload, arch = (
        pm.einsum("O[p] += I[p+2*r] * W[r]", p=8, r=2),
        Architecture("two", (outer, *fanouts, ComputeUnit("M"))),
    )
    loops = (Spatial("p", 4, "X"), Spatial("p", 2, "Y"), Spatial("p", 1, "X"), Spatial("r", 1, "Y"))
    cost = evaluate(workload, arch, Mapping((*loops, Compute("S"))))
    assert (cost.legal, objective_values(workload, arch, parse_objective("edp", arch), cost)) == (True, (110,))
    found = pm.explore(workload, arch, "edp", tiles="any")
    assert (found.status, found.value) == ("OPTIMAL", 130.0)


@pytest.mark.slow
def test_loops_of_a_group_that_stand_apart_are_outside_the_space_and_may_move_less() -> None:
    """As docs/counting.md says: with a temporal loop over the window's dim between the two."""
    fanouts = [Fanout(name, 4, reduction=False) for name in "XY"]
    outer, inner = MemoryLevel("D", word_bits=8), MemoryLevel("R", 32, word_bits=8, holds=("I", "O"))
    arch = Architecture("alike", (outer, *fanouts, inner, ComputeUnit("MAC")))
    workload = pm.einsum("O[p] += I[p+2*r] * W[r]", p=8, r=2)
    loops = (Spatial("p", 4, "X"), Temporal("p", 2), Spatial("p", 1, "Y"), Temporal("r", 1))
    tree = Mapping((Storage("D", ("O", "I", "W")), *loops, Storage("R", ("I", "O")), Compute("S")))
    cost = evaluate(workload, arch, tree)
    assert (cost.legal, objective_values(workload, arch, parse_objective("traffic:D", arch), cost)) == (True, (192,))
    found = pm.explore(workload, arch, "traffic:D", tiles="divide")
    assert (found.status, found.value) == ("OPTIMAL", 208.0)


def check_search(seed: int, most: int) -> None:
    """Hold the search to every tree evaluated by itself."""
    workload, arch, objective = question(seed, most)
    legal = all_trees(workload, arch, "divide", legal=True)
    true = least_value(Problem(workload, arch, objective, "divide", len(legal), frozenset()), arch, objective, "divide")
    check_found(seed, workload, arch, objective, true)


def check_found(seed: int, workload: Workload, arch: Architecture, objective: str, true: Fraction | None) -> None:
    found = search(workload, arch, objective, "divide", time_limit_s=600)
    told = f"seed {seed}: {objective} {found.status} {found.value}, all trees {true}"
    assert found.status == ("INFEASIBLE" if true is None else "OPTIMAL"), told
    assert true is None or found.value == float(true), told


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(24), 4))
def test_the_search_finds_the_least_of_all_trees_written_out(seed: int) -> None:
    check_search(seed, 250)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(50))
def test_the_search_finds_the_least_of_all_trees_walked(block: int) -> None:
    for seed in range(1000 + 10 * block, 1010 + 10 * block):
        workload, arch, objective = question(seed, 12_000)
        walked = exhaustive(workload, arch, objective, "divide")
        assert walked is not None
        check_found(seed, workload, arch, objective, walked.value)


@pytest.mark.slow
@pytest.mark.parametrize("tiles", ["divide", "any"])
@pytest.mark.parametrize("seed", few(range(12), 2))
def test_spaces_hold_each_order_that_counts_once(seed: int, tiles: str) -> None:
    workload, arch, objective = question(seed, 800, tiles)
    size = space_size(workload, arch, tiles)
    walked = exhaustive(workload, arch, objective, tiles)
    assert walked is not None
    assert size.legal == walked.legal
    assert size.legal is not None
    if size.legal < 300:
        assert size.legal == len(all_trees(workload, arch, tiles, legal=True))
    if size.syntactic is not None and size.syntactic < 600:
        assert size.syntactic == len(all_trees(workload, arch, tiles, legal=False))


@pytest.mark.parametrize("merges", [*product(Multicast, repeat=3)])
def test_classes_of_fan_outs_can_stand_in_every_order_of_the_space(merges: tuple[Multicast, ...]) -> None:
    """Two alike fan-outs that a third one may part are not one class."""
    fanouts = [Fanout(f"F{i}", 2, merge, reduction=i > 0) for i, merge in enumerate(merges)]
    arch = Architecture("three", (MemoryLevel("D"), *fanouts, MemoryLevel("R"), ComputeUnit("MAC")))
    workload = pm.einsum("O[p] += I[p+r] * W[r]", p=8, r=2)
    problem = analyse(workload, arch)
    classes = problem.spatial_orders(range(len(problem.classes)))
    orders = spatial_orders(groups_of(arch), (0,), kinds_of(workload, arch, "p"))
    whole = sorted(order for order in orders if len(order) == len(fanouts))
    assert whole == sorted(tuple(f for i in order for f in problem.classes[i].fanouts) for order in classes)


@pytest.mark.slow
@pytest.mark.parametrize("unlike", ["multicast", "reduction", ""])
def test_an_exchange_along_a_plain_dim_may_change_bursts_alone(unlike: str) -> None:
    """What siblings load or drain as one message lies together or apart: then both orders are in the space."""
    merges = (Multicast.UNION, Multicast.IDENTICAL) if unlike == "multicast" else (Multicast.IDENTICAL, Multicast.NONE)
    fanouts = [Fanout(f"F{i}", 2, merges[i], reduction=not i or unlike != "reduction") for i in range(2)]
    outer, inner = MemoryLevel("D", burst_bits=16), MemoryLevel("R")
    arch = Architecture("bursts", (outer, *fanouts, inner, ComputeUnit("MAC")))
    workload, goal, changed = pm.einsum("O[p] += I[p] * W[p]", p=8), parse_objective("bursts:D", arch), 0
    trees = all_trees(workload, arch, "divide", legal=True)
    assert any(inner_outside(arch, tree) for tree in trees) == bool(unlike)
    for tree in trees:
        mapping = in_order_of_levels(arch, tree)
        for other in exchanged(workload, mapping):
            one, two = evaluate(workload, arch, mapping), evaluate(workload, arch, other)
            assert one == two, (mapping, other)
            changed += objective_values(workload, arch, goal, one) != objective_values(workload, arch, goal, two)
    assert bool(changed) == bool(unlike), "fan-outs that merge loads and drains alike are not told apart"


@pytest.mark.slow
def test_the_best_order_of_a_plain_dim_is_the_one_that_loads_neighbours_together() -> None:
    """Per step 4 of 8 elements come; X unites pairs of them: neighbours, one burst each, where its loop is inside."""
    outer, inner = MemoryLevel("D", burst_bits=16), MemoryLevel("R", 24, word_bits=8, must_hold=("I", "W", "O"))
    arch = Architecture("bursts", (outer, Fanout("X", 2, Multicast.UNION), Fanout("Y", 2), inner, ComputeUnit("MAC")))
    workload = pm.einsum("O[p] += I[p] * W[p]", p=8)
    found = pm.explore(workload, arch, "lex:latency,bursts:D", tiles="divide")
    assert (found.status, found.values) == ("OPTIMAL", (("latency", 2), ("bursts:D", 12))), "else 20"
    assert found.best is not None
    assert inner_outside(arch, found.best)


PLAIN = ("O[p] += I[p] * W[p]", "O[p] += I[p] * W[p]", "O[p] += I[p,r] * W[r]", "O[p] += I[r,p] * W[r]")
OF_RUNS = (*PLAIN, "O[p] += I[p] * W[r]", "O[p] += I[p+r] * W[r]", "O[r,p] += I[p] * W[r]")


def question_of_runs(seed: int, most: int = 400) -> tuple[Workload, Architecture, str, str]:
    """Return a small nest on a machine that counts bursts or beats and requests, an objective and the rule of tiles."""
    rng = random.Random(f"runs {seed}")
    while True:
        fanouts = [
            Fanout(f"F{i}", rng.choice((2, 2, 2, 3)), rng.choice([Multicast.UNION, *Multicast]), reduction=i == late)
            for late in [rng.choice((0, 1, 1))]
            for i in range(rng.choice((2, 2, 2, 3)))
        ]
        told: dict[str, Any] = {"request_bits": 16, "burst_bits": rng.choice((16, 24, 32))}
        if is_timed := rng.random() < 0.5:
            told = {name: rng.choice((None, 16, 32)) for name in ("beat_bits", "request_bits")}
            told |= {"request_latency_cycles": Fraction(rng.choice((0, 2))), "in_flight": rng.choice((None, 1, 2))}
            if rng.random() < 0.3:
                told |= {"command_bits": 16, "write_command_bits": 16, "beat_bits": 8, "request_bits": 32}
        tiles, text = rng.choice(("divide", "divide", "any")), rng.choice(OF_RUNS)
        tiles = "divide" if is_timed else tiles  # of some uneven trees steps are not counted
        sizes = {"p": rng.choice((4, 8, 8, 12) if tiles == "divide" else (3, 4, 5)), "r": rng.choice((1, 2, 3))}
        prices = Fraction(rng.choice((5, 20))), Fraction(5)
        outer = MemoryLevel("D", None, 8, *prices, bandwidth_bits_per_cycle=Fraction(rng.choice((4, 8))), **told)
        buffer = MemoryLevel("B", rng.choice((None, 64)), 8, Fraction(2), Fraction(2), holds=("I",))
        held = rng.choice((None, ("O",), ("I", "O"), ("I", "W", "O"), ("I", "W", "O")))
        must = rng.choice(((), held or (), held or ()))
        inner = MemoryLevel("R", rng.choice((None, 16, 24, 24, 40)), 8, Fraction(1), holds=held, must_hold=must)
        nodes = rng.choice(((outer, *fanouts, inner), (outer, buffer, *fanouts, inner), (outer, *fanouts)))
        workload = pm.einsum(text, sizes={dim: size for dim, size in sizes.items() if dim in text})
        arch = Architecture("runs", (*nodes, ComputeUnit("MAC", Fraction(1))))
        legal = space_size(workload, arch, tiles).legal
        if legal is not None and legal <= most:
            timed = ("latency", "latency", "edp", "weighted:2*energy+3*latency", "energy")
            pieces = ("lex:latency,bursts:D", "lex:latency,bursts:D", "requests:D", "weighted:1*energy+7*bursts:D")
            return workload, arch, rng.choice(timed if is_timed else pieces), tiles


def check_runs(seed: int) -> bool:
    """Hold the search to all trees written out, each counted by itself, the space to their number, and orders that are
    not told apart to equal costs. Return whether the best tree has an inner fan-out's loop outside, and no other."""
    workload, arch, objective, tiles = question_of_runs(seed)
    goal = parse_objective(objective, arch)
    trees = [in_order_of_levels(arch, tree) for tree in all_trees(workload, arch, tiles, legal=True)]
    costs = {tree: evaluate(workload, arch, tree) for tree in sorted(trees, key=repr)}
    values = {t: objective_values(workload, arch, goal, cost) for t, cost in costs.items() if cost.legal}
    found = search(workload, arch, objective, tiles, time_limit_s=600)
    true = min(values.values(), default=None)
    told = f"seed {seed}: {objective} {found.status} {found.value} {found.values}, all trees {true}"
    assert found.status == ("INFEASIBLE" if true is None else "OPTIMAL"), told
    own = [value for _, value in found.values] or [found.value]
    assert true is None or own == [float(each) for each in true], told
    assert found.space.legal in (None, len(trees)), told
    assert space_size(workload, arch, tiles).legal == len(trees), told
    for tree in random.Random(seed).sample([*costs], min(len(costs), 60)) if tiles == "divide" else ():
        for other in exchanged(workload, tree):
            if other not in costs:
                cost = evaluate(workload, arch, other)
                assert cost.energy_pj == costs[tree].energy_pj, (seed, tree, other)
                for each in (goal, *(part for _, part in goal.parts)):
                    one, two = (objective_values(workload, arch, each, c) for c in (costs[tree], cost))
                    assert one == two, (seed, tree, other)
    best = [tree for tree, value in values.items() if value == true]
    return bool(best) and all(inner_outside(arch, tree) for tree in best)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few([49, 50, *range(24)], 5))
def test_searches_by_what_lies_together_find_the_least_of_all_trees(seed: int) -> None:
    check_runs(seed)


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_searches_by_what_lies_together_find_the_least_of_many_trees(block: int) -> None:
    for seed in range(1000 + 20 * block, 1020 + 20 * block):
        check_runs(seed)


@pytest.mark.slow
def test_samples_are_of_every_order() -> None:
    workload, arch = pm.einsum("O[p] += I[p+r] * W[r]", p=4, r=2), unlike()[1]
    drawn = pm.space.sample(workload, arch, 2000, seed=1).mappings
    legal = all_trees(workload, arch, "divide", legal=True)
    share = sum(inner_outside(arch, tree) for tree in legal) / len(legal)
    assert sum(inner_outside(arch, tree) for tree in drawn) / len(drawn) == pytest.approx(share, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(20), 2, late=(0,)))
def test_exchanging_loops_that_are_not_told_apart_changes_no_count(seed: int) -> None:
    """Along dims of no window, or on fan-outs that count alike, though one of them may add partial sums."""
    workload, arch, _ = question(seed, 2000)
    if seed % 2:
        alike = {node.name: Fanout(node.name, node.size, reduction=node.reduction) for node in arch.fanouts}
        arch = replace(arch, nodes=tuple(alike.get(node.name, node) for node in arch.nodes))
    else:
        workload = pm.einsum("O[p] += I[p,r] * W[r]", sizes=workload.extents())
    trees = sorted(all_trees(workload, arch, "divide", legal=True), key=repr)
    met = 0
    for tree in random.Random(seed).sample(trees, min(len(trees), 400)):
        mapping = in_order_of_levels(arch, tree)
        for other in exchanged(workload, mapping):
            one, two = evaluate(workload, arch, mapping), evaluate(workload, arch, other)
            assert one == two, (mapping, other)
            met += 1
    assert met or len(trees) < 400


@pytest.mark.parametrize("fanouts", [9, 12])
def test_many_unlike_fanouts_between_two_levels_take_no_longer_than_the_limit(fanouts: int) -> None:
    """Their orders, 479,001,600 of 12, are neither listed nor counted; the answer is not told as proven."""
    kinds = (Multicast.IDENTICAL, Multicast.NONE)
    nodes = [Fanout(f"F{i}", 2, kinds[i % 2]) for i in range(fanouts)]
    arch = Architecture("many", (MemoryLevel("D"), *nodes, MemoryLevel("R", 64), ComputeUnit("MAC")))
    workload = pm.einsum("O[p] += I[p+r] * W[r]", p=1024, r=3)
    assert space_size(workload, arch, "divide").legal is None
    assert analyse(workload, arch).reason == "many fan-outs between two levels share loads of a window unlike"
    with pytest.raises(pm.errors.BudgetError, match="PM521 over 7 fan-outs"):
        pm.space.sample(workload, arch, 1, seed=1)
    assert not analyse(pm.matmul(m=64, n=64, k=64), arch).reason  # no window: one order


def test_fan_outs_that_no_loop_can_use_stand_in_no_order() -> None:
    """Seven of one instance have 5,040 orders for each of three dims; the trees are those without them."""
    outer, inner = MemoryLevel("D", burst_bits=16), MemoryLevel("R", 64, must_hold=("A",), holds=("A",))
    idle = [Fanout(f"F{i}", 1, Multicast.UNION if i % 2 else Multicast.NONE, reduction=i > 2) for i in range(7)]
    workload = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=3, n=3, k=3)
    plain, wide = (Architecture("idle", (outer, *some, inner, ComputeUnit("MAC"))) for some in ((), idle))
    counted = [exhaustive(workload, arch, "traffic:D", "divide", most_trees=10**6) for arch in (plain, wide)]
    assert counted[0] == counted[1]
    assert counted[0] is not None
    assert counted[0].legal == space_size(workload, wide, "divide").legal


def exchanged(workload: Workload, mapping: Mapping) -> list[Mapping]:
    """Return the mapping with two neighbouring loops over a dim, on two fan-outs, exchanged."""
    found: list[Mapping] = []
    for dim, extent in workload.extents().items():
        places = [i for i, node in enumerate(mapping.nodes) if getattr(node, "dim", None) == dim]
        for before, (outer, inner) in zip([None, *places], pairwise(places), strict=False):
            one, two = mapping.nodes[outer], mapping.nodes[inner]
            if isinstance(one, Spatial) and isinstance(two, Spatial) and one.fanout != two.fanout:
                whole = extent if before is None else mapping.nodes[before].tile  # type: ignore[union-attr]
                nodes = list(mapping.nodes)
                nodes[outer] = Spatial(dim, whole * two.tile // one.tile, two.fanout)
                nodes[inner] = Spatial(dim, two.tile, one.fanout)
                found.append(Mapping(tuple(nodes)))
    return found
