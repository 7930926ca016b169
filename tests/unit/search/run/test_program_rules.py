"""Programs of several nests under the user's demands and limits: none is ignored, and what is answered meets them.

The demands are read here from the tree itself, way by way, by code that the search does not use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import TypeVar

import pytest

import polymap as pm
from polymap.ir import Branch, Compute, Mapping, MappingNode, OptionError, Spatial, Storage, Temporal, Workload
from polymap.search import SearchResult

Loop = TypeVar("Loop", Temporal, Spatial)
Way = tuple[str, tuple[MappingNode, ...]]
PAIR = ("S[m,n] += Q[m,k] * K[k,n]", "O[m,p] += S[m,n] * V[n,p]")


def pair() -> Workload:
    return pm.program(list(PAIR), m=16, n=16, k=8, p=8, temporary=["S"], bits=8)


def asked(constraints: dict[str, object] | None = None, **words: object) -> SearchResult:
    limit = {"time_limit_s": 60, "work_limit": 20} | words
    return pm.explore(pair(), "flat3", tiles="divide", constraints=constraints, **limit)  # pyright: ignore[reportArgumentType]


@pytest.fixture(scope="module")
def free() -> SearchResult:
    """Return the answer without demands."""
    return asked()


def ways(nodes: tuple[MappingNode, ...], above: tuple[MappingNode, ...] = ()) -> Iterator[Way]:
    """Yield each statement with the nodes above it."""
    *own, last = nodes
    if isinstance(last, Compute):
        yield last.statement, (*above, *own)
    elif isinstance(last, Branch):
        for child in last.children:
            yield from ways(child, (*above, *own))


def loops(way: tuple[MappingNode, ...], kind: type[Loop]) -> list[tuple[Loop, int]]:
    """Return each loop of a kind that has several iterations, and how many."""
    tiles, found = pair().extents(), list[tuple[Loop, int]]()
    for node in way:
        if isinstance(node, Temporal | Spatial):
            trips = -(-tiles[node.dim] // node.tile)
            tiles[node.dim] = min(tiles[node.dim], node.tile)
            found += [(node, trips)] if trips > 1 and isinstance(node, kind) else []
    return found


def holds(mapping: Mapping, level: str, tensor: str) -> list[bool]:
    """Return of each statement that uses a tensor whether a level holds it there."""
    used = {"S0": "SQK", "S1": "OSV"}
    return [
        any(isinstance(node, Storage) and node.level == level and tensor in node.tensors for node in way)
        for name, way in ways(mapping.nodes)
        if tensor in used[name]
    ]


def in_order(mapping: Mapping, outer: str, inner: str) -> bool:
    orders = [[node.dim for node, _ in loops(way, Temporal)] for _, way in ways(mapping.nodes)]
    return all(outer not in order[order.index(inner) :] for order in orders if inner in order)


def spread(mapping: Mapping, dim: str, fanout: str) -> list[int]:
    """Return over how many instances of a fan-out each statement's way spreads a dim."""
    return [
        prod(trips for node, trips in loops(way, Spatial) if (node.dim, node.fanout) == (dim, fanout))
        for _, way in ways(mapping.nodes)
    ]


DEMANDS: dict[str, tuple[dict[str, object], Callable[[SearchResult], bool]]] = {
    "a level never holds what passes between the statements": (
        {"store": {"GLB": {"never": ["S"]}}},
        lambda found: not any(holds(tree(found), "GLB", "S")),
    ),
    "a level holds an operand": (
        {"store": {"GLB": {"must": ["V"]}}},
        lambda found: all(holds(tree(found), "GLB", "V")),
    ),
    "a dim of both statements is not spread": (
        {"fanouts": {"X": {"forbid": ["n"]}, "Y": {"forbid": ["n"]}}},
        lambda found: {*spread(tree(found), "n", "X"), *spread(tree(found), "n", "Y")} == {1},
    ),
    "a dim of one statement is spread over so many": (
        {"fanouts": {"X": {"factors": {"k": 2}}}},
        lambda found: spread(tree(found), "k", "X") == [2, 1],
    ),
    "one loop is outside another": ({"order": ["m", "n"]}, lambda found: in_order(tree(found), "m", "n")),
    "the other order": ({"order": ["n", "m"]}, lambda found: in_order(tree(found), "n", "m")),
    "the innermost loop": (
        {"innermost": ["m"]},
        lambda found: all(
            order[-1] == "m"
            for _, way in ways(tree(found).nodes)
            if "m" in (order := [node.dim for node, _ in loops(way, Temporal)])
        ),
    ),
    "a limit of another objective": (
        {"limits": {"latency": 60}},
        lambda found: found.cost is not None and found.cost.latency_cycles <= 60,
    ),
    "a share of the compute units": (
        {"min_utilization": 0.5},
        lambda found: found.cost is not None and found.cost.utilization >= 0.5,
    ),
}


