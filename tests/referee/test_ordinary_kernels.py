"""The kernels of benchmarks/ordinary_kernels.py: what polymap makes of them beside their text, bit for bit."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polymap as pm
from benchmarks.ordinary_texts import KERNELS
from tests.c_to_c import PLAIN, arguments, compiled, parameters_of
from tests.times import few


def results(library: str, text: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values after a call of a text's function."""
    code: Any = ctypes.CDLL(library).f
    passed: list[Any] = []
    for each in parameters_of(text, "f"):
        value = values[each.name]
        kind = np.ctypeslib.as_ctypes_type(np.dtype(each.dtype))
        passed.append(ctypes.c_void_p(value.ctypes.data) if each.shape else kind(value))
    code(*passed)
    return values


@pytest.mark.parametrize("name", few([*list(KERNELS)[::2], *list(KERNELS)[1::2]], len(KERNELS) // 2))
def test_ordinary_kernels_are_computed_as_their_text(name: str, tmp_path: Path) -> None:
    text, sizes = KERNELS[name][0], {"n": min(KERNELS[name][1][0]["n"], 200)}

    def fresh() -> dict[str, Any]:
        return arguments(parameters_of(text, "f"), sizes, 5, whole=False)

    wanted = results(compiled(text, tmp_path / "text.so", "gcc", PLAIN), text, fresh())
    changed = results(compiled(pm.transform_c(text), tmp_path / "changed.so", "gcc", PLAIN), text, fresh())
    values = fresh()
    fn = pm.compile(pm.from_c(text, sizes), "host_cpu")
    held = [np.asarray(values[form.tensor], form.kind) for form in fn.function.arrays]
    fn.loaded.plain(*(each.ctypes.data for each in held))
    for form, value in zip(fn.function.arrays, held, strict=True):
        if form.is_written:
            assert np.array_equal(value, wanted[form.tensor], equal_nan=True), (form.tensor, fn.source)
            assert np.array_equal(changed[form.tensor], wanted[form.tensor], equal_nan=True), form.tensor
