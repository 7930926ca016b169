"""Every legal canonical loop tree, scored exactly (small spaces, and the referee of the search), and boxes of trees."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.enumeration.box_trees import tree_of_boxes as tree_of_boxes
    from polymap.search.enumeration.step_boxes import StepBoxes as StepBoxes, held_apart as held_apart
    from polymap.search.enumeration.trees import (
        ExhaustiveResult as ExhaustiveResult,
        TreeWalk as TreeWalk,
        scored_trees as scored_trees,
    )
