"""A program and its schedule as isl sets and maps, as the printer of loops needs them: domains, accesses and times."""

from __future__ import annotations

import islpy as isl

from polymap.codegen.programs.body import dim_constants, instance, used_dims
from polymap.codegen.programs.storage import Storage
from polymap.codegen.source import Constant, Declaration, Reference, Region, SourceStatement
from polymap.ir import Access, Operator, Statement, Workload
from polymap.poly import function
from polymap.schedules import Schedule
from polymap.workload import domain_of


def region_of(workload: Workload, storage: Storage) -> Region:
    """Return the program's statements. Call it inside `with budget():`.

    Variables of which each iteration may have its own copy are `inside`.
    """
    statements = tuple(_statement(workload, storage, each) for each in workload.statements)
    inside = frozenset(storage.forms[tensor].parameter for tensor in storage.dropped if storage.is_on_stack(tensor))
    return Region(statements, (), frozenset(), inside, frozenset(), {}, {})


def times_of(schedule: Schedule) -> dict[str, isl.Map]:
    """Return { S[...] -> [times] } per statement, over its domain."""
    found: list[isl.Map] = []
    schedule.as_isl().foreach_map(found.append)
    return {str(each.get_tuple_name(isl.dim_type.in_)): each for each in found}


def _statement(workload: Workload, storage: Storage, each: Statement) -> SourceStatement:
    names = dim_constants(workload)
    domain = domain_of(workload, each)
    constants = tuple(Constant(names[dim], "long", each.dims.index(dim)) for dim in used_dims(workload, storage, each))
    reads = [_reference(storage, each, access, domain, is_target=False) for access in each.reads]
    target = _reference(storage, each, each.target, domain, is_target=True)
    return SourceStatement(
        each.name,
        each.dims,
        (1,) * len(each.dims),
        each.position,
        domain,
        constants,
        instance(workload, storage, each),
        (*reads, target),
        "",
        0,
    )


def _reference(storage: Storage, each: Statement, access: Access, domain: isl.Set, *, is_target: bool) -> Reference:
    """Return the elements that an access touches, in the array as the function declares it."""
    lost = storage.dropped.get(access.tensor, 0)
    name = storage.forms[access.tensor].parameter
    elements = function(each.name, each.dims, access.index[lost:], name).intersect_domain(domain)
    accumulates = is_target and each.operator is not Operator.ASSIGN
    declared = Declaration(0, lost) if lost and storage.is_on_stack(access.tensor) else None
    return Reference(name, elements, not is_target or accumulates, is_target, declared)
