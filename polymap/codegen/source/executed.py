"""The instances that isl's loops run, computed from the loops alone.

This checks isl's code generator, which was observed to lose iterations (islpy 2026.2.2: a loop of stride 2 over tiles
of 3 became one iteration). The instances of all calls of a statement must be those of its domain, each in one call.
Every loop counter is the time at its position, so that an instance runs at its own time. Where times have strides, isl
also counts in strides, or merges times between two steps into one iteration: then the order of all calls is compared
with the order of the times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TypeVar

import islpy as isl

from polymap.codegen.source.dependences import Times
from polymap.codegen.source.region import Region
from polymap.codegen.source.tuning import TUNING
from polymap.ir import BudgetError, Mistake, SolverError
from polymap.poly import CONTEXT, budget

_SET, _OUT, _PARAM = isl.dim_type.set, isl.dim_type.out, isl.dim_type.param
Points = TypeVar("Points", isl.Set, isl.Map)
_COMPARISONS: Mapping[str, Callable[[isl.PwAff, isl.PwAff], isl.Set]] = {
    "eq": isl.PwAff.eq_set,
    "le": isl.PwAff.le_set,
    "lt": isl.PwAff.lt_set,
    "ge": isl.PwAff.ge_set,
    "gt": isl.PwAff.gt_set,
}
_RESULTS: Mapping[str, Callable[[isl.PwAff, isl.PwAff], isl.PwAff]] = {
    "add": isl.PwAff.add,
    "sub": isl.PwAff.sub,
    "mul": isl.PwAff.mul,
    "max": isl.PwAff.max,
    "min": isl.PwAff.min,
    "fdiv_q": lambda one, other: one.div(other).floor(),
    "div": isl.PwAff.tdiv_q,
    "pdiv_q": isl.PwAff.tdiv_q,
    "pdiv_r": isl.PwAff.tdiv_r,
    "zdiv_r": isl.PwAff.tdiv_r,
}


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop around a call. place: the position of its counter in the times. number: its identity."""

    place: int
    number: int


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a statement. instances: { [counters] -> its instance }. around: the loops and the positions in
    sequences."""

    statement: str
    instances: isl.Map
    around: tuple[_Loop | int, ...]

    @property
    def loops(self) -> tuple[_Loop, ...]:
        return tuple(each for each in self.around if isinstance(each, _Loop))


def lost_statement(
    node: isl.AstNode,
    region: Region,
    times: Times,
    prefix: str,
    sizes: Mapping[str, int],
    operations: int = TUNING.checked_operations,
) -> str:
    """Return the name of a statement of which the loops do not run every instance once at its time; "" if none is
    found.

    prefix: of the counters' names. sizes: values of parameters; of the others all values are checked. Statements that
    isl cannot check within so many operations are left out.
    """
    length = max(each.dim(_OUT) for each in times.values())
    reader = _Reader(length, {f"{prefix}{place}": place for place in range(length)}, sizes)
    calls: dict[str, list[_Call]] = {each.name: [] for each in region.statements}
    with suppress(BudgetError), budget(operations, what="the instances of loops"):
        for call in reader.calls(node, isl.Set.universe(isl.Space.set_alloc(CONTEXT, 0, length)), ()):
            calls[call.statement].append(call)
        own: dict[str, isl.Map] = {}
        for each in region.statements:
            own[each.name] = _at_sizes(times[each.name].intersect_domain(each.domain), sizes)
            if not _runs_each_once(_at_sizes(each.domain, sizes), calls[each.name]):
                return each.name
        return _misordered_statement([call for listed in calls.values() for call in listed], own, length)
    return ""


def check_instances(
    node: isl.AstNode, region: Region, times: Times, prefix: str, operations: int = TUNING.checked_operations
) -> None:
    """Raise SolverError where isl's loops do not run every instance once, for some small and large sizes."""
    more = (TUNING.checked_tiled_size,) if region.stands_for else ()
    for least in (*TUNING.checked_sizes, *more) if region.parameters else TUNING.checked_sizes[:1]:
        sizes = {name: least + 2 * number for number, name in enumerate(region.parameters)}
        lost = lost_statement(node, region, times, prefix, sizes, operations)
        if lost:
            at = ", ".join(f"{name}={size}" for name, size in sizes.items())
            what = f"isl's loops for this order do not run every instance of {lost} once{at and f' (at {at})'}"
            raise SolverError(Mistake("PM511", what, "Another order, or other tiles, would help: --tile 1."))


