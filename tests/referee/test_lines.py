"""A tensor that is read through a window and written a few rows at a time stays in a node inside their common loop: a
line buffer. The closed form counts it as it runs."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from polymap import program
from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.referees import count_by_simulation
from polymap.inputs import arch_from_document
from polymap.ir import Architecture, Branch, Mapping, Storage, Temporal, Workload, part_of
from polymap.ir.errors import MappingError
from polymap.schedules.check import check_mapping
from polymap.search.programs import in_lines
from tests.programs import random_tree, with_room
from tests.referee.test_fused_counts import with_loop_around, with_mistake, with_siblings_around

Case = tuple[Workload, Architecture, Mapping]

TEXTS = (
    ("T[c,y] += A[c,y+r] * W[r]", "E[v] += T[c,{s}*v+a] * V[c,a]"),
    ("T[y,c] = A[y] * W[c]", "U[y,c] = max(T[y,c], 0)", "E[v,z] += U[{s}*v+a,c] * V[c,a,z]"),
    ("T[y] += A[y+r] * W[r]", "E[c,v] += T[{s}*v+a] * V[c,a]"),
    ("T[y,x] += A[y,x,c] * W[c]", "U[y,x] = max(T[y,x], 0)", "E[v,w] += U[{s}*v+a,w+b] * V[a,b]"),
)


def drawn(rng: random.Random) -> Workload:
    """Return a program in lines, or what stands inside its loop."""
    step, reach, rows = *rng.choice(((1, 2), (1, 3), (2, 3))), rng.choice((2, 3, 4, 5))
    texts = [text.format(s=step) for text in rng.choice(TEXTS)]
    sizes = {name: rng.choice((1, 2, 3)) for name in "crzw"} | {"v": rows, "a": reach, "b": 2}
    sizes |= {"y": step * (rows - 1) + reach, "x": sizes["w"] + 1}
    used = {name: size for name, size in sizes.items() if any(name in text.replace("max", "") for text in texts)}
    work = program(texts, sizes=used, temporary=[text[0] for text in texts[:-1]], bits=rng.choice((8, 4)))
    lined = in_lines(work, "v")
    assert lined is not None
    return lined if rng.random() < 0.15 else part_of(lined, lined.statements[-len(texts) :])


def line_case(seed: int) -> Case:
    """Return a program in a random tree, often with a loop over the rows above its branch."""
    rng = random.Random(f"lines {seed}")
    work = drawn(rng)
    nodes = [
        {"level": "DRAM"},
        {"level": "G"},
        *([{"level": "H"}] if rng.random() < 0.4 else []),
        *([{"fanout": "X", "size": 1, "multicast": "identical", "reduction": True}] if rng.random() < 0.5 else []),
        {"level": "R", **({"bandwidth_bits_per_cycle": 8} if rng.random() < 0.3 else {})},
        {"compute": "PE"},
    ]
    arch = arch_from_document({"name": "random", "nodes": nodes})
    while True:
        mapping = random_tree(rng, work, arch)
        if isinstance(mapping.nodes[-1], Branch) and rng.random() < 0.95:
            rows = tuple(each for each in work.dims if each.name == "v")
            mapping = with_loop_around(rng, replace(work, dims=rows), mapping)
        for fanout in (each for each in arch.fanouts if rng.random() < 0.4):
            mapping = with_siblings_around(rng, work, mapping, fanout)
        try:
            check_mapping(work, arch, mapping)
        except MappingError:
            continue
        return work, with_room(arch, work, mapping), mapping


def holds_a_line(case: Case) -> bool:
    """Return whether a tensor stands above a branch, below a loop over rows, and is read and written otherwise."""
    work, _, mapping = case
    *chain, last = mapping.nodes
    rows = [at for at, node in enumerate(chain) if isinstance(node, Temporal) and node.dim == "v"]
    stored = {
        name for node in chain[min(rows, default=len(chain)) :] if isinstance(node, Storage) for name in node.tensors
    }
    return isinstance(last, Branch) and work.statements[-1].reads[0].tensor in stored


def compared(seeds: range) -> int:
    """Return how many trees with a line are counted, all of them as they run."""
    counted = 0
    for seed in seeds:
        case = line_case(seed)
        found = count_closed_form(*case) if holds_a_line(case) else None
        counted += found is not None
        assert found in (None, count_by_simulation(*case) if found is not None else None), seed
    return counted


def test_lines_are_counted_as_they_stay() -> None:
    assert compared(range(200)) > 4


@pytest.mark.soak
def test_thousands_of_lines_are_counted_as_they_stay() -> None:
    assert compared(range(1_000, 12_000)) > 300


MISTAKES = {  # a line in polymap, what stands there instead
    "dead rows are written back": ("drains = 0 if self.is_line else drains", "pass"),
    "all rows are made inside": ("touched = of_top[first_level(", "touched = top[first_level("),
    "rows that come again": ("counter.numbers.refuse(again, times, name)", "pass"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_lines_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_mistake(*MISTAKES[name], monkeypatch)
    with pytest.raises(AssertionError):
        compared(range(400))
