"""The loops that run instances in the order of their times: isl's loop structure as plain data, expressions as C text.

Matrices have one constraint per row: 0 for an equality or 1 for `>= 0`, the factors of output dims, input dims, local
dims and parameters, and the constant. Parameters are called p0, p1, ..., the counters of loops c0, c1, ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import islpy as isl

from polymap.ir import Mistake, SolverError
from polymap.poly.budgets import CONTEXT, check_clock
from polymap.poly.sets import value

_IN, _OUT, _SET, _PARAM = isl.dim_type.in_, isl.dim_type.out, isl.dim_type.set, isl.dim_type.param
_COLUMNS = (_OUT, _IN, isl.dim_type.div, _PARAM, isl.dim_type.cst)


class Loop(NamedTuple):
    """`for (counter = start; condition; counter += step)`. place: of its time, 0 the outermost."""

    place: int
    start: str
    condition: str
    step: str
    body: tuple[Node, ...]


class Guard(NamedTuple):
    """Nodes under a condition, and others where it does not hold."""

    condition: str
    then: tuple[Node, ...]
    other: tuple[Node, ...]


class Instance(NamedTuple):
    """An instance of a statement. arguments: the values of its dims."""

    name: str
    arguments: tuple[str, ...]


Node = Loop | Guard | Instance


def relation_of(parts: Sequence[Sequence[Sequence[int]]], outputs: int, inputs: int, parameters: int) -> isl.Map:
    """Return { inputs -> outputs } of a union of matrices; the columns that are left are local dims."""
    space = isl.Space.alloc(CONTEXT, parameters, inputs, outputs)
    for place in range(parameters):
        space = space.set_dim_name(_PARAM, place, f"p{place}")
    found = isl.Map.empty(space)
    for rows in parts:
        width = len(rows[0]) - 1 if rows else outputs + inputs + parameters + 1
        equal, least = (_matrix([row[1:] for row in rows if row[0] == kind], width) for kind in (0, 1))
        part: isl.BasicMap = isl.BasicMap.from_constraint_matrices(space, equal, least, *_COLUMNS)
        found = found.union(isl.Map.from_basic_map(part))
    return found


def _matrix(rows: Sequence[Sequence[int]], width: int) -> isl.Mat:
    matrix = isl.Mat.alloc(CONTEXT, len(rows), width)
    for at, row in enumerate(rows):
        for column, number in enumerate(row):
            matrix = matrix.set_element_val(at, column, value(number))
    return matrix


def missing_bound(points: isl.Set) -> tuple[int, str] | None:
    """Return (dim, "lower" or "upper") of a bound that a part of a set has not; None where it has all."""
    count = points.dim(_SET)
    for place in range(count):
        rest = points.project_out(_SET, place + 1, count - place - 1)
        alone = rest.project_out(_SET, 0, place).remove_divs()
        for side, has_bound in (("lower", alone.dim_has_lower_bound), ("upper", alone.dim_has_upper_bound)):
            if not has_bound(_SET, 0):
                return place, side
    return None


def is_output(relation: isl.Map, dim: int, place: int) -> bool:
    """Return whether one output of a relation is one of its inputs."""
    return relation.is_subset(relation.equate(_IN, dim, _OUT, place))


def loops_in_order(times: Sequence[tuple[str, isl.Map]]) -> tuple[Node, ...]:
    """Return the loops that run statements at their times, shorter ones extended by zeros, in each of which a statement
    stands once; at one time they run in the order in which they are given."""
    length = max((each.dim(_OUT) for _, each in times), default=0) + 1
    context = isl.Set.universe(isl.Space.params_alloc(CONTEXT, 0))
    whole, iterators = isl.UnionMap.empty(context.get_space()), isl.IdList.alloc(CONTEXT, length)
    for number, (name, each) in enumerate(times):
        own = each.dim(_OUT)
        padded = each.add_dims(_OUT, length - own)
        for place in range(own, length):
            padded = padded.fix_val(_OUT, place, value(number if place == length - 1 else 0))
        whole = whole.union(padded.set_tuple_name(_IN, name).to_union_map())
    for place in range(length):
        iterators = iterators.add(isl.Id(f"c{place}", None, CONTEXT))
    atomic = isl.Map.universe(isl.Space.alloc(CONTEXT, 0, length, 1).set_tuple_name(_OUT, "atomic"))
    build = isl.AstBuild.from_context(context).set_options(atomic.to_union_map()).set_iterators(iterators)
    return _nodes(build.node_from_schedule_map(whole))


def _nodes(node: isl.AstNode) -> tuple[Node, ...]:
    check_clock()
    match str(node.get_type()).rpartition(".")[2]:
        case "block":
            children = node.block_get_children()
            return tuple(each for at in range(children.n_ast_node()) for each in _nodes(children.get_at(at)))
        case "for_":
            place = int(str(node.for_get_iterator().get_id().get_name())[1:])
            start, body = node.for_get_init().to_C_str(), _nodes(node.for_get_body())
            if node.for_is_degenerate():
                return (Loop(place, start, f"c{place} <= {start}", "1", body),)
            return (Loop(place, start, node.for_get_cond().to_C_str(), node.for_get_inc().to_C_str(), body),)
        case "if_":
            other = _nodes(node.if_get_else_node()) if node.if_has_else_node() else ()
            return (Guard(node.if_get_cond().to_C_str(), _nodes(node.if_get_then_node()), other),)
        case "user":
            call = node.user_get_expr()
            name, *values = (call.get_op_arg(at).to_C_str() for at in range(call.get_op_n_arg()))
            return (Instance(name, tuple(values)),)
        case kind:
            raise SolverError(Mistake("PM511", f"isl gave a node of kind {kind}", "Please report this as a bug."))
