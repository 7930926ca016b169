"""Matrix products on GPUs as machines: tiles of a block, waves, bytes of device memory, and how near to the bound.

    python benchmarks/gpu_gemms.py [--machines v100 a100 h100 t4] [--limit SECONDS] [--heuristics PYTHON]
                                  [--then-bytes]

Fifty products of 16-bit elements, searched for latency over dividing tiles, so many CPU seconds each. A row: the tile
of one SM inside of the loops that spread it, SMs at work, waves (what an SM does one after the other), cycles, the gap
to the bound, the share of the machine's peak, bytes of device memory and how many times the least, and what binds.

--then-bytes: of mappings of equal latency the one that moves least to and from device memory
("lex:latency,traffic:HBM"); latency alone leaves that open where it is not what binds.

--heuristics: the interpreter of an environment of its own that has the wheel nvidia-matmul-heuristics (it needs no
GPU): then what that chooses for CUTLASS 3 on the A100 and the H100 stands beside.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from math import prod
from pathlib import Path
from statistics import median

import polymap as pm
from polymap.explore import search

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.search import cpu_clock

SQUARES = [(n, n, n) for n in (256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 8192)]
TOKENS = [
    (tokens, n, k)
    for tokens in (16, 128, 2048, 8192)
    for n, k in ((2304, 768), (768, 3072), (4096, 4096), (22016, 4096), (4096, 11008), (8192, 28672), (32000, 4096))
]
ODD = [(64, 64, 65536), (65536, 64, 64), (128, 128, 8192), (8192, 8192, 64), (8192, 64, 8192), (1000, 1000, 1000)]
UNEVEN = [
    (4097, 4096, 4096),
    (1920, 1080, 512),
    (50257, 768, 1024),
    (12544, 64, 147),
    (3136, 512, 1152),
    (196, 1024, 256),
]
SHAPES = (*SQUARES, *TOKENS, *ODD, *UNEVEN, (49, 2048, 512))
HERTZ = {"v100": 1.53e9, "a100": 1.41e9, "h100": 1.83e9, "t4": 1.59e9}  # the clocks of the presets' peaks
ELSEWHERE = """
import ctypes, json, os, sys
from nvMatmulHeuristics import *
asked, layout = json.load(sys.stdin), NvMatmulHeuristicsMatmulLayout.NN_ROW_MAJOR
own = NvMatmulHeuristicsInterface(NvMatmulHeuristicsTarget.CUTLASS3, "HSH")
gpu, backend = own.createHardwareDescriptor(), own.createBackend(NvMatmulHeuristicsTarget.CUTLASS3)
own.setHardwarePredefinedGpu(gpu, NvMatmulHeuristicsNvidiaGpu[asked["gpu"]])
own.loadInternalDiscoverySet(layout, gpu)
found, metric = [], NvMatmulHeuristicsSiliconMetric
for shape in asked["shapes"]:
    best = own.get(own.makeNvMatmulHeuristicsProblem(*shape, layout), 1, gpu)[0]
    problem, chosen = (ctypes.byref(best[name]) for name in ("nvmmhMatmulProblem", "nvmmhKernelConfiguration"))
    estimate = own.nvMatmulHeuristicsEstimateSiliconMetricEx
    told = [estimate(own.handle, b"HSH", backend, problem, chosen, ctypes.c_int(each), gpu)
            for each in (metric.GMEM_LOAD_BYTES, metric.GMEM_STORE_BYTES)]
    tile = best["kernel"]
    block = f"{tile.cta_tile_m}x{tile.cta_tile_n}x{tile.cta_tile_k}"
    found.append([block, tile.split_k, best["runtime"], sum(told)])
