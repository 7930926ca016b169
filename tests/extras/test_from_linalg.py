"""linalg as networks: every operation is mapped, a view, or named with its reason; costs as written by hand."""

from __future__ import annotations

import random

import pytest

import polymap as pm

TEXT = """\
func.func @f(%a: tensor<4x8xi8>, %b: tensor<8x6xi8>, %c: tensor<4x6xi32>, %i: tensor<1x3x9x9xf32>,
             %w: tensor<5x3x3x3xf32>, %o: tensor<1x5x4x4xf32>, %p: tensor<2x2xf32>, %m: tensor<1x5x2x2xf32>,
             %d: tensor<?x8xi8>, %e: tensor<?x6xi32>) -> tensor<4x6xi32> {
  %zero = arith.constant 0 : i32
  %0 = linalg.fill ins(%zero : i32) outs(%c : tensor<4x6xi32>) -> tensor<4x6xi32>
  %1 = linalg.generic {
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                       affine_map<(m, n, k) -> (m, n)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%a, %b : tensor<4x8xi8>, tensor<8x6xi8>) outs(%0 : tensor<4x6xi32>) {
  ^bb0(%x: i8, %y: i8, %z: i32):
    %xx = arith.extsi %x : i8 to i32
    %yy = arith.extsi %y : i8 to i32
    %t = arith.muli %xx, %yy : i32
    %s = arith.addi %z, %t : i32
    linalg.yield %s : i32
  } -> tensor<4x6xi32>
  %2 = linalg.generic {
      indexing_maps = [affine_map<(n, k, p, q, c, r, s) -> (n, c, p * 2 + r, q * 2 + s)>,
                       affine_map<(n, k, p, q, c, r, s) -> (k, c, r, s)>,
                       affine_map<(n, k, p, q, c, r, s) -> (n, k, p, q)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%i, %w : tensor<1x3x9x9xf32>, tensor<5x3x3x3xf32>) outs(%o : tensor<1x5x4x4xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %t = arith.mulf %x, %y : f32
    %s = arith.addf %z, %t : f32
    linalg.yield %s : f32
  } -> tensor<1x5x4x4xf32>
  %3 = linalg.generic {
      indexing_maps = [affine_map<(n, k, p, q, r, s) -> (n, k, p * 2 + r, q * 2 + s)>,
                       affine_map<(n, k, p, q, r, s) -> (r, s)>, affine_map<(n, k, p, q, r, s) -> (n, k, p, q)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%2, %p : tensor<1x5x4x4xf32>, tensor<2x2xf32>) outs(%m : tensor<1x5x2x2xf32>) {
  ^bb0(%x: f32, %y: f32, %z: f32):
    %s = arith.maximumf %z, %x : f32
    linalg.yield %s : f32
  } -> tensor<1x5x2x2xf32>
  %4 = linalg.generic {
      indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>],
      iterator_types = ["parallel", "parallel"]} ins(%p : tensor<2x2xf32>) outs(%p : tensor<2x2xf32>) {
  ^bb0(%x: f32, %z: f32):
    %one = arith.constant 1.0 : f32
    %e1 = math.exp %x : f32
    %s = arith.addf %e1, %one : f32
    linalg.yield %s : f32
  } -> tensor<2x2xf32>
  %5 = linalg.matmul ins(%d, %b : tensor<?x8xi8>, tensor<8x6xi8>) outs(%e : tensor<?x6xi32>) -> tensor<?x6xi32>
  %6 = "other.operation"(%1) : (tensor<4x6xi32>) -> tensor<4x6xi32>
  func.return %6 : tensor<4x6xi32>
}
"""

