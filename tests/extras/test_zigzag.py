"""ZigZag's files: machines as chains, layers as workloads, mappings as constraints; counts and energies by hand."""

from __future__ import annotations

import random
from fractions import Fraction
from math import prod

import pytest

import polymap as pm

PORTS = """\
    ports:
      - {name: r_port_1, type: read, bandwidth_min: R, bandwidth_max: R, allocation: [READS]}
      - {name: w_port_1, type: write, bandwidth_min: W, bandwidth_max: W, allocation: [WRITES]}
"""


def memory(
    name: str, size: int, cost: tuple[float, float], operands: str, served: str, width: tuple[int, int] = (16, 16)
) -> str:
    names = operands.split(", ")
    reads = ", ".join(f'"{each}, tl"' for each in names)
    writes = ", ".join(f'"{each}, fh"' for each in names)
    ports = PORTS.replace("READS", reads).replace("WRITES", writes)
    ports = ports.replace(": R", f": {width[0]}").replace(": W", f": {width[1]}")
    return (
        f"  {name}:\n    size: {size}\n    r_cost: {cost[0]}\n    w_cost: {cost[1]}\n    area: 0\n    latency: 1\n"
        f"    operands: [{operands}]\n{ports}    served_dimensions: [{served}]\n"
    )


ARRAY = "operational_array:\n  unit_energy: 0.25 # pJ\n  unit_area: 1\n  dimensions: [D1, D2]\n  sizes: [2, 2]\n"
MACHINE = (
    "name: small\nmemories:\n"
    + memory("rf_W", 64, (0.5, 1), "I2", "", (8, 8))
    + memory("rf_O", 16, (2, 3), "O", "")
    + memory("sram", 4096, (10, 20), "I1, O", "D1, D2", (32, 16))
    + memory("dram", 10**9, (100, 200), "I1, I2, O", "D1, D2", (64, 64))
    + ARRAY
)
SHARED = MACHINE.replace("operands: [O]", "operands: [O]", 1).replace(
    memory("rf_O", 16, (2, 3), "O", ""), memory("rf_O", 16, (2, 3), "O", "D2")
)
LAYERS = """\
- id: 0
  operator_type: Conv
  equation: O[b][k][oy][ox]+=W[k][c][fy][fx]*I[b][c][iy][ix]
  dimension_relations: [ix=2*ox+1*fx, iy=oy+fy]
  loop_dims: [B, K, C, OY, OX, FY, FX]
  loop_sizes: [1, 4, 4, 5, 6, 3, 2]
  operand_precision: {W: 8, I: 8, O: 16, O_final: 16}
  operand_source: {I: 0, W: 0}
- id: 1
  name: point
  operator_type: Conv
  equation: O[b][k][ox]+=W[k][c]*I[b][c][ox]
  dimension_relations: []
  loop_dims: [B, K, C, OX]
  loop_sizes: [1, 4, 4, 6]
  operand_precision: {W: 8, I: 8, O: 16, O_final: 16}
  operand_source: {I: 0, W: 1}
- id: 2
  operator_type: Add
  equation: O[b][g]=W[b][g]+I[b][g]
  loop_dims: [B, G]
  loop_sizes: [1, 8]
  operand_precision: {W: 8, I: 8, O: 16, O_final: 16}
  operand_source: {I: 1, W: 1}
- id: 3
  operator_type: Pooling
  equation: O[b][g][ox]+=W[fx]*I[b][g][ix]
  dimension_relations: [ix=2*ox+fx]
  loop_dims: [B, G, OX, FX]
  loop_sizes: [1, 8, 4, 2]
  operand_precision: {W: 0, I: 8, O: 16, O_final: 16}
  operand_source: {I: 2, W: 3}
"""
MAPPINGS = """\
- name: default
  spatial_mapping:
    D1: ["K, 32"]
    D2: ["C, 2"]
  memory_operand_links: {O: O, W: I2, I: I1}
- name: Add
  spatial_mapping:
    D1: ["G, 2"]
    D2: ["C, 1"]
  memory_operand_links: {O: O, W: I2, I: I1}
- name: point
  spatial_mapping:
    D2: ["K, 2"]
  temporal_ordering:
    - [OX, 6]
    - [B, "*"]
    - [K, 2]
  memory_operand_links: {O: O, W: I1, I: I2}
"""
VERSION_2 = (
    MACHINE.replace("operational_array", "multipliers")
    .replace("unit_energy", "multiplier_energy")
    .replace("unit_area: 1", "multiplier_area: 1\n  input_precision: [8, 8]")
    .replace(
        memory("rf_W", 64, (0.5, 1), "I2", "", (8, 8)),
        "  rf_W:\n    size: 64\n    r_bw: 8\n    w_bw: 8\n    r_cost: 0.5\n    w_cost: 1\n    area: 0\n    r_port: 1\n"
        "    w_port: 1\n    rw_port: 0\n    latency: 1\n    operands: [I2]\n"
        "    ports:\n      - fh: w_port_1\n        tl: r_port_1\n    served_dimensions: []\n",
    )
)


