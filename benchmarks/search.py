"""The search, side by side with its peers: value, bound, status, CPU seconds (start-up included), peak memory.

Every case runs in a process of its own, on one worker, so that CPU and memory are its own.
Run: python benchmarks/search.py [--limit SECONDS] [CASE ...]      (a CASE is the beginning of a name)
Peers' figures: benchmarks/peers/peers.json and `more_cases`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polymap.ir.loopnest import Workload
    from polymap.ir.machine import Architecture

PEERS_FILE = Path(__file__).parent / "peers" / "peers.json"


@dataclass(frozen=True)
class Case:
    """A question. workload, arch: documents, or names of built-in ones; keep: every level holds every tensor."""

    name: str
    workload: dict[str, object] | str
    arch: dict[str, object] | str
    objective: str = "energy"
    tiles: str = "divide"
    keep: bool = False
    peer: str = ""


def gemm(m: int, n: int, k: int) -> dict[str, object]:
    """Return the document of a matrix product of bytes."""
    return {"name": f"gemm_{m}x{n}x{k}", "einsum": "C[m,n] += A[m,k] * B[k,n]", "sizes": {"m": m, "n": n, "k": k}}


def conv(k: int, c: int, p: int) -> dict[str, object]:
    """Return the document of a 3x3 convolution of bytes, stride 1."""
    sizes = {"n": 1, "k": k, "c": c, "p": p, "q": p, "r": 3, "s": 3}
    text = "O[n,k,p,q] += I[n,c,p+r,q+s] * W[k,c,r,s]"
    return {"name": f"conv_{k}x{c}x{p}x{p}", "einsum": text, "sizes": sizes}


def peer_cases() -> list[Case]:
    """Return the cases of peers.json."""
    found: list[Case] = []
    for entry in json.loads(PEERS_FILE.read_text(encoding="utf-8"))["cases"]:
        value = "no answer" if entry["peer_value"] is None else f"{entry['peer_value']:.10g}"
        said = f"{value} in {entry['peer_cpu_s']} s ({re.split(r'[(:;,]', entry['peer'])[0].strip()})"
        found.append(Case(entry["id"], entry["workload"], entry["arch"], entry["objective"], peer=said))
    return found


def more_cases() -> list[Case]:
    """Return cases beyond peers.json. Peers: AccelForge 1.0.467 (measured on this project's class of machine)."""
    small, large, layer = gemm(512, 256, 32), gemm(4096, 4096, 4096), conv(64, 64, 56)
    return [
        Case("gemm_cluster4_keep", small, "cluster4", keep=True, peer="same value in 178.5 s (AccelForge)"),
        Case("gemm_cluster4", small, "cluster4"),
        Case("gemm4096_flat3_keep", large, "flat3", keep=True, peer="1.9 % higher in 4.4 s (AccelForge)"),
        Case("gemm4096_flat3", large, "flat3"),
        Case("gemm_flat3_keep_edp", small, "flat3", "edp", keep=True, peer="higher in 11.6 s (AccelForge)"),
        Case("gemm_flat3_latency", small, "flat3", "latency"),
        Case("gemm_flat3_glb_traffic", small, "flat3", "traffic:GLB"),
        Case("resnet3x3_flat3", layer, "flat3", peer="no answer after 200 s (AccelForge)"),
        Case("resnet3x3_flat3_keep_edp", layer, "flat3", "edp", keep=True),
        Case("resnet3x3_eyeriss", "resnet50.conv2_x", "eyeriss_like"),
        Case("gemm127_flat3_keep_any", gemm(127, 127, 127), "flat3", tiles="any", keep=True, peer="none (AccelForge)"),
    ]


def built(case: Case) -> tuple[Workload, Architecture]:
    """Return the workload and machine of a case."""
    import polymap as pm

    workload = (
        pm.io.builtin_workload(case.workload)
        if isinstance(case.workload, str)
        else pm.io.workload_from_document(case.workload)
    )
    arch = pm.load_arch(case.arch) if isinstance(case.arch, str) else pm.io.arch_from_document(case.arch)
    if case.keep:
        document: dict[str, Any] = pm.io.arch_to_document(arch)
        names = [tensor.name for tensor in workload.tensors]
        levels = [node for node in document["nodes"] if "level" in node]
        for level in levels[1:]:
            level["must_hold"] = names
        arch = pm.io.arch_from_document({**document, "name": f"{arch.name}_keep"})
    return workload, arch


def cpu_clock() -> Callable[[], float]:
    """Return a clock of this process's CPU seconds, read at most every 20 ms: reading it is slow on some systems."""
    seen = {"wall": time.monotonic(), "cpu": time.process_time()}

    def now() -> float:
        wall = time.monotonic()
        if wall > seen["wall"] + 0.02:
            seen.update(wall=wall, cpu=time.process_time())
        return seen["cpu"]

    return now


def answer(case: Case, limit_s: float) -> dict[str, object]:
    """Return what the search says of a case."""
    import polymap as pm
    from polymap.explore import search

    workload, arch = built(case)
    # A clock of CPU seconds: a busy machine ends no search early.
    result = search(workload, arch, case.objective, case.tiles, time_limit_s=limit_s, clock=cpu_clock())
    same = result.best is None or pm.evaluate(workload, arch, result.best) == result.cost
    return {
        "status": result.status,
        "value": result.value,
        "bound": result.bound,
        "gap": result.gap,
        "seconds": result.seconds,
        "same": same,
        "dividing": None if result.dividing is None else result.dividing.value,
    }


def run_child(
    script: Path, name: str, limit_s: float, extra: Sequence[str] = ()
) -> tuple[dict[str, object], float, float]:
    """Return (answer, CPU seconds, peak MB) of a fresh process that answers one case of a script."""
    with tempfile.TemporaryFile() as output:
        command = [sys.executable, str(script), "--child", name, "--limit", str(limit_s), *extra]
        actions = [(os.POSIX_SPAWN_DUP2, output.fileno(), 1)]
        process = os.posix_spawn(sys.executable, command, os.environ, file_actions=actions)
        _, status, usage = os.wait4(process, 0)
        output.seek(0)
        text = output.read().decode()
    said: dict[str, object] = (
        json.loads(text) if status == 0 else {"status": f"exit {os.waitstatus_to_exitcode(status)}"}
    )
    return said, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def shown(value: object) -> str:
    """Return a number in at most 16 characters."""
    if value is None:
        return "-"
    if isinstance(value, int | float):
        return f"{value:,.0f}" if abs(value) < 1e12 else f"{value:.7g}"
    return str(value)


def report(cases: list[Case], limit_s: float) -> bool:
    """Print the table, a line as soon as it is known; return whether every answer evaluates to what it claims."""
    print(f"dividing tiles unless named `any`; one worker; limit {limit_s:g} CPU s per case")
    print(f"{'case':26}{'value':>18}{'bound':>18} {'status':9}{'gap %':>7}{'CPU s':>8}{'MB':>6}  peer")
    fine = True
    for case in cases:
        said, cpu_s, megabytes = run_child(Path(__file__), case.name, limit_s)
        gap = said.get("gap")
        percent = "-" if not isinstance(gap, int | float) else f"{100 * gap:.2f}"
        print(
            f"{case.name:26}{shown(said.get('value')):>18}{shown(said.get('bound')):>18} {said['status']!s:9}"
            f"{percent:>7}{cpu_s:>8.2f}{megabytes:>6.0f}  {case.peer}",
            flush=True,
        )
        fine = fine and bool(said.get("same"))
    return fine


def main() -> None:
    parser = argparse.ArgumentParser(description="the search, side by side with its peers")
    parser.add_argument("cases", nargs="*", help="names, or their beginnings; all where none is given")
    parser.add_argument("--limit", type=float, default=60, help="CPU seconds per case")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    cases = [*peer_cases(), *more_cases()]
    if options.child:
        case = next(case for case in cases if case.name == options.child)
        print(json.dumps(answer(case, options.limit)))
        return
    wanted = [case for case in cases if not options.cases or case.name.startswith(tuple(options.cases))]
    if not report(wanted, options.limit):
        sys.exit("an answer's mapping does not evaluate to the cost that was claimed")


if __name__ == "__main__":
    main()
