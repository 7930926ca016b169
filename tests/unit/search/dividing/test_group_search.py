"""Groups of structures that read windows are searched at once, and what is found is the best tree of all members.

Two or three unlike fan-outs between the same levels, with and without wires; the trees are those of the enumeration.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, reduce
from itertools import count

import numpy as np
import pytest

import polymap.search.dividing.groups as groups_module
import polymap.search.dividing.marks as marks
import polymap.search.dividing.steps as steps
from polymap.ir.mapping import Mapping
from polymap.resources.limits import never
from polymap.search.dividing.bounds import FREE, first_states, graph_of
from polymap.search.dividing.cost_tables import Tables, build_tables, load_weights, tables_at, tables_below
from polymap.search.dividing.groups import Group, groups_of, is_searched_at_once, member_bounds, relaxed_bound
from polymap.search.dividing.loop_order import CompletedMapping
from polymap.search.dividing.node_costs import Context, places_of, root_context
from polymap.search.dividing.progress import GroupBound, Incumbent
from polymap.search.problem.lattice import divisors
from polymap.search.problem.problem import analyse
from polymap.search.problem.structures import Structure
from tests.case_machines import with_wires
from tests.referee.problems import random_problem
from tests.times import few
from tests.unit.search.dividing.test_groups import unlike
from tests.unit.search.dividing.test_steps import steps_leave_bounds_of_what_is_not_searched
from tests.unit.search.tree_chains import Case, case_of

OBJECTIVES = ("energy", "energy", "traffic:")
SEEDS = few(range(24), 5, late=(1, 3, 5))
Members = tuple[Structure, ...]


@cache
def grouped(seed: int) -> Case:
    """Return a case with groups of structures that are searched at once, some of which have trees."""
    for turn in count():
        rng = random.Random(f"group search {seed} {turn}")
        drawn = random_problem(rng, most=300, tiles="divide")
        arch = unlike(rng, drawn.arch)
        arch = with_wires(rng, arch) if seed % 2 else arch
        problem, objective = analyse(drawn.workload, arch), OBJECTIVES[seed % len(OBJECTIVES)]
        if problem.reason is None and any(term.is_window for term in problem.terms):
            one = case_of(problem, objective + (arch.levels[0].name if objective.endswith(":") else ""))
            if any(best(one, members) is not None for members in every_group(one)):
                return one
    raise AssertionError


def every_group(one: Case) -> Iterator[Members]:
    """Yield the members of each group that is searched at once."""
    for numbers in sorted(set(groups_of(one.problem, one.structures))):  # pyright: ignore[reportArgumentType]
        members = tuple(one.structures[number] for number in numbers)
        if is_searched_at_once(one.problem, one.measure, Group(numbers[0], members)):
            yield members


def best(one: Case, members: Members) -> object:
    """Return the least value of the members' trees (None: there is none)."""
    return min((value for own in members if (value := one.best(own)) is not None), default=None)


def the_best_tree_of_a_group_is_found(seed: int) -> None:
    """From nothing; then with a value known that the best tree just beats, in slices."""
    one = grouped(seed)
    for members in every_group(one):
        incumbent, true = Incumbent(never), best(one, members)
        steps.solve_structures(one.problem, one.measure, members, incumbent, None, None)
        assert (None if incumbent.value is None else one.scaled(incumbent.value)) == true, "from nothing"
        if incumbent.value is None:
            continue
        for more, found in ((1, incumbent.value), (0, None)):
            known, ended = Incumbent(never), None
            known.add(incumbent.value + more, CompletedMapping((), Mapping(())))
            while (
                ended := steps.solve_structures(
                    one.problem, one.measure, members, known, ended, None, 1 + (seed + more) % 7
                )
            ) is not None:
                pass
            assert known.value == (incumbent.value if found is None else found), f"from {more} more"
            assert bool(known.found[0][1].parts) == (found is not None), "what is no better is not taken"


def together_and_each(one: Case, members: Members) -> tuple[Tables, ...]:
    """Return the tables of a group before any node is placed, and of each of its members."""
    root = root_context(one.problem, members[0])
    first, *others = members
    together = build_tables(one.problem, first, one.measure, root, others=tuple(others))
    return together, *(build_tables(one.problem, member, one.measure, root) for member in members)


def costs_below_a_node_are_the_least_of_the_members(seed: int) -> None:
    """Of what is read through windows, whose loads know the tile of the node."""
    one, rng = grouped(seed), random.Random(f"below {seed}")
    for members in rng.sample(groups := list(every_group(one)), min(4, len(groups))):
        together, *each = together_and_each(one, members)
        whole = together.context.tiles[0]
        context = Context((whole, tuple(rng.choice(divisors(extent)) for extent in whole)), ())
        together, *each = (tables_below(own, context) for own in (together, *each))
        for term in one.problem.terms:
            for number, edge in enumerate(together.tensors[term.index].edges if term.is_window else ()):
                alone = [own.tensors[term.index].edges[number].cost.costs[0] for own in each]
                assert np.all(edge.cost.costs[0] == reduce(np.minimum, alone)), "the least cost at every tile"