def tree(found: SearchResult) -> Mapping:
    assert found.best is not None, "there is a mapping"
    return found.best


def value(found: SearchResult) -> float:
    assert found.value is not None, "there is a mapping"
    return found.value


@pytest.mark.parametrize("name", DEMANDS)
def test_what_is_demanded_of_a_program_is_met(name: str, free: SearchResult) -> None:
    constraints, is_met = DEMANDS[name]
    found = asked(constraints)
    assert is_met(found), tree(found)
    assert 0 < value(found) <= 1.5 * value(free), "nests and chains are searched under demands, too"


def test_each_demand_leaves_out_some_tree(free: SearchResult) -> None:
    apart = Mapping((Branch(tuple((*(Temporal(dim, 1) for dim in dims), Compute(name)) for name, dims in
                                  (("S0", "nmk"), ("S1", "mnp")))),))  # fmt: skip
    cost = pm.evaluate(pair(), "flat3", apart)
    others = (free, replace(free, best=apart, cost=cost))
    met = {name: [is_met(each) for each in others] for name, (_, is_met) in DEMANDS.items()}
    idle = {name for name, both in met.items() if all(both)}
    assert idle <= {"a dim of both statements is not spread"}, "a demand that any tree meets tests nothing"


def test_demands_that_nothing_meets_are_refuted_or_told() -> None:
    found = asked({"store": {"GLB": {"must": ["S"]}}, "limits": {"traffic:GLB": 1}})
    assert found.best is None, "no tree moves one bit"
    assert found.status in ("INFEASIBLE", "TIMEOUT"), "nothing is claimed that is not proven"


@pytest.mark.parametrize(
    ("constraints", "code"),
    [
        ({"order": ["m", "zz"]}, "PM542"),
        ({"store": {"GLB": {"never": ["Z"]}}}, "PM543"),
        ({"store": {"L9": {"never": ["S"]}}}, "PM544"),
        ({"fanouts": {"Z": {"forbid": ["m"]}}}, "PM545"),
    ],
)
def test_words_that_a_program_lacks_are_refused(constraints: dict[str, object], code: str) -> None:
    with pytest.raises(OptionError, match=code):
        asked(constraints)


def test_loops_of_c_programs_keep_their_names_under_demands() -> None:
    text = """
    void f(float A[8][6], float B[6][8], float C[8][8], float D[8][5], float E[8][5]) {
      for (int i = 0; i < 8; i++) for (int j = 0; j < 8; j++) { C[i][j] = 0;
        for (int k = 0; k < 6; k++) C[i][j] += A[i][k] * B[k][j]; }
      for (int x = 0; x < 8; x++) for (int y = 0; y < 5; y++)
        for (int z = 0; z < 8; z++) E[x][y] += C[x][z] * D[z][y];
    }"""
    work = pm.from_c(text)
    found = pm.explore(work, "flat3", constraints={"order": ["j", "i"]}, time_limit_s=60, work_limit=60)
    assert found.workload == work, "a demand about loops is of the program's own"
    orders = [[node.dim for node in way if isinstance(node, Temporal)] for _, way in ways(tree(found).nodes)]
    both = [order for order in orders if {"i", "j"} <= set(order)]
    assert all("j" not in order[order.index("i") :] for order in both), "each loop over j is outside each over i"


def test_a_seed_a_limit_and_going_on_make_no_answer_worse(free: SearchResult) -> None:
    short = asked(work_limit=30)
    longer = short.resume(time_limit_s=60, work_limit=40)
    assert value(longer) <= value(short), "going on never loses the mapping"
    assert (longer.bound or 0) >= (short.bound or 0), "nor the bound"
    assert longer.work > short.work, "steps are added up"
    assert asked(seed=5).value == free.value, "of nests and chains a seed changes nothing"


@pytest.mark.slow
def test_workers_change_no_value() -> None:
    values = {asked(workers=workers, work_limit=1).value for workers in (1, 2)}
    assert len(values) == 1, "the same for any number"


def test_a_program_has_a_certificate_without_constraints(free: SearchResult) -> None:
    verdict = pm.verify(free.certificate(), pair(), "flat3")
    assert verdict.proven, verdict.reason
    assert verdict.value == free.value
    under = asked({"store": {"GLB": {"must": ["S"]}}})
    with pytest.raises(OptionError, match=r"PM515.*programs are certified without constraints"):
        under.certificate()
