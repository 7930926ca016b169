"""Certificates: CPU seconds of the search, of writing its proof and of checking it, and what is proven.

Run: python benchmarks/certificates.py [--seconds LIMIT_OF_EACH] [CASE ...]
A case is WORKLOAD@MACHINE,OBJECTIVE or, of a bound over tiles of any size, WORKLOAD@MACHINE,OBJECTIVE,any; machines
ending in +keep hold every tensor at every level. convCHANNELSxSIZE is a 3 x 3 convolution, `long` a machine whose
memory costs little and is slow: the least energy and the least latency are of different mappings.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from typing import Any

import polymap as pm

CASES = (
    "gemm@flat3,energy",
    "gemm@flat3+keep,energy",
    "gemm@flat3,edp",
    "gemm@flat3+keep,edp",
    "gemm4096@flat3+keep,energy",
    "gemm@cluster4,energy",
    "gemm@cluster4+keep,energy",
    "resnet50.conv2_x@eyeriss_like,energy",
    "resnet50.conv2_x@eyeriss_like,edp",
    "resnet50.conv2_x@flat3,energy",
    "resnet50.conv2_x@flat3+keep,energy",
    "resnet50.conv4_x@eyeriss_like,energy",
    "resnet50.conv3_first@eyeriss_like,energy",
    "conv16x8@long,edp",
    "conv512x28@long,edp",
    "resnet50.conv2_x@eyeriss_like,energy,any",
    "resnet50.conv2_x@simba_like,energy,any",
    "resnet50.conv4_x@eyeriss_like,energy,any",
    "vgg16.conv4_x@eyeriss_like,energy,any",
)
LONG: dict[str, object] = {
    "name": "long",
    "nodes": [
        {"level": "DRAM", "word_bits": 64, "read_pj": 2.123457, "write_pj": 2.987654, "bandwidth_bits_per_cycle": 128},
        {
            "level": "GLB",
            "capacity_bits": 1 << 20,
            "word_bits": 16,
            "read_pj": 1.234567,
            "write_pj": 1.345679,
            "bandwidth_bits_per_cycle": 512,
        },
        {"fanout": "X", "size": 16},
        {"level": "RF", "capacity_bits": 4096, "word_bits": 16, "read_pj": 1.012346, "write_pj": 1.098765},
        {"compute": "MAC", "pj": 0.987653},
    ],
}


def workload_of(name: str) -> pm.Workload:
    if name in pm.io.builtin_names():
        return pm.io.builtin_workload(name)
    if name.startswith("conv"):
        channels, size = map(int, name[4:].split("x"))
        sizes = {"k": channels, "c": channels, "p": size, "q": size, "r": 3, "s": 3}
        return pm.einsum("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", bits=8, sizes=sizes)
    if name == "gemm4096":
        return pm.matmul(m=4096, n=4096, k=4096)
    return pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=512, n=256, k=32)


def machine_of(name: str) -> pm.Architecture:
    preset, _, keep = name.partition("+")
    arch = pm.io.arch_from_document(LONG) if preset == "long" else pm.load_arch(preset)
    every = ("@input", "@weight", "@output")
    first, *rest = arch.nodes
    held = [replace(n, must_hold=every) if keep and isinstance(n, pm.MemoryLevel) else n for n in rest]
    return replace(arch, nodes=(first, *held))


def report(cases: list[str], seconds: float) -> None:
    heads = f"{'search s':>10}{'write s':>9}{'check s':>9}{'structures':>12}{'not proven':>12}"
    print(f"{'case':42}{'value':>20}{heads}  (any sizes: gap)")
    for case in cases:
        at, objective, *sizes = case.split(",")
        name, machine = at.split("@")
        began, tiles = time.process_time(), "any" if sizes else "divide"
        found = pm.explore(workload_of(name), machine_of(machine), objective, tiles=tiles, time_limit_s=seconds)
        searched = time.process_time()
        if found.status != "OPTIMAL" and not sizes:
            print(
                f"{case:42}{found.value or 0:>20,.0f}{searched - began:>10.1f}  {found.status}: gap {found.gap}",
                flush=True,
            )
            continue
        text = found.certificate()
        written = time.process_time()
        verdict = checked(text, 10 * seconds)
        assert not verdict["reason"], verdict["reason"]
        gap = f"{100 * (1 - verdict['bound'] / verdict['value']):.2f} %" if sizes else len(verdict["unproven"])
        print(
            f"{case:42}{verdict['value']:>20,.0f}{searched - began:>10.1f}{written - searched:>9.1f}"
            f"{verdict['seconds']:>9.1f}{verdict['structures']:>12,}{gap:>12}",
            flush=True,
        )


def checked(text: str, seconds: float) -> dict[str, Any]:
    """Return the verdict of a process of its own: nothing is left in memory from the writing."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        command = [sys.executable, "-m", "polymap", "verify", file.name, "--time-limit", str(seconds), "--json", "-"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description="what proofs take to write and to check")
    parser.add_argument("--seconds", type=float, default=120, help="limit of each search")
    parser.add_argument("cases", nargs="*", default=list(CASES))
    options = parser.parse_args()
    report(options.cases, options.seconds)


if __name__ == "__main__":
    main()
