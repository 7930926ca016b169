"""Machines that say what single steps take: in documents, in all figures, in searches, and fitted to measurements."""

from __future__ import annotations

import math
import random
import re
import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import polymap as pm
from polymap.costmodel.machine_fit import downhill, rank_correlation
from polymap.costmodel.referees.score import scale_of
from polymap.explore import search
from polymap.ir import ArchError, BudgetError, OptionError
from polymap.report.explanation import explain
from polymap.search.program_search import program_order

FIELDS = {
    "step_cycles": Fraction(20),
    "beat_bits": 32,
    "request_bits": 128,
    "base_offset_bits": 16,
    "command_bits": 64,
    "write_command_bits": 32,
    "request_latency_cycles": Fraction(5, 2),
    "in_flight": 2,
    "one_bus": True,
}
GEMM = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=8, n=8, k=8, bits=8)


def timed(arch: pm.Architecture) -> pm.Architecture:
    """Return the machine with every field of single steps stated."""
    outer, inner, *rest = arch.nodes
    assert isinstance(outer, pm.MemoryLevel)
    assert isinstance(inner, pm.MemoryLevel)
    unit = replace(arch.compute, pass_least_cycles=Fraction(3), fill_cycles=Fraction(2), preload_cycles=Fraction(4))
    outer = replace(outer, bandwidth_bits_per_cycle=Fraction(32), **FIELDS)
    return replace(
        arch,
        name="timed",
        nodes=(outer, replace(inner, step_cycles=Fraction(9), keeps=False), *rest[:-1], unit),
        start_cycles=Fraction(100),
    )


ARCH = timed(pm.load_arch("flat3"))


def test_documents_of_timed_machines_come_back_equal() -> None:
    document = pm.io.arch_to_document(ARCH)
    assert pm.io.arch_from_document(document) == ARCH
    assert document["start_cycles"] == 100
    nodes = document["nodes"]
    assert isinstance(nodes, list)
    assert nodes[0]["request_latency_cycles"] == 2.5
    assert nodes[1]["keeps"] is False
    assert (nodes[-1]["fill_cycles"], nodes[-1]["preload_cycles"]) == (2, 4)
    plain = str(pm.io.arch_to_document(ARCH.without_steps()))
    assert not [field for field in (*FIELDS, "start_cycles", "fill_cycles", "keeps") if field in plain]
    assert not ARCH.without_steps().is_timed_by_step


@pytest.mark.parametrize(
    "field, value", [("step_cycles", -1), ("beat_bits", 0), ("in_flight", 0), ("base_offset_bits", -8), ("keeps", 1)]
)
def test_values_out_of_range_are_refused_by_name(field: str, value: object) -> None:
    nodes = [{"level": "D"}, {"level": "B", field: value}, {"compute": "M"}]
    with pytest.raises(ArchError, match=field):
        pm.io.arch_from_document({"nodes": nodes})


def test_all_ways_to_score_a_mapping_agree_and_no_latency_falls() -> None:
    sample = pm.sample_mappings(GEMM, ARCH, 20, seed=3)
    mappings = list(sample.mappings)
    costs = [pm.evaluate(GEMM, ARCH, mapping) for mapping in mappings]
    plain = [pm.evaluate(GEMM, ARCH.without_steps(), mapping) for mapping in mappings]
    assert all(one.latency_cycles >= other.latency_cycles for one, other in zip(costs, plain, strict=True))
    assert [one.traffic for one in costs] == [other.traffic for other in plain]
    scores = pm.space.score(GEMM, ARCH, mappings)
    assert np.array_equal(scores.latency_cycles, [cost.latency_cycles for cost in costs])
    for mapping, cost in zip(mappings[:10], costs, strict=False):
        tiles = [node.tile for node in mapping.nodes if isinstance(node, pm.Temporal | pm.Spatial)]
        assert pm.evaluate_many(GEMM, ARCH, mapping, [tiles]).latency_cycles[0] == cost.latency_cycles
        assert pm.simulate(GEMM, ARCH, mapping).latency_cycles == cost.latency_cycles


