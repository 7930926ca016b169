"""OpenScop files against an enumeration of their matrices, and against the programs that they were written from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import polymap as pm
from polymap import transform as t
from polymap.cli import main
from tests.c_programs import random_program
from tests.openscop_runs import run_file, run_workload
from tests.times import few

GAUSS = """\
<OpenScop>
C
CONTEXT
0 3 0 0 0 1
1
<strings>
n
</strings>
3
# Statement 0
4
DOMAIN
3 4 1 0 0 1
   1    1    0   -1    ## k-1 >= 0
   1   -1    1    0    ## -k+n >= 0
   1    0    1   -1    ## n-1 >= 0
SCATTERING
3 7 3 1 0 1
   0   -1    0    0    0    0    0
   0    0   -1    0    1    0    0
   0    0    0   -1    0    0    0
WRITE
1 5 1 1 0 1
   0   -1    0    0    3    ## Arr == s
READ
3 7 3 1 0 1
   0   -1    0    0    0    0    4    ## Arr == a
   0    0   -1    0    1    0    0
   0    0    0   -1    1    0    0
1
<body>
# Number of original iterators
1
k
# Statement body expression
s = 1/a[k][k];
</body>
# Statement 1
5
DOMAIN
2
4 6 2 0 1 1
   1    1    0    0    0   -1    ## k-1 >= 0
   1    0    0    1    0    0    ## l1 >= 0
   1    0   -1    0    1    0    ## -l+n >= 0
   0   -1    1   -2    0   -1    ## l == k+2*l1+1
   ## and every l above the diagonal, from 4 on
2 5 2 0 0 1
   1    1    0    0   -4
   1   -1    0    1   -2
SCATTERING
5 10 5 2 0 1
   0   -1    0    0    0    0    0    0    0    0
   0    0   -1    0    0    0    1    0    0    0
   0    0    0   -1    0    0    0    0    0    1
   0    0    0    0   -1    0    0   -1    0    0    ## downwards
   0    0    0    0    0   -1    0    0    0    0
WRITE
3 8 3 2 0 1
   0   -1    0    0    0    0    0    4
   0    0   -1    0    0    1    0    0
   0    0    0   -1    1    0    0    0
READ
3 8 3 2 0 1
   0   -1    0    0    0    0    0    4
   0    0   -1    0    0    1    0    0
   0    0    0   -1    1    0    0    0
READ
1 6 1 2 0 1
   0   -1    0    0    0    3    ## Arr == s
1
<body>
2
k l
a[l][k] = a[l][k]*s;
</body>
# Statement 2
3
DOMAIN
2 4 1 0 0 1
   1    1    0   -1
   1   -1    1    0
SCATTERING
3 7 3 1 0 1
   0   -1    0    0    0    0    1
   0    0   -1    0    1    0    0
   0    0    0   -1    0    0    0
WRITE
2 6 2 1 0 1
   0   -1    0    0    0    5
   0    0   -1    1    0    0
