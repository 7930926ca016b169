"""Local search beside a search with a proof: near its best mapping and anywhere, a few trees at a time.

What it finds depends on how many trees it may score, not on the clock: a search pays for them with its own steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from polymap.ir import Architecture, Mapping, Workload
from polymap.resources import Limits, Stop, Work, cpu_seconds
from polymap.search.dividing import CompletedMapping
from polymap.search.problem import Goal, Measure, Objective, Rules, analyse, beyond_sums
from polymap.search.trees.climb import TreeClimber
from polymap.search.trees.tuning import TUNING


def climber_for(
    workload: Workload, arch: Architecture, objective: Objective, rules: Rules, *, divide: bool, seed: int
) -> TreeClimber | None:
    """Return what looks for mappings that meet the rules, best by the first part; None where none can: of several
    statements, or of a front or an order."""
    single = objective.singles[0]
    is_single = single.goal not in (Goal.LEXICOGRAPHIC, Goal.PARETO)
    if not is_single or len(workload.statements) != 1:
        return None
    machine = arch if beyond_sums(arch, rules, *objective.singles) else arch.without_steps()
    return TreeClimber(analyse(workload, machine, rules), arch, single, divide=divide, seed=seed)


class DividingPolish:
    """A local search that one over dividing tiles pays by its steps: a small share of its time (incumbent.Polish)."""

    def __init__(self, climber: TreeClimber, measure: Measure, limits: Limits, *, has_window: bool) -> None:
        self._climber, self._measure, self._limits = climber, measure, limits
        self._rate = TUNING.per_window_step if has_window else TUNING.per_step
        self._credit = -TUNING.free_steps * self._rate
        self._idle = 0  # trees since the last better one

    def first(self, trees: int) -> tuple[int, CompletedMapping] | None:
        """Return the best of so many trees with its scaled value: something to begin with."""
        before = self._climber.scored
        self._climber.walk(trees, self._limits)
        self._limits.work.add(self._climber.scored - before)
        return self._best()

    def listed(
        self, structures: int | None, best: tuple[int, CompletedMapping] | None
    ) -> tuple[int, CompletedMapping] | None:
        """Return a better tree with its scaled value, if one was found in the share of a search that has so many
        structures (None: time ended their list): the more there are, the longer it takes until bounds lead to a good
        one. Past the limit it goes on for some CPU time, so that a short limit on a busy machine has something to
        answer."""
        left, trees = self._limits.work.left, TUNING.most_when_listed
        end = cpu_seconds() + TUNING.past_limit_s

        def is_over() -> bool:
            return left is None and cpu_seconds() > end and self._limits()

        if structures is not None:
            trees = min(trees, int(structures * TUNING.per_structure))
        return self._walk(trees if left is None else min(trees, left), best, is_over)

    def after(self, steps: int, best: tuple[int, CompletedMapping] | None) -> tuple[int, CompletedMapping] | None:
        """Return a better tree with its scaled value, if one was found in the share of so many steps."""
        self._credit += steps * self._rate / (1 + self._idle / (TUNING.idle_steps * self._rate))
        if self._credit < TUNING.burst:
            return None
        trees, self._credit = int(self._credit), 0.0
        return self._walk(trees, best, self._limits)

    def _walk(
        self, trees: int, best: tuple[int, CompletedMapping] | None, stop: Stop
    ) -> tuple[int, CompletedMapping] | None:
        if best is not None:
            self._climber.know(best[1].mapping, self._measure.unscaled(best[0]))
        self._limits.work.add(trees)
        better = self._climber.walk(trees, stop)
        self._idle = 0 if better else self._idle + trees
        return self._best() if better else None

    def _best(self) -> tuple[int, CompletedMapping] | None:
        if self._climber.best is None:
            return None
        mapping, value = self._climber.best
        return math.ceil(value / self._measure.unscaled(1)), CompletedMapping((), mapping)


def climb_beside(
    climber: TreeClimber, stop: Stop, work: Work, report: Callable[[Mapping, Fraction], None], *, until_found: bool
) -> None:
    """Walk over trees until `stop` says so, or until one is found, else until enough are scored."""
    done = 0
    while not stop() and (climber.best is None if until_found else done < TUNING.trees_without_bound):
        some = TUNING.trees_at_once if work.left is None else min(TUNING.trees_at_once, work.left)
        better = climber.walk(some, stop)
        work.add(some)
        done += some
        if better and climber.best is not None:
            report(*climber.best)
