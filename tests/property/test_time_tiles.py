"""Compiled programs whose steps of time are tiled equal their texts bit for bit, and touch nothing but their arrays."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

import polymap as pm
from benchmarks.polybench_kernels import KERNELS
from polymap.codegen.programs import program_function
from polymap.codegen.source import TUNING, Core, choose
from polymap.ir import MemoryLevel
from tests.compiled_programs import sanitized_case
from tests.property.test_tiled_programs import check
from tests.times import few

TILES = "polymap.codegen.source.time_tiles"
STENCILS = ("jacobi-1d", "jacobi-2d", "heat-3d", "fdtd-2d")
SIZES = {"tsteps": 19, "tmax": 19, "n": 23, "nx": 21, "ny": 26}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polymap.codegen.programs.function.TUNING", TUNING._replace(parallel_instances=1))
    tuning = TUNING._replace(time_steps=3, time_tile_sizes=(5, 4, 2), time_tile_row_sizes=(11, 4))
    monkeypatch.setattr(f"{TILES}.TUNING", tuning)


def machine(cache_bytes: int) -> pm.Architecture:
    """A processor whose second cache has so many bytes."""
    arch = pm.load_arch("cpu_avx2")
    second = arch.levels[-3]
    smaller = (replace(each, capacity_bits=8 * cache_bytes) if each == second else each for each in arch.nodes)
    assert isinstance(second, MemoryLevel)
    return replace(arch, nodes=tuple(smaller))


def sizes_of(name: str) -> dict[str, int]:
    return {size: SIZES[size] for size in KERNELS[name][1]}


def is_tiled(fn: pm.CompiledFunction) -> bool:
    return "that stay in a cache" in fn.source


@pytest.mark.parametrize(
    ("name", "cache_bytes", "threads"),
    [
        ("jacobi-1d", 340, 1),
        ("jacobi-2d", 8200, 1),
        ("jacobi-2d", 2700, 3),
        ("heat-3d", 190_000, 1),
        ("heat-3d", 60_000, 3),
        ("heat-3d", 21_000, 1),
        ("heat-3d", 5000, 1),
        ("fdtd-2d", 10_000, 1),
        ("fdtd-2d", 3900, 3),
    ],
)
def test_stencils_are_their_texts_bit_for_bit(name: str, cache_bytes: int, threads: int, tmp_path: Path) -> None:
    assert is_tiled(check(KERNELS[name][0], sizes_of(name), tmp_path, 1, threads, machine(cache_bytes)))


@pytest.mark.parametrize("name", STENCILS)
def test_stencils_that_stay_in_the_cache_are_left_alone(name: str) -> None:
    chosen = choose(pm.from_c(KERNELS[name][0], sizes_of(name)), Core(256, 16, 10**9))
    assert not any("that stay in a cache" in each for each in chosen.changes)


def test_cores_take_tiles_of_different_steps_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads meet after a wave of tiles, not after every sweep of a tile's rows."""
    monkeypatch.setattr("polymap.codegen.programs.function.TUNING", TUNING._replace(parallel_instances=2**14))
    tuning = TUNING._replace(time_steps=8, time_tile_sizes=(5, 4, 2), time_tile_row_sizes=(11, 4))
    monkeypatch.setattr(f"{TILES}.TUNING", tuning)
    sizes = {"tsteps": 100, "n": 700}
    workload = pm.from_c(KERNELS["jacobi-2d"][0], sizes)
    chosen = choose(workload, Core(256, 16, 200_000), threads=2)
    text = program_function(chosen.workload, chosen.schedule, name="f", threads=2).text
    assert text.index("for (long c1") < text.index("#pragma omp") < text.index("for (long c2")


@pytest.mark.soak
@pytest.mark.parametrize("name", STENCILS)
def test_tiles_of_time_stay_inside_their_arrays(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.compiled_programs.CORE", Core(256, 16, 3000))
    for threads in (1, 3):
        sanitized_case(pm.from_c(KERNELS[name][0], sizes_of(name)), f"kernel{threads}", threads, tmp_path)


def random_stencil(rng: random.Random) -> str:
    """Return a C function of one to three sweeps in a loop over time: reads some elements away, in place or not,
    borders set from a series, triangles, loops around and beside."""
    rank = rng.randint(1, 3)
    kind, edge = rng.choice(["double", "float", "unsigned"]), rng.randint(1, 2)
    dims = "ijk"[:rank]
    arrays = "ABC"[: rng.randint(1, 3)]
    sweeps: list[str] = []
    for _ in range(rng.choice([1, 1, 2, 3])):
        target = rng.choice(arrays)
        where = "".join(f"[{dim}]" for dim in dims)
        reads = [
            rng.choice(arrays) + "".join(f"[{dim}{rng.randint(-edge, edge):+d}]" for dim in dims)
            for _ in range(rng.randint(1, 4))
        ]
        series = rng.choice(["", "", "", " + S[t]", " - T[i]"])
        bounds = [f"for (int {dim} = {edge}; {dim} < n - {edge}; {dim}++) " for dim in dims]
        if rank > 1 and rng.random() < 0.2:
            bounds[1] = f"for (int j = {edge}; j <= i; j++) "
        if rng.random() < 0.15:
            bounds[0] = f"for (int i = {edge}; i < n - {edge}; i += {rng.randint(2, 3)}) "
        if rng.random() < 0.15:
            bounds.append(f"if (({dims[-1]} + t) % {rng.randint(2, 3)} == 0) ")
        sign = rng.choice(["=", "=", "+=", "-="])
        sweeps.append(f"{' '.join(bounds)}{target}{where} {sign} {' + '.join(reads)}{series};")
    if rank == 2 and rng.random() < 0.3:
        sweeps.insert(rng.randint(0, len(sweeps)), f"for (int q = 0; q < n; q++) {arrays[0]}[0][q] = S[t];")
    after = rng.choice(["", "", f"for (int p = 1; p < n; p++) T[p] += {arrays[0]}{'[p]' * rank};"])
    body = " ".join(sweeps)
    params = ", ".join(f"{kind} {array}{'[n]' * rank}" for array in arrays)
    head = f"void f(int n, int m, {params}, {kind} S[m], {kind} T[n])"
    return f"{head} {{ for (int t = 0; t < m; t++) {{ {body} }} {after} }}"


def random_case(seed: int, where: Path) -> bool:
    """Check a random stencil; return whether it was tiled."""
    rng = random.Random(seed)
    text, sizes = random_stencil(rng), {"n": rng.randint(9, 29), "m": rng.choice([1, 5, 6, 7, 13, 19])}
    swept = sum(tensor.bits * prod(tensor.shape) // 8 for tensor in pm.from_c(text, sizes).tensors)
    arch = machine(int(swept * rng.choice([0.3, 0.6, 0.9])))
    return is_tiled(check(text, sizes, where, seed, rng.choice([1, 1, 3]), arch))


@pytest.mark.parametrize("seed", few(range(12), 3))
def test_random_stencils_are_their_texts_bit_for_bit(seed: int, tmp_path: Path) -> None:
    random_case(seed, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("batch", range(10))
@pytest.mark.parametrize("cc", ["gcc", "clang"])
def test_many_random_stencils(batch: int, cc: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", cc)
    tiled = 0
    for seed in range(100 + 30 * batch, 130 + 30 * batch):
        where = tmp_path / str(seed)
        where.mkdir()
        tiled += random_case(seed, where)
    assert tiled > 3
