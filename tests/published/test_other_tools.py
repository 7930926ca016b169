"""docs/other_tools.md: our numbers, the enumeration, and what the other tools' rules give, each recomputed.

The rules are those of the document; "measured" numbers came out of AccelForge 1.0.467 and cannot be recomputed here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

import polymap as pm
from polymap.costmodel.cost import Cost
from polymap.ir.loopnest import Workload
from polymap.ir.mapping import Compute, Mapping, MappingNode, Spatial, Storage, Temporal

PAGE = Path(__file__).parents[2] / "docs" / "other_tools.md"


@dataclass(frozen=True, slots=True)
class Row:
    ours: int
    enumeration: int
    tool: str
    there: int


def rows() -> dict[str, Row]:
    found: dict[str, Row] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 6 and cells[2].isdigit():
            found[cells[0]] = Row(int(cells[2]), int(cells[3]), cells[4], int(cells[5]))
    return found


BUFFER = pm.Architecture("one buffer", (pm.MemoryLevel("DRAM"), pm.MemoryLevel("Buf"), pm.ComputeUnit("MAC")))
ARRAY = pm.Architecture(
    "array",
    (
        pm.MemoryLevel("DRAM"),
        pm.Fanout("X", 4),
        pm.Fanout("Y", 3),
        pm.MemoryLevel("RF"),
        pm.ComputeUnit("MAC"),
    ),
)


@dataclass(frozen=True, slots=True)
class Question:
    """A mapping, and the figure of its cost that a row tells."""

    workload: Workload
    arch: pm.Architecture
    mapping: Mapping
    figure: Callable[[Cost], int]


def tree(*nodes: MappingNode, statement: str = "S") -> Mapping:
    return Mapping((*nodes, Compute(statement)))


def traffic(level: str, tensor: str, what: str) -> Callable[[Cost], int]:
    def figure(cost: Cost) -> int:
        (row,) = (row for row in cost.traffic if (row.level, row.tensor) == (level, tensor))
        return int(getattr(row, what))

    return figure


def whole(text: str, tensor: str, **sizes: int) -> Question:
    """Return the words of a tensor that is read once into a buffer that holds all of it."""
    workload = pm.einsum(text, sizes=sizes)
    nodes = (Storage("Buf", (tensor,)), *(Temporal(dim, 1) for dim in sizes))
    return Question(workload, BUFFER, tree(*nodes), traffic("DRAM", tensor, "reads"))


def triangle() -> Question:
    source = """
    void f(float y[8], float A[8][8], float x[8]) {
      for (int i = 0; i < 8; i++) for (int j = 0; j <= i; j++) y[i] += A[i][j] * x[j];
    }"""
    workload = pm.from_c(source)
    loops = (Temporal(dim.name, 1) for dim in workload.dims)
    mapping = tree(Storage("Buf", ("A",)), *loops, statement=workload.statements[0].name)
    return Question(workload, BUFFER, mapping, traffic("DRAM", "A", "reads"))


def questions() -> dict[str, Question]:
    window = "O[p] += I[p+r] * W[r]"
    siblings = tree(Spatial("p", 1, "X"), Spatial("r", 1, "Y"), Storage("RF", ("I",)))
    returning = tree(Temporal("k", 4), Temporal("m", 1), Spatial("k", 1, "X"), Storage("RF", ("C",)))
    wrap = tree(Temporal("r", 1), Temporal("p", 2), Storage("Buf", ("I",)), Temporal("p", 1))
    steps = tree(Spatial("p", 1, "X"), Temporal("r", 1), Storage("RF", ("I",)))
    gemm = "C[m,n] += A[m,k] * B[k,n]"
    inner = (Temporal("m", 1), Temporal("n", 1), Temporal("k", 1))
    passes = tree(Temporal("k", 4), Temporal("m", 2), Storage("Buf", ("C",)), *inner)
    ragged = tree(Storage("Buf", ("A",)), Temporal("m", 2), *inner)
    blocked = tree(Temporal("n", 4), Temporal("m", 4), Storage("Buf", ("A",)), *inner)
    return {
        "stride": whole("O[p] += I[2*p]", "I", p=16),
        "mirrored": whole("O[p] += I[p-r+2] * W[r]", "I", p=16, r=3),
        "triangle": triangle(),
        "diagonal siblings": Question(pm.einsum(window, p=4, r=3), ARRAY, siblings, traffic("DRAM", "I", "reads")),
        "returning sums": Question(
            pm.einsum("C[m] += A[m,k] * B[k]", m=3, k=8), ARRAY, returning, traffic("RF", "C", "fills")
        ),
        "hull": whole("y[i] += A[i,i]", "A", i=8),
        "wrap-around": Question(pm.einsum(window, p=4, r=3), BUFFER, wrap, traffic("Buf", "I", "fills")),
        "neighbours": Question(pm.einsum(window, p=4, r=3), ARRAY, steps, traffic("DRAM", "I", "reads")),
        "drains": Question(pm.einsum(gemm, m=4, n=4, k=8), BUFFER, passes, traffic("Buf", "C", "reads")),
        "ragged": Question(pm.einsum(gemm, m=5, n=3, k=2), BUFFER, ragged, traffic("Buf", "A", "reads")),
        "product": Question(pm.einsum(gemm, m=8, n=8, k=8), BUFFER, blocked, traffic("Buf", "A", "fills")),
    }


def forwarded() -> int:
    """Return the words that no neighbour had one step before."""
    held: set[int] = set()
    words = 0
    for r in range(3):
        wanted = {p + r for p in range(4)}
        words += len(wanted - held)
        held = wanted
    return words


def without_wrap() -> int:
    """Return the words loaded where the first tile of each round is loaded whole."""
    words = 0
    for _ in range(3):
        held: set[int] = set()
        for start in (0, 2):
            tile = {start, start + 1}
            words += len(tile - held)
            held = tile
    return words


RULES: dict[str, Callable[[], int]] = {
    "triangle": lambda: len(list(product(range(8), range(8)))),
    "diagonal siblings": lambda: 4 * 3,
    "returning sums": lambda: 3 * 4,
    "hull": lambda: 8 * 8,
    "wrap-around": without_wrap,
    "neighbours": forwarded,
    "ragged": lambda: (5 // 2 * 2) * 3 * 2,
    "product": lambda: 8 * 8 * 8 // 4,
}


def test_the_page_has_a_row_per_question() -> None:
    assert list(rows()) == list(questions())


@pytest.mark.parametrize("name", list(questions()))
def test_our_number_and_the_enumeration(name: str) -> None:
    asked, row = questions()[name], rows()[name]
    assert asked.figure(pm.evaluate(asked.workload, asked.arch, asked.mapping)) == row.ours
    assert asked.figure(pm.simulate(asked.workload, asked.arch, asked.mapping)) == row.enumeration
    assert row.ours == row.enumeration


@pytest.mark.parametrize("name", list(RULES))
def test_what_the_other_tools_rule_gives(name: str) -> None:
    row = rows()[name]
    assert "rule" in row.tool
    assert RULES[name]() == row.there


def test_measured_numbers_are_the_stated_ones() -> None:
    measured = {name: row.there for name, row in rows().items() if "measured" in row.tool}
    assert measured == {"stride": 31, "mirrored": 16}


def test_uncharged_drains() -> None:
    asked, row = questions()["drains"], rows()["drains"]
    drains = traffic("Buf", "C", "drains")(pm.simulate(asked.workload, asked.arch, asked.mapping))
    assert row.there == row.ours - drains
