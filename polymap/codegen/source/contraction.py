"""Statements that add products onto a matrix: which dims are rows, lanes and terms of the sum, and how it is tiled.

`C[i,j] += A[i,k] * B[k,j]` steps through memory along j (lanes), has an element of C per i (rows), and adds over k.
A tile is computed with its sums in vector registers, each in the order of the text: no float is rounded otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from polymap.codegen.source.contiguous import step_of
from polymap.codegen.source.order_tuning import TUNING
from polymap.ir import Access, Affine, Apply, Expression, Floor, Number, Operator, Read, Statement, Workload
from polymap.workload.c import FLOATS

_COMBINED = ("+", "-", "*", "/", "neg")


@dataclass(frozen=True, slots=True)
class Core:
    """Facts of a core. vector_bits: of a vector register; registers: how many it has; 0: no register tiles are wanted.
    cache_bytes: of its own second cache; 0: unknown. extent, instances: the least of contractions that are tiled; 0:
    as `compile` does, which prints short loops written out."""

    vector_bits: int
    registers: int
    cache_bytes: int = 0
    extent: int = 0
    instances: int = 0


@dataclass(frozen=True, slots=True)
class Contraction:
    """row, lane, term: dims of a statement; lane "": each row has one sum. rows: of a register tile; lanes:
    elements of a vector. tile: how many of
    each dim a tile has. end: how many places of the times there are up to the last number of a tile."""

    statement: str
    row: str
    lane: str
    term: str
    rows: int
    lanes: int
    tile: tuple[int, ...]
    end: int = 0

    @property
    def dims(self) -> tuple[str, ...]:
        """Return the dims that are tiled, the term last."""
        return (self.row, self.lane, self.term) if self.lane else (self.row, self.term)

    @property
    def panel(self) -> int:
        """Return how many elements of a row a register tile has."""
        return self.lanes * TUNING.lane_vectors

    @property
    def is_in_band(self) -> bool:
        """Return whether its tiles are those of a band of several statements, equal along all dims."""
        return bool(self.lane) and len(set(self.tile)) == 1

    @property
    def turned(self) -> Contraction | None:
        """Return it with rows as lanes, for elements that lie the other way; None where their tiles differ."""
        is_square = bool(self.lane) and self.tile[0] == self.tile[1]
        return replace(self, row=self.lane, lane=self.row) if is_square else None


def contraction_of(workload: Workload, statement: Statement, facts: Core) -> Contraction | None:
    """Return how a statement is tiled, None where it is no contraction, or a small one."""
    target = workload.tensor(statement.target.tensor)
    if statement.operator is not Operator.ADD or not _is_float(workload, statement):
        return None
    found = _dims(workload, statement)
    extents = workload.extents()
    if found is None or any(extents[dim] < (facts.extent or TUNING.contraction_extent) for dim in found):
        return None
    least = facts.instances or (TUNING.contraction_instances if _is_plain(workload, statement, found[1]) else 0)
    if prod(extents[dim] for dim in statement.dims) < least:
        return None
    lanes = max(1, facts.vector_bits // target.bits)
    rows = min(TUNING.most_rows, (facts.registers - 4) // TUNING.lane_vectors)
    panel = lanes * TUNING.lane_vectors
    height = _near_multiple(TUNING.tile_rows, rows)
    in_triangle = any(found[2] in each.dims for each in statement.constraints)
    terms = height if in_triangle else TUNING.tile_terms  # of one size: diagonals go through corners of tiles
    tile = (height, _near_multiple(TUNING.tile_lanes, panel), terms)
    made = Contraction(statement.name, *found, rows, lanes, tile)
    return made if rows > 0 and _is_separable(statement, made) else None


def sum_of(workload: Workload, statement: Statement) -> Contraction | None:
    """Return how a statement is tiled that adds up each row of a matrix: several rows at once, as one sum alone waits
    for each addition. None where it is no such sum, or a small one, or one of few terms, which compilers write out."""
    if statement.operator is not Operator.ADD or not _is_float(workload, statement):
        return None
    steps = {dim: step_of(workload, statement.target, dim) for dim in statement.dims}
    terms = [dim for dim, step in steps.items() if step == 0]
    rows = [dim for dim, step in steps.items() if step]
    if len(terms) != 1 or not rows or terms[0] != statement.dims[-1]:
        return None
    row, term, extents = rows[-1], terms[0], workload.extents()
    along = [step_of(workload, each, term) for each in statement.reads]
    across = [step_of(workload, each, row) for each in statement.reads]
    if any(step is None or abs(step) > 1 for step in along) or not any(
        step is None or abs(step) > 1 for step in across
    ):
        return None
    chains, instances = TUNING.chains, prod(extents[dim] for dim in statement.dims)
    least = TUNING.triangle_instances if statement.constraints else TUNING.sum_instances
    if instances < least or extents[row] < 2 * chains:
        return None
    if extents[term] <= TUNING.written_out_terms:
        return None
    return Contraction(statement.name, row, "", term, chains, 1, (chains, extents[term]))


def _is_float(workload: Workload, statement: Statement) -> bool:
    """Return whether a statement computes with one type of floats and plain arithmetic on elements without floors."""
    kind = workload.tensor(statement.target.tensor).element_type
    accesses = (statement.target, *statement.reads)
    return (
        kind in FLOATS
        and all(workload.tensor(each.tensor).element_type == kind for each in accesses)
        and _is_arithmetic(statement.expression)
        and all(index.is_linear for each in accesses for index in each.index)
    )


def tile_number(entry: Affine, size: int) -> Affine:
    """Return the number of the tile of an entry."""
    return Affine((), entry.constant // size) if not entry.terms else Affine(((1, Floor(entry, size)),))


def _near_multiple(size: int, unit: int) -> int:
    """Return the multiple of a unit that is nearest to a size from below, at least one."""
    return max(unit, size - size % unit)


def _dims(workload: Workload, statement: Statement) -> tuple[str, str, str] | None:
    """Return the row, the lane and the term of a statement."""
    steps = {dim: step_of(workload, statement.target, dim) for dim in statement.dims}
    lane = [dim for dim, step in steps.items() if step == 1]
    terms = [dim for dim, step in steps.items() if step == 0]
    rows = [dim for dim, step in steps.items() if step and step > 1]
    if len(lane) != 1 or len(terms) != 1 or not rows:
        return None
    for row in reversed(rows):  # a row whose values are all used by several lanes
        if _is_separable(statement, Contraction(statement.name, row, lane[0], terms[0], 1, 1, (1, 1, 1))):
            return row, lane[0], terms[0]
    return None


def _is_plain(workload: Workload, statement: Statement, lane: str) -> bool:
    """Return whether compilers find vectors along the lanes without tiles: every instance runs, and reads step through
    memory one by one."""
    return not statement.constraints and all(step_of(workload, each, lane) in (0, 1) for each in statement.reads)


def _varies(access: Access, dim: str) -> bool:
    """Return whether the element of an access depends on a dim."""
    return any(dim in index.dims for index in access.index)


def _is_separable(statement: Statement, found: Contraction) -> bool:
    """Return whether no read varies with row and lane at once, some with each, and what joins them is arithmetic."""
    both = [_varies(each, found.row) and _varies(each, found.lane) for each in statement.reads]
    if any(both) or not all(
        any(_varies(each, dim) for each in statement.reads) for dim in (found.row, found.lane, found.term)
    ):
        return False
    return len(_packs_of(statement, found)) <= TUNING.most_packs


def _packs_of(statement: Statement, found: Contraction) -> tuple[Expression, ...]:
    """Return the largest parts of the added value that vary with row or lane alone."""
    parts: dict[Expression, None] = {}

    def visit(expression: Expression) -> None:
        if isinstance(expression, Apply) and _is_mixed(statement, expression, found):
            for each in expression.arguments:
                visit(each)
        else:
            parts[expression] = None

    visit(statement.expression)
    return tuple(parts)


def _is_mixed(statement: Statement, expression: Expression, found: Contraction) -> bool:
    """Return whether a value varies with the row and with the lane."""
    dims = _dims_of(statement, expression)
    return found.row in dims and found.lane in dims


def _dims_of(statement: Statement, expression: Expression) -> set[str]:
    match expression:
        case Read(number):
            return {dim for index in statement.reads[number].index for dim in index.dims}
        case Apply(_, arguments):
            return {dim for each in arguments for dim in _dims_of(statement, each)}
        case _:
            return set()


def _is_arithmetic(expression: Expression) -> bool:
    match expression:
        case Apply(operation, arguments):
            return operation in _COMBINED and all(map(_is_arithmetic, arguments))
        case _:
            return isinstance(expression, Read | Number)