def test_memories_and_array_are_a_chain() -> None:
    arch = pm.io.from_zigzag(MACHINE).arch
    assert [node.name for node in arch.nodes] == ["dram", "sram", "D1", "D2", "rf_O", "rf_W", "mac"]
    dram, sram, _, weights = arch.levels
    assert (dram.capacity_bits, sram.capacity_bits, weights.capacity_bits) == (None, 4096, 64)
    assert (sram.holds, sram.must_hold) == (("@input", "@output"),) * 2
    assert (sram.read_bandwidth_bits_per_cycle, sram.write_bandwidth_bits_per_cycle) == (32, 16)
    assert sram.access_pj(32, 0) == 10  # r_cost pays for the 32 bits of a read
    assert sram.access_pj(0, 16) == 20  # and w_cost for the 16 of a write
    assert arch.compute.pj == Fraction(1, 4)
    assert [(each.size, each.multicast.value) for each in arch.fanouts] == [(2, "union"), (2, "union")]


def test_a_memory_that_a_row_shares_stands_above_the_row() -> None:
    arch = pm.io.from_zigzag(SHARED).arch
    assert [node.name for node in arch.nodes] == ["dram", "sram", "D1", "rf_O", "D2", "rf_W", "mac"]


def test_version_2_says_the_same() -> None:
    assert pm.io.from_zigzag(VERSION_2).arch == pm.io.from_zigzag(MACHINE).arch


def test_double_buffering_halves_the_capacity() -> None:
    text = MACHINE.replace("size: 4096", "size: 4096\n    force_double_buffering: True")
    assert pm.io.from_zigzag(text).arch.levels[1].usable_bits == 2048


def test_the_memories_of_an_off_chip_core_stand_outside_of_a_core() -> None:
    """As Stream divides a machine into files: the off-chip core has a memory, and an array of no units."""
    dram = memory("dram", 10**9, (100, 200), "I1, I2, O", "D1, D2", (64, 64))
    offchip = "name: out\ntype: zigzag.offchip\nmemories:\n" + dram.replace(f"{10**9}", "1_000_000_000")
    offchip += ARRAY.replace("[2, 2]", "[0, 0]")
    core = MACHINE.replace(dram, "")
    assert pm.io.from_zigzag(core, offchip=offchip).arch == pm.io.from_zigzag(MACHINE).arch
    with pytest.raises(pm.errors.InputError, match="the outermost memory sram holds I1, O"):
        pm.io.from_zigzag(core, strict=False)
    with pytest.raises(pm.errors.InputError, match=r"size is 'much'(.|\n)*size is 'more'"):
        pm.io.from_zigzag(core.replace("size: 64", "size: much"), offchip=offchip.replace("1_000_000_000", "more"))
    with pytest.raises(pm.errors.InputError, match="the name 'dram' occurs twice"):
        pm.io.from_zigzag(MACHINE, offchip=offchip)


