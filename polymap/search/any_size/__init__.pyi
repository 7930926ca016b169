from polymap.search.any_size.phases import (
    AnyAnswer as AnyAnswer,
    POLISHED as POLISHED,
    annealed as annealed,
    reaches as reaches,
    solve_regions as solve_regions,
    walked as walked,
)
