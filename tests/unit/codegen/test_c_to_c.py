"""C to C: what is written, what is refused; that it computes the same is `tests/referee/test_c_to_c.py`'s."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import polymap as pm
from polymap.cli import main
from polymap.ir import InputError, OptionError, ScheduleError, WorkloadError

FILE = """\
#include <stdio.h>
#define SIZE 20
/* untouched { */
static double A[SIZE][SIZE];

double kernel(int n, double s, double B[n][n]) /* signature */
{
  int i, j;
  double t = 0.0;
#pragma scop
  for (i = 1; i < n; i++) {
    double u = B[i][0]; // comment
    for (j = 1; j < n; j++)
      B[i][j] += B[i-1][j] * s + u;
  }
#pragma endscop
  for (i = 0; i < n; i++) t += B[i][i];
  return t;
}
int main(void) { printf("%f }\\n", kernel(SIZE, 0.5, A)); }
"""
COPY = "void f(int n, int m, double A[n][m], double B[n][m]) {\n%s\n}\n"


def region(text: str) -> str:
    """Return the part of a text between the marks."""
    return text.split("#pragma scop\n")[1].split("#pragma endscop\n")[0]


def test_only_the_region_changes() -> None:
    text = pm.transform_c(FILE, tile=1)
    assert text.replace(region(text), "") == FILE.replace(region(FILE), "")
    assert "B[i][j] += B[i - 1][j] * s + u;" in region(text)
    assert region(text).startswith("/* Written by polymap. Order: isl's.")


def test_a_function_without_marks_keeps_its_signature_and_its_return() -> None:
    loop = "  int s = 0;\n  for (int i = 0; i < n; i++) s += x[i];\n"
    source = f"static int f(int n, const int x[n])\n{{\n{loop}  return 3;\n}}\n"
    text = pm.transform_c(source, order="original", tile=1)
    head, tail = "static int f(int n, const int x[n])\n{\n", "return 3;\n}\n"
    assert text.startswith(head)
    assert text.endswith(tail)


def test_sizes_keep_the_original_beside_the_new_loops() -> None:
    text = region(pm.transform_c(FILE, {"n": 9}, tile=4))
    assert "if (n == 9) {" in text
    assert text.split("} else {\n")[1].split("\n}\n")[0] == region(FILE).rstrip("\n")


def test_tiles_of_sizes_that_they_do_not_divide() -> None:
    source = COPY % "  for (int i = 0; i < n; i++)\n    for (int j = 0; j < m; j++)\n      B[i][j] = A[i][j];"
    text = pm.transform_c(source, order="original", tile=8)
    assert "for (long c0 = 0; c0 <= pm_floor((long)n - 1, 8); ++c0) {" in text
    assert "c2 <= pm_min((long)n - 1, 8 * c0 + 7)" in text
    assert text.count("#define pm_") == text.count("#undef pm_") == 2


def test_a_variable_of_each_iteration_is_private_and_one_from_outside_is_shared() -> None:
    sums = "double t = 0.0;\n for (int j = 0; j < m; j++) t += A[i][j];\n B[i][0] = t;"
    body = f"for (int i = 0; i < n; i++) {{ {sums} }}"
    assert "#pragma omp parallel for private(t)\n    for (long c0" in pm.transform_c(
        COPY % body, order="original", tile=1, parallel=True
    )
    text = region(pm.transform_c(FILE, parallel=True))  # u is set before the parallel loop over j
    assert "#pragma omp parallel for\n        for (long c1" in text


def test_names_of_the_program_are_not_taken() -> None:
    inner = "for (int pm_min = 0; pm_min < m; pm_min++) B[c0][pm_min] = A[c0][pm_min];"
    body = f"for (int c0 = 0; c0 < n; c0++) {inner}"
    text = pm.transform_c(COPY % body, tile=4)
    assert "const long c0 = t2;" in text
    assert "#define pm___min(" in text


def test_schedules_of_ones_own_and_their_parallel_loops() -> None:
    source = COPY % "for (int i = 1; i < n; i++)\n for (int j = 0; j < m; j++) B[i][j] = B[i-1][j] + 1.0;"
    workload = pm.from_c(source, {"n": 9, "m": 7})
    exchanged = pm.transform.schedule_from_text(workload, "S0[i,j] -> [parallel j, i]")
    text = pm.transform_c(source, schedule=exchanged)
    assert re.search(r"#pragma omp parallel for\n    for \(long c0 = 0; c0 < m; \+\+c0\)", text)
    wrong = pm.transform.schedule_from_text(workload, "S0[i,j] -> [parallel i, j]")
    with pytest.raises(ScheduleError, match=r"PM280.*S0\[i=2, j=0\] must come after S0\[i=1, j=0\].*runs them at once"):
        pm.transform_c(source, schedule=wrong)
    backwards = pm.transform.schedule_from_text(workload, "S0[i,j] -> [-i, j]")
    with pytest.raises(ScheduleError, match=r"PM280.*'B': S0\[i=2, j=0\] must come after S0\[i=1, j=0\]"):
        pm.transform_c(source, {"n": 9, "m": 7}, schedule=backwards)


@pytest.mark.parametrize("time", ["i", "0", "j, j", "i + j"])
def test_instances_that_have_one_time_run_in_the_order_of_their_loops(time: str) -> None:
    source = COPY % "for (int i = 0; i < n; i++)\n for (int j = 0; j < m; j++) B[i][j] = A[i][j];"
    workload = pm.from_c(source, {"n": 3, "m": 4})
    given, whole = (
        pm.transform.schedule_from_text(workload, f"S0[i,j] -> [{each}]") for each in (time, f"{time}, i, j")
    )
    loops = [
        re.sub(r"/\*.*?\*/", "", pm.transform_c(source, schedule=each), flags=re.DOTALL) for each in (given, whole)
    ]
    assert loops[0] == loops[1], "the rest of the time is the order of the loops"


def test_sums_keep_their_order_unless_told() -> None:
    source = "void f(int n, float x[n], float s[1]) { for (int i = 0; i < n; i++) s[0] += x[i]; }"
    backwards = pm.transform.schedule_from_text(pm.from_c(source, {"n": 5}), "S0[i] -> [-i]")
    with pytest.raises(ScheduleError, match="(?s)PM280.*Sums may change their order"):
        pm.transform_c(source, schedule=backwards)
    assert "const long i = 0 - c0" in pm.transform_c(source, schedule=backwards, reorder_sums=True)


@pytest.mark.parametrize(
    ("source", "error", "match"),
    [
        ("for (i = 0; i < 9; i++) a[i] = 1;", InputError, "PM281.*no function"),
        ("void f(unsigned n, int a[n]) { for (unsigned i = 0; i < 0u - n; i++) a[0] += 1; }",
         WorkloadError, "PM272.*0u"),
        ("void f(int n, int a[n]) { for (int i = 0; i < n; i++) a[i * n + i * i] = 1; }",
         WorkloadError, "PM262.*loop var"),
        ("void f(int n, int a[n]) {\nstatic int i;\n#pragma scop\nfor (i = 0; i < n; i++) a[i] = 1;\n"
         "#pragma endscop\n}", WorkloadError, "PM281.*lives on"),
        ("int i; void f(int n, int a[n])\n{ for (i = 0; i < n; i++) a[i] = 1; }", WorkloadError, "PM281.*lives on"),
        ("void f(int n, int a[n]) { for (int i = 0; i < n; i++) a[i] = rand(); }", WorkloadError, "PM266.*'rand'"),
        ("void f(int n, int a[n]) { for (int i = 0; i < n; i++) { static int t; t = i; a[i] = t; } }",
         WorkloadError, "PM281.*static"),
        ("void f(int n, int a[n]) { for (int i = 0; ; i++) a[i] = 1; }", WorkloadError, "PM263"),
        ("void f(int n, int a[n]) { for (int i = 0; i > -1; i++) a[i] = 1; }", WorkloadError, "PM263.*unbounded"),
        ("void f(int n, int a[n]) { for (int i = 0; i < n; i++) { int t = a[i]; a[i] = t; } for (int i = 0; i < n; i++)"
         " { float t = a[i]; a[i] = t; } }", WorkloadError, "PM281.*more than once"),
    ],
)  # fmt: skip
def test_what_is_refused(source: str, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        pm.transform_c(source)


COUNTED = "void f(int n, double A[n], double B[n]) {{ int i, j; {} }}"
OUTSIDE = r"PM265 the loop variable '{}' is used outside its loop \(C source:1\)"


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("for (i = 0; i < n; i++) { for (j = 0; j < i; j++) A[j] += 1; A[i] = j; }", OUTSIDE.format("j")),
        ("for (i = 1; i < n; i++) A[i] += A[i - 1]; A[0] = i;", OUTSIDE.format("i")),
        ("for (i = n - 1; i >= 0; i -= 3) A[i] += 1; if (i < -1) A[0] = 2;", OUTSIDE.format("i")),
        ("for (i = 0; i <= n - 2; i += 2) A[i] += 1; A[i] = 7;", OUTSIDE.format("i")),
        ("for (i = 0; i != n; i++) A[i] += 1; for (j = i - 1; j >= 0; j--) B[j] = 1;", OUTSIDE.format("i")),
        ("for (i = 0; i < n; i++) A[i] += 1; for (j = 0; j < i; j++) B[j] = 1;", OUTSIDE.format("i")),
        ("for (i = 0; i < n; i++) A[i] += 1; int z = i + 1; A[0] = z;", OUTSIDE.format("i")),
        ("for (i = 0; i < n; i++) A[i] += 1; B[0] = A[0] < i ? 2 : 3;", OUTSIDE.format("i")),
        ("for (i = 0; i < n; i++) A[i] += 1; if (A[0] < i) A[0] = i;", OUTSIDE.format("i")),
        ("B[0] = i; for (i = 0; i < n; i++) A[i] = 1;", OUTSIDE.format("i")),
        ("for (i = i; i < n; i++) A[i] = 1;", "PM261 the loop cannot be read"),
        ("{ int j = 5; A[0] = j; } for (j = 0; j < n; j++) B[j] = j;", OUTSIDE.format("j")),
        ("for (i = 0; i < n; i++) { double j = 2; A[i] += j; } for (j = 0; j < n; j++) B[j] = 1;", OUTSIDE.format("j")),
        ("for (i = 0; i < n; i++) { for (i = 0; i < 3; i++) A[i] += 1; B[i] = 1; }", "PM267.*'i' is changed by"),
        ("for (int i = 0; i < n; i++) for (i = 2; i < n; i++) A[i] = 1;", "PM267.*'i' is changed by"),
        ("for (i = 0; i < n; i++) { int i = 3; A[i] += 1; }", "PM267.*'i' is declared again in its loop"),
    ],
)
@pytest.mark.parametrize("sizes", [{}, {"n": 6}])
def test_loop_variables_are_read_where_a_loop_counts_them(body: str, match: str, sizes: dict[str, int]) -> None:
    with pytest.raises(WorkloadError, match=match):
        pm.transform_c(COUNTED.format(body), sizes)
    with pytest.raises(WorkloadError, match=match):
        pm.from_c(COUNTED.format(body), {"n": 6})


def test_an_inner_loop_may_have_a_variable_of_the_same_name() -> None:
    text = COUNTED.format("for (i = 0; i < n; i++) { for (int i = 0; i < 3; i++) A[i] += 1; B[i] = 1; }")
    assert "B[i] = 1;" in pm.transform_c(text)


@pytest.mark.parametrize(
    ("rest", "is_read"),
    [
        ("return i;", True),
        ("i = 0; return i;", False),
        ("if (n > 3) { i = 0; } return i;", True),
        ("if (n) i = 3; return i;", True),
        ("n && (i = 0); return i;", True),
        ("for (i = 0; i < n; i++) g(i); return i;", False),
        ("if (n) for (i = 0; i < n; i++) g(i); return i;", True),
        ("for (int i = 0; i < n; i++) g(i); return i;", True),
        ("for (int i = 0; i < n; i++) { g(i); i += 1; } return 0;", False),
        ("while (n--) { i = 2; g(i); } return 1;", False),
        ("{ int i = 4; g(i); } return 2;", False),
        ("{ i = 4; g(i); } return i;", True),
        ("L: i = 0; if (n) goto L; return i;", True),
    ],
)
def test_last_values_are_not_read_behind_the_loops(rest: str, *, is_read: bool) -> None:
    region = "\n#pragma scop\nfor (i = 0; i < n; i++) A[i] = 1;\n#pragma endscop\n"
    text = f"void g(int);\nint f(int n, double *A) {{ int i;{region}{rest}}}"
    if is_read:
        with pytest.raises(WorkloadError, match="PM281 'i' is used behind the loops"):
            pm.transform_c(text)
    else:
        assert rest in pm.transform_c(text)


@pytest.mark.parametrize("name", ["max", "floor", "exists", "NaN", "infty", "mod", "lambda", "S0", "p0", "c0"])
def test_words_of_isl_are_names_like_others(name: str) -> None:
    text = f"void f(int n, double A[n]) {{ for (int {name} = 1; {name} < n; {name}++) A[{name}] += A[{name} - 1]; }}"
    assert "Order: isl's" in pm.transform_c(text, order="isl")
    text = f"void f(int {name}, double A[{name}]) {{ for (int i = 1; i < {name}; i++) A[i] += A[i - 1]; }}"
    found = pm.transform_c(text, order="isl")
    assert "Order: isl's" in found
    assert f"< {name};" in found


def test_a_size_is_not_taken_for_another_name_in_capitals() -> None:
    text = "void f(int n, int N, double A[n]) { for (int i = 0; i < n; i++) if (i < N) A[i] = 1; }"
    assert "if (n == 4) {" in pm.transform_c(text.replace("if (i < N) ", ""), {"n": 4}, order="original")
    with pytest.raises(WorkloadError, match="PM265 'N' has no value"):
        pm.from_c(text, {"n": 4})


def test_hints_tell_what_may_become_affine() -> None:
    text = "void f(int n, int m, int x[n], double A[n]) {{ for (int i = 0; i < n; i++) A[{}] = 1; }}"
    with pytest.raises(WorkloadError, match=r"(?s)PM262 'i \* m' .*With values for its sizes"):
        pm.transform_c(text.format("i * m + i * n"))
    for index in ("x[i]", "x[i] + 1", "i * i"):
        with pytest.raises(WorkloadError, match="PM262") as refused:
            pm.transform_c(text.format(index))
        assert "With values" not in str(refused.value), "no size makes data or a square affine"


def test_options_are_checked() -> None:
    with pytest.raises(OptionError, match="PM284.*order"):
        pm.transform_c(FILE, order="best")
    with pytest.raises(OptionError, match="PM284.*tile"):
        pm.transform_c(FILE, tile=0)


def test_the_command_writes_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kernel.c").write_text(FILE, encoding="utf-8")
    (tmp_path / "order.txt").write_text("S0[i] -> [i]\nS1[i,j] -> [i, 1, parallel j]\n", encoding="utf-8")
    source, target = str(tmp_path / "kernel.c"), tmp_path / "out.c"
    assert main(["transform", source, "-o", str(target), "--tile", "4", "--parallel"]) == 0
    assert target.read_text(encoding="utf-8") == pm.transform_c(FILE, tile=4, parallel=True)
    assert main(["transform", source, "--schedule", str(tmp_path / "order.txt"), "--size", "n=9"]) == 0
    assert "#pragma omp parallel for" in capsys.readouterr().out
    assert main(["transform", source, "--schedule", str(tmp_path / "order.txt"), "--tile", "4"]) == 2
    assert "--schedule excludes" in capsys.readouterr().err


WAVE = """void f(int n, double A[n][n]) {
  for (int i = 1; i < n; i++)
    for (int j = 1; j < n; j++) A[i][j] = A[i - 1][j] + A[i][j - 1];
}
"""


@pytest.mark.parametrize("openscop", [False, True])
def test_the_command_takes_schedules_for_all_sizes(
    openscop: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    workload = pm.from_c(WAVE, {"n": 5})
    (tmp_path / "kernel.c").write_text(WAVE, encoding="utf-8")
    command = ["transform", str(tmp_path / "kernel.c"), "--schedule", str(tmp_path / "order.txt")]
    texts = {0: "S0[i,j] -> [i + j, j, 0]", 2: "S0[i,j] -> [j, -i, 0]"}
    for code, text in texts.items():
        schedule = pm.transform.schedule_from_text(workload, text)
        written = pm.io.to_openscop(schedule) if openscop else text
        (tmp_path / "order.txt").write_text(written, encoding="utf-8")
        assert main(command) == code
        out, err = capsys.readouterr()
        if code == 0:
            assert out == pm.transform_c(WAVE, schedule=schedule)
            assert "if (n ==" not in out
        else:
            assert "S0[i=2, j=1] must come after S0[i=1, j=1] (for n=3), but not in this order" in err
    (tmp_path / "order.txt").write_text("SCATTERING\n1 2 3\n" if openscop else "S0[i] -> [i]", encoding="utf-8")
    assert main(command) != 0
    assert ("PM437" if openscop else "PM434") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "update", "free"),
    [
        ("int", "A[i] = MAX(A[i], B[j][i]);", True),
        ("int", "A[i] = A[i] >= B[j][i] + j ? A[i] : B[j][i] + j;", True),
        ("int", "if (B[j][i] < A[i]) A[i] = B[j][i];", True),
        ("unsigned", "A[i] = B[j][i] < A[i] ? B[j][i] : A[i];", True),
        ("int", "A[i] = MAX(A[i], A[i + 1]);", False),
        ("short", "A[i] = MAX(A[i], B[j][i] + 1);", False),
        ("int", "A[i] = MAX(A[i], (unsigned)B[j][i]);", False),
        ("double", "A[i] = fmax(A[i], B[j][i]);", False),
    ],
)
def test_maxima_of_integers_may_come_in_any_order(kind: str, update: str, free: bool) -> None:
    source = f"""#define MAX(a, b) ((a) > (b) ? (a) : (b))
    void f(int n, {kind} A[n + 1], {kind} B[n][n]) {{
      for (int j = 0; j < n; j++) for (int i = 0; i < n; i++) {update}
    }}"""
    schedule = pm.transform.schedule_from_text(pm.from_c(source, {"n": 5}), "S0[j,i] -> [i, -j]")
    if free:
        assert "Written by polymap" in pm.transform_c(source, schedule=schedule)
    else:
        with pytest.raises(pm.errors.ScheduleError, match="PM280"):
            pm.transform_c(source, schedule=schedule)


def test_loops_that_isl_joins_by_a_stride_go_through() -> None:
    """isl runs the odd and the next even iteration in one; the counter is not the time of both."""
    text = """void f(int n, double A[n]) {
        for (int i = 1; i < n; i++) {
            if (i < 3) A[i] = 1; else if (i % 2) A[i] += A[i-1];
            else if (i > n / 2) A[i] -= 2; else A[i] = A[i-1]; } }"""
    assert "A[i] -= 2" in pm.transform_c(text, order="original", tile=1)
    assert "A[i] -= 2" in pm.transform_c(text)


@pytest.mark.parametrize(("terms", "is_marked"), [(16, False), (17, True), (32, True), (33, False)])
def test_short_sums_are_marked_to_be_written_out_where_gcc_does_not(terms: int, *, is_marked: bool) -> None:
    source = f"""void f(const float *x, float *y, int n) {{
        for (int i = {terms - 1}; i < n; i++) {{
            float s = 0; for (int k = 0; k < {terms}; k++) s += x[i - k]; y[i] = s; }} }}"""
    assert (f"#pragma GCC unroll {terms}\n" in pm.transform_c(source)) == is_marked


def test_orders_are_chosen_at_sizes_that_arrays_have_and_at_which_loops_run() -> None:
    shortest = pm.transform_c("""void f(int d[256][256], int n) {
        for (int k = 0; k < n; k++) for (int i = 0; i < n; i++) for (int j = 0; j < n; j++)
            if (d[i][k] + d[k][j] < d[i][j]) d[i][j] = d[i][k] + d[k][j]; }""")
    assert shortest.report.reason == "no other order was found to pay"
    filtered = pm.transform_c("""void f(const float *x, size_t n, const float *h, size_t taps, float *y) {
        for (size_t i = 0; i + taps <= n; ++i) {
            float s = 0; for (size_t j = 0; j < taps; ++j) s += x[i + j] * h[j]; y[i] = s; } }""")
    assert "s is computed in y[i]" in filtered.report.changes
