"""Chains of nests are fused where that pays, and what is claimed of them holds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from time import process_time

import numpy as np
import pytest

import polymap as pm
from polymap.costmodel import Cost
from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.referees import count_by_simulation
from polymap.explore import provers, search
from polymap.ir import (
    Architecture,
    Branch,
    BudgetError,
    Compute,
    Mapping,
    Spatial,
    Storage,
    Temporal,
    Workload,
    part_of,
)
from polymap.resources import Limits, never
from polymap.search import chains, driver
from polymap.search.around import element_by_element, with_second_inside, without_nodes
from polymap.search.chains import Aim, Chains, Segment, slow_levels, tiles_tried
from polymap.search.driver import Search
from polymap.search.evidence import Evidence, Incumbent
from polymap.search.fused_trees import FusedTrees
from polymap.search.legs import Interface, Nodes
from polymap.search.nest_after_nest import begin_nest_after_nest
from polymap.search.options import Options
from polymap.search.problem import Powers, parse_single
from polymap.search.program_provers import begin_chains, begin_dividing_trees, relieved
from polymap.search.programs import in_lines, in_tiles
from polymap.search.provers import read_question
from polymap.search.refunds import bound_by_cases, bound_by_refunds
from tests.referee.test_refunds import chain_and_machine
from tests.times import few
from tests.unit.search.run.test_nest_after_nest import begun as begun_apart, buffer

PAIR = ["T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"]
FLAT3_PAIR, FLAT3_ATTENTION = 35_373_056, 129_761_280  # pJ: by an exhaustive search over the states of a pair


def pair(m: int, n: int, k: int) -> Workload:
    return pm.program(PAIR, m=m, n=n, k=k, p=k, temporary=["T"], bits=8)


def begun(work: Workload, machine: str | Architecture, objective: str) -> Evidence:
    arch = pm.load_arch(machine) if isinstance(machine, str) else machine
    asked, known = read_question(work, arch, Options(objective, "divide", clock=process_time), provers)
    return begin_chains(asked, known, never)


def test_two_products_share_the_loop_over_the_intermediate() -> None:
    work = pair(512, 256, 32)
    best = begun(work, "flat3", "energy").incumbents[0]
    assert best.values == (FLAT3_PAIR,)
    asked, known = read_question(work, pm.load_arch("flat3"), Options("energy", "divide", clock=process_time), provers)
    floor = bound_by_refunds(asked, known, never).floors[0]
    assert 0.998 * FLAT3_PAIR <= floor <= FLAT3_PAIR


def test_no_cases_are_bounded_where_a_tree_meets_the_floor() -> None:
    options = Options("energy", "divide", clock=process_time)
    asked, known = read_question(pair(16, 16, 16), pm.load_arch("flat3"), options, provers)
    met = begin_chains(asked, bound_by_refunds(asked, known, never), never)
    assert met.is_met
    assert bound_by_cases(asked, met, lambda: pytest.fail("cases are bounded")) == met


def test_attention_is_proven() -> None:
    asked = pair(512, 512, 64), pm.load_arch("flat3"), "energy", "divide"
    found = search(*asked, time_limit_s=60, clock=process_time)
    assert (found.status, found.value, found.bound) == ("OPTIMAL", FLAT3_ATTENTION, FLAT3_ATTENTION)


@pytest.mark.parametrize(("m", "n", "k", "p"), [(10**9 + 7, 10**9 + 9, 13, 7), (2**31 - 1, 1, 1, 2**31 - 1)])
def test_nests_of_huge_prime_extents_are_joined(m: int, n: int, k: int, p: int) -> None:
    work = pm.program(PAIR, m=m, n=n, k=k, p=p, temporary=["T"], bits=8)
    apart, fused = (each(work, "flat3", "energy").incumbents[0].values for each in (begun_apart, begun))
    assert fused <= apart


def test_attention_through_a_small_buffer_reads_keys_and_values_once_per_block_of_queries() -> None:
    asked, known = read_question(pair(512, 512, 64), buffer(4_129), Options("traffic:DRAM", "divide"), provers)
    assert begin_chains(asked, known, never).incumbents[0].values == (8 * 1_114_112,)


def test_trees_that_took_too_long_to_count_are_counted_when_there_is_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    work, arch = pair(512, 512, 64), pm.load_arch("flat3")
    tree = (Storage("GLB", ("A", "E")), Temporal("n", 128), Storage("GLB", ("T",)))
    asked_s = list[float]()

    def within(workload: Workload, arch: Architecture, mapping: Mapping, seconds: float) -> Cost:
        asked_s.append(seconds)
        if seconds < 1:
            raise BudgetError([])
        return pm.evaluate(workload, arch, mapping)

    monkeypatch.setattr(driver, "evaluate_in_cpu_time", within)
    options = Options("energy", "divide", time_limit_s=10, clock=lambda: 0.0)
    asked, _ = read_question(work, arch, options, provers)
    counted = FusedTrees(asked, work, asked.objective, divides=True)
    assert counted.below(work, tree) is counted.below(work, tree) is None
    assert len(asked_s) == 1
    longer = replace(asked, limits=asked.limits.renewed(100, None, None))
    again = FusedTrees(longer, work, asked.objective, divides=True)
    found = again.below(work, tree)
    assert found is not None
    assert (found.value, asked_s) == (FLAT3_ATTENTION, [0.2, 2.0])


@pytest.mark.parametrize("objective", ["energy", "edp", "pareto:energy,latency"])
@pytest.mark.parametrize("steps", [1, 20])
def test_programs_end_with_their_steps(objective: str, steps: int) -> None:
    arch = pm.load_arch("eyeriss_like")
    found = search(pair(64, 64, 64), arch, objective, "divide", time_limit_s=600, work_limit=steps)
    assert found.best is not None
    assert found.work <= steps + 3  # a nest takes three, once it is begun


def test_tensors_of_the_best_tree_change_their_level_where_that_saves_time() -> None:
    """The accumulators of tpu_like have S and P; C, which is summed up in parts, goes by the buffer meanwhile."""
    texts = (
        "S[h,m,n] += Q[h,m,e] * K[h,n,e]",
        "M[h,m] max= S[h,m,n]",
        "P[h,m,n] = S[h,m,n] - M[h,m]",
        "C[h,m,e] += P[h,m,n] * V[h,n,e]",
    )
    work = pm.program(texts, h=2, m=512, n=512, e=64, temporary=["S", "M", "P"], bits=8)
    options = Options("edp", "divide", time_limit_s=20, clock=process_time)
    asked, known = read_question(work, pm.load_arch("tpu_like"), options, provers)
    nodes = (Temporal("h", 1), Storage("ACC", ("S", "M", "P", "C")))
    fused = FusedTrees(asked, work, parse_single("energy", asked.arch), divides=True)
    part = fused.below(work, nodes)
    assert part is not None
    first = asked.with_tree(known, work, Mapping(part.nodes))
    last = relieved(asked, first, never)
    held = {name: n.level for n in last.incumbents[0].mapping.nodes if isinstance(n, Storage) for name in n.tensors}
    assert (held["S"], held["P"], held["C"]) == ("ACC", "ACC", "UB")
    assert last.incumbents[0].cost.latency_cycles < first.incumbents[0].cost.latency_cycles


def test_what_others_need_too_may_still_be_shared_inside_a_segment() -> None:
    """The scores are written out for the exponentials, and read on chip for the largest of each row."""
    texts = ["S[m,n] += Q[m,e] * K[n,e]", "M[m] max= S[m,n]", "P[m,n] = exp(S[m,n] - M[m])", "L[m] += P[m,n]"]
    texts += ["C[m,e] += P[m,n] * V[n,e]", "Z[m,e] = C[m,e] / L[m]"]
    work = pm.program(texts, m=512, n=512, e=64, temporary=list("SMPLC"), types="float32")
    found = search(work, buffer(16 * 1024), "traffic:DRAM", "divide", time_limit_s=60, clock=process_time)
    assert found.value is not None, found
    assert found.value <= 13 * 2**22


def test_three_nests_share_loops_on_an_array() -> None:
    texts = ["T[c,p,q] += I[c,p+r,q+s] * W[c,r,s]", "U[c,p,q] = max(T[c,p,q], 0)", "E[k,p,q] += U[c,p,q] * F[k,c]"]
    sizes = {"c": 96, "p": 28, "q": 28, "r": 3, "s": 3, "k": 24}
    work = pm.program(texts, sizes=sizes, temporary=["T", "U"], bits=8)
    fused = begun(work, "eyeriss_like", "energy").incumbents[0].values[0]
    assert fused < 0.6 * begun_apart(work, "eyeriss_like", "energy").incumbents[0].values[0]


@pytest.mark.parametrize("machine", ["flat3", "simba_like"])
def test_tiles_of_any_size_begin_with_the_best_tree_of_tiles_that_divide(machine: str) -> None:
    work = pair(60, 36, 12)
    asked, known = read_question(work, pm.load_arch(machine), Options("energy", "any"), provers)
    assert (
        begin_dividing_trees(asked, known, never).incumbents[0].values
        <= begun(work, machine, "energy").incumbents[0].values
    )


def test_states_fit_and_say_what_moves() -> None:
    work = pair(8, 6, 4)
    asked, _ = read_question(work, buffer(90), Options("traffic:DRAM", "divide"), provers)
    segment = Segment.of(work)
    assert segment is not None
    assert segment.interface.shared == ("m", "n")
    states = list(segment.states(asked.arch, {"m": [4], "n": [3]}))
    assert all(state.bits <= 8 * 90 for state in states)
    (held,) = [state for state in states if state.loops == (("n", 3),) and len(state.held) == 2]
    assert held.held == (("A", 0), ("E", 0))
    assert held.bits == 8 * (8 * 3 + 8 * 4 + 8 * 4)
    assert held.read + held.written == 8 * (8 * 4 + 4 * 6 + 6 * 4 + 8 * 4)  # A, B, D and E once


def convolution_relu_product(c: int, p: int, k: int) -> Workload:
    texts = ["T[c,p] += I[i,p+r] * W[c,i,r]", "U[c,p] = max(T[c,p], 0)", "E[k,p] += U[c,p] * F[k,c]"]
    return pm.program(texts, sizes={"c": c, "p": p, "i": c, "r": 3, "k": k}, temporary=["T", "U"], bits=8)


def test_a_relu_stays_in_the_instances_that_compute_what_it_is_of() -> None:
    work = pm.program(PAIR[:1] + ["E[m,n] = max(T[m,n], 0)"], m=512, n=256, k=64, temporary=["T"], bits=8)
    best = begun(work, "simba_like", "energy").incumbents[0]
    *around, branch = best.mapping.nodes
    spread = {node.fanout for node in around if isinstance(node, Spatial)}
    assert isinstance(branch, Branch)
    assert spread == {"PE"}
    assert any(isinstance(node, Storage) and node == Storage("ABUF", ("T",)) for node in around)
    assert best.values[0] < 0.8 * begun_apart(work, "simba_like", "energy").incumbents[0].values[0]


@pytest.mark.parametrize(("c", "p", "share"), few([(64, 98, 0.98), (128, 784, 0.5)], 1))
def test_three_nests_share_an_array_and_what_is_held_above_it(c: int, p: int, share: float) -> None:
    work = convolution_relu_product(c, p, 32)
    best = begun(work, "simba_like", "energy").incumbents[0]
    *around, branch = best.mapping.nodes
    assert isinstance(branch, Branch)
    assert {node.fanout for node in around if isinstance(node, Spatial)} == {"PE"}
    assert best.values[0] < share * begun_apart(work, "simba_like", "energy").incumbents[0].values[0]


@pytest.mark.parametrize("machine", ["simba_like", "eyeriss_like"])
def test_fused_trees_with_siblings_run_and_count_themselves(machine: str) -> None:
    work = convolution_relu_product(4, 12, 4)
    best = begun(work, machine, "energy").incumbents[0]
    run = pm.run_c(best.workload, pm.load_arch(machine), best.mapping)
    assert run.matches_reference
    assert run.counts_match


def test_tiles_of_large_and_prime_extents_are_few() -> None:
    assert tiles_tried(1, divides=True) == []
    assert tiles_tried(13, divides=True) == [1]
    for extent in (10**9 + 7, 2**40, 720_720):
        for divides in (False, True) if extent < 10**7 else (False,):
            tiles = tiles_tried(extent, divides=divides)
            assert 1 <= len(tiles) <= 24
            assert all(0 < tile < extent for tile in tiles)


def test_what_statements_touch_unalike_is_not_kept() -> None:
    texts = ["T[p] += A[p+r] * W[r]", "E[q] += T[q+s] * V[s]"]
    assert Segment.of(pm.program(texts, p=7, r=3, q=4, s=3)) is None
    assert Segment.of(pm.program(texts, p=6, r=3, q=4, s=3)) is not None  # both touch all of T
    assert Segment.of(pm.program(["T[m] += A[m]", "E[n] += B[n]"], m=4, n=4)) is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(12), 2))
def test_answers_are_counted_run_and_never_worse_than_the_nests_apart(seed: int) -> None:
    rng = random.Random(f"explore {seed}")
    work, arch = chain_and_machine(rng)
    objective, tiles = rng.choice(("energy", "traffic:DRAM", "latency", "edp")), rng.choice(("divide", "any"))
    found = search(work, arch, objective, tiles, time_limit_s=20, work_limit=3_000)
    assert found.best is not None
    assert found.workload is not None
    assert found.value is not None
    cost = pm.simulate(found.workload, arch, found.best)
    assert cost.legal
    assert objective != "energy" or cost.energy_pj == found.value
    run = pm.run_c(found.workload, arch, found.best)
    assert run.matches_reference
    assert run.counts_match
    asked, known = read_question(work, arch, Options(objective, tiles), provers)
    apart = begun_apart(work, arch, objective) if tiles == "divide" else known
    assert all(found.value <= float(one.values[0]) for one in apart.incumbents)
    assert (
        Chains(asked, work, asked.objective.singles[0], divides=tiles == "divide").part(work.statements[:1], 1.0)
        is not None
    )


def test_nests_of_a_c_text_are_fused_with_the_zeros_that_they_begin_with() -> None:
    text = """void f(float A[32][8], float B[8][32], float D[32][8], float E[32][8]) {
  float T[32][32];
  for (int i = 0; i < 32; i++) for (int j = 0; j < 32; j++) {
    T[i][j] = 0;
    for (int k = 0; k < 8; k++) T[i][j] += A[i][k] * B[k][j];
  }
  for (int x = 0; x < 32; x++) for (int p = 0; p < 8; p++) {
    E[x][p] = 0;
    for (int y = 0; y < 32; y++) E[x][p] += T[x][y] * D[y][p];
  }
}"""
    work, arch = pm.from_c(text), buffer(4_096)
    best = begun(work, arch, "traffic:DRAM").incumbents[0]
    assert best.values[0] < 0.4 * begun_apart(work, arch, "traffic:DRAM").incumbents[0].values[0]
    assert {dim.name for dim in best.workload.dims} < {dim.name for dim in work.dims}


def attention_on_an_array(heads: int, rows: int, keys: int, width: int) -> tuple[Workload, Architecture]:
    """Return attention with softmax in passes, and a machine of instances that hold weights and results each."""
    texts = ["S[h,m,n] += Q[h,m,e] * K[h,n,e]", "M[h,m] max= S[h,m,n]", "P[h,m,n] = S[h,m,n] - M[h,m]"]
    texts += ["L[h,m] += P[h,m,n]", "C[h,m,e] += P[h,m,n] * V[h,n,e]", "Z[h,m,e] = C[h,m,e] * L[h,m]"]
    sizes = {"h": heads, "m": rows, "n": keys, "e": width}
    both, byte = ["@input", "@output"], {"word_bits": 8}
    nodes: list[dict[str, object]] = [
        {"level": "DRAM", **byte, "read_pj": 200, "write_pj": 200},
        {"level": "GLB", **byte, "capacity_bits": 16 * rows * width, "read_pj": 6, "write_pj": 6, "holds": both},
        {"fanout": "PE", "size": 4, "reduction": keys > 4},
        {"level": "WBUF", **byte, "capacity_bits": 4 * keys * width, "read_pj": 2, "write_pj": 2, "holds": ["@weight"]},
        {"level": "ABUF", **byte, "capacity_bits": 8 * keys, "read_pj": 2, "write_pj": 2, "holds": ["@output"]},
        {"compute": "MAC", "pj": 1},
    ]
    work = pm.program(texts, sizes=sizes, temporary=list("SMPLC"), bits=8)
    return work, pm.io.arch_from_document({"name": "array", "nodes": nodes})


def test_keys_and_values_spread_over_a_fanout_are_loaded_once() -> None:
    work, arch = attention_on_an_array(2, 32, 16, 8)
    best = begun(work, arch, "energy").incumbents[0]
    read = {row.tensor: row.reads for row in best.cost.traffic if row.level == "DRAM"}
    assert (read["K"], read["V"]) == (2 * 16 * 8, 2 * 16 * 8), "as often as there are elements"
    assert all(
        row.reads + row.writes == 0 for row in best.cost.traffic if row.level == "DRAM" and row.tensor in "SMPLC"
    )


@pytest.mark.parametrize("seed", few(range(12), 4))
def test_trees_with_a_fanout_above_a_branch_count_as_the_simulator_says(seed: int) -> None:
    rng = random.Random(f"spread {seed}")
    work, arch = attention_on_an_array(
        rng.choice([1, 2]), rng.choice([2, 4, 6]), rng.choice([4, 8]), rng.choice([2, 3])
    )
    asked, _ = read_question(work, arch, Options("energy", "divide", clock=process_time), provers)
    interface = Interface.of(work)
    assert interface is not None, "all that passes is touched alike"
    found = FusedTrees(asked, work, asked.objective, divides=True).spread(work, interface, never)
    assert found is not None, "keys and values have room in the array"
    tree = Mapping(found.nodes)
    assert count_closed_form(work, arch, tree) == count_by_simulation(work, arch, tree)


ATTENTION = (
    "S[h,m,n] += Q[h,m,e] * K[h,n,e]",
    "M[h,m] max= S[h,m,n]",
    "P[h,m,n] = S[h,m,n] - M[h,m]",
    "C[h,m,e] += P[h,m,n] * V[h,n,e]",
)


def test_scores_stay_in_the_multipliers_where_their_rows_fill_all_fan_outs() -> None:
    nodes = [
        {"level": "DRAM", "read_pj": 100, "write_pj": 100, "bandwidth_bits_per_cycle": 64},
        {"level": "GLB", "capacity_bits": 8 * 1024, "read_pj": 1, "write_pj": 1, "bandwidth_bits_per_cycle": 128},
        {"fanout": "X", "size": 4, "reduction": False},
        {"fanout": "Y", "size": 8, "multicast": "identical"},
        {"level": "REG", "capacity_bits": 16, "read_pj": 0, "write_pj": 0},
        {"compute": "MAC", "pj": 1, "per_cycle": 1},
    ]
    arch = pm.io.arch_from_document({"name": "multipliers", "nodes": nodes})
    work = pm.program(list(ATTENTION), sizes={"h": 2, "m": 16, "n": 16, "e": 8}, temporary=["S", "M", "P"], bits=8)
    interface = Interface.of(work)
    assert interface is not None, "S, M and P pass"
    asked, _ = read_question(work, arch, Options("latency", "divide", clock=process_time), provers)
    found = FusedTrees(asked, work, asked.objective, divides=True).spread(work, interface, never)
    assert found is not None, "there is a tree"
    around = found.nodes
    assert Storage("REG", ("S", "P")) in around, "one score in each, then its weight in the same place"
    cost = pm.simulate(work, arch, Mapping(around))
    assert cost.legal, "there is room for either, not for both"
    assert (cost.latency_cycles, dict(cost.occupancy_bits)["REG"]) == (found.value, 16), "as it runs"


def test_a_product_of_energy_and_latency_is_looked_for_by_sums() -> None:
    work, arch = pair(64, 32, 32), pm.load_arch("flat3")
    best = {name: begun(work, arch, name).incumbents[0].cost for name in ("energy", "latency", "edp")}
    value = {name: cost.energy_pj_exact * cost.latency_cycles for name, cost in best.items()}
    assert value["edp"] <= min(value.values()), "neither of the two alone does better"


@pytest.mark.parametrize("width", [8, 1])
def test_all_time_is_for_energy_where_no_tree_is_faster(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: 7 products of 8 x 4 x 4 multiplications, one a cycle; of X, 7 x W and the result 1,408 bits move."""
    letters, ends = "abcdefgh", list[tuple[str | Powers, float]]()
    pairs = list(pairwise(letters))
    texts = [f"T{at + 1}[m,{b}] += T{at}[m,{a}] * W{at}[{a},{b}]" for at, (a, b) in enumerate(pairs)]
    sizes = dict.fromkeys(letters, 4) | {"m": 8}
    work = pm.program(texts, sizes=sizes, temporary=[f"T{at}" for at in range(1, 7)], bits=8)
    plain = buffer(64)
    arch = replace(plain, nodes=(replace(plain.levels[0], bandwidth_bits_per_cycle=width), *plain.nodes[1:]))

    def until(_: Search, limits: Limits, evidence: Evidence, aim: Aim) -> Evidence:
        ends.append((aim.goal, limits.end))
        return evidence

    monkeypatch.setattr(chains, "_in_turn", until)
    options = Options("edp", "divide", clock=lambda: 0.0)
    asked, known = read_question(work, arch, options, provers)
    apart = begin_nest_after_nest(asked, known, never)
    cycles = apart.incumbents[0].cost.latency_cycles
    assert cycles == 7 * 8 * 4 * 4 if width > 1 else cycles > 8 * (8 * 4 + 7 * 4 * 4 + 8 * 4)
    begin_chains(asked, apart, never)
    assert ends == [("energy", 1), (Powers(1, 1), 1)][: 1 if width > 1 else None]


