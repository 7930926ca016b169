"""The answer of `polymap check`: dependences, legal orders, parallel loops, violations of a mapping."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from math import factorial

from polymap import ir
from polymap.poly import within
from polymap.resources import ending_within
from polymap.schedules.check import check_mapping
from polymap.schedules.legality import Parallel, dependence_violations, legal_orders, parallel_loop
from polymap.schedules.nests import Nests, nests
from polymap.schedules.relation import serial
from polymap.schedules.signs import band, count_legal_permutations, sign_vectors
from polymap.schedules.tuning import TUNING
from polymap.workload import Dependence, dependence_relations, dependences


@dataclass(frozen=True, slots=True)
class Orders:
    """How many orders the outermost perfectly nested loops have.

    strict: legal without reordering accumulations. relaxed: legal with reordering (if the workload is associative).
    None: too many loops with dependences to count. legal_strict: the strict ones, outermost loop first, in
    lexicographic order; None where `total` exceeds TUNING.most_listed_orders.
    """

    total: int
    strict: int | None
    relaxed: int | None
    legal_strict: tuple[tuple[str, ...], ...] | None


@dataclass(frozen=True, slots=True)
class Checkup:
    """The answer of `polymap check`.

    loops: the outermost perfectly nested loops, outermost first. parallel: for each of
    them True, "reduction" (if partial sums are added afterwards) or False, with the loops outside it in order.
    nests: what may be done with every loop of the program.
    violations: of the mapping; None if there was none.
    """

    dependences: tuple[Dependence, ...]
    loops: tuple[str, ...]
    orders: Orders
    parallel: tuple[tuple[str, bool | str], ...]
    nests: Nests
    violations: tuple[ir.Violation, ...] | None


def checkup(workload: ir.Workload, mapping: ir.Mapping | None = None, *, time_limit_s: float | None = None) -> Checkup:
    """Return dependences, orders and parallel loops of the workload, and the dependences that the mapping breaks.

    Raises MappingError for a mapping that is no program of the workload (its levels are not checked), and
    BudgetError where this takes more than the time limit: wall time; None: 4.5 seconds of CPU time, so that a busy
    machine answers what an idle one does.
    """
    dependence_relations(workload)  # kept for the next question; a process of its own would lose them
    seconds = TUNING.report_s if time_limit_s is None else time_limit_s
    with ending_within(time_limit_s):
        return within(seconds, "checking this program", _checkup, workload, mapping)


def _checkup(workload: ir.Workload, mapping: ir.Mapping | None) -> Checkup:
    loops = band(workload)
    violations: tuple[ir.Violation, ...] | None = None
    if mapping is not None:
        check_readable(workload, mapping)
        violations = dependence_violations(workload, mapping)
    return Checkup(
        dependences(workload),
        loops,
        orders_of(workload),
        tuple((name, _parallel(workload, name)) for name in loops),
        nests(workload),
        violations,
    )


def orders_of(workload: ir.Workload) -> Orders:
    """Return the number of orders of the outermost perfectly nested loops, and the legal ones."""
    loops = band(workload)
    total = factorial(len(loops))
    listed: tuple[tuple[str, ...], ...] | None = None
    if total <= TUNING.most_listed_orders:
        every = islice(legal_orders(workload, strict=True), total)
        listed = tuple(order for order in every)
    strict = _counted(workload, strict=True) if listed is None else len(listed)
    return Orders(total, strict, _counted(workload, strict=False), listed)


def _counted(workload: ir.Workload, *, strict: bool) -> int | None:
    try:
        return count_legal_permutations(sign_vectors(workload, strict=strict), len(band(workload)))
    except ir.BudgetError:
        return None


def _parallel(workload: ir.Workload, loop: str) -> bool | str:
    answer = parallel_loop(workload, loop)
    return answer.value if answer is Parallel.REDUCTION else answer is Parallel.YES


def check_readable(workload: ir.Workload, mapping: ir.Mapping) -> None:
    """Raise MappingError if the tree's loops and computes are no program on any machine."""
    anywhere = ir.Architecture("any", (ir.MemoryLevel("memory"), ir.ComputeUnit("compute")))
    check_mapping(workload, anywhere, ir.Mapping(ir.changed_nodes(serial(mapping).nodes, _without_tensors)))


def _without_tensors(node: ir.MappingNode) -> ir.MappingNode:
    """Return a storage node without tensors, in its place, by which messages name nodes; others as they are."""
    return ir.Storage("memory", ()) if isinstance(node, ir.Storage) else node
