"""Searches on machines whose steps take cycles against all trees, each counted step by step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from polymap.costmodel import bounding_machine, evaluate, step_bounds
from polymap.costmodel.contiguous import Commands, Ints
from polymap.explore import explore, search
from polymap.inputs import load_arch
from polymap.ir import (
    Architecture,
    Compute,
    ComputeUnit,
    Fanout,
    Mapping,
    MemoryLevel,
    Spatial,
    Storage,
    Temporal,
    Workload,
)
from polymap.search import SearchResult, provers, relatives
from polymap.search.problem.scores import bounding_question
from polymap.workload import einsum
from tests.referee.all_trees import all_trees

OBJECTIVES = ("latency", "edp", "ed2p", "weighted:3*latency+0.5*energy")


def small_layer(rng: random.Random) -> Workload:
    text = rng.choice(["C[m] += A[m,k] * B[k]", "C[m] += A[k,m] * B[k]", "C[m] += A[2*m+k] * B[k]"])
    sizes = {dim: rng.choice([2, 3, 4]) for dim in "mk"}
    return einsum(text, sizes=sizes, bits=8)


def small_machine(rng: random.Random, workload: Workload) -> Architecture:
    dram = MemoryLevel(
        "DRAM",
        read_pj=Fraction(9),
        write_pj=Fraction(10),
        bandwidth_bits_per_cycle=Fraction(rng.choice([1, 4, 8, 24])),
        beat_bits=rng.choice([None, 8, 32, 64]),
        request_bits=rng.choice([None, 64]),
        request_latency_cycles=Fraction(rng.choice([0, 3, 20])),
        in_flight=rng.choice([None, 1, 2]),
    )
    names = [tensor.name for tensor in workload.tensors]
    read = [tensor.name for tensor in workload.tensors if tensor.role.value == "input"]
    must = tuple(name for name in names if rng.random() < 0.6)
    buffer = MemoryLevel(
        "Buf",
        capacity_bits=8 * rng.choice([6, 12, 40]),
        read_pj=Fraction(1),
        write_pj=Fraction(2),
        step_cycles=Fraction(rng.choice([0, 5, 30])),
        buffering=rng.choice([1, 2]),
        keeps=rng.random() < 0.7,
        must_hold=must,
    )
    fanouts = [Fanout("X", rng.choice([2, 4]))] if rng.random() < 0.5 else []
    register = MemoryLevel("Reg", capacity_bits=8 * rng.choice([1, 2]), holds=(read[-1],), must_hold=(read[-1],))
    levels = [dram, buffer, *fanouts, *([register] if rng.random() < 0.6 else [])]
    least, fill, preload = (Fraction(rng.choice([0, 4])) for _ in range(3))
    unit = ComputeUnit("MAC", pass_least_cycles=least, fill_cycles=fill, preload_cycles=preload)
    return Architecture("small", (*levels, unit), start_cycles=Fraction(rng.choice([0, 7])))


def with_sums_apart(rng: random.Random, arch: Architecture, workload: Workload) -> Architecture:
    """Return the machine with a level for what is written, outside of its buffer for what is read."""
    read, written = (
        tuple(tensor.name for tensor in workload.tensors if (tensor.role.value == "input") == is_read)
        for is_read in (True, False)
    )
    outer, buffer, *inner = arch.nodes
    assert isinstance(buffer, MemoryLevel), "the level inside of the outermost"
    sums = MemoryLevel(
        "Sums", capacity_bits=8 * rng.choice([2, 4, 9]), buffering=rng.choice([1, 2]), holds=written, must_hold=written
    )
    own = replace(buffer, holds=read, must_hold=tuple(name for name in buffer.must_hold if name in read))
    return replace(arch, nodes=(outer, sums, own, *inner))


def with_commands(rng: random.Random, arch: Architecture) -> Architecture:
    """Return the machine whose outermost level loads and stores rows by commands that begin anywhere in a beat."""
    outer, *inner = arch.nodes
    assert isinstance(outer, MemoryLevel), "the outermost level"
    commands = {"command_bits": 8 * rng.choice([2, 3, 4]), "write_command_bits": 8 * rng.choice([1, 2, 4])}
    beats = {"beat_bits": 16, "request_bits": rng.choice([32, 64]), "base_offset_bits": rng.choice([0, 8])}
    bus = replace(outer, one_bus=rng.random() < 0.5, **commands, **beats)
    held = [
        replace(node, must_hold=node.holds, capacity_bits=None)
        if isinstance(node, MemoryLevel) and node.name != "Reg" and node.holds
        else node
        for node in inner
    ]
    return replace(arch, nodes=(bus, *held))


def bounded_by_waits(seeds: Iterable[int], *, commands: bool = False) -> Counter[str]:
    """Hold the bounds of searches that may not walk the trees to the least latency of all trees that divide; return how
    many there were, and how many bounds are that latency. commands: on machines that load and store by these."""
    met: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        workload = small_layer(rng)
        arch = with_sums_apart(rng, small_machine(rng, workload), workload)
        arch = with_commands(rng, arch) if commands else arch
        trees = all_trees(workload, arch, "divide", legal=True)
        if not arch.is_timed_by_step or len(trees) > 150:
            continue
        costs = [cost for tree in sorted(trees, key=repr) if (cost := evaluate(workload, arch, tree)).legal]
        found = explore(workload, arch, "latency", tiles="divide", work_limit=12, time_limit_s=60)
        if not costs:
            assert found.best is None, seed
            continue
        least = min(cost.latency_cycles for cost in costs)
        assert found.bound is not None, seed
        assert found.bound <= least, seed
        assert found.value is None or found.value >= least, seed
        met["bounded"] += 1
        met["exactly"] += found.bound == least
    return met


def compared(seeds: range) -> Counter[str]:
    """Compare answers with the least value over all trees that divide; return how many there were of each status, and
    how many that are not proven have the least value all the same."""
    met: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        workload = small_layer(rng)
        arch = small_machine(rng, workload)
        trees = all_trees(workload, arch, "divide", legal=True)
        if not arch.is_timed_by_step or len(trees) > 700:
            continue
        costs = [cost for tree in sorted(trees, key=repr) if (cost := evaluate(workload, arch, tree)).legal]
        objective = rng.choice(OBJECTIVES)
        found = explore(workload, arch, objective, tiles="divide", work_limit=600, time_limit_s=60)
        if not costs:
            assert found.best is None, seed
            continue
        latencies = [(Fraction(cost.latency_cycles), cost.energy_pj_exact) for cost in costs]
        least = min(
            {"latency": time, "edp": time * pj, "ed2p": time**2 * pj}.get(objective, 3 * time + pj / 2)
            for time, pj in latencies
        )
        assert found.value is None or found.value >= float(least) * (1 - 1e-12), seed
        assert found.bound is not None, seed
        assert found.bound <= float(least) * (1 + 1e-12), seed
        if found.status == "OPTIMAL":
            assert found.value == pytest.approx(float(least)), seed
        met[found.status] += 1
        met["least"] += found.value is not None and found.value <= float(least) * (1 + 1e-12)
    return met


def test_no_bound_is_above_the_best_of_all_trees() -> None:
    met = compared(range(5))
    assert met.total() > 5
    assert met["OPTIMAL"] > 1


@pytest.mark.soak
def test_no_bound_is_above_the_best_of_all_trees_of_more_problems() -> None:
    met = compared(range(8, 40))
    assert met["OPTIMAL"] > 10


def no_tree_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provers, "TUNING", replace(provers.TUNING, few_timed_trees=0))


def test_no_bound_by_what_levels_hold_is_above_the_best_of_all_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    no_tree_is_walked(monkeypatch)
    met = bounded_by_waits(range(8))
    assert met["bounded"] > 2
    assert met["exactly"]


def test_no_bound_by_commands_is_above_the_best_of_all_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    no_tree_is_walked(monkeypatch)
    assert bounded_by_waits([0, 2, 7, 10], commands=True)["bounded"] == 4


def test_bounds_by_commands_of_small_tiles_alone_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seeded mistake: an element takes its share of the commands of the smallest tiles, which is not the least."""
    no_tree_is_walked(monkeypatch)
    true = step_bounds.least_commanded

    def of_small_tiles(
        rows: list[tuple[Ints, Ints]], others: list[list[Ints]], commands: Commands, base: int
    ) -> tuple[Fraction, Fraction]:
        return true(rows[:1], others, commands, base)

    monkeypatch.setattr(step_bounds, "least_commanded", of_small_tiles)
    bounding_question.cache_clear()  # of other tests
    with pytest.raises(AssertionError):
        bounded_by_waits([0], commands=True)
    bounding_question.cache_clear()


