"""What the layers of a network cost: a bar each, by level; over several answers a cell for each layer and machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from polymap.formatting import distinct_names, percent, plural, times
from polymap.ir import Mistake, OptionError, Shown
from polymap.networks import Comparison, LayerAnswer, NetworkAnswer
from polymap.report.figures import chart, svg

_ROW, _TOP = 24.0, 104.0
_LEFT = 210.0
_CELL = 132.0
_LEAST_CELL = 92.0  # a narrower one has no room for its words
_PROVEN = "OPTIMAL"
_COLOURS = ("#2f6fde", "#df8213", "#0b8166", "#c2417c", "#7a5cc2", "#5b6b8c", "#8a5a44", "#7a9c18")


@dataclass(frozen=True, slots=True)
class LayerBar:
    """A layer: what one of it costs (None: no mapping is known), by level where the objective is energy, how often the
    network has it, and how its search ended."""

    name: str
    value: float | None
    multiplicity: int
    status: str
    by_level_pj: tuple[tuple[str, float], ...] = ()

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

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels among which the bars are divided, outermost first."""
        return tuple(dict.fromkeys(level for bar in self.bars for level, _ in bar.by_level_pj))

    def share(self, number: int) -> float:
        """The share of a layer in the sum, all of its occurrences together."""
        return self.bars[number].total / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class LayerMatrix(Shown):
    """What each layer costs in each of several answers about one network (rows of layers, columns of machines), or with
    the best mapping of each dataflow (columns of dataflows). what: a column is one."""

    title: str
    objective: str
    machines: tuple[str, ...]
    layers: tuple[str, ...]
    cells: tuple[tuple[LayerBar, ...], ...]
    what: str = "machine"


def layer_bars_figure(answer: NetworkAnswer) -> LayerBarsFigure:
    """Return the layers of an answer about a network."""
    bars = tuple(_bar_of(each, answer.objective) for each in answer.layers)
    if not bars:
        raise OptionError(Mistake("PM120", "the network has no layers", "Give an answer with at least one layer."))
    return LayerBarsFigure(f"{answer.network.name} on {answer.arch.name}", answer.objective, bars)


def layer_matrix(answers: Sequence[NetworkAnswer]) -> LayerMatrix:
    """Return the layers of several answers about one network."""
    kinds = {(each.objective, tuple(one.layer.name for one in each.layers)) for each in answers}
    if len(kinds) != 1:
        what = f"{plural(len(answers), 'answer')} about {plural(len(kinds), 'kind')} of layers and objectives"
        raise OptionError(Mistake("PM120", what, "Expected answers about one network and one objective."))
    first = answers[0]
    names = tuple(each.layer.name for each in first.layers)
    cells = tuple(tuple(_bar_of(each.layers[row], first.objective) for each in answers) for row, _ in enumerate(names))
    machines = distinct_names([each.arch.name for each in answers])
    return LayerMatrix(f"{first.network.name}: {first.objective} by machine", first.objective, machines, names, cells)


def dataflow_matrix(comparisons: Sequence[Comparison]) -> LayerMatrix:
    """Return layers and dataflows, of comparisons on one machine of the same dataflows for one objective."""
    kinds = {(each.objective, each.arch.name, tuple(one.family for one in each.members)) for each in comparisons}
    if len(kinds) != 1:
        what = f"{plural(len(comparisons), 'comparison')} of {plural(len(kinds), 'kind')} of machines and dataflows"
        raise OptionError(Mistake("PM120", what, "Expected comparisons on one machine of the same dataflows."))
    ((objective, machine, families),) = kinds
    layers = distinct_names([each.workload.name for each in comparisons])
    named = zip(layers, comparisons, strict=True)
    cells = tuple(tuple(LayerBar(name, one.value, 1, one.status) for one in each.members) for name, each in named)
    return LayerMatrix(f"{machine}: {objective} by dataflow", objective, families, layers, cells, "dataflow")


def _bar_of(each: LayerAnswer, objective: str) -> LayerBar:
    value = None if each.exact is None else float(each.exact)
    cost = each.result.cost if objective == "energy" else None
    by_level = () if cost is None else cost.energy_by_level_pj
    return LayerBar(each.layer.name, value, each.layer.multiplicity, each.result.stated, by_level)


