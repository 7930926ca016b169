"""A machine as text and as a picture: levels from the outermost down to the compute unit, fan-outs between them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod

from polymap.formatting import area, exact, short, size, table
from polymap.ir import Architecture, ComputeUnit, Fanout, MemoryLevel, Multicast
from polymap.report.figures import svg
from polymap.report.figures.chart import WIDTH_PX, checked_width, new_chart
from polymap.resolve import ArchitectureLike, arch_of

HEAD = ("machine", "instances", "capacity", "word", "read pJ", "write pJ", "bits/cycle", "holds")
BOX_WIDTH, BOX_HEIGHT, ARROW = 430, 56, 44
DEARNESS_PX = 100  # room at the right of the boxes


@dataclass(frozen=True, slots=True)
class MachineRow:
    """One node with the texts that describe it; instances: how many of a level or compute unit there are."""

    node: MemoryLevel | Fanout | ComputeUnit
    instances: int


def machine_rows(arch: Architecture) -> tuple[MachineRow, ...]:
    """Return the nodes, outermost first, with their numbers of instances (a fan-out: of siblings in all)."""
    rows: list[MachineRow] = []
    instances = 1
    for node in arch.nodes:
        if isinstance(node, Fanout):
            instances *= node.size
        rows.append(MachineRow(node, instances))
    return tuple(rows)


def machine_text(arch: Architecture) -> str:
    """Return a table of the machine's nodes, and where its numbers come from."""
    rows = [_cells(row) for row in machine_rows(arch)]
    lines = [arch.name + ("" if arch.overlap else " (transfers and compute do not overlap)"), ""]
    lines.append(table(HEAD, rows, left=1, prose=1))
    if arch.area_um2 is not None:
        lines += ["", f"area: {area(arch.area_um2)}"]
    if arch.source:
        lines += ["", f"source: {arch.source}"]
    return "\n".join(lines)


def machine_svg(arch: ArchitectureLike, *, width_px: int = WIDTH_PX) -> svg.Picture:
    """Return the machine as SVG: a box per level (its dearness is the bar at the right), arrows where it fans out."""
    arch = arch_of(arch)
    told = f"{exact(_units(arch))} × {arch.compute.name}, {exact(arch.compute.per_cycle)} per cycle each"
    needed = 2 * 28 + BOX_WIDTH + DEARNESS_PX
    layout = new_chart(arch.name, told, min(checked_width(width_px), needed), high=())
    left, y = layout.left, layout.body.top - 4
    column = _Column(left, min(float(BOX_WIDTH), layout.width - 2 * left - DEARNESS_PX), layout.width - left)
    dearest = max([_pj_per_bit(level) for level in arch.levels] + [_compute_per_bit(arch)])
    shapes = [svg.text(column.right - 62, y - 8, "pJ per bit", size=11, fill=svg.GREY)]
    previous: MemoryLevel | Fanout | ComputeUnit | None = None
    for row in machine_rows(arch):
        match row.node:
            case Fanout():
                fan, high = _fan(row.node, y, column, joined=isinstance(previous, Fanout))
                shapes.append(svg.hint(fan, ", ".join(filter(None, _cells(row))).strip()))
                y += high
            case MemoryLevel() | ComputeUnit():
                if previous is not None and not isinstance(previous, Fanout):
                    shapes.append(_wire(y, y + 14, column))
                    y += 14
                box, high = _box(row, y, column)
                shapes.append(svg.hint(box, ", ".join(filter(None, _cells(row)))))
                shapes += _dearness(row.node, y, column, dearest)
                y += high
        previous = row.node
    return svg.picture(layout.width, y + 24, f"Machine {arch.name}", (*layout.heading, *shapes), arch)


@dataclass(frozen=True, slots=True)
class _Column:
    """The boxes below one another: where they begin, how wide they are, and where the picture ends."""

    left: float
    wide: float
    right: float

    @property
    def middle(self) -> float:
        return self.left + self.wide / 2


def _cells(row: MachineRow) -> tuple[str, ...]:
    node = row.node
    match node:
        case MemoryLevel():
            capacity = "unlimited" if node.capacity_bits is None else size(node.capacity_bits)
            capacity += f", {node.buffering} buffers" if node.buffering > 1 else ""
            energies = (exact(node.read_pj), exact(node.write_pj))
            cells = (f"{node.word_bits} bit", *energies, _bandwidth(node), _holds(node))
            return (node.name, exact(row.instances), capacity, *cells)
        case Fanout():
            return (f"  fan-out {node.name} x{node.size:,}", "", "", "", "", "", "", _policy(node))
        case ComputeUnit():
            return (node.name, exact(row.instances), "", "", exact(node.pj), "", "", f"{node.per_cycle} per cycle")


def _bandwidth(level: MemoryLevel) -> str:
    if level.bandwidth_bits_per_cycle is not None:
        return exact(level.bandwidth_bits_per_cycle)
    pair = (level.read_bandwidth_bits_per_cycle, level.write_bandwidth_bits_per_cycle)
    if pair == (None, None):
        return "unlimited"
    return " + ".join("unlimited" if value is None else exact(value) for value in pair)


def _holds(level: MemoryLevel) -> str:
    must = f" (must: {' '.join(level.must_hold)})" if level.must_hold else ""
    return ("all" if level.holds is None else " ".join(level.holds) or "nothing") + must


