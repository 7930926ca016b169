"""Energy, latency and occupancy of many mappings of different shapes.

What a tensor moves depends on the loops and on its own storage nodes alone. So each mapping is seen from each tensor:
the loops between its nodes, those next to each other that no count tells apart joined. Mappings that look alike from a
tensor are one table of tiles for `evaluate_many`, in a tree in which every loop that some of them have has a place; the
others have a loop of one iteration there. A view with windows that arrays cannot count is counted alone, by the closed
form of that tensor. All of this is exact where all tiles divide; other mappings are evaluated one by one, and so are
all mappings of machines whose wires cost energy or whose single steps take cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polymap.costmodel import Cost, evaluate
from polymap.costmodel.closed_form import (
    Busiest,
    NestCounts,
    Row,
    counts_of_tensor,
    machine_model,
    nest_of,
    workload_model,
)
from polymap.costmodel.tables import Pricing, evaluate_many
from polymap.inputs import answers_in_words, expected_list
from polymap.ir import (
    Architecture,
    Branch,
    Compute,
    Fanout,
    Mapping,
    MappingNode,
    Shown,
    Spatial,
    Storage,
    Temporal,
    Workload,
    accesses_of,
    is_box,
    written_tensors,
)
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of
from polymap.schedules import any_order_is_legal

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scores(Shown):
    """One entry per mapping. fits: within all capacities. occupancy_bits: (level, bits that its fullest
    instance holds, before buffering), per level below the outermost. moved_bits: (level, bits read and written)."""

    energy_pj: Floats
    latency_cycles: Ints
    fits: Booleans
    occupancy_bits: tuple[tuple[str, Ints], ...]
    moved_bits: tuple[tuple[str, Ints], ...]

    @property
    def edp(self) -> Floats:
        """Energy x latency, pJ x cycle."""
        return self.energy_pj * self.latency_cycles


@answers_in_words
def score(workload: WorkloadLike, arch: ArchitectureLike, mappings: Sequence[Mapping]) -> Scores:
    """Return the figures of `evaluate` for each mapping, about ten times as fast for thousands of mappings whose tiles
    divide. Shapes may differ; each mapping must be legal, capacity aside, as those of `sample_mappings` are."""
    workload, arch = question_of(workload, arch)
    mappings = [mapping_of(each) for each in expected_list(mappings, "the list of mappings")]
    totals = _Totals(workload, arch, len(mappings))
    views = _Views(workload, arch, fits=totals.fits)
    left: list[int] = []
    alone = arch.is_timed_by_step or arch.has_wire_energies  # steps and wires depend on all tensors' loops at once
    for number, mapping in enumerate(mappings):
        if alone or not views.add(number, mapping):
            left.append(number)
    views.count(totals)
    found = totals.scores()
    costs = {number: evaluate(workload, arch, mappings[number]) for number in left}
    if any(cost.latency_cycles >= 1 << 62 for cost in costs.values()):
        found = replace(found, latency_cycles=found.latency_cycles.astype(np.object_))
    for number, cost in costs.items():
        _set(found, number, workload, cost)
    return found


def _set(found: Scores, number: int, workload: Workload, cost: Cost) -> None:
    """Fill in one entry by the cost of its mapping."""
    bits = {tensor.name: tensor.bits for tensor in workload.tensors}
    found.energy_pj[number] = cost.energy_pj
    found.latency_cycles[number] = cost.latency_cycles
    found.fits[number] = cost.legal
    for (_, column), (_, value) in zip(found.occupancy_bits, cost.occupancy_bits, strict=True):
        column[number] = value
    for level, column in found.moved_bits:
        rows = [row for row in cost.traffic if row.level == level]
        column[number] = sum((row.reads + row.writes) * bits[row.tensor] for row in rows)


class _Totals:
    """What mappings move and hold. reads, writes: elements [level, tensor, mapping]; held: bits [level, mapping];
    instances: [level (the compute unit last), mapping] that run. All int64, or Python's integers where that does not
    hold what a mapping may cost (`fits`)."""

    def __init__(self, workload: Workload, arch: Architecture, count: int) -> None:
        self._workload, self._arch = workload, arch
        self._pricing = Pricing(workload, arch)
        self.fits = self._pricing.fits
        kind: Any = np.int64 if self.fits else np.object_
        shape = len(arch.levels), len(workload.tensors), count
        self.reads: Ints = np.zeros(shape, dtype=kind)
        self.writes: Ints = np.zeros(shape, dtype=kind)
        self.held: Ints = np.zeros((len(arch.levels), count), dtype=kind)
        self.instances: Ints = np.ones((len(arch.levels) + 1, count), dtype=kind)

    def scores(self) -> Scores:
        """Return the figures of all mappings; all instances of a level move the same, as all tiles divide."""
        bits = np.array([tensor.bits for tensor in self._workload.tensors])[:, None]
        read, written = (self.reads * bits).sum(axis=1), (self.writes * bits).sum(axis=1)
        names = [level.name for level in self._arch.levels]
        rows = [
            Row[Any](level, tensor, self.reads[level, tensor], self.writes[level, tensor], 0, 0, 0)
            for level in range(len(names))
            for tensor in range(len(bits))
        ]
        shares = zip(read // self.instances[:-1], written // self.instances[:-1], strict=True)
        busy = [Busiest[Any](one, other, one + other) for one, other in shares]
        steps = self._workload.instances_of_boxes() // self.instances[-1]
        legal = np.ones(len(steps), dtype=np.bool_)
        figures = self._pricing.figures(NestCounts(rows, busy, steps, ()), list(self.held), legal)
        energy, latency = np.asarray(figures.floats[0]), np.asarray(figures.integers[2])
        held, moved = zip(names[1:], self.held[1:], strict=True), zip(names, read + written, strict=True)
        return Scores(energy, latency, figures.legal, tuple(held), tuple(moved))


# What ends a segment of temporal loops: a storage node's level, or (fan-out, dim) of spatial loops side by side.
Mark = str | tuple[tuple[int, str], ...]


# A node of a mapping: (fan-out's number or _TEMPORAL, dim, tile, ()) of a loop, (_STORAGE, level, 0, tensors).
_Step = tuple[int, str, int, tuple[str, ...]]
_TEMPORAL, _STORAGE = -1, -2

# Where a loop stands in a view: (segment, how often dims recurred in it, dim) of a temporal loop, (mark, -1 - fan-out,
# dim) of a spatial one.
_Key = tuple[int, int, str]


class _Look(NamedTuple):
    """How mappings look from one tensor: what ends each segment of temporal loops but the last, outermost first, and
    how often the dims may recur in a segment."""

    marks: tuple[Mark, ...]
    repeats: int


class _View(NamedTuple):
    """One mapping as a tensor sees it. keys, tiles: of each loop; spatial: (mark, fan-out, dim) of spatial ones."""

    look: _Look
    keys: list[_Key]
    tiles: list[int]
    spatial: list[tuple[int, int, str]]


class _Alike(NamedTuple):
    """The mappings of one look, in flat lists (many small objects would keep the garbage collector busy): numbers of
    the mappings, how many loops each has, and of all loops the number of the key, and the tile."""

    numbers: list[int]
    lengths: list[int]
    keys: list[int]
    tiles: list[int]


class _Views:
    """Mappings by tensor and look."""

    def __init__(self, workload: Workload, arch: Architecture, *, fits: bool) -> None:
        """fits: whether all sums are in reach of int64."""
        self._workload, self._arch = workload, arch
        self._reachable = fits and any_order_is_legal(workload) and _has_plain_accesses(workload)
        self._classes = [_classes_of(workload, tensor.name) for tensor in workload.tensors]
        self._windows = [_windows_of(workload, tensor.name) for tensor in workload.tensors]
        self._numbers = {fanout.name: number for number, fanout in enumerate(arch.fanouts)}
        self._written = written_tensors(workload)
        self._metered = max(
            len(arch.fanouts_above(level.name))
            for level in arch.levels
            if level.has_bandwidth or level is arch.levels[0]
        )
        self._beside = _groups_of_fanouts(arch)
        self._extents = workload.extents()
        self._found: dict[tuple[int, _Look], _Alike] = {}
        self._keys: dict[_Key, int] = {}
        self._spanned: dict[tuple[tuple[Mark, ...], int], int] = {}
        self._marks: dict[tuple[int, tuple[tuple[int, str], ...], frozenset[str]], Mark] = {}
        self._spread: list[tuple[int, int, int]] = []  # mapping, fan-out, trips
        self._model, self._machine = workload_model(workload), machine_model(arch)
        self._rows: list[tuple[int, Row[int]]] = []  # mapping, what a tensor counted alone moves and holds

    def add(self, number: int, mapping: Mapping) -> bool:
        """Take a mapping in; return whether it is one whose tiles divide, in reach."""
        read = self._read(mapping) if self._reachable else None
        if read is None:
            return False
        steps, spread = read
        over = frozenset([step[1] for step in steps if step[0] >= 0])
        seen = [self._seen(steps, place, tensor.name, over) for place, tensor in enumerate(self._workload.tensors)]
        if not all(map(self._is_alike, seen, count())):
            return False
        alone = [place for place, view in enumerate(seen) if not self._is_simple(view, self._windows[place])]
        rows = self._rows_of(mapping, alone)
        if rows is None:
            return False
        self._rows += [(number, row) for row in rows]
        self._spread += [(number, fanout, trips) for fanout, trips in spread]
        for place, view in enumerate(seen):
            if place in alone:
                continue
            found = self._found.get((place, view.look))
            if found is None:
                found = self._found[place, view.look] = _Alike([], [], [], [])
            found.numbers.append(number)
            found.lengths.append(len(view.keys))
            found.keys.extend([self._keys.setdefault(key, len(self._keys)) for key in view.keys])
            found.tiles.extend(view.tiles)
        return True

    def _rows_of(self, mapping: Mapping, places: Sequence[int]) -> list[Row[int]] | None:
        """Return what some of the tensors that are only read move and hold, counted by the closed form; None where it
        does not reach."""
        if not places:
            return []
        nest = None if self._model is None else nest_of(self._model, self._machine, mapping)
        if nest is None or self._model is None:
            return None
        found: list[Row[int]] = []
        for place in places:
            tensor = self._model.tensors[place]
            counted = None if tensor.written else counts_of_tensor(self._model, self._machine, nest, tensor)
            if counted is None:
                return None
            found += counted[0]
        return found

    def _read(self, mapping: Mapping) -> tuple[list[_Step], list[tuple[int, int]]] | None:
        """Return the nodes, and (fan-out, trips) of all spatial loops; None where a tile does not divide, a tree
        branches, or spatial loops side by side stand in another order than the machine's."""
        tiles = dict(self._extents)
        steps: list[_Step] = []
        found: list[tuple[int, int]] = []
        last = -1
        for node in mapping.nodes:
            if isinstance(node, Storage):
                steps.append((_STORAGE, node.level, 0, node.tensors))
                last = -1
            elif isinstance(node, Branch):
                return None
            elif not isinstance(node, Compute):
                dim, tile, fanout = node.dim, node.tile, _TEMPORAL
                if tile < 1 or tiles[dim] % tile:
                    return None
                if isinstance(node, Spatial):
                    fanout = self._numbers[node.fanout]
                    if fanout < last:
                        return None
                    found.append((fanout, tiles[dim] // tile))
                last = fanout
                tiles[dim] = tile
                steps.append((fanout, dim, tile, ()))
        return steps, found

    def _is_simple(self, view: _View, windows: tuple[tuple[str, ...], ...]) -> bool:
        """Return whether arrays can count a window's tiles: of its dims only one is spread, or each once, and no tile
        is cut by a temporal loop inside a spatial one that spans it."""
        for window in windows:
            own = [(mark, dim) for mark, _, dim in view.spatial if dim in window]
            if len({dim for _, dim in own}) > 1 and len(own) > 2:
                return False
            for mark, dim in own:
                last = self._last_spanned(view.look.marks, mark)
                if any(mark < segment <= last and dim == each for segment, repeat, each in view.keys if repeat >= 0):
                    return False
        return True

    def _last_spanned(self, marks: tuple[Mark, ...], mark: int) -> int:
        found = self._spanned.get((marks, mark))
        if found is None:
            found = self._spanned[marks, mark] = _last_spanned(self._arch, marks, mark)
        return found

    def _is_alike(self, view: _View, place: int) -> bool:
        """Return whether all instances of a level with a bandwidth move the same: where siblings add to one element of
        a written tensor, the first of them starts it without a read."""
        if self._workload.tensors[place].name not in self._written:
            return True
        return not any(self._classes[place][dim] == 0 and fanout < self._metered for _, fanout, dim in view.spatial)

    def _seen(self, steps: Sequence[_Step], place: int, tensor: str, over: frozenset[str]) -> _View:
        """Return how a mapping looks from a tensor. over: the dims of its spatial loops."""
        classes, marks = self._classes[place], list[Mark]()
        keys: list[_Key] = []
        tiles: list[int] = []
        spatial: list[tuple[int, int, str]] = []
        run: list[tuple[int, str]] = []
        last = repeat = most = 1
        for kind, name, tile, tensors in steps:
            if kind >= 0:
                run.append((kind, name))
                spatial.append((len(marks), kind, name))
                keys.append((len(marks), -1 - kind, name))
                tiles.append(tile)
                continue
            if run:
                marks.append(self._mark(place, tuple(run), over))
                run, last, repeat = [], 0, 0
            if kind == _TEMPORAL:
                own = classes[name]
                if own < last or not repeat:
                    repeat += 1
                    if repeat > most:
                        most = repeat
                last = own
                keys.append((len(marks), repeat - 1, name))
                tiles.append(tile)
            elif tensor in tensors:
                marks.append(name)
                last = repeat = 0
        if run:
            marks.append(self._mark(place, tuple(run), over))
        look = _Look(tuple(marks), max(2, 1 << (most - 1).bit_length()))
        return _View(look, keys, tiles, spatial)

    def _mark(self, place: int, run: tuple[tuple[int, str], ...], over: frozenset[str]) -> Mark:
        """Return the spatial loops for which there is room beside these, so that few kinds of trees are told apart."""
        asked = place, run, over
        if asked not in self._marks:
            self._marks[asked] = self._new_mark(place, run, over)
        return self._marks[asked]

    def _new_mark(self, place: int, run: Sequence[tuple[int, str]], over: frozenset[str]) -> Mark:
        fanouts = sorted({each for fanout, _ in run for each in self._beside[fanout]})
        windowed = {dim for window in self._windows[place] for dim in window}
        free = [(fanout, dim) for fanout in fanouts for dim in self._classes[place] if dim not in windowed]
        for window in self._windows[place]:
            own = [item for item in run if item[1] in window]
            if own and len(over.intersection(window)) == 1:
                own = [(fanout, own[0][1]) for fanout in fanouts]
            free += own
        return tuple(sorted(free))

    def count(self, totals: _Totals) -> None:
        """Add what all mappings move and hold to the totals."""
        depths = [len(self._arch.fanouts_above(level.name)) for level in self._arch.levels]
        for number, fanout, trips in self._spread:
            for level, above in enumerate((*depths, len(self._arch.fanouts))):
                if fanout < above:
                    totals.instances[level, number] *= trips
        for number, row in self._rows:
            bits = self._workload.tensors[row.tensor].bits
            totals.reads[row.level, row.tensor, number] += row.reads
            totals.writes[row.level, row.tensor, number] += row.writes
            totals.held[row.level, number] += row.tile * bits if row.level else 0
        for (place, look), alike in self._found.items():
            self._count_look(totals, place, look, alike)

    def _count_look(self, totals: _Totals, place: int, look: _Look, alike: _Alike) -> None:
        tensor = self._workload.tensors[place]
        layout = _layout(self._workload, self._arch, self._classes[place], look, tensor.name)
        alone = _without_windows(self._workload, tensor.name)
        numbers = np.array(alike.numbers)
        columns = np.array([layout.columns.get(key, -1) for key in self._keys], dtype=np.int64)
        tiles = layout.table(alike, columns, self._extents)
        arrays = evaluate_many(alone, self._arch, layout.tree, tiles)
        for row in arrays.traffic:
            if row.tensor == tensor.name:
                level = self._arch.level_index(row.level)
                totals.reads[level, place, numbers] += row.reads
                totals.writes[level, place, numbers] += row.writes
        for level, (_, bits) in enumerate(arrays.occupancy_bits, start=1):
            totals.held[level, numbers] += bits


@dataclass(frozen=True, slots=True)
class _Layout:
    """A tree with room for all loops of a look, and where they stand. columns: of each loop; dims: of each column."""

    tree: Mapping
    columns: dict[_Key, int]
    dims: tuple[str, ...]

    def table(self, alike: _Alike, columns: Ints, extents: dict[str, int]) -> Ints:
        """Return [mapping, loop] -> tile; a loop that a mapping lacks has the enclosing tile. columns: of each key."""
        rows = np.repeat(np.arange(len(alike.numbers)), alike.lengths)
        tiles = np.zeros((len(alike.numbers), len(self.dims)), dtype=np.int64)
        tiles[rows, columns[np.array(alike.keys, dtype=np.int64)]] = (
            alike.tiles
        )  # of loops that are joined the last one, the innermost, stays
        enclosing = {dim: np.full(len(tiles), extent, dtype=np.int64) for dim, extent in extents.items()}
        for column, dim in enumerate(self.dims):
            tiles[:, column] = np.where(tiles[:, column] > 0, tiles[:, column], enclosing[dim])
            enclosing[dim] = tiles[:, column]
        return tiles


def _has_plain_accesses(workload: Workload) -> bool:
    """Return whether each tensor is accessed in one way, in a box: loops over dims of several accesses do not commute,
    as tiles of different steps share elements."""
    (statement,) = workload.statements
    return is_box(statement) and all(len(set(accesses_of(statement, tensor.name))) <= 1 for tensor in workload.tensors)


def _groups_of_fanouts(arch: Architecture) -> tuple[tuple[int, ...], ...]:
    """Return per fan-out the numbers of those that no level separates from it, itself included."""
    groups: list[list[int]] = [[]]
    numbers = count()
    for node in arch.nodes:
        if isinstance(node, Fanout):
            groups[-1].append(next(numbers))
        else:
            groups.append([])
    return tuple(tuple(group) for group in groups for _ in group)


def _last_spanned(arch: Architecture, marks: Sequence[Mark], place: int) -> int:
    """Return the last segment above a storage node that the spatial loops of a mark span: of a level above them."""
    run = marks[place]
    assert not isinstance(run, str)  # asked of a run of spatial loops
    first = min(fanout for fanout, _ in run)
    levels = [(number, mark) for number, mark in enumerate(marks) if isinstance(mark, str) and number > place]
    return max((number for number, mark in levels if len(arch.fanouts_above(mark)) <= first), default=-1)


def _layout(workload: Workload, arch: Architecture, classes: dict[str, int], look: _Look, tensor: str) -> _Layout:
    """Return the layout of a look of a tensor."""
    order = sorted(classes, key=lambda dim: classes[dim])
    nodes: list[MappingNode] = []
    dims: list[str] = []
    columns: dict[_Key, int] = {}
    for segment in range(len(look.marks) + 1):
        cut = {
            dim
            for place, mark in enumerate(look.marks[:segment])
            if not isinstance(mark, str) and segment <= _last_spanned(arch, look.marks, place)
            for _, dim in mark
            if classes.get(dim, 0) > 1
        }
        for repeat in range(look.repeats):
            for dim in order:
                if dim in cut:
                    continue
                columns[segment, repeat, dim] = len(dims)
                dims.append(dim)
                nodes.append(Temporal(dim, 1))
        mark = look.marks[segment] if segment < len(look.marks) else ()
        if isinstance(mark, str):
            nodes.append(Storage(mark, (tensor,)))
            continue
        for fanout, dim in mark:
            columns[segment, -1 - fanout, dim] = len(dims)
            dims.append(dim)
            nodes.append(Spatial(dim, 1, arch.fanouts[fanout].name))
    tree = Mapping((*nodes, Compute(workload.statements[0].name)))
    return _Layout(tree, columns, tuple(dims))


def _without_windows(workload: Workload, tensor: str) -> Workload:
    """Return the workload with every other tensor that is only read a scalar: they do not matter, and windows that do
    not matter would hinder."""
    (statement,) = workload.statements
    dropped = {access.tensor for access in statement.reads} - {statement.target.tensor, tensor}
    reads = tuple(replace(access, index=()) if access.tensor in dropped else access for access in statement.reads)
    tensors = tuple(replace(each, shape=(), origin=()) if each.name in dropped else each for each in workload.tensors)
    return replace(workload, tensors=tensors, statements=(replace(statement, reads=reads),))


def _classes_of(workload: Workload, tensor: str) -> dict[str, int]:
    """Return per dim of extent above 1 its class: loops of one class that stand next to each other commute, and those
    over one dim join. 0: the tensor lacks the dim; 1: dims that index it alone; one each for those of its windows."""
    windows = [dim for window in _windows_of(workload, tensor) for dim in window]
    (statement,) = workload.statements
    used = {dim for access in accesses_of(statement, tensor) for index in access.index for dim in index.dims}
    return {
        dim.name: 2 + windows.index(dim.name) if dim.name in windows else int(dim.name in used)
        for dim in workload.dims
        if dim.extent > 1
    }


def _windows_of(workload: Workload, tensor: str) -> tuple[tuple[str, ...], ...]:
    """Return the dims of each index of a tensor that adds several dims of extent above 1."""
    (statement,) = workload.statements
    extents = workload.extents()
    found = [
        tuple(dim for dim in index.dims if extents[dim] > 1)
        for access in accesses_of(statement, tensor)
        for index in access.index
    ]
    return tuple(dims for dims in dict.fromkeys(found) if len(dims) > 1)
