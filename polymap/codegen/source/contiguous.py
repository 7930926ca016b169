"""Loop interchange for unit stride: the order of the text, with loops exchanged where the innermost one then steps
through memory element by element.

Every float is rounded as in the text: no sum changes its order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod

from polymap.codegen.lower import loop_extent
from polymap.codegen.source.order_tuning import TUNING
from polymap.ir import Access, Affine, BudgetError, Operator, Statement, Workload
from polymap.resources import cpu_seconds
from polymap.schedules import Loop, Schedule, TimeDim, schedule_violations


def contiguous_order(
    workload: Workload,
    *,
    start: Schedule | None = None,
    kept: frozenset[str] = frozenset(),
    clock: Callable[[], float] = cpu_seconds,
) -> Schedule:
    """Return the text's order (or `start`, a legal one), pairs of loops exchanged (and distributed first) as long as
    that is legal and fewer accesses of innermost loops are strided. What takes too long to decide stays as it is,
    and so do the loops of the statements `kept`."""
    best = (start or Schedule.original(workload, strict=True)).normal()
    until = clock() + TUNING.exchange_cpu_s
    found = True
    while found:
        found = False
        for candidate in _better(best, kept):
            if clock() > until:
                return best
            if is_legal(candidate, until - clock()):
                best, found = candidate, True
                break
    return replace(best, strict=False)


def is_legal(schedule: Schedule, seconds: float) -> bool:
    """Return whether a schedule keeps all dependences, sums of floats included; False where that takes too long."""
    try:
        return not schedule_violations(schedule.workload, schedule.times, strict=True, seconds=max(0.1, seconds))
    except BudgetError:
        return False


def _better(schedule: Schedule, kept: frozenset[str]) -> list[Schedule]:
    """Return the schedules with one exchange more that cost less, the best first."""
    now = cost_of(schedule)
    priced = [(cost_of(each), number, each) for number, each in enumerate(_loop_exchanges(schedule, kept))]
    return [each for cost, _, each in sorted(priced, key=lambda entry: entry[:2]) if cost < now]


def _loop_exchanges(schedule: Schedule, kept: frozenset[str]) -> Iterator[Schedule]:
    """Yield the schedules with an innermost loop and one around it exchanged, in a nest of their own."""
    loops = schedule.loops()
    for inner in loops:
        own = set(inner.statements)
        if own & kept or any(own & set(each.statements) and each.position > inner.position for each in loops):
            continue
        around = [each for each in loops if each.position < inner.position and own <= set(each.statements)]
        for outer in around:
            yield _exchange(schedule, outer, inner)


def _exchange(schedule: Schedule, outer: Loop, inner: Loop) -> Schedule:
    """Return the schedule with the statements of `inner` in loops of their own from `outer` on, the two exchanged."""
    own = set(inner.statements)
    first = min(outer.statements.index(name) for name in own)
    changed: dict[str, list[TimeDim]] = {}
    for number, name in enumerate(outer.statements):
        places = list(schedule.scattering(name).places)
        if name in own:
            places[outer.position], places[inner.position] = places[inner.position], places[outer.position]
        part = 1 if name in own else 0 if number < first else 2
        head = TimeDim(Affine((), part))
        changed[name] = [*places[: outer.position], head, *places[outer.position :]]
    return schedule.with_places(changed).normal()


def cost_of(schedule: Schedule, free: frozenset[str] = frozenset()) -> float:
    """Return how many accesses of innermost loops are strided, the writes and the sums of floats with their weights.

    Compilers write short loops out where that is better. free: statements that are not counted.
    """
    extents = schedule.workload.extents()
    total = 0.0
    for statement in schedule.workload.statements:
        times = [each for each in schedule.times[statement.name] if each.terms]
        if times and statement.name not in free:
            instances = prod(extents[dim] for dim in statement.dims)
            costs = [
                _iteration_cost(schedule.workload, statement, each) for each in _innermost(schedule.workload, times)
            ]
            total += instances * min(costs)
    return total


def _innermost(workload: Workload, times: Sequence[Affine]) -> tuple[Affine, Affine]:
    """Return the innermost loop of a statement, and the one that is left once short loops are written out."""
    written_out = 1
    for place in reversed(range(1, len(times))):
        written_out *= loop_extent(workload, times[place], times[:place])
        is_loop = times[place].is_linear and len(times[place].terms) == 1
        if not is_loop or written_out > TUNING.written_out_iterations:
            return times[-1], times[place]
    return times[-1], times[0]


def _iteration_cost(workload: Workload, statement: Statement, innermost: Affine) -> float:
    """Return the cost of one iteration of a loop over a dim."""
    dims = innermost.dims
    if len(dims) != 1:
        return 0.0
    steps = [step_of(workload, access, dims[0]) for access in statement.reads]
    cost = sum(TUNING.strided_read for step in steps if step is None or abs(step) > 1)
    step = step_of(workload, statement.target, dims[0])
    if step is None or abs(step) > 1:
        return cost + TUNING.strided_write
    kind = workload.tensor(statement.target.tensor).element_type or ""
    waits = step == 0 and statement.operator is not Operator.ASSIGN and kind.startswith("float")
    return cost + (TUNING.innermost_sum if waits else 0.0)


def step_of(workload: Workload, access: Access, dim: str) -> int | None:
    """Return how many elements an access moves on when a dim grows by 1, None where that differs."""
    tensor = workload.tensor(access.tensor)
    step, stride = 0, 1
    for index, size in zip(reversed(access.index), reversed(tensor.shape), strict=True):
        if dim in index.dims:
            if not index.is_linear:
                return None
            step += index.coefficients().get(dim, 0) * stride
        stride *= size
    return step
