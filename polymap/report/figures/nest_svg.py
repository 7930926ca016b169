"""The picture of a mapping: the loop nest at the left, and a column per tensor that shows where it is resident.

A tree with branches is drawn with its legs side by side, and a nest without room for the columns with what is held at
each level (tree_svg.py).

A column's block starts at the storage node from which on the tensor lives in that level, and reaches down to the
compute; the copy nearer to the compute lies on top of the one it was taken from.
"""

from __future__ import annotations

from collections.abc import Mapping as Table
from dataclasses import dataclass, replace
from typing import NamedTuple

from polymap.costmodel import Cost, HeldTensor, NestFigure, NestRow, RowKind, Traffic, bare_figure, label, nest_figure
from polymap.formatting import energy, exact, percent, short, size
from polymap.inputs import expected_kind
from polymap.ir import Mapping, Workload
from polymap.report.figures import svg
from polymap.report.figures.chart import checked_width
from polymap.report.figures.tree_svg import guide, has_branches, loop_ink, moved_told, moved_words, tree_svg, used_text
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of


class Layout(NamedTuple):
    """Lengths of the picture."""

    row_px: int = 27
    indent_px: int = 15
    margin_px: int = 24
    top_px: int = 112
    lane_px: int = 192
    least_lane_px: int = 128
    lane_gap_px: int = 12
    inset_px: int = 7


LAYOUT = Layout()
WIDTH_PX = 1000


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the picture: one row, or storage rows that stand together with different tensors."""

    rows: tuple[NestRow, ...]

    @property
    def first(self) -> NestRow:
        return self.rows[0]


@dataclass(frozen=True, slots=True)
class _Block:
    """A tensor's residency in a level: first line, line after the last, number of blocks below it."""

    row: NestRow
    held: HeldTensor
    start: int
    end: int
    layer: int
    below: int | None


def mapping_svg(
    workload: WorkloadLike,
    arch: ArchitectureLike,
    mapping: Mapping,
    cost: Cost | None = None,
    *,
    width_px: int = WIDTH_PX,
) -> svg.Picture:
    """Return the SVG of a mapping; with its cost, each node says what is filled into it and drained from it. Where
    `width_px` leaves no room for columns, what is held stands beside each level. Raises OptionError for a width
    that is no integer of at least 1."""
    workload, arch = question_of(workload, arch)
    mapping = mapping_of(mapping)
    cost = None if cost is None else expected_kind(cost, Cost, "the cost")
    traffic = {(row.level, row.tensor): row for row in cost.traffic} if cost is not None else {}
    figure = nest_figure(workload, arch, mapping)
    if cost is not None:
        busy = f"{percent(cost.utilization)} of the compute units"
        sums = (figure.subtitle, energy(cost.energy_pj), f"{exact(cost.latency_cycles)} cycles", busy)
        figure = replace(figure, subtitle=", ".join(part for part in sums if part))
    return _draw(figure, workload, svg.tensor_colours(workload), traffic, width_px)


def bare_svg(mapping: Mapping, *, width_px: int = WIDTH_PX) -> svg.Picture:
    """Return the SVG of a mapping alone: no sizes, no outermost trip counts."""
    figure = bare_figure(mapping)
    names = dict.fromkeys(item.tensor for row in figure.rows for item in row.held)
    palette = (*svg.ROLE_COLOURS.values(), *svg.MORE_COLOURS)
    colours = {name: palette[place % len(palette)] for place, name in enumerate(names)}
    return _draw(figure, None, colours, {}, width_px)


def _draw(
    figure: NestFigure,
    workload: Workload | None,
    colours: Table[str, str],
    traffic: Table[tuple[str, str], Traffic],
    width_px: int,
) -> svg.Picture:
    checked_width(width_px)
    lines = [] if has_branches(figure) else _lines(figure.rows)
    left = _left_width(lines)
    first = LAYOUT.margin_px + left + 26
    room = (width_px - LAYOUT.margin_px - first + LAYOUT.lane_gap_px) / max(1, len(colours)) - LAYOUT.lane_gap_px
    lane = min(LAYOUT.lane_px, room)
    words = max(svg.text_width(figure.title, 17), svg.text_width(figure.subtitle)) + 2 * LAYOUT.margin_px
    if not lines or lane < LAYOUT.least_lane_px or words > width_px:
        return tree_svg(figure, workload, colours, traffic, width_px)
    lanes = {name: first + place * (lane + LAYOUT.lane_gap_px) for place, name in enumerate(colours)}
    width = max(first + len(lanes) * (lane + LAYOUT.lane_gap_px) - LAYOUT.lane_gap_px + LAYOUT.margin_px, words, 460)
    bottom = LAYOUT.top_px + len(lines) * LAYOUT.row_px
    drawn: list[str] = [
        svg.text(LAYOUT.margin_px, 38, figure.title, size=17, bold=True),
        svg.text(LAYOUT.margin_px, 60, figure.subtitle, size=12, fill=svg.GREY),
        *_guides(lines),
        *(
            shape
            for number, line in enumerate(lines)
            for shape in _line(line, LAYOUT.top_px + number * LAYOUT.row_px, left)
        ),
    ]
    for name, x in lanes.items():
        drawn += _lane_head(name, x, lane, colours[name], figure)
        for block in _blocks(lines, name):
            drawn += _block(block, x, lane, colours[name], traffic.get((block.row.name, name)))
    drawn += _compute(lines, width)
    legend = svg.wrapped(_legend(traffic=bool(traffic)), width - LAYOUT.margin_px, 10.5)
    for number, line in enumerate(legend):
        drawn.append(svg.text(LAYOUT.margin_px, bottom + 18 + 14 * number, line, size=10.5, fill=svg.FAINT))
    return svg.picture(width, bottom + 26 + 14 * len(legend), figure.title, drawn, figure)


