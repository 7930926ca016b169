"""Machines as text."""

from __future__ import annotations

from collections.abc import Callable

from polymap.inputs.machines import arch_from_document
from polymap.inputs.presets import load_arch
from polymap.report.figures.machine import machine_rows, machine_text


def test_the_text(golden: Callable[[str, str], None]) -> None:
    odd = arch_from_document(
        {
            "name": "odd",
            "overlap": False,
            "nodes": [
                {"level": "DRAM", "read_bandwidth_bits_per_cycle": 64, "write_bandwidth_bits_per_cycle": 32},
                {"fanout": "P", "size": 3, "multicast": "none", "reduction": False, "dims": ["k", "c"]},
                {"level": "L", "capacity_bits": 100, "buffering": 2, "holds": [], "must_hold": ["@input"]},
                {"compute": "ALU", "per_cycle": 4},
            ],
        }
    )
    golden("report/machines.txt", "\n\n".join((machine_text(load_arch("simba_like")), machine_text(odd))) + "\n")


def test_instances_multiply_down_the_machine() -> None:
    rows = machine_rows(load_arch("simba_like"))
    assert [(row.node.name, row.instances) for row in rows][-4:] == [
        ("VK", 128),
        ("VC", 1024),
        ("WREG", 1024),
        ("MAC", 1024),
    ]