def test_windows_in_pieces_take_no_less_than_the_bound_by_commands_says() -> None:
    """Two siblings' parts of m are {0, 1} and {4, 5}, ...: rows of A's tiles are longer than those of any tile of m."""
    workload = einsum("C[m,c] += A[c,2*m+k] * B[k]", sizes={"m": 8, "c": 4, "k": 5}, bits=8)
    dram = MemoryLevel("DRAM", bandwidth_bits_per_cycle=Fraction(1), beat_bits=8, command_bits=72)
    dram = replace(dram, in_flight=1, request_latency_cycles=Fraction(2000))
    buffer = MemoryLevel("Buf", holds=("A",), must_hold=("A",), keeps=False)
    register = MemoryLevel("Reg", holds=("B",), must_hold=("B",))
    arch = Architecture("pieces", (dram, buffer, Fanout("X", 4), register, ComputeUnit("MAC")))
    inner = (Temporal("m", 1), Temporal("c", 1), Storage("Buf", ("A",)), Temporal("k", 1), Compute("S"))
    mapping = Mapping((Spatial("m", 2, "X"), Storage("Reg", ("B",)), *inner))
    cost = evaluate(workload, arch, mapping)
    bound = evaluate(workload, bounding_machine(workload, arch, divides=True), mapping)
    assert cost.legal
    assert bound.latency_cycles <= cost.latency_cycles


