"""evaluate_many is evaluate, row by row."""

from __future__ import annotations

import numpy as np
import pytest

from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.tables.cost_arrays import evaluate_many
from polymap.inputs.presets import load_arch
from polymap.ir.errors import MappingError, OptionError
from polymap.ir.loopnest import Workload
from polymap.ir.mapping import Compute, Mapping, Spatial, Storage, Temporal
from polymap.workload.einsums import einsum

ARCH = load_arch("flat3")


def gemm(m: int = 12) -> Workload:
    return einsum("C[m,n] += A[m,k] * B[k,n]", m=m, n=4, k=6)


def tree(*tiles: int) -> Mapping:
    outer, spatial, inner, n, k = tiles
    return Mapping(
        (
            Storage("DRAM", ("A", "B", "C")),
            Temporal("m", outer),
            Storage("GLB", ("A", "C")),
            Spatial("m", spatial, "X"),
            Temporal("m", inner),
            Temporal("n", n),
            Temporal("k", k),
            Compute("S"),
        )
    )


ROWS = [(12, 1, 1, 1, 1), (4, 2, 1, 1, 1), (6, 2, 1, 1, 1), (12, 12, 1, 1, 1), (5, 3, 1, 1, 1)]


def test_every_figure_is_that_of_evaluate() -> None:
    table = evaluate_many(gemm(), ARCH, tree(9, 9, 9, 9, 9), np.array(ROWS))
    for number, row in enumerate(ROWS):
        cost = evaluate(gemm(), ARCH, tree(*row))
        assert table.legal[number] == cost.legal
        for name in ("instances", "energy_pj", "compute_cycles", "latency_cycles", "utilization"):
            assert getattr(table, name)[number] == getattr(cost, name)
        for arrays, traffic in zip(table.traffic, cost.traffic, strict=True):
            assert (arrays.level, arrays.tensor) == (traffic.level, traffic.tensor)
            counts = tuple(int(array[number]) for array in (arrays.reads, arrays.writes, arrays.fills, arrays.drains))
            assert counts == (traffic.reads, traffic.writes, traffic.fills, traffic.drains)
        assert tuple((name, bits[number]) for name, bits in table.occupancy_bits) == cost.occupancy_bits
        assert tuple((name, pj[number]) for name, pj in table.energy_by_level_pj) == cost.energy_by_level_pj
    assert table.energy_pj.dtype == np.float64
    assert table.latency_cycles.dtype == np.int64


def test_counts_that_no_int64_holds_stay_whole() -> None:
    table = evaluate_many(gemm(2**62), ARCH, tree(1, 1, 1, 1, 1), [(2**61, 2**61, 1, 1, 1)])
    assert table.instances.dtype == np.object_
    assert table.instances[0] == 24 * 2**62


def test_a_row_that_is_no_program_is_named() -> None:
    with pytest.raises(MappingError, match=r"PM4\d\d row 1: .*\bn\b"):
        evaluate_many(gemm(), ARCH, tree(1, 1, 1, 1, 1), [(12, 1, 1, 1, 1), (12, 1, 1, 2, 1)])


@pytest.mark.parametrize(
    ("tiles", "message"),
    [
        ([(1, 1, 1)], r"PM562 tiles has the shape \(1, 3\), and the tree has 5 loops"),
        ([1, 1, 1, 1, 1], r"PM562 tiles has the shape \(5,\)"),
        (np.empty((0, 5), dtype=np.int64), r"PM562 tiles has the shape \(0, 5\)"),
        ([(1.0, 1.0, 1.0, 1.0, 1.0)], "PM563 tiles has 1.0 in row 0, of type float"),
        ([(1,) * 5, (1,) * 4], "PM562 the rows of tiles differ in length"),
        ([(True,) * 5], "PM563 tiles has True in row 0, of type bool"),
    ],
)
def test_other_tables_are_refused(tiles: object, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        evaluate_many(gemm(), ARCH, tree(1, 1, 1, 1, 1), tiles)  # type: ignore[arg-type]
