"""Functions that `transform_c` wrote against their originals: compiled apart, called through ctypes, compared.

`python -m tests.c_to_c` takes every PolyBench kernel through every transformation, gcc and clang, plain and with
sanitizers, at sizes that no tile divides, and prints the tally; `--programs N` random programs of `c_programs` instead,
`--functions N` random functions of `wild_programs` over a symbolic size.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

CTYPES = {
    "char": "int8", "signed char": "int8", "unsigned char": "uint8", "short": "int16", "unsigned short": "uint16",
    "int": "int32", "unsigned": "uint32", "long": "int64", "unsigned long": "uint64", "long long": "int64",
    "unsigned long long": "uint64", "float": "float32", "double": "float64", "short int": "int16",
    "long unsigned int": "uint64", "size_t": "uint64",
} | {f"{sign}int{bits}_t": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}  # fmt: skip
PLAIN = ("-std=gnu11", "-O1", "-ffp-contract=off", "-fwrapv", "-w", "-fPIC", "-shared")
SANITIZED = ("-std=gnu11", "-O1", "-ffp-contract=off", "-w", "-fPIC", "-shared", "-g")
SANITIZERS = "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"
HEAD = "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n#include <stdlib.h>\n"


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function: shape () for a scalar; sizes are expressions over the scalars before it."""

    name: str
    dtype: str
    shape: tuple[str, ...]


def parameters_of(source: str, function: str) -> list[Parameter]:
    """Return the parameters of a function of a text."""
    found = re.search(rf"\b{function}\s*\(([^)]*(?:\([^)]*\)[^)]*)*)\)\s*\{{", source)
    assert found is not None
    if found.group(1).strip() in ("", "void"):
        return []
    listed: list[Parameter] = []
    for each in found.group(1).split(","):
        words = re.fullmatch(r"\s*(?:const )?\s*([A-Za-z_0-9 ]+?)\s+([A-Za-z_]\w*)\s*((?:\[[^]]*\])*)\s*", each)
        assert words is not None, each
        listed.append(Parameter(words[2], CTYPES[words[1]], tuple(re.findall(r"\[([^]]*)\]", words[3]))))
    return listed


def arguments(
    listed: Sequence[Parameter], sizes: Mapping[str, int], seed: int, *, whole: bool, reach: int = 0
) -> dict[str, Any]:
    """Return values of the parameters: well-conditioned random ones; whole: small integers, exact in every type; reach:
    of arrays, numbers of both signs up to it."""
    rng = np.random.default_rng(seed)
    values: dict[str, Any] = {}
    for each in listed:
        if not each.shape and each.name in sizes:
            values[each.name] = sizes[each.name]
        elif not each.shape and each.dtype.startswith("float"):
            values[each.name] = 2.0 if whole else float(np.dtype(each.dtype).type(rng.uniform(1, 2)))
            if each.name == "fn":
                values[each.name] = float(sizes["n"])
        elif not each.shape:
            values[each.name] = int(rng.integers(1, 4))
        else:
            values[each.name] = _array(each, sizes, rng, whole=whole) if not reach else _wide(each, sizes, rng, reach)
    return values


def _array(each: Parameter, sizes: Mapping[str, int], rng: np.random.Generator, *, whole: bool) -> NDArray[np.generic]:
    shape = tuple(int(eval(size, {}, dict(sizes))) for size in each.shape)  # the tests' own texts
    if each.dtype.startswith("float"):
        data = rng.integers(0, 4, shape).astype(each.dtype) if whole else rng.uniform(1, 2, shape).astype(each.dtype)
        if len(shape) == 2 and shape[0] == shape[1] and not whole:
            data = (data + data.T) / 2 + np.eye(shape[0], dtype=each.dtype) * 4 * shape[0]
        return np.ascontiguousarray(data.astype(each.dtype))
    return rng.integers(0, 4, shape).astype(each.dtype)


def _wide(each: Parameter, sizes: Mapping[str, int], rng: np.random.Generator, reach: int) -> NDArray[np.generic]:
    shape = tuple(int(eval(size, {}, dict(sizes))) for size in each.shape)  # the tests' own texts
    if each.dtype.startswith("float"):
        return rng.uniform(-reach, reach, shape).astype(each.dtype)
    return rng.integers(0 if each.dtype.startswith("u") else -reach, reach + 1, shape).astype(each.dtype)


