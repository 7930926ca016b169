"""What a level holds over time: the tiles of one instance, and with double buffering the ones that arrive meanwhile.

Of a program the time is one iteration of the loops that its statements share, leg after leg, each equally wide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod

from polymap import ir
from polymap.costmodel import footprints
from polymap.formatting import exact, plural, short, size
from polymap.inputs import expected_kind
from polymap.networks import Fusion
from polymap.poly import progressions
from polymap.report import TUNING
from polymap.report.figures import chart, svg
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of
from polymap.schedules import ComputeInTree, LoopInTree, LoopView, check_mapping, view_of
from polymap.workload import statement_text

Loops = tuple[ir.Temporal | ir.Spatial, ...]


@dataclass(frozen=True, slots=True)
class Stay:
    """A tile: from a step until another, so many bits; arriving: those of the next tile, which come meanwhile where the
    level has several buffers (else 0, as in programs). is_used: False where it stands but the statement at work does
    not touch it."""

    start: int
    end: int
    bits: int
    arriving_bits: int
    is_used: bool = True


@dataclass(frozen=True, slots=True)
class LevelResidency:
    """Of the first instance of a level: (tensor, its tiles) until step `until`, of `steps` in all. capacity_bits: None
    where unlimited; buffering: how many buffers share it. Of a program the steps are its legs, from `first` on, and a
    tensor comes once per node, outer nodes first."""

    level: str
    capacity_bits: int | None
    buffering: int
    until: int
    steps: int
    tensors: tuple[tuple[str, tuple[Stay, ...]], ...]
    first: int = 0

    def bits_at(self, step: int) -> int:
        """Return the bits of the tiles that are held in a step."""
        return sum(stay.bits for _, stays in self.tensors for stay in stays if stay.start <= step < stay.end)


@dataclass(frozen=True, slots=True)
class ResidencyFigure(ir.Shown):
    """The levels below the outermost that hold something; colours of the tensors. legs: of a program, (statement, the
    steps that it takes in one iteration of the loops that it shares); () of a single statement."""

    title: str
    levels: tuple[LevelResidency, ...]
    colours: tuple[tuple[str, str], ...]
    legs: tuple[tuple[str, int], ...] = ()


def residency_figure(workload: WorkloadLike, arch: ArchitectureLike, mapping: ir.Mapping) -> ResidencyFigure:
    """Return what the first instance of each level holds while the first five tiles of its most restless tensor are in
    use (steps of the array; docs/counting.md, "Capacity"). A tensor's next tile arrives while the present one is used.
    Of a program of several statements: what each level holds while each statement runs, in the first iteration of the
    loops around it, in which tiles are largest.

    Raises OptionError for domains that are no box, and tensors whose tiles are no product of their axes (of programs:
    whose tiles differ from iteration to iteration); MappingError for a tree that cannot be read as a program.
    """
    workload, arch = question_of(workload, arch)
    mapping = mapping_of(mapping)
    check_mapping(workload, arch, mapping)
    if len(workload.statements) > 1:
        return _of_program(workload, arch, mapping)
    accesses = _accesses(workload)
    held: dict[str, list[tuple[str, int]]] = {}
    for place, node in enumerate(mapping.nodes):
        if isinstance(node, ir.Storage) and node.level != arch.levels[0].name:
            held.setdefault(node.level, []).extend((tensor, place) for tensor in node.tensors)
    times = _Times(workload, mapping)
    levels: list[LevelResidency] = []
    for level in arch.levels[1:]:
        if level.name not in held:
            continue
        tiles = {tensor: _tiles(times, place, accesses[tensor]) for tensor, place in held[level.name]}
        first = {tensor: _taken(each, TUNING.tiles_of_restless) for tensor, each in tiles.items()}
        until = min(stays[-1][1] for stays in first.values())
        tensors: list[tuple[str, tuple[Stay, ...]]] = []
        for tensor, place in held[level.name]:
            bits = workload.tensor(tensor).bits
            found = _taken(_tiles(times, place, accesses[tensor]), TUNING.tiles_of_tensor, until)
            tensors.append((tensor, tuple(_stays(found, bits, until, level.buffering))))
        shown = LevelResidency(level.name, level.capacity_bits, level.buffering, until, times.steps, tuple(tensors))
        levels.append(shown)
    colours = tuple(svg.tensor_colours(workload).items())
    return ResidencyFigure(f"{workload.name} on {arch.name}", tuple(levels), colours)


def _of_program(workload: ir.Workload, arch: ir.Architecture, mapping: ir.Mapping) -> ResidencyFigure:
    """Return the figure of a program: a step per leg, in the order in which they run."""
    view = view_of(workload.extents(), mapping)
    bits = _bits_of_nodes(workload, arch, mapping)
    touched = [_touched(workload, leg.node.statement) for leg in view.computes]
    levels: list[LevelResidency] = []
    for level in arch.levels[1:]:
        held: list[tuple[str, tuple[Stay, ...]]] = []
        for storage in view.storages:
            legs = [number for number, leg in enumerate(view.computes) if storage in leg.storages]
            for tensor in storage.node.tensors if storage.node.level == level.name else ():
                own = bits[storage.position, tensor]
                held.append((tensor, tuple(Stay(leg, leg + 1, own, 0, tensor in touched[leg]) for leg in legs)))
        if held:
            count = len(view.computes)
            levels.append(LevelResidency(level.name, level.capacity_bits, level.buffering, count, count, tuple(held)))
    legs = tuple(
        (statement_text(workload.statement(leg.node.statement)), _own_steps(view, leg)) for leg in view.computes
    )
    colours = tuple(svg.tensor_colours(workload).items())
    return ResidencyFigure(f"{workload.name} on {arch.name}", tuple(levels), colours, legs)


def fusion_residency(answer: Fusion) -> ResidencyFigure:
    """Return what each level holds while each statement runs, nest after nest (the first legs) and in the best tree
    found (the others)."""
    answer = expected_kind(answer, Fusion, "the answer")
    arch = answer.cost.arch
    assert arch is not None, "the cost of a tree that was found knows its machine"
    parts = [_of_program(each.workload, arch, each.mapping) for each in answer.unfused]
    fused = _of_program(answer.workload, arch, answer.mapping)
    levels: list[LevelResidency] = []
    legs: tuple[tuple[str, int], ...] = ()
    count = sum(len(part.legs) for part in parts)
    found: dict[tuple[str, bool], list[tuple[str, tuple[Stay, ...]]]] = {}
    for figure, is_fused in (*((part, False) for part in parts), (fused, True)):
        for level in figure.levels:
            own = found.setdefault((level.level, is_fused), [])
            own += [(tensor, tuple(_later(stay, len(legs)) for stay in stays)) for tensor, stays in level.tensors]
        legs += figure.legs
    sides = ((False, 0, count, "unfused"), (True, count, len(legs), "fused"))
    for level in (each for each in arch.levels[1:] if any((each.name, side[0]) in found for side in sides)):
        for is_fused, first, until, word in sides:
            held = tuple(found.get((level.name, is_fused), ()))
            told, steps = f"{level.name}, {word}", until - first
            levels.append(LevelResidency(told, level.capacity_bits, level.buffering, until, steps, held, first))
    colours = dict(fused.colours)
    more = svg.further_colours()
    for part in parts:
        colours.update({name: next(more) for name, _ in part.colours if name not in colours})
    return ResidencyFigure(f"{answer.workload.name} on {arch.name}", tuple(levels), tuple(colours.items()), legs)


def _later(stay: Stay, legs: int) -> Stay:
    return replace(stay, start=stay.start + legs, end=stay.end + legs)


def _bits_of_nodes(workload: ir.Workload, arch: ir.Architecture, mapping: ir.Mapping) -> dict[tuple[int, str], int]:
    """Return (position of a node, tensor) -> the bits that one instance holds; raises OptionError where the first tile
    need not be the largest."""
    found: dict[tuple[int, str], int] = {}
    for each in footprints(workload, arch, mapping):
        if each.elements is None:
            what = f"a tile of {each.tensor} in {each.level} differs from iteration to iteration"
            cure = "The residency of a program is drawn of boxes whose statements index a tensor alike."
            raise ir.OptionError(ir.Mistake("PM575", what, cure))
        found[each.node, each.tensor] = each.elements * workload.tensor(each.tensor).bits
    return found


def _touched(workload: ir.Workload, statement: str) -> frozenset[str]:
    return frozenset(each.tensor for each in _each(workload.statement(statement)))


def _own_steps(view: LoopView, leg: ComputeInTree) -> int:
    """Return the steps that a leg takes in one iteration of the loops that it shares with others."""
    shared = {loop.position for other in view.computes if other != leg for loop in other.loops}
    own: dict[str, list[LoopInTree]] = {}
    for loop in leg.loops:
        if loop.position not in shared:
            own.setdefault(loop.node.dim, []).append(loop)
    return prod(_trips(tuple(loop.node for loop in loops), loops[0].enclosing) for loops in own.values())


def _accesses(workload: ir.Workload) -> dict[str, ir.Access]:
    """Return the access of each tensor; raises OptionError where its tile is no product of its axes."""
    statement = workload.statements[0]
    if len(workload.statements) != 1 or not ir.is_box(statement):
        what = f"'{workload.name}' is not one statement over a box"
        raise ir.OptionError(ir.Mistake("PM575", what, "The residency is drawn of a box."))
    found: dict[str, ir.Access] = {}
    for access in _each(statement):
        dims = [dim for index in access.index for dim in index.dims]
        alone = found.setdefault(access.tensor, access) == access
        if not alone or len(set(dims)) < len(dims) or not all(index.is_linear for index in access.index):
            what = f"a tile of {access.tensor} is no product of its axes"
            raise ir.OptionError(
                ir.Mistake("PM575", what, "The residency is drawn of tensors read through one plain access.")
            )
    return found


def _each(statement: ir.Statement) -> tuple[ir.Access, ...]:
    return statement.target, *statement.reads


Tile = tuple[tuple[int, int], ...]  # (first index, count) along each dim that the tensor has
Period = tuple[int, int, int, Tile]  # start, end, elements


class _Times:
    """The steps that parts of a loop tree take where all instances run together; of the first instance."""

    def __init__(self, workload: ir.Workload, mapping: ir.Mapping) -> None:
        self.extents = workload.extents()
        self.nodes = mapping.nodes
        self.steps = self.within(0, self.extents)

    def within(self, place: int, sizes: dict[str, int]) -> int:
        """Return the steps that the nodes from `place` on take for a tile of these sizes."""
        return prod(self._of_dim(place, dim, extent) for dim, extent in sizes.items())

    def _of_dim(self, place: int, dim: str, extent: int) -> int:
        loops = tuple(
            node for node in self.nodes[place:] if isinstance(node, ir.Temporal | ir.Spatial) and node.dim == dim
        )
        return _trips(loops, extent)


@cache
def _trips(loops: Loops, extent: int) -> int:
    """Return the steps of the loops over one dim, nested in each other; of parallel ones the first takes longest."""
    if not loops:
        return 1
    tile = min(loops[0].tile, extent)
    if isinstance(loops[0], ir.Spatial):
        return _trips(loops[1:], tile)
    whole, rest = divmod(extent, tile)
    return whole * _trips(loops[1:], tile) + (_trips(loops[1:], rest) if rest else 0)


def _tiles(times: _Times, place: int, access: ir.Access) -> Iterator[Period]:
    """Return the tiles of a tensor held by the node at `place`, in order of time."""
    dims = set(access.dims)
    loops = [node for node in times.nodes[:place] if isinstance(node, ir.Temporal | ir.Spatial)]
    while loops and (isinstance(loops[-1], ir.Spatial) or loops[-1].dim not in dims):
        loops.pop()  # goes on inside the same tile, but for the size that a spatial loop leaves
    depth = 1 + max((n for n, node in enumerate(times.nodes[:place]) if node in loops), default=-1)
    last: Period | None = None
    for start, end, origin, sizes in _walk(times, 0, depth, 0, dict.fromkeys(times.extents, 0), times.extents):
        left = _first_tile(times, depth, place, sizes)
        tile = tuple((origin[dim], left[dim]) for dim in times.extents if dim in dims)
        if last is not None and last[3] == tile:
            last = (last[0], end, last[2], tile)
            continue
        if last is not None:
            yield last
        last = (start, end, _elements(access, left), tile)
    if last is not None:
        yield last


def _first_tile(times: _Times, depth: int, place: int, sizes: dict[str, int]) -> dict[str, int]:
    """Return the sizes that the loops between two places leave to their first iteration."""
    left = dict(sizes)
    for node in times.nodes[depth:place]:
        if isinstance(node, ir.Temporal | ir.Spatial):
            left[node.dim] = min(left[node.dim], node.tile)
    return left


def _walk(
    times: _Times, place: int, depth: int, start: int, origin: dict[str, int], sizes: dict[str, int]
) -> Iterator[tuple[int, int, dict[str, int], dict[str, int]]]:
    """Return (start, end, first indices, sizes) of each iteration of the loops down to `depth`; of parallel loops the
    first one's."""
    if place == depth:
        yield start, start + times.within(depth, sizes), origin, sizes
        return
    node = times.nodes[place]
    if not isinstance(node, ir.Temporal | ir.Spatial):
        yield from _walk(times, place + 1, depth, start, origin, sizes)
        return
    extent = sizes[node.dim]
    for offset in range(0, extent, node.tile) if isinstance(node, ir.Temporal) else (0,):
        inner = {**sizes, node.dim: min(node.tile, extent - offset)}
        moved = {**origin, node.dim: origin[node.dim] + offset}
        yield from _walk(times, place + 1, depth, start, moved, inner)
        start += times.within(place + 1, inner)


