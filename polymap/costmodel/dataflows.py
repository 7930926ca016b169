"""The named dataflow of a mapping, from how often each tensor is used at the level next to the compute units.

Names after Chen, Emer, Sze, "Eyeriss: a spatial architecture for energy-efficient dataflow", ISCA 2016.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

from polymap.costmodel.cost import Cost
from polymap.costmodel.counts import Traffic
from polymap.costmodel.footprint import fixed_dims, innermost_storages
from polymap.ir import Architecture, Mapping, Role, Spatial, Workload, accesses_of, written_tensors


class Dataflow(Enum):
    """The operand that stays at the compute units. NO_LOCAL_REUSE: none does. MIXED: several are reused equally
    often."""

    WEIGHT_STATIONARY = "weight-stationary"
    INPUT_STATIONARY = "input-stationary"
    OUTPUT_STATIONARY = "output-stationary"
    ROW_STATIONARY = "row-stationary"
    NO_LOCAL_REUSE = "no local reuse"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Reuse:
    """The uses of an element of `tensor` per arrival at `level`, the innermost level that is private to a compute unit.

    level is None and uses 1 where no private level holds the tensor.
    """

    tensor: str
    level: str | None
    uses: Fraction


_STATIONARY = {
    Role.WEIGHT: Dataflow.WEIGHT_STATIONARY,
    Role.INPUT: Dataflow.INPUT_STATIONARY,
    Role.OUTPUT: Dataflow.OUTPUT_STATIONARY,
}


def reuse_counts(workload: Workload, arch: Architecture, cost: Cost) -> tuple[Reuse, ...]:
    """Return the uses per arrival of every tensor, from the traffic alone.

    Of a read-only tensor: reads by the compute unit per fill. Of a written one: accumulations per drain.
    """
    private = [level.name for level in arch.levels[1:] if arch.fanouts_above(level.name) == arch.fanouts]
    written = written_tensors(workload)
    return tuple(_reuse(tensor.name, private, cost, is_written=tensor.name in written) for tensor in workload.tensors)


def dataflow(workload: Workload, arch: Architecture, mapping: Mapping, cost: Cost) -> Dataflow:
    """Return the name of the mapping's dataflow.

    The operand with the most uses per arrival is the stationary one. A mapping is row-stationary if input, weight and
    output are all used more than once per arrival, the tiles at a compute unit hold all taps of one sliding window, and
    the taps of another window are spread over a fan-out.
    """
    reuse = reuse_counts(workload, arch, cost)
    if all(item.uses == 1 for item in reuse):
        return Dataflow.NO_LOCAL_REUSE
    if all(item.uses > 1 for item in reuse) and _keeps_rows(workload, arch, mapping):
        return Dataflow.ROW_STATIONARY
    first, *others = sorted(reuse, key=lambda item: item.uses, reverse=True)
    if others and others[0].uses == first.uses:
        return Dataflow.MIXED
    return _STATIONARY[workload.tensor(first.tensor).role]


def window_dims(workload: Workload) -> tuple[tuple[str, str], ...]:
    """Return (output dim, tap dim) of every sliding window: an axis of a read tensor that adds a dim of the output and
    a reduced dim. Asserts that there is one statement."""
    (statement,) = workload.statements
    kept = {name for index in statement.target.index for name in index.dims}
    pairs: list[tuple[str, str]] = []
    for access in statement.reads:
        for index in access.index:
            out = [name for name in index.dims if name in kept]
            taps = [name for name in index.dims if name not in kept]
            if len(out) == 1 and len(taps) == 1 and (out[0], taps[0]) not in pairs:
                pairs.append((out[0], taps[0]))
    return tuple(pairs)


def _reuse(tensor: str, private: list[str], cost: Cost, *, is_written: bool) -> Reuse:
    rows = [row for row in cost.traffic if row.tensor == tensor and row.level in private]
    if not rows:
        return Reuse(tensor, None, Fraction(1))
    row = rows[-1]
    arrivals, uses = _arrivals(row, is_written=is_written)
    return Reuse(tensor, row.level, Fraction(uses, arrivals) if arrivals and uses else Fraction(1))


def _arrivals(row: Traffic, *, is_written: bool) -> tuple[int, int]:
    return (row.drains, row.writes - row.fills) if is_written else (row.fills, row.reads)


def _keeps_rows(workload: Workload, arch: Architecture, mapping: Mapping) -> bool:
    """Return whether the innermost tiles hold all taps of one window while the taps of another are spread over a
    fan-out."""
    if len(workload.statements) != 1:
        return False
    windows = [pair for pair in window_dims(workload) if workload.extents()[pair[1]] > 1]
    spread = {node.dim for node in mapping.nodes if isinstance(node, Spatial)}
    inner = innermost_storages(workload, arch, mapping)
    kept = [
        (out, tap)
        for out, tap in windows
        if all(name in inner and tap not in fixed_dims(arch, inner[name]) for name in _users(workload, tap))
    ]
    return any(tap in spread and tap != row for _, tap in windows for _, row in kept)


def _users(workload: Workload, dim: str) -> list[str]:
    """Return the tensors that some access indexes with the dim."""
    return [
        tensor.name
        for tensor in workload.tensors
        for statement in workload.statements
        if any(dim in index.dims for access in accesses_of(statement, tensor.name) for index in access.index)
    ]
