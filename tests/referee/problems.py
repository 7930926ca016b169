"""Random small questions for the search, sized so that every tree of the space can be walked.

Run as a program it prints how the problems of the tests are distributed:
    python -m tests.referee.problems [COUNT] [SEED]
"""

from __future__ import annotations

import random
import re
import sys
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice, pairwise
from math import prod
from statistics import median

from polymap.costmodel.referees.counts import Nest
from polymap.costmodel.referees.places import Arrangements
from polymap.costmodel.referees.words import Words
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast, Node
from polymap.workload.einsums import einsum

LARGE = 10_000  # trees; at least half of the problems have more
_MOST_WORDS = 500  # sequences of loops; what the time of an enumeration grows with
_MOST_WALKED = 1_500_000  # statement instances in all sequences of loops together
_MOST_PLACES = 1_000_000  # ways to place all nodes in one sequence of loops; what the memory grows with


@dataclass(frozen=True, slots=True)
class Problem:
    """A question for the search. legal: number of legal canonical trees. features: what it exercises, for tallies."""

    workload: Workload
    arch: Architecture
    objective: str
    tiles: str
    legal: int
    features: frozenset[str]


# family, einsum, the dims' largest extents (8 for any tiles, where spaces grow much faster)
_FAMILIES: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("gemm", "C[m,n] += A[m,k] * B[k,n]", {"m": 8, "n": 8, "k": 8}),
    ("gemm", "C[m,n] += A[m,k] * B[k,n]", {"m": 12, "n": 4, "k": 6}),
    ("matvec", "y[m] += A[m,k] * x[k]", {"m": 13, "k": 16}),
    ("dot", "s[] += A[k] * B[k]", {"k": 36}),
    ("maximum", "y[m] max= A[m,k]", {"m": 12, "k": 16}),
    ("batched", "C[b,m] += A[b,m,k] * B[b,k]", {"b": 4, "m": 6, "k": 6}),
    ("batched", "C[h,m,n] += A[h,m,k] * B[h,k,n]", {"h": 2, "m": 4, "k": 4, "n": 2}),
    ("outer", "C[m,n] += A[m] * B[n]", {"m": 12, "n": 12}),
    ("window", "O[k,p] += I[p+r] * W[k,r]", {"k": 6, "p": 8, "r": 3}),
    ("window", "O[p] += I[c,p+r] * W[c,r]", {"c": 4, "p": 8, "r": 3}),
    ("window", "O[k,p] += I[c,p+r] * W[k,c,r]", {"k": 3, "c": 2, "p": 6, "r": 3}),
    ("two windows", "O[p,q] += I[p+r,q+s] * W[r,s]", {"p": 4, "q": 3, "r": 3, "s": 2}),
    ("strided", "O[k,p] += I[2*p+r] * W[k,r]", {"k": 4, "p": 6, "r": 3}),
    ("dilated", "O[p] += I[p+2*r] * W[r]", {"p": 12, "r": 4}),
    ("strided, dilated", "O[k,p] += I[2*p+3*r] * W[k,r]", {"k": 4, "p": 6, "r": 3}),
    ("strided", "O[p,q] += I[3*p+2*q]", {"p": 5, "q": 4}),
    ("depthwise", "O[g,p] += I[g,p+r] * W[g,r]", {"g": 4, "p": 6, "r": 3}),
    ("grouped", "O[g,k,p] += I[g,c,p+r] * W[g,k,c,r]", {"g": 2, "k": 2, "c": 2, "p": 4, "r": 2}),
    ("reversed", "O[p] += I[p-r+2] * W[r]", {"p": 13, "r": 3}),
    ("three", "D[m,n] += A[m,k] * B[k,n] * S[n]", {"m": 4, "n": 4, "k": 4}),
    ("three", "O[i] += A[i,j] * B[j] * S[i]", {"i": 8, "j": 8}),
)
_LONG: tuple[tuple[str, str, dict[str, int]], ...] = (
    ("dot", "s[] += A[k] * B[k]", {"k": 1}),
    ("matvec", "y[m] += A[m,k] * x[k]", {"m": 3, "k": 1}),
    ("maximum", "y[k] max= A[m,k]", {"m": 3, "k": 1}),
    ("gemm", "C[m,n] += A[m,k] * B[k,n]", {"m": 2, "n": 3, "k": 1}),
    ("gemm", "C[k,n] += A[k,m] * B[m,n]", {"m": 3, "n": 2, "k": 1}),
    ("outer", "C[m,k] += A[m] * B[k]", {"m": 4, "k": 1}),
    ("window", "O[p] += I[p+r] * W[r]", {"p": 1, "r": 3}),
    ("window", "O[m,p] += I[p+r] * W[m,r]", {"m": 2, "p": 1, "r": 2}),
    ("strided", "O[p] += I[2*p+r] * W[r]", {"p": 1, "r": 3}),
    ("dilated", "O[p] += I[p+2*r] * W[r]", {"p": 1, "r": 3}),
)
_EXTENTS = (1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9, 10, 11, 12, 12, 13, 16, 24, 36)
_REDUCED = ("r", "s")  # window extents, at least 2


