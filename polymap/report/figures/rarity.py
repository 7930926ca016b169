"""How rare good mappings are: a histogram of costs over the sampled space, and the share that is at most so bad."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10

from polymap.formatting import percent, short
from polymap.inputs import as_fraction, expected_kind, expected_list, shown
from polymap.ir import (
    Mistake,
    OptionError,
    Shown,
    show_as_picture,
)
from polymap.report.figures.chart import BOUND, FOUND, WIDTH_PX, KeyRow, grid, log_word, new_chart, round_axis
from polymap.report.figures.svg import INK, Picture, hint, line, polyline, rect, tint

_BINS = 48


@dataclass(frozen=True, slots=True)
class RarityFigure(Shown):
    """What is drawn: (from, to, share) of the costs over the optimum, equally wide in logarithms; (times the optimum,
    share of the space at most so bad); how many mappings were sampled."""

    title: str
    bins: tuple[tuple[float, float, float], ...]
    cumulative: tuple[tuple[float, float], ...]
    sampled: int

    def share_within(self, times: float) -> float:
        """Return the share of the sampled mappings that cost at most so many times the optimum."""
        place = bisect_right([each for each, _ in self.cumulative], times)
        return self.cumulative[place - 1][1] if place else 0.0


def rarity_figure(title: str, costs: Sequence[float], optimum: float) -> RarityFigure:
    """Return the figure of sampled costs; optimum: the least cost of all (> 0).

    Raises OptionError where there are no costs, or one is no positive number."""
    found = [as_fraction(cost) or 0 for cost in expected_list(costs, "the list of costs")]
    best = as_fraction(optimum) or 0
    if not found or min(best, *found) <= 0:
        what = f"the costs are {shown(costs)}, the optimum {shown(optimum)}"
        raise OptionError(Mistake("PM120", what, "Expected a list of positive numbers, and a positive one."))
    ratios = sorted(cost / optimum for cost in costs)
    high = log10(max(ratios[-1] * 1.0001, 10.0))
    edges = [10 ** (high * step / _BINS) for step in range(_BINS + 1)]
    counts = [bisect_left(ratios, after) - bisect_left(ratios, before) for before, after in pairwise(edges)]
    bins = tuple((a, b, n / len(ratios)) for a, b, n in zip(edges, edges[1:], counts, strict=False))
    steps = tuple((ratio, (number + 1) / len(ratios)) for number, ratio in enumerate(ratios))
    return RarityFigure(title, bins, steps, len(ratios))


def rarity_svg(figure: RarityFigure, *, width_px: int = WIDTH_PX) -> Picture:
    """Return the cumulative share as a line, and below it the share of each bin, over one logarithmic axis."""
    figure = expected_kind(figure, RarityFigure, "the figure")
    layout = new_chart("How rare is a good mapping?", figure.title, width_px, left=86, high=(164, 100))
    above, below = layout.frames
    x = round_axis([1.0, figure.bins[-1][1]], above.left, above.right, logarithmic=True)
    top = max(share for _, _, share in figure.bins)
    y = round_axis([0.0, 1.0], above.bottom, above.top)
    tall = round_axis([0.0, top], below.bottom, below.top)
    shapes = grid(above, x, y, lambda _: "", percent) + grid(below, x, tall, lambda v: f"{v:g}x", percent)
    for low, end, share in figure.bins:
        left, high = x.place(low), tall.place(share)
        width = max(0.5, x.place(end) - left - 1)
        bar = rect(left, high, width, below.bottom - high, fill=tint(FOUND, 0.45))
        if share:
            words = f"{percent(share)} of the mappings cost {low:.3g} to {end:.3g} times the optimum"
            shapes.append(hint([bar], words))
    every = max(1, len(figure.cumulative) // 600)
    shapes.append(polyline([(x.place(a), y.place(b)) for a, b in figure.cumulative[::every]], stroke=BOUND, width=2.2))
    for frame in layout.frames:
        shapes.append(line(x.place(1), frame.top, x.place(1), frame.bottom, stroke=INK, width=1.5))
    shapes += [
        below.across(log_word("cost over the optimum", x)),
        above.up("share of the space that is at most so bad"),
    ]
    shapes.append(below.up("share of the space in each bin"))
    best = figure.cumulative[0][0]
    rows = [
        (f"within {times:g}x", percent(share) if (share := figure.share_within(times)) else "none")
        for times in (1.1, 1.5, 2, 5)
    ]
    rows += [("best sampled", f"{best:.2f}x"), ("sampled", short(figure.sampled))]
    key = [KeyRow("", INK, what, number) for what, number in rows]
    return layout.picture(f"How rare is a good mapping: {figure.title}", shapes, key, figure)


show_as_picture(RarityFigure, rarity_svg)
