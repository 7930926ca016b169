"""onnx's own cases of single operators: all are read or refused in words; products by the shapes of their data; those
that ONNX defines by other operators multiply as often as their definitions."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest

import polymap as pm
from tests.extras.onnx_mutants import PRODUCTS, macs_by_definition

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test.case.node import collect_testcases

    CASES = {case.name: case for case in collect_testcases("") if case.model is not None}


def free_shapes(case: object) -> dict[str, list[int]]:
    """Return the shapes of a case's data by the names of its inputs; lists and tensors without elements have none."""
    given = case.data_sets[0][0] if case.data_sets else []  # type: ignore[attr-defined]
    pairs = zip(case.model.graph.input, given, strict=False)  # type: ignore[attr-defined]
    return {place.name: list(data.shape) for place, data in pairs if min(getattr(data, "shape", (0,)), default=1) > 0}


@pytest.fixture(scope="module")
def networks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pm.Network]:
    """Read every case, with the shapes of its data where its own are free."""
    path, found = tmp_path_factory.mktemp("cases") / "model.onnx", {}
    for name, case in CASES.items():
        path.write_bytes(case.model.SerializeToString())
        for shapes in ({}, free_shapes(case)):
            try:
                found[name] = pm.from_onnx(path, shapes=shapes)
                break
            except pm.errors.InputError:
                continue
    return found


def test_nearly_all_cases_are_read(networks: dict[str, pm.Network]) -> None:
    assert len(networks) > 0.98 * len(CASES)
    for name, net in networks.items():
        assert all(left.reason for left in net.unmapped), name


def test_products_are_those_of_the_data(networks: dict[str, pm.Network]) -> None:
    seen = 0
    for name, net in networks.items():
        case = CASES[name]
        graph = case.model.graph
        if len(graph.node) > 1 or graph.node[0].op_type not in (*PRODUCTS, "LSTM"):
            continue
        if any(b"..." in each.s for each in graph.node[0].attribute):
            continue
        places, values = (*graph.input, *graph.output), [*case.data_sets[0][0], *case.data_sets[0][1]]
        shapes = {place.name: np.shape(value) for place, value in zip(places, values, strict=True)}
        expected = macs_by_definition(graph.node[0], shapes) or 0
        assert (net.macs if not net.unmapped else net.unmapped_macs or expected) == expected, name
        seen += not net.unmapped
    assert seen > 130


def test_operators_multiply_as_often_as_what_they_are_defined_by(networks: dict[str, pm.Network]) -> None:
    """The Attention of ONNX and its definition by MatMul, for instance; only where all nodes of both are mapped."""
    pairs = [
        (name, networks[name], networks[f"{name}_expanded"]) for name in networks if f"{name}_expanded" in networks
    ]
    complete = [(name, one.macs, other.macs) for name, one, other in pairs if not one.unmapped and not other.unmapped]
    assert [each for each in complete if each[1] != each[2]] == []
    assert len(complete) > 250
    assert sum(macs > 0 for _, macs, _ in complete) > 60


# AlexNet at 224 x 224: convolutions at 54, 26 and 12 positions a side, three of them in two groups, three products.
ALEXNET = 54**2 * 96 * 363 + 26**2 * 256 * 1200 + 12**2 * (384 * 2304 + 384 * 1728 + 256 * 1728)
ALEXNET += 9216 * 4096 + 4096**2 + 4096 * 1000
# VGG-19: (side, inputs, outputs, layers) of its 3 x 3 convolutions, then three products.
VGG = [(224, 3, 64, 1), (224, 64, 64, 1), (112, 64, 128, 1), (112, 128, 128, 1), (56, 128, 256, 1), (56, 256, 256, 3),
       (28, 256, 512, 1), (28, 512, 512, 3), (14, 512, 512, 4)]  # fmt: skip
VGG19 = sum(side**2 * 9 * i * o * count for side, i, o, count in VGG) + 512 * 49 * 4096 + 4096**2 + 4096 * 1000
# The models without weights in onnx's package; None: by the shapes that onnx infers, convolution by convolution.
LIGHT = {"squeezenet": None, "shufflenet": None, "inception_v1": None, "vgg19": VGG19, "bvlc_alexnet": ALEXNET}


@pytest.mark.parametrize("name", LIGHT)
def test_whole_models_have_the_multiply_accumulates_of_their_shapes(name: str) -> None:
    path = Path(onnx.__file__).parent / "backend/test/data/light" / f"light_{name}.onnx"
    net, expected = pm.from_onnx(path), LIGHT[name]
    if expected is None:
        graph = onnx.shape_inference.infer_shapes(onnx.load(path)).graph
        kinds = [*graph.input, *graph.value_info, *graph.output]
        shapes = {each.name: tuple(dim.dim_value for dim in each.type.tensor_type.shape.dim) for each in kinds}
        expected = sum(macs_by_definition(node, shapes) or 0 for node in graph.node)
    assert (net.macs, net.unmapped) == (expected, [])
