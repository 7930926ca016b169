"""A heat map over two tile sizes of one mapping: what each pair costs, and where it does not fit."""

from __future__ import annotations

from math import log10

from polymap.formatting import energy
from polymap.inputs import expected_kind
from polymap.networks import TileStudy
from polymap.report.figures.axes import Shapes
from polymap.report.figures.chart import head
from polymap.report.figures.svg import GREY, INK, RULE, Picture, hint, line, picture, rect, text

_SIDE, _LEFT, _TOP = 44.0, 96.0, 104.0
_OWN = "#df8213"
_LIGHT, _DARK = (0xF4, 0xF1, 0xE4), (0x14, 0x3C, 0x6B)  # cheap is dark: lightness alone orders the colours


def tile_map_svg(figure: TileStudy) -> Picture:
    """Return the map; pairs that do not fit are crossed out, the mapping's own is framed."""
    figure = expected_kind(figure, TileStudy, "the figure")
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
    return picture(
        max(right + 230, 560), max(bottom + 62, _TOP + 230), f"Two tile sizes: {figure.title}", shapes, figure
    )


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
