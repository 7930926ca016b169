from polymap.search.any_size.answers import (
    AnySizeAnswer as AnySizeAnswer,
    anneal_mappings as anneal_mappings,
    enumeration_answer as enumeration_answer,
    solve_regions as solve_regions,
)
from polymap.search.any_size.convex import ConvexBounds as ConvexBounds, OrderOptimum as OrderOptimum
from polymap.search.any_size.engine import RegionSearch as RegionSearch
from polymap.search.any_size.geometric import Programs as Programs, Solved as Solved, solve as solve
from polymap.search.any_size.node_costs import floats_suffice as floats_suffice
from polymap.search.any_size.orders import OrderMonomials as OrderMonomials
