"""pm.space: structures of loop trees, one after the other, and what is asked of them; sizes. That the list is complete:
tests/referee/test_structures_equal_exhaustive.py."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice, permutations, product
from math import factorial

import pytest

import polymap as pm
from polymap.report.figures.order_classes import order_figure
from polymap.schedules.signs import sign_vectors
from polymap.search.problem import structure_model
from polymap.search.problem.problem import analyse
from polymap.search.problem.structure_model import list_structures
from polymap.search.trees.moves import distance, features, neighbours
from polymap.search.trees.scores import score
from polymap.space import MappingStructure
from tests.nests import permutation_is_legal

ONE = pm.io.arch_from_document({"name": "one", "nodes": [{"level": "DRAM"}, {"compute": "MAC"}]})
PRIVATE = pm.io.arch_from_document(
    {
        "name": "private",
        "nodes": [
            {"level": "DRAM"},
            *({"level": f"R{role}", "must_hold": [f"@{role}"], "holds": [f"@{role}"]} for role in ("weight", "input")),
            {"level": "Routput", "must_hold": ["@output"], "holds": ["@output"]},
            {"compute": "MAC"},
        ],
    }
)
SMALL = pm.matmul(m=4, n=3, k=2)
MACHINE = pm.io.arch_from_document(
    {
        "name": "small",
        "nodes": [
            {"level": "DRAM", "read_pj": 100, "write_pj": 100},
            {"fanout": "X", "size": 2},
            {"level": "RF", "capacity_bits": 24, "read_pj": 1, "write_pj": 1, "holds": ["A", "C"]},
            {"compute": "MAC", "pj": 1},
        ],
    }
)

HELD = {"fanouts": {"X": {"forbid": ["m", "n", "k"]}}, "store": {"RF": {"must": ["A"], "never": ["C"]}}}


def orders(found: Iterable[MappingStructure]) -> set[tuple[str, ...]]:
    return {one.order for one in found}


def behaviours(found: Iterable[MappingStructure]) -> dict[object, int]:
    """Return how many structures' plainest trees have each traffic."""
    counts: dict[object, int] = {}
    for one in found:
        traffic = tuple((row.tensor, max(row.fills, row.drains)) for row in one.cost().traffic if row.level != "DRAM")
        counts[traffic] = counts.get(traffic, 0) + 1
    return counts


def test_a_structure_says_what_is_spread_what_is_held_and_in_which_order_loops_stand() -> None:
    demands = {"fanouts": {"X": {"factors": {"m": 2}}}, "store": {"RF": {"must": ["A"], "never": ["C"]}}}
    found = list(pm.space.structures(SMALL, MACHINE, {**demands, "innermost": ["m"], "outermost": ["n"]}))
    assert found == list(pm.space.structures(SMALL, MACHINE, {**demands, "order": ["n", "k", "m"]}))
    (one,) = found
    assert (one.spread, one.held, one.order) == ((("X", "m", 2),), (("RF", "A"),), ("n", "k", "m"))
    assert str(one) == "spread: m over 2 of X; held: A in RF; loops: n k m"
    assert one.nest.nodes == (
        *(pm.Temporal("n", 1), pm.Temporal("k", 1), pm.Temporal("m", 2), pm.Spatial("m", 1, "X")),
        *(pm.Storage("RF", ("A",)), pm.Compute("S")),
    )
    assert one.cost() == pm.evaluate(SMALL, MACHINE, one.nest)
    assert {one, *pickle.loads(pickle.dumps(found))} == {one}


def test_the_list_is_lazy_and_the_same_each_time() -> None:
    layer = "resnet50.conv2_x"
    found = [list(islice(pm.space.structures(layer, "eyeriss_like"), count)) for count in (5, 40, 40)]
    assert found[1] == found[2]
    assert found[0] == found[1][:5]
    assert len(set(found[1])) == 40


