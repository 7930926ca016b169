"""Random cases of what general draws meet too rarely: long ragged chains over one dim, windows in outputs, bandwidths.

case = chain_case(random.Random(seed))
case = output_window_case(random.Random(seed))
"""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

from polymap.arch.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.schedules.mapping import Compute, Mapping, Spatial, Storage, Temporal
from polymap.workload.einsum import einsum
from polymap.workload.loopnest import Workload
from tests import cases
from tests.cases import Case

Ranges = dict[str, tuple[int, int]]

CHAINS: tuple[tuple[str, Ranges], ...] = (
    ("S += A[r]", {"r": (9, 30)}),
    ("S += A[r] * B[k]", {"r": (6, 14), "k": (2, 6)}),
    ("O[m] += A[m,r]", {"m": (2, 6), "r": (6, 16)}),
    ("O[m] += A[r] * B[m,c]", {"m": (2, 4), "r": (4, 9), "c": (3, 7)}),
)
OUTPUT_WINDOWS: tuple[tuple[str, Ranges], ...] = (
    ("O[2*p+q] += W[q,r]", {"p": (2, 5), "q": (2, 5), "r": (2, 6)}),
    ("O[p+q] += A[p,r] * W[q,r]", {"p": (2, 6), "q": (2, 5), "r": (2, 5)}),
    ("O[2*p+q,m] += I[p,c] * W[q,c,m]", {"p": (2, 4), "q": (2, 3), "c": (2, 5), "m": (2, 4)}),
    ("O[3*p+q] += W[q,r]", {"p": (2, 5), "q": (2, 6), "r": (2, 6)}),
    ("O[k,2*p+r] += I[c,p] * W[k,c,r]", {"k": (2, 4), "p": (2, 5), "c": (2, 4), "r": (2, 4)}),
    ("O[2*p+r,2*q+s] += I[p,q] * W[r,s]", {"p": (2, 4), "q": (2, 4), "r": (2, 4), "s": (2, 4)}),
)


def chain_case(rng: random.Random) -> Case:
    """Return an accumulation whose dims have one to five loops each, most of their tiles partial."""
    return _case(rng, CHAINS)


def output_window_case(rng: random.Random) -> Case:
    """Return an accumulation into a window, of all-distinct elements or of overlapping ones."""
    return _case(rng, OUTPUT_WINDOWS)


def _case(rng: random.Random, texts: tuple[tuple[str, Ranges], ...]) -> Case:
    text, ranges = rng.choice(texts)
    workload = einsum(text, **{dim: rng.randrange(*each) for dim, each in ranges.items()})
    if rng.random() < 0.4:
        workload = _initial(workload)
    arch = _machine(rng)
    extents = workload.extents()
    tiles = {dim: _ragged(rng, extent, rng.choice((1, 2, 3, 4, 5))) for dim, extent in extents.items()}
    loops = cases._loops(rng, workload, arch, tuple(extents), spreadable=frozenset(extents), tiles=tiles)
    if rng.random() < 0.4:
        loops = _innermost_spread(rng, arch, loops)
    nodes = (*cases._placed(rng, arch, loops, cases._held(rng, workload, arch)), Compute("S"))
    return cases._finished(rng, workload, arch, Mapping(nodes))


def _initial(workload: Workload) -> Workload:
    target = workload.statements[0].target.tensor
    return replace(workload, tensors=tuple(replace(each, initial=each.name == target) for each in workload.tensors))


def _machine(rng: random.Random) -> Architecture:
    """Return a random machine with a fan-out, half the time with a bandwidth at every level."""
    arch = cases.random_machine(rng)
    while not arch.fanouts:
        arch = cases.random_machine(rng)
    if rng.random() < 0.5:
        return arch
    slow = Fraction(1, 9)
    return replace(
        arch,
        nodes=tuple(
            replace(node, bandwidth_bits_per_cycle=slow) if isinstance(node, MemoryLevel) else node
            for node in arch.nodes
        ),
    )


def _ragged(rng: random.Random, extent: int, loops: int) -> list[int]:
    """Return the tiles of up to so many loops, of any size, the last one 1."""
    tiles: list[int] = []
    enclosing = extent
    while enclosing > 2 and len(tiles) + 1 < loops:
        enclosing = rng.randrange(2, enclosing)
        tiles.append(enclosing)
    return [*tiles, 1]


def _innermost_spread(rng: random.Random, arch: Architecture, loops: list[cases.Loop]) -> list[cases.Loop]:
    """Return the loops with the innermost one of each dim spatial, the others temporal."""
    last = {loop.dim: number for number, loop in enumerate(loops)}
    return [
        Spatial(loop.dim, loop.tile, rng.choice(arch.fanouts).name)
        if last[loop.dim] == number
        else Temporal(loop.dim, loop.tile)
        for number, loop in enumerate(loops)
    ]


def tower_case(rng: random.Random) -> Case:
    """Return a sum held below ragged loops over two dims, siblings innermost: they idle and come back often."""
    workload = einsum("S += A[r] * B[k]", r=rng.randrange(6, 16), k=rng.randrange(2, 6))
    if rng.random() < 0.3:
        workload = _initial(workload)
    slow = Fraction(1, 9)
    fanouts = (Fanout("X", 1, reduction=rng.random() < 0.5), Fanout("Y", 1, reduction=rng.random() < 0.5))
    levels = [MemoryLevel(name, bandwidth_bits_per_cycle=slow) for name in ("DRAM", "RF")]
    arch = Architecture("tower", (levels[0], *fanouts, levels[1], ComputeUnit("MAC")))
    spread = {"r": Spatial("r", rng.choice((1, 1, 2)), "X"), "k": Spatial("k", 1, rng.choice("XY"))}
    chains = {
        "r": [Temporal("r", tile) for tile in _ragged(rng, workload.extents()["r"], 5)[:-1]],
        "k": [Temporal("k", tile) for tile in _ragged(rng, workload.extents()["k"], rng.choice((2, 3)))[:-1]],
    }
    if rng.random() < 0.5:
        chains["k"].append(Temporal("k", 1))
    loops: list[cases.Loop] = []
    while any(chains.values()):
        loops.append(chains[rng.choice([dim for dim, chain in chains.items() for _ in chain])].pop(0))
    inner = [loop for loop in (spread["r"], spread["k"]) if not any(each == Temporal(loop.dim, 1) for each in loops)]
    nodes = (*loops, *inner, Storage("RF", ("S",)), Temporal("r", 1), Compute("S"))
    return cases._finished(rng, workload, arch, Mapping(nodes))
