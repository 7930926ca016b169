"""Changed files of other tools: whatever is misspelt or of another kind is refused, told, or changes what is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import polymap as pm
from tests.extras.test_accelforge import MACHINE as ACCELFORGE, WORKLOAD
from tests.extras.test_zigzag import LAYERS, MACHINE as ZIGZAG

MAPPING = """\
- name: default
  spatial_mapping: {D1: ["K, 2"], D2: ["C, 2"]}
  memory_operand_links: {O: O, W: I2, I: I1}
  temporal_ordering:
  - [OX, "*"]
  - [B, 1]
  - [K, "*"]
- name: point
  temporal_ordering: [[OX, 6], [C, 4]]
"""
PRODUCT = """\
workload:
  iteration_space_shape: {m: 8, n: 8, k: 8}
  bits_per_value: {All: 8}
  einsums:
  - {name: S, tensor_accesses: [{name: A, projection: [m, k]}, {name: B, projection: [k, n]},
      {name: C, projection: [m, n], output: true}]}
"""
TREE = """\
mapping:
  nodes:
  - !Storage {tensors: [A, B, C], component: Main}
  - !Temporal {rank_variable: m, tile_shape: 4}
  - !Storage {tensors: [B], component: Buffer}
  - !Spatial {rank_variable: n, tile_shape: 2, name: X, component: Array}
  - !Temporal {rank_variable: n, tile_shape: 1}
  - !Temporal {rank_variable: m, tile_shape: 1}
  - !Storage {tensors: [B], component: Registers}
  - !Temporal {rank_variable: k, tile_shape: 1}
  - !Compute {einsum: S, component: MAC}
