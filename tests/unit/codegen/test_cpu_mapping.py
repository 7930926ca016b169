"""The mapping of a processor's code: full vectors, sums in registers, legal and as fast as the model allows."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod

import pytest

from polymap import conv2d, einsum, evaluate, load_arch
from polymap.codegen.cpu_machine import cpu_machine, facts_of
from polymap.codegen.cpu_mapping import CpuChoice, _with_cores_outside, choose_cpu_mapping
from polymap.codegen.register_tiles import register_tiles
from polymap.inputs.host import HostFacts, host_architecture
from polymap.ir import ArchError, Architecture, Compute, Mapping, Spatial, Storage, Temporal, Workload
from tests.times import few

AVX512 = host_architecture(HostFacts("a", 2, (48 * 1024, 2**21, 2**25), 512, 32, fused_multiply_add=True, assumed=()))
AVX2 = host_architecture(HostFacts("b", 8, (32 * 1024, 2**19, 2**25), 256, 16, fused_multiply_add=True, assumed=()))
NEON = host_architecture(HostFacts("c", 4, (64 * 1024, 2**20, 2**25), 128, 32, fused_multiply_add=True, assumed=()))


def _tile(choice: CpuChoice, workload: Workload) -> dict[str, int]:
    """Return the indices per dim that one lane's innermost tile of the output in registers covers."""
    output = workload.statements[0].target.tensor
    tile, found = dict(choice.rounded.extents()), dict[str, int]()
    for node in choice.mapping.nodes:
        if isinstance(node, Temporal | Spatial):
            tile[node.dim] = min(tile[node.dim], node.tile)
        elif isinstance(node, Storage) and node.level == "REG" and output in node.tensors:
            found = dict(tile)
    return found