def tables_at_places_are_those_built_there(seed: int) -> None:
    """What does not depend on places of spatial loops is taken from tables that leave them open."""
    one, rng = grouped(seed), random.Random(f"at places {seed}")
    for members in rng.sample(groups := list(every_group(one)), min(3, len(groups))):
        opened, *_ = together_and_each(one, members)
        for places in rng.sample(every := places_of(one.problem, members[0]), min(3, len(every))):
            root = root_context(one.problem, members[0], places)
            built = build_tables(one.problem, members[0], one.measure, root, others=members[1:])
            for found, true in zip(tables_at(opened, places).tensors, built.tensors, strict=True):
                for state, may_end in enumerate(true.graph.final):
                    assert not may_end or found.end(state) == true.end(state), "what statement instances cost"
                for own, other in zip(found.edges, true.edges, strict=True):
                    assert np.all(own.cost.bits == other.cost.bits), "what nodes hold"
                    for costs, known in zip(own.cost.costs, other.cost.costs, strict=True):
                        assert np.all(costs == known), "what nodes cost, and where they stand"


def loads_cost_no_more_than_in_the_members(seed: int) -> None:
    """What more loads below a mark cost: the least of the members, less what some of them unite."""
    one, rng = grouped(seed), random.Random(f"loads {seed}")
    for members in rng.sample(groups := list(every_group(one)), min(4, len(groups))):
        together, *each = together_and_each(one, members)
        for term in one.problem.terms:
            for number, edge in enumerate(together.tensors[term.index].edges if term.is_window else ()):
                (own,) = load_weights(together, term, edge)
                ways = [load_weights(alone, term, alone.tensors[term.index].edges[number]) for alone in each]
                least = reduce(np.minimum, (way[0].cost for way in ways))
                assert np.all(own.cost <= least), "no more than in a member"
                if all(len(way) == 1 for way in ways):
                    assert np.all(own.cost == least), "no less"


@pytest.mark.parametrize("seed", few(range(24), 4, late=(1, 3, 5)))
def test_tables_at_places_are_those_built_there(seed: int) -> None:
    tables_at_places_are_those_built_there(seed)


@pytest.mark.parametrize("seed", few(range(24), 4, late=(1, 3, 5)))
def test_loads_of_a_group_cost_no_more_than_in_its_members(seed: int) -> None:
    loads_cost_no_more_than_in_the_members(seed)


@pytest.mark.parametrize("seed", few(range(24), 3, late=(1, 3, 4, 5)))
def test_costs_below_a_node_are_the_least_of_the_members(seed: int) -> None:
    costs_below_a_node_are_the_least_of_the_members(seed)


def one_entry_stands_for_a_group(seed: int) -> None:
    steps_leave_bounds_of_what_is_not_searched(grouped(seed))


def members_that_may_win_are_searched(seed: int) -> None:
    """Where a value is known that some members beat, all of these are searched, and the best tree of all is found."""
    one = grouped(seed)
    for members in every_group(one):
        incumbent, true = Incumbent(never), best(one, members)
        steps.solve_structures(one.problem, one.measure, members, incumbent, None, None)
        if incumbent.value is None:
            continue
        for value in (incumbent.value + 1, incumbent.value + incumbent.value // 10 + 1):
            known, group, stops = Incumbent(never), Group(0, members), steps.StopPoints()
            known.add(value, CompletedMapping((), Mapping(())))
            known.groups[0] = GroupBound(0, FREE, leader=0)
            asked = one.problem, one.measure, members[0]
            (entry,) = steps.step_on(*asked, (0, -steps.Stage.ALL_TENSORS, 0), known, stops, group)
            assert known.beats(entry[0]), "some member has a better tree"
            alive = stops[entry].members if entry in stops else members
            for own in members:
                least = one.best(own)
                assert own in alive or least is None or least >= one.scaled(value), "it has no better tree"
            while entries := tuple(steps.step_on(*asked, entry, known, stops, group, 1 + seed % 7)):
                (entry,) = entries
            assert known.value is not None
            assert one.scaled(known.value) == true, "the best tree of all members"


@pytest.mark.parametrize("seed", SEEDS)
def test_members_are_bounded_side_by_side_as_each_is_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups_module, "TUNING", replace(groups_module.TUNING, stacked_tiles=1 + 8 * seed))
    one, rng = grouped(seed), random.Random(f"members {seed}")
    for members in rng.sample(groups := list(every_group(one)), min(3, len(groups))):
        together, *each = together_and_each(one, members)
        drawn = (own for layer in graph_of(together).layers for own in layer if rng.random() < 0.9)
        for chosen in (None, frozenset((*drawn, *first_states(together)))):
            alone = [relaxed_bound(replace(own, only=chosen), FREE)[0] for own in each]
            assert member_bounds(replace(together, only=chosen), FREE) == alone


@pytest.mark.parametrize("seed", SEEDS)
def test_members_of_a_group_that_may_win_are_searched(seed: int) -> None:
    members_that_may_win_are_searched(seed)


@pytest.mark.parametrize("decided", [0, 16])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_group_searched_at_once_gives_the_best_tree_of_its_members(
    seed: int, decided: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "TUNING", replace(steps.TUNING, decided_places=decided))
    the_best_tree_of_a_group_is_found(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_costs_below_marks_of_a_group_leave_the_best_tree_of_its_members(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "TUNING", replace(marks.TUNING, pairs_per_node=1 << 40))
    the_best_tree_of_a_group_is_found(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_entry_stands_for_a_group(seed: int) -> None:
    one_entry_stands_for_a_group(seed)
