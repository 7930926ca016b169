"""Parts of the search over tiles of any size by themselves: ranges of factors, sizes in cells, windows, mappings."""

from __future__ import annotations

import pickle
import random
from fractions import Fraction
from itertools import product
from math import ceil, prod

import numpy as np
import pytest

from polymap.costmodel.evaluation import evaluate
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Spatial, Storage, Temporal
from polymap.search.any_size.convex import ConvexBounds
from polymap.search.any_size.mappings import (
    cells_around_optima,
    single_tiles_near_chain,
    single_tiles_near_optimum,
    start_factors,
    tree_of_chain,
    trip_counts,
)
from polymap.search.any_size.node_costs import fewest_elements
from polymap.search.any_size.regions import (
    FactorRange,
    Region,
    first_region,
    has_trip_counts,
    sizes_in_cells,
)
from polymap.search.any_size.relaxation import inner_cells, minimum_inside, relax
from polymap.search.any_size.tuning import TUNING
from polymap.search.objective.measure import measure_of
from polymap.search.objective.scores import exact_score
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.problem import analyse
from polymap.search.resources.caches import SearchCaches
from polymap.search.resources.limits import never
from polymap.workload.einsums import einsum
from tests.unit.search.any_size_trees import questions, random_region


def test_the_halves_of_a_range_hold_each_of_its_factors_once() -> None:
    factors = {Fraction(m, t) for m in range(1, 25) for t in range(1, m + 1)}
    waiting = [FactorRange(Fraction(1), Fraction(high)) for high in (2, 7, 24)]
    for _ in range(40):
        one = waiting.pop(0)
        parts = one.halves()
        for factor in factors:
            assert sum(holds(part, factor) for part in parts) == holds(one, factor)
            for part in parts:
                assert not holds(part, factor) or part.least_trips <= ceil(factor) <= part.most_trips
        waiting += [part for part in parts if part.ratio > 1.01]


def holds(one: FactorRange, factor: Fraction) -> bool:
    return one.low < factor <= one.high or factor == one.low == one.high or factor == one.low == 1


def test_a_region_is_possible_where_some_trip_counts_per_fanout_reach_its_factors() -> None:
    rng = random.Random("trip counts")
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=8, n=8, k=8)
    outcomes: list[bool] = []
    for _ in range(60):
        fanouts = [
            Fanout(name, rng.choice((2, 3, 4, 6)), dims=rng.choice((None, ("m",), ("m", "n")))) for name in ("X", "Y")
        ]
        arch = Architecture("a", (MemoryLevel("DRAM"), *fanouts, MemoryLevel("RF", 512), ComputeUnit("MAC")))
        problem = analyse(workload, arch)
        if len(problem.classes) != 1:
            continue
        ranges = [sorted((rng.randint(1, 8), rng.randint(1, 8))) for _ in problem.dims]
        row = tuple(FactorRange(Fraction(max(1, low - 1)), Fraction(max(high, 1))) for low, high in ranges)
        allowed = [[d for d, dim in enumerate(problem.dims) if f.dims is None or dim in f.dims] for f in fanouts]
        plans = [
            [trips for trips in product(range(1, f.size + 1), repeat=3) if prod(trips) <= f.size and fits(trips, own)]
            for f, own in zip(fanouts, allowed, strict=True)
        ]
        found = any(
            all(one.least_trips <= a * b <= one.most_trips for one, a, b in zip(row, x, y, strict=True) if one.low > 1)
            for x, y in product(*plans)
        )
        outcomes.append(found)
        assert has_trip_counts(problem, Region((row,), ()), SearchCaches()) == found
    assert {True, False} <= set(outcomes)


def fits(trips: tuple[int, ...], own: list[int]) -> bool:
    return all(n == 1 or d in own for d, n in enumerate(trips))


