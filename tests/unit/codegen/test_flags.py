"""The compilers' flags of programs: rounding, vectors of straight-line code, what clang needs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import polymap as pm
from polymap.codegen.native.compiler import host_compiler
from polymap.codegen.programs import program_flags

SMALL = """void f(int n, const float a[n][4][4], const float b[n][4][4], float c[n][4][4]) {
    for (int i = 0; i < n; i++) for (int r = 0; r < 4; r++) for (int s = 0; s < 4; s++) {
        c[i][r][s] = 0; for (int k = 0; k < 4; k++) c[i][r][s] += a[i][r][k] * b[i][k][s]; } }"""
NARROWED = "void f(const double a[64], float b[64]) { for (int i = 0; i < 64; i++) b[i] = a[i] * 0.5; }"
DOUBLE_LITERAL = "void f(const float a[64], float b[64]) { for (int i = 0; i < 64; i++) b[i] = 0.1 * a[i]; }"
LONG_SUM = """void f(const float a[64][64], float b[64]) {
    for (int i = 0; i < 64; i++) { b[i] = 0; for (int j = 0; j < 64; j++) b[i] += a[i][j]; } }"""
PRODUCT = """void f(const float a[96][96], const float b[96][96], float c[96][96]) {
    for (int i = 0; i < 96; i++) for (int j = 0; j < 96; j++) { c[i][j] = 0;
        for (int k = 0; k < 96; k++) c[i][j] += a[i][k] * b[k][j]; } }"""


@pytest.mark.parametrize(
    ("text", "avoids"), [(SMALL, False), (NARROWED, True), (DOUBLE_LITERAL, True), (LONG_SUM, True)]
)
def test_straight_code_has_vectors_but_where_doubles_are_narrowed_or_sums_are_long(text: str, avoids: bool) -> None:
    workload = pm.from_c(text, {"n": 100} if text == SMALL else {})
    assert ("-fno-tree-slp-vectorize" in program_flags(workload, (), fma=False)) == avoids, text


@pytest.mark.parametrize("text", [SMALL, PRODUCT, LONG_SUM])
def test_fused_floats_are_those_of_doubles_to_rounding(text: str) -> None:
    workload = pm.from_c(text, {"n": 100} if text == SMALL else {})
    fn, plain = pm.compile(workload, fma=True), pm.compile(workload)
    assert "-ffp-contract=fast" in fn.source, "its head says how it is built"
    assert "-ffp-contract=off" in plain.source, "without fma, each operation is rounded"
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(form.shape).astype(np.float32) for form in fn.function.arrays]
    (found,) = fn(*given)
    expected = (
        np.matmul(*(each.astype(float) for each in given[:2])) if len(given) > 2 else given[0].sum(1, dtype=float)
    )
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-4), text
    assert np.allclose(found, plain(*given)[0], rtol=1e-4, atol=1e-4), text


def test_clang_is_told_to_keep_loads_in_their_iterations(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("gcc", "clang"):
        assert shutil.which(name), "both compilers are installed"
        monkeypatch.setenv("CC", name)
        assert ("-DNO_LOAD_PRE" in host_compiler(("-ffp-contract=off",)).flags) == (name == "clang"), name


PAIRS = """void f(const float x[101], float y[200]) {
    for (int i = 0; i < 100; i++) { y[2 * i] = x[i]; y[2 * i + 1] = 0.5f * (x[i] + x[i + 1]); } }"""
PLANES = """void f(const float p[3][100], float q[100][3]) {
    for (int i = 0; i < 100; i++) for (int c = 0; c < 3; c++) q[i][c] = p[c][i]; }"""
HALVES = """void f(const float x[200], float low[100], float high[100]) {
    for (int i = 0; i < 100; i++) { low[i] = x[2 * i] + x[2 * i + 1]; high[i] = x[2 * i] - x[2 * i + 1]; } }"""
TRANSPOSED = """void f(const float a[100][100], float b[100][100]) {
    for (int i = 0; i < 100; i++) for (int j = 0; j < 100; j++) b[j][i] = a[i][j]; }"""
SUMS_OF_PAIRS = """void f(const float x[100], float y[200]) {
    for (int i = 0; i < 100; i++) { y[2 * i] += x[i]; y[2 * i + 1] = x[i]; } }"""


@pytest.mark.parametrize(
    ("text", "kept"),
    [(PAIRS, False), (PLANES, False), (HALVES, True), (TRANSPOSED, True), (SUMS_OF_PAIRS, True), (SMALL, True)],
)
def test_arrays_are_told_to_be_apart_but_where_elements_are_set_in_turns(text: str, kept: bool) -> None:
    """Of HALVES and SMALL gcc's code is 1.3 and 6 times as fast where arrays are apart, of PAIRS 0.9 times."""
    workload = pm.from_c(text, {"n": 100} if text == SMALL else {})
    fn = pm.compile(workload)
    assert ("#define restrict /* gcc" not in fn.source) == kept, text
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(form.shape).astype(np.float32) for form in fn.function.arrays]
    found = fn(*given)
    if text == PAIRS:
        assert np.array_equal(found[0][::2], given[0][:-1]), "every other element is copied"
    if text == PLANES:
        assert np.array_equal(found[0], given[0].T), "planes become pixels"


