"""The counts of a shape with storage nodes, from what each node moves alone: the rules of docs/counting.md for machines
of which one instance of each level is used."""

from __future__ import annotations

from dataclasses import dataclass

from polymap.costmodel import Counts, LevelUse, Traffic
from polymap.ir import Architecture, Operator
from polymap.search.programs.shapes import Nodes, Place
from polymap.search.programs.stays import NodeCount, Stays, most_held

Holding = tuple[tuple[int, Place], ...]  # (level, place) of one tensor's nodes, outermost level first; one per way


@dataclass(slots=True)
class _Row:
    """Elements read, written, filled and drained at one node, and what arrives there to be accumulated."""

    reads: int = 0
    writes: int = 0
    fills: int = 0
    drains: int = 0


def rows_of(stays: Stays, tensor: str, holding: Holding) -> dict[int, tuple[int, int, int, int]]:
    """Return (reads, writes, fills, drains) of one tensor per level that holds it, 0 the outermost."""
    rows = {level: _Row() for level in (0, *(level for level, _ in holding))}
    for level, place in holding:
        parent = rows[_holder(holding, place, level)]
        _move(rows[level], parent, stays.count(tensor, place))
    _compute(stays, tensor, holding, rows)
    return {level: (row.reads, row.writes, row.fills, row.drains) for level, row in rows.items()}


def _move(row: _Row, parent: _Row, count: NodeCount) -> None:
    """Add what a node moves to its own row and to its parent's: a partial sum that enters and comes back to the only
    instance above is moved as any value is that is written in place."""
    row.fills += count.fills
    row.drains += count.drains
    row.writes += count.fills
    parent.reads += count.fills
    row.reads += count.drains
    parent.writes += count.drains


def _compute(stays: Stays, tensor: str, holding: Holding, rows: dict[int, _Row]) -> None:
    """Add what the statements read and write; the first term that is added to zero reads nothing."""
    workload = stays.arrays.workload
    for number, name in enumerate(stays.shape.statements):
        statement = workload.statement(name)
        index = [each.name for each in workload.statements].index(name)
        instances = stays.arrays.points[index].shape[1]
        row = rows[_held_at(holding, number)]
        row.reads += instances * sum(access.tensor == tensor for access in statement.reads)
        if statement.target.tensor == tensor:
            row.writes += instances
            if statement.operator is not Operator.ASSIGN:
                row.reads += instances - stays.starts(tensor, number)


def _held_at(holding: Holding, number: int) -> int:
    return max((level for level, place in holding if place.low <= number < place.high), default=0)


def _holder(holding: Holding, place: Place, level: int) -> int:
    around = (each for each, outer in holding if each < level and outer.low <= place.low and place.high <= outer.high)
    return max(around, default=0)


def counts_of(stays: Stays, arch: Architecture, nodes: Nodes) -> Counts:
    """Return the counts of the tree of a shape with nodes: what `evaluate` counts."""
    workload = stays.arrays.workload
    held = holdings(arch, nodes)
    rows = {tensor.name: rows_of(stays, tensor.name, held.get(tensor.name, ())) for tensor in workload.tensors}
    traffic = tuple(
        Traffic(level.name, tensor.name, *rows[tensor.name][number])
        for number, level in enumerate(arch.levels)
        for tensor in workload.tensors
        if number in rows[tensor.name]
    )
    uses: list[LevelUse] = []
    for number, level in enumerate(arch.levels):
        here = [row for row in traffic if row.level == level.name]
        reads = sum(row.reads * workload.tensor(row.tensor).bits for row in here)
        writes = sum(row.writes * workload.tensor(row.tensor).bits for row in here)
        uses.append(LevelUse(level.name, occupancy_bits(stays, held, number), reads, writes, reads + writes))
    count = stays.arrays.count
    return Counts(count, count, traffic, tuple(uses))


def holdings(arch: Architecture, nodes: Nodes) -> dict[str, Holding]:
    """Return the nodes of each tensor, outermost level first."""
    found: dict[str, Holding] = {}
    for place, level, tensor in sorted(nodes, key=lambda node: arch.level_index(node[1])):
        found[tensor] = (*found.get(tensor, ()), (arch.level_index(level), place))
    return found


def occupancy_bits(stays: Stays, held: dict[str, Holding], level: int) -> int:
    """Return the most bits that a level holds at one time."""
    workload = stays.arrays.workload
    profiles = [
        (count.change, count.held, workload.tensor(tensor).bits)
        for tensor, holding in held.items()
        for number, place in holding
        if number == level
        for count in (stays.count(tensor, place),)
    ]
    return most_held(profiles)
