"""The question of a search: one accumulation over a box, the machine's facts, the user's rules, structures and lattices."""
