"""How tensors lie in the outermost level: what reading them costs in bursts, and the best layouts of a network."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.layouts.bursts import BurstCounts as BurstCounts
    from polymap.layouts.choice import LayoutChoice as LayoutChoice
    from polymap.layouts.misses import CacheMisses as CacheMisses
