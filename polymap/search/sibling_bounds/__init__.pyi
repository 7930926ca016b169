from polymap.search.sibling_bounds.engine import SiblingBound as SiblingBound, SiblingSearch as SiblingSearch