def test_layers_are_workloads_and_a_network() -> None:
    found = pm.io.from_zigzag(MACHINE, workload=LAYERS)
    conv, point, add, pool = (each.workload for each in found.layers)
    sizes = {"b": 1, "k": 4, "c": 4, "oy": 5, "ox": 6, "fy": 3, "fx": 2}
    mine = pm.einsum("O[b,k,oy,ox] += W[k,c,fy,fx] * I[b,c,oy+fy,2ox+fx]", sizes=sizes, bits={"W": 8, "I": 8, "O": 16})
    assert [(each.name, each.bits, each.shape) for each in conv.tensors] == [
        (each.name, each.bits, each.shape) for each in mine.tensors
    ]
    assert {each.name: each.shape for each in conv.tensors}["I"] == (1, 4, 5 + 3 - 1, 2 * 5 + 2)
    assert [{dim.name for dim in each.dims} for each in (point, add, pool)] == [
        {"b", "k", "c", "ox"}, {"b", "g"}, {"b", "g", "ox", "fx"},
    ]  # fmt: skip
    assert found.network is not None
    assert found.network.macs == 4 * 4 * 5 * 6 * 3 * 2 + 4 * 4 * 6
    assert found.network.edges == (("Layer0#0", "point#1"), ("point#1", "Layer2#2"), ("Layer2#2", "Layer3#3"))


def test_mappings_are_constraints_by_name_operator_and_default() -> None:
    found = pm.io.from_zigzag(MACHINE.replace("sizes: [2, 2]", "sizes: [4, 2]"), MAPPINGS, LAYERS)
    conv, point, add, _ = found.layers
    assert conv.constraints == {
        "fanouts": {
            "D1": {"factors": {"k": 4}, "forbid": ["b", "c", "oy", "ox", "fy", "fx"]},  # 32 of 4
            "D2": {"factors": {"c": 2}, "forbid": ["b", "k", "oy", "ox", "fy", "fx"]},
        }
    }
    assert point.constraints == {
        "fanouts": {"D2": {"factors": {"k": 2}, "forbid": ["b", "c", "ox"]}}, "order": ["k", "ox"],
    }  # fmt: skip
    assert add.constraints == {"fanouts": {"D1": {"factors": {"g": 2}, "forbid": ["b"]}, "D2": {"forbid": ["b", "g"]}}}
    roles = {tensor.name: tensor.role.value for tensor in point.workload.tensors}
    assert roles == {"O": "output", "W": "input", "I": "weight"}  # memory_operand_links: W lives where I1 does


def test_explore_meets_the_constraints() -> None:
    arch, layers, *_ = pm.io.from_zigzag(MACHINE, MAPPINGS.replace("K, 32", "K, 2"), LAYERS)
    answer = pm.explore(layers[0].workload, arch, constraints=layers[0].constraints, tiles="divide", time_limit_s=20)
    assert answer.best is not None
    spread = {(node.dim, node.fanout) for node in answer.best.nodes if isinstance(node, pm.Spatial)}
    assert spread == {("k", "D1"), ("c", "D2")}


def test_traffic_and_energy_of_a_mapping_by_hand() -> None:
    """k and c over the array; weights stay while ox runs; sums go up after every step.

    Of 4 k, 4 c, 6 ox: 2 x 2 x 6 = 24 steps of 2 x 2 units. Inputs: 24 of dram once, two of sram in each step, for both
    columns. Weights: 16, each once. Sums: in each step each of the 4 units has one; the two of a column are added on
    the way up, so that sram gets 2 x 24, and gives back 24 to the second half of c (to one of the two units).
    """
    arch, layers, *_ = pm.io.from_zigzag(MACHINE, workload=LAYERS)
    tree = [
        {"store": "dram", "tensors": ["O", "W", "I"]}, {"store": "sram", "tensors": ["O", "I"]},
        {"for": "c", "tile": 2}, {"for": "k", "tile": 2},
        {"par": "k", "tile": 1, "over": "D1"}, {"par": "c", "tile": 1, "over": "D2"},
        {"store": "rf_W", "tensors": ["W"]}, {"for": "ox", "tile": 1}, {"store": "rf_O", "tensors": ["O"]},
    ]  # fmt: skip
    mapping = pm.io.mapping_from_document({"nodes": [*tree, {"compute": "S"}]})
    cost = pm.evaluate(layers[1].workload, arch, mapping)
    assert cost.legal
    rows = {(row.level, row.tensor): (row.reads, row.writes) for row in cost.traffic}
    assert rows["dram", "I"] == (24, 0)
    assert rows["dram", "W"] == (16, 0)
    assert rows["dram", "O"] == (0, 24)
    assert rows["sram", "I"] == (48, 24)
    assert rows["sram", "O"] == (24 + 24, 48)  # 24 back to the array, 24 to dram
    assert rows["rf_W", "W"] == (96, 16)
    assert rows["rf_O", "O"] == (
        24 + 96,
        24 + 96,
    )  # what came back is read and added to; each sum is written and drained
    energy = (
        Fraction(24 * 8 + 16 * 8, 64) * 100 + Fraction(24 * 16, 64) * 200
        + Fraction(48 * 8 + 48 * 16, 32) * 10 + Fraction(24 * 8 + 48 * 16, 16) * 20
        + 96 * Fraction(1, 2) + 16 * 1 + 120 * 2 + 120 * 3 + 96 * Fraction(1, 4)
    )  # fmt: skip
    assert cost.energy_pj_exact == energy


