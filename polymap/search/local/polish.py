"""Annealing over genomes beside a search with a proof: near its best mapping and anywhere, a few mappings at a time.

What it finds depends on how many mappings it may score, not on the clock: a search pays for them with its own steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from random import Random

from polymap.costmodel import Cost, evaluate
from polymap.ir import Architecture, Mapping, PolymapError, Workload
from polymap.search.dividing import CompletedMapping
from polymap.search.local.genome import (
    Genome,
    GenomeSpace,
    genome_of_tree,
    genome_space,
    neighbour,
    plain_genome,
    random_genome,
    tree_of_genome,
)
from polymap.search.local.tuning import TUNING, Tuning
from polymap.search.problem import (
    Goal,
    Measure,
    Objective,
    Rules,
    beyond_sums,
    distance_from_rules,
    exact_score,
    narrowed,
)
from polymap.search.resources import Limits, Stop, Work

Worth = tuple[Fraction, Fraction]  # how far it is from a legal mapping that meets the rules; its value
BrokenRules = Callable[[Mapping, Cost], Fraction]


def can_be_annealed(workload: Workload, objective: Objective) -> bool:
    """Return whether mappings of the workload can be annealed towards the objective: one statement, one value."""
    single = objective.goal not in (Goal.LEXICOGRAPHIC, Goal.PARETO)
    small = all(dim.extent <= TUNING.largest_extent for dim in workload.dims)
    return single and small and len(workload.statements) == 1


def annealer_of(
    workload: Workload, arch: Architecture, objective: Objective, rules: Rules, *, divide: bool, seed: int
) -> Annealer | None:
    """Return what looks for mappings that meet the rules, best by the first part; None where none can."""
    single = objective.singles[0]
    if not can_be_annealed(workload, single):
        return None
    machine = arch if beyond_sums(arch, rules, *objective.singles) else arch.without_steps()
    breaks = partial(distance_from_rules, workload, machine, rules)
    return Annealer(workload, narrowed(workload, machine, rules), single, breaks, divide=divide, seed=seed)


class Annealer:
    """A walk over mappings that can be ended and taken up again after any number of them.

    best: the best legal mapping met with its value. breaks: how far a mapping is from meeting rules.
    """

    def __init__(
        self,
        workload: Workload,
        arch: Architecture,
        objective: Objective,
        breaks: BrokenRules,
        *,
        divide: bool,
        seed: int,
        tuning: Tuning = TUNING,
    ) -> None:
        self._tuning = tuning
        self._workload, self._arch, self._objective, self._breaks = workload, arch, objective, breaks
        self._space: GenomeSpace = genome_space(workload, arch, divide=divide)
        self._rng = Random(seed)
        self.best: tuple[Mapping, Fraction] | None = None
        self.scored = 0
        self._runs = 0
        self._left = 0  # of the run
        self._length = 0
        self._heat = self._tuning.far_heat
        self._now: tuple[Genome, Worth | None] = (plain_genome(self._space), None)

    def know(self, mapping: Mapping, value: Fraction) -> None:
        """Take a legal mapping with its value as the best, if it is; the next run begins there."""
        if self.best is None or value < self.best[1]:
            self.best = mapping, value
            self._left = 0
            self._runs -= self._runs % 2

    def walk(self, mappings: int, is_over: Callable[[], bool]) -> bool:
        """Score so many mappings, unless it is over before; return whether the best became better."""
        before = self.best
        for _ in range(mappings):
            if is_over():
                break
            self._step()
        return self.best is not before

    def _step(self) -> None:
        if self._left <= 0:
            self._begin()
        genome, worth = self._now
        # Runs cool down from their heat to the last one.
        heat = self._heat * (self._tuning.last_heat / self._heat) ** (1 - self._left / self._length)
        self._left -= 1
        near = neighbour(self._space, genome, self._rng)
        is_legal = worth is not None and not worth[0]
        enough = worth[1] * Fraction(math.exp(heat * self._tuning.heats)) if worth is not None and is_legal else None
        found = self._score(near, enough)
        if found is not None and (worth is None or self._accepts(found, worth, heat)):
            self._now = near, found

    def _begin(self) -> None:
        """Begin a run: in turn near the best mapping, and anywhere."""
        near = self._runs % 2 == 0 and self.best is not None
        growth = self._tuning.growth ** (self._runs // 2)
        self._runs += 1
        self._length = self._left = int((self._tuning.near_length if near else self._tuning.far_length) * growth)
        self._heat = self._tuning.near_heat if near else self._tuning.far_heat
        if near and self.best is not None:
            start = genome_of_tree(self._space, self.best[0])
            self._now = start, self._score(start)
            return
        drawn = [random_genome(self._space, self._rng) for _ in range(self._tuning.drawn)] + [plain_genome(self._space)]
        scored = [(worth, number) for number, one in enumerate(drawn) if (worth := self._score(one)) is not None]
        self._now = (drawn[min(scored)[1]], min(scored)[0]) if scored else (drawn[-1], None)

    def _score(self, genome: Genome, enough: Fraction | None = None) -> Worth | None:
        """Return what a genome's tree is worth; None where it is not counted. enough: a value of which it need not be
        known by how much it is exceeded."""
        self.scored += 1
        mapping = tree_of_genome(self._space, genome)
        score = exact_score(self._workload, self._arch, self._objective, mapping, enough)
        if score is None:
            return None
        far = score.excess + self._breaks(mapping, score.cost)
        if not far and (self.best is None or score.value < self.best[1]) and self._is_legal(mapping):
            self.best = mapping, score.value
        return far, score.value

    def _is_legal(self, mapping: Mapping) -> bool:
        """Return whether the cost model, dependences included, calls the mapping legal."""
        try:
            return evaluate(self._workload, self._arch, mapping).legal
        except PolymapError:
            return False

    def _accepts(self, found: Worth, worth: Worth, heat: float) -> bool:
        if found <= worth:
            return True
        if found[0] != worth[0]:
            rise = float(min(found[0] - worth[0], 10**6)) if found[0] > worth[0] else 0.0
        else:
            rise = math.log(float(min(found[1] / worth[1], 10**300))) if worth[1] else math.inf
        return self._rng.random() < math.exp(-rise / heat)


class DividingPolish:
    """An annealer that a search over dividing tiles pays by its steps: a small share of its time (incumbent.Polish)."""

    def __init__(
        self,
        annealer: Annealer,
        measure: Measure,
        limits: Limits,
        *,
        has_window: bool,
        tuning: Tuning = TUNING,
    ) -> None:
        self._tuning = tuning
        self._annealer, self._measure, self._limits = annealer, measure, limits
        self._rate = self._tuning.per_window_step if has_window else self._tuning.per_step
        self._credit = -self._tuning.free_steps * self._rate
        self._idle = 0  # mappings since the last better one

    def first(self, mappings: int) -> tuple[int, CompletedMapping] | None:
        """Return the best tree of so many mappings with its scaled value: something to begin with."""
        self._limits.work.add(mappings)
        self._annealer.walk(mappings, self._limits)
        return self._best()

    def after(self, steps: int, best: tuple[int, CompletedMapping] | None) -> tuple[int, CompletedMapping] | None:
        """Return a better tree with its scaled value, if one was found in the share of so many steps."""
        self._credit += steps * self._rate / (1 + self._idle / (self._tuning.idle_steps * self._rate))
        if self._credit < self._tuning.burst:
            return None
        mappings, self._credit = int(self._credit), 0.0
        if best is not None:
            self._annealer.know(best[1].mapping, self._measure.unscaled(best[0]))
        self._limits.work.add(mappings)
        better = self._annealer.walk(mappings, self._limits)
        self._idle = 0 if better else self._idle + mappings
        return self._best() if better else None

    def _best(self) -> tuple[int, CompletedMapping] | None:
        if self._annealer.best is None:
            return None
        mapping, value = self._annealer.best
        return math.ceil(value / self._measure.unscaled(1)), CompletedMapping((), mapping)


def anneal_mappings(
    annealer: Annealer,
    stop: Stop,
    work: Work,
    report: Callable[[Mapping, Fraction], None],
    *,
    until_found: bool,
    tuning: Tuning = TUNING,
) -> None:
    """Walk over mappings until `stop` says so, or until one is found, else until enough are scored."""
    done = 0
    while not stop() and (annealer.best is None if until_found else done < tuning.annealed_without_bound):
        some = tuning.annealed_at_once if work.left is None else min(tuning.annealed_at_once, work.left)
        better = annealer.walk(some, stop)
        work.add(some)
        done += some
        if better and annealer.best is not None:
            report(*annealer.best)