def _at_sizes(whole: Points, sizes: Mapping[str, int]) -> Points:
    """Return a set or a relation with its parameters fixed to these sizes."""
    for name, size in sizes.items():
        place = whole.find_dim_by_name(_PARAM, name)
        if place >= 0:
            whole = whole.fix_val(_PARAM, place, isl.Val(size, CONTEXT)).project_out(_PARAM, place, 1)
    return whole


def _runs_each_once(domain: isl.Set, calls: Sequence[_Call]) -> bool:
    """Return whether the calls run every instance once."""
    done: isl.Set | None = None
    for call in calls:
        instances = call.instances.range()
        if done is not None and not done.is_disjoint(instances):
            return False
        done = instances if done is None else done.union(instances)
    return domain.is_empty() if done is None else done.is_equal(domain)


def _misordered_statement(calls: Sequence[_Call], times: Times, length: int) -> str:
    """Return the statement of a call whose instances do not run in the order of their times; "" for none."""
    for one in (each for each in calls if not _is_punctual(each, times[each.statement])):
        for other in calls:
            if not _in_order(one, other, times, length) or not _in_step(one, other, times, length):
                return one.statement
    return ""


def _is_punctual(call: _Call, times: isl.Map) -> bool:
    """Return whether the call's counters equal its times."""
    places = {each.place for each in call.loops}
    for place in range(times.dim(_OUT)):
        if place not in places:
            times = times.eliminate(_OUT, place, 1)
    return call.instances.is_subset(times.reverse())


def _in_order(one: _Call, other: _Call, times: Times, length: int) -> bool:
    """Return whether the instances of two calls run in the order of their times."""
    size = max(len(one.around), len(other.around))
    first, second = (_sequence_position(each, size, length) for each in (one, other))
    mine, others = times[one.statement], times[other.statement]
    before = mine.lex_lt_map(others).intersect(first.lex_ge_map(second))
    after = mine.lex_gt_map(others).intersect(first.lex_le_map(second))
    return before.is_empty() and after.is_empty()


def _in_step(one: _Call, other: _Call, times: Times, length: int) -> bool:
    """Return whether each iteration of the loops that two calls share has one time, as it has where counters equal
    times.

    A parallel loop relies on that.
    """
    mine, others = times[one.statement], times[other.statement]
    for number, (each, its) in enumerate(zip(one.around, other.around, strict=False)):
        if each != its:
            break
        if isinstance(each, _Loop):
            outside, inside = (
                _equal_points(*(_sequence_position(call, size, length) for call in (one, other)))
                for size in (number, number + 1)
            )
            before, together = (
                _equal_points(_first_places(mine, size), _first_places(others, size))
                for size in (each.place, each.place + 1)
            )
            if not outside.is_subset(before) or not outside.intersect(together).is_subset(inside):
                return False
    return True


def _equal_points(one: isl.Map, other: isl.Map) -> isl.Map:
    """Return { x -> y : one(x) = other(y) }."""
    return one.apply_range(other.reverse())


def _first_places(times: isl.Map, size: int) -> isl.Map:
    return times.project_out(_OUT, size, times.dim(_OUT) - size)


def _sequence_position(call: _Call, size: int, length: int) -> isl.Map:
    """Return { instance -> the first `size` positions in sequences and counters around it, then zeros }."""
    found = isl.Map.from_domain(call.instances.domain())
    for each in (*call.around, *(0,) * (size - len(call.around)))[:size]:
        entry = _variable(each.place, length) if isinstance(each, _Loop) else _constant(each, length)
        found = found.flat_range_product(isl.Map.from_pw_aff(entry))
    return call.instances.reverse().apply_range(found)


def _constant(number: int, depth: int) -> isl.PwAff:
    """Return a number as a constant function of `depth` loop variables."""
    local = isl.LocalSpace.from_space(isl.Space.set_alloc(CONTEXT, 0, depth))
    return isl.PwAff.from_aff(isl.Aff.val_on_domain(local, isl.Val(str(number), CONTEXT)))


def _variable(position: int, depth: int) -> isl.PwAff:
    """Return the loop variable at a position as a function."""
    local = isl.LocalSpace.from_space(isl.Space.set_alloc(CONTEXT, 0, depth))
    return isl.PwAff.from_aff(isl.Aff.var_on_domain(local, _SET, position))


