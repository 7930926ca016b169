from polymap.search.product_bounds.answers import (
    ProductAnswer as ProductAnswer,
    bound_products as bound_products,
    solve_products as solve_products,
)
