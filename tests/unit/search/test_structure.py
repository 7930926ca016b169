"""Which dims are spread over which fan-out: the list against trying everything, and what a ban changes."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import pytest

from polymap.costmodel.referees.trees import exhaustive
from polymap.explore import explore
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast
from polymap.ir.mapping import Spatial
from polymap.search.problem.problem import Problem, analyse
from polymap.search.problem.structures import enumerate_structures
from polymap.search.problem.symmetry import distinct_structures, symmetries
from polymap.workload.einsums import einsum
from polymap.workload.layers import conv2d

GEMM = einsum("C[m,n] += A[m,k] * B[k,n]", m=12, n=4, k=6)
OUTER = MemoryLevel("DRAM", read_pj=Fraction(100), write_pj=Fraction(100))
REGISTER = MemoryLevel("RF", capacity_bits=64, read_pj=Fraction(1), write_pj=Fraction(1))
MAC = ComputeUnit("MAC", Fraction(1))


def machine(*inner: MemoryLevel | Fanout) -> Architecture:
    return Architecture("machine", (OUTER, *inner, MAC))


def never() -> bool:
    return False


def tried(problem: Problem) -> set[tuple[tuple[int, ...], ...]]:
    """Return the class products of every matrix of factors that is allowed, by trying all matrices."""
    fanouts, found = problem.arch.fanouts, set[tuple[tuple[int, ...], ...]]()
    choices = [[f for f in range(1, extent + 1) if extent % f == 0] for extent in problem.extents]
    fitting = [[row for row in product(*choices) if prod(row) <= fanout.size] for fanout in fanouts]
    for rows in product(*fitting):
        allowed = all(
            factor == 1 or fanout.dims is None or dim in fanout.dims
            for row, fanout in zip(rows, fanouts, strict=True)
            for dim, factor in zip(problem.dims, row, strict=True)
        )
        divides = all(
            extent % prod(column) == 0 for extent, column in zip(problem.extents, zip(*rows, strict=True), strict=True)
        )
        if allowed and divides:
            products = [[prod(rows[f][d] for f in one.fanouts) for d in range(len(choices))] for one in problem.classes]
            found.add(tuple(tuple(row) for row in products))
    return found


MACHINES = [
    machine(REGISTER),
    machine(Fanout("X", 4), REGISTER),
    machine(Fanout("X", 5), Fanout("Y", 6), REGISTER),
    machine(Fanout("X", 4, dims=("m", "k")), Fanout("Y", 3), REGISTER),
    machine(Fanout("X", 4, multicast=Multicast.NONE), Fanout("Y", 3), REGISTER),
    machine(Fanout("X", 4), REGISTER, Fanout("Y", 3, dims=("k",))),
    machine(Fanout("X", 2), Fanout("Y", 3, reduction=False), REGISTER, Fanout("Z", 2)),
]


@pytest.mark.parametrize("arch", MACHINES)
def test_the_structures_are_exactly_those_that_trying_everything_finds(arch: Architecture) -> None:
    problem = analyse(GEMM, arch)
    structures, complete = enumerate_structures(problem, never)
    assert complete
    assert len(structures) == len({one.classes for one in structures})
    assert {one.classes for one in structures} == (tried(problem) if arch.fanouts else {()})


@pytest.mark.parametrize("arch", MACHINES)
def test_factors_of_a_structure_multiply_to_its_classes_and_fit_the_fanouts(arch: Architecture) -> None:
    problem = analyse(GEMM, arch)
    for one in enumerate_structures(problem, never)[0]:
        assert all(prod(row) <= fanout.size for row, fanout in zip(one.factors, arch.fanouts, strict=True))
        for found, row in zip(problem.classes, one.classes, strict=True):
            assert row == tuple(prod(one.factors[f][d] for f in found.fanouts) for d in range(len(problem.dims)))


def test_forbidding_a_dim_removes_its_structures_and_no_others() -> None:
    free = {one.classes for one in enumerate_structures(analyse(GEMM, machine(Fanout("X", 6), REGISTER)), never)[0]}
    bound = machine(Fanout("X", 6, dims=("n", "k")), REGISTER)
    without_m = {one.classes for one in enumerate_structures(analyse(GEMM, bound), never)[0]}
    assert without_m == {classes for classes in free if classes[0][0] == 1}
    assert without_m < free


def test_forbidding_what_the_winner_spreads_yields_the_optimum_without_it() -> None:
    workload = einsum("y[m] += A[m,k] * x[k]", m=4, k=4)
    free = machine(Fanout("X", 4), REGISTER)
    best = explore(workload, free, "edp", tiles="divide")
    spread = {node.dim for node in best.best.nodes if isinstance(node, Spatial)} if best.best else set[str]()
    assert spread
    bound = machine(Fanout("X", 4, dims=tuple({"m", "k"} - spread)), REGISTER)
    second = explore(workload, bound, "edp", tiles="divide")
    truth = exhaustive(workload, bound, "edp", "divide")
    assert truth is not None
    assert (second.status, second.value) == ("OPTIMAL", truth.value)
    assert best.value is not None
    assert second.value is not None
    assert second.value > best.value


def conv(**changed: int) -> Workload:
    sizes: dict[str, Any] = {"K": 4, "C": 2, "H": 6, "W": 6, "R": 3, "S": 3, **changed}
    return conv2d(**sizes)


def test_a_square_convolution_may_swap_rows_and_columns_together() -> None:
    problem = analyse(conv(), machine(Fanout("X", 4), REGISTER))
    p, q, r, s = (problem.dims.index(dim) for dim in "pqrs")
    (image,) = symmetries(problem)
    assert (image[p], image[q], image[r], image[s]) == (q, p, s, r)
    assert all(image[d] == d for d in range(len(image)) if d not in (p, q, r, s))


@pytest.mark.parametrize(
    ("workload", "dims"),
    [(conv(W=8), None), (conv(S=1), None), (conv(), ("p",)), (conv(), ("r",)), (conv(), ("k", "p", "s"))],
    ids=["other width", "other kernel", "p alone allowed", "r alone allowed", "p and s allowed"],
)
def test_unequal_rows_and_columns_are_not_swapped(workload: Workload, dims: tuple[str, ...] | None) -> None:
    assert symmetries(analyse(workload, machine(Fanout("X", 4, dims=dims), REGISTER))) == ()


def test_of_symmetric_structures_exactly_one_is_kept() -> None:
    problem = analyse(conv(), machine(Fanout("X", 4), REGISTER))
    structures = enumerate_structures(problem, never)[0]
    kept = {one.classes for one in distinct_structures(problem, structures)}
    (image,) = symmetries(problem)
    assert len(kept) < len(structures)
    for one in structures:
        orbit = {one.classes, tuple(tuple(row[d] for d in image) for row in one.classes)}
        assert len(orbit & kept) == 1
