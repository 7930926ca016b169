"""Legality of orders, tilings, parallel loops and mappings: isl, sign vectors and running the nest agree."""

from __future__ import annotations

from itertools import permutations, product
from time import process_time

import pytest

from polymap.ir.loopnest import Operator, Workload
from polymap.ir.mapping import Branch, Compute, Mapping, Spatial, Storage, Temporal
from polymap.ir.quasi_affine import Affine, dim
from polymap.ir.violation import InstancePoint, Violation
from polymap.schedules.legality import (
    Parallel,
    dependence_violations,
    legal_orders,
    parallel_loops,
    parallel_places,
    schedule_violations,
)
from polymap.schedules.relation import original_schedule, schedule_of
from polymap.schedules.signs import (
    any_order_is_legal,
    band,
    count_legal_permutations,
    legal_permutations,
    sign_vectors,
)
from polymap.workload.c import from_c
from polymap.workload.dependence_analysis import Kind, dependences
from tests.nests import (
    NESTS,
    at,
    broken_pairs,
    convolution,
    cube,
    depthwise,
    floyd_warshall,
    matmul,
    orders_that_keep,
    permutation_is_legal,
    statement,
    stencil,
    steps,
    two_reductions,
    workload,
)


def order_schedule(work: Workload, order: tuple[str, ...]) -> dict[str, tuple[Affine, ...]]:
    """Return the program's schedule with its outermost perfectly nested loops in `order`."""
    outer = tuple(map(dim, order))
    return {name: (*outer, *row[2 * len(order) :]) for name, row in original_schedule(work).items()}


def order_is_legal(work: Workload, order: tuple[str, ...], *, strict: bool = False) -> bool:
    """Return whether an order of the outermost perfectly nested loops is legal: by sign vectors."""
    return permutation_is_legal(sign_vectors(work, strict=strict), [band(work).index(name) for name in order])


def order_violation(work: Workload, order: tuple[str, ...], *, strict: bool = False) -> Violation | None:
    """Return the violation if such an order is illegal, else None: by isl."""
    found = schedule_violations(work, order_schedule(work, order), strict=strict)
    return found[0] if found else None


def all_orders(work: Workload) -> list[tuple[str, ...]]:
    return list(permutations(band(work)))


@pytest.mark.parametrize("name", NESTS)
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "relaxed"])
def test_isl_and_signs_agree_on_all_orders(name: str, strict: bool) -> None:
    work, kept, free = NESTS[name]
    by_signs = {order for order in all_orders(work) if order_is_legal(work, order, strict=strict)}
    by_isl = {order for order in all_orders(work) if order_violation(work, order, strict=strict) is None}
    assert by_signs == by_isl == set(legal_orders(work, strict=strict))
    assert len(by_signs) == (kept if strict else free)


SMALL = [name for name in NESTS if len(NESTS[name][0].dims) <= 3 and len(NESTS[name][0].statements) == 1]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("strict", [True, False], ids=["strict", "relaxed"])
def test_signs_agree_with_running_every_pair_of_instances(name: str, strict: bool) -> None:
    work = NESTS[name][0]
    assert set(legal_orders(work, strict=strict)) == set(orders_that_keep(work, strict=strict))


def test_convolution_has_840_legal_orders_strictly_and_5040_relaxed() -> None:
    conv = convolution()
    assert sum(order_is_legal(conv, order, strict=True) for order in all_orders(conv)) == 840
    assert sum(order_is_legal(conv, order) for order in all_orders(conv)) == 5040


@pytest.mark.slow
def test_isl_and_signs_agree_on_the_5040_orders_of_a_convolution() -> None:
    conv = convolution()
    for order in all_orders(conv):
        by_isl = order_violation(conv, order, strict=True) is None
        assert by_isl == order_is_legal(conv, order, strict=True), order
        assert order_violation(conv, order) is None


def test_isl_and_signs_agree_on_the_720_orders_of_a_depthwise_convolution() -> None:
    conv = depthwise("ngpqrs")
    by_isl = sum(order_violation(conv, order, strict=True) is None for order in all_orders(conv))
    assert by_isl == sum(order_is_legal(conv, order, strict=True) for order in all_orders(conv)) == 360
    assert sum(order_is_legal(conv, order) for order in all_orders(conv)) == 720


def test_floyd_warshall_may_only_exchange_its_inner_loops() -> None:
    assert list(legal_orders(floyd_warshall())) == [("k", "i", "j"), ("k", "j", "i")]


def test_legal_orders_of_a_convolution_are_found_in_a_few_milliseconds() -> None:
    vectors = sign_vectors(convolution(), strict=True)
    start = process_time()
    assert sum(1 for _ in legal_permutations(vectors, 7)) == 840
    assert process_time() - start < 0.1


