"""Pictures of a proof, drawn from what the checker derived: the bound of every structure against the value of the best
mapping, and all structures as a map of what refuted them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from polymap.checker import Reason, Verdict
from polymap.formatting import exact, listing, percent, plural
from polymap.inputs import expected_kind
from polymap.ir import Mistake, OptionError, Shown
from polymap.report import TUNING
from polymap.report.figures import chart, svg

KINDS = {  # of a certificate's line: what refuted the structure, its colour
    "apart": ("bound of each tensor by itself", "#2f6fde"),
    "joint": ("bound of all tensors together", "#2a9d8f"),
    "search": ("searched: no mapping below", "#fbbf24"),
    "empty": ("nothing fits", "#e5e7eb"),
    "over": ("over a limit that was asked for", "#1f2937"),
    "word": ("not proven: the search's word", "#e11d48"),
}
STEPS = (  # up to how many times the value: strength of the colour
    (Fraction(21, 20), 1.0),
    (Fraction(6, 5), 0.8),
    (Fraction(3, 2), 0.6),
    (Fraction(2), 0.38),
    (None, 0.2),
)
_HIGH = 340.0  # of the map
Box = tuple[float, float, float, float]  # left, top, width, height


@dataclass(frozen=True, slots=True)
class ProofFigure(Shown):
    """What is drawn: the structures by rising bound (those without one last), and what the best mapping costs."""

    objective: str
    value: Fraction
    reasons: tuple[Reason, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many structures each kind of proof refutes, in the order of the key."""
        found = Counter(reason.kind for reason in self.reasons)
        return {kind: found[kind] for kind in KINDS if found[kind]}

    @property
    def title(self) -> str:
        """How many structures there are, and whether all are refuted."""
        open_ones = self.counts.get("word", 0)
        told = f"{open_ones:,} of them not proven" if open_ones else "each refuted by the checker itself"
        return f"{plural(len(self.reasons), 'structure')}, {told}"


def proof_figure(verdict: Verdict) -> ProofFigure:
    """Return the figure of a verdict of `pm.verify`; raises OptionError where it lists no structures."""
    verdict = expected_kind(verdict, Verdict, "the verdict")
    if verdict.value is None or not verdict.reasons:
        what = f"the certificate is refused ({verdict.reason})" if verdict.reason else "its structures are not listed"
        told = (
            'Expected that of an optimum over dividing tiles: pm.verify(pm.explore(..., tiles="divide").certificate()).'
        )
        raise OptionError(Mistake("PM575", f"there is no proof to draw: {what}", told))
    by_bound = sorted(verdict.reasons, key=lambda each: (each.bound is None, each.bound or 0, each.spread))
    return ProofFigure(verdict.objective, verdict.value, tuple(by_bound))


@svg.draws(ProofFigure)
def proof_svg(figure: ProofFigure, *, width_px: int = chart.WIDTH_PX) -> svg.Picture:
    """Return a column per structure as high as its bound, and the line of what the best mapping costs, below which none
    but searched structures may end."""
    known = [float(min(each.bound, 2 * figure.value)) for each in figure.reasons if each.bound is not None]
    value, unit = float(figure.value), chart.unit_text(figure.objective)
    cut = ", at most twice the best is drawn" if max(known, default=0.0) >= 2 * value else ""
    title = f"The proof: no structure is below the best {figure.objective}"
    layout = chart.new_chart(title, figure.title, width_px, key=288)
    frame = layout.frame
    x = frame.x_axis([0.0, len(figure.reasons)])
    y = frame.y_axis([0.0, value, *known])
    shapes = frame.columns(x, lambda number: f"{number:,.0f}" if number == int(number) else "")
    shapes += frame.rows(y, chart.tick_text(figure.objective))
    for first, group in _groups(figure.reasons, TUNING.proof_columns):
        left, right = x.place(first), x.place(first + len(group))
        top = frame.top if group[0].bound is None else max(frame.top, y.place(float(group[0].bound)))
        colour = svg.tint(KINDS[group[0].kind][1], 0.35 if group[0].bound is None else 0.85)
        column = svg.rect(left, top, max(right - left + 0.4, 1.0), frame.bottom - top, fill=colour)
        shapes.append(svg.hint([column], _words(figure, group)))
    shapes.append(svg.line(frame.left, y.place(value), frame.right, y.place(value), stroke=svg.INK, width=2))
    spelled = chart.unit_after(figure.objective).replace(" ", ", ")
    shapes += [frame.across("structures, by rising bound"), frame.up(f"bound{spelled}{cut}")]
    key = [chart.KeyRow("line", svg.INK, f"the best: {unit(value)}")]
    for kind, count in figure.counts.items():
        words, colour = KINDS[kind]
        key.append(chart.KeyRow("box", svg.tint(colour, 0.85), f"{words} ({count:,})"))
    return layout.picture(f"Bounds of all structures: {figure.title}", shapes, key, figure)


