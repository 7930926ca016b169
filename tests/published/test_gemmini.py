"""Steps and beats of runs of Gemmini's RTL: ucb-bar/dosa a7a3239, data/firesim_*, run by ucb-bar/gemmini-rocc-tests
(branch dosa, 959b23f). More runs, and their cycles: benchmarks/gemmini.py. Tolerance: none.

Pointwise convolutions of 8-bit elements, channels last, on a bus of 16 bytes; tensors begin 8 bytes after a multiple
of 64. Every step loads its tiles of input and weights. Where the accelerator asks for neighbouring rows one by one, its
beats are more than those of contiguous runs: it loads 64 bytes of a row at once, in powers of two of beats.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

import polymap as pm
from polymap.ir import Compute, Mapping, Storage, Temporal

RUNS = (  # K, C, P = Q, tile, loops outermost first, steps, beats loaded per step
    (256, 64, 56, "K1 C64 P28 Q1", "Q56 K256 P2", 28672, 204),
    (256, 256, 56, "K8 C1 P14 Q7", "K32 Q8 P4 C256", 262144, 99),
    (256, 256, 56, "K1 C64 P56 Q14", "Q4 K256 C4", 4096, 3984),
    (256, 256, 56, "K1 C64 P8 Q28", "P7 K256 Q2 C4", 14336, 1184),
    (256, 256, 56, "K1 C64 P14 Q28", "P4 K256 Q2 C4", 8192, 2024),
)
ROW_BY_ROW = (  # likewise
    (512, 1024, 14, "K16 C1024 P1 Q2", "K32 P14 Q7", 3136, 2720),
    (256, 256, 56, "K16 C128 P14 Q1", "P4 Q56 C2 K16", 7168, 460),
    (256, 64, 56, "K8 C64 P28 Q8", "K32 Q7 P2", 448, 1184),
    (512, 1024, 14, "K16 C1024 P2 Q7", "P7 Q2 K32", 448, 3680),
)


@pytest.mark.parametrize(
    "commands, k, c, p, tile, loops, steps, beats",
    [*((None, *run) for run in RUNS), *((512, *run) for run in ROW_BY_ROW)],
)
def test_steps_and_beats_are_those_of_the_rtl(
    commands: int | None, k: int, c: int, p: int, tile: str, loops: str, steps: int, beats: int
) -> None:
    layer = pm.einsum("O[p,q,k] += I[p,q,c] * W[c,k]", p=p, q=p, k=k, c=c, bits=8)
    sizes = {word[0].lower(): int(word[1:]) for word in tile.split()}
    order = [word[0].lower() for word in loops.split()]
    nodes = (*(Temporal(dim, sizes[dim]) for dim in order), Storage("SPAD", ("I", "W")))
    mapping = Mapping((*nodes, *(Temporal(dim, 1) for dim in "pqkc"), Compute("S")))
    band = Fraction(128)  # so that a beat takes a cycle
    bus = pm.MemoryLevel("DRAM", bandwidth_bits_per_cycle=band, beat_bits=128, base_offset_bits=64)
    dram = replace(bus, request_bits=512, command_bits=commands)
    arch = pm.Architecture("bus", (dram, pm.MemoryLevel("SPAD", keeps=False), pm.ComputeUnit("MAC")))
    told = pm.evaluate(layer, arch, mapping).steps
    assert told is not None
    assert sum(each.steps for each in told.classes) == steps
    assert sum(each.steps * each.load_cycles for each in told.classes) == steps * beats
