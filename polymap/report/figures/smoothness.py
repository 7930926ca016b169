"""Is the space smooth? The cost of mappings against that of their neighbours, and of mappings drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log10

import numpy as np

from polymap.formatting import energy, exact
from polymap.inputs import expected_kind
from polymap.ir import (
    Mapping,
    Shown,
    show_as_picture,
)
from polymap.mapping_space import Sample, neighbours, score_mappings
from polymap.report.figures.chart import FOUND, WIDTH_PX, KeyRow, grid, log_word, new_chart, round_axis
from polymap.report.figures.svg import INK, Picture, hint, line, tint


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
    theirs = score_mappings(sample.workload, sample.arch, near).energy_pj
    firsts = own[which]
    minima = sum(not (theirs[np.array(which) == number] < own[number]).any() for number in range(len(sample)))
    others = np.roll(own, 1)[which]
    title = f"{sample.workload.name} on {sample.arch.name}"
    pairs = tuple(zip(firsts.tolist(), theirs.tolist(), strict=True))
    both = (_correlation(firsts.tolist(), theirs.tolist()), _correlation(firsts.tolist(), others.tolist()))
    return SmoothFigure(title, pairs, *both, len(sample), minima)


def _correlation(one: Sequence[float], other: Sequence[float]) -> float:
    return float(np.corrcoef([log10(value) for value in one], [log10(value) for value in other])[0, 1])


def smooth_svg(figure: SmoothFigure, *, width_px: int = WIDTH_PX) -> Picture:
    """Return a point per pair, both axes logarithmic and alike; on the diagonal nothing changes."""
    figure = expected_kind(figure, SmoothFigure, "the figure")
    values = [value for pair in figure.pairs for value in pair]
    layout = new_chart("Is the space smooth?", figure.title, width_px, high=(334,), key=320)
    frame = layout.frame
    x = round_axis(values, frame.left, frame.right, logarithmic=True)
    y = round_axis(values, frame.bottom, frame.top, logarithmic=True)
    every = max(1, len(figure.pairs) // 4000)
    beside: dict[float, list[float]] = {}
    for own, near in figure.pairs[::every]:
        beside.setdefault(own, []).append(near)
    shapes = grid(frame, x, y, energy, energy)
    for own, near in beside.items():
        dots = "".join(f"M{x.place(own):.1f},{y.place(each):.1f}h0" for each in near)
        column = f'<path d="{dots}" stroke="{tint(FOUND, 0.5)}" stroke-width="2.6" stroke-linecap="round" fill="none"/>'
        words = f"energy {energy(own)}; neighbours shown: {energy(min(near))} to {energy(max(near))}"
        shapes.append(hint([column], words))
    shapes.append(line(frame.left, frame.bottom, frame.right, frame.top, stroke=INK, more='stroke-dasharray="4 4"'))
    shapes += [frame.across(log_word("energy of a mapping", x)), frame.up(log_word("energy of its neighbour", y))]
    words = (
        ("mappings drawn", exact(figure.mappings)),
        ("pairs of neighbours", exact(len(figure.pairs))),
        ("correlation of logarithms", f"{figure.correlation:.2f}"),
        ("of unrelated mappings", f"{figure.of_random:.2f}"),
        ("no neighbour is better", f"{exact(figure.minima)} of {exact(figure.mappings)}"),
    )
    key = [
        *(KeyRow("", INK, what, number) for what, number in words),
        KeyRow("dashes", INK, "the neighbour costs as much"),
    ]
    return layout.picture(f"Costs of neighbours: {figure.title}", shapes, key, figure)


show_as_picture(SmoothFigure, smooth_svg)
