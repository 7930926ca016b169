"""Which loops of different nests may not become one, and the two instances that forbid it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

from polymap.ir import Dim, InstancePoint, Workload, dim as variable
from polymap.poly import Map, budget, first_pair, function, same_value, sooner
from polymap.schedules.legality import instance_text, point
from polymap.workload import Dependence, dependence_relations


@dataclass(frozen=True, slots=True)
class ForbiddenFusion:
    """Loops of two nests that cannot be made one outermost loop without a shift: `later` would run before `earlier`,
    which it must follow because of an element of `tensor`."""

    first: str
    second: str
    tensor: str
    earlier: InstancePoint
    later: InstancePoint

    def __str__(self) -> str:
        must = f"{instance_text(self.later)} must come after {instance_text(self.earlier)}"
        return f"{self.first} with {self.second}: {must} (through {self.tensor})."


def forbidden_fusions(workload: Workload) -> tuple[ForbiddenFusion, ...]:
    """Return the pairs of loops of equal length, of statements in different outermost nests, that cannot be one loop:
    iterations of equal numbers meet. One dependence per pair; BudgetError if isl gives up."""
    dims = {each.name: each for each in workload.dims}
    nest_of = {each.name: each.position[0] for each in workload.statements}
    found: dict[tuple[str, str], ForbiddenFusion] = {}
    with budget(what="the fusion of loops"):
        for dependence, relation in dependence_relations(workload):
            if nest_of[dependence.source] == nest_of[dependence.sink]:
                continue
            pairs = product(*(workload.statement(name).dims for name in (dependence.source, dependence.sink)))
            for first, second in pairs:
                if (first, second) not in found and _may_meet(dims[first], dims[second]):
                    forbidden = _forbidden(workload, dependence, relation, first, second)
                    if forbidden is not None:
                        found[first, second] = forbidden
    return tuple(found.values())


def _may_meet(one: Dim, other: Dim) -> bool:
    return one.extent == other.extent and one.extent > 1


def _forbidden(
    workload: Workload, dependence: Dependence, relation: Map, first: str, second: str
) -> ForbiddenFusion | None:
    ends = workload.statement(dependence.source), workload.statement(dependence.sink)
    early, late = (
        function(each.name, each.dims, [variable(loop)]) for each, loop in zip(ends, (first, second), strict=True)
    )
    pair = first_pair(relation.subtract(sooner(early, late).union(same_value(early, late))))
    if pair is None:
        return None
    earlier, later = (point(workload, each.name, at) for each, at in zip(ends, pair, strict=True))
    return ForbiddenFusion(first, second, dependence.tensor, earlier, later)
