"""All orders of a nest's loops, and the few classes of traffic into which they fall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

from polymap.costmodel import evaluate
from polymap.formatting import exact, plural
from polymap.ir import Compute, Mapping, Mistake, OptionError, Shown, Storage, Temporal
from polymap.report import TUNING
from polymap.report.figures import svg
from polymap.report.figures.chart import WIDTH_PX, new_chart
from polymap.resolve import ArchitectureLike, WorkloadLike, question_of

_COLOURS = ("#0b8166", "#2f6fde", "#df8213", "#8a2f6b", "#5b6b8c", "#c2417c", "#7a9c18", "#8a5a44")
_CELL = 20.0


@dataclass(frozen=True, slots=True)
class OrderClass:
    """Orders with one traffic. moved: per tensor the elements that enter its storage (a written one: that leave it)."""

    moved: tuple[tuple[str, int], ...]
    orders: tuple[tuple[str, ...], ...]

    @property
    def total(self) -> int:
        """Elements moved, all tensors together."""
        return sum(elements for _, elements in self.moved)


@dataclass(frozen=True, slots=True)
class OrderFigure(Shown):
    """The classes, by rising traffic, and how many orders there are."""

    title: str
    classes: tuple[OrderClass, ...]

    @property
    def orders(self) -> int:
        """How many orders there are."""
        return sum(len(each.orders) for each in self.classes)


def order_figure(workload: WorkloadLike, arch: ArchitectureLike) -> OrderFigure:
    """Return all orders of the loops (dims of extent 1 left out) with every tensor held, one element at a time, in the
    innermost level that may hold it. Raises OptionError for several statements, and more than seven loops."""
    workload, arch = question_of(workload, arch)
    loops, most = [dim.name for dim in workload.dims if dim.extent > 1], TUNING.ordered_loops
    if len(workload.statements) != 1 or len(loops) > most:
        what = f"'{workload.name}' has {plural(len(workload.statements), 'statement')} and {plural(len(loops), 'loop')}"
        raise OptionError(Mistake("PM575", what, f"All orders are drawn of one statement and up to {most} loops."))
    (statement,) = workload.statements
    homes = {
        tensor.name: next(level.name for level in reversed(arch.levels) if level.may_hold(tensor))
        for tensor in workload.tensors
    }
    names = [level.name for level in arch.levels[1:]]
    stores = [Storage(name, tuple(t for t, home in homes.items() if home == name)) for name in names]
    classes: dict[tuple[tuple[str, int], ...], list[tuple[str, ...]]] = {}
    for order in permutations(loops):
        nodes = (*(Temporal(dim, 1) for dim in order), *(store for store in stores if store.tensors))
        cost = evaluate(workload, arch, Mapping((*nodes, Compute(statement.name))))
        rows = {(row.level, row.tensor): row for row in cost.traffic}
        moved = tuple((t, max(rows[home, t].fills, rows[home, t].drains)) for t, home in homes.items())
        classes.setdefault(moved, []).append(order)
    found = [OrderClass(moved, tuple(orders)) for moved, orders in classes.items()]
    found.sort(key=lambda each: (each.total, each.moved))
    kinds = plural(len(found), "class").replace("classs", "classes")
    orders = sum(len(each.orders) for each in found)
    return OrderFigure(f"{workload.name}: {orders} orders of the loops, {kinds} of traffic", tuple(found))


@svg.draws(OrderFigure)
def order_svg(figure: OrderFigure, *, width_px: int = WIDTH_PX) -> svg.Picture:
    """Return one square per order, in a block per class below what its orders move."""
    layout = new_chart("Many orders, few behaviours", figure.title, width_px, high=())
    left, top, shapes = layout.left, layout.body.top - 6, list[str]()
    room = layout.width - 2 * left
    columns = int(room // _CELL)
    for number, each in enumerate(figure.classes):
        name = f"class {number + 1}: {plural(len(each.orders), 'order')}"
        moved = ", ".join(f"{tensor} {exact(elements)}" for tensor, elements in each.moved)
        shapes.append(svg.text(left, top, name, size=13, bold=True))
        for words in svg.wrapped(f"{moved}; in all {exact(each.total)}", room):
            top += 18
            shapes.append(svg.text(left, top, words, size=12))
        for words in svg.wrapped(f"such as {' '.join(each.orders[0])}", room, 11.5, mono=True):
            top += 17
            shapes.append(svg.text(left, top, words, size=11.5, fill=svg.GREY, mono=True))
        shapes += _block(each.orders, columns, (left, top + 9), _COLOURS[number % len(_COLOURS)])
        top += 9 + _CELL * -(-len(each.orders) // columns) + 30
    words = "Elements that enter (of the output: leave) storage of one element per tensor, re-reads of sums aside."
    for line in svg.wrapped(words, room):
        shapes.append(svg.text(left, top, line, size=12, fill=svg.GREY))
        top += 16
    return svg.picture(layout.width, top + 8, figure.title, (*layout.heading, *shapes), figure)


def _block(orders: Sequence[tuple[str, ...]], columns: int, corner: tuple[float, float], colour: str) -> list[str]:
    cells: list[str] = []
    for place, order in enumerate(orders):
        x, y = corner[0] + _CELL * (place % columns), corner[1] + _CELL * (place // columns)
        cells.append(svg.hint([svg.rect(x, y, _CELL - 3, _CELL - 3, fill=colour, round_by=3)], " ".join(order)))
    return cells
