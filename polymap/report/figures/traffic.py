"""What moves at each level and what it costs, and what fusing the nests of a program saves of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from html import escape

from polymap.costmodel import Cost, Traffic, WireUse, wire_pj
from polymap.formatting import energy, exact, percent, short, table
from polymap.inputs import expected_kind
from polymap.ir import Fanout, MemoryLevel
from polymap.networks import Fusion
from polymap.report.figures import svg
from polymap.report.figures.chart import BOUND, FOUND, WIDTH_PX, KeyRow, new_chart, round_axis, ticks_of
from polymap.report.figures.svg import GREY, Picture, fitted, hint, rect, text
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of

COLUMNS = ("level", "tensor", "reads", "writes", "fills", "drains")
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
    tables = [_grouped(COLUMNS, [(row.level, row.tensor, *_values(row)) for row in cost.traffic])]
    if cost.wires:
        tables.append(_grouped(WIRE_COLUMNS, [(row.fanout, row.tensor, *_crossings(row)) for row in cost.wires]))
    return "\n\n".join(tables)


def _grouped(columns: tuple[str, ...], rows: Sequence[tuple[str, str, int, int, int, int]]) -> str:
    """Return a table in which a name stands in the first of its rows."""
    shown: list[tuple[str, ...]] = []
    last = ""
    for name, tensor, *values in rows:
        shown.append(("" if name == last else name, tensor, *map(exact, values)))
        last = name
    return table(columns, shown, left=2)


def traffic_html(cost: Cost) -> str:
    """Return the tables of `traffic_text` as HTML."""
    tables = [_html(COLUMNS, [(row.level, row.tensor, *_values(row)) for row in cost.traffic])]
    if cost.wires:
        tables.append(_html(WIRE_COLUMNS, [(row.fanout, row.tensor, *_crossings(row)) for row in cost.wires]))
    return "".join(tables)


def _html(columns: tuple[str, ...], rows: Sequence[tuple[str, str, int, int, int, int]]) -> str:
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


def traffic_svg(workload: WorkloadLike, arch: ArchitectureLike, cost: Cost) -> svg.Picture:
    """Return the stacked bars of elements moved and of energy, level by level, as SVG."""
    workload, arch = question_of(workload, arch)
    figure = traffic_figure(workload, arch, cost)
    names = max(svg.text_width(bar.level, 14.5) for bar in figure.bars)
    left, panel, gap, top = 28 + names + 14, 300, 84, 108
    width = left + 2 * panel + gap + 66
    colours = dict(figure.colours)
    shapes = [
        svg.text(28, 38, "What moves, and what it costs", size=17, bold=True),
        svg.text(28, 59, figure.title, size=12, fill=svg.GREY),
        *_key(figure, width - 28),
        svg.text(left, top - 14, "elements read and written", size=11, fill=svg.GREY),
        svg.text(left + panel + gap, top - 14, f"energy, {energy(cost.energy_pj)} in all", size=11, fill=svg.GREY),
    ]
    most = max([sum(value for _, value in bar.elements) for bar in figure.bars] + [1])
    dearest = max([_pj(bar) for bar in figure.bars] + [1e-30])
    for number, bar in enumerate(figure.bars):
        y = top + 40 * number
        shapes.append(svg.text(left - 14, y + 18, bar.level, size=13, bold=True, anchor="end"))
        moved = sum(value for _, value in bar.elements)
        if not bar.elements and bar.level != arch.compute.name:
            shapes.append(svg.text(left + 7, y + 17.5, "holds nothing", size=11.5, fill=svg.FAINT))
            if not bar.other_pj:
                continue
        if bar.elements:
            parts = [
                (colours[tensor], value / most, f"{tensor} at {bar.level}: {exact(value)} elements")
                for tensor, value in bar.elements
            ]
            shapes += _stack(left, y, panel, parts, short(moved))
        parts = [
            (colours[tensor], value / dearest, f"{tensor} at {bar.level}: {energy(value)}") for tensor, value in bar.pj
        ]
        rest = (svg.FAINT, bar.other_pj / dearest, f"{bar.level}: {energy(bar.other_pj)}")
        note = f"{energy(_pj(bar))} · {percent(_pj(bar) / cost.energy_pj) if cost.energy_pj else '0 %'}"
        shapes += _stack(left + panel + gap, y, panel - 64, [*parts, rest], note)
    return svg.picture(width, top + 40 * len(figure.bars) + 8, f"Traffic of {figure.title}", shapes, figure)


def _values(row: Traffic) -> tuple[int, int, int, int]:
    return row.reads, row.writes, row.fills, row.drains


def _crossings(row: WireUse) -> tuple[int, int, int, int]:
    return row.messages, row.deliveries, row.collections, row.sums


def _pj(bar: Bar) -> float:
    return sum(value for _, value in bar.pj) + bar.other_pj


def _stack(x: float, y: float, room: float, parts: list[tuple[str, float, str]], note: str) -> list[str]:
    """Return one bar of adjoining parts (colour, share of the room, words under the pointer), and a note behind it."""
    shapes = [svg.rect(x, y, room, 26, fill="#f5f6f8", round_by=4)]
    start = x
    for colour, share, words in parts:
        if share > 0:
            part = svg.rect(start, y, max(share * room, 0.6), 26, fill=colour)
            shapes.append(svg.hint([part], words))
            start += max(share * room, 0.6)
    shapes.append(svg.text(max(start + 7, x + 7), y + 17.5, note, size=11.5, fill=svg.INK))
    return shapes


def _key(figure: TrafficFigure, right: float) -> list[str]:
    shapes: list[str] = []
    x = right
    for name, colour in (*reversed(figure.colours),):
        x -= svg.text_width(name, 12) + 8
        shapes.append(svg.text(x, 38, name, size=12))
        x -= 16
        shapes.append(svg.rect(x, 28, 11, 11, fill=colour, round_by=2))
        x -= 12
    return shapes


_ROW = 40.0


def fusion_svg(answer: Fusion, *, width_px: int = WIDTH_PX) -> Picture:
    """Return two bars per level and tensor that moves there: nest after nest above, the best tree below."""
    answer = expected_kind(answer, Fusion, "the answer")
    rows = [row for row in answer.moved if row.unfused or row.fused]
    told, high = str(answer).splitlines()[0], _ROW * len(rows)
    layout = new_chart("What fusing saves", told, width_px, left=190, right=70, high=(high,), key=150)
    frame = layout.frame
    x = round_axis([0.0, 1.0, *(float(max(row.unfused, row.fused)) for row in rows)], frame.left, frame.right)
    shapes = frame.uprights([(x.place(tick), short(tick)) for tick in ticks_of(x)])
    for number, row in enumerate(rows):
        top = frame.top + _ROW * number
        name = f"{row.tensor} at {row.level}"
        shapes.append(text(frame.left - 12, top + 23, fitted(name, frame.left - 28), anchor="end"))
        for place, count, colour, way in ((4, row.unfused, BOUND, "nest after nest"), (20, row.fused, FOUND, "fused")):
            end = x.place(float(count))
            bar = rect(frame.left, top + place, max(end - frame.left, 0.5), 14, fill=colour, round_by=2)
            shapes.append(hint([bar], f"{name}, {way}: {exact(count)} elements"))
            shapes.append(text(end + 6, top + place + 11, exact(count), size=11, fill=GREY))
    shapes.append(frame.across("elements read and written"))
    key = (KeyRow("box", BOUND, "nest after nest"), KeyRow("box", FOUND, "fused"))
    return layout.picture(f"What fusing saves: {answer.workload.name}", shapes, key, answer)
