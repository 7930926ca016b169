"""How fast mappings are costed: one by one (`evaluate`, microseconds) and by tables (`evaluate_many`, per second).

CPU time of one core, the best of several rounds. Every table is checked against `evaluate` on a sample of its rows;
tables of other shapes: many_rows.py.
Run: python benchmarks/evaluate.py
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import polymap as pm
from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.ir.mapping import Compute, Mapping, MappingNode, Spatial, Storage, Temporal

ROUNDS = 7


@dataclass(frozen=True)
class Case:
    """A workload, a machine and a tree; the tree's own tiles are those of the one-off evaluation."""

    name: str
    workload: pm.Workload
    arch: pm.Architecture
    tree: Mapping
    target: str


def gemm() -> Case:
    """A product on three levels, two blocks of temporal loops and one of spatial ones."""
    nodes: list[MappingNode] = [
        Temporal("m", 64), Temporal("n", 64), Temporal("k", 16),
        Storage("GLB", ("A", "B", "C")),
        Temporal("n", 16), Temporal("m", 16), Spatial("m", 2, "X"), Spatial("n", 2, "Y"), Temporal("k", 4),
        Storage("RF", ("A", "B", "C")),
        Temporal("m", 1), Temporal("n", 1), Temporal("k", 1), Compute("S"),
    ]  # fmt: skip
    workload = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=512, n=256, k=32, bits=8)
    return Case(
        "GEMM 512x256x32, flat3", workload, pm.load_arch("flat3"), Mapping(tuple(nodes)), "1,000,000 per second"
    )


def convolution(p: int = 7) -> Case:
    """ResNet-50's 3x3 layer on the Eyeriss-like machine: seven loops, windows in both directions of the picture."""
    nodes: list[MappingNode] = [
        Temporal("k", 16), Temporal("p", p), Temporal("q", 28),
        Storage("GLB", ("I", "O")),
        Temporal("c", 4), Temporal("q", 14), Temporal("r", 1), Spatial("s", 1, "Y"), Spatial("k", 4, "Y"),
        Spatial("q", 1, "X"),
        Storage("WRF", ("W",)),
        Temporal("p", 1),
        Storage("PRF", ("O",)),
        Temporal("c", 1),
        Storage("IRF", ("I",)),
        Temporal("k", 1), Temporal("n", 1), Compute("S"),
    ]  # fmt: skip
    layer = pm.conv2d(K=64, C=64, H=56, W=56, R=3, S=3, padding=1, bits=16)
    name = "convolution 3x3, 64x64x56x56, eyeriss_like"
    return Case(name, layer, pm.load_arch("eyeriss_like"), Mapping(tuple(nodes)), "300,000 per second")


def best_seconds(work: Callable[[], object], times: int) -> float:
    """Return the CPU seconds of one call, the best round of `times` calls each."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(times):
            work()
        best = min(best, (time.process_time() - start) / times)
    return best


def random_table(case: Case, rows: int, seed: int = 1, *, partial: bool = False) -> list[list[int]]:
    """Return tiles for the loops of the tree, the last one of each dim 1: dividing, or of any size."""
    rng = random.Random(seed)
    loops = [node for node in case.tree.nodes if isinstance(node, Temporal | Spatial)]
    last = {loop.dim: number for number, loop in enumerate(loops)}
    extents = case.workload.extents()
    divisors = {n: [tile for tile in range(1, n + 1) if n % tile == 0] for n in range(1, max(extents.values()) + 1)}
    table: list[list[int]] = []
    for _ in range(rows):
        ends = dict(extents)
        for number, loop in enumerate(loops):
            enclosing = ends[loop.dim]
            some = range(1, enclosing + 1) if partial else divisors[enclosing]
            ends[loop.dim] = 1 if last[loop.dim] == number else rng.choice(some)
            table.append([]) if number == 0 else None
            table[-1].append(ends[loop.dim])
    return table


def check(case: Case, table: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> None:
    """Hold a sample of rows against `evaluate`."""
    sample = table[:: max(1, len(table) // 20)]
    costs = pm.evaluate_many(case.workload, case.arch, case.tree, sample)
    for number, row in enumerate(sample.tolist()):
        tiles = iter(row)
        nodes = [
            Temporal(node.dim, next(tiles)) if isinstance(node, Temporal)
            else Spatial(node.dim, next(tiles), node.fanout) if isinstance(node, Spatial)
            else node
            for node in case.tree.nodes
        ]  # fmt: skip
        cost = pm.evaluate(case.workload, case.arch, Mapping(tuple(nodes)))
        if (costs.energy_pj[number], costs.latency_cycles[number]) != (cost.energy_pj, cost.latency_cycles):
            sys.exit(f"{case.name}: row {row} differs from evaluate")


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    write = sys.stdout.write
    write(f"{'evaluate, one mapping':62} {'microseconds':>14} {'counting alone':>16}   aim: under 1000\n")
    cases = [gemm(), convolution()]
    ragged = convolution(p=6)
    for name, case in [*((each.name, each) for each in cases), (f"{ragged.name}, partial tiles", ragged)]:
        whole = best_seconds(lambda case=case: pm.evaluate(case.workload, case.arch, case.tree), 50)
        alone = best_seconds(lambda case=case: count_closed_form(case.workload, case.arch, case.tree), 50)
        write(f"{name:62} {whole * 1e6:14.0f} {alone * 1e6:16.0f}\n")
    write(f"\n{'evaluate_many, tables of 200,000 dividing mappings':62} {'per second':>14}\n")
    for case in cases:
        table = np.array(random_table(case, 20_000) * 10, dtype=np.int64)
        check(case, table)
        seconds = best_seconds(
            lambda case=case, table=table: pm.evaluate_many(case.workload, case.arch, case.tree, table), 1
        )
        write(f"{case.name:62} {len(table) / seconds:14,.0f}   aim: {case.target}\n")
    write(f"\n{'evaluate_many, tables of 100,000 mappings, tiles of any size':62} {'per second':>14}\n")
    for case in cases:
        table = np.array(random_table(case, 100_000, partial=True), dtype=np.int64)
        check(case, table)
        seconds = best_seconds(
            lambda case=case, table=table: pm.evaluate_many(case.workload, case.arch, case.tree, table), 1
        )
        write(f"{case.name:62} {len(table) / seconds:14,.0f}   aim: 100,000 per second\n")


if __name__ == "__main__":
    main()
