"""Counts by integer sets within a minute, for tests."""

from __future__ import annotations

from polymap.costmodel.counts import Counts
from polymap.costmodel.referees.set_counts import counts_of_sets
from polymap.ir.loopnest import Workload
from polymap.ir.machine import Architecture
from polymap.ir.mapping import Mapping
from polymap.poly import within


def count_with_sets(workload: Workload, arch: Architecture, mapping: Mapping) -> Counts:
    """Return the counts of a mapping; raises BudgetError where the sets are too large to be counted in time."""
    return within(60, "counting this mapping with sets", counts_of_sets, workload, arch, mapping)
