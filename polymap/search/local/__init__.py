"""Mappings without proof: sampling, annealing, dataflow templates, polish."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.local.climb import TreeClimber as TreeClimber
    from polymap.search.local.methods import draw_by_annealing as draw_by_annealing
    from polymap.search.local.polish import (
        Annealer as Annealer,
        DividingPolish as DividingPolish,
        anneal_mappings as anneal_mappings,
        annealer_of as annealer_of,
        can_be_annealed as can_be_annealed,
    )
    from polymap.search.local.tree_edits import LoopsInward as LoopsInward, shares_of as shares_of
