"""How large blocks of rows are, and where the temporary tensors and the packed matrices of a block stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from polymap.codegen.lower import LINE_BYTES
from polymap.codegen.native import ELEMENT_BYTES
from polymap.codegen.programs.row_form import Product, RowForm, Sweep
from polymap.codegen.source import TUNING, Core
from polymap.ir import Statement
from polymap.workload.c import SPELLING


@dataclass(frozen=True, slots=True)
class Tile:
    """How a product is computed. rows, vectors: of its register tile. step: elements from one term of the matrix to the
    next, and between lanes; packed: where its packed matrix stands in the scratch array, -1 where it is read as it is.
    is_dot: each sum is found by itself, along the terms."""

    product: Product
    number: int
    rows: int
    vectors: int
    packed: int = -1
    is_dot: bool = False


@dataclass(frozen=True, slots=True)
class RowPlan:
    """lanes: elements of a vector; count: rows of a group; block: rows of a block; places: of temporaries in the
    scratch array; size: its elements."""

    form: RowForm
    lanes: int
    count: int
    block: int
    tiles: Mapping[int, Tile] = field(repr=False)
    places: Mapping[str, int] = field(repr=False)
    size: int = 0

    @property
    def c_type(self) -> str:
        return SPELLING[self.form.kind]

    @property
    def bytes(self) -> int:
        return self.size * ELEMENT_BYTES[self.c_type]

    @property
    def blocks(self) -> int:
        return -(-self.count // self.block)

    def stride(self, tensor: str) -> int:
        """Return the elements from row to row of a temporary."""
        return row_stride(self.form.lane_of[tensor], self.lanes)


def row_stride(extent: int, lanes: int) -> int:
    """Return how far rows are apart: whole vectors, and where rows would share few sets of a cache, one more."""
    if not extent:
        return 1
    whole = extent + -extent % lanes
    return whole + lanes if whole % (8 * lanes) == 0 else whole


def row_plan(form: RowForm, facts: Core) -> RowPlan | None:
    """Return the plan of a form; None where a matrix that is read again is far larger than the second cache, or there
    are no vectors."""
    width = ELEMENT_BYTES[SPELLING[form.kind]]
    lanes, room = facts.vector_bits // (8 * width), (facts.cache_bytes or 2**18) // width
    if lanes < 2 or facts.registers < 8:
        return None
    count = form.extent(form.rows)
    tiles: dict[int, Tile] = {}
    end = 0
    for number, step in enumerate(form.steps):
        if isinstance(step, Product):
            tile, length = _tile(form, step, number, count, lanes, facts.registers)
            is_read_once = not length and count <= tile.rows
            if form.extent((step.lane, step.term)) > room * TUNING.matrix_caches and not is_read_once:
                return None
            tiles[number] = Tile(step, number, tile.rows, tile.vectors, end if length else -1, tile.is_dot)
            end += length
    rows = max((each.rows for each in tiles.values()), default=1)
    of_a_row = sum(row_stride(form.lane_of[each], lanes) for each in form.lane_of if form.is_scratch(each))
    wanted = TUNING.block_bytes // width // max(of_a_row, 1)
    block = min(count, max(rows, wanted - wanted % rows))
    places, end = _places(form, lanes, block, end)
    if end * width > TUNING.temporaries_on_stack_bytes * 64:
        return None
    return RowPlan(form, lanes, count, block, tiles, places, max(end, 1))


def _tile(form: RowForm, step: Product, number: int, count: int, lanes: int, registers: int) -> tuple[Tile, int]:
    """Return the register tile of a product, and how many elements its packed matrix has."""
    factors = form.factors(step.statement.reads[step.b])
    extents = form.workload.extents()
    vectors = -(-extents[step.lane] // lanes)
    rows = min(TUNING.most_rows, (registers - 4) // TUNING.lane_vectors, count)
    wide = min(vectors, max(TUNING.lane_vectors, min(TUNING.most_lane_vectors, (registers - 4) // rows - 1)))
    of_terms = form.factors(step.statement.reads[step.a]).get(step.term, 0)
    if count <= TUNING.few_rows and factors.get(step.term, 0) == of_terms == 1:
        return Tile(step, number, count, wide, is_dot=True), 0
    apart = factors.get(step.term, 0) * ELEMENT_BYTES[SPELLING[form.kind]]
    is_near = apart < TUNING.packed_step_bytes or count < 2 * rows
    is_direct = factors.get(step.lane, 0) == 1 and extents[step.lane] % lanes == 0 and is_near
    length = 0 if is_direct else -(-vectors // wide) * wide * lanes * extents[step.term]
    return Tile(step, number, rows, wide), length


def _places(form: RowForm, lanes: int, block: int, end: int) -> tuple[dict[str, int], int]:
    """Return where temporaries begin, and where all of them end. One takes the place of another whose last use is over:
    in a step before, or, where both move along the same lanes of a loop, at the latest in the statement that writes it.
    """
    first: dict[str, tuple[int, int]] = {}  # step and statement
    last: dict[str, tuple[int, int]] = {}
    listed = ((n, one) for n, step in enumerate(form.steps) for one in _statements(step))
    for place, (number, each) in enumerate(listed):
        for access in (each.target, *each.reads):
            first.setdefault(access.tensor, (number, place))
            last[access.tensor] = number, place

    def is_over(old: str, new: str) -> bool:
        is_same_loop = isinstance(form.steps[first[new][0]], Sweep) and 0 < form.lane_of[old] == form.lane_of[new]
        return last[old] <= first[new] if is_same_loop else last[old][0] < first[new][0]

    places: dict[str, int] = {}
    ends: list[tuple[str, int]] = []  # the last tensor of each place, with the place's length
    for name in sorted((each for each in form.lane_of if form.is_scratch(each)), key=first.__getitem__):
        length = block * row_stride(form.lane_of[name], lanes)
        length += -length % (LINE_BYTES // 4)
        fitting = [each for each in ends if each[1] == length and is_over(each[0], name)]
        if fitting:
            ends.remove(fitting[0])
            places[name] = places[fitting[0][0]]
        else:
            places[name] = end
            end += length
        ends.append((name, length))
    return places, end


def _statements(step: Product | Sweep) -> tuple[Statement, ...]:
    return (step.statement,) if isinstance(step, Product) else step.statements
