"""The C function of one tile of a contraction: operands are packed, and sums stay in vector registers.

The terms of each sum are added in the order of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from polymap.codegen.lower import Element, Expr, Name, affine_expr, c_expression, expression
from polymap.codegen.native import ELEMENT_BYTES, ArrayForm
from polymap.codegen.programs.storage import Storage
from polymap.codegen.source import TUNING, Contraction, is_mixed, is_of_lanes, packs_of
from polymap.ir import Access, Affine, Apply, Expression, Read, Statement

Ends = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Bounds:
    """C expressions (first, last) of a tile's rows, lanes and terms, and of the lanes of row `i`."""

    rows: Ends
    lanes: Ends
    terms: Ends
    lanes_of_row: Ends


@dataclass(frozen=True, slots=True)
class _Tile:
    storage: Storage
    statement: Statement
    found: Contraction
    bounds: Bounds
    outer: tuple[str, ...]
    packs: tuple[Expression, ...]

    @property
    def tensors(self) -> list[str]:
        """The tensors that the function takes, the written one first."""
        accesses = (self.statement.target, *self.statement.reads)
        return list(dict.fromkeys(each.tensor for each in accesses))

    @property
    def kind(self) -> str:
        return self.storage.forms[self.statement.target.tensor].c_type

    def values(self, row: str, lane: str, term: str) -> dict[str, Expr]:
        """Return the C expression of each dim."""
        named = {dim: Name(f"n{place}") for place, dim in enumerate(self.outer)}
        own: dict[str, Expr] = {self.found.row: Name(row), self.found.lane: Name(lane), self.found.term: Name(term)}
        return named | own

    def element(self, access: Access, values: dict[str, Expr]) -> Expr:
        position = position_of(self.storage.forms[access.tensor], access)
        return Element(f"p{self.tensors.index(access.tensor)}", (affine_expr(position, values),))

    def scalar(self, value: Expression, values: dict[str, Expr]) -> str:
        """Return the C text of a packed value of one row or lane and one term."""
        operands = tuple(self.element(each, values) for each in self.statement.reads)
        return expression(c_expression(value, operands, values))

    def is_of_lanes(self, value: Expression) -> bool:
        return is_of_lanes(self.statement, value, self.found)


def position_of(form: ArrayForm, access: Access) -> Affine:
    """Return the index of an access's element in its array, axes in memory order."""
    position = Affine()
    for axis, stride in enumerate(form.strides):
        position = position + form.axis(access, axis) * stride
    return position


def tile_text(
    storage: Storage,
    statement: Statement,
    found: Contraction,
    bounds: Bounds,
    name: str,
    outer: tuple[str, ...],
) -> tuple[str, tuple[str, ...]]:
    """Return the text of the function, and the arguments that a call passes for its arrays."""
    packs = packs_of(statement, found) if found.lane else ()
    tile = _Tile(storage, statement, found, bounds, outer, packs)
    forms = [storage.forms[each] for each in tile.tensors]
    parameters = [f"{'const ' if number else ''}{each.c_type} *p{number}" for number, each in enumerate(forms)]
    passed = tuple(f"&{each.parameter}" if storage.is_variable(each.tensor) else each.parameter for each in forms)
    numbers = [f"const long n{number}" for number in range(len(outer) + len(found.dims))]
    lines = [
        f"static void {name}({', '.join([*parameters, *numbers])})",
        "{",
        f"    const long i0 = {bounds.rows[0]}, i1 = {bounds.rows[1]};",
        f"    const long k0 = {bounds.terms[0]}, k1 = {bounds.terms[1]};",
        *(_register_tiles(tile) if found.lane else _sums_of_rows(tile)),
        "}",
    ]
    unused = [f"n{number}" for number in range(len(numbers)) if not re.search(rf"\bn{number}\b", "\n".join(lines[1:]))]
    lines[2:2] = [f"    (void){each};" for each in unused]
    types = [_types(tile.kind, found.lanes)] if found.lane else []
    return "\n".join([*types, *lines]) + "\n", passed


def _register_tiles(tile: _Tile) -> list[str]:
    found, bounds = tile.found, tile.bounds
    return [
        f"    const long j0 = {bounds.lanes[0]}, j1 = {bounds.lanes[1]}, steps = k1 - k0 + 1;",
        *(line for number, each in enumerate(tile.packs) for line in _packing_loops(tile, number, each)),
        f"    for (long j = j0; j <= j1; j += {found.panel})",
        f"        for (long r = i0; r <= i1; r += {found.rows}) {{",
        *_ends_of_rows(tile),
        *_pointer_to_sums(tile),
        *_sums(tile),
        *_copy_back(tile),
        "        }",
    ]


