"""Does the model predict? Measured times of compiled mappings against their predicted cycles; the rank of the chosen.

    python benchmarks/predicted.py [--layers "3x3 NHWC" "product 128"] [--uniform 24] [--best 24] [--tiles 16]
                                   [--trees 8] [--rounds 8] [--seed 0] [--misses 0] [--json FILE]

The space is that of the chooser (docs/howto/native.md): a register tile that fits the registers, and around it a legal
tree of loops and held tensors within the capacities of the caches. A draw is a tile, each as likely as any other, and
a tree in units of the tile, each as likely as any other. So many tiles with so many trees each are drawn, and as many
again among the best-predicted twentieth of the tiles: some of the first are compiled as they come, and of all the
best-predicted. Every program is called in turns, twice, the second call timed in CPU time of the thread, and the 25th
percentile counts. Weights are packed ahead. Spearman's rho is of the order that the chooser uses: predicted cycles,
then energy. A row takes less than a minute of processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import polymap as pm
from polymap.codegen import cpu_mapping
from polymap.codegen.cpu_caches import transfer_cycles
from polymap.codegen.cpu_machine import CpuFacts, cpu_machine, facts_of
from polymap.codegen.cpu_mapping import CpuChoice
from polymap.codegen.native import flatten, load_function, memory_steps, native_function, vector_dims
from polymap.codegen.register_tiles import RegisterTile, register_tiles
from polymap.ir import Architecture, Mapping, MappingNode, Spatial, Storage, Temporal, Workload

LEAST_S = 2e-4  # seconds of a sample
SPARE = 2.6  # trees drawn per tree that fits the caches
Layer = tuple[Workload, str]
Call = Callable[[], object]


def _conv(layout: str, k: int, c: int, side: int, taps: int, stride: int = 1, groups: int = 1) -> Layer:
    padding = taps // 2
    layer = pm.conv2d(K=k, C=c, H=side, W=side, R=taps, S=taps, padding=padding, stride=stride, groups=groups, bits=32)
    return layer, layout


def _einsum(text: str, **sizes: int) -> Layer:
    return pm.einsum(text, sizes=sizes, types="float32"), "NHWC"


LAYERS: dict[str, Callable[[], Layer]] = {
    "conv": partial(_conv, "NHWC", 128, 128, 28, 3),
    "gemm": lambda: (pm.matmul(512, 512, 512, bits=32), "NHWC"),
    "3x3 NHWC": partial(_conv, "NHWC", 64, 48, 20, 3),
    "3x3 NHWC, stride 2": partial(_conv, "NHWC", 96, 64, 28, 3, 2),
    "5x5 NHWC": partial(_conv, "NHWC", 48, 32, 14, 5),
    "1x1 NHWC": partial(_conv, "NHWC", 96, 160, 20, 1),
    "3x3 NCHW": partial(_conv, "NCHW", 64, 48, 20, 3),
    "3x3 NCHW, stride 2": partial(_conv, "NCHW", 96, 64, 28, 3, 2),
    "1x1 NCHW": partial(_conv, "NCHW", 96, 160, 20, 1),
    "product 128": lambda: (pm.matmul(128, 128, 128, bits=32), "NHWC"),
    "product 197": lambda: (pm.matmul(197, 256, 384, bits=32), "NHWC"),
    "product 12": lambda: (pm.matmul(12, 384, 384, bits=32), "NHWC"),
    "batches": partial(_einsum, "O[b,m,n] += A[b,m,k] * B[b,k,n]", b=6, m=50, n=100, k=64),
    "turned": partial(_einsum, "O[m,n] += A[k,m] * B[k,n]", k=128, m=100, n=128),
    "two sums": partial(_einsum, "O[m,n] += A[m,k,l] * B[l,k,n]", m=100, n=100, k=16, l=12),
}


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
        rounded = cpu_mapping._with_whole_tiles(workload, tile, lanes, 1)
        machine = cpu_machine(rounded, arch, (tile.vector,), 1, bits)
        extents = rounded.extents()
        units = {tile.vector: lanes * tile.slots, **dict(tile.sizes)}
        units |= {dim: extents[dim] for dim in cpu_mapping._windows(rounded)}
        sizes = {dim: extent // units.get(dim, 1) for dim, extent in extents.items()}
        levels = [replace(level, capacity_bits=None) for level in machine.levels if level.name != facts.registers_level]
        caches = replace(machine, nodes=(*levels, machine.compute))
        return TileSpace(
            arch, tile, facts, rounded, machine, units, cpu_mapping._with_extents(workload, sizes, bits), caches
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
        nodes += [Temporal(dim, 1) for dim in cpu_mapping._windows(self.rounded)]
        whole, added = Mapping((*nodes, tree.nodes[-1])), set(names.values())
        vector = self.tile.vector
        return cpu_mapping._with_registers(whole, self.rounded, self.machine, self.facts, added, counts, vector)

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


def pool_of(
    workload: Workload,
    arch: Architecture,
    size: int,
    seed: int = 0,
    *,
    layout: str = "NHWC",
    trees: int = 1,
    best: int = 1,
) -> list[CpuChoice]:
    """Return so many draws from the space, `trees` around each tile drawn, in random order. best: the tiles are of the
    best-predicted part, one in so many."""
    facts = facts_of(arch)
    bits = workload.tensor(workload.statements[0].target.tensor).bits
    lanes, steps = facts.vector_bits // bits, memory_steps(workload, layout)
    dims = vector_dims(workload, layout, lanes)
    tiles = [tile for dim in dims for tile in register_tiles(workload, facts, dim, lanes, steps)]
    tiles.sort(key=lambda tile: round(tile.cycles))
    rng = random.Random(seed)
    wanted = Counter(rng.choices(range(-(-len(tiles) // best)), k=-(-size // trees)))
    found: list[CpuChoice] = []
    for number, count in sorted(wanted.items()):
        found += TileSpace.of(workload, arch, tiles[number]).drawn(count * trees, 1000 * number + seed)
    rng.shuffle(found)
    return found[:size]


@dataclass(frozen=True, slots=True)
class Question:
    """A layer, the workload whose loops are printed, and operands with their result."""

    layer: Workload
    layout: str
    flat: Workload
    arch: Architecture
    operands: tuple[Any, Any]
    expected: Any
    chosen: CpuChoice

    @staticmethod
    def of(layer: Workload, layout: str, arch: Architecture) -> Question:
        """Return a layer's question, with the library's own answer."""
        rng = np.random.default_rng(0)
        fn = pm.compile(layer, arch, layout=layout)
        assert fn.choice is not None
        shapes = {form.tensor: form.shape for form in fn.function.arrays}
        x, w = (rng.standard_normal(shapes[access.tensor], np.float32) for access in layer.statements[0].reads)
        return Question(layer, layout, flatten(layer, layout) or layer, arch, (x, w), fn(x, w), fn.choice)

    def program(self, choice: CpuChoice) -> Call | None:
        """Return a call of a mapping, its weights packed, whose result is the expected one; None where it has no form
        in vectors, such as windows that are copied often."""
        asked = self.layer, choice.arch, choice.mapping
        function = native_function(
            *asked, name="polymap_native", layout=self.layout, flat=self.flat, packed=choice.packed
        )
        if function.reason:
            return None
        loaded, (x, w) = load_function(function, 1, frozenset()), self.operands
        names = [access.tensor for access in self.layer.statements[0].reads]
        given: list[object] = [x, w]
        if function.packed is not None:
            at = names.index(function.packed)
            given[at] = loaded.pack_weights(given[at])
        y = np.empty_like(self.expected)
        arrays = tuple(given)
        loaded.call(arrays, y)
        scale = float(np.abs(self.expected).max())
        assert float(np.abs(y - self.expected).max()) < 1e-4 * scale, "a mapping computes something else"
        return lambda: loaded.call(arrays, y)


def measured(calls: Sequence[Call], rounds: int) -> list[float]:
    """Return the seconds of each call: the 25th percentile of samples taken in turns, each after a call untimed."""
    samples: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for number, call in enumerate(calls):
            call()
            begun, count = time.thread_time(), 0
            while not count or time.thread_time() - begun < LEAST_S:
                call()
                count += 1
            samples[number].append((time.thread_time() - begun) / count)
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


def study_of(name: str, arch: Architecture, given: argparse.Namespace) -> Study:
    """Draw, compile and measure."""
    question = Question.of(*LAYERS[name](), arch)
    pool = partial(
        pool_of, question.flat, arch, given.tiles * given.trees, given.seed, layout=question.layout, trees=given.trees
    )
    drawn, near = pool(), pool(best=20)
    uniform = _compiled(question, drawn, given.uniform)
    known = [each for each, _ in uniform]
    rest = [each for each in (*drawn, *near) if each not in known]
    best = _compiled(question, sorted(rest, key=predicted), given.best)
    everything = [*uniform, *best, *_compiled(question, [question.chosen], 1)]
    seconds = measured([call for _, call in everything], given.rounds)
    pairs = [(each, took) for (each, _), took in zip(everything, seconds, strict=True)]
    return Study(name, tuple(pairs[: len(uniform)]), tuple(pairs[len(uniform) : -1]), pairs[-1])


def _compiled(question: Question, choices: Sequence[CpuChoice], count: int) -> list[tuple[CpuChoice, Call]]:
    """Return the first so many choices that have a form in vectors, with their programs; like mappings count once."""
    found: dict[str, tuple[CpuChoice, Call]] = {}
    for choice in choices:
        call = None if len(found) == count or str(choice.mapping) in found else question.program(choice)
        if call is not None:
            found[str(choice.mapping)] = choice, call
    return list(found.values())


def line_of(study: Study) -> str:
    """Return the row of a study."""
    parts = (study.everything, study.uniform, study.best)
    found = [rho([predicted(each) for each, _ in pairs], [took for _, took in pairs]) for pairs in parts]
    ends = [1e3 * end for _, pairs in zip("ub", parts[1:], strict=True) for end in _ends(pairs)]
    spans = "{:8.3f} to {:8.3f}, {:7.3f} to {:7.3f} ms".format(*ends)
    chosen = study.chosen[1] / min(took for _, took in study.everything)
    rate = study.chosen[0].cycles / study.chosen[1] / 1e9
    return (
        f"{study.layer:20} rho {found[0]:5.2f} all, {found[1]:5.2f} uniform, {found[2]:5.2f} best; {spans}; chosen "
        f"{1e3 * study.chosen[1]:.4f} ms, rank {study.rank}, {chosen:.2f} of the fastest, {rate:.2f} cycles/ns"
    )


def _ends(pairs: Sequence[tuple[CpuChoice, float]]) -> tuple[float, float]:
    return min(took for _, took in pairs), max(took for _, took in pairs)


def row_of(candidate: CpuChoice, seconds: float, kind: str) -> dict[str, Any]:
    """Return one measurement for a table."""
    row: dict[str, Any] = {"kind": kind, "ms": round(1e3 * seconds, 4), "cycles": round(candidate.cycles)}
    row |= {"pj": round(candidate.cost.energy_pj), "visits": candidate.visits}
    return {**row, "tile": {candidate.tile.vector: candidate.tile.slots, **dict(candidate.tile.sizes)}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", nargs="+", default=list(LAYERS)[2:], choices=LAYERS)
    for name, number in {"uniform": 24, "best": 24, "tiles": 16, "trees": 8, "rounds": 8, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--misses", type=int, default=0, help="trees per kind and layer of benchmarks/cache_misses.py")
    parser.add_argument("--json", type=Path, help="file for all measurements")
    given = parser.parse_args()
    arch = pm.load_arch("host_cpu")
    rows: dict[str, list[dict[str, Any]]] = {}
    for name in given.layers:
        begun = sum(os.times()[:4])
        study = study_of(name, arch, given)
        print(f"{line_of(study)}; {sum(os.times()[:4]) - begun:.0f} CPU s", flush=True)
        kinds = (("uniform", study.uniform), ("best", study.best), ("chosen", (study.chosen,)))
        rows[name] = [row_of(each, seconds, kind) for kind, pairs in kinds for each, seconds in pairs]
    if given.misses:
        sys.path.insert(0, str(Path(__file__).parent.parent))
        from benchmarks.cache_misses import report  # which imports this module

        for line in report(given.misses):
            print(line, flush=True)
    if given.json is not None:
        text = json.dumps({"machine": arch.source, "layers": rows})
        given.json.write_text(text.replace("}, {", "},\n{") + "\n")


if __name__ == "__main__":
    main()
