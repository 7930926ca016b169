"""Which instances isl's loops run, read off the loops alone: a check of isl's code generator, which was seen to lose
iterations (islpy 2026.2.2: a loop of stride 2 over tiles of 3 became one iteration).

The instances of all calls of a statement must be those of its domain, each of them in one call. Mostly every loop
counter is the time at its place, so that an instance runs at its own time; where isl joins loops of a stride, the order
in which all instances run is compared with that of their times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import islpy as isl

from polymap.codegen.source.dependences import Times
from polymap.codegen.source.region import Region
from polymap.codegen.source.values import constant, parameter, variable
from polymap.ir import BudgetError, Mistake, SolverError
from polymap.poly import CONTEXT, budget

OPERATIONS = 500_000  # of isl, for the loops at some sizes
SIZES = (3, 7, 67)  # of the first parameter, at which loops are checked; isl answers for all instances at once
_SET, _OUT, _PARAM = isl.dim_type.set, isl.dim_type.out, isl.dim_type.param
_Path = tuple[tuple[str, int], ...]
Points = TypeVar("Points", isl.Set, isl.Map)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a statement: [counters] -> its instance, and where it stands.

    path: the loops around it (their places) and the numbers of the blocks' parts that it stands in, outermost first.
    """

    statement: str
    instances: isl.Map
    path: _Path

    @property
    def places(self) -> frozenset[int]:
        """The places of the loops around it."""
        return frozenset(number for kind, number in self.path if kind == "loop")


def lost_statement(
    node: isl.AstNode, region: Region, times: Times, prefix: str, sizes: Mapping[str, int], operations: int = OPERATIONS
) -> str:
    """Return the name of a statement of which the loops do not run every instance once at its time; "" for none found.

    prefix: of the counters' names. sizes: values of parameters that are looked at, all values of the others. Statements
    that isl does not reach in so many operations are left out.
    """
    length = max(each.dim(_OUT) for each in times.values())
    reader = _Reader(length, {f"{prefix}{place}": place for place in range(length)}, sizes)
    calls: dict[str, list[_Call]] = {each.name: [] for each in region.statements}
    with suppress(BudgetError), budget(operations, what="the instances of loops"):
        for call in reader.calls(node, isl.Set.universe(isl.Space.set_alloc(CONTEXT, 0, length)), ()):
            calls[call.statement].append(call)
        timed = {each.name: _at(times[each.name].intersect_domain(each.domain), sizes) for each in region.statements}
        late = ""
        for each in region.statements:
            own = calls[each.name]
            if not _is_covered(_at(each.domain, sizes), own):
                return each.name
            if not late and not all(_is_at_its_time(timed[each.name], call) for call in own):
                late = each.name
        if late and not _keeps_order([call for own in calls.values() for call in own], timed):
            return late
    return ""


def check_instances(node: isl.AstNode, region: Region, times: Times, prefix: str, operations: int = OPERATIONS) -> None:
    """Raise SolverError where isl's loops are found not to run every instance once, at some small and large sizes."""
    for least in SIZES if region.parameters else SIZES[:1]:
        sizes = {name: least + 2 * number for number, name in enumerate(region.parameters)}
        lost = lost_statement(node, region, times, prefix, sizes, operations)
        if lost:
            at = ", ".join(f"{name}={size}" for name, size in sizes.items())
            what = f"isl's loops for this order do not run every instance of {lost} once{at and f' (at {at})'}"
            raise SolverError(Mistake("PM511", what, "Another order, or other tiles, would help: --tile 1."))


def _at(whole: Points, sizes: Mapping[str, int]) -> Points:
    """Return what is left of a set or a relation at these sizes."""
    for name, size in sizes.items():
        place = whole.find_dim_by_name(_PARAM, name)
        if place >= 0:
            whole = whole.fix_val(_PARAM, place, isl.Val(size, CONTEXT)).project_out(_PARAM, place, 1)
    return whole


def _is_covered(domain: isl.Set, calls: list[_Call]) -> bool:
    """Return whether calls run every instance, no two of them the same one."""
    done: isl.Set | None = None
    for call in calls:
        instances = call.instances.range()
        if done is not None and not done.is_disjoint(instances):
            return False
        done = instances if done is None else done.union(instances)
    return domain.is_empty() if done is None else done.is_equal(domain)


def _is_at_its_time(times: isl.Map, call: _Call) -> bool:
    """Return whether the counters of the loops around a call are the times of its instances."""
    for place in range(times.dim(_OUT)):
        if place not in call.places:
            times = times.eliminate(_OUT, place, 1)
    return call.instances.is_subset(times.reverse())


def _keeps_order(calls: Sequence[_Call], times: Times) -> bool:
    """Return whether loops run every instance once and in the order of the times, whatever their counters are.

    isl joins loops of a stride: one iteration may run the instances of several times.
    """
    counted: list[isl.Map] = []
    for call in calls:
        instances = call.instances
        for place in range(instances.dim(isl.dim_type.in_)):
            if place not in call.places:
                instances = instances.fix_val(isl.dim_type.in_, place, isl.Val.zero(CONTEXT))
        if not instances.is_injective():
            return False
        counted.append(instances)
    for one, first in zip(calls, counted, strict=True):
        for other, second in zip(calls, counted, strict=True):
            wrong = times[one.statement].lex_gt_map(times[other.statement])
            for order in _before(one.path, other.path, first.dim(isl.dim_type.in_)):
                if not first.reverse().apply_range(order).apply_range(second).intersect(wrong).is_empty():
                    return False
    return True


