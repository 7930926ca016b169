"""Mappings without a proof, for programs that the lattice search does not cover: the program as written, random trees,
and local search from the best of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, groupby
from random import Random

from polymap.costmodel import TUNING as COUNTING, Cost, evaluate_in_cpu_time
from polymap.ir import (
    Architecture,
    Branch,
    BudgetError,
    Compute,
    Mapping,
    MappingNode,
    MemoryLevel,
    Statement,
    Storage,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
)
from polymap.resources import Limits, cpu_seconds
from polymap.search.options import TUNING
from polymap.search.problem import Objective, Rules, divisors, objective_values, refusals
from polymap.search.trees import TreeClimber, climb_beside
from polymap.workload import shared_dims

Sampled = tuple[tuple[Fraction, ...], Mapping, Cost]  # the values (one per part of an order or a front) come first


@dataclass(frozen=True, slots=True)
class DrawnMappings:
    """The mappings found that meet the rules, best first, and the number of mappings scored."""

    found: tuple[Sampled, ...]
    tried: int


def sample_mappings(
    workload: Workload,
    arch: Architecture,
    objective: Objective,
    rules: Rules,
    stop: Callable[[], bool],
    *,
    climber: TreeClimber | None,
    seed: int,
    before: DrawnMappings | None,
    starts: tuple[Mapping, ...] = (),
    limits: Limits,
    report: Callable[[Mapping, Fraction], None],
) -> DrawnMappings:
    """Return the mappings that meet the rules among the program as written, random trees and what local search finds.

    If no tree drawn at first meets the rules, local search goes on until one does or a limit is reached. before: the
    result of an earlier call, to continue from. starts: mappings to be looked at first. limits: of the search, whose
    steps these are; `stop` may end it before.
    """
    if before is None:
        scored, tried = _draw_mappings(workload, arch, objective, seed, limits, starts)
        good = [one for one in scored if not refusals(workload, arch, rules, one[1], one[2])]
    else:
        good, tried = list(before.found), before.tried
    if climber is None or (good and len(objective.singles) > 1):
        return DrawnMappings(tuple(good), tried)
    if good:
        climber.know(good[0][1], good[0][0][0])
    climb_beside(climber, stop, limits.work, report, until_found=not good)
    if climber.best is not None and climber.best[0] not in [mapping for _, mapping, _ in good]:
        mapping = climber.best[0]
        with suppress(BudgetError):
            cost = evaluate_in_cpu_time(
                workload, arch, mapping, TUNING.last_evaluation_s if good else COUNTING.count_limit_s
            )
            good.insert(0, (objective_values(workload, arch, objective, cost), mapping, cost))
    return DrawnMappings(tuple(good), tried + climber.scored)


def _draw_mappings(
    workload: Workload,
    arch: Architecture,
    objective: Objective,
    seed: int,
    limits: Limits,
    starts: tuple[Mapping, ...],
) -> tuple[list[Sampled], int]:
    """Return the legal mappings among the program as written and random trees, best first, and how many were scored.

    Of trees that differ only in loops over dims of extent 1, the first is kept. Where the time is up and none is found
    yet, they may take the CPU time that the limit left them: a busy machine finds one, too.
    """
    found: dict[Mapping, Sampled] = {}
    ones = frozenset(dim.name for dim in workload.dims if dim.extent == 1)
    tried, until = 0, cpu_seconds() + limits.left_s()
    for mapping in chain(starts, _candidates(workload, arch, Random(seed))):
        left = limits.left_s() if found else until - cpu_seconds()
        if limits() and (found or (tried and left < 0)):
            break
        tried += 1
        try:
            cost = evaluate_in_cpu_time(workload, arch, mapping, max(TUNING.least_evaluation_s, left))
        except BudgetError:
            continue
        if cost.legal:
            values = objective_values(workload, arch, objective, cost)
            found.setdefault(Mapping(_without(ones, mapping.nodes)), (values, mapping, cost))
    return sorted(found.values(), key=lambda item: item[0]), tried


def _without(dims: frozenset[str], nodes: tuple[MappingNode, ...]) -> tuple[MappingNode, ...]:
    """Return the nodes without the temporal loops over these dims."""
    return tuple(
        Branch(tuple(_without(dims, child) for child in node.children)) if isinstance(node, Branch) else node
        for node in nodes
        if not (isinstance(node, Temporal) and node.dim in dims)
    )


def _candidates(workload: Workload, arch: Architecture, rng: Random) -> Iterator[Mapping]:
    yield program_order(workload, arch)
    if len(workload.statements) == 1:
        for _ in range(TUNING.tries):
            yield _random_tree(workload, arch, rng)
        return
    for _ in range(TUNING.tries_of_programs):
        yield _program_tree(workload, _random_places(workload, arch, rng))


def program_order(workload: Workload, arch: Architecture) -> Mapping:
    """Return the program as written: no tiling, no spatial loops, and one storage node per tensor that a level must
    hold, inside all loops that the statements using the tensor share."""
    deepest = _deepest(workload)
    places = {
        (level.name, tensor.name): deepest[tensor.name]
        for level in arch.levels[1:]
        for tensor in workload.tensors
        if level.requires(tensor)
    }
    return _program_tree(workload, places)


Places = dict[tuple[str, str], int]  # (level, tensor) -> how many loops stand above its node


def _random_places(workload: Workload, arch: Architecture, rng: Random) -> Places:
    """Return random depths of storage nodes, at most at the innermost loop shared by all uses of the tensor; inner
    levels stand no higher than outer ones."""
    places: Places = {}
    for tensor in workload.tensors:
        deepest = _deepest(workload)[tensor.name]
        held = [level for level in arch.levels[1:] if _is_drawn(tensor, level, rng)]
        depths = sorted(rng.randint(0, deepest) for _ in held)
        places |= {(level.name, tensor.name): depth for level, depth in zip(held, depths, strict=True)}
    return places


def _users(workload: Workload, tensor: str) -> list[Statement]:
    return [statement for statement in workload.statements if accesses_of(statement, tensor)]


def _deepest(workload: Workload) -> dict[str, int]:
    """Return per tensor the number of loops shared by all statements that use it."""
    found: dict[str, int] = {}
    for tensor in workload.tensors:
        users = _users(workload, tensor.name)
        shared = (len(shared_dims(users[0], other)) for other in users[1:])
        found[tensor.name] = min((len(users[0].dims), *shared)) if users else 0
    return found


def _program_tree(workload: Workload, places: Places) -> Mapping:
    """Return the loops of the program as written, each with tile 1, with storage nodes at the given depths."""
    used = {tensor.name: {each.name for each in _users(workload, tensor.name)} for tensor in workload.tensors}

    def stored(depth: int, inside: set[str], parts: list[set[str]]) -> tuple[Storage, ...]:
        """Return the storage nodes at a depth for tensors used only by `inside`, but by more than one of `parts`."""
        return tuple(
            Storage(level, (tensor,))
            for (level, tensor), place in places.items()
            if place == depth and used[tensor] <= inside and not any(used[tensor] <= part for part in parts)
        )

    def sequence(statements: list[Statement], depth: int) -> tuple[MappingNode, ...]:
        parts = [list(part) for _, part in groupby(statements, key=lambda each: each.position[depth])]
        children = tuple(child(part, depth) for part in parts)
        if len(children) == 1:
            return children[0]
        names: list[set[str]] = [{each.name for each in part} for part in parts]
        inside = {each.name for each in statements}
        return (*stored(depth, inside, names), Branch(children))

    def child(statements: list[Statement], depth: int) -> tuple[MappingNode, ...]:
        first = statements[0]
        nodes = stored(depth, {each.name for each in statements}, [])
        if len(first.dims) == depth:
            return (*nodes, Compute(first.name))
        return (*nodes, Temporal(first.dims[depth], 1), *sequence(statements, depth + 1))

    return Mapping(sequence(list(workload.statements), 0))


def _random_tree(workload: Workload, arch: Architecture, rng: Random) -> Mapping:
    """Return a random tree: every dim split once at a random tile, random loop orders, and between the outer and the
    inner loops random storage nodes that the levels allow."""
    statement = workload.statements[0]
    extents = workload.extents()
    outer = [dim for dim in statement.dims if extents[dim] > 1]
    inner = list(outer)
    rng.shuffle(outer)
    rng.shuffle(inner)
    tiles = {dim: rng.choice(divisors(extents[dim])) for dim in outer}
    nodes: list[MappingNode] = [Temporal(dim, tiles[dim]) for dim in outer if tiles[dim] < extents[dim]]
    for level in arch.levels[1:]:
        held = [t for t in workload.tensors if _is_drawn(t, level, rng)]
        if held:
            nodes.append(Storage(level.name, tuple(t.name for t in held)))
    nodes.extend(Temporal(dim, 1) for dim in inner if tiles[dim] > 1)
    return Mapping((*nodes, Compute(statement.name)))


def _is_drawn(tensor: Tensor, level: MemoryLevel, rng: Random) -> bool:
    """Return whether a random tree stores the tensor in the level: always if required, else if allowed with probability
    1/2."""
    return level.requires(tensor) or (level.may_hold(tensor) and rng.random() < 0.5)
