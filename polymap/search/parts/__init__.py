"""Orders and fronts over tiles of any size: one part at a time, under limits of the others."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