def test_sizes_in_cells_enclose_those_of_every_tile_and_are_met() -> None:
    ends = tuple(Fraction(n) for n in (1, 4, 9, 20))
    fewest, most = sizes_in_cells(ends, (Fraction(1), Fraction(1)), 18, whole=True)
    assert (fewest, most) == ([1, 2, 5, 10], [1, 4, 9, 18])
    for low, high in ((Fraction(1), Fraction(5, 2)), (Fraction(2, 5), Fraction(1))):
        fewest, most = sizes_in_cells(ends, (low, high), 18, whole=False)
        for cell in range(len(ends)):
            for size in range(1, 19):
                # A tile of so many indices is the cell's value times a scale.
                values = [Fraction(size) / scale for scale in (low, high, (low + high) / 2)]
                before = ends[cell - 1] if cell else Fraction(0)
                if any(before < value <= ends[cell] for value in values) and (cell or Fraction(1) in values):
                    assert fewest[cell] <= size <= most[cell]


@pytest.mark.parametrize("coefficients", [(1,), (1, 1), (2, 1), (1, 3), (3, 2), (1, 1, 2)])
def test_a_tile_has_no_fewer_elements_than_is_said_and_intervals_have_just_so_many(
    coefficients: tuple[int, ...],
) -> None:
    rng = random.Random(f"elements {coefficients}")
    axes = tuple((1, 2, 3, 5) for _ in coefficients)
    for gaps in product((False, True), repeat=len(coefficients)):
        said = fewest_elements(coefficients, axes, gaps)
        for at in product(range(4), repeat=len(coefficients)):
            sets = [
                rng.sample(range(9), axes[d][i]) if gap else list(range(axes[d][i]))
                for d, (i, gap) in enumerate(zip(at, gaps, strict=True))
            ]
            elements = {sum(c * x for c, x in zip(coefficients, xs, strict=True)) for xs in product(*sets)}
            assert said[at] <= len(elements)
            if coefficients in {(1,), (1, 1), (2, 1)} and not any(gaps):
                assert said[at] == len(elements)


def test_below_spatial_loops_the_cells_that_tiles_reach_are_those_of_the_least_factor() -> None:
    """The largest tile of a cell over the least factor lies in the cell that is told, and in no smaller one."""
    rng = random.Random("inner cells")
    met = 0
    for asked in questions("inner cells", 12, tiles="any", windows=False, objective="energy"):
        problem = asked.problem
        region = random_region(rng, problem)
        tables = asked.tables(region)
        for outer, inner in ((u, v) for v in range(len(tables.ends)) for u in range(v)):
            for d, ends in enumerate(tables.ends[outer]):
                least = region.factor_product(d, (outer, inner), problem, high=False)
                for end, cell in zip(ends, inner_cells(tables, (outer, inner), d), strict=True):
                    tiles = tables.ends[inner][d]
                    reached = min(end / least, tiles[-1])
                    assert reached <= tiles[cell]
                    assert not cell or tiles[cell - 1] <= reached * (1 + Fraction(1, 10**8))
                    met += 1
    assert met > 30


def test_the_minimum_inside_is_over_all_cells_that_are_not_larger() -> None:
    table = np.random.default_rng(3).integers(0, 1000, (4, 3, 5, 9)).astype(float)
    plain = table.copy()
    minimum_inside(table)
    for at in np.ndindex(table.shape):
        assert table[at] == plain[tuple(slice(0, i + 1) for i in at)].min()


