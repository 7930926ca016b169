"""What a sweep infers from proofs on other machines is what asking each machine answers."""

from __future__ import annotations

import random
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

import pytest

import polymap as pm
from polymap.ir import FanoutKind, Hops, Multicast
from polymap.networks.columns import Provenance, column_of
from polymap.networks.machine_order import machine_order
from polymap.search import result_document
from polymap.search.problem import objective_values, parse_single
from tests.times import few

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
    assert sum(rows_not_searched(seed, 10, LAYERS[:1]) for seed in range(5)) > 2


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 105))
def test_500_machines_with_4_layers_answer_what_asking_each_does(seed: int) -> None:
    assert rows_not_searched(seed, 100, LAYERS) > 50


def test_the_front_of_dismissing_sweeps_has_the_same_points() -> None:
    grid = {"GLB.capacity_bits": [128, 512, 4096], "X.size": [1, 2, 4], "DRAM.bandwidth_bits_per_cycle": [8, 64]}
    machines = {"base": "flat3", "grid": grid}
    whole = pm.sweep([LAYERS[0], LAYERS[2]], machines, ("energy", "latency"), tiles="divide")
    short = pm.sweep([LAYERS[0], LAYERS[2]], machines, ("energy", "latency"), tiles="divide", front_only=True)
    assert {replace(each, machine=None) for each in short.front()} == {
        replace(each, machine=None) for each in whole.front()
    }
    assert short.asked <= whole.asked
    for one, two in zip(short.rows, whole.rows, strict=True):
        assert one.status in ("DISMISSED", two.status)
        assert one.bound is None or two.value is None or one.bound <= two.value


OTHER: dict[str, Any] = {
    "name": "other",
    "source": "a book",
    "nodes": (),
    "overlap": False,
    "start_cycles": 7,
    "capacity_bits": 384,
    "word_bits": 16,
    "read_pj": 7,
    "write_pj": 9,
    "leak_pj_per_cycle": 3,
    "buffering": 3,
    "bandwidth_bits_per_cycle": 5,
    "read_bandwidth_bits_per_cycle": 6,
    "write_bandwidth_bits_per_cycle": 3,
    "holds": ("A", "B"),
    "must_hold": ("A",),
    "burst_bits": 32,
    "banks": 4,
    "bank_bits": 64,
    "ports": 2,
    "implicit": True,
    "line_bits": 32,
    "ways": 1,
    "miss_cycles": 50,
    "write_miss_cycles": 70,
    "step_cycles": 5,
    "beat_bits": 24,
    "request_bits": 16,
    "command_bits": 96,
    "write_command_bits": 48,
    "base_offset_bits": 8,
    "row_requests": True,
    "request_latency_cycles": 9,
    "in_flight": 1,
    "one_bus": True,
    "keeps": False,
    "area_um2": 12,
    "area_um2_per_bit": 3,
    "grains": (),
    "in_turn": False,
    "held_cycles_per_bit": 2,  # the last three: bounds only
    "size": 3,
    "multicast": Multicast.NONE,
    "reduction": False,
    "dims": ("m", "n"),
    "kind": FanoutKind.CORE,
    "pj_per_word": 4,
    "pj_per_word_hop": 2,
    "hops": Hops.MULTICAST,
    "reduce_pj": 6,
    "pj": 8,
    "per_cycle": 2,
    "latency_cycles": 4,
    "pass_least_cycles": 6,
    "fill_cycles": 8,
    "preload_cycles": 5,
}
"""Another value of every field of a machine."""
BOUNDS_ONLY = ("grains", "in_turn", "held_cycles_per_bit")


