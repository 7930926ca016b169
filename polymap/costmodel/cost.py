"""What a mapping costs, as data: the counts (integers) and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from polymap.costmodel.counts import Traffic, WireUse
from polymap.inputs import answers_in_words
from polymap.ir import Architecture, BudgetError, Mapping, MaybeNone, Mistake, Reported, Violation, Workload

if TYPE_CHECKING:
    from polymap.costmodel.closed_form import Formula


@dataclass(frozen=True, slots=True)
class StepClass:
    """The steps of a level that the advance of one loop begins ("" of the first step), with means over them in cycles.

    binds: what decides the period: "load", "work", "store", "issue" (beginning a step), or "slots" (all in turn).
    cause: what loads take most of their cycles for: beats, waits for requests, or missed lines, of a tensor, and where.
    below: the statements whose steps these are, in a tree with branches.
    """

    level: str
    loop: str
    steps: int
    load_cycles: Fraction
    work_cycles: Fraction
    store_cycles: Fraction
    period_cycles: Fraction
    binds: str
    cause: str = ""
    below: str = ""


@dataclass(frozen=True, slots=True)
class StepLatency:
    """The cycles of a run in steps, and the classes of the steps of each level that holds tiles, outermost first."""

    cycles: Fraction
    classes: tuple[StepClass, ...]

    @property
    def bottleneck(self) -> str:
        """The level whose steps decide the latency, the outermost one at which most cycles are not work inside; ""
        where the compute unit does."""
        for name in dict.fromkeys(each.level for each in self.classes):
            cycles = {kind: Fraction(0) for kind in ("work", "other")}
            for each in self.classes:
                if each.level == name:
                    cycles["work" if each.binds == "work" else "other"] += each.steps * each.period_cycles
            if cycles["other"] > cycles["work"]:
                return name
        return ""


@dataclass(frozen=True, slots=True, repr=False)
class Cost(Reported):
    """The answer to "what does this mapping cost"; printed as the table of the command line's `evaluate`.

    energy_by_level_pj and occupancy_bits: (name, value) pairs, outermost first (the compute unit last in the energy;
    the outermost level has no occupancy); energy_by_level_pj_exact: the same energies before rounding to floats.
    Fan-outs that cost energy stand among the levels, and in wires with what crosses them.
    bottleneck: the level or compute unit that decides the latency. steps: what single steps take, on a machine that
    says so. workload, arch, mapping: what the cost is of, which
    explain(), table(), show(), c() and save() need (None where it was assembled without them); costs are equal where
    their figures are, whatever they are of.
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
    energy_by_level_pj_exact: tuple[tuple[str, Fraction], ...] = field(repr=False)
    wires: tuple[WireUse, ...] = ()
    steps: StepLatency | None = field(default=None, compare=False, repr=False)
    workload: Workload | MaybeNone = field(default=None, compare=False, repr=False)
    arch: Architecture | MaybeNone = field(default=None, compare=False, repr=False)
    mapping: Mapping | MaybeNone = field(default=None, compare=False, repr=False)

    @property
    def energy_pj_exact(self) -> Fraction:
        """The energy of the whole run in pJ, exactly: accesses, leakage and compute."""
        return sum((energy for _, energy in self.energy_by_level_pj_exact), Fraction(0))

    @answers_in_words
    def formula(self, level: str, tensor: str) -> Formula:
        """Return what `tensor` moves at `level` as sympy expressions in the mapping's tiles, and where they hold.

        Raises OptionError where the level does not hold the tensor, BudgetError where there is no such formula.
        """
        if self.workload is None or self.arch is None or self.mapping is None:
            what = "this cost does not know its mapping"
            raise BudgetError(Mistake("PM496", what, "Use the cost that evaluate() or simulate() returned."))
        from polymap.costmodel.closed_form import formula  # sympy is loaded by those who ask for a formula

        return formula(self.workload, self.arch, self.mapping, level, tensor)
