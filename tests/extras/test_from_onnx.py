"""ONNX models as networks: multiply-accumulates counted by hand, every node told, damaged files refused in words."""

from __future__ import annotations

import json
import random
import time
from itertools import pairwise
from math import prod
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import polymap as pm
from polymap.cli.command_line import main
from polymap.networks import Feed
from polymap.networks.groups import plan_of
from tests.extras import onnx_zoo
from tests.extras.onnx_mutants import tally

BLOCK = 3 * 64 * 64 + 2 * 4 * 16 * 32 + 64 * 64 + 2 * 64 * 256  # one word, 31 + 1 in the cache
UNET = 32**2 * 9 * 8 + 16**2 * 9 * 8 * 16 + 16**2 * 16 * 8 * 4 + 32**2 * 9 * 16 * 8
MOBILE = 112**2 * (32 * 27 + 32 * 9 + 32 * 16 + 16 * 96) + 56**2 * (96 * 9 + 96 * 24)
# By the table of Sandler et al. 2018, "MobileNetV2", table 2: (pixels before, pixels after, channels, outputs, blocks).
BLOCKS = [(112, 56, 16, 24, 2), (56, 28, 24, 32, 3), (28, 14, 32, 64, 4), (14, 14, 64, 96, 3), (14, 7, 96, 160, 3)]
MOBILENET_V2 = (
    112**2 * 32 * (27 + 9 + 16)
    + sum(6 * c * (p**2 * c + q**2 * (9 + o)) + (n - 1) * q**2 * 6 * o * (2 * o + 9) for p, q, c, o, n in BLOCKS)
    + 7**2 * (960 * (160 + 9 + 320) + 320 * 1280)
    + 1280 * 1000
)
DOWN_AND_UP = 64**2 * 9 * 8 + 32**2 * 9 * 8 * 16 + 16**2 * 9 * 16 * 32
DOWN_AND_UP += 16**2 * 32 * 16 * 4 + 32**2 * 9 * 32 * 16 + 32**2 * 16 * 8 * 16 + 64**2 * (9 * 16 * 8 + 8 * 2)
MODELS = {
    "resnet50": (onnx_zoo.resnet50, {}, 4_089_184_256, []),
    "block": (onnx_zoo.block, {"length": 1}, BLOCK, []),
    "unet": (onnx_zoo.unet, {}, UNET, []),
    "mobile": (onnx_zoo.mobile, {}, MOBILE, []),
    "mobilenet_v2": (onnx_zoo.mobilenet_v2, {}, MOBILENET_V2, []),
    "unet_of_three": (onnx_zoo.unet_of_three, {}, DOWN_AND_UP, []),
}


def written(tmp_path: Path, name: str) -> Path:
    path = tmp_path / f"{name}.onnx"
    path.write_bytes(MODELS[name][0]().SerializeToString())
    return path


@pytest.mark.parametrize("name", MODELS)
def test_macs_and_unmapped_nodes_of_each_model(tmp_path: Path, name: str) -> None:
    _, sizes, macs, unmapped = MODELS[name]
    path, start = written(tmp_path, name), time.process_time()
    net = pm.from_onnx(path, batch=1, sizes=sizes)
    assert time.process_time() - start < 10
    assert net.macs == macs
    assert net.unmapped == unmapped
    assert {view.operator for view in net.views} <= {"Reshape", "Transpose", "Concat", "Flatten"}


def test_resnet50_has_the_convolutions_and_values_of_the_builtin_network(tmp_path: Path) -> None:
    net = pm.from_onnx(written(tmp_path, "resnet50"), bits=8).products()
    mine, builtin = (pm.explore_network(each, "flat3", tiles="divide") for each in (net, pm.network("resnet50")))
    assert mine.exact == builtin.exact
    assert mine.status == "OPTIMAL"


def test_batch_is_bound_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, "mobile")
    assert pm.from_onnx(path, batch=3).macs == 3 * MOBILE


