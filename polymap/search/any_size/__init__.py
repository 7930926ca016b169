"""Lower bounds over tiles of any size: by geometric programs, and from whole numbers of siblings."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.any_size.geometric_answers import ProductEngine as ProductEngine
    from polymap.search.any_size.sibling_search import (
        SiblingSearch as SiblingSearch,
        climb_structures as climb_structures,
    )
    from polymap.search.any_size.sizes import group_starts as group_starts
    from polymap.search.any_size.window_passes import box_passes as box_passes, fewest_in_box as fewest_in_box
