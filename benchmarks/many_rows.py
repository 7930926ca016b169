"""How fast `evaluate_many` costs tables of tiles of any size: windows, machines and trees of every kind.

    python benchmarks/many_rows.py [WORD ...] [--rows N] [--check N]

A row per question (WORD: those whose names have one of the words): CPU milliseconds of the first call (two rows of a
tree not seen before) and of a call of ten rows, rows per CPU second of a table of N rows (20,000), how many of these
arrays counted, and how many were counted one by one; the figures of some rows are held against `evaluate`.
"""

from __future__ import annotations

import argparse
import random
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import polymap as pm
from polymap.costmodel.tables import cost_arrays, loops
from polymap.ir import Branch, Compute, Mapping, MappingNode, Spatial, Temporal

CONV, EYERISS = "O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", "k p q |GLB:I,O c q r/Y s/Y k/Y q/X |WRF:W p |PRF:O c |IRF:I k"
BOTH = "k c p q |GLB p/X q/Y r s |RF k c p q r s"
LAYER = {"k": 64, "c": 64, "p": 56, "q": 56, "r": 3, "s": 3}
FIVE = {**LAYER, "p": 28, "q": 28, "r": 5, "s": 5}
SMALL = {**LAYER, "k": 16, "c": 16, "p": 28, "q": 28}
LINE = {"k": 16, "c": 16, "p": 28, "q": 14, "r": 5}


def machine(
    bandwidth: int | None = 64,
    levels: int = 3,
    hop: float = 0.0,
    *,
    overlap: bool = True,
    multicast: str = "identical",
    more: float = 0,
) -> pm.Architecture:
    """Return a machine with two fan-outs of 16 above its innermost level; four levels: one between the fan-outs.

    more: energy of each access.
    """
    wide = {} if bandwidth is None else {f"{way}_bandwidth_bits_per_cycle": bandwidth for way in ("read", "write")}
    wires = {"pj_per_word_hop": hop, "reduce_pj": hop / 4} if hop else {}

    def level(name: str, pj: int) -> dict[str, Any]:
        return {"level": name, "read_pj": pj + more, "write_pj": pj + more, **wide}

    nodes = [level("DRAM", 200), level("GLB", 6), {"fanout": "X", "size": 16, "multicast": multicast, **wires}]
    nodes += [level("L1", 3)] if levels > 3 else []
    nodes += [{"fanout": "Y", "size": 16, "multicast": multicast, **wires}, level("RF", 1), {"compute": "MAC", "pj": 1}]
    return pm.io.arch_from_document({"name": "metered", "overlap": overlap, "nodes": nodes})


def tree_of(text: str, workload: pm.Workload) -> Mapping:
    """Return the tree of words: `dim`, `dim/fanout`, `|level` with all tensors or `|level:some`."""
    every = [tensor.name for tensor in workload.tensors]
    nodes: list[dict[str, Any]] = []
    for word in text.split():
        if word.startswith("|"):
            name, _, some = word[1:].partition(":")
            nodes.append({"store": name, "tensors": some.split(",") if some else every})
        else:
            dim, _, fanout = word.partition("/")
            nodes.append({"par": dim, "tile": 1, "over": fanout} if fanout else {"for": dim, "tile": 1})
    return pm.io.mapping_from_document({"nodes": [*nodes, {"compute": workload.statements[0].name}]})


@dataclass(frozen=True)
class Case:
    """A question: the tiles of a tree."""

    name: str
    workload: pm.Workload
    arch: pm.Architecture
    tree: Mapping


