"""What related nests say about products of a tensor with itself, against all trees counted by the simulator."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

import polymap as pm
from polymap.explore import provers, search
from polymap.search import relatives
from polymap.search.driver import Search
from polymap.search.evidence import Evidence
from polymap.search.options import Options
from polymap.search.problem import objective_values, parse_objective
from polymap.search.provers import read_question
from tests.self_product_cases import TEXTS, Question, best_tree, random_question

MOST_TREES = 1500
WINDOWS = ("O[p] += I[p+r] * W[r]", "O[p,k] += I[2*p+r] * W[r,k]", "O[p,q] += I[p+r,q] * W[r]", "O[p] += I[p+r]")


def begun(question: Question) -> tuple[Search, Evidence]:
    options = Options(question.objective, question.tiles, 3, clock=time.process_time, constraints=question.constraints)
    return read_question(question.workload, question.arch, options, provers)


def tally(seeds: range, texts: tuple[str, ...] = TEXTS, *, priced: bool = False) -> Counter[str]:
    """Hold the mappings and bounds of related nests against the best of all trees."""
    found: Counter[str] = Counter()
    for seed in seeds:
        try:
            question = random_question(random.Random(seed), texts, priced=priced)
            asked, before = begun(question)
        except pm.PolymapError:
            continue
        best = best_tree(question, MOST_TREES) if asked.problem.reason is not None else None
        if best is None:
            continue
        starts, known = relatives.starts_of_relatives(asked, before)
        floor = known.floors[0]
        found["raised"] += floor > before.floors[0]
        tree, value = best
        if tree is None:
            assert not starts.mappings, f"seed {seed}"
            continue
        assert floor <= value, f"seed {seed}: {floor} is above {value} of a mapping"
        found["cases"] += 1
        found["proven"] += floor == value
        if starts.mappings:
            cost = pm.simulate(question.workload, question.arch, starts.mappings[0])
            objective = parse_objective(question.objective, question.arch)
            first = objective_values(question.workload, question.arch, objective, cost)[0]
            assert cost.legal, f"seed {seed}"
            assert first >= value, f"seed {seed}"
            found["begun"] += 1
            found["begun at the best"] += first == value
    return found


def test_bounds_of_related_nests_are_below_all_trees() -> None:
    found = tally(range(16))
    assert found["cases"] >= 2
    assert found["raised"] >= 1


def test_what_a_window_costs_over_priced_fanouts_that_unite_is_below_all_trees() -> None:
    found = tally(range(40, 80), WINDOWS, priced=True)
    assert found["cases"] >= 2
    assert found["begun"] >= 1


@pytest.mark.soak
@pytest.mark.parametrize("block", range(10))
def test_what_a_window_costs_over_priced_fanouts_that_unite_is_below_all_trees_in_many_cases(block: int) -> None:
    assert tally(range(200 * block, 200 * block + 200), WINDOWS, priced=True)["cases"] >= 5


@pytest.mark.soak
@pytest.mark.parametrize("block", range(20))
def test_bounds_of_related_nests_are_below_all_trees_in_two_thousand_cases(block: int) -> None:
    assert tally(range(100 * block + 100, 100 * block + 200))["cases"] >= 20


@pytest.mark.parametrize(
    ("one", "two", "sizes"),
    [
        ("C[m,n] += A[m,k] * A[n,k]", "C[m,n] += A[m,k] * B[n,k]", {"m": 64, "n": 64, "k": 64}),
        ("C[m,n] += A[m,k] * A[n,k]", "C[m,n] += A[m,k] * B[n,k]", {"m": 512, "n": 512, "k": 512}),
        ("C[b,m,n] += A[b,m,k] * A[b,n,k]", "C[b,m,n] += A[b,m,k] * B[b,n,k]", {"b": 8, "m": 64, "n": 64, "k": 64}),
    ],
)
def test_a_self_product_is_as_fast_as_with_two_names_and_that_is_proven(
    one: str, two: str, sizes: dict[str, int]
) -> None:
    asked = "eyeriss_like", "latency", "divide"
    found, other = (
        search(pm.einsum(text, sizes=sizes), *asked, time_limit_s=10, clock=time.process_time) for text in (one, two)
    )
    assert (found.status, found.value) == (other.status, other.value) == ("OPTIMAL", other.bound)


@pytest.mark.parametrize("objective", ["energy", "traffic:DRAM"])
def test_a_self_product_costs_less_than_with_two_names(objective: str) -> None:
    sizes = {"m": 64, "n": 64, "k": 64}
    asked = "eyeriss_like", objective, "divide"
    two = search(pm.einsum("C[m,n] += A[m,k] * B[n,k]", sizes=sizes), *asked, time_limit_s=1.5, clock=time.process_time)
    one = search(pm.einsum("C[m,n] += A[m,k] * A[n,k]", sizes=sizes), *asked, time_limit_s=1.5, clock=time.process_time)
    assert one.value < two.value
    assert one.bound <= one.value
    assert one.bound > 0.4 * one.value


def test_a_floor_above_a_mapping_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that is wrong ends the search; it does not prove the mapping that beats it."""
    monkeypatch.setattr(relatives, "_floor", lambda *_: Fraction(10**12))
    product = pm.einsum("C[m,n] += A[m,k] * A[n,k]", m=16, n=16, k=16)
    with pytest.raises(AssertionError, match="better than what no mapping can beat"):
        search(product, "eyeriss_like", "energy", "divide", time_limit_s=1.5, clock=time.process_time)


def test_what_one_access_alone_loads_is_no_bound_of_the_union() -> None:
    """A tile that another access keeps is not loaded again: `A[i+r]` moves over what `A[k]` holds."""
    union = pm.einsum("O[i] += A[i+r] * A[k]", i=3, r=2, k=4)
    single = pm.einsum("O[i] += A[i+r] * B[k]", i=3, r=2, k=4)
    level = {"level": "L", "read_pj": 1, "write_pj": 1}
    arch = pm.io.arch_from_document({"name": "a", "nodes": [{**level, "level": "D"}, level, {"compute": "M"}]})

    def fills(workload: pm.Workload) -> int:
        loops = [{"for": "r", "tile": 1}, {"for": "i", "tile": 1}, {"store": "L", "tensors": ["A"]}]
        nodes = [*loops, {"for": "k", "tile": 1}, {"compute": "S"}]
        cost = pm.simulate(workload, arch, pm.io.mapping_from_document({"nodes": nodes}))
        return next(row.fills for row in cost.traffic if (row.level, row.tensor) == ("L", "A"))

    assert fills(union) == 4
    assert fills(single) == 6


def test_one_name_per_access_has_the_rules_of_the_tensor() -> None:
    product = pm.einsum("C[m,n] += A[m,k] * A[n,k]", m=4, n=4, k=4)
    arch = pm.io.arch_from_document(
        {
            "name": "a",
            "nodes": [
                {"level": "D", "read_pj": 9, "write_pj": 9},
                {"level": "L", "capacity_bits": 256, "read_pj": 1, "write_pj": 1, "must_hold": ["A"]},
                {"compute": "M"},
            ],
        }
    )
    names = relatives.names_apart(product)
    relative = relatives.split_names(product, arch, (), names)
    assert [tensor.name for tensor in relative.workload.tensors] == ["C", "A", "A_2"]
    assert relative.arch.levels[1].must_hold == ("A", "A_2")
    assert replace(relative.workload.tensors[2], name="A") == product.tensor("A")
