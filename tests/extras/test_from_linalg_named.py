"""Named operations of linalg that xdsl has no parser for, and dynamic sizes: MACs by hand, costs as written by hand."""

from __future__ import annotations

import pytest

import polymap as pm
from polymap.importers import mlir_modules

# Name, attributes, operand shapes with the result last, multiply-accumulates by hand, the nest by hand.
PRODUCTS = [
    ("dot", "", "6 6 .", 6, "C[] += A[k] * B[k]"),
    ("matvec", "", "4x8 8 4", 4 * 8, "C[m] += A[m,n] * B[n]"),
    ("vecmat", "", "4 4x8 8", 4 * 8, "C[n] += A[m] * B[m,n]"),
    ("batch_matvec", "", "2x4x8 2x8 2x4", 2 * 4 * 8, "C[b,m] += A[b,m,n] * B[b,n]"),
    ("batch_vecmat", "", "2x4 2x4x8 2x8", 2 * 4 * 8, "C[b,n] += A[b,m] * B[b,m,n]"),
    ("matmul_transpose_a", "", "8x4 8x3 4x3", 4 * 3 * 8, "C[m,n] += A[k,m] * B[k,n]"),
    ("matmul_transpose_b", "", "4x8 3x8 4x3", 4 * 3 * 8, "C[m,n] += A[m,k] * B[n,k]"),
    ("batch_matmul", "", "2x4x8 2x8x3 2x4x3", 2 * 4 * 3 * 8, "C[b,m,n] += A[b,m,k] * B[b,k,n]"),
    ("batch_matmul_transpose_a", "", "2x8x4 2x8x3 2x4x3", 2 * 4 * 3 * 8, "C[b,m,n] += A[b,k,m] * B[b,k,n]"),
    ("batch_matmul_transpose_b", "", "2x4x8 2x3x8 2x4x3", 2 * 4 * 3 * 8, "C[b,m,n] += A[b,m,k] * B[b,n,k]"),
    ("batch_reduce_matmul", "", "2x4x8 2x8x3 4x3", 2 * 4 * 3 * 8, "C[m,n] += A[b,m,k] * B[b,k,n]"),
    ("mmt4d", "", "2x4x5x6 3x4x7x6 2x3x5x7", 2 * 3 * 4 * 5 * 7 * 6, "C[m,n,x,y] += A[m,k,x,z] * B[n,k,y,z]"),
    ("conv_1d", "", "8 3 6", 6 * 3, "C[p] += A[p+r] * B[r]"),
    ("conv_2d", "", "9x8 3x2 7x7", 7 * 7 * 3 * 2, "C[p,q] += A[p+r,q+s] * B[r,s]"),
    ("conv_1d_nwc_wcf", "{strides = dense<2> : tensor<1xi64>}", "1x9x3 3x3x5 1x4x5", 4 * 5 * 3 * 3,
     "C[n,p,k] += A[n,2p+r,c] * B[r,c,k]"),
    ("conv_1d_ncw_fcw", "{dilations = dense<2> : tensor<1xi64>}", "1x3x9 5x3x3 1x5x5", 5 * 5 * 3 * 3,
     "C[n,k,p] += A[n,c,p+2r] * B[k,c,r]"),
    ("conv_3d_ndhwc_dhwcf", "", "1x5x6x7x3 2x3x4x3x8 1x4x4x4x8", 64 * 8 * 3 * 24,
     "C[n,p,q,o,k] += A[n,p+r,q+s,o+t,c] * B[r,s,t,c,k]"),
    ("depthwise_conv_2d_nhwc_hwc", "{strides = dense<[2, 1]> : tensor<2xi64>}", "1x9x6x3 3x3x3 1x4x4x3", 16 * 3 * 9,
     "C[n,p,q,c] += A[n,2p+r,q+s,c] * B[r,s,c]"),
    ("depthwise_conv_2d_nchw_chw", "", "1x3x6x6 3x3x3 1x3x4x4", 16 * 3 * 9, "C[n,c,p,q] += A[n,c,p+r,q+s] * B[c,r,s]"),
    ("depthwise_conv_2d_nhwc_hwcm", "", "1x6x6x3 3x3x3x2 1x4x4x3x2", 16 * 3 * 2 * 9,
     "C[n,p,q,c,m] += A[n,p+r,q+s,c] * B[r,s,c,m]"),
    ("matmul", "indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, "
     "affine_map<(m, n, k) -> (m, n)>]", "4x8 3x8 4x3", 4 * 3 * 8, "C[m,n] += A[m,k] * B[n,k]"),
    ("contract", "indexing_maps = [affine_map<(b, m, n, k) -> (k, m, b)>, affine_map<(b, m, n, k) -> (b, k, n)>, "
     "affine_map<(b, m, n, k) -> (b, n, m)>]", "8x4x2 2x8x3 2x3x4", 2 * 4 * 3 * 8,
     "C[b,n,m] += A[k,m,b] * B[b,k,n]"),
]  # fmt: skip


