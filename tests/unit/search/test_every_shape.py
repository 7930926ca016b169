"""How many loops and shapes a program has, without listing them; and when the nodes of one are looked at no more."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

import polymap as pm
from polymap.inputs import arch_from_document
from polymap.search.problem import parse_single
from polymap.search.programs import every_shape as module
from polymap.search.programs.every_shape import count_bound, count_loops, every_shape, exact_nodes, statement_loops
from polymap.search.programs.instances import program_arrays
from polymap.search.programs.search import weights_of
from polymap.search.programs.shapes import source_shape, time_shape
from polymap.search.programs.stays import Stays
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


def test_nodes_of_a_shape_are_looked_at_until_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three levels and a branch leave a tensor tens of thousands of ways: 3 CPU seconds past a limit of one."""
    levels = [{"level": name} for name in ("DRAM", "L3", "L2", "L1")]
    arch = arch_from_document({"name": "levels", "nodes": [*levels, {"compute": "PE"}]})
    texts = ["S[m,n] = A[m] * B[n]", "M[m] max= S[m,n]", "P[m,n] = S[m,n] - M[m]"]
    work = pm.program(texts, m=2, n=2, temporary=["S", "M"])
    arrays, looks, looked = program_arrays(work), count(), list[object]()
    when, option_of = time_shape(arrays, source_shape(work)), module.option_of

    def told(*asked: Any) -> Any:
        looked.append(asked)
        return option_of(*asked)

    monkeypatch.setattr(module, "option_of", told)
    assert when is not None
    stays, weights = Stays(arrays, source_shape(work), when), weights_of(arch, parse_single("energy", arch))
    assert exact_nodes(stays, arch, weights, None, lambda: next(looks) >= 500) is None
    assert len(looked) <= 500, "ways are looked at one by one"
