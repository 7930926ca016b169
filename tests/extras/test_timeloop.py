"""Timeloop's files: what is imported counts as what is written natively, and comes back from to_timeloop."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

import polymap as pm
from tests.extras.timeloop_zoo import CONV_ARCH, CONV_CONSTRAINTS, CONV_MAPPING, CONV_PROBLEM, GEMM, native_conv


def figures(cost: pm.Cost) -> tuple[object, ...]:
    return cost.legal, cost.traffic, cost.occupancy_bits, cost.energy_by_level_pj_exact, cost.latency_cycles


def ordered(cost: pm.Cost) -> pm.Cost:
    return replace(cost, traffic=tuple(sorted(cost.traffic, key=lambda row: (row.level, row.tensor))))


def test_an_imported_mapping_counts_what_the_native_one_does() -> None:
    workload, arch, mapping = pm.from_timeloop(CONV_PROBLEM, CONV_ARCH, CONV_MAPPING)
    native = native_conv()
    assert mapping is not None
    for count in (pm.evaluate, pm.simulate):
        assert figures(ordered(count(workload, arch, mapping))) == figures(ordered(count(*native)))


def test_version_4_counts_what_the_native_one_does() -> None:
    workload, arch, mapping = pm.from_timeloop(GEMM, GEMM, GEMM)
    native = pm.einsum("Z[M,N] += A[M,K] * W[K,N]", sizes={"M": 8, "N": 12, "K": 6}, name="product")
    assert [node.name for node in arch.nodes] == ["main_memory", "buffer", "row", "column", "register", "mac_X", "mac"]
    assert arch.levels[1].must_hold == ("A",)
    tree = [
        {"store": "main_memory", "tensors": ["A", "W", "Z"]}, {"for": "N", "tile": 6}, {"for": "M", "tile": 4},
        {"store": "buffer", "tensors": ["A", "W", "Z"]}, {"for": "K", "tile": 2},
        {"par": "M", "tile": 1, "over": "row"}, {"par": "N", "tile": 2, "over": "column"},
        {"store": "register", "tensors": ["A", "Z"]}, {"for": "N", "tile": 1},
        {"par": "K", "tile": 1, "over": "mac_X"}, {"compute": "S"},
    ]  # fmt: skip
    mine = pm.evaluate(native, arch, pm.io.mapping_from_document({"nodes": tree}))
    assert figures(ordered(pm.evaluate(workload, arch, mapping))) == figures(ordered(mine))
    assert arch.levels[0].bandwidth_bits_per_cycle == 128


def test_constraints_are_those_of_explore() -> None:
    workload, arch, none, constraints = pm.from_timeloop(CONV_PROBLEM, CONV_ARCH, constraints=CONV_CONSTRAINTS)
    assert none is None
    spread = {"forbid": ["R", "S", "Q"]}
    assert constraints == {
        "store": {"Buffer": {"must": ["Inputs"], "never": ["Weights"]}},
        "fanouts": {"Spad_X": spread, "Spad_Y": spread},
    }
    small = pm.einsum("Outputs[M] += Weights[M,C] * Inputs[C]", M=4, C=4, bits=16)
    found = pm.explore(small, arch, tiles="divide", constraints={"store": constraints["store"]})
    assert found.status == "OPTIMAL"
    assert workload.extents()["C"] == 4


def test_files_may_be_paths(tmp_path: Path) -> None:
    path = tmp_path / "all.yaml"
    path.write_text(GEMM, encoding="utf-8")
    assert pm.from_timeloop(str(path), path, path) == pm.from_timeloop(GEMM, GEMM, GEMM)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[[K]], [[N]]", "[[K]], [[B]]", "the term ['B'] is not read"),
        ("M: 8,", "M: 8.5,", "instance.M is 8.5"),
        ("factors: [K=3]", "factors: [K=2]", "the factors of K multiply to 4, its size is 6"),
        ("class: DRAM", "class: adder", "the class 'adder'"),
        ("target: buffer, type: temporal", "target: bufer, type: temporal", "the target 'bufer' is unknown"),
        ("- !Hierarchical", "- !Paralel", "a node with the tag '!Paralel'"),
        ("factors: [M=4]", "factors: ['M=4,2']", "the factor '2'"),
        ("name: product", "name: [product", "did not find"),
        ("- {name: Z, projection: [[[M]], [[N]]], read_write: true}", "- {name: Z}", "data space has no projection"),
        ("depth: 128", "depth: 128, depth: 4", "the key 'depth' is given twice"),
        ("spatial: {meshX: 4}", "spatial: {meshZ: 4}", "spatial.meshZ is not read"),
        ("version: 0.4", "version: 9", "problem.version is 9"),
    ],
)
def test_mistakes_are_told_with_their_line(old: str, new: str, told: str) -> None:
    assert old in GEMM
    text = GEMM.replace(old, new, 1)
    line = text[: text.index(new)].count("\n") + 1
    with pytest.raises(pm.errors.InputError, match=r"PM66[01] the text, line") as caught:
        pm.from_timeloop(text, text, text)
    message = str(caught.value)
    assert f"line {line}: {told}" in message or ("PM660" in message and "line" in message), message


def test_to_timeloop_and_back_is_what_it_was() -> None:
    for files in ((GEMM, GEMM, GEMM), (CONV_PROBLEM, CONV_ARCH, CONV_MAPPING)):
        workload, arch, mapping = pm.from_timeloop(*files)
        text = pm.to_timeloop(workload, arch, mapping)
        again = pm.from_timeloop(text, text, text)
        assert again[1] == arch
        assert ordered(pm.evaluate(*again)) == ordered(pm.evaluate(workload, arch, mapping))
        assert pm.to_timeloop(*again) == text


def test_random_mappings_come_back_or_are_refused_with_a_reason() -> None:
    arch, came, refused = pm.load_arch("flat3"), 0, 0
    layer = pm.einsum("O[k,p] += I[c,p+r] * W[k,c,r]", k=4, c=4, p=4, r=3, name="window")
    sampled = [mapping for seed in range(2) for mapping in pm.sample_mappings(layer, arch, 30, seed=seed).mappings]
    for mapping in (*sampled, *(level_by_level(layer, random.Random(seed)) for seed in range(60))):
        try:
            text = pm.to_timeloop(layer, arch, mapping)
        except pm.errors.OptionError as error:
            refused += "PM662 Timeloop cannot say this" in str(error)
            continue
        workload, machine, again = pm.from_timeloop(text, text, text)
        assert replace(machine, name=arch.name, source=arch.source) == arch
        one, two = (ordered(pm.evaluate(layer, arch, mapping)), ordered(pm.evaluate(workload, machine, again)))
        assert figures(one) == figures(two)
        came += 1
    assert came >= 60
    assert refused >= 30
    assert came + refused == 120


def level_by_level(layer: pm.Workload, rng: random.Random) -> pm.Mapping:
    """Return a mapping onto flat3 whose storage nodes of a level stand together."""
    left = dict(layer.extents())
    nodes: list[pm.Storage | pm.Temporal | pm.Spatial | pm.Compute] = []

    def tile(dim: str, *, last: bool) -> int:
        left[dim] = 1 if last else rng.choice([each for each in range(1, left[dim] + 1) if left[dim] % each == 0])
        return left[dim]

    for level in ("DRAM", "GLB", "RF"):
        names = [tensor.name for tensor in layer.tensors]
        held = names if level == "DRAM" else rng.sample(names, rng.randint(1, 3))
        nodes.append(pm.Storage(level, tuple(held)))
        nodes += [pm.Temporal(dim, tile(dim, last=level == "RF")) for dim in rng.sample(list(left), len(left))]
        if level == "GLB":
            nodes += [pm.Spatial(dim, tile(dim, last=False), rng.choice("XY")) for dim in rng.sample(list(left), 2)]
    return pm.Mapping((*nodes, pm.Compute(layer.statements[0].name)))


def test_what_timeloop_cannot_say_is_told() -> None:
    arch = pm.load_arch("flat3")
    with pytest.raises(pm.errors.OptionError, match="PM662 Timeloop cannot say this: tensors of different bits"):
        pm.to_timeloop(pm.einsum("C[m] += A[m] * B[m]", m=4, bits={"A": 8, "B": 8, "C": 32}), arch)
    with pytest.raises(pm.errors.OptionError, match="PM662 Timeloop cannot say this: the index"):
        pm.to_timeloop(pm.einsum("C[m] += A[m+1] * B[m]", m=4), arch)


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_300_damaged_files_never_fail_unforeseen(first: int) -> None:
    read = refused = 0
    for seed in range(first, first + 100):
        files = [
            damaged(text, random.Random(seed)) for text in (CONV_PROBLEM, CONV_ARCH, CONV_MAPPING, CONV_CONSTRAINTS)
        ]
        whole = damaged(GEMM, random.Random(seed + 1000))
        for arguments in (files, [whole, whole, whole]):
            try:
                pm.from_timeloop(*arguments)
                read += 1
            except pm.errors.InputError as error:
                refused += "PM66" in str(error)
    assert read + refused == 200
    assert refused > 50


def damaged(text: str, rng: random.Random) -> str:
    """Return the text with one to three changes: characters, words of other places, lines lost, doubled or moved."""
    for _ in range(rng.randint(1, 3)):
        lines = text.split("\n")
        at = rng.randrange(len(lines))
        kind = rng.randrange(6)
        if kind == 0:
            place = rng.randrange(len(text))
            text = text[:place] + rng.choice("[]{}:-,&*!%@\"'|>#? \t0x=ä\x00\x85") + text[place + rng.randint(0, 1) :]
        elif kind == 1:
            words = text.split(" ")
            words[rng.randrange(len(words))] = rng.choice(
                (*words, "-1", "1e999", "null", "9" * 120, "&a", "*a", "!!int")
            )
            text = " ".join(words)
        elif kind == 2:
            text = "\n".join(lines[:at] + lines[at + 1 :])
        elif kind == 3:
            text = "\n".join([*lines[: at + 1], *lines[at:]])
        elif kind == 4:
            text = "\n".join([*lines[:at], " " * rng.randint(1, 4) + lines[at], *lines[at + 1 :]])
        else:
            text = text[: rng.randrange(1, len(text))] + "\n"
    return text if "\n" in text else text + "\n"


TREE = """\
architecture:
  version: 0.3
  subtree:
  - name: system
    local:
    - {name: DRAM, class: DRAM, attributes: {width: 64, word-bits: 16}}
    subtree:
    - name: PE%s
      local:
      - {name: B, class: smartbuffer_SRAM, attributes: {%s}}
      - {name: mac, class: intmac, attributes: {%s}}
