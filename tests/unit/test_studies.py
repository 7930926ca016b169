"""The ski slope: its bound against walking every tree, tiles that do not divide included; its curves and pictures."""

from __future__ import annotations

import random
from itertools import pairwise
from math import sqrt

import pytest

import polymap as pm
from polymap.costmodel.bounds import compulsory_bits
from polymap.costmodel.buffer_bound import Proven, least_traffic_bits
from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.referees.trees import exhaustive
from polymap.formatting import size
from polymap.ir.errors import MappingError, OptionError
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.networks.buffer_sweep import buffer_curve
from polymap.report.figures.buffer_curve import buffer_curve_svg, buffer_curve_text, buffer_figure
from polymap.workload.einsums import einsum
from tests import cases
from tests.unit.report.test_space_figures import assert_inside

pytestmark = pytest.mark.slow

SMALL = (
    ("C[m,n] += A[m,k] * B[k,n]", {"m": 3, "n": 2, "k": 2}),
    ("O[p] += I[p+r] * W[r]", {"p": 5, "r": 2}),
    ("O[k,p] += I[2*p+r] * W[k,r]", {"k": 2, "p": 2, "r": 2}),
)


def machine(capacity_bits: int | None, *, spread: int = 1) -> Architecture:
    fanout = (Fanout("X", spread),) if spread > 1 else ()
    return Architecture("two", (MemoryLevel("DRAM"), MemoryLevel("Buf", capacity_bits), *fanout, ComputeUnit("MAC")))


@pytest.mark.slow
@pytest.mark.parametrize(("text", "sizes"), SMALL, ids=[text for text, _ in SMALL])
@pytest.mark.parametrize("spread", [1, 2])
def test_no_tree_at_all_moves_less_than_the_bound(text: str, sizes: dict[str, int], spread: int) -> None:
    workload = einsum(text, sizes=sizes)
    for capacity in (8, 24, 64):
        arch = machine(capacity, spread=spread)
        least = exhaustive(workload, arch, "traffic:DRAM", "any")
        assert least is not None
        assert least.value is not None
        assert least_traffic_bits(workload, arch) <= least.value


LARGE = (
    einsum("C[m,n] += A[m,k] * B[k,n]", m=40, n=48, k=36),
    einsum("O[k,p] += I[c,p+r] * W[k,c,r]", k=16, c=24, p=60, r=3),
    einsum("O[k,p,q] += I[2*p+r,2*q+s] * W[k,r,s]", k=48, p=24, q=20, r=3, s=3),
    einsum("D[i,l] += A[i,j] * B[j,k] * E[k,l]", i=16, j=14, k=18, l=20),
)


def test_no_random_mapping_of_a_large_layer_moves_less_than_the_bound() -> None:
    rng = random.Random(8)
    beyond_compulsory = 0
    for number in range(150):
        workload = rng.choice(LARGE)
        dims = tuple(workload.extents())
        spread = rng.choice((1, 1, 4))
        arch = machine(None, spread=spread)
        loops = cases._loops(rng, workload, arch, dims, spreadable=frozenset())
        if spread > 1:
            dim = rng.choice(dims)
            loops = [loop for loop in loops if (loop.dim, loop.tile) != (dim, 1)]
            loops += [Temporal(dim, spread), Spatial(dim, 1, "X")]
        nodes: list[MappingNode] = [*loops]
        for tensor in workload.tensors:
            if rng.random() < 0.8:
                inside = max(0, len(loops) - 3 - rng.randrange(3))
                nodes.insert(rng.randrange(inside, len(loops) - 1), Storage("Buf", (tensor.name,)))
        mapping = Mapping((*nodes, Compute("S")))
        try:
            cost = evaluate(workload, arch, mapping)
        except MappingError:
            continue
        moved = sum(8 * (row.reads + row.writes) for row in cost.traffic if row.level == "DRAM")
        # The machine on which this mapping just fits.
        bound = least_traffic_bits(workload, machine(max(1, dict(cost.occupancy_bits)["Buf"]), spread=spread))
        assert bound <= moved, number
        beyond_compulsory += bound > (compulsory_bits(workload) or 0)
    assert beyond_compulsory > 35, "the bound says no more than the compulsory traffic"


def bits_moved(workload: Workload, capacity: int, *, elements: int = 8) -> float:
    return least_traffic_bits(workload, machine(capacity * elements)) / elements


