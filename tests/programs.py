"""Random C programs of every assignment form, and random loop trees for programs of any number of statements.

    case = random_program_case(random.Random(seed))
    assert count_with_sets(case.workload, case.arch, case.mapping) == count_by_simulation(...)

The programs are text, read by `from_c`: what the front end makes of an assignment is part of what is tested. Trees may
break dependences, also by siblings that write one element in one step: the counts are those of the tree.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from itertools import pairwise
from math import prod

from polymap.ir.errors import MappingError
from polymap.ir.loopnest import Statement, Workload, accesses_of, written_tensors
from polymap.ir.machine import Architecture, Fanout
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.schedules.check import check_mapping
from polymap.workload.c.reader import from_c
from polymap.workload.einsum_programs import program
from tests.case_features import features_of, paths
from tests.case_workloads import parallel_dims
from tests.cases import Case, random_machine, some_of

KERNELS: dict[str, str] = {
    "halves": "void f(double A[N]) { for (int i = 0; i < N; i++) A[i] /= 2; }",
    "adds the first": "void f(double A[N]) { for (int i = 0; i < N; i++) A[i] += A[0]; }",
    "largest so far": "void f(double A[N]) { for (int i = 1; i < N; i++) A[i] = A[i] < A[i-1] ? A[i-1] : A[i]; }",
    "floyd-warshall": """void f(double P[N][N]) {
  for (int k = 0; k < N; k++) for (int i = 0; i < N; i++) for (int j = 0; j < N; j++)
    P[i][j] = P[i][j] < P[i][k] + P[k][j] ? P[i][j] : P[i][k] + P[k][j];
}""",
    "cholesky": """void f(double A[N][N]) {
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < i; j++) {
      for (int k = 0; k < j; k++) A[i][j] -= A[i][k] * A[j][k];
      A[i][j] /= A[j][j];
    }
    for (int k = 0; k < i; k++) A[i][i] -= A[i][k] * A[i][k];
    A[i][i] = sqrt(A[i][i]);
  }
}""",
    "lu": """void f(double A[N][N]) {
  for (int k = 0; k < N; k++) {
    for (int i = k + 1; i < N; i++) A[i][k] /= A[k][k];
    for (int i = k + 1; i < N; i++) for (int j = k + 1; j < N; j++) A[i][j] -= A[i][k] * A[k][j];
  }
}""",
    "gauss-seidel": """void f(double A[N]) {
  for (int t = 0; t < 3; t++) for (int i = 1; i < N - 1; i++) A[i] = (A[i-1] + A[i] + A[i+1]) / 3.0;
}""",
    "triangular solve": """void f(double L[N][N], double x[N], double b[N]) {
  for (int i = 0; i < N; i++) {
    x[i] = b[i];
    for (int j = 0; j < i; j++) x[i] -= L[i][j] * x[j];
    x[i] = x[i] / L[i][i];
  }
}""",
}

_FORMS = (
    "{t} = {a} + {b};",
    "{t} = {t} * {a};",
    "{t} = {t} + {t};",
    "{t} = 3;",
    "{t} += {a} * {b};",
    "{t} += {t};",
    "{t} -= {a};",
    "{t} *= {a};",
    "{t} *= {t};",
    "{t} /= {a};",
    "{t} /= 2;",
    "{t} = {t} > {a} ? {t} : {a};",
    "{t} = {a} < {t} ? {a} : {t};",
    "{t} = fmax({t}, {a});",
    "{t} = fmin({a}, {t});",
    "{t} = fmax({t}, {a} + {t});",
    "{t} = {a} < {b} ? {a} : {b};",
)
_ONE_AXIS = ("i", "i", "j", "0", "2", "i + 1", "i + j", "j + 2", "2 * i", "5 - i")
_TWO_AXES = ("i", "j", "i", "j", "k", "0", "i + 1", "j + 1", "5 - j")
_HEADS = (
    ("i", "for (int i = 0; i < {0}; i++) "),
    ("ij", "for (int i = 0; i < {0}; i++) for (int j = 0; j < {1}; j++) "),
    ("ij", "for (int i = 0; i < {0}; i++) for (int j = 0; j <= i; j++) "),
    ("ij", "for (int i = 0; i < {0}; i++) for (int j = i; j < 5; j++) "),
    ("ijk", "for (int k = 0; k < {2}; k++) for (int i = 0; i < {0}; i++) for (int j = k; j < {1}; j++) "),
    ("ijk", "for (int i = 0; i < {0}; i++) for (int j = 0; j < {1}; j++) for (int k = 0; k < i; k++) "),
    ("ij", "for (int j = {1}; j > 0; j--) for (int i = 0; i < {0}; i++) "),
)


def random_program(rng: random.Random) -> Workload:
    """Return a known kernel at a random size, or one to three random assignments in nests of one to three loops."""
    while True:
        if rng.random() < 0.35:
            source = rng.choice(tuple(KERNELS.values()))
            work = from_c(source, sizes={"N": rng.randrange(3, 7)})
        else:
            work = from_c(random_source(rng))
        if work.statements:
            return with_temporaries(rng, work) if rng.random() < 0.4 else work


CHAINS = (
    ("T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"),
    ("T[m,n] += A[m,k] * B[k,n]", "E[n,m] = max(T[m,n], 0)", "F[m] += E[n,m] * T[m,n]"),
    ("T[m] += A[m,k]", "T[m] += A[k,m] * B[k]", "E[m,n] += T[m] * B[n]"),
    ("T[p] += I[p+r] * W[r]", "E[q] max= T[2*q+s]", "F[q] = E[q] + T[q]"),
    ("T[m,n] += A[m,k] * B[k,n]", "T[m,n] = max(T[m,n] * B[m,n], 0)", "T[m,n] += D[n,k]", "E[m] += T[m,n]"),
    ("T[m] max= A[m,k]", "S[m] += A[m,k] - T[m]", "E[m,k] = A[m,k] - T[m] * S[m]"),
    ("T[i] += A[i,k]", "E[k] += T[2*k] * B[k]", "F[i] += T[i] * E[i]"),
)


def random_chain(rng: random.Random) -> Workload:
    """Return einsums of which later ones read what earlier ones accumulate, from zero or onto values."""
    texts = rng.choice(CHAINS)
    names = sorted(set(re.findall(r"[a-z]", re.sub(r"max", "", " ".join(texts)))))
    written = sorted({text[0] for text in texts})
    return program(
        list(texts),
        sizes={name: rng.choice((1, 2, 2, 3, 3, 4, 5)) for name in names},
        temporary=[name for name in written if rng.random() < 0.4],
        initial=[name for name in written if rng.random() < 0.15],
        associative=rng.random() < 0.85,
        bits=rng.choice((8, 4)),
    )


def with_temporaries(rng: random.Random, work: Workload) -> Workload:
    """Return the program with some of the tensors that it writes temporary: nobody reads them after the run."""
    written = written_tensors(work)
    tensors = (
        replace(each, temporary=True) if each.name in written and rng.random() < 0.6 else each for each in work.tensors
    )
    return replace(work, tensors=tuple(tensors))


def random_source(rng: random.Random) -> str:
    """Return a function over A, B (one axis) and M (two), every subscript inside; its loops side by side or joined."""
    head = rng.choice(_HEADS) if rng.random() < 0.4 else None
    again = _element(rng, "i")  # a target of several statements
    pieces: list[str] = []
    for _ in range(rng.choice((1, 2, 2, 3))):
        names, loops = head or rng.choice(_HEADS)
        body = _assignment(rng, names, again if rng.random() < 0.4 else _element(rng, names))
        pieces.append(body if head else loops.format(*_sizes(rng)) + body)
    body = "\n  ".join(pieces)
    if head:
        body = f"{head[1].format(*_sizes(rng))}{{ {body} }}"
    return f"void f(double A[12], double B[12], double M[12][12]) {{\n  {body}\n}}"


def _sizes(rng: random.Random) -> list[int]:
    return [rng.randrange(2, 6) for _ in range(3)]


def _assignment(rng: random.Random, names: str, target: str) -> str:
    first, second = _element(rng, names), _element(rng, names)
    if rng.random() < 0.4:
        first = rng.choice((target, "A[0]", "A[i]", target.replace("i", "0")))
    return rng.choice(_FORMS).format(t=target, a=first, b=second)


def _element(rng: random.Random, names: str) -> str:
    if rng.random() < 0.6:
        return f"{rng.choice('AAB')}[{rng.choice(_over(names, _ONE_AXIS))}]"
    axes = _over(names, _TWO_AXES)
    return f"M[{rng.choice(axes)}][{rng.choice(axes)}]"


def _over(names: str, texts: tuple[str, ...]) -> list[str]:
    """Return the subscripts that name no other loops."""
    return [text for text in texts if all(letter in names for letter in text if letter.isalpha())]


def random_program_case(rng: random.Random, workload: Workload | None = None) -> Case:
    """Return a random program (or the one given) in a random tree on a random machine."""
    while True:
        work = workload or random_program(rng)
        arch = random_machine(rng)
        mapping = random_tree(rng, work, arch)
        try:
            check_mapping(work, arch, mapping)
        except MappingError:
            continue  # a level stored above a spatial loop that it needs, for one
        arch = with_room(arch, work, mapping)
        return Case(work, arch, mapping, features_of(work, arch, mapping))


def random_tree(rng: random.Random, work: Workload, arch: Architecture) -> Mapping:
    """Return a tree that branches at random between statements (one child each, or several in a Branch of its own)."""
    chains: dict[str, list[int]] = {each.name: [] for each in work.dims}
    share = rng.choice((0.4, 0.6, 0.9))
    held = [(level.name, tensor.name) for level in arch.levels[1:] for tensor in work.tensors if rng.random() < share]
    for each in work.dims:
        tiles = [each.extent]
        while tiles[-1] > 1:
            tiles.append(rng.randrange(1, tiles[-1]) if rng.random() < 0.5 else 1)
        chains[each.name] = tiles[1:] or [1]
    everything = frozenset(each.name for each in work.dims)
    spread = rng.choice((frozenset[str](), parallel_dims(work), parallel_dims(work), everything))
    return Mapping(_grown(rng, arch, work.statements, chains, held, spread))


def _grown(
    rng: random.Random,
    arch: Architecture,
    statements: tuple[Statement, ...],
    chains: dict[str, list[int]],
    held: list[tuple[str, str]],
    spread: frozenset[str],
) -> tuple[MappingNode, ...]:
    """Return random nodes for these statements: loops over dims that all of them have, nodes, and below a Branch the
    rest."""
    shared = [name for name in chains if all(name in each.dims for each in statements)]
    rest = {name: list(tiles) for name, tiles in chains.items()}
    wanted = [name for name in shared for _ in rest[name]]
    alone = len(statements) == 1
    wanted = rng.sample(wanted, len(wanted) if alone else rng.randrange(len(wanted) + 1))
    nodes: list[MappingNode] = []
    left = list(held)
    for name in wanted:
        left = _stored(rng, nodes, left, 0.3)
        tile = rest[name].pop(0)
        if name in spread and arch.fanouts and rng.random() < 0.5:
            nodes.append(Spatial(name, tile, rng.choice(arch.fanouts).name))
        else:
            nodes.append(Temporal(name, tile))
    left = _stored(rng, nodes, left, 1.0 if alone else 0.4)
    if alone:
        return (*nodes, Compute(statements[0].name))
    parts = _parted(rng, statements)
    homes = {tensor: some_of(rng, _users(parts, tensor)) for _, tensor in left}
    children = tuple(
        _grown(rng, arch, part, rest, [pair for pair in left if number in homes[pair[1]]], spread)
        for number, part in enumerate(parts)
    )
    return (*nodes, Branch(children))


def _stored(
    rng: random.Random, nodes: list[MappingNode], left: list[tuple[str, str]], chance: float
) -> list[tuple[str, str]]:
    """Add nodes for some of the pairs, each tensor's in the order of the levels, and return the others."""
    blocked: set[str] = set()
    others: list[tuple[str, str]] = []
    for level, tensor in left:
        if tensor not in blocked and rng.random() < chance:
            nodes.append(Storage(level, (tensor,)))
        else:
            blocked.add(tensor)
            others.append((level, tensor))
    return others


def _parted(rng: random.Random, statements: tuple[Statement, ...]) -> list[tuple[Statement, ...]]:
    """Return the statements in two or more consecutive parts."""
    inner = range(1, len(statements))
    cuts = sorted(rng.sample(inner, rng.randrange(1, len(statements))))
    bounds = [0, *cuts, len(statements)]
    return [statements[low:high] for low, high in pairwise(bounds)]


def _users(parts: list[tuple[Statement, ...]], tensor: str) -> list[int]:
    found = [number for number, part in enumerate(parts) if any(accesses_of(each, tensor) for each in part)]
    return found or [0]


def with_room(arch: Architecture, work: Workload, mapping: Mapping) -> Architecture:
    """Return the machine with fan-outs that are as large as the tree needs."""
    sizes = {fanout.name: 1 for fanout in arch.fanouts}
    for path in paths(work, mapping):
        for name in sizes:
            loops = zip(path.nodes, path.trips, strict=True)
            needed = prod(trips for node, trips in loops if isinstance(node, Spatial) and node.fanout == name)
            sizes[name] = max(sizes[name], needed)
    nodes = tuple(replace(node, size=sizes[node.name]) if isinstance(node, Fanout) else node for node in arch.nodes)
    return replace(arch, nodes=nodes)
