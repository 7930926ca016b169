"""Lower bounds over tiles of any size by geometric programs, where no tensor is a window."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.geometric_bounds.answers import ProductEngine as ProductEngine, bound_at_once as bound_at_once
