"""The picture of a tree with branches: shared loops and what is held around them once, and below them the legs.

A *leg* is what runs from a branch down to one statement. Legs stand side by side; they run in the order of their
numbers, in every iteration of the loops above them. What one statement leaves for another is drawn in a full colour
wherever it appears.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping as Table, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from typing import NamedTuple

from polymap.costmodel import HeldTensor, NestFigure, NestRow, RowKind, Traffic, label
from polymap.formatting import exact, short, size
from polymap.ir import Workload
from polymap.report.figures import svg


class Layout(NamedTuple):
    """Lengths of the picture."""

    margin_px: int = 12
    row_px: int = 23
    indent_px: int = 11
    padding_px: int = 8
    gap_px: int = 10
    least_leg_px: int = 216
    statement_px: int = 330
    numbers_px: int = 300
    chip_px: int = 18


LAYOUT = Layout()
_TITLE, _CODE, _NOTE = 17.0, 12.0, 10.5


@dataclass(frozen=True, slots=True)
class Passed:
    """A tensor that one statement leaves for another, and the level of the innermost node that both see."""

    tensor: str
    level: str


@dataclass(frozen=True, slots=True)
class TreePart:
    """Rows that follow each other down to a branch or to a statement, and the branch's children. number: of a leg, in
    the order in which they run; 0 of what holds several. takes, gives: what passes between it and other legs."""

    rows: tuple[NestRow, ...]
    children: tuple[TreePart, ...] = ()
    number: int = 0
    takes: tuple[Passed, ...] = ()
    gives: tuple[Passed, ...] = ()

    def legs(self) -> Iterator[TreePart]:
        """Yield the legs in the order in which they run."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.legs()


def tree_parts(figure: NestFigure, workload: Workload | None) -> TreePart:
    """Return the tree of a figure's rows, with what passes between its legs (none without a workload)."""
    root = _numbered(_part(figure.rows), iter(range(1, len(figure.rows) + 1)))
    return root if workload is None else _with_passing(root, _passing(root, (), workload))


def has_branches(figure: NestFigure) -> bool:
    """Return whether a branch of the figure's tree has several children."""
    branches = [row.node for row in figure.rows if row.kind is RowKind.BRANCH]
    return len(branches) > len(set(branches))


def _part(rows: Sequence[NestRow]) -> TreePart:
    """Return the tree of rows; each child of a branch begins with a row of its kind."""
    at = next((n for n, row in enumerate(rows) if row.kind is RowKind.BRANCH), len(rows))
    starts = [n for n in range(at, len(rows)) if rows[n].kind is RowKind.BRANCH and rows[n].node == rows[at].node]
    ends = [*starts[1:], len(rows)][: len(starts)]
    children = tuple(_part(rows[start + 1 : end]) for start, end in zip(starts, ends, strict=True))
    return TreePart(tuple(rows[:at]), children)


def _numbered(part: TreePart, numbers: Iterator[int]) -> TreePart:
    if not part.children:
        return replace(part, number=next(numbers))
    return replace(part, children=tuple(_numbered(child, numbers) for child in part.children))


Pair = tuple[int, int, Passed]  # numbers of the leg that writes and of one that reads


def _passing(part: TreePart, above: tuple[NestRow, ...], workload: Workload) -> list[Pair]:
    """Return what passes between legs of different children of this part, and of the parts below it."""
    above = (*above, *part.rows)
    found = [pair for child in part.children for pair in _passing(child, above, workload)]
    comes_back = any(row.kind is RowKind.TEMPORAL for row in above)  # a later leg leaves it for the next iteration
    for writer, reader in permutations(part.children, 2):
        for one, other in product(writer.legs(), reader.legs()):
            if one.number < other.number or comes_back:
                shared = _shared(one, other, workload)
                found += [(one.number, other.number, Passed(tensor, _holder(above, tensor))) for tensor in shared]
    return found


