"""Extents a little longer than a product's, with many divisors."""

from __future__ import annotations

import random
import time
from itertools import product
from math import prod
from typing import Any

import pytest

import polymap as pm
import polymap.search
from polymap.explore import provers, search
from polymap.ir import Mapping
from polymap.resources import never
from polymap.search import program_provers
from polymap.search.dividing import product_padding
from polymap.search.dividing.product_padding import _longer, cut_to, with_extents
from polymap.search.dividing.product_spread import _rows
from polymap.search.dividing.product_tuning import TUNING
from polymap.search.options import Options
from polymap.search.problem import divisors, prime_factors, rounded_up
from polymap.search.provers import read_question
from tests.times import few

HUGE = (10**9, 2**31, 2**63, 10**30)


@pytest.mark.parametrize("extent", [3, 7, 127, 997, 4099])
def test_short_extents_are_all_looked_at(extent: int) -> None:
    every = range(extent + 1, extent + max(4, extent * 6 // 100) + 1)
    most = sorted(every, key=lambda n: (-len(divisors(n)), n))[: TUNING.extents_per_dim]
    assert _longer(extent) == (extent, *sorted(most))


@pytest.mark.parametrize("extent", HUGE)
def test_of_long_extents_a_few_thousand_are(extent: int) -> None:
    found = _longer(extent)
    assert len(found) == 1 + TUNING.extents_per_dim
    assert all(extent < longer <= extent * 106 // 100 for longer in found[1:])


FIRST, *BETWEEN, LAST = HUGE


@pytest.mark.parametrize(
    ("name", "extent"), few([("B", LAST), ("A", FIRST), ("B", FIRST), ("A", LAST), *product("BA", BETWEEN)], 2)
)
def test_a_product_with_a_huge_extent_is_answered(name: str, extent: int) -> None:
    gram = pm.einsum(f"C[m,n] += A[m,k] * {name}[n,k]", m=extent, n=8, k=8)
    found = search(gram, "flat3", time_limit_s=1, clock=time.process_time)
    if name == "A" and extent > 1 << 40:  # the union of such intervals is not counted
        assert (found.status, found.best) == ("TIMEOUT", None)
        return
    assert found.best is not None
    assert found.bound <= found.value


def test_factors_whose_product_is_beyond_64_bits_are_not_taken_for_small_ones() -> None:
    rows = _rows(((1, 1 << 16),) * 4, 1 << 16).tolist()
    assert sorted(map(prod, rows)) == [1, *[1 << 16] * 4]


@pytest.mark.parametrize("seed", few(range(6), 3))
def test_a_tree_of_a_longer_nest_cut_to_size_is_legal_and_costs_no_more(seed: int) -> None:
    rng = random.Random(f"cut {seed}")
    text = rng.choice(("C[m,n] += A[m,k] * B[k,n]", "C[m,n] += A[m+k] * B[k,n]", "C[m,n] += A[m+2k,n] * B[k]"))
    nest = pm.einsum(text, sizes={dim: rng.randint(2, 9) for dim in "mnk"})
    longer = with_extents(nest, {dim.name: dim.extent + rng.randint(0, 3) for dim in nest.dims})
    assert longer is not None, text
    best = pm.explore(longer, "flat3", tiles="divide", time_limit_s=20)
    assert best.best is not None, text
    cut = pm.evaluate(nest, "flat3", cut_to(best.best, nest.extents()))
    assert cut.legal, f"{nest} {best.best}"
    assert cut.energy_pj <= best.value, f"{nest} {best.best}"


def test_products_padded_are_steps_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 of them were searched within 20 steps that counted none."""
    padded, padded_of = list[Mapping | None](), product_padding._best_mapping

    def told(*asked: Any) -> Mapping | None:
        padded.append(padded_of(*asked))
        return padded[-1]

    monkeypatch.setattr(product_padding, "_best_mapping", told)
    found = pm.explore(pm.matmul(16, 24, 8), "flat3", tiles="any", work_limit=20)
    assert (found.status, found.value, found.work) == ("OPTIMAL", 147_072, 11)
    assert len(padded) == 1


def test_extents_are_rounded_up_to_the_siblings_of_the_best_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("refine_structures", "bound_products", "climb_near_mappings"):
        monkeypatch.setattr(polymap.search, other, lambda _search, evidence, _stop: evidence)
    nest = pm.conv2d(K=4, C=37, H=6, W=6, R=3, S=3, padding=1)
    found = search(nest, "eyeriss_like", time_limit_s=4, clock=time.process_time)
    assert found.dividing is not None, found
    assert found.value is not None, found
    assert found.dividing.value is not None, found
    assert found.value < 0.97 * found.dividing.value


OTHERS = ("enumerate_few_trees", "begin_padded_nests", "refine_structures", "bound_products", "climb_near_mappings")


@pytest.mark.parametrize(("machine", "objective"), few([("eyeriss_like", "energy"), ("tpu_like", "edp")], 1))
def test_extents_with_large_primes_cost_no_more_than_rounded_ones(
    machine: str, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for other in OTHERS:
        monkeypatch.setattr(polymap.search, other, lambda _search, evidence, _stop: evidence)
    nest = pm.matmul(1009, 2003, 997)
    found = search(nest, machine, objective, time_limit_s=20, clock=time.process_time)
    rounded = pm.explore(pm.matmul(1024, 2048, 1008), machine, objective, tiles="divide", time_limit_s=60)
    assert found.value is not None, found
    assert found.value <= rounded.value, found


@pytest.mark.parametrize("number", [1, 2, 61, 101, 127, 169, 1009, 65537, 2**31 - 1, 2**61 - 1, 10**9])
def test_numbers_are_rounded_to_few_bits(number: int) -> None:
    found = rounded_up(number, 6, 13)
    assert number <= found <= number + number // 32
    if all(prime <= 13 for prime, _ in prime_factors(number)):
        assert found == number
    else:
        assert found < 64 or not found % (1 << (number.bit_length() - 6))


@pytest.mark.parametrize("seed", few(range(6), 1))
def test_a_tree_of_a_longer_program_cut_to_size_is_legal_and_costs_no_more(seed: int) -> None:
    rng = random.Random(f"cut programs {seed}")
    text = rng.choice(("T[m,k] += A[m,j] * B[j,k]; C[m,n] += T[m,k] * D[k,n]", "T[m] += A[m,k]; C[m,n] += T[m] * D[n]"))
    program = pm.program(text.split("; "), sizes={dim: rng.randint(3, 9) for dim in "mnkj" if dim in text})
    longer = with_extents(program, {dim.name: dim.extent + rng.randint(0, 3) for dim in program.dims})
    assert longer is not None, text
    best = search(longer, "flat3", tiles="divide", time_limit_s=2, clock=time.process_time)
    assert best.best is not None, text
    assert best.workload == longer, text
    assert best.value is not None, text
    cut = pm.evaluate(program, "flat3", cut_to(best.best, program.extents()))
    assert cut.legal, f"{program} {best.best}"
    assert cut.energy_pj <= best.value, f"{program} {best.best}"


def test_programs_with_large_primes_cost_no_more_than_rounded_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ("begin_nest_after_nest", "begin_first_chains", "go_on_with_chains", "sample_programs"):
        monkeypatch.setattr(polymap.search, other, lambda _search, evidence, _stop: evidence)
    text = ["T[m,k] += A[m,j] * B[j,k]", "C[m,n] += T[m,k] * D[k,n]"]
    sizes = {"m": 509, "k": 1021, "j": 61, "n": 67}
    found = search(pm.program(text, sizes=sizes), "eyeriss_like", time_limit_s=4, clock=time.process_time)
    longer = pm.program(text, sizes={"m": 512, "k": 1024, "j": 61, "n": 68})
    monkeypatch.undo()
    rounded = search(longer, "eyeriss_like", tiles="divide", time_limit_s=4, clock=time.process_time)
    assert found.value is not None, found
    assert rounded.value is not None, rounded
    assert found.value <= 1.05 * rounded.value, f"{found} {rounded}"


def test_a_tree_of_a_longer_program_is_cut_to_size_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cut: list[pm.Mapping] = []
    monkeypatch.setattr(
        program_provers, "cut_to", lambda mapping, extents: cut.append(mapping) or cut_to(mapping, extents)
    )
    text = ["T[m,k] += A[m,j] * B[j,k]", "C[m,n] += T[m,k] * D[k,n]"]
    program = pm.program(text, sizes={"m": 67, "k": 8, "j": 4, "n": 4})
    options = Options("traffic:DRAM", clock=time.process_time)
    asked, known = read_question(program, pm.load_arch("flat3"), options, provers)
    found = program_provers.begin_dividing_trees(asked, known, never)
    assert program_provers.begin_dividing_trees(asked, found, never).incumbents == found.incumbents != ()
    assert len(cut) == len({*cut}) > 0, f"{found} {cut}"


@pytest.mark.parametrize("seed", few(range(120), 4))
def test_any_tree_of_huge_rounded_extents_cut_to_size_costs_no_more(seed: int) -> None:
    rng = random.Random(f"huge {seed}")
    text = rng.choice(("C[m,n] += A[m,k] * B[k,n]", "C[m,n] += A[m+k] * B[k,n]", "C[m,n] += A[m+2k,n] * B[k]"))
    nest = pm.einsum(text, sizes={dim: rng.choice((17, 101, 1009, 65537, 2**31 - 1)) for dim in "mnk"})
    longer = with_extents(nest, {dim.name: rounded_up(dim.extent, 6, 13) for dim in nest.dims})
    assert longer is not None, text
    machine = rng.choice(("flat3", "simple3", "eyeriss_like"))
    for mapping in pm.sample_mappings(longer, machine, 2, seed=seed).mappings:
        before = pm.evaluate(longer, machine, mapping)
        after = pm.evaluate(nest, machine, cut_to(mapping, nest.extents()))
        assert after.legal == before.legal, f"{nest} {mapping}"
        assert after.energy_pj_exact <= before.energy_pj_exact, f"{nest} {mapping}"
        assert after.latency_cycles <= before.latency_cycles, f"{nest} {mapping}"
