"""The textbook's rules of thumb as mappings: one dataflow, tiles as large as fit, nothing searched.

Source: ML systems textbook, chapter Hardware Acceleration, table of mapping strategies: convolutions and multilayer
perceptrons keep weights still, transformers' attention keeps activations still.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from math import prod

from benchmarks.heuristics.genome import Genome, GenomeSpace, plain_genome
from polymap.ir import Access, Role, Workload
from polymap.search.problem import divisors, prime_factors


class Dataflow(Enum):
    """Which tensor stays where it is while the others move."""

    WEIGHT_STATIONARY = "weight_stationary"
    OUTPUT_STATIONARY = "output_stationary"
    INPUT_STATIONARY = "input_stationary"


_STATIONARY = {
    Dataflow.WEIGHT_STATIONARY: Role.WEIGHT,
    Dataflow.OUTPUT_STATIONARY: Role.OUTPUT,
    Dataflow.INPUT_STATIONARY: Role.INPUT,
}


def rule_of_thumb(workload: Workload) -> Dataflow:
    """Return what the textbook would do: weights still, but where two activations meet (a batch dim in all tensors of
    a product, as in attention, or no weight at all) the input still."""
    has_weight = any(tensor.role is Role.WEIGHT for tensor in workload.tensors)
    if not has_weight or (not _has_window(workload) and _has_batch_dim(workload)):
        return Dataflow.INPUT_STATIONARY
    return Dataflow.WEIGHT_STATIONARY


def _has_window(workload: Workload) -> bool:
    return any(len(axis.coefficients()) > 1 for access in _accesses(workload) for axis in access.index)


def _has_batch_dim(workload: Workload) -> bool:
    extents = workload.extents()
    shared = {dim for dim, extent in extents.items() if extent > 1}
    for access in _accesses(workload):
        shared &= {dim for axis in access.index for dim in axis.coefficients()}
    return bool(shared)


def _accesses(workload: Workload) -> tuple[Access, ...]:
    statement = workload.statements[0]
    return (statement.target, *statement.reads)


def template(space: GenomeSpace, dataflow: Dataflow, fits: Callable[[Genome], bool]) -> Genome:
    """Return the dataflow's tree: its tensor's dims spread first and looped outermost, tiles grown while `fits`.

    Everything is held wherever it may be; the innermost level keeps a large tile of the still tensor alone, levels
    further out grow the tiles of all.
    """
    first = _stationary_dims(space, dataflow)
    rest = tuple(d for d in range(len(space.dims)) if d not in first)
    plain = plain_genome(space)
    start = replace(plain, loops=((*first, *rest),) * len(plain.loops))
    genome = start
    for slot in range(len(space.slots)):
        more = replace(genome, held=tuple(h or s == slot for s, h in enumerate(genome.held)))
        genome = more if fits(more) else genome
    genome = _with_filled_fanouts(space, genome, (*first, *rest), fits)
    levels = sorted({level for _, level in space.slots}, reverse=True)
    for number, level in enumerate(levels):
        dims = first if number == 0 else (*rest, *first)
        genome = _with_larger_tiles(space, genome, _block_below(space, level), dims, fits)
    return genome


def _stationary_dims(space: GenomeSpace, dataflow: Dataflow) -> tuple[int, ...]:
    role = _STATIONARY[dataflow]
    still = {tensor.name for tensor in space.workload.tensors if tensor.role is role}
    statement = space.workload.statements[0]
    accesses = [access for access in (statement.target, *statement.reads) if access.tensor in still]
    names = {dim for access in accesses for axis in access.index for dim in axis.coefficients()}
    return tuple(d for d, dim in enumerate(space.dims) if dim in names)


def _block_below(space: GenomeSpace, level: int) -> int:
    """Return the block right below the last slot of a level (slots stand in the machine's order)."""
    return max(position for position, (_, own) in enumerate(space.slots) if own == level) + 1


def _with_filled_fanouts(
    space: GenomeSpace, genome: Genome, dims: tuple[int, ...], fits: Callable[[Genome], bool]
) -> Genome:
    """Return the genome with each fan-out filled from the dims in turn, as far as they divide."""
    for f, fanout in enumerate(space.arch.fanouts):
        for d in dims:
            room = fanout.size // prod(row[f] for row in genome.spread)
            left = genome.trips[d][0] if genome.trips[d] else 1
            factor = max(x for x in divisors(left) if x <= min(room, space.limit(f, d)))
            more = _with_moved_factor(genome, d, factor, fanout=f)
            genome = more if factor > 1 and fits(more) else genome
    return genome


def _with_larger_tiles(
    space: GenomeSpace, genome: Genome, block: int, dims: tuple[int, ...], fits: Callable[[Genome], bool]
) -> Genome:
    """Return the genome with primes moved, dim after dim, from the outermost block to `block` until none fits."""
    open_dims = list(dims)
    while open_dims:
        for d in tuple(open_dims):
            left = genome.trips[d][0] if genome.trips[d] else 1
            primes = [prime for prime, _ in prime_factors(left)]
            more = _with_moved_factor(genome, d, primes[0], block=block) if primes else genome
            if primes and fits(more):
                genome = more
            else:
                open_dims.remove(d)
    return genome


def _with_moved_factor(
    genome: Genome, d: int, factor: int, *, block: int | None = None, fanout: int | None = None
) -> Genome:
    """Return the genome with a factor of a dim taken from the outermost block; the last block needs no gene."""
    trips, spread = [list(row) for row in genome.trips], [list(row) for row in genome.spread]
    if trips[d]:
        trips[d][0] //= factor
    if block is not None and block < len(trips[d]):
        trips[d][block] *= factor
    if fanout is not None:
        spread[d][fanout] *= factor
    return replace(genome, trips=tuple(map(tuple, trips)), spread=tuple(map(tuple, spread)))
