"""The proof over tiles that divide: structures best first, exact node costs on the divisor lattice."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.dividing.chain import ChainNode as ChainNode
    from polymap.search.dividing.cost_tables import arithmetic_of as arithmetic_of, tree_tables as tree_tables
    from polymap.search.dividing.engine import (
        Found as Found,
        Outcome as Outcome,
        open_structures as open_structures,
        outcome_to_resume as outcome_to_resume,
        solve as solve,
    )
    from polymap.search.dividing.loop_order import CompletedMapping as CompletedMapping, best_mappings as best_mappings
    from polymap.search.dividing.node_costs import (
        SpatialFactors as SpatialFactors,
        read_weights as read_weights,
        update_end as update_end,
        update_terms as update_terms,
    )
    from polymap.search.dividing.progress import Count as Count, OpenStructures as OpenStructures
