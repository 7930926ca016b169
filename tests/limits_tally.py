"""Odd questions under a time limit: how much CPU time each takes past it, and that each has an answer.

`python -m tests.limits_tally 100` asks the questions of that many seeds: 1 to 30 dims, extents up to 10^9, programs,
tiles of any size, rules, orders and fronts. The limit is measured by the CPU time of the process, so that what else the
machine does changes nothing. Where a limit is passed by far, the tally tells where the search was then.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from polymap.explore import search
from polymap.inputs.presets import preset_names
from polymap.ir.errors import PolymapError
from polymap.ir.loopnest import Workload
from polymap.workload.c.reader import from_c
from polymap.workload.einsums import einsum

LIMIT_S = 2.0
_EXTENTS = (1, 2, 2, 3, 4, 6, 7, 8, 12, 16, 30, 97, 1009, 4096, 65_536, 524_287, 999_983, 10**6, 10**9)
_DIMS = (1, 2, 3, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 20, 24, 27, 30)
_OBJECTIVES = ("energy", "latency", "edp", "traffic:DRAM", "lex:latency,energy", "pareto:energy,latency")
_MACHINES = ("flat3", "eyeriss_like", "tpu_like", "simba_like", "gemmini_like")
_PROGRAMS = (
    "for(int i=0;i<{a};i++) {{ x[i]=0; for(int j=0;j<{b};j++) x[i]+=A[i][j]*y[j]; }}"
    " for(int i=0;i<{a};i++) z[i]+=x[i]*x[i];",
    "for(int t=0;t<{c};t++) for(int i=1;i<{a}-1;i++) A[t+1][i]=A[t][i-1]+A[t][i]+A[t][i+1];",
    "for(int i=0;i<{a};i++) for(int j=0;j<=i;j++) for(int k=0;k<j;k++) A[i][j]-=A[i][k]*A[j][k];",
    "for(int i=0;i<{a};i++) for(int j=0;j<{b};j++) {{ B[i][j]=A[i][j]+1; C[j][i]=B[i][j]*2; }}",
)


@dataclass(frozen=True, slots=True)
class Question:
    workload: Workload
    arch: str
    objective: str
    tiles: str
    constraints: dict[str, object] | None


def question(seed: int) -> Question:
    """Return the question of a seed."""
    rng = random.Random(f"limits {seed}")
    workload = _program(rng) if seed % 5 == 4 else _nest(rng)
    machines = [name for name in _MACHINES if name in preset_names()]
    rules = _rules(rng, workload) if rng.random() < 0.3 else None
    tiles = rng.choice(("any", "any", "divide"))
    return Question(workload, rng.choice(machines), rng.choice(_OBJECTIVES), tiles, rules)


def _program(rng: random.Random) -> Workload:
    a, b, c = (rng.choice((3, 8, 17, 64, 500, 3000, 10**6)) for _ in range(3))
    text = rng.choice(_PROGRAMS).format(a=a, b=b, c=c)
    arrays = f"int A[{max(a, c + 1)}][{max(a, b)}], B[{a}][{b}], C[{b}][{a}], x[{a}], y[{b}], z[{a}];"
    return from_c(f"void f(void) {{ {arrays}\n#pragma scop\n{text}\n#pragma endscop\n}}")


def _nest(rng: random.Random) -> Workload:
    """Return a product of one to three tensors; in one of four a subscript is a window."""
    dims = [f"d{number}" for number in range(rng.choice(_DIMS))]
    small = rng.choice((2, 2, 3, 7, 16)) if len(dims) > 6 else None
    sizes = {dim: rng.choice(_EXTENTS) if small is None or rng.random() < 0.05 else small for dim in dims}
    names = ["C", "A", "B", "D"][: rng.choice((2, 3, 3, 4))]
    index = {name: [dim for dim in dims if rng.random() < 0.6] for name in names}
    index["A"] += [dim for dim in dims if not any(dim in own for own in index.values())]
    if len(index["A"]) > 1 and rng.random() < 0.25:
        first, second, *others = index["A"]
        index["A"] = [f"{rng.choice(('', '2*'))}{first}+{second}", *others]
    text = " * ".join(f"{name}[{','.join(index[name])}]" for name in names[1:])
    return einsum(f"C[{','.join(index['C'])}] += {text}", bits=rng.choice((4, 8, 16)), sizes=sizes)


def _rules(rng: random.Random, workload: Workload) -> dict[str, object]:
    dims = [dim.name for dim in workload.dims]
    return rng.choice(
        (
            {"innermost": [rng.choice(dims)]},
            {"min_utilization": rng.choice((0.1, 0.5))},
            {"limits": {"latency": 10 ** rng.randrange(3, 12)}},
            {"order": rng.sample(dims, min(2, len(dims)))},
        )
    )


@dataclass(frozen=True, slots=True)
class Taken:
    """How a question ended, the CPU seconds it took, and where it was when its limit was passed by far."""

    status: str
    cpu_s: float
    where: str = ""

    def is_late(self, limit_s: float) -> bool:
        """Return whether the limit was passed by more than a second, or 5 %."""
        return self.cpu_s > limit_s + max(1.0, 0.05 * limit_s)


@contextmanager
def _watched(limit_s: float) -> Generator[list[str], None, None]:
    """Note the frames in which this process is when its limit is passed by 0.7 s of CPU time."""
    frames: list[str] = []

    def note(_number: int, frame: FrameType | None) -> None:
        ours = [each for each in traceback.extract_stack(frame) if "/polymap/" in each.filename]
        frames.append("".join(traceback.format_list(ours[3:])))

    before = signal.signal(signal.SIGPROF, note)
    signal.setitimer(signal.ITIMER_PROF, limit_s + 0.7)
    try:
        yield frames
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def taken(asked: Question, limit_s: float = LIMIT_S) -> Taken:
    """Ask a question; return how it ended."""
    begin = time.process_time()
    with _watched(limit_s) as frames:
        try:
            status = search(
                asked.workload,
                asked.arch,
                asked.objective,
                asked.tiles,
                constraints=asked.constraints,
                time_limit_s=limit_s,
                clock=time.process_time,
            ).status
        except PolymapError as error:
            status = error.mistakes[0].code
    return Taken(status, time.process_time() - begin, "".join(frames))


def main(words: list[str] | None = None) -> int:
    """Ask the questions; print what passed its limit. The exit code tells whether any did."""
    parser = argparse.ArgumentParser(description="questions under a time limit")
    parser.add_argument("questions", type=int, nargs="?", default=100)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=LIMIT_S)
    given = parser.parse_args(words)
    outcomes, late, most = Counter[str](), 0, 0.0
    for seed in range(given.first, given.first + given.questions):
        asked = question(seed)
        found = taken(asked, given.seconds)
        outcomes[found.status] += 1
        most = max(most, found.cpu_s - given.seconds)
        if found.is_late(given.seconds):
            late += 1
            extents = list(asked.workload.extents().values())
            print(f"{seed}: {found.cpu_s:.1f} CPU s, {found.status}: {asked.arch} {asked.objective} {asked.tiles}")
            print(f"{extents} {asked.constraints}\n{found.where}", flush=True)
    print(f"{given.questions} questions, {dict(outcomes)}: {late} past their limit, at most by {most:.2f} CPU s")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
