"""The code that polymap chooses for PolyBench's kernels, beside their own texts, Polly and isl's scheduler.

`python -m benchmarks.program_speed [KERNEL ...] [--size LARGE] [--samples N] [--threads N] [--isl] [--transform]`:
all with the same flags, -O3 -march=native (gcc, or clang with --cc; Polly is clang's), run in turns on the same values;
a time is the median of the samples (three of those after the first two): CPU time on one thread, else wall time. The
last lines say how many kernels were changed, and the geometric mean of the changed ones.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import polymap as pm
from benchmarks.polybench_kernels import KERNELS
from benchmarks.polybench_sizes import SIZES
from polymap.codegen import native_code
from polymap.resolve import question_of
from tests.c_to_c import arguments, parameters_of

FLAGS = ("-std=gnu11", "-O3", "-march=native", "-shared", "-fPIC", "-w")
POLLY = ("-mllvm", "-polly", "-mllvm", "-polly-process-unprofitable=false")
LONG_SECONDS = 60.0
FEW_SAMPLES = 3
Call = Callable[[], None]


@dataclass(frozen=True)
class Contender:
    """name; call: of its function on the shared arrays; changed: its order is not the text's."""

    name: str
    call: Call
    changed: bool


def built(text: str, where: Path, name: str, words: tuple[str, ...]) -> ctypes.CDLL:
    """Return the library of a C text."""
    source, target = where / f"{name}.c", where / f"{name}.so"
    source.write_text("#include <math.h>\n" + text)
    subprocess.run([*words, *FLAGS, "-o", str(target), str(source), "-lm"], check=True, stderr=subprocess.PIPE)
    return ctypes.CDLL(str(target))


def on_stack(text: str) -> str:
    """Return the text with its local arrays in memory that stays mapped, as those of the original's harness."""
    kind = r"^(?:  ){1,2}(?:__attribute__\(\(aligned\(\d+\)\)\) )?double "
    return re.sub(kind + r"(\w+\[[^;]*\](?:, \w+\[[^;]*\])*)", r"  static double \1", text, flags=re.M)


def with_sizes(text: str, sizes: dict[str, int]) -> str:
    """Return the text with its sizes as numbers (VLAs of a function may be too large for the stack)."""
    head, brace, body = text.partition(") {")
    for key, size in sizes.items():
        head = head.replace(f"[{key}]", f"[{size}]")
        body = re.sub(rf"\b{key}\b", str(size), body)
    return head + brace + body


class Arrays:
    """The values of one kernel, the same for all contenders."""

    def __init__(self, text: str, sizes: dict[str, int]) -> None:
        self.listed = parameters_of(text, "f")
        self.values = arguments(self.listed, sizes, 0, whole=False)
        self.start = {key: value.copy() for key, value in self.values.items() if isinstance(value, np.ndarray)}

    def reset(self) -> None:
        for key, value in self.start.items():
            np.copyto(self.values[key], value)

    def of_text(self, library: ctypes.CDLL) -> Call:
        code: Any = library.f
        code.restype = None
        passed: list[Any] = []
        for each in self.listed:
            value = self.values[each.name]
            kind = np.ctypeslib.as_ctypes_type(np.dtype(each.dtype))
            passed.append(ctypes.c_void_p(value.ctypes.data) if each.shape else kind(value))
        return lambda: code(*passed)

    def of_printed(self, library: ctypes.CDLL, function: Any) -> Call:
        code: Any = getattr(library, function.name)
        code.restype = None
        held = [np.asarray(self.values[form.tensor], form.kind) for form in function.arrays]
        passed = [ctypes.c_void_p(each.ctypes.data) for each in held]

        def call() -> None:
            assert held, "the arrays live as long as their pointers"
            code(*passed)

        return call


