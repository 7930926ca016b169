from polymap.search.product_bounds.answers import ProductAnswer as ProductAnswer, solve_products as solve_products
