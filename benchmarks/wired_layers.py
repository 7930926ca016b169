"""Layers on a machine with wires, a weight buffer of its own and a tiny register file: how far the proof gets.

    python benchmarks/wired_layers.py [LAYER ...] [--arch MACHINE] [--seconds S] [--without REMEDY ...]

A row per layer: status, value, bound, gap, CPU seconds, for tiles that divide. MACHINE: the one below (our own concept,
not a product), or a preset, whose fan-outs then cost energy per hop. REMEDY: what the search goes without, to see what
it is worth: groups (each structure is bounded alone), halves (no branches on what a node holds), slices (no search
waits for others), probes.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from typing import Any

import polymap as pm
import polymap.search.dividing.engine as engine
import polymap.search.dividing.splits as splits
from polymap.explore import search

LAYERS = ("conv1", "conv2_x", "conv2_expand", "conv3_first", "conv3_x", "conv4_first", "conv4_x", "conv5_x")
WIDE = {"word_bits": 64, "bandwidth_bits_per_cycle": 512}
NAME = "npu16"
CONCEPT: dict[str, Any] = {
    "name": NAME,
    "nodes": [
        {"level": "DRAM", "word_bits": 64, "read_pj": 400, "write_pj": 400, "bandwidth_bits_per_cycle": 128},
        {"level": "GLB", "capacity_bytes": "256 KiB", "buffering": 2, "read_pj": 12, "write_pj": 14, **WIDE}
        | {"holds": ["@input", "@output"]},
        {"level": "WBUF", "capacity_bytes": "64 KiB", "buffering": 2, "read_pj": 6, "write_pj": 7, **WIDE}
        | {"holds": ["@weight"]},
        {"fanout": "rows", "size": 16, "pj_per_word_hop": 0.2},
        {"fanout": "cols", "size": 16, "pj_per_word_hop": 0.2, "reduce_pj": 0.05},
        {"level": "RF", "capacity_bytes": 64, "word_bits": 8, "read_pj": 0.1, "write_pj": 0.12},
        {"compute": "MAC", "pj": 0.25},
    ],
}
NEVER = 1 << 60


def machine(name: str) -> pm.Architecture:
    """Return the machine of a row."""
    if name == NAME:
        return pm.io.arch_from_document(CONCEPT)
    document: dict[str, Any] = dict(pm.io.arch_to_document(pm.load_arch(name)))
    fanouts = [node for node in document["nodes"] if "fanout" in node]
    for node in fanouts:
        node["pj_per_word_hop"] = 0.2
    fanouts[-1]["reduce_pj"] = 0.05
    return pm.io.arch_from_document(document)


def leave_out(remedies: list[str]) -> None:
    """Make the search go without remedies."""
    if "groups" in remedies:
        engine.groups_of = lambda _problem, _structures: ()
    tuning = engine.TUNING
    changes = {"slices": {"nodes_at_once": NEVER}, "probes": {"first_probe": NEVER}}
    for remedy in remedies:
        tuning = replace(tuning, **changes.get(remedy, {}))
    engine.TUNING = tuning
    if "halves" in remedies:
        splits.TUNING = replace(splits.TUNING, most_halves=1)


def main() -> None:
    """Print a row per layer."""
    parser = argparse.ArgumentParser()
    parser.add_argument("layers", nargs="*", default=[f"resnet50.{name}" for name in LAYERS])
    parser.add_argument("--arch", default=NAME)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--without", nargs="+", default=[], choices=("groups", "halves", "slices", "probes"))
    asked = parser.parse_args()
    arch = machine(asked.arch)
    leave_out(asked.without)
    print(
        f"energy on {arch.name} with wires, tiles that divide, {asked.seconds:g} CPU s, without: {asked.without or '-'}"
    )
    for layer in asked.layers:
        begin = time.process_time()
        found = search(layer, arch, tiles="divide", time_limit_s=asked.seconds, clock=time.process_time)
        spent = time.process_time() - begin
        value, bound = float(found.value or 0), float(found.bound or 0)
        gap = 1 - bound / value if value else 1.0
        print(f"{layer:26} {found.status:9} {value:.9g} {bound:.9g} {gap:7.2%} {spent:6.1f} s", flush=True)


if __name__ == "__main__":
    main()
