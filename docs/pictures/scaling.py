"""Draw docs/scaling.svg from the table of docs/scaling.md, which `benchmarks/scaling.py` measures.

python docs/pictures/scaling.py
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from polymap.formatting import short
from polymap.report.figures.chart import FOUND, Axis, Frame, new_chart, round_axis, ticks_of
from polymap.report.figures.svg import GREY, PAPER, circle, hint, picture, polyline, text

DOCS = Path(__file__).parents[1]
LIMIT_S = 30.0
NAMES = {
    "levels": "levels of the machine",
    "dims": "dims of extent 8",
    "extent": "extent of a cubic product",
    "primes": "prime extent of a cubic product",
    "width": "width of a convolution's output",
    "windows": "levels, under a convolution",
}


@dataclass(frozen=True)
class Point:
    """A row of the table: x of its series, CPU seconds of the proof (the limit where there is none)."""

    series: str
    x: int
    cpu_s: float
    is_proven: bool


def points(table: str) -> list[Point]:
    """Return the rows of the table."""
    found: list[Point] = []
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) != 7 or not re.fullmatch(r"[\d,]+", cells[2]):
            continue
        series = cells[0] or found[-1].series
        is_proven = re.fullmatch(r"[\d.]+", cells[5]) is not None
        found.append(
            Point(series, int(cells[2].replace(",", "")), float(cells[5]) if is_proven else LIMIT_S, is_proven)
        )
    return found


def drawn(rows: list[Point]) -> str:
    """Return a panel per series, on one scale of seconds; hollow points ended without a proof."""
    told = "CPU seconds with start-up (log); hollow: no proof within 30 s"
    shapes = [*new_chart("How the cost of a proof grows", told, 980, high=()).heading]
    for number, series in enumerate(dict.fromkeys(row.series for row in rows)):
        left, top = 90 + 300 * (number % 3), 110 + 230 * (number // 3)
        frame = Frame(left=left, right=left + 220, top=top, bottom=top + 140)
        shapes += panel([row for row in rows if row.series == series], NAMES[series], frame)
    return picture(980, 530, "How the cost of a proof grows: CPU seconds of six series", shapes)


def panel(rows: list[Point], name: str, frame: Frame) -> list[str]:
    """Return one series."""
    y = Axis(0.5, 100.0, frame.bottom, frame.top, logarithmic=True)
    grows = rows[-1].x > 20
    x = round_axis([row.x for row in rows], frame.left, frame.right, logarithmic=grows)
    shapes = [text(frame.left - 34, frame.top - 14, name + (" (log)" if grows else ""), size=12, bold=True)]
    for value in (1.0, 10.0, 100.0):
        shapes += frame.level(y.place(value), f"{value:g} s")
    marks = ticks_of(x) if grows else sorted({float(row.x) for row in rows})
    shapes += frame.uprights([(x.place(value), short(value)) for value in marks])
    placed = [(x.place(row.x), y.place(row.cpu_s)) for row in rows]
    shapes.append(polyline(placed, stroke=FOUND, width=2))
    for row, place in zip(rows, placed, strict=True):
        dot = circle(*place, 4.5, fill=FOUND if row.is_proven else PAPER, stroke=PAPER if row.is_proven else FOUND)
        told = f"{row.x:,}: {row.cpu_s:g} CPU s" if row.is_proven else f"{row.x:,}: no proof within {LIMIT_S:g} s"
        shapes.append(hint([dot], told))
    slowest = max(rows, key=lambda row: row.cpu_s)
    label = f"{slowest.cpu_s:g} s" if slowest.is_proven else "no proof"
    where = x.place(slowest.x), y.place(slowest.cpu_s) - 10
    return [*shapes, text(*where, label, size=10.5, fill=GREY, anchor="end" if where[0] > frame.left + 60 else "start")]


def main() -> None:
    """Rewrite the picture."""
    table = (DOCS / "scaling.md").read_text(encoding="utf-8")
    (DOCS / "scaling.svg").write_text(drawn(points(table)), encoding="utf-8")


if __name__ == "__main__":
    main()
