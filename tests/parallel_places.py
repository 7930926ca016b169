"""Which places of a schedule have independent instances, by isl: what the loops of the program are held against."""

from __future__ import annotations

from collections.abc import Iterator

from polymap.ir.loopnest import Workload
from polymap.poly import Clock, Map, at_same_time, budget
from polymap.schedules.legality import Parallel
from polymap.schedules.relation import Times
from polymap.workload.dependence_analysis import Kind, dependence_relations


def parallel_places(workload: Workload, schedule: Times) -> tuple[Parallel, ...]:
    """Return, per position of a legal schedule, whether instances that first differ there are independent."""
    length = max(len(times) for times in schedule.values())
    answers = [Parallel.YES] * length
    with budget(5_000_000, what="the parallel loops of a schedule"):
        for dependence, relation in dependence_relations(workload):
            source, sink = (
                Clock(name, workload.statement(name).dims, schedule[name])
                for name in (dependence.source, dependence.sink)
            )
            relaxed = workload.associative and dependence.kind is Kind.REDUCTION
            for place in _carrying_places(relation, source, sink, length):
                if not relaxed:
                    answers[place] = Parallel.NO
                elif answers[place] is Parallel.YES:
                    answers[place] = Parallel.REDUCTION
    return tuple(answers)


def _carrying_places(relation: Map, source: Clock, sink: Clock, length: int) -> Iterator[int]:
    """Yield the positions of a legal schedule at which some pair of the relation first differs."""
    for place in range(length):
        if relation.is_empty():
            return
        equal = relation.intersect(at_same_time(source, sink, place))
        if not equal.is_equal(relation):
            yield place
        relation = equal
