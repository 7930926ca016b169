"""What moves at each level and what it costs, and what fusing the nests of a program saves of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from fractions import Fraction
from html import escape
from typing import Any

from polymap.costmodel import Cost, wire_pj
from polymap.formatting import energy, exact, percent, short, table
from polymap.inputs import expected_kind
from polymap.ir import Fanout, MemoryLevel
from polymap.networks import Fusion
from polymap.report.figures import chart, svg
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of

COLUMNS = ("level", "tensor", "reads", "writes", "fills", "drains")
_ROW = 40.0
WIRE_COLUMNS = ("fan-out", "tensor", "messages", "deliveries", "collections", "sums")


@dataclass(frozen=True, slots=True)
class Bar:
    """One level's stack: (tensor, elements read and written) and (tensor, pJ), in the workload's order.

    other_pj: what is no tensor's, such as leakage, or the compute unit's own energy.
    """

    level: str
    elements: tuple[tuple[str, int], ...]
    pj: tuple[tuple[str, float], ...]
    other_pj: float


@dataclass(frozen=True, slots=True)
class TrafficFigure:
    """The stacks, outermost level first, the compute unit last; tensors with their colours."""

    title: str
    colours: tuple[tuple[str, str], ...]
    bars: tuple[Bar, ...]


def traffic_text(cost: Cost) -> str:
    """Return the table of reads, writes, fills and drains in elements; a level is named in its first row. A second one
    has what crosses the fan-outs that cost energy."""
    cost = expected_kind(cost, Cost, "the cost")
    return "\n\n".join(_grouped(*each) for each in _tables(cost))


def _tables(cost: Cost) -> Iterator[tuple[tuple[str, ...], list[tuple[Any, ...]]]]:
    """Yield columns and rows of what moves at levels, and of what crosses fan-outs, if that costs energy."""
    yield COLUMNS, [astuple(row) for row in cost.traffic]
    if cost.wires:
        yield WIRE_COLUMNS, [astuple(row) for row in cost.wires]


def _grouped(columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> str:
    """Return a table in which a name stands in the first of its rows."""
    shown: list[tuple[str, ...]] = []
    last = ""
    for name, tensor, *values in rows:
        shown.append(("" if name == last else name, tensor, *map(exact, values)))
        last = name
    return table(columns, shown, left=2)


def traffic_html(cost: Cost) -> str:
    """Return the tables of `traffic_text` as HTML."""
    return "".join(_html(*each) for each in _tables(cost))


def _html(columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in columns)
    body = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(tensor)}</td>"
        + "".join(f'<td style="text-align:right">{exact(value)}</td>' for value in values)
        + "</tr>"
        for name, tensor, *values in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def traffic_figure(workload: WorkloadLike, arch: ArchitectureLike, cost: Cost) -> TrafficFigure:
    """Return elements and energy per level and tensor; the energies of a level add up to the one in `cost`."""
    workload, arch = question_of(workload, arch)
    cost = expected_kind(cost, Cost, "the cost")
    totals = dict(cost.energy_by_level_pj_exact)
    bits = {tensor.name: tensor.bits for tensor in workload.tensors}
    bars: list[Bar] = []
    for level in arch.nodes[:-1]:
        if isinstance(level, Fanout):
            if level.has_energies:
                word_bits = arch.word_bits_above(level.name)
                bars.append(_wire_bar(level, cost, {name: Fraction(each, word_bits) for name, each in bits.items()}))
            continue
        assert isinstance(level, MemoryLevel)
        rows = [row for row in cost.traffic if row.level == level.name]
        pj = {row.tensor: level.access_pj(row.reads * bits[row.tensor], row.writes * bits[row.tensor]) for row in rows}
        rest = float(totals[level.name] - sum(pj.values()))
        bars.append(
            Bar(
                level.name,
                tuple((row.tensor, row.reads + row.writes) for row in rows),
                tuple((tensor, float(value)) for tensor, value in pj.items()),
                rest,
            )
        )
    bars.append(Bar(arch.compute.name, (), (), float(totals[arch.compute.name])))
    colours = tuple(svg.tensor_colours(workload).items())
    return TrafficFigure(f"{workload.name} on {arch.name}", colours, tuple(bars))


def _wire_bar(fanout: Fanout, cost: Cost, words: Mapping[str, Fraction]) -> Bar:
    """Return what crosses a fan-out, at its children. words: of the level above, per element."""
    rows = [row for row in cost.wires if row.fanout == fanout.name]
    return Bar(
        fanout.name,
        tuple((row.tensor, row.deliveries + row.collections) for row in rows),
        tuple((row.tensor, float(wire_pj(fanout, row, words[row.tensor]))) for row in rows),
        0.0,
    )


def traffic_svg(
    workload: WorkloadLike, arch: ArchitectureLike, cost: Cost, *, width_px: int = chart.WIDTH_PX
) -> svg.Picture:
    """Return the stacked bars of elements moved and of energy, level by level, side by side where there is room."""
    workload, arch = question_of(workload, arch)
    figure = traffic_figure(workload, arch, cost)
    high = _ROW * len(figure.bars)
    panels = (high,) if chart.checked_width(width_px) >= chart.TUNING.beside_px else (high, high)
    key = 64 + max(svg.text_width(name) for name, _ in figure.colours)
    layout = chart.new_chart(
        "What moves, and what it costs", figure.title, width_px, left=122, high=panels, key=key, apart=40
    )
    frame = layout.frame
    elements, costs = frame, layout.frames[-1]
    if layout.beside:
        middle = (frame.left + frame.right) / 2
        elements, costs = replace(frame, right=middle - 14), replace(frame, left=middle + 14)
    captions = ((elements, "elements read and written"), (costs, f"energy, {energy(cost.energy_pj)} in all"))
    shapes = [svg.text(at.left, at.top - 14, words, size=11, fill=svg.GREY) for at, words in captions]
    for at in dict.fromkeys((frame, layout.frames[-1])):
        for number, bar in enumerate(figure.bars):
            name = svg.fitted(bar.level, at.left - 24, 14)
            shapes.append(svg.text(at.left - 14, at.top + _ROW * number + 18, name, size=13, bold=True, anchor="end"))
    shapes += [*_moved(figure, arch.compute.name, elements), *_spent(figure, cost.energy_pj, costs)]
    rows = [chart.KeyRow("box", colour, name) for name, colour in figure.colours]
    return layout.picture(f"Traffic of {figure.title}", shapes, rows, figure, below=16)


def _moved(figure: TrafficFigure, compute: str, frame: chart.Frame) -> list[str]:
    """Return a bar per level of the elements that it reads and writes."""
    shapes, colours = list[str](), dict(figure.colours)
    most = max([sum(value for _, value in bar.elements) for bar in figure.bars] + [1])
    for number, bar in enumerate(figure.bars):
        y = frame.top + _ROW * number
        if bar.elements:
            parts = [
                (colours[tensor], value / most, f"{tensor} at {bar.level}: {exact(value)} elements")
                for tensor, value in bar.elements
            ]
            note = short(sum(value for _, value in bar.elements))
            shapes += _stack(frame, y, 56, parts, note)
        elif bar.level != compute:
            shapes.append(svg.text(frame.left + 7, y + 17.5, "holds nothing", size=11.5, fill=svg.FAINT))
    return shapes


def _spent(figure: TrafficFigure, total_pj: float, frame: chart.Frame) -> list[str]:
    """Return a bar per level of the energy that it takes; none for a level that holds nothing and takes none."""
    shapes, colours = list[str](), dict(figure.colours)
    dearest = max([_pj(bar) for bar in figure.bars] + [1e-30])
    for number, bar in enumerate(figure.bars):
        if not bar.elements and not bar.other_pj and number < len(figure.bars) - 1:
            continue
        parts = [
            (colours[tensor], value / dearest, f"{tensor} at {bar.level}: {energy(value)}") for tensor, value in bar.pj
        ]
        rest = (svg.FAINT, bar.other_pj / dearest, f"{bar.level}: {energy(bar.other_pj)}")
        note = f"{energy(_pj(bar))} · {percent(_pj(bar) / total_pj) if total_pj else '0 %'}"
        shapes += _stack(frame, frame.top + _ROW * number, 118, [*parts, rest], note)
    return shapes


def _pj(bar: Bar) -> float:
    return sum(value for _, value in bar.pj) + bar.other_pj


def _stack(frame: chart.Frame, y: float, note_px: float, parts: list[tuple[str, float, str]], note: str) -> list[str]:
    """Return one bar of adjoining parts (colour, share of the room, words under the pointer), and a note behind it."""
    room = frame.right - frame.left - note_px
    shapes = [svg.rect(frame.left, y, room, 26, fill="#f5f6f8", round_by=4)]
    start = frame.left
    for colour, share, words in parts:
        if share > 0:
            part = svg.rect(start, y, max(share * room, 0.6), 26, fill=colour)
            shapes.append(svg.hint([part], words))
            start += max(share * room, 0.6)
    shapes.append(svg.text(start + 7, y + 17.5, note, size=11.5, fill=svg.INK))
    return shapes


@svg.draws(Fusion, "the answer")
def fusion_svg(answer: Fusion, *, width_px: int = chart.WIDTH_PX) -> svg.Picture:
    """Return two bars per level and tensor that moves there: nest after nest above, the best tree below."""
    rows = [row for row in answer.moved if row.unfused or row.fused]
    told, high = str(answer).splitlines()[0], _ROW * len(rows)
    layout = chart.new_chart("What fusing saves", told, width_px, left=190, right=70, high=(high,), key=150)
    frame = layout.frame
    x = frame.x_axis([0.0, 1.0, *(float(max(row.unfused, row.fused)) for row in rows)])
    shapes = frame.columns(x, short)
    for number, row in enumerate(rows):
        name = f"{row.tensor} at {row.level}"
        bars = [
            (x.place(float(count)) - frame.left, colour, exact(count), f"{name}, {way}: {exact(count)} elements")
            for count, colour, way in ((row.unfused, chart.BOUND, "nest after nest"), (row.fused, chart.FOUND, "fused"))
        ]
        shapes += frame.pair(frame.top + 4 + _ROW * number, name, bars)
    shapes.append(frame.across("elements read and written"))
    key = (chart.KeyRow("box", chart.BOUND, "nest after nest"), chart.KeyRow("box", chart.FOUND, "fused"))
    return layout.picture(f"What fusing saves: {answer.workload.name}", shapes, key, answer)