def _lines(rows: tuple[NestRow, ...]) -> list[_Line]:
    """Return the rows with storage rows that stand together joined, as long as no tensor comes twice."""
    lines: list[_Line] = []
    for row in rows:
        last = lines[-1] if lines else None
        if (
            last is not None
            and row.kind is RowKind.STORE is last.first.kind
            and not {item.tensor for item in row.held} & {item.tensor for one in last.rows for item in one.held}
        ):
            lines[-1] = _Line((*last.rows, row))
        else:
            lines.append(_Line((row,)))
    return lines


def _blocks(lines: list[_Line], tensor: str) -> list[_Block]:
    """Return the residencies of a tensor, outermost first; each ends with the loops around its node."""
    found: list[tuple[int, NestRow, HeldTensor]] = []
    for number, line in enumerate(lines):
        found += [(number, row, item) for row in line.rows for item in row.held if item.tensor == tensor]
    blocks: list[_Block] = []
    for start, row, item in found:
        after = [n for n in range(start + 1, len(lines)) if lines[n].first.depth < row.depth]
        end = after[0] if after else len(lines)
        end -= lines[end - 1].first.kind is RowKind.COMPUTE  # the statement's bar closes the columns
        layer = sum(1 for block in blocks if block.start <= start < block.end)
        inner = next((other for other, _, _ in found if start < other < end), None)
        blocks.append(_Block(row, item, start, end, layer, inner))
    return blocks


def _left_width(lines: list[_Line]) -> float:
    """Return the width of the nest, its numbers included."""
    code = max(
        (
            line.first.depth * LAYOUT.indent_px + svg.text_width(_code(line), 13, mono=True)
            for line in lines
            if line.first.kind is not RowKind.COMPUTE
        ),
        default=0,
    )
    return max(code + 112, 220)


def _code(line: _Line) -> str:
    if line.first.kind is RowKind.STORE:
        return ", ".join(dict.fromkeys(row.name for row in line.rows))
    return label(line.first) + used_text(line.first)


def _guides(lines: list[_Line]) -> list[str]:
    """Return a thin line from each loop down to the end of its body."""
    shapes: list[str] = []
    for number, line in enumerate(lines):
        row = line.first
        if row.kind not in (RowKind.TEMPORAL, RowKind.SPATIAL):
            continue
        after = [n for n in range(number + 1, len(lines)) if lines[n].first.depth <= row.depth]
        end = after[0] if after else len(lines) - 1
        x, y = LAYOUT.margin_px + row.depth * LAYOUT.indent_px + 4, LAYOUT.top_px + (number + 1) * LAYOUT.row_px - 3
        shapes.append(guide(row, x, y, LAYOUT.top_px + end * LAYOUT.row_px - 2))
    return shapes


def _line(line: _Line, y: float, left: float) -> list[str]:
    """Return the code of a line, and at its right the trip count and the tile."""
    row = line.first
    x, base = LAYOUT.margin_px + row.depth * LAYOUT.indent_px, y + LAYOUT.row_px / 2 + 4.5
    match row.kind:
        case RowKind.COMPUTE:
            return []
        case RowKind.STORE:
            return [svg.text(x, base, _code(line), size=12, fill=svg.GREY, bold=True, mono=True)]
        case RowKind.BRANCH:
            return [svg.text(x, base, row.name, size=12, fill=svg.GREY, mono=True)]
        case RowKind.TEMPORAL | RowKind.SPATIAL:
            pass
    parallel = row.kind is RowKind.SPATIAL
    ink = loop_ink(row)
    right, tall = LAYOUT.margin_px + left, LAYOUT.row_px - 4
    shapes = [svg.rect(x - 3, y + 2, right - x + 3, tall, fill=svg.PARALLEL_PAPER, round_by=5)] * parallel
    keyword = svg.GREY if row.trips != 1 else svg.FAINT
    shapes.append(svg.text(x, base, row.kind.value, size=13, fill=keyword, mono=True))
    shapes.append(svg.text(x + 4 * 13 * 0.602, base, row.name, size=13, fill=ink, bold=True, mono=True))
    if parallel:
        start = x + (5 + len(row.name)) * 13 * 0.602
        shapes.append(svg.text(start, base, f"over {row.fanout}{used_text(row)}", size=13, fill=svg.GREY, mono=True))
    if row.trips is not None:
        words = f"×{exact(row.trips)}"
        shapes.append(svg.text(right - 62, base, words, size=13, fill=ink, anchor="end", bold=True))
    if row.tile is not None:
        words = f"tile {short(row.tile)}"
        shapes.append(svg.text(right - 8, base, words, size=11, fill=svg.FAINT, anchor="end"))
    return shapes


