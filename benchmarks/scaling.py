"""How the time of a proof grows: with levels, dims, extents, for extents that are prime, for convolutions (the width of
their output, and levels), and with tiles of any size.

Each case runs in a process of its own, on one worker, for energy; CPU seconds include start-up. Tiles divide, but for
the series `any` (prime extents have no other tiles, and a series of them only shows that nothing is left to do).
Its table stands in docs/scaling.md, from which docs/pictures/scaling.py draws.
Run: python benchmarks/scaling.py [--limit SECONDS] [SERIES ...]
Series: levels dims extent primes width windows any.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.search import run_child, shown

SERIES = ("levels", "dims", "extent", "primes", "width", "windows", "any")


@dataclass(frozen=True)
class Case:
    """A question: x is what the series varies."""

    series: str
    x: int
    workload: dict[str, object]
    arch: dict[str, object]

    @property
    def name(self) -> str:
        return f"{self.series}:{self.x}"


def machine(levels: int) -> dict[str, object]:
    """Return a machine of so many levels, each inner one 16 times smaller, a fan-out of 16 above the innermost and
    (from four levels on) one of 16 above the level before."""
    nodes: list[dict[str, object]] = [{"level": "DRAM", "word_bits": 8, "read_pj": 200, "write_pj": 200}]
    for number in range(1, levels):
        inner = levels - 1 - number
        if inner == 0 or (inner == 1 and levels >= 4):
            nodes.append({"fanout": f"X{inner}", "size": 16})
        bits, energy = 4096 * 16**inner, [1, 3, 6, 12][inner]
        nodes.append(
            {"level": f"L{inner}", "capacity_bits": bits, "word_bits": 8, "read_pj": energy, "write_pj": energy}
        )
    return {"name": f"levels{levels}", "nodes": [*nodes, {"compute": "MAC", "pj": 1}]}


def gemm(extent: int, others: int = 64) -> dict[str, object]:
    """Return a matrix product with m = extent."""
    return {"einsum": "C[m,n] += A[m,k] * B[k,n]", "sizes": {"m": extent, "n": others, "k": others}}


def many_dims(count: int) -> dict[str, object]:
    """Return a product over so many dims of extent 8: a matrix product, then batch and further contracted dims."""
    sizes = dict.fromkeys("mnkbcdef"[:count], 8)
    out = ["m", "n", *("b" if count > 3 else "")]
    contracted = ["k", *"cdef"[: max(0, count - 4)]]
    left, right = ["m", *contracted, *out[2:]], [*contracted, "n", *out[2:]]
    return {"einsum": f"C[{','.join(out)}] += A[{','.join(left)}] * B[{','.join(right)}]", "sizes": sizes}


def convolution(width: int) -> dict[str, object]:
    """Return a 3x3 convolution of 64 channels to 64 with a square output."""
    sizes = {"k": 64, "c": 64, "p": width, "q": width, "r": 3, "s": 3}
    return {"einsum": "O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", "sizes": sizes}


def all_cases() -> list[Case]:
    """Return the cases of all series, each by rising x."""
    cases = [Case("levels", levels, gemm(256), machine(levels)) for levels in (2, 3, 4, 5)]
    cases += [Case("dims", dims, many_dims(dims), machine(3)) for dims in range(3, 9)]
    cases += [Case("extent", 1 << power, gemm(1 << power, 1 << power), machine(3)) for power in range(6, 15)]
    primes = (61, 127, 257, 521, 1031, 2053, 4099, 8209, 16411)
    cases += [Case("primes", prime, gemm(prime, prime), machine(3)) for prime in primes]
    cases += [Case("width", width, convolution(width), machine(3)) for width in (7, 14, 28, 56, 112, 224)]
    cases += [Case("windows", levels, convolution(28), machine(levels)) for levels in (2, 3, 4, 5)]
    cases += [Case("any", extent, gemm(extent, extent), machine(3)) for extent in (16, 61, 64, 127, 1024, 4099)]
    return cases


def structures_of(case: Case) -> int:
    """Return the number of structures (how loops are spread over fan-outs) that CP-SAT lists, symmetric ones once."""
    import polymap as pm
    from polymap.search.problem.problem import analyse
    from polymap.search.problem.structures import enumerate_structures
    from polymap.search.problem.symmetry import distinct_structures

    problem = analyse(pm.io.workload_from_document(case.workload), pm.io.arch_from_document(case.arch))
    return len(distinct_structures(problem, enumerate_structures(problem, lambda: False)[0]))


def answer(case: Case, limit_s: float) -> dict[str, object]:
    """Return what the search says of a case."""
    import polymap as pm
    from polymap.explore import search

    workload, arch = pm.io.workload_from_document(case.workload), pm.io.arch_from_document(case.arch)
    # A clock of CPU seconds: a busy machine ends no search early.
    result = search(
        workload,
        arch,
        "energy",
        "any" if case.series == "any" else "divide",
        time_limit_s=limit_s,
        clock=time.process_time,
    )
    return {
        "status": result.status,
        "value": result.value,
        "gap": result.gap,
        "legal": result.space.legal,
        "evaluated": result.space.evaluated,
        "pruned": result.space.pruned,
    }


def report(cases: list[Case], limit_s: float) -> None:
    """Print the table, a line as soon as it is known."""
    print(f"energy, one worker; tiles divide but in the series any; limit {limit_s:g} CPU s per case")
    print(f"{'series':8}{'x':>7}{'structures':>11}{'legal trees':>13}{'status':>10}{'gap %':>7}{'CPU s':>8}{'MB':>6}")
    for case in cases:
        said, cpu_s, megabytes = run_child(Path(__file__), case.name, limit_s)
        gap, legal = said.get("gap"), said.get("legal")
        percent = "-" if not isinstance(gap, int | float) else f"{100 * gap:.2f}"
        trees = f"{legal:.1e}" if isinstance(legal, int) and legal < 1 << 1000 else shown(legal)
        print(
            f"{case.series:8}{case.x:>7}{structures_of(case):>11,}{trees:>13}{said['status']!s:>10}{percent:>7}"
            f"{cpu_s:>8.2f}{megabytes:>6.0f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="how the time of a proof grows")
    parser.add_argument("series", nargs="*", choices=[*SERIES, []], help="all where none is given")
    parser.add_argument("--limit", type=float, default=30, help="CPU seconds per case")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    cases = all_cases()
    if options.child:
        case = next(case for case in cases if case.name == options.child)
        json.dump(answer(case, options.limit), sys.stdout)
        return
    report([case for case in cases if not options.series or case.series in options.series], options.limit)


if __name__ == "__main__":
    main()
