"""Which compute unit works when, and what a level holds over time, against walks of the loop tree, index by index."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from random import Random

import pytest

import polymap as pm
from polymap.report.figures.array_map import ArrayFigure, array_figure, array_svg, steps_figure
from polymap.report.figures.residency import residency_figure, residency_svg
from tests.times import few
from tests.unit.report.shared import assert_inside
from tests.unit.report.test_tree_svg import CHAIN, STATEMENTS, drawn as drawn_chain

Ranges = dict[str, tuple[int, int]]
MACHINE = {
    "name": "doubled",
    "nodes": [
        {"level": "DRAM"},
        {"level": "GLB", "capacity_bits": 1 << 30, "buffering": 2},
        {"fanout": "A", "size": 3},
        {"fanout": "B", "size": 4},
        {"level": "RF", "capacity_bits": 1 << 30},
        {"compute": "MAC"},
    ],
}
ARCH = pm.io.arch_from_document(MACHINE)
LAYERS = (
    pm.matmul(m=7, n=5, k=6),
    pm.einsum("O[k,p] += I[c,2*p+r] * W[k,c,r]", k=4, c=3, p=5, r=3),
    pm.einsum("O[p] += I[3*p+r] * W[r]", p=9, r=2),
)


def drawn(layer: pm.Workload, random: Random) -> pm.Mapping:
    """Return a random tree, whose tiles need not divide."""
    tiles = layer.extents()
    nodes: list[pm.Storage | pm.Temporal | pm.Spatial | pm.Compute] = []
    names = [tensor.name for tensor in layer.tensors]

    def loops(count: int) -> None:
        for _ in range(count):
            dim = random.choice(list(tiles))
            tiles[dim] = random.randint(1, tiles[dim])
            nodes.append(pm.Temporal(dim, tiles[dim]))

    loops(random.randint(0, 2))
    nodes.append(pm.Storage("GLB", tuple(random.sample(names, random.randint(1, len(names))))))
    loops(random.randint(0, 2))
    for fanout, room in (("A", 3), ("B", 4)):
        dim = random.choice(list(tiles))
        if random.random() < 0.8:
            tiles[dim] = random.randint(-(-tiles[dim] // room), tiles[dim])
            nodes.append(pm.Spatial(dim, tiles[dim], fanout))
    loops(random.randint(0, 2))
    nodes.append(pm.Storage("RF", tuple(random.sample(names, random.randint(1, len(names))))))
    dims = [dim for dim in tiles if tiles[dim] > 1]
    random.shuffle(dims)
    return pm.Mapping((*nodes, *(pm.Temporal(dim, 1) for dim in dims), pm.Compute(layer.statements[0].name)))


def walked(layer: pm.Workload, mapping: pm.Mapping) -> Iterator[tuple[tuple[int, ...], dict[str, int], list[Ranges]]]:
    """Return of every statement instance: its step (the numbers of all temporal iterations), its place along each
    fan-out, and the ranges of all dims at each node of the tree."""

    def go(
        at: int, step: tuple[int, ...], place: dict[str, int], ranges: list[Ranges]
    ) -> Iterator[tuple[tuple[int, ...], dict[str, int], list[Ranges]]]:
        node = mapping.nodes[at]
        here = ranges[-1]
        if isinstance(node, pm.Compute):
            yield step, place, ranges
        elif isinstance(node, pm.Temporal | pm.Spatial):
            low, high = here[node.dim]
            for number, start in enumerate(range(low, high, node.tile)):
                inner = {**here, node.dim: (start, min(high, start + node.tile))}
                if isinstance(node, pm.Temporal):
                    yield from go(at + 1, (*step, number), place, [*ranges, inner])
                else:
                    moved = {**place, node.fanout: number}
                    yield from go(at + 1, step, moved, [*ranges, inner])
        else:
            yield from go(at + 1, step, place, [*ranges, here])

    yield from go(0, (), {}, [{dim: (0, extent) for dim, extent in layer.extents().items()}])


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_units_work_as_a_walk_of_the_tree_says(seed: int) -> None:
    random = Random(seed)
    layer = random.choice(LAYERS)
    mapping = drawn(layer, random)
    figure = array_figure(layer, ARCH, mapping)
    work: Counter[tuple[int, int]] = Counter()
    at_work: Counter[tuple[int, ...]] = Counter()
    for step, place, _ in walked(layer, mapping):
        work[place.get("A", 0), place.get("B", 0)] += 1
        at_work[step] += 1
    assert {(i, j): n for i, row in enumerate(figure.work) for j, n in enumerate(row) if n} == dict(work)
    assert dict(figure.phases) == dict(Counter(at_work.values()))
    cost = pm.evaluate(layer, ARCH, mapping)
    assert (sum(map(sum, figure.work)), figure.steps) == (cost.instances, cost.compute_cycles)
    assert_inside(array_svg(figure))


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_tiles_in_use_are_those_of_a_walk_of_the_tree(seed: int) -> None:
    random = Random(seed)
    layer = random.choice(LAYERS)
    mapping = drawn(layer, random)
    figure = residency_figure(layer, ARCH, mapping)
    occupancy = dict(pm.evaluate(layer, ARCH, mapping).occupancy_bits)
    accesses = {each.tensor: each for each in (layer.statements[0].target, *layer.statements[0].reads)}
    first = [(step, ranges) for step, place, ranges in walked(layer, mapping) if not any(place.values())]
    for level in figure.levels:
        assert level.steps == len(first)
        assert level.bits_at(0) == occupancy[level.level]
        for tensor, stays in level.tensors:
            at = next(n for n, node in enumerate(mapping.nodes) if isinstance(node, pm.Storage)
                      and node.level == level.level and tensor in node.tensors)  # fmt: skip
            touched = [_touched(accesses[tensor], ranges[at]) for _, ranges in first]
            for number, stay in enumerate(stays):
                assert {len(touched[step]) for step in range(stay.start, stay.end)} == {stay.bits // 8}
                if number + 1 < len(stays):
                    assert stay.end == stays[number + 1].start
                    assert stay.arriving_bits == (stays[number + 1].bits if level.buffering == 2 else 0)
    assert_inside(residency_svg(figure))


@pytest.mark.parametrize("seed", few(range(40), 12))
def test_first_steps_of_a_level_are_begun_by_the_loops_that_advance_in_a_walk_of_the_tree(seed: int) -> None:
    random = Random(seed)
    layer = random.choice(LAYERS)
    mapping = drawn(layer, random)
    outer, buffer, *inner = ARCH.nodes
    assert isinstance(outer, pm.MemoryLevel)
    assert isinstance(buffer, pm.MemoryLevel)
    outer = replace(outer, bandwidth_bits_per_cycle=Fraction(8), beat_bits=32)
    arch = replace(ARCH, nodes=(outer, replace(buffer, step_cycles=Fraction(9)), *inner))
    try:
        cost = pm.evaluate(layer, arch, mapping)
    except pm.errors.BudgetError:
        pytest.skip("siblings that hold sums idle in between")
    assert cost.steps is not None, "this machine is timed by step"
    figure = steps_figure(arch, mapping, cost)
    first = [step for step, place, _ in walked(layer, mapping) if not any(place.values())]
    for level in figure.levels:
        innermost = max(n for n, node in enumerate(mapping.nodes) if getattr(node, "level", "") == level.level)
        dims = [node.dim for node in mapping.nodes[:innermost] if isinstance(node, pm.Temporal)]
        visits = list(dict.fromkeys(step[: len(dims)] for step in first))
        begun = [
            next(n for n, both in enumerate(zip(*pair, strict=True)) if len({*both}) > 1) for pair in pairwise(visits)
        ]
        assert [each.loop for each in level.first] == ["", *(dims[n] for n in begun)][: len(level.first)]
        assert level.steps == len(visits)
        assert len(level.first) == min(12, len(visits))
    picture = pm.plot.steps(cost)
    assert f"{cost.steps.cycles.__ceil__():,} cycles" in str(picture)
    assert_inside(picture)


def test_steps_of_machines_that_do_not_say_what_they_take_are_refused() -> None:
    mapping = drawn(LAYERS[0], Random(1))
    with pytest.raises(pm.errors.OptionError, match=r"PM575 'doubled' does not say what single steps take"):
        pm.plot.steps(pm.evaluate(LAYERS[0], ARCH, mapping))


def _touched(access: object, ranges: Ranges) -> set[tuple[int, ...]]:
    """Return the elements that an access touches in a tile, found by trying every point."""
    points: list[dict[str, int]] = [{}]
    for dim, (low, high) in ranges.items():
        points = [{**point, dim: value} for point in points for value in range(low, high)]
    return {tuple(index.evaluate(point) for index in access.index) for point in points}  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", few(range(30), 6))
def test_what_legs_hold_is_the_simulated_occupancy(seed: int) -> None:
    mapping, arch = drawn_chain(Random(seed)), pm.load_arch("flat3")
    figure = residency_figure(CHAIN, arch, mapping)
    cost = pm.simulate(CHAIN, arch, mapping)
    occupancy = {level: bits for level, bits in cost.occupancy_bits if bits and level != "DRAM"}
    peaks = {each.level: max(each.bits_at(leg) for leg in range(len(STATEMENTS))) for each in figure.levels}
    assert peaks == occupancy
    for level in figure.levels:
        for tensor, stays in level.tensors:
            for stay in stays:
                statement = CHAIN.statement(STATEMENTS[stay.start])
                touched = {statement.target.tensor, *(each.tensor for each in statement.reads)}
                assert stay.is_used == (tensor in touched)
    for width in (320, 890):
        assert_inside(residency_svg(figure, width_px=width))


def test_steps_of_legs_times_the_shared_iterations_are_all_steps() -> None:
    legs = ((pm.Spatial("m", 1, "A"), pm.Temporal("n", 3), pm.Temporal("k", 1), pm.Temporal("n", 1), pm.Compute("S0")),
            (pm.Temporal("n", 1), pm.Temporal("p", 1), pm.Temporal("m", 1), pm.Compute("S1")))  # fmt: skip
    pair = pm.program(["T[m,n] += A[m,k] * B[k,n]", "E[m,p] += T[m,n] * D[n,p]"], m=6, n=7, k=2, p=3, temporary=["T"])
    mapping = pm.Mapping((pm.Temporal("m", 2), pm.Storage("GLB", ("T", "D")), pm.Branch(legs)))
    figure = residency_figure(pair, ARCH, mapping)
    assert [steps for _, steps in figure.legs] == [2 * 7, 7 * 3 * 2]
    assert 3 * sum(steps for _, steps in figure.legs) == pm.evaluate(pair, ARCH, mapping).compute_cycles
    (level,) = figure.levels
    assert [(tensor, [(stay.bits, stay.is_used) for stay in stays]) for tensor, stays in level.tensors] == [
        ("T", [(2 * 7 * 8, True), (2 * 7 * 8, True)]),
        ("D", [(7 * 3 * 8, False), (7 * 3 * 8, True)]),
    ]


@pytest.mark.parametrize("width", [0, 319, 2.5, "wide"])
def test_a_picture_of_residency_is_at_least_as_wide_as_a_phone(width: object) -> None:
    figure = residency_figure(CHAIN, pm.load_arch("flat3"), drawn_chain(Random(1)))
    with pytest.raises(pm.errors.OptionError, match="PM120 width_px is .*\n.*an integer from 320 to 100000"):
        residency_svg(figure, width_px=width)  # type: ignore[arg-type]


def test_programs_whose_tiles_differ_are_refused() -> None:
    blur = pm.program(["R[i] = X[i] + X[i+1]", "Y[j] = R[j] + R[j+1]"], i=9, j=8)
    legs = tuple(
        (pm.Temporal(each.dims[0], 1), pm.Storage("GLB", ("X" if each.name == "S0" else "R",)), pm.Compute(each.name))
        for each in blur.statements
    )
    with pytest.raises(pm.errors.OptionError, match="PM575 a tile of X in GLB differs from iteration to iteration"):
        residency_figure(blur, ARCH, pm.Mapping((pm.Branch(legs),)))


def test_arrays_and_programs_beyond_the_figures_are_refused() -> None:
    triangle = pm.io.workload_from_document(
        {"name": "t", "einsum": "C[i] += A[i,j]", "sizes": {"i": 4, "j": 4}, "constraints": ["i-j"]}
    )
    mapping = pm.Mapping((pm.Temporal("i", 1), pm.Temporal("j", 1), pm.Compute("S")))
    for figure in (array_figure, residency_figure):
        with pytest.raises(pm.errors.OptionError, match="PM575 't' is not one statement over a box"):
            figure(triangle, ARCH, mapping)
    twice = pm.einsum("C[i] += A[i,i]", i=4)
    with pytest.raises(pm.errors.OptionError, match="PM575 a tile of A is no product of its axes"):
        residency_figure(twice, ARCH, pm.Mapping((pm.Temporal("i", 1), pm.Compute("S"))))


def test_a_unit_that_never_works_is_said() -> None:
    figure = ArrayFigure("x", ("A",), ("B",), ((3, 0), (3, 0)), ((2, 3),))
    assert "never works" in array_svg(figure)
    assert (figure.units, figure.steps) == (4, 3)