DECODED = (  # one token; keys and values of those before stand in the outermost level
    "Q[h,m,e] += X[m,d] * WQ[h,d,e]",
    "S[h,m,n] += Q[h,m,e] * K[h,n,e]",
    "M[h,m] max= S[h,m,n]",
    "P[h,m,n] = exp(S[h,m,n] - M[h,m])",
    "L[h,m] += P[h,m,n]",
    "C[h,m,e] += P[h,m,n] * V[h,n,e]",
    "Z[h,m,e] = C[h,m,e] / L[h,m]",
    "A[m,d] += Z[h,m,e] * WO[h,e,d]",
)


def test_a_decoded_token_reads_its_cache_and_weights_once() -> None:
    sizes = {"m": 1, "n": 2_048, "d": 256, "h": 4, "e": 64}
    work = pm.program(list(DECODED), sizes=sizes, temporary=list("QSMPLCZ"), types="float32")
    found = begun(work, buffer(32 * 1024), "traffic:DRAM")
    words = 256 + 4 * 256 * 64 + 2 * 4 * 2_048 * 64 + 4 * 64 * 256 + 256
    assert found.incumbents[0].values == (32 * words,), "input, weights, keys and values, output: each once"
    assert found.floors == (32 * words,), "less is not possible"


def test_heads_share_a_loop_below_their_input() -> None:
    """Queries, keys and scores of a head are made and used up one head after the other; the input stays."""
    texts = ["Q[h,m,e] += X[m,d] * W[h,d,e]", "K[h,n,e] += X[n,d] * U[h,d,e]", "S[h,m,n] += Q[h,m,e] * K[h,n,e]"]
    texts += ["M[h,m] max= S[h,m,n]", "P[h,m,n] = S[h,m,n] - M[h,m]", "L[h,m] += P[h,m,n]", "C[h,m] = L[h,m] * M[h,m]"]
    sizes = {"h": 8, "m": 32, "n": 32, "d": 64, "e": 8}
    work = pm.program(texts, sizes=sizes, temporary=list("QKSMPL"), bits=8)
    found = begun(work, buffer(4_096), "traffic:DRAM").incumbents[0]
    assert found.values == (8 * (32 * 64 + 2 * 8 * 64 * 8 + 8 * 32),), "input, weights and results, each once"


