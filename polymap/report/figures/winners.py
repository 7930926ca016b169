"""Which dataflow the best mapping has, over the sizes of two buffers."""

from __future__ import annotations

from polymap.formatting import energy, size
from polymap.inputs import expected_kind
from polymap.networks import Winner, WinnerStudy
from polymap.report.figures.axes import FORMS, OTHER, Shapes, mark
from polymap.report.figures.chart import head
from polymap.report.figures.svg import GREY, INK, RULE, Picture, hint, picture, rect, text, tint

_SIDE, _LEFT, _TOP = 64.0, 110.0, 108.0


def winner_svg(figure: WinnerStudy) -> Picture:
    """Return the map: colour and form say the dataflow; an open question mark that the winner is not proven."""
    figure = expected_kind(figure, WinnerStudy, "the figure")
    shapes: Shapes = head("Which dataflow wins", figure.title)
    bottom = _TOP + _SIDE * len(figure.winners)
    for i, row in enumerate(figure.winners):
        top = bottom - _SIDE * (i + 1)
        name = size(figure.up[1][i])
        shapes.append(text(_LEFT - 10, top + _SIDE / 2 + 4, name, size=11, fill=GREY, anchor="end"))
        for j, winner in enumerate(row):
            shapes.append(hint(_cell(_LEFT + _SIDE * j, top, winner), _told(figure, i, j)))
    for j, bits in enumerate(figure.across[1]):
        shapes.append(text(_LEFT + _SIDE * (j + 0.5), bottom + 18, size(bits), size=11, fill=GREY, anchor="middle"))
    shapes.append(text(_LEFT, bottom + 40, f"size of {figure.across[0]}", size=11.5, fill=GREY))
    shapes.append(text(_LEFT, _TOP - 14, f"size of {figure.up[0]}", size=11.5, fill=GREY))
    right = _LEFT + _SIDE * len(figure.across[1]) + 32
    names = dict.fromkeys(winner.name for row in figure.winners for winner in row)
    for place, name in enumerate(names):
        form, colour = FORMS.get(name, OTHER)
        shapes += mark(form, right + 6, _TOP + 6 + 26 * place, colour)
        shapes.append(text(right + 22, _TOP + 10 + 26 * place, name, size=12))
    if any(not winner.is_proven for row in figure.winners for winner in row):
        shapes.append(text(right, _TOP + 10 + 26 * len(names), "?  not proven", size=12, fill=GREY))
    return picture(right + 190, max(bottom + 60, _TOP + 200), f"Which dataflow wins: {figure.title}", shapes, figure)


def _told(figure: WinnerStudy, i: int, j: int) -> str:
    """Return what a cell means."""
    sizes = f"{figure.across[0]} {size(figure.across[1][j])}, {figure.up[0]} {size(figure.up[1][i])}"
    winner = figure.winners[i][j]
    if winner.dataflow is None:
        return f"{sizes}: {'nothing fits' if winner.is_proven else 'no mapping is known'}"
    return f"{sizes}: {winner.dataflow}, {energy(winner.energy_pj)}, {'proven' if winner.is_proven else 'not proven'}"


def _cell(left: float, top: float, winner: Winner) -> Shapes:
    form, colour = FORMS.get(winner.dataflow or "", OTHER)
    shapes = [rect(left, top, _SIDE - 2, _SIDE - 2, fill=tint(colour, 0.25), stroke=RULE, round_by=3)]
    if winner.dataflow is None:
        told = "no fit" if winner.is_proven else "?"
        return [*shapes, text(left + _SIDE / 2, top + _SIDE / 2 + 4, told, size=10, anchor="middle", fill=GREY)]
    shapes += mark(form, left + _SIDE / 2 - 1, top + 22, colour, 8)
    told = energy(winner.energy_pj) + ("" if winner.is_proven else " ?")
    return [*shapes, text(left + _SIDE / 2 - 1, top + 50, told, size=10, anchor="middle", fill=INK)]
