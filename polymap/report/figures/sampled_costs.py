"""Costs of sampled mappings: how rare good ones are, and whether neighbours cost alike."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10

import numpy as np

from polymap.formatting import energy, exact, percent, short
from polymap.inputs import as_fraction, expected_kind, expected_list, shown
from polymap.ir import Mapping, Mistake, OptionError, Shown
from polymap.report import TUNING
from polymap.report.figures import svg
from polymap.report.figures.chart import BOUND, FOUND, WIDTH_PX, KeyRow, grid, log_word, new_chart
from polymap.search.trees import Sample, neighbours, score


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
    edges = [10 ** (high * step / TUNING.bins) for step in range(TUNING.bins + 1)]
    counts = [bisect_left(ratios, after) - bisect_left(ratios, before) for before, after in pairwise(edges)]
    bins = tuple((a, b, n / len(ratios)) for a, b, n in zip(edges, edges[1:], counts, strict=False))
    steps = tuple((ratio, (number + 1) / len(ratios)) for number, ratio in enumerate(ratios))
    return RarityFigure(title, bins, steps, len(ratios))


@svg.draws(RarityFigure)
def rarity_svg(figure: RarityFigure, *, width_px: int = WIDTH_PX) -> svg.Picture:
    """Return the cumulative share as a line, and below it the share of each bin, over one logarithmic axis."""
    layout = new_chart("How rare is a good mapping?", figure.title, width_px, left=86, high=(164, 100))
    above, below = layout.frames
    x = above.x_axis([1.0, figure.bins[-1][1]], logarithmic=True)
    top = max(share for _, _, share in figure.bins)
    y = above.y_axis([0.0, 1.0])
    tall = below.y_axis([0.0, top])
    shapes = grid(above, x, y, lambda _: "", percent) + grid(below, x, tall, lambda v: f"{v:g}x", percent)
    for low, end, share in figure.bins:
        left, high = x.place(low), tall.place(share)
        width = max(0.5, x.place(end) - left - 1)
        bar = svg.rect(left, high, width, below.bottom - high, fill=svg.tint(FOUND, 0.45))
        if share:
            words = f"{percent(share)} of the mappings cost {low:.3g} to {end:.3g} times the least"
            shapes.append(svg.hint([bar], words))
    every = max(1, len(figure.cumulative) // 600)
    shapes.append(
        svg.polyline([(x.place(a), y.place(b)) for a, b in figure.cumulative[::every]], stroke=BOUND, width=2.2)
    )
    for frame in layout.frames:
        shapes.append(svg.line(x.place(1), frame.top, x.place(1), frame.bottom, stroke=svg.INK, width=1.5))
    shapes += [
        below.across(log_word("times the least", x)),
        above.up("share of the space that is at most so bad"),
    ]
    shapes.append(below.up("share of the space in each bin"))
    best = figure.cumulative[0][0]
    rows = [
        (f"within {times:g}x", percent(share) if (share := figure.share_within(times)) else "none")
        for times in (1.1, 1.5, 2, 5)
    ]
    rows += [("best sampled", f"{best:.2f}x"), ("sampled", short(figure.sampled))]
    key = [KeyRow("", svg.INK, what, number) for what, number in rows]
    return layout.picture(f"How rare is a good mapping: {figure.title}", shapes, key, figure)


@dataclass(frozen=True, slots=True)
class SmoothFigure(Shown):
    """pairs: (energy of a sampled mapping, of a neighbour) in pJ. correlation: of the logarithms over all pairs;
    of_random: of equally many pairs of mappings that have nothing to do with each other. minima: how many of the
    mappings have no better neighbour."""

    title: str
    pairs: tuple[tuple[float, float], ...]
    correlation: float
    of_random: float
    mappings: int
    minima: int


def smooth_figure(sample: Sample) -> SmoothFigure:
    """Return the figure of all neighbours of a sample's mappings (capacity aside)."""
    own = expected_kind(sample, Sample, "the sample").scores().energy_pj
    near: list[Mapping] = []
    which: list[int] = []
    for number, mapping in enumerate(sample):
        found = neighbours(sample.workload, sample.arch, mapping)
        near += found
        which += [number] * len(found)
    theirs = score(sample.workload, sample.arch, near).energy_pj
    firsts = own[which]
    minima = sum(not (theirs[np.array(which) == number] < own[number]).any() for number in range(len(sample)))
    others = np.roll(own, 1)[which]
    title = f"{sample.workload.name} on {sample.arch.name}"
    pairs = tuple(zip(firsts.tolist(), theirs.tolist(), strict=True))
    both = (_correlation(firsts.tolist(), theirs.tolist()), _correlation(firsts.tolist(), others.tolist()))
    return SmoothFigure(title, pairs, *both, len(sample), minima)


def _correlation(one: Sequence[float], other: Sequence[float]) -> float:
    return float(np.corrcoef([log10(value) for value in one], [log10(value) for value in other])[0, 1])


@svg.draws(SmoothFigure)
def smooth_svg(figure: SmoothFigure, *, width_px: int = WIDTH_PX) -> svg.Picture:
    """Return a point per pair, both axes logarithmic and alike; on the diagonal nothing changes."""
    values = [value for pair in figure.pairs for value in pair]
    layout = new_chart("Is the space smooth?", figure.title, width_px, high=(334,), key=320)
    frame = layout.frame
    x = frame.x_axis(values, logarithmic=True)
    y = frame.y_axis(values, logarithmic=True)
    every = max(1, len(figure.pairs) // TUNING.drawn_points)
    beside: dict[float, list[float]] = {}
    for own, near in figure.pairs[::every]:
        beside.setdefault(own, []).append(near)
    shapes = grid(frame, x, y, energy, energy)
    for own, near in beside.items():
        column = svg.dots([(x.place(own), y.place(each)) for each in near], stroke=svg.tint(FOUND, 0.5), width=2.6)
        words = f"energy {energy(own)}; neighbours shown: {energy(min(near))} to {energy(max(near))}"
        shapes.append(svg.hint([column], words))
    shapes.append(svg.line(frame.left, frame.bottom, frame.right, frame.top, stroke=svg.INK, dash="4 4"))
    shapes += [frame.across(log_word("energy of a mapping", x)), frame.up(log_word("energy of its neighbour", y))]
    words = (
        ("mappings drawn", exact(figure.mappings)),
        ("pairs of neighbours", exact(len(figure.pairs))),
        ("correlation of logarithms", f"{figure.correlation:.2f}"),
        ("of unrelated mappings", f"{figure.of_random:.2f}"),
        ("no neighbour is better", f"{exact(figure.minima)} of {exact(figure.mappings)}"),
    )
    key = [
        *(KeyRow("", svg.INK, what, number) for what, number in words),
        KeyRow("dashes", svg.INK, "the neighbour costs as much"),
    ]
    return layout.picture(f"Costs of neighbours: {figure.title}", shapes, key, figure)