def _elements(access: ir.Access, sizes: dict[str, int]) -> int:
    """Return how many elements an access touches in a tile: along each axis the different values of its index."""
    count = 1
    for index in access.index:
        steps = [(coefficient, sizes[dim]) for dim, coefficient in index.coefficients().items()]
        count *= progressions(steps)[1].size
    return count


def _taken(periods: Iterator[Period], count: int, until: int | None = None) -> list[Period]:
    """Return at most so many periods and one more, for what arrives; none that begins after `until` but that one."""
    found: list[Period] = []
    for period in periods:
        if len(found) >= count and until is None:
            break
        found.append(period)
        if len(found) > count or (until is not None and period[0] >= until):
            break
    return found


def _stays(periods: Sequence[Period], bits: int, until: int, buffering: int) -> Iterator[Stay]:
    for period, following in zip(periods, (*periods[1:], None), strict=True):
        if period[0] < until:
            arriving = following[2] * bits if buffering > 1 and following is not None else 0
            yield Stay(period[0], period[1], period[2] * bits, arriving)


_TALL, _GAP = 110.0, 74.0


@svg.draws(ResidencyFigure)
def residency_svg(figure: ResidencyFigure, *, width_px: int = chart.WIDTH_PX) -> svg.Picture:
    """Return a panel per level: tiles stacked, arriving tiles as hatched wedges above them, the capacity as a line
    where it is near. Of a program: a column per statement, tiles that it does not touch pale. Raises OptionError for a
    width that is no integer of at least 320."""
    told = f"{figure.title}: the first instance of each level"
    if figure.legs:
        told += ", in one iteration of the loops that statements share"
    title, high = "What each level holds over time", [_TALL] * len(figure.levels)
    layout = chart.new_chart(title, told, width_px, left=78, high=high, apart=_GAP)
    colours, shapes = dict(figure.colours), list[str]()
    for level, frame in zip(figure.levels, layout.frames, strict=True):
        shapes += _panel(level, frame, colours, figure.legs)
    legs = [f"{number}  {name}  ({plural(steps, 'step')})" for number, (name, steps) in enumerate(figure.legs, 1)]
    return layout.picture(f"{title}: {figure.title}", shapes, _key(figure), figure, told=legs)


