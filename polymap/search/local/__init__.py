"""Mappings of one statement without proof: a climb over loop trees, from random ones and near known ones."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.local.climb import TreeClimber as TreeClimber
    from polymap.search.local.polish import (
        DividingPolish as DividingPolish,
        climb_beside as climb_beside,
        climber_for as climber_for,
    )
    from polymap.search.local.tree_edits import LoopsInward as LoopsInward, shares_of as shares_of
