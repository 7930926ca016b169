"""The best mapping and the bound of all loop trees for many sizes of one buffer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from polymap.ir import Architecture, Mapping, MemoryLevel
from polymap.resources import SearchCaches, Stop, Work
from polymap.search.problem import Measure, Objective, Problem, exact_score, parse_objective
from polymap.search.single_level.bounds import least_bits
from polymap.search.single_level.branching import SizeSearch, cell_bounds
from polymap.search.single_level.mappings import Chain, chain_of, good_chains, trees
from polymap.search.single_level.question import Question, priced_question, read_question
from polymap.search.single_level.tuning import TUNING
from polymap.search.single_level.window_tables import WindowTables


@dataclass(frozen=True, slots=True)
class OfSize:
    """One size. bound: a lower bound in bits over all loop trees (None: no tree fits). best, value: the best known
    mapping and the bits that it moves (None: there is none)."""

    bound: int | None
    best: Mapping | None
    value: int | None


def solve_sizes(problem: Problem, capacities_bits: Sequence[int]) -> list[OfSize] | None:
    """Return bound and best mapping for each capacity of the level below the outermost; None where the package does not
    apply.

    It applies to two levels without fan-outs, at most three tensors, and a bounded number of tiles.
    """
    question = read_question(problem)
    if question is None:
        return None
    buffering = problem.arch.levels[1].buffering
    rooms = [capacity // buffering for capacity in capacities_bits]
    tables = WindowTables(SearchCaches())
    arch = _drop_limits(problem.arch)
    scored = _ScoredTrees(problem, question, parse_objective(f"traffic:{arch.levels[0].name}", arch), int)
    for chains in good_chains(question, rooms, tables):
        for chain in chains:
            scored.add(chain)
    bounds: list[int | None] = [0] * len(rooms)
    if not any(one.windows for one in question.operands):
        bounds = least_bits(question, rooms, [each and each[1] for each in map(scored.best, rooms)])
    bounds = _search_sizes(question, rooms, scored, tables, bounds)
    found: list[OfSize] = []
    for room, bound in zip(rooms, bounds, strict=True):
        best, value = scored.best(room) or (None, None)
        least = [each for each in (bound, value) if each is not None]
        found.append(OfSize(min(least, default=None), best, value))
    return found


def solve_cells(
    problem: Problem, objective: Objective, measure: Measure, known: tuple[Mapping, Fraction], stop: Stop, work: Work
) -> tuple[tuple[Mapping, Fraction], Fraction] | None:
    """Return the best mapping by a linear measure, the known one or a better one, and a lower bound over all; None
    where the package does not apply. work: a step per so many cells bounded."""
    priced = priced_question(problem, measure)
    if priced is None:
        return None
    usable, (question, besides) = problem.arch.levels[1].usable_bits, priced

    def cost_of(value: Fraction) -> int:
        return ceil(value / measure.unscaled(1)) - besides

    room = question.bits if usable is None else usable
    scored = _ScoredTrees(problem, question, objective, cost_of)
    search = SizeSearch(cell_bounds(question, WindowTables(SearchCaches())), room, cost_of(known[1]))
    look = TUNING.cells_per_size // TUNING.looks_per_size
    while search.open and search.work < TUNING.cells_per_size and not stop():
        before = search.work // look
        search.go_on(TUNING.cells_looked_at)
        work.add()
        if search.work // look > before or not search.open:
            _try_cells(search, scored)
    least = search.least_bits()
    if least is None:
        return None
    best = scored.best(room)
    if best is not None and (value := measure.unscaled(best[1] + besides)) < known[1]:
        known = best[0], value
    return known, min(known[1], measure.unscaled(least + besides))


def _search_sizes(
    question: Question, rooms: list[int], scored: _ScoredTrees, tables: WindowTables, floors: list[int | None]
) -> list[int | None]:
    """Return, per size, a lower bound over all loop trees, where the one that is known is not met; score mappings of
    the cells of least bound on the way."""
    bounds = cell_bounds(question, tables)
    found: list[int | None] = []
    for room, floor in zip(rooms, floors, strict=True):
        best = scored.best(room)
        if floor is None or (best is not None and best[1] == floor):
            found.append(floor)
            continue
        search = SizeSearch(bounds, room, question.most_bits if best is None else best[1])
        for _ in range(TUNING.looks_per_size):  # a better mapping refutes cells
            search.go_on(TUNING.cells_per_size // TUNING.looks_per_size)
            _try_cells(search, scored)
        least = search.least_bits()
        found.append(least if least is None else max(least, floor))
    return found


def _try_cells(search: SizeSearch, scored: _ScoredTrees) -> None:
    """Score the trees of the cells of least bound, until nothing is left that may move less than the best."""
    tried: set[tuple[object, ...]] = set()
    while len(tried) < TUNING.chains_per_size:
        for least, bounds, cells, at in search.cells_by_bound():
            chain = chain_of(bounds, cells, at, least)
            if (key := (chain.order, chain.tiles)) not in tried:
                break
        else:
            return
        tried.add(key)
        scored.add(chain)
        best = scored.best(search.room)
        if best is not None and best[1] < search.known:
            search.know(best[1])


class _ScoredTrees:
    """Loop trees with the bits that they hold and move, counted exactly."""

    def __init__(
        self, problem: Problem, question: Question, objective: Objective, bits_of: Callable[[Fraction], int]
    ) -> None:
        self._problem, self._question, self._objective, self._bits_of = problem, question, objective, bits_of
        self._level = problem.arch.levels[1].name
        self._arch = _drop_limits(problem.arch)
        self._trees: dict[Mapping, tuple[int, int]] = {}  # bits moved, bits held

    def add(self, chain: Chain) -> None:
        """Count the trees of a chain."""
        for mapping in trees(self._problem, self._question, chain):
            if mapping not in self._trees:
                score = exact_score(self._problem.workload, self._arch, self._objective, mapping)
                if score is not None:
                    held = dict(score.cost.occupancy_bits).get(self._level, 0)
                    self._trees[mapping] = self._bits_of(score.value), held

    def best(self, room: int) -> tuple[Mapping, int] | None:
        """Return the first tree that moves least, of those that fit, with its bits."""
        fitting = [
            (*counts, number, mapping)
            for number, (mapping, counts) in enumerate(self._trees.items())
            if counts[1] <= room
        ]
        best = min(fitting, default=None, key=lambda one: one[:3])
        return None if best is None else (best[3], best[0])


def _drop_limits(arch: Architecture) -> Architecture:
    nodes = (replace(node, capacity_bits=None) if isinstance(node, MemoryLevel) else node for node in arch.nodes)
    return replace(arch, nodes=tuple(nodes))
