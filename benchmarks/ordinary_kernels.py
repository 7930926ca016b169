"""Ordinary kernels, as people write them: `pm.compile`, and `polymap transform`, beside their own text.

`python -m benchmarks.ordinary_kernels [KERNEL ...] [--cc clang] [--samples N] [--transform] [--fma]`: per kernel and
size the time of the text under -O3 -march=native, that of what polymap prints, and their ratio (above 1: polymap is
faster). Under these flags compilers contract: they round a product and the sum it is added to once, as polymap does
with --fma alone; the ratio "rounded alike" is that to the text under -ffp-contract=off (with --fma: the same as the
first). Of text under -ffast-math too, which may add sums in another order, as polymap does not. All run in turns on
the same arrays, one thread; a time is the least of the samples, and the mean over three places of the arrays in their
lines of the cache, which change times by up to a half. The cost of a call from Python is measured apart, on
the smallest kernel. The last lines give the geometric mean, the least ratio and the five worst.
"""

from __future__ import annotations

import argparse
import ctypes
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import polymap as pm
from benchmarks.ordinary_texts import KERNELS
from polymap.codegen.native import RegionCall
from tests.c_to_c import arguments, parameters_of

FLAGS = ("-std=gnu11", "-O3", "-march=native", "-shared", "-fPIC", "-w")
LEAST_SECONDS = 2e-4
LINE_BYTES = 64
PLACES = ((0, 0), (16, 16), (48, 32))  # bytes from a line of the cache, of every other array
Call = Callable[[], None]


def built(text: str, place: Path, *words: str) -> ctypes.CDLL:
    """Return the library of a C text."""
    place.with_suffix(".c").write_text("#include <math.h>\n#include <stdint.h>\n#include <stddef.h>\n" + text)
    command = [*words, *FLAGS, "-o", str(place), str(place.with_suffix(".c")), "-lm"]
    subprocess.run(command, check=True, stderr=subprocess.PIPE)
    return ctypes.CDLL(str(place))


def call_of(library: ctypes.CDLL, text: str, values: dict[str, Any]) -> Call:
    """Return a call of a text's function on these values."""
    code: Any = library.f
    code.restype = None
    passed: list[Any] = []
    for each in parameters_of(text, "f"):
        kind = np.ctypeslib.as_ctypes_type(np.dtype(each.dtype))
        value = values[each.name]
        passed.append(ctypes.c_void_p(value.ctypes.data) if each.shape else kind(value))
    return lambda: code(*passed)


def compiled_call(fn: pm.CompiledFunction, values: dict[str, Any]) -> Call:
    """Return a call of what polymap printed, on the same arrays, without the checks of Python."""
    assert isinstance(fn.loaded, RegionCall), "the kernels are regions of C"
    held = [np.asarray(values[form.tensor], form.kind) for form in fn.function.arrays]
    passed = [ctypes.c_void_p(each.ctypes.data) for each in held]
    code = fn.loaded.plain

    def call() -> None:
        assert held, "the arrays live as long as their pointers"
        code(*passed)

    return call


def seconds_of(calls: list[Call], samples: int) -> list[float]:
    """Return the least CPU time of each call, taken in turns."""
    found: list[list[float]] = [[] for _ in calls]
    times: list[int] = []
    for call in calls:
        call()
        begun = time.thread_time()
        call()
        times.append(max(1, round(LEAST_SECONDS / max(1e-7, time.thread_time() - begun))))
    for _ in range(samples):
        for number, call in enumerate(calls):
            begun = time.thread_time()
            for _ in range(times[number]):
                call()
            found[number].append((time.thread_time() - begun) / times[number])
    return [min(each) for each in found]


def agree(start: dict[str, Any], values: dict[str, Any], own: Call, other: Call) -> bool:
    """Return whether two calls leave the arrays alike from these values: integers exactly, floats to rounding, as
    compilers may contract the text's multiplications and additions."""
    results: list[dict[str, Any]] = []
    for call in (own, other):
        for name, value in start.items():
            np.copyto(values[name], value)
        call()
        results.append({name: values[name].copy() for name in start})
    for name, value in start.items():
        np.copyto(values[name], value)
    one, two = results
    return all(np.allclose(one[name], two[name], rtol=1e-3, atol=1e-3, equal_nan=True) for name in start)


def placed(values: dict[str, Any], places: tuple[int, int]) -> dict[str, Any]:
    """Return the values with the arrays copied to such places."""
    found, count = dict(values), 0
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            room = np.empty(value.nbytes + 2 * LINE_BYTES, np.uint8)
            start = -room.ctypes.data % LINE_BYTES + places[count % 2]
            found[name] = room[start : start + value.nbytes].view(value.dtype).reshape(value.shape)
            np.copyto(found[name], value)
            count += 1
    return found


