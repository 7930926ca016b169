"""What the memories below the outermost level leave to be moved of a program: a bound that no order of its instances
beats (docs/program_space.md, "Lower bound").

Let Z be the bits that all memories below the outermost level hold together, n the number of compute units, J some
arrays. *Resident* is an element of J that some memory below holds. Q counts, in bits, how often an element of J
becomes resident that was not, and how often one is read or written that is not resident, each once per step.

1. The steps are cut into phases, from the end backwards, each the shortest that makes X bits of Q or more. Without its
   first step a phase touches elements of at most Z + X bits: resident at its begin, or counted in Q. If a set of the V
   instances of a region that touches so much has at most G(Z + X) points (projections.py), and G(x) <= (x / X) G(X)
   for x <= X, then Q >= X V / (G(Z + X) + n), for every X: as in costmodel.analysis.buffer_bound, step 4.
2. Let j in J be no temporary. What becomes resident is read at the outermost level, or it is overwritten first (or
   begins as zero) and written there when it leaves. So reads are Q_j less such beginnings, and writes are at least
   these, and at least the elements that the program writes, W_j. There are at most O_j such beginnings: the instances
   that overwrite an element without reading it, and, of an array that is not `initial`, one per element that is
   accumulated onto before anything else touches it. Hence the traffic of j is at least Q_j + max(0, W_j - O_j).
3. Arrays outside of J move what is compulsory, and bounds over arrays that have none in common may be added, each with
   all of Z.

Renaming, shifting and skewing loops changes neither instances nor elements; folding changes temporaries alone, which
are never in J.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import ceil, prod

from polymap.costmodel import Compulsory, compulsory_traffic, elements_summed_first, memory_bits
from polymap.ir import Architecture, Operator, Workload, is_plain, written_tensors
from polymap.resources import OutOfTime, Stop, never
from polymap.search.programs.bound_tuning import TUNING
from polymap.search.programs.instances import instance_bound
from polymap.search.programs.projections import (
    Exponents,
    Projection,
    Sets,
    best_exponents,
    exponents_of,
    largest_set,
    logarithm,
)
from polymap.search.programs.regions import Reference, Region, groups_of, regions_of, splits_of

_SHARES = tuple(Fraction(eighths, 8) for eighths in (*range(1, 29), 32, 40, 48, 64, 512))  # X / Z


@dataclass(frozen=True, slots=True)
class LeastTraffic:
    """What a set of arrays moves at the outermost level, at least."""

    tensors: frozenset[str]
    bits: Fraction


@lru_cache(maxsize=16)
def can_be_bounded(workload: Workload) -> bool:
    """Return whether a program has so few instances that its bound takes seconds: all of them are listed."""
    return instance_bound(workload) <= TUNING.most_instances


def program_traffic_bits(workload: Workload, arch: Architecture, stop: Stop = never) -> int:
    """Return bits that every legal mapping reads and writes at the outermost level, at least: never less than what is
    compulsory. For programs that `can_be_bounded`. Raises OutOfTime where it is told to stop."""
    rows = compulsory_traffic(workload)
    alone = {row.tensor: Fraction(_bits(workload, row)) for row in rows}
    held = memory_bits(arch)
    if held is None:
        return ceil(sum(alone.values()))
    lanes = prod(fanout.size for fanout in arch.fanouts)
    written = written_tensors(workload)
    kept = frozenset(each.name for each in workload.tensors if not (each.temporary and each.name in written))
    best: dict[frozenset[str], Fraction] = {}
    surplus = _surplus(workload, rows)
    for whole in regions_of(workload, kept, stop):
        for region in splits_of(whole, workload):
            if stop():
                raise OutOfTime
            for found in bounds_of(region, workload, held, lanes):
                bits = found.bits + sum(surplus[name] for name in found.tensors)
                if bits > sum(alone[name] for name in found.tensors):
                    best[found.tensors] = max(bits, best.get(found.tensors, bits))
    return ceil(_pack_bounds(alone, [LeastTraffic(*each) for each in best.items()]))


def _bits(workload: Workload, row: Compulsory) -> int:
    return workload.tensor(row.tensor).bits * ((row.reads or 0) + (row.writes or 0))


def _pack_bounds(alone: dict[str, Fraction], found: list[LeastTraffic]) -> Fraction:
    """Return the most that bounds over arrays without a common one say together. alone: of each array, compulsory."""
    gains = [(each.bits - sum(alone[name] for name in each.tensors), each.tensors) for each in found]
    gains = sorted(gains, key=lambda each: (-each[0], sorted(each[1])))[: TUNING.most_combined]
    most = Fraction(0)
    for size in range(len(gains) + 1):
        for chosen in combinations(gains, size):
            names = [name for _, tensors in chosen for name in tensors]
            if len(names) == len(set(names)):
                most = max(most, sum((gain for gain, _ in chosen), Fraction(0)))
    return sum(alone.values(), Fraction(0)) + most


def _surplus(workload: Workload, rows: tuple[Compulsory, ...]) -> dict[str, Fraction]:
    """Return max(0, W_j - O_j) of every array, in bits."""
    return {
        row.tensor: Fraction(workload.tensor(row.tensor).bits * max(0, (row.writes or 0) - _most_begun(workload, row)))
        for row in rows
    }


def _most_begun(workload: Workload, row: Compulsory) -> int:
    """Return O_j: how often an element begins without being read, at most (a bound by boxes)."""
    if not is_plain(workload, row.tensor):
        return 0 if workload.tensor(row.tensor).initial else row.writes or 0
    extents, started = workload.extents(), elements_summed_first(workload, row.tensor)
    sets = (
        prod(extents[dim] for dim in each.dims)
        for each in workload.statements
        if each.target.tensor == row.tensor and each.operator is Operator.ASSIGN and each.target not in each.reads
    )
    return sum(sets) + (prod(workload.tensor(row.tensor).shape) if started is None else started)


def bounds_of(region: Region, workload: Workload, held: int, lanes: int) -> list[LeastTraffic]:
    """Return lower bounds of Q over sets of arrays. held: Z. lanes: n."""
    found: dict[frozenset[str], Fraction] = {}
    for part, pair in _orderings(region):
        if part.count == 0:
            continue
        references, sets = _sets(part, workload, pair)
        choices = [(*logarithm(sets, each), each) for each in exponents_of(sets)]
        for share in _SHARES if choices else ():
            move = max(1, int(share * held))
            exponents = best_exponents(choices, held + move)
            bits = move * part.count / (largest_set(sets, exponents, held + move) + lanes)
            names = _used_arrays(references, exponents)
            found[names] = max(bits, found.get(names, bits))
    return [LeastTraffic(names, bits) for names, bits in found.items()]


def _used_arrays(references: list[Reference], exponents: Exponents) -> frozenset[str]:
    return frozenset(one.tensor for one, s in zip(references, exponents.projections, strict=True) if s)


def _orderings(region: Region) -> list[tuple[Region, tuple[int, int] | None]]:
    """Return the region, and for pairs of dims of which one is nowhere less the points at which it is more, with the
    pair."""
    found: list[tuple[Region, tuple[int, int] | None]] = [(region, None)]
    for one, other in combinations(range(len(region.points)), 2):
        for more, less in ((one, other), (other, one)):
            if bool((region.points[more] >= region.points[less]).all()):
                found.append((region.part(region.points[more] > region.points[less]), (more, less)))
    return found


def _sets(region: Region, workload: Workload, pair: tuple[int, int] | None) -> tuple[list[Reference], Sets]:
    """Return the references whose images are bounded, one of each kind, and what is known of them."""
    group = groups_of(region, workload)
    chosen: dict[tuple[object, ...], Reference] = {}
    factors: dict[Reference, int] = {}
    for one in region.references:
        factor = 1 if pair is None else _factor(one, pair, group)
        if factor is not None:
            factors[one] = factor
            chosen.setdefault((one.linear, group[one], factor), one)
    references = list(chosen.values())
    projections = tuple(
        Projection(group[one], _axes(one), factors[one], workload.tensor(one.tensor).bits) for one in references
    )
    extents = list(region.extents())
    if pair is not None:
        both = region.points[list(pair)]
        extents[pair[0]] = extents[pair[1]] = int(both.max()) - int(both.min()) + 1
    return references, Sets(projections, tuple(extents), 1 if pair is None else 2)


def _factor(one: Reference, pair: tuple[int, int], group: dict[Reference, int]) -> int | None:
    """Return how many times what a group of references touches a reference touches at most, over the points and those
    with two dims exchanged (None: not known)."""
    swapped = one.swapped(*pair)
    if group.get(swapped) == group[one]:
        return 1
    return 2 if sorted(swapped.rows) == sorted(one.rows) else None


def _axes(one: Reference) -> tuple[frozenset[int], ...]:
    rows = (frozenset(dim for dim, factor in enumerate(row[:-1]) if factor) for row in one.rows)
    return tuple(row for row in rows if row)
