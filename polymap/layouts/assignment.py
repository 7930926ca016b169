"""The layouts of boundaries as a model of CP-SAT."""

from __future__ import annotations

from ortools.sat.python import cp_model

from polymap.ir import BudgetError, Mistake, SolverError
from polymap.layouts.boundaries import Boundary, ChosenLayout, chosen_layout


def solved(boundaries: list[Boundary], time_limit_s: float) -> tuple[tuple[ChosenLayout, ...], int, str]:
    """Return the best layouts, what no choice goes below, and "OPTIMAL" or "FEASIBLE".

    Values are added up again in integers from the layouts that CP-SAT chose. Raises BudgetError (PM475) where it found
    none in time.
    """
    model = _Model(boundaries)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_time_in_seconds = time_limit_s
    solver.parameters.catch_sigint_signal = False
    status = solver.solve(model.model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        if status == cp_model.MODEL_INVALID:
            raise SolverError(Mistake("PM590", f"the model of layouts is invalid: {model.model.validate()}"))
        what = f"no choice of layouts was found in {time_limit_s:.3g} s"
        raise BudgetError(Mistake("PM475", what, "A longer time limit helps."))
    chosen = model.chosen(solver)
    total = sum(each.bursts for each in chosen)
    if status == cp_model.OPTIMAL and solver.objective_value == total:
        return chosen, total, "OPTIMAL"
    return chosen, min(total, int(solver.best_objective_bound)), "FEASIBLE"


class _Model:
    """One literal per layout of a producer, of a consumer, and of a conversion."""

    def __init__(self, boundaries: list[Boundary]) -> None:
        self.model = cp_model.CpModel()
        self._boundaries = boundaries
        self._written: list[list[cp_model.IntVar]] = []
        self._read: list[list[list[cp_model.IntVar]]] = []
        costs: list[cp_model.LinearExprT] = []
        for number, each in enumerate(boundaries):
            written = self._one_of(each, f"{number} written")
            reads = [self._one_of(each, f"{number} read {place}") for place in range(len(each.consumers))]
            self._written.append(written)
            self._read.append(reads)
            for use, literals in zip((each.producer, *each.consumers), (written, *reads), strict=True):
                costs += [bursts * literal for bursts, literal in zip(use.bursts, literals, strict=True)]
            costs += self._conversions(each, number, written, reads)
        self.model.minimize(sum(costs))

    def _one_of(self, boundary: Boundary, name: str) -> list[cp_model.IntVar]:
        literals = [self.model.new_bool_var(f"{name} {layout}") for layout in boundary.layouts]
        self.model.add_exactly_one(literals)
        return literals

    def _conversions(
        self, boundary: Boundary, number: int, written: list[cp_model.IntVar], reads: list[list[cp_model.IntVar]]
    ) -> list[cp_model.LinearExprT]:
        """Return the costs of conversions, each of which is paid once, for however many consumers."""
        costs: list[cp_model.LinearExprT] = []
        for one, row in enumerate(boundary.conversions):
            for other, bursts in enumerate(row):
                if one != other:
                    literal = self.model.new_bool_var(f"{number} from {one} to {other}")
                    for read in reads:
                        self.model.add_bool_or([literal, ~written[one], ~read[other]])
                    costs.append(bursts * literal)
        return costs

    def chosen(self, solver: cp_model.CpSolver) -> tuple[ChosenLayout, ...]:
        """Return the layouts of the solution, and their bursts in integers."""
        found: list[ChosenLayout] = []
        for each, written, reads in zip(self._boundaries, self._written, self._read, strict=True):
            place = next(n for n, literal in enumerate(written) if solver.boolean_value(literal))
            places = [next(n for n, one in enumerate(own) if solver.boolean_value(one)) for own in reads]
            found.append(chosen_layout(each, place, tuple(places)))
        return tuple(found)
