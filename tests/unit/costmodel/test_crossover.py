"""From which accumulator size on weight-stationary moves less than output-stationary, in the textbook's small
convolution (rows C1, C2, C4); referee: every size tried one by one, on a machine of that size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest

from polymap.costmodel.crossovers import Family, crossover, family, placements
from polymap.costmodel.evaluation import evaluate
from polymap.ir.errors import OptionError
from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, MappingNode, Storage, Temporal
from polymap.workload.einsums import einsum

LAYER = einsum("O[m,h,w] += I[h+r,w+s] * W[m,r,s]", m=16, h=6, w=6, r=3, s=3)
PRIVATE = Architecture(
    "private",
    (
        MemoryLevel("DRAM"),
        MemoryLevel("WREG", 8, holds=("@weight",)),
        MemoryLevel("IREG", 8, holds=("@input",)),
        MemoryLevel("OREG", 8, holds=("@output",)),
        ComputeUnit("MAC"),
    ),
)
STORES = {"W": Storage("WREG", ("W",)), "I": Storage("IREG", ("I",)), "O": Storage("OREG", ("O",))}


def nest(text: str) -> Mapping:
    nodes: list[MappingNode] = [STORES[word] if word in STORES else Temporal(word, 1) for word in text.split()]
    return Mapping((*nodes, Compute("S")))


def tilings(mapping: Mapping) -> Iterator[Mapping]:
    """Yield the mapping with every choice of tiles that divide the enclosing ones, in place of its own tiles.

    The innermost loop over a dim has tile 1.
    """
    loops = [node for node in mapping.nodes if isinstance(node, Temporal)]
    places = {dim: [place for place, loop in enumerate(loops) if loop.dim == dim] for dim in LAYER.extents()}
    chains = [list(_chains(LAYER.extents()[dim], len(at))) for dim, at in places.items()]
    for chosen in product(*chains):
        tiles = [1] * len(loops)
        for at, chain in zip(places.values(), chosen, strict=True):
            for place, tile in zip(at, chain, strict=True):
                tiles[place] = tile
        left = iter(tiles)
        nodes = (replace(n, tile=next(left)) if isinstance(n, Temporal) else n for n in mapping.nodes)
        yield Mapping(tuple(nodes))


def _chains(extent: int, loops: int) -> Iterator[tuple[int, ...]]:
    """Yield the tiles of a dim's loops, outermost first."""
    if loops == 0:
        yield ()
    elif loops == 1:
        yield (1,)
    else:
        for tile in range(1, extent + 1):
            if extent % tile == 0:
                yield from ((tile, *rest) for rest in _chains(tile, loops - 1))


def orders(name: str, text: str) -> Family:
    """Return the loops in this order with the accumulators as far out as one likes."""
    return family(name, placements(LAYER, PRIVATE, nest(text), "OREG"))


WEIGHTS = orders("weight-stationary", "m r s W h w I O")
OUTPUTS = orders("output-stationary", "h w m r s W I O")
TILED = family(
    "weight-stationary in blocks",
    (member for at in ("m h w O r s W h w I", "m h w r s W h w O I") for member in tilings(nest(at))),
)


def least_by_trying(members: Family, accumulators: int) -> int | None:
    """Return the least words moved by a member that is legal on the machine with so many accumulators."""
    nodes = (
        replace(node, capacity_bits=8 * accumulators) if isinstance(node, MemoryLevel) and node.name == "OREG" else node
        for node in PRIVATE.nodes
    )
    arch = replace(PRIVATE, nodes=tuple(nodes))
    costs = [evaluate(LAYER, arch, mapping) for mapping in members.members]
    totals = [
        sum(row.reads + row.writes for row in cost.traffic if row.level == "DRAM") for cost in costs if cost.legal
    ]
    return min(totals, default=None)


def test_weight_stationary_wins_from_36_accumulators_on() -> None:
    found = crossover(LAYER, PRIVATE, WEIGHTS, OUTPUTS, "OREG")
    assert found.capacity_bits == 36 * 8
    assert found.before is not None
    assert found.after is not None
    assert (found.before.one_bits, found.before.other_bits) == (15_120 * 8, 10_944 * 8)  # rows C1 and C2
    assert (found.after.one_bits, found.after.other_bits) == (5_904 * 8, 10_944 * 8)  # row C4
    assert crossover(LAYER, PRIVATE, OUTPUTS, WEIGHTS, "OREG").capacity_bits is None


def test_in_blocks_of_outputs_two_accumulators_are_enough() -> None:
    found = crossover(LAYER, PRIVATE, TILED, OUTPUTS, "OREG")
    assert found.capacity_bits == 2 * 8
    assert found.before is not None
    assert found.after is not None
    assert found.before.one_bits == found.before.other_bits == 10_944 * 8  # blocks of one output are output-stationary
    # Two outputs side by side in w: half the weights; of six inputs per row of taps, two are still there.
    assert found.after.one_bits == (5184 // 2 + 5184 * 4 // 6 + 576) * 8


@pytest.mark.parametrize("one", [WEIGHTS, TILED], ids=lambda each: each.name)
def test_every_size_tried_one_by_one_says_the_same(one: Family) -> None:
    found = crossover(LAYER, PRIVATE, one, OUTPUTS, "OREG")
    wins = []
    for size in range(1, 41):
        stretch = next(each for each in reversed(found.stretches) if each.capacity_bits <= 8 * size)
        tried = [least_by_trying(members, size) for members in (one, OUTPUTS)]
        assert [stretch.one_bits, stretch.other_bits] == [None if words is None else 8 * words for words in tried]
        wins.append(tried[0] is not None and tried[1] is not None and tried[0] < tried[1])
    assert found.capacity_bits is not None
    turn = found.capacity_bits // 8
    assert wins == [size >= turn for size in range(1, 41)]


def test_unknown_levels_are_refused() -> None:
    with pytest.raises(OptionError, match=r"(?s)PM535 'OREGG' is not a level below the outermost.*Did you mean 'OREG'"):
        crossover(LAYER, PRIVATE, WEIGHTS, OUTPUTS, "OREGG")
    with pytest.raises(OptionError, match=r"PM535 'SRAM' is not a level of 'private'"):
        crossover(LAYER, PRIVATE, WEIGHTS, OUTPUTS, "OREG", "SRAM")
    with pytest.raises(OptionError, match=r"(?s)PM535 'OREGG' is not.*PM535 'SRAM' is not a level of 'private'"):
        crossover(LAYER, PRIVATE, WEIGHTS, OUTPUTS, "OREGG", "SRAM")
