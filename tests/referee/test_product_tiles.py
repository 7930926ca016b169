"""The search over orders and cuts of products against the one over tables, which shares no formula of tiles with it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import count, product
from math import inf, prod
from typing import Any

import numpy as np
import pytest

import polymap as pm
from polymap.costmodel.referees.trees import exhaustive
from polymap.ir import Architecture, Fanout, MemoryLevel, Multicast, Workload
from polymap.poly import INT64
from polymap.search.dividing import best_product_tiles, chain_weights, product_search, product_spread, solve
from polymap.search.dividing.chain_weights import Weights
from polymap.search.dividing.product_bounds import PartValues
from polymap.search.dividing.product_search import _Plans
from polymap.search.dividing.product_spread import kinds_of_structures
from polymap.search.dividing.product_tiles import best_tiles
from polymap.search.problem import (
    AtLeast,
    Factor,
    Held,
    Rule,
    Rules,
    Span,
    analyse,
    exact_score,
    is_confirmed,
    measure_of,
    parse_objective,
    problem as tables_of_problems,
)
from tests.case_machines import with_open_levels, with_wires
from tests.times import few

EINSUMS = (
    "C[m,n] += A[m,k] * B[k,n]",
    "C[b,m,n] += A[b,m,k] * B[b,k,n]",
    "C[m] += A[m,k] * B[k]",
    "C[m,n] += A[m] * B[n]",
    "C[m,n] += A[m,k] * B[]",
    "C[] += A[m,k] * B[k]",
)
SIZES = (1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 13, 16, 20, 24, 30, 36, 48, 64, 100, 128)


def random_machine(rng: random.Random) -> Architecture:
    """Return a preset with other capacities, energies, fan-outs, and tensors that some level must hold."""
    arch = pm.load_arch(rng.choice(("flat3", "eyeriss_like", "simba_like", "tpu_like")))
    nodes = list(arch.nodes)
    for place, node in enumerate(nodes):
        if isinstance(node, MemoryLevel) and node.capacity_bits:
            must = (rng.choice("AC"),) if node.holds is None and rng.random() < 0.15 else node.must_hold
            bits = max(8, node.capacity_bits // rng.choice((1, 1, 2, 8, 64, 1000)))
            read = node.read_pj * rng.choice((0, 1, 1, 2, 10))
            nodes[place] = replace(node, capacity_bits=bits, must_hold=must, read_pj=read)
        elif isinstance(node, Fanout):
            size = rng.choice((node.size, node.size, 1, 2, 3, 4, 5))
            multicast = rng.choice((Multicast.IDENTICAL, Multicast.IDENTICAL, Multicast.NONE))
            nodes[place] = replace(node, size=size, multicast=multicast, reduction=rng.random() < 0.7)
    return replace(arch, nodes=tuple(nodes))


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(6), 2))
def test_with_wires_the_dividing_answer_over_any_tiles_is_that_over_dividing_ones(seed: int) -> None:
    rng = random.Random(f"wired products {seed}")
    for _ in range(3):
        einsum = rng.choice(EINSUMS)
        sizes = {dim: rng.choice(SIZES[:10]) for dim in "bmnk" if dim in einsum}
        workload = pm.io.workload_from_document({"name": "product", "einsum": einsum, "sizes": sizes})
        arch = with_wires(rng, with_open_levels(rng, random_machine(rng)))
        goal = parse_objective("energy", arch)
        problem, measure = analyse(workload, arch), measure_of(goal, workload, arch)
        answer = best_product_tiles(problem, measure, lambda: False)
        divided = pm.explore(workload, arch, tiles="divide")
        chosen = pm.choose_tiles(workload, arch)
        assert chosen.is_proven
        assert divided.status == ("INFEASIBLE" if chosen.value is None else "OPTIMAL")
        assert divided.value == (None if chosen.value is None else float(chosen.value))
        if answer is None or answer.found is None:
            continue
        claimed, mapping = (measure.unscaled(answer.found[0]),), answer.found[1].mapping
        assert is_confirmed(workload, arch, goal, mapping, claimed), (einsum, sizes, arch)
        assert divided.value == float(claimed[0])


def with_long_energies(rng: random.Random, arch: Architecture) -> Architecture:
    """Return a machine with energies of so many digits that exact costs take more than 64 bits."""

    def long(price: Fraction) -> Fraction:
        return price * Fraction(rng.randrange(10**9, 10**10), 10**9) + Fraction(rng.randrange(10**9), 10**12)

    nodes = (
        replace(node, read_pj=long(Fraction(node.read_pj)), write_pj=long(Fraction(node.write_pj)))
        if isinstance(node, MemoryLevel)
        else node
        for node in arch.nodes
    )
    return replace(arch, nodes=tuple(nodes))


def test_costs_so_long_that_floats_lose_what_64_bits_hold_are_left_to_the_tables() -> None:
    workload = pm.matmul(m=2**17, n=2**17, k=2**16)
    for digits, is_searched in ((9, True), (18, False)):
        level = MemoryLevel("DRAM", read_pj=1 + Fraction(1, 10**digits))
        arch = Architecture("long", (level, MemoryLevel("L1", 10**6), pm.ComputeUnit("MAC")))
        problem, measure = analyse(workload, arch), measure_of(parse_objective("energy", arch), workload, arch)
        assert product_search.is_product(problem, measure) == is_searched, digits


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["energy", "edp"])
@pytest.mark.parametrize("seed", few(range(30), 2))
def test_products_whose_costs_are_longer_than_64_bits_are_those_of_the_tables(seed: int, objective: str) -> None:
    """Bounds are floats there, and the few that may win are counted in Python's integers."""
    rng, compared = random.Random(f"long products {seed}"), 0
    while compared < 3:
        einsum = rng.choice(EINSUMS)
        sizes = {dim: rng.choice(SIZES) for dim in "bmnk" if dim in einsum}
        workload = pm.io.workload_from_document({"name": "product", "einsum": einsum, "sizes": sizes})
        arch = with_long_energies(rng, random_machine(rng))
        goal = parse_objective(objective, arch)
        problem, measure = analyse(workload, arch), measure_of(goal, workload, arch)
        if product_search.kept_as(problem, measure) != np.float64:
            continue
        answer = best_product_tiles(problem, measure, lambda: False)
        if answer is None:
            continue
        ticks = partial(next, count())
        other = solve(problem, measure, lambda ticks=ticks: ticks() > 400, lambda found, bound: None, looks_first=False)
        if other.left != ():
            continue
        compared += 1
        found, known = answer.found, other.found
        assert answer.is_proven
        assert (None if found is None else found[0]) == (known[0][0] if known else None), (einsum, sizes, arch)
        if found is not None:
            claimed = (measure.unscaled(found[0]),)
            assert is_confirmed(workload, arch, goal, found[1].mapping, claimed), (einsum, sizes, arch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(6), 2))