@pytest.mark.parametrize("objective", ["latency", "edp"])
@pytest.mark.parametrize("tiles", ["divide", "any"])
def test_searches_of_timed_machines_claim_nothing_that_samples_refute(objective: str, tiles: str) -> None:
    found = pm.explore(GEMM, ARCH, objective, tiles=tiles, time_limit_s=1)
    assert found.best is not None
    assert found.value is not None
    assert found.bound is not None
    assert found.bound <= found.value
    for mapping in pm.sample_mappings(GEMM, ARCH, 60, seed=1).mappings:
        cost = pm.evaluate(GEMM, ARCH, mapping)
        if not cost.legal:
            continue
        value = cost.latency_cycles * (1 if objective == "latency" else cost.energy_pj)
        assert value >= found.bound * (1 - 1e-12)
        assert found.status != "OPTIMAL" or value >= found.value * (1 - 1e-12)


def test_limits_of_latency_are_those_in_steps() -> None:
    least = pm.explore(GEMM, ARCH, "latency", tiles="divide", time_limit_s=1)
    assert least.cost is not None
    limits = {"limits": {"latency": least.cost.latency_cycles}}
    found = pm.explore(GEMM, ARCH, "energy", tiles="divide", constraints=limits, time_limit_s=1)
    assert found.cost is None or found.cost.latency_cycles <= least.cost.latency_cycles
    assert pm.explore(GEMM, ARCH, "energy", tiles="divide").status == "OPTIMAL"  # which no step touches


def test_rows_of_axes_that_share_a_dim_are_refused() -> None:
    """Tiles of A[i+j, j] are no products of rows: they were once counted as one row."""
    diagonal = pm.einsum("C[i] += A[i+j,j]", sizes={"i": 7, "j": 2}, bits=8)
    level = pm.MemoryLevel("DRAM", bandwidth_bits_per_cycle=Fraction(8), beat_bits=64, row_requests=True)
    arch = pm.Architecture("rows", (level, pm.MemoryLevel("BUF"), pm.ComputeUnit("MAC")))
    nodes = (pm.Storage("BUF", ("A", "C")), pm.Temporal("i", 1), pm.Temporal("j", 1), pm.Compute("S"))
    with pytest.raises(pm.errors.BudgetError, match="PM472 rows are not counted: .* shares a dim with others"):
        pm.evaluate(diagonal, arch, pm.Mapping(nodes))


@pytest.mark.parametrize("sizes", [(999_983, 524_287, 10**6), (10**9, 720_720, 10**6)], ids=str)
@pytest.mark.parametrize("tiles", ["any", "divide"])
def test_huge_sizes_end_with_their_limit_and_a_bound_and_take_little_memory(sizes: tuple[int, ...], tiles: str) -> None:
    start = time.process_time()
    found = search(pm.matmul(*sizes), "gemmini_like", "latency", tiles, time_limit_s=0.5, clock=time.process_time)
    assert time.process_time() - start < 2
    assert found.status == ("TIMEOUT" if found.best is None else "FEASIBLE")  # None: trees' steps are too many to list
    assert found.bound is not None
    assert found.value is None or found.value >= found.bound
    assert found.bound >= math.prod(sizes) // 256  # the machine's multiply-accumulates in a cycle


def test_steps_of_huge_tiles_are_refused_before_they_are_listed() -> None:
    product = pm.matmul(10**9, 8, 8)
    machine = pm.load_arch("gemmini_like")
    with pytest.raises(pm.errors.BudgetError, match="PM472 .* has more than 400,000 tiles"):
        pm.evaluate(product, machine, program_order(product, machine))


