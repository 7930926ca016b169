"""The question of a search: an accumulation over a box, the machine, the rules, structures and lattices."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
