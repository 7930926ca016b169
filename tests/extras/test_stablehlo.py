"""StableHLO's products, convolutions, elementwise operations and reductions: counts from the shapes alone."""

from __future__ import annotations

import random
from math import prod

import pytest

import polymap as pm


def tensor(sizes: list[int], element: str = "f32") -> str:
    return f"tensor<{''.join(f'{size}x' for size in sizes)}{element}>"


def module(types: list[str], line: str) -> str:
    arguments = ", ".join(f"%arg{place}: {kind}" for place, kind in enumerate(types))
    return f"module @jit_f {{\n  func.func public @main({arguments}) {{\n    {line}\n    return\n  }}\n}}\n"


def only(text: str) -> pm.io.NetworkLayer:
    found = pm.io.from_linalg(text)
    assert not found.unmapped, found
    (layer,) = found.layers
    return layer


@pytest.mark.parametrize("seed", range(20))
def test_products_have_the_counts_of_their_shapes(seed: int) -> None:
    rng = random.Random(seed)
    batch, left, right, gone = ([rng.randint(2, 5) for _ in range(rng.randint(least, 2))] for least in (0, 0, 0, 1))
    shapes, lists, out = list[list[int]](), list[list[list[int]]](), list(batch)
    for free in (left, right):
        axes = [("b", at) for at in range(len(batch))] + [("k", at) for at in range(len(gone))]
        axes += [("f", at) for at in range(len(free))]
        rng.shuffle(axes)
        size = {"b": batch, "k": gone, "f": free}
        shapes.append([size[kind][at] for kind, at in axes])
        out += [free[at] for kind, at in axes if kind == "f"]  # in the order of the operand's axes
        lists.append([[axes.index((kind, at)) for at in range(len(size[kind]))] for kind in "bk"])
    (batches, contracted), (other_batches, others) = lists
    pairs = f"batching_dims = {batches} x {other_batches}, " if batch else ""
    types = [tensor(shapes[0], "i8"), tensor(shapes[1], "i8")]
    line = (
        f"%0 = stablehlo.dot_general %arg0, %arg1, {pairs}contracting_dims = {contracted} x {others}, "
        f"precision = [DEFAULT, DEFAULT] : ({', '.join(types)}) -> {tensor(out, 'i32')}"
    )
    layer = only(module(types, line))
    numbers = ("batching", batches, other_batches), ("contracting", contracted, others)
    dims = ", ".join(
        f"{side}_{word}_dimensions = {each}"
        for word, *both in numbers
        for side, each in zip(("lhs", "rhs"), both, strict=True)
    )
    quoted = (
        f'%0 = "stablehlo.dot_general"(%arg0, %arg1) <{{dot_dimension_numbers = #stablehlo.dot<{dims}>, '
        f"precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}}> : "
        f"({', '.join(types)}) -> {tensor(out, 'i32')}"
    )
    assert only(module(types, quoted)).workload == layer.workload
    assert layer.macs == prod(out) * prod(gone)
    tensors = {each.name: each for each in layer.workload.tensors}
    assert sorted(tensors["T2"].shape) == sorted(out)
    assert [(list(tensors[name].shape), tensors[name].bits) for name in ("T0", "T1")] == [
        (shapes[0], 8),
        (shapes[1], 8),
    ]


