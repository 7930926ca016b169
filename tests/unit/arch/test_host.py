"""`host_cpu` follows what the host tells, and says what it assumed."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from polymap.inputs.host import host_architecture, host_cpu, read_host
from polymap.ir.machine import FanoutKind, Multicast


def write_host(root: Path, flags: str, caches: list[tuple[int, str, str]], processors: int) -> Path:
    cpuinfo = "".join(f"processor\t: {i}\nmodel name\t: Toy 9\nflags\t\t: {flags}\n\n" for i in range(processors))
    (root / "proc").mkdir(parents=True)
    (root / "proc/cpuinfo").write_text(cpuinfo)
    for index, (level, kind, size) in enumerate(caches):
        folder = root / f"sys/devices/system/cpu/cpu0/cache/index{index}"
        folder.mkdir(parents=True)
        told = {"level": str(level), "type": kind, "size": size, "ways_of_associativity": str(10 + level)}
        for name, value in (*told.items(), ("coherency_line_size", "128")):
            (folder / name).write_text(value + "\n")
    return root


def test_a_wide_host_is_read_as_it_is(tmp_path: Path) -> None:
    caches = [(1, "Data", "48K"), (1, "Instruction", "32K"), (2, "Unified", "1M"), (3, "Unified", "32768K")]
    facts = read_host(write_host(tmp_path, "sse2 avx2 fma avx512f", caches, processors=4))
    assert facts.cache_bytes == (48 * 1024, 1024 * 1024, 32 * 1024 * 1024)
    assert (facts.vector_bits, facts.vector_registers, facts.processors) == (512, 32, 4)
    assert facts.assumed == ()
    arch = host_architecture(facts)
    assert [one.kind for one in arch.fanouts] == [FanoutKind.CORE, FanoutKind.LANE]
    assert [node.name for node in arch.nodes] == ["DRAM", "L3", "core", "L2", "L1", "lane", "REG", "FMA"]
    assert [fanout.size for fanout in arch.fanouts] == [4, 16]
    assert arch.fanouts[0].multicast is Multicast.NONE
    assert [level.capacity_bits for level in arch.levels] == [None, 2**28, 2**23, 48 * 2**13, 32 * 32]
    assert (arch.compute.per_cycle, arch.compute.latency_cycles) == (2, 4)
    caches_told = [(level.line_bits, level.ways) for level in arch.levels if level.implicit]
    assert caches_told == [(1024, 13), (1024, 12), (1024, 11)]
    assert "Toy 9: 4 processors, L1 48 KiB" in arch.source
    assert "energies" in arch.source.partition("assumed:")[2]


def test_a_silent_host_is_assumed_and_said_so(tmp_path: Path) -> None:
    facts = read_host(tmp_path)
    assert facts.assumed == ("L1 size", "L2 size", "L3 size", "lines and ways of caches", "processors", "vector width")
    assert (facts.vector_bits, facts.vector_registers, facts.processors) == (128, 16, 1)
    source = host_architecture(facts).source
    told = (
        "not told by the host, assumed: L1 size, L2 size, L3 size, lines and ways of caches, processors, vector width"
    )
    assert told in source


def test_vectors_of_256_bits_have_16_registers(tmp_path: Path) -> None:
    facts = read_host(write_host(tmp_path, "sse2 avx avx2", [], processors=1))
    assert (facts.vector_bits, facts.vector_registers, facts.fused_multiply_add) == (256, 16, False)
    assert host_architecture(facts).compute.per_cycle == 1


@pytest.mark.parametrize(
    ("vendor", "family", "model", "flags", "pipes"),
    [
        ("AuthenticAMD", "25", "17", "avx2 fma avx512f", 1),  # Zen 4: vectors of 512 bits in two halves
        ("AuthenticAMD", "26", "2", "avx2 fma avx512f", 2),  # Zen 5
        ("AuthenticAMD", "25", "1", "avx2 fma", 2),  # Zen 3
        ("AuthenticAMD", "23", "1", "avx2 fma", 1),  # Zen
        ("AuthenticAMD", "23", "49", "avx2 fma", 2),  # Zen 2
        ("GenuineIntel", "6", "106", "avx2 fma avx512f", 2),
        ("GenuineIntel", "25", "17", "avx2 avx512f", 1),
    ],
)
def test_units_narrower_than_vectors_take_them_in_parts(
    tmp_path: Path, vendor: str, family: str, model: str, flags: str, pipes: int
) -> None:
    write_host(tmp_path, flags, [], processors=1)
    info = tmp_path / "proc/cpuinfo"
    info.write_text(f"vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n" + info.read_text())
    facts = read_host(tmp_path)
    arch = host_architecture(facts)
    assert arch.compute.per_cycle == pipes
    whole = facts.vector_bits if pipes == 2 or "fma" not in flags else facts.vector_bits // 2
    reads, writes = arch.levels[-2].read_bandwidth_bits_per_cycle, arch.levels[-2].write_bandwidth_bits_per_cycle
    assert (reads, writes) == (2 * whole, whole)


def test_this_host_is_a_machine() -> None:
    arch = host_cpu()
    assert arch.levels[0].capacity_bits is None
    assert all(level.capacity_bits for level in arch.levels[1:])
    assert arch.levels[0].read_pj == Fraction(640)
