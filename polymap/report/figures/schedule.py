"""The scattering functions of a schedule: per statement `[i,j] -> [t1,t2]` and its matrix, data first."""

from __future__ import annotations

from dataclasses import dataclass

from polymap.formatting import listing
from polymap.inputs import expected_kind
from polymap.ir import Shown, show_as_picture
from polymap.report.figures.svg import GREY, INK, Picture, line, picture, text, text_width
from polymap.schedules import ScatteringMatrix, Schedule, scattering_matrices

_TOP, _CELL, _HIGH, _GAP = 64.0, 40.0, 24.0, 34.0


@dataclass(frozen=True, slots=True)
class ScheduleFigure(Shown):
    """One matrix per statement, all of one number of rows."""

    title: str
    matrices: tuple[ScatteringMatrix, ...]


def schedule_figure(schedule: Schedule) -> ScheduleFigure:
    """Return the scattering functions of a schedule, statement by statement, as text and as matrices."""
    schedule = expected_kind(schedule, Schedule, "the schedule")
    return ScheduleFigure(schedule.workload.name, scattering_matrices(schedule))


def scattering_text(matrix: ScatteringMatrix) -> str:
    """Return `[i, j] -> [t0, t1]` with the times written out."""
    return f"[{', '.join(matrix.dims)}] -> [{', '.join(matrix.times)}]"


def schedule_svg(figure: ScheduleFigure) -> Picture:
    """Return the matrices below each other: counters above the columns, the times t0, t1, ... before the rows. Times
    that are 0 in all statements order nothing and are left out."""
    figure = expected_kind(figure, ScheduleFigure, "the figure")
    shapes = [text(24, 34, f"Schedule of {figure.title}", size=15, bold=True)]
    y, width = _TOP, 320.0
    longest = max((len(matrix.rows) for matrix in figure.matrices), default=0)
    kept = [t for t in range(longest) if any(any(m.rows[t]) for m in figure.matrices if t < len(m.rows))]
    for matrix in figure.matrices:
        shapes += [text(24, y, matrix.statement, bold=True), text(60, y, scattering_text(matrix), mono=True)]
        width = max(width, 84 + text_width(scattering_text(matrix), 12, mono=True))
        cells = [max(_CELL, text_width(name, 11, mono=True) + 12) for name in matrix.columns]
        ends = [88 + sum(cells[: place + 1]) for place in range(len(cells))]
        width = max(width, ends[-1] + 48)
        top = y + 34
        shapes += [
            text(x - 8, top - 8, name, size=11, fill=GREY, anchor="end", mono=True)
            for x, name in zip(ends, matrix.columns, strict=True)
        ]
        rows = [(time, matrix.rows[time]) for time in kept if time < len(matrix.rows)]
        for place, (time, row) in enumerate(rows):
            base = top + 16 + place * _HIGH
            shapes.append(text(76, base, f"t{time}", size=11, fill=GREY, anchor="end", mono=True))
            shapes += [
                text(x - 8, base, str(value), fill=INK if value else GREY, anchor="end", bold=bool(value), mono=True)
                for x, value in zip(ends, row, strict=True)
            ]
        bottom = top + len(rows) * _HIGH
        shapes += [*_bracket(88, top, bottom, 5), *_bracket(ends[-1] + 2, top, bottom, -5)]
        y = bottom + _GAP
    if len(kept) < longest:
        left = listing([f"t{time}" for time in range(longest) if time not in kept])
        words = f"0 in all statements: {left}"
        shapes.append(text(24, y, words, size=11, fill=GREY))
        y, width = y + 24, max(width, 48 + text_width(words, 11))
    return picture(width, y - 8, f"Schedule of {figure.title}", shapes, figure)


def _bracket(x: float, top: float, bottom: float, inwards: float) -> list[str]:
    return [
        line(x, top, x, bottom, stroke=GREY, width=1.5),
        line(x, top, x + inwards, top, stroke=GREY, width=1.5),
        line(x, bottom, x + inwards, bottom, stroke=GREY, width=1.5),
    ]


show_as_picture(ScheduleFigure, schedule_svg)
