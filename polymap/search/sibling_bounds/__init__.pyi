from polymap.search.sibling_bounds.climbing import climb_structures as climb_structures
from polymap.search.sibling_bounds.engine import SiblingSearch as SiblingSearch
