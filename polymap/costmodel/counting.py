"""How one mapping is counted: in closed form, by walking its steps where they are few, else by integer sets.

All three give the same integers. Which goes first is decided by an estimate of the walk; before a long walk is begun,
sets get about as much time as it would take. What takes long runs in a process that can be ended. Limits are CPU time:
what is counted does not depend on what else the machine does.
"""

from __future__ import annotations

from math import prod
from time import process_time

from polymap.costmodel.closed_form import count_closed_form
from polymap.costmodel.counts import Counts
from polymap.costmodel.tuning import TUNING
from polymap.ir import Architecture, BudgetError, Mapping, Mistake, Workload, accesses_of
from polymap.schedules import view_of


def count_mapping(workload: Workload, arch: Architecture, mapping: Mapping, *, seconds: float) -> tuple[Counts, str]:
    """Return the counts of a mapping that `check_mapping` accepts, and how they were found: "closed form", "sets", or
    "steps" (every step walked).

    Raises BudgetError where that takes more than `seconds` of CPU time.
    """
    counts = count_closed_form(workload, arch, mapping, metered=True)
    if counts is not None:
        return counts, "closed form"
    moves = moves_of(workload, mapping)
    if moves <= TUNING.few_moves:
        from polymap.costmodel.referees import count_by_simulation

        return count_by_simulation(workload, arch, mapping), "steps"
    return _by_sets_or_steps(workload, arch, mapping, moves, seconds)


def _by_sets_or_steps(
    workload: Workload, arch: Architecture, mapping: Mapping, moves: int, seconds: float
) -> tuple[Counts, str]:
    from polymap.costmodel.referees import (
        count_by_simulation,
        counts_of_sets,  # isl is loaded where it is needed
    )
    from polymap.poly import TUNING as OF_ISL, budget, in_a_process, is_exhausted

    first, begin = min(OF_ISL.first_seconds, seconds), process_time()
    what = "counting this mapping"
    question = workload, arch, mapping
    refused: BudgetError | None = None  # what sets could not do with any amount of time
    try:
        with budget(min(OF_ISL.first_operations, TUNING.least_operations + 2 * moves), seconds=first, what=what):
            return counts_of_sets(*question), "sets"
    except BudgetError as error:
        refused = None if is_exhausted(error) else error
    left = seconds - min(first, process_time() - begin)
    if moves <= TUNING.many_moves and (refused or moves * TUNING.walk_s_per_move <= left / 2):
        walk = left if refused else TUNING.walk_share * left
        left -= walk
        try:
            return in_a_process(walk, what, count_by_simulation, *question), "steps"
        except BudgetError as error:
            if not is_exhausted(error):
                refused = error
    if refused is None:
        try:
            return in_a_process(left, what, counts_of_sets, *question), "sets"
        except BudgetError as error:
            refused = None if is_exhausted(error) else error
    raise refused or not_counted(seconds)


def not_counted(seconds: float) -> BudgetError:
    """Return the error of a mapping whose counts take too long."""
    what = f"counting this mapping takes more than {seconds:.3g} s: the closed form does not reach it"
    hint = (
        "A longer time limit, tiles that divide, fewer loops, fewer tensors stored, or smaller extents would help; "
        "what is small is counted step by step."
    )
    return BudgetError(Mistake("PM490", what, hint))


def moves_of(workload: Workload, mapping: Mapping) -> int:
    """Return about how much a walk over all steps does: per statement instance its loops, and per access and node that
    holds the tensor one move. Instances that a constraint excludes are looked at, too."""
    extents = workload.extents()
    view = view_of(extents, mapping)
    stored = [tensor for storage in view.storages for tensor in storage.node.tensors]
    loops = max((len(each.loops) for each in view.computes), default=0)
    total = 0
    for statement in workload.statements:
        held = sum(
            len(accesses_of(statement, tensor.name)) * (1 + stored.count(tensor.name)) for tensor in workload.tensors
        )
        total += prod(extents[dim] for dim in statement.dims) * (2 + loops + held)
    return total
