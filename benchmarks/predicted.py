"""Does the model predict? Measured times of compiled mappings against their predicted cycles; the rank of the chosen.

    python benchmarks/predicted.py [--layers conv gemm] [--uniform 100] [--best 100] [--pool 10000] [--rounds 12]
                                   [--trees 2] [--json FILE]

The space is that of the chooser (docs/howto/native.md): a register tile that fits the registers, and around it a legal
tree of loops and held tensors within the capacities of the caches. A draw is a tile, each as likely as any other, and
a tree in units of the tile, each as likely as any other. Of a pool of draws some are compiled as they come, and some
of the best-predicted 1 %; every program is called in turns, twice, the second call timed in CPU time of the thread, and
the 25th percentile counts. Weights are packed ahead. Spearman's rho is of the order that the chooser uses: predicted
cycles, then energy.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import polymap as pm
from polymap.codegen.native import memory_steps, vector_dims
from polymap.cpu import CpuChoice, choose, facts_of
from polymap.cpu.caches import transfer_cycles
from polymap.cpu.machine import CpuFacts, cpu_machine
from polymap.cpu.tiles import RegisterTile, register_tiles
from polymap.ir import Architecture, Mapping, MappingNode, Spatial, Storage, Temporal, Workload

LAYOUT = "NHWC"
SPARE = 2.6  # trees drawn per tree that fits the caches
LAYERS = ("conv", "gemm")


def layer_of(name: str) -> Workload:
    """Return one of the two layers, float32."""
    if name == "conv":
        return pm.conv2d(K=128, C=128, H=28, W=28, R=3, S=3, padding=1, bits=32, name="3x3 128->128@28")
    return pm.matmul(512, 512, 512, bits=32)


@dataclass(frozen=True, slots=True)
class TileSpace:
    """The trees around one register tile of a processor. units: indices of each dim in one tile, or in a window that
    stays whole; small: the workload in these units, on the caches alone, whose trees are drawn."""

    arch: Architecture
    tile: RegisterTile
    facts: CpuFacts
    rounded: Workload
    machine: Architecture
    units: dict[str, int]
    small: Workload
    caches: Architecture

    @staticmethod
    def of(workload: Workload, arch: Architecture, tile: RegisterTile) -> TileSpace:
        """Return the space of one tile on one thread."""
        facts = facts_of(arch)
        bits = workload.tensor(workload.statements[0].target.tensor).bits
        lanes = facts.vector_bits // bits
        rounded = choose._with_whole_tiles(workload, tile, lanes, 1)
        machine = cpu_machine(rounded, arch, (tile.vector,), 1, bits)
        extents = rounded.extents()
        units = {tile.vector: lanes * tile.slots, **dict(tile.sizes)}
        units |= {dim: extents[dim] for dim in choose._windows(rounded)}
        sizes = {dim: extent // units.get(dim, 1) for dim, extent in extents.items()}
        levels = [replace(level, capacity_bits=None) for level in machine.levels if level.name != facts.registers_level]
        caches = replace(machine, nodes=(*levels, machine.compute))
        return TileSpace(
            arch, tile, facts, rounded, machine, units, choose._with_extents(workload, sizes, bits), caches
        )

    def mapping(self, tree: Mapping) -> Mapping:
        """Return a tree of the small workload in indices, with the register tile inside of it."""
        counts = {self.tile.vector: self.tile.slots, **dict(self.tile.sizes)}
        names = {dim: f"sums {dim}" for dim in counts}
        nodes: list[MappingNode] = [
            Temporal(node.dim, node.tile * self.units.get(node.dim, 1)) if isinstance(node, Temporal) else node
            for node in tree.nodes[:-1]
        ]
        nodes.append(Spatial(self.tile.vector, self.tile.slots, self.facts.lane))
        nodes += [Spatial(dim, 1, name) for dim, name in names.items()]
        nodes.append(Storage(self.facts.registers_level, (self.rounded.statements[0].target.tensor,)))
        nodes += [Temporal(dim, 1) for dim in choose._windows(self.rounded)]
        whole, added = Mapping((*nodes, tree.nodes[-1])), set(names.values())
        vector = self.tile.vector
        return choose._with_registers(whole, self.rounded, self.machine, self.facts, added, counts, vector)

    def choice(self, mapping: Mapping) -> CpuChoice:
        """Return a mapping as the library's own choices are, with the cycles that these are chosen by."""
        cost = pm.evaluate(self.rounded, self.machine, mapping)
        moved = transfer_cycles(self.rounded, self.arch, self.machine, mapping, 1)
        return CpuChoice(mapping, self.machine, self.rounded, self.tile, cost, moved)

    def drawn(self, count: int, seed: int) -> list[CpuChoice]:
        """Return `count` draws among the trees that fit the caches."""
        found: list[CpuChoice] = []
        while len(found) < count:
            trees = pm.sample_mappings(self.small, self.caches, round(SPARE * count) + 4, seed=seed)
            mappings = [self.mapping(tree) for tree in trees]
            scores = pm.space.score(self.rounded, self.machine, mappings)
            fitting = np.flatnonzero(scores.fits)[: count - len(found)]
            found += [self.choice(mappings[number]) for number in fitting]
            seed += 1
        return found


