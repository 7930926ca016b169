"""Many mappings of one tree shape at once: a table of tiles in, arrays of cost out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from itertools import repeat
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polymap.costmodel.closed_form import loops_of_tree
from polymap.costmodel.cost import Cost
from polymap.costmodel.evaluation import evaluate
from polymap.costmodel.tables.cost_columns import Batch, BatchFigures, batch_of_nest
from polymap.costmodel.tables.fused import batch_of_branches
from polymap.costmodel.tables.loops import Booleans, with_tiles
from polymap.costmodel.tables.tuning import TUNING
from polymap.inputs import answers_in_words
from polymap.ir import Architecture, Mapping, MappingError, Mistake, OptionError, Shown, Workload
from polymap.resolve import ArchitectureLike, WorkloadLike, mapping_of, question_of

IntegerArray = NDArray[np.int64] | NDArray[np.object_]


@dataclass(frozen=True, slots=True, eq=False)
class TrafficArrays:
    """Elements of `tensor` read, written, filled and drained at `level`, one entry per mapping."""

    level: str
    tensor: str
    reads: IntegerArray
    writes: IntegerArray
    fills: IntegerArray
    drains: IntegerArray

    def __eq__(self, other: object) -> bool:
        return _are_equal(self, other)

    def __hash__(self) -> int:
        return hash((self.level, self.tensor, len(self.reads)))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CostArrays(Shown):
    """The figures of `Cost` as arrays, one entry per mapping in the order of the rows.

    Integers are int64; a column with a larger one has Python integers (dtype object). Two are equal where all entries
    are.
    """

    legal: NDArray[np.bool_]
    instances: IntegerArray
    traffic: tuple[TrafficArrays, ...]
    occupancy_bits: tuple[tuple[str, IntegerArray], ...]
    energy_pj: NDArray[np.float64]
    energy_by_level_pj: tuple[tuple[str, NDArray[np.float64]], ...]
    compute_cycles: IntegerArray
    latency_cycles: IntegerArray
    utilization: NDArray[np.float64]

    def __eq__(self, other: object) -> bool:
        return _are_equal(self, other)

    def __hash__(self) -> int:
        return hash((self.traffic, len(self.legal)))


def _are_equal(one: object, other: object) -> bool:
    """Return whether two values, or tuples and classes of values, have one type and are equal, arrays entry by
    entry."""
    if type(one) is not type(other):
        return False
    if isinstance(one, TrafficArrays | CostArrays):
        return all(_are_equal(getattr(one, each.name), getattr(other, each.name)) for each in fields(one))
    if isinstance(one, tuple):
        mine, theirs = cast("tuple[object, ...]", one), cast("tuple[object, ...]", other)
        return len(mine) == len(theirs) and all(map(_are_equal, mine, theirs))
    if isinstance(one, np.ndarray):
        return np.array_equal(cast("IntegerArray", one), cast("IntegerArray", other))
    return one == other


@answers_in_words
def evaluate_many(workload: WorkloadLike, arch: ArchitectureLike, tree: Mapping, tiles: ArrayLike) -> CostArrays:
    """Return the costs of many mappings that share the nodes of `tree` and differ in their tiles.

    tiles: integers [mappings, loops], a column per temporal or spatial loop in the order of the tree, outermost first
    (children of a branch one after the other); the tiles in `tree` itself are ignored. The figures are exact, like
    those of `evaluate`: rows are counted together, and one by one where the array formulas do not apply
    (docs/closed_form.md, "Tables of tiles"). Raises OptionError for a table of another shape or type, MappingError with
    the row that is not a legal loop tree.
    """
    workload, arch = question_of(workload, arch)
    tree = mapping_of(tree)
    table = _integer_table(tiles, sum(1 for _ in loops_of_tree(tree.nodes)))
    some, batch = _known_tree(workload, arch, tree)
    figures = _Figures.like(some, len(table))
    left = np.arange(len(table))
    if batch is not None and table.dtype == np.int64:
        left = _by_arrays(batch, table.astype(np.int64, copy=False), figures)
    for number in left.tolist():
        figures.set(number, _row(workload, arch, tree, table[number].tolist(), number))
    return figures.arrays(some)


class _KnownTree(NamedTuple):
    """A cost of a tree with some tiles, which names its figures, and the counter of its tables, if there is one."""

    some: Cost
    batch: Batch | None


_latest: list[tuple[Workload, Architecture, tuple[object, ...], _KnownTree]] = []


def _known_tree(workload: Workload, arch: Architecture, tree: Mapping) -> _KnownTree:
    """Return what serves all tables of a tree; of the latest trees it is kept.

    To plan a tree takes as long as to count some thousand rows.
    """
    nodes = with_tiles(tree.nodes, repeat(1))
    for number, (other, on, kept, known) in enumerate(_latest):
        if other is workload and on is arch and kept == nodes:
            _latest.append(_latest.pop(number))
            return known
    cost = _row(
        workload, arch, tree, repeat(1), 0
    )  # where each dim has one loop of several iterations, counts are quick
    # A broken rule of placement does not depend on tiles; what other rules are broken does.
    placed = all(violation.kind != "placement" for violation in cost.violations)
    by_arrays = not arch.is_timed_by_step  # else each row by itself: its steps are no sums of traffic
    known = _KnownTree(cost, _batch_of(workload, arch, tree, placed=placed) if by_arrays else None)
    _latest.append((workload, arch, nodes, known))
    del _latest[: -TUNING.kept_plans]
    return known


def _batch_of(workload: Workload, arch: Architecture, tree: Mapping, *, placed: bool) -> Batch | None:
    if len(workload.statements) == 1:
        return batch_of_nest(workload, arch, tree, placed=placed)
    return batch_of_branches(workload, arch, tree, placed=placed)


def _by_arrays(batch: Batch, table: NDArray[np.int64], figures: _Figures) -> NDArray[np.int64]:
    """Fill in the rows that array formulas count; return the numbers of the other rows in order."""
    uneven: list[NDArray[np.int64]] = []
    known = np.zeros(len(table), dtype=np.bool_)
    for start in range(0, len(table), TUNING.cost_rows):
        stretch = slice(start, min(start + TUNING.cost_rows, len(table)))
        counted = batch.count_dividing(table[stretch])
        if counted is None:
            uneven.append(np.arange(stretch.start, stretch.stop))
            continue
        figures.put(stretch, counted[0])
        known[stretch] = counted[1]
        uneven.append(np.flatnonzero(~counted[1]) + start)
    numbers = np.concatenate(uneven)
    for start in range(0, len(numbers), TUNING.chain_rows):
        block = numbers[start : start + TUNING.chain_rows]
        for stretch, found, right in batch.count_partial(table[block]):
            figures.put(block[stretch], found)
            known[block[stretch]] = right
    return np.flatnonzero(~known)


def _integer_table(tiles: ArrayLike, loops: int) -> NDArray[np.int64] | NDArray[np.object_]:
    """Return the table as int64, or as Python integers where one exceeds int64."""
    table = _as_array(tiles)
    if table.ndim != 2 or table.shape[1] != loops or not table.shape[0]:
        what = f"tiles has the shape {table.shape}, and the tree has {loops} loops"
        raise OptionError(Mistake("PM562", what, f"Expected a table [mappings, {loops}] with at least one row."))
    if table.dtype.kind == "i" or (table.dtype.kind == "u" and table.max(initial=0) < 2**63):
        return table.astype(np.int64)
    values: list[list[object]] = table.tolist()
    for number, row in enumerate(values):
        for value in row:
            if type(value) is not int:
                what = f"tiles has {value!r} in row {number}, of type {type(value).__name__}"
                raise OptionError(Mistake("PM563", what, "Expected integers."))
    return table.astype(np.object_)


def _as_array(tiles: ArrayLike) -> NDArray[Any]:
    """Return the table as an array; integers beyond int64 stay integers."""
    try:
        table = np.asarray(tiles)
    except ValueError:
        what = "the rows of tiles differ in length"
        raise OptionError(Mistake("PM562", what, "Expected a table [mappings, loops].")) from None
    is_array = isinstance(tiles, np.ndarray) or table.dtype.kind != "f"
    return table if is_array else np.asarray(tiles, dtype=np.object_)  # numpy makes floats of a list with 2**63


def _row(workload: Workload, arch: Architecture, tree: Mapping, row: Iterable[int], number: int) -> Cost:
    mapping = Mapping(with_tiles(tree.nodes, iter(row)))
    try:
        return evaluate(workload, arch, mapping)
    except MappingError as error:
        located = (replace(mistake, what=f"row {number}: {mistake.what}") for mistake in error.mistakes)
        raise MappingError(located) from None


class _Figures:
    """The columns of CostArrays while they are filled."""

    def __init__(self, legal: Booleans, integers: list[IntegerArray], floats: list[NDArray[np.float64]]) -> None:
        self._legal, self._integers, self._floats = legal, integers, floats

    @staticmethod
    def like(first: Cost, rows: int) -> _Figures:
        """Return empty columns for the figures of costs like the first one."""
        integers: list[IntegerArray] = [np.zeros(rows, dtype=np.int64) for _ in _integers_of(first)]
        floats = [np.zeros(rows, dtype=np.float64) for _ in _floats_of(first)]
        return _Figures(np.zeros(rows, dtype=np.bool_), integers, floats)

    def put(self, where: slice | NDArray[np.int64], counted: BatchFigures) -> None:
        """Fill in many rows."""
        self._legal[where] = counted.legal
        for column, values in zip(self._integers, counted.integers, strict=True):
            column[where] = values
        for column, values in zip(self._floats, counted.floats, strict=True):
            column[where] = values

    def set(self, row: int, cost: Cost) -> None:
        """Fill in one row."""
        self._legal[row] = cost.legal
        for number, value in enumerate(_integers_of(cost)):
            if not -(2**63) <= value < 2**63:
                self._integers[number] = self._integers[number].astype(np.object_)
            self._integers[number][row] = value
        for column, value in zip(self._floats, _floats_of(cost), strict=True):
            column[row] = value

    def arrays(self, first: Cost) -> CostArrays:
        """Return the columns with their names."""
        instances, compute_cycles, latency_cycles, *others = self._integers
        energy, utilization, *energies = self._floats
        traffic = others[: 4 * len(first.traffic)]
        return CostArrays(
            legal=self._legal,
            instances=instances,
            traffic=tuple(
                TrafficArrays(row.level, row.tensor, *traffic[4 * number : 4 * number + 4])
                for number, row in enumerate(first.traffic)
            ),
            occupancy_bits=tuple(
                (name, bits) for (name, _), bits in zip(first.occupancy_bits, others[len(traffic) :], strict=True)
            ),
            energy_pj=energy,
            energy_by_level_pj=tuple(
                (name, values) for (name, _), values in zip(first.energy_by_level_pj, energies, strict=True)
            ),
            compute_cycles=compute_cycles,
            latency_cycles=latency_cycles,
            utilization=utilization,
        )


def _integers_of(cost: Cost) -> list[int]:
    """Return a cost's integers in the order of BatchFigures."""
    figures = [cost.instances, cost.compute_cycles, cost.latency_cycles]
    for row in cost.traffic:
        figures += [row.reads, row.writes, row.fills, row.drains]
    return figures + [bits for _, bits in cost.occupancy_bits]


def _floats_of(cost: Cost) -> list[float]:
    """Return a cost's floats in the order of BatchFigures."""
    return [cost.energy_pj, cost.utilization, *(energy for _, energy in cost.energy_by_level_pj)]
