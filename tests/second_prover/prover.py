"""A proof of optimality that shares no code with the search: CP-SAT on the exponents of the tiles.

For dividing tiles of one accumulation over a box without windows, for energy (without leakage) and traffic:LEVEL. The
outer loop takes every placement (which levels hold which tensor). Inside, nodes of different tensors are first free of
each other; where the least such tree has two that stand side by side in no order, the tree splits into the two orders.
Slow and meant for tests: it confirms what the search proves.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import prod

from polymap.ir import Architecture, Compute, Mapping, MappingNode, Spatial, Storage, Temporal, Workload
from tests.second_prover.form import Exponents, Factor, Form, Placement, primes_of
from tests.second_prover.model import Order, PlacementModel, value_of


@dataclass(frozen=True, slots=True)
class SecondProof:
    """value: the least objective (None: no mapping fits), exact, and a mapping that has it.

    placements, refuted: how many placements there are, and how many models were found to hold nothing better.
    """

    value: Fraction | None
    mapping: Mapping | None
    placements: int
    refuted: int


def second_proof(
    workload: Workload, arch: Architecture, objective: str = "energy", *, claimed: Fraction | None = None
) -> SecondProof:
    """Return the least value over all legal trees with dividing tiles within capacity.

    claimed: a value to confirm: only what costs at most that is looked for, which is faster. No value comes back where
    there is no such tree, so a claim that is too low is not confirmed.
    Raises OptionError PM522 for a question that it does not know, PM523 where numbers are too large; SolverError where
    CP-SAT gives no answer.
    """
    form = Form(workload, arch, objective)
    below = None if claimed is None else int(claimed * form.scale) + 1
    best: tuple[Placement, Exponents] | None = None
    placements = refuted = 0
    for placement in form.placements():
        placements += 1
        model = PlacementModel(form, placement)
        todo: list[tuple[Order, ...]] = [()]
        while todo:
            orders = todo[-1]
            found = model.least(orders, below)
            if found is None:
                refuted += 1
                todo.pop()
                continue
            if not model.is_true(found, below):
                continue
            apart = _unordered(form, placement, found)
            if apart is None:
                below, best = value_of(model.cost, found), (placement, found)
                continue
            first, second = apart
            todo[-1:] = [(*orders, (second, first)), (*orders, (first, second))]
    if best is None or below is None:
        return SecondProof(None, None, placements, refuted)
    return SecondProof(Fraction(below, form.scale), _mapping(form, *best), placements, refuted)


def _trips(form: Form, factor: Factor, exponents: Exponents) -> int:
    return prod(prime ** exponents.get((factor, prime), 0) for prime, _ in primes_of(form.extents[factor[2]]))


def _above(form: Form, node: int, exponents: Exponents) -> tuple[int, ...]:
    """Return per dim the trips of the temporal loops above a node."""
    return tuple(_trips(form, ("above", node, dim), exponents) for dim in range(len(form.extents)))


def _unordered(form: Form, placement: Placement, exponents: Exponents) -> Order | None:
    """Return two nodes of which neither can stand above the other; None: all stand in one order."""
    trips = [_above(form, node, exponents) for node in range(len(placement))]
    for one, other in combinations(range(len(placement)), 2):
        pairs = list(zip(trips[one], trips[other], strict=True))
        if any(b % a for a, b in pairs) and any(a % b for a, b in pairs):
            return one, other
    return None


def _mapping(form: Form, placement: Placement, exponents: Exponents) -> Mapping:
    """Return the loop tree: nodes by the loops above them, outer levels first where these are equal."""
    dims = range(len(form.extents))
    trips = [_above(form, node, exponents) for node in range(len(placement))]
    order = sorted(range(len(placement)), key=lambda n: (prod(trips[n]), placement[n].level, placement[n].tensor))
    nodes: list[MappingNode] = []
    tiles = list(form.extents)
    done = [1 for _ in dims]
    waiting = list(range(len(form.arch.fanouts)))

    def temporal(until: tuple[int, ...]) -> None:
        for dim in dims:
            if until[dim] > done[dim]:
                tiles[dim] //= until[dim] // done[dim]
                nodes.append(Temporal(form.workload.dims[dim].name, tiles[dim]))
                done[dim] = until[dim]

    def spatial(level: int) -> None:
        while waiting and form.above[waiting[0]] < level:
            fanout = waiting.pop(0)
            for dim in dims:
                trips = _trips(form, ("spread", fanout, dim), exponents)
                if trips > 1:
                    tiles[dim] //= trips
                    nodes.append(Spatial(form.workload.dims[dim].name, tiles[dim], form.arch.fanouts[fanout].name))

    for number in order:
        node = placement[number]
        temporal(trips[number])
        spatial(node.level)
        nodes.append(Storage(form.levels[node.level].name, (form.workload.tensors[node.tensor].name,)))
    spatial(len(form.levels))
    temporal(tuple(done[dim] * tiles[dim] for dim in dims))
    return Mapping((*nodes, Compute(form.workload.statements[0].name)))
