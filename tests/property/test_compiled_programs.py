"""Compiled C regions and programs equal the C texts themselves, compiled apart by another path, bit for bit."""

from __future__ import annotations

import array
import ctypes
import random
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import polymap as pm
from benchmarks.polybench_kernels import KERNELS
from polymap.codegen.native import RegionCall
from polymap.codegen.source import TUNING
from polymap.inputs import mapping_from_document
from tests.c_to_c import PLAIN, PRIMES, Parameter, arguments, called, compiled, parameters_of
from tests.compiled_programs import random_order_case, random_text_case, sanitized_case, tally
from tests.times import few

QUICK = ("gemm", "trmm", "durbin", "jacobi-1d", "symm", "gramschmidt")
SCALED = """void f(int n, double alpha, double A[n][n], double x[n], double y[n]) {
  for (int i = 0; i < n; i++) {
    double sum = 0;
    for (int j = 0; j < n; j++) sum += A[i][j] * x[j];
    y[i] += alpha * sum;
  }
}"""


@pytest.fixture(autouse=True)
def parallel_loops_of_any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polymap.codegen.programs.function.TUNING", TUNING._replace(parallel_instances=1))


def small_sizes(name: str) -> dict[str, int]:
    steps = {"tsteps": 3, "tmax": 3}
    return {size: steps.get(size, PRIMES[place % len(PRIMES)]) for place, size in enumerate(KERNELS[name][1])}


def expected(text: str, function: str, listed: list[Parameter], values: dict[str, Any], where: Path) -> dict[str, Any]:
    """Return every array after the text's own function ran, compiled apart without optimization across statements."""
    code = getattr(ctypes.CDLL(compiled(text, where / "original.so", "gcc", PLAIN)), function)
    code.restype = None
    arrays = {each.name: np.array(values[each.name], order="C") for each in listed if each.shape}
    passed: list[object] = []
    for each in listed:
        if each.shape:
            passed.append(ctypes.c_void_p(arrays[each.name].ctypes.data))
        else:
            passed.append(np.ctypeslib.as_ctypes_type(np.dtype(each.dtype))(values[each.name]))
    code(*passed)
    return arrays


def check(text: str, sizes: dict[str, int], where: Path, seed: int, **options: Any) -> pm.CompiledFunction:
    """Check that all written arrays are those of the text itself; return the compiled function."""
    text = text.replace("scaled(", "f(")
    workload = pm.from_c(text, sizes)
    function = workload.name
    listed = parameters_of(text, function)
    starts = arguments(listed, sizes, seed, whole=False)
    fn = pm.compile(workload, "cpu_avx2", **options)
    names = [form.tensor for form in fn.function.arrays]
    assert names == [each.name for each in listed if each.name in names]  # in order of declaration
    given = [np.asarray(starts[name], next(p.dtype for p in listed if p.name == name)) for name in names]
    before = [each.copy() for each in given]
    found = fn(*given)
    assert isinstance(found, tuple)
    assert all(
        np.array_equal(old, new, equal_nan=old.dtype.kind == "f") for old, new in zip(before, given, strict=True)
    )
    wanted = expected(text, function, listed, starts, where)
    written = [form.tensor for form in fn.function.arrays if form.is_written]
    for name, values in zip(written, found, strict=True):
        same = (values == wanted[name]) | ((values != values) & (wanted[name] != wanted[name]))
        assert same.all(), (name, np.argwhere(~same)[:3])
    return fn


@pytest.mark.parametrize("name", QUICK)
def test_compiled_kernels_are_their_texts_bit_for_bit(name: str, tmp_path: Path) -> None:
    check(KERNELS[name][0], small_sizes(name), tmp_path, 1)


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_all_compiled_kernels_are_their_texts_bit_for_bit(name: str, tmp_path: Path) -> None:
    for seed in range(2):
        check(KERNELS[name][0], small_sizes(name), tmp_path, seed, threads=1 + 2 * seed)