WITH_ONE_MORE = """\
func.func @f(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<4x16xf32>) -> tensor<4x16xf32> {
LINE
  %0 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>) outs(%c : tensor<4x16xf32>) -> tensor<4x16xf32>
  return %0 : tensor<4x16xf32>
}
"""
OTHER_DIALECTS = """\
#map = affine_map<(d0, d1, d2) -> (d0, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d2, d1)>
#map2 = affine_map<(d0, d1, d2) -> (d0, d1)>
#exec = #hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "", native_vector_size = 16 : i64}>
module attributes {stream.affinity.default = #hal.device.affinity<@dev>} {
  util.global private @dev = #hal.device.target<"local", [#exec]> : !hal.device
  util.func public @main(%arg0: !hal.buffer_view, %arg1: tensor<4x8xf32>) -> !hal.buffer_view
      attributes {iree.abi.stub} {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = hal.tensor.import %arg0 "input0" : !hal.buffer_view -> tensor<8x16xf32>
    %1 = tensor.empty() : tensor<4x16xf32>
    %2 = linalg.fill ins(%cst : f32) outs(%1 : tensor<4x16xf32>) -> tensor<4x16xf32>
    %3 = linalg.generic {indexing_maps = [#map, #map1, #map2],
                         iterator_types = ["parallel", "parallel", "reduction"]}
        ins(%arg1, %0 : tensor<4x8xf32>, tensor<8x16xf32>) outs(%2 : tensor<4x16xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %5 = arith.mulf %in, %in_0 : f32
      %6 = arith.addf %out, %5 : f32
      linalg.yield %6 : f32
    } -> tensor<4x16xf32>
    %7 = flow.dispatch.workgroups(%3) : (tensor<4x16xf32>) -> tensor<4x16xf32> =
        (%arg2: !flow.dispatch.tensor<readonly:tensor<4x16xf32>>,
         %arg3: !flow.dispatch.tensor<writeonly:tensor<4x16xf32>>) {
      %10 = flow.dispatch.tensor.load %arg2, offsets = [0, 0], sizes = [4, 16], strides = [1, 1]
          : !flow.dispatch.tensor<readonly:tensor<4x16xf32>> -> tensor<4x16xf32>
      %11 = linalg.matmul ins(%10, %10 : tensor<16x16xf32>, tensor<16x16xf32>)
          outs(%10 : tensor<16x16xf32>) -> tensor<16x16xf32>
      flow.dispatch.tensor.store %10, %arg3, offsets = [0, 0], sizes = [4, 16], strides = [1, 1]
          : tensor<4x16xf32> -> !flow.dispatch.tensor<writeonly:tensor<4x16xf32>>
      flow.return
    } count() -> (index, index, index) {
      %x, %y, %z = flow.dispatch.workgroup_count_from_slice
      flow.return %x, %y, %z : index, index, index
    }
    %8:2 = util.two %7, %7 {a = 1} : tensor<4x16xf32>
    %9 = linalg.matmul ins(%arg1, %8#1 : tensor<4x8xf32>, tensor<8x3xf32>)
        outs(%8#0 : tensor<4x3xf32>) -> tensor<4x3xf32>
    %4 = hal.tensor.export %9 "output0" : tensor<4x3xf32> -> !hal.buffer_view
    util.return %4 : !hal.buffer_view
  }
  util.func public @second(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = linalg.matmul ins(%arg0, %arg0 : tensor<8x8xf32>, tensor<8x8xf32>)
        outs(%arg0 : tensor<8x8xf32>) -> tensor<8x8xf32>
    util.return %0 : tensor<8x8xf32>
  }
}
"""
LOOPS = """\
func.func @f(%a: tensor<4x8xf32>, %b: tensor<8x16xf32>, %c: tensor<4x16xf32>, %p: i1, %n: index) -> tensor<4x16xf32> {
  %l = arith.constant 0 : index
  %u = arith.constant 10 : index
  %s = arith.constant 3 : index
  %r = scf.for %i = %l to %u step %s iter_args(%x = %c) -> (tensor<4x16xf32>) {
    %0 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>) outs(%x : tensor<4x16xf32>) -> tensor<4x16xf32>
    scf.yield %0 : tensor<4x16xf32>
  }
  %q = scf.for %i = %l to %n step %s iter_args(%x = %r) -> (tensor<4x16xf32>) {
    %0 = linalg.matmul ins(%a, %b : tensor<4x8xf32>, tensor<8x16xf32>) outs(%x : tensor<4x16xf32>) -> tensor<4x16xf32>
    scf.yield %0 : tensor<4x16xf32>
  }
  return %q : tensor<4x16xf32>
}
"""


