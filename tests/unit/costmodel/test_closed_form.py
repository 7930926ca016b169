"""The closed form: cases counted by hand, extents that nobody can walk, and where it says that it does not reach."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product

import pytest

from polymap.costmodel import counting
from polymap.costmodel.closed_form import branch_programs
from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.closed_form.groups import axis_forms
from polymap.costmodel.counts import Counts, LevelUse
from polymap.costmodel.evaluation import evaluate, simulate, violations
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.loopnest import Access, Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast, Node
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.ir.quasi_affine import Affine, dim
from polymap.workload.einsums import einsum

HUGE = 10**12
GLB, RF = MemoryLevel("GLB"), MemoryLevel("RF")
X = Fanout("X", HUGE)


def machine(*nodes: Node) -> Architecture:
    return Architecture("toy", (MemoryLevel("DRAM"), *nodes, ComputeUnit("MAC")))


def count(workload: Workload, arch: Architecture, *nodes: MappingNode) -> Counts | None:
    return count_closed_form(workload, arch, Mapping((*nodes, Compute("S"))))


def counted(workload: Workload, arch: Architecture, *nodes: MappingNode) -> Counts:
    counts = count(workload, arch, *nodes)
    assert counts is not None
    return counts


def moved(counts: Counts, level: str, tensor: str) -> tuple[int, int, int, int]:
    """Return (reads, writes, fills, drains)."""
    (row,) = [row for row in counts.traffic if (row.level, row.tensor) == (level, tensor)]
    return row.reads, row.writes, row.fills, row.drains


def gemm(m: int, n: int, k: int) -> Workload:
    return einsum("C[m,n] += A[m,k] * B[k,n]", m=m, n=n, k=k)


@pytest.mark.parametrize(
    ("text", "k", "is_counted"),
    [("C[m,k] = A[m,k] * B[k]", 3, True), ("C[m+k] = A[m,k] * B[m]", 1, True), ("C[m+k] = A[m,k] * B[m]", 2, False)],
)
def test_what_sets_elements_is_counted_where_it_sets_each_once(text: str, k: int, is_counted: bool) -> None:
    workload, arch = einsum(text, sizes={"m": 5, "k": k}), machine(RF)
    nodes = (Storage("DRAM", ("C", "A", "B")), Temporal("m", 2), Storage("RF", ("C", "B")), Temporal("m", 1))
    mapping = Mapping((*nodes, Temporal("k", 1), Compute("S")))
    counts = count_closed_form(workload, arch, mapping)
    assert (counts is not None) == is_counted
    assert counts is None or counts.traffic == count_by_simulation(workload, arch, mapping).traffic


def test_a_product_of_a_million_million_rows_is_counted_in_closed_form() -> None:
    # B stays; per row of A its k elements come once; each C is drained once, never read.
    counts = counted(
        gemm(HUGE, HUGE, HUGE),
        machine(RF),
        Storage("RF", ("B",)),
        Temporal("m", 1),
        Storage("RF", ("A",)),
        Temporal("n", 1),
        Storage("RF", ("C",)),
        Temporal("k", 1),
    )
    assert counts.instances == counts.steps == HUGE**3
    assert moved(counts, "RF", "A") == (HUGE**3, HUGE**2, HUGE**2, 0)
    assert moved(counts, "RF", "B") == (HUGE**3, HUGE**2, HUGE**2, 0)
    assert moved(counts, "RF", "C") == (HUGE**3, HUGE**3, 0, HUGE**2)
    assert moved(counts, "DRAM", "C") == (0, HUGE**2, 0, 0)
    assert counts.uses[1].occupancy_bits == 8 * (HUGE**2 + HUGE + 1)


def test_partial_tiles_of_a_million_million_indices_are_not_enumerated() -> None:
    # m in tiles of 7 over instances, the last of 1 (10^12 = 7 * 142857142857 + 1): every instance reads B whole, in
    # lock step: one message per element of B; C is accumulated k times and drained once.
    tiles = -(-HUGE // 7)
    counts = counted(
        gemm(HUGE, 3, 5),
        machine(X, RF),
        Spatial("m", 7, "X"),
        Temporal("m", 1),
        Storage("RF", ("A", "C")),
        Temporal("n", 1),
        Temporal("k", 1),
    )
    assert 7 * (tiles - 1) + 1 == HUGE
    assert counts.steps == 7 * 3 * 5
    assert moved(counts, "DRAM", "A") == (5 * HUGE, 0, 0, 0)
    assert moved(counts, "DRAM", "B") == (7 * 15, 0, 0, 0)
    assert moved(counts, "RF", "C") == (15 * HUGE, 15 * HUGE, 0, 3 * HUGE)
    assert counts.uses[1] == LevelUse("RF", 64, (7 * 15 + 7 * 15) * 8, (7 * 5 + 7 * 15) * 8, 8 * (210 + 140))


def test_a_window_slides_over_a_million_million_places() -> None:
    # I[2p+r], r < 5: per step 2 new elements; 2 * (10^12 - 1) + 5 in all. A tile of 3 places: 4 + 5 = 9 elements.
    workload = einsum("O[p] += I[2*p+r] * W[r]", p=HUGE, r=5)
    one = counted(workload, machine(RF), Temporal("p", 1), Storage("RF", ("I",)), Temporal("r", 1))
    assert moved(one, "RF", "I")[2] == 2 * HUGE + 3
    # In tiles of 3, the last of which has one place (10^12 = 3 * 333333333333 + 1), nothing is loaded twice either.
    three = counted(workload, machine(RF), Temporal("p", 3), Storage("RF", ("I",)), Temporal("r", 1), Temporal("p", 1))
    assert moved(three, "RF", "I")[2] == 2 * HUGE + 3
    assert three.uses[1].occupancy_bits == 9 * 8


def test_interleaved_progressions_of_a_million_million_elements_are_held() -> None:
    # {2i + 3j}: all of 0 .. 5 (10^12 - 1) but the second and the second-last.
    workload = einsum("C[k] += A[2*i+3*j] * B[k]", i=HUGE, j=HUGE, k=2)
    counts = counted(workload, machine(RF), Temporal("k", 1), Storage("RF", ("A",)), Temporal("i", 1), Temporal("j", 1))
    assert moved(counts, "RF", "A")[2] == 5 * (HUGE - 1) + 1 - 2


def test_an_idle_instance_keeps_its_tile_until_it_works_again() -> None:
    # m = 3 over two instances in tiles of 2: the second instance has one row, and idles at the second one; the whole
    # is run twice (n). Rows change in the first instance only: it loads 2 + 2, the other 1.
    workload = gemm(3, 2, 1)
    nodes = (Temporal("n", 1), Spatial("m", 2, "X"), Temporal("m", 1), Storage("RF", ("A",)))
    counts = counted(workload, machine(X, RF), *nodes)
    assert moved(counts, "RF", "A") == (6, 5, 5, 0)


def test_strides_and_differences_hold_what_exists() -> None:
    strided = einsum("O[p] += I[3*p+r] * W[r]", p=4, r=2)
    assert moved(counted(strided, machine(RF), Storage("RF", ("I",)), *both("p", "r")), "RF", "I")[2] == 8
    negative = einsum("O[p] += I[p-r+2] * W[r]", p=16, r=3)
    assert moved(counted(negative, machine(RF), Storage("RF", ("I",)), *both("p", "r")), "RF", "I")[2] == 18


def both(*dims: str) -> tuple[Temporal, ...]:
    return tuple(Temporal(name, 1) for name in dims)


def test_siblings_along_a_window_share_halos_only_where_loads_are_united() -> None:
    # p over 4 instances, r < 3 inside: tiles {0,1,2} .. {3,4,5}: 12 elements apart, 6 united.
    workload = einsum("O[p] += I[p+r] * W[r]", p=4, r=3)
    for policy, reads in ((Multicast.IDENTICAL, 12), (Multicast.UNION, 6), (Multicast.NONE, 12)):
        arch = machine(replace(X, multicast=policy), RF)
        counts = counted(workload, arch, Spatial("p", 1, "X"), Storage("RF", ("I",)), Temporal("r", 1))
        assert moved(counts, "DRAM", "I") == (reads, 0, 0, 0)
        assert moved(counts, "RF", "I") == (12, 12, 12, 0)


def triangle() -> Workload:
    workload = gemm(3, 3, 3)
    (statement,) = workload.statements
    return replace(workload, statements=(replace(statement, constraints=(dim("m") - dim("n"),)),))


def temporary() -> Workload:
    workload = gemm(3, 3, 3)
    return replace(workload, tensors=tuple(replace(each, temporary=each.name == "C") for each in workload.tensors))


@pytest.mark.parametrize(
    "workload",
    [
        triangle(),
        temporary(),
        einsum("O[i] += A[i,i] * A[i,j]", i=3, j=3),
    ],
    ids=["a triangle", "a temporary output", "a diagonal beside a box"],
)
def test_beyond_one_accumulation_over_a_box_there_is_no_answer(workload: Workload) -> None:
    loops = tuple(Temporal(each.name, 1) for each in workload.dims)
    assert count(workload, machine(), *loops) is None


def test_two_accesses_share_a_tile_and_are_read_one_by_one() -> None:
    # Of a stencil the buffer holds i and i + 1, and loads one element per step: 2 + 1 + 1.
    counts = counted(einsum("O[i] += A[i] * A[i+1]", i=3), machine(RF), Temporal("i", 1), Storage("RF", ("A",)))
    assert moved(counts, "DRAM", "A") == (4, 0, 0, 0)
    assert moved(counts, "RF", "A") == (6, 4, 4, 0)


def test_a_branch_has_no_answer_and_outputs_shared_through_a_window_have_one() -> None:
    workload = einsum("O[p+r] += I[p] * W[r]", p=3, r=2)
    tree = Mapping((Branch(((Temporal("p", 1), Temporal("r", 1), Compute("S")),)),))
    assert count_closed_form(workload, machine(), tree) is None
    shared = (Spatial("p", 1, "X"), Storage("RF", ("O",)), Temporal("r", 1))
    found = count(workload, machine(X, RF), *shared)
    assert found is not None
    assert found == count_by_simulation(workload, machine(X, RF), Mapping((*shared, Compute("S"))))


def test_a_set_with_too_many_gaps_has_no_answer() -> None:
    workload = einsum("C[k] += A[1000000*i+1000001*j] * B[k]", i=10**5, j=10**5, k=2)
    assert count(workload, machine(RF), Storage("RF", ("A",)), *both("k", "i", "j")) is None


def test_evaluate_says_how_it_counted_and_what_is_broken() -> None:
    small = machine(replace(RF, capacity_bits=16))
    loops = (Temporal("m", 1), Temporal("n", 1), Temporal("k", 1))
    tight = Mapping((Storage("RF", ("A",)), *loops, Compute("S")))
    cost = evaluate(gemm(2, 2, 2), small, tight)
    assert (cost.method, cost.legal) == ("closed form", False)
    assert [violation.kind for violation in cost.violations] == ["capacity"]
    assert violations(gemm(2, 2, 2), small, tight) == cost.violations
    walked = simulate(gemm(2, 2, 2), small, tight)
    assert replace(walked, method=cost.method) == cost
    assert walked.method == "simulation"


@pytest.mark.parametrize(("few_moves", "method"), [(20_000, "steps"), (0, "sets")])
def test_what_the_closed_form_does_not_reach_is_counted_otherwise(
    few_moves: int, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "TUNING", counting.TUNING._replace(few_moves=few_moves))
    tree = Mapping((Temporal("m", 1), Storage("RF", ("C",)), Temporal("n", 1), Temporal("k", 1), Compute("S")))
    cost = evaluate(triangle(), machine(RF), tree)
    assert cost.method == method
    assert replace(simulate(triangle(), machine(RF), tree), method=method) == cost


def test_an_element_tells_the_dims_that_no_other_dims_can_make_up_for() -> None:
    extents = {"i": 4, "j": 5, "k": 6, "one": 1}
    i, j, k = dim("i"), dim("j"), dim("k")

    def forms(*axes: Affine) -> tuple[tuple[int, ...], list[tuple[tuple[int, int], ...]]]:
        singles, windows = axis_forms(Access("A", axes), extents)
        return singles, [window.terms for window in windows]

    assert forms(i, i) == ((0,), [])
    assert forms(i, i + j) == ((0, 1), [])
    assert forms(i + j, i - j) == ((0, 1), [])
    assert forms(i * 2 + j * 4, k + dim("one")) == ((2,), [((0, 1), (1, 2))])
    assert forms(i + j, i * 2 + j * 2 + k) == ((2,), [((0, 1), (1, 1))])
    assert forms() == ((), [])


def test_forms_that_share_dims_become_one_that_tells_all_of_them() -> None:
    extents = {"i": 4, "j": 5, "k": 6}
    singles, (window,) = axis_forms(Access("A", (dim("i") + dim("j"), dim("j") + dim("k"))), extents)
    assert singles == ()
    points = [(i, j, k) for i in range(4) for j in range(5) for k in range(6)]
    elements = {(i + j, j + k) for i, j, k in points}
    values = {sum(factor * point[number] for number, factor in window.terms) for point in points}
    assert len(values) == len(elements)


@pytest.mark.parametrize(
    ("sizes", "nodes"),
    [
        (
            {"c": 4, "p": 6, "r": 5, "k": 2},
            (Temporal("k", 1), Spatial("c", 3, "X"), Temporal("p", 4), Storage("L", ("O",)), Temporal("p", 3),
             Spatial("r", 2, "Y"), Temporal("c", 1), Storage("R", ("O",)), Temporal("p", 1), Temporal("r", 1)),
        ),
        (
            {"c": 4, "p": 5, "r": 2, "k": 6},
            (Spatial("c", 3, "X"), Spatial("p", 3, "Y"), Temporal("k", 4), Temporal("c", 1), Spatial("r", 1, "Y"),
             Storage("L", ("O",)), Temporal("k", 2), Storage("R", ("O",)), Temporal("p", 1), Temporal("k", 1)),
        ),
        (
            {"c": 5, "p": 5, "r": 3, "k": 4},
            (Spatial("p", 3, "Y"), Spatial("c", 4, "Y"), Spatial("k", 3, "X"), Spatial("p", 1, "X"), Temporal("r", 1),
             Temporal("k", 2), Storage("L", ("O",)), Temporal("c", 1), Temporal("k", 1), Storage("R", ("O",))),
        ),
    ],
)  # fmt: skip
def test_the_busiest_of_siblings_that_share_sums_along_a_window_and_idle_along_a_dim_is_that_of_the_walk(
    sizes: dict[str, int], nodes: tuple[MappingNode, ...]
) -> None:
    """Siblings hold an element at several offsets, and some have no work along a dim that the tensor lacks."""
    arch = machine(Fanout("X", 8), MemoryLevel("L"), Fanout("Y", 8), MemoryLevel("R"))
    workload = einsum("O[p+2*r] += I[c,p,k] * W[c,r]", sizes=sizes)
    mapping = Mapping((*nodes, Compute("S")))
    assert count_closed_form(workload, arch, mapping) == count_by_simulation(workload, arch, mapping)


def test_an_access_covers_another_only_where_it_touches_all_of_its_elements() -> None:
    """Referee: the elements one by one, in each iteration of the loops over the dims that are cut."""
    covers: Callable[[Workload, Access, Access, Sequence[str]], bool] = vars(branch_programs)["_covers"]
    rng, found = random.Random("covers"), 0
    for _ in range(1200):
        workload = einsum("O[i,j,k,l] += A[i,j] * B[k,l]", sizes={name: rng.randrange(1, 4) for name in "ijkl"})
        extents, cut = workload.extents(), [name for name in "ijkl" if rng.random() < 0.3]
        one, other = (Access("T", drawn_index(rng)) for _ in range(2))
        if not (one.is_box and other.is_box and covers(workload, one, other, cut)):
            continue
        found += one != other
        for at in product(*(range(extents[name]) for name in cut)):
            wide, touched = (elements_at(each, extents, dict(zip(cut, at, strict=True))) for each in (one, other))
            assert touched <= wide, (str(one), str(other), extents, cut)
    assert found >= 15


def drawn_index(rng: random.Random) -> tuple[Affine, Affine]:
    """Return a subscript of two axes, each of one dim or the sum of two, with a step and a place."""
    axes = [rng.sample("ijkl", rng.choice((1, 1, 2))) for _ in range(2)]
    forms = [[dim(name) * rng.choice((1, 1, 1, 2)) for name in names] for names in axes]
    first, second = (reduce(operator.add, own) + rng.choice((0, 0, 0, 1)) for own in forms)
    return first, second


def elements_at(access: Access, extents: dict[str, int], at: dict[str, int]) -> set[tuple[int, ...]]:
    points = product(*([at[name]] if name in at else range(extent) for name, extent in extents.items()))
    return {tuple(form.evaluate(dict(zip(extents, point, strict=True))) for form in access.index) for point in points}
