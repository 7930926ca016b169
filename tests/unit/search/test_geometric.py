"""Bounds of geometric programs: against optima known in closed form and against points that meet the constraints."""

from __future__ import annotations

from math import inf, log

import numpy as np
from numpy.typing import NDArray

from polymap.search.any_size.geometric import Programs, solve

FloatArray = NDArray[np.float64]


def _programs(count: int, rng: np.random.Generator, variables: int = 4) -> Programs:
    """Return random programs: costs of negative powers, two resources of positive ones, variables that fall."""
    costs = -rng.integers(0, 3, (count, 5, variables)).astype(float)
    uses = rng.integers(0, 3, (count, 2, 3, variables)).astype(float)
    log_uses = np.log(rng.uniform(0.001, 0.01, (count, 2, 3)))
    log_uses[:, 1, 2] = -inf
    rows = np.zeros((count, variables - 1, variables))
    for m in range(variables - 1):
        rows[:, m, m], rows[:, m, m + 1] = -1, 1
    start = np.tile(np.linspace(0.02, 0.01, variables), (count, 1))
    box = np.zeros((count, variables)), np.full((count, variables), log(100))
    return Programs(
        np.log(rng.uniform(0.1, 10, (count, 5))),
        costs,
        log_uses,
        uses,
        rows,
        np.zeros((count, variables - 1)),
        *box,
        start,
    )


def test_the_bound_meets_an_optimum_known_in_closed_form() -> None:
    """Least 1/x + 1/y with x y <= 16 (x, y in 1..100) is 1/2."""
    one = Programs(
        np.zeros((1, 2)),
        np.array([[[-1.0, 0.0], [0.0, -1.0]]]),
        np.array([[[-log(16)]]]),
        np.array([[[[1.0, 1.0]]]]),
        np.zeros((1, 0, 2)),
        np.zeros((1, 0)),
        np.zeros((1, 2)),
        np.full((1, 2), log(100)),
        np.full((1, 2), 0.01),
    )
    solved = solve(one)
    assert 0.5 * (1 - 1e-4) < solved.bounds[0] <= 0.5
    assert np.allclose(np.exp(solved.points[0]), 4, rtol=1e-2)
    # Twice the room is worth half of 1/2 to first order: f = 2 / sqrt(room).
    assert np.isclose(solved.sensitivity[0, 0], 0.5, rtol=1e-3)


def test_no_point_that_meets_the_constraints_is_below_the_bound() -> None:
    """Random points, and the points the solver ends at, cost the bound at least; the latter hardly more."""
    rng = np.random.default_rng(7)
    programs = _programs(60, rng)
    solved = solve(programs)
    ended = _cost(programs, solved.points)
    assert (ended >= solved.bounds).all()
    assert (ended <= solved.bounds * 1.001).all()
    for _ in range(400):
        points = -np.sort(-rng.uniform(0, log(100), programs.start.shape) * rng.uniform(0, 1, (60, 1)), axis=1)
        logs = programs.log_uses + np.einsum("prjn,pn->prj", programs.uses, points)
        fits = (np.exp(logs).sum(axis=2) <= 1).all(axis=1)
        assert (_cost(programs, points)[fits] >= solved.bounds[fits]).all()


def _cost(programs: Programs, points: FloatArray) -> FloatArray:
    return np.exp(programs.log_costs + np.einsum("pin,pn->pi", programs.costs, points)).sum(axis=1)
