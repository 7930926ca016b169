"""Formulas in the tiles against the simulator, at the mapping's tiles and at every other tile at which they claim to
hold; by hand where a reader can check; and what a cost with formulas still is: data."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from math import prod

import pytest
import sympy

import polymap as pm
from polymap.costmodel.closed_form.derivation import formula
from polymap.costmodel.counts import Counts
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.errors import BudgetError, OptionError
from polymap.ir.loopnest import Workload
from polymap.ir.mapping import Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.search.documents import cost_document
from polymap.workload.einsums import einsum
from tests import cases
from tests.cases import Case

TEXTS = (
    ("C[m,n] += A[m,k] * B[k,n]", (2, 4, 6)),
    ("O[k,p] += I[p+r] * W[k,r]", (3, 4, 6)),
    ("O[p] += I[2*p+r] * W[r]", (4, 6, 12)),
    ("O[p] += I[p+2*r] * W[r]", (4, 6, 12)),
    ("O[p,q] += I[p+r,q+s] * W[r,s]", (2, 4)),
    ("O[p+r] += I[p] * W[r]", (4, 6, 12)),
    ("O[p] += I[3*p-r] * W[r]", (4, 6, 8)),
)


def dividing_case(rng: random.Random) -> Case:
    """Return a nest of dims with many divisors, every tile dividing the one around it."""
    text, choices = rng.choice(TEXTS)
    letters = [letter for letter in dict.fromkeys(text) if letter.islower()]
    sizes = {letter: rng.choice(choices) for letter in letters}
    while prod(sizes.values()) > 100:  # the simulator walks it once per row and tile
        sizes = {letter: rng.choice(choices) for letter in letters}
    workload = einsum(text, sizes=sizes, initial=[text[0]] if rng.random() < 0.2 else [])
    arch = cases.random_machine(rng)
    tiles = {dim: chain(rng, extent) for dim, extent in sizes.items()}
    dims = tuple(sizes)
    loops = cases._loops(rng, workload, arch, dims, spreadable=frozenset(dims), tiles=tiles)
    nodes = (*cases._placed(rng, arch, loops, cases._held(rng, workload, arch)), Compute("S"))
    return cases._finished(rng, workload, arch, Mapping(nodes))


def chain(rng: random.Random, extent: int) -> list[int]:
    found = [1]
    for divisor in range(2, extent):
        if extent % divisor == 0 and divisor % found[0] == 0 and rng.random() < 0.6:
            found.insert(0, divisor)
    return found


def with_tiles(workload: Workload, mapping: Mapping, tiles: dict[str, int]) -> Mapping:
    """Return the tree with other tiles, named as formulas name them."""
    depths: dict[str, int] = {}
    around = workload.extents()
    nodes: list[MappingNode] = []
    for node in mapping.nodes:
        if isinstance(node, Temporal | Spatial):
            if node.tile >= around[node.dim]:
                continue
            around[node.dim] = node.tile
            depths[node.dim] = depths.get(node.dim, 0) + 1
            node = replace(node, tile=tiles.get(f"{node.dim}_{depths[node.dim]}", node.tile))
        nodes.append(node)
    return Mapping(tuple(nodes))


def other_tiles(workload: Workload, found: pm.study.Formula) -> Iterator[dict[str, int]]:
    extents = workload.extents()
    ranges = [[size for size in range(2, extents[tile.dim]) if extents[tile.dim] % size == 0] for tile in found.tiles]
    for values in product(*ranges):
        tiles = {tile.name: value for tile, value in zip(found.tiles, values, strict=True)}
        if found.holds(**tiles):
            yield tiles


@pytest.mark.slow
def test_a_formula_is_what_the_simulator_counts_wherever_its_conditions_hold() -> None:
    answered = elsewhere = 0
    for seed in range(30):
        case = dividing_case(random.Random(seed))

        @cache
        def counts(tiles: tuple[tuple[str, int], ...], case: Case = case) -> Counts:
            mapping = with_tiles(case.workload, case.mapping, dict(tiles))
            return count_by_simulation(case.workload, case.arch, mapping)

        for row in counts(()).traffic:
            try:
                found = formula(case.workload, case.arch, case.mapping, row.level, row.tensor)
            except BudgetError:
                continue
            answered += 1
            own = {tile.name: tile.tile for tile in found.tiles}
            points = list(other_tiles(case.workload, found))
            assert own in points or not own
            for tiles in (*random.Random(seed).sample(points, min(4, len(points))), own):
                there = counts(tuple(tiles.items()))
                (same,) = (each for each in there.traffic if (each.level, each.tensor) == (row.level, row.tensor))
                amounts = {"reads": same.reads, "writes": same.writes, "fills": same.fills, "drains": same.drains}
                assert found.at(**tiles) == amounts, (seed, row, tiles)
                elsewhere += tiles != own
    assert answered >= 150
    assert elsewhere >= 50


SLIDING = (
    ("O[p] += I[p-r] * W[r]", {"p": 12, "r": 4}),
    ("O[p] += I[3*p-2*r] * W[r]", {"p": 8, "r": 4}),
    ("O[p+r] += I[p] * W[r]", {"p": 6, "r": 4}),
    ("O[p-2*r] += I[p] * W[r]", {"p": 8, "r": 2}),
    ("O[p,q] += I[p+r,q-s] * W[r,s]", {"p": 4, "q": 4, "r": 2, "s": 2}),
)


@pytest.mark.parametrize("number", range(len(SLIDING)))
def test_a_formula_of_a_window_is_what_is_counted_or_there_is_none(number: int) -> None:
    text, sizes = SLIDING[number]
    answered = 0
    for seed in range(6):
        rng = random.Random(seed)
        workload = einsum(text, sizes=sizes)
        arch = cases.random_machine(rng)
        tiles = {dim: chain(rng, extent) for dim, extent in sizes.items()}
        loops = cases._loops(rng, workload, arch, tuple(sizes), spreadable=frozenset(sizes), tiles=tiles)
        nodes = (*cases._placed(rng, arch, loops, cases._held(rng, workload, arch)), Compute("S"))
        case = cases._finished(rng, workload, arch, Mapping(nodes))

        @cache
        def counted(tiles: tuple[tuple[str, int], ...], case: Case = case) -> pm.Cost:
            return pm.evaluate(case.workload, case.arch, with_tiles(case.workload, case.mapping, dict(tiles)))

        for row in counted(()).traffic:
            try:
                found = formula(workload, case.arch, case.mapping, row.level, row.tensor)
            except BudgetError:
                continue
            answered += 1
            points = list(other_tiles(workload, found))
            for tiles_there in rng.sample(points, min(3, len(points))):
                there = counted(tuple(tiles_there.items()))
                (same,) = (each for each in there.traffic if (each.level, each.tensor) == (row.level, row.tensor))
                amounts = {"reads": same.reads, "writes": same.writes, "fills": same.fills, "drains": same.drains}
                assert found.at(**tiles_there) == amounts, (seed, row, tiles_there)
    assert answered >= 10


GEMM = einsum("C[m,n] += A[m,k] * B[k,n]", m=16, n=8, k=12)
FLAT = pm.Architecture(
    "flat", (pm.MemoryLevel("DRAM"), pm.MemoryLevel("Buf"), pm.ComputeUnit("MAC"))
)  # a product through one buffer
BLOCKED = Mapping(
    (
        Temporal("m", 4),
        Temporal("n", 4),
        Temporal("k", 3),
        Storage("Buf", ("A", "B", "C")),
        Temporal("m", 1),
        Temporal("n", 1),
        Temporal("k", 1),
        Compute("S"),
    )
)


def test_a_blocked_product_loads_what_the_textbook_says() -> None:
    m, n, k = (sympy.Symbol(name, integer=True, positive=True) for name in ("m_1", "n_1", "k_1"))
    cost = pm.evaluate(GEMM, FLAT, BLOCKED)
    assert sympy.simplify(cost.formula("Buf", "A").fills - 16 * 12 * 8 / n) == 0
    assert sympy.simplify(cost.formula("Buf", "B").fills - 12 * 8 * 16 / m) == 0
    assert cost.formula("Buf", "C").drains == 16 * 8
    assert cost.formula("Buf", "C").fills == 0
    assert cost.formula("DRAM", "A").reads == cost.formula("Buf", "A").fills
    assert k not in cost.formula("Buf", "A").fills.free_symbols


def test_partial_sums_come_back_for_each_part_of_a_sum() -> None:
    nodes = BLOCKED.nodes
    found = pm.evaluate(GEMM, FLAT, Mapping((nodes[2], *nodes[:2], *nodes[3:]))).formula("Buf", "C")
    assert found.at(k_1=2)["fills"] == 16 * 8 * (12 // 2 - 1)
    assert found.at(k_1=2)["drains"] == 16 * 8 * (12 // 2)


def test_a_sliding_window_loads_its_new_part() -> None:
    layer = einsum("O[p] += I[p+r] * W[r]", p=12, r=3)
    mapping = Mapping((Temporal("p", 4), Storage("Buf", ("I",)), Temporal("r", 1), Temporal("p", 1), Compute("S")))
    found = pm.evaluate(layer, FLAT, mapping).formula("Buf", "I")
    assert found.fills == 14  # 12 + 3 - 1: every element once, whatever the tile
    assert found.at(p_1=6)["fills"] == 14
    outer = Mapping((Temporal("r", 1), Temporal("p", 4), Storage("Buf", ("I",)), Temporal("p", 1), Compute("S")))
    again = pm.evaluate(layer, FLAT, outer).formula("Buf", "I")
    assert again.at()["fills"] == 36
    assert again.at(p_1=3) == {"reads": 36, "writes": 36, "fills": 36, "drains": 0}
    assert not again.holds(p_1=6)  # there the first window of a round meets the last one of the round before


def test_conditions_say_where_a_formula_holds() -> None:
    found = pm.evaluate(GEMM, FLAT, BLOCKED).formula("Buf", "A")
    assert [(tile.name, tile.dim, tile.depth, tile.enclosing, tile.tile) for tile in found.tiles] == [
        ("m_1", "m", 1, 16, 4),
        ("n_1", "n", 1, 8, 4),
        ("k_1", "k", 1, 12, 3),
    ]
    assert found.holds(n_1=2)
    assert not found.holds(n_1=3)
    with pytest.raises(
        OptionError, match=r"PM530 the formula of A at 'Buf' holds where Eq\(Mod\(8, n_1\), 0\), and not"
    ):
        found.at(n_1=3)
    with pytest.raises(OptionError, match=r"(?s)PM531 no tile 'nn_1' in the formula.*Did you mean 'n_1'"):
        found.at(nn_1=3)


def test_what_has_no_formula_says_so() -> None:
    ragged = Mapping((Temporal("m", 5), *BLOCKED.nodes[3:5], *BLOCKED.nodes[5:]))
    with pytest.raises(BudgetError, match="PM495 no formula: a tile of the mapping does not divide"):
        formula(GEMM, FLAT, ragged, "Buf", "A")
    bare = Mapping((*BLOCKED.nodes[:3], *BLOCKED.nodes[4:]))
    with pytest.raises(OptionError, match=r"PM534 'Buf' does not hold B\n.*in: DRAM\."):
        formula(GEMM, FLAT, bare, "Buf", "B")
    with pytest.raises(OptionError, match=r"(?s)PM532 no tensor 'Z'"):
        formula(GEMM, FLAT, BLOCKED, "Buf", "Z")
    with pytest.raises(OptionError, match=r"(?s)PM533 no level 'Bug'.*Did you mean 'Buf'"):
        formula(GEMM, FLAT, BLOCKED, "Bug", "A")
    with pytest.raises(BudgetError, match="PM496 this cost does not know its mapping"):
        replace(pm.evaluate(GEMM, FLAT, BLOCKED), mapping=None).formula("Buf", "A")


def test_a_cost_stays_data() -> None:
    cost, again = (pm.evaluate(GEMM, FLAT, BLOCKED) for _ in range(2))
    assert cost == again
    assert hash(cost) == hash(again)
    assert (cost.workload, cost.arch, cost.mapping) == (GEMM, FLAT, BLOCKED)
    assert cost == replace(cost, workload=None, arch=None, mapping=None)
    for name in ("workload", "arch", "mapping", "exact"):
        assert f"{name}=" not in repr(cost)
        assert name not in cost_document(cost)
    copied = pickle.loads(pickle.dumps(cost))
    assert copied == cost
    assert copied.formula("Buf", "A") == cost.formula("Buf", "A")


def test_a_formula_prints_its_expressions_tiles_and_conditions() -> None:
    text = str(pm.evaluate(GEMM, FLAT, BLOCKED).formula("Buf", "A"))
    assert text.startswith("A at Buf, in elements over all instances\n  reads  = 1536\n  writes = 1536/n_1\n")
    assert "\n  n_1 is the tile of loop 1 over n, inside 8; here 4\n" in text
    assert "\n  Eq(Mod(8, n_1), 0)" in text
