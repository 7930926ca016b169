"""Random functions with branches on data, counted integers, `while`, switches and pointers: gcc and clang run them."""

from __future__ import annotations

import re

import pytest

from polymap.ir import PolymapError
from polymap.workload.c.reader import from_c
from tests.branching_functions import branching_function, branching_program
from tests.c_tally import Tally, check
from tests.c_to_c_functions import run_functions
from tests.times import few


def tallied(first: int, count: int) -> Tally:
    """Compare the generated C of some programs, in the text's order and in another tree, with the text."""
    tally = Tally()
    for start in range(first, first + count, 10):
        check({seed: branching_program(seed) for seed in range(start, min(start + 10, first + count))}, tally)
    return tally


@pytest.mark.parametrize("first", few([0, 10], 1))
def test_programs_compute_what_their_text_computes(first: int) -> None:
    tally = tallied(first, 5)
    assert not tally.wrong, "every element is equal"
    assert tally.compared > 2, "most of them are read"


@pytest.mark.soak
def test_many_programs_compute_what_their_text_computes() -> None:
    tally = tallied(1000, 1000)
    assert not tally.wrong, "every element is equal"
    assert tally.compared > 900, "most of them are read"


@pytest.mark.slow
def test_new_loops_compute_what_the_text_computes() -> None:
    tally = run_functions(100, 2, turns=1, make=branching_function)
    assert not tally.wrong, "every element is equal"
    assert tally.texts["original"] >= 1, "some of them are read"


@pytest.mark.soak
def test_many_new_loops_compute_what_the_text_computes() -> None:
    tally = run_functions(1000, 300, make=branching_function)
    assert not tally.wrong, "every element is equal"
    assert tally.texts["original"] > 200, "most of them are read"


LOOP = "void f(int n, float a[2 * n + 9], float b[2 * n + 9]) {{ {} }}"
READ = {  # the text -> statements of the workload at n = 6
    "int k = -1; for (int i = 0; i < n; i++) { k += 2; a[k] = b[i]; }": ["a[2*i+1] = b[i]"],
    "int k = 9; for (int i = 0; i < n; i++) { a[k] = b[i]; k--; }": ["a[-i+9] = b[i]"],
    "int k = 0, i = 0; while (i < n) { a[k] = b[i]; k += 1; i += 2; }": ["a[i] = b[2*i]"],
    "int k; for (int i = 0; i < n; i++) { k = i + 1; a[k] = b[i]; }": ["a[i+1] = b[i]"],
    "int k = 0; for (int i = 0; i < n; i++) for (int j = 0; j < 2; j++) { a[k] = b[i]; k++; }": ["a[2*i+j] = b[i]"],
    "int k = 0; for (int i = 0; i < n; i++) k += 3; a[k] = 0;": ["a[18] = 0"],
    "int k = 5; for (int i = 0; i < n; i++) { a[i] = b[k]; k = i; }":
        ["a[i] = b[5] if -i >= 0", "a[i] = b[i-1] if i - 1 >= 0"],
    "float *p = a + 2; for (int i = 0; i < n; i++) p[i] = b[i];": ["a[i+2] = b[i]"],
}  # fmt: skip


@pytest.mark.parametrize("body", READ)
def test_counted_integers_are_sums_of_loop_variables(body: str) -> None:
    work = from_c(LOOP.format(body), {"n": 6})
    assert re.findall(r"S\d+: (.*)", str(work)) == READ[body], "as it is read"


KEPT = (  # (text, place and name of what is refused)
    ("int k = 0; for (int i = 0; i < n; i++) if (b[i] > 0) { a[k] = b[i]; k++; }", "PM265 'k' is no sum"),
    ("int k = 0; for (int i = 0; i < n; i++) { a[k] = b[i]; k += i; }", "PM265 'k' is no sum"),
    ("int k = 0; for (int i = 0; i < n; i++) { a[k] = b[i]; k = 2 * k; }", "PM265 'k' is no sum"),
    ("int k = 0; while (a[k] > 0) { b[k] = 0; k++; }", "PM262 'a[k]' is not affine"),
    ("float *p = a; for (int i = 0; i < n; i++) { p[0] = b[i]; if (b[i] > 0) p++; }", "PM2"),
    ("for (int i = 0; i < n; i++) { a[i] = b[i]; if (b[i] > 0) break; }", "PM261 a break cannot be read"),
)


@pytest.mark.parametrize(("body", "said"), KEPT)
def test_what_depends_on_data_is_refused(body: str, said: str) -> None:
    with pytest.raises(PolymapError, match=r"\(C source:1\)\n      [A-Z]") as refused:
        from_c(LOOP.format(body), {"n": 6})
    assert said in str(refused.value), "it tells what"
