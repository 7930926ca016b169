"""Packed copies of operands: panels of vectors for weights, and windows: the part of an image that tiles slide over,
with zeros for its padding, and every n-th element of a row side by side where the vectors step by n."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product

from polymap.codegen.lower import (
    Block,
    Copy,
    Declare,
    Element,
    Expr,
    For,
    If,
    Int,
    Invoke,
    Name,
    Run,
    Scope,
    Stmt,
    add,
    multiply,
    total,
)
from polymap.codegen.native.arrays import ELEMENT_BYTES, ArrayForm, Linear
from polymap.codegen.native.tuning import TUNING

_PICK = """#ifdef __clang__
#define PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK(a, b, ...) __builtin_shuffle(a, b, (lane_numbers){__VA_ARGS__})
#endif
"""
# Columns behind the last square, and rows behind it, are copied one by one.
_TURN_ROWS = """static void turn_rows_{kind}(
    const {kind} *from, long step, {kind} *to, long to_step, int count, int terms)
{{
    for (int row = 0; row < count; row += {lanes}) {{
        const int stop = MIN(row + {lanes}, count);
        int k = 0;
        for (; stop == row + {lanes} && k + {lanes} <= terms; k += {lanes})
            turn(from + row * step + k, step, to + k * to_step + row, to_step);
        for (; k < terms; ++k)
            for (int l = row; l < stop; ++l)
                to[k * to_step + l] = from[l * step + k];
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Span:
    """The indices of a dim that are copied: `tile` from `origin` on (a C name), cut at the extent; in memory they stand
    in blocks of `size`."""

    dim: str
    size: int
    tile: int
    extent: int
    origin: str = "0"

    @property
    def blocks(self) -> int:
        return -(-self.tile // self.size)

    @property
    def count(self) -> Expr:
        """How many indices there are."""
        if self.origin == "0":
            return Int(min(self.tile, self.extent))
        if self.extent % self.tile == 0:
            return Int(self.tile)
        return Name(f"MIN({self.tile}, {self.extent} - {self.origin})")


@dataclass(frozen=True, slots=True)
class PackedDim:
    """A dim in a packed array: index origin + i stands at `outer * (i / size) + inner * (i % size)`."""

    span: Span
    outer: int
    inner: int


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of an array that is copied as a window: `length` indices from `start` on, of which those below 0 or not
    below `size` are zeros. start: a number, or a C text; source, to: steps of the caller's array and of the copy.
    stride: of the vectors along it, whose phases (index % stride) stand `phase` elements apart. is_checked: whether an
    index may lie outside."""

    start: int | str
    length: int
    size: int
    source: int
    to: int
    stride: int
    phase: int
    is_checked: bool


@dataclass(frozen=True, slots=True)
class Packing:
    """How an operand is copied. source: where an element stands in the caller's array. dims: outermost first, the
    vector dim (if it has one) last; elements: of the copy; has_gaps: some of them are no element of the source.
    level: how many loops stand around the copying. axes: of a window, the one of the vectors last. tap: the dim whose
    taps choose phases, none where there is one phase. lanes: of the vectors in which rows are turned to columns, 0
    where they are of another type."""

    form: ArrayForm
    source: Linear
    dims: tuple[PackedDim, ...]
    vector: str | None
    elements: int
    has_gaps: bool
    level: int
    axes: tuple[Axis, ...] = ()
    tap: str | None = None
    lanes: int = 0

    def tap_at(self, dim: str, shift: int) -> int:
        """Return where the elements of a tap stand that lie `shift` elements behind those of the first."""
        if dim != self.tap:
            return shift
        row = self.axes[-1]
        return shift % row.stride * row.phase + shift // row.stride

    @property
    def parameter(self) -> str:
        """The copy's name in C."""
        return f"{self.form.parameter}_packed"


def panels(
    form: ArrayForm, source: Linear, spans: tuple[Span, ...], vector: Span, width: int, level: int, lanes: int = 0
) -> Packing:
    """Return the packing [panels of the vector dim][blocks of the other dims][dims in blocks][width].

    spans: outermost first. width: elements of one row of a panel, a multiple of the lanes. lanes: as of the packing.
    """
    step = width
    inner: dict[str, int] = {}
    outer: dict[str, int] = {}
    for span in reversed(spans):
        inner[span.dim] = step
        step *= span.size
    for span in reversed(spans):
        outer[span.dim] = step
        step *= span.blocks
    own = PackedDim(vector, outer=step, inner=1)
    step *= vector.blocks
    dims = tuple(PackedDim(span, outer[span.dim], inner[span.dim]) for span in spans)
    gaps = any(each.extent % each.size for each in (*spans, vector)) or vector.size != width
    return Packing(form, source, (*dims, own), vector.dim, step, gaps, level, lanes=lanes)


def start_of(packing: Packing, at: dict[str, str], absolute: frozenset[str]) -> str:
    """Return the position of a tile's first element. at: C names of the tile's start; absolute: dims whose index
    inside the tile is counted from 0, not from the tile's start."""
    terms: list[str] = []
    for each in packing.dims:
        span, start = each.span, at.get(each.span.dim, "0")
        offset = start if span.origin == "0" else f"({start} - {span.origin})"
        if span.blocks > 1:
            terms.append(f"{each.outer}L * ({offset} / {span.size})")
        elif span.dim not in absolute and span.dim != packing.vector:
            terms.append(f"{each.inner}L * {offset}" if start != span.origin else "0")
        if span.dim in absolute:
            terms.append(f"-{each.inner}L * {start if span.blocks > 1 else span.origin}")
    kept = [term for term in terms if not term.endswith(("* 0", "(0 / 1)")) and term != "0"]
    return " + ".join(kept) or "0"


def copy_loops(packing: Packing, names: dict[str, str]) -> Block:
    """Return the loops that copy an operand into its packed array. names: of the dims in C."""
    if packing.axes:
        return _window_copies(packing)
    assert packing.vector is not None
    *others, own = packing.dims
    to = [_place(each, names[each.span.dim]) for each in others] + [
        multiply(Name("(long)panel"), own.outer),
        Name("lane"),
    ]
    index = {each.span.dim: _index(each.span, names[each.span.dim]) for each in others}
    index[packing.vector] = _index(own.span, f"(panel * {own.span.size} + lane)")
    at = _source(packing, index)
    source: Expr = Element(packing.form.parameter, (at,))
    word = packing.form.word
    if word is not None:
        left: Expr = Int(word.count)
        if word.length % word.count:
            left = Name(f"MIN({word.count}, {word.length} - {word.count} * {index[word.dim]})")
        source = Invoke("word_at", (Name(packing.form.parameter), at, Int(word.step), left))
    body = _rows(packing, names, others, Element(packing.parameter, (total(to),)), source)
    for each in reversed(others[:-1]):
        body = (For(names[each.span.dim], Int(0), each.span.count, body),)
    count = own.span.count
    valid: Expr = Int(own.span.size)
    if not isinstance(count, Int) or count.value % own.span.size:
        valid = Name(f"MIN({own.span.size}, {expr_text(count)} - panel * {own.span.size})")
    size = f"sizeof({packing.form.c_type})"
    opening: Block = (Declare("const int", "valid", valid),)
    if any(each.span.extent % each.span.size for each in others):
        begin: Block = (Run("memset", (Name(packing.parameter), Int(0), Name(f"{packing.elements}L * {size}"))),)
    else:  # gaps are lanes of a panel without elements
        begin, width = (), packing.elements // own.span.blocks
        place = Element("&" + packing.parameter, (multiply(Name("(long)panel"), own.outer),))
        clear = Run("memset", (place, Int(0), Name(f"{width}L * {size}")))
        opening += (If(Name(f"valid < {_width(packing)}"), (clear,)),) if packing.has_gaps else ()
    return (*begin, For("panel", Int(0), Int(own.span.blocks), (*opening, *body)))


def _width(packing: Packing) -> int:
    """Return the elements of one row of a panel."""
    *others, own = packing.dims
    return min((each.inner for each in others), default=packing.elements // own.span.blocks)


def _rows(packing: Packing, names: dict[str, str], others: list[PackedDim], to: Element, source: Expr) -> Block:
    """Return the innermost loops: along rows of the source, whichever way these lie."""
    element = Copy(to, source)
    lanes: Stmt = For("lane", Int(0), Name("valid"), (element,))
    if not others:
        return (lanes,)
    span = others[-1].span
    name = names[span.dim]
    assert packing.vector is not None
    if packing.source.of(packing.vector) == 1:
        size = packing.dims[-1].span.size
        if not isinstance(source, Element):
            return (For(name, Int(0), span.count, (lanes,)),)
        ends = tuple(replace(end, array=f"&{end.array}") for end in (to, source))
        copy = Run("memcpy", (*ends, Name(f"{size} * sizeof({packing.form.c_type})")))
        whole = Scope((Declare("const int", "lane", Int(0)), copy))
        return (For(name, Int(0), span.count, (If(Name(f"valid == {size}"), (whole,), (lanes,)),)),)
    if packing.lanes and span.blocks == 1 and packing.source.of(span.dim) == 1 and isinstance(source, Element):
        first = tuple(Declare("const int", each, Int(0)) for each in ("lane", name))
        start, end = (replace(each, array=f"&{each.array}") for each in (source, to))
        steps = Int(packing.source.of(packing.vector)), Int(others[-1].inner)
        turn = Run(f"turn_rows_{packing.form.c_type}", (start, steps[0], end, steps[1], Name("valid"), span.count))
        return (Scope((*first, turn)),)
    stop = Name(f"{name}_chunk + {TUNING.copied_row}")
    if not isinstance(span.count, Int) or span.count.value % TUNING.copied_row:
        stop = Name(f"MIN({stop.text}, {expr_text(span.count)})")
    chunk = For(name, Name(f"{name}_chunk"), stop, (element,))
    lanes = For("lane", Int(0), Name("valid"), (chunk,))
    return (For(f"{name}_chunk", Int(0), span.count, (lanes,), step=TUNING.copied_row),)


def expr_text(count: Expr) -> str:
    """Return a number or a name as C writes it."""
    return str(count.value) if isinstance(count, Int) else count.text if isinstance(count, Name) else ""


def _place(each: PackedDim, name: str) -> Expr:
    """Return a dim's part of the position of index `name` from the origin on."""
    if each.span.blocks == 1:
        return multiply(Name(f"(long){name}"), each.inner)
    block = multiply(Name(f"(long)({name} / {each.span.size})"), each.outer)
    return add(block, multiply(Name(f"({name} % {each.span.size})"), each.inner))


def _index(span: Span, name: str) -> str:
    return name if span.origin == "0" else f"({span.origin} + {name})"


def _source(packing: Packing, index: dict[str, str]) -> Expr:
    terms = [
        multiply(Name(f"(long){index[dim]}"), factor) for dim, factor in packing.source.factors.items() if dim in index
    ]
    return total([*terms, Int(packing.source.constant)])


def _window_copies(packing: Packing) -> Block:
    """Return the loops over the rows of a window: each is zeroed, and what lies in the source is copied."""
    *others, row = packing.axes
    kind, size = packing.form.c_type, row.stride * row.phase
    place = [f"{axis.to}L * i{number}" for number, axis in enumerate(others)]
    index = {number: f"({axis.start} + i{number})" for number, axis in enumerate(others)}
    source = " + ".join(f"{axis.source}L * {index[number]}" for number, axis in enumerate(others)) or "0"
    clear = Run("memset", (Name("to"), Int(0), Name(f"{size} * sizeof({kind})")))
    copies = _phases(row, kind)
    outside = [
        f"{index[number]} >= 0 && {index[number]} < {axis.size}"
        for number, axis in enumerate(others)
        if axis.is_checked
    ]
    inside: Block = (Declare(f"const {kind} *restrict", "from", Name(f"{packing.form.parameter} + {source}")), *copies)
    body: Block = (
        Declare(f"{kind} *restrict", "to", Name(" + ".join([packing.parameter, *place]))),
        clear,
        *((If(Name(" && ".join(outside)), inside),) if outside else inside),
    )
    for number, axis in reversed(list(enumerate(others))):
        if axis.length > 1:
            body = (For(f"i{number}", Int(0), Int(axis.length), body),)
        else:
            body = (Declare("const int", f"i{number}", Int(0)), *body)
    return body


def _phases(row: Axis, kind: str) -> Block:
    """Return the copy of what a row has in the source: of all phases at once where they all have it."""
    parts = [_phase(row, phase) for phase in range(row.stride)]
    if row.source * row.stride == 1:
        return _stretch(row.start, parts[0][1], kind)
    ends = [(first.value, stop.value) for _, (first, stop) in parts if isinstance(first, Int) and isinstance(stop, Int)]
    low, high = max((first for first, _ in ends), default=0), min((stop for _, stop in ends), default=0)
    if len(ends) < len(parts) or low >= high:
        return tuple(For("i", *span, (copy,)) for copy, span in parts)
    found: list[Stmt] = [_common(row, low, high, kind, tuple(copy for copy, _ in parts))]
    for (copy, _), (first, stop) in zip(parts, ends, strict=True):
        found += [For("i", Int(one), Int(other), (copy,)) for one, other in ((first, low), (high, stop)) if one < other]
    return tuple(found)


def _common(row: Axis, low: int, high: int, kind: str, copies: Block) -> Stmt:
    """Return the copy of the elements that all phases have."""
    if row.stride != 2 or row.source != 1 or not isinstance(row.start, int):
        return For("i", Int(low), Int(high), copies)
    ends = (f"from + {row.start + 2 * low}", f"to + {low}", f"to + {row.phase + low}", str(high - low))
    return Run(f"halve_{kind}", tuple(map(Name, ends)))


def _phase(row: Axis, phase: int) -> tuple[Copy, tuple[Expr, Expr]]:
    """Return the copy of element i of a phase, and the first i and the last, plus 1, that the source has."""
    start, count = _start_of_phase(row.start, phase), -(-(row.length - phase) // row.stride)
    at = Name(f"{row.source * row.stride}L * i + {row.source}L * ({start})")
    copy = Copy(Element("to", (Name(f"i + {phase * row.phase}" if phase else "i"),)), Element("from", (at,)))
    if isinstance(start, int):
        first, stop = max(0, -(start // row.stride)), min(count, (row.size - 1 - start) // row.stride + 1)
        return copy, (Int(first), Int(max(first, stop)))
    first = f"MAX(0, ({row.stride - 1} - {start}) / {row.stride})"
    return copy, (Name(first), Name(f"MIN({count}, ({row.size + row.stride - 1} - {start}) / {row.stride})"))


def _start_of_phase(start: int | str, phase: int) -> int | str:
    if isinstance(start, int):
        return start + phase
    return f"({start} + {phase})" if phase else start


def _stretch(start: int | str, ends: tuple[Expr, Expr], kind: str) -> Block:
    """Return the copy of neighbours, none of which may be in the source."""
    first, stop = map(expr_text, ends)
    place = Name(f"from + ({start} + {first})")
    if isinstance(start, int):
        count = int(stop) - int(first)
        return (Run("memcpy", (Name(f"to + {first}"), place, Name(f"{count} * sizeof({kind})"))),)
    size = Name(f"(size_t)({stop} - {first}) * sizeof({kind})")
    return (If(Name(f"{first} < {stop}"), (Run("memcpy", (Name(f"to + {first}"), place, size)),)),)


def lane_types(kind: str, lanes: int) -> str:
    """Return the types of vectors, and how the lanes of two are picked."""
    width, vector = ELEMENT_BYTES[kind], f"{kind}_lanes"
    whole, place = f"vector_size({lanes * width})", f"aligned({width}), may_alias"
    number = f"int{8 * width}_t"
    return (
        f"typedef {kind} {vector} __attribute__(({whole}));\n"
        f"typedef {kind} {vector}_any __attribute__(({whole}, {place}));\n"
        f"typedef {number} lane_numbers __attribute__(({whole}));\n"
        f"typedef {number} lane_numbers_any __attribute__(({whole}, {place}));\n{_PICK}"
    )


def numbers(values: Iterable[int]) -> str:
    """Return numbers as C lists them."""
    return ", ".join(map(str, values))


def turn_text(kind: str, lanes: int) -> str:
    """Return the function that takes a square of elements so that its columns are rows: each round puts the elements of
    two halves side by side. Arrays of vectors would be kept in memory where compilers unroll no loops."""
    vector, half = f"{kind}_lanes", lanes // 2
    pairs = [(lane, lane + lanes) for lane in range(lanes)]
    ends = [numbers(each for pair in part for each in pair) for part in (pairs[:half], pairs[half:])]
    lines = [f"    const {vector} v0_{n} = *(const {vector}_any *)(from + {n} * step);" for n in range(lanes)]
    rounds = lanes.bit_length() - 1
    for at, n, part in product(range(rounds), range(half), (0, 1)):
        lines.append(f"    const {vector} v{at + 1}_{2 * n + part} = PICK(v{at}_{n}, v{at}_{n + half}, {ends[part]});")
    lines += [f"    *({vector}_any *)(to + {n} * to_step) = v{rounds}_{n};" for n in range(lanes)]
    head = f"static inline void turn(const {kind} *from, long step, {kind} *to, long to_step)"
    return "\n".join((head, "{", *lines, "}", ""))


def turned_rows_text(kind: str, lanes: int) -> str:
    """Return the function that copies rows so that they are columns."""
    return lane_types(kind, lanes) + turn_text(kind, lanes) + _TURN_ROWS.format(kind=kind, lanes=lanes)
