"""The first layers of a network in several layouts: the fewest bursts, with the mapping that is best for each layout.

    python benchmarks/first_layers.py [--network resnet50] [--layers 6] [--arch flat3] [--burst 64] [--limit SECONDS]

A row per layer and layout of its input and output (weights lie as is best): bursts of the outermost level, their bound,
and beside them those of the mapping with the least traffic, in the same layout.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import polymap as pm
from polymap.explore import search

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.search import cpu_clock


def with_bursts(name: str, burst_bytes: int) -> pm.Architecture:
    """Return a preset whose outermost level moves bursts of so many bytes."""
    arch = pm.load_arch(name)
    outer, *inner = arch.nodes
    assert isinstance(outer, pm.MemoryLevel), "the outermost node"
    return replace(arch, nodes=(replace(outer, burst_bits=8 * burst_bytes), *inner))


def main() -> None:
    """Print a row per layer and layout."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--arch", default="flat3")
    parser.add_argument("--burst", type=int, default=64)
    parser.add_argument("--limit", type=float, default=20.0)
    asked = parser.parse_args()
    arch = with_bursts(asked.arch, asked.burst)
    outer = arch.levels[0].name
    print(f"{'layer':20} {'layout':8} {'status':9} {'bursts':>10} {'bound':>10} {'gap':>6} {'least traffic':>13}")
    for layer in pm.network(asked.network).layers[: asked.layers]:
        plain = search(layer.workload, arch, f"traffic:{outer}", "divide", time_limit_s=asked.limit, clock=cpu_clock())
        for layout in ("NCHW", "NHWC", f"NCHW{asked.burst * 8 // layer.workload.tensor('I').bits}c", "NCHW8c"):
            goal = f"bursts:{outer}/I={layout}/O={layout}/W=any"
            found = search(layer.workload, arch, goal, "divide", time_limit_s=asked.limit, clock=cpu_clock())
            assert plain.best is not None, "every layer has a mapping"
            laid = {"I": layout, "O": layout, "W": "any"}
            beside = pm.layouts.burst_counts(layer.workload, arch, plain.best, laid).bursts
            gap = 1.0 if found.gap is None else float(found.gap)
            value = f"{found.value:10,.0f}" if found.value is not None else f"{'none':>10}"
            row = f"{layer.name:20} {layout:8} {found.status:9} {value} {found.bound:10,.0f} {gap:6.1%} {beside:13,}"
            print(row, flush=True)


if __name__ == "__main__":
    main()
