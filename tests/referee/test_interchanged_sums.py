"""Sums over several loops are added up in the order of the text: gcc 12 interchanges such loops under -O3."""

from __future__ import annotations

import random

import numpy as np
import pytest

import polymap as pm
from polymap.codegen.lower import sums_of_several_loops
from tests.times import few


def _text(rng: random.Random) -> tuple[str, list[str], dict[str, int]]:
    """Return a convolution with its sums over c, r and s in some order, inside or outside the loops over y."""
    sizes = {"k": rng.choice([1, 2, 3]), "i": rng.choice([4, 16]), "j": rng.choice([5, 16, 33])}
    sizes |= {"c": rng.choice([3, 8, 33]), "r": rng.choice([1, 3, 4]), "s": rng.choice([2, 5])}
    terms = rng.sample(["c", "r", "s"], 3)
    order = [*terms, *"kij"] if rng.random() < 0.5 else ["k", *terms[:2], "i", "j", terms[2]]
    order = rng.choice([order, [*"kij", *terms]])
    loops = " ".join(f"for (int {dim} = 0; {dim} < {sizes[dim]}; {dim}++)" for dim in order)
    rows, columns = sizes["i"] + sizes["r"] - 1, sizes["j"] + sizes["s"] - 1
    head = "void f(const double x[{c}][{rows}][{columns}], const double w[{k}][{c}][{r}][{s}], double y[{k}][{i}][{j}])"
    head = head.format(rows=rows, columns=columns, **sizes)
    return f"{head} {{ {loops} y[k][i][j] += x[c][i + r][j + s] * w[k][c][r][s]; }}", terms, sizes


def _expected(x: np.ndarray, w: np.ndarray, y: np.ndarray, terms: list[str], sizes: dict[str, int]) -> np.ndarray:
    """Return the sums, added one term after the other to all elements at once."""
    y = y.copy()
    for first in range(sizes[terms[0]]):
        for second in range(sizes[terms[1]]):
            for third in range(sizes[terms[2]]):
                at = dict(zip(terms, (first, second, third), strict=True))
                c, r, s = at["c"], at["r"], at["s"]
                y += x[c, r : r + sizes["i"], s : s + sizes["j"]] * w[:, c, r, s][:, None, None]
    return y


@pytest.mark.parametrize("seed", few(range(10), 4))
def test_sums_over_several_loops_are_added_up_in_the_order_of_the_text(seed: int) -> None:
    text, terms, sizes = _text(random.Random(seed))
    workload = pm.from_c(text)
    values = np.random.default_rng(seed)
    fn = pm.compile(workload)
    given = {form.tensor: values.standard_normal(form.shape) for form in fn.function.arrays}
    x, w, y = (given[name] for name in "xwy")
    (found,) = fn(*given.values())
    assert np.array_equal(found, _expected(x, w, y, terms, sizes)), f"another order of additions than in {text}"


def test_a_loop_over_elements_inside_two_of_a_sum_is_in_danger() -> None:
    def names(order: str) -> frozenset[str]:
        loops = " ".join(f"for (int {dim} = 0; {dim} < 4; {dim}++)" for dim in order)
        workload = pm.from_c(f"void f(double y[4], const double x[4][4][4]) {{ {loops} y[i] += x[r][s][i]; }}")
        return sums_of_several_loops(workload, pm.Schedule.original(workload).times)

    assert names("rsi") == {"S0"}, "gcc may interchange r and s"
    assert not names("irs"), "each element is added up by itself"
    assert not names("ris"), "s is the innermost loop"
