"""The least traffic at the outermost level that memories of a given size allow: a bound that no mapping can beat.

Let Z be the bits that all memories below the outermost level hold together, n the number of compute units, and X any
number of bits. Cut the run into phases: a phase ends with the first step at which it has moved X bits at the outermost
level or more; its *main part* is the phase without that step, which executes at most n instances.

1. At the end of phase k the memories below hold inputs of in_k bits and outputs of out_k bits, in_k + out_k <= Z. What
   the main part of phase k reads was there when it began (in_(k-1)) or is read in it; what it accumulates into is there
   when the phase ends (out_k), or is written to the outermost level in the phase: in its main part, or, of w_k <= Z
   bits, in its last step. Its main part moves less than X bits. So its instances touch at most Z + d_k + R_k bits of
   elements, with d_k = out_k - out_(k-1) in [-Z, Z], their sum at most Z, and R_k in [X, X + Z], no more than what
   the phase moves (the last phase may move X less).
2. A set of instances whose projection onto the elements of tensor j has x_j elements has at most
   prod x_j^s_j * prod N_i^t_i points, for any exponents s, t >= 0 that satisfy: take the dims away one by one in some
   order; for each dim i, t_i plus the exponents of the tensors that still vary along i is at least 1; a window, such as
   p + r, varies along the first of its dims that is taken away and not along the later ones. Proof: sum the product of
   the indicator functions f_j^s_j over one dim after the other. For fixed other dims Hoelder's inequality (with N_i
   ones for t_i) bounds the sum over dim i by the product of (sum of f_j over i)^s_j; a window's sum over i is at most
   its sum over all of its values, which depends on none of its dims. (Loomis and Whitney 1949; Christ, Demmel, Knight,
   Scanlon, Yelick 2013 give the best exponents; these are simple ones.)
3. With b_j bits per element and sum of b_j x_j <= Y that is largest at x_j = Y s_j / (b_j sum of s): G(Y), convex where
   the s sum to 1 or more. If G(Z + d + R) + n <= rho R + (d / Z) lambda for all d and R of step 1 (convex: the four
   corners suffice), then summing over the phases gives instances <= rho (traffic + X) + lambda.

So the traffic is at least (instances - lambda) / rho - X. What is returned is the largest such bound found over
exponents, X and lambda (each of them is valid), or the compulsory traffic. For a matrix product and a small buffer of Z
elements it comes to about 1.85 m n k / sqrt(Z); the best mappings need a little more than 2 m n k / sqrt(Z).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, permutations, product
from math import ceil, lcm, log, prod

from polymap.arch.machine import Architecture
from polymap.costmodel.bounds import compulsory_bits
from polymap.costmodel.groups import WorkloadModel, workload_model
from polymap.display import Shown
from polymap.schedules.mapping import Mapping
from polymap.workload.loopnest import Workload

_EXPONENTS = (Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(2, 3), Fraction(1))
_SHARES = (
    *(Fraction(tenths, 10) for tenths in (1, 3, 5, 8, 10, 13, 16, 18, 20, 22, 25)),
    *map(Fraction, (3, 4, 6, 16, 64)),
)
_MAX_ORDERS = 120
_MAX_TENSORS = 5


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One size of the buffer. bound_bits: no mapping moves less. best_bits, best: the best mapping found (None: none).

    status: of the search ("OPTIMAL": nothing in the searched space moves less than best_bits).
    """

    capacity_bits: int
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


@dataclass(frozen=True, slots=True)
class BufferCurve(Shown):
    """Bits moved at `traffic_level` against the size of `level`, by rising size ("ski slope").

    tiles: the rule of the mappings that were searched; the bound holds for every mapping. compulsory_bits: what any
    size leaves to be moved, None where it cannot be counted.
    """

    workload: str
    arch: str
    level: str
    traffic_level: str
    tiles: str
    compulsory_bits: int | None
    points: tuple[CurvePoint, ...]


@dataclass(frozen=True, slots=True)
class Exponents:
    """tensors: s_j, in the workload's order. dims: t_i. Together a bound on sets of instances by their projections."""

    tensors: tuple[Fraction, ...]
    dims: tuple[Fraction, ...]


def memory_bits(arch: Architecture) -> int | None:
    """Return the bits that all levels below the outermost hold together; None where one of them is unlimited."""
    total = 0
    for level in arch.levels[1:]:
        if level.capacity_bits is None:
            return None
        total += prod(fanout.size for fanout in arch.fanouts_above(level.name)) * (
            level.capacity_bits // level.buffering
        )
    return total


