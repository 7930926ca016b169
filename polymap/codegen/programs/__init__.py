"""Functions of whole programs: several statements, temporary arrays, regions of C, in any legal order."""

from polymap.faces import face

__getattr__, __dir__ = face(__name__)
