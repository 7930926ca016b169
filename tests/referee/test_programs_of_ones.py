"""Programs of extents 1, on fan-outs too: what is proven equals pen and paper. Every tensor is one word. It stands, in
each level, around all statements, around some of its users one by one, or nowhere; what adds onto zero only writes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import chain, combinations, pairwise, permutations, product

import pytest

import polymap as pm
from polymap.ir import Architecture, Statement, Tensor, Workload
from tests.times import few

TEXTS = (
    ("T[m,n] += A[m,k] * B[k,n]", "E[m,n] = max(T[m,n], 0)"),
    ("T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"),
    ("T[m] += A[m,k]", "U[m] = max(T[m], 0)", "E[m] = T[m] + U[m]"),
    ("T[m] = max(A[m], 0)", "U[m] = A[m] * 2", "E[m] = T[m] * U[m]"),
    ("T[m,n] += A[m,k] * B[k,n]", "U[m,n] = T[m,n] * 2", "V[m,n] = max(U[m,n], 0)", "E[m,n] = V[m,n] + T[m,n]"),
)
Where = tuple[frozenset[int], ...]  # per inner level: the users around which it stands alone; ALL: around all of them
ALL = frozenset({-1})
Words = tuple[tuple[int, ...], ...]  # per inner level: by the statement


def machine(rng: random.Random) -> Architecture:
    prices = {"read_pj": rng.choice((100, 123_456_789)), "write_pj": rng.choice((100, 7))}
    inner = [
        {"level": name, "word_bits": 8, "capacity_bits": 8 * rng.choice(words), "read_pj": read, "write_pj": write}
        for name, words, read, write in (
            ("GLB", (2, 3, 4), rng.choice((6, 13)), rng.choice((0, 5))),
            ("RF", (1, 2, 3), 1, rng.choice((0, 2))),
        )
    ]
    inner = inner if rng.random() < 0.5 else [rng.choice(inner)]
    at = rng.randint(0, len(inner) + 1)
    fanout = [{"fanout": "X", "size": rng.choice((2, 3))}] if at <= len(inner) else []
    levels = [*inner[:at], *fanout, *inner[at:]]
    nodes = [{"level": "DRAM", "word_bits": 8, **prices}, *levels, {"compute": "PE", "pj": rng.choice((1, 8))}]
    return pm.io.arch_from_document({"name": "small", "nodes": nodes})


def energy_of(arch: Architecture, tensor: Tensor, own: list[int], where: Where, *, is_made: bool) -> Fraction:
    """Return what a tensor costs, step by step. own: the statements that touch it, the one that makes it first."""
    total, has = Fraction(0), {0: not is_made}  # the levels that hold its value
    dirty = set[int]()
    all_around = [0, *(number for number, users in enumerate(where, 1) if users == ALL)]

    def move(source: int, target: int) -> None:
        nonlocal total
        total += arch.levels[source].access_pj(8, 0) + arch.levels[target].access_pj(0, 8)

    def leave(levels: list[int], *, is_needed: bool) -> None:
        for outer, inner in reversed([*pairwise(levels)]):
            if inner in dirty and is_needed:
                move(inner, outer)
                has[outer] = True
                dirty.add(outer)
            dirty.discard(inner)
            has[inner] = False

    for at in own:
        way = [*all_around, *(number for number, users in enumerate(where, 1) if at in users)]
        if is_made and at == own[0]:
            total += arch.levels[way[-1]].access_pj(0, 8)
            has[way[-1]] = True
            dirty.add(way[-1])
        else:
            found = max(place for place, level in enumerate(way) if has.get(level))
            for outer, inner in pairwise(way[found:]):
                move(outer, inner)
                has[inner] = True
            total += arch.levels[way[-1]].access_pj(8, 0)
        leave(way[len(all_around) - 1 :], is_needed=at != own[-1] or not tensor.temporary)
    leave(all_around, is_needed=not tensor.temporary)
    return total


def options_of(arch: Architecture, tensor: Tensor, order: tuple[Statement, ...]) -> list[tuple[Fraction, Words]]:
    """Return what a tensor may cost and takes, without those that take no less and cost no less than another."""
    own = [at for at, one in enumerate(order) if tensor.name in (one.target.tensor, *(r.tensor for r in one.reads))]
    alone = [frozenset(c) for c in chain.from_iterable(combinations(own, many) for many in range(len(own) + 1))]
    found, many = list[tuple[Fraction, Words]](), len(order)
    for where in product([*alone, ALL], repeat=len(arch.levels) - 1):
        if any(outer and outer != ALL and inner == ALL for outer, inner in combinations(where, 2)):
            continue  # an inner level stands no further out
        cost = energy_of(arch, tensor, own, where, is_made=order[own[0]].target.tensor == tensor.name)
        words = tuple(
            tuple(int(own[0] <= at <= own[-1] if users == ALL else at in users) for at in range(many))
            for users in where
        )
        found.append((cost, words))
    kept = list[tuple[Fraction, Words]]()
    for cost, words in sorted(found):
        flat = [*chain.from_iterable(words)]
        if not any(all(a <= b for a, b in zip(chain.from_iterable(w), flat, strict=True)) for _, w in kept):
            kept.append((cost, words))
    return kept


def energies(work: Workload, arch: Architecture) -> Iterator[Fraction]:
    """Yield the energy in pJ of all orders and placements with room that may be the least."""
    rooms = [(level.capacity_bits or 0) // 8 for level in arch.levels[1:]]
    for order in permutations(work.statements):
        made = dict[str, int]((each.target.tensor, at) for at, each in enumerate(order))
        if any(made.get(read.tensor, -1) > at for at, each in enumerate(order) for read in each.reads):
            continue
        options = [options_of(arch, each, order) for each in work.tensors]
        for chosen in product(*options):
            taken = [
                [sum(column) for column in zip(*levels, strict=True)]
                for levels in zip(*(w for _, w in chosen), strict=True)
            ]
            if all(max(own) <= room for own, room in zip(taken, rooms, strict=True)):
                yield sum((cost for cost, _ in chosen), len(order) * arch.compute.pj)


def least_energy(work: Workload, arch: Architecture) -> Fraction:
    return min(energies(work, arch))


def words_of(seed: int) -> tuple[Workload, Architecture, str]:
    rng = random.Random(f"ones {seed}")
    texts = TEXTS[seed % len(TEXTS)]
    names = [text.partition("[")[0] for text in texts[:-1]]
    sizes = {name: 1 for name in "mnkp" if any(name in text.replace("max", "") for text in texts)}
    temporary = [name for name in names if rng.random() < 0.6]
    return pm.program(texts, sizes=sizes, temporary=temporary, bits=8), machine(rng), rng.choice(("energy", "edp"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", few(range(100), 10))
def test_the_least_of_all_trees_is_proven(seed: int) -> None:
    (work, arch, objective), tiles = words_of(seed), ("any", "divide")[seed // len(TEXTS) % 2]
    found = pm.explore(work, arch, objective, tiles=tiles, time_limit_s=300)
    assert found.status == "OPTIMAL"
    assert found.cost.latency_cycles == len(work.statements)
    assert found.cost.energy_pj_exact == least_energy(work, arch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", few((2, 3, 8), 1))
def test_what_is_proven_among_some_trees_is_so_on_machines_timed_in_steps(seed: int) -> None:
    work, arch, _ = words_of(seed)
    found = pm.explore(work, replace(arch, start_cycles=Fraction(3)), tiles="divide", time_limit_s=300)
    assert (found.status, found.space.name) == ("OPTIMAL", "rewritten program trees")
    assert found.cost.energy_pj_exact == least_energy(work, arch)
