"""The checker's numbers are exact at any length, and whatever can take long looks at the clock."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from polymap import Architecture, Mapping, Temporal, Workload, einsum, evaluate, explore, load_arch, matmul, verify
from polymap.checker.any_size import Siblings, bounds, kind_for, least, ranges, structures, vectors
from polymap.checker.counts import cost
from polymap.checker.grids import Grid, divisors, is_prime, primes
from polymap.checker.model import DEADLINE, OutOfTime, Problem, parsed, spread, sums
from polymap.checker.prover import Prover
from polymap.checker.rules import Refused
from polymap.checker.windows import axis
from polymap.inputs.mappings import mapping_to_document
from polymap.ir.machine import ComputeUnit, Fanout, MemoryLevel, Multicast, Node
from polymap.ir.mapping import Compute, Storage
from polymap.search.certificate import canonical, certificate, machine_table, workload_table

LONG = Fraction("1234.567891234")


def scaled(arch: Architecture, factor: Fraction) -> Architecture:
    """Return the machine with all energies times a factor."""
    nodes = [
        replace(node, read_pj=node.read_pj * factor, write_pj=node.write_pj * factor)
        if isinstance(node, MemoryLevel)
        else replace(node, pj=node.pj * factor)
        if isinstance(node, ComputeUnit)
        else node
        for node in arch.nodes
    ]
    return replace(arch, nodes=tuple(nodes))


def prover_of(workload: Workload, arch: Architecture, objective: str = "energy") -> Prover:
    head = [parsed(canonical(table)) for table in (workload_table(workload), machine_table(arch), [])]
    return Prover(Problem(head[0], head[1], head[2], objective), 1 << 200)


@pytest.mark.parametrize("objective", ["energy", "edp", "ed2p"])
@pytest.mark.parametrize(
    "workload",
    [matmul(m=8, n=6, k=10), einsum("O[k,p] += I[c,p+r] * W[k,c,r]", k=4, c=2, p=6, r=3)],
    ids=["gemm", "window"],
)
def test_bounds_in_long_numbers_are_those_in_short_ones(workload: Workload, objective: str) -> None:
    """One machine with energies that need Python's integers, one that needs 64 bits: the same bounds, scaled."""
    short, factor = load_arch("flat3"), Fraction(10**40 + 7, 3**20)
    small, large = prover_of(workload, short, objective), prover_of(workload, scaled(short, factor), objective)
    assert kind_for(small.problem) is not object or objective != "energy"
    assert kind_for(large.problem) is object
    wanted = [(rows, places) for rows in small.structures for places in ((), small.places(rows)[0])]
    pairs = [(small.joint(*one, ()), large.joint(*one, ())) for one in wanted]
    apart = [(small.apart(rows), large.apart(rows)) for rows in small.structures]
    for one, other in (*pairs, *apart):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert Fraction(one, small.problem.scale) * factor == Fraction(other, large.problem.scale)


@pytest.mark.parametrize("objective", ["energy", "ed2p"])
@pytest.mark.parametrize("digits", [6, 9])
@pytest.mark.parametrize(
    "workload", [matmul(m=8, n=8, k=4), einsum("O[k,p] += I[p+r] * W[k,r]", k=4, p=8, r=3)], ids=["gemm", "window"]
)
def test_long_energies_are_proven_like_short_ones(workload: Workload, digits: int, objective: str) -> None:
    """All energies times one number: the same mapping is the best, and the proof says so."""
    found = explore(workload, load_arch("flat3"), objective, tiles="divide")
    factor = Fraction(round(LONG * 10**digits), 10**digits)
    assert found.best is not None
    verdict = verify(certificate(workload, scaled(load_arch("flat3"), factor), objective, found.best))
    assert verdict.proven, verdict
    short = verify(found.certificate())
    assert short.value is not None
    assert verdict.value == short.value * factor


@pytest.mark.parametrize(
    "extents",
    [
        {"m": 5120, "n": 5120, "k": 5120},
        {"m": 10**6, "n": 10**6, "k": 10**6},
        {"m": 1_000_003, "n": 2**61 - 1, "k": 7},
        {"m": 10**30, "n": 3, "k": 2**89},
    ],
    ids=str,
)
def test_costs_of_long_extents_are_those_of_the_cost_model(extents: dict[str, Any]) -> None:
    workload, arch = matmul(**extents), scaled(load_arch("flat3"), LONG)
    tiles = {dim: primes(extent)[-1] for dim, extent in extents.items()}
    names = tuple(tensor.name for tensor in workload.tensors)
    outer = [Temporal(dim, tile) for dim, tile in tiles.items()]
    inner = [Temporal(dim, 1) for dim in tiles]
    mapping = Mapping((Storage("DRAM", names), *outer, *inner, Storage("RF", ("A",)), Compute("S")))
    true, problem = evaluate(workload, arch, mapping), prover_of(workload, arch).problem
    assert true.legal
    nodes = parsed(canonical(mapping_to_document(mapping)["nodes"]))
    rates = {level.name: (level.read_pj / level.word_bits, level.write_pj / level.word_bits) for level in arch.levels}
    bits = {tensor.name: tensor.bits for tensor in workload.tensors}
    energy = prod(extents.values()) * arch.compute.pj + sum(
        bits[row.tensor] * (row.reads * rates[row.level][0] + row.writes * rates[row.level][1]) for row in true.traffic
    )
    assert Fraction(cost(problem, nodes), problem.scale) == energy


