from polymap.search.product_bounds.answers import (
    ProductEngine as ProductEngine,
    bound_products as bound_products,
    solve_products as solve_products,
)
