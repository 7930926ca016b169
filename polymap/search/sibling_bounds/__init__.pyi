from polymap.search.sibling_bounds.engine import SiblingSearch as SiblingSearch
