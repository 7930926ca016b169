"""The annotated nest: rows, sizes and text."""

from __future__ import annotations

from collections.abc import Callable

from polymap.costmodel.nest import RowKind, bare_text, mapping_text, nest_figure
from polymap.ir.mapping import Branch, Compute, Mapping, Storage, Temporal
from tests.nests import at, statement, workload
from tests.unit.report.shared import CONVOLUTION, FLAT, PRODUCT, SPREAD, TUTORIAL, WEIGHTS_STAY, nest


def test_the_text_of_a_nest(golden: Callable[[str, str], None]) -> None:
    parts = (
        mapping_text(PRODUCT, SPREAD, FLAT),
        mapping_text(PRODUCT, SPREAD),
        bare_text(SPREAD),
        mapping_text(CONVOLUTION, WEIGHTS_STAY, TUTORIAL),
    )
    golden("report/nest.txt", "\n\n".join(parts) + "\n")


def test_rows_carry_trips_tiles_and_instances() -> None:
    rows = nest_figure(PRODUCT, FLAT, SPREAD).rows
    loops = [(row.kind, row.name, row.trips, row.tile, row.used) for row in rows if row.trips is not None]
    assert loops == [
        (RowKind.TEMPORAL, "k", 2, 3, None),
        (RowKind.TEMPORAL, "n", 2, 2, None),
        (RowKind.TEMPORAL, "k", 3, 1, None),
        (RowKind.SPATIAL, "m", 8, 1, 8),
        (RowKind.SPATIAL, "n", 2, 1, 2),
    ]
    stores = [(row.name, row.instances, [(item.tensor, item.elements, item.bits) for item in row.held]) for row in rows
              if row.kind is RowKind.STORE]  # fmt: skip
    assert stores == [
        ("DRAM", 1, [("C", 32, 512), ("A", 48, 384), ("B", 24, 192)]),
        ("GLB", 1, [("A", 24, 192), ("C", 32, 512)]),
        ("GLB", 1, [("B", 6, 48)]),
        ("RF", 256, [("A", 1, 8), ("B", 1, 8), ("C", 1, 16)]),
    ]


def test_partial_tiles_round_trip_counts_up() -> None:
    rows = nest_figure(PRODUCT, FLAT, nest("m3 m2 m1 k1 n1")).rows
    assert [(row.trips, row.tile) for row in rows if row.name == "m"] == [(3, 3), (2, 2), (2, 1)]


def test_a_tile_larger_than_the_extent_is_one_iteration() -> None:
    rows = nest_figure(PRODUCT, FLAT, nest("m99 m1 k1 n1")).rows
    assert [(row.trips, row.tile) for row in rows if row.name == "m"] == [(1, 8), (8, 1)]


def test_branches_are_told_one_after_the_other() -> None:
    first = statement("i", at("B", "i"), [at("A", "i")], name="S0", position=(0, 0))
    second = statement("i", at("C", "i"), [at("B", "i")], name="S1", position=(0, 1))
    chain = workload({"i": 6}, first, second)
    tree = Mapping(
        (
            Temporal("i", 2),
            Storage("GLB", ("B",)),
            Branch(((Temporal("i", 1), Compute("S0")), (Temporal("i", 1), Compute("S1")))),
        )
    )
    assert mapping_text(chain, tree, FLAT).splitlines()[6:] == [
        "  GLB                      B 2 (2 B)",
        "  first",
        "    for i       2      1",
        "      B[i] += 1",
        "  then",
        "    for i       2      1",
        "      C[i] += 1",
    ]


def test_an_empty_tree_is_an_empty_table() -> None:
    assert bare_text(Mapping(())).splitlines()[-1].startswith("---")
