"""No search's word is taken for a proof unless its mapping costs what it claims: where it does not, the next prover
answers, or nothing is proven."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from time import process_time
from typing import Any

import pytest

from polymap import choose_tiles, compare, matmul, verify
from polymap.costmodel.referees.trees import TreeWalk
from polymap.explore import search
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.search import dividing
from polymap.search.dividing import chain_weights, cost_tables, single_tensor_bound
from polymap.search.single_level import sizes as buffer_sizes
from tests.unit.search.machines import two_levels

GEMM = matmul(m=16, n=16, k=8)
ARRAY = Architecture(
    "array",
    (
        MemoryLevel("DRAM", None, 64, Fraction(200), Fraction(200)),
        MemoryLevel("GLB", 1 << 14, 64, Fraction(6), Fraction(6)),
        Fanout("X", 4, pj_per_word_hop=Fraction(3)),
        Fanout("Y", 4, pj_per_word=Fraction(1, 2), reduce_pj=Fraction(1, 10)),
        MemoryLevel("RF", 64, 8, Fraction(1, 2), Fraction(1, 2)),
        ComputeUnit("MAC", Fraction(1, 4)),
    ),
)


def energy(arch: Architecture, tiles: str) -> Any:
    return search(GEMM, arch, "energy", tiles, time_limit_s=1 if tiles == "any" else 60, clock=process_time)


def test_the_product_search_counts_what_wires_deliver_past_a_bypassed_level() -> None:
    divide = energy(ARRAY, "divide")
    found = energy(ARRAY, "any")
    assert divide.status == found.dividing.status == "OPTIMAL"
    assert divide.value == found.dividing.value
    assert found.value <= divide.value
    assert choose_tiles(GEMM, ARRAY).value == Fraction(str(divide.value))


def lie(monkeypatch: pytest.MonkeyPatch, *modules: Any) -> None:
    """Let searches leave out what the updates of an output cost at the level that holds it."""
    for module in modules:
        monkeypatch.setattr(module, "update_end", lambda *given: given[-1] * 0)


def test_where_the_product_search_is_wrong_the_tables_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    true = energy(ARRAY, "divide").value
    lie(monkeypatch, chain_weights)
    asked: list[object] = []
    plain = dividing.best_product_tiles
    monkeypatch.setattr(dividing, "best_product_tiles", lambda *given: asked.append(given) or plain(*given))
    found = energy(ARRAY, "any")
    assert asked
    assert (found.dividing.status, found.dividing.value) == ("OPTIMAL", true)
    chosen = choose_tiles(GEMM, ARRAY)
    assert chosen.is_proven
    assert chosen.value == Fraction(str(true))


@pytest.mark.parametrize("objective", ["energy", "edp", "lex:energy,latency", "pareto:energy,latency"])
def test_where_the_tables_are_wrong_nothing_is_proven(monkeypatch: pytest.MonkeyPatch, objective: str) -> None:
    lie(monkeypatch, chain_weights, cost_tables, single_tensor_bound)
    found = search(GEMM, ARRAY, objective, "divide", time_limit_s=2)
    assert found.status == "FEASIBLE"
    assert found.bound <= found.value


def test_where_the_tables_are_wrong_no_tiles_and_no_families_are_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    lie(monkeypatch, chain_weights, cost_tables, single_tensor_bound)
    chosen = choose_tiles(GEMM, ARRAY, time_limit_s=2)
    assert not chosen.is_proven
    members = compare(GEMM, ARRAY, ("optimum", "weight-stationary"), time_limit_s=3).members
    assert all(member.status != "OPTIMAL" for member in members)


def test_a_walk_that_claims_another_value_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    small, arch = matmul(m=2, n=2, k=2), two_levels(64)
    true = search(small, arch, "energy", "any")
    assert true.status == "OPTIMAL"
    assert true.space.distinct is not None
    plain = TreeWalk.go_on

    def wrong(self: TreeWalk, stop: Any) -> Any:
        found = plain(self, stop)
        if found is None or found.value is None:
            return found
        return replace(found, value=found.value - 1, values=(found.value - 1,))

    monkeypatch.setattr(TreeWalk, "go_on", wrong)
    found = search(small, arch, "energy", "any", time_limit_s=1)
    assert found.value == true.value
    assert found.space.distinct is None  # another prover answers


def test_a_buffer_curve_whose_mappings_move_more_than_claimed_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    import polymap as pm

    plain, small, arch = buffer_sizes._ScoredTrees.best, matmul(m=6, n=6, k=6), two_levels(256)
    asked = (small, arch, arch.levels[1].name, [128, 256])
    true = pm.study.buffer_curve(*asked, tiles="any", time_limit_s=1, clock=process_time)

    def wrong(*given: Any) -> Any:
        best = plain(*given)
        return best and (best[0], best[1] - 8)

    monkeypatch.setattr(buffer_sizes._ScoredTrees, "best", wrong)
    found = pm.study.buffer_curve(*asked, tiles="any", time_limit_s=1, clock=process_time)
    for point, own in zip(found.points, true.points, strict=True):
        assert point.best_bits is not None
        assert own.best_bits is not None
        assert point.best_bits >= own.best_bits
        assert point.bound_bits <= own.best_bits


def test_a_buffer_above_spatial_loops_that_another_node_is_charged_above_is_bounded_as_it_stands() -> None:
    """W's register is charged above all loops over q, so above the buffer of I: the spatial loops between the two stand
    below that buffer all the same. Charged otherwise, the chain of the best tree cost 584,457,434 pJ."""
    found = search("resnet50.conv1", "flat3", tiles="divide")
    assert (found.status, found.value, found.bound) == ("OPTIMAL", 584_250_458, 584_250_458)
    assert verify(found.certificate()).proven
