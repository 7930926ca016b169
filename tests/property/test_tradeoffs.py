"""What latency takes from energy: the bounds of products of both are below every tree, and high enough."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import polymap as pm
from polymap.explore import search
from polymap.ir.machine import Architecture, MemoryLevel
from polymap.search.dividing.bounds import Multipliers, usable_bits
from polymap.search.dividing.branch_and_bound import bound_tables
from polymap.search.dividing.cost_tables import build_tables
from polymap.search.dividing.groups import least_value
from polymap.search.dividing.lagrange import traded_bound
from polymap.search.dividing.node_costs import places_of, root_context
from polymap.search.enumeration.trees import exhaustive
from polymap.search.problem.float_bounds import Tradeoff, surely_below
from polymap.search.problem.goals import Goal, parse_objective
from polymap.search.problem.measure import Measure, measure_of
from polymap.search.problem.problem import Problem, analyse
from polymap.search.problem.structures import enumerate_structures
from tests.property.test_long_numbers import long_machine
from tests.referee.problems import random_problem
from tests.times import few


def _conv(channels: int, size: int) -> pm.Workload:
    sizes = {"k": channels, "c": channels, "p": size, "q": size, "r": 3, "s": 3}
    return pm.einsum("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", bits=8, sizes=sizes)


def test_a_layer_whose_energy_and_latency_pull_apart_is_proven_with_little_work() -> None:
    """DRAM costs least per byte and is slow: the least energy and the least latency are of different trees."""
    found = search(_conv(16, 8), long_machine(), "edp", "divide", time_limit_s=60, work_limit=1000)  # 3,485 without
    assert found.status == "OPTIMAL"


@pytest.mark.soak
@pytest.mark.parametrize(
    ("channels", "size", "value"), [(512, 28, 3.3701088590325114e17), (64, 56, 1318922849584868.5)]
)
def test_layers_of_networks_are_proven(channels: int, size: int, value: float) -> None:
    found = search(_conv(channels, size), long_machine(), "edp", "divide", time_limit_s=120)
    assert (found.status, found.value) == ("OPTIMAL", value)


@pytest.mark.parametrize("seed", few(range(24), 6))
def test_tradeoffs_rule_out_no_best_tree(seed: int) -> None:
    rng = random.Random(f"tradeoff {seed}")
    problem = random_problem(rng, most=4_000, tiles="divide")
    arch = _with_bandwidths(rng, problem.arch)
    objective = rng.choice(("edp", "ed2p", "ed2p", "energy"))
    true = exhaustive(problem.workload, arch, objective, "divide")
    found = search(problem.workload, arch, objective, "divide", time_limit_s=60)
    assert true is not None
    assert found.status == ("INFEASIBLE" if true.value is None else "OPTIMAL")
    assert true.value is None or float(found.value or 0) == float(true.value)


@pytest.mark.parametrize("seed", few(range(40), 6))
def test_whatever_the_prices_tradeoffs_are_at_most_the_best_tree(seed: int) -> None:
    rng = random.Random(f"prices {seed}")
    random_one = random_problem(rng, most=4_000, tiles="divide")
    workload, arch = random_one.workload, _with_bandwidths(rng, random_one.arch)
    objective = ("edp", "ed2p")[seed % 2]
    true = exhaustive(workload, arch, objective, "divide")
    assert true is not None
    measure = measure_of(parse_objective(objective, arch), workload, arch)
    problem = analyse(workload, arch)
    for _ in range(3):
        least = min(_bounds(problem, measure, rng), default=None)
        assert true.value is None or least is not None
        assert true.value is None or measure.unscaled(1) * Fraction(least or 0) <= true.value


def _bounds(problem: Problem, measure: Measure, rng: random.Random) -> Iterator[float]:
    """Yield the bound of every structure and choice of places at random prices."""
    levels, unit = range(problem.level_count), 64
    scale = 10 ** rng.uniform(-2, 2) * measure.energy_scale
    per_component = (0, *(int(unit * scale * rng.choice((0, 1, 1)) * rng.random()) for _ in measure.components[1:]))
    prices = [int(unit * scale * rng.choice((0, 1)) * rng.random()) for _ in levels]
    for structure in enumerate_structures(problem, lambda: False)[0]:
        for places in places_of(problem, structure):
            tables = build_tables(problem, structure, measure, root_context(problem, structure, places))
            rooms = [usable_bits(tables, level) for level in levels]
            per_level = tuple(0 if room is None else prices[level] for level, room in enumerate(rooms))
            allowance = sum(price * (room or 0) for price, room in zip(per_level, rooms, strict=True))
            view = bound_tables(tables, (Multipliers(per_level, unit, allowance, per_component),))
            if least_value(view) is not None:
                below = traded_bound(view, (Multipliers(per_level, unit, allowance, per_component),))
                assert below is not None
                yield float(below[0])


def _with_bandwidths(rng: random.Random, arch: Architecture) -> Architecture:
    nodes = [
        replace(
            node,
            bandwidth_bits_per_cycle=Fraction(rng.choice((1, 2, 4, 8, 16, 33, 64)), rng.choice((1, 1, 3))),
            read_pj=Fraction(rng.randrange(1, 10 ** rng.randrange(1, 9)), 1000),
            leak_pj_per_cycle=Fraction(rng.choice((0, 0, 0, 1, 5)), 7),
        )
        if isinstance(node, MemoryLevel) and rng.random() < 0.8
        else node
        for node in arch.nodes
    ]
    return replace(arch, nodes=tuple(nodes), overlap=rng.random() < 0.6)


@pytest.mark.parametrize("goal", [Goal.EDP, Goal.ED2P, Goal.ENERGY])
def test_an_estimate_with_tradeoffs_is_at_most_the_value_at_any_cycles(goal: Goal) -> None:
    rng = random.Random(goal.value)
    arch = long_machine()
    for _ in range(300):
        measure = replace(
            measure_of(parse_objective("edp", arch), _conv(2, 2), arch),
            goal=goal,
            fixed_energy=rng.randrange(1000),
            leak=rng.randrange(1, 9) if goal is Goal.ENERGY else rng.choice((0, 1, 7)),
        )
        least, energy = rng.randrange(20, 100), rng.randrange(1, 2000)
        lines = [(rng.randrange(1, 9000), rng.randrange(1, 60)) for _ in range(rng.randrange(1, 4))]
        tradeoffs = [Tradeoff(np.array([float(top)]), float(slope)) for top, slope in lines]
        parts = [np.array([float(part)]) for part in (energy, 0, 0)]
        below = surely_below(measure, parts, least, tradeoffs)
        assert below is not None
        cycles = np.arange(least, 9001)
        whole = np.max([np.full(len(cycles), energy), *(top - slope * cycles for top, slope in lines)], axis=0)
        whole = whole + measure.fixed_energy + measure.leak * cycles
        assert goal.powers is not None
        true = int((whole * cycles**goal.powers.cycles).min())
        assert 0.9 * true <= below[0] <= true