@pytest.mark.parametrize("seed", range(20))
def test_convolutions_have_the_counts_of_their_shapes(seed: int) -> None:
    rng = random.Random(seed)
    rank, group, batch = rng.randint(1, 3), rng.choice([1, 1, 2, 4]), rng.randint(1, 3)
    channels, features = rng.randint(1, 3), rng.randint(1, 3)
    taps, steps, spread = ([rng.randint(1, 3) for _ in range(rank)] for _ in range(3))
    pads = [[rng.randint(0, 2), rng.randint(0, 2)] for _ in range(rank)]
    image = [rng.randint(7, 9) for _ in range(rank)]
    out = [(size + sum(pad) - (tap - 1) * far - 1) // step + 1
           for size, pad, tap, far, step in zip(image, pads, taps, spread, steps, strict=True)]  # fmt: skip
    sizes = (
        {"b": batch, "f": channels * group},
        {"i": channels, "o": features * group},
        {"b": batch, "f": features * group},
    )
    orders, kinds = list[list[str]](), list[str]()
    for own, spatial in zip(sizes, (image, taps, out), strict=True):
        whole = own | {str(axis): size for axis, size in enumerate(spatial)}
        orders.append(rng.sample(sorted(whole), len(whole)))
        kinds.append(tensor([whole[word] for word in orders[-1]]))
    names = [f"[{', '.join(order)}]" for order in orders]
    line = (
        f"%0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = {names[0]}x{names[1]}->{names[2]}, "
        f"window = {{stride = {steps}, pad = {pads}, rhs_dilate = {spread}}} "
        f"{{batch_group_count = 1 : i64, feature_group_count = {group} : i64}} : ({kinds[0]}, {kinds[1]}) -> {kinds[2]}"
    )
    layer = only(module(kinds[:2], line))
    dense = [f"dense<{each}> : tensor<{rank}xi64>" for each in (steps, spread)]
    quoted = (
        f'%0 = "stablehlo.convolution"(%arg0, %arg1) {{batch_group_count = 1 : i64, '
        f"dimension_numbers = #stablehlo.conv<{names[0]}x{names[1]}->{names[2]}>, "
        f"feature_group_count = {group} : i64, padding = dense<{pads}> : tensor<{rank}x2xi64>, "
        f"rhs_dilation = {dense[1]}, window_reversal = dense<false> : tensor<{rank}xi1>, "
        f"window_strides = {dense[0]}}} : ({kinds[0]}, {kinds[1]}) -> {kinds[2]}"
    )
    assert only(module(kinds[:2], quoted)).workload == layer.workload
    assert layer.macs == batch * features * group * prod(out) * channels * prod(taps)
    elements = {each.name: prod(each.shape) for each in layer.workload.tensors}
    assert elements["T1"] == prod(taps) * channels * features * group
    assert elements["T2"] == batch * features * group * prod(out)


POOLING = """%cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%arg0, %cst) <{padding = dense<[[0, 0], [0, 0], [1, 1], [1, 0]]> : tensor<4x2xi64>,
      window_dimensions = array<i64: 1, 1, 3, 2>, window_strides = array<i64: 1, 1, 2, 2>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %2 = stablehlo.maximum %arg1, %arg2 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<2x3x9x7xf32>, tensor<f32>) -> tensor<2x3x5x4xf32>
    %1 = stablehlo.tanh %0 : tensor<2x3x5x4xf32>"""


def test_windows_are_reduced_as_in_a_pooling_by_hand() -> None:
    found = pm.io.from_linalg(module(["tensor<2x3x9x7xf32>"], POOLING))
    assert not found.unmapped
    assert ("stablehlo.reduce_window#1", "stablehlo.tanh#2") in found.edges
    hand = pm.einsum("O[n,c,p,q] max= I[n,c,2p+r,2q+s]", n=2, c=3, p=5, q=4, r=3, s=2, bits=32)
    layer = found.layers[0]
    assert {each.name: each.shape for each in layer.workload.tensors} == {"T0": (2, 3, 11, 8), "T2": (2, 3, 5, 4)}
    there, here = (pm.explore(each, "flat3", tiles="divide") for each in (layer.workload, hand))
    assert (there.status, there.value) == (here.status, here.value) == ("OPTIMAL", here.value)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("stablehlo.maximum %arg1, %arg2", "stablehlo.multiply %arg1, %arg2"),
        ("stablehlo.maximum %arg1, %arg2", "stablehlo.maximum %arg1, %arg1"),
        ("stablehlo.maximum %arg1, %arg2", "stablehlo.maximum %arg1, %cst"),
        ("return %2", "return %arg2"),
        ("%2 = stablehlo.max", "%3 = stablehlo.tanh %arg1 : tensor<f32>\n      %2 = stablehlo.max"),
        ("i64: 1, 1, 3, 2>", "i64: 1, 1, 3, 3>"),
        ("i64: 1, 1, 3, 2>", "i64: 1, 3, 2>"),
        ("window_strides", "base_dilations = array<i64: 1, 1, 2, 1>, window_strides"),
    ],
)
def test_other_windows_are_no_layers(old: str, new: str) -> None:
    assert POOLING.count(old) == 1
    found = pm.io.from_linalg(module(["tensor<2x3x9x7xf32>"], POOLING.replace(old, new)))
    assert [each.operator for each in found.unmapped] == ["stablehlo.reduce_window"]
    assert [each.operator for each in found.layers] == ["stablehlo.tanh"]


