"""What caches keep, and lines that share sets: against walks that share no code."""

import random
from collections import OrderedDict
from dataclasses import replace
from math import prod

import pytest

import polymap as pm
from benchmarks.predicted import pool_of
from polymap.codegen.cpu_caches import as_cached, transfer_cycles
from polymap.codegen.cpu_machine import facts_of
from polymap.codegen.register_tiles import evicted_lines
from polymap.ir import Spatial, Storage, Temporal
from tests.times import few

PROCESSOR = pm.load_arch("cpu_avx512")
FACTS = facts_of(PROCESSOR)


def test_facts_are_those_of_the_description() -> None:
    assert (FACTS.ways, FACTS.way_bytes, FACTS.line_bytes) == (12, 4096, 64)
    assert (FACTS.pipes, FACTS.latency_cycles, FACTS.miss_cycles, FACTS.start_cycles) == (2, 4, 4, 6000)
    assert (FACTS.loads_per_cycle, FACTS.stores_per_cycle, FACTS.refill_cycles) == (2, 1, 1)
    halved = [
        replace(node, read_bandwidth_bits_per_cycle="512 bit", ways=6) if node.name == "L1" else node
        for node in PROCESSOR.nodes
    ]
    other = facts_of(replace(PROCESSOR, nodes=tuple(halved)))
    assert (other.loads_per_cycle, other.ways, other.way_bytes) == (1, 6, 8192)


@pytest.mark.parametrize("seed", few(range(30), 12))
def test_lines_of_a_tile_that_a_second_visit_does_not_find(seed: int) -> None:
    """The tile is walked twice through a cache of sets; what misses the second time had no room in its set."""
    rng = random.Random(seed)
    ways, sets = rng.choice((2, 4, 8)), rng.choice((8, 16, 64))
    facts = replace(FACTS, ways=ways, way_bytes=64 * sets)
    steps = {"m": rng.choice((4, 32, *(64 * each for each in (1, 3, 4, 8, 16, sets)))), "k": 4}
    shape = {"k": rng.randint(1, 4), "m": rng.randint(1, 28)}
    lines = list(dict.fromkeys((m * steps["m"] + 64 * k) // 64 for m in range(shape["m"]) for k in range(shape["k"])))
    held = [OrderedDict[int, None]() for _ in range(sets)]
    misses = 0
    for visit in range(3):
        for line in lines:
            found = held[line % sets]
            misses += visit == 2 and line not in found
            found.pop(line, None)
            found[line] = None
            if len(found) > ways:
                found.popitem(last=False)
    assert evicted_lines(steps, "k", shape, facts) == misses


def test_nothing_is_said_of_rows_whose_places_are_not_known() -> None:
    assert evicted_lines({}, "k", {"k": 2, "m": 28}, FACTS) == 0
    assert evicted_lines({"m": 4096}, "k", {"k": 2, "m": 28}, FACTS) == 56


def test_caches_hold_all_that_a_loop_touches_where_it_fits() -> None:
    """96 x 64 x 80 words of three matrices are 72 KiB: in L2, of which 640 KiB are counted, from the start; in L1, of
    which 24 KiB are, from the loop whose body is small enough on."""
    product = pm.matmul(96, 64, 80, bits=32)
    for choice in pool_of(product, PROCESSOR, 5, seed=4):
        tree = as_cached(choice.rounded, choice.arch, choice.mapping)
        assert [n for n in tree.nodes if isinstance(n, Temporal | Spatial)] == [
            n for n in choice.mapping.nodes if isinstance(n, Temporal | Spatial)
        ]
        caches = [n.level for n in tree.nodes if isinstance(n, Storage) and n.level != "REG"]
        assert caches == ["DRAM", "L3", "L2", "L1"]
        assert [type(n) for n in tree.nodes[:3]] == [Storage] * 3
        cost = pm.evaluate(choice.rounded, choice.arch, tree)
        assert cost.legal
        size = {tensor.name: prod(tensor.shape) for tensor in choice.rounded.tensors}
        for row in cost.traffic:
            # Each word leaves or reaches DRAM once, and is written to L3 and read from there.
            if row.level in ("DRAM", "L3"):
                assert row.reads + row.writes == size[row.tensor] * (1 if row.level == "DRAM" else 2)
        beside, waited = transfer_cycles(choice.rounded, PROCESSOR, choice.arch, choice.mapping, 1)
        words = sum(size.values())
        assert beside >= words * 32 / 64
        second = sum(row.reads + row.writes for row in cost.traffic if row.level == "L2")
        bandwidth = next(each for each in choice.arch.levels if each.name == "L2").bandwidth_bits_per_cycle
        assert bandwidth is not None
        # A quarter of a core's share of L3, half of what its own second cache moves.
        assert waited == 2 * words * 32 / 256 / 4 + second * 32 / float(bandwidth) / 2
