"""Nests in the form in which they are asked: equal optima, and mappings that cost as much."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest

import polymap as pm
from polymap.costmodel import evaluate
from polymap.explore import search
from polymap.ir import Architecture, Mapping, Workload
from polymap.search.problem import objective_values, parse_single
from polymap.search.run.forms import form_of
from polymap.search.run.self_products import Relative


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
)


def nest(rng: Random) -> Workload:
    text = rng.choice(TEXTS)
    names = {name for name in text if name.islower()} - set("max")
    names |= {name for name in "abm" if f"{name}," in text or f"{name}]" in text}
    return pm.einsum(text, sizes={name: rng.choice((1, 2, 3, 4, 6)) for name in sorted(names)}, bits=8)


def value(workload: Workload, arch: Architecture, objective: str, mapping: Mapping) -> Fraction:
    cost = evaluate(workload, arch, mapping)
    assert cost.legal, "mappings of answers are legal"
    return objective_values(workload, arch, parse_single(objective, arch), cost)[0]


@pytest.mark.parametrize("seed", range(40))
def test_a_form_costs_at_least_what_its_nest_costs_and_its_mapping_costs_as_much(seed: int) -> None:
    rng = Random(seed)
    workload, arch = nest(rng), one_array(rng)
    objective = rng.choice(("energy", "latency", "traffic:DRAM", "traffic:GLB"))
    apart = [name for name in workload.extents() if rng.random() < 0.2]
    relative = Relative(workload, arch, ())
    form = form_of(relative, parse_single(objective, arch), apart, divides=True, given=False)
    alone = search(workload, arch, objective, "divide", time_limit_s=60)
    found = search(form.relative.workload, arch, objective, "divide", time_limit_s=60)
    assert alone.status == found.status == "OPTIMAL", "small nests are proven"
    assert alone.best is not None and found.best is not None, "proven answers have mappings"
    best = value(workload, arch, objective, alone.best)
    again = value(form.relative.workload, arch, objective, found.best)
    assert form.times * again == best, f"{workload.name} {objective}: {form.times} times {again}, alone {best}"
    assert value(workload, arch, objective, Mapping(form.own_nodes(found.best))) == best, "of its nodes"


def test_nests_that_differ_in_names_and_order_have_one_form() -> None:
    arch = pm.load_arch("tpu_v4i_like")
    sizes = {"h": 4, "e": 8, "m": 16, "d": 32}
    texts = "Q[h,m,e] += X[m,d] * W[h,d,e]", "K[h,m,e] += X[m,d] * WK[h,d,e]", "V[m,h,e] += Y[d,m] * W[d,e,h]"
    nests = [pm.einsum(text, sizes=sizes, bits=8) for text in texts]
    nests += [replace(each, tensors=each.tensors[::-1]) for each in nests]
    energy = parse_single("energy", arch)
    forms = {form_of(Relative(each, arch, ()), energy, (), divides=True, given=False).relative for each in nests}
    assert len(forms) == 1, "what differs in names alone is asked once"
