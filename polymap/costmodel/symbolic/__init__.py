"""The closed form as expressions in the tiles of the mapping's loops."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