def _sums_of_rows(tile: _Tile) -> list[str]:
    """Return the loops that compute several rows at once, then the remaining rows one by one."""
    lines = ["    long i = i0;"]
    for rows in (tile.found.rows, 1):
        lines.append(f"    for (; i + {rows - 1} <= i1; i += {rows}) {{")
        places = [f"(i + {row})" for row in range(rows)]
        lines += [f"        {tile.kind} s{row} = {_place(tile, at, '0')};" for row, at in enumerate(places)]
        lines.append("        for (long k = k0; k <= k1; ++k) {")
        for row, at in enumerate(places):
            value = tile.scalar(tile.statement.expression, tile.values(at, "0", "k"))
            lines.append(f"            s{row} = s{row} + ({value});")
        lines.append("        }")
        lines += [f"        {_place(tile, at, '0')} = s{row};" for row, at in enumerate(places)]
        lines.append("    }")
    return lines


def _types(kind: str, lanes: int) -> str:
    size = lanes * ELEMENT_BYTES[kind]
    vector, alignment = _vector(kind), ELEMENT_BYTES[kind]
    whole = f"typedef {kind} {vector} __attribute__((vector_size({size})));"
    anywhere = f"__attribute__((vector_size({size}), aligned({alignment}), may_alias))"
    return f"{whole}\ntypedef {kind} {vector}_any {anywhere};"


def _vector(kind: str) -> str:
    return f"{kind}_lanes"


def _packing_loops(tile: _Tile, number: int, value: Expression) -> list[str]:
    """Return the loops that copy the values of rows (or lanes) into the order in which a register tile reads them."""
    lanes = tile.is_of_lanes(value)
    found = tile.found
    width, size = (found.panel, found.tile[1]) if lanes else (found.rows, found.tile[0])
    first, last, counter = ("j0", "j1", "j") if lanes else ("i0", "i1", "i")
    values = tile.values("i", "(j + u)", "k") if lanes else tile.values("(i + u)", "j", "k")
    array, terms = f"{'l' if lanes else 'r'}{number}", found.tile[2]
    head = f"    {tile.kind} {array}[{size * terms}] __attribute__((aligned(64)));"
    at = f"{array}[({counter} - {first}) * {terms} + (k - k0) * {width} + u]"
    fast = _is_contiguous(tile, value, found.lane if lanes else found.row)
    loops = ["for (long k = k0; k <= k1; ++k)", f"for (long u = 0; u < {counter}_count; ++u)"]
    blank = ["for (long k = k0; k <= k1; ++k)", f"for (long u = {counter}_count; u < {width}; ++u)"]
    return [
        head,
        f"    for (long {counter} = {first}; {counter} <= {last}; {counter} += {width}) {{",
        f"        const long {counter}_left = {last} - {counter} + 1;",
        f"        const long {counter}_count = {counter}_left < {width} ? {counter}_left : {width};",
        *_nest(loops if fast else loops[::-1], f"{at} = {tile.scalar(value, values)};"),
        f"        if ({counter}_count < {width})",
        *_nest(blank, f"{at} = 0;", "            "),
        "    }",
    ]


def _nest(loops: list[str], body: str, pad: str = "        ") -> list[str]:
    lines = [f"{pad}{'    ' * depth}{each}" for depth, each in enumerate(loops)]
    return [*lines, f"{pad}{'    ' * len(loops)}{body}"]


def _is_contiguous(tile: _Tile, value: Expression, dim: str) -> bool:
    """Return whether a packed value's elements are closer in memory along a dim than along the terms."""
    steps = {dim: 0, tile.found.term: 0}
    for number, access in enumerate(tile.statement.reads):
        if _reads(value, number):
            position = position_of(tile.storage.forms[access.tensor], access).coefficients()
            for each in steps:
                steps[each] = max(steps[each], abs(position.get(each, 0)))
    return steps[dim] <= steps[tile.found.term]


def _reads(value: Expression, number: int) -> bool:
    if isinstance(value, Apply):
        return any(_reads(each, number) for each in value.arguments)
    return getattr(value, "access", None) == number


def _ends_of_rows(tile: _Tile) -> list[str]:
    """Return the code that finds the lanes of each row of a register tile; in most tiles these are all lanes."""
    panel, rows = tile.found.panel, tile.found.rows
    low, high = tile.bounds.lanes_of_row
    pad = " " * 12
    return [
        f"{pad}const long count = i1 - r + 1 < {rows} ? i1 - r + 1 : {rows};",
        f"{pad}long low[{rows}], high[{rows}], any = 0, all = count == {rows};",
        f"{pad}for (long u = 0; u < count; ++u) {{",
        f"{pad}    const long i = r + u;",
        f"{pad}    low[u] = ({low}) - j;",
        f"{pad}    high[u] = ({high}) - j + 1;",
        f"{pad}    (void)i;",
        f"{pad}    low[u] = low[u] < 0 ? 0 : low[u];",
        f"{pad}    high[u] = high[u] > {panel} ? {panel} : high[u];",
        f"{pad}    any |= low[u] < high[u];",
        f"{pad}    all &= low[u] == 0 && high[u] == {panel};",
        f"{pad}}}",
        f"{pad}if (!any)",
        f"{pad}    continue;",
    ]


