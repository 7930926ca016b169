"""The layers of benchmarks/code.py as plain numbers: what every contestant computes, and its random arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Layer:
    """A convolution (filters, channels, input size, taps, stride, groups) with padding taps // 2, float32, batch 1."""

    filters: int
    channels: int
    size: int
    taps: int
    stride: int = 1
    groups: int = 1

    @property
    def padding(self) -> int:
        return self.taps // 2

    @property
    def out(self) -> int:
        return (self.size + 2 * self.padding - self.taps) // self.stride + 1

    @property
    def flops(self) -> int:
        return 2 * self.out**2 * self.filters * self.channels // self.groups * self.taps**2

    def arrays(self, layout: str) -> tuple[Any, Any]:
        """Return x and w in the order of a layout."""
        rng = np.random.default_rng(0)
        x = rng.standard_normal((1, self.channels, self.size, self.size)).astype(np.float32)
        w = rng.standard_normal((self.filters, self.channels // self.groups, self.taps, self.taps)).astype(np.float32)
        if layout == "NHWC":
            x, w = (np.ascontiguousarray(np.moveaxis(each, 1, 3)) for each in (x, w))
        return x, w


@dataclass(frozen=True)
class Product:
    """C[m,n] = A[m,k] B[k,n], float32."""

    m: int
    n: int
    k: int

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k

    def arrays(self, layout: str) -> tuple[Any, Any]:
        """Return A and B."""
        rng = np.random.default_rng(0)
        a, b = rng.standard_normal((self.m, self.k)), rng.standard_normal((self.k, self.n))
        return a.astype(np.float32), b.astype(np.float32)


LAYERS: dict[str, Layer | Product] = {
    "3x3 64@56": Layer(64, 64, 56, 3),
    "3x3 128@28": Layer(128, 128, 28, 3),
    "3x3 256@14": Layer(256, 256, 14, 3),
    "3x3 512@7": Layer(512, 512, 7, 3),
    "1x1 256-64@56": Layer(64, 256, 56, 1),
    "1x1 64-256@56": Layer(256, 64, 56, 1),
    "7x7/2 3-64@224": Layer(64, 3, 224, 7, 2),
    "dw3x3 64@112": Layer(64, 64, 112, 3, 1, 64),
    "dw3x3/2 64@112": Layer(64, 64, 112, 3, 2, 64),
    "dw3x3 128@56": Layer(128, 128, 56, 3, 1, 128),
    "dw3x3/2 128@56": Layer(128, 128, 56, 3, 2, 128),
    "dw3x3 512@14": Layer(512, 512, 14, 3, 1, 512),
    "dw3x3/2 512@14": Layer(512, 512, 14, 3, 2, 512),
    "gemm 512^3": Product(512, 512, 512),
    "gemm 1024^3": Product(1024, 1024, 1024),
    "gemm 2048^3": Product(2048, 2048, 2048),
    "gemm 512x32x256": Product(512, 256, 32),
    "gemm 1x1024x1024": Product(1, 1024, 1024),
    "gemm 127^3": Product(127, 127, 127),
    "gemm 1000x999x1001": Product(1000, 999, 1001),
    # Of networks with few channels (MobileNetV2, EfficientNet, GhostNet): rows that fill no whole vector.
    "1x1 64-24@56": Layer(24, 64, 56, 1),
    "1x1 144-24@56": Layer(24, 144, 56, 1),
    "1x1 24-144@56": Layer(144, 24, 56, 1),
    "1x1 120-40@28": Layer(40, 120, 28, 1),
    "1x1 192-64@14": Layer(64, 192, 14, 1),
    "1x1 960-160@7": Layer(160, 960, 7, 1),
    "1x1 512-512@7": Layer(512, 512, 7, 1),
    "3x3 24@28": Layer(24, 24, 28, 3),
    "3x3 40@14": Layer(40, 40, 14, 3),
    "5x5 24@28": Layer(24, 24, 28, 5),
    "3x3 groups of 4, 64@28": Layer(64, 64, 28, 3, 1, 16),
    "3x3 groups of 8, 128@28": Layer(128, 128, 28, 3, 1, 16),
    "gemm 100^3": Product(100, 100, 100),
    "gemm 1000x24x300": Product(1000, 24, 300),
    "gemm 24x1000x300": Product(24, 1000, 300),
}
