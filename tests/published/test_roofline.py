"""Energy, roofline and lowering numbers of the ML systems textbook, chapter Hardware Acceleration, and its slides.

The names carry the rows' IDs. Tolerances are half a unit of the last digit printed there.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest

from polymap.costmodel.bounds import (
    arithmetic_intensity,
    array_tiling,
    attainable,
    compulsory_bits,
    energy_per_operation,
    im2col,
    ridge_point,
    roofline,
    unfused_bits,
)
from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.footprint import touched_elements
from polymap.ir.loopnest import Access, Dim, Operator, Read, Role, Statement, Tensor, Workload
from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, Storage, Temporal
from polymap.ir.quasi_affine import dim
from polymap.workload.einsums import einsum


def instances(workload: Workload) -> int:
    total = 1
    for extent in workload.extents().values():
        total *= extent
    return total


def intensity(workload: Workload) -> float:
    bits = compulsory_bits(workload)
    assert bits is not None
    return float(arithmetic_intensity(2 * instances(workload), Fraction(bits, 8)))


# Source: ML systems textbook, chapter Hardware Acceleration (energy table: DRAM 640 pJ per word, MAC 1 pJ).
def test_e2_a_systolic_array_shares_each_access_among_its_lanes() -> None:
    vector = energy_per_operation(4, 640, 1)
    systolic = energy_per_operation(Fraction(2, 128), 640, 1)
    assert (vector, systolic) == (2561, 11)
    assert float(vector / systolic) == pytest.approx(232.8, abs=0.05)


# Source: ML systems textbook, chapter Hardware Acceleration (peak TFLOP/s over TB/s).
@pytest.mark.parametrize(
    ("peak", "bandwidth", "expected"),
    [("125", "0.9", 138.9), ("312", "2.039", 153.0), ("989", "3.35", 295.2), ("275", "1.2", 229.2)],
    ids=["V100", "A100", "H100", "TPUv4"],
)
def test_r1_ridge_points(peak: str, bandwidth: str, expected: float) -> None:
    assert float(ridge_point(Fraction(peak), Fraction(bandwidth))) == pytest.approx(expected, abs=0.05)


# Source: ML systems textbook, chapter Hardware Acceleration (QKV projection: hidden 768, batch 32, sequence 512, FP16).
def test_r2_qkv_projection() -> None:
    layer = einsum("Y[t,o] += X[t,h] * W[h,o]", bits=16, t=32 * 512, h=768, o=3 * 768)
    bits = compulsory_bits(layer)
    assert bits is not None
    assert 2 * instances(layer) / 1e9 == pytest.approx(57.98, abs=0.005)
    assert bits / 8 / 1e6 == pytest.approx(104.2, abs=0.05)
    assert intensity(layer) == pytest.approx(556.4, abs=0.05)


# Source: ML systems textbook, chapter Hardware Acceleration (row V1's convolution in FP16: all taps, bare input).
def test_r4_convolution() -> None:
    layer = einsum("O[n,k,p,q] += I[n,c,p+r,q+s] * W[k,c,r,s]", bits=16, n=32, k=256, c=128, p=56, q=56, r=3, s=3)
    sizes = dict(touched_elements(layer))
    assert instances(layer) == 29_595_009_024
    assert sizes == {"O": 25_690_112, "I": 32 * 128 * 58 * 58, "W": 294_912}
    moved = 2 * (25_690_112 + 294_912 + 32 * 128 * 56 * 56)  # the book reads the input without its ring of padding
    assert moved / 1e6 == pytest.approx(77.66, abs=0.005)
    assert float(arithmetic_intensity(2 * instances(layer), moved)) == pytest.approx(762.2, abs=0.05)


# Source: ML systems textbook, chapter Hardware Acceleration (dense layer of 32 x 2048 x 2048 in FP16 on an A100).
def test_r5_a_small_batch_is_bound_by_memory() -> None:
    layer = einsum("Y[b,o] += X[b,i] * W[i,o]", bits=16, b=32, i=2048, o=2048)
    assert intensity(layer) == pytest.approx(31.03, abs=0.005)
    rate = attainable(312, Fraction("2.039"), Fraction(intensity(layer)))
    assert float(rate) == pytest.approx(63.27, abs=0.005)
    assert float(rate) / 312 == pytest.approx(0.203, abs=0.0005)


# Source: ML systems textbook, chapter Hardware Acceleration (4096^3 in FP16, square tiles of the output kept on chip).
@pytest.mark.parametrize(("tile", "expected"), [(32, 15.94), (64, 31.75), (128, 63.02), (256, 124.12)])
def test_m8_square_tiles(tile: int, expected: float) -> None:
    product = einsum("C[m,n] += A[m,k] * B[k,n]", bits=16, m=4096, n=4096, k=4096)
    arch = Architecture("two_levels", (MemoryLevel("DRAM"), MemoryLevel("SRAM"), ComputeUnit("MAC")))
    loops = [Temporal(name, tile) for name in "mn"], [Temporal(name, 1) for name in "kmn"]
    mapping = Mapping(
        (*loops[0], Storage("SRAM", ("C",)), Temporal("k", tile), Storage("SRAM", ("A", "B")), *loops[1], Compute("S"))
    )
    outermost = roofline(product, arch, evaluate(product, arch, mapping)).levels[0]
    assert outermost.operations_per_byte is not None
    assert float(outermost.operations_per_byte) == pytest.approx(expected, abs=0.005)


# Source: ML systems textbook, chapter Hardware Acceleration (4096 wide on a 128 x 128 array).
def test_m9_pieces_of_a_wide_product() -> None:
    pieces = array_tiling(4096, 128).pieces
    assert (pieces**2, pieces**3) == (1_024, 32_768)


# Source: ML systems textbook, chapter Hardware Acceleration (width 129 on 128 lanes).
def test_m10_one_index_too_many_halves_the_use() -> None:
    tiling = array_tiling(129, 128)
    assert (tiling.pieces, tiling.last) == (2, 1)
    assert float(tiling.utilization) == pytest.approx(0.5039, abs=0.00005)


# Source: ML systems textbook, chapter Hardware Acceleration (attention scores of 2048 tokens with 64 features).
def test_m12_attention_scores() -> None:
    assert instances(einsum("S[i,j] += Q[i,d] * K[j,d]", i=2048, j=2048, d=64)) == 268_435_456


# Source: lecture slides (5 x 5 image, 3 x 3 kernel).
def test_d2_im2col_repeats_the_image() -> None:
    lowered = im2col(height=5, width=5, rows=3, columns=3)
    assert (lowered.entries, lowered.distinct) == (81, 25)


# Source: ML systems textbook, chapter Hardware Acceleration (56 x 56 image, 3 x 3 kernel).
@pytest.mark.parametrize(("stride", "padding", "expected"), [(1, 1, 9.00), (1, 0, 8.37), (2, 1, 2.25)])
def test_d6_im2col_growth(stride: int, padding: int, expected: float) -> None:
    lowered = im2col(height=56, width=56, rows=3, columns=3, stride=stride, padding=padding)
    assert float(lowered.growth) == pytest.approx(expected, abs=0.005)


# Source: ML systems textbook, chapter Hardware Acceleration (relu, scale, shift on 1024 x 1024 in FP32).
def test_f1_fusion_moves_a_third() -> None:
    names, dims, index = ("A", "B", "C", "D"), ("i", "j"), (dim("i"), dim("j"))
    chain = Workload(
        name="relu_scale_shift",
        dims=tuple(Dim(name, 1024) for name in dims),
        tensors=tuple(Tensor(name, (1024, 1024), (0, 0), 32, Role.INPUT, temporary=name in "BC") for name in names),
        statements=tuple(
            Statement(
                f"S{number}",
                dims,
                (),
                Access(to, index),
                Operator.ASSIGN,
                (Access(of, index),),
                Read(0),
                (0, 0, number),
            )
            for number, (of, to) in enumerate(pairwise(names))
        ),
    )
    unfused, fused = unfused_bits(chain), compulsory_bits(chain)
    assert unfused is not None
    assert fused is not None
    assert unfused / 8 / 1e6 == pytest.approx(25.17, abs=0.005)
    assert fused / 8 / 1e6 == pytest.approx(8.39, abs=0.005)
