"""The order that a program is printed in: contractions tiled, and the loops of the rest exchanged where that pays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod

from polymap.codegen.lower import Extreme
from polymap.codegen.source.bands import in_one_band, in_strips
from polymap.codegen.source.contiguous import contiguous_order, cost_of, extreme_loops, is_legal
from polymap.codegen.source.contraction import Contraction, Core, contraction_of, sum_of, tile_number
from polymap.codegen.source.line_tiles import in_line_tiles
from polymap.codegen.source.order_tuning import TUNING
from polymap.codegen.source.time_tiles import in_time_tiles
from polymap.codegen.source.wavefronts import side_by_side
from polymap.ir import Affine, Workload
from polymap.resources import cpu_seconds
from polymap.schedules import Loop, Schedule, TimeDim
from polymap.workload import expanded

EXPANDED = "variables of one iteration became arrays over the loops"
_Way = Callable[[Schedule, Loop, list[Contraction]], tuple[Schedule, tuple[Contraction, ...]] | None]


@dataclass(frozen=True, slots=True)
class ChosenOrder:
    """A legal order of a workload, with its contractions; changes: what differs from the text, in words.

    strips: the statements whose rows run side by side. extremes: those whose maxima are found in parts.
    """

    workload: Workload
    schedule: Schedule
    contractions: tuple[Contraction, ...]
    changes: tuple[str, ...]
    strips: tuple[str, ...] = ()
    extremes: tuple[Extreme, ...] = ()


def choose(
    workload: Workload,
    facts: Core,
    *,
    threads: int = 1,
    tiled: bool = True,
    wider: bool = True,
    untiled: frozenset[str] = frozenset(),
) -> ChosenOrder:
    """Return the order that a program is printed in; nothing is run, and no sum of floats changes its order.

    threads: that take part. tiled: contractions, and steps of time, may be tiled. wider: variables of one iteration may
    become arrays over the loops. untiled: statements that are no contractions.
    """
    plain = _best_order(workload, facts if tiled else None, threads, untiled)
    arrays = expanded(workload) if wider else workload
    if arrays == workload:
        return plain
    other = _best_order(arrays, facts if tiled else None, threads, untiled)
    if _rank_of(other) >= _rank_of(plain):
        return plain
    return replace(other, changes=(*other.changes, EXPANDED))


def _rank_of(chosen: ChosenOrder) -> tuple[float, float]:
    """Return what decides between orders, the less the better."""
    extents = chosen.workload.extents()
    own = {each.name: each for each in chosen.workload.statements}
    tiled = sum(prod(extents[dim] for dim in own[each.statement].dims) for each in chosen.contractions)
    return -tiled, cost_of(chosen.schedule, frozenset((*chosen.strips, *(each.statement for each in chosen.extremes))))


def _best_order(workload: Workload, facts: Core | None, threads: int, untiled: frozenset[str]) -> ChosenOrder:
    until = cpu_seconds() + TUNING.choice_cpu_s
    text = Schedule.original(workload, strict=True).normal()
    schedule, found = text, list[Contraction]()
    if facts is not None:
        free = [own for own in workload.statements if own.name not in untiled]
        matrices = [each for each in (contraction_of(workload, own, facts) for own in free) if each]
        schedule, left = _taken_out(schedule, matrices, found, until)
        schedule = _in_bands(schedule, left, (in_one_band,), found, until)
        sums = [each for each in (sum_of(workload, own) for own in free) if each]
        ways = (in_strips, in_one_band) if facts.registers else (in_strips,)
        schedule = _in_bands(schedule, sums, ways, found, until)
    changes = [_words(each) for each in found]
    kept = frozenset(name for each in found for name in _together(schedule, each))
    kept |= {each.statement for each in extreme_loops(text)}
    schedule, strips = side_by_side(schedule.normal(), kept, until)
    if strips:
        changes.append(f"rows of {', '.join(strips)} in strips, whose iterations run side by side")
    kept |= frozenset(strips)
    tiled = schedule.normal()
    schedule = contiguous_order(workload, start=tiled, kept=kept)
    if str(schedule) != str(tiled):
        changes.append("loops exchanged, so that innermost ones step through memory one by one")
    if facts is not None:
        schedule, steps = in_time_tiles(schedule.normal(), kept, facts.cache_bytes, threads, until)
        tiled, lines = in_line_tiles(schedule.normal(), kept, until)
        schedule, changes = tiled if lines else schedule, [*changes, *map(str, steps), *lines]
    extremes = tuple(extreme_loops(schedule))
    if extremes:
        names = ", ".join(dict.fromkeys(each.statement for each in extremes))
        changes.append(
            f"maxima or minima of {names} in parts side by side; in order where that tells zeros or NaN apart"
        )
    schedule = replace(schedule, strict=False)
    return ChosenOrder(workload, schedule, _places(schedule, found), tuple(changes), strips, extremes)


def _taken_out(
    schedule: Schedule, matrices: list[Contraction], found: list[Contraction], until: float
) -> tuple[Schedule, list[Contraction]]:
    """Return the schedule with contractions in nests of their own where that is legal (then they are `found`), and
    those left."""
    left: list[Contraction] = []
    for each in matrices:
        for candidate in _in_a_nest_of_its_own(schedule, each):
            if is_legal(candidate, until):
                schedule = candidate
                found.append(each)
                break
        else:
            left.append(each)
    return schedule, left


def _in_bands(
    schedule: Schedule,
    wanted: list[Contraction],
    ways: tuple[_Way, ...],
    found: list[Contraction],
    until: float,
) -> Schedule:
    """Return the schedule with whole nests tiled, where one of the ways is legal (their contractions are `found`)."""
    for way in ways:
        for loop in schedule.loops():
            if any(each.statement in loop.statements for each in found):
                continue
            made = way(schedule, loop, wanted)
            if made is not None and is_legal(made[0], until):
                schedule = made[0]
                found += made[1]
    return schedule


def _together(schedule: Schedule, found: Contraction) -> tuple[str, ...]:
    """Return the statements that are in the tiles' loops of a contraction."""
    numbers = _numbers(found)
    times = schedule.times[found.statement]
    loops = {each.position: each for each in schedule.loops() if found.statement in each.statements}
    return next(loops[place].statements for place, entry in enumerate(times) if entry in numbers)


