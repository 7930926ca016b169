"""Evidence joins to the largest bounds and the best mappings; the driver asks provers until it is closed."""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction

import pytest

from polymap import explore, load_arch, matmul, program
from polymap.explore import provers
from polymap.ir.loopnest import Workload
from polymap.resources import Stop
from polymap.search.dividing import product_padding
from polymap.search.driver import Kind, Line, Search, Table, first
from polymap.search.evidence import Evidence, Incumbent
from polymap.search.options import Options
from polymap.search.program_search import program_order
from polymap.search.provers import read_question
from polymap.search.result import SpaceCount
from tests.unit.search.machines import two_levels

SMALL = matmul(m=3, n=2, k=1)
TWO = two_levels(512)
SPACE = SpaceCount(None, None, None, 1, 0)
BOTH = "pareto:energy,latency"


def begun(objective: str = "energy", workload: Workload = SMALL) -> tuple[Search, Evidence]:
    return read_question(workload, TWO, Options(objective), provers)


def valued(search: Search, *values: int) -> Incumbent:
    """Return the program in its own order, with other values."""
    return replace(search.incumbent(program_order(SMALL, TWO)), values=tuple(Fraction(value) for value in values))


def test_joined_evidence_has_the_largest_bounds_and_no_mapping_that_another_one_covers() -> None:
    search, known = begun(BOTH)
    low, high = Evidence((Fraction(1), Fraction(9))), Evidence((Fraction(4), Fraction(2)), nodes=3)
    one, other = low.with_incumbents([valued(search, 5, 9)]), high.with_incumbents([valued(search, 6, 8)])
    more = other.with_incumbents([valued(search, 6, 10), valued(search, 5, 9)])
    joined = one.joined(more)
    assert joined.floors == (4, 9)
    assert [incumbent.values for incumbent in joined.incumbents] == [(5, 9), (6, 8)]
    assert [incumbent.values for incumbent in more.joined(one).incumbents] == [(5, 9), (6, 8)]
    assert joined.joined(known).floors == tuple(max(pair) for pair in zip((4, 9), known.floors, strict=True))
    closed = joined.joined(replace(known, left=()))
    assert closed.is_closed
    assert closed.renewed() == closed
    late = joined.joined(replace(known, left=(joined.floors,), space=SPACE)).renewed()
    assert not late.is_closed
    assert (late.left, late.space, late.incumbents) == (None, None, joined.incumbents)


def test_nothing_is_proven_by_a_claim_that_is_wrong_or_worse_than_what_is_known() -> None:
    search, known = begun()
    mapping = program_order(SMALL, TWO)
    own = search.incumbent(mapping)
    assert search.proven(known, ((mapping, (own.values[0] - 1,)),), SPACE) is known
    better = known.with_incumbents([valued(search, 1)])
    assert search.proven(better, ((mapping, own.values),), SPACE) is better
    proven = search.proven(known, ((mapping, own.values),), SPACE)
    assert proven.left == ()
    assert search.result(proven).status == "OPTIMAL"
    front, begin = begun(BOTH)
    point = front.incumbent(mapping)
    apart = begin.with_incumbents([valued(front, int(point.values[0]) + 1, 1)])
    assert front.proven(apart, ((mapping, point.values),), SPACE) is apart  # the walk missed a point


def test_what_refutes_all_mappings_is_not_believed_where_there_is_one() -> None:
    search, known = begun()
    assert search.result(replace(known, clash=("none fits",))).status == "INFEASIBLE"
    found = search.result(replace(known.with_incumbents(search.written()), clash=("none fits",)))
    assert (found.status, found.best) == ("FEASIBLE", program_order(SMALL, TWO))


def asked(search: Search, evidence: Evidence, stop: Stop) -> Evidence:
    """Count the calls, and raise the floor by one."""
    search.engines.keep([*(search.engines.get(list) or []), stop()])
    return evidence.with_floor(0, evidence.floors[0] + 1)


def refuted(_search: Search, evidence: Evidence, _stop: Stop) -> Evidence:
    return replace(evidence, clash=("this one says so",))


def some(_kinds: Kind) -> Table:
    return (
        Line(asked, Kind.ANY_SIZE),
        Line(asked, Kind.ORDER | Kind.PART),
        Line(asked, Kind.ANY_SIZE, rules=True),
        Line(asked, Kind.ANY_SIZE, first(-1.0), rules=False, without_mapping=True),
        Line(refuted, Kind.ANY_SIZE),
        Line(asked, Kind.ANY_SIZE),
    )


def test_the_driver_asks_the_provers_that_apply_until_the_evidence_is_closed() -> None:
    search, known = begun()
    found = replace(search, provers=some).searched(known)
    assert search.engines.get(list) == [False, True]  # the first with all of the limit, the second with none
    assert found.floors[0] == known.floors[0] + 2
    assert found.clash == ("this one says so",)
    search, known = begun()
    assert replace(search, provers=some).searched(known.with_incumbents(search.written())).is_closed
    assert search.engines.get(list) == [False]


def test_evidence_and_its_search_are_pickled_with_what_provers_keep() -> None:
    search, known = begun()
    search = replace(search, provers=some, on_progress=print)
    found = search.searched(known)
    again, evidence = pickle.loads(pickle.dumps((search, found)))
    assert evidence == found
    assert (again.engines.get(list), again.on_progress) == ([False, True], None)


def test_an_unfinished_answer_about_a_program_is_pickled_and_goes_on() -> None:
    """What statements cost at least is kept with the limit by which it was asked for."""
    texts = ["T[k,y] += I[c,y] * W[k,c]", "O[z,y] += T[k,y] * V[z,k]"]
    work = program(texts, k=4, c=4, y=8, z=4, temporary=["T"], bits=8)
    found = explore(work, two_levels(160), "energy", tiles="divide", time_limit_s=600, work_limit=20)
    assert found.status == "FEASIBLE"
    again = pickle.loads(pickle.dumps(found))
    assert again == found
    later, direct = (each.resume(600, work_limit=20) for each in (again, found))
    assert (later.value, later.bound) == (direct.value, direct.bound)
    again = pickle.loads(pickle.dumps(found))  # with what the search that went on has left
    later, direct = (each.resume(600, work_limit=20) for each in (again, found))
    assert (later.value, later.bound, later.best) == (direct.value, direct.bound, direct.best)


def test_instances_of_a_program_are_not_pickled_but_made_again() -> None:
    texts = ["T[k,y,x] += I[c,y+r,x+s] * W[k,c,r,s]", "U[k,y,x] = max(T[k,y,x], 0)", "E[z,y,x] += U[k,y,x] * V[z,k]"]
    sizes = {"k": 4, "c": 4, "y": 8, "x": 8, "r": 3, "s": 3, "z": 4}
    work = program(texts, sizes=sizes, temporary=["T", "U"], bits=8)
    found = explore(work, "eyeriss_like", "energy", tiles="divide", time_limit_s=600, work_limit=60)
    text = pickle.dumps(found)
    assert len(text) < 1_000_000, "4.6 million bytes with the instances"
    later, direct = (each.resume(600, work_limit=60) for each in (pickle.loads(text), found))
    assert (later.value, later.bound, later.best, later.work) == (direct.value, direct.bound, direct.best, direct.work)


def test_padded_products_are_not_looked_for_where_the_best_meets_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("a padded product is searched")

    monkeypatch.setattr(product_padding, "best_product_tiles", refused)
    found = explore(matmul(m=64, n=64, k=64), load_arch("flat3"), "latency")
    assert (found.status, found.value) == ("OPTIMAL", 1024)
