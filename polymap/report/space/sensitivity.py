"""What one change of the machine costs: the optimum for halved and doubled capacities, bandwidths and fan-outs."""

from __future__ import annotations

from dataclasses import dataclass, replace

from polymap.explore import search
from polymap.ir import (
    Architecture,
    Fanout,
    MemoryLevel,
    Mistake,
    Node,
    OptionError,
    Shown,
    Workload,
    show_as_picture,
)
from polymap.report.figures import (
    BOUND,
    FOUND,
    GREY,
    INK,
    Axis,
    Frame,
    Picture,
    expected_figure,
    head,
    hint,
    line,
    picture,
    rect,
    round_axis,
    text,
    ticks_of,
    unit_text,
)
from polymap.report.space.axes import Shapes
from polymap.resolve import question_of
from polymap.search.problem import unit_of
from polymap.search.run import Options

_ROW = 26.0


@dataclass(frozen=True, slots=True)
class Change:
    """One change of the machine. value: of the objective with it, None where no mapping is known; is_proven: it is
    optimal, or nothing fits."""

    what: str
    factor: float
    value: float | None
    is_proven: bool

    @property
    def nothing(self) -> str:
        """Return what stands where there is no value."""
        return "nothing fits" if self.is_proven else "none known"


@dataclass(frozen=True, slots=True)
class SensitivityFigure(Shown):
    """value: of the machine as it is, which may not be proven; changes in the order of the machine, halves before
    doubles."""

    title: str
    objective: str
    value: float
    changes: tuple[Change, ...]
    is_proven: bool = True


def sensitivity_figure(
    workload: Workload | str, arch: Architecture | str, objective: str = "energy", *, time_limit_s: float = 60
) -> SensitivityFigure:
    """Return the optimum (dividing tiles) of the machine, and with each capacity, bandwidth and fan-out size halved and
    doubled, one at a time. Raises OptionError where nothing fits the machine as it is."""
    workload, arch = question_of(workload, arch)
    Options(tiles="divide", time_limit_s=time_limit_s).check()
    machines = [(what, factor, machine) for factor in (0.5, 2.0) for what, machine in _changed(arch, factor)]
    share = time_limit_s / (len(machines) + 1)
    base = search(workload, arch, objective, "divide", time_limit_s=share)
    if base.value is None:
        what = f"no mapping of '{workload.name}' on '{arch.name}' is known ({base.status})"
        raise OptionError(Mistake("PM575", what, "Give more time, or a machine that the workload fits."))
    changes: list[Change] = []
    for what, factor, machine in machines:
        result = search(workload, machine, objective, "divide", time_limit_s=share)
        value = None if result.value is None else float(result.value)
        changes.append(Change(what, factor, value, is_proven=result.status in ("OPTIMAL", "INFEASIBLE")))
    names = list(dict.fromkeys(change.what for change in changes))
    changes.sort(key=lambda change: (names.index(change.what), change.factor))
    title = f"{workload.name} on {arch.name}"
    return SensitivityFigure(title, objective, float(base.value), tuple(changes), base.status == "OPTIMAL")


def _changed(arch: Architecture, factor: float) -> list[tuple[str, Architecture]]:
    found: list[tuple[str, Architecture]] = []

    def add(what: str, place: int, node: Node) -> None:
        found.append((what, replace(arch, nodes=(*arch.nodes[:place], node, *arch.nodes[place + 1 :]))))

    for place, node in enumerate(arch.nodes):
        if isinstance(node, MemoryLevel):
            if node.capacity_bits is not None:
                add(f"{node.name} capacity", place, replace(node, capacity_bits=int(node.capacity_bits * factor)))
            band = node.bandwidth_bits_per_cycle
            if band is not None:
                changed = band * 2 if factor > 1 else band / 2
                add(f"{node.name} bandwidth", place, replace(node, bandwidth_bits_per_cycle=changed))
        elif isinstance(node, Fanout) and int(node.size * factor) >= 1:
            add(f"{node.name} size", place, replace(node, size=int(node.size * factor)))
    return found


def sensitivity_svg(figure: SensitivityFigure) -> Picture:
    """Return a row per resource: the change of the optimum when it is halved (above) and doubled (below)."""
    figure = expected_figure(figure, SensitivityFigure)
    names = list(dict.fromkeys(change.what for change in figure.changes))
    frame = Frame(left=150, right=600, top=96, bottom=96 + 2 * _ROW * len(names))
    shares = [change.value / figure.value - 1 for change in figure.changes if change.value is not None]
    x = round_axis([min([*shares, -0.05]) * 100, max([*shares, 0.05]) * 100], frame.left, frame.right)
    unit = unit_text(figure.objective)
    spelled = "" if figure.objective == "energy" else unit_of(figure.objective)
    told = f"{figure.title}: {figure.objective} {unit(figure.value)}{spelled}"
    told += "" if figure.is_proven else " (not proven)"
    shapes: Shapes = head("What one change of the machine costs", told)
    for tick in ticks_of(x):
        shapes += frame.upright(x.place(tick), f"{tick:+g} %" if tick else "0")
    for change in figure.changes:
        top = frame.top + 2 * _ROW * names.index(change.what) + (_ROW if change.factor > 1 else 0)
        before = f"{figure.objective} {unit(figure.value)}{spelled}"
        after = change.nothing if change.value is None else f"{unit(change.value)}{spelled}"
        words = f"{change.what} {'doubled' if change.factor > 1 else 'halved'}: {before} -> {after}"
        shapes.append(hint(_bar(figure, x, top, change), words))
    for row, name in enumerate(names):
        base = frame.top + 2 * _ROW * row
        shapes.append(text(frame.left - 12, base + _ROW + 4, name, size=12, anchor="end"))
        shapes.append(line(28, base, frame.right, base, stroke="#eef0f3"))
    shapes.append(line(x.place(0), frame.top, x.place(0), frame.bottom, stroke=INK, width=1.5))
    shapes.append(frame.across(f"change of the best {figure.objective} known"))
    shapes += [*frame.key(0, BOUND, "halved (upper bar)"), *frame.key(1, FOUND, "doubled (lower bar)")]
    return picture(800, frame.bottom + 62, f"Sensitivity: {figure.title}", shapes)


def _bar(figure: SensitivityFigure, x: Axis, top: float, change: Change) -> Shapes:
    """Return the bar of one change; what rests on a value that is not proven says so."""
    zero, colour = x.place(0), FOUND if change.factor > 1 else BOUND
    if change.value is None:
        return [text(zero + 6, top + 17, change.nothing, size=11, fill=colour)]
    share = 100 * (change.value / figure.value - 1)
    end = x.place(share)
    words = "no change" if abs(share) < 0.005 else f"{share:+.3g} %"
    words += "" if change.is_proven and figure.is_proven else " (not proven)"
    bar = rect(min(zero, end), top + 5, abs(end - zero), _ROW - 9, fill=colour, round_by=2)
    return [bar, text(max(zero, end) + 6, top + 17, words, size=11, fill=GREY)]


show_as_picture(SensitivityFigure, sensitivity_svg)