@pytest.mark.parametrize("windows", [False, True])
def test_single_tiles_near_a_relaxed_chain_become_legal_trees_of_its_nodes(windows: bool) -> None:
    rng = random.Random(f"rounding {windows}")
    rounded = 0
    for asked in questions(f"rounding {windows}", 10, tiles="any", windows=windows, objective="energy"):
        workload, arch = asked.problem.workload, asked.problem.arch
        best = min(tree.value for tree in asked.trees)
        whole = asked.tables(rng.choice((first_region(asked.problem), random_region(rng, asked.problem))))
        relaxed = relax(whole, 0, (0.0,) * len(arch.levels))
        if relaxed is None:
            continue
        tables = asked.tables(single_tiles_near_chain(whole, relaxed.chain, TUNING))
        near = relax(tables, 0, (0.0,) * len(arch.levels))
        if near is None:
            continue
        tree = tree_of_chain(tables, near.chain)
        levels = [(node.level, name) for node in tree.nodes if isinstance(node, Storage) for name in node.tensors]
        names = [asked.problem.terms[node.tensor].tensor.name for node in near.chain]
        assert levels == [(arch.levels[node.level].name, name) for node, name in zip(near.chain, names, strict=True)]
        score = exact_score(workload, arch, parse_objective("energy", arch), tree)
        assert score is not None
        assert score.excess or score.value >= best
        rounded += evaluate(workload, arch, tree).legal
    assert rounded >= 3


def test_what_a_search_starts_from_is_possible_and_single_tiles_are_near_the_optimum() -> None:
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=30, n=17, k=24)
    arch = Architecture(
        "two", (MemoryLevel("DRAM", read_pj=Fraction(9)), Fanout("X", 8), MemoryLevel("RF", 1024), ComputeUnit("MAC"))
    )
    problem, caches = analyse(workload, arch), SearchCaches()
    asked = parse_objective("energy", arch)
    convex = ConvexBounds(problem, measure_of(asked, workload, arch), caches)
    region = first_region(problem)
    assert convex.numbers is not None
    optima = convex.optima(region, convex.numbers, never)
    assert optima
    found = start_factors(problem, None, optima, caches, TUNING)
    assert 1 < len(found) <= TUNING.start_factors
    for factors in found:
        one = Region(factors, region.borders)
        assert has_trip_counts(problem, one, caches)
        trips = trip_counts(problem, one)
        assert prod(trips[0]) <= 8
        assert all(r.least_trips <= n <= r.most_trips for r, n in zip(factors[0], trips[0], strict=True))
        tiles = single_tiles_near_optimum(problem, one, optima[0], trips, TUNING)
        assert tiles.single_tiles
        assert all(
            1 <= size <= extent for row in tiles.borders for d, extent in enumerate(problem.extents) for size in row[d]
        )
    finer = cells_around_optima(problem, region, optima, TUNING)
    assert all(
        set(old) <= set(new)
        for a, b in zip(region.borders, finer.borders, strict=True)
        for old, new in zip(a, b, strict=True)
    )
    for tile in optima[0].tiles:
        for d, size in enumerate(tile):
            assert any(abs(float(end) - size) <= 1 + 0.1 * size for end in finer.cell_ends(0, d, problem))


def test_a_search_remembers_answers_of_its_own_and_a_copy_none() -> None:
    calls: list[int] = []

    def square(n: int) -> int:
        calls.append(n)
        return n * n

    caches = SearchCaches()
    assert [caches.memo(square)(n) for n in (3, 3, 4)] == [9, 9, 16]
    assert calls == [3, 4]
    SearchCaches().memo(square)(3)
    pickle.loads(pickle.dumps(caches)).memo(square)(3)
    assert calls == [3, 4, 3, 3]


def test_the_nodes_of_a_tree_shrink_only() -> None:
    """Loops of a rounded tree cut what the loops above them leave."""
    for asked in questions("shrink", 4, tiles="any", windows=False, objective="energy"):
        tables = asked.tables(first_region(asked.problem))
        relaxed = relax(tables, 0, (0.0,) * asked.problem.level_count)
        assert relaxed is not None
        near = asked.tables(single_tiles_near_chain(tables, relaxed.chain, TUNING))
        chain = relax(near, 0, (0.0,) * asked.problem.level_count)
        if chain is None:
            continue
        left = dict(zip(asked.problem.dims, asked.problem.extents, strict=True))
        for node in tree_of_chain(near, chain.chain).nodes:
            if isinstance(node, Spatial | Temporal):
                assert 1 <= node.tile < left[node.dim]
                left[node.dim] = node.tile
        assert set(left.values()) == {1}