@pytest.mark.parametrize("name", ["correlation", "jacobi-2d", "doitgen", "fdtd-2d"])
def test_kernels_on_three_cores_are_their_texts_bit_for_bit(name: str, tmp_path: Path) -> None:
    fn = check(KERNELS[name][0], small_sizes(name), tmp_path, 1, threads=3)
    assert "#pragma omp parallel for schedule(static) num_threads(3)" in fn.source


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 1264])  # gcc 12 forgot a rounding in 1264
def test_random_texts_of_every_type_are_equal_bit_for_bit(seed: int, tmp_path: Path) -> None:
    random_text_case(seed, tmp_path)


@pytest.mark.parametrize("seed", few(range(1, 5), 2))
def test_random_programs_in_other_legal_orders_are_equal_bit_for_bit(seed: int, tmp_path: Path) -> None:
    random_order_case(seed, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("cc", ["gcc", "clang"])
@pytest.mark.parametrize("batch", range(10))
def test_many_random_programs(batch: int, cc: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", cc)
    found = tally(1000 + 30 * batch, 30, tmp_path)
    assert found["equal"] > 20, found
    assert found["equal, tree"] > 5, found


@pytest.mark.parametrize("name", ["durbin", "correlation"])
def test_compiled_kernels_stay_inside_their_arrays(name: str, tmp_path: Path) -> None:
    sanitized_case(pm.from_c(KERNELS[name][0], small_sizes(name)), "kernel", 2, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(KERNELS))
def test_all_compiled_kernels_stay_inside_their_arrays(name: str, tmp_path: Path) -> None:
    for threads in (1, 3):
        sanitized_case(pm.from_c(KERNELS[name][0], small_sizes(name)), f"kernel{threads}", threads, tmp_path)


def scaled(n: int) -> tuple[pm.CompiledFunction, list[np.ndarray]]:
    rng = np.random.default_rng(n)
    return pm.compile(pm.from_c(SCALED, {"n": n}), "cpu_avx2"), [rng.random((n, n)), rng.random(n), rng.random(n)]


def test_a_region_takes_all_its_arrays_and_returns_the_written_ones() -> None:
    fn, (matrix, x, y) = scaled(7)
    (found,) = fn(2, matrix, x, y)
    assert np.allclose(found, y + 2 * matrix @ x, rtol=1e-14)
    assert "double t0_sum;" in fn.source  # declared in the loop: one variable, not one per iteration
    lists = (np.float64(2), memoryview(matrix.data), array.array("d", x.tolist()), y)  # buffer protocol
    assert np.array_equal(fn(*lists)[0], found)
    out = np.empty(7)
    assert fn(2.0, matrix, x, y, out=out)[0] is out
    assert np.array_equal(out, found)
    fn(2.0, matrix, x, y, out=(y,))  # in place
    assert np.array_equal(y, found)


def test_variables_of_a_parallel_loop_are_each_threads_own(tmp_path: Path) -> None:
    text = SCALED.replace("double sum = 0;", "double sum = 0, row[n]; for (int j = 0; j < n; j++) row[j] = A[i][j];")
    text = text.replace("sum += A[i][j]", "sum += row[j]")
    source = check(text, {"n": 20}, tmp_path, 3, threads=4).source
    assert "private(t0_sum, t1_row)" in source
    for line in ("double t0_sum;", "__attribute__((aligned(64))) double t1_row[20];"):
        assert line in source


def test_what_a_region_cannot_take_is_told() -> None:
    fn, (matrix, x, y) = scaled(7)
    with pytest.raises(pm.errors.InputError, match="PM636 arrays given: 3"):
        fn(matrix, x, y)
    with pytest.raises(pm.errors.InputError, match="PM631 A has elements of float32"):
        fn(2.0, matrix.astype("f"), x, y)
    with pytest.raises(pm.errors.InputError, match=r"PM632 x has shape \(6\)"):
        fn(2.0, matrix, x[:6], y)
    with pytest.raises(pm.errors.InputError, match="PM633 A has strides"):
        fn(2.0, matrix.T, x, y)
    with pytest.raises(pm.errors.InputError, match="PM631 alpha is given as an integer of"):
        fn(10**400, matrix, x, y)
    with pytest.raises(pm.errors.InputError, match="PM630 x is given as float"):
        fn(2.0, matrix, 1.0, y)
    with pytest.raises(pm.errors.InputError, match="PM634 the arrays of y and x overlap"):
        fn(2.0, matrix, x, y, out=x)
    with pytest.raises(pm.errors.InputError, match="PM636 out is 'tuple'"):
        fn(2.0, matrix, x, y, out=(y, x))
    with pytest.raises(pm.errors.InputError, match="PM637 a region of C"):
        fn.pack_weights(x)


def test_outputs_may_not_hold_the_start_of_another_array() -> None:
    text = "void f(int A[8], int B[8]) { for (int i = 0; i < 8; i++) { A[i] = B[i] + 1; B[i] = A[i] * 2; } }"
    fn = pm.compile(pm.from_c(text, {}), "cpu_avx2")
    a, b = np.zeros(8, np.int32), np.arange(8, dtype=np.int32)
    assert isinstance(fn.loaded, RegionCall)
    with pytest.raises(pm.errors.InputError, match="PM634 the arrays of A and B overlap"):
        fn(a, b, out=(b, np.empty(8, np.int32)))
    first, second = fn(a, b)
    assert np.array_equal(first, b + 1)
    assert np.array_equal(second, 2 * b + 2)


def test_programs_of_several_statements_equal_numpy() -> None:
    lines = ["T[m,n] += A[m,k] * B[k,n]", "C[m,n] = max(T[m,n], 0)", "S[m] += C[m,n]"]
    work = pm.program(lines, m=7, n=5, k=3, temporary=["T"], types="float32")
    fn = pm.compile(work, "cpu_avx2")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((7, 3), (3, 5)))
    c, s = fn(a, b)
    assert np.array_equal(c, np.maximum(a @ b, 0))
    assert np.array_equal(s, c.sum(axis=1))


def test_any_legal_tree_or_schedule_may_be_given() -> None:
    text = "void f(int n, float A[n][n], float B[n][n]) { for (int i = 0; i < n; i++) for (int j = 0; j < n; j++) "
    work = pm.from_c(text + "B[j][i] = 2 * A[j][i]; }", {"n": 9})
    a = np.arange(81, dtype=np.float32).reshape(9, 9)
    nodes = [{"store": "DRAM", "tensors": ["A", "B"]}, {"for": "j", "tile": 4}, {"for": "i", "tile": 1}]
    tree = mapping_from_document({"nodes": [*nodes, {"for": "j", "tile": 1}, {"compute": "S0"}]})
    turned = pm.transform.interchange(pm.Schedule.original(work), "i", "j")
    for mapping in (tree, turned):
        assert np.array_equal(pm.compile(work, "cpu_avx2", mapping=mapping)(a, a)[0], 2 * a)


def test_innermost_loops_step_through_memory_one_by_one_where_that_is_legal() -> None:
    gram = pm.compile(pm.from_c(KERNELS["gramschmidt"][0], {"m": 60, "n": 50}), "cpu_avx2")
    assert "S5[k,j,i_3] -> [0, k, 5, i_3, 0, j_2: j, 0]" in gram.source  # R[k][j] += Q[i][k] * A[i][j]
    trisolv = pm.compile(pm.from_c(KERNELS["trisolv"][0], {"n": 6}), "cpu_avx2")
    assert "S1[i,j] -> [0, i, 1, j, 0]" in trisolv.source
    backwards = (
        "void f(float A[9][9]) { for (int j = 0; j < 8; j++) for (int i = 1; i < 9; i++) A[i][j] = A[i-1][j+1]; }"
    )
    kept = pm.compile(pm.from_c(backwards, {}), "cpu_avx2")
    assert "S0[j,i] -> [0, j, 0, i, 0]" in kept.source  # exchanged, A[i-1][j+1] would be overwritten first


def test_illegal_orders_are_refused() -> None:
    text = "void f(float A[9][9]) { for (int i = 1; i < 9; i++) for (int j = 0; j < 8; j++) A[i][j] += A[i-1][j+1]; }"
    work = pm.from_c(text, {})
    nodes = [{"store": "DRAM", "tensors": ["A"]}, {"for": "j", "tile": 1}, {"for": "i", "tile": 1}, {"compute": "S0"}]
    with pytest.raises(pm.errors.MappingError, match=r"PM639 the mapping is illegal\. .*S0"):
        pm.compile(work, "cpu_avx2", mapping=mapping_from_document({"nodes": nodes}))
    turned = pm.transform.interchange(pm.Schedule.original(work), "i", "j", unsafe=True)
    with pytest.raises(pm.errors.ScheduleError, match="PM639 the schedule is illegal"):
        pm.compile(work, "cpu_avx2", mapping=turned)
    other = pm.from_c(text.replace("8", "7"), {})
    with pytest.raises(pm.errors.ScheduleError, match="PM639 the schedule is one of another workload"):
        pm.compile(other, "cpu_avx2", mapping=turned)
    layer = pm.matmul(m=4, n=4, k=4, bits=32)
    with pytest.raises(pm.errors.ScheduleError, match="PM639 a schedule is given for a workload of one statement"):
        pm.compile(layer, "cpu_avx2", mapping=pm.Schedule.original(layer))


@pytest.mark.parametrize(
    "name", ["sqrt", "new", "linux", "c1", "d0", "a0", "t0_x", "M_PI", "INT_MAX", "free", "MAX", "x"]
)
def test_names_that_mean_something_in_c_are_printed_otherwise(name: str) -> None:
    work = pm.program([f"{name}[i] = max(X[i], 0)", f"Y[i] = sqrt({name}[i])"], i=3, types="float64")
    fn = pm.compile(work, "cpu_avx2")
    found, root = fn(np.array([4.0, -1.0, 9.0]))
    assert found.tolist() == [4, 0, 9]
    assert root.tolist() == [2, 0, 3]
    assert (f" {name})" in fn.function.declarations or f" {name}," in fn.function.declarations) == (name == "x")


@pytest.mark.parametrize("operator", [">", ">=", "<", "<="])
def test_comparisons_pick_what_the_text_picks_also_of_what_is_no_number(operator: str) -> None:
    for form in (f"m[i] = m[i] {operator} x[i] ? m[i] : x[i];", f"if (x[i] {operator} m[i]) m[i] = x[i];"):
        text = f"void f(double m[9], double x[9]) {{ for (int i = 0; i < 9; i++) {{ {form} }} }}"
        m, x = (each.ravel().copy() for each in np.meshgrid(*[[1.0, 2.0, np.nan]] * 2))
        (found,) = pm.compile(pm.from_c(text, {}), "cpu_avx2")(m, x)
        compare = {">": np.greater, ">=": np.greater_equal, "<": np.less, "<=": np.less_equal}[operator]
        with np.errstate(invalid="ignore"):
            wanted = np.where(compare(m, x), m, x) if form.startswith("m") else np.where(compare(x, m), x, m)
        assert np.array_equal(found, wanted, equal_nan=True)


def test_layers_are_printed_from_a_legal_tree_too() -> None:
    layer = pm.matmul(m=5, n=19, k=7, types="float32")
    nodes = [{"store": "DRAM", "tensors": ["C", "A", "B"]}, {"for": "k", "tile": 3}, {"for": "n", "tile": 4}]
    nodes += [{"for": dim, "tile": 1} for dim in ("n", "m", "k")]
    fn = pm.compile(layer, "cpu_avx2", mapping=mapping_from_document({"nodes": [*nodes, {"compute": "S"}]}))
    assert fn.result is None
    assert "lanes" in fn.reason
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-9, 9, shape).astype(np.float32) for shape in ((5, 7), (7, 19)))
    assert np.array_equal(fn(a, b), a @ b)
    with pytest.raises(pm.errors.MappingError, match="PM4"):
        pm.compile(layer, "cpu_avx2", mapping=mapping_from_document({"nodes": [{"compute": "S"}]}))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_softmax_equals_numpy(kind: str, threads: int) -> None:
    lines = [
        "M[i] = X[i,0]",
        "M[i] max= X[i,j]",
        "E[i,j] = exp(X[i,j] - M[i])",
        "S[i] += E[i,j]",
        "Y[i,j] = E[i,j] / S[i]",
    ]
    fn = pm.compile(pm.program(lines, i=9, j=13, temporary=["M", "E", "S"], types=kind), "cpu_avx2", threads=threads)
    x = np.random.default_rng(1).standard_normal((9, 13)).astype(kind)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    assert np.allclose(fn(x), e / e.sum(axis=1, keepdims=True), rtol=1e-5 if kind == "float32" else 1e-13)