def nests() -> list[Case]:
    """Return the nests: what is asked, the statement, its sizes, the tree and the machine."""
    metered, plain, flat = machine(), machine(None), pm.load_arch("flat3")
    transposed, kc = "O[k,{0}*p+r,{0}*q+s] += I[c,p,q] * W[k,c,r,s]", "k c p q |GLB k/X c/Y r s |RF k c p q r s"
    line, spread = "k c p |GLB p/X r/Y c |RF k p r", "k p c |GLB r p p/X r/Y c |RF k p"
    four = "k c p q |GLB p/X q |L1 c q/Y r s |RF k c p q r s"
    odd = {"m": 64, "r": 50, "c": 40}
    rows: list[tuple[str, str, dict[str, int], str, pm.Architecture]] = [
        ("conv 3x3, p q", CONV, LAYER, BOTH, metered),
        ("conv 3x3, p q, no bandwidth", CONV, LAYER, BOTH, plain),
        ("conv 3x3, energies of 4 decimals", CONV, LAYER, BOTH, machine(more=0.3457)),
        ("conv 3x3, p q, cycles add up", CONV, LAYER, BOTH, machine(overlap=False)),
        ("conv 3x3, p q, wires", CONV, LAYER, BOTH, machine(hop=0.2)),
        ("conv 3x3, p q, no multicast", CONV, LAYER, BOTH, machine(multicast="none")),
        ("conv 3x3, p q, united loads", CONV, LAYER, BOTH, machine(multicast="union")),
        ("conv 3x3, k c", CONV, LAYER, kc, metered),
        ("conv 3x3, p r", CONV, LAYER, "k c p q |GLB p/X r/Y q s |RF k c p q r s", metered),
        ("conv 3x3, four levels", CONV, LAYER, four, machine(levels=4)),
        ("conv 3x3, four levels, wires", CONV, LAYER, four, machine(levels=4, hop=0.2)),
        ("conv 3x3, eyeriss_like", CONV, LAYER, EYERISS, pm.load_arch("eyeriss_like")),
        ("conv 5x5 stride 2, p q", CONV.replace("p+r,q+s", "2*p+r,2*q+s"), FIVE, BOTH, metered),
        ("conv 3x3 dilated by 2, p q", CONV.replace("p+r,q+s", "p+2*r,q+2*s"), LAYER, BOTH, metered),
        ("conv 3x3 stride 2 dilated by 3", CONV.replace("p+r,q+s", "2*p+3*r,2*q+3*s"), FIVE, BOTH, metered),
        ("depthwise 3x3, p q", "O[c,p,q] += I[c,p+r,q+s] * W[c,r,s]", {**LAYER, "k": 0}, BOTH, metered),
        ("conv 3x3x3, p q", "O[k,p,q,t] += I[c,p+r,q+s,t+u] * W[k,c,r,s,u]",
         {**SMALL, "p": 14, "q": 14, "t": 14, "u": 3}, "k c t p q |GLB p/X q/Y r s u |RF k c t p q r s u", metered),
        *((f"transposed stride {n}, {d}", transposed.format(n).replace("1*", ""), SMALL, tree, metered)
          for n in (1, 2, 3) for d, tree in (("p q", BOTH), ("k c", kc))),
        ("O[k,2p+r], p r", "O[k,2*p+r] += I[c,p] * W[k,c,r]", {**LINE, "p": 56, "q": 0}, line, metered),
        ("O[2p+q], r, flat3", "O[2*p+q] += W[q,r]", {"p": 28, "q": 2, "r": 56}, "p r |GLB q r/X p |RF:O r p", flat),
        ("2p+q+r, p q", "O[k,p,q] += I[c,2*p+q+r] * W[k,c,r]", LINE, "k c p q |GLB p/X q/Y r |RF k c p q r", metered),
        ("4p+2q+r, p q", "O[k,p,q] += I[c,4*p+2*q+r] * W[k,c,r]", LINE, "k c p q |GLB p/X q/Y r |RF k c p q r",
         metered),
        ("p+q+r+s, p q", "O[k,p,q] += I[c,p+q+r+s] * W[k,c,r,s]", {**LINE, "r": 3, "s": 3}, BOTH, metered),
        *((f"{form}, p r, flat3", f"O[k,p] += I[c,{form}] * W[k,c,r]", {**LINE, "p": 56, "q": 0}, spread, flat)
          for form in ("p+r", "2*p+r", "p-r+8")),
        ("A[i]*A[i+j], i", "S[j] += A[i] * A[i+j]", {"i": 200, "j": 50}, "i j |GLB i/X j |RF i j", metered),
        ("A[i]*A[i+j], i, flat3", "S[j] += A[i] * A[i+j]", {"i": 200, "j": 50}, "i j |GLB i/X j |RF i j", flat),
        ("A[m,k]*A[n,k], m n", "C[m,n] += A[m,k] * A[n,k]", {"m": 128, "n": 128, "k": 64},
         "m n k |GLB m/X n/Y k |RF m n k", metered),
        ("gemm, m n", "C[m,n] += A[m,k] * B[k,n]", {"m": 512, "n": 256, "k": 32}, "m n k |GLB n m m/X n/Y k |RF m n k",
         metered),
        ("gemm, k n, wires", "C[m,n] += A[m,k] * B[k,n]", {"m": 512, "n": 256, "k": 32},
         "m n k |GLB n m k/X n/Y k |RF m n k", machine(hop=0.2)),
        ("gemm, flat3", "C[m,n] += A[m,k] * B[k,n]", {"m": 512, "n": 256, "k": 32},
         "m n k |GLB n m m/X n/Y k |RF m n k", flat),
        ("sums below chains of four", "O[m] += A[r] * B[m,c]", odd, "m r c r |GLB:O c r r/X c/Y |RF:O m c", metered),
        ("conv 3x3, npu16 (wires)", CONV, LAYER, "k p q |GLB:I,O c |WBUF:W p/rows k/cols r s |RF k c p q r s", npu()),
    ]  # fmt: skip
    found: list[Case] = []
    for name, text, extents, tree, arch in rows:
        sizes = {dim: size for dim, size in extents.items() if size and dim in text.replace("O[", "[")}
        words = " ".join(word for word in tree.split() if word[0] == "|" or word[0] in sizes)
        workload = pm.einsum(text, bits=8, sizes=sizes)
        found.append(Case(name, workload, arch, tree_of(words, workload)))
    return found


