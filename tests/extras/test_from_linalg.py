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
        ("linalg.matmul", "a dynamic size, or a tensor without elements"),
        ("other.operation", "no operation of linalg with indexing maps"),
    ]
    assert net.macs == 4 * 6 * 8 + 5 * 4 * 4 * 3 * 3 * 3
    assert ("linalg.generic#3", "linalg.generic#4") in net.edges


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
    with pytest.raises(pm.InputError, match="PM643 the text is no module of linalg"):
        pm.from_linalg("func.func @f( {")


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
        except pm.InputError as error:
            refused += "PM643" in str(error)
    assert refused > 20
