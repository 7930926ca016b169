"""Convolution numbers of the ML systems textbook, chapter Hardware Acceleration, and its slides. Exact integers.

The names carry the rows' IDs. Footprints are also counted by listing the elements, which shares no code with polymap's.
"""

from __future__ import annotations

import math
from itertools import product

import pytest

from polymap.costmodel.footprint import touched_elements
from polymap.ir.loopnest import Workload
from polymap.poly.budgets import budget
from polymap.poly.counting import count
from polymap.poly.sets import integer_set
from polymap.workload.layers import conv2d


def points(workload: Workload) -> list[dict[str, int]]:
    """Return all statement instances, by testing every point of the box."""
    (statement,) = workload.statements
    box = product(*(range(dim.extent) for dim in workload.dims))
    named = (dict(zip(statement.dims, point, strict=True)) for point in box)
    return [point for point in named if all(each.evaluate(point) >= 0 for each in statement.constraints)]


def elements(workload: Workload, tensor: str) -> int:
    """Return how many elements the workload touches, by listing them."""
    (statement,) = workload.statements
    accesses = [access for access in (statement.target, *statement.reads) if access.tensor == tensor]
    every = points(workload)
    return len({tuple(index.evaluate(point) for index in access.index) for access in accesses for point in every})


# Source: ML systems textbook, chapter Hardware Acceleration, the convolution of its examples.
def test_v1_multiply_accumulates() -> None:
    layer = conv2d(N=32, C=128, H=56, W=56, K=256, R=3, S=3, padding=1)
    assert math.prod(layer.extents().values()) == 29_595_009_024


# Source: the same convolution; the words of its formula count the bare input, without the ring of padding.
def test_v2_words_of_weights_inputs_and_outputs() -> None:
    layer = conv2d(N=32, C=128, H=56, W=56, K=256, R=3, S=3, padding=1, skip_padding=True)
    words = {tensor.name: math.prod(tensor.shape) for tensor in layer.tensors}
    assert words == {"W": 294_912, "I": 12_845_056, "O": 25_690_112}


# Source: lecture slides, the input that a tile of 7 x 5 outputs needs.
@pytest.mark.parametrize("stride, footprint", [(1, 63), (2, 165), (4, 315)])
def test_v4_footprint_of_a_tile(stride: int, footprint: int) -> None:
    tile = conv2d(K=1, C=1, E=7, F=5, R=3, S=3, stride=stride)
    assert elements(tile, "I") == footprint
    assert dict(touched_elements(tile))["I"] == footprint


def test_v4_a_bounding_box_says_more_at_stride_four() -> None:
    tile = conv2d(K=1, C=1, E=7, F=5, R=3, S=3, stride=4)
    assert math.prod(tile.tensor("I").shape) == 513


# Source: lecture slides, the taps of one 3x3 filter on one 56x56 image, with a ring of padding of one.
def test_v5_taps_and_taps_on_data() -> None:
    every = conv2d(K=1, C=1, H=56, W=56, R=3, S=3, padding=1)
    on_data = conv2d(K=1, C=1, H=56, W=56, R=3, S=3, padding=1, skip_padding=True)
    assert (len(points(every)), len(points(on_data))) == (28_224, 27_556)
    with budget():
        statement = on_data.statements[0]
        assert count(integer_set("S", on_data.extents().items(), statement.constraints)) == 27_556
