"""The preset `host_cpu`: the processor that runs this program, described like any other machine.

DRAM, L3, a fan-out over cores, L2, L1, a fan-out over vector lanes of 32 bits, and the vector registers as the
innermost level. What the operating system reports (cache sizes, processors, vector width, fused multiply-add) is read;
energies, bandwidths and issue width are assumed. The machine's `source` lists both.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

from polymap.inputs.tuning import TUNING
from polymap.ir import Architecture, ComputeUnit, Fanout, FanoutKind, MemoryLevel, Multicast

LANE_BITS = 32
ASSUMED_CACHE_BYTES: Mapping[int, int] = {1: 32 * 1024, 2: 512 * 1024, 3: 8 * 1024 * 1024}
# Picojoules per 32-bit word: the usual ladder of a factor of 5 to 10 per level (Horowitz, ISSCC 2014, rounded).
ASSUMED_PJ = {"DRAM": 640, "L3": 60, "L2": 20, "L1": 5, "REG": Fraction(1, 5)}
ASSUMED_WAYS: Mapping[int, int] = {1: 8, 2: 8, 3: 16}
_SYSCONF = {1: "SC_LEVEL1_DCACHE_SIZE", 2: "SC_LEVEL2_CACHE_SIZE", 3: "SC_LEVEL3_CACHE_SIZE"}


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts about the host. cache_bytes and cache_ways: of levels 1 to 3, data or unified; line_bytes: of the first;
    unit_bits: of the vector units (0: as wide as vectors), which take a wider vector in parts; assumed: facts that it
    does not report."""

    model: str
    processors: int
    cache_bytes: tuple[int, int, int]
    vector_bits: int
    vector_registers: int
    fused_multiply_add: bool
    assumed: tuple[str, ...]
    cache_ways: tuple[int, int, int] = (ASSUMED_WAYS[1], ASSUMED_WAYS[2], ASSUMED_WAYS[3])
    line_bytes: int = TUNING.line_bytes
    unit_bits: int = 0


def host_cpu() -> Architecture:
    """Return the host as an architecture named `host_cpu`."""
    return host_architecture(read_host())


def read_host(root: Path = Path("/")) -> HostFacts:
    """Return the facts of the host, from the files below `root` (/proc/cpuinfo and /sys/devices/system/cpu).

    sysconf and the scheduler's affinity are used only if `root` is the real one.
    """
    real = root == Path("/")
    info = _cpuinfo(root / "proc/cpuinfo")
    caches = _caches(root / "sys/devices/system/cpu/cpu0/cache")
    assumed: list[str] = []
    sizes: list[int] = []
    for level, fallback in ASSUMED_CACHE_BYTES.items():
        size = caches[level].size if level in caches else _sysconf(_SYSCONF[level]) if real else 0
        if not size:
            assumed.append(f"L{level} size")
        sizes.append(size or fallback)
    ways = [caches[level].ways if level in caches else 0 for level in ASSUMED_WAYS]
    line = caches[1].line if 1 in caches else 0
    if not all((*ways, line)):
        assumed.append("lines and ways of caches")
    processors = _processors() if real else info.count
    if not processors:
        assumed.append("processors")
    if not info.flags:
        assumed.append("vector width")
    bits, registers = _vectors(info.flags, info.machine or (platform.machine() if real else ""))
    return HostFacts(
        model=info.model or "unknown processor",
        processors=processors or 1,
        cache_bytes=(sizes[0], sizes[1], sizes[2]),
        vector_bits=bits,
        vector_registers=registers,
        fused_multiply_add=bool(info.flags & {"fma", "fma4", "asimd"}),
        assumed=tuple(assumed),
        cache_ways=(ways[0] or ASSUMED_WAYS[1], ways[1] or ASSUMED_WAYS[2], ways[2] or ASSUMED_WAYS[3]),
        line_bytes=line or TUNING.line_bytes,
        unit_bits=_unit_bits(info, bits),
    )


