"""Programs of several nests beside the best fused trees that are known: `python -m benchmarks.chains [SECONDS]`.

Known: the least values of fused trees in which results start at zero without being set (a search over the fused trees
of two products; ours, 2026). CPU seconds: until the answer.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import polymap as pm
from polymap.explore import search
from polymap.ir import Architecture

PAIR = ("T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]")


@dataclass(frozen=True, slots=True)
class Case:
    """A chain of two products on a machine, and the least value known."""

    name: str
    sizes: dict[str, int]
    arch: Architecture
    objective: str
    known: int
    tiles: str = "divide"


def one_buffer(words: int) -> Architecture:
    """Return a machine of one buffer of so many words of 8 bits."""
    nodes = [
        {"level": "DRAM", "word_bits": 8, "read_pj": 100, "write_pj": 100},
        {"level": "GLB", "word_bits": 8, "capacity_bits": 8 * words, "read_pj": 1, "write_pj": 1},
        {"compute": "MAC", "pj": 1},
    ]
    return pm.io.arch_from_document({"name": f"{words} words", "nodes": nodes})


def cases() -> list[Case]:
    flat, square = pm.load_arch("flat3"), {"m": 64, "n": 64, "k": 64, "p": 64}
    pair, attention = {"m": 512, "n": 256, "k": 32, "p": 32}, {"m": 512, "n": 512, "k": 64, "p": 64}
    return [
        Case("64^3 twice", square, one_buffer(73), "traffic:DRAM", 8 * 139_264),
        Case("pair 512 x 256 x 32", pair, flat, "energy", 35_373_056),
        Case("attention 512 x 512 x 64", attention, flat, "energy", 129_761_280),
        Case("attention, 4,129 words", attention, one_buffer(4_129), "traffic:DRAM", 8 * 1_114_112, "any"),
        Case("attention, 16,512 words", attention, one_buffer(16_512), "traffic:DRAM", 8 * 393_216, "any"),
    ]


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    print(f"{'chain':26} {'machine':14} {'value':>15} {'known':>15} {'ratio':>6} {'bound':>15} {'CPU s':>6}  status")
    for case in cases():
        work = pm.program(list(PAIR), sizes=case.sizes, temporary=["T"], bits=8)
        started = time.process_time()
        found = search(work, case.arch, case.objective, case.tiles, time_limit_s=seconds, clock=time.process_time)
        spent = time.process_time() - started
        value, bound = float(found.value or 0), float(found.bound or 0)
        print(
            f"{case.name:26} {case.arch.name:14} {value:15,.0f} {case.known:15,} {value / case.known:6.3f}"
            f" {bound:15,.0f} {spent:6.1f}  {found.status}"
        )


if __name__ == "__main__":
    main()
