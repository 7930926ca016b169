"""Compiled programs whose contractions are tiled, and whose rows run side by side, equal their texts bit for bit."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polymap as pm
from benchmarks.polybench_kernels import KERNELS
from polymap.codegen.source import TUNING, ChosenOrder, Core, choose
from tests.c_to_c import parameters_of
from tests.compiled_programs import expected_arrays, sanitized_case
from tests.times import few

ORDERS = "polymap.codegen.source"
SIZES = (37, 41, 29, 31, 43)


@pytest.fixture(autouse=True)
def parallel_loops_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polymap.codegen.programs.function.TUNING", TUNING._replace(parallel_instances=1))


def small_tiles(monkeypatch: pytest.MonkeyPatch, rows: int = 12, lanes: int = 8, terms: int = 7) -> None:
    """Make tiles so small that arrays of a test hold many, and let small nests be changed."""
    tuning = TUNING._replace(tile_rows=rows, tile_lanes=lanes, tile_terms=terms, band_size=24)
    tuning = tuning._replace(contraction_extent=4, contraction_instances=64, sum_instances=16, triangle_instances=16)
    tuning = tuning._replace(wavefront_extent=4, wavefront_instances=64)
    for module in ("contraction", "bands", "wavefronts"):
        monkeypatch.setattr(f"{ORDERS}.{module}.TUNING", tuning)


def sizes_of(name: str) -> dict[str, int]:
    steps = {"tsteps": 3, "tmax": 3}
    return {size: steps.get(size, SIZES[place % len(SIZES)]) for place, size in enumerate(KERNELS[name][1])}


def check(
    text: str, sizes: dict[str, int], where: Path, seed: int, threads: int = 1, arch: pm.Architecture | str = "cpu_avx2"
) -> pm.CompiledFunction:
    """Check that all written arrays are those of the text; return the compiled function."""
    workload = pm.from_c(text, sizes)
    fn = pm.compile(workload, arch, threads=threads)
    listed = parameters_of(text, "f")
    given, wanted = expected_arrays(text, listed, sizes, seed, where)
    found = fn(*(given[form.tensor] for form in fn.function.arrays))
    written = [form.tensor for form in fn.function.arrays if form.is_written]
    for name, values in zip(written, found, strict=True):
        same = (values == wanted[name]) | ((values != values) & (wanted[name] != wanted[name]))
        assert same.all(), (name, np.argwhere(~same)[:3], fn.source)
    return fn


@pytest.mark.parametrize("name", ["syr2k", "trmm", "symm", "cholesky"])
def test_tiled_kernels_are_their_texts_bit_for_bit(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_tiles(monkeypatch)
    source = check(KERNELS[name][0], sizes_of(name), tmp_path, 1).source
    assert "_tile" in source or "tile_S" in source
    assert "in vector registers" in source


@pytest.mark.soak
@pytest.mark.parametrize("tiles", [(96, 96, 128), (12, 8, 7), (5, 16, 3)])
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_all_kernels_with_small_tiles(
    name: str, tiles: tuple[int, int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tiles(monkeypatch, *tiles)
    for threads in (1, 3):
        sizes = {"n": 71} if name in ("lu", "cholesky", "ludcmp", "trisolv") else sizes_of(name)
        check(KERNELS[name][0], sizes, tmp_path, threads, threads)


@pytest.mark.parametrize("name", ["atax", "trisolv", "seidel-2d"])
def test_rows_side_by_side_are_their_texts_bit_for_bit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_tiles(monkeypatch)
    source = check(KERNELS[name][0], sizes_of(name), tmp_path, 1).source
    assert "What changed: nothing" not in source


@pytest.mark.parametrize("name", ["gemm", "trisolv"])
def test_tiles_stay_inside_their_arrays(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_tiles(monkeypatch)
    sanitized_case(pm.from_c(KERNELS[name][0], sizes_of(name)), "kernel", 2, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_all_tiles_stay_inside_their_arrays(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_tiles(monkeypatch)
    for threads in (1, 3):
        sanitized_case(pm.from_c(KERNELS[name][0], sizes_of(name)), f"kernel{threads}", threads, tmp_path)


def random_contraction(rng: random.Random) -> str:
    """Return a C function of a sum of products over a box or a triangle, in place or not, beside other statements."""
    kind = rng.choice(["double", "float"])
    low = {dim: rng.choice(["0", "0", "1", "3"]) for dim in "ijk"}
    high = {dim: rng.choice(["n", "n - 1", "n - 4"]) for dim in "ijk"}
    inner = rng.choice(["j", "k"])
    bound = rng.choice(["i", "i + 1", f"{high[inner]}", f"{high[inner]}"])
    rows = rng.choice(["A[i][k]", "A[k][i]", "alpha * A[i][k]", "A[i + 1][k]", "C[i][k]"])
    lanes = rng.choice(["B[k][j]", "B[j][k]", "alpha * B[k][j]", "C[k][j]", "B[k + 1][j]"])
    value = rng.choice([f"{rows} * {lanes}", f"{lanes} * {rows}", f"({rows} + {lanes})", f"{rows} * {lanes} - {lanes}"])
    ends = dict(high)
    ends[inner] = bound if rng.random() < 0.5 else ends[inner]
    order = ["i", "j", "k"] if bound != "i" or rng.random() < 0.5 else ["i", "k", "j"]
    loops = "".join(f"for (int {dim} = {low[dim]}; {dim} < {ends[dim]}; {dim}++) " for dim in order)
    sign = rng.choice(["+=", "-="])
    before = "for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) C[i][j] *= beta;" if rng.random() < 0.5 else ""
    after = "for (int i = 0; i < n; i++) D[i] = C[i][i] + D[i];" if rng.random() < 0.5 else ""
    head = f"void f(int n, {kind} alpha, {kind} beta, {kind} A[n + 2][n + 2], {kind} B[n + 2][n + 2], "
    return f"{head}{kind} C[n + 2][n + 2], {kind} D[n]) {{ {before} {loops}C[i][j] {sign} {value}; {after} }}"


def random_case(seed: int, where: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Check a random contraction; return whether it was tiled."""
    rng = random.Random(seed)
    small_tiles(monkeypatch, rng.randint(1, 30), rng.randint(1, 40), rng.randint(1, 30))
    text, sizes = random_contraction(rng), {"n": rng.randint(9, 50)}
    return "in vector registers" in check(text, sizes, where, seed, rng.choice([1, 1, 3])).source