@pytest.mark.parametrize(("narrow", "wide"), [("int8", "int32"), ("uint8", "int64"), ("int16", "float32")])
def test_programs_of_mixed_types_equal_numpy(narrow: str, wide: str) -> None:
    lines = ["T[m,n] += A[m,k] * B[k,n]", "L[n] = T[0,n]", "L[n] max= T[m,n]", "C[m,n] = L[n] - T[m,n]"]
    types = {"A": narrow, "B": narrow, "T": wide, "L": wide, "C": wide}
    fn = pm.compile(pm.program(lines, m=6, n=11, k=5, temporary=["T"], types=types), "cpu_avx2")
    rng = np.random.default_rng(2)
    a, b = (rng.integers(0, 9, shape) for shape in ((6, 5), (5, 11)))
    given = [each.astype(narrow) for each in (a, b)]
    largest, rest = fn(*given)
    assert np.array_equal(largest, (a @ b).max(axis=0))
    assert np.array_equal(rest, (a @ b).max(axis=0) - a @ b)


def test_elements_that_a_program_does_not_write_are_zero() -> None:
    fn = pm.compile(pm.program(["Y[2*i] = X[i]", "Z[i] = Y[2*i]"], i=4, types="float64"), "cpu_avx2")
    y, z = fn(np.arange(1.0, 5.0))
    assert y.tolist() == [1, 0, 2, 0, 3, 0, 4]
    assert z.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("wrong", [3, "source", {}])