def _before(one: _Path, other: _Path, length: int) -> Iterator[isl.Map]:
    """Yield { counters of a call -> counters of another that runs later }."""
    space = isl.Space.set_alloc(CONTEXT, 0, length).map_from_set()
    equal = isl.Map.universe(space)
    for (kind, here), (_, there) in zip(one, other, strict=False):
        if kind == "loop":
            yield equal.order_lt(isl.dim_type.in_, here, _OUT, here)
            equal = equal.equate(isl.dim_type.in_, here, _OUT, here)
        elif here != there:
            if here < there:
                yield equal
            return


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads isl's loops back. counters: name -> place among `length`."""

    length: int
    counters: Mapping[str, int]
    sizes: Mapping[str, int]

    def calls(self, node: isl.AstNode, domain: isl.Set, path: _Path) -> Iterator[_Call]:
        """Yield the calls below a node that is reached for the counters in `domain`."""
        match _word(node.get_type()):
            case "block":
                children = node.block_get_children()
                for number in range(children.n_ast_node()):
                    yield from self.calls(children.get_at(number), domain, (*path, ("part", number)))
            case "if_":
                holds = self.condition(node.if_get_cond())
                yield from self.calls(node.if_get_then_node(), domain.intersect(holds), (*path, ("part", 0)))
                if node.if_has_else_node():
                    yield from self.calls(node.if_get_else_node(), domain.subtract(holds), (*path, ("part", 1)))
            case "for_":
                yield from self._loop(node, domain, path)
            case _:
                yield self._call(node.user_get_expr(), domain, path)

    def _loop(self, node: isl.AstNode, domain: isl.Set, path: _Path) -> Iterator[_Call]:
        place = self.counters[str(node.for_get_iterator().get_id().get_name())]
        counter, start = variable(place, self.length), self.value(node.for_get_init())
        if node.for_is_degenerate():
            inside = counter.eq_set(start)
        else:
            inside = counter.ge_set(start).intersect(self.condition(node.for_get_cond()))
            step = node.for_get_inc().get_val()
            if not step.is_one():
                inside = inside.intersect(counter.sub(start).mod_val(step).eq_set(constant(0, self.length)))
        yield from self.calls(node.for_get_body(), domain.intersect(inside), (*path, ("loop", place)))

    def _call(self, expression: isl.AstExpr, domain: isl.Set, path: _Path) -> _Call:
        arguments = [expression.get_op_arg(place) for place in range(expression.get_op_n_arg())]
        name = str(arguments[0].get_id().get_name())
        found = isl.Map.from_domain(domain)
        for each in arguments[1:]:
            found = found.flat_range_product(isl.Map.from_pw_aff(self.value(each)))
        return _Call(name, found.intersect_domain(domain).set_tuple_name(_OUT, name), path)

    def condition(self, expression: isl.AstExpr) -> isl.Set:
        """Return the counters for which a condition holds."""
        operation = _operation(expression)
        if operation in ("and_", "and_then", "or_", "or_else"):
            one, two = (self.condition(expression.get_op_arg(place)) for place in (0, 1))
            return one.intersect(two) if operation.startswith("and") else one.union(two)
        if operation not in ("eq", "le", "lt", "ge", "gt"):
            return self.value(expression).non_zero_set()
        left, right = (self.value(expression.get_op_arg(place)) for place in (0, 1))
        match operation:
            case "eq":
                return left.eq_set(right)
            case "le":
                return left.le_set(right)
            case "lt":
                return left.lt_set(right)
            case "ge":
                return left.ge_set(right)
            case _:
                return left.gt_set(right)

    def value(self, expression: isl.AstExpr) -> isl.PwAff:
        """Return an expression as a function of the counters."""
        match _word(expression.get_type()):
            case "int":
                return constant(int(expression.get_val().to_str()), self.length)
            case "id":
                name = str(expression.get_id().get_name())
                if name in self.counters:
                    return variable(self.counters[name], self.length)
                if name in self.sizes:
                    return constant(self.sizes[name], self.length)
                return parameter(name, self.length)
            case _:
                return self._computed(expression, _operation(expression))

    def _computed(self, expression: isl.AstExpr, operation: str) -> isl.PwAff:
        if operation in ("cond", "select"):
            holds = self.condition(expression.get_op_arg(0))
            then, other = (self.value(expression.get_op_arg(place)) for place in (1, 2))
            return then.intersect_domain(holds).union_add(other.intersect_domain(holds.complement()))
        if operation in ("eq", "le", "lt", "ge", "gt", "and_", "and_then", "or_", "or_else"):
            return self.condition(expression).indicator_function()
        first, *rest = (self.value(expression.get_op_arg(place)) for place in range(expression.get_op_n_arg()))
        if operation == "minus":
            return first.neg()
        for each in rest:
            first = _applied(operation, first, each)
        return first


def _applied(operation: str, left: isl.PwAff, right: isl.PwAff) -> isl.PwAff:
    match operation:
        case "add":
            return left.add(right)
        case "sub":
            return left.sub(right)
        case "mul":
            return left.mul(right)
        case "max":
            return left.max(right)
        case "min":
            return left.min(right)
        case "fdiv_q":
            return left.div(right).floor()
        case "div" | "pdiv_q":
            return left.tdiv_q(right)
        case "pdiv_r" | "zdiv_r":
            return left.tdiv_r(right)
        case _:
            raise SolverError(Mistake("PM511", f"isl gave an operation {operation}", "Please report this as a bug."))


def _operation(expression: isl.AstExpr) -> str:
    """Return the operation of an expression, "" for a name or a number."""
    return _word(expression.get_op_type()) if _word(expression.get_type()) == "op" else ""


def _word(kind: object) -> str:
    """Return the name of a member of one of isl's enumerations."""
    return str(kind).rpartition(".")[2]