def test_dims_without_sizes_are_named(tmp_path: Path) -> None:
    with pytest.raises(pm.errors.InputError, match="PM641 'block.onnx' has dims without sizes: length"):
        pm.from_onnx(written(tmp_path, "block"))


def test_the_command_line_reads_model_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "block")
    words = ("explore", str(path), "length=1", "--arch", "flat3", "--tiles", "divide", "--json", "-")
    assert main(words) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["macs"] == BLOCK
    assert answer["status"] == "OPTIMAL"
    assert main(("explore", str(tmp_path / "none.onnx"), "--arch", "flat3")) == 2


def test_every_node_is_told_once(tmp_path: Path) -> None:
    model = onnx_zoo.unet()
    net = pm.from_onnx(written(tmp_path, "unet"))
    told = [view.node for view in net.views] + [left.node for left in net.unmapped]
    told += [layer.name for layer in net.layers for _ in range(layer.multiplicity)]
    assert len(told) == len(model.graph.node)
    assert ("concat_6", "conv_7") in net.edges
    assert Feed("concat_6", "conv_7", "I") in net.feeds


def damaged(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        place = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[place] = rng.randrange(256)
            case 1:
                changed[place] ^= 1 << rng.randrange(8)
            case 2:
                del changed[place : place + rng.randint(1, 9)]
            case _:
                changed[place:place] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 9)))
        if not changed:
            return b""
    return bytes(changed)


def outcome(path: Path, sizes: dict) -> str:
    """Return what becomes of a file; any other exception than polymap's own goes up."""
    try:
        return "network" if pm.from_onnx(path, sizes=sizes).layers else "empty"
    except pm.PolymapError:
        return "refused"


@pytest.mark.parametrize("batch", range(20))
def test_1000_damaged_files_are_read_or_refused(tmp_path: Path, batch: int) -> None:
    models = {name: MODELS[name][0]().SerializeToString() for name in ("block", "unet", "mobile")}
    path = tmp_path / "damaged.onnx"
    for seed in range(50 * batch, 50 * (batch + 1)):
        rng = random.Random(seed)
        name = rng.choice(("block", "unet", "mobile"))
        path.write_bytes(damaged(models[name], rng))
        assert outcome(path, MODELS[name][1]) in ("network", "empty", "refused"), seed


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.onnx"
    path.write_text("hello", encoding="utf-8")
    with pytest.raises(pm.errors.InputError, match="PM640"):
        pm.from_onnx(path)
    path.write_bytes(onnx.ModelProto().SerializeToString())
    with pytest.raises(pm.errors.InputError, match="PM640"):
        pm.from_onnx(path)
    with pytest.raises(pm.errors.InputError, match="PM101"):
        pm.from_onnx(tmp_path / "none.onnx")


def test_names_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bytes.onnx"
    path.write_bytes(onnx_zoo.unet().SerializeToString().replace(b"softplus_9", b"\xff\xfeftplus_9"))
    with pytest.raises(pm.errors.InputError, match="PM640"):
        pm.from_onnx(path)


@pytest.mark.parametrize("kind", [onnx.AttributeProto.UNDEFINED, onnx.AttributeProto.INT, onnx.AttributeProto.STRING])
def test_an_attribute_of_another_type_leaves_its_node_unmapped(tmp_path: Path, kind: int) -> None:
    model = onnx_zoo.unet()
    conv = next(node for node in model.graph.node if node.op_type == "Conv")
    next(each for each in conv.attribute if each.name == "pads").type = kind
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    try:
        told = [left.reason for left in pm.from_onnx(path).unmapped]
    except pm.errors.InputError as error:  # onnx's own inference of shapes refuses it first
        told = [str(error)]
    assert any("attribute 'pads'" in each or "PM640" in each or "shape" in each for each in told), told


