"""What fusing the nests of a program saves: elements moved at each level, nest after nest and fused."""

from __future__ import annotations

from polymap.formatting import exact, short
from polymap.inputs import expected_kind
from polymap.networks import Fusion
from polymap.report.figures.chart import BOUND, FOUND, WIDTH_PX, KeyRow, new_chart, round_axis, ticks_of
from polymap.report.figures.svg import GREY, Picture, fitted, hint, rect, text

_ROW = 40.0


def fusion_svg(answer: Fusion, *, width_px: int = WIDTH_PX) -> Picture:
    """Return two bars per level and tensor that moves there: nest after nest above, the best tree below."""
    answer = expected_kind(answer, Fusion, "the answer")
    rows = [row for row in answer.moved if row.unfused or row.fused]
    told, high = str(answer).splitlines()[0], _ROW * len(rows)
    layout = new_chart("What fusing saves", told, width_px, left=190, right=70, high=(high,), key=150)
    frame = layout.frame
    x = round_axis([0.0, 1.0, *(float(max(row.unfused, row.fused)) for row in rows)], frame.left, frame.right)
    shapes = frame.uprights([(x.place(tick), short(tick)) for tick in ticks_of(x)])
    for number, row in enumerate(rows):
        top = frame.top + _ROW * number
        name = f"{row.tensor} at {row.level}"
        shapes.append(text(frame.left - 12, top + 23, fitted(name, frame.left - 28), anchor="end"))
        for place, count, colour, way in ((4, row.unfused, BOUND, "nest after nest"), (20, row.fused, FOUND, "fused")):
            end = x.place(float(count))
            bar = rect(frame.left, top + place, max(end - frame.left, 0.5), 14, fill=colour, round_by=2)
            shapes.append(hint([bar], f"{name}, {way}: {exact(count)} elements"))
            shapes.append(text(end + 6, top + place + 11, exact(count), size=11, fill=GREY))
    shapes.append(frame.across("elements read and written"))
    key = (KeyRow("box", BOUND, "nest after nest"), KeyRow("box", FOUND, "fused"))
    return layout.picture(f"What fusing saves: {answer.workload.name}", shapes, key, answer)
