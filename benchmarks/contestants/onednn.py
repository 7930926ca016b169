"""oneDNN through torch: as called, and as torch's own compiler calls it, with weights reordered ahead."""

from __future__ import annotations

from typing import Any

import torch
from layers import Layer, Product
from protocol import Calls, serve

torch.set_grad_enabled(False)


def prepare(layer: Layer | Product, layout: str, threads: int) -> Calls:
    """Return the calls; the fastest of them counts."""
    torch.set_num_threads(threads)
    arrays = layer.arrays("NCHW")
    x, w = (torch.from_numpy(each) for each in arrays)
    if isinstance(layer, Product):
        return _product(x, w)
    form = torch.channels_last if layout == "NHWC" else torch.contiguous_format
    x = x.contiguous(memory_format=form)
    window = ([layer.padding] * 2, [layer.stride] * 2, [1, 1], layer.groups)
    padding, stride, dilation, groups = window
    weights = w.contiguous(memory_format=form)
    calls: Calls = {"torch": lambda: torch.conv2d(x, weights, None, stride, padding, dilation, groups)}
    packed = torch.ops.mkldnn._reorder_convolution_weight(w, padding, stride, dilation, groups, list(x.shape))
    point = torch.ops.mkldnn._convolution_pointwise
    calls["onednn packed"] = lambda: point(x, packed, None, padding, stride, dilation, groups, "none", [], "")
    return calls


def _product(a: Any, b: Any) -> Calls:
    out = torch.empty(a.shape[0], b.shape[1])
    turned = b.t().contiguous()
    packed = torch.ops.mkldnn._reorder_linear_weight(turned, a.shape[0])
    point = torch.ops.mkldnn._linear_pointwise
    return {
        "torch": lambda: torch.mm(a, b, out=out),
        "onednn packed": lambda: point(a, packed, None, "none", [], ""),
    }


serve(prepare)