def saved(
    tmp_path: Path, nodes: list, inputs: dict, weights: dict | None = None, opset: int = 23, **more: object
) -> Path:
    """Write a model; inputs and weights: name -> shape, or (type, shape)."""

    def typed(told: object) -> tuple:
        return told if isinstance(told, tuple) and len(told) == 2 and isinstance(told[1], tuple) else (FLOAT, told)

    ins = [helper.make_tensor_value_info(name, *typed(told)) for name, told in inputs.items()]
    ends = [onnx.ValueInfoProto(name=name) for name in nodes[-1].output[:1]]
    kept = []
    for name, told in (weights or {}).items():
        kind, shape = typed(told)
        kept.append(numpy_helper.from_array(np.zeros(shape, helper.tensor_dtype_to_np_dtype(kind)), name))
    graph = helper.make_graph(nodes, "g", ins, ends, kept)
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("mine", 1)]
    path = tmp_path / "model.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=domains, **more).SerializeToString())
    return path


FLOAT, UINT8, INT8 = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.INT8
node = helper.make_node
QUANTISED = ["x", "s", "z", "w", "s", "wz", "s", "z"]
SCALES = {"s": (FLOAT, ()), "z": (UINT8, ()), "wz": (INT8, ())}


@pytest.mark.parametrize("heads, kv", [(8, 8), (8, 2)])
@pytest.mark.parametrize("past", [0, 100])
@pytest.mark.parametrize("flat", [False, True])
def test_attention_counts_the_keys_of_the_past(tmp_path: Path, heads: int, kv: int, past: int, flat: bool) -> None:
    shapes = {"q": (heads, 1), "k": (kv, 1), "v": (kv, 1)}
    inputs: dict = {n: (1, m, h * 64) if flat else (1, h, m, 64) for n, (h, m) in shapes.items()}
    names, outputs = ["q", "k", "v"], ["y"]
    if past:
        inputs |= {"pk": (1, kv, past, 64), "pv": (1, kv, past, 64)}
        names, outputs = [*names, "", "pk", "pv"], ["y", "nk", "nv"]
    given = {"q_num_heads": heads, "kv_num_heads": kv} if flat else {}
    net = pm.from_onnx(saved(tmp_path, [node("Attention", names, outputs, name="attn", **given)], inputs))
    assert net.unmapped == []
    assert net.macs == heads * (past + 1) * 2 * 64  # with 8 heads and 100 past keys: 103,424


def test_attention_whose_shapes_do_not_fit_is_unmapped(tmp_path: Path) -> None:
    inputs = {"q": (1, 8, 1, 64), "k": (1, 8, 1, 64), "v": (1, 8, 1, 64), "pk": (1, 8, 9, 64), "pv": (1, 8, 7, 64)}
    attention = node("Attention", ["q", "k", "v", "", "pk", "pv"], ["y", "nk", "nv"], name="attn")
    ((_, _, reason),) = pm.from_onnx(saved(tmp_path, [attention], inputs)).unmapped
    assert reason == "its past keys and values are not equally many"


def test_quantised_convolutions_and_products_are_read_with_their_types(tmp_path: Path) -> None:
    macs = 32 * 12 * 12 * 16 * 9
    image, weights = (UINT8, (1, 16, 14, 14)), {"w": (INT8, (32, 16, 3, 3))}
    for made, more, bits in ((node("ConvInteger", ["x", "w"], ["y"], name="n"), {}, 32),
                             (node("QLinearConv", QUANTISED, ["y"], name="n"), SCALES, 8)):  # fmt: skip
        net = pm.from_onnx(saved(tmp_path, [made], {"x": image}, weights | more))
        assert (net.macs, net.unmapped) == (macs, [])
        assert {each.name: each.bits for each in net.layers[0].workload.tensors} == {"O": bits, "I": 8, "W": 8}
        assert {each.name: each.element_type for each in net.layers[0].workload.tensors}["W"] == "int8"
    rows, columns = (UINT8, (2, 3, 4)), {"w": (INT8, (4, 5))}
    for made, more in ((node("MatMulInteger", ["x", "w"], ["y"], name="n"), {}),
                       (node("QLinearMatMul", QUANTISED, ["y"], name="n"), SCALES),
                       (node("QGemm", QUANTISED[:6], ["y"], name="n", domain="com.microsoft"), SCALES)):  # fmt: skip
        x = (UINT8, (6, 4)) if made.op_type == "QGemm" else rows
        assert pm.from_onnx(saved(tmp_path, [made], {"x": x}, columns | more)).macs == 6 * 4 * 5


