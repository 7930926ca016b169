"""The best mapping and the bound of all loop trees for many sizes of one buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polymap.ir import Architecture, Mapping, MemoryLevel
from polymap.search.problem import Problem, exact_score, parse_objective
from polymap.search.resources import SearchCaches
from polymap.search.single_level.bounds import least_bits
from polymap.search.single_level.mappings import good_chains, trees
from polymap.search.single_level.question import Question, read_question
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
    known = _mappings(problem, question, rooms, tables)
    bounds = least_bits(question, rooms, [None if each is None else each[1] for each in known], tables)
    return [OfSize(bound, each and each[0], each and each[1]) for bound, each in zip(bounds, known, strict=True)]


def _mappings(
    problem: Problem, question: Question, rooms: list[int], tables: WindowTables
) -> list[tuple[Mapping, int] | None]:
    """Return, per size of the buffer, the mapping that moves least among those that are counted exactly."""
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
