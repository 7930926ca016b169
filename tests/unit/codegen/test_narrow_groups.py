"""Convolutions of groups of few channels: exact values beside a plain sum over taps; edges, strides, batches, tails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

import polymap as pm

LAYERS: list[dict[str, Any]] = [
    {"K": 32, "C": 32, "H": 9, "W": 13, "R": 3, "S": 3, "padding": 1, "groups": 8},
    {"K": 16, "C": 16, "H": 11, "W": 8, "R": 3, "S": 3, "padding": 1, "stride": 2, "groups": 8},
    {"K": 16, "C": 16, "H": 20, "W": 150, "R": 3, "S": 3, "padding": 1, "groups": 4},
    {"K": 16, "C": 16, "H": 12, "W": 7, "R": 5, "S": 2, "groups": 4, "N": 2},
    {"K": 48, "C": 48, "H": 6, "W": 9, "R": 3, "S": 3, "padding": 2, "dilation": 2, "groups": 12},
    {"K": 32, "C": 32, "H": 3, "W": 2, "R": 3, "S": 5, "padding": 2, "groups": 16},
]
Values = np.ndarray[Any, Any]


def grouped(x: Values, w: Values, layer: dict[str, Any]) -> Values:
    """Return the convolution of x[N,H,W,C] by w[K,R,S,C/groups], tap by tap."""
    pad, step, spread = (layer.get(name, default) for name, default in (("padding", 0), ("stride", 1), ("dilation", 1)))
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    of_group = layer["K"] // layer["groups"]
    p, q = ((x.shape[1 + n] - (w.shape[1 + n] - 1) * spread - 1) // step + 1 for n in (0, 1))
    found = np.zeros((x.shape[0], p, q, layer["K"]), x.dtype)
    for k in range(layer["K"]):
        first = k // of_group * w.shape[3]
        for r, s, c in np.ndindex(*w.shape[1:]):
            part = x[:, r * spread :, s * spread :, first + c][:, ::step, ::step][:, :p, :q]
            found[..., k] += part * w[k, r, s, c]
    return found


@pytest.mark.parametrize("machine", ["cpu_avx512 int32", "cpu_avx512 float64", "cpu_avx2 float32"])
@pytest.mark.parametrize("layer", LAYERS)
def test_values_of_narrow_groups_are_exact(layer: dict[str, Any], machine: str) -> None:
    arch, kind = machine.split()
    rng = default_rng(layer["H"] * layer["W"])
    fn = pm.compile(pm.conv2d(**layer, types=kind), arch, threads=1, tail=["bias", "relu"])
    x, w, bias = (rng.integers(-4, 5, form.shape).astype(kind) for form in fn.function.arrays[:3])
    assert "filters[" in fn.source
    assert np.array_equal(fn(x, w, bias), np.maximum(grouped(x, w, layer) + bias, 0))


def test_groups_of_eight_channels_are_narrow_where_the_caches_hold_no_image() -> None:
    layer: dict[str, Any] = {"K": 64, "C": 64, "H": 70, "W": 60, "R": 3, "S": 3, "padding": 1, "groups": 8}
    rng = default_rng(8)
    fn = pm.compile(pm.conv2d(**layer, bits=32), "cpu_avx512", threads=1)
    x, w = (rng.integers(-4, 5, form.shape).astype(np.float32) for form in fn.function.arrays[:2])
    assert "filters[" in fn.source
    assert np.array_equal(fn(x, w), grouped(x, w, layer))


def test_sums_of_narrow_groups_begin_from_what_is_stored() -> None:
    layer = LAYERS[0]
    rng = default_rng(3)
    fn = pm.compile(pm.conv2d(**layer, bits=32, initial=("O",)), "cpu_avx512", threads=1)
    x, w, start = (rng.integers(-4, 5, form.shape).astype(np.float32) for form in fn.function.arrays)
    assert np.array_equal(fn(x, w, out=start.copy()), grouped(x, w, layer) + start)


@pytest.mark.parametrize("changed", [{"groups": 4}, {"K": 64}, {"layout": "NCHW"}, {"associative": False}])
def test_other_groups_are_left_to_the_search(changed: dict[str, Any]) -> None:
    layer: dict[str, Any] = {**LAYERS[0], "H": 3, "W": 4, **changed}
    layout = layer.pop("layout", "NHWC")
    work = pm.conv2d(**layer, bits=32)
    assert "filters[" not in pm.compile(work, "cpu_avx512", layout=layout, threads=1).source