def test_elementwise_operations_reductions_and_views() -> None:
    kind = tensor([4, 6])
    text = module(
        [kind, kind],
        f"""%cst = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.add %arg0, %arg1 : {kind}
    %1 = stablehlo.tanh %0 : {kind}
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [1] :
      ({kind}, tensor<f32>) -> tensor<4xf32>
    %3 = stablehlo.reshape %2 : (tensor<4xf32>) -> tensor<2x2xf32>
    %4 = stablehlo.sort %3 : tensor<2x2xf32>""",
    )
    found = pm.io.from_linalg(text)
    assert [each.operator for each in found.layers] == ["stablehlo.add", "stablehlo.tanh", "stablehlo.reduce"]
    assert [each.workload.extents() for each in found.layers][2] == {"d0": 4, "d1": 6}
    assert [each.operator for each in found.unmapped] == ["stablehlo.sort"]
    assert found.macs == 0
    region = "({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %9 = stablehlo.add %a, %b : tensor<f32>\n"
    quoted = text.replace("stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [1]",
                          f'"stablehlo.reduce"(%1, %cst) <{{dimensions = array<i64: 1>}}> {region} '
                          "stablehlo.return %9 : tensor<f32> })")  # fmt: skip
    quoted = quoted.replace("stablehlo.tanh %0", '"stablehlo.tanh"(%0)').replace(
        f"(%0) : {kind}", f"(%0) : ({kind}) -> {kind}"
    )
    assert [each.workload for each in pm.io.from_linalg(quoted).layers] == [each.workload for each in found.layers]


@pytest.mark.parametrize("dimensions", ["[3]", "[-1]", "[1, 1]"])
def test_reductions_over_what_is_no_axis_are_no_layers(dimensions: str) -> None:
    kind, out = tensor([4, 6]), tensor([4] if dimensions == "[1, 1]" else [4, 6])
    line = f"%0 = stablehlo.reduce(%arg0 init: %arg1) applies stablehlo.add across dimensions = {dimensions} : "
    found = pm.io.from_linalg(module([kind, "tensor<f32>"], f"{line}({kind}, tensor<f32>) -> {out}"))
    assert [each.operator for each in found.unmapped] == ["stablehlo.reduce"]


LINE = (
    "%0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [1]} "
    "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
    "(tensor<1x8x2xf32>, tensor<3x2x4xf32>) -> tensor<1x6x4xf32>"
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("stride = [1]", "stride = [1], lhs_dilate = [2]"),
        ("stride = [1]", "stride = [1], reverse = [true]"),
        ("stride = [1]", "stride = [1], pad = [[-1, 1]]"),
        ("stride = [1]", "stride = [2]"),  # reads beyond the input
        ("batch_group_count = 1", "batch_group_count = 2"),
        ("1x6x4xf32", "1x7x4xf32"),
        ("3x2x4xf32", "3x3x4xf32"),
        ("[b, 0, f]x", "[b, 0, 1, f]x"),
        ("feature_group_count = 1", "feature_group_count = 3"),
    ],
)
def test_other_convolutions_are_no_layers(old: str, new: str) -> None:
    types = ["tensor<1x8x2xf32>", "tensor<3x2x4xf32>"]
    assert only(module(types, LINE)).macs == 6 * 4 * 3 * 2
    found = pm.io.from_linalg(module(types, LINE.replace(old, new, 1)))
    assert [each.operator for each in found.unmapped] == ["stablehlo.convolution"], found


