from polymap.search.product_bounds.answers import solve_products as solve_products
