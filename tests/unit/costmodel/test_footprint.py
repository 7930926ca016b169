"""Footprints against the simulator's occupancy, and against sets listed by hand."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from polymap.costmodel.bounds import compulsory_traffic
from polymap.costmodel.footprint import footprints, touched_elements
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.connections import components
from polymap.ir.quasi_affine import dim
from polymap.schedules.check import check_mapping
from polymap.workload.einsums import einsum
from tests.unit.report.shared import FLAT, nest

WINDOW = einsum("O[p,q] += I[2*p+r,q+3*s] * W[r,s]", p=4, q=5, r=3, s=2, bits={"O": 16, "I": 8, "W": 8})
DIAGONAL = einsum("C[i,j] += A[i+j,i-j+3] * B[j]", i=5, j=4)
TREES = [
    (WINDOW, "GLB:I p2 GLB:O q2 r1 RF:I,W,O p1 q1 s1"),
    (WINDOW, "p3 q2@X GLB:I,O,W r1@Y p1 RF:I q1 s1"),  # partial tiles, a buffer inside a parallel loop: a union
    (WINDOW, "q3@X q1 p1 RF:W GLB:I r1 s1"),
    (DIAGONAL, "i2 GLB:A,C j2 RF:A,B i1 j1"),
    (DIAGONAL, "i4 j3 i2@X GLB:A RF:C i1 j1"),
]


@pytest.mark.parametrize(("workload", "tree"), TREES)
def test_first_tiles_fill_a_level_as_far_as_the_simulator_says(workload, tree) -> None:  # type: ignore[no-untyped-def]
    mapping = nest(tree)
    check_mapping(workload, FLAT, mapping)
    held: dict[str, int] = {}
    for place in footprints(workload, FLAT, mapping)[len(workload.tensors) :]:
        assert place.elements is not None
        held[place.level] = held.get(place.level, 0) + place.elements * workload.tensor(place.tensor).bits
    uses = count_by_simulation(workload, FLAT, mapping).uses
    assert {use.level: use.occupancy_bits for use in uses[1:] if use.occupancy_bits} == held


@pytest.mark.parametrize("workload", [WINDOW, DIAGONAL])
def test_touched_elements_are_those_of_a_listing(workload) -> None:  # type: ignore[no-untyped-def]
    from itertools import product

    names = list(workload.extents())
    points = [dict(zip(names, values, strict=True)) for values in product(*map(range, workload.extents().values()))]
    (statement,) = workload.statements
    listed = {
        access.tensor: len({tuple(index.evaluate(point) for index in access.index) for point in points})
        for access in (statement.target, *statement.reads)
    }
    assert dict(touched_elements(workload)) == listed


def test_several_accesses_of_one_tensor_are_united() -> None:
    layer = einsum("C[i] += A[i] * A[i+1] * A[2*i]", i=6)
    assert dict(touched_elements(layer)) == {"C": 6, "A": len({*range(7), *range(0, 12, 2)})}


def test_a_domain_that_is_no_box_counts_as_it_is_but_has_no_largest_first_tile() -> None:
    (statement,) = DIAGONAL.statements
    triangle = replace(DIAGONAL, statements=(replace(statement, constraints=(dim("i") - dim("j"),)),))
    assert dict(touched_elements(triangle))["C"] == sum(1 for i in range(5) for j in range(4) if i >= j)
    assert footprints(triangle, FLAT, nest("i2 GLB:A j1 i1"))[-1].elements is None


def test_axes_that_share_a_dim_stand_together() -> None:
    (statement,) = einsum("C[i] += A[i+j,k,i,2] * B[j]", i=2, j=2, k=2).statements
    assert components(axis.dims for axis in statement.reads[0].index) == [(0, 2), (1,), (3,)]


@pytest.mark.parametrize("seed", range(20))
def test_components_are_what_steps_between_sets_that_share_an_item_reach(seed: int) -> None:
    rng = random.Random(seed)
    sets = [{rng.randrange(9) for _ in range(rng.randrange(4))} for _ in range(7)]
    reached = [{one} for one in range(len(sets))]
    for _ in sets:
        for one in reached:
            one |= {n for n, own in enumerate(sets) for at in one if own & sets[at]}
    assert components(sets) == sorted({tuple(sorted(each)) for each in reached})


def test_compulsory_traffic_follows_initial_and_temporary() -> None:
    plain = einsum("C[m,n] += A[m,k] * B[k,n]", m=2, n=3, k=4)
    rows = {row.tensor: (row.reads, row.writes) for row in compulsory_traffic(plain)}
    assert rows == {"C": (0, 6), "A": (8, 0), "B": (12, 0)}
    onto = einsum("C[m,n] += A[m,k] * B[k,n]", m=2, n=3, k=4, initial=["C"], temporary=["C"])
    rows = {row.tensor: (row.reads, row.writes) for row in compulsory_traffic(onto)}
    assert rows["C"] == (6, 0)