def test_no_bound_in_long_numbers_is_above_a_mapping() -> None:
    rng = random.Random(7)
    workload, arch = matmul(m=2 * 1_000_003, n=999_983 * 3, k=10**6), scaled(load_arch("flat3"), LONG)
    prover = prover_of(workload, arch)
    whole, names = workload.extents(), tuple(tensor.name for tensor in workload.tensors)
    for _ in range(20):
        tiles = {dim: rng.choice([one for one in divisors(extent) if one < 200]) for dim, extent in whole.items()}
        loops = [Temporal(dim, tile) for dim, tile in tiles.items()]
        rest = [Temporal(dim, 1) for dim in tiles]
        rng.shuffle(loops)
        rng.shuffle(rest)
        nodes = (Storage("DRAM", names), *loops, Storage("GLB", names), *rest, Storage("RF", names), Compute("S"))
        document = parsed(canonical(mapping_to_document(Mapping(nodes))["nodes"]))
        alone = tuple((1,) * len(whole) for _ in prover.problem.classes)
        apart, joint = prover.apart(alone), prover.joint(alone, (), ())
        assert apart is not None
        assert joint is not None
        assert apart <= joint <= cost(prover.problem, document)


def test_primes_of_long_numbers() -> None:
    known = {
        10**30: (*(2,) * 30, *(5,) * 30),
        2**61 - 1: (2**61 - 1,),
        (10**9 + 7) * (10**9 + 9): (10**9 + 7, 10**9 + 9),
        1_000_003**2: (1_000_003, 1_000_003),
        3_215_031_751: (151, 751, 28_351),  # a strong pseudoprime to the bases 2, 3, 5 and 7
        3_825_123_056_546_413_051: (149_491, 747_451, 34_233_211),  # ... to all up to 23
    }
    for number, factors in known.items():
        assert primes(number) == factors
    assert len(divisors(10**30)) == 31 * 31
    for number in range(43, 4_000, 2):
        assert is_prime(number) == all(number % factor for factor in range(2, number))
    for number in (1_287_836_182_261 * 2_575_672_364_521, 2**89 - 1):  # the first is a strong pseudoprime to all bases
        with pytest.raises(Refused, match="not known to be prime"):
            primes(number)


SLOW: dict[str, Callable[[], object]] = {
    "factors": lambda: primes((10**12 + 39) * (10**13 + 37)),
    "sets": lambda: sums(spread(1, 2**10, 1), spread(1, 2**10, 3)),
    "windows": lambda: axis((1, 1), (12, 18), ((), ())),
    "a tensor alone": lambda: prover_of(matmul(m=8, n=8, k=4), load_arch("flat3")).apart(((1, 1, 1),)),
    "all tensors": lambda: prover_of(matmul(m=8, n=8, k=4), load_arch("flat3")).joint(((1, 1, 1),), (), ()),
    "a search": lambda: prover_of(matmul(m=8, n=8, k=4), load_arch("flat3")).descend(((1, 1, 1),), (), (), 10**9),
    "structures": lambda: prover_of(matmul(m=8, n=8, k=4), load_arch("flat3")).structures,
    "any sizes": lambda: least(prover_of(matmul(m=8, n=8, k=4), load_arch("flat3")).problem),
}


@pytest.mark.parametrize("what", SLOW)
def test_whatever_can_take_long_looks_at_the_clock(what: str) -> None:
    before = DEADLINE.set(time.process_time() - 1)
    try:
        with pytest.raises(OutOfTime, match="time is up"):
            SLOW[what]()
    finally:
        DEADLINE.reset(before)