DRAINS = '      - {name: r_port_2, type: read, bandwidth_max: 16, allocation: ["O, th"]}'
PORTED = MACHINE.replace('allocation: ["O, tl"]}', f'allocation: ["O, tl"]}}\n{DRAINS}', 1)


@pytest.mark.parametrize(
    "text, told",
    [
        (PORTED, r"PM661 the text, line \d+: memory rf_O has the ports r_port_1 \(16 bits\), r_port_2"),
        (
            SHARED.replace(
                'allocation: ["I2, fh"]}\n    served_dimensions: []',
                'allocation: ["I2, fh"]}\n    served_dimensions: [D1]',
            ),
            "rf_W is shared along D1, rf_O along D2\n +Neither can stand above the other",
        ),
        (MACHINE.replace("unit_energy", "unit_enrgy"), "unit_enrgy is not read.*\n.*unit_energy"),
        (MACHINE.replace("r_cost: 0.5", "r_cost: 0.5\n    auto_cost_extraction: True"), "CACTI"),
        (MACHINE.replace("name: small", "name: small\nname: other"), "the key 'name' is given twice"),
    ],
)
def test_what_has_no_equal_is_refused_or_warned_of(text: str, told: str) -> None:
    with pytest.raises(pm.errors.InputError, match=told):
        pm.io.from_zigzag(text)
    if "unit_enrgy" not in text:
        found = pm.io.from_zigzag(text, strict=False)
        assert found.warnings, "what is left out is told"
        assert all(each.line > 0 for each in found.warnings)


@pytest.mark.parametrize(
    "old, new, told",
    [
        ("O_final: 16", "O_final: 8", "O has 16 bits while it is summed and 8 \\(O_final\\)"),
        ("ix=2*ox+1*fx", "ix=ox*fx", "the relation 'ix=ox\\*fx' is not read"),
        ("[1, 4, 4, 5, 6, 3, 2]", "[1, 4, 4, 5, 6, 3]", "6 loop_sizes for 7 loop_dims"),
        ("operator_type: Add", "operatr_type: Add", "a layer has no operator_type|operatr_type is not read"),
        ("W[k][c]*", "W[k][k]*", "no operand|the layer"),
        ("{W: 8, I: 8,", "{W: 8,", "operand_precision says nothing of I"),
    ],
)
def test_mistakes_of_layers_are_told(old: str, new: str, told: str) -> None:
    text = LAYERS.replace(old, new)
    if "W[k][k]" in new:
        assert pm.io.from_zigzag(MACHINE, workload=text).layers[1].workload  # c is I's alone: a product all the same
        return
    with pytest.raises(pm.errors.InputError, match=told):
        pm.io.from_zigzag(MACHINE, workload=text)