def random_problem(rng: random.Random, *, most: int = 100_000, tiles: str | None = None) -> Problem:
    """Return a problem of one tile rule (None: either).

    Its space has between 200 and `most` legal trees, three in five times more than 10,000.
    """
    least = LARGE if rng.random() < 0.6 and most > LARGE else 200
    while True:
        name, text, largest = rng.choice(_FAMILIES)
        rule = tiles or rng.choice(("divide", "divide", "any"))
        if rule == "any":
            largest = {dim: min(extent, 8) for dim, extent in largest.items()}
        workload = _workload(rng, name, text, largest)
        arch = _machine(rng, workload)
        legal = _trees(workload, arch, rule, most)
        if legal is not None and least < legal:
            objective = _objective(rng, arch)
            return Problem(workload, arch, objective, rule, legal, _features(name, workload, arch, objective, rule))


def long_problem(rng: random.Random, *, most: int = 20_000) -> Problem:
    """Return a problem with dividing tiles, one of whose extents is up to a million: a prime or a product of two, so
    that its loops are few and all trees can be walked."""
    while True:
        name, text, largest = rng.choice(_LONG)
        workload = _workload(rng, name, text, largest, {"k" if "k" in largest else "p": _long_extent(rng)})
        arch = _machine(rng, workload)
        legal = _trees(workload, arch, "divide", most)
        if legal is not None and legal > 20:
            objective = _objective(rng, arch) if rng.random() < 0.7 else joined_objective(rng, arch)
            features = _features(name, workload, arch, objective, "divide") | {"long"}
            return Problem(workload, arch, objective, "divide", legal, features)


def _long_extent(rng: random.Random) -> int:
    """Return a prime, or a product of two, of three to six digits."""
    about = 10 ** rng.uniform(2, 6)
    first = rng.choice((1, 1, 2, 2, 3, 5, 7, _prime_below(about**0.5)))
    return min(1_000_000, first * _prime_below(about / first))


def _prime_below(number: float) -> int:
    """Return the largest prime up to a number (2 for what is smaller)."""
    return next(n for n in range(max(2, int(number)), 1, -1) if all(n % d for d in range(2, int(n**0.5) + 1)))


def _trees(workload: Workload, arch: Architecture, tiles: str, most: int) -> int | None:
    """Return the number of legal trees as the enumeration meets them; None where it would take long."""
    arrangements = Arrangements(workload, arch)
    nest = Nest(workload, arch)
    longest = min(_MOST_WORDS, _MOST_WALKED // nest.count)
    words = list(islice(Words(nest, arch, tiles, arrangements.most_nodes), longest + 1))
    if len(words) > longest:
        return None
    for length, units in {(len(word.items), word.units): None for word in words}:
        if prod(len(arrangements.places(tensor, length, units)) for tensor in arrangements.tensors) > _MOST_PLACES:
            return None
    trees = 0
    for word in words:
        trees += len(arrangements.with_nodes_in_gaps(len(word.items), word.units, word.gaps))
        if trees > most:
            return None
    return trees


def _workload(
    rng: random.Random, name: str, text: str, largest: dict[str, int], long: dict[str, int] | None = None
) -> Workload:
    sizes = {dim: rng.choice([e for e in _EXTENTS if (dim in _REDUCED) < e <= most]) for dim, most in largest.items()}
    sizes |= long or {}
    if name == "reversed":
        text = text.replace("p-r+2", f"p-r+{sizes['r'] - 1}")
    tensors = list(dict.fromkeys(re.findall(r"\w+(?=\[)", text)))
    bits = 8 if rng.random() < 0.7 else {tensor: rng.choice((4, 8, 16)) for tensor in tensors}
    initial = (tensors[0],) if rng.random() < 0.15 else ()
    return einsum(text, bits=bits, initial=initial, name=name, sizes=sizes)


def _machine(rng: random.Random, workload: Workload) -> Architecture:
    """Return a machine of 2-4 levels with up to three fan-outs; capacities often bind."""
    inner = rng.choice((1, 1, 2, 2, 2, 3, 3))
    places = sorted(rng.choice(range(inner + 1)) for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3))))
    nodes: list[Node] = []
    for number in range(inner + 1):
        nodes.append(_level(rng, workload, number, inner))
        nodes += [_fanout(rng, workload, i) for i, place in enumerate(places) if place == number]
    nodes.append(ComputeUnit("MAC", lengthened(rng, Fraction(1)), rng.choice((1, 1, 1, 2, 3))))
    return Architecture("random", tuple(nodes), overlap=rng.random() < 0.8)


