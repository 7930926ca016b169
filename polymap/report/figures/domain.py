"""The instances of a statement with two loops, the dependences between them, and tiles and wavefronts over them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import hypot

from polymap.formatting import listing, plural
from polymap.inputs import as_integer, expected_list, expected_text, shown
from polymap.ir import Mistake, OptionError, Shown, Statement, Workload
from polymap.report import TUNING
from polymap.report.figures import svg
from polymap.report.figures.chart import WIDTH_PX, cell_chart
from polymap.resolve import WorkloadLike, workload_of
from polymap.search.programs import READ, ProgramArrays, instance_bound, program_arrays
from polymap.workload import dependences

_STEP, _RADIUS = 34.0, 6.0
_LEFT = 66.0
_LAST = "#173f8a"  # the colour of the last wavefront; those before are lighter, the earlier the more
_Touch = tuple[tuple[str, int], bool]  # (tensor, element), whether it is written


@dataclass(frozen=True, slots=True)
class DomainFigure(Shown):
    """points: counters (first loop, second loop) of every instance. arrows: constant distances of dependences between
    two instances of the statement. tiles: per point the number of its tile along both loops. wavefronts: per point how
    many instances of the statement must run one after the other before it, along the longest chain of dependences of
    the whole program: through other statements, and of distances that vary, too."""

    title: str
    loops: tuple[str, str]
    points: tuple[tuple[int, int], ...]
    arrows: tuple[tuple[int, int], ...]
    tiles: tuple[tuple[int, int], ...]
    wavefronts: tuple[int, ...]


def domain_figure(workload: WorkloadLike, statement: str, *, tile: tuple[int, int] = (4, 4)) -> DomainFigure:
    """Return the instances of a statement of two loops in program order; tile: instances along each loop.

    Dependences whose distance varies, and those through other statements, have no arrow; wavefronts respect them.
    Raises OptionError for a statement that the program lacks, one with other than two loops, with too many instances or
    none, for a program with too many, and for tiles that are no two positive integers.
    """
    workload = workload_of(workload)
    chosen = _statement(workload, statement)
    first, second = chosen.dims
    extents = workload.extents()
    height, width = _tile(tile)
    points = tuple(
        (i, j)
        for i in range(extents[first])
        for j in range(extents[second])
        if all(each.evaluate({first: i, second: j}) >= 0 for each in chosen.constraints)
    )
    if not points:
        what = f"'{statement}' of '{workload.name}' has no instance"
        raise OptionError(Mistake("PM538", what, "Choose larger sizes."))
    own = (each for each in dependences(workload) if each.source == each.sink == statement)
    found = {distance for each in own for distance in each.distances}
    arrows = sorted((one, other) for one, other in found if one is not None and other is not None)
    tiles = tuple((i // height, j // width) for i, j in points)
    fronts = _fronts(workload, workload.statements.index(chosen))
    return DomainFigure(f"{workload.name}: {statement}", (first, second), points, tuple(arrows), tiles, fronts)


def _statement(workload: Workload, name: str) -> Statement:
    """Return the statement of two loops that is asked for."""
    name = expected_text(name, "the statement", OptionError)
    with_two = [each.name for each in workload.statements if len(each.dims) == 2]
    have = f"With two loops: {listing(with_two)}." if with_two else "No statement of this program has two loops."
    chosen = next((each for each in workload.statements if each.name == name), None)
    if chosen is None:
        raise OptionError(Mistake("PM538", f"'{workload.name}' has no statement {shown(name)}", have))
    if len(chosen.dims) != 2:
        what = f"'{name}' of '{workload.name}' has {plural(len(chosen.dims), 'loop')}; this figure shows two"
        raise OptionError(Mistake("PM538", what, have))
    extents = workload.extents()
    if (count := extents[chosen.dims[0]] * extents[chosen.dims[1]]) > TUNING.domain_instances:
        what = f"'{name}' has up to {count:,} instances; this figure shows at most {TUNING.domain_instances:,}"
        raise OptionError(Mistake("PM538", what, "Choose smaller sizes: the dependences look alike."))
    return chosen


def _tile(tile: object) -> tuple[int, int]:
    sizes = [as_integer(each) or 0 for each in expected_list(tile, "tile")]
    if len(sizes) != 2 or min(sizes) < 1:
        raise OptionError(Mistake("PM538", f"tile is {shown(tile)}", "Use two integers of at least 1, such as (4, 4)."))
    return sizes[0], sizes[1]


def _fronts(workload: Workload, number: int) -> tuple[int, ...]:
    """Return per instance of a statement, in program order, how many of its instances precede it on the longest chain
    of dependences. The program is walked in its order: a read follows the writes of its element, a write every access.
    """
    if (count := instance_bound(workload)) > (most := TUNING.walked_instances):
        what = f"'{workload.name}' has up to {count:,} instances; wavefronts are known of at most {most:,}"
        raise OptionError(Mistake("PM538", what, "Choose smaller sizes: the dependences look alike."))
    arrays = program_arrays(workload)
    before = [0] * arrays.count  # of the statement's instances, on the longest chain to each instance
    first, length = arrays.first[number], arrays.points[number].shape[1]
    written, touched = dict[tuple[str, int], int](), dict[tuple[str, int], int]()
    for instance, accesses in _walked(arrays):
        chain = max((touched if writes else written).get(place, 0) for place, writes in accesses)
        before[instance] = chain
        chain += first <= instance < first + length
        for place, writes in accesses:
            touched[place] = max(touched.get(place, 0), chain)
            if writes:
                written[place] = max(written.get(place, 0), chain)
    return tuple(before[first : first + length])


def _walked(arrays: ProgramArrays) -> Iterator[tuple[int, list[_Touch]]]:
    """Yield the instances in program order: the number of each, and its accesses."""
    found: list[list[_Touch]] = [[] for _ in range(arrays.count)]
    for name, own in arrays.accesses.items():
        numbers: list[int] = own.instance.tolist()
        elements: list[int] = own.element.tolist()
        kinds: list[bool] = (own.kind != READ).tolist()
        for instance, element, writes in zip(numbers, elements, kinds, strict=True):
            found[instance].append(((name, element), writes))
    for instance in arrays.order.argsort().tolist():
        yield instance, found[instance]


@svg.draws(DomainFigure)
def domain_svg(figure: DomainFigure, *, width_px: int = WIDTH_PX) -> svg.Picture:
    """Return the figure: the first loop downwards, the second to the right; the later a wavefront the darker; boxes are
    tiles."""
    rows, columns = (1 + max(point[loop] for point in figure.points) for loop in (0, 1))
    steps = max(figure.wavefronts) + 1
    told = f"{plural(len(figure.points), 'instance')} in {plural(steps, 'wavefront')}, light to dark; "
    told += "arrows: dependences; boxes: tiles"
    layout, step = cell_chart(figure.title, told, width_px, (columns, rows), left=_LEFT, side=_STEP, key=20)
    raster = _Raster(layout.frame.left + step / 2, layout.frame.top + step / 2, step)
    shapes = [*_axes(figure.loops, (rows - 1, columns - 1), raster), *_boxes(figure, raster), *_arrows(figure, raster)]
    names, colours = figure.loops, [svg.tint(_LAST, 0.2 + 0.8 * (front + 1) / steps) for front in range(steps)]
    for (i, j), front, tile in zip(figure.points, figure.wavefronts, figure.tiles, strict=True):
        words = f"{names[0]} = {i}, {names[1]} = {j}: wavefront {front}, tile ({tile[0]}, {tile[1]})"
        shapes.append(svg.hint([svg.circle(*raster.at(i, j), raster.radius, fill=colours[front])], words))
    return layout.picture(figure.title, shapes, (), figure, below=16)


@dataclass(frozen=True, slots=True)
class _Raster:
    """Where instances stand: the first one's centre, and how far the next are."""

    left: float
    top: float
    step: float

    @property
    def radius(self) -> float:
        """Of an instance."""
        return self.step * _RADIUS / _STEP

    def at(self, i: int, j: int) -> tuple[float, float]:
        """Return the centre of an instance: (x, y)."""
        return self.left + j * self.step, self.top + i * self.step


