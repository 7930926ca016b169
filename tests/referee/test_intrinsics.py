"""Tiles that are multiples of an instruction's size, on machines whose levels may all be bypassed: the gate of every
answer, the certificate's checker, the search and the referee's own reading agree."""

from __future__ import annotations

import random

import pytest

from polymap.checker import Problem as Checked, Refused, cost as checked_cost, parsed
from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.referees.trees import exhaustive, scored_trees
from polymap.explore import search
from polymap.inputs import mapping_to_document
from polymap.ir import OptionError
from polymap.search.certificate import canonical, check_certifiable, constraints_table, machine_table, workload_table
from polymap.search.problem import rules_from_document
from polymap.search.problem.rule_checks import refusals
from polymap.verify import verify
from tests.case_machines import with_open_levels
from tests.referee.demands import Table, meets
from tests.referee.problems import random_problem

TREES = 25  # of each problem that are held against each other


def check(rng: random.Random) -> tuple[bool, bool]:
    """Check a random problem; return whether there is a mapping, and whether a certificate proves it."""
    problem = random_problem(rng, most=1_200, tiles="divide")
    workload, arch = problem.workload, with_open_levels(rng, problem.arch)
    dims = [dim.name for dim in workload.dims if dim.extent > 1]
    demands: Table = {"intrinsic": {dim: rng.choice((2, 2, 3, 4)) for dim in rng.sample(dims, 1)}}
    rules = rules_from_document(demands, workload, arch)
    try:
        check_certifiable(workload, arch, "energy", rules)
        tables = workload_table(workload), machine_table(arch), constraints_table(rules)
        dims_of, machine, asked = (parsed(canonical(table)) for table in tables)
        checker = Checked(dims_of, machine, asked, "energy")
    except OptionError:
        checker = None
    except Refused:
        checker = None
    for tree in scored_trees(workload, arch, "energy", "divide", every=1 + problem.legal // TREES):
        if tree.fits:
            wanted = meets(demands, workload, arch, tree.mapping, tree.steps)
            cost = evaluate(workload, arch, tree.mapping)
            assert (not refusals(workload, arch, rules, tree.mapping, cost)) == wanted, (demands, tree.mapping)
            if checker is not None:
                assert _is_accepted(checker, mapping_to_document(tree.mapping)["nodes"]) == wanted, tree.mapping
    found = search(workload, arch, "energy", "divide", constraints=demands, time_limit_s=60)
    true = exhaustive(
        workload, arch, "energy", "divide", meets=lambda mapping: meets(demands, workload, arch, mapping, 0)
    )
    assert true is not None
    if true.value is None:
        assert found.status == "INFEASIBLE"
        assert search(workload, arch, "energy", "any", constraints=demands, work_limit=50).status != "OPTIMAL"
        return False, False
    assert (found.status, found.value) == ("OPTIMAL", float(true.value))
    return True, checker is not None and verify(found.certificate()).proven


def _is_accepted(checker: Checked, nodes: object) -> bool:
    try:
        checked_cost(checker, nodes, divides=True)
    except Refused:
        return False
    return True


@pytest.mark.slow
def test_intrinsics_mean_the_same_everywhere() -> None:
    rng = random.Random("intrinsics")
    seen = [check(rng) for _ in range(12)]
    assert {feasible for feasible, _ in seen} == {True, False}
    assert any(proven for _, proven in seen)


@pytest.mark.soak
@pytest.mark.parametrize("batch", range(10))
def test_intrinsics_mean_the_same_everywhere_in_many_problems(batch: int) -> None:
    rng = random.Random(f"intrinsics {batch}")
    for _ in range(20):
        check(rng)
