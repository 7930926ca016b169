"""The presets have the published numbers, and say where each comes from."""

from __future__ import annotations

import pytest

from polymap.arch.document import arch_from_document, arch_to_document, arch_warnings
from polymap.arch.presets import load_arch, preset_names

# name -> per level (capacity in bits, read pJ per word), fan-out sizes, compute pJ
TABLE = {
    "cluster4": ([(None, 200), (4194304, 12), (131072, 3), (512, 0.5)], [4, 4, 4, 4], 1),
    "cpu_avx2": ([(None, 640), (268435456, 60), (4194304, 20), (262144, 5), (512, 0.2)], [8, 8], 4),
    "cpu_avx512": ([(None, 640), (503316480, 60), (10485760, 20), (393216, 5), (1024, 0.2)], [40, 16], 4),
    "cpu_neon": ([(None, 640), (268435456, 60), (8388608, 20), (524288, 5), (1024, 0.2)], [64, 4], 4),
    "eyeriss_like": ([(None, 200), (884736, 6), (192, 1), (3584, 1), (384, 1)], [12, 14], 1),
    "flat3": ([(None, 200), (1048576, 6), (4096, 1)], [16, 16], 1),
    "gemmini_like": ([(None, 200), (524288, 4), (2097152, 6), (8, 0.1), (None, 0.1)], [16, 16], 0.2),
    "simba_like": (
        [(None, 200), (524288, 6), (65536, 1.5), (262144, 2), (24576, 2.5), (64, 0.1)],
        [16, 8, 8],
        0.5,
    ),
    "simple3": ([(None, 200), (1048576, 6), (4096, 1)], [256], 1),
    "tpu_like": ([(None, 200), (201326592, 12), (33554432, 8), (16, 0.1)], [128, 128], 0.2),
    "tutorial3": ([(None, 640), (65536, 5), (32, 0.1), (32, 0.1), (32, 0.1)], [], 4.6),
}


def test_the_presets_are_these() -> None:
    assert preset_names() == tuple(sorted([*TABLE, "host_cpu"]))


@pytest.mark.parametrize("name", sorted(TABLE))
def test_presets_have_their_numbers(name: str) -> None:
    levels, fanouts, compute = TABLE[name]
    arch = load_arch(name)
    assert arch.name == name
    assert arch.source
    assert [(level.capacity_bits, float(level.read_pj)) for level in arch.levels] == levels
    assert [fanout.size for fanout in arch.fanouts] == fanouts
    assert float(arch.compute.pj) == compute


@pytest.mark.parametrize("name", [*sorted(TABLE), "host_cpu"])
def test_presets_are_without_warning_and_survive_writing(name: str) -> None:
    arch = load_arch(name)
    assert arch_warnings(arch) == ()
    assert arch_from_document(arch_to_document(arch)) == arch
