"""Convolutions of groups of few channels: the lanes of a vector lie along the channels of several groups.

Group by group, vectors would lie along pixels, and each line of memory would be read and written once per group that it
has channels of. Here a vector of the image has all channels of some groups at one pixel; of these, channel c of each
group is put into all lanes of the group, and multiplied by the weights of that channel. Each band of rows is copied
first, with its padding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from polymap.codegen.lower import ALIGNED_ARRAY, Block, For, Int, Name, Verbatim
from polymap.codegen.native.arrays import ELEMENT_BYTES, ArrayForm, Linear
from polymap.codegen.native.dots import plain_products
from polymap.codegen.native.panels import lane_types, numbers
from polymap.codegen.native.tuning import TUNING
from polymap.ir import Access, Workload


@dataclass(frozen=True, slots=True)
class Window:
    """An axis of the image: result `out` reads elements `step * out + spread * tap + start` of `size` with its taps.
    at, to, of_tap: elements of memory from one to the next of the image, of the results, and of the weights."""

    outs: int
    taps: int
    step: int
    spread: int
    start: int
    size: int
    at: int
    to: int
    of_tap: int

    def length(self, outs: int) -> int:
        """Return how many elements some neighbouring results read, from the first to the last."""
        return (outs - 1) * self.step + (self.taps - 1) * self.spread + 1


@dataclass(frozen=True, slots=True)
class NarrowGroups:
    """A convolution of `groups` groups with `channels` channels each, in and out, of the image `a` with the weights
    `b`. of_group, of_out, of_in: elements between weights of neighbouring groups and channels. outer: loops around,
    with the elements from one image and one result to the next. wide: results of a register tile."""

    a: ArrayForm
    b: ArrayForm
    to: ArrayForm
    lanes: int
    groups: int
    channels: int
    of_group: int
    of_out: int
    of_in: int
    rows: Window
    columns: Window
    outer: tuple[tuple[int, int, int], ...]
    wide: int
    adds: bool

    @property
    def vector(self) -> str:
        """The C type of a vector."""
        return f"{self.to.c_type}_lanes"

    @property
    def row(self) -> int:
        """Elements of a row of the copied band."""
        return self.columns.length(self.columns.outs) * self.lanes

    @property
    def band(self) -> int:
        """Rows of results whose rows of the image are copied at a time."""
        width = ELEMENT_BYTES[self.to.c_type]
        fitting = [
            p for p in range(1, self.rows.outs + 1) if self.rows.length(p) * self.row * width <= TUNING.band_bytes
        ]
        return max(fitting, default=1)

    def text(self, name: str, to: ArrayForm) -> tuple[str, Block]:
        """Return the functions of register tiles with their types, and the loops that call them."""
        wide = dict.fromkeys((self.wide, self.columns.outs % self.wide))
        tiles = "".join("\n".join([*_tile(self, name, count), ""]) for count in wide if count)
        return lane_types(self.to.c_type, self.lanes) + tiles, _loops(self, name, to)


def narrow_groups(
    workload: Workload, forms: tuple[ArrayForm, ...], vector_bits: int, registers: int, cache_bytes: int
) -> NarrowGroups | None:
    """Return a convolution of groups whose channels fill no vector, but those of several groups do; None for other
    workloads, and for sums that must keep their order. cache_bytes: of the second cache."""
    products = plain_products(workload, forms)
    if products is None:
        return None
    wide = TUNING.pixels_of_groups if registers >= 32 else TUNING.pixels_of_groups // 2
    to, one, other = products
    lanes = vector_bits // (8 * ELEMENT_BYTES[to.c_type])
    by_name = {to.tensor: to, one.tensor: one, other.tensor: other}
    reads = workload.statements[0].reads
    found = (_narrow(workload, *pair, by_name, lanes, wide) for pair in ((reads[0], reads[1]), (reads[1], reads[0])))
    best = next((each for each in found if each is not None), None)
    if best is None:
        return None
    is_far = (best.a.elements + to.elements) * ELEMENT_BYTES[to.c_type] > cache_bytes
    return best if best.channels <= (TUNING.few_far_channels if is_far else TUNING.few_channels) else None


def _narrow(
    workload: Workload,
    image: Access,
    filters: Access,
    forms: dict[str, ArrayForm],
    lanes: int,
    wide: int,
) -> NarrowGroups | None:
    """Return the convolution of one operand by the other; None where these lie otherwise."""
    extents, target = workload.extents(), workload.statements[0].target
    a_form, b_form, to_form = (forms[each.tensor] for each in (image, filters, target))
    a, b, to = a_form.linear(image), b_form.linear(filters), to_form.linear(target)
    windows = [axis for axis, index in enumerate(image.index) if len(index.dims) == 2]
    slid = {dim for axis in windows for dim in image.index[axis].dims}
    long = {
        dim: tuple(each.of(dim) != 0 for each in (a, b, to)) for dim, n in extents.items() if n > 1 and dim not in slid
    }
    own = {where: [dim for dim, each in long.items() if each == where] for where in dict.fromkeys(long.values())}
    around = own.pop((True, False, True), [])
    if len(windows) != 2 or set(own) != {(True, True, True), (False, True, True), (True, True, False)}:
        return None
    if any(len(each) > 1 for each in own.values()):
        return None
    (g,), (k,), (c,) = (own[where] for where in ((True, True, True), (False, True, True), (True, True, False)))
    channels, sides = extents[c], [_window(a_form, image, axis, extents, b, to) for axis in windows]
    if extents[k] != channels or lanes % channels or extents[g] * channels % lanes or channels == lanes:
        return None
    if (a.of(c), a.of(g), to.of(k), to.of(g)) != (1, channels, 1, channels):
        return None
    rows, columns = sorted(sides, key=lambda each: -each.at)
    is_whole = prod(n for dim, n in extents.items() if to.of(dim)) == to_form.elements and not b.constant
    is_inside = a.constant == sum(each.at * each.start for each in sides)
    is_window = all(min(each.step, each.spread, each.at, each.to) > 0 for each in sides)
    if not is_whole or not is_inside or not is_window or columns.taps * channels > TUNING.most_accumulators:
        return None
    outer = tuple((extents[dim], a.of(dim), to.of(dim)) for dim in around)
    pixels = -(-columns.outs // -(-columns.outs // wide))
    shape, steps = (lanes, extents[g], channels), (b.of(g), b.of(k), b.of(c))
    adds = workload.tensor(to_form.tensor).initial
    return NarrowGroups(a_form, b_form, to_form, *shape, *steps, rows, columns, outer, pixels, adds)


def _window(form: ArrayForm, image: Access, axis: int, extents: dict[str, int], b: Linear, to: Linear) -> Window:
    index = form.axis(image, axis)
    out, tap = sorted(index.dims, key=lambda dim: not to.of(dim))
    factors, at = index.coefficients(), form.strides[axis]
    ends = extents[out], extents[tap], factors[out], factors[tap], index.constant, form.sizes[axis]
    return Window(*ends, at, to.of(out) if not b.of(out) else 0, b.of(tap) if not to.of(tap) else 0)


def _tile(found: NarrowGroups, name: str, pixels: int) -> Iterator[str]:
    """Yield the function of neighbouring results of a row."""
    kind, vector, lanes, channels = found.to.c_type, found.vector, found.lanes, found.channels
    columns, cells = found.columns, [(s, c) for s in range(found.columns.taps) for c in range(channels)]
    uses: dict[int, list[tuple[int, int]]] = {}
    for t in range(pixels):
        for s in range(columns.taps):
            uses.setdefault(t * columns.step + s * columns.spread, []).append((t, s))
    yield f"static WIDE void {name}_{pixels}(const {kind} *a, const {kind} *b, {kind} *to)\n{{"
    yield from (f"    {vector} s{t} = {{0}};" for t in range(pixels))
    yield f"    for (long r = 0; r < {found.rows.taps}; ++r) {{"
    yield from (
        f"        const {vector} b{s}_{c} = *(const {vector}_any *)(b + {(s * channels + c) * lanes});"
        for s, c in cells
    )
    for x, products in sorted(uses.items()):
        yield f"        const {vector} a{x} = *(const {vector}_any *)(a + {x * lanes});"
        for c in range(channels):
            lane = numbers(lane - lane % channels + c for lane in range(lanes))
            yield f"        const {vector} a{x}_{c} = PICK(a{x}, a{x}, {lane});"
            yield from (f"        s{t} += a{x}_{c} * b{s}_{c};" for t, s in products)
    yield f"        a += {found.rows.spread * found.row};"
    yield f"        b += {len(cells) * lanes};\n    }}"
    sign = "+=" if found.adds else "="
    yield from (f"    *({vector}_any *)(to + {t * columns.to}) {sign} s{t};" for t in range(pixels))
    yield "}"


def _loops(found: NarrowGroups, name: str, to: ArrayForm) -> Block:
    """Return the loops over the vectors of channels, the bands of rows, and the tiles."""
    kind, lanes, rows, columns = to.c_type, found.lanes, found.rows, found.columns
    depth = columns.taps * found.channels * lanes
    names = [f"g{number}" for number in range(len(found.outer))]
    image = "".join(f" + {own} * {at}" for own, (_, at, _) in zip(names, found.outer, strict=True))
    result = "".join(f" + {own} * {at}" for own, (_, _, at) in zip(names, found.outer, strict=True))
    of_lane = f"(at + l) / {found.channels} * {found.of_group} + (at + l) % {found.channels} * {found.of_out}"
    taps = f"r * {rows.of_tap} + s * {columns.of_tap} + c * {found.of_in}"
    own = f"r * {depth} + (s * {found.channels} + c) * {lanes} + l"
    packing = (
        f"{kind} filters[{rows.taps * depth}] {ALIGNED_ARRAY};",
        f"for (long r = 0; r < {rows.taps}; ++r)",
        f"    for (long s = 0; s < {columns.taps}; ++s)",
        f"        for (long c = 0; c < {found.channels}; ++c)",
        f"            for (long l = 0; l < {lanes}; ++l)",
        f"                filters[{own}] = {found.b.parameter}[{of_lane} + {taps}];",
        f"{kind} band[{rows.length(found.band) * found.row}] {ALIGNED_ARRAY};",
    )
    copying = _copy_rows(found, f"{found.a.parameter}{image} + at")
    tiles = Verbatim(tuple(_tiles(found, name, f"{to.parameter}{result} + at")))
    end = f"const long end = MIN(top + {found.band}, {rows.outs});"
    band: Block = (Verbatim((end, *copying)), For("p", Name("top"), Name("end"), (tiles,), type="long"))
    body: Block = (Verbatim(packing), For("top", Int(0), Int(rows.outs), band, type="long", step=found.band))
    body = (For("at", Int(0), Int(found.groups * found.channels), body, type="long", step=lanes),)
    for own_name, (count, _, _) in reversed(list(zip(names, found.outer, strict=True))):
        body = (For(own_name, Int(0), Int(count), body, type="long"),)
    return body


def _copy_rows(found: NarrowGroups, image: str) -> Iterator[str]:
    """Yield the loops that copy the rows of a band, with zeros outside of the image."""
    vector, rows, columns = found.vector, found.rows, found.columns
    width = columns.length(columns.outs)
    left = min(width, max(0, -columns.start))
    right = max(left, min(width, columns.size - columns.start))
    y = f"top * {rows.step} + y + {rows.start}" if rows.start >= 0 else f"top * {rows.step} + y - {-rows.start}"
    yield f"for (long y = 0; y < (end - top - 1) * {rows.step} + {rows.length(1)}; ++y) {{"
    yield f"    {vector} *const row = ({vector} *)(band + y * {found.row});"
    yield f"    const long at_y = {y};"
    yield f"    const long first = at_y < 0 || at_y >= {rows.size} ? {width} : {left};"
    yield f"    for (long x = 0; x < first; ++x)\n        row[x] = ({vector}){{0}};"
    place = f"{image} + at_y * {rows.at} + (x + {columns.start}) * {columns.at}".replace("+ -", "- ")
    yield f"    for (long x = first; x < {right}; ++x)\n        row[x] = *(const {vector}_any *)({place});"
    if right < width:
        yield f"    for (long x = {right}; x < {width}; ++x)\n        row[x] = ({vector}){{0}};"
    yield "}"


def _tiles(found: NarrowGroups, name: str, result: str) -> Iterator[str]:
    """Yield the calls of the register tiles of a row of results."""
    rows, columns, column = found.rows, found.columns, found.columns.step * found.lanes
    line, place = f"band + (p - top) * {rows.step * found.row}", f"{result} + p * {rows.to}"
    whole = columns.outs - columns.outs % found.wide
    yield f"for (long q = 0; q < {whole}; q += {found.wide})"
    yield f"    {name}_{found.wide}({line} + q * {column}, filters, {place} + q * {columns.to});"
    if whole < columns.outs:
        yield f"{name}_{columns.outs - whole}({line} + {whole * column}, filters, {place} + {whole * columns.to});"
