"""Misses of caches that hold what was used last, from a trace, beside the traffic that the model predicts per tier.

    python benchmarks/cache_misses.py [--trees 20]

Random mappings of the native form (benchmarks/predicted.py) of a small product and a small convolution, on a processor
with small caches: what `pm.layouts.cache_misses` finds in a walk of all accesses, by what the mapping brings into
each cache.
Caches are twice as large as what a mapping may hold there; any line may stand anywhere, lines are of one element, then
of 64 bytes; then also in sets of eight lines. Activations lie as in NHWC.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping as Dictionary
from dataclasses import dataclass, replace
from pathlib import Path

import polymap as pm
from polymap.codegen.cpu_mapping import CpuChoice
from polymap.ir import Architecture, MemoryLevel, Workload

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.predicted import pool_of, rho

CASES = {
    "product 32x96x48": lambda: pm.matmul(32, 96, 48, bits=32),
    "3x3 8->32@8": lambda: pm.conv2d(K=32, C=8, H=10, W=10, R=3, S=3, bits=32),
}
KIB = 8 * 1024
SIZES = {"L1": 2 * KIB, "L2": 8 * KIB, "L3": 16 * KIB}
FORMS = {"words": (32, None), "lines": (512, None), "in sets": (512, 8)}


def small_processor(arch: Architecture, bits: Dictionary[str, int]) -> Architecture:
    """Return the processor with caches of other capacities, per level in bits."""
    nodes = tuple(
        replace(node, capacity_bits=bits[node.name]) if isinstance(node, MemoryLevel) and node.name in bits else node
        for node in arch.nodes
    )
    return replace(arch, nodes=nodes)


@dataclass(frozen=True, slots=True)
class Compared:
    """One tree at one cache: elements that the mapping brings in there, and per form those of the lines fetched."""

    held: int
    fetched: dict[str, float]


def compared(choice: CpuChoice) -> dict[str, Compared]:
    """Return the misses of one tree per cache. The caches of a choice's machine are half of those of its processor."""
    layouts = {t.name: "NHWC" for t in choice.rounded.tensors if len(t.shape) == 4}
    held, fetched = dict[str, int](), {level: dict[str, float]() for level in SIZES}
    for form, (line_bits, ways) in FORMS.items():
        machine = replace(
            choice.arch,
            nodes=tuple(
                replace(node, capacity_bits=2 * (node.capacity_bits or 0), line_bits=line_bits, ways=ways)
                if isinstance(node, MemoryLevel) and node.implicit
                else node
                for node in choice.arch.nodes
            ),
        )
        misses = pm.layouts.cache_misses(choice.rounded, machine, choice.mapping, layouts)
        for level in SIZES:
            rows = [row for row in misses.rows if row.level == level]
            held[level] = sum(row.held_elements for row in rows)
            fetched[level][form] = float(sum(row.missed_elements for row in rows))
    return {level: Compared(held[level], fetched[level]) for level in SIZES}


def trees_of(workload: Workload, arch: Architecture, count: int, seed: int = 0) -> dict[str, list[CpuChoice]]:
    """Return draws from the native form, and of ten times as many those that move the least energy's worth of data."""
    drawn = pool_of(workload, arch, 10 * count, seed)
    return {"uniform": drawn[:count], "best": sorted(drawn, key=lambda each: each.cost.energy_pj)[:count]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=20)
    given = parser.parse_args()
    for line in report(given.trees):
        print(line, flush=True)


def report(trees: int) -> Iterator[str]:
    """Yield the table: per layer, kind of trees and cache elements fetched over those that the mapping brings in."""
    arch = small_processor(pm.load_arch("cpu_avx512"), SIZES)
    yield "fetched / held elements: least, median, largest over the trees; how many are equal; Spearman's rho"
    for name, layer in CASES.items():
        for kind, listed in trees_of(layer(), arch, trees).items():
            found = [compared(each) for each in listed]
            yield f"{name}, {kind}, {len(found)} trees"
            for level in SIZES:
                yield from (_line([each[level] for each in found], level, form) for form in FORMS)


def _line(found: list[Compared], level: str, form: str) -> str:
    held, fetched = [each.held for each in found], [each.fetched[form] for each in found]
    ratios = sorted(a / b for a, b in zip(fetched, held, strict=True))
    equal = sum(ratio == 1 for ratio in ratios)
    figures = f"{ratios[0]:7.3f} {ratios[len(ratios) // 2]:7.3f} {ratios[-1]:7.3f}"
    return f"  {level} {form:8} {figures}  equal {equal:3}  rho {rho(held, fetched):6.3f}"


if __name__ == "__main__":
    main()
