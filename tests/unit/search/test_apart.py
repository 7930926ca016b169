"""The cheap bound of all structures at once never exceeds the bound of each structure with all tensors together."""

from __future__ import annotations

import random

import pytest

from polymap.search.dividing.branch_and_bound import bound_tables
from polymap.search.dividing.cost_tables import build_tables
from polymap.search.dividing.engine import least_value
from polymap.search.dividing.node_costs import root_context
from polymap.search.dividing.single_tensor_bound import single_tensor_bounds
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import measure_of
from polymap.search.problem.problem import analyse
from polymap.search.problem.structures import enumerate_structures
from tests.referee.problems import random_problem
from tests.times import few


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_the_bound_tensor_by_tensor_is_at_most_that_of_all_tensors_together(seed: int) -> None:
    asked = random_problem(random.Random(f"apart {seed}"), tiles="divide")
    problem = analyse(asked.workload, asked.arch)
    if problem.reason is not None:
        return
    measure = measure_of(parse_objective(asked.objective, asked.arch), asked.workload, asked.arch)
    structures, _ = enumerate_structures(problem, lambda: False)
    cheap = single_tensor_bounds(problem, measure, structures)
    for structure, bound in zip(structures, cheap, strict=True):
        view = bound_tables(build_tables(problem, structure, measure, root_context(problem, structure)), ())
        together = least_value(view)
        if together is not None:
            assert bound is not None
            assert bound <= together


def test_a_product_that_fits_is_bounded_exactly() -> None:
    """Where every level is unlimited, nothing is ever loaded twice, and the cheap bound is the optimum."""
    import polymap as pm

    workload = pm.einsum("C[m,n] += A[m,k] * B[k,n]", m=4, n=4, k=4)
    nodes = [
        {"level": "DRAM", "word_bits": 8, "read_pj": 100, "write_pj": 100},
        {"level": "Buf", "word_bits": 8, "read_pj": 1, "write_pj": 1, "must_hold": ["A", "B", "C"]},
        {"compute": "MAC", "pj": 1},
    ]
    arch = pm.io.arch_from_document({"name": "large", "nodes": nodes})
    problem = analyse(workload, arch)
    measure = measure_of(parse_objective("energy", arch), workload, arch)
    (bound,) = single_tensor_bounds(problem, measure, enumerate_structures(problem, lambda: False)[0])
    assert bound is not None
    assert float(measure.unscaled(bound)) == pm.explore(workload, arch, "energy", tiles="divide").value