def test_a_large_product_needs_nearly_two_loads_per_square_root_of_the_buffer() -> None:
    # 2 m n k / sqrt(Z) is what the best blocked loops move (Smith et al., "A tight I/O lower bound for matrix
    # multiplication", 2019): the bound must come close, and not beyond.
    size = 4096
    gemm = einsum("C[m,n] += A[m,k] * B[k,n]", m=size, n=size, k=size)
    for room in (100, 1024, 10_000):
        share = bits_moved(gemm, room) / (2 * size**3 / sqrt(room))
        assert 0.85 < share < 1


def test_unlimited_memories_leave_the_compulsory_traffic() -> None:
    gemm = einsum("C[m,n] += A[m,k] * B[k,n]", m=64, n=64, k=64)
    assert least_traffic_bits(gemm, machine(None)) == compulsory_bits(gemm) == 3 * 64 * 64 * 8
    assert least_traffic_bits(gemm, machine(3 * 64 * 64 * 8)) == compulsory_bits(gemm)


GEMM = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=16, n=16, k=16, name="product")
SIZES = [8 * 2**power for power in range(2, 11)]


@pytest.fixture(scope="module")
def curve() -> pm.study.BufferCurve:
    return buffer_curve(GEMM, machine(1), "Buf", SIZES, time_limit_s=20)


def test_both_curves_fall_and_the_mappings_are_what_they_say(curve: pm.study.BufferCurve) -> None:
    assert [point.capacity_bits for point in curve.points] == SIZES
    for point in curve.points:
        assert point.best is not None
        assert point.best_bits is not None
        assert point.gap is not None
        cost = evaluate(GEMM, machine(point.capacity_bits), point.best)
        assert cost.legal
        assert sum(8 * (row.reads + row.writes) for row in cost.traffic if row.level == "DRAM") == point.best_bits
        assert curve.compulsory_bits is not None
        assert curve.compulsory_bits <= point.schedule_bits <= point.bound_bits <= point.best_bits
        assert point.gap == pytest.approx(1 - point.bound_bits / point.best_bits)
    for smaller, larger in pairwise(curve.points):
        assert smaller.bound_bits >= larger.bound_bits
        assert smaller.schedule_bits >= larger.schedule_bits
        assert (smaller.best_bits or 0) >= (larger.best_bits or 0)
    assert curve.points[-1].best_bits == curve.compulsory_bits
    assert (curve.points[0].best_bits or 0) > 4 * (curve.compulsory_bits or 0) > 0


def test_the_text_and_the_picture(curve: pm.study.BufferCurve) -> None:
    text = buffer_curve_text(curve)
    assert text == str(curve)
    assert "product on two: moved at DRAM against the size of Buf" in text
    assert "Compulsory at any size: 768 B." in text
    assert "OPTIMAL" not in text
    for point in curve.points:
        row = next(line for line in text.splitlines() if line.startswith(f"{size(point.capacity_bits)} "))
        assert row.endswith(point.proven.value)
        assert (point.gap == 0) == (point.proven in (Proven.SCHEDULES, Proven.TREES))
    assert {Proven.DIVIDING, Proven.SCHEDULES} <= {point.proven for point in curve.points}
    figure = buffer_figure(curve)
    assert figure.found == tuple((p.capacity_bits, p.best_bits or 0) for p in curve.points)
    assert figure.bound == tuple((p.capacity_bits, p.bound_bits) for p in curve.points)
    assert figure.schedule == tuple((p.capacity_bits, p.schedule_bits) for p in curve.points)
    picture = buffer_curve_svg(curve)
    assert picture.count("<circle") == 3 * len(SIZES)


def test_a_dividing_optimum_that_is_not_the_best_of_all_is_not_called_that() -> None:
    prime = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=7, n=7, k=7)
    (point,) = buffer_curve(prime, machine(1), "Buf", [168], time_limit_s=3).points
    blocks = (Temporal("m", 4), Temporal("n", 4), Storage("Buf", ("C",)), Temporal("k", 1), Storage("Buf", ("A",)))
    inside = (Temporal("n", 1), Storage("Buf", ("B",)), Temporal("m", 1), Compute("S"))
    cost = evaluate(prime, machine(168), Mapping((*blocks, *inside)))
    assert cost.legal
    moved = sum(8 * (row.reads + row.writes) for row in cost.traffic if row.level == "DRAM")
    assert point.best_bits is not None
    assert point.status == "OPTIMAL"  # over tiles that divide, of which 7 has none
    assert point.proven is Proven.DIVIDING
    assert point.schedule_bits <= point.bound_bits <= moved < point.best_bits


