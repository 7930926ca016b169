"""Packed copies of operands: panels of vectors for weights, padded rows where rows collide in the caches."""

from __future__ import annotations

from dataclasses import dataclass, replace

from polymap.codegen.c import Block, Copy, Declare, Element, Expr, For, Int, Name, Run, Stmt, add, multiply, total
from polymap.codegen.native.arrays import ArrayForm, Linear

_CHUNK = 16  # elements of a source row that are copied at once: a cache line of floats


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
class Packing:
    """How an operand is copied. source: where an element stands in the caller's array. dims: outermost first, the
    vector dim (if it has one) last; elements: of the copy; has_gaps: some of them are no element of the source.
    level: how many loops stand around the copying."""

    form: ArrayForm
    source: Linear
    dims: tuple[PackedDim, ...]
    vector: str | None
    elements: int
    has_gaps: bool
    level: int

    @property
    def parameter(self) -> str:
        """The copy's name in C."""
        return f"{self.form.parameter}_packed"


def panels(form: ArrayForm, source: Linear, spans: tuple[Span, ...], vector: Span, width: int, level: int) -> Packing:
    """Return the packing [panels of the vector dim][blocks of the other dims][dims in blocks][width].

    spans: outermost first. width: elements of one row of a panel, a multiple of the lanes.
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
    return Packing(form, source, (*dims, own), vector.dim, step, gaps, level)


def padded_rows(form: ArrayForm, source: Linear, spans: tuple[Span, ...], padding: int, level: int) -> Packing:
    """Return the packing of an operand as it is, with `padding` elements after each row of its last axis."""
    step = 1
    dims: list[PackedDim] = []
    for span in sorted(spans, key=lambda span: source.of(span.dim)):
        dims.append(PackedDim(replace(span, size=span.tile), 0, step))
        step = span.tile + padding if step == 1 else step * span.tile
    return Packing(form, source, tuple(reversed(dims)), None, step, has_gaps=False, level=level)


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
    if packing.vector is None:
        return _row_copies(packing, names)
    *others, own = packing.dims
    to = [_place(each, names[each.span.dim]) for each in others] + [
        multiply(Name("(long)panel"), own.outer),
        Name("lane"),
    ]
    index = {each.span.dim: _index(each.span, names[each.span.dim]) for each in others}
    index[packing.vector] = _index(own.span, f"(panel * {own.span.size} + lane)")
    source = Element(packing.form.parameter, (_source(packing, index),))
    body = _rows(packing, names, others, Copy(Element(packing.parameter, (total(to),)), source))
    for each in reversed(others[:-1]):
        body = (For(names[each.span.dim], Int(0), each.span.count, body),)
    count = own.span.count
    valid: Expr = Int(own.span.size)
    if not isinstance(count, Int) or count.value % own.span.size:
        text = count.value if isinstance(count, Int) else count.text if isinstance(count, Name) else ""
        valid = Name(f"MIN({own.span.size}, {text} - panel * {own.span.size})")
    body = (For("panel", Int(0), Int(own.span.blocks), (Declare("const int", "valid", valid), *body)),)
    if not packing.has_gaps:
        return body
    size = Name(f"{packing.elements}L * sizeof({packing.form.c_type})")
    return (Run("memset", (Name(packing.parameter), Int(0), size)), *body)


def _rows(packing: Packing, names: dict[str, str], others: list[PackedDim], element: Copy) -> Block:
    """Return the innermost loops: along rows of the source, whichever way these lie."""
    lanes: Stmt = For("lane", Int(0), Name("valid"), (element,))
    if not others:
        return (lanes,)
    span = others[-1].span
    name = names[span.dim]
    assert packing.vector is not None
    if packing.source.of(packing.vector) == 1:
        return (For(name, Int(0), span.count, (lanes,)),)
    stop = Name(f"{name}_chunk + {_CHUNK}")
    if not isinstance(span.count, Int) or span.count.value % _CHUNK:
        stop = Name(f"MIN({stop.text}, {_text(span.count)})")
    chunk = For(name, Name(f"{name}_chunk"), stop, (element,))
    lanes = For("lane", Int(0), Name("valid"), (chunk,))
    return (For(f"{name}_chunk", Int(0), span.count, (lanes,), step=_CHUNK),)


def _text(count: Expr) -> str:
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


def _row_copies(packing: Packing, names: dict[str, str]) -> Block:
    *others, row = packing.dims
    to = total([_place(each, names[each.span.dim]) for each in others])
    index = {each.span.dim: _index(each.span, names[each.span.dim]) for each in others}
    source = _source(packing, {**index, row.span.dim: row.span.origin})
    size = Name(f"(size_t)({_text(row.span.count)}) * sizeof({packing.form.c_type})")
    ends = (Element("&" + packing.parameter, (to,)), Element("&" + packing.form.parameter, (source,)))
    body: Block = (Run("memcpy", (*ends, size)),)
    for each in reversed(others):
        body = (For(names[each.span.dim], Int(0), each.span.count, body),)
    return body