"""
AFFINE = """\
#map = affine_map<(d0) -> (d0 * 4)>
#map1 = affine_map<(d0)[s0] -> (d0 * 4 + 4, s0)>
#set = affine_set<(d0, d1) : (d0 - d1 >= 0)>
module {
  func.func @f(%A: memref<8x?xf32>, %B: memref<?x8xf32>, %C: memref<8x8xf32>, %n: index) {
    %cst = arith.constant 2.500000e+00 : f32
    affine.for %i = 0 to 8 {
      affine.for %jj = 0 to 2 {
        affine.for %j = #map(%jj) to min #map1(%jj)[%n] {
          affine.if #set(%i, %j) {
            %s = affine.for %k = 1 to %n step 2 iter_args(%acc = %cst) -> (f32) {
              %a = affine.load %A[%i, %k] : memref<8x?xf32>
              %b = affine.load %B[%k - 1, %j] : memref<?x8xf32>
              %p = arith.mulf %a, %b : f32
              %l = arith.cmpf olt, %p, %acc : f32
              %q = arith.select %l, %acc, %p : f32
              affine.yield %q : f32
            }
            affine.store %s, %C[%i, %j] : memref<8x8xf32>
          } else {
            affine.store %cst, %C[%i, %j] : memref<8x8xf32>
          }
        }
      }
    }
    return
  }
}
"""


def accelforge(arch: str, workload: str | None = None, mapping: str | None = None) -> pm.io.AccelforgeFiles:
    found = pm.io.from_accelforge(arch, workload, mapping)
    if found.mapping is not None:  # names of its nodes are looked up where it is asked for
        pm.evaluate(found.layers[0].workload, found.arch, found.mapping)
    return found


Read = Callable[[str], Any]
# The words that are free: names that nothing refers to.
CASES: dict[str, tuple[str, Read, str]] = {
    "zigzag machine": (ZIGZAG, pm.io.from_zigzag, r"name: [rw]_port_1|size: 1000000000|# pJ"),
    "zigzag mapping": (MAPPING, lambda text: pm.io.from_zigzag(ZIGZAG, text, LAYERS), r"\bB, 1"),
    "zigzag layers": (LAYERS, lambda text: pm.io.from_zigzag(ZIGZAG, MAPPING, text), r"source: \{I: 0, W: 1"),
    "accelforge machine": (ACCELFORGE, accelforge, r"name: Array"),
    "accelforge workload": (WORKLOAD, lambda text: accelforge(ACCELFORGE, text), r"\b[NCH]: (?:n|c|2\*p)"),
    "accelforge mapping": (TREE, lambda text: accelforge(ACCELFORGE, PRODUCT, text), r"component: Array"),
    "affine": (AFFINE, pm.io.affine_to_c, ""),
}
WORD = re.compile(r"[A-Za-z_%@#!][\w.]*|\d+(?:\.\d+)?(?:e[-+]?\d+)?")


def changed(text: str) -> Iterator[tuple[str, str]]:
    """Yield texts in which one word is another one, a number negative, none, or of a unit, and what was changed."""
    for found in WORD.finditer(text):
        word = found[0]
        others = [word + "x"] if not word[0].isdigit() else ["-1", ".nan", f"{word}KB", "[1]"]
        if "memref" in text and word[0].isdigit():
            others = ["-1", f"{int(float(word)) + 3}", f"{word}KB"]
        for other in others:
            yield text[: found.start()] + other + text[found.end() :], f"{found.start()}: {word} -> {other}"


@pytest.mark.parametrize("case", CASES)
def test_no_change_of_a_file_is_silent(case: str) -> None:
    text, read, free = CASES[case]
    whole, silent, done = read(text), list[str](), 0
    spans = [found.span() for found in re.finditer(free, text)] if free else []
    for other, what in [*changed(text)][::3]:
        place = int(what.partition(":")[0])
        try:
            found = read(other)
        except pm.errors.PolymapError:
            done += 1
            continue
        same = found == whole and getattr(found, "warnings", ()) == getattr(whole, "warnings", ())
        if same and not any(start <= place < end for start, end in spans):
            silent.append(what)
    assert not silent, f"{case}: read as if nothing had been changed"
    assert done > 9, "few changes are refused: the texts have become empty"


REFUSED = [
    ("operand_source: {I: 0, W: 1}", "operand_source: {I: 7, W: 1}", "operand_source.I is 7, which is no layer's id"),
    ("- id: 1", "- id: 0", "two layers have the id 0"),
    ("O_final: 16}", "O_finall: 16}", "operand_precision.O_finall is no operand"),
    ("operand_precision", "pr_loop_dims: [ZZ]\n  operand_precision", "pr_loop_dims names 'ZZ', which no relation"),
]


@pytest.mark.parametrize(("old", "new", "message"), REFUSED, ids=map(str, range(len(REFUSED))))
def test_layers_of_zigzag_that_contradict_themselves_are_refused(old: str, new: str, message: str) -> None:
    assert old in LAYERS, "the text has changed"
    with pytest.raises(pm.errors.InputError, match=f"PM661.*{message}"):
        pm.io.from_zigzag(ZIGZAG, MAPPING, LAYERS.replace(old, new, 1))


def test_inputs_of_zigzag_that_are_smaller_than_their_indices_are_told() -> None:
    # ix = 2*5 + 1 + 1 = 12 columns, iy = 4 + 2 + 1 = 7 rows.
    for sizes, told in (("[12, 7]", 0), ("[11, 7]", 1), ("[12, 6]", 1)):
        text = LAYERS.replace("  loop_dims", f"  pr_loop_dims: [IX, IY]\n  pr_loop_sizes: {sizes}\n  loop_dims", 1)
        assert len(pm.io.from_zigzag(ZIGZAG, None, text).warnings) == told, sizes


def test_mappings_and_dims_of_zigzag_that_nothing_has_are_told() -> None:
    text = MAPPING.replace('["K, 2"]', '["ZZ, 2"]').replace("name: point", "name: pointt")
    warnings = pm.io.from_zigzag(ZIGZAG, text, LAYERS).warnings
    assert [(each.line, each.what) for each in warnings] == [
        (2, "no layer of this mapping has a dim zz"),
        (8, "no layer takes the mapping 'pointt'"),
    ]
    assert "'point'" in warnings[1].hint, warnings


TOLD = [
    ("size: 8,", "size: 8, leak_power: 3,", "leak_power is 3"),
    ("size: 8,", "size: 8, enabled: len(All) == 3,", "enabled is .*, which Python decides"),
    ("fanout: 4}", "fanout: 4, may_reuse: weight}", "not among 'weight' have no multicast"),
    ("keep: weight,", "keep: wieght,", "wieght in the set 'wieght' is no role, memory above or tensor"),
    ("throughput: 2}]", "throughput: 2, latency: 3}]", "both throughput and latency"),
    ("throughput: 2}]", "throughput: 0}]", "throughput is 0"),
    ("{All: 8, W: 4}", "{W: 4}", "no bits_per_value of O, I"),
    ("{All: 8, W: 4}", "{All: 8, O | I: 4}", "two widths of I, O"),
    ("name: conv", "name: conv\n    n_instances: 2", "n_instances is 2"),
    ("weight: W, output", "weight: X, output", "renames.weight is 'X', no tensor"),
    ("{N: 2,", "{H: 10, N: 2,", "the rank H has 10 elements, and its indices 11"),
    ("[k, c, r]}", "[k, c, r], density: 0.5}", "an access.density is not read"),
]


@pytest.mark.parametrize(("old", "new", "message"), TOLD, ids=map(str, range(len(TOLD))))
def test_what_has_no_equal_of_accelforge_is_refused(old: str, new: str, message: str) -> None:
    assert old in ACCELFORGE + WORKLOAD, "the text has changed"
    with pytest.raises(pm.errors.InputError, match=f"PM661.*{message}"):
        pm.io.from_accelforge(ACCELFORGE.replace(old, new, 1), WORKLOAD.replace(old, new, 1))


def test_components_of_accelforge_that_are_switched_off_are_left_out() -> None:
    text = ACCELFORGE.replace("size: 8,", "size: 8, enabled: false,").replace("throughput: 2}]", "latency: 0.5}]")
    found, whole = pm.io.from_accelforge(text).arch, pm.io.from_accelforge(ACCELFORGE).arch
    assert found.nodes == tuple(each for each in whole.nodes if each.name != "Registers")


def test_copies_of_accelforge_are_no_products_and_sets_give_widths() -> None:
    text = WORKLOAD.replace("{All: 8, W: 4}", "{W: 4, ~W: 6}")
    text += '  - {iteration_space_shape: {m: 7}, is_copy_operation: true, einsum: "Y[n, m] = Z[n, m]"}\n'
    with pytest.raises(pm.errors.InputError, match=r"PM661.*bits_per_value of '~W'"):  # W is no tensor of the others
        pm.io.from_accelforge(ACCELFORGE, text)
    read = pm.io.from_accelforge(ACCELFORGE, text.replace("~W", "All"))
    assert read.network is not None, "three layers are a network"
    assert read.network.macs == 2 * 4 * 5 * 3 * 3 + 2 * 7 * 4 * 5, "the copy multiplies nothing"
    assert {each.name: each.bits for each in read.layers[0].workload.tensors} == {"I": 6, "W": 4, "O": 6}
