"""The closed form where every tile divides the enclosing one: all instances do the same, one formula per carry.

docs/closed_form.md derives what is computed here; the words (carry, kept, events, arrivals) are explained there.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from polymap.arithmetic import (
    Placed,
    Shape,
    difference,
    overlap,
    progressions,
    too_large,
    translated_sum,
)
from polymap.costmodel.closed_form.accounting import Busiest, Row
from polymap.costmodel.closed_form.groups import TensorModel, WorkloadModel
from polymap.costmodel.closed_form.nest import TEMPORAL, Loop, MachineModel, Nest, Node

Steps = list[tuple[int, int]]


class Spot:
    """One node of one tensor among the loops: what is fixed, what is free, and how its siblings differ.

    above: the temporal loops above, outermost first. steps: the product of their trips. tile: elements along singles.
    free: per window the progressions of its tile. parents, instances: how many instances the parent and the node have.
    apart: product of the trips of sibling loops over singles. idle: (fan-out, trips) of sibling loops over dims that
    the tensor lacks. spread: per window (fan-out, stride, trips) of its sibling loops.
    """

    __slots__ = ("above", "apart", "free", "idle", "instances", "parents", "spread", "steps", "tile")

    def __init__(self, tensor: TensorModel, loops: tuple[Loop, ...], parent: Node, node: Node) -> None:
        kinds = tensor.kinds
        self.above: list[Loop] = []
        self.steps = self.tile = self.parents = self.instances = self.apart = 1
        self.free: list[Steps] = [[] for _ in tensor.windows]
        self.spread: list[list[tuple[int, int, int]]] = [[] for _ in tensor.windows]
        self.idle: list[tuple[int, int]] = []
        for loop in loops:
            fanout, trips = loop.fanout, loop.trips
            if fanout == TEMPORAL:
                if loop.position < node.position:
                    self.above.append(loop)
                    self.steps *= trips
                    continue
            elif fanout < node.fans:
                self.instances *= trips
                if fanout < parent.fans:
                    self.parents *= trips
                elif kinds[loop.dim] == 1:
                    self.apart *= trips
                elif kinds[loop.dim] == 0:
                    self.idle.append((fanout, trips))
                else:
                    window, factor = _window(tensor, loop.dim)
                    self.spread[window].append((fanout, factor * loop.tile, trips))
                continue
            if kinds[loop.dim] == 1:
                self.tile *= trips
            elif kinds[loop.dim] == 2:
                window, factor = _window(tensor, loop.dim)
                self.free[window].append((factor * loop.tile, trips))

    def shapes(self) -> list[Shape]:
        """Return the tile along each window, its least element taken as 0."""
        return [progressions(steps)[1] for steps in self.free]


def _window(tensor: TensorModel, dim: int) -> tuple[int, int]:
    """Return (number of the window that has the dim, the dim's coefficient in it)."""
    for number, window in enumerate(tensor.windows):
        for member, factor in window.terms:
            if member == dim:
                return number, factor
    raise AssertionError("the dim is in a window")


Busy = tuple[int, int]  # elements that the busiest instance reads and writes; the same instance for all tensors


def count_uniform(model: WorkloadModel, machine: MachineModel, nest: Nest) -> tuple[list[Row], tuple[Busiest, ...]]:
    """Return the rows of all tensors and the busiest instance per level.

    Raises BudgetError where a tile is out of reach.
    """
    rows: list[Row] = []
    use = [[0, 0] for _ in machine.level_names]
    for tensor, nodes in zip(model.tensors, nest.holders, strict=True):
        spots = [
            Spot(tensor, nest.loops, parent, node) for parent, node in zip((nodes[0], *nodes), nodes, strict=False)
        ]
        count = _written if tensor.written else _read
        for row, (reads, writes) in count(machine, tensor, nodes, spots):
            rows.append(row)
            use[row.level][0] += reads * tensor.bits
            use[row.level][1] += writes * tensor.bits
    return rows, tuple(Busiest(read, written, read + written) for read, written in use)


def _read(
    machine: MachineModel, tensor: TensorModel, nodes: tuple[Node, ...], spots: list[Spot]
) -> Iterator[tuple[Row, Busy]]:
    """Yield the rows of a read-only tensor: fills per instance, and one message per distinct load above them."""
    fills = 0
    for node, spot, below, node_below in zip(nodes, spots, spots[1:], nodes[1:], strict=False):
        tile = spot.tile * prod(shape.size for shape in spot.shapes())
        reads = _messages(machine, tensor, below, compute=node_below.level < 0)
        row = Row(node.level, tensor.index, reads, fills, fills, 0, tile)
        yield row, (reads // spot.instances, fills // spot.instances)
        if node_below.level >= 0:
            fills = _entries(tensor, below, below.shapes()) * below.instances


def _entries(tensor: TensorModel, spot: Spot, shapes: list[Shape]) -> int:
    """Return how many elements enter one instance in all: whole tiles less what each carry keeps."""
    kept = sum(
        outer * prod(overlap(shape, shape, shift) for shape, shift in zip(shapes, shifts, strict=True))
        for outer, shifts in _carries(tensor, spot)
    )
    return spot.tile * (spot.steps * prod(shape.size for shape in shapes) - kept)


def _carries(tensor: TensorModel, spot: Spot) -> list[tuple[int, list[int]]]:
    """Return (how often, shift of each window's tile) per carry at which the singles stand still, innermost first."""
    carries: list[tuple[int, list[int]]] = []
    wraps = [0] * len(tensor.windows)
    outer = spot.steps
    for loop in reversed(spot.above):
        outer //= loop.trips
        kind = tensor.kinds[loop.dim]
        if kind == 1:
            break  # from here on outwards, every carry moves the singles
        shifts = [-wrap for wrap in wraps]
        if kind == 2:
            window, factor = _window(tensor, loop.dim)
            shifts[window] += factor * loop.tile
            wraps[window] += factor * loop.tile * (loop.trips - 1)
        carries.append((outer * (loop.trips - 1), shifts))
    return carries


def _messages(machine: MachineModel, tensor: TensorModel, spot: Spot, *, compute: bool) -> int:
    """Return the elements that all parent instances read for what `spot` loads."""
    copies = spot.parents * spot.apart
    for fanout, trips in spot.idle:
        if machine.repeats[fanout]:
            copies *= trips
    shapes = [] if compute else spot.shapes()
    united: list[Steps] = []
    for spread in spot.spread:
        alike: Steps = []
        together: Steps = []
        for fanout, stride, trips in spread:
            if machine.repeats[fanout]:
                copies *= trips
            elif machine.unites[fanout]:
                together.append((stride, trips))
            else:
                alike.append((stride, trips))
        copies *= progressions(alike)[1].size
        united.append(together)
    if compute:
        return copies * tensor.reads * spot.steps * prod(progressions(together)[1].size for together in united)
    if not any(united):
        return copies * _entries(tensor, spot, shapes)
    return copies * _united_entries(tensor, spot, shapes, united)


def _united_entries(tensor: TensorModel, spot: Spot, shapes: list[Shape], united: list[Steps]) -> int:
    """Return the elements of all loads, each the union over siblings displaced by `united`."""
    whole = [translated_sum(Placed(0, shape), steps) for shape, steps in zip(shapes, united, strict=True)]
    kept = 0
    for outer, shifts in _carries(tensor, spot):
        still = 1
        for shape, steps, total, shift in zip(shapes, united, whole, shifts, strict=True):
            # the tile before was displaced by -shift against the one now
            new = difference(Placed(0, shape), Placed(-shift, shape)) if abs(shift) <= shape.span else Placed(0, shape)
            if new is not None:
                loaded = translated_sum(new, steps)
                still *= total.size - loaded.size
            else:
                still *= total.size
        kept += outer * still
    return spot.tile * (spot.steps * prod(total.size for total in whole) - kept)


def _written(
    machine: MachineModel, tensor: TensorModel, nodes: tuple[Node, ...], spots: list[Spot]
) -> Iterator[tuple[Row, Busy]]:
    """Yield the rows of a written tensor from entries, entry events and arrivals (docs/closed_form.md)."""
    fills = first_fills = 0  # of all instances; of the one that is first among its siblings everywhere
    entries = 0
    lopsided = False
    for number, (node, spot, below) in enumerate(zip(nodes, spots, spots[1:], strict=False)):
        shapes = spot.shapes()
        tile = spot.tile * prod(shape.size for shape in shapes)
        if number == 0:
            entries = tile
            fills = first_fills = tile if tensor.initial and not tensor.overwritten else 0
        else:
            enter = _entries(tensor, spot, shapes)
            lopsided = lopsided or any(spot.spread)
            offsets = spot.apart * prod(trips for spread in spot.spread for _, _, trips in spread)
            first_fills = (enter * offsets - entries // spot.parents + first_fills) // offsets
            fills += enter * offsets * spot.parents - entries
            entries = enter * spot.instances
            if lopsided and fills:  # siblings may share an element of a window, or take different shares
                raise too_large()
        arrivals = _arrivals(machine, tensor, below, compute=number + 2 == len(nodes))
        if number == 0:
            reads = arrivals - entries + fills
            yield Row(node.level, tensor.index, reads, arrivals, 0, 0, tile), (reads, arrivals)
        else:
            moved, busy = arrivals + fills, arrivals // spot.instances + first_fills
            yield Row(node.level, tensor.index, moved, moved, fills, entries, tile), (busy, busy)


def _arrivals(machine: MachineModel, tensor: TensorModel, spot: Spot, *, compute: bool) -> int:
    """Return how many drains reach the parent instances, siblings added on the way where there are adders."""
    total = spot.parents * spot.apart * prod(trips for fanout, trips in spot.idle if not machine.adds[fanout])
    if not compute:
        spread = prod(trips for spread in spot.spread for _, _, trips in spread)
        return total * spread * _entries(tensor, spot, spot.shapes())
    for spread in spot.spread:
        total *= prod(trips for fanout, _, trips in spread if not machine.adds[fanout])
        total *= progressions((stride, trips) for fanout, stride, trips in spread if machine.adds[fanout])[1].size
    return total * spot.steps