def module(name: str, attributes: str, shapes: str, types: str = "f32 f32 f32") -> str:
    kinds = [
        f"tensor<{element}>" if shape == "." else f"tensor<{shape}x{element}>"
        for shape, element in zip(shapes.split(), types.split(), strict=True)
    ]
    names = [f"%a{place}" for place in range(len(kinds))]
    arguments = ", ".join(f"{name}: {kind}" for name, kind in zip(names, kinds, strict=True))
    return f"""\
func.func @f({arguments}) -> {kinds[-1]} {{
  %0 = linalg.{name} {attributes} ins({", ".join(names[:-1])} : {", ".join(kinds[:-1])}) // (
      outs({names[-1]} : {kinds[-1]}) -> {kinds[-1]}
  return %0 : {kinds[-1]}
}}
"""


@pytest.mark.parametrize("name, attributes, shapes, macs, nest", PRODUCTS, ids=[each[0] for each in PRODUCTS])
def test_products_have_the_macs_and_costs_of_the_nest_by_hand(
    name: str, attributes: str, shapes: str, macs: int, nest: str
) -> None:
    net = pm.from_linalg(module(name, attributes, shapes))
    assert (net.macs, net.unmapped, [each.is_product for each in net.layers]) == (macs, [], [True])
    assert net.layers[0].name == f"linalg.{name}#0"
    sizes = _sizes(nest, shapes.split())
    there, here = (
        pm.explore(each, "flat3", tiles="divide", time_limit_s=20)
        for each in (net.layers[0].workload, pm.einsum(nest, sizes=sizes, bits=32))
    )
    assert (there.status, there.value) == (here.status, here.value) == ("OPTIMAL", here.value)


def _sizes(nest: str, shapes: list[str]) -> dict[str, int]:
    """Return the sizes of dims that stand alone in the brackets of a nest: the result first, then the operands."""
    found: dict[str, int] = {}
    for access, shape in zip(nest.split("[")[1:], (shapes[-1], *shapes[:-1]), strict=True):
        extents = [] if shape == "." else shape.split("x")
        for index, extent in zip(access.split("]")[0].split(","), extents, strict=False):
            if len(index) == 1:
                found[index] = int(extent)
    return found


@pytest.mark.parametrize("types", ["i8 i8 i32", "f16 f16 f32", "bf16 f32 f32", "i8 f16 f32"])
def test_operands_keep_their_types(types: str) -> None:
    net = pm.from_linalg(module("batch_matmul", "", "2x4x8 2x8x3 2x4x3", types))
    widths = [int("".join(letter for letter in each if letter.isdigit())) for each in types.split()]
    assert {each.name: each.bits for each in net.layers[0].workload.tensors} == dict(
        zip(("T0", "T1", "T2"), widths, strict=True)
    )


@pytest.mark.parametrize("name", ["conv_2d_nhwc_hwcf", "conv_2d_nchw_fchw", "conv_2d_nhwc_fhwc"])
def test_what_xdsl_reads_is_what_the_table_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = {
        "conv_2d_nhwc_hwcf": "1x9x11x3 3x3x3x5 1x4x9x5",
        "conv_2d_nchw_fchw": "1x3x9x11 5x3x3x3 1x5x4x9",
        "conv_2d_nhwc_fhwc": "1x9x11x3 5x3x3x3 1x4x9x5",
    }[name]
    text = module(name, "{dilations = dense<1> : tensor<2xi64>, strides = dense<[2, 1]> : tensor<2xi64>}", shapes)
    of_table = pm.from_linalg(text)
    monkeypatch.setattr(mlir_modules, "is_named", lambda _: False)
    of_xdsl = pm.from_linalg(text)
    assert of_xdsl.macs == of_table.macs == 4 * 9 * 5 * 3 * 9
    values = [pm.explore(each.layers[0].workload, "flat3", tiles="divide").value for each in (of_xdsl, of_table)]
    assert values[0] == values[1]


