"""What a nest takes in steps at least, over all boxes of its storage nodes (docs/latency.md, "Searches").

On a machine that holds what is read in one level, whose tiles come in every step, and sums in another one, a tree is
three nested boxes of statement instances: those in one visit of the node of either tensor that is read, and those
between two stores of sums. They say how many steps there are, which of them load what, and how much work each has at
least. So no tree with these boxes is faster than their own bound, and the least of all bounds the nest.

A box is a column of a table with the boxes of all sizes that divide. What a loop nest does to a box follows from its
sizes alone: tiles of siblings count as one, and every tensor's tile has at least as many elements as sets of indices of
these sizes make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from math import inf, prod
from operator import mul

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel.referees.arrays import Ints
from polymap.costmodel.referees.box_work import BoxWork
from polymap.costmodel.step_bounds import beats_by_rows
from polymap.costmodel.step_counts import unsupported_in_steps
from polymap.ir import (
    Access,
    Affine,
    Architecture,
    Compute,
    Fanout,
    Mapping,
    MappingNode,
    MemoryLevel,
    PlaceRule,
    Spatial,
    Storage,
    Temporal,
    Tensor,
    Workload,
    accesses_of,
    rule_of,
)
from polymap.schedules import divisors_up_to

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Box = dict[str, int]
_WIDER, _TIMES_WIDER = 1.1, 60  # trees that take so much more are looked at next, so often


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes of a tree, per dim. inner, outer: the tensors that are read, the one whose tile changes more often first;
    inside, outside: below their nodes; stored: between two stores. cycles: what the tree takes at least."""

    inner: Tensor
    outer: Tensor
    inside: Box
    outside: Box
    stored: Box
    cycles: float


@dataclass(frozen=True, slots=True)
class HeldTensors:
    """Which level holds what is read, and which the sums."""

    reads: tuple[Tensor, Tensor]
    of_reads: MemoryLevel
    sums: Tensor
    of_sums: MemoryLevel


def held_apart(workload: Workload, arch: Architecture) -> HeldTensors | None:
    """Return where tensors are held; None for machines and nests that boxes of nodes say nothing about."""
    read = [each for each in workload.tensors if rule_of(workload, each.name) is PlaceRule.READ_ONLY]
    written = [each for each in workload.tensors if each not in read]
    if (
        len(workload.statements) > 1
        or unsupported_in_steps(workload, arch)
        or len(read) != 2
        or len(written) != 1
        or written[0].temporary
    ):
        return None
    if rule_of(workload, written[0].name) is PlaceRule.PLAIN:
        return None
    levels = [next((each for each in arch.levels[1:] if each.may_hold(one)), None) for one in (*read, *written)]
    first, second, of_sums = levels
    if first is None or of_sums is None or first is not second or first is of_sums or first.keeps:
        return None
    required = (*(first.requires(one) for one in read), of_sums.requires(written[0]))
    outermost = not any(arch.fanouts_above(level.name) or level.implicit for level in (first, of_sums))
    mixed = first.may_hold(written[0]) or any(of_sums.may_hold(one) for one in read)
    if mixed or not outermost or not all(required):
        return None
    for tensor in workload.tensors:
        dims = [dim for index in access_of(workload, tensor).index for dim in index.dims]
        if len(dims) > len({*dims}):
            return None
    return HeldTensors((read[0], read[1]), first, written[0], of_sums)


def access_of(workload: Workload, tensor: Tensor) -> Access:
    """Return the access of a tensor that is accessed in one way."""
    return accesses_of(workload.statements[0], tensor.name)[0]


