"""The order in which a loop tree runs the statement instances, as quasi-affine functions.

Each temporal loop contributes a digit: an index i of a dim with tiles t1 > t2 > ... has the digits i // t1,
(i % t1) // t2, ... Spatial digits carry no order: instances that differ only in them run at the same time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping as Table
from dataclasses import dataclass

from polymap import ir

Times = Table[str, tuple[ir.Affine, ...]]


def schedule_of(workload: ir.Workload, mapping: ir.Mapping) -> dict[str, tuple[ir.Affine, ...]]:
    """Return statement name -> its time tuple, compared lexicographically; missing trailing entries are zero.

    A statement without the dim of a loop above a branch runs in the first iteration of that loop.
    """
    found: dict[str, tuple[ir.Affine, ...]] = {}
    rests = {each.name: _Rest(ir.dim(each.name), ir.dim(each.name), each.extent) for each in workload.dims}
    _walk(workload, mapping.nodes, (), rests, found)
    return found


def serial(mapping: ir.Mapping, kept: Collection[str] = ()) -> ir.Mapping:
    """Return the tree with its spatial loops as temporal ones, but those over `kept` fan-outs."""

    def changed(node: ir.MappingNode) -> ir.MappingNode:
        return ir.Temporal(node.dim, node.tile) if isinstance(node, ir.Spatial) and node.fanout not in kept else node

    return ir.Mapping(ir.changed_nodes(mapping.nodes, changed))


def original_schedule(workload: ir.Workload) -> dict[str, tuple[ir.Affine, ...]]:
    """Return the program's own schedule: textual positions and loop counters alternate."""
    return {
        statement.name: (
            *(
                place
                for before, name in zip(statement.position, statement.dims, strict=False)
                for place in (ir.Affine((), before), ir.dim(name))
            ),
            ir.Affine((), statement.position[-1]),
        )
        for statement in workload.statements
    }


@dataclass(frozen=True, slots=True)
class _Rest:
    """The remainder of an index below the loops above it, `value` < `tile`.

    modulus: value is `index % modulus` (0: the whole index, None: it is more complicated). in_order: no spatial loop
    over the dim stands above, so instances with equal times above have equal `index // modulus`.
    """

    index: ir.Affine
    value: ir.Affine
    tile: int
    modulus: int | None = 0
    in_order: bool = True

    def split(self, tile: int, *, temporal: bool) -> tuple[ir.Affine, _Rest]:
        """Return a function that orders instances as the digit `value // tile` does, and the new rest."""
        in_order = self.in_order and temporal
        if self.modulus is None or self.modulus % tile:
            digit = _quotient(self.value, tile)
            return digit, _Rest(self.index, self.value - digit * tile, tile, None, in_order)
        digit = _quotient(self.index, tile)
        rest = _Rest(self.index, self.index - digit * tile, tile, tile, in_order)
        if self.modulus and not self.in_order:
            digit = digit - _quotient(self.index, self.modulus) * (self.modulus // tile)
        return digit, rest


def _quotient(value: ir.Affine, divisor: int) -> ir.Affine:
    return value if divisor == 1 else ir.affine(((1, ir.Floor(value, divisor)),))


def _walk(
    workload: ir.Workload,
    nodes: tuple[ir.MappingNode, ...],
    times: tuple[ir.Affine, ...],
    rests: Table[str, _Rest],
    found: dict[str, tuple[ir.Affine, ...]],
) -> None:
    rests = dict(rests)
    for node in nodes:
        match node:
            case ir.Storage():
                pass
            case ir.Temporal(name, tile) | ir.Spatial(name, tile, _):
                if tile >= rests[name].tile:
                    continue
                temporal = isinstance(node, ir.Temporal)
                digit, rests[name] = rests[name].split(tile, temporal=temporal)
                if temporal:
                    times = (*times, digit)
            case ir.Branch(children):
                for number, child in enumerate(children):
                    _walk(workload, child, (*times, ir.Affine((), number)), rests, found)
            case ir.Compute(statement):
                own = workload.statement(statement).dims
                found[statement] = tuple(time if set(time.dims) <= set(own) else ir.Affine() for time in times)
