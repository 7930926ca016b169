"""Convolutions and matrix products: shapes, canonical forms, other names for the arguments, messages."""

from __future__ import annotations

import math
from itertools import product

import pytest

from polymap.ir.errors import OptionError, WorkloadError
from polymap.ir.loopnest import Role, Workload
from polymap.workload.document import workload_from_document
from polymap.workload.layers import FUNCTIONS, conv2d, matmul
from polymap.workload.notation import einsum_text


def text_of(workload: Workload) -> str:
    return einsum_text(workload.statements[0])


def problems_of(**arguments: object) -> list[str]:
    with pytest.raises(WorkloadError, match="PM") as caught:
        conv2d(**arguments)  # type: ignore[arg-type]
    return [f"{problem.code} {problem.what}" for problem in caught.value.mistakes]


def test_the_convolution_of_the_readme() -> None:
    layer = conv2d(K=64, C=64, H=56, W=56, R=3, S=3, stride=1, padding=1, N=1, groups=1, dilation=1, bits=8)
    assert text_of(layer) == "O[n,k,p,q] += I[n,c,p+r,q+s] * W[k,c,r,s]"
    assert layer.extents() == {"n": 1, "k": 64, "p": 56, "q": 56, "c": 64, "r": 3, "s": 3}
    assert layer.tensor("I").shape == (1, 64, 58, 58)  # with the ring of padding
    assert [(tensor.name, tensor.role) for tensor in layer.tensors] == [
        ("O", Role.OUTPUT),
        ("I", Role.INPUT),
        ("W", Role.WEIGHT),
    ]
    assert math.prod(layer.extents().values()) == 115_605_504


CANONICAL = [
    ({}, "O[n,k,p,q] += I[n,c,p+r,q+s] * W[k,c,r,s]", {"n": 1, "k": 8, "p": 7, "q": 8, "c": 4, "r": 3, "s": 2}),
    (
        {"stride": 2, "dilation": 2},
        "O[n,k,p,q] += I[n,c,2*p+2*r,2*q+2*s] * W[k,c,r,s]",
        {"n": 1, "k": 8, "p": 3, "q": 4, "c": 4, "r": 3, "s": 2},
    ),
    (
        {"stride": (2, 1), "dilation": (1, 3), "padding": (0, 1), "N": 2},
        "O[n,k,p,q] += I[n,c,2*p+r,q+3*s] * W[k,c,r,s]",
        {"n": 2, "k": 8, "p": 4, "q": 8, "c": 4, "r": 3, "s": 2},
    ),
    (
        {"groups": 2},
        "O[n,g,k,p,q] += I[n,g,c,p+r,q+s] * W[g,k,c,r,s]",
        {"n": 1, "g": 2, "k": 4, "p": 7, "q": 8, "c": 2, "r": 3, "s": 2},
    ),
    (  # a channel multiplier of two
        {"groups": 4},
        "O[n,g,k,p,q] += I[n,g,c,p+r,q+s] * W[g,k,c,r,s]",
        {"n": 1, "g": 4, "k": 2, "p": 7, "q": 8, "c": 1, "r": 3, "s": 2},
    ),
    (
        {"groups": 4, "K": 4},
        "O[n,g,p,q] += I[n,g,p+r,q+s] * W[g,r,s]",
        {"n": 1, "g": 4, "p": 7, "q": 8, "r": 3, "s": 2},
    ),
    (
        {"K": 1, "C": 1},
        "O[n,k,p,q] += I[n,c,p+r,q+s] * W[k,c,r,s]",
        {"n": 1, "k": 1, "p": 7, "q": 8, "c": 1, "r": 3, "s": 2},
    ),
]


@pytest.mark.parametrize("changes, text, extents", CANONICAL, ids=range(len(CANONICAL)))
def test_canonical_forms(changes: dict[str, object], text: str, extents: dict[str, int]) -> None:
    layer = conv2d(**({"K": 8, "C": 4, "H": 9, "W": 9, "R": 3, "S": 2} | changes))  # type: ignore[arg-type]
    assert text_of(layer) == text
    assert layer.extents() == extents


