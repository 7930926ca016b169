"""A lower bound on the traffic at the outermost level, given the size of the memories below it; no schedule beats it.

Let Z be the bits that all memories below the outermost level hold together, n the number of compute units, V the number
of statement instances. An element is *resident* while some memory below holds it. Q counts two kinds of events, in bits
and each once per step: a non-resident element becomes resident, or it is read or accumulated onto without becoming so
(it bypasses all memories).

1. Q is at most the traffic T at the outermost level. An input that becomes resident is read there. An output that
   becomes resident is written there when its residency ends: once, whether or not siblings' sums are added on the way.
   A temporary array is not written at the end of the run: then T >= Q - Z. An element that bypasses is read or written
   there in each step. (T may be larger: partial sums that become resident again are also read.)
2. A set of instances whose projection onto the elements of tensor j has x_j elements has at most

   prod x_j^s_j * prod N_i^t_i points, where N_i is the extent of dim i, for any exponents s, t >= 0 that satisfy this
   condition: eliminate the dims one by one in some order; for each dim i, t_i plus the exponents of the tensors that
   vary along i is at least 1. A window such as p + r varies along the first of its dims to be eliminated, and not along
   the later ones. Proof: sum the product of
   the indicator functions f_j^s_j over one dim after the other. For fixed other dims Hoelder's inequality (with N_i
   ones for t_i) bounds the sum over dim i by the product of (sum of f_j over i)^s_j; a window's sum over i is at most
   its sum over all of its values, which depends on none of its dims. (Loomis and Whitney 1949; Christ, Demmel, Knight,
   Scanlon, Yelick 2013 give the best exponents; these are simple ones.)
3. With b_j bits per element and sum of b_j x_j <= Y that is largest at x_j = Y s_j / (b_j sum of s): at most G(Y)
   instances, where G(x) <= (x / X) G(X) for x <= X if the s sum to 1 or more.
4. For any X, cut the run into phases from its end backwards, each the shortest with at least X bits of Q. Its first
   step executes at most n instances. The rest of the phase uses at most Z bits that are resident at its begin and less
   than X bits of further events: at most G(Z + X) instances. The remaining steps at the begin of the run start with
   empty memories and have x < X bits of Q: at most G(x) <= (x / X) G(X) instances. So V <= (Q / X) (G(Z + X) + n), and

       T >= Q >= X V / (G(Z + X) + n).

The bound returned is the largest over some exponents and X, or the compulsory traffic. For a matrix product
and n of little weight X = 2 Z gives 2 m n k / sqrt(Z): the constant of Smith, Lowery, Langou, van de Geijn (arXiv
1702.02017, 2019; phases whose traffic is not the size of the memory are from there), without the loss of a phase at
the end; for a convolution 2 V / sqrt(R Z), R = the taps: the constant of Chen, Han, Wang (HPCA 2020). Both sources
add the outputs for large k (Kwasniewski et al., SC'19). That is not valid for every k: with k = 1 the best trees load
about m n / Z elements beside the outputs and not 2 m n / sqrt(Z) (tests/unit/costmodel/test_buffer_bound.py), so it is
not used here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from itertools import islice, permutations, product
from math import ceil, lcm, log, prod

from polymap.costmodel.bounds import compulsory_bits
from polymap.costmodel.closed_form import WorkloadModel, workload_model
from polymap.costmodel.tuning import TUNING
from polymap.ir import Architecture, Brief, Mapping, Tabled, Workload

_EXPONENTS = (Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(2, 3), Fraction(1))
_SHARES = tuple(Fraction(quarters, 4) for quarters in (*range(1, 15), 16, 20, 24, 32, 64, 256))  # X / Z


class Proven(StrEnum):
    """The set of schedules over which the best mapping found is proven to be optimal."""

    SCHEDULES = "no schedule moves less"
    TREES = "no loop tree moves less"
    DIVIDING = "best of dividing tiles"
    NOTHING = "not proven"


@dataclass(frozen=True, slots=True, repr=False)
class CurvePoint(Brief):
    """One size of the buffer.

    schedule_bits: a lower bound for all schedules (module docstring). bound_bits: a lower bound for all loop trees,
    whatever their tiles. best_bits, best: the best mapping found (None: none; also where it is one of a program that
    computes the same with other loops). status: of the search that found it; "OPTIMAL" is over the tiles that the
    search covers (`proven`).
    """

    capacity_bits: int
    schedule_bits: int
    bound_bits: int
    best_bits: int | None
    best: Mapping | None
    status: str

    @property
    def gap(self) -> float | None:
        """Return (best - bound) / best; None without a mapping."""
        if self.best_bits is None:
            return None
        return (self.best_bits - self.bound_bits) / self.best_bits if self.best_bits else 0.0

    @property
    def proven(self) -> Proven:
        """Return the set of schedules over which the best mapping is proven to be optimal."""
        if self.best_bits is not None and self.best_bits == self.schedule_bits:
            return Proven.SCHEDULES
        if self.best_bits is not None and self.best_bits == self.bound_bits:
            return Proven.TREES
        return Proven.DIVIDING if self.status == "OPTIMAL" else Proven.NOTHING


@dataclass(frozen=True, slots=True, repr=False)
class BufferCurve(Tabled):
    """Bits moved at `traffic_level` against the size of `level`, by rising size ("ski slope").

    tiles: the rule for the tiles of the searched mappings; the bounds hold for all tiles. compulsory_bits: the traffic
    at unlimited size, None where it cannot be counted. unfused: of a program of several nests, the same where every
    nest runs as a program of its own, so that what one leaves for another passes through the outermost level: sums over
    the nests; () of one nest.
    """

    workload: Workload
    arch: Architecture
    level: str
    traffic_level: str
    tiles: str
    compulsory_bits: int | None
    points: tuple[CurvePoint, ...]
    unfused: tuple[CurvePoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Exponents:
    """Exponents of step 2. tensors: s_j, in the workload's order. dims: t_i."""

    tensors: tuple[Fraction, ...]
    dims: tuple[Fraction, ...]


