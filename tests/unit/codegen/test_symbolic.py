"""What a region allows for all sizes is what it allows for given ones, which brute force has checked."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

import polymap as pm
from benchmarks.polybench_kernels import KERNELS
from polymap.cli.command_line import main
from polymap.ir import Workload, WorkloadError
from polymap.schedules.nests import nests

SEIDEL = """void f(int n, int m, double A[n][m]) {
  for (int t = 0; t < 10; t++)
    for (int i = 1; i < n - 1; i++)
      for (int j = 1; j < m - 1; j++)
        A[i][j] = 0.2 * (A[i-1][j] + A[i][j-1] + A[i][j] + A[i+1][j] + A[i][j+1]);
}"""


def instances(workload: Workload) -> list[int]:
    """Return how many instances each statement has, counted one by one."""
    extents = workload.extents()
    return [
        sum(
            all(each.evaluate(dict(zip(statement.dims, point, strict=True))) >= 0 for each in statement.constraints)
            for point in product(*(range(extents[dim]) for dim in statement.dims))
        )
        for statement in workload.statements
    ]


def agrees(name: str, first: int) -> None:
    text, sizes = KERNELS[name]
    given = {size: first + number for number, size in enumerate(sizes)}
    found, workload = pm.io.symbolic_checkup(text), pm.from_c(text, given)
    at_sizes = nests(workload)
    assert [(each.depth, each.parallel) for each in found.loops] == [
        # The largest of several values is no accumulation of a text that stays as it is.
        (each.depth, "no" if name == "nussinov" and each.parallel.value == "reduction" else each.parallel.value)
        for each in at_sizes.loops
    ]
    assert [[len(run) for run in band] for band in found.bands] == [
        [len(run) for run in band.permutable] for band in at_sizes.bands if len(band.loops) > 1
    ]
    counted = [each.instances.at(given) if each.instances is not None else None for each in found.statements]
    assert counted == instances(workload)
    directions = {
        (each.kind, each.array, each.source, each.sink, sign) for each in found.dependences for sign in each.signs
    }
    known = {
        (each.kind.value, each.tensor, each.source, each.sink, sign)
        for each in pm.dependences(workload)
        for sign in each.signs
        if name != "nussinov" or each.kind.value != "reduction"
    }
    assert known <= directions


@pytest.mark.parametrize("name", ["gemm", "lu", "seidel-2d", "correlation", "nussinov", "durbin", "symm"])
def test_kernels_allow_for_all_sizes_what_they_allow_for_one(name: str) -> None:
    agrees(name, 7)


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
def test_all_kernels_allow_for_all_sizes_what_they_allow_for_one(name: str) -> None:
    agrees(name, 8)


def test_a_stencil_is_told_by_distances_and_a_formula() -> None:
    found = pm.io.symbolic_checkup(SEIDEL)
    assert found.parameters == ("m", "n")
    assert str(found.statements[0].instances) == "10*(m - 2)*(n - 2) if m >= 3 and n >= 3"
    flow = next(each for each in found.dependences if each.kind == "flow")
    assert set(flow.distances) == {(None, 1, 0), (None, 0, 1), (None, 0, 0), (None, -1, 0), (None, 0, -1)}
    assert found.bands == ((("t",), ("i", "j")),)
    assert {each.parallel for each in found.loops} == {"no"}


def test_a_variable_of_each_iteration_carries_nothing() -> None:
    text = "void f(int n, double a[n]) { for (int i = 0; i < n; i++) { double t = a[i]; a[i] = t * t; } }"
    assert [each.parallel for each in pm.io.symbolic_checkup(text).loops] == ["yes"]
    outside = text.replace("double t = a[i];", "t = a[i];").replace("{ for", "{ double t; for")
    assert [each.parallel for each in pm.io.symbolic_checkup(outside).loops] == ["no"]


def test_what_is_given_is_fixed() -> None:
    found = pm.io.symbolic_checkup(SEIDEL, {"n": 12})
    assert found.parameters == ("m",)
    assert str(found.statements[0].instances) == "100*(m - 2) if m >= 3"


def test_products_of_parameters_are_refused() -> None:
    with pytest.raises(WorkloadError, match="PM262"):
        pm.io.symbolic_checkup("void f(int n, int m, double a[n]) { for (int i = 0; i < n * m; i++) a[i] = 0; }")


def test_the_command_line_tells_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "seidel.c"
    path.write_text(SEIDEL)
    assert main(["check", str(path)]) == 0
    told = capsys.readouterr().out
    assert "for all values of m, n" in told
    assert "S0 in line 5: 10*(m - 2)*(n - 2)" in told
    assert "band t i j: permutable within t | i j" in told
    assert main(["check", str(path), "--json"]) == 0
    assert '"parameters": [' in capsys.readouterr().out
    path.write_text(SEIDEL.replace("< n - 1", "< k[0]"))
    assert main(["check", str(path)]) != 0
    assert "Traceback" not in capsys.readouterr().err