def test_every_operation_is_mapped_a_view_or_named_with_its_reason() -> None:
    net = pm.from_linalg(TEXT)
    assert [(layer.name.partition("#")[0], layer.is_product) for layer in net.layers] == [
        ("linalg.generic", True),
        ("linalg.generic", True),
        ("linalg.generic", False),
        ("linalg.generic", False),
    ]
    assert [view.operator for view in net.views] == ["arith.constant", "linalg.fill"]
    assert [(operator, reason) for _, operator, reason in net.unmapped] == [
        (
            "linalg.matmul",
            "a dynamic size, or a tensor without elements; "
            'from_linalg(text, sizes={"d[0]": 128, "e[0]": 128}) gives it',
        ),
        ("other.operation", "no operation of linalg with indexing maps"),
    ]
    assert net.macs == 4 * 6 * 8 + 5 * 4 * 4 * 3 * 3 * 3
    assert ("linalg.generic#3", "linalg.generic#4") in net.edges


@pytest.mark.parametrize(
    "sizes, told",
    [
        ({"x[0]": 8, "y": 9}, r"no argument of a function has the size 'x\[0\]'(.|\n)*has the size 'y'"),
        ({"d[0]": 0, "e[0]": "many"}, r"the size of 'd\[0\]' is 0(.|\n)*the size of 'e\[0\]' is 'many'"),
    ],
)
def test_all_mistakes_of_sizes_are_told_at_once(sizes: dict[str, object], told: str) -> None:
    with pytest.raises(pm.errors.InputError, match=told) as caught:
        pm.from_linalg(TEXT, sizes=sizes)
    assert [each.code for each in caught.value.mistakes] == ["PM641", "PM641"]


def test_layers_cost_what_hand_written_ones_do() -> None:
    net = pm.from_linalg(TEXT)
    mine = [
        pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=4, n=6, k=8, bits={"A": 8, "B": 8, "C": 32}),
        pm.einsum("O[n,k,p,q] += I[n,c,2p+r,2q+s] * W[k,c,r,s]", n=1, k=5, p=4, q=4, c=3, r=3, s=3, bits=32),
        pm.einsum("O[n,k,p,q] max= I[n,k,2p+r,2q+s]", n=1, k=5, p=2, q=2, r=2, s=2, bits=32),
        pm.einsum("O[i,j] += A[i,j]", i=2, j=2, bits=32),
    ]
    for layer, hand in zip(net.layers, mine, strict=True):
        there, here = (pm.explore(each, "flat3", tiles="divide") for each in (layer.workload, hand))
        assert (there.status, there.value) == (here.status, here.value) == ("OPTIMAL", here.value)


def test_what_is_no_module_is_said() -> None:
    with pytest.raises(pm.errors.InputError, match="PM643 the text is no module of linalg"):
        pm.from_linalg("func.func @f( {")
    with pytest.raises(pm.errors.InputError, match=r"PM643 the text is the name of a file\n +Give what stands in it"):
        pm.from_linalg("models/model.mlir")


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_damaged_modules_never_fail_unforeseen(first: int) -> None:
    refused = 0
    for seed in range(first, first + 100):
        rng, text = random.Random(seed), TEXT
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(text))
            kind, words = rng.randrange(4), text.split(" ")
            if kind == 0:
                text = text[:place] + rng.choice("<>(){}%#@x-,:? 09\x00ä") + text[place + rng.randint(0, 1) :]
            elif kind == 1:
                words[rng.randrange(len(words))] = rng.choice(words)
                text = " ".join(words)
            elif kind == 2:
                lines = text.split("\n")
                del lines[rng.randrange(len(lines))]
                text = "\n".join(lines)
            else:
                text = text.replace(
                    rng.choice(("8", "3x3", "reduction", "p * 2", "mulf", "f32")), rng.choice("019r"), 1
                )
        try:
            pm.from_linalg(text)
        except pm.errors.InputError as error:
            refused += "PM643" in str(error)
    assert refused > 20


