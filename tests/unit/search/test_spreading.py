"""The fewest steps of a box: against all factors of the fan-outs, against all trees, and what it proves of latency."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from itertools import product
from math import prod

import numpy as np
import pytest

from polymap.costmodel.evaluation import evaluate
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.search.any_size import box_trees
from polymap.search.any_size.box_trees import BoxTrees
from polymap.search.any_size.tuning import TUNING
from polymap.search.problem import spreading
from polymap.search.problem.floors import floor_of
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.problem import analyse
from polymap.search.problem.rules import Factor, Rules
from polymap.search.problem.spreading import least_steps, quotients
from polymap.workload.einsums import einsum
from tests.property.test_seeded_search_bugs import Bug, assert_seen
from tests.referee.all_trees import all_trees


def machine(*fanouts: Fanout) -> Architecture:
    levels = MemoryLevel("DRAM"), *fanouts, MemoryLevel("RF")
    return Architecture("lanes", (*levels, ComputeUnit("MAC", Fraction(1))))


def factors_of(box: dict[str, int], arch: Architecture, rules: Rules) -> Iterator[tuple[int, ...]]:
    """Yield the siblings per dim of all whole factors that the fan-outs and rules allow, one product by one."""
    each: list[list[tuple[int, ...]]] = []
    for fanout in arch.fanouts:
        rows = product(range(1, fanout.size + 1), repeat=len(box))
        each.append([row for row in rows if prod(row) <= fanout.size and _may(fanout, row, tuple(box), rules)])
    for rows in product(*each):
        yield tuple(prod(row[d] for row in rows) for d in range(len(box)))


def _may(fanout: Fanout, row: tuple[int, ...], dims: tuple[str, ...], rules: Rules) -> bool:
    own = {rule.dim: rule for rule in rules if isinstance(rule, Factor) and rule.fanout == fanout.name}
    for dim, factor in zip(dims, row, strict=True):
        rule = own.get(dim)
        if factor > 1 and not fanout.may_spread(dim):
            return False
        if rule is not None and not rule.least <= factor <= (rule.most or factor):
            return False
    return True


@pytest.mark.parametrize("seed", range(8))
def test_no_factors_leave_fewer_steps_and_some_leave_so_few(seed: int) -> None:
    rng = random.Random(f"least steps {seed}")
    for _ in range(6):
        box = {dim: rng.randint(1, 23) for dim in "abc"[: rng.randint(1, 3)]}
        sizes = [rng.randint(1, 9) for _ in range(rng.randint(0, 2))]
        spread = [rng.choice((None, None, tuple(rng.sample(list(box), 1)))) for _ in sizes]
        fanouts = [Fanout(name, size, dims=dims) for name, size, dims in zip("XY", sizes, spread, strict=False)]
        rules: Rules = ()
        if sizes and rng.random() < 0.5:
            least = rng.randint(1, 3)
            rules = (Factor("X", rng.choice(list(box)), least, rng.choice((None, least, 5))),)
        every = list(factors_of(box, machine(*fanouts), rules))
        found = least_steps(box, machine(*fanouts), rules)
        if not every:
            assert found is None, (box, fanouts, rules)
            continue
        steps = [prod(-(-n // c) for n, c in zip(box.values(), row, strict=True)) for row in every]
        assert found == min(steps), (box, fanouts, rules, found)


@pytest.mark.parametrize(("m", "k", "sizes"), [(5, 1, (4,)), (5, 1, (2, 2)), (3, 2, (2,))])
def test_some_tree_takes_the_fewest_steps_and_none_takes_fewer(m: int, k: int, sizes: tuple[int, ...]) -> None:
    workload = einsum("y[m] += A[m,k] * x[k]", m=m, k=k)
    arch = machine(*(Fanout(name, size) for name, size in zip("XY", sizes, strict=False)))
    trees = all_trees(workload, arch, "any", legal=True)
    assert min(evaluate(workload, arch, tree).compute_cycles for tree in trees) == floor_of(
        workload, arch, parse_objective("latency", arch)
    )


def test_where_too_much_is_left_of_fan_outs_every_unit_counts_as_busy() -> None:
    arch = machine(Fanout("X", 10**12), Fanout("Y", 10**12))
    found = least_steps({"m": 10**15, "n": 10**15}, arch)
    assert found == 10**6


def test_long_extents_are_divided_exactly() -> None:
    found = least_steps({"m": 10**30 + 1, "n": 3}, machine(Fanout("X", 9)))
    assert found == -(-(10**30 + 1) // 3)


def test_quotients_are_all_that_may_be_left() -> None:
    for size in range(1, 200):
        assert quotients(size) == sorted({size // n for n in range(1, size + 1)}, reverse=True)


def test_layers_hold_every_structure_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows of both classes, in layers of steps, and none where a layer has too many."""
    arch = Architecture(
        "two classes",
        (
            MemoryLevel("DRAM"),
            Fanout("X", 6),
            MemoryLevel("RF"),
            Fanout("Y", 4),
            MemoryLevel("REG"),
            ComputeUnit("MAC", Fraction(1)),
        ),
    )
    problem = analyse(einsum("C[m,n] += A[m,k] * B[k,n]", m=7, n=5, k=11), arch)
    trees = BoxTrees(problem)
    seen: list[tuple[int, ...]] = []
    for least in range(0, 7 * 5 * 11 + 1, 10):
        chunk = trees.of_steps(least, least + 9)
        assert chunk is not None
        boxes = trees.boxes(chunk)
        steps = [
            prod(-(-n // int(c)) for n, c in zip(problem.extents, column, strict=True))
            for column in np.prod(boxes.high, axis=0).T
        ]
        assert all(least <= each <= least + 9 for each in steps)
        seen += [tuple(column) for column in chunk.nodes.T.tolist()]
    assert len(seen) == len(set(seen)) == trees.count
    monkeypatch.setattr(box_trees, "TUNING", replace(TUNING, most_of_steps=3))
    assert trees.of_steps(0, 7 * 5 * 11) is None


SIBLINGS, FEWEST = (vars(spreading)[name] for name in ("_siblings", "_fewest_steps"))
BUGS = (
    Bug("more siblings than a fan-out has", SIBLINGS, "own[:, None] // own[None, :]", "own[:, None]"),
    Bug("rules about factors ask for nothing", SIBLINGS, "factor >= low", "factor >= 1"),
    Bug("later classes share nothing", BoxTrees.of_steps, "most * prod(self._sizes[g + 1 :])", "most"),
    Bug("a layer holds the layers before it", BoxTrees.of_steps, ">= least", ">= 0"),
)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_seeded_bug_breaks_a_law(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    def factors(seed: int) -> None:
        FEWEST.cache_clear()
        test_no_factors_leave_fewer_steps_and_some_leave_so_few(seed)

    with monkeypatch.context() as patch:
        layers = partial(test_layers_hold_every_structure_once, patch)
        assert_seen(bug, (*(partial(factors, seed) for seed in range(8)), layers))
    FEWEST.cache_clear()