class StepBoxes:
    """The bound of one nest. held: as `held_apart` says; stop: whether work may be left untold, 0."""

    def __init__(
        self, workload: Workload, arch: Architecture, held: HeldTensors, stop: Callable[[], bool] = lambda: False
    ) -> None:
        self.workload, self.arch, self.held = workload, arch, held
        self.extents = workload.extents()
        self.outer, self.issue = arch.levels[0], float(held.of_reads.step_cycles)
        sizes = [np.array(divisors_up_to(each, each), np.int64) for each in self.extents.values()]
        self._places: Ints = np.indices([len(each) for each in sizes]).reshape(len(sizes), -1)
        self.table: Ints = np.array([own[place] for own, place in zip(sizes, self._places, strict=True)], np.int64)
        self._divides = [own[None, :] % own[:, None] == 0 for own in sizes]  # [divisor, multiple]
        self.visits = self._product(list(self.extents), inverse=True)
        self._elements = {each.name: self._elements_of(each) for each in workload.tensors}
        self.moved = {each.name: self._least_moved(each) for each in workload.tensors}
        self._bits = {name: _product_of(axes) * workload.tensor(name).bits for name, axes in self._elements.items()}
        self.means = {each.name: self._mean_moved(each) for each in held.reads}
        self.work = BoxWork(workload, arch, held.reads)
        own = self.work.own_dims
        self._own, self._others = (self._product([d for d in self.extents if (d in own) == w]) for w in (True, False))
        preloaded = self._own if self.work.tensor is None else _product_of(self._elements[self.work.tensor.name])
        boxes = [self._box(place) for place in range(self.table.shape[1])]
        instances = self._own * self._others
        self.least_work, self.work_anew = self.work.least(boxes, instances, preloaded, stop)

    def _product(self, dims: list[str], *, inverse: bool = False) -> Floats:
        found = np.ones(self.table.shape[1])
        for place, (dim, extent) in enumerate(self.extents.items()):
            if dim in dims:
                found = found * (extent / self.table[place] if inverse else self.table[place])
        return found

    def _elements_of(self, tensor: Tensor) -> list[Floats]:
        """Return the elements along each axis of a tensor's tiles, at least, per box."""
        axes = [self._along(index) for index in access_of(self.workload, tensor).index]
        return [np.ones(self.table.shape[1]), *axes]

    def _along(self, index: Affine) -> Floats:
        """Return how many places an index takes at least. Sums of n and m numbers are n + m - 1 at least, and where the
        n are multiples of a factor, so many for each remainder that the m have."""
        dims = list(self.extents)
        terms = [(abs(f), self.table[dims.index(d)], self.extents[d]) for d, f in index.coefficients().items() if f]
        found = np.ones(self.table.shape[1])
        for _, own, _ in terms:
            found = found + own - 1
        for (factor, many, _), (step, few, extent) in [terms, terms[::-1]] if len(terms) == 2 else []:
            if step == 1 and factor > 1:
                found = np.where(few == extent, min(factor, extent) * (many - 1.0) + extent, found)
        return found

    def _band(self, tensor: Tensor) -> float:
        """Return the bits a cycle that the outermost bus moves of a tensor; inf: it takes no time."""
        level = self.outer
        is_read = tensor in self.held.reads
        own = level.read_bandwidth_bits_per_cycle if is_read else level.write_bandwidth_bits_per_cycle
        return float(own or level.bandwidth_bits_per_cycle or inf)

    def _least_moved(self, tensor: Tensor) -> Floats:
        """Return the cycles of the outermost bus that a tile takes at least, wherever it lies."""
        level, axes, beat = self.outer, self._elements[tensor.name], self.outer.beat_bits or 1
        by_rows = level.row_requests
        by_rows |= (level.command_bits if tensor in self.held.reads else level.write_command_bits) is not None
        each = np.ceil(axes[-1] * tensor.bits / beat) * beat if by_rows else axes[-1] * tensor.bits
        return _product_of([*axes[:-1], each]) / self._band(tensor)

    def _mean_moved(self, tensor: Tensor) -> tuple[Floats, Floats]:
        """Return the cycles that all loads of a tile take at least in the mean, and what comes on top once: each whole
        row is loaded from where it lies."""
        least, axes, beat = self.moved[tensor.name], self._elements[tensor.name], self.outer.beat_bits or 1
        by_rows, once = beats_by_rows(self.workload, self.arch, tensor)
        if not by_rows:
            return least, 0 * least
        each = np.array([float(by_rows.get(int(size), 0)) for size in axes[-1]])
        mean = np.maximum(least, _product_of(axes) * each * beat / self._band(tensor))
        more = max(0.0, once * beat / self._band(tensor) - float(least[-1]))
        return mean, np.where((axes[-1] == axes[-1][-1]) & (mean == least), more, 0.0)

    def found(
        self, most: float, stop: Callable[[], bool], *, most_pairs: int, per_pair: int
    ) -> tuple[float, list[Boxes]]:
        """Return a bound (0 where `stop` ends the search too early), and boxes of trees that may take less than `most`,
        the best first: among them the best of all. most_pairs: boxes of what is read that are looked at; per_pair:
        boxes between stores that are told for each."""
        one, other = self.held.reads
        alone = (self.visits * np.maximum(self.moved[each.name], self.least_work) for each in self.held.reads)
        limit = float(self.arch.start_cycles) + max(float(each.min()) for each in alone)
        kinds = [(one, other), (other, one)]
        for _ in range(_TIMES_WIDER):
            limit = min(most, limit * _WIDER)
            pairs = self._pairs_of_boxes(kinds, limit, stop, most_pairs)
            if pairs is None:
                break
            least, boxes = self._best_of(pairs, kinds, limit, stop, per_pair)
            if least < limit or limit == most:
                return least, boxes
        return 0.0, []

    def _pairs_of_boxes(
        self, kinds: list[tuple[Tensor, Tensor]], most: float, stop: Callable[[], bool], most_pairs: int
    ) -> Floats | None:
        """Return pairs of boxes of what is read, those of trees that take least first: [kind, cycles, boxes]."""
        found, many = [np.zeros((4, 0))], 0
        for kind, names in enumerate(kinds):
            for each in self._pairs(*names, most):
                found.append(np.insert(each, 0, kind, axis=0))
                many += each.shape[1]
                if many > most_pairs or stop():
                    return None
        pairs = np.concatenate(found, axis=1)
        return pairs[:, np.argsort(pairs[1], kind="stable")]

    def _best_of(
        self, pairs: Floats, kinds: list[tuple[Tensor, Tensor]], most: float, stop: Callable[[], bool], per_pair: int
    ) -> tuple[float, list[Boxes]]:
        """Return what trees with these boxes of what is read take at least (at most `most`), and the best of them."""
        least, boxes = most, list[Boxes]()
        for kind, lower, inside, outside in pairs.T:
            if lower >= least or stop():
                least = min(float(lower), least)
                break
            (inner, outer), places = kinds[int(kind)], (int(inside), int(outside))
            at, cycles = self.with_stores(inner, outer, *places)
            for best in np.argsort(cycles, kind="stable")[:per_pair]:
                if cycles[best] < most:
                    least = min(least, float(cycles[best]))
                    read, stored = [self._box(place) for place in places], self._box(int(at[best]))
                    boxes.append(Boxes(inner, outer, read[0], read[1], stored, float(cycles[best])))
        return least, sorted(boxes, key=lambda each: each.cycles)

    def _box(self, place: int) -> Box:
        return dict(zip(self.extents, self.table[:, place].tolist(), strict=True))

    def _around(self, place: int) -> Flags:
        """Return which boxes are made of this one."""
        return np.logical_and.reduce([d[own[place]][own] for d, own in zip(self._divides, self._places, strict=True)])

    def _within(self, place: int) -> Flags:
        """Return which boxes this one is made of."""
        own = zip(self._divides, self._places, strict=True)
        return np.logical_and.reduce([divides[:, places[place]][places] for divides, places in own])

    def _share_anew(self, box: int | Ints, beyond: int | Ints) -> Floats:
        """Return in which share of a box's visits, at least, what is beside the compute units is another tile, by the
        loops that make it the box beyond: the innermost one that changes it may lie outside of all others, and some
        may lie inside of its node."""
        changes = self._own[beyond] > self._own[box] * self.work.held
        return np.where(changes, self._others[box] / self._others[beyond] / self.work.held, 0.0)

    def _pairs(self, inner: Tensor, outer: Tensor, most: float) -> Iterator[Floats]:
        """Yield what trees take at least by the boxes of what is read, and these."""
        room = self.held.of_reads.usable_bits or inf
        load, sums = self.moved[inner.name], self.held.sums
        stores = float(self.moved[sums.name][-1])
        alone = self.visits * np.maximum(np.maximum(load, self.least_work), self.issue)
        for inside in np.nonzero((alone < most) & (self._bits[inner.name] <= room))[0].tolist():
            fits = self._around(inside) & (self._bits[outer.name] + self._bits[inner.name][inside] <= room)
            outside = np.nonzero(fits)[0]
            if not len(outside):
                continue
            steps = _Steps(self, inner, outer, inside, outside)
            steps.share(self._share_anew(inside, outside))
            n1 = float(self.visits[inside])
            moved = steps.mean + steps.anew
            if self.outer.one_bus:
                moved = steps.mean + np.maximum(stores, steps.anew + stores * (1 - 1 / n1))
            total = steps.of(n1 - steps.n2, steps.n2, n1 * steps.shared)
            lower = float(self.arch.start_cycles) + np.maximum(total + steps.first, moved)
            told: Floats = np.array([lower, np.full(len(lower), float(inside)), outside.astype(np.float64)])
            yield told[:, lower < most]

    def with_stores(self, inner: Tensor, outer: Tensor, inside: int, outside: int) -> tuple[Ints, Floats]:
        """Return what trees take at least whose reads have these boxes, per box between two stores."""
        fits = self._bits[self.held.sums.name] <= (self.held.of_sums.usable_bits or inf)
        around, beyond, within = self._around(inside), self._around(outside), self._within(inside)
        below = self._within(outside)
        found: list[tuple[Ints, Floats]] = []
        for chosen, count in (
            (beyond, self._beyond_both),
            (around & below, self._between),
            (within, self._below_both),
        ):
            at = np.nonzero(fits & chosen)[0]
            steps = _Steps(self, inner, outer, inside, np.array([outside]))
            found.append((at, count(steps, at)))
        places = np.concatenate([at for at, _ in found])
        return places, float(self.arch.start_cycles) + np.concatenate([cycles for _, cycles in found])

    def _beyond_both(self, steps: _Steps, at: Ints) -> Floats:
        """Return the cycles where both tensors are loaded between two stores."""
        visits, store = self.visits[at], self.moved[self.held.sums.name][at]
        steps.share(self._share_anew(steps.inside, at if steps.is_one else steps.outside))
        n1, n2 = steps.n1 / visits, steps.n2 / visits
        group = steps.of(n1 - n2, n2, n1 * steps.shared)
        loads = n1 * steps.many + n2 * steps.few
        found = group + steps.first + (visits - 1) * np.maximum(group, self._beside(loads, store)) + store
        return np.maximum(found + steps.surplus(0.0, self.issue), steps.mean + steps.anew + self._all(visits, store))

    def _between(self, steps: _Steps, at: Ints) -> Floats:
        """Return the cycles where the tensor that changes less often is loaded before several stores."""
        visits, store = self.visits[at], self.moved[self.held.sums.name][at]
        steps.share(self._share_below(steps, at))
        n = steps.n1 / visits
        plain = steps.of(n, 0 * n, n * steps.shared)
        with_both = steps.of(n - 1, 0 * n + 1, n * steps.shared)
        found = with_both + steps.first + store
        found = found + (steps.n2 - 1) * np.maximum(with_both, self._beside(n * steps.many + steps.few, store))
        found = found + (visits - steps.n2) * np.maximum(plain, self._beside(n * steps.many, store))
        return np.maximum(found + steps.surplus(0.0, self.issue), steps.mean + steps.anew + self._all(visits, store))

    def _below_both(self, steps: _Steps, at: Ints) -> Floats:
        """Return the cycles where there are stores in every step."""
        visits, store = self.visits[at], self.moved[self.held.sums.name][at]
        inside = np.full(len(at), steps.inside)
        share = np.where(at == inside, self._share_below(steps, at), self._share_anew(at, inside))
        plain, anew = np.maximum(self.least_work[at], store), np.maximum(self.work_anew[at], store)
        n = visits / steps.n1
        groups = np.maximum(n * plain + n * share * (anew - plain), steps.work)
        before = self.work_anew[at] + (n - 1) * plain + np.maximum(n * share - 1, 0) * (anew - plain)
        before = np.maximum(before, steps.anew)
        rest, least = (steps.n1 - 1) * n * store + store, np.maximum(groups, self.issue)
        found = steps.both + before + store
        found = found + (steps.n2 - 1) * np.maximum(self._beside(steps.both, n * store), least)
        found = found + (steps.n1 - steps.n2) * np.maximum(self._beside(steps.many, n * store), least)
        in_all = steps.mean + before + (rest if self.outer.one_bus else store)
        return np.maximum(found + steps.surplus(n * store, least), in_all)

    def _share_below(self, steps: _Steps, at: Ints) -> Floats:
        """Return the share of steps with other tiles beside the compute units: where they are boxes between two stores
        themselves, that of loops further out counts if it is all."""
        further = np.floor(self._share_anew(steps.inside, steps.outside))
        return np.where(at == steps.inside, further, self._share_anew(steps.inside, at))

    def _beside(self, loads: Floats, stores: Floats) -> Floats:
        """Return what loads and stores take of the outermost bus together."""
        return loads + stores if self.outer.one_bus else np.maximum(loads, stores)

    def _all(self, visits: Floats, store: Floats) -> Floats:
        """Return what stores take besides loads, and at the end."""
        return visits * store if self.outer.one_bus else store