def least_traffic_bits(workload: Workload, arch: Architecture) -> int:
    """Return bits that every legal mapping reads and writes at the outermost level, at least (docs: module)."""
    floor = compulsory_bits(workload) or 0
    held, model = memory_bits(arch), workload_model(workload)
    if held is None or model is None or len(model.tensors) > _MAX_TENSORS:
        return floor
    bits = tuple(tensor.bits for tensor in model.tensors)
    choices = [(_logarithm(model, bits, each), each) for each in _choices(model)]
    best = Fraction(floor)
    for share in _SHARES:
        move = max(1, int(share * held))
        room = log(2 * held + move)
        _, exponents = min(((fixed + float(power) * room, each) for (fixed, power), each in choices), key=_first)
        best = max(best, _bound(model, bits, exponents, held, move, prod(fanout.size for fanout in arch.fanouts)))
    return ceil(best)


def _bound(
    model: WorkloadModel, bits: tuple[int, ...], exponents: Exponents, held: int, move: int, lanes: int
) -> Fraction:
    """Return the bound of step 3 for one X (`move`) and the best of four lambdas."""

    def points(room: int) -> int:
        return _largest_set(model, bits, exponents, room) + lanes

    rising = [(move, points(2 * held + move)), (move + held, points(3 * held + move))]  # d = Z
    falling = [(move, points(move)), (move + held, points(move + held))]  # d = -Z
    best = Fraction(0)
    for (moved, more), (moved_too, fewer) in product(rising, falling):
        slope = max(Fraction(0), Fraction(moved_too * more - moved * fewer, moved + moved_too))
        rate = max(
            *(Fraction(most - slope) / traffic for traffic, most in rising),
            *(Fraction(most + slope) / traffic for traffic, most in falling),
        )
        best = max(best, (prod(model.extents) - slope) / rate - move)
    return best


def _first(pair: tuple[float, Exponents]) -> float:
    return pair[0]


def _choices(model: WorkloadModel) -> Iterator[Exponents]:
    """Yield exponents that satisfy the condition of step 2, and make G convex."""
    for varying in _structures(model):
        for chosen in product(_EXPONENTS, repeat=len(model.tensors)):
            if sum(chosen) >= 1:
                missing = (1 - sum((chosen[tensor] for tensor in tensors), Fraction(0)) for tensors in varying)
                yield Exponents(chosen, tuple(max(Fraction(0), each) for each in missing))


def _structures(model: WorkloadModel) -> set[tuple[frozenset[int], ...]]:
    """Return, for orders in which dims may be taken away, the tensors that still vary along each dim."""
    in_windows = sorted({dim for tensor in model.tensors for window in tensor.windows for dim, _ in window.terms})
    rest = [dim for dim in range(len(model.dims)) if dim not in in_windows]
    found: set[tuple[frozenset[int], ...]] = set()
    for order in islice(permutations(in_windows), _MAX_ORDERS):
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
        found.add(tuple(varying[dim] for dim in range(len(model.dims))))
    return found


def _logarithm(model: WorkloadModel, bits: tuple[int, ...], exponents: Exponents) -> tuple[float, Fraction]:
    """Return (a, b) such that log G(Y) is a + b log Y, in floats: only to choose by."""
    total = sum(exponents.tensors, Fraction(0))
    fixed = sum(float(t) * log(extent) for t, extent in zip(exponents.dims, model.extents, strict=True))
    for s, size in zip(exponents.tensors, bits, strict=True):
        fixed += float(s) * log(s / (size * total)) if s else 0.0
    return fixed, total


def _largest_set(model: WorkloadModel, bits: tuple[int, ...], exponents: Exponents, room: int) -> int:
    """Return G(room), exactly, rounded up."""
    total = sum(exponents.tensors, Fraction(0))
    root = lcm(*(each.denominator for each in (*exponents.tensors, *exponents.dims)))
    power = Fraction(1)
    for s, size in zip(exponents.tensors, bits, strict=True):
        if s:
            power *= (room * s / (size * total)) ** int(s * root)
    for t, extent in zip(exponents.dims, model.extents, strict=True):
        power *= extent ** int(t * root)
    return _root(ceil(power), root) + 1


def _root(value: int, degree: int) -> int:
    """Return the largest integer whose power is at most `value`."""
    low, high = 0, 1 << (value.bit_length() // degree + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if middle**degree <= value:
            low = middle
        else:
            high = middle - 1
    return low
