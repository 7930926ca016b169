"""Local search over loop trees, of dividing tiles or of any size, change by change: the one that all searches share.

Descents begin with the trees of each chain that a bound names, once. A descent takes the first change that makes its
tree better, else two at once, the first of which overfills a level, and ends where there are none. Later ones begin at
changes of such ends that are little worse, and in turn at the best mapping, with sibling counts that a bound names laid
over it, and at random trees. Where no mapping is known, the first descent begins at trees by construction
(start_trees.py), and one makes its tree fit and meet the rules first. Trees that break a dependence are left out. What
is found depends on how many trees are scored, not on the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from math import inf
from random import Random
from typing import Protocol

from polymap.costmodel import Cost, evaluate
from polymap.ir import Architecture, BudgetError, Mapping, PolymapError
from polymap.schedules import any_order_is_legal, dependence_violations
from polymap.search.problem import Objective, Problem, distance_from_rules, exact_score, refusals
from polymap.search.trees.changes import KINDS, Neighbours
from polymap.search.trees.start_trees import Chain, FilledTrees, random_tree, trees_of_chain
from polymap.search.trees.tree_edits import Counts, Nodes, TreeEdits
from polymap.search.trees.tree_scores import TreeScores, Worth
from polymap.search.trees.tuning import TUNING

Found = tuple[Worth, Nodes]


class Hint(Protocol):
    """Where a bound expects good mappings: sibling counts [class of fan-outs][dim], a relaxed chain (() for none)."""

    @property
    def counts(self) -> Counts: ...
    @property
    def chain(self) -> Chain: ...


@dataclass(slots=True)
class _End:
    """Where a descent ended, the changes of it that are little worse, and how many of these were gone on from."""

    found: Found
    near: list[Found]
    turns: int = 0


class TreeClimber:
    """A walk over trees that can be ended and taken up again after any round.

    best: the best legal mapping so far that meets the problem's rules, with its value. hints: where descents begin, the
    most promising first. arch: the machine as the user wrote it, without what rules narrow.
    """

    def __init__(
        self,
        problem: Problem,
        arch: Architecture,
        objective: Objective,
        *,
        divide: bool = False,
        seed: int = 0,
    ) -> None:
        self._problem, self._arch, self._objective = problem, arch, objective
        self._rng = Random(seed)
        self._edits = TreeEdits(problem, divide=divide)
        self._neighbours = Neighbours(self._edits)
        self._is_free = any_order_is_legal(problem.workload)
        self._scores = TreeScores(problem, objective, self._edits, self._excess_of_rules)
        self.best: tuple[Mapping, Fraction] | None = None
        self.hints: Sequence[Hint] = ()
        self._begun_chains: set[Chain] = set()
        self._starts: dict[Counts, list[Found]] = {}  # trees of chains where descents will begin, by sibling counts
        self._ends: list[_End] = []
        self._runs = self._turns = self._last = 0
        self._now: Found | None = None
        self._kinds: list[int] = []  # of changes of it that were not looked at
        self._left: list[Nodes] = []  # of the last kind, those that were not looked at
        self._over: list[Nodes] = []  # changes of it that overfill a level
        self._seen: list[Found] = []  # changes of it that are little worse
        self._tried: set[Nodes] = set()  # since the last start

    def know(self, mapping: Mapping, value: Fraction) -> None:
        """Take a legal mapping with its value as the best, if it is; the next descent begins there."""
        if self.best is None or value < self.best[1]:
            self.best, self._now = (mapping, value), None
            self._runs -= self._runs % 3

    def begin_at(self, mapping: Mapping) -> None:
        """Let a later descent begin at a legal mapping."""
        self._starts[((0,),)] = self._best_of([self._edits.nodes_of(mapping)])

    def walk(self, trees: int, is_over: Callable[[], bool]) -> bool:
        """Score so many trees, unless it is over before; return whether the best became better."""
        before, last = self.best, self._scores.scored + trees
        looked = 0
        while self._scores.scored < last and looked < trees * TUNING.looked_per_scored and not is_over():
            looked += 1
            self._step(is_over)
        return self.best is not before

    @property
    def scored(self) -> int:
        return self._scores.scored

    def walk_rounds(self, rounds: int, is_over: Callable[[], bool]) -> bool:
        """Take so many rounds, unless it is over before; return whether the best became better."""
        return self.walk(rounds * TUNING.trees_per_round, is_over)

    def _limit(self, rise: float) -> float:
        """Return a value that is so much worse than the best one."""
        return inf if self.best is None else float(self.best[1]) * (1 + rise)

    def _step(self, is_over: Callable[[], bool]) -> None:
        """Look at one change, or decide where to go on."""
        fits = self._now is not None and not self._now[0][0]
        self._scores.enough = self._now[0][1] * (1 + TUNING.counted) if self._now is not None and fits else None
        new = next((hint for hint in self.hints if hint.chain and hint.chain not in self._begun_chains), None)
        if new is not None:
            self._begun_chains.add(new.chain)
            trees = trees_of_chain(self._problem, new.counts, new.chain)
            self._starts[tuple(map(tuple, new.counts))] = self._best_of(trees)
        if self._now is None:
            self._begin(is_over)
        elif self._scores.scored > self._last and self._now[0] > (0.0, self._limit(TUNING.far_begun), 0.0):
            self._now = None
        elif self._left:
            self._look_at(self._left.pop(), self._now)
        elif self._kinds:
            self._left = self._neighbours.of_kind(self._now[1], self._kinds.pop())
            self._rng.shuffle(self._left)
        elif self._over:
            self._left, self._over = self._mends(self._now), []
        else:
            self._end(self._now)

    def _begin(self, is_over: Callable[[], bool]) -> None:
        """Go to where a descent begins: a tree of a chain, a change of where an earlier one ended, or another start."""
        self._turns += 1
        self._last = self._scores.scored + TUNING.trees_far
        pending = [(found, counts) for counts, starts in self._starts.items() for found in starts]
        limit = self._limit(TUNING.far)
        ends = [one for one in self._ends if one.near and one.found[0] <= (0.0, limit, 0.0)]
        if self._turns > 1 and pending and (self._turns % 2 or not ends):
            found, counts = min(pending, key=lambda one: one[0][0])
            self._starts[counts].remove(found)
            self._tried.clear()
            self._go_to(found)
        elif ends and self._turns % (TUNING.turns if self.hints else TUNING.turns_alone):
            end = min(ends, key=lambda one: one.found[0][1] * (1 + one.turns * TUNING.rise_per_turn))
            end.turns += 1
            self._go_to(end.near.pop(0))
        else:
            self._tried.clear()
            self._now = None
            found = self._start(is_over)
            if found is not None:
                self._go_to(found)

    def _go_to(self, found: Found) -> None:
        if found[0] < (0.0, self._limit(0.0), 0.0):
            self._offer(found[1])
        self._now, self._over, self._seen = found, [], []
        self._left = []
        self._kinds = self._rng.sample(range(KINDS), KINDS)

    def _look_at(self, nodes: Nodes, now: Found) -> None:
        """Go to a tree if it is better than the one that the run is at, or remember it for later."""
        if nodes in self._tried:
            return
        self._tried.add(nodes)
        excess = self._scores.excess(nodes)
        if excess > now[0][0]:
            if excess <= TUNING.most_excess:
                self._over.append(nodes)
            return
        worth = self._scores.worth(nodes)
        if worth is None:
            return
        if worth < now[0]:
            if self._keeps_dependences(nodes):
                self._go_to((worth, nodes))
        elif not worth[0] and worth[1] <= now[0][1] * (1 + TUNING.rise):
            self._seen.append((worth, nodes))

    def _mends(self, now: Found) -> list[Nodes]:
        """Return changes of changes that are better but for overfull levels: those that fit."""
        drawn = self._rng.sample(self._over, min(len(self._over), TUNING.overfull_drawn))
        scored = [(worth[1], nodes) for nodes in drawn if (worth := self._scores.worth(nodes)) is not None]
        better = sorted((one for one in scored if one[0] < now[0][1]), key=lambda one: one[0])
        found: dict[Nodes, None] = {}
        for _, nodes in better[: TUNING.overfull_mended]:
            for one in self._neighbours.of(nodes):
                if one not in self._tried and self._scores.excess(one) <= now[0][0]:
                    found[one] = None
        return list(found)

    def _end(self, now: Found) -> None:
        """Note where a descent ended: no change is better."""
        self._now = None
        if not now[0][0] and all(one.found != now for one in self._ends):
            near = sorted(self._seen, key=lambda found: found[0])[: TUNING.most_near]
            self._ends = sorted([*self._ends, _End(now, near)], key=lambda one: one.found[0])[: TUNING.ends]

    def _start(self, is_over: Callable[[], bool]) -> Found | None:
        """Return where a descent begins that no chain names."""
        kind, self._runs = self._runs % 3, self._runs + 1
        if self.best is None and self._turns == 1:
            filled = self._best_of(FilledTrees(self._problem, self._edits, self._scores).best(is_over))
            if filled:
                return filled[0]
        best = [] if self.best is None else [self._edits.nodes_of(self.best[0])]
        trees = best if best and (not kind or (kind == 1 and self.hints)) else self._random_trees()
        if kind and self.hints:
            hint = self.hints[self._runs // 3 % len(self.hints)]
            trees = [one for base in trees if (one := self._edits.with_siblings(base, hint.counts)) is not None]
        return next(iter(self._best_of(trees)), None)

    def _best_of(self, trees: Sequence[Nodes]) -> list[Found]:
        """Return a few trees, best first."""
        tidied = list(filter(self._keeps_dependences, dict.fromkeys(map(self._edits.tidied, trees))))
        scored = [(worth, place) for place, one in enumerate(tidied) if (worth := self._scores.worth(one)) is not None]
        return [(worth, tidied[place]) for worth, place in sorted(scored)[: TUNING.starts]]

    def _random_trees(self) -> list[Nodes]:
        """Return random trees, and the one of the program as written."""
        drawn = [random_tree(self._edits, self._rng) for _ in range(TUNING.drawn)]
        return [*drawn, self._edits.least_tree()]

    def _excess_of_rules(self, mapping: Mapping, cost: Cost) -> float:
        """Return how far a mapping is from meeting the rules."""
        question = self._problem.workload, self._arch, self._problem.rules
        return float(distance_from_rules(*question, mapping, cost))

    def _keeps_dependences(self, nodes: Nodes) -> bool:
        """Return whether a tree keeps all dependences, as far as that is known; one that does not counts as scored."""
        if self._is_free:
            return True
        with suppress(BudgetError):
            if not dependence_violations(self._problem.workload, self._edits.mapping_of(nodes)):
                return True
        self._scores.scored += 1
        return False

    def _offer(self, nodes: Nodes) -> None:
        """Keep a tree as the best mapping if it is, exactly, and an answer."""
        workload, mapping = self._problem.workload, self._edits.mapping_of(nodes)
        score = exact_score(workload, self._problem.arch, self._objective, mapping)
        if score is None or score.excess or (self.best is not None and score.value >= self.best[1]):
            return
        with suppress(PolymapError):
            cost = evaluate(workload, self._arch, mapping)
            if not refusals(workload, self._arch, self._problem.rules, mapping, cost):
                self.best = mapping, score.value
