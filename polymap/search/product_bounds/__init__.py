"""Lower bounds over tiles of any size where no tensor is a window, from whole numbers of siblings."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.product_bounds.answers import ProductEngine as ProductEngine, bound_at_once as bound_at_once
