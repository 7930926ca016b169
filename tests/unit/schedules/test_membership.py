"""Trees outside of the mapping space are told from those that have an equal in it; the space is written out."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

import polymap as pm
from polymap.ir import (
    Architecture,
    Branch,
    Compute,
    ComputeUnit,
    Fanout,
    Mapping,
    MappingError,
    MappingNode,
    MemoryLevel,
    Multicast,
    Spatial,
    Storage,
    Temporal,
    Workload,
)
from polymap.schedules import outside_the_space
from tests.referee.all_trees import all_trees
from tests.times import few

_WINDOW = pm.einsum("O[p] += I[p+2*r] * W[r]", p=8, r=2)
_LAYERS = (
    pm.einsum("O[p] += I[p+r] * W[r]", p=4, r=2),
    pm.einsum("O[p] += I[p+2*r] * W[r]", p=3, r=2),
    pm.einsum("C[m] += A[m,k] * B[k]", m=4, k=2),
    pm.einsum("C[m] += A[m]", m=5),
    pm.einsum("C[m] += A[m]", m=8),
)


def _machine(*between: Fanout | MemoryLevel) -> Architecture:
    return Architecture("small", (MemoryLevel("DRAM"), *between, ComputeUnit("MAC")))


_TWO = _machine(Fanout("X", 4, multicast=Multicast.UNION), Fanout("Y", 4, reduction=False), MemoryLevel("RF"))


def _tree(*nodes: MappingNode) -> Mapping:
    return Mapping((*nodes, Storage("RF", ("I",)), Temporal("r", 1), Compute("S")))


@pytest.mark.parametrize(
    ("tree", "why"),
    [
        (
            _tree(Temporal("p", 4), Temporal("r", 1), Spatial("p", 2, "X"), Temporal("p", 1)),
            "two temporal loops over p",
        ),
        (_tree(Spatial("p", 4, "X"), Spatial("p", 2, "Y"), Spatial("p", 1, "X")), "two loops over p stand on .* 'X'"),
        (_tree(Spatial("p", 4, "X"), Temporal("p", 2), Spatial("p", 1, "Y")), "spatial loops of one group"),
        (_tree(Spatial("p", 2, "X"), Temporal("p", 1)), ""),
        (_tree(Temporal("p", 4), Temporal("p", 2), Spatial("p", 1, "Y"), Spatial("p", 1, "X")), ""),
        (_tree(Spatial("p", 4, "Y"), Spatial("p", 2, "X"), Temporal("p", 1)), ""),
    ],
)
def test_what_no_tree_of_the_space_has_is_told(tree: Mapping, why: str) -> None:
    said = outside_the_space(_WINDOW, _TWO, tree)
    assert re.fullmatch(f"outside of the mapping space.*: {why}.*" if why else "", said)


def test_an_explanation_says_that_its_tree_is_outside() -> None:
    outside = _tree(Spatial("p", 4, "X"), Temporal("p", 2), Spatial("p", 1, "Y"))
    assert "outside of the mapping space" in pm.evaluate(_WINDOW, _TWO, outside).explain().replace("\n    ", " ")
    inside = _tree(Spatial("p", 4, "X"), Temporal("p", 1))
    assert "outside of the mapping space" not in pm.evaluate(_WINDOW, _TWO, inside).explain()


def test_loops_around_a_statement_that_lacks_their_dim_are_outside_and_may_cost_less() -> None:
    """T is made and used with half of D, then read for the other half: all that OPTIMAL speaks of costs more."""
    sizes = {"m": 4099, "k": 1, "n": 64, "p": 64}
    texts = ["T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"]
    program = pm.program(texts, sizes=sizes, temporary=["T"], bits=8)
    far = {"level": "DRAM", "word_bits": 8, "read_pj": 1, "write_pj": 1}
    near = {"level": "Buf", "word_bits": 8, "capacity_bits": 8 * (64 * 32 + 64 + 64 + 2)}
    arch = pm.io.arch_from_document({"name": "one buffer", "nodes": [far, near, {"compute": "PE"}]})
    first = (Temporal("k", 1), Temporal("n", 1), Compute("S0"))
    second = (Temporal("p", 1), Storage("Buf", ("E",)), Temporal("n", 1), Compute("S1"))
    row = (Temporal("m", 1), Storage("Buf", ("T", "A")), Branch((first, second)))
    halves = Mapping((Temporal("p", 32), Storage("Buf", ("D", "B")), *row))
    whole = Mapping((Temporal("p", 64), Storage("Buf", ("D", "B")), *row))
    said = outside_the_space(program, arch, halves)
    assert re.fullmatch("outside of the mapping space.*: a loop over p stands around S0, which lacks that dim", said)
    assert not outside_the_space(program, arch, whole)
    cost = pm.evaluate(program, arch, halves)
    assert cost.legal
    assert said in cost.explain().replace("\n    ", " ")
    found = pm.explore(program, arch, "energy", tiles="divide", work_limit=400, time_limit_s=300)
    assert (found.status, found.space.name) == ("OPTIMAL", "")
    assert found.best is not None
    assert found.value is not None
    assert found.value > cost.energy_pj
    assert not outside_the_space(found.workload, found.arch, found.best)


@pytest.mark.parametrize("seed", few(range(40), 2))
def test_a_tree_inside_counts_what_one_that_is_written_out_counts(seed: int) -> None:
    rng = random.Random(seed)
    workload, arch = rng.choice(_LAYERS), _random_machine(rng)
    trees = sorted(all_trees(workload, arch, "any", legal=True), key=repr)
    written = {_counts(workload, arch, tree) for tree in trees}
    assert not any(outside_the_space(workload, arch, tree) for tree in trees)
    for tree in _legal_by_hand(rng, workload, arch):
        if not outside_the_space(workload, arch, tree):
            assert _counts(workload, arch, tree) in written


def _counts(workload: Workload, arch: Architecture, tree: Mapping) -> object:
    cost = pm.evaluate(workload, arch, tree)
    return cost.traffic, cost.occupancy_bits, cost.compute_cycles, cost.latency_cycles


def _random_machine(rng: random.Random) -> Architecture:
    first, second = (
        Fanout(name, rng.choice((2, 3)), multicast=rng.choice(list(Multicast)), reduction=rng.random() < 0.5)
        for name in "XY"
    )
    between = ((first, second, MemoryLevel("RF")), (first, MemoryLevel("RF"), second), (first, second))
    return _machine(*rng.choice(between))


def _legal_by_hand(rng: random.Random, workload: Workload, arch: Architecture) -> Iterator[Mapping]:
    """Yield random trees with loops and nodes anywhere that the machine's fan-outs can run."""
    for _ in range(60):
        tree = _by_hand(rng, workload, arch)
        try:
            broken = pm.violations(workload, arch, tree)
        except MappingError:
            continue
        if not broken:
            yield tree


def _by_hand(rng: random.Random, workload: Workload, arch: Architecture) -> Mapping:
    nodes: list[MappingNode] = []
    left = workload.extents()
    while any(extent > 1 for extent in left.values()):
        dim = rng.choice([name for name, extent in left.items() if extent > 1])
        left[dim] = rng.randrange(1, left[dim])
        fanout = rng.choice([fanout.name for fanout in arch.fanouts])
        nodes.append(Temporal(dim, left[dim]) if rng.random() < 0.5 else Spatial(dim, left[dim], fanout))
    for level in arch.levels[1:]:
        for tensor in workload.tensors:
            if rng.random() < 0.6:
                nodes.insert(rng.randint(0, len(nodes)), Storage(level.name, (tensor.name,)))
    return Mapping((*nodes, Compute("S")))
