"""Uniform samples of the mapping space, scored together; neighbours and distances of mappings."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