@pytest.mark.parametrize(
    ("texts", "sizes", "words", "bits"),
    [
        (  # windows that do not overlap: all moves once
            ["T[k,y] += I[c,y+r] * W[k,c,r]", "G[k,y] = max(T[k,y], 0)", "O[k,v] max= G[k,2*v+a]"],
            {"k": 4, "c": 4, "r": 3, "y": 32, "v": 16, "a": 2},
            90,
            8 * (4 * 34 + 48 + 64),
        ),
        (  # two rows of T are made twice
            ["T[k,y] += I[c,y+r] * W[k,c,r]", "O[z,v] += T[k,v+a] * V[z,k,a]"],
            {"k": 4, "c": 4, "r": 3, "y": 34, "v": 32, "z": 4, "a": 3},
            130,
            3840,
        ),
    ],
)
def test_what_is_read_through_windows_is_passed_in_tiles(
    texts: list[str], sizes: dict[str, int], words: int, bits: int
) -> None:
    work = pm.program(texts, sizes=sizes, temporary=[text[0] for text in texts[:-1]], bits=8)
    apart, best = (each(work, buffer(words), "traffic:DRAM").incumbents[0] for each in (begun_apart, begun))
    assert best.values[0] <= bits < apart.values[0]
    run = pm.run_c(best.workload, buffer(words), best.mapping)
    assert run.matches_reference
    assert run.counts_match


