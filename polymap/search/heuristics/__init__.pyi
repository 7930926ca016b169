from polymap.search.heuristics.methods import annealed_once as annealed_once
from polymap.search.heuristics.polish import (
    Annealer as Annealer,
    DividingPolish as DividingPolish,
    annealer_of as annealer_of,
    is_polished as is_polished,
)
