"""Lower bounds over tiles of any size from whole numbers of siblings."""

from polymap.lazy import lazy

with lazy(__name__):
    from polymap.search.parallelism_bounds.climbing import climb_structures as climb_structures
    from polymap.search.parallelism_bounds.engine import SiblingSearch as SiblingSearch
    from polymap.search.parallelism_bounds.sizes import group_starts as group_starts
    from polymap.search.parallelism_bounds.window_passes import (
        box_passes as box_passes,
        fewest_in_box as fewest_in_box,
    )
