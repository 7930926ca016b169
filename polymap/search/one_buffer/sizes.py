"""The best mapping and the bound of all loop trees for many sizes of one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polymap.ir import Architecture, Mapping, MemoryLevel
from polymap.search.objective import exact_score
from polymap.search.one_buffer.bounds import least_bits
from polymap.search.one_buffer.mappings import good_chains, trees
from polymap.search.one_buffer.question import Question, read_question
from polymap.search.one_buffer.window_tables import WindowTables
from polymap.search.problem import Problem, parse_objective
from polymap.search.resources import SearchCaches


@dataclass(frozen=True, slots=True)
class OfSize:
    """bound: bits that no loop tree goes below (None: no tree fits). best, value: a mapping and the bits that it moves
    (None: none is known)."""

    bound: int | None
    best: Mapping | None
    value: int | None


def solve_sizes(problem: Problem, capacities_bits: Sequence[int]) -> list[OfSize] | None:
    """Return what the outermost level moves for each capacity of the level below it; None where the question is of
    another kind than this package answers: more levels, fan-outs, more than three tensors, too many tiles."""
    question = read_question(problem)
    if question is None:
        return None
    buffering = problem.arch.levels[1].buffering
    rooms = [capacity // buffering for capacity in capacities_bits]
    tables = WindowTables(SearchCaches())
    known = _mappings(problem, question, rooms, tables)
    bounds = least_bits(question, rooms, [None if each is None else each[1] for each in known], tables)
    return [OfSize(bound, each and each[0], each and each[1]) for bound, each in zip(bounds, known, strict=True)]


def _mappings(
    problem: Problem, question: Question, rooms: list[int], tables: WindowTables
) -> list[tuple[Mapping, int] | None]:
    """Return, per size of the buffer, the mapping that moves least of those that are counted exactly."""
    scored: dict[Mapping, tuple[int, int]] = {}  # bits held, bits moved
    level = problem.arch.levels[1].name
    arch = _unlimited(problem.arch)
    objective = parse_objective(f"traffic:{arch.levels[0].name}", arch)
    for chains in good_chains(question, rooms, tables):
        for chain in chains:
            for mapping in trees(problem, question, chain):
                if mapping not in scored:
                    score = exact_score(problem.workload, arch, objective, mapping)
                    if score is not None:
                        held = dict(score.cost.occupancy_bits).get(level, 0)
                        scored[mapping] = held, int(score.value)
    found: list[tuple[Mapping, int] | None] = []
    for room in rooms:
        fitting = [
            (moved, held, number, mapping)
            for number, (mapping, (held, moved)) in enumerate(scored.items())
            if held <= room
        ]
        best = min(fitting, default=None, key=lambda one: one[:3])
        found.append(None if best is None else (best[3], best[0]))
    return found


def _unlimited(arch: Architecture) -> Architecture:
    nodes = (replace(node, capacity_bits=None) if isinstance(node, MemoryLevel) else node for node in arch.nodes)
    return replace(arch, nodes=tuple(nodes))
