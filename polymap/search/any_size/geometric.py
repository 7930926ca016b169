"""Lower bounds of geometric programs, many of one shape at once: interior point steps, then weak duality.

A program: minimise f(z) = sum exp(log_costs + costs z) over z in lower..upper with sum exp(log_uses + uses z) <= 1 per
resource and rows z <= limits. It is convex in z (Boyd, Kim, Vandenberghe, Hassibi, A tutorial on geometric
programming, 2007). The steps only look for good multipliers; whatever they are, the bound holds: log f(z) >= L(z) for
feasible z, where L adds multiplier x constraint, and L is at least its tangent's minimum over the box.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from polymap.poly import FloatArray
from polymap.search.any_size.tuning import TUNING, Tuning

RIDGE = 1e-10  # of the curvature, against rounding
MARGIN = 1e-9  # of the logarithm; floats are wrong by some 1e-13
NOTHING = -1e9  # stands for the logarithm of 0


@dataclass(frozen=True, slots=True, eq=False)
class Programs:
    """P programs in n variables; a logarithm of -inf stands for an absent term.

    log_costs [P, I], costs [P, I, n]; log_uses [P, R, J], uses [P, R, J, n]; rows [P, m, n], limits [P, m]; lower,
    upper [P, n]; start [P, n]: strictly feasible.
    """

    log_costs: FloatArray
    costs: FloatArray
    log_uses: FloatArray
    uses: FloatArray
    rows: FloatArray
    limits: FloatArray
    lower: FloatArray
    upper: FloatArray
    start: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The solution per program.

    bounds: lower bounds on f (0 where nothing better is known). points [P, n]: the last iterates. sensitivity [P, R]:
    -d log f / d log resource there, the multiplier of the resource. row_multipliers [P, m]: with limits larger by x the
    bound is still exp(-row_multipliers x) times its value.
    """

    bounds: FloatArray
    points: FloatArray
    sensitivity: FloatArray
    row_multipliers: FloatArray


def solve(programs: Programs, tuning: Tuning = TUNING, is_over: Callable[[], bool] = lambda: False) -> Solution:
    """Return valid lower bounds and nearly optimal points; if time ends, those of the last iterates."""
    return _Barrier(programs, tuning).run(is_over)


@dataclass(frozen=True, slots=True, eq=False)
class _At:
    """Values at a point: logarithms of the terms, of f, of the resources used (0: none remains), slacks of rows and
    box."""

    terms: FloatArray
    cost: FloatArray
    used: FloatArray
    slack: FloatArray
    low: FloatArray
    high: FloatArray

    def merit(self, weight: float) -> FloatArray:
        """Return the barrier's value; nan outside."""
        with np.errstate(invalid="ignore", divide="ignore"):
            sides = (-self.used, self.slack, self.low, self.high)
            return weight * self.cost - sum(np.log(np.where(side > 0, side, np.nan)).sum(axis=1) for side in sides)