def with_one_field_changed(arch: pm.Architecture) -> list[pm.Architecture]:
    """Return the machine with each field of each part at another value, those left out that are no machine."""
    found: list[pm.Architecture] = []
    for place, part in enumerate((arch, *arch.nodes)):
        for name in (each.name for each in fields(part) if each.init and each.name not in ("nodes", *BOUNDS_ONLY)):
            if place and name == "name":
                continue
            told = {name: OTHER[name]}
            if name.endswith("_bandwidth_bits_per_cycle"):
                told |= {f"{way}_bandwidth_bits_per_cycle": 4 for way in ("read", "write")} | told
                told |= {"bandwidth_bits_per_cycle": None}
            if place == 1 and name == "capacity_bits":
                continue
            if place == 0:
                found.append(replace(arch, **told))
            else:
                changed = (replace(node, **told) if node is part else node for node in arch.nodes)
                found.append(replace(arch, nodes=tuple(changed)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("timed", "cached"), few([(False, False), (True, True), (True, False)], 2))
def test_no_field_of_a_machine_is_forgotten(timed: bool, cached: bool) -> None:
    steps = {"step_cycles": 2, "request_latency_cycles": 3, "in_flight": 2} if timed else {}
    cache = {"implicit": True, "line_bits": 64, "ways": 4, "miss_cycles": 20} if cached else {}
    nodes: list[dict[str, Any]] = [
        {"level": "DRAM", "read_pj": 200, "write_pj": 200, "burst_bits": 64, "request_bits": 64} | steps,
        {"level": "GLB", "capacity_bits": 512, "read_pj": 3, "write_pj": 6, "bandwidth_bits_per_cycle": 32} | cache,
        {"fanout": "X", "size": 4},
        {"level": "RF", "capacity_bits": 96, "read_pj": 1, "write_pj": 1},
        {"compute": "MAC", "pj": 1},
    ]
    arch = pm.io.arch_from_document({"name": "m", "nodes": [nodes[0] | {"bandwidth_bits_per_cycle": 16}, *nodes[1:]]})
    layer, machines = LAYERS[0], [arch, *with_one_field_changed(arch)]
    samples = pm.sample_mappings(layer, arch, 2, seed=1).mappings
    costs = [[pm.evaluate(layer, each, mapping) for mapping in samples] for each in machines]
    for objective in (*OBJECTIVES, "capacity:GLB", "bursts:DRAM", "requests:DRAM"):
        order = machine_order(machines, parse_single(objective, arch))
        values = [
            [
                objective_values(layer, each, parse_single(objective, each), cost)[0] if cost.legal else None
                for cost in row
            ]
            for each, row in zip(machines, costs, strict=True)
        ]
        for one, dear in enumerate(values):
            better = order.better(order.class_of[one])
            for other in (each for each in range(len(machines)) if better[order.class_of[each]]):
                pairs = [*zip(dear, values[other], strict=True)]
                fits = all(a is None or (b is not None and b <= a) for a, b in pairs)
                if order.class_of[other] == order.class_of[one]:
                    fits = values[other] == dear
                assert fits, f"{objective}: {machines[one].nodes} {machines[other].nodes}"


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


def test_a_proof_over_some_trees_yields_to_what_other_machines_tell() -> None:
    small = pm.load_arch("flat3")
    outer, buffer, *inner = small.nodes
    larger_buffer = replace(buffer, capacity_bits=2 * buffer.capacity_bits)  # type: ignore[union-attr, operator]
    machines = [small, replace(small, nodes=(outer, larger_buffer, *inner))]
    column = column_of(LAYERS[0], 1, "energy", machines)
    best, larger = (pm.explore(LAYERS[0], arch, tiles="divide") for arch in machines)
    drawn = pm.space.sample(LAYERS[0], machines[1], 20, seed=1).mappings
    costs = {tree: cost for tree in drawn if (cost := pm.evaluate(LAYERS[0], machines[1], tree)).legal}
    worse = max(costs, key=lambda tree: costs[tree].energy_pj)
    value = costs[worse].energy_pj
    named = replace(larger, best=worse, cost=costs[worse], value=value, bound=value)
    named = replace(named, space=replace(named.space, name="chains"))
    first, second = column.order.class_of
    column.settle(second, result_document(named), Provenance.SEARCHED)
    assert column.tightened(second).status == "OPTIMAL among chains", "it is all that is known"
    column.settle(first, result_document(replace(best, status="FEASIBLE")), Provenance.SEARCHED)
    told = column.tightened(second)
    assert (told.status, told.value) == ("FEASIBLE", best.cost.energy_pj_exact), "a mapping of the smaller machine"
    assert told.bound is None, "none of all trees is known"
