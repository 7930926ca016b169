"""Structures: which dims are spread over which fan-out, by how much. CP-SAT enumerates them.

The model holds one integer variable per fan-out and dim (its factor, a divisor of the extent), a table per fan-out for
"the product is at most its size", a table per dim for "the factors divide the extent together", and whatever is
forbidden by `dims` of a fan-out or by a dependence. Fan-outs of one class are alike to every count, so of the solutions
with equal class products only the first is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from math import prod

from ortools.sat.python import cp_model

from polymap.errors import Problem as Mistake, SolverError
from polymap.search.lattice import divisors
from polymap.search.problem import Problem


@dataclass(frozen=True, slots=True)
class Structure:
    """factors: [fan-out][dim] as enumerated. classes: [class][dim], the products that decide every count."""

    factors: tuple[tuple[int, ...], ...]
    classes: tuple[tuple[int, ...], ...]

    def used(self, dim: int) -> int:
        """Return the product of the dim's factors over all fan-outs."""
        return prod(row[dim] for row in self.factors)


def enumerate_structures(problem: Problem, out_of_time: Callable[[], bool]) -> tuple[tuple[Structure, ...], bool]:
    """Return the structures, one per distinct class products, in a fixed order, and whether these are all.

    Raises SolverError if CP-SAT ends for any other reason than the end of the enumeration or of the time.
    """
    fanouts = problem.arch.fanouts
    if not fanouts:
        return (Structure((), ()),), True
    model = cp_model.CpModel()
    variables = [[_factor(model, problem, f, d) for d in range(len(problem.dims))] for f in range(len(fanouts))]
    for fanout, row in zip(fanouts, variables, strict=True):
        _add_size_table(model, problem, fanout.size, fanout.dims, row)
    for d, extent in enumerate(problem.extents):
        column = [row[d] for row in variables]
        if len(column) > 1:
            choices = product(*(divisors(extent) for _ in column))
            model.add_allowed_assignments(column, [c for c in choices if extent % prod(c) == 0])
    collector = _Collector(problem, variables, out_of_time)
    solver = cp_model.CpSolver()
    solver.parameters.enumerate_all_solutions = True
    solver.parameters.num_workers = 1
    invalid = model.validate()
    if invalid:
        raise SolverError(Mistake("PM590", f"the structure model is invalid: {invalid}"))
    status = solver.solve(model, collector)
    complete = status == cp_model.OPTIMAL
    if not complete and not collector.stopped:
        raise SolverError(Mistake("PM591", f"CP-SAT ended with {solver.status_name(status)} while listing structures"))
    return tuple(collector.found[key] for key in sorted(collector.found)), complete


class _Collector(cp_model.CpSolverSolutionCallback):
    """Keeps, per class products, the smallest factor matrix."""

    def __init__(
        self, problem: Problem, variables: list[list[cp_model.IntVar]], out_of_time: Callable[[], bool]
    ) -> None:
        super().__init__()
        self._out_of_time = out_of_time
        self.stopped = False
        self._problem = problem
        self._variables = variables
        self.found: dict[tuple[tuple[int, ...], ...], Structure] = {}

    def on_solution_callback(self) -> None:
        factors = tuple(tuple(self.value(variable) for variable in row) for row in self._variables)
        classes = tuple(
            tuple(prod(factors[f][d] for f in one.fanouts) for d in range(len(self._problem.dims)))
            for one in self._problem.classes
        )
        known = self.found.get(classes)
        if known is None or factors < known.factors:
            self.found[classes] = Structure(factors, classes)
        if self._out_of_time():
            self.stopped = True
            self.stop_search()


def _factor(model: cp_model.CpModel, problem: Problem, fanout: int, dim: int) -> cp_model.IntVar:
    size = problem.arch.fanouts[fanout].size
    values = [value for value in divisors(problem.extents[dim]) if value <= size]
    return model.new_int_var_from_domain(cp_model.Domain.from_values(values), f"f{fanout}_d{dim}")


def _add_size_table(
    model: cp_model.CpModel, problem: Problem, size: int, allowed: tuple[str, ...] | None, row: list[cp_model.IntVar]
) -> None:
    choices: list[list[int]] = []
    for name, extent in zip(problem.dims, problem.extents, strict=True):
        free = allowed is None or name in allowed
        choices.append([value for value in divisors(extent) if value <= size] if free else [1])
    model.add_allowed_assignments(row, list(_bounded(choices, size)))


def _bounded(choices: list[list[int]], size: int) -> Iterable[tuple[int, ...]]:
    """Yield the vectors, one value per list, whose product is at most `size`."""
    if not choices:
        yield ()
        return
    for value in choices[0]:
        if value <= size:
            for rest in _bounded(choices[1:], size // value):
                yield (value, *rest)
