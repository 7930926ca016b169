"""The annotated loop nest of a mapping, with the tensors that each level holds: figure data and its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping as Table
from dataclasses import dataclass, replace
from enum import Enum
from math import prod

from polymap.costmodel.footprint import footprints
from polymap.formatting import exact, size
from polymap.ir import Architecture, Branch, Compute, Mapping, MappingNode, Role, Spatial, Storage, Temporal, Workload
from polymap.resolve import ArchitectureLike, WorkloadLike, arch_of, mapping_of, workload_of
from polymap.schedules import trip_count
from polymap.workload import statement_text


class RowKind(Enum):
    """The kind of a row of the nest."""

    STORE = "store"
    TEMPORAL = "for"
    SPATIAL = "par"
    BRANCH = "then"
    COMPUTE = "compute"


@dataclass(frozen=True, slots=True)
class HeldTensor:
    """A tensor at a storage node: elements and bits in one instance, None where that is not known."""

    tensor: str
    role: Role | None
    elements: int | None
    bits: int | None


@dataclass(frozen=True, slots=True)
class NestRow:
    """One line of the nest. depth: loops above it (a branch adds one). Fields without a meaning for the kind are None.

    name: level, dim or statement. text: the statement of a compute row. instances: of a level. used: siblings of the
    fan-out at work, by the loops down to this one.
    """

    depth: int
    kind: RowKind
    name: str
    node: int
    tile: int | None = None
    trips: int | None = None
    fanout: str | None = None
    fanout_size: int | None = None
    used: int | None = None
    instances: int | None = None
    text: str = ""
    held: tuple[HeldTensor, ...] = ()


@dataclass(frozen=True, slots=True)
class NestFigure:
    """The rows, top to bottom; the first is the outermost level with all tensors."""

    title: str
    subtitle: str
    rows: tuple[NestRow, ...]


def nest_figure(workload: Workload, arch: Architecture, mapping: Mapping) -> NestFigure:
    """Return the rows of the nest with trip counts, tiles, and the exact size of every first tile."""
    held: dict[int, list[HeldTensor]] = {}
    for place in footprints(workload, arch, mapping):
        tensor = workload.tensor(place.tensor)
        bits = None if place.elements is None else place.elements * tensor.bits
        held.setdefault(place.node, []).append(HeldTensor(place.tensor, tensor.role, place.elements, bits))
    facts = _Facts(workload, arch, {node: tuple(items) for node, items in held.items()})
    outermost = arch.levels[0].name
    root = NestRow(0, RowKind.STORE, outermost, -1, instances=1, held=facts.held.get(-1, ()))
    rows = tuple(
        row
        for row in _rows(mapping.nodes, 0, workload.extents(), {}, facts, [0])
        if row.kind is not RowKind.STORE or row.name != outermost
    )
    instances = prod(workload.extents().values())
    box = all(not statement.constraints for statement in workload.statements) and len(workload.statements) == 1
    subtitle = f"{exact(instances)} statement instances" if box else ""
    return NestFigure(f"{workload.name} on {arch.name}", subtitle, (root, *rows))


def bare_figure(mapping: Mapping) -> NestFigure:
    """Return the rows of a mapping without its workload and machine: no outermost trip counts and no sizes."""
    return NestFigure("mapping", "", tuple(_rows(mapping.nodes, 0, {}, {}, _Facts(None, None, {}), [0])))


def mapping_text(workload: WorkloadLike, mapping: Mapping, arch: ArchitectureLike | None = None) -> str:
    """Return the annotated loop nest as text: trip counts, tiles and, given the machine, the elements of one
    instance."""
    workload, mapping = workload_of(workload), mapping_of(mapping)
    if arch is not None:
        return figure_text(nest_figure(workload, arch_of(arch), mapping))
    rows = tuple(_rows(mapping.nodes, 0, workload.extents(), {}, _Facts(workload, None, {}), [0]))
    return figure_text(NestFigure(workload.name, "", rows))


def bare_text(mapping: Mapping) -> str:
    """Return the loop nest of a mapping alone."""
    return figure_text(bare_figure(mapping))


def figure_text(figure: NestFigure) -> str:
    """Return the rows as a table: the nest, trips, tile, and what one instance holds."""
    code = ["  " * row.depth + label(row) for row in figure.rows]
    # A statement has no numbers beside it, and may be as long as it likes.
    loops = [len(text) for text, row in zip(code, figure.rows, strict=True) if not is_code(row)]
    width = max([len("loop nest"), *loops])
    trips = ["" if row.trips is None else exact(row.trips) for row in figure.rows]
    tiles = ["" if row.tile is None else exact(row.tile) for row in figure.rows]
    notes = [row_note(row) for row in figure.rows]
    columns = max(map(len, ["trips", *trips])), max(map(len, ["tile", *tiles]))
    cells = [("loop nest", "trips", "tile", "one instance holds"), *zip(code, trips, tiles, notes, strict=True)]
    lines = [
        f"{text:{width}}   {trip:>{columns[0]}}   {tile:>{columns[1]}}   {note}".rstrip()
        for text, trip, tile, note in cells
    ]
    title = figure.title + (f": {figure.subtitle}" if figure.subtitle else "")
    return "\n".join((title, "", lines[0], "-" * max(map(len, lines)), *lines[1:]))


def is_code(row: NestRow) -> bool:
    """Return whether the row is a statement."""
    return row.kind is RowKind.COMPUTE


def label(row: NestRow) -> str:
    """Return the code of a row: "for k", "par c over Y", a level with its number of instances, a statement."""
    match row.kind:
        case RowKind.STORE:
            return row.name + (f" x{row.instances:,}" if row.instances and row.instances > 1 else "")
        case RowKind.TEMPORAL:
            return f"for {row.name}"
        case RowKind.SPATIAL:
            return f"par {row.name} over {row.fanout}"
        case RowKind.BRANCH:
            return row.name
        case RowKind.COMPUTE:
            return row.text or row.name


def row_note(row: NestRow) -> str:
    """Return the note at the right of a row: the tensors held, or the part of a fan-out that is used."""
    if row.kind is RowKind.STORE:
        return ", ".join(held_text(item) for item in row.held)
    if row.kind is RowKind.SPATIAL and row.fanout_size is not None and row.used is not None:
        return f"({row.used:,} of {row.fanout_size:,} {row.fanout})"
    return ""


def held_text(held: HeldTensor) -> str:
    """Return "O 12,544 (24.5 KiB)", or the tensor alone where the size is not known."""
    if held.elements is None:
        return held.tensor
    return f"{held.tensor} {exact(held.elements)}" + (f" ({size(held.bits)})" if held.bits is not None else "")


@dataclass(frozen=True, slots=True)
class _Facts:
    """Inputs of the rows beside the tree; None and empty where the caller gave none."""

    workload: Workload | None
    arch: Architecture | None
    held: Table[int, tuple[HeldTensor, ...]]


def _rows(
    nodes: tuple[MappingNode, ...],
    depth: int,
    tiles: Table[str, int],
    spread: Table[str, int],
    facts: _Facts,
    counter: list[int],
) -> Iterator[NestRow]:
    """Yield the rows of a sequence of nodes.

    tiles: the enclosing tile of each dim, as far as it is known. spread: siblings at work per fan-out.
    """
    enclosing, used = dict(tiles), dict(spread)
    for node in nodes:
        number = counter[0]
        counter[0] += 1
        match node:
            case Storage():
                yield _storage_row(node, depth, number, facts)
            case Temporal() | Spatial():
                row = _loop_row(node, depth, number, enclosing.get(node.dim), facts)
                if isinstance(node, Spatial) and row.trips is not None:
                    used[node.fanout] = used.get(node.fanout, 1) * row.trips
                    row = replace(row, used=used[node.fanout])
                yield row
                enclosing[node.dim] = min(node.tile, enclosing.get(node.dim, node.tile))
                depth += 1
            case Compute():
                statement = facts.workload.statement(node.statement) if facts.workload else None
                text = statement_text(statement) if facts.workload and statement else ""
                yield NestRow(depth, RowKind.COMPUTE, node.statement, number, text=text)
            case Branch():
                for index, child in enumerate(node.children):
                    yield NestRow(depth, RowKind.BRANCH, "first" if index == 0 else "then", number)
                    yield from _rows(child, depth + 1, enclosing, used, facts, counter)


def _storage_row(node: Storage, depth: int, number: int, facts: _Facts) -> NestRow:
    held = facts.held.get(number)
    if held is None:
        roles = {tensor.name: tensor.role for tensor in facts.workload.tensors} if facts.workload else {}
        held = tuple(HeldTensor(tensor, roles.get(tensor), None, None) for tensor in node.tensors)
    count = prod(fanout.size for fanout in facts.arch.fanouts_above(node.level)) if facts.arch else None
    return NestRow(depth, RowKind.STORE, node.level, number, instances=count, held=held)


def _loop_row(node: Temporal | Spatial, depth: int, number: int, enclosing: int | None, facts: _Facts) -> NestRow:
    trips = None if enclosing is None else trip_count(enclosing, min(node.tile, enclosing))
    tile = node.tile if enclosing is None else min(node.tile, enclosing)
    name = node.dim
    if isinstance(node, Temporal):
        return NestRow(depth, RowKind.TEMPORAL, name, number, tile=tile, trips=trips)
    sizes = {fanout.name: fanout.size for fanout in facts.arch.fanouts} if facts.arch else {}
    return NestRow(
        depth,
        RowKind.SPATIAL,
        name,
        number,
        tile=tile,
        trips=trips,
        fanout=node.fanout,
        fanout_size=sizes.get(node.fanout),
    )