@pytest.mark.parametrize(
    "line, operator",
    [
        ("%z = util.unfoldable_constant dense<1.0> : tensor<4xf32>", "util.unfoldable_constant"),
        ('%z = "util.unfoldable_constant"() {value = 1 : i32} : () -> tensor<4xf32>', "util.unfoldable_constant"),
        ("foo.bar", "foo.bar"),
        ("%z:2 = foo.bar %a, %b {\n    x = 1\n  } : tensor<4xf32>", "foo.bar"),
        ("foo.bar {\n    foo.baz %a : f32\n  }", "foo.bar"),
        ("%z = foo.region {\n  ^bb0(%q: i32):\n    foo.yield %q : i32\n  } : i32", "foo.region"),
        ('foo.text "a { b \\" ( c" // and ( in words', "foo.text"),
        ("linalg.later ins(%a : tensor<4x8xf32>) outs(%a : tensor<4x8xf32>) -> tensor<4x8xf32>", "linalg.later"),
        ("%z = math.later %a : tensor<4x8xf32>", "math.later"),
    ],
)
def test_an_operation_that_cannot_be_read_is_one_unmapped_node(line: str, operator: str) -> None:
    net = pm.from_linalg(WITH_ONE_MORE.replace("LINE", f"  {line}"))
    assert net.macs == 4 * 8 * 16
    assert net.unmapped[0].operator == operator
    assert {left.operator for left in net.unmapped} <= {operator, "foo.baz"}
    assert all(left.reason for left in net.unmapped)


@pytest.mark.parametrize(
    "line", ["%z = foo.bar (((", "}", "%z = ", "%0 = linalg.matmul ins(%a, %nothing", 'foo.bar "' + "a" * 40]
)
def test_what_has_no_end_is_refused(line: str) -> None:
    with pytest.raises(pm.errors.InputError, match="PM643"):
        pm.from_linalg(WITH_ONE_MORE.replace("LINE", f"  {line}"))


def test_values_that_nothing_defines_are_refused() -> None:
    with pytest.raises(pm.errors.InputError, match="PM643 .*values used but not defined"):
        pm.from_linalg(WITH_ONE_MORE.replace("LINE", "").replace("ins(%a,", "ins(%missing,"))


def test_an_operation_whose_types_clash_says_so() -> None:
    head = "func.func @f(%a: tensor<4x8xf32>, %b: tensor<8x4xf32>) {\n"
    net = pm.from_linalg(head + "  %0 = stablehlo.add %a, %b : tensor<4x8xf32>\n  return\n}")
    assert "operand is used with type tensor<4x8xf32>" in net.unmapped[0].reason


def test_functions_of_other_dialects_are_entered_and_regions_that_run_unknown_times_told() -> None:
    net = pm.from_linalg(OTHER_DIALECTS)
    assert net.macs == 4 * 8 * 16 + 4 * 8 * 3 + 8 * 8 * 8
    told = {node.partition("#")[0]: reason for node, _, reason in net.unmapped}
    assert told["hal.tensor.import"] == "no operation of linalg, but of the dialect hal"
    assert told["linalg.matmul"].startswith("it stands inside flow.dispatch.workgroups")
    edges = {tuple(node.partition("#")[0] for node in edge) for edge in net.edges}
    assert ("hal.tensor.import", "linalg.generic") in edges
    assert ("util.two", "linalg.matmul") in edges


def test_loops_with_constant_bounds_count_each_run_and_others_are_told() -> None:
    net = pm.from_linalg(LOOPS)
    assert net.macs == 4 * 4 * 8 * 16  # 0 to 10 in steps of 3
    assert [(left.operator, left.reason.partition(":")[0]) for left in net.unmapped] == [
        ("scf.for", "how often it runs depends on values"),
        ("linalg.matmul", "it stands inside scf.for"),
    ]


def test_edges_know_which_tensor_they_feed() -> None:
    feeds = [(feed.consumer.partition("#")[0], feed.tensor, bool(feed.reason)) for feed in pm.from_linalg(TEXT).feeds]
    assert ("linalg.generic", "T0", False) in feeds
    assert ("linalg.generic", "", True) in feeds  # what an accumulation begins with
