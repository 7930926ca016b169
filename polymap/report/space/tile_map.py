"""A heat map over two tile sizes of one mapping: what each pair costs, and where it does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from math import log10

import numpy as np

from polymap.costmodel.tables import evaluate_many
from polymap.formatting import energy
from polymap.inputs import as_integer, shown
from polymap.ir import (
    Architecture,
    Mapping,
    Mistake,
    OptionError,
    Shown,
    Spatial,
    Temporal,
    Workload,
    show_as_picture,
)
from polymap.report.figures import GREY, INK, RULE, Picture, expected_figure, head, hint, line, picture, rect, text
from polymap.report.space.axes import Shapes
from polymap.resolve import mapping_of, question_of

_SIDE, _LEFT, _TOP = 44.0, 96.0, 104.0
_OWN = "#df8213"
_LIGHT, _DARK = (0xF4, 0xF1, 0xE4), (0x14, 0x3C, 0x6B)  # cheap is dark: lightness alone orders the colours


@dataclass(frozen=True, slots=True)
class TileMapFigure(Shown):
    """across, up: what a loop is called, and its tiles, rising. energy_pj, fits:
    [up][across]; own: (across, up) of the mapping shown."""

    title: str
    across: tuple[str, tuple[int, ...]]
    up: tuple[str, tuple[int, ...]]
    energy_pj: tuple[tuple[float, ...], ...]
    fits: tuple[tuple[bool, ...], ...]
    own: tuple[int, int]


def tile_map_figure(
    workload: Workload | str, arch: Architecture | str, mapping: Mapping, across: int, up: int
) -> TileMapFigure:
    """Return the costs when the tiles of two temporal loops (their numbers among all loops, outermost 0) vary over all
    that divide the enclosing tile and are divided by the next one inside; everything else stays. Of two loops over one
    dim each varies as if the other were not there: where the inner tile does not divide the outer one, it is partial.

    Raises OptionError for numbers that are those of no loop, or twice the same.
    """
    workload, arch = question_of(workload, arch)
    mapping = mapping_of(mapping)
    loops = [node for node in mapping.nodes if isinstance(node, Temporal | Spatial)]
    numbers = (as_integer(across), as_integer(up))
    if len(set(numbers)) < 2 or not all(number is not None and 0 <= number < len(loops) for number in numbers):
        what = f"the loops are {shown(across)} and {shown(up)}"
        raise OptionError(Mistake("PM120", what, f"Expected two of the numbers 0 to {len(loops) - 1}."))
    choices = [_tiles(workload, loops, across, up), _tiles(workload, loops, up, across)]
    rows = [
        [a if n == across else b if n == up else loop.tile for n, loop in enumerate(loops)]
        for b in choices[1]
        for a in choices[0]
    ]
    costs = evaluate_many(workload, arch, mapping, np.array(rows, dtype=np.int64))
    shape = (len(choices[1]), len(choices[0]))
    pj, fits = costs.energy_pj.reshape(shape).tolist(), costs.legal.reshape(shape).tolist()
    names = [_name(loops, across, up), _name(loops, up, across)]
    return TileMapFigure(
        f"{workload.name} on {arch.name}: all else as in the mapping marked",
        (names[0], choices[0]),
        (names[1], choices[1]),
        tuple(map(tuple, pj)),
        tuple(map(tuple, fits)),
        (loops[across].tile, loops[up].tile),
    )


def _name(loops: list[Temporal | Spatial], number: int, other: int) -> str:
    """Return what a loop is called beside the other one: by its dim, and where both are over it by its place."""
    dim = loops[number].dim
    place = "" if loops[other].dim != dim else "outer " if number < other else "inner "
    return f"tile of the {place}loop over {dim}"


def _tiles(workload: Workload, loops: list[Temporal | Spatial], number: int, other: int) -> tuple[int, ...]:
    """Return the tiles that a loop may have between the loops over its dim outside and inside it, without `other`."""
    dim = loops[number].dim
    if all(loop.dim != dim for loop in loops[number + 1 :]):
        return (1,)  # the innermost loop over a dim ends at 1
    around = [(place, loop.tile) for place, loop in enumerate(loops) if loop.dim == dim and place != other]
    outer = [tile for place, tile in around if place < number]
    inner = [tile for place, tile in around if place > number]
    most, least = (outer or [workload.extents()[dim]])[-1], (inner or [1])[0]
    return tuple(tile for tile in range(least, most + 1) if most % tile == 0 and tile % least == 0)


def tile_map_svg(figure: TileMapFigure) -> Picture:
    """Return the map; pairs that do not fit are crossed out, the mapping's own is framed."""
    figure = expected_figure(figure, TileMapFigure)
    columns, rows = figure.across[1], figure.up[1]
    pairs = zip(figure.energy_pj, figure.fits, strict=True)
    values = [log10(pj) for costs, fits in pairs for pj, good in zip(costs, fits, strict=True) if good]
    low, high = min(values, default=0.0), max(values, default=1.0)
    shapes: Shapes = head("What two tile sizes cost", figure.title)
    bottom = _TOP + _SIDE * len(rows)
    for i, tile in enumerate(rows):
        top = bottom - _SIDE * (i + 1)
        shapes.append(text(_LEFT - 10, top + _SIDE / 2 + 4, f"{tile:,}", size=11, fill=GREY, anchor="end"))
        for j in range(len(columns)):
            share = (log10(figure.energy_pj[i][j]) - low) / ((high - low) or 1.0)
            pj, fits = figure.energy_pj[i][j], figure.fits[i][j]
            words = f"{figure.across[0]} {columns[j]:,}, {figure.up[0]} {tile:,}: {energy(pj)}"
            cell = _cell(_LEFT + _SIDE * j, top, share, pj, fits=fits)
            shapes.append(hint(cell, words if fits else f"{words}, does not fit"))
    for j, tile in enumerate(columns):
        shapes.append(text(_LEFT + _SIDE * (j + 0.5), bottom + 18, f"{tile:,}", size=11, fill=GREY, anchor="middle"))
    own = columns.index(figure.own[0]), rows.index(figure.own[1])
    frame = rect(_LEFT + _SIDE * own[0] + 1, bottom - _SIDE * (own[1] + 1) + 1, _SIDE - 3, _SIDE - 3, fill="none")
    shapes.append(frame.replace("/>", f' stroke="{_OWN}" stroke-width="4"/>'))
    shapes.append(text(_LEFT, bottom + 42, figure.across[0], size=11.5, fill=GREY))
    shapes.append(text(_LEFT, _TOP - 14, figure.up[0], size=11.5, fill=GREY))
    right = max(_LEFT + _SIDE * len(columns) + 36, 330)
    shapes += _key(right, 10**low, 10**high)
    return picture(max(right + 230, 560), max(bottom + 62, _TOP + 230), f"Two tile sizes: {figure.title}", shapes)