def test_a_model_whose_products_are_not_mapped_has_no_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = node("DeformConv", ["x", "w", "o"], ["y"], name="mm")
    nodes = [moved, node("Relu", ["x"], ["z"], name="relu")]
    path = saved(tmp_path, nodes, {"x": (1, 4, 8, 8), "o": (1, 18, 6, 6)}, {"w": (5, 4, 3, 3)})
    net = pm.from_onnx(path)
    assert (net.macs, net.unmapped_macs) == (0, 6 * 6 * 5 * 4 * 9)
    assert main(("explore", str(path), "--arch", "flat3", "--json", "-")) == 3
    answer = json.loads(capsys.readouterr().out)
    assert (answer["status"], answer["complete"], answer["value"]) == ("UNMAPPED", False, None)
    assert main(("explore", str(path), "--arch", "flat3")) == 3
    assert "OPTIMAL" not in capsys.readouterr().out


def recurrent(kind: str, gates: int, shapes: tuple = (5, 2, 4), *, dirs: int = 1, inputs: tuple = (), **given: object):
    weights = {"w": (dirs, gates * 8, 4), "r": (dirs, gates * 8, 8)}
    made = node(kind, ["x", "w", "r", *inputs], ["y", "h"], name="n", hidden_size=8, **given)
    return [made], {"x": shapes}, weights