def _groups(reasons: Sequence[Reason], most: int) -> list[tuple[int, Sequence[Reason]]]:
    """Return at most about `most` runs of neighbours with the number of each one's first."""
    step = -(-len(reasons) // most)
    return [(first, reasons[first : first + step]) for first in range(0, len(reasons), step)]


def _words(figure: ProofFigure, group: Sequence[Reason]) -> str:
    """Return what a group's weakest structure is and what refuted it."""
    weakest = group[0]
    spread = listing([f"{dim} x{factor} over {fanouts}" for fanouts, dim, factor in weakest.spread]) or "nothing"
    told = f"parallel: {spread}; {KINDS[weakest.kind][0]}"
    if weakest.bound is not None:
        times = f" ({percent(weakest.bound / figure.value)} of the best)" if figure.value else ""
        told += f", {chart.unit_text(figure.objective)(float(weakest.bound))}{times}"
    return told if len(group) == 1 else f"the weakest of {len(group):,} structures: {told}"


def refuted_svg(figure: ProofFigure, *, width_px: int = chart.WIDTH_PX) -> svg.Picture:
    """Return a map of all structures, a cell each (of many structures the weakest of several): grouped by which dims
    run in parallel, coloured by what refuted them, paler the farther their bound is above the best."""
    figure = expected_kind(figure, ProofFigure, "the figure")
    groups: dict[str, list[Reason]] = {}
    for reason in figure.reasons:
        dims = dict.fromkeys(dim for _, dim, _ in reason.spread)
        groups.setdefault(" ".join(sorted(dims)) or "nothing", []).append(reason)
    sized = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    told = f"{figure.title}; grouped by the dims that run in parallel"
    layout = chart.new_chart("What refuted each structure", told, width_px, left=28, high=(_HIGH,), key=288)
    frame, shapes = layout.frame, list[str]()
    whole = frame.left, frame.top - 20, frame.right - frame.left, frame.bottom - frame.top + 40
    step = -(-len(figure.reasons) // TUNING.proof_cells)
    for (name, own), box in zip(sized, _boxes([len(own) for _, own in sized], whole), strict=True):
        shapes += [*_cells(figure, own, box, step), *_label(name, len(own), box)]
    return layout.picture(f"What refuted the structures: {figure.title}", shapes, _map_key(figure), figure)


def _boxes(counts: Sequence[int], box: Box) -> list[Box]:
    """Return a box per count whose areas are in proportion: both halves of the counts share the longer side."""
    if len(counts) < 2:
        return [box] * len(counts)
    total, cut, first = sum(counts), 1, counts[0]
    while cut < len(counts) - 1 and abs(total / 2 - first - counts[cut]) < abs(total / 2 - first):
        first, cut = first + counts[cut], cut + 1
    left, top, width, height = box
    share = first / total
    if width >= height:
        halves = (left, top, width * share, height), (left + width * share, top, width * (1 - share), height)
    else:
        halves = (left, top, width, height * share), (left, top + height * share, width, height * (1 - share))
    return [*_boxes(counts[:cut], halves[0]), *_boxes(counts[cut:], halves[1])]


def _cells(figure: ProofFigure, own: Sequence[Reason], box: Box, step: int) -> list[str]:
    """Return the cells of a group, row by row, the lowest bounds last, away from the name."""
    groups = _groups(own, -(-len(own) // step))
    left, top, width, height = box[0], box[1], box[2] - 2, box[3] - 2
    columns = max(1, round((len(groups) * width / max(height, 1)) ** 0.5))
    rows = -(-len(groups) // columns)
    wide, high = width / columns, height / rows
    gap = 0.6 if min(wide, high) > 3 else 0.0
    shapes: list[str] = []
    for number, (_, group) in enumerate(reversed(groups)):
        x, y = left + wide * (number % columns), top + high * (number // columns)
        cell = svg.rect(x, y, max(wide - gap, 0.5), max(high - gap, 0.5), fill=_colour(figure, group[0]))
        shapes.append(svg.hint([cell], _words(figure, group)))
    return shapes


def _colour(figure: ProofFigure, reason: Reason) -> str:
    colour = KINDS[reason.kind][1]
    if reason.bound is None or reason.kind in ("search", "word") or not figure.value:
        return colour
    times = reason.bound / figure.value
    return svg.tint(colour, next(strength for most, strength in STEPS if most is None or times <= most))


def _label(name: str, count: int, box: Box) -> list[str]:
    """Return the name of a group in its corner, where there is room for it."""
    left, top, width, height = box
    fits = [each for each in (f"{name} ({count:,})", name) if svg.text_width(each, 11) <= width - 10]
    if height < 24 or not fits:
        return []
    shown = fits[0]
    plate = svg.rect(left + 3, top + 3, 7 + 6.0 * len(shown), 16, fill=svg.PAPER, round_by=3, more='fill-opacity="0.8"')
    return [plate, svg.text(left + 6, top + 15, shown, size=11, bold=True)]


def _map_key(figure: ProofFigure) -> list[chart.KeyRow]:
    """Return what the colours mean, with how many structures each has, and what their strength means."""
    rows = [
        chart.KeyRow("box", KINDS[kind][1], f"{KINDS[kind][0]} ({count:,})") for kind, count in figure.counts.items()
    ]
    rows.append(chart.KeyRow("", svg.INK, "bound, times the best:"))
    for most, strength in STEPS:
        near = sum(each.bound is not None and _step(figure, each) == most for each in figure.reasons)
        words = "more than that" if most is None else f"up to {float(most):g}"
        rows.append(
            chart.KeyRow("box", svg.tint(KINDS["apart"][1], strength), f"{words} ({exact(near)})", edge=svg.RULE)
        )
    return rows


def _step(figure: ProofFigure, reason: Reason) -> Fraction | None:
    times = (reason.bound or 0) / figure.value if figure.value else Fraction(1)
    return next(most for most, _ in STEPS if most is None or times <= most)
