"""Maps of cells: what two tile sizes of a mapping cost, and which dataflow wins over the sizes of two buffers."""

from __future__ import annotations

from math import log10

from polymap.formatting import energy, size
from polymap.networks import TileStudy, Winner, WinnerStudy
from polymap.report.figures import svg
from polymap.report.figures.chart import WIDTH_PX, KeyRow, cell_chart, cell_names

_SIDE, _LEFT = 44.0, 96.0
_OWN, _CROSS = "#df8213", "#c2417c"
_LIGHT, _DARK = (0xF4, 0xF1, 0xE4), (0x14, 0x3C, 0x6B)  # cheap is dark: lightness alone orders the colours


@svg.draws(TileStudy)
def tile_map_svg(figure: TileStudy, *, width_px: int = WIDTH_PX) -> svg.Picture:
    """Return the map; pairs that do not fit are crossed out, the mapping's own is framed."""
    columns, rows = figure.across[1], figure.up[1]
    pairs = zip(figure.energy_pj, figure.fits, strict=True)
    values = [log10(pj) for costs, fits in pairs for pj, good in zip(costs, fits, strict=True) if good]
    low, high = min(values, default=0.0), max(values, default=1.0)
    layout, side = cell_chart(
        "What two tile sizes cost", figure.title, width_px, (len(columns), len(rows)), left=_LEFT, side=_SIDE
    )
    frame = layout.frame
    shapes = cell_names(frame, [f"{tile:,}" for tile in columns], [f"{tile:,}" for tile in rows])
    for i, tile in enumerate(rows):
        for j, other in enumerate(columns):
            share = (log10(figure.energy_pj[i][j]) - low) / ((high - low) or 1.0)
            pj, fits = figure.energy_pj[i][j], figure.fits[i][j]
            words = f"{figure.across[0]} {other:,}, {figure.up[0]} {tile:,}: {energy(pj)}"
            cell = _cell(frame.left + side * j, frame.bottom - side * (i + 1), side, share, pj if fits else None)
            shapes.append(svg.hint(cell, words if fits else f"{words}, does not fit"))
    own = frame.left + side * columns.index(figure.own[0]), frame.bottom - side * (rows.index(figure.own[1]) + 1)
    more = 'stroke-width="4"'
    shapes.append(svg.rect(own[0] + 1, own[1] + 1, side - 3, side - 3, fill="none", stroke=_OWN, more=more))
    shapes += [frame.across(figure.across[0]), frame.up(figure.up[0])]
    key = [KeyRow("", svg.INK, "energy (log)")]
    key += [
        KeyRow("box", _colour(step / 4), energy(10 ** (low + (high - low) * step / 4)), edge=svg.RULE)
        for step in range(5)
    ]
    key += [
        KeyRow("box", svg.PAPER, "crossed: does not fit", edge=_CROSS),
        KeyRow("box", svg.PAPER, "the mapping shown", edge=_OWN),
    ]
    return layout.picture(f"Two tile sizes: {figure.title}", shapes, key, figure)


def _colour(share: float) -> str:
    return "#" + "".join(
        f"{round(dark + share * (light - dark)):02x}" for light, dark in zip(_LIGHT, _DARK, strict=True)
    )


def _cell(left: float, top: float, side: float, share: float, pj: float | None) -> list[str]:
    """Return a cell, with its energy where that is readable; pj: None where it does not fit."""
    shapes = [
        svg.rect(left, top, side - 1, side - 1, fill=svg.PAPER if pj is None else _colour(share), stroke=svg.RULE)
    ]
    if pj is None:
        ends = left + side / 5, top + side / 5, left + 4 * side / 5, top + 4 * side / 5
        return [*shapes, svg.line(*ends, stroke=_CROSS, width=1.5)]
    if side < 36:
        return shapes
    number, unit = energy(pj).split()
    ink, middle = svg.INK if share > 0.5 else svg.PAPER, left + side / 2
    shapes.append(svg.text(middle, top + 20, number, size=10, fill=ink, anchor="middle"))
    return [*shapes, svg.text(middle, top + 33, unit, size=9, fill=ink, anchor="middle")]


_WINNER_PX, _WINNER_LEFT_PX = 64.0, 100.0


@svg.draws(WinnerStudy)
def winner_svg(figure: WinnerStudy, *, width_px: int = WIDTH_PX) -> svg.Picture:
    """Return the map: colour and form say the dataflow; an open question mark that the winner is not proven."""
    names = [[size(bits) for bits in bits_of] for bits_of in (figure.across[1], figure.up[1])]
    cells = len(names[0]), len(names[1])
    layout, side = cell_chart(
        "Which dataflow wins", figure.title, width_px, cells, left=_WINNER_LEFT_PX, side=_WINNER_PX, high=_WINNER_PX
    )
    frame = layout.frame
    shapes = cell_names(frame, *names)
    for i, row in enumerate(figure.winners):
        for j, winner in enumerate(row):
            cell = _winner_cell(frame.left + side * j, frame.bottom - _WINNER_PX * (i + 1), side, winner)
            shapes.append(svg.hint(cell, _told(figure, i, j)))
    shapes += [frame.across(f"size of {figure.across[0]}"), frame.up(f"size of {figure.up[0]}")]
    found = dict.fromkeys(winner.name for row in figure.winners for winner in row)
    key = [KeyRow(*svg.FORMS.get(name, svg.OTHER), name) for name in found]
    if any(not winner.is_proven for row in figure.winners for winner in row):
        key.append(KeyRow("", svg.GREY, "?  not proven"))
    return layout.picture(f"Which dataflow wins: {figure.title}", shapes, key, figure)


def _told(figure: WinnerStudy, i: int, j: int) -> str:
    """Return what a cell means."""
    sizes = f"{figure.across[0]} {size(figure.across[1][j])}, {figure.up[0]} {size(figure.up[1][i])}"
    winner = figure.winners[i][j]
    if winner.dataflow is None:
        return f"{sizes}: {'nothing fits' if winner.is_proven else 'no mapping is known'}"
    return f"{sizes}: {winner.dataflow}, {energy(winner.energy_pj)}, {'proven' if winner.is_proven else 'not proven'}"


def _winner_cell(left: float, top: float, side: float, winner: Winner) -> list[str]:
    form, colour = svg.FORMS.get(winner.dataflow or "", svg.OTHER)
    shapes = [svg.rect(left, top, side - 2, _WINNER_PX - 2, fill=svg.tint(colour, 0.25), stroke=svg.RULE, round_by=3)]
    if winner.dataflow is None:
        told = "no fit" if winner.is_proven else "?"
        return [
            *shapes,
            svg.text(left + side / 2, top + _WINNER_PX / 2 + 4, told, size=10, anchor="middle", fill=svg.GREY),
        ]
    shapes += svg.mark(form, left + side / 2 - 1, top + 22, colour, 8)
    told = energy(winner.energy_pj) + ("" if winner.is_proven else " ?")
    if svg.text_width(told, 10) > side + 4:
        return shapes if winner.is_proven else [*shapes, svg.text(left + side / 2 - 1, top + 50, "?", anchor="middle")]
    return [*shapes, svg.text(left + side / 2 - 1, top + 50, told, size=10, anchor="middle", fill=svg.INK)]