@pytest.mark.parametrize("kind, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("dirs", [1, 2])
def test_recurrences_are_products_of_the_inputs_and_of_each_step(
    tmp_path: Path, kind: str, gates: int, dirs: int
) -> None:
    direction = {"direction": "bidirectional"} if dirs == 2 else {}
    net = pm.from_onnx(saved(tmp_path, *recurrent(kind, gates, dirs=dirs, **direction)))
    assert (net.macs, net.unmapped) == (dirs * 5 * 2 * gates * 8 * (4 + 8), [])
    products = {layer.name: layer.multiplicity for layer in net.layers if layer.is_product}
    assert products == {"n.inputs": dirs, "n.states": 5 * dirs} or kind == "GRU"
    first = pm.from_onnx(saved(tmp_path, *recurrent(kind, gates, (2, 5, 4), layout=1)))
    assert first.macs == 5 * 2 * gates * 8 * (4 + 8)


def test_recurrences_with_other_steps_or_functions_are_told(tmp_path: Path) -> None:
    macs = 5 * 2 * 32 * (4 + 8)
    relu = pm.from_onnx(saved(tmp_path, *recurrent("RNN", 1, activations=["Relu"])))
    assert (relu.macs, relu.unmapped) == (5 * 2 * 8 * (4 + 8), [])
    other = {"activations": ["Sigmoid", "Relu", "Tanh"]}
    ((_, _, reason),) = (net := pm.from_onnx(saved(tmp_path, *recurrent("LSTM", 4, **other)))).unmapped
    assert (reason, net.unmapped_macs) == ("its activations are others than those of its definition", macs)
    nodes, inputs, weights = recurrent("LSTM", 4, inputs=("", "lengths"))
    net = pm.from_onnx(saved(tmp_path, nodes, inputs | {"lengths": (TensorProto.INT32, (2,))}, weights))
    assert net.unmapped[0].reason == "how many steps run depends on values"
    assert net.unmapped_macs is None


def conv_model(tmp_path: Path, shape: list, second: list | None = None) -> Path:
    nodes = [node("Conv", ["x", "w"], ["y"], name="conv")]
    inputs: dict = {"x": shape}
    if second:
        nodes = [node("Conv", ["y.1", "w"], ["z"], name="other"), *nodes]
        inputs["y.1"] = second
    return saved(tmp_path, nodes, inputs, {"w": (4, 3, 3, 3)})


def conv_macs(*shape: int) -> int:
    return shape[0] * (shape[2] - 2) * (shape[3] - 2) * 4 * 27


@pytest.mark.parametrize("no_name", ["?", "unk__12", None, "", "-1", "None"])
def test_dims_without_a_name_are_each_free_by_themselves(tmp_path: Path, no_name: str | None) -> None:
    path = conv_model(tmp_path, [no_name, 3, no_name, no_name])
    with pytest.raises(pm.errors.InputError, match=r"PM641 .* dims without sizes: x\[2\], x\[3\]\n"):
        pm.from_onnx(path)
    assert pm.from_onnx(path, sizes={"x[2]": 8, "x[3]": 9}).macs == conv_macs(1, 3, 8, 9)
    assert pm.from_onnx(path, batch=2, sizes={"x[2]": 8, "x[3]": 9}).macs == conv_macs(2, 3, 8, 9)
    assert pm.from_onnx(path, sizes={"x[0]": 5, "x[2]": 8, "x[3]": 9}).macs == conv_macs(5, 3, 8, 9)
    assert pm.from_onnx(path, shapes={"x": [5, 3, 8, 9]}).macs == conv_macs(5, 3, 8, 9)


def test_two_first_dims_without_a_name_are_not_bound_together(tmp_path: Path) -> None:
    path = conv_model(tmp_path, ["?", 3, 8, 8], ["?", 3, 8, 8])
    with pytest.raises(pm.errors.InputError, match=r"dims without sizes: x\[0\], y\.1\[0\]"):
        pm.from_onnx(path)
    assert pm.from_onnx(path, sizes={"x[0]": 2, "y.1[0]": 3}).macs == conv_macs(5, 3, 8, 8)
    assert pm.from_onnx(path, sizes={"y.1[0]": 3}).macs == conv_macs(4, 3, 8, 8)  # what is left is the batch


def test_dims_of_one_name_have_one_size(tmp_path: Path) -> None:
    path = conv_model(tmp_path, ["N", 3, "side", "side"], ["N", 3, 8, "side"])
    expected = conv_macs(2, 3, 9, 9) + conv_macs(2, 3, 8, 9)
    assert pm.from_onnx(path, batch=2, sizes={"side": 9}).macs == expected
    assert pm.from_onnx(path, sizes={"x[0]": 2, "x[3]": 9}).macs == expected
    assert pm.from_onnx(path, shapes={"x": (2, 3, 9, 9)}).macs == expected
    with pytest.raises(pm.errors.InputError, match=r"PM641 x\[3\] is given as 8, and 'side', which is its name, as 9"):
        pm.from_onnx(path, sizes={"x[2]": 9, "x[3]": 8})


def test_where_a_dim_is_named_batch_one_named_n_is_another(tmp_path: Path) -> None:
    path = conv_model(tmp_path, ["batch", 3, "N", 8])
    with pytest.raises(pm.errors.InputError, match="dims without sizes: N"):
        pm.from_onnx(path, batch=4)
    assert pm.from_onnx(path, batch=4, sizes={"N": 7}).macs == conv_macs(4, 3, 7, 8)


@pytest.mark.parametrize(
    "given, told",
    [
        ({"sizes": {"lenght": 3}}, "there is no free dim 'lenght'"),
        ({"sizes": {"side": 0}}, "the size of 'side' is 0"),
        ({"sizes": {"side": True}}, "the size of 'side' is true"),
        ({"batch": -2, "sizes": {"side": 4}}, "the batch is -2"),
        ({"bits": 0, "sizes": {"side": 4}}, "bits is 0"),
        ({"sizes": {"x[4]": 3}}, "there is no free dim 'x\\[4\\]'"),
        ({"sizes": {"x[1]": 4}}, "x\\[1\\] is given as 4, and is 3 in the file"),
        ({"shapes": {"y": [1]}}, "there is no input 'y'"),
        ({"shapes": {"x": [1, 3, 8]}}, "has 3 sizes, and the input 4 dims"),
        ({"shapes": {"x": "1x3x8x8"}}, "the shape of 'x' is '1x3x8x8'"),
        ({"shapes": [1, 3, 8, 8]}, "the shapes are"),
    ],
)
def test_sizes_that_the_file_contradicts_are_refused(tmp_path: Path, given: dict, told: str) -> None:
    with pytest.raises(pm.errors.InputError, match=told):
        pm.from_onnx(conv_model(tmp_path, ["N", 3, "side", "side"]), **given)


def test_the_command_line_takes_free_dims_by_place_and_whole_shapes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = conv_model(tmp_path, ["?", 3, "?", "a b"], ["?", 3, 8, 8])
    for words in (("x[0]=2", "x[2]=8", "a b=9", "y.1[0]=1"), ("x=2x3x8x9", "y.1=1,3,8,8"), ("x=2x3x8x9", "batch=1")):
        options = ("--arch", "flat3", "--tiles", "divide", "--time-limit", "5", "--json", "-")
        assert main(("explore", str(path), *words, *options)) == 0
        assert json.loads(capsys.readouterr().out)["macs"] == conv_macs(2, 3, 8, 9) + conv_macs(1, 3, 8, 8)
    assert main(("explore", str(path), "=3", "--arch", "flat3")) == 2
    assert "PM557 '=3' is no size" in capsys.readouterr().err


def test_functions_of_a_model_are_entered(tmp_path: Path) -> None:
    own = [helper.make_opsetid("", 23)]
    function = helper.make_function("mine", "Linear", ["a", "b"], ["c"], [node("MatMul", ["a", "b"], ["c"])], own)
    calls = [node("Linear", ["x", "w"], ["y"], name="one", domain="mine"), node("Relu", ["y"], ["z"], name="relu")]
    net = pm.from_onnx(saved(tmp_path, calls, {"x": (2, 8)}, {"w": (8, 8)}, functions=[function]))
    assert (net.macs, net.unmapped) == (2 * 64, [])


def test_a_scan_counts_its_body_for_each_slice_and_a_branch_is_told_node_by_node(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("MatMul", ["s", "w"], ["t"], name="mm"), node("Add", ["s", "e"], ["y"], name="add")], "body",
        [value("s", FLOAT, (2, 8)), value("e", FLOAT, (2, 8))], [value("t", FLOAT, (2, 8)), value("y", FLOAT, (2, 8))],
    )  # fmt: skip
    scan = node("Scan", ["s0", "x"], ["end", "ys"], name="scan", num_scan_inputs=1, body=body)
    net = pm.from_onnx(saved(tmp_path, [scan], {"s0": (2, 8), "x": (5, 2, 8)}, {"w": (8, 8)}))
    assert (net.macs, net.unmapped) == (5 * 2 * 64, [])
    branches = {
        f"{name}_branch": helper.make_graph([inner], name, [], [value(inner.output[0], FLOAT, (2, 8))])
        for name, inner in (
            ("then", node("MatMul", ["x", "w"], ["a"], name="mm")),
            ("else", node("Relu", ["x"], ["b"])),
        )
    }
    taken = node("If", ["c"], ["y"], name="if", **branches)
    net = pm.from_onnx(saved(tmp_path, [taken], {"x": (2, 8), "c": (TensorProto.BOOL, ())}, {"w": (8, 8)}))
    told = {name: reason for name, _, reason in net.unmapped}
    assert set(told) == {"if", "if.mm", "if.b"}
    assert told["if.mm"].endswith("whether and how often it runs depends on values; 128 MACs each time")
    assert net.unmapped_macs is None