def test_products_of_too_many_tiles_for_tables_have_the_answer_of_the_tables(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(f"products without tables {seed}")
    einsum = rng.choice(EINSUMS)
    sizes = {dim: rng.choice(SIZES[4:]) for dim in "bmnk" if dim in einsum}
    workload = pm.io.workload_from_document({"name": "product", "einsum": einsum, "sizes": sizes})
    arch = random_machine(rng)
    expected = pm.explore(workload, arch, tiles="divide")
    monkeypatch.setattr(tables_of_problems, "TUNING", replace(tables_of_problems.TUNING, most_axes=0))
    assert analyse(workload, arch).reason == "there are too many choices of tiles for one table"
    found = pm.explore(workload, arch, tiles="divide", time_limit_s=5)
    if expected.status == "OPTIMAL":
        assert (found.status, found.value) == ("OPTIMAL", expected.value), (einsum, sizes, arch)
    else:
        assert found.value is None, (einsum, sizes, arch)


@pytest.mark.parametrize("seed", few(range(8), 4))
def test_the_best_product_is_that_of_the_tables(seed: int) -> None:
    rng, compared = random.Random(f"product tiles {seed}"), 0
    for _ in range(12):
        einsum = rng.choice(EINSUMS)
        sizes = {dim: rng.choice(SIZES) for dim in "bmnk" if dim in einsum}
        workload = pm.io.workload_from_document({"name": "product", "einsum": einsum, "sizes": sizes})
        arch = random_machine(rng)
        objective = rng.choice(("energy", "energy", *(f"traffic:{level.name}" for level in arch.levels[:2])))
        goal = parse_objective(objective, arch)
        problem, measure = analyse(workload, arch), measure_of(goal, workload, arch)
        answer = best_product_tiles(problem, measure, lambda: False)
        if answer is None:
            continue
        other = solve(problem, measure, lambda: False, lambda found, bound: None, looks_first=False)
        assert other.left == ()
        if answer.found is None:
            assert not other.found, (einsum, sizes, arch)
            continue
        compared += 1
        assert other.found[0][0] == answer.found[0], (einsum, sizes, objective, arch)
        score = exact_score(workload, arch, goal, answer.found[1].mapping)
        assert score is not None
        assert (score.value, score.excess) == (measure.unscaled(answer.found[0]), 0)
    assert compared > 3


@pytest.mark.parametrize("machine", ["flat3", "eyeriss_like", "simba_like", "tpu_like"])
def test_large_products_are_those_of_the_tables(machine: str) -> None:
    rng, arch = random.Random(f"large products {machine}"), pm.load_arch(machine)
    for _ in range(3):
        sizes = {dim: rng.choice((96, 128, 200, 384, 512, 1024, 3072, 4096)) for dim in "mnk"}
        workload = pm.io.workload_from_document({"name": "product", "einsum": EINSUMS[0], "sizes": sizes})
        goal = parse_objective("energy", arch)
        problem, measure = analyse(workload, arch), measure_of(goal, workload, arch)
        answer = best_product_tiles(problem, measure, lambda: False)
        other = solve(problem, measure, lambda: False, lambda found, bound: None, looks_first=False)
        assert answer is not None
        assert answer.found is not None
        assert other.left == ()
        assert other.found[0][0] == answer.found[0], sizes


OBJECTIVES = ("latency", "edp", "ed2p", "energy")


def timed(rng: random.Random, arch: Architecture) -> Architecture:
    """Return a machine with bandwidths and leaks, where two unlike fan-outs stand for some of them."""
    nodes = list(arch.nodes)
    for place, node in reversed(list(enumerate(nodes))):
        if isinstance(node, MemoryLevel):
            band = Fraction(rng.choice((8, 16, 64, 100, 256)), rng.choice((1, 3))) if rng.random() < 0.6 else None
            leak = Fraction(rng.choice((0, 0, 0, 1, 5)), 3)
            nodes[place] = replace(node, bandwidth_bits_per_cycle=band, leak_pj_per_cycle=leak)
        elif isinstance(node, Fanout):
            nodes[place] = replace(node, size=min(node.size, 4))
            if rng.random() < 0.4:
                other = Multicast.NONE if node.multicast is Multicast.IDENTICAL else Multicast.IDENTICAL
                extra = replace(node, name=f"{node.name}2", size=rng.choice((2, 3, 4)), multicast=other)
                nodes.insert(place, replace(extra, reduction=not node.reduction))
    return replace(arch, nodes=tuple(nodes), overlap=rng.random() < 0.7)


def question(
    rng: random.Random, sizes: tuple[int, ...], objective: str | None = None
) -> tuple[Workload, Architecture, str]:
    """Return a product, or one with a tensor of one element, a machine that is timed, and an objective."""
    einsum = rng.choice((EINSUMS[0], *EINSUMS))
    each = {dim: rng.choice(sizes) for dim in "bmnk" if dim in einsum}
    workload = pm.io.workload_from_document({"name": "product", "einsum": einsum, "sizes": each})
    arch = timed(rng, random_machine(rng))
    arch = with_wires(rng, with_open_levels(rng, arch)) if rng.random() < 0.4 else arch
    return workload, arch, objective or rng.choice(OBJECTIVES)


def rules_of_a_leg(rng: random.Random, workload: Workload, arch: Architecture) -> Rules:
    """Return rules that legs of programs have: what a level holds, all of a tensor or some of a dim there, and how far
    a fan-out spreads a dim."""
    names, extents, rules = [level.name for level in arch.levels], workload.extents(), list[Rule]()
    for kind in rng.choices(("held", "least", "span", "factor"), (3, 2, 3, 2), k=rng.choice((1, 2, 3))):
        tensor, level, dim = rng.choice(workload.tensors), rng.choice(names[1:]), rng.choice(list(extents))
        outside = [name for name in names[: names.index(level) + 1] if not arch.fanouts_above(name)]
        if kind == "held" or rng.random() < 0.7:
            rules.append(Held(level, tensor.name, must=rng.random() < 0.7))
        if kind == "least":
            rules.append(AtLeast(level, tensor.name, prod(tensor.shape)))
        elif kind == "span":
            whole = (extents[dim],) * 2
            some = sorted(rng.choices([n for n in range(1, extents[dim] + 1) if extents[dim] % n == 0], k=2))
            rules.append(Span(level, tensor.name, rng.choice(outside), dim, *rng.choice((whole, some, some))))
        elif kind == "factor" and arch.fanouts:
            rules.append(Factor(rng.choice(arch.fanouts).name, dim, rng.choice((1, 1, 2)), rng.choice((2, 4, None))))
    return tuple(rules)


def difference(asked: tuple[Workload, Architecture, str], rules: Rules = ()) -> str | None:
    """Return how the search without tables differs from that with them, or its mapping's cost from its claim (None: it
    does not; "": one of them does not answer)."""
    workload, arch, objective = asked
    goal = parse_objective(objective, arch)
    problem, measure = analyse(workload, arch, rules), measure_of(goal, workload, arch)
    answer = best_product_tiles(problem, measure, lambda: False)
    steps = count()
    other = solve(problem, measure, lambda: next(steps) > 400, lambda found, bound: None, looks_first=False)
    if answer is None or other.left != ():
        return ""
    if answer.found is None or not other.found:
        return None if answer.found is None and not other.found else f"{asked}: {answer.found}, {other.found}"
    if (answer.found[0], answer.bound) != (other.found[0][0], answer.found[0]):
        return f"{asked}: {answer.found[0]}, {answer.bound}, tables {other.found[0][0]}"
    score = exact_score(workload, arch, goal, answer.found[1].mapping)
    true = score is not None and (score.value, score.excess) == (measure.unscaled(answer.found[0]), 0)
    return None if true else f"{asked}: claims {measure.unscaled(answer.found[0])}, costs {score}"


@pytest.mark.parametrize("seed", few(range(10), 4))
def test_products_of_several_costs_on_unlike_fan_outs_are_those_of_the_tables(seed: int) -> None:
    rng = random.Random(f"timed products {seed}")
    told = [difference(question(rng, SIZES[:9], OBJECTIVES[seed % 4])) for _ in range(4)]
    assert [fault for fault in told if fault] == []
    assert None in told


@pytest.mark.parametrize("seed", range(3))
def test_blocks_of_one_pair_and_any_end_of_the_time_leave_no_better_product_out(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Referee: the search over tables. An early end claims no bound above the best value."""
    monkeypatch.setattr(product_search, "TUNING", replace(product_search.TUNING, first_raised=1))
    rng, ended = random.Random(f"blocks of products {seed}"), 0
    for _ in range(4):
        asked = question(rng, SIZES[:9], OBJECTIVES[1 + seed])
        assert not difference(asked)
        problem = analyse(*asked[:2])
        measure = measure_of(parse_objective(asked[2], asked[1]), *asked[:2])
        whole = best_product_tiles(problem, measure, lambda: False)
        for most in range(1, 24) if whole is not None and whole.found is not None and whole.is_proven else ():
            steps = count()
            early = best_product_tiles(problem, measure, lambda steps=steps, most=most: next(steps) >= most)
            if whole is not None and whole.found is not None and early is not None:
                assert early.found is not None
                assert early.bound is not None
                assert early.bound <= whole.found[0] <= early.found[0], (asked, most)
                ended += not early.is_proven
    assert ended


@pytest.mark.parametrize("seed", few(range(8), 2))
def test_products_under_the_rules_of_legs_are_those_of_the_tables(seed: int) -> None:
    rng, told = random.Random(f"ruled products {seed}"), list[str | None]()
    for _ in range(8):
        asked = question(rng, SIZES[:9])
        told.append(difference(asked, rules_of_a_leg(rng, *asked[:2])))
    assert [fault for fault in told if fault] == []
    assert None in told


@pytest.mark.parametrize("seed", range(4))
def test_a_product_is_spread_in_every_way_that_its_fan_outs_allow(seed: int) -> None:
    """Referee: all factors of every fan-out."""
    rng, level, seen = random.Random(f"spread products {seed}"), MemoryLevel("L0"), 0
    for _ in range(4):
        sizes = {dim: rng.choice((1, 2, 3, 4, 6)) for dim in "mnk"}
        fans = [Fanout(name, rng.choice((1, 2, 4, 6)), dims=rng.choice((None, ("m", "k"))),
                       multicast=rng.choice((Multicast.IDENTICAL, Multicast.NONE))) for name in "ZXY"]  # fmt: skip
        rules = tuple(Factor(rng.choice("ZXY"), rng.choice("mnk"), rng.choice((1, 1, 2)), rng.choice((2, 3, None)))
                      for _ in range(rng.randrange(3)))  # fmt: skip
        arch = Architecture("fans", (level, *fans[:2], MemoryLevel("L1", 10**6), fans[2], pm.ComputeUnit("MAC")))
        problem, each = (
            analyse(pm.matmul(m=sizes["m"], n=sizes["n"], k=sizes["k"]), arch, rules),
            list[list[tuple[int, ...]]](),
        )
        for fan in fans:
            own = [rule for rule in rules if rule.fanout == fan.name]
            free = [[f for f in range(1, n + 1) if n % f == 0 and (f == 1 or fan.may_spread(dim))
                     and all(one.dim != dim or one.least <= f <= (one.most or f) for one in own)]
                    for dim, n in zip(problem.dims, problem.extents, strict=True)]  # fmt: skip
            each.append([row for row in product(*free) if prod(row) <= fan.size])
        every = [
            rows for rows in product(*each) if not any((np.array(problem.extents) % np.prod(rows, axis=0)).tolist())
        ]
        classes = [[at for at in range(3) if at in one.fanouts] for one in problem.classes]
        wanted = {tuple(tuple(np.prod([rows[at] for at in own], axis=0).tolist()) for own in classes) for rows in every}
        kinds = kinds_of_structures(problem, lambda: False, apart=True)
        assert (kinds is None) == (not wanted)
        if kinds is None:
            continue
        found = [kinds.spread.structure(number) for number in range(len(kinds.spread.classes))]
        assert sorted(one.classes for one in found) == sorted(wanted), (arch, rules)
        assert {one.factors for one in found} <= set(every)
        for one in found:
            own = [tuple(np.prod([one.factors[at] for at in row], axis=0).tolist()) for row in classes]
            assert tuple(own) == one.classes
        seen += len(found)
    assert seen > 10


def test_a_product_has_a_dim_of_its_own_that_each_tensor_lacks() -> None:
    arch = pm.load_arch("flat3")
    for text, is_one in {
        **dict.fromkeys(EINSUMS, True),
        "C[m,n] += A[m,k] * B[k]": False,  # it lacks two of three
        "C[b,m,n] += A[m,k] * B[b,k,n]": False,
        "C[m] += A[m,k] * B[m]": False,  # two lack the same one
        "C[m] += A[m+k] * B[k]": False,
    }.items():
        workload = pm.einsum(text, sizes={dim: 4 for dim in "bmnk" if dim in text})
        measure = measure_of(parse_objective("energy", arch), workload, arch)
        assert product_search.is_product(analyse(workload, arch), measure) == is_one, text


@pytest.mark.parametrize("seed", few(range(7), 2))
def test_products_are_the_best_of_all_trees(seed: int) -> None:
    rng, compared = random.Random(f"tiny products {seed}"), 0
    while compared < 3:
        workload, arch, objective = question(rng, (1, 2, 2, 3, 4))
        goal = parse_objective(objective, arch)
        measure = measure_of(goal, workload, arch)
        answer = best_product_tiles(analyse(workload, arch), measure, lambda: False)
        true = None if answer is None else exhaustive(workload, arch, objective, "divide", most_trees=3000)
        if answer is None or true is None:
            continue
        compared += 1
        assert true.value == (None if answer.found is None else measure.unscaled(answer.found[0])), (workload, arch)


@pytest.mark.parametrize("seed", few(range(4), 1))
def test_what_is_not_looked_at_in_time_is_bounded(seed: int) -> None:
    rng = random.Random(f"products in time {seed}")
    for _ in range(4):
        workload, arch, objective = question(rng, SIZES)
        problem, measure = analyse(workload, arch), measure_of(parse_objective(objective, arch), workload, arch)
        whole = best_product_tiles(problem, measure, lambda: False)
        if whole is None or whole.found is None:
            continue
        for least in (1, 3, 9):
            steps = count()
            answer = best_product_tiles(problem, measure, lambda steps=steps, least=least: next(steps) > least)
            if answer is not None and answer.found is not None and answer.bound is not None:
                assert answer.bound <= whole.found[0] <= answer.found[0]


@pytest.mark.parametrize("seed", few(range(6), 2))
def test_bounds_by_orders_are_at_most_the_best_tiles_of_a_plan(seed: int) -> None:
    rng, attained = random.Random(f"orders {seed}"), 0
    while attained < 3:
        workload, arch, objective = question(rng, SIZES[:12])
        problem, measure = analyse(workload, arch), measure_of(parse_objective(objective, arch), workload, arch)
        is_one = product_search.is_product(problem, measure)
        kinds = kinds_of_structures(problem, lambda: False, apart=True) if is_one else None
        if kinds is None:
            continue
        kept = product_search.kept_as(problem, measure)
        plans = _Plans(Weights(problem, measure.components, kinds.spread, kept), measure)
        if not plans.count or plans.weights.has_credits():
            continue
        fitting = np.argwhere(plans.bounds(slice(None)) < plans.never).tolist()
        for plan, structure in rng.sample(fitting, min(12, len(fitting))):
            place, bounds = plans.place(plan, structure), plans.raised_by_orders(plan, np.array([structure]))[:, 0]
            found = [best_tiles(place, order, plans.values, inf) for order in plans.orders(plan)]
            assert all(
                one is None or own <= one.value
                for own, one in zip(np.broadcast_to(bounds, len(found)), found, strict=True)
            ), (workload, arch)
            bound = bounds.min()
            best = min(one.value for one in found if one is not None)
            assert max(bound, plans.raised(np.array([plan]), np.array([structure]))[0, 0]) <= best, (workload, arch)
            attained += bool(bound > 0.999 * best)


@pytest.mark.parametrize("mistake", [1, 0.9])
def test_parts_of_a_value_below_the_limit_are_at_most_their_caps(
    mistake: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, kept = random.Random("caps of parts"), list[bool]()
    if mistake != 1:
        monkeypatch.setattr(PartValues, "_most", scaled(PartValues._most, mistake))
    while len(kept) < 200:
        workload, arch, objective = question(rng, SIZES[:9])
        measure = measure_of(parse_objective(objective, arch), workload, arch)
        values, cycles = PartValues(measure), rng.randint(1, 10**6)
        if measure.is_linear or not values.is_estimated(cycles):
            continue
        parts = [rng.randint(0, 10**6) for _ in measure.components]
        found = values.best(np.array(parts)[:, None], cycles, inf)
        assert found is not None
        caps = values.caps([rng.randint(0, part) for part in parts], cycles, found[0] + 1)
        kept.append(caps is not None and all(part <= cap for part, cap in zip(parts, caps, strict=True)))
    assert all(kept) == (mistake == 1)


def scaled(plain: Callable[..., Any], factor: float) -> Callable[..., Any]:
    """Return a function whose arrays, or lists of numbers, are too large or too small."""

    def changed(*given: Any) -> Any:
        found = plain(*given)
        if isinstance(found, np.ndarray):
            return (found * factor).astype(found.dtype)
        return [one * factor for one in found]

    return changed


def test_no_structure_costs_less_than_its_kind() -> None:
    rng, compared = random.Random("kinds of structures"), 0
    while compared < 12:
        workload, arch, objective = question(rng, SIZES[:9])
        problem, measure = analyse(workload, arch), measure_of(parse_objective(objective, arch), workload, arch)
        apart = any(component.wires for component in measure.components)
        if (
            apart
            or not product_search.is_product(problem, measure)
            or product_search.kept_as(problem, measure) != INT64
        ):
            continue
        kinds = kinds_of_structures(problem, lambda: False, apart=False)
        every = kinds_of_structures(problem, lambda: False, apart=True)
        if kinds is None or every is None or kinds.are_structures:
            continue
        compared += 1
        members, of = kinds.members(np.arange(len(kinds.spread.classes)))
        assert sorted(members.classes.tolist()) == sorted(every.spread.classes.tolist()), (workload, arch)
        rows = Weights(problem, measure.components, members).rows()
        assert (Weights(kinds.spread.problem, measure.components, kinds.spread).rows()[:, of] <= rows).all(), arch


MISTAKES = {
    "merged fan-outs": lambda: (product_spread, "_merge_classes", lambda classes: classes[-1]),
    "bounds of values": lambda: (PartValues, "least", scaled(PartValues.least, 1.5)),
    "one of a kind": lambda: (
        chain_weights,
        "_uncovered_columns",
        lambda kind, *_: np.unique(kind, return_index=True)[1],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES)
def test_seeded_mistakes_of_products_are_noticed(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MISTAKES[mistake]())
    asked = (rng for rng in map(random.Random, ("seeded mistakes of products", "a")) for _ in range(20))
    assert any(difference(question(rng, SIZES[3:9])) for rng in asked)


@pytest.mark.parametrize("size", [2**40, 2**63, 10**20])
def test_fan_outs_of_any_size_are_as_good_as_those_with_room_for_all(size: int) -> None:
    work = pm.einsum("C[m,n] += A[m,k] * B[k,n]", sizes={"m": 8, "n": 4, "k": 4})
    nodes = (
        MemoryLevel("DRAM", read_pj=Fraction(5)),
        *(Fanout(name, size, Multicast.IDENTICAL, name == "U") for name in "UV"),
        MemoryLevel("G", read_pj=Fraction(1), capacity_bits=256),
        Fanout("W", size, Multicast.NONE),
    )
    arch = Architecture("wide", (*nodes, pm.load_arch("flat3").compute))
    enough = tuple(replace(node, size=128) if isinstance(node, Fanout) else node for node in arch.nodes)
    for objective in ("energy", "edp"):
        found = pm.explore(work, arch, objective, tiles="divide")
        assert found.status == "OPTIMAL", objective
        assert found.value == pm.explore(work, replace(arch, nodes=enough), objective, tiles="divide").value, objective


def test_products_are_worth_nothing_by_energy_times_delay_where_no_energy_is_stated() -> None:
    with pytest.warns(RuntimeWarning, match="states no energies"):
        found = pm.explore(pm.matmul(97, 89, 101), "h100", "edp", time_limit_s=3)
    assert (found.value, found.bound) == (0, 0)
