"""The size of the mapping space, counted without listing it, and uniform choices from it."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.schedules.space.size import (
        SpaceSize as SpaceSize,
        TileRule as TileRule,
        any_order_is_legal as any_order_is_legal,
        space_size as space_size,
    )
    from polymap.schedules.space.uniform import uniform_trees as uniform_trees
