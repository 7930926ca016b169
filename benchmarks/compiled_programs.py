"""Compiled functions of the PolyBench kernels beside their own texts, the same compiler and flags: times and ratios.

`python -m benchmarks.compiled_programs [KERNEL ...] [--scale N] [--samples N]`: per kernel the time of the text's own
function, that of what `pm.compile` prints, and their ratio (above 1: the printed one is faster). Both run in turns on
the same arrays; a time is the 25th percentile of the samples, of the thread's CPU.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import polymap as pm
from benchmarks.polybench_kernels import KERNELS
from polymap.codegen.native import RegionCall
from polymap.codegen.native.compiler import host_compiler
from tests.c_to_c import arguments, compiled, parameters_of

LEAST_SECONDS = 2e-3


def pointers(text: str, sizes: dict[str, int]) -> tuple[Callable[[ctypes.CDLL], Callable[[], None]], dict[str, Any]]:
    """Return what makes a call of the text's own function, and its values."""
    listed = parameters_of(text, "f")
    values = arguments(listed, sizes, 0, whole=False)

    def bound(library: ctypes.CDLL) -> Callable[[], None]:
        code: Any = library.f
        code.restype = None
        passed: list[Any] = []
        for each in listed:
            value = values[each.name]
            kind = np.ctypeslib.as_ctypes_type(np.dtype(each.dtype))
            passed.append(ctypes.c_void_p(value.ctypes.data) if each.shape else kind(value))
        return lambda: code(*passed)

    return bound, values


def printed(text: str, sizes: dict[str, int], values: dict[str, Any]) -> Callable[[], None]:
    """Return a call of what polymap prints, on the same arrays, without the checks of Python."""
    fn = pm.compile(pm.from_c(text, sizes), "host_cpu")
    assert isinstance(fn.loaded, RegionCall)
    forms = fn.function.arrays
    held = [np.asarray(values[form.tensor], form.kind) for form in forms]
    passed = [ctypes.c_void_p(each.ctypes.data) for each in held]
    code = fn.loaded.plain

    def call() -> None:
        assert held, "the arrays live as long as their pointers"
        code(*passed)

    return call


def seconds(calls: list[Callable[[], None]], reset: Callable[[], None], samples: int) -> list[float]:
    """Return the 25th percentile of each call's CPU time, taken in turns on the same values."""
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(samples):
        for number, call in enumerate(calls):
            reset()
            begun = time.thread_time()
            call()
            found[number].append(time.thread_time() - begun)
    return [float(np.percentile(each, 25)) for each in found]


def measured(name: str, scale: float, samples: int, where: Path) -> tuple[float, float]:
    """Return the times of a kernel's text and of what is printed for it."""
    text, small = KERNELS[name]
    sizes = {key: size if key in ("tsteps", "tmax") else round(size * scale) for key, size in small.items()}
    bound, values = pointers(text, sizes)
    compiler = host_compiler(("-ffp-contract=off",))
    library = ctypes.CDLL(
        compiled(text, where / f"{name}.so", compiler.command[0], (*compiler.flags, "-shared", "-fPIC"))
    )
    start = {key: value.copy() for key, value in values.items() if isinstance(value, np.ndarray)}

    def reset() -> None:
        for key, value in start.items():
            np.copyto(values[key], value)

    own, ours = seconds([bound(library), printed(text, sizes, values)], reset, samples)
    return own, ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*", default=sorted(KERNELS))
    parser.add_argument("--scale", type=float, default=2.0, help="sizes are PolyBench's SMALL ones times this")
    parser.add_argument("--samples", type=int, default=9)
    given = parser.parse_args()
    ratios: list[float] = []
    with tempfile.TemporaryDirectory() as where:
        for name in given.kernels:
            own, ours = measured(name, given.scale, given.samples, Path(where))
            ratios.append(own / ours)
            print(
                f"{name:16} text {own * 1e3:9.3f} ms   printed {ours * 1e3:9.3f} ms   ratio {own / ours:5.2f}",
                flush=True,
            )
    print(
        f"{len(ratios)} kernels: geometric mean {math.prod(ratios) ** (1 / len(ratios)):.2f}, least {min(ratios):.2f}"
    )


if __name__ == "__main__":
    main()
