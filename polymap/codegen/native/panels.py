"""Packed copies of operands: panels of vectors for weights, padded rows where rows collide in the caches."""

from __future__ import annotations

from dataclasses import dataclass

from polymap.codegen.c import (
    Block,
    Copy,
    Declare,
    Element,
    Expr,
    For,
    Int,
    Invoke,
    Name,
    Run,
    add,
    minimum,
    multiply,
    total,
)
from polymap.codegen.native.arrays import ArrayForm, Linear

_CHUNK = 16  # elements of a source row that are copied at once: a cache line of floats


@dataclass(frozen=True, slots=True)
class PackedDim:
    """A dim in a packed array: index i stands at `outer * (i / size) + inner * (i % size)`."""

    dim: str
    size: int
    extent: int
    outer: int
    inner: int

    @property
    def blocks(self) -> int:
        return -(-self.extent // self.size)


@dataclass(frozen=True, slots=True)
class Packing:
    """How an operand is copied. source: where an element stands in the caller's array. dims: outermost first, the
    vector dim (if it has one) last; elements: of the copy; has_gaps: some of them are no element of the source."""

    form: ArrayForm
    source: Linear
    dims: tuple[PackedDim, ...]
    elements: int
    has_gaps: bool

    @property
    def parameter(self) -> str:
        """The copy's name in C."""
        return f"{self.form.parameter}_packed"

    def of(self, dim: str) -> PackedDim | None:
        """Return how a dim is packed, or None where the operand lacks it."""
        return next((each for each in self.dims if each.dim == dim), None)


def panels(
    form: ArrayForm, source: Linear, tiles: tuple[tuple[str, int, int], ...], vector: tuple[str, int, int], width: int
) -> Packing:
    """Return the packing [whole dims][panels of the vector dim][blocks of split dims][dims in blocks][width].

    tiles: (dim, size of its blocks, extent), outermost first; a dim of one block is not split. vector: likewise;
    width: elements of one row of a panel, a multiple of the lanes.
    """
    step = width
    inner: dict[str, int] = {}
    for dim, size, _ in reversed(tiles):
        inner[dim] = step
        step *= size
    outer: dict[str, int] = {}
    for dim, size, extent in reversed(tiles):
        outer[dim] = step
        step *= -(-extent // size)
    own = PackedDim(*vector, outer=step, inner=1)
    step *= own.blocks
    dims = tuple(PackedDim(dim, size, extent, outer[dim], inner[dim]) for dim, size, extent in tiles)
    gaps = any(each.extent % each.size for each in dims) or own.blocks * width != own.extent
    return Packing(form, source, (*dims, own), step, gaps)


def padded_rows(form: ArrayForm, source: Linear, extents: dict[str, int], padding: int) -> Packing:
    """Return the packing of an operand as it is, with `padding` elements after each row of its last axis."""
    order = sorted(source.factors, key=lambda dim: -source.of(dim))
    step = 1
    dims: list[PackedDim] = []
    for number, dim in enumerate(reversed(order)):
        dims.append(PackedDim(dim, extents[dim], extents[dim], 0, step))
        step *= extents[dim]
        step += padding if number == 0 else 0
    return Packing(form, source, tuple(reversed(dims)), step, has_gaps=False)


def start_of(packing: Packing, at: dict[str, str], absolute: frozenset[str]) -> str:
    """Return the position of a tile's first element. at: C names of the tile's start; absolute: dims whose index
    inside the tile is counted from 0, not from the tile's start."""
    terms: list[str] = []
    for each in packing.dims:
        if each.dim not in at:
            continue
        if each.blocks > 1:
            terms.append(f"{each.outer}L * ({at[each.dim]} / {each.size})")
        if each.blocks > 1 and each.dim in absolute:
            terms.append(f"-{each.inner}L * {at[each.dim]}")
        if each.blocks == 1 and each.dim not in absolute:
            terms.append(f"{each.inner}L * {at[each.dim]}")
    return " + ".join(terms) or "0"


def copy_loops(packing: Packing, names: dict[str, str], vector: str) -> Block:
    """Return the loops that copy an operand into its packed array."""
    own = packing.of(vector)
    if own is None:
        return _row_copies(packing, names)
    whole = [each for each in packing.dims if each.dim != vector]
    to = [_place(each, names[each.dim]) for each in whole]
    to += [multiply(Name("(long)panel"), own.outer), Name("lane")]
    start = multiply(Name("panel"), own.size)
    index = add(start, Name("lane"))
    source = _source(packing, {**names, vector: ""}, {vector: index})
    element = Copy(Element(packing.parameter, (total(to),)), Element(packing.form.parameter, (source,)))
    body = _panel_loops(packing, names, whole, Copy(element.target, element.value), own, packing.source.of(vector) == 1)
    for each in reversed(whole[:-1]):
        body = (For(names[each.dim], Int(0), Int(each.extent), body),)
    valid = minimum(Int(own.size), Name(f"{own.extent} - {own.size} * panel"))
    if own.extent % own.size == 0:
        valid = Int(own.size)
    body = (For("panel", Int(0), Int(own.blocks), (Declare("const int", "valid", valid), *body)),)
    if not packing.has_gaps:
        return body
    size = Name(f"{packing.elements}L * sizeof({packing.form.c_type})")
    return (Run("memset", (Name(packing.parameter), Int(0), size)), *body)


def _panel_loops(
    packing: Packing, names: dict[str, str], whole: list[PackedDim], element: Copy, own: PackedDim, contiguous: bool
) -> Block:
    """Return the innermost loops: along rows of the source, whichever way these lie."""
    lanes = ("lane", Int(0), Name("valid"))
    if not whole:
        return (For(*lanes, (element,)),)
    last, name = whole[-1], names[whole[-1].dim]
    if contiguous:
        return (For(name, Int(0), Int(last.extent), (For(*lanes, (element,)),)),)
    stop = minimum(Int(last.extent), Name(f"{name}_0 + {_CHUNK}"))
    chunk = For(name, Name(f"{name}_0"), stop, (element,))
    return (For(f"{name}_0", Int(0), Int(last.extent), (For(*lanes, (chunk,)),), step=_CHUNK),)


def _place(each: PackedDim, name: str) -> Expr:
    if each.blocks == 1:
        return multiply(Name(f"(long){name}"), each.inner)
    return add(
        multiply(Name(f"(long)({name} / {each.size})"), each.outer),
        multiply(Name(f"({name} % {each.size})"), each.inner),
    )


def _source(packing: Packing, names: dict[str, str], given: dict[str, Expr]) -> Expr:
    terms = [
        multiply(Invoke("(long)", (given.get(dim, Name(names[dim])),)), factor)
        for dim, factor in packing.source.factors.items()
    ]
    return total([*terms, Int(packing.source.constant)])


def _row_copies(packing: Packing, names: dict[str, str]) -> Block:
    row = packing.dims[-1]
    to = total([_place(each, names[each.dim]) for each in packing.dims[:-1]])
    source = _source(packing, names, {row.dim: Int(0)})
    size = Name(f"{row.extent} * sizeof({packing.form.c_type})")
    own = Element("&" + packing.parameter, (to,)), Element("&" + packing.form.parameter, (source,))
    body: Block = (Run("memcpy", (*own, size)),)
    for each in reversed(packing.dims[:-1]):
        body = (For(names[each.dim], Int(0), Int(each.extent), body),)
    return body
