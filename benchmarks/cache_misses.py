"""Misses of caches that hold what was used last, from a trace, beside the traffic that the model predicts per tier.

    python benchmarks/cache_misses.py [--trees 2]

Random mappings of the native form (benchmarks/predicted.py) of a small product and a small convolution, on a processor
with small caches. The trace walks the loops of a tree and touches what its registers load and store: no line of the
cost model takes part. Each cache is LRU, sees the misses of the one inside of it, and has lines of one element, then of
64 bytes; then also sets of eight lines. Predicted: what the outermost node at a tier or inside of it fills or drains.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping as Dictionary, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

import polymap as pm
from polymap.costmodel import Cost
from polymap.cpu import CpuChoice, facts_of
from polymap.ir import (
    Architecture,
    FanoutKind,
    Mapping,
    MappingNode,
    MemoryLevel,
    Spatial,
    Storage,
    Temporal,
    Workload,
)

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.predicted import pool_of, rho

Touch = tuple[str, int]  # tensor, address in elements
Ranges = dict[str, tuple[int, int]]  # dim -> (first index, size)


@dataclass
class Cache:
    """A cache of so many lines that evicts the line used longest ago; in sets of `ways` lines, or one set of all."""

    lines: int
    line_elements: int = 1
    ways: int | None = None
    misses: Counter[str] = field(default_factory=Counter)
    sets: list[OrderedDict[int, None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sets = [OrderedDict() for _ in range(self.lines // (self.ways or self.lines))]

    def is_hit(self, tensor: str, address: int) -> bool:
        """Touch an element; return whether its line was there."""
        line = address // self.line_elements
        held = self.sets[line % len(self.sets)]
        if line in held:
            held.move_to_end(line)
            return True
        self.misses[tensor] += 1
        held[line] = None
        if len(held) > (self.ways or self.lines):
            held.popitem(last=False)
        return False


def simulated(trace: Iterator[Touch], caches: Sequence[Cache]) -> list[Counter[str]]:
    """Return the misses per tensor of each cache, the innermost first; each sees the misses of the one before."""
    for tensor, address in trace:
        for cache in caches:
            if cache.is_hit(tensor, address):
                break
    return [cache.misses for cache in caches]


@dataclass(frozen=True)
class Walk:
    """The walk through a tree of one statement. addresses: of the elements of a tensor's tile, given the ranges of the
    dims; lanes: indices of the vector dim that one loop iteration below the lanes has for each of its own."""

    workload: Workload
    nodes: tuple[MappingNode, ...]
    registers: str
    lane: str
    lanes: int
    addresses: Dictionary[str, Callable[[Ranges], list[int]]]

    @staticmethod
    def of(workload: Workload, arch: Architecture, mapping: Mapping, packed: str, panel: int) -> Walk:
        """packed: the tensor that lies in panels of so many indices of the vector dim; others lie in rows. Axes of four
        or more have the channels last, of weights the filters, as in NHWC."""
        lane = next(each for each in arch.fanouts if each.kind is FanoutKind.LANE)
        (statement,) = workload.statements
        found: dict[str, Callable[[Ranges], list[int]]] = {}
        start = 0
        for access in (statement.target, *statement.reads):
            axes = [tuple(index.coefficients().items()) for index in access.index]
            if len(axes) == 4:
                axes = (
                    [axes[1], axes[2], axes[3], axes[0]] if access.tensor == packed else [*axes[:1], *axes[2:], axes[1]]
                )
            width = panel if access.tensor == packed else None
            found[access.tensor] = _addresses(axes, workload.extents(), start, width)
            start += 2 * prod(workload.tensor(access.tensor).shape) + 4096
        return Walk(workload, mapping.nodes, arch.levels[-1].name, lane.name, lane.size, found)

    def trace(self) -> Iterator[Touch]:
        """Yield the elements that are loaded into registers or stored from them, in order."""
        held: dict[str, list[int]] = {}
        whole = {dim: (0, extent) for dim, extent in self.workload.extents().items()}
        yield from self._below(0, whole, 1, held)
        output = self.workload.statements[0].target.tensor
        yield from ((output, address) for address in held.get(output, ()))

    def _below(self, at: int, ranges: Ranges, vector: int, held: dict[str, list[int]]) -> Iterator[Touch]:
        node = self.nodes[at]
        if isinstance(node, Spatial) and node.fanout == self.lane:
            yield from self._below(at + 1, ranges, self.lanes, held)
        elif isinstance(node, Temporal | Spatial):
            start, size = ranges[node.dim]
            is_lane_dim = any(
                isinstance(n, Spatial) and n.fanout == self.lane and n.dim == node.dim for n in self.nodes
            )
            tile = node.tile * (vector if is_lane_dim else 1)
            for first in range(start, start + size, tile):
                inner = {**ranges, node.dim: (first, min(tile, start + size - first))}
                yield from self._below(at + 1, inner, vector, held)
        elif isinstance(node, Storage) and node.level == self.registers:
            for tensor in node.tensors:
                yield from self._entered(tensor, ranges, held)
            yield from self._below(at + 1, ranges, vector, held)
        elif at + 1 < len(self.nodes):
            yield from self._below(at + 1, ranges, vector, held)

    def _entered(self, tensor: str, ranges: Ranges, held: dict[str, list[int]]) -> Iterator[Touch]:
        tile, before = self.addresses[tensor](ranges), held.get(tensor, [])
        if tile == before:
            return
        old, new = set(before), set(tile)
        if tensor == self.workload.statements[0].target.tensor:
            yield from ((tensor, address) for address in before if address not in new)
        yield from ((tensor, address) for address in tile if address not in old)
        held[tensor] = tile


def _addresses(
    axes: list[tuple[tuple[str, int], ...]], extents: dict[str, int], start: int, panel: int | None
) -> Callable[[Ranges], list[int]]:
    """Return the addresses of a tile: row by row, or panels of its last axis one after the other."""
    sizes = [1 + sum(factor * (extents[dim] - 1) for dim, factor in axis) for axis in axes]

    def at(point: tuple[int, ...]) -> int:
        if panel is not None:
            point, sizes_now = (point[-1] // panel, *point[:-1], point[-1] % panel), [0, *sizes[:-1], panel]
        else:
            sizes_now = sizes
        address = 0
        for index, size in zip(point, sizes_now, strict=True):
            address = address * size + index
        return start + address

    known: dict[tuple[tuple[int, int], ...], list[int]] = {}
    dims = [dim for axis in axes for dim, _ in axis]

    def tile(ranges: Ranges) -> list[int]:
        key = tuple(ranges[dim] for dim in dims)
        if key not in known:
            known[key] = listed(ranges)
        return known[key]

    def listed(ranges: Ranges) -> list[int]:
        along: list[list[int]] = []
        for axis in axes:
            spans = [[factor * index for index in range(ranges[d][0], sum(ranges[d]))] for d, factor in axis]
            along.append(sorted({sum(parts) for parts in itertools.product(*spans)}))
        return [at(point) for point in itertools.product(*along)]

    return tile


def small_processor(arch: Architecture, bits: Dictionary[str, int]) -> Architecture:
    """Return the processor with caches of other capacities, per level in bits."""
    nodes = tuple(
        replace(node, capacity_bits=bits[node.name]) if isinstance(node, MemoryLevel) and node.name in bits else node
        for node in arch.nodes
    )
    return replace(arch, nodes=nodes)


def crossing(cost: Cost, levels: Sequence[str], registers: str) -> list[dict[str, int]]:
    """Return the elements per tensor that come into each of these levels (innermost first), or past it further in:
    fills of the outermost node there, drains for what is written."""
    rows = {(row.level, row.tensor): row for row in cost.traffic}
    found: list[dict[str, int]] = []
    for at in range(len(levels)):
        inside = [*reversed(levels[: at + 1]), registers]
        into: dict[str, int] = {}
        for tensor in dict.fromkeys(tensor for _, tensor in rows):
            level = next(level for level in inside if (level, tensor) in rows)
            into[tensor] = rows[level, tensor].fills + rows[level, tensor].drains
        found.append(into)
    return found


CASES = {
    "product 32x96x48": lambda: pm.matmul(32, 96, 48, bits=32),
    "3x3 8->32@8": lambda: pm.conv2d(K=32, C=8, H=10, W=10, R=3, S=3, bits=32),
}
KIB = 8 * 1024
SIZES = {"L1": 2 * KIB, "L2": 8 * KIB, "L3": 16 * KIB}
LINE_ELEMENTS = 16


@dataclass(frozen=True, slots=True)
class Compared:
    """One tree: per cache, the innermost first, the elements predicted and the misses, of lines of one element, of 16
    (times 16), and of 16 in sets of eight."""

    predicted: tuple[int, ...]
    words: tuple[int, ...]
    lines: tuple[int, ...]
    in_sets: tuple[int, ...]


def compared(workload: Workload, machine: Architecture, mapping: Mapping, panel: int) -> Compared:
    """Return the misses of one tree, weights in panels. The caches of `machine` are half of those simulated."""
    levels = [each.name for each in machine.levels if each.capacity_bits is not None][:-1][::-1]
    capacities = {each.name: each.capacity_bits or 0 for each in machine.levels}
    sizes = [2 * capacities[name] // 32 for name in levels]
    packed = workload.statements[0].reads[-1].tensor
    walk = Walk.of(workload, machine, mapping, packed, panel)
    touched = list(walk.trace())

    def misses(line: int, ways: int | None) -> tuple[int, ...]:
        caches = [Cache(size // line, line, ways) for size in sizes]
        return tuple(line * sum(each.values()) for each in simulated(iter(touched), caches))

    into = crossing(pm.evaluate(workload, machine, mapping), levels, machine.levels[-1].name)
    predicted = tuple(sum(each.values()) for each in into)
    return Compared(predicted, misses(1, None), misses(LINE_ELEMENTS, None), misses(LINE_ELEMENTS, 8))


def trees_of(workload: Workload, arch: Architecture, count: int, seed: int = 0) -> dict[str, list[CpuChoice]]:
    """Return draws from the native form, and of ten times as many those that move the least energy's worth of data."""
    drawn = pool_of(workload, arch, 10 * count, seed)
    return {"uniform": drawn[:count], "best": sorted(drawn, key=lambda each: each.cost.energy_pj)[:count]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=2)
    given = parser.parse_args()
    for line in report(given.trees):
        print(line, flush=True)


