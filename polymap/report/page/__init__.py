"""The representation of values in terminals and notebooks."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
