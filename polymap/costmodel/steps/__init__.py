"""Latency in steps: what every step of a level moves, how long that takes, and what it takes at least."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.costmodel.steps.bounds import beats_by_rows as beats_by_rows, bounding_machine as bounding_machine
    from polymap.costmodel.steps.counts import (
        StepCounts as StepCounts,
        not_in_steps as not_in_steps,
        unsupported_in_steps as unsupported_in_steps,
    )
    from polymap.costmodel.steps.latency import latency_of_steps as latency_of_steps
    from polymap.costmodel.steps.trees import counted_in_steps as counted_in_steps