def contenders(name: str, given: argparse.Namespace, where: Path) -> tuple[Arrays, list[Contender], list[str]]:
    """Return the values of a kernel, its contenders, and what could not take part."""
    text, _ = KERNELS[name]
    sizes = SIZES[given.size][name]
    arrays, missing = Arrays(text, sizes), list[str]()
    plain = on_stack(with_sizes(text, sizes))
    openmp = ("-fopenmp",) if given.threads > 1 else ()
    found = [Contender("text", arrays.of_text(built(plain, where, "text", (given.cc,))), changed=False)]
    workload, arch = question_of(pm.from_c(text, sizes), "host_cpu")
    _, code = native_code(workload, arch, "polymap_native", layout="NHWC", threads=given.threads, time_limit_s=15)
    library = built(code.text, where, "polymap", (given.cc, *openmp))
    found.append(Contender("polymap", arrays.of_printed(library, code), changed=is_changed(code.text)))
    if given.transform:
        other = pm.transform_c(with_sizes(text, sizes))
        library = built(on_stack(other), where, "transform", (given.cc,))
        found.append(Contender("transform", arrays.of_text(library), changed=bool(other.report.changes)))
    parallel = ("-mllvm", "-polly-parallel", "-lgomp") if given.threads > 1 else ()
    try:
        library = built(plain, where, "polly", ("clang", *POLLY, *parallel))
        found.append(Contender("polly", arrays.of_text(library), changed=True))
    except (OSError, subprocess.CalledProcessError) as error:
        missing.append(f"polly: {type(error).__name__}")
    if given.isl:
        try:
            schedule = pm.transform.isl_schedule(workload, strict=True)
            _, code = native_code(
                workload, arch, "isl_order", layout="NHWC", threads=given.threads, mapping=schedule, time_limit_s=15
            )
            library = built(code.text, where, "isl", (given.cc, *openmp))
            found.append(Contender("isl", arrays.of_printed(library, code), changed=True))
        except pm.PolymapError as error:
            missing.append(f"isl: {str(error)[:60]}")
    return arrays, found, missing


def is_changed(source: str) -> bool:
    """Return whether the comment at the head of a printed function says that the order is not the text's."""
    return " * What changed:" in source and " * What changed: nothing" not in source


def medians(arrays: Arrays, calls: list[Call], samples: int, threads: int) -> list[float]:
    """Return the median seconds of each call, taken in turns: those after the first two have three samples, and all
    have three where one takes over a minute."""
    clock = time.thread_time if threads == 1 else time.perf_counter
    found: list[list[float]] = [[] for _ in calls]
    for number in range(samples):
        for place, call in enumerate(calls[: 2 if number >= FEW_SAMPLES else len(calls)]):
            arrays.reset()
            begun = clock()
            call()
            found[place].append(clock() - begun)
        if number + 1 >= FEW_SAMPLES and max(map(statistics.median, found[:2])) > LONG_SECONDS:
            break
    return [statistics.median(each) for each in found]


def mean(ratios: list[float]) -> float:
    return math.prod(ratios) ** (1 / len(ratios)) if ratios else float("nan")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*", default=sorted(KERNELS))
    parser.add_argument("--size", choices=sorted(SIZES), default="MEDIUM")
    parser.add_argument("--samples", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cc", default="gcc")
    parser.add_argument("--isl", action="store_true", help="also isl's own order, untiled")
    parser.add_argument("--transform", action="store_true", help="also polymap transform")
    given = parser.parse_args()
    ratios: dict[str, dict[str, float]] = {}
    changed: list[str] = []
    for name in given.kernels:
        with tempfile.TemporaryDirectory() as where:
            begun = time.perf_counter()
            arrays, listed, missing = contenders(name, given, Path(where))
            chosen = time.perf_counter() - begun
            times = medians(arrays, [each.call for each in listed], given.samples, given.threads)
        changed += [name] if listed[1].changed else []
        ratios[name] = {each.name: times[0] / seconds for each, seconds in zip(listed, times, strict=True)}
        cells = "  ".join(f"{each} {ratio:6.2f}" for each, ratio in list(ratios[name].items())[1:])
        mark = "changed" if listed[1].changed else "as text"
        said = f"  ({'; '.join(missing)})" if missing else ""
        print(f"{name:15} text {times[0] * 1e3:10.2f} ms  {cells}  {mark}  built in {chosen:.1f} s{said}", flush=True)
    ours = {name: each["polymap"] for name, each in ratios.items()}
    print(f"{len(changed)} of {len(ratios)} changed; least {min(ours.values()):.2f}")
    for contender in ("polymap", "transform", "polly", "isl"):
        over = [ratios[name][contender] for name in changed if contender in ratios[name]]
        everywhere = [each[contender] for each in ratios.values() if contender in each]
        words = f"{mean(over):.2f} ({len(over)}), over all {mean(everywhere):.2f}"
        print(f"{contender:8} geometric mean over the changed {words}")


if __name__ == "__main__":
    main()
