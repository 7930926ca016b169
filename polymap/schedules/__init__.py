"""The mapping space: loop trees, their transforms, legality and size."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