def predicted(choice: CpuChoice) -> tuple[float, float]:
    """Return what the library orders by: the least is taken."""
    return round(choice.cycles), choice.cost.energy_pj


def pool_of(workload: Workload, arch: Architecture, size: int, seed: int = 0) -> list[CpuChoice]:
    """Return so many draws from the space, in random order."""
    facts = facts_of(arch)
    bits = workload.tensor(workload.statements[0].target.tensor).bits
    lanes = facts.vector_bits // bits
    (vector, *_) = vector_dims(workload, LAYOUT, lanes)
    tiles = register_tiles(workload, facts, vector, lanes, memory_steps(workload, LAYOUT))
    rng = random.Random(seed)
    wanted = Counter(rng.choices(range(len(tiles)), k=size))
    found: list[CpuChoice] = []
    for number, count in sorted(wanted.items()):
        found += TileSpace.of(workload, arch, tiles[number]).drawn(count, 1000 * number + seed)
    rng.shuffle(found)
    return found


def chosen_of(workload: Workload, arch: Architecture) -> CpuChoice:
    """Return what the library chooses by itself."""
    choice = pm.compile(workload, arch, layout=LAYOUT).choice
    assert choice is not None
    return choice


def arrays_of(workload: Workload) -> tuple[Any, Any]:
    """Return random operands in the order of the layout."""
    rng = np.random.default_rng(0)
    fn = pm.compile(workload, "host_cpu", layout=LAYOUT)
    shapes = {form.tensor: form.shape for form in fn.function.arrays}
    x, w = (rng.standard_normal(shapes[access.tensor], np.float32) for access in workload.statements[0].reads)
    return x, w


def program_of(workload: Workload, candidate: CpuChoice, x: Any, w: Any, expected: Any) -> Callable[[], object]:
    """Return a call of a compiled mapping, its weights packed; its result is compared with the expected one."""
    fn = pm.compile(workload, candidate.arch, layout=LAYOUT, mapping=candidate.mapping)
    assert not fn.reason, f"no vectors: {fn.reason}"
    weights = w if fn.packed is None else fn.pack_weights(w)
    y = np.empty_like(expected)
    fn(x, weights, out=y)
    scale = float(np.abs(expected).max())
    assert float(np.abs(y - expected).max()) < 1e-4 * scale, "a mapping computes something else"
    return lambda: fn(x, weights, out=y)


