from polymap.search.product_tiles.search import Answer as Answer, best_product_tiles as best_product_tiles