def _level(rng: random.Random, workload: Workload, number: int, inner: int) -> MemoryLevel:
    energy = Fraction(rng.choice((200, 100, 64))) if number == 0 else Fraction(rng.choice((24, 12, 6, 5)), 2 * number)
    energy = lengthened(rng, energy)
    write = energy if rng.random() < 0.7 else energy * rng.choice((2, Fraction(3, 2)))
    bandwidth = Fraction(rng.choice((8, 16, 24, 64))) if rng.random() < 0.5 else None
    split = bandwidth is not None and rng.random() < 0.3
    holds, must = _rules(rng, workload) if number else (None, ())
    total = sum(t.bits * _elements(t.shape) for t in workload.tensors)
    capacity = None
    if number and rng.random() < 0.85:
        capacity = max(max(t.bits for t in workload.tensors), int(total * rng.uniform(0.02, 0.6) / number**2))
    return MemoryLevel(
        "DRAM" if number == 0 else f"L{inner - number + 1}",
        capacity_bits=capacity,
        word_bits=rng.choice((8, 8, 16, 24, 64)),
        read_pj=energy,
        write_pj=write,
        leak_pj_per_cycle=Fraction(1, 4) if rng.random() < 0.1 else Fraction(0),
        bandwidth_bits_per_cycle=None if split else bandwidth,
        read_bandwidth_bits_per_cycle=bandwidth if split else None,
        write_bandwidth_bits_per_cycle=bandwidth * 2 if split and bandwidth else None,
        buffering=rng.choice((1, 1, 1, 2)),
        holds=holds,
        must_hold=must,
    )


def lengthened(rng: random.Random, energy: Fraction) -> Fraction:
    """Return an energy near the given one, written with one to nine digits."""
    unit = Fraction(10) ** (rng.randint(1, 9) - len(str(int(energy))))
    return max(Fraction(round(energy * Fraction(rng.randint(700, 1300), 1000) * unit)), Fraction(1)) / unit


def scaled(arch: Architecture, by: Fraction) -> Architecture:
    """Return the machine with all its energies multiplied."""
    nodes: list[Node] = []
    for node in arch.nodes:
        if isinstance(node, MemoryLevel):
            leak = node.leak_pj_per_cycle * by
            nodes.append(replace(node, read_pj=node.read_pj * by, write_pj=node.write_pj * by, leak_pj_per_cycle=leak))
        else:
            nodes.append(replace(node, pj=node.pj * by) if isinstance(node, ComputeUnit) else node)
    return replace(arch, nodes=tuple(nodes))


def _elements(shape: tuple[int, ...]) -> int:
    count = 1
    for extent in shape:
        count *= extent
    return count


def _rules(rng: random.Random, workload: Workload) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """Return holds and must_hold of one level, which may not contradict each other."""
    names = [tensor.name for tensor in workload.tensors]
    roles = [f"@{tensor.role.value}" for tensor in workload.tensors]
    draw = rng.random()
    if draw < 0.45:
        return None, ()
    if draw < 0.6:
        return None, (rng.choice(names),)
    if draw < 0.75:
        return tuple(rng.sample(names, rng.randint(1, len(names) - 1) if len(names) > 1 else 1)), ()
    if draw < 0.9:
        return tuple(dict.fromkeys(rng.sample(roles, rng.randint(1, len(roles))))), ()
    chosen = rng.sample(names, rng.randint(1, len(names)))
    return tuple(chosen), (chosen[0],)