@svg.draws(LayerBarsFigure)
def layer_bars_svg(figure: LayerBarsFigure, *, width_px: int = chart.WIDTH_PX) -> svg.Picture:
    """Return a bar per layer, all its occurrences together; pale where it is not proven, a word where no mapping is
    known."""
    unit, spelled = chart.unit_text(figure.objective), chart.unit_after(figure.objective)
    count = sum(bar.multiplicity for bar in figure.bars)
    told = f"{plural(len(figure.bars), 'layer')}, {count:,} with repetition: {unit(figure.total)}{spelled} in all"
    open_ones = sum(bar.status != _PROVEN for bar in figure.bars)
    told += f", {open_ones or 'none'} not proven" if open_ones else ", all proven"
    layout = chart.new_chart(
        figure.title, told, width_px, left=_LEFT, right=120, high=(_ROW * len(figure.bars),), key=160
    )
    frame = layout.frame
    x = frame.x_axis([0.0, max(bar.total for bar in figure.bars) or 1.0])
    shapes = frame.columns(x, chart.tick_text(figure.objective))
    names = _labels([bar.name for bar in figure.bars], frame.left - 26)
    for number, (bar, name) in enumerate(zip(figure.bars, names, strict=True)):
        label = svg.text(frame.left - 10, frame.top + _ROW * (number + 0.5) + 4, name, anchor="end")
        shapes.append(svg.hint([label, *_drawn(figure, number, frame, x.place(bar.total))], _told(figure, number)))
    shapes.append(frame.across(f"{figure.objective}{',' if spelled else ''}{spelled}, all occurrences"))
    key = [chart.KeyRow("box", colour, level) for level, colour in _colours(figure).items()]
    key += [chart.KeyRow("box", svg.FAINT, "pale: not proven")] if open_ones else []
    return layout.picture(figure.title, shapes, key, figure)


def _labels(names: Sequence[str], room: float) -> list[str]:
    """Return the names of layers without the word up to a dot that all of them begin with (their network's), cut to the
    room."""
    word = next(iter(names), "").partition(".")[0] + "."
    shared = word if len(names) > 1 and all(name.startswith(word) for name in names) else ""
    return [svg.fitted(name.removeprefix(shared), room) for name in names]


def _colours(figure: LayerBarsFigure) -> dict[str, str]:
    return {level: _COLOURS[place % len(_COLOURS)] for place, level in enumerate(figure.levels)}


def _drawn(figure: LayerBarsFigure, number: int, frame: chart.Frame, end: float) -> list[str]:
    """Return bar and numbers of a layer."""
    bar, top, left = figure.bars[number], frame.top + _ROW * number, frame.left
    base = top + _ROW / 2 + 4
    shapes: list[str] = []
    if bar.value is None:
        return [svg.text(left + 6, base, f"no mapping: {bar.status}", size=11, fill=chart.BOUND)]
    colours, strength = _colours(figure), 1.0 if bar.status == _PROVEN else 0.45
    parts = [(colours[level], pj) for level, pj in bar.by_level_pj] or [(_COLOURS[0], 1.0)]
    whole = sum(amount for _, amount in parts) or 1.0
    for colour, amount in parts:
        width = (end - frame.left) * amount / whole
        shapes.append(svg.rect(left, top + 5, max(width, 0.2), _ROW - 10, fill=svg.tint(colour, strength)))
        left += width
    many = f"{bar.multiplicity} \u00d7 " if bar.multiplicity > 1 else ""
    words = f"{many}{chart.unit_text(figure.objective)(bar.value)}, {percent(figure.share(number))}"
    return [*shapes, svg.text(end + 6, base, words, size=11, fill=svg.GREY)]


def _told(figure: LayerBarsFigure, number: int) -> str:
    bar = figure.bars[number]
    if bar.value is None:
        return f"{bar.name}: no mapping is known ({bar.status})"
    unit, spelled = chart.unit_text(figure.objective), chart.unit_after(figure.objective)
    one, total = f"{unit(bar.value)}{spelled}", f"{unit(bar.total)}{spelled}"
    parts = "".join(f"; {level} {unit(pj)}" for level, pj in bar.by_level_pj)
    share = percent(figure.share(number))
    return f"{bar.name}: {bar.multiplicity} of {one}, in all {total} ({share}), {bar.status}{parts}"


