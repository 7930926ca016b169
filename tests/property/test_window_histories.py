"""Windows of written tensors: the tables of many chains at once are those of one chain after the other."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np

from polymap.costmodel.closed_form.carries import Axes
from polymap.costmodel.closed_form.digits import Part
from polymap.costmodel.closed_form.window_tables import Axis, WindowTable
from polymap.costmodel.tables.digits import Digit
from polymap.costmodel.tables.shared_windows import Carry, is_tabled, window_tables

PARTS = (Part.TIME, Part.TIME, Part.TIME, Part.MERGED, Part.EACH, Part.FREE, Part.PINNED, Part.UNITED)


def random_axes(rng: random.Random) -> tuple[Axes, tuple[int, ...]]:
    """Return the dims of a window with chains that have 0 for tiles, and the columns of their loops."""
    longest = rng.choice((5, 9, 40))
    parts = [rng.choices(PARTS, k=rng.choice((0, 1, 2, 3, 4))) for _ in range(rng.choice((2, 2, 2, 3)))]
    columns = iter(rng.sample(range(20), sum(len(each) for each in parts)))
    chosen = [sorted(next(columns) for _ in each) for each in parts]
    axes = tuple(
        (
            rng.choice((1, 1, 2, 3, -1, -2)),
            rng.randrange(2, longest if number == 0 else 5),
            tuple((0, part, 0) for part in each),
        )
        for number, each in enumerate(parts)
    )
    return axes, tuple(column for each in chosen for column in each)


def random_tiles(rng: random.Random, axes: Axes) -> list[list[int]]:
    found: list[list[int]] = []
    for _, extent, chain in axes:
        tiles: list[int] = []
        for _ in chain:
            tiles.append(rng.randrange(1, (tiles[-1] if tiles else extent) + 1))
        found.append(tiles)
    return found


def table_of(axes: Axes, tiles: list[list[int]], pins: list[list[int]], columns: tuple[int, ...]) -> WindowTable:
    left = iter(columns)
    found: list[Axis] = []
    for (factor, extent, chain), of, pinned in zip(axes, tiles, pins, strict=True):
        links = tuple((tile, part, pin) for tile, (_, part, _), pin in zip(of, chain, pinned, strict=True))
        found.append(Axis(factor, extent, links, tuple(next(left) for _ in of)))
    return WindowTable(found)


def test_tables_of_many_chains_are_those_of_each() -> None:
    looked_back = 0
    for seed in range(75):
        rng = random.Random(seed)
        axes, columns = random_axes(rng)
        if not is_tabled(axes) or not columns:
            continue
        many = [random_tiles(rng, axes) for _ in range(12)]
        pins = [[rng.choice((0, 0, 1)) for _ in chain] for _, _, chain in axes]
        digits = [
            [
                Digit(np.array([tiles[dim][number] for tiles in many]), part, pins[dim][number])
                for number, (_, part, _) in enumerate(chain)
            ]
            for dim, (_, _, chain) in enumerate(axes)
        ]
        parts = [part for _, _, chain in axes for _, part, _ in chain]
        timed = {column for column, part in zip(columns, parts, strict=True) if part is Part.TIME}
        others = {column for column in range(20) if column not in columns}
        carries: tuple[Carry, ...] = tuple((column, column in timed) for column in sorted(timed | others))
        left = iter(columns)
        loops = tuple(tuple(next(left) for _ in chain) for _, _, chain in axes)
        found = window_tables(axes, digits, loops, carries)
        for row, tiles in enumerate(many):
            table = table_of(axes, tiles, pins, columns)
            assert found.elements_held_by_any[row] == table.elements_held_by_any(), f"seed {seed}, row {row}"
            for carry in carries:
                expected: Counter[tuple[bool, bool, int, bool]] = Counter()
                for kind in table.kinds(carry[0], moved=carry[1]):
                    expected[kind.stops, kind.starts, *((-1, False) if kind.stops else kind[3:])] += kind.often
                    looked_back += kind.place >= 0 and not kind.stops
                counted = {tuple(kind[1:]): int(often[row]) for kind, often in found.kinds[carry].items() if often[row]}
                assert counted == dict(expected), f"seed {seed}, row {row}, carry {carry}"
    assert looked_back > 240