def _product_of(factors: list[Floats]) -> Floats:
    return reduce(mul, factors)


class _Steps:
    """Steps with given boxes of what is read: some load only the tensor that changes more often, some both."""

    def __init__(self, of: StepBoxes, inner: Tensor, outer: Tensor, inside: int, outside: Ints) -> None:
        moved, means, visits = of.moved, of.means, of.visits
        self.inside, self.outside, self._issue = inside, outside, of.issue
        self.n1, self.n2 = visits[inside], visits[outside]
        self.many, self.few = moved[inner.name][inside], moved[outer.name][outside]
        self.both, self.is_one = self.many + self.few, bool((outside == inside).all())
        (one, once), (other, also) = means[inner.name], means[outer.name]
        self._more_of_inner = self.n1 * (one[inside] - self.many) + once[inside]
        self._more_of_outer = self.n2 * (other[outside] - self.few) + also[outside]
        self.mean = self.n1 * self.many + self.n2 * self.few + self._more_of_inner + self._more_of_outer
        self._one_bus = of.outer.one_bus
        self.work, self.anew = of.least_work[inside], of.work_anew[inside]

    def share(self, shared: Floats) -> None:
        """Set the share of steps in which what is beside the compute units changes."""
        self.shared = shared
        self._alone, self._alone_anew, self._two, self._two_anew = (
            np.maximum(work, np.maximum(load, self._issue))
            for load in (self.many, self.both)
            for work in (self.work, self.anew)
        )
        waits = self.both + self.anew + np.maximum(self._issue - self.both, 0)
        self.first: Floats = waits - np.where(shared > 0, self._two_anew, self._two)  # beyond any step

    def of(self, alone: Floats, two: Floats, anew: Floats) -> Floats:
        """Return what so many steps take that load one tensor, and two, where so many of them change what is beside the
        compute units: at best those that load two."""
        also = np.minimum(anew, two)
        found = alone * self._alone + two * self._two
        return found + also * (self._two_anew - self._two) + (anew - also) * (self._alone_anew - self._alone)

    def surplus(self, beside: float | Floats, least: float | Floats) -> Floats:
        """Return what loads take beyond the least in all, where every step waits for them. beside: what else the bus
        moves in a step; least: what a step takes otherwise."""
        if not self._one_bus:
            return np.zeros(1)
        most = np.maximum(least, self.anew)
        of_inner = np.where(self.many + beside >= most, self._more_of_inner, 0.0)
        return of_inner + np.where(self.both + beside >= most, self._more_of_outer, 0.0)