def host_architecture(facts: HostFacts) -> Architecture:
    """Return the machine that the facts describe. Nothing is added across cores or lanes, and a broadcast to the lanes
    takes as much of the first cache's bandwidth as a vector does: every lane reads for itself."""
    first, second, third = (8 * size for size in facts.cache_bytes)
    unit_bits = facts.unit_bits or facts.vector_bits
    pipes = _pipes(facts)
    energies = {name: Fraction(value) for name, value in ASSUMED_PJ.items()}

    def level(name: str, capacity: int | None, bandwidth: int | None, ways: int | None = None) -> MemoryLevel:
        return MemoryLevel(
            name=name,
            capacity_bits=capacity,
            word_bits=LANE_BITS,
            read_pj=energies[name],
            write_pj=energies[name],
            bandwidth_bits_per_cycle=None if bandwidth is None else Fraction(bandwidth),
            implicit=ways is not None,
            line_bits=None if ways is None else 8 * facts.line_bytes,
            ways=ways,
        )

    return Architecture(
        name="host_cpu",
        nodes=(
            level("DRAM", None, TUNING.dram_bits_per_cycle),
            level("L3", third, TUNING.l3_bits_per_cycle_and_core * facts.processors, facts.cache_ways[2]),
            Fanout(
                "core",
                facts.processors,
                Multicast.NONE,
                reduction=False,
                kind=FanoutKind.CORE,
                start_cycles=Fraction(TUNING.start_cycles),
            ),
            level("L2", second, TUNING.l2_bits_per_cycle, facts.cache_ways[1]),
            replace(
                level("L1", first, None, facts.cache_ways[0]),
                read_bandwidth_bits_per_cycle=Fraction(2 * unit_bits),
                write_bandwidth_bits_per_cycle=Fraction(unit_bits),
                miss_cycles=Fraction(TUNING.miss_cycles),
            ),
            Fanout("lane", facts.vector_bits // LANE_BITS, Multicast.NONE, reduction=False, kind=FanoutKind.LANE),
            level("REG", facts.vector_registers * LANE_BITS, None),
            ComputeUnit("FMA", Fraction(TUNING.fma_pj), pipes, TUNING.fma_latency_cycles),
        ),
        source=_source(facts),
    )


def _pipes(facts: HostFacts) -> int:
    """Return how many vectors are multiplied and added per cycle: by two units, where they have as many bits."""
    units = 2 if facts.fused_multiply_add else 1
    return max(1, units * (facts.unit_bits or facts.vector_bits) // facts.vector_bits)


def _source(facts: HostFacts) -> str:
    read = (
        f"{facts.model}: {facts.processors} processors, L1 {facts.cache_bytes[0] // 1024} KiB, "
        f"L2 {facts.cache_bytes[1] // 1024} KiB, L3 {facts.cache_bytes[2] // 1024} KiB, "
        f"{facts.vector_registers} vector registers of {facts.vector_bits} bits, lines of {facts.line_bytes} bytes, "
        f"L1 to L3 of {facts.cache_ways[0]}, {facts.cache_ways[1]} and {facts.cache_ways[2]} ways"
    )
    if facts.unit_bits:
        read += f", vector units of {facts.unit_bits} bits (by its family)"
    unread = (
        f" (not told by the host, assumed: {', '.join(facts.assumed)})" if facts.assumed else ", read from the host"
    )
    return (
        f"{read}{unread}; assumed: energies per 32-bit word (DRAM 640, L3 60, L2 20, L1 5, register 0.2 pJ, "
        f"multiply-add 4 pJ), bits per cycle (DRAM {TUNING.dram_bits_per_cycle}, "
        f"L3 {TUNING.l3_bits_per_cycle_and_core} per core, L2 {TUNING.l2_bits_per_cycle}, "
        f"L1 two loads and a store of its vector units), {_pipes(facts)} vector "
        f"multiply-adds per cycle, of {TUNING.fma_latency_cycles} cycles' latency, {TUNING.miss_cycles} cycles beyond "
        f"bandwidth for a line evicted from L1, {TUNING.start_cycles} cycles to start threads"
    )


@dataclass(frozen=True, slots=True)
class _CpuInfo:
    model: str
    machine: str
    count: int
    flags: frozenset[str]
    family: tuple[str, str, str] = ("", "", "")


def _cpuinfo(path: Path) -> _CpuInfo:
    model, flags, count = "", frozenset[str](), 0
    family = dict.fromkeys(("vendor_id", "cpu family", "model"), "")
    for line in _read(path).splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key in family and not family[key]:
            family[key] = value
        if key == "processor":
            count += 1
        elif key == "model name" and not model:
            model = "".join(c for c in value if c.isprintable())[:80]
        elif key in ("flags", "Features") and not flags:
            flags = frozenset(value.split())
    return _CpuInfo(
        model,
        "aarch64" if "asimd" in flags else "",
        count,
        flags,
        (family["vendor_id"], family["cpu family"], family["model"]),
    )


@dataclass(frozen=True, slots=True)
class _Cache:
    """Bytes, lines of a set, and bytes of a line; 0 where the host does not say."""

    size: int
    ways: int
    line: int


def _caches(folder: Path) -> dict[int, _Cache]:
    """Return cache level -> the first processor's data or unified cache."""
    found: dict[int, _Cache] = {}
    for index in sorted(folder.glob("index*")):
        kind, level, size = (_read(index / name).strip() for name in ("type", "level", "size"))
        number = size.rstrip("KMG")
        if kind in ("Data", "Unified") and level.isdecimal() and number.isdecimal():
            size_bytes = int(number) * {"K": 2**10, "M": 2**20, "G": 2**30}.get(size[-1:], 1)
            others = (_read(index / name).strip() for name in ("ways_of_associativity", "coherency_line_size"))
            ways, line = (int(text) if text.isdecimal() else 0 for text in others)
            found[int(level)] = _Cache(size_bytes, ways, line)
    return {level: cache for level, cache in found.items() if cache.size}


def _vectors(flags: frozenset[str], machine: str) -> tuple[int, int]:
    """Return width in bits and number of the vector registers; by default 16 of 128 bits."""
    if "avx512f" in flags:
        return 512, 32
    if flags & {"avx2", "avx"}:
        return 256, 16
    return (128, 32) if machine in ("aarch64", "arm64") else (128, 16)


def _unit_bits(info: _CpuInfo, vector_bits: int) -> int:
    """Return how many bits the vector units have where they take vectors in parts, else 0: 256 in Zen 4 (AMD, Software
    Optimization Guide 57647, section 2.11), 128 in Zen and Zen+ (55723)."""
    vendor, family, model = info.family
    if vendor != "AuthenticAMD":
        return 0
    if family == "25" and vector_bits == 512:
        return 256
    is_first = family == "23" and model.isdecimal() and int(model) < 0x30
    return 128 if is_first and vector_bits == 256 else 0


def _processors() -> int:
    """Return how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 0


def _sysconf(name: str) -> int:
    try:
        return max(0, os.sysconf(name))
    except (ValueError, OSError, AttributeError):
        return 0  # not known on this system


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
