"""Constants of a machine from measured cycles: by which factors its own values must change.

Counts of a mapping do not depend on these constants, so each run is counted once; what is minimised is the mean
absolute logarithm of predicted / measured cycles, by the downhill simplex of Nelder and Mead (Computer Journal 7, 1965)
over the logarithms of the factors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import median

from polymap.costmodel.assembly import latency_cycles
from polymap.costmodel.counting import counted
from polymap.costmodel.counts import Counts
from polymap.costmodel.step_counts import StepCounts, counted_in_steps
from polymap.costmodel.step_latency import latency_of_steps
from polymap.costmodel.tuning import TUNING
from polymap.inputs import answers_in_words, as_fraction, expected_list, is_list, shown
from polymap.ir import Architecture, Brief, Fanout, Mapping, Mistake, OptionError, Shown, Workload, did_you_mean
from polymap.resolve import ArchitectureLike, MappingLike, WorkloadLike, arch_of, mapping_of, workload_of
from polymap.schedules import check_mapping

_FITTED = (
    "step_cycles",
    "request_latency_cycles",
    "bandwidth_bits_per_cycle",
    "read_bandwidth_bits_per_cycle",
    "write_bandwidth_bits_per_cycle",
    "pass_least_cycles",
    "fill_cycles",
    "preload_cycles",
    "miss_cycles",
    "write_miss_cycles",
)


@dataclass(frozen=True, slots=True, repr=False)
class MeasuredRun(Brief):
    """Cycles that a mapping took. arch: the machine that it ran on, with the constants to begin with, where that is
    another one than `fit_machine` is asked about (arrays of several sizes)."""

    workload: Workload
    mapping: Mapping
    cycles: float
    arch: Architecture | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A workload that was predicted by constants fitted on all others: the median of |predicted / measured - 1|, and
    the rank correlation (Spearman; None of fewer than three runs or runs that are alike)."""

    workload: str
    runs: int
    error: float
    rank: float | None


@dataclass(frozen=True, slots=True, repr=False)
class MachineFit(Shown):
    """Constants fitted to measured cycles. arch: the machine with these; factors: (constant, by what its own value was
    multiplied); archs: the machine of each run, likewise; error: the median of |predicted / measured - 1|; left_out:
    per workload."""

    arch: Architecture
    factors: tuple[tuple[str, float], ...]
    archs: tuple[Architecture, ...]
    error: float
    left_out: tuple[LeftOut, ...]

    def __str__(self) -> str:
        lines = [f"{name}: times {factor:.4g}" for name, factor in self.factors]
        left_out = f", of workloads left out {100 * self.left_out_error:.1f} %" if self.left_out else ""
        lines.append(f"median error {100 * self.error:.1f} %{left_out}")
        for each in self.left_out:
            rank = "" if each.rank is None else f", rank correlation {each.rank:.3f}"
            lines.append(f"  {each.workload}: {each.runs} runs, median error {100 * each.error:.1f} %{rank}")
        return "\n".join(lines)

    @property
    def left_out_error(self) -> float:
        """The median over workloads of their errors while left out; `error` where there is one workload."""
        return median([each.error for each in self.left_out] or [self.error])


@dataclass(frozen=True, slots=True)
class _Counted:
    """A run and its counts."""

    run: MeasuredRun
    arch: Architecture
    counts: Counts
    steps: StepCounts | None

    def cycles(self, arch: Architecture) -> int:
        """Return the latency on a machine with other constants."""
        latency = latency_cycles(arch, self.counts)
        return latency if self.steps is None else max(latency, math.ceil(latency_of_steps(arch, self.steps).cycles))


