"""Objectives: the quantities that are minimised, and their combinations."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from itertools import combinations


@dataclass(frozen=True, slots=True)
class Powers:
    """A product of powers of energy and latency, in pJ and cycles."""

    energy: int
    cycles: int

    def product(self, energy: Fraction, cycles: Fraction) -> Fraction:
        """Return energy^self.energy * cycles^self.cycles."""
        return Fraction(energy**self.energy * cycles**self.cycles)

    def price(self, energy: Fraction, cycles: int) -> Fraction:
        """Return the energy that a cycle is worth near some energy and cycles."""
        return self.cycles * energy / (self.energy * max(1, cycles))

    def least_product(
        self, energy: Fraction, cycles: Fraction, sums: Collection[tuple[Fraction, Fraction]]
    ) -> Fraction:
        """Return the least product where energy and cycles are at least so much, and of some (price, sum) energy +
        price * cycles is at least the sum: between two corners of what is left the product is above one of both."""
        corners = {cycles, *((least - energy) / price for price, least in sums)}
        pairs = ((one, other) for one, other in combinations(sums, 2) if one[0] != other[0])
        corners |= {(one[1] - other[1]) / (one[0] - other[0]) for one, other in pairs}
        return min(
            self.product(max((energy, *(least - price * at for price, least in sums))), at)
            for at in corners
            if at >= cycles
        )

    @property
    def unit(self) -> str:
        """Return the unit of the values, such as "pJ*cycle^2"."""
        factors = [("pJ", self.energy), ("cycle", self.cycles)]
        unit = "*".join(name if power == 1 else f"{name}^{power}" for name, power in factors if power)
        return "cycles" if unit == "cycle" else unit


class Goal(Enum):
    """The quantity that is minimised; the last three combine other objectives."""

    ENERGY = "energy"
    LATENCY = "latency"
    EDP = "edp"
    ED2P = "ed2p"
    TRAFFIC = "traffic"
    CAPACITY = "capacity"
    BURSTS = "bursts"
    REQUESTS = "requests"
    WEIGHTED = "weighted"
    LEXICOGRAPHIC = "lex"
    PARETO = "pareto"

    @property
    def powers(self) -> Powers | None:
        """The powers of energy and latency in the objective; None for one that is not such a product."""
        return _POWERS.get(self)


_POWERS = {
    Goal.ENERGY: Powers(1, 0),
    Goal.LATENCY: Powers(0, 1),
    Goal.EDP: Powers(1, 1),
    Goal.ED2P: Powers(1, 2),
}


@dataclass(frozen=True, slots=True)
class Objective:
    """One objective. level: of TRAFFIC (bits read and written there), CAPACITY (bits that one instance holds), BURSTS
    and REQUESTS (of the outermost level, read and written).

    text: as the user wrote it. parts: of WEIGHTED, LEXICOGRAPHIC and PARETO, each with its weight (1 without one).
    laid: of BURSTS and REQUESTS, (tensor, layouts that it may have), "" for those that are not named; else by rows.
    """

    goal: Goal
    level: str | None
    text: str
    parts: tuple[tuple[Fraction, Objective], ...] = ()
    laid: tuple[tuple[str, str], ...] = ()

    @property
    def is_of_pieces(self) -> bool:
        """Whether the value depends on bursts or requests, which no sum of traffic says."""
        return self.goal in PIECES or any(part.is_of_pieces for _, part in self.parts)

    @property
    def singles(self) -> tuple[Objective, ...]:
        """The objectives with one value each: the parts of an order or a front, else the objective itself."""
        if self.goal in (Goal.LEXICOGRAPHIC, Goal.PARETO):
            return tuple(part for _, part in self.parts)
        return (self,)


PIECES = (Goal.BURSTS, Goal.REQUESTS)
PLAIN = tuple(goal.value for goal in _POWERS)
AT_LEVEL = ("traffic", "capacity", *(goal.value for goal in PIECES))
JOINED = ("weighted", "lex", "pareto")
SINGLE_FORMS = (*PLAIN, *(f"{name}:LEVEL" for name in AT_LEVEL))  # of the objectives with one value


def objective_unit(text: str) -> str:
    """Return the unit of the values of an objective such as "edp" or "traffic:DRAM" ("" for a weighted sum)."""
    kind = text.partition(":")[0]
    powers = next((goal.powers for goal in Goal if goal.value == kind), None)
    if kind in (goal.value for goal in PIECES):
        return kind
    return powers.unit if powers else "bits" if kind in AT_LEVEL else ""


def unit_of(objective: str) -> str:
    """Return the unit of an objective's values after a space ("" for a weighted sum)."""
    unit = objective_unit(objective)
    return f" {unit}" if unit else ""
