"""Programs of extents 1, on fan-outs too: what is proven equals pen and paper. Every tensor is one word; it stands in a
buffer around all statements, around some of its users one by one, or nowhere; what adds onto zero only writes."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations, permutations, product

import pytest

import polymap as pm
from polymap.ir import Architecture, Workload
from tests.times import few

TEXTS = (
    ("T[m,n] += A[m,k] * B[k,n]", "E[m,n] = max(T[m,n], 0)"),
    ("T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"),
    ("T[m] += A[m,k]", "U[m] = max(T[m], 0)", "E[m] = T[m] + U[m]"),
    ("T[m] = max(A[m], 0)", "U[m] = A[m] * 2", "E[m] = T[m] * U[m]"),
    ("T[m,n] += A[m,k] * B[k,n]", "U[m,n] = T[m,n] * 2", "V[m,n] = max(U[m,n], 0)", "E[m,n] = V[m,n] + T[m,n]"),
)


def machine(rng: random.Random) -> Architecture:
    prices = {"read_pj": rng.choice((100, 123_456_789)), "write_pj": rng.choice((100, 7))}
    inner = {"level": "Buf", "word_bits": 8, "capacity_bits": 8 * rng.choice((1, 2, 3, 4))}
    inner |= {"read_pj": rng.choice((1, 13)), "write_pj": rng.choice((0, 5))}
    fanout = {"fanout": "X", "size": rng.choice((2, 3))}
    levels = rng.choice(([inner], [fanout, inner], [inner, fanout]))
    nodes = [{"level": "DRAM", "word_bits": 8, **prices}, *levels, {"compute": "PE", "pj": rng.choice((1, 8))}]
    return pm.io.arch_from_document({"name": "small", "nodes": nodes})


def least_energy(work: Workload, arch: Architecture) -> Fraction:
    """Return the least energy in pJ over all orders and placements with room."""
    outer, inner = arch.levels
    read, write = (outer.access_pj(8, 0), outer.access_pj(0, 8))
    near_read, near_write = (inner.access_pj(8, 0), inner.access_pj(0, 8))
    room, found = (inner.capacity_bits or 0) // 8, list[Fraction]()
    for order in permutations(work.statements):
        makers = {each.target.tensor: at for at, each in enumerate(order)}
        users = {
            t.name: [at for at, s in enumerate(order) if t.name in (s.target.tensor, *(r.tensor for r in s.reads))]
            for t in work.tensors
        }
        if any(name in makers and makers[name] > own[0] for name, own in users.items()):
            continue
        options = list[list[tuple[Fraction, tuple[int, ...]]]]()  # per tensor: the cost, words per statement
        for tensor in work.tensors:
            own, is_made = users[tensor.name], tensor.name in makers
            readers, is_kept = len(own) - is_made, not tensor.temporary
            alone = chain.from_iterable(combinations(own, many) for many in range(len(own) + 1))
            ways = list[tuple[Fraction, tuple[int, ...]]]()
            for held in alone:  # one by one: what is made is drained, if anything needs it; what is read is loaded
                cost = Fraction(0)
                for at in own:
                    is_maker = is_made and at == own[0]
                    is_needed = is_kept or readers > 0
                    there = (
                        (near_write + is_needed * (near_read + write)) if is_maker else read + near_write + near_read
                    )
                    cost += there if at in held else write if is_maker else read
                ways.append((cost, tuple(int(at in held) for at in range(len(order)))))
            cost = readers * near_read + near_write + (is_kept * (near_read + write) if is_made else read)
            ways.append((cost, tuple(int(own[0] <= at <= own[-1]) for at in range(len(order)))))
            options.append(ways)
        for chosen in product(*options):
            if all(sum(words) <= room for words in zip(*(words for _, words in chosen), strict=True)):
                found.append(sum((cost for cost, _ in chosen), Fraction(0)))
    return min(found) + len(work.statements) * arch.compute.pj


def words_of(seed: int) -> tuple[Workload, Architecture, str]:
    rng = random.Random(f"ones {seed}")
    texts = TEXTS[seed % len(TEXTS)]
    names = [text.partition("[")[0] for text in texts[:-1]]
    sizes = {name: 1 for name in "mnkp" if any(name in text.replace("max", "") for text in texts)}
    temporary = [name for name in names if rng.random() < 0.6]
    return pm.program(texts, sizes=sizes, temporary=temporary, bits=8), machine(rng), rng.choice(("energy", "edp"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(100), 5))
@pytest.mark.parametrize("tiles", ["any", "divide"])
def test_the_least_of_all_trees_is_proven(seed: int, tiles: str) -> None:
    work, arch, objective = words_of(seed)
    found, least = pm.explore(work, arch, objective, tiles=tiles, time_limit_s=300), least_energy(work, arch)
    assert found.status == "OPTIMAL"
    assert found.cost.latency_cycles == len(work.statements)
    assert found.cost.energy_pj_exact == least


@pytest.mark.slow
@pytest.mark.parametrize("seed", few((3, 13, 38), 1))
def test_what_is_proven_among_some_trees_is_so_on_machines_timed_in_steps(seed: int) -> None:
    work, arch, _ = words_of(seed)
    found = pm.explore(work, replace(arch, start_cycles=Fraction(3)), tiles="divide", time_limit_s=300)
    assert (found.status, found.space.name) == ("OPTIMAL", "rewritten program trees")
    assert found.cost.energy_pj_exact == least_energy(work, arch)
