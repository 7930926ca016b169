"""Constants of a machine from measured cycles: by which factors its own values must change.

Counts of a mapping do not depend on these constants, so each run is counted once. Its cycles are sums and maxima of
products of counts with cycles (and with one over bandwidths): a convex function with flat faces. The fit goes on
planes that touch it: the downhill simplex of Nelder and Mead (Computer Journal 7, 1965) finds the best factors by the
planes that are known, and where runs take longer than their planes say, planes are added there, until none does.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import median

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel.assembly import exact_latency
from polymap.costmodel.counting import count_mapping
from polymap.costmodel.counts import Counts
from polymap.costmodel.step_counts import StepCounts
from polymap.costmodel.step_latency import latency_of_steps
from polymap.costmodel.step_trees import counted_in_steps
from polymap.costmodel.tuning import TUNING
from polymap.inputs import answers_in_words, as_fraction, expected_list, is_list, shown
from polymap.ir import Architecture, Brief, Fanout, Mapping, Mistake, OptionError, Shown, Workload, did_you_mean
from polymap.resolve import ArchitectureLike, MappingLike, WorkloadLike, arch_of, mapping_of, workload_of
from polymap.schedules import check_mapping

Floats = NDArray[np.float64]
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
class _CountedRun:
    """A run and its counts."""

    run: MeasuredRun
    arch: Architecture
    counts: Counts
    steps: StepCounts | None

    def cycles(self, arch: Architecture) -> Fraction:
        """Return the latency on a machine with other constants, not rounded."""
        latency = exact_latency(arch, self.counts)
        return latency if self.steps is None else max(latency, latency_of_steps(arch, self.steps).cycles)


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
    if constants is None:
        constants = [name for name in _names(arch) if _value(arch, name)]
    constants = [str(name) for name in expected_list(constants, "constants")]
    known = [_count_run(run, run.arch or arch) for run in _check_runs(runs, arch, constants)]
    planes = _Planes(known, constants)
    best = _fit_factors(planes, range(len(known)))
    names = list(dict.fromkeys(run.workload.name for run in runs))
    left_out = tuple(_left_out(planes, best, name) for name in names) if len(names) > 1 else ()
    archs = tuple(_scale_machine(one.arch, constants, best) for one in known)
    error = planes.error(range(len(known)), best)
    factors = tuple(zip(constants, best, strict=True))
    return MachineFit(_scale_machine(arch, constants, best), factors, archs, error, left_out)


def _run(row: object, number: int) -> MeasuredRun:
    """Return a row of the table as a run."""
    if isinstance(row, MeasuredRun):
        return row
    if not is_list(row) or len(row) != 3:
        hint = "Expected (workload, mapping, cycles)."
        raise OptionError(Mistake("PM486", f"row {number} of the table of runs is {shown(row)}", hint))
    cycles = as_fraction(row[2])
    if cycles is None:
        what = f"the cycles of row {number} of the table of runs are {shown(row[2])}"
        raise OptionError(Mistake("PM486", what, "Expected a number above 0."))
    return MeasuredRun(workload_of(row[0]), mapping_of(row[1]), float(cycles))


def _count_run(run: MeasuredRun, arch: Architecture) -> _CountedRun:
    check_mapping(run.workload, arch, run.mapping)
    counts, _ = count_mapping(run.workload, arch, run.mapping, seconds=TUNING.count_limit_s)
    steps = counted_in_steps(run.workload, arch, run.mapping, counts) if arch.is_timed_by_step else None
    return _CountedRun(run, arch, counts, steps)


def _check_runs(runs: list[MeasuredRun], arch: Architecture, constants: Sequence[str]) -> list[MeasuredRun]:
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


def _scale_machine(arch: Architecture, constants: Sequence[str], factors: Sequence[float]) -> Architecture:
    """Return the machine with its constants times the factors, to six digits."""
    changes: dict[str, dict[str, Fraction]] = {}
    for name, factor in zip(constants, factors, strict=True):
        owner, _, field = name.rpartition(".")
        value = _value(arch, name)
        assert value is not None, "only constants with values are fitted"
        changes.setdefault(owner, {})[field] = Fraction(f"{float(value) * factor:.6g}")
    nodes = tuple(replace(node, **changes[node.name]) if node.name in changes else node for node in arch.nodes)
    return replace(arch, nodes=nodes, **changes.get("", {}))


class _Planes:
    """Planes that touch the cycles of runs from below: cycles = slopes x shares + rest, of each constant the share its
    factor, or one over that of a bandwidth."""

    def __init__(self, known: Sequence[_CountedRun], constants: Sequence[str]) -> None:
        self.known, self.constants = known, constants
        self._signs = np.array([-1.0 if name.endswith("bandwidth_bits_per_cycle") else 1.0 for name in constants])
        self._planes: list[list[Floats]] = [[] for _ in known]
        begin = np.zeros(len(constants))
        self.touch(range(len(known)), begin, self.exact(range(len(known)), begin))

    def exact(self, runs: Sequence[int], logs: Floats) -> Floats:
        """Return the cycles of some runs by the logarithms of the factors."""
        machines: dict[int, Architecture] = {}
        for arch in (self.known[run].arch for run in runs):
            if id(arch) not in machines:
                machines[id(arch)] = _scale_machine(arch, self.constants, np.exp(logs).tolist())
        return np.array([float(self.known[run].cycles(machines[id(self.known[run].arch)])) for run in runs])

    def error(self, runs: Sequence[int], factors: Sequence[float]) -> float:
        """Return the median of |predicted / measured - 1| of some runs."""
        measured = [self.known[run].run.cycles for run in runs]
        return float(np.median(np.abs(self.exact(runs, np.log(factors)) / measured - 1)))

    def touch(self, runs: Sequence[int], logs: Floats, cycles: Floats) -> None:
        """Add the plane of each of some runs that touches its cycles where these are known."""
        shares, small = np.exp(logs * self._signs), 2.0**-10
        moved = [logs + self._signs * math.log1p(small) * (place == np.arange(len(logs))) for place in range(len(logs))]
        slopes = np.array([(self.exact(runs, there) - cycles) for there in moved]).T / (small * shares)
        for run, own, value in zip(runs, slopes, cycles, strict=True):
            self._planes[run].append(np.append(own, value - own @ shares))

    def below(self, runs: Sequence[int]) -> Callable[[Sequence[float]], Floats]:
        """Return the function from logarithms of factors to the largest of each run's planes."""
        flat = np.array([plane for run in runs for plane in self._planes[run]])
        first = np.cumsum([0, *(len(self._planes[run]) for run in runs)])[:-1]
        return lambda logs: np.maximum.reduceat(flat @ np.append(np.exp(logs * self._signs), 1.0), first)


