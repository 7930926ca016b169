"""Random cases from C texts: every form of assignment, arrays that read themselves, mixed and narrow types."""

from __future__ import annotations

import random
from functools import lru_cache

from polymap.ir.errors import WorkloadError
from polymap.ir.loopnest import Workload
from polymap.workload.c.reader import from_c
from tests import cases
from tests.case_machines import wide_machine
from tests.cases import Case

TYPES = ("double", "float", "int", "short", "signed char", "unsigned char", "unsigned", "long long")
LOOPS = (
    "for (int i = 0; i < N; i++)",
    "for (int i = 0; i < N; i++) for (int j = 0; j < M; j++)",
    "for (int i = 0; i < N; i++) for (int j = 0; j <= i; j++)",
    "for (int i = 0; i < N; i++) for (int j = 0; j < M; j++) for (int k = 0; k < 2; k++)",
    "for (int i = 0; i < N; i++) for (int j = i; j < N; j += 2)",
)
TARGETS = ("A[i]", "A[{v}]", "A[i+1]", "A[{v}+i]", "A[2*i+{v}]", "C[i][{v}]", "C[{v}][i]", "C[0][i]", "A[0]")
READS = ("B[i]", "B[{v}]", "B[i+{v}]", "D[i][{v}]", "D[{v}][0]", "A[0]", "A[i]", "A[{v}]", "C[i][i]", "C[0][{v}]", "2")
FORMS = (
    "{t} = {r};",
    "{t} = {r} + {s};",
    "{t} += {r};",
    "{t} -= {r};",
    "{t} *= {r};",
    "{t} /= {r};",
    "{t} /= 2;",
    "{t} = {t} * {r};",
    "{t} = {r} - {t};",
    "{t} = {t} > {r} ? {t} : {r};",
    "{t} = {t} < {r} ? {t} : {r};",
    "{t} = fmax({t}, {r});",
    "{t} += {r} * {s};",
)
KERNELS = (
    "for (int k = 0; k < N; k++) for (int i = 0; i < N; i++) for (int j = 0; j < N; j++)\n"
    "  C[i][j] = C[i][j] < C[i][k] + C[k][j] ? C[i][j] : C[i][k] + C[k][j];",
    "for (int i = 0; i < N; i++) {\n"
    "  for (int j = 0; j < i; j++) {\n"
    "    for (int k = 0; k < j; k++) C[i][j] -= C[i][k] * C[j][k];\n"
    "    C[i][j] /= C[j][j];\n"
    "  }\n"
    "  C[i][i] -= C[i][0];\n"
    "}",
    "for (int t = 0; t < 3; t++) for (int i = 1; i < N; i++) A[i] = A[i-1] + A[i] + A[i+1];",
    "for (int i = 0; i < N; i++) { A[i] = 0; for (int j = 0; j < M; j++) A[i] += D[i][j] * B[j]; }",
    "for (int i = 0; i < N; i++) { A[i] /= 2; for (int j = 0; j < M; j++) C[i][j] *= A[i]; }",
    "for (int i = 0; i < N; i++) for (int j = 0; j < M; j++) { A[j] += B[i]; C[i][j] = A[j]; }",
)
DRAWS = 8


def random_program_case(rng: random.Random) -> Case:
    """Return a case read from a C text; a text that is refused is drawn again."""
    for _ in range(DRAWS):
        text, sizes = random_text(rng)
        try:
            workload = _read(text, sizes)
        except WorkloadError:
            continue
        return _mapped(rng, workload)
    return _mapped(rng, _read(_function("A[i] += B[i];", LOOPS[0], ("double",) * 4), (("N", 4), ("M", 2))))


def random_text(rng: random.Random) -> tuple[str, tuple[tuple[str, int], ...]]:
    """Return a C function and its sizes: one or two nests of one statement each, or a kernel."""
    sizes = (("N", rng.randrange(2, 6)), ("M", rng.randrange(1, 5)))
    types = rng.choices(TYPES, k=4) if rng.random() < 0.7 else [rng.choice(TYPES)] * 4
    if rng.random() < 0.3:
        return _function(rng.choice(KERNELS), "", tuple(types)), sizes
    head = rng.choice(LOOPS)
    if rng.random() < 0.6:
        return _function(_assignment(rng, head), head, tuple(types)), sizes
    other = rng.choice(LOOPS)
    second = f"{other} {_assignment(rng, other)}"
    return _function(f"{_assignment(rng, head)}\n  {second}", head, tuple(types)), sizes


def _assignment(rng: random.Random, head: str) -> str:
    inner = rng.choice([name for name in "ijk" if f"int {name}" in head])
    words = {"t": rng.choice(TARGETS), "r": rng.choice(READS), "s": rng.choice(READS)}
    return rng.choice(FORMS).format(**{name: word.format(v=inner) for name, word in words.items()})


def _function(body: str, head: str, types: tuple[str, ...]) -> str:
    a, b, c, d = types
    return f"void f(int N, int M, {a} A[40], {b} B[40], {c} C[20][20], {d} D[20][20]) {{\n  {head} {body}\n}}\n"


@lru_cache(maxsize=64)
def _read(text: str, sizes: tuple[tuple[str, int], ...]) -> Workload:
    return from_c(text, dict(sizes))


def _mapped(rng: random.Random, workload: Workload) -> Case:
    arch = wide_machine(rng)
    mapping = cases._branched if len(workload.statements) > 1 else cases._single
    return cases._finished(rng, workload, arch, mapping(rng, workload, arch))
