"""Native functions equal references by numpy on random workloads and trees, under sanitizers, in every entry."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

import polymap as pm
from tests.native_cases import KINDS, SANITIZED, check, machine, printed, random_conv, random_tree, types_of

ORDINARY = 10


def _conv_case(seed: int, where: Path, cc: str, flags: tuple[str, ...]) -> str:
    rng = random.Random(seed)
    conv = random_conv(rng)
    kind, layout, threads = KINDS[seed % len(KINDS)], rng.choice(["NHWC", "NHWC", "NCHW"]), rng.choice([1, 1, 2])
    workload = conv.workload(kind, skip_padding=conv.padding > 0 and rng.random() < 0.7)
    arch = machine(rng.choice([4, 8]), threads)
    function = printed(
        workload, arch, random_tree(rng, workload, arch, threads=threads), seed, layout=layout, threads=threads
    )

    def reference(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        if layout == "NHWC":
            return conv.reference(x, w)
        return conv.reference(x.transpose(0, 2, 3, 1), w.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)

    check(function, reference, conv.C // conv.groups * conv.R * conv.S, where, seed=seed, cc=cc, flags=flags)
    return function.reason


EINSUMS = (
    ("C[m,n] += A[m,k] * B[k,n]", "mk,kn->mn"),
    ("C[m,n] += A[k,m] * B[n,k]", "km,nk->mn"),
    ("C[b,m,n] += A[b,m,k] * B[b,k,n]", "bmk,bkn->bmn"),
    ("C[m,n] += A[m,k,l] * B[l,n,k]", "mkl,lnk->mn"),
    ("C[n] += A[k] * B[k,n]", "k,kn->n"),
    ("C[m,n] += A[m,n]", "mn->mn"),
    ("C[m,n] += A[m,k] * B[k,n] * D[m,n]", "mk,kn,mn->mn"),
    ("C[n,m] += A[m,k] * B[k,n]", "mk,kn->nm"),
)


def _einsum_case(seed: int, where: Path, cc: str, flags: tuple[str, ...]) -> str:
    rng = random.Random(seed)
    text, subscripts = EINSUMS[seed % len(EINSUMS)]
    kind = KINDS[rng.randrange(len(KINDS))]
    dims = sorted({letter for letter in subscripts if letter.isalpha()})
    sizes = {dim: rng.choice([1, 2, 5, 7, 13, 16, 23, 31]) for dim in dims}
    sizes["n"] = rng.choice([4, 16, 17, 31, 37])
    names = tuple(name for name in "CABD" if f"{name}[" in text)
    workload = pm.einsum(text, **sizes, types=types_of(kind, names))
    threads = rng.choice([1, 2])
    arch = machine(rng.choice([4, 8]), threads)
    function = printed(workload, arch, random_tree(rng, workload, arch, threads=threads), seed, threads=threads)
    additions = int(np.prod([sizes[dim] for dim in dims if dim not in subscripts.split("->")[1]])) + 1
    check(function, lambda *operands: np.einsum(subscripts, *operands), additions, where, seed=seed, cc=cc, flags=flags)
    return function.reason


@pytest.mark.parametrize("seed", range(ORDINARY))
def test_convolutions_equal_the_reference(seed: int, tmp_path: Path) -> None:
    _conv_case(seed, tmp_path, "gcc", (*SANITIZED, "-fopenmp"))


@pytest.mark.parametrize("seed", range(ORDINARY))
def test_einsums_equal_the_reference(seed: int, tmp_path: Path) -> None:
    _einsum_case(seed, tmp_path, "gcc", (*SANITIZED, "-fopenmp"))


@pytest.mark.soak
@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize("batch", range(10))
def test_many_functions_equal_the_reference(batch: int, cc: str, tmp_path: Path) -> None:
    if shutil.which(cc) is None:
        pytest.fail(f"{cc} is not installed")
    flags = (SANITIZED, (*SANITIZED[:1], "-march=native"), ("-O3", "-march=native"))[batch % 3]
    for seed in range(100 + 20 * batch, 120 + 20 * batch):
        _conv_case(seed, tmp_path, cc, (*flags, "-fopenmp") if cc == "gcc" else (*flags, "-Wno-unknown-pragmas"))
        _einsum_case(seed, tmp_path, cc, (*flags, "-fopenmp") if cc == "gcc" else (*flags, "-Wno-unknown-pragmas"))
