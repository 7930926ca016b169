"""Programs whose variables of one iteration the search made arrays of: their values, their counts, what it gains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import polymap as pm
from benchmarks.polybench_kernels import KERNELS
from polymap.ir import Workload
from tests.c_to_c import parameters_of
from tests.compiled_programs import expected_arrays

SIZES = {"symm": {"m": 8, "n": 9}}


def machine(words: int) -> pm.Architecture:
    nodes = [{"level": "DRAM"}, {"level": "Buf", "capacity_bits": 64 * words}, {"compute": "PE"}]
    return pm.io.arch_from_document({"name": "one buffer", "nodes": nodes})


def explored(name: str) -> tuple[pm.Architecture, pm.SearchResult]:
    arch = machine(32)
    workload = pm.from_c(KERNELS[name][0], SIZES[name])
    return arch, pm.explore(workload, arch, "traffic:DRAM", time_limit_s=600, work_limit=300)


@pytest.mark.parametrize("name", SIZES)
def test_a_sum_in_a_variable_does_not_keep_loops_from_being_tiled(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arch, found = explored(name)
    assert found.workload is not None
    assert found.best is not None
    assert found.value is not None
    assert any(each.shape and set(each.shape) == {1} for each in found.workload.tensors), "a variable again"
    assert pm.simulate(found.workload, arch, found.best).traffic == found.cost.traffic
    check_values(KERNELS[name][0], SIZES[name], found.workload, tmp_path)

    def unchanged(workload: Workload) -> Workload:
        return workload

    monkeypatch.setattr("polymap.search.programs.search.expanded", unchanged)
    assert found.value < explored(name)[1].value


def check_values(text: str, sizes: dict[str, int], workload: Workload, where: Path) -> None:
    """The program, in the order that it has after the search, computes what its text does."""
    fn = pm.compile(workload, "cpu_avx2", mapping=pm.Schedule.original(workload))
    given, wanted = expected_arrays(text, parameters_of(text, "f"), sizes, 3, where)
    found = fn(*(given[form.tensor] for form in fn.function.arrays))
    written = [form.tensor for form in fn.function.arrays if form.is_written]
    for tensor, values in zip(written, found if isinstance(found, tuple) else (found,), strict=True):
        np.testing.assert_allclose(values, wanted[tensor], rtol=1e-12)