def test_an_order_of_a_wrong_type_is_named(wrong: object) -> None:
    for workload in (
        pm.matmul(m=4, n=4, k=4, bits=32),
        pm.from_c("void f(double x[4]) { for (int i = 0; i < 4; i++) x[i] = i; }"),
    ):
        with pytest.raises(pm.errors.OptionError, match="PM120 the mapping is"):
            pm.compile(workload, "host_cpu", mapping=wrong)  # type: ignore[arg-type]


BACKWARDS = {
    "step back in a short loop": "for (int l = 0; l < 4; l++) s[0] += a[4 * k + 3 - l];",
    "one statement": "s[0] = s[0] + a[4 * k + 3] + a[4 * k + 1] + a[4 * k + 2] + a[4 * k];",
    "several statements": "s[0] += a[4 * k + 3]; s[0] += a[4 * k + 2]; s[0] += a[4 * k + 1]; s[0] += a[4 * k];",
}


@pytest.mark.parametrize("sums", BACKWARDS)
def test_sums_against_the_order_of_memory_are_right(sums: str) -> None:
    """gcc 12.2 adds some of them twice in vectors (its bug 110381)."""
    text = f"void f(int n, double a[n], double s[1]) {{ for (int k = 0; k < n / 4; k++) {{ {BACKWARDS[sums]} }} }}"
    fn = pm.compile(pm.from_c(text, {"n": 64}), "cpu_avx2")
    values = np.arange(64.0) ** 2
    (found,) = fn(values, np.zeros(1))
    assert found[0] == values.sum()