class _Barrier:
    def __init__(self, programs: Programs, tuning: Tuning) -> None:
        self.p = programs
        self.tuning = tuning
        count, self.resources, self.each = programs.log_uses.shape
        self.terms = programs.log_costs.shape[1]
        flat = programs.uses.reshape(count, self.resources * self.each, programs.start.shape[1])
        self.logs = np.maximum(
            np.concatenate([programs.log_costs, programs.log_uses.reshape(count, -1)], axis=1), NOTHING
        )
        self.rows = np.concatenate([programs.costs, flat, programs.rows], axis=1)
        self.exponents = self.rows[:, : self.logs.shape[1]]
        self.bounded: NDArray[np.bool_] = np.max(programs.log_uses, axis=2) > NOTHING

    def run(self, is_over: Callable[[], bool]) -> Solution:
        point, weight = self.p.start.copy(), self.tuning.first_weight
        best = np.zeros(len(point))
        multipliers = np.zeros(self.p.limits.shape)
        while True:
            for _ in range(self.tuning.newton_steps):
                if not self._step(point, weight) or is_over():
                    break
            now = self._bounds_at(point, weight)
            multipliers = np.where((now.bounds > best)[:, None], now.row_multipliers, multipliers)
            best = np.maximum(best, now.bounds)
            if weight >= self.tuning.last_weight or is_over():
                return replace(now, bounds=best, row_multipliers=multipliers)
            weight = min(self.tuning.last_weight, weight * self.tuning.weight_growth)

    def _at(self, z: FloatArray) -> _At:
        all_rows = (self.rows @ z[:, :, None])[:, :, 0]
        terms = self.logs + all_rows[:, : self.logs.shape[1]]
        uses = terms[:, self.terms :].reshape(len(z), self.resources, self.each)
        used = np.where(self.bounded, _log_sum(uses), -1.0)
        slack = self.p.limits - all_rows[:, self.logs.shape[1] :]
        return _At(terms, _log_sum(terms[:, : self.terms]), used, slack, z - self.p.lower, self.p.upper - z)

    def _shares(self, at: _At) -> tuple[FloatArray, FloatArray]:
        """Return each term's share of f, and of its resource [P, R, J]."""
        uses = at.terms[:, self.terms :].reshape(len(at.cost), self.resources, self.each)
        of_uses = np.where(self.bounded[:, :, None], np.exp(uses - at.used[:, :, None]), 0.0)
        return np.exp(at.terms[:, : self.terms] - at.cost[:, None]), of_uses

    def _slopes(self, of_cost: FloatArray, of_uses: FloatArray) -> FloatArray:
        """Return the gradients of log f and of the logarithms of the resources [P, 1 + R, n]."""
        uses = self.p.uses
        found = [of_cost[:, None, :] @ self.p.costs]
        found += [of_uses[:, r, None, :] @ uses[:, r] for r in range(self.resources)]
        return np.concatenate(found, axis=1)

    def _step(self, z: FloatArray, weight: float) -> bool:
        """Take a damped Newton step in place; return whether any program still moves."""
        now = self._at(z)
        of_cost, of_uses = self._shares(now)
        slopes = self._slopes(of_cost, of_uses)
        inverse = np.where(self.bounded, -1 / now.used, 0.0)
        firsts = np.concatenate([np.full((len(z), 1), weight), inverse], axis=1)
        seconds = np.concatenate([np.full((len(z), 1), -weight), inverse**2 - inverse], axis=1)
        weights = np.concatenate(
            [weight * of_cost, (inverse[:, :, None] * of_uses).reshape(len(z), -1), now.slack**-2], axis=1
        )
        gradient = (firsts[:, None, :] @ slopes)[:, 0] - 1 / now.low + 1 / now.high
        gradient += ((1 / now.slack)[:, None, :] @ self.p.rows)[:, 0]
        hessian = self.rows.transpose(0, 2, 1) @ (weights[:, :, None] * self.rows)
        hessian += slopes.transpose(0, 2, 1) @ (seconds[:, :, None] * slopes)
        diagonal = np.arange(len(hessian[0]))
        hessian[:, diagonal, diagonal] += now.low**-2 + now.high**-2
        hessian[:, diagonal, diagonal] *= 1 + RIDGE
        try:
            step: FloatArray = np.negative(np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0], dtype=np.float64)
        except np.linalg.LinAlgError:
            return False
        decrement = -(gradient * step).sum(axis=1)
        return self._advance(z, (now.merit(weight), weight), step, decrement)

    def _advance(
        self, z: FloatArray, before: tuple[FloatArray, float], step: FloatArray, decrement: FloatArray
    ) -> bool:
        """Halve the step of each program until its barrier function decreases; return whether any moved."""
        old, weight = before
        waiting = decrement > self.tuning.least_decrement
        length, moved = 1.0, False
        for _ in range(self.tuning.step_halvings):
            if not waiting.any():
                break
            new = self._at(z + length * step).merit(weight)
            with np.errstate(invalid="ignore"):
                good = waiting & (new <= old - 0.1 * length * decrement)
            z[good] += length * step[good]
            moved |= bool(good.any())
            waiting = waiting & ~good
            length /= 2
        return moved

    def _bounds_at(self, z: FloatArray, weight: float) -> Solution:
        """Return lower bounds from the multipliers of the barrier at the points."""
        now = self._at(z)
        slopes = self._slopes(*self._shares(now))
        price = np.where(self.bounded, -1 / (weight * now.used), 0.0)
        worth = 1 / (weight * now.slack)
        tangent = slopes[:, 0] + (price[:, None, :] @ slopes[:, 1:])[:, 0] + (worth[:, None, :] @ self.p.rows)[:, 0]
        fall = np.minimum(-tangent * now.low, tangent * now.high).sum(axis=1)
        parts = now.cost, (price * now.used).sum(axis=1), -(worth * now.slack).sum(axis=1), fall
        bound = sum(parts) - MARGIN * (1 + sum(np.abs(part) for part in parts))
        return Solution(np.where(np.isfinite(bound), np.exp(np.minimum(bound, 600.0)), 0.0), z, price, worth)


def _log_sum(logs: FloatArray) -> FloatArray:
    top = logs.max(axis=-1)
    return top + np.log(np.exp(logs - top[..., None]).sum(axis=-1))
