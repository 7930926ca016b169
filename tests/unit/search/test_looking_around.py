"""What local search may score once the structures of a search are listed, and what families of mappings add."""

from __future__ import annotations

import pytest

import polymap as pm
from polymap.networks import comparison
from polymap.resources import Limits, Memory
from polymap.search.local import DividingPolish, climber_for
from polymap.search.local.tuning import TUNING
from polymap.search.problem import measure_of, parse_objective

LAYER, FLAT = pm.matmul(m=64, n=48, k=96), pm.load_arch("flat3")
ENERGY = parse_objective("energy", FLAT)


@pytest.mark.parametrize(
    ("structures", "trees"), [(10, 0), (20_000, int(20_000 * TUNING.per_structure)), (None, TUNING.most_when_listed)]
)
def test_trees_are_paid_by_structures_whatever_the_clock_says(structures: int | None, trees: int) -> None:
    limits = Limits(iter(range(10**9)).__next__, 1, Memory(None))  # each look at the clock takes a second
    climber = climber_for(LAYER, FLAT, ENERGY, (), divide=True, seed=0)
    assert climber is not None
    polish = DividingPolish(climber, measure_of(ENERGY, LAYER, FLAT), limits, has_window=False)
    found = polish.listed(structures, None)
    assert climber.scored >= trees
    assert (found is None) == (trees == 0)
    if found is not None:
        assert measure_of(ENERGY, LAYER, FLAT).unscaled(found[0]) >= pm.explore(LAYER, FLAT, tiles="divide").value


def test_a_better_mapping_of_a_family_is_the_best_of_all() -> None:
    ranked = list(pm.candidates(LAYER, FLAT, limit=30))
    best, worse = ranked[0], ranked[-1]
    assert best[1].energy_pj < worse[1].energy_pj
    known = {comparison.OPTIMUM: worse}
    comparison.take_in(known, {"weight-stationary": best}, (LAYER, FLAT, ENERGY))
    assert known == {comparison.OPTIMUM: best, "weight-stationary": best}
