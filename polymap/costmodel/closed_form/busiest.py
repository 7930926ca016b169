"""What the busiest instance of each level reads and writes, where tiles need not divide.

Instances whose digits leave the same lengths everywhere do the same, except that the first of several siblings takes a
partial sum. One instance per kind is counted on its own; kinds that can be no busier than the first are left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import product
from math import prod

from polymap.arithmetic import too_large
from polymap.costmodel.closed_form.accounting import (
    Busiest,
    Row,
    fills_of_target,
    initial_of,
    moves_of_operand,
    moves_of_target,
)
from polymap.costmodel.closed_form.carries import Pins, Scene, Siblings
from polymap.costmodel.closed_form.digits import Clock, Part, Track, left, runs, siblings as all_siblings
from polymap.costmodel.closed_form.groups import TensorModel
from polymap.costmodel.closed_form.nest import TEMPORAL, Loop, Node
from polymap.costmodel.closed_form.partial_tiles import Counter
from polymap.costmodel.closed_form.refills import joint_changes
from polymap.costmodel.closed_form.shares import Shares, shares_of

_MAX_CANDIDATES = 500


def busiest_of_levels(counter: Counter, rows: list[Row[int]], left_out: Collection[int] = ()) -> tuple[Busiest, ...]:
    """Return the busiest instance per level, outermost first, of a mapping with these rows. left_out: levels of which
    it is not wanted, and may be 0."""
    nest = counter.nest
    lopsided = {
        node.level
        for tensor, nodes in zip(counter.model.tensors, nest.holders, strict=True)
        for node in nodes[1:-1]
        if tensor.written and counter.is_lopsided(tensor, node)
    }
    alike: tuple[Busiest, ...] = ()
    if all(nest.even[loop.dim] for loop in nest.loops if loop.fanout != TEMPORAL):
        alike = _all_alike(counter, rows)
    found: list[Busiest] = []
    for level, fans in counter.machine.levels.values():
        if alike and level not in lopsided:
            found.append(alike[level])
        elif level in left_out:
            found.append(Busiest())
        else:
            found.append(_busiest(counter, level, fans) if fans else _only(counter, rows, level))
    return tuple(found)


def _only(counter: Counter, rows: list[Row[int]], level: int) -> Busiest:
    """Return what the only instance of a level reads and writes."""
    bits = [tensor.bits for tensor in counter.model.tensors]
    read = sum(row.reads * bits[row.tensor] for row in rows if row.level == level)
    written = sum(row.writes * bits[row.tensor] for row in rows if row.level == level)
    return Busiest(read, written, read + written)


def _all_alike(counter: Counter, rows: list[Row[int]]) -> tuple[Busiest, ...]:
    """Return the same where all instances have the same tiles, so that they differ only in the partial sums they take.

    The first of each set of siblings with the same elements takes all of them.
    """
    use = [[0, 0] for _ in counter.machine.level_names]
    fans = [fans for _, fans in counter.machine.levels.values()]
    last: Row[int] | None = None
    first_fills = 0
    for row in rows:
        tensor = counter.model.tensors[row.tensor]
        instances = _trips(counter, tensor, 0, fans[row.level], (0, 1, 2))
        reads, writes = row.reads // instances, row.writes // instances
        if tensor.written and last is None:
            first_fills = initial_of(tensor, row.tile, 0)
        elif tensor.written and last is not None:
            above, here = fans[last.level], fans[row.level]
            stays = last.drains if last.level else last.tile
            parents = _trips(counter, tensor, 0, above, (0, 1, 2))
            events = (row.fills + stays - last.fills) if last.level else row.fills + stays - first_fills
            offsets = _trips(counter, tensor, above, here, (1, 2))
            first_fills = (
                fills_of_target(events // parents, stays // parents, first_fills) // offsets if row.fills else 0
            )
            reads = writes = (row.reads - row.fills) // instances + first_fills
        last = row if tensor.written else last
        use[row.level][0] += reads * tensor.bits
        use[row.level][1] += writes * tensor.bits
    return tuple(Busiest(read, written, read + written) for read, written in use)


def _trips(counter: Counter, tensor: TensorModel, low: int, high: int, kinds: tuple[int, ...]) -> int:
    """Return the product of the trips of loops over dims of these kinds on fan-outs low <= fan-out < high."""
    return prod(
        loop.trips for loop in counter.nest.loops if low <= loop.fanout < high and tensor.kinds[loop.dim] in kinds
    )


def _busiest(counter: Counter, level: int, fans: int) -> Busiest:
    """Return the most that one instance of a level below `fans` fan-outs reads and writes."""
    here = [
        (tensor, number, nodes)
        for tensor, nodes in zip(counter.model.tensors, counter.nest.holders, strict=True)
        for number, node in enumerate(nodes)
        if node.level == level
    ]
    instances = Instances(counter)
    best = Busiest()
    for kind in kinds_of_instances(counter, fans):
        read = written = 0
        for tensor, number, nodes in here:
            reads, writes = instances.accesses(tensor, nodes, number, kind)
            read += reads * tensor.bits
            written += writes * tensor.bits
        best = Busiest(max(best.read, read), max(best.written, written), max(best.moved, read + written))
    return best


def kinds_of_instances(counter: Counter, fans: int) -> Iterator[dict[int, range]]:
    """Yield the digits (position of a spatial loop -> digits) of the instances of each kind that may be the busiest.

    Only dims of a window, or that the target lacks, let another instance than the first do more: under a single, an
    instance with shorter tiles changes them at no other steps. Where all tiles of a dim divide, all do the same but for
    the partial sums they take.
    """
    loops: list[Loop[int]] = []
    digits: list[tuple[range, ...]] = []
    for dim, chain in enumerate(counter.nest.chains):
        doubtful = _may_be_busier(counter, dim)
        links = tuple((loop.tile, Part.TIME if loop.fanout == TEMPORAL else Part.EACH, 0) for loop in chain)
        for loop, found in zip(chain, runs(counter.model.extents[dim], links), strict=True):
            if loop.fanout != TEMPORAL and loop.fanout < fans:
                loops.append(loop)
                every = tuple(range(first, first + many) for first, many in found)
                digits.append(every if doubtful else (range(1),))
    if prod(len(each) for each in digits) > _MAX_CANDIDATES:
        raise too_large()
    for chosen in product(*digits):
        kind = {loop.position: run for loop, run in zip(loops, chosen, strict=True)}
        if _works(counter, {position: run.start for position, run in kind.items()}):
            yield kind


def _may_be_busier(counter: Counter, dim: int) -> bool:
    return any(
        tensor.kinds[dim] == 2 or (tensor.written and tensor.kinds[dim] == 0) for tensor in counter.model.tensors
    )


def _works(counter: Counter, pins: Pins) -> bool:
    """Return whether the instance has work in the first step, and so in any."""
    for extent, chain in zip(counter.model.extents, counter.nest.chains, strict=True):
        length = extent
        for loop in chain:
            length = left(length, pins.get(loop.position, 0), loop.tile)
        if length <= 0:
            return False
    return True


class Instances:
    """What instances of levels read and write, one by one. kind: position of a spatial loop -> digits that leave the
    same of each length; of these instances the one that takes the most partial sums is meant."""

    __slots__ = ("_counter", "_shares")

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._shares: dict[tuple[int, tuple[tuple[int, int], ...]], Shares] = {}

    def accesses(
        self, tensor: TensorModel, nodes: tuple[Node, ...], number: int, kind: Mapping[int, range]
    ) -> tuple[int, int]:
        """Return what such an instance reads and writes of a tensor at its node `number`."""
        counter, node, below = self._counter, nodes[number], nodes[number + 1]
        pins = {position: digits.start for position, digits in kind.items()}
        if not tensor.written:
            fills = counter.fills(tensor, nodes[number - 1], node, pins) if number else 0
            moves = moves_of_operand(counter.messages(tensor, node, below, pins), fills, 0)
            return moves.reads, moves.writes
        arrivals = counter.arrivals(tensor, node, below, pins)
        if number and counter.is_lopsided(tensor, node):
            fills = self._shares_of(tensor, number, pins).most(kind)
        else:
            fills = fills_of(counter, tensor, nodes, number, pins)
        stays = 0 if number else counter.tile(tensor, node)
        moves = moves_of_target(arrivals, fills, stays, outermost=not number, none=0)
        return moves.reads, moves.writes

    def _shares_of(self, tensor: TensorModel, number: int, pins: Pins) -> Shares:
        told = [loop.position for loop in self._counter.nest.loops if tensor.kinds[loop.dim] == 1]
        key = number, tuple((position, pins[position]) for position in told if position in pins)
        if key not in self._shares:
            self._shares[key] = shares_of(self._counter, tensor, number, dict(key[1]))
        return self._shares[key]


def fills_of(counter: Counter, tensor: TensorModel, nodes: tuple[Node, ...], number: int, pins: Pins) -> int:
    """Return how many partial sums the instance with these digits takes from its parent, of a written tensor
    of which siblings take equal shares.

    Every event but the first of a stay brings one to the first of the siblings that enter the element. The first
    sibling enters whenever the element is new to all; at other events it stays, and later ones come back from idling.
    """
    if number == 0:
        return initial_of(tensor, _first_entries(counter, tensor, nodes, pins), 0)
    parent, node = nodes[number - 1], nodes[number]
    if not counter.refills(tensor, node):
        return 0
    siblings = _idle_siblings(counter, tensor, parent, node)
    if any(pins[loop.position] for loop in siblings):
        return _come_back(counter, tensor, parent, node, siblings, pins)
    if number == 1:
        stays = _first_entries(counter, tensor, nodes, pins)
    else:
        stays = counter.entries(tensor, nodes[number - 2], parent, pins)
    events = counter.events(tensor, parent, node, pins) - counter.come_back(tensor, parent, node, pins)
    return fills_of_target(events, stays, fills_of(counter, tensor, nodes, number - 1, pins))


def _first_entries(counter: Counter, tensor: TensorModel, nodes: tuple[Node, ...], pins: Pins) -> int:
    """Return how many elements the tensor has, of those that the digits of singles allow."""
    return counter.fills(tensor, nodes[0], nodes[0], pins)


def _idle_siblings(counter: Counter, tensor: TensorModel, parent: Node, node: Node) -> list[Loop[int]]:
    """Return the sibling loops over dims that the tensor lacks, in instance order."""
    found = [
        loop for loop in counter.nest.loops if parent.fans <= loop.fanout < node.fans and not tensor.kinds[loop.dim]
    ]
    return sorted(found, key=lambda loop: (loop.fanout, loop.position))


def _come_back(
    counter: Counter, tensor: TensorModel, parent: Node, node: Node, siblings: list[Loop[int]], pins: Pins
) -> int:
    """Return how often elements come back to one sibling other than the first, as the first of those that come back.

    Siblings come back along one dim at a time in this sense: the first of all that do differs from the first sibling
    along one dim only. Where nothing arrived since the entry before, it takes nothing.
    """
    dims = {loop.dim for loop in siblings if pins[loop.position]}
    if len(dims) > 1:
        return 0
    (own,) = dims
    scene = counter.scene(tensor, (parent, node), Siblings.MERGED, pins, Clock.MACHINE)
    target = tuple(pins[loop.position] for loop in siblings)
    kinds = {dim: _kinds_of_siblings(counter, scene, dim, siblings) for dim in scene.lines if not tensor.kinds[dim]}

    def first_back(dim: int, tracks: tuple[Track, ...]) -> tuple[int, ...] | None:
        back = [kind for kind, (now, before) in zip(kinds[dim], tracks, strict=True) if now and not before]
        return min(back, default=None)

    def is_first(back: dict[int, tuple[int, ...] | None]) -> bool:
        others = (first for dim, first in back.items() if dim != own)
        return back.get(own) == target and all(first is None or first > target for first in others)

    found = joint_changes(scene, counter.nest, first_back)
    return sum(times for times, back, silent in found if not silent and is_first(back))


def _kinds_of_siblings(counter: Counter, scene: Scene, dim: int, siblings: list[Loop[int]]) -> list[tuple[int, ...]]:
    """Return the digits of the first sibling of each kind along one dim, in instance order."""
    chain = scene.chains[dim]
    loops = counter.nest.chains[dim][: len(chain)]
    kinds: list[tuple[int, ...]] = []
    for digits in all_siblings(counter.model.extents[dim], chain):
        at = {loop.position: digit for loop, digit in zip(loops, digits, strict=True)}
        kinds.append(tuple(at.get(loop.position, 0) for loop in siblings))
    return kinds
