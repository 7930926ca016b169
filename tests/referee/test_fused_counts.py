"""Fused trees in closed form equal the walk over their steps; the two share no code."""

from __future__ import annotations

import random
import re

import pytest

from polymap.arch import arch_from_document
from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.simulator import count_by_simulation
from polymap.ir.errors import MappingError
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Mapping
from polymap.schedules.check import check_mapping
from polymap.workload.einsum_programs import program
from tests.programs import random_tree, with_room

CHAINS = (
    ("T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"),
    ("T[m,n] += A[m,k] * B[k,n]", "E[n,m] = max(T[m,n], 0)", "F[m] += E[n,m] * T[m,n]"),
    ("T[c,p] += I[p+r] * W[c,r]", "E[c,p] = max(T[c,p], 0)", "F[d,p] += E[c,p] * V[c,d]"),
    ("T[m,n] += A[m,k] * B[k,n]", "E[m] += T[m,n] * x[n]", "F[n] max= T[m,n]"),
    ("T[m,n] += A[m,k] * B[k,n]", "U[m,p] += A[m,k] * D[k,p]", "E[m] += T[m,n] * U[m,p]"),
    ("S[b,m,n] += Q[b,m,c] * K[b,n,c]", "M[b,m] max= S[b,m,n]", "E[b,m] += S[b,m,n] * M[b,m]"),
    ("T[m] += A[m,k]", "E[n] += B[n,k]", "F[m,n] = T[m] * E[n]"),
)


def fused_case(rng: random.Random) -> tuple[Workload, Architecture, Mapping]:
    """Return a chain in a random tree, at most one node of each level on a way, with room for its spatial loops."""
    texts = rng.choice(CHAINS)
    names = sorted(set(re.findall(r"[a-z]", re.sub("max", "", " ".join(texts)))) - {"x"})
    read = [text[0] for text in texts if sum(f"{text[0]}[" in each.split("=", 1)[1] for each in texts)]
    work = program(
        list(texts),
        sizes={name: rng.choice((1, 2, 3, 4, 5)) for name in names},
        temporary=[name for name in read if rng.random() < 0.6],
        initial=[texts[-1][0]] if "+=" in texts[-1] and rng.random() < 0.3 else [],
        bits=rng.choice((8, 4)),
    )
    multicast, adds = rng.choice(("identical", "union", "none")), rng.random() < 0.5
    wire = {"pj_per_word": 1, "hops": "unicast"} if rng.random() < 0.3 else {}
    nodes = [
        {"level": "DRAM"},
        {"level": "G"},
        *([{"level": "H"}] if rng.random() < 0.5 else []),
        *([{"fanout": "X", "size": 1, "multicast": multicast, "reduction": adds}] if rng.random() < 0.7 else []),
        *([{"fanout": "Y", "size": 1, **wire}] if rng.random() < 0.4 else []),
        {"level": "R", **({"bandwidth_bits_per_cycle": 8} if rng.random() < 0.3 else {})},
        {"compute": "PE"},
    ]
    arch = arch_from_document({"name": "random", "nodes": nodes})
    while True:
        mapping = random_tree(rng, work, arch)
        try:
            check_mapping(work, arch, mapping)
        except MappingError:
            continue
        return work, with_room(arch, work, mapping), mapping


def compared(seeds: range) -> tuple[int, int]:
    """Return how many trees the closed form counts, and how many of them it counts wrongly."""
    counted = wrong = 0
    for seed in seeds:
        case = fused_case(random.Random(f"fused {seed}"))
        found = count_closed_form(*case)
        counted += found is not None
        wrong += found is not None and found != count_by_simulation(*case)
    return counted, wrong


def test_fused_trees_are_counted_as_they_run() -> None:
    counted, wrong = compared(range(400))
    assert wrong == 0
    assert counted > 100


@pytest.mark.soak
def test_thousands_of_fused_trees_are_counted_as_they_run() -> None:
    assert compared(range(1_000, 21_000))[1] == 0