MIRRORED = """void f(int n, const double a[n][n], double b[n][n]) {
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) b[i][j] = 0.5 * (a[i][j] + a[j][i]); }"""
POOLED = """void f(int n, const float a[2 * n][2 * n], float b[n][n]) {
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { float m = a[2 * i][2 * j];
        for (int r = 0; r < 2; r++) for (int c = 0; c < 2; c++)
            m = a[2 * i + r][2 * j + c] > m ? a[2 * i + r][2 * j + c] : m;
        b[i][j] = m; } }"""


@pytest.mark.parametrize(("text", "n", "scalar"), [(MIRRORED, 64, "vaddsd"), (POOLED, 48, "vmaxss")])
def test_gcc_finds_vectors_whatever_the_length_of_rows(text: str, n: int, scalar: str, tmp_path: Path) -> None:
    assert shutil.which("gcc"), "gcc is installed"
    fn = pm.compile(pm.from_c(text, {"n": n}), "host_cpu")
    (tmp_path / "f.c").write_text(fn.source)
    flags = ("-O3", "-march=x86-64-v3", "-fno-math-errno", *fn.function.flags)
    subprocess.run(["gcc", *flags, "-S", "-o", str(tmp_path / "f.s"), str(tmp_path / "f.c")], check=True)
    assert scalar not in (tmp_path / "f.s").read_text(), "all elements are computed in vectors"
    a = np.random.default_rng(0).standard_normal(fn.function.arrays[0].shape).astype(fn.function.arrays[0].kind)
    (found,) = fn(a, np.zeros((n, n), a.dtype))
    expected = 0.5 * (a + a.T) if text == MIRRORED else a.reshape(n, 2, n, 2).max((1, 3))
    assert (found == expected).all(), text


def test_clang_finds_vectors_in_rows_that_it_could_write_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "clang")
    text = """void f(const double x[27], const double y[27], double c[27][27]) {
        for (int i = 0; i < 27; i++) for (int j = 0; j < 27; j++) c[i][j] += x[i] * y[j]; }"""
    fn = pm.compile(pm.from_c(text), "host_cpu")
    flags = [each for each in host_compiler(fn.function.flags).flags if each != "-march=native"]
    assert "-mllvm -unroll-full-max-count=16 -mllvm -unroll-max-count=8 " in fn.source, "its head says how it is built"
    (tmp_path / "f.c").write_text(fn.source)
    command = ["clang", *flags, "-march=x86-64-v3", "-S", "-o", str(tmp_path / "f.s"), str(tmp_path / "f.c")]
    subprocess.run(command, check=True)
    assert "vmulpd" in (tmp_path / "f.s").read_text(), "rows are computed in vectors"
    rng = np.random.default_rng(0)
    x, y, c = rng.random(27), rng.random(27), rng.random((27, 27))
    assert (fn(x, y, c.copy()) == c + x[:, None] * y).all()


