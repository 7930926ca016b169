"""How values show themselves in a terminal and in a notebook."""
