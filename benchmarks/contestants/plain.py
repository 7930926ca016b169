"""Naive loops under gcc -O3 -march=native -ffast-math, called by ctypes."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from layers import Layer, Product
from protocol import Calls, serve

_HEAD = "void f(const float *restrict x, const float *restrict w, float *restrict y)\n"
_PRODUCT = """{{
    for (int i = 0; i < {m}; ++i)
        for (int j = 0; j < {n}; ++j)
            y[i * {n} + j] = 0;
{openmp}
    for (int i = 0; i < {m}; ++i)
        for (int k = 0; k < {k}; ++k)
            for (int j = 0; j < {n}; ++j)
                y[i * {n} + j] += x[i * {k} + k] * w[k * {n} + j];
}}
"""
_LOOPS = """{{
{openmp}
    for (int p = 0; p < {out}; ++p)
        for (int q = 0; q < {out}; ++q)
            for (int k = 0; k < {filters}; ++k) {{
                float sum = 0;
                for (int r = 0; r < {taps}; ++r)
                    for (int s = 0; s < {taps}; ++s) {{
                        const int h = p * {stride} + r - {padding}, v = q * {stride} + s - {padding};
                        if (h < 0 || h >= {size} || v < 0 || v >= {size})
                            continue;
                        for (int c = 0; c < {each}; ++c)
                            sum += x[{x}] * w[{w}];
                    }}
                y[{y}] = sum;
            }}
}}
"""
_PLACES = {
    "NHWC": (
        "(h * {size} + v) * {channels} + k / {per} * {each} + c",
        "((k * {taps} + r) * {taps} + s) * {each} + c",
        "(p * {out} + q) * {filters} + k",
    ),
    "NCHW": (
        "((k / {per} * {each} + c) * {size} + h) * {size} + v",
        "((k * {each} + c) * {taps} + r) * {taps} + s",
        "(k * {out} + p) * {out} + q",
    ),
}


def source(layer: Layer | Product, layout: str, threads: int) -> str:
    """Return the C text."""
    openmp = f"#pragma omp parallel for num_threads({threads})" if threads > 1 else ""
    if isinstance(layer, Product):
        return _HEAD + _PRODUCT.format(m=layer.m, n=layer.n, k=layer.k, openmp=openmp)
    numbers = {
        name: getattr(layer, name) for name in ("filters", "channels", "size", "taps", "stride", "padding", "out")
    }
    numbers |= {"each": layer.channels // layer.groups, "per": layer.filters // layer.groups}
    x, w, y = (place.format(**numbers) for place in _PLACES[layout])
    return _HEAD + _LOOPS.format(x=x, w=w, y=y, openmp=openmp, **numbers)


def prepare(layer: Layer | Product, layout: str, threads: int) -> Calls:
    """Return the call."""
    with tempfile.TemporaryDirectory() as place:
        text = Path(place, "f.c")
        text.write_text(source(layer, layout, threads))
        flags = ["-O3", "-march=native", "-ffast-math", "-fopenmp", "-shared", "-fPIC"]
        subprocess.run(["gcc", *flags, str(text), "-o", f"{place}/f.so"], check=True)
        function = ctypes.CDLL(f"{place}/f.so").f
    x, w = layer.arrays(layout)
    if isinstance(layer, Product):
        y = np.empty((layer.m, layer.n), np.float32)
    else:
        y = np.empty((layer.out, layer.out, layer.filters), np.float32)

    def call() -> object:
        function(*(ctypes.c_void_p(each.ctypes.data) for each in (x, w, y)))
        return y

    return {"naive": call}


serve(prepare)
