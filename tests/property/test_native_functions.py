"""Native functions equal references by numpy on random workloads and trees, under sanitizers, in every entry."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import polymap as pm
from polymap.inputs import mapping_from_document
from tests.native_cases import KINDS, SANITIZED, check, machine, printed, random_conv, random_tree, types_of
from tests.times import few

ORDINARY = 10


def _conv_case(seed: int, where: Path, cc: str, flags: tuple[str, ...], *, along_rows: bool = False) -> str:
    """Check a random convolution; along_rows: in NCHW with the lanes over columns, so that inputs become windows."""
    rng = random.Random(seed)
    conv = random_conv(rng)
    kind, layout, threads = KINDS[seed % len(KINDS)], rng.choice(["NHWC", "NHWC", "NCHW"]), rng.choice([1, 1, 2])
    layout = "NCHW" if along_rows else layout
    workload = conv.workload(kind, skip_padding=conv.padding > 0 and rng.random() < 0.7)
    arch = machine(rng.choice([4, 8]), threads)
    tree = random_tree(rng, workload, arch, threads=threads, vector="q" if along_rows else None)
    function = printed(workload, arch, tree, seed, layout=layout, threads=threads)

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
    workload = pm.einsum(text, sizes=sizes, types=types_of(kind, names))
    threads = rng.choice([1, 2])
    arch = machine(rng.choice([4, 8]), threads)
    function = printed(workload, arch, random_tree(rng, workload, arch, threads=threads), seed, threads=threads)
    additions = int(np.prod([sizes[dim] for dim in dims if dim not in subscripts.split("->")[1]])) + 1
    check(function, lambda *operands: np.einsum(subscripts, *operands), additions, where, seed=seed, cc=cc, flags=flags)
    return function.reason


Elements = dict[str, np.ndarray]
Point = dict[str, int]
Instance = Callable[[Elements, Point], tuple[tuple[int, ...], float]]

# (einsum, sizes, element types, target and value of one instance): printed without vectors.
OTHERS: tuple[tuple[str, dict[str, int], str, Instance], ...] = (
    ("O[p] max= I[2p+r]", {"p": 5, "r": 3}, "float32", lambda t, i: ((i["p"],), t["I"][2 * i["p"] + i["r"]])),
    ("O[p] min= I[p,r]", {"p": 4, "r": 7}, "int16", lambda t, i: ((i["p"],), t["I"][i["p"], i["r"]])),
    (
        "O[p+q] += A[p] * B[q]",
        {"p": 5, "q": 4},
        "int64",
        lambda t, i: ((i["p"] + i["q"],), t["A"][i["p"]] * t["B"][i["q"]]),
    ),
    (
        "O[p] += A[p-q+3] * B[q]",
        {"p": 6, "q": 4},
        "float32",
        lambda t, i: ((i["p"],), t["A"][i["p"] - i["q"] + 3] * t["B"][i["q"]]),
    ),
    ("O[q,p] = A[p,q]", {"p": 6, "q": 4}, "int8", lambda t, i: ((i["q"], i["p"]), t["A"][i["p"], i["q"]])),
    ("O[] += A[p] * B[p]", {"p": 9}, "float64", lambda t, i: ((), t["A"][i["p"]] * t["B"][i["p"]])),
)


@pytest.mark.parametrize("number", range(len(OTHERS)))
def test_other_statements_equal_loops_in_python(number: int, tmp_path: Path) -> None:
    text, sizes, types, instance = OTHERS[number]
    rng = random.Random(number)
    workload = pm.einsum(text, sizes=sizes, types=types)
    arch = machine(4)
    loops = [{"for": dim, "tile": tile} for dim in sizes for tile in (rng.randint(1, sizes[dim]), 1)]
    nodes = [{"store": "DRAM", "tensors": [each.name for each in workload.tensors]}, *loops, {"compute": "S"}]
    function = printed(workload, arch, mapping_from_document({"nodes": nodes}), number)
    assert function.reason

    def reference(*operands: np.ndarray) -> np.ndarray:
        values = dict(zip((form.tensor for form in function.arrays), operands, strict=False))
        shape = function.arrays[-1].shape
        operator = text.split("]", 1)[1].split("=")[0].strip()
        start = {"+": 0, "": 0, "max": -(2**62), "min": 2**62}[operator]
        found = np.full(shape, start, operands[0].dtype)
        combine = {"+": np.add, "": lambda _, new: new, "*": np.multiply, "max": np.maximum, "min": np.minimum}[
            operator
        ]
        for point in product(*(range(size) for size in sizes.values())):
            at, value = instance(values, dict(zip(sizes, point, strict=True)))
            found[at] = combine(found[at], value)
        return found

    check(function, reference, 40, tmp_path, seed=number, cc="gcc", flags=SANITIZED)


def test_sums_in_bfloat16_are_refused() -> None:
    workload = pm.einsum("C[n] += A[n,k]", sizes={"n": 4, "k": 3}, types="bfloat16")
    loops = [{"for": "n", "tile": 1}, {"for": "k", "tile": 1}]
    tree = {"nodes": [{"store": "DRAM", "tensors": ["C", "A"]}, *loops, {"compute": "S"}]}
    with pytest.raises(pm.errors.WorkloadError, match="PM622 tensor C accumulates bfloat16"):
        printed(workload, machine(4), mapping_from_document(tree), 0)


@pytest.mark.parametrize("seed", few(range(100, 104), 2))
def test_other_compilers_agree(seed: int, tmp_path: Path) -> None:
    if shutil.which("clang") is None:
        pytest.fail("clang is not installed")
    _conv_case(seed, tmp_path, "clang", ("-O1", "-Wno-unknown-pragmas"))


@pytest.mark.parametrize("seed", few(range(ORDINARY), 4))
def test_convolutions_equal_the_reference(seed: int, tmp_path: Path) -> None:
    _conv_case(seed, tmp_path, "gcc", (*SANITIZED, "-fopenmp"))


@pytest.mark.parametrize("seed", [5002, 5003, 5004, 5005, 5010])
def test_convolutions_along_rows_of_images_equal_the_reference(seed: int, tmp_path: Path) -> None:
    _conv_case(seed, tmp_path, "gcc", (*SANITIZED, "-fopenmp"), along_rows=True)


@pytest.mark.parametrize("seed", few(range(ORDINARY), 4))
def test_einsums_equal_the_reference(seed: int, tmp_path: Path) -> None:
    _einsum_case(seed, tmp_path, "gcc", (*SANITIZED, "-fopenmp"))


@pytest.mark.soak
@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize("batch", range(10))
def test_many_functions_equal_the_reference(batch: int, cc: str, tmp_path: Path) -> None:
    if shutil.which(cc) is None:
        pytest.fail(f"{cc} is not installed")
    flags = (SANITIZED, (*SANITIZED[:1], "-march=native"), ("-O3", "-march=native"))[batch % 3]
    flags = (*flags, "-fopenmp") if cc == "gcc" else (*flags, "-Wno-unknown-pragmas")
    for seed in range(100 + 20 * batch, 120 + 20 * batch):
        _conv_case(seed, tmp_path, cc, flags)
        _conv_case(seed, tmp_path, cc, flags, along_rows=True)
        _einsum_case(seed, tmp_path, cc, flags)