@pytest.mark.parametrize("name", NESTS)
def test_counting_orders_equals_listing_them(name: str) -> None:
    work = NESTS[name][0]
    for strict in (True, False):
        vectors = sign_vectors(work, strict=strict)
        assert count_legal_permutations(vectors, len(band(work))) == len(list(legal_orders(work, strict=strict)))


def test_orders_of_twenty_loops_are_counted_without_listing_them() -> None:
    chain = [tuple(1 if p == i else -1 if p == i + 1 else 0 for p in range(6)) for i in range(5)]
    padded = [(*vector, *([0] * 14)) for vector in chain]
    listed = sum(1 for _ in legal_permutations(chain, 6))
    assert listed == 1
    assert count_legal_permutations(padded, 20) == 2432902008176640000 // 720


def test_sign_vectors_of_an_associative_accumulation_are_none() -> None:
    assert sign_vectors(matmul()) == ()
    assert sign_vectors(matmul(), strict=True) == ((0, 0, 1),)
    fixed = workload(cube("ij"), statement("ij", at("s"), [at("a", "i", "j")]), associative=False)
    assert sign_vectors(fixed) == sign_vectors(fixed, strict=True) != ()


def test_accumulation_has_only_its_reduction_dependence() -> None:
    assert [(each.kind, each.tensor) for each in dependences(matmul())] == [(Kind.REDUCTION, "C")]


def test_dependence_says_distance_and_signs() -> None:
    (only,) = dependences(stencil("ij", [(-1, 1)]))
    assert (only.source, only.sink, only.kind, only.tensor) == ("S", "S", Kind.FLOW, "a")
    assert only.distances == ((1, -1),)
    assert only.signs == ((1, -1),)
    assert only.relation_text == "{ S[i, j] -> S[i' = 1 + i, j' = -1 + j] : 0 <= i <= 3 and 0 < j <= 4 }"


def test_distances_that_vary_are_none() -> None:
    (only,) = dependences(matmul())
    assert only.distances == ((0, 0, None),)


def test_illegal_order_is_shown_with_two_instances_and_the_legal_orders() -> None:
    broken = order_violation(stencil("ij", [(-1, 1)]), ("j", "i"))
    assert broken is not None
    assert broken.kind == "dependence"
    assert broken.witness == (
        InstancePoint("S", (("i", 0), ("j", 1))),
        InstancePoint("S", (("i", 1), ("j", 0))),
    )
    assert broken.message == (
        "A flow dependence of a is broken: S[i=1, j=0] must come after S[i=0, j=1], but runs before it. "
        "Legal orders of its loops: i j."
    )


def test_witness_speaks_in_the_users_own_loop_values() -> None:
    from dataclasses import replace

    work = stencil("ij", [(-1, 1)])
    dims = (replace(work.dims[0], origin=3, step=2), replace(work.dims[1], origin=9, step=-1))
    broken = order_violation(replace(work, dims=dims), ("j", "i"))
    assert broken is not None
    assert broken.witness == (
        InstancePoint("S", (("i", 3), ("j", 8))),
        InstancePoint("S", (("i", 5), ("j", 9))),
    )


def test_accumulation_that_may_not_be_reordered_names_the_cure() -> None:
    kept = workload(cube("ij"), statement("ij", at("s", "j"), [at("a", "i", "j")]), associative=False)
    tree = Mapping((Temporal("j", 1), Spatial("i", 1, "X"), Compute("S")))
    (broken,) = dependence_violations(kept, tree)
    assert "A reduction dependence of s is broken" in broken.message
    assert "runs in the same step as it. Declare the accumulation into s associative" in broken.message
    free = workload(cube("ij"), statement("ij", at("s", "j"), [at("a", "i", "j")]))
    assert dependence_violations(free, tree) == ()
    assert len(dependence_violations(free, tree, strict=True)) == 1


DONE = Compute("S")
TREES = [
    Mapping((Temporal("i", 2), Temporal("j", 1), Temporal("i", 1), Compute("S"))),
    Mapping((Temporal("i", 3), Temporal("j", 2), Temporal("i", 2), Temporal("j", 1), Temporal("i", 1), Compute("S"))),
    Mapping((Temporal("j", 2), Temporal("i", 1), Temporal("j", 1), Compute("S"))),
    Mapping((Temporal("i", 1), Temporal("j", 3), Temporal("j", 2), Temporal("j", 1), Compute("S"))),
    Mapping((Spatial("i", 2, "X"), Temporal("j", 1), Temporal("i", 1), Compute("S"))),
    Mapping((Temporal("i", 1), Spatial("j", 1, "X"), Compute("S"))),
    Mapping((Temporal("i", 4), Spatial("i", 2, "X"), Temporal("i", 1), Temporal("j", 1), Compute("S"))),
    Mapping((Temporal("j", 1), Temporal("i", 4), Spatial("i", 3, "X"), Temporal("i", 2), Spatial("i", 1, "Y"), DONE)),
]


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("offsets", [[(-1, 1)], [(-1, 0)], [(0, -1)], [(1, -1)], [(-2, 3)], [(-1, -1), (0, -1)]])
def test_violations_of_a_mapping_are_those_of_running_it(tree: Mapping, offsets: list[tuple[int, ...]]) -> None:
    work = stencil("ij", offsets, extent=5)
    expected = broken_pairs(work, tree, strict=False)
    found = dependence_violations(work, tree)
    assert len(found) == len({pair[2] for pair in expected})
    for each in found:
        first, second = each.witness
        assert isinstance(first, InstancePoint)
        assert isinstance(second, InstancePoint)
        points = tuple(tuple(number for _, number in one.values) for one in (first, second))
        assert any(pair[4:] == points for pair in expected)