@pytest.mark.parametrize(
    "made, shape, reason",
    [
        (node("Conv", ["x", "w"], ["y"], name="n", kernel_shape=[2, 2]), (1, 3, 8, 8), "kernel_shape is not that"),
        (node("Conv", ["x", "w"], ["y"], name="n", dilations=[9, 9]), (1, 3, 8, 8), "window is larger"),
        (node("BatchNormalization", ["x", *"bbbb"], ["y"], name="n", training_mode=1), (1, 3, 8, 8), "of the batch"),
        (node("Gemm", ["x", "x"], ["y"], name="n"), (1, 3, 8, 8), "no matrices"),
        (node("Hardmax", ["x"], ["y"], name="n"), (1, 3, 8, 8), "the place of an element is no sum"),
        (node("LayerNormalization", ["x", "b"], ["y"], name="n"), (1, 3, 8, 8), "do not broadcast"),
        (node("GroupNormalization", ["x", "b", "b"], ["y"], name="n", num_groups=3), (1, 6, 8, 8), "for each channel"),
        (node("Conv", ["x", "w"], ["y"], name="n", auto_pad="VALID", pads=[1] * 4), (1, 3, 8, 8), "beside pads"),
        (node("Conv", ["x", "w"], ["y"], name="n", auto_pad="FULL"), (1, 3, 8, 8), "none of ONNX"),
    ],
)  # fmt: skip
def test_attributes_that_change_what_is_computed_are_honoured_or_told(
    tmp_path: Path, made: onnx.NodeProto, shape: tuple, reason: str
) -> None:
    net = pm.from_onnx(saved(tmp_path, [made], {"x": shape}, {"w": (4, 3, 3, 3), "b": (3,)}))
    assert net.layers == ()
    assert [left.node for left in net.unmapped] == ["n"]
    assert reason in net.unmapped[0].reason or "not known before the run" in net.unmapped[0].reason


