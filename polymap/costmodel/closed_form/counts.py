"""The counts of one mapping in closed form: exact, or None where the formulas do not apply (docs/closed_form.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from math import prod
from typing import TypeVar

from polymap.costmodel.closed_form.accounting import Row, Wire, rows_of, wires_of
from polymap.costmodel.closed_form.branches import BranchCounter, IntegerRuns, NestCounts, OutOfReach
from polymap.costmodel.closed_form.busiest import busiest_of_levels
from polymap.costmodel.closed_form.dividing_tiles import INTEGERS, DividingCrossings, count_dividing
from polymap.costmodel.closed_form.groups import DimKind, TensorModel, WorkloadModel, workload_model
from polymap.costmodel.closed_form.nest import TEMPORAL, LoopNestView, MachineModel, Node, machine_model, nest_of
from polymap.costmodel.closed_form.partial_tiles import Counter
from polymap.costmodel.closed_form.tuning import TUNING
from polymap.costmodel.counts import Counts, LevelUse, Traffic, WireUse
from polymap.ir import Architecture, BudgetError, Mapping, Workload
from polymap.poly import too_large

Key = TypeVar("Key")
Value = TypeVar("Value")


def _with_cache_per_object(function: Callable[[Key], Value]) -> Callable[[Key], Value]:
    """Return the function with a cache keyed by the identity of its argument: hashing a workload takes longer."""
    known: dict[int, tuple[Key, Value]] = {}

    def look_up(key: Key) -> Value:
        found = known.get(id(key))
        if found is not None and found[0] is key:
            return found[1]
        value = function(key)
        if len(known) >= TUNING.most_models:
            known.clear()
        known[id(key)] = (key, value)
        return value

    return look_up


_workload_model = _with_cache_per_object(partial(workload_model, unions=True))
_machine_model = _with_cache_per_object(machine_model)


def count_closed_form(
    workload: Workload, arch: Architecture, mapping: Mapping, *, metered: bool = False
) -> Counts | None:
    """Return the counts of a mapping that `check_mapping` accepts, or None where the closed form does not apply.

    metered: the busiest instance of a level without a bandwidth, which no cost depends on, may be left out.

    It applies to one statement over a box with one linear access per tensor (read-only tensors may have several), and
    to trees with branches of such statements. It does not apply to temporary or in-place tensors of a nest, where
    partial sums depend on more history than it follows, or where a tile is a set of integers with too many gaps.
    """
    if len(workload.statements) > 1:
        return _count_branches(workload, arch, mapping, metered=metered)
    model = _workload_model(workload)
    counted = None if model is None else _count_nest(model, arch, mapping, metered=metered)
    if model is None or counted is None:
        return None
    held = [0] * len(arch.levels)
    for row in counted.rows:
        held[row.level] += row.tile * model.tensors[row.tensor].bits if row.level else 0
    return _counts_of(workload, arch, counted, held)


def _count_branches(workload: Workload, arch: Architecture, mapping: Mapping, *, metered: bool) -> Counts | None:
    def count_nest(nest: Workload, inside: Mapping) -> NestCounts[int] | None:
        model = workload_model(nest, unions=True)
        return None if model is None else _count_nest(model, arch, inside, metered=metered)

    try:
        found = BranchCounter(workload, arch, IntegerRuns(count_nest), metered=metered).counts(mapping)
    except OutOfReach:
        return None
    return _counts_of(workload, arch, found.counts, found.held)


def _count_nest(model: WorkloadModel, arch: Architecture, mapping: Mapping, *, metered: bool) -> NestCounts[int] | None:
    machine = _machine_model(arch)
    nest = nest_of(model, machine, mapping)
    if nest is None or any(tensor.written and tensor.temporary for tensor in model.tensors):
        return None
    try:
        if _has_dividing_formulas(model, nest):
            rows, busy = count_dividing(INTEGERS, model, machine, nest.loops, nest.holders)
            of_first = True
            steps = prod(loop.trips for loop in nest.loops if loop.fanout == TEMPORAL)
        else:
            counter = Counter(model, machine, nest)
            _refuse_unknown_peaks(counter)
            rows, steps = counter.rows(), counter.steps()
            left_out = [number for number, level in enumerate(arch.levels) if metered and not level.has_bandwidth]
            busy, of_first = busiest_of_levels(counter, rows, left_out)
        wires = _wires(model, machine, nest, rows) if any(machine.costs) else []
    except BudgetError:
        return None
    rows.sort(key=lambda row: (row.level, row.tensor))
    return NestCounts(rows, busy, steps, wires, of_first=of_first)


def _wires(
    model: WorkloadModel, machine: MachineModel, nest: LoopNestView, rows: list[Row[int]], *own: TensorModel
) -> list[Wire[int]]:
    """Return the wires of some tensors (none named: of all)."""
    plain = _has_dividing_formulas(model, nest)
    counts = DividingCrossings(INTEGERS, machine, nest.loops) if plain else Counter(model, machine, nest)
    tensors = own or model.tensors
    nodes = [nest.holders[tensor.index] for tensor in tensors]
    return wires_of(counts, machine, replace(model, tensors=tensors), nodes, rows, 0)


def counts_of_tensor(
    model: WorkloadModel, machine: MachineModel, nest: LoopNestView, tensor: TensorModel
) -> tuple[list[Row[int]], list[Wire[int]]] | None:
    """Return the rows of one tensor, outermost first, and its wires, as `count_closed_form` counts them; None where it
    does not apply."""
    nodes = nest.holders[tensor.index]
    try:
        if _has_dividing_formulas(model, nest):
            alone = replace(model, tensors=(tensor,))
            rows = count_dividing(INTEGERS, alone, machine, nest.loops, [nodes])[0]
        else:
            rows = list(rows_of(Counter(model, machine, nest), tensor, nodes, 0))
        return rows, _wires(model, machine, nest, rows, tensor) if any(machine.costs) else []
    except BudgetError:
        return None


def _has_dividing_formulas(model: WorkloadModel, nest: LoopNestView) -> bool:
    """Return whether the formulas for dividing tiles apply to all tensors."""
    return all(nest.even) and not model.has_unions and not _has_shared_elements(model, nest)


def _refuse_unknown_peaks(counter: Counter) -> None:
    """Raise BudgetError where the tensors of a level may have their largest tiles in different steps.

    A tensor with one access has its largest tile in any step in which all outer loops leave full tiles, as in the
    first. A union may have a larger tile elsewhere. Two unions have theirs in a common step if they share no dim, since
    steps are a product over dims; or if all tiles of the shared dims divide and both have it at the same choice of
    first and last tiles.
    """
    holders: dict[int, list[tuple[TensorModel, Node]]] = {}
    for tensor, nodes in zip(counter.model.tensors, counter.nest.holders, strict=True):
        for node in nodes[1:-1]:
            holders.setdefault(node.level, []).append((tensor, node))
    for held in holders.values():
        unions = [(tensor, tensor.union, node) for tensor, node in held if tensor.union is not None]
        shared = {dim for (_, one, _), (_, other, _) in combinations(unions, 2) for dim in {*one.dims} & {*other.dims}}
        if shared and not (all(map(counter.nest.even.__getitem__, shared)) and counter.meet_at_an_end(unions)):
            raise too_large()
        if len(held) > 1 and not all(counter.largest_union(*union)[1] for union in unions):
            raise too_large()


def _has_shared_elements(model: WorkloadModel, nest: LoopNestView) -> bool:
    """Return whether siblings may hold the same element of the target at different offsets of a window."""
    return any(
        tensor.written and tensor.kinds[loop.dim] is DimKind.WINDOW and 0 <= loop.fanout < nodes[-2].fans
        for tensor, nodes in zip(model.tensors, nest.holders, strict=True)
        for loop in nest.loops
    )


def _counts_of(workload: Workload, arch: Architecture, found: NestCounts[int], held: Sequence[int]) -> Counts:
    """Return the counts with the names of levels, tensors and fan-outs."""
    levels = [level.name for level in arch.levels]
    tensors = [tensor.name for tensor in workload.tensors]
    traffic = tuple(
        Traffic(levels[row.level], tensors[row.tensor], row.reads, row.writes, row.fills, row.drains)
        for row in found.rows
    )
    uses = tuple(
        LevelUse(name, bits, use.read, use.written, use.moved)
        for name, bits, use in zip(levels, held, found.busy, strict=True)
    )
    fanouts = [fanout.name for fanout in arch.fanouts]
    crossed = tuple(WireUse(fanouts[wire.fanout], tensors[wire.tensor], *wire[2:]) for wire in found.wires)
    return Counts(workload.instances_of_boxes(), found.steps, traffic, uses, crossed)
