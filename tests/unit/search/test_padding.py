"""Mappings of padded products, cut to size: legal trees that fit, good where dividing tiles are not."""

from __future__ import annotations

import random

from polymap import evaluate, explore, load_arch, matmul
from polymap.search.problem.goals import parse_objective
from polymap.search.problem.problem import analyse
from polymap.search.product_tiles.padding import mappings_of_padded


def test_they_are_legal_trees_that_fit() -> None:
    rng = random.Random("padding")
    met = 0
    for name in ("eyeriss_like", "simba_like", "flat3"):
        arch = load_arch(name)
        workload = matmul(*(rng.randrange(3, 200) for _ in range(3)))
        problem, objective = analyse(workload, arch), parse_objective("energy", arch)
        for mapping in list(mappings_of_padded(problem, objective, lambda: False))[:10]:
            assert evaluate(workload, arch, mapping).legal
            met += 1
    assert met > 20


def test_a_prime_product_is_proven_from_one() -> None:
    """127 x 127 x 127 on 16 x 64 compute units: the best of 128 x 128 x 128, cut to size, meets the bound."""
    arch = load_arch("simba_like")
    workload = matmul(127, 127, 127)
    problem, objective = analyse(workload, arch), parse_objective("energy", arch)
    least = min(
        evaluate(workload, arch, one).energy_pj for one in mappings_of_padded(problem, objective, lambda: False)
    )
    found = explore(workload, arch)
    assert (found.status, found.value) == ("OPTIMAL", 11_319_332.2)
    assert least == found.value