def test_other_names_make_the_same_layer() -> None:
    layer = conv2d(K=6, C=4, H=9, W=11, R=3, S=2, N=5, stride=2, padding=1)
    assert conv2d(M=6, C=4, H=9, W=11, R=3, S=2, B=5, stride=2, padding=1) == layer
    assert conv2d(Co=6, Ci=4, H=9, W=11, Hk=3, Wk=2, N=5, stride=2, padding=1) == layer
    assert conv2d(K=6, C=4, E=5, F=6, R=3, S=2, N=5, stride=2, padding=1) == layer
    assert conv2d(K=6, C=4, Ho=5, W=11, R=3, S=2, N=5, stride=2, padding=1) == layer
    assert conv2d(K=6, C=4, H=9, Wo=6, R=3, S=2, N=5, stride=(2, 2), padding=(1, 1)) == layer
    assert conv2d(K=6, C=4, H=9, W=11, E=5, F=6, R=3, S=2, N=5, stride=2, padding=1) == layer


def test_other_settings_reach_the_workload() -> None:
    layer = conv2d(K=2, C=2, H=3, W=3, R=1, S=1, bits={"O": 32}, associative=False, initial=["O"], name="mine")
    assert [tensor.bits for tensor in layer.tensors] == [32, 8, 8]
    assert (layer.associative, layer.name, layer.tensor("O").initial) == (False, "mine", True)
    assert conv2d(K=2, C=2, H=3, W=3, R=1, S=1, types="float32").tensor("I").element_type == "float32"


def taps(size: int, kernel: int, stride: int, padding: int, dilation: int) -> list[tuple[int, int]]:
    """Return (position, tap) of all taps on data, from the definition of a padded convolution."""
    outputs = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    pairs = product(range(outputs), range(kernel))
    return [(p, r) for p, r in pairs if 0 <= p * stride + r * dilation - padding < size]


@pytest.mark.parametrize("stride, padding, dilation", list(product((1, 2, 3), (0, 1, 2, 4), (1, 2))))
def test_skipping_the_padding_leaves_exactly_the_taps_on_data(stride: int, padding: int, dilation: int) -> None:
    layer = conv2d(K=1, C=1, H=7, W=6, R=3, S=2, stride=stride, padding=padding, dilation=dilation, skip_padding=True)
    (statement,) = layer.statements
    extents = layer.extents()
    points = [dict(zip(extents, point, strict=True)) for point in product(*map(range, extents.values()))]
    inside = [point for point in points if all(c.evaluate(point) >= 0 for c in statement.constraints)]
    vertical, horizontal = taps(7, 3, stride, padding, dilation), taps(6, 2, stride, padding, dilation)
    assert {(point["p"], point["r"], point["q"], point["s"]) for point in inside} == {
        (*first, *second) for first in vertical for second in horizontal
    }
    rows = {p * stride + r * dilation - padding for p, r in vertical}
    image = layer.tensor("I")
    assert (image.origin[2], image.shape[2]) == (min(rows), max(rows) - min(rows) + 1)


def test_skipping_needs_no_constraint_where_nothing_is_padded() -> None:
    plain = conv2d(K=2, C=2, H=5, W=5, R=3, S=3)
    assert conv2d(K=2, C=2, H=5, W=5, R=3, S=3, skip_padding=True) == plain


