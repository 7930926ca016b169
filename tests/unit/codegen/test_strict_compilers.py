"""Functions to ship compile as C99 (with large temporaries as C11) and as C++ without a warning, with gcc and with
clang."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

import polymap as pm

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Werror", "-O1", "-march=native", "-c", "-o", "/dev/null")
ROWS = """void f(int n, double A[n][n], double x[n]) {
  for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) x[i] += A[i][j] * A[j][i]; }"""
GEMM = """void g(int n, float C[n][n], float A[n][n], float B[n][n]) {
  for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) for (int k = 0; k < n; k++) C[i][j] += A[i][k] * B[k][j]; }"""
MAXIMA = """void h(int n, const float A[n][n], float x[n]) { float B[640][640];
  for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) B[j][i] = 2 * A[i][j];
  for (int i = 0; i < n; i++) { float m = 0; for (int j = 0; j < n; j++) m = m > B[i][j] ? m : B[i][j]; x[i] = m; } }"""
WHOLE = """void f(int n, double A[n][n], double x[n]) {
  double T[n][n];
  for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) T[i][j] = A[j][i];
  for (int k = 0; k < n; k++) for (int i = 1; i < n; i++) for (int j = 1; j < n; j++)
    T[i][j] += T[i - 1][j] * T[i][j - 1];
  for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) x[i] += T[j][i] * T[i][j]; }"""
NOTS = """void t(int n, unsigned short A[n], double B[n], int C[n]) {
  for (int i = 0; i < n; i++) {
    if (A[i] != 0) { A[i] = 1; B[i] = B[i] < B[i] ? B[i] : B[i]; } else B[i] += 1;
    C[i] = !C[i] + !(C[i] < 3 && B[i]) * 2 - !!A[i] + !B[i];
  }
}"""
SIGNS = """void s(int n, const unsigned long A[n][n], const signed char x[n], signed char y[n], unsigned long z[n]) {
  for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) { y[i] += A[i][j] * x[j]; z[i] += x[j]; } }"""
SHORTS = {"A": "bfloat16", "B": "bfloat16", "C": "float32"}
KINDS = (
    "layer",
    "padding",
    "bytes",
    "words",
    "product",
    "attention",
    "steps",
    "region",
    "block",
    "maxima",
    "nots",
    "signs",
    "contraction",
)
BYTES = {"I": "uint8", "W": "int8", "O": "int32"}


def _function(kind: str) -> tuple[pm.CompiledFunction, int]:
    options: dict[str, Any] = {"threads": 2} if kind in ("attention", "product") else {}
    match kind:
        case "layer":
            work = pm.conv2d(K=24, C=40, H=9, W=9, R=3, S=3, padding=1, stride=2, bits=32)
            options |= {"layout": "NCHW"}
        case "padding":  # more than filters are wide: register tiles without products
            work = pm.conv2d(K=3, C=3, H=8, W=1, R=3, S=1, stride=2, padding=3, bits=64)
            options |= {"layout": "NCHW"}
        case "bytes":
            work = pm.conv2d(K=32, C=16, H=7, W=7, R=3, S=3, padding=1, types=BYTES)
            options |= {"tail": ["bias", "relu", pm.Requantize(scale=0.01, zero_point=-128, to="int8")]}
        case "product":
            work = pm.matmul(m=37, n=41, k=43, bits=64)
        case "attention":
            work = pm.attention(heads=4, queries=40, keys=50, dim=24, types="float32")
        case "region":
            work = pm.from_c(ROWS, {"n": 70})
        case "maxima":
            work = pm.from_c(MAXIMA, {"n": 640})
        case "nots":
            work = pm.from_c(NOTS, {"n": 70})
        case "signs":
            work = pm.from_c(SIGNS, {"n": 70})
        case "block":
            work = pm.from_c(WHOLE, {"n": 600})
        case "steps":
            work = pm.attention(heads=2, queries=100, keys=9000, dim=128, types="float32")
        case "words":
            work = pm.einsum("C[m,n] += A[m,k] * B[n,k]", m=33, n=17, k=41, types=SHORTS)
        case _:
            work = pm.from_c(GEMM, {"n": 100})
    return pm.compile(work, "host_cpu", **options), options.get("threads", 1)


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_c99_and_cpp_without_warnings(kind: str, tmp_path: Path) -> None:
    function, threads = _function(kind)
    openmp = "-fopenmp" if threads > 1 else "-fopenmp-simd"
    declarations = f"#include <stdint.h>\n{function.function.declarations}"
    standard = "-std=c11" if kind == "maxima" else "-std=c99"  # aligned_alloc is of C11
    for words in (("gcc", standard), ("clang", standard), ("g++", "-xc++"), ("clang++", "-xc++")):
        is_c = words[0] in ("gcc", "clang")
        file = tmp_path / "function.c"
        file.write_text((declarations if is_c else "") + function.source)
        strict = ("-Wmissing-prototypes",) if is_c else ()
        strict += ("-Wpedantic",) if words[0] == "gcc" and kind == "contraction" else ()
        done = subprocess.run(
            [*words, openmp, *WARNINGS, *strict, str(file)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{kind}, {words[0]}: {done.stderr[:2000]}"
