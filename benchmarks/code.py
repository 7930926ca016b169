"""Generated C against oneDNN, OpenBLAS and plain loops: milliseconds, and polymap's speed as a ratio of the best other.

    python benchmarks/code.py [--torch VENV/bin/python] [--only WORD ...] [--layouts NHWC NCHW] [--threads 1 2]
                              [--seconds 2] [--clock cpu]

`make bench-code` makes the environment of torch (benchmarks/contestants/requirements.txt) and runs all. Every
contestant is a process of its own, called as its users call it, weights packed ahead where it can: polymap by gcc and
clang, torch (oneDNN; the best of its ways), numpy with each OPENBLAS_CORETYPE that runs here, naive loops under gcc -O3
-march=native -ffast-math. Rounds of short samples are interleaved; the 10th percentile of all samples counts, since
minima exceed the peak on virtual machines. `--clock cpu` counts processor time: for one thread, on a
machine that others use too, where calls of many milliseconds are interrupted. Results are compared by their sums. A
contestant without a layer is left out of its line.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.contestants.layers import LAYERS, Layer

HERE = Path(__file__).parent / "contestants"
ROUNDS = 8
SPIN_S = 0.25  # OpenMP of clang keeps its threads busy for 0.2 s after a loop, and a core from the next contestant
CORE_TYPES = ("", "SkylakeX", "Cooperlake", "Sapphirerapids", "Haswell")


@dataclass
class Contestant:
    """A process that computes layers. times: variant -> samples in seconds of the layer asked last."""

    name: str
    process: subprocess.Popen[str]
    times: dict[str, list[float]] = field(default_factory=dict)
    check: dict[str, list[float]] = field(default_factory=dict)

    def ask(self, question: dict[str, object]) -> dict[str, Any]:
        """Return the answer to one line."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"error": ["the process ended"]}

    @property
    def best(self) -> float:
        """Return the 10th percentile of the fastest variant, infinite without one."""
        return min((sorted(each)[len(each) // 10] for each in self.times.values() if each), default=math.inf)


def started(name: str, script: str, python: str, threads: int, **variables: str) -> Contestant:
    """Return a contestant whose process runs."""
    environment = {**os.environ, **variables}
    environment |= {name: str(threads) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
    command = [python, str(HERE / script)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment)
    return Contestant(name, process)


def contestants(torch: str | None, threads: int) -> list[Contestant]:
    """Return the processes, polymap's first."""
    own = [("gcc", "polymap gcc"), ("clang", "polymap clang")]
    found = [started(name, "ours.py", sys.executable, threads, CC=cc) for cc, name in own if shutil.which(cc)]
    found.append(started("naive", "plain.py", sys.executable, threads))
    for core in CORE_TYPES:
        variables = {"OPENBLAS_CORETYPE": core} if core else {}
        found.append(started(f"openblas {core or 'default'}", "blas.py", sys.executable, threads, **variables))
    if torch is not None:
        found.append(started("onednn", "onednn.py", torch, threads))
    return found


def measure(all_of_them: list[Contestant], layer: str, layout: str, threads: int, options: argparse.Namespace) -> None:
    """Let every contestant compute a layer, in turns."""
    for each in all_of_them:
        answer = each.ask({"layer": layer, "layout": layout, "threads": threads})
        each.times = {name: [] for name in answer.get("variants", ())}  # type: ignore[union-attr]
        each.check = answer.get("check", {})  # type: ignore[assignment]
        if "error" in answer:
            print(f"  {each.name} has no {layer}: {answer['error']}")
    for _ in range(ROUNDS):
        for each in all_of_them:
            if threads > 1:
                time.sleep(SPIN_S)
            if each.times:
                for name, samples in each.ask({"seconds": options.seconds / ROUNDS, "clock": options.clock}).items():
                    each.times[name] += samples
    known = [sums for each in all_of_them for sums in each.check.values()]
    for each in all_of_them:
        for name, sums in each.check.items():
            wrong = not math.isclose(sums[1], known[0][1], rel_tol=1e-4)
            assert not wrong, f"{each.name} ({name}) computes something else: {sums}, {known[0]}"


def groups(all_of_them: list[Contestant]) -> dict[str, float]:
    """Return the seconds of each column: the core types of OpenBLAS are one."""
    found: dict[str, float] = {}
    for each in all_of_them:
        name = "openblas" if each.name.startswith("openblas") else each.name
        found[name] = min(found.get(name, math.inf), each.best)
    return found


def table(layout: str, threads: int, options: argparse.Namespace) -> None:
    """Print the lines of one layout and number of threads, and the geometric means of the ratios."""
    torch = shutil.which(options.torch) if options.torch else None
    all_of_them = contestants(torch, threads)
    names = list(dict.fromkeys("openblas" if each.name.startswith("openblas") else each.name for each in all_of_them))
    own = [name for name in names if name.startswith("polymap")]
    print(f"\n{layout}, {threads} thread(s): ms per call; best other / polymap (1 and more: polymap is as fast)")
    print(
        f"{'layer':20}"
        + "".join(f"{name:>15}" for name in names)
        + "".join(f"{'ratio ' + name[8:]:>13}" for name in own)
    )
    ratios: dict[str, list[float]] = {name: [] for name in own}
    for layer, shape in LAYERS.items():
        if (options.only and not any(word in layer for word in options.only)) or (
            layout != options.layouts[0] and not isinstance(shape, Layer)
        ):
            continue
        measure(all_of_them, layer, layout, threads, options)
        times = groups(all_of_them)
        other = min(seconds for name, seconds in times.items() if name not in own)
        cells = "".join(f"{1e3 * times[name]:15.4f}" if math.isfinite(times[name]) else f"{'-':>15}" for name in names)
        line = f"{layer:20}{cells}"
        for name in own:
            ratio = other / times[name]
            ratios[name].append(ratio)
            line += f"{ratio:13.2f}"
        print(line, flush=True)
    for name, each in ratios.items():
        if each and min(each) > 0:
            mean = math.exp(sum(map(math.log, each)) / len(each))
            print(f"{name}: geometric mean {mean:.3f}, least {min(each):.2f}, over {len(each)} layers")
    for each in all_of_them:
        each.process.stdin.close()  # type: ignore[union-attr]
        each.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", help="Python of an environment with torch")
    parser.add_argument("--only", nargs="+", help="layers whose name holds one of these words")
    parser.add_argument("--layouts", nargs="+", default=["NHWC", "NCHW"], choices=["NHWC", "NCHW"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=2, help="for each contestant and layer")
    parser.add_argument("--clock", default="wall", choices=["wall", "cpu"])
    options = parser.parse_args()
    for threads in options.threads:
        for layout in options.layouts:
            table(layout, threads, options)


if __name__ == "__main__":
    main()
