"""The cheap bound of all structures at once: never above that of each structure with all tensors together where costs
are sums; of other objectives never below what components say one by one, and never above a tree."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import pytest

from polymap.costmodel import evaluate
from polymap.costmodel.referees.trees import scored_trees
from polymap.explore import explore
from polymap.inputs import arch_from_document
from polymap.ir import Architecture, OptionError, Workload
from polymap.search.dividing import single_tensor_bound
from polymap.search.dividing.branch_and_bound import BoundTables
from polymap.search.dividing.cost_tables import build_tables
from polymap.search.dividing.engine import least_value
from polymap.search.dividing.node_costs import root_context
from polymap.search.dividing.single_tensor_bound import single_tensor_bounds
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import Measure, measure_of
from polymap.search.problem.problem import Problem, analyse
from polymap.search.problem.structures import Structures, enumerate_structures
from polymap.workload.einsums import einsum
from tests.referee.problems import random_problem
from tests.times import few


def one_by_one(problem: Problem, measure: Measure, structures: Structures) -> list[int | None]:
    """Return the bounds in which each component has its own levels that hold a tensor."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(single_tensor_bound, "sees_all_at_once", lambda measure, arithmetics, cycles: False)
        return single_tensor_bounds(problem, measure, structures)


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_the_bound_tensor_by_tensor_is_at_most_that_of_all_tensors_together(seed: int) -> None:
    asked = random_problem(random.Random(f"apart {seed}"), tiles="divide")
    problem = analyse(asked.workload, asked.arch)
    if problem.reason is not None:
        return
    measure = measure_of(parse_objective(asked.objective, asked.arch), asked.workload, asked.arch)
    structures, _ = enumerate_structures(problem, lambda: False)
    cheap = single_tensor_bounds(problem, measure, structures)
    if not measure.is_linear:
        apart = one_by_one(problem, measure, structures)
        for bound, least in zip(cheap, apart, strict=True):
            assert (bound is None) == (least is None)
            assert bound is None or least is None or bound >= least * (1 - 2**-39)
        return
    for structure, bound in zip(structures, cheap, strict=True):
        view = BoundTables(build_tables(problem, structure, measure, root_context(problem, structure)))
        together = least_value(view)
        if together is not None:
            assert bound is not None
            assert bound <= together


def test_a_level_that_holds_the_output_takes_its_sums_and_one_that_does_not_leaves_them_outside() -> None:
    """Each of the 4 x 4 x 4 products is added to a sum in DRAM or in the accumulator, 112 bytes read and written: DRAM
    takes 240 cycles then, with the inputs, the accumulator 224 and more. Component by component neither has to."""
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=4, n=4, k=4)
    nodes = [
        {"level": "DRAM", "word_bits": 8, "read_pj": 100, "write_pj": 100, "bandwidth_bits_per_cycle": 8},
        {"level": "Acc", "word_bits": 8, "read_pj": 1, "write_pj": 1, "holds": ["C"], "bandwidth_bits_per_cycle": 4},
        {"compute": "MAC", "pj": 1},
    ]
    arch = arch_from_document({"name": "two", "nodes": nodes})
    problem = analyse(workload, arch)
    measure = measure_of(parse_objective("latency", arch), workload, arch)
    structures, _ = enumerate_structures(problem, lambda: False)
    (bound,), (apart,) = single_tensor_bounds(problem, measure, structures), one_by_one(problem, measure, structures)
    best = min(latencies(workload, arch))
    assert apart is not None
    assert bound is not None
    assert apart == 144
    assert 224 <= bound <= best == 240


def latencies(workload: Workload, arch: Architecture) -> Iterator[int]:
    """Yield the latencies of all trees that fit, each counted by the cost model."""
    for tree in scored_trees(workload, arch, "latency", "divide"):
        if tree.fits:
            yield evaluate(workload, arch, tree.mapping).latency_cycles


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


@pytest.mark.parametrize(("rows", "objective"), [(128, "ed2p"), (10**5, "edp"), (2**330, "ed2p")])
def test_bounds_beyond_floats_are_exact_where_a_mapping_attains_them(rows: int, objective: str) -> None:
    """A float that is lowered for its rounding is no value of a mapping, and infinity does not say that nothing fits.
    Everything fits in the buffer: DRAM, which passes each element once, takes the most time."""
    nodes = [
        {"level": "DRAM", "word_bits": 8, "read_pj": 100.123456789, "write_pj": 100, "bandwidth_bits_per_cycle": 8},
        {"level": "Buf", "word_bits": 8, "read_pj": 0, "write_pj": 0},
        {"compute": "MAC", "pj": 1},
    ]
    arch = arch_from_document({"name": "two", "nodes": nodes})
    workload = einsum("y[m] += A[m,k] * x[k]", m=rows, k=7)
    problem = analyse(workload, arch)
    measure = measure_of(parse_objective(objective, arch), workload, arch)
    (bound,) = single_tensor_bounds(problem, measure, enumerate_structures(problem, lambda: False)[0])
    cycles = 8 * rows + 7
    energy = (7 * rows + 7) * Fraction("100.123456789") + 100 * rows + 7 * rows
    assert bound is not None
    assert measure.unscaled(bound) == energy * cycles ** (1 if objective == "edp" else 2)


def test_values_that_no_float_holds_are_told() -> None:
    workload = einsum("y[m] += A[m,k] * x[k]", sizes={"m": 2**330, "k": 2**14})
    with pytest.raises(OptionError, match="PM579 values of ed2p are beyond"):
        explore(workload, "flat3", "ed2p", tiles="divide", time_limit_s=2)
