"""The presets have the published numbers, and say where each comes from."""

from __future__ import annotations

from math import prod

import pytest

from polymap.explore import explore
from polymap.inputs.machines import arch_from_document, arch_to_document, arch_warnings
from polymap.inputs.presets import load_arch, preset_names
from polymap.workload import einsum

# name -> per level (capacity in bits, read pJ per word), fan-out sizes, compute pJ
TABLE = {
    "a100": ([(None, 0), (335544320, 0), (1335296, 0), (524288, 0)], [108, 4], 0),
    "cluster4": ([(None, 200), (4194304, 12), (131072, 3), (512, 0.5)], [4, 4, 4, 4], 1),
    "cpu_avx2": ([(None, 640), (268435456, 60), (4194304, 20), (262144, 5), (512, 0.2)], [8, 8], 4),
    "cpu_avx512": ([(None, 640), (503316480, 60), (10485760, 20), (393216, 5), (1024, 0.2)], [40, 16], 4),
    "cpu_neon": ([(None, 640), (268435456, 60), (8388608, 20), (524288, 5), (1024, 0.2)], [64, 4], 4),
    "eyeriss_like": ([(None, 200), (884736, 6), (192, 1), (3584, 1), (384, 1)], [12, 14], 1),
    "flat3": ([(None, 200), (1048576, 6), (4096, 1)], [16, 16], 1),
    "gemmini_like": ([(None, 200), (524288, 4), (2097152, 6), (8, 0.1), (None, 0.1)], [16, 16], 0.2),
    "h100": ([(None, 0), (419430400, 0), (1859584, 0), (524288, 0)], [132, 4], 0),
    "simba_like": (
        [(None, 200), (524288, 6), (65536, 1.5), (262144, 2), (24576, 2.5), (64, 0.1)],
        [16, 8, 8],
        0.5,
    ),
    "simple3": ([(None, 200), (1048576, 6), (4096, 1)], [256], 1),
    "t4": ([(None, 0), (33554432, 0), (524288, 0), (262144, 0)], [40, 8], 0),
    "tpu_like": ([(None, 200), (201326592, 12), (33554432, 8), (16, 0.1)], [128, 128], 0.2),
    "tpu_v4i_like": ([(None, 56.24), (1073741824, 15.04), (134217728, 1.992), (16, 0)], [4, 128, 128], 0.084),
    "v100": ([(None, 0), (50331648, 0), (786432, 0), (262144, 0)], [80, 8], 0),
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


# name -> peak of 16-bit tensor cores in TFLOPS, memory in GB/s, boost clock in MHz, of the data sheets
SHEETS = {"v100": (125, 900, 1530), "a100": (312, 1555, 1410), "h100": (989, 3352, 1830), "t4": (65, 320, 1590)}


@pytest.mark.parametrize("name", sorted(SHEETS))
def test_gpus_have_the_peaks_and_ridge_points_of_their_data_sheets(name: str) -> None:
    arch, (peak, memory, mhz) = load_arch(name), SHEETS[name]
    flops = 2 * arch.compute.per_cycle * prod(fanout.size for fanout in arch.fanouts)
    assert flops * mhz / 1e6 == pytest.approx(peak, rel=0.005), "TFLOPS"
    band = arch.levels[0].bandwidth_bits_per_cycle
    assert band is not None, "a memory has a bandwidth"
    assert float(flops * 8 / band) == pytest.approx(peak * 1e3 / memory, rel=0.005), "FLOP per byte"


def test_tpu_v4i_like_has_the_peaks_of_the_paper() -> None:
    """Jouppi et al., ISCA 2021, Table 1: 138 TFLOPS, 614 GB/s, 1050 MHz."""
    arch = load_arch("tpu_v4i_like")
    flops = 2 * arch.compute.per_cycle * prod(fanout.size for fanout in arch.fanouts)
    assert flops * 1050e6 == pytest.approx(138e12, rel=0.005), "FLOPS"
    assert float(arch.levels[0].bandwidth_bits_per_cycle or 0) * 1050e6 / 8 == pytest.approx(614e9, rel=0.001), (
        "bytes/s"
    )


def test_a_product_on_a_gpu_is_proven_and_a_part_of_a_wave_takes_a_whole_one() -> None:
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=1024, n=1024, k=1024, bits=16)
    found = explore(workload, "v100", "latency", tiles="divide")
    assert (found.status, found.value) == ("OPTIMAL", 1024**3 // (64 * 8 * 64)), "64 of 80 SMs divide the product"
    assert explore(workload, "v100", "bursts:HBM", tiles="divide", work_limit=1).bound == 3 * 1024**2 // 16, "sectors"
