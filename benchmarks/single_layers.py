"""Single layers over dividing tiles: how good the best mapping is after some CPU seconds, and how long a proof takes.

    python benchmarks/single_layers.py [CASE ...] [--limit SECONDS] [--presets MACHINE ...]

A row per case: how far the best mapping after 0.5, 1, 2, 5 and 10 CPU seconds is above the last one (none: no mapping
yet), CPU seconds until it was proven (or the gap when the limit ended the search), structures, nodes of the search.
Seconds count from the question on, start-up is left out. CASE: the beginning of a name below. MACHINE: every layer of
the built-in networks below on a preset instead.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))
from benchmarks.search import conv, cpu_clock, gemm, run_child, shown

if TYPE_CHECKING:
    from polymap.search import Progress

MARKS = (0.5, 1, 2, 5, 10)


@dataclass(frozen=True)
class Case:
    """A question for the least energy. workload: a document, or the name of a built-in one; arch: a preset."""

    workload: dict[str, Any] | str
    arch: str

    @property
    def name(self) -> str:
        name = self.workload if isinstance(self.workload, str) else self.workload["name"]
        return f"{name}@{self.arch}"


CONVOLUTIONS = (
    *(f"resnet50.{name}" for name in ("conv1", "conv2_x", "conv3_first", "conv3_x", "conv4_x", "conv5_x")),
    *(f"vgg16.conv{name}" for name in ("1_1", "1_2", "2_1", "2_2", "3_1", "3_x", "4_1", "4_x", "5_x")),
    *(f"alexnet.conv{number}" for number in range(1, 6)),
)
PRODUCTS = (
    *(f"bert_base.{name}" for name in ("projection", "scores", "context", "ffn_up", "ffn_down")),
    "gpt2.mlp_up",
    "resnet50.conv4_expand",
)
CASES = (
    Case(gemm(2048, 14336, 4096), "simba_like"),
    Case("bert_base.ffn_up", "simba_like"),
    *(Case(f"resnet50.{name}", "cluster4") for name in ("conv2_x", "conv3_x", "conv4_x", "conv5_x")),
    *(Case(f"vgg16.conv{name}", "cluster4") for name in ("1_1", "2_2", "3_x", "4_1", "5_x")),
    *(Case(f"alexnet.conv{number}", "cluster4") for number in (1, 2, 3, 5)),
    *(Case(name, "tpu_like") for name in ("vgg16.conv3_1", "resnet50.conv3_first", "vgg16.conv4_x")),
    Case(conv(64, 64, 56), "tpu_like"),
)


def answer(case: Case, limit_s: float) -> dict[str, object]:
    """Return what the search says of a case."""
    import polymap as pm
    from polymap.explore import search

    search("resnet50.conv1", "flat3", tiles="divide", work_limit=1)  # what is imported when it is first used
    own = case.workload
    workload = pm.io.builtin_workload(own) if isinstance(own, str) else pm.io.workload_from_document(own)
    arch, begun = pm.load_arch(case.arch), time.process_time()
    history: list[tuple[float, float]] = []

    def note(progress: Progress) -> None:
        if progress.value is not None and (not history or progress.value != history[-1][1]):
            history.append((time.process_time() - begun, float(progress.value)))

    found = search(workload, arch, tiles="divide", time_limit_s=limit_s, clock=cpu_clock(), on_progress=note)
    spent, last = time.process_time() - begun, float(found.value or 0)
    best = {mark: min((value for at, value in history if at <= mark), default=None) for mark in MARKS}
    if spent < MARKS[-1]:
        best = {mark: last if spent <= mark else value for mark, value in best.items()}
    above = [None if value is None else value / last - 1 for value in best.values()]
    space = found.space
    return {
        "status": found.status,
        "value": last,
        "gap": found.gap,
        "above": above,
        "spent": spent,
        "structures": space.listed,
        "evaluated": space.evaluated,
    }


def report(cases: tuple[Case, ...], limit_s: float) -> None:
    """Print a row per case, as soon as it is known."""
    marks = "".join(f"{f'{mark:g} s':>8}" for mark in MARKS)
    print(f"energy, tiles that divide, one worker, limit {limit_s:g} CPU s; above the last value after")
    print(f"{'case':36}{'value':>18}{marks}{'proven s':>9}{'gap %':>7}{'structures':>11}{'searched':>9}")
    for case in cases:
        said: dict[str, Any] = run_child(Path(__file__), json.dumps([case.workload, case.arch]), limit_s)[0]
        if "spent" not in said:
            print(f"{case.name:36}{said['status']!s:>18}", flush=True)
            continue
        above = "".join(f"{'none' if one is None else f'{100 * one:.1f}%':>8}" for one in said["above"])
        proven = f"{said['spent']:9.2f}{'':7}" if said["status"] == "OPTIMAL" else f"{'-':>9}{100 * said['gap']:7.2f}"
        print(
            f"{case.name:36}{shown(said['value']):>18}{above}{proven}{said['structures']:>11}{said['evaluated']:>9}",
            flush=True,
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--limit", type=float, default=60)
    parser.add_argument("--presets", nargs="+", default=[])
    parser.add_argument("--child", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(answer(Case(*json.loads(asked.child)), asked.limit)))
        return
    cases = tuple(Case(name, arch) for arch in asked.presets for name in (*CONVOLUTIONS, *PRODUCTS)) or CASES
    chosen = tuple(case for case in cases if not asked.cases or case.name.startswith(tuple(asked.cases)))
    report(chosen, asked.limit)


if __name__ == "__main__":
    main()