LINED_TEXTS = ("T[k,y] += I[c,y+r] * W[k,c,r]", "G[k,y] = max(T[k,y], 0)", "O[z,v] += G[k,v+a] * V[z,k,a]")
LINED_SIZES = {"k": 4, "c": 4, "r": 3, "y": 34, "v": 32, "z": 4, "a": 3}
LINED = pm.program(list(LINED_TEXTS), sizes=LINED_SIZES, temporary=["T", "G"], bits=8)


@cache
def best_in_lines(words: int) -> Incumbent:
    return begun(LINED, buffer(words), "energy").incumbents[0]


@pytest.mark.parametrize(("words", "most"), few([(130, 67_680), (40, 119_944)], 1))
def test_rows_that_tiles_share_stay_in_a_line_buffer(words: int, most: int) -> None:
    """No row of G is made twice: those that the first iteration shares with the next one come before."""
    work, apart, best = LINED, begun_apart(LINED, buffer(words), "energy").incumbents[0], best_in_lines(words)
    assert best.values[0] <= most < apart.values[0]
    assert best.workload.instances_of_boxes() == work.instances_of_boxes()
    run = pm.run_c(best.workload, buffer(words), best.mapping)
    assert run.matches_reference
    assert run.counts_match


def test_lines_are_counted_in_tables_of_tiles_and_run_natively() -> None:
    best = best_in_lines(130)
    names = [each.name for each in best.workload.statements]
    assert names == ["S0_first", "S1_first", "S0", "S1", "S2"]
    tiles = [node.tile for node in loops_of(best.mapping.nodes)]
    table = pm.evaluate_many(best.workload, buffer(130), best.mapping, [tiles])
    assert table.energy_pj[0] == best.values[0]
    types = dict.fromkeys("IWV", "int8") | dict.fromkeys("TGO", "int32")
    typed = pm.program(list(LINED_TEXTS), sizes=LINED_SIZES, temporary=["T", "G"], types=types)
    lined = in_lines(typed, "v")
    assert lined is not None
    loops = Mapping(without_nodes(best.mapping.nodes, [each.name for each in lined.tensors]))
    draw = np.random.default_rng(0).integers
    i, w, v = (draw(-3, 4, shape, np.int8) for shape in ((4, 36), (4, 4, 3), (4, 4, 3)))
    rows = np.maximum(sum(w[:, :, r].astype(int) @ i[:, r : r + 34] for r in range(3)), 0)
    wanted = sum(v[:, :, a].astype(int) @ rows[:, a : a + 32] for a in range(3))
    run = pm.compile(lined, pm.load_arch("host_cpu"), mapping=loops)
    assert np.array_equal(np.asarray(run(i, w, v)), wanted)


