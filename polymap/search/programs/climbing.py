"""A search over shapes of a program: steps that pay are taken, from several beginnings, until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from random import Random
from typing import cast

from polymap.ir import Architecture, Workload, is_box
from polymap.resources import OutOfTime, Stop, Work, never
from polymap.schedules import any_order_is_legal
from polymap.search.programs.alignments import (
    every_rewriting,
    merged_rewritings,
    scheduled_rewritings,
    skewed_rewritings,
)
from polymap.search.programs.every_shape import count_bound, every_shape, exact_nodes
from polymap.search.programs.instances import ProgramArrays, program_arrays, thin_accesses
from polymap.search.programs.moves import (
    all_groups,
    distribute_children,
    hoist_loops,
    move_to_front,
    orders,
    remove_loop,
    resize_tile,
    sharings,
    sizes_near,
    swap_children,
    tilable_dims,
    tile_group,
)
from polymap.search.programs.placement import Weights, best_nodes
from polymap.search.programs.rewriting import Rewriting, rewrite_arrays
from polymap.search.programs.shapes import (
    Group,
    Nodes,
    Shape,
    ShapeTimes,
    is_legal,
    keeps_apart,
    nests_of,
    source_shape,
    time_shape,
)
from polymap.search.programs.stays import Stays
from polymap.search.programs.tuning import TUNING


@dataclass(frozen=True, slots=True)
class FoundShape:
    """A shape of a rewritten program with its best nodes and what they cost."""

    cost: Fraction
    rewriting: Rewriting
    shape: Shape
    nodes: Nodes


class Climber:
    """A search that can be ended and taken up again. best: what costs least so far; scored: shapes looked at, each of
    which is a step of `work`; late: whether there is no time for another one: then methods raise OutOfTime.
    apart: of shapes in which statements of different outermost nests share no loop."""

    def __init__(
        self,
        arrays: ProgramArrays,
        arch: Architecture,
        weights: Weights,
        floors: dict[str, Fraction],
        seed: int,
        stop: Callable[[], bool],
        *,
        apart: bool = False,
    ) -> None:
        self.apart = apart
        self.keeps_loops = any_order_is_legal(arrays.workload) and is_box(arrays.workload.statements[0])
        self.names: Rewriting = ()  # gives loops that have a dim of their own here the names that they have outside
        self.nests = nests_of(arrays.workload)
        self.work = Work()
        self.late: Stop = never
        self.arch, self.weights, self.floors, self.stop = arch, weights, floors, stop
        self.floor = sum(floors.values(), Fraction(0))
        self.levels = self._roomy(weights)
        self.programs: dict[Rewriting, ProgramArrays] = {(): arrays}
        self.rng = Random(seed)
        self.scores: dict[tuple[Rewriting, Shape], FoundShape | None] = {}
        self.legal: dict[tuple[Rewriting, Shape], bool] = {}
        self.best: FoundShape | None = None
        self.estimates: dict[tuple[Rewriting, Shape], Fraction | None] = {}
        self.thin = thin_accesses(arrays, TUNING.thinning)
        self.last: tuple[tuple[Rewriting, Shape], ShapeTimes | None] | None = None
        self.begun: set[tuple[Rewriting, Shape]] = set()  # beginnings that were climbed from
        self.refuted: dict[tuple[Rewriting, Shape], Fraction] = {}  # what shapes do not cost less than
        self.scored = 0

    def __getstate__(self) -> dict[str, object]:
        """Return the state to pickle: arrays of instances, up to a gigabyte, are made again from the program."""
        arrays = self.programs[()]
        state = {name: value for name, value in self.__dict__.items() if name not in ("programs", "thin")}
        return {**state, "last": None, "made_of": (arrays.workload, arrays.folding)}

    def __setstate__(self, state: dict[str, object]) -> None:
        workload, folding = cast("tuple[Workload, bool]", state.pop("made_of"))
        self.__dict__.update(state)
        arrays = replace(program_arrays(workload), folding=folding)
        self.programs, self.thin = {(): arrays}, thin_accesses(arrays, TUNING.thinning)

    @property
    def is_over(self) -> bool:
        return self.stop() or self.is_at_floor

    @property
    def is_at_floor(self) -> bool:
        """Return whether no mapping costs less than the best shape."""
        return self.best is not None and self.best.cost <= self.floor

    def _look(self) -> None:
        """Count a shape that is looked at."""
        self.scored += 1
        self.work.add()

    def program(self, rewriting: Rewriting) -> ProgramArrays:
        if rewriting not in self.programs:
            arrays = rewrite_arrays(self.programs[()], rewriting)
            assert arrays is not None, "only rewritings that are possible are looked at"
            self.programs[rewriting] = arrays
        return self.programs[rewriting]

    def _possible(self, every: tuple[Rewriting, ...]) -> list[Rewriting]:
        """Return the rewritings under which old counters are affine functions of new ones. A nest over a box whose
        instances run in any order keeps its loops: its space is that of all nests (docs/counting.md)."""
        found: list[Rewriting] = []
        for rewriting in (each for each in every if not (each and self.keeps_loops)):
            if self.late():
                raise OutOfTime
            arrays = self.programs.get(rewriting) or rewrite_arrays(self.programs[()], rewriting)
            if arrays is not None:
                self.programs[rewriting] = arrays
                found.append(rewriting)
        return found

    def score(self, rewriting: Rewriting, shape: Shape, beat: Fraction | None = None) -> FoundShape | None:
        """Return the shape with its best nodes, None where it is illegal, holds too much, or does not cost less than
        `beat`."""
        key = rewriting, shape
        if key not in self.scores:
            if beat is not None and key in self.refuted and beat <= self.refuted[key]:
                return None
            found = self._scored(rewriting, shape, beat)
            if found is None and beat is not None:
                self.refuted[key] = beat
                return None
            self.scores[key] = found
            if found is not None and (self.best is None or found.cost < self.best.cost):
                self.best = found
        return self.scores[key]

    def _scored(self, rewriting: Rewriting, shape: Shape, beat: Fraction | None) -> FoundShape | None:
        arrays = self.program(rewriting)
        self._look()
        when = self._when(rewriting, shape)
        if when is None or not self.is_legal(rewriting, shape, when):
            return None
        stays = Stays(arrays, shape, when, self.late)
        chosen = best_nodes(stays, self.arch, self.weights, self.floors, beat, levels=self.levels)
        return None if chosen is None else FoundShape(chosen[0], rewriting, shape, chosen[1])

    def estimate(self, rewriting: Rewriting, shape: Shape) -> Fraction | None:
        """Return about what the shape costs, from a part of the elements; None where it is illegal or holds too
        much."""
        key = rewriting, shape
        if key not in self.estimates:
            self._look()
            when, nodes = self._when(rewriting, shape), None
            if when is not None and self.is_legal(rewriting, shape, when):
                thin = replace(self.program(rewriting), accesses=self.thin.accesses, scales=self.thin.scales)
                stays = Stays(thin, shape, when, self.late)
                nodes = best_nodes(stays, self.arch, self.weights, self.floors, levels=self.levels)
            self.estimates[key] = None if nodes is None else nodes[0]
        return self.estimates[key]

    def _when(self, rewriting: Rewriting, shape: Shape) -> ShapeTimes | None:
        key = rewriting, shape
        if self.last is None or self.last[0] != key:
            if self.late():
                raise OutOfTime
            self.last = key, time_shape(self.program(rewriting), shape)
        return self.last[1]

    def is_legal(self, rewriting: Rewriting, shape: Shape, when: ShapeTimes | None = None) -> bool:
        key = rewriting, shape
        if key not in self.legal:
            when = self._when(rewriting, shape) if when is None else when
            keeps = not self.apart or keeps_apart(self.nests, shape)
            self.legal[key] = keeps and when is not None and is_legal(self.program(rewriting), when)
        return self.legal[key]

    def walk(self, rewriting: Rewriting, stop: Callable[[], bool]) -> bool:
        """Look at every shape of a rewritten program and every placement of nodes; return whether that was done."""
        arrays = self.program(rewriting)
        for shape in every_shape(arrays.workload):
            if stop():
                return False
            self._look()
            when = time_shape(arrays, shape)
            if when is None:
                return False
            if not is_legal(arrays, when):
                continue
            beat = None if self.best is None else self.best.cost
            chosen = exact_nodes(Stays(arrays, shape, when), self.arch, self.weights, beat, stop)
            if chosen is not None:
                self.best = FoundShape(chosen[0], rewriting, shape, chosen[1])
        return not stop()

    def few_rewritings(self, most: int) -> tuple[Rewriting, ...] | None:
        """Return every rewriting of the space that is walked, the plain program first, where they have at most so many
        shapes together; None where they have more."""
        found: list[Rewriting] = []
        total = 0
        for rewriting in islice(every_rewriting(self.programs[()]), TUNING.most_rewritings + 1):
            if self._possible((rewriting,)):
                total += count_bound(self.program(rewriting).workload)
                found.append(rewriting)
            if total > most:
                return None
        return tuple(found) if len(found) <= TUNING.most_rewritings else None

    def _roomy(self, weights: Weights) -> tuple[int, ...]:
        """Return the levels that a first search looks at: of traffic at the outermost one alone, those of which one has
        a good part of the room."""
        inner = range(1, len(self.arch.levels))
        if any(weights.read[level] or weights.write[level] for level in inner):
            return tuple(inner)
        rooms = {level: self.arch.levels[level].usable_bits for level in inner}
        most = max((room for room in rooms.values() if room is not None), default=0)
        return tuple(
            level
            for level, room in rooms.items()
            if room is None or room * TUNING.small_room >= most or self.arch.levels[level].must_hold
        )

    def run(self) -> None:
        """Climb from every beginning, the most promising first, then from changed copies of the best.

        At first climbs are short, so that a beginning which promises little does not take all there is; then those from
        the best shapes go on.
        """
        self.score((), source_shape(self.programs[()].workload))
        rounds = iter(()) if self.is_over else self._rounds()
        for beginnings in rounds:
            for found in self._promising(beginnings):
                self.climb(found, TUNING.shapes_at_first)
            if self.is_over:
                break
        for found in self.found()[: TUNING.climbs]:
            self.climb(found)
        idle = 0
        while not self.is_over and self.best is not None and idle < TUNING.idle_climbs:
            before = self.best
            changed = self._change(before)
            if changed is not None:
                self.climb(changed)
            idle = idle + 1 if self.best is before else 0

    def _promising(self, beginnings: list[tuple[Rewriting, Shape]]) -> Iterator[FoundShape]:
        """Yield the beginnings to climb from, those that were not climbed from and cost least by their estimates."""
        begun: list[tuple[Fraction, int, Rewriting, Shape]] = []
        for rewriting, shape in beginnings:
            if self.is_over:
                break
            about = self.estimate(rewriting, shape)
            if about is not None and (rewriting, shape) not in self.begun:
                begun.append((about, len(begun), rewriting, shape))
        for about, _, rewriting, shape in sorted(begun, key=lambda one: one[:2])[: TUNING.climbs]:
            if self.is_over or (self.best is not None and about > self.best.cost * TUNING.worthless_ratio):
                return
            self.begun.add((rewriting, shape))
            found = self.score(rewriting, shape)
            if found is not None:
                yield found

    def finish(self) -> None:
        """Place the nodes of the best shape anew, in all levels."""
        every = tuple(range(1, len(self.arch.levels)))
        if self.best is None or self.levels == every:
            return
        arrays = self.program(self.best.rewriting)
        when = time_shape(arrays, self.best.shape)
        assert when is not None
        stays = Stays(arrays, self.best.shape, when, self.late)
        chosen = best_nodes(stays, self.arch, self.weights, self.floors, self.best.cost, levels=every)
        if chosen is not None:
            self.best = replace(self.best, cost=chosen[0], nodes=chosen[1])

    def found(self) -> list[FoundShape]:
        """Return the shapes that were scored, the best first."""
        known = [found for found in self.scores.values() if found is not None]
        known.sort(key=lambda found: found.cost)
        return known if self.best is None else [self.best, *(found for found in known if found is not self.best)]

    def _rounds(self) -> Iterator[list[tuple[Rewriting, Shape]]]:
        """Yield what to begin with, some at a time: every rewriting fused and distributed as far as is legal, and these
        with all loops tiled, or all but one.

        Skewed programs are looked at where the loops of the others cannot all be tiled.
        """
        workload = self.programs[()].workload
        joined = len(set(self.nests.values())) < len({each.position[0] for each in workload.statements})
        merged = merged_rewritings(workload) if joined or not self.apart else ((),)
        merged = merged if self.apart else tuple(dict.fromkeys((*merged, self.names)))
        is_scheduled, by_work = not (self.apart or self.keeps_loops), self.work.limit is not None
        by_isl = scheduled_rewritings(workload, self.stop, by_work=by_work) if is_scheduled else ()
        scheduled = [(each, self._source(each)) for each in self._possible(by_isl)]
        shapes = [(each, shape) for each in self._possible(merged) for shape in self._bases(each)]
        first = [
            *self._tilings(scheduled, TUNING.first_tiles[0], None),
            *self._tilings(shapes, TUNING.first_tiles[0], None),
        ]
        if not self.apart and not any(whole for whole, _ in first):
            skewed = self._possible(skewed_rewritings(workload))
            more = [(each, shape) for each in skewed for shape in self._bases(each)]
            first += self._tilings(more, TUNING.first_tiles[0], None)
            shapes += more
        shapes = [*scheduled, *shapes]
        yield [*(one for _, one in first), *shapes]
        yield [one for tile in TUNING.first_tiles for _, one in self._tilings(shapes, tile, None)]
        for skipped in (0, 1, 2):
            yield [one for tile in TUNING.first_tiles for _, one in self._tilings(shapes, tile, skipped)]

    def _source(self, rewriting: Rewriting) -> Shape:
        return source_shape(self.program(rewriting).workload)

    def _tilings(
        self, shapes: list[tuple[Rewriting, Shape]], tile: int, skipped: int | None
    ) -> list[tuple[bool, tuple[Rewriting, Shape]]]:
        found: dict[tuple[Rewriting, Shape], bool] = {}
        for rewriting, shape in shapes:
            if self.is_over:
                break
            grown = self._all_tiled(rewriting, shape, tile, skipped)
            if grown is not None:
                found.setdefault((rewriting, grown[1]), grown[0])
                found.setdefault((rewriting, self._fused(rewriting, grown[1])), grown[0])
        return [(whole, one) for one, whole in found.items()]

    def _bases(self, rewriting: Rewriting) -> tuple[Shape, ...]:
        """Return the program as written, fused as far as is legal, and distributed; and fused with one loop outermost
        wherever statements have it."""
        if self.is_over:
            return ()
        workload = self.program(rewriting).workload
        plain = source_shape(workload)
        found = dict.fromkeys((plain, self._fused(rewriting, plain), self._distribute(rewriting, plain)))
        for dim in workload.extents():
            led = move_to_front(plain, dim)
            if led != plain and self.is_legal(rewriting, led):
                found[self._fused(rewriting, led)] = None
        return tuple(found)

    def _fused(self, rewriting: Rewriting, shape: Shape) -> Shape:
        """Return the shape with neighbours fused as deep as is legal, first to last."""
        for place in range(len(shape.shared)):
            for other in sharings(shape):
                if self.stop():
                    return shape
                if other.shared[place] > shape.shared[place] and self.is_legal(rewriting, other):
                    shape = other
                    break
        return shape

    def _distribute(self, rewriting: Rewriting, shape: Shape) -> Shape:
        """Return the shape with statements in loops of their own wherever that is legal, outermost groups first."""
        for _ in range(len(shape.statements)):
            for group in all_groups(shape):
                if group.children and group.end > group.begin:
                    other = distribute_children(shape, group)
                    if self.is_legal(rewriting, other):
                        shape = other
                        break
            else:
                break
        return shape

    def _all_tiled(
        self, rewriting: Rewriting, shape: Shape, tile: int, skipped: int | None
    ) -> tuple[bool, Shape] | None:
        """Return the shape with every outermost group tiled over all its dims but one, where that is legal, and whether
        all groups of several loops were tiled over all. None where nothing was tiled."""
        extents = self.program(rewriting).workload.extents()
        root = all_groups(shape)[0]
        outermost = [root] if root.end > root.begin or not root.children else list(root.children)
        one, whole = shape, skipped is None
        for group in outermost:
            now = _same_group(one, group)
            every = tilable_dims(one, now)
            dims = [dim for place, dim in enumerate(every) if extents[dim] > tile and place != skipped]
            grown = tile_group(one, now, dict.fromkeys(dims, tile), extents) if dims else None
            if grown is not None and self.is_legal(rewriting, grown):
                one = grown
            elif len(every) > 1:
                whole = False
        return None if one == shape else (whole, one)

    def climb(self, found: FoundShape, most: int | None = None) -> FoundShape:
        """Take steps that pay, again and again; return where none does, or `most` shapes were looked at."""
        until = None if most is None else self.scored + most
        while True:
            better = self._better(found, until)
            if better is None:
                return found
            found = better

    def _better(self, found: FoundShape, until: int | None) -> FoundShape | None:
        """Return the best of a few steps that promise to pay; None where no step pays, or `until` is reached."""
        steps = list(self._steps(found.rewriting, found.shape))
        self.rng.shuffle(steps)
        for begin in range(0, len(steps), TUNING.steps_together):
            for _, shape in self._by_estimate(found, steps[begin : begin + TUNING.steps_together]):
                other = None if self.is_over else self.score(found.rewriting, shape, found.cost)
                if other is not None and other.cost < found.cost:
                    return other
            if self.is_over or (until is not None and self.scored >= until):
                return None
        return None

    def _by_estimate(self, found: FoundShape, shapes: Iterable[Shape]) -> list[tuple[Fraction, Shape]]:
        """Return the shapes that may cost less than what was found, those that promise most first."""
        known: list[tuple[Fraction, Shape]] = []
        for shape in shapes:
            about = None if self.is_over else self.estimate(found.rewriting, shape)
            if about is not None and about <= found.cost * TUNING.nearly_best:
                known.append((about, shape))
        return sorted(known, key=lambda one: one[0])

    def _steps(self, rewriting: Rewriting, shape: Shape) -> Iterator[Shape]:
        extents = self.program(rewriting).workload.extents()
        for group in all_groups(shape):
            yield from orders(shape, group)
            for place in range(group.begin, group.end):
                dim, tile = shape.loops[group.low][place]
                if tile > 1:
                    yield remove_loop(shape, group, place)
                    for size in sizes_near(tile, extents[dim]):
                        other = resize_tile(shape, group, place, size, extents)
                        if other is not None:
                            yield other
            dims = tilable_dims(shape, group)
            for tile in TUNING.first_tiles:
                wanted = (
                    [dict.fromkeys(dims, tile), *({dim: tile} for dim in dims)]
                    if len(dims) > 1
                    else [{dim: tile} for dim in dims]
                )
                for tiles in wanted:
                    other = tile_group(shape, group, tiles, extents)
                    if other is not None:
                        yield other
            if group.children:
                yield distribute_children(shape, group)
                yield from swap_children(shape, group)
                yield from hoist_loops(shape, group)
        yield from sharings(shape)

    def _change(self, found: FoundShape) -> FoundShape | None:
        """Return a legal shape a few random steps away."""
        shape = found.shape
        for _ in range(self.rng.randint(2, 4)):
            steps = list(self._steps(found.rewriting, shape))
            for _ in range(10):
                if self.is_over or not steps:
                    return None
                other = self.rng.choice(steps)
                if self.is_legal(found.rewriting, other):
                    shape = other
                    break
        return self.score(found.rewriting, shape)


def _same_group(shape: Shape, group: Group) -> Group:
    """Return the group of the same statements in another shape."""
    return next(each for each in all_groups(shape) if (each.low, each.high) == (group.low, group.high))