def test_loads_and_stores_take_turns_on_one_bus() -> None:
    """A copy of 16 tiles: each is loaded in 8 cycles, copied in 8, stored in 8. Two slots take 12 cycles a tile, one
    bus takes 16."""
    copied = pm.einsum("B[i] = A[i]", sizes={"i": 128}, bits=8)
    mapping = pm.Mapping((pm.Temporal("i", 8), pm.Storage("BUF", ("A", "B")), pm.Temporal("i", 1), pm.Compute("S")))
    cycles: dict[bool, int] = {}
    for one_bus in (False, True):
        level = pm.MemoryLevel(
            "DRAM",
            read_bandwidth_bits_per_cycle=Fraction(8),
            write_bandwidth_bits_per_cycle=Fraction(8),
            beat_bits=8,
            one_bus=one_bus,
        )
        arch = pm.Architecture("bus", (level, pm.MemoryLevel("BUF", buffering=2), pm.ComputeUnit("MAC")))
        cost = pm.evaluate(copied, arch, mapping)
        cycles[one_bus] = cost.latency_cycles
        assert cost.steps is not None, "a bus of beats is timed by step"
        assert {each.binds for each in cost.steps.classes if each.loop} == {"bus" if one_bus else "slots"}, "what binds"
    assert cycles == {False: 8 + 8 + 15 * 12 + 8, True: 8 + 8 + 15 * 16 + 8}, "first load and work, and the last store"


def test_what_is_not_covered_is_refused_in_words() -> None:
    program = pm.program(["T[i] = 2 * A[i]", "B[i] = T[i//2] + A[i]"], i=4)
    with pytest.raises(OptionError, match="PM485.*T is indexed by a division"):
        pm.explore(program, ARCH, "energy", time_limit_s=1)
    halves = pm.program(["C[i] += A[i//2]"], i=4, bits=8)
    with pytest.raises(BudgetError, match="PM485.*A is indexed by a division"):
        pm.evaluate(halves, ARCH, program_order(halves, ARCH))
    with pytest.raises(OptionError, match=r"PM485.*cut A's elements of 24 bits|PM485.*cut .*24 bits"):
        pm.explore(pm.einsum("C[i] += A[i]", i=4, bits=24), ARCH, "energy", time_limit_s=1)
    with pytest.raises(OptionError, match="PM550.*steps"):
        pm.choose_tiles(GEMM, ARCH, objective="latency")
    with pytest.raises(OptionError, match="PM485"):
        scale_of(GEMM, ARCH, "latency")
    with pytest.raises(OptionError, match="single steps"):
        pm.to_timeloop(GEMM, ARCH)


NESTS = pm.program(["T[m,n] += A[m,k] * B[k,n]", "C[m] += T[m,n] * D[n]"], m=4, n=4, k=4, temporary=["T"], bits=8)


def fused(*names: str, held: tuple[tuple[str, ...], ...], around: tuple[dict[str, object], ...] = ()) -> pm.Mapping:
    """Return the tree of two statements below a loop over m, with these tensors held in the inner level by each."""
    children = [
        [
            {"store": ARCH.levels[1].name, "tensors": list(own)},
            *({"for": dim, "tile": 1} for dim in dims),
            {"compute": name},
        ]
        for name, own, dims in zip(names, held, ("nk", "n"), strict=True)
    ]
    return pm.io.mapping_from_document({"nodes": [{"for": "m", "tile": 1}, *around, {"branch": children}]})


def test_explanations_go_child_by_child() -> None:
    mapping = fused(
        "S0", "S1", held=(("A", "B"), ("D", "C")), around=({"store": ARCH.levels[1].name, "tensors": ["T"]},)
    )
    cost = pm.evaluate(NESTS, ARCH, mapping)
    text = " ".join(cost.explain().split())
    name = ARCH.levels[1].name
    assert [f"Steps of {name} for {below}:" in text for below in ("S0, S1", "S0", "S1")] == [True] * 3
    assert "what runs inside decides" in text
    table = pm.evaluate_many(NESTS, ARCH, mapping, [[1, 1, 1, 1]])
    assert int(table.latency_cycles[0]) == cost.latency_cycles
    with pytest.raises(OptionError, match="PM575.*branches"):
        pm.plot.steps(cost)


