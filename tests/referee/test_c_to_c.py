"""What `transform_c` writes computes what the original computes: compiled apart, called through ctypes."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import islpy as isl
import pytest

import polymap as pm
from polymap.codegen.source.dependences import Conflict, Times, conflicts_of, original_times
from polymap.codegen.source.executed import lost_statement
from polymap.codegen.source.given import given_times
from polymap.codegen.source.loops import Names, isl_loops
from polymap.codegen.source.orders import isl_order
from polymap.codegen.source.region import Region, region_of
from polymap.poly import budget
from polymap.schedules.legality import Parallel, parallel_loops
from polymap.workload.c.reader import read_program
from polymap.workload.dependence_analysis import dependence_relations, domain_of
from tests.c_to_c import (
    TRANSFORMATIONS,
    Job,
    builds,
    compiled,
    flags_of,
    kernel_sizes,
    kernel_tally,
    parameters_of,
    run_jobs,
)
from tests.c_to_c_functions import run_functions
from tests.c_to_c_programs import run
from tests.wild_programs import random_counted, random_crossed, random_named

LOCALS = """
void f(int n, int m, double A[n][m], double B[n][m], double y[n]) {
  double last = 0.0;
  for (int i = 1; i < n; i++) {
    double u = B[i][0], w[3];
    for (int j = 0; j < m; j++) {
      double q = A[i][j] * 2.0;
      const int k = (j - 4) / 3;
      w[1] = q;
      y[i] += w[1] * q + k;
      if (j > 2) B[i][j] += B[i - 1][j] + u;
    }
    last = u * 2.0;
  }
  for (int i = n - 1; i >= 0; i -= 2) { double q = last; y[i] -= q * ((i - 5) % 3); }
}"""


def kernels() -> Mapping[str, tuple[str, Mapping[str, int]]]:
    """Return the PolyBench kernels that the benchmarks hold."""
    path = Path(__file__).parents[2] / "benchmarks" / "polybench_kernels.py"
    spec = importlib.util.spec_from_file_location("polybench_kernels", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.KERNELS


@pytest.mark.slow
def test_kernels_in_other_orders_equal_their_originals() -> None:
    names, chosen = ("lu", "seidel-2d", "nussinov"), ("original, tiled", "isl, tiled, parallel")
    found = list(kernel_tally(kernels(), names, chosen, builds()[:2]))
    assert len(found) == len(names) * len(chosen) * len(builds()[:2])
    assert not [each for each in found if each[3]]


@pytest.mark.soak
def test_all_kernels_in_all_orders_equal_their_originals() -> None:
    found = list(kernel_tally(kernels(), list(kernels()), list(TRANSFORMATIONS), builds()))
    assert len(found) == 30 * len(TRANSFORMATIONS) * len(builds())
    assert not [each for each in found if each[3]]


@pytest.mark.slow
def test_a_kernel_has_a_parallel_loop_where_sign_vectors_find_one() -> None:
    for name, (source, sizes) in kernels().items():
        workload = pm.from_c(source, dict.fromkeys(sizes, 6))
        expected = any(answer is Parallel.YES for _, answer in parallel_loops(workload))
        text = pm.transform_c(source, order="original", tile=1, parallel=True)
        assert ("#pragma omp parallel for" in text) == expected, name


@pytest.mark.parametrize("transformation", list(TRANSFORMATIONS))
def test_variables_of_loops_and_divisions_of_negatives(transformation: str, tmp_path: Path) -> None:
    text = pm.transform_c(LOCALS, **TRANSFORMATIONS[transformation])
    flags = flags_of("gcc", sanitized=False)
    paths = [compiled(each, tmp_path / f"{number}.so", "gcc", flags) for number, each in enumerate((LOCALS, text))]
    listed = tuple((each.name, each.dtype, each.shape) for each in parameters_of(LOCALS, "f"))
    whole = "sums" in transformation
    sizes = ({"n": 13, "m": 11}, {"n": 3, "m": 4}, {"n": 1, "m": 1})
    fixed = pm.transform_c(LOCALS, sizes[0], **TRANSFORMATIONS[transformation])
    paths.append(compiled(fixed, tmp_path / "fixed.so", "gcc", flags))
    jobs = [Job(paths[0], path, "f", listed, sizes, whole) for path in paths[1:]]
    assert run_jobs(jobs) == [[], []]


def test_the_referee_sees_an_order_that_breaks_a_dependence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    loops = "for (int i = 1; i < n; i++) for (int j = 0; j < n; j++) A[i][j] += A[i-1][j];"
    source = f"void f(int n, double A[n][n]) {{ {loops} }}"
    workload = pm.from_c(source, {"n": 9})
    backwards = pm.transform.schedule_from_text(workload, "S0[i,j] -> [-i, j]")
    monkeypatch.setattr("polymap.codegen.source.transform.violated_conflicts", lambda *_, **__: iter(()))
    text = pm.transform_c(source, schedule=backwards)
    flags = flags_of("gcc", sanitized=False)
    paths = [compiled(each, tmp_path / f"{number}.so", "gcc", flags) for number, each in enumerate((source, text))]
    listed = tuple((each.name, each.dtype, each.shape) for each in parameters_of(source, "f"))
    assert run_jobs([Job(paths[0], paths[1], "f", listed, ({"n": 9},))])[0]


@pytest.mark.slow
def test_random_programs_equal_their_originals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "OMP_NUM_THREADS", "3")
    outcome = run(1000, 4)
    assert not outcome.wrong
    assert outcome.compared >= 3


@pytest.mark.soak
def test_many_random_programs_equal_their_originals() -> None:
    outcome = run(2000, 200)
    assert not outcome.wrong
    assert outcome.compared >= 180


@pytest.mark.slow
def test_instances_and_dependences_at_a_size_are_those_of_the_reader_with_sizes() -> None:
    for name, (source, sizes) in kernels().items():
        values = dict.fromkeys(sizes, 4)
        workload = pm.from_c(source, values)
        program = read_program(source, {}, name)
        with budget(100_000_000, seconds=60):
            region = region_of(program, {}, name)
            assert [each.name for each in region.statements] == [each.name for each in workload.statements], name
            for each, other in zip(region.statements, workload.statements, strict=True):
                assert _count(each.domain, values) == _count(domain_of(workload, other), values), (name, each.name)
            found: dict[tuple[str, str, str], isl.Map] = {}
            for each in conflicts_of(region):
                key = (each.source, each.sink, each.array)
                found[key] = found[key].union(each.relation) if key in found else each.relation
            expected: dict[tuple[str, str, str], isl.Map] = {}
            for dependence, relation in dependence_relations(workload):
                key = (dependence.source, dependence.sink, dependence.tensor)
                expected[key] = expected[key].union(relation) if key in expected else relation
            own = {key: _count(each.wrap(), values) for key, each in found.items()}
            assert {key: count for key, count in own.items() if count} == {
                key: _count(each.wrap(), values) for key, each in expected.items()
            }, name


def _count(points: isl.Set, values: Mapping[str, int]) -> int:
    for number in range(points.dim(isl.dim_type.param)):
        size = values[str(points.get_dim_name(isl.dim_type.param, number))]
        points = points.fix_val(isl.dim_type.param, number, isl.Val(size, points.get_ctx()))
    points = points.project_out(isl.dim_type.param, 0, points.dim(isl.dim_type.param))
    return int(points.count_val().to_str())


def _seidel(schedule: pm.Schedule) -> pm.Schedule:
    skewed = pm.transform.skew(pm.transform.skew(schedule, "i", by="t"), "j", by="t")
    skewed = pm.transform.skew(skewed, "j", by="i")
    return pm.transform.tile(skewed, {"t": 2, "i": 5, "j": 4})


def _gemm(schedule: pm.Schedule) -> pm.Schedule:
    outer, middle, inner = [loop.name for loop in schedule.loops() if "S1" in loop.statements]
    marked = pm.transform.parallelize(pm.transform.vectorize(schedule, inner), outer)
    return pm.transform.unroll(marked, middle, factor=2)


@pytest.mark.parametrize(("name", "change"), [("seidel-2d", _seidel), ("gemm", _gemm)])
def test_transformed_schedules_are_printed_for_all_sizes(
    name: str, change: Callable[[pm.Schedule], pm.Schedule], tmp_path: Path
) -> None:
    source, sizes = kernels()[name]
    workload = pm.from_c(source, dict.fromkeys(sizes, 9))
    text = pm.transform_c(source, schedule=change(pm.Schedule.original(workload)))
    flags = flags_of("gcc", sanitized=False)
    paths = [compiled(each, tmp_path / f"{number}.so", "gcc", flags) for number, each in enumerate((source, text))]
    listed = tuple((each.name, each.dtype, each.shape) for each in parameters_of(source, "f"))
    assert run_jobs([Job(paths[0], paths[1], "f", listed, kernel_sizes(list(sizes)))]) == [[]]


def test_circular_buffers_are_refused() -> None:
    source = """void f(int n, double x[n], double y[n]) {
      double t[n];
      for (int i = 0; i < n; i++) t[i] = x[i];
      for (int j = 0; j < n; j++) y[j] = t[j];
    }"""
    fused = pm.transform.fuse(pm.Schedule.original(pm.from_c(source, {"n": 8})), "i", "j")
    assert "t[" in pm.transform_c(source, {"n": 8}, schedule=fused)
    with pytest.raises(pm.errors.ScheduleError, match=r"PM286 the schedule keeps t modulo \[1\]"):
        pm.transform_c(source, {"n": 8}, schedule=pm.transform.contract(fused, "t"))


STRIDED = """void f(int n, double B[2 * n + 6], double A[n]) {
  for (int i = 1; i < n; i++)
    for (int j = 0; j < n - i; j++)
      for (int k = j; k <= j + 2 && k < n; k++)
        for (int l = k; l < n; l += 2) B[j] += A[i];
}"""


def test_an_order_whose_loops_lose_iterations_in_isl_is_refused_or_left(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = pm.from_c(STRIDED, {"n": 6})
    text = "S0[i,j,k,l] -> [j, 3*i + k, floor(i/3), floor(l/3), i, l]"
    schedule = pm.transform.schedule_from_text(workload, text)
    with pytest.raises(
        pm.errors.SolverError, match=r"PM511 isl's loops .*not run every instance of S0 once \(at n=3\)"
    ):
        pm.transform_c(STRIDED, schedule=schedule)

    def losing(region: Region, conflicts: Sequence[Conflict], tile: int, *, reorder_sums: bool) -> Times:
        if tile > 1:
            return given_times(region, schedule)
        return isl_order(region, conflicts, 1, reorder_sums=reorder_sums)

    monkeypatch.setattr("polymap.codegen.source.transform.isl_order", losing)
    assert "tiled by" not in pm.transform_c(STRIDED, order="isl", tile=3).splitlines()[1]


CHAIN = """void f(int n, double A[n]) {
  for (int i = 1; i < n; i++) {
    if (i < 3) A[i] = 1; else if (i % 2) A[i] += A[i - 1]; else if (i > n / 2) A[i] -= 2; else A[i] = A[i - 1];
  }
}"""


@pytest.mark.parametrize("options", [{"order": "isl"}, {"order": "original", "tile": 1}, {"parallel": True}], ids=str)
def test_statements_between_the_steps_of_others_run_at_their_times(tmp_path: Path, options: dict[str, Any]) -> None:
    text = pm.transform_c(CHAIN, **options)
    assert "c0 += 2" in text  # isl put even iterations into the loop of the odd ones
    flags = flags_of("gcc", sanitized=False)
    paths = [compiled(each, tmp_path / f"{number}.so", "gcc", flags) for number, each in enumerate((CHAIN, text))]
    listed = tuple((each.name, each.dtype, each.shape) for each in parameters_of(CHAIN, "f"))
    sizes = tuple({"n": size} for size in (0, 1, 2, 3, 4, 7, 12, 13))
    assert run_jobs([Job(paths[0], paths[1], "f", listed, sizes)]) == [[]]


def test_times_between_two_steps_are_compared_with_the_order() -> None:
    """The loops of one order are none of an order that runs the even iterations first in each pair."""
    program = read_program(CHAIN, {}, "f.c")
    with budget(what="a test"):
        region = region_of(program, {}, "f.c")
        times = original_times(region)
        names = Names("c", "pm_min", "pm_max", "pm_floor")
        node = isl_loops(region, times, names)
        assert lost_statement(node, region, times, "c", {"n": 13}) == ""
        late = dict(times)
        late["S1"] = _later(times["S1"], 2)
        assert lost_statement(node, region, late, "c", {"n": 13}) != ""


def _later(times: isl.Map, by: int) -> isl.Map:
    moved = isl.Map(f"{{ [a, i, b] -> [a, i + {by}, b] }}", times.get_ctx())
    return times.apply_range(moved)


def test_isl_finds_an_order_where_dependences_of_several_loops_are_kept_apart() -> None:
    source = """void lu(double U[4][4], double L[4][4], double Ap[4][4]) {
      for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) {
        if (j <= i) { double s = 0; for (int k = 0; k < j; k++) s += L[j][k] * U[k][i]; U[j][i] = Ap[j][i] - s; }
        else { double s = 0; for (int k = 0; k < i; k++) s += L[j][k] * U[k][i]; L[j][i] = (Ap[j][i] - s) / U[i][i]; }
      } }"""
    assert "Order: isl's" in pm.transform_c(source, order="isl", tile=1)


def test_loops_that_count_down_take_schedules(tmp_path: Path) -> None:
    source = """void f(int n, double A[n][n]) {
      for (int i = 1; i < n; i++) for (int j = n - 2; j >= 0; j -= 2) A[i][j] = A[i - 1][j] + A[i][j + 1];
    }"""
    tiled = pm.transform.tile(pm.Schedule.original(pm.from_c(source, {"n": 6})), {"i": 2, "j": 3})
    text = pm.transform_c(source, schedule=tiled)
    flags = flags_of("gcc", sanitized=False)
    paths = [compiled(each, tmp_path / f"{number}.so", "gcc", flags) for number, each in enumerate((source, text))]
    listed = tuple((each.name, each.dtype, each.shape) for each in parameters_of(source, "f"))
    sizes = tuple({"n": size} for size in (1, 2, 3, 7, 13))
    assert run_jobs([Job(paths[0], paths[1], "f", listed, sizes)]) == [[]]


@pytest.mark.parametrize("value", ["8u / -5", "(short)(i * 1000)", "(unsigned char)(i - 300)", "(unsigned)(i - 5) / 2"])
def test_subscripts_that_may_wrap_around_are_refused(value: str) -> None:
    source = (
        f"void f(int n, double A[n]) {{ for (int i = 2; i < n; i++) {{ int t = {value}; A[i + t] += A[i - 1]; }} }}"
    )
    with pytest.raises(pm.errors.WorkloadError, match="PM265 't' has no value"):
        pm.transform_c(source)


def test_a_conversion_that_may_change_a_size_is_assumed_not_to() -> None:
    source = "void f(long n, double A[8]) {{ for (int i = 0; i < {}; i++) A[i] += 1; }}"
    assert not pm.transform_c(source.format("n"), order="original").report.assumed, "nothing is converted"
    assumed = pm.transform_c(source.format("(int)n"), order="original").report.assumed
    assert assumed == "(n <= 2147483647) && (n >= (-2147483648))", "an int holds the size"


UNSIGNED = """void f({0} n, {0} m, double A[n + 2][m + 2]) {{
  for ({0} i = 1; i < n; i++)
    for ({1} j = 0; j + 1 < m; j++) A[i][j] = A[i - 1][j + 1] + A[i][j / 2];
  for ({1} i = n; i > 0; i--) if (i % 3 != 1) A[i - 1][0] += A[i][0] * 0.5;
}}"""


@pytest.mark.parametrize("transformation", ["original, tiled", "isl, tiled, parallel"])
@pytest.mark.parametrize("kinds", [("unsigned", "unsigned"), ("size_t", "size_t"), ("unsigned", "size_t")], ids=str)
def test_unsigned_sizes_and_loop_variables(kinds: tuple[str, str], transformation: str, tmp_path: Path) -> None:
    source = UNSIGNED.format(*kinds)
    text = pm.transform_c(source, **TRANSFORMATIONS[transformation])
    assert "Written by polymap" in text
    flags = flags_of("gcc", sanitized=False)
    paths = [compiled(each, tmp_path / f"{number}.so", "gcc", flags) for number, each in enumerate((source, text))]
    listed = tuple((each.name, each.dtype, each.shape) for each in parameters_of(source, "f"))
    sizes = tuple({"n": one, "m": other} for one in (0, 1, 2, 7, 13) for other in (0, 1, 2, 11))
    assert run_jobs([Job(paths[0], paths[1], "f", listed, sizes)]) == [[]]


@pytest.mark.parametrize(
    ("loop", "assumed"),
    [
        ("for (unsigned i = 0; i < n - 1; i++)", "(long)n >= 1"),
        ("for (unsigned i = 0; i < n; i += 2)", "(long)n <= 4294967294"),
        ("for (unsigned i = 0; i <= n; i++)", "(long)n <= 4294967294"),
        ("for (unsigned i = n; i > 0; i -= 2)", "((long)n <= 4294967294) && ((long)n % 2 == 0)"),
        ("for (short i = 0; i < n; i++)", "(long)n <= 32767"),
    ],
)
def test_loops_that_wrap_around_for_some_size_are_read_for_others(loop: str, assumed: str) -> None:
    source = f"void f(unsigned n, double A[n + 9]) {{ {loop} A[i + 1] += 1; }}"
    text = pm.transform_c(source, order="original", tile=1)
    assert text.report.assumed == assumed, "for these sizes nothing wraps around"
    assert f"if ({assumed}) {{" in text, "the new loops run for these alone"


def test_loops_that_wrap_around_for_every_size_are_refused() -> None:
    with pytest.raises(pm.errors.WorkloadError, match="PM272"):
        pm.transform_c("void f(unsigned n, double A[n + 9]) { for (int i = -1; i < n; i++) A[i + 1] += 1; }")


@pytest.mark.slow
def test_random_functions_of_other_integer_types_equal_their_originals() -> None:
    tally = run_functions(200, 3, turns=1, make=random_counted)
    assert not tally.wrong
    assert sum(tally.texts.values()) >= 3


@pytest.mark.soak
def test_many_random_functions_of_other_integer_types_equal_their_originals() -> None:
    tally = run_functions(1000, 300, make=random_counted)
    assert not tally.wrong
    assert tally.functions >= 60


@pytest.mark.slow
def test_random_functions_over_a_size_equal_their_originals() -> None:
    tally = run_functions(100, 2, turns=1)
    assert not tally.wrong
    assert tally.functions == 2
    assert sum(tally.texts.values()) >= 8


@pytest.mark.slow
def test_random_functions_with_odd_names_chains_and_late_counters_equal_their_originals() -> None:
    tally = run_functions(0, 6, turns=1, make=random_named)
    assert not tally.wrong
    assert tally.functions >= 4
    assert tally.refused["auto PM265"] >= 1


@pytest.mark.slow
def test_random_functions_with_macros_late_counters_and_conditional_reads_equal_their_originals() -> None:
    tally = run_functions(0, 2, turns=1, make=random_crossed)
    assert not tally.wrong
    assert tally.functions >= 1


@pytest.mark.soak
def test_many_random_functions_with_macros_late_counters_and_conditional_reads_equal_their_originals() -> None:
    tally = run_functions(1000, 300, make=random_crossed)
    assert not tally.wrong
    assert tally.functions >= 150


@pytest.mark.soak
def test_many_random_functions_with_odd_names_equal_their_originals() -> None:
    tally = run_functions(1000, 300, make=random_named)
    assert not tally.wrong
    assert tally.functions >= 200


@pytest.mark.soak
def test_many_random_functions_over_a_size_equal_their_originals() -> None:
    tally = run_functions(10_000, 300)
    assert not tally.wrong
    assert tally.functions >= 290
