"""Orders and fronts over tiles of any size: one part at a time, under limits of the others."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.parts.stages import search_front as search_front, search_order as search_order