def loops_of(nodes: Nodes) -> Iterator[Temporal | Spatial]:
    for node in nodes:
        if isinstance(node, Branch):
            yield from (loop for child in node.children for loop in loops_of(child))
        elif isinstance(node, Temporal | Spatial):
            yield node


def test_element_by_element_inside_the_loops_of_another_statement() -> None:
    """T stands in ABUF alone: each of its 32 elements is written into GLB and read there no more, at 6 pJ."""
    texts = ["T[k,y] += I[c,y] * W[k,c]", "G[k,y] = max(T[k,y], 0)", "O[z,v] += G[k,v+a] * V[z,k,a]"]
    work = pm.program(texts, k=4, c=2, y=8, v=6, a=3, z=2, temporary=["T", "G"], bits=8)
    first = (Spatial("k", 1, "PE"), Storage("ABUF", ("T",)), *loops("yc"), Compute("S0"))
    second, third = (*loops("ky"), Compute("S1")), (*loops("kvza"), Compute("S2"))
    nodes = (Storage("GLB", ("T", "G")), Branch((first, second, third)))
    arch = pm.load_arch("simba_like")
    asked, _ = read_question(work, arch, Options("energy", "divide", clock=process_time), provers)
    before = pm.evaluate(work, arch, Mapping(nodes)).energy_pj_exact
    (one,) = element_by_element(work)
    trees = list(with_second_inside(work, arch, one, nodes))
    costs = [pm.evaluate(work, arch, Mapping(each)) for each in trees]
    assert all(each.legal for each in costs)
    assert min(each.energy_pj_exact for each in costs) == before - 32 * 12
    for tree, cost in zip(trees, costs, strict=True):
        assert count_by_simulation(work, arch, Mapping(tree)).traffic == cost.traffic
    found = FusedTrees(asked, work, asked.objective, divides=True).with_seconds_inside(work, nodes, never)
    assert found is not None
    assert found.value <= before - 32 * 12


