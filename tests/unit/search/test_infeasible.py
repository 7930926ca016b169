"""Requirements that clash: none can be left out of what is named, and what is proposed helps."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from fractions import Fraction

import pytest

from polymap.costmodel.footprint import bits_at_once
from polymap.costmodel.referees.trees import exhaustive
from polymap.explore import explore
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.search.problem.word_clashes import clashes
from polymap.workload.einsums import einsum
from tests.case_workloads import general_workload
from tests.nests import instances, touched


def gemm(bits: int | dict[str, int] = 8) -> Workload:
    return einsum("C[m,n] += A[m,k] * B[k,n]", m=2, n=2, k=2, bits=bits)


def machine(*levels: MemoryLevel) -> Architecture:
    return Architecture("small", (MemoryLevel("DRAM", read_pj=Fraction(9)), *levels, ComputeUnit("MAC")))


ALL = ("A", "B", "C")
CASES = {
    "three of one size": (gemm(), machine(MemoryLevel("RF", 16, must_hold=ALL))),
    "by role": (gemm(), machine(MemoryLevel("RF", 16, must_hold=("@input", "@weight", "@output")))),
    "one is enough": (gemm({"A": 32, "B": 8, "C": 8}), machine(MemoryLevel("RF", 31, must_hold=ALL))),
    "two of three": (gemm({"A": 8, "B": 16, "C": 16}), machine(MemoryLevel("RF", 24, must_hold=ALL))),
    "double buffering": (gemm(), machine(MemoryLevel("RF", 31, must_hold=("A", "B"), buffering=2))),
    "inner level": (gemm(), machine(MemoryLevel("GLB", 64, must_hold=ALL), MemoryLevel("RF", 8, must_hold=("C", "B")))),
    "may not hold": (gemm(), machine(MemoryLevel("RF", 64, holds=("A", "B"), must_hold=("C",)))),
    "may hold nothing": (gemm(), machine(MemoryLevel("RF", 64, holds=(), must_hold=("@weight",)))),
}


def feasible(workload: Workload, arch: Architecture) -> bool:
    """Return whether some mapping meets all requirements, found by listing all of them."""
    truth = exhaustive(workload, arch, "energy", "divide")
    assert truth is not None
    return truth.value is not None


def changed(arch: Architecture, name: str, **fields: object) -> Architecture:
    nodes = tuple(replace(node, **fields) if node.name == name else node for node in arch.nodes)  # type: ignore[arg-type]
    return replace(arch, nodes=nodes)


def without(workload: Workload, arch: Architecture, requirement: str) -> Architecture:
    """Return the machine without one requirement of the clash, or with the change that its sentence proposes."""
    if found := re.fullmatch(r"(\w+) must hold (\w+) \(must_hold\)", requirement):
        level = next(level for level in arch.levels if level.name == found[1])
        named = {f"@{tensor.role.value}": tensor.name for tensor in workload.tensors}
        kept = tuple(name for name in level.must_hold if named.get(name, name) != found[2])
        assert len(kept) == len(level.must_hold) - 1
        return changed(arch, found[1], must_hold=kept)
    if found := re.match(r"(\w+) has capacity_bits \d+, .*= (\d+) bits; (\d+) would be enough", requirement):
        assert int(found[2]) <= int(found[3])
        return changed(arch, found[1], capacity_bits=int(found[3]))
    if found := re.match(r"(\w+) may not hold (\w+) .*; add \2 to its holds", requirement):
        level = next(level for level in arch.levels if level.name == found[1])
        return changed(arch, found[1], holds=(*(level.holds or ()), found[2]))
    raise AssertionError(f"unknown sentence: {requirement}")


@pytest.mark.parametrize("name", CASES)
def test_leaving_out_any_requirement_of_a_clash_resolves_it(name: str) -> None:
    workload, arch = CASES[name]
    found = clashes(workload, arch)
    assert found
    assert not feasible(workload, arch)
    for requirement in found:
        # Other requirements of the machine, outside the clash, may hold on: none of these cases has two clashes.
        assert feasible(workload, without(workload, arch, requirement)), requirement


@pytest.mark.parametrize("name", ["three of one size", "one is enough", "two of three", "double buffering"])
def test_one_bit_less_than_proposed_does_not_help(name: str) -> None:
    workload, arch = CASES[name]
    relaxed = without(workload, arch, clashes(workload, arch)[-1])
    enough = relaxed.levels[-1].capacity_bits
    assert enough is not None
    assert clashes(workload, changed(arch, "RF", capacity_bits=enough - 1))


def test_sets_of_the_smallest_size_are_named() -> None:
    assert [len(clashes(*CASES[name])) for name in ("three of one size", "one is enough", "two of three")] == [4, 2, 3]


@pytest.mark.parametrize("name", CASES)
def test_the_search_answers_with_the_clash(name: str) -> None:
    workload, arch = CASES[name]
    result = explore(workload, arch)
    assert (result.status, result.best, result.value) == ("INFEASIBLE", None, None)
    assert result.clash == clashes(workload, arch)


def test_what_fits_exactly_is_no_clash() -> None:
    arch = machine(MemoryLevel("RF", 24, must_hold=ALL))
    assert clashes(gemm(), arch) == ()
    assert feasible(gemm(), arch)


def test_fanouts_do_not_change_a_clash() -> None:
    arch = machine(MemoryLevel("RF", 16, must_hold=ALL))
    spread = replace(arch, nodes=(arch.nodes[0], Fanout("X", 4), *arch.nodes[1:]))
    assert clashes(gemm(), spread) == clashes(gemm(), arch)


@pytest.mark.parametrize(("extent", "least"), [(1, 8), (3, 16)])
def test_all_elements_that_an_instance_touches_have_room_or_there_is_no_mapping(extent: int, least: int) -> None:
    workload = einsum("S[i] += A[i,j] * A[j,i]", i=extent, j=extent)
    for bits in (8, 15, 16):
        found = explore(workload, machine(MemoryLevel("RF", bits, must_hold=("A",))), time_limit_s=20)
        assert (found.status == "INFEASIBLE") == (bits < least)
        assert (found.best is None) == (bits < least)
        if bits < least:
            assert "16 would be enough" in found.clash[-1]


def test_the_most_that_an_instance_touches_is_found_among_all_instances() -> None:
    rng = random.Random(1)
    met = 0
    for _ in range(80):
        workload = general_workload(rng)
        tensors = rng.sample(workload.tensors, rng.randint(1, len(workload.tensors)))
        bits = {tensor.name: tensor.bits for tensor in tensors}
        most = 0
        for statement, point in instances(workload):
            elements = {element for element, _, _ in touched(statement, point) if element[0] in bits}
            most = max(most, sum(bits[name] for name, _ in elements))
            met += len(elements) < sum(access.tensor in bits for access in (statement.target, *statement.reads))
        assert bits_at_once(workload, frozenset(bits)) == most, workload
    assert met > 50


def test_a_user_who_demands_and_forbids_is_told_in_the_users_words() -> None:
    arch = machine(MemoryLevel("RF", 16, must_hold=("C",)))
    found = explore(gemm(), arch, tiles="divide", constraints={"store": {"RF": {"never": ["C"]}}})
    assert found.clash == ("RF must hold C (must_hold)", "RF does not hold C (store)")
    found = explore(gemm(), arch, tiles="divide", constraints={"store": {"RF": {"must": ["A", "B"]}}})
    assert set(found.clash[:3]) == {"RF holds A (store)", "RF holds B (store)", "RF must hold C (must_hold)"}
    assert found.clash[3].startswith("RF has capacity_bits 16, and one element each needs C 8 + A 8 + B 8 = 24 bits")
