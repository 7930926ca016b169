"""Lower bounds over tiles of any size from whole numbers of siblings."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
