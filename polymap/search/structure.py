"""Structures: which dims are spread over which fan-out, by how much. CP-SAT enumerates them.

Fan-outs of one class are alike to every count, so the model holds one integer variable per class and dim, the product
of the dim's factors over the class; a table per class lists the products that its fan-outs can make, each within its
size and `dims`; a table per dim says that the classes' products divide the extent together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product
from math import prod

from ortools.sat.python import cp_model

from polymap.errors import Problem as Mistake, SolverError
from polymap.search.constraints import Factor, Rules, Utilization
from polymap.search.lattice import divisors
from polymap.search.problem import FanoutClass, Problem


@dataclass(frozen=True, slots=True)
class Structure:
    """factors: [fan-out][dim] as enumerated. classes: [class][dim], the products that decide every count."""

    factors: tuple[tuple[int, ...], ...]
    classes: tuple[tuple[int, ...], ...]

    def used(self, dim: int) -> int:
        """Return the product of the dim's factors over all fan-outs."""
        return prod(row[dim] for row in self.factors)


Vector = tuple[int, ...]
Factors = tuple[Vector, ...]


def enumerate_structures(problem: Problem, out_of_time: Callable[[], bool]) -> tuple[tuple[Structure, ...], bool]:
    """Return the structures, one per distinct class products, in a fixed order, and whether these are all.

    Raises SolverError if CP-SAT ends for any other reason than the end of the enumeration or of the time.
    """
    if not problem.classes:
        return ((Structure((), ()),) if least_parallel(problem) <= 1 else ()), True
    splits = [_splits(problem, one) for one in problem.classes]
    if not all(splits):  # some fan-out cannot meet the rules
        return (), True
    model = cp_model.CpModel()
    variables = [[_product(model, problem, c, d) for d in range(len(problem.dims))] for c in range(len(splits))]
    for row, known in zip(variables, splits, strict=True):
        model.add_allowed_assignments(row, list(known))
    if not _demand_utilization(model, problem, variables, splits):
        return (), True
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
    return tuple(Structure(_factors(problem, splits, rows), rows) for rows in sorted(collector.found)), complete


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
    splits: list[dict[Vector, Factors]],
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


def _factors(problem: Problem, splits: list[dict[tuple[int, ...], Factors]], rows: Factors) -> Factors:
    """Return the factors per fan-out of class products."""
    by_fanout: dict[int, tuple[int, ...]] = {}
    for one, known, row in zip(problem.classes, splits, rows, strict=True):
        by_fanout.update(zip(one.fanouts, known[row], strict=True))
    return tuple(by_fanout[f] for f in sorted(by_fanout))


class _Collector(cp_model.CpSolverSolutionCallback):
    """Keeps the class products of every solution."""

    def __init__(self, variables: list[list[cp_model.IntVar]], out_of_time: Callable[[], bool]) -> None:
        super().__init__()
        self._variables = variables
        self._out_of_time = out_of_time
        self.stopped = False
        self.found: list[Factors] = []

    def on_solution_callback(self) -> None:
        self.found.append(tuple(tuple(self.value(variable) for variable in row) for row in self._variables))
        if self._out_of_time():
            self.stopped = True
            self.stop_search()


def _product(model: cp_model.CpModel, problem: Problem, number: int, dim: int) -> cp_model.IntVar:
    return model.new_int_var_from_domain(
        cp_model.Domain.from_values(list(divisors(problem.extents[dim]))), f"class{number}_dim{dim}"
    )


def _splits(problem: Problem, one: FanoutClass) -> dict[tuple[int, ...], Factors]:
    """Return, per vector of products that the class's fan-outs can make, its first split into factors per fan-out."""
    known: dict[tuple[int, ...], Factors] = {tuple(1 for _ in problem.dims): ()}
    for f in one.fanouts:
        fanout = problem.arch.fanouts[f]
        choices: list[list[int]] = []
        for name, extent in zip(problem.dims, problem.extents, strict=True):
            free = fanout.dims is None or name in fanout.dims
            allowed = [value for value in divisors(extent) if value <= fanout.size] if free else [1]
            choices.append([value for value in allowed if _meets(problem.rules, fanout.name, name, value)])
        own = tuple(_bounded(choices, fanout.size))
        grown: dict[tuple[int, ...], Factors] = {}
        for products, factors in known.items():
            for row in own:
                whole = tuple(a * b for a, b in zip(products, row, strict=True))
                if all(e % w == 0 for e, w in zip(problem.extents, whole, strict=True)):
                    grown.setdefault(whole, (*factors, row))
        known = grown
    return known


def _meets(rules: Rules, fanout: str, dim: str, factor: int) -> bool:
    """Return whether a dim's factor over a fan-out is one that the rules allow."""
    mine = (rule for rule in rules if isinstance(rule, Factor) and (rule.fanout, rule.dim) == (fanout, dim))
    return all(rule.least <= factor and (rule.most is None or factor <= rule.most) for rule in mine)


def _bounded(choices: list[list[int]], size: int) -> Iterable[tuple[int, ...]]:
    """Yield the vectors, one value per list, whose product is at most `size`."""
    if not choices:
        yield ()
        return
    for value in choices[0]:
        if value <= size:
            for rest in _bounded(choices[1:], size // value):
                yield (value, *rest)
