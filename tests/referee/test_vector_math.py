"""The functions that compiled programs put into vectors, against libm's in doubles (floats) and mpmath (doubles)."""

from __future__ import annotations

import ctypes
import math
from pathlib import Path
from typing import Any

import mpmath  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
import pytest
from numpy.typing import NDArray

from polymap.codegen.native import build_shared
from polymap.codegen.programs.vector_math import helpers

Values = NDArray[Any]
# Largest errors in units in the last place, as the C texts state them.
ERRORS = {"exp": 1.1, "tanh": 3.0, "erf": 2.0}
EDGES = (0.0, -0.0, np.inf, -np.inf, 1.0, -1.0, 1e-30, -1e-30, 88.0, 88.7228, 88.73, 89.5, -87.3, -103.9, -104.5, 1e30)
WIDE_EDGES = (709.0, 709.78, 709.79, 711.0, -708.0, -745.1, -745.2, -750.0, 19.0, 20.5, 1e300, -1e300)


def _loaded(compiler: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> ctypes.CDLL:
    monkeypatch.setenv("CC", compiler)
    text = "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n"
    text += helpers("exp_float( tanh_float( erf_float( exp_double( tanh_double( erf_double(")
    for kind in ("float", "double"):
        for name in ERRORS:
            head = f"void all_{name}_{kind}(const {kind} *x, {kind} *y, long n)"
            text += f"{head}\n{{\n    for (long i = 0; i < n; ++i)\n        y[i] = {name}_{kind}(x[i]);\n}}\n"
    return ctypes.CDLL(str(build_shared(text, place, 1)))


def _values(library: ctypes.CDLL, name: str, x: Values) -> Values:
    kind = "float" if x.dtype == np.float32 else "double"
    y = np.empty_like(x)
    library[f"all_{name}_{kind}"](ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), ctypes.c_long(len(x)))
    return y


def _exact(name: str, x: Values) -> Values:
    """Return libm's values in doubles."""
    return np.vectorize(math.erf, otypes=[float])(x) if name == "erf" else getattr(np, name)(x)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", list(ERRORS))
def test_errors_of_floats_are_below_those_stated(
    name: str, compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = _loaded(compiler, tmp_path, monkeypatch)
    x = np.concatenate([np.arange(0, 2**32, 1009, dtype=np.uint32).view(np.float32), np.array(EDGES, np.float32)])
    y = _values(library, name, x)
    with np.errstate(all="ignore"):
        exact = _exact(name, x.astype(np.float64))
        rounded = exact.astype(np.float32)
        unit = np.spacing(np.abs(rounded)).astype(np.float64)
    finite = np.isfinite(rounded)
    assert (np.isnan(y) == np.isnan(x)).all(), "what is no number stays so"
    assert (y[np.isinf(rounded)] == rounded[np.isinf(rounded)]).all(), "what is too large is infinite"
    worst = float((np.abs(y[finite] - exact[finite]) / unit[finite]).max())
    assert worst <= ERRORS[name], f"{name}: {worst} units in the last place"
    for odd in ("tanh", "erf"):
        zeros = _values(library, odd, np.array([0.0, -0.0], np.float32))
        assert list(np.signbit(zeros)) == [False, True], f"{odd} keeps the sign of zero"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", list(ERRORS))
def test_errors_of_doubles_are_below_those_stated(
    name: str, compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = _loaded(compiler, tmp_path, monkeypatch)
    random = np.random.default_rng(5)
    parts = [random.uniform(-scale, scale, 400) for scale in (0.4, 2, 25, 720)]
    parts += [np.exp2(random.uniform(-1060, 9, 300)), np.array(EDGES), np.array(WIDE_EDGES)]
    x = np.concatenate(parts)
    y = _values(library, name, x)
    mpmath.mp.prec = 160
    for given, found in zip(x, y, strict=True):
        exact = getattr(mpmath, name)(mpmath.mpf(float(given))) if np.isfinite(given) else None
        with np.errstate(all="ignore"):
            nearest = float(exact) if exact is not None else float(_exact(name, np.array([given]))[0])
        if exact is None or np.isinf(nearest):
            assert found == nearest, f"{name}({given}) is {found}"
            continue
        error = abs(mpmath.mpf(float(found)) - exact) / mpmath.mpf(float(np.spacing(abs(nearest))))
        assert error <= ERRORS[name], f"{name}({given}): {float(error)} units in the last place"
