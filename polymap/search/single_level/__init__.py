"""Linear costs of one buffer below the outermost level: bounds over all loop trees; traffic for all sizes at once."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.single_level.bounds import bound_at_once as bound_at_once
    from polymap.search.single_level.product_programs import ProductChain as ProductChain
    from polymap.search.single_level.sizes import (
        OfSize as OfSize,
        solve_cells as solve_cells,
        solve_sizes as solve_sizes,
    )