def test_only_loops_with_such_sums_are_kept_out_of_vectors() -> None:
    text = """void f(int n, double a[n], double b[n], double c[n][n], double s[1]) {
    for (int k = 0; k < n; k++) s[0] += b[n - 1 - k];
    for (int k = 0; k < n; k++) for (int i = 0; i < n; i++) c[k][i] += b[n - 1 - k];
    for (int k = 0; k < n; k++) b[k] = a[n - 1 - k]; }"""
    assert pm.compile(pm.from_c(text, {"n": 64}), "cpu_avx2").source.count("IN_TURN();") == 1


def test_short_loops_around_a_dependence_are_right() -> None:
    """gcc 12.2 vectorizes the loop over i once it has written out the one over j, and reads what is not yet written."""
    text = """void f(unsigned A[9][9], unsigned B[9][9]) {
    for (int i = 2; i < 7; i++) for (int j = 2; j < 7; j++) A[i][j] = B[i - 2][j + 2] + A[i - 2][j - 1]; }"""
    fn = pm.compile(pm.from_c(text), "cpu_avx2")
    start, other = np.arange(81, dtype=np.uint32).reshape(9, 9) * 7, np.arange(81, dtype=np.uint32).reshape(9, 9) ** 2
    wanted = start.copy()
    for i in range(2, 7):
        for j in range(2, 7):
            wanted[i, j] = other[i - 2, j + 2] + wanted[i - 2, j - 1]
    arrays = {"A": start, "B": other}
    found = fn(*(arrays[form.tensor] for form in fn.function.arrays))
    assert (found == wanted).all()


