"""How a search went: incumbent and bound over time, and what became of the structures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from polymap.formatting import exact, percent, plural
from polymap.inputs import expected_kind
from polymap.ir import Mistake, OptionError, Shown, show_as_picture
from polymap.report.figures import chart, svg
from polymap.search import SearchResult

_INSIDE, _BOUND, _OPEN = "searched inside", "refuted by a bound", "left open"
_COLOURS = ("#2f6fde", "#df8213", "#9ca3af")


@dataclass(frozen=True, slots=True)
class FateFigure(Shown):
    """What became of a search's structures (which dims are spread over which fan-outs): (what, how many).

    Symmetric ones, such as a square filter's rows and columns exchanged, are one here and several in `ProofFigure`.
    """

    title: str
    fates: tuple[tuple[str, int], ...]
    trees: int | None
    scored: int
    is_proven: bool = True

    @property
    def sentence(self) -> str:
        """What closes the proof, or what is still open; "" where there is nothing to add."""
        told = dict(self.fates)
        if not self.is_proven:
            return f"The proof is open: {plural(told.get(_OPEN, 0), 'structure')} left."
        if not told[_INSIDE] and told[_BOUND]:
            return "The first mapping found was the best: the bound of every structure already excludes a better one."
        return ""


def fate_figure(result: SearchResult) -> FateFigure:
    """Return the figure of a search over dividing tiles (OptionError where its structures were not listed)."""
    space = expected_kind(result, SearchResult, "the result").space
    if space.listed is None:
        hint = 'tiles="divide" lists them (result.dividing), but of products that are proven without a list: those on '
        hint += "unlike fan-outs between two levels, and of very many tiles."
        raise OptionError(Mistake("PM575", "the structures of this search were not listed", hint))
    left = space.listed - space.evaluated - space.pruned - (space.infeasible or 0)
    fates = [(_INSIDE, space.evaluated), (_BOUND, space.pruned)]
    fates += [("nothing fits", space.infeasible or 0), *([(_OPEN, left)] if left else [])]
    title = f"{result.status}, {exact(space.listed)} structures"
    proven = result.status in ("OPTIMAL", "INFEASIBLE")
    return FateFigure(title, tuple(fates), space.legal, result.work, proven)


def fate_svg(figure: FateFigure, *, width_px: int = chart.WIDTH_PX) -> svg.Picture:
    """Return a bar per fate, with its number and share."""
    total = sum(count for _, count in expected_kind(figure, FateFigure, "the figure").fates) or 1
    high = 44.0 * len(figure.fates) - 40
    layout = chart.new_chart(
        "What became of the structures", figure.title, width_px, left=168, right=160, high=(high,), key=0
    )
    frame, shapes = layout.frame, list[str]()
    for row, (what, count) in enumerate(figure.fates):
        base, width = frame.top - 18 + 44 * row, (frame.right - frame.left) * count / total
        told = f"{exact(count)}, {percent(count / total)}"
        bar = svg.rect(frame.left, base, max(width, 1.0), 26, fill=_COLOURS[row % len(_COLOURS)], round_by=2)
        shapes.append(svg.hint([bar], f"{what}: {exact(count)} of {exact(total)} structures"))
        shapes += frame.row_name(base + 13, what)
        shapes.append(svg.text(frame.left + width + 8, base + 17, told, fill=svg.GREY))
    trees = "" if figure.trees is None else f"They stand for {figure.trees:.3g} legal trees. "
    counted = "Structures that an exchange of like dims turns into each other count once; a certificate lists each."
    sentences = [f"{trees}Steps of the search: {exact(figure.scored)}.", counted, *filter(None, [figure.sentence])]
    return layout.picture(f"Structures: {figure.title}", shapes, (), figure, told=sentences, below=24)


def _steps(
    points: Sequence[tuple[float, float]],
    placed: Sequence[tuple[float, float]],
    colour: str,
    unit: Callable[[float], str],
) -> list[str]:
    """Return a dot per step, the first one larger, that says when it was and what."""
    return [
        svg.hint([svg.circle(*place, 2.5 if number else 4, fill=colour)], f"{unit(value)} after {when:.3g} s")
        for number, (place, (when, value)) in enumerate(zip(placed, points, strict=True))
    ]


@dataclass(frozen=True, slots=True)
class CourseFigure(Shown):
    """What is drawn: (seconds, value) of each better mapping and (seconds, bound) of each better bound, until `end`."""

    title: str
    objective: str
    values: tuple[tuple[float, float], ...]
    bounds: tuple[tuple[float, float], ...]
    end: float


def course_figure(result: SearchResult) -> CourseFigure:
    """Return the figure of a search; of an order or a front that of its first part."""
    result = expected_kind(result, SearchResult, "the result")
    values: dict[float, float] = {}
    bounds: dict[float, float] = {}
    for moment in result.history:
        if moment.value is not None:
            values.setdefault(float(moment.value), moment.seconds)
        if moment.bound > 0:
            bounds.setdefault(float(moment.bound), moment.seconds)
    gap = "" if result.gap is None else f", gap {percent(result.gap)}"
    name = result.values[0][0] if result.values else result.objective
    steps, known = (tuple((when, what) for what, when in each.items()) for each in (values, bounds))
    return CourseFigure(f"{result.stated}{gap}", name, steps, known, max(result.seconds, 1e-3))


@svg.draws(CourseFigure)
def course_svg(figure: CourseFigure, *, width_px: int = chart.WIDTH_PX) -> svg.Picture:
    """Return value and bound as stairs over seconds; where they meet, the optimum is proven. What is far from the last
    value, as the first mappings are, is drawn at the edge; what it is is said under the pointer."""
    layout = chart.new_chart(f"Best {figure.objective} and its bound", figure.title, width_px)
    frame = layout.frame
    x = frame.x_axis([0.0, figure.end])
    y = frame.y_axis(_near_the_end(figure))
    unit = chart.unit_text(figure.objective)
    shapes = chart.grid(frame, x, y, lambda value: f"{value:g}", chart.tick_text(figure.objective))
    for points, colour, dash in ((figure.bounds, chart.BOUND, "5 4"), (figure.values, chart.FOUND, "")):
        placed = [(x.place(when), y.place(min(max(value, y.low), y.high))) for when, value in points]
        if placed:
            corners = [*chart.stairs(placed), (x.place(figure.end), placed[-1][1])]
            shapes += [svg.polyline(corners, stroke=colour, width=2, dash=dash), *_steps(points, placed, colour, unit)]
    spelled = chart.unit_after(figure.objective)
    shapes += [frame.across("seconds"), frame.up(f"{figure.objective}{spelled}")]
    key = (
        chart.KeyRow("line", chart.FOUND, "best mapping"),
        chart.KeyRow("dashes", chart.BOUND, "no mapping is below"),
    )
    return layout.picture(f"{figure.objective} over the search: {figure.title}", shapes, key, figure)


def _near_the_end(figure: CourseFigure) -> list[float]:
    """Return the values and bounds that are within a fifth of the last value (all, where there is none)."""
    everything = [value for _, value in (*figure.values, *figure.bounds)] or [1.0]
    if not figure.values:
        return [0.0, *everything]
    last = figure.values[-1][1]
    near = [value for value in everything if 0.8 * last <= value <= 1.2 * last]
    final = [points[-1][1] for points in (figure.values, figure.bounds) if points]
    return [*near, *final, 1.05 * last]


show_as_picture(FateFigure, fate_svg)
