"""The best mapping of a product over tiles that divide, in milliseconds: for who asks often."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.product_tiles.padding import mappings_of_padded as mappings_of_padded
    from polymap.search.product_tiles.search import (
        best_product_tiles as best_product_tiles,
        product_weights as product_weights,
    )
