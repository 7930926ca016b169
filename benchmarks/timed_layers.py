"""Layers on a machine whose steps take cycles (docs/latency.md): how near to its bound a search of the latency ends.

    python benchmarks/timed_layers.py [--network resnet50] [--arch gemmini_like] [--tiles divide] [--limit SECONDS]
                                      [--layers NAME ...]

A row per layer: status, cycles, bound, the gap between them, and the CPU seconds that it took. Channels lie
last, as accelerators have them: pixels are runs of all channels, and weights of all outputs.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import process_time

import polymap as pm
from polymap.explore import search

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.search import cpu_clock

AXES = {"O": (0, 2, 3, 1), "I": (0, 2, 3, 1), "W": (2, 3, 1, 0)}  # of convolutions, with channels last


def channels_last(layer: pm.Workload) -> pm.Workload:
    """Return a convolution with channels last; any other layer as it is."""
    (statement,) = layer.statements
    if {tensor.name for tensor in layer.tensors} != set(AXES):
        return layer
    reads, target = (
        [replace(one, index=tuple(one.index[axis] for axis in AXES[one.tensor])) for one in accesses]
        for accesses in (statement.reads, (statement.target,))
    )
    tensors = tuple(
        replace(
            one, **{name: tuple(getattr(one, name)[axis] for axis in AXES[one.name]) for name in ("shape", "origin")}
        )
        for one in layer.tensors
    )
    return replace(layer, tensors=tensors, statements=(replace(statement, reads=tuple(reads), target=target[0]),))


def main() -> None:
    """Print a row per layer, and how many are near their bounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--arch", default="gemmini_like")
    parser.add_argument("--tiles", default="divide", choices=("divide", "any"))
    parser.add_argument("--limit", type=float, default=20.0)
    parser.add_argument("--layers", nargs="+")
    asked = parser.parse_args()
    gaps: list[float] = []
    print(f"{'layer':32} {'status':9} {'cycles':>12} {'bound':>12} {'gap':>7} {'CPU s':>6}")
    for layer in pm.network(asked.network).layers:
        if asked.layers and layer.name.rpartition(".")[2] not in asked.layers:
            continue
        workload = channels_last(layer.workload)
        begun = process_time()
        found = search(workload, asked.arch, "latency", asked.tiles, time_limit_s=asked.limit, clock=cpu_clock())
        gap = 1.0 if found.gap is None else float(found.gap)
        gaps.append(gap)
        cycles = f"{found.value:12,.0f}" if found.value is not None else f"{'none':>12}"
        row = f"{layer.name:32} {found.status:9} {cycles} {found.bound:12,.0f} {gap:7.2%} {process_time() - begun:6.1f}"
        print(row, flush=True)
    near = [sum(gap <= most for gap in gaps) for most in (0, 0.01, 0.03)]
    print(
        f"of {len(gaps)} layers {near[0]} proven, {near[1]} within 1 %, {near[2]} within 3 %; median {median(gaps):.1%}"
    )


if __name__ == "__main__":
    main()
