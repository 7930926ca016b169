"""What no mapping at all can beat: compulsory traffic and full use of every compute unit. Valid for every tile rule."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, prod

from polymap.costmodel.analysis import compulsory_traffic
from polymap.ir import Architecture, Workload, is_box
from polymap.search.problem import Goal, Objective, bits_required


def floor_of(workload: Workload, arch: Architecture, objective: Objective) -> Fraction:
    """Return a lower bound of the objective, in its unit, over all legal mappings.

    Of an order or a front: of its first part.
    """
    energy, cycles = _energy(workload, arch), _cycles(workload, arch)
    leak = sum((level.leak_pj_per_cycle for level in arch.levels), Fraction(0)) * cycles
    powers = objective.goal.powers
    if powers:
        return powers.product(energy + leak, Fraction(cycles))
    match objective.goal:
        case Goal.TRAFFIC:
            outermost = objective.level == arch.levels[0].name
            return Fraction(sum(_compulsory_bits(workload)) if outermost else 0)
        case Goal.CAPACITY:
            return Fraction(_least_held(workload, arch, objective.level or ""))
        case Goal.WEIGHTED:
            return sum((weight * floor_of(workload, arch, part) for weight, part in objective.parts), Fraction(0))
        case _:
            return floor_of(workload, arch, objective.singles[0])


def _least_held(workload: Workload, arch: Architecture, name: str) -> int:
    """Return the bits that the level holds at some time in every mapping: what it must hold of one instance."""
    return next(bits_required(workload, level) for level in arch.levels if level.name == name)


def _instances(workload: Workload) -> int:
    """Return the statement instances of statements over boxes (others are not counted, which keeps it a bound)."""
    extents = workload.extents()
    return sum(prod(extents[dim] for dim in s.dims) for s in workload.statements if is_box(s))


def _energy(workload: Workload, arch: Architecture) -> Fraction:
    reads, writes = _compulsory_bits(workload)
    return arch.compute.pj * _instances(workload) + arch.levels[0].access_pj(reads, writes)


def _compulsory_bits(workload: Workload) -> tuple[int, int]:
    reads, writes = 0, 0
    for row in compulsory_traffic(workload):
        bits = workload.tensor(row.tensor).bits
        reads, writes = reads + (row.reads or 0) * bits, writes + (row.writes or 0) * bits
    return reads, writes


def _cycles(workload: Workload, arch: Architecture) -> int:
    lanes = prod(fanout.size for fanout in arch.fanouts) * arch.compute.per_cycle
    compute = -(-_instances(workload) // lanes)
    outer = arch.levels[0]
    reads, writes = _compulsory_bits(workload)
    transfers = [Fraction(0)]
    if outer.bandwidth_bits_per_cycle is not None:
        transfers.append((reads + writes) / outer.bandwidth_bits_per_cycle)
    if outer.read_bandwidth_bits_per_cycle is not None:
        transfers.append(reads / outer.read_bandwidth_bits_per_cycle)
    if outer.write_bandwidth_bits_per_cycle is not None:
        transfers.append(writes / outer.write_bandwidth_bits_per_cycle)
    return max(compute, ceil(max(transfers)))
