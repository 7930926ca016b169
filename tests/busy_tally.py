"""Command lines answered twice: on the machine as it is, and beside two processes that do nothing but compute.

`python -m tests.busy_tally` asks all 60; the answers are compared without their seconds.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

_MACHINES = ("flat3", "eyeriss_like", "simba_like")
_NEST = "for (int t = 0; t < 20; t++) for (int i = 1; i < 99; i++) A[i] = A[i - 1] + A[i] + A[i + 1];"
_PROGRAM = f"void f(int A[100]) {{\n#pragma scop\n{_NEST}\n#pragma endscop\n}}\n"
_SECONDS = re.compile(r'"(seconds|history|time_limit_s|rows_per_s)": ?(\[[^]]*\]|[^,}\n]*)|\d+(\.\d+)? s\b')


def command_lines(folder: Path) -> list[tuple[str, ...]]:
    """Return the command lines; none of them has a limit that an idle machine reaches."""
    text = folder / "nest.c"
    text.write_text(_PROGRAM)
    asked: list[tuple[str, ...]] = []
    for side, machine, objective in product((32, 48, 96), _MACHINES, ("energy", "latency", "edp")):
        einsum = "C[m,n] += A[m,k] * B[k,n]"
        sizes = [word for dim in "mnk" for word in ("--size", f"{dim}={side}")]
        words = ("explore", einsum, *sizes, "--arch", machine, "--objective", objective, "--tiles", "divide")
        asked.append((*words, "--work-limit", "4000", "--time-limit", "600", "--json", "-"))
    for order, tile in product(("auto", "original", "isl"), ("1", "8", "32")):
        asked.append(("transform", str(text), "--order", order, "--tile", tile))
    for machine, work in product(_MACHINES, (50, 200, 1000)):
        words = ("explore", str(text), "--arch", machine, "--work-limit", str(work), "--time-limit", "600")
        asked.append((*words, "--json", "-"))
    asked += [("check", str(text), *more) for more in ((), ("--relations",), ("--budget", "20"), ("--json", "-"))]
    asked += [("list",), ("list", "--json", "-")]
    sizes = [word for size in ("m=9", "n=8", "k=7") for word in ("--size", size)]
    nests = [("check", f"C[m,n] += A[m,k{shift}] * B[k,n]", *sizes) for shift in ("", "+m", "+n")]
    asked += [(*one, *more) for one in nests for more in ((), ("--relations",), ("--json", "-"))]
    return asked


@contextmanager
def busy(count: int) -> Generator[None, None, None]:
    """Let so many processes compute meanwhile."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in others:
            one.kill()
            one.wait(10)


def answer_of(words: tuple[str, ...]) -> tuple[int, str]:
    """Return the exit code and what is printed, without seconds."""
    command = (sys.executable, "-m", "polymap", *words)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=3600)
    return done.returncode, _SECONDS.sub("", done.stdout)


def differing(asked: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the command lines whose answers beside two busy processes are others."""
    alone = [answer_of(words) for words in asked]
    with busy(2):
        beside = [answer_of(words) for words in asked]
    return [words for words, one, other in zip(asked, alone, beside, strict=True) if one != other]


def main() -> int:
    """Ask all command lines; print those whose answer differs. The exit code tells whether any does."""
    parser = argparse.ArgumentParser(description="command lines beside two busy processes")
    parser.add_argument("--every", type=int, default=1, help="one in so many of them")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        asked = command_lines(Path(folder))[:: given.every]
        wrong = differing(asked)
    for words in wrong:
        print("differs:", " ".join(words))
    print(f"{len(asked)} command lines, {len(wrong)} answered otherwise beside two busy processes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