FACTORS = """void f(int n, double a[n][n]) { for (int k = 0; k < n; k++) {
    for (int i = k + 1; i < n; i++) a[i][k] /= a[k][k];
    for (int i = k + 1; i < n; i++) for (int j = k + 1; j < n; j++) a[i][j] -= a[i][k] * a[k][j]; } }"""
PATHS = """void f(int n, double a[n][n]) { for (int k = 0; k < n; k++) for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) a[i][j] = a[i][k] + a[k][j] < a[i][j] ? a[i][k] + a[k][j] : a[i][j]; }"""
PREFIXES = """void f(int n, double a[n][n]) { for (int i = 0; i < n; i++)
    for (int j = 1; j < n; j++) a[i][j] += a[i][j - 1]; }"""


@pytest.mark.parametrize(("text", "marked"), [(FACTORS, True), (PATHS, False), (PREFIXES, False)])
def test_loops_in_place_are_marked_where_no_iteration_touches_what_another_sets(text: str, *, marked: bool) -> None:
    fn = pm.compile(pm.from_c(text, {"n": 40}), "host_cpu")
    assert ("polymap_apart" in fn.source) == marked, "an element in the column k, or the one before, is set in the loop"
    a = np.random.default_rng(0).random((40, 40)) + 40 * np.eye(40)
    found = np.asarray(fn(a.copy())[0])
    for k in range(40) if marked else ():
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    for k in range(40) if text == PATHS else ():
        for i in range(40):
            for j in range(40):
                a[i, j] = min(a[i, j], a[i, k] + a[k, j])
    assert (found == (a.cumsum(1) if text == PREFIXES else a)).all(), text


def test_tiles_of_sums_with_a_loop_besides_those_of_the_tile() -> None:
    text = """void f(int n, double a[n][n]) { for (int i = 0; i < n; i++) { for (int j = 0; j < i; j++) {
        for (int k = 0; k < j; k++) a[i][j] -= a[i][k] * a[j][k]; a[i][j] /= a[j][j]; }
        for (int k = 0; k < i; k++) a[i][i] -= a[i][k] * a[i][k]; a[i][i] = sqrt(a[i][i]); } }"""
    fn = pm.compile(pm.from_c(text, {"n": 64}), "host_cpu")
    assert "in tiles of 8 j x 8 k, its sums in vector registers" in fn.source, "48 k would leave half to points"
    a = np.random.default_rng(0).random((64, 64)) + 640 * np.eye(64)
    found = np.asarray(fn(a.copy())[0])
    for i in range(64):
        for j in range(i):
            for k in range(j):
                a[i, j] -= a[i, k] * a[j, k]
            a[i, j] /= a[j, j]
        for k in range(i):
            a[i, i] -= a[i, k] * a[i, k]
        a[i, i] = np.sqrt(a[i, i])
    assert (found == a).all(), "each sum in the order of the text"


@pytest.mark.parametrize(
    ("kind", "n", "rows"), [("float", 64, 8), ("float", 100, 10), ("float", 97, 8), ("double", 512, 4)]
)
def test_strips_leave_no_rest_and_rows_in_few_sets_of_the_cache_are_few(kind: str, n: int, rows: int) -> None:
    text = f"""void f(int n, const {kind} x[n][n], {kind} y[n][n]) {{ for (int i = 0; i < n; i++)
        for (int j = 1; j < n; j++) y[i][j] = y[i][j - 1] + x[i][j]; }}"""
    fn = pm.compile(pm.from_c(text, {"n": n}), "host_cpu")
    assert f"= {rows} * c1;" in fn.source, "as many rows run side by side"
    assert "step_" not in fn.source, "gcc is told how far apart they are: there are no vectors"
    x = np.random.default_rng(0).standard_normal((n, n)).astype(fn.function.arrays[0].kind)
    (found,) = fn(x, x.copy())
    assert (found == x.cumsum(1, x.dtype)).all(), "each row is summed in order"
