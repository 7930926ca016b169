"""The question of a search: an accumulation over a box, the machine, the rules, structures and lattices."""
