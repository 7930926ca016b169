"""Chains in which nodes stand lower, parting two loops over one dim: against trying every tile of every node."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product
from math import prod

import pytest

from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.search.dividing.chain import ChainNode, is_mark, separated_chains
from polymap.search.dividing.cost_tables import Tables, build_tables
from polymap.search.dividing.node_costs import root_context
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import measure_of
from polymap.search.problem.problem import analyse
from polymap.search.problem.structures import enumerate_structures
from polymap.workload.einsums import einsum

LAYER = einsum("O[k,p] += I[c,p+r] * W[k,c,r]", k=4, c=2, p=4, r=2)
LEVELS = ("DRAM", "BUF", "RF")
DEEP = Architecture(
    "deep",
    (
        *(MemoryLevel(name, None, 8, Fraction(1), Fraction(1)) for name in LEVELS),
        ComputeUnit("MAC", Fraction(1)),
    ),
)
Tile = tuple[int, ...]
Moved = tuple[tuple[tuple[int, int, Tile], ...], frozenset[Tile]]  # the real nodes in order, and the marks


def tables() -> Tables:
    problem = analyse(LAYER, DEEP)
    measure = measure_of(parse_objective("energy", DEEP), LAYER, DEEP)
    [structure] = enumerate_structures(problem, lambda: False)[0]
    return build_tables(problem, structure, measure, root_context(problem, structure))


def random_chain(rng: random.Random, asked: Tables) -> tuple[ChainNode, ...]:
    """Return a chain of two to four nodes, as the search places them: smaller tiles further in, then by level."""
    while True:
        tile, holders, chain = asked.context.tiles[0], [0] * 3, list[ChainNode]()
        for _ in range(rng.randint(2, 4)):
            tile = tuple(rng.choice([size for size in (1, 2, 4) if size <= top]) for top in tile)
            tensor = rng.randrange(3)
            if holders[tensor] < len(LEVELS) - 1:
                level = rng.randint(holders[tensor] + 1, len(LEVELS) - 1)
                chain.append(ChainNode(tensor, holders[tensor], level, tile))
                holders[tensor] = level
        order = [(-prod(node.tile), node.level, node.tensor) for node in chain]
        if len(chain) > 1 and order == sorted(order):
            return tuple(chain)


def lower(asked: Tables, chain: tuple[ChainNode, ...]) -> Iterator[Moved]:
    """Yield every way to put nodes lower by loops over dims that their tensors lack, at most one loop per dim between
    two nodes."""
    whole = asked.context.tiles[0]
    dims, terms = asked.problem.dims, asked.problem.terms
    sizes = list(product(*([size for size in (1, 2, 4) if size <= top] for top in whole)))
    for tiles in product(sizes, repeat=len(chain)):
        stops = sorted({whole, (1,) * len(whole), *tiles, *(node.tile for node in chain)}, key=prod, reverse=True)
        if any(a % b for outer, inner in pairwise(stops) for a, b in zip(outer, inner, strict=True)):
            continue
        placed = list(zip(chain, tiles, strict=True))
        if not all(may_stand(node, tile, placed, dims, terms[node.tensor]) for node, tile in placed):
            continue
        real = {whole, (1,) * len(whole), *tiles}
        if any(parts_twice(stops, real, d) for d in range(len(dims))):
            continue
        placed.sort(key=lambda one: (-prod(one[1]), one[0].level, one[0].tensor))
        nodes = tuple((node.tensor, node.level, tile) for node, tile in placed)
        yield nodes, frozenset(node.tile for node, tile in placed if node.tile != tile)


def may_stand(node, tile, placed, dims, term) -> bool:
    """Return whether a node keeps its tile along its own dims (a window tensor's node: along all), stands no higher
    than before, and not below the next node of its tensor."""
    fixed = [term.is_window or dim in term.dims for dim in dims]
    if any(a % b or (same and a != b) for a, b, same in zip(node.tile, tile, fixed, strict=True)):
        return False
    later = [
        other.tile for other, _ in placed[[one for one, _ in placed].index(node) + 1 :] if other.tensor == node.tensor
    ]
    return not later or all(a % b == 0 for a, b in zip(tile, later[0], strict=True))


def parts_twice(stops: list[Tile], real: set[Tile], d: int) -> bool:
    """Return whether a dim has two loops between two nodes, or between a node and an end."""
    loops = 0
    for outer, inner in pairwise(stops):
        loops = loops * (outer not in real) + (outer[d] > inner[d])
        if loops > 1:
            return True
    return False


@pytest.mark.parametrize("seed", range(12))
def test_nodes_stand_lower_in_every_way_that_parts_each_loop_once(seed: int) -> None:
    rng, asked = random.Random(f"lower {seed}"), tables()
    chain = random_chain(rng, asked)
    found = [
        (
            tuple((node.tensor, node.level, node.tile) for node in one if not is_mark(node)),
            frozenset(node.tile for node in one if is_mark(node)),
        )
        for one in separated_chains(asked, chain)
    ]
    assert len(found) == len(set(found))
    assert set(found) == set(lower(asked, chain))