"""
PLAIN = "depth: 1024, width: 64, word_bits: 16"


def tree_of(copies: str = "", memory: str = PLAIN, mac: str = "") -> pm.Architecture:
    return pm.from_timeloop(CONV_PROBLEM, TREE % (copies, memory, mac))[1]


@pytest.mark.parametrize(
    ("memory", "capacity", "word"),
    [
        (PLAIN, 65536, 64),
        ("memory_depth: 1024, memory_width: 64, word_bits: 16", 65536, 64),
        ("data_storage_depth: 1024, data_storage_width: 64, datawidth: 16", 65536, 64),
        ("depth: 1024, width: 64", 65536, 64),  # a data word of 16 bits where nothing is said
        ("depth: 1024, block-size: 4, word_width: 16", 65536, 64),
        ("depth: 1024, n_words: 4, width: 64", 65536, 64),
        ("depth: 1024, block_size: 2, cluster-size: 1, width: 32", 32768, 32),
        ("entries: 4096, width: 64", 65536, 64),
        ("sizeKB: 8, width: 64", 65536, 64),
        # Timeloop's own figures, exercises 06: psum_spad "Size 16, Word bits 16, Block size 1".
        ("depth: 16, width: 16, update_fifo_depth: 2, datawidth: 16, read_bandwidth: 2, write_bandwidth: 2", 256, 16),
        ("depth: null, width: 64", None, 64),
    ],
)
def test_capacities_and_words_in_all_their_spellings(memory: str, capacity: int | None, word: int) -> None:
    level = tree_of(memory=memory).levels[1]
    assert (level.capacity_bits, level.word_bits) == (capacity, word)


def test_copies_that_share_a_memory_have_a_block_each() -> None:
    level = tree_of("[0..3]", "depth: 1024, width: 64, block-size: 1, cluster-size: 4").levels[1]
    assert (level.capacity_bits, level.word_bits) == (16384, 64)  # 1,024 data words each; an access pays for four
    assert level.access_pj(64, 0) == level.read_pj


def test_buffering_and_bandwidths() -> None:
    level = tree_of(memory=f"{PLAIN}, multiple-buffering: 2.0, bandwidth: 4").levels[1]
    assert (level.buffering, level.usable_bits) == (2, 32768)
    assert (level.read_bandwidth_bits_per_cycle, level.write_bandwidth_bits_per_cycle) == (32, 32)


@pytest.mark.parametrize(
    ("copies", "memory", "mac", "fans"),
    [
        ("", "", "instances: 256", {"mac_X": 256}),
        ("", "", "instances: 256, meshX: 16", {"mac_X": 16, "mac_Y": 16}),
        ("", "", "instances: 256, meshY: 256", {"mac_Y": 256}),
        ("[0..167]", ", meshX: 14", "", {"B_X": 14, "B_Y": 12}),  # 168 (14*12), as Timeloop's figures have it
        ("[1..168]", ", meshX: 14, meshY: 12", "meshX: 14", {"B_X": 14, "B_Y": 12}),
        ("", ", instances: 8", "instances: 16", {"B_X": 8, "mac_X": 2}),
    ],
)
def test_copies_in_all_their_spellings(copies: str, memory: str, mac: str, fans: dict[str, int]) -> None:
    assert {node.name: node.size for node in tree_of(copies, PLAIN + memory, mac).fanouts} == fans


@pytest.mark.parametrize(
    ("memory", "told"),
    [
        ("width: 64, word_bits: 16", "the level B has no capacity"),
        (f"{PLAIN}, memory_depth: 512", "B has depth 1024 and memory_depth 512"),
        (f"{PLAIN}, entries: 16", "B has depth (4096 words) and entries (16 words)"),
        ("depth: 1024, width: 60, word_bits: 16", "width of B is 60, not 16 bits of a data word"),
        (f"{PLAIN}, multiple_buffering: 1.5", "multiple_buffering of B is 1.5"),
        (f"{PLAIN}, min_utilization: 0.5", "B.min_utilization is not read (it is 0.5)"),
        (f"{PLAIN}, meshX: 16", "meshX of B is 16, and the whole machine has 1 of it"),
        (f"{PLAIN}, memory_dpeth: 1", "B.memory_dpeth is not read (it is 1)\n      Did you mean 'memory_depth'?"),
        (f"{PLAIN}, word-bits: 16", "B.word_bits is given twice, with - and with _"),
        (f"{PLAIN}, network_read: noc", "B.network_read is not read (it is 'noc')"),
        (f"{PLAIN}, network_fill_latency: 3", "B.network_fill_latency is not read (it is 3)"),
        (f"{PLAIN}, vector_access_energy: 3", "B.vector_access_energy is not read"),
        (f"{PLAIN}, shared_bandwidth: 3, read_bandwidth: 2", "B has shared_bandwidth and read_bandwidth"),
        (f"{PLAIN}, read_bandwidth: 2", "B has a read_bandwidth alone"),
    ],
)
def test_attributes_that_are_not_understood_are_told(memory: str, told: str) -> None:
    with pytest.raises(pm.errors.InputError, match="PM661 the text, line 10") as caught:
        tree_of(memory=memory)
    assert told in str(caught.value)


def test_a_bandwidth_alone_is_left_out_and_an_empty_mapping_refused() -> None:
    text = TREE % ("", f"{PLAIN}, read_bandwidth: 2", "")
    found = pm.from_timeloop(CONV_PROBLEM, text, strict=False)
    assert ["read_bandwidth alone" in each.what for each in found.warnings] == [True]
    assert found[1].levels[1].read_bandwidth_bits_per_cycle is None
    with pytest.raises(pm.errors.InputError, match="PM661.*the mapping is empty"):
        pm.from_timeloop(CONV_PROBLEM, text, "mapping: []\n", strict=False)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("class: SRAM", "class: register_file", "the class 'register_file' of buffer"),
        ("class: regfile", "class: regfile\n          enabled: 1", "enabled is 1"),
        ("name: buffer\n", "name: buffer\n      sparse_optimizations: {x: 1}\n", "sparse_optimizations of buffer"),
        ("keep: [A]", "keep: [Weights]", "the problem has no data space 'Weights'"),
        ("version: 0.4\n  nodes", "versoin: 0.4\n  nodes", "architecture.versoin is not read (it is 0.4)"),
        ("mapping:", "mapper: {}\nmaping: {}\nmapping:", "the key 'maping' of the file is not read"),
        ("read_write: true", "read_write: 1", "read_write of Z is 1"),
        ("name: W,", "name: A,", "the data space 'A' is given twice"),
        ("{M: 8,", "{density: {A: 0.5}, M: 8,", "instance.density is no dimension"),
        ("permutation: [M, N]}", "permutation: [M, N], keep: [A]}", "a temporal directive.keep is not read"),
        ("bypass: [W]}", "bypass: [A, W]}", "the data space 'A' is named twice"),
        ("datawidth: 8, depth: 8", "depth: 8", "register has no datawidth"),
        ("depth: 128", "depth: 128, meshX: 4", "buffer.meshX is not read (it is 4)"),
    ],
)
def test_fields_of_version_4_that_are_not_understood_are_told(old: str, new: str, told: str) -> None:
    assert old in GEMM
    text = GEMM.replace(old, new, 1)
    with pytest.raises(pm.errors.InputError, match="PM661 the text, line") as caught:
        pm.from_timeloop(text, text, text)
    assert told in str(caught.value)


def test_a_component_that_is_not_enabled_is_left_out_and_containers_hand_attributes_down() -> None:
    text = GEMM.split("mapping:")[0].replace("name: core", "name: core\n      attributes: {datawidth: 8}")
    text = text.replace("attributes: {datawidth: 8, width: 32, depth: 128}", "attributes: {width: 32, depth: 128}")
    assert pm.from_timeloop(text, text)[1].levels[1].capacity_bits == 4096
    disabled = text.replace("class: regfile", "class: regfile\n          enabled: false")
    assert [level.name for level in pm.from_timeloop(disabled, disabled)[1].levels] == ["main_memory", "buffer"]


UPDATE = "{name: update, energy: 7}"


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("name: system.chip.Buffer", "name: system.chip.Bufer", "the ERT has no table of 'Buffer'"),
        ("- name: system.DRAM", "- {name: noc, actions: []}\n    - name: system.DRAM", "a table of 'noc', which is no"),
        (UPDATE, "{name: updaet, energy: 7}", "the table of 'Buffer' has no action write"),
        (
            "{name: update, energy: 7}",
            "{name: update, energy: 7}, {name: leek, energy: 7}",
            "action 'leek' of 'Buffer'",
        ),
        (
            "{name: update, energy: 7}",
            "{name: update, energy: 7}, {name: write, energy: 5}",
            "write 5.0 and update 7.0",
        ),
    ],
)
def test_energies_that_belong_nowhere_are_told(old: str, new: str, told: str) -> None:
    assert old in CONV_ARCH
    with pytest.raises(pm.errors.InputError, match="PM661 the text, line") as caught:
        pm.from_timeloop(CONV_PROBLEM, CONV_ARCH.replace(old, new, 1))
    assert told in str(caught.value)


def test_buffering_and_unlimited_levels_come_back() -> None:
    nodes = [
        {"level": "D", "word_bits": 32},
        {"level": "L", "word_bits": 16},
        {"level": "B", "word_bits": 16, "capacity_bits": 4096, "buffering": 2},
        {"compute": "M"},
    ]
    arch = pm.io.arch_from_document({"name": "timeloop", "nodes": nodes})
    layer = pm.einsum("C[m] += A[m,k] * B[k]", m=4, k=4)
    text = pm.to_timeloop(layer, arch)
    assert pm.from_timeloop(text, text)[1] == arch
    with pytest.raises(pm.errors.OptionError, match=r"PM662 .*words of D \(32 bits\) .*no whole elements \(24 bits\)"):
        pm.to_timeloop(pm.einsum("C[m] += A[m,k] * B[k]", m=4, k=4, bits=24), arch)
    fan = {"fanout": "X", "size": 2, "pj_per_word": 1}
    with pytest.raises(pm.errors.OptionError, match="PM662 .*energies of the fan-out X"):
        pm.to_timeloop(layer, pm.io.arch_from_document({"nodes": [nodes[0], fan, nodes[3]]}))
