"""onnxruntime's own operators and quantised ones: multiply-accumulates by hand, shapes behind them, types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import polymap as pm

FLOAT, UINT8, INT8, INT64 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8, TensorProto.INT64
node = helper.make_node
SCALES = {"s": (FLOAT, ()), "z": (UINT8, ()), "wz": (INT8, ())}


def foreign(operator: str, inputs: list, outputs: list, **given: object) -> onnx.NodeProto:
    return node(operator, inputs, outputs, name=operator.lower(), domain="com.microsoft", **given)


def read(tmp_path: Path, nodes: list, inputs: dict, weights: dict | None = None) -> pm.Network:
    ins = [helper.make_tensor_value_info(name, *typed(told)) for name, told in inputs.items()]
    kept = []
    for name, told in (weights or {}).items():
        kind, shape = typed(told)
        kept.append(numpy_helper.from_array(np.ones(shape, helper.tensor_dtype_to_np_dtype(kind)), name))
    graph = helper.make_graph(nodes, "g", ins, [onnx.ValueInfoProto(name=nodes[-1].output[0])], kept)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "model.onnx")
    return pm.from_onnx(tmp_path / "model.onnx")


def typed(told: tuple) -> tuple:
    return told if len(told) == 2 and isinstance(told[1], tuple) else (FLOAT, told)


def bits(net: pm.Network, layer: str) -> dict[str, int]:
    (found,) = (each for each in net.layers if each.name == layer)
    return {tensor.name: tensor.bits for tensor in found.workload.tensors}


def test_a_quantised_network_is_read_to_its_end_with_its_types(tmp_path: Path) -> None:
    scaled = ["s", "z"]
    nodes = [
        node("QuantizeLinear", ["x", *scaled], ["q"], name="quantise"),
        node("QLinearConv", ["q", *scaled, "w", "s", "wz", *scaled], ["a"], name="conv", pads=[1, 1, 1, 1]),
        foreign("QLinearAdd", ["a", *scaled, "q2", *scaled, *scaled], ["b"]),
        foreign("QLinearSigmoid", ["b", *scaled, *scaled], ["c"]),
        node("Flatten", ["c"], ["d"], name="flat"),
        foreign("QGemm", ["d", *scaled, "g", "s", "wz", "", *scaled], ["e"], transB=1),
        foreign("DequantizeLinear", ["e", *scaled], ["f"]),
        node("MatMul", ["f", "last"], ["y"], name="last"),
    ]
    inputs = {"x": (1, 3, 8, 8), "q2": (UINT8, (1, 4, 8, 8))}
    weights = SCALES | {"w": (INT8, (4, 3, 3, 3)), "g": (INT8, (10, 256)), "last": (10, 5)}
    net = read(tmp_path, nodes, inputs, weights)
    assert net.unmapped == []
    assert net.macs == 64 * 4 * 27 + 256 * 10 + 50
    assert bits(net, "quantise") == {"O": 8, "A": 32}
    assert bits(net, "conv") == {"O": 8, "I": 8, "W": 8}
    assert bits(net, "qgemm") == {"C": 8, "A": 8, "B": 8}
    assert bits(net, "dequantizelinear") == {"O": 32, "A": 8}


def test_products_quantised_on_the_way(tmp_path: Path) -> None:
    nodes = [
        node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], name="quantise"),
        node("MatMulInteger", ["q", "w", "z"], ["a"], name="integers"),
        foreign("MatMulIntegerToFloat", ["q", "w", "s", "s", "z"], ["b"]),
        foreign("DynamicQuantizeMatMul", ["b", "v", "vs"], ["c"]),
        node("MatMul", ["c", "u"], ["y"], name="last"),
    ]
    net = read(tmp_path, nodes, {"x": (2, 3, 8)}, {"w": (INT8, (8, 6)), "v": (INT8, (6, 7)), "vs": (), "u": (7, 2)})
    assert net.unmapped == []
    assert net.macs == 6 * (8 * 6 * 2 + 6 * 7 + 7 * 2)
    assert bits(net, "integers") == {"C": 32, "A": 8, "B": 8}
    assert bits(net, "quantise.largest") == {"M": 32, "X": 32}
    assert bits(net, "quantise.quotients") == {"O": 8, "X": 32, "M": 32, "N": 32}


def test_weights_of_few_bits_are_read_with_these(tmp_path: Path) -> None:
    nodes = [
        foreign("MatMulNBits", ["x", "w", "s"], ["a"], K=64, N=32, bits=4, block_size=32),
        node("MatMul", ["a", "u"], ["y"], name="last"),
    ]
    net = read(tmp_path, nodes, {"x": (2, 3, 64)}, {"w": (UINT8, (32, 2, 16)), "s": (64,), "u": (32, 5)})
    assert (net.macs, net.unmapped) == (6 * 64 * 32 + 6 * 32 * 5, [])
    assert bits(net, "matmulnbits") == {"C": 32, "A": 32, "B": 4}


@pytest.mark.parametrize("kept", [8, 2])
@pytest.mark.parametrize("past", [0, 30])
def test_attention_of_onnxruntime(tmp_path: Path, kept: int, past: int) -> None:
    inputs: dict = {"q": (2, 5, 8 * 16), "k": (2, 5, kept * 16), "v": (2, 5, kept * 16)}
    before = {"pk": (2, kept, past, 16), "pv": (2, kept, past, 16)} if past else {}
    names, given = list(before), {"num_heads": 8}
    if kept == 8:
        made = foreign("MultiHeadAttention", ["q", "k", "v", "", "", "", *names], ["a"], **given)
    else:
        made = foreign(
            "GroupQueryAttention", ["q", "k", "v", *(names or ["", ""]), "l", "t"], ["a"], kv_num_heads=2, **given
        )
        inputs |= {"l": (TensorProto.INT32, (2,)), "t": (TensorProto.INT32, ())}
    net = read(tmp_path, [made, node("MatMul", ["a", "w"], ["y"], name="out")], inputs | before, {"w": (128, 7)})
    assert net.unmapped == []
    assert net.macs == 2 * 8 * 5 * (5 + past) * 32 + 2 * 5 * 128 * 7


def test_queries_keys_and_values_beside_each_other(tmp_path: Path) -> None:
    made = foreign("GroupQueryAttention", ["q", "", "", "pk", "pv", "l", "t"], ["a"], num_heads=8, kv_num_heads=2)
    inputs = {"q": (1, 3, 12 * 16), "pk": (1, 2, 7, 16), "pv": (1, 2, 7, 16), "l": (TensorProto.INT32, (1,))}
    inputs |= {"t": (TensorProto.INT32, ())}
    net = read(tmp_path, [made, node("MatMul", ["a", "w"], ["y"], name="out")], inputs, {"w": (128, 5)})
    assert (net.macs, net.unmapped) == (8 * 3 * 10 * 32 + 3 * 128 * 5, [])


def test_a_known_number_of_keys_of_a_shared_cache_is_counted(tmp_path: Path) -> None:
    names = ["q", "k", "v", "pk", "pv", "l", "t"]
    made = foreign("GroupQueryAttention", names, ["a", "nk", "nv"], num_heads=8, kv_num_heads=2)
    inputs = {"q": (1, 1, 128), "k": (1, 1, 32), "v": (1, 1, 32), "pk": (1, 2, 512, 16), "pv": (1, 2, 512, 16)}
    total = node("Constant", [], ["t"], name="total", value_int=100)
    net = read(tmp_path, [total, made], inputs | {"l": (TensorProto.INT32, (1,))})
    assert net.macs == 8 * 100 * 32


def test_fused_normalisations_and_activations(tmp_path: Path) -> None:
    nodes = [
        foreign("SkipLayerNormalization", ["x", "r", "g", "h", "b"], ["a"]),
        foreign("BiasGelu", ["a", "b"], ["c"]),
        foreign("SkipSimplifiedLayerNormalization", ["c", "r", "g"], ["d"]),
        node("SimplifiedLayerNormalization", ["d", "g"], ["e"], name="simple"),
        foreign("FastGelu", ["e"], ["f"]),
        foreign("FusedMatMul", ["f", "w"], ["k"], transB=1, alpha=0.5),
        node("MatMul", ["k", "u"], ["y"], name="last"),
    ]
    weights = {"g": (8,), "h": (8,), "b": (8,), "w": (6, 8), "u": (6, 5)}
    net = read(tmp_path, nodes, {"x": (2, 3, 8), "r": (2, 3, 8)}, weights)
    assert net.unmapped == []
    assert net.macs == 6 * (8 * 6 + 6 * 5)
    parts = {node: len(layers) for node, layers in net.mapped}
    assert parts == {
        "skiplayernormalization": 4,
        "biasgelu": 1,
        "skipsimplifiedlayernormalization": 3,
        "simple": 2,
        "fastgelu": 1,
        "fusedmatmul": 1,
        "last": 1,
    }


def test_fused_convolutions_keep_the_shapes_behind_them(tmp_path: Path) -> None:
    nodes = [
        foreign("FusedConv", ["x", "w"], ["a"], activation="Relu", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Conv", ["a", "v"], ["y"], name="conv"),
    ]
    net = read(tmp_path, nodes, {"x": (1, 3, 9, 9)}, {"w": (4, 3, 3, 3), "v": (5, 4, 3, 3)})
    assert (net.macs, net.unmapped) == (25 * 4 * 27 + 9 * 5 * 36, [])


@pytest.mark.parametrize("past", [0, 9])
@pytest.mark.parametrize("widths", [None, [32, 32, 16]])
def test_attention_with_its_projection(tmp_path: Path, past: int, widths: list | None) -> None:
    given = {"qkv_hidden_sizes": widths} if widths else {}
    names = ["", "", "past"] if past else []
    q, _, v = widths or (32, 32, 32)
    nodes = [
        foreign("EmbedLayerNormalization", ["ids", "", "words", "places", "", "g", "b"], ["x", "m"]),
        foreign("Attention", ["x", "w", *names], ["a"], num_heads=4, **given),
        node("MatMul", ["a", "u"], ["y"], name="last"),
    ]
    inputs = {"ids": (TensorProto.INT32, (2, 6))} | ({"past": (2, 2, 4, past, 8)} if past else {})
    weights = {"words": (50, 24), "places": (64, 24), "g": (24,), "b": (24,), "w": (24, 2 * q + v), "u": (v, 5)}
    net = read(tmp_path, nodes, inputs, weights)
    assert [left.node for left in net.unmapped] == ["embedlayernormalization"]
    assert net.unmapped_macs == 0
    assert net.macs == 12 * 24 * (2 * q + v) + 2 * 6 * (6 + past) * (q + v) + 12 * v * 5


def test_quantised_pools_and_joins_keep_the_shapes_behind_them(tmp_path: Path) -> None:
    scaled = ["s", "z"]
    nodes = [
        foreign("QLinearAveragePool", ["x", *scaled, *scaled], ["a"], kernel_shape=[2, 2], strides=[2, 2]),
        foreign("QLinearConcat", [*scaled, "a", *scaled, "a", *scaled], ["b"], axis=1),
        node("QLinearConv", ["b", *scaled, "w", "s", "wz", *scaled], ["c"], name="conv"),
        foreign("QLinearGlobalAveragePool", ["c", *scaled, *scaled], ["d"]),
        node("Flatten", ["d"], ["e"], name="flat"),
        node("MatMulInteger", ["e", "u"], ["y"], name="last"),
    ]
    weights = SCALES | {"w": (INT8, (5, 8, 3, 3)), "u": (INT8, (5, 7))}
    net = read(tmp_path, nodes, {"x": (UINT8, (1, 4, 8, 8))}, weights)
    assert (net.macs, net.unmapped) == (4 * 5 * 8 * 9 + 35, [])


@pytest.mark.parametrize("tokens, k", [(8, 2), (3, 1), (5, 2)])
def test_experts_multiply_the_rows_routed_to_them(tmp_path: Path, tokens: int, k: int) -> None:
    made = foreign("MoE", ["x", "r", "w", "", "v", "", "u"], ["a"], k=k)
    weights = {"w": (4, 16, 8), "v": (4, 8, 16), "u": (4, 16, 8), "last": (8, 5)}
    nodes = [made, node("MatMul", ["a", "last"], ["y"], name="last")]
    net = read(tmp_path, nodes, {"x": (tokens, 8), "r": (tokens, 4)}, weights)
    assert (net.macs, net.unmapped) == (tokens * k * 3 * 8 * 16 + tokens * 8 * 5, [])


def test_what_is_not_read_of_onnxruntime_is_told(tmp_path: Path) -> None:
    nodes = [
        foreign("QLinearReduceMean", ["q", "s", "z", "s", "z"], ["a"]),
        foreign("QMoE", ["x", "r", "w", "", "", "v"], ["b"], k=2),
        foreign("NhwcFusedConv", ["x", "w"], ["c"]),
        node("Sorted", ["x"], ["y"], name="mine", domain="mine"),
    ]
    inputs = {"q": (UINT8, (1, 3, 4, 4)), "x": (2, 8), "r": (2, 4)}
    net = read(tmp_path, nodes, inputs, SCALES | {"w": (4, 16, 8), "v": (4, 8, 16)})
    assert [left.node for left in net.unmapped] == ["qlinearreducemean", "qmoe", "nhwcfusedconv", "mine"]
    assert dict(net.left_out_macs) == {"qlinearreducemean": 0}
    assert net.unmapped_macs is None
    assert pm.explore_network(net, "flat3", tiles="divide").status == "UNMAPPED"


def test_half_of_the_last_axis_is_left_where_it_gates_the_other_half(tmp_path: Path) -> None:
    nodes = [foreign("BiasSplitGelu", ["x", "b"], ["g"]), node("MatMul", ["g", "w"], ["y"], name="last")]
    net = read(tmp_path, nodes, {"x": (2, 3, 8), "b": (8,)}, {"w": (4, 5)})
    assert net.macs == 2 * 3 * 4 * 5


def test_attention_with_its_first_input_alone_is_told(tmp_path: Path) -> None:
    net = read(tmp_path, [foreign("MultiHeadAttention", ["x"], ["y"], num_heads=2)], {"x": (2, 3, 8)})
    assert [each.operator for each in net.unmapped] == ["MultiHeadAttention"]


@pytest.mark.parametrize(("axis", "opset"), [(1, 13), (0, 13), (-1, 13), (1, 12), (2, 11)])
def test_a_quantised_softmax_runs_along_the_axis_of_its_version(tmp_path: Path, axis: int, opset: int) -> None:
    quantised = [foreign("QLinearSoftmax", ["x", "s", "z", "s", "z"], ["y"], axis=axis, opset=opset)]
    net = read(tmp_path, quantised, {"x": (UINT8, (2, 3, 4))}, SCALES)
    graph = helper.make_graph(
        [node("Softmax", ["x"], ["y"], axis=axis)],
        "g",
        [helper.make_tensor_value_info("x", FLOAT, (2, 3, 4))],
        [onnx.ValueInfoProto(name="y")],
    )
    plain = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    onnx.save(plain, tmp_path / "plain.onnx")
    shapes = [
        [{tensor.name: tensor.shape for tensor in layer.workload.tensors} for layer in each.layers]
        for each in (net, pm.from_onnx(tmp_path / "plain.onnx"))
    ]
    assert shapes[0] == shapes[1] != []
