"""Bounds of latencies in steps by boxes of storage nodes against all trees, each counted step by step."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from math import inf

import pytest

from polymap.costmodel import evaluate
from polymap.ir import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.search.enumeration import StepBoxes, held_apart, tree_of_boxes
from tests.referee.all_trees import all_trees
from tests.referee.test_timed_search import small_layer


def loading_machine(rng: random.Random) -> Architecture:
    """Return a machine that holds A and B in one level, whose tiles are loaded in every step, and C in another one."""
    rates = [None, *map(Fraction, (1, 2, 8))]
    dram = MemoryLevel(
        "DRAM",
        bandwidth_bits_per_cycle=Fraction(rng.choice([1, 4, 8, 24])),
        write_bandwidth_bits_per_cycle=rng.choice(rates),
        beat_bits=rng.choice([None, 8, 16, 32]),
        row_requests=rng.random() < 0.5,
        request_latency_cycles=Fraction(rng.choice([0, 3])),
        in_flight=rng.choice([None, 1]),
        one_bus=rng.random() < 0.7,
    )
    if rng.random() < 0.5:
        commands = {"command_bits": 8 * rng.choice([2, 3, 4]), "write_command_bits": 8 * rng.choice([1, 2, 4])}
        beats = {"beat_bits": 16, "request_bits": rng.choice([32, 64]), "base_offset_bits": rng.choice([0, 8])}
        dram = replace(dram, **commands, **beats)
    sums = MemoryLevel("Sums", capacity_bits=8 * rng.choice([2, 4, 9]), holds=("C",), must_hold=("C",), buffering=2)
    reads = MemoryLevel(
        "Buf",
        capacity_bits=8 * rng.choice([6, 12, 40]),
        step_cycles=Fraction(rng.choice([0, 5, 30])),
        buffering=rng.choice([1, 2]),
        keeps=False,
        holds=("A", "B"),
        must_hold=("A", "B"),
    )
    fanouts = [Fanout(name, rng.choice([2, 4])) for name in "XY" if rng.random() < 0.4]
    own = rng.choice("AB")
    register = MemoryLevel("Reg", capacity_bits=8 * rng.choice([1, 2]), holds=(own,), must_hold=(own,))
    outside = [sums, reads] if rng.random() < 0.6 else [reads, sums]
    levels = [dram, *outside, *fanouts, *([register] if rng.random() < 0.6 else [])]
    least, fill, preload = (Fraction(rng.choice([0, 4])) for _ in range(3))
    unit = ComputeUnit("MAC", pass_least_cycles=least, fill_cycles=fill, preload_cycles=preload)
    return Architecture("small", (*levels, unit), start_cycles=Fraction(rng.choice([0, 7])))


def bounded(seeds: Iterable[int], *, most_trees: int = 300) -> Counter[str]:
    """Hold the bounds by boxes to the least latency of all trees; return how many there were, and how many bounds, and
    trees made of boxes, are that one."""
    met: Counter[str] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        workload = small_layer(rng)
        arch = loading_machine(rng)
        held = held_apart(workload, arch)
        assert held is not None, seed
        trees = all_trees(workload, arch, "divide", legal=True)
        if not arch.is_timed_by_step or len(trees) > most_trees:
            continue
        costs = [cost for tree in sorted(trees, key=repr) if (cost := evaluate(workload, arch, tree)).legal]
        boxes = StepBoxes(workload, arch, held)
        bound, found = boxes.found(inf, lambda: False, most_pairs=10**6, per_pair=100)
        least = min((cost.latency_cycles for cost in costs), default=inf)
        assert bound <= least * (1 + 1e-9), seed
        made = [cost for one in found if (cost := evaluate(workload, arch, tree_of_boxes(boxes, one))).legal]
        assert all(cost.latency_cycles >= least for cost in made), seed
        met["bounded"] += 1
        met["exactly"] += least - 1 < bound
        met["found"] += min((cost.latency_cycles for cost in made), default=inf) == least
    return met


def test_no_bound_by_boxes_is_above_the_best_of_all_trees() -> None:
    met = bounded(range(12))
    assert met["bounded"] > 5
    assert met["exactly"] > 2
    assert met["found"] > 2


@pytest.mark.soak
def test_no_bound_by_boxes_is_above_the_best_of_all_trees_of_more_problems() -> None:
    met = bounded(range(12, 600), most_trees=1000)
    assert met["bounded"] > 300
