"""One mapping's cost, and why it is not legal; `simulate` walks every step as the referee."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

from polymap.costmodel.assembly import assemble, capacity_violations
from polymap.costmodel.cost import Cost
from polymap.costmodel.counting import count_mapping
from polymap.costmodel.counts import Counts
from polymap.costmodel.tuning import TUNING
from polymap.inputs import answers_in_words, expected_seconds
from polymap.ir import Architecture, Mapping, Violation, Workload
from polymap.resolve import ArchitectureLike, MappingLike, WorkloadLike, mapping_of, question_of
from polymap.resources import ending_within
from polymap.schedules import any_order_is_legal, check_mapping, placement_violations


@answers_in_words
def evaluate(
    workload: WorkloadLike, arch: ArchitectureLike, mapping: MappingLike, *, time_limit_s: float | None = None
) -> Cost:
    """Return the cost of a mapping, its counts exact; `method` says how they were counted ("closed form", "sets", or
    "steps": every step was walked, which is quicker where they are few).

    Violations make the cost illegal and do not keep it from being counted. Raises MappingError where the tree cannot
    be read as a program, BudgetError where counts or legality take more than the time limit. time_limit_s: wall time;
    None: 30 seconds of CPU time each, so that a busy machine answers what an idle one does.
    """
    workload, arch = question_of(workload, arch, partial(mapping_of, mapping))
    mapping = mapping_of(mapping)
    check_mapping(workload, arch, mapping)
    with _time_limit(time_limit_s) as seconds:
        counts, method = count_mapping(workload, arch, mapping, seconds=seconds)
        return _cost(workload, arch, mapping, counts, method, seconds)


def evaluate_in_cpu_time(workload: Workload, arch: Architecture, mapping: Mapping, seconds: float) -> Cost:
    """Return what `evaluate` does where counts and legality take no more than so many seconds of CPU time each."""
    check_mapping(workload, arch, mapping)
    with ending_within(None, seconds):
        counts, method = count_mapping(workload, arch, mapping, seconds=seconds)
        return _cost(workload, arch, mapping, counts, method, seconds)


def cost_of_counts(workload: Workload, arch: Architecture, mapping: Mapping, counts: Counts) -> Cost:
    """Return the cost of a mapping whose counts are known, found by walking all instances: what `evaluate` returns.

    Raises as `evaluate` does.
    """
    check_mapping(workload, arch, mapping)
    with _time_limit(None) as seconds:
        return _cost(workload, arch, mapping, counts, "steps", seconds)


@answers_in_words
def simulate(workload: WorkloadLike, arch: ArchitectureLike, mapping: MappingLike) -> Cost:
    """Return the cost of a mapping counted by walking its steps: the referee, for small cases."""
    workload, arch = question_of(workload, arch, partial(mapping_of, mapping))
    mapping = mapping_of(mapping)
    from polymap.costmodel.referees import count_by_simulation

    check_mapping(workload, arch, mapping)
    counts = count_by_simulation(workload, arch, mapping)
    return _cost(workload, arch, mapping, counts, "simulation", TUNING.count_limit_s)


@answers_in_words
def violations(
    workload: WorkloadLike, arch: ArchitectureLike, mapping: MappingLike, *, time_limit_s: float | None = None
) -> tuple[Violation, ...]:
    """Return why a mapping is not legal, () where it is: placement, dependences, capacity."""
    workload, arch = question_of(workload, arch, partial(mapping_of, mapping))
    mapping = mapping_of(mapping)
    check_mapping(workload, arch, mapping)
    with _time_limit(time_limit_s) as seconds:
        counts, _ = count_mapping(workload, arch, mapping, seconds=seconds)
        return _violations(workload, arch, mapping, counts, seconds)


@contextmanager
def _time_limit(time_limit_s: float | None) -> Generator[float, None, None]:
    """Give the CPU time that each question inside may take; a limit that a user set ends them all, as wall time."""
    with ending_within(None if time_limit_s is None else expected_seconds(time_limit_s)):
        yield TUNING.count_limit_s if time_limit_s is None else time_limit_s


def _cost(
    workload: Workload, arch: Architecture, mapping: Mapping, counts: Counts, method: str, seconds: float
) -> Cost:
    return assemble(workload, arch, counts, _violations(workload, arch, mapping, counts, seconds), method, mapping)


def _violations(
    workload: Workload, arch: Architecture, mapping: Mapping, counts: Counts, seconds: float
) -> tuple[Violation, ...]:
    return (
        *placement_violations(workload, arch, mapping),
        *_dependence_violations(workload, arch, mapping, seconds),
        *capacity_violations(arch, counts),
    )


def _dependence_violations(
    workload: Workload, arch: Architecture, mapping: Mapping, seconds: float
) -> tuple[Violation, ...]:
    if any_order_is_legal(workload):
        return ()
    from polymap.costmodel.coherence import stale_copies
    from polymap.schedules import dependence_violations

    found = dependence_violations(workload, mapping, seconds=seconds)
    return found or stale_copies(workload, arch, mapping, seconds=seconds)


def is_in_order(workload: Workload, arch: Architecture, mapping: Mapping) -> bool:
    """Return whether dependences allow a mapping that `check_mapping` accepts."""
    return not _dependence_violations(workload, arch, mapping, TUNING.count_limit_s)