def _fanout(rng: random.Random, workload: Workload, number: int) -> Fanout:
    names = [dim.name for dim in workload.dims]
    dims = tuple(rng.sample(names, rng.randint(1, len(names)))) if rng.random() < 0.25 else None
    multicast = rng.choice((Multicast.IDENTICAL, Multicast.IDENTICAL, Multicast.UNION, Multicast.NONE))
    return Fanout("XYZ"[number], rng.choice((2, 2, 3, 4, 4, 6)), multicast, rng.random() < 0.75, dims)


def _objective(rng: random.Random, arch: Architecture) -> str:
    held = [level.name for level in arch.levels if level.must_hold]  # elsewhere no traffic at all is often the best
    traffic = f"traffic:{rng.choice([arch.levels[0].name, *held])}"
    return rng.choice(("energy", "energy", "ed2p", "edp", "latency", traffic))


def joined_objective(rng: random.Random, arch: Architecture) -> str:
    """Return a weighted sum, an order or a front of two or three different objectives (or capacity:LEVEL alone)."""
    names = ["energy", "latency", "edp", "ed2p", *(f"traffic:{level.name}" for level in arch.levels)]
    names += [f"capacity:{level.name}" for level in arch.levels[1:]]
    parts = rng.sample(names, 3 if rng.random() < 0.15 else 2)
    kind = rng.choice(("pareto", "pareto", "pareto", "lex", "weighted", "capacity"))
    if kind == "capacity":
        return names[-1]
    if kind == "weighted":
        return "weighted:" + "+".join(f"{rng.choice(('1', '0.5', '3', '0.01'))}*{part}" for part in parts)
    return f"{kind}:{','.join(parts)}"


def _features(name: str, workload: Workload, arch: Architecture, objective: str, tiles: str) -> frozenset[str]:
    found = {name, tiles, objective.split(":")[0], f"{len(arch.levels)} levels", f"{len(arch.fanouts)} fan-out(s)"}
    found |= {f"multicast {fanout.multicast.value}" for fanout in arch.fanouts}
    tests = {
        "several groups": _groups(arch) > 1,
        "holds": any(level.holds is not None for level in arch.levels),
        "must_hold": any(level.must_hold for level in arch.levels),
        "leak": any(level.leak_pj_per_cycle for level in arch.levels),
        "buffering 2": any(level.buffering == 2 for level in arch.levels),
        "shared bandwidth": any(level.bandwidth_bits_per_cycle is not None for level in arch.levels),
        "separate bandwidths": any(level.read_bandwidth_bits_per_cycle is not None for level in arch.levels),
        "no reduction": any(not fanout.reduction for fanout in arch.fanouts),
        "fan-out dims": any(fanout.dims is not None for fanout in arch.fanouts),
        "no overlap": not arch.overlap,
        "initial": any(tensor.initial for tensor in workload.tensors),
        "mixed bits": len({tensor.bits for tensor in workload.tensors}) > 1,
        "prime extent": any(dim.extent in (5, 7, 11, 13) for dim in workload.dims),
    }
    return frozenset(found | {feature for feature, there in tests.items() if there})


def _groups(arch: Architecture) -> int:
    """Return the number of runs of fan-outs."""
    kinds = [isinstance(node, Fanout) for node in arch.nodes]
    return sum(kind and not before for before, kind in pairwise(kinds))


def main() -> None:
    """Print the distribution of the first COUNT problems."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    problems = [random_problem(rng) for _ in range(count)]
    sizes = sorted(problem.legal for problem in problems)
    print(f"{count} problems, {sum(s > LARGE for s in sizes)} above {LARGE} trees")
    print(f"trees: least {sizes[0]}, median {median(sizes):.0f}, most {sizes[-1]}, all together {sum(sizes)}")
    tally: dict[str, int] = {}
    for problem in problems:
        for feature in problem.features:
            tally[feature] = tally.get(feature, 0) + 1
    for feature, number in sorted(tally.items(), key=lambda item: -item[1]):
        print(f"{number:5} {feature}")


if __name__ == "__main__":
    main()
