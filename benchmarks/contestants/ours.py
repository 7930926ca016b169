"""polymap's compiled function, by the compiler that CC names; weights packed ahead."""

from __future__ import annotations

import numpy as np
from layers import Layer, Product
from protocol import Calls, serve

import polymap as pm


def prepare(layer: Layer | Product, layout: str, threads: int) -> Calls:
    """Return the call."""
    if isinstance(layer, Product):
        workload = pm.matmul(m=layer.m, n=layer.n, k=layer.k, bits=32)
    else:
        workload = pm.conv2d(
            K=layer.filters,
            C=layer.channels,
            H=layer.size,
            W=layer.size,
            R=layer.taps,
            S=layer.taps,
            stride=layer.stride,
            padding=layer.padding,
            groups=layer.groups,
            bits=32,
        )
    fn = pm.compile(workload, "host_cpu", layout=layout, threads=threads)
    x, w = layer.arrays(layout)
    packed = fn.pack_weights(w) if fn.packed in (None, workload.statements[0].reads[-1].tensor) else w
    y = fn(x, packed)
    assert isinstance(y, np.ndarray)
    return {"polymap": lambda: fn(x, packed, out=y)}


serve(prepare)