@pytest.mark.parametrize("seed", few(range(6), 3))
def test_random_contractions_are_their_texts_bit_for_bit(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_case(seed, tmp_path, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("batch", range(10))
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_many_random_contractions(batch: int, cc: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", cc)
    tiled = 0
    for seed in range(100 + 30 * batch, 130 + 30 * batch):
        where = tmp_path / str(seed)
        where.mkdir()
        tiled += random_case(seed, where, monkeypatch)
    assert tiled > 10


def test_an_array_may_have_the_name_of_a_tile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_tiles(monkeypatch)
    text = KERNELS["gemm"][0].replace("A[", "tile_S1[").replace("B[", "double_lanes[")
    assert "tile__sums0(" in check(text, sizes_of("gemm"), tmp_path, 1).source


def test_loops_are_parallel_where_threads_meet_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polymap.codegen.programs.function.TUNING", TUNING._replace(parallel_instances=2**14))
    few, many = (
        pm.compile(pm.from_c(KERNELS["jacobi-2d"][0], {"tsteps": 3, "n": n}), "cpu_avx2", threads=2).source
        for n in (60, 200)
    )
    assert "#pragma omp" not in few
    assert many.count("#pragma omp") == 2


def chosen(name: str, size: int) -> ChosenOrder:
    sizes: dict[str, Any] = {key: min(value, 3) if key == "tsteps" else size for key, value in KERNELS[name][1].items()}
    return choose(pm.from_c(KERNELS[name][0], sizes), Core(512, 32))


def test_what_is_changed_follows_from_the_text_and_the_processor() -> None:
    gemm = chosen("gemm", 200)
    assert [each.dims for each in gemm.contractions] == [("i", "j_2", "k")]
    assert gemm.contractions[0].tile == (96, 96, 128)
    assert [each.rows * each.panel for each in gemm.contractions] == [12 * 16]  # 24 registers of 8 doubles
    assert not chosen("gemm", 10).contractions  # too small to pay
    assert not chosen("jacobi-1d", 200).changes
    lu = chosen("lu", 300)
    assert {each.tile for each in lu.contractions} == {(48, 48, 48)}
    assert "floor((j)/48)" in str(lu.schedule).splitlines()[1]  # A[i][j] /= A[j][j] at term j
    symm = chosen("symm", 100)
    assert "t_0" in {each.name for each in symm.workload.tensors}
    seidel = chosen("seidel-2d", 300)
    assert "2*i" in str(seidel.schedule)
