"""CP-SAT on tile sizes proves the values that the lattice search proves and that walking every tree finds."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from ortools.sat.python import cp_model

from polymap.costmodel.referees.trees import exhaustive
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.explore import search
from polymap.ir.errors import OptionError, SolverError
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.schedules.check import check_mapping, placement_violations
from polymap.workload.einsums import einsum
from tests.referee.problems import Problem, random_problem
from tests.second_prover.form import Form
from tests.second_prover.prover import second_proof
from tests.times import few

_BATCH = 5


def _known(problem: Problem) -> bool:
    try:
        Form(problem.workload, problem.arch, problem.objective)
    except OptionError:
        return False
    return True


def _problems(batch: int) -> list[Problem]:
    """Return problems that the second prover knows: no windows, energy without leakage or the traffic of a level."""
    rng = random.Random(f"second {batch}")
    found: list[Problem] = []
    while len(found) < _BATCH:
        problem = random_problem(rng, tiles="divide")
        if not problem.objective.startswith("traffic"):
            problem = replace(problem, objective="energy")
        if _known(problem):
            found.append(problem)
    return found


@pytest.mark.parametrize("batch", few(range(100 // _BATCH), 2))
def test_both_provers_and_the_walk_over_all_trees_agree(batch: int) -> None:
    for problem in _problems(batch):
        workload, arch, objective = problem.workload, problem.arch, problem.objective
        proof = second_proof(workload, arch, objective)
        found = search(workload, arch, objective, "divide", time_limit_s=120)
        true = exhaustive(workload, arch, objective, "divide")
        assert true is not None
        told = f"{problem}\nsecond prover: {proof}\nsearch: {found.status} {found.value}\nall trees: {true.value}"
        assert proof.value == true.value, told
        if proof.value is None or proof.mapping is None:
            assert found.status == "INFEASIBLE", told
            continue
        assert (found.status, float(found.value or 0)) == ("OPTIMAL", float(proof.value)), told
        check_mapping(workload, arch, proof.mapping)
        assert placement_violations(workload, arch, proof.mapping) == ()
        assert _value(problem, proof) == proof.value, told


def _value(problem: Problem, proof) -> Fraction:
    """Return what the simulator's counts of the proof's mapping cost."""
    workload, arch = problem.workload, problem.arch
    counts = count_by_simulation(workload, arch, proof.mapping)
    total = Fraction(0)
    energy = problem.objective == "energy"
    for row in counts.traffic:
        level = next(level for level in arch.levels if level.name == row.level)
        bits = workload.tensor(row.tensor).bits
        if energy:
            total += Fraction(bits, level.word_bits) * (row.reads * level.read_pj + row.writes * level.write_pj)
        elif level.name == problem.objective.removeprefix("traffic:"):
            total += bits * (row.reads + row.writes)
    return total + (counts.instances * arch.compute.pj if energy else 0)


@pytest.mark.slow
def test_the_problems_have_all_that_the_second_prover_knows() -> None:
    problems = [problem for batch in range(50 // _BATCH) for problem in _problems(batch)]
    wanted = (
        "energy|traffic|2 levels|3 levels|4 levels|2 fan-out(s)|several groups|no reduction|multicast none|fan-out dims"
        "|holds|must_hold|buffering 2|initial|mixed bits|prime extent|maximum|dot|gemm|batched|three|outer"
    )
    for feature in wanted.split("|"):
        assert sum(feature in problem.features for problem in problems) >= 2, feature


def _flat3(*, keep: bool) -> Architecture:
    must = ("A", "B", "C") if keep else ()
    return Architecture(
        "flat3",
        (
            MemoryLevel("DRAM", read_pj=Fraction(200), write_pj=Fraction(200)),
            MemoryLevel("GLB", 1 << 20, read_pj=Fraction(6), write_pj=Fraction(6), must_hold=must),
            Fanout("X", 16),
            Fanout("Y", 16),
            MemoryLevel("RF", 4096, read_pj=Fraction(1), write_pj=Fraction(1), must_hold=must),
            ComputeUnit("MAC", Fraction(1)),
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("keep", "value"), [(False, 42_729_472), (True, 53_993_472)])
def test_a_full_size_matrix_product_is_proven_twice(keep: bool, value: int) -> None:
    # 42,729,472 pJ is also AccelForge 1.0.467's optimum; with keep its default space has fewer node orders.
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=512, n=256, k=32)
    proof = second_proof(workload, _flat3(keep=keep))
    found = search(workload, _flat3(keep=keep), "energy", "divide")
    assert proof.value == value == found.value
    assert found.status == "OPTIMAL"


def test_a_claim_is_confirmed_only_where_it_is_reached() -> None:
    workload = einsum("C[m,n] += A[m,k] * B[k,n]", m=4, n=6, k=4)
    arch = _flat3(keep=True)
    value = second_proof(workload, arch).value
    assert value is not None
    assert second_proof(workload, arch, claimed=value).value == value
    assert second_proof(workload, arch, claimed=value + 100).value == value
    assert second_proof(workload, arch, claimed=value - Fraction(1, 2)).value is None


def test_what_it_does_not_know_is_refused() -> None:
    window = einsum("O[p] += I[p+r] * W[r]", p=4, r=2)
    with pytest.raises(OptionError, match="PM522 the second prover does not know a window"):
        second_proof(window, _flat3(keep=False))
    product = einsum("C[m] += A[m,k] * B[k]", m=4, k=4)
    with pytest.raises(OptionError, match="PM522 the second prover does not know the objective latency"):
        second_proof(product, _flat3(keep=False), "latency")
    huge = einsum("C[m,n] += A[m,k] * B[k,n]", m=1 << 20, n=1 << 20, k=1 << 20)
    with pytest.raises(OptionError, match="PM523 the problem's numbers are too large"):
        second_proof(huge, _flat3(keep=False))


def test_a_solver_that_gives_up_is_never_taken_for_a_refutation(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = einsum("C[m] += A[m,k] * B[k]", m=4, k=4)
    monkeypatch.setattr(cp_model.CpSolver, "solve", lambda *_: cp_model.UNKNOWN)
    with pytest.raises(SolverError, match="PM592 CP-SAT ended a proof with UNKNOWN"):
        second_proof(workload, _flat3(keep=False))


def test_refutations_are_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = einsum("C[m] += A[m,k] * B[k]", m=4, k=4)
    arch = _flat3(keep=True)
    value = second_proof(workload, arch).value
    solve = cp_model.CpSolver.solve

    def refuses_with_presolve(solver: cp_model.CpSolver, model: cp_model.CpModel) -> object:
        return cp_model.INFEASIBLE if solver.parameters.cp_model_presolve else solve(solver, model)

    monkeypatch.setattr(cp_model.CpSolver, "solve", refuses_with_presolve)
    assert second_proof(workload, arch).value == value
