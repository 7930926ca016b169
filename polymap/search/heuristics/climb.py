"""Climbing over loop trees with tiles of any size: change a tree at random, then take the best of many tables of tiles.

Runs begin in turn near the best mapping, with sibling counts that a bound names laid over the best mapping, and with
these over a random tree. What it finds depends on how many rounds it may take, not on the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from random import Random

import numpy as np

from polymap.costmodel import evaluate
from polymap.ir import Architecture, Mapping, PolymapError, Workload
from polymap.search.heuristics.genome import genome_space, random_genome, tree_of_genome
from polymap.search.heuristics.tile_tables import TableSearch, Worth, loops_of, without_bandwidth
from polymap.search.heuristics.tree_edits import Counts, Nodes, TreeEdits
from polymap.search.heuristics.tuning import TUNING, Tuning
from polymap.search.objective import Scored, exact_score, objective_value
from polymap.search.problem import AtMost, FanoutClass, Goal, Objective

Found = tuple[Worth, Nodes]


class TreeClimber:
    """A walk over trees that can be ended and taken up again after any round.

    best: the best legal mapping so far with its value. structures: sibling counts [class of fan-outs][dim] worth a
    run, the most promising first. limits: what mappings must keep.
    """

    def __init__(
        self,
        workload: Workload,
        arch: Architecture,
        objective: Objective,
        classes: Sequence[FanoutClass],
        limits: Sequence[AtMost] = (),
        *,
        seed: int = 0,
        tuning: Tuning = TUNING,
    ) -> None:
        self._workload, self._arch, self._objective, self._tuning = workload, arch, objective, tuning
        self._rng, self._numbers = Random(seed), np.random.default_rng(seed)
        self._edits = TreeEdits(workload, arch, classes, self._rng)
        self._limits = limits
        is_timed = any(_is_timed(arch, one) for one in (objective, *(limit.objective for limit in limits)))
        self._counted = arch if is_timed else without_bandwidth(arch)
        self._tables = TableSearch(workload, self._counted, objective, tuning, tuple(limits))
        self._genomes = genome_space(workload, arch, divide=False)
        self.best: tuple[Mapping, Fraction] | None = None
        self.structures: Sequence[Counts] = ()
        self._tried: set[Mapping] = set()
        self._runs = self._round = self._idle = 0
        self._now: Found | None = None
        self._rise = 0.0
        self._keeps_siblings = False

    def know(self, mapping: Mapping, value: Fraction) -> None:
        """Take a legal mapping with its value as the best, if it is."""
        if self.best is None or value < self.best[1]:
            self.best = mapping, value

    def walk(self, rounds: int, is_over: Callable[[], bool]) -> bool:
        """Take so many rounds from a mapping that is known, unless it is over before; return whether the best became
        better."""
        before = self.best
        for _ in range(rounds):
            if self.best is None or is_over():
                break
            self._step(*self.best)
        return self.best is not before

    def _step(self, best: Mapping, value: Fraction) -> None:
        tuning = self._tuning
        if self._now is None or self._round >= tuning.run_length or self._idle >= tuning.idle_rounds:
            self._now = self._begun(best, float(value))
        worth, nodes = self._now
        self._round += 1
        self._idle += 1
        rise = self._rise * (1 - self._round / tuning.run_length) ** 2
        goal = worth[0], worth[1] * (1 + rise)
        changed = self._changed(nodes, worth[0])
        found = None if changed is None else self._near_goal(changed, goal)
        if found is None:
            return
        if found[0] < (0.0, float(value)):
            found = self._polished(found)
            self._offer(found[1], value)
        if found[0] < worth:
            self._idle = 0
        self._now = found

    def _begun(self, best: Mapping, value: float) -> Found:
        """Return where a run begins."""
        kind, self._runs = self._runs % 3, self._runs + 1
        self._round = self._idle = 0
        self._tried.clear()
        self._rise, self._keeps_siblings = self._tuning.near_rise, False
        near = (0.0, value), self._edits.nodes_of(best)
        if not kind or not self.structures:
            return near
        counts = self.structures[self._runs // 3 % len(self.structures)]
        starts = [near[1]] if kind == 1 else [self._random_nodes() for _ in range(self._tuning.genomes_drawn)]
        spread = [self._edits.with_siblings(one, counts) for one in starts]
        scored = [(self._worth(one), place) for place, one in enumerate(spread) if one is not None]
        fair = [(worth, place) for worth, place in scored if worth is not None]
        start = spread[min(fair)[1]] if fair else None
        found = None if start is None else self._tiled(start, 1, 1)
        if found is None:
            return near
        self._rise, self._keeps_siblings = self._tuning.structure_rise, True
        return found

    def _random_nodes(self) -> Nodes:
        return self._edits.nodes_of(tree_of_genome(self._genomes, random_genome(self._genomes, self._rng)))

    def _worth(self, nodes: Nodes) -> Worth | None:
        """Return what a tree is worth as it is; None where it is not counted."""
        score = exact_score(self._workload, self._counted, self._objective, self._edits.mapping_of(nodes))
        return None if score is None else (float(score.excess + self._beyond_limits(score)), float(score.value))

    def _beyond_limits(self, score: Scored) -> Fraction:
        """Return how far a mapping is beyond the limits, relative, summed."""
        found = Fraction(0)
        for limit in self._limits:
            value = objective_value(self._workload, self._arch, limit.objective, score.cost)
            found += max(Fraction(0), (value - limit.most) / (limit.most or 1))
        return found

    def _changed(self, nodes: Nodes, excess: float) -> Nodes | None:
        """Return the best of some changed trees that were not tried in this run; None where there is none."""
        drawn: list[tuple[Worth, int, Nodes]] = []
        for number in range(self._tuning.trees_drawn):
            changed = nodes
            for _ in range(self._rng.choice((1, 1, 2, 2, 3) if number else (0, 1, 1, 1, 2))):
                changed = self._edits.edited(changed, keeps_siblings=self._keeps_siblings) or changed
            if not number and self._rng.random() < self._tuning.plain_share:
                return changed
            tree = self._edits.mapping_of(changed)
            if tree in self._tried:
                continue
            self._tried.add(tree)
            worth = self._worth(changed)
            if worth is not None:
                drawn.append(((max(0.0, worth[0] - excess), worth[1]), number, changed))
        return min(drawn)[2] if drawn else None

    def _near_goal(self, nodes: Nodes, goal: Worth) -> Found | None:
        """Return the tree with better tiles, where it is worth the goal after at most three tables."""
        found = self._tiled(nodes, 0, 1)
        for _ in range(2):
            if found is None or found[0] <= goal:
                return found
            (excess, value), nodes = found
            if excess > goal[0] + 0.5 or (excess <= goal[0] and value > goal[1] * self._tuning.far_ratio):
                return None
            better = self._tiled(nodes, 1, 1)
            if better is None or better[0] >= found[0]:
                return None
            found = better
        return found if found is not None and found[0] <= goal else None

    def _polished(self, found: Found) -> Found:
        """Return the tree after tables that make it better, until two in a row do not."""
        failed = 0
        while failed < 2:
            better = self._tiled(found[1], 2, 2)
            if better is not None and better[0] < found[0]:
                found = better
            else:
                failed += 1
        return found

    def _tiled(self, nodes: Nodes, size: int, rounds: int) -> Found | None:
        """Return the tree with the best tiles of some tables of the size with this number."""
        tuning = self._tuning
        least, most, wanted = tuning.loops_added
        nodes = self._edits.tidied(nodes)
        added = max(least, min(most, wanted - loops_of(nodes)))
        wide = self._edits.widened(nodes, added, tuning.spatial_chance)
        try:
            found = self._tables.best_near(wide, tuning.rows_scored[size], rounds, self._numbers)
        except PolymapError:
            return None
        return None if found is None else (found[0], self._edits.tidied(found[1]))

    def _offer(self, nodes: Nodes, value: Fraction) -> None:
        """Keep a tree as the best mapping if it is, exactly."""
        mapping = self._edits.mapping_of(nodes)
        score = exact_score(self._workload, self._arch, self._objective, mapping)
        if score is None or score.excess or score.value >= value or self._beyond_limits(score):
            return
        if evaluate(self._workload, self._arch, mapping).legal:
            self.best = mapping, score.value


def _is_timed(arch: Architecture, objective: Objective) -> bool:
    """Return whether cycles enter the objective."""
    leaks = any(level.leak_pj_per_cycle for level in arch.levels)
    return leaks or any(
        one.goal is Goal.WEIGHTED or (one.goal.powers is not None and one.goal.powers.cycles > 0)
        for one in objective.singles
    )
