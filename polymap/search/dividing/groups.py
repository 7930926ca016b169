"""Groups of structures that spread the dims alike between the same levels, and one bound for all of a group.

Several fan-outs between two levels are several classes where they merge loads differently or cost different energy. How
a dim's factor is split among them changes what a load costs, never how much a node loads or holds. So one set of tables
bounds a whole group: each of its costs is the least over the members (cost_tables.build_tables).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import overload

import numpy as np

from polymap.ir import Mapping, Spatial, Temporal
from polymap.poly import Kind
from polymap.search.dividing.bounds import (
    FREE,
    Inside,
    Multipliers,
    costs_inside,
    root_bound,
    root_bounds,
    winning_states,
)
from polymap.search.dividing.branch_and_bound import BoundTables
from polymap.search.dividing.cost_tables import State, Tables, arithmetic_of, build_tables, stacked_tables
from polymap.search.dividing.node_costs import added_up, root_context
from polymap.search.dividing.progress import GroupBound, Incumbent
from polymap.search.dividing.rooms import room_bound, room_costs, scarce_level
from polymap.search.dividing.tuning import TUNING
from polymap.search.problem import IntArray, Measure, Problem, Structure, Structures


@dataclass(frozen=True, slots=True)
class Group:
    """A structure's group: the number of its first member, and all of them."""

    number: int
    members: tuple[Structure, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Groups(Sequence[tuple[int, ...]]):
    """The numbers of all structures in the group of each. order: all numbers, group by group; first: where a group
    begins; group: that of each structure; windows: of each group, equal where window dims are spread alike."""

    order: IntArray
    first: IntArray
    group: IntArray
    windows: IntArray

    def __len__(self) -> int:
        return len(self.group)

    @overload
    def __getitem__(self, place: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[tuple[int, ...], ...]: ...
    def __getitem__(self, place: int | slice) -> tuple[int, ...] | tuple[tuple[int, ...], ...]:
        if isinstance(place, slice):
            return tuple(self[number] for number in range(len(self))[place])
        return self._numbers(int(self.group[place]))

    def _numbers(self, own: int) -> tuple[int, ...]:
        return tuple(self.order[self.first[own] : self.first[own + 1]].tolist())

    def beside(self, place: int) -> list[tuple[int, ...]]:
        """Return the numbers of every group that spreads the window dims as a structure's group does."""
        return [self._numbers(own) for own in np.flatnonzero(self.windows == self.windows[self.group[place]]).tolist()]


def groups_of(problem: Problem, structures: Structures) -> Sequence[tuple[int, ...]]:
    """Return the numbers of all structures in the group of each; () where each is its own group.

    Structures of one group have in common, per level below fan-outs, the product of each dim's factors right above it.
    """
    if len({one.below for one in problem.classes}) == len(problem.classes):
        return ()
    group = kinds_of(problem, structures.classes, problem.dims)
    windows = kinds_of(problem, structures.classes, {dim for term in problem.terms for dim in term.window_dims})
    order = np.argsort(group, kind="stable")
    first: IntArray = np.searchsorted(group[order], np.arange(int(group.max(initial=-1)) + 2))
    return Groups(order, first, group, windows[order[first[:-1]]])


def kinds_of(problem: Problem, classes: IntArray, dims: Container[str]) -> IntArray:
    """Return a number per structure [structure, class, dim], equal where the products of these dims' factors right
    above every level are."""
    kind: IntArray = np.zeros(len(classes), dtype=np.int64)
    for level in np.moveaxis(_siblings(problem, classes), 1, 0):
        for dim, column in zip(problem.dims, level.T, strict=True):
            if dim in dims:
                factors, factor = np.unique(column, return_inverse=True)
                kind = np.unique(kind * len(factors) + factor, return_inverse=True)[1]
    return kind


def _siblings(problem: Problem, classes: IntArray) -> IntArray:
    """Return the products of the factors right above every level [structure, level, dim]."""
    above = np.array([one.below for one in problem.classes])
    return np.stack([np.prod(classes[:, above == level, :], axis=1) for level in sorted({*above.tolist()})], axis=1)


def groups_near(problem: Problem, structures: Structures, groups: Groups, mapping: Mapping) -> list[int]:
    """Return the numbers of the first structures of groups that spread the dims nearly as a mapping does: right above
    levels there are more siblings along one dim at most, and fewer along one; those of its own group, too."""
    row = {problem.arch.fanouts[f].name: number for number, one in enumerate(problem.classes) for f in one.fanouts}
    spread: IntArray = np.ones((1, len(problem.classes), len(problem.dims)), dtype=np.int64)
    now = problem.workload.extents()
    for node in mapping.nodes:
        if isinstance(node, Spatial):
            spread[0, row[node.fanout], problem.dims.index(node.dim)] *= -(-now[node.dim] // node.tile)
        if isinstance(node, Spatial | Temporal):
            now[node.dim] = node.tile
    first = groups.order[groups.first[:-1]]
    found, own = _siblings(problem, structures.classes[first]), _siblings(problem, spread)
    is_near = (np.sum(found > own, axis=(1, 2)) <= 1) & (np.sum(found < own, axis=(1, 2)) <= 1)
    return first[is_near].tolist()


def least_value(bounds: BoundTables) -> int | None:
    """Return a lower bound of the objective over all mappings below the top (None: none fits)."""
    return _value_at(bounds.tables, bounds.insides, FREE)


def _value_at(tables: Tables, insides: tuple[Inside, ...], priced: Multipliers) -> int | None:
    """Return the objective of the least costs inside per component, the first of which is at multipliers (None: nothing
    fits)."""
    return _value_of(tables, [root_bound(tables, inside)[0] for inside in insides], priced, tables.compute_cycles)


def _value_of(tables: Tables, parts: Sequence[int | None], priced: Multipliers, cycles: int) -> int | None:
    if None in parts:
        return None
    first, *others = (part or 0 for part in parts)
    whole = (-((priced.allowance - first) // priced.unit), *others)
    return tables.measure.value_within_limits(added_up(whole, tables.start), cycles)


def open_tables(
    problem: Problem,
    measure: Measure,
    members: tuple[Structure, ...],
    incumbent: Incumbent,
    only: frozenset[State] | None,
) -> Tables:
    """Return the tables of a structure, or of all of a group, of some joint states (None: all), all places of spatial
    loops open. Those that were asked for last are remembered: steps on a group often follow each other."""
    if incumbent.tables is None or incumbent.tables[0] != members:
        first, *others = members
        shared = root_context(problem, first), incumbent.out_of_time, incumbent.caches
        incumbent.tables = members, build_tables(problem, first, measure, *shared, tuple(others))
    return replace(incumbent.tables[1], only=only)


def group_bound(problem: Problem, measure: Measure, group: Group, incumbent: Incumbent) -> GroupBound:
    """Return what bounds all mappings of a group; taken again where multipliers have changed."""
    known = incumbent.groups.get(group.number)
    if known is not None and not known.is_rough and known.multipliers == incumbent.multipliers:
        return known
    known = known or GroupBound(None, FREE)
    tables, only = open_tables(problem, measure, group.members, incumbent, known.only), known.only
    found, inside = relaxed_bound(tables, incumbent.multipliers)
    if found is not None and inside is not None and incumbent.beats(found) and incumbent.value is not None:
        only = _winning_states(tables, inside, incumbent.multipliers, incumbent.value)
        found = found if only else max(found, incumbent.value)
    if found is not None and known.bound is not None:
        found = max(found, known.bound)
    known = GroupBound(found, incumbent.multipliers, only, known.leader)
    incumbent.groups[group.number] = known
    return known


def are_stackable(problem: Problem, measure: Measure) -> bool:
    """Return whether structures can be bounded side by side in one array: no rule forbids nodes, and costs have at most
    63 bits."""
    return not problem.rules and all(arithmetic_of(problem, one).kind is Kind.NARROW for one in measure.components)


def member_bounds(tables: Tables, multipliers: Multipliers) -> list[int | None]:
    """Return a lower bound of each member of a group by itself (None: none fits), by tables of all of them."""
    problem, measure, members = tables.problem, tables.measure, (tables.structure, *tables.others)
    if not are_stackable(problem, measure):
        return [relaxed_bound(replace(one, only=tables.only), multipliers)[0] for one in tables.alone()]
    most, found = max(1, TUNING.stacked_tiles // prod(tables.shape)), list[int | None]()
    for first in range(0, len(members), most):
        some = [(one,) for one in members[first : first + most]]
        beside = stacked_tables(problem, some, measure, tables.stop, tables.caches)
        found += stacked_bounds(replace(beside, only=tables.only), multipliers)
    return found


def is_searched_at_once(problem: Problem, measure: Measure, group: Group) -> bool:
    """Return whether the trees of a group are searched together: not where one node's costs may cover another's, as
    they need not in every member, nor where least costs of members are no bound of a product of sums."""
    return len(group.members) > 1 and measure.is_linear and any(term.is_window for term in problem.terms)


def _winning_states(tables: Tables, inside: Inside, multipliers: Multipliers, value: int) -> frozenset[State]:
    """Return the joint states on chains that may cost less than a value, by the least costs inside at multipliers."""
    constant = tables.measure.value(tables.start, tables.compute_cycles)
    return winning_states(tables, inside, (value - 1 - constant) * multipliers.unit + multipliers.allowance)


def relaxed_bound(tables: Tables, multipliers: Multipliers) -> tuple[int | None, Inside | None]:
    """Return a lower bound of the objective over all mappings (None: none fits), and the least costs inside that give
    it (None: the objective is not linear). Linear objectives are bounded at the multipliers, if there are any."""
    measure = tables.measure
    if not measure.is_linear:
        return least_value(BoundTables(tables)), None
    others = range(1, len(measure.components))
    insides = costs_inside(tables, 0, multipliers), *(costs_inside(tables, component, FREE) for component in others)
    return _value_at(tables, insides, multipliers), insides[0]


def bound_by_room(tables: Tables, multipliers: Multipliers) -> int | None:
    """Return a lower bound of a linear objective by the room in the scarcest level, or where none is by all tensors
    together (None: nothing fits)."""
    level = scarce_level(tables, multipliers)
    if level is None:
        return relaxed_bound(tables, multipliers)[0]
    found = room_bound(tables, room_costs(tables, level, multipliers))
    return None if found is None else found + tables.measure.value(tables.start, tables.compute_cycles)


def stacked_bounds(tables: Tables, multipliers: Multipliers) -> list[int | None]:
    """Return what `relaxed_bound` says of each of several groups side by side."""
    measure, problem = tables.measure, tables.problem
    priced = multipliers if measure.is_linear else FREE
    at = [priced, *(FREE for _ in measure.components[1:])]
    parts = [root_bounds(tables, costs_inside(tables, component, one)) for component, one in enumerate(at)]
    extents = (prod(tables.lattice.point(top).values()) for top in tables.tops)
    cycles = (-(-steps // problem.arch.compute.per_cycle) for steps in extents)
    return [_value_of(tables, own, priced, each) for own, each in zip(zip(*parts, strict=True), cycles, strict=True)]


def bound_side_by_side(problem: Problem, measure: Measure, groups: Sequence[Group], incumbent: Incumbent) -> None:
    """Bound groups that spread the window dims alike between the same levels, at the incumbent's multipliers. What is
    found goes to the incumbent. Raises OutOfTime."""
    waiting = [sorted(groups, key=lambda group: group.members[0].classes)]
    while waiting:
        some = waiting.pop()
        each = [group.members for group in some]
        tables = stacked_tables(problem, each, measure, incumbent.out_of_time, incumbent.caches)
        half = len(some) // 2
        if half and prod(tables.shape) > TUNING.stacked_tiles:
            waiting += [some[half:], some[:half]]
            continue
        for group, bound in zip(some, stacked_bounds(tables, incumbent.multipliers), strict=True):
            incumbent.groups[group.number] = GroupBound(bound, incumbent.multipliers, is_rough=True)
