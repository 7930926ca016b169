"""Every distinct layer of four networks on two machines: value, bound, gap, CPU seconds, and the wall time of all.

Dividing tiles; a pool of processes, a layer each. The longest layers start first, so that the processes end together.
Run: python benchmarks/networks.py [--workers N] [--limit SECONDS] [--objective OBJECTIVE] [LAYER ...]
(a LAYER is the beginning of a name)
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from dataclasses import dataclass

from benchmarks.search import cpu_clock

NETWORKS = ("resnet50", "mobilenet_v2", "vgg16", "bert_base")
MACHINES = ("eyeriss_like", "simba_like")


@dataclass(frozen=True)
class Question:
    """A layer on a machine."""

    layer: str
    machine: str
    objective: str
    limit_s: float


@dataclass(frozen=True)
class Answer:
    """value, bound: in pJ, cycles or pJ*cycle. cpu_s: of the search alone. peak_mb: of its process so far."""

    question: Question
    status: str
    value: float | None
    bound: float | None
    gap: float | None
    cpu_s: float
    peak_mb: float


def answered(question: Question) -> Answer:
    """Return what the search says of one layer on one machine."""
    import polymap as pm
    from polymap.explore import search

    began = time.process_time()
    workload, arch = pm.io.builtin_workload(question.layer), pm.load_arch(question.machine)
    # A clock of CPU seconds: a busy machine ends no search early.
    result = search(workload, arch, question.objective, "divide", time_limit_s=question.limit_s, clock=cpu_clock())
    if result.best is not None:
        assert pm.evaluate(workload, arch, result.best) == result.cost
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cpu_s = time.process_time() - began
    return Answer(question, result.status, result.value, result.bound, result.gap, cpu_s, peak)


def questions(starts: list[str], objective: str, limit_s: float) -> list[Question]:
    """Return the questions, those with the most statement instances first."""
    import polymap as pm

    names = [
        n for n in pm.io.builtin_names() if n.split(".")[0] in NETWORKS and (not starts or n.startswith(tuple(starts)))
    ]
    sizes: dict[str, int] = {}
    seen: set[str] = set()
    for name in names:
        document = pm.io.workload_to_document(pm.io.builtin_workload(name))
        shape = str({key: value for key, value in document.items() if key != "name"})
        if shape not in seen:
            seen.add(shape)
            sizes[name] = size_of(name)
    ordered = sorted(sizes, key=lambda name: (-sizes[name], name))
    return [Question(name, machine, objective, limit_s) for name in ordered for machine in MACHINES]


def size_of(name: str) -> int:
    """Return the statement instances of a layer."""
    import polymap as pm

    total = 1
    for dim in pm.io.builtin_workload(name).dims:
        total *= dim.extent
    return total


def report(asked: list[Question], workers: int) -> None:
    """Print a line per answer as soon as it is known, then the totals."""
    print(f"{'layer':36}{'machine':14}{'value':>18}{'bound':>18} {'status':9}{'gap %':>7}{'CPU s':>7}{'MB':>6}")
    began = time.monotonic()
    answers: list[Answer] = []
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for answer in pool.imap_unordered(answered, asked):
            answers.append(answer)
            percent = "-" if answer.gap is None else f"{100 * answer.gap:.2f}"
            value = "-" if answer.value is None else f"{answer.value:,.0f}"
            bound = "-" if answer.bound is None else f"{answer.bound:,.0f}"
            print(
                f"{answer.question.layer:36}{answer.question.machine:14}{value:>18}{bound:>18} {answer.status:9}"
                f"{percent:>7}{answer.cpu_s:>7.1f}{answer.peak_mb:>6.0f}",
                flush=True,
            )
    proven = sum(answer.status == "OPTIMAL" for answer in answers)
    near = sum(answer.status != "OPTIMAL" and answer.gap is not None and answer.gap <= 0.01 for answer in answers)
    print(f"{len(answers)} questions: {proven} proven, {near} within 1 %, {len(answers) - proven - near} others")
    print(
        f"{time.monotonic() - began:.0f} s wall with {workers} processes, {sum(a.cpu_s for a in answers):.0f} CPU s, "
        f"peak {max((a.peak_mb for a in answers), default=0):.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="every distinct layer of four networks on two machines")
    parser.add_argument("layers", nargs="*", help="names, or their beginnings; all where none is given")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--limit", type=float, default=60, help="CPU seconds per layer and machine")
    parser.add_argument("--objective", default="energy")
    options = parser.parse_args()
    report(questions(options.layers, options.objective, options.limit), options.workers)


if __name__ == "__main__":
    main()