@pytest.mark.parametrize(("places", "is_read"), [(4, True), (3, False), (5, False)])
def test_a_convolution_whose_result_has_another_size_is_no_layer(places: int, is_read: bool) -> None:
    types = ["tensor<1x8x3xf32>", "tensor<3x3x4xf32>"]
    line = (
        "%0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], "
        f"window = {{stride = [2], pad = [[1, 1]]}} : ({', '.join(types)}) -> tensor<1x{places}x4xf32>"
    )
    found = pm.io.from_linalg(module(types, line))
    assert bool(found.layers) == is_read, "the window has (8 + 2 - 3) // 2 + 1 places"


_PRODUCT = "%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : " + (
    "(tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>"
)
_HEAD = "(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>) -> tensor<4x8xf32>"
_KINDS = "(tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>"


def test_a_function_counts_where_it_is_called_and_as_often() -> None:
    functions = "".join(
        f"func.func {head} @{name}{_HEAD} {{ {_PRODUCT}\n return %0 : tensor<4x8xf32> }}\n"
        for head, name in (("private", "f"), ("private", "uncalled"), ("", "entry"))
    )
    calls = [f"%{place + 1} = func.call @f(%{place or 'x'}, %y) : {_KINDS}\n" for place in range(3)]
    main = f"func.func @main{_HEAD} {{ {''.join(calls)} return %3 : tensor<4x8xf32> }}\n"
    net = pm.from_linalg(f"module {{ {main} {functions} }}")
    assert [each.multiplicity for each in net.layers] == [4], "three calls, and the other entry"
    assert not net.unmapped, "a call is no operation of its own"
    assert len([each for each in net.feeds if each.tensor]) == 2, "each call reads what the one before it returns"


@pytest.mark.parametrize("called", ["main", "outside"])
def test_a_call_without_a_body_and_a_function_that_calls_itself_are_told(called: str) -> None:
    body = f"{_PRODUCT}\n %1 = func.call @{called}(%0, %y) : {_KINDS}\n return %1 : tensor<4x8xf32>"
    main = f"func.func @main{_HEAD} {{ {body} }}"
    net = pm.from_linalg(f"module {{ {main}\n func.func private @outside{_HEAD} }}")
    assert [each.operator for each in net.unmapped] == ["func.call"], "what runs there is not known"


@pytest.mark.parametrize("end", ["return", "func.return"])
def test_what_a_function_returns_is_needed_after_the_run(end: str) -> None:
    more = "%1 = stablehlo.dot_general %0, %y, contracting_dims = [1] x [0] : " + _KINDS
    text = f"{_PRODUCT}\n {more}\n {end} %1, %0 : tensor<4x8xf32>, tensor<4x8xf32>"
    head = _HEAD.replace("-> tensor<4x8xf32>", "-> (tensor<4x8xf32>, tensor<4x8xf32>)")
    net = pm.from_linalg(f"module {{ func.func @main{head} {{ {text} }} }}")
    assert len(net.returned) == 2, "both products are, the one that the other reads, too"


@pytest.mark.parametrize(
    ("operation", "statement"),
    [
        ("stablehlo.rsqrt %arg0 : KIND", "T1[d0,d1] += 1.0 / sqrt(T0[d0,d1])"),
        ("stablehlo.power %arg0, %arg1 : KIND", "T2[d0,d1] += pow(T0[d0,d1], T1[d0,d1])"),
        ("stablehlo.logistic %arg0 : (KIND) -> KIND", "T1[d0,d1] += 1.0 / (1.0 + exp(-T0[d0,d1]))"),
        ("stablehlo.maximum %arg0, %arg1 {a = [1 : i64]} : KIND", "T2[d0,d1] += max(T0[d0,d1], T1[d0,d1])"),
        ("linalg.powf ins(%arg0, %arg1 : KIND, KIND) outs(%arg1 : KIND) -> KIND",
         "T2[d0,d1] += pow(T0[d0,d1], T1[d0,d1])"),
        ("linalg.map { math.rsqrt } ins(%arg0 : KIND) outs(%arg1 : KIND)", "T1[d0,d1] += 1.0 / sqrt(T0[d0,d1])"),
    ],
)  # fmt: skip
def test_functions_of_elements_compute_what_their_names_say(operation: str, statement: str) -> None:
    kind = tensor([4, 6])
    layer = only(module([kind, kind], f"%0 = {operation.replace('KIND', kind)}"))
    assert statement in str(layer.workload)
