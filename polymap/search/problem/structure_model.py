"""Structures under the user's constraints: CP-SAT lists them.

The model holds one integer variable per class and dim, the product of the dim's factors over the class; a table per
class lists the products that its fan-outs can make, each within its size and `dims`; a table per dim says that the
classes' products divide the extent together.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod

from ortools.sat.python import cp_model

from polymap.ir import Mistake, SolverError
from polymap.search.problem.lattice import divisors
from polymap.search.problem.problem import Problem
from polymap.search.problem.rules import Utilization

Vector = tuple[int, ...]
Matrix = tuple[Vector, ...]


def solutions(
    problem: Problem, splits: list[list[Vector]], out_of_time: Callable[[], bool]
) -> tuple[list[Matrix], bool]:
    """Return [class][dim] products, sorted, and whether these are all. splits: per class what its fan-outs can make.

    Raises SolverError if CP-SAT ends for any other reason than the end of the enumeration or of the time.
    """
    if not splits:
        return ([()] if least_parallel(problem) <= 1 else []), True
    if not all(splits):  # some fan-out cannot meet the rules
        return [], True
    model = cp_model.CpModel()
    variables = [[_product(model, problem, c, d) for d in range(len(problem.dims))] for c in range(len(splits))]
    for row, known in zip(variables, splits, strict=True):
        model.add_allowed_assignments(row, known)
    if not _demand_utilization(model, problem, variables, splits):
        return [], True
    for d, extent in enumerate(problem.extents):
        column = [row[d] for row in variables]
        if len(column) > 1:
            choices = product(*(divisors(extent) for _ in column))
            model.add_allowed_assignments(column, [c for c in choices if extent % prod(c) == 0])
    collector = _Collector(variables, out_of_time)
    solver = cp_model.CpSolver()
    solver.parameters.enumerate_all_solutions = True
    solver.parameters.num_workers = 1
    # An interrupt is Python's: the solver would end as if nothing had happened.
    solver.parameters.catch_sigint_signal = False
    invalid = model.validate()
    if invalid:
        raise SolverError(Mistake("PM590", f"the structure model is invalid: {invalid}"))
    status = solver.solve(model, collector)
    # No structure meets the rules about fan-outs and utilization: the list is empty, and whole.
    complete = status == cp_model.OPTIMAL or (status == cp_model.INFEASIBLE and bool(problem.rules))
    if not complete and not collector.stopped:
        raise SolverError(Mistake("PM591", f"CP-SAT ended with {solver.status_name(status)} while listing structures"))
    return sorted(collector.found), complete


def least_parallel(problem: Problem) -> int:
    """Return over how many instances all dims together must be spread for the utilization that rules demand."""
    least = 1
    whole, lanes = prod(problem.extents), prod(fanout.size for fanout in problem.arch.fanouts)
    units = problem.arch.compute.per_cycle
    for rule in problem.rules:
        if isinstance(rule, Utilization) and rule.least > 0:
            cycles = int(whole / (rule.least * lanes * units))
            least = max(least, whole + 1 if cycles == 0 else -(-whole // (cycles * units)))
    return least


def _demand_utilization(
    model: cp_model.CpModel,
    problem: Problem,
    variables: list[list[cp_model.IntVar]],
    splits: list[list[Vector]],
) -> bool:
    """Add that enough instances work; False where that cannot be."""
    least, most = least_parallel(problem), prod(problem.extents)
    if least <= 1:
        return True
    if least > most:
        return False
    counts: list[cp_model.IntVar] = []
    for c, (row, known) in enumerate(zip(variables, splits, strict=True)):
        values = sorted({prod(one) for one in known})
        count = model.new_int_var_from_domain(cp_model.Domain.from_values(values), f"class{c}_instances")
        model.add_allowed_assignments([*row, count], [(*one, prod(one)) for one in known])
        counts.append(count)
    whole = model.new_int_var(least, most, "instances")
    model.add_multiplication_equality(whole, counts)
    return True


class _Collector(cp_model.CpSolverSolutionCallback):
    """Keeps the class products of every solution."""

    def __init__(self, variables: list[list[cp_model.IntVar]], out_of_time: Callable[[], bool]) -> None:
        super().__init__()
        self._variables = variables
        self._out_of_time = out_of_time
        self.stopped = False
        self.found: list[Matrix] = []

    def on_solution_callback(self) -> None:
        self.found.append(tuple(tuple(self.value(variable) for variable in row) for row in self._variables))
        if self._out_of_time():
            self.stopped = True
            self.stop_search()


def _product(model: cp_model.CpModel, problem: Problem, number: int, dim: int) -> cp_model.IntVar:
    return model.new_int_var_from_domain(
        cp_model.Domain.from_values(list(divisors(problem.extents[dim]))), f"class{number}_dim{dim}"
    )
