"""Long numbers change nothing: scaling all energies changes no status and no mapping; no structure gets lost.

The machine of the first tests once made searches claim optima: costs x 10^6 passed 2^59 and were taken for "cannot be".
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest

import polymap as pm
from polymap.costmodel.referees.trees import exhaustive
from polymap.explore import search
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.poly import exact
from polymap.search import dividing, provers
from polymap.search.dividing import engine
from polymap.search.result import SearchResult
from tests.referee.problems import random_problem, scaled
from tests.times import few

_PRIME = 10**30 + 57


def long_machine(*, keep: bool = False) -> Architecture:
    levels: tuple[dict[str, object], ...] = (
        {"level": "DRAM", "word_bits": 64, "read_pj": 2.123457, "write_pj": 2.987654},
        {"level": "GLB", "capacity_bits": 1 << 20, "word_bits": 16, "read_pj": 1.234567, "write_pj": 1.345679},
        {"level": "RF", "capacity_bits": 4096, "word_bits": 16, "read_pj": 1.012346, "write_pj": 1.098765},
    )
    bands = {} if keep else {"DRAM": 128, "GLB": 512}
    for level in levels:
        if level["level"] in bands:
            level["bandwidth_bits_per_cycle"] = bands[str(level["level"])]
        if keep and level["level"] != "DRAM":
            level["must_hold"] = ["A", "B", "C"]
    nodes = [*levels[:2], {"fanout": "X", "size": 16}, levels[2], {"compute": "MAC", "pj": 0.987653}]
    return pm.io.arch_from_document({"name": "long", "nodes": nodes})


def _gemm(m: int, n: int, k: int) -> pm.Workload:
    return pm.einsum("C[m,n] += A[m,k] * B[k,n]", bits=8, m=m, n=n, k=k)


def _accounted(found: SearchResult) -> bool:
    space = found.space
    if space.listed is None or space.infeasible is None:
        return False
    return space.evaluated + space.pruned + space.infeasible == space.listed > 0


@pytest.mark.parametrize(
    ("sizes", "objective", "keep", "known"),
    [
        ((5120, 5120, 5120), "edp", True, 3.501e21),
        ((8192, 28672, 8192), "edp", True, None),
        ((8192, 28672, 8192), "ed2p", True, None),
        ((2048, 128256, 4096), "energy", False, None),
        ((_PRIME, _PRIME, _PRIME), "edp", False, None),
        ((_PRIME, _PRIME, _PRIME), "ed2p", False, None),
        ((_PRIME, 10**4, 4), "energy", True, None),
    ],
)
def test_long_layers_are_proven(sizes: tuple[int, int, int], objective: str, keep: bool, known: float | None) -> None:
    found = search(_gemm(*sizes), long_machine(keep=keep), objective, "divide", time_limit_s=300)
    assert found.status == "OPTIMAL"
    assert _accounted(found)
    assert found.value is not None
    assert known is None or found.value <= known


@pytest.mark.parametrize("seed", few(range(16), 4))
def test_scaling_all_energies_changes_no_status_and_no_mapping(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The factors take the same problem through int64, two limbs and Python ints (by tables: products in long numbers
    are not solved without)."""
    monkeypatch.setattr(dividing, "best_product_tiles", lambda *_: None)
    problem = random_problem(random.Random(f"scale {seed}"), most=20_000, tiles="divide")
    objective = ("energy", "edp", "ed2p")[seed % 3]
    first = search(problem.workload, problem.arch, objective, "divide", time_limit_s=120)
    rng = random.Random(seed)
    for digits in (3, 14, 60):
        by = Fraction(rng.randrange(1, 10**digits), rng.randrange(1, 10**digits))
        other = search(problem.workload, scaled(problem.arch, by), objective, "divide", time_limit_s=120)
        assert (other.status, other.best) == (first.status, first.best)
        assert (other.space.listed, other.space.infeasible) == (first.space.listed, first.space.infeasible)
        assert first.status == "INFEASIBLE" or (_accounted(first) and _accounted(other))
        if first.value is not None and other.value is not None and first.bound is not None and other.bound is not None:
            assert other.value == pytest.approx(float(Fraction(first.value) * by), rel=1e-12)
            assert other.bound == pytest.approx(float(Fraction(first.bound) * by), rel=1e-12)