def _axes(loops: tuple[str, str], high: tuple[int, int], raster: _Raster) -> Iterator[str]:
    """Yield names and numbers of both loops."""
    left, top = raster.left - raster.step / 2 - 8, raster.top - raster.step / 2 - 8
    yield svg.text(
        12,
        raster.top + 4,
        svg.fitted(f"{loops[0]} \u2193", left - 16 - svg.text_width(str(high[0]), 11)),
        fill=svg.GREY,
    )
    yield svg.text(12, top, svg.fitted(f"{loops[1]} \u2192", left - 12), fill=svg.GREY)
    for j in range(0, high[1] + 1, _every(high[1], raster.step)):
        yield svg.text(raster.at(0, j)[0], top, str(j), size=11, fill=svg.GREY, anchor="middle")
    for i in range(0, high[0] + 1, _every(high[0], raster.step)):
        yield svg.text(left, raster.at(i, 0)[1] + 4, str(i), size=11, fill=svg.GREY, anchor="end")


def _every(last: int, step: float) -> int:
    """Return between which numbers of an axis there are how many steps: at most about twenty numbers, of which none
    touches another."""
    least = max(last / 20, (svg.text_width(str(last), 11) + 6) / step)
    return next(each for power in range(9) for each in (10**power, 2 * 10**power, 5 * 10**power) if each >= least)


def _boxes(figure: DomainFigure, raster: _Raster) -> Iterator[str]:
    members: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for point, tile in zip(figure.points, figure.tiles, strict=True):
        members.setdefault(tile, []).append(point)
    around = raster.step * 14 / _STEP
    for inside in members.values():
        x, y = raster.at(min(i for i, _ in inside), min(j for _, j in inside))
        right, bottom = raster.at(max(i for i, _ in inside), max(j for _, j in inside))
        size = right - x + 2 * around, bottom - y + 2 * around
        yield svg.rect(x - around, y - around, *size, fill="none", stroke=svg.GREY, round_by=around * 2 / 7)


def _arrows(figure: DomainFigure, raster: _Raster) -> Iterator[str]:
    known = set(figure.points)
    for i, j in figure.points:
        for di, dj in figure.arrows:
            if (i + di, j + dj) in known:
                yield from _arrow(raster.at(i, j), raster.at(i + di, j + dj), raster.radius)


def _arrow(start: tuple[float, float], end: tuple[float, float], radius: float) -> Iterator[str]:
    """Yield a line from disc to disc and its head, which is as long as a disc is wide from its centre."""
    (x, y), (right, below) = start, end
    length = hypot(right - x, below - y)
    if length <= 2 * radius:
        return
    u, v = (right - x) / length * radius, (below - y) / length * radius
    tip = right - u * 7 / 6, below - v * 7 / 6
    neck = tip[0] - u, tip[1] - v
    yield svg.line(x + u, y + v, *neck, stroke=svg.GREY)
    corners = (tip, (neck[0] - v / 2, neck[1] + u / 2), (neck[0] + v / 2, neck[1] - u / 2))
    yield f'<polygon points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in corners)}" fill="{svg.GREY}"/>'
