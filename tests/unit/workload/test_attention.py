"""Attention as a program: values beside numpy, its form beside `pm.program`, what the search finds of it, messages."""

from __future__ import annotations

from time import process_time

import numpy as np
import pytest

import polymap as pm
from polymap.explore import search
from polymap.search.chains import Segment
from polymap.workload.joining import join_nests, links_by_name, why_apart

TEXTS = [
    "S[h,q,k] += Q[h,q,e] * K[h,k,e]",
    "M[h,q] max= S[h,q,k]",
    "E[h,q,k] = exp(S[h,q,k] - M[h,q])",
    "D[h,q] += E[h,q,k]",
    "P[h,q,k] = E[h,q,k] / D[h,q]",
    "O[h,q,d] += P[h,q,k] * V[h,k,d]",
]
SIZES = {"heads": 4, "queries": 5, "keys": 6, "dim": 3, "value_dim": 7}


def by_numpy(q: np.ndarray, k: np.ndarray, v: np.ndarray, softmax: bool) -> np.ndarray:
    scores = np.einsum("...qe,...ke->...qk", q.astype(np.float64), k)
    if softmax:
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
    return scores @ v


FORMS = [
    {},
    {"softmax": "none"},
    {"softmax": "blocks", "blocks": 3},
    {"softmax": "blocks", "blocks": 1},
    {"batch": 2, "kv_heads": 2},
    {"kv_heads": 1, "softmax": "blocks", "blocks": 2, "batch": 2},
    {"heads": 1, "queries": 1, "keys": 1, "dim": 1, "value_dim": 1},
]


@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
def test_values_equal_numpy(form: dict[str, int | str]) -> None:
    work = pm.attention(**(SIZES | form), types="float32")  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal(work.tensor(name).shape).astype(np.float32) for name in "QKV")
    found = pm.compile(work, "host_cpu")(q, k, v)
    if form.get("softmax") == "blocks":  # blocks of keys are keys
        k, v = (each.reshape(*each.shape[:-3], -1, each.shape[-1]) for each in (k, v))
    if "kv_heads" in form:
        k, v = (np.expand_dims(each, -3) for each in (k, v))
    np.testing.assert_allclose(found, by_numpy(q, k, v, form.get("softmax") != "none"), rtol=2e-5, atol=2e-6)


def test_it_is_the_program_that_people_would_write() -> None:
    work = pm.attention(**SIZES, types="float32")  # type: ignore[arg-type]
    roles = {"Q": "input", "K": "weight", "V": "weight"}
    sizes = {"h": 4, "q": 5, "k": 6, "e": 3, "d": 7}
    written = pm.program(TEXTS, sizes=sizes, types="float32", temporary=list("SMEDP"), roles=roles)
    assert work.dims == written.dims
    assert work.tensors == written.tensors
    same = [own == other for own, other in zip(work.statements, written.statements, strict=True)]
    assert same == [True, True, False, True, True, True]  # C's exp is of doubles


def test_neighbours_can_share_loops_over_heads_and_queries() -> None:
    segment = Segment.of(pm.attention(**SIZES, bits=8))  # type: ignore[arg-type]
    assert segment is not None
    assert set(segment.interface.shared) == {"h", "q"}
    assert set(segment.interface.kept) == set("SMEDP")


def test_nothing_between_reaches_the_outermost_level_where_it_fits() -> None:
    work = pm.attention(heads=1, queries=8, keys=8, dim=4, bits=8)
    machine = {"nodes": [{"level": "DRAM"}, {"level": "Buf", "capacity_bits": 8 * 120}, {"compute": "PE"}]}
    arch = pm.io.arch_from_document({"name": "one", **machine})
    found = search(work, arch, "traffic:DRAM", time_limit_s=20, clock=process_time)
    assert (found.value, found.status) == (8 * 4 * 8 * 4, "OPTIMAL")  # Q, K, V read once, O written once
    assert found.seconds < 15, "what attains the floor ends the search"


def test_equal_names_are_linked_and_others_renamed() -> None:
    first, second = pm.matmul(m=4, n=4, k=4), pm.matmul(m=4, n=8, k=4)
    links = links_by_name([pm.einsum("T[m,k] += X[m,k]", m=4, k=2), pm.einsum("Y[k,m] += T[k,m]", k=4, m=2)])
    assert [tuple(each) for each in links] == [(0, 1, "T")]
    joined = join_nests([first, second], [type(links[0])(0, 1, "A")], "two")
    assert [str(each) for each in pm.dependences(joined)] != []
    assert joined.extents() == {"m": 4, "n": 4, "k": 4, "n_2": 8}
    assert [each.name for each in joined.tensors if each.temporary] == ["C"]
    assert [each.name for each in joined.tensors] == ["C", "A", "B", "C_2", "B_2"]


def test_what_cannot_be_joined_says_why() -> None:
    product = pm.matmul(m=4, n=4, k=4)
    assert why_apart(product, pm.matmul(m=4, n=4, k=5), "A") == (
        "is written in 4x4 and read in 4x5: with padding around it, or other axes"
    )
    assert why_apart(product, pm.einsum("O[m] += A[m]", m=4), "A") == (
        "has 4x4 elements where it is written and 4 where it is read"
    )
    assert why_apart(product, pm.matmul(m=4, n=4, k=4, bits=16), "A") == "is written in 8 bits and read in 16 bits"
    assert "adds to what" in why_apart(pm.matmul(m=4, n=4, k=4, initial=["C"]), product, "A")


MISTAKES = [
    ({"softmax": "online"}, "PM219 softmax is 'online'\n.*softmax='blocks' with blocks=N"),
    ({"softmax": "pases"}, "PM219 softmax is 'pases'\n.*Did you mean 'passes'"),
    ({"softmax": "blocks"}, "PM221 softmax='blocks' lacks blocks"),
    ({"softmax": "blocks", "blocks": 4}, "PM225 blocks=4 does not divide keys=6"),
    ({"blocks": 3}, "PM219 blocks is given with softmax='passes'"),
    ({"kv_heads": 3}, "PM225 kv_heads=3 does not divide heads=4"),
    ({"keys": 0}, "PM222 keys is 0"),
    ({"temporary": ["Q"]}, "PM214 temporary lists Q, which is only read"),
    ({"temporary": ["R"]}, "PM213 temporary names 'R'"),
    ({"associative": 1}, "PM112 associative is 1"),
    ({"name": 3}, "PM115"),
    ({"bits": {"R": 8}}, "PM213 bits names 'R'"),
]


@pytest.mark.parametrize("change, message", MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_are_told_with_what_would_work(change: dict[str, object], message: str) -> None:
    with pytest.raises(pm.errors.WorkloadError, match=message):
        pm.attention(**(SIZES | change))  # type: ignore[arg-type]
