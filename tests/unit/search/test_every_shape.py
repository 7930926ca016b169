"""How many loops and shapes a program has, without listing them."""

from __future__ import annotations

import pytest

import polymap as pm
from polymap.search.programs.every_shape import count_bound, count_loops, every_shape, statement_loops
from polymap.workload.c.reader import from_c


@pytest.mark.parametrize("sizes", [(12, 8, 6), (7, 1, 4), (2, 3, 16), (1, 1, 1)])
def test_loops_are_counted_as_they_are_listed(sizes: tuple[int, int, int]) -> None:
    p, r, k = sizes
    workload = pm.einsum("O[2*p+r] += A[p]*B[r,k]", p=p, r=r, k=k)
    listed = list(statement_loops(workload, "S"))
    assert len(listed) == len(set(listed)) == count_loops(workload, "S")


def test_a_count_of_seven_loops_lists_none() -> None:
    text = "I[n,c,2*p+r,2*q+s] += O[n,k,p,q]*W[k,c,r,s]"
    workload = pm.einsum(text, n=64, c=64, k=64, p=48, q=48, r=4, s=4)
    assert count_bound(workload) > 10**13


def test_the_bound_of_shapes_is_one() -> None:
    workload = from_c("void f(double A[9]) { for (int i = 0; i < 4; i++) { A[i] = 1; A[i + 1] += A[i]; } }")
    assert 0 < len(list(every_shape(workload))) <= count_bound(workload)
