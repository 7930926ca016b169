"""The theorem of the ski slope against brute force: every schedule of tiny products, every tree of small ones."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import product
from math import prod, sqrt

import pytest

from polymap.costmodel.bounds import compulsory_bits
from polymap.costmodel.buffer_bound import least_traffic_bits, schedule_bits
from polymap.costmodel.closed_form.groups import workload_model
from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.referees.trees import exhaustive
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, Storage, Temporal
from polymap.workload.einsums import einsum


def least_of_all_schedules(workload: Workload, slots: int) -> int:
    """Return the fewest elements read and written by any order of the statement's instances with loads and stores in
    between, that holds so many elements: a shortest path over what is held and what is done.

    An output starts as zero at no cost; it is written when it goes, and read when it comes back.
    """
    (statement,) = workload.statements
    points = list(product(*(range(extent) for extent in workload.extents().values())))
    accesses = (statement.target, *statement.reads)
    names: dict[tuple[str, tuple[int, ...]], int] = {}
    needs: list[int] = []
    for point in points:
        values = dict(zip(workload.extents(), point, strict=True))
        elements = [(each.tensor, tuple(axis.evaluate(values) for axis in each.index)) for each in accesses]
        needs.append(sum(1 << names.setdefault(element, len(names)) for element in elements))
    outputs = {number for (name, _), number in names.items() if name == statement.target.tensor}
    uses = [sum(1 << n for n, need in enumerate(needs) if need >> number & 1) for number in range(len(names))]

    def worked(held: int, done: int) -> int:
        """Return what is done once all is done that can be: that never harms."""
        return done | sum(1 << n for n, need in enumerate(needs) if need & held == need)

    everything = (1 << len(points)) - 1
    best: dict[tuple[int, int], int] = {(0, 0): 0}
    queue = [(0, 0, 0)]
    while queue:
        cost, held, done = heappop(queue)
        if best[held, done] < cost:
            continue
        if done == everything and not any(held >> number & 1 for number in outputs):
            return cost
        for number in range(len(names)):
            bit = 1 << number
            if held & bit:
                after, price = held & ~bit, int(number in outputs)
            elif held.bit_count() < slots:
                after, price = held | bit, int(number not in outputs or bool(done & uses[number]))
            else:
                continue
            state = (after, worked(after, done))
            if cost + price < best.get(state, cost + price + 1):
                best[state] = cost + price
                heappush(queue, (cost + price, *state))
    raise AssertionError("no schedule")


def theorem(workload: Workload, held: int) -> int:
    model = workload_model(workload)
    assert model is not None
    return schedule_bits(model, held, 1)


TINY = (
    ("C[m,n] += A[m,k] * B[k,n]", {"m": 2, "n": 2, "k": 2}, (3,)),
    ("C[m,n] += A[m] * B[n]", {"m": 2, "n": 3}, (3, 4)),
    ("O[p] += I[p+r] * W[r]", {"p": 3, "r": 2}, (3, 4)),
    ("y[m] += A[m,k] * x[k]", {"m": 2, "k": 3}, (3, 4)),
)


@pytest.mark.parametrize(("text", "sizes", "slots"), TINY, ids=[f"{text} {sizes}" for text, sizes, _ in TINY])
def test_no_schedule_at_all_moves_less_than_the_theorem(
    text: str, sizes: dict[str, int], slots: tuple[int, ...]
) -> None:
    workload = einsum(text, bits=1, sizes=sizes)
    for held in slots:
        least = least_of_all_schedules(workload, held)
        bound = theorem(workload, held)
        assert bound <= least
        assert bound > 0.6 * least, "a bound that says little cannot be wrong"


def machine(capacity_bits: int) -> Architecture:
    return Architecture("two", (MemoryLevel("DRAM"), MemoryLevel("Buf", capacity_bits), ComputeUnit("MAC")))


TREES = (
    ("C[m,n] += A[m,k] * B[k,n]", {"m": 4, "n": 4, "k": 4}),
    ("C[m,n] += A[m,k] * B[k,n]", {"m": 4, "n": 4, "k": 2}),
    ("O[k,p] += I[c,p+r] * W[k,c,r]", {"k": 4, "c": 2, "p": 4, "r": 2}),
)


@pytest.mark.parametrize(("text", "sizes"), TREES, ids=[f"{text} {sizes}" for text, sizes in TREES])
def test_no_tree_moves_less_than_the_theorem_where_it_says_more_than_that_all_is_moved(
    text: str, sizes: dict[str, int]
) -> None:
    workload = einsum(text, bits=1, sizes=sizes)
    beyond = 0
    for capacity in (1, 2, 4, 7):
        truth = exhaustive(workload, machine(capacity), "traffic:DRAM", "divide")
        assert truth is not None
        assert truth.value is not None
        bound = least_traffic_bits(workload, machine(capacity))
        assert bound <= truth.value
        beyond += bound > (compulsory_bits(workload) or 0)
    assert beyond


@pytest.mark.parametrize("size", [64, 256])
def test_the_constants_are_those_of_the_sources(size: int) -> None:
    held = size * size // 16
    gemm = einsum("C[m,n] += A[m,k] * B[k,n]", m=size, n=size, k=size, bits=1)
    assert 0.985 < theorem(gemm, held) / (2 * size**3 / sqrt(held)) <= 1
    layer = einsum("O[k,p,q] += I[c,p+r,q+s] * W[k,c,r,s]", k=size, c=size, p=size, q=size, r=3, s=3, bits=1)
    assert 0.99 < theorem(layer, held) / (2 * prod(layer.extents().values()) / sqrt(9 * held)) <= 1


def test_outputs_cannot_be_added_to_the_bound_for_every_depth() -> None:
    # 2 m n k / sqrt(S + 3) + m n (Kwasniewski et al., for large k): 16 x 16 x 1 and 8 words would need 410 words.
    outer = einsum("C[m,n] += A[m,k] * B[k,n]", m=16, n=16, k=1, bits=1)
    nodes = (Temporal("m", 8), Storage("Buf", ("A",)), Temporal("n", 1), Temporal("m", 1), Compute("S"))
    cost = evaluate(outer, machine(8), Mapping(nodes))
    assert cost.legal
    moved = sum(row.reads + row.writes for row in cost.traffic if row.level == "DRAM")
    nodes = (Temporal("m", 8), Storage("Buf", ("A",)), Temporal("n", 1), Storage("Buf", ("B",)), *nodes[3:])
    better = evaluate(outer, machine(9), Mapping(nodes))
    assert better.legal
    moved = min(moved, sum(row.reads + row.writes for row in better.traffic if row.level == "DRAM"))
    assert moved == 256 + 16 + 2 * 16
    assert moved < 2 * 256 / sqrt(9 + 3) + 256
    assert theorem(outer, 9) <= moved