def memory_bits(arch: Architecture) -> int | None:
    """Return the bits that all levels below the outermost hold together; None where one of them is unlimited."""
    total = 0
    for level in arch.levels[1:]:
        if level.usable_bits is None:
            return None
        total += prod(fanout.size for fanout in arch.fanouts_above(level.name)) * level.usable_bits
    return total


def least_traffic_bits(workload: Workload, arch: Architecture) -> int:
    """Return a lower bound on the bits that any legal mapping reads and writes at the outermost level (module
    docstring)."""
    floor = compulsory_bits(workload) or 0
    memory, model = memory_bits(arch), workload_model(workload)
    if memory is None or model is None or len(model.tensors) > TUNING.most_tensors:
        return floor
    return max(floor, schedule_bits(model, memory, prod(fanout.size for fanout in arch.fanouts)))


def schedule_bits(model: WorkloadModel, memory: int, lanes: int) -> int:
    """Return the bound of step 4, rounded up. memory: Z. lanes: n."""
    bits = tuple(tensor.bits for tensor in model.tensors)
    choices = [(_logarithm(model, bits, each), each) for each in _exponent_choices(model)]
    instances = prod(model.extents)
    best = Fraction(0)
    for share in _SHARES:
        move = max(1, int(share * memory))
        room = log(memory + move)
        _, exponents = min(((fixed + float(power) * room, each) for (fixed, power), each in choices), key=_log_size)
        best = max(best, Fraction(move * instances, _largest_set(model, bits, exponents, memory + move) + lanes))
    if any(tensor.temporary and tensor.written for tensor in model.tensors):
        best -= memory
    return max(0, ceil(best))


def _log_size(pair: tuple[float, Exponents]) -> float:
    return pair[0]


def _exponent_choices(model: WorkloadModel) -> Iterator[Exponents]:
    """Yield exponents that satisfy the condition of step 2 and sum to at least 1 over the tensors, as step 3 needs."""
    for varying in _varying_tensors(model):
        for chosen in product(_EXPONENTS, repeat=len(model.tensors)):
            # Step 3 needs G(x) <= (x / X) G(X) for x <= X, which holds if the exponents sum to 1 or more.
            if sum(chosen) >= 1:
                missing = (1 - sum((chosen[tensor] for tensor in tensors), Fraction(0)) for tensors in varying)
                yield Exponents(chosen, tuple(max(Fraction(0), each) for each in missing))


def _varying_tensors(model: WorkloadModel) -> dict[tuple[frozenset[int], ...], None]:
    """Return, per dim, the tensors that vary along it when it is eliminated (step 2), for several orders of
    elimination."""
    in_windows = sorted({dim for tensor in model.tensors for window in tensor.windows for dim, _ in window.terms})
    rest = [dim for dim in range(len(model.dims)) if dim not in in_windows]
    found: dict[tuple[frozenset[int], ...], None] = {}
    for order in islice(permutations(in_windows), TUNING.most_orders):
        varying: dict[int, frozenset[int]] = {}
        used: set[tuple[int, int]] = set()
        for dim in (*order, *rest):
            tensors: set[int] = set()
            for number, tensor in enumerate(model.tensors):
                if dim in tensor.singles:
                    tensors.add(number)
                for place, window in enumerate(tensor.windows):
                    if (number, place) not in used and any(dim == member for member, _ in window.terms):
                        used.add((number, place))
                        tensors.add(number)
            varying[dim] = frozenset(tensors)
        found[tuple(varying[dim] for dim in range(len(model.dims)))] = None
    return found


def _logarithm(model: WorkloadModel, bits: tuple[int, ...], exponents: Exponents) -> tuple[float, Fraction]:
    """Return (a, b) with log G(Y) = a + b log Y as floats, which only choose among exponents."""
    total = sum(exponents.tensors, Fraction(0))
    fixed = sum(float(t) * log(extent) for t, extent in zip(exponents.dims, model.extents, strict=True))
    for s, size in zip(exponents.tensors, bits, strict=True):
        fixed += float(s) * log(s / (size * total)) if s else 0.0
    return fixed, total


def _largest_set(model: WorkloadModel, bits: tuple[int, ...], exponents: Exponents, room: int) -> int:
    """Return an integer that is at least G(room), by exact arithmetic."""
    total = sum(exponents.tensors, Fraction(0))
    root = lcm(*(each.denominator for each in (*exponents.tensors, *exponents.dims)))
    power = Fraction(1)
    for s, size in zip(exponents.tensors, bits, strict=True):
        if s:
            power *= (room * s / (size * total)) ** int(s * root)
    for t, extent in zip(exponents.dims, model.extents, strict=True):
        power *= extent ** int(t * root)
    return integer_root(ceil(power), root) + 1


def integer_root(value: int, degree: int) -> int:
    """Return the largest integer r with r ** degree <= value."""
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= value:
            low = middle
        else:
            high = middle - 1
    return low
