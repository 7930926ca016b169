"""Figures of the mapping space: data first, then one picture of each."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
