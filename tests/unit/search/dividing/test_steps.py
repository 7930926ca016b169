"""Every step of a search leaves entries that bound the trees which it has not searched.

A step's entry stands for a structure, or for a whole group of them. As long as one of these has a tree that is better
than what is known, entries take the place of the one stepped on, and the least of their bounds is no more than that
tree's value. The trees are those of the enumeration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

import pytest

from polymap.ir.mapping import Mapping
from polymap.resources.limits import never
from polymap.search.dividing import engine
from polymap.search.dividing.groups import Group
from polymap.search.dividing.loop_order import CompletedMapping
from polymap.search.dividing.progress import Count, Entry, Incumbent
from polymap.search.problem.structures import Structure
from tests.times import few
from tests.unit.search.tree_chains import Case, random_case

OBJECTIVES = ("energy", "edp", "latency", "energy", "ed2p")


def solve_watched(one: Case, above: int | None = None) -> engine.Outcome:
    """Return what a search ends with, each step of which is held to the law. above: how much above the best value one
    is known from the start (None: none is)."""
    step_on, best = engine.step_on, cache(one.best)
    values = [value for each in one.structures if (value := best(each)) is not None]
    known = [int(value / one.measure.unscaled(1)) for value in values] if above is not None else []
    found = ((min(known) + (above or 0), CompletedMapping((), Mapping(()))),) if known else ()

    def step(*asked: Any, most: int | None = None) -> Iterator[Entry]:
        structure: Structure = asked[2]
        incumbent: Incumbent = asked[4]
        group: Group = asked[6]
        (bound, _, number), entries = asked[3], tuple(step_on(*asked, most=most))
        own = incumbent.groups.get(group.number)
        leader = None if own is None else own.leader
        stands = group.members if leader == number else (structure,)
        left = [value for each in stands if (value := best(each)) is not None]
        if left and leader in (None, number) and (incumbent.value is None or min(left) < one.scaled(incumbent.value)):
            assert entries, "what has a better tree is left"
            assert one.scaled(min(after[0] for after in entries)) <= min(left), "at a bound of its trees"
            assert min(after[0] for after in entries) >= bound, "that is no less than before"
        return iter(entries)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "step_on", step)
        before = engine.Outcome(found, None, Count(), 0, None) if found else None
        return engine.solve(one.problem, one.measure, never, lambda *_: None, before=before, looks_first=False)


def steps_leave_bounds_of_what_is_not_searched(one: Case) -> None:
    """From nothing; then with values known that few trees beat, so that most structures are refuted."""
    best = min((value for each in one.structures if (value := one.best(each)) is not None), default=None)
    for above in (None, 1, 1000):
        outcome = solve_watched(one, above)
        value = outcome.found[0][0] if outcome.found else None
        assert (None if value is None else one.scaled(value)) == best, "the best tree of all"
        assert outcome.bound == value, "it is proven"
        assert outcome.count.is_whole, "every structure is accounted for"


@pytest.mark.parametrize("seed", few(range(40), 8))
def test_steps_leave_bounds_of_what_is_not_searched(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning = replace(engine.TUNING, nodes_at_once=1 + seed % 5, most_ahead=1, first_probe=1, probed_nodes=seed % 4)
    monkeypatch.setattr(engine, "TUNING", tuning)
    objective, name = OBJECTIVES[seed % len(OBJECTIVES)], f"steps {seed}"
    one = next(one for turn in count() if (one := random_case(f"{name} {turn}", objective, windows=seed % 2 > 0)).trees)
    steps_leave_bounds_of_what_is_not_searched(one)