def _shared(writer: TreePart, reader: TreePart, workload: Workload) -> list[str]:
    """Return what one leg's statement writes and another's reads or adds to."""
    names = {each.name for each in workload.statements}
    last, first = writer.rows[-1:], reader.rows[-1:]
    if not last or not first or not {last[0].name, first[0].name} <= names:
        return []
    tensor = workload.statement(last[0].name).target.tensor
    other = workload.statement(first[0].name)
    adds = other.target.tensor == tensor and writer.number < reader.number
    return [tensor] if adds or any(each.tensor == tensor for each in other.reads) else []


def _holder(rows: tuple[NestRow, ...], tensor: str) -> str:
    """Return the level of the innermost of these nodes that holds a tensor; "" where none does."""
    return next((row.name for row in reversed(rows) if any(item.tensor == tensor for item in row.held)), "")


def _with_passing(part: TreePart, pairs: Sequence[Pair]) -> TreePart:
    takes = dict.fromkeys(passed for _, reader, passed in pairs if reader == part.number)
    gives = dict.fromkeys(passed for writer, _, passed in pairs if writer == part.number)
    children = tuple(_with_passing(child, pairs) for child in part.children)
    return replace(part, children=children, takes=tuple(takes), gives=tuple(gives))


def moved_words(moved: Traffic) -> list[str]:
    """Return "↓ fills" and "↑ drains" of a level's tensor, what is zero left out."""
    return [f"{way} {short(count)}" for way, count in (("↓", moved.fills), ("↑", moved.drains)) if count]


def moved_told(moved: Traffic) -> str:
    """Return what `moved_words` abbreviates."""
    return f"{exact(moved.fills)} filled in, {exact(moved.drains)} drained out"


def used_text(row: NestRow) -> str:
    """Return " 12/14": siblings at work and siblings there are, by this loop and those above it on its fan-out."""
    return "" if row.used is None or row.fanout_size is None else f" {row.used}/{row.fanout_size}"


def loop_ink(row: NestRow) -> str:
    """Return the colour of a loop's words: pale where it runs once."""
    return svg.FAINT if row.trips == 1 else svg.PARALLEL if row.kind is RowKind.SPATIAL else svg.INK


def guide(row: NestRow, x: float, y: float, end: float) -> str:
    """Return the line from a loop down to the end of its body."""
    colour, width = (svg.tint(svg.PARALLEL, 0.55), 2) if row.kind is RowKind.SPATIAL else (svg.RULE, 1.2)
    return svg.line(x, y, x, end, stroke=colour, width=width)


