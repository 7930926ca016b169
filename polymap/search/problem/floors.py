"""Lower bounds for all mappings and tile rules: compulsory traffic, and full use of every compute unit."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, prod

from polymap.costmodel import compulsory_traffic
from polymap.ir import Architecture, Workload, is_box, written_tensors
from polymap.search.problem.goals import in_sums
from polymap.search.problem.objectives import PIECES, Goal, Objective
from polymap.search.problem.spreading import least_steps
from polymap.search.problem.word_clashes import bits_required


def floor_of(workload: Workload, arch: Architecture, objective: Objective, more_bits: int = 0) -> Fraction:
    """Return a lower bound on the objective over all legal mappings, in its unit; of an order or a front on its first
    part.

    more_bits: a lower bound on the bits that the outermost level reads or writes beyond the compulsory traffic.
    """
    if objective.goal in PIECES:
        return Fraction(ceil(floor_of(workload, arch, in_sums(arch, objective), more_bits)))
    energy, cycles = _energy(workload, arch, more_bits), _cycles(workload, arch, more_bits)
    leak = sum((level.leak_pj_per_cycle for level in arch.levels), Fraction(0)) * cycles
    powers = objective.goal.powers
    if powers:
        return powers.product(energy + leak, Fraction(cycles))
    match objective.goal:
        case Goal.TRAFFIC:
            outermost = objective.level == arch.levels[0].name
            return Fraction(sum(_compulsory_bits(workload)) + more_bits if outermost else 0)
        case Goal.CAPACITY:
            return Fraction(_least_held(workload, arch, objective.level or ""))
        case Goal.WEIGHTED:
            parts = objective.parts
            return sum((weight * floor_of(workload, arch, part, more_bits) for weight, part in parts), Fraction(0))
        case _:
            return floor_of(workload, arch, objective.singles[0], more_bits)


def _least_held(workload: Workload, arch: Architecture, name: str) -> int:
    """Return the bits that the level holds at some time in every mapping: of its required tensors for one instance."""
    return next(bits_required(workload, level) for level in arch.levels if level.name == name)


def _instances(workload: Workload) -> int:
    """Return the statement instances of statements over boxes; omitting others keeps it a lower bound."""
    extents = workload.extents()
    return sum(prod(extents[dim] for dim in s.dims) for s in workload.statements if is_box(s))


def _energy(workload: Workload, arch: Architecture, more_bits: int) -> Fraction:
    reads, writes = _compulsory_bits(workload)
    outer = arch.levels[0]
    more_pj = min(outer.access_pj(more_bits, 0), outer.access_pj(0, more_bits))
    return arch.compute.pj * _instances(workload) + outer.access_pj(reads, writes) + more_pj


def _compulsory_bits(workload: Workload) -> tuple[int, int]:
    reads, writes = 0, 0
    for row in compulsory_traffic(workload):
        bits = workload.tensor(row.tensor).bits
        reads, writes = reads + (row.reads or 0) * bits, writes + (row.writes or 0) * bits
    return reads, writes


def _cycles(workload: Workload, arch: Architecture, more_bits: int) -> int:
    extents = workload.extents()
    boxes = ({dim: extents[dim] for dim in s.dims} for s in workload.statements if is_box(s))
    compute = -(-sum(least_steps(box, arch) or 0 for box in boxes) // arch.compute.per_cycle)
    outer = arch.levels[0]
    reads, writes = _compulsory_bits(workload)
    transfers = [Fraction(0)]
    if outer.bandwidth_bits_per_cycle is not None:
        transfers.append((reads + writes + more_bits) / outer.bandwidth_bits_per_cycle)
    if outer.read_bandwidth_bits_per_cycle is not None:
        transfers.append(reads / outer.read_bandwidth_bits_per_cycle)
    if outer.write_bandwidth_bits_per_cycle is not None:
        transfers.append(writes / outer.write_bandwidth_bits_per_cycle)
    passes = max(compute, arch.compute.pass_least_cycles) + arch.compute.fill_cycles
    steps = arch.start_cycles + max(passes, _in_turn(workload, arch))
    return max(compute, ceil(max(transfers)), ceil(steps) if arch.is_timed_by_step else 0)


def _in_turn(workload: Workload, arch: Architecture) -> Fraction:
    """Return the cycles that loads and stores of the outermost level take at least on its one bus, if it has one: of
    tensors that levels inside surely hold, loads of those that are only read."""
    outer, written, cycles = arch.levels[0], written_tensors(workload), Fraction(0)
    both = outer.bandwidth_bits_per_cycle
    for row in compulsory_traffic(workload) if outer.one_bus else ():
        tensor, stores = workload.tensor(row.tensor), row.tensor in written
        band = (outer.write_bandwidth_bits_per_cycle if stores else outer.read_bandwidth_bits_per_cycle) or both
        if band is not None and any(level.requires(tensor) for level in arch.levels[1:]):
            cycles += ((row.writes if stores else row.reads) or 0) * tensor.bits / band
    return cycles
