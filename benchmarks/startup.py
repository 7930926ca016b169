"""CPU cost of `import polymap`, and of import + conv2d + one evaluate, against importing numpy and islpy alone.

Prints the ratio of medians over interleaved fresh processes, and the quartiles of the ratio within each round.
Run: python benchmarks/startup.py [ROUNDS]
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys

BASE = "import numpy, islpy"
IMPORT = "import polymap"
EVALUATE = """
import polymap as pm
layer = pm.conv2d(K=64, C=64, H=56, W=56, R=3, S=3, stride=1, padding=1)
arch = pm.load_arch("eyeriss_like")
nodes = [{"store": level.name, "tensors": ["W", "I", "O"]} for level in arch.levels[:1]]
nodes += [{"for": dim.name, "tile": 1} for dim in layer.dims if dim.extent > 1]
mapping = pm.io.mapping_from_document({"nodes": [*nodes, {"compute": layer.statements[0].name}]})
pm.evaluate(layer, arch, mapping)
"""
PROGRAMS = {"numpy and islpy": BASE, "import polymap": IMPORT, "import, conv2d, evaluate": EVALUATE}


def cpu_seconds(program: str) -> float:
    """Return user + system time of a fresh interpreter that runs the program."""
    before = os.times()
    subprocess.run([sys.executable, "-c", program], check=True)
    after = os.times()
    return (after.children_user - before.children_user) + (after.children_system - before.children_system)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=int, nargs="?", default=40, help="interleaved rounds (40)")
    rounds = parser.parse_args().rounds
    for program in PROGRAMS.values():  # once unmeasured: files in the page cache, bytecode written
        cpu_seconds(program)
    times: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for _ in range(rounds):
        for name, program in PROGRAMS.items():
            times[name].append(cpu_seconds(program))
    base = times["numpy and islpy"]
    print(f"{rounds} interleaved rounds, CPU seconds of a fresh process")
    for name, samples in times.items():
        ratios = sorted(sample / reference for sample, reference in zip(samples, base, strict=True))
        low, _, high = statistics.quantiles(ratios, n=4)
        ratio = statistics.median(samples) / statistics.median(base)
        print(
            f"{name:26} median {statistics.median(samples):.3f} s   ratio {ratio:.2f}   quartiles {low:.2f}-{high:.2f}"
        )


if __name__ == "__main__":
    main()
