"""Loop interchange for unit stride: the order of the text, with loops exchanged where the innermost one then steps
through memory element by element.

Every float is rounded as in the text: no sum changes its order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod

from polymap.codegen.lower import TUNING as LOWERING, Extreme, loop_extent, sums_of_several_loops
from polymap.codegen.source.order_tuning import TUNING
from polymap.ir import Access, Affine, Apply, BudgetError, Operator, Statement, Workload, subexpressions
from polymap.resources import cpu_seconds
from polymap.schedules import Loop, Schedule, TimeDim, schedule_violations
from polymap.workload.c import FLOATS, SPELLING

_EXTREMES = {Operator.MAX: ">", Operator.MIN: "<"}
_IN_VECTORS = frozenset(("+", "-", "*", "/", "neg", "fabs", "fabsf"))


def contiguous_order(
    workload: Workload, *, start: Schedule | None = None, kept: frozenset[str] = frozenset()
) -> Schedule:
    """Return the text's order (or `start`, a legal one), pairs of loops exchanged (and distributed first) as long as
    that is legal and fewer accesses of innermost loops are strided. What takes too long to decide stays as it is,
    and so do the loops of the statements `kept`."""
    best = (start or Schedule.original(workload, strict=True)).normal()
    until = cpu_seconds() + TUNING.exchange_cpu_s
    found = True
    while found:
        found = False
        for candidate in _better_schedules(best, kept):
            if is_legal(candidate, until):
                best, found = candidate, True
                break
    return replace(best, strict=False)


def is_legal(schedule: Schedule, until: float) -> bool:
    """Return whether a schedule keeps all dependences, sums of floats included; False where that takes too long. until:
    the CPU seconds of the process at which it does."""
    left = until - cpu_seconds()
    try:
        own = schedule.workload, schedule.times
        return left > 0 and not schedule_violations(*own, strict=True, seconds=max(0.1, left))
    except BudgetError:
        return False


def _better_schedules(schedule: Schedule, kept: frozenset[str]) -> list[Schedule]:
    """Return the schedules with one exchange more that cost less, the best first; none in which compilers may change
    the order of a sum."""
    workload, now = schedule.workload, cost_of(schedule)
    endangered = sums_of_several_loops(workload, schedule.times)
    priced = [(cost_of(each), number, each) for number, each in enumerate(_loop_exchanges(schedule, kept))]
    better = [each for cost, _, each in sorted(priced, key=lambda entry: entry[:2]) if cost < now]
    return [each for each in better if sums_of_several_loops(workload, each.times) <= endangered]


def _loop_exchanges(schedule: Schedule, kept: frozenset[str]) -> Iterator[Schedule]:
    """Yield the schedules with an innermost loop and one around it exchanged, then those with a loop moved into another
    one, in a nest of their own."""
    loops = schedule.loops()
    pairs: list[tuple[Loop, Loop]] = []
    for inner in loops:
        own = set(inner.statements)
        around = [each for each in loops if each.position < inner.position and own <= set(each.statements)]
        pairs += [(outer, inner) for outer in around if not own & kept]
    for outer, inner in pairs:
        own = set(inner.statements)
        if not any(own & set(each.statements) and each.position > inner.position for each in loops):
            yield _in_own_nest(schedule, outer, inner, moved=False)
    for outer, inner in pairs:
        yield _in_own_nest(schedule, outer, inner, moved=True)


def _in_own_nest(schedule: Schedule, outer: Loop, inner: Loop, *, moved: bool) -> Schedule:
    """Return the schedule with the statements of `inner` in loops of their own from `outer` on, the two exchanged, or
    `outer` moved into `inner`."""
    own, first, last = set(inner.statements), outer.position, inner.position
    begin = min(outer.statements.index(name) for name in own)
    changed: dict[str, list[TimeDim]] = {}
    for number, name in enumerate(outer.statements):
        places = list(schedule.scattering(name).places)
        if name in own and moved:
            places.insert(last, places.pop(first))
        elif name in own:
            places[first], places[last] = places[last], places[first]
        part = 1 if name in own else 0 if number < begin else 2
        changed[name] = [*places[:first], TimeDim(Affine((), part)), *places[first:]]
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
            ends = {len(times), _innermost(schedule.workload, statement, times)}
            total += instances * min(_iteration_cost(schedule.workload, statement, times[:each]) for each in ends)
    return total


def vector_loops(schedule: Schedule) -> Iterator[tuple[Loop, bool]]:
    """Yield the loops that compilers should put into vectors where their iterations are independent: all accesses step
    through memory one by one, and no loops but short ones are inside; and whether such are."""
    workload, extents = schedule.workload, schedule.workload.extents()
    own = {each.name: each for each in workload.statements}
    for loop in schedule.loops():
        is_window = False
        for name in loop.statements:
            places = [place for place, entry in enumerate(schedule.times[name]) if entry.terms]
            times = [schedule.times[name][place] for place in places]
            if loop.position not in places:  # it runs once there, such as before the first tile
                break
            end = places.index(loop.position) + 1
            dims = times[end - 1].dims
            is_plain = len(dims) == 1 and times[end - 1].is_linear and extents[dims[0]] >= TUNING.written_out_terms
            is_inside = _innermost(workload, own[name], times) <= end
            if (
                not (is_plain and is_inside)
                or _stays(workload, own[name], dims[0])
                or _iteration_cost(workload, own[name], times[:end])
            ):
                break
            is_window |= end < len(places)
        else:
            yield loop, is_window


def written_out_sums(schedule: Schedule) -> Iterator[tuple[Loop, int]]:
    """Yield the innermost loops of sums of floats that gcc writes out only if it is told, and how many terms they have:
    more than its limit, and all reads step through memory one by one along the loop around, which then is in vectors.
    """
    workload, extents = schedule.workload, schedule.workload.extents()
    own = {each.name: each for each in workload.statements}
    for loop in schedule.loops():
        statement = own[loop.statements[0]]
        around = [each for each in schedule.loops() if statement.name in each.statements]
        dims = [dim_of(schedule, statement, each) for each in around[-2:]]
        is_sum = loop.statements == (statement.name,) and loop == around[-1] and len(around) > 1 and all(dims)
        if not is_sum or any(dims[1] in each.dims for each in statement.constraints):
            continue
        is_long = TUNING.written_out_terms < extents[dims[1]] <= TUNING.written_out_iterations
        kind = workload.tensor(statement.target.tensor).element_type or ""
        steps = [step_of(workload, each, dims[0]) for each in statement.reads]
        is_float = statement.operator is not Operator.ASSIGN and kind.startswith("float")
        if is_long and is_float and extents[dims[0]] >= TUNING.written_out_terms and {1} <= set(steps) <= {0, 1}:
            yield loop, extents[dims[1]]


def extreme_loops(schedule: Schedule) -> Iterator[Extreme]:
    """Yield the innermost loops that find one maximum or minimum of many floats, whose reads step through memory one by
    one or stay."""
    workload, extents = schedule.workload, schedule.workload.extents()
    own = {each.name: each for each in workload.statements}
    for loop in schedule.loops():
        each = own[loop.statements[0]]
        dim = dim_of(schedule, each, loop)
        kind = workload.tensor(each.target.tensor).element_type or ""
        is_last = not any(
            each.name in other.statements and other.position > loop.position for other in schedule.loops()
        )
        if not (kind in FLOATS and dim and is_last and each.operator in _EXTREMES and len(loop.statements) == 1):
            continue
        steps = {step_of(workload, access, dim) for access in each.reads}
        is_alone = step_of(workload, each.target, dim) == 0 and each.target.tensor not in {a.tensor for a in each.reads}
        applied = {one.operation for one in subexpressions(each.expression) if isinstance(one, Apply)}
        if (
            is_alone
            and {1} <= steps <= {0, 1}
            and applied <= _IN_VECTORS
            and extents[dim] >= LOWERING.extreme_iterations
        ):
            ignores_nan = each.comparison.endswith("?v:t")  # NaN compares false
            equal = each.comparison.partition("?")[2][:: 1 if "=" in each.comparison else -1][:1]
            zero = {"v": "last", "t": "first", "": ""}[equal]
            yield Extreme(loop.position, each.name, SPELLING[kind], _EXTREMES[each.operator], ignores_nan, zero)


def _stays(workload: Workload, statement: Statement, dim: str) -> bool:
    """Return whether a statement reads an element of an array again in each iteration of a loop: compilers that test
    whether arrays are apart take it out of the loop, others do not."""
    return any(workload.tensor(each.tensor).shape and not step_of(workload, each, dim) for each in statement.reads)


def _innermost(workload: Workload, statement: Statement, times: Sequence[Affine]) -> int:
    """Return how many loops of a statement are left once short ones are written out."""
    written_out = 1
    for place in reversed(range(1, len(times))):
        written_out *= loop_extent(workload, times[place], times[:place])
        is_loop = times[place].is_linear and len(times[place].terms) == 1
        is_constant = not any(set(times[place].dims) & set(each.dims) for each in statement.constraints)
        if not (is_loop and is_constant) or written_out > TUNING.written_out_iterations:
            return place + 1
    return 1


def _iteration_cost(workload: Workload, statement: Statement, times: Sequence[Affine]) -> float:
    """Return the cost of one iteration of the last of these loops, the innermost one."""
    dims = times[-1].dims
    if len(dims) != 1:
        return 0.0
    steps = [step_of(workload, access, dims[0]) for access in statement.reads]
    cost = sum(TUNING.strided_read for step in steps if step is None or abs(step) > 1)
    step = step_of(workload, statement.target, dims[0])
    if step is None or abs(step) > 1:
        return cost + TUNING.strided_write
    kind = workload.tensor(statement.target.tensor).element_type or ""
    is_sum = statement.operator is not Operator.ASSIGN and kind.startswith("float")
    return cost + (TUNING.innermost_sum * _wait(workload, statement, times) if is_sum else 0.0)


def _wait(workload: Workload, statement: Statement, times: Sequence[Affine]) -> float:
    """Return which part of the latency of an addition is waited for: all where the innermost loop adds to one element,
    less the more elements lie between two additions to one. Processors overlap sums of few terms."""
    extents, elements = workload.extents(), 1
    terms = prod(extents[dim] for dim in statement.dims if step_of(workload, statement.target, dim) == 0)
    for place in reversed(range(len(times))):
        dims = times[place].dims
        if len(dims) == 1 and step_of(workload, statement.target, dims[0]) == 0:
            is_overlapped = elements > 1 and terms <= TUNING.written_out_iterations
            return 0.0 if is_overlapped else 1 - (elements - 1) / TUNING.sum_elements
        elements *= loop_extent(workload, times[place], times[:place])
        if elements >= TUNING.sum_elements:
            return 0.0
    return 0.0


def dim_of(schedule: Schedule, statement: Statement, loop: Loop) -> str:
    """Return the dim that a loop runs over one by one, "" where it does not."""
    time = schedule.times[statement.name][loop.position]
    return next((dim for dim in time.dims if time == Affine(((1, dim),))), "")


def writes_interleaved(schedule: Schedule) -> bool:
    """Return whether every statement sets every second, third or fourth element in its innermost loop that compilers do
    not write out, as in `y[2 * i] = x[i]`, and adds to none."""
    workload, extents = schedule.workload, schedule.workload.extents()
    for each in workload.statements:
        loops = [one for one in schedule.loops() if each.name in one.statements]
        dims = [dim_of(schedule, each, one) for one in loops]
        long = [dim for dim in dims if not dim or extents[dim] > TUNING.written_out_terms]
        step = step_of(workload, each.target, long[-1]) if long and long[-1] else None
        if each.operator is not Operator.ASSIGN or step is None or not 1 < abs(step) <= TUNING.most_interleaved:
            return False
    return True


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
