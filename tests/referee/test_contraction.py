"""Fused programs with folded temporaries compute what the programs asked for compute, instance by instance."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest

import polymap as pm
from polymap.codegen.reference import compute_workload
from polymap.search.programs.climbing import Climber
from polymap.search.programs.contraction import contract_arrays, in_order_of
from polymap.search.programs.instances import program_arrays
from polymap.search.programs.placement import Weights
from polymap.search.programs.shapes import time_shape

ARCH = pm.load_arch("flat3")


def random_program(random: Random) -> pm.Workload:
    """Return two or three stages over arrays of one or two dims, each reading its forerunner in a window."""
    stages, low = random.randint(2, 3), 0
    depth = random.randint(1, 2)
    windows = [random.randint(0, 2) for _ in range(stages)]
    size = random.randint(4, 7)
    text, names = "", ["X", *(f"T{number}" for number in range(stages - 1)), "Y"]
    extents = [size + sum(windows[number:]) for number in range(stages + 1)]
    for number, window in enumerate(windows):
        own = extents[number + 1]
        step = f"{names[number + 1]}[i]" if depth == 1 else f"{names[number + 1]}[i][j]"
        at = [f"[i + {low + each}]" + ("" if depth == 1 else "[j]") for each in range(window + 1)]
        body = f"{step} = {' + '.join(names[number] + each for each in at)} + {number + 1};"
        inner = "" if depth == 1 else "for (int j = 0; j < 5; j++) "
        text += f"  for (int i = 0; i < {own}; i++) {inner}{body}\n"
    tail = "" if depth == 1 else "[5]"
    inner = "".join(f"  int {name}[{extents[place]}]{tail};\n" for place, name in enumerate(names[1:-1], 1))
    head = f"void f(int X[{extents[0]}]{tail}, int Y[{extents[-1]}]{tail})"
    return pm.from_c(f"{head} {{\n{inner}{text}}}")


def compared(seed: int) -> tuple[int, int]:
    """Return how many shapes were put in order, and how many of their programs have a folded tensor."""
    random = Random(seed)
    work = random_program(random)
    arrays = program_arrays(work)
    data: dict[str, Any] = {"X": np.arange(np.prod(work.tensor("X").shape)).reshape(work.tensor("X").shape) ** 2}
    expected = compute_workload(work, data)["Y"]
    one = Weights((Fraction(1),) * len(ARCH.levels), (Fraction(1),) * len(ARCH.levels))
    floors = dict.fromkeys(expected_names(work), Fraction(0))
    climber = Climber(replace(arrays, folding=True), ARCH, one, floors, seed, never)
    found = [0, 0]
    tried = [each for round_ in climber._rounds() for each in round_]
    for rewriting, shape in random.sample(tried, min(len(tried), 6)):
        program = replace(climber.program(rewriting), folding=False)
        if not climber.is_legal(rewriting, shape):
            continue
        ordered = in_order_of(program, shape)
        times = time_shape(program, shape)
        assert times is not None
        assert (times.rank.max() + 1) == ordered.count
        assert (compute_workload(ordered.workload, data)["Y"] == expected).all(), (seed, shape)
        smaller = contract_arrays(program, shape)
        found[0] += 1
        if smaller is not None:
            found[1] += 1
            assert (compute_workload(smaller.workload, data)["Y"] == expected).all(), (seed, shape)
    return found[0], found[1]


def never() -> bool:
    return False


def expected_names(work: pm.Workload) -> list[str]:
    return [each.name for each in work.tensors]


@pytest.mark.slow
def test_programs_with_folded_temporaries_compute_the_same_values() -> None:
    totals = [sum(each) for each in zip(*(compared(seed) for seed in range(15)), strict=True)]
    assert totals[0] > 25
    assert totals[1] > 12
