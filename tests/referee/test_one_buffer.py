"""What a product moves at least through one buffer: no legal tree is below it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

import pytest

import polymap as pm
from polymap.ir import Architecture, Workload
from polymap.search.enumeration.trees import exhaustive
from polymap.search.objective import measure_of
from polymap.search.problem import analyse, parse_objective
from polymap.search.product_bounds import one_buffer

EINSUMS = ("C[m,n] += A[m,k] * B[k,n]", "C[n,m] += A[k,m] * B[k,n]", "C[k,n] += A[m,k] * B[m,n]")


def questions(rng: random.Random) -> Iterator[tuple[Workload, Architecture, str]]:
    """Yield small products with a machine of two levels and an objective."""
    while True:
        sizes = {dim: rng.choice((1, 2, 3, 3, 4, 5, 5, 6, 7, 8, 9)) for dim in "mnk"}
        bits = {tensor: rng.choice((1, 2, 3, 8)) for tensor in "ABC"}
        document = {"name": "p", "einsum": rng.choice(EINSUMS), "sizes": sizes, "bits": bits}
        words = rng.choice((3, 5, 8, 12, 20, 30, 50))
        energy = {"word_bits": 1, "read_pj": rng.choice((0, 1, 100)), "write_pj": rng.choice((0, 1, 100))}
        levels = [
            {"level": "DRAM", "word_bits": 1, "read_pj": 100, "write_pj": 100},
            {"level": "BUF", "capacity_bits": words * rng.choice((1, 2, 5)), **energy},
        ]
        if rng.random() < 0.4:
            levels[1]["must_hold"] = rng.sample("ABC", rng.choice((1, 2, 3)))
        nodes = [*levels, {"compute": "MAC", "pj": 0, "per_cycle": 1}]
        arch = pm.arch_from_document({"name": "b", "nodes": nodes})
        yield pm.workload_from_document(document), arch, rng.choice(("energy", "traffic:DRAM"))


def bound_of(workload: Workload, arch: Architecture, objective: str) -> Fraction | None:
    """Return the bound in the objective's unit."""
    measure = measure_of(parse_objective(objective, arch), workload, arch)
    least = one_buffer.least_on_one_buffer(analyse(workload, arch), measure)
    return None if least is None else measure.unscaled(least + measure.fixed_energy)


def first_wrong(seed: str, problems: int, most: int = 700) -> str | None:
    """Return the first of some small problems whose best tree is below the bound (None: there is none)."""
    checked = met = 0
    for workload, arch, objective in questions(random.Random(seed)):
        extents = workload.extents()
        if extents["m"] * extents["n"] * extents["k"] > most:
            continue
        bound = bound_of(workload, arch, objective)
        true = exhaustive(workload, arch, objective, "any")
        if true is None or true.value is None:
            continue
        assert bound is not None, (workload, arch)
        if bound > true.value:
            return f"{workload}\n{arch}\n{objective}: {bound} above {true.value}"
        met += bound == true.value
        checked += 1
        if checked == problems:
            assert met * 3 > checked  # it is no idle bound
            return None
    return None


@pytest.mark.parametrize("seed", range(4))
def test_no_tree_is_below_the_bound(seed: int) -> None:
    assert first_wrong(f"one buffer {seed}", 12) is None
