"""A program of several element types has one meaning: C's, whoever computes it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

import polymap as pm
from polymap.codegen.reference import compute_workload
from tests.c_tally import program_order
from tests.mixed_programs import Mixed, by_call, by_own_text, by_program, random_arrays, random_mix
from tests.times import few

MACHINE = "flat3"


def _first_read(seed: int) -> tuple[Mixed, pm.Workload]:
    """Return the first program of a seed that polymap does not refuse for its types."""
    for attempt in range(100):
        mixed = random_mix(100 * seed + attempt)
        if any(name not in mixed.written for name in mixed.tensors):
            with contextlib.suppress(pm.errors.WorkloadError):
                return mixed, mixed.workload()
    raise AssertionError(f"every program of seed {seed} is refused")


def _case(seed: int, where: Path) -> bool:
    """Compare all that compute a random program; False where it is not defined."""
    mixed, workload = _first_read(seed)
    given = random_arrays(mixed, seed)
    wanted = by_own_text(mixed, given, where)
    if wanted is None:
        return False
    mapping = program_order(workload)
    texts = {form: pm.generate_c(workload, MACHINE, mapping, form) for form in ("faithful", "native")}
    found = {form: by_program(mixed, workload, text, given, where) for form, text in texts.items()}
    found |= {"interpreted": compute_workload(workload, given), "compile": by_call(workload, given)}
    for label, arrays in found.items():
        for name, array in wanted.items():
            np.testing.assert_array_equal(arrays[name], array, f"{label}, seed {seed}: {mixed}")
    try:
        ran = pm.run_c(workload, MACHINE, mapping, seed=seed)
    except pm.errors.CompilerError:
        return True  # not defined on trial data
    assert (ran.matches_reference, ran.counts_match) == (True, True), (seed, mixed)
    return True


@pytest.mark.parametrize("first", few(range(0, 400, 5), 1))
def test_all_that_compute_a_mixed_program_agree(first: int, tmp_path: Path) -> None:
    compared = 0
    for seed in range(first, first + 5):
        (tmp_path / str(seed)).mkdir()
        compared += _case(seed, tmp_path / str(seed))
    assert compared, "no program of these seeds is defined"