def test_ranges_of_sibling_counts_are_those_that_count_alike() -> None:
    for extent in range(1, 80):
        for most in (1, 2, 7, 80):
            alike: dict[int, list[int]] = {}
            for count in range(1, min(extent, most) + 1):
                alike.setdefault(-(-extent // count), []).append(count)
            assert ranges(extent, most) == [(min(own), max(own)) for own in alike.values()]


def test_vectors_of_siblings_are_those_that_the_fan_outs_have() -> None:
    rng = random.Random("vectors")
    for _ in range(30):
        sizes, extents = [rng.randrange(1, 9) for _ in range(rng.randrange(1, 3))], [rng.randrange(1, 9) for _ in "mnk"]
        fans = [Fanout(f"F{i}", size, dims=tuple(rng.sample("mnk", 2))) for i, size in enumerate(sizes)]
        nodes = load_arch("flat3").nodes
        arch = replace(load_arch("flat3"), nodes=(nodes[0], *fans, nodes[-1]))
        problem = prover_of(matmul(m=extents[0], n=extents[1], k=extents[2]), arch).problem
        free = [[d in (fan.dims or ()) for d in "mnk"] for fan in fans]
        found = {tuple(low for low, _ in row) for row in vectors(problem, problem.classes[0])}
        assert found == _brute_rows(sizes, free, extents)


def _brute_rows(sizes: list[int], free: list[list[bool]], extents: list[int]) -> set[tuple[int, ...]]:
    """Return, from all factors of every fan-out, the least of the counts that are alike."""
    each = [
        [one for one in product(*(range(1, size + 1) if may else (1,) for may in row)) if prod(one) <= size]
        for size, row in zip(sizes, free, strict=True)
    ]
    found: set[tuple[int, ...]] = set()
    for factors in product(*each):
        most = [prod(column) for column in zip(*factors, strict=True)]
        counts = [[low for low, _ in ranges(n, 10**9) if low <= top] for n, top in zip(extents, most, strict=True)]
        found |= set(product(*counts))
    return found


def test_bounds_over_any_sizes_in_long_numbers_are_those_in_short_ones() -> None:
    workload, short = einsum("O[k,p] += I[c,2*p+r] * W[k,c,r]", k=4, c=3, p=7, r=3), load_arch("eyeriss_like")
    factor = Fraction(10**40 + 7, 3**20)
    small, large = prover_of(workload, short).problem, prover_of(workload, scaled(short, factor)).problem
    (count, bound), (again, scaled_bound) = least(small), least(large)
    assert count == again
    assert Fraction(bound, small.scale) * factor == Fraction(scaled_bound, large.scale)


def test_numbers_of_siblings_do_not_wrap() -> None:
    """Two huge fan-outs of different classes: products of their numbers are beyond 64 bits."""
    outer, inner, nodes = Fanout("A", 2**40), Fanout("B", 2**40, multicast=Multicast.NONE), load_arch("flat3").nodes
    arch = replace(load_arch("flat3"), nodes=(nodes[0], outer, inner, nodes[-1]))
    problem = prover_of(matmul(m=2**34, n=2, k=2), arch).problem
    low = [[np.array([one], dtype=object) for one in row] for row in ((2**34 - 1, 1, 2), (2, 2, 1))]
    siblings = Siblings(problem, low, low)
    assert siblings.one.dtype == object
    assert siblings.steps().tolist() == [1]
    assert bounds(siblings)[0][0] >= 0


def partitions(items: list[int], parts: int) -> Iterator[list[list[int]]]:
    """Yield every way to share items among so many parts, none empty."""
    if not items:
        yield from [[]] * (parts == 0)
        return
    for rest in partitions(items[1:], parts - 1):
        yield [items[:1], *rest]
    for rest in partitions(items[1:], parts):
        for at, own in enumerate(rest):
            yield [*rest[:at], [items[0], *own], *rest[at + 1 :]]


@pytest.mark.parametrize("weights", [(1, 1), (1, -1), (2, 1), (1, 2), (3, 1), (1, 4), (2, 3)])
@pytest.mark.parametrize("extents", [(4, 3), (5, 2), (2, 4), (3, 1)])
def test_parts_of_a_window_touch_no_fewer_elements_than_is_said(
    weights: tuple[int, int], extents: tuple[int, int]
) -> None:
    """Referee: every way to share the indices. As few do wherever one of two dims is whole, of step 1."""
    (a, b), (p, r) = weights, extents
    workload = einsum(f"O[p] += I[{a}*p{b:+}*r] * W[r]", p=p, r=r)
    problem = prover_of(workload, load_arch("flat3")).problem
    siblings = Siblings(problem, *[[[np.array([1], object)] * 2 for _ in problem.classes]] * 2)
    for visits in product(range(1, p + 1), range(1, r + 1)):
        parts = [partitions(list(range(extent)), count) for extent, count in zip(extents, visits, strict=True)]
        true = min(
            sum(len({a * i + b * j for i, j in product(*box)}) for box in product(*both)) for both in product(*parts)
        )
        whole = [count == 1 for count in visits]
        (found,) = siblings.elements(problem.tensors[1], [np.array([one], object) for one in visits], whole)
        met = (whole[0] and abs(a) == 1) or (whole[1] and abs(b) == 1) or abs(a * b) == 1
        assert found <= true, visits
        assert found == true or not met or 1 in extents, visits


@pytest.mark.parametrize("size", [2**24, 2**30, 10**30])
def test_too_many_structures_of_any_sizes_are_refused(size: int) -> None:
    arch = replace(load_arch("flat3"), nodes=tuple(_wide(node, size) for node in load_arch("flat3").nodes))
    before = DEADLINE.set(time.process_time() + 2)
    try:
        with pytest.raises(Refused, match="too many structures|time is up"):
            next(structures(prover_of(matmul(m=size, n=size, k=size), arch).problem))
    finally:
        DEADLINE.reset(before)


def _wide(node: Node, size: int) -> Node:
    return replace(node, size=size) if isinstance(node, Fanout) else node


def test_grids_of_long_extents_hold_exact_tiles() -> None:
    grid = Grid((10**30, 2**61 - 1), object)
    assert max(grid.tiles[:, 0].tolist()) == 10**30
    assert {1, 2**61 - 1} == set(grid.tiles[:, 1].tolist())