def test_a_scale_that_is_broadcast_is_read_as_often_as_it_is_long(tmp_path: Path) -> None:
    scales = {"one": (1,), "last": (4,), "whole": (2, 3, 4)}
    nodes = [node("LayerNormalization", ["x", name], [f"y{name}"], name=name, axis=1) for name in scales]
    net = pm.from_onnx(saved(tmp_path, nodes, {"x": (2, 3, 4)} | scales))
    read = [each.workload.tensors[-1].shape for each in net.layers if len(each.workload.tensors) == 5]
    assert read == [(), (4,), (2, 3, 4)]


def test_what_stands_behind_a_group_norm_has_its_shape(tmp_path: Path) -> None:
    nodes = [
        node("GroupNormalization", ["x", "s", "s"], ["g"], num_groups=3),
        node("Conv", ["g", "w"], ["y"], name="conv"),
    ]
    path = saved(tmp_path, nodes, {"x": (1, 6, 8, 8)}, {"s": (6,), "w": (4, 6, 3, 3)}, opset=21)
    assert pm.from_onnx(path).macs == 6 * 6 * 4 * 6 * 9


@pytest.mark.parametrize("opset", [12, 22])
@pytest.mark.parametrize(
    ("size", "taps", "step", "pads", "made"),
    [(5, 1, 3, (0, 0), 2), (7, 1, 3, (0, 0), 3), (4, 2, 3, (1, 1), 2), (5, 2, 4, (1, 1), 2), (6, 3, 2, (0, 1), 3)],
)
def test_no_window_begins_behind_the_input(
    tmp_path: Path, opset: int, size: int, taps: int, step: int, pads: tuple[int, int], made: int
) -> None:
    options = {"kernel_shape": [taps], "strides": [step], "ceil_mode": 1}
    pools = [node("MaxPool", ["x"], ["y"], name="n", pads=pads, **options), node("Relu", ["y"], ["r"], name="r")]
    net = pm.from_onnx(saved(tmp_path, pools, {"x": (1, 2, size)}, opset=opset))
    assert [prod(each.workload.extents().values()) for each in net.layers if each.name == "n"] == [2 * made * taps]
    assert [prod(each.workload.extents().values()) for each in net.layers if each.name == "r"] == [2 * made]
    assert not net.unmapped


