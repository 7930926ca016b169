from polymap.search.product_bounds.answers import (
    ProductEngine as ProductEngine,
    bound_at_once as bound_at_once,
)