def _policy(fanout: Fanout) -> str:
    shared = {
        Multicast.IDENTICAL: "shares identical reads",
        Multicast.UNION: "shares all reads",
        Multicast.NONE: "shares no reads",
    }
    dims = "" if fanout.dims is None else f", only {' '.join(fanout.dims) or 'no dims'}"
    told = f"{shared[fanout.multicast]}, {'adds' if fanout.reduction else 'does not add'} on the way{dims}"
    energies = (
        (fanout.pj_per_word, "pJ per word"),
        (fanout.pj_per_word_hop, f"pJ per word and hop ({fanout.hops.value})"),
        (fanout.reduce_pj, "pJ per addition"),
    )
    return ", ".join([told, *(f"{exact(pj)} {what}" for pj, what in energies if pj)])


def _units(arch: Architecture) -> int:
    return prod(fanout.size for fanout in arch.fanouts)


def _pj_per_bit(level: MemoryLevel) -> Fraction:
    return max(level.read_pj, level.write_pj) / level.word_bits


def _compute_per_bit(arch: Architecture) -> Fraction:
    return arch.compute.pj / (arch.levels[-1].word_bits if arch.levels else 8)


def _box(row: MachineRow, y: float, column: _Column) -> tuple[list[str], float]:
    """Return a level or the compute unit, and its height; where there are many, another box behind it."""
    node, is_level = row.node, isinstance(row.node, MemoryLevel)
    fill, edge, ink = ("#eef4fd", "#9dbff2", "#17427f") if is_level else (svg.INK, svg.INK, svg.PAPER)
    if isinstance(node, MemoryLevel):
        held = "" if node.holds is None else f" · {_holds(node)}"
        capacity = "unlimited capacity" if node.capacity_bits is None else size(node.capacity_bits)
        words = f"{capacity}{held} · {_bandwidth(node)} {'bits per cycle' if _is_limited(node) else 'bandwidth'}"
    else:
        assert isinstance(node, ComputeUnit), "a fan-out has no box"
        words = f"{exact(node.pj)} pJ per statement instance"
    lines = svg.wrapped(words, column.wide - 32, 11.5)
    high = BOX_HEIGHT + 15.0 * (len(lines) - 1)
    shapes = [
        svg.rect(column.left + step, y - step, column.wide, high, fill=fill, stroke=edge, round_by=8,
                 more='opacity="0.55"')
        for step in ((4,) if row.instances > 1 else ())
    ]  # fmt: skip
    shapes.append(svg.rect(column.left, y, column.wide, high, fill=fill, stroke=edge, round_by=8))
    many = f"× {exact(row.instances)}" if row.instances > 1 else ""
    room = column.wide - 40 - svg.text_width(many, 13)
    shapes.append(svg.text(column.left + 16, y + 24, svg.fitted(node.name, room, 14), size=14, fill=ink, bold=True))
    shapes.append(svg.text(column.left + column.wide - 16, y + 24, many, size=13, fill=ink, bold=True, anchor="end"))
    grey = svg.GREY if is_level else "#d1d5db"
    shapes += [svg.text(column.left + 16, y + 43 + 15 * n, each, size=11.5, fill=grey) for n, each in enumerate(lines)]
    return shapes, high


def _is_limited(level: MemoryLevel) -> bool:
    return _bandwidth(level) != "unlimited"


def _wire(start: float, end: float, column: _Column) -> str:
    return svg.line(column.middle, start, column.middle, end, stroke=svg.FAINT, width=1.5)


def _fan(fanout: Fanout, y: float, column: _Column, *, joined: bool) -> tuple[list[str], float]:
    """Return the spread below a level, named with size and policies, and its height."""
    label = f"{fanout.name} × {fanout.size:,}"
    half = svg.text_width(label, 12) / 2
    start = column.middle + half + 20
    lines = svg.wrapped(_policy(fanout), column.right - start, 10.5)
    height = max(ARROW - (10.0 if joined else 0.0), 13.0 * len(lines) + 10)
    base = y + height / 2 + 4
    first = base - 6.5 * (len(lines) - 1)
    return [
        _wire(y, y + height, column),
        svg.rect(column.middle - half - 10, base - 15, 2 * half + 20, 21,
                 fill=svg.PARALLEL_PAPER, stroke=svg.tint(svg.PARALLEL, 0.4), round_by=10),
        svg.text(column.middle, base, label, size=12, fill=svg.PARALLEL, bold=True, anchor="middle"),
        *(svg.text(start, first + 13 * n, each, size=10.5, fill=svg.FAINT) for n, each in enumerate(lines)),
    ], height  # fmt: skip


def _dearness(node: MemoryLevel | ComputeUnit, y: float, column: _Column, dearest: Fraction) -> list[str]:
    """Return the bar that says what a bit costs here, next to the dearest one."""
    if isinstance(node, ComputeUnit) or not dearest:
        return []
    value, note = _pj_per_bit(node), short(_pj_per_bit(node))
    start = column.left + column.wide + 24
    room = column.right - start - svg.text_width("0.0001", 11.5) - 7
    width = max(2.0, room * float(value / dearest))
    return [
        svg.rect(start, y + 18, width, 18, fill="#e4572e", round_by=3),
        svg.text(start + width + 7, y + 32, note, size=11.5),
    ]
