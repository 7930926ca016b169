"""numpy's matrix product (OpenBLAS, whose kernels OPENBLAS_CORETYPE chooses before numpy is loaded)."""

from __future__ import annotations

import numpy as np
from layers import Layer, Product
from protocol import Calls, serve


def prepare(layer: Layer | Product, layout: str, threads: int) -> Calls:
    """Return the call; a 1x1 convolution in NHWC is a product too."""
    x, w = layer.arrays(layout)
    if isinstance(layer, Layer):
        if layer.taps > 1 or layer.groups > 1 or layer.stride > 1 or layout != "NHWC":
            return {}
        x, w = x.reshape(-1, layer.channels), np.ascontiguousarray(w.reshape(layer.filters, -1).T)
    y = np.empty((x.shape[0], w.shape[1]), np.float32)
    return {"openblas": lambda: np.matmul(x, w, out=y)}


serve(prepare)