GOOD = {"K": 4, "C": 4, "H": 5, "W": 5, "R": 3, "S": 3}
MISTAKES = [
    ({"K": None}, "PM221 conv2d lacks K"),
    ({"H": None}, "PM221 conv2d lacks H (the input's extent) or E (the output's)"),
    ({"M": 4}, "PM206 K and M are the same number, given twice"),
    ({"K": 0}, "PM222 K is 0"),
    ({"K": True}, "PM222 K is true"),
    ({"C": 4.0}, "PM222 C is 4.0"),
    ({"R": "3"}, "PM222 R is '3'"),
    ({"N": 10**101}, "PM222 N is too large: an integer of about 102 digits"),
    ({"H": 0}, "PM222 H=0 is not positive"),
    ({"H": None, "E": -1}, "PM222 E=-1 is not positive"),
    ({"stride": 0}, "PM222 stride is 0"),
    ({"stride": (1, 2, 3)}, "PM222 stride is (1, 2, 3)"),
    ({"padding": -1}, "PM222 padding is -1"),
    ({"dilation": 1.5}, "PM222 dilation is 1.5"),
    ({"groups": 3}, "PM225 groups=3 does not divide K=4"),
    ({"groups": 0}, "PM222 groups is 0"),
    ({"skip_padding": 1}, "PM112 skip_padding is 1"),
    ({"R": 9}, "PM224 the output's extent E is -3: H=5, R=9, padding=0, stride=1, dilation=1"),
    ({"E": 4}, "PM223 E is 4, but H=5, R=3, padding=0, stride=1, dilation=1 makes it 3"),
    ({"bits": 0}, "PM212 bits is 0"),
    ({"H": 1, "R": 2, "padding": (1, 0), "dilation": 2, "skip_padding": True}, "PM218 no statement instance is left"),
]


@pytest.mark.parametrize("changes, message", MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_told_by_name(changes: dict[str, object], message: str) -> None:
    assert message in problems_of(**(GOOD | changes))


def test_messages_name_the_formula_and_the_argument_that_was_meant() -> None:
    with pytest.raises(
        WorkloadError, match=r"E = floor\(\(H \+ 2\*padding - dilation\*\(R - 1\) - 1\) / stride\) \+ 1"
    ):
        conv2d(K=4, C=4, H=2, W=5, R=3, S=3)
    with pytest.raises(OptionError, match="'k'\n.*Did you mean 'K'"):
        conv2d(k=4, C=4, H=5, W=5, R=3, S=3)
    with pytest.raises(OptionError, match="'strid'\n.*Did you mean 'stride'"):
        conv2d(K=4, C=4, H=5, W=5, R=3, S=3, strid=2)
    with pytest.raises(OptionError, match="'P'\n.*Did you mean 'E'"):
        conv2d(K=4, C=4, P=5, W=5, R=3, S=3)


def test_an_unknown_argument_is_told_as_of_other_functions_and_of_a_document_as_its_mistake() -> None:
    told = r"PM123 {}\(\) has no argument 'pad'"
    for name, function in FUNCTIONS.items():
        with pytest.raises(OptionError, match=told.format(name)):
            function(pad=1)
        with pytest.raises(WorkloadError, match=told.format(name)):
            workload_from_document({name: {"pad": 1}})


def test_all_mistakes_are_told_at_once() -> None:
    found = problems_of(K=0, C="3", H=2, W=9, R=3, S=3, F=3, stride=(1, 0), bits=-1, associative="no")
    assert [problem[:5] for problem in found] == [
        "PM222",
        "PM222",
        "PM222",
        "PM224",
        "PM223",
        "PM212",
        "PM112",
    ]


def test_matmul_is_the_einsum() -> None:
    product_ = matmul(3, 4, 5, bits={"C": 32})
    assert text_of(product_) == "C[m,n] += A[m,k] * B[k,n]"
    assert product_.extents() == {"m": 3, "n": 4, "k": 5}
    assert [(tensor.name, tensor.role, tensor.bits) for tensor in product_.tensors] == [
        ("C", Role.OUTPUT, 32),
        ("A", Role.INPUT, 8),
        ("B", Role.WEIGHT, 8),
    ]
    with pytest.raises(WorkloadError, match="the size of m is 0(.|\n)*the size of k is true"):
        matmul(0, 4, True)
