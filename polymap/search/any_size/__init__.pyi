from polymap.search.any_size.phases import (
    POLISHED as POLISHED,
    AnyAnswer as AnyAnswer,
    annealed as annealed,
    reaches as reaches,
    solve_regions as solve_regions,
    walked as walked,
)