@answers_in_words
def fit_machine(
    arch: ArchitectureLike,
    table: Sequence[MeasuredRun | tuple[WorkloadLike, MappingLike, float]],
    constants: Sequence[str] | None = None,
) -> MachineFit:
    """Return the machine whose latencies are nearest to measured cycles, and how far off these are for workloads that
    are left out of the fit.

    table: (workload, mapping, cycles) of each run. constants: what is fitted: "start_cycles", or a node and a field,
    such as "DRAM.request_latency_cycles", with a value above 0 in the machine of each run, which is multiplied (None:
    all that the machine states). Raises OptionError (PM486) for other ones, and for no runs; BudgetError where a run is
    not counted.
    """
    arch = arch_of(arch)
    runs = [_run(row, number) for number, row in enumerate(expected_list(table, "the table of runs"))]
    constants = [name for name in _names(arch) if _value(arch, name)] if constants is None else list(constants)
    known = [_counted(run, run.arch or arch) for run in _checked(runs, arch, constants)]
    best = _fitted(known, constants, [1.0] * len(constants), TUNING.fit_steps)
    names = list(dict.fromkeys(run.workload.name for run in runs))
    left_out = tuple(_left_out(known, constants, best, name) for name in names) if len(names) > 1 else ()
    archs = tuple(_scaled(one.arch, constants, best) for one in known)
    error = median(_error(one, arch) for one, arch in zip(known, archs, strict=True))
    factors = tuple(zip(constants, best, strict=True))
    return MachineFit(_scaled(arch, constants, best), factors, archs, error, left_out)


def _run(row: object, number: int) -> MeasuredRun:
    """Return a row of the table as a run."""
    if isinstance(row, MeasuredRun):
        return row
    if not is_list(row) or len(row) != 3:
        hint = "Expected (workload, mapping, cycles)."
        raise OptionError(Mistake("PM486", f"row {number} of the table of runs is {shown(row)}", hint))
    cycles = as_fraction(row[2])
    return MeasuredRun(workload_of(row[0]), mapping_of(row[1]), 0.0 if cycles is None else float(cycles))


def _counted(run: MeasuredRun, arch: Architecture) -> _Counted:
    check_mapping(run.workload, arch, run.mapping)
    counts, _ = counted(run.workload, arch, run.mapping, seconds=TUNING.count_limit_s)
    steps = counted_in_steps(run.workload, arch, run.mapping, counts) if arch.is_timed_by_step else None
    return _Counted(run, arch, counts, steps)


def _checked(runs: list[MeasuredRun], arch: Architecture, constants: Sequence[str]) -> list[MeasuredRun]:
    if not runs or not constants:
        hint = "Expected rows (workload, mapping, cycles), and a machine that states constants."
        raise OptionError(Mistake("PM486", "there is nothing to fit: no runs or no constants", hint))
    for machine in dict.fromkeys([arch, *(run.arch for run in runs if run.arch is not None)]):
        known = _names(machine)
        for name in constants:
            if name not in known:
                hint = did_you_mean(name, known) or f"Expected one of {', '.join(known)}."
                raise OptionError(Mistake("PM486", f"{machine.name} has no constant '{name}' to fit", hint))
            if not _value(machine, name):
                hint = "A factor is fitted: give it a value to begin with."
                raise OptionError(Mistake("PM486", f"'{name}' is 0 or unlimited in {machine.name}", hint))
    for run in runs:
        if not (run.cycles > 0 and math.isfinite(run.cycles)):
            what = f"a run of {run.workload.name} took {run.cycles} cycles"
            raise OptionError(Mistake("PM486", what, "Expected a number above 0."))
    return runs


def _names(arch: Architecture) -> list[str]:
    """Return the constants of a machine that can be fitted."""
    return ["start_cycles", *(f"{node.name}.{field}" for node in arch.nodes for field in _fields(node))]


def _fields(node: object) -> list[str]:
    return [] if isinstance(node, Fanout) else [field for field in _FITTED if hasattr(node, field)]


def _value(arch: Architecture, name: str) -> Fraction | None:
    owner, _, field = name.rpartition(".")
    return getattr(next((node for node in arch.nodes if node.name == owner), arch), field)


