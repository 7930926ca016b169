"""Every legal canonical loop tree, scored exactly: small spaces, and the referee of the search."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.enumeration.trees import (
        ExhaustiveResult as ExhaustiveResult,
        Walking as Walking,
        scored_trees as scored_trees,
    )
