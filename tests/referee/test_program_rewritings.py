"""Rewritten programs access every element in the order of the original, and compute its values, by enumeration."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from itertools import groupby, islice, pairwise

import numpy as np
import pytest

from polymap.codegen.interpret import Data
from polymap.codegen.reference import compute_workload
from polymap.ir.errors import PolymapError
from polymap.ir.loopnest import Operator, Workload
from polymap.search.programs.alignments import (
    every_rewriting,
    merged_rewritings,
    scheduled_rewritings,
    skewed_rewritings,
)
from polymap.search.programs.contraction import contract_arrays, in_order_of
from polymap.search.programs.instances import ProgramArrays, program_arrays
from polymap.search.programs.rewriting import rewrite_arrays
from polymap.search.programs.shapes import Shape, is_legal, source_shape, time_shape
from polymap.workload.c.reader import from_c
from tests.nests import instances
from tests.shapes import random_shape
from tests.wild_programs import random_sized

CHOLESKY = """void f(double A[5][5]) {
  for (int i = 0; i < 5; i++) {
    for (int j = 0; j < i; j++) {
      for (int k = 0; k < j; k++) A[i][j] -= A[i][k] * A[j][k];
      A[i][j] /= A[j][j];
    }
    for (int k = 0; k < i; k++) A[i][i] -= A[i][k] * A[i][k];
    A[i][i] = sqrt(A[i][i]);
  }
}"""
JACOBI = """void f(double A[6], double B[6]) {
  for (int t = 0; t < 3; t++) {
    for (int i = 1; i < 5; i++) B[i] = A[i - 1] + A[i] + A[i + 1];
    for (int i = 1; i < 5; i++) A[i] = B[i - 1] + B[i] + B[i + 1];
  }
}"""
SEIDEL = """void f(double A[5][5]) {
  for (int t = 0; t < 3; t++)
    for (int i = 1; i < 4; i++)
      for (int j = 1; j < 4; j++) A[i][j] = A[i - 1][j] + A[i][j - 1] + A[i][j + 1] + A[i + 1][j];
}"""

Events = dict[tuple[str, tuple[int, ...]], list[tuple[str, list[str]]]]


def events(work: Workload) -> Events:
    """Return per element what is done to it, in order: runs of accesses that may change places, and by whom."""
    found: dict[tuple[str, tuple[int, ...]], list[tuple[str, str]]] = {}
    for number, (statement, point) in enumerate(instances(work)):
        values = dict(zip(statement.dims, point, strict=True))
        kind = f"write {number}" if statement.operator is Operator.ASSIGN else statement.operator.value
        accesses = [(each, "read") for each in dict.fromkeys(statement.reads)] + [(statement.target, kind)]
        for access, what in accesses:
            element = tuple(index.evaluate(values) for index in access.index)
            found.setdefault((access.tensor, element), []).append((what, statement.name))
    return {
        element: [
            (kind.split()[0], sorted(name for _, name in run)) for kind, run in groupby(every, key=lambda one: one[0])
        ]
        for element, every in found.items()
    }


@pytest.mark.parametrize("source", [CHOLESKY, JACOBI, SEIDEL])
def test_rewritten_programs_keep_the_order_of_every_element(source: str) -> None:
    work = from_c(source)
    arrays = program_arrays(work)
    scheduled = scheduled_rewritings(work, lambda: False)
    assert scheduled
    for rewriting in (*scheduled, *merged_rewritings(work)[1:], *skewed_rewritings(work)):
        found = rewrite_arrays(arrays, rewriting)
        assert found is not None
        assert events(found.workload) == events(work)
        points = sum(each.shape[1] for each in found.points)
        assert points == len(list(instances(found.workload))) == len(list(instances(work)))


def shapes_of(rng: random.Random, work: Workload) -> Iterator[Shape]:
    """Yield the program's own shape, shapes with some of its loops exchanged or shared, and wild ones."""
    own = source_shape(work)
    yield own
    for _ in range(3):
        loops = [list(each) for each in own.loops]
        for each in loops:
            if len(each) > 1 and rng.random() < 0.5:
                place = rng.randrange(len(each) - 1)
                each[place : place + 2] = reversed(each[place : place + 2])
        shared: list[int] = []
        for one, other in pairwise(loops):
            common = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
            shared.append(min(len(one), len(other)) if common is None else common)
        yield Shape(own.statements, tuple(map(tuple, loops)), tuple(shared))
    for _ in range(3):
        yield random_shape(rng, work)


def values_after(program: ProgramArrays, data: Data, asked: list[str]) -> dict[str, bytes]:
    found = compute_workload(program.workload, data)
    return {name: found[name].tobytes() for name in asked}


def check_rewritings(seed: int, met: Counter[str]) -> list[str]:
    """Return what is wrong with the rewritings of a random program and with their shapes."""
    rng, text = random.Random(f"rewritings {seed}"), random_sized(seed).text
    try:
        work = from_c(text)
    except PolymapError as error:
        met[f"refused {str(error)[:5]}"] += 1
        return []
    arrays, data = program_arrays(work), dict[str, np.ndarray]()
    for each in work.tensors:
        data[each.name] = np.array([rng.randrange(-9, 99) for _ in range(int(np.prod(each.shape)))]).reshape(each.shape)
    asked = [each.name for each in work.tensors if not each.temporary and each.name in arrays.runs]
    expected, wrong = values_after(arrays, data, asked), list[str]()
    every = (
        (),
        *scheduled_rewritings(work, lambda: False),
        *merged_rewritings(work)[1:],
        *skewed_rewritings(work),
        *islice(every_rewriting(arrays), 1, 12),
    )
    for number, rewriting in enumerate(rng.sample(every, min(len(every), 8))):
        found = rewrite_arrays(arrays, rewriting) if rewriting else arrays
        if found is None:
            met["impossible"] += 1
            continue
        met["rewritten"] += 1
        if events(found.workload) != events(work) or values_after(found, data, asked) != expected:
            wrong.append(f"{seed}: rewriting {number}")
        wrong += [f"{seed}: {rewriting} {each}" for each in check_shapes(rng, found, data, expected, met)]
    return wrong


def check_shapes(
    rng: random.Random, program: ProgramArrays, data: Data, expected: dict[str, bytes], met: Counter[str]
) -> Iterator[str]:
    """Yield the shapes of a program in which it computes something else."""
    for shape in shapes_of(rng, program.workload):
        times = time_shape(program, shape)
        if times is None or not is_legal(program, times):
            met["illegal"] += 1
            continue
        met["shapes"] += 1
        ordered = in_order_of(program, shape)
        if values_after(ordered, data, list(expected)) != expected:
            yield str(shape)
        smaller = contract_arrays(program, shape)
        met["contracted"] += smaller is not None
        if smaller is not None and values_after(smaller, data, list(expected)) != expected:
            yield f"contracted {shape}"


@pytest.mark.parametrize(
    ("first", "count"),
    [pytest.param(0, 6, marks=pytest.mark.slow), pytest.param(1000, 600, marks=[pytest.mark.soak, pytest.mark.slow])],
)
def test_rewritten_programs_of_every_form_compute_the_same_values(first: int, count: int) -> None:
    met = Counter[str]()
    assert not [each for seed in range(first, first + count) for each in check_rewritings(seed, met)]
    assert met["rewritten"] >= 4 * count
    assert met["shapes"] >= 6 * count
