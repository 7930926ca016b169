"""Maxima and minima of floats in parts, against the texts themselves without optimization: bit for bit, with NaN, zeros
of both signs and infinities in every position, and as the value at the start."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import polymap as pm

_HEAD = "#include <math.h>\n"
_TEXT = """void f(int n, int m, const {0} a[m][n], {0} s[m])
{{ for (int i = 0; i < m; i++) {{ {0} x = s[i]; for (int j = 0; j < n; j++) {1} s[i] = x; }} }}"""
FORMS = {
    "x = a[i][j] > x ? a[i][j] : x;": True,
    "x = a[i][j] >= x ? a[i][j] : x;": True,
    "x = x > a[i][j] ? x : a[i][j];": True,
    "x = x >= a[i][j] ? x : a[i][j];": True,
    "x = x < a[i][j] ? a[i][j] : x;": True,
    "x = x <= a[i][j] ? a[i][j] : x;": True,
    "if (a[i][j] > x) x = a[i][j];": True,
    "if (x < a[i][j]) x = a[i][j];": True,
    "x = -a[i][j] < x ? -a[i][j] : x;": True,
    "x = x < a[i][j] ? x : a[i][j];": True,
    "if (x >= a[i][j]) x = a[i][j];": True,
    "x = fabs(a[i][j]) > x ? fabs(a[i][j]) : x;": True,
    "x = fmax(x, a[i][j]);": False,
    "x = fmin(a[i][j], x);": False,
}
_WORD = "in parts side by side"


def _specials(kind: str) -> NDArray[Any]:
    """Return values with bits that an order decides on: NaN of two payloads, zeros, infinities."""
    bits = [0x7FC00001, 0xFFC00002] if kind == "float" else [0x7FF8000000000001, 0xFFF8000000000002]
    words = np.array(bits, np.uint32 if kind == "float" else np.uint64)
    return np.concatenate([words.view(_dtype(kind)), np.array([0.0, -0.0, np.inf, -np.inf], _dtype(kind))])


def _dtype(kind: str) -> Any:
    return np.float32 if kind == "float" else np.float64


def _rows(kind: str, n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return rows of values, and a start for each: one special value at every position of rows without any, then rows
    with many; starts of all sorts."""
    rng, found = np.random.default_rng(n), list[NDArray[Any]]()
    specials = _specials(kind)
    bases = (rng.uniform(-9, -1, n), rng.uniform(1, 9, n), rng.uniform(-9, 9, n), np.zeros(n), -np.zeros(n))
    for value in specials:
        for at in range(n):
            row = bases[at % 2].astype(_dtype(kind))
            row[at] = value
            found.append(row)
    for count in (2, 3, 20, n - 1, n):
        for base in bases:
            for _ in range(8):
                row = base.astype(_dtype(kind))
                row[rng.permutation(n)[:count]] = rng.choice(specials, count)
                found.append(row)
    starts = np.concatenate([specials, np.array([-100.0, 100.0, -5.0, 5.0], _dtype(kind))])
    return np.array([row for row in found for _ in starts]), np.tile(starts, len(found))


def _result(text: str, where: Path, flags: tuple[str, ...], rows: NDArray[Any], starts: NDArray[Any]) -> NDArray[Any]:
    source = where.with_suffix(".c")
    source.write_text(text if text.startswith("#include") else _HEAD + text)
    subprocess.run(["gcc", "-std=gnu11", "-w", *flags, "-fPIC", "-shared", "-o", where, source, "-lm"], check=True)
    found = starts.copy()
    code: Any = ctypes.CDLL(str(where)).f
    code(*reversed(rows.shape), rows.ctypes.data_as(ctypes.c_void_p), found.ctypes.data_as(ctypes.c_void_p))
    return found.view(np.uint32 if found.itemsize == 4 else np.uint64)


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a compiler")
@pytest.mark.parametrize("kind", ["float", "double"])
@pytest.mark.parametrize("form", FORMS, ids=[str(number) for number in range(len(FORMS))])
def test_maxima_have_the_bits_of_the_text(form: str, kind: str, tmp_path: Path) -> None:
    text = _HEAD + _TEXT.format(kind, form)
    if kind == "float":
        text = text.replace("fmax(", "fmaxf(").replace("fmin(", "fminf(").replace("fabs(", "fabsf(")
    made = pm.transform_c(text)
    assert _WORD in " ".join(made.report.changes)
    rows, starts = _rows(kind, 133)
    wanted = _result(text, tmp_path / "text.so", ("-O0" if FORMS[form] else "-O1",), rows, starts)
    found = _result(made, tmp_path / "new.so", ("-O3", "-march=native"), rows, starts)
    assert np.array_equal(wanted, found), (rows[wanted != found][:1], starts[wanted != found][:1])
    fn = pm.compile(pm.from_c(text, {"n": 133, "m": len(starts)}), "host_cpu")
    assert fn.function is not None
    assert _WORD in fn.function.text
    own: Any = fn(rows, starts.copy())
    bits = np.asarray(own).reshape(-1).view(wanted.dtype)
    if FORMS[form]:
        assert np.array_equal(wanted, bits)
    else:  # which zero, or which NaN, a function gives is open
        both = np.isnan(wanted.view(rows.dtype)) & np.isnan(bits.view(rows.dtype))
        assert np.all((wanted.view(rows.dtype) == bits.view(rows.dtype)) | both)
