"""Bursts and requests as objectives: searched against every legal tree, each counted by the simulator's own moves."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import pytest

from polymap.costmodel import Layout, evaluate
from polymap.explore import explore
from polymap.ir import Architecture, ComputeUnit, Fanout, Mapping, MemoryLevel, OptionError, Tensor, Workload
from polymap.layouts import burst_counts
from polymap.search.problem import in_sums, parse_objective
from polymap.workload import einsum
from tests.referee.all_trees import all_trees
from tests.unit.costmodel.test_bursts import moves_of_simulator

TEXTS = ("B[j,i] += A[i,j]", "C[i] += A[i,j] * B[j]", "C[i] += A[i+r] * B[r]", "C[j,i] += A[i,j]")
Moves = dict[str, list[tuple[bool, frozenset[tuple[int, ...]]]]]


def question(rng: random.Random) -> tuple[Workload, Architecture]:
    """Return a nest with few trees, of prime and other extents, and a machine with a small buffer."""
    text = rng.choice(TEXTS)
    sizes = {dim: rng.choice((1, 2, 3, 4, 5)) for dim in "ijr" if dim in text.replace("+=", "")}
    while len(sizes) > 1 and sizes["i"] * max(size for dim, size in sizes.items() if dim != "i") > 12:
        sizes["i"] = max(1, sizes["i"] - 1)
    workload = einsum(text, sizes=sizes, bits=8)
    outer = MemoryLevel(
        "DRAM",
        read_pj=Fraction(rng.randrange(1, 10**9)),
        write_pj=Fraction(7),
        burst_bits=8 * rng.choice((1, 2, 3, 4)),
        request_bits=8 * rng.choice((1, 2, 4)),
        base_offset_bits=8 * rng.choice((0, 1)),
    )
    spread = (Fanout("X", 2),) if rng.random() < 0.2 else ()
    buffer = MemoryLevel("L1", capacity_bits=8 * rng.randrange(2, 12), read_pj=Fraction(1), write_pj=Fraction(1))
    return workload, Architecture("two", (outer, buffer, *spread, ComputeUnit("MAC")))


def pieces(arch: Architecture, tensor: Tensor, layout: Layout, elements: frozenset[tuple[int, ...]], word: str) -> int:
    """Count the bursts or requests of a message from the addresses of its elements, one after the other."""
    outer = arch.levels[0]
    of_runs = word == "requests"
    size = ((outer.request_bits if of_runs else outer.burst_bits) or 0) // 8
    found, before = 0, None
    for address in sorted(
        place(tensor, layout, each) + (outer.base_offset_bits // 8 if of_runs else 0) for each in elements
    ):
        is_new = before is None or address // size != before // size or (of_runs and address != before + 1)
        found, before = found + is_new, address
    return found


def place(tensor: Tensor, layout: Layout, element: tuple[int, ...]) -> int:
    address = 0
    for axis, _ in layout.parts:
        address = address * tensor.shape[axis] + element[axis] - tensor.origin[axis]
    return address


def counted(
    workload: Workload, arch: Architecture, mapping: Mapping, moved: Moves, word: str, *, any_layout: bool
) -> int:
    """Return the pieces of a tree: of each tensor the least of all orders of its axes, or those by rows."""
    held = {
        name for node in mapping.nodes for name in getattr(node, "tensors", ()) if getattr(node, "level", "") == "L1"
    }
    rows = {row.tensor: row for row in evaluate(workload, arch, mapping).traffic if row.level == "DRAM"}
    total = 0
    for tensor in workload.tensors:
        if tensor.name not in held:  # each element by itself
            total += rows[tensor.name].reads + rows[tensor.name].writes
            continue
        orders = list(permutations(range(len(tensor.shape))))[: None if any_layout else 1]
        layouts = (Layout(tuple((axis, 0) for axis in order)) for order in orders)
        total += min(sum(pieces(arch, tensor, each, e, word) for _, e in moved[tensor.name]) for each in layouts)
    return total


def compared(seeds: range, monkeypatch: pytest.MonkeyPatch) -> int:
    """Compare answers with the best of all trees; return how many were proven."""
    proven = 0
    for seed in seeds:
        rng = random.Random(seed)
        workload, arch = question(rng)
        tiles, any_layout, word = rng.choice(("any", "divide")), rng.random() < 0.5, rng.choice(("bursts", "requests"))
        goal = f"{word}:DRAM{'/any' if any_layout else ''}"
        legal = sorted(all_trees(workload, arch, tiles, legal=True), key=repr)
        trees = [tree for tree in legal if evaluate(workload, arch, tree).legal]
        if not 0 < len(trees) < 250:
            continue
        values = []
        for mapping in trees:
            own = moves_of_simulator(workload, arch, mapping, monkeypatch)
            energy = evaluate(workload, arch, mapping).energy_pj_exact
            values.append((Fraction(counted(workload, arch, mapping, own, word, any_layout=any_layout)), energy))
        limit = rng.choice(sorted({pair[0] for pair in values}))
        one = explore(workload, arch, goal, tiles=tiles, time_limit_s=20)
        assert (one.status, one.value) == ("OPTIMAL", min(values)[0]), (seed, goal, one.value, min(values))
        rest = explore(
            workload, arch, "energy", tiles=tiles, time_limit_s=20, constraints={"limits": {goal: int(limit)}}
        )
        least = min(energy for pieces, energy in values if pieces <= limit)
        assert rest.cost is not None, seed
        assert (rest.status, rest.cost.energy_pj_exact) == ("OPTIMAL", least), (seed, goal, limit)
        several = explore(workload, arch, f"lex:{goal},energy", tiles=tiles, time_limit_s=20)
        assert several.values[0] == (goal, min(values)[0]), (seed, several.values)
        assert (several.status, several.cost and several.cost.energy_pj_exact) == ("OPTIMAL", min(values)[1]), seed
        total = explore(workload, arch, f"weighted:1*energy+3*{goal}", tiles=tiles, time_limit_s=20)
        assert (total.status, total.value) == ("OPTIMAL", min(float(e + 3 * n) for n, e in values)), seed
        front = explore(workload, arch, f"pareto:energy,{goal}", tiles=tiles, time_limit_s=20)
        points = {(dict(p.values)[goal], p.cost and p.cost.energy_pj_exact) for p in front.front}
        best = {pair for pair in values if not any(o[0] <= pair[0] and o[1] <= pair[1] and o != pair for o in values)}
        assert front.status == "OPTIMAL", seed
        assert points == best, (seed, points, best)
        proven += 1
    return proven


def test_answers_are_the_least_of_all_trees_as_the_simulator_moves_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compared(range(5), monkeypatch) > 1, "few cases are small enough"


@pytest.mark.soak
def test_answers_are_the_least_of_all_trees_in_many_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    assert compared(range(1000, 1200), monkeypatch) > 100, "few cases are small enough"


def test_a_transposition_of_64_x_64_takes_512_bursts_proven() -> None:
    workload = einsum("B[j,i] = A[i,j]", i=64, j=64, bits=32)
    nodes = (MemoryLevel("DRAM", burst_bits=512), MemoryLevel("L1", capacity_bits=32 * 512), ComputeUnit("ALU"))
    arch = Architecture("cpu", nodes)
    least_traffic = explore(workload, arch, "traffic:DRAM", tiles="divide").best
    assert burst_counts(workload, arch, least_traffic).bursts == 8192, "without a buffer each element is a burst"
    found = explore(workload, arch, "bursts:DRAM", tiles="divide")
    assert (found.status, found.value, found.bound) == ("OPTIMAL", 512, 512)
    assert burst_counts(workload, arch, found.best).bursts == 512, "what the objective says"


def test_bounding_sums_are_sums() -> None:
    arch = question(random.Random(3))[1]
    arch = replace(arch, nodes=(replace(arch.levels[0], burst_bits=24, request_bits=16), *arch.nodes[1:]))
    asked = parse_objective("weighted:2*energy+3*bursts:DRAM+1*requests:DRAM/any+5*traffic:DRAM", arch)
    less = in_sums(arch, asked)
    assert less.text == "weighted:2*energy+83/16*traffic:DRAM", "3/24 + 1/16 + 5"
    assert parse_objective(less.text, arch) == less, "the text says the same"


@pytest.mark.parametrize(
    ("goal", "code", "word"),
    [
        ("bursts:L1", "PM502", "outermost"),
        ("bursts:DRUM", "PM502", "DRUM"),
        ("bursts", "PM501", "bursts:LEVEL"),
        ("requests:DRAM", "PM473", "request_bits"),
        ("bursts:DRAM/Q=any", "PM470", "'Q'"),
        ("bursts:DRAM/A=NCHW", "PM470", "axes"),
        ("bursts:DRAM/A=", "PM470", "layout"),
    ],
)
def test_wrong_objectives_are_refused_by_name(goal: str, code: str, word: str) -> None:
    nodes = (MemoryLevel("DRAM", burst_bits=512), MemoryLevel("L1", capacity_bits=512), ComputeUnit("ALU"))
    with pytest.raises(OptionError, match=f"(?s){code}.*{word}"):
        explore(einsum("B[j,i] = A[i,j]", i=4, j=4, bits=32), Architecture("cpu", nodes), goal)


def test_elements_that_bursts_cut_are_refused() -> None:
    nodes = (MemoryLevel("DRAM", burst_bits=24), MemoryLevel("L1", capacity_bits=512), ComputeUnit("ALU"))
    with pytest.raises(OptionError, match="PM473"):
        explore(einsum("B[j,i] = A[i,j]", i=4, j=4, bits=16), Architecture("cpu", nodes), "bursts:DRAM")
