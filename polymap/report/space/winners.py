"""Which dataflow the best mapping has, over the sizes of two buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from polymap.buffer_sweep import sizes_of
from polymap.costmodel.analysis import dataflow
from polymap.explore import search
from polymap.formatting import energy, size
from polymap.inputs import expected_list, shown
from polymap.ir import (
    Architecture,
    MemoryLevel,
    Mistake,
    OptionError,
    Shown,
    Workload,
    show_as_picture,
)
from polymap.report.figures import GREY, INK, RULE, Picture, expected_figure, head, hint, picture, rect, text, tint
from polymap.report.space.axes import FORMS, OTHER, Shapes, mark
from polymap.resolve import question_of
from polymap.search.run import Options

_SIDE, _LEFT, _TOP = 64.0, 110.0, 108.0


@dataclass(frozen=True, slots=True)
class Winner:
    """The best mapping known for one pair of sizes: its dataflow, its energy in pJ, and whether it is proven that none
    costs less. None: no mapping is known; where that is proven, nothing fits."""

    dataflow: str | None
    energy_pj: float
    is_proven: bool

    @property
    def name(self) -> str:
        """Return the dataflow, or why there is none."""
        return self.dataflow or ("nothing fits" if self.is_proven else "none known")


@dataclass(frozen=True, slots=True)
class WinnerFigure(Shown):
    """across, up: (level, sizes in bits); winners: [up][across]."""

    title: str
    across: tuple[str, tuple[int, ...]]
    up: tuple[str, tuple[int, ...]]
    winners: tuple[tuple[Winner, ...], ...]


def with_capacity(arch: Architecture, level: str, bits: int) -> Architecture:
    """Return the machine with another size of one level."""
    nodes = (
        replace(node, capacity_bits=bits) if isinstance(node, MemoryLevel) and node.name == level else node
        for node in arch.nodes
    )
    return replace(arch, nodes=tuple(nodes))


def winner_figure(
    workload: Workload | str,
    arch: Architecture | str,
    across: tuple[str, Sequence[int]],
    up: tuple[str, Sequence[int]],
    *,
    time_limit_s: float = 60,
) -> WinnerFigure:
    """Return the dataflow of the mapping of least energy (dividing tiles) for each pair of sizes: (level, bits).

    Raises OptionError for unknown levels and sizes that are no integers of at least 1.
    """
    workload, arch = question_of(workload, arch)
    for axis in (across, up):
        if len(expected_list(axis, "an axis")) != 2:
            raise OptionError(Mistake("PM120", f"an axis is {shown(axis)}", "Expected (level, sizes in bits)."))
        sizes_of(arch, *axis)
    Options(tiles="divide", time_limit_s=time_limit_s).check()
    rows: list[tuple[Winner, ...]] = []
    share = time_limit_s / max(1, len(across[1]) * len(up[1]))
    for tall in up[1]:
        row: list[Winner] = []
        for wide in across[1]:
            machine = with_capacity(with_capacity(arch, across[0], wide), up[0], tall)
            result = search(workload, machine, "energy", "divide", time_limit_s=share)
            if result.best is None or result.cost is None:
                row.append(Winner(None, 0.0, is_proven=result.status == "INFEASIBLE"))
                continue
            name = dataflow(workload, machine, result.best, result.cost).value
            row.append(Winner(name, result.cost.energy_pj, is_proven=result.status == "OPTIMAL"))
        rows.append(tuple(row))
    title = f"{workload.name} on {arch.name}: the mapping of least energy"
    return WinnerFigure(title, (across[0], tuple(across[1])), (up[0], tuple(up[1])), tuple(rows))


def winner_svg(figure: WinnerFigure) -> Picture:
    """Return the map: colour and form say the dataflow; an open question mark that the winner is not proven."""
    figure = expected_figure(figure, WinnerFigure)
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
    return picture(right + 190, max(bottom + 60, _TOP + 200), f"Which dataflow wins: {figure.title}", shapes)


def _told(figure: WinnerFigure, i: int, j: int) -> str:
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


show_as_picture(WinnerFigure, winner_svg)
