"""Matrix products of the textbook.

Source: ML systems textbook, chapter Hardware Acceleration (rows M1, M2, M4, M5; recomputed independently).
No tolerance.
"""

from __future__ import annotations

import pytest

from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.counts import Counts
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.ir.mapping import Compute, Mapping, Storage, Temporal
from polymap.schedules.check import check_mapping
from polymap.workload.einsums import einsum

PRIVATE = Architecture(
    "private", (MemoryLevel("DRAM"), MemoryLevel("ZREG"), MemoryLevel("WREG"), MemoryLevel("XREG"), ComputeUnit("MAC"))
)
REGISTERS = (Storage("ZREG", ("Z",)), Storage("WREG", ("W",)), Storage("XREG", ("X",)))


def product(i: int, k: int, j: int) -> Workload:
    return einsum("Z[i,j] += W[i,k] * X[k,j]", i=i, k=k, j=j)


def outermost_words(counts: Counts) -> int:
    """Return the words that cross the outermost level's edge."""
    return sum(row.reads + row.writes for row in counts.traffic if row.level == "DRAM")


def orders(order: str) -> Mapping:
    return Mapping((*(Temporal(dim, 1) for dim in order), *REGISTERS, Compute("S")))


def closed_form(workload: Workload, mapping: Mapping) -> Counts:
    check_mapping(workload, PRIVATE, mapping)
    counts = count_closed_form(workload, PRIVATE, mapping)
    assert counts is not None
    return counts


def test_m1_compulsory_words() -> None:
    everything = Mapping((*REGISTERS, *(Temporal(dim, 1) for dim in "ijk"), Compute("S")))
    counts = closed_form(product(512, 256, 32), everything)
    assert counts.instances == 4_194_304
    assert outermost_words(counts) == 155_648
    assert sum(tensor.shape[0] * tensor.shape[1] for tensor in product(512, 256, 32).tensors) == 155_648


ORDERS = [
    pytest.param("ijk", 8_404_992, id="ijk-output-stationary"),
    pytest.param("jik", 8_404_992, id="jik-output-stationary"),
    pytest.param("ikj", 12_697_600, id="ikj-weight-stationary"),
    pytest.param("kij", 12_697_600, id="kij-weight-stationary"),
    pytest.param("jki", 12_574_720, id="jki-input-stationary"),
    pytest.param("kji", 12_574_720, id="kji-input-stationary"),
]


@pytest.mark.parametrize(("order", "words"), ORDERS)
def test_m2_six_orders_with_one_register_per_operand(order: str, words: int) -> None:
    assert outermost_words(closed_form(product(512, 256, 32), orders(order))) == words
    small = product(8, 4, 2)
    assert closed_form(small, orders(order)) == count_by_simulation(small, PRIVATE, orders(order))


@pytest.mark.parametrize(
    ("tiles", "multiplications", "loaded"),
    [
        pytest.param({"i": 1, "j": 1, "k": 4}, 4, 1_024, id="M4-1x4-by-4x1"),
        pytest.param({"i": 2, "j": 2, "k": 2}, 8, 512, id="M5-2x2-by-2x2"),
    ],
)
def test_m4_m5_two_caches_of_four_elements(tiles: dict[str, int], multiplications: int, loaded: int) -> None:
    # k innermost among the tiles; a load brings one tile of W and one of X.
    workload = product(8, 8, 8)
    outer = tuple(Temporal(dim, tiles[dim]) for dim in "ijk")
    inner = tuple(Temporal(dim, 1) for dim in "ijk")
    counts = count_by_simulation(workload, PRIVATE, Mapping((*outer, *REGISTERS[1:], *inner, Compute("S"))))
    fills = {row.tensor: row.fills for row in counts.traffic if row.level in ("WREG", "XREG")}
    assert fills["W"] + fills["X"] == loaded
    assert [use.occupancy_bits // 8 for use in counts.uses if use.level in ("WREG", "XREG")] == [4, 4]
    assert counts.instances == multiplications * loaded // (4 + 4)
