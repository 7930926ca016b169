"""Whether integers may overflow, and what compilers are told of it."""

from __future__ import annotations

import numpy as np
import pytest

import polymap as pm
from polymap.codegen.programs.flags import may_overflow

HEAD = "void f(int n, unsigned char a[n], short b[n], int c[n], unsigned d[n], unsigned char o[n], int s[n]) {"
SAFE = {
    "bytes": "o[i] = a[i] + 40 > 255 ? 255 : a[i] + 40;",
    "weights": "o[i] = (77 * a[i] + 150 * a[n - 1 - i]) / 256;",
    "products of shorts": "s[i] = b[i] * b[i] + 1073741823;",
    "unsigned": "d[i] = d[i] * 3u + 1u;",
    "cut off": "s[i] = (short)c[i] * 65535;",
    "remainders": "s[i] = c[i] % 7 * 1000;",
}
WRAPPING = {
    "ints": "s[i] = c[i] + 1;",
    "products of shorts": "s[i] = b[i] * b[i] + 1073741824;",
    "cut off": "s[i] = (short)c[i] * 65538;",
    "negated": "s[i] = -c[i];",
    "sums": "s[0] += a[i];",
    "index": "s[i] = i * 100000 * a[i];",
}


@pytest.mark.parametrize("text", [*SAFE.values(), *WRAPPING.values()])
def test_only_programs_that_may_overflow_are_told_to_wrap(text: str) -> None:
    workload = pm.from_c(f"{HEAD} for (int i = 0; i < n; i++) {text} }}", {"n": 40})
    assert may_overflow(workload) == (text in WRAPPING.values())
    assert ("-fwrapv" in pm.compile(workload, "cpu_avx2").source) == (text in WRAPPING.values())


def test_sums_of_integers_wrap() -> None:
    text = """void f(int n, const int x[n], const short y[n], int s[1], short t[1]) {
    for (int i = 0; i < n; i++) { s[0] += x[i]; t[0] += y[i]; } }"""
    fn = pm.compile(pm.from_c(text, {"n": 1000}), "cpu_avx2")
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 2**31 - 1, 1000, np.int32), rng.integers(0, 2**15 - 1, 1000, np.int16)
    found, short = fn(x, y, np.zeros(1, np.int32), np.zeros(1, np.int16))
    assert found[0] == x.sum(dtype=np.int32)
    assert short[0] == y.sum(dtype=np.int16)
