"""What a mapping costs, as data: the counts (integers) and what follows from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from polymap.costmodel.symbolic import Formula
from polymap.ir import BudgetError, Mistake, Shown, Violation


@dataclass(frozen=True, slots=True)
class Traffic:
    """Elements of `tensor` read and written at `level`, summed over its instances; fills are part of writes, drains
    part of reads."""

    level: str
    tensor: str
    reads: int
    writes: int
    fills: int
    drains: int


@dataclass(frozen=True, slots=True)
class LevelUse:
    """What one instance of a level has at most: bits held at one time, and bits moved in the whole run.

    The three busiest figures are each the largest over the instances (their sums over the tensors held).
    """

    level: str
    occupancy_bits: int
    busiest_read_bits: int
    busiest_write_bits: int
    busiest_total_bits: int


@dataclass(frozen=True, slots=True)
class Counts:
    """All integers of one mapping, from whichever implementation counted them.

    traffic: one row per (level, tensor) held, outermost level first, tensors in the workload's order.
    uses: one row per level, outermost first. steps: clock ticks. instances: statement instances executed.
    """

    instances: int
    steps: int
    traffic: tuple[Traffic, ...]
    uses: tuple[LevelUse, ...]


@dataclass(frozen=True, slots=True)
class Cost(Shown):
    """The answer to "what does this mapping cost"; printed as the table of the command line's `evaluate`.

    energy_by_level_pj and occupancy_bits: (name, value) pairs, outermost first (the compute unit last in the energy;
    the outermost level has no occupancy). bottleneck: the level or compute unit that decides the latency. formulas:
    how `formula` answers; no part of the value.
    """

    legal: bool
    violations: tuple[Violation, ...]
    instances: int
    method: str
    traffic: tuple[Traffic, ...]
    occupancy_bits: tuple[tuple[str, int], ...]
    energy_pj: float
    energy_by_level_pj: tuple[tuple[str, float], ...]
    compute_cycles: int
    latency_cycles: int
    utilization: float
    bottleneck: str
    formulas: Callable[[str, str], Formula] | None = field(default=None, repr=False, compare=False)

    def formula(self, level: str, tensor: str) -> Formula:
        """Return what `tensor` moves at `level` as sympy expressions in the mapping's tiles, and where they hold.

        Raises OptionError where the level does not hold the tensor, BudgetError where there is no such formula.
        """
        if self.formulas is None:
            what = "this cost does not know its mapping"
            raise BudgetError(Mistake("PM496", what, "Use the cost that evaluate() or simulate() returned."))
        return self.formulas(level, tensor)