_WALKED = pm.einsum("C[m,n] += A[m] * B[n]", m=3, n=2)


def _walked_machine(scale: Fraction) -> Architecture:
    inner = MemoryLevel("L1", 16, 8, 3 * scale, scale, scale / 7, Fraction(3))
    outer = MemoryLevel("DRAM", None, 8, 200 * scale, 100 * scale)
    return Architecture("walked", (outer, inner, Fanout("X", 2), ComputeUnit("MAC", scale)))


@pytest.mark.parametrize("objective", ["energy", "edp", "ed2p", "latency", "weighted:1/3*energy+2*ed2p"])
def test_scaling_all_energies_scales_the_optimum_of_a_walked_space(objective: str) -> None:
    plain = exhaustive(_WALKED, _walked_machine(Fraction(1)), objective, "any")
    assert plain is not None
    assert plain.value is not None
    for digits in (12, 14, 15, 16, 17, 18, 19, 21, 30):
        scaled = exhaustive(_WALKED, _walked_machine(Fraction(10**digits)), objective, "any")
        assert scaled is not None
        assert scaled.value == plain.value * (1 if objective == "latency" else 10**digits), digits
        assert scaled.best == plain.best


def test_a_walked_space_is_answered_whatever_the_energies() -> None:
    for digits in (15, 16, 30):
        found = pm.explore(_WALKED, _walked_machine(Fraction(10**digits)))
        assert found.status == "OPTIMAL"
        assert found.value == pytest.approx(float(Fraction(11404, 7) * 10**digits), rel=1e-12)


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        pytest.param("O[p] += I[p+r] * W[r]", {"p": 4, "r": 2}, id="window"),
        pytest.param("C[m,n] += A[m,k] * B[k,n]", {"m": 2, "n": 2, "k": 2}, id="product"),
    ],
)
def test_energies_four_hundred_digits_apart_are_answered(
    text: str, sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Costs in units of the least energy are beyond floats; each of four outputs is written at DRAM once."""
    levels = [
        {"level": "DRAM", "word_bits": 8, "read_pj": 1e-300, "write_pj": 1e100},
        {"level": "BUF", "capacity_bits": 40, "word_bits": 8, "read_pj": 1e-300, "write_pj": 3},
    ]
    arch = pm.io.arch_from_document({"name": "far", "nodes": [*levels, {"compute": "MAC", "pj": 0}]})
    monkeypatch.setattr(provers, "TUNING", replace(provers.TUNING, few_trees=0))
    found = pm.explore(pm.einsum(text, bits=8, sizes=sizes), arch, work_limit=60)
    assert (found.status, found.value) == ("OPTIMAL", 4e100)


def test_each_arithmetic_gives_the_same_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A problem that fits int64, with the limits moved so that it is searched in limbs and in Python ints (by tables:
    products in long numbers are not solved without)."""
    monkeypatch.setattr(dividing, "best_product_tiles", lambda *_: None)
    workload, arch = _gemm(60, 48, 35), long_machine()
    first = search(workload, arch, "edp", "divide", time_limit_s=120)
    for narrow, wide in ((0, 96), (0, 0)):
        monkeypatch.setattr(exact, "NARROW_BITS", narrow)
        monkeypatch.setattr(exact, "WIDE_BITS", wide)
        exact.arithmetic_for.cache_clear()
        other = search(workload, arch, "edp", "divide", time_limit_s=120)
        assert (other.status, other.best, other.value) == (first.status, first.best, first.value)
        assert other.space == first.space
    monkeypatch.undo()
    exact.arithmetic_for.cache_clear()


def test_a_structure_that_gets_lost_leaves_no_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is proven where the queue is empty and structures are not accounted for."""
    monkeypatch.setattr(dividing, "best_product_tiles", lambda *_: None)
    monkeypatch.setattr(engine, "_promising_structures", lambda *_: ())
    monkeypatch.setattr(engine, "single_tensor_bounds", lambda problem, measure, structures, caches: [1])  # its shape
    assert search(_gemm(8, 8, 8), long_machine(), "edp", "divide").status != "OPTIMAL"
    monkeypatch.setattr(
        engine, "single_tensor_bounds", lambda problem, measure, structures, caches: [None] * len(structures)
    )
    assert search(_gemm(8, 8, 8), long_machine(), "edp", "divide").status != "OPTIMAL"