def _lane_head(name: str, x: float, lane: float, colour: str, figure: NestFigure) -> list[str]:
    """Return the name, role and size of a tensor above its column."""
    whole = [item for row in figure.rows[:1] for item in row.held if item.tensor == name]
    role = next((item.role.value for row in figure.rows for item in row.held if item.tensor == name and item.role), "")
    count = f"{exact(whole[0].elements)} elements" if whole and whole[0].elements is not None else ""
    middle, words = x + lane / 2, ", ".join(filter(None, (role, count)))
    words = words if svg.text_width(words, 11) <= lane else count or role
    return [
        svg.text(middle, LAYOUT.top_px - 26, name, size=16, fill=svg.shade(colour, 0.1), bold=True, anchor="middle"),
        svg.text(middle, LAYOUT.top_px - 10, svg.fitted(words, lane, 11), size=11, fill=svg.GREY, anchor="middle"),
    ]


def _block(block: _Block, x: float, lane: float, colour: str, traffic: Traffic | None) -> list[str]:
    """Return a block with its level, size and what moves in and out; many instances lie behind one another."""
    left, width = x + block.layer * LAYOUT.inset_px, lane - 2 * block.layer * LAYOUT.inset_px
    y = LAYOUT.top_px + block.start * LAYOUT.row_px + 2
    height = (block.end - block.start) * LAYOUT.row_px - 4 - 4 * block.layer
    strength = min(0.92, 0.13 + 0.2 * block.layer)
    fill, edge = svg.tint(colour, strength), svg.tint(colour, min(1, strength + 0.25))
    ink = svg.PAPER if strength > 0.6 else svg.shade(colour, 0.45)
    soft = svg.PAPER if strength > 0.6 else svg.shade(colour, 0.25)
    many = (block.row.instances or 1) > 1
    thin = svg.tint(colour, strength * 0.7)
    shapes = [
        svg.rect(left + step, y - step, width - 2 * step, height, fill=thin, stroke=edge, round_by=6)
        for step in ((4, 2) if many else ())
    ]
    shapes.append(svg.rect(left, y, width, height, fill=fill, stroke=edge, round_by=6))
    name = block.row.name + (f" ×{exact(block.row.instances)}" if many and block.row.instances else "")
    held = "" if block.held.elements is None else short(block.held.elements)
    bits = "" if block.held.bits is None else size(block.held.bits)
    moved = "" if traffic is None else "  ".join(moved_words(traffic))
    inside, right, base = left + 9, left + width - 9, y + 16.5
    shapes.append(svg.text(inside, base, name, size=12, fill=ink, bold=True))
    room = right - inside - svg.text_width(name) - 4
    visible = height if block.below is None else (block.below - block.start) * LAYOUT.row_px
    if visible >= 1.6 * LAYOUT.row_px:
        shapes.append(svg.text(right, base, svg.fitted(bits, room, 11), size=11, fill=soft, anchor="end"))
        if block.layer and svg.text_width(f"{held}  {moved}", 11) <= right - inside:
            shapes.append(svg.text(inside, base + 17, held, size=11, fill=soft))
        shapes.append(svg.text(right, base + 17, moved, size=11, fill=ink, anchor="end"))
    else:
        note = svg.fitted(moved or bits, room, 11)
        shapes.append(svg.text(right, base, note, size=11, fill=soft, anchor="end"))
    count = "" if block.held.elements is None else f"{exact(block.held.elements)} elements"
    told = [f"{block.held.tensor} in {name}", count, bits]
    if traffic is not None:
        told.append(moved_told(traffic))
    return [svg.hint(shapes, ", ".join(filter(None, told)))]


def _compute(lines: list[_Line], width: float) -> list[str]:
    """Return the bar of each statement, across all columns."""
    shapes: list[str] = []
    for number, line in enumerate(lines):
        row = line.first
        if row.kind is RowKind.COMPUTE:
            x, y = LAYOUT.margin_px + row.depth * LAYOUT.indent_px, LAYOUT.top_px + number * LAYOUT.row_px
            right, tall, words = width - LAYOUT.margin_px, LAYOUT.row_px - 4, row.text or row.name
            shapes.append(svg.rect(x - 4, y + 2, right - x + 4, tall, fill=svg.INK, round_by=6))
            shapes.append(svg.text(x + 6, y + tall / 2 + 6.5, words, size=12.5, fill=svg.PAPER, mono=True))
    return shapes


def _legend(*, traffic: bool) -> str:
    words = "a block starts where the tensor becomes resident in that level; bytes and elements of one instance"
    return words + "; ↓ filled in, ↑ drained out, elements in the whole run" * traffic
