"""Tiles of lines: which nests have them, and that they compute what the text does."""

from __future__ import annotations

import numpy as np
import pytest

import polymap as pm

TRANSPOSED = """void f(int n, const double a[n][n], double b[n][n]) {
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) b[j][i] = a[i][j]; }"""
ADDED = """void f(int n, const double a[n][n], double b[n][n]) {
    for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) b[i][j] = a[i][j] + a[j][i]; }"""
TURNED = """void f(int n, const double a[n][5][n], double b[n][5][n]) {
    for (int i = 0; i < n; i++) for (int k = 0; k < 5; k++) for (int j = 0; j < n; j++) b[j][k][i] = a[i][k][j]; }"""
IN_PLACE = """void f(int n, double a[n][n]) {
    for (int i = 1; i < n; i++) for (int j = 0; j < n - 1; j++) a[i][j] = a[i - 1][j + 1] + a[j][i]; }"""


def order(text: str, n: int) -> str:
    """Return the comment at the head of what is printed."""
    return pm.compile(pm.from_c(text, {"n": n}), "cpu_avx512").source.split("*/")[0]


@pytest.mark.parametrize(("text", "size"), [(TRANSPOSED, 8), (ADDED, 32), (TURNED, 8)])
def test_nests_across_lines_are_tiled(text: str, size: int) -> None:
    assert f"in tiles of {size}" in order(text, 131)
    assert "in tiles" not in order(text, 127), "the lines of so few rows stay in the first cache"


@pytest.mark.parametrize("n", [128, 131, 255])
def test_tiles_compute_what_the_text_does(n: int) -> None:
    a = np.random.default_rng(n).random((n, n))
    (turned,) = pm.compile(pm.from_c(TRANSPOSED, {"n": n}), "host_cpu")(a, np.zeros_like(a))
    np.testing.assert_array_equal(turned, a.T)
    (added,) = pm.compile(pm.from_c(ADDED, {"n": n}), "host_cpu")(a, np.zeros_like(a))
    np.testing.assert_array_equal(added, a + a.T)
    b = np.random.default_rng(n).random((n, 5, n))
    (swapped,) = pm.compile(pm.from_c(TURNED, {"n": n}), "host_cpu")(b, np.zeros_like(b))
    np.testing.assert_array_equal(swapped, b.transpose(2, 1, 0))


def test_dependences_keep_their_order() -> None:
    """The nest asks for tiles, but each row waits for the one before, from the right to the left."""
    n = 131
    a = np.random.default_rng(0).random((n, n))
    expected = a.copy()
    for i in range(1, n):
        for j in range(n - 1):
            expected[i, j] = expected[i - 1, j + 1] + expected[j, i]
    (found,) = pm.compile(pm.from_c(IN_PLACE, {"n": n}), "host_cpu")(a)
    np.testing.assert_array_equal(found, expected)
