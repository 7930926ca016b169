from polymap.search.any_size.answers import (
    AnySizeAnswer as AnySizeAnswer,
    anneal_mappings as anneal_mappings,
    enumeration_answer as enumeration_answer,
    has_region_bound as has_region_bound,
    solve_regions as solve_regions,
)