print(json.dumps(found), flush=True)
os._exit(0)  # its clean-up may fail
"""
GPUS = {"a100": "A100_SXM_80GB", "h100": "H100_SXM"}


@dataclass(frozen=True)
class Choice:
    """A block, into how many parts its reduction is split, estimated seconds, and bytes of device memory."""

    block: str
    splits: int
    seconds: float
    moved: float

    def text(self, instances: int, arch: pm.Architecture, hertz: float) -> str:
        """Return it as a part of a row."""
        peak = prod(fanout.size for fanout in arch.fanouts) * arch.compute.per_cycle * hertz
        share = instances / peak / self.seconds
        return f"heuristics {self.block} split {self.splits}, peak {share:4.0%}, {self.moved:,.0f} B"


def block_of(mapping: pm.Mapping, sizes: dict[str, int]) -> tuple[dict[str, int], int, int]:
    """Return the tile of one SM inside of the loops that spread it, how many SMs work, and in how many waves."""
    loops = [node for node in mapping.nodes if isinstance(node, pm.Temporal | pm.Spatial)]
    spread = [n for n, loop in enumerate(loops) if isinstance(loop, pm.Spatial) and loop.fanout == "SM"]
    tile, used, waves = dict(sizes), 1, 1
    for number, loop in enumerate(loops[: max(spread, default=-1) + 1]):
        trips = -(-tile[loop.dim] // loop.tile)
        tile[loop.dim] = loop.tile
        used *= trips if number in spread else 1
        waves *= trips if isinstance(loop, pm.Temporal) else 1
    return tile, used, waves


def chosen_elsewhere(python: str, gpu: str) -> list[Choice]:
    """Return per shape what NVIDIA's heuristics choose."""
    asked = json.dumps({"gpu": GPUS[gpu], "shapes": SHAPES})
    found = subprocess.run([python, "-c", ELSEWHERE], input=asked, capture_output=True, text=True, check=True)
    return [Choice(*each) for each in json.loads(found.stdout.splitlines()[-1])]


def figures(found: pm.SearchResult, arch: pm.Architecture, sizes: dict[str, int]) -> str:
    """Return a row's figures of the mapping that was found."""
    assert found.best is not None, "there is one"
    assert found.cost is not None, "which is legal"
    tile, used, waves = block_of(found.best, sizes)
    cycles = found.cost.latency_cycles
    outer = [row for row in found.cost.traffic if row.level == arch.levels[0].name]
    moved = sum(row.reads + row.writes for row in outer)
    least = sum(sizes[one] * sizes[other] for one, other in ("mk", "kn", "mn"))
    peak = prod(fanout.size for fanout in arch.fanouts) * arch.compute.per_cycle
    block = "x".join(str(tile[dim]) for dim in "mnk")
    return (
        f"{block:>16} {used:4} SMs {waves:5} waves {cycles:12,} cycles, gap {found.gap:6.1%}, "
        f"peak {prod(sizes.values()) / peak / cycles:4.0%}, {2 * moved:15,} B = {moved / least:.2f}x, "
        f"{found.cost.bottleneck}"
    )


def main() -> None:
    """Print a row per machine and product, and a summary per machine."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--machines", nargs="+", default=list(HERTZ), choices=list(HERTZ))
    parser.add_argument("--limit", type=float, default=1.0)
    parser.add_argument("--heuristics")
    parser.add_argument("--then-bytes", action="store_true")
    asked = parser.parse_args()
    for name in asked.machines:
        arch, gaps = pm.load_arch(name), list[float]()
        others = chosen_elsewhere(asked.heuristics, name) if asked.heuristics and name in GPUS else []
        binding = Counter[str]()
        objective = f"lex:latency,traffic:{arch.levels[0].name}" if asked.then_bytes else "latency"
        for number, (m, n, k) in enumerate(SHAPES):
            workload = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=m, n=n, k=k, bits=16)
            found = search(workload, arch, objective, "divide", time_limit_s=asked.limit, clock=cpu_clock())
            row = f"{name} {m:6} {n:6} {k:6} {found.status:9} "
            if found.cost is not None and found.gap is not None:
                gaps.append(float(found.gap))
                binding[found.cost.bottleneck] += 1
                row += figures(found, arch, workload.extents())
            if others:
                row += f" | {others[number].text(m * n * k, arch, HERTZ[name])}"
            print(row, flush=True)
        proven = sum(gap == 0 for gap in gaps)
        print(f"{name}: {proven} of {len(gaps)} proven, median gap {median(gaps):.1%}; what binds: {dict(binding)}")


if __name__ == "__main__":
    main()
