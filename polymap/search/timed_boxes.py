"""What a nest takes at least in steps, over all boxes of its storage nodes (docs/latency.md, "Searches").

On a machine that holds what is only read in one level, whose tiles are loaded in every step, and sums in another one, a
tree is three nested boxes of statement instances: those below the nodes of both tensors that are read, and those
between two stores of sums. Boxes say how many steps there are, which of them load what, and how much work each has at
least. So each triple has a latency that no tree with these boxes beats, and the least of all bounds the nest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, prod

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel import bus_bits_per_element, unsupported_in_steps
from polymap.ir import (
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
from polymap.search.options import TUNING

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Shares = frozenset[tuple[int, ...]]  # iterations side by side over each fan-out


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes of a tree, per dim: below the node of the tensor that changes most often, below that of the other one, and
    between two stores. inner, outer: these tensors. cycles: what the tree takes at least."""

    inner: Tensor
    outer: Tensor
    inside: dict[str, int]
    outside: dict[str, int]
    stored: dict[str, int]
    cycles: float


class TimedBoxes:
    """The bound for one nest."""

    def __init__(self, workload: Workload, arch: Architecture) -> None:
        self._workload, self._arch = workload, arch
        self._extents = workload.extents()
        self._dims = list(self._extents)
        self._sizes = [np.array(sorted(divisors_up_to(self._extents[dim], self._extents[dim]))) for dim in self._dims]
        grid = np.indices([len(each) for each in self._sizes]).reshape(len(self._dims), -1)
        self._places = grid
        self.table: Ints = np.array([sizes[own] for sizes, own in zip(self._sizes, grid, strict=True)], dtype=np.int64)
        self._divides = [
            np.array([[int(b) % int(a) == 0 for b in sizes] for a in sizes], dtype=bool) for sizes in self._sizes
        ]
        self._outer = arch.levels[0]
        written = next(each for each in workload.tensors if not _is_read(workload, each))
        self._read = [each for each in workload.tensors if _is_read(workload, each)]
        self._written = written
        self._level = next(level for level in arch.levels[1:] if level.may_hold(self._read[0]))
        self._visits: Floats = prod(
            (self._extents[dim] / own for dim, own in zip(self._dims, self.table, strict=True)), start=np.ones(1)
        )
        self._changed, self._registers = self._changes()
        self._work, self._work_anew = self._least_work(always=False), self._least_work(always=True)
        self._others = self._other_dims()
        both = self._outer.bandwidth_bits_per_cycle
        self._load_band = self._outer.read_bandwidth_bits_per_cycle or both
        self._store_band = self._outer.write_bandwidth_bits_per_cycle or both
        self._elements = {each.name: self._elements_of(each) for each in workload.tensors}
        self._moved = {each.name: self._least_moved(each) for each in workload.tensors}

        self._floors = {each.name: self._floor_of(each) for each in workload.tensors}
        self._start = float(arch.start_cycles)

    def _access(self, tensor: Tensor):
        return accesses_of(self._workload.statements[0], tensor.name)[0]

    def _elements_of(self, tensor: Tensor) -> list[Floats]:
        """Return the elements along each axis of a tensor's tile, at least, per box."""
        return [self._along(index) for index in self._access(tensor).index]

    def _along(self, index: Affine) -> Floats:
        """Return how many places an index takes at least: sums of two sets of n and m numbers are n + m - 1 at least,
        and numbers that differ modulo a factor do so after multiples of it are added."""
        terms = [(abs(f), self.table[self._dims.index(d)], self._extents[d]) for d, f in index.coefficients().items()]
        if not terms:
            return np.ones(self.table.shape[1])
        plain: Floats = sum((own.astype(float) - 1 for _, own, _ in terms), start=np.zeros(1)) + 1
        if len(terms) == 2:
            for (factor, many, _), (one, few, extent) in (terms, terms[::-1]):
                if one == 1 and factor > 1:
                    kinds = min(factor, extent)
                    plain = np.where(few == extent, kinds * (many - 1.0) + extent, plain)
        return plain

    def _least_moved(self, tensor: Tensor) -> Floats:
        """Return the cycles of the outermost bus that a tile takes at least, wherever it begins."""
        is_read = _is_read(self._workload, tensor)
        band = self._load_band if is_read else self._store_band
        axes = self._elements[tensor.name]
        if band is None:
            return np.zeros(self.table.shape[1])
        elements: Floats = prod(axes, start=np.ones(self.table.shape[1]))
        beat = self._outer.beat_bits or 1
        command = self._outer.command_bits if is_read else self._outer.write_command_bits
        bits = elements * tensor.bits
        if command is not None or self._outer.row_requests:
            row = axes[-1] if axes else np.ones(self.table.shape[1])
            bits = elements / row * np.ceil(row * tensor.bits / beat) * beat
        return bits / float(band)

    def _lanes(self) -> list[tuple[tuple[int, int], ...]]:
        """Return per box how many instances of the tensor that is changed beside the compute units, and how many others
        for each, may be side by side: pairs that no other one exceeds in both."""
        own = set[str]() if self._changed is None else self._dims_of(self._changed)
        fanouts = self._arch.fanouts
        none = frozenset({(1,) * len(fanouts)})
        kinds: list[list[Shares]] = [[none], [none]]
        sizes = tuple(fanout.size for fanout in fanouts)
        for dim, trips in zip(self._dims, self._sizes, strict=True):
            may = tuple(fanout.size if fanout.may_spread(dim) else 1 for fanout in fanouts)
            factors = [_factors(int(size), may) for size in trips]
            for changes, reached in enumerate(kinds):
                told = factors if changes == (dim in own) else [none] * len(factors)
                kinds[changes] = [_products(each, more, sizes) for each in reached for more in told]
        return [_side_by_side(one, other, sizes) for other, one in zip(*kinds, strict=True)]

    def _other_dims(self) -> Ints:
        """Return a number per box for its size along the dims that the changed tensor is not accessed by."""
        own = set[str]() if self._changed is None else self._dims_of(self._changed)
        found = np.zeros(self.table.shape[1], np.int64)
        for dim, sizes, place in zip(self._dims, self._sizes, self._places, strict=True):
            if dim not in own:
                found = found * len(sizes) + place
        return found

    def _work_in(self, box: int | Ints, beyond: int | Ints) -> Floats:
        """Return the work of a box at least, where the loops right above it make it the box beyond: each changes what is
        beside the compute units where these are loops over its dims alone."""
        anew = (self._others[box] == self._others[beyond]) & (np.asarray(box) != beyond)
        return np.where(anew, self._work_anew[box], self._work[box])

    def _dims_of(self, tensor: Tensor) -> set[str]:
        return {dim for index in self._access(tensor).index for dim in index.dims}

    def _least_work(self, *, always: bool) -> Floats:
        """Return the cycles of work in a box at least: its instances side by side, and changes of what is read beside
        the compute units, where there are any inside of the box."""
        unit = self._arch.compute
        instances = prod((own.astype(float) for own in self.table), start=np.ones(1)) / unit.per_cycle
        lanes = self._lanes()
        found = np.full(self.table.shape[1], np.inf)
        kinds = {each: number for number, each in enumerate(dict.fromkeys(lanes))}
        kind = np.array([kinds[each] for each in lanes])
        elements = np.ones(self.table.shape[1])
        if self._changed is not None:
            elements = prod(self._elements_of(self._changed), start=elements)
        for pairs, number in kinds.items():
            at = kind == number
            for changing, others in sorted(pairs):
                own = self._cycles(instances[at], elements[at], changing, others, always=always)
                found[at] = np.minimum(found[at], own)
        return found

    def _cycles(self, instances: Floats, elements: Floats, changing: int, others: int, *, always: bool) -> Floats:
        """Return the work of boxes with so many of the changed tensor's elements side by side, and others for each."""
        unit = self._arch.compute
        changes = np.ceil(elements / (changing * self._registers))
        stream = np.maximum(instances / (changing * others), float(unit.pass_least_cycles) * changes)
        preloads = np.where(always | (changes > 1), changes, 0.0) * float(unit.preload_cycles)
        return stream + float(unit.fill_cycles) * changes + preloads

    def _changes(self) -> tuple[Tensor | None, int]:
        """Return a tensor of which each change beside the compute units takes time, and how many elements lie there."""
        for level in self._arch.levels[1:]:
            if len(self._arch.fanouts_above(level.name)) < len(self._arch.fanouts) or not level.usable_bits:
                continue
            for tensor in self._read:
                if level.requires(tensor) and all(len(i.dims) <= 1 for i in self._access(tensor).index):
                    return tensor, level.usable_bits // tensor.bits
        return None, 1

    def found(self, most: float, stop: Callable[[], bool]) -> tuple[float, list[Boxes]]:
        """Return a bound, and the boxes that may be better than `most`, best first."""
        import time
        a = time.process_time()
        both = [np.concatenate(list(self._pairs(inner, outer, most)) or [np.zeros((3, 0))], axis=1) for inner, outer in (self._read, self._read[::-1])]
        print([each.shape[1] for each in both], time.process_time() - a, [np.sort(each[0])[[0, len(each[0])//10, len(each[0])//2]] for each in both if each.shape[1]], flush=True)
        pairs = sorted(((float(l), *names, int(i), int(o)) for names, each in zip((self._read, self._read[::-1]), both) for l, i, o in each[:, np.argsort(each[0])[:3000]].T), key=lambda x: x[0])
        self.pairs = sum(each.shape[1] for each in both)
        least, found = most, list[Boxes]()
        for lower, inner, outer, inside, outside in pairs:
            if lower >= min(least * 1.01, most):
                break
            if stop():
                return min(lower, least), sorted(found, key=lambda one: one.cycles)
            places, cycles = self._with_stores(inner, outer, inside, outside)
            best = np.argsort(cycles)[:3]
            for place in best:
                if cycles[place] < min(most, least * 1.02):
                    least = min(least, float(cycles[place]))
                    found.append(
                        Boxes(inner, outer, self._box(inside), self._box(outside), self._box(places[place]), float(cycles[place]))
                    )
        return least, sorted(found, key=lambda one: one.cycles)

    def _box(self, place: int) -> dict[str, int]:
        return dict(zip(self._dims, self.table[:, place].tolist(), strict=True))

    def _around(self, place: int) -> Flags:
        """Return which boxes are made of this one."""
        found = np.ones(self.table.shape[1], dtype=bool)
        for divides, own in zip(self._divides, self._places, strict=True):
            found &= divides[own[place]][own]
        return found

    def _within(self, place: int) -> Flags:
        """Return of which boxes this one is made."""
        found = np.ones(self.table.shape[1], dtype=bool)
        for divides, own in zip(self._divides, self._places, strict=True):
            found &= divides[:, own[place]][own]
        return found

    def _steps(self, inner: Tensor, outer: Tensor, inside: int | Ints, outside: int | Ints):
        """Return the steps, loads"""

    def _floor_of(self, tensor: Tensor) -> float:
        """cycles per element in the mean."""
        band = self._load_band if _is_read(self._workload, tensor) else self._store_band
        if band is None:
            return 0.0
        return float(bus_bits_per_element(self._workload, self._arch, tensor) / band)

    def _pairs(self, inner: Tensor, outer: Tensor, most: float) -> Iterator[tuple[float, Tensor, Tensor, int, int]]:
        issue = float(self._level.step_cycles)
        room = self._level.usable_bits
        held = {t.name: prod(self._elements[t.name], start=np.ones(self.table.shape[1])) * t.bits for t in (inner, outer)}
        stores = float(self._moved[self._written.name][-1])
        whole = prod(float(each) for each in self._extents.values())
        n1, load, work = self._visits, self._moved[inner.name], self._work
        alone = n1 * np.maximum(np.maximum(load, work), issue)
        for inside in np.nonzero((alone < most) & (held[inner.name] <= (room or np.inf)))[0]:
            fits = self._around(inside) & (held[outer.name] + held[inner.name][inside] <= (room or np.inf))
            outside = np.nonzero(fits)[0]
            if not len(outside):
                continue
            n2 = self._visits[outside]
            many, few = load[inside], self._moved[outer.name][outside]
            both = many + few
            own = self._work_in(inside, outside)
            c1 = np.maximum(own, max(many, issue))
            c2 = np.maximum(both, np.maximum(own, issue))
            first = both + own + np.maximum(issue - both, 0) - c2
            steps = (n1[inside] - n2) * c1 + n2 * c2 + first
            moved = self._mean(inner, outer, inside, outside) + (
                np.maximum(stores, own + stores * (1 - 1 / n1[inside])) if self._outer.one_bus else own
            )
            lower = self._start + np.maximum(steps, moved)
            yield np.array([lower, np.full(len(lower), inside), outside])[:, lower < most]

    def tree(self, boxes: Boxes) -> Mapping:
        """Return a tree with these boxes: loops over what each node depends on least are innermost above it."""
        stored = set(self._dims_of(self._written))
        changed = set[str]() if self._changed is None else self._dims_of(self._changed)
        order = sorted(self._dims, key=lambda dim: (dim in stored, dim not in changed))
        sums = next(level for level in self._arch.levels[1:] if level.may_hold(self._written))
        parts = [(boxes.stored, Storage(sums.name, (self._written.name,)))]
        parts += [(boxes.outside, Storage(self._level.name, (boxes.outer.name,)))]
        parts += [(boxes.inside, Storage(self._level.name, (boxes.inner.name,)))]
        parts.sort(key=lambda part: -prod(part[0].values()))
        nodes, now = list[MappingNode](), dict(self._extents)
        for box, storage in parts:
            nodes += [Temporal(dim, box[dim]) for dim in order if box[dim] < now[dim]]
            nodes.append(storage)
            now = box
        shares = self._shares(now)
        lanes = {dim: prod(each) for dim, each in shares.items()}
        nodes += [Temporal(dim, lanes[dim]) for dim in order if dim in changed and lanes[dim] < now[dim]]
        left = {dim: lanes[dim] if dim in changed else now[dim] for dim in self._dims}
        place = max(self._arch.nodes.index(sums), self._arch.nodes.index(self._level))
        number = 0
        for node in self._arch.nodes[place + 1 :]:
            if isinstance(node, Fanout):
                for dim in self._dims:
                    if shares[dim][number] > 1:
                        left[dim] //= shares[dim][number]
                        nodes.append(Spatial(dim, left[dim], node.name))
                number += 1
            elif isinstance(node, MemoryLevel):
                nodes += [Storage(node.name, (t.name,)) for t in self._workload.tensors if node.requires(t)]
        nodes += [Temporal(dim, 1) for dim in order if left[dim] > 1]
        return Mapping((*nodes, Compute(self._workload.statements[0].name)))

    def _shares(self, box: dict[str, int]) -> dict[str, tuple[int, ...]]:
        """Return the factors over the fan-outs with which a box takes the least work."""
        fanouts = self._arch.fanouts
        changed = set[str]() if self._changed is None else self._dims_of(self._changed)
        may = {dim: tuple(fanout.size if fanout.may_spread(dim) else 1 for fanout in fanouts) for dim in self._dims}
        found: dict[tuple[tuple[int, ...], int], tuple[tuple[int, ...], ...]] = {((1,) * len(fanouts), 1): ()}
        for dim in self._dims:
            more: dict[tuple[tuple[int, ...], int], tuple[tuple[int, ...], ...]] = {}
            for (used, own), chosen in found.items():
                for each in sorted(_factors(box[dim], may[dim])):
                    now = tuple(a * b for a, b in zip(used, each, strict=True))
                    if all(a <= fanout.size for a, fanout in zip(now, fanouts, strict=True)):
                        more[now, own * prod(each) if dim in changed else own] = (*chosen, each)
            found = more
        elements = float(prod(box[dim] for dim in changed))
        instances = float(prod(box.values())) / self._arch.compute.per_cycle
        best = min(
            found,
            key=lambda state: float(
                self._cycles(np.array([instances]), np.array([elements]), state[1], prod(state[0]) // state[1], always=True)[0]
            ),
        )
        return dict(zip(self._dims, found[best], strict=True))

    def _mean(self, inner: Tensor, outer: Tensor, inside: int, outside: Ints) -> Floats:
        """cycles of all loads"""
        loads = np.zeros(1)
        for tensor, place in ((inner, inside), (outer, outside)):
            own = prod((each[place] for each in self._elements[tensor.name]), start=1.0) * self._floors[tensor.name]
            loads = loads + self._visits[place] * np.maximum(own, self._moved[tensor.name][place])
        return loads

    def _with_stores(self, inner: Tensor, outer: Tensor, inside: int, outside: int) -> tuple[Ints, Floats]:
        issue = float(self._level.step_cycles)
        stored = prod(self._elements[self._written.name], start=np.ones(self.table.shape[1])) * self._written.bits
        level = next(l for l in self._arch.levels[1:] if l.may_hold(self._written))
        fits = stored <= (level.usable_bits or np.inf)
        shared = np.add if self._outer.one_bus else np.maximum
        around, within = self._around(inside), self._within(inside)
        beyond, below = self._around(outside), self._within(outside)
        n1, n2 = self._visits[inside], self._visits[outside]
        many, few = self._moved[inner.name][inside], self._moved[outer.name][outside]
        both = many + few
        mean = float(self._mean(inner, outer, inside, np.array([outside]))[0])
        places, cycles = list[Ints](), list[Floats]()

        def per_step(work: Floats) -> tuple[Floats, Floats, Floats]:
            c1, c2 = np.maximum(work, max(many, issue)), np.maximum(work, max(both, issue))
            return c1, c2, both + work + max(issue - both, 0) - c2

        # both inside
        at = np.nonzero(fits & beyond)[0]
        na, st = self._visits[at], self._moved[self._written.name][at]
        c1, c2, first = per_step(self._work_in(inside, outside if outside != inside else at))
        group = (n1 - n2) / na * c1 + n2 / na * c2
        loads = n1 / na * many + n2 / na * few
        told = group + first + (na - 1) * np.maximum(group, shared(loads, st)) + st
        if self._outer.one_bus:
            told = np.maximum(told, mean + self._work_in(inside, outside if outside != inside else at) + na * st)
        places.append(at), cycles.append(told)
        # outer tensor outside
        at = np.nonzero(fits & around & below)[0]
        na, st = self._visits[at], self._moved[self._written.name][at]
        c1, c2, first = per_step(self._work_in(inside, np.where(at == inside, outside, at)))
        group0, loads0 = n1 / na * c1, n1 / na * many
        group1, loads1 = group0 - c1 + c2, loads0 + few
        told = (
            group1 + first + (n2 - 1) * np.maximum(group1, shared(loads1, st)) + (na - n2) * np.maximum(group0, shared(loads0, st)) + st
        )
        if self._outer.one_bus:
            told = np.maximum(told, mean + self._work_in(inside, np.where(at == inside, outside, at)) + na * st)
        places.append(at), cycles.append(told)
        # stores inside
        at = np.nonzero(fits & within)[0]
        na, st = self._visits[at], self._moved[self._written.name][at]
        wa = self._work_in(at, np.where(at == inside, outside, inside))
        work = self._work_in(inside, outside)
        n = na / n1
        g = np.maximum(wa, st)
        wf = np.maximum(wa + (n - 1) * g, work)
        wb = np.maximum(np.maximum(n * g, work), issue)
        told = both + wf + (n2 - 1) * np.maximum(shared(both, n * st), wb) + (n1 - n2) * np.maximum(shared(many, n * st), wb) + st
        if self._outer.one_bus:
            told = np.maximum(told, mean + wf + (n1 - 1) * n * st + st)
        places.append(at), cycles.append(told)
        return np.concatenate(places), np.concatenate(cycles) + self._start


@lru_cache(maxsize=10_000)
def _factors(size: int, most: tuple[int, ...]) -> Shares:
    """Return the factors of a dim's iterations that fan-outs may spread."""
    found = {(): size}
    for each in most:
        found = {
            (*own, factor): left // factor
            for own, left in found.items()
            for factor in divisors_up_to(left, each)
        }
    return frozenset(found)


@lru_cache(maxsize=10_000)
def _products(one: Shares, other: Shares, most: tuple[int, ...]) -> Shares:
    found = {tuple(a * b for a, b in zip(x, y, strict=True)) for x in one for y in other}
    return frozenset(each for each in found if all(a <= b for a, b in zip(each, most, strict=True)))


@lru_cache(maxsize=10_000)
def _side_by_side(one: Shares, other: Shares, most: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    """Return the pairs of products that fit together and that no other pair exceeds in both."""
    first, second = (np.array(sorted(each)).reshape(len(each), len(most)) for each in (one, other))
    fits = (first[:, None, :] * second[None, :, :] <= np.array(most)).all(axis=2)
    places = np.nonzero(fits)
    pairs = zip(first.prod(axis=1)[places[0]].tolist(), second.prod(axis=1)[places[1]].tolist(), strict=True)
    best: list[tuple[int, int]] = []
    for pair in sorted(set(pairs), reverse=True):
        if not best or pair[1] > best[-1][1]:
            best.append(pair)
    return tuple(best)


def _is_read(workload: Workload, tensor: Tensor) -> bool:
    return rule_of(workload, tensor.name) is PlaceRule.READ_ONLY
