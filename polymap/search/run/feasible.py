"""Whether some mapping meets rules, and how good one can be: over tiles that divide, or over tiles of any size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import prod
from typing import Protocol

from polymap.costmodel import Cost, evaluate
from polymap.ir import Architecture, BudgetError, Mapping, Workload, is_box
from polymap.search.dividing import Found, solve
from polymap.search.enumeration import ExhaustiveResult, Walking
from polymap.search.heuristics import Annealer, can_be_annealed
from polymap.search.objective import measure_under, objective_value, refusals
from polymap.search.problem import (
    Goal,
    Objective,
    Rules,
    StructureRule,
    Utilization,
    analyse,
    clashes,
    divisors,
    narrowed,
)
from polymap.search.resources import Stop
from polymap.search.run.programs import program_order
from polymap.search.run.refuted import is_refuted, most_busy

FEW_TREES = 300_000  # walked one by one: some 100,000 per second
MOST_ASKED = 10_000  # trees that are counted to find one that meets rules
ANNEALED = 600  # mappings scored in search of one that meets rules
MOST_SPREADS = 20_000  # ways to spread all dims over fan-outs of any size, up to which they are tried


class Feasible(Protocol):
    """What is known of the mappings of a workload that meet rules on a machine."""

    def refutes(self, arch: Architecture, rules: Rules) -> bool:
        """Return whether it is known at once that there is none."""
        ...

    def structural_clash(self, arch: Architecture, rules: Rules) -> Rules:
        """Return rules that the discrete structure of no mapping meets together; () where none are known."""
        ...

    def exists(self, arch: Architecture, rules: Rules) -> bool | None:
        """Return whether there is one; None where that was not found out."""
        ...

    def least(self, arch: Architecture, objective: Objective, rules: Rules) -> Fraction | None:
        """Return the least value that one has; None where there is none, or that was not found out."""
        ...

    def most_busy(self, arch: Architecture, rules: Rules) -> Fraction | None:
        """Return the highest utilization that one has; None where there is none, or that was not found out."""
        ...


@dataclass(frozen=True, slots=True)
class Dividing:
    """Mappings in which every tile divides the enclosing one: the lattice search answers."""

    workload: Workload
    stop: Stop

    def refutes(self, arch: Architecture, rules: Rules) -> bool:
        """Return whether a level cannot hold what it must."""
        return bool(clashes(self.workload, arch, rules))

    def structural_clash(self, arch: Architecture, rules: Rules) -> Rules:
        """Return what CP-SAT names; it knows capacities and limits only in part."""
        if not any(isinstance(rule, StructureRule) for rule in rules):
            return ()
        from polymap.search.problem import Clash, decide  # CP-SAT takes half a second to load

        found = decide(analyse(self.workload, arch), rules)
        return found.rules if isinstance(found, Clash) else ()

    def exists(self, arch: Architecture, rules: Rules) -> bool | None:
        """Return whether there is a mapping; the search ends at the first."""
        if self.refutes(arch, rules):
            return False
        if self._is_wide(arch):
            return None
        seen: list[Found] = []

        def stop() -> bool:
            return bool(seen) or self.stop()

        def report(found: Found, _bound: int) -> None:
            if found:
                seen.append(found)

        measure = measure_under(_any_value(arch), self.workload, arch, rules)
        outcome = solve(analyse(self.workload, arch, rules), measure, stop, report)
        if outcome.found:
            return True
        return None if outcome.left is None or outcome.left else False

    def _is_wide(self, arch: Architecture) -> bool:
        """Return whether fan-outs of any size leave more ways to spread the dims than are tried."""
        free = sum(fanout.size >= prod(dim.extent for dim in self.workload.dims) > 1 for fanout in arch.fanouts)
        return prod(len(divisors(dim.extent)) for dim in self.workload.dims) ** free > MOST_SPREADS

    def least(self, arch: Architecture, objective: Objective, rules: Rules) -> Fraction | None:
        """Return the optimum, where it is proven."""
        if self.refutes(arch, rules):
            return None
        measure = measure_under(objective, self.workload, arch, rules)
        outcome = solve(analyse(self.workload, arch, rules), measure, self.stop, lambda _found, _bound: None)
        if not outcome.found or outcome.left != ():
            return None
        best = outcome.found[0][1].mapping
        return objective_value(self.workload, arch, objective, evaluate(self.workload, arch, best))

    def most_busy(self, arch: Architecture, rules: Rules) -> Fraction | None:
        """Return the share of the most parallel structure, if some mapping is found to reach it."""
        from polymap.search.problem import most_parallel  # CP-SAT takes half a second to load

        problem = analyse(self.workload, arch)
        parallel = most_parallel(problem, rules)
        if parallel is None:
            return None
        steps = prod(problem.extents) // parallel
        units, lanes = arch.compute.per_cycle, prod(fanout.size for fanout in arch.fanouts)
        most = Fraction(prod(problem.extents), -(-steps // units) * units * lanes)
        return most if self.exists(arch, (*rules, Utilization(most))) else None


@dataclass(frozen=True, slots=True)
class AnySize:
    """All mappings: a proof that needs no search refutes, a mapping that divides (or the program as it is written)
    shows that there is one, and where there are few trees a walk over all of them answers."""

    workload: Workload
    stop: Stop

    def refutes(self, arch: Architecture, rules: Rules) -> bool:
        """Return whether rules are refuted for tiles of every size."""
        return is_refuted(self.workload, arch, rules)

    def structural_clash(self, arch: Architecture, rules: Rules) -> Rules:
        """Return (): CP-SAT is asked about tiles that divide."""
        return ()

    def exists(self, arch: Architecture, rules: Rules) -> bool | None:
        """Return whether there is a mapping."""
        if self.refutes(arch, rules):
            return False
        if self._is_met_as_written(arch, rules):
            return True
        if analyse(self.workload, arch, rules).reason is not None:
            return None
        if Dividing(self.workload, self.stop).exists(arch, rules) or self._is_met_near(arch, rules):
            return True
        return some_tree(self.workload, arch, rules, self.stop)

    def _is_met_as_written(self, arch: Architecture, rules: Rules) -> bool:
        mapping = program_order(self.workload, arch)
        try:
            return not refusals(self.workload, arch, rules, mapping, evaluate(self.workload, arch, mapping))
        except BudgetError:
            return False

    def _is_met_near(self, arch: Architecture, rules: Rules) -> bool:
        """Return whether a walk towards mappings that break fewer rules comes to one that breaks none."""
        energy = Objective(Goal.ENERGY, None, "energy")
        if not can_be_annealed(self.workload, energy):
            return False

        def breaks(mapping: Mapping, cost: Cost) -> int:
            return len(refusals(self.workload, arch, rules, mapping, cost))

        machine = narrowed(self.workload, arch, rules)
        annealer = Annealer(self.workload, machine, energy, breaks, divide=False, seed=0)
        annealer.walk(ANNEALED, lambda: annealer.best is not None or self.stop())
        return annealer.best is not None

    def least(self, arch: Architecture, objective: Objective, rules: Rules) -> Fraction | None:
        """Return the optimum, where all trees can be walked."""
        if self.refutes(arch, rules) or analyse(self.workload, arch, rules).reason is not None:
            return None
        found = walk(self.workload, arch, objective, rules, self.stop)
        return None if found is None else found.value

    def most_busy(self, arch: Architecture, rules: Rules) -> Fraction | None:
        """Return what no mapping exceeds, if some mapping is found to reach it."""
        statements = self.workload.statements
        if len(statements) != 1 or not is_box(statements[0]):
            return None
        most = most_busy(self.workload, arch, rules)
        return most if most is not None and self.exists(arch, (*rules, Utilization(most))) else None


def _any_value(arch: Architecture) -> Objective:
    return Objective(Goal.TRAFFIC, arch.levels[0].name, f"traffic:{arch.levels[0].name}")


def some_tree(workload: Workload, arch: Architecture, rules: Rules, stop: Stop) -> bool | None:
    """Return whether some tree meets the rules, looking at one after the other; None where there are too many."""
    asked: list[bool] = []

    def is_over() -> bool:
        return asked[-1:] == [True] or len(asked) > MOST_ASKED or stop()

    found = walk(workload, arch, _any_value(arch), rules, is_over, asked.append)
    if asked[-1:] == [True]:
        return True
    return None if found is None else found.best is not None


def walk(
    workload: Workload,
    arch: Architecture,
    objective: Objective,
    rules: Rules,
    stop: Stop,
    see: Callable[[bool], None] | None = None,
) -> ExhaustiveResult | None:
    """Return the best of all trees that meet the rules; None where there are too many, or the time is up.

    see: told, of each that would be better than those before, whether it meets them.
    """
    walking = walk_begun(workload, arch, objective, rules, see, count_distinct=False)
    return walking.go_on(lambda: walking.legal > FEW_TREES or stop())


def walk_begun(
    workload: Workload,
    arch: Architecture,
    objective: Objective,
    rules: Rules,
    see: Callable[[bool], None] | None = None,
    *,
    count_distinct: bool,
) -> Walking:
    """Return a walk over all trees, of which nothing is done yet (see: as of walk)."""
    meets = partial(_meets, workload, arch, rules, see)
    machine = narrowed(workload, arch, rules)
    asked = meets if rules or see is not None else None
    return Walking(workload, machine, objective.text, "any", count_distinct=count_distinct, meets=asked)


def _meets(
    workload: Workload, arch: Architecture, rules: Rules, see: Callable[[bool], None] | None, mapping: Mapping
) -> bool:
    """Return whether a mapping meets the rules, having told `see`."""
    met = not refusals(workload, arch, rules, mapping, evaluate(workload, arch, mapping))
    if see is not None:
        see(met)
    return met
