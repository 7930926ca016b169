"""What is walked whole: every step of a mapping (as integer sets, too), every access to its caches and banks, every
mapping of a small space."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.costmodel.referees.flow import Flow as Flow, Ledger as Ledger, Scene as Scene
    from polymap.costmodel.referees.misses import CacheMisses as CacheMisses
    from polymap.costmodel.referees.set_counts import counts_of_sets as counts_of_sets
    from polymap.costmodel.referees.set_tree import StatementRows as StatementRows, read_tree as read_tree
    from polymap.costmodel.referees.step_boxes import (
        StepBoxes as StepBoxes,
        held_apart as held_apart,
        tree_of_boxes as tree_of_boxes,
    )
    from polymap.costmodel.referees.trees import (
        ExhaustiveResult as ExhaustiveResult,
        TreeWalk as TreeWalk,
        scored_trees as scored_trees,
    )
    from polymap.costmodel.referees.walk import count_by_simulation as count_by_simulation
