"""What each mechanism of the search over dividing tiles is worth: it is switched off alone, over unlike questions.

    python benchmarks/without.py [QUESTION ...] [--without MECHANISM ...] [--seconds S] [--table FILE.json]

A row per mechanism: over how many questions the status, the value or the gap got worse or better without it, CPU
seconds of all together against those with everything, and the questions where it shows. QUESTION and MECHANISM: the
beginning of a name; where no question is named, a sample that takes seven CPU minutes ("": all). Every run is in a
process of its own. What correctness rests on is not switched off.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polymap as pm
import polymap.search.dividing as dividing
import polymap.search.dividing.bounds as bounds
import polymap.search.dividing.branch_and_bound as branching
import polymap.search.dividing.engine as engine
import polymap.search.dividing.groups as groups
import polymap.search.dividing.lagrange as lagrange
import polymap.search.dividing.product_search as products
import polymap.search.dividing.steps as steps
import polymap.search.provers as provers
from benchmarks import wired_layers
from benchmarks.search import Case, built, cpu_clock, gemm
from polymap.explore import search

NEVER = 1 << 60
SAMPLE = (
    "conv2_x eyeriss",
    "conv4_x flat3",
    "conv4_x cluster4",
    "conv3_first tpu",
    "ffn simba",
    "conv4_x simba edp",
    "conv5_x npu16",
    "conv4_x wired simba",
)


def wired(name: str) -> dict[str, Any]:
    """Return the document of a machine with wires."""
    return dict(pm.io.arch_to_document(wired_layers.machine(name)))


def questions() -> dict[str, Case]:
    """Return the questions: presets, machines with wires, unlike objectives, products and windows."""
    small = gemm(512, 256, 32)
    every = [
        Case("conv2_x eyeriss", "resnet50.conv2_x", "eyeriss_like"),
        Case("conv3_x simba", "resnet50.conv3_x", "simba_like"),
        Case("conv4_x flat3", "resnet50.conv4_x", "flat3"),
        Case("conv3_first tpu", "resnet50.conv3_first", "tpu_like"),
        Case("conv1 gemmini", "resnet50.conv1", "gemmini_like"),
        Case("conv4_x cluster4", "resnet50.conv4_x", "cluster4"),
        Case("conv2 alexnet cluster4", "alexnet.conv2", "cluster4"),
        Case("depthwise eyeriss", "mobilenet_v2.block3_depthwise", "eyeriss_like"),
        Case("ffn simba", "bert_base.ffn_up", "simba_like"),
        Case("gemm 4096 flat3 keep", gemm(4096, 4096, 4096), "flat3", keep=True),
        Case("gemm flat3 edp keep", small, "flat3", "edp", keep=True),
        Case("gemm cluster4 edp keep", small, "cluster4", "edp", keep=True),
        Case("conv5_x eyeriss latency", "resnet50.conv5_x", "eyeriss_like", "latency"),
        Case("conv4_x simba latency", "resnet50.conv4_x", "simba_like", "latency"),
        Case("conv4_x eyeriss edp", "resnet50.conv4_x", "eyeriss_like", "edp"),
        Case("conv5_x flat3 edp", "resnet50.conv5_x", "flat3", "edp"),
        Case("conv4_x simba edp", "resnet50.conv4_x", "simba_like", "edp"),
        Case("gemm flat3 front", small, "flat3", "pareto:energy,latency"),
        Case("conv5_x flat3 traffic", "resnet50.conv5_x", "flat3", "traffic:GLB"),
        Case("conv4_reduce npu16", "resnet50.conv4_reduce", wired("npu16")),
        Case("conv5_x npu16", "resnet50.conv5_x", wired("npu16")),
        Case("gemm npu16", gemm(512, 512, 512), wired("npu16")),
        Case("conv3_x wired eyeriss", "resnet50.conv3_x", wired("eyeriss_like")),
        Case("conv4_x wired simba", "resnet50.conv4_x", wired("simba_like")),
        Case("conv3_x wired flat3", "resnet50.conv3_x", wired("flat3")),
    ]
    return {case.name: case for case in every}


def tuned(**changes: Any) -> Callable[[], None]:
    """Return what changes thresholds wherever they are read."""

    def switch() -> None:
        other = replace(engine.TUNING, **changes)
        patched(other, "TUNING", engine, steps, lagrange, groups, bounds)()

    return switch


def patched(value: Any, name: str, *owners: Any) -> Callable[[], None]:
    """Return what puts a value in the place of a name of some modules or classes."""

    def switch() -> None:
        for owner in owners:
            assert hasattr(owner, name), f"{owner} has no {name}"
            setattr(owner, name, value)

    return switch


def _every_state(tables: Any, *_: Any) -> frozenset[Any]:
    return frozenset(state for layer in bounds.graph_of(tables).layers for state in layer)


def _anew(problem: Any, measure: Any, members: Any, incumbent: Any, only: Any, kept: Any = groups.open_tables) -> Any:
    incumbent.tables = None
    return kept(problem, measure, members, incumbent, only)


def _no_start(tables: Any, usable: Any, _start: Any, unit: int, kept: Any = lagrange._first_wanted) -> Any:
    return kept(tables, usable, bounds.FREE, unit)


def _zeros(_problem: Any, _measure: Any, some: Any, _caches: Any) -> list[int]:
    return [0] * len(some)


def _no_orders(plans: Any, plan: int, some: Any) -> Any:
    return products.np.zeros((len(plans.orders(plan)), len(some)))


def mechanisms() -> dict[str, Callable[[], None]]:
    """Return what switches each mechanism off."""
    search_class, plans = branching.StructureSearch, products._Plans
    priced = partial(lagrange.improve_multipliers, rounds=0)
    return {
        "single-tensor bounds": patched(_zeros, "single_tensor_bounds", engine),
        "groups": patched(lambda *_: (), "groups_of", engine),
        "groups side by side": patched(lambda *_: None, "_bound_beside", engine),
        "groups searched at once": patched(lambda *_: False, "is_searched_at_once", steps, engine, groups),
        "members alone": patched(lambda tables, _: [0] * (1 + len(tables.others)), "member_bounds", steps),
        "room": patched(lambda *_: 0, "_room_bound", steps),
        "states of groups": patched(_every_state, "_winning_states", groups),
        "states of searches": patched(lambda _, own: own, "_of_winning_states", steps),
        "marks": patched(lambda _: None, "nodes_before_marks", steps),
        "places decided": tuned(decided_places=0),
        "others first when raised": tuned(least_raise=1),
        "slices": tuned(nodes_at_once=NEVER),
        "probes of the best": tuned(first_probe=NEVER),
        "probes near": patched(lambda *_: [], "groups_near", engine),
        "promising first": patched(lambda *_: (), "_promising_structures", engine),
        "drawn first": tuned(drawn=0),
        "local search": patched(lambda _: None, "_dividing_polish", provers),
        "multipliers": patched(priced, "improve_multipliers", steps, engine),
        "multipliers of the last": patched(_no_start, "_first_wanted", lagrange),
        "multipliers idle end": tuned(idle_rounds=NEVER),
        "estimates in branches": patched(lambda *_: True, "_estimate_wins", search_class),
        "chains scored": patched(lambda *_: None, "_score_once", lagrange),
        "dominance": patched(lambda *_: False, "_is_dominated", search_class),
        "canonical nodes": patched(lambda *_: True, "_is_canonical", search_class),
        "chains bounded": patched(lambda _t, _c, fixed: fixed, "least_completed", branching),
        "chains cross": patched(lambda *_: True, "may_cross", branching),
        "kept below": patched(lambda *_: ({}, {}), "_kept_below", bounds),
        "tables kept": patched(_anew, "open_tables", groups, steps),
        "symmetry": patched(lambda _, own: own, "distinct_structures", engine),
        "structures by windows": patched(lambda _, own: own, "_by_window_factors", engine),
        "product": patched(lambda *_: None, "best_product_tiles", dividing),
        "product: raised": patched(lambda _, bounds, *rest: bounds, "_raise_bounds", products),
        "product: orders": patched(_no_orders, "raised_by_orders", plans),
    }


def answer(asked: Case, seconds: float) -> dict[str, Any]:
    """Return what the search says, and the CPU seconds."""
    begin = time.process_time()
    workload, arch = built(asked)
    found = search(workload, arch, asked.objective, "divide", time_limit_s=seconds, clock=cpu_clock())
    spent = time.process_time() - begin
    values = [float(point.value or 0) for point in found.front] or [float(found.value or 0)]
    gap = 0.0 if found.status == "OPTIMAL" else 1 - float(found.bound or 0) / values[0] if values[0] else 1.0
    return {"status": found.status, "value": sum(values), "gap": gap, "seconds": spent, "work": found.work}


def apart(asked: Case, seconds: float, switch: Callable[[], None]) -> dict[str, Any]:
    """Return the answer of a process of its own, in which a mechanism is switched off."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            switch()
            os.write(writing, json.dumps(answer(asked, seconds)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    assert text, f"{asked.name} fails without it"
    return json.loads(text)


def compared(rows: dict[str, dict[str, Any]], base: dict[str, dict[str, Any]]) -> str:
    """Return the row of a mechanism: what is worse without it, what is better, CPU seconds, and where it shows."""
    notes, worse, better = list[str](), 0, 0
    for name, own in rows.items():
        with_it = base[name]
        ratio = own["seconds"] / with_it["seconds"] if with_it["seconds"] else 1.0
        ranks = [(one["status"] != "OPTIMAL", one["value"], one["gap"]) for one in (own, with_it)]
        is_worse, is_better = ranks[0] > ranks[1], ranks[0] < ranks[1]
        worse, better = worse + is_worse, better + is_better
        if is_worse or is_better:
            change = own["value"] / with_it["value"] - 1 if with_it["value"] else 0
            notes.append(f"{name}: {own['status'][:40]} {own['gap']:.2%} value {change:+.2%} x{ratio:.2f}")
        elif abs(own["seconds"] - with_it["seconds"]) > 0.05 + 0.15 * with_it["seconds"]:
            notes.append(f"{name}: x{ratio:.2f}")
    spent, usual = (sum(one[name]["seconds"] for name in rows) for one in (rows, base))
    return f"{worse:5} {better:6} {spent / usual:8.2f}   {'; '.join(notes)}"


def main() -> None:
    """Print a row per question, then a row per mechanism."""
    parser = argparse.ArgumentParser()
    parser.add_argument("questions", nargs="*", default=SAMPLE)
    parser.add_argument("--without", nargs="*", default=[""])
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--table", type=Path)
    asked = parser.parse_args()
    every, table = questions(), dict[str, dict[str, dict[str, Any]]]()
    chosen = [name for name in every if name.startswith(tuple(asked.questions))]
    base = {name: apart(every[name], asked.seconds, lambda: None) for name in chosen}
    table[""] = base
    for name, own in base.items():
        print(f"{name:26} {own['status']:9} {own['value']:.9g} {own['gap']:7.2%} {own['seconds']:5.2f} s", flush=True)
    print(f"\n{'without':26} worse better CPU s of all")
    for name, switch in mechanisms().items():
        if name.startswith(tuple(asked.without)):
            table[name] = {one: apart(every[one], asked.seconds, switch) for one in chosen}
            print(f"{name:26} {compared(table[name], base)}", flush=True)
            if asked.table:
                asked.table.write_text(json.dumps(table), encoding="utf-8")


if __name__ == "__main__":
    main()
