"""Products of a block of rows: C functions that keep the sums of some rows and lanes in vector registers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from polymap.codegen.native import Dots, dot_calls, dot_texts, join_texts, lane_types, turn_text
from polymap.codegen.programs.row_plan import RowPlan, Tile


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
    """Yield the types of the vectors, and the functions of the register tiles."""
    if not plan.tiles:
        return
    yield lane_types(plan.c_type, plan.lanes)
    if any(_is_turned(plan, tile) for tile in plan.tiles.values()):
        yield turn_text(plan.c_type, plan.lanes)
    if any(tile.is_dot for tile in plan.tiles.values()):
        yield from join_texts(plan.c_type, plan.lanes)
    for tile in plan.tiles.values():
        if tile.is_dot:
            yield from dot_texts(_dots(plan, tile), f"{name}_product{tile.number}")
        for rows in () if tile.is_dot else _row_counts(plan, tile):
            for _, vectors, rest in _panels(plan, tile):
                yield "\n".join(_tile_text(plan, tile, name, rows, vectors, rest)) + "\n"


def scaled_index(index: str, factor: int) -> str:
    """Return an index times a factor, nothing for 0."""
    if factor in (0, 1):
        return index if factor else ""
    return f"({index}) * {factor}" if " " in index else f"{index} * {factor}"


def sum_text(*terms: str | int) -> str:
    """Return the sum of the terms that are not 0."""
    return " + ".join(str(each) for each in terms if each not in ("", "0", 0)) or "0"


def loop_text(counter: str, first: int, end: int, step: int, body: Iterable[str], more: str = "") -> list[str]:
    """Return a loop of C, or its body where it has one iteration. more: what else is stepped on."""
    lines = [f"    {line}" for line in body]
    if first + step >= end:
        is_read = any(re.search(rf"\b{counter}\b", line) for line in lines)
        after = [f"    {more};"] if more else []
        return ["{", *([f"    const long {counter} = {first};"] if is_read else []), *lines, *after, "}"]
    advance = ", ".join([f"++{counter}" if step == 1 else f"{counter} += {step}", *([more] if more else [])])
    return [f"for (long {counter} = {first}; {counter} < {end}; {advance}) {{", *lines, "}"]


def _dots(plan: RowPlan, tile: Tile) -> Dots:
    """Return the sums of few rows, each found along its terms, which lie side by side: each matrix is read once."""
    of_rows, _, _, of_sums = _steps(plan, tile)
    product, form = tile.product, plan.form
    of_lanes = form.factors(product.statement.reads[product.b]).get(product.lane, 0)
    extents = form.workload.extents()
    shape = extents[product.lane], plan.count, extents[product.term]
    return Dots(plan.c_type, plan.lanes, *shape, of_lanes, of_rows, 1, of_sums, _adds(plan, tile))


def _is_turned(plan: RowPlan, tile: Tile) -> bool:
    """Return whether a matrix is packed by squares whose columns become rows."""
    factors = plan.form.factors(tile.product.statement.reads[tile.product.b])
    lanes, terms = (plan.form.extent((dim,)) for dim in (tile.product.lane, tile.product.term))
    is_large = tile.packed >= 0 and min(lanes, terms) >= plan.lanes
    return is_large and factors.get(tile.product.term, 0) == 1 and factors.get(tile.product.lane, 0) != 1


def _name(plan: RowPlan, tile: Tile, name: str, rows: int, vectors: int, rest: int) -> str:
    part = "" if rest == plan.lanes else f"_{rest}"
    return f"{name}_product{tile.number}_{rows}x{vectors}{part}"


def _steps(plan: RowPlan, tile: Tile) -> tuple[int, int, int, int]:
    """Return the elements between rows of a, between terms of a and of the matrix, and between rows of sums."""
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
    kind, vector, lanes = plan.c_type, f"{plan.c_type}_lanes", plan.lanes
    of_rows, of_terms, of_matrix, of_sums = _steps(plan, tile)
    cells = [(row, v) for row in range(rows) for v in range(vectors)]
    whole = rest == lanes or plan.form.is_scratch(tile.product.statement.target.tensor)
    own = _name(plan, tile, name, rows, vectors, rest)
    lines = [f"WIDE static void {own}(const {kind} *a, const {kind} *b, {kind} *to)", "{"]
    lines += [f"    {vector} s{row}_{v} = {{0}};" for row, v in cells]
    lines.append(f"    for (long k = 0; k < {plan.form.extent((tile.product.term,))}; ++k) {{")
    lines += [
        f"        const {vector} b{v} = *(const {vector}_any *)({sum_text('b', v * lanes)});" for v in range(vectors)
    ]
    for row in range(rows):
        lines += [f"        s{row}_{v} += a[{row * of_rows}] * b{v};" for v in range(vectors)]
    lines += [f"        a += {of_terms};", f"        b += {of_matrix};", "    }"]
    sums = "+=" if _adds(plan, tile) else "="
    for row, v in cells:
        place = sum_text("to", row * of_sums + v * lanes)
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
        f"    {plan.c_type} *to = {sum_text('scratch', tile.packed)};",
    ]
    turned = _is_turned(plan, tile)
    for first, count in ((0, extent - extent % width), (extent - extent % width, extent)):
        if first == count:
            continue
        own = min(width, count - first)
        squares = own - own % plan.lanes if turned else 0
        whole = terms - terms % plan.lanes
        body: list[str] = []
        if squares and whole:
            source = sum_text("from", scaled_index("j + l", of_lanes), "k")
            turn = f"turn({source}, {of_lanes}, {sum_text('to', scaled_index('k', width), 'l')}, {width});"
            body += loop_text("k", 0, whole, plan.lanes, loop_text("l", 0, squares, plan.lanes, [turn]))
        else:
            squares = whole = 0
        copies = [(0, terms, squares, own)] if squares < own else []
        copies += [(whole, terms, 0, squares)] if squares and whole < terms else []
        copies = [
            (*each, f"from[{sum_text(scaled_index('j + l', of_lanes), scaled_index('k', of_terms))}]")
            for each in copies
        ]
        copies += [(0, terms, own, width, "0")] if own < width else []
        for low, high, left, right, value in copies:
            copy = f"to[{sum_text(scaled_index('k', width), 'l')}] = {value};"
            body += loop_text("k", low, high, 1, loop_text("l", left, right, 1, [copy]))
        is_last = count == extent and first + width >= count
        step = "" if is_last else f"to += {width * terms}"
        lines += [f"    {line}" for line in loop_text("j", first, count, width, body, step)]
    return [*lines, "}"]


def call_of_tiles(plan: RowPlan, tile: Tile, name: str, a: str, matrix: str, to: str) -> list[str]:
    """Return the loops over register tiles of a block."""
    if tile.is_dot:
        return dot_calls(_dots(plan, tile), f"{name}_product{tile.number}", matrix, a, to)
    of_rows, _, of_matrix, of_sums = _steps(plan, tile)
    width, terms = tile.vectors * plan.lanes, plan.form.extent((tile.product.term,))
    source = sum_text("scratch", tile.packed) if tile.packed >= 0 else matrix
    of_panels = terms * of_matrix if tile.packed >= 0 else width
    lines: list[str] = []
    for first, vectors, rest in _panels(plan, tile):
        count = plan.form.extent((tile.product.lane,)) // width if first == 0 and vectors == tile.vectors else 1
        panel = scaled_index("p", of_panels) if count > 1 else first // width * of_panels
        at = scaled_index("p", width) if count > 1 else first
        body = [f"const {plan.c_type} *const b = {sum_text(source, panel)};"]
        is_even = plan.count % plan.block == 0
        body += [] if is_even else ["long u = 0;"]
        for rows in _row_counts(plan, tile):
            own = _name(plan, tile, name, rows, vectors, rest)
            call = (
                f"{own}({sum_text(a, scaled_index('u', of_rows))}, b, {sum_text(to, scaled_index('u', of_sums), at)});"
            )
            low = 0 if rows == tile.rows else plan.block - rows
            high = plan.block - plan.block % tile.rows if rows == tile.rows else plan.block
            if is_even and low + rows == high:
                body.append(f"{own}({sum_text(a, low * of_rows)}, b, {sum_text(to, low * of_sums, at)});")
            elif is_even:
                body += loop_text("u", low, high, rows, [call])
            else:
                body.append(
                    f"for (; u + {rows} <= rows; u += {rows})" if rows == tile.rows else f"if (rows - u == {rows})"
                )
                body.append(f"    {call}")
        lines += loop_text("p", 0, count, 1, body)
    return lines
