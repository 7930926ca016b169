"""What searches without proof miss: their best mapping against the proven optimum, on the same evaluator.

Run: python -m benchmarks.baselines [--budget MAPPINGS] [--seeds N]
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import polymap as pm
from benchmarks.heuristics.methods import Method, baseline

CASES = (
    ("gemm 512x256x32", "flat3", "energy"),
    ("gemm 512x256x32", "simple3", "edp"),
    ("resnet50.conv2_x", "eyeriss_like", "energy"),
    ("bert_base.scores", "flat3", "energy"),
)
SEARCHES = (Method.RANDOM, Method.HILL_CLIMBING, Method.SIMULATED_ANNEALING, Method.GENETIC)


def workload_of(name: str) -> pm.Workload:
    if name in pm.io.builtin_names():
        return pm.io.builtin_workload(name)
    return pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=512, n=256, k=32)


def report(budget: int, seeds: int) -> None:
    print(f"dividing tiles; value over the proven optimum; {budget} mappings scored, {seeds} seeds")
    print(
        f"{'case':18}{'machine':14}{'objective':10}{'method':21}{'best':>7}{'median':>8}{'worst':>7}{'CPU s each':>12}"
    )
    for name, machine, objective in CASES:
        workload, arch = workload_of(name), pm.load_arch(machine)
        optimum = pm.explore(workload, arch, objective, tiles="divide", time_limit_s=300)
        assert optimum.status == "OPTIMAL"
        assert optimum.value is not None
        for method in Method:
            began = time.process_time()
            tried = range(seeds if method in SEARCHES else 1)
            found = [baseline(workload, arch, method.value, objective, "divide", budget, seed) for seed in tried]
            cpu_s = (time.process_time() - began) / len(found)
            ratios = [float(one.value) / optimum.value for one in found if one.value is not None]
            assert all(ratio >= 1 for ratio in ratios), f"{method} found less than the proven optimum of {name}"
            shown = (min(ratios), median(ratios), max(ratios)) if ratios else (float("inf"),) * 3
            print(
                f"{name:18}{machine:14}{objective:10}{method.value:21}"
                f"{shown[0]:>7.3f}{shown[1]:>8.3f}{shown[2]:>7.3f}{cpu_s:>12.2f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description="what searches without proof miss")
    parser.add_argument("--budget", type=int, default=1000, help="mappings scored per run")
    parser.add_argument("--seeds", type=int, default=5, help="runs per method")
    options = parser.parse_args()
    report(options.budget, options.seeds)


if __name__ == "__main__":
    main()