@pytest.mark.soak
def test_no_bound_by_commands_is_above_the_best_of_more_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    no_tree_is_walked(monkeypatch)
    assert bounded_by_waits(range(11, 200), commands=True)["bounded"] > 40


@pytest.mark.soak
def test_no_bound_by_what_levels_hold_is_above_the_best_of_more_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    no_tree_is_walked(monkeypatch)
    assert bounded_by_waits(range(8, 300))["bounded"] > 60


@pytest.mark.parametrize(("tiles", "seeds"), [("divide", (0, 7, 16, 17)), ("any", (0, 2, 7))])
def test_the_best_mapping_where_work_waits_for_what_is_held_is_that_of_all_trees(
    tiles: str, seeds: tuple[int, ...]
) -> None:
    for seed in seeds:
        rng = random.Random(seed)
        workload = small_layer(rng)
        timed = with_sums_apart(rng, small_machine(rng, workload), workload)
        arch = bounding_machine(workload, timed, by_steps=True, divides=tiles == "divide")
        assert any(level.held_cycles_per_bit for level in arch.levels), seed
        trees = all_trees(workload, arch, tiles, legal=True)
        costs = [cost for tree in sorted(trees, key=repr) if (cost := evaluate(workload, arch, tree)).legal]
        found = explore(workload, arch, "latency", tiles=tiles, time_limit_s=60)
        assert (found.status, found.value) == ("OPTIMAL", min(cost.latency_cycles for cost in costs)), seed


def test_orders_whose_first_part_takes_no_steps_are_answered_beyond_the_lattice() -> None:
    buffer = MemoryLevel("Buf", capacity_bits=100, read_pj=Fraction(1))
    arch = Architecture("timed", (MemoryLevel("DRAM", step_cycles=Fraction(2)), buffer, ComputeUnit("MAC")))
    found = explore(
        einsum("C[m] = A[m]", m=3), arch, "lex:capacity:Buf,latency", constraints={"limits": {"traffic:Buf": 300}}
    )
    assert found.values == (("capacity:Buf", 0), ("latency", 3)), "nothing is stored, and each instance takes a cycle"


def test_mappings_that_hold_less_leave_time_for_local_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """They took nearly all of a short limit, in each nested call anew."""
    now, asked = [0.0], list[float]()
    answer_of = relatives.answer_of

    def noted(*given: Any, **named: Any) -> SearchResult | None:
        now[0] += 4
        asked.append(now[0])
        return answer_of(*given, **named)

    def clock() -> float:
        now[0] += 0.05
        return now[0]

    monkeypatch.setattr(relatives, "answer_of", noted)
    monkeypatch.setattr(relatives, "held_apart", lambda *_: None)  # boxes of nodes would prove the best
    product = einsum("C[m,n] += A[m,k] * B[k,n]", sizes={"m": 32, "n": 32, "k": 32}, bits=8)
    found = search(product, load_arch("gemmini_like"), "latency", "divide", time_limit_s=100, clock=clock)
    assert found.best is not None
    assert asked[-1] < 80