def _key(figure: ResidencyFigure) -> list[chart.KeyRow]:
    """Return the rows of the key."""
    held = {tensor for level in figure.levels for tensor, _ in level.tensors} if figure.legs else None
    rows = [chart.KeyRow("box", colour, tensor) for tensor, colour in figure.colours if held is None or tensor in held]
    if figure.legs:
        rows.append(chart.KeyRow("box", svg.tint(svg.GREY, 0.3), "pale: stands, not in use"))
    elif any(level.buffering > 1 for level in figure.levels):
        rows.append(chart.KeyRow("box", svg.PAPER, "pale: the next tile arrives", edge=svg.GREY))
    return rows


def _panel(
    level: LevelResidency, frame: chart.Frame, colours: dict[str, str], legs: tuple[tuple[str, int], ...]
) -> list[str]:
    room = level.capacity_bits
    if legs:
        peak = max(level.bits_at(leg) for leg in range(level.first, level.until))
        room = None if room is None else room // level.buffering
        x = chart.Axis(level.first, level.until, frame.left, frame.right)
    else:
        peak = sum(max(stay.bits + stay.arriving_bits for stay in stays) for _, stays in level.tensors)
        x = frame.x_axis([0.0, level.until])
    near = room is not None and (not peak or room <= 4 * peak)
    most = max(peak, room or 0) if near else peak
    y = frame.y_axis([0.0, most], is_size=True)
    buffers = f", {level.buffering} buffers" if level.buffering > 1 else ""
    limit = "" if level.capacity_bits is None else f" of {size(level.capacity_bits)}"
    held = f"at most {size(peak)}" if legs else f"{size(level.bits_at(0))} in use"
    words = f"{level.level}: {held}{limit}{buffers}"
    words += " (dashed)" * (near and svg.text_width(words) + svg.text_width(" (dashed)") < frame.right)
    words = svg.fitted(words, frame.right + 4)
    shapes = [svg.text(frame.begin(words), frame.top - 12, words, bold=True)]
    for tick in chart.ticks_of(y)[:: max(1, len(chart.ticks_of(y)) // 4)]:
        shapes += frame.level(y.place(tick), size(round(tick)) if tick else "0")
    if legs:
        shapes += _legs_drawn(level, x, y, colours)
        what = "statements, in the order in which they run"
    else:
        shapes += frame.uprights([(x.place(tick), short(tick)) for tick in chart.ticks_of(x) if tick <= level.until])
        shapes += _tiles_drawn(level, x, y, colours)
        what = f"first {plural(level.until, 'step')} of {exact(level.steps)}"
    if near and room is not None:
        base = y.place(room)
        shapes.append(svg.line(frame.left, base, frame.right, base, stroke=svg.INK, width=1.5, dash="5 4"))
    shapes.append(
        svg.text((frame.left + frame.right) / 2, frame.bottom + 36, what, size=11.5, fill=svg.GREY, anchor="middle")
    )
    return shapes


def _tiles_drawn(level: LevelResidency, x: chart.Axis, y: chart.Axis, colours: dict[str, str]) -> list[str]:
    """Return the tiles of a level, each tensor's above those of the tensors before."""
    shapes, floor = list[str](), 0
    for tensor, stays in level.tensors:
        most = max(stay.bits + stay.arriving_bits for stay in stays)
        for stay in stays:
            end = min(stay.end, level.until)
            left, right = x.place(stay.start), x.place(end)
            low, high = y.place(floor), y.place(floor + stay.bits)
            shown = [svg.rect(left, high, max(right - left - 1, 0.5), low - high, fill=colours[tensor])]
            if stay.arriving_bits:
                share = (end - stay.start) / (stay.end - stay.start)
                tip = y.place(floor + stay.bits + stay.arriving_bits * share)
                fill = svg.tint(colours[tensor], 0.35)
                where = f"{left:.1f},{high:.1f} {right:.1f},{high:.1f} {right:.1f},{tip:.1f}"
                shown.append(f'<polygon points="{where}" fill="{fill}"/>')
            told = f"{tensor}: {size(stay.bits)} in steps {exact(stay.start)} to {exact(stay.end)}"
            shapes.append(svg.hint(shown, told))
        floor += most
    return shapes


def _legs_drawn(level: LevelResidency, x: chart.Axis, y: chart.Axis, colours: dict[str, str]) -> list[str]:
    """Return the tiles of a level leg by leg, those of outer nodes below: a node that stands for several legs has one
    height."""
    floors = [0] * level.until
    shapes = [
        svg.text(
            (x.place(leg) + x.place(leg + 1)) / 2, y.start + 17, str(leg + 1), size=11, fill=svg.GREY, anchor="middle"
        )
        for leg in range(level.first, level.until)
    ]
    for tensor, stays in level.tensors:
        for stay in stays:
            left, right = x.place(stay.start), x.place(stay.end)
            low, high = y.place(floors[stay.start]), y.place(floors[stay.start] + stay.bits)
            fill = colours[tensor] if stay.is_used else svg.tint(colours[tensor], 0.3)
            shown = [svg.rect(left, high, right - left - 1, low - high, fill=fill)]
            if low - high >= 14 and right - left >= svg.text_width(tensor, 11) + 6:
                ink = svg.PAPER if stay.is_used else svg.INK
                middle = (left + right) / 2
                shown.append(svg.text(middle, (low + high) / 2 + 4, tensor, size=11, fill=ink, anchor="middle"))
            use = "in use" if stay.is_used else "stands, not in use"
            shapes.append(svg.hint(shown, f"{tensor}: {size(stay.bits)} during statement {stay.end}, {use}"))
            floors[stay.start] += stay.bits
    return shapes
