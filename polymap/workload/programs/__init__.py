"""Programs written as einsums or as Python functions."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
