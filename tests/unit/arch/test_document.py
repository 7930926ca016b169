"""Machines as documents: defaults, exact numbers, every mistake at once, warnings."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from polymap.inputs.machines import arch_from_document, arch_to_document, arch_warnings
from polymap.inputs.presets import load_arch
from polymap.ir.errors import ArchError, InputError
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, FanoutKind, MemoryLevel, Multicast

DRAM = {"level": "DRAM"}
MAC = {"compute": "MAC"}


def machine(*middle: object) -> dict[str, object]:
    return {"name": "toy", "nodes": [DRAM, *middle, MAC]}


def codes(document: object) -> list[str]:
    with pytest.raises(ArchError, match=r"^PM\d{3} ") as caught:
        arch_from_document(document)
    return [problem.code for problem in caught.value.mistakes]


def test_defaults_are_those_of_the_interface() -> None:
    arch = arch_from_document(machine({"level": "Buf"}, {"fanout": "X", "size": 4}))
    assert arch.nodes == (
        MemoryLevel("DRAM", None, 8, Fraction(0), Fraction(0), Fraction(0), None, None, None, 1, None, ()),
        MemoryLevel("Buf"),
        Fanout("X", 4, Multicast.IDENTICAL, reduction=True, dims=None),
        ComputeUnit("MAC", Fraction(0), 1),
    )
    assert arch.overlap
    assert arch.source == ""


def test_a_fanout_without_a_kind_is_what_its_name_says() -> None:
    fanouts = [{"fanout": name, "size": 4} for name in ("core", "lane", "block", "X")]
    arch = arch_from_document(machine(*fanouts, {"fanout": "Y", "size": 2, "kind": "core"}))
    assert [one.kind for one in arch.fanouts] == [
        *(FanoutKind.CORE, FanoutKind.LANE, FanoutKind.PLAIN, FanoutKind.PLAIN, FanoutKind.CORE),
    ]
    assert arch.fanouts[0] == Fanout("core", 4)
    plain = arch_from_document(machine({"fanout": "core", "size": 4, "kind": "plain"}))
    assert plain.fanouts[0].kind is FanoutKind.PLAIN
    for one in (arch, plain):
        assert arch_from_document(arch_to_document(one)) == one
    assert [node.get("kind") for node in nodes_of(arch_to_document(arch))][1:-1] == [None] * 4 + ["core"]
    with pytest.raises(ArchError, match=r"(?s)PM113 .*kind is 'cores'.*plain, core, lane, block, thread"):
        arch_from_document(machine({"fanout": "X", "size": 4, "kind": "cores"}))


def nodes_of(document: dict[str, object]) -> list[dict[str, object]]:
    nodes = document["nodes"]
    assert isinstance(nodes, list)
    return nodes  # pyright: ignore[reportUnknownVariableType]


def test_every_field_is_read() -> None:
    level = {
        "level": "Buf",
        "capacity_bits": 1024,
        "word_bits": 16,
        "read_pj": 6,
        "write_pj": 6.5,
        "leak_pj_per_cycle": 0.25,
        "read_bandwidth_bits_per_cycle": 64,
        "write_bandwidth_bits_per_cycle": 32,
        "buffering": 2,
        "holds": ["@input", "A"],
        "must_hold": ["@weight"],
    }
    fanout = {"fanout": "X", "size": 4, "multicast": "union", "reduction": False, "dims": ["k"], "kind": "thread"}
    document = {**machine(level, fanout), "overlap": False, "source": "a text"}
    document["nodes"] = [DRAM, level, fanout, {"compute": "MAC", "pj": 0.5, "per_cycle": 2}]
    arch = arch_from_document(document)
    assert arch.levels[1] == MemoryLevel(
        name="Buf",
        capacity_bits=1024,
        word_bits=16,
        read_pj=Fraction(6),
        write_pj=Fraction(13, 2),
        leak_pj_per_cycle=Fraction(1, 4),
        read_bandwidth_bits_per_cycle=Fraction(64),
        write_bandwidth_bits_per_cycle=Fraction(32),
        buffering=2,
        holds=("@input", "A"),
        must_hold=("@weight",),
    )
    assert arch.fanouts == (Fanout("X", 4, Multicast.UNION, reduction=False, dims=("k",), kind=FanoutKind.THREAD),)
    assert arch.compute == ComputeUnit("MAC", Fraction(1, 2), 2)
    assert (arch.overlap, arch.source) == (False, "a text")
    assert arch_to_document(arch) == document
    assert arch_from_document(arch_to_document(arch)) == arch


def test_decimals_are_exact_from_every_door(tmp_path: Path) -> None:
    text = '{"nodes": [{"level": "DRAM", "read_pj": 0.1, "write_pj": 1e-3}, {"compute": "MAC", "pj": 0.30}]}'
    (tmp_path / "m.json").write_text(text)
    (tmp_path / "m.toml").write_text(
        '[[nodes]]\nlevel = "DRAM"\nread_pj = 0.1\nwrite_pj = 1e-3\n[[nodes]]\ncompute = "MAC"\npj = 0.30\n'
    )
    python = {"nodes": [{"level": "DRAM", "read_pj": 0.1, "write_pj": 1e-3}, {"compute": "MAC", "pj": 0.30}]}
    from_json, from_toml = load_arch(tmp_path / "m.json"), load_arch(str(tmp_path / "m.toml"))
    assert from_json == from_toml == arch_from_document(python)
    assert from_json.levels[0].read_pj == Fraction(1, 10)
    assert from_json.levels[0].write_pj == Fraction(1, 1000)
    assert from_json.compute.pj == Fraction(3, 10)


def test_numbers_that_no_decimal_says_are_written_as_fractions_and_read_back() -> None:
    third = Fraction(1, 3)
    level = MemoryLevel("DRAM", read_pj=third, bandwidth_bits_per_cycle=64 * third, step_cycles=Fraction(1, 10))
    arch = Architecture("thirds", (level, ComputeUnit("MAC", pj=Fraction(10**30 + 1, 10**30))), start_cycles=third)
    document = arch_to_document(arch)
    assert arch_from_document(json.loads(json.dumps(document))) == arch
    assert document["start_cycles"] == "1/3"


def test_all_mistakes_are_told_at_once() -> None:
    document = machine(
        {"level": "A", "capacity_bits": 0, "word_bits": True, "read_pj": -1, "hold": []},
        {"fanout": "X"},
        {"level": "A", "bandwidth_bits_per_cycle": 0},
        {"fanout": "Y", "size": 4, "multicast": "some", "reduction": 1},
    )
    assert codes(document) == [
        *("PM110", "PM113", "PM112", "PM113"),
        "PM111",
        "PM113",
        *("PM113", "PM112"),
        "PM306",
    ]


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], "PM302 machine has no nodes"),
        ([MAC], "PM302 machine lacks an outermost level: its first node is the compute unit 'MAC'"),
        ([{"fanout": "X", "size": 2}, MAC], "PM302 .* its first node is the fan-out 'X'"),
        ([DRAM], "PM304 machine lacks a compute unit: its last node is the level 'DRAM'"),
        ([DRAM, {"fanout": "X", "size": 2}], "PM304 .* its last node is the fan-out 'X'"),
        (
            [{**DRAM, "capacity_bits": 64}, MAC],
            r"PM303 nodes\[0\], the outermost level 'DRAM', has a capacity of 64 bits",
        ),
        ([DRAM, MAC, {"level": "L"}, {"compute": "MAC2"}], r"PM305 nodes\[1\] is the compute unit 'MAC'"),
        ([DRAM, {"level": "MAC"}, MAC], r"PM306 the name 'MAC' occurs twice: nodes\[1\] and nodes\[2\] have it"),
        ([DRAM, 3, MAC], r"PM307 nodes\[1\] is 3"),
        ([DRAM, {"size": 3}, MAC], r"PM307 nodes\[1\] does not say what it is: it has only 'size'"),
        ([DRAM, {"level": "L", "fanout": "F"}, MAC], r"PM307 nodes\[1\] has 'level' and 'fanout', which exclude"),
        ([DRAM, {"level": "for me"}, MAC], r"PM114 nodes\[1\] \(level 'for me'\): level is 'for me'"),
        ([DRAM, {"level": "L", "holds": ["@inputs"]}, MAC], "(?s)PM114 .*Did you mean '@input'"),
        ([DRAM, {"level": "L", "read_pj": float("nan")}, MAC], "PM112 .* read_pj is nan"),
    ],
)
def test_impossible_machines_are_refused(nodes: list[object], message: str) -> None:
    with pytest.raises(ArchError, match=message):
        arch_from_document({"nodes": nodes})


def test_capacity_in_two_units_is_refused() -> None:
    with pytest.raises(ArchError, match=r"PM308 .* capacity in two units, capacity_bits 8192 and capacity_bytes 128"):
        arch_from_document(machine({"level": "L", "capacity_bits": 8192, "capacity_bytes": 128}))
    with pytest.raises(ArchError, match=r"(?s)PM309 .*capacity_kib 1\.5.*'512 KiB'"):
        arch_from_document(machine({"level": "L", "capacity_kib": 1.5}))


@pytest.mark.parametrize(
    ("fields", "bits"),
    [
        ({"capacity_bits": "512 KiB"}, 8 * 512 * 1024),
        ({"capacity_bits": "4 Kibit"}, 4096),
        ({"capacity_bits": "64 B"}, 512),
        ({"capacity_bits": "1.5kB"}, 12000),
        ({"capacity_bits": "1e3 bit"}, 1000),
        ({"capacity_bits": 1e3}, 1000),
        ({"capacity_bits": 16.0}, 16),
        ({"capacity_bits": Fraction(4096)}, 4096),
        ({"capacity_bytes": 128}, 1024),
        ({"capacity_bytes": "1 MiB"}, 2**23),
        ({"capacity_words": 100, "word_bits": 16}, 1600),
        ({"capacity_words": 1e2}, 800),
        ({"capacity_words": None}, None),
    ],
)
def test_sizes_may_have_units_and_be_written_as_whole_decimals(fields: dict[str, object], bits: int | None) -> None:
    level = arch_from_document(machine({"level": "L", **fields})).levels[1]
    assert level.capacity_bits == bits


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"capacity_bits": "512"}, "PM112 .*Units are bit, B"),
        ({"capacity_bits": "512 KB"}, "PM119 .*Units are bit, B"),
        ({"capacity_bits": "-1 B"}, "PM112"),
        ({"capacity_bits": "0 B"}, "PM119 .*a whole number of bits, at least one"),
        ({"capacity_bits": "0.3 bit"}, "PM119 .*a whole number of bits, at least one"),
        ({"capacity_bits": "9" * 60 + " B"}, "PM119"),
        ({"capacity_bits": True}, "PM112"),
        ({"capacity_bits": 1.5}, "PM112"),
        ({"capacity_words": "3 B"}, "PM112 .*capacity_words"),
        ({"word_bits": 8.5}, "PM112 .*word_bits"),
        ({"bandwidth_bits_per_cycle": "64 K"}, "PM119 .*bandwidth_bits_per_cycle"),
    ],
)
def test_wrong_sizes_name_the_units(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ArchError, match=f"(?s){message}"):
        arch_from_document(machine({"level": "L", **fields}))


def test_bandwidths_and_fan_outs_take_whole_decimals_and_units() -> None:
    level = {"level": "L", "bandwidth_bits_per_cycle": "64 B", "word_bits": "2 B", "buffering": 2.0}
    arch = arch_from_document(machine(level, {"fanout": "X", "size": 16.0}))
    assert (arch.levels[1].bandwidth_bits_per_cycle, arch.levels[1].word_bits, arch.levels[1].buffering) == (512, 16, 2)
    assert arch.fanouts[0].size == 16


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"read_bandwidth_bits_per_cycle": 8}, "PM311"),
        ({"write_bandwidth_bits_per_cycle": 8, "read_bandwidth_bits_per_cycle": None}, "PM311"),
        ({"bandwidth_bits_per_cycle": 8, "write_bandwidth_bits_per_cycle": 8}, "PM310"),
        ({"bandwidth_bits_per_cycle": -8}, "PM113"),
        ({"bandwidth_bits_per_cycle": "8"}, "PM112"),
    ],
)
def test_bandwidths_come_shared_or_in_pairs(fields: dict[str, object], code: str) -> None:
    assert codes(machine({"level": "L", **fields})) == [code]


def test_one_table_for_the_list_of_nodes_is_told_in_both_notations() -> None:
    with pytest.raises(ArchError, match=r"PM112 machine: nodes is a table\n +Expected a list: \[\[nodes\]\] before"):
        arch_from_document({"nodes": DRAM})


def test_null_means_unlimited() -> None:
    arch = arch_from_document(machine({"level": "L", "capacity_bits": None, "bandwidth_bits_per_cycle": None}))
    assert arch.levels[1] == MemoryLevel("L")


def test_an_inner_level_dearer_than_an_outer_one_is_a_warning() -> None:
    outer = {"level": "A", "read_pj": 1, "write_pj": 1}
    inner = {"level": "B", "read_pj": 2, "write_pj": 1}
    arch = arch_from_document({"nodes": [{**DRAM, "read_pj": 9, "write_pj": 9}, outer, inner, MAC]})
    (warning,) = arch_warnings(arch)
    assert warning == "level 'B' is dearer than 'A' outside it: it reads at 2 pJ per 8-bit word, 'A' 1 per 8"


def test_dearer_is_judged_per_bit_and_only_where_a_tensor_could_pass() -> None:
    top = {**DRAM, "read_pj": 9, "write_pj": 9}
    wide = {"level": "A", "word_bits": 32, "read_pj": 4, "write_pj": 4, "holds": ["@output"]}
    same = {"level": "B", "word_bits": 8, "read_pj": 1, "write_pj": 1, "holds": ["@output"]}
    apart = {"level": "C", "word_bits": 8, "read_pj": 5, "write_pj": 5, "holds": ["@input"]}
    assert arch_warnings(arch_from_document({"nodes": [top, wide, same, apart, MAC]})) == ()
    named = {**apart, "holds": ["C"]}  # a tensor of any role
    assert len(arch_warnings(arch_from_document({"nodes": [top, wide, named, MAC]}))) == 1


def test_files_are_read_by_their_ending(tmp_path: Path) -> None:
    with pytest.raises(ArchError, match=r"PM312 there is no machine 'eyeris_like'\n +Did you mean 'eyeriss_like'\?"):
        load_arch("eyeris_like")
    with pytest.raises(InputError, match=r"^PM101 cannot read"):
        load_arch(tmp_path / "absent.json")
    (tmp_path / "m.json").write_text('{"nodes": [{"level": "DRAM"}, {"level": "DRAM"}]}')
    with pytest.raises(ArchError, match=r"PM304 .*m\.json"):
        load_arch(tmp_path / "m.json")


@pytest.mark.parametrize("field", ["in_turn", "held_cycles_per_bit"])
def test_a_field_that_no_document_says_is_not_dropped(field: str) -> None:
    """A machine with a field of bounds is refused: read back it would be another machine."""
    arch = load_arch("flat3")
    told = {"in_turn": replace(arch.levels[1], in_turn=True)}
    level = told.get(field, replace(arch.levels[1], held_cycles_per_bit=Fraction(1, 8)))
    nodes = tuple(level if node.name == level.name else node for node in arch.nodes)
    with pytest.raises(ArchError, match=field):
        arch_to_document(replace(arch, nodes=nodes))