def npu() -> pm.Architecture:
    """Return a machine with a weight buffer of its own and wires (our own concept, not a product)."""
    from wired_layers import NAME, machine as wired

    return wired(NAME)


def attention() -> Case:
    """Attention without softmax: a branch below a loop over keys, each leg spread over both fan-outs."""
    text = ["S[m,n] += Q[m,k] * K[k,n]", "O[m,p] += S[m,n] * V[n,p]"]
    work = pm.program(text, m=512, n=512, k=64, p=64, temporary=["S"], bits=8)
    legs = (("k/X n/Y k/Y |RF:K m n k", "S0"), ("p/X n/Y |RF:V m n p", "S1"))
    children = tuple((*tree_of(leg, work).nodes[:-1], Compute(end)) for leg, end in legs)
    top = tree_of("|GLB:Q,O n |GLB:S", work).nodes[:-1]
    return Case("attention, a branch, flat3", work, pm.load_arch("flat3"), Mapping((*top, Branch(children))))


def table(case: Case, rows: int, seed: int = 5) -> NDArray[np.int64]:
    """Return tiles of any size, small ones as often as large ones, whose siblings fit a fan-out of 16."""
    rng = random.Random(seed)
    return np.array([_row(rng, case.tree.nodes, case.workload.extents()) for _ in range(rows)], dtype=np.int64)


def _row(rng: random.Random, nodes: tuple[MappingNode, ...], ends: dict[str, int]) -> list[int]:
    own = [node for node in nodes if isinstance(node, Temporal | Spatial)]
    legs = nodes[-1].children if isinstance(nodes[-1], Branch) else ()
    row: list[int] = []
    for number, loop in enumerate(own):
        end = ends[loop.dim]
        tile = -(-end // rng.randint(1, 16)) if isinstance(loop, Spatial) else round(end ** rng.random())
        is_last = not legs and all(other.dim != loop.dim for other in own[number + 1 :])
        ends = {**ends, loop.dim: 1 if is_last else max(1, min(end, tile))}
        row.append(ends[loop.dim])
    return row + [tile for leg in legs for tile in _row(rng, leg, ends)]


def differing(case: Case, some: NDArray[np.int64]) -> int:
    """Return how many rows `evaluate` costs otherwise."""
    costs = pm.evaluate_many(case.workload, case.arch, case.tree, some)
    wrong = 0
    for number, row in enumerate(some.tolist()):
        cost = pm.evaluate(case.workload, case.arch, Mapping(loops.with_tiles(case.tree.nodes, iter(row))))
        moved = [(each.reads, each.writes, each.fills, each.drains) for each in cost.traffic]
        many = [tuple(column[number] for column in (e.reads, e.writes, e.fills, e.drains)) for e in costs.traffic]
        figures = costs.legal[number], costs.energy_pj[number], costs.latency_cycles[number]
        wrong += figures != (cost.legal, cost.energy_pj, cost.latency_cycles) or moved != many
    return wrong


class OneByOne:
    """Counts the rows that `evaluate_many` gives to `evaluate`."""

    def __init__(self) -> None:
        self.rows, self._row = 0, cost_arrays._row  # pyright: ignore[reportPrivateUsage]  # counted

    def __call__(self, *asked: Any) -> pm.Cost:
        self.rows += 1
        return self._row(*asked)


def seconds(case: Case, some: NDArray[np.int64]) -> float:
    start = time.process_time()
    pm.evaluate_many(case.workload, case.arch, case.tree, some)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--check", type=int, default=20, help="rows held against evaluate")
    asked = parser.parse_args()
    counter = cost_arrays._row = OneByOne()  # pyright: ignore[reportPrivateUsage]  # what it is there for
    heads = ("question", "first, ms", "10 rows, ms", "rows/s", "arrays", "one by one", "wrong")
    print("{:34}{:>10}{:>12}{:>10}{:>8}{:>11}{:>7}".format(*heads))
    for case in [*nests(), attention()]:
        if asked.words and not any(word in case.name for word in asked.words):
            continue
        tiles = table(case, asked.rows)
        first, few = seconds(case, tiles[:2]), seconds(case, tiles[2:12])
        counter.rows = 0
        seconds(case, tiles[12:24])  # where most are counted one by one, few are asked
        many = tiles[24 : 84 if counter.rows > 6 else len(tiles)]
        counter.rows = 0
        rate, alone = len(many) / seconds(case, many), counter.rows
        wrong = differing(case, tiles[:: max(1, len(tiles) // asked.check)][: asked.check])
        figures = f"{first * 1e3:10.0f}{few * 1e3:12.0f}{rate:10,.0f}{len(many) - alone:8,}{alone:11,}{wrong:7}"
        print(f"{case.name:34}{figures}", flush=True)


if __name__ == "__main__":
    main()
