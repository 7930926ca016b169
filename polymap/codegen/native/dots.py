"""Products of few columns: vectors lie along the terms, and the lanes of many of them are added up together.

A product C[m, n] += A[m, k] * B[k, n] of one to three columns has too few neighbouring sums for a vector, and rows of A
that lie apart. Each sum has a vector of its own; of pairs of such vectors the halves are added, then the quarters,
until one vector has one sum per lane, in the order of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from polymap.codegen.lower import Block, For, Int, LocalArray, Verbatim
from polymap.codegen.native.arrays import ELEMENT_BYTES, ArrayForm, Linear
from polymap.codegen.native.panels import lane_types, numbers
from polymap.codegen.native.tuning import TUNING
from polymap.ir import Access, Apply, Operator, Read, Workload, bounds

_PRODUCT = (Apply("*", (Read(0), Read(1))), Apply("*", (Read(1), Read(0))))
# Of vectors in which `half` neighbours twice belong to one sum each: both halves are added, those of the second behind.
_JOIN = """static inline {vector} join_{half}(const {vector} a, const {vector} b)
{{
    return PICK(a, b, {low}) + PICK(a, b, {high});
}}
"""
# The last terms of a row, with zeros for those before them that another vector has.
_END = """static inline {vector} {own}_end(const {kind} *row)
{{
    return ({vector})(*(const lane_numbers_any *)(row + {at}) & (lane_numbers){{{mask}}});
}}
"""
_SHORT = """static inline {vector} {own}_end(const {kind} *row)
{{
    {vector} some = {{0}};
    memcpy(&some, row, {terms} * sizeof *row);
    return some;
}}
"""


@dataclass(frozen=True, slots=True)
class Dots:
    """Sums to[row, column] = a[row, term] * b[term, column] over the terms, which lie side by side in a and b.

    a_step, b_step: elements from row to row of a, and from column to column of b; to_row, to_column: of the sums, of
    which the rows lie side by side, or the columns, and the rows behind them. adds: to what is there. together: rows of
    a whose sums are found side by side; memory delivers rows faster one after the other.
    """

    kind: str
    lanes: int
    rows: int
    columns: int
    terms: int
    a_step: int
    b_step: int
    to_row: int
    to_column: int
    adds: bool
    together: int = 1

    @property
    def vector(self) -> str:
        """The C type of a vector."""
        return f"{self.kind}_lanes"

    @property
    def rest(self) -> int:
        """Rows behind the last whole block."""
        return self.rows % self.lanes

    def at(self, row: int, column: int) -> tuple[int, int]:
        """Return which vector of a block a sum is in, and its lane."""
        if self.to_row == 1:
            return column, row
        return divmod(row * self.columns + column, self.lanes)

    def place(self, vector: int) -> int:
        """Return how far a vector of a block stands behind the first one."""
        return vector * (self.to_column if self.to_row == 1 else self.lanes)


def join_texts(kind: str, lanes: int) -> Iterator[str]:
    """Yield the functions that add up the lanes of two vectors, half by half."""
    half = lanes // 2
    while half:
        firsts = range(0, 2 * lanes, 2 * half)
        low = numbers(first + each for first in firsts for each in range(half))
        high = numbers(first + half + each for first in firsts for each in range(half))
        yield _JOIN.format(vector=f"{kind}_lanes", half=half, low=low, high=high)
        half //= 2


def dot_texts(dots: Dots, name: str) -> Iterator[str]:
    """Yield the functions of blocks: of as many rows as a vector has lanes, and of the rest."""
    left, vector = dots.terms % dots.lanes, dots.vector
    if dots.terms < dots.lanes:
        yield _SHORT.format(vector=vector, own=name, kind=dots.kind, terms=dots.terms)
    elif left:
        mask = numbers(-(lane >= dots.lanes - left) for lane in range(dots.lanes))
        yield _END.format(vector=vector, own=name, kind=dots.kind, at=dots.terms - dots.lanes, mask=mask)
    for rows in dict.fromkeys((min(dots.rows, dots.lanes), dots.rest)):
        if rows:
            yield "\n".join([*_block(dots, name, rows), ""])


def dot_calls(dots: Dots, name: str, a: str, b: str, to: str) -> list[str]:
    """Return the code that finds all sums."""
    whole, lines = dots.rows - dots.rest, list[str]()
    if whole:
        call = f"{name}_{dots.lanes}({a} + l * {dots.a_step}, {b}, {to} + l * {dots.to_row});"
        lines += [f"for (long l = 0; l < {whole}; l += {dots.lanes})", f"    {call}"]
    if dots.rest:
        lines.append(f"{name}_{dots.rest}({a} + {whole * dots.a_step}, {b}, {to} + {whole * dots.to_row});")
    return lines


def _block(dots: Dots, name: str, rows: int) -> list[str]:
    """Return the function of a block of rows.

    The rows are read in the order of memory: compilers read arguments of one expression from the last one on, and
    prefetchers follow no steps back (decoding with 64 heads of 2048 x 64 took 4.6 ms instead of 2.4).
    """
    kind = dots.kind
    lines = [f"static WIDE void {name}_{rows}(const {kind} *a, const {kind} *b, {kind} *to)", "{"]
    names: dict[tuple[int, int], str] = {}
    for first in range(0, rows, dots.together):
        own = range(first, min(first + dots.together, rows))
        lines += _sums(dots, name, own)
        for row, column in product(own, range(dots.columns)):
            lines += _joins(dots, names, dots.at(row, column), f"s{row}_{column}")
    for vector_number in sorted({number for number, _ in names}):
        count = sum(number == vector_number for number, _ in names)
        for lane in range(count, dots.lanes):
            lines += _joins(dots, names, (vector_number, lane), "")
        place = f"to + {dots.place(vector_number)}" if vector_number else "to"
        lines += _store_lines(dots, names[vector_number, 0], place, count)
    return [*lines, "}"]


def _sums(dots: Dots, name: str, rows: range) -> list[str]:
    """Return the code that finds, for some rows, a vector per sum whose lanes are added up later."""
    vector, cells = dots.vector, list(product(rows, range(dots.columns)))
    left = dots.terms % dots.lanes
    whole = dots.terms - left

    load = f"*(const {vector}_any *)({{}} + k)"

    def of_a(row: int) -> str:
        return f"a + {row * dots.a_step}" if row * dots.a_step else "a"

    def of_b(column: int) -> str:
        return f"b + {column * dots.b_step}" if column * dots.b_step else "b"

    lines: list[str] = []
    for row, column in cells:
        value = f"{name}_end({of_a(row)}) * {name}_end({of_b(column)})" if left else "{0}"
        lines.append(f"{vector} s{row}_{column} = {value};")
    if whole:
        lines.append(f"for (long k = 0; k < {whole}; k += {dots.lanes}) {{")
        lines += [f"    const {vector} b{column} = {load.format(of_b(column))};" for column in range(dots.columns)]
        for row in rows:
            lines.append(f"    const {vector} a{row} = {load.format(of_a(row))};")
            lines += [f"    s{row}_{column} += a{row} * b{column};" for column in range(dots.columns)]
        lines.append("}")
    return [f"    {line}" for line in lines]


def _joins(dots: Dots, names: dict[tuple[int, int], str], at: tuple[int, int], value: str) -> list[str]:
    """Return the additions of pairs of vectors that are complete with the one of a lane. value: its name, none where
    there is no such sum."""
    number, lane = at
    names[at] = value
    lines: list[str] = []
    joined = 1
    while (lane + 1) % (2 * joined) == 0:
        first, other = (number, lane + 1 - 2 * joined), (number, lane + 1 - joined)
        if names[first]:
            own = f"j{number}_{first[1]}_{joined}"
            pair = f"{names[first]}, {names[other] or f'({dots.vector}){{0}}'}"
            lines.append(f"    const {dots.vector} {own} = join_{dots.lanes // 2 // joined}({pair});")
            names[first] = own
        joined *= 2
    return lines


def _store_lines(dots: Dots, value: str, place: str, count: int) -> list[str]:
    if count == dots.lanes:
        return [f"    *({dots.vector}_any *)({place}) {'+=' if dots.adds else '='} {value};"]
    if not dots.adds:
        return [f"    memcpy({place}, &{value}, {count} * sizeof *to);"]
    return [f"    for (long l = 0; l < {count}; ++l)", f"        ({place})[l] += {value}[l];"]


@dataclass(frozen=True, slots=True)
class FewColumns:
    """A workload as such sums. a, b, to: the arrays, with the positions of their elements. outer: dims of loops around.
    apart: elements of b from term to term, and from column to column; these are put side by side first unless the terms
    are."""

    dots: Dots
    a: ArrayForm
    b: ArrayForm
    to: ArrayForm
    a_at: Linear
    b_at: Linear
    to_at: Linear
    outer: dict[str, int]
    apart: tuple[int, int]

    def text(self, name: str, to: ArrayForm) -> tuple[str, Block]:
        """Return the functions of blocks with their types, and the loops that call them. to: the array of the sums."""
        dots, names = self.dots, {dim: f"g{number}" for number, dim in enumerate(self.outer)}
        text = lane_types(dots.kind, dots.lanes) + "".join((*join_texts(dots.kind, dots.lanes), *dot_texts(dots, name)))

        def place(form: ArrayForm, at: Linear) -> str:
            steps = [f"{names[dim]} * {at.of(dim)}" for dim in self.outer if at.of(dim)]
            return " + ".join([form.parameter, *steps, *([str(at.constant)] if at.constant else [])])

        b, gathered = place(self.b, self.b_at), Block()
        if self.apart[0] != 1:
            copies = tuple(
                f"columns[{column * dots.terms} + k] = ({b})[k * {self.apart[0]} + {column * self.apart[1]}];"
                for column in range(dots.columns)
            )
            loop = For("k", Int(0), Int(dots.terms), (Verbatim(copies),), type="long")
            gathered, b = (LocalArray(dots.kind, "columns", dots.columns * dots.terms), loop), "columns"
        calls = dot_calls(dots, name, place(self.a, self.a_at), b, place(to, self.to_at))
        body: Block = (Verbatim(tuple(calls)),)
        for dim in reversed(self.outer):
            if gathered and self.b_at.of(dim):
                body, gathered = (*gathered, *body), ()
            body = (For(names[dim], Int(0), Int(self.outer[dim]), body, type="long"),)
        return text, (*gathered, *body)


def plain_products(workload: Workload, forms: tuple[ArrayForm, ...]) -> tuple[ArrayForm, ArrayForm, ArrayForm] | None:
    """Return the arrays (output, then operands) of sums of products of elements of two arrays of one type, of 4 bytes
    or more, that may be added up in any order and have no conditions; None for other workloads."""
    if len(workload.statements) != 1 or workload.original is not None or not workload.associative:
        return None
    (statement,) = workload.statements
    if statement.operator is not Operator.ADD or statement.expression not in _PRODUCT or statement.constraints:
        return None
    by_name = {form.tensor: form for form in forms}
    accesses = (statement.target, *statement.reads)
    to, a, b = (by_name[each.tensor] for each in accesses)
    if len({each.tensor for each in accesses}) < len(accesses) or len({to.kind, a.kind, b.kind}) > 1:
        return None
    is_linear = all(index.is_linear for each in accesses for index in each.index)
    return (to, a, b) if is_linear and ELEMENT_BYTES[to.c_type] >= 4 else None


def few_columns(
    workload: Workload, forms: tuple[ArrayForm, ...], vector_bits: int, cache_bytes: int
) -> FewColumns | None:
    """Return a product of few columns as sums along its terms; None for other workloads, for sums that must keep their
    order, and for such as lanes along the terms do not pay for. cache_bytes: what of a is near if it is no larger."""
    arrays, extents = plain_products(workload, forms), workload.extents()
    if arrays is None:
        return None
    accesses = (workload.statements[0].target, *workload.statements[0].reads)
    if not all(_is_plain(each, form, extents) for each, form in zip(accesses, arrays, strict=True)):
        return None
    target, width = arrays[0], ELEMENT_BYTES[arrays[0].c_type]
    if prod(extents[dim] for dim in accesses[0].dims) < target.elements:
        return None
    at = {each.tensor: form.linear(each) for each, form in zip(accesses, arrays, strict=True)}
    adds, lanes = workload.tensor(target.tensor).initial, vector_bits // (8 * width)
    long = {dim: size for dim, size in extents.items() if size > 1}
    pairs = (arrays[1], arrays[2]), (arrays[2], arrays[1])
    found = (_as_columns(a, b, target, at, long, lanes, adds=adds) for a, b in pairs)
    best = next((each for each in found if each is not None), None)
    if best is None or best.a.elements * width > cache_bytes:
        return best
    return replace(best, dots=replace(best.dots, together=max(1, TUNING.sums_of_dots // best.dots.columns)))


def _is_plain(access: Access, form: ArrayForm, extents: dict[str, int]) -> bool:
    """Return whether each axis of an array has a dim of its own, or none, and none of its indices is outside."""
    own = [[name for name in index.dims if extents[name] > 1] for index in access.index]
    ends = [bounds(form.axis(access, axis), extents) for axis in range(len(own))]
    inside = all(low >= 0 and high < size for (low, high), size in zip(ends, form.sizes, strict=True))
    several = [name for each in own for name in each]
    return inside and all(len(each) <= 1 for each in own) and len(set(several)) == len(several)


def _as_columns(
    a: ArrayForm,
    b: ArrayForm,
    to: ArrayForm,
    at: dict[str, Linear],
    extents: dict[str, int],
    lanes: int,
    *,
    adds: bool,
) -> FewColumns | None:
    """Return the sums of the rows of one array by the columns of the other; None where these lie otherwise."""
    a_at, b_at, to_at = (at[form.tensor] for form in (a, b, to))
    reductions = sorted((dim for dim in extents if not to_at.of(dim)), key=a_at.of)
    rows, columns = ([dim for dim in extents if to_at.of(dim) and not each.of(dim)] for each in (b_at, a_at))
    if not reductions or not rows or len(columns) > 1:
        return None
    terms, apart = 1, b_at.of(reductions[0])
    for dim in reductions:
        if a_at.of(dim) != terms or b_at.of(dim) != terms * apart or not apart:
            return None
        terms *= extents[dim]
    row, count = min(rows, key=to_at.of), prod(extents[dim] for dim in columns)
    step, of_b = (sum(each.of(dim) for dim in columns) for each in (to_at, b_at))
    is_dense = to_at.of(row) == 1 or (step == 1 and to_at.of(row) == count)
    outer = [dim for dim in extents if dim not in (row, *reductions, *columns)]
    # Of matrices that are no weights, which nobody packs ahead, and of sums whose columns lie apart, more columns pay.
    is_batch = apart == 1 and to_at.of(row) == 1 and any(a_at.of(dim) for dim in outer)
    most = TUNING.batch_columns if is_batch and terms >= TUNING.batch_vectors * lanes else TUNING.few_columns
    is_small = count <= most and count * terms * ELEMENT_BYTES[b.c_type] <= TUNING.stack_bytes
    if not is_dense or not is_small or extents[row] < TUNING.few_rows or terms < lanes:
        return None
    steps = a_at.of(row), of_b if apart == 1 else terms, to_at.of(row), step
    dots = Dots(to.c_type, lanes, extents[row], count, terms, *steps, adds)
    outer.sort(key=lambda dim: not b_at.of(dim))
    return FewColumns(dots, a, b, to, a_at, b_at, to_at, {dim: extents[dim] for dim in outer}, (apart, of_b))
