"""How fast mappings are costed: one by one (`evaluate`, microseconds) and by tables (`evaluate_many`, per second).

CPU time of one core, the best of several rounds. Every table is checked against `evaluate` on a sample of its rows.
Run: python benchmarks/evaluate.py
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

import polymap as pm
from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.tables.loops import with_tiles
from polymap.ir.machine import ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal

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


def attention() -> Case:
    """Attention without softmax: a branch below a loop over keys, each leg spread over both fan-outs."""
    t, fan, held = Temporal, Spatial, Storage
    scores: tuple[MappingNode, ...] = (
        fan("k", 4, "X"), fan("n", 16, "Y"), fan("k", 2, "Y"), held("RF", ("K",)), t("m", 1), t("n", 1), t("k", 1),
        Compute("S0"),
    )  # fmt: skip
    context: tuple[MappingNode, ...] = (
        fan("p", 4, "X"), fan("n", 8, "Y"), held("RF", ("V",)), t("m", 1), t("n", 1), t("p", 1), Compute("S1"),
    )  # fmt: skip
    tree = Mapping((held("GLB", ("Q", "O")), t("n", 128), held("GLB", ("S",)), Branch((scores, context))))
    work = pm.program(
        ["S[m,n] += Q[m,k] * K[k,n]", "O[m,p] += S[m,n] * V[n,p]"],
        m=512, n=512, k=64, p=64, temporary=["S"], bits=8,
    )  # fmt: skip
    return Case("attention 512x512x64, flat3", work, pm.load_arch("flat3"), tree, "100 times evaluate")


def shapes() -> list[Case]:
    """Return the shapes that were slow: windows with both dims spread, windows in outputs, long energies, chains."""
    t, fan, held, end = Temporal, Spatial, Storage, Compute("S")
    flat, every = pm.load_arch("flat3"), ("I", "W", "O")
    both: tuple[MappingNode, ...] = (
        t("k", 4), t("p", 8), t("c", 4), held("GLB", every), t("r", 2), t("p", 4), fan("p", 2, "X"), fan("r", 1, "Y"),
        t("c", 1), held("RF", every), t("k", 1), t("p", 1), end,
    )  # fmt: skip
    output: tuple[MappingNode, ...] = (
        t("p", 8), t("r", 8), held("GLB", ("W", "O")), t("q", 1), fan("r", 2, "X"), t("p", 2), held("RF", ("O",)),
        t("r", 1), t("p", 1), end,
    )  # fmt: skip
    transposed: tuple[MappingNode, ...] = (
        t("k", 4), t("p", 7), t("q", 7), t("c", 4), held("GLB", every), fan("k", 2, "X"), fan("c", 2, "Y"), t("p", 1),
        held("RF", every), t("r", 1), t("q", 1), t("s", 1), t("c", 1), t("k", 1), end,
    )  # fmt: skip
    shared: tuple[MappingNode, ...] = (
        t("k", 4), t("p", 7), t("q", 7), t("c", 4), held("GLB", every), fan("p", 2, "X"), fan("r", 1, "Y"), t("p", 1),
        t("c", 1), held("RF", every), t("q", 1), t("s", 1), t("k", 1), end,
    )  # fmt: skip
    chains: tuple[MappingNode, ...] = (
        t("m", 8), t("r", 20), t("c", 10), t("r", 9), held("GLB", ("O",)), t("c", 7), t("r", 4), fan("r", 1, "X"),
        fan("c", 2, "Y"), held("RF", ("O",)), t("m", 1), t("c", 1), end,
    )  # fmt: skip
    aim = "100,000 per second"
    found: list[Case] = []
    for form in ("p+r", "2*p+r", "p-r+8"):
        workload = pm.einsum(f"O[k,p] += I[c,{form}] * W[k,c,r]", k=16, c=16, p=56, r=5, bits=8)
        found.append(Case(f"{form}, p and r spread", workload, flat, Mapping(both), aim))
    distinct = pm.einsum("O[2*p+q] += W[q,r]", p=28, q=2, r=56, bits=8)
    found.append(Case("O[2p+q], r spread", distinct, flat, Mapping(output), aim))
    text = "O[k,2*p+r,2*q+s] += I[c,p,q] * W[k,c,r,s]"
    layer = pm.einsum(text, k=16, c=16, p=28, q=28, r=3, s=3, bits=8)
    found.append(Case("transposed convolution, k and c spread", layer, flat, Mapping(transposed), aim))
    found.append(Case("transposed convolution, p and r spread", layer, flat, Mapping(shared), aim))
    longer = pm.einsum("O[k,2*p+r] += I[c,p] * W[k,c,r]", k=16, c=16, p=56, r=5, bits=8)
    found.append(Case("O[k,2p+r], p and r spread", longer, flat, Mapping(both), aim))
    sums = pm.einsum("O[m] += A[r] * B[m,c]", m=64, r=50, c=40, bits=8)
    found.append(Case("partial sums below chains of four", sums, flat, Mapping(chains), aim))
    picture = convolution()
    nodes = (
        replace(node, read_pj=Fraction(2123457 + at, 10**4)) if isinstance(node, MemoryLevel) else node
        for at, node in enumerate(picture.arch.nodes)
    )
    arch = replace(picture.arch, nodes=tuple(nodes))
    found.append(
        Case("VGG conv3_1, energies of 4 decimals", pm.load_workload("vgg16.conv3_1"), arch, picture.tree, aim)
    )
    return found


def spread_windows() -> list[Case]:
    """Return windows of which two dims are spread, on a machine with bandwidths: the latency needs the busiest
    instance."""
    wide = Fraction(64)
    levels = [
        MemoryLevel(
            name,
            read_pj=Fraction(pj),
            write_pj=Fraction(pj),
            read_bandwidth_bits_per_cycle=wide,
            write_bandwidth_bits_per_cycle=wide,
        )
        for name, pj in (("DRAM", 200), ("GLB", 6), ("RF", 1))
    ]
    nodes = (*levels[:2], Fanout("X", 16), Fanout("Y", 16), levels[2], ComputeUnit("MAC", Fraction(1)))
    arch = pm.Architecture("metered", nodes)
    texts = (
        ("convolution 3x3, p and q spread", "O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", "pq", (64, 64, 56, 56, 3, 3)),
        ("convolution 5x5 stride 2, p and q spread", "O[k,p,q] += I[c,2*p+r,2*q+s] * W[k,c,r,s]", "pq",
         (64, 64, 28, 28, 5, 5)),
        ("transposed convolution, p and q spread", "O[k,2*p+r,2*q+s] += I[c,p,q] * W[k,c,r,s]", "pq",
         (16, 16, 28, 28, 3, 3)),
        ("transposed convolution, k and c spread", "O[k,2*p+r,2*q+s] += I[c,p,q] * W[k,c,r,s]", "kc",
         (16, 16, 28, 28, 3, 3)),
        ("2p+q+r, p and q spread", "O[k,p,q] += I[c,2*p+q+r] * W[k,c,r]", "pq", (16, 16, 28, 14, 5)),
        ("p+q+r+s, p and q spread", "O[k,p,q] += I[c,p+q+r+s] * W[k,c,r,s]", "pq", (16, 16, 28, 14, 3, 3)),
    )  # fmt: skip
    found: list[Case] = []
    every = ("I", "W", "O")
    for name, text, spread, extents in texts:
        sizes = dict(zip("kcpqrs", extents, strict=False))
        tree: list[MappingNode] = [Temporal(dim, 1) for dim in "kcpq"]
        tree += [Storage("GLB", every), *(Spatial(dim, 1, fanout) for dim, fanout in zip(spread, "XY", strict=True))]
        tree += [Temporal(dim, 1) for dim in list(sizes)[4:]]
        tree += [Storage("RF", every), *(Temporal(dim, 1) for dim in sizes), Compute("S")]
        found.append(Case(name, pm.einsum(text, bits=8, sizes=sizes), arch, Mapping(tuple(tree)), "20,000 per second"))
    return found


def table_within_fanouts(case: Case, rows: int, seed: int = 5) -> list[list[int]]:
    """Return tiles of any size, small ones as often as large ones, whose siblings fit a fan-out of 16."""
    rng = random.Random(seed)
    loops = [node for node in case.tree.nodes if isinstance(node, Temporal | Spatial)]
    last = {loop.dim: number for number, loop in enumerate(loops)}
    table: list[list[int]] = []
    for _ in range(rows):
        ends = case.workload.extents()
        table.append([])
        for number, loop in enumerate(loops):
            end = ends[loop.dim]
            tile = -(-end // rng.randint(1, 16)) if isinstance(loop, Spatial) else round(end ** rng.random())
            ends[loop.dim] = 1 if last[loop.dim] == number else max(1, tile)
            table[-1].append(ends[loop.dim])
    return table


def spread_window_rates() -> None:
    """Print the rates of tables of these windows, and the first call for a tree (two rows)."""
    title = "evaluate_many, windows with two dims spread, bandwidths"
    sys.stdout.write(f"\n{title:62} {'first, ms':>10} {'60 rows':>10} {'2,000 rows':>10} {'20,000 rows':>12}\n")
    for case in spread_windows():
        table = np.array(table_within_fanouts(case, 20_000), dtype=np.int64)
        start = time.process_time()
        pm.evaluate_many(case.workload, case.arch, case.tree, table[:2])
        first = time.process_time() - start
        check(case, table[:200])
        rates: list[float] = []
        for rows in (60, 2000, 20_000):
            start = time.process_time()
            pm.evaluate_many(case.workload, case.arch, case.tree, table[:rows])
            rates.append(rows / (time.process_time() - start))
        shown = f"{rates[0]:10,.0f} {rates[1]:10,.0f} {rates[2]:12,.0f}"
        sys.stdout.write(f"{case.name:62} {first * 1e3:10.0f} {shown}   aim: {case.target}\n")
        sys.stdout.flush()


def shape_rates(rows: int = 2000) -> None:
    """Print the rates of tables of these shapes, dividing tiles and any."""
    sys.stdout.write(f"\n{f'evaluate_many by shape, tables of {rows:,}':62} {'dividing':>14} {'any size':>14}\n")
    for case in shapes():
        rates: list[float] = []
        for partial in (False, True):
            table = np.array(random_table(case, rows, partial=partial), dtype=np.int64)
            check(case, table[:20])
            start = time.process_time()
            pm.evaluate_many(case.workload, case.arch, case.tree, table)
            rates.append(rows / (time.process_time() - start))
        sys.stdout.write(f"{case.name:62} {rates[0]:14,.0f} {rates[1]:14,.0f}   aim: {case.target}\n")
        sys.stdout.flush()


def fused_row(rng: random.Random, nodes: tuple[MappingNode, ...], ends: dict[str, int], *, partial: bool) -> list[int]:
    """Return tiles for the loops of a tree with branches, those of tile 1 as they are. ends: the tiles around."""
    row: list[int] = []
    for node in nodes:
        if isinstance(node, Temporal | Spatial):
            end = ends[node.dim]
            some = [tile for tile in range(1, end + 1) if partial or end % tile == 0]
            ends = {**ends, node.dim: 1 if node.tile == 1 else rng.choice(some)}
            row.append(ends[node.dim])
        elif isinstance(node, Branch):
            for child in node.children:
                row += fused_row(rng, child, ends, partial=partial)
    return row


def fused_rates(rows: int = 20_000) -> None:
    """Print the rate of tables of a tree with a branch, and how many times that of `evaluate` it is."""
    sys.stdout.write(
        f"\n{f'evaluate_many, a tree with a branch, {rows:,} rows':62} {'per second':>14} {'evaluate':>10}\n"
    )
    case, rng = attention(), random.Random(1)
    for partial in (False, True):
        extents = case.workload.extents()
        table = np.array([fused_row(rng, case.tree.nodes, extents, partial=partial) for _ in range(rows)])
        start = time.process_time()
        found = pm.evaluate_many(case.workload, case.arch, case.tree, table)
        seconds = time.process_time() - start
        trees = [Mapping(with_tiles(case.tree.nodes, iter(row))) for row in table[:50].tolist()]
        start = time.process_time()
        costs = [pm.evaluate(case.workload, case.arch, tree) for tree in trees]
        alone = (time.process_time() - start) / len(trees)
        if [cost.energy_pj for cost in costs] != found.energy_pj[: len(costs)].tolist():
            sys.exit(f"{case.name}: a row differs from evaluate")
        name = f"{case.name}, {'any size' if partial else 'dividing'}"
        rate = rows / seconds
        sys.stdout.write(
            f"{name:62} {rate:14,.0f} {1 / alone:10,.0f}   {rate * alone:,.0f} times; aim: {case.target}\n"
        )


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
    shape_rates()
    fused_rates()
    spread_window_rates()


if __name__ == "__main__":
    main()
