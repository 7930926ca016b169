"""A tensor that is read through a window and written a few rows at a time stays in a node inside their common loop: a
line buffer. The closed form counts it as it runs."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest

from polymap import program
from polymap.costmodel.closed_form.counts import count_closed_form
from polymap.costmodel.referees import count_by_simulation
from polymap.inputs import arch_from_document
from polymap.ir import Architecture, Branch, Mapping, Storage, Temporal, Workload, affine, bounds, dim, part_of
from polymap.ir.errors import MappingError
from polymap.schedules.check import check_mapping
from polymap.search.legs import Leg, nest_of_leg
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

TILED = (
    ("T[c,t,y] += A[c,{b}*t+y+r] * W[r]", "E[t,v] += T[c,t,v+a] * V[c,a]"),
    ("T[t,y,c] = A[{b}*t+y] * W[c]", "U[t,y,c] = max(T[t,y,c], 0)", "E[t,v,z] += U[t,v+a,c] * V[c,a,z]"),
    ("T[t,y,u,w] = A[{b}*t+y] * B[2*u+w]", "E[t,v,u,w] += T[t,v+a,u,w] * V[a]"),
    ("T[t,y,c] = A[{b}*t+y] * W[c]", "E[t,v] max= T[t,v+a,c]"),
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
    """Return a program in lines in a random tree."""
    rng = random.Random(f"lines {seed}")
    return in_a_tree(rng, drawn(rng), "v")


def tiles_case(seed: int) -> Case:
    """Return a program in tiles of its result, which may overlap or leave gaps, in a random tree."""
    rng = random.Random(f"tiles {seed}")
    tile, more, reach = rng.choice((2, 3)), rng.choice((-1, 0, 0, 0, 1)), rng.choice((1, 2, 3))
    texts = [text.format(b=tile) for text in rng.choice(TILED)]
    sizes = {name: rng.choice((1, 2, 3)) for name in "crzu"} | {"t": rng.choice((2, 3)), "v": tile + more, "a": reach}
    sizes |= {"y": tile + more + reach - 1, "w": 2}
    used = {name: size for name, size in sizes.items() if any(name in text.replace("max", "") for text in texts)}
    work = program(texts, sizes=used, temporary=[text[0] for text in texts[:-1]], bits=rng.choice((8, 4)))
    return in_a_tree(rng, of_one_axis(work, {"t": ("v", tile), "u": ("w", 2)}), "tu")


def of_one_axis(work: Workload, pairs: dict[str, tuple[str, int]]) -> Workload:
    """Return a program in the result of which some dims have one axis with another one, in steps of so much."""
    *others, last = work.statements
    inner, extents = {name for name, _ in pairs.values()}, work.extents()
    index = [
        dim(form.dims[0]) * pairs[form.dims[0]][1] + dim(pairs[form.dims[0]][0]) if form.dims[0] in pairs else form
        for form in last.target.index
        if form.dims[0] not in inner
    ]
    last = replace(last, target=replace(last.target, index=tuple(index)))
    result = replace(work.tensor("E"), shape=tuple(bounds(form, extents)[1] + 1 for form in index))
    tensors = tuple(result if each.name == "E" else each for each in work.tensors)
    return replace(work, tensors=tensors, statements=(*others, last))


def in_a_tree(rng: random.Random, work: Workload, loops: str) -> Case:
    """Return a program in a random tree, often with one of some loops above its branch."""
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
            rows = tuple(each for each in work.dims if each.name in loops)
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


def is_cut_above_a_branch(case: Case) -> bool:
    """Return whether a loop over tiles stands above a branch."""
    _, _, mapping = case
    *chain, last = mapping.nodes
    return isinstance(last, Branch) and any(isinstance(node, Temporal) and node.dim in "tu" for node in chain)


def compared(
    seeds: range, case_of: Callable[[int], Case] = line_case, is_meant: Callable[[Case], bool] = holds_a_line
) -> int:
    """Return how many trees with a line, or another one that is meant, are counted, all of them as they run."""
    counted = 0
    for seed in seeds:
        case = case_of(seed)
        found = count_closed_form(*case) if is_meant(case) else None
        counted += found is not None
        assert found in (None, count_by_simulation(*case) if found is not None else None), seed
    return counted


def test_lines_are_counted_as_they_stay() -> None:
    assert compared(range(200)) > 4


def test_results_in_tiles_are_counted_as_they_run() -> None:
    assert compared(range(100), tiles_case, is_cut_above_a_branch) > 20


@pytest.mark.soak
def test_thousands_of_lines_are_counted_as_they_stay() -> None:
    assert compared(range(1_000, 12_000)) > 300
    assert compared(range(1_000, 12_000), tiles_case, is_cut_above_a_branch) > 2_000


MISTAKES = {  # a line in polymap, what stands there instead
    "dead rows are written back": ("drains = nothing if self.is_line else drains", "pass"),
    "all rows are made inside": ("stays, of_writer, of_top, is_written=True", "stays, of_writer, top, is_written=True"),
    "rows that come again": ("counter.numbers.refuse(again, times, name)", "pass"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_lines_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_mistake(*MISTAKES[name], monkeypatch)
    with pytest.raises(AssertionError):
        compared(range(400))


def test_a_mistake_in_what_tells_elements_apart_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    with_mistake("not form.tells_apart(extents)", "False", monkeypatch)
    with pytest.raises(AssertionError):
        compared(range(400), tiles_case, is_cut_above_a_branch)


def test_axes_of_digits_apart_are_touched_as_often() -> None:
    """Of a nest whose result has an axis of several dims, the search asks one with an axis for each."""
    apart = 0
    for seed in range(60):
        rng = random.Random(f"digits {seed}")
        tile, more = rng.choice((2, 3)), rng.choice((-1, 0, 0, 1))
        sizes = {"t": rng.choice((2, 3)), "v": tile + more, "u": 2, "w": 2, "c": 2}
        work = program(["E[t,v,u,w] += A[t,v,u,c] * B[w,c]"], sizes=sizes, bits=8)
        work = of_one_axis(work, {"t": ("v", tile), "u": ("w", 2)})
        nest = nest_of_leg(work, Leg.of(work.statements[0], work.extents()))
        assert nest is not None
        assert len(nest.tensor("E").shape) == (4 if more <= 0 else 3)  # rows of two tiles are one axis
        _, arch, mapping = in_a_tree(rng, work, "")
        arch = with_room(arch, nest, mapping)
        assert count_by_simulation(work, arch, mapping) == count_by_simulation(nest, arch, mapping), seed
        apart += more <= 0
    assert apart > 30


def test_an_index_tells_apart_what_it_says() -> None:
    rng, known = random.Random(5), 0
    for _ in range(300):
        extents = {name: rng.choice((1, 2, 3, 4)) for name in "abc"}
        form = affine(tuple((rng.choice((-6, -3, -1, 1, 2, 3, 4, 9)), name) for name in "abc"), rng.choice((0, 2)))
        points = [dict(zip("abc", point, strict=True)) for point in product(*map(range, extents.values()))]
        is_apart = len({form.evaluate(point) for point in points}) == len(points)
        assert is_apart or not form.tells_apart(extents)
        known += form.tells_apart(extents)
    assert known > 60