def test_programs_are_searched_by_what_they_cost_without_steps() -> None:
    work = pm.program(["T[m,n] += A[m,k] * B[k,n]", "C[m] += T[m,n] * D[n]"], m=2, n=2, k=2, temporary=["T"], bits=8)
    plain = pm.explore(work, ARCH.without_steps(), "energy", tiles="divide", time_limit_s=10)
    found = pm.explore(work, ARCH, "energy", tiles="divide", time_limit_s=10)
    assert (found.status, found.value) == (plain.status, plain.value) == ("OPTIMAL", plain.value), "nothing leaks"
    quick = pm.explore(work, ARCH, "latency", tiles="divide", time_limit_s=0.5)
    assert quick.status == "FEASIBLE"
    assert quick.best is not None
    assert quick.value == pm.evaluate(quick.workload, ARCH, quick.best).latency_cycles
    assert 100 < quick.bound < quick.value
    limit = {"limits": {"latency": int(quick.bound) - 1}}
    found = pm.explore(work, ARCH, "energy", tiles="divide", time_limit_s=0.5, constraints=limit)
    assert found.best is None, "no tree takes less than the bound"


@pytest.mark.parametrize(
    ("held", "around", "reason"),
    [
        ((("A", "T"), ("D", "C")), (), "may be read by no later statement"),
        ((("A", "B"), ("D", "C")), ({"for": "k", "tile": 1},), "S1, which has no such dim"),
    ],
)
def test_trees_that_are_not_counted_are_refused_in_words(
    held: tuple[tuple[str, ...], ...], around: tuple[dict[str, object], ...], reason: str
) -> None:
    work = NESTS
    if "later" in reason:  # half of T is read
        texts = ["T[m,n] += A[m,k] * B[k,n]", "C[m] += T[m,2*n] * D[n]"]
        work = pm.program(texts, sizes={"m": 4, "k": 4, "n": 2}, temporary=["T"], bits=8)
    with pytest.raises(BudgetError, match=f"PM485.*{reason}"):
        pm.evaluate(work, ARCH, fused("S0", "S1", held=held, around=around))


def test_explanations_name_what_binds() -> None:
    outer, inner, *rest = ARCH.without_steps().nodes
    assert isinstance(inner, pm.MemoryLevel)
    slow = replace(ARCH.without_steps(), nodes=(outer, replace(inner, step_cycles=Fraction(10_000)), *rest))
    document = {"nodes": [{"for": "m", "tile": 1}, {"store": inner.name, "tensors": ["A", "B", "C"]}]}
    points = [{"for": dim, "tile": 1} for dim in "nk"]
    mapping = pm.io.mapping_from_document({"nodes": [*document["nodes"], *points, {"compute": "S"}]})
    cost = pm.evaluate(GEMM, slow, mapping)
    text = explain(GEMM, slow, mapping, cost)
    assert "issue binds in 8 of 8 steps" in " ".join(text.split())
    assert "tiles are too small" in text
    assert cost.bottleneck == inner.name


