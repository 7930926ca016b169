"""Shapes that ONNX models compute, and graphs inside nodes: multiply-accumulates against shapes of onnx's own evaluator
and against from_torch."""

from __future__ import annotations

import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import polymap as pm
from tests.extras.legacy_zoo import CASES
from tests.extras.onnx_mutants import macs_by_definition

INT64, FLOAT, BOOL = TensorProto.INT64, TensorProto.FLOAT, TensorProto.BOOL


def typed(name: str, kind: int = FLOAT, shape: list | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


class Builder:
    """Adds nodes one after the other; weights have data, so that onnx's evaluator can run the model."""

    def __init__(self) -> None:
        self.nodes: list = []
        self.weights: list = []

    def weight(self, *shape: int) -> str:
        return self.constant(np.random.default_rng(len(self.weights)).normal(size=shape).astype(np.float32))

    def constant(self, value: object, dtype: type = np.int64) -> str:
        array = value if isinstance(value, np.ndarray) else np.array(value, dtype)
        self.weights.append(numpy_helper.from_array(array, f"c{len(self.weights)}"))
        return self.weights[-1].name

    def add(self, operator: str, *inputs: str, outputs: int = 1, **attributes: object) -> str:
        names = [f"v{len(self.nodes)}{'_' * place}" for place in range(outputs)]
        label = f"{operator.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), names, name=label, **attributes))
        return names[0]

    def size(self, value: str, axis: int) -> str:
        """One dim of a value as a vector, as exporters write it."""
        one = self.add("Gather", self.add("Shape", value), self.constant(axis), axis=0)
        return self.add("Unsqueeze", one, self.constant([0]))

    def joined(self, *sizes: str) -> str:
        return self.add("Concat", *sizes, axis=0)

    def model(self, output: str, inputs: dict, opset: int = 17) -> onnx.ModelProto:
        ins = [helper.make_tensor_value_info(name, kind, list(shape)) for name, (kind, shape) in inputs.items()]
        outs = [onnx.ValueInfoProto(name=output)]
        graph = helper.make_graph(self.nodes, "g", ins, outs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def bert() -> tuple[onnx.ModelProto, dict, dict]:
    """Attention whose head split, mask and scale are computed: Where, Equal, ConstantOfShape, Expand, Range."""
    b = Builder()
    batch, length = b.size("ids", 0), b.size("ids", 1)
    words = b.add("Gather", b.weight(50, 32), "ids")
    count = b.add("Squeeze", length, b.constant([0]))
    places = b.add("Range", b.constant(0), count, b.constant(1))
    x = b.add("Add", words, b.add("Gather", b.weight(64, 32), places))
    heads = []
    for turn in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        y = b.add("MatMul", x, b.weight(32, 32))
        width = b.add("Div", b.size(y, 2), b.constant([4]))
        wanted = b.joined(b.size(y, 0), b.size(y, 1), b.constant([4]), width)
        heads.append(b.add("Transpose", b.add("Reshape", y, wanted), perm=turn))
    # expand(-1, ...) as exporters write it: ones where the size is -1
    wanted = b.joined(batch, b.constant([-1]), length, length)
    ones = b.add("ConstantOfShape", b.add("Shape", wanted), value=helper.make_tensor("v", INT64, [1], [1]))
    missing = b.add("Equal", wanted, b.add("Mul", ones, b.constant(-1)))
    mask = b.add("Unsqueeze", b.add("Cast", "mask", to=FLOAT), b.constant([1, 2]))
    mask = b.add("Expand", mask, b.add("Where", missing, ones, wanted))
    scores = b.add("Add", b.add("MatMul", heads[0], heads[1]), mask)
    y = b.add("Transpose", b.add("MatMul", b.add("Softmax", scores, axis=-1), heads[2]), perm=[0, 2, 1, 3])
    front = b.add("Slice", b.add("Shape", y), b.constant([0]), b.constant([-2]), b.constant([0]))
    y = b.add("MatMul", b.add("Reshape", y, b.joined(front, b.constant([32]))), b.weight(32, 32))
    inputs = {"ids": (INT64, ("batch", "length")), "mask": (INT64, ("batch", "length"))}
    return b.model(y, inputs), {"batch": 2, "length": 12}, {"ids": (2, 12), "mask": (2, 12)}


def swin() -> tuple[onnx.ModelProto, dict, dict]:
    """Windows of a padded image: Mod, Pad by computed numbers, Reshape by products, a branch that shapes decide."""
    b = Builder()
    x = b.add("Conv", "x", b.weight(8, 3, 4, 4), strides=[4, 4])
    x = b.add("Transpose", x, perm=[0, 2, 3, 1])
    window, zero = b.constant([4]), b.constant([0])
    more = [b.add("Mod", b.add("Sub", window, b.add("Mod", b.size(x, axis), window)), window) for axis in (1, 2)]
    x = b.add("Pad", x, b.joined(zero, zero, zero, zero, zero, more[0], more[1], zero))
    rows, columns = (b.add("Div", b.size(x, axis), window) for axis in (1, 2))
    y = b.add("Reshape", x, b.joined(b.size(x, 0), rows, window, columns, window, b.size(x, 3)))
    y = b.add("Transpose", y, perm=[0, 1, 3, 2, 4, 5])
    y = b.add("Reshape", y, b.joined(b.constant([-1]), b.constant([16]), b.size(x, 3)))
    q = b.add("MatMul", y, b.weight(8, 8))
    scores = b.add("MatMul", q, b.add("Transpose", y, perm=[0, 2, 1]))
    y = b.add("MatMul", b.add("Softmax", scores, axis=-1), y)
    one = b.add("Equal", b.add("Gather", b.add("Shape", "x"), b.constant(0), axis=0), b.constant(1))
    source = b.add("Reshape", y, b.joined(b.size("x", 0), b.constant([-1]), b.constant([8])))
    branches = {}
    for name, operator, given in (("then_branch", "Squeeze", [source, zero]), ("else_branch", "Identity", [source])):
        inner = helper.make_node(operator, given, [f"{name}_y"], name=operator.lower())
        branches[name] = helper.make_graph([inner], name, [], [typed(f"{name}_y")])
    y = b.add("If", one, **branches)
    y = b.add("MatMul", y, b.weight(8, 16))
    return b.model(y, {"x": (FLOAT, ("batch", 3, "high", "wide"))}), {"high": 56, "wide": 40}, {"x": (1, 3, 56, 40)}


def shuffle() -> tuple[onnx.ModelProto, dict, dict]:
    """Channels shuffled by computed shapes, halves split, the second one convolved."""
    b = Builder()
    x = b.add("Conv", "x", b.weight(16, 4, 1, 1), group=2)
    half = b.add("Div", b.size(x, 1), b.constant([2]))
    y = b.add("Reshape", x, b.joined(b.size(x, 0), b.constant([2]), half, b.size(x, 2), b.size(x, 3)))
    y = b.add("Transpose", y, perm=[0, 2, 1, 3, 4])
    y = b.add("Reshape", y, b.joined(b.size(x, 0), b.constant([-1]), b.size(x, 2), b.size(x, 3)))
    low = b.add("Slice", y, b.constant([0]), half, b.constant([1]))
    y = b.add("Conv", low, b.weight(8, 1, 3, 3), group=8, strides=[2, 2], pads=[1, 1, 1, 1])
    up = b.joined(b.size(y, 0), b.size(y, 1), b.size(x, 2), b.size(x, 3))
    y = b.add(
        "Resize", y, "", "", up, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
    )
    y = b.add("Conv", b.add("Concat", y, low, axis=1), b.weight(4, 16, 1, 1))
    return b.model(y, {"x": (FLOAT, ("batch", 8, "side", "side"))}), {"side": 16}, {"x": (1, 8, 16, 16)}


BUILT = {"bert": bert, "swin": swin, "shuffle": shuffle}


def executed(model: onnx.ModelProto, shapes: dict) -> int:
    """Return the multiply-accumulates of the nodes outside of branches, by the shapes with which onnx runs them."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    wanted = [name for node in made.graph.node for name in node.output]
    del made.graph.output[:]
    made.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    kinds = {each.name: each.type.tensor_type.elem_type for each in made.graph.input}
    feeds = {name: np.ones(shape, helper.tensor_dtype_to_np_dtype(kinds[name])) for name, shape in shapes.items()}
    values = dict(zip(wanted, ReferenceEvaluator(made).run(wanted, feeds), strict=True))
    found = {name: np.shape(value) for name, value in values.items()} | shapes
    found |= {each.name: tuple(each.dims) for each in made.graph.initializer}
    return sum(macs_by_definition(node, found) or 0 for node in made.graph.node)


@pytest.mark.parametrize("name", BUILT)
def test_computed_shapes_are_those_with_which_onnx_runs_the_model(tmp_path: Path, name: str) -> None:
    model, sizes, shapes = BUILT[name]()
    path = tmp_path / f"{name}.onnx"
    onnx.save(model, path)
    net = pm.from_onnx(path, batch=sizes.get("batch", 1), sizes={k: v for k, v in sizes.items() if k != "batch"})
    assert net.unmapped == []
    assert net.macs == executed(model, shapes) > 10_000


@pytest.mark.parametrize("name", CASES)
def test_exports_by_tracing_have_the_macs_of_the_torch_model(tmp_path: Path, name: str) -> None:
    model, inputs, free, sizes = CASES[name]
    model.eval()
    path = tmp_path / f"{name}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = [f"x{place}" for place in range(len(inputs))]
        torch.onnx.export(
            model, inputs, str(path), input_names=names, dynamic_axes=free, dynamo=False, opset_version=14
        )
    net, direct = pm.from_onnx(path, sizes=sizes), pm.from_torch(model, inputs)
    assert net.macs == direct.macs > 10_000
    assert net.unmapped_macs == 0


def saved(tmp_path: Path, nodes: list, inputs: dict, weights: dict | None = None, opset: int = 17) -> Path:
    ins = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()]
    kept = [numpy_helper.from_array(np.asarray(value), name) for name, value in (weights or {}).items()]
    graph = helper.make_graph(nodes, "g", ins, [onnx.ValueInfoProto(name=nodes[-1].output[0])], kept)
    path = tmp_path / "model.onnx"
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=domains), path)
    return path


node = helper.make_node
FILTER = np.zeros((8, 8), np.float32)


def taken(tmp_path: Path, flag: str, nodes: list, weights: dict) -> pm.Network:
    """Return the network of an If whose branches multiply once and twice, and a product of what it returns."""

    def branch(name: str, count: int) -> onnx.GraphProto:
        names = ["x", *(f"{name}{place}" for place in range(count))]
        inner = [node("MatMul", [a, "w"], [b], name=b) for a, b in pairwise(names)]
        return helper.make_graph(inner, name, [], [typed(names[-1])])

    last = [
        node("If", [flag], ["y"], name="if", then_branch=branch("t", 1), else_branch=branch("e", 2)),
        node("MatMul", ["y", "w"], ["z"], name="last"),
    ]
    inputs = {"x": (FLOAT, (2, 8)), "asked": (BOOL, ())}
    return pm.from_onnx(saved(tmp_path, [*nodes, *last], inputs, {"w": FILTER, **weights}))


@pytest.mark.parametrize("rows, runs", [(2, 1), (3, 2)])
def test_the_branch_that_shapes_decide_is_part_of_the_network(tmp_path: Path, rows: int, runs: int) -> None:
    nodes = [
        node("Shape", ["x"], ["s"], name="shape"),
        node("Gather", ["s", "zero"], ["n"], name="rows"),
        node("Equal", ["n", "rows"], ["flag"], name="equal"),
    ]
    net = taken(tmp_path, "flag", nodes, {"zero": np.int64(0), "rows": np.int64(rows)})
    assert (net.macs, net.unmapped) == ((runs + 1) * 2 * 64, [])
    assert ("if.t0" if runs == 1 else "if.e1", "last") in net.edges
    assert net.returned == {"last"}


def test_a_constant_condition_decides_though_the_branches_read_values_around(tmp_path: Path) -> None:
    net = taken(tmp_path, "flag", [], {"flag": np.bool_(1)})
    assert (net.macs, net.unmapped) == (2 * 2 * 64, [])  # the product behind it is no constant
    net = taken(tmp_path, "asked", [], {})
    assert net.macs == 2 * 64
    assert [left.node for left in net.unmapped] == ["if", "if.e0", "if.e1", "if.t0"]


def looped(tmp_path: Path, trips: object, keeps: str, *, grows: bool = False) -> pm.Network:
    """Return the network of a Loop that multiplies what it carries. keeps: what its condition is made of."""
    body = [
        node("Identity", ["c"], ["c2"], name="again")
        if keeps == "same"
        else node("Constant", [], ["c2"], name="again", value=numpy_helper.from_array(np.bool_(1)))
        if keeps == "true"
        else node("Less", ["i", "m"], ["c2"], name="again"),
        node("MatMul", ["h", "w"], ["p"], name="mm"),
        node("Concat", ["p", "p"], ["h2"], name="grow", axis=0) if grows else node("Relu", ["p"], ["h2"], name="relu"),
    ]
    ins = [("i", INT64, []), ("c", BOOL, []), ("h", FLOAT, None)]
    outs = [("c2", BOOL, []), ("h2", FLOAT, None)]
    graph = helper.make_graph(
        body, "body", *([helper.make_tensor_value_info(*each) for each in group] for group in (ins, outs))
    )
    loop = node("Loop", ["m", "yes", "x"], ["y"], name="loop", body=graph)
    inputs = {"x": (FLOAT, (2, 8))} | ({"m": (INT64, ())} if trips is None else {})
    weights = {"w": FILTER, "yes": np.bool_(1)} | ({} if trips is None else {"m": np.int64(trips)})  # type: ignore[call-overload]
    return pm.from_onnx(saved(tmp_path, [loop], inputs, weights))


@pytest.mark.parametrize("keeps", ["same", "true"])
def test_loops_whose_number_of_runs_is_known_count_each(tmp_path: Path, keeps: str) -> None:
    net = looped(tmp_path, 5, keeps)
    assert (net.macs, net.unmapped) == (5 * 2 * 64, [])


@pytest.mark.parametrize("trips, keeps", [(None, "same"), (5, "less"), (None, "less")])
def test_other_loops_are_told_node_by_node(tmp_path: Path, trips: object, keeps: str) -> None:
    net = looped(tmp_path, trips, keeps)
    told = {left.node: left.reason for left in net.unmapped}
    assert net.macs == 0
    assert told["loop"] == "how often its body runs depends on values"
    assert told["loop.mm"].endswith("whether and how often it runs depends on values; 128 MACs each time")
    assert net.unmapped_macs is None


def test_a_branch_that_is_known_inside_a_loop_of_unknown_length_is_told_with_the_loop(tmp_path: Path) -> None:
    inner = node("MatMul", ["h", "w"], ["t"], name="mm")
    branch = helper.make_graph([inner], "branch", [], [typed("t")])
    body = [node("Identity", ["c"], ["c2"], name="again"),
            node("If", ["yes"], ["h2"], name="if", then_branch=branch, else_branch=branch)]  # fmt: skip
    ins = [typed("i", INT64, []), typed("c", BOOL, []), typed("h")]
    graph = helper.make_graph(body, "body", ins, [typed("c2", BOOL, []), typed("h2")])
    loop = node("Loop", ["m", "yes", "x"], ["y"], name="loop", body=graph)
    inputs = {"x": (FLOAT, (2, 8)), "m": (INT64, ())}
    net = pm.from_onnx(saved(tmp_path, [loop], inputs, {"w": FILTER, "yes": np.bool_(1)}))
    told = {left.node: left.reason for left in net.unmapped}
    assert set(told) == {"loop", "loop.if.mm"}
    assert told["loop.if.mm"].startswith("it stands inside Loop: whether and how often it runs")
    assert net.macs == 0


def test_what_a_loop_carries_and_lets_grow_has_no_known_shape(tmp_path: Path) -> None:
    net = looped(tmp_path, 5, "true", grows=True)
    assert net.macs == 0
    assert "is not known before the run" in {left.node: left.reason for left in net.unmapped}["loop.mm"]


PLACES = ("asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners", "half_pixel_symmetric")
REPEATED = (("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"))


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("rounded", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_enlarging_is_mapped_only_where_onnx_repeats_elements(
    tmp_path: Path, place: str, rounded: str, times: int
) -> None:
    x = np.arange(2 * 3 * 5, dtype=np.float32).reshape(1, 2, 3, 5)
    scales = np.array([1, 1, times, times], np.float32)
    given = {"mode": "nearest", "coordinate_transformation_mode": place, "nearest_mode": rounded}
    nodes = [node("Resize", ["x", "", "s"], ["y"], name="up", **given)]
    path = saved(tmp_path, nodes, {"x": (FLOAT, x.shape)}, {"s": scales})
    net = pm.from_onnx(path)
    (made,) = ReferenceEvaluator(str(path)).run(None, {"x": x})
    if net.layers:
        np.testing.assert_array_equal(made, x.repeat(times, 2).repeat(times, 3))
        assert net.layers[0].workload.tensors[1].shape == x.shape
    else:
        assert net.unmapped[0].reason.startswith("which elements are read follows from rounding")
    assert net.layers or (place, rounded) not in REPEATED


def test_large_constants_are_not_evaluated(tmp_path: Path) -> None:
    wide = np.array([2**20, 2**20], np.int64)
    nodes = [
        node("ConstantOfShape", ["wide"], ["a"], name="zeros"),
        node("Range", ["z", "big", "one"], ["b"], name="range"),
        node("MatMul", ["x", "a"], ["y"], name="mm"),
    ]
    weights = {"wide": wide, "z": np.int64(0), "big": np.int64(2**40), "one": np.int64(1)}
    net = pm.from_onnx(saved(tmp_path, nodes, {"x": (FLOAT, (3, 2**20))}, weights))
    assert net.macs == 3 * 2**40
    assert net.unmapped == []


def test_values_that_a_division_by_zero_would_make_are_unknown(tmp_path: Path) -> None:
    nodes = [
        node("Shape", ["x"], ["s"], name="shape"),
        node("Div", ["s", "zero"], ["t"], name="div"),
        node("Reshape", ["x", "t"], ["y"], name="reshape"),
        node("MatMul", ["y", "w"], ["z"], name="mm"),
    ]
    net = pm.from_onnx(saved(tmp_path, nodes, {"x": (FLOAT, (2, 8))}, {"zero": np.int64(0), "w": FILTER}))
    assert net.macs == 0
    assert [left.node for left in net.unmapped] == ["mm"]


def test_where_a_shape_stops_being_known_is_told(tmp_path: Path) -> None:
    nodes = [
        node("NonZero", ["x"], ["i"], name="which"),
        node("Transpose", ["i"], ["j"], name="turn"),
        node("Cast", ["j"], ["f"], name="cast", to=FLOAT),
        node("MatMul", ["f", "w"], ["y"], name="mm"),
    ]
    net = pm.from_onnx(saved(tmp_path, nodes, {"x": (FLOAT, (2, 8))}, {"w": np.zeros((2, 8), np.float32)}))
    told = {left.node: left.reason for left in net.unmapped}
    assert told["which"] == "the size of the result depends on values"
    assert told["mm"] == "the shape of 'f' is not known before the run: it depends on what NonZero 'which' computes"


def rated(tmp_path: Path, shape: tuple) -> Path:
    """Return a model whose first product depends on a sampling rate."""
    branches = {}
    for name, weight in (("then_branch", "w"), ("else_branch", "v")):
        inner = node("MatMul", ["x", weight], [f"{name}_y"], name="mm")
        branches[name] = helper.make_graph([inner], name, [], [typed(f"{name}_y")])
    nodes = [
        node("Equal", ["sr", "high"], ["c"], name="equal"),
        node("If", ["c"], ["y"], name="if", **branches),
        node("MatMul", ["y", "u"], ["z"], name="last"),
    ]
    weights = {"w": np.zeros((8, 16)), "v": np.zeros((8, 4)), "u": np.zeros((16, 3))}
    weights = {name: value.astype(np.float32) for name, value in weights.items()} | {"high": np.int64(16000)}
    return saved(tmp_path, nodes, {"x": (FLOAT, (2, 8)), "sr": (INT64, shape)}, weights)


@pytest.mark.parametrize("shape", [(), (1,)])
def test_an_input_that_is_one_integer_takes_its_value(tmp_path: Path, shape: tuple) -> None:
    path = rated(tmp_path, shape)
    assert pm.from_onnx(path).unmapped[0].reason == "which branch runs depends on values"
    net = pm.from_onnx(path, sizes={"sr": 16000})
    assert (net.macs, net.unmapped) == (2 * 8 * 16 + 2 * 16 * 3, [])
    assert {view.operator for view in net.views} >= {"Equal", "If"}
    low = pm.from_onnx(path, sizes={"sr": 8000})  # its last product does not fit, and is told
    assert (low.macs, [left.node for left in low.unmapped]) == (2 * 8 * 4, ["last"])
    with pytest.raises(pm.errors.InputError, match="there is no free dim 'x'"):
        pm.from_onnx(path, sizes={"x": 3})


@pytest.mark.parametrize(
    ("node", "given", "operands", "reason"),
    [
        ("Einsum", {"equation": "...ij,...jk->...ik"}, ((5, 4, 6), (6, 4)), "its ellipses stand for unlike numbers"),
        ("Einsum", {"equation": "ij,jk->ik"}, ((4, 6), (5, 4)), "the shapes of the operands do not fit together"),
        ("MatMul", {}, ((4, 6), (5, 4)), "the shapes of the operands do not fit together"),
        ("MatMul", {}, ((2, 4, 6), (3, 6, 4)), "the shapes of the operands do not broadcast"),
        ("Gemm", {"transB": 1}, ((4, 6), (6, 4)), "the shapes of the operands do not fit together"),
    ],
)
def test_products_of_which_onnx_infers_no_shape_tell_why(
    tmp_path: Path, node: str, given: dict, operands: tuple, reason: str
) -> None:
    nodes = [helper.make_node(node, ["a", "b"], ["y"], **given)]
    path = saved(tmp_path, nodes, {name: (FLOAT, shape) for name, shape in zip("ab", operands, strict=True)}, {})
    assert pm.from_onnx(path).unmapped[0].reason.startswith(reason)