@pytest.mark.parametrize(
    "text, names",
    [
        (
            "linalg.reduce { arith.addf } ins(%a : tensor<4x8xf32>) outs(%v : tensor<4xf32>) dimensions = [1]",
            ("reduce",),
        ),
        (
            "linalg.reduce ins(%a : tensor<4x8xf32>) outs(%v : tensor<4xf32>) dimensions = [1]\n"
            "    (%in: f32, %init: f32) {\n    %r = arith.maximumf %in, %init : f32\n    linalg.yield %r : f32\n  }",
            ("reduce",),
        ),
        (
            "linalg.map { arith.addf } ins(%a, %a : tensor<4x8xf32>, tensor<4x8xf32>) outs(%c : tensor<4x8xf32>)",
            ("map",),
        ),
        (
            "linalg.map ins(%a : tensor<4x8xf32>) outs(%c : tensor<4x8xf32>) (%in: f32) {\n"
            "    %r = math.exp %in : f32\n    linalg.yield %r : f32\n  }",
            ("map",),
        ),
        ("linalg.tanh ins(%a : tensor<4x8xf32>) outs(%c : tensor<4x8xf32>) -> tensor<4x8xf32>", ("tanh",)),
        ("linalg.square ins(%a : tensor<4x8xf32>) outs(%c : tensor<4x8xf32>) -> tensor<4x8xf32>", ("square",)),
        (
            "linalg.div ins(%a, %a : tensor<4x8xf32>, tensor<4x8xf32>) outs(%c : tensor<4x8xf32>) -> tensor<4x8xf32>",
            ("div",),
        ),
        (
            "linalg.elementwise kind=#linalg.elementwise_kind<add> "
            "ins(%a, %a : tensor<4x8xf32>, tensor<4x8xf32>) outs(%c : tensor<4x8xf32>) -> tensor<4x8xf32>",
            ("elementwise",),
        ),
        (
            "linalg.softmax dimension(1) ins(%a : tensor<4x8xf32>) outs(%c : tensor<4x8xf32>) -> tensor<4x8xf32>",
            ("softmax",) * 4,
        ),
        (
            "linalg.pooling_nhwc_sum {strides = dense<2> : tensor<2xi64>} ins(%i, %w : tensor<1x9x9x3xf32>, "
            "tensor<3x3xf32>) outs(%o : tensor<1x4x4x3xf32>) -> tensor<1x4x4x3xf32>",
            ("pooling_nhwc_sum",),
        ),
    ],
)
def test_what_multiplies_nothing_is_mapped_without_macs(text: str, names: tuple[str, ...]) -> None:
    arguments = (
        "%a: tensor<4x8xf32>, %c: tensor<4x8xf32>, %v: tensor<4xf32>, %i: tensor<1x9x9x3xf32>, %w: tensor<3x3xf32>,"
        " %o: tensor<1x4x4x3xf32>"
    )
    net = pm.from_linalg(f"func.func @f({arguments}) {{\n  %0 = {text}\n  return\n}}\n")
    assert (net.macs, net.unmapped) == (0, [])
    assert tuple(each.name.removeprefix("linalg.").partition("#")[0] for each in net.layers) == names


def test_quantised_products_are_counted() -> None:
    text = """\
func.func @f(%a: tensor<4x8xi8>, %b: tensor<8x3xi8>, %z: i32, %c: tensor<4x3xi32>) {
  %0 = linalg.quantized_matmul ins(%a, %b, %z, %z : tensor<4x8xi8>, tensor<8x3xi8>, i32, i32)
      outs(%c : tensor<4x3xi32>) -> tensor<4x3xi32>
  return
}
"""
    assert pm.from_linalg(text).macs == 4 * 3 * 8


