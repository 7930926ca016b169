"""Families against the enumeration of every tree: no bound is above the best member, what is proven is the best."""

from __future__ import annotations

from fractions import Fraction

import pytest

from polymap.costmodel.dataflows import dataflow as dataflow_of
from polymap.costmodel.evaluation import evaluate
from polymap.explore import explore
from polymap.ir.errors import OptionError
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.networks.comparison import compare, dataflow, order
from polymap.workload.einsum_programs import program
from polymap.workload.einsums import einsum
from polymap.workload.layers import matmul
from tests.referee.all_trees import all_trees

_FAMILIES = ("weight-stationary", "output-stationary", "input-stationary", "row-stationary")


def machine(bits: int) -> Architecture:
    level = MemoryLevel("L", capacity_bits=bits, read_pj=Fraction(2), write_pj=Fraction(2))
    dram = MemoryLevel("DRAM", read_pj=Fraction(50), write_pj=Fraction(60))
    return Architecture("small", (dram, Fanout("X", 2), level, ComputeUnit("MAC", Fraction(1))))


@pytest.mark.slow
@pytest.mark.parametrize("bits", [24])
@pytest.mark.parametrize(
    "workload",
    [
        einsum("C[m] += A[m,k] * B[k]", sizes={"m": 4, "k": 2}),
        pytest.param(einsum("C[m,n] += A[m,k] * B[k,n]", sizes={"m": 2, "k": 2, "n": 2}), marks=pytest.mark.soak),
        einsum("O[p] += I[p+r] * W[r]", sizes={"p": 4, "r": 2}),
    ],
    ids=("vector", "product", "window"),
)
def test_families_are_those_of_the_enumeration(workload: object, bits: int) -> None:
    from polymap.ir.loopnest import Workload

    assert isinstance(workload, Workload)
    arch = machine(bits)
    best: dict[str, float] = {}
    for tree in all_trees(workload, arch, "divide", legal=True):
        cost = evaluate(workload, arch, tree)
        if cost.legal:
            for name in (dataflow_of(workload, arch, tree, cost).value, "optimum"):
                best[name] = min(best.get(name, cost.energy_pj), cost.energy_pj)
    found = compare(workload, arch, (*_FAMILIES, "optimum"), time_limit_s=4)
    for member in found.members:
        true = best.get(member.family)
        assert true is None or member.bound <= true
        assert true is None or member.status != "INFEASIBLE", member.family
        if member.value is not None:
            assert true is not None
            assert member.value >= true
            assert member.status != "OPTIMAL" or member.value == true
            assert member.mapping is not None
            assert member.cost is not None
            name = dataflow_of(workload, arch, member.mapping, member.cost).value
            assert member.family in (name, "optimum")
    assert found["row-stationary"].status == "INFEASIBLE", "no layer here has two windows"
    assert found["optimum"].value == best["optimum"]
    assert found["optimum"].status == "OPTIMAL"


def test_tables_hold_what_their_names_say() -> None:
    workload, arch = matmul(m=8, n=4, k=6), machine(256)
    for name in ("WS", "OS", "IS"):
        result = explore(workload, arch, tiles="divide", constraints=dataflow(name), time_limit_s=10)
        assert result.best is not None
    assert order("m r s, p q") == {"order": ["m", "r", "s", "p", "q"]}


@pytest.mark.parametrize("name", ["row-stationary", "weihgt-stationary"])
def test_a_dataflow_that_no_table_says_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match="no table says"):
        dataflow(name)


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(OptionError, match="there is no family 'best'") as told:
        compare(matmul(m=2, n=2, k=2), machine(64), ["best", "WS", "XS"])
    assert [each.what for each in told.value.mistakes[1:]] == ["there is no family 'XS'"]


def test_dataflows_of_several_statements_are_refused_and_their_optimum_is_not() -> None:
    both = program(["T[m] += A[m,k]", "E[m] = max(T[m], 0)"], m=4, k=2, temporary=["T"])
    with pytest.raises(OptionError, match="has 2 statements, but a dataflow is one statement's"):
        compare(both, machine(64))
    (member,) = compare(both, machine(64), ["optimum"], time_limit_s=2).members
    assert member.value is not None
    assert member.bound <= member.value