def measured(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Return the seconds of each call: the 25th percentile of samples taken in turns, each after a call untimed."""
    samples: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for number, call in enumerate(calls):
            call()
            begun = time.thread_time()
            call()
            samples[number].append(time.thread_time() - begun)
    return [float(np.percentile(each, 25)) for each in samples]


def ranks(values: Sequence[Any]) -> Any:
    """Return the rank of each value, the mean of their ranks for like ones."""
    order = sorted(range(len(values)), key=lambda number: values[number])
    found = np.empty(len(values))
    start = 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        found[order[start:end]] = (start + end - 1) / 2
        start = end
    return found


def rho(one: Sequence[Any], other: Sequence[Any]) -> float:
    """Return Spearman's rank correlation; no number where one of the two has one value alone."""
    first, second = ranks(one), ranks(other)
    if not first.std() or not second.std():
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


@dataclass(frozen=True, slots=True)
class Study:
    """CpuChoices of one layer with their seconds: drawn uniformly, of the best-predicted 1 %, and the chosen one."""

    layer: str
    uniform: tuple[tuple[CpuChoice, float], ...]
    best: tuple[tuple[CpuChoice, float], ...]
    chosen: tuple[CpuChoice, float]

    @property
    def everything(self) -> tuple[tuple[CpuChoice, float], ...]:
        return (*self.uniform, *self.best)

    @property
    def rank(self) -> int:
        """How many of all programs are faster than the chosen one, plus one."""
        return 1 + sum(seconds < self.chosen[1] for _, seconds in self.everything)


def study_of(workload: Workload, arch: Architecture, uniform: int, best: int, pool: int, rounds: int) -> Study:
    """Draw, compile and measure."""
    drawn = pool_of(workload, arch, pool)
    order = sorted(drawn, key=predicted)
    top = random.Random(1).sample(order[: max(best, pool // 100)], best)
    listed = [*drawn[:uniform], *top, chosen_of(workload, arch)]
    x, w = arrays_of(workload)
    expected = pm.compile(workload, arch, layout=LAYOUT)(x, w)
    seconds = measured([program_of(workload, each, x, w, expected) for each in listed], rounds)
    pairs = list(zip(listed, seconds, strict=True))
    return Study(workload.name or "", tuple(pairs[:uniform]), tuple(pairs[uniform:-1]), pairs[-1])


def lines_of(study: Study) -> list[str]:
    """Return what a study says."""
    lines = [study.layer]
    sets = {"all": study.everything, "uniform": study.uniform, "best 1 %": study.best}
    for name, pairs in sets.items():
        seconds = [each for _, each in pairs]
        lines.append(
            f"  {name:9} {len(pairs):4} programs, {1e3 * min(seconds):6.3f} to {1e3 * max(seconds):7.3f} ms; "
            f"rho {rho([predicted(each) for each, _ in pairs], seconds):6.3f}"
        )
    number = len(study.everything)
    fastest = min(seconds for _, seconds in study.everything)
    lines.append(
        f"  chosen: {1e3 * study.chosen[1]:.3f} ms, rank {study.rank} of {number + 1}, "
        f"{study.chosen[1] / fastest:.3f} times the fastest"
    )
    return lines


def row_of(candidate: CpuChoice, seconds: float, kind: str) -> dict[str, Any]:
    """Return one measurement for a table."""
    row: dict[str, Any] = {"kind": kind, "ms": round(1e3 * seconds, 4), "cycles": round(candidate.cycles)}
    row |= {"pj": round(candidate.cost.energy_pj), "visits": candidate.visits}
    return {**row, "tile": {candidate.tile.vector: candidate.tile.slots, **dict(candidate.tile.sizes)}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", nargs="+", default=list(LAYERS), choices=LAYERS)
    parser.add_argument("--uniform", type=int, default=100)
    parser.add_argument("--best", type=int, default=100)
    parser.add_argument("--pool", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--trees", type=int, default=2, help="per kind and layer of benchmarks/cache_misses.py")
    parser.add_argument("--json", type=Path, help="file for all measurements")
    given = parser.parse_args()
    arch = pm.load_arch("host_cpu")
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in given.layers:
        study = study_of(layer_of(name), arch, given.uniform, given.best, given.pool, given.rounds)
        print("\n".join(lines_of(study)), flush=True)
        kinds = (("uniform", study.uniform), ("best", study.best), ("chosen", (study.chosen,)))
        rows[name] = [row_of(each, seconds, kind) for kind, pairs in kinds for each, seconds in pairs]
    if given.trees:
        sys.path.insert(0, str(Path(__file__).parent.parent))
        from benchmarks.cache_misses import report  # which imports this module

        for line in report(given.trees):
            print(line, flush=True)
    if given.json is not None:
        text = json.dumps({"machine": arch.source, "layers": rows})
        given.json.write_text(text.replace("}, {", "},\n{") + "\n")


if __name__ == "__main__":
    main()
