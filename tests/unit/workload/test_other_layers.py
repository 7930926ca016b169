"""Depthwise convolutions, poolings, convolutions over one and three axes: forms, values beside numpy, messages."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import polymap as pm
from polymap.workload.layers import LAYERS, layer
from polymap.workload.notation import einsum_text

FORMS = [
    (pm.conv1d(K=4, C=3, L=9, R=3, stride=2, padding=1), "O[n,k,p] += I[n,c,2*p+r] * W[k,c,r]", (1, 4, 5)),
    (pm.conv1d(K=4, C=4, L=9, R=3, groups=4, dilation=2), "O[n,g,p] += I[n,g,p+2*r] * W[g,r]", (1, 4, 5)),
    (
        pm.conv3d(K=4, C=2, D=6, H=7, W=8, T=2, R=3, S=1, stride=(2, 1, 3)),
        "O[n,k,d,p,q] += I[n,c,2*d+t,p+r,3*q+s] * W[k,c,t,r,s]",
        (1, 4, 3, 5, 3),
    ),
    (pm.conv3d(Co=4, Ci=2, Do=6, H=7, W=8, Dk=2, R=3, S=1), pm.conv3d(K=4, C=2, D=7, H=7, W=8, T=2, R=3, S=1), None),
    (pm.depthwise(C=8, H=6, W=5, R=3, S=3, padding=1), "O[n,g,p,q] += I[n,g,p+r,q+s] * W[g,r,s]", (1, 8, 6, 5)),
    (
        pm.depthwise(C=8, H=6, W=5, R=3, S=3, multiplier=2, N=3),
        "O[n,g,k,p,q] += I[n,g,c,p+r,q+s] * W[g,k,c,r,s]",
        (3, 8, 2, 4, 3),
    ),
    (
        pm.depthwise(C=8, H=6, W=5, R=3, S=3, name="own"),
        pm.conv2d(K=8, C=8, groups=8, H=6, W=5, R=3, S=3, name="own"),
        None,
    ),
    (pm.pool(C=4, H=6, W=6, R=2, S=2), "O[n,c,p,q] max= I[n,c,2*p+r,2*q+s]", (1, 4, 3, 3)),
    (pm.pool(C=4, H=6, W=6, R=3, S=3, stride=1, kind="sum"), "O[n,c,p,q] += I[n,c,p+r,q+s]", (1, 4, 4, 4)),
]


@pytest.mark.parametrize("made, expected, shape", FORMS, ids=range(len(FORMS)))
def test_forms(made: pm.Workload, expected: str | pm.Workload, shape: tuple[int, ...] | None) -> None:
    if isinstance(expected, pm.Workload):
        assert made == expected
    else:
        assert einsum_text(made.statements[0]) == expected
        assert made.tensor("O").shape == shape


def windows(padded: np.ndarray, kernel: tuple[int, ...], stride: int) -> np.ndarray:
    """Return all windows of the last axes: [..., positions, taps]."""
    axes = tuple(range(padded.ndim - len(kernel), padded.ndim))
    every = np.lib.stride_tricks.sliding_window_view(padded, kernel, axes)
    steps = (slice(None),) * (padded.ndim - len(kernel)) + (slice(None, None, stride),) * len(kernel)
    return every[steps]


@pytest.mark.parametrize("kind, stride, padding", list(product(("max", "mean", "sum"), (1, 2), (0, 1))))
def test_poolings_equal_numpy(kind: str, stride: int, padding: int) -> None:
    work = pm.pool(C=3, H=6, W=7, R=3, S=2, kind=kind, stride=stride, padding=padding, types="float32")
    x = np.random.default_rng(0).standard_normal((1, 3, 6, 7)).astype(np.float32)
    ring = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    padded = np.pad(x, ring, constant_values=-1e30 if kind == "max" else 0)
    _, _, rows, columns = work.tensor("I").shape
    given = padded[:, :, :rows, :columns] if kind == "max" and padding else x  # what no window meets is cut off
    found = pm.compile(work, "host_cpu", layout="NCHW")(np.ascontiguousarray(given))
    own = {"max": np.max, "mean": np.mean, "sum": np.sum}[kind](windows(padded, (3, 2), stride), axis=(-2, -1))
    rows, columns = work.tensor("O").shape[2:]
    np.testing.assert_allclose(found, own[:, :, :rows, :columns], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stride, groups", [(1, 1), (2, 1), (1, 2)])
def test_convolutions_over_one_axis_and_three_equal_numpy(stride: int, groups: int) -> None:
    rng = np.random.default_rng(1)
    more = {"K": 4, "C": 2, "stride": stride, "groups": groups, "types": "float32"}
    for work, kernel in (
        (pm.conv1d(L=9, R=3, **more), (3,)),  # type: ignore[arg-type]
        (pm.conv3d(D=5, H=6, W=4, T=2, R=3, S=1, **more), (2, 3, 1)),  # type: ignore[arg-type]
    ):
        x, w = (rng.standard_normal(work.tensor(name).shape).astype(np.float32) for name in "IW")
        found = pm.compile(work, "host_cpu")(x, w)
        seen = windows(x, kernel, stride)
        taps = "xyz"[: len(kernel)]
        equation = f"ngc...{taps},gkc{taps}->ngk..." if groups > 1 else f"nc...{taps},kc{taps}->nk..."
        np.testing.assert_allclose(found, np.einsum(equation, seen, w), rtol=1e-4, atol=1e-5)


def test_maxima_can_skip_their_padding() -> None:
    skipped = pm.pool(C=1, H=4, W=4, R=3, S=3, stride=1, padding=1, skip_padding=True, types="float32")
    assert len(skipped.statements[0].constraints) == 4
    assert skipped.tensor("I").shape == (1, 1, 4, 4)


def test_layers_by_their_names() -> None:
    assert LAYERS == ("conv2d", "matmul", "depthwise", "conv1d", "conv3d", "pool", "attention")
    assert layer("attention", {"heads": 2, "queries": 3, "keys": 4, "dim": 5}).extents()["k"] == 4
    assert pm.load_workload("depthwise C=4 H=5 W=5 R=3 S=3") == pm.depthwise(C=4, H=5, W=5, R=3, S=3)
    assert pm.io.workload_from_document({"pool": {"C": 4, "H": 4, "W": 4, "R": 2, "S": 2}}) == pm.pool(
        C=4, H=4, W=4, R=2, S=2
    )


MISTAKES = [
    ("conv1d", {"K": 4, "C": 3, "R": 3}, r"PM221 conv1d lacks L \(the input's extent\) or E"),
    ("conv1d", {"K": 4, "C": 3, "L": 9, "R": 3, "S": 3}, r"PM123 conv1d\(\) has no argument 'S'"),
    ("conv1d", {"K": 4, "C": 3, "L": 9, "R": 3, "stride": (1, 2)}, r"PM222 stride is \(1, 2\)\n.*integer >= 1\."),
    ("conv3d", {"K": 4, "C": 3, "H": 9, "W": 9, "R": 3, "S": 3, "T": 3}, "PM221 conv3d lacks D"),
    ("depthwise", {"C": 3, "K": 3, "H": 9, "W": 9, "R": 3, "S": 3}, r"PM123 depthwise\(\) has no argument 'K'"),
    ("depthwise", {"C": 3, "multiplier": 0, "H": 9, "W": 9, "R": 3, "S": 3}, "PM222 multiplier is 0"),
    ("pool", {"C": 3, "H": 9, "W": 9, "R": 3, "S": 3, "kind": "avg"}, "PM219 kind is 'avg'"),
    ("pool", {"C": 3, "H": 9, "W": 9, "R": 3, "S": 3, "kind": "mean"}, "PM212 kind='mean' divides"),
    ("pool", {"C": 3, "H": 2, "W": 9, "R": 3, "S": 3}, "PM224 the output's extent E is 0"),
    ("attention", {"heads": 3}, r"PM123 attention\(\) lacks the arguments 'queries', 'keys' and 'dim'"),
    ("attention", {"heads": 3, "query": 3}, r"PM123 attention\(\) has no argument 'query'\n.*Did you mean 'queries'"),
]


@pytest.mark.parametrize("kind, arguments, message", MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_are_told_by_name(kind: str, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(pm.errors.WorkloadError, match=message):
        layer(kind, arguments)
