"""Orders of a region as isl schedule trees, the program's own and isl's, with permutable bands tiled; returned as
times."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import islpy as isl

from polymap.codegen.source.dependences import Conflict, by_level, original_times
from polymap.codegen.source.region import Region, SourceStatement
from polymap.codegen.source.tuning import TUNING
from polymap.poly import CONTEXT, Effort, budget, plain_text, schedule_of, with_parameters, within_work

_SET, _OUT = isl.dim_type.set, isl.dim_type.out


def own_order(region: Region, conflicts: Sequence[Conflict], tile: int, *, reorder_sums: bool) -> dict[str, isl.Map]:
    """Return the times of the program's order, with nested permutable loops tiled (tile 1: not)."""
    kept = [each for each in conflicts if not each.is_free(reorder_sums=reorder_sums)]
    return _times_of(_tree(list(region.statements), 0, kept, tile), region)


def isl_order(
    region: Region,
    conflicts: Sequence[Conflict],
    tile: int,
    *,
    reorder_sums: bool,
    cpu_s: float = TUNING.scheduler_cpu_s,
) -> dict[str, isl.Map]:
    """Return the times of the order that isl's scheduler chooses (Pluto-like), with its permutable bands tiled.

    Raises ScheduleError where it finds none, as for some programs with divisions in subscripts. Raises BudgetError
    after `TUNING.operations` of isl's operations or `cpu_s` seconds of CPU time (linear programs count as no
    operations).
    """
    what, names = "isl's order of a C program", tuple(region.parameters)
    with budget(TUNING.operations, seconds=math.inf, what=what):
        kept = [each for each in conflicts if not each.is_free(reorder_sums=reorder_sums)]
        domains = plain_text([each.domain for each in region.statements], names)
        relations = plain_text(list(by_level(kept, original_times(region))), names)
    found = within_work(Effort(TUNING.operations, cpu_s), what, isl_schedule, domains, relations)
    with budget(TUNING.operations, seconds=math.inf, what=what):
        schedule = isl.Schedule(found, CONTEXT)
        schedule = schedule if tile == 1 else _with_tiled_bands(schedule.get_root(), tile).get_schedule()
        return _times_of(schedule, region, names)


def isl_schedule(domain: str, relations: str) -> str:
    """Return isl's schedule for a domain and its dependences ("" for none), all in isl's notation."""
    constraints = isl.ScheduleConstraints.on_domain(isl.UnionSet(domain, CONTEXT))
    if relations:
        kept = isl.UnionMap(relations, CONTEXT)
        constraints = constraints.set_validity(kept).set_proximity(kept).set_coincidence(kept)
    return str(schedule_of(constraints).to_str())


def _times_of(schedule: isl.Schedule, region: Region, names: Sequence[str] = ()) -> dict[str, isl.Map]:
    """Return the times of a schedule tree per statement, padded with zeros to one length. names: of its parameters, if
    plain."""
    found: list[isl.Map] = []
    schedule.get_map().foreach_map(found.append)
    length = max(each.dim(_OUT) for each in found)
    times: dict[str, isl.Map] = {}
    domains = {each.name: each.domain for each in region.statements}
    for each in found:
        name = str(each.get_tuple_name(isl.dim_type.in_))
        named = with_parameters(each, names) if names else each
        longer = named.intersect_domain(domains[name]).add_dims(_OUT, length - each.dim(_OUT))
        for place in range(each.dim(_OUT), length):
            longer = longer.fix_val(_OUT, place, isl.Val(0, each.get_ctx()))
        times[name] = longer.coalesce()
    return times


def _with_tiled_bands(node: isl.ScheduleNode, tile: int) -> isl.ScheduleNode:
    """Return the node with all permutable bands of two or more loops below it tiled."""
    if node.get_type() == isl.schedule_node_type.band and node.band_n_member() > 1 and node.band_get_permutable():
        times = node.band_get_partial_schedule()
        for place in range(node.band_n_member()):
            time = times.get_union_pw_aff(place).scale_down_val(isl.Val(tile, node.get_ctx())).floor()
            times = times.set_union_pw_aff(place, time)
        return _children(node.insert_partial_schedule(times).child(0), tile).parent()
    return _children(node, tile)


def _children(node: isl.ScheduleNode, tile: int) -> isl.ScheduleNode:
    for place in range(node.n_children()):
        node = _with_tiled_bands(node.child(place), tile).parent()
    return node


# --- the program's own order ---


def _tree(statements: Sequence[SourceStatement], depth: int, conflicts: Sequence[Conflict], tile: int) -> isl.Schedule:
    """Return the schedule of statements that share `depth` loops."""
    groups: dict[int, list[SourceStatement]] = {}
    for each in statements:
        groups.setdefault(each.position[depth], []).append(each)
    children = [_child(group, depth, conflicts, tile) for _, group in sorted(groups.items())]
    whole = children[0]
    for each in children[1:]:
        whole = whole.sequence(each)
    return whole


def _child(group: Sequence[SourceStatement], depth: int, conflicts: Sequence[Conflict], tile: int) -> isl.Schedule:
    if len(group[0].dims) == depth:
        return isl.Schedule.from_domain(isl.UnionSet.from_set(group[0].domain))
    names = {each.name for each in group}
    own = [each.relation for each in conflicts if each.source in names and each.sink in names]
    for number in range(depth):
        own = [each.equate(isl.dim_type.in_, number, _OUT, number) for each in own]
    end = depth + 1
    while tile > 1 and _is_in_one_loop(group, end) and _permutable(own, group, depth, end + 1):
        end += 1
    inner = _tree(group, end, conflicts, tile)
    for place in reversed(range(depth, end)):
        inner = inner.insert_partial_schedule(_loop(group, place, 1))
    if tile > 1 and end - depth > 1:
        for place in reversed(range(depth, end)):
            inner = inner.insert_partial_schedule(_loop(group, place, tile))
    return inner


def _is_in_one_loop(group: Sequence[SourceStatement], depth: int) -> bool:
    """Return whether one loop holds all statements at a depth."""
    return all(len(each.dims) > depth for each in group) and len({each.position[depth] for each in group}) == 1


def _permutable(relations: Iterable[isl.Map], group: Sequence[SourceStatement], first: int, last: int) -> bool:
    """Return whether no dependence has a negative distance along any of the loops [first, last)."""
    for relation in relations:
        for place in range(first, last):
            forward = group[0].signs[place] > 0
            order = relation.order_gt if forward else relation.order_lt
            if not order(isl.dim_type.in_, place, _OUT, place).is_empty():
                return False
    return True


def _loop(group: Sequence[SourceStatement], place: int, tile: int) -> isl.MultiUnionPwAff:
    """Return the loop variable at a depth (divided by the tile) as a schedule of one member."""
    whole: isl.UnionPwAff | None = None
    for each in group:
        local = isl.LocalSpace.from_space(each.domain.get_space())
        entry = isl.Aff.var_on_domain(local, _SET, place)
        entry = entry if each.signs[place] > 0 else entry.neg()
        if tile > 1:
            entry = entry.scale_down_val(isl.Val(tile, entry.get_ctx())).floor()
        part = isl.UnionPwAff.from_pw_aff(isl.PwAff.from_aff(entry))
        whole = part if whole is None else whole.union_add(part)
    assert whole is not None
    return isl.MultiUnionPwAff.from_union_pw_aff(whole)