def called(library: str, function: str, listed: Sequence[Parameter], values: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the bytes of every array after a call of a function on copies of the values."""
    code = getattr(ctypes.CDLL(library), function)
    passed: list[object] = []
    arrays: dict[str, NDArray[np.generic]] = {}
    for each in listed:
        value = values[each.name]
        if isinstance(value, np.ndarray):
            arrays[each.name] = np.array(value, copy=True, order="C")
            passed.append(ctypes.c_void_p(arrays[each.name].ctypes.data))
        else:
            passed.append(np.ctypeslib.as_ctypes_type(np.dtype(each.dtype))(value))
    code.restype = None
    code(*passed)
    return {name: array.tobytes() for name, array in arrays.items()}


def differences(job: Mapping[str, Any]) -> list[str]:
    """Return what differs between two libraries: one text per array. See `Job`."""
    given = Job(**job)
    listed = [Parameter(name, dtype, tuple(shape)) for name, dtype, shape in given.parameters]
    wrong: list[str] = []
    for seed, sizes in enumerate(given.sizes):
        values = arguments(listed, sizes, seed, whole=given.whole, reach=given.reach)
        expected, found = (called(path, given.function, listed, values) for path in (given.original, given.changed))
        for each in listed:
            if each.name in expected and expected[each.name] != found[each.name]:
                one, two = (np.frombuffer(raw[each.name], each.dtype) for raw in (expected, found))
                same: NDArray[np.bool_] = (one == two) | ((one != one) & (two != two))
                if given.slack and each.dtype.startswith("float"):
                    same |= np.abs(one - two) <= given.slack * np.maximum(np.abs(one), np.abs(two))
                if not same.all():
                    wrong.append(f"{each.name} at {sizes}: {int((~same).sum())} of {same.size}")
    return wrong


@dataclass(frozen=True, slots=True)
class Job:
    """Two libraries with one function, and what it is called with. slack: relative difference of floats that may be.
    reach: of the numbers in arrays, of both signs (0: small positive ones)."""

    original: str
    changed: str
    function: str
    parameters: tuple[tuple[str, str, tuple[str, ...]], ...]
    sizes: tuple[Mapping[str, int], ...]
    whole: bool = False
    slack: float = 0.0
    reach: int = 0


def compiled(text: str, path: Path, compiler: str, flags: Sequence[str]) -> str:
    """Compile a text into a shared library; return its path."""
    source = path.with_suffix(".c")
    source.write_text(HEAD + text, encoding="utf-8")
    done = subprocess.run(
        [compiler, *flags, "-o", str(path), str(source), "-lm"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise AssertionError(f"{compiler}: {done.stderr[:2000]}\n{text[:3000]}")
    return str(path)


def run_jobs(jobs: Sequence[Job], compiler: str = "", *, sanitized: bool = False) -> list[list[str]]:
    """Return what differs in each job, asked in a process of their own (which a wrong program may end)."""
    environment = dict(os.environ, OMP_NUM_THREADS="3")
    if sanitized:
        name = "libasan.so" if compiler == "gcc" else "libclang_rt.asan-x86_64.so"
        library = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
        environment |= {
            "LD_PRELOAD": library.stdout.strip(),
            "ASAN_OPTIONS": "detect_leaks=0",
            "PYTHONMALLOC": "malloc",
        }
    text = json.dumps([{name: getattr(job, name) for name in Job.__slots__} for job in jobs])
    done = subprocess.run(
        [sys.executable, "-m", "tests.c_to_c", "--jobs"],
        input=text, capture_output=True, text=True, check=False, env=environment, cwd=Path(__file__).parent.parent,
    )  # fmt: skip
    if done.returncode:
        if len(jobs) == 1:
            return [[f"ended with {done.returncode}: {done.stderr[-1500:]}"]]
        return [each for job in jobs for each in run_jobs([job], compiler, sanitized=sanitized)]
    answer: list[list[str]] = json.loads(done.stdout)
    return answer


# --- the tally ---

FREE_OF_DIVISION = (
    "gemm", "gemver", "gesummv", "symm", "syr2k", "syrk", "trmm", "2mm", "3mm", "atax", "bicg", "doitgen", "mvt",
)  # fmt: skip
TRANSFORMATIONS: dict[str, dict[str, Any]] = {
    "original": {"order": "original", "tile": 1},
    "original, parallel": {"order": "original", "tile": 1, "parallel": True},
    "original, tiled": {"order": "original", "tile": 4},
    "isl, tiled": {"order": "isl", "tile": 5},
    "isl, tiled, parallel": {"order": "isl", "tile": 4, "parallel": True},
    "isl, sums reordered": {"order": "isl", "tile": 3, "parallel": True, "reorder_sums": True},
}
PRIMES = (13, 11, 7, 17, 5, 19)


def kernel_sizes(names: Sequence[str]) -> tuple[dict[str, int], ...]:
    """Return the sizes that a kernel is called with: primes, all small, all one."""
    steps = {"tsteps": 5, "tmax": 5}
    own = {name: steps.get(name, PRIMES[place % len(PRIMES)]) for place, name in enumerate(names)}
    return own, dict.fromkeys(names, 3), dict.fromkeys(names, 1)


def transformed(source: str, options: Mapping[str, Any], sizes: Mapping[str, int] | None = None) -> str:
    """Return the text that `transform_c` writes."""
    from polymap import transform_c

    return transform_c(source, sizes, **options)


def compilers() -> tuple[str, ...]:
    """Return the compilers of this machine."""
    return tuple(name for name in ("gcc", "clang") if shutil.which(name))


def kernel_tally(
    kernels: Mapping[str, tuple[str, Mapping[str, int]]],
    names: Sequence[str],
    transformations: Sequence[str],
    builds: Sequence[tuple[str, bool]],
) -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield (kernel, transformation, build, what differs), for each of them."""
    for name in names:
        source, sizes = kernels[name]
        listed = parameters_of(source, "f")
        texts = {each: transformed(source, TRANSFORMATIONS[each]) for each in transformations}
        for compiler, sanitized in builds:
            with tempfile.TemporaryDirectory() as directory:
                flags = flags_of(compiler, sanitized=sanitized)
                original = compiled(source, Path(directory, "original.so"), compiler, flags)
                jobs: list[Job] = []
                for number, each in enumerate(transformations):
                    path = compiled(texts[each], Path(directory, f"changed{number}.so"), compiler, flags)
                    reorders = bool(TRANSFORMATIONS[each].get("reorder_sums"))
                    exact = reorders and name in FREE_OF_DIVISION
                    shapes = tuple((one.name, one.dtype, one.shape) for one in listed)
                    slack = 1e-9 if reorders and not exact else 0.0
                    jobs.append(Job(original, path, "f", shapes, kernel_sizes(list(sizes)), exact, slack))
                label = f"{compiler}{' sanitized' if sanitized else ''}"
                for each, wrong in zip(transformations, run_jobs(jobs, compiler, sanitized=sanitized), strict=True):
                    yield name, each, label, wrong


def flags_of(compiler: str, *, sanitized: bool) -> tuple[str, ...]:
    """Return how a library is compiled; loops are really parallel where the compiler has OpenMP."""
    shared = ("-shared-libasan",) if compiler == "clang" else ()
    flags = (*SANITIZED, *SANITIZERS, *shared) if sanitized else PLAIN
    return (*flags, "-fopenmp") if _compiles(compiler, "-fopenmp") else flags


@cache
def _compiles(compiler: str, *flags: str) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "a.c")
        source.write_text("int a;\n", encoding="utf-8")
        command = [compiler, *flags, "-shared", "-fPIC", "-o", f"{directory}/a.so", str(source)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def builds() -> list[tuple[str, bool]]:
    """Return (compiler, with sanitizers) for all that this machine can build."""
    found = [(compiler, False) for compiler in compilers()]
    extra = {"gcc": SANITIZERS, "clang": (*SANITIZERS, "-shared-libasan")}
    return found + [(compiler, True) for compiler in compilers() if _compiles(compiler, *extra[compiler])]


def differences_of_texts(
    text: str, made: str, sizes: tuple[dict[str, int], ...], where: Path, *, sanitized: bool
) -> list[str]:
    """Return where the results of a text's function f and of what was made of it differ, with all compilers: with
    sanitizers, or as fast as they go."""
    shapes = tuple((one.name, one.dtype, one.shape) for one in parameters_of(text, "f"))
    wrong: list[str] = []
    for compiler in (name for name, is_sanitized in builds() if is_sanitized == sanitized):
        flags = flags_of(compiler, sanitized=sanitized)
        flags = flags if sanitized else (*flags, "-O3", "-march=native")
        own = compiled(text, where / f"own{compiler}.so", compiler, flags_of(compiler, sanitized=False))
        new = compiled(made, where / f"new{compiler}.so", compiler, flags)
        job = Job(own, new, "f", shapes, sizes, reach=2)
        wrong += [f"{compiler}: {each}\n{text}" for each in run_jobs([job], compiler, sanitized=sanitized)[0]]
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description="Functions of transform_c against their originals.")
    parser.add_argument("--jobs", action="store_true", help="answer the jobs on standard input")
    parser.add_argument("--type", default="double", help="the kernels' data type; int: those free of division")
    parser.add_argument("--kernels", nargs="*", help="only these")
    parser.add_argument("--programs", type=int, default=0, help="so many random programs instead of kernels")
    parser.add_argument("--functions", type=int, default=0, help="so many random functions over a size instead")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    if options.jobs:
        sys.stdout.write(json.dumps([differences(job) for job in json.loads(sys.stdin.read())]))
        return 0
    if options.programs:
        from tests.c_to_c_programs import program_tally

        return program_tally(options.first, options.programs)
    if options.functions:
        from tests.c_to_c_functions import function_tally

        return function_tally(options.first, options.functions)
    from benchmarks.polybench_kernels import KERNELS

    tally: Counter[tuple[str, str]] = Counter()
    failures: list[str] = []
    names = options.kernels or list(KERNELS if "int" not in options.type else FREE_OF_DIVISION)
    kernels = {name: (re.sub(r"\bdouble\b", options.type, text), sizes) for name, (text, sizes) in KERNELS.items()}
    for name, each, label, wrong in kernel_tally(kernels, names, list(TRANSFORMATIONS), builds()):
        tally[each, label] += not wrong
        if wrong:
            failures.append(f"{name}, {each}, {label}: {'; '.join(wrong)}")
            sys.stdout.write(f"{failures[-1]}\n")
            sys.stdout.flush()
    for (each, label), count in sorted(tally.items()):
        sys.stdout.write(f"{each:22} {label:16} {count} of {len(names)} equal\n")
    sys.stdout.write(f"{sum(tally.values())} compared equal, {len(failures)} failures\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