@pytest.mark.parametrize(("primes", "count"), [(1, 2_432), pytest.param(4, 279_744, marks=pytest.mark.soak)])
def test_the_time_of_the_solver_grows_with_the_list(primes: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worked out by hand: shares of each dim's primes on two fan-outs, orders of what is left, six places to hold."""
    rows = [row for row in product(range(primes + 1), repeat=3) if sum(row) <= 4]
    orders = sum(
        factorial(sum(x + y < primes for x, y in zip(*pair, strict=True)))
        for pair in product(rows, repeat=2)
        if all(x + y <= primes for x, y in zip(*pair, strict=True))
    )
    assert orders * 2**6 == count
    if primes == 1:
        limit = replace(structure_model.TUNING, model_seconds=0.01, most_listed=16)
        monkeypatch.setattr(structure_model, "TUNING", limit)
    size = 2**primes
    assert sum(1 for _ in pm.space.structures(pm.matmul(m=size, n=size, k=size), "flat3")) == count


def test_the_least_score_is_the_optimum() -> None:
    for objective in ("energy", "latency", "edp"):
        scored = [one.score(objective) for one in pm.space.structures(SMALL, MACHINE)]
        best = min(each.value for each in scored if each.value is not None)
        assert float(best) == pm.explore(SMALL, MACHINE, objective, tiles="divide").value
        assert {each.status for each in scored} == {"OPTIMAL"}


def test_capacities_and_limits_are_looked_at_when_a_structure_is_scored() -> None:
    tight = replace(MACHINE, nodes=(*MACHINE.nodes[:2], replace(MACHINE.levels[1], capacity_bits=8), MACHINE.nodes[3]))
    both = [one for one in pm.space.structures(SMALL, tight) if len(one.held) == 2]
    assert len(both) * 4 == len(list(pm.space.structures(SMALL, MACHINE)))
    assert {one.score().status for one in both} == {"INFEASIBLE"}
    assert both[0].score().mapping is None
    limited = list(pm.space.structures(SMALL, MACHINE, {"limits": {"latency": 1}}))
    assert limited == list(pm.space.structures(SMALL, MACHINE))
    assert {one.score().status for one in limited} == {"INFEASIBLE"}


def test_a_score_is_not_said_to_be_proven_where_a_dim_needs_two_loops() -> None:
    """k stands outside and inside of m and n: the search's costs of such trees are upper bounds."""
    layer = pm.matmul(m=2, n=2, k=4)
    found = {one: one.score() for one in pm.space.structures(layer, MACHINE, {"innermost": ["k"], **HELD})}
    assert {found[one].status for one in found if one.order[:1] == ("k",)} == {"FEASIBLE"}
    assert {found[one].status for one in found if one.order[-1:] == ("k",)} == {"OPTIMAL"}
    best = min(scored.value for scored in found.values() if scored.value is not None)
    assert float(best) == pm.explore(layer, MACHINE, tiles="divide", constraints={"innermost": ["k"], **HELD}).value
    assert {str(found[one]) for one in found if one.order == ("m", "n", "k")} == {"OPTIMAL: 6,048"}


@pytest.mark.parametrize(
    "constraints",
    [{"fanouts": {"X": {"factors": {"m": 3}}}}, {"intrinsic": {"m": 3}, "store": {"RF": {"must": ["A"]}}}],
)
def test_constraints_that_clash_leave_none(constraints: dict[str, object]) -> None:
    assert list(pm.space.structures(SMALL, MACHINE, constraints)) == []


def test_what_cannot_be_listed_is_said() -> None:
    pair = pm.program(["T[m] += A[m,k]", "C[m] = max(T[m], 0)"], m=4, k=4)
    with pytest.raises(pm.errors.OptionError, match="PM568 .* has 2 statements"):
        pm.space.structures(pair, MACHINE)
    long = pm.einsum("s[] += A[k]", k=(10**18 + 9) * (10**18 + 3))
    with pytest.raises(pm.errors.OptionError, match="PM568 the extents of k could not be split into primes"):
        pm.space.structures(long, ONE)
    with pytest.raises(pm.errors.OptionError, match="PM542"):
        pm.space.structures(SMALL, MACHINE, {"order": ["m", "z"]})
    with pytest.raises(pm.errors.ArchError, match="PM390"):
        pm.space.structures(pm.einsum("y[m] += B[m]", m=4), MACHINE)
    with pytest.raises(pm.errors.OptionError, match="PM508"):
        next(pm.space.structures(SMALL, MACHINE)).score("pareto:energy,latency")


def test_a_copy_that_may_be_stale_is_not_legal() -> None:
    """Instances side by side along j add into one x[i] one after the other: RF may not hold it."""
    text = "for (int i = 0; i < 4; i++) for (int j = 0; j < i; j++) x[i] -= L[i][j] * x[j];"
    program = pm.from_c(text)
    arch = pm.io.arch_from_document(
        {"name": "x", "nodes": [{"level": "DRAM"}, {"fanout": "X", "size": 4}, {"level": "RF"}, {"compute": "P"}]}
    )
    found = list(pm.space.structures(program, arch))
    assert all(not one.cost().violations for one in found)
    spread = [one for one in found if any(dim == "j" for _, dim, _ in one.spread)]
    assert {one.held for one in spread} == {(), (("RF", "L"),)}
    assert {one.score().status for one in found} == {"FEASIBLE"}


def test_120_orders_have_five_behaviours() -> None:
    """S9: ML systems textbook, chapter Hardware Acceleration."""
    layer = pm.einsum("O[m,p,q] += I[p+r,q+s] * W[m,r,s]", m=16, p=6, q=6, r=3, s=3)
    found = [*pm.space.structures(layer, PRIVATE)]
    assert len(orders(found)) == len(found) == 120
    assert sorted(behaviours(found).values()) == sorted(len(one.orders) for one in order_figure(layer, PRIVATE).classes)
    assert len(behaviours(found)) == 5


def test_depthwise_orders_that_keep_the_accumulation_order() -> None:
    layer = pm.conv2d(K=4, C=4, groups=4, H=6, W=6, R=3, S=3, N=1)
    found = [*pm.space.structures(layer, ONE)]
    assert len(found) == factorial(5)
    assert sum(one.keeps_accumulation_order for one in found) == 60


@pytest.mark.slow
def test_a_convolution_of_seven_loops_has_5040_orders_of_which_840_keep_the_accumulation_order() -> None:
    layer = pm.conv2d(N=2, K=64, C=64, H=56, W=56, R=3, S=3, padding=1)
    found = [*pm.space.structures(layer, ONE)]
    assert len(orders(found)) == len(found) == 5040
    kept = {one.order for one in found if one.keeps_accumulation_order}
    assert len(kept) == 840
    assert orders(pm.space.structures(replace(layer, associative=False), ONE)) == kept


@pytest.mark.slow
def test_the_behaviours_of_5040_orders_are_those_of_all_permutations() -> None:
    layer = pm.conv2d(N=2, K=3, C=4, H=5, W=4, R=3, S=2)
    found = behaviours(pm.space.structures(layer, PRIVATE))
    assert sum(found.values()) == 5040
    assert sorted(found.values()) == sorted(len(one.orders) for one in order_figure(layer, PRIVATE).classes)


PROGRAMS = {
    "a[i][j] = a[i-1][j+1]": (1, "for (int i = 1; i < 6; i++) for (int j = 0; j < 5; j++) a[i][j] = a[i-1][j+1];"),
    "Floyd-Warshall": (
        2,
        "for (int k = 0; k < 4; k++) for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++)"
        " d[i][j] = fmin(d[i][j], d[i][k] + d[k][j]);",
    ),
    "Gauss-Seidel, five points": (
        2,
        "for (int t = 0; t < 3; t++) for (int i = 1; i < 6; i++) for (int j = 1; j < 6; j++)"
        " a[i][j] = a[i-1][j] + a[i][j-1] + a[i][j] + a[i][j+1] + a[i+1][j];",
    ),
    "Gauss-Seidel, nine points": (
        1,
        "for (int t = 0; t < 3; t++) for (int i = 1; i < 6; i++) for (int j = 1; j < 6; j++)"
        " a[i][j] = a[i-1][j-1] + a[i-1][j] + a[i-1][j+1] + a[i][j-1] + a[i][j] + a[i][j+1]"
        " + a[i+1][j-1] + a[i+1][j] + a[i+1][j+1];",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_orders_of_recurrences(name: str) -> None:
    count, text = PROGRAMS[name]
    assert len(list(pm.space.structures(pm.from_c(text), ONE))) == count


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_model_proposes_only_orders_that_signs_allow(name: str) -> None:
    program = pm.from_c(PROGRAMS[name][1])
    vectors = sign_vectors(program)
    dims = range(len(program.dims))
    legal = {order for order in permutations(dims) if permutation_is_legal(vectors, order)}
    found = [one.statements[0].order for one in list_structures(analyse(program, ONE), (), vectors)]
    names = [dim.name for dim in program.dims]
    assert sorted(tuple(names.index(dim) for dim in order) for order in found) == sorted(legal)


def test_the_size_of_the_space_is_that_of_a_search() -> None:
    size = pm.space.size(SMALL, MACHINE)
    space = pm.explore(SMALL, MACHINE, tiles="divide").space
    assert (size.syntactic, size.legal) == (space.syntactic, space.legal)
    with pytest.raises(pm.errors.OptionError, match="PM503"):
        pm.space.size(SMALL, MACHINE, "all")


def test_the_namespace_holds_what_is_asked_of_the_space() -> None:
    assert pm.space.sample is pm.sample_mappings
    assert pm.space.score is score
    with pytest.raises(pm.errors.OptionError, match=r"score\(\) lacks the argument 'mappings'"):
        pm.space.score(SMALL, MACHINE)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    assert (pm.space.neighbours, pm.space.features, pm.space.distance) == (neighbours, features, distance)