PAIR = pm.program(
    ["T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"],
    m=64,
    n=64,
    k=8,
    p=8,
    temporary=["T"],
    bits=8,
    name="pair",
)
ROOMS = [8 * words for words in (40, 1100, 8000)]


@pytest.fixture(scope="module")
def pair_curve() -> pm.study.BufferCurve:
    return buffer_curve(PAIR, machine(1), "Buf", ROOMS, tiles="any", time_limit_s=20)


def test_unfused_points_are_the_sums_of_the_nests_own_curves(pair_curve: pm.study.BufferCurve) -> None:
    first = pm.einsum("T[m,n] += A[m,k] * B[k,n]", m=64, n=64, k=8, bits=8)
    second = pm.einsum("E[m,p] += T[m,n] * D[n,p]", m=64, n=64, p=8, bits=8)
    alone = [
        buffer_curve(each, machine(1), "Buf", ROOMS, tiles="any", time_limit_s=20).points for each in (first, second)
    ]
    for point, *parts in zip(pair_curve.unfused, *alone, strict=True):
        assert point.bound_bits == sum(part.bound_bits for part in parts)
        assert point.best_bits == sum(part.best_bits or 0 for part in parts)


def test_fused_trees_move_no_more_than_unfused_ones_and_no_less_than_their_bound(
    pair_curve: pm.study.BufferCurve,
) -> None:
    passed = 2 * 64 * 64 * 8  # T is written once and read once where it is not kept
    saved = set[bool]()
    for point, apart in zip(pair_curve.points, pair_curve.unfused, strict=True):
        assert apart.best_bits is not None
        assert apart.bound_bits - passed <= point.bound_bits <= (point.best_bits or 0) <= apart.best_bits
        for each in (point, apart):
            assert each.best is not None
            cost = evaluate(PAIR, machine(each.capacity_bits), each.best)
            assert cost.legal
            assert each.best_bits == sum(8 * (row.reads + row.writes) for row in cost.traffic if row.level == "DRAM")
        saved.add((point.best_bits or 0) < apart.bound_bits)
    assert saved == {True, False}
    assert pair_curve.points[-1].best_bits == compulsory_bits(PAIR) == 4 * 64 * 8 * 8


def test_the_text_and_the_picture_of_a_program_show_both(pair_curve: pm.study.BufferCurve) -> None:
    text = buffer_curve_text(pair_curve)
    assert "Unfused, every nest a program of its own: what one leaves for another goes through DRAM." in text
    assert "Fused trees move less than anything unfused can, proven, at " in text
    figure = buffer_figure(pair_curve)
    assert figure.unfused == tuple((p.capacity_bits, p.best_bits or 0) for p in pair_curve.unfused)
    assert figure.unfused_bound == tuple((p.capacity_bits, p.bound_bits) for p in pair_curve.unfused)
    for width in (320, 640, 860):
        picture = buffer_curve_svg(pair_curve, width_px=width)
        assert picture.count("<circle") == 5 * len(ROOMS)
        assert_inside(picture)
    assert {"unfused_bound_bits", "unfused_best_bits"} <= set(pair_curve.table())
    with pytest.raises(OptionError, match="PM120 width_px is 12"):
        buffer_curve_svg(pair_curve, width_px=12)


def test_wrong_levels_and_sizes_are_refused_together() -> None:
    with pytest.raises(
        OptionError, match=r"(?s)PM536 'Bug' is not a level.*Did you mean 'Buf'.*PM537 a buffer size is 0"
    ):
        buffer_curve(GEMM, machine(1), "Bug", [8, 0])
    with pytest.raises(OptionError, match=r"(?s)PM537 a buffer size is 1\.5.*PM537 a buffer size is -3"):
        buffer_curve(GEMM, machine(1), "Buf", [8, 1.5, "8", -3])  # type: ignore[list-item]
    with pytest.raises(OptionError, match="PM537 there are no buffer sizes"):
        buffer_curve(GEMM, machine(1), "Buf", [])