@pytest.mark.parametrize(
    "texts",
    [
        ["T[k,y] += I[c,y] * W[k,c]", "G[k,y] = max(T[k,y], 0)", "O[k,y] = G[k,y] + T[k,y]"],  # another reader
        ["T[k,y] += I[c,y] * W[k,c]", "G[k] += T[k,y]"],  # a sum
        ["T[k,y] += I[c,y] * W[k,c]", "G[k,v,a] = max(T[k,v+a], 0)"],  # a window
    ],
)
def test_other_statements_are_not_element_by_element(texts: list[str]) -> None:
    sizes = {"k": 2, "c": 2, "y": 4} | ({"v": 3, "a": 2} if "v" in texts[1] else {})
    assert not list(element_by_element(pm.program(texts, sizes=sizes, temporary=["T"], bits=8)))


def loops(dims: str) -> tuple[Temporal, ...]:
    return tuple(Temporal(dim, 1) for dim in dims)


WINDOWS = {
    "stem": (["T[k,y] += I[c,2*y+r] * W[k,c,r]", "O[k,v] max= T[k,2*v+a]"], {"k": 2, "c": 2, "r": 7, "y": 9}, 3),
    "separable": (["T[c,v] += I[c,2*v+r] * W[c,r]", "O[k,v] += T[c,v] * V[k,c]"], {"c": 2, "k": 4, "r": 3}, 0),
    "pair": (["T[k,y] += I[c,y+r] * W[k,c,r]", "O[z,v] += T[k,v+a] * V[z,k,a]"], {"c": 2, "k": 2, "r": 3, "y": 6}, 3),
    "bottleneck": (
        ["T[k,y] += I[c,y] * W[k,c]", "U[z,v] += T[k,v+a] * V[z,k,a]", "O[c,v] += U[z,v] * X[c,z]"],
        {"c": 4, "k": 2, "y": 6},
        3,
    ),
}


