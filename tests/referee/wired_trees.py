"""The least values of all legal trees on a machine whose fan-outs cost energy.

The walk over all trees counts no wires. What it says of a tree on the machine without their energies is at most what
the tree costs, for every objective that more energy makes no smaller: trees are evaluated one by one in that order, and
those are left out that known ones beat at what they cost without wires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from polymap.costmodel.evaluation import evaluate
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, Fanout
from polymap.ir.mapping import Mapping
from polymap.search.enumeration.trees import ScoredTree, scored_trees
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.measure import objective_values

Values = tuple[Fraction, ...]


@dataclass(frozen=True, slots=True)
class Least:
    """values: the least of all trees within capacities, of an order in order (None: there is none). front: the values
    that no tree beats, by rising first part. evaluated: how many trees were."""

    values: Values | None
    front: tuple[Values, ...]
    evaluated: int


def without_wires(arch: Architecture) -> Architecture:
    """Return the machine with fan-outs that cost nothing."""
    nothing = Fraction(0)
    nodes = (
        replace(node, pj_per_word=nothing, pj_per_word_hop=nothing, reduce_pj=nothing)
        if isinstance(node, Fanout)
        else node
        for node in arch.nodes
    )
    return replace(arch, nodes=tuple(nodes))


def covers(one: Values, other: Values) -> bool:
    """Return whether values are as good as others in every part."""
    return all(a <= b for a, b in zip(one, other, strict=True))


def wired_values(workload: Workload, arch: Architecture, objective: str, mapping: Mapping) -> Values:
    """Return what a tree costs, evaluated by itself."""
    return objective_values(workload, arch, parse_objective(objective, arch), evaluate(workload, arch, mapping))


def least_of_all(
    workload: Workload,
    arch: Architecture,
    objective: str,
    tiles: str,
    meets: Callable[[ScoredTree], bool] = lambda _tree: True,
) -> Least:
    """Return the least values of the legal trees within capacities that meet something besides."""
    several = objective.startswith("pareto")
    beats = covers if several else tuple.__le__
    trees = sorted(_fitting(workload, without_wires(arch), objective, tiles), key=lambda tree: tree.values)
    known: list[Values] = []
    evaluated = 0
    for tree in trees:
        if any(beats(one, tree.values) for one in known):
            if not several:
                break
            continue
        if not meets(tree):
            continue
        evaluated += 1
        values = wired_values(workload, arch, objective, tree.mapping)
        assert covers(tree.values, values), f"{tree.mapping} costs less with wires: {tree.values}, {values}"
        if not any(beats(one, values) for one in known):
            known = [one for one in known if not beats(values, one)] + [values]
    return Least(min(known, default=None), tuple(sorted(known)) if several else (), evaluated)


def _fitting(workload: Workload, arch: Architecture, objective: str, tiles: str) -> Iterator[ScoredTree]:
    return (tree for tree in scored_trees(workload, arch, objective, tiles) if tree.fits)