def measured(name: str, number: int, cc: str, samples: int, where: Path, *, transform: bool, fma: bool) -> list[float]:
    """Return the times of a kernel's text, of what polymap prints, of the text under -ffast-math, of the text with as
    many roundings as polymap's, and, if `transform`, of the transformed text, at one of its sizes."""
    text, listed = KERNELS[name]
    sizes = listed[number]
    given = arguments(parameters_of(text, "f"), sizes, 0, whole=True)
    fn = pm.compile(pm.from_c(text, sizes), "host_cpu", fma=fma)
    own = built(text, where / f"{name}{number}.so", cc)
    others = [built(text, where / f"{name}{number}_fast.so", cc, "-ffast-math")]
    others.append(own if fma else built(text, where / f"{name}{number}_alike.so", cc, "-ffp-contract=off"))
    if transform:
        others.append(built(pm.transform_c(text, sizes), where / f"{name}{number}_transformed.so", cc))
    times: list[list[float]] = []
    for places in PLACES:
        values = placed(given, places)
        start = {key: value.copy() for key, value in values.items() if isinstance(value, np.ndarray)}
        calls = [call_of(own, text, values), compiled_call(fn, values)]
        calls += [call_of(each, text, values) for each in others]
        for call in calls[1:2] + calls[4:]:
            if not agree(start, values, calls[0], call):
                raise SystemExit(f"{name} {sizes}: another result than the text's")
        times.append(seconds_of(calls, samples))
    return [sum(each) / len(PLACES) for each in zip(*times, strict=True)]


def call_overhead() -> tuple[float, float]:
    """Return the seconds of a call through Python, and of one through ctypes alone, of a function that does nothing
    worth mentioning."""
    fn = pm.compile(
        pm.from_c("void f(float x[4], float y[4]) { for (int i = 0; i < 4; i++) y[i] = x[i]; }"), "host_cpu"
    )
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    checked, plain = seconds_of([lambda: fn(x, y, out=y), compiled_call(fn, {"x": x, "y": y})], 9)
    return checked, plain


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kernels", nargs="*", default=sorted(KERNELS))
    parser.add_argument("--cc", default="gcc", help="the compiler of both sides")
    parser.add_argument("--samples", type=int, default=11)
    parser.add_argument("--transform", action="store_true", help="polymap transform too")
    parser.add_argument("--fma", action="store_true", help="products and sums rounded at once, as in the text")
    given = parser.parse_args()
    os.environ["CC"] = given.cc
    ratios: dict[str, float] = {}
    alike: dict[str, float] = {}
    transformed: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as where:
        for name in given.kernels:
            for number, sizes in enumerate(KERNELS[name][1]):
                shown = f"{name} {' '.join(f'{key}={size}' for key, size in sizes.items())}"
                try:
                    asked = {"transform": given.transform, "fma": given.fma}
                    found = measured(name, number, given.cc, given.samples, Path(where), **asked)
                except pm.PolymapError as error:
                    print(f"{shown:34} REFUSED {str(error).splitlines()[0][:120]}", flush=True)
                    continue
                own, ours, fast, same = (each * 1e6 for each in found[:4])
                ratios[shown], alike[shown] = own / ours, same / ours
                line = f"{shown:34} text {own:9.1f} us  compile {ours:9.1f} us  ratio {own / ours:6.2f}"
                line += f"  rounded alike {same / ours:6.2f}  of -ffast-math {fast / ours:6.2f}"
                if given.transform:
                    transformed[shown] = found[0] / found[4]
                    line += f"  transform {transformed[shown]:6.2f}"
                print(line, flush=True)
    for title, each in (("compile", ratios), ("compile, rounded alike", alike), ("transform", transformed)):
        if each:
            print(summary(title, each))
    checked, plain = call_overhead()
    print(
        f"a call costs {checked * 1e6:.1f} us from Python ({plain * 1e6:.1f} us of ctypes), which no time above holds"
    )


def summary(title: str, ratios: dict[str, float]) -> str:
    """Return the geometric mean, the least ratio, how many are below 0.97, and the five worst."""
    mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
    worst = sorted(ratios, key=lambda name: ratios[name])[:5]
    below = sum(each < 0.97 for each in ratios.values())
    head = (
        f"{title}: {len(ratios)} times, geometric mean {mean:.2f}, least {min(ratios.values()):.2f}, {below} below 0.97"
    )
    return "\n".join([head, *(f"  {name}: {ratios[name]:.2f}" for name in worst)])


if __name__ == "__main__":
    main()
