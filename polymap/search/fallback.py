"""For programs that the lattice search does not cover: the program order, and random trees, scored one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from random import Random

from polymap.arch.machine import Architecture
from polymap.costmodel.cost import Cost
from polymap.costmodel.evaluate import evaluate
from polymap.errors import BudgetError
from polymap.schedules.mapping import Branch, Compute, Mapping, MappingNode, Storage, Temporal
from polymap.search.goals import Objective
from polymap.search.lattice import divisors
from polymap.search.objective import objective_value
from polymap.workload.loopnest import Statement, Tensor, Workload

TRIES = 200


def sampled(
    workload: Workload, arch: Architecture, objective: Objective, seed: int, out_of_time: Callable[[], bool]
) -> tuple[list[tuple[Fraction, Mapping, Cost]], int]:
    """Return the legal mappings among the program order and random trees, best first, and how many were scored."""
    found: dict[Mapping, tuple[Fraction, Mapping, Cost]] = {}
    tried = 0
    for mapping in _candidates(workload, arch, Random(seed)):
        if out_of_time() and found:
            break
        tried += 1
        try:
            cost = evaluate(workload, arch, mapping)
        except BudgetError:
            continue
        if cost.legal:
            found[mapping] = (objective_value(workload, arch, objective, cost), mapping, cost)
    return sorted(found.values(), key=lambda item: item[0]), tried


def _candidates(workload: Workload, arch: Architecture, rng: Random) -> Iterator[Mapping]:
    yield program_order(workload, arch)
    if len(workload.statements) == 1:
        for _ in range(TRIES):
            yield _random_tree(workload, arch, rng)


def program_order(workload: Workload, arch: Architecture) -> Mapping:
    """Return the program as it was written: no tiling, nothing parallel, everything required held right at compute."""
    children = tuple(
        (*(Temporal(dim, 1) for dim in statement.dims), *_required(workload, arch, statement), Compute(statement.name))
        for statement in workload.statements
    )
    return Mapping(children[0] if len(children) == 1 else (Branch(children),))


def _names(tensor: Tensor) -> set[str]:
    return {tensor.name, f"@{tensor.role.value}"}


def _required(workload: Workload, arch: Architecture, statement: Statement) -> tuple[Storage, ...]:
    used = {access.tensor for access in (statement.target, *statement.reads)}
    nodes: list[Storage] = []
    for level in arch.levels[1:]:
        held = [t for t in workload.tensors if t.name in used and _names(t) & set(level.must_hold)]
        if held:
            nodes.append(Storage(level.name, tuple(t.name for t in held)))
    return tuple(nodes)


def _random_tree(workload: Workload, arch: Architecture, rng: Random) -> Mapping:
    """Return a random tree: random loop order split once at random tiles, storage nodes where levels allow."""
    statement = workload.statements[0]
    extents = workload.extents()
    outer = [dim for dim in statement.dims if extents[dim] > 1]
    inner = list(outer)
    rng.shuffle(outer)
    rng.shuffle(inner)
    tiles = {dim: rng.choice(divisors(extents[dim])) for dim in outer}
    nodes: list[MappingNode] = [Temporal(dim, tiles[dim]) for dim in outer if tiles[dim] < extents[dim]]
    for level in arch.levels[1:]:
        held = [t for t in workload.tensors if _held(t, level.holds, level.must_hold, rng)]
        if held:
            nodes.append(Storage(level.name, tuple(t.name for t in held)))
    nodes.extend(Temporal(dim, 1) for dim in inner if tiles[dim] > 1)
    return Mapping((*nodes, Compute(statement.name)))


def _held(tensor: Tensor, holds: tuple[str, ...] | None, must: tuple[str, ...], rng: Random) -> bool:
    names = _names(tensor)
    if names & set(must):
        return True
    return (holds is None or bool(names & set(holds))) and rng.random() < 0.5