POINTERS = {"double *{}": 1, "double {}[]": 1, "double {}[][9]": 2, "double (*{})[9]": 2, "double {}[9][9]": 2}


def pointer_text(seed: int) -> str:
    """Return a function of three pointers of random kinds whose loops begin above 0."""
    rng = random.Random(f"pointers {seed}")
    kinds = {name: rng.choice(list(POINTERS)) for name in "xyz"}

    def element(name: str) -> str:
        loops = rng.sample(("i", "j"), 2)
        low = {"i": "", "j": rng.choice((" - 1", " + 1", ""))}
        places = [f"[{loop}{low[loop]}]" for loop in loops[: POINTERS[kinds[name]]]]
        return name + "".join(places)

    body = " ".join(
        f"{element(rng.choice('xyz'))} {rng.choice(('=', '+='))} {element('x')} + 2 * {element('y')};"
        for _ in range(rng.randint(1, 3))
    )
    loops = rng.choice((
        "for (int i = 3; i < 8; i++) for (int j = 2; j < i; j++)",
        "for (int i = 7; i >= 2; i--) for (int j = 4; j < 8; j += 2)",
        "for (int i = 1; i < 9; i += 3) for (int j = i; j < 8 && j < i + 2; j++)",
    ))  # fmt: skip
    listed = ", ".join(kinds[name].format(name) for name in "xyz")
    return f"void f({listed}) {{ {loops} {{ {body} }} }}"


@pytest.mark.parametrize("seed", few(range(6), 2))
def test_pointers_begin_where_the_texts_begin(seed: int, tmp_path: Path) -> None:
    for number in range(5 * seed, 5 * seed + 5):
        text = pointer_text(number)
        fn = pm.compile(pm.from_c(text), "cpu_avx2")
        original = getattr(ctypes.CDLL(compiled(text, tmp_path / f"{number}.so", "gcc", PLAIN)), "f")  # noqa: B009
        rng = np.random.default_rng(number)
        start = {name: rng.integers(-9, 10, 81).astype(np.float64) for name in "xyz"}
        mine, others = ({name: values.copy() for name, values in start.items()} for _ in range(2))
        original(*(ctypes.c_void_p(others[name].ctypes.data) for name in "xyz"))
        fn.loaded.plain(*(mine[form.tensor].ctypes.data for form in fn.function.arrays))
        assert all(np.array_equal(mine[name], others[name], equal_nan=True) for name in "xyz"), text


def test_shapes_reach_from_the_pointer_to_the_last_element() -> None:
    text = "void f(double *x, double y[][5]) { for (int i = 2; i < 6; i++) x[i] = y[i + 1][3] + x[i - 1]; }"
    workload = pm.from_c(text)
    fn = pm.compile(workload, "cpu_avx2")
    assert [form.shape for form in fn.function.arrays] == [(6,), (7, 5)]
    assert workload.tensor("x").shape == (5,)  # what is counted are the elements that it touches
    x, y = np.arange(6.0), np.ones((7, 5))
    (found,) = fn(x, y)
    assert found.tolist() == [0, 1, 2, 3, 4, 5]


def test_subscripts_below_a_pointer_are_refused() -> None:
    text = "void f(int n, double *x, double *y) { for (int i = 0; i < n; i++) y[i] = x[i - 2]; }"
    with pytest.raises(pm.PolymapError, match=r"(?s)PM625 x has the index -2 on axis 0.*2 more in each"):
        pm.compile(pm.from_c(text, {"n": 8}), "cpu_avx2")