@svg.draws(LayerMatrix)
def layer_matrix_svg(figure: LayerMatrix, *, width_px: int = chart.WIDTH_PX) -> svg.Picture:
    """Return a cell for each layer and machine (or dataflow): darker the more it costs over the best one for this
    layer; "?" where it is not proven."""
    unit = chart.unit_text(figure.objective)
    layout, wide = chart.cell_chart(
        f"Which {figure.what} suits which layer",
        figure.title,
        width_px,
        (len(figure.machines), len(figure.cells)),
        left=_LEFT,
        side=_CELL,
        high=_ROW,
        key=20,
    )
    if wide < _LEAST_CELL:
        return _layer_list(figure, width_px)
    frame, shapes = layout.frame, list[str]()
    for column, name in enumerate(figure.machines):
        middle = frame.left + wide * (column + 0.5)
        lines = svg.wrapped(name.replace("-", "- "), wide - 4)[:2]
        words = [svg.fitted(each.replace("- ", "-"), wide - 4) for each in lines]
        bases = [frame.top - 10 - 14 * (len(words) - 1 - n) for n in range(len(words))]
        heads = [svg.text(middle, at, each, bold=True, anchor="middle") for at, each in zip(bases, words, strict=True)]
        shapes.append(svg.hint(heads, name))
    labels = _labels(figure.layers, frame.left - 26)
    for row, (words, cells) in enumerate(zip(labels, figure.cells, strict=True)):
        top = frame.top + _ROW * row
        shapes.append(svg.text(frame.left - 10, top + 16, words, anchor="end"))
        least = min((bar.value for bar in cells if bar.value is not None), default=0.0)
        for column, bar in enumerate(cells):
            told = f"{bar.name} on {figure.machines[column]}: {_value(bar, figure)}"
            shapes.append(svg.hint(_cell((frame.left + wide * column, top), wide, bar, least, unit), told))
    for column, words in enumerate(_totals(figure)):
        middle = frame.left + wide * (column + 0.5)
        shapes.append(svg.text(middle, frame.bottom + 20, svg.fitted(words, wide), bold=True, anchor="middle"))
    words = svg.fitted("all nodes", frame.left - 26)
    shapes.append(svg.text(frame.left - 10, frame.bottom + 20, words, anchor="end"))
    return layout.picture(figure.title, shapes, (), figure, told=(_explained(figure),), below=44)


def _layer_list(figure: LayerMatrix, width_px: int) -> svg.Picture:
    """Return the cells of each layer below each other: a matrix whose columns would be too narrow."""
    unit, rows = chart.unit_text(figure.objective), list[chart.KeyRow]()
    for name, cells in zip(figure.layers, figure.cells, strict=True):
        least = min((bar.value for bar in cells if bar.value is not None), default=0.0)
        rows.append(chart.KeyRow("", svg.INK, name))
        for machine, bar in zip(figure.machines, cells, strict=True):
            words, colour = _words_of_cell(bar, least, unit)
            rows.append(chart.KeyRow("box", colour, machine, words, edge=svg.RULE))
    rows.append(chart.KeyRow("", svg.INK, "all nodes"))
    rows += [chart.KeyRow("box", svg.PAPER, *each) for each in zip(figure.machines, _totals(figure), strict=True)]
    layout = chart.new_chart(f"Which {figure.what} suits which layer", figure.title, width_px, high=())
    layout = replace(layout, beside=False)
    return layout.picture(figure.title, (), rows, figure, told=(_explained(figure),), below=-20)


def _explained(figure: LayerMatrix) -> str:
    return f"times: of the best {figure.what} for this layer; ?: not proven"


def _totals(figure: LayerMatrix) -> list[str]:
    """Return what all layers cost with each machine or dataflow."""
    unit, spelled = chart.unit_text(figure.objective), chart.unit_after(figure.objective)
    columns = list(zip(*figure.cells, strict=True))
    totals = [sum((bar.value or 0.0) * bar.multiplicity for bar in column) for column in columns]
    whole = [all(bar.value is not None for bar in column) for column in columns]
    return [f"{unit(each)}{spelled}" if done else "not all mapped" for each, done in zip(totals, whole, strict=True)]


def _value(bar: LayerBar, figure: LayerMatrix) -> str:
    if bar.value is None:
        return f"no mapping is known ({bar.status})"
    return f"{chart.unit_text(figure.objective)(bar.value)}{chart.unit_after(figure.objective)}, {bar.status}"


def _words_of_cell(bar: LayerBar, least: float, unit: Callable[[float], str]) -> tuple[str, str]:
    """Return the value, with how many times the least of its row it is, and the colour of that."""
    if bar.value is None:
        return bar.status, svg.PAPER
    ratio = bar.value / least if least else 1.0
    words = unit(bar.value) + ("" if bar.status == _PROVEN else " ?")
    if ratio < 1.005:
        return words, svg.tint(_COLOURS[0], 0.12)
    return f"{words}, {times(ratio)}", svg.tint(chart.BOUND, min(0.15 + 0.2 * (ratio - 1), 0.6))


def _cell(
    corner: tuple[float, float], wide: float, bar: LayerBar, least: float, unit: Callable[[float], str]
) -> list[str]:
    words, colour = _words_of_cell(bar, least, unit)
    left, top = corner
    box = svg.rect(left, top, wide - 2, _ROW - 2, fill=colour, stroke=svg.RULE, round_by=2)
    return [box, svg.text(left + wide / 2 - 1, top + 15, svg.fitted(words, wide + 8, 11), size=11, anchor="middle")]
