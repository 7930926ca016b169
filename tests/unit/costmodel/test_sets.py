"""Counting by sets: hand counts beyond boxes, real layers at full size, and what is refused."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest

from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.counts import Counts, Traffic
from polymap.costmodel.referees import peak as sets_peak
from polymap.costmodel.referees.maximum import SumTerm, largest_sum
from polymap.costmodel.referees.set_counts import counts_of_sets
from polymap.inputs.presets import load_arch
from polymap.ir.errors import BudgetError
from polymap.ir.loopnest import Workload
from polymap.ir.mapping import Compute, Mapping, Spatial, Storage, Temporal
from polymap.ir.quasi_affine import dim
from polymap.poly import budget, is_exhausted
from polymap.workload.c.reader import from_c
from polymap.workload.einsums import einsum
from polymap.workload.layers import conv2d
from tests.cases import random_case
from tests.set_counts import count_with_sets

SIMPLE = load_arch("simple3")


def row(counts: Counts, level: str, tensor: str) -> Traffic:
    (found,) = (each for each in counts.traffic if (each.level, each.tensor) == (level, tensor))
    return found


def triangle(size: int) -> Workload:
    workload = einsum("C[i,j] += A[i,k] * B[k,j]", i=size, j=size, k=size)
    (statement,) = workload.statements
    return replace(workload, statements=(replace(statement, constraints=(dim("i") - dim("k"),)),))


def tiled(tile: int) -> Mapping:
    outer = tuple(Temporal(name, tile) for name in "ijk")
    inner = tuple(Temporal(name, 1) for name in "ikj")
    return Mapping((*outer, Storage("GB", ("A", "B", "C")), *inner, Compute("S")))


def test_a_triangular_product_of_size_512_is_counted() -> None:
    counts = count_with_sets(triangle(512), SIMPLE, tiled(64))
    blocks = 8 * 9 // 2 * 8  # tiles (i, j, k) with k <= i
    diagonal = 8 * 8
    assert counts.instances == counts.steps == 512 * 512 * 513 // 2
    a_fills = (blocks - diagonal) * 64 * 64 + diagonal * 64 * 65 // 2  # half of a block on the diagonal
    # where i has one block of k only (the first), A stays for all of j
    a_fills -= 7 * 64 * 65 // 2
    assert row(counts, "GB", "A").fills == a_fills
    assert row(counts, "DRAM", "A").reads == a_fills
    assert row(counts, "GB", "B").fills == blocks * 64 * 64
    assert row(counts, "GB", "C") == Traffic("GB", "C", counts.instances, counts.instances, 0, 512 * 512)
    assert row(counts, "DRAM", "C").writes == 512 * 512
    assert counts.uses[1].occupancy_bits == 3 * 64 * 64 * 8


def test_taps_on_padding_are_left_out_of_a_real_layer() -> None:
    layer = conv2d(K=64, C=64, H=56, W=56, R=3, S=3, padding=1, skip_padding=True)
    spread = (Spatial("k", 4, "PE"), Spatial("c", 4, "PE"))
    loops = (Temporal("p", 8), Temporal("c", 1), Temporal("r", 1), Temporal("q", 1), Temporal("s", 1), Temporal("k", 1))
    mapping = Mapping((Storage("GB", ("I",)), *spread, *loops, Temporal("p", 1), Storage("RF", ("O",)), Compute("S")))
    counts = count_with_sets(layer, SIMPLE, mapping)
    along = 3 * 56 - 2
    assert counts.instances == 64 * 64 * along * along
    assert row(counts, "GB", "I").fills == 64 * 56 * 56
    assert row(counts, "RF", "O").writes == row(counts, "RF", "O").fills + counts.instances


@pytest.mark.parametrize("seed", range(4))
def test_partial_tiles_of_a_real_layer_equal_the_closed_form(seed: int) -> None:
    rng = random.Random(seed)
    layer = conv2d(K=64, C=64, H=28, W=28, R=3, S=3, padding=1)
    outer = [Temporal(name, rng.randrange(3, 20)) for name in "kcpq"]
    rng.shuffle(outer)
    spread = Spatial("p", 2, "PE"), Spatial("k", 3, "PE")
    inner = [Temporal(name, 1) for name in "kcpqrs"]
    rng.shuffle(inner)
    nodes = (*outer, Storage("GB", ("I", "O")), *spread, *inner[:3], Storage("RF", ("O", "W")), *inner[3:])
    mapping = Mapping((*nodes, Compute("S")))
    expected = count_closed_form(layer, SIMPLE, mapping)
    assert expected is not None
    assert count_with_sets(layer, SIMPLE, mapping) == expected


def test_two_accesses_of_a_stencil_share_a_tile() -> None:
    nest = einsum("B[i,j] += A[i,j] * A[i+1,j+1]", i=256, j=256)
    loops = (Temporal("i", 32), Temporal("j", 32), Storage("GB", ("A",)), Temporal("i", 1), Temporal("j", 1))
    counts = count_with_sets(nest, SIMPLE, Mapping((*loops, Compute("S"))))
    tile = 2 * 32 * 32 - 31 * 31
    kept = 31  # the second square ends where the right neighbour's first begins, one row further down
    assert row(counts, "GB", "A").fills == 64 * tile - 8 * 7 * kept
    assert row(counts, "GB", "A").reads == 2 * 256 * 256


@pytest.mark.parametrize(
    ("body", "fills"),
    [
        ("A[i] /= 2;", 6),
        ("A[i] += A[0];", 6),
        ("A[i] = A[i] > A[0] ? A[i] : A[0];", 6),
        ("A[i] = A[i] * A[i];", 6),
        ("A[i] = 2;", 0),
    ],
)
def test_an_element_that_is_read_before_it_is_overwritten_is_loaded(body: str, fills: int) -> None:
    nest = from_c(f"void f(double A[6]) {{ for (int i = 0; i < 6; i++) {body} }}")
    (loop,) = nest.dims
    counts = count_with_sets(nest, SIMPLE, Mapping((Storage("GB", ("A",)), Temporal(loop.name, 1), Compute("S0"))))
    assert (row(counts, "GB", "A").fills, row(counts, "GB", "A").drains) == (fills, 6)


def test_the_callers_budget_ends_a_count() -> None:
    with pytest.raises(BudgetError) as refused, budget(1, what="a count of nothing else"):
        counts_of_sets(triangle(8), SIMPLE, tiled(4))
    assert is_exhausted(refused.value)


def test_walking_too_many_tiles_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sets_peak, "TUNING", sets_peak.TUNING._replace(walked_tiles=2))
    monkeypatch.setattr(sets_peak, "_on_one_path", lambda one, other: False)  # pyright: ignore
    with pytest.raises(BudgetError, match="PM499 the peak of a level needs"):
        count_with_sets(triangle(8), SIMPLE, tiled(4))


def test_peaks_walked_and_peaks_from_products_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [random_case(random.Random(seed)) for seed in range(25)]
    fast = [count_with_sets(case.workload, case.arch, case.mapping) for case in cases]
    monkeypatch.setattr(sets_peak, "_on_one_path", lambda one, other: False)  # pyright: ignore
    assert [count_with_sets(case.workload, case.arch, case.mapping) for case in cases] == fast


def test_the_largest_sum_of_products_is_found() -> None:
    rng = random.Random(3)
    for _ in range(200):
        terms: list[SumTerm] = []
        for _ in range(rng.randrange(1, 4)):
            left = list("abcd")
            parts = []
            while left and rng.random() < 0.7:
                names = tuple(left.pop(rng.randrange(len(left))) for _ in range(min(rng.randrange(1, 3), len(left))))
                keys = [key for key in product(range(3), repeat=len(names)) if rng.random() < 0.7] or [
                    (0,) * len(names)
                ]
                parts.append((names, {key: rng.randrange(1, 6) for key in keys}))
            terms.append((rng.randrange(1, 4), parts))
        best = 0
        for values in product(range(3), repeat=4):
            point = dict(zip("abcd", values, strict=True))
            total = 0
            for factor, parts in terms:
                for names, tally in parts:
                    factor *= tally.get(tuple(point[name] for name in names), 0)
                total += factor
            best = max(best, total)
        assert largest_sum(terms) == best