def _parameter(name: str, depth: int) -> isl.PwAff:
    """Return a parameter as a function."""
    space = isl.Space.set_alloc(CONTEXT, 1, depth).set_dim_name(_PARAM, 0, name)
    return isl.PwAff.from_aff(isl.Aff.var_on_domain(isl.LocalSpace.from_space(space), _PARAM, 0))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads isl's loops back as calls. counters: name -> its position among `length`. numbers: identities of loops."""

    length: int
    counters: Mapping[str, int]
    sizes: Mapping[str, int]
    numbers: Iterator[int] = field(default_factory=count)

    def calls(self, node: isl.AstNode, domain: isl.Set, around: tuple[_Loop | int, ...]) -> Iterator[_Call]:
        """Yield the calls below a node that runs for the counters in `domain`."""
        match _word(node.get_type()):
            case "block":
                children = node.block_get_children()
                for number in range(children.n_ast_node()):
                    yield from self.calls(children.get_at(number), domain, (*around, number))
            case "if_":
                holds = self.condition(node.if_get_cond())
                yield from self.calls(node.if_get_then_node(), domain.intersect(holds), around)
                if node.if_has_else_node():
                    yield from self.calls(node.if_get_else_node(), domain.subtract(holds), around)
            case "for_":
                yield from self._loop(node, domain, around)
            case _:
                yield self._call(node.user_get_expr(), domain, around)

    def _loop(self, node: isl.AstNode, domain: isl.Set, around: tuple[_Loop | int, ...]) -> Iterator[_Call]:
        place = self.counters[str(node.for_get_iterator().get_id().get_name())]
        counter, start = _variable(place, self.length), self.value(node.for_get_init())
        if node.for_is_degenerate():
            inside = counter.eq_set(start)
        else:
            inside = counter.ge_set(start).intersect(self.condition(node.for_get_cond()))
            step = node.for_get_inc().get_val()
            if not step.is_one():
                inside = inside.intersect(counter.sub(start).mod_val(step).eq_set(_constant(0, self.length)))
        loop = _Loop(place, next(self.numbers))
        yield from self.calls(node.for_get_body(), domain.intersect(inside), (*around, loop))

    def _call(self, expression: isl.AstExpr, domain: isl.Set, around: tuple[_Loop | int, ...]) -> _Call:
        arguments = [expression.get_op_arg(place) for place in range(expression.get_op_n_arg())]
        name = str(arguments[0].get_id().get_name())
        found = isl.Map.from_domain(domain)
        for each in arguments[1:]:
            found = found.flat_range_product(isl.Map.from_pw_aff(self.value(each)))
        return _Call(name, found.intersect_domain(domain).set_tuple_name(_OUT, name), around)

    def condition(self, expression: isl.AstExpr) -> isl.Set:
        """Return the counters for which a condition holds."""
        operation = _operation(expression)
        if operation in ("and_", "and_then", "or_", "or_else"):
            one, two = (self.condition(expression.get_op_arg(place)) for place in (0, 1))
            return one.intersect(two) if operation.startswith("and") else one.union(two)
        if operation not in _COMPARISONS:
            return self.value(expression).non_zero_set()
        left, right = (self.value(expression.get_op_arg(place)) for place in (0, 1))
        return _COMPARISONS[operation](left, right)

    def value(self, expression: isl.AstExpr) -> isl.PwAff:
        """Return an expression as a function of the counters."""
        match _word(expression.get_type()):
            case "int":
                return _constant(int(expression.get_val().to_str()), self.length)
            case "id":
                name = str(expression.get_id().get_name())
                if name in self.counters:
                    return _variable(self.counters[name], self.length)
                if name in self.sizes:
                    return _constant(self.sizes[name], self.length)
                return _parameter(name, self.length)
            case _:
                return self._value_of_operation(expression, _operation(expression))

    def _value_of_operation(self, expression: isl.AstExpr, operation: str) -> isl.PwAff:
        if operation in ("cond", "select"):
            holds = self.condition(expression.get_op_arg(0))
            then, other = (self.value(expression.get_op_arg(place)) for place in (1, 2))
            return then.intersect_domain(holds).union_add(other.intersect_domain(holds.complement()))
        if operation in (*_COMPARISONS, "and_", "and_then", "or_", "or_else"):
            return self.condition(expression).indicator_function()
        first, *rest = (self.value(expression.get_op_arg(place)) for place in range(expression.get_op_n_arg()))
        if operation == "minus":
            return first.neg()
        if rest and operation not in _RESULTS:
            raise SolverError(Mistake("PM511", f"isl gave an operation {operation}", "Please report this as a bug."))
        for each in rest:
            first = _RESULTS[operation](first, each)
        return first


def _operation(expression: isl.AstExpr) -> str:
    """Return the operation of an expression; "" for a name or a number."""
    return _word(expression.get_op_type()) if _word(expression.get_type()) == "op" else ""


def _word(kind: object) -> str:
    """Return the name of a member of an enumeration of isl."""
    return str(kind).rpartition(".")[2]