@pytest.mark.parametrize(("name", "machine"), few([(name, words) for words in (8, 16, "flat3") for name in WINDOWS], 2))
def test_no_way_to_pass_windows_alone_is_better(name: str, machine: int | str) -> None:
    """Kept whole, made again row by row or by two, in lines, or apart."""
    texts, sizes, taps = WINDOWS[name]
    sizes = sizes | {"v": 4} | ({"a": taps} if taps else {}) | ({"z": 2} if "z" in " ".join(texts) else {})
    work = pm.program(texts, sizes=sizes, temporary=[text[0] for text in texts[:-1]], bits=8)
    arch = buffer(machine) if isinstance(machine, int) else pm.load_arch(machine)
    found = begun(work, arch, "energy").incumbents[0].values[0]
    assert found <= begun_apart(work, arch, "energy").incumbents[0].values[0]
    for each in (work, in_lines(work, "v"), in_tiles(work, "v", 1), in_tiles(work, "v", 2)):
        if each is None:
            continue
        asked, _ = read_question(work, arch, Options("energy", "divide", clock=process_time), provers)
        for nodes in Chains(asked, each, asked.objective, divides=True).best_trees(0.5):
            cost = pm.evaluate(each, arch, Mapping(nodes))
            assert not cost.legal or found <= cost.energy_pj_exact


@pytest.mark.parametrize("name", few(list(WINDOWS), 1))
def test_more_work_is_never_worse(name: str) -> None:
    """Forms of a program go on where they ended, in slices that do not depend on the limit."""
    texts, sizes, taps = WINDOWS[name]
    sizes = sizes | {"v": 4} | ({"a": taps} if taps else {}) | ({"z": 2} if "z" in " ".join(texts) else {})
    work = pm.program(texts, sizes=sizes, temporary=[text[0] for text in texts[:-1]], bits=8)
    found = [search(work, buffer(8), "energy", "divide", work_limit=most) for most in (20, 40, 80, 160, 160)]
    values = [each.value or 0 for each in found]
    assert values == sorted(values, reverse=True)
    assert found[-1].best == found[-2].best


def test_chains_go_on_where_their_share_ended() -> None:
    texts, sizes, taps = WINDOWS["pair"]
    work = pm.program(texts, sizes=sizes | {"v": 4, "z": 2, "a": taps}, temporary=["T"], bits=8)
    lined = in_lines(work, "v")
    assert lined is not None
    asked, whole = (
        read_question(work, buffer(8), Options("energy", "divide", clock=process_time), provers)[0] for _ in range(2)
    )
    chains, values = Chains(asked, lined, asked.objective, divides=True), list[Fraction]()
    while chains.is_cut or not values:
        chains.best_trees(asked.limits.share() + 0.002 * 2 ** len(values))
        least = chains.least_value()
        assert least is not None
        values.append(least)
    at_once = Chains(whole, lined, whole.objective, divides=True)
    at_once.best_trees(1)
    assert len(values) > 1
    assert values == sorted(values, reverse=True)
    assert values[-1] == at_once.least_value()


def test_what_whole_statements_cost_does_not_bound_their_parts() -> None:
    """Inside the loop T and G have two of their four rows."""
    texts = ["T[k,y] += I[c,y+r] * W[k,c,r]", "G[k,y] = max(T[k,y], 0)", "O[z,v] += G[k,v+a] * V[z,k,a]"]
    work = pm.program(texts, k=2, c=4, r=3, y=4, v=2, z=2, a=3, temporary=["T", "G"], bits=8)
    asked, known = read_question(work, buffer(20), Options("energy", "divide", clock=process_time), provers)
    bound_by_refunds(asked, known, never)
    lined = in_lines(work, "v")
    assert lined is not None
    chains = Chains(asked, lined, asked.objective, divides=True)
    part = chains.part(lined.statements[2:4], 0.5)
    assert part is not None
    assert chains._at_least((2, 4)) <= part.value


def test_what_nobody_reads_may_stay() -> None:
    texts = ["T[m,n] = A[m,n] * B[m]", "L[m] += T[m,n]", "E[m,n] = max(T[m,n], 0)"]
    work = pm.program(texts, m=4, n=4, temporary=["T", "L"], bits=8)
    asked, known = read_question(work, buffer(60), Options("traffic:DRAM", "divide"), provers)
    assert bound_by_refunds(asked, known, never).floors[0] <= 8 * (16 + 4 + 16)  # A and B come, E goes


def test_probabilities_stand_in_a_branch_of_their_own_where_not_all_has_room() -> None:
    """Scores and exponentials of 192 x 192 fit the buffer together, probabilities beside them do not: smaller tiles of
    all three cost 216,534,912 pJ."""
    work, machine = pm.attention(heads=12, queries=192, keys=192, dim=64), pm.load_arch("eyeriss_like")
    asked, _ = read_question(work, machine, Options("energy", "divide", time_limit_s=6, clock=process_time), provers)
    interface = Interface.of(work)
    assert interface is not None
    part = FusedTrees(asked, work, asked.objective, divides=True).read_off(work, interface, asked.limits)
    assert part is not None
    assert part.value <= 186_895_872
    cost = pm.evaluate(work, machine, Mapping(part.nodes))
    assert (cost.legal, cost.energy_pj_exact) == (True, part.value)