def _colour(share: float) -> str:
    return "#" + "".join(
        f"{round(dark + share * (light - dark)):02x}" for light, dark in zip(_LIGHT, _DARK, strict=True)
    )


def _cell(left: float, top: float, share: float, pj: float, *, fits: bool) -> Shapes:
    shapes = [rect(left, top, _SIDE - 1, _SIDE - 1, fill=_colour(share) if fits else "#ffffff", stroke=RULE)]
    if not fits:
        return [*shapes, line(left + 8, top + 8, left + _SIDE - 9, top + _SIDE - 9, stroke="#c2417c", width=1.5)]
    ink = INK if share > 0.5 else "#ffffff"
    number, unit = energy(pj).split()
    shapes.append(text(left + _SIDE / 2, top + 20, number, size=10, fill=ink, anchor="middle"))
    shapes.append(text(left + _SIDE / 2, top + 33, unit, size=9, fill=ink, anchor="middle"))
    return shapes


def _key(left: float, low: float, high: float) -> Shapes:
    shapes: Shapes = [text(left, _TOP + 8, "energy (log)", size=12, bold=True)]
    for step in range(5):
        value = low * (high / low) ** (step / 4)
        shapes.append(rect(left, _TOP + 20 + 20 * step, 26, 19, fill=_colour(step / 4), stroke=RULE))
        shapes.append(text(left + 36, _TOP + 34 + 20 * step, energy(value), size=11.5))
    shapes += [rect(left, _TOP + 132, 26, 19, fill="#ffffff", stroke=RULE)]
    shapes.append(line(left + 5, _TOP + 136, left + 21, _TOP + 147, stroke="#c2417c", width=1.5))
    shapes.append(text(left + 36, _TOP + 146, "does not fit", size=11.5))
    frame = rect(left + 1, _TOP + 161, 24, 17, fill="none").replace("/>", f' stroke="{_OWN}" stroke-width="4"/>')
    return [*shapes, frame, text(left + 36, _TOP + 174, "the mapping shown", size=11.5)]


show_as_picture(TileMapFigure, tile_map_svg)