def _fit_factors(planes: _Planes, runs: Sequence[int], begin: Sequence[float] = ()) -> list[float]:
    """Return the factors that are best for some runs, each workload as important as another; of factors that are as
    good those nearest to 1. begin: factors to begin with, beside 1."""
    own = [planes.known[run].run for run in runs]
    number = Counter(run.workload.name for run in own)
    weights = np.array([1 / number[run.workload.name] for run in own]) / len(number)
    measured = np.log([run.cycles for run in own])

    def loss(logs: Sequence[float], cycles: Floats) -> float:
        errors = np.abs(np.log(np.maximum(cycles, 1.0)) - measured)
        return float(errors @ weights) + TUNING.fit_pull * sum(map(abs, logs))

    best, found = math.inf, [0.0] * len(planes.constants)
    starts = [found, [math.log(each) for each in begin or [1.0] * len(found)]]
    for _ in range(TUNING.fit_rounds):
        told = planes.below(runs)
        tried = min(_settle_factors(loss, told, start) for start in starts)[1]
        cycles, bounds = planes.exact(runs, np.array(tried)), told(tried)
        best, found = min((best, found), (loss(tried, cycles), tried))
        starts[1] = found
        missed = cycles > bounds * (1 + TUNING.fit_precision)
        if not missed.any():
            break
        planes.touch(np.array(runs)[missed].tolist(), np.array(tried), cycles[missed])
    return [math.exp(log) for log in found]


def _settle_factors(
    loss: Callable[[Sequence[float], Floats], float], told: Callable[[Sequence[float]], Floats], begin: list[float]
) -> tuple[float, list[float]]:
    """Return the least loss of told cycles that simplexes find, each begun half as large where the last one ended, and
    where."""

    def told_loss(logs: Sequence[float]) -> float:
        return loss(logs, told(logs))

    found = told_loss(begin), begin
    for halvings in range(TUNING.fit_restarts):
        point = downhill(told_loss, found[1], TUNING.fit_steps, 0.5**halvings)
        found = min(found, (told_loss(point), point))
    return found


def _left_out(planes: _Planes, best: Sequence[float], name: str) -> LeftOut:
    names = [one.run.workload.name for one in planes.known]
    factors = _fit_factors(planes, [run for run, other in enumerate(names) if other != name], best)
    own = [run for run, other in enumerate(names) if other == name]
    rank = rank_correlation(planes.exact(own, np.log(factors)).tolist(), [planes.known[run].run.cycles for run in own])
    return LeftOut(name, len(own), planes.error(own, factors), rank)


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


def downhill(
    loss: Callable[[Sequence[float]], float], begin: Sequence[float], steps: int, size: float = 1.0
) -> list[float]:
    """Return a point at which a function is small, near where it begins, by reflections of a simplex of this size."""
    count = len(begin)
    points = [list(begin), *([each + size * (n == place) for n, each in enumerate(begin)] for place in range(count))]
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