@pytest.mark.parametrize(
    "line",
    [
        "linalg.batch_matmul ins(%a) outs(%a : tensor<4x8xf32>)",
        "linalg.winograd_filter_transform fmr(F_2_3) ins(%a : tensor<4x8xf32>) outs(%a : tensor<4x8xf32>)",
        "linalg.batch_matmul ins(%a, %a : tensor<4x8xf32>, tensor<4x8xf32>) outs(%a : tensor<4x8xf32>)",
        "linalg.dot ins(%a, %a : tensor<4x8x!x.y>, tensor<4x8xf32>) outs(%a : tensor<4x8xf32>)",
    ],
)
def test_what_does_not_fit_is_one_unmapped_node(line: str) -> None:
    text = f"""\
func.func @f(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<4x16xf32>) {{
  %z = {line}
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>) outs(%c : tensor<4x16xf32>) -> tensor<4x16xf32>
  return
}}
"""
    net = pm.from_linalg(text)
    assert net.macs == 4 * 8 * 16
    assert [each.operator for each in net.unmapped] == [line.partition(" ")[0]]


DYNAMIC = """\
func.func @f(%a: tensor<?x8xf32>, %b: tensor<8x?xf32>, %n: index) -> tensor<?x?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %m = tensor.dim %a, %c0 : tensor<?x8xf32>
  %k = tensor.dim %b, %c1 : tensor<8x?xf32>
  %e = tensor.empty(%m, %k) : tensor<?x?xf32>
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %0 = linalg.matmul ins(%a, %b : tensor<?x8xf32>, tensor<8x?xf32>) outs(%f : tensor<?x?xf32>) -> tensor<?x?xf32>
  %1 = linalg.softmax dimension(1) ins(%0 : tensor<?x?xf32>) outs(%e : tensor<?x?xf32>) -> tensor<?x?xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %1) -> (tensor<?x?xf32>) {
    %3 = linalg.exp ins(%x : tensor<?x?xf32>) outs(%x : tensor<?x?xf32>) -> tensor<?x?xf32>
    %4 = linalg.matmul_transpose_b ins(%3, %3 : tensor<?x?xf32>, tensor<?x?xf32>)
        outs(%x : tensor<?x?xf32>) -> tensor<?x?xf32>
    scf.yield %4 : tensor<?x?xf32>
  }
  return %r : tensor<?x?xf32>
}
"""


def test_dynamic_sizes_of_arguments_are_carried_through() -> None:
    net = pm.from_linalg(DYNAMIC, sizes={"a[0]": 6, "f.b[1]": 6, "n": 5})
    assert (net.macs, net.unmapped) == (6 * 6 * 8 + 5 * 6 * 6 * 6, [])
    fixed = pm.from_linalg(DYNAMIC.replace("?", "6"), sizes={"n": 5})
    assert [each.workload for each in net.layers] == [each.workload for each in fixed.layers]


def test_without_sizes_the_reasons_name_the_arguments() -> None:
    net = pm.from_linalg(DYNAMIC)
    assert net.macs == 0
    assert 'sizes={"a[0]": 128, "b[1]": 128}' in net.unmapped[0].reason


def test_operands_that_disagree_are_told() -> None:
    net = pm.from_linalg(DYNAMIC, sizes={"a[0]": 6, "b[1]": 5, "n": 5})
    assert [each.reason for each in net.unmapped] == ["its operands give one dim the sizes 6 and 5"]


@pytest.mark.parametrize(
    "sizes, told",
    [
        ({"a[1]": 7}, r"the size of 'a\[1\]' is given as 7, and the type says 8"),
        ({"q": 3}, r"no argument of a function has the size 'q'\n.*Dynamic sizes of arguments: a\[0\], b\[1\]"),
        ({"a[0]": "x"}, "the size of 'a\\[0\\]' is 'x'"),
        ({"a[0]": 0}, "Expected an integer >= 1"),
        (3, "the sizes are 3"),
    ],
)
def test_sizes_that_the_module_does_not_have_are_refused(sizes: object, told: str) -> None:
    with pytest.raises(pm.errors.InputError, match=f"PM641 (?s:.*){told}" if "Expected" in told else f"PM641 {told}"):
        pm.from_linalg(DYNAMIC, sizes=sizes)  # type: ignore[arg-type]


def test_layouts_are_read_from_the_names_of_convolutions() -> None:
    """Groups in front of the channels of an image whose channels stand last: no other operation has this layout."""
    text = module("conv_2d_nhwgc_gfhwc", "", "1x9x11x2x3 2x5x3x3x3 1x7x9x2x5")
    assert pm.from_linalg(text).macs == 7 * 9 * 2 * 5 * 3 * 9