1
<body>
1
m
t[m] = m;
</body>
<arrays>
5
1 k
2 n
3 s
4 a
5 t
</arrays>
</OpenScop>
"""


def bounded(text: str) -> str:
    """Return the file with the missing bounds of the second part of statement 1: k < l <= n."""
    part = "2 5 2 0 0 1\n   1    1    0    0   -4\n   1   -1    0    1   -2\n"
    assert part in text, "the text has changed"
    return text.replace(part, "4 5 2 0 0 1\n   1 1 0 0 -4\n   1 -1 0 1 -2\n   1 -1 1 0 -1\n   1 0 -1 1 0\n")


def test_a_file_runs_as_its_matrices_say() -> None:
    text = bounded(GAUSS)
    for n in (1, 4, 9):
        assert run_workload(pm.io.workload_from_openscop(text, {"n": n})) == run_file(text, [n], range(-12, 14)), n
    twice = text.replace("   0    0   -1    0    1    0    0", "   0    0   -1    0    2    0    0", 1)  # 2 * k
    assert run_workload(pm.io.workload_from_openscop(twice, {"n": 4})) == run_file(twice, [4], range(-12, 14))
    with pytest.raises(pm.errors.InputError, match="PM438.*statement 1.*iterator l has no lower bound"):
        pm.io.openscop_to_c(GAUSS)


@pytest.mark.parametrize("first", few(range(0, 24, 6), 2))
def test_random_programs_come_back(first: int) -> None:
    done = 0
    for seed in range(first, first + 6):
        work = pm.from_c(random_program(seed))
        if re.search(r"%", random_program(seed)):
            continue  # the file has no types: a remainder would be of fractions
        steps, original = run_workload(work), pm.Schedule.original(work)
        text = pm.io.to_openscop(original)
        assert text == pm.io.to_openscop(work), "a program stands for its own order"
        assert run_workload(pm.io.workload_from_openscop(text)) == steps, seed
        if len(steps) < 60:
            assert run_file(text) == steps, seed
        assert pm.io.from_openscop(work, text).times == original.times, seed
        done += 1
    assert done > 0, "every program has a remainder"


STEPPED = """void f(int n, double A[n][n], double b[n], int k[n]) {
  for (int i = n - 1; i >= 1; i -= 3) {
    b[i] = i / 2;
    for (int j = i; j < n; j++)
      if ((i + j) % 3 != 1) b[j] = fmax(b[j], A[i - 1][j / 2] - (j + 1) / 2);
  }
}"""


def test_schedules_of_stepped_loops_come_back_and_run_in_their_order() -> None:
    work = pm.from_c(STEPPED, {"n": 8})
    original = pm.Schedule.original(work)
    assert run_file(pm.io.to_openscop(original)) == run_workload(work), "the file runs otherwise"
    changed = t.schedule_from_text(work, "S0[i] -> [0, i, 0]\nS1[i,j] -> [1, j + i, floor(j/2), j]")
    text = pm.io.to_openscop(changed)
    assert pm.io.from_openscop(work, text).times == changed.times
    assert run_file(text) != run_file(pm.io.to_openscop(original)), "the order has not changed"
    assert sorted(map(str, run_file(text))) == sorted(map(str, run_workload(work))), "the instances have"
    assert run_workload(pm.io.workload_from_openscop(text)) == run_file(text), "a skewed order is read otherwise"
    tiled = t.schedule_from_text(work, "S0[i] -> [0, i, 0, 0]\nS1[i,j] -> [1, floor(i/2), floor((i + j)/3), i, j]")
    text = pm.io.to_openscop(tiled)
    assert run_workload(pm.io.workload_from_openscop(text)) == run_file(text), "a tiled order is read otherwise"


def test_the_command_line_reads_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gauss.scop"
    path.write_text(bounded(GAUSS), encoding="utf-8")
    assert main(["check", str(path)]) == 0
    assert "S2" in (told := capsys.readouterr().out), told
    assert main(["check", str(path), "--size", "n=6"]) == 0
    assert "flow of s, S0 to S1" in capsys.readouterr().out
    path.write_text(bounded(GAUSS).replace("a[l][k] = a[l][k]*s", "a[l][k] = a[k][l]*s"), encoding="utf-8")
    assert main(["check", str(path), "--size", "n=6"]) == 2
    assert re.search(r"PM439.*read of a\[k\]\[l\], read of a\[l\]\[k\]", capsys.readouterr().err), "no such message"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<OpenScop>", "<SCoP>", "PM437 the text, line 1: the file has no <OpenScop>"),
        ("</OpenScop>", "", "PM437 .*ends too early"),
        ("</OpenScop>", "</OpenScop>\n<OpenScop>\n</OpenScop>", "PM437 .*another <OpenScop> begins"),
        ("3\n# Statement 0", "4\n# Statement 0", "PM437 .*4 statements are announced, and 3 found"),
        ("3 4 1 0 0 1", "3 4 1 0 1 1", "PM437 .*the head of DOMAIN"),
        ("   1   -1    1    0  ", "   2   -1    1    0  ", "PM437 .*a row of DOMAIN"),
        ("   1   -1    1    0  ", "   1   -1    x    0  ", "PM437 .*no row of integers"),
        ("1\nm\nt[m]", "2\nm\nt[m]", "PM437 .*names 'm', not 2 iterators"),
        ("</arrays>", "", "PM437 .*</arrays> is missing"),
        ("5 t", "t", "PM437 .*no array's number and name"),
        ("   0    0   -1    0    1    0    0", "   0    0   -1    0    0    0    0", "PM438 .*that of another"),
        ("## downwards", "\n   0    0    0    0   -1    0    0    1    0    0", "PM43[78]"),
    ],
    ids=map(str, range(12)),
)  # fmt: skip
def test_what_is_no_file_is_refused_in_words(old: str, new: str, message: str) -> None:
    text = bounded(GAUSS)
    assert old in text, "the text has changed"
    with pytest.raises(pm.errors.InputError, match=message):
        pm.io.workload_from_openscop(text.replace(old, new, 1), {"n": 5})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\n5\nDOMAIN", "\n6\nDOMAIN", "PM437.*'6' relations are announced, and the statement has 5"),
        ("    1  1 -1 -1\n", "    1  1 -1 -1\n    1  1 -1 -1\n", "PM437.*is no part of a statement"),
        ("0  -1   0   0  0  0  1", "0  -1   0   0  1  0  1", "PM438.*WRITE names no array"),
        ("0  -1   0   0  0  0  1", "0  -1   0   0  0  0  3", "PM438.*WRITE names no array"),
        ("\n2\n1 A", "\n3\n1 A", "PM437.*<arrays> do not begin with how many they are"),
        ("2 B", "1 B", "PM437.*or name one twice"),
    ],
    ids=map(str, range(6)),
)
def test_counts_rows_and_arrays_that_do_not_fit_are_refused(old: str, new: str, message: str) -> None:
    nest = pm.from_c(
        "void f(double A[20][20], double B[20]) {\n  for (int i = 1; i < 19; i++)\n    for (int j = 0; j < i; j++)\n"
        "      A[i][j] = A[i-1][j] + B[j];\n}",
        {},
    )
    text = pm.io.to_openscop(pm.Schedule.original(nest))
    assert old in text, text
    with pytest.raises(pm.errors.InputError, match=message):
        pm.io.openscop_to_c(text.replace(old, new, 1))
