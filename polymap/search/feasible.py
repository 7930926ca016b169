"""Feasibility of a set of rules, and the best values under it: over dividing tiles, or over tiles of any size.

Which rules clash is found by asking these questions of subsets of the rules (rule_clashes.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import prod
from typing import Protocol

from polymap.costmodel import evaluate
from polymap.costmodel.referees import ExhaustiveResult, TreeWalk
from polymap.ir import Architecture, BudgetError, Mapping, Workload, is_box
from polymap.resources import Stop
from polymap.search.dividing import Found, solve
from polymap.search.options import TUNING
from polymap.search.problem import (
    Goal,
    Objective,
    Rules,
    StructureRule,
    Utilization,
    analyse,
    beyond_sums,
    clashes,
    divisors,
    is_confirmed,
    measure_under,
    narrow_machine,
    refusals,
)
from polymap.search.program_search import program_order
from polymap.search.refuted import is_refuted, most_busy
from polymap.search.trees import climber_for


class Feasibility(Protocol):
    """Questions about the mappings of one workload that meet a set of rules on a machine."""

    def refutes(self, arch: Architecture, rules: Rules) -> bool:
        """Return whether a proof that needs no search shows that there is no such mapping."""
        ...

    def structural_clash(self, arch: Architecture, rules: Rules) -> Rules:
        """Return rules that no assignment of dims to fan-outs and tensors to levels meets together; () where none are
        known."""
        ...

    def exists(self, arch: Architecture, rules: Rules) -> bool | None:
        """Return whether there is such a mapping; None: undecided within the limits."""
        ...

    def least(self, arch: Architecture, objective: Objective, rules: Rules) -> Fraction | None:
        """Return the least value among such mappings; None: there is none, or undecided."""
        ...

    def most_busy(self, arch: Architecture, rules: Rules) -> Fraction | None:
        """Return the highest utilization among such mappings; None: there is none, or undecided."""
        ...


@dataclass(frozen=True, slots=True)
class DividingMappings:
    """Mappings in which every tile divides the enclosing one. The lattice search answers."""

    workload: Workload
    stop: Stop

    def refutes(self, arch: Architecture, rules: Rules) -> bool:
        """Return whether some level has no room for the tensors that it must hold."""
        return bool(clashes(self.workload, arch, rules))

    def structural_clash(self, arch: Architecture, rules: Rules) -> Rules:
        """Return the rules that CP-SAT proves infeasible together. Its model leaves out most capacities and limits."""
        if not any(isinstance(rule, StructureRule) for rule in rules):
            return ()
        from polymap.search.problem import Clash, decide  # CP-SAT takes half a second to load

        found = decide(analyse(self.workload, arch), rules)
        return found.rules if isinstance(found, Clash) else ()

    def exists(self, arch: Architecture, rules: Rules) -> bool | None:
        """Return whether there is a mapping; the search stops at the first one."""
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
            mapping = outcome.found[0][1].mapping  # of which latency in steps may exceed a limit
            return not refusals(self.workload, arch, rules, mapping, evaluate(self.workload, arch, mapping)) or None
        return None if outcome.left is None or outcome.left else False

    def _is_wide(self, arch: Architecture) -> bool:
        """Return whether the fan-outs are so large that there are too many structures to list."""
        free = sum(fanout.size >= prod(dim.extent for dim in self.workload.dims) > 1 for fanout in arch.fanouts)
        return prod(len(divisors(dim.extent)) for dim in self.workload.dims) ** free > TUNING.most_spreads

    def least(self, arch: Architecture, objective: Objective, rules: Rules) -> Fraction | None:
        """Return the optimum, where it is proven."""
        if self.refutes(arch, rules):
            return None
        measure = measure_under(objective, self.workload, arch, rules)
        outcome = solve(analyse(self.workload, arch, rules), measure, self.stop, lambda _found, _bound: None)
        if not outcome.found or outcome.left != ():
            return None
        value, best = measure.unscaled(outcome.found[0][0]), outcome.found[0][1].mapping
        return value if is_confirmed(self.workload, arch, objective, best, (value,)) else None

    def most_busy(self, arch: Architecture, rules: Rules) -> Fraction | None:
        """Return the utilization of the most parallel structure, if a mapping with it is found."""
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
    """Mappings with tiles of any size.

    Infeasibility is shown by a proof without a search, feasibility by an example (the program as written, a dividing or
    one that local search finds); where there are few trees, all of them are enumerated.
    """

    workload: Workload
    stop: Stop

    def refutes(self, arch: Architecture, rules: Rules) -> bool:
        """Return whether the rules are proven infeasible for all tile sizes."""
        return is_refuted(self.workload, arch, rules)

    def structural_clash(self, arch: Architecture, rules: Rules) -> Rules:
        """Return (): the model of CP-SAT covers dividing tiles only."""
        return ()

    def exists(self, arch: Architecture, rules: Rules) -> bool | None:
        """Return whether there is a mapping; None: no example was found, and there are too many trees."""
        if self.refutes(arch, rules):
            return False
        if self._is_met_as_written(arch, rules):
            return True
        if analyse(self.workload, arch, rules).reason is not None or beyond_sums(arch, rules):
            return None
        if DividingMappings(self.workload, self.stop).exists(arch, rules) or self._is_met_near(arch, rules):
            return True
        return some_tree(self.workload, arch, rules, self.stop)

    def _is_met_as_written(self, arch: Architecture, rules: Rules) -> bool:
        mapping = program_order(self.workload, arch)
        try:
            return not refusals(self.workload, arch, rules, mapping, evaluate(self.workload, arch, mapping))
        except BudgetError:
            return False

    def _is_met_near(self, arch: Architecture, rules: Rules) -> bool:
        """Return whether local search finds a mapping that breaks no rule."""
        energy = Objective(Goal.ENERGY, None, "energy")
        climber = climber_for(self.workload, arch, energy, rules, divide=False, seed=0)
        if climber is None:
            return False
        climber.walk(TUNING.trees_to_meet_rules, lambda: climber.best is not None or self.stop())
        return climber.best is not None

    def least(self, arch: Architecture, objective: Objective, rules: Rules) -> Fraction | None:
        """Return the optimum, where all trees can be enumerated."""
        if self.refutes(arch, rules) or beyond_sums(arch, rules, objective):
            return None
        if analyse(self.workload, arch, rules).reason is not None:
            return None
        found = walk(self.workload, arch, objective, rules, self.stop)
        return None if found is None else found.value

    def most_busy(self, arch: Architecture, rules: Rules) -> Fraction | None:
        """Return the upper bound of the utilization, if a mapping that attains it is found."""
        statements = self.workload.statements
        if len(statements) != 1 or not is_box(statements[0]):
            return None
        most = most_busy(self.workload, arch, rules)
        return most if most is not None and self.exists(arch, (*rules, Utilization(most))) else None


def _any_value(arch: Architecture) -> Objective:
    return Objective(Goal.TRAFFIC, arch.levels[0].name, f"traffic:{arch.levels[0].name}")


def some_tree(workload: Workload, arch: Architecture, rules: Rules, stop: Stop) -> bool | None:
    """Return whether some tree meets the rules, testing tree by tree; None: none did before a limit was reached."""
    asked: list[bool] = []

    def is_over() -> bool:
        return asked[-1:] == [True] or len(asked) > TUNING.most_asked or stop()

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
    """Return the best of all trees that meet the rules; None: there are too many trees or statement instances, or a
    limit was reached.

    see: called for every tree that is better than the best so far, with whether it meets the rules.
    """
    if not may_be_walked(workload):
        return None
    walking = walk_begun(workload, arch, objective, rules, see, count_distinct=False)
    return walking.go_on(lambda: walking.legal > TUNING.few_trees or stop())


def may_be_walked(workload: Workload) -> bool:
    """Return whether trees may be walked one by one: each looks at all statement instances, and writes what is dead."""
    writes_all = not any(tensor.temporary for tensor in workload.tensors)
    return writes_all and prod(dim.extent for dim in workload.dims) <= TUNING.most_instances_walked


def walk_begun(
    workload: Workload,
    arch: Architecture,
    objective: Objective,
    rules: Rules,
    see: Callable[[bool], None] | None = None,
    *,
    count_distinct: bool,
    tiles: str = "any",
) -> TreeWalk:
    """Return a walk over all trees, not yet started. see: as in `walk`."""
    meets = partial(_meets, workload, arch, rules, see)
    machine = narrow_machine(workload, arch, rules)
    asked = meets if rules or see is not None else None
    return TreeWalk(workload, machine, objective.text, tiles, count_distinct=count_distinct, meets=asked)


def _meets(
    workload: Workload, arch: Architecture, rules: Rules, see: Callable[[bool], None] | None, mapping: Mapping
) -> bool:
    """Return whether a mapping meets the rules; `see` is called with the answer."""
    met = not refusals(workload, arch, rules, mapping, evaluate(workload, arch, mapping))
    if see is not None:
        see(met)
    return met
