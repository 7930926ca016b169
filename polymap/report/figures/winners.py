"""Which dataflow the best mapping has, over the sizes of two buffers."""

from __future__ import annotations

from polymap.formatting import energy, size
from polymap.inputs import expected_kind
from polymap.networks import Winner, WinnerStudy
from polymap.report.figures.chart import WIDTH_PX, KeyRow, cell_chart, cell_names
from polymap.report.figures.forms import FORMS, OTHER
from polymap.report.figures.svg import GREY, INK, RULE, Picture, hint, mark, rect, text, text_width, tint

_SIDE, _LEFT = 64.0, 100.0


def winner_svg(figure: WinnerStudy, *, width_px: int = WIDTH_PX) -> Picture:
    """Return the map: colour and form say the dataflow; an open question mark that the winner is not proven."""
    figure = expected_kind(figure, WinnerStudy, "the figure")
    names = [[size(bits) for bits in bits_of] for bits_of in (figure.across[1], figure.up[1])]
    cells = len(names[0]), len(names[1])
    layout, side = cell_chart("Which dataflow wins", figure.title, width_px, cells, left=_LEFT, side=_SIDE, high=_SIDE)
    frame = layout.frame
    shapes = cell_names(frame, *names)
    for i, row in enumerate(figure.winners):
        for j, winner in enumerate(row):
            cell = _cell(frame.left + side * j, frame.bottom - _SIDE * (i + 1), side, winner)
            shapes.append(hint(cell, _told(figure, i, j)))
    shapes += [frame.across(f"size of {figure.across[0]}"), frame.up(f"size of {figure.up[0]}")]
    found = dict.fromkeys(winner.name for row in figure.winners for winner in row)
    key = [KeyRow(*FORMS.get(name, OTHER), name) for name in found]
    if any(not winner.is_proven for row in figure.winners for winner in row):
        key.append(KeyRow("", GREY, "?  not proven"))
    return layout.picture(f"Which dataflow wins: {figure.title}", shapes, key, figure)


def _told(figure: WinnerStudy, i: int, j: int) -> str:
    """Return what a cell means."""
    sizes = f"{figure.across[0]} {size(figure.across[1][j])}, {figure.up[0]} {size(figure.up[1][i])}"
    winner = figure.winners[i][j]
    if winner.dataflow is None:
        return f"{sizes}: {'nothing fits' if winner.is_proven else 'no mapping is known'}"
    return f"{sizes}: {winner.dataflow}, {energy(winner.energy_pj)}, {'proven' if winner.is_proven else 'not proven'}"


def _cell(left: float, top: float, side: float, winner: Winner) -> list[str]:
    form, colour = FORMS.get(winner.dataflow or "", OTHER)
    shapes = [rect(left, top, side - 2, _SIDE - 2, fill=tint(colour, 0.25), stroke=RULE, round_by=3)]
    if winner.dataflow is None:
        told = "no fit" if winner.is_proven else "?"
        return [*shapes, text(left + side / 2, top + _SIDE / 2 + 4, told, size=10, anchor="middle", fill=GREY)]
    shapes += mark(form, left + side / 2 - 1, top + 22, colour, 8)
    told = energy(winner.energy_pj) + ("" if winner.is_proven else " ?")
    if text_width(told, 10) > side + 4:
        return shapes if winner.is_proven else [*shapes, text(left + side / 2 - 1, top + 50, "?", anchor="middle")]
    return [*shapes, text(left + side / 2 - 1, top + 50, told, size=10, anchor="middle", fill=INK)]
