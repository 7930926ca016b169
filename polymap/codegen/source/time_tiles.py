"""Time tiling of stencils: several time steps are computed on a part of the arrays while it stays in a cache.

A stencil `B[i][j] = f(A[i-1][j], A[i+1][j])` in a loop over t fetches its arrays in every step. Where an a, and a
number b of each statement, exist so that i + a t + b falls along no dependence, tiles of steps and of that coordinate
may follow one another (M. Wolf and M. Lam, A data locality optimizing algorithm, PLDI 1991). Nothing inside of a tile
changes: rows are computed as in the text, in vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from polymap.codegen.source.contiguous import is_legal
from polymap.codegen.source.contraction import tile_number
from polymap.codegen.source.order_tuning import TUNING
from polymap.ir import Affine, BudgetError, Statement, Workload
from polymap.poly import Map, budget, differences, dim_bounds, function
from polymap.schedules import Loop, Schedule, TimeDim
from polymap.workload import dependence_relations

Relations = Sequence[tuple[Statement, Statement, Map]]
Entries = Mapping[str, Affine]
Skewed = tuple[Entries, int]  # a coordinate of each statement, and its factor of the step


@dataclass(frozen=True, slots=True)
class TimeTiles:
    """A loop over the dim `step` of each statement, in tiles of `time_steps`; entries and sizes: of the coordinates."""

    loop: Loop
    steps: Entries
    entries: tuple[Entries, ...]
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        names = sorted({dim for entry in self.steps.values() for dim in entry.dims})
        sizes = " x ".join(str(size) for size in self.sizes)
        own = ", ".join(self.loop.statements)
        steps = f"{TUNING.time_steps} steps of {', '.join(names)}"
        return f"{own} in tiles of {steps} and {sizes} rows, skewed, that stay in a cache"


def in_time_tiles(
    schedule: Schedule, kept: frozenset[str], cache_bytes: int, threads: int, until: float
) -> tuple[Schedule, tuple[TimeTiles, ...]]:
    """Return the schedule with outermost loops over time in tiles, where each step would fetch more than the cache
    holds and that is legal; and these tiles.

    kept: statements that stay as they are. threads: more than one take tiles of different steps at once.
    """
    found: list[TimeTiles] = []
    for loop in schedule.loops():
        if kept & set(loop.statements) or any(set(each.loop.statements) & set(loop.statements) for each in found):
            continue
        tiles = _tiles_of(schedule, loop, cache_bytes, threads)
        if tiles is None:
            continue
        made = _schedule_in_tiles(schedule, tiles, threads)
        if is_legal(made, until):
            schedule = made
            found.append(tiles)
    return schedule, tuple(found)


def _tiles_of(schedule: Schedule, loop: Loop, cache_bytes: int, threads: int) -> TimeTiles | None:
    workload = schedule.workload
    own = {each.name: each for each in workload.statements if each.name in loop.statements}
    steps = {name: schedule.scattering(name).places[loop.position].time for name in own}
    before = any(at.time.dims for name in own for at in schedule.scattering(name).places[: loop.position])
    if before or not _is_time(workload, own, steps):
        return None
    shapes = list(_arrays_of_every_step(workload, own, steps))
    if sum(prod(shape) * width for shape, width in shapes) <= cache_bytes * threads:
        return None
    rank = len(next(iter(own.values())).target.index)
    try:
        with budget(what="tiles of steps of time"):
            relations = [
                (own[each.source], own[each.sink], relation)
                for each, relation in dependence_relations(workload)
                if each.source in own and each.sink in own
            ]
            coordinates = _coordinates(own, steps, relations, rank)
    except BudgetError:
        return None
    skews = [skew for _, skew in coordinates]
    for room in (cache_bytes // 2, cache_bytes):  # better half of it: lines meet in its sets
        for tiled in range(1, len(skews) + 1):
            sizes = _sizes(shapes, skews[:tiled], rank, room)
            if sizes:
                return TimeTiles(loop, steps, tuple(entry for entry, _ in coordinates[:tiled]), sizes)
    return None


def _coordinates(own: Mapping[str, Statement], steps: Entries, relations: Relations, rank: int) -> list[Skewed]:
    """Return the coordinates along the first axes, up to one that has none."""
    found: list[Skewed] = []
    for axis in range(rank):
        skewed = _coordinate(own, steps, relations, axis)
        if skewed is None:
            break
        found.append(skewed)
    return found


def _is_time(workload: Workload, own: Mapping[str, Statement], steps: Entries) -> bool:
    """Return whether a loop runs over one dim of each statement, long enough, that no result is indexed by; and whether
    their results have equally many axes."""
    extents = workload.extents()
    if len({len(each.target.index) for each in own.values()}) > 1 or not next(iter(own.values())).target.index:
        return False
    for name, statement in own.items():
        terms = steps[name].terms
        if len(terms) != 1 or terms[0][0] != 1 or not isinstance(terms[0][1], str):
            return False
        dim = terms[0][1]
        if extents[dim] < 2 * TUNING.time_steps or any(dim in index.dims for index in statement.target.index):
            return False
    return True


def _arrays_of_every_step(
    workload: Workload, own: Mapping[str, Statement], steps: Entries
) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield (shape, bytes of an element) of the arrays that every step touches."""
    once, every = set[str](), set[str]()
    for name, statement in own.items():
        dims = set(steps[name].dims)
        for access in (statement.target, *statement.reads):
            (once if any(dims & set(index.dims) for index in access.index) else every).add(access.tensor)
    for tensor in workload.tensors:
        if tensor.name in every - once:
            yield tensor.shape, -(-tensor.bits // 8)


def _sizes(
    shapes: Sequence[tuple[tuple[int, ...], int]], skews: Sequence[int], rank: int, most_bytes: int
) -> tuple[int, ...] | None:
    """Return the largest tile along the first axes, those of the skews, whose part of the arrays in two steps is no
    larger than `most_bytes`; None if there is none."""
    tiled = len(skews)
    inner = TUNING.time_tile_row_sizes if tiled == rank else (0,)
    for last in inner:
        for size in TUNING.time_tile_sizes if tiled > 1 or tiled < rank else (last,):
            sizes = (*(size,) * (tiled - 1), last or size)
            if sum(prod(_part(shape, sizes, skews, rank)) * width for shape, width in shapes) <= most_bytes:
                return sizes
    return None


def _part(shape: tuple[int, ...], sizes: tuple[int, ...], skews: Sequence[int], rank: int) -> Iterator[int]:
    """Yield how many elements of an array two steps of a tile touch along each axis."""
    for axis, extent in enumerate(shape):
        is_tiled = len(shape) == rank and axis < len(sizes)
        yield min(extent, sizes[axis] + 2 * skews[axis]) if is_tiled else extent


def _coordinate(own: Mapping[str, Statement], steps: Entries, relations: Relations, axis: int) -> Skewed | None:
    """Return `index + a step + b` of each statement, index: of its result along the axis, so that none of them falls
    along a dependence, and the a, the least, with the least b. None if there is none."""
    for skew in range(TUNING.time_skew + 1):
        plain = {name: each.target.index[axis] + steps[name] * skew for name, each in own.items()}
        shifts = _shifts(plain, relations)
        if shifts is not None:
            return {name: plain[name] + Affine((), shifts[name]) for name in own}, skew
    return None


def _shifts(plain: Entries, relations: Relations) -> dict[str, int] | None:
    """Return the least numbers >= 0 that make no dependence fall, as longest paths; None if there are none."""
    edges: list[tuple[str, str, int]] = []
    for source, sink, relation in relations:
        if relation.is_empty():
            continue
        clocks = [function(each.name, each.dims, (plain[each.name],)) for each in (source, sink)]
        ((least, _),) = dim_bounds(differences(relation, clocks[0], clocks[1], ("d",)))
        edges.append((source.name, sink.name, -least))
    found = dict.fromkeys(plain, 0)
    for _ in range(len(found) + 1):
        before = dict(found)
        for source, sink, length in edges:
            found[sink] = max(found[sink], found[source] + length)
        if found == before:
            return found
        if max(found.values()) > TUNING.time_shift:
            return None
    return None


def _schedule_in_tiles(schedule: Schedule, tiles: TimeTiles, threads: int) -> Schedule:
    """Return the schedule with the numbers of tiles before the loop. For several threads, tiles are taken in waves: in
    one, the tiles of different steps do not wait for each other."""
    changed: dict[str, list[TimeDim]] = {}
    for name in tiles.loop.statements:
        places = list(schedule.scattering(name).places)
        at = tiles.loop.position
        steps = tile_number(tiles.steps[name], TUNING.time_steps)
        numbers = [tile_number(each[name], size) for each, size in zip(tiles.entries, tiles.sizes, strict=True)]
        head = [steps, *numbers] if threads == 1 else [steps + numbers[0], steps, *numbers[1:]]
        changed[name] = [*places[:at], *map(TimeDim, head), *places[at:]]
    return schedule.with_places(changed)