def report(trees: int) -> Iterator[str]:
    """Yield the table: per layer, kind of trees and cache the misses over the predicted elements."""
    arch = small_processor(pm.load_arch("cpu_avx512"), SIZES)
    yield "misses / predicted elements: least, median, largest over the trees; how many are equal; Spearman's rho"
    lanes = facts_of(arch).vector_bits // 32
    for name, layer in CASES.items():
        for kind, listed in trees_of(layer(), arch, trees).items():
            found = [compared(each.rounded, each.arch, each.mapping, each.tile.slots * lanes) for each in listed]
            yield f"{name}, {kind}, {len(found)} trees"
            for at, level in enumerate(SIZES):
                yield from (_line(found, at, level, form) for form in ("words", "lines", "in_sets"))


def _line(found: list[Compared], at: int, level: str, form: str) -> str:
    predicted = [each.predicted[at] for each in found]
    missed = [getattr(each, form)[at] for each in found]
    ratios = sorted(a / b for a, b in zip(missed, predicted, strict=True))
    equal = sum(ratio == 1 for ratio in ratios)
    figures = f"{ratios[0]:7.3f} {ratios[len(ratios) // 2]:7.3f} {ratios[-1]:7.3f}"
    return f"  {level} {form:8} {figures}  equal {equal:3}  rho {rho(predicted, missed):6.3f}"


if __name__ == "__main__":
    main()
