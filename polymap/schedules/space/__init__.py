"""The size of the mapping space, counted without listing it, and uniform choices from it."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
