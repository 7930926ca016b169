"""What the layers of a network cost, a bar each: how many of them there are, and whether each is proven."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from polymap.formatting import percent, plural
from polymap.inputs import as_fraction, as_integer, expected_list, expected_text, is_list, shown
from polymap.ir import (
    Mistake,
    OptionError,
    Shown,
    show_as_picture,
)
from polymap.report.figures import svg
from polymap.report.figures.chart import BOUND, FOUND, Frame, expected_figure, head, round_axis, ticks_of, unit_text
from polymap.search.problem import unit_of

_ROW, _TOP = 24.0, 104.0
_LEFT, _RIGHT, _WIDTH = 210.0, 640.0, 820.0  # room for the numbers at the right
_PROVEN = "OPTIMAL"
_PAINT = {True: {"fill": FOUND, "stroke": FOUND}, False: {"fill": svg.PAPER, "stroke": BOUND}}


@dataclass(frozen=True, slots=True)
class LayerBar:
    """A layer: what one of it costs (None: no mapping is known), how often the network has it, and how its search
    ended."""

    name: str
    value: float | None
    multiplicity: int
    status: str

    @property
    def total(self) -> float:
        """What all of it cost together; 0 where no mapping is known."""
        return (self.value or 0.0) * self.multiplicity


@dataclass(frozen=True, slots=True)
class LayerBarsFigure(Shown):
    """The layers of a network in its order, and the objective of the values."""

    title: str
    objective: str
    bars: tuple[LayerBar, ...]

    @property
    def total(self) -> float:
        """The sum over all layers, each as often as the network has it."""
        return sum(bar.total for bar in self.bars)

    def share(self, number: int) -> float:
        """The share of a layer in the sum, all of its occurrences together."""
        return self.bars[number].total / self.total if self.total else 0.0


def layer_bars_figure(
    title: str, layers: Iterable[tuple[str, float | None, int, str]], objective: str = "energy"
) -> LayerBarsFigure:
    """Return the figure of layers (name, value of one, how many there are, status of its search), in order.

    Values are in the unit of the objective; None where no mapping is known. Raises OptionError, all mistakes at once,
    for a layer of another form, a negative value, a multiplicity below 1, and no layers at all.
    """
    title = expected_text(title, "the title", OptionError)
    objective = expected_text(objective, "the objective", OptionError)
    bars: list[LayerBar] = []
    mistakes: list[Mistake] = []
    for number, layer in enumerate(expected_list(layers, "the list of layers")):
        bar = _bar_of(layer)
        if bar is None:
            form = "Expected (name, value of at least 0 or None, how many of at least 1, status)."
            mistakes.append(Mistake("PM120", f"layer {number} is {_shown(layer)}", form))
        else:
            bars.append(bar)
    if mistakes:
        raise OptionError(mistakes)
    if not bars:
        raise OptionError(Mistake("PM120", "the list of layers is empty", "Give at least one layer."))
    return LayerBarsFigure(title, objective, tuple(bars))


def _bar_of(layer: object) -> LayerBar | None:
    """Return a layer, or None where it has another form."""
    if not is_list(layer) or len(layer) != 4:
        return None
    name, value, times, status = layer
    exact, many = (None if value is None else as_fraction(value)), as_integer(times)
    if not isinstance(name, str) or not isinstance(status, str) or many is None or many < 1:
        return None
    if value is not None and (exact is None or exact < 0):
        return None
    return LayerBar(name, None if exact is None else float(exact), many, status)


def _shown(layer: object) -> str:
    return f"({', '.join(shown(each) for each in layer)})" if is_list(layer) else shown(layer)


def layer_bars_svg(figure: LayerBarsFigure) -> svg.Picture:
    """Return a bar per layer, all its occurrences together; hollow where it is not proven, a word where no mapping is
    known."""
    figure = expected_figure(figure, LayerBarsFigure)
    frame = Frame(left=_LEFT, right=_RIGHT, top=_TOP, bottom=_TOP + _ROW * len(figure.bars))
    x = round_axis([0.0, max(bar.total for bar in figure.bars) or 1.0], frame.left, frame.right)
    unit, spelled = unit_text(figure.objective), _spelled(figure.objective)
    count = sum(bar.multiplicity for bar in figure.bars)
    told = f"{plural(len(figure.bars), 'layer')}, {count:,} with repetition: {unit(figure.total)}{spelled} in all"
    open_ones = sum(bar.status != _PROVEN for bar in figure.bars)
    shapes = head(figure.title, f"{told}, {open_ones or 'none'} not proven" if open_ones else f"{told}, all proven")
    end = -100.0
    for tick in ticks_of(x):
        room = x.place(tick) - end > 62
        end = x.place(tick) if room else end
        shapes += frame.upright(x.place(tick), (unit(tick) if tick else "0") if room else "")
    for number, bar in enumerate(figure.bars):
        shapes.append(svg.hint(_drawn(figure, number, x.place(bar.total)), _told(figure, number)))
    shapes.append(frame.across(f"{figure.objective}{',' if spelled else ''}{spelled}, all occurrences"))
    for left, words, paint in ((_LEFT, "proven optimal", _PAINT[True]), (_LEFT + 150, "not proven", _PAINT[False])):
        shapes += [svg.rect(left, 78, 11, 11, round_by=2, **paint), svg.text(left + 18, 88, words, size=12)]
    return svg.picture(_WIDTH, max(frame.bottom + 56, _TOP + 60), figure.title, shapes)


def _drawn(figure: LayerBarsFigure, number: int, end: float) -> list[str]:
    """Return name, bar and numbers of a layer."""
    bar, top = figure.bars[number], _TOP + _ROW * number
    base = top + _ROW / 2 + 4
    shapes = [svg.text(_LEFT - 10, base, svg.fitted(bar.name, _LEFT - 40, 12), size=12, anchor="end")]
    if bar.value is None:
        return [*shapes, svg.text(_LEFT + 6, base, f"no mapping: {bar.status}", size=11, fill=BOUND)]
    paint = _PAINT[bar.status == _PROVEN]
    shapes.append(svg.rect(_LEFT, top + 5, max(end - _LEFT, 1), _ROW - 10, round_by=2, **paint))
    many = f"{bar.multiplicity} \u00d7 " if bar.multiplicity > 1 else ""
    words = f"{many}{unit_text(figure.objective)(bar.value)}, {percent(figure.share(number))}"
    return [*shapes, svg.text(end + 6, base, words, size=11, fill=svg.GREY)]


def _told(figure: LayerBarsFigure, number: int) -> str:
    bar = figure.bars[number]
    if bar.value is None:
        return f"{bar.name}: no mapping is known ({bar.status})"
    unit, spelled = unit_text(figure.objective), _spelled(figure.objective)
    one, total = f"{unit(bar.value)}{spelled}", f"{unit(bar.total)}{spelled}"
    return f"{bar.name}: {bar.multiplicity} of {one}, in all {total} ({percent(figure.share(number))}), {bar.status}"


def _spelled(objective: str) -> str:
    """Return the unit after a number, "" where `unit_text` writes it."""
    return "" if objective == "energy" or objective.startswith(("traffic:", "capacity:")) else unit_of(objective)


show_as_picture(LayerBarsFigure, layer_bars_svg)