def _lanes(choice: CpuChoice, dim: str) -> int:
    tile, lanes = dict(choice.rounded.extents()), 1
    for node in choice.mapping.nodes:
        if isinstance(node, Temporal | Spatial):
            if isinstance(node, Spatial) and (node.fanout, node.dim) == ("lane", dim):
                lanes *= -(-tile[dim] // node.tile)
            tile[node.dim] = min(tile[node.dim], node.tile)
    return lanes


def _check(workload: Workload, arch: Architecture, vector: str, threads: int = 1) -> None:
    choice = choose_cpu_mapping(workload, arch, (vector,), threads=threads)
    assert choice is not None
    bits = workload.tensors[0].bits
    lanes = facts_of(arch).vector_bits // bits
    assert _lanes(choice, vector) == lanes
    own = {dim for index in workload.statements[0].target.index for dim in index.dims}
    tile = _tile(choice, workload)
    rounded = choice.rounded.extents()
    sums = prod(tile[dim] for dim in own)
    assert sums >= min(8, prod(rounded[dim] for dim in own) // lanes), choice.mapping
    assert sums <= facts_of(arch).registers
    assert sums == choice.tile.sums
    for dim, extent in workload.extents().items():
        assert extent <= rounded[dim] < max(2 * extent, extent + lanes)
    machine = cpu_machine(workload, arch, (vector,), threads, bits)
    assert evaluate(workload, machine, choice.mapping).violations == ()


@pytest.mark.parametrize("arch", [AVX512, AVX2, NEON], ids=lambda arch: str(facts_of(arch).vector_bits))
def test_products_and_layers_get_full_vectors_and_enough_sums(arch: Architecture) -> None:
    _check(einsum("C[m,n] += A[m,k] * B[k,n]", m=127, n=96, k=64, bits=32), arch, "n")
    _check(conv2d(K=64, C=3, H=15, W=15, R=3, S=3, padding=1, stride=2, bits=32), arch, "k")


@pytest.mark.slow
def test_loops_among_the_sums_of_a_tile_go_around_it() -> None:
    layer = conv2d(K=128, C=128, H=28, W=28, R=3, S=3, padding=1, bits=64)
    _check(layer, AVX512, "k")  # the search puts a loop over q between the lanes and the sums


def test_doubles_fill_half_as_many_lanes_and_threads_get_a_loop() -> None:
    _check(einsum("C[m,n] += A[m,k] * B[k,n]", m=64, n=64, k=32, bits=64), AVX512, "n", threads=2)


def _best(workload: Workload, arch: Architecture, vector: str) -> tuple[int, dict[str, int]]:
    facts = facts_of(arch)
    best = register_tiles(workload, facts, vector, facts.vector_bits // 32)[0]
    return best.slots, dict(best.sizes)


def test_register_tiles_are_those_that_hand_written_code_has() -> None:
    """Two vectors by 12 to 14 on AVX-512, three by four or two by six on AVX2 (Goto and van de Geijn 2008, BLIS)."""
    large = einsum("C[m,n] += A[m,k] * B[k,n]", m=2520, n=2304, k=512, bits=32)
    slots, sizes = _best(large, AVX512, "n")
    assert (slots, sizes["m"]) in {(2, 14), (2, 12), (3, 9), (3, 8)}
    slots, sizes = _best(large, AVX2, "n")
    assert (slots, sizes["m"]) in {(2, 6), (3, 4)}
    slots, sizes = _best(conv2d(K=64, C=64, H=28, W=28, R=3, S=3, padding=1, bits=32), AVX512, "k")
    assert (slots, sizes) == (2, {"q": 14})  # no remainder, unlike 9 x 3


def test_a_row_of_a_product_is_many_vectors_wide() -> None:
    slots, sizes = _best(einsum("C[n] += A[k] * B[k,n]", n=512, k=512, bits=32), AVX512, "n")
    assert slots >= 8
    assert not sizes


def test_rows_that_share_a_set_of_the_cache_are_not_read_together() -> None:
    """28,672 bytes between rows are a whole number of ways of 4 KiB: nine rows of one tile do not fit eight ways."""
    layer = conv2d(K=64, C=64, H=112, W=112, R=3, S=3, padding=1, groups=64, bits=32)
    facts = replace(facts_of(AVX512), way_bytes=4096)
    apart = {"g": 4, "p": 28_672, "q": 256, "r": 28_672, "s": 256}
    for row, dim in ((28_672, "q"), (28_672 + 256, None)):
        steps = {"I": {**apart, "p": row, "r": row}}
        best = register_tiles(layer, facts, "g", 16, steps)[0]
        assert dim is None or dict(best.sizes) == {dim: 7}
        found = {tile.sizes: tile.cycles for tile in register_tiles(layer, facts, "g", 16, steps) if tile.slots == 4}
        assert (found[(("p", 7),)] > found[(("q", 7),)]) == (row == 28_672)


def test_windows_whose_rows_evict_their_own_lines_cost_more_to_copy() -> None:
    """Of 30 pixels 14,336 bytes apart 15 share a set of eight ways; of those 512 or 14,848 bytes apart at most four."""
    layer = conv2d(K=128, C=128, H=28, W=28, R=3, S=3, padding=1, groups=32, bits=32)
    facts = replace(facts_of(AVX512), way_bytes=4096, ways=8, miss_cycles=9)
    cycles = dict[int, float]()
    for row in (14_336, 14_848):
        steps = {"I": {"g": 16, "c": 4, "p": row, "r": row, "q": 512, "s": 512}}
        down, along = (register_tiles(layer, facts, dim, 16, steps)[0].cycles for dim in ("p", "q"))
        assert (down > along) == (row == 14_336)
        cycles[row] = down
    assert cycles[14_336] - cycles[14_848] == 9 * 30 * 30 * 128, "each element of the window is read anew"


def test_the_taps_of_a_filter_stay_in_the_register_tile() -> None:
    layer = conv2d(K=16, C=16, H=56, W=56, R=3, S=3, stride=2, padding=1, groups=16, bits=32)
    choice = choose_cpu_mapping(layer, AVX512, ("g",))
    assert choice is not None
    tile = _tile(choice, layer)
    assert (tile["r"], tile["s"]) == (3, 3)


def test_sums_stay_in_registers_over_all_reductions_right_around_them() -> None:
    choice = choose_cpu_mapping(conv2d(K=128, C=128, H=28, W=28, R=3, S=3, padding=1, bits=32), AVX512, ("k",))
    assert choice is not None
    nodes = choice.mapping.nodes
    sums = next(at for at, node in enumerate(nodes) if isinstance(node, Storage) and node.level == "REG")
    around = [node for node in nodes[:sums] if isinstance(node, Temporal)]
    assert around[-1].dim in ("n", "k", "p", "q")


def test_a_matrix_read_once_is_read_some_rows_at_a_time() -> None:
    product = einsum("C[n] += A[k] * B[k,n]", n=512, k=512, bits=32)
    choice = choose_cpu_mapping(product, AVX512, ("n",))
    assert choice is not None
    loops = [(node.dim, node.tile) for node in choice.mapping.nodes if isinstance(node, Temporal)]
    assert loops[0] == ("k", 4)
    assert _tile(choice, product)["k"] == 4
    assert evaluate(product, cpu_machine(product, AVX512, ("n",), 1, 32), choice.mapping).violations == ()


def test_sums_that_lie_apart_in_memory_are_written_once() -> None:
    layer = conv2d(K=64, C=64, H=56, W=56, R=3, S=3, padding=1, bits=32)
    steps = {"O": {"k": 12_544, "p": 224, "q": 4}}
    choice = choose_cpu_mapping(layer, AVX512, ("k",), steps=steps)
    assert choice is not None
    tile = _tile(choice, layer)
    assert (tile["c"], tile["r"], tile["s"]) == (64, 3, 3)


def test_a_choice_is_the_same_every_time() -> None:
    layer = einsum("C[m,n] += A[m,k] * B[k,n]", m=100, n=60, k=40, bits=32)
    first, second = (choose_cpu_mapping(layer, AVX512, ("n",), threads=2) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.mapping == second.mapping
    assert first.threads == 2


@pytest.mark.soak
@pytest.mark.parametrize("seed", few(range(8), 4))
def test_random_products(seed: int) -> None:
    rng = random.Random(seed)
    m, n, k = (rng.choice((1, 3, 7, 16, 31, 100, 128, 509, 1000)) for _ in range(3))
    _check(einsum("C[m,n] += A[m,k] * B[k,n]", m=m, n=n, k=k, bits=32), rng.choice((AVX512, AVX2, NEON)), "n")


def test_a_machine_that_is_no_processor_is_named() -> None:
    with pytest.raises(ArchError, match="PM122 machine 'flat3' is no processor"):
        facts_of(load_arch("flat3"))


@pytest.mark.slow
def test_sums_are_stored_once_unless_moving_data_takes_longer() -> None:
    product = einsum("C[m,n] += A[m,k] * B[k,n]", m=112, n=512, k=1024, bits=32)
    choice = choose_cpu_mapping(product, AVX512, ("n",))
    assert choice is not None
    assert _tile(choice, product)["k"] == 1024
    assert choice.visits == 1
    beside, waited = choice.transfers
    assert choice.cycles == max(choice.tile.cycles, beside) + waited  # none is loaded again


def test_threads_start_as_seldom_as_the_loops_allow() -> None:
    """A channel of 14 x 14 takes less time than starting threads: these start once, not for each pair of channels."""
    layer = conv2d(K=512, C=512, H=14, W=14, R=3, S=3, padding=1, groups=512, bits=32)
    choice = choose_cpu_mapping(layer, AVX512, ("q",), threads=2)
    assert choice is not None
    nodes = [node for node in choice.mapping.nodes if isinstance(node, Temporal | Spatial)]
    assert isinstance(nodes[0], Spatial)
    assert nodes[0].fanout == "core"
    tiles = choice.tile.cycles / 2
    assert choice.cycles == max(tiles, choice.transfers[0]) + choice.transfers[1] + 6000
    assert evaluate(choice.rounded, choice.arch, choice.mapping).violations == ()


@pytest.mark.parametrize("seed", few(range(20), 12))
def test_a_loop_over_cores_comes_before_the_loops_right_around_it(seed: int) -> None:
    """Every core computes the same indices as before, in the same order."""
    rng = random.Random(seed)
    product = einsum("C[m,n] += A[m,k] * B[k,n]", m=24, n=32, k=4, bits=32)
    dim, left, nodes = rng.choice("mn"), {"m": 24, "n": 32}, list[Temporal | Spatial]()
    for _ in range(rng.randint(1, 4)):
        name = rng.choice("mn")
        left[name] = rng.choice([t for t in range(1, left[name] + 1) if left[name] % t == 0])
        nodes.append(Temporal(name, left[name]))
    if left[dim] % 2:
        return
    nodes += [Spatial(dim, left[dim] // 2, "core"), Temporal("m", 1), Temporal("n", 1), Temporal("k", 1)]
    before = Mapping((Storage("DRAM", ("C", "A", "B")), *nodes, Compute("S")))
    after = _with_cores_outside(before, product, "core")
    assert isinstance(after.nodes[1], Spatial)
    # Each core's work is a block of indices; which core has which block may change where a dim is dealt out itself.
    one, other = _work_of_cores(before), _work_of_cores(after)
    if all(node.dim != dim for node in nodes[: nodes.index(next(n for n in nodes if isinstance(n, Spatial)))]):
        assert one == other
    assert {index for each in one for index in each} == {index for each in other for index in each}
    assert [len(each) for each in one] == [len(each) for each in other]


def _work_of_cores(mapping: Mapping) -> list[list[tuple[int, int, int]]]:
    work: list[list[tuple[int, int, int]]] = [[], []]

    def walk(at: int, first: dict[str, int], size: dict[str, int], core: int) -> None:
        node = mapping.nodes[at]
        if isinstance(node, Temporal | Spatial):
            for number, start in enumerate(range(first[node.dim], first[node.dim] + size[node.dim], node.tile)):
                inner = {**size, node.dim: min(node.tile, size[node.dim])}
                walk(at + 1, {**first, node.dim: start}, inner, number if isinstance(node, Spatial) else core)
        elif isinstance(node, Compute):
            work[core].append((first["m"], first["n"], first["k"]))
        else:
            walk(at + 1, first, size, core)

    walk(0, {"m": 0, "n": 0, "k": 0}, {"m": 24, "n": 32, "k": 4}, 0)
    return work


@pytest.mark.parametrize(("size", "together", "vectors"), [(4096, 7, 4), (256, 4, 8)])
def test_one_row_reads_a_large_matrix_by_as_many_rows_as_leave_its_sums_a_way_of_the_cache(
    size: int, together: int, vectors: int
) -> None:
    """A small matrix, which the caches keep, is read in wide pieces of few rows."""
    work = einsum("C[m,n] += A[m,k] * B[k,n]", m=1, n=size, k=size, types="float32")
    steps = {"C": {"m": 4 * size, "n": 4}, "A": {"m": 4 * size, "k": 4}, "B": {"k": 4 * size, "n": 4}}
    choice = choose_cpu_mapping(work, AVX512, ("n",), steps=steps)
    assert choice is not None, "a product has a mapping"
    loops = [node for node in choice.mapping.nodes if isinstance(node, Temporal)]
    assert loops[0] == Temporal("k", together), "so many rows at a time"
    assert choice.tile.slots == vectors, "few vectors wide where the matrix is large"
    assert evaluate(choice.rounded, choice.arch, choice.mapping).legal, "the tree is one of the machine"


@pytest.mark.parametrize(("rows", "lanes", "together"), [(4, 2048, 4), (8, 4096, 8), (24, 4096, 16), (60, 4096, 0)])
def test_a_large_matrix_is_read_few_rows_at_a_time_where_few_tiles_read_it(
    rows: int, lanes: int, together: int
) -> None:
    """More rows where two tiles read them, or where the sums leave the first cache between two visits."""
    work = einsum("C[m,n] += A[m,k] * B[k,n]", m=rows, n=lanes, k=4096, types="float32")
    steps = {"C": {"m": 4 * lanes, "n": 4}, "A": {"m": 16384, "k": 4}, "B": {"k": 4 * lanes, "n": 4}}
    choice = choose_cpu_mapping(work, AVX512, ("n",), steps=steps)
    assert choice is not None, "a product has a mapping"
    loops = [node for node in choice.mapping.nodes if isinstance(node, Temporal)]
    assert (loops[0] == Temporal("k", together)) == bool(together), "the rows of B are on pages of their own"
    assert (choice.packed is not None) == bool(together), "panels lie side by side"
    assert evaluate(choice.rounded, choice.arch, choice.mapping).legal, "the tree is one of the machine"
