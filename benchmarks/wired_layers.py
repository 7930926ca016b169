"""Layers on a machine with wires, a weight buffer of its own and a tiny register file: how far the proof gets.

    python benchmarks/wired_layers.py [LAYER ...] [--arch MACHINE ...] [--tiles any] [--seconds S]

A row per layer and machine: status, value, bound, gap, CPU seconds; at the end how many are proven and within 1 %.
LAYER: all of ResNet-50 where none is named. MACHINE: the one below (our own concept, not a product), or a preset, whose
fan-outs then cost energy per hop. What each part of the search is worth: without.py.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import polymap as pm
from benchmarks.search import cpu_clock
from polymap.explore import search

LAYERS = [name for name in pm.io.builtin_names() if name.startswith("resnet50.")]
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


def gap(layer: str, arch: pm.Architecture, tiles: str, seconds: float) -> tuple[float, bool]:
    """Search, print the row, and return the gap and whether it is closed."""
    begin = time.process_time()
    found = search(layer, arch, tiles=tiles, time_limit_s=seconds, clock=cpu_clock())
    spent, value, bound = time.process_time() - begin, float(found.value or 0), float(found.bound or 0)
    left = 1 - bound / value if value else 1.0
    row = f"{arch.name:13} {layer:28} {tiles:6} {found.status:9} {value:.9g} {bound:.9g} {left:7.2%} {spent:6.1f} s"
    print(row, flush=True)
    return left, found.status == "OPTIMAL"


def main() -> None:
    """Print a row per layer and machine, then how many are proven."""
    parser = argparse.ArgumentParser()
    parser.add_argument("layers", nargs="*", default=LAYERS)
    parser.add_argument("--arch", nargs="+", default=[NAME])
    parser.add_argument("--tiles", default="divide", choices=("divide", "any"))
    parser.add_argument("--seconds", type=float, default=20)
    asked = parser.parse_args()
    print(f"energy with wires, {asked.seconds:g} CPU s")
    for arch in map(machine, asked.arch):
        rows = [gap(layer, arch, asked.tiles, asked.seconds) for layer in asked.layers]
        close = sum(left <= 0.01 for left, _ in rows)
        print(f"{arch.name}: {len(rows)} rows, {sum(proven for _, proven in rows)} OPTIMAL, {close} within 1 %")


if __name__ == "__main__":
    main()
