from polymap.search.parts.stages import search_front as search_front, search_order as search_order