def _numbers(found: Contraction) -> list[Affine]:
    """Return the numbers of a contraction's tiles, as its times have them."""
    return [tile_number(Affine(((1, dim),)), size) for dim, size in zip(found.dims, found.tile, strict=True)]


def turn_points(chosen: ChosenOrder, found: Contraction) -> ChosenOrder:
    """Return an order with the points of a contraction's tiles row by row of its lanes: where elements lie the other
    way than the order was chosen for."""
    own = chosen.schedule.times[found.statement]
    first, last = sorted(own.index(Affine(((1, dim),)), found.end) for dim in (found.row, found.lane))
    changed: dict[str, list[TimeDim]] = {}
    for name in _together(chosen.schedule, found):
        places = list(chosen.schedule.scattering(name).places)
        places[first], places[last] = places[last], places[first]
        changed[name] = places
    return replace(chosen, schedule=chosen.schedule.with_places(changed))


def _words(found: Contraction) -> str:
    sizes = " x ".join(f"{size} {dim}" for dim, size in zip(found.dims, found.tile, strict=True))
    return f"{found.statement} in tiles of {sizes}, its sums in vector registers"


def _places(schedule: Schedule, found: list[Contraction]) -> tuple[Contraction, ...]:
    """Return the contractions with the ends of the numbers of their tiles in a schedule."""
    moved: list[Contraction] = []
    for each in found:
        numbers = _numbers(each)
        places = [place for place, entry in enumerate(schedule.times[each.statement]) if entry in numbers]
        moved.append(replace(each, end=max(places) + 1))
    return tuple(moved)


def _in_a_nest_of_its_own(schedule: Schedule, found: Contraction) -> Iterator[Schedule]:
    """Yield schedules in which the statement is split off from the others of its nest and tiled: the outermost
    loops it can be taken out of first."""
    statement = next(each for each in schedule.workload.statements if each.name == found.statement)
    loops = [each for each in schedule.loops() if found.statement in each.statements]
    for outermost in loops:
        place = outermost.position
        before = {dim for at in schedule.scattering(found.statement).places[:place] for dim in at.time.dims}
        if before & set(found.dims):
            return
        outer = [dim for dim in statement.dims if dim not in before and dim not in found.dims]
        own = [TimeDim(Affine(((1, dim),)), dim) for dim in outer]
        sizes = zip(found.dims, found.tile, strict=True)
        own += [TimeDim(tile_number(Affine(((1, dim),)), size), f"{dim}_tile") for dim, size in sizes]
        own += [TimeDim(Affine(((1, dim),)), dim) for dim in (found.term, found.row, found.lane)]
        names = outermost.statements
        at = names.index(found.statement)
        for later in dict.fromkeys((frozenset(names[at + 1 :]), frozenset[str](), frozenset(names) - {names[at]})):
            changed: dict[str, list[TimeDim]] = {}
            for name in names:
                places = list(schedule.scattering(name).places)
                part = TimeDim(Affine((), 1 if name == found.statement else 2 if name in later else 0))
                rest = own if name == found.statement else places[place:]
                changed[name] = [*places[:place], part, *rest]
            yield schedule.with_places(changed)
