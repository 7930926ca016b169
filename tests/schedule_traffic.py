"""What a schedule of a program moves with one buffer, by walking its accesses: the referee of bounds over all
schedules. It shares no code with polymap's cost models and searches.

The buffer is more generous than a storage node may be: any element may enter and leave at any access, an access may
pass it by, the value that is used again last gives way, and values of temporaries that nothing reads any more cost
nothing.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass

from polymap.ir.loopnest import Operator, Workload
from tests.nests import instances

Element = tuple[str, tuple[int, ...]]
READ, ASSIGN, FIRST_SUM = 0, 1, 3  # kinds of an access; any other accumulation is SUM
SUM = 2


@dataclass(frozen=True)
class Run:
    """A program's instances in its own order, each with the elements that it touches and how; pairs that keep their
    order, as places in that order."""

    touched: list[list[tuple[Element, int]]]
    points: list[tuple[str, tuple[int, ...]]]
    pairs: list[tuple[int, int]]


def run_of(work: Workload) -> Run:
    touched: list[list[tuple[Element, int]]] = []
    points: list[tuple[str, tuple[int, ...]]] = []
    kinds: dict[Element, list[tuple[int, str]]] = {}
    for number, (statement, point) in enumerate(instances(work)):
        values = dict(zip(statement.dims, point, strict=True))
        own: list[tuple[Element, int]] = []
        for read in statement.reads:
            element = read.tensor, tuple(index.evaluate(values) for index in read.index)
            own.append((element, READ))
            kinds.setdefault(element, []).append((number, "read"))
        element = statement.target.tensor, tuple(index.evaluate(values) for index in statement.target.index)
        assigns = statement.operator is Operator.ASSIGN
        own.append((element, ASSIGN if assigns else SUM))
        kinds.setdefault(element, []).append((number, "=" if assigns else statement.operator.value))
        touched.append(own)
        points.append((statement.name, point))
    pairs: list[tuple[int, int]] = []
    for found in kinds.values():
        for place, (one, first) in enumerate(found):
            for other, second in found[place + 1 :]:
                if one != other and (first != second or first == "="):
                    pairs.append((one, other))
    return Run(touched, points, pairs)


def tiled_order(run: Run, rng: random.Random) -> list[int] | None:
    """Return the instances in a random order of tiles, loops within tiles, and statements; None if it is not legal."""
    depth = max(len(point) for _, point in run.points)
    outer, inner = list(range(depth)), list(range(depth))
    if rng.random() < 0.7:
        rng.shuffle(outer)
        rng.shuffle(inner)
    tiles = [rng.choice((1, 2, 3, 4, 5, 6, 8, 12, 99)) for _ in range(depth)]
    keys: list[tuple[int, ...]] = []
    for number, (_, point) in enumerate(run.points):
        full = (*point, *[0] * (depth - len(point)))
        keys.append((*(full[d] // tiles[d] for d in outer), *(full[d] for d in inner), number))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    place = {number: at for at, number in enumerate(order)}
    return order if all(place[one] < place[other] for one, other in run.pairs) else None


def moved_elements(work: Workload, run: Run, order: list[int], room: int) -> int:
    """Return the elements read and written at the outermost level with room for so many inside."""
    sums = {t.name for t in work.tensors} - _read(work) - _assigned(work)
    trace: list[tuple[Element, int]] = [access for number in order for access in run.touched[number]]
    following = [len(trace)] * len(trace)
    last: dict[Element, int] = {}
    for at in range(len(trace) - 1, -1, -1):
        following[at] = last.get(trace[at][0], len(trace))
        last[trace[at][0]] = at
    overwritten = [at < len(trace) and trace[at][1] == ASSIGN for at in range(len(trace) + 1)]
    tensors = {tensor.name: tensor for tensor in work.tensors}
    zero = {e for e in last if e[0] in sums and not tensors[e[0]].initial}
    inside: dict[Element, tuple[int, bool]] = {}  # when it is used next, whether it must be written back
    queue: list[tuple[int, Element]] = []
    moved = 0
    for at, (element, kind) in enumerate(trace):
        next_at = following[at]
        dead = tensors[element[0]].temporary and (next_at == len(trace) or overwritten[next_at])
        if element in inside:
            dirty = inside.pop(element)[1]
        else:
            dirty = False
            if kind == READ or (kind == SUM and element not in zero):
                moved += 1
        zero.discard(element)
        dirty = (dirty or kind != READ) and not dead
        inside[element] = next_at, dirty
        heapq.heappush(queue, (-next_at, element))
        while len(inside) > room:
            when, out = heapq.heappop(queue)
            if out in inside and inside[out][0] == -when:
                moved += inside.pop(out)[1]
    return moved + sum(dirty for _, dirty in inside.values())


def _read(work: Workload) -> set[str]:
    return {read.tensor for each in work.statements for read in each.reads}


def _assigned(work: Workload) -> set[str]:
    return {each.target.tensor for each in work.statements if each.operator is Operator.ASSIGN}
