"""What no loop tree moves less than, with one buffer of any size: held to the walk over all trees of random small
problems."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from fractions import Fraction
from math import inf

import pytest

from polymap.costmodel.referees.trees import exhaustive
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, MemoryLevel
from polymap.resources import SearchCaches, Work
from polymap.search.problem import analyse, measure_of, parse_objective
from polymap.search.single_level import bounds, solve_cells
from polymap.search.single_level.branching import OpenParts, SizeSearch, cell_bounds
from polymap.search.single_level.question import Question, read_question
from polymap.search.single_level.window_tables import WindowTables
from polymap.workload.einsums import einsum
from tests.times import few

FAMILIES: tuple[tuple[str, dict[str, int]], ...] = (
    ("C[m,n] += A[m,k] * B[k,n]", {"m": 7, "n": 7, "k": 7}),
    ("C[m,n] += A[m,k] * B[k,n]", {"m": 11, "n": 5, "k": 3}),
    ("y[m] += A[m,k] * x[k]", {"m": 13, "k": 13}),
    ("s[] += A[k] * B[k]", {"k": 24}),
    ("O[d] += X[d] * Z[l]", {"d": 11, "l": 11}),
    ("C[m,n] += A[m] * B[n]", {"m": 13, "n": 13}),
    ("C[b,m] += A[b,m,k] * B[b,k]", {"b": 4, "m": 6, "k": 6}),
    ("C[h,m,n] += A[h,m,k] * B[h,k,n]", {"h": 2, "m": 4, "k": 4, "n": 3}),
    ("y[m] += A[m,k]", {"m": 9, "k": 9}),
    ("O[k,p] += I[p+r] * W[k,r]", {"k": 6, "p": 8, "r": 3}),
    ("O[p] += I[c,p+r] * W[c,r]", {"c": 5, "p": 8, "r": 3}),
    ("O[k,p] += I[c,p+r] * W[k,c,r]", {"k": 3, "c": 3, "p": 5, "r": 3}),
    ("O[k,p] += I[2*p+r] * W[k,r]", {"k": 5, "p": 7, "r": 3}),
    ("O[k,p] += I[c,2*p+r] * W[k,c,r]", {"k": 3, "c": 3, "p": 4, "r": 3}),
    ("O[p] += I[p+2*r] * W[r]", {"p": 11, "r": 4}),
    ("O[p] += I[p-r+2] * W[r]", {"p": 11, "r": 3}),
    ("O[p,q] += I[p+r,q+s] * W[r,s]", {"p": 4, "q": 3, "r": 2, "s": 2}),
    ("O[g,p] += I[g,p+r] * W[g,r]", {"g": 3, "p": 6, "r": 3}),
)


WINDOWS = (
    ("O[p,q] += I[p+r,q+s] * W[r,s]", {"p": 5, "q": 4, "r": 3, "s": 2}),
    ("O[k,p,q] += I[p+r,q+s] * W[k,r,s]", {"k": 3, "p": 3, "q": 3, "r": 2, "s": 2}),
    ("O[p,q] += I[c,p+r,q+s] * W[c,r,s]", {"c": 3, "p": 3, "q": 3, "r": 2, "s": 2}),
    ("O[p,q] += I[2*p+r,2*q+s] * W[r,s]", {"p": 4, "q": 3, "r": 3, "s": 2}),
    ("O[p,q] += I[2*p+r,q+2*s] * W[r,s]", {"p": 4, "q": 3, "r": 3, "s": 2}),
    ("O[k,p] += I[c,p+r] * W[k,c,r]", {"k": 4, "c": 3, "p": 5, "r": 3}),
)


def two_levels(capacity_bits: int, may: tuple[str, ...] | None, must: tuple[str, ...]) -> Architecture:
    buffer = MemoryLevel("Buf", capacity_bits, holds=may, must_hold=must)
    return Architecture("two", (MemoryLevel("DRAM"), buffer, ComputeUnit("MAC")))


def drawn(
    rng: random.Random, families: tuple[tuple[str, dict[str, int]], ...]
) -> tuple[Workload, tuple[str, ...] | None, tuple[str, ...]]:
    """Return a problem of few enough trees, and what the buffer may and must hold."""
    text, most = rng.choice(families)
    sizes = {dim: rng.randint(2, n) for dim, n in most.items()}
    names = [part.split("[")[0].strip() for part in text.replace("+=", "*").split("*")]
    names = [name for name in names if name.isalpha()]
    bits = {name: rng.choice((1, 1, 2, 3)) for name in names}
    initial = (names[0],) if rng.random() < 0.2 else ()
    must = tuple(name for name in names if rng.random() < 0.1)
    return einsum(text, bits=bits, sizes=sizes, initial=initial), None, must


def least_bits(question: Question, rooms: Sequence[int], known: Sequence[int | None]) -> list[int | None]:
    """Return the bound per size of the buffer; with windows that of cells, split until no split raises it."""
    if not any(one.windows for one in question.operands):
        return bounds.least_bits(question, rooms, known)
    cells, found = cell_bounds(question, WindowTables(SearchCaches())), list[int | None]()
    for room, bits in zip(rooms, known, strict=True):
        search = SizeSearch(cells, room, question.most_bits if bits is None else bits)
        while search.open and min(map(OpenParts.least, search.open)) < _least_unsplit(search):
            search.go_on(1)
        found.append(search.least_bits())
    return found


def _least_unsplit(search: SizeSearch) -> float:
    return min((float(least.min()) for _, _, least in search.leaves), default=inf)


def check(
    seed: int, count: int, most_trees: int, families: tuple[tuple[str, dict[str, int]], ...] = FAMILIES
) -> tuple[int, int]:
    """Return at how many sizes of the buffer the bound was compared, and met by a tree."""
    rng = random.Random(f"buffer bounds {seed}")
    compared = met = 0
    while compared < count:
        workload, may, must = drawn(rng, families)
        question = read_question(analyse(workload, two_levels(1, may, must)))
        assert question is not None
        rooms = sorted({rng.randint(1, 6), rng.randint(2, 20), rng.randint(5, 60)})
        found = least_bits(question, rooms, [None] * len(rooms))
        for room, bound in zip(rooms, found, strict=True):
            truth = exhaustive(workload, two_levels(room, may, must), "traffic:DRAM", "any", most_trees=most_trees)
            if truth is None:
                break
            assert (truth.value is None) == (bound is None), (workload, room, must)
            if truth.value is None or bound is None:
                continue
            compared += 1
            assert bound <= truth.value, (workload, room, must, bound, truth.value, truth.best)
            met += bound == truth.value
    return compared, met


@pytest.mark.parametrize(("seed", "most_trees"), few([(0, 8_000), (1, 8_000), (0, 60_000)], 1))
def test_no_tree_moves_less_than_the_bound(seed: int, most_trees: int) -> None:
    compared, met = check(seed, 8, most_trees)
    assert met > compared / 3, "a bound that says little cannot be wrong"


def test_no_tree_moves_less_than_the_bound_of_two_windows() -> None:
    compared, met = check(300, 3, 30_000, WINDOWS)
    assert met > compared / 3, "a bound that says little cannot be wrong"


def priced(rng: random.Random, room: int) -> Architecture:
    """Return the machine with energies of its own for reads and writes."""
    energies = [Fraction(rng.choice((0, 1, 1, 3, 10, 100, 137))) for _ in range(4)]
    dram = MemoryLevel("DRAM", word_bits=1, read_pj=energies[0], write_pj=energies[1])
    buffer = MemoryLevel("Buf", room, word_bits=1, read_pj=energies[2], write_pj=energies[3])
    return Architecture("two", (dram, buffer, ComputeUnit("MAC", pj=Fraction(rng.choice((0, 2))))))


def check_energies(seed: int, count: int, most_trees: int) -> tuple[int, int]:
    """Return how many bounds of energy were compared, and how many a tree meets."""
    rng = random.Random(f"energies {seed}")
    compared = met = 0
    while compared < count:
        workload, _, _ = drawn(rng, (*FAMILIES, *WINDOWS))
        arch, goal = priced(rng, rng.randint(3, 60)), "energy"
        problem, objective = analyse(workload, arch), parse_objective(goal, arch)
        measure = measure_of(objective, workload, arch)
        truth = exhaustive(workload, arch, goal, "any", most_trees=most_trees)
        if truth is None or truth.value is None or truth.best is None:
            continue
        bound = bounds.bound_at_once(problem, measure)
        if bound is None:
            known = truth.best, truth.value * rng.choice((1, 2)) + rng.randint(0, 1)
            found = solve_cells(problem, objective, measure, known, lambda: False, Work())
            if found is None:
                continue
            assert truth.value <= found[0][1] <= known[1], (workload, arch)
            bound = found[1]
        compared += 1
        assert bound <= truth.value, (workload, arch, bound, truth.value, truth.best)
        met += bound == truth.value
    return compared, met


@pytest.mark.parametrize("seed", few(range(6), 1))
def test_no_tree_costs_less_than_the_bound_of_its_energy(seed: int) -> None:
    compared, met = check_energies(seed, 8, 8_000)
    assert met > compared / 3, "a bound that says little cannot be wrong"


if __name__ == "__main__":
    windowed = (*(each for each in FAMILIES if "+r" in each[0] or "2*r" in each[0] or "-r" in each[0]), *WINDOWS)
    print("(layer, size) pairs compared, and met:", *check(int(sys.argv[1]), int(sys.argv[2]), 60_000, windowed))
