"""Orders of a region, the program's own and isl's, with permutable bands tiled; returned as times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from polymap.codegen.source.dependences import Conflict, by_level, original_times, time_map
from polymap.codegen.source.region import Region, SourceStatement
from polymap.codegen.source.tuning import TUNING
from polymap.ir import Affine, Floor, dim
from polymap.poly import Effort, Map, at_equal_dims, goes_back, tiled_order


def isl_order(
    region: Region,
    conflicts: Sequence[Conflict],
    tile: int,
    *,
    reorder_sums: bool,
    cpu_s: float = TUNING.scheduler_cpu_s,
) -> dict[str, Map]:
    """Return the times of the order that isl's scheduler chooses (Pluto-like), with its permutable bands tiled.

    Raises ScheduleError where it finds none, as for some programs with divisions in subscripts. Raises BudgetError
    after `TUNING.operations` of isl's operations or `cpu_s` seconds of CPU time (linear programs count as no
    operations).
    """

    def relations() -> Iterable[Map]:
        kept = [each for each in conflicts if not each.is_free(reorder_sums=reorder_sums)]
        return by_level(kept, original_times(region))

    domains = {each.name: each.domain for each in region.statements}
    effort = Effort(TUNING.operations, cpu_s)
    return tiled_order(domains, relations, tuple(region.parameters), tile, effort, "isl's order of a C program")


def own_order(region: Region, conflicts: Sequence[Conflict], tile: int, *, reorder_sums: bool) -> dict[str, Map]:
    """Return the times of the program's order, with nested permutable loops tiled (tile 1: not)."""
    kept = [each for each in conflicts if not each.is_free(reorder_sums=reorder_sums)]
    times = _times(region.statements, 0, kept, tile)
    length = max(len(each) for each in times.values())
    return {
        each.name: time_map(each, (*times[each.name], *(Affine(),) * (length - len(times[each.name]))))
        for each in region.statements
    }


Times = dict[str, tuple[Affine, ...]]


def _times(statements: Sequence[SourceStatement], depth: int, conflicts: Sequence[Conflict], tile: int) -> Times:
    """Return the times of statements that share `depth` loops, those loops left out."""
    groups: dict[int, list[SourceStatement]] = {}
    for each in statements:
        groups.setdefault(each.position[depth], []).append(each)
    found: Times = {}
    for number, place in enumerate(sorted(groups)):
        head = (Affine((), number),) if len(groups) > 1 else ()
        inner = _times_of_loop(groups[place], depth, conflicts, tile)
        found |= {name: (*head, *times) for name, times in inner.items()}
    return found


def _times_of_loop(group: Sequence[SourceStatement], depth: int, conflicts: Sequence[Conflict], tile: int) -> Times:
    if len(group[0].dims) == depth:
        return {group[0].name: ()}
    names = {each.name for each in group}
    own = [at_equal_dims(each.relation, depth) for each in conflicts if each.source in names and each.sink in names]
    end = depth + 1
    while tile > 1 and _is_in_one_loop(group, end) and _permutable(own, group, depth, end + 1):
        end += 1
    inner = _times(group, end, conflicts, tile)
    found: Times = {}
    for each in group:
        loops = tuple(dim(name) for name in each.dims[depth:end])
        tiles = tuple(Affine(((1, Floor(loop, tile)),)) for loop in loops) if tile > 1 and len(loops) > 1 else ()
        found[each.name] = (*tiles, *loops, *inner[each.name])
    return found


def _is_in_one_loop(group: Sequence[SourceStatement], depth: int) -> bool:
    """Return whether one loop holds all statements at a depth."""
    return all(len(each.dims) > depth for each in group) and len({each.position[depth] for each in group}) == 1


def _permutable(relations: Iterable[Map], group: Sequence[SourceStatement], first: int, last: int) -> bool:
    """Return whether no dependence has a negative distance along any of the loops [first, last)."""
    return not any(
        goes_back(relation, place, group[0].signs[place]) for relation in relations for place in range(first, last)
    )