@dataclass(frozen=True, slots=True)
class _Chip:
    """A tensor in its colour: full where it passes between legs, hollow where nothing of it moves."""

    words: str
    colour: str
    hint: str
    is_full: bool = False
    is_hollow: bool = False

    @property
    def width(self) -> float:
        return svg.text_width(self.words, _NOTE + 0.5) + 8


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a part: its words (code at the left, numbers at the right), and its chips, which may take several."""

    indent: float
    height: float
    words: tuple[str, ...] = ()
    row: NestRow | None = None
    chips: tuple[tuple[float, float, _Chip], ...] = ()
    code: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Placed:
    """A part with its size; lines from the top; children (x, y from the part's corner)."""

    part: TreePart
    edge: float
    width: float
    height: float
    lines: tuple[_Line, ...]
    children: tuple[tuple[float, float, _Placed], ...] = ()


@dataclass(frozen=True, slots=True)
class _Palette:
    """What the drawing needs of the program: colours, what passes between legs, and what moves."""

    colours: Table[str, str]
    passing: frozenset[str]
    traffic: Table[tuple[str, str], Traffic]
    nodes: Table[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    def chip(self, row: NestRow, held: HeldTensor, *, is_outermost: bool) -> _Chip:
        """Return the chip of a tensor at a node: its size, and what moves where that is one node's."""
        name = held.tensor
        words, told = [name], [f"{name} in {row.name}"]
        if held.bits is not None:
            words.append(size(held.bits))
            told.append(f"{exact(held.elements or 0)} elements")
        moved = self.traffic.get((row.name, name))
        if is_outermost and moved is not None:
            words.append(f"↕ {short(moved.reads + moved.writes)}")
            told.append(f"{exact(moved.reads)} elements read, {exact(moved.writes)} written")
        elif moved is not None and self.nodes.get((row.name, name)) == 1:
            words += moved_words(moved)
            told.append(moved_told(moved))
        still = is_outermost and moved is not None and not moved.reads + moved.writes
        return _Chip("  ".join(words), self.colours[name], ", ".join(told), name in self.passing, still)

    def passed(self, verb: str, passed: Passed) -> _Chip:
        """Return the chip of what a leg takes or gives."""
        words = f"{verb} {passed.tensor}" + (f" in {passed.level}" if passed.level else "")
        return _Chip(words, self.colours[passed.tensor], words, is_full=True)


def tree_svg(
    figure: NestFigure,
    workload: Workload | None,
    colours: Table[str, str],
    traffic: Table[tuple[str, str], Traffic],
    width_px: int,
) -> svg.Picture:
    """Return the picture. Legs stand side by side as far as `width_px` goes, then below each other; none is cut, so
    that one wide leg makes the picture wider."""
    root = tree_parts(figure, workload)
    passing = frozenset(each.tensor for leg in root.legs() for each in (*leg.takes, *leg.gives))
    nodes = Counter((row.name, item.tensor) for row in figure.rows for item in row.held)
    palette = _Palette(colours, passing, traffic, nodes)
    placed = _placed(root, width_px - 2 * LAYOUT.margin_px, palette, is_root=True)
    width = max(placed.width + 2 * LAYOUT.margin_px, min(width_px, 288))
    room = width - 2 * LAYOUT.margin_px
    shapes, y = list[str](), 12.0
    for words, pixels, ink in ((figure.title, _TITLE, svg.INK), (figure.subtitle, _CODE, svg.GREY)):
        for part in svg.wrapped(words, room, pixels):
            y += pixels + 5
            part = svg.fitted(part, room, pixels)
            shapes.append(svg.text(LAYOUT.margin_px, y, part, size=pixels, fill=ink, bold=pixels == _TITLE))
    y += 12
    shapes += _drawn(placed, LAYOUT.margin_px, y, palette)
    y += placed.height + 4
    for part in svg.wrapped(_legend(root, palette, sized=workload is not None), room, _NOTE):
        y += _NOTE + 5
        shapes.append(svg.text(LAYOUT.margin_px, y, part, size=_NOTE, fill=svg.GREY))
    return svg.picture(width, y + 14, figure.title, shapes, figure)


def _legend(root: TreePart, palette: _Palette, *, sized: bool) -> str:
    words = ["legs run in the order of their numbers, in every iteration of the loops above them"] * bool(root.children)
    words += ["full colour: passes from one leg to another"] * bool(palette.passing)
    words += ["sizes of one instance"] * sized
    if palette.traffic:
        words.append("↕ read and written, ↓ filled in, ↑ drained out: elements in the whole run")
    return "; ".join(words)


def _placed(part: TreePart, room: float, palette: _Palette, *, is_root: bool = False) -> _Placed:
    """Return a part with the places of all that is in it, at most `room` wide where that is possible."""
    edge = 0 if is_root else LAYOUT.padding_px
    depth = part.rows[0].depth if part.rows else 0
    loops = sum(row.kind in (RowKind.TEMPORAL, RowKind.SPATIAL) for row in part.rows)
    shift = loops * LAYOUT.indent_px
    children, wide, high = _flow([_placed(each, room - 2 * edge - shift, palette) for each in part.children], room)
    needed = max((_needed(row, depth, room - 2 * edge) for row in part.rows), default=0.0)
    inside = max(needed, wide + shift, 0 if part.children else LAYOUT.least_leg_px - 2 * edge)
    if is_root:
        inside = max(inside, min(room, 620))
    lines = [_head(part, inside, palette)] if part.number and not is_root else []
    lines += [_line(row, depth, inside, palette, is_outermost=is_root and not n) for n, row in enumerate(part.rows)]
    top = edge + sum(line.height for line in lines) + (4 if children else 0)
    moved = tuple((edge + shift + x, top + y, child) for x, y, child in children)
    return _Placed(part, edge, inside + 2 * edge, top + high + edge, tuple(lines), moved)


def _flow(children: list[_Placed], room: float) -> tuple[list[tuple[float, float, _Placed]], float, float]:
    """Return children side by side, and below each other where there is no room; their width and height."""
    placed, x, y, wide, high = list[tuple[float, float, _Placed]](), 0.0, 0.0, 0.0, 0.0
    for child in children:
        if x and x + child.width > room:
            x, y, high = 0.0, y + high + LAYOUT.gap_px, 0.0
        placed.append((x, y, child))
        x, wide, high = x + child.width + LAYOUT.gap_px, max(wide, x + child.width), max(high, child.height)
    return placed, wide, y + high


def _needed(row: NestRow, depth: int, room: float) -> float:
    """Return the width of a row; chips and statements are wrapped between words."""
    indent = (row.depth - depth) * LAYOUT.indent_px
    if row.kind is RowKind.COMPUTE:
        code = row.text or row.name
        whole, word = (svg.text_width(each, _CODE, mono=True) + 16 for each in (code, max(code.split(" "), key=len)))
        return indent + min(whole, LAYOUT.statement_px, max(word, room - indent))
    if row.kind in (RowKind.TEMPORAL, RowKind.SPATIAL):
        numbers = svg.text_width("".join(_numbers(row)), _NOTE + 0.5) + 24
        return indent + svg.text_width(_code(row), _CODE, mono=True) + numbers
    return indent + 120


def _code(row: NestRow) -> str:
    return label(row) + used_text(row)


def _numbers(row: NestRow) -> tuple[str, str]:
    """Return the trip count and the tile of a loop."""
    trips = "" if row.trips is None else f"×{exact(row.trips)}"
    return trips, "" if row.tile is None else f"tile {short(row.tile)}"


def _head(part: TreePart, room: float, palette: _Palette) -> _Line:
    """Return the first line of a leg: its number, what it takes from others and what it leaves for them."""
    chips = [palette.passed("takes", each) for each in part.takes] + [
        palette.passed("gives", each) for each in part.gives
    ]
    placed, high = _chips(chips, 24, room)
    return _Line(0, max(high, LAYOUT.row_px), (str(part.number),), None, placed)


def _line(row: NestRow, depth: int, room: float, palette: _Palette, *, is_outermost: bool) -> _Line:
    indent = (row.depth - depth) * LAYOUT.indent_px
    if row.kind is RowKind.COMPUTE:
        code = svg.wrapped(row.text or row.name, room - indent - 12, _CODE, mono=True)
        return _Line(indent, 10 + 16 * len(code), (), row, (), tuple(code))
    if row.kind is RowKind.STORE:
        name = label(row)
        chips = [palette.chip(row, item, is_outermost=is_outermost) for item in row.held]
        placed, high = _chips(chips, svg.text_width(name, _CODE, mono=True) + 8, room - indent)
        return _Line(indent, max(high, LAYOUT.row_px), (name,), row, placed)
    return _Line(indent, LAYOUT.row_px, (_code(row), *_numbers(row)), row)


def _chips(chips: list[_Chip], start: float, room: float) -> tuple[tuple[tuple[float, float, _Chip], ...], float]:
    """Return chips with their places, in as many lines as they need, and the height of these."""
    placed, x, y = list[tuple[float, float, _Chip]](), start, 0.0
    for chip in chips:
        if x > start and x + chip.width > room:
            x, y = start, y + LAYOUT.row_px
        placed.append((x, y, chip))
        x += chip.width + 5
    return tuple(placed), y + LAYOUT.row_px


def _drawn(placed: _Placed, x: float, y: float, palette: _Palette) -> list[str]:
    """Return the shapes of a part whose corner is at a point."""
    shapes, edge = list[str](), placed.edge
    if edge:
        fill = svg.PAPER if placed.part.number else "#f8fafc"
        shapes.append(svg.rect(x, y, placed.width, placed.height, fill=fill, stroke="#cbd5e1", round_by=7))
    base = y + edge
    for line in placed.lines:
        shapes += _line_shapes(line, x + edge, base, placed.width - 2 * edge, y + placed.height - edge, palette)
        base += line.height
    for left, top, child in placed.children:
        shapes += _drawn(child, x + left, y + top, palette)
    return shapes


def _line_shapes(line: _Line, x: float, y: float, width: float, end: float, palette: _Palette) -> list[str]:
    """Return the shapes of a line. end: where the body of its loop ends."""
    left, base, right = x + line.indent, y + 15.5, x + width
    shapes: list[str] = []
    row = line.row
    if row is None:
        shapes.append(svg.circle(left + 8, y + 11, 9, fill=svg.GREY))
        shapes.append(svg.text(left + 8, y + 15, line.words[0], size=11, fill=svg.PAPER, anchor="middle", bold=True))
    elif row.kind is RowKind.COMPUTE:
        shapes.append(svg.rect(left, y + 3, right - left, line.height - 4, fill=svg.INK, round_by=5))
        for n, code in enumerate(line.code):
            shapes.append(svg.text(left + 7, y + 19 + 16 * n, code, size=_CODE, fill=svg.PAPER, mono=True))
    elif row.kind is RowKind.STORE:
        shapes.append(svg.text(left, base, line.words[0], size=_CODE, fill=svg.GREY, bold=True, mono=True))
    else:
        shapes += _loop_shapes(row, line.words, (left, y), min(right, max(x + LAYOUT.numbers_px, left + 200)), end)
    return shapes + [shape for dx, dy, chip in line.chips for shape in _chip_shapes(chip, left + dx, y + dy)]


def _loop_shapes(
    row: NestRow, words: tuple[str, ...], corner: tuple[float, float], right: float, end: float
) -> list[str]:
    """Return a loop's code and numbers, and the line down to the end of its body."""
    (x, y), (code, trips, tile) = corner, words
    parallel = row.kind is RowKind.SPATIAL
    ink = loop_ink(row)
    shapes = [guide(row, x + 3, y + LAYOUT.row_px - 2, end)] if end > y + 30 else []
    if parallel:
        shapes.append(svg.rect(x - 3, y + 2, right - x + 3, LAYOUT.row_px - 4, fill=svg.PARALLEL_PAPER, round_by=4))
    shapes.append(svg.text(x, y + 15.5, code, size=_CODE, fill=ink, mono=True))
    room = svg.text_width(tile, _NOTE)
    shapes.append(svg.text(right - 4, y + 15.5, tile, size=_NOTE, fill=svg.GREY, anchor="end"))
    shapes.append(svg.text(right - room - 12, y + 15.5, trips, size=_NOTE + 0.5, fill=ink, anchor="end", bold=True))
    return shapes


def _chip_shapes(chip: _Chip, x: float, y: float) -> list[str]:
    fill = chip.colour if chip.is_full else svg.tint(chip.colour, 0.16)
    ink = svg.PAPER if chip.is_full else svg.shade(chip.colour, 0.4)
    if chip.is_hollow:
        fill, ink = svg.PAPER, svg.shade(chip.colour, 0.2)
    more = svg.dashes("3 2" if chip.is_hollow else "").strip()
    box = svg.rect(x, y + 2, chip.width, LAYOUT.chip_px, fill=fill, stroke=chip.colour, round_by=9, more=more)
    return [
        svg.hint(
            [box, svg.text(x + chip.width / 2, y + 15, chip.words, size=_NOTE + 0.5, fill=ink, anchor="middle")],
            chip.hint,
        )
    ]
