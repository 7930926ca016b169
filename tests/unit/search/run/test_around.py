"""What stands around legs: what it leaves to them, by hand, and one node more."""

from __future__ import annotations

from itertools import islice
from time import process_time

import polymap as pm
from polymap.explore import provers
from polymap.ir import Branch, Compute, Mapping, Spatial, Storage, Temporal
from polymap.search.around import HeldTile, Surroundings, is_in_order, loops_first, read_off, with_one_more
from polymap.search.fused_trees import FusedTrees
from polymap.search.legs import Interface
from polymap.search.options import Options
from polymap.search.problem import parse_single
from polymap.search.provers import read_question
from tests.referee.test_all_fused import attention
from tests.unit.search.run.test_nest_after_nest import buffer

PAIR = ["T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"]
WORK = pm.program(PAIR, m=64, n=32, k=8, p=4, temporary=["T"], bits=8)
ARCH = pm.load_arch("simba_like")  # PE is above IBUF, WBUF and ABUF
ABOVE = (
    Storage("GLB", ("A",)),
    Temporal("n", 16),
    Spatial("m", 4, "PE"),
    Storage("GLB", ("E",)),
    Storage("ABUF", ("T",)),
)


def test_a_leg_gets_the_tiles_of_its_loops_and_what_is_left_of_the_levels() -> None:
    around = Surroundings.of(WORK, ARCH, (Storage("DRAM", ("B",)), *ABOVE))
    assert around is not None
    assert around.nodes == ABOVE
    assert around.spread == (("PE", "m", 16),)
    glb, abuf = 1, 4
    assert around.held == (
        HeldTile("A", glb, 64 * 8),
        HeldTile("E", glb, 64 * 4),
        HeldTile("T", abuf, 4 * 16),
    )
    first, second = (around.leg(WORK, ARCH, each) for each in WORK.statements)
    assert dict(first.extents) == {"m": 64, "n": 16, "k": 8}
    assert first.given == (("A", glb), ("T", abuf))
    assert dict(first.taken) == {glb: 64 * 4 * 8, abuf: 0}  # what the second one writes
    assert dict(second.taken) == {glb: 8 * 64 * 8, abuf: 0}
    assert first.spread == second.spread == (("PE", "m", 16),)
    assert first.fixed == ("PE",)


def test_what_leaves_nothing_to_legs_is_refused() -> None:
    assert Surroundings.of(WORK, ARCH, (Spatial("m", 4, "PE"), Temporal("m", 2))) is None
    large = pm.program(PAIR, m=1 << 20, n=32, k=8, p=4, temporary=["T"], bits=8)
    assert Surroundings.of(large, ARCH, (Storage("GLB", ("T",)),)) is None
    windows = pm.program(["T[p] += A[p+r] * W[r]", "E[p] = max(T[p], 0)"], p=6, r=3)
    around = Surroundings.of(windows, ARCH, (Temporal("p", 2), Storage("GLB", ("A",))))
    assert around is not None
    assert [each.elements for each in around.held] == [4]
    inside = pm.program(["T[p] += A[p+r] * W[r]", "E[p] = T[p] * A[p]"], p=6, r=3)
    within = Surroundings.of(inside, ARCH, (Temporal("p", 2), Storage("GLB", ("A",))))
    assert within is not None
    assert [each.elements for each in within.held] == [4]  # what the first one reads holds what the second one does
    beside = pm.program(["T[p] += A[p+r] * W[r]", "E[p] = T[p] * A[p+9]"], p=6, r=3)
    assert Surroundings.of(beside, ARCH, (Storage("GLB", ("A",)),)) is None


def test_spatial_loops_stand_before_nodes_above_all_fan_outs() -> None:
    outer, inner, loop = Storage("GLB", ("A",)), Storage("WBUF", ("B",)), Spatial("m", 4, "PE")
    rest = (Spatial("n", 8, "VK"), Temporal("k", 1), Compute("S0"))
    assert loops_first((outer, loop, inner, *rest), ARCH) == (loop, outer, inner, *rest)


def test_loops_that_all_share_are_read_off_one_statement() -> None:
    interface = Interface.of(WORK)
    assert interface is not None
    assert interface == Interface(("T",), ("m", "n"))
    nodes = (Temporal("k", 2), Storage("GLB", ("A", "T")), Temporal("n", 4), Temporal("k", 1), Storage("ABUF", ("T",)))
    found = read_off((*nodes, Temporal("m", 1), Compute("S0")), WORK, "ABUF", interface.kept, interface.shared)
    assert found == (Storage("GLB", ("A",)), Temporal("n", 4), Storage("ABUF", ("T",)))


def test_one_node_more_stands_in_order_in_place_of_those_below() -> None:
    node = Storage("WBUF", ("B",))
    legs = [(*(Temporal(dim, 1) for dim in each.dims), Compute(each.name)) for each in WORK.statements]
    found = list(with_one_more(WORK, ARCH, (*ABOVE, Branch(((node, *legs[0]), legs[1]))), frozenset("B")))
    assert [nodes.index(node) for nodes in found] == [3]  # below the loop over PE; the first place is above it
    for nodes in found:
        assert nodes[-1] == Branch(tuple(legs))
        assert pm.simulate(WORK, ARCH, Mapping(nodes)).legal
    assert not is_in_order(ARCH, (Storage("ABUF", ("T",)), Spatial("m", 4, "PE")))
    assert not is_in_order(ARCH, (Storage("ABUF", ("T",)), Branch(((Storage("GLB", ("T",)),),))))


def test_what_stands_above_a_branch_takes_room_beside_all_statements() -> None:
    texts = ["T[m,n] = A[m,n] * B[m,n]", "U[m,n] = max(T[m,n], 0)", "E[m,n] = U[m,n] * 2", "F[m,n] = E[m,n] * 3"]
    work = pm.program(texts, m=4, n=4, temporary=["T", "U", "E"], bits=8)
    around, held = Storage("GLB", ("T",)), ((), (), (), (Storage("GLB", ("F",)),))
    legs = tuple((*held[at], Temporal("m", 1), Temporal("n", 1), Compute(f"S{at}")) for at in range(4))
    tree = Mapping((Storage("DRAM", ("A", "B", "T", "U", "E", "F")), around, Branch(legs)))
    for words, has_room in ((32, True), (31, False)):
        arch = buffer(words)
        assert pm.evaluate(work, arch, tree).legal == has_room  # T stands beside F, which is made of E alone
        found = Surroundings.of(work, arch, (around,))
        assert found is not None
        assert dict(found.leg(work, arch, work.statements[3]).taken) == {1: 16 * 8}


def test_heads_are_spread_in_threes_where_siblings_are_idle() -> None:
    work, arch, tree = attention()
    asked, _ = read_question(work, arch, Options("edp", "divide", time_limit_s=60, clock=process_time), provers)
    fused = FusedTrees(asked, work, parse_single("edp", arch), divides=True)
    near = [fused.with_best_legs(work, (), nodes) for nodes in islice(fused.nearby(work, tree.nodes), 2)]
    assert None not in near, "there is room for sums of three heads around their users"
    before, *all_after = (
        pm.evaluate(work, arch, each) for each in (tree, *(Mapping(nodes) for nodes in near if nodes))
    )
    assert all(each.legal for each in all_after)
    after = min(all_after, key=lambda each: each.energy_pj * each.latency_cycles)  # equal legs may differ in it
    assert (before.latency_cycles, after.latency_cycles < 0.67 * before.latency_cycles) == (6_445_056, True), "64, 96"
    assert after.energy_pj * after.latency_cycles < 0.9 * before.energy_pj * before.latency_cycles
