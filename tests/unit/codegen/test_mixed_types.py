"""Compiled programs of several element types: each value has the type that C gives it, whatever it is stored as."""

from __future__ import annotations

import numpy as np
import pytest

import polymap as pm

Y, Z = [7, 2, -5, 4], [9, 3, 3, 2**31 - 1]


@pytest.mark.parametrize("more", [[], ["U[j] = T[j]"]], ids=["nest", "program"])
@pytest.mark.parametrize(
    ("value", "kind", "target", "expected"),
    [
        ("Y[j] / 3", "int32", "float64", [2, 0, -1, 1]),
        ("Y[j] / 3", "int8", "float32", [2, 0, -1, 1]),
        ("Y[j] - Z[j]", "uint32", "int64", [2**32 - 2, 2**32 - 1, 2**32 - 8, 2**31 + 5]),
        ("Y[j] * 0.1", "float32", "float64", [float(np.float32(y)) * 0.1 for y in Y]),
    ],
)
def test_values_have_the_types_of_c(value: str, kind: str, target: str, expected: list[float], more: list[str]) -> None:
    types = {name: kind if name in "YZ" else target for name in "YZTU" if name in value + "T" + "".join(more)}
    work = pm.program([f"T[j] = {value}", *more], j=4, types=types)
    given = [np.array(each).astype(kind) for each, name in ((Y, "Y"), (Z, "Z")) if name in value]
    found = pm.compile(work, time_limit_s=1)(*given)
    for each in found if isinstance(found, tuple) else (found,):
        np.testing.assert_array_equal(each, np.array(expected).astype(target))
