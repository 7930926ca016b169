"""The C code of one tile of a contraction: operands are packed, and sums stay in vector registers.

The terms of each sum are added in the order of the text. `$` in the texts stands for a prefix that no name of the
program has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from polymap.codegen.lower import Assign, Binary, Choice, Element, Expr, Invoke, Name, expression
from polymap.codegen.source.contraction import Contraction
from polymap.codegen.source.order_tuning import TUNING
from polymap.codegen.source.region import Region
from polymap.ir import Statement, Workload
from polymap.workload.c import SPELLING

Ends = tuple[str, str]
ELEMENT_BYTES = {"float": 4, "double": 8}


@dataclass(frozen=True, slots=True)
class Update:
    """`target = value`, where the value has the target in it. kind: the C type of all elements. places: of the row, the
    lane (if there is one) and the term among the statement's dims; names: the C variables of these."""

    target: Expr
    value: Expr
    kind: str
    places: tuple[int, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Bounds:
    """C expressions (first, last) of a tile's rows, lanes and terms, and of the lanes of row `$i`."""

    rows: Ends
    lanes: Ends
    terms: Ends
    lanes_of_row: Ends


@dataclass(frozen=True, slots=True)
class _Tile:
    update: Update
    found: Contraction
    bounds: Bounds
    packs: tuple[Expr, ...]

    def text(self, value: Expr, row: str, lane: str, term: str) -> str:
        """Return a value with C expressions in place of the row, the lane and the term."""
        at = {self.update.names[0]: row, self.update.names[-1]: term}
        at |= {self.update.names[1]: lane} if self.found.lane else {}
        names = "|".join(map(re.escape, at))
        return re.sub(rf"(?<![\w.>])({names})\b", lambda each: at[each[1]], expression(value))

    def place(self, row: str, lane: str) -> str:
        return self.text(self.update.target, row, lane, "0")

    def is_of_lanes(self, value: Expr) -> bool:
        return _names(value, self.update.names[1])

    @property
    def vector(self) -> str:
        return f"${self.update.kind}"


def text_updates(
    region: Region, contractions: Sequence[Contraction], workload: Workload
) -> tuple[list[Contraction], dict[str, Update]]:
    """Return the contractions whose tiles can be written for a C text, with rows as lanes where its elements lie so,
    and their assignments as they stand there."""
    statements = {each.name: each for each in workload.statements}
    tiled: list[Contraction] = []
    updates: dict[str, Update] = {}
    for each in contractions:
        for found in (each, each.turned):
            update = found and _text_update(region, statements[each.statement], found, workload)
            if found and update and each.statement not in updates and (not found.lane or _packs(update)):
                tiled.append(found)
                updates[each.statement] = update
    return tiled, updates


def _text_update(region: Region, statement: Statement, found: Contraction, workload: Workload) -> Update | None:
    """Return the assignment of a contraction as it stands in a C text; None where it has conditions, or names that are
    no variables of loops, sizes or elements, or where its terms are counted down."""
    own = next(each for each in region.statements if each.name == statement.name)
    names = {each.value: each.name for each in own.constants if isinstance(each.value, int)}
    places = tuple(statement.dims.index(dim) for dim in found.dims)
    body, elements = own.body, {each.array for each in own.references}
    if not isinstance(body, Assign) or len(names) < len(own.constants) or own.signs[places[-1]] < 0:
        return None
    value = body.value if body.symbol == "=" else Binary(body.symbol[0], body.target, body.value)
    words = set(re.findall(r"(?<![\w.])[A-Za-z_]\w*", expression(value)))
    known = {*names.values(), *elements, *region.parameters}
    if body.symbol not in ("=", "+=", "-=") or not words <= known or not all(place in names for place in places):
        return None
    kind = SPELLING[workload.tensor(statement.target.tensor).element_type or ""]
    return Update(body.target, value, kind, places, tuple(names[place] for place in places))


def tile_text(update: Update, found: Contraction, bounds: Bounds, vector_bytes: int) -> tuple[list[str], str] | None:
    """Return the lines that compute a tile, and the function `$sums` of a register tile that they call ("" if they call
    none), which has half of the rows, too, where the compiler's target decides (vector_bytes 0); None where the value
    is not taken apart into values of rows and of lanes."""
    packs = _packs(update) if found.lane else ()
    if packs is None or len(packs) > TUNING.most_packs:
        return None
    tile = _Tile(update, found, bounds, packs)
    lines = [
        f"const long $i0 = {bounds.rows[0]}, $i1 = {bounds.rows[1]};",
        f"const long $k0 = {bounds.terms[0]}, $k1 = {bounds.terms[1]};",
    ]
    if not found.lane:
        return [*lines, *_sums_of_rows(tile)], ""
    function = _function(tile, found.rows)
    if not vector_bytes:
        halves = _function(tile, found.rows // 2)
        function = [f"#if {_ROWS} == {found.rows}", *function, "#else", *halves, "#endif"]
    return [*lines, *_register_tiles(tile)], "\n".join(function) + "\n"


def turn_macro(text: str) -> list[str]:
    """Return the definition of the macro that keeps the sums of rows from being gathered in vectors, if a text has it:
    that takes up to 1.4 times as long."""
    return [_TURN] if "$turn(" in text else []


def vector_types(kinds: Sequence[str], vector_bytes: int, rows: int) -> str:
    """Return the types of vectors of element types, and the rows of register tiles; vector_bytes 0: vectors as long as
    the compiler's target has them, and half of the rows where it has half of the registers."""
    known = f"#define $BYTES {vector_bytes}\n#define $ROWS {rows}\n"
    text = known if vector_bytes else _TARGETS.format(rows=rows, half=rows // 2)
    return (
        text
        + _WIDE
        + "".join(_TYPES.format(kind=kind, bytes=ELEMENT_BYTES[kind], v=TUNING.lane_vectors) for kind in kinds)
    )


_TURN = """\
#if defined(__clang__) && defined(__x86_64__)
#define $turn(s) __asm__("" : "+x"(s)) /* each sum by itself */
#elif defined(__GNUC__)
#define $turn(s) __asm__ volatile("")
#else
#define $turn(s)
#endif
"""
_TARGETS = """\
#if defined(__AVX512F__)
#define $BYTES 64
#define $ROWS {rows}
#elif defined(__AVX__)
#define $BYTES 32
#define $ROWS {half}
#else
#define $BYTES 16
#define $ROWS {half}
#endif
"""
# clang for processors with AVX-512 halves vectors of 512 bits unless a function asks for them.
_WIDE = """\
#if defined(__clang__)
#define $WIDE __attribute__((min_vector_width(8 * $BYTES)))
#else
#define $WIDE
#endif
"""
_TYPES = """\
typedef {kind} ${kind} __attribute__((vector_size($BYTES)));
typedef {kind} ${kind}_any __attribute__((vector_size($BYTES), aligned({bytes}), may_alias));
#define ${kind}_panel ({v}L * $BYTES / {bytes})
"""


def _names(value: Expr, name: str) -> bool:
    """Return whether a value names a variable."""
    return re.search(rf"(?<![\w.>]){re.escape(name)}\b", expression(value)) is not None


def _packs(update: Update) -> tuple[Expr, ...] | None:
    """Return the largest parts of the value that vary with the row or with the lane alone, None where others do."""
    row, lane, _ = update.names
    parts: dict[Expr, None] = {}

    def visit(value: Expr) -> bool:
        if value == update.target:
            return True
        if not _is_split(update, value):
            parts[value] = None
            return True
        match value:
            case Binary("+" | "-" | "*" | "/", left, right):
                return visit(left) and visit(right)
            case Invoke("-" | "+", (operand,)):
                return visit(operand)
            case _:
                return False

    if _step(update.target, lane) != 1 or not visit(update.value):
        return None
    return tuple(parts) if all(any(_names(each, one) for each in parts) for one in (row, lane)) else None


def _is_split(update: Update, value: Expr) -> bool:
    """Return whether a value is put together anew from its parts: it varies with row and lane, or has the target."""
    row, lane = update.names[0], update.names[1]
    mixed = len(update.names) > 2 and _names(value, row) and _names(value, lane)
    return mixed or expression(update.target) in expression(value)


def _print_parts(update: Update, value: Expr, part: Callable[[Expr], str]) -> Expr:
    """Return the value with its parts printed by a function."""
    if value == update.target or not _is_split(update, value):
        return Name(part(value))
    assert isinstance(value, Binary | Invoke), "others are no contractions"
    if isinstance(value, Invoke):
        return Invoke(value.function, tuple(_print_parts(update, each, part) for each in value.arguments))
    return Binary(value.symbol, _print_parts(update, value.left, part), _print_parts(update, value.right, part))


def _elements(value: Expr) -> Iterator[Element]:
    match value:
        case Element():
            yield value
        case Binary(_, left, right):
            yield from (*_elements(left), *_elements(right))
        case Invoke(_, arguments):
            yield from (each for one in arguments for each in _elements(one))
        case Choice(condition, yes, no):
            yield from (*_elements(condition), *_elements(yes), *_elements(no))
        case _:
            pass


def _step(value: Expr, name: str) -> int:
    """Return how far apart the elements are that a value reads at neighbouring values of a variable: 0, 1, or 2 for
    further."""
    steps = [0]
    for each in _elements(value):
        further = any(_names(index, name) for index in each.index[:-1])
        steps.append(2 if further else _factor(each.index[-1], name))
    return max(steps)


def _factor(index: Expr, name: str) -> int:
    match index:
        case Binary("+" | "-", left, right):
            return max(_factor(left, name), _factor(right, name))
        case Name(text) if text == name:
            return 1
        case _:
            return 2 if _names(index, name) else 0


def _register_tiles(tile: _Tile) -> list[str]:
    bounds, kind = tile.bounds, tile.update.kind
    rows, panel, terms = _ROWS, _panel(tile), tile.found.tile[2]
    starts = [
        f"$l{number} + ($j - $j0) * {terms}" if tile.is_of_lanes(each) else f"$r{number} + ($r - $i0) * {terms}"
        for number, each in enumerate(tile.packs)
    ]
    return [
        f"const long $j0 = {bounds.lanes[0]}, $j1 = {bounds.lanes[1]};",
        *(line for number, each in enumerate(tile.packs) for line in _packing_loops(tile, number, each)),
        f"for (long $j = $j0; $j <= $j1; $j += {panel})",
        f"    for (long $r = $i0; $r <= $i1; $r += {rows}) {{",
        *_ends_of_rows(tile),
        f"        {kind} $part[{rows} * {panel}] __attribute__((aligned(64)));",
        f"        {kind} *$at[{rows}];",
        f"        for (long $u = 0; $u < {rows}; ++$u)",
        f"            $at[$u] = $all ? &{tile.place('($r + $u)', '$j')} : $part + $u * {panel};",
        f"        for (long $u = 0; !$all && $u < {rows} * {panel}; ++$u)",
        "            $part[$u] = 0;",
        *_copies(f"$part[$u * {panel} + $v] = {tile.place('($r + $u)', '($j + $v)')};"),
        f"        $sums({', '.join([*starts, '$k1 - $k0 + 1', '$at'])});",
        *_copies(f"{tile.place('($r + $u)', '($j + $v)')} = $part[$u * {panel} + $v];"),
        "    }",
    ]


_ROWS = "$ROWS"


def _panel(tile: _Tile) -> str:
    return f"{tile.vector}_panel"


def _copies(body: str) -> list[str]:
    """Return the loops over the sums of a register tile that exceeds its rows or lanes."""
    return [
        "        for (long $u = 0; !$all && $u < $count; ++$u)",
        "            for (long $v = $low[$u]; $v < $high[$u]; ++$v)",
        f"                {body}",
    ]


def _sums_of_rows(tile: _Tile) -> list[str]:
    """Return the loops that compute several rows at once, then the remaining rows one by one."""
    lines = ["long $i = $i0;"]
    for rows in (tile.found.rows, 1):
        lines.append(f"for (; $i + {rows - 1} <= $i1; $i += {rows}) {{")
        places = [tile.place(f"($i + {row})", "0") for row in range(rows)]
        lines += [f"    {tile.update.kind} $s{row} = {at};" for row, at in enumerate(places)]
        lines.append("    for (long $k = $k0; $k <= $k1; ++$k) {")
        for row in range(rows):

            def part(value: Expr, row: int = row) -> str:
                is_sum = value == tile.update.target
                return f"$s{row}" if is_sum else f"({tile.text(value, f'($i + {row})', '0', '$k')})"

            lines.append(f"        $s{row} = {expression(_print_parts(tile.update, tile.update.value, part))};")
        lines += [f"        $turn($s{row});" for row in range(rows) if rows > 1]
        lines.append("    }")
        lines += [f"    {at} = $s{row};" for row, at in enumerate(places)]
        lines.append("}")
    return lines


def _packing_loops(tile: _Tile, number: int, value: Expr) -> list[str]:
    """Return the loops that copy the values of rows (or lanes) into the order in which a register tile reads them."""
    lanes, found, names = tile.is_of_lanes(value), tile.found, tile.update.names
    width, size = (_panel(tile), found.tile[1]) if lanes else (_ROWS, found.tile[0])
    first, last, counter = ("$j0", "$j1", "$j") if lanes else ("$i0", "$i1", "$i")
    element = tile.text(value, "$i", "($j + $u)", "$k") if lanes else tile.text(value, "($i + $u)", "$j", "$k")
    array, terms = f"${'l' if lanes else 'r'}{number}", found.tile[2]
    at = f"{array}[({counter} - {first}) * {terms} + ($k - $k0) * {width} + $u]"
    near = _step(value, names[1] if lanes else names[0]) <= _step(value, names[2])
    loops = ["for (long $k = $k0; $k <= $k1; ++$k)", f"for (long $u = 0; $u < {counter}_count; ++$u)"]
    blank = ["for (long $k = $k0; $k <= $k1; ++$k)", f"for (long $u = {counter}_count; $u < {width}; ++$u)"]
    return [
        f"{tile.update.kind} {array}[{size * terms}] __attribute__((aligned(64)));",
        f"for (long {counter} = {first}; {counter} <= {last}; {counter} += {width}) {{",
        f"    const long {counter}_left = {last} - {counter} + 1;",
        f"    const long {counter}_count = {counter}_left < {width} ? {counter}_left : {width};",
        *_nest(loops if near else loops[::-1], f"{at} = {element};"),
        f"    if ({counter}_count < {width})",
        *_nest(blank, f"{at} = 0;", "        "),
        "}",
    ]


def _nest(loops: Sequence[str], body: str, pad: str = "    ") -> list[str]:
    lines = [f"{pad}{'    ' * depth}{each}" for depth, each in enumerate(loops)]
    return [*lines, f"{pad}{'    ' * len(loops)}{body}"]


def _ends_of_rows(tile: _Tile) -> list[str]:
    """Return the code that finds the lanes of each row of a register tile; in most tiles these are all lanes."""
    panel, rows = _panel(tile), _ROWS
    low, high = tile.bounds.lanes_of_row
    pad = " " * 8
    return [
        f"{pad}const long $count = $i1 - $r + 1 < {rows} ? $i1 - $r + 1 : {rows};",
        f"{pad}long $low[{rows}], $high[{rows}], $any = 0, $all = $count == {rows};",
        f"{pad}for (long $u = 0; $u < $count; ++$u) {{",
        f"{pad}    const long $i = $r + $u;",
        f"{pad}    $low[$u] = ({low}) - $j;",
        f"{pad}    $high[$u] = ({high}) - $j + 1;",
        f"{pad}    (void)$i;",
        f"{pad}    $low[$u] = $low[$u] < 0 ? 0 : $low[$u];",
        f"{pad}    $high[$u] = $high[$u] > {panel} ? {panel} : $high[$u];",
        f"{pad}    $any |= $low[$u] < $high[$u];",
        f"{pad}    $all &= $low[$u] == 0 && $high[$u] == {panel};",
        f"{pad}}}",
        f"{pad}if (!$any)",
        f"{pad}    continue;",
    ]


def _function(tile: _Tile, count: int) -> list[str]:
    """Return the function of a register tile of `count` rows: its sums as variables, and the loop over the terms."""
    kind, vector = tile.update.kind, tile.vector
    arrays = [f"{'l' if tile.is_of_lanes(each) else 'r'}{number}" for number, each in enumerate(tile.packs)]
    steps = {each: _panel(tile) if each[0] == "l" else str(count) for each in arrays}
    rows: Mapping[str, Sequence[int]] = {each: range(count) for each in arrays if each[0] == "r"}

    def part(value: Expr, row: int, place: int) -> str:
        if value == tile.update.target:
            return f"s{row}_{place}"
        name = arrays[tile.packs.index(value)]
        return f"{name}[{row}]" if name in rows else f"{name}_{place}"

    head = ", ".join([*(f"const {kind} *{each}" for each in arrays), "long steps", f"{kind} *const *at"])
    vectors = range(TUNING.lane_vectors)
    cells = [(row, place) for row in range(count) for place in vectors]
    lines = [f"$WIDE static void $sums({head})", "{"]
    lines += [f"    {vector} s{row}_{v} = (({vector}_any *)at[{row}])[{v}];" for row, v in cells]
    lines.append("    for (long k = 0; k < steps; ++k) {")
    for each in (each for each in arrays if each not in rows):
        lines += [f"        const {vector} {each}_{v} = ((const {vector}_any *){each})[{v}];" for v in vectors]
    for row, v in cells:
        value = _print_parts(tile.update, tile.update.value, lambda each, row=row, v=v: part(each, row, v))
        lines.append(f"        s{row}_{v} = {expression(value)};")
    lines += [f"        {each} += {step};" for each, step in steps.items()]
    lines.append("    }")
    lines += [f"    (({vector}_any *)at[{row}])[{v}] = s{row}_{v};" for row, v in cells]
    return [*lines, "}"]
