"""Rules about the order of loops: where a node may stand and how a block is ordered, against trying every order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise, permutations, product

import numpy as np
import pytest

from polymap.search.problem.lattice import divisors, lattice_below
from polymap.search.problem.loop_orders import inside_of, may_stand, order_dims, order_rules, standing_tiles
from polymap.search.problem.rules import Factor, Innermost, OrderRule, Outermost, Outside
from tests.times import few

DIMS = ("m", "n", "k")
Tile = tuple[int, ...]
Block = tuple[int, ...]  # the dims (numbers) of a block's loops, outermost first


def is_met(rule: OrderRule, order: list[str]) -> bool:
    """Return whether loops in this order, a dim perhaps several times, meet a rule as its docstring says it."""
    match rule:
        case Outside(outer, inner):
            return not any(dim == inner and outer in order[place:] for place, dim in enumerate(order))
        case Outermost(dims):
            begun = list(dict.fromkeys(order))
            return begun[: len(set(dims) & set(begun))] == [dim for dim in dims if dim in begun]
        case Innermost(dims):
            ended = list(dict.fromkeys(reversed(order)))
            return ended[: len(set(dims) & set(ended))] == [dim for dim in reversed(dims) if dim in ended]


def chains(whole: Tile, steps: int) -> Iterator[tuple[Tile, ...]]:
    """Yield the tiles of up to so many nodes, each dividing the one above, between the whole and single indices."""
    for tiles in product(*(product(*map(divisors, whole)) for _ in range(steps))):
        path = (whole, *tiles, (1,) * len(whole))
        if all(a % b == 0 for outer, inner in pairwise(path) for a, b in zip(outer, inner, strict=True)):
            yield path


def orders_of(path: tuple[Tile, ...]) -> Iterator[tuple[Block, ...]]:
    """Yield every order of the loops of every block."""
    loops = [[d for d in range(len(DIMS)) if outer[d] > inner[d]] for outer, inner in pairwise(path)]
    yield from product(*(permutations(block) for block in loops))


def keeps(block: Block, inside: dict[int, set[int]]) -> bool:
    return all(other not in inside[d] for place, d in enumerate(block) for other in block[:place])


RULES: list[tuple[OrderRule, ...]] = [
    (Outside("m", "n"),),
    (Outside("k", "m"), Outside("m", "n")),
    (Outermost(("n",)),),
    (Outermost(("k", "m")),),
    (Innermost(("n",)),),
    (Innermost(("m", "k")),),
    (Outermost(("m",)), Innermost(("n", "k"))),
    (Outside("m", "n"), Outside("n", "m")),  # met by no tree that has loops over both
]


@pytest.mark.parametrize("rules", RULES, ids=str)
@pytest.mark.parametrize("whole", [(4, 2, 2), (2, 6, 1), (2, 2, 2)], ids=str)
def test_a_tree_meets_the_rules_exactly_where_nodes_may_stand_and_blocks_are_ordered(
    rules: tuple[OrderRule, ...], whole: Tile
) -> None:
    met = 0
    for path in chains(whole, 1):
        standing = all(may_stand(rules, DIMS, tile, whole) for tile in path[1:-1])
        inside = [inside_of(rules, DIMS, whole, a, b) for a, b in pairwise(path)]
        for blocks in orders_of(path):
            order = [DIMS[d] for block in blocks for d in block]
            found = standing and all(keeps(block, own) for block, own in zip(blocks, inside, strict=True))
            assert found == all(is_met(rule, order) for rule in rules), (path, order)
            met += found
    assert met or rules == RULES[-1]


@pytest.mark.parametrize("rules", RULES, ids=str)
def test_the_tiles_of_a_lattice_are_asked_one_by_one(rules: tuple[OrderRule, ...]) -> None:
    whole = {"m": 12, "n": 4, "k": 3}
    lattice = lattice_below(tuple(whole.items()))
    standing = standing_tiles((*rules, Factor("X", "m", 1, 4)), lattice, whole)
    assert standing is not None
    table = np.broadcast_to(standing, lattice.shape)
    for place in np.ndindex(lattice.shape):
        tile = [lattice.point(place)[dim] for dim in DIMS]
        assert table[place] == may_stand(rules, DIMS, tile, tuple(whole.values())), tile


def test_rules_about_anything_else_say_nothing_about_the_order() -> None:
    other = (Factor("X", "m", 1, 4),)
    assert order_rules(other) == ()
    assert standing_tiles(other, lattice_below((("m", 4),)), {"m": 4}) is None
    assert may_stand(other, ("m",), (2,), (4,))
    assert inside_of(other, ("m",), (4,), (4,), (2,)) == {0: set()}


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_an_order_is_found_exactly_where_there_is_one(seed: int) -> None:
    rng = random.Random(seed)
    dims = range(rng.randint(1, 5))
    below = {d: {e for e in dims if e != d and rng.random() < 0.3} for d in dims}
    orders = [order for order in permutations(dims) if keeps(order, below)]
    found = order_dims(below)
    assert (found is None) == (not orders)
    assert found is None or found in orders