def test_shapes_behind_two_such_poolings_are_right(tmp_path: Path) -> None:
    options = {"kernel_shape": [1], "strides": [3], "ceil_mode": 1, "auto_pad": "VALID"}
    nodes = [node("LpPool", ["x"], ["y"], **options), node("AveragePool", ["y"], ["z"], **options)]
    nodes.append(node("Conv", ["z", "w"], ["c"], name="c"))
    net = pm.from_onnx(saved(tmp_path, nodes, {"x": (1, 2, 14)}, {"w": (4, 2, 1)}, opset=19))
    assert [prod(each.workload.extents().values()) for each in net.layers if each.name == "c"] == [
        4 * 2 * 2
    ]  # 14 -> 5 -> 2


def test_a_value_has_one_writer(tmp_path: Path) -> None:
    twice = [node("Relu", ["x"], ["y"]), node("Conv", ["y", "w"], ["y"])]
    with pytest.raises(pm.errors.InputError, match="'y' is written twice"):
        pm.from_onnx(saved(tmp_path, twice, {"x": (1, 2, 8)}, {"w": (2, 2, 3)}))
    with pytest.raises(pm.errors.InputError, match="'x' is written twice"):
        pm.from_onnx(saved(tmp_path, [node("Relu", ["x"], ["x"])], {"x": (1, 2, 8)}))


def test_an_axis_without_elements_is_no_batch(tmp_path: Path) -> None:
    path = saved(tmp_path, [node("Relu", ["x"], ["y"])], {"x": (0, 2, 8)})
    with pytest.raises(pm.errors.InputError, match=r"has dims without sizes: x\[0\]"):
        pm.from_onnx(path)
    net = pm.from_onnx(path, shapes={"x": (3, 2, 8)})
    assert net.layers[0].workload.extents() == {"i0": 3, "i1": 2, "i2": 8}


def test_softmax_of_old_opsets_joins_the_dims_behind_a_negative_axis(tmp_path: Path) -> None:
    path = saved(tmp_path, [node("Softmax", ["x"], ["y"], name="n", axis=-2)], {"x": (2, 3, 4)}, opset=11)
    assert pm.from_onnx(path).layers[0].workload.extents() == {"i0": 2, "i1": 12}


@pytest.mark.parametrize("batch", range(6))
def test_mutated_models_are_read_as_onnx_runs_them_or_refused(batch: int) -> None:
    counts, wrong = tally(range(20 * batch, 20 * (batch + 1)))
    assert wrong == []
    assert counts["read"] > 2


@pytest.mark.soak
def test_3000_mutated_models_are_read_as_onnx_runs_them_or_refused() -> None:
    assert tally(range(1000, 4000))[1] == []


def test_neighbours_of_a_block_are_asked_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, "block")
    net = pm.from_onnx(path, sizes={"length": 8})
    assert net.returned == {"add_23"}
    groups = [group.names for group in plan_of(net).groups]
    assert any("softmax_14.largest" in names and "matmul_15" in names for names in groups)
    assert ("matmul_20", "relu_21") in [pair for names in groups for pair in pairwise(names)]
    words = ("explore", str(path), "length=8", "--arch", "flat3", "--tiles", "divide", "--time-limit", "4")
    assert main((*words, "--fuse", "--json", "-")) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["fuse"] is True
    assert answer["bound"] <= answer["value"] < answer["unfused"]
    saved = sum((each["apart"] - each["value"]) * len(each["nests"]) for each in answer["groups"] if each["together"])
    assert answer["value"] == pytest.approx(answer["unfused"] - saved)
    assert {each["on_chip"] for each in answer["passing"]} == {True, False}
