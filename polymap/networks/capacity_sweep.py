"""The size of a buffer against the best traffic and the best energy, with what nothing beats, the knee, and the
machine's own size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from polymap.explore import search
from polymap.formatting import size
from polymap.inputs import answers_in_words, expected_kind
from polymap.ir import Shown
from polymap.networks.buffer_sweep import sizes_of, with_capacity
from polymap.networks.told import whole_bound
from polymap.networks.tuning import TUNING
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of
from polymap.search import Options


@dataclass(frozen=True, slots=True)
class CapacityPoint:
    """One size: bits moved at the outermost level and energy in pJ of the best mappings known (None: of none), and what
    no mapping with dividing tiles beats. fits: whether there is a mapping; None where that is not known."""

    bits: int
    moved_bits: float | None
    moved_bound: float
    energy_pj: float | None
    energy_bound: float
    fits: bool | None = True


@dataclass(frozen=True, slots=True, repr=False)
class CapacityCurve(Shown):
    """Points by rising size; own: the machine's own size in bits (None: unlimited); knee: the least size whose
    energy is proven to be within 5 % of that of the largest, None where no size is proven to be the least one."""

    title: str
    level: str
    outermost: str
    points: tuple[CapacityPoint, ...]
    own: int | None
    knee: int | None

    @property
    def sentence(self) -> str:
        """Why the curve is flat where it is flat, as far as values and bounds prove it."""
        if all(point.fits is False for point in self.points):
            return "Nothing fits."
        if len(self.points) == 1:
            return "A single size does not tell what more would save."
        if self.knee is None:
            return f"Which size of {self.level} is large enough is not known: the values are not proven."
        if self.knee == self.points[-1].bits:
            return "No smaller size shown is enough: each costs over 5 % more energy than the largest."
        saved = f"more of {self.level}, up to {size(self.points[-1].bits)}, saves less than 5 % of the energy"
        if self.knee == self.points[0].bits:
            return f"Already {size(self.knee)} is enough: {saved}."
        return f"From {size(self.knee)} on {saved}; each smaller size shown costs over 5 % more."


@answers_in_words
def knee_of(points: Sequence[CapacityPoint]) -> int | None:
    """Return the least size (of points by rising size) whose least energy is at most 1.05 times that of the largest
    size; None where values and bounds do not prove which one that is.

    A size is near where its value is within 1.05 times the bound of the largest, and far where its bound is above 1.05
    times the value of the largest, or nothing fits it; between the two nothing is said.
    """
    points = [expected_kind(each, CapacityPoint, "a point") for each in points]
    last = points[-1] if points else None
    if last is None or last.energy_pj is None:
        return None
    for point in points:
        if point.energy_pj is not None and Fraction(point.energy_pj) <= TUNING.nearly_least * Fraction(
            last.energy_bound
        ):
            return point.bits
        if point.fits is not False and Fraction(point.energy_bound) <= TUNING.nearly_least * Fraction(last.energy_pj):
            return None
    return None


@answers_in_words
def capacity(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    level: str,
    sizes_bits: Sequence[int | str],
    *,
    time_limit_s: float = 60,
) -> CapacityCurve:
    """Return the best traffic and the best energy (dividing tiles) for each size of a level below the outermost.

    Raises OptionError for an unknown level and sizes that are no integers of at least 1.
    """
    workload, arch = question_of(workload, arch)
    sizes = sizes_of(arch, level, sizes_bits)
    Options(tiles="divide", time_limit_s=time_limit_s).check()
    outermost = arch.levels[0].name
    share = time_limit_s / (2 * len(sizes))
    points: list[CapacityPoint] = []
    for bits in sizes:
        machine = with_capacity(arch, level, bits)
        moved = search(workload, machine, f"traffic:{outermost}", "divide", time_limit_s=share)
        paid = search(workload, machine, "energy", "divide", time_limit_s=share)
        moved_bound, paid_bound = float(whole_bound(moved)), float(whole_bound(paid))
        values = (_number(moved.value), moved_bound, _number(paid.value), paid_bound)
        found = moved.best is not None or paid.best is not None
        fits = True if found else False if "INFEASIBLE" in (moved.status, paid.status) else None
        points.append(CapacityPoint(bits, *values, fits=fits))
    known = _shared(points)
    own = next(each.capacity_bits for each in arch.levels if each.name == level)
    return CapacityCurve(f"{workload.name} on {arch.name}", level, outermost, known, own, knee_of(known))


def _shared(points: Sequence[CapacityPoint]) -> tuple[CapacityPoint, ...]:
    """Return the points, where each size takes over what its neighbours prove: a mapping that fits a smaller size fits
    a larger one and costs the same there, and what no mapping of a larger size beats none of a smaller one does."""
    found = list(points)
    for place in range(1, len(found)):
        less, here = found[place - 1], found[place]
        found[place] = replace(
            here,
            moved_bits=_least(less.moved_bits, here.moved_bits),
            energy_pj=_least(less.energy_pj, here.energy_pj),
            fits=True if less.fits else here.fits,
        )
    for place in reversed(range(len(found) - 1)):
        here, more = found[place], found[place + 1]
        found[place] = replace(
            here,
            moved_bound=max(here.moved_bound, more.moved_bound),
            energy_bound=max(here.energy_bound, more.energy_bound),
            fits=False if more.fits is False else here.fits,
        )
    return tuple(found)


def _least(*values: float | None) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)