def test_smaller_tiles_make_room_for_one_more_tensor() -> None:
    """Beside 14 rows of T and G there is no room for I, which comes again for each quarter of the channels and whose
    rows overlap; beside 8 rows there is."""
    texts = ["T[c,y,x] += I[c,y+r,x+s] * W[c,r,s]", "G[c,y,x] = max(T[c,y,x], 0)", "O[k,y,x] += G[c,y,x] * V[k,c]"]
    work = pm.program(texts, c=32, k=64, r=3, s=3, y=112, x=112, temporary=["T", "G"], bits=8)
    machine = pm.load_arch("eyeriss_like")
    asked, _ = read_question(work, machine, Options("energy", "divide", clock=process_time), provers)
    trees = FusedTrees(asked, work, asked.objective, divides=True)
    part = trees.below(work, (Temporal("y", 14), Storage("GLB", ("T", "G"))))
    assert part is not None
    made = trees.with_room_made(work, trees.with_more_held(work, part, never), never)
    assert made.value <= 191_361_152 < part.value
    cost = pm.evaluate(work, machine, Mapping(made.nodes))
    assert (cost.legal, cost.energy_pj_exact) == (True, made.value)


def test_what_a_part_reads_of_a_tensor_moves_again_where_all_of_it_would_not() -> None:
    """For each k the 10 elements of I that windows of T read come in, but for two of them; F reads all 20."""
    texts = ["T[k,y] += I[y+r] * W[k,r]", "E[k,y] = max(T[k,y], 0)", "F[z] = max(I[z], 0)"]
    work = pm.program(texts, k=2, y=8, r=3, z=20, temporary=["T"], bits=8)
    asked, _ = read_question(work, buffer(64), Options("energy", "divide", clock=process_time), provers)
    trees = FusedTrees(asked, work, asked.objective, divides=True)
    nodes = (Temporal("k", 1), Temporal("y", 4), Storage("GLB", ("T", "I")))
    part = trees.below(part_of(work, work.statements[:2]), nodes)
    assert part is not None
    assert ("I", 8 * 18, 0) in part.passes
    assert "I" in part.moved_again


def test_lines_make_room_for_what_slides_and_share_weights_with_the_rows_before_them() -> None:
    """Beside 6 + 2 rows of G there is no room for the rows of I that 6 rows of T need, beside 3 + 2 there is. What
    makes the first rows runs over the same siblings, so that W comes once."""
    texts = [
        "T[k,y,x] += I[c,y+r,x+s] * W[k,c,r,s]",
        "G[k,y,x] = max(T[k,y,x], 0)",
        "O[z,v,w] += G[k,v+a,w+b] * V[z,k,a,b]",
    ]
    sizes = {"k": 16, "c": 16, "z": 16, "y": 20, "x": 20, "v": 18, "w": 18} | dict.fromkeys("rsab", 3)
    lined = in_lines(pm.program(texts, sizes=sizes, temporary=["T", "G"], bits=8), "v")
    assert lined is not None
    machine = pm.load_arch("simba_like")
    nodes = (replace(n, capacity_bits=8 * 4200) if n.name == "GLB" else n for n in machine.nodes)
    machine = replace(machine, nodes=tuple(nodes))
    asked, _ = read_question(lined, machine, Options("energy", "divide", clock=process_time), provers)
    trees = FusedTrees(asked, lined, asked.objective, divides=True)
    before, inside = (part_of(lined, lined.statements[each]) for each in (slice(2), slice(2, 5)))
    legs = {each.name: (*(Temporal(name, 1) for name in each.dims), Compute(each.name)) for each in lined.statements}
    spread, two = Spatial("k", 1, "PE"), (Storage("ABUF", ("T",)), Branch((legs["S0"], legs["S1"])))
    above = (spread, Storage("WBUF", ("V", "W")), Temporal("v", 6), Storage("GLB", ("G",)))
    loop = trees.part_with_best_legs(inside, (*above, Branch((two, legs["S2"]))))
    first = trees.below(before, (Storage("GLB", ("I",)), spread, Storage("ABUF", ("T_first",))))
    assert loop is not None
    assert first is not None
    made = trees.with_room_made(inside, loop, never)
    assert made.value < loop.value
    assert ("I", 8 * 22 * 22 * 16 - 8 * 2 * 22 * 16, 0) in made.passes  # all but two rows, each once
    whole = trees.below_common_heads(lined, [first.nodes, made.nodes], never)
    assert whole is not None
    assert whole.value < first.value + made.value
    assert ("W", 8 * 16 * 16 * 9, 0) in whole.passes
    cost = pm.evaluate(lined, machine, Mapping(whole.nodes))
    assert (cost.legal, cost.energy_pj_exact) == (True, whole.value)


def test_sums_near_a_tree_charge_the_levels_that_bind_it_or_nearly() -> None:
    """DRAM takes 12,288 cycles (by hand: 3 x 262,144 x 8 bits, 512 a cycle), UB 10,240 and ACC 4,096."""
    work, machine = pm.matmul(m=512, n=512, k=512, bits=8), pm.load_arch("tpu_like")
    loops = (Temporal("k", 128), Storage("UB", ("A",)), Temporal("n", 128))
    spread = (Spatial("k", 1, "ROW"), Spatial("n", 1, "COL"), Storage("WREG", ("B",)), Temporal("m", 1))
    asked, _ = read_question(work, machine, Options("latency", "divide"), provers)
    tree = Mapping((Storage("ACC", ("C",)), *loops, *spread, Compute(work.statements[0].name)))
    assert list(slow_levels(machine, [asked.incumbent(tree)])) == ["DRAM", "UB"]
