"""Accepts or refuses certificates; knows nothing of the rest of polymap."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
