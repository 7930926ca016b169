"""The size of the mapping space, counted without listing it, and uniform choices from it."""
