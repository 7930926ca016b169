"""The small convolution of the textbook: 16 filters 3x3 on 8x8, one channel, 5,184 multiplications.

Source: ML systems textbook, chapter Hardware Acceleration (rows S9, C1, C2, C4, C6, C9; recomputed independently).
Private memories per operand, in elements; first partial sums are not read. No tolerance.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import permutations

import pytest

from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.counts import Counts
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, MappingNode, Storage, Temporal
from polymap.schedules.check import check_mapping
from polymap.workload.einsums import einsum

LAYER = einsum("O[m,h,w] += I[h+r,w+s] * W[m,r,s]", m=16, h=6, w=6, r=3, s=3)
PRIVATE = Architecture(
    "private",
    (
        MemoryLevel("DRAM"),
        MemoryLevel("WREG", holds=("@weight",)),
        MemoryLevel("IREG", holds=("@input",)),
        MemoryLevel("OREG", holds=("@output",)),
        ComputeUnit("MAC"),
    ),
)
STORES = {"W": Storage("WREG", ("W",)), "I": Storage("IREG", ("I",)), "O": Storage("OREG", ("O",))}


def nest(text: str) -> Mapping:
    """Return the tree of a text such as "m W h w I r s O": loops in small letters, private memories in capitals."""
    nodes: list[MappingNode] = [STORES[word] if word in STORES else Temporal(word, 1) for word in text.split()]
    mapping = Mapping((*nodes, Compute("S")))
    check_mapping(LAYER, PRIVATE, mapping)
    return mapping


@cache
def simulated(tree: str) -> Counts:
    return count_by_simulation(LAYER, PRIVATE, nest(tree))


def figures(counts: Counts) -> tuple[int, int, int, int]:
    """Return (W fills, I fills, O drains, O re-reads)."""
    rows = {(row.level, row.tensor): row for row in counts.traffic}
    sums = rows["OREG", "O"]
    assert rows["DRAM", "O"].reads == sums.fills
    return rows["WREG", "W"].fills, rows["IREG", "I"].fills, sums.drains, sums.fills


ROWS = [
    pytest.param("m r s h w W I O", (144, 5184, 5184, 4608), 15_120, (1, 1, 1), id="C1-weight-stationary"),
    pytest.param("h w m r s W I O", (5184, 5184, 576, 0), 10_944, (1, 1, 1), id="C2-output-stationary"),
    pytest.param("m W O r s h w I", (144, 5184, 576, 0), 5_904, (9, 1, 36), id="C4"),
    pytest.param("m W h w I O r s", (144, 2304, 576, 0), 3_024, (9, 9, 1), id="C6"),
    pytest.param("W I O m r s h w", (144, 64, 576, 0), 784, (144, 64, 576), id="C9"),
]


@pytest.mark.parametrize(("tree", "expected", "total", "held"), ROWS)
def test_words_moved(tree: str, expected: tuple[int, int, int, int], total: int, held: tuple[int, int, int]) -> None:
    counts = simulated(tree)
    assert counts.instances == 5184
    assert figures(counts) == expected
    assert sum(expected) == total
    assert tuple(use.occupancy_bits // 8 for use in counts.uses[1:]) == held
    assert count_closed_form(LAYER, PRIVATE, nest(tree)) == counts


@pytest.mark.slow
def test_s9_all_120_orders_have_five_traffic_vectors() -> None:
    vectors: dict[str, tuple[int, int, int, int]] = {}
    for order in permutations("mhwrs"):
        tree = " ".join((*order, "W", "I", "O"))
        counts = count_closed_form(LAYER, PRIVATE, nest(tree))
        assert counts is not None
        vectors[tree] = figures(counts)
    assert len(set(vectors.values())) == 5
    assert Counter(weights for weights, _, _, _ in vectors.values()) == {144: 12, 864: 36, 5184: 72}
    assert Counter(inputs for _, inputs, _, _ in vectors.values()) == {324: 24, 5184: 96}
    assert Counter(drains for _, _, drains, _ in vectors.values()) == {576: 12, 1728: 36, 5184: 72}
    one_of_each = {vector: tree for tree, vector in vectors.items()}
    for vector, tree in one_of_each.items():
        assert figures(simulated(tree)) == vector


def test_which_dataflow_wins_flips_with_the_buffer_sizes() -> None:
    # The chapter praises weight-stationary for its weight reads; what it moves in total depends on the buffers:
    # with one element per operand output-stationary moves less, with 9 weights and 36 outputs weight-stationary does.
    def total(tree: str) -> int:
        return sum(figures(simulated(tree)))

    assert total("m r s h w W I O") > total("h w m r s W I O")
    assert total("m W O r s h w I") < total("h w m r s W I O")