def _scaled(arch: Architecture, constants: Sequence[str], factors: Sequence[float]) -> Architecture:
    """Return the machine with its constants times the factors, to three digits."""
    changes: dict[str, dict[str, Fraction]] = {}
    for name, factor in zip(constants, factors, strict=True):
        owner, _, field = name.rpartition(".")
        value = _value(arch, name)
        assert value is not None, "only constants with values are fitted"
        changes.setdefault(owner, {})[field] = Fraction(f"{float(value) * factor:.3g}")
    nodes = tuple(replace(node, **changes[node.name]) if node.name in changes else node for node in arch.nodes)
    return replace(arch, nodes=nodes, **changes.get("", {}))


def _error(one: _Counted, arch: Architecture) -> float:
    return abs(one.cycles(arch) / one.run.cycles - 1)


def _fitted(known: Sequence[_Counted], constants: Sequence[str], begin: Sequence[float], steps: int) -> list[float]:
    """Return the factors that are best for these runs, from others on."""

    def loss(logs: Sequence[float]) -> float:
        machines: dict[int, Architecture] = {}
        total = 0.0
        for one in known:
            key = id(one.arch)
            if key not in machines:
                machines[key] = _scaled(one.arch, constants, [math.exp(log) for log in logs])
            total += abs(math.log(max(1, one.cycles(machines[key])) / one.run.cycles))
        return total / len(known)

    return [math.exp(log) for log in downhill(loss, [math.log(each) for each in begin], steps)]


def _left_out(known: Sequence[_Counted], constants: Sequence[str], best: Sequence[float], name: str) -> LeftOut:
    own = [one for one in known if one.run.workload.name == name]
    others = [one for one in known if one.run.workload.name != name]
    factors = _fitted(others, constants, best, TUNING.refit_steps)
    archs = [_scaled(one.arch, constants, factors) for one in own]
    predicted = [float(one.cycles(arch)) for one, arch in zip(own, archs, strict=True)]
    error = median(_error(one, arch) for one, arch in zip(own, archs, strict=True))
    return LeftOut(name, len(own), error, rank_correlation(predicted, [one.run.cycles for one in own]))


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Return Spearman's correlation, equal values at their mean rank; None where one does not vary or of fewer than
    three."""
    ranks = [_ranks(values) for values in (one, other)]
    mean = (len(one) - 1) / 2
    spread = [sum((rank - mean) ** 2 for rank in own) for own in ranks]
    if len(one) < 3 or not all(spread):
        return None
    return sum((a - mean) * (b - mean) for a, b in zip(*ranks, strict=True)) / math.sqrt(spread[0] * spread[1])


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(each < value for each in values) + (values.count(value) - 1) / 2 for value in values]


def downhill(loss: Callable[[Sequence[float]], float], begin: Sequence[float], steps: int) -> list[float]:
    """Return a point at which a function is small, near where it begins, by reflections of a simplex."""
    count = len(begin)
    points = [list(begin), *([each + 0.7 * (n == place) for n, each in enumerate(begin)] for place in range(count))]
    ranked = sorted((loss(point), point) for point in points)
    for _ in range(steps):
        worst = ranked[-1]
        middle = [sum(point[n] for _, point in ranked[:-1]) / count for n in range(count)]

        def tried(
            distance: float, middle: list[float] = middle, worst: list[float] = worst[1]
        ) -> tuple[float, list[float]]:
            point = [m + distance * (m - w) for m, w in zip(middle, worst, strict=True)]
            return loss(point), point

        found = tried(1.0)
        if found < ranked[0]:
            found = min(found, tried(2.0))
        elif found >= ranked[-2]:
            found = min(found, tried(0.5), tried(-0.5))
        if found < worst:
            ranked = sorted((*ranked[:-1], found))
        else:
            first = ranked[0][1]
            shrunk = ([(a + b) / 2 for a, b in zip(first, point, strict=True)] for _, point in ranked[1:])
            ranked = sorted((ranked[0], *((loss(point), point) for point in shrunk)))
    return ranked[0][1]
