"""Which trees are programs, which are not, and what of the machine's rules they break."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from polymap.ir.errors import ArchError, MappingError
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Branch, Compute, Mapping, MappingNode, Spatial, Storage, Temporal
from polymap.schedules.check import check_machine, check_mapping, placement_violations
from polymap.workload.einsums import einsum

GEMM = einsum("C[m,n] += A[m,k] * B[k,n]", m=4, n=2, k=1)
LEVELS = (
    MemoryLevel("DRAM"),
    MemoryLevel("GLB"),
    Fanout("X", 4),
    MemoryLevel("RF", holds=("@output", "A")),
    ComputeUnit("MAC"),
)
ARCH = Architecture("toy", LEVELS)
M, N, S = Temporal("m", 1), Temporal("n", 1), Compute("S")


def problems(*nodes: MappingNode) -> str:
    with pytest.raises(MappingError, match=r"^PM4") as caught:
        check_mapping(GEMM, ARCH, Mapping(nodes))
    return str(caught.value)


def test_readable_trees_are_accepted() -> None:
    trees: list[tuple[MappingNode, ...]] = [
        (M, N, S),
        (Storage("DRAM", ("A", "B", "C")), Storage("GLB", ("B",)), M, N, S),
        # The outermost node has no effect, wherever it stands.
        (Storage("RF", ("A",)), M, Storage("DRAM", ("A",)), N, S),
        # A tile at least as large as the enclosing one makes one iteration; a dim of extent 1 needs no loop.
        (Temporal("m", 100), Temporal("m", 3), Temporal("m", 3), M, N, Temporal("k", 7), S),
        # Nodes of one level at different depths; a spatial loop above an upper level's node.
        (Spatial("m", 1, "X"), Storage("GLB", ("A",)), Storage("RF", ("C",)), N, Storage("RF", ("A",)), S),
        # More iterations than instances: not legal, but a program.
        (Spatial("m", 1, "X"), Spatial("n", 1, "X"), S),
        (Branch(((M, N, S),)),),
    ]
    for tree in trees:
        check_mapping(GEMM, ARCH, Mapping(tree))


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ((), r"PM401 nodes is empty"),
        ((M, N), r"PM401 nodes ends without a compute or a branch"),
        ((M, N, S, M), r"PM401 nodes\[2\] is a compute, and nodes follow it"),
        ((M, N, Branch(())), r"PM401 nodes\[2\] is a branch without children"),
        ((M, N, Branch(((), (S,)))), r"PM401 nodes\[2\]\.branch\[0\] is empty"),
        ((Storage("BUF", ("A",)), M, N, S), r"PM402 nodes\[0\] names the level 'BUF'.*\n.*Known: DRAM, GLB, RF"),
        ((Storage("GLBB", ("A",)), M, N, S), r"PM402 .*\n.*Did you mean 'GLB'\?"),
        ((Storage("GLB", ("A", "D")), M, N, S), r"PM403 nodes\[0\] .*'D'.*\n.*Known: C, A, B"),
        ((Storage("GLB", ("A",)), M, Storage("GLB", ("A",)), N, S), r"PM404 .*\[2\] stores A in 'GLB', where "),
        ((Storage("GLB", ("A", "A")), M, N, S), r"PM404 nodes\[0\] stores A in 'GLB', where it does"),
        ((Storage("RF", ("A",)), M, Storage("GLB", ("A",)), N, S), r"PM405 .* A in 'GLB' below its node in 'RF'"),
        ((Temporal("q", 1), M, N, S), r"PM406 nodes\[0\] names the dim 'q'"),
        ((Temporal("m", 0), M, N, S), r"PM407 nodes\[0\] has the tile 0"),
        ((Temporal("m", True), M, N, S), r"PM407 nodes\[0\] has the tile true"),
        ((Spatial("m", 1, "Y"), N, S), r"PM408 nodes\[0\] names the fan-out 'Y'"),
        ((Storage("RF", ("C",)), Spatial("m", 1, "X"), N, S), r"PM409 nodes\[1\] spreads m over 'X' below nodes\[0\]"),
        ((M, N, Compute("T")), r"PM410 nodes\[2\] names the statement 'T'"),
        ((M, N, Branch(((S,), (S,)))), r"PM411 .*\.branch\[1\]\[0\] computes S, which .*branch\[0\]\[0\]"),
        ((M, S), r"PM412 the way to nodes\[1\] \(S\) has no loop over it: n has 2 indices"),
        ((Temporal("m", 3), N, S), r"PM412 .* leaves it at tile 3: m has 4"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_message(tree: tuple[MappingNode, ...], message: str) -> None:
    assert re.search(message, problems(*tree))


def test_all_mistakes_are_told_at_once() -> None:
    text = problems(Storage("L9", ("A", "Z")), Temporal("q", 0), Spatial("m", 1, "Q"), Compute("T"))
    codes = [line[:5] for line in text.splitlines() if line.startswith("PM")]
    assert codes == ["PM402", "PM403", "PM406", "PM407", "PM408", "PM410", "PM411"]


def test_a_loop_that_no_statement_below_has_is_a_mistake() -> None:
    workload = replace(GEMM, dims=(*GEMM.dims, replace(GEMM.dims[0], name="z")))
    tree = Mapping((Temporal("z", 1), M, N, S))
    with pytest.raises(MappingError, match=r"PM414 nodes\[0\] loops over z, which no statement below it has"):
        check_mapping(workload, ARCH, tree)


def test_the_machine_may_name_only_the_workloads_tensors_but_any_role() -> None:
    check_machine(einsum("C[m] = A[m]", m=2), ARCH)  # it has no weight
    odd = replace(ARCH, nodes=(*LEVELS[:3], MemoryLevel("RF", must_hold=("@weight", "D"), holds=("Bb",)), LEVELS[4]))
    with pytest.raises(ArchError, match=r"PM390 holds of the level 'RF' names 'Bb'.*\n.*\nPM390 must_hold .* 'D'"):
        check_mapping(GEMM, odd, Mapping((M, N, S)))


def kinds(arch: Architecture, *nodes: MappingNode) -> list[tuple[str, str]]:
    check_mapping(GEMM, arch, Mapping(nodes))
    return [(found.kind, found.message) for found in placement_violations(GEMM, arch, Mapping(nodes))]


def test_a_legal_tree_breaks_nothing() -> None:
    assert kinds(ARCH, Spatial("m", 1, "X"), Storage("RF", ("A", "C")), N, S) == []


def test_fan_outs_have_a_size() -> None:
    # 2 x 2 x 2 = 8 iterations on 4 instances; a partial last tile counts as a whole one: ceil(4/3) = 2.
    tree = (Spatial("m", 3, "X"), Spatial("m", 2, "X"), Spatial("m", 1, "X"), N, S)
    (violation,) = placement_violations(GEMM, ARCH, Mapping((*tree[:3], Spatial("n", 1, "X"), S)))
    assert violation.kind == "fanout"
    assert violation.witness == (("fanout", "X"), ("needed", 16), ("size", 4))
    assert kinds(ARCH, *tree) == [
        ("fanout", "the spatial loops over the fan-out 'X' have 8 iterations side by side; it has 4")
    ]


def test_fan_outs_may_take_only_their_dims() -> None:
    arch = replace(ARCH, nodes=(*LEVELS[:2], Fanout("X", 4, dims=("n",)), *LEVELS[3:]))
    found = kinds(arch, Spatial("m", 1, "X"), N, S)
    assert found == [("fanout", "m is spread over the fan-out 'X', where only n may be")]
    # One iteration spreads nothing.
    assert kinds(arch, Spatial("m", 4, "X"), M, N, S) == []


def test_levels_hold_what_they_may() -> None:
    found = kinds(ARCH, Storage("RF", ("A", "B", "C")), M, N, S)
    assert found == [("placement", "B is stored in 'RF', which may hold only @output, A")]


def test_levels_hold_what_they_must() -> None:
    arch = replace(ARCH, nodes=(LEVELS[0], MemoryLevel("GLB", must_hold=("@weight", "C")), *LEVELS[2:]))
    found = kinds(arch, Storage("GLB", ("A", "C")), M, N, S)
    assert found == [("placement", "B is not stored in 'GLB', which must hold @weight, C")]
    assert kinds(arch, Storage("GLB", ("B",)), M, Storage("GLB", ("C",)), N, S) == []
