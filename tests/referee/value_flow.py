"""Value-based flow of a program: of the dependences through memory those from the last write before each read."""

from polymap.ir import Affine, Statement, Workload
from polymap.poly import Map, budget, ends_of, flow_of_values, function
from polymap.workload.dependence_analysis import (
    Dependence,
    Kind,
    _access_map,
    _described,
    _events,
    domain_of,
    interleaved,
)


def value_based_flow(workload: Workload) -> tuple[Dependence, ...]:
    """Return the flow from instances that computed a value to those that read it: only the last write counts.

    An accumulation reads the value that it accumulates onto. Exact, and much slower than `dependences`.
    """
    found: list[Dependence] = []
    with budget(what="value-based flow analysis"):
        times = [_time(workload, statement) for statement in workload.statements]
        for tensor in workload.tensors:
            events = _events(workload, tensor.name)
            writes = [_access_map(workload, event) for event in events if event.writes]
            reads = [_access_map(workload, event) for event in events if event.reads]
            if writes and reads:
                for relation in flow_of_values(reads, writes, times):
                    key = (*ends_of(relation), Kind.FLOW, tensor.name)
                    found.append(_described(workload, key, [relation])[0])
    return tuple(found)


def _time(workload: Workload, statement: Statement) -> Map:
    """Return { instance -> place in time }: place before the first loop, first counter, and so on."""
    deepest = max(len(each.dims) for each in workload.statements)
    places = list(interleaved(statement))
    places.extend([Affine()] * (2 * deepest + 1 - len(places)))
    return function(statement.name, statement.dims, places).intersect_domain(domain_of(workload, statement))