@pytest.mark.parametrize("tree", TREES)
def test_schedule_of_a_tree_orders_instances_as_running_it_does(tree: Mapping) -> None:
    work = stencil("ij", [(0, 0)], extent=5)
    places = schedule_of(work, tree)["S"]
    when = steps(work, tree)
    assert len(when) == 25
    clocks = {
        point: tuple(place.evaluate(dict(zip("ij", point, strict=True))) for place in places) for _, point in when
    }
    for (_, one), first in when.items():
        for (_, other), second in when.items():
            assert (first < second) == (clocks[one] < clocks[other])


def produced_and_consumed(shift: int) -> Workload:
    """b[i] = a[i], then c[i] = b[i - shift], in two loops of one outer loop t."""
    from polymap.ir.quasi_affine import dim

    return workload(
        {"i": 4},
        statement("i", at("b", "i"), [at("a", "i")], Operator.ASSIGN, name="S0", position=(0, 0)),
        statement("i", at("c", "i"), [at("b", dim("i") - shift)], Operator.ASSIGN, name="S1", position=(0, 1)),
    )


def test_fused_statements_keep_their_order_inside_a_branch() -> None:
    right = Branch(((Compute("S0"),), (Compute("S1"),)))
    wrong = Branch(((Compute("S1"),), (Compute("S0"),)))
    loop = (Storage("L", ("a",)), Temporal("i", 1))
    assert dependence_violations(produced_and_consumed(1), Mapping((*loop, right))) == ()
    (broken,) = dependence_violations(produced_and_consumed(0), Mapping((*loop, wrong)))
    assert broken.witness == (InstancePoint("S0", (("i", 0),)), InstancePoint("S1", (("i", 0),)))
    parted = Branch(((Spatial("i", 1, "X"), Compute("S0")), (Spatial("i", 1, "X"), Compute("S1"))))
    assert dependence_violations(produced_and_consumed(1), Mapping((parted,))) == ()
    together = Mapping((Spatial("i", 1, "X"), Branch(((Compute("S0"),), (Compute("S1"),)))))
    assert dependence_violations(produced_and_consumed(1), together) == ()


def test_parallel_loops_of_the_program() -> None:
    assert parallel_loops(matmul()) == (("i", Parallel.YES), ("j", Parallel.YES), ("k", Parallel.REDUCTION))
    assert parallel_loops(stencil("ij", [(-1, 1)])) == (("i", Parallel.NO), ("j", Parallel.YES))
    fixed = workload(cube("ij"), statement("ij", at("s", "j"), [at("a", "i", "j")]), associative=False)
    assert parallel_loops(fixed) == (("i", Parallel.NO), ("j", Parallel.YES))
    assert parallel_loops(two_reductions()) == tuple((name, Parallel.REDUCTION) for name in "ijk")


@pytest.mark.parametrize("name", [name for name in NESTS if len(NESTS[name][0].statements) == 1])
def test_parallel_places_of_the_programs_own_schedule_are_its_parallel_loops(name: str) -> None:
    work = NESTS[name][0]
    schedule = original_schedule(work)
    assert schedule_violations(work, schedule, strict=True) == ()
    assert parallel_places(work, schedule)[1::2] == tuple(answer for _, answer in parallel_loops(work))


@pytest.mark.parametrize("index", ["i", "2*i", "i/2", "i%2", "i + j", "(i + j)/2", "i/4"])
def test_loops_that_write_an_element_twice_have_an_order(index: str) -> None:
    """The last of several writers of an element counts; where none is written twice the loops are known to be free."""
    loops = "for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++)"
    workload = from_c(f"void f(int T[16][16], int A[4][4]) {{ {loops} T[{index}][j] = A[i][j]; }}")
    written = [
        tuple(form.evaluate({"i": i, "j": j}) for form in workload.statements[0].target.index)
        for i, j in product(range(4), repeat=2)
    ]
    assert any_order_is_legal(workload) <= (len(set(written)) == len(written))
    assert any_order_is_legal(workload) == (index in ("i", "2*i"))
