"""The mapping space: loop trees, their transforms, legality and size."""
