"""ResNet-50 and BERT on a grid of flat3 machines: how many rows need a search, and the processor time.

    python benchmarks/machine_sweep.py [--whole] [--front-only] [--time-limit S] [--objective energy] [--workers N]
        [--store FILE]

The whole grid has 1,000 machines: 10 capacities of GLB, 5 of RF, 4 sizes of X, 5 bandwidths of DRAM. Without --whole it
is 100 of them (5 x 5 x 2 x 2). The processor time is that of all processes.
"""

from __future__ import annotations

import argparse
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack

import polymap as pm
from polymap.networks.columns import Provenance

GRID = {
    "GLB.capacity_bits": [65536 << power for power in range(10)],
    "RF.capacity_bits": [512, 1024, 2048, 4096, 8192],
    "X.size": [4, 8, 16, 32],
    "DRAM.bandwidth_bits_per_cycle": [32, 64, 128, 256, 512],
}
PART = {
    "GLB.capacity_bits": GRID["GLB.capacity_bits"][::2],
    "RF.capacity_bits": GRID["RF.capacity_bits"],
    "X.size": [8, 16],
    "DRAM.bandwidth_bits_per_cycle": [64, 128],
}


def main() -> None:
    """Run the sweep of the command line and print where its rows come from."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--front-only", action="store_true")
    parser.add_argument("--time-limit", type=float, default=10)
    parser.add_argument("--objective", default="energy")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--store")
    options = parser.parse_args()
    begun = time.monotonic()
    with ExitStack() as stack:
        executor = stack.enter_context(ProcessPoolExecutor(options.workers)) if options.workers > 1 else None
        table = pm.sweep(
            ["resnet50", "bert_base"],
            {"base": "flat3", "grid": GRID if options.whole else PART},
            options.objective.split(","),
            tiles="divide",
            time_limit_s=options.time_limit,
            front_only=options.front_only,
            store=options.store,
            executor=executor,
        )
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    spent = sum(usage.ru_utime + usage.ru_stime for usage in usages)
    proven = sum(row.status == "OPTIMAL" for row in table.rows)
    counts = ", ".join(f"{table.count(how):,} {how.value}" for how in Provenance)
    print(f"{len(table.rows):,} rows: {counts}; {proven:,} proven; front of {len(table.front())}")
    print(f"{spent:,.0f} CPU s, {time.monotonic() - begun:,.0f} s")


if __name__ == "__main__":
    main()
