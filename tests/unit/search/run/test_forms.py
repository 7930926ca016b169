"""Nests in the form in which they are asked: equal optima, and mappings that cost as much."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import prod
from random import Random

import pytest

import polymap as pm
from polymap.costmodel import evaluate
from polymap.ir import Architecture, Mapping, Workload
from polymap.search.dividing import solve
from polymap.search.forms import form_of, with_less_room
from polymap.search.problem import AtLeast, Held, Objective, Rules, analyse, measure_of, objective_values, parse_single
from polymap.search.relatives import Relative


def one_array(rng: Random) -> Architecture:
    nodes = [
        {"level": "DRAM", "word_bits": 8, "read_pj": rng.randint(20, 99), "write_pj": rng.randint(20, 99)},
        {"level": "GLB", "word_bits": 8, "capacity_bits": 8 * rng.randint(3, 200), "read_pj": 5, "write_pj": 7},
        {"fanout": "PE", "size": rng.choice((2, 4, 6)), "multicast": rng.choice(("none", "identical"))},
        {"level": "RF", "word_bits": 8, "capacity_bits": 8 * rng.randint(3, 12), "read_pj": 1, "write_pj": 1},
        {"compute": "MAC", "pj": 1},
    ]
    return pm.io.arch_from_document({"name": "small", "nodes": nodes})


TEXTS = (
    "Q[h,m,e] += X[m,d] * W[h,d,e]",
    "S[h,m,n] += Q[h,m,e] * K[h,n,e]",
    "C[b,h,m] += P[b,h,m,n] * V[h,n]",
    "M[h,m] max= S[h,m,n]",
    "Z[h,m,e] += C[h,m,e] * L[h,m]",
    "Y[n,m] += A[k,m] * B[n,k]",
    "T[a,b,c] += U[a,b,c]",
    "Y[k,m] += A[d,2*m+e] * W[d,k,e]",
    "Y[m,k] += A[m+e+1,d] * W[k,d,e]",
)


def nest(rng: Random) -> Workload:
    text = rng.choice(TEXTS)
    names = {name for name in text if name.islower()} - set("max")
    names |= {name for name in "abm" if f"{name}," in text or f"{name}]" in text}
    return pm.einsum(text, sizes={name: rng.choice((1, 2, 3, 4, 6)) for name in sorted(names)}, bits=8)


def asked(relative: Relative, goal: Objective) -> tuple[Fraction, Mapping] | None:
    """Return the least value over dividing tiles, and a mapping that has it; None where there is none."""
    workload, arch = relative.workload, relative.arch
    problem, measure = analyse(workload, arch, relative.rules), measure_of(goal, workload, arch)
    outcome = solve(problem, measure, lambda: False, lambda *_: None)
    assert outcome.left == (), "small nests are searched to the end"
    return (measure.unscaled(outcome.found[0][0]), outcome.found[0][1].mapping) if outcome.found else None


def given(rng: Random, workload: Workload) -> Rules:
    """Return the rules that all of some tensor stands in GLB, or none."""
    tensor = rng.choice(workload.tensors)
    both = Held("GLB", tensor.name, must=True), AtLeast("GLB", tensor.name, prod(tensor.shape))
    return both if rng.random() < 0.5 else ()


@pytest.mark.parametrize("seed", range(60))
def test_a_form_costs_at_least_what_its_nest_costs_and_its_mapping_costs_as_much(seed: int) -> None:
    rng = Random(seed)
    workload, arch = nest(rng), one_array(rng)
    objective = rng.choice(("energy", "latency", "traffic:DRAM", "traffic:GLB"))
    goal, apart = parse_single(objective, arch), [name for name in workload.extents() if rng.random() < 0.2]
    relative = Relative(workload, arch, given(rng, workload))
    form = form_of(relative, goal, apart, divides=True)
    alone = asked(relative, goal)
    found = None if form is None else asked(form.relative, goal)
    if alone is None:
        assert found is None, "no room for one is none for the other"
        return
    assert form is not None, "room for one is room for the other"
    assert found is not None, "as many mappings meet the rules"
    assert form.times * found[0] == alone[0], f"{workload.name} {objective}: {form.times} times {found[0]}"
    cost = evaluate(workload, arch, Mapping(form.own_nodes(found[1])))
    assert cost.legal, "its nodes are a mapping of the nest"
    assert objective_values(workload, arch, goal, cost)[0] == alone[0], "its nodes cost as much"
    nodes, beside = form.own_nodes_side_by_side(found[1], arch, (), ())
    several = evaluate(workload, arch, Mapping(nodes))
    assert several.legal, "its runs have room side by side"
    assert (several.traffic, several.energy_pj) == (cost.traffic, cost.energy_pj), "they move no more"
    assert several.compute_cycles * beside == cost.compute_cycles, "and take fewer steps"


def test_nests_that_differ_in_names_and_order_have_one_form() -> None:
    arch = pm.load_arch("tpu_v4i_like")
    sizes = {"h": 4, "e": 8, "m": 16, "d": 32}
    texts = "Q[h,m,e] += X[m,d] * W[h,d,e]", "K[h,m,e] += X[m,d] * WK[h,d,e]", "V[m,h,e] += Y[d,m] * W[d,e,h]"
    nests = [pm.einsum(text, sizes=sizes, bits=8) for text in texts]
    nests += [replace(each, tensors=each.tensors[::-1]) for each in nests]
    energy = parse_single("energy", arch)
    forms = [form_of(Relative(each, arch, ()), energy, (), divides=True) for each in nests]
    assert len({each.relative for each in forms if each is not None}) == 1, "what differs in names alone is asked once"


def test_a_level_that_others_fill_exactly_holds_nothing_else() -> None:
    arch = pm.load_arch("flat3")
    level = arch.levels[1]
    assert level.usable_bits is not None, "the buffer has a size"
    for fewer, may_hold in ((level.usable_bits - 8, True), (level.usable_bits, False)):
        left = with_less_room(arch, [(level.name, fewer)])
        assert left is not None, "a nest may do without a level"
        assert left.levels[1].may_hold(pm.matmul(m=2, n=2, k=2).tensors[0]) == may_hold, "of what is left"
    assert with_less_room(arch, [(level.name, level.usable_bits + 1)]) is None, "more than there is"
