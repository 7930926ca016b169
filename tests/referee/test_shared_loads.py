"""Two statements that read one tensor cost no less than the floor says, over trees that share its loads: random ones of
all trees of each statement below every loop and node that may stand around both."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import product

import pytest

from polymap import evaluate, program
from polymap.explore import provers
from polymap.inputs import arch_from_document
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Storage, Temporal
from polymap.ir.parts import nest_of
from polymap.resources import never
from polymap.search import legs, refunds
from polymap.search.options import Options
from polymap.search.provers import read_question
from tests.referee.all_trees import all_trees
from tests.times import few

Nodes = tuple[MappingNode, ...]
TEXTS = (
    ("E[m] += X[m,n] * A[n]", "F[m] += X[m,n] * B[n]", "G[m] = E[m] * F[m]"),
    ("E[m] += X[m,n] * A[n]", "F[n] += X[m,n] * B[m]", "G[m] = E[m] * E[m]"),
    ("E[m,n] = X[m] * A[n]", "F[m,n] = X[m] * B[n]", "G[m,n] = E[m,n] * F[m,n]"),
)


def question(rng: random.Random) -> tuple[Workload, Architecture]:
    work = program(list(rng.choice(TEXTS)), m=2, n=rng.choice((2, 4)), bits=8)
    nodes = [
        {"level": "DRAM", "word_bits": 8, "read_pj": rng.choice((5, 20)), "write_pj": rng.choice((0, 9))},
        {"level": "G", "word_bits": 8, "capacity_bits": 8 * rng.randint(3, 9), "read_pj": rng.randint(1, 4)},
        *([{"fanout": "U", "size": 2, "reduction": rng.random() < 0.5}] if rng.random() < 0.4 else []),
        {"compute": "PE", "pj": 1},
    ]
    return work, arch_from_document({"name": "small", "nodes": nodes})


def around(work: Workload) -> Iterator[tuple[Nodes, tuple[tuple[str, int], ...]]]:
    """Yield loops and a node of X above the two first statements, and the extents that they leave."""
    whole = work.extents()
    for order in (("m", "n"), ("n", "m")):
        for tiles in product(*([tile for tile in (1, 2, 4) if tile <= whole[dim]] for dim in order)):
            loops = [Temporal(dim, tile) for dim, tile in zip(order, tiles, strict=True) if tile < whole[dim]]
            for place in (None, *range(len(loops) + 1)):
                held = () if place is None else (Storage("G", ("X",)),)
                at = place or 0
                yield (*loops[:at], *held, *loops[at:]), tuple(zip(order, tiles, strict=True))


def least_of_shared(rng: random.Random, work: Workload, arch: Architecture) -> float:
    """Return the least energy of these trees, of each statement the best of some parts below what stands around both:
    what one costs does not depend on the other."""
    *statements, last = work.statements
    least = float("inf")
    for above, extents in dict(around(work)).items():
        holds = any(isinstance(node, Storage) for node in above)
        parts = [parts_of(nest_of(work, each, dict(extents), is_initial=False), arch, holds) for each in statements]
        parts = [
            [(*nodes[:-1], Compute(each.name)) for nodes in rng.sample(part, min(len(part), 60))]
            for each, part in zip(statements, parts, strict=True)
        ]
        best = [min(part, key=len) for part in parts]
        for place, part in enumerate(parts):
            trees = ([nodes if place == at else one for at, one in enumerate(best)] for nodes in part)
            best = min(trees, key=lambda own: energy(work, arch, above, own, last.name))
        least = min(least, energy(work, arch, above, best, last.name))
    return least


@cache
def parts_of(nest: Workload, arch: Architecture, holds: bool) -> list[Nodes]:
    """Return the trees of a statement, without nodes of X where one stands around it."""
    found = dict[Nodes, None]()
    for tree in sorted(all_trees(nest, arch, "divide", legal=True), key=str):
        nodes = tuple(one for one in tree.nodes if not (isinstance(one, Storage) and one.level == "DRAM"))
        if not (holds and any(isinstance(one, Storage) and "X" in one.tensors for one in nodes)):
            found[nodes] = None
    return list(found)


def energy(work: Workload, arch: Architecture, above: Nodes, parts: list[Nodes], last: str) -> float:
    """Return what a tree costs with its last statement as written; infinity where it is not legal."""
    loops = tuple(Temporal(dim, 1) for dim in work.statement(last).dims)
    both = (*above, Branch(tuple(parts)))
    cost = evaluate(work, arch, Mapping((Branch((both, (*loops, Compute(last)))),)))
    return cost.energy_pj if cost.legal else float("inf")


def floor_of(work: Workload, arch: Architecture, patch: pytest.MonkeyPatch, objective: str = "energy") -> float:
    for module in (refunds, legs):
        patch.setattr(module, "dividing_legs", lambda *_: True)
    asked, known = read_question(work, arch, Options(objective, "divide", time_limit_s=60), provers)
    return float(refunds.bound_by_refunds(asked, known, never).floors[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(40), 1))
def test_no_tree_that_shares_loads_is_below_the_floor(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(f"shared {seed}")
    work, arch = question(rng)
    assert floor_of(work, arch, monkeypatch) <= least_of_shared(rng, work, arch) * (1 + 1e-12)


@pytest.mark.slow
def test_loads_that_are_charged_to_each_statement_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random("shared 3")
    work, arch = question(rng)
    least = least_of_shared(rng, work, arch)
    assert floor_of(work, arch, monkeypatch) == least
    monkeypatch.setattr(legs, "_with_free_loads", lambda component, _places: component)
    assert floor_of(work, arch, monkeypatch) > least


def test_loads_are_shared_below_a_level_that_must_hold_the_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    work = program(list(TEXTS[0]), m=2, n=2, bits=8)
    level = {"word_bits": 8, "must_hold": ["X"], "read_pj": 1}
    nodes = [
        {"level": "DRAM", "word_bits": 8, "read_pj": 5},
        {"level": "L", "capacity_bits": 96, **level},
        {"level": "G", "capacity_bits": 48, **level},
        {"compute": "PE", "pj": 1},
    ]
    arch = arch_from_document({"name": "small", "nodes": nodes})
    above = (Temporal("n", 1), Temporal("m", 1), Storage("L", ("X",)), Storage("G", ("X",)))
    first, second = (Storage("G", ("E",)), Compute("S0")), (Compute("S1"),)
    mapping = Mapping((Branch(((*above, Branch((first, second))), (Temporal("m", 1), Compute("S2")))),))
    cost = evaluate(work, arch, mapping)
    moved = sum(8 * (each.reads + each.writes) for each in cost.traffic if each.level == "L")
    assert cost.legal, "both levels have room"
    assert moved == 64, "X comes to L and leaves it once"
    assert floor_of(work, arch, monkeypatch, "traffic:L") <= moved