@pytest.mark.parametrize("name", ["timed", "gemmini_like"])
def test_sentences_on_steps_say_the_classes(name: str) -> None:
    arch = ARCH if name == "timed" else pm.load_arch(name)
    for mapping in pm.sample_mappings(GEMM, arch, 4, seed=5).mappings:
        cost = pm.evaluate(GEMM, arch, mapping)
        assert cost.steps is not None, "these machines are timed by step"
        said = re.findall(r"(\w+) binds in ([\d,]+) of ([\d,]+) steps", " ".join(cost.explain().split()))
        told = [(binds, int(own.replace(",", "")), int(every.replace(",", ""))) for binds, own, every in said]
        classes = cost.steps.classes
        expected = {
            (one.binds, sum(each.steps for each in classes if (each.level, each.binds) == (one.level, one.binds)))
            for one in classes
        }
        assert {each[:2] for each in told} == expected, "which resource binds in how many steps"
        assert sum(own for _, own, _ in told) == sum(each.steps for each in classes), "every step is of one class"
        innermost = [each for each in classes if each.level == classes[-1].level]
        if any(each.binds == "work" for each in innermost):
            assert f": {arch.compute.name} decides" in " ".join(cost.explain().split()), "inside of which are the units"


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({}, "beats of A from DRAM"),
        ({"request_latency_cycles": Fraction(50), "in_flight": 2}, "waits for requests of A to DRAM"),
        ({"miss_cycles": Fraction(500)}, "lines of A missed in L2"),
    ],
)
def test_sentences_on_loads_name_the_tensor_and_what_takes_most(changes: dict[str, Fraction], cause: str) -> None:
    """A is loaded anew in each step, 4 times as many elements as of B."""
    outer, inner, *rest = pm.load_arch("flat3").nodes
    cache = pm.MemoryLevel("L2", 512, implicit=True, line_bits=64, ways=1, holds=(), miss_cycles=Fraction(1, 9))
    slow = replace(outer, bandwidth_bits_per_cycle=Fraction(1, 4), beat_bits=8)
    machine = replace(pm.load_arch("flat3"), nodes=(slow, cache, replace(inner, buffering=2), *rest))
    nodes = tuple(
        replace(node, **{key: value for key, value in changes.items() if (key == "miss_cycles") == (node.name == "L2")})
        if isinstance(node, pm.MemoryLevel) and node.name in ("DRAM", "L2")
        else node
        for node in machine.nodes
    )
    machine = replace(machine, nodes=nodes)
    document = [{"for": "m", "tile": 4}, {"for": "k", "tile": 1}, {"store": inner.name, "tensors": ["A", "B", "C"]}]
    points = [{"for": "m", "tile": 1}, {"for": "n", "tile": 1}, {"compute": "S"}]
    mapping = pm.io.mapping_from_document({"nodes": [*document, *points]})
    layer = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=64, n=1, k=8, bits=8)
    cost = pm.evaluate(layer, machine, mapping)
    assert cost.steps is not None
    assert f"most of it {cause}" in " ".join(cost.explain().split())


def test_constants_are_found_again_from_the_cycles_that_they_give() -> None:
    truth = {"start_cycles": 2.0, "DRAM.request_latency_cycles": 0.5, "GLB.step_cycles": 3.0}
    outer, inner, *rest = ARCH.nodes
    assert isinstance(outer, pm.MemoryLevel)
    assert isinstance(inner, pm.MemoryLevel)
    machine = replace(
        ARCH,
        nodes=(
            replace(outer, request_latency_cycles=outer.request_latency_cycles / 2, in_flight=1),
            replace(inner, step_cycles=inner.step_cycles * 3),
            *rest,
        ),
        start_cycles=ARCH.start_cycles * 2,
    )
    begin = replace(ARCH, nodes=(replace(outer, in_flight=1), inner, *rest))
    runs: list[tuple[pm.Workload, pm.Mapping, float]] = []
    for size in (8, 12):
        layer = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=size, n=8, k=8, bits=8)
        layer = replace(layer, name=f"gemm{size}")
        for mapping in pm.sample_mappings(layer, begin, 6, seed=size).mappings:
            cycles = pm.evaluate(layer, machine, mapping).latency_cycles
            runs.append((layer, mapping, cycles))
    fit = pm.study.fit_machine(begin, runs, tuple(truth))
    assert pm.study.fit_machine(begin, runs[:2]).factors  # all constants that the machine states
    assert fit.error < 0.02
    assert fit.left_out_error < 0.05
    assert dict(fit.factors)["GLB.step_cycles"] == pytest.approx(3, rel=0.2)
    assert "gemm12: 6 runs" in str(fit)
    with pytest.raises(OptionError, match=r"PM486.*GLB.step_cycle'"):
        pm.study.fit_machine(begin, runs, ("GLB.step_cycle",))
    with pytest.raises(OptionError, match="PM486"):
        pm.study.fit_machine(begin, (), ("start_cycles",))
    many, none = "PM486 the cycles of row 0 of the table of runs are 'many'", "a run of gemm12 took 0.0 cycles"
    for rows, told in (([3], "PM486"), ([(1, 2)], "PM486"), ([(layer, runs[0][1], "many")], many)):
        with pytest.raises(OptionError, match=told):
            pm.study.fit_machine(begin, rows)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=none):
        pm.study.fit_machine(begin, [(layer, runs[0][1], 0)])
    with pytest.raises(OptionError, match="PM120 constants is 'start_cycles'"):
        pm.study.fit_machine(begin, runs, "start_cycles")
    with pytest.raises(OptionError, match="PM486.*is 0"):
        pm.study.fit_machine(begin, runs, ("RF.step_cycles",))


