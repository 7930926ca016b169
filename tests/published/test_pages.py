"""Worked examples of docs/counting.md, closed_form.md, latency.md and certificate.md are what the code counts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import polymap as pm

DOCS = Path(__file__).parents[2] / "docs"
TWO = [{"level": "DRAM"}, {"level": "L1", "capacity_words": 64}, {"compute": "MAC"}]
ARRAY = [
    TWO[0],
    {"fanout": "X", "size": 4},
    {"fanout": "Y", "size": 3},
    {**TWO[1], "bandwidth_bits_per_cycle": 8},
    TWO[2],
]
S = {"compute": "S"}
FIGURES = ("reads", "writes", "fills", "drains")


def loop(dim: str, tile: int = 1) -> dict[str, object]:
    return {"for": dim, "tile": tile}


def held(*tensors: str) -> dict[str, object]:
    return {"store": "L1", "tensors": list(tensors)}


def over(dim: str, fanout: str) -> dict[str, object]:
    return {"par": dim, "tile": 1, "over": fanout}


WINDOW = "O[k,p] += I[p+r] * W[k,r]", [loop("k"), loop("p", 2), held("I", "W"), loop("p"), loop("r"), S]
SUMS = "C[m,n] += A[m,k] * B[k,n]", [loop("k", 2), loop("n"), held("C"), loop("k"), S]
SHARES = (
    "O[b,p+r] += I[b,p,c] * W[c,r]",
    [loop("c"), loop("b"), over("p", "X"), held("O"), loop("r"), S],
)
PRODUCT = "C[m,n] += A[m,k] * B[k,n]", [loop("n", 2), held("C"), loop("k"), held("A"), loop("m"), loop("n"), S]
DIAGONAL = "O[p] += I[p+r] * W[r]", [over("p", "X"), over("r", "Y"), held("I"), S]
BACK = "S[i] += A[i,r] * B[r]", [loop("r", 6), loop("r", 4), loop("r", 3), over("r", "Y"), held("S"), S]

CASES = [
    pytest.param(TWO, *WINDOW, {"k": 2, "p": 4, "r": 3}, {"L1 I fills": 10, "L1 W fills": 6}, id="window"),
    pytest.param(TWO, *WINDOW, {"k": 2, "p": 5, "r": 3}, {"L1 I fills": 14}, id="window-with-a-rest"),
    pytest.param(ARRAY, *DIAGONAL, {"p": 4, "r": 3}, {"DRAM I reads": 6, "L1 I fills": 12}, id="messages"),
    pytest.param(
        TWO,
        *SUMS,
        {"m": 1, "n": 2, "k": 4},
        {"L1 C reads": 10, "L1 C writes": 10, "L1 C fills": 2, "L1 C drains": 4, "DRAM C reads": 2, "DRAM C writes": 4},
        id="partial-sums",
    ),
    pytest.param(ARRAY, *BACK, {"i": 1, "r": 9}, {"L1 S fills": 1}, id="entries-that-find-nothing"),
    pytest.param(ARRAY, *SHARES, {"b": 2, "p": 2, "r": 2, "c": 2}, {"L1 O fills": 6}, id="shares"),
    pytest.param(
        TWO,
        *PRODUCT,
        {"m": 4, "n": 4, "k": 4},
        {"DRAM C writes": 16, "DRAM C reads": 0, "DRAM A reads": 32, "DRAM B reads": 64}
        | {"L1 C reads": 64, "L1 C writes": 64, "L1 C drains": 16, "L1 A reads": 64, "L1 A writes": 32},
        id="product",
    ),
]


@pytest.mark.parametrize("nodes, text, tree, sizes, expected", CASES)
def test_the_examples_of_counting_are_counted_so(
    nodes: list[dict[str, object]], text: str, tree: object, sizes: dict[str, int], expected: dict[str, int]
) -> None:
    arch = pm.io.arch_from_document({"name": "example", "nodes": nodes})
    workload, mapping = pm.einsum(text, sizes=sizes), pm.io.mapping_from_document({"nodes": tree})
    cost = pm.evaluate(workload, arch, mapping)
    assert cost.traffic == pm.simulate(workload, arch, mapping).traffic
    found = {f"{row.level} {row.tensor} {each}": getattr(row, each) for row in cost.traffic for each in FIGURES}
    assert {name: found[name] for name in expected} == expected


def test_the_first_sibling_takes_two_of_three_sums() -> None:
    text, tree = SHARES
    arch = pm.io.arch_from_document({"name": "example", "nodes": ARRAY})
    cost = pm.evaluate(pm.einsum(text, b=2, p=2, r=2, c=2), arch, pm.io.mapping_from_document({"nodes": tree}))
    assert cost.latency_cycles == 8 + 8 + 2 * 4  # sums added: read and written; 4 fills written, 4 of its drains read


def test_the_steps_of_the_example_take_as_many_cycles() -> None:
    nodes = [
        {"level": "DRAM", "bandwidth_bits_per_cycle": 8, "beat_bits": 8},
        {"level": "Buf", "capacity_words": 64, "buffering": 2},
        {"compute": "MAC"},
    ]
    tree = [
        {"store": "Buf", "tensors": ["W"]},
        loop("m"),
        {"store": "Buf", "tensors": ["I", "O"]},
        loop("n"),
        loop("k"),
        S,
    ]
    layer = pm.einsum("O[m,n] += I[m,k] * W[k,n]", m=4, n=3, k=2)
    arch = pm.io.arch_from_document({"name": "timed", "nodes": nodes})
    assert pm.evaluate(layer, arch, pm.io.mapping_from_document({"nodes": tree})).latency_cycles == 35


def test_the_certificate_of_the_example_is_the_one_printed() -> None:
    nodes = [
        {"level": "DRAM", "read_pj": 100, "write_pj": 100},
        {"fanout": "X", "size": 2},
        {"level": "RF", "capacity_words": 64, "read_pj": 1, "write_pj": 1},
        {"compute": "MAC", "pj": 1},
    ]
    arch = pm.io.arch_from_document({"name": "example", "nodes": nodes})
    text = pm.explore(pm.matmul(m=8, n=8, k=4), arch, tiles="divide").certificate()
    page = (DOCS / "certificate.md").read_text(encoding="utf-8")
    printed = re.search(r"(    value 14144\n(?:    .*\n)+)", page)
    assert printed is not None, "the page has no example"
    lines = [line.strip() for line in printed[1].splitlines()]
    assert [line for line in text.splitlines() if line in lines] == lines
