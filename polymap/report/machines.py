"""Pictures of a sweep: the machines over area or on-chip bits, and what takes most where on a grid of machines."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from polymap.formatting import area, percent, size
from polymap.inputs import expected_kind, expected_text, is_table, shown
from polymap.ir import Mistake, OptionError
from polymap.networks import MachineTotal, SweepRow, SweepTable
from polymap.report import figures
from polymap.report.figures import KeyRow, Picture, hint
from polymap.report.networks import binding, machine_label

_SIDE, _LEFT = 84.0, 118.0
_FAINT = "#c3c9d1"
_COLOURS = ("#2f6fde", "#e08a1e", "#2a9d6f", "#b5485d", "#7a5cc2", "#5b6b7a", "#c0a010", "#148f9e")


@dataclass(frozen=True, slots=True)
class MachineFrontFigure:
    """What is drawn: per machine its area (in um2; its on-chip bits where machines state no area), the sum of the first
    objective, whether no other machine's values found beat it, whether all of it is proven, and its label; machines
    with an unlimited level are left out. is_proven: of all rows of the sweep; has_areas: areas are drawn."""

    title: str
    objective: str
    points: tuple[tuple[float, float, bool, bool, str], ...]
    is_proven: bool = True
    has_areas: bool = False


@dataclass(frozen=True, slots=True)
class BindingFigure:
    """What takes most on each machine of a grid in the mappings found: of a latency the level or compute unit that
    decides it, weighed by the workloads' cycles; else the node with the most energy. cells: rows of the second field's
    values, the lowest first; of each machine the name ("" where not all is mapped), its share, and whether the mappings
    are proven best (of others that are, another node may take most).

    across, up: the fields and their values.
    """

    title: str
    across: tuple[str, tuple[object, ...]]
    up: tuple[str, tuple[object, ...]]
    cells: tuple[tuple[tuple[str, Fraction, bool], ...], ...]


def machine_front_figure(table: SweepTable) -> MachineFrontFigure:
    """Return the machines of a sweep over area or on-chip bits and the sum of the first objective. Raises OptionError
    where no machine maps all workloads within limited levels."""
    table = expected_kind(table, SweepTable, "the sweep")
    best = {_key(each) for each in table.front()}
    points: list[tuple[float, float, bool, bool, str]] = []
    totals = table.totals()
    has_areas = any(each.area_um2 is not None for each in totals)
    for each in totals:
        if each.takes is not None:
            label = machine_label(each.machine)
            told = (_key(each) in best, each.status == "OPTIMAL", label)
            points.append((float(each.takes), float(each.values[0]), *told))
    if not points:
        raise OptionError(Mistake("PM575", "no machine of the sweep maps all workloads", "The rows tell why."))
    front = sum(point[2] for point in points)
    beaten = "no other beats" if table.is_proven else "no value found beats"
    told = f"{len(points):,} machines, {front:,} that {beaten} in {' and '.join(table.objectives)} and "
    told += "area" if has_areas else "on-chip bits"
    return MachineFrontFigure(told, table.objectives[0], tuple(points), table.is_proven, has_areas)


def _key(total: MachineTotal) -> str:
    return json.dumps(total.machine, sort_keys=True, default=str)


@figures.draws(MachineFrontFigure)
def machine_front_svg(figure: MachineFrontFigure, *, width_px: int = figures.WIDTH_PX) -> Picture:
    """Return the machines as points, those that no other beats joined by a staircase."""
    across = "area" if figure.has_areas else "on-chip memory"
    layout = figures.new_chart(
        f"{figure.objective[:1].upper()}{figure.objective[1:]} against {across}", figure.title, width_px
    )
    frame = layout.frame
    is_size = not figure.has_areas
    taken_most = [max(1, point[0]) for point in figure.points]
    x = frame.x_axis(taken_most, logarithmic=is_size, is_size=is_size)
    y = frame.y_axis([point[1] for point in figure.points])
    unit = figures.unit_text(figure.objective)
    taken: Callable[[float], str] = area if figure.has_areas else lambda bits: size(round(bits))
    shapes = figures.grid(frame, x, y, taken, figures.tick_text(figure.objective))
    # Of several objectives the front is no staircase in the first alone.
    lowest = figures.undominated([point[:2] for point in figure.points if point[2]])
    stairs = figures.stairs([(x.place(most), y.place(value)) for most, value in lowest])
    shapes.append(figures.polyline(stairs, stroke=_FAINT, width=1.5))
    for most, value, best, proven, label in sorted(figure.points, key=lambda point: point[2]):
        colour = (figures.FOUND if proven else figures.BOUND) if best else figures.GREY
        words = f"{label}: {unit(value)}, {taken(most)}" + ("" if proven else ", not proven")
        place = (x.place(most), y.place(value))
        mark = (
            figures.circle(*place, 5, fill=colour if proven else figures.PAPER, stroke=colour)
            if best
            else figures.circle(*place, 3.5, fill=colour)
        )
        shapes.append(hint([mark], words))
    shapes += [frame.across(across), frame.up(figure.objective)]
    keys = ("no machine beats it", "beaten") if figure.is_proven else ("no value found beats it", "a value found does")
    key = [KeyRow("dot", figures.FOUND, keys[0]), KeyRow("dot", figures.GREY, keys[1])]
    if any(best and not proven for _, _, best, proven, _ in figure.points):
        key.insert(1, KeyRow("dot", figures.BOUND, "the same, its value not proven"))
    return layout.picture(f"{figure.objective} against {across}: {figure.title}", shapes, key, figure)


def binding_figure(table: SweepTable, across: str, up: str) -> BindingFigure:
    """Return what takes most on each machine of a grid over two fields; other fields keep their first value. Raises
    OptionError for fields that the grid lacks."""
    table = expected_kind(table, SweepTable, "the sweep")
    across, up = expected_text(across, "the field across"), expected_text(up, "the field up")
    rows: dict[tuple[object, object], list[SweepRow]] = {}
    first: dict[str, object] = {}
    for row in table.rows:
        if not is_table(row.machine) or not {across, up} <= set(row.machine):
            known = ", ".join(map(str, row.machine)) if is_table(row.machine) else "none"
            what = f"the sweep has no grid over {shown(across)} and {shown(up)}"
            raise OptionError(Mistake("PM575", what, f"Fields of its grid: {known}."))
        fields = {str(name): value for name, value in row.machine.items()}
        for name, value in fields.items():
            first.setdefault(name, value)
        if row.objective == table.objectives[0] and all(
            value == first[name] for name, value in fields.items() if name not in (across, up)
        ):
            rows.setdefault((fields[across], fields[up]), []).append(row)
    wide, tall = (tuple(dict.fromkeys(place[axis] for place in rows)) for axis in (0, 1))
    cells = tuple(tuple(binding(rows[a, b]) for a in wide) for b in tall)
    others = ", ".join(f"{name} {value}" for name, value in first.items() if name not in (across, up))
    what = "what decides the latency" if table.objectives[0] == "latency" else "where most of the energy goes"
    unsure = any(name and not proven for row in cells for name, _, proven in row)
    title = f"{what}, share of all workloads{f'; {others}' if others else ''}{'; ? not proven' if unsure else ''}"
    return BindingFigure(title, (across, wide), (up, tall), cells)


@figures.draws(BindingFigure)
def binding_svg(figure: BindingFigure, *, width_px: int = figures.WIDTH_PX) -> Picture:
    """Return the grid: a colour for each node that takes most somewhere, and its share."""
    names = list(dict.fromkeys(name or "not mapped" for row in figure.cells for name, _, _ in row))
    colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(names)} | {"not mapped": _FAINT}
    axes = [[_tick(axis, place) for place in range(len(axis[1]))] for axis in (figure.across, figure.up)]
    cells = len(axes[0]), len(axes[1])
    layout, side = figures.cell_chart(
        "What binds where", figure.title, width_px, cells, left=_LEFT, side=_SIDE, high=_SIDE
    )
    frame = layout.frame
    shapes = figures.cell_names(frame, *axes)
    for i, row in enumerate(figure.cells):
        for j, (name, share, proven) in enumerate(row):
            told, part = name or "not mapped", (percent(share) + ("" if proven else " ?")) if name else ""
            corner = frame.left + side * j, frame.bottom - _SIDE * (i + 1)
            words = f"{figure.across[0]} {axes[0][j]}, {figure.up[0]} {axes[1][i]}: {told}"
            words += f" {percent(share)}{'' if proven else ', mappings not proven'}" if name else ""
            shapes.append(hint(_binding_cell(corner, side, colours[told], told, part), words))
    shapes += [frame.across(figure.across[0]), frame.up(figure.up[0])]
    key = [KeyRow("box", figures.tint(colour, 0.3), name) for name, colour in colours.items() if name in names]
    return layout.picture(f"What binds where: {figure.title}", shapes, key, figure)


def _binding_cell(corner: tuple[float, float], side: float, colour: str, told: str, part: str) -> list[str]:
    left, top = corner
    middle = left + side / 2 - 1.5
    return [
        figures.rect(left, top, side - 3, _SIDE - 3, fill=figures.tint(colour, 0.3), round_by=4),
        figures.text(middle, top + 38, figures.fitted(told, side), bold=True, anchor="middle"),
        figures.text(middle, top + 56, figures.fitted(part, side, 11), size=11, fill=figures.GREY, anchor="middle"),
    ]


def _tick(axis: tuple[str, tuple[object, ...]], place: int) -> str:
    """Return a value of a field: sizes of memory with their unit, others as they are."""
    field, value = axis[0], axis[1][place]
    return size(value) if isinstance(value, int) and field.endswith("_bits") else str(value)
