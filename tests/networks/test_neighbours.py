"""What a sweep infers from proofs on other machines is what asking each machine answers."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import polymap as pm
from polymap.networks.machine_order import machine_order
from polymap.search.problem import parse_single

LAYERS = [
    pm.matmul(m=4, n=4, k=6, name="product"),
    pm.einsum("O[k,p] += I[c,p+r] * W[k,c,r]", k=4, c=2, p=4, r=3, name="window"),
    pm.einsum("O[n,c] += I[n,c,r] * W[r]", n=4, c=6, r=4, name="depthwise"),
    pm.einsum("O[i] += I[i+j] * W[j]", i=12, j=3, bits={"O": 16, "I": 8, "W": 4}, name="line"),
]
OBJECTIVES = ("energy", "latency", "edp", "traffic:DRAM", "weighted:2*energy+3*latency")


def machine(rng: random.Random) -> pm.Architecture:
    """Return a machine with fields of few values, so that many pairs can be compared; some leak, some fields are
    unlimited, some read and write apart."""

    def mostly(usual: Any, *others: Any) -> Any:
        return rng.choice(others) if rng.random() < 0.15 else usual

    widths: dict[str, Any] = {"bandwidth_bits_per_cycle": mostly(32, 8, None)}
    if rng.random() < 0.1:
        widths = {f"{way}_bandwidth_bits_per_cycle": rng.choice((8, 32)) for way in ("read", "write")}
    buffer: dict[str, Any] = {"level": "GLB", "capacity_bits": rng.choice((128, 256, 512, 1024, None))}
    buffer |= {"read_pj": mostly(3, 6.5), "write_pj": 6, "buffering": mostly(1, 2), **widths}
    buffer["leak_pj_per_cycle"] = mostly(0, 1)
    nodes: list[dict[str, Any]] = [
        {
            "level": "DRAM",
            "read_pj": mostly(200, 100),
            "write_pj": 200,
            "bandwidth_bits_per_cycle": rng.choice((4, 16)),
        },
        buffer,
        {"fanout": "X", "size": rng.choice((1, 2, 4, 6)), "reduction": mostly(True, False)},
        {"level": "RF", "capacity_bits": rng.choice((24, 40, 96)), "read_pj": 1, "write_pj": 1},
        {"compute": "MAC", "pj": 1, "per_cycle": mostly(1, 2)},
    ]
    return pm.io.arch_from_document({"name": "m", "overlap": mostly(True, False), "nodes": nodes})


def rows_not_searched(seed: int, machines: int, layers: list[pm.Workload]) -> int:
    """Compare a sweep with asking each machine; return how many rows the sweep did not search. Answers that the time
    limit ended must not contradict each other."""
    rng = random.Random(seed)
    asked = [machine(rng) for _ in range(machines)]
    objective = OBJECTIVES[seed % len(OBJECTIVES)]
    table = pm.sweep(layers, asked, objective, tiles="divide", time_limit_s=5)
    for index, row in enumerate(table.rows):
        arch, layer = asked[index // len(layers)], layers[index % len(layers)]
        result = pm.explore(layer, arch, objective, tiles="divide", time_limit_s=5)
        if {row.status, result.status} <= {"OPTIMAL", "INFEASIBLE"}:
            assert row.status == result.status, (seed, index, row.how)
            if row.value is not None:
                assert float(row.value) == result.value, (seed, index, row.how)
        elif row.value is not None and result.value is not None:
            assert (row.bound or 0) <= result.value, (seed, index, row.how)
            assert (result.bound or 0) <= row.value, (seed, index, row.how)
    return len(table.rows) - table.asked


@pytest.mark.slow
def test_a_sweep_answers_what_asking_each_machine_does() -> None:
    assert sum(rows_not_searched(seed, 20, LAYERS[:1]) for seed in range(5)) > 5


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 105))
def test_500_machines_with_4_layers_answer_what_asking_each_does(seed: int) -> None:
    assert rows_not_searched(seed, 100, LAYERS) > 50


def test_the_front_of_dismissing_sweeps_has_the_same_points() -> None:
    grid = {"GLB.capacity_bits": [128, 512, 4096], "X.size": [1, 2, 4], "DRAM.bandwidth_bits_per_cycle": [8, 64]}
    machines = {"base": "flat3", "grid": grid}
    whole = pm.sweep([LAYERS[0], LAYERS[2]], machines, ("energy", "latency"), tiles="divide")
    short = pm.sweep([LAYERS[0], LAYERS[2]], machines, ("energy", "latency"), tiles="divide", front_only=True)
    assert {each[1:] for each in short.front()} == {each[1:] for each in whole.front()}
    assert short.asked <= whole.asked
    for one, two in zip(short.rows, whole.rows, strict=True):
        assert one.status in ("DISMISSED", two.status)
        assert one.bound is None or two.value is None or one.bound <= two.value


@pytest.mark.parametrize(
    "told",
    [
        {"row_requests": True},
        {"one_bus": True},
        {"command_bits": 512},
        {"miss_cycles": Fraction(9), "implicit": True, "line_bits": 512},
    ],
)
def test_machines_that_differ_in_what_steps_take_are_not_compared(told: dict[str, Any]) -> None:
    plain = pm.load_arch("gemmini_like")
    outer, buffer, *inner = plain.nodes
    assert isinstance(outer, pm.MemoryLevel), "the outermost node"
    assert isinstance(buffer, pm.MemoryLevel), "the node below"
    changed = (outer, replace(buffer, **told)) if "implicit" in told else (replace(outer, **told), buffer)
    other = replace(plain, nodes=(*changed, *inner))
    order = machine_order([plain, other], parse_single("latency", plain))
    assert order.better(order.class_of[0]).sum() == 1, "only itself"


@pytest.mark.parametrize("objective", ["bursts:DRAM", "requests:DRAM", "weighted:1*bursts:DRAM+1*traffic:DRAM"])
def test_machines_that_move_other_amounts_at_once_are_not_compared(objective: str) -> None:
    outer, *inner = pm.load_arch("flat3").nodes
    assert isinstance(outer, pm.MemoryLevel), "the outermost node"
    told = [replace(outer, burst_bits=bits, request_bits=bits) for bits in (16, 512)]
    machines = [replace(pm.load_arch("flat3"), nodes=(each, *inner)) for each in told]
    order = machine_order(machines, parse_single(objective, machines[0]))
    assert len(order.classes) == 2, "a burst of 512 bits takes the place of 32 of 16"
    assert order.better(order.class_of[0]).sum() == 1, "only itself"


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_mapping_costs_no_more_on_a_better_machine(objective: str) -> None:
    rng = random.Random(objective)
    machines = [machine(rng) for _ in range(80)]
    order = machine_order(machines, parse_single(objective, machines[0]))
    layer, compared = LAYERS[0], 0
    samples = pm.sample_mappings(layer, machines[0], 8, seed=1).mappings
    for index in range(0, 80, 10):
        better = order.better(order.class_of[index])
        for other in range(80):
            if other == index or not better[order.class_of[other]]:
                continue
            for mapping in samples:
                here, there = (pm.evaluate(layer, machines[each], mapping) for each in (index, other))
                assert there.legal >= here.legal
                assert value(objective, there) <= value(objective, here)
                compared += 1
    assert compared


def value(objective: str, cost: pm.Cost) -> Fraction:
    """Return the objective of a cost, in words of its own."""
    energy, latency = cost.energy_pj_exact, Fraction(cost.latency_cycles)
    moved = sum(row.reads + row.writes for row in cost.traffic if row.level == "DRAM") * 8
    return {
        "energy": energy,
        "latency": latency,
        "edp": energy * latency,
        "traffic:DRAM": Fraction(moved),
        "weighted:2*energy+3*latency": 2 * energy + 3 * latency,
    }[objective]
