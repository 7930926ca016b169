"""Families against the enumeration of every tree: no bound is above the best member, what is proven is the best."""

from __future__ import annotations

from fractions import Fraction

import pytest

from polymap.costmodel.dataflows import dataflow as dataflow_of
from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.referees.trees import exhaustive, scored_trees
from polymap.explore import explore
from polymap.inputs.presets import load_arch
from polymap.ir import Workload
from polymap.ir.errors import OptionError
from polymap.ir.machine import Architecture, ComputeUnit, Fanout, MemoryLevel
from polymap.ir.mapping import Mapping
from polymap.networks.comparison import compare, dataflow, order
from polymap.networks.exploration import explore_network
from polymap.search.problem import Held, rules_from_document
from polymap.search.trees.samples import Sample, sample_mappings
from polymap.workload.c import from_c
from polymap.workload.einsum_programs import program
from polymap.workload.einsums import einsum
from polymap.workload.layers import conv2d, matmul
from tests.referee.all_trees import all_trees
from tests.referee.demands import Table, meets

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


@pytest.mark.slow
def test_rows_are_what_the_table_says_in_its_own_words_and_their_trees_have_the_name() -> None:
    workload, arch = einsum("O[p,q] += I[p+r,q+s] * W[r,s]", sizes={"p": 1, "q": 2, "r": 2, "s": 2}), machine(96)
    kept: Table = {"must": ["O", "I", "W"]}
    words: Table = {"store": {"L": kept}, "fanouts": {"X": {"require": ["r"]}}, "intrinsic": {"s": 2}}
    outside: Table = {"order": [["r", "q"], ["r", "s"]]}
    both = rules_from_document({**words, **outside}, workload, arch)
    assert set(rules_from_document(dataflow("RS"), workload, arch)) == set(both)
    found = explore(workload, arch, tiles="divide", constraints=dataflow("row-stationary"), time_limit_s=60)

    def is_meant(tree: Mapping) -> bool:
        asked: list[Table] = [words, {"order": ["r", "q"]}, {"order": ["r", "s"]}]
        return all(meets(each, workload, arch, tree, 0) for each in asked)

    for tree in scored_trees(workload, arch, "energy", "divide", every=1):
        if tree.fits and is_meant(tree.mapping):
            cost = evaluate(workload, arch, tree.mapping)
            assert dataflow_of(workload, arch, tree.mapping, cost).value == "row-stationary"
    true = exhaustive(workload, arch, "energy", "divide", meets=is_meant)
    assert true is not None
    assert true.value is not None
    assert (found.status, found.value) == ("OPTIMAL", float(true.value))


@pytest.mark.parametrize(
    ("name", "arch", "told"),
    [
        ("RS", "tpu_like", "no level of 'tpu_like' below all fan-outs may hold O"),
        ("WS", "eyeriss_like", ""),
        ("IS", "simba_like", "no level of 'simba_like' below all fan-outs may hold I"),
    ],
)
def test_an_operand_stays_in_the_private_level_that_may_hold_it(name: str, arch: str, told: str) -> None:
    layer = conv2d(K=2, C=2, H=4, W=4, R=3, S=3)
    if told:
        with pytest.raises(OptionError, match=f"PM546.*{told}"):
            explore(layer, arch, constraints=dataflow(name))
    else:
        assert Held("WRF", "W", must=True) in rules_from_document(dataflow(name), layer, load_arch(arch))


def test_a_dataflow_that_no_table_says_is_refused() -> None:
    with pytest.raises(OptionError, match="no table says 'weihgt-stationary'\n.*Did you mean 'weight-stationary'"):
        dataflow("weihgt-stationary")


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(OptionError, match="there is no family 'best'") as told:
        compare(matmul(m=2, n=2, k=2), machine(64), ["best", "WS", "XS"])
    assert [each.what for each in told.value.mistakes[1:]] == ["there is no family 'XS'"]


def test_all_mistakes_of_a_question_are_told_at_once() -> None:
    with pytest.raises(OptionError) as told:
        compare(matmul(m=2, n=2, k=2), machine(64), ["XS"], "enrgy", time_limit_s=-1)
    assert [each.code for each in told.value.mistakes] == ["PM504", "PM528", "PM501"]
    with pytest.raises(OptionError) as told:
        explore_network("resnet50", machine(64), "enrgy", time_limit_s=-1, seed=-1)
    assert [each.code for each in told.value.mistakes] == ["PM501", "PM504", "PM506"]


def test_a_family_is_not_looked_for_any_more_when_samples_bring_nothing_new(monkeypatch: pytest.MonkeyPatch) -> None:
    draws: list[int] = []

    def drawn(workload: Workload, arch: Architecture, n: int, seed: int, *, within_capacity: bool) -> Sample:
        draws.append(seed)
        assert len(draws) < 5
        return sample_mappings(workload, arch, n // 20, seed, within_capacity=within_capacity)

    monkeypatch.setattr("polymap.networks.comparison.sample_mappings", drawn)
    found = compare(from_c("void f(int A[4]) { for (int i = 0; i < 4; i++) A[i] = 1; }"), machine(64), ["OS"])
    assert (found["OS"].status, draws[0]) == ("TIMEOUT", 0)


def test_dataflows_of_several_statements_are_refused_and_their_optimum_is_not() -> None:
    both = program(["T[m] += A[m,k]", "E[m] = max(T[m], 0)"], m=4, k=2, temporary=["T"])
    with pytest.raises(OptionError, match="has 2 statements, but a dataflow is one statement's"):
        compare(both, machine(64))
    (member,) = compare(both, machine(64), ["optimum"], time_limit_s=2).members
    assert member.value is not None
    assert member.bound <= member.value
