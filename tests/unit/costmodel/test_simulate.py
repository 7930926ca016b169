"""The simulator against cases that were counted by hand: the comments are the counting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polymap.costmodel.counts import Counts, LevelUse
from polymap.costmodel.referees.walk import count_by_simulation
from polymap.ir.loopnest import (
    Access,
    Dim,
    Index,
    Operator,
    Read,
    Role,
    Statement,
    Tensor,
    Workload,
)
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast, Node
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.ir.quasi_affine import Affine, dim
from polymap.schedules.check import check_mapping
from polymap.workload.einsums import einsum

X = Fanout("X", 8)


def machine(*nodes: Node) -> Architecture:
    return Architecture("toy", (MemoryLevel("DRAM"), *nodes, ComputeUnit("MAC")))


def run(workload: Workload, arch: Architecture, *nodes: MappingNode) -> Counts:
    """Simulate a tree; the compute of an einsum is added where no branch ends it."""
    tree = nodes if isinstance(nodes[-1], Branch) else (*nodes, Compute("S"))
    check_mapping(workload, arch, Mapping(tree))
    return count_by_simulation(workload, arch, Mapping(tree))


def moved(counts: Counts, level: str, tensor: str) -> tuple[int, int, int, int]:
    """Return (reads, writes, fills, drains)."""
    (row,) = [row for row in counts.traffic if (row.level, row.tensor) == (level, tensor)]
    return row.reads, row.writes, row.fills, row.drains


def use(counts: Counts, level: str) -> LevelUse:
    (found,) = [each for each in counts.uses if each.level == level]
    return found


RF = MemoryLevel("RF")
GLB = MemoryLevel("GLB")


def test_without_storage_every_access_goes_to_the_outermost_level() -> None:
    # C[m] += A[m,k], 2 x 2: A is read 4 times; each C is written twice, and read where it is not zero any more: once.
    counts = run(einsum("C[m] += A[m,k]", m=2, k=2), machine(), Temporal("m", 1), Temporal("k", 1))
    assert moved(counts, "DRAM", "A") == (4, 0, 0, 0)
    assert moved(counts, "DRAM", "C") == (2, 4, 0, 0)
    assert (counts.instances, counts.steps) == (4, 4)
    assert use(counts, "DRAM") == LevelUse("DRAM", 0, 6 * 8, 4 * 8, 10 * 8)


def test_a_scalar_that_stays_is_accumulated_in_place_and_drained_once() -> None:
    # C += A[k], k=3, C in RF: enters as zero for nothing; 3 writes, the last two read it first; 1 drain, read there.
    counts = run(einsum("C += A[k]", k=3), machine(RF), Storage("RF", ("C",)), Temporal("k", 1))
    assert moved(counts, "RF", "C") == (3, 3, 0, 1)
    assert moved(counts, "DRAM", "C") == (0, 1, 0, 0)
    assert use(counts, "RF") == LevelUse("RF", 8, 24, 24, 48)


def test_a_sliding_window_loads_only_its_new_part() -> None:
    # O[p] += I[p+r] W[r], p=4, r=3: the tiles {0,1,2}, {1,2,3}, ... load 3, 1, 1, 1.
    workload = einsum("O[p] += I[p+r] * W[r]", p=4, r=3)
    counts = run(workload, machine(RF), Temporal("p", 1), Storage("RF", ("I",)), Temporal("r", 1))
    assert moved(counts, "RF", "I") == (12, 6, 6, 0)
    assert moved(counts, "DRAM", "I") == (6, 0, 0, 0)
    assert use(counts, "RF").occupancy_bits == 3 * 8


def test_a_wrapped_window_is_loaded_again_only_where_it_is_new() -> None:
    # The same twice (k=2): going back from {3,4,5} to {0,1,2} keeps nothing but 3, which is not in it: 6 + 6 loads.
    # With p=2 the tiles are {0,1,2}, {1,2,3}, and back to {0,1,2}: 3 + 1 + 1 + 1.
    for extent, fills in ((4, 12), (2, 6)):
        workload = einsum("O[k,p] += I[p+r] * W[k,r]", k=2, p=extent, r=3)
        loops = (Temporal("k", 1), Temporal("p", 1), Storage("RF", ("I",)), Temporal("r", 1))
        assert moved(run(workload, machine(RF), *loops), "RF", "I")[2] == fills


def test_strides_leave_holes_and_are_no_bounding_boxes() -> None:
    # I[3p+r], p=4, r=2: {0,1, 3,4, 6,7, 9,10}: 8 elements held, not 11; nothing overlaps.
    workload = einsum("O[p] += I[3*p+r] * W[r]", p=4, r=2)
    counts = run(workload, machine(RF), Storage("RF", ("I",)), Temporal("p", 1), Temporal("r", 1))
    assert moved(counts, "RF", "I") == (8, 8, 8, 0)
    assert use(counts, "RF").occupancy_bits == 8 * 8


def test_negative_coefficients_and_diagonals() -> None:
    # A[i,i]: 3 elements. B[i-j+2], i, j < 3: 0..4, 5 elements; per i the tile is {i, i+1, i+2}: 3 + 1 + 1 loads.
    workload = einsum("C[i] += A[i,i] * B[i-j+2]", i=3, j=3)
    counts = run(workload, machine(RF), Temporal("i", 1), Storage("RF", ("A", "B")), Temporal("j", 1))
    assert moved(counts, "RF", "A") == (9, 3, 3, 0)
    assert moved(counts, "RF", "B") == (9, 5, 5, 0)
    assert use(counts, "RF").occupancy_bits == (1 + 3) * 8


def test_partial_sums_move_out_and_back() -> None:
    # C[m] += A[m,k], k outside, one C in RF: C0, C1 drain, come back (moved: the parent's copy becomes zero, so the
    # second drain finds zero and reads nothing), and drain again: 4 drains, 2 fills.
    # RF writes 4 accumulations + 2 fills; reads 4 drains + the 2 accumulations onto what came back.
    loops = (Temporal("k", 1), Temporal("m", 1), Storage("RF", ("C",)))
    counts = run(einsum("C[m] += A[m,k]", m=2, k=2), machine(RF), *loops)
    assert moved(counts, "RF", "C") == (6, 6, 2, 4)
    assert moved(counts, "DRAM", "C") == (2, 4, 0, 0)


@pytest.mark.parametrize("operator", ["+=", "max=", "min="])
def test_an_initial_tensor_is_a_partial_sum_from_the_start(operator: str) -> None:
    # As above, but C comes in the first time too: 4 fills; all 4 accumulations read.
    workload = einsum(f"C[m] {operator} A[m,k]", m=2, k=2, initial=["C"])
    counts = run(workload, machine(RF), Temporal("k", 1), Temporal("m", 1), Storage("RF", ("C",)))
    assert moved(counts, "RF", "C") == (8, 8, 4, 4)
    assert moved(counts, "DRAM", "C") == (4, 4, 0, 0)


@pytest.mark.parametrize(("reduction", "reads", "writes"), [(True, 0, 1), (False, 1, 2)])
def test_siblings_add_on_the_way_where_the_fan_out_can(reduction: bool, reads: int, writes: int) -> None:
    # C += A[k], k = 2x + t on two siblings: each accumulates twice (1 read), both drain in the last step.
    # With adders they arrive as one; without, the second arrival finds a partial sum and reads it.
    arch = machine(replace(X, reduction=reduction), RF)
    counts = run(einsum("C += A[k]", k=4), arch, Spatial("k", 2, "X"), Storage("RF", ("C",)), Temporal("k", 1))
    assert moved(counts, "RF", "C") == (2 + 2, 4, 0, 2)
    assert moved(counts, "DRAM", "C") == (reads, writes, 0, 0)
    assert counts.steps == 2


@pytest.mark.parametrize(("reduction", "reads", "writes"), [(True, 1, 2), (False, 3, 4)])
def test_compute_below_a_fan_out_adds_on_the_way_too(reduction: bool, reads: int, writes: int) -> None:
    # RF above X: two accumulations per step onto one copy; 2 steps.
    arch = machine(RF, replace(X, reduction=reduction))
    counts = run(einsum("C += A[k]", k=4), arch, Spatial("k", 2, "X"), Storage("RF", ("C",)), Temporal("k", 1))
    assert moved(counts, "RF", "C") == (reads + 1, writes, 0, 1)


def test_the_first_sibling_takes_the_partial_sum() -> None:
    # C initial, two siblings: instance 0 gets it (1 fill), instance 1 starts from zero.
    # Instance 0: writes 1 fill + 2, reads 2 + drain; instance 1: writes 2, reads 1 + drain.
    workload = einsum("C += A[k]", k=4, initial=["C"])
    counts = run(workload, machine(X, RF), Spatial("k", 2, "X"), Storage("RF", ("C",)), Temporal("k", 1))
    assert moved(counts, "RF", "C") == (5, 5, 1, 2)
    assert moved(counts, "DRAM", "C") == (1, 1, 0, 0)
    assert use(counts, "RF") == LevelUse("RF", 8, 3 * 8, 3 * 8, 6 * 8)
    # k = 3 as 2 + 1: it is the busier instance 0 that gets it, so the busiest moves as much as before.
    workload = einsum("C += A[k]", k=3, initial=["C"])
    counts = run(workload, machine(X, RF), Spatial("k", 2, "X"), Storage("RF", ("C",)), Temporal("k", 1))
    assert use(counts, "RF") == LevelUse("RF", 8, 3 * 8, 3 * 8, 6 * 8)


def test_a_partial_sum_comes_in_through_all_levels_in_one_step() -> None:
    # C initial, in GLB and RF: one move DRAM -> GLB -> RF, two accumulations, one drain on each way back.
    # GLB: writes 1 fill + 1 arrival, reads 1 move + 1 drain.
    workload = einsum("C += A[k]", k=2, initial=["C"])
    nodes = (Storage("GLB", ("C",)), Storage("RF", ("C",)), Temporal("k", 1))
    counts = run(workload, machine(GLB, RF), *nodes)
    assert moved(counts, "DRAM", "C") == (1, 1, 0, 0)
    assert moved(counts, "GLB", "C") == (2, 2, 1, 1)
    assert moved(counts, "RF", "C") == (3, 3, 1, 1)


@pytest.mark.parametrize(
    ("multicast", "window", "weights"),
    [(Multicast.IDENTICAL, 4, 2), (Multicast.UNION, 3, 2), (Multicast.NONE, 4, 4)],
)
def test_siblings_share_what_they_load_as_the_fan_out_says(multicast: Multicast, window: int, weights: int) -> None:
    # p on two siblings, r=2: they load {0,1} and {1,2} of I, and both {0,1} of W.
    workload = einsum("O[p] += I[p+r] * W[r]", p=2, r=2)
    arch = machine(replace(X, multicast=multicast), RF)
    counts = run(workload, arch, Spatial("p", 1, "X"), Storage("RF", ("I", "W")), Temporal("r", 1))
    assert moved(counts, "DRAM", "I") == (window, 0, 0, 0)
    assert moved(counts, "DRAM", "W") == (weights, 0, 0, 0)
    assert moved(counts, "RF", "I") == moved(counts, "RF", "W") == (4, 4, 4, 0)


def test_policies_of_two_fan_outs_mix() -> None:
    # O[p,q] += I[p+q], p on X (2), q on Y (2): the loads are {0}, {1} | {1}, {2} (X = 0 | X = 1).
    # X none: 2 + 2. Y none: per q {0},{1} | {1},{2}: 4. X union, Y identical: per q the union {0,1} and {1,2}: 4.
    # X identical, Y identical: distinct {0}, {1}, {2}: 3.
    y = Fanout("Y", 2)
    for one, other, reads in (
        (Multicast.NONE, Multicast.IDENTICAL, 4),
        (Multicast.IDENTICAL, Multicast.NONE, 4),
        (Multicast.UNION, Multicast.IDENTICAL, 4),
        (Multicast.UNION, Multicast.UNION, 3),
        (Multicast.IDENTICAL, Multicast.IDENTICAL, 3),
    ):
        arch = machine(replace(X, multicast=one), replace(y, multicast=other), RF)
        loops = (Spatial("p", 1, "X"), Spatial("q", 1, "Y"), Storage("RF", ("I",)))
        counts = run(einsum("O[p,q] += I[p+q]", p=2, q=2), arch, *loops)
        assert moved(counts, "DRAM", "I")[0] == reads


def test_several_loops_on_one_fan_out_are_side_by_side() -> None:
    # m and k both on X: four siblings in one step; C0 and C1 arrive as one each; A is read once per sibling.
    loops = (Spatial("m", 1, "X"), Spatial("k", 1, "X"), Storage("RF", ("A", "C")))
    counts = run(einsum("C[m] += A[m,k]", m=2, k=2), machine(X, RF), *loops)
    assert counts.steps == 1
    assert moved(counts, "DRAM", "C") == (0, 2, 0, 0)
    assert moved(counts, "RF", "C") == (4, 4, 0, 4)
    assert moved(counts, "RF", "A") == (4, 4, 4, 0)


def test_an_idle_instance_keeps_inputs_and_gives_up_outputs() -> None:
    # O[m] += B[m] A[k], m=3 as 2 + 1 on two siblings, k=2 outside. Steps: (m0,m1), (m2,-), (m0,m1), (m2,-).
    # B: instance 0 loads m0, m2, m0, m2; instance 1 loads m1 once and keeps it while idle: 5 fills.
    # O: every step's outputs leave after it: drains 2 + 1 + 2 + 1; m0, m2, m1 come back once each: 3 fills.
    loops = (Temporal("k", 1), Temporal("m", 2), Spatial("m", 1, "X"), Storage("RF", ("B", "O")))
    counts = run(einsum("O[m] += B[m] * A[k]", m=3, k=2), machine(X, RF), *loops)
    assert counts.steps == 4
    assert moved(counts, "RF", "B") == (6, 5, 5, 0)
    assert moved(counts, "RF", "O") == (6 + 3, 6 + 3, 3, 6)
    assert use(counts, "RF").occupancy_bits == 2 * 8


def test_kept_inputs_of_an_idle_instance_count_as_held() -> None:
    # m = 3 as tiles of 2 in time and 1 per sibling, inputs kept below: in step 2 instance 1 is idle and holds A[1].
    # Instance 1 then also waits with B[1]: 2 elements, as instance 0.
    workload = einsum("O[m] += B[m] * A[m]", m=3, bits={"O": 1, "A": 8, "B": 16})
    counts = run(workload, machine(X, RF), Temporal("m", 2), Spatial("m", 1, "X"), Storage("RF", ("A", "B")))
    assert use(counts, "RF") == LevelUse("RF", 24, 2 * 24, 2 * 24, 4 * 24)


def test_partial_tiles_end_early_at_every_depth() -> None:
    # m=5 in tiles of 3 and 2: {0,1},{2} | {3,4}: 3 tiles of A: all 5 elements once; 5 steps.
    loops = (Temporal("m", 3), Temporal("m", 2), Storage("RF", ("A",)), Temporal("m", 1))
    counts = run(einsum("C[m] += A[m]", m=5), machine(RF), *loops)
    assert counts.steps == 5
    assert moved(counts, "RF", "A") == (5, 5, 5, 0)
    assert use(counts, "RF").occupancy_bits == 2 * 8
    # m=3 in tiles of 2: the last tile is the smaller one, the peak is that of the first.
    counts = run(einsum("C[m] += A[m]", m=3), machine(RF), Temporal("m", 2), Storage("RF", ("A",)), Temporal("m", 1))
    assert use(counts, "RF").occupancy_bits == 2 * 8


def test_a_buffer_holds_the_union_over_the_siblings_below_it() -> None:
    # GLB stands below the loop over X, which is below its level: it holds all four elements at once.
    loops = (Spatial("m", 1, "X"), Storage("GLB", ("A",)), Storage("RF", ("A",)))
    counts = run(einsum("C[m] += A[m]", m=4), machine(GLB, X, RF), *loops)
    assert moved(counts, "GLB", "A") == (4, 4, 4, 0)
    assert use(counts, "GLB").occupancy_bits == 4 * 8
    assert use(counts, "RF").occupancy_bits == 8


def test_a_register_keeps_its_output_while_the_buffer_above_is_refilled() -> None:
    # Uneven: C in RF above k, A in GLB inside k: C drains once per m, GLB loads every A.
    loops = (Temporal("m", 1), Storage("RF", ("C",)), Temporal("k", 1), Storage("GLB", ("A",)))
    counts = run(einsum("C[m] += A[m,k]", m=2, k=3), machine(GLB, RF), *loops)
    assert moved(counts, "RF", "C") == (2 + 4, 6, 0, 2)
    assert moved(counts, "DRAM", "C") == (0, 2, 0, 0)
    assert moved(counts, "GLB", "A") == (6, 6, 6, 0)


def test_sums_pass_through_two_levels() -> None:
    # C[m] in GLB (both elements), one in RF, k outside m: RF drains 4 and takes back 2, all at GLB; GLB drains 2.
    # GLB: writes 4 arrivals; reads 2 for the moves back + 2 drains.
    loops = (Storage("GLB", ("C",)), Temporal("k", 1), Temporal("m", 1), Storage("RF", ("C",)))
    counts = run(einsum("C[m] += A[m,k]", m=2, k=2), machine(GLB, RF), *loops)
    assert moved(counts, "GLB", "C") == (4, 4, 0, 2)
    assert moved(counts, "DRAM", "C") == (0, 2, 0, 0)


def test_two_accesses_to_one_tensor_share_its_tile() -> None:
    # O[i] += A[i] A[i+1], i=3: tiles {0,1}, {1,2}, {2,3} load 2, 1, 1; every occurrence is read: 6.
    counts = run(einsum("O[i] += A[i] * A[i+1]", i=3), machine(RF), Temporal("i", 1), Storage("RF", ("A",)))
    assert moved(counts, "RF", "A") == (6, 4, 4, 0)


def test_a_triangle_is_no_box() -> None:
    # j <= i < 3: 6 instances; A[i] per j outside: {0,1,2}, {1,2}, {2}, kept and dropped, never loaded again: 3.
    workload = einsum("C[j] += A[i]", i=3, j=3)
    (statement,) = workload.statements
    workload = replace(workload, statements=(replace(statement, constraints=(dim("i") - dim("j"),)),))
    counts = run(workload, machine(RF), Temporal("j", 1), Storage("RF", ("A",)), Temporal("i", 1))
    assert (counts.instances, counts.steps) == (6, 6)
    assert moved(counts, "RF", "A") == (6, 3, 3, 0)


def test_an_assigned_tensor_is_written_without_being_read() -> None:
    # B[i] = A[i], B in RF: enters without a load, one write each, drained dirty.
    counts = run(einsum("B[i] = A[i]", i=3), machine(RF), Temporal("i", 1), Storage("RF", ("B",)))
    assert moved(counts, "RF", "B") == (3, 3, 0, 3)
    assert moved(counts, "DRAM", "B") == (0, 3, 0, 0)


def test_what_is_written_below_is_dirty_in_every_level_on_the_way_up() -> None:
    # B in GLB and RF: RF drains 3 to GLB (3 writes there), which drains 3 to DRAM.
    counts = run(
        einsum("B[i] = A[i]", i=3), machine(GLB, RF), Storage("GLB", ("B",)), Temporal("i", 1), Storage("RF", ("B",))
    )
    assert moved(counts, "RF", "B") == (3, 3, 0, 3)
    assert moved(counts, "GLB", "B") == (3, 3, 0, 3)
    assert moved(counts, "DRAM", "B") == (0, 3, 0, 0)


def one_array(name: str, statements: tuple[Statement, ...], extents: dict[str, int]) -> Workload:
    tensors = (Tensor("B", (3,), (0,), 8, Role.OUTPUT), Tensor("A", (3, 2), (0, 0), 8, Role.INPUT))
    return Workload(name, tuple(Dim(dim, extent) for dim, extent in extents.items()), tensors, statements)


B_I, A_IK = Access("B", (dim("i"),)), Access("A", (dim("i"), dim("k")))


def test_overwriting_again_and_again_reads_nothing() -> None:
    # for k: for i: B[i] = A[i,k], k=2, one B in RF: 6 writes, 6 drains, no element is ever read or loaded.
    statement = Statement("S", ("k", "i"), (), B_I, Operator.ASSIGN, (A_IK,), Read(0), (0, 0, 0))
    workload = one_array("again", (statement,), {"i": 3, "k": 2})
    counts = run(workload, machine(RF), Temporal("k", 1), Temporal("i", 1), Storage("RF", ("B",)))
    assert moved(counts, "RF", "B") == (6, 6, 0, 6)
    assert moved(counts, "DRAM", "B") == (0, 6, 0, 0)


def test_two_kinds_of_accumulation_make_no_partial_sums() -> None:
    # B[i] += A[i,0..1]; B[i] = max(B[i], A[i,0..1]): one copy for both, which begins with the first of 4 terms; each of
    # the other 9 reads and writes.
    both = tuple(
        Statement(name, ("i", "k"), (), B_I, operator, (A_IK,), Read(0), (0, number, 0))
        for number, (name, operator) in enumerate((("S0", Operator.ADD), ("S1", Operator.MAX)))
    )
    workload = one_array("kinds", both, {"i": 3, "k": 2})
    children = tuple((Temporal("k", 1), Compute(statement.name)) for statement in both)
    counts = run(workload, machine(RF), Temporal("i", 1), Storage("RF", ("B",)), Branch(children))
    assert moved(counts, "RF", "B") == (9 + 3, 12, 0, 3)
    assert moved(counts, "DRAM", "B") == (0, 3, 0, 0)


def test_an_element_that_is_read_and_overwritten_by_one_instance_is_loaded() -> None:
    # B[i] = f(B[i]): the read comes first.
    statement = Statement("S", ("i",), (), B_I, Operator.ASSIGN, (B_I,), Read(0), (0, 0))
    workload = replace(
        one_array("in place", (statement,), {"i": 3}), tensors=(Tensor("B", (3,), (0,), 8, Role.OUTPUT),)
    )
    counts = run(workload, machine(RF), Temporal("i", 1), Storage("RF", ("B",)))
    assert moved(counts, "RF", "B") == (6, 6, 3, 3)
    assert moved(counts, "DRAM", "B") == (3, 3, 0, 0)


def test_a_temporary_output_that_nothing_reads_is_never_drained() -> None:
    # One element at a time: each is dead when it leaves.
    workload = einsum("B[i] = A[i]", i=3, temporary=["B"])
    counts = run(workload, machine(RF), Temporal("i", 1), Storage("RF", ("B",)))
    assert moved(counts, "RF", "B") == (0, 3, 0, 0)


def producer_and_consumer(*, temporary: bool) -> Workload:
    """T[i] = A[i]; B[i] += T[i], for i < 4."""
    index = (dim("i"),)
    tensors = tuple(
        Tensor(name, (4,), (0,), 8, role, temporary=temporary and name == "T")
        for name, role in (("T", Role.OUTPUT), ("A", Role.INPUT), ("B", Role.OUTPUT))
    )
    statements = (
        Statement("S0", ("i",), (), Access("T", index), Operator.ASSIGN, (Access("A", index),), Read(0), (0, 0)),
        Statement("S1", ("i",), (), Access("B", index), Operator.ADD, (Access("T", index),), Read(0), (0, 1)),
    )
    return Workload("chain", (Dim("i", 4),), tensors, statements)


@pytest.mark.parametrize("temporary", [False, True])
def test_a_fused_intermediate_that_fits_never_reaches_the_outermost_level(temporary: bool) -> None:
    # T in RF above the branch: overwritten first, so never loaded; 4 writes, 4 reads; drained only where it lives on.
    tree = (Storage("RF", ("T",)), Temporal("i", 1), Branch(((Compute("S0"),), (Compute("S1"),))))
    counts = run(producer_and_consumer(temporary=temporary), machine(RF), *tree)
    drains = 0 if temporary else 4
    assert moved(counts, "RF", "T") == (4 + drains, 4, 0, drains)
    assert moved(counts, "DRAM", "T") == (0, drains, 0, 0)
    assert (counts.instances, counts.steps) == (8, 8)


def test_a_node_inside_a_branch_gives_up_what_it_wrote_while_the_other_child_runs() -> None:
    # T only in the second child's RF: S0 writes 4 to DRAM, S1 loads each (its first access reads) and drops it clean.
    tree = (Temporal("i", 1), Branch(((Compute("S0"),), (Storage("RF", ("T", "B")), Compute("S1")))))
    counts = run(producer_and_consumer(temporary=False), machine(RF), *tree)
    assert moved(counts, "DRAM", "T") == (4, 4, 0, 0)
    assert moved(counts, "RF", "T") == (4, 4, 4, 0)
    assert moved(counts, "RF", "B") == (4, 4, 0, 4)
    # B's tile is empty while S0 runs, so one element of T and one of B are all that is ever there.
    assert use(counts, "RF").occupancy_bits == 16


def test_an_array_that_is_read_and_written_is_loaded_where_it_is_read_first() -> None:
    # A[i] = f(A[i-1]) for i = 1..3 (dim i from 0: A[i+1] = A[i]): with two elements in RF per step {i, i+1}:
    # step 0 loads A0 (read first) and not A1 (overwritten); step 1 keeps A1 (dirty), A0 is dropped clean, A2 is new.
    target, source = Access("A", (dim("i") + 1,)), Access("A", (dim("i"),))
    statement = Statement("S", ("i",), (), target, Operator.ASSIGN, (source,), Read(0), (0, 0))
    workload = Workload("chain", (Dim("i", 3),), (Tensor("A", (4,), (0,), 8, Role.OUTPUT),), (statement,))
    counts = run(workload, machine(RF), Temporal("i", 1), Storage("RF", ("A",)))
    assert moved(counts, "RF", "A") == (3 + 3, 3 + 1, 1, 3)
    assert moved(counts, "DRAM", "A") == (1, 3, 0, 0)


def test_an_accumulation_onto_what_another_statement_set_reads_and_writes() -> None:
    # S0: C[i] = 0; S1: C[i] += A[i,k], k=2. Plain: each += reads and writes. i outside the branch, C in RF:
    # 1 + 2 writes and 2 reads per i, no load, one drain.
    zero = Statement("S0", ("i",), (), Access("C", (dim("i"),)), Operator.ASSIGN, (), Index(Affine()), (0, 0))
    reads = (Access("A", (dim("i"), dim("k"))),)
    add = Statement("S1", ("i", "k"), (), Access("C", (dim("i"),)), Operator.ADD, reads, Read(0), (0, 1, 0))
    tensors = (Tensor("C", (3,), (0,), 8, Role.OUTPUT), Tensor("A", (3, 2), (0, 0), 8, Role.INPUT))
    workload = Workload("init", (Dim("i", 3), Dim("k", 2)), tensors, (zero, add))
    tree = (Temporal("i", 1), Storage("RF", ("C",)), Branch(((Compute("S0"),), (Temporal("k", 1), Compute("S1")))))
    counts = run(workload, machine(RF), *tree)
    assert moved(counts, "RF", "C") == (6 + 3, 9, 0, 3)
    assert moved(counts, "DRAM", "C") == (0, 3, 0, 0)
    # A loop over k above the branch runs S0, which has no k, in its first iteration: k = 0.
    tree = (Temporal("i", 1), Temporal("k", 1), Branch(((Compute("S0"),), (Compute("S1"),))))
    counts = run(workload, machine(RF), *tree)
    assert (counts.instances, counts.steps) == (9, 9)
    assert moved(counts, "DRAM", "C") == (6, 9, 0, 0)


def test_the_busiest_instance_is_the_busiest_one_and_not_the_sum() -> None:
    # m=3 on two siblings as tiles of 2: instance 0 has m0, m1, instance 1 has m2.
    loops = (Spatial("m", 2, "X"), Temporal("m", 1), Storage("RF", ("A",)))
    counts = run(einsum("C[m] += A[m]", m=3), machine(X, RF), *loops)
    assert moved(counts, "RF", "A") == (3, 3, 3, 0)
    assert use(counts, "RF") == LevelUse("RF", 8, 16, 16, 32)


def test_where_the_outermost_node_stands_has_no_effect() -> None:
    workload = einsum("C[m] += A[m,k]", m=2, k=2)
    loops = (Temporal("k", 1), Temporal("m", 1), Storage("RF", ("C",)))
    bare = run(workload, machine(RF), *loops)
    assert run(workload, machine(RF), *loops, Storage("DRAM", ("A", "C"))) == bare


def test_nodes_of_one_level_stand_in_two_children_and_the_level_holds_the_most_of_them() -> None:
    # T passes through DRAM: S0 drains 4 from its node; S1 loads them. B and A are one element each beside T.
    first, second = (Storage("RF", ("T", "A")), Compute("S0")), (Storage("RF", ("T", "B")), Compute("S1"))
    tree = (Branch(((Temporal("i", 1), *first), (Temporal("i", 1), *second))),)
    counts = run(producer_and_consumer(temporary=False), machine(RF), *tree)
    assert moved(counts, "RF", "T") == (4 + 4, 4 + 4, 4, 4)
    assert moved(counts, "DRAM", "T") == (4, 4, 0, 0)
    assert use(counts, "RF").occupancy_bits == 16


def test_what_a_child_of_a_branch_holds_is_gone_when_it_runs_again() -> None:
    # A[k] is kept while k turns inside, but not from one i to the next, as a branch stands between.
    tensors = (
        Tensor("C", (3,), (0,), 8, Role.OUTPUT),
        Tensor("D", (3,), (0,), 8, Role.OUTPUT),
        Tensor("A", (2,), (0,), 8, Role.INPUT),
    )
    target, other, source = Access("C", (dim("i"),)), Access("D", (dim("i"),)), Access("A", (dim("k"),))
    statements = (
        Statement("S0", ("i", "k"), (), target, Operator.ADD, (source,), Read(0), (0, 0, 0)),
        Statement("S1", ("i",), (), other, Operator.ASSIGN, (), Index(Affine()), (0, 1)),
    )
    workload = Workload("again", (Dim("i", 3), Dim("k", 2)), tensors, statements)
    inside = (Storage("RF", ("A",)), Temporal("k", 1), Compute("S0"))
    counts = run(workload, machine(RF), Temporal("i", 1), Branch((inside, (Compute("S1"),))))
    assert moved(counts, "RF", "A") == (6, 6, 6, 0)
    above = (Storage("RF", ("A",)), Temporal("i", 1), Branch(((Temporal("k", 1), Compute("S0")), (Compute("S1"),))))
    assert moved(run(workload, machine(RF), *above), "RF", "A") == (6, 2, 2, 0)


def test_elements_of_a_temporary_that_are_not_used_again_leave_without_a_write() -> None:
    # T is held for one i at a time: each element dies before the next one enters. Where it lives on, 4 are drained.
    tree = (Temporal("i", 1), Storage("RF", ("T",)), Branch(((Compute("S0"),), (Compute("S1"),))))
    for temporary, drains in ((True, 0), (False, 4)):
        counts = run(producer_and_consumer(temporary=temporary), machine(RF), *tree)
        assert moved(counts, "RF", "T") == (4 + drains, 4, 0, drains)
        assert moved(counts, "DRAM", "T") == (0, drains, 0, 0)
    # In sequence every element is read later: all are drained when the first child ends, and loaded in the second.
    inside = (Temporal("i", 1), Storage("RF", ("T",)))
    counts = run(
        producer_and_consumer(temporary=True),
        machine(RF),
        Branch(((*inside, Compute("S0")), (*inside, Compute("S1")))),
    )
    assert moved(counts, "DRAM", "T") == (4, 4, 0, 0)
