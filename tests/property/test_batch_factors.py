"""What one dim or window gives, counted on arrays, is what the closed form counts for one mapping at a time."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import product
from math import prod

import numpy as np
import pytest

from polymap.costmodel.closed_form.carries import Axes, StepFilter, always, none_starts, none_stops
from polymap.costmodel.closed_form.digits import (
    CarryPlace,
    Chain,
    CountedSteps,
    Part,
    changes,
    kept_indices,
    lengths_at_digit,
    lengths_of_all_digits,
    places,
    runs,
    siblings,
    times_of,
)
from polymap.costmodel.closed_form.window_sums import (
    Load,
    Sums,
    all_elements,
    distinct_elements,
    elements_not_read,
    first_tile,
    kept_elements,
    loads,
    step_classes,
    sums_of_window,
)
from polymap.costmodel.tables.digits import is_first_entrant, most_runs, run_starts
from polymap.costmodel.tables.factors import (
    AcceptedSteps,
    FirstTile,
    KeptIndices,
    Places,
    WindowAll,
    WindowDistinct,
    WindowFirst,
    WindowKept,
    WindowSum,
    columns_of,
)
from polymap.costmodel.tables.loops import Integers
from polymap.costmodel.tables.planned_sums import Factor
from polymap.costmodel.tables.window_sums import is_in_reach
from polymap.poly.progression import Placed, intervals_of
from tests.times import few

ROWS = 6


def random_chain(rng: random.Random, parts: Sequence[Part], column: int = 0) -> Chain:
    """Return a chain over columns, the loops that a tile spans at its end left out; pins are columns after these."""
    chosen = [rng.choice(parts) for _ in range(rng.choice((0, 1, 2, 3, 4)))]
    while chosen and chosen[-1] is Part.FREE:
        chosen.pop()
    return with_pins(chosen, [part is Part.PINNED and rng.random() < 0.7 for part in chosen], column)


def with_pins(parts: Sequence[Part], pinned: Sequence[bool], column: int = 0) -> Chain:
    """Return a chain over columns, from this one on: tiles, then the pins of some loops."""
    pins = iter(range(column + len(parts), column + 2 * len(parts)))
    return tuple(
        (column + number, part, next(pins) if own else 0)
        for number, (part, own) in enumerate(zip(parts, pinned, strict=True))
    )


def random_columns(rng: random.Random, extent: int, chain: Chain) -> list[Integers]:
    """Return tiles, each at most the enclosing one, then pins: each the first digit of a run, often another in each
    row."""
    table: list[list[int]] = []
    for _ in range(ROWS):
        enclosing = extent
        row: list[int] = []
        for _ in chain:
            enclosing = rng.randrange(1, enclosing + 1)
            row.append(enclosing)
        known = runs(extent, tuple((tile, Part.EACH, 0) for tile in row))
        row += [rng.choice(known[number])[0] for number, (_, _, pin) in enumerate(chain) if pin]
        table.append(row)
    return [np.array(column, dtype=np.int64) for column in zip(*table, strict=True)]


def with_row(chain: Chain, columns: Sequence[Integers], row: int) -> Chain:
    """Return the chain with the tiles and pins of one row. columns: its own."""
    pins = iter(columns[len(chain) :])
    return tuple(
        (int(tile[row]), part, int(next(pins)[row]) if pin else 0)
        for tile, (_, part, pin) in zip(columns, chain, strict=False)
    )


def equal(factor: Factor, columns: Sequence[Integers], wanted: Sequence[int]) -> None:
    found = np.broadcast_to(np.asarray(factor.count(columns)), len(wanted)).tolist()
    assert found == list(wanted), (factor, [column.tolist() for column in columns])


def test_every_run_of_a_pinned_loop_is_among_those_of_the_arrays() -> None:
    for seed in range(40):
        rng = random.Random(seed)
        extent = rng.randrange(1, 40)
        columns = random_columns(rng, extent, with_pins([Part.EACH] * 3, [False] * 3))
        for row in range(ROWS):
            tiles = [int(column[row]) for column in columns]
            wanted = {first for first, _ in runs(extent, tuple((tile, Part.EACH, 0) for tile in tiles))[2]}
            lengths: list[int] = [extent]
            for tile in tiles[:2]:
                lengths = [tile, *(length % tile for length in lengths)]
            starts = run_starts(lengths, columns[2][row : row + 1])
            assert len(starts) == most_runs(2), "a run for each edge"
            pins = {int(np.broadcast_to(each, 1)[0]) for each in starts}
            assert pins == wanted


def test_one_dim_on_arrays() -> None:
    for seed in range(300):
        rng = random.Random(seed)
        extent = rng.choice((1, 2, 7, 12, 30))
        chain = random_chain(rng, list(Part))
        columns = random_columns(rng, extent, chain)
        rows = [with_row(chain, columns, row) for row in range(ROWS if chain else 1)]
        cut = rng.randrange(times_of(chain) + 1)
        equal(Places(extent, chain, cut), columns, [places(each, cut, extent) for each in rows])
        moved = [places(each, cut + 1, extent) - places(each, cut, extent) for each in rows]
        equal(Places(extent, chain, cut, moving=True), columns, moved)
        for clock in CountedSteps:
            equal(
                KeptIndices(extent, chain, cut, clock),
                columns,
                [kept_indices(extent, each, cut, clock) for each in rows],
            )
        equal(FirstTile(extent, chain), columns, [first_indices(extent, each) for each in rows])


def first_indices(extent: int, chain: Chain) -> int:
    branches = ((extent, 1),)
    for tile, part, _ in chain:
        branches = lengths_of_all_digits(branches, tile) if part is Part.FREE else lengths_at_digit(branches, 0, tile)
    return sum(length * many for length, many in branches)


@pytest.mark.parametrize("step_filter", [always, none_starts, none_stops])
def test_a_filtered_dim_on_arrays(step_filter: StepFilter) -> None:
    for seed in range(250):
        rng = random.Random(seed)
        extent = rng.choice((1, 2, 7, 12, 30))
        chain = random_chain(rng, (Part.TIME, Part.TIME, Part.MERGED, Part.EACH, Part.PINNED))
        columns = random_columns(rng, extent, chain)
        rows = [with_row(chain, columns, row) for row in range(ROWS if chain else 1)]
        times = times_of(chain)
        cut = CarryPlace(rng.randrange(times + 1), moved=False)
        if times and rng.random() < 0.5:
            cut = CarryPlace(rng.randrange(times), moved=True)
        wanted = [sum(often for often, tracks in changes(extent, each, cut) if step_filter(tracks)) for each in rows]
        equal(AcceptedSteps(extent, chain, cut, step_filter), columns, wanted)


def test_the_first_sibling_that_comes_back_on_arrays() -> None:
    found = 0
    for seed in range(300):
        rng = random.Random(seed)
        extent = rng.choice((2, 7, 12, 30))
        parts = [*(Part.TIME for _ in range(rng.choice((1, 2, 3)))), Part.MERGED]
        if rng.random() < 0.3:
            rng.shuffle(parts)
        chain = with_pins(parts, [part is Part.MERGED and rng.random() < 0.7 for part in parts])
        columns = random_columns(rng, extent, chain)
        cut = CarryPlace(rng.randrange(times_of(chain)), moved=rng.random() < 0.5)
        wanted = [steps_back(extent, with_row(chain, columns, row), cut) for row in range(ROWS)]
        equal(AcceptedSteps(extent, chain, cut, is_first_entrant), columns, wanted)
        found += any(wanted)
    assert found > 25


def steps_back(extent: int, chain: Chain, cut: CarryPlace) -> int:
    """Return at how many steps the sibling that the pin tells is the first that works and did not before."""
    ((merged, pin),) = ((number, pin) for number, (_, part, pin) in enumerate(chain) if part is Part.MERGED)
    kinds = [kind[merged] for kind in siblings(extent, chain)]
    total = 0
    for often, tracks in changes(extent, chain, cut):
        back = [digit for digit, (now, before) in zip(kinds, tracks, strict=True) if now and not before]
        total += often * (back[:1] == [pin])
    return total


@pytest.mark.parametrize("seeds", few([range(60), range(60, 500)], 1))
def test_windows_on_arrays(seeds: range) -> None:
    in_reach = 0
    for seed in seeds:
        rng = random.Random(seed)
        some = rng.choice(((Part.MERGED, Part.EACH), (Part.EACH, Part.FREE), (Part.PINNED,), tuple(Part)))
        parts = (Part.TIME, *some)
        axes: list[tuple[int, int, Chain]] = []
        columns: list[Integers] = []
        factors = rng.choice(((1, 1), (1, -1), (2, 1), (-1, 3), (2, 3), (2, 1, 1), (1, -1, 1), (3, -1, -3, 1)))
        for factor in factors:
            extent = rng.choice((1, 3, 8, 13) if len(factors) == 2 else (1, 3, 5))
            chain = random_chain(rng, parts, len(columns))
            if rng.random() < 0.7:  # the kind that arrays count: temporal loops, one spatial loop inside them
                parts_of = [*(Part.TIME for _ in chain[:-1]), *(part for _, part, _ in chain[-1:])]
                chain = with_pins(
                    parts_of, [part is Part.PINNED and rng.random() < 0.7 for part in parts_of], len(columns)
                )
            axes.append((factor, extent, chain))
            columns += random_columns(rng, extent, chain)
        cuts: list[CarryPlace] = []
        mover = rng.randrange(3)
        for number, (_, _, chain) in enumerate(axes):
            moved = number == mover and times_of(chain) > 0
            cuts.append(CarryPlace(rng.randrange(times_of(chain) + (not moved)), moved=moved))
        compare_windows(tuple(axes), tuple(cuts), columns)
        in_reach += is_in_reach(tuple(axes), cuts)
    assert in_reach > 0.3 * len(seeds)


@pytest.mark.parametrize("seeds", few([range(300), range(300, 5000)], 1))
def test_elements_not_read_are_those_of_distinct_loads_written_out(seeds: range) -> None:
    """The loads of one step are the products of the tiles without the products of what is kept, compared as sets."""
    found = differing = 0
    for seed in seeds:
        rng = random.Random(seed)
        windows: list[Axes] = []
        cuts: list[tuple[CarryPlace, ...]] = []
        for factors in rng.choices(((1, 1), (2, 1), (1, -2), (2, 3)), k=rng.choice((1, 2, 2, 2, 3))):
            axes: list[tuple[int, int, Chain]] = []
            own: list[CarryPlace] = []
            for factor in factors:
                extent = rng.choice((2, 3, 5, 7))
                chain = random_chain(rng, (Part.TIME, Part.TIME, Part.MERGED, Part.MERGED, Part.UNITED))[:3]
                tiles = sorted((rng.randrange(1, extent + 1) for _ in chain), reverse=True)
                axes.append((factor, extent, tuple((tile, *link[1:]) for tile, link in zip(tiles, chain, strict=True))))
                moved = times_of(chain) > 0 and rng.random() < 0.7
                own.append(CarryPlace(rng.randrange(times_of(chain) + (not moved)), moved=moved))
            windows.append(tuple(axes))
            cuts.append(tuple(own))
        expected, differ = not_read_written_out(windows, cuts)
        assert elements_not_read(tuple(windows), tuple(cuts)) == expected, (windows, cuts)
        found += expected > 0
        differing += differ
    assert found > 0.15 * len(seeds)
    assert differing > 0.03 * len(seeds)


def not_read_written_out(windows: Sequence[Axes], cuts: Sequence[tuple[CarryPlace, ...]]) -> tuple[int, bool]:
    """Return the elements of distinct tiles that are not read, and whether siblings differ in what they keep."""
    per_window = [
        [(times, loads(axes, siblings, whole=False)) for times, siblings in step_classes(axes, cut, CountedSteps.OWN)]
        for axes, cut in zip(windows, cuts, strict=True)
    ]
    total, differ = 0, False
    for steps in product(*per_window):
        siblings = [[pair for load in found for pair in tiles_and_kept(load)] for _, found in steps]
        held = [{tile for tile, _ in each} for each in siblings]
        read = {
            frozenset(product(*(tile for tile, _ in pairs))) - frozenset(product(*(kept for _, kept in pairs)))
            for pairs in product(*map(set, siblings))
        }
        whole = prod(sum(map(len, tiles)) for tiles in held)
        total += prod(times for times, _ in steps) * (whole - sum(map(len, read)))
        differ |= any(len({(kept == tile) - (not kept) for tile, kept in each}) > 1 for each in siblings)
    return total, differ


def tiles_and_kept(load: Load) -> list[tuple[frozenset[int], frozenset[int]]]:
    """Return the tile and its kept part of each sibling of a load."""
    found: list[tuple[frozenset[int], frozenset[int]]] = []
    for digits in product(*(range(count) for _, count in load.runs)):
        at = load.base + sum(digit * stride for digit, (stride, _) in zip(digits, load.runs, strict=True))
        tile, new = ({each + at for each in written_out(part)} for part in (load.tile, load.new))
        found.append((frozenset(tile), frozenset(tile - new)))
    return found


def written_out(placed: Placed | None) -> set[int]:
    """Return the elements of a set."""
    if placed is None:
        return set()
    return {
        residue + quotient
        for residue, intervals in intervals_of(placed, 1).items()
        for low, high in intervals
        for quotient in range(low, high)
    }


def compare_windows(axes: Axes, cuts: tuple[CarryPlace, ...], columns: list[Integers]) -> None:
    rows: list[Axes] = []
    for row in range(ROWS if columns else 1):
        at = 0
        placed: list[tuple[int, int, Chain]] = []
        for factor, extent, chain in axes:
            own = columns[at : at + len(columns_of(chain))]
            placed.append((factor, extent, with_row(chain, own, row)))
            at += len(own)
        rows.append(tuple(placed))
    equal(WindowAll(axes), columns, [all_elements(each) for each in rows])
    equal(WindowDistinct(axes), columns, [distinct_elements(each) for each in rows])
    if {part for _, _, chain in axes for _, part, _ in chain} <= {Part.TIME, Part.EACH, Part.FREE}:
        equal(WindowFirst(axes), columns, [first_tile(each) for each in rows])
    for clock in CountedSteps:
        equal(WindowKept(axes, cuts, clock), columns, [kept_elements(each, cuts, clock) for each in rows])
    for name in Sums._fields:
        wanted = [getattr(sums_of_window(each, cuts), name) for each in rows]
        equal(WindowSum(axes, cuts, name), columns, wanted)