def test_all_mistakes_of_a_memory_a_layer_and_a_mapping_come_at_once() -> None:
    def changed(text: str, *pairs: tuple[str, str]) -> str:
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new, 1)
        return text

    array = (
        ("unit_energy: 0.25", "unit_energy: -1"),
        ("unit_area: 1", "unit_area: x"),
        ("sizes: [2, 2]", "sizes: [2, -2]"),
    )
    costs = ("r_cost: 0.5", "r_cost: abc"), ("w_cost: 1\n", "w_cost: -4\n"), ("latency: 1", "latency: z")
    layer = (
        ("id: 0", "id: -5"),
        ("[1, 4, 4, 5, 6, 3, 2]", "[1, -4, x, 5, 6, 3, 2]"),
        ("W: 8, I: 8", "W: eight, I: -8"),
        ("{I: 0, W: 0}", "{I: -1, W: q}"),
    )
    mapping = ("{O: O, W: I2, I: I1}", "{O: O, W: I7, I: I8}"), ("[OX, 6]", "[OX]"), ('[B, "*"]', "[B, -2]")
    for given, mistakes in (
        ((changed(MACHINE, *array, *costs),), 6),
        ((MACHINE, MAPPINGS, changed(LAYERS, *layer)), 7),
        ((MACHINE, changed(MAPPINGS, *mapping), LAYERS), 4),
    ):
        with pytest.raises(pm.errors.InputError) as caught:
            pm.io.from_zigzag(*given)
        assert len(caught.value.mistakes) == mistakes


def test_all_mistakes_come_at_once() -> None:
    text = MACHINE.replace("size: 64", "size: much").replace("[I1, O]", "[I1, I3]")
    with pytest.raises(pm.errors.InputError) as caught:
        pm.io.from_zigzag(text, MAPPINGS.replace("D1: [", "D1: [1, "), LAYERS)
    assert len(caught.value.mistakes) >= 2
    with pytest.raises(pm.errors.InputError) as caught:
        pm.io.from_zigzag(text, MAPPINGS, LAYERS.replace("equation:", "equations:"))
    assert "equations" in str(caught.value)
    wrong = (
        MACHINE.replace("type: write", "type: writes")
        .replace("[I1, O]", "[I1, I3]")
        .replace("bandwidth_max: ", "bandwidth_max: -", 1)
    )
    with pytest.raises(pm.errors.InputError) as told:
        pm.io.from_zigzag(wrong)
    assert all(word in str(told.value) for word in ("type is 'writes", "I3", "bandwidth_max"))
    assert "much" in str(caught.value)


@pytest.mark.parametrize(
    "old, new, told",
    [
        ("K, 32", "K, x", "spatial_mapping.D1 is 'K, x'"),
        ("D1: [", "D7: [", "the array has no dimension D7"),
        ("W: I2", "W: I7", "the operand W is linked to 'I7'"),
        ("- [K, 2]", "- [K, 2]\n    - [OX, 2]", "several loops over ox"),
        ("- name: default", "- title: default", "a mapping has no name|title is not read"),
    ],
)
def test_mistakes_of_mappings_are_told(old: str, new: str, told: str) -> None:
    with pytest.raises(pm.errors.InputError, match=f"PM661 .*({told})"):
        pm.io.from_zigzag(MACHINE, MAPPINGS.replace(old, new), LAYERS)


def test_cores_and_arrays_in_memory_are_refused() -> None:
    with pytest.raises(pm.errors.InputError, match="several cores"):
        pm.io.from_zigzag("name: a\ncores:\n  0: x\n", strict=False)
    with pytest.raises(pm.errors.InputError, match="compute in memory"):
        pm.io.from_zigzag(MACHINE.replace("operational_array:", "operational_array:\n  is_imc: True"), strict=False)


def test_an_outermost_memory_that_is_too_small_is_told() -> None:
    with pytest.raises(pm.errors.InputError, match="the outermost memory dram has 100 bits"):
        pm.io.from_zigzag(MACHINE.replace(str(10**9), "100"), workload=LAYERS)


@pytest.mark.parametrize("first", range(0, 200, 100))
def test_damaged_files_never_fail_unforeseen(first: int) -> None:
    refused: list[str] = []
    for seed in range(first, first + 100):
        rng = random.Random(seed)
        texts = [MACHINE, MAPPINGS, LAYERS]
        place = rng.randrange(3)
        words = texts[place].split(" ")
        for _ in range(rng.randint(1, 2)):
            words[rng.randrange(len(words))] = rng.choice([*words, "-1", "[]", "{}", "null", "D9", "I2, tl", "x\n"])
        texts[place] = " ".join(words)
        try:
            found = pm.io.from_zigzag(*texts, strict=rng.random() < 0.5)
        except pm.errors.InputError as error:
            refused += [each.code for each in error.mistakes]
        else:
            assert all(prod(dim.extent for dim in each.workload.dims) for each in found.layers)
    assert {*refused} == {"PM660", "PM661"}
