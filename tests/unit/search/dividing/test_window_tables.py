"""Loads of a tensor that is read through a window, below tiles that are decided, against walking every loop order."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import permutations, product
from math import prod

import numpy as np

from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.search.dividing.branch_and_bound import entry_at
from polymap.search.dividing.cost_tables import Tables, build_tables
from polymap.search.dividing.node_costs import Context, root_context
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import measure_of
from polymap.search.problem.problem import analyse
from polymap.search.problem.structures import enumerate_structures
from polymap.workload.einsums import einsum

LAYER = einsum("O[k,p] += I[c,p+r] * W[k,c,r]", k=2, c=2, p=4, r=2)
FLAT = Architecture(
    "flat",
    (
        MemoryLevel("DRAM", None, 8, Fraction(1), Fraction(1)),
        MemoryLevel("BUF", None, 8, Fraction(1), Fraction(1)),
        ComputeUnit("MAC", Fraction(1)),
    ),
)
DIMS = ("k", "p", "c", "r")
WHOLE = (2, 4, 2, 2)
Tile = tuple[int, ...]
Loops = tuple[int, ...]  # the dim (number) of each loop of two iterations, innermost first


def tiles(limit: Tile) -> Iterator[Tile]:
    """Yield the tiles that divide a tile of powers of two."""
    yield from product(*([size for size in (1, 2, 4) if size <= top] for top in limit))


def orders(inner: Tile, outer: Tile) -> set[Loops]:
    """Return the orders of loops of two iterations that lead from one tile to another."""
    steps = [d for d in range(len(DIMS)) for _ in range((outer[d] // inner[d]).bit_length() - 1)]
    return set(permutations(steps))


def loads(tile: Tile, loops: Loops) -> int:
    """Return the elements of I that a node with this tile loads, keeping what consecutive tiles share."""
    held: set[tuple[int, int]] = set()
    total = 0
    for counters in product((0, 1), repeat=len(loops)):
        corner, step = [0] * len(DIMS), list(tile)
        for dim, counter in zip(loops, reversed(counters), strict=True):
            corner[dim] += counter * step[dim]
            step[dim] *= 2
        _, p, c, r = (range(first, first + size) for first, size in zip(corner, tile, strict=True))
        now = {(a, b + e) for a in c for b in p for e in r}
        total += len(now - held)
        held = now
    return total


def tables_below(mark: Tile) -> Tables:
    """Return the tables below a node that stands at the mark, as costs of reads at the outermost level."""
    problem = analyse(LAYER, FLAT)
    assert problem.dims == DIMS
    measure = measure_of(parse_objective("traffic:DRAM", FLAT), LAYER, FLAT)
    [structure] = enumerate_structures(problem, lambda: False)[0]
    assert root_context(problem, structure).tiles == (WHOLE,)
    return build_tables(problem, structure, measure, Context((WHOLE, mark), ()))


def test_loads_below_a_mark_are_the_least_over_all_orders_that_pass_it() -> None:
    exact = 0
    for mark in tiles(WHOLE):
        tables = tables_below(mark)
        [table] = [table for table in tables.tensors if table.term.tensor.name == "I"]
        [edge] = [edge for edge in table.edges if (edge.parent, edge.level) == (0, 1)]
        bits = table.term.tensor.bits
        outer = orders(mark, WHOLE)
        for index in np.ndindex(tables.lattice.shape):
            tile = tuple(tables.lattice.point(index)[dim] for dim in DIMS)
            # A loop over a dim that the tensor lacks does not stand right above its node: the node would be raised.
            inner = [one for one in orders(tile, mark) if not one or one[0] != 0]
            if not inner or (tile == mark and mark[0] < WHOLE[0]):
                continue
            least = min(loads(tile, (*a, *b)) for a in inner for b in outer)
            found = int(entry_at(edge.cost.costs[0], index)) // bits
            assert found <= least, (mark, tile)
            if tile[0] == mark[0]:
                assert found == least, (mark, tile)
                exact += 1
    assert exact > prod(WHOLE)
