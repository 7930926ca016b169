"""Searches of the textbooks to compare with: sampling, climbing, annealing, genetic search, rules of thumb.

Every mapping is scored by costmodel.evaluate; an illegal one is worth nothing but counts as evaluated. Same input and
seed, same answer.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from random import Random
from typing import assert_never

from benchmarks.heuristics.dataflow_templates import Dataflow, rule_of_thumb, template
from benchmarks.heuristics.genome import (
    Genome,
    GenomeSpace,
    crossover,
    genome_space,
    neighbour,
    plain_genome,
    random_genome,
    tree_of_genome,
)
from polymap.costmodel import Cost, evaluate
from polymap.ir import Architecture, BudgetError, Mapping, Workload
from polymap.search.problem import Objective, objective_value, parse_single

DRAWN = 10  # random genomes of which the best begins a run
PATIENCE = 60  # changes without success before hill climbing starts anew
POPULATION = 24  # genomes of a generation
FAR_HEAT, LAST_HEAT = 0.5, 0.002  # accepted rises of the value's logarithm, first and last


class Method(Enum):
    """How mappings are found. RULE_OF_THUMB: the dataflow that the textbook names for the workload."""

    RANDOM = "random"
    HILL_CLIMBING = "hill_climbing"
    SIMULATED_ANNEALING = "simulated_annealing"
    GENETIC = "genetic"
    RULE_OF_THUMB = "rule_of_thumb"
    WEIGHT_STATIONARY = "weight_stationary"
    OUTPUT_STATIONARY = "output_stationary"
    INPUT_STATIONARY = "input_stationary"


@dataclass(frozen=True, slots=True)
class BaselineResult:
    """The best legal mapping met (None: none), its exact objective, mappings scored, legal ones among them.

    improvements: (mappings scored so far, value) whenever the best fell.
    """

    method: str
    best: Mapping | None
    cost: Cost | None
    value: Fraction | None
    evaluated: int
    legal: int
    improvements: tuple[tuple[int, Fraction], ...]


def baseline(
    workload: Workload,
    arch: Architecture,
    method: str,
    objective: str = "energy",
    tiles: str = "divide",
    budget: int = 1000,
    seed: int = 0,
) -> BaselineResult:
    """Return the best mapping that `method` finds with `budget` evaluations (rules of thumb take the few they need).

    Raises ValueError for an unknown method, objective or tile rule, a budget below 1, or several statements.
    """
    chosen = _method_of(workload, method, tiles, budget)
    run = _Run(workload, arch, parse_single(objective, arch), tiles, budget, Random(seed))
    run.start(chosen)
    return BaselineResult(method, run.best, run.cost, run.value, run.evaluated, run.legal, tuple(run.improvements))


def _method_of(workload: Workload, method: str, tiles: str, budget: int) -> Method:
    if tiles not in ("any", "divide"):
        raise ValueError(f"tiles is {tiles!r}: use 'any' or 'divide'")
    if budget < 1:
        raise ValueError(f"budget is {budget!r}: use an integer of at least 1")
    if len(workload.statements) != 1:
        raise ValueError(f"the workload has {len(workload.statements)} statements: give one of one statement")
    return Method(method)


class _BudgetSpent(Exception):
    """The budget is used up."""


class _Run:
    """One run: what was asked, the evaluations so far, the best mapping so far."""

    def __init__(
        self, workload: Workload, arch: Architecture, objective: Objective, tiles: str, budget: int, rng: Random
    ) -> None:
        self.workload, self.arch, self.objective = workload, arch, objective
        self.space: GenomeSpace = genome_space(workload, arch, divide=tiles == "divide")
        self.budget, self.rng = budget, rng
        self.best: Mapping | None = None
        self.cost: Cost | None = None
        self.value: Fraction | None = None
        self.evaluated = self.legal = 0
        self.improvements: list[tuple[int, Fraction]] = []

    def start(self, method: Method) -> None:
        """Run the method until it ends or the budget does."""
        try:
            self._run(method)
        except _BudgetSpent:
            return

    def _run(self, method: Method) -> None:
        match method:
            case Method.RANDOM:
                while True:
                    self.score(random_genome(self.space, self.rng))
            case Method.HILL_CLIMBING:
                self._climb()
            case Method.SIMULATED_ANNEALING:
                self._anneal()
            case Method.GENETIC:
                self._breed()
            case Method.RULE_OF_THUMB:
                self._template(rule_of_thumb(self.workload))
            case Method.WEIGHT_STATIONARY | Method.OUTPUT_STATIONARY | Method.INPUT_STATIONARY:
                self._template(Dataflow(method.value))
            case _:
                assert_never(method)

    def score(self, genome: Genome) -> Fraction | None:
        """Return the objective of a genome's tree (None: illegal). Raises _BudgetSpent where no budget is left."""
        if self.evaluated >= self.budget:
            raise _BudgetSpent
        self.evaluated += 1
        mapping = tree_of_genome(self.space, genome)
        try:
            cost = evaluate(self.workload, self.arch, mapping)
        except BudgetError:
            return None
        if not cost.legal:
            return None
        self.legal += 1
        value = objective_value(self.workload, self.arch, self.objective, cost)
        if self.value is None or value < self.value:
            self.best, self.cost, self.value = mapping, cost, value
            self.improvements.append((self.evaluated, value))
        return value

    def _first(self) -> tuple[Genome, Fraction | None]:
        """Return a legal genome to start from: the best of some random ones, or else the plain one."""
        drawn = [random_genome(self.space, self.rng) for _ in range(DRAWN)]
        scored = [(value, number) for number, genome in enumerate(drawn) if (value := self.score(genome)) is not None]
        if scored:
            value, number = min(scored)
            return drawn[number], value
        plain = plain_genome(self.space)
        return plain, self.score(plain)

    def _climb(self) -> None:
        """Take every change that costs no more; after some changes without a gain, start anew elsewhere."""
        while True:
            genome, value = self._first()
            failed = 0
            while failed < PATIENCE:
                near = neighbour(self.space, genome, self.rng)
                found = self.score(near)
                gain = found is not None and (value is None or found < value)
                failed = 0 if gain else failed + 1
                if found is not None and (value is None or found <= value):
                    genome, value = near, found

    def _anneal(self) -> None:
        """Take changes that cost more with a chance that falls over the budget."""
        genome, value = self._first()
        while True:
            near = neighbour(self.space, genome, self.rng)
            found = self.score(near)
            heat = FAR_HEAT * (LAST_HEAT / FAR_HEAT) ** (self.evaluated / self.budget)
            if found is not None and (value is None or self._accepts(found, value, heat)):
                genome, value = near, found

    def _accepts(self, found: Fraction, value: Fraction, heat: float) -> bool:
        if found <= value:
            return True
        rise = math.log(float(found / value)) if value else math.inf
        return self.rng.random() < math.exp(-rise / heat)

    def _breed(self) -> None:
        """Cross and change the winners of small tournaments; the best of each generation live on."""
        drawn = [plain_genome(self.space), *(random_genome(self.space, self.rng) for _ in range(POPULATION - 1))]
        people = [(self._worth(genome), genome) for genome in drawn]
        while True:
            children: list[tuple[float, Genome]] = []
            for _ in range(POPULATION):
                mother, father = self._tournament_winner(people), self._tournament_winner(people)
                child = crossover(self.space, mother, father, self.rng)
                for _ in range(self.rng.choice((0, 1, 1, 2))):
                    child = neighbour(self.space, child, self.rng)
                children.append((self._worth(child), child))
            # One of each worth: equals would crowd out everybody else.
            distinct = {worth: (worth, genome) for worth, genome in (*children, *people)}
            people = [distinct[worth] for worth in sorted(distinct)[:POPULATION]]
            while len(people) < 3:
                genome = random_genome(self.space, self.rng)
                people.append((self._worth(genome), genome))

    def _worth(self, genome: Genome) -> float:
        value = self.score(genome)
        return math.inf if value is None else float(value)

    def _tournament_winner(self, people: list[tuple[float, Genome]]) -> Genome:
        return min(self.rng.sample(people, 3), key=lambda one: one[0])[1]

    def _template(self, dataflow: Dataflow) -> None:
        """Score the rule's own mapping alone: what it met while its tiles grew is not its answer."""
        self.budget = sys.maxsize
        genome = template(self.space, dataflow, lambda grown: self.score(grown) is not None)
        self.best = self.cost = self.value = None
        self.improvements.clear()
        self.score(genome)