@pytest.mark.parametrize("seed", range(3))
def test_cycles_are_convex_in_the_constants_and_in_one_over_bandwidths(seed: int) -> None:
    """What `fit_machine` builds on: planes that touch cycles lie below them."""
    rng = random.Random(seed)
    outer, inner, *rest = ARCH.nodes
    assert isinstance(outer, pm.MemoryLevel)
    assert isinstance(inner, pm.MemoryLevel)
    assert isinstance(rest[-1], pm.ComputeUnit)
    unit = rest[-1]

    def machine(shares: list[Fraction]) -> pm.Architecture:
        start, issue, latency, preload, band = shares
        first = replace(outer, request_latency_cycles=5 * latency, bandwidth_bits_per_cycle=32 / band)
        last = replace(unit, preload_cycles=9 * preload)
        nodes = (first, replace(inner, step_cycles=9 * issue), *rest[:-1], last)
        return replace(ARCH, nodes=nodes, start_cycles=100 * start)

    for mapping in pm.sample_mappings(GEMM, ARCH, 4, seed=seed).mappings:
        one, other = ([Fraction(rng.randint(1, 40), 10) for _ in range(5)] for _ in range(2))
        middle = [(a + b) / 2 for a, b in zip(one, other, strict=True)]
        low, high, between = (pm.evaluate(GEMM, machine(at), mapping).latency_cycles for at in (one, other, middle))
        assert between <= (low + high) / 2 + 1, "but for rounding"


def test_ranks_and_least_points() -> None:
    rng = random.Random(0)
    values = [rng.random() for _ in range(20)]
    assert rank_correlation(values, [value**3 for value in values]) == pytest.approx(1)
    assert rank_correlation(values, [-value for value in values]) == pytest.approx(-1)
    assert rank_correlation([1, 2, 2, 4], [1, 3, 2, 4]) == pytest.approx(0.9486833)  # ties at their mean rank
    assert rank_correlation([1, 1, 1], [1, 2, 3]) is None
    found = downhill(lambda at: (at[0] - 1) ** 2 + 3 * (at[1] + 2) ** 2, [0.0, 0.0], 120)
    assert found == pytest.approx([1, -2], abs=1e-2)


def test_the_first_candidate_is_the_answer_of_the_search() -> None:
    layer = pm.einsum("C[m] += A[m,k] * B[k]", m=2, k=1, bits=8)
    found = pm.explore(layer, ARCH, "latency", tiles="divide")
    values = [cost.latency_cycles for _, cost in pm.candidates(layer, ARCH, "latency", limit=4)]
    assert values == sorted(values)
    assert values[0] == found.value == found.top(1)[0][1].latency_cycles