def tree_of_boxes(of: StepBoxes, boxes: Boxes) -> Mapping:
    """Return a tree with these boxes. Loops over dims of sums are inside of others between two nodes, so that sums are
    stored when they are done, and of these such as change nothing beside the compute units."""
    held, own = of.held, of.work.own_dims
    sums = {dim for index in access_of(of.workload, held.sums).index for dim in index.dims}
    order = sorted(of.extents, key=lambda dim: (dim in sums, dim not in own))
    parts = [
        (boxes.stored, Storage(held.of_sums.name, (held.sums.name,))),
        (boxes.outside, Storage(held.of_reads.name, (boxes.outer.name,))),
        (boxes.inside, Storage(held.of_reads.name, (boxes.inner.name,))),
    ]
    nodes, now = list[MappingNode](), dict(of.extents)
    for box, storage in sorted(parts, key=lambda part: -prod(part[0].values())):
        nodes += [*(Temporal(dim, box[dim]) for dim in order if box[dim] < now[dim]), storage]
        now = box
    return Mapping((*nodes, *_below_nodes(of, now, order), Compute(of.workload.statements[0].name)))


def _below_nodes(of: StepBoxes, box: dict[str, int], order: list[str]) -> list[MappingNode]:
    """Return what is below the nodes: loops that change what is beside the compute units, fan-outs, and other loops."""
    own, shares = of.work.own_dims, of.work.shares(box)
    left = {dim: prod(shares[dim]) if dim in own else box[dim] for dim in box}
    nodes: list[MappingNode] = [Temporal(dim, left[dim]) for dim in order if left[dim] < box[dim]]
    place = max(of.arch.nodes.index(level) for level in (of.held.of_reads, of.held.of_sums))
    for node in of.arch.nodes[place + 1 :]:
        if isinstance(node, Fanout):
            number = of.arch.fanouts.index(node)
            for dim in order:
                if shares[dim][number] > 1:
                    left[dim] //= shares[dim][number]
                    nodes.append(Spatial(dim, left[dim], node.name))
        elif isinstance(node, MemoryLevel):
            nodes += [Storage(node.name, (each.name,)) for each in of.workload.tensors if node.requires(each)]
    return [*nodes, *(Temporal(dim, 1) for dim in order if left[dim] > 1)]
