"""Bounds and mappings over tiles of any size."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
