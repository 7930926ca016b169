"""The instances of a statement with two loops, the dependences between them, and tiles and wavefronts over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from polymap.ir import Workload
from polymap.report.figures import GREY, Picture, circle, line, picture, rect, text
from polymap.workload import dependences

_STEP, _MARGIN = 34.0, 46.0
_COLOURS = ("#2f6fde", "#df8213", "#0d9373", "#8a5cd6")


@dataclass(frozen=True, slots=True)
class DomainFigure:
    """points: counters (first loop, second loop) of every instance. arrows: constant distances between two instances.
    tiles: per point the number of its tile along both loops. wavefronts: per point when it may run, from 0: after
    every instance that an arrow leads from."""

    title: str
    loops: tuple[str, str]
    points: tuple[tuple[int, int], ...]
    arrows: tuple[tuple[int, int], ...]
    tiles: tuple[tuple[int, int], ...]
    wavefronts: tuple[int, ...]


def domain_figure(workload: Workload, statement: str, *, tile: tuple[int, int] = (4, 4)) -> DomainFigure:
    """Return the instances of a statement of two loops in program order; tile: instances along each loop.

    Dependences whose distance varies have no arrow. Raises ValueError for a statement with other than two loops.
    """
    chosen = workload.statement(statement)
    if len(chosen.dims) != 2:
        message = f"{statement} has {len(chosen.dims)} loops; this figure shows two"
        raise ValueError(message)
    first, second = chosen.dims
    extents = workload.extents()
    points = tuple(
        (i, j)
        for i in range(extents[first])
        for j in range(extents[second])
        if all(each.evaluate({first: i, second: j}) >= 0 for each in chosen.constraints)
    )
    own = (each for each in dependences(workload) if each.source == each.sink == statement)
    found = {distance for each in own for distance in each.distances}
    arrows = sorted((one, other) for one, other in found if one is not None and other is not None)
    tiles = tuple((i // tile[0], j // tile[1]) for i, j in points)
    return DomainFigure(
        f"{workload.name}: {statement}", (first, second), points, tuple(arrows), tiles, _fronts(points, arrows)
    )


def _fronts(points: Sequence[tuple[int, int]], arrows: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    when: dict[tuple[int, int], int] = {}
    for i, j in points:  # arrows lead forwards in program order
        when[i, j] = max((when[i - di, j - dj] + 1 for di, dj in arrows if (i - di, j - dj) in when), default=0)
    return tuple(when.values())


def domain_svg(figure: DomainFigure) -> Picture:
    """Return the figure: the first loop downwards, the second to the right; colours are wavefronts, boxes tiles."""
    known = set(figure.points)
    low = max(i for i, _ in figure.points), max(j for _, j in figure.points)
    shapes = [
        text(_MARGIN + low[1] * _STEP / 2, 36, figure.loops[1], fill=GREY),
        text(12, _MARGIN + 20, figure.loops[0], fill=GREY),
    ]
    for tile in dict.fromkeys(figure.tiles):
        inside = [point for point, own in zip(figure.points, figure.tiles, strict=True) if own == tile]
        (y, x), (bottom, right) = (
            _at(min(i for i, _ in inside), min(j for _, j in inside)),
            _at(max(i for i, _ in inside), max(j for _, j in inside)),
        )
        shapes.append(rect(x - 14, y - 14, right - x + 28, bottom - y + 28, fill="none", stroke=GREY, round_by=4))
    for i, j in figure.points:
        for di, dj in figure.arrows:
            if (i + di, j + dj) in known:
                (y, x), (below, beside) = _at(i, j), _at(i + di, j + dj)
                shapes.append(line(x, y, beside, below, stroke="#9ca3af"))
    for (i, j), front in zip(figure.points, figure.wavefronts, strict=True):
        y, x = _at(i, j)
        shapes.append(circle(x, y, 6, fill=_COLOURS[front % len(_COLOURS)]))
    width, height = 2 * _MARGIN + low[1] * _STEP, 2 * _MARGIN + low[0] * _STEP
    return picture(width, height, figure.title, shapes)


def _at(i: int, j: int) -> tuple[float, float]:
    return _MARGIN + 10 + i * _STEP, _MARGIN + j * _STEP