def _place(tile: _Tile, row: str, lane: str) -> str:
    return expression(tile.element(tile.statement.target, tile.values(row, lane, "0")))


def _pointer_to_sums(tile: _Tile) -> list[str]:
    """Return the pointer to the sums: in the array, or in a copy where the register tile exceeds its rows or lanes."""
    panel, rows = tile.found.panel, tile.found.rows
    target = tile.statement.target
    step = position_of(tile.storage.forms[target.tensor], target).coefficients()[tile.found.row]
    pad = " " * 12
    return [
        f"{pad}{tile.kind} part[{rows * panel}] __attribute__((aligned(64)));",
        f"{pad}for (long u = 0; !all && u < {rows * panel}; ++u)",
        f"{pad}    part[u] = 0;",
        f"{pad}{tile.kind} *at = all ? &{_place(tile, 'r', 'j')} : part;",
        f"{pad}const long step = all ? {step} : {panel};",
        f"{pad}for (long u = 0; !all && u < count; ++u)",
        f"{pad}    for (long v = low[u]; v < high[u]; ++v)",
        f"{pad}        part[u * {panel} + v] = {_place(tile, '(r + u)', '(j + v)')};",
    ]


def _copy_back(tile: _Tile) -> list[str]:
    panel = tile.found.panel
    pad = " " * 12
    return [
        f"{pad}for (long u = 0; !all && u < count; ++u)",
        f"{pad}    for (long v = low[u]; v < high[u]; ++v)",
        f"{pad}        {_place(tile, '(r + u)', '(j + v)')} = part[u * {panel} + v];",
    ]


def _sums(tile: _Tile) -> list[str]:
    """Return the register tile: its sums as variables, and the loop over the terms."""
    found, pad = tile.found, " " * 12
    kind, terms = _vector(tile.kind), found.tile[2]
    cells = [(row, vector) for row in range(found.rows) for vector in range(TUNING.lane_vectors)]
    place = "({kind}_any *)(at + {row} * step + {lane})"
    lines: list[str] = []
    for row, vector in cells:
        where = place.format(kind=kind, row=row, lane=vector * found.lanes)
        lines.append(f"{pad}{kind} s{row}_{vector} = *{where};")
    for number, value in enumerate(tile.packs):
        lanes = tile.is_of_lanes(value)
        name, start = (f"l{number}", "j - j0") if lanes else (f"r{number}", "r - i0")
        lines.append(f"{pad}const {tile.kind} *{name}_at = {name} + ({start}) * {terms};")
    lines.append(f"{pad}for (long k = 0; k < steps; ++k) {{")
    for number, value in enumerate(tile.packs):
        if tile.is_of_lanes(value):
            for vector in range(TUNING.lane_vectors):
                where = f"(l{number}_at + {vector * found.lanes})"
                lines.append(f"{pad}    const {kind} l{number}_{vector} = *(const {kind}_any *){where};")
    lines += [
        f"{pad}    s{row}_{vector} = s{row}_{vector} + {_summand_of_step(tile, row, vector)};" for row, vector in cells
    ]
    for number, value in enumerate(tile.packs):
        name, width = (f"l{number}", found.panel) if tile.is_of_lanes(value) else (f"r{number}", found.rows)
        lines.append(f"{pad}    {name}_at += {width};")
    lines.append(f"{pad}}}")
    for row, vector in cells:
        where = place.format(kind=kind, row=row, lane=vector * found.lanes)
        lines.append(f"{pad}*{where} = s{row}_{vector};")
    return lines


def _summand_of_step(tile: _Tile, row: int, vector: int) -> str:
    """Return the summand of a vector of sums in one step, combined as in the text."""

    def joined(value: Expression) -> Expr:
        if isinstance(value, Apply) and is_mixed(tile.statement, value, tile.found):
            parts = tuple(joined(each) for each in value.arguments)
            reads = tuple(Read(place) for place in range(len(parts)))
            return c_expression(Apply(value.operation, reads), parts, {})
        number = tile.packs.index(value)
        return Name(f"l{number}_{vector}" if tile.is_of_lanes(value) else f"r{number}_at[{row}]")

    return f"({expression(joined(tile.statement.expression))})"
