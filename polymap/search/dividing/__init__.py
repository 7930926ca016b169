"""The proof over tiles that divide: structures best first, exact node costs on the divisor lattice."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.dividing.engine import (
        Found as Found,
        Outcome as Outcome,
        count_of_refuted as count_of_refuted,
        open_structures as open_structures,
        outcome_to_resume as outcome_to_resume,
        solve as solve,
    )
    from polymap.search.dividing.loop_order import CompletedMapping as CompletedMapping
    from polymap.search.dividing.product_padding import (
        cut_to as cut_to,
        mappings_of_padded as mappings_of_padded,
        with_extents as with_extents,
    )
    from polymap.search.dividing.product_search import best_product_tiles as best_product_tiles
    from polymap.search.dividing.progress import Count as Count, OpenStructures as OpenStructures
