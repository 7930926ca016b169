"""The space of one statement's loop trees, without proof: drawn, scored, changed step by step, climbed over."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.trees.climb import TreeClimber as TreeClimber
    from polymap.search.trees.moves import neighbours as neighbours
    from polymap.search.trees.polish import (
        DividingPolish as DividingPolish,
        climb_beside as climb_beside,
        climber_for as climber_for,
    )
    from polymap.search.trees.samples import Sample as Sample, sample_mappings as sample_mappings
    from polymap.search.trees.scores import Scores as Scores, score as score
    from polymap.search.trees.tree_edits import LoopsInward as LoopsInward, shares_of as shares_of
