"""Products of a block of rows: C functions that keep the sums of some rows and lanes in vector registers."""

from __future__ import annotations

from collections.abc import Iterator

from polymap.codegen.native import ELEMENT_BYTES
from polymap.codegen.programs.row_plan import RowPlan, Tile


def _vector(plan: RowPlan) -> str:
    return f"{plan.c_type}_lanes"


def _row_counts(plan: RowPlan, tile: Tile) -> list[int]:
    """Return how many rows register tiles have: all of them, and what is left of a block or of the last block."""
    left = {plan.block % tile.rows, plan.count % plan.block % tile.rows} - {0}
    return [*([tile.rows] if plan.block >= tile.rows else []), *sorted(left, reverse=True)]


def _panels(plan: RowPlan, tile: Tile) -> list[tuple[int, int, int]]:
    """Return (first lane, vectors, lanes of the last vector) of panels, one for all whole ones."""
    extent = plan.form.extent((tile.product.lane,))
    width = tile.vectors * plan.lanes
    found = [(0, tile.vectors, plan.lanes)] if extent >= width else []
    left = extent % width
    if left:
        vectors = -(-left // plan.lanes)
        found.append((extent - left, vectors, left - (vectors - 1) * plan.lanes))
    return found


def product_texts(plan: RowPlan, name: str) -> Iterator[str]:
    """Yield the type of the vectors, and the functions of the register tiles."""
    if not plan.tiles:
        return
    size, kind, vector = plan.lanes * ELEMENT_BYTES[plan.c_type], plan.c_type, _vector(plan)
    yield f"typedef {kind} {vector} __attribute__((vector_size({size})));\n"
    any_ = f"__attribute__((vector_size({size}), aligned({ELEMENT_BYTES[kind]}), may_alias))"
    yield f"typedef {kind} {vector}_any {any_};\n"
    for tile in plan.tiles.values():
        if not tile.is_dot:
            for rows in _row_counts(plan, tile):
                for _, vectors, rest in _panels(plan, tile):
                    yield "\n".join(_tile_text(plan, tile, name, rows, vectors, rest)) + "\n"


def _name(plan: RowPlan, tile: Tile, name: str, rows: int, vectors: int, rest: int) -> str:
    part = "" if rest == plan.lanes else f"_{rest}"
    return f"{name}_product{tile.number}_{rows}x{vectors}{part}"


def _steps(plan: RowPlan, tile: Tile) -> tuple[int, int, int, int]:
    """Return the steps of a: from row to row and from term to term; of the matrix from term to term; of rows of sums."""
    form, product = plan.form, tile.product
    a, target = product.statement.reads[product.a], product.statement.target
    factors = form.factors(a)
    rows = plan.stride(a.tensor) if form.is_scratch(a.tensor) else form.row_step(a)
    terms = 1 if form.is_scratch(a.tensor) else factors.get(product.term, 0)
    of_matrix = form.factors(product.statement.reads[product.b]).get(product.term, 0)
    matrix = tile.vectors * plan.lanes if tile.packed >= 0 else of_matrix
    to = plan.stride(target.tensor) if form.is_scratch(target.tensor) else form.row_step(target)
    return rows, terms, matrix, to


def _tile_text(plan: RowPlan, tile: Tile, name: str, rows: int, vectors: int, rest: int) -> list[str]:
    kind, vector, lanes = plan.c_type, _vector(plan), plan.lanes
    of_rows, of_terms, of_matrix, of_sums = _steps(plan, tile)
    cells = [(row, v) for row in range(rows) for v in range(vectors)]
    whole = rest == lanes or plan.form.is_scratch(tile.product.statement.target.tensor)
    own = _name(plan, tile, name, rows, vectors, rest)
    lines = [f"WIDE static void {own}(const {kind} *a, const {kind} *b, {kind} *to)", "{"]
    lines += [f"    {vector} s{row}_{v} = {{0}};" for row, v in cells]
    lines.append(f"    for (long k = 0; k < {plan.form.extent((tile.product.term,))}; ++k) {{")
    lines += [f"        const {vector} b{v} = *(const {vector}_any *)(b + {v * lanes});" for v in range(vectors)]
    for row in range(rows):
        lines += [f"        s{row}_{v} += a[{row * of_rows}] * b{v};" for v in range(vectors)]
    lines += [f"        a += {of_terms};", f"        b += {of_matrix};", "    }"]
    sums = "+=" if _adds(plan, tile) else "="
    for row, v in cells:
        place = f"to + {row * of_sums + v * lanes}"
        if whole or v < vectors - 1:
            lines.append(f"    *({vector}_any *)({place}) {sums} s{row}_{v};")
        elif sums == "=":
            lines.append(f"    memcpy({place}, &s{row}_{v}, {rest} * sizeof *to);")
        else:
            lines += [f"    for (long l = 0; l < {rest}; ++l)", f"        ({place})[l] += s{row}_{v}[l];"]
    return [*lines, "}"]


def _adds(plan: RowPlan, tile: Tile) -> bool:
    """Return whether a product is added to values that an earlier statement has written."""
    target, own = tile.product.statement.target.tensor, tile.product.statement
    names = [each.name for each in plan.form.workload.statements if each.target.tensor == target]
    return names.index(own.name) > 0


def packing_lines(plan: RowPlan, tile: Tile, matrix: str) -> list[str]:
    """Return the code that copies a matrix into panels of lanes, term by term, unless it is the one that is there."""
    if tile.packed < 0:
        return []
    form, product = plan.form, tile.product
    factors, extents = form.factors(product.statement.reads[product.b]), form.workload.extents()
    width, extent, terms = tile.vectors * plan.lanes, extents[product.lane], extents[product.term]
    array, number = matrix.split(" + ", 1)[0], tile.number
    offset = matrix.split(" + ", 1)[1] if " + " in matrix else "0"
    of_lanes, of_terms = factors.get(product.lane, 0), factors.get(product.term, 0)
    lines = [
        f"if (packed{number} != {offset}) {{",
        f"    packed{number} = {offset};",
        f"    const {plan.c_type} *const from = {array} + packed{number};",
        f"    {plan.c_type} *to = scratch + {tile.packed};",
    ]
    for first, count in ((0, extent - extent % width), (extent - extent % width, extent)):
        if first == count:
            continue
        own = min(width, count - first)
        lines += [
            f"    for (long j = {first}; j < {count}; j += {width})",
            f"        for (long k = 0; k < {terms}; ++k, to += {width}) {{",
            f"            for (long l = 0; l < {own}; ++l)",
            f"                to[l] = from[(j + l) * {of_lanes} + k * {of_terms}];",
        ]
        if own < width:
            lines += [f"            for (long l = {own}; l < {width}; ++l)", "                to[l] = 0;"]
        lines.append("        }")
    return [*lines, "}"]


def call_of_tiles(plan: RowPlan, tile: Tile, name: str, a: str, matrix: str, to: str) -> list[str]:
    """Return the loops over register tiles of a block."""
    if tile.is_dot:
        return _dots(plan, tile, a, matrix, to)
    of_rows, _, of_matrix, of_sums = _steps(plan, tile)
    width, terms = tile.vectors * plan.lanes, plan.form.extent((tile.product.term,))
    source = f"scratch + {tile.packed}" if tile.packed >= 0 else matrix
    of_panels = terms * of_matrix if tile.packed >= 0 else width
    lines: list[str] = []
    for first, vectors, rest in _panels(plan, tile):
        count = plan.form.extent((tile.product.lane,)) // width if first == 0 and vectors == tile.vectors else 1
        panel = f"p * {of_panels}" if count > 1 else f"{first // width * of_panels}"
        at = f"p * {width}" if count > 1 else f"{first}"
        lines.append(f"for (long p = 0; p < {count}; ++p) {{" if count > 1 else "{")
        lines += [f"    const {plan.c_type} *const b = {source} + {panel};", "    long u = 0;"]
        for rows in _row_counts(plan, tile):
            own = _name(plan, tile, name, rows, vectors, rest)
            call = f"{own}({a} + u * {of_rows}, b, {to} + u * {of_sums} + {at});"
            if rows == tile.rows:
                lines += [f"    for (; u + {rows} <= rows; u += {rows})", f"        {call}"]
            else:
                lines += [f"    if (rows - u == {rows})", f"        {call}"]
        lines.append("}")
    return lines


def _dots(plan: RowPlan, tile: Tile, a: str, matrix: str, to: str) -> list[str]:
    """Return the loop that finds each sum along its terms, which lie side by side: of few rows, each matrix is read
    once."""
    of_rows, of_terms, _, of_sums = _steps(plan, tile)
    product = tile.product
    extents = plan.form.workload.extents()
    of_lanes = plan.form.factors(product.statement.reads[product.b]).get(product.lane, 0)
    sums = ", ".join(f"s{row}" for row in range(plan.count))
    symbol = "+=" if _adds(plan, tile) else "="
    return [
        f"for (long l = 0; l < {extents[product.lane]}; ++l) {{",
        f"    const {plan.c_type} *const b = {matrix} + l * {of_lanes};",
        *(f"    {plan.c_type} s{row} = 0;" for row in range(plan.count)),
        f"#pragma omp simd reduction(+:{sums})",
        f"    for (long k = 0; k < {extents[product.term]}; ++k) {{",
        *(f"        s{row} += ({a})[{row * of_rows} + k * {of_terms}] * b[k];" for row in range(plan.count)),
        "    }",
        *(f"    ({to})[{row * of_sums} + l] {symbol} s{row};" for row in range(plan.count)),
        "}",
    ]