def test_calls_from_several_threads_are_independent() -> None:
    text = KERNELS["gramschmidt"][0]
    fn = pm.compile(pm.from_c(text, {"m": 24, "n": 20}), "cpu_avx2")
    assert not re.search(r"^static (?!inline|void)|^\w[\w ]*(\[\w*\])* = ", fn.source, re.MULTILINE)
    rng = np.random.default_rng(0)
    given = [tuple(rng.uniform(1, 2, form.shape) for form in fn.function.arrays) for _ in range(16)]
    alone = [fn(*arrays) for arrays in given]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(4):
            for one, other in zip(alone, pool.map(lambda arrays: fn(*arrays), given), strict=True):
                assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_local_arrays_lie_where_gcc_stores_whole_vectors(tmp_path: Path) -> None:
    # gcc 12 with vectors of 64 bytes takes them to lie so where short loops fill them, and the store faults.
    text = """void f(double A[97][97], float B[97]) {
  float t[97];
  for (int i = 0; i < 97; i++) {
    t[i] = A[i][0];
    for (int j = 1; j < 97; j++) t[i] = t[i] > A[i][j] ? t[i] : A[i][j];
    B[i] = t[i];
  }
}"""
    transformed = pm.transform_c(text)
    assert "pm_min(96, 8 * c1 + 7)" in transformed
    assert "__attribute__((aligned(64))) float t[97];" in transformed
    assert "__attribute__((aligned(64))) float t0_t[97];" in check(text, {}, tmp_path, 1).source
    listed = parameters_of(text, "f")
    values = arguments(listed, {}, 1, whole=False)
    flags = (*PLAIN, "-O3", "-march=native")
    fast = called(compiled(transformed, tmp_path / "new.so", "gcc", flags), "f", listed, values)
    assert fast == called(compiled(text, tmp_path / "own.so", "gcc", PLAIN), "f", listed, values)


SHIFTED = pm.program(["M[m] max= X[m,n]", "P[m,n] = X[m,n] - M[m]"], m=3, n=7, types="int32")
ARRAY = pm.io.arch_from_document(
    {"name": "array", "nodes": [{"level": "D"}, {"fanout": "X", "size": 8}, {"compute": "PE"}]}
)


def around_both(fanout: str, tile: int) -> pm.Mapping:
    """Return the tree of SHIFTED whose instances all take their part of the maximum before one of them reads it."""
    inner = (pm.Temporal("m", 1), *([pm.Temporal("n", 1)] if tile > 1 else []))
    legs = ((*inner, pm.Compute("S0")), (*inner, pm.Compute("S1")))
    return pm.Mapping((pm.Spatial("n", tile, fanout), pm.Branch(legs)))


@pytest.mark.parametrize(("fanout", "tile"), [("lane", 1), ("lane", 2), ("core", 4)])
def test_a_compiled_tree_runs_in_lock_step_where_instances_need_each_other(fanout: str, tile: int) -> None:
    mapping = around_both(fanout, tile)
    assert pm.violations(SHIFTED, "host_cpu", mapping) == ()
    x = np.random.default_rng(tile).integers(-99, 99, (3, 7)).astype(np.int32)
    largest, less = pm.compile(SHIFTED, "host_cpu", mapping=mapping, threads=2)(x)
    assert np.array_equal(largest, x.max(1))
    assert np.array_equal(less, x - x.max(1, keepdims=True))


@pytest.mark.parametrize("tile", [1, 2, 4])
def test_a_native_program_runs_in_lock_step_where_instances_need_each_other(tile: int) -> None:
    mapping = around_both("X", tile)
    assert pm.violations(SHIFTED, ARRAY, mapping) == ()
    for form in ("native", "faithful"):
        assert pm.run_c(SHIFTED, ARRAY, mapping, form, seed=1).matches_reference


def test_a_recurrence_across_instances_runs_in_lock_step() -> None:
    text = "void f(int A[8][9]) { for (int i = 1; i < 8; i++) for (int j = 0; j < 8; j++) A[i][j] += A[i-1][j+1]; }"
    mapping = pm.Mapping((pm.Spatial("j", 1, "lane"), pm.Temporal("i", 1), pm.Compute("S0")))
    work = pm.from_c(text)
    assert pm.violations(work, "host_cpu", mapping) == ()
    given = np.random.default_rng(2).integers(-99, 99, (8, 9)).astype(np.int32)
    expected = given.copy()
    for i in range(1, 8):
        expected[i, :8] += expected[i - 1, 1:]
    (found,) = pm.compile(work, "host_cpu", mapping=mapping)(given)
    assert np.array_equal(found, expected)
